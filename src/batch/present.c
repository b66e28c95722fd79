/* SPDX-License-Identifier: MIT */
/* From the maps that a network yields to pictures. */
#include "batch/banks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The planes that make a picture, each without gaps: 1 or 3. */
typedef struct planes {
  const float *plane[4];
  int32_t count, height, width;
} planes;

/* v * scale + offset becomes (v * scale + offset) * factor + shift, then |v| if asked for: in units where 1 is white. */
typedef struct curve {
  double factor, shift;
  bool absolute;
} curve;

static double toned(const gconv_tone *tone, double v) {
  v = v * tone->scale + tone->offset;
  return tone->range == GCONV_RANGE_ABS ? fabs(v) : v;
}

/* The range that the tone asks for. Minmax is taken over the finite values; without any, or of one, all is 0. */
static curve find_curve(const gconv_tone *tone, const planes *from) {
  curve c = {1, 0, tone->range == GCONV_RANGE_ABS};
  if (tone->range == GCONV_RANGE_SIGNED && tone->type != GCONV_F32)
    c = (curve){0.5, 0.5, false};
  if (tone->range != GCONV_RANGE_MINMAX)
    return c;
  double low = INFINITY, high = -INFINITY;
  for (int32_t p = 0; p < from->count; p++)
    for (int64_t i = 0; i < (int64_t)from->height * from->width; i++) {
      double v = toned(tone, (double)from->plane[p][i]);
      low = isfinite(v) ? fmin(low, v) : low;
      high = isfinite(v) ? fmax(high, v) : high;
    }
  c.factor = high > low ? 1 / (high - low) : 0;
  c.shift = high > low ? -low / (high - low) : 0;
  return c;
}

/* Saturated, to nearest even; NaN becomes 0. */
static uint32_t to_level(double v, double white) {
  v *= white;
  return v >= white ? (uint32_t)white : v > 0 ? (uint32_t)nearbyint(v) : 0;
}

static void store(gconv_type type, double v, void *row, size_t index) {
  if (type == GCONV_U8)
    ((uint8_t *)row)[index] = (uint8_t)to_level(v, 255);
  else if (type == GCONV_U16)
    ((uint16_t *)row)[index] = (uint16_t)to_level(v, 65535);
  else
    ((float *)row)[index] = (float)v;
}

/* Puts the planes, with their tone, into an interleaved picture of as many channels, the first pixel at (top, left). */
static void put(const gconv_tone *tone, const planes *from, gconv_image *picture, int32_t top, int32_t left) {
  curve c = find_curve(tone, from);
  for (int32_t p = 0; p < from->count; p++)
    for (int32_t y = 0; y < from->height; y++) {
      uint8_t *row = (uint8_t *)picture->data + (size_t)(top + y) * picture->row_bytes;
      const float *in = from->plane[p] + (int64_t)y * from->width;
      for (int32_t x = 0; x < from->width; x++)
        store(tone->type, toned(tone, (double)in[x]) * c.factor + c.shift, row,
              (size_t)(left + x) * (size_t)from->count + (size_t)p);
    }
}

static gconv_status make_picture(gconv_type type, int32_t height, int32_t width, int32_t channels, gconv_image *picture) {
  *picture = (gconv_image){.type = type, .frames = 1, .height = height, .width = width, .channels = channels};
  gconv_status status = gconv_image_allocate(picture);
  if (status != GCONV_OK)
    *picture = (gconv_image){0};
  return status;
}

/* ---- Which planes ---- */

static const float *plane_of(const gconv_image *maps, int32_t frame, int32_t channel) {
  size_t plane = (size_t)frame * (size_t)maps->channels + (size_t)channel;
  return (const float *)maps->data + plane * (maps->plane_bytes / sizeof(float));
}

/* K of the last bank. */
static int32_t filters_of(const gconv_bank_batch *job) {
  return job->layers[job->layer_count - 1].bank->filters;
}

/* Whether a picture has a plane of each channel of the image, c * K + k for filter k; else a picture is one plane. */
static bool is_colour(const gconv_bank_batch *job, const gconv_image *maps) {
  return maps->channels == 3 * filters_of(job);
}

size_t gconv_bank_results(const gconv_bank_batch *job) {
  return job->presentation == GCONV_PRESENT_PICTURES ? (size_t)filters_of(job) : 1;
}

static gconv_status check_count(const gconv_bank_batch *job, const gconv_image *maps) {
  if (maps->channels == filters_of(job) || is_colour(job, maps))
    return GCONV_OK;
  return gconv_set_error(GCONV_UNSUPPORTED, "pictures of channels applied one by one are grey or have three of them: write "
                                            ".npy, or use --combine");
}

static planes planes_of(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame, int32_t k) {
  planes from = {.count = is_colour(job, maps) ? 3 : 1, .height = maps->height, .width = maps->width};
  for (int32_t c = 0; c < from.count; c++)
    from.plane[c] = plane_of(maps, frame, c * filters_of(job) + k);
  return from;
}

/* ---- Presentations ---- */

static gconv_status present_filter(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame, int32_t k,
                                   gconv_image *picture) {
  gconv_status status = check_count(job, maps);
  if (status != GCONV_OK)
    return status;
  planes from = planes_of(job, maps, frame, k);
  status = make_picture(job->tone.type, maps->height, maps->width, from.count, picture);
  if (status == GCONV_OK)
    put(&job->tone, &from, picture, 0, 0);
  return status;
}

enum { MOSAIC_GAP = 2 }; /* pixels between tiles */

/* As many columns as make the sheet about square. */
static int32_t mosaic_columns(int32_t count, int32_t height, int32_t width) {
  int32_t columns = (int32_t)ceil(sqrt((double)count * (height + MOSAIC_GAP) / (width + MOSAIC_GAP)));
  return columns < 1 ? 1 : columns > count ? count : columns;
}

static gconv_status present_mosaic(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame,
                                   gconv_image *picture) {
  bool colour = is_colour(job, maps);
  int32_t count = colour ? filters_of(job) : maps->channels, columns = mosaic_columns(count, maps->height, maps->width);
  int64_t rows = (count - 1) / columns + 1, height = rows * (maps->height + MOSAIC_GAP) - MOSAIC_GAP;
  int64_t width = (int64_t)columns * (maps->width + MOSAIC_GAP) - MOSAIC_GAP;
  if (height > INT32_MAX || width > INT32_MAX)
    return gconv_set_error(GCONV_TOO_LARGE, "a mosaic of all outputs is too large: use --combine none");
  gconv_status status = make_picture(job->tone.type, (int32_t)height, (int32_t)width, colour ? 3 : 1, picture);
  if (status != GCONV_OK)
    return status;
  memset(picture->data, 0, picture->plane_bytes);
  for (int32_t k = 0; k < count; k++) {
    planes from = {.plane = {plane_of(maps, frame, k)}, .count = 1, .height = maps->height, .width = maps->width};
    if (colour)
      from = planes_of(job, maps, frame, k);
    put(&job->tone, &from, picture, k / columns * (maps->height + MOSAIC_GAP), k % columns * (maps->width + MOSAIC_GAP));
  }
  return GCONV_OK;
}

static gconv_status present_combined(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame,
                                     gconv_image *picture) {
  planes from = {.count = maps->channels, .height = maps->height, .width = maps->width};
  if (from.count != 1 && from.count != 3)
    return gconv_set_error(GCONV_UNSUPPORTED, "what is combined for each of so many channels is no picture: write .npy");
  for (int32_t c = 0; c < from.count; c++)
    from.plane[c] = plane_of(maps, frame, c);
  gconv_status status = make_picture(job->tone.type, maps->height, maps->width, from.count, picture);
  if (status == GCONV_OK)
    put(&job->tone, &from, picture, 0, 0);
  return status;
}

/* Full colours at equal distances around the circle of hues, from red over green to blue. */
static void hue(double turn, double rgb[3]) {
  for (int c = 0; c < 3; c++) {
    double distance = fabs(turn * 6 - 2 * c);
    distance = fmin(distance, 6 - distance);
    rgb[c] = fmin(fmax(2 - distance, 0), 1);
  }
}

static gconv_status present_labels(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame,
                                   gconv_image *picture) {
  gconv_type type = job->tone.type;
  gconv_status status = make_picture(type, maps->height, maps->width, 3, picture);
  if (status != GCONV_OK)
    return status;
  const float *label = plane_of(maps, frame, 0);
  for (int32_t y = 0; y < maps->height; y++)
    for (int32_t x = 0; x < maps->width; x++, label++) {
      double rgb[3];
      hue((double)*label / filters_of(job), rgb);
      for (size_t c = 0; c < 3; c++)
        store(type, rgb[c], (uint8_t *)picture->data + (size_t)y * picture->row_bytes, (size_t)x * 3 + c);
    }
  return GCONV_OK;
}

/* A frame of the maps as an array of its own. */
static gconv_status present_tensor(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame,
                                   gconv_image *picture) {
  *picture = *maps;
  picture->frames = 1;
  picture->data = NULL;
  gconv_status status = gconv_image_allocate(picture);
  if (status != GCONV_OK) {
    *picture = (gconv_image){0};
    return status;
  }
  memcpy(picture->data, plane_of(maps, frame, 0), (size_t)maps->channels * maps->plane_bytes);
  return job->nhwc ? gconv_to_nhwc(picture) : GCONV_OK;
}

gconv_status gconv_bank_present(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame, size_t result,
                                gconv_image *picture) {
  switch (job->presentation) {
  case GCONV_PRESENT_PICTURES:
    return present_filter(job, maps, frame, (int32_t)result, picture);
  case GCONV_PRESENT_MOSAIC:
    return present_mosaic(job, maps, frame, picture);
  case GCONV_PRESENT_COMBINED:
    return present_combined(job, maps, frame, picture);
  case GCONV_PRESENT_LABELS:
    return present_labels(job, maps, frame, picture);
  default:
    return present_tensor(job, maps, frame, picture);
  }
}

/* ---- Layouts ---- */

static void copy_sample(size_t bytes, uint8_t *to, const uint8_t *from) {
  if (bytes == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, bytes);
}

/* Of each frame, an array of a x b to b x a, whose elements are samples: in place of the image. */
static gconv_status transpose(gconv_image *image, size_t a, size_t b, int32_t channels, int32_t height, int32_t width) {
  gconv_image turned = *image;
  turned.channels = channels;
  turned.height = height;
  turned.width = width;
  turned.data = NULL;
  gconv_status status = gconv_image_allocate(&turned);
  if (status != GCONV_OK)
    return status;
  size_t bytes = gconv_type_bytes(image->type);
  for (int32_t n = 0; n < image->frames; n++) {
    const uint8_t *from = (const uint8_t *)image->data + (size_t)n * a * b * bytes;
    uint8_t *to = (uint8_t *)turned.data + (size_t)n * a * b * bytes;
    for (size_t j = 0; j < b; j++)
      for (size_t i = 0; i < a; i++)
        copy_sample(bytes, to + (j * a + i) * bytes, from + (i * b + j) * bytes);
  }
  turned.icc = image->icc;
  image->icc = NULL;
  gconv_image_free(image);
  *image = turned;
  return GCONV_OK;
}

/* Read as channels H, height W, width C. */
gconv_status gconv_to_nchw(gconv_image *image) {
  int32_t height = image->channels, width = image->height, channels = image->width;
  return transpose(image, (size_t)height * (size_t)width, (size_t)channels, channels, height, width);
}

gconv_status gconv_to_nhwc(gconv_image *image) {
  int32_t height = image->height, width = image->width, channels = image->channels;
  return transpose(image, (size_t)channels, (size_t)height * (size_t)width, height, width, channels);
}

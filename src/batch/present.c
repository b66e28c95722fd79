/* SPDX-License-Identifier: MIT */
/* From the maps that a network yields to pictures. */
#include "batch/banks.h"
#include "batch/loop.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The planes that make a picture, each without gaps: 1 or 3. */
typedef struct planes {
  const float *plane[4];
  int32_t count, height, width;
} planes;

/* What becomes of a value, in units where 1 is white: v * factor + shift, and |that| if asked for. */
typedef struct curve {
  double factor, shift;
  bool absolute;
} curve;

/* The least and the largest finite value; false if there is none. */
static bool find_limits(const planes *from, float *low, float *high) {
  *low = INFINITY;
  *high = -INFINITY;
  for (int32_t p = 0; p < from->count; p++) {
    const float *values = from->plane[p];
    float least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < (int64_t)from->height * from->width; i++) {
      bool finite = fabsf(values[i]) <= FLT_MAX; /* not so of NaN */
      least = finite && values[i] < least ? values[i] : least;
      most = finite && values[i] > most ? values[i] : most;
    }
    *low = least < *low ? least : *low;
    *high = most > *high ? most : *high;
  }
  return *low <= *high;
}

/* A sample of the values, sorted, is enough to tell where all but a hundredth of them lie on either side. */
enum { SAMPLE = 1 << 15, TAIL = 100 };

static int compare(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Values at equal distances, as many as fit, which are finite: returns how many. */
static size_t take_sample(const planes *from, float sample[SAMPLE]) {
  int64_t plane = (int64_t)from->height * from->width, all = plane * from->count;
  double step = all > SAMPLE ? (double)all / SAMPLE : 1;
  size_t count = 0;
  for (size_t i = 0; i < SAMPLE && (double)i * step < (double)all; i++) {
    int64_t at = (int64_t)((double)i * step);
    float value = from->plane[at / plane][at % plane];
    if (fabsf(value) <= FLT_MAX)
      sample[count++] = value;
  }
  return count;
}

/* As find_limits(), but of all values except the hundredth that is least and that is largest: what borders and single
 * pixels do to a map does not make the rest of it flat. Maps that reach as far to both sides of 0, within a factor of 4,
 * have it in the middle, as mid-grey. The limits of all, where nothing else would be left. */
static bool find_common_limits(const planes *from, float *low, float *high) {
  float *sample = malloc(SAMPLE * sizeof *sample);
  size_t count = sample ? take_sample(from, sample) : 0;
  *low = *high = 0;
  if (count > 0) {
    qsort(sample, count, sizeof *sample, compare);
    *low = sample[count / TAIL];
    *high = sample[count - 1 - count / TAIL];
  }
  float reach = fmaxf(*high, -*low), other = fminf(*high, -*low);
  if (other * 4 > reach) {
    *high = reach;
    *low = -reach;
  }
  free(sample);
  return *low < *high || find_limits(from, low, high);
}

/* The tone of a picture. With minmax, one without two different values becomes 0. */
static curve find_curve(const gconv_tone *tone, const planes *from) {
  curve c = {tone->scale, tone->offset, tone->range == GCONV_RANGE_ABS};
  float low, high;
  if (tone->range == GCONV_RANGE_SIGNED && tone->type != GCONV_F32)
    return (curve){tone->scale / 2, tone->offset / 2 + 0.5, false};
  if (!tone->fit && tone->range != GCONV_RANGE_MINMAX)
    return c;
  if (!(tone->fit ? find_common_limits : find_limits)(from, &low, &high) || low == high || tone->scale == 0)
    return (curve){0, 0, false};
  double black = tone->scale > 0 ? (double)low : (double)high, white = tone->scale > 0 ? (double)high : (double)low;
  return (curve){1 / (white - black), -black / (white - black), false};
}

/* Saturated, to nearest even: beyond 2^52 the spacing of doubles is 1. NaN becomes 0. */
static inline int32_t to_level(double v, double white) {
  v = v * white;
  v = v > 0 ? v : 0;
  v = v < white ? v : white;
  return (int32_t)((v + 0x1p52) - 0x1p52);
}

static inline double bend(curve c, float v) {
  double y = (double)v * c.factor + c.shift;
  return c.absolute ? fabs(y) : y;
}

/* A row of one plane to every `step`-th sample. */
static void put_u8(curve c, const float *from, int32_t width, uint8_t *to, ptrdiff_t step) {
  for (int32_t x = 0; x < width; x++)
    to[x * step] = (uint8_t)to_level(bend(c, from[x]), 255);
}
static void put_u16(curve c, const float *from, int32_t width, uint16_t *to, ptrdiff_t step) {
  for (int32_t x = 0; x < width; x++)
    to[x * step] = (uint16_t)to_level(bend(c, from[x]), 65535);
}
static void put_f32(curve c, const float *from, int32_t width, float *to, ptrdiff_t step) {
  for (int32_t x = 0; x < width; x++)
    to[x * step] = (float)bend(c, from[x]);
}

static void put_row(gconv_type type, curve c, const float *from, int32_t width, void *row, size_t first, ptrdiff_t step) {
  if (type == GCONV_U8)
    put_u8(c, from, width, (uint8_t *)row + first, step);
  else if (type == GCONV_U16)
    put_u16(c, from, width, (uint16_t *)row + first, step);
  else
    put_f32(c, from, width, (float *)row + first, step);
}

/* Puts the planes, with their tone, into an interleaved picture of as many channels, the first pixel at (top, left). */
static void put(const gconv_tone *tone, const planes *from, gconv_image *picture, int32_t top, int32_t left) {
  curve c = find_curve(tone, from);
  for (int32_t y = 0; y < from->height; y++) {
    uint8_t *row = (uint8_t *)picture->data + (size_t)(top + y) * picture->row_bytes;
    for (int32_t p = 0; p < from->count; p++)
      put_row(tone->type, c, from->plane[p] + (int64_t)y * from->width, from->width, row,
              (size_t)left * (size_t)from->count + (size_t)p, from->count);
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

typedef struct mosaic {
  const gconv_bank_batch *job;
  const gconv_image *maps;
  int32_t frame, columns;
  bool colour;
  gconv_image *picture;
} mosaic;

static void put_tile(void *context, size_t tile) {
  const mosaic *m = context;
  int32_t k = (int32_t)tile, height = m->maps->height, width = m->maps->width;
  planes from = {.plane = {plane_of(m->maps, m->frame, k)}, .count = 1, .height = height, .width = width};
  if (m->colour)
    from = planes_of(m->job, m->maps, m->frame, k);
  put(&m->job->tone, &from, m->picture, k / m->columns * (height + MOSAIC_GAP), k % m->columns * (width + MOSAIC_GAP));
}

static gconv_status present_mosaic(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame, int threads,
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
  mosaic m = {job, maps, frame, columns, colour, picture};
  gconv_loop_run(threads, (size_t)count, put_tile, &m);
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
static void hue(double turn, float rgb[3]) {
  for (int c = 0; c < 3; c++) {
    double distance = fabs(turn * 6 - 2 * c);
    distance = fmin(distance, 6 - distance);
    rgb[c] = (float)fmin(fmax(2 - distance, 0), 1);
  }
}

static gconv_status present_labels(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame,
                                   gconv_image *picture) {
  gconv_type type = job->tone.type;
  gconv_status status = make_picture(type, maps->height, maps->width, 3, picture);
  if (status != GCONV_OK)
    return status;
  const curve plain = {1, 0, false};
  const float *label = plane_of(maps, frame, 0);
  for (int32_t y = 0; y < maps->height; y++)
    for (int32_t x = 0; x < maps->width; x++, label++) {
      float rgb[3];
      hue((double)*label / filters_of(job), rgb);
      put_row(type, plain, rgb, 3, (uint8_t *)picture->data + (size_t)y * picture->row_bytes, (size_t)x * 3, 1);
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
                                int threads, gconv_image *picture) {
  switch (job->presentation) {
  case GCONV_PRESENT_PICTURES:
    return present_filter(job, maps, frame, (int32_t)result, picture);
  case GCONV_PRESENT_MOSAIC:
    return present_mosaic(job, maps, frame, threads, picture);
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

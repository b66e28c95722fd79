/* SPDX-License-Identifier: MIT */
/* From the maps that a network yields to pictures. */
#include "batch/present.h"
#include "batch/loop.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

gconv_planes gconv_bank_tile(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame, int32_t tile) {
  gconv_planes from = {.count = 1, .height = maps->height, .width = maps->width};
  if (job->presentation == GCONV_PRESENT_COMBINED)
    from.count = maps->channels;
  else if (job->presentation != GCONV_PRESENT_LABELS && is_colour(job, maps))
    from.count = 3;
  bool colour = from.count == 3 && job->presentation != GCONV_PRESENT_COMBINED;
  for (int32_t c = 0; c < from.count; c++)
    from.plane[c] = plane_of(maps, frame, c * (colour ? filters_of(job) : 1) + tile);
  return from;
}

/* ---- Sheets ---- */

/* As many columns as make the sheet about square; without a gap at its end, if that can be had with it. */
static int32_t mosaic_columns(int32_t count, int32_t height, int32_t width) {
  double square = sqrt((double)count * (height + GCONV_MOSAIC_GAP) / (width + GCONV_MOSAIC_GAP)), off = 1.5;
  int32_t columns = (int32_t)ceil(square), full = 0;
  for (int32_t n = 1; n <= count && n < 2 * square; n++)
    if (count % n == 0 && fmax(n / square, square / n) <= off + 1e-6) {
      off = fmax(n / square, square / n);
      full = n;
    }
  if (full > 0)
    return full;
  return columns < 1 ? 1 : columns > count ? count : columns;
}

static gconv_status lay_mosaic(const gconv_bank_batch *job, const gconv_image *maps, gconv_map_sheet *sheet) {
  bool colour = is_colour(job, maps);
  sheet->count = colour ? filters_of(job) : maps->channels;
  sheet->columns = mosaic_columns(sheet->count, maps->height, maps->width);
  int64_t rows = (sheet->count - 1) / sheet->columns + 1;
  int64_t height = rows * ((int64_t)maps->height + GCONV_MOSAIC_GAP) - GCONV_MOSAIC_GAP;
  int64_t width = sheet->columns * ((int64_t)maps->width + GCONV_MOSAIC_GAP) - GCONV_MOSAIC_GAP;
  if (height > INT32_MAX || width > INT32_MAX)
    return gconv_set_error(GCONV_TOO_LARGE, "a mosaic of all outputs is too large: use --combine none");
  sheet->picture.height = (int32_t)height;
  sheet->picture.width = (int32_t)width;
  sheet->picture.channels = colour ? 3 : 1;
  return GCONV_OK;
}

gconv_status gconv_bank_lay(const gconv_bank_batch *job, const gconv_image *maps, size_t result, gconv_map_sheet *sheet) {
  *sheet = (gconv_map_sheet){.count = 1, .columns = 1};
  sheet->picture = (gconv_image){.type = job->tone.type, .frames = 1, .height = maps->height, .width = maps->width};
  bool colour = is_colour(job, maps);
  switch (job->presentation) {
  case GCONV_PRESENT_MOSAIC:
    return lay_mosaic(job, maps, sheet);
  case GCONV_PRESENT_COMBINED:
    sheet->picture.channels = maps->channels;
    if (maps->channels == 1 || maps->channels == 3)
      return GCONV_OK;
    return gconv_set_error(GCONV_UNSUPPORTED, "what is combined for each of so many channels is no picture: write .npy");
  case GCONV_PRESENT_LABELS:
    sheet->picture.channels = 3;
    return GCONV_OK;
  default:
    sheet->first = (int32_t)result;
    sheet->picture.channels = colour ? 3 : 1;
    if (colour || maps->channels == filters_of(job))
      return GCONV_OK;
    return gconv_set_error(GCONV_UNSUPPORTED, "pictures of channels applied one by one are grey or have three of them: "
                                              "write .npy, or use --combine");
  }
}

/* ---- Tiles ---- */

/* Full colours at equal distances around the circle of hues, from red over green to blue. */
static void hue(double turn, float rgb[3]) {
  for (int c = 0; c < 3; c++) {
    double distance = fabs(turn * 6 - 2 * c);
    distance = fmin(distance, 6 - distance);
    rgb[c] = (float)fmin(fmax(2 - distance, 0), 1);
  }
}

/* Each label has a pixel of its colour, made once. */
static gconv_status put_labels(const gconv_bank_batch *job, const gconv_planes *from, gconv_image *picture) {
  const gconv_curve plain = {1, 0, false};
  size_t bytes = 3 * gconv_type_bytes(job->tone.type);
  int32_t filters = filters_of(job);
  uint8_t *colours = malloc((size_t)filters * bytes);
  if (!colours)
    return gconv_set_error(GCONV_NO_MEMORY, "no memory for the colours of labels");
  for (int32_t k = 0; k < filters; k++) {
    float rgb[3];
    hue((double)k / filters, rgb);
    gconv_tone_put_row(job->tone.type, plain, rgb, 3, colours + (size_t)k * bytes, 0, 1);
  }
  const float *label = from->plane[0];
  for (int32_t y = 0; y < from->height; y++) {
    uint8_t *to = (uint8_t *)picture->data + (size_t)y * picture->row_bytes;
    for (int32_t x = 0; x < from->width; x++, to += bytes)
      memcpy(to, colours + (size_t)*label++ * bytes, bytes);
  }
  free(colours);
  return GCONV_OK;
}

bool gconv_bank_surveys(const gconv_bank_batch *job) {
  return job->presentation != GCONV_PRESENT_LABELS && job->presentation != GCONV_PRESENT_TENSOR &&
         gconv_tone_surveys(&job->tone);
}

gconv_status gconv_bank_put(const gconv_bank_batch *job, const gconv_planes *from, gconv_curve curve, gconv_image *picture,
                            int32_t top, int32_t left) {
  if (job->presentation == GCONV_PRESENT_LABELS)
    return put_labels(job, from, picture);
  gconv_tone_put(job->tone.type, curve, from, picture, top, left);
  return GCONV_OK;
}

/* ---- Whole pictures ---- */

typedef struct painting {
  const gconv_bank_batch *job;
  const gconv_image *maps;
  int32_t frame;
  const gconv_map_sheet *sheet;
  gconv_image *picture;
  atomic_int failure; /* the first status that was not GCONV_OK */
} painting;

static gconv_status paint(const painting *p, int32_t tile) {
  int32_t columns = p->sheet->columns;
  gconv_planes from = gconv_bank_tile(p->job, p->maps, p->frame, p->sheet->first + tile);
  gconv_survey survey = {0};
  if (gconv_bank_surveys(p->job)) {
    GCONV_TRY(gconv_survey_begin(from.count, from.height, from.width, &survey));
    gconv_survey_add(&survey, &from, 0);
  }
  gconv_status status =
      gconv_bank_put(p->job, &from, gconv_tone_curve(&p->job->tone, &survey), p->picture,
                     tile / columns * (from.height + GCONV_MOSAIC_GAP), tile % columns * (from.width + GCONV_MOSAIC_GAP));
  gconv_survey_free(&survey);
  return status;
}

static void paint_tile(void *context, size_t tile) {
  painting *p = context;
  int none = GCONV_OK;
  gconv_status status = paint(p, (int32_t)tile);
  if (status != GCONV_OK)
    atomic_compare_exchange_strong(&p->failure, &none, (int)status);
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
  if (job->presentation == GCONV_PRESENT_TENSOR)
    return present_tensor(job, maps, frame, picture);
  gconv_map_sheet sheet;
  gconv_status status = gconv_bank_lay(job, maps, result, &sheet);
  if (status == GCONV_OK)
    status = gconv_image_allocate(&sheet.picture);
  if (status != GCONV_OK)
    return status;
  *picture = sheet.picture;
  if (sheet.count > 1)
    memset(picture->data, 0, picture->plane_bytes);
  painting p = {job, maps, frame, &sheet, picture, GCONV_OK};
  gconv_loop_run(threads, (size_t)sheet.count, paint_tile, &p);
  int failure = atomic_load(&p.failure);
  return failure == GCONV_OK ? GCONV_OK : gconv_set_error((gconv_status)failure, "no memory to make a picture");
}

/* SPDX-License-Identifier: MIT */
#include "layer/tone.h"
#include "base/status.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- Surveys ---- */

enum { TAIL = 100 }; /* limits leave out 1 / TAIL of the sampled values on either side */

bool gconv_tone_surveys(const gconv_tone *tone) {
  if (tone->range == GCONV_RANGE_SIGNED)
    return false;
  return tone->fit || tone->range == GCONV_RANGE_MINMAX;
}

gconv_status gconv_survey_begin(int32_t count, int32_t height, int32_t width, gconv_survey *survey) {
  int64_t plane = (int64_t)height * width;
  *survey = (gconv_survey){.plane = plane,
                           .all = plane * count,
                           .low = INFINITY,
                           .high = -INFINITY,
                           .sample = malloc(GCONV_SURVEY_SAMPLE * sizeof(float))};
  return survey->sample ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory to survey a picture");
}

void gconv_survey_free(gconv_survey *survey) {
  free(survey->sample);
  *survey = (gconv_survey){0};
}

static void add_limits(gconv_survey *survey, const float *values, int64_t count) {
  float least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < count; i++) {
    bool finite = fabsf(values[i]) <= FLT_MAX; /* false for NaN */
    least = finite && values[i] < least ? values[i] : least;
    most = finite && values[i] > most ? values[i] : most;
  }
  survey->low = least < survey->low ? least : survey->low;
  survey->high = most > survey->high ? most : survey->high;
}

/* Adds values first .. first + count - 1 of the picture to the sample: only values at equal distances, as many as fit, and
 * only finite ones. */
static void add_sample(gconv_survey *survey, const float *values, int64_t first, int64_t count) {
  double step = survey->all > GCONV_SURVEY_SAMPLE ? (double)survey->all / GCONV_SURVEY_SAMPLE : 1;
  int64_t i = (int64_t)((double)first / step) - 1; /* rounding may have moved it by one */
  for (i = i > 0 ? i : 0; i < GCONV_SURVEY_SAMPLE && (double)i * step < (double)survey->all; i++) {
    int64_t at = (int64_t)((double)i * step) - first;
    if (at >= count)
      return;
    if (at >= 0 && fabsf(values[at]) <= FLT_MAX)
      survey->sample[survey->count++] = values[at];
  }
}

void gconv_survey_add(gconv_survey *survey, const gconv_planes *rows, int32_t first) {
  int64_t count = (int64_t)rows->height * rows->width, before = (int64_t)first * rows->width;
  for (int32_t p = 0; p < rows->count; p++) {
    add_limits(survey, rows->plane[p], count);
    add_sample(survey, rows->plane[p], p * survey->plane + before, count);
  }
}

/* ---- Curves ---- */

static int compare(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Finds limits without the lowest and the highest hundredth of the values, so that a few outliers at borders do not make a
 * map flat. If a map reaches about as far to both sides of 0 (within a factor of 4), 0 is in the middle, as mid-grey. If
 * these limits are equal, *low and *high keep the limits of all values. */
static void find_common_limits(const gconv_survey *survey, float *low, float *high) {
  if (survey->count == 0)
    return;
  qsort(survey->sample, survey->count, sizeof *survey->sample, compare);
  float least = survey->sample[survey->count / TAIL], most = survey->sample[survey->count - 1 - survey->count / TAIL];
  float reach = fmaxf(most, -least), other = fminf(most, -least);
  if (other * 4 > reach) {
    most = reach;
    least = -reach;
  }
  if (!(least < most))
    return;
  *low = least;
  *high = most;
}

gconv_curve gconv_tone_curve(const gconv_tone *tone, gconv_survey *survey) {
  if (tone->range == GCONV_RANGE_SIGNED)
    return (gconv_curve){tone->scale / 2, tone->offset / 2 + 0.5, false};
  if (!gconv_tone_surveys(tone))
    return (gconv_curve){tone->scale, tone->offset, tone->range == GCONV_RANGE_ABS};
  float low = survey->low, high = survey->high;
  if (tone->fit)
    find_common_limits(survey, &low, &high);
  if (!(low < high) || tone->scale == 0)
    return (gconv_curve){0, 0, false};
  double black = tone->scale > 0 ? (double)low : (double)high, white = tone->scale > 0 ? (double)high : (double)low;
  return (gconv_curve){1 / (white - black), -black / (white - black), false};
}

/* ---- Samples ---- */

/* Saturates, and rounds to nearest even: beyond 2^52 the spacing of doubles is 1. NaN becomes 0. */
static inline int32_t to_level(double v, double white) {
  v = v * white;
  v = v > 0 ? v : 0;
  v = v < white ? v : white;
  return (int32_t)((v + 0x1p52) - 0x1p52);
}

static inline double bend(gconv_curve c, float v) {
  double y = (double)v * c.factor + c.shift;
  return c.absolute ? fabs(y) : y;
}

double gconv_tone_value(gconv_curve c, float v) {
  return bend(c, v);
}

/* put_u8(), put_u16() and put_f32() put a row of one plane into every `step`-th sample. */
static void put_u8(gconv_curve c, const float *from, int32_t width, uint8_t *to, ptrdiff_t step) {
  for (int32_t x = 0; x < width; x++)
    to[x * step] = (uint8_t)to_level(bend(c, from[x]), 255);
}
static void put_u16(gconv_curve c, const float *from, int32_t width, uint16_t *to, ptrdiff_t step) {
  for (int32_t x = 0; x < width; x++)
    to[x * step] = (uint16_t)to_level(bend(c, from[x]), 65535);
}
static void put_f32(gconv_curve c, const float *from, int32_t width, float *to, ptrdiff_t step) {
  for (int32_t x = 0; x < width; x++)
    to[x * step] = (float)bend(c, from[x]);
}

void gconv_tone_put_row(gconv_type type, gconv_curve c, const float *from, int32_t width, void *row, size_t first,
                        ptrdiff_t step) {
  if (type == GCONV_U8)
    put_u8(c, from, width, (uint8_t *)row + first, step);
  else if (type == GCONV_U16)
    put_u16(c, from, width, (uint16_t *)row + first, step);
  else
    put_f32(c, from, width, (float *)row + first, step);
}

void gconv_tone_put(gconv_type type, gconv_curve curve, const gconv_planes *from, gconv_image *picture, int32_t top,
                    int32_t left) {
  for (int32_t y = 0; y < from->height; y++) {
    uint8_t *row = (uint8_t *)picture->data + (size_t)(top + y) * picture->row_bytes;
    for (int32_t p = 0; p < from->count; p++)
      gconv_tone_put_row(type, curve, from->plane[p] + (int64_t)y * from->width, from->width, row,
                         (size_t)left * (size_t)picture->channels + (size_t)p, picture->channels);
  }
}

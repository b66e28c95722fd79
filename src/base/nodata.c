/* SPDX-License-Identifier: MIT */
#include "base/nodata.h"
#include "base/element.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- As text ---- */

bool gconv_nodata_read(const char *text, double *value) {
  char *end = NULL;
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (plain == (locale_t)0)
    return false;
  *value = strtod_l(text, &end, plain);
  freelocale(plain);
  return end != text && end[strspn(end, " \t\r\n")] == '\0';
}

char *gconv_nodata_write(double value, char text[GCONV_NODATA_BYTES]) {
  double again = 0;
  if (isnan(value)) {
    memcpy(text, "nan", sizeof "nan");
    return text;
  }
  for (int digits = 9; digits <= 17; digits += 8) {
    snprintf(text, GCONV_NODATA_BYTES, "%.*g", digits, value);
    char *comma = strchr(text, ','); /* a decimal comma of the locale */
    if (comma)
      *comma = '.';
    if (gconv_nodata_read(text, &again) && again == value)
      break;
  }
  return text;
}

/* ---- Numbers ---- */

bool gconv_nodata_same(const gconv_image *a, const gconv_image *b) {
  return a->has_nodata == b->has_nodata &&
         (!a->has_nodata || a->nodata == b->nodata || (isnan(a->nodata) && isnan(b->nodata)));
}

/* Returns whether a sample of this type can have the value. */
static bool is_sample(gconv_type type, double value) {
  return type == GCONV_F32 || (value >= 0 && value <= gconv_level_of_white(type) && value == floor(value));
}

double gconv_nodata_as(const gconv_image *image, gconv_type type, bool *kept) {
  double value = image->nodata, white = gconv_level_of_white(type),
         level = value / gconv_level_of_white(image->type) * white;
  *kept = true;
  if (type == image->type || !is_sample(image->type, value))
    return value;
  if (type == GCONV_F32)
    return (double)(float)level;
  double nearest = isnan(level) || level < 0 ? 0 : level > white ? white : rint(level);
  *kept = nearest == level;
  return nearest;
}

/* ---- Samples ---- */

#define MARK(type, name)                                                                                                    \
  static bool name(const type *row, size_t samples, type value, uint8_t *marks) {                                           \
    uint8_t any = 0;                                                                                                        \
    for (size_t i = 0; i < samples; i++) {                                                                                  \
      marks[i] = row[i] == value;                                                                                           \
      any |= marks[i];                                                                                                      \
    }                                                                                                                       \
    return any;                                                                                                             \
  }
MARK(uint8_t, mark_u8)
MARK(uint16_t, mark_u16)
MARK(float, mark_f32)

static bool mark_nan(const float *row, size_t samples, uint8_t *marks) {
  uint8_t any = 0;
  for (size_t i = 0; i < samples; i++) {
    marks[i] = row[i] != row[i];
    any |= marks[i];
  }
  return any;
}

bool gconv_nodata_mark(const gconv_image *image, const void *row, size_t samples, uint8_t *marks) {
  if (!image->has_nodata || !is_sample(image->type, image->nodata)) {
    memset(marks, 0, samples);
    return false;
  }
  if (image->type == GCONV_U8)
    return mark_u8(row, samples, (uint8_t)image->nodata, marks);
  if (image->type == GCONV_U16)
    return mark_u16(row, samples, (uint16_t)image->nodata, marks);
  return isnan(image->nodata) ? mark_nan(row, samples, marks) : mark_f32(row, samples, (float)image->nodata, marks);
}

void gconv_nodata_store(const gconv_image *image, void *row, size_t i) {
  if (!is_sample(image->type, image->nodata))
    return;
  if (image->type == GCONV_U8)
    ((uint8_t *)row)[i] = (uint8_t)image->nodata;
  else if (image->type == GCONV_U16)
    ((uint16_t *)row)[i] = (uint16_t)image->nodata;
  else
    ((float *)row)[i] = (float)image->nodata;
}

/* SPDX-License-Identifier: MIT */
/* Samples of no data: a file may name a number that stands for places where nothing was measured. Samples that equal this
 * number are no data. */
#pragma once

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

enum { GCONV_NODATA_BYTES = 32 };

/* Reads the number in a text of a file: "-9999", "nan", "-3.4e+38", in any locale in the same way. Returns false if the text
 * is no number. */
bool gconv_nodata_read(const char *text, double *value);
/* Writes the number with 9 digits, or with 17 if it needs them. Returns `text`. */
char *gconv_nodata_write(double value, char text[GCONV_NODATA_BYTES]);

/* Returns whether two images have the same number of no data, or both have none. */
bool gconv_nodata_same(const gconv_image *a, const gconv_image *b);
/* Returns whether two images have the same shape and the same number of no data. Then one plan serves for both. */
static inline bool gconv_image_alike(const gconv_image *a, const gconv_image *b) {
  return gconv_image_same_shape(a, b) && gconv_nodata_same(a, b);
}

/* Returns the number of no data for results of another type. It is converted as levels are. If the type is an integer, it is
 * rounded to the nearest level. Sets *kept to false if that changes the number. */
double gconv_nodata_as(const gconv_image *image, gconv_type type, bool *kept);

/* Sets marks[i] to whether sample i of a row is no data; `samples`: of all channels. Returns whether there is such a one. */
bool gconv_nodata_mark(const gconv_image *image, const void *row, size_t samples, uint8_t *marks);
/* Sets sample i of a row to no data. */
void gconv_nodata_store(const gconv_image *image, void *row, size_t i);

GCONV_C_END

/* SPDX-License-Identifier: MIT */
/* Samples of no data: those that equal a number by which a file names places where nothing was measured. */
#pragma once

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

enum { GCONV_NODATA_BYTES = 32 };

/* The number that a text of a file is: "-9999", "nan", "-3.4e+38", whatever the locale. False if it is none. */
bool gconv_nodata_read(const char *text, double *value);
/* The shortest such text. Returns `text`. */
char *gconv_nodata_write(double value, char text[GCONV_NODATA_BYTES]);

/* Whether two images name the same number, or none. */
bool gconv_nodata_same(const gconv_image *a, const gconv_image *b);
/* Whether they have the same shape and the same number of no data: one plan serves for both. */
static inline bool gconv_image_alike(const gconv_image *a, const gconv_image *b) {
  return gconv_image_same_shape(a, b) && gconv_nodata_same(a, b);
}

/* What a sample of no data of `image` becomes in results of another type: as the levels do. Of floats, an integer takes the
 * nearest level; *kept is false if that is another number. */
double gconv_nodata_as(const gconv_image *image, gconv_type type, bool *kept);

/* marks[i] = whether sample i of a row of such an image is no data, whatever channel it is of. Returns whether one is. */
bool gconv_nodata_mark(const gconv_image *image, const void *row, size_t samples, uint8_t *marks);
/* Sets sample i of a row to no data. */
void gconv_nodata_store(const gconv_image *image, void *row, size_t i);

GCONV_C_END

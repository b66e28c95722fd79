/* SPDX-License-Identifier: MIT */
/* Images in memory that notices: bytes before, behind and between the samples have one value, and keep it. */
#ifndef GCONV_TESTS_GUARDED_H
#define GCONV_TESTS_GUARDED_H

#include "gconv.h"

typedef struct gconv_guarded {
  gconv_image image; /* its data lies inside `memory`: never gconv_image_free() it */
  uint8_t *memory;
  size_t bytes;
  uint8_t guard;
} gconv_guarded;

/* Makes an image of the shape and type of `header`, with `row_gap` elements behind every row and `plane_gap` behind every
 * plane, all bytes `guard`, samples too. False without memory. */
bool gconv_guarded_make(gconv_guarded *guarded, const gconv_image *header, size_t row_gap, size_t plane_gap, uint8_t guard);
void gconv_guarded_free(gconv_guarded *guarded);

/* Whether all bytes that are not samples are still what they were. */
bool gconv_guarded_intact(const gconv_guarded *guarded);

/* Whether two images have equal shapes and equal bits in all samples, whatever lies between the rows. Of shapes, `planar`
 * and `alpha` count. */
bool gconv_guarded_equal(const gconv_image *a, const gconv_image *b);

/* Rows of samples are accessed by number: there are `rows` of them, each `bytes` long; row i is at gconv_guarded_row(). */
typedef struct gconv_guarded_rows {
  size_t count, bytes;
} gconv_guarded_rows;
gconv_guarded_rows gconv_guarded_rows_of(const gconv_image *image);
uint8_t *gconv_guarded_row(const gconv_image *image, size_t i);

#endif

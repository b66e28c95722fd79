/* SPDX-License-Identifier: MIT */
/* Richardson-Lucy on the CPU: loops over samples (lucy_rows.c), and volumes (lucy_volume.c). */
#pragma once

#include "restore/lucy.h"

/* ratio = y / ratio, where `ratio` is the blurred guess; 0 where y is missing. Adds flux and deviance to the sums. */
void gconv_lucy_divide(const gconv_lucy *l, const float *y, float *ratio, size_t count, double *sums);

/* x = guess * up * inverse, not below 0; last = x - guess, unless `last` is NULL. Adds to the sums. */
typedef struct gconv_lucy_row {
  const float *guess, *up, *inverse, *before;
  float *x, *last;
} gconv_lucy_row;
void gconv_lucy_correct(const gconv_lucy_row *row, size_t count, double *sums);

/* guess = x + step * (x - before), not below 0. */
void gconv_lucy_predict(const float *x, const float *before, float step, float *guess, size_t count);

/* The state of a volume. gconv_lucy_volume_free() frees it; NULL is allowed. gconv_lucy_volume_begin() sets `inverse` and
 * the first guess. */
typedef struct gconv_lucy_volume gconv_lucy_volume;
gconv_status gconv_lucy_volume_begin(gconv_lucy *l, gconv_lucy_volume **volume);
/* Does an iteration: makes x from the guess, and adds to the sums. */
void gconv_lucy_volume_update(gconv_lucy_volume *v, double sums[GCONV_LUCY_SUMS]);
void gconv_lucy_volume_free(gconv_lucy_volume *v);

/* SPDX-License-Identifier: MIT */
/* Computes sums of a row of results in float64, without the samples of no data (holes.h). */
#pragma once

#include "conv/holes.h"

/* The state of an output sample, by the samples of no data under its taps. */
typedef enum gconv_sample_state {
  GCONV_SAMPLE_WHOLE,  /* no data is under its taps */
  GCONV_SAMPLE_MENDED, /* it is a weighted sum of the other samples */
  GCONV_SAMPLE_NO_DATA /* it is no data itself */
} gconv_sample_state;

/* The arguments of the sums of a pass; threads share it. */
typedef struct gconv_hole_summer {
  const gconv_pass *pass;
  const gconv_holes *holes;
  const gconv_image *convolved; /* rows from in_row on */
  int32_t in_row;
  int32_t *columns; /* owned, [extent]: for each column below the taps, the column of the image, or GCONV_OUTSIDE */
  size_t extent;
  float *factors; /* owned, [filters][rows + columns]: a column and a row whose product is the filter; NULL: some filter is
                     no such product */
  double *ends;   /* owned, [filters][2]: the sum of all taps; 1 if they have one sign, else 0 */
} gconv_hole_summer;

gconv_status gconv_hole_summer_make(const gconv_pass *pass, const gconv_holes *holes, const gconv_image *convolved,
                                    int32_t in_row, gconv_hole_summer *summer);
void gconv_hole_summer_free(gconv_hole_summer *summer);

/* Sums of some filters at places of a row of one channel. gconv_hole_sum_row() fills places begin .. end - 1. */
typedef struct gconv_hole_row {
  int32_t first, filters; /* the first filter, and how many filters */
  int32_t width;
  double *sums;    /* [filters][width] */
  uint8_t *states; /* [filters][width]: gconv_sample_state */
} gconv_hole_row;

/* Returns how many doubles the workspace of a thread has. */
size_t gconv_hole_workspace(const gconv_hole_summer *summer);

/* Makes the sums and states of row p at places begin .. end - 1, for channel `channel` of plane `plane`. */
void gconv_hole_sum_row(const gconv_hole_summer *summer, int64_t p, size_t plane, size_t channel, int32_t begin, int32_t end,
                        double *workspace, gconv_hole_row *row);

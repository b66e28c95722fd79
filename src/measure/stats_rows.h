/* SPDX-License-Identifier: MIT */
/* What rows of samples add to the statistics of an image. Rows are interleaved: `step` samples are a pixel. */
#pragma once

#include "gconv_science.h"

enum { GCONV_STATS_STEPS = 4 /* the most interleaved channels */ };

/* Sums of a channel. Those of responses are of responses that are finite. */
typedef struct gconv_stats_sums {
  double laplacian, squares, noise; /* sums of Laplacians, of their squares, and of |response| of the noise filter */
  uint64_t laplacians, noises;      /* how many */
  double mean, spread, least, most; /* of floats alone: of `count` samples; spread: the sum of squared deviations */
  uint64_t count, black, white;
} gconv_stats_sums;

/* Adds the sums `b` to `a`. */
void gconv_stats_sums_add(gconv_stats_sums *a, const gconv_stats_sums *b);

/* Adds, for each channel, what the responses at a row are. rows: the row above, the row, and the row below; at the upper
 * and lower end of an image, the one that exists stands for both. `inside`: both exist, so that noise is measured. */
void gconv_stats_responses(gconv_type type, const void *const rows[3], size_t pixels, size_t step, bool inside,
                           gconv_stats_sums *sums);

/* Counts the levels of rows that lie `row_bytes` apart: counts[channel][bins] of u8 (256) or u16 (65536). */
void gconv_stats_count(gconv_type type, const void *rows, size_t row_bytes, size_t count, size_t pixels, size_t step,
                       uint64_t *counts);

/* Finds the sums of a row of floats; missing ones are not finite. `unit`: white. Adds to them. */
void gconv_stats_floats(const float *row, size_t pixels, size_t step, double unit, gconv_stats_sums *sums);

/* Counts |a - b - c + d| of blocks of 2 x 2 samples of two rows: counts[channel][bins], with 511 or 131071 bins. */
void gconv_stats_count_blocks(gconv_type type, const void *const rows[2], size_t pixels, size_t step, uint64_t *counts);

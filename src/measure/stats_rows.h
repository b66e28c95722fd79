/* SPDX-License-Identifier: MIT */
/* Adds rows of samples to the statistics of an image. Rows are interleaved: `step` samples are a pixel. */
#pragma once

#include "gconv_science.h"

enum { GCONV_STATS_STEPS = 4 /* the most interleaved channels */ };

/* Sums of a channel. Responses that are not finite are left out. */
typedef struct gconv_stats_sums {
  double laplacian, squares, noise; /* sums of Laplacians, of their squares, and of |response| of the noise filter */
  uint64_t laplacians, noises;      /* how many responses were added */
  double mean, spread, least, most; /* of `count` samples; spread: the sum of squared deviations */
  uint64_t count, black, white;
} gconv_stats_sums;

void gconv_stats_sums_add(gconv_stats_sums *a, const gconv_stats_sums *b);

/* Adds the responses at a row to the sums of each channel. rows: the row above, the row, and the row below. At the top and
 * the bottom of an image, the neighbour that exists replaces the other. `inside`: both exist, so that noise is measured. */
void gconv_stats_responses(gconv_type type, const void *const rows[3], size_t pixels, size_t step, bool inside,
                           gconv_stats_sums *sums);

/* Counts the levels of rows that lie `row_bytes` apart: counts[channel][bins] of u8 (256) or u16 (65536). */
void gconv_stats_count(gconv_type type, const void *rows, size_t row_bytes, size_t count, size_t pixels, size_t step,
                       uint64_t *counts);

/* Adds a row of floats to mean, spread, least, most and counts. Missing samples are not finite. `unit`: white. */
void gconv_stats_floats(const float *row, size_t pixels, size_t step, double unit, gconv_stats_sums *sums);

/* Counts |a - b - c + d| of blocks of 2 x 2 samples of two rows: counts[channel][bins], with 511 or 131071 bins. */
void gconv_stats_count_blocks(gconv_type type, const void *const rows[2], size_t pixels, size_t step, uint64_t *counts);

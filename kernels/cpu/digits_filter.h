/* SPDX-License-Identifier: MIT */
/* A filter of digits.c: its taps as digits, and how its sums become levels. digits_filter.c makes it, digits.c uses it. */
#pragma once

#include "kernels/cpu/digits.h"
#include "kernels/cpu/rows.h"

enum { GCONV_DIGITS = 3 }; /* digits of a tap */

/* The target of functions that only run if gconv_digits_fit() is true. */
#if defined(__x86_64__) && defined(__GNUC__)
#define GCONV_DIGITS_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,avx2,fma")))
#else
#define GCONV_DIGITS_TARGET
#endif

/* The digits of four taps, for each row of a tile. */
typedef struct gconv_digits_taps {
  int32_t group;  /* the row of quads under the taps */
  int32_t sample; /* the first sample of that row under the taps; if it is negative, taps on samples below 0 are 0 */
  int32_t digits[GCONV_DIGITS][4]; /* [digit][row of the tile], four bytes each; the first digit is the lowest */
} gconv_digits_taps;

typedef struct gconv_digits_filter {
  int32_t count;       /* number of gconv_digits_taps; 0 if all sums are computed in floats */
  int32_t tall;        /* how many gconv_digits_taps, the first ones, have third digits other than 0 */
  int32_t shift;       /* sums are levels times 2^shift */
  int32_t start;       /* sums begin here: the offset, plus a half if levels are rounded, plus half the width of doubt */
  int32_t width;       /* a sum is in doubt if its low `shift` bits are less than this */
  float clear;         /* a sum of float32 is in doubt if it is further than this from the middle of its level */
  bool keeps_doubts;   /* a flat window whose sum is in doubt has the level of its samples */
  bool keeps_flat;     /* every flat window has the level of its samples, and all their sums are in doubt */
} gconv_digits_filter; /* the gconv_digits_taps follow in memory */

/* Returns the output rows of a tile. Quads have a multiple of 4 rows, and taps outside of the filter are 0. A tile
 * has 4, 2 or 1 rows: the number for which the fewest rows of taps are 0, or the largest such number. Tall columns have 4,
 * because the next tile uses their quads again. */
static inline int32_t gconv_digits_tile_rows(const gconv_problem *problem) {
  if (problem->rows == 1)
    return 1;
  if (problem->columns == 1 && problem->rows > 3)
    return 4;
  return problem->rows % 4 == 1 ? 4 : problem->rows % 4 == 0 ? 1 : 2;
}

/* Returns how many rows of quads a tile needs. */
static inline int32_t gconv_digits_groups(const gconv_problem *problem) {
  return problem->rows == 1 ? 1 : (problem->rows + gconv_digits_tile_rows(problem) - 1 + 3) / 4;
}

/* Returns how many gconv_digits_taps a filter has, at most. For a filter of one row, each has four neighbouring taps. For
 * other filters, each has four taps one below the other. */
static inline int32_t gconv_digits_most_taps(const gconv_problem *problem) {
  return problem->rows == 1 ? (problem->columns + 3) / 4 : gconv_digits_groups(problem) * problem->columns;
}

/* Returns whether the epilogue leaves sums as they are. */
static inline bool gconv_digits_keep_sums(const gconv_epilogue *e) {
  return e->scale == 1 && e->scale_low == 0 && e->offset == 0;
}

/* Returns the level that direct computes from a sum. */
GCONV_DIGITS_TARGET static inline uint32_t gconv_digits_level(const gconv_problem *problem, float sum) {
  sum = gconv_finish(sum, &problem->epilogue);
  return problem->epilogue.wrap ? gconv_cut_level(sum) & 255 : gconv_to_level(sum, 255);
}

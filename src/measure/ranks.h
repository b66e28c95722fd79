/* SPDX-License-Identifier: MIT */
/*
 * Order statistics of many numbers: medians and percentiles, exactly.
 *
 * Whole numbers from 0 on are counted, each in a bin of its own. Floats are counted by the upper half of a key of 32 bits
 * that grows with the float. The keys are kept, so that a second pass finds the lower half.
 */
#pragma once

#include "gconv.h"

#include <string.h>

enum { GCONV_RANKS_OF_FLOATS = 1 << 16 };

/* Numbers that were counted. */
typedef struct gconv_ranks {
  uint64_t *counts; /* [bins] */
  size_t bins;
  const uint32_t *keys; /* keys of floats, with GCONV_NO_KEY among them; NULL: the bins are numbers */
  size_t key_count;
  uint64_t *lower; /* with keys: room for GCONV_RANKS_OF_FLOATS counts */
} gconv_ranks;

#define GCONV_NO_KEY UINT32_MAX /* the key of no finite float */

/* Returns the key of a finite float; 0 and -0 have one key. */
static inline uint32_t gconv_ranks_key(float value) {
  uint32_t bits;
  value += 0.0F; /* -0 becomes 0 */
  memcpy(&bits, &value, sizeof bits);
  return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}
float gconv_ranks_value(uint32_t key);

/* Returns how many numbers were counted. */
uint64_t gconv_ranks_total(const gconv_ranks *ranks);

/* Returns a percentile, 0..100, of the numbers, interpolated linearly between two of them; NaN if there are no numbers. */
double gconv_ranks_percentile(const gconv_ranks *ranks, double percent);

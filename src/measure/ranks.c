/* SPDX-License-Identifier: MIT */
#include "measure/ranks.h"

#include <math.h>

float gconv_ranks_value(uint32_t key) {
  const uint32_t bits = key & 0x80000000U ? key & 0x7fffffffU : ~key;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint64_t gconv_ranks_total(const gconv_ranks *ranks) {
  uint64_t total = 0;
  for (size_t i = 0; i < ranks->bins; i++)
    total += ranks->counts[i];
  return total;
}

/* Finds the bin that has the number of this rank, from 0 on, and how many lie in the bins below. */
static size_t find_bin(const uint64_t *counts, size_t bins, uint64_t rank, uint64_t *below) {
  size_t bin = 0;
  *below = 0;
  while (bin + 1 < bins && *below + counts[bin] <= rank)
    *below += counts[bin++];
  return bin;
}

static double find_rank(const gconv_ranks *ranks, uint64_t rank) {
  uint64_t below, *lower = ranks->lower;
  const size_t bin = find_bin(ranks->counts, ranks->bins, rank, &below);
  if (!ranks->keys)
    return (double)bin;
  memset(lower, 0, GCONV_RANKS_OF_FLOATS * sizeof *lower);
  for (size_t i = 0; i < ranks->key_count; i++)
    if (ranks->keys[i] >> 16 == bin)
      lower[ranks->keys[i] & 0xffff]++;
  const size_t rest = find_bin(lower, GCONV_RANKS_OF_FLOATS, rank - below, &below);
  return (double)gconv_ranks_value((uint32_t)(bin << 16 | rest));
}

double gconv_ranks_percentile(const gconv_ranks *ranks, double percent) {
  const uint64_t total = gconv_ranks_total(ranks);
  if (total == 0)
    return NAN;
  const double place = (double)(total - 1) * (percent / 100), rank = floor(place);
  const double low = find_rank(ranks, (uint64_t)rank);
  return place > rank ? low + (place - rank) * (find_rank(ranks, (uint64_t)rank + 1) - low) : low;
}

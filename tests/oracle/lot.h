/* SPDX-License-Identifier: MIT */
/* Numbers by lot (SplitMix64): the same state gives the same numbers everywhere. */
#ifndef GCONV_TESTS_LOT_H
#define GCONV_TESTS_LOT_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t gconv_lot_next(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* One of 0 .. n - 1. */
static inline int32_t gconv_lot_below(uint64_t *state, int32_t n) {
  return (int32_t)(gconv_lot_next(state) % (uint64_t)n);
}

static inline bool gconv_lot_chance(uint64_t *state, int32_t percent) {
  return gconv_lot_below(state, 100) < percent;
}

/* One of the elements of an array. */
#define GCONV_LOT_PICK(state, list) ((list)[gconv_lot_below((state), (int32_t)(sizeof(list) / sizeof *(list)))])

#endif

/* SPDX-License-Identifier: MIT */
/* A part of integer.c: the integers of a row of taps, and the words that multiply two neighbouring bytes. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { MOST_PAIR_WEIGHT = 128 }; /* 128 * 255 = 32640 */

/* Taps of two neighbouring bytes, the first tap in the low byte: for an output at an even place and for the next output. */
typedef struct integer_taps {
  int16_t even, odd;
} integer_taps;

typedef struct integer_unit {
  int32_t row, column; /* the place in the filter of the first tap of `even` */
  integer_taps taps;
} integer_unit;

static int32_t integer_of(float tap, float unit) {
  return (int32_t)rintf(tap / unit);
}

/* Returns a word of two taps. */
static int16_t word_of(int32_t first, int32_t second) {
  return (int16_t)(uint16_t)((first & 255) | (second & 255) << 8);
}

/* A row of a filter: taps are integers times unit * divisor. */
typedef struct integer_row {
  const float *taps;
  float unit;
  int32_t divisor, count;
} integer_row;

/* Returns the integer of tap s, which is 0 outside of the row. */
static int32_t tap_at(const integer_row *row, int32_t s) {
  return s < 0 || s >= row->count ? 0 : integer_of(row->taps[s], row->unit) / row->divisor;
}

/* Returns the place of the first tap from `s` on that is not 0, or the number of taps. */
static int32_t next_tap(const integer_row *row, int32_t s) {
  while (s < row->count && tap_at(row, s) == 0)
    s++;
  return s;
}

/* Returns whether all sums of two products of neighbouring taps stay within 16 bits, so that the taps can share units. */
static bool go_together(const integer_row *row) {
  bool fit = true;
  for (int32_t s = 1; s < row->count; s++) {
    const int32_t a = tap_at(row, s - 1), b = tap_at(row, s);
    fit = fit && (a > 0 ? a : 0) + (b > 0 ? b : 0) <= MOST_PAIR_WEIGHT &&
          (a < 0 ? -a : 0) + (b < 0 ? -b : 0) <= MOST_PAIR_WEIGHT;
  }
  return fit;
}

/* SPDX-License-Identifier: MIT */
/* A part of integer.c, which explains units and the two steps: prepares the taps of a filter. */
#pragma once

#include "integer_levels.h"
#include "integer_row.h"
#include "kernels/factor.h"
#include "tile.h"

#include <stdlib.h>

enum {
  MOST_SHARED = 3, /* units of a row that rows of results share: the template has loops for so many */
};

typedef struct integer_filter {
  float unit;
  int32_t low, most; /* how far sums can fall below 0, and the largest sum */
  int32_t count;     /* units of taps, or, in two steps, of the row's taps */
  int32_t down;      /* in two steps, or if rows share sums: taps of the column that are not 0; else 0 */
  bool shares;       /* the column is 1 `middle` 1, and rows share sums */
  int16_t middle;
  integer_quotient quotient;
  uint16_t fill[1]; /* padding */
} integer_filter;   /* its units follow in memory, then its column: each tap is `even` of a unit */

/* Returns how far neighbouring taps of a row are apart, in bytes. */
static size_t step_of(const gconv_problem *problem) {
  return (size_t)problem->dilation_x * (size_t)problem->channels;
}

/* Returns about how many units `taps` taps take in rows of `columns` places. */
static double units_of(const gconv_problem *problem, double taps) {
  return step_of(problem) > 1 ? taps : fmin(taps, ceil(taps / problem->columns) * (problem->columns / 2 + 1));
}

/* cost_of_one() and cost_of_two() return the cost of a filter in one and in two steps, in instructions for 64 samples. A
 * unit takes 4. In two steps, each tap of the column takes 4, and about 2 for waits for the L2 cache. Keeping the rows
 * between the steps takes another 8. */
static double cost_of_one(const gconv_problem *problem) {
  return 4 * units_of(problem, (double)problem->structure.nonzero_taps / problem->filters);
}

static double cost_of_two(const gconv_problem *problem) {
  return 4 * units_of(problem, problem->columns) + 6.0 * problem->rows + 8;
}

/* Returns whether a filter is a column times a row, of rank 1, and two steps cost less. */
static bool goes_in_two(const gconv_problem *problem) {
  return problem->filters == 1 && problem->structure.rank == 1 && cost_of_two(problem) < cost_of_one(problem);
}

/* Returns whether rows of results can share sums along rows, if the column is 1 c 1. */
static bool may_share(const gconv_problem *problem) {
  return problem->filters == 1 && problem->structure.rank == 1 && problem->rows == 3 && problem->dilation_y == 1 &&
         !goes_in_two(problem);
}

static size_t filter_bytes(const gconv_problem *problem) {
  size_t taps = (size_t)problem->rows * (size_t)problem->columns;
  taps = (taps < MOST_WEIGHT ? taps : MOST_WEIGHT) + may_share(problem); /* 3 x 1 taps have a row of 1, and a column of 3 */
  return sizeof(integer_filter) + taps * sizeof(integer_unit);
}

static const integer_filter *filter_at(const gconv_execution *execution, int32_t k) {
  const char *prepared = (const char *)gconv_prepared(execution->problem, execution->weights);
  return (const void *)(prepared + (size_t)k * filter_bytes(execution->problem));
}

static const integer_unit *units_in(const integer_filter *filter) {
  return (const void *)(filter + 1);
}

/* Adds the units of row r of a filter. If taps share units, a unit at place s has the taps s and s + 1 for outputs at even
 * places, s - 1 and s for the others. Each unit is the last one of a tap, so there are no more units than taps. */
static void add_units(integer_filter *filter, integer_unit *units, const integer_row *row, size_t step, int32_t r) {
  const bool together = step == 1 && go_together(row);
  int32_t even = 0, odd = 0; /* the taps before these have their units */
  while ((odd = next_tap(row, odd)) < row->count) {
    even = next_tap(row, even);
    const int32_t s = odd < even ? odd + 1 : odd, here = tap_at(row, s);
    const integer_taps taps = {word_of(here, together ? tap_at(row, s + 1) : 0),
                               word_of(together ? tap_at(row, s - 1) : 0, here)};
    units[filter->count++] = (integer_unit){r, s, taps};
    even = even > s + 1 + together ? even : s + 1 + together;
    odd = s + 1;
  }
}

/* Integers whose unit is a power of two above 1 become larger integers with the unit 1, if these are still small: their sums
 * need no floats. */
static gconv_integers with_small_unit(gconv_integers integers) {
  if (!(integers.unit > 1 && integers.unit <= MOST_WEIGHT))
    return integers;
  const int32_t times = (int32_t)integers.unit;
  const gconv_integers larger = {1, integers.least * times, integers.largest * times, integers.positive * times,
                                 integers.negative * times};
  return gconv_is_of_bytes(&larger) && larger.positive + larger.negative <= MOST_WEIGHT ? larger : integers;
}

/* Sets the fields that do not depend on the number of steps. Returns the unit: taps are integers times the unit. */
static float begin_filter(const gconv_problem *problem, const float *weights, int32_t k, integer_filter *filter) {
  const int64_t plane = (int64_t)problem->rows * problem->columns;
  gconv_integers integers = with_small_unit(gconv_find_integers(weights + k * plane, plane));
  if (integers.unit == 0)
    integers = (gconv_integers){.unit = problem->structure.step, .positive = problem->structure.steps};
  *filter = (integer_filter){.unit = integers.unit, .low = integers.negative * 255, .most = integers.positive * 255};
  if (integers.negative == 0 && gconv_biases(problem, weights)[k] == 0)
    filter->quotient =
        quotient_of(problem, (double)integers.unit, integers.positive, (double)gconv_divisors(problem, weights)[k]);
  return integers.unit;
}

/* Returns the largest number that divides all integers of a row, or 0 if they are all 0. */
static int32_t divisor_of(const float *row, int32_t count, float unit) {
  int32_t divisor = 0;
  for (int32_t s = 0; s < count; s++)
    for (int32_t a = abs(integer_of(row[s], unit)); a != 0;) { /* Euclid's algorithm */
      int32_t rest = divisor % a;
      divisor = a;
      a = rest;
    }
  return divisor;
}

/* Prepares a filter that is a column times a row, for two steps. The row is the filter's first row that is not 0, divided by
 * its greatest common divisor. */
static void prepare_steps(const gconv_problem *problem, const float *taps, float unit, integer_filter *filter,
                          integer_unit *units) {
  const int32_t columns = problem->columns;
  integer_row row = {taps, unit, 0, columns};
  while ((row.divisor = divisor_of(row.taps, columns, unit)) == 0)
    row.taps += columns;
  const int32_t pivot = next_tap(&row, 0);
  add_units(filter, units, &row, step_of(problem), 0);
  for (int32_t r = 0; r < problem->rows; r++, taps += columns)
    if (taps[pivot] != 0)
      units[filter->count + filter->down++] =
          (integer_unit){.row = r, .taps.even = (int16_t)(integer_of(taps[pivot], unit) / tap_at(&row, pivot))};
}

/* Finds out whether rows of a filter that may share sums do, and sets `shares` and `middle`. */
static bool is_shared(integer_filter *filter, const integer_unit *units) {
  const integer_unit *column = units + filter->count;
  filter->shares = filter->count <= MOST_SHARED && filter->down == 3 && column[0].taps.even == 1 && column[2].taps.even == 1;
  filter->middle = filter->shares ? column[1].taps.even : 0;
  return filter->shares;
}

static size_t prepared_floats(const gconv_problem *problem) {
  return (size_t)problem->filters * filter_bytes(problem) / sizeof(float);
}

static gconv_status prepare(const gconv_problem *problem, const float *weights, float *prepared) {
  for (int32_t k = 0; k < problem->filters; k++) {
    void *filter = (char *)prepared + (size_t)k * filter_bytes(problem);
    void *units = (integer_filter *)filter + 1;
    const float *taps = weights + (size_t)k * (size_t)problem->rows * (size_t)problem->columns;
    const float unit = begin_filter(problem, weights, k, filter);
    if (goes_in_two(problem) || may_share(problem))
      prepare_steps(problem, taps, unit, filter, units);
    if (goes_in_two(problem) || is_shared(filter, units))
      continue;
    ((integer_filter *)filter)->count = ((integer_filter *)filter)->down = 0;
    for (int32_t r = 0; r < problem->rows; r++)
      add_units(filter, units, &(integer_row){taps + r * problem->columns, unit, 1, problem->columns}, step_of(problem), r);
  }
  return GCONV_OK;
}

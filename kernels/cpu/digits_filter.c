/* SPDX-License-Identifier: MIT */
/* Makes the filters of digits.c: the digits of taps, error bounds, and the condition for a sum in doubt. */
#include "kernels/cpu/digits_filter.h"
#include "base/cpu.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
  MOST_TAP = 127 * 65536 + 127 * 256 + 127,
  MOST_SHIFT = 23,
  MOST_FLAT = 8,     /* levels whose flat windows are in doubt, and computed again in float32; if there are more, and their
                        levels may change (set_flat()), all sums of the filter are computed in floats */
  MOST_SIDE = 9,     /* rows, and columns, of filters that are no single row or column; with more, floats are as fast */
  MOST_LENGTH = 128, /* taps of a row or column: with more, so many samples are in doubt that floats are faster */
  WINDOWS = 512,     /* windows of noise that are tried */
  MOST_NOISE = 8,    /* the most of these windows that may be in doubt: with one in 64, floats are as fast */
  LEAST_CUT = 16,    /* taps of a filter whose results are truncated: with fewer, most sums of smooth areas are in doubt, and
                        floats are fast */
};

static bool is_fitting_shape(const gconv_problem *problem) {
  const int32_t R = problem->rows, S = problem->columns;
  if (R == 1 || S == 1)
    return R * S > 1 && R * S <= MOST_LENGTH;
  return R <= MOST_SIDE && S <= MOST_SIDE;
}

bool gconv_digits_fit(const gconv_problem *problem) {
  const gconv_epilogue *e = &problem->epilogue;
  return gconv_cpu_dots() && problem->in_type == GCONV_U8 && problem->out_type == GCONV_U8 && problem->filters == 1 &&
         problem->stride_y == 1 && problem->stride_x == 1 && problem->dilation_y == 1 && problem->dilation_x == 1 &&
         !problem->keep_alpha && e->combine == GCONV_COMBINE_NONE && !e->absolute && !e->center &&
         problem->border_level >= 0 && problem->border_level <= 255 &&
         problem->border_level == rintf(problem->border_level) && is_fitting_shape(problem);
}

size_t gconv_digits_floats(const gconv_problem *problem) {
  return (sizeof(gconv_digits_filter) + (size_t)gconv_digits_most_taps(problem) * sizeof(gconv_digits_taps)) / sizeof(float);
}

/* The bounds of the sums of a filter, in levels. */
typedef struct digits_bounds {
  double above, below; /* the largest sum, and minus the least sum; both are at least 0 */
  double largest;      /* the largest |tap| */
  double error;        /* the largest distance of a float32 result from the exact one */
} digits_bounds;

/* Returns the largest rounding error of float32 for numbers up to `largest`: half of the distance between two neighbouring
 * numbers there. Beyond the range of float32, returns infinity. */
static double half_step(double largest) {
  int exponent;
  frexp(largest, &exponent);
  return largest < (double)FLT_MAX ? ldexp(1, exponent - 25) : INFINITY;
}

/* Returns the bounds of a filter's sums. float32 rounds each partial sum, and the epilogue rounds at most twice
 * (gconv_scale). The epilogue's two errors count double, because a value may slightly exceed the bound and a power of two,
 * above which a rounding error is twice as large. */
static digits_bounds bound_of(const gconv_problem *problem, const float *taps) {
  const double scale = (double)problem->epilogue.scale + (double)problem->epilogue.scale_low;
  const double offset = fabs((double)problem->epilogue.offset), most = 255 * fabs(scale);
  const int roundings = gconv_digits_keep_sums(&problem->epilogue) ? 0 : 4;
  double above = 0, below = 0, partial = 0;
  digits_bounds bounds = {0};
  for (int64_t i = 0; i < gconv_tap_count(problem); i++) {
    const double tap = (double)taps[i];
    above += tap > 0 ? tap : 0;
    below += tap < 0 ? -tap : 0;
    partial += half_step(255 * 1.001 * fmax(above, below));
    bounds.largest = fmax(bounds.largest, fabs(tap * scale));
  }
  bounds.above = most * (scale > 0 ? above : below) + offset;
  bounds.below = most * (scale > 0 ? below : above) + offset;
  bounds.error = 1.001 * (fabs(scale) * partial + roundings * half_step(fmax(bounds.above, bounds.below)));
  return bounds;
}

/* Returns whether results are levels of 0 to 255, rounded, or truncated without wrapping around. */
static bool is_level(const gconv_problem *problem, const float *weights, const digits_bounds *bounds) {
  if (gconv_divisors(problem, weights)[0] != 1 || gconv_biases(problem, weights)[0] != 0)
    return false;
  const bool stays = bounds->below == 0 && bounds->above + bounds->error < 255.99;
  return !problem->epilogue.wrap || (stays && gconv_tap_count(problem) >= LEAST_CUT);
}

/* Returns the largest shift with which taps fit into three digits, and sums into 32 bits. */
static int32_t shift_of(const digits_bounds *bounds) {
  int32_t shift = MOST_SHIFT;
  while (shift > 0 && (ldexp(bounds->largest, shift) > MOST_TAP - 1 ||
                       ldexp(fmax(bounds->above, bounds->below) + 0.75, shift) > 2147483647.0))
    shift--;
  return shift;
}

/* Returns tap number i as an integer. */
static int32_t integer_of(const gconv_problem *problem, const float *taps, int64_t i, int32_t shift) {
  const double scale = (double)problem->epilogue.scale + (double)problem->epilogue.scale_low;
  return (int32_t)lrint(ldexp((double)taps[i] * scale, shift));
}

/* Returns by how much the rounding of taps and of the offset can change a sum of integers. */
static double rounding_of(const gconv_problem *problem, const float *taps, int32_t shift) {
  const double scale = (double)problem->epilogue.scale + (double)problem->epilogue.scale_low;
  double above = 0, below = 0;
  for (int64_t i = 0; i < gconv_tap_count(problem); i++) {
    double error = integer_of(problem, taps, i, shift) - ldexp((double)taps[i] * scale, shift);
    above += error > 0 ? error : 0;
    below += error < 0 ? -error : 0;
  }
  return 255 * (above > below ? above : below) + 0.5;
}

/* Sets how sums become levels, and which sums are in doubt. A sum is in doubt if its distance to the next level is at most
 * the errors of the integer sum and of the float32 sum together. Returns false if too many sums would be in doubt. */
static bool set_doubt(const gconv_problem *problem, const float *taps, const digits_bounds *bounds,
                      gconv_digits_filter *filter) {
  const double error = ldexp(bounds->error, filter->shift) + rounding_of(problem, taps, filter->shift) + 1;
  const int32_t level = 1 << filter->shift;
  if (!(2 * error <= level / 256)) /* too many doubts; or the error is infinite, or NaN because the scale is 0 */
    return false;
  const double offset = ldexp((double)problem->epilogue.offset, filter->shift);
  filter->width = 2 * (int32_t)ceil(error);
  filter->clear = 0.5f - ldexpf((float)filter->width, -1 - filter->shift);
  filter->start = (int32_t)lrint(offset) + (problem->epilogue.wrap ? 0 : level / 2) + filter->width / 2;
  return true;
}

static bool is_in_doubt(const gconv_digits_filter *filter, int64_t sum) {
  return ((sum + filter->start) & ((1 << filter->shift) - 1)) < filter->width;
}

/* Returns whether many sums of noise are in doubt. If taps are sixths, for example, as in a Laplacian, one sum in six lies
 * half-way between two levels. */
static bool doubts_noise(const gconv_problem *problem, const float *taps, const gconv_digits_filter *filter) {
  uint32_t state = 1;
  int32_t doubts = 0;
  for (int32_t window = 0; window < WINDOWS; window++) {
    int64_t sum = 0;
    for (int64_t i = 0; i < gconv_tap_count(problem); i++) {
      state = state * 1664525u + 1013904223u;
      sum += (int64_t)integer_of(problem, taps, i, filter->shift) * (int64_t)(state >> 24);
    }
    doubts += is_in_doubt(filter, sum);
  }
  return doubts > MOST_NOISE;
}

/* Returns the level that direct computes for a flat window. */
GCONV_DIGITS_TARGET static uint32_t flat_level(const gconv_problem *problem, const float *taps, int32_t sample) {
  float sum = 0;
  for (int64_t i = 0; i < gconv_tap_count(problem); i++)
    sum = fmaf(taps[i], (float)sample, sum);
  return gconv_digits_level(problem, sum);
}

/* Looks at the flat windows of all 256 levels. Sets keeps_doubts and keeps_flat (digits_filter.h). Returns false if more
 * than MOST_FLAT of them are in doubt, and float32 changes the level of at least one of the windows in doubt. */
static bool set_flat(const gconv_problem *problem, const float *taps, gconv_digits_filter *filter) {
  int64_t sum = 0;
  int32_t doubts = 0;
  for (int64_t i = 0; i < gconv_tap_count(problem); i++)
    sum += integer_of(problem, taps, i, filter->shift);
  bool kept = true;
  for (int32_t sample = 0; sample < 256; sample++)
    if (is_in_doubt(filter, sum * sample)) {
      doubts++;
      kept = kept && flat_level(problem, taps, sample) == (uint32_t)sample;
    }
  filter->keeps_doubts = kept && doubts > 0;
  filter->keeps_flat = kept && doubts == 256;
  return kept || doubts <= MOST_FLAT;
}

/* Splits a tap into digits of 8 bits. Puts each digit into byte number `byte` of taps->digits[digit][row]. */
static void put_tap(gconv_digits_taps *taps, int32_t row, int32_t byte, int32_t tap) {
  for (int32_t digit = 0; digit < GCONV_DIGITS; digit++) {
    int32_t low = (int8_t)(tap & 255); /* -128 .. 127 */
    taps->digits[digit][row] |= (int32_t)((uint32_t)(low & 255) << 8 * byte);
    tap = (tap - low) / 256;
  }
}

/* Puts the taps of a filter of one row, after `lead` zeros. */
static void put_row(const gconv_problem *problem, const float *taps, int32_t lead, int32_t shift, gconv_digits_taps *to) {
  for (int32_t s = 0; s < problem->columns; s++)
    put_tap(&to[(s + lead) / 4], 0, (s + lead) % 4, integer_of(problem, taps, s, shift));
  for (int32_t i = 0; i < gconv_digits_most_taps(problem); i++)
    to[i].sample = (4 * i - lead) * problem->channels;
}

/* Puts the taps of a filter of several rows. For row j of a tile, they lie j rows further down. */
static void put_rows(const gconv_problem *problem, const float *taps, int32_t shift, gconv_digits_taps *to) {
  const int32_t S = problem->columns;
  for (int32_t i = 0; i < gconv_digits_most_taps(problem); i++) {
    to[i].group = i / S;
    to[i].sample = i % S * problem->channels;
  }
  for (int32_t j = 0; j < gconv_digits_tile_rows(problem); j++)
    for (int32_t r = 0; r < problem->rows; r++)
      for (int32_t s = 0; s < S; s++)
        put_tap(&to[(r + j) / 4 * S + s], j, (r + j) % 4, integer_of(problem, taps, (int64_t)r * S + s, shift));
}

static bool is_tall(const gconv_digits_taps *taps) {
  const int32_t *third = taps->digits[GCONV_DIGITS - 1];
  return (third[0] | third[1] | third[2] | third[3]) != 0;
}

/* Moves gconv_digits_taps with a third digit to the front. Returns their number. */
static int32_t sort_taps(gconv_digits_taps *taps, int32_t count) {
  int32_t tall = 0;
  for (int32_t i = 0; i < count; i++)
    if (is_tall(&taps[i])) {
      gconv_digits_taps other = taps[tall];
      taps[tall++] = taps[i];
      taps[i] = other;
    }
  return tall;
}

/* Puts all taps. A filter of one row may begin with zeros. Their number is chosen so that the fewest gconv_digits_taps need
 * a third digit. */
static void put_taps(const gconv_problem *problem, const float *taps, gconv_digits_filter *filter, gconv_digits_taps *to) {
  const int32_t count = gconv_digits_most_taps(problem), leads = problem->rows == 1 ? 4 * count - problem->columns : 0;
  int32_t best = 0;
  for (int32_t option = 0; option <= leads + 1; option++) { /* the last turn uses the best option */
    const int32_t lead = option > leads ? best : option;
    memset(to, 0, (size_t)count * sizeof *to);
    if (problem->rows == 1)
      put_row(problem, taps, lead, filter->shift, to);
    else
      put_rows(problem, taps, filter->shift, to);
    int32_t tall = sort_taps(to, count);
    if (option == 0 || tall < filter->tall) {
      best = lead;
      filter->tall = tall;
    }
  }
  filter->count = count;
}

void gconv_digits_prepare(const gconv_problem *problem, const float *weights, float *prepared) {
  gconv_digits_filter *filter = (void *)prepared;
  *filter = (gconv_digits_filter){0};
  const digits_bounds bounds = bound_of(problem, weights);
  if (!(bounds.above + bounds.below < 1e6) || !is_level(problem, weights, &bounds))
    return;
  filter->shift = shift_of(&bounds);
  if (set_doubt(problem, weights, &bounds, filter) && set_flat(problem, weights, filter) &&
      (filter->keeps_doubts || !doubts_noise(problem, weights, filter)))
    put_taps(problem, weights, filter, (void *)(filter + 1));
}

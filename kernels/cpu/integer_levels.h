/* SPDX-License-Identifier: MIT */
/* A part of integer.c: finds how sums become levels without floats, by a quotient or by a shift. */
#pragma once

#include "kernels/cpu/rows.h"

#include <math.h>

enum { MOST_WEIGHT = 257 }; /* the largest sum of |integer|: 257 * 255 = 65535 */

/* How a sum n becomes a level: the integer part of (n + half) * factor / 2^(16 + shift), but at most 255. If the factor
 * is 0, sums do not become levels in this way. */
typedef struct integer_quotient {
  uint16_t factor, half, shift;
} integer_quotient;

/* Returns whether the epilogue only multiplies, and its result is rounded to a level of u8. */
static bool rounds_product(const gconv_problem *problem) {
  const gconv_epilogue *e = &problem->epilogue;
  return problem->out_type == GCONV_U8 && e->combine == GCONV_COMBINE_NONE && e->offset == 0 && !e->center && !e->wrap &&
         e->scale > 0;
}

/* Returns whether a quotient is the level of n * by for each n of 0 .. most. `error` bounds the relative rounding error
 * of n * by in float32; no level may depend on that error. */
static bool is_right(integer_quotient q, double by, double error, int32_t most) {
  for (int32_t n = 0; n <= most; n++) {
    double value = n * by, level = rint(value);
    if (value >= 256) /* from here on, both are white */
      break;
    if (fabs(value - level) + value * error >= 0.5 || n + q.half > 65535)
      return false;
    if ((((uint32_t)n + q.half) * q.factor >> 16 >> q.shift) != (uint32_t)level)
      return false;
  }
  return most + q.half <= 65535;
}

/* Finds the quotient for sums n of 0 .. `most` whose level is n * by, for a factor `by` below 1. */
static integer_quotient find_quotient(double by, double error, int32_t most) {
  int exponent;
  const double fraction = frexp(by, &exponent); /* from 1/2 to 1 */
  for (int option = 0; option < 4 && by < 1 && exponent > -16 && most > 0; option++) {
    double factor = fraction * 65536, half = 0.5 / by;
    factor = option & 1 ? floor(factor) : ceil(factor);
    half = option & 2 ? ceil(half) : floor(half);
    if (factor > 65535 || half > 65535)
      continue;
    integer_quotient q = {(uint16_t)factor, (uint16_t)half, (uint16_t)-exponent};
    if (is_right(q, by, error, most))
      return q;
  }
  return (integer_quotient){0};
}

/* Finds the quotient of a filter whose sums are integers times `step`, divided by `divisor`. `steps` is the sum of its
 * integers. A chain of float32 has at most one rounding for each tap; the step, the divisor, the scale and so on add fewer
 * than 8 roundings. */
static integer_quotient quotient_of(const gconv_problem *problem, double step, int32_t steps, double divisor) {
  const double roundings = (double)problem->rows * problem->columns + 8;
  const double scale = (double)problem->epilogue.scale + (double)problem->epilogue.scale_low;
  if (!rounds_product(problem) || steps > MOST_WEIGHT || !(divisor > 0))
    return (integer_quotient){0};
  return find_quotient(step * scale / divisor, roundings * 0x1p-24, steps * 255);
}

/* Returns s if x is 2^-s for an s of 0 .. 8, else -1. With a larger s, a sum plus half a level would exceed 16 bits. */
static int shift_of(float x) {
  for (int shift = 0; shift <= 8; shift++)
    if (x == ldexpf(1, -shift))
      return shift;
  return -1;
}

/* Returns whether the epilogue of filter k only multiplies the sum, and its result can stay an integer. */
static bool only_scales(const gconv_execution *execution, int32_t k) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *e = &problem->epilogue;
  bool scales = e->offset == 0 && e->scale_low == 0 && !e->center && gconv_biases(problem, execution->weights)[k] == 0;
  const gconv_type out = problem->out_type;
  bool integers = out == GCONV_U8 || out == GCONV_I16 || (out == GCONV_U16 && e->wrap);
  return scales && integers && !gconv_is_combined(problem) && gconv_is_dense(execution);
}

/* Returns the shift by which sums of filter k become levels of the range "wrap", or -1 if floats are needed. Sums are from
 * -low to `most`, in units. If the divisor is 1, sums are the levels, and *upper does not change. If there are no negative
 * taps, a sum n can be divided by an integer d: *upper becomes the factor. All other sums need floats.
 *
 * With 2^b <= d < 2^(b+1), n / d becomes the upper part of n * f, where f is 2^(16+b) / d, rounded up. f has 16 bits, but
 * for d = 2^b: then f / 2 is the factor, and the shift is one less. Rounding adds `excess` / d to f, and thereby n * excess
 * / (d * 2^(16+b)) to the quotient. A quotient is at least 1 / d below the next integer, so it is right while n * excess <
 * 2^(16+b). Algorithms that divide floats have the same levels, because float32 never rounds a quotient of such n and d up
 * to an integer. */
static int find_wrap(const gconv_execution *execution, int32_t k, float unit, int32_t low, int32_t most, uint16_t *upper) {
  const float divisor = gconv_divisors(execution->problem, execution->weights)[k];
  const bool scales = only_scales(execution, k) && unit * execution->problem->epilogue.scale == 1;
  if (!scales || divisor < 1 || divisor > MOST_WEIGHT || divisor != rintf(divisor) || (divisor > 1 && low > 0))
    return -1;
  if (divisor == 1)
    return 0;
  uint64_t d = (uint64_t)divisor, power = (uint64_t)1 << 16;
  int shift = 0;
  for (; power / 65536 * 2 <= d; power *= 2)
    shift++;
  uint64_t factor = (power + d - 1) / d, excess = factor * d - power;
  if ((uint64_t)most * excess >= power)
    return -1;
  bool fits = factor < 65536; /* false if d is 2^b */
  *upper = (uint16_t)(fits ? factor : factor / 2);
  return fits ? shift : shift - 1;
}

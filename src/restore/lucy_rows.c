/* SPDX-License-Identifier: MIT */
/* Loops of Richardson-Lucy over samples on the CPU. */
#include "base/cpu.h"
#include "restore/lucy_cpu.h"

#include <string.h>

enum { LANES = 8 /* samples of a vector, whose sums are doubles */ };
typedef float singles __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef int32_t masks __attribute__((vector_size(LANES * sizeof(float))));
typedef double doubles __attribute__((vector_size(LANES * sizeof(double))));

/* Compilers make scalar code of plain loops that add floats up in double, so these have explicit vectors. A loop over
 * `count` samples: statements for the n samples from i on, n = LANES but for the last ones. */
#define EACH_VECTOR(...)                                                                                                    \
  for (size_t i = 0; i < count; i += LANES) {                                                                               \
    const size_t n = count - i < LANES ? count - i : LANES;                                                                 \
    __VA_ARGS__                                                                                                             \
  }
#define LOAD(v, from)                                                                                                       \
  singles v;                                                                                                                \
  load(&v, (from) + i, n)
#define STORE(to, v) store((to) + i, &v, n)
#define DOUBLES(v) __builtin_convertvector(v, doubles)
#define WHERE(mask, v) ((singles)((masks)(v) & (masks)(mask))) /* v, or 0 where the mask is 0 */

/* Loads n samples, and zeros for the others. Vectors are no arguments: how they are passed depends on the processor. */
GCONV_INLINE void load(singles *v, const float *from, size_t n) {
  *v = (singles){0};
  if (n == LANES)
    *v = *(const singles *)(const void *)from;
  else
    memcpy(v, from, n * sizeof *from);
}

GCONV_INLINE void store(float *to, const singles *v, size_t n) {
  if (n == LANES)
    *(singles *)(void *)to = *v;
  else
    memcpy(to, v, n * sizeof *to);
}

GCONV_INLINE void add_lanes(const doubles *lanes, double *sum) {
  for (size_t k = 0; k < LANES; k++)
    *sum += (*lanes)[k];
}

/* ratio = y / blurred, 0 where y is missing. Adds to *sum the sum of `blurred` where y is there. */
GCONV_VECTOR_LOOP(divide, (const float *y, float *ratio, float least, size_t count, double *sum),
                  (y, ratio, least, count, sum)) {
  doubles flux = {0};
  EACH_VECTOR({
    LOAD(v, y);
    LOAD(blurred, ratio);
    const singles floor = least - (singles){0};
    const masks there = v == v, above = blurred > floor;
    const singles its = WHERE(there, v / (WHERE(above, blurred) + WHERE(~above, floor)));
    flux += DOUBLES(WHERE(there, blurred));
    STORE(ratio, its);
  })
  add_lanes(&flux, sum);
}

static double deviance_of(const float *y, const float *blurred, float least, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    if (isfinite(y[i]))
      sum += gconv_lucy_deviance((double)y[i], (double)(blurred[i] > least ? blurred[i] : least));
  return sum;
}

/* x = guess * up * inverse, not below 0; x may be the guess. Adds the sums of (x - before)^2 and of x^2. */
GCONV_VECTOR_LOOP(correct,
                  (const float *guess, const float *up, const float *inverse, const float *before, float *x, size_t count,
                   double *sums),
                  (guess, up, inverse, before, x, count, sums)) {
  doubles change = {0}, size = {0};
  EACH_VECTOR({
    LOAD(a, guess);
    LOAD(b, up);
    LOAD(c, inverse);
    LOAD(e, before);
    const singles product = a * b * c, v = WHERE(product > 0, product);
    const doubles d = DOUBLES(v - e), its = DOUBLES(v);
    STORE(x, v);
    change += d * d;
    size += its * its;
  })
  add_lanes(&change, &sums[GCONV_LUCY_CHANGE]);
  add_lanes(&size, &sums[GCONV_LUCY_SIZE]);
}

/* Adds the sums for gconv_lucy_step(): products of this step, x - guess, with the last step, and squares of the last step.
 * Then *last becomes this step. */
GCONV_VECTOR_LOOP(compare_steps, (const float *x, const float *guess, float *last, size_t count, double *sums),
                  (x, guess, last, count, sums)) {
  doubles product = {0}, size = {0};
  EACH_VECTOR({
    LOAD(a, x);
    LOAD(b, guess);
    LOAD(before, last);
    const singles step = a - b;
    product += DOUBLES(step) * DOUBLES(before);
    size += DOUBLES(before) * DOUBLES(before);
    STORE(last, step);
  })
  add_lanes(&product, &sums[GCONV_LUCY_PRODUCT]);
  add_lanes(&size, &sums[GCONV_LUCY_LAST]);
}

GCONV_VECTOR_LOOP(predict,
                  (const float *restrict x, const float *restrict before, float step, float *restrict guess, size_t count),
                  (x, before, step, guess, count)) {
  for (size_t i = 0; i < count; i++) {
    const float v = x[i] + step * (x[i] - before[i]);
    guess[i] = v > 0 ? v : 0;
  }
}

void gconv_lucy_divide(const gconv_lucy *l, const float *y, float *ratio, size_t count, double *sums) {
  if (l->r->options->deviance)
    sums[GCONV_LUCY_DEVIANCE] += deviance_of(y, ratio, l->least, count);
  divide(y, ratio, l->least, count, &sums[GCONV_LUCY_FLUX]);
}

void gconv_lucy_correct(const gconv_lucy_row *row, size_t count, double *sums) {
  correct(row->guess, row->up, row->inverse, row->before, row->x, count, sums);
  if (row->last)
    compare_steps(row->x, row->guess, row->last, count, sums);
}

void gconv_lucy_predict(const float *x, const float *before, float step, float *guess, size_t count) {
  predict(x, before, step, guess, count);
}

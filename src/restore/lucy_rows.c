/* SPDX-License-Identifier: MIT */
/* Loops of Richardson-Lucy over samples on the CPU. */
#include "base/cpu.h"
#include "restore/lucy_cpu.h"

enum { LANES = 16 /* partial sums, so that loops become vector code */ };

static double add_lanes(const double lanes[LANES]) {
  double sum = 0;
  for (size_t k = 0; k < LANES; k++)
    sum += lanes[k];
  return sum;
}

/* A loop over `count` samples, with statements for each sample i, and its lane k. */
#define EACH_SAMPLE(...)                                                                                                    \
  do {                                                                                                                      \
    const size_t whole = count / LANES * LANES;                                                                             \
    for (size_t first = 0; first < whole; first += LANES)                                                                   \
      for (size_t k = 0; k < LANES; k++) {                                                                                  \
        const size_t i = first + k;                                                                                         \
        __VA_ARGS__                                                                                                         \
      }                                                                                                                     \
    for (size_t i = whole; i < count; i++) {                                                                                \
      const size_t k = i - whole;                                                                                           \
      __VA_ARGS__                                                                                                           \
    }                                                                                                                       \
  } while (0)

/* ratio = y / blurred, 0 where y is missing. Adds to *sum the sum of `blurred` where y is there. */
GCONV_VECTOR_LOOP(divide, (const float *restrict y, float *restrict ratio, float least, size_t count, double *sum),
                  (y, ratio, least, count, sum)) {
  double flux[LANES] = {0};
  EACH_SAMPLE({
    const float blurred = ratio[i] > least ? ratio[i] : least;
    const bool there = y[i] == y[i];
    flux[k] += there ? (double)ratio[i] : 0;
    ratio[i] = there ? y[i] / blurred : 0;
  });
  *sum += add_lanes(flux);
}

static double deviance_of(const float *y, const float *blurred, float least, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    if (isfinite(y[i]))
      sum += gconv_lucy_deviance((double)y[i], (double)(blurred[i] > least ? blurred[i] : least));
  return sum;
}

/* x = guess * up * inverse, not below 0. Adds the sums of (x - before)^2 and of x^2. */
GCONV_VECTOR_LOOP(correct,
                  (const float *restrict guess, const float *restrict up, const float *restrict inverse, const float *before,
                   float *restrict x, size_t count, double *sums),
                  (guess, up, inverse, before, x, count, sums)) {
  double change[LANES] = {0}, size[LANES] = {0};
  EACH_SAMPLE({
    const float product = guess[i] * up[i] * inverse[i], v = product > 0 ? product : 0;
    const double d = (double)(v - before[i]);
    x[i] = v;
    change[k] += d * d;
    size[k] += (double)v * (double)v;
  });
  sums[GCONV_LUCY_CHANGE] += add_lanes(change);
  sums[GCONV_LUCY_SIZE] += add_lanes(size);
}

/* Adds the sums for gconv_lucy_step(): products of this step, x - guess, with the last step, and squares of the last step.
 * Then *last becomes this step. */
GCONV_VECTOR_LOOP(compare_steps,
                  (const float *restrict x, const float *restrict guess, float *restrict last, size_t count, double *sums),
                  (x, guess, last, count, sums)) {
  double product[LANES] = {0}, size[LANES] = {0};
  EACH_SAMPLE({
    const float step = x[i] - guess[i];
    product[k] += (double)step * (double)last[i];
    size[k] += (double)last[i] * (double)last[i];
    last[i] = step;
  });
  sums[GCONV_LUCY_PRODUCT] += add_lanes(product);
  sums[GCONV_LUCY_LAST] += add_lanes(size);
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

/* SPDX-License-Identifier: MIT */
/*
 * Sequential minimal optimisation (pairs.h) by one thread. A step makes two passes over the variables, in vectors of four
 * float64 numbers:
 *
 *     step           F[k] -= t (K[i][k] - K[j][k]) for all k; the largest F of the variables that may grow is the next i
 *     find_partner   the largest gain (F[i] - F[k])^2 / (K[i][i] + K[k][k] - 2 K[i][k]) is the next j
 *
 * The update and the search for i share a pass, so each array is read twice a step. There are no branches: `up` is 0 where a
 * variable may grow and -infinity elsewhere, `down` is 0 where it may shrink and +infinity elsewhere, and both are added to
 * F. Padding has -infinity and +infinity, so it is never chosen.
 *
 * The order of operations is fixed for each variable, and the first of equal candidates is taken. So all processors have the
 * same bits, and kernels/cuda/svm/pairs.cu takes the same steps.
 */
#include "pairs.h"
#include "base/cpu.h"
#include "rows.h"

#include <math.h>
#include <string.h>

typedef double wide __attribute__((vector_size(32), may_alias));
typedef int64_t wide_bits __attribute__((vector_size(32), may_alias));
typedef float narrow __attribute__((vector_size(16), may_alias));
enum { LANES = 4 };

typedef struct found {
  double value;
  size_t index;
} found;

/* Returns the largest value of all lanes. Of equal values, it takes the one with the lowest index. */
GCONV_INLINE found largest(const wide *value, const wide_bits *index) {
  double values[LANES];
  int64_t indices[LANES];
  memcpy(values, value, sizeof values);
  memcpy(indices, index, sizeof indices);
  found best = {values[0], (size_t)indices[0]};
  for (int l = 1; l < LANES; l++)
    if (values[l] > best.value || (values[l] == best.value && (size_t)indices[l] < best.index))
      best = (found){values[l], (size_t)indices[l]};
  return best;
}

#define CHOOSE(mask, a, b) ((((wide_bits)(a)) & (mask)) | (((wide_bits)(b)) & ~(mask)))

/* Updates F after b[i] grew by t and b[j] shrank by t. Sets *best to the largest F of the variables that may grow. */
GCONV_VECTOR_LOOP(step, (const gconv_svm_small *p, size_t padded, size_t i, size_t j, double t, found *best),
                  (p, padded, i, j, t, best)) {
  const float *at_i = p->rows[i], *at_j = p->rows[j];
  wide most = (wide){0} - (double)INFINITY;
  wide_bits where = {0}, index = {0, 1, 2, 3};
  for (size_t k = 0; k < padded; k += LANES) {
    wide *F = (wide *)(p->F + k);
    wide x = __builtin_convertvector(*(const narrow *)(at_i + k), wide);
    wide y = __builtin_convertvector(*(const narrow *)(at_j + k), wide);
    *F -= t * (x - y);
    wide value = *F + *(const wide *)(p->up + k);
    wide_bits more = value > most;
    most = (wide)CHOOSE(more, value, most);
    where = CHOOSE(more, index, where);
    index += LANES;
  }
  *best = largest(&most, &where);
}

/* Sets *best to the largest gain of the variables k that may shrink, and *gap to the largest F[i] - F[k] of these. */
GCONV_VECTOR_LOOP(find_partner, (const gconv_svm_small *p, size_t padded, size_t i, double *gap, found *best),
                  (p, padded, i, gap, best)) {
  const float *at_i = p->rows[i];
  const double F = p->F[i], curvature = p->diagonal[i];
  wide most = (wide){0} - 1.0, widest = {0};
  wide_bits where = {0}, index = {0, 1, 2, 3};
  for (size_t k = 0; k < padded; k += LANES) {
    wide x = __builtin_convertvector(*(const narrow *)(at_i + k), wide);
    wide b = F - (*(const wide *)(p->F + k) + *(const wide *)(p->down + k));
    wide_bits violates = b > 0.0;
    wide a = *(const wide *)(p->diagonal + k) + curvature - 2.0 * x;
    wide_bits curved = a > 0.0;
    a = (wide)CHOOSE(curved, a, (wide){0} + GCONV_SVM_LEAST_CURVATURE);
    b = (wide)((wide_bits)b & violates);
    wide gain = b * b / a;
    wide_bits more = (gain > most) & violates;
    most = (wide)CHOOSE(more, gain, most);
    where = CHOOSE(more, index, where);
    wide_bits wider = b > widest;
    widest = (wide)CHOOSE(wider, b, widest);
    index += LANES;
  }
  *best = largest(&most, &where);
  double gaps[LANES];
  memcpy(gaps, &widest, sizeof gaps);
  *gap = gaps[0];
  for (int l = 1; l < LANES; l++)
    *gap = gaps[l] > *gap ? gaps[l] : *gap;
}

/* Sets `up` and `down` of variable k. */
static void note(const gconv_svm_small *p, size_t k) {
  p->up[k] = p->b[k] < p->high[k] ? 0 : -(double)INFINITY;
  p->down[k] = p->b[k] > p->low[k] ? 0 : (double)INFINITY;
}

uint64_t gconv_svm_solve_small(const gconv_svm_small *p, double tolerance, uint64_t most) {
  size_t padded = gconv_svm_padded(p->count);
  for (size_t k = 0; k < p->count; k++)
    note(p, k);
  for (size_t k = p->count; k < padded; k++) {
    p->F[k] = p->b[k] = p->diagonal[k] = 0;
    p->up[k] = -(double)INFINITY;
    p->down[k] = (double)INFINITY;
  }
  found i, j;
  uint64_t steps = 0;
  for (step(p, padded, 0, 0, 0, &i); steps < most && i.value > -(double)INFINITY; steps++) {
    double gap;
    find_partner(p, padded, i.index, &gap, &j);
    if (gap < tolerance || j.value < 0)
      break;
    double a = p->diagonal[i.index] + p->diagonal[j.index] - 2 * (double)p->rows[i.index][j.index];
    double t = (p->F[i.index] - p->F[j.index]) / (a > 0 ? a : GCONV_SVM_LEAST_CURVATURE);
    double up = p->high[i.index] - p->b[i.index], down = p->b[j.index] - p->low[j.index];
    double length = fmin(t, fmin(up, down));
    p->b[i.index] = length == up ? p->high[i.index] : p->b[i.index] + length; /* exactly at the bound */
    p->b[j.index] = length == down ? p->low[j.index] : p->b[j.index] - length;
    note(p, i.index);
    note(p, j.index);
    step(p, padded, i.index, j.index, length, &i);
  }
  return steps;
}

/* SPDX-License-Identifier: MIT */
/* Finds properties of a filter from its taps: sums, symmetries, rank. */
#include "base/memory.h"
#include "filter/filter.h"

#include <float.h>
#include <math.h>

enum {
  MAX_ANALYSED = 512 * 512, /* largest filter in taps: takes half a second at rank 512 */
  MAX_SWEEPS = 40           /* sweeps of Jacobi's method, which needs about 10 */
};

/* ---- Symmetry ---- */

/* Returns whether each tap equals `sign` times its mirror image. `by_rows`: mirrored top to bottom; else left to right. */
static bool is_mirrored(const gconv_filter *f, bool by_rows, float sign) {
  for (int32_t r = 0; r < f->rows; r++)
    for (int32_t s = 0; s < f->columns; s++) {
      int32_t row = by_rows ? f->rows - 1 - r : r, column = by_rows ? s : f->columns - 1 - s;
      if (f->taps[(size_t)r * (size_t)f->columns + (size_t)s] !=
          sign * f->taps[(size_t)row * (size_t)f->columns + (size_t)column])
        return false;
    }
  return true;
}

/* ---- Rank: one-sided Jacobi. It rotates pairs of vectors until all are orthogonal. Their lengths are then the singular
 * values (Hestenes 1958; Golub and Van Loan, 8.6.3). ---- */

typedef struct vectors {
  double *values; /* `count` vectors of `length` numbers */
  size_t count, length;
} vectors;

/* Returns the scalar product of a and b, by four partial sums, so that additions need not wait for each other. */
static double dot(const double *a, const double *b, size_t length) {
  double sums[4] = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + 4 <= length; i += 4)
    for (size_t j = 0; j < 4; j++)
      sums[j] += a[i + j] * b[i + j];
  for (; i < length; i++)
    sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

/* Rotates a and b so that their scalar product, which is ab, becomes 0. Updates their squared lengths, *aa and *bb. */
static void orthogonalise(double *restrict a, double *restrict b, double *aa, double *bb, double ab, size_t length) {
  double zeta = (*bb - *aa) / (2 * ab);
  double tangent = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta));
  double cosine = 1 / hypot(1, tangent), sine = cosine * tangent;
  for (size_t i = 0; i < length; i++) {
    double old = a[i];
    a[i] = cosine * old - sine * b[i];
    b[i] = sine * old + cosine * b[i];
  }
  *aa = fmax(*aa - tangent * ab, 0);
  *bb += tangent * ab;
}

/* Rotates all pairs that are not orthogonal. Returns false if there was none. `squares` are the squared lengths. Pairs whose
 * squared lengths are both at most `negligible` are left alone. */
static bool sweep(const vectors *v, double *squares, double negligible) {
  const double orthogonal = 1e-9; /* the limit of the cosine; a singular value then has a relative error of its square */
  bool rotated = false;
  for (size_t p = 0; p + 1 < v->count; p++)
    for (size_t q = p + 1; q < v->count; q++) {
      double *a = v->values + p * v->length, *b = v->values + q * v->length;
      if (squares[p] <= negligible && squares[q] <= negligible)
        continue;
      double ab = dot(a, b, v->length);
      if (fabs(ab) <= orthogonal * sqrt(squares[p]) * sqrt(squares[q]) || ab == 0)
        continue;
      orthogonalise(a, b, &squares[p], &squares[q], ab, v->length);
      rotated = true;
    }
  return rotated;
}

/* Returns the number of vectors whose singular values exceed the largest one times `relative`. */
static int32_t count_rank(const vectors *v, double *squares, double relative) {
  double largest = 0;
  for (int i = 0; i < MAX_SWEEPS; i++) {
    largest = 0;
    for (size_t p = 0; p < v->count; p++) { /* computed again, because updates lose digits */
      squares[p] = dot(v->values + p * v->length, v->values + p * v->length, v->length);
      largest = fmax(largest, squares[p]);
    }
    double limit = relative * sqrt(largest) / 1000; /* so small that even 512 such vectors together do not count */
    if (!sweep(v, squares, limit * limit))
      break;
  }
  int32_t rank = 0;
  for (size_t p = 0; p < v->count; p++)
    rank += sqrt(squares[p]) > relative * sqrt(largest);
  return rank;
}

/* Fills the vectors with taps along the longer side. Taps are divided by the largest, so that squares stay in range. */
static void fill_vectors(const gconv_filter *f, bool by_rows, vectors *v) {
  double largest = 0;
  for (size_t i = 0; i < v->count * v->length; i++) {
    double size = fabs((double)f->taps[i]);
    largest = size > largest ? size : largest; /* fmax() here makes gcc 12 for arm64 fail with an internal error */
  }
  for (size_t p = 0; p < v->count; p++)
    for (size_t i = 0; i < v->length; i++)
      v->values[p * v->length + i] = (double)f->taps[by_rows ? p * v->length + i : i * v->count + p] / largest;
}

/* Finds the numerical rank of a filter that is not all zeros. */
static gconv_status find_rank(const gconv_filter *f, int32_t *rank) {
  bool by_rows = f->rows <= f->columns;
  size_t rows = (size_t)f->rows, columns = (size_t)f->columns;
  vectors v = {.count = by_rows ? rows : columns, .length = by_rows ? columns : rows};
  GCONV_FREED double *values = NULL;
  GCONV_ALLOCATE(values, (v.count * v.length + v.count) * sizeof *values, "the rank of a filter");
  v.values = values;
  fill_vectors(f, by_rows, &v);
  *rank = count_rank(&v, values + v.count * v.length, (double)v.length * FLT_EPSILON);
  return GCONV_OK;
}

/* ---- The public function ---- */

gconv_status gconv_filter_analyze(const gconv_filter *filter, gconv_filter_analysis *analysis) {
  GCONV_NEED(filter, analysis);
  GCONV_TRY(gconv_filter_check(filter));
  gconv_filter_analysis a = {0};
  size_t taps = (size_t)filter->rows * (size_t)filter->columns;
  for (size_t i = 0; i < taps; i++) {
    double tap = (double)filter->taps[i] / (double)filter->divisor;
    *(tap > 0 ? &a.positive_sum : &a.negative_sum) += tap;
    a.zero_taps += filter->taps[i] == 0;
  }
  a.sum = a.positive_sum + a.negative_sum;
  bool zero = (size_t)a.zero_taps == taps;
  a.symmetric_rows = is_mirrored(filter, true, 1);
  a.symmetric_columns = is_mirrored(filter, false, 1);
  a.antisymmetric_rows = !zero && is_mirrored(filter, true, -1);
  a.antisymmetric_columns = !zero && is_mirrored(filter, false, -1);
  a.rank = zero ? 0 : -1;
  if (!zero && taps <= MAX_ANALYSED)
    GCONV_TRY(find_rank(filter, &a.rank));
  *analysis = a;
  return GCONV_OK;
}

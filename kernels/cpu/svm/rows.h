/* SPDX-License-Identifier: MIT */
/*
 * Kernel values of support vector machines: K(x, y) of rows x, which may have many zeros, at points y, which stand in blocks
 * of 32 so that a number of a row meets 32 points at once.
 *
 * All is float64, in one order: so the cancellation of |x|^2 + |y|^2 - 2 x y stays below what float32 keeps, K(x, y) and
 * K(y, x) have the same bits, and so has a result on every processor.
 */
#ifndef GCONV_KERNELS_CPU_LEARN_SVM_ROWS_H
#define GCONV_KERNELS_CPU_LEARN_SVM_ROWS_H

#include "kernels/svm_problem.h"

typedef struct gconv_svm_points {
  size_t count, columns;
  double *numbers; /* [block][column][GCONV_SVM_BLOCK], aligned to 64 bytes; 0 beyond the last point */
  double *norms;   /* of whole blocks */
} gconv_svm_points;

/* |x|^2, summed in the order of columns. */
double gconv_svm_norm(const float *values, size_t count);

/* Puts a row where point number `index` stands; numbers are zeros before. */
void gconv_svm_put_point(gconv_svm_points *points, size_t index, const gconv_svm_row *row);

/* out[r][p] = K(rows[r], point p) for the points of some blocks, rounded to float32. `scratch` has room for the columns of a
 * point. */
void gconv_svm_rows(const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *rows,
                    size_t row_count, size_t first_block, size_t blocks, double *scratch, float *const *out);

/* out[r][p] = out[p][r] where row r is of block `block` and p of an earlier one. `count`: of rows. */
void gconv_svm_mirror(float *const *out, size_t count, size_t block);

/* K(row, point p) of one row, in float64: out[p - first_block * GCONV_SVM_BLOCK]. */
void gconv_svm_row_wide(const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *row,
                        size_t first_block, size_t blocks, double *scratch, double *out);

/* f[p] -= sum over k of by[k] * rows[k][p], in the order of k, for first <= p < end, both multiples of a block or `end` the
 * padded count. */
void gconv_svm_subtract_rows(const float *const *rows, const double *by, size_t row_count, size_t first, size_t end,
                             double *f);

enum { GCONV_SVM_TOGETHER = 16 }; /* rows whose products are summed together */

/* Of GCONV_SVM_TOGETHER rows, row r at values[r]: sums[r * rows + k] += values[r][i] * coefficients[i * rows + k] for k <
 * rows, over i < count in their order or, of one row of coefficients, in four sums. */
void gconv_svm_add_products(const double (*values)[GCONV_SVM_BLOCK], const double *coefficients, size_t count, size_t rows,
                            double *sums);

#endif

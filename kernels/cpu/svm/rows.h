/* SPDX-License-Identifier: MIT */
/*
 * Kernel values K(x, y) of support vector machines, for rows x and points y, by LIBSVM's formulas (Chang and Lin, "LIBSVM: a
 * library for support vector machines", 2011):
 *
 *     linear       x y                               polynomial   (gamma x y + coef0)^degree
 *     RBF          exp(-gamma |x - y|^2)             sigmoid      tanh(gamma x y + coef0)
 *
 * Rows are sparse: they have only the columns and values that are not 0. Points are dense, in blocks of 32, so that each
 * number of a row is multiplied by 32 points at once.
 *
 * Sums are float64 in the order of columns. So |x - y|^2 = |x|^2 + |y|^2 - 2 x y loses no digits that float32
 * would keep. K(x, y) and K(y, x) have the same bits, and every processor has the same results.
 */
#pragma once

#include "kernels/svm_problem.h"

typedef struct gconv_svm_points {
  size_t count, columns;
  double *numbers; /* [block][column][GCONV_SVM_BLOCK], aligned to 64 bytes; 0 after the last point */
  double *norms;   /* |y|^2 of each point, with room for whole blocks */
} gconv_svm_points;

/* Returns |x|^2, summed in the order of columns. */
double gconv_svm_norm(const float *values, size_t count);

/* Stores a row as point number `index`, whose numbers must be 0 before. */
void gconv_svm_put_point(gconv_svm_points *points, size_t index, const gconv_svm_row *row);

/* Sets out[r][p] = K(rows[r], point p), rounded to float32, for the points p of `blocks` blocks from first_block on.
 * `scratch` has room for points->columns numbers. */
void gconv_svm_rows(const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *rows,
                    size_t row_count, size_t first_block, size_t blocks, double *scratch, float *const *out);

/* Sets out[r][p] = out[p][r] for the rows r of block `block` and all points p of earlier blocks. There are `count` rows. */
void gconv_svm_mirror(float *const *out, size_t count, size_t block);

/* Sets out[p - first_block * GCONV_SVM_BLOCK] = K(row, point p), in float64, for the points p of the blocks. */
void gconv_svm_row_wide(const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *row,
                        size_t first_block, size_t blocks, double *scratch, double *out);

/* Subtracts by[k] * rows[k][p] from f[p], for first <= p < end, multiples of GCONV_SVM_BLOCK, and all k in their order. */
void gconv_svm_subtract_rows(const float *const *rows, const double *by, size_t row_count, size_t first, size_t end,
                             double *f);

enum { GCONV_SVM_TOGETHER = 16 }; /* rows whose products are summed together */

/* Adds values[r][i] * coefficients[i * rows + k] to sums[r * rows + k], for r < GCONV_SVM_TOGETHER, k < rows and all i <
 * count in their order. If `rows` is 1, there are four partial sums, which are added at the end. */
void gconv_svm_add_products(const double (*values)[GCONV_SVM_BLOCK], const double *coefficients, size_t count, size_t rows,
                            double *sums);

/* SPDX-License-Identifier: MIT */
/*
 * Kernel values of support vector machines on a GPU: the bytes of kernels/cpu/svm/rows.h. Sums over columns are chains
 * in float64; the product of two float32 numbers is exact there, so a fused multiply-add rounds as a product and a sum do.
 *
 * Functions start kernels on `stream` and return at once: cudaGetLastError() tells of failures. Pointers are to memory of
 * the device. The form tanh is not computed here.
 */
#ifndef GCONV_KERNELS_CUDA_LEARN_SVM_ROWS_H
#define GCONV_KERNELS_CUDA_LEARN_SVM_ROWS_H

#include "kernels/svm_problem.h"

#include <cuda_runtime_api.h>

enum { GCONV_SVM_GPU_COLUMNS = 16 }; /* the pitch of cases is a multiple of so many numbers */

/* Rows of numbers, with their zeros: 0 behind the last column. */
typedef struct gconv_svm_gpu_cases {
  const float *numbers; /* count x pitch */
  const double *norms;
  size_t count, pitch;
} gconv_svm_gpu_cases;

/* A problem of a machine whose whole matrix is made at once: rows of `pitch` floats. */
typedef struct gconv_svm_gpu_square {
  const uint32_t *members; /* cases */
  uint32_t count, pitch;
  float *matrix;
} gconv_svm_gpu_square;

/* Members as digits (digits.cuh), of which tensor cores of int8 make rows that have the same bytes, faster where there
 * are many columns and rows. */
typedef struct gconv_svm_gpu_digits {
  void *memory; /* of gconv_svm_gpu_digits_bytes(), which the caller has allocated */
  size_t count, most_rows;
  int clusters; /* of blocks, at once */
  bool serve;   /* rows may be made so: few values are unsure */
} gconv_svm_gpu_digits;

/* Whether so many rows are made faster by digits. */
bool gconv_svm_gpu_digits_pay(size_t rows, size_t count, size_t columns);
/* What digits of `count` members take, for up to most_rows rows at a time; 0 where the current device, or so few or many
 * columns, cannot have them. */
size_t gconv_svm_gpu_digits_bytes(size_t count, size_t most_rows, size_t columns);
/* Makes them, and waits for it. */
cudaError_t gconv_svm_gpu_digits_make(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases,
                                      const uint32_t *members, size_t count, size_t most_rows, void *memory,
                                      cudaStream_t stream, gconv_svm_gpu_digits *digits);
/* The rows of gconv_svm_gpu_rows(), by digits of the same members. There are at most most_rows. */
void gconv_svm_gpu_rows_by_digits(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases, const uint32_t *wanted,
                                  float *const *rows, size_t row_count, const uint32_t *members,
                                  const gconv_svm_gpu_digits *digits, cudaStream_t stream);

/* rows[r][p] = K(case wanted[r], case members[p]) for p < padded; 0 from `count` on. digits: of these members, or NULL. */
void gconv_svm_gpu_rows(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases, const uint32_t *wanted,
                        float *const *rows, size_t row_count, const uint32_t *members, size_t count,
                        const gconv_svm_gpu_digits *digits, cudaStream_t stream);
/* The matrices of several problems, which are in memory of the device; the largest has `most` members. */
void gconv_svm_gpu_squares(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases,
                           const gconv_svm_gpu_square *squares, size_t count, size_t most, cudaStream_t stream);
/* values[v * pitch + r] = K(row r, vector v), in float64. */
void gconv_svm_gpu_values(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *vectors,
                          const gconv_svm_gpu_cases *rows, size_t row_count, double *values, size_t pitch,
                          cudaStream_t stream);

/* g[p] -= sum over k < *count of by[k] * rows[k][p], in the order of k. */
void gconv_svm_gpu_subtract(const float *const *rows, const double *by, const uint32_t *count, double *g, size_t padded,
                            cudaStream_t stream);

/* The sums of a class of vectors, begin .. end, for each of `rows` rows of values and each of `wide` rows of coefficients:
 * sums[k * pitch + r], in the order of gconv_svm_add_products(). by_vector: `wide` numbers a vector. */
void gconv_svm_gpu_sums(const double *values, size_t pitch, size_t rows, const double *by_vector, size_t wide,
                        const uint32_t *begins, size_t classes, double *sums, cudaStream_t stream);

#endif

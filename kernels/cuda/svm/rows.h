/* SPDX-License-Identifier: MIT */
/*
 * Kernel values of support vector machines on a GPU, with the same bytes as kernels/cpu/svm/rows.h. The form tanh is not
 * computed here.
 *
 * Functions start kernels on `stream` and return at once; cudaGetLastError() returns their failure. Pointers are to device
 * memory.
 */
#pragma once

#include "kernels/svm_problem.h"

#include <cuda_runtime_api.h>

enum { GCONV_SVM_GPU_COLUMNS = 16 }; /* the pitch of cases is a multiple of it */

/* Dense rows; the padding after the last column is 0. */
typedef struct gconv_svm_gpu_cases {
  const float *numbers; /* count x pitch */
  const double *norms;
  size_t count, pitch;
} gconv_svm_gpu_cases;

/* A machine whose whole kernel matrix is computed at once. */
typedef struct gconv_svm_gpu_square {
  const uint32_t *members; /* indices of cases */
  uint32_t count, pitch;
  float *matrix; /* count x pitch */
} gconv_svm_gpu_square;

/* Members as digits (digits.cuh). From digits, tensor cores of int8 compute rows with the same bytes. This is faster for
 * many columns and rows. */
typedef struct gconv_svm_gpu_digits {
  void *memory; /* gconv_svm_gpu_digits_bytes(), allocated by the caller */
  size_t count, most_rows;
  int clusters; /* clusters of blocks that the device runs at once */
  bool serve;   /* digits are worth using: few values are unsure */
} gconv_svm_gpu_digits;

/* True if digits are estimated to be faster for this shape. */
bool gconv_svm_gpu_digits_pay(size_t rows, size_t count, size_t columns);
/* Returns the bytes of digits for `count` members and up to most_rows rows at a time. Returns 0 if the current device has no
 * kernel for digits of this many columns. */
size_t gconv_svm_gpu_digits_bytes(size_t count, size_t most_rows, size_t columns);
/* Cuts the members into digits, and waits for the device. */
cudaError_t gconv_svm_gpu_digits_make(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases,
                                      const uint32_t *members, size_t count, size_t most_rows, void *memory,
                                      cudaStream_t stream, gconv_svm_gpu_digits *digits);
/* Does gconv_svm_gpu_rows() by the digits of the members. row_count is at most digits->most_rows. */
void gconv_svm_gpu_rows_by_digits(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases, const uint32_t *wanted,
                                  float *const *rows, size_t row_count, const uint32_t *members,
                                  const gconv_svm_gpu_digits *digits, cudaStream_t stream);

/* rows[r][p] = K(case wanted[r], case members[p]) for p < count; 0 for the padding. digits: of the members, or NULL. */
void gconv_svm_gpu_rows(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases, const uint32_t *wanted,
                        float *const *rows, size_t row_count, const uint32_t *members, size_t count,
                        const gconv_svm_gpu_digits *digits, cudaStream_t stream);
/* Computes the matrices of `count` machines. The largest has `most` members. */
void gconv_svm_gpu_squares(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases,
                           const gconv_svm_gpu_square *squares, size_t count, size_t most, cudaStream_t stream);
/* values[v * pitch + r] = K(row r, vector v), in float64. */
void gconv_svm_gpu_values(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *vectors,
                          const gconv_svm_gpu_cases *rows, size_t row_count, double *values, size_t pitch,
                          cudaStream_t stream);

/* g[p] -= sum over k < *count of by[k] * rows[k][p], in the order of k. */
void gconv_svm_gpu_subtract(const float *const *rows, const double *by, const uint32_t *count, double *g, size_t padded,
                            cudaStream_t stream);

/* sums[(c * wide + k) * pitch + r] = sum over the vectors v of class c of values[v * pitch + r] * by_vector[v * wide + k],
 * in the order of gconv_svm_add_products(). Class c has the vectors begins[c] .. begins[c + 1] - 1. */
void gconv_svm_gpu_sums(const double *values, size_t pitch, size_t rows, const double *by_vector, size_t wide,
                        const uint32_t *begins, size_t classes, double *sums, cudaStream_t stream);

/* SPDX-License-Identifier: MIT */
/*
 * Rows of kernel matrices (rows.h). Points are stored as [block][column][32]: the 32 numbers of a column are eight vectors
 * of four float64. One loop over the numbers of a row multiplies each of them by such a column:
 *
 *     for each k: for v < 8: sum[v] += points[column of k][v] * value of k
 *
 * The eight sums stay in registers and do not wait for each other. Zeros take no time, because rows do not
 * store them. All rows are computed for one block before the next block begins, so the numbers of a block stay in the cache.
 * Threads share the blocks.
 *
 * Each point has its own lane, so its sum has the order of the columns, whatever the width of vectors. Processors with
 * and without fused multiply-adds have the same bits: a product of two float32 numbers is exact in float64, and all other
 * products and sums are rounded one by one.
 */
#include "rows.h"
#include "base/cpu.h"

#include <math.h>
#include <string.h>

/* Vector types of the compiler, which maps them to the registers that the processor has. */
typedef double wide __attribute__((vector_size(32), may_alias));
typedef int64_t wide_bits __attribute__((vector_size(32), may_alias));
typedef float narrow __attribute__((vector_size(16), may_alias));
enum { LANES = 4, VECTORS = GCONV_SVM_BLOCK / LANES };
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

double gconv_svm_norm(const float *values, size_t count) {
  double sum = 0;
  for (size_t k = 0; k < count; k++)
    sum += (double)values[k] * (double)values[k];
  return sum;
}

void gconv_svm_put_point(gconv_svm_points *points, size_t index, const gconv_svm_row *row) {
  double *block = points->numbers + index / GCONV_SVM_BLOCK * GCONV_SVM_BLOCK * points->columns;
  for (size_t k = 0; k < row->count; k++)
    block[(size_t)row->columns[k] * GCONV_SVM_BLOCK + index % GCONV_SVM_BLOCK] = (double)row->values[k];
  points->norms[index] = row->norm;
}

/* ---- Sums over the columns ---- */

GCONV_INLINE void dots(const double *block, const gconv_svm_row *row, wide *sums) {
  wide sum[VECTORS] = {{0}};
  for (size_t k = 0; k < row->count; k++) {
    const wide *from = (const wide *)(block + (size_t)row->columns[k] * GCONV_SVM_BLOCK);
    const double value = (double)row->values[k];
    UNROLL for (int v = 0; v < VECTORS; v++) sum[v] += from[v] * value;
  }
  UNROLL for (int v = 0; v < VECTORS; v++) sums[v] = sum[v];
}

GCONV_INLINE void differences(const double *block, const double *whole, size_t columns, wide *sums) {
  wide sum[VECTORS] = {{0}};
  for (size_t k = 0; k < columns; k++) {
    const wide *from = (const wide *)(block + k * GCONV_SVM_BLOCK);
    UNROLL for (int v = 0; v < VECTORS; v++) {
      wide difference = from[v] - whole[k];
      sum[v] += difference * difference;
    }
  }
  UNROLL for (int v = 0; v < VECTORS; v++) sums[v] = sum[v];
}

/* ---- Kernel values from sums ---- */

/* Replaces x by e^x, for x <= 0, by the method of gconv_exp_negative() (kernels/activation.h). The relative error is below
 * 2^-46. Below -87, where float32 has no normal number, the result is 0. x = n ln 2 + f: adding 1.5 * 2^52 to x / ln 2
 * rounds it to the integer n, which is then in the last bits of the sum. */
GCONV_INLINE void exponentials(wide *x) {
  const double magic = 6755399441055744.0;
  UNROLL for (int v = 0; v < VECTORS; v++) {
    wide_bits inside = x[v] > -87.0;
    wide at = (wide)((wide_bits)x[v] & inside);
    wide shifted = at * 1.4426950408889634 + magic, n = shifted - magic;
    wide f = at - n * 0.693145751953125; /* 20 bits of ln 2, so that the product is exact */
    f = f - n * 1.42860682030941723212e-6;
    wide e = f * (1.0 / 39916800) + 1.0 / 3628800;
    e = e * f + 1.0 / 362880;
    e = e * f + 1.0 / 40320;
    e = e * f + 1.0 / 5040;
    e = e * f + 1.0 / 720;
    e = e * f + 1.0 / 120;
    e = e * f + 1.0 / 24;
    e = e * f + 1.0 / 6;
    e = e * f + 0.5;
    e = e * f + 1.0;
    e = e * f + 1.0;
    wide_bits power = ((wide_bits)shifted << 52) + 0x3ff0000000000000;
    x[v] = (wide)((wide_bits)(e * (wide)power) & inside);
  }
}

GCONV_INLINE void raise(const gconv_svm_formula *formula, double *x) {
  double base[GCONV_SVM_BLOCK];
  for (int i = 0; i < GCONV_SVM_BLOCK; i++) {
    base[i] = formula->gamma * x[i] + formula->coef0;
    x[i] = 1;
  }
  for (int32_t degree = formula->degree; degree > 0; degree /= 2) {
    if (degree % 2 == 1)
      for (int i = 0; i < GCONV_SVM_BLOCK; i++)
        x[i] *= base[i];
    for (int i = 0; i < GCONV_SVM_BLOCK; i++)
      base[i] *= base[i];
  }
}

GCONV_INLINE void apply(const gconv_svm_formula *formula, const gconv_svm_row *row, const double *norms, wide *sums) {
  if (formula->form == GCONV_SVM_FORM_EXP) {
    UNROLL for (int v = 0; v < VECTORS; v++) {
      wide distance = sums[v];
      if (!formula->direct) {
        distance = ((const wide *)norms)[v] + row->norm - 2.0 * sums[v];
        distance = (wide)((wide_bits)distance & (distance > 0.0));
      }
      sums[v] = distance * -formula->gamma;
    }
    exponentials(sums);
  } else if (formula->form == GCONV_SVM_FORM_POWER) {
    raise(formula, (double *)sums);
  } else if (formula->form == GCONV_SVM_FORM_TANH) {
    double *x = (double *)sums;
    for (int i = 0; i < GCONV_SVM_BLOCK; i++)
      x[i] = tanh(formula->gamma * x[i] + formula->coef0);
  }
}

GCONV_INLINE void values(const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *row,
                         const double *whole, size_t block, wide *sums) {
  const double *numbers = points->numbers + block * GCONV_SVM_BLOCK * points->columns;
  if (formula->direct)
    differences(numbers, whole, points->columns, sums);
  else
    dots(numbers, row, sums);
  apply(formula, row, points->norms + block * GCONV_SVM_BLOCK, sums);
}

/* ---- Rows ---- */

/* Writes a row with its zeros, which squared differences need. */
static void fill(const gconv_svm_row *row, size_t columns, double *whole) {
  memset(whole, 0, columns * sizeof *whole);
  for (size_t k = 0; k < row->count; k++)
    whole[row->columns[k]] = (double)row->values[k];
}

GCONV_VECTOR_LOOP(rows_of_block,
                  (const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *rows,
                   size_t row_count, size_t block, double *whole, float *const *out),
                  (formula, points, rows, row_count, block, whole, out)) {
  for (size_t r = 0; r < row_count; r++) {
    wide sums[VECTORS];
    if (formula->direct)
      fill(&rows[r], points->columns, whole);
    values(formula, points, &rows[r], whole, block, sums);
    narrow *to = (narrow *)(out[r] + block * GCONV_SVM_BLOCK);
    UNROLL for (int v = 0; v < VECTORS; v++) to[v] = __builtin_convertvector(sums[v], narrow);
  }
}

void gconv_svm_rows(const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *rows,
                    size_t row_count, size_t first_block, size_t blocks, double *scratch, float *const *out) {
  for (size_t b = first_block; b < first_block + blocks; b++)
    rows_of_block(formula, points, rows, row_count, b, scratch, out);
}

void gconv_svm_mirror(float *const *out, size_t count, size_t block) {
  const size_t first = block * GCONV_SVM_BLOCK, end = first + GCONV_SVM_BLOCK < count ? first + GCONV_SVM_BLOCK : count;
  for (size_t from = 0; from < first; from += GCONV_SVM_BLOCK)
    for (size_t r = first; r < end; r++)
      for (size_t p = from; p < from + GCONV_SVM_BLOCK; p++)
        out[r][p] = out[p][r];
}

GCONV_VECTOR_LOOP(row_wide,
                  (const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *row,
                   size_t first_block, size_t blocks, const double *whole, double *out),
                  (formula, points, row, first_block, blocks, whole, out)) {
  for (size_t b = 0; b < blocks; b++) {
    wide sums[VECTORS];
    values(formula, points, row, whole, first_block + b, sums);
    memcpy(out + b * GCONV_SVM_BLOCK, sums, sizeof sums);
  }
}

void gconv_svm_row_wide(const gconv_svm_formula *formula, const gconv_svm_points *points, const gconv_svm_row *row,
                        size_t first_block, size_t blocks, double *scratch, double *out) {
  if (formula->direct)
    fill(row, points->columns, scratch);
  row_wide(formula, points, row, first_block, blocks, scratch, out);
}

/* Subtracts four rows at a time, in parts of 512 numbers. So `f` is loaded and stored once for four rows, and its part stays
 * in the cache. */
GCONV_VECTOR_LOOP(subtract_rows,
                  (const float *const *rows, const double *by, size_t row_count, size_t first, size_t end, double *f),
                  (rows, by, row_count, first, end, f)) {
  enum { PART = 512, ROWS = 4 };
  for (size_t from = first; from < end; from += PART) {
    const size_t to = end - from < PART ? end : from + PART;
    size_t k = 0;
    for (; k + ROWS <= row_count; k += ROWS)
      for (size_t p = from; p < to; p += LANES) {
        wide sum = *(const wide *)(f + p);
        UNROLL for (int r = 0; r < ROWS; r++) sum -=
            __builtin_convertvector(*(const narrow *)(rows[k + (size_t)r] + p), wide) * by[k + (size_t)r];
        *(wide *)(f + p) = sum;
      }
    for (; k < row_count; k++)
      for (size_t p = from; p < to; p += LANES)
        *(wide *)(f + p) -= __builtin_convertvector(*(const narrow *)(rows[k] + p), wide) * by[k];
  }
}

void gconv_svm_subtract_rows(const float *const *rows, const double *by, size_t row_count, size_t first, size_t end,
                             double *f) {
  subtract_rows(rows, by, row_count, first, end, f);
}

/* Returns a sum of products. It has four partial sums, which are added at the end. */
GCONV_INLINE double dot_product(const double *values, const double *coefficients, size_t count) {
  wide sum = {0}, value, coefficient;
  double lanes[LANES], rest = 0;
  size_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    memcpy(&value, values + i, sizeof value);
    memcpy(&coefficient, coefficients + i, sizeof coefficient);
    sum += value * coefficient;
  }
  for (; i < count; i++)
    rest += values[i] * coefficients[i];
  memcpy(lanes, &sum, sizeof lanes);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + rest;
}

/* A vector holds the sums of neighbouring rows, each in the order of i. So the processor overlaps their additions. */
GCONV_VECTOR_LOOP(add_products,
                  (const double (*values)[GCONV_SVM_BLOCK], const double *coefficients, size_t count, size_t rows,
                   double *restrict sums),
                  (values, coefficients, count, rows, sums)) {
  enum { WIDES = GCONV_SVM_TOGETHER / LANES };
  double across[GCONV_SVM_BLOCK][GCONV_SVM_TOGETHER] __attribute__((aligned(32)));
  if (rows == 1) {
    for (size_t r = 0; r < GCONV_SVM_TOGETHER; r++)
      sums[r] += dot_product(values[r], coefficients, count);
    return;
  }
  for (size_t r = 0; r < GCONV_SVM_TOGETHER; r++)
    for (size_t i = 0; i < count; i++)
      across[i][r] = values[r][i];
  for (size_t k = 0; k < rows; k++) {
    double lanes[GCONV_SVM_TOGETHER] __attribute__((aligned(32)));
    wide sum[WIDES];
    for (size_t r = 0; r < GCONV_SVM_TOGETHER; r++)
      lanes[r] = sums[r * rows + k];
    UNROLL for (int v = 0; v < WIDES; v++) sum[v] = ((const wide *)lanes)[v];
    for (size_t i = 0; i < count; i++) {
      const double coefficient = coefficients[i * rows + k];
      UNROLL for (int v = 0; v < WIDES; v++) sum[v] += ((const wide *)across[i])[v] * coefficient;
    }
    UNROLL for (int v = 0; v < WIDES; v++)((wide *)lanes)[v] = sum[v];
    for (size_t r = 0; r < GCONV_SVM_TOGETHER; r++)
      sums[r * rows + k] = lanes[r];
  }
}

void gconv_svm_add_products(const double (*values)[GCONV_SVM_BLOCK], const double *coefficients, size_t count, size_t rows,
                            double *sums) {
  add_products(values, coefficients, count, rows, sums);
}

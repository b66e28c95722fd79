/* SPDX-License-Identifier: MIT */
/* Support vector machines on a GPU (gpu.cu, gpu_machines.cu, gpu_values.cu). Results have the bytes of the CPU's. Functions
 * fail with GCONV_NO_MEMORY if the GPU has too little memory; the CPU can then do the work. */
#pragma once

#include "base/both.h"
#include "base/status.h"
#include "gconv.h"
#include "kernels/svm_problem.h"

GCONV_C_BEGIN

/* Returns the most steps for a problem of `count` variables. LIBSVM allows fewer for large problems; its steps are slower.
 */
static inline uint64_t gconv_svm_most_steps(size_t count) {
  const uint64_t least = 10000000, each = 5000, most = 100000000 + 100 * (uint64_t)count;
  return each * count < least ? least : each * count < most ? each * count : most;
}

/* Cases in device memory, and a stream for the work on them. Only one thread may use them at a time. */
typedef struct gconv_svm_gpu gconv_svm_gpu;

/* Copies rows of `columns` numbers to the device. */
gconv_status gconv_svm_gpu_create(gconv_device *device, const gconv_svm_formula *formula, const gconv_svm_row *rows,
                                  size_t count, size_t columns, gconv_svm_gpu **gpu);
/* NULL is allowed. */
void gconv_svm_gpu_free(gconv_svm_gpu *gpu);

/* ---- The kernel matrix of some cases ---- */

/* A kernel matrix on the GPU: some of its rows, the gradients of its members, and room for a working set. */
typedef struct gconv_svm_gpu_matrix gconv_svm_gpu_matrix;

typedef struct gconv_svm_gpu_order {
  const size_t *members; /* indices of cases */
  size_t count;
  size_t working;               /* the most variables of a working set */
  size_t slots;                 /* how many rows must fit. If cache_bytes allows more, up to `count` rows fit */
  uint64_t cache_bytes;         /* 0: half of the free memory */
  gconv_svm_gpu_matrix *lender; /* a matrix whose rows are not needed: its memory is used if it is large enough. Or NULL */
} gconv_svm_gpu_order;

gconv_status gconv_svm_gpu_matrix_create(gconv_svm_gpu *gpu, const gconv_svm_gpu_order *order,
                                         gconv_svm_gpu_matrix **matrix);
/* NULL is allowed. */
void gconv_svm_gpu_matrix_free(gconv_svm_gpu_matrix *matrix);
/* Returns the number of rows that fit. */
size_t gconv_svm_gpu_matrix_slots(const gconv_svm_gpu_matrix *matrix);
/* Starts to compute the row of member members[k] in slot slots[k], for each k. */
gconv_status gconv_svm_gpu_matrix_make(gconv_svm_gpu_matrix *matrix, const uint32_t *members, const uint32_t *slots,
                                       size_t count);
/* Sets the gradients g of all members. */
gconv_status gconv_svm_gpu_matrix_begin(gconv_svm_gpu_matrix *matrix, const double *g);

/* A working set. Variable k belongs to member members[k], whose row is in slot slots[k]. */
typedef struct gconv_svm_gpu_working {
  size_t count;
  const uint32_t *members, *slots;
  const double *diagonal, *low, *high, *F;
  double *b; /* the values of the variables, which are changed */
  double tolerance;
  uint64_t most, *steps;
} gconv_svm_gpu_working;

/* Solves a working set, updates the gradients, and copies them to g. */
gconv_status gconv_svm_gpu_matrix_solve(gconv_svm_gpu_matrix *matrix, const gconv_svm_gpu_working *working, double *g);
/* g -= sum over k of by[k] times the row in slot slots[k]. */
gconv_status gconv_svm_gpu_matrix_subtract(gconv_svm_gpu_matrix *matrix, const uint32_t *slots, const double *by,
                                           size_t count, double *g);

/* ---- Machines that one block of threads trains, with the whole kernel matrix in memory ---- */

/* A machine for two classes: the cases members[0 .. first) are of the first class. */
typedef struct gconv_svm_gpu_pair {
  const size_t *members;
  size_t count, first;
  double first_cost, second_cost;
  const double *diagonal;   /* diagonal of K */
  double *b, *g;            /* the results, `count` numbers each; g = -Kb */
  double largest, smallest; /* largest: the largest gradient of variables that may grow; smallest: the smallest gradient of
                               variables that may shrink */
  uint64_t steps;
  bool failed; /* true: the solver did not converge */
} gconv_svm_gpu_pair;

/* True if one block of threads can solve a problem of `variables` variables as a whole. */
bool gconv_svm_gpu_takes(const gconv_svm_gpu *gpu, size_t variables);
/* Solves `count` pairs, many at a time, and calls done(context, pair) after each. */
gconv_status gconv_svm_gpu_solve_pairs(gconv_svm_gpu *gpu, gconv_svm_gpu_pair *pairs, size_t count, double tolerance,
                                       void (*done)(void *context, gconv_svm_gpu_pair *pair), void *context);

/* ---- Values ---- */

/* A model whose support vectors are the cases of `gpu`. Class c has the vectors begins[c] .. begins[c + 1] - 1. by_vector:
 * `wide` coefficients for each vector. */
typedef struct gconv_svm_gpu_model {
  const uint32_t *begins;
  const double *by_vector;
  size_t classes, wide;
} gconv_svm_gpu_model;

/* Copies the classes and coefficients of a model to the device. */
gconv_status gconv_svm_gpu_set_model(gconv_svm_gpu *gpu, const gconv_svm_gpu_model *model);
/* Sums kernel values times coefficients over the vectors of each class: sums[(class * wide + k) * count + r] becomes the sum
 * for row r, with coefficient k of each vector. */
gconv_status gconv_svm_gpu_sum(gconv_svm_gpu *gpu, const gconv_svm_row *rows, size_t count, double *sums);

GCONV_C_END

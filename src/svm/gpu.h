/* SPDX-License-Identifier: MIT */
/* Support vector machines on a GPU (gpu.cu, gpu_machines.cu, gpu_values.cu). Results have the bytes of the
 * CPU's. Functions fail with GCONV_NO_MEMORY where the GPU has too little: then the CPU does the same. */
#ifndef GCONV_SVM_GPU_H
#define GCONV_SVM_GPU_H

#include "base/status.h"
#include "gconv.h"
#include "kernels/svm_problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many steps a problem of so many variables may take, as LIBSVM has it; more of large ones, whose steps are faster here.
 */
static inline uint64_t gconv_svm_most_steps(size_t count) {
  const uint64_t least = 10000000, each = 5000, most = 100000000 + 100 * (uint64_t)count;
  return each * count < least ? least : each * count < most ? each * count : most;
}

/* Cases in the memory of a GPU, and a stream for what is done with them. One thread at a time. */
typedef struct gconv_svm_gpu gconv_svm_gpu;

/* Rows of `columns` numbers. */
gconv_status gconv_svm_gpu_create(gconv_device *device, const gconv_svm_formula *formula, const gconv_svm_row *rows,
                                  size_t count, size_t columns, gconv_svm_gpu **gpu);
/* NULL is allowed. */
void gconv_svm_gpu_free(gconv_svm_gpu *gpu);

/* ---- The kernel matrix of some cases ---- */

/* What of a matrix is on the GPU: its rows, the gradients of its members, and room for a working set. */
typedef struct gconv_svm_gpu_matrix gconv_svm_gpu_matrix;

typedef struct gconv_svm_gpu_order {
  const size_t *members; /* cases */
  size_t count;
  size_t working;               /* variables of a working set */
  size_t slots;                 /* rows that fit: at least so many; more where cache_bytes allow them, but at most count */
  uint64_t cache_bytes;         /* 0: half of the memory that is free */
  gconv_svm_gpu_matrix *lender; /* whose rows are no longer needed, and whose memory is used if it is enough; or NULL */
} gconv_svm_gpu_order;

gconv_status gconv_svm_gpu_matrix_create(gconv_svm_gpu *gpu, const gconv_svm_gpu_order *order,
                                         gconv_svm_gpu_matrix **matrix);
/* NULL is allowed. */
void gconv_svm_gpu_matrix_free(gconv_svm_gpu_matrix *matrix);
/* How many rows fit. */
size_t gconv_svm_gpu_matrix_slots(const gconv_svm_gpu_matrix *matrix);
/* Begins to make rows: of member members[k] in slot slots[k]. */
gconv_status gconv_svm_gpu_matrix_make(gconv_svm_gpu_matrix *matrix, const uint32_t *members, const uint32_t *slots,
                                       size_t count);
/* Sets the gradients g, of all members. */
gconv_status gconv_svm_gpu_matrix_begin(gconv_svm_gpu_matrix *matrix, const double *g);

/* A working set, of which variable k belongs to member members[k], whose row is in slot slots[k]. */
typedef struct gconv_svm_gpu_working {
  size_t count;
  const uint32_t *members, *slots;
  const double *diagonal, *low, *high, *F;
  double *b; /* changed */
  double tolerance;
  uint64_t most, *steps;
} gconv_svm_gpu_working;

/* Solves it, and updates the gradients, which are copied to g. */
gconv_status gconv_svm_gpu_matrix_solve(gconv_svm_gpu_matrix *matrix, const gconv_svm_gpu_working *working, double *g);
/* g -= sum over k of by[k] times the row in slot slots[k]. */
gconv_status gconv_svm_gpu_matrix_subtract(gconv_svm_gpu_matrix *matrix, const uint32_t *slots, const double *by,
                                           size_t count, double *g);

/* ---- Machines whose matrices fit whole ---- */

/* A machine for two classes: the cases members[0 .. first) are of the first. */
typedef struct gconv_svm_gpu_pair {
  const size_t *members;
  size_t count, first;
  double first_cost, second_cost;
  const double *diagonal;   /* of K */
  double *b, *g;            /* the results, `count` numbers each; g = -Kb */
  double largest, smallest; /* gradients of those that may grow, and that may shrink, when they were looked at last */
  uint64_t steps;
  bool failed; /* it did not converge */
} gconv_svm_gpu_pair;

/* Whether a problem of so many variables is solved as a whole, by one block of threads. */
bool gconv_svm_gpu_takes(const gconv_svm_gpu *gpu, size_t variables);
/* Solves many, some at a time; calls done(context, pair) for each. */
gconv_status gconv_svm_gpu_solve_pairs(gconv_svm_gpu *gpu, gconv_svm_gpu_pair *pairs, size_t count, double tolerance,
                                       void (*done)(void *context, gconv_svm_gpu_pair *pair), void *context);

/* ---- Values ---- */

/* Support vectors are the cases of `gpu`: vectors begins[c] .. begins[c + 1] are of class c. `by_vector` has `wide`
 * coefficients for each. sums[(class * wide + k) * count + r] becomes the sum of the class for row r. */
typedef struct gconv_svm_gpu_model {
  const uint32_t *begins;
  const double *by_vector;
  size_t classes, wide;
} gconv_svm_gpu_model;

gconv_status gconv_svm_gpu_set_model(gconv_svm_gpu *gpu, const gconv_svm_gpu_model *model);
gconv_status gconv_svm_gpu_sum(gconv_svm_gpu *gpu, const gconv_svm_row *rows, size_t count, double *sums);

#ifdef __cplusplus
}
#endif
#endif

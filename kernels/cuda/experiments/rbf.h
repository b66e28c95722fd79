/* SPDX-License-Identifier: MIT */
/*
 * The inner loop of training support vector machines as an article of 2011 measured it, in OpenCL: to learn from, and to
 * compare with. gconv itself computes rows by ../svm/rows.h, many at a time.
 *
 *     rows      K(x_i, q) = exp(-gamma |x_i - q|^2) of all N cases x_i, of d numbers each, and two cases q, `high` and
 *               `low`, in one pass: six operations for each number of x that is loaded
 *     extrema   the largest and the smallest of N gradients, with or without their places
 *
 * A thread computes the values of a case, and neighbouring threads have neighbouring cases. So the layout of x decides:
 *
 *     rows           x[i][k]           the numbers of a case are contiguous: a warp reads from 32 places
 *     columns        x[k][i]           the k-th numbers of all cases are contiguous; N is padded to a multiple of 32
 *     float4         x[k / 4][i][4]    as columns, with four numbers in one load
 *     image          as float4, with the two vectors in images, which the texture units read
 *     image-copied   the same, with the time to write the vectors to their images: a trainer has other vectors in each step
 *     local          as float4, with the two vectors in shared memory
 */
#pragma once

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gconv_rbf_kind {
  GCONV_RBF_ROWS, /* two rows, with float32 sums */
  GCONV_RBF_MANY, /* gconv's own kernels, GCONV_RBF_TOGETHER rows at a time; times are of two rows */
  GCONV_RBF_PLAIN_MIN,
  GCONV_RBF_PLAIN_MAX, /* values alone */
  GCONV_RBF_MIN,
  GCONV_RBF_MAX,
  GCONV_RBF_BOTH,
  GCONV_RBF_READ /* reads all numbers once: the bound of memory */
} gconv_rbf_kind;

enum { GCONV_RBF_TOGETHER = 512, GCONV_RBF_IMAGE_COLUMNS = 4 << 16 };

typedef struct gconv_rbf_method {
  const char *name;
  gconv_rbf_kind kind;
} gconv_rbf_method;

/* Returns a method, or NULL past the end. */
const gconv_rbf_method *gconv_rbf_method_at(size_t index);

/* The memory of a method, on the GPU that is current when it is made; one thread at a time. */
typedef struct gconv_rbf gconv_rbf;

/* numbers: cases x columns in host memory. `high` is case 0, `low` case 1, or 0 if there is no other. Extrema are of all
 * numbers. */
typedef struct gconv_rbf_order {
  size_t method, cases, columns;
  const float *numbers;
  float gamma;
} gconv_rbf_order;

gconv_status gconv_rbf_create(const gconv_rbf_order *order, gconv_rbf **made);
/* Runs the method `runs` times. *milliseconds is the time of all runs on the GPU, by events. */
gconv_status gconv_rbf_run(gconv_rbf *rbf, int runs, double *milliseconds);
/* Copies the row of `high` and that of `low`, of `cases` values each, to the host; or the indices of the smallest and the
 * largest number. Each may be NULL. */
gconv_status gconv_rbf_get(const gconv_rbf *rbf, float *rows, uint32_t *where);
/* Copies the plain extremum to the host. */
gconv_status gconv_rbf_get_value(const gconv_rbf *rbf, float *value);
/* Frees what gconv_rbf_create() made. NULL is allowed. */
void gconv_rbf_free(gconv_rbf *rbf);

#ifdef __cplusplus
}
#endif

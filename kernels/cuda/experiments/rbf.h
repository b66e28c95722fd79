/* SPDX-License-Identifier: MIT */
/*
 * The inner loop of a trainer of support vector machines as an article of the first years of CUDA measured it: to learn
 * from, and to compare with. gconv itself makes rows by ../svm/rows.h, many at a time.
 *
 *     row       K(x_i, q) = exp(-gamma |x_i - q|^2) of all N cases x_i, of d numbers each, and one case q
 *     extrema   where the largest of N gradients is, and the smallest
 *
 * A thread makes the value of a case; neighbouring threads have neighbouring cases. So all depends on where numbers stand:
 *
 *     rows      x[i][k]           a case behind the other: a warp reads from 32 places
 *     columns   x[k][i]           all first numbers, then all second ones ...; N is padded to a multiple of 32
 *     float4    x[k / 4][i][4]    the same of four numbers together, which are one load
 *     texture   the same, through the texture units and their cache
 *     local     the same as float4, with q in the memory that a block shares
 */
#ifndef GCONV_KERNELS_CUDA_EXPERIMENTS_RBF_H
#define GCONV_KERNELS_CUDA_EXPERIMENTS_RBF_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gconv_rbf_kind {
  GCONV_RBF_ROW,  /* of float32 sums */
  GCONV_RBF_MANY, /* gconv's own, of GCONV_RBF_TOGETHER rows at a time; times are those of one */
  GCONV_RBF_MIN,
  GCONV_RBF_MAX,
  GCONV_RBF_BOTH,
  GCONV_RBF_READ /* all numbers, once: the bound of the memory */
} gconv_rbf_kind;

enum { GCONV_RBF_TOGETHER = 512 };

typedef struct gconv_rbf_method {
  const char *name;
  gconv_rbf_kind kind;
} gconv_rbf_method;

/* NULL past the end. */
const gconv_rbf_method *gconv_rbf_method_at(size_t index);

/* The memory of a method, on the GPU that is current when it is made; one thread at a time. */
typedef struct gconv_rbf gconv_rbf;

/* `numbers` are cases x columns, of the host; the query is case 0. Columns are a multiple of 4. Of extrema: cases. */
typedef struct gconv_rbf_order {
  size_t method, cases, columns;
  const float *numbers;
  float gamma;
} gconv_rbf_order;

gconv_status gconv_rbf_create(const gconv_rbf_order *order, gconv_rbf **made);
/* Does it some times. *milliseconds is the time of all of them on the GPU, by events. */
gconv_status gconv_rbf_run(gconv_rbf *rbf, int runs, double *milliseconds);
/* Copies the row, of case 0, to the host; of extrema, where the smallest and the largest are. */
gconv_status gconv_rbf_get(const gconv_rbf *rbf, float *row, uint32_t *where);
/* NULL is allowed. */
void gconv_rbf_free(gconv_rbf *rbf);

#ifdef __cplusplus
}
#endif

#endif

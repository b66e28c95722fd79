/* SPDX-License-Identifier: MIT */
/* Products of matrices, one or many. */
#pragma once

#include "graph/node.h"

GCONV_C_BEGIN

/* Matrices a, M x K, and b, K x N: element (m, k) of a is a[m * a_row + k * a_column], and so on. */
typedef struct gconv_product {
  int64_t m, n, k, a_row, a_column, b_row, b_column;
  gconv_tensor stack;  /* the axes before the last two, broadcast */
  float alpha, beta;   /* of floating-point numbers: out = alpha * a b + beta * c */
  const float *panels; /* b of float32 as gconv_product_panels() writes it, which is read faster; or NULL */
} gconv_product;

/* Finds the matrices that MatMul multiplies. A vector is a row as the first factor, and a column as the second. turns_a,
 * turns_b: the matrices are transposed. Fails if the factors do not fit together. */
gconv_status gconv_product_find(const gconv_tensor *a, const gconv_tensor *b, bool turns_a, bool turns_b,
                                gconv_product *product);

/* Sets axes and shape of the product of a and b. */
gconv_status gconv_product_shape(const gconv_product *product, const gconv_tensor *a, const gconv_tensor *b,
                                 gconv_tensor *out);

/* Sets how many elements lie between neighbouring matrices of a and of b, along each axis of the stack. */
void gconv_product_steps(const gconv_product *product, const gconv_tensor *a, const gconv_tensor *b,
                         int64_t a_step[GCONV_TENSOR_AXES], int64_t b_step[GCONV_TENSOR_AXES]);

/* Multiplies tensors of one type: float32, float64, or integers of 32 or 64 bits, which wrap around. c is broadcast to the
 * product; NULL: there is none. A sum is one chain, from the first product to the last. */
void gconv_product_run(const gconv_node_work *work, const gconv_product *product, const gconv_tensor *a,
                       const gconv_tensor *b, const gconv_tensor *c, const gconv_tensor *out);

/* Writes b, one matrix of float32, in panels of GCONV_PRODUCT_PANEL columns: [column / GCONV_PRODUCT_PANEL][row][column %
 * GCONV_PRODUCT_PANEL], with 0 for columns that do not exist. */
enum { GCONV_PRODUCT_PANEL = 64 };
size_t gconv_product_panel_floats(const gconv_product *product);
void gconv_product_panels(const gconv_node_work *work, const gconv_product *product, const float *b, float *panels);

/* Whether gconv_product_run() takes this type. */
bool gconv_product_takes(gconv_tensor_type type);

GCONV_C_END

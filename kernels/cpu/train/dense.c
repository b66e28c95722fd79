/* SPDX-License-Identifier: MIT */
#include "dense.h"
#include "base/status.h"
#include "elements.h"
#include "kernels/cpu/layer/softmax.h"

#include <stdlib.h>
#include <string.h>

gconv_status gconv_learn_dense_prepare(const gconv_layer_problem *problem, gconv_learn_dense *dense) {
  gconv_learn_dense d = {.problem = *problem, .inputs = gconv_layer_taps(problem), .outputs = problem->filters};
  d.padded = gconv_learn_padded(d.outputs);
  d.weights = (size_t)d.inputs * (size_t)d.padded;
  d.parameters = d.weights + (size_t)d.padded;
  int64_t features = d.inputs > d.outputs ? d.inputs : d.outputs;
  d.offsets = malloc((size_t)features * sizeof *d.offsets);
  *dense = d;
  GCONV_NEED_MEMORY(d.offsets, "no memory for training");
  for (int64_t i = 0; i < features; i++)
    d.offsets[i] = i * GCONV_LEARN_PITCH;
  return GCONV_OK;
}

void gconv_learn_dense_free(gconv_learn_dense *dense) {
  free(dense->offsets);
  *dense = (gconv_learn_dense){0};
}

void gconv_learn_dense_take(const gconv_learn_dense *dense, const float *plain, float *own) {
  memset(own, 0, dense->parameters * sizeof *own);
  gconv_learn_transpose(plain, dense->inputs, dense->outputs, dense->inputs, own, dense->padded);
  memcpy(own + dense->weights, plain + dense->outputs * dense->inputs, (size_t)dense->outputs * sizeof *own);
}

void gconv_learn_dense_give(const gconv_learn_dense *dense, const float *own, float *plain) {
  for (int64_t k = 0; k < dense->outputs; k++)
    for (int64_t t = 0; t < dense->inputs; t++)
      *plain++ = own[t * dense->padded + k];
  memcpy(plain, own + dense->weights, (size_t)dense->outputs * sizeof *own);
}

void gconv_learn_dense_transpose(const gconv_learn_dense *dense, const float *own, float *panel) {
  gconv_learn_transpose(own, dense->padded, dense->inputs, dense->outputs, panel, dense->inputs);
}

void gconv_learn_dense_forward(const gconv_learn_dense *dense, const float *own, const float *x, int64_t cases, float *y) {
  gconv_gather gather = {
      .a = own, .a_pitch = dense->padded, .offsets = dense->offsets, .count = dense->inputs, .out_pitch = GCONV_LEARN_PITCH};
  gconv_learn_gather(&gather, dense->outputs, cases, x, y);
  const gconv_learn_rows row = {.rows = 1, .count = cases};
  for (int64_t k = 0; k < dense->outputs; k++)
    gconv_learn_activate_rows(&dense->problem, &row, y + k * GCONV_LEARN_PITCH, own[(int64_t)dense->weights + k],
                              y + k * GCONV_LEARN_PITCH);
  if (dense->problem.activation == GCONV_ACTIVATION_SOFTMAX)
    gconv_softmax_rows(y, GCONV_LEARN_PITCH, dense->outputs, cases);
}

void gconv_learn_dense_inputs(const gconv_learn_dense *dense, const float *panel, const float *dz, int64_t cases,
                              float *dx) {
  gconv_gather gather = {.a = panel,
                         .a_pitch = dense->inputs,
                         .offsets = dense->offsets,
                         .count = dense->outputs,
                         .out_pitch = GCONV_LEARN_PITCH};
  gconv_learn_gather(&gather, dense->inputs, cases, dz, dx);
}

void gconv_learn_dense_weights(const gconv_learn_dense *dense, const float *x, float *dz, int64_t cases, float *transposed,
                               float *gradient) {
  memset(dz + dense->outputs * GCONV_LEARN_PITCH, 0,
         (size_t)((dense->padded - dense->outputs) * GCONV_LEARN_PITCH) * sizeof *dz);
  gconv_learn_transpose(dz, GCONV_LEARN_PITCH, dense->padded, cases, transposed, dense->padded);
  gconv_outer outer = {.offsets = dense->offsets,
                       .rows = 1,
                       .columns = cases,
                       .g_pitch = dense->padded,
                       .out_pitch = dense->padded,
                       .begins = true};
  gconv_learn_outer(&outer, dense->inputs, dense->outputs, x, transposed, gradient);
  gconv_learn_sum_rows(transposed, cases, dense->padded, gradient + dense->weights);
}

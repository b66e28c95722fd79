/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of training that the algorithms for layers compute (kernels/layer_algorithm.h): layers forward and, with a
 * stride of 1, the gradient of their inputs. This gradient is a convolution of the gradient of their sums with the filters
 * rotated by 180 degrees, and with inputs and outputs exchanged. Exact algorithms add in the order of
 * kernels/learn_problem.h.
 */
#pragma once

#include "kernels/cuda/train/layers.h"
#include "kernels/layer_algorithm.h"
#include "train/engine.h"

/* One convolution of a batch. */
typedef struct gconv_learn_plan {
  const gconv_layer_algorithm *algorithm; /* NULL: there is no plan */
  gconv_layer_problem problem;
  void *state;
  size_t at, floats;         /* offset and number of its weights, in the weights of all plans */
  size_t again, again_count; /* offset, after all sources, and length of the numbers for prepare_again(); length 0: none */
} gconv_learn_plan;

/* The plans of all layers. */
typedef struct gconv_learn_plans {
  gconv_learn_plan *forward, *inputs; /* one for each layer */
  size_t count, floats, again, workspace_bytes;
  /* In device memory. The prepared weights of an algorithm are copies of weights, and constants: */
  float *weights;
  int32_t *sources; /* for each weight, the parameter that it copies; -1: a constant. Then the numbers for prepare_again() */
  void *workspace;  /* workspace of the plan that runs */
} gconv_learn_plans;

/* Makes plans for the layers before the dense tail, for batches of `images` cases. Free with gconv_learn_plans_free(), on
 * failure too. */
gconv_status gconv_learn_plans_make(const gconv_engine_order *order, const gconv_learn_own *layers, size_t images,
                                    gconv_learn_plans *plans);
void gconv_learn_plans_free(gconv_learn_plans *plans);

/* Call it when parameters have changed: copies them to the places of the plans. */
gconv_status gconv_learn_plans_place(const gconv_learn_plans *plans, const float *parameters, cudaStream_t stream);

/* Computes `out`, for as many images as the plan was made for. */
gconv_status gconv_learn_plan_run(const gconv_learn_plans *plans, const gconv_learn_plan *plan, const float *in, float *out,
                                  cudaStream_t stream);

/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of training that the algorithms for layers solve (kernels/layer_algorithm.h): layers forward, and, where the
 * stride is 1, the gradient of their inputs, which is the convolution of the gradient of their sums with the weights turned
 * by 180 degrees, inputs and outputs exchanged. The order of the sums of exact algorithms is that of
 * kernels/learn_problem.h.
 */
#ifndef GCONV_TRAIN_PLANS_CUDA_H
#define GCONV_TRAIN_PLANS_CUDA_H

#include "kernels/cuda/train/layers.h"
#include "kernels/layer_algorithm.h"
#include "train/engine.h"

/* One convolution of a batch. */
typedef struct gconv_learn_plan {
  const gconv_layer_algorithm *algorithm; /* NULL: there is no plan */
  gconv_layer_problem problem;
  void *state;
  size_t at, floats;         /* of its weights, among those of all plans */
  size_t again, again_count; /* where what prepare_again() needs is, among all sources; 0: it has no use for it */
} gconv_learn_plan;

/* The plans of all layers. */
typedef struct gconv_learn_plans {
  gconv_learn_plan *forward, *inputs; /* of each layer */
  size_t count, floats, again, workspace_bytes;
  /* Of the device. Where an algorithm wants the weights, it has copies of them, and constants: */
  float *weights;
  int32_t *sources; /* of which parameter each is a copy; -1: it is a constant. Behind them, what prepare_again() needs */
  void *workspace;  /* of the plan at work */
} gconv_learn_plans;

/* Plans for batches of `images` cases, of the layers before the dense tail. Free with gconv_learn_plans_free(), on failure
 * too. */
gconv_status gconv_learn_plans_make(const gconv_engine_order *order, const gconv_learn_own *layers, size_t images,
                                    gconv_learn_plans *plans);
void gconv_learn_plans_free(gconv_learn_plans *plans);

/* To be called when parameters have changed. */
gconv_status gconv_learn_plans_place(const gconv_learn_plans *plans, const float *parameters, cudaStream_t stream);

/* Computes out, of as many images as the plan was made for. */
gconv_status gconv_learn_plan_run(const gconv_learn_plans *plans, const gconv_learn_plan *plan, const float *in, float *out,
                                  cudaStream_t stream);

#endif

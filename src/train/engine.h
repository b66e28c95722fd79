/* SPDX-License-Identifier: MIT */
/* An engine computes losses and gradients, and updates weights, on one device. The trainer calls it. It owns the parameters
 * while they are trained. */
#pragma once

#include "device/device.h"
#include "kernels/learn_math.h"

#include <stdio.h>

/* The arguments of an engine. */
typedef struct gconv_engine_order {
  gconv_device *device;
  const gconv_learn_net *net;
  const float *mean, *std; /* a number for each channel of the input; NULL: 0, 1 */
  size_t batch;            /* the most cases of a step */
  uint64_t memory;         /* memory as in gconv_training_options */
  bool exact;              /* sums must be as in kernels/learn_problem.h, to the bit */
  gconv_math math;         /* if not exact: as in gconv_training_options */
} gconv_engine_order;

/* Some cases of a data set. */
typedef struct gconv_learn_cases {
  const gconv_dataset *data;
  uint64_t epoch;
  const size_t *numbers;
  size_t count;
  bool in_order; /* numbers[i] is i */
} gconv_learn_cases;

/* The results of some cases. loss: the sum of their losses, without gconv_learn_loss_factor(); hits: how many cases got
 * their class. */
typedef struct gconv_learn_sums {
  double loss;
  size_t hits;
} gconv_learn_sums;

/* Arrays with a float for each parameter, in the order of gconv_learn_net. */
typedef enum gconv_learn_array {
  GCONV_LEARN_PARAMETERS,
  GCONV_LEARN_FIRST,
  GCONV_LEARN_SECOND,
  GCONV_LEARN_GRADIENT,
  GCONV_LEARN_BEST /* the best parameters so far */
} gconv_learn_array;
enum { GCONV_LEARN_ARRAYS = 5 };

typedef struct gconv_engine_type {
  /* Creates an engine whose arrays are 0. What `order` points to must outlive it. */
  gconv_status (*create)(const gconv_engine_order *order, void **engine);
  void (*free)(void *engine);
  void (*set)(void *engine, gconv_learn_array array, const float *values);
  void (*get)(const void *engine, gconv_learn_array array, float *values);
  /* keep() copies the parameters to GCONV_LEARN_BEST. is_finite() is true if all parameters are finite. */
  void (*keep)(void *engine);
  bool (*is_finite)(const void *engine);
  /* Computes the losses and the gradient of up to order.batch cases. NULL, as update() is, in engines with start(). */
  gconv_status (*backward)(void *engine, const gconv_learn_cases *cases, gconv_learn_sums *sums);
  /* Updates the parameters by the gradient. */
  gconv_status (*update)(void *engine, const gconv_learn_step *step);
  /* Computes the losses of any number of cases, and sums them by a tree. */
  gconv_status (*evaluate)(void *engine, const gconv_learn_cases *cases, gconv_learn_sums *sums);
  /* Starts at least one of `count` steps. Step i has at most order.batch cases, from i * order.batch on; if a batch has all
   * cases of the data, each step has them. A step whose loss is not finite changes nothing, and is the last one. Before a
   * step whose loss times gconv_learn_loss_factor() is below `best`, the engine calls keep(). The next call must be
   * prepare(), await() or free(); the caller can do other work before. NULL: steps are taken one by one, by backward() and
   * update(). */
  gconv_status (*start)(void *engine, const gconv_learn_cases *cases, const gconv_learn_step *steps, size_t count,
                        double best);
  /* Waits for the steps that start() started. *taken: their number; sums[i]: the result of step i, before its update. */
  gconv_status (*await)(void *engine, gconv_learn_sums *sums, size_t *taken);
  /* True if the sums are as in kernels/learn_problem.h, to the bit. NULL: always. */
  bool (*is_exact)(const void *engine);
  /* Writes how the engine computes the network, and why: part of a sentence, without a full stop. NULL: there is one way. */
  void (*explain)(const void *engine, FILE *text);
  /* May be called between start() and await(): reads the cases of the next step that has not been started. If start() had
   * the last steps of its epoch, that is the first step of `next`, the cases of the next epoch; `next` is NULL if there is
   * none. An engine that reads nothing ahead has NULL here. */
  void (*prepare)(void *engine, const gconv_learn_cases *next);
} gconv_engine_type;

#ifdef __cplusplus
extern "C" {
#endif
extern const gconv_engine_type gconv_engine_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_engine_type gconv_engine_cuda;
#endif
#ifdef __cplusplus
}
#endif

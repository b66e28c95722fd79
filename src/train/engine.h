/* SPDX-License-Identifier: MIT */
/* An engine computes losses and gradients, and changes weights, on one device. The trainer tells it what to do. It owns the
 * parameters while they are trained. */
#ifndef GCONV_TRAIN_ENGINE_H
#define GCONV_TRAIN_ENGINE_H

#include "device/device.h"
#include "kernels/learn_math.h"

#include <stdio.h>

/* What an engine is made for. */
typedef struct gconv_engine_order {
  gconv_device *device;
  const gconv_learn_net *net;
  const float *mean, *std; /* a number for each channel of the input; NULL: 0, 1 */
  size_t batch;            /* cases of a step, at most */
  uint64_t memory;         /* of gconv_training_options */
  bool exact;              /* whether sums must be those of kernels/learn_problem.h, to the bit */
  gconv_math math;         /* if not: of gconv_training_options */
} gconv_engine_order;

/* Some cases of a data set. */
typedef struct gconv_learn_cases {
  const gconv_dataset *data;
  uint64_t epoch;
  const size_t *numbers;
  size_t count;
  bool in_order; /* numbers[i] is i */
} gconv_learn_cases;

/* What cases came to: the sum of their losses, before it is multiplied by gconv_learn_loss_factor(), and how many were given
 * their class. */
typedef struct gconv_learn_sums {
  double loss;
  size_t hits;
} gconv_learn_sums;

/* Arrays of as many floats as the network has parameters, in the order of gconv_learn_net. */
typedef enum gconv_learn_array {
  GCONV_LEARN_PARAMETERS,
  GCONV_LEARN_FIRST,
  GCONV_LEARN_SECOND,
  GCONV_LEARN_GRADIENT,
  GCONV_LEARN_BEST /* the best parameters so far */
} gconv_learn_array;
enum { GCONV_LEARN_ARRAYS = 5 };

typedef struct gconv_engine_type {
  const char *name;
  /* All arrays are 0. What `order` points to must outlive the engine. */
  gconv_status (*create)(const gconv_engine_order *order, void **engine);
  void (*free)(void *engine);
  void (*set)(void *engine, gconv_learn_array array, const float *values);
  void (*get)(const void *engine, gconv_learn_array array, float *values);
  /* The parameters become the best ones; whether they are all finite. */
  void (*keep)(void *engine);
  bool (*is_finite)(const void *engine);
  /* The losses of at most order.batch cases, and their gradient. NULL, as update() is, where there is start(). */
  gconv_status (*backward)(void *engine, const gconv_learn_cases *cases, gconv_learn_sums *sums);
  /* Changes the parameters by the gradient. */
  gconv_status (*update)(void *engine, const gconv_learn_step *step);
  /* The losses of any number of cases. They are summed by a tree. */
  gconv_status (*evaluate)(void *engine, const gconv_learn_cases *cases, gconv_learn_sums *sums);
  /* Starts some of `count` steps, at least one. Step i has the cases from i * order.batch on, at most order.batch of them;
   * where that are all of the data, each step has them. A step whose loss is not finite is the last one, and changes
   * nothing. Before a step whose loss, multiplied by gconv_learn_loss_factor(), is below `best`, keep() is done. The next
   * call must be prepare(), await() or free(); the caller can do other work before. NULL: steps are taken one by one, by
   * backward() and update(). */
  gconv_status (*start)(void *engine, const gconv_learn_cases *cases, const gconv_learn_step *steps, size_t count,
                        double best);
  /* Waits for these steps: *taken says how many, and sums[i] what step i came to, before its change. */
  gconv_status (*await)(void *engine, gconv_learn_sums *sums, size_t *taken);
  /* Whether the sums are those of kernels/learn_problem.h, to the bit. NULL: always. */
  bool (*is_exact)(const void *engine);
  /* Writes how the engine goes about the network, and why: part of a sentence, without a point. NULL: there is one way. */
  void (*explain)(const void *engine, FILE *text);
  /* May be called between start() and await(): reads the cases of the first step that has not been started, so that this
   * step does not wait for them. If start() was given the last steps of its epoch, that step is the first one of `next`, the
   * cases of the next epoch; NULL if there is none. An engine that reads nothing ahead has NULL here. */
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

#endif

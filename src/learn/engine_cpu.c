/* SPDX-License-Identifier: MIT */
#include "base/memory.h"
#include "kernels/cpu/learn/classic.h"
#include "kernels/cpu/learn/update.h"
#include "learn/dataset.h"
#include "learn/engine.h"

#include <stdlib.h>
#include <string.h>

typedef struct engine {
  gconv_engine_order order;
  float *arrays[GCONV_LEARN_ARRAYS];
} engine;

static void destroy(void *state) {
  engine *e = state;
  if (!e)
    return;
  for (int i = 0; i < GCONV_LEARN_ARRAYS; i++)
    free(e->arrays[i]);
  free(e);
}

static gconv_status create(const gconv_engine_order *order, void **result) {
  engine *e = calloc(1, sizeof *e);
  bool good = e != NULL;
  for (int i = 0; good && i < GCONV_LEARN_ARRAYS; i++) {
    e->arrays[i] = calloc(order->net->parameters, sizeof(float));
    good = e->arrays[i] != NULL;
  }
  if (!good) {
    destroy(e);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  }
  e->order = *order;
  *result = e;
  return GCONV_OK;
}

static void set(void *state, gconv_learn_array array, const float *values) {
  engine *e = state;
  memcpy(e->arrays[array], values, e->order.net->parameters * sizeof *values);
}

static void get(const void *state, gconv_learn_array array, float *values) {
  const engine *e = state;
  memcpy(values, e->arrays[array], e->order.net->parameters * sizeof *values);
}

static gconv_status run(engine *e, const gconv_learn_cases *cases, gconv_learn_sums *sums, float *gradient) {
  const gconv_learn_net *net = e->order.net;
  size_t in = gconv_learn_in_floats(&net->layers[0]), wanted = gconv_learn_target_floats(net);
  size_t outputs = gconv_learn_outputs(net), plane = in / (size_t)net->layers[0].problem.channels;
  float *inputs = malloc(cases->count * in * sizeof(float)), *targets = malloc(cases->count * wanted * sizeof(float));
  float *y = malloc(cases->count * outputs * sizeof(float));
  gconv_status status = GCONV_OK;
  if (!inputs || !targets || !y)
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for %zu cases", cases->count);
  if (status == GCONV_OK)
    status = gconv_dataset_read(cases->data, cases->epoch, cases->numbers, cases->count, inputs, targets);
  for (size_t i = 0; status == GCONV_OK && e->order.mean && i < cases->count * in; i++)
    inputs[i] = (inputs[i] - e->order.mean[i % in / plane]) / e->order.std[i % in / plane];
  if (status == GCONV_OK)
    status = gconv_learn_classic(net, e->arrays[0], inputs, targets, cases->count, &sums->loss, gradient, y);
  sums->loss /= gconv_learn_loss_factor(net, cases->count);
  sums->hits = 0;
  for (size_t n = 0; status == GCONV_OK && net->classes && n < cases->count; n++) {
    size_t best = 0;
    for (size_t k = 1; k < outputs; k++)
      best = y[n * outputs + k] > y[n * outputs + best] ? k : best;
    sums->hits += best == (size_t)targets[n];
  }
  free(inputs);
  free(targets);
  free(y);
  return status;
}

static gconv_status backward(void *state, const gconv_learn_cases *cases, gconv_learn_sums *sums) {
  engine *e = state;
  return run(e, cases, sums, e->arrays[GCONV_LEARN_GRADIENT]);
}

static gconv_status evaluate(void *state, const gconv_learn_cases *cases, gconv_learn_sums *sums) {
  engine *e = state;
  float *gradient = malloc(e->order.net->parameters * sizeof *gradient);
  gconv_status status = gradient ? run(e, cases, sums, gradient) : gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  free(gradient);
  return status;
}

static gconv_status update(void *state, const gconv_learn_step *step) {
  engine *e = state;
  for (size_t i = 0; i < e->order.net->count; i++) {
    const gconv_learn_layer *layer = &e->order.net->layers[i];
    size_t at = layer->weights, biases = layer->parameters ? (size_t)layer->problem.filters : 0;
    for (int part = 0; part < 2; part++) {
      size_t count = part ? biases : layer->parameters - biases;
      gconv_learn_update_range(step, part == 0, count, e->arrays[GCONV_LEARN_GRADIENT] + at, e->arrays[0] + at,
                               e->arrays[GCONV_LEARN_FIRST] + at, e->arrays[GCONV_LEARN_SECOND] + at);
      at += count;
    }
  }
  return GCONV_OK;
}

const gconv_engine_type gconv_engine_cpu = {.name = "cpu",
                                            .create = create,
                                            .free = destroy,
                                            .set = set,
                                            .get = get,
                                            .backward = backward,
                                            .update = update,
                                            .evaluate = evaluate};

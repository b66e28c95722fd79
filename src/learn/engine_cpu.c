/* SPDX-License-Identifier: MIT */
/*
 * The engine of the CPU. What lies before the dense tail of a network goes case by case, and the tail goes by slices of
 * cases, with kernels/cpu/learn; so what a thread works on stays in its caches. A task is 2^n cases, or slices, in a row. It
 * yields the sum of their gradients, a branch of the tree, so the number of tasks changes no bit. Where a network has both
 * parts, as many cases as fill some slices go forward through the first part; then through the tail, forward and backward;
 * then backward through the first part.
 */
#include "base/memory.h"
#include "kernels/cpu/layer/softmax.h"
#include "kernels/cpu/learn/conv.h"
#include "kernels/cpu/learn/dense.h"
#include "kernels/cpu/learn/elements.h"
#include "kernels/cpu/learn/update.h"
#include "learn/dataset.h"
#include "learn/engine.h"
#include "learn/tree.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  LEAST_TASKS = 8,        /* into which a step is divided, where it has as many cases or slices */
  LEAST_WORK = 400000,    /* multiplications of a step that other threads are woken for */
  CHUNK_BYTES = 256 << 20 /* of values that a chunk of several slices may keep between its passes */
};

/* ---- What an engine is --------------------------------------------------------------------------------------------------
 */

/* A layer, and where its parameters are in the arrays of the engine. */
typedef struct own_layer {
  const gconv_learn_layer *layer;
  gconv_learn_conv conv;   /* before the tail */
  gconv_learn_dense dense; /* in the tail */
  size_t at, parameters;   /* 0 of layers without weights */
  size_t panel;            /* where its turned weights are */
  size_t value;            /* before the tail: where its input is among the values of a case */
  size_t bands;
} own_layer;

/* What a thread works with. */
typedef struct seat {
  float *values;            /* of a case, before the tail: the inputs of all layers, and the last output */
  float *gradients[2];      /* of a case, or of a slice */
  float *workspace;         /* of convolutions */
  float *slice;             /* the inputs of all layers of the tail, and the last output */
  float *turned;            /* the gradient of a slice, turned */
  float *inputs, *targets;  /* of a slice, as the data set has them */
  gconv_tree cases, slices; /* of a task */
  gconv_tree bands;         /* of a case */
} seat;

typedef struct engine {
  gconv_engine_order order;
  const gconv_learn_net *net;
  own_layer *layers;
  size_t tail;       /* the first layer of the tail */
  size_t first, all; /* parameters before the tail, and in all */
  float *arrays[GCONV_LEARN_ARRAYS];
  float *panels;          /* turned weights */
  size_t in, out, target; /* floats of a case: of the input, the output, the target */
  size_t values;          /* floats that a case keeps before the tail */
  size_t features;        /* floats of a case that go into the tail */
  size_t largest;         /* floats of the largest gradient of a case, and of a slice */
  bool mixed;             /* there are layers before the tail, and a tail */
  size_t chunk;           /* cases that a pass takes at a time */
  double work;            /* multiplications of a case */
  size_t seats;
  seat *seat;
  size_t case_tasks, slice_tasks;                        /* for which there are partial sums */
  float **case_sums, **slice_sums;                       /* the first of each is a part of the gradient */
  gconv_tree case_chunks, slice_chunks;                  /* of several chunks */
  float *chunk_values, *chunk_gradients, *chunk_targets; /* of a network with both parts */
  double *losses;
  size_t losses_room;
} engine;

static bool is_trained(const engine *e, size_t i) {
  return e->layers[i].parameters > 0;
}

/* ---- Making one ---------------------------------------------------------------------------------------------------------
 */

static gconv_status floats_of(size_t count, float **floats) {
  void *memory = NULL;
  size_t bytes;
  gconv_multiply(count + 1, sizeof(float), &bytes);
  GCONV_TRY(gconv_allocate_workspace(bytes, "training", &memory));
  memset(memory, 0, bytes);
  *floats = memory;
  return GCONV_OK;
}

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static size_t padded(size_t floats) { /* with what kernels may read behind them */
  return (floats + GCONV_STAGE_SLACK + 15) / 16 * 16;
}

static gconv_status prepare_layer(engine *e, size_t i) {
  own_layer *own = &e->layers[i];
  const gconv_learn_layer *layer = own->layer = &e->net->layers[i];
  e->largest = larger(e->largest, larger(gconv_learn_in_floats(layer), gconv_learn_out_floats(layer)));
  own->at = e->all;
  if (i < e->tail) {
    own->value = e->values;
    e->values += padded(gconv_learn_in_floats(layer));
  }
  if (layer->kind != GCONV_LAYER_CONV)
    return GCONV_OK;
  const gconv_layer_problem *p = &layer->problem;
  e->work += (double)gconv_learn_out_floats(layer) * (double)gconv_layer_taps(p) * (i > 0 ? 3 : 2);
  if (i < e->tail) {
    GCONV_TRY(gconv_learn_conv_prepare(p, i > 0, &own->conv));
    own->parameters = own->conv.parameters;
    own->bands = (size_t)gconv_learn_bands(p);
  } else {
    GCONV_TRY(gconv_learn_dense_prepare(p, &own->dense));
    own->parameters = own->dense.parameters;
  }
  e->all += own->parameters;
  return GCONV_OK;
}

static size_t panel_floats(const engine *e, size_t i) {
  const own_layer *own = &e->layers[i];
  return !is_trained(e, i) || i == 0 ? 0
         : i < e->tail               ? own->conv.panels * (size_t)own->layer->problem.groups
                                     : (size_t)(own->dense.inputs * own->dense.outputs);
}

static gconv_status prepare_layers(engine *e) {
  size_t panels = 0;
  e->layers = calloc(e->net->count, sizeof *e->layers);
  if (!e->layers)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  for (size_t i = 0; i < e->net->count; i++) {
    if (i == e->tail)
      e->first = e->all;
    GCONV_TRY(prepare_layer(e, i));
    e->layers[i].panel = panels;
    panels += panel_floats(e, i);
  }
  if (e->tail == e->net->count)
    e->first = e->all;
  e->values += padded(e->tail > 0 ? gconv_learn_out_floats(&e->net->layers[e->tail - 1]) : 0);
  for (int i = 0; i < GCONV_LEARN_ARRAYS; i++)
    GCONV_TRY(floats_of(e->all, &e->arrays[i]));
  return floats_of(panels, &e->panels);
}

/* Tasks of a pass, at most. */
static size_t most_tasks(const engine *e) {
  return larger(LEAST_TASKS, 4 * e->seats);
}

/* How many cases or slices, a power of two, a task takes of `count`. */
static size_t task_size(const engine *e, size_t count) {
  size_t wanted = most_tasks(e), size = 1;
  while (count > wanted * size)
    size *= 2;
  return size;
}

static size_t divide_up(size_t a, size_t b) {
  return a / b + (a % b != 0);
}

static gconv_status prepare_seat(engine *e, seat *s) {
  size_t workspace = 0, slice = 0, turned = 0, bands = 1, largest_layer = 0;
  const size_t cases = GCONV_LEARN_SLICE;
  for (size_t i = 0; i < e->net->count; i++) {
    const own_layer *own = &e->layers[i];
    if (i < e->tail && is_trained(e, i)) {
      workspace = larger(workspace, gconv_learn_conv_workspace(&own->conv));
      if (own->bands > 1)
        largest_layer = larger(largest_layer, own->parameters);
      bands = larger(bands, own->bands);
    }
    if (i >= e->tail)
      slice += gconv_learn_in_floats(own->layer) * GCONV_LEARN_PITCH;
    if (i >= e->tail && is_trained(e, i))
      turned = larger(turned, (size_t)own->dense.padded * GCONV_LEARN_SLICE);
  }
  bool dense = e->tail < e->net->count;
  slice += dense ? e->out * GCONV_LEARN_PITCH : 0;
  size_t gradient = larger(e->tail > 0 ? e->largest : 0, dense ? e->largest * GCONV_LEARN_PITCH : 0);
  GCONV_TRY(floats_of(e->mixed || e->tail == 0 ? 0 : e->values, &s->values));
  for (int i = 0; i < 2; i++)
    GCONV_TRY(floats_of(padded(gradient), &s->gradients[i]));
  GCONV_TRY(floats_of(workspace, &s->workspace));
  GCONV_TRY(floats_of(dense ? padded(slice) : 0, &s->slice));
  GCONV_TRY(floats_of(turned, &s->turned));
  GCONV_TRY(floats_of(e->tail == 0 ? cases * e->in : 0, &s->inputs));
  GCONV_TRY(floats_of(e->mixed ? 0 : cases * e->target, &s->targets));
  GCONV_TRY(gconv_tree_make(largest_layer, bands, &s->bands));
  GCONV_TRY(gconv_tree_make(e->first, task_size(e, e->order.batch), &s->cases));
  return gconv_tree_make(e->all - e->first, task_size(e, divide_up(e->order.batch, GCONV_LEARN_SLICE)), &s->slices);
}

static gconv_status prepare_sums(size_t tasks, size_t floats, float *first, float ***sums) {
  *sums = calloc(tasks + 1, sizeof **sums);
  if (!*sums)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  (*sums)[0] = first;
  for (size_t i = 1; floats > 0 && i < tasks; i++)
    GCONV_TRY(floats_of(floats, &(*sums)[i]));
  return GCONV_OK;
}

static gconv_status prepare_chunks(engine *e) {
  size_t batch = e->order.batch, chunk = batch;
  if (e->mixed) {
    chunk = GCONV_LEARN_SLICE;
    while (chunk < batch && chunk < e->seats * GCONV_LEARN_SLICE &&
           2 * chunk * e->values * sizeof(float) <= (size_t)CHUNK_BYTES)
      chunk *= 2;
    chunk = chunk < batch ? chunk : batch;
    GCONV_TRY(floats_of(chunk * e->values, &e->chunk_values));
    GCONV_TRY(floats_of(chunk * e->features, &e->chunk_gradients));
    GCONV_TRY(floats_of(chunk * e->target, &e->chunk_targets));
  }
  e->chunk = chunk;
  size_t slices = divide_up(chunk, GCONV_LEARN_SLICE), chunks = divide_up(batch, chunk);
  e->case_tasks = chunk < most_tasks(e) ? chunk : most_tasks(e); /* fewer cases may make more tasks */
  e->slice_tasks = slices < most_tasks(e) ? slices : most_tasks(e);
  float *gradient = e->arrays[GCONV_LEARN_GRADIENT];
  GCONV_TRY(prepare_sums(e->case_tasks, e->first, gradient, &e->case_sums));
  GCONV_TRY(prepare_sums(e->slice_tasks, e->all - e->first, gradient + e->first, &e->slice_sums));
  GCONV_TRY(gconv_tree_make(e->first, chunks, &e->case_chunks));
  return gconv_tree_make(e->all - e->first, chunks, &e->slice_chunks);
}

static gconv_status fill_engine(engine *e) {
  const gconv_learn_net *net = e->net;
  e->tail = gconv_learn_tail(net);
  e->mixed = e->tail > 0 && e->tail < net->count;
  e->in = gconv_learn_in_floats(&net->layers[0]);
  e->out = gconv_learn_outputs(net);
  e->target = gconv_learn_target_floats(net);
  e->features = e->mixed ? gconv_learn_in_floats(&net->layers[e->tail]) : 0;
  e->seats = (size_t)gconv_threads_count(e->order.device->threads);
  GCONV_TRY(prepare_layers(e));
  e->seat = calloc(e->seats, sizeof *e->seat);
  if (!e->seat)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  for (size_t i = 0; i < e->seats; i++)
    GCONV_TRY(prepare_seat(e, &e->seat[i]));
  return prepare_chunks(e);
}

static void free_seat(seat *s) {
  float *const all[] = {s->values, s->gradients[0], s->gradients[1], s->workspace,
                        s->slice,  s->turned,       s->inputs,       s->targets};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    gconv_release(all[i]);
  gconv_tree_free(&s->cases);
  gconv_tree_free(&s->slices);
  gconv_tree_free(&s->bands);
}

static void free_sums(float **sums, size_t tasks) {
  for (size_t i = 1; sums && i < tasks; i++)
    gconv_release(sums[i]);
  free(sums);
}

static void destroy(void *state) {
  engine *e = state;
  if (!e)
    return;
  for (size_t i = 0; e->layers && i < e->net->count; i++) {
    gconv_learn_conv_free(&e->layers[i].conv);
    gconv_learn_dense_free(&e->layers[i].dense);
  }
  for (size_t i = 0; e->seat && i < e->seats; i++)
    free_seat(&e->seat[i]);
  for (int i = 0; i < GCONV_LEARN_ARRAYS; i++)
    gconv_release(e->arrays[i]);
  free_sums(e->case_sums, e->case_tasks);
  free_sums(e->slice_sums, e->slice_tasks);
  gconv_tree_free(&e->case_chunks);
  gconv_tree_free(&e->slice_chunks);
  gconv_release(e->panels);
  gconv_release(e->chunk_values);
  gconv_release(e->chunk_gradients);
  gconv_release(e->chunk_targets);
  free(e->losses);
  free(e->layers);
  free(e->seat);
  free(e);
}

static gconv_status create(const gconv_engine_order *order, void **result) {
  engine *e = calloc(1, sizeof *e);
  if (!e)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  e->order = *order;
  e->net = order->net;
  gconv_status status = fill_engine(e);
  if (status != GCONV_OK) {
    destroy(e);
    return status;
  }
  *result = e;
  return GCONV_OK;
}

static void set(void *state, gconv_learn_array array, const float *values) {
  engine *e = state;
  for (size_t i = 0; i < e->net->count; i++) {
    const own_layer *own = &e->layers[i];
    if (is_trained(e, i) && i < e->tail)
      gconv_learn_conv_take(&own->conv, values + own->layer->weights, e->arrays[array] + own->at);
    else if (is_trained(e, i))
      gconv_learn_dense_take(&own->dense, values + own->layer->weights, e->arrays[array] + own->at);
  }
}

static void get(const void *state, gconv_learn_array array, float *values) {
  const engine *e = state;
  for (size_t i = 0; i < e->net->count; i++) {
    const own_layer *own = &e->layers[i];
    if (is_trained(e, i) && i < e->tail)
      gconv_learn_conv_give(&own->conv, e->arrays[array] + own->at, values + own->layer->weights);
    else if (is_trained(e, i))
      gconv_learn_dense_give(&own->dense, e->arrays[array] + own->at, values + own->layer->weights);
  }
}

/* ---- A pass over cases --------------------------------------------------------------------------------------------------
 */

/* What the tasks of a pass share. */
typedef struct pass {
  engine *e;
  const gconv_learn_cases *cases;
  bool learns;          /* gradients are wanted */
  float factor;         /* gconv_learn_factor() of all cases */
  size_t begin, count;  /* of the cases of this chunk */
  size_t size;          /* cases or slices of a task */
  size_t *hits;         /* of each task */
  pthread_mutex_t lock; /* of the first failure */
  gconv_status status;
  char error[1024];
} pass;

/* Keeps the first failure of a task, with its text. */
static bool keeps_on(pass *p, gconv_status status) {
  if (status == GCONV_OK)
    return true;
  pthread_mutex_lock(&p->lock);
  if (p->status == GCONV_OK) {
    p->status = status;
    snprintf(p->error, sizeof p->error, "%s", gconv_last_error());
  }
  pthread_mutex_unlock(&p->lock);
  return false;
}

/* Calls the function for each task: in this thread alone where other threads would take longer to wake up. */
static void run_tasks(pass *p, size_t tasks, gconv_turn *function) {
  engine *e = p->e;
  if (tasks > 1 && e->work * (double)p->count >= LEAST_WORK)
    gconv_threads_run(e->order.device->threads, tasks, function, p);
  else
    for (size_t i = 0; i < tasks; i++)
      function(p, i, 0);
}

/* Reads cases first .. first + count - 1 of the pass, and normalises them. */
static gconv_status read_cases(const pass *p, size_t first, size_t count, float *inputs, float *targets) {
  const engine *e = p->e;
  size_t channels = (size_t)e->net->layers[0].problem.channels, plane = e->in / channels;
  GCONV_TRY(gconv_dataset_read(p->cases->data, p->cases->epoch, p->cases->numbers + first, count, inputs, targets));
  if (e->order.mean && plane == 1)
    for (size_t n = 0; n < count; n++)
      gconv_learn_normalize_each(inputs + n * channels, channels, e->order.mean, e->order.std);
  else if (e->order.mean)
    for (size_t i = 0; i < count * channels; i++)
      gconv_learn_normalize(inputs + i * plane, plane, e->order.mean[i % channels], e->order.std[i % channels]);
  for (size_t n = 0; e->net->classes && n < count; n++)
    if (!(targets[n] >= 0 && targets[n] < (float)e->out))
      return gconv_fail(GCONV_BAD_ARGUMENT, "case %zu of the data has the class %g, of %zu that are counted from 0 on",
                        p->cases->numbers[first + n], (double)targets[n], e->out);
  return GCONV_OK;
}

/* ---- Before the tail: a case --------------------------------------------------------------------------------------------
 */

/* Runs a case whose input is at values[0] through the layers before the tail. */
static void forward_case(engine *e, seat *s, float *values) {
  for (size_t i = 0; i < e->tail; i++) {
    const own_layer *own = &e->layers[i];
    const gconv_layer_problem *problem = &own->layer->problem;
    const float *x = values + own->value;
    float *y = values + (i + 1 < e->tail ? e->layers[i + 1].value : own->value + padded(gconv_learn_in_floats(own->layer)));
    size_t places = gconv_learn_out_places(own->layer);
    if (own->layer->kind == GCONV_LAYER_MEAN)
      gconv_learn_mean_rows(x, problem->channels, (int64_t)problem->height * problem->width, y);
    else if (own->layer->kind == GCONV_LAYER_RESIDUAL)
      gconv_learn_sum(x, values, gconv_learn_out_floats(own->layer), y);
    else
      gconv_learn_conv_forward(&own->conv, e->arrays[GCONV_LEARN_PARAMETERS] + own->at, x, s->workspace, y);
    if (problem->activation == GCONV_ACTIVATION_SOFTMAX)
      gconv_softmax_rows(y, (int64_t)places, problem->filters, (int64_t)places);
  }
}

/* Where the last output before the tail is. */
static float *features_of(const engine *e, float *values) {
  const own_layer *last = &e->layers[e->tail - 1];
  return values + last->value + padded(gconv_learn_in_floats(last->layer));
}

/* The gradient of the weights of a layer, from one case. */
static void sum_bands(seat *s, const own_layer *own, const float *x, const float *dz, float *leaf) {
  if (own->bands == 1) {
    gconv_learn_conv_weights(&own->conv, x, dz, 0, s->workspace, leaf + own->at);
    return;
  }
  s->bands.floats = own->parameters;
  for (size_t b = 0; b < own->bands; b++) {
    gconv_learn_conv_weights(&own->conv, x, dz, (int32_t)b, s->workspace, gconv_tree_leaf(&s->bands));
    gconv_tree_push(&s->bands);
  }
  memcpy(leaf + own->at, gconv_tree_sum(&s->bands), own->parameters * sizeof *leaf);
}

static void backward_inputs(engine *e, seat *s, const own_layer *own, const float *dz, float *dx) {
  const gconv_layer_problem *problem = &own->layer->problem;
  size_t plane = (size_t)problem->height * (size_t)problem->width;
  if (own->layer->kind == GCONV_LAYER_RESIDUAL)
    memcpy(dx, dz, gconv_learn_in_floats(own->layer) * sizeof *dx);
  else if (own->layer->kind == GCONV_LAYER_MEAN)
    for (size_t i = 0; i < gconv_learn_in_floats(own->layer); i++)
      dx[i] = dz[i / plane] / (float)plane;
  else
    gconv_learn_conv_inputs(&own->conv, e->panels + own->panel, dz, s->workspace, dx);
}

/* Goes back through the layers before the tail: gradients[0] of the seat has the gradient of their output. */
static void backward_case(engine *e, seat *s, const float *values, float *leaf) {
  float *dz = s->gradients[0], *dx = s->gradients[1];
  for (size_t i = e->tail; i-- > 0;) {
    const own_layer *own = &e->layers[i];
    const float *x = values + own->value, *y = x + padded(gconv_learn_in_floats(own->layer));
    int64_t places = (int64_t)gconv_learn_out_places(own->layer);
    if (i + 1 < e->net->count || e->net->loss != GCONV_LOSS_CROSS_ENTROPY)
      gconv_learn_differentiate_rows(&own->layer->problem, y, dz, places, own->layer->problem.filters, places);
    if (is_trained(e, i))
      sum_bands(s, own, x, dz, leaf);
    if (i == 0)
      break;
    backward_inputs(e, s, own, dz, dx);
    float *swap = dz;
    dz = dx;
    dx = swap;
  }
}

/* Where a task of `count` leaves puts the next one. */
static float *next_leaf(gconv_tree *tree, size_t count, float *sum) {
  return count == 1 ? sum : gconv_tree_leaf(tree);
}

static void add_leaf(gconv_tree *tree, size_t count) {
  if (count > 1)
    gconv_tree_push(tree);
}

/* There may be none, and no memory for them then. */
static void copy_floats(const float *from, size_t count, float *to) {
  if (count > 0)
    memcpy(to, from, count * sizeof *to);
}

static void store_sum(gconv_tree *tree, size_t count, float *sum) {
  if (count > 1)
    copy_floats(gconv_tree_sum(tree), tree->floats, sum);
}

/* A task of a network without a tail: cases forward and backward. */
static void whole_cases(void *context, size_t turn, int number) {
  pass *p = context;
  engine *e = p->e;
  seat *s = &e->seat[number];
  size_t begin = turn * p->size, count = p->count - begin < p->size ? p->count - begin : p->size;
  for (size_t n = begin; n < begin + count; n++) {
    size_t at = p->begin + n;
    if (!keeps_on(p, read_cases(p, at, 1, s->values, s->targets)))
      return;
    forward_case(e, s, s->values);
    p->hits[turn] += gconv_learn_losses(e->net, features_of(e, s->values), 1, s->targets, 1, p->factor, &e->losses[at],
                                        p->learns ? s->gradients[0] : NULL);
    if (!p->learns)
      continue;
    backward_case(e, s, s->values, next_leaf(&s->cases, count, e->case_sums[turn]));
    add_leaf(&s->cases, count);
  }
  if (p->learns)
    store_sum(&s->cases, count, e->case_sums[turn]);
}

/* Tasks of a network with both parts: cases forward; later, backward. */
static void cases_forward(void *context, size_t turn, int number) {
  pass *p = context;
  engine *e = p->e;
  for (size_t n = turn * p->size; n < p->count && n < (turn + 1) * p->size; n++) {
    float *values = e->chunk_values + n * e->values;
    if (!keeps_on(p, read_cases(p, p->begin + n, 1, values, e->chunk_targets + n * e->target)))
      return;
    forward_case(e, &e->seat[number], values);
  }
}

static void cases_backward(void *context, size_t turn, int number) {
  pass *p = context;
  engine *e = p->e;
  seat *s = &e->seat[number];
  size_t begin = turn * p->size, count = p->count - begin < p->size ? p->count - begin : p->size;
  for (size_t n = begin; n < begin + count; n++) {
    memcpy(s->gradients[0], e->chunk_gradients + n * e->features, e->features * sizeof(float));
    backward_case(e, s, e->chunk_values + n * e->values, next_leaf(&s->cases, count, e->case_sums[turn]));
    add_leaf(&s->cases, count);
  }
  store_sum(&s->cases, count, e->case_sums[turn]);
}

/* ---- The tail: a slice --------------------------------------------------------------------------------------------------
 */

/* The cases of a slice: n of them, whose inputs of the tail, and of the network, are `pitch` floats apart. */
typedef struct slice_of {
  size_t first, count; /* among the cases of the chunk */
  const float *features, *inputs, *targets;
  size_t pitch;
} slice_of;

static void add_inputs(const slice_of *slice, size_t channels, const float *x, float *y) {
  for (size_t c = 0; c < channels; c++)
    for (size_t n = 0; n < slice->count; n++)
      y[c * GCONV_LEARN_PITCH + n] = x[c * GCONV_LEARN_PITCH + n] + slice->inputs[n * slice->pitch + c];
}

/* Returns the outputs. */
static float *forward_slice(engine *e, seat *s, const slice_of *slice) {
  float *x = s->slice;
  size_t features = gconv_learn_in_floats(&e->net->layers[e->tail]);
  gconv_learn_turn(slice->features, (int64_t)slice->pitch, (int64_t)slice->count, (int64_t)features, x, GCONV_LEARN_PITCH);
  for (size_t i = e->tail; i < e->net->count; i++) {
    const own_layer *own = &e->layers[i];
    float *y = x + gconv_learn_in_floats(own->layer) * GCONV_LEARN_PITCH;
    if (own->layer->kind == GCONV_LAYER_RESIDUAL)
      add_inputs(slice, (size_t)own->layer->problem.filters, x, y);
    else
      gconv_learn_dense_forward(&own->dense, e->arrays[GCONV_LEARN_PARAMETERS] + own->at, x, (int64_t)slice->count, y);
    x = y;
  }
  return x;
}

/* Goes back through the tail: gradients[0] of the seat has the gradient of the outputs, which are at y. If there are layers
 * before the tail, the gradient of its input goes to e->chunk_gradients. */
static void backward_slice(engine *e, seat *s, const slice_of *slice, const float *y, float *leaf) {
  float *dz = s->gradients[0], *dx = s->gradients[1];
  int64_t cases = (int64_t)slice->count;
  for (size_t i = e->net->count; i-- > e->tail;) {
    const own_layer *own = &e->layers[i];
    const float *x = y - gconv_learn_in_floats(own->layer) * GCONV_LEARN_PITCH;
    if (i + 1 < e->net->count || e->net->loss != GCONV_LOSS_CROSS_ENTROPY)
      gconv_learn_differentiate_rows(&own->layer->problem, y, dz, GCONV_LEARN_PITCH, own->layer->problem.filters, cases);
    y = x;
    if (!is_trained(e, i))
      continue;
    gconv_learn_dense_weights(&own->dense, x, dz, cases, s->turned, leaf + (own->at - e->first));
    if (i == 0)
      return;
    gconv_learn_dense_inputs(&own->dense, e->panels + own->panel, dz, cases, dx);
    float *swap = dz;
    dz = dx;
    dx = swap;
  }
  if (e->mixed)
    gconv_learn_turn(dz, GCONV_LEARN_PITCH, (int64_t)e->features, cases, e->chunk_gradients + slice->first * e->features,
                     (int64_t)e->features);
}

/* Finds or reads the cases of a slice. */
static gconv_status take_slice(const pass *p, seat *s, size_t number, slice_of *slice) {
  engine *e = p->e;
  size_t first = number * GCONV_LEARN_SLICE, left = p->count - first;
  *slice = (slice_of){.first = first, .count = left < GCONV_LEARN_SLICE ? left : GCONV_LEARN_SLICE};
  if (e->mixed) {
    float *values = e->chunk_values + first * e->values;
    slice->inputs = values;
    slice->features = features_of(e, values);
    slice->targets = e->chunk_targets + first * e->target;
    slice->pitch = e->values;
    return GCONV_OK;
  }
  slice->inputs = slice->features = s->inputs;
  slice->targets = s->targets;
  slice->pitch = e->in;
  return read_cases(p, p->begin + first, slice->count, s->inputs, s->targets);
}

/* A task: slices forward and backward. */
static void whole_slices(void *context, size_t turn, int number) {
  pass *p = context;
  engine *e = p->e;
  seat *s = &e->seat[number];
  size_t slices = divide_up(p->count, GCONV_LEARN_SLICE), begin = turn * p->size;
  size_t count = slices - begin < p->size ? slices - begin : p->size;
  for (size_t i = begin; i < begin + count; i++) {
    slice_of slice;
    if (!keeps_on(p, take_slice(p, s, i, &slice)))
      return;
    const float *y = forward_slice(e, s, &slice);
    p->hits[turn] += gconv_learn_losses(e->net, y, GCONV_LEARN_PITCH, slice.targets, (int64_t)slice.count, p->factor,
                                        &e->losses[p->begin + slice.first], p->learns ? s->gradients[0] : NULL);
    if (!p->learns)
      continue;
    backward_slice(e, s, &slice, y, next_leaf(&s->slices, count, e->slice_sums[turn]));
    add_leaf(&s->slices, count);
  }
  if (p->learns)
    store_sum(&s->slices, count, e->slice_sums[turn]);
}

/* ---- Steps --------------------------------------------------------------------------------------------------------------
 */

/* sums[0] = the sum of all, as a tree. */
static void add_tasks(float **sums, size_t count, size_t floats) {
  for (size_t step = 1; step < count; step *= 2)
    for (size_t i = 0; i + step < count; i += 2 * step)
      gconv_learn_add(sums[i + step], sums[i], floats);
}

static double add_losses(double *losses, size_t count) {
  for (size_t step = 1; step < count; step *= 2)
    for (size_t i = 0; i + step < count; i += 2 * step)
      losses[i] += losses[i + step];
  return losses[0];
}

/* Adds the hits of the tasks, and makes them 0. */
static size_t take_hits(pass *p, size_t tasks) {
  size_t hits = 0;
  for (size_t i = 0; i < tasks; i++) {
    hits += p->hits[i];
    p->hits[i] = 0;
  }
  return hits;
}

/* Runs the cases of a chunk. Returns how many were given their class. */
static size_t run_chunk(pass *p) {
  engine *e = p->e;
  size_t slices = divide_up(p->count, GCONV_LEARN_SLICE), slice_size = task_size(e, slices);
  size_t slice_tasks = divide_up(slices, slice_size);
  size_t case_size = task_size(e, p->count), case_tasks = divide_up(p->count, case_size), hits;
  p->size = case_size;
  if (!e->mixed && e->tail > 0) {
    run_tasks(p, case_tasks, whole_cases);
    hits = take_hits(p, case_tasks);
  } else {
    if (e->mixed)
      run_tasks(p, case_tasks, cases_forward);
    p->size = slice_size;
    if (p->status == GCONV_OK)
      run_tasks(p, slice_tasks, whole_slices);
    hits = take_hits(p, slice_tasks);
    p->size = case_size;
    if (e->mixed && p->learns && p->status == GCONV_OK)
      run_tasks(p, case_tasks, cases_backward);
  }
  if (p->learns && e->tail > 0)
    add_tasks(e->case_sums, case_tasks, e->first);
  if (p->learns && e->tail < e->net->count)
    add_tasks(e->slice_sums, slice_tasks, e->all - e->first);
  return hits;
}

static void push_chunk(engine *e) {
  copy_floats(e->case_sums[0], e->first, gconv_tree_leaf(&e->case_chunks));
  copy_floats(e->slice_sums[0], e->all - e->first, gconv_tree_leaf(&e->slice_chunks));
  gconv_tree_push(&e->case_chunks);
  gconv_tree_push(&e->slice_chunks);
}

static void sum_chunks(engine *e) {
  float *gradient = e->arrays[GCONV_LEARN_GRADIENT];
  copy_floats(gconv_tree_sum(&e->case_chunks), e->first, gradient);
  copy_floats(gconv_tree_sum(&e->slice_chunks), e->all - e->first, gradient + e->first);
}

static gconv_status run_pass(pass *p, gconv_learn_sums *sums) {
  engine *e = p->e;
  size_t all = p->cases->count, chunk = e->mixed || p->learns ? e->chunk : all, hits = 0;
  for (p->begin = 0; p->begin < all && p->status == GCONV_OK; p->begin += p->count) {
    p->count = all - p->begin < chunk ? all - p->begin : chunk;
    hits += run_chunk(p);
    if (p->learns && p->count < all && p->status == GCONV_OK)
      push_chunk(e);
  }
  if (p->status != GCONV_OK) {
    e->case_chunks.full = e->slice_chunks.full = 0;
    for (size_t i = 0; i < e->seats; i++)
      e->seat[i].cases.full = e->seat[i].slices.full = 0;
    return gconv_set_error(p->status, p->error);
  }
  if (p->learns && all > e->chunk)
    sum_chunks(e);
  *sums = (gconv_learn_sums){add_losses(e->losses, all), hits};
  return GCONV_OK;
}

static gconv_status start_pass(engine *e, const gconv_learn_cases *cases, bool learns, gconv_learn_sums *sums) {
  if (cases->count > e->losses_room) {
    double *losses = realloc(e->losses, cases->count * sizeof *losses);
    if (!losses)
      return gconv_fail(GCONV_NO_MEMORY, "no memory for the losses of %zu cases", cases->count);
    e->losses = losses;
    e->losses_room = cases->count;
  }
  pass p = {.e = e, .cases = cases, .learns = learns, .hits = calloc(most_tasks(e), sizeof *p.hits)};
  if (!p.hits)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  p.factor = (float)gconv_learn_factor(e->net, cases->count);
  pthread_mutex_init(&p.lock, NULL);
  gconv_status status = run_pass(&p, sums);
  pthread_mutex_destroy(&p.lock);
  free(p.hits);
  return status;
}

static gconv_status backward(void *state, const gconv_learn_cases *cases, gconv_learn_sums *sums) {
  engine *e = state;
  for (size_t i = 1; i < e->net->count; i++)
    if (is_trained(e, i) && i < e->tail)
      gconv_learn_conv_turn(&e->layers[i].conv, e->arrays[GCONV_LEARN_PARAMETERS] + e->layers[i].at,
                            e->panels + e->layers[i].panel);
    else if (is_trained(e, i))
      gconv_learn_dense_turn(&e->layers[i].dense, e->arrays[GCONV_LEARN_PARAMETERS] + e->layers[i].at,
                             e->panels + e->layers[i].panel);
  return start_pass(e, cases, true, sums);
}

static gconv_status evaluate(void *state, const gconv_learn_cases *cases, gconv_learn_sums *sums) {
  return start_pass(state, cases, false, sums);
}

static gconv_status update(void *state, const gconv_learn_step *step) {
  engine *e = state;
  for (size_t i = 0; i < e->net->count; i++) {
    const own_layer *own = &e->layers[i];
    if (!is_trained(e, i))
      continue;
    size_t at = own->at, weights = i < e->tail ? own->conv.weights : own->dense.weights;
    for (int part = 0; part < 2; part++) {
      size_t count = part == 0 ? weights : own->parameters - weights;
      gconv_learn_update_range(step, part == 0, count, e->arrays[GCONV_LEARN_GRADIENT] + at,
                               e->arrays[GCONV_LEARN_PARAMETERS] + at, e->arrays[GCONV_LEARN_FIRST] + at,
                               e->arrays[GCONV_LEARN_SECOND] + at);
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

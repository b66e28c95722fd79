/* SPDX-License-Identifier: MIT */
/* A pass of the engine of the CPU over cases: forward, backward, and the sums of gradients (engine_cpu.h). */
#include "base/memory.h"
#include "data/dataset.h"
#include "kernels/cpu/layer/softmax.h"
#include "kernels/cpu/train/elements.h"
#include "layer/kind.h"
#include "train/engine_cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- A pass over cases ----------------------------------------------------------------------------------------------- */

/* The state that the tasks of a pass share. */
typedef struct pass {
  gconv_cpu_engine *e;
  const gconv_learn_cases *cases;
  bool learns;                   /* gradients are wanted */
  float factor;                  /* gconv_learn_factor() of all cases */
  size_t begin, count;           /* the cases of this chunk */
  size_t size;                   /* the cases or slices of a task */
  size_t begin_layer, end_layer; /* with batch normalisation: the layers of the segment */
  size_t *hits;                  /* hits of each task */
  pthread_mutex_t lock;          /* guards the first failure */
  gconv_status status;
  char error[1024];
} pass;

/* True if a task can go on. Stores the first failure, with its text. */
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

/* Calls the function for each task. If there is little work, this thread does all of it: others would wake up too late. */
static void run_tasks(pass *p, size_t tasks, gconv_turn *function) {
  gconv_cpu_engine *e = p->e;
  if (tasks > 1 && wakes_threads(e, p->count))
    gconv_threads_run(e->order.device->threads, tasks, function, p);
  else
    for (size_t i = 0; i < tasks; i++)
      function(p, i, 0);
}

/* Reads cases first .. first + count - 1 of the pass, and normalises them. */
static gconv_status read_cases(const pass *p, size_t first, size_t count, float *inputs, float *targets) {
  const gconv_cpu_engine *e = p->e;
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

/* ---- Before the tail: a case ----------------------------------------------------------------------------------------- */

/* Returns the output of layer i. *layout: the layout of the next layer's input or, for the last layer before the tail, a
 * layout without gaps. */
static float *output_of(const gconv_cpu_engine *e, size_t i, float *values, gconv_learn_layout *layout) {
  const gconv_cpu_layer *next = &e->layers[i + 1];
  bool is_input = i + 1 < e->tail;
  *layout = is_input && next->conv.is_staged ? next->conv.input : gconv_learn_plain_output(&e->layers[i].layer->problem);
  return values + (is_input ? next->value : e->last_value);
}

/* Returns layer i of the case with these values. */
static gconv_cpu_case case_of(gconv_cpu_engine *e, gconv_cpu_seat *s, size_t i, const float *values) {
  const size_t from = e->net->layers[i].from;
  return (gconv_cpu_case){e, s, i, values + e->layers[i].value, values + e->layers[from].value, values, NULL};
}

/* Runs a case, whose input is at values[0], through layers begin .. end - 1, which stand before the tail. */
static void forward_layers(gconv_cpu_engine *e, gconv_cpu_seat *s, size_t begin, size_t end, float *values) {
  for (size_t i = begin; i < end; i++) {
    const gconv_cpu_layer *own = &e->layers[i];
    const gconv_layer_problem *problem = &own->layer->problem;
    const gconv_cpu_case at = case_of(e, s, i, values);
    gconv_learn_layout layout;
    float *y = output_of(e, i, values, &layout);
    size_t places = gconv_learn_out_places(own->layer);
    own->type->forward(&at, y, &layout);
    if (problem->activation == GCONV_ACTIVATION_SOFTMAX)
      gconv_softmax_rows(y, (int64_t)places, problem->filters, (int64_t)places);
  }
}

/* Returns the last output before the tail. */
static float *features_of(const gconv_cpu_engine *e, float *values) {
  return values + e->last_value;
}

/* A case on its way back through layers. */
typedef struct way_back {
  float *values, *skips, *leaf;
  size_t first; /* the parameter that the leaf begins with */
  float *kept;  /* with batch normalisation: the gradient of the sums of such a layer, between two segments */
  double *sums; /* with batch normalisation: see gconv_cpu_case */
} way_back;

/* Runs a case back through layers end - 1 .. begin, from the gradient of their output in gradients[0] of the seat. If layer
 * `end` is batch normalisation, first computes this gradient from way->kept. */
static void backward_layers(gconv_cpu_engine *e, gconv_cpu_seat *s, size_t begin, size_t end, const way_back *way) {
  float *dz = s->gradients[0], *dx = s->gradients[1];
  bool of_sums = end == e->net->count && e->net->loss == GCONV_LOSS_CROSS_ENTROPY; /* then dz is the gradient of sums */
  if (end > begin && end < e->tail) {
    const gconv_cpu_case norm = case_of(e, s, end, way->values);
    e->layers[end].type->inputs(&norm, way->kept, false, dz, NULL, NULL);
  }
  for (size_t i = end; i-- > begin;) {
    const gconv_cpu_layer *own = &e->layers[i];
    gconv_cpu_case at = case_of(e, s, i, way->values);
    float *leaf = way->leaf ? way->leaf + (own->at - way->first) : NULL;
    const size_t from = own->layer->from, floats = gconv_learn_out_floats(own->layer);
    gconv_learn_layout layout;
    const float *y = output_of(e, i, way->values, &layout);
    int64_t places = (int64_t)gconv_learn_out_places(own->layer);
    at.sums = way->sums;
    if (own->is_source)
      gconv_learn_add(way->skips + own->skip, dz, floats);
    if (!of_sums)
      gconv_learn_differentiate_rows(&own->layer->problem, y, dz, places, own->layer->problem.filters, places);
    if (own->type->weights)
      own->type->weights(&at, dz, leaf);
    if (is_norm(e, i)) {
      memcpy(way->kept, dz, floats * sizeof *dz);
      return;
    }
    if (i == 0 && (own->type->weights || !is_trained(e, 0)))
      return;
    of_sums =
        i > 0 && own->layer->kind == GCONV_LAYER_CONV && yields_rows(e->layers[i - 1].layer) && !e->layers[i - 1].is_source;
    own->type->inputs(&at, dz, of_sums, dx, from > 0 ? way->skips + e->layers[from - 1].skip : NULL, leaf);
    float *swap = dz;
    dz = dx;
    dx = swap;
  }
}

/* Returns the memory for the next leaf of a task with `count` leaves. */
static float *next_leaf(gconv_tree *tree, size_t count, float *sum) {
  return count == 1 ? sum : gconv_tree_leaf(tree);
}

static void add_leaf(gconv_tree *tree, size_t count) {
  if (count > 1)
    gconv_tree_push(tree);
}

/* Copies floats. If `count` is 0, the pointers may be NULL. */
static void copy_floats(const float *from, size_t count, float *to) {
  if (count > 0)
    memcpy(to, from, count * sizeof *to);
}

static void store_sum(gconv_tree *tree, size_t count, float *sum) {
  if (count > 1)
    copy_floats(gconv_tree_sum(tree), tree->floats, sum);
}

/* A task of a network without a tail: some cases, forward and backward. */
static void whole_cases(void *context, size_t turn, int number) {
  pass *p = context;
  gconv_cpu_engine *e = p->e;
  gconv_cpu_seat *s = &e->seat[number];
  size_t begin = turn * p->size, count = p->count - begin < p->size ? p->count - begin : p->size;
  for (size_t n = begin; n < begin + count; n++) {
    size_t at = p->begin + n;
    if (!keeps_on(p, read_cases(p, at, 1, s->values, s->targets)))
      return;
    forward_layers(e, s, 0, e->tail, s->values);
    p->hits[turn] += gconv_learn_losses(e->net, features_of(e, s->values), 1, s->targets, 1, p->factor, &e->losses[at],
                                        p->learns ? s->gradients[0] : NULL);
    if (!p->learns)
      continue;
    const way_back way = {.values = s->values, .skips = s->skips, .leaf = next_leaf(&s->cases, count, e->case_sums[turn])};
    memset(s->skips, 0, e->skips * sizeof *s->skips);
    backward_layers(e, s, 0, e->tail, &way);
    add_leaf(&s->cases, count);
  }
  if (p->learns)
    store_sum(&s->cases, count, e->case_sums[turn]);
}

/* ---- Before the tail: a segment of layers, of all cases of a step ---------------------------------------------------- */

/* True if layer i begins a segment: batch normalisation that learns needs all cases of a step at once. Without such layers,
 * one segment has all layers before the tail. */
static bool begins_segment(const pass *p, size_t i) {
  return p->learns && is_norm(p->e, i);
}

/* A task: runs some of the cases through the segment. The first segment also reads them. Sums the inputs of layer end_layer,
 * which is batch normalisation. */
static void segment_forward(void *context, size_t turn, int number) {
  pass *p = context;
  gconv_cpu_engine *e = p->e;
  const bool read = p->begin_layer == 0;
  for (size_t n = turn * p->size; n < p->count && n < (turn + 1) * p->size; n++) {
    float *values = e->chunk_values + n * e->values;
    if (read && !keeps_on(p, read_cases(p, p->begin + n, 1, values, e->chunk_targets + n * e->target)))
      return;
    forward_layers(e, &e->seat[number], p->begin_layer, p->end_layer, values);
    if (p->end_layer < e->tail)
      gconv_norm_sum(e, p->end_layer, values + e->layers[p->end_layer].value, e->norm_sums + n * e->norm_width);
  }
}

/* Computes the gradient of the last outputs before the tail, in gradients[0] of the seat, and sets the skips to 0. */
static void begin_backward(pass *p, gconv_cpu_seat *s, size_t turn, size_t n, float *skips) {
  gconv_cpu_engine *e = p->e;
  memset(skips, 0, e->skips * sizeof *skips);
  if (e->mixed)
    memcpy(s->gradients[0], e->chunk_gradients + n * e->boundary, e->features * sizeof(float));
  else
    p->hits[turn] += gconv_learn_losses(e->net, features_of(e, e->chunk_values + n * e->values), 1,
                                        e->chunk_targets + n * e->target, 1, p->factor, &e->losses[n], s->gradients[0]);
}

/* A task: some cases back through the segment. */
static void segment_backward(void *context, size_t turn, int number) {
  pass *p = context;
  gconv_cpu_engine *e = p->e;
  gconv_cpu_seat *s = &e->seat[number];
  const size_t first = e->layers[p->begin_layer].at, end = p->end_layer < e->tail ? e->layers[p->end_layer].at : e->first;
  size_t begin = turn * p->size, count = p->count - begin < p->size ? p->count - begin : p->size;
  float *sums = end > first ? e->case_sums[turn] + first : NULL; /* NULL: the segment has no weights */
  s->cases.floats = end - first;
  for (size_t n = begin; n < begin + count; n++) {
    float *skips = e->norms > 0 ? e->chunk_skips + n * e->skips : s->skips;
    if (p->end_layer == e->tail)
      begin_backward(p, s, turn, n, skips);
    const way_back way = {.values = e->chunk_values + n * e->values,
                          .skips = skips,
                          .leaf = next_leaf(&s->cases, count, sums),
                          .first = first,
                          .kept = e->chunk_gradients + n * e->boundary,
                          .sums = e->norms > 0 ? e->norm_sums + n * e->norm_width : NULL};
    backward_layers(e, s, p->begin_layer, p->end_layer, &way);
    add_leaf(&s->cases, count);
  }
  store_sum(&s->cases, count, sums);
  s->cases.floats = e->first;
}

/* ---- The tail: a slice ----------------------------------------------------------------------------------------------- */

/* The cases of a slice. Their features, which are the inputs of the tail, are `pitch` floats apart. */
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

/* Runs a slice forward through the tail. Returns the outputs. */
static float *forward_slice(gconv_cpu_engine *e, gconv_cpu_seat *s, const slice_of *slice) {
  float *x = s->slice;
  size_t features = gconv_learn_in_floats(&e->net->layers[e->tail]);
  gconv_learn_transpose(slice->features, (int64_t)slice->pitch, (int64_t)slice->count, (int64_t)features, x,
                        GCONV_LEARN_PITCH);
  for (size_t i = e->tail; i < e->net->count; i++) {
    const gconv_cpu_layer *own = &e->layers[i];
    float *y = x + gconv_learn_in_floats(own->layer) * GCONV_LEARN_PITCH;
    if (own->layer->kind == GCONV_LAYER_RESIDUAL)
      add_inputs(slice, (size_t)own->layer->problem.filters, x, y);
    else
      gconv_learn_dense_forward(&own->dense, e->arrays[GCONV_LEARN_PARAMETERS] + own->at, x, (int64_t)slice->count, y);
    x = y;
  }
  return x;
}

/* Runs a slice backward through the tail, from the gradient of the outputs y in gradients[0] of the seat. If there are
 * layers before the tail, stores the gradient of its input in e->chunk_gradients. */
static void backward_slice(gconv_cpu_engine *e, gconv_cpu_seat *s, const slice_of *slice, const float *y, float *leaf) {
  float *dz = s->gradients[0], *dx = s->gradients[1];
  int64_t cases = (int64_t)slice->count;
  for (size_t i = e->net->count; i-- > e->tail;) {
    const gconv_cpu_layer *own = &e->layers[i];
    const float *x = y - gconv_learn_in_floats(own->layer) * GCONV_LEARN_PITCH;
    if (i + 1 < e->net->count || e->net->loss != GCONV_LOSS_CROSS_ENTROPY)
      gconv_learn_differentiate_rows(&own->layer->problem, y, dz, GCONV_LEARN_PITCH, own->layer->problem.filters, cases);
    y = x;
    if (!is_trained(e, i))
      continue;
    gconv_learn_dense_weights(&own->dense, x, dz, cases, s->transposed, leaf + (own->at - e->first));
    if (i == 0)
      return;
    gconv_learn_dense_inputs(&own->dense, e->panels + own->panel, dz, cases, dx);
    float *swap = dz;
    dz = dx;
    dx = swap;
  }
  if (e->mixed)
    gconv_learn_transpose(dz, GCONV_LEARN_PITCH, (int64_t)e->features, cases,
                          e->chunk_gradients + slice->first * e->boundary, (int64_t)e->boundary);
}

/* Reads the cases of a slice, or finds them in the chunk. */
static gconv_status take_slice(const pass *p, gconv_cpu_seat *s, size_t number, slice_of *slice) {
  gconv_cpu_engine *e = p->e;
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

/* A task: some slices, forward and backward. */
static void whole_slices(void *context, size_t turn, int number) {
  pass *p = context;
  gconv_cpu_engine *e = p->e;
  gconv_cpu_seat *s = &e->seat[number];
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

/* ---- Chunks ----------------------------------------------------------------------------------------------------------- */

/* sums[0] = the sum of all sums, by a tree. */
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

/* Returns the sum of the tasks' hits, and sets them to 0. */
static size_t take_hits(pass *p, size_t tasks) {
  size_t hits = 0;
  for (size_t i = 0; i < tasks; i++) {
    hits += p->hits[i];
    p->hits[i] = 0;
  }
  return hits;
}

/* Runs all cases through the layers before the tail, segment by segment. A network that begins with batch normalisation has
 * an empty first segment, in which the cases are read. */
static void segments_forward(pass *p, size_t tasks) {
  const gconv_cpu_engine *e = p->e;
  p->begin_layer = p->end_layer = 0;
  for (bool first = true; (first || p->end_layer < e->tail) && p->status == GCONV_OK; first = false) {
    p->begin_layer = p->end_layer;
    p->end_layer += !first || !begins_segment(p, 0);
    while (p->end_layer < e->tail && !begins_segment(p, p->end_layer))
      p->end_layer++;
    run_tasks(p, tasks, segment_forward);
    if (p->end_layer < e->tail)
      gconv_norm_of_step(p->e, p->end_layer, p->count);
  }
}

/* Runs all cases back through the layers before the tail. Returns the hits. */
static size_t segments_backward(pass *p, size_t tasks) {
  p->begin_layer = p->e->tail;
  while (p->begin_layer > 0) {
    p->end_layer = p->begin_layer--;
    while (p->begin_layer > 0 && !is_norm(p->e, p->begin_layer))
      p->begin_layer--;
    run_tasks(p, tasks, segment_backward);
    if (is_norm(p->e, p->begin_layer))
      gconv_norm_of_gradients(p->e, p->begin_layer, p->count);
  }
  return take_hits(p, tasks);
}

/* Runs the cases of a chunk. Returns the number of hits. */
static size_t run_chunk(pass *p) {
  gconv_cpu_engine *e = p->e;
  size_t slices = divide_up(p->count, GCONV_LEARN_SLICE), slice_size = task_size(e, slices);
  size_t slice_tasks = divide_up(slices, slice_size);
  size_t case_size = task_size(e, p->count), case_tasks = divide_up(p->count, case_size), hits;
  p->size = case_size;
  if (!e->mixed && p->learns && e->norms > 0) {
    segments_forward(p, case_tasks);
    hits = p->status == GCONV_OK ? segments_backward(p, case_tasks) : 0;
  } else if (!e->mixed && e->tail > 0) {
    run_tasks(p, case_tasks, whole_cases);
    hits = take_hits(p, case_tasks);
  } else {
    if (e->mixed)
      segments_forward(p, case_tasks);
    p->size = slice_size;
    if (p->status == GCONV_OK)
      run_tasks(p, slice_tasks, whole_slices);
    hits = take_hits(p, slice_tasks);
    p->size = case_size;
    if (e->mixed && p->learns && p->status == GCONV_OK)
      segments_backward(p, case_tasks);
  }
  if (p->learns && e->tail > 0)
    add_tasks(e->case_sums, case_tasks, e->first);
  if (p->learns && e->tail < e->net->count)
    add_tasks(e->slice_sums, slice_tasks, e->all - e->first);
  return hits;
}

static void push_chunk(gconv_cpu_engine *e) {
  copy_floats(e->case_sums[0], e->first, gconv_tree_leaf(&e->case_chunks));
  copy_floats(e->slice_sums[0], e->all - e->first, gconv_tree_leaf(&e->slice_chunks));
  gconv_tree_push(&e->case_chunks);
  gconv_tree_push(&e->slice_chunks);
}

static void sum_chunks(gconv_cpu_engine *e) {
  float *gradient = e->arrays[GCONV_LEARN_GRADIENT];
  copy_floats(gconv_tree_sum(&e->case_chunks), e->first, gradient);
  copy_floats(gconv_tree_sum(&e->slice_chunks), e->all - e->first, gradient + e->first);
}

static gconv_status run_pass(pass *p, gconv_learn_sums *sums) {
  gconv_cpu_engine *e = p->e;
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

gconv_status gconv_engine_cpu_pass(gconv_cpu_engine *e, const gconv_learn_cases *cases, bool learns,
                                   gconv_learn_sums *sums) {
  if (cases->count > e->losses_room) {
    double *losses = realloc(e->losses, cases->count * sizeof *losses);
    GCONV_NEED_MEMORY(losses, "no memory for the losses of %zu cases", cases->count);
    e->losses = losses;
    e->losses_room = cases->count;
  }
  GCONV_FREED size_t *hits = calloc(most_tasks(e), sizeof *hits);
  GCONV_NEED_MEMORY(hits, "no memory for training");
  pass p = {.e = e, .cases = cases, .learns = learns, .hits = hits};
  p.factor = (float)gconv_learn_factor(e->net, cases->count);
  pthread_mutex_init(&p.lock, NULL);
  gconv_status status = run_pass(&p, sums);
  pthread_mutex_destroy(&p.lock);
  return status;
}

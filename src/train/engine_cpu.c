/* SPDX-License-Identifier: MIT */
/* The engine of the CPU: its memory, and the functions that the trainer calls. */
#include "train/engine_cpu.h"
#include "base/control.h"
#include "base/memory.h"
#include "kernels/cpu/train/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Making one ------------------------------------------------------------------------------------------------------ */

static gconv_status floats_of(size_t count, float **floats) {
  size_t bytes;
  gconv_multiply(count + 1, sizeof(float), &bytes);
  GCONV_ALLOCATE(*floats, bytes, "training");
  return gconv_control_zeros(*floats, bytes);
}

static gconv_status prepare_layer(gconv_cpu_engine *e, size_t i) {
  gconv_cpu_layer *own = &e->layers[i];
  const gconv_learn_layer *layer = own->layer = &e->net->layers[i];
  e->largest = larger(e->largest, larger(gconv_learn_in_floats(layer), gconv_learn_out_floats(layer)));
  own->at = e->all;
  own->value = e->values;
  const gconv_layer_problem *p = &layer->problem;
  if (layer->parameters)
    e->work += (double)gconv_learn_out_floats(layer) * (double)gconv_layer_taps(p) * (i > 0 ? 3 : 2);
  if (i < e->tail) {
    own->type = gconv_cpu_type_of(layer);
    GCONV_TRY(own->type->prepare(e, i));
  } else if (layer->parameters) {
    GCONV_TRY(gconv_learn_dense_prepare(p, &own->dense));
    e->largest = larger(e->largest, (size_t)own->dense.padded);
    own->parameters = own->dense.parameters;
    own->weights = own->dense.weights;
  }
  e->all += own->parameters;
  return GCONV_OK;
}

static size_t panel_floats(const gconv_cpu_engine *e, size_t i) {
  const gconv_cpu_layer *own = &e->layers[i];
  if (i < e->tail)
    return own->type->transposes && own->type->transposes(i, true) ? own->conv.panels * (size_t)own->conv.problem.groups : 0;
  return !is_trained(e, i) || i == 0 ? 0 : (size_t)(own->dense.inputs * own->dense.outputs);
}

/* Marks the layers whose outputs are second inputs of later layers. */
static void find_sources(gconv_cpu_engine *e) {
  for (size_t i = 0; i < e->net->count; i++) {
    const size_t from = e->net->layers[i].from;
    gconv_cpu_layer *source = from > 0 ? &e->layers[from - 1] : NULL;
    if (!source || source->is_source)
      continue;
    source->is_source = true;
    source->skip = e->skips;
    e->skips += gconv_learn_out_floats(&e->net->layers[from - 1]);
  }
}

static gconv_status prepare_layers(gconv_cpu_engine *e) {
  size_t panels = 0;
  GCONV_NEW(e->layers, e->net->count, "no memory for training");
  find_sources(e);
  for (size_t i = 0; i < e->net->count; i++) {
    if (i == e->tail)
      e->first = e->all;
    GCONV_TRY(prepare_layer(e, i));
    e->layers[i].panel = panels;
    panels += panel_floats(e, i);
  }
  if (e->tail == e->net->count)
    e->first = e->all;
  e->last_value = e->values;
  e->values += padded(e->tail > 0 ? gconv_learn_out_floats(&e->net->layers[e->tail - 1]) : 0);
  for (int i = 0; i < GCONV_LEARN_ARRAYS; i++)
    GCONV_TRY(floats_of(e->all, &e->arrays[i]));
  return floats_of(panels, &e->panels);
}

static gconv_status prepare_seat(gconv_cpu_engine *e, gconv_cpu_seat *s) {
  size_t workspace = 0, slice = 0, transposed = 0, bands = 1, largest_layer = 0;
  const size_t cases = GCONV_LEARN_SLICE;
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_cpu_layer *own = &e->layers[i];
    if (i < e->tail && own->conv.parameters > 0) {
      workspace = larger(workspace, gconv_learn_conv_workspace(&own->conv));
      if (own->bands > 1)
        largest_layer = larger(largest_layer, own->conv.parameters);
      bands = larger(bands, own->bands);
    }
    if (i >= e->tail)
      slice += gconv_learn_in_floats(own->layer) * GCONV_LEARN_PITCH;
    if (i >= e->tail && is_trained(e, i))
      transposed = larger(transposed, (size_t)own->dense.padded * GCONV_LEARN_SLICE);
  }
  bool dense = e->tail < e->net->count;
  slice += dense ? e->out * GCONV_LEARN_PITCH : 0;
  size_t gradient = larger(e->tail > 0 ? e->largest : 0, dense ? e->largest * GCONV_LEARN_PITCH : 0);
  GCONV_TRY(floats_of(e->mixed || e->tail == 0 ? 0 : e->values, &s->values));
  for (int i = 0; i < 2; i++)
    GCONV_TRY(floats_of(padded(gradient), &s->gradients[i]));
  GCONV_TRY(floats_of(e->skips, &s->skips));
  GCONV_TRY(floats_of(workspace, &s->workspace));
  GCONV_TRY(floats_of(dense ? padded(slice) : 0, &s->slice));
  GCONV_TRY(floats_of(transposed, &s->transposed));
  GCONV_TRY(floats_of(e->tail == 0 ? cases * e->in : 0, &s->inputs));
  GCONV_TRY(floats_of(e->mixed ? 0 : (dense ? cases : 1) * e->target, &s->targets));
  GCONV_TRY(gconv_tree_make(largest_layer, bands, &s->bands));
  GCONV_TRY(gconv_tree_make(e->first, task_size(e, e->order.batch), &s->cases));
  return gconv_tree_make(e->all - e->first, task_size(e, divide_up(e->order.batch, GCONV_LEARN_SLICE)), &s->slices);
}

static gconv_status prepare_sums(size_t tasks, size_t floats, float *first, float ***sums) {
  *sums = calloc(tasks + 1, sizeof **sums);
  GCONV_NEED_MEMORY(*sums, "no memory for training");
  (*sums)[0] = first;
  for (size_t i = 1; floats > 0 && i < tasks; i++)
    GCONV_TRY(floats_of(floats, &(*sums)[i]));
  return GCONV_OK;
}

static gconv_status prepare_chunks(gconv_cpu_engine *e) {
  size_t batch = e->order.batch, chunk = batch;
  if (e->norms > 0) { /* all cases of a step are in memory */
    GCONV_TRY(floats_of(batch * e->skips, &e->chunk_skips));
    GCONV_ALLOCATE(e->norm_sums, batch * e->norm_width * sizeof *e->norm_sums, "training");
    memset(e->norm_sums, 0, batch * e->norm_width * sizeof *e->norm_sums);
  }
  if (e->mixed || e->norms > 0) {
    chunk = e->norms > 0 ? batch : GCONV_LEARN_SLICE;
    while (chunk < batch && chunk < e->seats * GCONV_LEARN_SLICE && 2 * chunk * e->values * sizeof(float) <= e->order.memory)
      chunk *= 2;
    chunk = chunk < batch ? chunk : batch;
    GCONV_TRY(floats_of(chunk * e->values, &e->chunk_values));
    GCONV_TRY(floats_of(chunk * e->boundary, &e->chunk_gradients));
    GCONV_TRY(floats_of(chunk * e->target, &e->chunk_targets));
  }
  e->chunk = chunk;
  size_t slices = divide_up(chunk, GCONV_LEARN_SLICE), chunks = divide_up(batch, chunk);
  e->case_tasks = chunk < most_tasks(e) ? chunk : most_tasks(e); /* task_size() may cut fewer cases into more tasks */
  e->slice_tasks = slices < most_tasks(e) ? slices : most_tasks(e);
  float *gradient = e->arrays[GCONV_LEARN_GRADIENT];
  GCONV_TRY(prepare_sums(e->case_tasks, e->first, gradient, &e->case_sums));
  GCONV_TRY(prepare_sums(e->slice_tasks, e->all - e->first, gradient + e->first, &e->slice_sums));
  GCONV_TRY(gconv_tree_make(e->first, chunks, &e->case_chunks));
  return gconv_tree_make(e->all - e->first, chunks, &e->slice_chunks);
}

static gconv_status fill_engine(gconv_cpu_engine *e) {
  const gconv_learn_net *net = e->net;
  e->tail = gconv_learn_tail(net);
  e->mixed = e->tail > 0 && e->tail < net->count;
  e->in = gconv_learn_in_floats(&net->layers[0]);
  e->out = gconv_learn_outputs(net);
  e->target = gconv_learn_target_floats(net);
  e->features = e->mixed ? gconv_learn_in_floats(&net->layers[e->tail]) : 0;
  e->boundary = e->features;
  for (size_t i = 0; i < e->tail; i++)
    if (is_norm(e, i))
      e->boundary = larger(e->boundary, gconv_learn_in_floats(&net->layers[i]));
  e->seats = (size_t)gconv_threads_count(e->order.device->threads);
  GCONV_TRY(prepare_layers(e));
  GCONV_NEW(e->seat, e->seats, "no memory for training");
  for (size_t i = 0; i < e->seats; i++)
    GCONV_TRY(prepare_seat(e, &e->seat[i]));
  return prepare_chunks(e);
}

static void free_seat(gconv_cpu_seat *s) {
  float *const all[] = {s->values, s->gradients[0], s->gradients[1], s->skips,  s->workspace,
                        s->slice,  s->transposed,   s->inputs,       s->targets};
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
  gconv_cpu_engine *e = state;
  if (!e)
    return;
  for (size_t i = 0; e->layers && i < e->net->count; i++) {
    gconv_learn_conv_free(&e->layers[i].conv);
    gconv_learn_dense_free(&e->layers[i].dense);
    gconv_release(e->layers[i].transposed);
    gconv_release(e->layers[i].norms);
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
  gconv_release(e->chunk_skips);
  gconv_release(e->norm_sums);
  free(e->losses);
  free(e->layers);
  free(e->seat);
  free(e);
}

static gconv_status create(const gconv_engine_order *order, void **result) {
  gconv_cpu_engine *e = calloc(1, sizeof *e);
  GCONV_NEED_MEMORY(e, "no memory for training");
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
  gconv_cpu_engine *e = state;
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_cpu_layer *own = &e->layers[i];
    if (is_trained(e, i) && i < e->tail)
      own->type->take(own, values + own->layer->weights, e->arrays[array] + own->at);
    else if (is_trained(e, i))
      gconv_learn_dense_take(&own->dense, values + own->layer->weights, e->arrays[array] + own->at);
  }
}

static void get(const void *state, gconv_learn_array array, float *values) {
  const gconv_cpu_engine *e = state;
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_cpu_layer *own = &e->layers[i];
    if (is_trained(e, i) && i < e->tail)
      own->type->give(own, e->arrays[array] + own->at, values + own->layer->weights);
    else if (is_trained(e, i))
      gconv_learn_dense_give(&own->dense, e->arrays[array] + own->at, values + own->layer->weights);
  }
}

static void keep(void *state) {
  gconv_cpu_engine *e = state;
  memcpy(e->arrays[GCONV_LEARN_BEST], e->arrays[GCONV_LEARN_PARAMETERS], e->all * sizeof(float));
}

static bool is_finite(const void *state) {
  const gconv_cpu_engine *e = state;
  for (size_t i = 0; i < e->all; i++)
    if (!isfinite(e->arrays[GCONV_LEARN_PARAMETERS][i]))
      return false;
  return true;
}

/* ---- Steps ----------------------------------------------------------------------------------------------------------- */

static void transpose_weights(gconv_cpu_engine *e, bool learns) {
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_cpu_layer *own = &e->layers[i];
    const float *parameters = e->arrays[GCONV_LEARN_PARAMETERS] + own->at;
    if (!learns && is_norm(e, i))
      gconv_norm_of_running(e, i);
    if (i < e->tail && own->type->transposes && own->type->transposes(i, learns))
      gconv_learn_conv_transpose(&own->conv, parameters, e->panels + own->panel);
    else if (i >= e->tail && i > 0 && learns && is_trained(e, i))
      gconv_learn_dense_transpose(&own->dense, parameters, e->panels + own->panel);
  }
}

static gconv_status backward(void *state, const gconv_learn_cases *cases, gconv_learn_sums *sums) {
  gconv_cpu_engine *e = state;
  transpose_weights(e, true);
  GCONV_TRY(gconv_engine_cpu_pass(e, cases, true, sums));
  if (e->norms > 0)
    gconv_norm_keep(e, cases->count);
  return GCONV_OK;
}

static gconv_status evaluate(void *state, const gconv_learn_cases *cases, gconv_learn_sums *sums) {
  transpose_weights(state, false);
  return gconv_engine_cpu_pass(state, cases, false, sums);
}

static gconv_status update(void *state, const gconv_learn_step *step) {
  gconv_cpu_engine *e = state;
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_cpu_layer *own = &e->layers[i];
    if (!is_trained(e, i))
      continue;
    size_t at = own->at, weights = own->weights;
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

/* Writes "layers 1 to 3", or "layer 4". */
static void name_layers(size_t first, size_t last, FILE *text) {
  if (first == last)
    fprintf(text, "layer %zu", first);
  else
    fprintf(text, "layers %zu to %zu", first, last);
}

static void explain(const void *state, FILE *text) {
  const gconv_cpu_engine *e = state;
  size_t batch = e->order.batch, chunk = e->chunk;
  size_t units = e->tail < e->net->count && !e->mixed ? divide_up(chunk, GCONV_LEARN_SLICE) : chunk;
  size_t tasks = divide_up(units, task_size(e, units));
  if (e->tail > 0) {
    name_layers(1, e->tail, text);
    fputs(" case by case; ", text);
  }
  if (e->tail < e->net->count) {
    name_layers(e->tail + 1, e->net->count, text);
    fprintf(text, ", dense, %d cases at a time; ", GCONV_LEARN_SLICE);
  }
  fprintf(text, "a step of %zu case%s: ", batch, batch == 1 ? "" : "s");
  if (chunk < batch)
    fprintf(text, "goes by %zu cases, to save memory, ", chunk);
  if (e->seats == 1 || tasks == 1)
    fputs(e->seats == 1 ? "one thread" : "one part, for one thread", text);
  else if (!wakes_threads(e, chunk))
    fprintf(text, "one thread, as others would wake too late for %.0f multiply-adds", e->work * (double)chunk);
  else
    fprintf(text, "%zu parts for %zu threads", tasks, e->seats < tasks ? e->seats : tasks);
}

const gconv_engine_type gconv_engine_cpu = {.create = create,
                                            .free = destroy,
                                            .set = set,
                                            .get = get,
                                            .keep = keep,
                                            .is_finite = is_finite,
                                            .backward = backward,
                                            .update = update,
                                            .evaluate = evaluate,
                                            .explain = explain};

/* SPDX-License-Identifier: MIT */
/* Fuses nodes with the node before them, the step. Numbers that scale and shift channels go into the step's weights, and an
 * activation into its epilogue. Other element-wise nodes become its tail (tail.h). */
#include "base/memory.h"
#include "graph/gpu.h"
#include "graph/tail.h"

#include <stdlib.h>
#include <string.h>

/* Which steps take values. Lists have an entry for each value. */
typedef struct uses {
  int32_t *taker;  /* the step that takes the value first; -1: none; -2: it is an output */
  int32_t *second; /* the next step that takes it; -1: none; -2: there are more */
  bool *ready;     /* it is computed before the current step runs */
} uses;

static void find_uses(const gconv_graph_plan *p, const uses *u) {
  for (size_t i = 0; i < p->graph->value_count; i++) {
    u->taker[i] = u->second[i] = -1;
    u->ready[i] = p->graph->values[i].input || p->graph->values[i].constant;
  }
  for (size_t i = 0; i < p->step_count; i++)
    for (int32_t k = 0; k < p->steps[i].work.in_count; k++) {
      const int32_t value = p->steps[i].in[k];
      if (value >= 0 && u->taker[value] == -1)
        u->taker[value] = (int32_t)i;
      else if (value >= 0 && u->taker[value] != (int32_t)i)
        u->second[value] = u->second[value] == -1 || u->second[value] == (int32_t)i ? (int32_t)i : -2;
    }
  for (size_t i = 0; i < p->graph->output_count; i++)
    u->taker[p->graph->outputs[i]] = -2;
}

/* Returns the only step that takes a value, or NULL. */
static gconv_graph_step *only_taker(const gconv_graph_plan *p, const uses *u, int32_t value) {
  return u->taker[value] >= 0 && u->second[value] == -1 ? &p->steps[u->taker[value]] : NULL;
}

/* Returns the number of the only input that is this value; -1: none, or several. */
static int32_t find_input(const gconv_graph_step *step, int32_t value) {
  int32_t found = -1;
  for (int32_t k = 0; k < step->work.in_count; k++)
    if (step->in[k] == value) {
      if (found >= 0)
        return -1;
      found = k;
    }
  return found;
}

static bool same_shape(const gconv_tensor *a, const gconv_tensor *b) {
  return a->type == b->type && a->axes == b->axes && memcmp(a->shape, b->shape, (size_t)a->axes * sizeof *a->shape) == 0;
}

/* Gives a step a scale of 1 and a shift of 0 for each channel, unless it has them. */
static gconv_status give_scale(gconv_node_fused *fused, int64_t channels) {
  void *memory = NULL;
  if (fused->scale)
    return GCONV_OK;
  GCONV_TRY(gconv_allocate((size_t)channels * sizeof(float), "a scale", &memory));
  fused->scale = memory;
  GCONV_TRY(gconv_allocate((size_t)channels * sizeof(float), "a shift", &memory));
  fused->shift = memory;
  for (int64_t c = 0; c < channels; c++) {
    fused->scale[c] = 1;
    fused->shift[c] = 0;
  }
  return GCONV_OK;
}

/* Fuses `next` if it scales and shifts channels. */
static gconv_status fuse_affine(gconv_graph_step *step, const gconv_graph_step *next, int32_t input, bool *done) {
  const gconv_tensor *out = step->work.out[0];
  const int64_t channels = out->axes > 1 ? out->shape[1] : 0;
  gconv_node_fused *fused = &step->work.fused;
  *done = false;
  if (!next->node->kind->affine || channels == 0 || fused->activation != GCONV_ACTIVATION_NONE || fused->tail)
    return GCONV_OK;
  GCONV_FREED float *scale = malloc((size_t)channels * 2 * sizeof *scale);
  GCONV_NEED_MEMORY(scale, "no memory for a plan");
  float *shift = scale + channels;
  if (!next->node->kind->affine(&next->work, next->node->kind, input, scale, shift))
    return GCONV_OK;
  GCONV_TRY(give_scale(fused, channels));
  for (int64_t c = 0; c < channels; c++) {
    fused->scale[c] *= scale[c];
    fused->shift[c] = fused->shift[c] * scale[c] + shift[c];
  }
  *done = true;
  return GCONV_OK;
}

static bool fuse_activation(gconv_graph_step *step, const gconv_graph_step *next, int32_t input) {
  gconv_node_fused *fused = &step->work.fused;
  const gconv_node_kind *kind = next->node->kind;
  gconv_activation activation;
  float slope;
  if (input != 0 || !kind->activation || fused->activation != GCONV_ACTIVATION_NONE || fused->tail ||
      !kind->activation(&next->work, kind, &activation, &slope))
    return false;
  fused->activation = activation;
  fused->slope = slope;
  return true;
}

/* Notes that `next` is fused with `step`, which then makes the result of `next`. */
static gconv_status note(gconv_graph_plan *p, gconv_graph_step *step, gconv_graph_step *next) {
  char *text = gconv_format_text("%s%s%s '%s'", step->fused ? step->fused : "", step->fused ? ", " : "",
                                 next->node->kind->name, next->node->name);
  GCONV_NEED_MEMORY(text, "no memory for a plan");
  free(step->fused);
  step->fused = text;
  step->out = next->out;
  step->work.out = next->work.out;
  next->node = NULL;
  p->fused++;
  return GCONV_OK;
}

/* Adds `next` to the tail of a step. `kept` is a value that is kept from before; -1: none. False if it cannot be added. */
static gconv_status add_to_tail(gconv_graph_step *step, const gconv_graph_step *next, int32_t value, int32_t kept,
                                const uses *u, bool *done) {
  gconv_node_fused *fused = &step->work.fused;
  const bool begins = !fused->tail, on_gpu = gconv_graph_is_on_gpu(step->work.options);
  *done = false;
  if (step->work.out[0]->axes < 2 || !same_shape(next->work.out[0], step->work.out[0]) ||
      (on_gpu && !next->node->kind->cuda))
    return GCONV_OK;
  if (begins) {
    GCONV_NEW(fused->tail, 1, "no memory for a plan");
    gconv_tail_begin(fused->tail, step->work.out[0]);
  }
  const int32_t added = step->added;
  *done = gconv_tail_add(step, next, value, kept, u->ready);
  if (*done && on_gpu && !gconv_tail_suits_gpu(fused->tail, step->node->kind->fuses == GCONV_FUSES_ALL)) {
    fused->tail->count--;
    step->added = added;
    *done = false;
  }
  if (begins && !*done) {
    free(fused->tail);
    fused->tail = NULL;
  }
  return GCONV_OK;
}

/* Fuses a function that takes its value x twice, and is written as several nodes: x * sigmoid(x), or a hard swish of Add,
 * Clip, Mul and Div. The loop keeps x until the last of these nodes takes it again. */
static gconv_status fuse_fork(gconv_graph_plan *p, gconv_graph_step *step, const uses *u, bool *done) {
  const int32_t value = step->out[0], last = u->second[value], added = step->added;
  const int32_t before = step->work.fused.tail ? step->work.fused.tail->count : 0;
  gconv_graph_step *chain[GCONV_TAIL_STEPS], *next = &p->steps[u->taker[value]];
  int32_t count = 0, at = value;
  *done = false;
  if (before > 0 && gconv_graph_is_on_gpu(&p->options)) /* x is not in memory on a GPU */
    return GCONV_OK;
  for (bool good = true; good && next && count < GCONV_TAIL_STEPS; next = only_taker(p, u, at)) {
    *done = next == &p->steps[last];
    GCONV_TRY(add_to_tail(step, next, at, *done ? value : -1, u, &good));
    *done = *done && good;
    chain[count++] = next;
    at = next->out[0];
    if (*done)
      break;
  }
  gconv_tail *tail = step->work.fused.tail;
  if (!*done) {
    step->added = added;
    if (tail)
      tail->count = before;
    if (tail && before == 0) {
      free(tail);
      step->work.fused.tail = NULL;
    }
    return GCONV_OK;
  }
  tail->steps[before].keeps = true;
  for (int32_t i = 0; i < count; i++)
    GCONV_TRY(note(p, step, chain[i]));
  return GCONV_OK;
}

/* Fuses the node or nodes that follow a step, if possible. */
static gconv_status fuse_next(gconv_graph_plan *p, gconv_graph_step *step, const uses *u, bool *done) {
  const int32_t value = step->out[0];
  *done = false;
  if (step->work.out[0]->type != GCONV_TENSOR_F32)
    return GCONV_OK;
  const bool all = step->node->kind->fuses == GCONV_FUSES_ALL;
  if (u->taker[value] >= 0 && u->second[value] >= 0)
    return all ? fuse_fork(p, step, u, done) : GCONV_OK;
  gconv_graph_step *next = only_taker(p, u, value);
  const int32_t input = next ? find_input(next, value) : -1;
  if (input < 0 || next->work.out_count != 1 || !same_shape(next->work.out[0], step->work.out[0]))
    return GCONV_OK;
  if (all) {
    GCONV_TRY(fuse_affine(step, next, input, done));
    *done = *done || fuse_activation(step, next, input);
  }
  if (!*done)
    GCONV_TRY(add_to_tail(step, next, value, -1, u, done));
  return *done ? note(p, step, next) : GCONV_OK;
}

/* Returns the step that makes a value and is not fused with another, or NULL. */
static gconv_graph_step *maker_of(const gconv_graph_plan *p, int32_t value) {
  for (size_t i = 0; i < p->step_count; i++)
    if (p->steps[i].node && p->steps[i].out[0] == value)
      return &p->steps[i];
  return NULL;
}

/* Gives a step a list of inputs of its own, with another input 0. */
static gconv_status replace_input(gconv_graph_plan *p, gconv_graph_step *step, int32_t value, const gconv_tensor *tensor) {
  const size_t bytes = (size_t)step->work.in_count * sizeof *step->in;
  GCONV_GROW(p->owned, p->owned_count, "no memory for a plan");
  GCONV_TRY(gconv_allocate(bytes, "the inputs of a node", &p->owned[p->owned_count]));
  int32_t *in = p->owned[p->owned_count++];
  memcpy(in, step->in, bytes);
  in[0] = value;
  step->in = in;
  ((const gconv_tensor **)step->work.in)[0] = tensor;
  return GCONV_OK;
}

/* Before opset 18, models normalise groups of channels by InstanceNormalization between two nodes that reshape: N x C x H x
 * W to N x G x all, and back. On the CPU, InstanceNormalization takes G factors for C channels, so nothing is reshaped. */
static gconv_status fuse_groups(gconv_graph_plan *p, gconv_graph_step *step, const uses *u) {
  if (strcmp(step->node->kind->name, "InstanceNormalization") != 0 || gconv_graph_is_on_gpu(&p->options))
    return GCONV_OK;
  const gconv_tensor *groups = step->work.in[0];
  gconv_graph_step *before = maker_of(p, step->in[0]), *after = only_taker(p, u, step->out[0]);
  if (!before || !after || groups->axes != 3 || only_taker(p, u, step->in[0]) != step ||
      before->node->kind->memory != GCONV_MEMORY_VIEW || after->node->kind->memory != GCONV_MEMORY_VIEW)
    return GCONV_OK;
  const gconv_tensor *all = before->work.in[0];
  if (all->axes != 4 || all->shape[0] != groups->shape[0] || all->shape[1] % groups->shape[1] != 0 ||
      !same_shape(after->work.out[0], all))
    return GCONV_OK;
  GCONV_TRY(replace_input(p, step, before->in[0], all));
  before->node = NULL;
  p->fused++;
  return note(p, step, after);
}

static bool fuses(const gconv_graph_step *step) {
  return step->node->kind->fuses == GCONV_FUSES_ALL ||
         (step->node->kind->fuses == GCONV_FUSES_TAILS_ON_GPU && gconv_graph_is_on_gpu(step->work.options));
}

gconv_status gconv_graph_fuse(gconv_graph_plan *p) {
  const size_t values = p->graph->value_count + 1;
  size_t kept = 0;
  GCONV_FREED int32_t *taker = malloc(2 * values * sizeof *taker);
  GCONV_FREED bool *ready = malloc(values * sizeof *ready);
  GCONV_NEED_MEMORY(taker && ready, "%s: no memory for a plan", p->graph->path);
  const uses u = {taker, taker + values, ready};
  find_uses(p, &u);
  for (size_t i = 0; i < p->step_count; i++) {
    gconv_graph_step *step = &p->steps[i];
    bool more = step->node && step->work.out_count == 1 && step->work.out[0] && fuses(step);
    if (step->node)
      GCONV_TRY(fuse_groups(p, step, &u));
    while (more)
      GCONV_TRY(fuse_next(p, step, &u, &more));
    if (step->node && step->work.fused.tail && !gconv_graph_is_on_gpu(&p->options))
      gconv_tail_end(step->work.fused.tail);
    for (int32_t k = 0; step->node && k < step->work.out_count; k++)
      if (step->out[k] >= 0)
        ready[step->out[k]] = true;
  }
  for (size_t i = 0; i < p->step_count; i++)
    if (p->steps[i].node)
      p->steps[kept++] = p->steps[i];
  p->step_count = kept;
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Computes nodes together with the node before them: numbers that scale and shift channels go into its weights, and an
 * activation into its epilogue. */
#include "base/memory.h"
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* Finds the only step that takes each value: its number; -1: no step; -2: several steps, or the value is an output. */
static void find_takers(const gconv_graph_plan *p, int32_t *taker) {
  for (size_t i = 0; i < p->graph->value_count; i++)
    taker[i] = -1;
  for (size_t i = 0; i < p->step_count; i++)
    for (int32_t k = 0; k < p->steps[i].work.in_count; k++) {
      const int32_t value = p->steps[i].in[k];
      if (value >= 0)
        taker[value] = taker[value] == -1 ? (int32_t)i : -2;
    }
  for (size_t i = 0; i < p->graph->output_count; i++)
    taker[p->graph->outputs[i]] = -2;
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

/* Lets `step` scale and shift channels as `next` does. */
static gconv_status fuse_affine(gconv_graph_step *step, const gconv_graph_step *next, int32_t input, bool *done) {
  const gconv_tensor *out = step->work.out[0];
  const int64_t channels = out->axes > 1 ? out->shape[1] : 0;
  gconv_node_fused *fused = &step->work.fused;
  *done = false;
  if (!next->node->kind->affine || channels == 0 || fused->activation != GCONV_ACTIVATION_NONE)
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
  if (input != 0 || !kind->activation || fused->activation != GCONV_ACTIVATION_NONE ||
      !kind->activation(&next->work, kind, &activation, &slope))
    return false;
  fused->activation = activation;
  fused->slope = slope;
  return true;
}

/* Notes that `next` is fused with `step`, which makes its result. */
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

/* Fuses the steps after a step, as far as that is possible. */
static gconv_status fuse_after(gconv_graph_plan *p, gconv_graph_step *step, const int32_t *taker) {
  for (;;) {
    const int32_t value = step->out[0], number = step->work.out[0] ? taker[value] : -1;
    gconv_graph_step *next = number >= 0 ? &p->steps[number] : NULL;
    const int32_t input = next ? find_input(next, value) : -1;
    bool done = false;
    if (input < 0 || step->work.out[0]->type != GCONV_TENSOR_F32 || next->work.out_count != 1 ||
        !same_shape(next->work.out[0], step->work.out[0]))
      return GCONV_OK;
    GCONV_TRY(fuse_affine(step, next, input, &done));
    if (!done && !fuse_activation(step, next, input))
      return GCONV_OK;
    GCONV_TRY(note(p, step, next));
  }
}

gconv_status gconv_graph_fuse(gconv_graph_plan *p) {
  size_t kept = 0;
  GCONV_FREED int32_t *taker = malloc((p->graph->value_count + 1) * sizeof *taker);
  GCONV_NEED_MEMORY(taker, "%s: no memory for a plan", p->graph->path);
  find_takers(p, taker);
  for (size_t i = 0; i < p->step_count; i++)
    if (p->steps[i].node && p->steps[i].node->kind->fuses)
      GCONV_TRY(fuse_after(p, &p->steps[i], taker));
  for (size_t i = 0; i < p->step_count; i++)
    if (p->steps[i].node)
      p->steps[kept++] = p->steps[i];
  p->step_count = kept;
  return GCONV_OK;
}

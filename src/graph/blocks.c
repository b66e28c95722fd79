/* SPDX-License-Identifier: MIT */
/* On the CPU, results between convolutions may be in blocks of 16 channels, N x C/16 x H x W x 16 (tensor.h): kernels then
 * read and write whole vectors of channels. A result is kept in blocks if two things hold: the node that makes it and all
 * nodes that take it can work with blocks, and the convolutions among these nodes are estimated to be as fast as without.
 * No step only converts: a convolution reads either form and writes either form. */
#include "base/memory.h"
#include "graph/conv.h"
#include "graph/gpu.h"
#include "graph/tail.h"

#include <stdlib.h>

/* Returns whether the shape of a result allows blocks. At most a quarter of the channels in blocks may be padding. */
static bool can_be(const gconv_graph_plan *p, int32_t value) {
  const gconv_tensor *t = &p->tensors[value];
  const int64_t channels = t->axes == 4 ? t->shape[1] : 0;
  return channels > 0 && t->type == GCONV_TENSOR_F32 && !t->data && !p->graph->values[value].input &&
         3 * gconv_layer_image_floats(channels, 1, true) <= 4 * channels &&
         (gconv_tensor_count(t, 2, 4) > 1 || t->shape[0] == 1);
}

/* Returns the estimated milliseconds of a convolution with these forms, or infinity if no algorithm can solve it. */
static double estimate(const gconv_graph_plan *p, const gconv_graph_step *s, bool in_blocks, bool out_blocks) {
  gconv_layer_choice choice = {0};
  gconv_node_work work = s->work;
  work.threads = p->options.device->threads;
  if (gconv_conv_problem(&work, &choice.whole) != GCONV_OK)
    return INFINITY;
  choice.whole.in_blocks = in_blocks && !gconv_tensor_is_point(s->work.in[0]);
  choice.whole.out_blocks = out_blocks && !gconv_tensor_is_point(s->work.out[0]);
  return gconv_solver_choose(&work, &choice) == GCONV_OK ? choice.estimate_ms : INFINITY;
}

/* A convolution in blocks may take this many times as long as without blocks, because its neighbours gain by blocks. */
static const double WORTH = 1.1;

static bool gains(const gconv_graph_plan *p, const gconv_graph_step *s, const bool *blocks) {
  const bool in = s->in[0] >= 0 && blocks[s->in[0]], out = blocks[s->out[0]];
  return (in || out) && s->work.in[0]->axes == 4 && estimate(p, s, in, out) <= WORTH * estimate(p, s, false, false);
}

static bool is_one_sided(const gconv_graph_step *s, const bool *blocks) {
  return (s->in[0] >= 0 && blocks[s->in[0]]) != blocks[s->out[0]];
}

/* Returns whether an input can be repeated along an output in blocks: it has one number, or one for each channel. */
static bool repeats(const gconv_tensor *t, const gconv_tensor *out) {
  return gconv_tensor_elements(t) == 1 || (gconv_tensor_is_point(t) && !t->data && t->shape[1] == out->shape[1]);
}

/* Returns whether a step can compute its output in blocks from inputs in blocks. */
static bool can_step(const gconv_graph_step *s) {
  const gconv_tensor *out = s->work.out[0];
  for (int32_t k = 0; k < s->work.in_count; k++) {
    const gconv_tensor *in = s->work.in[k];
    const bool whole = in && in->axes == 4 && !in->data && in->shape[0] == out->shape[0];
    if (s->node->kind->memory == GCONV_MEMORY_JOINED &&
        (!whole || in->shape[1] % GCONV_BLOCK != 0 || in->shape[2] != out->shape[2] || in->shape[3] != out->shape[3]))
      return false;
    if (in && !whole && !repeats(in, out))
      return false;
  }
  return s->work.out_count == 1 || !s->work.out[1];
}

/* The output of a step, and either all its inputs or only the tensor that its tail adds, must have one form. Takes them out
 * of blocks[] unless all are in it. Returns whether one changed. */
static bool agree(const gconv_graph_step *s, bool inputs, bool *blocks) {
  bool all = blocks[s->out[0]], any = all;
  for (int turn = 0; turn < 2; turn++)
    for (int32_t k = 0; k <= s->work.in_count; k++) {
      const int32_t value = k < s->work.in_count ? s->in[k] : s->added;
      if (value < 0 || (k < s->work.in_count && (!inputs || gconv_tensor_elements(s->work.in[k]) == 1)))
        continue;
      all = all && blocks[value];
      any = any || blocks[value];
      blocks[value] = turn == 0 ? blocks[value] : all;
    }
  blocks[s->out[0]] = all;
  return any && !all;
}

static bool drop(const int32_t *values, int32_t first, int32_t count, bool *blocks) {
  bool changed = false;
  for (int32_t k = first; k < count; k++)
    if (values[k] >= 0 && blocks[values[k]]) {
      blocks[values[k]] = false;
      changed = true;
    }
  return changed;
}

/* Takes the values out of blocks[] that a step cannot read or write in blocks. Returns whether one changed. */
static bool restrict_step(const gconv_graph_step *s, bool gains, bool *blocks) {
  const gconv_node_blocks how = gains ? s->node->kind->blocks : GCONV_BLOCKS_NEVER;
  switch (how) {
  case GCONV_BLOCKS_EITHER: {
    const bool changed = drop(s->in, 1, s->work.in_count, blocks);
    return agree(s, false, blocks) || changed;
  }
  case GCONV_BLOCKS_ALIKE:
    return agree(s, true, blocks);
  case GCONV_BLOCKS_READ:
    return drop(s->out, 0, s->work.out_count, blocks);
  case GCONV_BLOCKS_NEVER:
    break;
  }
  const bool changed = drop(s->in, 0, s->work.in_count, blocks), more = drop(&s->added, 0, 1, blocks);
  return drop(s->out, 0, s->work.out_count, blocks) || changed || more;
}

gconv_status gconv_graph_lay_blocks(gconv_graph_plan *p) {
  const size_t values = p->graph->value_count;
  GCONV_FREED bool *blocks = calloc(values + p->step_count + 1, sizeof *blocks);
  GCONV_NEED_MEMORY(blocks, "%s: no memory for a plan", p->graph->path);
  bool *good = blocks + values;
  if (gconv_graph_is_on_gpu(&p->options) || p->options.in_float64)
    return GCONV_OK;
  for (size_t i = 0; i < p->step_count; i++)
    if (p->steps[i].node->kind->blocks != GCONV_BLOCKS_READ && p->steps[i].work.out[0]) /* else out[0] may be -1 */
      blocks[p->steps[i].out[0]] = can_be(p, p->steps[i].out[0]);
  drop(p->graph->outputs, 0, (int32_t)p->graph->output_count, blocks);
  for (size_t i = 0; i < p->step_count; i++) {
    const gconv_graph_step *s = &p->steps[i];
    good[i] = s->node->kind->blocks == GCONV_BLOCKS_EITHER
                  ? gains(p, s, blocks) && gconv_tail_takes_blocks(s->work.fused.tail)
              : s->node->kind->blocks == GCONV_BLOCKS_ALIKE ? can_step(s)
                                                            : true;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < p->step_count; i++)
      changed = restrict_step(&p->steps[i], good[i], blocks) || changed;
    /* A convolution that lost blocks only on one side, input or output, may have no algorithm left. */
    for (size_t i = 0; i < p->step_count && !changed; i++)
      if (good[i] && p->steps[i].node->kind->blocks == GCONV_BLOCKS_EITHER && is_one_sided(&p->steps[i], blocks))
        changed = !(good[i] = gains(p, &p->steps[i], blocks));
  }
  for (size_t i = 0; i < values; i++)
    p->tensors[i].blocks = blocks[i];
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Finds the lifetime of each result of a plan, and which results share memory. Views share the memory of their input. A
 * result may overwrite an input that no later step needs. Inputs of Concat are written directly into its result, which
 * saves copies. Inputs and outputs of the plan may lie in memory of the caller. */
#include "base/memory.h"
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* The state of placing. Lists have an entry for each value. */
typedef struct placing {
  int32_t *lists;        /* owned: the memory of the next four */
  int32_t *last_use;     /* the last step that reads it; `step_count` of outputs; -1: none */
  int32_t *maker;        /* the step that makes it; -1: none */
  int32_t *part_of;      /* the joined result that it is a part of; -1: none */
  int32_t *joined_block; /* for joined results: the block; -1: none yet */
  size_t *part_at;       /* owned: the bytes before it in that result */
  bool *inside;          /* owned: it is a part, or a view of one: nothing may overwrite it */
} placing;

/* ---- Lifetimes ---- */

/* Sets last_use[] of each value: the number of the last step that reads it; `step_count` of outputs; -1: none. */
static void find_uses(const gconv_graph_plan *p, int32_t *last_use) {
  for (size_t i = 0; i < p->graph->value_count; i++)
    last_use[i] = -1;
  for (size_t i = 0; i < p->step_count; i++) {
    for (int32_t k = 0; k < p->steps[i].work.in_count; k++)
      if (p->steps[i].in[k] >= 0)
        last_use[p->steps[i].in[k]] = p->steps[i].last;
    if (p->steps[i].added >= 0)
      last_use[p->steps[i].added] = p->steps[i].last;
  }
  for (size_t i = 0; i < p->graph->output_count; i++)
    last_use[p->graph->outputs[i]] = (int32_t)p->step_count;
}

static int32_t add_block(gconv_graph_plan *p, int32_t value, size_t bytes, int32_t first, int32_t last) {
  p->blocks[p->block_count] = (gconv_arena_block){bytes > 0 ? bytes : 1, 0, first, last < first ? first : last, value};
  return (int32_t)p->block_count++;
}

/* Returns the block of an input that output 0 of a step may overwrite; -1: there is none. */
static int32_t find_overwritten(const gconv_graph_plan *p, const placing *l, int32_t step) {
  const gconv_graph_step *s = &p->steps[step];
  const gconv_tensor *out = s->work.out[0];
  for (int32_t i = 0; i < s->node->kind->least_in && s->node->kind->memory == GCONV_MEMORY_IN_PLACE; i++) {
    const gconv_tensor *in = s->work.in[i];
    const int32_t block = in ? p->block_of[s->in[i]] : -1;
    bool good = block >= 0 && !l->inside[s->in[i]] && p->blocks[block].last == step && in->type == out->type &&
                in->axes == out->axes && memcmp(in->shape, out->shape, (size_t)in->axes * sizeof *in->shape) == 0;
    for (int32_t k = 0; k < s->work.in_count && good; k++)
      good = s->in[k] < 0 || s->in[k] == s->in[i] || p->block_of[s->in[k]] != block;
    if (good)
      return block;
  }
  return -1;
}

/* ---- Parts of joined results ---- */

/* Returns whether a joining step's inputs lie one after the other in its output: all axes before the joined one are 1. */
static bool joins_neighbours(const gconv_graph_step *s) {
  const gconv_tensor *out = s->work.out[0], *first = s->work.in[0];
  if (s->node->kind->memory != GCONV_MEMORY_JOINED || s->work.in_count < 2)
    return false;
  for (int32_t i = 0; i < out->axes && out->shape[i] == first->shape[i]; i++)
    if (out->shape[i] != 1)
      return false;
  return true;
}

/* Returns whether a value can be written into a joined result: no view makes it, and it is not part of another result. */
static bool can_be_part(const gconv_graph_plan *p, const placing *l, int32_t value) {
  const int32_t maker = l->maker[value];
  return l->part_of[value] < 0 && maker >= 0 && p->steps[maker].node->kind->memory != GCONV_MEMORY_VIEW;
}

static void find_parts(const gconv_graph_plan *p, placing *l) {
  for (size_t i = 0; i < p->step_count; i++) {
    const gconv_graph_step *s = &p->steps[i];
    size_t at = 0;
    for (int32_t k = 0; k < s->work.in_count && joins_neighbours(s); k++) {
      const int32_t value = s->in[k];
      if (can_be_part(p, l, value)) {
        l->part_of[value] = s->out[0];
        l->part_at[value] = at;
      }
      at += gconv_tensor_bytes(s->work.in[k]);
    }
  }
}

/* Returns the joined result that a value is a part of, directly or as a part of a part; or the value itself. Adds its offset
 * in that result, in bytes, to *at. */
static int32_t find_whole(const placing *l, int32_t value, size_t *at) {
  for (; l->part_of[value] >= 0; value = l->part_of[value])
    *at += l->part_at[value];
  return value;
}

/* ---- Places ---- */

static void take_block(gconv_graph_plan *p, int32_t value, int32_t block, int32_t last) {
  p->block_of[value] = block;
  if (last > p->blocks[block].last)
    p->blocks[block].last = last;
}

/* Places a value that is a joined result, or a part of one. */
static void place_joined(gconv_graph_plan *p, placing *l, int32_t value, int32_t number) {
  size_t at = 0;
  const int32_t whole = find_whole(l, value, &at);
  if (l->joined_block[whole] < 0)
    l->joined_block[whole] = add_block(p, whole, gconv_tensor_bytes(&p->tensors[whole]), number, l->last_use[whole]);
  take_block(p, value, l->joined_block[whole], l->last_use[value]);
  p->offset_of[value] = at;
  l->inside[value] = whole != value;
}

static void place_output(gconv_graph_plan *p, placing *l, int32_t number, int32_t i) {
  gconv_graph_step *s = &p->steps[number];
  const int32_t value = s->out[i];
  if (i == 0 && s->node->kind->memory == GCONV_MEMORY_VIEW) {
    s->view = true;
    if (p->block_of[s->in[0]] < 0) { /* a constant has no block */
      p->tensors[value].data = p->tensors[s->in[0]].data;
      return;
    }
    take_block(p, value, p->block_of[s->in[0]], l->last_use[value]);
    p->offset_of[value] = p->offset_of[s->in[0]];
    l->inside[value] = l->inside[s->in[0]];
    return;
  }
  if (l->part_of[value] >= 0 || s->node->kind->memory == GCONV_MEMORY_JOINED) {
    place_joined(p, l, value, s->first);
    return;
  }
  const int32_t block = i == 0 ? find_overwritten(p, l, number) : -1;
  if (block >= 0)
    take_block(p, value, block, l->last_use[value]);
  else
    p->block_of[value] = add_block(p, value, gconv_tensor_bytes(s->work.out[i]), s->first, l->last_use[value]);
}

static void place_steps(gconv_graph_plan *p, placing *l) {
  for (size_t i = 0; i < p->step_count; i++) {
    gconv_graph_step *s = &p->steps[i];
    for (int32_t k = 0; k < s->work.out_count; k++)
      if (s->work.out[k] && s->last == (int32_t)i)
        place_output(p, l, (int32_t)i, k);
      else if (s->work.out[k])
        p->block_of[s->out[k]] = GCONV_GRAPH_INNER;
    s->workspace_at = p->block_count;
    if (s->workspace_bytes > 0)
      add_block(p, -1, s->workspace_bytes, (int32_t)i, (int32_t)i);
  }
}

/* Makes the lists, of one entry for each value. */
static gconv_status begin(gconv_graph_plan *p, placing *l) {
  const size_t count = p->graph->value_count;
  int32_t *lists = malloc((4 * count + 1) * sizeof *lists);
  l->lists = lists;
  l->part_at = calloc(count + 1, sizeof *l->part_at);
  l->inside = calloc(count + 1, sizeof *l->inside);
  p->offset_of = calloc(count + 1, sizeof *p->offset_of);
  p->block_of = malloc((count + 1) * sizeof *p->block_of);
  p->blocks = calloc(count + p->step_count + 1, sizeof *p->blocks);
  GCONV_NEED_MEMORY(lists && l->part_at && l->inside && p->offset_of && p->block_of && p->blocks, "%s: no memory for a plan",
                    p->graph->path);
  l->last_use = lists;
  l->maker = lists + count;
  l->part_of = lists + 2 * count;
  l->joined_block = lists + 3 * count;
  for (size_t i = 0; i < count; i++)
    p->block_of[i] = l->maker[i] = l->part_of[i] = l->joined_block[i] = -1;
  for (size_t i = 0; i < p->step_count; i++)
    for (int32_t k = 0; k < p->steps[i].work.out_count; k++)
      if (p->steps[i].work.out[k])
        l->maker[p->steps[i].out[k]] = (int32_t)i;
  return GCONV_OK;
}

static void end(placing *l) {
  free(l->lists);
  free(l->part_at);
  free(l->inside);
}

gconv_status gconv_graph_place(gconv_graph_plan *p) {
  const gconv_graph *g = p->graph;
  GCONV_ENDED_BY(end) placing l = {.inside = NULL};
  GCONV_TRY(begin(p, &l));
  find_uses(p, l.last_use);
  find_parts(p, &l);
  for (size_t i = 0; i < g->input_count; i++)
    p->block_of[g->inputs[i]] =
        add_block(p, g->inputs[i], gconv_tensor_bytes(&p->tensors[g->inputs[i]]), -1, l.last_use[g->inputs[i]]);
  place_steps(p, &l);
  GCONV_TRY(gconv_arena_lay(p->blocks, p->block_count, &p->arena_bytes));
  for (size_t i = 0; i < p->step_count; i++)
    p->steps[i].workspace_at = p->steps[i].workspace_bytes > 0 ? p->blocks[p->steps[i].workspace_at].at : 0;
  return GCONV_OK;
}

/* ---- Memory of callers ---- */

static void *find_place(const gconv_graph_plan *p, int32_t value) {
  return p->arena + p->blocks[p->block_of[value]].at + p->offset_of[value];
}

bool gconv_graph_plan_lend(gconv_graph_plan *p, int32_t value, const void *memory) {
  gconv_tensor *t = &p->tensors[value];
  const int32_t block = p->block_of[value];
  if (p->gpu || block < 0 || t->data != find_place(p, value) || (uintptr_t)memory % gconv_tensor_type_bytes(t->type) != 0)
    return false;
  for (size_t i = 0; i < p->graph->value_count; i++)
    if ((int32_t)i != value && p->block_of[i] == block)
      return false;
  t->data = (void *)(uintptr_t)memory; /* of an input, no step writes to it: what overwrites it would share its block */
  return true;
}

void gconv_graph_plan_take_back(gconv_graph_plan *p) {
  for (size_t i = 0; i < p->graph->input_count + p->graph->output_count && !p->gpu; i++) {
    const int32_t value = i < p->graph->input_count ? p->graph->inputs[i] : p->graph->outputs[i - p->graph->input_count];
    if (p->block_of[value] >= 0)
      p->tensors[value].data = find_place(p, value);
  }
}

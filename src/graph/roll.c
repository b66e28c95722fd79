/* SPDX-License-Identifier: MIT */
/* Convolutions of a plan that go through the image by bands of rows, on the CPU (rolling.h): steps one after the other, each
 * of which alone takes the result of the one before it. All of them run with the first one. */
#include "base/memory.h"
#include "graph/conv.h"
#include "graph/gpu.h"
#include "graph/graph.h"
#include "graph/rolling.h"
#include "graph/tail.h"

#include <stdlib.h>
#include <string.h>

/* Whether a tail takes tensors of the size of the output, which are in memory as a whole. */
static bool takes_tensors(const gconv_tail *tail) {
  for (int32_t i = 0; tail && i < tail->count; i++)
    for (int32_t k = 0; k < tail->steps[i].inputs; k++)
      if (tail->steps[i].source[k] == GCONV_TAIL_TENSOR)
        return true;
  return false;
}

/* Counts how often steps and outputs take each value. */
static void count_takers(const gconv_graph_plan *p, int32_t *takers) {
  for (size_t i = 0; i < p->step_count; i++) {
    for (int32_t k = 0; k < p->steps[i].work.in_count; k++)
      if (p->steps[i].in[k] >= 0)
        takers[p->steps[i].in[k]]++;
    if (p->steps[i].added >= 0)
      takers[p->steps[i].added]++;
  }
  for (size_t i = 0; i < p->graph->output_count; i++)
    takers[p->graph->outputs[i]]++;
}

/* Returns the solver of a convolution that can be a stage; NULL: it cannot. */
static gconv_solver *stage_of(const gconv_graph_step *s) {
  gconv_solver *solver = strcmp(s->node->kind->name, "Conv") == 0 ? s->work.prepared : NULL;
  return solver && solver->constant && !gconv_tensor_is_point(s->work.out[0]) ? solver : NULL;
}

/* Whether the result of a step is in memory between the two alone. */
static bool joins(const gconv_graph_step *s, const gconv_graph_step *next, const int32_t *takers) {
  return next->in[0] == s->out[0] && takers[s->out[0]] == 1 && !takes_tensors(s->work.fused.tail);
}

gconv_status gconv_graph_roll(gconv_graph_plan *p) {
  GCONV_FREED int32_t *takers = calloc(p->graph->value_count + 1, sizeof *takers);
  GCONV_NEED_MEMORY(takers, "%s: no memory for a plan", p->graph->path);
  for (size_t i = 0; i < p->step_count; i++)
    p->steps[i].first = p->steps[i].last = (int32_t)i;
  if (gconv_graph_is_on_gpu(&p->options))
    return GCONV_OK;
  count_takers(p, takers);
  for (size_t i = 0, count; i < p->step_count; i += count) {
    gconv_solver *solvers[GCONV_ROLLING_MOST];
    gconv_graph_step *first = &p->steps[i];
    for (count = 0; i + count < p->step_count && count < GCONV_ROLLING_MOST; count++)
      if (!(solvers[count] = stage_of(&first[count])) || (count > 0 && !joins(&first[count - 1], &first[count], takers)))
        break;
    GCONV_TRY(gconv_rolling_make(solvers, count, GCONV_ROLLING_LEAST, p->options.device->threads, &first->rolling));
    count = first->rolling ? first->rolling->count : 1;
    for (size_t k = 0; k < count; k++) {
      gconv_graph_step *s = &first[k];
      s->first = (int32_t)i;
      s->last = (int32_t)(i + count - 1);
      if (s->work.fused.tail && k + 1 < count)
        s->work.fused.tail->plane = solvers[k]->choice.problem.out_plane;
      if (count > 1)
        s->workspace_bytes = k == 0 ? gconv_rolling_bytes(first->rolling) : 0;
    }
  }
  return GCONV_OK;
}

gconv_status gconv_graph_roll_step(const gconv_graph_plan *p, const gconv_graph_step *first) {
  const gconv_graph_step *last = &p->steps[first->last];
  for (const gconv_graph_step *s = first; s <= last; s++)
    GCONV_TRY(gconv_conv_open(&s->work));
  if (last->work.fused.tail)
    gconv_tail_set_out(last->work.fused.tail, last->work.out[0]->data);
  return gconv_rolling_run(first->rolling, (int32_t)last->work.out[0]->shape[0], first->work.in[0]->data,
                           last->work.out[0]->data, p->options.device->threads, first->work.workspace);
}

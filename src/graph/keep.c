/* SPDX-License-Identifier: MIT */
/* Keeps results of convolutions in 16 bits on a GPU (kernels/layer_problem.h). A result is kept if only convolutions take
 * it, if --math allows 16 bits, and if one algorithm solves all these convolutions. */
#include "base/memory.h"
#include "graph/graph.h"
#include "graph/solve.h"
#include "graph/tail.h"

#include <stdlib.h>
#include <string.h>

/* Returns the solver of a step; NULL if no algorithm of layers solves it. */
static gconv_solver *solver_of(const gconv_graph_step *s) {
  return gconv_solver_solves(s->node->kind) ? s->work.prepared : NULL;
}

/* Lists the convolutions whose input is a value, and returns their number; 0 if anything else takes the value. */
static size_t find_takers(const gconv_graph_plan *p, int32_t value, gconv_solver **takers) {
  size_t count = 0;
  for (size_t i = 0; i < p->graph->output_count; i++)
    if (p->graph->outputs[i] == value)
      return 0;
  for (size_t i = 0; i < p->step_count; i++) {
    const gconv_graph_step *s = &p->steps[i];
    for (int32_t k = 0; k < s->work.in_count; k++)
      if (s->in[k] == value && (k > 0 || !solver_of(s) || strcmp(s->node->kind->name, "Conv") != 0))
        return 0;
    if (s->added == value)
      return 0;
    if (s->work.in_count > 0 && s->in[0] == value)
      takers[count++] = solver_of(s);
  }
  return count;
}

static void keep(gconv_solver *solver, const gconv_layer_algorithm *keeper, const gconv_layer_problem *problem) {
  gconv_layer_choice *choice = &solver->choice;
  choice->algorithm = keeper;
  choice->whole = choice->problem = *problem;
  choice->workspace_bytes = keeper->workspace_bytes(problem);
}

gconv_status gconv_graph_keep(gconv_graph_plan *p) {
  const char *wanted = p->options.algorithm ? p->options.algorithm : "auto";
  const gconv_layer_algorithm *keeper = gconv_layer_keeper(p->options.device, p->options.without, p->options.math);
  if (!keeper || (strcmp(wanted, "auto") != 0 && strcmp(wanted, keeper->info.name) != 0))
    return GCONV_OK;
  GCONV_FREED gconv_solver **takers = malloc((p->step_count + 1) * sizeof(gconv_solver *));
  GCONV_NEED_MEMORY(takers, "%s: no memory for a plan", p->graph->path);
  for (size_t i = 0; i < p->step_count; i++) {
    gconv_graph_step *s = &p->steps[i];
    gconv_solver *maker = solver_of(s);
    if (!maker || strcmp(s->node->kind->name, "Conv") != 0 || gconv_tail_of_gpu(&s->work.fused) > keeper->tails)
      continue; /* a further kernel for the tail needs float32 */
    const size_t count = find_takers(p, s->out[0], takers);
    gconv_layer_problem first = maker->choice.whole;
    bool can = count > 0;
    for (size_t k = 0; k < count && can; k++) {
      gconv_layer_problem second = takers[k]->choice.whole;
      can = gconv_layer_keep(keeper, &first, &second);
    }
    if (!can || (size_t)gconv_layer_out_bytes(&first) * (size_t)first.images > gconv_tensor_bytes(s->work.out[0]))
      continue;
    keep(maker, keeper, &first);
    for (size_t k = 0; k < count; k++) {
      gconv_layer_problem second = takers[k]->choice.whole;
      second.in_kept = true;
      keep(takers[k], keeper, &second);
    }
  }
  return GCONV_OK;
}

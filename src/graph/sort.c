/* SPDX-License-Identifier: MIT */
/* Sorts the nodes of a graph, so that each stands after the nodes whose results it needs. */
#include "base/memory.h"
#include "graph/graph.h"

#include <stdlib.h>

/* The state of sorting, depth first. There is a stack in place of recursion, because all nodes may be one chain. */
typedef struct sorting {
  const gconv_graph *graph;
  int32_t *place;       /* place of each node in the new order; -1: none yet; -2: begun */
  int32_t *stack, *at;  /* nodes that were begun, and the number of the next need of each */
  int32_t depth, count; /* count: nodes with a place */
} sorting;

/* Sets *maker to the node that makes need `number` of a node, or to -1. Needs are the inputs, and the conditions of the
 * branches that the node is in. Each may have two makers, so it counts twice. Returns false if there is no need `number`. */
static bool find_need(const gconv_graph *g, const gconv_graph_node *node, int32_t number, int32_t *maker) {
  int32_t value = -1, branch = node->branch, above = number / 2 - node->in_count;
  if (above < 0)
    value = node->in[number / 2];
  for (; above > 0 && branch > 0; above--)
    branch = g->branches[branch - 1].outer;
  if (number / 2 >= node->in_count && branch == 0)
    return false;
  if (number / 2 >= node->in_count)
    value = g->branches[branch - 1].condition;
  *maker = value < 0 ? -1 : number % 2 ? g->values[value].other : g->values[value].maker;
  return true;
}

static gconv_status sort_from(sorting *s, int32_t first) {
  s->stack[0] = first;
  s->at[0] = 0;
  s->place[first] = -2;
  for (s->depth = 1; s->depth > 0;) {
    const int32_t number = s->stack[s->depth - 1];
    const gconv_graph_node *node = &s->graph->nodes[number];
    int32_t maker;
    if (!find_need(s->graph, node, s->at[s->depth - 1]++, &maker)) {
      s->place[number] = s->count++;
      s->depth--;
      continue;
    }
    if (maker < 0 || s->place[maker] >= 0)
      continue;
    if (s->place[maker] == -2)
      return gconv_fail(GCONV_BAD_FILE, "%s: node '%s' (%s) needs its own result: the nodes form a circle", s->graph->path,
                        node->name, node->kind->name);
    s->stack[s->depth] = maker;
    s->at[s->depth] = 0;
    s->place[maker] = -2;
    s->depth++;
  }
  return GCONV_OK;
}

/* Moves the nodes to their places. */
static gconv_status move_nodes(gconv_graph *g, const int32_t *place) {
  gconv_graph_node *nodes = calloc(g->node_count + 1, sizeof *nodes);
  GCONV_NEED_MEMORY(nodes, "%s: no memory for a graph", g->path);
  for (size_t i = 0; i < g->node_count; i++)
    nodes[place[i]] = g->nodes[i];
  for (size_t i = 0; i < g->value_count; i++) {
    gconv_graph_value *v = &g->values[i];
    v->maker = v->maker >= 0 ? place[v->maker] : -1;
    v->other = v->other >= 0 ? place[v->other] : -1;
  }
  free(g->nodes);
  g->nodes = nodes;
  return GCONV_OK;
}

gconv_status gconv_graph_sort(gconv_graph *g) {
  const size_t count = g->node_count;
  GCONV_FREED int32_t *memory = malloc((3 * count + 1) * sizeof *memory);
  GCONV_NEED_MEMORY(memory, "%s: no memory for a graph", g->path);
  sorting s = {g, memory, memory + count, memory + 2 * count, 0, 0};
  for (size_t i = 0; i < count; i++)
    s.place[i] = -1;
  for (size_t i = 0; i < count; i++)
    if (s.place[i] == -1)
      GCONV_TRY(sort_from(&s, (int32_t)i));
  return move_nodes(g, s.place);
}

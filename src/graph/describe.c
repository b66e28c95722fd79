/* SPDX-License-Identifier: MIT */
/* Describes the steps of a plan for users: names, shapes, parameters, and the steps whose results each step takes. */
#include "base/memory.h"
#include "base/printable.h"
#include "gconv_classify.h"
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 80 };

typedef struct description {
  gconv_node_info *nodes;
  size_t count;
  size_t *inputs; /* of all nodes */
  char **names;   /* of inputs and outputs of the model, printable */
  size_t name_count;
} description;

static void free_description(description *d) {
  if (!d)
    return;
  for (size_t i = 0; i < d->name_count; i++)
    free(d->names[i]);
  free(d->names);
  free(d->nodes);
  free(d->inputs);
  free(d);
}

void gconv_graph_plan_free_description(gconv_graph_plan *plan) {
  free_description(plan->description);
}

static const char *show_name(description *d, const char *name) {
  char *shown = gconv_printable_copy(name, SHOWN_BYTES);
  if (shown)
    d->names[d->name_count++] = shown;
  return shown ? shown : "";
}

static void take_shape(const gconv_tensor *t, gconv_node_info *node) {
  node->type = gconv_tensor_type_name(t->type);
  node->axes = t->axes;
  memcpy(node->shape, t->shape, sizeof node->shape);
}

/* Adds the steps whose results a step takes, and counts its parameters. maker: the number of each value's step; -1: none. */
static void take_inputs(const gconv_graph_step *s, const int32_t *maker, size_t *inputs, gconv_node_info *node) {
  node->inputs = inputs;
  for (int32_t k = 0; k < s->work.in_count; k++) {
    const gconv_tensor *t = s->work.in[k];
    if (t && maker[s->in[k]] < 0 && t->type == GCONV_TENSOR_F32)
      node->parameters += (double)gconv_tensor_elements(t);
    bool known = !t || maker[s->in[k]] < 0;
    for (size_t i = 0; i < node->input_count && !known; i++)
      known = inputs[i] == (size_t)maker[s->in[k]];
    if (!known)
      inputs[node->input_count++] = (size_t)maker[s->in[k]];
  }
}

static void describe_step(const gconv_graph_plan *p, const gconv_graph_step *s, int32_t *maker, size_t *inputs,
                          description *d) {
  gconv_node_info *node = &d->nodes[d->count];
  *node = (gconv_node_info){.kind = s->node->kind->name, .name = s->node->name, .fused = s->fused};
  take_inputs(s, maker, inputs, node);
  for (int32_t k = 0; k < s->work.out_count; k++) {
    if (!s->work.out[k])
      continue;
    if (!node->type)
      take_shape(s->work.out[k], node);
    maker[s->out[k]] = (int32_t)d->count;
    for (size_t i = 0; i < p->graph->output_count && !node->output; i++)
      if (p->graph->outputs[i] == s->out[k])
        node->output = show_name(d, p->graph->values[s->out[k]].name);
  }
  d->count++;
}

static bool describe(const gconv_graph_plan *p, description *d) {
  const gconv_graph *g = p->graph;
  size_t inputs = 0;
  for (size_t i = 0; i < p->step_count; i++)
    inputs += (size_t)p->steps[i].work.in_count;
  GCONV_FREED int32_t *maker = malloc((g->value_count + 1) * sizeof *maker);
  d->nodes = calloc(p->step_count + g->input_count + 1, sizeof *d->nodes);
  d->inputs = calloc(inputs + 1, sizeof *d->inputs);
  d->names = calloc(g->input_count + p->step_count + 1, sizeof *d->names);
  if (!maker || !d->nodes || !d->inputs || !d->names)
    return false;
  for (size_t i = 0; i < g->value_count; i++)
    maker[i] = -1;
  for (size_t i = 0; i < g->input_count; i++) {
    maker[g->inputs[i]] = (int32_t)d->count;
    d->nodes[d->count] = (gconv_node_info){.name = show_name(d, g->values[g->inputs[i]].name)};
    take_shape(&p->tensors[g->inputs[i]], &d->nodes[d->count++]);
  }
  size_t *list = d->inputs;
  for (size_t i = 0; i < p->step_count; i++) {
    describe_step(p, &p->steps[i], maker, list, d);
    list += d->nodes[d->count - 1].input_count;
  }
  return true;
}

const gconv_node_info *gconv_graph_plan_describe(const gconv_graph_plan *plan, size_t *count) {
  void **place = &((gconv_graph_plan *)plan)->description, *none = NULL;
  description *d = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  *count = 0;
  if (!d) {
    d = calloc(1, sizeof *d);
    if (!d || !describe(plan, d)) {
      free_description(d);
      return NULL;
    }
    if (!__atomic_compare_exchange_n(place, &none, d, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      free_description(d);
      d = none;
    }
  }
  *count = d->count;
  return d->nodes;
}

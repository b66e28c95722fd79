/* SPDX-License-Identifier: MIT */
/* Runs graphs on arrays of a caller. Plans are kept in the graph from call to call: each call takes one that is idle, or
 * makes one, so that calls of several threads do not wait for each other. */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/printable.h"
#include "gconv_classify.h"
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KNOWN = 1024 /* elements of an input on which shapes may depend */, SHOWN_BYTES = 80 };

/* A plan, and the inputs that it was made for. */
typedef struct call {
  gconv_graph_plan *plan;
  size_t count;
  gconv_tensor *inputs; /* owned, [count]. `data` is owned: elements on which shapes may depend; or NULL */
} call;

static void free_call(call *c) {
  if (!c)
    return;
  gconv_graph_plan_free(c->plan);
  for (size_t i = 0; c->inputs && i < c->count; i++)
    free(c->inputs[i].data);
  free(c->inputs);
  free(c);
}

void gconv_graph_free_calls(gconv_graph *graph) {
  for (int i = 0; i < GCONV_GRAPH_KEPT_CALLS; i++)
    free_call(graph->calls[i]);
}

static bool same_input(const gconv_tensor *kept, const gconv_tensor *given) {
  return kept->type == given->type && kept->axes == given->axes &&
         memcmp(kept->shape, given->shape, (size_t)kept->axes * sizeof *kept->shape) == 0 &&
         (!kept->data || memcmp(kept->data, given->data, gconv_tensor_bytes(kept)) == 0);
}

static bool fits(const call *c, const gconv_tensor *inputs, const gconv_device *device) {
  for (size_t i = 0; i < c->count; i++)
    if (!same_input(&c->inputs[i], &inputs[i]))
      return false;
  return c->plan->options.device == device;
}

/* Keeps a call. If there is no place, the one that was kept in the last place is freed. */
static void keep(gconv_graph *graph, call *c) {
  for (int i = 0; i < GCONV_GRAPH_KEPT_CALLS; i++) {
    void *none = NULL;
    if (__atomic_compare_exchange_n(&graph->calls[i], &none, c, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return;
  }
  free_call(__atomic_exchange_n(&graph->calls[GCONV_GRAPH_KEPT_CALLS - 1], c, __ATOMIC_ACQ_REL));
}

/* Returns a kept call for these inputs, which is then the caller's; NULL: there is none. */
static call *take(gconv_graph *graph, const gconv_tensor *inputs, const gconv_device *device) {
  for (int i = 0; i < GCONV_GRAPH_KEPT_CALLS; i++) {
    call *c = __atomic_exchange_n(&graph->calls[i], NULL, __ATOMIC_ACQ_REL);
    if (c && fits(c, inputs, device))
      return c;
    if (c)
      keep(graph, c);
  }
  return NULL;
}

/* Plans for these inputs. `knows`: shapes may depend on the elements of small inputs. */
static gconv_status plan(const gconv_graph *graph, const gconv_tensor *inputs, const gconv_device *device, bool knows,
                         call **made) {
  const gconv_graph_options options = {.device = device};
  call *c;
  GCONV_NEW(c, 1, "%s: no memory for a plan", graph->path);
  c->count = graph->input_count;
  c->inputs = calloc(c->count + 1, sizeof *c->inputs);
  gconv_status status = c->inputs ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a plan", graph->path);
  for (size_t i = 0; i < c->count && status == GCONV_OK; i++) {
    c->inputs[i] = inputs[i];
    c->inputs[i].data = NULL;
    status = gconv_tensor_check(&inputs[i]);
    const size_t bytes = status == GCONV_OK ? gconv_tensor_bytes(&inputs[i]) : 0;
    if (status != GCONV_OK || !knows || inputs[i].axes > 1 || gconv_tensor_elements(&inputs[i]) > MOST_KNOWN)
      continue;
    c->inputs[i].data = malloc(bytes + 1);
    if (!c->inputs[i].data)
      status = gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a plan", graph->path);
    else
      memcpy(c->inputs[i].data, inputs[i].data, bytes);
  }
  GCONV_THEN(status, gconv_graph_plan_create(graph, c->inputs, &options, &c->plan));
  GCONV_THEN(status, gconv_graph_plan_allocate(c->plan));
  if (status == GCONV_OK)
    *made = c;
  else
    free_call(c);
  return status;
}

/* Makes a plan that holds for all elements of the inputs. If shapes depend on elements, makes one for these elements. */
static gconv_status make_call(const gconv_graph *graph, const gconv_tensor *inputs, const gconv_device *device,
                              call **made) {
  const gconv_status status = plan(graph, inputs, device, false, made);
  if (status != GCONV_UNSUPPORTED)
    return status;
  return plan(graph, inputs, device, true, made);
}

/* ---- Arguments ---- */

/* Sets *number to the place of an array among the tensors of the model: by its name, or `place`. */
static gconv_status find(const gconv_graph *graph, const char *what, const gconv_network_tensor *array, size_t place,
                         const gconv_network_tensor *tensors, size_t count, size_t *number) {
  char names[400] = "";
  *number = place;
  if (!array->name && place < count)
    return GCONV_OK;
  for (size_t i = 0; i < count; i++) {
    GCONV_FREED char *name = gconv_printable_copy(tensors[i].name, SHOWN_BYTES);
    const size_t used = strlen(names);
    *number = i;
    if (array->name && strcmp(array->name, tensors[i].name) == 0)
      return GCONV_OK;
    if (used + SHOWN_BYTES + 6 < sizeof names)
      snprintf(names + used, sizeof names - used, "%s'%s'", i > 0 ? ", " : "", name ? name : "");
  }
  GCONV_FREED char *name = gconv_printable_copy(array->name ? array->name : "", SHOWN_BYTES);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the model has %zu %ss, %s: there is no %s %s%s%s", graph->path, count, what,
                    names, what, array->name ? "'" : "after them", name ? name : "", array->name ? "'" : "");
}

static gconv_status take_array(const gconv_graph *graph, const gconv_network_tensor *array, gconv_tensor *tensor) {
#define TRY_TYPE(name, c_type, number)                                                                                      \
  if (strcmp(array->type, gconv_tensor_type_name(GCONV_TENSOR_##name)) == 0)                                                \
    tensor->type = GCONV_TENSOR_##name;
  if (!array->type || !array->data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: an input has no %s: it is NULL", graph->path, array->type ? "data" : "type");
  GCONV_EACH_TENSOR_TYPE(TRY_TYPE)
  if (tensor->type == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: an input is of the type '%.40s', which graphs do not take", graph->path,
                      array->type);
  if (array->axes < 0 || array->axes > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: an input has %d axes: there can be 0 to %d", graph->path, array->axes,
                      GCONV_TENSOR_AXES);
  tensor->axes = array->axes;
  memcpy(tensor->shape, array->shape, sizeof tensor->shape);
  tensor->data = array->data;
  return GCONV_OK;
}

/* Fills `tensors`, one for each input of the graph. Inputs that no node takes have any shape, and no data. */
static gconv_status take_arrays(const gconv_network *network, const gconv_network_tensor *arrays, size_t count,
                                gconv_tensor *tensors) {
  const gconv_graph *g = network->graph;
  size_t number;
  for (size_t i = 0; i < g->input_count; i++) { /* for inputs that are not given */
    tensors[i] = g->values[g->inputs[i]].tensor;
    for (int32_t axis = 0; axis < tensors[i].axes; axis++)
      tensors[i].shape[axis] = tensors[i].shape[axis] > 0 ? tensors[i].shape[axis] : 1;
  }
  for (size_t k = 0; k < count; k++) {
    gconv_tensor given = {0};
    GCONV_TRY(find(g, "input", &arrays[k], k, network->inputs, network->input_count, &number));
    GCONV_TRY(take_array(g, &arrays[k], &given));
    for (size_t i = 0, taken = 0; i < g->input_count; i++)
      if (g->values[g->inputs[i]].taken && taken++ == number) {
        if (tensors[i].data)
          return gconv_fail(GCONV_BAD_ARGUMENT, "%s: an input is given twice", g->path);
        tensors[i] = given;
      }
  }
  for (size_t i = 0; i < g->input_count; i++) {
    const gconv_graph_value *v = &g->values[g->inputs[i]];
    GCONV_FREED char *name = gconv_printable_copy(v->name, SHOWN_BYTES);
    if (v->taken && !tensors[i].data)
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the input '%s' of the model is missing: %zu of its %zu inputs are given",
                        g->path, name ? name : "", count, network->input_count);
  }
  return GCONV_OK;
}

/* ---- Runs ---- */

/* Makes an output for the caller. *lent: the run writes it there. */
static gconv_status make_output(gconv_graph_plan *p, size_t number, gconv_network_tensor *to, bool *lent) {
  const gconv_tensor *from = gconv_graph_plan_output(p, number);
  const size_t bytes = gconv_tensor_bytes(from);
  void *data = malloc(bytes > 0 ? bytes : 1);
  GCONV_NEED_MEMORY(data, "no memory for an output of a network");
  to->type = gconv_tensor_type_name(from->type);
  to->axes = from->axes;
  memcpy(to->shape, from->shape, sizeof to->shape);
  to->data = data;
  *lent = gconv_graph_plan_lend(p, p->graph->outputs[number], data);
  return GCONV_OK;
}

static gconv_status run_lent(const call *c, const gconv_network *network, const gconv_tensor *inputs,
                             gconv_network_tensor *outputs, size_t output_count) {
  GCONV_FREED size_t *numbers = calloc(output_count + 1, sizeof *numbers);
  GCONV_FREED bool *lent = calloc(output_count + 1, sizeof *lent);
  GCONV_NEED_MEMORY(numbers && lent, "no memory for the outputs of a network");
  for (size_t i = 0; i < c->count; i++)
    if (inputs[i].data && !gconv_graph_plan_lend(c->plan, c->plan->graph->inputs[i], inputs[i].data))
      memcpy(gconv_graph_plan_input(c->plan, i)->data, inputs[i].data, gconv_tensor_bytes(&inputs[i]));
  for (size_t k = 0; k < output_count; k++) {
    GCONV_TRY(find(network->graph, "output", &outputs[k], k, network->outputs, network->output_count, &numbers[k]));
    GCONV_TRY(make_output(c->plan, numbers[k], &outputs[k], &lent[k]));
  }
  GCONV_TRY(gconv_graph_plan_run(c->plan));
  for (size_t k = 0; k < output_count; k++) {
    const gconv_tensor *from = gconv_graph_plan_output(c->plan, numbers[k]);
    if (!lent[k])
      memcpy(outputs[k].data, from->data, gconv_tensor_bytes(from));
  }
  return GCONV_OK;
}

/* Runs a call on arrays of the caller, without copies where that is possible. */
static gconv_status run_call(const call *c, const gconv_network *network, const gconv_tensor *inputs,
                             gconv_network_tensor *outputs, size_t output_count) {
  const gconv_status status = run_lent(c, network, inputs, outputs, output_count);
  gconv_graph_plan_take_back(c->plan);
  return status;
}

static gconv_status run(const gconv_network *network, gconv_device *device, const gconv_network_tensor *arrays, size_t count,
                        gconv_network_tensor *outputs, size_t output_count) {
  gconv_graph *graph = network->graph;
  GCONV_FREED gconv_tensor *inputs = calloc(graph->input_count + 1, sizeof *inputs);
  GCONV_NEED_MEMORY(inputs, "%s: no memory for its inputs", graph->path);
  GCONV_TRY(take_arrays(network, arrays, count, inputs));
  call *c = take(graph, inputs, device);
  if (!c)
    GCONV_TRY(make_call(graph, inputs, device, &c));
  const gconv_status status = run_call(c, network, inputs, outputs, output_count);
  keep(graph, c);
  return status;
}

gconv_status gconv_network_run(const gconv_network *network, gconv_device *device, const gconv_network_tensor *inputs,
                               size_t input_count, gconv_network_tensor *outputs, size_t output_count) {
  GCONV_NEED(network);
  GCONV_NEED(device);
  GCONV_NEED(inputs);
  GCONV_NEED(outputs);
  if (!network->graph)
    return gconv_fail(GCONV_UNSUPPORTED, "the network is a chain of layers: gconv_operation_of_network() applies it");
  if (device->type != &gconv_device_type_cpu)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: arrays of any shape go through a network on the CPU: take the device cpu",
                      network->graph->path);
  const gconv_status status = run(network, device, inputs, input_count, outputs, output_count);
  for (size_t k = 0; k < output_count && status != GCONV_OK; k++) {
    free(outputs[k].data);
    outputs[k].data = NULL;
  }
  return status;
}

/* SPDX-License-Identifier: MIT */
/* Reads the graph of an ONNX model: values, constants with their numbers, and nodes, each after the nodes whose results it
 * takes. */
#include "bank/onnx_rules.h"
#include "base/memory.h"
#include "base/printable.h"
#include "graph/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 80, MOST_USES = 64 /* bytes of constants for each byte of the file, at most */ };

typedef struct reading {
  gconv_graph *graph;
  gconv_bank_file *file;
  const gconv_onnx_model *model;
  int32_t *slots; /* a hash table of the values by their names: numbers, or -1 */
  size_t slot_count;
  uint64_t constant_bytes;
  int32_t branch; /* the branch of an If that is read: its number + 1; 0: none */
  size_t called;  /* nodes of functions within branches so far */
  bool joins;     /* the node makes a result of an If's second branch; the first branch makes the same value */
} reading;

static gconv_status no_memory(const reading *r) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a graph", r->file->path);
}

/* ---- Values by name ---- */

static uint64_t hash_of(const char *name) { /* FNV-1a */
  uint64_t hash = UINT64_C(14695981039346656037);
  for (; *name; name++)
    hash = (hash ^ (uint8_t)*name) * UINT64_C(1099511628211);
  return hash ^ hash >> 29;
}

/* Returns the slot with the value of this name, or a free slot. */
static int32_t *find_slot(const reading *r, const char *name) {
  size_t slot = hash_of(name) & (r->slot_count - 1);
  while (r->slots[slot] >= 0 && strcmp(r->graph->values[r->slots[slot]].name, name) != 0)
    slot = (slot + 1) & (r->slot_count - 1);
  return &r->slots[slot];
}

static gconv_status grow_slots(reading *r) {
  const size_t count = r->slot_count > 0 ? 2 * r->slot_count : 256;
  int32_t *slots = malloc(count * sizeof *slots);
  if (!slots)
    return no_memory(r);
  free(r->slots);
  r->slots = slots;
  r->slot_count = count;
  for (size_t i = 0; i < count; i++)
    slots[i] = -1;
  for (size_t i = 0; i < r->graph->value_count; i++)
    *find_slot(r, r->graph->values[i].name) = (int32_t)i;
  return GCONV_OK;
}

/* Sets *number to the number of the value with this name. Adds the value if there is none. */
static gconv_status find_value(reading *r, const char *name, int32_t *number) {
  gconv_graph *g = r->graph;
  if (2 * (g->value_count + 1) > r->slot_count)
    GCONV_TRY(grow_slots(r));
  int32_t *slot = find_slot(r, name);
  *number = *slot;
  if (*slot >= 0)
    return GCONV_OK;
  if (g->value_count == GCONV_GRAPH_MOST_VALUES)
    return gconv_fail(GCONV_TOO_LARGE, "%s: has more than %d tensors", r->file->path, GCONV_GRAPH_MOST_VALUES);
  gconv_graph_value *values = gconv_grown(g->values, g->value_count, sizeof *values);
  char *copy = values ? strdup(name) : NULL;
  if (values)
    g->values = values;
  if (!copy)
    return no_memory(r);
  values[g->value_count] = (gconv_graph_value){.name = copy, .maker = -1, .other = -1};
  *number = *slot = (int32_t)g->value_count++;
  return GCONV_OK;
}

/* ---- Constants ---- */

/* Reads the numbers of an initialiser or Constant. Tensors of a file can share bytes, so all together are bounded. */
static gconv_status read_tensor(reading *r, const gconv_onnx_tensor *from, gconv_graph_value *value) {
  const uint64_t most = from->external ? gconv_memory_there() / 2 : MOST_USES * (r->file->source.size + (UINT64_C(1) << 14));
  GCONV_TRY(gconv_tensor_of_onnx(r->file, from, &value->tensor));
  value->constant = true;
  value->external = from->external;
  r->constant_bytes += gconv_tensor_bytes(&value->tensor);
  return r->constant_bytes <= most ? GCONV_OK
                                   : gconv_fail(GCONV_TOO_LARGE,
                                                "%s: its tensors share bytes so often that all together "
                                                "are larger than %" PRIu64 " bytes: that is the limit",
                                                r->file->path, most);
}

static gconv_status make_constant(gconv_graph_value *value, gconv_tensor_type type, int32_t axes, size_t count,
                                  const void *numbers) {
  const size_t bytes = count * gconv_tensor_type_bytes(type);
  GCONV_TRY(gconv_allocate(bytes, "a constant", &value->tensor.data));
  memcpy(value->tensor.data, numbers, bytes);
  value->tensor.type = type;
  value->tensor.axes = axes;
  value->tensor.shape[0] = axes > 0 ? (int64_t)count : 0;
  value->constant = true;
  return GCONV_OK;
}

static rules constant_rules = {TENSOR("value"),
                               FLOAT("value_float", 1, NEWEST),
                               FLOATS("value_floats", 1, NEWEST),
                               INT("value_int", 1, NEWEST),
                               INTS("value_ints", 1, NEWEST),
                               END};

/* Takes the value of a Constant, which is in one of its attributes. */
static gconv_status take_constant(reading *r, const gconv_onnx_node *n) {
  const gconv_onnx_attribute *a = n->attribute_count == 1 ? &n->attributes[0] : NULL;
  const char *output = gconv_onnx_output(n), *name = a && a->name ? a->name : "";
  int32_t number;
  if (!output || !*output)
    return GCONV_OK;
  GCONV_TRY(find_value(r, output, &number));
  gconv_graph_value *value = &r->graph->values[number];
  if (value->constant || value->input || value->maker >= 0)
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "makes '%.80s', which the model has already", output);
  if (a)
    GCONV_TRY(gconv_onnx_check_attributes(n, constant_rules, r->graph->opset));
  if (strcmp(name, "value") == 0 && a->tensor.name)
    return read_tensor(r, &a->tensor, value);
  if (strcmp(name, "value_float") == 0)
    return make_constant(value, GCONV_TENSOR_F32, 0, 1, &a->number);
  if (strcmp(name, "value_floats") == 0 && a->float_count <= GCONV_ONNX_FLOATS)
    return make_constant(value, GCONV_TENSOR_F32, 1, a->float_count, a->floats);
  if (strcmp(name, "value_int") == 0)
    return make_constant(value, GCONV_TENSOR_I64, 0, 1, a->integers.numbers);
  if (strcmp(name, "value_ints") == 0 && a->integers.count <= GCONV_ONNX_INTEGERS)
    return make_constant(value, GCONV_TENSOR_I64, 1, a->integers.count, a->integers.numbers);
  return gconv_onnx_fail_node(
      n, GCONV_UNSUPPORTED, "has no tensor, number or short list as its only attribute, which are the values that are read");
}

/* ---- Nodes ---- */

/* Returns the number of names without empty names at the end. */
static int count_names(char *const *names, int count) {
  while (count > 0 && (!names[count - 1] || !*names[count - 1]))
    count--;
  return count;
}

static gconv_status check_counts(const gconv_onnx_node *n, const gconv_node_kind *kind, const gconv_graph_node *node) {
  if (node->in_count < kind->least_in || node->in_count > kind->most_in)
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has %d inputs, and the operator takes %d to %d", node->in_count,
                                kind->least_in, kind->most_in);
  if (node->out_count < 1 || node->out_count > kind->most_out)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has %d outputs; here the operator makes 1 to %d", node->out_count,
                                kind->most_out);
  if ((!n->outputs[0] || !*n->outputs[0]) && kind->most_out != GCONV_ANY_NUMBER)
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has no name for its first output");
  for (int32_t i = 0; i < kind->least_in; i++)
    if (!gconv_onnx_has_input(n, i))
      return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "lacks its input %d", i);
  return GCONV_OK;
}

/* Sets in[] or out[] of a node to the numbers of its values. */
static gconv_status find_values(reading *r, char *const *names, int32_t count, int32_t *numbers) {
  for (int32_t i = 0; i < count; i++) {
    numbers[i] = -1;
    if (names[i] && *names[i])
      GCONV_TRY(find_value(r, names[i], &numbers[i]));
  }
  return GCONV_OK;
}

/* Notes that the node makes its outputs. Fails if another node makes one of them, too. */
static gconv_status claim_outputs(reading *r, const gconv_onnx_node *n, const gconv_graph_node *node, int32_t number) {
  for (int32_t i = 0; i < node->out_count; i++) {
    gconv_graph_value *value = node->out[i] >= 0 ? &r->graph->values[node->out[i]] : NULL;
    const bool joins = value && r->joins && value->other < 0; /* the other branch of an If makes it, too */
    if (value && ((value->maker >= 0 && !joins) || value->constant || value->input))
      return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "makes '%.80s', which the model has already", value->name);
    if (value)
      *(value->maker >= 0 ? &value->other : &value->maker) = number;
  }
  return GCONV_OK;
}

/* Reads the attributes. An error of a kind's parse() is a whole text of gconv_onnx_fail_node(), or the end of a sentence. */
static gconv_status parse(const gconv_onnx_node *n, const gconv_node_kind *kind, int32_t opset, void *settings) {
  const gconv_status status = kind->parse(n, kind, opset, settings);
  if (status == GCONV_OK || strncmp(gconv_last_error(), n->file->path, strlen(n->file->path)) == 0)
    return status;
  char text[1000];
  snprintf(text, sizeof text, "%s", gconv_last_error());
  return gconv_onnx_fail_node(n, status, "%s", text);
}

static gconv_status fill_node(reading *r, const gconv_onnx_node *n, const gconv_node_kind *kind, int32_t number) {
  gconv_graph_node *node = &r->graph->nodes[number];
  const char *output = gconv_onnx_output(n), *called = n->name && *n->name ? n->name : output ? output : "";
  node->kind = kind;
  node->branch = r->branch;
  node->in_count = count_names(n->inputs, n->input_count);
  node->out_count = kind->most_out == GCONV_ANY_NUMBER ? n->output_count : count_names(n->outputs, n->output_count);
  GCONV_TRY(check_counts(n, kind, node));
  GCONV_TRY(gconv_onnx_check_attributes(n, kind->rules, r->graph->opset));
  node->name = gconv_printable_copy(called, SHOWN_BYTES);
  node->in = calloc((size_t)node->in_count + 1, sizeof *node->in);
  node->out = calloc((size_t)node->out_count + 1, sizeof *node->out);
  if (!node->name || !node->in || !node->out)
    return no_memory(r);
  GCONV_TRY(gconv_allocate(kind->settings_bytes, "the settings of a node", &node->settings));
  memset(node->settings, 0, kind->settings_bytes);
  if (kind->parse)
    GCONV_TRY(parse(n, kind, (int32_t)r->graph->opset, node->settings));
  GCONV_TRY(find_values(r, n->inputs, node->in_count, node->in));
  GCONV_TRY(find_values(r, n->outputs, node->out_count, node->out));
  return claim_outputs(r, n, node, number);
}

static gconv_status take_node(void *context, const gconv_onnx_node *n);

/* An If while a branch of it is read. */
typedef struct choosing {
  reading *reading;
  const gconv_onnx_node *node;
  int results; /* of the branch, so far */
  bool second; /* the other branch was read before */
} choosing;

static gconv_status take_inner_node(void *context, const gconv_onnx_node *n) {
  return take_node(((choosing *)context)->reading, n);
}

static gconv_status take_inner_tensor(void *context, const gconv_onnx_tensor *tensor) {
  reading *r = ((choosing *)context)->reading;
  int32_t number;
  GCONV_TRY(find_value(r, tensor->name, &number));
  const gconv_graph_value *value = &r->graph->values[number];
  if (value->constant || value->input || value->maker >= 0)
    return gconv_onnx_fail_node(((choosing *)context)->node, GCONV_BAD_FILE,
                                "has a branch with two tensors of the same name");
  return read_tensor(r, tensor, &r->graph->values[number]);
}

/* Adds an Identity that makes an output of the If from a result of the branch. */
static gconv_status take_result(void *context, const char *name) {
  choosing *c = context;
  const int number = c->results++;
  if (number >= c->node->output_count || !c->node->outputs[number] || !*c->node->outputs[number])
    return GCONV_OK;
  const gconv_onnx_node copy = {.file = c->node->file,
                                .type = (char *)"Identity",
                                .name = c->node->name,
                                .inputs = (char *[]){(char *)name},
                                .outputs = &c->node->outputs[number],
                                .input_count = 1,
                                .output_count = 1};
  c->reading->joins = c->second;
  const gconv_status status = take_node(c->reading, &copy);
  c->reading->joins = false;
  return status;
}

/* Takes the nodes of both branches. */
static gconv_status take_if(reading *r, const gconv_onnx_node *n) {
  const char *called = n->name && *n->name ? n->name : gconv_onnx_output(n);
  const int32_t outer = r->branch;
  choosing c = {.reading = r, .node = n};
  const gconv_onnx_branch_taker take = {take_inner_node, take_inner_tensor, take_result, &c};
  int32_t condition;
  if (n->input_count != 1 || !gconv_onnx_has_input(n, 0))
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has %d inputs, and not one condition", n->input_count);
  GCONV_TRY(find_value(r, n->inputs[0], &condition));
  for (int i = 0; i < 2; i++) {
    gconv_graph *g = r->graph;
    gconv_graph_branch *branches = gconv_grown(g->branches, g->branch_count, sizeof *branches);
    if (!branches)
      return no_memory(r);
    g->branches = branches;
    branches[g->branch_count] = (gconv_graph_branch){.name = gconv_printable_copy(called ? called : "", SHOWN_BYTES),
                                                     .condition = condition,
                                                     .wanted = i,
                                                     .outer = outer};
    if (!branches[g->branch_count++].name)
      return no_memory(r);
    r->branch = (int32_t)g->branch_count;
    c.second = i == 1;
    c.results = 0;
    GCONV_TRY(gconv_onnx_branch_follow(r->model, n, gconv_graph_branch_names[i], &take, &r->called));
    if (c.results < n->output_count)
      return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has %d outputs, and a branch with %d", n->output_count, c.results);
    r->branch = outer;
  }
  return GCONV_OK;
}

static gconv_status take_node(void *context, const gconv_onnx_node *n) {
  reading *r = context;
  gconv_graph *g = r->graph;
  if (gconv_graph_is_operator(n, "Constant"))
    return take_constant(r, n);
  if (gconv_graph_is_operator(n, "If"))
    return take_if(r, n);
  if (g->node_count == GCONV_GRAPH_MOST_NODES)
    return gconv_fail(GCONV_TOO_LARGE, "%s: has more than %d nodes", r->file->path, GCONV_GRAPH_MOST_NODES);
  gconv_graph_node *nodes = gconv_grown(g->nodes, g->node_count, sizeof *nodes);
  if (!nodes)
    return no_memory(r);
  g->nodes = nodes;
  nodes[g->node_count] = (gconv_graph_node){0};
  return fill_node(r, n, gconv_graph_kind_of(n, r->graph->opset), (int32_t)g->node_count++);
}

/* ---- The model ---- */

/* Notes the type and shape that the file says of an input or output. */
static void note_shape(gconv_graph_value *value, const gconv_onnx_value *from, gconv_tensor_type type) {
  value->said = from->has_shape;
  value->tensor.type = type;
  value->tensor.axes = (int32_t)from->dimensions;
  memcpy(value->tensor.shape, from->sizes, from->dimensions * sizeof *from->sizes);
}

static gconv_status take_input(reading *r, const gconv_onnx_value *from) {
  gconv_graph *g = r->graph;
  const char *name = from->name ? from->name : "";
  gconv_tensor_type type;
  int32_t number;
  GCONV_TRY(find_value(r, name, &number));
  gconv_graph_value *value = &g->values[number];
  if (value->constant) /* old files list initialisers among the inputs */
    return GCONV_OK;
  if (value->input)
    return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: two inputs are called '%.80s'", r->file->path, name);
  if (from->type < 0)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: the input '%.80s' of the model is no tensor: sequences and optional inputs are not read",
                      r->file->path, name);
  if (!gconv_tensor_type_of_onnx(from->type == 0 ? GCONV_ONNX_FLOAT : from->type, &type, &value->tensor.narrow))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the input '%.80s' of the model has %s numbers, which are not read",
                      r->file->path, name, *gconv_onnx_type_name(from->type) ? gconv_onnx_type_name(from->type) : "unknown");
  if (from->dimensions > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the input '%.80s' of the model has %zu axes: there can be %d", r->file->path,
                      name, from->dimensions, GCONV_TENSOR_AXES);
  value->input = true;
  note_shape(value, from, type);
  g->inputs[g->input_count++] = number;
  return GCONV_OK;
}

/* Takes inputs in the order of the file: the model has them sorted by name. */
static gconv_status take_inputs(reading *r) {
  const size_t count = r->model->input_count;
  GCONV_FREED const gconv_onnx_value **order = calloc(count + 1, sizeof *order);
  r->graph->inputs = calloc(count + 1, sizeof *r->graph->inputs);
  if (!r->graph->inputs || !order)
    return no_memory(r);
  for (size_t i = 0; i < count; i++)
    order[r->model->inputs[i].number] = &r->model->inputs[i];
  for (size_t i = 0; i < count; i++)
    GCONV_TRY(take_input(r, order[i]));
  return GCONV_OK;
}

static gconv_status take_outputs(reading *r) {
  gconv_graph *g = r->graph;
  const size_t count = r->model->output_count;
  g->outputs = calloc(count + 1, sizeof *g->outputs);
  if (!g->outputs)
    return no_memory(r);
  for (size_t i = 0; i < count; i++) {
    const gconv_onnx_value *from = &r->model->outputs[i];
    int32_t *number = &g->outputs[g->output_count++];
    GCONV_TRY(find_value(r, from->name ? from->name : "", number));
    gconv_graph_value *value = &g->values[*number];
    gconv_tensor_type type;
    if (!value->constant && !value->input && from->dimensions <= GCONV_TENSOR_AXES &&
        gconv_tensor_type_of_onnx(from->type == 0 ? GCONV_ONNX_FLOAT : from->type, &type, NULL))
      note_shape(value, from, type);
  }
  return count > 0 ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: it has no output", r->file->path);
}

/* Notes which values are taken. Fails if nothing makes one of them. */
static gconv_status check_values(const reading *r) {
  const gconv_graph *g = r->graph;
  for (size_t i = 0; i < g->node_count; i++)
    for (int32_t k = 0; k < g->nodes[i].in_count; k++) {
      gconv_graph_value *v = g->nodes[i].in[k] >= 0 ? &g->values[g->nodes[i].in[k]] : NULL;
      if (v)
        v->taken = true;
      if (v && v->maker < 0 && !v->constant && !v->input)
        return gconv_fail(GCONV_BAD_FILE, "%s: node '%s' (%s) takes '%.80s', which nothing in the model makes", g->path,
                          g->nodes[i].name, g->nodes[i].kind->name, v->name);
    }
  for (size_t i = 0; i < g->branch_count; i++) {
    gconv_graph_value *v = &g->values[g->branches[i].condition];
    v->taken = true;
    if (v->maker < 0 && !v->constant && !v->input)
      return gconv_fail(GCONV_BAD_FILE, "%s: node '%s' (If) takes '%.80s', which nothing in the model makes", g->path,
                        g->branches[i].name, v->name);
  }
  for (size_t i = 0; i < g->output_count; i++) {
    gconv_graph_value *v = &g->values[g->outputs[i]];
    v->taken = true;
    if (v->maker < 0 && !v->constant && !v->input)
      return gconv_fail(GCONV_BAD_FILE, "%s: nothing in the model makes its output '%.80s'", g->path, v->name);
  }
  return GCONV_OK;
}

static gconv_status take_initialisers(reading *r) {
  for (size_t i = 0; i < r->model->tensor_count; i++) {
    const gconv_onnx_tensor *tensor = &r->model->tensors[i];
    int32_t number;
    if (tensor->constant)
      continue;
    GCONV_TRY(find_value(r, tensor->name, &number));
    GCONV_TRY(read_tensor(r, tensor, &r->graph->values[number]));
  }
  return GCONV_OK;
}

static gconv_status read_graph(reading *r) {
  GCONV_TRY(gconv_onnx_model_check(r->model));
  r->graph->opset = r->model->opset;
  r->graph->path = gconv_printable_copy(r->file->path, strlen(r->file->path));
  if (!r->graph->path)
    return no_memory(r);
  GCONV_TRY(gconv_graph_check_operators(r->model));
  GCONV_TRY(take_initialisers(r));
  GCONV_TRY(take_inputs(r));
  GCONV_TRY(gconv_onnx_model_follow(r->model, take_node, r));
  GCONV_TRY(take_outputs(r));
  GCONV_TRY(check_values(r));
  return gconv_graph_sort(r->graph);
}

gconv_status gconv_graph_read(gconv_bank_file *file, gconv_graph **graph) {
  reading r = {.file = file, .model = gconv_onnx_model_of(file)};
  GCONV_NEW(r.graph, 1, "%s: no memory for a graph", file->path);
  r.graph->head.free = gconv_graph_free;
  const gconv_status status = read_graph(&r);
  free(r.slots);
  if (status == GCONV_OK)
    *graph = r.graph;
  else
    gconv_graph_free(r.graph);
  return status;
}

void gconv_graph_free(gconv_graph *g) {
  if (!g)
    return;
  gconv_graph_free_calls(g);
  for (size_t i = 0; i < g->value_count; i++) {
    free(g->values[i].name);
    if (g->values[i].constant)
      gconv_release(g->values[i].tensor.data);
  }
  for (size_t i = 0; i < g->node_count; i++) {
    free(g->nodes[i].name);
    free(g->nodes[i].in);
    free(g->nodes[i].out);
    gconv_release(g->nodes[i].settings);
  }
  for (size_t i = 0; i < g->branch_count; i++)
    free(g->branches[i].name);
  free(g->branches);
  free(g->values);
  free(g->nodes);
  free(g->inputs);
  free(g->outputs);
  free(g->path);
  free(g->head.obstacle);
  free(g);
}

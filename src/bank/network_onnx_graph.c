/* SPDX-License-Identifier: MIT */
/* The graph of an ONNX model: its tensors, its input and output, and its nodes one after the other. */
#include "bank/network_onnx.h"
#include "base/memory.h"
#include "base/printable.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F = 2, ATTRIBUTE_I = 3, ATTRIBUTE_S = 4, ATTRIBUTE_T = 5, ATTRIBUTE_INTS = 8 };
enum { TENSOR_INT64_DATA = 7, TENSOR_RAW_DATA = 9, TENSOR_INT64 = 7 };
enum { SHOWN_BYTES = 80, MOST_USES = 64 /* of all weights, by the size of the file */ };

gconv_status gconv_onnx_no_memory(const gconv_onnx_graph *g) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", g->file->path);
}

static int compare_tensors(const void *a, const void *b) {
  return strcmp(((const gconv_onnx_tensor *)a)->name, ((const gconv_onnx_tensor *)b)->name);
}

const gconv_onnx_tensor *gconv_onnx_find_tensor(const gconv_onnx_graph *g, const char *name) {
  const gconv_onnx_tensor key = {.name = (char *)name};
  return name && *name && g->tensors ? bsearch(&key, g->tensors, g->tensor_count, sizeof key, compare_tensors) : NULL;
}

/* ---- Nodes ---- */

static void free_node(gconv_onnx_node *n) {
  for (size_t i = 0; i < n->attribute_count; i++) {
    free(n->attributes[i].name);
    free(n->attributes[i].text);
    free(n->attributes[i].tensor.name);
  }
  for (int i = 0; i < GCONV_ONNX_INPUTS; i++)
    free(n->inputs[i]);
  free(n->attributes);
  free(n->type);
  free(n->name);
  free(n->domain);
  free(n->output);
}

static gconv_status take_attribute_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_attribute *a = context;
  const uint32_t bits = (uint32_t)part->value;
  switch (part->number) {
  case ATTRIBUTE_NAME:
    return gconv_message_text(inside, part, &a->name);
  case ATTRIBUTE_S:
    return gconv_message_text(inside, part, &a->text);
  case ATTRIBUTE_F:
    if (part->wire == GCONV_WIRE_FIXED32)
      memcpy(&a->number, &bits, sizeof bits);
    return GCONV_OK;
  case ATTRIBUTE_T:
    return part->wire != GCONV_WIRE_BYTES || a->tensor.name ? GCONV_OK : gconv_onnx_tensor_find(inside, part, &a->tensor);
  case ATTRIBUTE_I:
  case ATTRIBUTE_INTS:
    return gconv_message_integers(inside, part, GCONV_ONNX_INTEGERS, a->integers, &a->count);
  default:
    return GCONV_OK;
  }
}

static gconv_status add_attribute(gconv_onnx_node *n, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_attribute *attributes = gconv_grown(n->attributes, n->attribute_count, sizeof *attributes);
  if (!attributes)
    return gconv_onnx_no_memory(n->graph);
  n->attributes = attributes;
  attributes[n->attribute_count] = (gconv_onnx_attribute){0};
  return gconv_message_each(gconv_message_inside(inside, part), take_attribute_field, &attributes[n->attribute_count++]);
}

static gconv_status take_node_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_node *n = context;
  switch (part->number) {
  case NODE_INPUT:
    return n->input_count == GCONV_ONNX_INPUTS ? GCONV_OK : gconv_message_text(inside, part, &n->inputs[n->input_count++]);
  case NODE_OUTPUT:
    return n->output ? GCONV_OK : gconv_message_text(inside, part, &n->output);
  case NODE_NAME:
    return gconv_message_text(inside, part, &n->name);
  case NODE_OP_TYPE:
    return gconv_message_text(inside, part, &n->type);
  case NODE_DOMAIN:
    return gconv_message_text(inside, part, &n->domain);
  case NODE_ATTRIBUTE:
    return part->wire == GCONV_WIRE_BYTES ? add_attribute(n, inside, part) : GCONV_OK;
  default:
    return GCONV_OK;
  }
}

const gconv_onnx_attribute *gconv_onnx_find_attribute(const gconv_onnx_node *n, const char *name) {
  for (size_t i = 0; i < n->attribute_count; i++)
    if (n->attributes[i].name && strcmp(n->attributes[i].name, name) == 0)
      return &n->attributes[i];
  return NULL;
}

int64_t gconv_onnx_integer_of(const gconv_onnx_node *n, const char *name, int64_t otherwise) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, name);
  return a && a->count > 0 ? a->integers[0] : otherwise;
}

float gconv_onnx_number_of(const gconv_onnx_node *n, const char *name, float otherwise) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, name);
  return a ? a->number : otherwise;
}

gconv_status gconv_onnx_fail_node(const gconv_onnx_node *n, gconv_status status, const char *format, ...) {
  char text[512];
  const char *called = n->name && *n->name ? n->name : n->output ? n->output : "";
  char *name = gconv_printable_copy(called, SHOWN_BYTES), *type = gconv_printable_copy(n->type ? n->type : "", SHOWN_BYTES);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  gconv_fail(status, "%s: node '%s' (%s) %s", n->graph->file->path, name ? name : "", type ? type : "", text);
  free(name);
  free(type);
  return status;
}
/* ---- The first reading: tensors, inputs and outputs ---- */

/* The list takes the tensor over; one without a name is dropped. */
static gconv_status add_tensor(gconv_onnx_graph *g, gconv_onnx_tensor *tensor) {
  bool named = tensor->name && *tensor->name;
  gconv_onnx_tensor *tensors = named ? gconv_grown(g->tensors, g->tensor_count, sizeof *tensors) : NULL;
  if (tensors) {
    g->tensors = tensors;
    tensors[g->tensor_count++] = *tensor;
  } else {
    free(tensor->name);
  }
  *tensor = (gconv_onnx_tensor){0};
  return tensors || !named ? GCONV_OK : gconv_onnx_no_memory(g);
}

static gconv_status add_constant(gconv_onnx_graph *g, gconv_message_reader inside) {
  gconv_onnx_node n = {.graph = g};
  gconv_status status = gconv_message_each(inside, take_node_field, &n);
  const gconv_onnx_attribute *found =
      status == GCONV_OK && n.type && strcmp(n.type, "Constant") == 0 ? gconv_onnx_find_attribute(&n, "value") : NULL;
  if (found && found->tensor.name && n.output) {
    gconv_onnx_tensor tensor = found->tensor;
    tensor.name = n.output; /* by which nodes know it */
    n.output = NULL;
    status = add_tensor(g, &tensor);
  }
  free_node(&n);
  return status;
}

static gconv_status take_dimension(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_value *v = context;
  (void)inside;
  if (part->number == 1 && part->wire == GCONV_WIRE_VARINT && v->dimensions <= 4)
    v->sizes[v->dimensions - 1] = part->value <= INT32_MAX ? (int64_t)part->value : 0;
  return GCONV_OK;
}

static gconv_status take_shape(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_value *v = context;
  if (part->number != 1 || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  v->dimensions++;
  return gconv_message_each(gconv_message_inside(inside, part), take_dimension, v);
}

static gconv_status take_tensor_type(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  return part->number == 2 && part->wire == GCONV_WIRE_BYTES
             ? gconv_message_each(gconv_message_inside(inside, part), take_shape, context)
             : GCONV_OK;
}

static gconv_status take_type(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  return part->number == 1 && part->wire == GCONV_WIRE_BYTES
             ? gconv_message_each(gconv_message_inside(inside, part), take_tensor_type, context)
             : GCONV_OK;
}

static gconv_status take_value_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_value *v = context;
  if (part->number == 1)
    return gconv_message_text(inside, part, &v->name);
  return part->number == 2 && part->wire == GCONV_WIRE_BYTES
             ? gconv_message_each(gconv_message_inside(inside, part), take_type, v)
             : GCONV_OK;
}

static gconv_status add_input(gconv_onnx_graph *g, gconv_message_reader inside) {
  gconv_onnx_value *inputs = gconv_grown(g->inputs, g->input_count, sizeof *inputs);
  if (!inputs)
    return gconv_onnx_no_memory(g);
  g->inputs = inputs;
  inputs[g->input_count] = (gconv_onnx_value){0};
  return gconv_message_each(inside, take_value_field, &inputs[g->input_count++]);
}

static gconv_status add_output(gconv_onnx_graph *g, gconv_message_reader inside) {
  free(g->output.name);
  g->output = (gconv_onnx_value){0};
  g->output_count++;
  return gconv_message_each(inside, take_value_field, &g->output);
}

static gconv_status collect(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_graph *g = context;
  if (part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  gconv_message_reader message = gconv_message_inside(inside, part);
  gconv_onnx_tensor tensor = {0};
  gconv_status status;
  switch (part->number) {
  case GRAPH_NODE:
    return add_constant(g, message);
  case GRAPH_INITIALIZER:
    status = gconv_onnx_tensor_find(inside, part, &tensor);
    if (status == GCONV_OK)
      return add_tensor(g, &tensor);
    free(tensor.name);
    return status;
  case GRAPH_INPUT:
    return add_input(g, message);
  case GRAPH_OUTPUT:
    return add_output(g, message);
  default:
    return GCONV_OK;
  }
}

static gconv_status check_ends(gconv_onnx_graph *g) {
  if (g->tensor_count > 0)
    qsort(g->tensors, g->tensor_count, sizeof *g->tensors, compare_tensors);
  for (size_t i = 0; i < g->input_count; i++) {
    if (gconv_onnx_find_tensor(g, g->inputs[i].name))
      continue;
    if (g->input)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has several inputs, so it is no chain of layers", g->file->path);
    g->input = &g->inputs[i];
  }
  if (!g->input || !g->input->name)
    return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: it has no input", g->file->path);
  if (g->output_count != 1 || !g->output.name)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has %zu outputs, so it is no chain of layers", g->file->path,
                      g->output_count);
  if (g->input->dimensions != 0 && g->input->dimensions != 2 && g->input->dimensions != 4)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: the input of the model has %zu dimensions: 4 are images, 2 are rows of a table", g->file->path,
                      g->input->dimensions);
  g->at = strdup(g->input->name);
  g->flat = g->input->dimensions == 2;
  g->channels = g->input->dimensions >= 2 ? g->input->sizes[1] : 0;
  g->height = g->input->dimensions == 4 ? g->input->sizes[2] : g->input->dimensions == 2;
  g->width = g->input->dimensions == 4 ? g->input->sizes[3] : g->input->dimensions == 2;
  g->network->height = g->height > 0 && g->width > 0 ? (int32_t)g->height : 0;
  g->network->width = g->height > 0 && g->width > 0 ? (int32_t)g->width : 0;
  return g->at ? GCONV_OK : gconv_onnx_no_memory(g);
}

/* ---- Numbers ---- */

static uint64_t count_numbers(const gconv_onnx_tensor *tensor) {
  uint64_t count = 1;
  for (size_t i = 0; i < tensor->dimensions && i < GCONV_BANK_DIMENSIONS; i++) {
    uint64_t size = tensor->shape[i] > 0 ? (uint64_t)tensor->shape[i] : 0;
    count = size > 0 && count > UINT64_MAX / size ? UINT64_MAX : count * size;
  }
  return count;
}

gconv_status gconv_onnx_find_constant(const gconv_onnx_node *n, int input, const char *what,
                                      const gconv_onnx_tensor **tensor) {
  *tensor = input < n->input_count ? gconv_onnx_find_tensor(n->graph, n->inputs[input]) : NULL;
  if (!*tensor)
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED, "takes its %s from what other nodes compute: only initialisers and Constants are read", what);
  if (!gconv_onnx_is_floating(*tensor) || (*tensor)->dimensions > GCONV_BANK_DIMENSIONS)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has %s that are not float, double, float16 or bfloat16", what);
  return GCONV_OK;
}

gconv_status gconv_onnx_read_numbers(gconv_onnx_graph *g, const gconv_onnx_node *n, const gconv_onnx_tensor *tensor,
                                     float **numbers) {
  const uint64_t count = count_numbers(tensor), size = g->file->source.size;
  void *memory = NULL;
  if (count == 0 || count > GCONV_BANK_MAX_WEIGHTS)
    return gconv_onnx_fail_node(n, GCONV_TOO_LARGE, "has a tensor of %" PRIu64 " numbers: there can be 1 to %d", count,
                                GCONV_BANK_MAX_WEIGHTS);
  g->claimed += tensor->external ? 0 : count;
  if (g->claimed / MOST_USES > size + (UINT64_C(1) << 18))
    return gconv_fail(GCONV_TOO_LARGE,
                      "%s: its nodes share weights so often that all together are more than %d times as large "
                      "as the file: that is the limit",
                      g->file->path, MOST_USES);
  GCONV_TRY(gconv_onnx_tensor_check(g->file, tensor, count));
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(float), "the weights of a layer", &memory));
  gconv_status status = gconv_onnx_tensor_read(g->file, tensor, (size_t)count, memory);
  if (status == GCONV_OK)
    *numbers = memory;
  else
    gconv_release(memory);
  return status;
}

gconv_status gconv_onnx_read_constant(gconv_onnx_graph *g, const gconv_onnx_node *n, int input, const char *what,
                                      int64_t count, float **numbers) {
  const gconv_onnx_tensor *tensor;
  GCONV_TRY(gconv_onnx_find_constant(n, input, what, &tensor));
  if (count_numbers(tensor) != (uint64_t)count)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has %" PRIu64 " numbers as %s, where %" PRId64 " are expected",
                                count_numbers(tensor), what, count);
  return gconv_onnx_read_numbers(g, n, tensor, numbers);
}

static gconv_status take_integers(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_integers *list = context;
  uint8_t bytes[8 * GCONV_ONNX_INTEGERS];
  if (part->number == TENSOR_INT64_DATA)
    return gconv_message_integers(inside, part, GCONV_ONNX_INTEGERS, list->numbers, &list->count);
  if (part->number != TENSOR_RAW_DATA || part->wire != GCONV_WIRE_BYTES || part->value > sizeof bytes)
    return GCONV_OK;
  GCONV_TRY(gconv_source_rewind(inside->source, part->at));
  GCONV_TRY(gconv_source_read_exactly(inside->source, bytes, (size_t)part->value, "a tensor"));
  for (list->count = 0; list->count < part->value / 8; list->count++)
    list->numbers[list->count] = (int64_t)gconv_bytes_number(bytes + 8 * list->count, 8, false);
  return GCONV_OK;
}

bool gconv_onnx_has_input(const gconv_onnx_node *n, int input) {
  return input < n->input_count && n->inputs[input] && *n->inputs[input];
}

gconv_status gconv_onnx_read_integers(gconv_onnx_graph *g, const gconv_onnx_node *n, int input, gconv_onnx_integers *list) {
  const gconv_onnx_tensor *tensor = gconv_onnx_has_input(n, input) ? gconv_onnx_find_tensor(g, n->inputs[input]) : NULL;
  *list = (gconv_onnx_integers){{0}, 0};
  if (!tensor || tensor->type != TENSOR_INT64)
    return GCONV_OK;
  return gconv_message_each((gconv_message_reader){&g->file->source, tensor->at, tensor->end}, take_integers, list);
}

/* ---- Reading the graph ---- */

/* What is done with the graph of a model. */
typedef struct reading {
  gconv_onnx_graph *graph;
  gconv_field_taker *take;
  gconv_onnx_taker *take_node; /* of the second reading */
  bool found;
} reading;

static gconv_status take_graph_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  reading *r = context;
  return collect(r->graph, inside, part);
}

static gconv_status follow(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  reading *r = context;
  gconv_onnx_node n = {.graph = r->graph};
  if (part->number != GRAPH_NODE || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  gconv_status status = gconv_message_each(gconv_message_inside(inside, part), take_node_field, &n);
  if (status == GCONV_OK)
    status = r->take_node(r->graph, &n);
  free_node(&n);
  return status;
}

static gconv_status take_model_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  reading *r = context;
  if (part->number != MODEL_GRAPH || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  r->found = true;
  return gconv_message_each(gconv_message_inside(inside, part), r->take, r);
}

static gconv_status read_model(reading r) {
  const gconv_bank_file *file = r.graph->file;
  GCONV_TRY(gconv_message_each((gconv_message_reader){&r.graph->file->source, 0, file->source.size}, take_model_field, &r));
  return r.found ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: it has no graph", file->path);
}

gconv_status gconv_onnx_graph_read(gconv_onnx_graph *graph) {
  GCONV_TRY(read_model((reading){.graph = graph, .take = take_graph_field}));
  return check_ends(graph);
}

gconv_status gconv_onnx_graph_follow(gconv_onnx_graph *graph, gconv_onnx_taker *take) {
  return read_model((reading){.graph = graph, .take = follow, .take_node = take});
}

void gconv_onnx_graph_free(gconv_onnx_graph *graph) {
  for (size_t i = 0; i < graph->tensor_count; i++)
    free(graph->tensors[i].name);
  for (size_t i = 0; i < graph->input_count; i++)
    free(graph->inputs[i].name);
  free(graph->output.name);
  free(graph->inputs);
  free(graph->tensors);
  free(graph->at);
}

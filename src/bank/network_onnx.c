/* SPDX-License-Identifier: MIT */
/* A whole ONNX model as a network, if its nodes are a chain from the graph's input to its output: each takes what the one
 * before it makes. Nodes that only compute at training time are passed over, and BatchNormalization is folded into the Conv
 * before it. The graph is read twice: first its tensors, which stand behind the nodes, then the nodes in their order. */
#include "bank/network_file.h"
#include "bank/onnx.h"
#include "base/memory.h"
#include "base/printable.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F = 2, ATTRIBUTE_I = 3, ATTRIBUTE_S = 4, ATTRIBUTE_T = 5, ATTRIBUTE_INTS = 8 };
enum { TENSOR_INT64_DATA = 7, TENSOR_RAW_DATA = 9, TENSOR_INT64 = 7 };
enum { INPUTS = 6, INTEGERS = 8, SHOWN_BYTES = 80, MOST_USES = 64 /* of all weights, by the size of the file */ };

/* ---- What is known of the model ---- */

/* An input or output of the graph; sizes that are not known are 0. */
typedef struct value {
  char *name; /* owned */
  int64_t sizes[4];
  size_t dimensions;
} value;

typedef struct graph {
  gconv_bank_file *file;
  gconv_onnx_tensor *tensors; /* initialisers and Constants; sorted by name in the second reading */
  size_t tensor_count;
  value *inputs, output; /* the last output */
  size_t input_count, output_count;
  const value *input; /* the only one that is no initialiser */
  gconv_network *network;
  char *at;                        /* what the node before makes; owned */
  int64_t channels, height, width; /* of that; height and width are 0 where they are not known */
  bool flat;                       /* it is N x (channels * height * width) */
  uint64_t claimed;                /* numbers that were read, all together */
} graph;

static gconv_status fail_memory(const graph *g) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", g->file->path);
}

static int compare_tensors(const void *a, const void *b) {
  return strcmp(((const gconv_onnx_tensor *)a)->name, ((const gconv_onnx_tensor *)b)->name);
}

static const gconv_onnx_tensor *find_tensor(const graph *g, const char *name) {
  const gconv_onnx_tensor key = {.name = (char *)name};
  return name && *name && g->tensors ? bsearch(&key, g->tensors, g->tensor_count, sizeof key, compare_tensors) : NULL;
}

/* ---- Nodes ---- */

typedef struct attribute {
  char *name, *text; /* owned */
  float number;
  int64_t integers[INTEGERS];
  size_t count;
  gconv_onnx_tensor tensor; /* its name is owned; NULL: there is none */
} attribute;

typedef struct node {
  const graph *graph;
  char *type, *name, *domain, *output, *inputs[INPUTS]; /* owned; each may be NULL */
  int input_count;
  attribute *attributes; /* owned */
  size_t attribute_count;
} node;

static void free_node(node *n) {
  for (size_t i = 0; i < n->attribute_count; i++) {
    free(n->attributes[i].name);
    free(n->attributes[i].text);
    free(n->attributes[i].tensor.name);
  }
  for (int i = 0; i < INPUTS; i++)
    free(n->inputs[i]);
  free(n->attributes);
  free(n->type);
  free(n->name);
  free(n->domain);
  free(n->output);
}

static gconv_status take_attribute_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  attribute *a = context;
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
    return gconv_message_integers(inside, part, INTEGERS, a->integers, &a->count);
  default:
    return GCONV_OK;
  }
}

static gconv_status add_attribute(node *n, const gconv_message_reader *inside, const gconv_field_value *part) {
  attribute *attributes = gconv_grown(n->attributes, n->attribute_count, sizeof *attributes);
  if (!attributes)
    return fail_memory(n->graph);
  n->attributes = attributes;
  attributes[n->attribute_count] = (attribute){0};
  return gconv_message_each(gconv_message_inside(inside, part), take_attribute_field, &attributes[n->attribute_count++]);
}

static gconv_status take_node_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  node *n = context;
  switch (part->number) {
  case NODE_INPUT:
    return n->input_count == INPUTS ? GCONV_OK : gconv_message_text(inside, part, &n->inputs[n->input_count++]);
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

static const attribute *find_attribute(const node *n, const char *name) {
  for (size_t i = 0; i < n->attribute_count; i++)
    if (n->attributes[i].name && strcmp(n->attributes[i].name, name) == 0)
      return &n->attributes[i];
  return NULL;
}

static int64_t integer_of(const node *n, const char *name, int64_t otherwise) {
  const attribute *a = find_attribute(n, name);
  return a && a->count > 0 ? a->integers[0] : otherwise;
}

static float number_of(const node *n, const char *name, float otherwise) {
  const attribute *a = find_attribute(n, name);
  return a ? a->number : otherwise;
}

/* "model.onnx: node 'Pad_3' (Pad) ..." */
static gconv_status fail_node(const node *n, gconv_status status, const char *format, ...) GCONV_PRINTF(3, 4);
static gconv_status fail_node(const node *n, gconv_status status, const char *format, ...) {
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
static gconv_status add_tensor(graph *g, gconv_onnx_tensor *tensor) {
  bool named = tensor->name && *tensor->name;
  gconv_onnx_tensor *tensors = named ? gconv_grown(g->tensors, g->tensor_count, sizeof *tensors) : NULL;
  if (tensors) {
    g->tensors = tensors;
    tensors[g->tensor_count++] = *tensor;
  } else {
    free(tensor->name);
  }
  *tensor = (gconv_onnx_tensor){0};
  return tensors || !named ? GCONV_OK : fail_memory(g);
}

static gconv_status add_constant(graph *g, gconv_message_reader inside) {
  node n = {.graph = g};
  gconv_status status = gconv_message_each(inside, take_node_field, &n);
  const attribute *found =
      status == GCONV_OK && n.type && strcmp(n.type, "Constant") == 0 ? find_attribute(&n, "value") : NULL;
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
  value *v = context;
  (void)inside;
  if (part->number == 1 && part->wire == GCONV_WIRE_VARINT && v->dimensions <= 4)
    v->sizes[v->dimensions - 1] = part->value <= INT32_MAX ? (int64_t)part->value : 0;
  return GCONV_OK;
}

static gconv_status take_shape(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  value *v = context;
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
  value *v = context;
  if (part->number == 1)
    return gconv_message_text(inside, part, &v->name);
  return part->number == 2 && part->wire == GCONV_WIRE_BYTES
             ? gconv_message_each(gconv_message_inside(inside, part), take_type, v)
             : GCONV_OK;
}

static gconv_status add_input(graph *g, gconv_message_reader inside) {
  value *inputs = gconv_grown(g->inputs, g->input_count, sizeof *inputs);
  if (!inputs)
    return fail_memory(g);
  g->inputs = inputs;
  inputs[g->input_count] = (value){0};
  return gconv_message_each(inside, take_value_field, &inputs[g->input_count++]);
}

static gconv_status add_output(graph *g, gconv_message_reader inside) {
  free(g->output.name);
  g->output = (value){0};
  g->output_count++;
  return gconv_message_each(inside, take_value_field, &g->output);
}

static gconv_status collect(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  graph *g = context;
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

static gconv_status check_ends(graph *g) {
  if (g->tensor_count > 0)
    qsort(g->tensors, g->tensor_count, sizeof *g->tensors, compare_tensors);
  for (size_t i = 0; i < g->input_count; i++) {
    if (find_tensor(g, g->inputs[i].name))
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
  return g->at ? GCONV_OK : fail_memory(g);
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

/* Finds input number `input` of a node, a constant of floating-point numbers. */
static gconv_status find_constant(const node *n, int input, const char *what, const gconv_onnx_tensor **tensor) {
  *tensor = input < n->input_count ? find_tensor(n->graph, n->inputs[input]) : NULL;
  if (!*tensor)
    return fail_node(n, GCONV_UNSUPPORTED,
                     "takes its %s from what other nodes compute: only initialisers and Constants are read", what);
  if (!gconv_onnx_is_floating(*tensor) || (*tensor)->dimensions > GCONV_BANK_DIMENSIONS)
    return fail_node(n, GCONV_UNSUPPORTED, "has %s that are not float, double, float16 or bfloat16", what);
  return GCONV_OK;
}

/* Reads all numbers of a tensor, for gconv_release(). Nodes may share tensors, but not so often that reading takes much
 * longer than the file is large. */
static gconv_status read_numbers(graph *g, const node *n, const gconv_onnx_tensor *tensor, float **numbers) {
  const uint64_t count = count_numbers(tensor), size = g->file->source.size;
  void *memory = NULL;
  if (count == 0 || count > GCONV_BANK_MAX_WEIGHTS)
    return fail_node(n, GCONV_TOO_LARGE, "has a tensor of %" PRIu64 " numbers: there can be 1 to %d", count,
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

/* Reads input number `input`, which must have this many numbers. */
static gconv_status read_constant(graph *g, const node *n, int input, const char *what, int64_t count, float **numbers) {
  const gconv_onnx_tensor *tensor;
  GCONV_TRY(find_constant(n, input, what, &tensor));
  if (count_numbers(tensor) != (uint64_t)count)
    return fail_node(n, GCONV_UNSUPPORTED, "has %" PRIu64 " numbers as %s, where %" PRId64 " are expected",
                     count_numbers(tensor), what, count);
  return read_numbers(g, n, tensor, numbers);
}

/* The integers of a small tensor, such as axes. */
typedef struct integers {
  int64_t numbers[INTEGERS];
  size_t count;
} integers;

static gconv_status take_integers(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  integers *list = context;
  uint8_t bytes[8 * INTEGERS];
  if (part->number == TENSOR_INT64_DATA)
    return gconv_message_integers(inside, part, INTEGERS, list->numbers, &list->count);
  if (part->number != TENSOR_RAW_DATA || part->wire != GCONV_WIRE_BYTES || part->value > sizeof bytes)
    return GCONV_OK;
  GCONV_TRY(gconv_source_rewind(inside->source, part->at));
  GCONV_TRY(gconv_source_read_exactly(inside->source, bytes, (size_t)part->value, "a tensor"));
  for (list->count = 0; list->count < part->value / 8; list->count++)
    list->numbers[list->count] = (int64_t)gconv_bytes_number(bytes + 8 * list->count, 8, false);
  return GCONV_OK;
}

/* ---- Layers ---- */

static gconv_status add_layer(graph *g, gconv_layer_kind kind, gconv_layer **layer) {
  gconv_network *network = g->network;
  if (network->count == GCONV_NETWORK_MAX_LAYERS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: the model has more than %d layers, which is the limit", g->file->path,
                      GCONV_NETWORK_MAX_LAYERS);
  network->layers[network->count] = (gconv_layer){.kind = kind};
  *layer = &network->layers[network->count++];
  if (kind == GCONV_LAYER_CONV)
    (*layer)->bank = &network->banks[network->count - 1];
  return GCONV_OK;
}

static gconv_bank *bank_of(graph *g, const gconv_layer *layer) {
  return &g->network->banks[layer - g->network->layers];
}

/* The last layer, if it has weights and no activation yet; else NULL. */
static gconv_layer *open_layer(const graph *g) {
  gconv_network *network = g->network;
  gconv_layer *last = network->count > 0 ? &network->layers[network->count - 1] : NULL;
  return last && last->kind == GCONV_LAYER_CONV && last->activation == GCONV_ACTIVATION_NONE ? last : NULL;
}

/* How many outputs an axis has; 0 where its size is not known, or too small. */
static int64_t outputs_of(int64_t size, int32_t taps, int32_t stride, int32_t dilation, int64_t pads, bool same) {
  int64_t extent = (int64_t)(taps - 1) * dilation + 1;
  if (size <= 0)
    return 0;
  return same ? (size - 1) / stride + 1 : size + pads < extent ? 0 : (size + pads - extent) / stride + 1;
}

/* Reads `count` integers of an attribute into `to`, if it is there. */
static gconv_status take_attribute(const node *n, const char *name, size_t count, int32_t least, int32_t *const to[]) {
  const attribute *a = find_attribute(n, name);
  if (a && a->count != count)
    return fail_node(n, GCONV_UNSUPPORTED, "has %zu numbers as %s: convolutions here have two dimensions", a->count, name);
  for (size_t i = 0; a && i < count; i++) {
    if (a->integers[i] < least || a->integers[i] > INT32_MAX)
      return fail_node(n, GCONV_BAD_FILE, "has the number %" PRId64 " as %s", a->integers[i], name);
    *to[i] = (int32_t)a->integers[i];
  }
  return GCONV_OK;
}

static gconv_status take_geometry(const node *n, gconv_layer *layer) {
  const attribute *automatic = find_attribute(n, "auto_pad");
  const char *text = automatic && automatic->text ? automatic->text : "NOTSET";
  layer->stride_y = layer->stride_x = layer->dilation_y = layer->dilation_x = layer->groups = 1;
  layer->padding = strcmp(text, "SAME_UPPER") == 0   ? GCONV_LAYER_SAME_UPPER
                   : strcmp(text, "SAME_LOWER") == 0 ? GCONV_LAYER_SAME_LOWER
                   : strcmp(text, "VALID") == 0      ? GCONV_LAYER_VALID
                                                     : GCONV_LAYER_EXPLICIT;
  GCONV_TRY(take_attribute(n, "strides", 2, 1, (int32_t *const[]){&layer->stride_y, &layer->stride_x}));
  GCONV_TRY(take_attribute(n, "dilations", 2, 1, (int32_t *const[]){&layer->dilation_y, &layer->dilation_x}));
  GCONV_TRY(take_attribute(n, "group", 1, 1, (int32_t *const[]){&layer->groups}));
  if (layer->padding == GCONV_LAYER_EXPLICIT)
    GCONV_TRY(take_attribute(n, "pads", 4, 0,
                             (int32_t *const[]){&layer->pad_top, &layer->pad_left, &layer->pad_bottom, &layer->pad_right}));
  return GCONV_OK;
}

/* Gives the last layer `count` biases. */
static gconv_status set_biases(graph *g, const node *n, gconv_layer *layer, int input) {
  gconv_bank *bank = bank_of(g, layer);
  float *numbers = NULL;
  GCONV_TRY(read_constant(g, n, input, "biases", bank->filters, &numbers));
  gconv_release(bank->biases);
  bank->biases = numbers;
  return GCONV_OK;
}

static bool has_input(const node *n, int input) {
  return input < n->input_count && n->inputs[input] && *n->inputs[input];
}

/* Makes the bank of a layer of numbers that it takes over. */
static gconv_status set_weights(graph *g, gconv_layer *layer, gconv_bank_shape shape, float *numbers) {
  gconv_bank *bank = bank_of(g, layer);
  gconv_status status = gconv_bank_check_shape(g->file->path, shape);
  char *name = status == GCONV_OK ? strdup("") : NULL;
  if (!name) {
    gconv_release(numbers);
    return status == GCONV_OK ? fail_memory(g) : status;
  }
  *bank = (gconv_bank){.name = name,
                       .filters = (int32_t)shape.filters,
                       .channels = (int32_t)shape.channels,
                       .rows = (int32_t)shape.rows,
                       .columns = (int32_t)shape.columns,
                       .weights = numbers};
  return GCONV_OK;
}

static gconv_status take_conv(graph *g, const node *n) {
  const gconv_onnx_tensor *weights;
  gconv_layer *layer = NULL;
  float *numbers = NULL;
  GCONV_TRY(find_constant(n, 1, "weights", &weights));
  if (weights->dimensions != 4 || g->flat)
    return fail_node(n, GCONV_UNSUPPORTED, "has weights of %zu dimensions: convolutions here have two", weights->dimensions);
  GCONV_TRY(add_layer(g, GCONV_LAYER_CONV, &layer));
  GCONV_TRY(take_geometry(n, layer));
  GCONV_TRY(read_numbers(g, n, weights, &numbers));
  const gconv_bank_shape shape = {(uint64_t)weights->shape[0], (uint64_t)weights->shape[1], (uint64_t)weights->shape[2],
                                  (uint64_t)weights->shape[3]};
  GCONV_TRY(set_weights(g, layer, shape, numbers));
  const gconv_bank *bank = layer->bank;
  if (g->channels == 0)
    g->channels = (int64_t)bank->channels * layer->groups;
  if (g->network->channels == 0)
    g->network->channels = g->channels <= INT32_MAX ? (int32_t)g->channels : 0;
  if ((int64_t)bank->channels * layer->groups != g->channels)
    return fail_node(n, GCONV_BAD_FILE, "takes %" PRId64 " channels, and gets %" PRId64,
                     (int64_t)bank->channels * layer->groups, g->channels);
  bool same = layer->padding == GCONV_LAYER_SAME_UPPER || layer->padding == GCONV_LAYER_SAME_LOWER;
  g->height = outputs_of(g->height, bank->rows, layer->stride_y, layer->dilation_y,
                         (int64_t)layer->pad_top + layer->pad_bottom, same);
  g->width = outputs_of(g->width, bank->columns, layer->stride_x, layer->dilation_x,
                        (int64_t)layer->pad_left + layer->pad_right, same);
  g->channels = bank->filters;
  return has_input(n, 2) ? set_biases(g, n, layer, 2) : GCONV_OK;
}

/* How `features` lie in the image that a dense layer gets: rows and columns. */
static gconv_status find_window(graph *g, const node *n, int64_t features, int64_t *rows, int64_t *columns) {
  if (g->channels == 0) { /* the first layer, of a model whose input has no shape */
    g->channels = features;
    g->height = g->width = 1;
  }
  if (g->network->channels == 0)
    g->network->channels = g->channels <= INT32_MAX ? (int32_t)g->channels : 0;
  int64_t pixels = features % g->channels == 0 ? features / g->channels : 0, side = (int64_t)(sqrt((double)pixels) + 0.5);
  *rows = g->height, *columns = g->width;
  if (*rows <= 0 || *columns <= 0)
    *rows = *columns = side; /* of an unknown size: a square */
  if (pixels > 0 && *rows * *columns == pixels && (g->flat || pixels == 1))
    return GCONV_OK;
  return fail_node(n, GCONV_UNSUPPORTED,
                   "takes %" PRId64 " numbers, and gets %" PRId64 " channels of %" PRId64 " x %" PRId64
                   " (0: not known): export the model with an input of fixed size",
                   features, g->channels, g->height, g->width);
}

/* A dense layer is a convolution of its whole input. `transposed`: weights are outputs x inputs. */
static gconv_status take_dense(graph *g, const node *n, bool transposed) {
  const gconv_onnx_tensor *weights;
  gconv_layer *layer = NULL;
  float *numbers = NULL, *turned = NULL;
  int64_t rows, columns;
  GCONV_TRY(find_constant(n, 1, "weights", &weights));
  if (weights->dimensions != 2)
    return fail_node(n, GCONV_UNSUPPORTED, "has weights of %zu dimensions, where 2 are expected", weights->dimensions);
  const int64_t outputs = weights->shape[transposed ? 0 : 1], features = weights->shape[transposed ? 1 : 0];
  GCONV_TRY(read_numbers(g, n, weights, &numbers));
  gconv_status status = find_window(g, n, features, &rows, &columns);
  if (status == GCONV_OK && !transposed) {
    void *memory = NULL;
    status = gconv_allocate((size_t)(outputs * features) * sizeof(float), "the weights of a layer", &memory);
    turned = memory;
    for (int64_t i = 0; status == GCONV_OK && i < outputs * features; i++)
      turned[i % outputs * features + i / outputs] = numbers[i];
    gconv_release(numbers);
    numbers = turned;
  }
  if (status == GCONV_OK)
    status = add_layer(g, GCONV_LAYER_CONV, &layer);
  if (status != GCONV_OK) {
    gconv_release(numbers);
    return status;
  }
  layer->padding = GCONV_LAYER_VALID;
  layer->stride_y = layer->stride_x = layer->dilation_y = layer->dilation_x = layer->groups = 1;
  const gconv_bank_shape shape = {(uint64_t)outputs, (uint64_t)g->channels, (uint64_t)rows, (uint64_t)columns};
  GCONV_TRY(set_weights(g, layer, shape, numbers));
  g->channels = outputs;
  g->height = g->width = 1;
  g->flat = true;
  return GCONV_OK;
}

static gconv_status take_gemm(graph *g, const node *n) {
  if (integer_of(n, "transA", 0) != 0 || number_of(n, "alpha", 1) != 1 || (has_input(n, 2) && number_of(n, "beta", 1) != 1))
    return fail_node(n, GCONV_UNSUPPORTED,
                     "turns its input or scales its product (transA, alpha, beta), which no layer does");
  GCONV_TRY(take_dense(g, n, integer_of(n, "transB", 0) != 0));
  return has_input(n, 2) ? set_biases(g, n, open_layer(g), 2) : GCONV_OK;
}

static gconv_status take_matmul(graph *g, const node *n) {
  return take_dense(g, n, false);
}

/* Biases of a MatMul or Conv before it, or the graph's input. */
static gconv_status take_add(graph *g, const node *n) {
  gconv_layer *layer = open_layer(g);
  const bool first = has_input(n, 0) && strcmp(n->inputs[0], g->at) == 0;
  const int other = first ? 1 : 0;
  if (has_input(n, other) && strcmp(n->inputs[other], g->input->name) == 0)
    return add_layer(g, GCONV_LAYER_RESIDUAL, &layer);
  if (!has_input(n, other) || !find_tensor(g, n->inputs[other]))
    return fail_node(n, GCONV_UNSUPPORTED,
                     "adds what neither is constant nor the input of the model, so the model is no chain of layers");
  if (!layer || layer->bank->biases)
    return fail_node(n, GCONV_UNSUPPORTED,
                     "adds a constant to what is not the sum of a Conv, Gemm or MatMul without biases");
  return set_biases(g, n, layer, other);
}

static gconv_status take_normalization(graph *g, const node *n) {
  static const char *const names[] = {"scales", "offsets", "means", "variances"};
  gconv_layer *layer = open_layer(g);
  float *parts[4] = {NULL, NULL, NULL, NULL};
  gconv_status status = GCONV_OK;
  if (!layer)
    return fail_node(n, GCONV_UNSUPPORTED, "follows no Conv or Gemm into which it could be folded");
  for (int i = 0; i < 4 && status == GCONV_OK; i++)
    status = read_constant(g, n, i + 1, names[i], layer->bank->filters, &parts[i]);
  if (status == GCONV_OK)
    status = gconv_bank_add_biases(bank_of(g, layer));
  if (status == GCONV_OK)
    gconv_bank_fold(bank_of(g, layer), parts[0], parts[1], parts[2], parts[3], (double)number_of(n, "epsilon", 1e-5F));
  for (int i = 0; i < 4; i++)
    gconv_release(parts[i]);
  return status;
}

/* ---- Nodes without weights ---- */

static gconv_status activate(graph *g, const node *n, gconv_activation activation, float slope) {
  gconv_layer *layer = open_layer(g);
  if (!layer)
    return fail_node(n, GCONV_UNSUPPORTED, "is an activation that does not follow a Conv, Gemm or MatMul");
  layer->activation = activation;
  layer->slope = slope;
  return GCONV_OK;
}

static gconv_status take_relu(graph *g, const node *n) {
  return activate(g, n, GCONV_ACTIVATION_RELU, 0);
}

static gconv_status take_leaky(graph *g, const node *n) {
  return activate(g, n, GCONV_ACTIVATION_LEAKY, number_of(n, "alpha", 0.01F));
}

static gconv_status take_sigmoid(graph *g, const node *n) {
  return activate(g, n, GCONV_ACTIVATION_SIGMOID, 0);
}

static gconv_status take_tanh(graph *g, const node *n) {
  return activate(g, n, GCONV_ACTIVATION_TANH, 0);
}

static gconv_status take_softmax(graph *g, const node *n) {
  int64_t axis = integer_of(n, "axis", g->flat ? -1 : 1);
  if (axis != 1 && axis != (g->flat ? -1 : -3))
    return fail_node(n, GCONV_UNSUPPORTED, "normalises along axis %" PRId64 ": here that is the channels, axis 1", axis);
  return activate(g, n, GCONV_ACTIVATION_SOFTMAX, 0);
}

static gconv_status take_nothing(graph *g, const node *n) {
  (void)g;
  (void)n;
  return GCONV_OK;
}

/* Reads the integers of input number `input`, a constant. */
static gconv_status read_integers(graph *g, const node *n, int input, integers *list) {
  const gconv_onnx_tensor *tensor = has_input(n, input) ? find_tensor(g, n->inputs[input]) : NULL;
  *list = (integers){{0}, 0};
  if (!tensor || tensor->type != TENSOR_INT64)
    return GCONV_OK;
  return gconv_message_each((gconv_message_reader){&g->file->source, tensor->at, tensor->end}, take_integers, list);
}

/* To N x features, which a dense layer takes. */
static gconv_status take_reshape(graph *g, const node *n) {
  integers shape;
  GCONV_TRY(read_integers(g, n, 1, &shape));
  if (shape.count != 2)
    return fail_node(n, GCONV_UNSUPPORTED, "makes no list of features of each image, images x features");
  g->flat = true;
  return GCONV_OK;
}

/* Behind a mean, it drops what is 1. */
static gconv_status take_squeeze(graph *g, const node *n) {
  if (g->height != 1 || g->width != 1)
    return fail_node(n, GCONV_UNSUPPORTED, "does not follow a mean over height and width");
  g->flat = true;
  return GCONV_OK;
}

static gconv_status take_flatten(graph *g, const node *n) {
  if (integer_of(n, "axis", 1) != 1)
    return fail_node(n, GCONV_UNSUPPORTED, "flattens from another axis than 1 on");
  g->flat = true;
  return GCONV_OK;
}

static gconv_status take_mean(graph *g, const node *n) {
  gconv_layer *layer = NULL;
  (void)n;
  GCONV_TRY(add_layer(g, GCONV_LAYER_MEAN, &layer));
  g->height = g->width = 1;
  return GCONV_OK;
}

static gconv_status take_reduce_mean(graph *g, const node *n) {
  integers axes;
  const attribute *given = find_attribute(n, "axes");
  GCONV_TRY(read_integers(g, n, 1, &axes));
  if (given && given->count <= INTEGERS) {
    axes.count = given->count;
    memcpy(axes.numbers, given->integers, sizeof axes.numbers);
  }
  int64_t low = axes.numbers[0] + (axes.numbers[0] < 0 ? 4 : 0), high = axes.numbers[1] + (axes.numbers[1] < 0 ? 4 : 0);
  if (axes.count != 2 || g->flat || !((low == 2 && high == 3) || (low == 3 && high == 2)))
    return fail_node(n, GCONV_UNSUPPORTED, "is no mean over height and width, axes 2 and 3");
  GCONV_TRY(take_mean(g, n));
  g->flat = integer_of(n, "keepdims", 1) == 0;
  return GCONV_OK;
}

/* ---- The second reading: the chain ---- */

static const struct op {
  const char *type;
  gconv_status (*take)(graph *g, const node *n);
} ops[] = {
    {"Conv", take_conv},
    {"Gemm", take_gemm},
    {"MatMul", take_matmul},
    {"Add", take_add},
    {"BatchNormalization", take_normalization},
    {"Relu", take_relu},
    {"LeakyRelu", take_leaky},
    {"Sigmoid", take_sigmoid},
    {"Tanh", take_tanh},
    {"Softmax", take_softmax},
    {"GlobalAveragePool", take_mean},
    {"ReduceMean", take_reduce_mean},
    {"Flatten", take_flatten},
    {"Reshape", take_reshape},
    {"Squeeze", take_squeeze},
    {"Dropout", take_nothing},
    {"Identity", take_nothing},
};

static gconv_status take_node(graph *g, const node *n) {
  const bool standard = !n->domain || !*n->domain || strcmp(n->domain, "ai.onnx") == 0;
  const struct op *op = NULL;
  if (!n->type)
    return fail_node(n, GCONV_BAD_FILE, "has no type");
  if (standard && strcmp(n->type, "Constant") == 0)
    return GCONV_OK;
  for (size_t i = 0; standard && i < sizeof ops / sizeof *ops; i++)
    op = strcmp(ops[i].type, n->type) == 0 ? &ops[i] : op;
  if (!op)
    return fail_node(n, GCONV_UNSUPPORTED,
                     "is none of what a network here has: Conv, Gemm, MatMul, Add, BatchNormalization, Relu, LeakyRelu, "
                     "Sigmoid, Tanh, Softmax, GlobalAveragePool, ReduceMean, Flatten, Reshape, Squeeze, Dropout, Identity; "
                     "its Conv nodes are banks, by name");
  bool takes = has_input(n, 0) && strcmp(n->inputs[0], g->at) == 0;
  takes = takes || (op->take == take_add && has_input(n, 1) && strcmp(n->inputs[1], g->at) == 0);
  if (!takes || !n->output)
    return fail_node(n, GCONV_UNSUPPORTED,
                     "does not take what the node before it makes, so the model is no chain of layers");
  GCONV_TRY(op->take(g, n));
  free(g->at);
  g->at = strdup(n->output);
  return g->at ? GCONV_OK : fail_memory(g);
}

static gconv_status follow(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  graph *g = context;
  node n = {.graph = g};
  if (part->number != GRAPH_NODE || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  gconv_status status = gconv_message_each(gconv_message_inside(inside, part), take_node_field, &n);
  if (status == GCONV_OK)
    status = take_node(g, &n);
  free_node(&n);
  return status;
}

/* What is done with the graph of a model. */
typedef struct reading {
  graph *graph;
  gconv_field_taker *take;
  bool found;
} reading;

static gconv_status take_model_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  reading *r = context;
  if (part->number != MODEL_GRAPH || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  r->found = true;
  return gconv_message_each(gconv_message_inside(inside, part), r->take, r->graph);
}

static gconv_status read_graph(graph *g, gconv_field_taker *take) {
  reading r = {g, take, false};
  GCONV_TRY(gconv_message_each((gconv_message_reader){&g->file->source, 0, g->file->source.size}, take_model_field, &r));
  return r.found ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: it has no graph", g->file->path);
}

static gconv_status read_chain(graph *g) {
  GCONV_TRY(read_graph(g, collect));
  GCONV_TRY(check_ends(g));
  g->network->layers = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *g->network->layers);
  g->network->banks = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *g->network->banks);
  if (!g->network->layers || !g->network->banks)
    return fail_memory(g);
  if (g->channels > 0)
    g->network->channels = (int32_t)g->channels;
  GCONV_TRY(read_graph(g, follow));
  if (g->network->count == 0 || strcmp(g->at, g->output.name) != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the nodes of the model do not lead from its input to its output in a chain",
                      g->file->path);
  if (g->network->channels == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model does not say how many channels its input has", g->file->path);
  for (size_t i = 0; i < g->network->count; i++)
    if (g->network->layers[i].bank)
      GCONV_TRY(gconv_bank_check_finite(g->file->path, GCONV_BAD_FILE, g->network->layers[i].bank));
  return gconv_network_check(g->file->path, GCONV_BAD_FILE, g->network);
}

gconv_status gconv_network_of_onnx(gconv_bank_file *file, gconv_network *network) {
  graph g = {.file = file, .network = network};
  gconv_status status = read_chain(&g);
  for (size_t i = 0; i < g.tensor_count; i++)
    free(g.tensors[i].name);
  for (size_t i = 0; i < g.input_count; i++)
    free(g.inputs[i].name);
  free(g.output.name);
  free(g.inputs);
  free(g.tensors);
  free(g.at);
  return status;
}

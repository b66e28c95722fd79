/* SPDX-License-Identifier: MIT */
/* A graph as a network of layers, if its nodes are a chain from the input to the output: each node takes what the node
 * before it makes. Such networks can be trained and written as layers. The reader of graphs (onnx.c) has checked the nodes
 * and their attributes. This file refuses what layers cannot do. */
#include "graph/chain.h"
#include "base/control.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  IMAGES = GCONV_CHAIN_IMAGES,
  ROWS = GCONV_CHAIN_ROWS,
  SQUEEZED = GCONV_CHAIN_SQUEEZED,
  UNSAID = GCONV_CHAIN_UNSAID,
  ANY = IMAGES | ROWS | SQUEEZED | UNSAID
};

/* An operator whose nodes can be a part of a chain, from opset `since` on. */
typedef struct operator_row {
  const char *type;
  uint64_t since;
  unsigned layouts; /* which layouts the tensor on the chain may have */
  gconv_chain_maker *make;
  unsigned flags;
} operator_row;
enum {
  EITHER_INPUT = 1, /* the tensor on the chain may also be its second input */
  AFTER_PAD = 2,    /* it may follow a Pad */
  HAS_FURTHER = 4   /* it has further outputs, which nothing needs */
};

/* ---- Activations ---- */

static gconv_status activate(gconv_chain *c, const gconv_onnx_node *n, gconv_activation activation, float slope) {
  gconv_layer *layer = gconv_network_open_layer(c->network);
  if (!layer)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is an activation that does not follow a Conv, Gemm or MatMul");
  if (!isfinite(slope))
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has a slope that is no finite number");
  layer->activation = activation;
  layer->slope = slope;
  return GCONV_OK;
}

static gconv_status make_relu(gconv_chain *c, const gconv_onnx_node *n) {
  return activate(c, n, GCONV_ACTIVATION_RELU, 0);
}

static gconv_status make_leaky(gconv_chain *c, const gconv_onnx_node *n) {
  return activate(c, n, GCONV_ACTIVATION_LEAKY, gconv_onnx_number_of(n, "alpha", 0.01F));
}

static gconv_status make_sigmoid(gconv_chain *c, const gconv_onnx_node *n) {
  return activate(c, n, GCONV_ACTIVATION_SIGMOID, 0);
}

static gconv_status make_tanh(gconv_chain *c, const gconv_onnx_node *n) {
  return activate(c, n, GCONV_ACTIVATION_TANH, 0);
}

/* A layer has softmax over its channels. From opset 13 on, softmax is over one axis; before, over all axes from `axis` on
 * together. */
static gconv_status make_softmax(gconv_chain *c, const gconv_onnx_node *n) {
  const bool one_axis = c->graph->opset >= 13, images = c->layout == GCONV_CHAIN_IMAGES;
  const int64_t axis = gconv_onnx_integer_of(n, "axis", one_axis ? -1 : 1), axes = images ? 4 : 2;
  const bool channels = axis == 1 || axis == 1 - axes;
  if (!channels || ((!one_axis || !images) && !gconv_chain_is_one_pixel(c)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                one_axis ? "normalises along axis %" PRId64 ": here that is the channels, axis 1"
                                         : "normalises along all axes from %" PRId64
                                           " on, as opsets below 13 do: here that is the channels alone, axis 1",
                                axis);
  return activate(c, n, GCONV_ACTIVATION_SOFTMAX, 0);
}

/* ---- Means over height and width ---- */

static gconv_status make_global_mean(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_layer *layer;
  c->height = c->width = 1;
  return gconv_network_append(c->network, n->file->path, &(gconv_layer){.kind = GCONV_LAYER_MEAN}, false, &layer);
}

/* True if the list is axes 2 and 3 of four; negative numbers count from the last axis. */
static bool are_height_and_width(const gconv_onnx_integers *axes) {
  const int64_t a = axes->numbers[0] + (axes->numbers[0] < 0 ? 4 : 0), b = axes->numbers[1] + (axes->numbers[1] < 0 ? 4 : 0);
  return axes->count == 2 && ((a == 2 && b == 3) || (a == 3 && b == 2));
}

static gconv_status make_reduce_mean(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_onnx_integers axes;
  bool given;
  GCONV_TRY(gconv_chain_read_list(c, n, "axes", 1, &axes, &given));
  if (!are_height_and_width(&axes))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is no mean over height and width, axes 2 and 3");
  GCONV_TRY(make_global_mean(c, n));
  if (gconv_onnx_integer_of(n, "keepdims", 1) == 0)
    c->layout = GCONV_CHAIN_ROWS;
  return GCONV_OK;
}

/* ---- Nodes that change only the shape ---- */

static gconv_status make_nothing(gconv_chain *c, const gconv_onnx_node *n) {
  return GCONV_OK;
}

/* Takes a Dropout, which does nothing unless it is in training mode. */
static gconv_status make_dropout(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_onnx_integers training;
  bool given;
  GCONV_TRY(gconv_chain_read_list(c, n, "training_mode", 2, &training, &given));
  if (given && (training.count != 1 || training.numbers[0] != 0))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is in training mode, in which it drops numbers at random");
  return GCONV_OK;
}

/* Takes a Reshape to N x features, if it is one for every input of the model. In its shape, 0 keeps the size of an axis, and
 * -1 is the size that is left. */
static gconv_status make_reshape(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_onnx_integers shape;
  bool given;
  GCONV_TRY(gconv_chain_read_list(c, n, "shape", 1, &shape, &given));
  const bool zeros = gconv_onnx_integer_of(n, "allowzero", 0) == 0;
  const int64_t rows = shape.numbers[0], columns = shape.numbers[1];
  const bool known =
      c->channels > 0 && c->height > 0 && c->width > 0 && c->height <= INT32_MAX / c->width && c->channels <= INT32_MAX;
  const int64_t features = known ? c->channels * c->height * c->width : 0;
  const bool keeps_rows = (rows == 0 && zeros) || (rows > 0 && rows == c->batch);
  const bool all_columns = (columns > 0 && columns == features) || (columns == 0 && zeros && c->layout == GCONV_CHAIN_ROWS);
  if (shape.count != 2 || !((keeps_rows && (columns == -1 || all_columns)) || (rows == -1 && all_columns)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "makes no list of features of each image, images x features, for every input");
  c->layout = GCONV_CHAIN_ROWS;
  return GCONV_OK;
}

/* Takes a Squeeze that drops height and width after a mean. If it does not name its axes, it drops all axes of size 1, also
 * the batch if that is one image. */
static gconv_status make_squeeze(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_onnx_integers axes;
  bool given;
  GCONV_TRY(gconv_chain_read_list(c, n, "axes", 1, &axes, &given));
  if (!gconv_chain_is_one_pixel(c) || (given ? !are_height_and_width(&axes) : c->channels < 2))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "does not drop height and width, axes 2 and 3, behind a mean over both");
  c->layout = given ? GCONV_CHAIN_ROWS : GCONV_CHAIN_SQUEEZED;
  return GCONV_OK;
}

static gconv_status make_flatten(gconv_chain *c, const gconv_onnx_node *n) {
  const int64_t axis = gconv_onnx_integer_of(n, "axis", 1);
  if (axis != 1 && axis != (c->layout == GCONV_CHAIN_IMAGES ? -3 : -1))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "flattens from another axis than 1 on");
  c->layout = GCONV_CHAIN_ROWS;
  return GCONV_OK;
}

/* ---- Mean and standard deviation, before the first layer ---- */

/* Copies the numbers of a Sub or Div, one for each channel of the input, into a list of the network. */
static gconv_status take_normalisation(gconv_chain *c, const gconv_onnx_node *n, float **list, int32_t *count) {
  gconv_network *network = c->network;
  float *numbers = NULL;
  if (network->count > 0 || *list || network->std || c->channels == 0)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is no mean and no standard deviation before the first layer");
  GCONV_TRY(gconv_chain_copy_added(c, n, 1, c->layout == GCONV_CHAIN_IMAGES ? 4 : 2, c->channels, &numbers));
  *list = malloc((size_t)c->channels * sizeof **list);
  if (*list)
    memcpy(*list, numbers, (size_t)c->channels * sizeof **list);
  gconv_release(numbers);
  *count = *list ? (int32_t)c->channels : 0;
  c->first = c->node->out[0];
  return *list ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", c->graph->path);
}

/* Means above 1 are for samples up to 255, but layers take samples from 0 to 1. A graph takes the numbers as they are. */
static gconv_status make_mean(gconv_chain *c, const gconv_onnx_node *n) {
  GCONV_TRY(take_normalisation(c, n, &c->network->mean, &c->network->mean_count));
  for (int32_t i = 0; i < c->network->mean_count; i++)
    if (!isfinite(c->network->mean[i]) || (c->layout == GCONV_CHAIN_IMAGES && fabsf(c->network->mean[i]) > 1))
      return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "subtracts numbers that are not means of samples from 0 to 1");
  return GCONV_OK;
}

static gconv_status make_deviation(gconv_chain *c, const gconv_onnx_node *n) {
  GCONV_TRY(take_normalisation(c, n, &c->network->std, &c->network->std_count));
  for (int32_t i = 0; i < c->network->std_count; i++)
    if (!isfinite(c->network->std[i]) || c->network->std[i] <= 0)
      return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "divides by numbers that are not standard deviations");
  return GCONV_OK;
}

/* ---- The table of operators ---- */

static const operator_row operators[] = {
    {"Conv", 1, IMAGES | UNSAID, gconv_chain_make_conv, AFTER_PAD},
    {"Pad", 1, IMAGES, gconv_chain_make_pad, 0},
    {"Gemm", 1, ROWS | SQUEEZED | UNSAID, gconv_chain_make_gemm, 0},
    {"MatMul", 1, ROWS, gconv_chain_make_matmul, 0},
    {"Add", 7, IMAGES | ROWS, gconv_chain_make_add, EITHER_INPUT},
    {"BatchNormalization", 1, IMAGES | ROWS, gconv_chain_make_normalization, 0},
    {"GlobalAveragePool", 1, IMAGES, make_global_mean, 0},
    {"ReduceMean", 1, IMAGES, make_reduce_mean, 0},
    {"Relu", 1, ANY, make_relu, 0},
    {"LeakyRelu", 1, ANY, make_leaky, 0},
    {"Sigmoid", 1, ANY, make_sigmoid, 0},
    {"Tanh", 1, ANY, make_tanh, 0},
    {"Softmax", 1, IMAGES | ROWS, make_softmax, 0},
    {"Flatten", 1, IMAGES | ROWS, make_flatten, 0},
    {"Reshape", 1, IMAGES | ROWS, make_reshape, 0},
    {"Squeeze", 1, IMAGES, make_squeeze, 0},
    {"Dropout", 1, ANY, make_dropout, AFTER_PAD | HAS_FURTHER},
    {"Identity", 1, ANY, make_nothing, AFTER_PAD},
    {"Sub", 7, IMAGES | ROWS, make_mean, 0},
    {"Div", 7, IMAGES | ROWS, make_deviation, 0},
};

/* Returns the row of a node's operator, or NULL. */
static const operator_row *find_operator(const gconv_chain *c) {
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    if (strcmp(operators[i].type, c->node->kind->name) == 0 && c->graph->opset >= operators[i].since)
      return &operators[i];
  return NULL;
}

/* ---- The chain ---- */

/* Fails unless the node continues the chain. */
static gconv_status check_node(const gconv_chain *c, const gconv_onnx_node *n, const operator_row *op) {
  static const char *const layouts[] = {[GCONV_CHAIN_IMAGES] = "images, N x C x H x W",
                                        [GCONV_CHAIN_ROWS] = "rows, N x features",
                                        [GCONV_CHAIN_SQUEEZED] = "a list that lost its axes of size 1",
                                        [GCONV_CHAIN_UNSAID] = "an input whose shape the model does not say"};
  const gconv_graph_node *node = c->node;
  if (!op)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is an operator of opset %" PRIu64 " that no layer of a chain does",
                                c->graph->opset);
  if (node->in[0] != c->at && !((op->flags & EITHER_INPUT) && node->in[1] == c->at))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "does not take what the node before it makes, so the model is no chain of layers");
  for (int32_t i = 1; i < node->out_count && !(op->flags & HAS_FURTHER); i++)
    if (node->out[i] >= 0)
      return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has a second output, '%.80s', as it has in training",
                                  n->outputs[i]);
  if (!(op->layouts & (unsigned)c->layout))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "gets %s, for which there is no such layer", layouts[c->layout]);
  if (c->padded && !(op->flags & AFTER_PAD))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "follows a Pad: in a chain of layers, only a Conv can follow a Pad");
  return GCONV_OK;
}

/* Takes the next node of the model. The graph has its nodes in another order only if the model is no chain. */
static gconv_status take_node(void *context, const gconv_onnx_node *n) {
  gconv_chain *c = context;
  GCONV_TRY(gconv_control_check());
  if (gconv_graph_is_operator(n, "Constant"))
    return GCONV_OK;
  c->node = &c->graph->nodes[c->followed++];
  const bool same = c->node->out[0] >= 0 && strcmp(c->graph->values[c->node->out[0]].name, gconv_onnx_output(n)) == 0;
  const operator_row *op = find_operator(c);
  if (!same)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "stands before nodes whose results it takes, or has branches");
  GCONV_TRY(check_node(c, n, op));
  GCONV_TRY(op->make(c, n));
  c->at = c->node->out[0];
  return GCONV_OK;
}

/* ---- The model's input and output ---- */

/* Takes shape and type of the model's input. Layers compute in float32, whatever floating-point type the input has. */
static gconv_status take_input(gconv_chain *c) {
  const gconv_graph *g = c->graph;
  if (g->input_count != 1 || g->output_count != 1)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has %zu input%s and %zu output%s, so it is no chain of layers",
                      g->path, g->input_count, g->input_count == 1 ? "" : "s", g->output_count,
                      g->output_count == 1 ? "" : "s");
  if (g->branch_count > 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has branches (If), so it is no chain of layers", g->path);
  c->at = c->first = g->inputs[0];
  c->input = &g->values[c->at];
  const gconv_tensor *in = &c->input->tensor;
  if (!gconv_tensor_type_is_real(in->type))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the input of the model has %s numbers, which no layer takes", g->path,
                      gconv_tensor_type_name(in->type));
  if (c->input->said && in->axes != 2 && in->axes != 4)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the input of the model has %d dimensions: 4 are images, 2 are rows of a table",
                      g->path, in->axes);
  const bool images = in->axes == 4, rows = in->axes == 2;
  c->layout = images ? GCONV_CHAIN_IMAGES : rows ? GCONV_CHAIN_ROWS : GCONV_CHAIN_UNSAID;
  c->batch = in->shape[0];
  c->channels = in->shape[1];
  c->height = images ? in->shape[2] : rows;
  c->width = images ? in->shape[3] : rows;
  c->network->channels = (int32_t)c->channels;
  c->network->height = c->height > 0 && c->width > 0 ? (int32_t)c->height : 0;
  c->network->width = c->height > 0 && c->width > 0 ? (int32_t)c->width : 0;
  return GCONV_OK;
}

gconv_status gconv_graph_read_chain(gconv_bank_file *file, const gconv_graph *graph, gconv_network *network, bool *rows) {
  gconv_chain c = {.graph = graph, .network = network};
  GCONV_TRY(take_input(&c));
  GCONV_TRY(gconv_onnx_model_follow(gconv_onnx_model_of(file), take_node, &c));
  *rows = c.layout == GCONV_CHAIN_ROWS;
  if (network->count == 0 || c.padded || c.at != graph->outputs[0])
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the nodes of the model do not lead from its input to its output in a chain",
                      graph->path);
  if (network->channels == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model does not say how many channels its input has", graph->path);
  return gconv_network_take_notes(file->path, gconv_onnx_model_of(file)->notes, c.channels, network);
}

/* SPDX-License-Identifier: MIT */
/* A whole ONNX model as a network, if its nodes are a chain from the graph's input to its output: each takes what the one
 * before it makes. Nodes that only compute at training time are passed over, and BatchNormalization is folded into the Conv
 * before it. */
#include "bank/network_onnx.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Layers ---- */

static gconv_status add_layer(gconv_onnx_graph *g, gconv_layer_kind kind, gconv_layer **layer) {
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

static gconv_bank *bank_of(gconv_onnx_graph *g, const gconv_layer *layer) {
  return &g->network->banks[layer - g->network->layers];
}

/* The last layer, if it has weights and no activation yet; else NULL. */
static gconv_layer *open_layer(const gconv_onnx_graph *g) {
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
static gconv_status take_attribute(const gconv_onnx_node *n, const char *name, size_t count, int32_t least,
                                   int32_t *const to[]) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, name);
  if (a && a->count != count)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has %zu numbers as %s: convolutions here have two dimensions",
                                a->count, name);
  for (size_t i = 0; a && i < count; i++) {
    if (a->integers[i] < least || a->integers[i] > INT32_MAX)
      return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has the number %" PRId64 " as %s", a->integers[i], name);
    *to[i] = (int32_t)a->integers[i];
  }
  return GCONV_OK;
}

static gconv_status take_geometry(const gconv_onnx_node *n, gconv_layer *layer) {
  const gconv_onnx_attribute *automatic = gconv_onnx_find_attribute(n, "auto_pad");
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
static gconv_status set_biases(gconv_onnx_graph *g, const gconv_onnx_node *n, gconv_layer *layer, int input) {
  gconv_bank *bank = bank_of(g, layer);
  float *numbers = NULL;
  GCONV_TRY(gconv_onnx_read_constant(g, n, input, "biases", bank->filters, &numbers));
  gconv_release(bank->biases);
  bank->biases = numbers;
  return GCONV_OK;
}
/* Makes the bank of a layer of numbers that it takes over. */
static gconv_status set_weights(gconv_onnx_graph *g, gconv_layer *layer, gconv_bank_shape shape, float *numbers) {
  gconv_bank *bank = bank_of(g, layer);
  gconv_status status = gconv_bank_check_shape(g->file->path, shape);
  char *name = status == GCONV_OK ? strdup("") : NULL;
  if (!name) {
    gconv_release(numbers);
    return status == GCONV_OK ? gconv_onnx_no_memory(g) : status;
  }
  *bank = (gconv_bank){.name = name,
                       .filters = (int32_t)shape.filters,
                       .channels = (int32_t)shape.channels,
                       .rows = (int32_t)shape.rows,
                       .columns = (int32_t)shape.columns,
                       .weights = numbers};
  return GCONV_OK;
}

/* The border of a Pad, by its attribute `mode` and its input of a constant. */
static gconv_status take_mode(gconv_onnx_graph *g, const gconv_onnx_node *n, gconv_layer *pad) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, "mode");
  const char *mode = a && a->text ? a->text : "constant";
  float *value = NULL;
  pad->border = strcmp(mode, "reflect") == 0 ? GCONV_BORDER_REFLECT101
                : strcmp(mode, "edge") == 0  ? GCONV_BORDER_REPLICATE
                : strcmp(mode, "wrap") == 0  ? GCONV_BORDER_WRAP
                                             : GCONV_BORDER_CONSTANT;
  if (pad->border != GCONV_BORDER_CONSTANT)
    return GCONV_OK;
  if (strcmp(mode, "constant") != 0)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "pads by a mode that is none of constant, reflect, edge and wrap");
  pad->border_value = (double)gconv_onnx_number_of(n, "value", 0);
  if (gconv_onnx_has_input(n, 2)) {
    GCONV_TRY(gconv_onnx_read_constant(g, n, 2, "value", 1, &value));
    pad->border_value = (double)*value;
    gconv_release(value);
  }
  if (pad->border_value == 0)
    pad->border = GCONV_BORDER_ZERO;
  return isfinite(pad->border_value) ? GCONV_OK
                                     : gconv_onnx_fail_node(n, GCONV_BAD_FILE, "pads by what is no finite number");
}

/* PyTorch writes a Conv2d whose padding_mode is none of zeros as a Pad of height and width, and a Conv without pads. */
static gconv_status take_pad(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_onnx_integers pads = {0};
  const gconv_onnx_attribute *given = gconv_onnx_find_attribute(n, "pads");
  if (!given)
    GCONV_TRY(gconv_onnx_read_integers(g, n, 1, &pads));
  if (given && given->count <= GCONV_ONNX_INTEGERS) {
    pads.count = given->count;
    memcpy(pads.numbers, given->integers, sizeof pads.numbers);
  }
  int32_t *const to[] = {NULL, NULL, &g->pad.pad_top, &g->pad.pad_left, NULL, NULL, &g->pad.pad_bottom, &g->pad.pad_right};
  bool good = pads.count == 8 && !g->padded && !g->flat && !gconv_onnx_has_input(n, 3);
  for (size_t i = 0; i < 8 && good; i++) {
    good = pads.numbers[i] >= 0 && pads.numbers[i] <= (to[i] ? INT32_MAX : 0);
    if (good && to[i])
      *to[i] = (int32_t)pads.numbers[i];
  }
  if (!good)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "does not pad height and width by constant numbers from 0 on, before a Conv");
  g->padded = true;
  return take_mode(g, n, &g->pad);
}

/* Gives the layer of a Conv the pads of the Pad before it. */
static gconv_status take_pads(gconv_onnx_graph *g, const gconv_onnx_node *n, gconv_layer *layer) {
  const bool none =
      layer->padding == GCONV_LAYER_VALID || (layer->padding == GCONV_LAYER_EXPLICIT && layer->pad_top == 0 &&
                                              layer->pad_left == 0 && layer->pad_bottom == 0 && layer->pad_right == 0);
  if (!g->padded)
    return GCONV_OK;
  if (!none)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "pads what a Pad before it has padded already");
  layer->padding = GCONV_LAYER_EXPLICIT;
  layer->pad_top = g->pad.pad_top, layer->pad_left = g->pad.pad_left;
  layer->pad_bottom = g->pad.pad_bottom, layer->pad_right = g->pad.pad_right;
  layer->border = g->pad.border;
  layer->border_value = g->pad.border_value;
  g->padded = false;
  return GCONV_OK;
}

static gconv_status take_conv(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  const gconv_onnx_tensor *weights;
  gconv_layer *layer = NULL;
  float *numbers = NULL;
  GCONV_TRY(gconv_onnx_find_constant(n, 1, "weights", &weights));
  if (weights->dimensions != 4 || g->flat)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has weights of %zu dimensions: convolutions here have two",
                                weights->dimensions);
  GCONV_TRY(add_layer(g, GCONV_LAYER_CONV, &layer));
  GCONV_TRY(take_geometry(n, layer));
  GCONV_TRY(take_pads(g, n, layer));
  GCONV_TRY(gconv_onnx_read_numbers(g, n, weights, &numbers));
  const gconv_bank_shape shape = {(uint64_t)weights->shape[0], (uint64_t)weights->shape[1], (uint64_t)weights->shape[2],
                                  (uint64_t)weights->shape[3]};
  GCONV_TRY(set_weights(g, layer, shape, numbers));
  const gconv_bank *bank = layer->bank;
  if (g->channels == 0)
    g->channels = (int64_t)bank->channels * layer->groups;
  if (g->network->channels == 0)
    g->network->channels = g->channels <= INT32_MAX ? (int32_t)g->channels : 0;
  if ((int64_t)bank->channels * layer->groups != g->channels)
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "takes %" PRId64 " channels, and gets %" PRId64,
                                (int64_t)bank->channels * layer->groups, g->channels);
  bool same = layer->padding == GCONV_LAYER_SAME_UPPER || layer->padding == GCONV_LAYER_SAME_LOWER;
  g->height = outputs_of(g->height, bank->rows, layer->stride_y, layer->dilation_y,
                         (int64_t)layer->pad_top + layer->pad_bottom, same);
  g->width = outputs_of(g->width, bank->columns, layer->stride_x, layer->dilation_x,
                        (int64_t)layer->pad_left + layer->pad_right, same);
  g->channels = bank->filters;
  return gconv_onnx_has_input(n, 2) ? set_biases(g, n, layer, 2) : GCONV_OK;
}

/* How `features` lie in the image that a dense layer gets: rows and columns. */
static gconv_status find_window(gconv_onnx_graph *g, const gconv_onnx_node *n, int64_t features, int64_t *rows,
                                int64_t *columns) {
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
  return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                              "takes %" PRId64 " numbers, and gets %" PRId64 " channels of %" PRId64 " x %" PRId64
                              " (0: not known): export the model with an input of fixed size",
                              features, g->channels, g->height, g->width);
}

/* A dense layer is a convolution of its whole input. `transposed`: weights are outputs x inputs. */
static gconv_status take_dense(gconv_onnx_graph *g, const gconv_onnx_node *n, bool transposed) {
  const gconv_onnx_tensor *weights;
  gconv_layer *layer = NULL;
  float *numbers = NULL, *turned = NULL;
  int64_t rows, columns;
  GCONV_TRY(gconv_onnx_find_constant(n, 1, "weights", &weights));
  if (weights->dimensions != 2)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has weights of %zu dimensions, where 2 are expected",
                                weights->dimensions);
  const int64_t outputs = weights->shape[transposed ? 0 : 1], features = weights->shape[transposed ? 1 : 0];
  GCONV_TRY(gconv_onnx_read_numbers(g, n, weights, &numbers));
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

static gconv_status take_gemm(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  if (gconv_onnx_integer_of(n, "transA", 0) != 0 || gconv_onnx_number_of(n, "alpha", 1) != 1 ||
      (gconv_onnx_has_input(n, 2) && gconv_onnx_number_of(n, "beta", 1) != 1))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "turns its input or scales its product (transA, alpha, beta), which no layer does");
  GCONV_TRY(take_dense(g, n, gconv_onnx_integer_of(n, "transB", 0) != 0));
  return gconv_onnx_has_input(n, 2) ? set_biases(g, n, open_layer(g), 2) : GCONV_OK;
}

static gconv_status take_matmul(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return take_dense(g, n, false);
}

/* Biases of a MatMul or Conv before it, or the graph's input. */
static gconv_status take_add(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_layer *layer = open_layer(g);
  const bool first = gconv_onnx_has_input(n, 0) && strcmp(n->inputs[0], g->at) == 0;
  const int other = first ? 1 : 0;
  if (gconv_onnx_has_input(n, other) && strcmp(n->inputs[other], g->input->name) == 0)
    return add_layer(g, GCONV_LAYER_RESIDUAL, &layer);
  if (!gconv_onnx_has_input(n, other) || !gconv_onnx_find_tensor(g, n->inputs[other]))
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED,
        "adds what neither is constant nor the input of the model, so the model is no chain of layers");
  if (!layer || layer->bank->biases)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "adds a constant to what is not the sum of a Conv, Gemm or MatMul without biases");
  return set_biases(g, n, layer, other);
}

static gconv_status take_normalization(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  static const char *const names[] = {"scales", "offsets", "means", "variances"};
  gconv_layer *layer = open_layer(g);
  float *parts[4] = {NULL, NULL, NULL, NULL};
  gconv_status status = GCONV_OK;
  if (!layer)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "follows no Conv or Gemm into which it could be folded");
  for (int i = 0; i < 4 && status == GCONV_OK; i++)
    status = gconv_onnx_read_constant(g, n, i + 1, names[i], layer->bank->filters, &parts[i]);
  if (status == GCONV_OK)
    status = gconv_bank_add_biases(bank_of(g, layer));
  if (status == GCONV_OK)
    gconv_bank_fold(bank_of(g, layer), parts[0], parts[1], parts[2], parts[3],
                    (double)gconv_onnx_number_of(n, "epsilon", 1e-5F));
  for (int i = 0; i < 4; i++)
    gconv_release(parts[i]);
  return status;
}

/* ---- Nodes without weights ---- */

static gconv_status activate(gconv_onnx_graph *g, const gconv_onnx_node *n, gconv_activation activation, float slope) {
  gconv_layer *layer = open_layer(g);
  if (!layer)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is an activation that does not follow a Conv, Gemm or MatMul");
  layer->activation = activation;
  layer->slope = slope;
  return GCONV_OK;
}

static gconv_status take_relu(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return activate(g, n, GCONV_ACTIVATION_RELU, 0);
}

static gconv_status take_leaky(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return activate(g, n, GCONV_ACTIVATION_LEAKY, gconv_onnx_number_of(n, "alpha", 0.01F));
}

static gconv_status take_sigmoid(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return activate(g, n, GCONV_ACTIVATION_SIGMOID, 0);
}

static gconv_status take_tanh(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return activate(g, n, GCONV_ACTIVATION_TANH, 0);
}

static gconv_status take_softmax(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  int64_t axis = gconv_onnx_integer_of(n, "axis", g->flat ? -1 : 1);
  if (axis != 1 && axis != (g->flat ? -1 : -3))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "normalises along axis %" PRId64 ": here that is the channels, axis 1",
                                axis);
  return activate(g, n, GCONV_ACTIVATION_SOFTMAX, 0);
}

static gconv_status take_nothing(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  (void)g;
  (void)n;
  return GCONV_OK;
}
/* To N x features, which a dense layer takes. */
static gconv_status take_reshape(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_onnx_integers shape;
  GCONV_TRY(gconv_onnx_read_integers(g, n, 1, &shape));
  if (shape.count != 2)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "makes no list of features of each image, images x features");
  g->flat = true;
  return GCONV_OK;
}

/* Behind a mean, it drops what is 1. */
static gconv_status take_squeeze(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  if (g->height != 1 || g->width != 1)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "does not follow a mean over height and width");
  g->flat = true;
  return GCONV_OK;
}

static gconv_status take_flatten(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  if (gconv_onnx_integer_of(n, "axis", 1) != 1)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "flattens from another axis than 1 on");
  g->flat = true;
  return GCONV_OK;
}

static gconv_status take_mean(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_layer *layer = NULL;
  (void)n;
  GCONV_TRY(add_layer(g, GCONV_LAYER_MEAN, &layer));
  g->height = g->width = 1;
  return GCONV_OK;
}

static gconv_status take_reduce_mean(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_onnx_integers axes;
  const gconv_onnx_attribute *given = gconv_onnx_find_attribute(n, "axes");
  GCONV_TRY(gconv_onnx_read_integers(g, n, 1, &axes));
  if (given && given->count <= GCONV_ONNX_INTEGERS) {
    axes.count = given->count;
    memcpy(axes.numbers, given->integers, sizeof axes.numbers);
  }
  int64_t low = axes.numbers[0] + (axes.numbers[0] < 0 ? 4 : 0), high = axes.numbers[1] + (axes.numbers[1] < 0 ? 4 : 0);
  if (axes.count != 2 || g->flat || !((low == 2 && high == 3) || (low == 3 && high == 2)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is no mean over height and width, axes 2 and 3");
  GCONV_TRY(take_mean(g, n));
  g->flat = gconv_onnx_integer_of(n, "keepdims", 1) == 0;
  return GCONV_OK;
}

/* ---- The second reading: the chain ---- */

static const struct op {
  const char *type;
  gconv_status (*take)(gconv_onnx_graph *g, const gconv_onnx_node *n);
} ops[] = {
    {"Conv", take_conv},
    {"Pad", take_pad},
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

static gconv_status take_node(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  const bool standard = !n->domain || !*n->domain || strcmp(n->domain, "ai.onnx") == 0;
  const struct op *op = NULL;
  if (!n->type)
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has no type");
  if (standard && strcmp(n->type, "Constant") == 0)
    return GCONV_OK;
  for (size_t i = 0; standard && i < sizeof ops / sizeof *ops; i++)
    op = strcmp(ops[i].type, n->type) == 0 ? &ops[i] : op;
  if (!op)
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED,
        "is none of what a network here has: Conv, Pad, Gemm, MatMul, Add, BatchNormalization, Relu, LeakyRelu, "
        "Sigmoid, Tanh, Softmax, GlobalAveragePool, ReduceMean, Flatten, Reshape, Squeeze, Dropout, Identity; "
        "its Conv nodes are banks, by name");
  bool takes = gconv_onnx_has_input(n, 0) && strcmp(n->inputs[0], g->at) == 0;
  takes = takes || (op->take == take_add && gconv_onnx_has_input(n, 1) && strcmp(n->inputs[1], g->at) == 0);
  if (!takes || !n->output)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "does not take what the node before it makes, so the model is no chain of layers");
  if (g->padded && op->take != take_conv && op->take != take_nothing)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "follows a Pad, which a network here has before a Conv alone");
  GCONV_TRY(op->take(g, n));
  free(g->at);
  g->at = strdup(n->output);
  return g->at ? GCONV_OK : gconv_onnx_no_memory(g);
}

static gconv_status read_chain(gconv_onnx_graph *g) {
  GCONV_TRY(gconv_onnx_graph_read(g));
  g->network->layers = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *g->network->layers);
  g->network->banks = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *g->network->banks);
  if (!g->network->layers || !g->network->banks)
    return gconv_onnx_no_memory(g);
  if (g->channels > 0)
    g->network->channels = (int32_t)g->channels;
  GCONV_TRY(gconv_onnx_graph_follow(g, take_node));
  if (g->network->count == 0 || g->padded || strcmp(g->at, g->output.name) != 0)
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
  gconv_onnx_graph g = {.file = file, .network = network};
  gconv_status status = read_chain(&g);
  gconv_onnx_graph_free(&g);
  return status;
}

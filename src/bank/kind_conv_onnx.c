/* SPDX-License-Identifier: MIT */
/* Nodes of ONNX models that become convolutions: Conv with a Pad before it, Gemm and MatMul. Add and BatchNormalization are
 * folded into them. */
#include "bank/onnx_rows.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gconv_bank *bank_of(gconv_onnx_graph *g, const gconv_layer *layer) {
  return &g->network->banks[layer - g->network->layers];
}

/* ---- Pad ---- */

/* Sets the border of a Pad from its attribute `mode` and its constant value. */
static gconv_status take_mode(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  static const struct {
    const char *mode;
    gconv_border border;
    uint64_t since;
  } modes[] = {{"constant", GCONV_BORDER_CONSTANT, 2},
               {"reflect", GCONV_BORDER_REFLECT101, 2},
               {"edge", GCONV_BORDER_REPLICATE, 2},
               {"wrap", GCONV_BORDER_WRAP, 19}};
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, "mode");
  const char *mode = !a ? "constant" : a->text ? a->text : "";
  gconv_layer *pad = &g->pad;
  float *value = NULL;
  size_t i = 0;
  while (i < 4 && (strcmp(mode, modes[i].mode) != 0 || g->model->opset < modes[i].since))
    i++;
  if (i == 4)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "pads by a mode that is none of constant, reflect, edge and, from opset 19 on, wrap");
  pad->border = modes[i].border;
  if (pad->border != GCONV_BORDER_CONSTANT)
    return GCONV_OK;
  pad->border_value = (double)gconv_onnx_number_of(n, "value", 0);
  if (gconv_onnx_has_input(n, 2)) {
    const gconv_onnx_tensor *tensor;
    GCONV_TRY(gconv_onnx_find_constant(g, n, 2, "value", &tensor));
    if (gconv_onnx_count_numbers(tensor) != 1)
      return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "pads by %" PRIu64 " numbers: there is one",
                                  gconv_onnx_count_numbers(tensor));
    GCONV_TRY(gconv_onnx_read_numbers(g, n, tensor, &value));
    pad->border_value = (double)*value;
    gconv_release(value);
  }
  if (pad->border_value == 0)
    pad->border = GCONV_BORDER_ZERO;
  return isfinite(pad->border_value) ? GCONV_OK
                                     : gconv_onnx_fail_node(n, GCONV_BAD_FILE, "pads by what is no finite number");
}

/* PyTorch writes a Conv2d whose padding_mode is not zeros as a Pad of height and width, and a Conv without pads. */
static gconv_status make_pad(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_onnx_integers pads;
  bool given;
  GCONV_TRY(gconv_onnx_read_list(g, n, "pads", 1, &pads, &given));
  int32_t *const to[] = {NULL, NULL, &g->pad.pad_top, &g->pad.pad_left, NULL, NULL, &g->pad.pad_bottom, &g->pad.pad_right};
  bool good = pads.count == 8 && !gconv_onnx_has_input(n, 3);
  for (size_t i = 0; i < 8 && good; i++) {
    good = pads.numbers[i] >= 0 && pads.numbers[i] <= (to[i] ? INT32_MAX : 0);
    if (good && to[i])
      *to[i] = (int32_t)pads.numbers[i];
  }
  if (!good)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "does not pad height and width by constant numbers from 0 on, before a Conv");
  g->padded = true;
  return take_mode(g, n);
}

/* Gives the layer of a Conv the pads of the Pad before it. */
static gconv_status take_pads(gconv_onnx_graph *g, const gconv_onnx_node *n, gconv_layer *layer) {
  if (!g->padded)
    return GCONV_OK;
  if (layer->padding != GCONV_LAYER_EXPLICIT || layer->pad_top || layer->pad_left || layer->pad_bottom || layer->pad_right)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "pads what a Pad before it has padded already");
  layer->pad_top = g->pad.pad_top, layer->pad_left = g->pad.pad_left;
  layer->pad_bottom = g->pad.pad_bottom, layer->pad_right = g->pad.pad_right;
  layer->border = g->pad.border;
  layer->border_value = g->pad.border_value;
  g->padded = false;
  return GCONV_OK;
}

/* ---- Conv ---- */

/* Returns how many outputs an axis has; 0 if its size is not known, or too small. */
static int64_t outputs_of(int64_t size, int32_t taps, int32_t stride, int32_t dilation, int64_t pads, bool same) {
  int64_t extent = (int64_t)(taps - 1) * dilation + 1;
  if (size <= 0)
    return 0;
  return same ? (size - 1) / stride + 1 : size + pads < extent ? 0 : (size + pads - extent) / stride + 1;
}

static gconv_status take_geometry(const gconv_onnx_node *n, const gconv_bank *shape, gconv_layer *layer) {
  gconv_bank g = {.filters = shape->filters, .rows = shape->rows, .columns = shape->columns};
  GCONV_TRY(gconv_onnx_read_geometry(n, &g));
  layer->stride_y = g.stride_y, layer->stride_x = g.stride_x;
  layer->dilation_y = g.dilation_y, layer->dilation_x = g.dilation_x;
  layer->groups = g.groups;
  layer->padding = g.same_upper ? GCONV_LAYER_SAME_UPPER : g.same_lower ? GCONV_LAYER_SAME_LOWER : GCONV_LAYER_EXPLICIT;
  layer->pad_top = g.pad_top, layer->pad_left = g.pad_left;
  layer->pad_bottom = g.pad_bottom, layer->pad_right = g.pad_right;
  return GCONV_OK;
}

/* Gives a layer its bank, which takes ownership of `numbers`. */
static gconv_status set_weights(gconv_onnx_graph *g, gconv_layer *layer, gconv_bank_shape shape, float *numbers) {
  gconv_bank *bank = bank_of(g, layer);
  gconv_status status = gconv_bank_check_shape(g->model->file->path, shape);
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

/* Gives the layer the biases in input number 2 of the node, if there are any. */
static gconv_status take_biases(gconv_onnx_graph *g, const gconv_onnx_node *n, gconv_layer *layer) {
  gconv_bank *bank = bank_of(g, layer);
  return gconv_onnx_has_input(n, 2) ? gconv_onnx_read_floats(g, n, 2, "biases", bank->filters, &bank->biases) : GCONV_OK;
}

/* Fails unless a layer that takes `channels` channels gets this number. If the model does not say the number, `channels` is
 * taken. */
static gconv_status check_channels(gconv_onnx_graph *g, const gconv_onnx_node *n, int64_t channels) {
  if (g->channels == 0)
    g->channels = channels;
  if (g->network->channels == 0)
    g->network->channels = g->channels <= INT32_MAX ? (int32_t)g->channels : 0;
  return channels == g->channels ? GCONV_OK
                                 : gconv_onnx_fail_node(n, GCONV_BAD_FILE, "takes %" PRId64 " channels, and gets %" PRId64,
                                                        channels, g->channels);
}

static gconv_status make_conv(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  const gconv_onnx_tensor *weights;
  gconv_layer *layer = NULL;
  float *numbers = NULL;
  GCONV_TRY(gconv_onnx_find_constant(g, n, 1, "weights", &weights));
  if (weights->dimensions != 4)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has weights of %zu dimensions: convolutions here have two",
                                weights->dimensions);
  GCONV_TRY(gconv_onnx_read_numbers(g, n, weights, &numbers));
  const gconv_bank_shape shape = {(uint64_t)weights->shape[0], (uint64_t)weights->shape[1], (uint64_t)weights->shape[2],
                                  (uint64_t)weights->shape[3]};
  gconv_status status = gconv_network_append(g->network, n->file->path, &(gconv_layer){0}, true, &layer);
  if (status != GCONV_OK) {
    gconv_release(numbers);
    return status;
  }
  GCONV_TRY(set_weights(g, layer, shape, numbers));
  const gconv_bank *bank = layer->bank;
  GCONV_TRY(take_geometry(n, bank, layer));
  GCONV_TRY(take_pads(g, n, layer));
  GCONV_TRY(check_channels(g, n, (int64_t)bank->channels * layer->groups));
  bool same = layer->padding != GCONV_LAYER_EXPLICIT;
  g->height = outputs_of(g->height, bank->rows, layer->stride_y, layer->dilation_y,
                         (int64_t)layer->pad_top + layer->pad_bottom, same);
  g->width = outputs_of(g->width, bank->columns, layer->stride_x, layer->dilation_x,
                        (int64_t)layer->pad_left + layer->pad_right, same);
  g->channels = bank->filters;
  g->layout = GCONV_ONNX_IMAGES;
  return take_biases(g, n, layer);
}

/* ---- Gemm and MatMul: a dense layer is a convolution of its whole input ---- */

/* Finds the height and width of the image that a dense layer gets as `features` numbers. */
static gconv_status check_features(gconv_onnx_graph *g, const gconv_onnx_node *n, int64_t features) {
  if (g->channels == 0) { /* the first layer, of a model whose input has no shape */
    g->height = g->width = 1;
    return check_channels(g, n, features);
  }
  if (g->network->channels == 0)
    g->network->channels = g->channels <= INT32_MAX ? (int32_t)g->channels : 0;
  if (features == g->channels && (g->height == 0 || g->width == 0))
    g->height = g->width = 1; /* this is so for every input that the model takes */
  if (g->height > 0 && g->width > 0 && g->height <= INT32_MAX / g->width && features / g->channels == g->height * g->width &&
      features % g->channels == 0)
    return GCONV_OK;
  return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                              "takes %" PRId64 " numbers, and gets %" PRId64 " channels of %" PRId64 " x %" PRId64
                              " (0: not known): export the model with an input of fixed size",
                              features, g->channels, g->height, g->width);
}

/* Transposes weights from features x outputs to outputs x features, in new memory. */
static gconv_status turn_weights(float **numbers, int64_t outputs, int64_t features) {
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((size_t)(outputs * features) * sizeof(float), "the weights of a layer", &memory));
  float *turned = memory;
  for (int64_t i = 0; i < outputs * features; i++)
    turned[i % outputs * features + i / outputs] = (*numbers)[i];
  gconv_release(*numbers);
  *numbers = turned;
  return GCONV_OK;
}

/* `transposed`: weights are outputs x features. */
static gconv_status make_dense(gconv_onnx_graph *g, const gconv_onnx_node *n, bool transposed, gconv_layer **layer) {
  const gconv_onnx_tensor *weights;
  float *numbers = NULL;
  GCONV_TRY(gconv_onnx_find_constant(g, n, 1, "weights", &weights));
  if (weights->dimensions != 2)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has weights of %zu dimensions, where 2 are expected",
                                weights->dimensions);
  const int64_t outputs = weights->shape[transposed ? 0 : 1], features = weights->shape[transposed ? 1 : 0];
  GCONV_TRY(gconv_onnx_read_numbers(g, n, weights, &numbers));
  gconv_status status = check_features(g, n, features);
  if (status == GCONV_OK && !transposed)
    status = turn_weights(&numbers, outputs, features);
  GCONV_THEN(status, gconv_network_append(g->network, n->file->path, &(gconv_layer){0}, true, layer));
  if (status != GCONV_OK) {
    gconv_release(numbers);
    return status;
  }
  (*layer)->padding = GCONV_LAYER_VALID;
  (*layer)->stride_y = (*layer)->stride_x = (*layer)->dilation_y = (*layer)->dilation_x = (*layer)->groups = 1;
  const gconv_bank_shape shape = {(uint64_t)outputs, (uint64_t)g->channels, (uint64_t)g->height, (uint64_t)g->width};
  GCONV_TRY(set_weights(g, *layer, shape, numbers));
  g->channels = outputs;
  g->height = g->width = 1;
  g->layout = GCONV_ONNX_ROWS;
  return GCONV_OK;
}

static gconv_status make_gemm(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_layer *layer = NULL;
  if (gconv_onnx_has_input(n, 2) && gconv_onnx_number_of(n, "beta", 1) != 1)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "scales what it adds (beta), which no layer does");
  GCONV_TRY(make_dense(g, n, gconv_onnx_integer_of(n, "transB", 0) != 0, &layer));
  gconv_bank *bank = bank_of(g, layer);
  return gconv_onnx_has_input(n, 2) ? gconv_onnx_read_added(g, n, 2, 2, bank->filters, &bank->biases) : GCONV_OK;
}

static gconv_status make_matmul(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_layer *layer = NULL;
  return make_dense(g, n, false, &layer);
}

/* ---- What is folded into the layer before ---- */

/* Adds biases to the Conv, Gemm or MatMul before it, or (as a residual layer) the graph's input. */
static gconv_status make_add(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  const gconv_layer *layer = gconv_network_open_layer(g->network);
  const bool first = gconv_onnx_has_input(n, 0) && strcmp(n->inputs[0], g->at) == 0;
  const int other = first ? 1 : 0;
  if (gconv_onnx_has_input(n, other) && strcmp(n->inputs[other], g->first) == 0)
    return gconv_onnx_add_input(g, n);
  if (!gconv_onnx_has_input(n, other) || !gconv_onnx_find_tensor(g->model, n->inputs[other]))
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED,
        "adds what neither is constant nor the input of the model, so the model is no chain of layers");
  if (!layer || layer->bank->biases || (g->layout != GCONV_ONNX_IMAGES && !gconv_onnx_is_one_pixel(g)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "adds a constant to what is not the sum of a Conv, Gemm or MatMul without biases");
  gconv_bank *bank = bank_of(g, layer);
  return gconv_onnx_read_added(g, n, other, g->layout == GCONV_ONNX_IMAGES ? 4 : 2, bank->filters, &bank->biases);
}

static gconv_status make_normalization(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  static const char *const names[] = {"scales", "offsets", "means", "variances"};
  const gconv_layer *layer = gconv_network_open_layer(g->network);
  float *parts[4] = {NULL, NULL, NULL, NULL};
  gconv_status status = GCONV_OK;
  if (!layer || (g->layout != GCONV_ONNX_IMAGES && !gconv_onnx_is_one_pixel(g)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "follows no Conv or Gemm into which it could be folded");
  gconv_bank *bank = bank_of(g, layer);
  for (int i = 0; i < 4 && status == GCONV_OK; i++)
    status = gconv_onnx_read_floats(g, n, i + 1, names[i], bank->filters, &parts[i]);
  GCONV_THEN(status, gconv_bank_add_biases(bank));
  if (status == GCONV_OK)
    gconv_bank_fold(bank, parts[0], parts[1], parts[2], parts[3], (double)gconv_onnx_number_of(n, "epsilon", 1e-5F));
  for (int i = 0; i < 4; i++)
    gconv_release(parts[i]);
  return status;
}

/* ---- The table ---- */

static rules none = {END};
static rules pad = {STRING("mode"), INTS("pads", 2, 10), FLOAT("value", 2, 10), END};
static rules gemm = {FIXED("alpha", GCONV_ONNX_A_FLOAT, 1, 1, NEWEST),
                     FIXED("transA", GCONV_ONNX_AN_INT, 0, 1, NEWEST),
                     FLOAT("beta", 1, NEWEST),
                     INT("transB", 1, NEWEST),
                     NEEDED("broadcast", 1, 6),
                     END};
static rules normalization = {FLOAT("epsilon", 1, NEWEST),
                              FLOAT("momentum", 1, NEWEST),
                              FIXED("spatial", GCONV_ONNX_AN_INT, 1, 1, 8),
                              FIXED("training_mode", GCONV_ONNX_AN_INT, 0, 14, NEWEST),
                              NEEDED("is_test", 1, 6),
                              INTS("consumed_inputs", 1, 5),
                              END};

const gconv_onnx_operator gconv_onnx_conv_operators[] = {
    {"Conv", 1, 2, 3, IMAGES | UNSAID, make_conv, gconv_onnx_conv_rules, GCONV_ONNX_AFTER_PAD},
    {"Pad", 2, 1, 4, IMAGES, make_pad, pad, 0},
    {"Gemm", 1, 2, 3, ROWS | SQUEEZED | UNSAID, make_gemm, gemm, 0},
    {"MatMul", 1, 2, 2, ROWS, make_matmul, none, 0},
    {"Add", 7, 2, 2, IMAGES | ROWS, make_add, none, GCONV_ONNX_EITHER_INPUT},
    {"BatchNormalization", 1, 5, 5, IMAGES | ROWS, make_normalization, normalization, 0},
    {0},
};

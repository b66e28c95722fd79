/* SPDX-License-Identifier: MIT */
/* Nodes of ONNX models that become convolutions: Conv with a Pad before it, Gemm and MatMul. Add and BatchNormalization are
 * folded into them. */
#include "bank/bank.h"
#include "bank/kind.h"
#include "base/memory.h"
#include "graph/chain.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gconv_bank *bank_of(gconv_chain *c, const gconv_layer *layer) {
  return &c->network->banks[layer - c->network->layers];
}

/* ---- Pad ---- */

/* Sets the border of a Pad from its attribute `mode` and its constant value. */
static gconv_status take_mode(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_layer *pad = &c->pad;
  GCONV_TRY(gconv_node_attribute_border(n, &pad->border));
  if (pad->border != GCONV_BORDER_CONSTANT)
    return GCONV_OK;
  pad->border_value = (double)gconv_onnx_number_of(n, "value", 0);
  if (gconv_onnx_has_input(n, 2)) {
    const gconv_graph_value *value;
    GCONV_TRY(gconv_chain_find_constant(c, n, 2, "value", &value));
    if (gconv_tensor_elements(&value->tensor) != 1)
      return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "pads by %" PRId64 " numbers: there is one",
                                  gconv_tensor_elements(&value->tensor));
    pad->border_value = (double)(float)gconv_tensor_number(&value->tensor, 0);
  }
  if (pad->border_value == 0)
    pad->border = GCONV_BORDER_ZERO;
  return isfinite(pad->border_value) ? GCONV_OK
                                     : gconv_onnx_fail_node(n, GCONV_BAD_FILE, "pads by a number that is not finite");
}

/* PyTorch writes a Conv2d whose padding_mode is not zeros as a Pad of height and width, and a Conv without pads. */
gconv_status gconv_chain_make_pad(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_onnx_integers pads;
  bool given;
  GCONV_TRY(gconv_chain_read_list(c, n, "pads", 1, &pads, &given));
  int32_t *const to[] = {NULL, NULL, &c->pad.pad_top, &c->pad.pad_left, NULL, NULL, &c->pad.pad_bottom, &c->pad.pad_right};
  bool good = pads.count == 8 && !gconv_onnx_has_input(n, 3);
  for (size_t i = 0; i < 8 && good; i++) {
    good = pads.numbers[i] >= 0 && pads.numbers[i] <= (to[i] ? INT32_MAX : 0);
    if (good && to[i])
      *to[i] = (int32_t)pads.numbers[i];
  }
  if (!good)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "does not pad height and width by constant numbers from 0 on, before a Conv");
  c->padded = true;
  return take_mode(c, n);
}

/* Gives the layer of a Conv the pads of the Pad before it. */
static gconv_status take_pads(gconv_chain *c, const gconv_onnx_node *n, gconv_layer *layer) {
  if (!c->padded)
    return GCONV_OK;
  if (layer->padding != GCONV_LAYER_EXPLICIT || layer->pad_top || layer->pad_left || layer->pad_bottom || layer->pad_right)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has pads, and so has the Pad before it");
  layer->pad_top = c->pad.pad_top, layer->pad_left = c->pad.pad_left;
  layer->pad_bottom = c->pad.pad_bottom, layer->pad_right = c->pad.pad_right;
  layer->border = c->pad.border;
  layer->border_value = c->pad.border_value;
  c->padded = false;
  return GCONV_OK;
}

/* ---- Conv ---- */

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
static gconv_status set_weights(gconv_chain *c, gconv_layer *layer, gconv_bank_shape shape, float *numbers) {
  gconv_bank *bank = bank_of(c, layer);
  gconv_status status = gconv_bank_check_shape(c->graph->path, shape);
  char *name = status == GCONV_OK ? strdup("") : NULL;
  if (!name) {
    gconv_release(numbers);
    return status == GCONV_OK ? gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", c->graph->path) : status;
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
static gconv_status take_biases(gconv_chain *c, const gconv_onnx_node *n, gconv_layer *layer) {
  gconv_bank *bank = bank_of(c, layer);
  return gconv_onnx_has_input(n, 2) ? gconv_chain_copy_list(c, n, 2, "biases", bank->filters, &bank->biases) : GCONV_OK;
}

/* Fails unless the tensor on the chain has `channels` channels. If the model does not say how many it has, it gets this
 * number. */
static gconv_status check_channels(gconv_chain *c, const gconv_onnx_node *n, int64_t channels) {
  if (c->channels == 0)
    c->channels = channels;
  if (c->network->channels == 0)
    c->network->channels = c->channels <= INT32_MAX ? (int32_t)c->channels : 0;
  return channels == c->channels ? GCONV_OK
                                 : gconv_onnx_fail_node(n, GCONV_BAD_FILE, "takes %" PRId64 " channels, and gets %" PRId64,
                                                        channels, c->channels);
}

gconv_status gconv_chain_make_conv(gconv_chain *c, const gconv_onnx_node *n) {
  const gconv_graph_value *weights;
  gconv_layer *layer = NULL;
  float *numbers = NULL;
  GCONV_TRY(gconv_chain_find_constant(c, n, 1, "weights", &weights));
  if (weights->tensor.axes != 4)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has weights of %d dimensions: those of layers have 4",
                                weights->tensor.axes);
  GCONV_TRY(gconv_chain_copy_numbers(c, n, weights, &numbers));
  const gconv_bank_shape shape = {(uint64_t)weights->tensor.shape[0], (uint64_t)weights->tensor.shape[1],
                                  (uint64_t)weights->tensor.shape[2], (uint64_t)weights->tensor.shape[3]};
  gconv_status status = gconv_network_append(c->network, n->file->path, &(gconv_layer){0}, true, &layer);
  if (status != GCONV_OK) {
    gconv_release(numbers);
    return status;
  }
  GCONV_TRY(set_weights(c, layer, shape, numbers));
  const gconv_bank *bank = layer->bank;
  GCONV_TRY(take_geometry(n, bank, layer));
  GCONV_TRY(take_pads(c, n, layer));
  GCONV_TRY(check_channels(c, n, (int64_t)bank->channels * layer->groups));
  c->height = c->height <= INT32_MAX ? gconv_conv_outputs(layer, (int32_t)c->height, false) : 0;
  c->width = c->width <= INT32_MAX ? gconv_conv_outputs(layer, (int32_t)c->width, true) : 0;
  c->channels = bank->filters;
  c->layout = GCONV_CHAIN_IMAGES;
  return take_biases(c, n, layer);
}

/* ---- Gemm and MatMul: a dense layer is a convolution of its whole input ---- */

/* Finds the height and width of the image that a dense layer gets as `features` numbers. */
static gconv_status check_features(gconv_chain *c, const gconv_onnx_node *n, int64_t features) {
  if (c->channels == 0) { /* the first layer, of a model whose input has no shape */
    c->height = c->width = 1;
    return check_channels(c, n, features);
  }
  if (c->network->channels == 0)
    c->network->channels = c->channels <= INT32_MAX ? (int32_t)c->channels : 0;
  if (features == c->channels && (c->height == 0 || c->width == 0))
    c->height = c->width = 1; /* this is so for every input that the model takes */
  if (c->height > 0 && c->width > 0 && c->height <= INT32_MAX / c->width && features / c->channels == c->height * c->width &&
      features % c->channels == 0)
    return GCONV_OK;
  return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                              "takes %" PRId64 " numbers, and gets %" PRId64 " channels of %" PRId64 " x %" PRId64
                              " (0: not known): export the model with an input of fixed size",
                              features, c->channels, c->height, c->width);
}

/* Transposes weights from features x outputs to outputs x features, in new memory. */
static gconv_status transpose_weights(float **numbers, int64_t outputs, int64_t features) {
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((size_t)(outputs * features) * sizeof(float), "the weights of a layer", &memory));
  float *transposed = memory;
  for (int64_t i = 0; i < outputs * features; i++)
    transposed[i % outputs * features + i / outputs] = (*numbers)[i];
  gconv_release(*numbers);
  *numbers = transposed;
  return GCONV_OK;
}

/* `transposed`: weights are outputs x features. */
static gconv_status make_dense(gconv_chain *c, const gconv_onnx_node *n, bool transposed, gconv_layer **layer) {
  const gconv_graph_value *weights;
  float *numbers = NULL;
  GCONV_TRY(gconv_chain_find_constant(c, n, 1, "weights", &weights));
  if (weights->tensor.axes != 2)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has weights of %d dimensions, where 2 are expected",
                                weights->tensor.axes);
  const int64_t outputs = weights->tensor.shape[transposed ? 0 : 1], features = weights->tensor.shape[transposed ? 1 : 0];
  GCONV_TRY(gconv_chain_copy_numbers(c, n, weights, &numbers));
  gconv_status status = check_features(c, n, features);
  if (status == GCONV_OK && !transposed)
    status = transpose_weights(&numbers, outputs, features);
  GCONV_THEN(status, gconv_network_append(c->network, n->file->path, &(gconv_layer){0}, true, layer));
  if (status != GCONV_OK) {
    gconv_release(numbers);
    return status;
  }
  (*layer)->padding = GCONV_LAYER_VALID;
  (*layer)->stride_y = (*layer)->stride_x = (*layer)->dilation_y = (*layer)->dilation_x = (*layer)->groups = 1;
  const gconv_bank_shape shape = {(uint64_t)outputs, (uint64_t)c->channels, (uint64_t)c->height, (uint64_t)c->width};
  GCONV_TRY(set_weights(c, *layer, shape, numbers));
  c->channels = outputs;
  c->height = c->width = 1;
  c->layout = GCONV_CHAIN_ROWS;
  return GCONV_OK;
}

gconv_status gconv_chain_make_gemm(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_layer *layer = NULL;
  const bool adds = gconv_onnx_has_input(n, 2);
  if (adds && gconv_onnx_number_of(n, "beta", 1) != 1)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "scales what it adds (beta), which no layer does");
  if (gconv_onnx_number_of(n, "alpha", 1) != 1 || gconv_onnx_integer_of(n, "transA", 0) != 0)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "scales the product (alpha) or transposes its input (transA), which no layer does");
  if (adds && c->graph->opset < 7 && gconv_onnx_integer_of(n, "broadcast", 0) != 1)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has no attribute 'broadcast' = 1, and adds a number to each element");
  GCONV_TRY(make_dense(c, n, gconv_onnx_integer_of(n, "transB", 0) != 0, &layer));
  gconv_bank *bank = bank_of(c, layer);
  return adds ? gconv_chain_copy_added(c, n, 2, 2, bank->filters, &bank->biases) : GCONV_OK;
}

gconv_status gconv_chain_make_matmul(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_layer *layer = NULL;
  return make_dense(c, n, false, &layer);
}

/* ---- Nodes that are folded into the layer before them ---- */

/* Appends a layer that adds the input of the model. Both sides must have the same shape: ONNX would broadcast another. */
static gconv_status add_input(gconv_chain *c, const gconv_onnx_node *n) {
  gconv_layer *layer;
  const gconv_tensor *in = &c->input->tensor;
  const int64_t sizes[] = {c->batch, c->channels, c->height, c->width};
  bool same = c->input->said && in->axes == (c->layout == GCONV_CHAIN_IMAGES ? 4 : 2);
  for (int32_t i = 1; i < in->axes && same; i++)
    same = sizes[i] == 0 || in->shape[i] == 0 || sizes[i] == in->shape[i];
  if (!same)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "adds the input of the model to what has another shape");
  return gconv_network_append(c->network, n->file->path, &(gconv_layer){.kind = GCONV_LAYER_RESIDUAL}, false, &layer);
}

/* Adds biases to the Conv, Gemm or MatMul before it, or (as a residual layer) the graph's input. */
gconv_status gconv_chain_make_add(gconv_chain *c, const gconv_onnx_node *n) {
  const gconv_layer *layer = gconv_network_open_layer(c->network);
  const int32_t other = c->node->in[0] == c->at ? 1 : 0;
  if (c->node->in[other] == c->first)
    return add_input(c, n);
  if (!gconv_chain_constant(c, other))
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED,
        "adds what neither is constant nor the input of the model, so the model is no chain of layers");
  if (!layer || layer->bank->biases || (c->layout != GCONV_CHAIN_IMAGES && !gconv_chain_is_one_pixel(c)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "adds a constant to what is not the sum of a Conv, Gemm or MatMul without biases");
  gconv_bank *bank = bank_of(c, layer);
  return gconv_chain_copy_added(c, n, other, c->layout == GCONV_CHAIN_IMAGES ? 4 : 2, bank->filters, &bank->biases);
}

gconv_status gconv_chain_make_normalization(gconv_chain *c, const gconv_onnx_node *n) {
  static const char *const names[] = {"scales", "offsets", "means", "variances"};
  const gconv_layer *layer = gconv_network_open_layer(c->network);
  float *parts[4] = {NULL, NULL, NULL, NULL};
  gconv_status status = GCONV_OK;
  if (!layer || (c->layout != GCONV_CHAIN_IMAGES && !gconv_chain_is_one_pixel(c)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "follows no Conv or Gemm into which it could be folded");
  gconv_bank *bank = bank_of(c, layer);
  for (int i = 0; i < 4 && status == GCONV_OK; i++)
    status = gconv_chain_copy_list(c, n, i + 1, names[i], bank->filters, &parts[i]);
  GCONV_THEN(status, gconv_bank_add_biases(bank));
  if (status == GCONV_OK)
    gconv_bank_fold(bank, parts[0], parts[1], parts[2], parts[3], (double)gconv_onnx_number_of(n, "epsilon", 1e-5F));
  for (int i = 0; i < 4; i++)
    gconv_release(parts[i]);
  return status;
}

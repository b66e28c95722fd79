/* SPDX-License-Identifier: MIT */
/* Nodes of ONNX models that have weights, as layers: Conv with what pads it, Gemm, MatMul, and what is folded into them. */
#include "bank/network_onnx.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

gconv_status gconv_onnx_no_memory(const gconv_onnx_graph *g) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", g->model->file->path);
}

gconv_status gconv_onnx_add_layer(gconv_onnx_graph *g, gconv_layer_kind kind, gconv_layer **layer) {
  gconv_network *network = g->network;
  if (network->count == GCONV_NETWORK_MAX_LAYERS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: the model has more than %d layers, which is the limit", g->model->file->path,
                      GCONV_NETWORK_MAX_LAYERS);
  network->layers[network->count] = (gconv_layer){.kind = kind};
  *layer = &network->layers[network->count++];
  if (kind == GCONV_LAYER_CONV)
    (*layer)->bank = &network->banks[network->count - 1];
  return GCONV_OK;
}

gconv_layer *gconv_onnx_open_layer(const gconv_onnx_graph *g) {
  gconv_network *network = g->network;
  gconv_layer *last = network->count > 0 ? &network->layers[network->count - 1] : NULL;
  return last && last->kind == GCONV_LAYER_CONV && last->activation == GCONV_ACTIVATION_NONE ? last : NULL;
}

bool gconv_onnx_is_one_pixel(const gconv_onnx_graph *g) {
  return g->height == 1 && g->width == 1;
}

enum { MOST_USES = 64 /* of all weights, by the size of the file */ };

static gconv_bank *bank_of(gconv_onnx_graph *g, const gconv_layer *layer) {
  return &g->network->banks[layer - g->network->layers];
}

/* ---- Constants ---- */

static uint64_t count_numbers(const gconv_onnx_tensor *tensor) {
  uint64_t count = 1;
  for (size_t i = 0; i < tensor->dimensions && i < GCONV_BANK_DIMENSIONS; i++) {
    uint64_t size = tensor->shape[i] > 0 ? (uint64_t)tensor->shape[i] : 0;
    count = size > 0 && count > UINT64_MAX / size ? UINT64_MAX : count * size;
  }
  return count;
}

/* Finds input number `input` of a node, a constant of floating-point numbers. */
static gconv_status find_constant(const gconv_onnx_graph *g, const gconv_onnx_node *n, int input, const char *what,
                                  const gconv_onnx_tensor **tensor) {
  *tensor = gconv_onnx_has_input(n, input) ? gconv_onnx_find_tensor(g->model, n->inputs[input]) : NULL;
  if (!*tensor)
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED, "takes its %s from what other nodes compute: only initialisers and Constants are read", what);
  if (!gconv_onnx_is_floating((*tensor)->type) || (*tensor)->dimensions > GCONV_BANK_DIMENSIONS)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has %s that are not float, double, float16 or bfloat16", what);
  return GCONV_OK;
}

/* Reads all numbers of a tensor, for gconv_release(). Nodes may share tensors, but not so often that reading takes much
 * longer than the file is large. */
static gconv_status read_numbers(gconv_onnx_graph *g, const gconv_onnx_node *n, const gconv_onnx_tensor *tensor,
                                 float **numbers) {
  gconv_bank_file *file = g->model->file;
  const uint64_t count = count_numbers(tensor);
  void *memory = NULL;
  if (count == 0 || count > GCONV_BANK_MAX_WEIGHTS)
    return gconv_onnx_fail_node(n, GCONV_TOO_LARGE, "has a tensor of %" PRIu64 " numbers: there can be 1 to %d", count,
                                GCONV_BANK_MAX_WEIGHTS);
  g->claimed += tensor->external ? 0 : count;
  if (g->claimed / MOST_USES > file->source.size + (UINT64_C(1) << 18))
    return gconv_fail(GCONV_TOO_LARGE,
                      "%s: its nodes share weights so often that all together are more than %d times as large "
                      "as the file: that is the limit",
                      file->path, MOST_USES);
  GCONV_TRY(gconv_onnx_tensor_check(file, tensor, count));
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(float), "the weights of a layer", &memory));
  gconv_status status = gconv_onnx_tensor_read(file, tensor, (size_t)count, memory);
  if (status == GCONV_OK)
    *numbers = memory;
  else
    gconv_release(memory);
  return status;
}

/* Reads a list of `count` numbers. */
static gconv_status read_list(gconv_onnx_graph *g, const gconv_onnx_node *n, int input, const char *what, int64_t count,
                              float **numbers) {
  const gconv_onnx_tensor *tensor;
  GCONV_TRY(find_constant(g, n, input, what, &tensor));
  if (tensor->dimensions != 1 || tensor->shape[0] != count)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "has %" PRIu64 " numbers of %zu-dimensional shape as %s, where a list of %" PRId64
                                " is expected",
                                count_numbers(tensor), tensor->dimensions, what, count);
  return read_numbers(g, n, tensor, numbers);
}

/* Reads what is added to a tensor of `axes` dimensions, of which number 1 are the channels: `count` numbers, or one for all
 * of them, as NumPy's broadcasting has it. */
static gconv_status read_added(gconv_onnx_graph *g, const gconv_onnx_node *n, int input, size_t axes, int64_t count,
                               float **numbers) {
  const gconv_onnx_tensor *tensor;
  GCONV_TRY(find_constant(g, n, input, "biases", &tensor));
  const uint64_t have = count_numbers(tensor);
  const size_t behind = axes - 2; /* axes that stand after the channels */
  const bool one = have == 1 && tensor->dimensions <= axes;
  bool each = have == (uint64_t)count && tensor->dimensions <= axes && tensor->dimensions > behind;
  if (each)
    each = tensor->shape[tensor->dimensions - 1 - behind] == count;
  if (!one && !each)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "adds %" PRIu64 " numbers of %zu-dimensional shape, which ONNX broadcasts along other axes "
                                "than the %" PRId64 " channels",
                                have, tensor->dimensions, count);
  float *read = NULL;
  GCONV_TRY(read_numbers(g, n, tensor, &read));
  if (each) {
    *numbers = read;
    return GCONV_OK;
  }
  void *memory = NULL;
  gconv_status status = gconv_allocate((size_t)count * sizeof(float), "the biases of a layer", &memory);
  *numbers = memory;
  for (int64_t i = 0; status == GCONV_OK && i < count; i++)
    (*numbers)[i] = *read;
  gconv_release(read);
  return status;
}

gconv_status gconv_onnx_read_list(gconv_onnx_graph *g, const gconv_onnx_node *n, const char *name, int input,
                                  gconv_onnx_integers *list, bool *given) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, name);
  *given = a || gconv_onnx_has_input(n, input);
  *list = a ? a->integers : (gconv_onnx_integers){{0}, 0};
  bool known = list->count <= GCONV_ONNX_INTEGERS;
  if (!a && *given) {
    const gconv_onnx_tensor *tensor = gconv_onnx_find_tensor(g->model, n->inputs[input]);
    known = tensor != NULL;
    if (tensor)
      GCONV_TRY(gconv_onnx_tensor_integers(g->model->file, tensor, list, &known));
  }
  return known ? GCONV_OK
               : gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                      "takes its %s from what is no short list of int64, an initialiser or Constant", name);
}

/* ---- Pad ---- */

/* The border of a Pad, by its attribute `mode` and its input of a constant. */
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
    GCONV_TRY(find_constant(g, n, 2, "value", &tensor));
    if (count_numbers(tensor) != 1)
      return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "pads by %" PRIu64 " numbers: there is one", count_numbers(tensor));
    GCONV_TRY(read_numbers(g, n, tensor, &value));
    pad->border_value = (double)*value;
    gconv_release(value);
  }
  if (pad->border_value == 0)
    pad->border = GCONV_BORDER_ZERO;
  return isfinite(pad->border_value) ? GCONV_OK
                                     : gconv_onnx_fail_node(n, GCONV_BAD_FILE, "pads by what is no finite number");
}

/* PyTorch writes a Conv2d whose padding_mode is none of zeros as a Pad of height and width, and a Conv without pads. */
gconv_status gconv_onnx_make_pad(gconv_onnx_graph *g, const gconv_onnx_node *n) {
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

/* How many outputs an axis has; 0 where its size is not known, or too small. */
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

/* Gives a layer its bank, of numbers that it takes over. */
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

/* Gives the last layer the biases that a node has as its input number 2. */
static gconv_status take_biases(gconv_onnx_graph *g, const gconv_onnx_node *n, gconv_layer *layer) {
  gconv_bank *bank = bank_of(g, layer);
  return gconv_onnx_has_input(n, 2) ? read_list(g, n, 2, "biases", bank->filters, &bank->biases) : GCONV_OK;
}

/* Settles how many channels there are before a layer that takes `channels`. */
static gconv_status check_channels(gconv_onnx_graph *g, const gconv_onnx_node *n, int64_t channels) {
  if (g->channels == 0)
    g->channels = channels;
  if (g->network->channels == 0)
    g->network->channels = g->channels <= INT32_MAX ? (int32_t)g->channels : 0;
  return channels == g->channels ? GCONV_OK
                                 : gconv_onnx_fail_node(n, GCONV_BAD_FILE, "takes %" PRId64 " channels, and gets %" PRId64,
                                                        channels, g->channels);
}

gconv_status gconv_onnx_make_conv(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  const gconv_onnx_tensor *weights;
  gconv_layer *layer = NULL;
  float *numbers = NULL;
  GCONV_TRY(find_constant(g, n, 1, "weights", &weights));
  if (weights->dimensions != 4)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has weights of %zu dimensions: convolutions here have two",
                                weights->dimensions);
  GCONV_TRY(read_numbers(g, n, weights, &numbers));
  const gconv_bank_shape shape = {(uint64_t)weights->shape[0], (uint64_t)weights->shape[1], (uint64_t)weights->shape[2],
                                  (uint64_t)weights->shape[3]};
  gconv_status status = gconv_onnx_add_layer(g, GCONV_LAYER_CONV, &layer);
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

/* How `features` lie in the image that a dense layer gets. */
static gconv_status check_features(gconv_onnx_graph *g, const gconv_onnx_node *n, int64_t features) {
  if (g->channels == 0) { /* the first layer, of a model whose input has no shape */
    g->height = g->width = 1;
    return check_channels(g, n, features);
  }
  if (g->network->channels == 0)
    g->network->channels = g->channels <= INT32_MAX ? (int32_t)g->channels : 0;
  if (features == g->channels && (g->height == 0 || g->width == 0))
    g->height = g->width = 1; /* for all inputs that the model takes */
  if (g->height > 0 && g->width > 0 && g->height <= INT32_MAX / g->width && features / g->channels == g->height * g->width &&
      features % g->channels == 0)
    return GCONV_OK;
  return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                              "takes %" PRId64 " numbers, and gets %" PRId64 " channels of %" PRId64 " x %" PRId64
                              " (0: not known): export the model with an input of fixed size",
                              features, g->channels, g->height, g->width);
}

/* Turns weights of features x outputs into those of outputs x features, in new memory. */
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
  GCONV_TRY(find_constant(g, n, 1, "weights", &weights));
  if (weights->dimensions != 2)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has weights of %zu dimensions, where 2 are expected",
                                weights->dimensions);
  const int64_t outputs = weights->shape[transposed ? 0 : 1], features = weights->shape[transposed ? 1 : 0];
  GCONV_TRY(read_numbers(g, n, weights, &numbers));
  gconv_status status = check_features(g, n, features);
  if (status == GCONV_OK && !transposed)
    status = turn_weights(&numbers, outputs, features);
  if (status == GCONV_OK)
    status = gconv_onnx_add_layer(g, GCONV_LAYER_CONV, layer);
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

gconv_status gconv_onnx_make_gemm(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_layer *layer = NULL;
  if (gconv_onnx_has_input(n, 2) && gconv_onnx_number_of(n, "beta", 1) != 1)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "scales what it adds (beta), which no layer does");
  GCONV_TRY(make_dense(g, n, gconv_onnx_integer_of(n, "transB", 0) != 0, &layer));
  gconv_bank *bank = bank_of(g, layer);
  return gconv_onnx_has_input(n, 2) ? read_added(g, n, 2, 2, bank->filters, &bank->biases) : GCONV_OK;
}

gconv_status gconv_onnx_make_matmul(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_layer *layer = NULL;
  return make_dense(g, n, false, &layer);
}

/* ---- What is folded into the layer before ---- */

/* Adds the input of the model; both must have one shape, else one of them is broadcast. */
static gconv_status add_input(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_layer *layer;
  const gconv_onnx_value *v = g->input;
  const bool images = g->layout == GCONV_ONNX_IMAGES;
  const int64_t sizes[] = {g->batch, g->channels, g->height, g->width};
  bool same = v->dimensions == (images ? 4 : 2);
  for (size_t i = 1; i < v->dimensions && same; i++)
    same = sizes[i] == 0 || v->sizes[i] == 0 || sizes[i] == v->sizes[i];
  if (!same)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "adds the input of the model to what has another shape");
  return gconv_onnx_add_layer(g, GCONV_LAYER_RESIDUAL, &layer);
}

/* Biases of a MatMul or Conv before it, or the graph's input. */
gconv_status gconv_onnx_make_add(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  const gconv_layer *layer = gconv_onnx_open_layer(g);
  const bool first = gconv_onnx_has_input(n, 0) && strcmp(n->inputs[0], g->at) == 0;
  const int other = first ? 1 : 0;
  if (gconv_onnx_has_input(n, other) && strcmp(n->inputs[other], g->input->name) == 0)
    return add_input(g, n);
  if (!gconv_onnx_has_input(n, other) || !gconv_onnx_find_tensor(g->model, n->inputs[other]))
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED,
        "adds what neither is constant nor the input of the model, so the model is no chain of layers");
  if (!layer || layer->bank->biases || (g->layout != GCONV_ONNX_IMAGES && !gconv_onnx_is_one_pixel(g)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "adds a constant to what is not the sum of a Conv, Gemm or MatMul without biases");
  gconv_bank *bank = bank_of(g, layer);
  return read_added(g, n, other, g->layout == GCONV_ONNX_IMAGES ? 4 : 2, bank->filters, &bank->biases);
}

gconv_status gconv_onnx_make_normalization(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  static const char *const names[] = {"scales", "offsets", "means", "variances"};
  const gconv_layer *layer = gconv_onnx_open_layer(g);
  float *parts[4] = {NULL, NULL, NULL, NULL};
  gconv_status status = GCONV_OK;
  if (!layer || (g->layout != GCONV_ONNX_IMAGES && !gconv_onnx_is_one_pixel(g)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "follows no Conv or Gemm into which it could be folded");
  gconv_bank *bank = bank_of(g, layer);
  for (int i = 0; i < 4 && status == GCONV_OK; i++)
    status = read_list(g, n, i + 1, names[i], bank->filters, &parts[i]);
  if (status == GCONV_OK)
    status = gconv_bank_add_biases(bank);
  if (status == GCONV_OK)
    gconv_bank_fold(bank, parts[0], parts[1], parts[2], parts[3], (double)gconv_onnx_number_of(n, "epsilon", 1e-5F));
  for (int i = 0; i < 4; i++)
    gconv_release(parts[i]);
  return status;
}

/* SPDX-License-Identifier: MIT */
/* Convolutions as nodes of ONNX: a Pad, unless the border is zero, and a Conv; or a Gemm. The activation follows. */
#include "bank/network_file.h"
#include "bank/onnx_write.h"
#include "base/memory.h"

#include <string.h>

/* ---- Geometry ---- */

/* The padding of a layer along an axis. With padding same, `behind` is enough for inputs of any size. `automatic` is set if
 * the padding depends on the size, which is not known; ONNX computes the padding then. */
typedef struct pads {
  int64_t before, behind;
  const char *automatic;
} pads;

/* Returns the padding of same_upper or same_lower: as few pixels as the outputs need. Runtimes compute it wrongly, or not at
 * all, for dilated filters, so it is computed here wherever the size is known or does not matter. */
static pads least_pads(int64_t size, int64_t stride, int64_t extent, bool upper) {
  if (stride > 1 && size <= 0)
    return (pads){0, 0, upper ? "SAME_UPPER" : "SAME_LOWER"};
  const int64_t needed = stride == 1 ? extent - 1 : (size - 1) / stride * stride + extent - size;
  const int64_t missing = needed > 0 ? needed : 0, half = missing / 2;
  return upper ? (pads){half, missing - half, NULL} : (pads){missing - half, half, NULL};
}

/* size: of the input; 0: not known. */
static pads pads_of(const gconv_layer *layer, int64_t size, bool columns) {
  const gconv_layer s = gconv_layer_settled(layer);
  const int64_t taps = columns ? s.bank->columns : s.bank->rows, dilation = columns ? s.dilation_x : s.dilation_y;
  const int64_t extent = (taps - 1) * dilation + 1, anchor = layer->flip ? taps - 1 - taps / 2 : taps / 2;
  const int64_t stride = columns ? s.stride_x : s.stride_y;
  switch (s.padding) {
  case GCONV_LAYER_SAME:
    return (pads){anchor * dilation, extent - 1 - anchor * dilation, NULL};
  case GCONV_LAYER_FULL:
    return (pads){extent - 1, extent - 1, NULL};
  case GCONV_LAYER_EXPLICIT:
    return (pads){columns ? s.pad_left : s.pad_top, columns ? s.pad_right : s.pad_bottom, NULL};
  case GCONV_LAYER_SAME_UPPER:
  case GCONV_LAYER_SAME_LOWER:
    return least_pads(size, stride, extent, s.padding == GCONV_LAYER_SAME_UPPER);
  case GCONV_LAYER_DEFAULT: /* gconv_layer_settled() has replaced it */
  case GCONV_LAYER_VALID:
    break;
  }
  return (pads){0, 0, NULL};
}

int64_t gconv_conv_pad(const gconv_layer *layer, int32_t size, bool columns) {
  return pads_of(layer, size, columns).before;
}

int32_t gconv_conv_outputs(const gconv_layer *layer, int32_t size, bool columns) {
  const gconv_layer s = gconv_layer_settled(layer);
  const int64_t taps = columns ? s.bank->columns : s.bank->rows, dilation = columns ? s.dilation_x : s.dilation_y;
  const int64_t extent = (taps - 1) * dilation + 1, stride = columns ? s.stride_x : s.stride_y;
  const pads p = pads_of(layer, size, columns);
  if (size <= 0)
    return 0;
  const int64_t reach = size + p.before + p.behind - extent, outputs = reach < 0 ? 0 : reach / stride + 1;
  return outputs <= INT32_MAX ? (int32_t)outputs : 0;
}

/* ---- Weights ---- */

void gconv_layer_copy_planes(const float *from, size_t planes, size_t plane, bool flip, float *to) {
  if (!flip)
    memcpy(to, from, planes * plane * sizeof *to);
  for (size_t i = 0; flip && i < planes; i++)
    for (size_t t = 0; t < plane; t++)
      to[i * plane + t] = from[i * plane + plane - 1 - t];
}

void gconv_layer_copy_weights(const gconv_layer *layer, float *weights) {
  const gconv_bank *bank = layer->bank;
  const size_t plane = (size_t)bank->rows * (size_t)bank->columns, planes = (size_t)bank->filters * (size_t)bank->channels;
  gconv_layer_copy_planes(bank->weights, planes, plane, layer->flip, weights);
  for (int32_t k = 0; k < bank->filters; k++)
    weights[planes * plane + (size_t)k] = bank->biases ? bank->biases[k] : 0;
}

/* Copies the weights `times` times, then the biases `times` times: once for each channel. gconv_release() frees the copy. */
static gconv_status copy_weights(const gconv_layer *layer, int64_t times, float **copy) {
  const gconv_bank *bank = layer->bank;
  const size_t filters = (size_t)bank->filters, repeats = (size_t)times;
  const size_t weights = filters * (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns;
  GCONV_ALLOCATE(*copy, (weights + filters) * repeats * sizeof **copy, "the weights of an ONNX model");
  gconv_layer_copy_weights(layer, *copy);
  float *biases = *copy + weights * repeats;
  memmove(biases, *copy + weights, filters * sizeof *biases);
  for (size_t c = 1; c < repeats; c++) {
    memcpy(*copy + c * weights, *copy, weights * sizeof *biases);
    memcpy(biases + c * filters, biases, filters * sizeof *biases);
  }
  return GCONV_OK;
}

/* ---- Nodes ---- */

/* Adds a Pad node, unless the border is zero. *y and *x, the padding of the Conv, become 0 then. */
static gconv_status put_border(gconv_onnx_writer *w, const gconv_layer *layer, pads *y, pads *x) {
  static const char *const modes[] = {[GCONV_BORDER_CONSTANT] = "constant",
                                      [GCONV_BORDER_REPLICATE] = "edge",
                                      [GCONV_BORDER_SYMMETRIC] = NULL,
                                      [GCONV_BORDER_REFLECT101] = "reflect",
                                      [GCONV_BORDER_WRAP] = "wrap"};
  const int64_t all[] = {0, 0, y->before, x->before, 0, 0, y->behind, x->behind}, one = 1;
  const float value = (float)layer->border_value;
  if (layer->border == GCONV_BORDER_ZERO)
    return GCONV_OK;
  if (!modes[layer->border] || y->automatic)
    return gconv_fail(GCONV_UNSUPPORTED, "ONNX has no node that pads by %s",
                      y->automatic ? "a border other than zero with padding same_upper or same_lower for any size"
                                   : "the border symmetric");
  gconv_onnx_put_node(w, "Pad");
  gconv_onnx_put_integers(w, "pads", 8, all);
  if (layer->border == GCONV_BORDER_CONSTANT)
    gconv_onnx_put_floats(w, "outside", 0, &one, &value);
  gconv_onnx_put_attribute_text(w, "mode", modes[layer->border]);
  if (layer->border == GCONV_BORDER_WRAP)
    w->opset = GCONV_ONNX_WRAP_OPSET;
  *y = *x = (pads){0, 0, NULL};
  return GCONV_OK;
}

static gconv_status put_conv(gconv_onnx_writer *w, const gconv_layer *layer) {
  const gconv_layer s = gconv_layer_settled(layer);
  const gconv_bank *bank = layer->bank;
  const bool each = s.groups == 0 && bank->channels == 1; /* each channel by itself */
  const int64_t times = each ? w->shapes[w->layer].channels : 1, groups = each ? times : s.groups > 0 ? s.groups : 1;
  const int64_t shape[] = {bank->filters * times, bank->channels, bank->rows, bank->columns};
  pads y = pads_of(layer, w->shapes[w->layer].height, false), x = pads_of(layer, w->shapes[w->layer].width, true);
  if ((y.automatic || x.automatic) && (s.dilation_y > 1 || s.dilation_x > 1))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "the padding %s of dilated filters with a stride depends on the size of the input, which ONNX Runtime "
                      "does not compute: give the network an input of fixed size, or padding same",
                      y.automatic ? y.automatic : x.automatic);
  if (y.automatic || x.automatic)
    y = x = (pads){0, 0, y.automatic ? y.automatic : x.automatic};
  float *weights = NULL;
  GCONV_TRY(put_border(w, layer, &y, &x));
  GCONV_TRY(copy_weights(layer, times, &weights));
  gconv_onnx_put_node(w, "Conv");
  gconv_onnx_put_floats(w, "weight", 4, shape, weights);
  gconv_onnx_put_floats(w, "bias", 1, shape, weights + shape[0] * shape[1] * shape[2] * shape[3]);
  gconv_release(weights);
  gconv_onnx_put_attribute_integers(w, "kernel_shape", 2, shape + 2);
  gconv_onnx_put_attribute_integers(w, "strides", 2, (int64_t[]){s.stride_y, s.stride_x});
  gconv_onnx_put_attribute_integers(w, "dilations", 2, (int64_t[]){s.dilation_y, s.dilation_x});
  gconv_onnx_put_attribute_integer(w, "group", groups);
  if (y.automatic)
    gconv_onnx_put_attribute_text(w, "auto_pad", y.automatic);
  else
    gconv_onnx_put_attribute_integers(w, "pads", 4, (int64_t[]){y.before, x.before, y.behind, x.behind});
  return GCONV_OK;
}

/* Adds a dense layer whose input is a matrix with one row for each image. */
static gconv_status put_gemm(gconv_onnx_writer *w, const gconv_layer *layer) {
  const gconv_bank *bank = layer->bank;
  const int64_t shape[] = {bank->filters, (int64_t)bank->channels * bank->rows * bank->columns};
  GCONV_FREED float *weights = NULL;
  GCONV_TRY(copy_weights(layer, 1, &weights));
  gconv_onnx_put_node(w, "Gemm");
  gconv_onnx_put_floats(w, "weight", 2, shape, weights);
  gconv_onnx_put_floats(w, "bias", 1, shape, weights + shape[0] * shape[1]);
  gconv_onnx_put_attribute_integer(w, "transB", 1);
  return GCONV_OK;
}

void gconv_onnx_put_activation(gconv_onnx_writer *w, const gconv_layer *layer) {
  const int64_t one = 1;
  switch (layer->activation) {
  case GCONV_ACTIVATION_RELU:
    gconv_onnx_put_node(w, "Relu");
    return;
  case GCONV_ACTIVATION_LEAKY:
    gconv_onnx_put_node(w, "LeakyRelu");
    gconv_onnx_put_attribute_float(w, "alpha", layer->slope);
    return;
  case GCONV_ACTIVATION_SIGMOID:
    if (layer->slope != 0 && layer->slope != 1) {
      gconv_onnx_put_node(w, "Mul");
      gconv_onnx_put_floats(w, "slope", 0, &one, &layer->slope);
    }
    gconv_onnx_put_node(w, "Sigmoid");
    return;
  case GCONV_ACTIVATION_TANH:
    gconv_onnx_put_node(w, "Tanh");
    return;
  case GCONV_ACTIVATION_SOFTMAX:
    gconv_onnx_put_node(w, "Softmax");
    gconv_onnx_put_attribute_integer(w, "axis", 1);
    return;
  case GCONV_ACTIVATION_NONE:
    return;
  }
}

gconv_status gconv_conv_export(gconv_onnx_writer *w, const gconv_layer *layer) {
  GCONV_TRY((gconv_onnx_has_rows(w) ? put_gemm : put_conv)(w, layer));
  gconv_onnx_put_activation(w, layer);
  return GCONV_OK;
}

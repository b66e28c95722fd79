/* SPDX-License-Identifier: MIT */
/* Transposed convolutions: each input pixel adds its filter to the output, at a distance of the stride. An output has stride
 * times as many rows and columns as the input. Weights are K x C x R x S, as those of convolutions. */
#include "bank/network_file.h"
#include "bank/onnx_write.h"
#include "base/arguments.h"
#include "base/memory.h"

#include <math.h>

static gconv_status take(const gconv_json_part *part, gconv_layer *layer) {
  int32_t *const stride[] = {&layer->stride_y, &layer->stride_x};
  layer->stride_y = layer->stride_x = 1;
  GCONV_TRY(gconv_json_take_numbers(part, "stride", 1, 2, stride));
  return gconv_layer_take_activation(part, layer);
}

static bool put(const gconv_layer *layer, json_t *object) {
  return gconv_json_put(object, "stride", json_pack("[i, i]", layer->stride_y, layer->stride_x)) &&
         gconv_layer_put_activation(layer, object);
}

static gconv_status check(const gconv_layer *layer, const char *where) {
  enum { MOST_STRIDE = 1 << 16 };
  GCONV_TRY(gconv_layer_check_weights(layer->bank, where));
  GCONV_TRY(gconv_check_value("the stride of upconv, down", layer->stride_y, 1, MOST_STRIDE));
  GCONV_TRY(gconv_check_value("the stride of upconv, across", layer->stride_x, 1, MOST_STRIDE));
  GCONV_TRY(gconv_check_value("the activation of upconv", layer->activation, 0, GCONV_ACTIVATIONS - 1));
  return isfinite(layer->slope) ? GCONV_OK : gconv_fail(GCONV_BAD_ARGUMENT, "%s: a slope that is not finite", where);
}

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  if (layer->bank->channels != at->channels)
    return gconv_fail(GCONV_BAD_ARGUMENT, "upconv takes %d channels, and gets %d", layer->bank->channels, at->channels);
  at->channels = layer->bank->filters;
  return gconv_layer_enlarge(layer->stride_y, layer->stride_x, at);
}

/* Copies the weights in ONNX's order, C x K x R x S. gconv_release() frees the copy. */
static gconv_status transpose_weights(const gconv_bank *bank, float **transposed) {
  const size_t plane = (size_t)bank->rows * (size_t)bank->columns, filters = (size_t)bank->filters,
               channels = (size_t)bank->channels;
  GCONV_ALLOCATE(*transposed, filters * channels * plane * sizeof **transposed, "the weights of an ONNX model");
  for (size_t k = 0; k < filters; k++)
    for (size_t c = 0; c < channels; c++)
      for (size_t t = 0; t < plane; t++)
        (*transposed)[(c * filters + k) * plane + t] = bank->weights[(k * channels + c) * plane + t];
  return GCONV_OK;
}

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  const gconv_bank *bank = layer->bank;
  const int64_t shape[] = {bank->channels, bank->filters, bank->rows, bank->columns}, filters = bank->filters;
  const int64_t over_y = bank->rows - layer->stride_y,
                over_x = bank->columns - layer->stride_x; /* how far filters overlap */
  const int64_t above = over_y > 0 ? over_y / 2 : 0, left = over_x > 0 ? over_x / 2 : 0;
  const int64_t below = over_y > 0 ? over_y - above : 0, right = over_x > 0 ? over_x - left : 0;
  float *weights = NULL;
  GCONV_TRY(transpose_weights(bank, &weights));
  gconv_onnx_put_node(writer, "ConvTranspose");
  gconv_onnx_put_floats(writer, "weight", 4, shape, weights);
  gconv_release(weights);
  if (bank->biases)
    gconv_onnx_put_floats(writer, "bias", 1, &filters, bank->biases);
  gconv_onnx_put_attribute_integers(writer, "kernel_shape", 2, shape + 2);
  gconv_onnx_put_attribute_integers(writer, "strides", 2, (int64_t[]){layer->stride_y, layer->stride_x});
  gconv_onnx_put_attribute_integers(writer, "pads", 4, (int64_t[]){above, left, below, right});
  if (over_y < 0 || over_x < 0)
    gconv_onnx_put_attribute_integers(writer, "output_padding", 2,
                                      (int64_t[]){over_y < 0 ? -over_y : 0, over_x < 0 ? -over_x : 0});
  gconv_onnx_put_activation(writer, layer);
  return GCONV_OK;
}

GCONV_LAYER_FORM(upconv, true, true, GCONV_TEXT_FILTERS | GCONV_TEXT_SIZE | GCONV_TEXT_ACTIVATION, 1,
                 GCONV_KEYS("kind", "stride", "activation", "slope"), take, put, check, follow, export);

/* SPDX-License-Identifier: MIT */
/* Batch normalisation: (v - mean) / sqrt(variance + epsilon) * scale + bias, for each channel. Training takes mean and
 * variance of the batch, and keeps running means of both for inference. The bank is C x 3 x 1 x 1: scale, mean, variance. */
#include "bank/network_file.h"
#include "bank/onnx_write.h"
#include "base/arguments.h"
#include "base/memory.h"

#include <math.h>

static gconv_status check_shape(const gconv_bank *bank) {
  if (bank->channels == 3 && bank->rows == 1 && bank->columns == 1)
    return GCONV_OK;
  return gconv_fail(
      GCONV_BAD_ARGUMENT,
      "the weights of batchnorm are C x 3 x 1 x 1, scale, mean and variance of each channel, not %d x %d x %d x %d",
      bank->filters, bank->channels, bank->rows, bank->columns);
}

static gconv_status check(const gconv_layer *layer, const char *where) {
  GCONV_TRY(gconv_layer_check_weights(layer->bank, where));
  const gconv_status status = check_shape(layer->bank);
  if (status != GCONV_OK)
    return gconv_fail_in(status, "%s", where);
  GCONV_TRY(gconv_check_value("the activation of batchnorm", layer->activation, 0, GCONV_ACTIVATIONS - 1));
  return isfinite(layer->slope) ? GCONV_OK : gconv_fail(GCONV_BAD_ARGUMENT, "%s: a slope that is not finite", where);
}

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  const gconv_bank *bank = layer->bank;
  GCONV_TRY(check_shape(bank));
  if (bank->filters != at->channels)
    return gconv_fail(GCONV_BAD_ARGUMENT, "batchnorm of %d channels gets %d", bank->filters, at->channels);
  for (int32_t k = 0; bank->weights && k < bank->filters; k++)
    if (!(bank->weights[3 * k + 2] >= 0))
      return gconv_fail(GCONV_BAD_ARGUMENT, "the variance of channel %d of batchnorm is %g: it is at least 0", k,
                        (double)bank->weights[3 * k + 2]);
  return GCONV_OK;
}

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  static const char *const parts[] = {"scale", "bias", "mean", "variance"};
  const gconv_bank *bank = layer->bank;
  const int64_t count = bank->filters;
  const int source[] = {0, -1, 1, 2}; /* index of one of the three weights of a channel; -1: the bias */
  GCONV_FREED float *numbers = NULL;
  GCONV_ALLOCATE(numbers, (size_t)count * sizeof *numbers, "an ONNX model");
  gconv_onnx_put_node(writer, "BatchNormalization");
  for (int i = 0; i < 4; i++) {
    for (int64_t k = 0; k < count; k++)
      numbers[k] = source[i] >= 0 ? bank->weights[3 * k + source[i]] : bank->biases ? bank->biases[k] : 0;
    gconv_onnx_put_floats(writer, parts[i], 1, &count, numbers);
  }
  gconv_onnx_put_attribute_float(writer, "epsilon", GCONV_LAYER_EPSILON);
  gconv_onnx_put_activation(writer, layer);
  return GCONV_OK;
}

GCONV_LAYER_FORM(batchnorm, true, true, GCONV_TEXT_ACTIVATION, 1, GCONV_KEYS("kind", "activation", "slope"),
                 gconv_layer_take_activation, gconv_layer_put_activation, check, follow, export);

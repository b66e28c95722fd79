/* SPDX-License-Identifier: MIT */
/* PReLU: values below 0 are multiplied by a learned slope, one for each channel. */
#include "bank/onnx_write.h"

static gconv_status check_shape(const gconv_bank *bank) {
  if (bank->channels == 1 && bank->rows == 1 && bank->columns == 1 && !bank->biases)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "the slopes of prelu are C x 1 x 1 x 1 weights without biases, not %d x %d x %d x %d%s", bank->filters,
                    bank->channels, bank->rows, bank->columns, bank->biases ? " with biases" : "");
}

static gconv_status check(const gconv_layer *layer, const char *where) {
  GCONV_TRY(gconv_layer_check_weights(layer->bank, where));
  const gconv_status status = check_shape(layer->bank);
  return status == GCONV_OK ? status : gconv_fail_in(status, "%s", where);
}

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  GCONV_TRY(check_shape(layer->bank));
  if (layer->bank->filters != at->channels)
    return gconv_fail(GCONV_BAD_ARGUMENT, "prelu has %d slopes for %d channels: one each is needed", layer->bank->filters,
                      at->channels);
  return GCONV_OK;
}

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  const int64_t shape[] = {layer->bank->filters, 1, 1};
  gconv_onnx_put_node(writer, "PRelu");
  gconv_onnx_put_floats(writer, "weight", gconv_onnx_has_rows(writer) ? 1 : 3, shape, layer->bank->weights);
  return GCONV_OK;
}

GCONV_LAYER_FORM(prelu, true, false, 0, 1, GCONV_KEYS("kind"), gconv_layer_take_bare, gconv_layer_put_bare, check, follow,
                 export);

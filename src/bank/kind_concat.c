/* SPDX-License-Identifier: MIT */
/* Concat: appends the channels of an earlier output to those of the input, as in the skip connections of U-Net. */
#include "bank/onnx_write.h"

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  GCONV_TRY(gconv_layer_check_sizes("concat puts", at, other));
  if (at->channels > INT32_MAX - other->channels)
    return gconv_fail(GCONV_TOO_LARGE, "concat yields more than %d channels", INT32_MAX);
  at->channels += other->channels;
  return GCONV_OK;
}

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  gconv_onnx_put_node(writer, "Concat");
  gconv_onnx_put_input(writer, gconv_onnx_output_of(writer, (size_t)layer->from));
  gconv_onnx_put_attribute_integer(writer, "axis", 1);
  return GCONV_OK;
}

GCONV_LAYER_FORM(concat, false, false, GCONV_TEXT_NAME, 0, GCONV_KEYS("kind", "from"), gconv_layer_take_from,
                 gconv_layer_put_from, gconv_layer_check_bare, follow, export);

/* SPDX-License-Identifier: MIT */
/* Add: adds an earlier output, as in the blocks of ResNet. */
#include "bank/onnx_write.h"

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  if (at->channels != other->channels)
    return gconv_fail(GCONV_BAD_ARGUMENT, "add adds %d channels to %d: the numbers must be equal", other->channels,
                      at->channels);
  return gconv_layer_check_sizes("add adds", at, other);
}

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  gconv_onnx_put_node(writer, "Add");
  gconv_onnx_put_input(writer, gconv_onnx_output_of(writer, (size_t)layer->from));
  return GCONV_OK;
}

GCONV_LAYER_FORM(add, false, false, GCONV_TEXT_NAME, 0, GCONV_KEYS("kind", "from"), gconv_layer_take_from,
                 gconv_layer_put_from, gconv_layer_check_bare, follow, export);

/* SPDX-License-Identifier: MIT */
/* Residual layers: they add the input of the network. */
#include "bank/onnx_write.h"

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *first, gconv_layer_shape *at) {
  if (at->channels == first->channels && at->height == first->height && at->width == first->width && !at->moved)
    return GCONV_OK;
  if (at->height == 0 || first->height == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "residual adds the %d channels of the input to %d%s: the shapes must be equal%s",
                      first->channels, at->channels, at->moved ? " and another size" : "",
                      at->moved ? "; where pools and upconv bring the size back, take add in its place" : "");
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "residual adds the input of %d x %d x %d (channels, height, width) to %d x %d x %d: the shapes must be "
                    "equal: give the layers before it padding same and stride 1",
                    first->channels, first->height, first->width, at->channels, at->height, at->width);
}

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  gconv_onnx_put_node(writer, "Add");
  gconv_onnx_put_input(writer, gconv_onnx_output_of(writer, 0));
  return GCONV_OK;
}

GCONV_LAYER_FORM(residual, false, false, 0, 0, GCONV_KEYS("kind"), gconv_layer_take_bare, gconv_layer_put_bare,
                 gconv_layer_check_bare, follow, export);

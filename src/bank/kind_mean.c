/* SPDX-License-Identifier: MIT */
/* Means of each channel over height and width. */
#include "bank/onnx_write.h"

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  at->height = at->width = 1;
  at->moved = false;
  return GCONV_OK;
}

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  gconv_onnx_put_node(writer, "GlobalAveragePool");
  return GCONV_OK;
}

GCONV_LAYER_FORM(mean, false, false, 0, 1, GCONV_KEYS("kind"), gconv_layer_take_bare, gconv_layer_put_bare,
                 gconv_layer_check_bare, follow, export);

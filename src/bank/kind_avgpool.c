/* SPDX-License-Identifier: MIT */
/* Pools: the mean of each window. */
#include "bank/onnx_write.h"

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  gconv_onnx_put_window(writer, layer, "AveragePool");
  return GCONV_OK;
}

GCONV_LAYER_FORM(avgpool, false, false, GCONV_TEXT_WINDOW, 1, GCONV_KEYS("kind", "window", "stride"),
                 gconv_layer_take_window, gconv_layer_put_window, gconv_layer_check_window, gconv_layer_follow_window,
                 export);

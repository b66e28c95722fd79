/* SPDX-License-Identifier: MIT */
/* Pixel shuffle, or depth to space: N * N channels become one, with N times as many rows and columns. As in PyTorch's
 * PixelShuffle, input channel c * N * N + i * N + j has the pixels (i, j) of each N x N block of output channel c. */
#include "bank/onnx_write.h"

#include <inttypes.h>

enum { MOST_FACTOR = 1024 };

static gconv_status take(const gconv_json_part *part, gconv_layer *layer) {
  int32_t *const factor[] = {&layer->window_y};
  if (!json_object_get(part->json, "factor"))
    return gconv_json_fail(part, GCONV_BAD_FILE, "it has no 'factor', a number");
  GCONV_TRY(gconv_json_take_numbers(part, "factor", 1, 1, factor));
  layer->window_x = layer->window_y;
  return GCONV_OK;
}

static bool put(const gconv_layer *layer, json_t *object) {
  return gconv_json_put(object, "factor", json_integer(layer->window_y));
}

static gconv_status check(const gconv_layer *layer, const char *where) {
  GCONV_TRY(gconv_layer_check_bare(layer, where));
  if (layer->window_y < 1 || layer->window_y > MOST_FACTOR || layer->window_x != layer->window_y)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: shuffle makes images N times as large, where N is from 1 to %d, not %d x %d",
                      where, MOST_FACTOR, layer->window_y, layer->window_x);
  return GCONV_OK;
}

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  const int64_t n = layer->window_y;
  if (at->channels % (n * n) != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "shuffle %" PRId64 " makes one channel of %" PRId64
                      ", and gets %d: give the layer before it a multiple of "
                      "%" PRId64 " filters",
                      n, n * n, at->channels, n * n);
  at->channels = (int32_t)(at->channels / (n * n));
  return gconv_layer_enlarge(layer->window_y, layer->window_x, at);
}

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  gconv_onnx_put_node(writer, "DepthToSpace");
  gconv_onnx_put_attribute_integer(writer, "blocksize", layer->window_y);
  gconv_onnx_put_attribute_text(writer, "mode", "CRD");
  return GCONV_OK;
}

GCONV_LAYER_FORM(shuffle, false, false, GCONV_TEXT_FACTOR, 1, GCONV_KEYS("kind", "factor"), take, put, check, follow,
                 export);

/* SPDX-License-Identifier: MIT */
/* Means of each channel over height and width. */
#include "bank/onnx_rows.h"
#include "bank/onnx_write.h"

static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  (void)layer;
  (void)other;
  at->height = at->width = 1;
  at->moved = false;
  return GCONV_OK;
}

static gconv_status make_mean(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_layer *layer;
  g->height = g->width = 1;
  return gconv_network_append(g->network, n->file->path, &(gconv_layer){.kind = GCONV_LAYER_MEAN}, false, &layer);
}

static gconv_status make_reduce_mean(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_onnx_integers axes;
  bool given;
  GCONV_TRY(gconv_onnx_read_list(g, n, "axes", 1, &axes, &given));
  if (!gconv_onnx_are_height_and_width(&axes))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is no mean over height and width, axes 2 and 3");
  GCONV_TRY(make_mean(g, n));
  if (gconv_onnx_integer_of(n, "keepdims", 1) == 0)
    g->layout = GCONV_ONNX_ROWS;
  return GCONV_OK;
}

static rules none = {END};
static rules reduced = {INTS("axes", 1, 17), INT("keepdims", 1, NEWEST), INT("noop_with_empty_axes", 18, NEWEST), END};
static const gconv_onnx_operator operators[] = {
    {"GlobalAveragePool", 1, 1, 1, IMAGES, make_mean, none, 0},
    {"ReduceMean", 1, 1, 2, IMAGES, make_reduce_mean, reduced, 0},
    {0},
};

static gconv_status export(gconv_onnx_writer *writer, const gconv_layer *layer) {
  (void)layer;
  gconv_onnx_put_node(writer, "GlobalAveragePool");
  return GCONV_OK;
}

GCONV_LAYER_FORM(mean, false, false, 0, 1, GCONV_KEYS("kind"), gconv_layer_take_bare, gconv_layer_put_bare,
                 gconv_layer_check_bare, follow, operators, export);

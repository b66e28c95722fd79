/* SPDX-License-Identifier: MIT */
/* GridSample: outputs are samples of input 0 at places that input 1 lists, -1 .. 1 along each of one to three axes. */
#include "bank/onnx_rules.h"
#include "graph/node.h"
#include "kernels/resize.h"

#include <math.h>
#include <string.h>

enum { DIMENSIONS = 3, TAPS = 4, PRODUCTS = TAPS * TAPS * TAPS };
typedef enum padding { ZEROS, BORDER, REFLECTION } padding;

typedef struct settings {
  gconv_resize_mode mode;
  padding padding;
  bool corners; /* -1 and 1 are the middles of the outermost elements; else, their outer edges */
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  static const char *const old_modes[] = {"nearest", "bilinear", "bicubic", NULL};
  static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
  static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
  settings *s = made;
  int32_t mode = GCONV_RESIZE_LINEAR, outside = ZEROS;
  GCONV_TRY(gconv_node_attribute_choice(node, "mode", opset < 20 ? old_modes : modes, &mode));
  GCONV_TRY(gconv_node_attribute_choice(node, "padding_mode", paddings, &outside));
  *s = (settings){(gconv_resize_mode)mode, (padding)outside, gconv_onnx_integer_of(node, "align_corners", 0) != 0};
  return GCONV_OK;
}

/* The input is N x C x any axes, the places N x any axes x 3, for three axes: x, y and z. */
static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *x = work->in[0], *places = work->in[1];
  const int32_t axes = x->axes - 2;
  gconv_tensor out = *x;
  GCONV_TRY(gconv_node_need_real(work, 0, 0));
  GCONV_TRY(gconv_node_need_real(work, 1, 1));
  if (axes < 1 || axes > DIMENSIONS || places->axes != x->axes || places->shape[axes + 1] != axes ||
      places->shape[0] != x->shape[0])
    return gconv_fail(GCONV_UNSUPPORTED,
                      "takes a tensor of %d axes and places of %d axes, which do not fit: images are N x C x H x W, and "
                      "places N x H x W x 2",
                      x->axes, places->axes);
  if (gconv_tensor_count(x, 2, x->axes) == 0)
    return gconv_fail(GCONV_BAD_FILE, "takes elements of an image that has none");
  memcpy(out.shape + 2, places->shape + 1, (size_t)axes * sizeof *out.shape);
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

/* ---- Places ---- */

/* Returns a place that is reflected at two edges until it lies between them. */
static double reflected(double x, double low, double high) {
  const double span = high - low;
  if (x >= low && x <= high)
    return x;
  if (span <= 0)
    return low;
  const double far = x < low ? low - x : x - high, turns = floor(far / span), rest = far - turns * span;
  return (fmod(turns, 2) == 0) == (x < low) ? low + rest : high - rest;
}

/* Converts a number from -1 to 1 into a place among `size` elements, in the precision of the numbers. */
static double place_of(const gconv_tensor *places, int64_t i, int64_t size, bool corners) {
  if (places->type == GCONV_TENSOR_F64) {
    const double n = ((const double *)places->data)[i];
    return corners ? (n + 1) / 2 * (double)(size - 1) : ((n + 1) * (double)size - 1) / 2;
  }
  const float n = ((const float *)places->data)[i];
  return (double)(corners ? (n + 1) / 2 * (float)(size - 1) : ((n + 1) * (float)size - 1) / 2);
}

/* The elements of an axis that make an output, and their weights. An index of -1 is the value 0. */
typedef struct taps {
  int32_t count;
  int64_t index[TAPS];
  double weight[TAPS];
} taps;

static int64_t index_of(const settings *s, double at, int64_t size, double low, double high) {
  if (at >= 0 && at <= (double)(size - 1))
    return (int64_t)at;
  if (s->padding == ZEROS)
    return -1;
  const double moved = s->padding == REFLECTION ? reflected(at, low, high) : at;
  return moved < 0 ? 0 : moved > (double)(size - 1) ? size - 1 : (int64_t)moved;
}

static taps find_taps(const settings *s, const gconv_tensor *places, int64_t i, int64_t size) {
  const gconv_resize_axis weights = {.mode = s->mode, .cubic = -0.75};
  const double low = s->corners ? 0 : -0.5, high = (double)size - (s->corners ? 1 : 0.5), last = (double)(size - 1);
  double x = place_of(places, i, size, s->corners);
  x = x != x ? low - 4 : fmin(fmax(x, -0x1p40), 0x1p40); /* NaN lies outside */
  if (s->mode == GCONV_RESIZE_NEAREST)
    x = rint(x);
  if ((x < low || x > high) && s->padding == BORDER && s->mode != GCONV_RESIZE_CUBIC) /* cubic taps move by themselves */
    x = x < 0 ? 0 : last;
  else if (s->padding == REFLECTION)
    x = reflected(x, low, high);
  if (s->mode == GCONV_RESIZE_NEAREST)
    return (taps){1, {index_of(s, x, size, low, high)}, {1}};
  taps t = {.count = s->mode == GCONV_RESIZE_LINEAR ? 2 : TAPS};
  for (int32_t k = 0; k < t.count; k++) {
    const double at = floor(x) + k - (t.count / 2 - 1);
    t.index[k] = index_of(s, at, size, low, high);
    t.weight[k] = gconv_resize_weight(&weights, x - at);
  }
  return t;
}

/* ---- Runs ---- */

/* The elements of a channel that make an output, and their weights. All channels have the same. */
typedef struct products {
  int32_t count;
  int64_t index[PRODUCTS];
  double weight[PRODUCTS];
} products;

static void find_products(const gconv_node_work *work, int64_t point, products *p) {
  const gconv_tensor *x = work->in[0];
  const int32_t axes = x->axes - 2;
  *p = (products){.count = 1, .index = {0}, .weight = {1}};
  for (int32_t axis = 0; axis < axes; axis++) { /* the numbers of a point are in the opposite order: x, y, z */
    const int64_t size = x->shape[2 + axis];
    const taps t = find_taps(work->settings, work->in[1], point * axes + axes - 1 - axis, size);
    const products before = *p;
    p->count = 0;
    for (int32_t i = 0; i < before.count; i++)
      for (int32_t k = 0; k < t.count; k++)
        if (t.index[k] >= 0) {
          p->index[p->count] = before.index[i] * size + t.index[k];
          p->weight[p->count++] = before.weight[i] * t.weight[k];
        }
  }
}

/* Makes outputs begin .. end - 1 of each channel; points of all images are counted one after the other. */
static void sample(void *context, int64_t begin, int64_t end) {
  const gconv_node_work *work = context;
  const gconv_tensor *x = work->in[0], *out = work->out[0];
  const int64_t channels = x->shape[1], plane = gconv_tensor_count(x, 2, x->axes),
                points = gconv_tensor_count(out, 2, out->axes);
  products p;
  for (int64_t i = begin; i < end; i++) {
    find_products(work, i, &p);
    for (int64_t c = 0; c < channels; c++) {
      const int64_t from = (i / points * channels + c) * plane, to = (i / points * channels + c) * points + i % points;
      double sum = 0;
      for (int32_t k = 0; k < p.count; k++)
        sum += p.weight[k] * (x->type == GCONV_TENSOR_F32 ? (double)((const float *)x->data)[from + p.index[k]]
                                                          : ((const double *)x->data)[from + p.index[k]]);
      if (x->type == GCONV_TENSOR_F32)
        ((float *)out->data)[to] = (float)sum;
      else
        ((double *)out->data)[to] = sum;
    }
  }
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *out = work->out[0];
  if (gconv_tensor_elements(out) > 0)
    gconv_node_share(work, out->shape[0] * gconv_tensor_count(out, 2, out->axes), (1 << 12) / (out->shape[1] + 4) + 1,
                     sample, (void *)work);
  return GCONV_OK;
}

static rules rules_of_sample = {STRING("mode"), STRING("padding_mode"), INT("align_corners", 16, NEWEST), END};

const gconv_node_kind gconv_node_kinds_sample[] = {
    GCONV_NODE_KIND("GridSample", 16, NEWEST, 2, 2, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, rules_of_sample, 0,
                    sizeof(settings), parse, shape, run, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL),
    GCONV_NODE_KIND_END,
};

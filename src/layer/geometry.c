/* SPDX-License-Identifier: MIT */
/* Makes the problem that algorithms solve from what a user asks of a layer. */
#include "bank/kind.h"
#include "base/memory.h"
#include "layer/kind.h"

#include <string.h>

/* Positions and extents along an axis stay below LARGEST_EXTENT, so that kernels may count them in int32_t. Explicit padding
 * may be at most MOST_PADDING times the span of image and filter; beyond, outputs would be made of zeros only. */
enum { LARGEST_EXTENT = 1 << 30, MOST_PADDING = 16 };

/* One axis of a layer, and its resolved values. */
typedef struct axis {
  const char *name;
  int32_t size, taps, stride, dilation;
  gconv_layer_padding padding;
  int32_t before, after; /* before and after of explicit padding; `before` becomes the resolved value */
  int32_t anchor;        /* for same padding: the tap that goes over the pixels */
  int32_t outputs;
} axis;

static gconv_status check_axis(const axis *a, const char *where) {
  if (a->stride < 1 || a->dilation < 1 || a->before < 0 || a->after < 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: stride %d, dilation %d, padding %d and %d (%s): strides and dilations must be "
                      "at least 1, padding at least 0",
                      where, a->stride, a->dilation, a->before, a->after, a->name);
  int64_t extent = (int64_t)(a->taps - 1) * a->dilation + 1;
  if (extent > LARGEST_EXTENT || a->stride > LARGEST_EXTENT || (int64_t)a->size + a->before + a->after > LARGEST_EXTENT)
    return gconv_fail(GCONV_TOO_LARGE,
                      "%s: a %s of %d, padded by %d and %d, under a filter that spans %lld: the limit is %d", where, a->name,
                      a->size, a->before, a->after, (long long)extent, LARGEST_EXTENT);
  int32_t most = a->before > a->after ? a->before : a->after;
  if (most > MOST_PADDING * (a->size + extent))
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s: a padding of %d (%s): beyond %lld pixels, a filter that spans %lld sees nothing of the image, and "
        "its outputs are all alike; more than %lld are refused",
        where, most, a->name, (long long)extent - 1, (long long)extent, (long long)(MOST_PADDING * (a->size + extent)));
  return GCONV_OK;
}

static gconv_status resolve_axis(axis *a, const char *where) {
  GCONV_TRY(check_axis(a, where));
  int64_t extent = (int64_t)(a->taps - 1) * a->dilation + 1, visited = ((int64_t)a->size - 1) / a->stride + 1;
  int64_t missing = (visited - 1) * a->stride + extent - a->size; /* the zeros that `visited` outputs need */
  missing = missing > 0 ? missing : 0;
  a->outputs = (int32_t)visited;
  switch (a->padding) {
  case GCONV_LAYER_SAME:
    a->before = a->anchor * a->dilation;
    return GCONV_OK;
  case GCONV_LAYER_SAME_UPPER:
  case GCONV_LAYER_SAME_LOWER:
    a->before = (int32_t)((missing + (a->padding == GCONV_LAYER_SAME_LOWER)) / 2);
    return GCONV_OK;
  case GCONV_LAYER_FULL:
    a->before = a->after = (int32_t)(extent - 1);
    break;
  case GCONV_LAYER_DEFAULT: /* gconv_layer_settled() has replaced it */
  case GCONV_LAYER_VALID:
  case GCONV_LAYER_EXPLICIT:
    break;
  }
  int64_t reach = (int64_t)a->size + a->before + a->after - extent;
  if (reach < 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s leaves no output: a filter spans %lld pixels of %s, the image has %d and "
                      "padding %d: pad more, or use padding same",
                      where, (long long)extent, a->name, a->size, a->before + a->after);
  a->outputs = (int32_t)(reach / a->stride + 1);
  return GCONV_OK;
}

static gconv_status resolve_axes(const gconv_layer *layer, const char *where, gconv_layer_problem *problem) {
  const gconv_bank *bank = layer->bank;
  const gconv_layer s = gconv_layer_settled(layer);
  axis y = {"height", problem->height, bank->rows, s.stride_y, s.dilation_y, s.padding, s.pad_top, s.pad_bottom, 0, 0};
  axis x = {"width", problem->width, bank->columns, s.stride_x, s.dilation_x, s.padding, s.pad_left, s.pad_right, 0, 0};
  y.anchor = layer->flip ? bank->rows - 1 - bank->rows / 2 : bank->rows / 2;
  x.anchor = layer->flip ? bank->columns - 1 - bank->columns / 2 : bank->columns / 2;
  GCONV_TRY(resolve_axis(&y, where));
  GCONV_TRY(resolve_axis(&x, where));
  problem->rows = y.taps;
  problem->columns = x.taps;
  problem->pad_top = y.before;
  problem->pad_left = x.before;
  problem->stride_y = y.stride;
  problem->stride_x = x.stride;
  problem->dilation_y = y.dilation;
  problem->dilation_x = x.dilation;
  problem->out_height = y.outputs;
  problem->out_width = x.outputs;
  return GCONV_OK;
}

/* ---- Channels ---- */

/* Returns whether the bank is applied to each channel separately: nothing sets groups. */
static bool is_each(const gconv_layer *settled) {
  return settled->groups == 0 && settled->bank->channels == 1;
}

int32_t gconv_layer_channels(const gconv_layer *layer, int32_t channels, bool alpha) {
  const gconv_layer settled = gconv_layer_settled(layer);
  const int32_t groups = settled.groups;
  if (!alpha || channels < 2)
    return channels;
  if (is_each(&settled))
    return channels - 1;
  return (int64_t)layer->bank->channels * (groups ? groups : 1) == channels ? channels : channels - 1;
}

/* Returns a hint for the error if the input does not have the number of channels that a bank needs. */
static const char *find_remedy(int64_t wanted, int32_t channels, int32_t height, int32_t width) {
  return wanted == width                ? "; or, where an array has its channels last, --layout nhwc"
         : wanted == height             ? "; or, where an array has its channels before its rows, --layout nchw"
         : wanted == 3 && channels == 1 ? "; a grey image can be saved as RGB"
                                        : "";
}

static gconv_status resolve_groups(const gconv_layer *layer, const char *where, int32_t channels, int32_t height,
                                   int32_t width, int32_t *groups) {
  const gconv_bank *bank = layer->bank;
  bool named = bank->name && bank->name[0];
  const char *space = named ? " " : "", *name = named ? bank->name : "";
  *groups = gconv_layer_settled(layer).groups;
  if (*groups < 0 || (*groups > 0 && bank->filters % *groups != 0))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %d groups do not divide the %d filters of the bank%s%s", where, *groups,
                      bank->filters, space, name);
  if (*groups == 0)
    *groups = 1;
  int64_t wanted = (int64_t)bank->channels * *groups;
  if (wanted == channels)
    return GCONV_OK;
  char each[64] = "";
  if (*groups > 1)
    snprintf(each, sizeof each, " (%d in each of %d groups)", bank->channels, *groups);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: the bank%s%s takes %lld channels%s, and gets %d: give it an image, a layer before it or --groups "
                    "that fit%s",
                    where, space, name, (long long)wanted, each, channels, find_remedy(wanted, channels, height, width));
}

/* Returns whether a tensor of this size is too large: its bytes must fit a ptrdiff_t. */
static bool is_too_large(int32_t images, int32_t channels, int32_t height, int32_t width) {
  size_t factors[] = {(size_t)images, (size_t)channels, (size_t)height, (size_t)width, sizeof(float)};
  return gconv_checked_product(5, factors) > PTRDIFF_MAX;
}

static float slope_of(const gconv_layer *layer) {
  return layer->activation == GCONV_ACTIVATION_SIGMOID && layer->slope == 0 ? 1 : layer->slope;
}

gconv_status gconv_layer_resolve_bare(const gconv_layer *layer, const char *where, const gconv_layer_input *in,
                                      gconv_step *step) {
  gconv_layer_shape at = in->shape;
  const gconv_status status = gconv_layer_form_of(layer->kind)->follow(layer, &in->first, &at);
  if (status != GCONV_OK)
    return gconv_fail_in(status, "%s", where);
  *step = (gconv_step){.kind = layer->kind, .images = in->images, .out_channels = at.channels};
  step->problem = (gconv_layer_problem){.images = in->images,
                                        .channels = in->shape.channels,
                                        .height = in->shape.height,
                                        .width = in->shape.width,
                                        .filters = at.channels,
                                        .rows = layer->bank           ? layer->bank->rows
                                                : layer->window_y > 0 ? layer->window_y
                                                                      : 1,
                                        .columns = layer->bank           ? layer->bank->columns
                                                   : layer->window_x > 0 ? layer->window_x
                                                                         : 1,
                                        .groups = in->shape.channels,
                                        .stride_y = layer->stride_y > 0 ? layer->stride_y : 1,
                                        .stride_x = layer->stride_x > 0 ? layer->stride_x : 1,
                                        .dilation_y = 1,
                                        .dilation_x = 1,
                                        .out_height = at.height,
                                        .out_width = at.width,
                                        .activation = layer->activation,
                                        .slope = slope_of(layer)};
  return GCONV_OK;
}

gconv_status gconv_layer_resolve_conv(const gconv_layer *layer, const char *where, const gconv_layer_input *in,
                                      gconv_step *step) {
  const int32_t images = in->images, channels = in->shape.channels, height = in->shape.height, width = in->shape.width;
  const gconv_bank *bank = layer->bank;
  const gconv_layer settled = gconv_layer_settled(layer);
  bool each = is_each(&settled) && channels > 1;
  gconv_layer_problem *problem = &step->problem;
  *step = (gconv_step){0};
  problem->groups = 1;
  if (!each)
    GCONV_TRY(resolve_groups(layer, where, channels, height, width, &problem->groups));
  int64_t all = each ? (int64_t)images * channels : images,
          outputs = each ? (int64_t)channels * bank->filters : bank->filters;
  if (all > INT32_MAX || outputs > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s: %d images of %d channels under %d filters: take fewer images at a time", where,
                      images, channels, bank->filters);
  step->images = problem->images = (int32_t)all;
  step->out_channels = (int32_t)outputs;
  step->info.each = each;
  problem->channels = each ? 1 : channels;
  problem->height = height;
  problem->width = width;
  problem->filters = bank->filters;
  step->softmax = layer->activation == GCONV_ACTIVATION_SOFTMAX;
  problem->activation = step->softmax ? GCONV_ACTIVATION_NONE : layer->activation;
  problem->slope = slope_of(layer);
  GCONV_TRY(resolve_axes(layer, where, problem));
  if (is_too_large(images, channels, height, width) ||
      is_too_large(images, step->out_channels, problem->out_height, problem->out_width) ||
      is_too_large(bank->filters, bank->channels, bank->rows, bank->columns))
    return gconv_fail(GCONV_TOO_LARGE, "%s: %d outputs of %d x %d for %d images are larger than any memory", where,
                      step->out_channels, problem->out_width, problem->out_height, images);
  return GCONV_OK;
}

/* ---- Weights ---- */

void gconv_layer_copy_planes(const float *from, size_t planes, size_t plane, bool flip, float *to) {
  if (!flip)
    memcpy(to, from, planes * plane * sizeof *to);
  for (size_t i = 0; flip && i < planes; i++)
    for (size_t t = 0; t < plane; t++)
      to[i * plane + t] = from[i * plane + plane - 1 - t];
}

void gconv_layer_copy_weights(const gconv_layer *layer, float *weights) {
  const gconv_bank *bank = layer->bank;
  size_t plane = (size_t)bank->rows * (size_t)bank->columns, planes = (size_t)bank->filters * (size_t)bank->channels;
  gconv_layer_copy_planes(bank->weights, planes, plane, layer->flip, weights);
  for (int32_t k = 0; k < bank->filters; k++)
    weights[planes * plane + (size_t)k] = bank->biases ? bank->biases[k] : 0;
}

gconv_status gconv_layer_weights(const gconv_layer *layer, gconv_step *step) {
  const gconv_layer_problem *problem = &step->problem;
  const gconv_layer_algorithm *algorithm = step->algorithm;
  const size_t plain = (size_t)gconv_layer_weight_floats(problem);
  GCONV_TRY(gconv_layer_new_weights(algorithm, problem, &step->weights, &step->weight_count));
  gconv_layer_copy_weights(layer, step->weights);
  return algorithm->prepare ? algorithm->prepare(problem, step->weights, step->weights + plain) : GCONV_OK;
}

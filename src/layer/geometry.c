/* SPDX-License-Identifier: MIT */
/* Makes the problem that algorithms solve from the user's options for a layer. */
#include "bank/kind.h"
#include "base/memory.h"
#include "layer/kind.h"

/* Positions and extents along an axis stay below LARGEST_EXTENT, so that kernels may count them in int32_t. Explicit padding
 * may be at most MOST_PADDING times the span of image and filter: padding beyond the filter's span only adds
 * outputs that see no pixel of the image. */
enum { LARGEST_EXTENT = 1 << 30, MOST_PADDING = 16 };

/* One axis of a layer. */
typedef struct axis {
  const char *name;
  int32_t size, taps, stride, dilation, before, after; /* before, after: explicit padding */
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

/* Finds the padding before an axis, and the number of outputs. */
static gconv_status resolve_axis(const gconv_layer *layer, const char *where, const axis *a, bool columns, int32_t *before,
                                 int32_t *outputs) {
  GCONV_TRY(check_axis(a, where));
  *before = (int32_t)gconv_conv_pad(layer, a->size, columns);
  *outputs = gconv_conv_outputs(layer, a->size, columns);
  if (*outputs > 0)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s leaves no output: a filter spans %lld pixels of %s, the image has %d and "
                    "padding %d: pad more, or use padding same",
                    where, (long long)(a->taps - 1) * a->dilation + 1, a->name, a->size, a->before + a->after);
}

static gconv_status resolve_axes(const gconv_layer *layer, const char *where, gconv_layer_problem *problem) {
  const gconv_layer s = gconv_layer_settled(layer);
  const axis y = {"height", problem->height, s.bank->rows, s.stride_y, s.dilation_y, s.pad_top, s.pad_bottom};
  const axis x = {"width", problem->width, s.bank->columns, s.stride_x, s.dilation_x, s.pad_left, s.pad_right};
  problem->rows = y.taps;
  problem->columns = x.taps;
  problem->stride_y = y.stride;
  problem->stride_x = x.stride;
  problem->dilation_y = y.dilation;
  problem->dilation_x = x.dilation;
  GCONV_TRY(resolve_axis(layer, where, &y, false, &problem->pad_top, &problem->out_height));
  return resolve_axis(layer, where, &x, true, &problem->pad_left, &problem->out_width);
}

/* ---- Channels ---- */

/* Returns whether the bank is applied to each channel by itself: it has one channel, and groups are not set. */
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

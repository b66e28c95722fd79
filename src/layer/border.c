/* SPDX-License-Identifier: MIT */
/*
 * Borders of layers. A layer whose border is not zeros becomes two steps: the first copies the input into a larger tensor,
 * whose rim is filled by the rule of the border; the second is the layer without padding. So every algorithm of every device
 * solves it unchanged, and the exact family keeps its bits. The copy costs memory for the tensor, and the time to write it.
 */
#include "base/memory.h"
#include "layer/network.h"

enum { LARGEST_EXTENT = 1 << 30 }; /* as in geometry.c */

/* Returns how many rows or columns of the input `outputs` outputs need. */
static int64_t span(int32_t outputs, int32_t stride, int32_t taps, int32_t dilation) {
  return (int64_t)(outputs - 1) * stride + (int64_t)(taps - 1) * dilation + 1;
}

gconv_status gconv_layer_take_border(const gconv_layer *layer, const char *where, gconv_step *step, gconv_step *pads) {
  gconv_layer_problem *p = &step->problem;
  if (layer->border == GCONV_BORDER_ZERO)
    return GCONV_OK;
  int64_t height = span(p->out_height, p->stride_y, p->rows, p->dilation_y);
  int64_t width = span(p->out_width, p->stride_x, p->columns, p->dilation_x);
  if (p->pad_top == 0 && p->pad_left == 0 && height <= p->height && width <= p->width)
    return GCONV_OK; /* no filter reaches over the border */
  const size_t floats[] = {(size_t)step->images, (size_t)p->channels, (size_t)height, (size_t)width, sizeof(float)};
  if (height > LARGEST_EXTENT || width > LARGEST_EXTENT || gconv_checked_product(5, floats) > PTRDIFF_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s: its input, padded for border %s, would be %lld x %lld pixels: pad less", where,
                      gconv_border_name(layer->border), (long long)width, (long long)height);
  *pads = (gconv_step){.pads = true,
                       .border = layer->border,
                       .outside = (float)layer->border_value,
                       .images = step->images,
                       .out_channels = p->channels};
  pads->problem = (gconv_layer_problem){.images = step->images,
                                        .channels = p->channels,
                                        .height = p->height,
                                        .width = p->width,
                                        .filters = p->channels,
                                        .rows = 1,
                                        .columns = 1,
                                        .groups = p->channels,
                                        .pad_top = p->pad_top,
                                        .pad_left = p->pad_left,
                                        .stride_y = 1,
                                        .stride_x = 1,
                                        .dilation_y = 1,
                                        .dilation_x = 1,
                                        .out_height = (int32_t)height,
                                        .out_width = (int32_t)width};
  pads->whole = pads->problem;
  p->pad_top = p->pad_left = 0;
  p->height = (int32_t)height;
  p->width = (int32_t)width;
  return GCONV_OK;
}

/* Returns how far inside the edge the row lies that replaces a row `distance` rows outside. */
static int64_t depth(gconv_border border, int64_t distance) {
  return border == GCONV_BORDER_REFLECT101 ? distance : border == GCONV_BORDER_SYMMETRIC ? distance - 1 : 0;
}

/* A band has the rows under the filter of an output. If the filter reaches over the edge by some rows, the band must also
 * have the rows that replace them. */
bool gconv_step_pads_bands(const gconv_step *pads, const gconv_step *next) {
  const gconv_layer_problem *p = &pads->whole;
  const int64_t extent = (int64_t)(next->whole.rows - 1) * next->whole.dilation_y + 1;
  const int64_t outside[] = {p->pad_top, (int64_t)p->out_height - p->pad_top - p->height};
  if (pads->border == GCONV_BORDER_CONSTANT)
    return true;
  for (int i = 0; i < 2; i++) {
    int64_t inside = depth(pads->border, outside[i]);
    if (outside[i] > 0 && (pads->border == GCONV_BORDER_WRAP || outside[i] + inside >= extent || inside >= p->height))
      return false;
  }
  return true;
}

/* SPDX-License-Identifier: MIT */
#include "draw_layers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MOST_WORK = 1.5e6; /* multiply-adds of a layer */

static float number(uint64_t *lot) { /* in [-1, 1) */
  return (float)((double)(gconv_lot_next(lot) >> 40) * 0x1p-23 - 1);
}

__attribute__((format(printf, 2, 3))) static void tell(gconv_drawn_network *d, const char *format, ...) {
  size_t used = strlen(d->text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(d->text + used, sizeof d->text - used, format, arguments);
  va_end(arguments);
}

/* One axis: the padding before the image and the number of outputs; 0 where the filter finds no place. */
static int32_t place(gconv_layer_padding padding, int32_t size, int32_t taps, int32_t stride, int32_t dilation, bool flip,
                     int32_t before, int32_t after, int32_t *pad) {
  int32_t extent = (taps - 1) * dilation + 1, visited = (size + stride - 1) / stride;
  int32_t lacking = (visited - 1) * stride + extent - size;
  if (lacking < 0)
    lacking = 0;
  switch (padding) {
  case GCONV_LAYER_VALID:
    *pad = 0;
    return size < extent ? 0 : (size - extent) / stride + 1;
  case GCONV_LAYER_FULL:
    *pad = extent - 1;
    return (size + 2 * (extent - 1) - extent) / stride + 1;
  case GCONV_LAYER_EXPLICIT:
    *pad = before;
    return size + before + after < extent ? 0 : (size + before + after - extent) / stride + 1;
  case GCONV_LAYER_SAME_UPPER:
    *pad = lacking / 2;
    return visited;
  case GCONV_LAYER_SAME_LOWER:
    *pad = lacking - lacking / 2;
    return visited;
  default: /* same: tap taps / 2, which flip moves */
    *pad = (flip ? taps - 1 - taps / 2 : taps / 2) * dilation;
    return visited;
  }
}

/* Channels, groups and filters for an input of `channels`. */
static void draw_channels(uint64_t *lot, int32_t channels, gconv_drawn_layer *l) {
  static const int32_t counts[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 64, 65, 100, 129};
  int32_t k = GCONV_LOT_PICK(lot, counts), kind = gconv_lot_below(lot, 10), groups = 1;
  if (channels <= 3 && gconv_lot_chance(lot, 20)) /* first layers with many filters, a way of their own on tensor cores */
    k = 65 + gconv_lot_below(lot, 80);
  if (kind == 0 && channels > 1) { /* each channel by itself */
    l->each = true;
    l->bank.channels = 1;
    l->bank.filters = 1 + gconv_lot_below(lot, 6);
    l->groups = 1;
    l->filters = l->bank.filters * channels;
    return;
  }
  if (kind == 1) { /* depthwise */
    groups = channels;
  } else if (kind == 2) {
    do
      groups = 1 + gconv_lot_below(lot, channels);
    while (channels % groups != 0);
  }
  k = groups > 1 ? groups * (1 + gconv_lot_below(lot, 5)) : k;
  l->bank.channels = channels / groups;
  l->bank.filters = l->filters = k;
  l->groups = groups;
}

static void draw_geometry(uint64_t *lot, int32_t height, int32_t width, gconv_drawn_layer *l) {
  static const int32_t sizes[] = {1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 6, 7, 8, 9, 11, 16, 20},
                       steps[] = {1, 1, 1, 1, 2, 2, 3, 4};
  gconv_bank *bank = &l->bank;
  gconv_layer *layer = &l->layer;
  bank->rows = GCONV_LOT_PICK(lot, sizes);
  bank->columns = gconv_lot_chance(lot, 70) ? bank->rows : GCONV_LOT_PICK(lot, sizes);
  l->stride_y = GCONV_LOT_PICK(lot, steps);
  l->stride_x = gconv_lot_chance(lot, 70) ? l->stride_y : GCONV_LOT_PICK(lot, steps);
  l->dilation_y = gconv_lot_chance(lot, 75) ? 1 : GCONV_LOT_PICK(lot, steps);
  l->dilation_x = gconv_lot_chance(lot, 75) ? l->dilation_y : GCONV_LOT_PICK(lot, steps);
  if (gconv_lot_chance(lot, 25)) { /* the commonest layer, and the only one that winograd takes */
    bank->rows = bank->columns = 3;
    l->stride_y = l->stride_x = l->dilation_y = l->dilation_x = 1;
  }
  layer->flip = gconv_lot_chance(lot, 20);
  gconv_layer_padding padding = (gconv_layer_padding)(1 + gconv_lot_below(lot, 6));
  int32_t reach = (bank->rows > bank->columns ? bank->rows : bank->columns) * (gconv_lot_chance(lot, 10) ? 4 : 1) + 1,
          pads[4];
  for (int i = 0; i < 4; i++)
    pads[i] = gconv_lot_below(lot, reach);
  if (gconv_lot_chance(lot, 50))
    pads[1] = pads[2] = pads[3] = pads[0];
  bank->has_geometry = gconv_lot_chance(lot, 25) && padding >= GCONV_LAYER_EXPLICIT;
  layer->padding = bank->has_geometry ? GCONV_LAYER_DEFAULT : padding;
  bool of_bank = bank->has_geometry && padding == GCONV_LAYER_EXPLICIT;
  bank->same_upper = bank->has_geometry && padding == GCONV_LAYER_SAME_UPPER;
  bank->same_lower = bank->has_geometry && padding == GCONV_LAYER_SAME_LOWER;
  int32_t *to[2][4] = {{&layer->pad_top, &layer->pad_left, &layer->pad_bottom, &layer->pad_right},
                       {&bank->pad_top, &bank->pad_left, &bank->pad_bottom, &bank->pad_right}};
  for (int i = 0; i < 4; i++)
    *to[of_bank][i] = pads[i];
  bool strides_of_bank = bank->has_geometry && gconv_lot_chance(lot, 70);
  *(strides_of_bank ? &bank->stride_y : &layer->stride_y) = l->stride_y;
  *(strides_of_bank ? &bank->stride_x : &layer->stride_x) = l->stride_x;
  *(strides_of_bank ? &bank->dilation_y : &layer->dilation_y) = l->dilation_y;
  *(strides_of_bank ? &bank->dilation_x : &layer->dilation_x) = l->dilation_x;
  if (bank->has_geometry && !strides_of_bank)
    bank->stride_y = bank->stride_x = bank->dilation_y = bank->dilation_x = 9; /* which the layer overrides */
  bank->groups = bank->has_geometry ? l->groups : 0;
  layer->groups = bank->has_geometry || (l->groups == 1 && (l->each || bank->channels > 1)) ? 0 : l->groups;
  l->p = place(padding, height, bank->rows, l->stride_y, l->dilation_y, layer->flip, pads[0], pads[2], &l->top);
  l->q = place(padding, width, bank->columns, l->stride_x, l->dilation_x, layer->flip, pads[1], pads[3], &l->left);
}

static void draw_weights(uint64_t *lot, bool extreme, gconv_bank *bank) {
  static const float magnitudes[] = {1e-12F, 1e-6F, 1e-2F, 1, 1e3F, 1e9F};
  size_t taps = (size_t)bank->filters * (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns;
  bank->weights = malloc(taps * sizeof(float));
  bank->biases = gconv_lot_chance(lot, 70) ? malloc((size_t)bank->filters * sizeof(float)) : NULL;
  bool sparse = gconv_lot_chance(lot, 10);
  for (size_t i = 0; i < taps; i++)
    bank->weights[i] =
        sparse && gconv_lot_chance(lot, 80) ? 0 : number(lot) * (extreme ? GCONV_LOT_PICK(lot, magnitudes) : 1);
  for (int32_t k = 0; bank->biases && k < bank->filters; k++)
    bank->biases[k] = number(lot);
}

/* By a lot of its own, so that all else is drawn as it is without borders. */
static void draw_border(uint64_t lot, bool extreme, gconv_layer *layer) {
  lot ^= UINT64_C(0x426F726465723F21);
  if (!gconv_lot_chance(&lot, 40))
    return;
  layer->border = (gconv_border)(1 + gconv_lot_below(&lot, 5));
  layer->border_value = (double)number(&lot) * (extreme ? 1e9 : 4);
}

static bool draw_layer(gconv_drawn_network *d, uint64_t *lot, bool extreme, int32_t images, int32_t *channels,
                       int32_t *height, int32_t *width) {
  gconv_drawn_layer *l = &d->layers[d->count];
  for (int tries = 0; tries < 200; tries++) {
    *l = (gconv_drawn_layer){.channels = *channels};
    draw_channels(lot, *channels, l);
    draw_geometry(lot, *height, *width, l);
    double work = (double)images * l->filters * l->p * l->q * l->bank.channels * l->bank.rows * l->bank.columns;
    if (l->p > 0 && l->q > 0 && work <= MOST_WORK && (double)images * l->filters * l->p * l->q <= 4e5)
      break;
    if (tries == 199)
      return false;
  }
  draw_border(*lot, extreme, &l->layer);
  draw_weights(lot, extreme, &l->bank);
  l->layer.activation = gconv_lot_chance(lot, 60) ? GCONV_ACTIVATION_NONE : (gconv_activation)gconv_lot_below(lot, 5);
  l->layer.slope = l->layer.activation == GCONV_ACTIVATION_LEAKY ? number(lot) : 0;
  tell(d, "; %s%d filters %dx%dx%d groups %d stride %d,%d dilation %d,%d pad %d,%d border %d -> %dx%d%s%s%s act %d",
       l->each ? "each " : "", l->bank.filters, l->bank.channels, l->bank.rows, l->bank.columns, l->groups, l->stride_y,
       l->stride_x, l->dilation_y, l->dilation_x, l->top, l->left, (int)l->layer.border, l->p, l->q,
       l->layer.flip ? " flip" : "", l->bank.has_geometry ? " geometry" : "", l->bank.biases ? " bias" : "",
       (int)l->layer.activation);
  d->count++;
  *channels = l->filters;
  *height = l->p;
  *width = l->q;
  return true;
}

static void draw_samples(uint64_t *lot, bool extreme, gconv_image *in) {
  static const float magnitudes[] = {0, 1e-12F, 1e-4F, 1, 1e4F, 1e9F};
  gconv_guarded_rows rows = gconv_guarded_rows_of(in);
  for (size_t i = 0; i < rows.count; i++) {
    uint8_t *row = gconv_guarded_row(in, i);
    for (size_t b = 0; in->type != GCONV_F32 && b < rows.bytes; b++)
      row[b] = (uint8_t)gconv_lot_next(lot);
    for (size_t x = 0; in->type == GCONV_F32 && x < rows.bytes / sizeof(float); x++)
      ((float *)(void *)row)[x] = number(lot) * (extreme ? GCONV_LOT_PICK(lot, magnitudes) : 1);
  }
}

static bool draw_input(gconv_drawn_network *d, uint64_t *lot, bool extreme) {
  static const int32_t channels[] = {1, 2, 3, 3, 4, 5, 8, 16, 17, 31, 64}, larger[] = {18, 24, 31, 32, 33, 57, 64};
  gconv_image header = {.type = GCONV_F32, .planar = true, .frames = 1 + gconv_lot_below(lot, 5)};
  header.height = gconv_lot_chance(lot, 80) ? 1 + gconv_lot_below(lot, 17) : GCONV_LOT_PICK(lot, larger);
  header.width = gconv_lot_chance(lot, 80) ? 1 + gconv_lot_below(lot, 17) : GCONV_LOT_PICK(lot, larger);
  header.channels = GCONV_LOT_PICK(lot, channels);
  bool plain = gconv_lot_chance(lot, 60);
  if (!plain) {
    header.type = extreme ? GCONV_F32 : (gconv_type)gconv_lot_below(lot, 3);
    header.planar = gconv_lot_chance(lot, 30);
    header.channels = header.planar ? header.channels : 1 + gconv_lot_below(lot, 4);
    header.alpha = header.channels > 1 && gconv_lot_chance(lot, 30);
  }
  if (!gconv_guarded_make(&d->in, &header, plain ? 0 : (size_t)gconv_lot_below(lot, 3), plain ? 0 : 1, 0xFF))
    return false;
  draw_samples(lot, extreme, &d->in.image);
  d->channels = header.channels;
  if (header.alpha && gconv_lot_chance(lot, 70))
    d->channels--;
  tell(d, "%d x %d x %d x %d %s%s%s", header.frames, header.channels, header.height, header.width,
       header.type == GCONV_F32  ? "f32"
       : header.type == GCONV_U8 ? "u8"
                                 : "u16",
       header.planar ? " planar" : "", header.alpha ? " alpha" : "");
  return true;
}

static void draw_options(gconv_drawn_network *d, uint64_t *lot, bool extreme) {
  static const size_t workspaces[] = {0, 0, 1 << 22, 1 << 18, 1 << 16, 1 << 13};
  gconv_network_options *o = &d->options;
  *o = (gconv_network_options){.workspace_bytes = GCONV_LOT_PICK(lot, workspaces)};
  if (!extreme && gconv_lot_chance(lot, 40))
    o->math = (gconv_math)gconv_lot_below(lot, 4);
  if (gconv_lot_chance(lot, 25))
    o->combine = (gconv_combine)gconv_lot_below(lot, 4);
  if (o->combine == GCONV_COMBINE_NONE && gconv_lot_chance(lot, 8))
    o->combine = GCONV_COMBINE_ARGMAX;
  if (d->in.image.type != GCONV_F32 || !d->in.image.planar) {
    for (int i = 0; i < 128; i++) {
      d->mean[i] = number(lot);
      d->std[i] = 0.1F + fabsf(number(lot));
    }
    const int32_t means = gconv_lot_chance(lot, 50) ? 1 : d->channels, stds = gconv_lot_chance(lot, 50) ? 1 : d->channels;
    o->mean = gconv_lot_chance(lot, 60) ? d->mean : NULL;
    o->std = gconv_lot_chance(lot, 60) ? d->std : NULL;
    o->mean_count = o->mean ? means : 0;
    o->std_count = o->std ? stds : 0;
  }
  tell(d, "; %s, math %d, combine %d, workspace %zu%s%s", extreme ? "extreme" : "even", (int)o->math, (int)o->combine,
       o->workspace_bytes, o->mean ? ", mean" : "", o->std ? ", std" : "");
}

void gconv_drawn_network_free(gconv_drawn_network *d) {
  for (size_t i = 0; i < GCONV_DRAWN_LAYERS; i++) {
    free(d->layers[i].bank.weights);
    free(d->layers[i].bank.biases);
  }
  gconv_guarded_free(&d->in);
}

/* Alpha is one of the channels if and only if the first layer takes as many: what was drawn must mean one of both. */
static void settle_alpha(gconv_drawn_network *d) {
  const gconv_drawn_layer *first = &d->layers[0];
  gconv_image *in = &d->in.image;
  if (in->alpha && first->each && d->channels == in->channels)
    in->alpha = false;
}

bool gconv_drawn_network_make(gconv_drawn_network *d, uint64_t seed, uint64_t number_of_case) {
  if (number_of_case < gconv_given_layers())
    return gconv_given_layer_make(d, number_of_case);
  uint64_t lot = seed * UINT64_C(1000003) + number_of_case;
  *d = (gconv_drawn_network){0};
  bool extreme = gconv_lot_chance(&lot, 10);
  if (!draw_input(d, &lot, extreme))
    return false;
  int32_t channels = d->channels, height = d->in.image.height, width = d->in.image.width;
  size_t wanted = extreme || gconv_lot_chance(&lot, 85) ? 1 : 2 + (size_t)gconv_lot_below(&lot, 2);
  while (d->count < wanted && draw_layer(d, &lot, extreme, d->in.image.frames, &channels, &height, &width))
    continue;
  draw_options(d, &lot, extreme);
  settle_alpha(d);
  for (size_t i = 0; i < d->count; i++) {
    d->list[i] = d->layers[i].layer;
    d->list[i].bank = &d->layers[i].bank;
  }
  return d->count > 0;
}

/* SPDX-License-Identifier: MIT */
#include "draw.h"
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Sums to compute in one case at most: the oracle takes some 5 ns for each. */
static const double MOST_WORK = 2e6;

/* In [0, 1). */
static double fraction(uint64_t *state) {
  return (double)(gconv_lot_next(state) >> 11) * 0x1p-53;
}

/* ---- The image ---- */

static void draw_size(uint64_t *lot, gconv_image *image) {
  static const int32_t edges[] = {1, 1, 2, 3, 5, 8, 31, 32, 33, 127};
  if (gconv_lot_chance(lot, 10)) {
    image->height = 133;
    image->width = 141;
  } else if (gconv_lot_chance(lot, 6)) { /* rows that algorithms cut into pieces */
    image->height = 1 + gconv_lot_below(lot, 14);
    image->width = 400 + gconv_lot_below(lot, 2200);
  } else {
    image->height = GCONV_LOT_PICK(lot, edges);
    image->width = GCONV_LOT_PICK(lot, edges);
  }
}

static gconv_image draw_header(uint64_t *lot) {
  gconv_image image = {.type = (gconv_type)gconv_lot_below(lot, 3), .frames = gconv_lot_chance(lot, 25) ? 2 : 1};
  draw_size(lot, &image);
  image.planar = gconv_lot_chance(lot, 40);
  image.channels = 1 + gconv_lot_below(lot, image.planar ? 6 : 4);
  image.alpha = !image.planar && image.channels > 1 && gconv_lot_chance(lot, image.channels == 3 ? 10 : 50);
  return image;
}

typedef enum contents { EVEN, NORMAL, EXTREME, WHITE, SPARSE, CONTENTS } contents;

/* One sample in units of white. */
static double draw_value(uint64_t *lot, contents kind) {
  static const double magnitudes[] = {1e30, 1e20, 1e4, 1, 1e-4, 1e-30, 1e-37, 1e-39, 1e-42, 0};
  switch (kind) {
  case NORMAL: /* around the nominal range, below and above too */
    return 2 * fraction(lot) - 0.5;
  case EXTREME:
    return (2 * fraction(lot) - 1) * GCONV_LOT_PICK(lot, magnitudes);
  case WHITE:
    return 1;
  case SPARSE:
    return gconv_lot_chance(lot, 5) ? fraction(lot) : 0;
  default:
    return fraction(lot);
  }
}

static double draw_alpha(uint64_t *lot) {
  return gconv_lot_chance(lot, 20) ? 0 : gconv_lot_chance(lot, 25) ? 1 : fraction(lot);
}

/* Row `row` holds element `element` of the image's type. */
static void put(void *row, gconv_type type, size_t element, double v) {
  double level = rint(fmin(fmax(v, 0), 1) * gconv_oracle_white(type));
  if (type == GCONV_U8)
    ((uint8_t *)row)[element] = (uint8_t)level;
  else if (type == GCONV_U16)
    ((uint16_t *)row)[element] = (uint16_t)level;
  else
    ((float *)row)[element] = (float)v;
}

/* Whether the grey of an integer pixel is so near to the middle of two levels that float32 and float64 may part. */
static bool grey_is_doubtful(const gconv_image *image, int32_t n, int32_t y, int32_t x) {
  double grey = 0.299 * gconv_oracle_sample_at(image, n, y, x, 0) + 0.587 * gconv_oracle_sample_at(image, n, y, x, 1) +
                0.114 * gconv_oracle_sample_at(image, n, y, x, 2);
  return fabs(grey - floor(grey) - 0.5) < 0.03;
}

static void draw_pixel(uint64_t *lot, const gconv_image *image, contents kind, int32_t n, int32_t y, int32_t x) {
  for (int32_t c = 0; c < image->channels; c++) {
    size_t plane = image->planar ? (size_t)n * (size_t)image->channels + (size_t)c : (size_t)n;
    uint8_t *row = gconv_guarded_row(image, plane * (size_t)image->height + (size_t)y);
    bool is_alpha = image->alpha && c == image->channels - 1;
    put(row, image->type, image->planar ? (size_t)x : (size_t)x * (size_t)image->channels + (size_t)c,
        is_alpha ? draw_alpha(lot) : draw_value(lot, kind));
  }
}

static void draw_samples(uint64_t *lot, const gconv_image *image, contents kind, bool gray) {
  bool grey = gray && image->channels >= 3 && image->type != GCONV_F32;
  for (int32_t n = 0; n < image->frames; n++)
    for (int32_t y = 0; y < image->height; y++)
      for (int32_t x = 0; x < image->width; x++)
        do
          draw_pixel(lot, image, kind, n, y, x);
        while (grey && grey_is_doubtful(image, n, y, x));
}

/* ---- Filters ---- */

typedef enum kernel { ROUGH, WHOLE, POSITIVE, OUTER, WHOLE_OUTER, ZERO, SHIFT, EIGHT_BITS, BOX, KERNELS } kernel;

/* Filters that sum to 0 do not go with premultiplied alpha. */
static kernel draw_kernel(uint64_t *lot, bool premultiply, bool integers) {
  static const kernel sums[] = {ROUGH, POSITIVE, SHIFT, BOX};
  if (gconv_lot_chance(lot, 8))
    return BOX;
  if (integers && !premultiply)
    return gconv_lot_chance(lot, 65) ? WHOLE : gconv_lot_chance(lot, 60) ? WHOLE_OUTER : EIGHT_BITS;
  return premultiply ? GCONV_LOT_PICK(lot, sums) : (kernel)gconv_lot_below(lot, KERNELS);
}

static double draw_tap(uint64_t *lot, kernel kind) {
  switch (kind) {
  case WHOLE:
    return gconv_lot_below(lot, 9) - 4;
  case WHOLE_OUTER:
    return gconv_lot_below(lot, 6) - 2;
  case EIGHT_BITS: /* all that a byte with a sign holds, mostly the extremes */
    return gconv_lot_chance(lot, 30) ? gconv_lot_below(lot, 256) - 128 : gconv_lot_chance(lot, 50) ? 127 : -128;
  case POSITIVE:
    return fraction(lot) + 0.01;
  case ZERO:
  case SHIFT:
    return 0;
  default:
    return 2 * fraction(lot) - 1;
  }
}

static bool draw_taps(uint64_t *lot, gconv_filter *f, kernel kind) {
  int32_t taps = f->rows * f->columns;
  f->taps = malloc((size_t)taps * sizeof *f->taps);
  if (!f->taps)
    return false;
  const bool outer = kind == OUTER || kind == WHOLE_OUTER;
  double sum = 0, factor = 1;
  for (int32_t i = 0; i < taps; i++) {
    bool first_row = i < f->columns, first_column = i % f->columns == 0;
    if (outer && first_column && !first_row) /* every other row is a multiple of the first: separable */
      factor = draw_tap(lot, kind);
    if (kind == BOX && i > 0)
      f->taps[i] = f->taps[0];
    else
      f->taps[i] = (float)(outer && !first_row ? factor * f->taps[i % f->columns] : draw_tap(lot, kind));
    sum += f->taps[i];
  }
  for (int32_t i = 0; kind == POSITIVE && i < taps; i++) /* a blur: keeps brightness */
    f->taps[i] = (float)(f->taps[i] / sum);
  for (int32_t i = 0, zero = kind == WHOLE_OUTER && gconv_lot_chance(lot, 20); zero && i < f->columns; i++)
    f->taps[i] = 0;
  if (kind == SHIFT)
    f->taps[gconv_lot_below(lot, taps)] = 1;
  return true;
}

static void draw_filter_size(uint64_t *lot, const gconv_image *image, gconv_filter *f) {
  static const int32_t sizes[][2] = {{1, 1}, {2, 2}, {3, 3}, {3, 3}, {4, 4}, {5, 5},  {7, 7},
                                     {1, 9}, {9, 1}, {2, 3}, {5, 2}, {1, 4}, {11, 11}};
  const int32_t *size = GCONV_LOT_PICK(lot, sizes);
  f->rows = size[0];
  f->columns = size[1];
  if (gconv_lot_chance(lot, 15) && image->height <= 33 && image->width <= 33) { /* larger than the image */
    f->rows = image->height + gconv_lot_below(lot, 4);
    f->columns = image->width + 1 + gconv_lot_below(lot, 4);
  } else if (gconv_lot_chance(lot, 4)) { /* longer than the tiles of any kernel that has them in shared memory */
    f->rows = 1 + gconv_lot_below(lot, 2);
    f->columns = 161 + gconv_lot_below(lot, 40);
    if (gconv_lot_chance(lot, 50)) {
      const int32_t rows = f->rows;
      f->rows = f->columns;
      f->columns = rows;
    }
  }
}

static void draw_anchor(uint64_t *lot, gconv_filter *f) {
  bool usual = gconv_lot_chance(lot, 70);
  f->anchor_row = usual ? f->rows / 2 : gconv_lot_below(lot, f->rows);
  f->anchor_column = usual ? f->columns / 2 : gconv_lot_below(lot, f->columns);
}

/* Filters of different sizes and anchors need padding `same`. */
static bool draw_filters(uint64_t *lot, const gconv_image *image, bool integers, gconv_drawn *drawn) {
  static const float divisors[] = {1, 1, 1, 3, 16, -2, 0.5F};
  bool equal = drawn->options.padding != GCONV_PADDING_SAME || gconv_lot_chance(lot, 60);
  bool premultiply = drawn->options.alpha == GCONV_ALPHA_PREMULTIPLY && image->alpha;
  size_t count = gconv_lot_chance(lot, 50) ? 1 : 1 + (size_t)gconv_lot_below(lot, GCONV_DRAWN_FILTERS);
  drawn->filters = (gconv_filters){.items = drawn->items, .count = count};
  for (size_t k = 0; k < count; k++) {
    gconv_filter *f = &drawn->items[k];
    *f = (gconv_filter){.name = drawn->name, .divisor = premultiply ? 1 : GCONV_LOT_PICK(lot, divisors)};
    draw_filter_size(lot, image, f);
    draw_anchor(lot, f);
    if (equal && k > 0) {
      f->rows = drawn->items[0].rows;
      f->columns = drawn->items[0].columns;
      f->anchor_row = drawn->items[0].anchor_row;
      f->anchor_column = drawn->items[0].anchor_column;
    }
    if (gconv_lot_chance(lot, 15) && !premultiply && !drawn->options.linear)
      f->offset = (float)((fraction(lot) - 0.3) * gconv_oracle_white(image->type));
    if (!draw_taps(lot, f, draw_kernel(lot, premultiply, integers)))
      return false;
  }
  return true;
}

/* ---- Options ---- */

static void draw_geometry(uint64_t *lot, gconv_type type, gconv_options *o) {
  static const double values[] = {0, 0.25, 0.7, 1}, odd_values[] = {-2.5, 17, 0.5};
  o->flip = gconv_lot_chance(lot, 40);
  o->border = (gconv_border)gconv_lot_below(lot, 6);
  o->border_value =
      type == GCONV_F32 && gconv_lot_chance(lot, 50) ? GCONV_LOT_PICK(lot, odd_values) : GCONV_LOT_PICK(lot, values);
  o->padding = gconv_lot_chance(lot, 40) ? GCONV_PADDING_SAME : (gconv_padding)gconv_lot_below(lot, 4);
  if (o->padding == GCONV_PADDING_EXPLICIT) {
    o->pad_top = gconv_lot_below(lot, 7);
    o->pad_bottom = gconv_lot_below(lot, 7);
    o->pad_left = gconv_lot_below(lot, 7);
    o->pad_right = gconv_lot_below(lot, 7);
  }
  if (gconv_lot_chance(lot, 40)) {
    o->stride_y = 1 + gconv_lot_below(lot, 3);
    o->stride_x = 1 + gconv_lot_below(lot, 3);
  }
  if (gconv_lot_chance(lot, 40)) {
    o->dilation_y = 1 + gconv_lot_below(lot, 3);
    o->dilation_x = 1 + gconv_lot_below(lot, 3);
  }
}

static void draw_values(uint64_t *lot, const gconv_image *image, gconv_options *o) {
  static const double scales[] = {0.5, 2, -1, 0.125}, offsets[] = {0.5, -0.25, 1};
  int32_t colours = image->channels - (image->alpha ? 1 : 0);
  o->gray = gconv_lot_chance(lot, 20) && (colours == 1 || (colours == 3 && !image->planar));
  o->linear = gconv_lot_chance(lot, 15);
  o->alpha = (gconv_alpha)gconv_lot_below(lot, 4);
  o->combine = gconv_lot_chance(lot, 40) ? GCONV_COMBINE_NONE : (gconv_combine)gconv_lot_below(lot, 5);
  o->scale = gconv_lot_chance(lot, 60) ? 1 : GCONV_LOT_PICK(lot, scales);
  o->offset = gconv_lot_chance(lot, 70) ? 0 : GCONV_LOT_PICK(lot, offsets);
  o->range = gconv_lot_chance(lot, 40) ? GCONV_RANGE_CLAMP : (gconv_range)gconv_lot_below(lot, 4);
  o->sets_type = !gconv_lot_chance(lot, 40);
  o->output_type = (gconv_type)gconv_lot_below(lot, 3);
}

/* Leaves out what gconv.h does not define: whether combine or the division by alpha comes first, and what signed and minmax
 * are in linear light. Leaves out what a plan refuses, too: a constant border with premultiplied alpha, or with alpha in
 * linear light; a stack of alphas in linear light. */
static void keep_defined(uint64_t *lot, const gconv_image *image, gconv_options *o) {
  bool premultiply = image->alpha && o->alpha == GCONV_ALPHA_PREMULTIPLY, linear_alpha = image->alpha && o->linear;
  if (premultiply || (linear_alpha && o->alpha == GCONV_ALPHA_FILTER && o->combine == GCONV_COMBINE_STACK))
    o->combine = GCONV_COMBINE_NONE;
  if ((premultiply || linear_alpha) && o->border == GCONV_BORDER_CONSTANT)
    o->border = gconv_lot_chance(lot, 50) ? GCONV_BORDER_ZERO : GCONV_BORDER_REPLICATE;
  if (o->linear && (o->range == GCONV_RANGE_SIGNED || o->range == GCONV_RANGE_MINMAX))
    o->range = GCONV_RANGE_ABS;
}

/* Asks for int16, with options that it has. */
static void ask_for_int16(const gconv_image *image, gconv_options *o) {
  o->sets_type = true;
  o->output_type = GCONV_I16;
  o->linear = false;
  if (o->alpha == GCONV_ALPHA_PREMULTIPLY)
    o->alpha = GCONV_ALPHA_KEEP;
  if (o->range > GCONV_RANGE_ABS || (image->alpha && o->alpha == GCONV_ALPHA_FILTER))
    o->range = GCONV_RANGE_CLAMP;
}

/* Hints for a GPU, which change no bit: small blocks and few of them, so that most images take several strides. */
static void draw_launch(uint64_t *lot, gconv_options *o) {
  static const int32_t blocks[][2] = {{1, 1}, {8, 4}, {5, 7}, {32, 1}, {1, 33}, {16, 6}, {64, 2}, {32, 32}};
  const int32_t *block = blocks[gconv_lot_below(lot, sizeof blocks / sizeof *blocks)];
  if (gconv_lot_chance(lot, 30))
    o->block_width = block[0], o->block_height = block[1];
  if (gconv_lot_chance(lot, 30))
    o->grid_blocks = 1 + gconv_lot_below(lot, 9);
}

/* Magnitudes of 1e30 have no square in float32, no curve, and make everything else equal to 0. */
static contents draw_contents(uint64_t *lot, const gconv_image *image, const gconv_options *o) {
  contents kind = gconv_lot_chance(lot, 50) ? EVEN : (contents)gconv_lot_below(lot, CONTENTS);
  bool mild = o->linear || o->gray || o->combine == GCONV_COMBINE_MAGNITUDE || o->range == GCONV_RANGE_MINMAX ||
              (image->alpha && o->alpha != GCONV_ALPHA_KEEP) || image->type != GCONV_F32;
  return kind == EXTREME && mild ? NORMAL : kind;
}

/* ---- Cases ---- */

/* The float64 sums that the case takes; 0 if it has no outputs. */
static double work_of(const gconv_drawn *drawn, const gconv_image *image) {
  gconv_oracle_shape shape = gconv_oracle_get_shape(image, &drawn->filters, &drawn->options);
  double taps = 0;
  for (size_t k = 0; k < drawn->filters.count; k++)
    taps += (double)drawn->items[k].rows * drawn->items[k].columns;
  return taps * image->channels * shape.frames * shape.height * shape.width;
}

static void describe(gconv_drawn *drawn) {
  static const char *const borders[] = {"zero", "constant", "replicate", "symmetric", "reflect101", "wrap"};
  static const char *const paddings[] = {"same", "valid", "full", "explicit"}, *const types[] = {"u8", "u16", "f32", "i16"};
  static const char *const combines[] = {"none", "magnitude", "sum", "max", "stack"};
  static const char *const ranges[] = {"clamp", "abs", "signed", "minmax"}, *const alphas[] = {"keep", "filter",
                                                                                               "premultiply", "drop"};
  const gconv_image *i = &drawn->in.image;
  const gconv_options *o = &drawn->options;
  const gconv_filter *f = drawn->items;
  snprintf(
      drawn->text, sizeof drawn->text,
      "%d x %dx%dx%d %s%s%s to %s, %zu filters %dx%d anchor %d,%d divisor %g offset %g%s, border %s %g, padding %s"
      " %d,%d,%d,%d, stride %d,%d, dilation %d,%d, alpha %s%s%s, combine %s, scale %g, offset %g, range %s, block %dx%d,"
      " grid %d",
      i->frames, i->height, i->width, i->channels, types[i->type], i->planar ? " planar" : "", i->alpha ? " alpha" : "",
      types[o->sets_type ? o->output_type : i->type], drawn->filters.count, f->rows, f->columns, f->anchor_row,
      f->anchor_column, (double)f->divisor, (double)f->offset, o->flip ? " flipped" : "", borders[o->border],
      o->border_value, paddings[o->padding], o->pad_top, o->pad_bottom, o->pad_left, o->pad_right, o->stride_y, o->stride_x,
      o->dilation_y, o->dilation_x, alphas[o->alpha], o->gray ? ", gray" : "", o->linear ? ", linear" : "",
      combines[o->combine], o->scale, o->offset, ranges[o->range], o->block_width, o->block_height, o->grid_blocks);
}

bool gconv_drawn_make(gconv_drawn *drawn, uint64_t seed, uint64_t number) {
  uint64_t lot = seed ^ number * UINT64_C(0xD1342543DE82EF95);
  const bool integers = number % 3 == 1; /* bytes and taps of 8 bits, mostly without strides */
  for (;;) {
    *drawn = (gconv_drawn){.name = "drawn", .profile = "a profile", .options = gconv_options_default()};
    gconv_image header = draw_header(&lot);
    if (integers)
      header.type = GCONV_U8;
    draw_geometry(&lot, header.type, &drawn->options);
    if (integers && gconv_lot_chance(&lot, 80))
      drawn->options.stride_y = drawn->options.stride_x = 1;
    draw_values(&lot, &header, &drawn->options);
    if (integers && drawn->options.range == GCONV_RANGE_MINMAX) /* of so few levels, it decides little */
      drawn->options.range = GCONV_RANGE_ABS;
    keep_defined(&lot, &header, &drawn->options);
    if (gconv_lot_chance(&lot, integers ? 30 : 10))
      ask_for_int16(&header, &drawn->options);
    if (!draw_filters(&lot, &header, integers, drawn))
      return false;
    double work = work_of(drawn, &header);
    if (work <= MOST_WORK && (work > 0 || gconv_lot_chance(&lot, 10))) {
      if (!gconv_guarded_make(&drawn->in, &header, (size_t)gconv_lot_below(&lot, 9), (size_t)gconv_lot_below(&lot, 9), 0xFF))
        return false;
      break;
    }
    gconv_drawn_free(drawn);
  }
  if (gconv_lot_chance(&lot, 50)) {
    drawn->in.image.icc = drawn->profile;
    drawn->in.image.icc_bytes = sizeof drawn->profile;
    drawn->in.image.pixels_per_metre_x = 2835;
    drawn->in.image.pixels_per_metre_y = 3937;
  }
  contents kind = draw_contents(&lot, &drawn->in.image, &drawn->options);
  drawn->extreme = kind == EXTREME;
  draw_samples(&lot, &drawn->in.image, kind, drawn->options.gray);
  draw_launch(&lot, &drawn->options);
  describe(drawn);
  return true;
}

void gconv_drawn_free(gconv_drawn *drawn) {
  for (size_t k = 0; k < drawn->filters.count; k++)
    free(drawn->items[k].taps);
  gconv_guarded_free(&drawn->in);
  *drawn = (gconv_drawn){0};
}

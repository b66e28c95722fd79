/* SPDX-License-Identifier: MIT */
/*
 * Every algorithm for layers of one device against float64, on networks drawn by lot.
 *
 *     test_layers [--device cpu|cuda] [--seed S] [--cases N] [--case I] [--algorithm NAME]
 *
 * The definition here shares no line with the product. A case passes an algorithm if every output is within the bound that
 * is stated, carried through the layers; if algorithms of the exact family give the bits of cpu/reference, whatever the
 * workspace and the batches that it allows; if all outputs are written and nothing else, from an input that lies among NaN;
 * if it gives the same bits again, on the CPU with any number of threads; if it does the same by rows (of algorithms that
 * are not exact, within their bounds); and if gconv_network_verify() finds the result right, and finds the value that is
 * then altered. Exit status: 0, 1 for a failure, 77 without the device.
 */
#include "draw.h"
#include "guarded.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CASES = 800, MOST_LAYERS = 3, MOST_ALGORITHMS = 64, MOST_FAILURES = 20, SKIPPED = 77 };
static const double MOST_WORK = 1.5e6; /* multiply-adds of a layer */
static const int THREADS[] = {1, 2, 3, 7};
enum { THREAD_COUNTS = sizeof THREADS / sizeof *THREADS };
#define PICK(lot, list) ((list)[gconv_lot_below((lot), (int32_t)(sizeof(list) / sizeof *(list)))])

/* ---- Cases ---- */

/* A layer, and the shapes around it as they should be. */
typedef struct drawn_layer {
  gconv_bank bank;
  gconv_layer layer;
  bool each;
  int32_t groups, channels, filters; /* of the whole: C and K, or, each channel by itself, C and C * K */
  int32_t top, left, p, q, stride_y, stride_x, dilation_y, dilation_x;
} drawn_layer;

typedef struct drawn {
  gconv_guarded in;
  int32_t channels; /* that the first layer sees */
  drawn_layer layers[MOST_LAYERS];
  gconv_layer list[MOST_LAYERS];
  size_t count;
  float mean[128], std[128];
  gconv_network_options options;
  char text[1024];
} drawn;

static bool chance(uint64_t *lot, int32_t percent) {
  return gconv_lot_below(lot, 100) < percent;
}

static float number(uint64_t *lot) { /* in [-1, 1) */
  return (float)((double)(gconv_lot_next(lot) >> 40) * 0x1p-23 - 1);
}

__attribute__((format(printf, 2, 3))) static void tell(drawn *d, const char *format, ...) {
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
static void draw_channels(uint64_t *lot, int32_t channels, drawn_layer *l) {
  static const int32_t counts[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 64, 65, 100, 129};
  int32_t k = PICK(lot, counts), kind = gconv_lot_below(lot, 10), groups = 1;
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

static void draw_geometry(uint64_t *lot, int32_t height, int32_t width, drawn_layer *l) {
  static const int32_t sizes[] = {1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 6, 7, 8, 9, 11, 16, 20},
                       steps[] = {1, 1, 1, 1, 2, 2, 3, 4};
  gconv_bank *bank = &l->bank;
  gconv_layer *layer = &l->layer;
  bank->rows = PICK(lot, sizes);
  bank->columns = chance(lot, 70) ? bank->rows : PICK(lot, sizes);
  l->stride_y = PICK(lot, steps);
  l->stride_x = chance(lot, 70) ? l->stride_y : PICK(lot, steps);
  l->dilation_y = chance(lot, 75) ? 1 : PICK(lot, steps);
  l->dilation_x = chance(lot, 75) ? l->dilation_y : PICK(lot, steps);
  if (chance(lot, 25)) { /* the commonest layer, and the only one that winograd takes */
    bank->rows = bank->columns = 3;
    l->stride_y = l->stride_x = l->dilation_y = l->dilation_x = 1;
  }
  layer->flip = chance(lot, 20);
  gconv_layer_padding padding = (gconv_layer_padding)(1 + gconv_lot_below(lot, 6));
  int32_t reach = (bank->rows > bank->columns ? bank->rows : bank->columns) * (chance(lot, 10) ? 4 : 1) + 1, pads[4];
  for (int i = 0; i < 4; i++)
    pads[i] = gconv_lot_below(lot, reach);
  if (chance(lot, 50))
    pads[1] = pads[2] = pads[3] = pads[0];
  bank->has_geometry = chance(lot, 25) && padding >= GCONV_LAYER_EXPLICIT;
  layer->padding = bank->has_geometry ? GCONV_LAYER_DEFAULT : padding;
  bool of_bank = bank->has_geometry && padding == GCONV_LAYER_EXPLICIT;
  bank->same_upper = bank->has_geometry && padding == GCONV_LAYER_SAME_UPPER;
  bank->same_lower = bank->has_geometry && padding == GCONV_LAYER_SAME_LOWER;
  int32_t *to[2][4] = {{&layer->pad_top, &layer->pad_left, &layer->pad_bottom, &layer->pad_right},
                       {&bank->pad_top, &bank->pad_left, &bank->pad_bottom, &bank->pad_right}};
  for (int i = 0; i < 4; i++)
    *to[of_bank][i] = pads[i];
  bool strides_of_bank = bank->has_geometry && chance(lot, 70);
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
  bank->biases = chance(lot, 70) ? malloc((size_t)bank->filters * sizeof(float)) : NULL;
  bool sparse = chance(lot, 10);
  for (size_t i = 0; i < taps; i++)
    bank->weights[i] = sparse && chance(lot, 80) ? 0 : number(lot) * (extreme ? PICK(lot, magnitudes) : 1);
  for (int32_t k = 0; bank->biases && k < bank->filters; k++)
    bank->biases[k] = number(lot);
}

static bool draw_layer(drawn *d, uint64_t *lot, bool extreme, int32_t images, int32_t *channels, int32_t *height,
                       int32_t *width) {
  drawn_layer *l = &d->layers[d->count];
  for (int tries = 0; tries < 200; tries++) {
    *l = (drawn_layer){.channels = *channels};
    draw_channels(lot, *channels, l);
    draw_geometry(lot, *height, *width, l);
    double work = (double)images * l->filters * l->p * l->q * l->bank.channels * l->bank.rows * l->bank.columns;
    if (l->p > 0 && l->q > 0 && work <= MOST_WORK && (double)images * l->filters * l->p * l->q <= 4e5)
      break;
    if (tries == 199)
      return false;
  }
  draw_weights(lot, extreme, &l->bank);
  l->layer.activation = chance(lot, 60) ? GCONV_ACTIVATION_NONE : (gconv_activation)gconv_lot_below(lot, 5);
  l->layer.slope = l->layer.activation == GCONV_ACTIVATION_LEAKY ? number(lot) : 0;
  tell(d, "; %s%d filters %dx%dx%d groups %d stride %d,%d dilation %d,%d pad %d,%d -> %dx%d%s%s%s act %d",
       l->each ? "each " : "", l->bank.filters, l->bank.channels, l->bank.rows, l->bank.columns, l->groups, l->stride_y,
       l->stride_x, l->dilation_y, l->dilation_x, l->top, l->left, l->p, l->q, l->layer.flip ? " flip" : "",
       l->bank.has_geometry ? " geometry" : "", l->bank.biases ? " bias" : "", (int)l->layer.activation);
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
      ((float *)(void *)row)[x] = number(lot) * (extreme ? PICK(lot, magnitudes) : 1);
  }
}

static bool draw_input(drawn *d, uint64_t *lot, bool extreme) {
  static const int32_t channels[] = {1, 2, 3, 3, 4, 5, 8, 16, 17, 31, 64}, larger[] = {18, 24, 31, 32, 33, 57, 64};
  gconv_image header = {.type = GCONV_F32, .planar = true, .frames = 1 + gconv_lot_below(lot, 5)};
  header.height = chance(lot, 80) ? 1 + gconv_lot_below(lot, 17) : PICK(lot, larger);
  header.width = chance(lot, 80) ? 1 + gconv_lot_below(lot, 17) : PICK(lot, larger);
  header.channels = PICK(lot, channels);
  bool plain = chance(lot, 60);
  if (!plain) {
    header.type = extreme ? GCONV_F32 : (gconv_type)gconv_lot_below(lot, 3);
    header.planar = chance(lot, 30);
    header.channels = header.planar ? header.channels : 1 + gconv_lot_below(lot, 4);
    header.alpha = header.channels > 1 && chance(lot, 30);
  }
  if (!gconv_guarded_make(&d->in, &header, plain ? 0 : (size_t)gconv_lot_below(lot, 3), plain ? 0 : 1, 0xFF))
    return false;
  draw_samples(lot, extreme, &d->in.image);
  d->channels = header.channels;
  if (header.alpha && chance(lot, 70))
    d->channels--;
  tell(d, "%d x %d x %d x %d %s%s%s", header.frames, header.channels, header.height, header.width,
       header.type == GCONV_F32  ? "f32"
       : header.type == GCONV_U8 ? "u8"
                                 : "u16",
       header.planar ? " planar" : "", header.alpha ? " alpha" : "");
  return true;
}

static void draw_options(drawn *d, uint64_t *lot, bool extreme) {
  static const size_t workspaces[] = {0, 0, 1 << 22, 1 << 18, 1 << 16, 1 << 13};
  gconv_network_options *o = &d->options;
  *o = (gconv_network_options){.workspace_bytes = PICK(lot, workspaces)};
  if (!extreme && chance(lot, 40))
    o->math = (gconv_math)gconv_lot_below(lot, 4);
  if (chance(lot, 25))
    o->combine = (gconv_combine)gconv_lot_below(lot, 4);
  if (o->combine == GCONV_COMBINE_NONE && chance(lot, 8))
    o->combine = GCONV_COMBINE_ARGMAX;
  if (d->in.image.type != GCONV_F32 || !d->in.image.planar) {
    for (int i = 0; i < 128; i++) {
      d->mean[i] = number(lot);
      d->std[i] = 0.1F + fabsf(number(lot));
    }
    o->mean_count = chance(lot, 50) ? 1 : d->channels;
    o->std_count = chance(lot, 50) ? 1 : d->channels;
    o->mean = chance(lot, 60) ? d->mean : NULL;
    o->std = chance(lot, 60) ? d->std : NULL;
  }
  tell(d, "; %s, math %d, combine %d, workspace %zu%s%s", extreme ? "extreme" : "even", (int)o->math, (int)o->combine,
       o->workspace_bytes, o->mean ? ", mean" : "", o->std ? ", std" : "");
}

static void free_drawn(drawn *d) {
  for (size_t i = 0; i < MOST_LAYERS; i++) {
    free(d->layers[i].bank.weights);
    free(d->layers[i].bank.biases);
  }
  gconv_guarded_free(&d->in);
}

/* Alpha is one of the channels if and only if the first layer takes as many: what was drawn must mean one of both. */
static void settle_alpha(drawn *d) {
  const drawn_layer *first = &d->layers[0];
  gconv_image *in = &d->in.image;
  if (in->alpha && first->each && d->channels == in->channels)
    in->alpha = false;
}

static bool make_drawn(drawn *d, uint64_t seed, uint64_t number_of_case) {
  uint64_t lot = seed * UINT64_C(1000003) + number_of_case;
  *d = (drawn){0};
  bool extreme = chance(&lot, 10);
  if (!draw_input(d, &lot, extreme))
    return false;
  int32_t channels = d->channels, height = d->in.image.height, width = d->in.image.width;
  size_t wanted = extreme || chance(&lot, 85) ? 1 : 2 + (size_t)gconv_lot_below(&lot, 2);
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

/* ---- The definition in float64 ---- */

/* N x C x H x W values, each with its error. */
typedef struct tensor {
  int32_t n, c, h, w;
  double *value, *error;
} tensor;

static tensor make_tensor(int32_t n, int32_t c, int32_t h, int32_t w) {
  size_t count = (size_t)n * (size_t)c * (size_t)h * (size_t)w;
  tensor t = {n, c, h, w, calloc(count, sizeof(double)), calloc(count, sizeof(double))};
  if (!t.value || !t.error) {
    puts("out of memory");
    exit(EXIT_FAILURE);
  }
  return t;
}

static void free_tensor(tensor *t) {
  free(t->value);
  free(t->error);
}

static size_t at(const tensor *t, int32_t n, int32_t c, int32_t y, int32_t x) {
  return (((size_t)n * (size_t)t->c + (size_t)c) * (size_t)t->h + (size_t)y) * (size_t)t->w + (size_t)x;
}

static double file_sample(const gconv_image *image, int32_t n, int32_t c, int32_t y, int32_t x) {
  size_t plane = image->planar ? (size_t)n * (size_t)image->channels + (size_t)c : (size_t)n;
  size_t element = image->planar ? (size_t)x : (size_t)x * (size_t)image->channels + (size_t)c;
  const void *row = gconv_guarded_row(image, plane * (size_t)image->height + (size_t)y);
  switch (image->type) {
  case GCONV_U8:
    return ((const uint8_t *)row)[element] / 255.0;
  case GCONV_U16:
    return ((const uint16_t *)row)[element] / 65535.0;
  default:
    return (double)((const float *)row)[element];
  }
}

static tensor input_tensor(const drawn *d) {
  const gconv_image *in = &d->in.image;
  const gconv_network_options *o = &d->options;
  tensor t = make_tensor(in->frames, d->channels, in->height, in->width);
  const double u = 0x1p-24;
  for (int32_t n = 0; n < t.n; n++)
    for (int32_t c = 0; c < t.c; c++)
      for (int32_t y = 0; y < t.h; y++)
        for (int32_t x = 0; x < t.w; x++) {
          double v = file_sample(in, n, c, y, x), mean = o->mean ? (double)o->mean[o->mean_count > 1 ? c : 0] : 0;
          double std = o->std ? (double)o->std[o->std_count > 1 ? c : 0] : 1;
          double error = in->type == GCONV_F32 ? 0 : u * v;
          error += o->mean ? u * (fabs(v - mean) + error) : 0;
          v = (v - mean) / std;
          error = error / std + (o->std ? u * (fabs(v) + error / std) : 0);
          t.value[at(&t, n, c, y, x)] = v;
          t.error[at(&t, n, c, y, x)] = error;
        }
  return t;
}

static void activation(const gconv_layer *layer, double *v, double *error) {
  double slope = (double)layer->slope;
  switch (layer->activation) {
  case GCONV_ACTIVATION_RELU:
    *v = *v > 0 ? *v : 0;
    break;
  case GCONV_ACTIVATION_LEAKY:
    *v = *v < 0 ? *v * slope : *v;
    *error = *error * (fabs(slope) > 1 ? fabs(slope) : 1) + fabs(*v) * 0x1p-24;
    break;
  case GCONV_ACTIVATION_SIGMOID:
    *v = *v < 0 ? exp(*v) / (1 + exp(*v)) : 1 / (1 + exp(-*v));
    *error = *error / 4 + *v * 0x1p-20 + 1e-37;
    break;
  case GCONV_ACTIVATION_TANH:
    *v = tanh(*v);
    *error = *error + fabs(*v) * 0x1p-20;
    break;
  default:
    break;
  }
}

/* The largest |x| of the channels first .. first + count - 1 of an image. */
static double largest(const tensor *in, int32_t n, int32_t first, int32_t count) {
  double most = 0;
  for (size_t i = at(in, n, first, 0, 0); i < at(in, n, first, 0, 0) + (size_t)count * (size_t)in->h * (size_t)in->w; i++)
    most = fmax(most, fabs(in->value[i]) + in->error[i]);
  return most;
}

static void respond(const drawn_layer *l, const gconv_layer_info *info, const tensor *in, int32_t n, int32_t k, int32_t p,
                    int32_t q, double most, tensor *out) {
  const gconv_bank *bank = &l->bank;
  int32_t filter = l->each ? k % bank->filters : k, taps = bank->rows * bank->columns;
  int32_t first = l->each ? k / bank->filters : k / (bank->filters / l->groups) * bank->channels;
  double bias = bank->biases ? (double)bank->biases[filter] : 0, sum = bias, size = fabs(bias), error = 0, weights = 0;
  for (int32_t c = 0; c < bank->channels; c++)
    for (int32_t t = 0; t < taps; t++) {
      int32_t y = p * l->stride_y - l->top + t / bank->columns * l->dilation_y;
      int32_t x = q * l->stride_x - l->left + t % bank->columns * l->dilation_x;
      double w = (double)bank->weights[(filter * bank->channels + c) * taps + (l->layer.flip ? taps - 1 - t : t)];
      weights += fabs(w);
      if (y < 0 || x < 0 || y >= in->h || x >= in->w)
        continue;
      size_t i = at(in, n, first + c, y, x);
      sum += w * in->value[i];
      size += fabs(w) * (fabs(in->value[i]) + in->error[i]);
      error += fabs(w) * in->error[i];
    }
  if (info->bound_of_largest)
    size = weights * most + fabs(bias);
  error += info->error_bound * size + 1e-40; /* what is below the smallest normal number may be lost */
  activation(&l->layer, &sum, &error);
  out->value[at(out, n, k, p, q)] = sum;
  out->error[at(out, n, k, p, q)] = error;
}

static tensor apply(const drawn_layer *l, const gconv_layer_info *info, const tensor *in) {
  tensor out = make_tensor(in->n, l->filters, l->p, l->q);
  for (int32_t n = 0; n < out.n; n++)
    for (int32_t k = 0; k < out.c; k++) {
      int32_t first = l->each ? k / l->bank.filters : k / (l->bank.filters / l->groups) * l->bank.channels;
      double most = info->bound_of_largest ? largest(in, n, first, l->bank.channels) : 0;
      for (int32_t p = 0; p < out.h; p++)
        for (int32_t q = 0; q < out.w; q++)
          respond(l, info, in, n, k, p, q, most, &out);
    }
  return out;
}

/* What is expected of the network: the last layer's tensor, before anything is combined. */
static tensor expect(const drawn *d, const gconv_network *network) {
  tensor t = input_tensor(d);
  for (size_t i = 0; i < d->count; i++) {
    tensor next = apply(&d->layers[i], gconv_network_get_info(network, i), &t);
    free_tensor(&t);
    t = next;
  }
  return t;
}

/* Whether `got` may be what becomes of the `count` values from channel `first` on. */
static bool is_right(const drawn *d, const tensor *t, int32_t n, int32_t first, int32_t count, int32_t p, int32_t q,
                     double got, double *expected, double *allowed) {
  const double u = 0x1p-24;
  int32_t filters = d->layers[d->count - 1].bank.filters;
  double sum = 0, squares = 0, error = 0, square_error = 0, most = -INFINITY, most_error = 0, candidate = -INFINITY;
  double sure = -INFINITY;
  for (int32_t k = first; k < first + count; k++) {
    double v = t->value[at(t, n, k, p, q)], e = t->error[at(t, n, k, p, q)];
    sum += v;
    error += e + u * (fabs(sum) + error);
    squares += v * v;
    square_error += 2 * fabs(v) * e + e * e + u * (squares + square_error);
    most = fmax(most, v);
    most_error = fmax(most_error, e);
    sure = fmax(sure, v - e);
    if (k % filters == got)
      candidate = fmax(candidate, v + e);
  }
  *expected = d->options.combine == GCONV_COMBINE_MAX         ? most
              : d->options.combine == GCONV_COMBINE_MAGNITUDE ? sqrt(squares)
                                                              : sum;
  *allowed = d->options.combine == GCONV_COMBINE_MAX ? most_error
             : d->options.combine == GCONV_COMBINE_MAGNITUDE
                 ? fmin(sqrt(square_error), square_error / *expected) + u * *expected
                 : error;
  if (isnan(*allowed)) /* 0 / 0 */
    *allowed = sqrt(square_error);
  if (d->options.combine == GCONV_COMBINE_NONE)
    *allowed = t->error[at(t, n, first, p, q)];
  if (d->options.combine == GCONV_COMBINE_ARGMAX)
    return candidate >= sure;
  return fabs(got - *expected) <= *allowed;
}

/* ---- The session ---- */

typedef struct tally {
  const gconv_algorithm_info *algorithm;
  const char *obstacle;
  uint64_t cases, unsupported, values;
  double closest; /* the largest error, relative to what is allowed */
} tally;

typedef struct session {
  const char *device_name, *only_algorithm;
  uint64_t seed;
  gconv_device *device, *cpus[THREAD_COUNTS];
  tally tallies[MOST_ALGORITHMS];
  size_t algorithms;
  int failures;
} session;

typedef struct trial {
  session *session;
  uint64_t number;
  drawn d;
  gconv_image reference; /* what cpu/reference yields */
  tally *tally;
} trial;

__attribute__((format(printf, 2, 3))) static bool fail(const trial *t, const char *format, ...) {
  session *s = t->session;
  printf("FAILED --device %s --seed %" PRIu64 " --case %" PRIu64 " --algorithm %s: ", s->device_name, s->seed, t->number,
         t->tally->algorithm->name);
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n  %s\n", t->d.text);
  s->failures++;
  return false;
}

static gconv_status make_network(const drawn *d, gconv_device *device, const char *algorithm, gconv_math math,
                                 gconv_network **network) {
  gconv_network_options options = d->options;
  options.algorithm = algorithm;
  options.math = math;
  return gconv_network_create(device, &d->in.image, d->list, d->count, &options, network);
}

/* ---- Checks ---- */

static bool check_shape(const trial *t, const gconv_network *network, const tensor *expected, int32_t *combined) {
  const gconv_image *out = gconv_network_output_header(network);
  const drawn_layer *last = &t->d.layers[t->d.count - 1];
  gconv_combine combine = t->d.options.combine;
  *combined = combine == GCONV_COMBINE_NONE ? 1 : combine == GCONV_COMBINE_ARGMAX ? expected->c : last->bank.filters;
  if (out->frames != expected->n || out->channels != expected->c / *combined || out->height != expected->h ||
      out->width != expected->w || out->type != GCONV_F32 || !out->planar)
    return fail(t, "the output is %d x %d x %d x %d, expected %d x %d x %d x %d", out->frames, out->channels, out->height,
                out->width, expected->n, expected->c / *combined, expected->h, expected->w);
  return true;
}

static bool check_values(const trial *t, const tensor *expected, const gconv_image *out, int32_t combined) {
  const float *got = out->data;
  for (int32_t n = 0; n < out->frames; n++)
    for (int32_t c = 0; c < out->channels; c++)
      for (int32_t p = 0; p < out->height; p++)
        for (int32_t q = 0; q < out->width; q++, got++) {
          double value, allowed;
          t->tally->values++;
          if (!is_right(&t->d, expected, n, c * combined, combined, p, q, (double)*got, &value, &allowed))
            return fail(t, "image %d, channel %d, row %d, column %d is %.9g, expected %.9g within %.3g", n, c, p, q,
                        (double)*got, value, allowed);
          if (t->d.options.combine != GCONV_COMBINE_ARGMAX && allowed > 0)
            t->tally->closest = fmax(t->tally->closest, fabs((double)*got - value) / allowed);
        }
  return true;
}

static bool same_bits(const gconv_image *a, const gconv_image *b) {
  return gconv_guarded_equal(a, b);
}

/* The same bits with other numbers of threads. */
static bool check_threads(const trial *t, const gconv_image *expected, gconv_math math) {
  for (size_t i = 0; i < THREAD_COUNTS; i++) {
    gconv_network *network = NULL;
    gconv_image out = {0};
    bool good = make_network(&t->d, t->session->cpus[i], t->tally->algorithm->name, math, &network) == GCONV_OK &&
                gconv_network_execute(network, &t->d.in.image, &out, NULL) == GCONV_OK;
    if (!good)
      fail(t, "with %d threads: %s", THREADS[i], gconv_last_error());
    else if (!same_bits(expected, &out))
      good = fail(t, "other bits with %d threads", THREADS[i]);
    gconv_network_free(network);
    gconv_image_free(&out);
    if (!good)
      return false;
  }
  return true;
}

static bool check_verification(const trial *t, gconv_network *network, gconv_image *out) {
  gconv_verification found;
  size_t count = (size_t)out->frames * (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  if (gconv_network_verify(network, &t->d.in.image, out, -1, &found) != GCONV_OK)
    return fail(t, "verification: %s", gconv_last_error());
  if (found.compared != count)
    return fail(t, "verification compared %" PRIu64 " values of %zu", found.compared, count);
  uint64_t lot = t->session->seed + t->number;
  size_t i = gconv_lot_next(&lot) % count;
  float *value = (float *)out->data + i, before = *value;
  float wrong = t->d.options.combine == GCONV_COMBINE_ARGMAX ? -1 : 4 * (float)found.most_allowed + 2 * fabsf(before) + 1;
  *value = wrong;
  gconv_status status = gconv_network_verify(network, &t->d.in.image, out, -1, &found);
  *value = before;
  size_t place =
      (((size_t)found.frame * (size_t)out->channels + (size_t)found.channel) * (size_t)out->height + (size_t)found.y) *
          (size_t)out->width +
      (size_t)found.x;
  if (status != GCONV_MISMATCH || place != i)
    return fail(t, "value %zu was altered from %g to %g; verification: status %d, value %zu", i, (double)before,
                (double)wrong, (int)status, place);
  return true;
}

/* The rows of a window alone, among NaN. */
static bool copy_window(const gconv_image *in, int32_t begin, int32_t end, gconv_guarded *window) {
  gconv_image header = *in;
  header.height = end - begin;
  if (!gconv_guarded_make(window, &header, 0, 0, 0xFF))
    return false;
  gconv_guarded_rows rows = gconv_guarded_rows_of(&window->image);
  for (size_t i = 0; i < rows.count; i++)
    memcpy(gconv_guarded_row(&window->image, i),
           gconv_guarded_row(in, i / (size_t)header.height * (size_t)in->height + (size_t)begin + i % (size_t)header.height),
           rows.bytes);
  return true;
}

/* The output, some rows at a time. */
static gconv_status execute_rows(const trial *t, gconv_network *network, gconv_image *out) {
  const gconv_image *in = &t->d.in.image;
  gconv_image part = {0};
  gconv_status status = GCONV_OK;
  int32_t rows = gconv_network_output_header(network)->height;
  size_t row = (size_t)out->width * sizeof(float);
  for (int32_t first = 0, begin, end; first < out->height && status == GCONV_OK; first += rows) {
    gconv_guarded window;
    gconv_network_rows_needed(network, first, &begin, &end);
    if (!copy_window(in, begin, end, &window))
      return GCONV_NO_MEMORY;
    status = gconv_network_execute_rows(network, &window.image, begin, first, &part, NULL);
    size_t kept = (size_t)(out->height - first < rows ? out->height - first : rows) * row;
    for (size_t i = 0; i < (size_t)out->frames * (size_t)out->channels && status == GCONV_OK; i++)
      memcpy((char *)out->data + i * out->plane_bytes + (size_t)first * row, (const char *)part.data + i * part.plane_bytes,
             kept);
    gconv_guarded_free(&window);
  }
  gconv_image_free(&part);
  return status;
}

/* By rows: the same bits, or what is within the bounds. */
static bool check_rows(const trial *t, const gconv_image *whole, const tensor *expected, int32_t combined, gconv_math math) {
  drawn d = t->d;
  uint64_t lot = t->session->seed * 7 + t->number;
  gconv_network *network = NULL;
  gconv_image out = *whole;
  out.data = NULL;
  d.options.rows = 1 + gconv_lot_below(&lot, whole->height + 2);
  gconv_status status = gconv_image_allocate(&out);
  if (status == GCONV_OK)
    status = make_network(&d, t->session->device, t->tally->algorithm->name, math, &network);
  if (status == GCONV_OK)
    status = execute_rows(t, network, &out);
  bool good = status == GCONV_OK || status == GCONV_UNSUPPORTED; /* other limits for other shapes */
  if (!good)
    fail(t, "%d rows at a time: %s", d.options.rows, gconv_last_error());
  else if (status == GCONV_OK && t->tally->algorithm->exact && !same_bits(whole, &out))
    good = fail(t, "other bits, %d rows at a time", d.options.rows);
  else if (status == GCONV_OK && !t->tally->algorithm->exact && !check_values(t, expected, &out, combined))
    good = fail(t, "%d rows at a time", d.options.rows);
  gconv_network_free(network);
  gconv_image_free(&out);
  return good;
}

static bool check_output(const trial *t, gconv_network *network, gconv_image *out, gconv_math math) {
  int32_t combined;
  tensor expected = expect(&t->d, network);
  bool good = check_shape(t, network, &expected, &combined) && check_values(t, &expected, out, combined) &&
              (t->number % 2 != 0 || check_rows(t, out, &expected, combined, math));
  free_tensor(&expected);
  if (!good)
    return false;
  if (t->tally->algorithm->exact && t->reference.data && !same_bits(out, &t->reference))
    return fail(t, "other bits than cpu/reference");
  gconv_image again = {0};
  good = gconv_network_execute(network, &t->d.in.image, &again, NULL) == GCONV_OK;
  if (!good)
    fail(t, "again: %s", gconv_last_error());
  else if (!same_bits(out, &again))
    good = fail(t, "other bits when executed again");
  gconv_image_free(&again);
  if (!good)
    return false;
  bool cpu = strcmp(t->session->device_name, "cpu") == 0;
  if (cpu && t->number % 8 == 0 && t->d.options.workspace_bytes == 0 && !check_threads(t, out, math))
    return false;
  return t->number % 4 != 0 || check_verification(t, network, out);
}

/* The turn of t->tally's algorithm with some math. */
static bool check(trial *t, gconv_math math) {
  gconv_network *network = NULL;
  gconv_status status = make_network(&t->d, t->session->device, t->tally->algorithm->name, math, &network);
  t->tally->cases++;
  if (status == GCONV_UNSUPPORTED) {
    t->tally->unsupported++;
    return true;
  }
  if (status != GCONV_OK)
    return fail(t, "%s", gconv_last_error());
  gconv_guarded out;
  bool good = gconv_guarded_make(&out, gconv_network_output_header(network), 0, 0, 0xFF);
  if (!good)
    fail(t, "out of memory");
  else if (gconv_network_execute(network, &t->d.in.image, &out.image, NULL) != GCONV_OK)
    good = fail(t, "%s", gconv_last_error());
  else if (!gconv_guarded_intact(&out))
    good = fail(t, "bytes outside of the output were written");
  else
    good = check_output(t, network, &out.image, math);
  gconv_guarded_free(&out);
  gconv_network_free(network);
  return good;
}

static void refer(trial *t) {
  gconv_network *network = NULL;
  drawn plain = t->d; /* the same banks, with all the workspace there may be */
  plain.options.workspace_bytes = 0;
  if (make_network(&plain, t->session->cpus[0], "reference", GCONV_MATH_FP32, &network) != GCONV_OK ||
      gconv_network_execute(network, &t->d.in.image, &t->reference, NULL) != GCONV_OK) {
    printf("FAILED case %" PRIu64 ": cpu/reference: %s\n  %s\n", t->number, gconv_last_error(), t->d.text);
    t->session->failures++;
  }
  gconv_network_free(network);
}

static void run_case(session *s, uint64_t number_of_case, bool verbose) {
  trial t = {.session = s, .number = number_of_case};
  if (make_drawn(&t.d, s->seed, number_of_case)) {
    if (verbose)
      printf("case %" PRIu64 ": %s\n", number_of_case, t.d.text);
    refer(&t);
    for (size_t i = 0; i < s->algorithms; i++) {
      t.tally = &s->tallies[i];
      if (t.tally->obstacle || (s->only_algorithm && strcmp(s->only_algorithm, t.tally->algorithm->name) != 0))
        continue;
      check(&t, t.d.options.math);
    }
  }
  gconv_image_free(&t.reference);
  free_drawn(&t.d);
}

static bool parse(int count, char **words, session *s, uint64_t *cases, int64_t *only) {
  for (int i = 1; i < count; i += 2) {
    const char *value = i + 1 < count ? words[i + 1] : NULL;
    if (!value)
      return false;
    if (strcmp(words[i], "--device") == 0)
      s->device_name = value;
    else if (strcmp(words[i], "--algorithm") == 0)
      s->only_algorithm = value;
    else if (strcmp(words[i], "--seed") == 0)
      s->seed = strtoull(value, NULL, 10);
    else if (strcmp(words[i], "--cases") == 0)
      *cases = strtoull(value, NULL, 10);
    else if (strcmp(words[i], "--case") == 0)
      *only = strtoll(value, NULL, 10);
    else
      return false;
  }
  return true;
}

static bool open_devices(session *s) {
  if (gconv_device_open(s->device_name, 0, &s->device) != GCONV_OK)
    return false;
  for (size_t i = 0; i < THREAD_COUNTS; i++)
    if (gconv_device_open("cpu", THREADS[i], &s->cpus[i]) != GCONV_OK)
      return false;
  const char *type = strncmp(s->device_name, "cuda", 4) == 0 ? "cuda" : "cpu";
  const gconv_algorithm_info *info;
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)) && s->algorithms < MOST_ALGORITHMS; i++)
    if (strcmp(info->device, type) == 0)
      s->tallies[s->algorithms++] = (tally){.algorithm = info, .obstacle = gconv_layer_algorithm_obstacle(i)};
  return true;
}

/* Prints what was tested; an algorithm that never worked was not. */
static void report(session *s, uint64_t cases) {
  for (size_t i = 0; i < s->algorithms; i++) {
    const tally *t = &s->tallies[i];
    if (t->obstacle)
      printf("%-16s not here: %s\n", t->algorithm->name, t->obstacle);
    else if (t->cases > 0)
      printf("%-16s %6" PRIu64 " cases, %6" PRIu64 " unsupported, %10" PRIu64 " values, largest error %.3f of the allowed\n",
             t->algorithm->name, t->cases, t->unsupported, t->values, t->closest);
    if (!t->obstacle && cases >= 400 && t->cases > 0 && t->cases == t->unsupported) {
      printf("FAILED: %s solved nothing\n", t->algorithm->name);
      s->failures++;
    }
  }
}

int main(int count, char **words) {
  session s = {.device_name = "cpu", .seed = 1};
  uint64_t cases = DEFAULT_CASES;
  int64_t only = -1;
  if (!parse(count, words, &s, &cases, &only)) {
    puts("usage: test_layers [--device D] [--seed S] [--cases N] [--case I] [--algorithm NAME]");
    return EXIT_FAILURE;
  }
  if (!open_devices(&s)) {
    printf("skipped: %s\n", gconv_last_error());
    return SKIPPED;
  }
  if (only >= 0)
    run_case(&s, (uint64_t)only, true);
  for (uint64_t i = 0; only < 0 && i < cases && s.failures < MOST_FAILURES; i++)
    run_case(&s, i, false);
  report(&s, only < 0 ? cases : 0);
  gconv_device_close(s.device);
  for (size_t i = 0; i < THREAD_COUNTS; i++)
    gconv_device_close(s.cpus[i]);
  printf("%s\n", s.failures ? "FAILED" : "passed");
  return s.failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

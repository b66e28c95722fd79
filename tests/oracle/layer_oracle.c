/* SPDX-License-Identifier: MIT */
#include "layer_oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static gconv_expected make_tensor(int32_t n, int32_t c, int32_t h, int32_t w) {
  size_t count = (size_t)n * (size_t)c * (size_t)h * (size_t)w;
  gconv_expected t = {n, c, h, w, calloc(count, sizeof(double)), calloc(count, sizeof(double))};
  if (!t.value || !t.error) {
    puts("out of memory");
    exit(EXIT_FAILURE);
  }
  return t;
}

void gconv_expected_free(gconv_expected *t) {
  free(t->value);
  free(t->error);
}

static size_t at(const gconv_expected *t, int32_t n, int32_t c, int32_t y, int32_t x) {
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

static gconv_expected input_tensor(const gconv_drawn_network *d) {
  const gconv_image *in = &d->in.image;
  const gconv_network_options *o = &d->options;
  gconv_expected t = make_tensor(in->frames, d->channels, in->height, in->width);
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

/* Where the sample lies that stands for position i of an axis, which is found by going from edge to edge; -1 for none. */
static int32_t inside(gconv_border border, int64_t i, int32_t size) {
  while (i < 0 || i >= size) {
    int64_t beyond = i < 0 ? -i : i - (size - 1);
    if (border == GCONV_BORDER_ZERO || border == GCONV_BORDER_CONSTANT)
      return -1;
    if (border == GCONV_BORDER_REPLICATE || (border == GCONV_BORDER_REFLECT101 && size == 1))
      return i < 0 ? 0 : size - 1;
    if (border == GCONV_BORDER_WRAP)
      i += i < 0 ? size : -size;
    else if (border == GCONV_BORDER_SYMMETRIC)
      i = i < 0 ? beyond - 1 : size - beyond;
    else
      i = i < 0 ? beyond : size - 1 - beyond;
  }
  return (int32_t)i;
}

/* The largest |x| of the channels first .. first + count - 1 of an image. */
static double largest(const gconv_expected *in, int32_t n, int32_t first, int32_t count) {
  double most = 0;
  for (size_t i = at(in, n, first, 0, 0); i < at(in, n, first, 0, 0) + (size_t)count * (size_t)in->h * (size_t)in->w; i++)
    most = fmax(most, fabs(in->value[i]) + in->error[i]);
  return most;
}

static void respond(const gconv_drawn_layer *l, const gconv_layer_info *info, const gconv_expected *in, int32_t n, int32_t k,
                    int32_t p, int32_t q, double most, gconv_expected *out) {
  const gconv_bank *bank = &l->bank;
  int32_t filter = l->each ? k % bank->filters : k, taps = bank->rows * bank->columns;
  int32_t first = l->each ? k / bank->filters : k / (bank->filters / l->groups) * bank->channels;
  const gconv_border border = l->layer.border;
  double constant = border == GCONV_BORDER_CONSTANT ? (double)(float)l->layer.border_value : 0;
  double bias = bank->biases ? (double)bank->biases[filter] : 0, sum = bias, size = fabs(bias), error = 0, weights = 0;
  for (int32_t c = 0; c < bank->channels; c++)
    for (int32_t t = 0; t < taps; t++) {
      int32_t y = inside(border, p * l->stride_y - l->top + t / bank->columns * l->dilation_y, in->h);
      int32_t x = inside(border, q * l->stride_x - l->left + t % bank->columns * l->dilation_x, in->w);
      double w = (double)bank->weights[(filter * bank->channels + c) * taps + (l->layer.flip ? taps - 1 - t : t)];
      weights += fabs(w);
      if (y < 0 || x < 0) {
        sum += w * constant;
        size += fabs(w * constant);
        continue;
      }
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

static gconv_expected apply(const gconv_drawn_layer *l, const gconv_layer_info *info, const gconv_expected *in) {
  gconv_expected out = make_tensor(in->n, l->filters, l->p, l->q);
  for (int32_t n = 0; n < out.n; n++)
    for (int32_t k = 0; k < out.c; k++) {
      int32_t first = l->each ? k / l->bank.filters : k / (l->bank.filters / l->groups) * l->bank.channels;
      double most = info->bound_of_largest ? largest(in, n, first, l->bank.channels) : 0;
      if (info->bound_of_largest && l->layer.border == GCONV_BORDER_CONSTANT)
        most = fmax(most, fabs(l->layer.border_value));
      for (int32_t p = 0; p < out.h; p++)
        for (int32_t q = 0; q < out.w; q++)
          respond(l, info, in, n, k, p, q, most, &out);
    }
  return out;
}

gconv_expected gconv_layers_expect(const gconv_drawn_network *d, const gconv_plan *network) {
  gconv_expected t = input_tensor(d);
  for (size_t i = 0; i < d->count; i++) {
    gconv_expected next = apply(&d->layers[i], gconv_plan_layer_info(network, i), &t);
    gconv_expected_free(&t);
    t = next;
  }
  return t;
}

bool gconv_layers_is_right(const gconv_drawn_network *d, const gconv_expected *t, int32_t n, int32_t first, int32_t count,
                           int32_t p, int32_t q, double got, double *expected, double *allowed) {
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

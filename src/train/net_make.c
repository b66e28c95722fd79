/* SPDX-License-Identifier: MIT */
/* Makes the layers of a network's text, with random weights, once the size of its inputs is known. */
#include "bank/kind.h"
#include "bank/network_file.h"
#include "base/arguments.h"
#include "base/control.h"
#include "base/memory.h"
#include "data/random.h"
#include "train/net_spec.h"
#include "train/net_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMETERS = 1 << 28 /* weights and biases of a network: 1 GiB */ };

static const char BY_SIZE[] = "the size of the input is not known: put \"mean\" before it, or give images of one size "
                              "(--patch)";

static gconv_status shape_dense(const gconv_net_reader *r, const gconv_net_spec *s, const gconv_layer_shape *in,
                                gconv_layer *layer, gconv_bank *bank, gconv_layer_shape *out) {
  if (in->height == 0)
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, s->begin, s->end, "a dense layer sees the whole input, but %s", BY_SIZE);
  GCONV_TRY(gconv_filter_check_size("a dense layer after an image", in->height, in->width));
  *bank = (gconv_bank){.filters = s->filters, .channels = in->channels, .rows = in->height, .columns = in->width};
  if (in->height > 1 || in->width > 1)
    layer->padding = GCONV_LAYER_VALID;
  *out = (gconv_layer_shape){s->filters, 1, 1, false};
  return GCONV_OK;
}

/* Finds the number of outputs along an axis of `size`; 0 if the size is not known. */
static gconv_status shape_axis(const gconv_net_reader *r, const gconv_net_spec *s, int32_t size, int32_t taps,
                               int32_t *outputs) {
  int64_t extent = (int64_t)(taps - 1) * s->dilation + 1;
  if (extent > GCONV_NET_LARGEST_EXTENT)
    return gconv_net_fail_at(r, GCONV_TOO_LARGE, s->begin, s->end, "a filter spans at most %d pixels",
                             GCONV_NET_LARGEST_EXTENT);
  *outputs = 0;
  if (size == 0)
    return GCONV_OK;
  if (s->valid && extent > size)
    return gconv_net_fail_at(
        r, GCONV_BAD_ARGUMENT, s->begin, s->end,
        "a filter that spans %lld does not lie inside an input of %d: use \"same\" instead of \"valid\", or fewer such "
        "layers",
        (long long)extent, size);
  *outputs = (int32_t)((size - (s->valid ? extent : 1)) / s->stride + 1);
  return GCONV_OK;
}

static gconv_status shape_conv(const gconv_net_reader *r, const gconv_net_spec *s, const gconv_layer_shape *in,
                               gconv_layer *layer, gconv_bank *bank, gconv_layer_shape *out) {
  if (in->channels % s->groups != 0 || s->filters % s->groups != 0)
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, s->begin, s->end, "%d groups do not divide %d channels and %d filters",
                             s->groups, in->channels, s->filters);
  *bank = (gconv_bank){.filters = s->filters, .channels = in->channels / s->groups, .rows = s->rows, .columns = s->columns};
  layer->padding = s->valid ? GCONV_LAYER_VALID : GCONV_LAYER_SAME;
  layer->stride_y = layer->stride_x = s->stride;
  layer->dilation_y = layer->dilation_x = s->dilation;
  layer->groups = s->groups;
  *out = (gconv_layer_shape){.channels = s->filters};
  GCONV_TRY(shape_axis(r, s, in->height, s->rows, &out->height));
  GCONV_TRY(shape_axis(r, s, in->width, s->columns, &out->width));
  out->moved = in->height == 0 && (in->moved || s->stride > 1 || (s->valid && (s->rows > 1 || s->columns > 1)));
  return GCONV_OK;
}

/* Returns the bound of random weights: that of He before relu and leaky, otherwise that of Glorot. */
static double bound_of(const gconv_net_spec *s, const gconv_bank *bank) {
  double plane = s->dense ? 1 : (double)bank->rows * bank->columns;
  double in = (double)bank->channels * bank->rows * bank->columns, out = (double)bank->filters / s->groups * plane;
  if (s->kind == GCONV_LAYER_UPCONV) /* an output gets only every N-th row and column of taps */
    in /= (double)s->stride * s->stride;
  if (s->activation == GCONV_ACTIVATION_RELU || s->activation == GCONV_ACTIVATION_LEAKY)
    return sqrt(6 / in / (1 + (double)s->slope * (double)s->slope));
  return sqrt(6 / (in + out));
}

static gconv_status fill_bank(const gconv_net_spec *s, uint64_t seed, size_t number, gconv_bank *bank) {
  size_t factors[] = {(size_t)bank->filters, (size_t)bank->channels, (size_t)bank->rows, (size_t)bank->columns};
  size_t count = gconv_checked_product(4, factors);
  bank->name = gconv_format_text("l%zu.weight", number);
  bank->weights = malloc(count * sizeof *bank->weights);
  const bool has_biases = gconv_layer_form_of(s->kind)->has_biases;
  if (has_biases)
    bank->biases = calloc((size_t)bank->filters, sizeof *bank->biases);
  GCONV_NEED_MEMORY(bank->name && bank->weights && (bank->biases || !has_biases),
                    "no memory for the %zu weights of layer %zu", count, number + 1);
  double bound = bound_of(s, bank);
  for (size_t i = 0; i < count; i++) {
    if (i % (1 << 16) == 0)
      GCONV_TRY(gconv_control_check());
    bank->weights[i] = s->kind == GCONV_LAYER_PRELU ? 0.25F /* as He et al. 2015 begin */
                       : s->kind == GCONV_LAYER_BATCHNORM
                           ? (float)(i % 3 != 1) /* scale 1, mean 0, variance 1 */
                           : (float)((2 * gconv_random_uniform(seed, GCONV_RANDOM_WEIGHTS, number, i) - 1) * bound);
  }
  return GCONV_OK;
}

/* Sets the fields of a layer that is not a convolution, and of its bank if it has one. */
static gconv_status fill_layer(const gconv_net_reader *r, size_t number, const gconv_layer_shape *in, gconv_layer *layer,
                               gconv_bank *bank) {
  const gconv_net_spec *s = &r->specs[number];
  const unsigned text = gconv_layer_form_of(s->kind)->text;
  if (text & (GCONV_TEXT_WINDOW | GCONV_TEXT_FACTOR))
    layer->window_y = s->rows, layer->window_x = s->columns;
  if (text & GCONV_TEXT_WINDOW) { /* without a stride, windows lie side by side */
    layer->stride_y = s->stride > 0 ? s->stride : s->rows;
    layer->stride_x = s->stride > 0 ? s->stride : s->columns;
  }
  if (text & GCONV_TEXT_SIZE)
    layer->stride_y = layer->stride_x = s->stride;
  if (gconv_layer_form_of(s->kind)->has_bank) {
    const bool filters = text & GCONV_TEXT_FILTERS;
    *bank = (gconv_bank){.filters = filters ? s->filters : in->channels,
                         .channels = filters                            ? in->channels
                                     : s->kind == GCONV_LAYER_BATCHNORM ? 3
                                                                        : 1,
                         .rows = s->rows,
                         .columns = s->columns};
    layer->bank = bank;
  }
  for (size_t i = number; s->other.length > 0 && layer->from == 0; i--) {
    if (i == 0)
      return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, s->other.begin, s->other.begin + s->other.length,
                               "no layer before this one has this name: \"as\" and a name after a layer name its output");
    const gconv_net_name *own = &r->specs[i - 1].own;
    if (own->length == s->other.length && strncmp(own->begin, s->other.begin, own->length) == 0)
      layer->from = (int32_t)i;
  }
  return GCONV_OK;
}

/* Adds the layer's parameters to *parameters, and fails if they are too many. */
static gconv_status count_parameters(const gconv_net_reader *r, const gconv_net_spec *s, const gconv_bank *bank,
                                     size_t *parameters) {
  size_t factors[] = {(size_t)bank->filters, (size_t)bank->channels, (size_t)bank->rows, (size_t)bank->columns};
  size_t count = gconv_checked_product(4, factors),
         biases = gconv_layer_form_of(s->kind)->has_biases ? (size_t)bank->filters : 0;
  if (count > r->most || biases > r->most - count || count + biases > r->most - *parameters)
    return gconv_net_fail_at(r, GCONV_TOO_LARGE, s->begin, s->end, "with this layer the network has more than %zu weights",
                             r->most);
  *parameters += count + biases;
  return GCONV_OK;
}

/* shapes[0] is the shape of the network's input, shapes[i + 1] that of the output of layer i. */
static gconv_status make_layer(const gconv_net_reader *r, size_t number, gconv_network *network, gconv_layer_shape *shapes,
                               size_t *parameters) {
  const gconv_net_spec *s = &r->specs[number];
  gconv_layer *layer = &network->layers[number];
  gconv_bank *bank = &network->banks[number];
  gconv_layer_shape *at = &shapes[number + 1];
  layer->kind = s->kind;
  layer->activation = s->activation;
  layer->slope = s->slope;
  if (s->kind != GCONV_LAYER_CONV) {
    *at = shapes[number];
    GCONV_TRY(fill_layer(r, number, at, layer, bank));
    const gconv_status status = gconv_layer_form_of(s->kind)->follow(layer, gconv_layer_other(layer, shapes), at);
    if (status != GCONV_OK)
      return gconv_net_fail_at(r, status, s->begin, s->end, "%s", gconv_last_error());
    return layer->bank ? count_parameters(r, s, bank, parameters) : GCONV_OK;
  }
  GCONV_TRY((s->dense ? shape_dense : shape_conv)(r, s, &shapes[number], layer, bank, at));
  layer->bank = bank;
  return count_parameters(r, s, bank, parameters);
}

static gconv_status check_outputs(const gconv_net_reader *r, const gconv_layer_shape *at, size_t outputs) {
  const gconv_net_spec *last = &r->specs[r->count - 1];
  size_t count = (size_t)at->channels * (size_t)at->height * (size_t)at->width;
  if (outputs == 0)
    return GCONV_OK;
  if (at->height == 0 && outputs % (size_t)at->channels == 0)
    return GCONV_OK;
  if (at->height != 0 && count == outputs)
    return GCONV_OK;
  if (at->height > 1 || at->width > 1)
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, last->begin, last->end,
                             "the last layer has %d x %d x %d = %zu outputs, but the data ask for %zu", at->channels,
                             at->height, at->width, count, outputs);
  return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, last->begin, last->end,
                           "the last layer has %d output%s, but the data ask for %zu", at->channels,
                           at->channels == 1 ? "" : "s", outputs);
}

static gconv_status make_layers(const gconv_net_reader *r, size_t outputs, gconv_network *network) {
  network->layers = calloc(r->count, sizeof *network->layers);
  network->banks = calloc(r->count, sizeof *network->banks);
  GCONV_NEED_MEMORY(network->layers && network->banks, "no memory for a network");
  network->count = r->count;
  GCONV_FREED gconv_layer_shape *shapes = calloc(r->count + 1, sizeof *shapes);
  GCONV_NEED_MEMORY(shapes, "no memory for a network");
  shapes[0] = (gconv_layer_shape){network->channels, network->height, network->width, false};
  size_t parameters = 0;
  for (size_t i = 0; i < r->count; i++)
    GCONV_TRY(make_layer(r, i, network, shapes, &parameters));
  GCONV_TRY(check_outputs(r, &shapes[r->count], outputs));
  if (parameters == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network's text has no layer with weights: write at least one dense or conv");
  for (size_t i = 0; i < r->count; i++)
    if (network->layers[i].bank)
      GCONV_TRY(fill_bank(&r->specs[i], network->seed, i, &network->banks[i]));
  return GCONV_OK;
}

gconv_status gconv_network_make_within(const char *text, int32_t channels, int32_t height, int32_t width, size_t outputs,
                                       uint64_t seed, size_t most, gconv_network *network) {
  gconv_net_reader r = {.text = text, .at = text, .most = most};
  gconv_network made = {.channels = channels, .height = height, .width = width, .seed = seed};
  gconv_status status = gconv_net_read(&r);
  GCONV_THEN(status, make_layers(&r, outputs, &made));
  free(r.specs);
  if (status == GCONV_OK)
    *network = made;
  else
    gconv_network_free(&made);
  return status;
}

gconv_status gconv_network_make(const char *text, const int32_t input[3], size_t outputs, uint64_t seed,
                                gconv_network *network) {
  GCONV_NEED(text, input, network);
  const int32_t channels = input[0], height = input[1], width = input[2];
  GCONV_TRY(gconv_check_value("the number of channels", channels, 1, INT32_MAX));
  GCONV_TRY(gconv_check_value("the height", height, 0, INT32_MAX));
  GCONV_TRY(gconv_check_value("the width", width, 0, INT32_MAX));
  if ((height == 0) != (width == 0))
    return gconv_fail(GCONV_BAD_ARGUMENT, "an input of height %d and width %d: both are 0, for any size, or none", height,
                      width);
  GCONV_TRY(gconv_network_check_empty("gconv_network_make", network));
  return gconv_network_make_within(text, channels, height, width, outputs, seed, MOST_PARAMETERS, network);
}

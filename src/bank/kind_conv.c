/* SPDX-License-Identifier: MIT */
/* Convolutions, including dense layers: how their fields are read, written and checked. kind_conv_export.c writes them as
 * nodes of ONNX. */
#include "bank/network_file.h"
#include "bank/onnx_write.h"
#include "base/arguments.h"
#include "base/lists.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

const char *const gconv_activation_words[GCONV_ACTIVATIONS] = {
    GCONV_EACH_ACTIVATION(GCONV_NAMED_AS)[GCONV_ACTIVATION_SOFTMAX] = "softmax"};
static const char *const borders[] = {"zero", "constant", "replicate", "symmetric", "reflect101", "wrap"};
static const char *const paddings[] = {NULL, "same", "valid", "full", NULL, "same_upper", "same_lower"};
#define COUNT(array) (sizeof array / sizeof *array)

/* ---- Activations ---- */

bool gconv_activation_has_slope(gconv_activation activation) {
  switch (activation) {
  case GCONV_ACTIVATION_LEAKY:
  case GCONV_ACTIVATION_SIGMOID:
    return true;
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_RELU:
  case GCONV_ACTIVATION_TANH:
  case GCONV_ACTIVATION_SOFTMAX:
    break;
  }
  return false;
}

bool gconv_activation_find(const char *begin, const char *end, gconv_activation *activation, const char **sign) {
  const size_t all = (size_t)(end - begin), cut = strcspn(begin, "=:"), length = cut < all ? cut : all;
  *sign = cut < all ? begin + cut : NULL;
  for (int i = 0; i < GCONV_ACTIVATIONS; i++)
    if (strlen(gconv_activation_words[i]) == length && strncmp(begin, gconv_activation_words[i], length) == 0) {
      *activation = (gconv_activation)i;
      return true;
    }
  return false;
}

/* ---- Reading and writing JSON ---- */

static gconv_status take_padding(const gconv_json_part *p, gconv_layer *layer) {
  int32_t *const pads[] = {&layer->pad_top, &layer->pad_left, &layer->pad_bottom, &layer->pad_right};
  int padding = GCONV_LAYER_SAME;
  if (json_is_string(json_object_get(p->json, "padding"))) {
    GCONV_TRY(gconv_json_take_word(p, "padding", paddings, COUNT(paddings), &padding));
  } else if (json_object_get(p->json, "padding")) {
    padding = GCONV_LAYER_EXPLICIT;
    GCONV_TRY(gconv_json_take_numbers(p, "padding", 0, 4, pads));
  }
  layer->padding = (gconv_layer_padding)padding;
  return GCONV_OK;
}

static gconv_status take_border(const gconv_json_part *p, gconv_layer *layer) {
  int border = GCONV_BORDER_ZERO;
  GCONV_TRY(gconv_json_take_word(p, "border", borders, COUNT(borders), &border));
  GCONV_TRY(gconv_json_take_number(p, "border_value", &layer->border_value));
  if (layer->border_value != 0 && border != GCONV_BORDER_CONSTANT)
    gconv_warn("%s: layer %zu: its 'border_value' changes nothing: only the border constant has one", p->where, p->layer);
  layer->border = (gconv_border)border;
  return GCONV_OK;
}

gconv_status gconv_layer_take_activation(const gconv_json_part *p, gconv_layer *layer) {
  int activation = GCONV_ACTIVATION_NONE;
  double slope = 0;
  GCONV_TRY(gconv_json_take_word(p, "activation", gconv_activation_words, GCONV_ACTIVATIONS, &activation));
  GCONV_TRY(gconv_json_take_number(p, "slope", &slope));
  if (slope != 0 && !gconv_activation_has_slope((gconv_activation)activation))
    gconv_warn("%s: layer %zu: its 'slope' changes nothing: only leaky and sigmoid have one", p->where, p->layer);
  layer->activation = (gconv_activation)activation;
  layer->slope = (float)slope;
  return GCONV_OK;
}

bool gconv_layer_put_activation(const gconv_layer *layer, json_t *object) {
  return gconv_json_put(object, "activation", json_string(gconv_activation_words[layer->activation])) &&
         (layer->slope == 0 || gconv_json_put(object, "slope", json_real((double)layer->slope)));
}

static gconv_status take(const gconv_json_part *p, gconv_layer *layer) {
  int32_t *const stride[] = {&layer->stride_y, &layer->stride_x}, *const groups[] = {&layer->groups};
  int32_t *const dilation[] = {&layer->dilation_y, &layer->dilation_x};
  const json_t *flip = json_object_get(p->json, "flip");
  layer->stride_y = layer->stride_x = layer->dilation_y = layer->dilation_x = 1;
  GCONV_TRY(gconv_json_take_numbers(p, "stride", 1, 2, stride));
  GCONV_TRY(gconv_json_take_numbers(p, "dilation", 1, 2, dilation));
  GCONV_TRY(gconv_json_take_numbers(p, "groups", 1, 1, groups));
  GCONV_TRY(take_padding(p, layer));
  GCONV_TRY(take_border(p, layer));
  GCONV_TRY(gconv_layer_take_activation(p, layer));
  if (flip && !json_is_boolean(flip))
    return gconv_json_fail(p, GCONV_BAD_FILE, "its 'flip' is neither true nor false");
  layer->flip = json_is_true(flip);
  return GCONV_OK;
}

static json_t *make_padding(const gconv_layer *settled) {
  return settled->padding != GCONV_LAYER_EXPLICIT
             ? json_string(paddings[settled->padding])
             : json_pack("[i, i, i, i]", settled->pad_top, settled->pad_left, settled->pad_bottom, settled->pad_right);
}

static bool put(const gconv_layer *layer, json_t *object) {
  const gconv_layer s = gconv_layer_settled(layer);
  return gconv_json_put(object, "stride", json_pack("[i, i]", s.stride_y, s.stride_x)) &&
         gconv_json_put(object, "padding", make_padding(&s)) &&
         gconv_json_put(object, "dilation", json_pack("[i, i]", s.dilation_y, s.dilation_x)) &&
         gconv_layer_put_activation(&s, object) &&
         (s.groups == 0 || gconv_json_put(object, "groups", json_integer(s.groups))) &&
         (!s.flip || gconv_json_put(object, "flip", json_true())) &&
         (s.border == GCONV_BORDER_ZERO || gconv_json_put(object, "border", json_string(borders[s.border]))) &&
         (s.border != GCONV_BORDER_CONSTANT || gconv_json_put(object, "border_value", json_real(s.border_value)));
}

/* ---- Checks ---- */

static gconv_status check_value(const char *what, const char *where, int64_t value, int64_t least, int64_t most) {
  char text[96];
  snprintf(text, sizeof text, "the %s of %s", what, where);
  return gconv_check_value(text, value, least, most);
}

static gconv_status check(const gconv_layer *layer, const char *where) {
  const int32_t numbers[] = {layer->pad_top,  layer->pad_left,   layer->pad_bottom, layer->pad_right, layer->stride_y,
                             layer->stride_x, layer->dilation_y, layer->dilation_x, layer->groups};
  GCONV_TRY(gconv_layer_check_weights(layer->bank, where));
  for (size_t i = 0; i < COUNT(numbers); i++)
    if (numbers[i] < 0)
      return gconv_fail(
          GCONV_BAD_ARGUMENT,
          "%s: a stride, dilation, padding or number of groups of %d: they must be at least 1, padding at least "
          "0; 0 takes the value of the bank",
          where, numbers[i]);
  GCONV_TRY(check_value("activation", where, layer->activation, 0, GCONV_ACTIVATIONS - 1));
  GCONV_TRY(check_value("padding", where, layer->padding, 0, COUNT(paddings) - 1));
  GCONV_TRY(check_value("border", where, layer->border, 0, COUNT(borders) - 1));
  if (!isfinite(layer->slope) || !isfinite((float)layer->border_value))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: a slope or a border value that is not finite", where);
  return GCONV_OK;
}

/* Sets the channels of the output, and marks its height and width as not known: they depend on the padding, which src/layer
 * resolves. */
static gconv_status follow(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  const gconv_bank *bank = layer->bank;
  const int32_t groups = gconv_layer_settled(layer).groups, parts = groups > 0 ? groups : 1, got = at->channels;
  const bool each = groups == 0 && bank->channels == 1; /* each channel by itself */
  const int64_t outputs = each ? (int64_t)got * bank->filters : bank->filters;
  if (outputs > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "it yields more than %d channels", INT32_MAX);
  if (!each && ((int64_t)bank->channels * parts != got || bank->filters % parts != 0))
    return gconv_fail(GCONV_BAD_ARGUMENT, "it gets %d channels, but its %d filters, in %d groups, take %d channels a group",
                      got, bank->filters, parts, bank->channels);
  *at = (gconv_layer_shape){.channels = (int32_t)outputs, .moved = true};
  return GCONV_OK;
}

GCONV_LAYER_FORM(conv, true, true, GCONV_TEXT_FILTERS | GCONV_TEXT_SIZE | GCONV_TEXT_ACTIVATION | GCONV_TEXT_GEOMETRY, 1,
                 GCONV_KEYS("kind", "stride", "padding", "border", "border_value", "dilation", "groups", "activation",
                            "slope", "flip"),
                 take, put, check, follow, gconv_conv_export);

/* SPDX-License-Identifier: MIT */
/* The text of --net: the modules and settings of a PyTorch nn.Sequential that its weights do not show. */
#include "bank/network_state.h"
#include "base/arguments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 40 };

/* ---- Words ---- */

/* Parses "A" or "AxB", both from 1 on. */
static bool parse_pair(const char *text, int32_t *a, int32_t *b) {
  char *end;
  long first = strtol(text, &end, 10), second = first;
  if (end == text || text[0] < '0' || text[0] > '9')
    return false;
  if (*end == 'x') {
    const char *more = end + 1;
    second = more[0] >= '0' && more[0] <= '9' ? strtol(more, &end, 10) : 0;
  }
  *a = (int32_t)first;
  *b = (int32_t)second;
  return *end == '\0' && first >= 1 && second >= 1 && first <= GCONV_FILTER_MAX_SIDE && second <= GCONV_FILTER_MAX_SIDE;
}

static bool add_step(gconv_net_item *item, gconv_net_step step) {
  if (item->count == GCONV_NET_STEPS)
    return false;
  item->steps[item->count++] = step;
  return true;
}

/* Takes an activation. An item has at most one. */
static bool take_activation(const char *word, gconv_net_item *item) {
  gconv_layer *layer = &item->layer;
  const char *end = word + strlen(word), *sign;
  gconv_activation found;
  if (layer->activation != GCONV_ACTIVATION_NONE || !gconv_activation_find(word, end, &found, &sign) ||
      (found != GCONV_ACTIVATION_NONE && !add_step(item, (gconv_net_step){.does = GCONV_NET_ACTIVATION})))
    return false;
  layer->activation = found;
  layer->slope = found == GCONV_ACTIVATION_LEAKY ? 0.01F : 0;
  if (!sign)
    return true;
  char *stop = NULL;
  layer->slope = strtof(sign + 1, &stop);
  return gconv_activation_has_slope(found) && stop > sign + 1 && *stop == '\0' && isfinite(layer->slope);
}

/* Takes a border, by its name in gconv, or by its name in PyTorch's padding_mode. */
static bool take_border(const char *word, gconv_layer *layer) {
  static const struct {
    const char *word;
    gconv_border border;
  } borders[] = {
      {"replicate", GCONV_BORDER_REPLICATE}, {"symmetric", GCONV_BORDER_SYMMETRIC}, {"reflect101", GCONV_BORDER_REFLECT101},
      {"reflect", GCONV_BORDER_REFLECT101},  {"wrap", GCONV_BORDER_WRAP},           {"circular", GCONV_BORDER_WRAP}};
  for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
    if (strcmp(word, borders[i].word) == 0) {
      layer->border = borders[i].border;
      return true;
    }
  return false;
}

/* Takes a word for a step without weights: a module that does nothing, flatten, or a layer without a bank, which is an item
 * by itself. */
static bool take_step(const char *word, gconv_net_item *item) {
  const bool nothing = strcmp(word, "dropout") == 0 || strcmp(word, "identity") == 0;
  const char *name;
  if (nothing || strcmp(word, "flatten") == 0)
    return add_step(item, (gconv_net_step){.does = nothing ? GCONV_NET_NOTHING : GCONV_NET_FLATTEN});
  for (int kind = 0; (name = gconv_layer_kind_name((gconv_layer_kind)kind)); kind++)
    if (strcmp(word, name) == 0 && gconv_layer_is_bare((gconv_layer_kind)kind)) {
      item->weights = false;
      return add_step(item, (gconv_net_step){.does = GCONV_NET_LAYER, .kind = (gconv_layer_kind)kind});
    }
  return false;
}

/* Takes a word that only convolutions have. */
static bool take_shape(const char *word, gconv_layer *layer) {
  int32_t a, b;
  if (take_border(word, layer))
    return true;
  if (word[0] == '/')
    return parse_pair(word + 1, &layer->stride_y, &layer->stride_x);
  if (strncmp(word, "dilation:", 9) == 0)
    return parse_pair(word + 9, &layer->dilation_y, &layer->dilation_x);
  if (strncmp(word, "groups:", 7) == 0)
    return parse_pair(word + 7, &layer->groups, &b) && layer->groups == b;
  if (strncmp(word, "padding:", 8) != 0 || !parse_pair(word + 8, &a, &b))
    return false;
  layer->padding = GCONV_LAYER_EXPLICIT;
  layer->pad_top = layer->pad_bottom = a;
  layer->pad_left = layer->pad_right = b;
  return true;
}

static bool take_epsilon(const char *word, double *epsilon) {
  char *end;
  *epsilon = strtod(word, &end);
  return end > word && *end == '\0' && isfinite(*epsilon) && *epsilon >= 0;
}

static bool take_word(const char *word, gconv_net_item *item) {
  gconv_layer *layer = &item->layer;
  if (take_step(word, item))
    return true;
  if (strcmp(word, "same") == 0)
    layer->padding = GCONV_LAYER_SAME;
  else if (strcmp(word, "valid") == 0 || strcmp(word, "padding:0") == 0)
    layer->padding = GCONV_LAYER_VALID;
  else if (strcmp(word, "pad") == 0)
    item->shaped = item->padded = true;
  else if (strncmp(word, "eps:", 4) == 0)
    return take_epsilon(word + 4, &item->epsilon);
  else if (take_shape(word, layer))
    item->shaped = true;
  else if (word[0] >= '0' && word[0] <= '9')
    return parse_pair(word, &item->rows, &item->columns);
  else
    return take_activation(word, item);
  return true;
}

/* ---- Items ---- */

/* True if the item has no activation, stride, padding or epsilon: an item without weights has no layer for them. */
static bool is_plain(const gconv_net_item *item) {
  return item->layer.activation == GCONV_ACTIVATION_NONE && item->layer.padding == GCONV_LAYER_SAME && !item->shaped &&
         item->rows == 0 && item->epsilon < 0;
}

gconv_status gconv_net_item_parse(const char **text, size_t number, gconv_net_item *item) {
  const char *at = *text;
  char names[128];
  *item = (gconv_net_item){.weights = true, .epsilon = -1, .layer.padding = GCONV_LAYER_SAME};
  gconv_layer *layer = &item->layer;
  layer->stride_y = layer->stride_x = layer->dilation_y = layer->dilation_x = layer->groups = 1;
  for (;;) {
    at += strspn(at, " \t\n");
    size_t length = strcspn(at, " \t\n,");
    char word[WORD_BYTES];
    if (length == 0)
      break;
    snprintf(word, sizeof word, "%.*s", (int)(length < WORD_BYTES ? length : WORD_BYTES), at);
    if (length >= WORD_BYTES || !take_word(word, item))
      return gconv_fail(
          GCONV_BAD_ARGUMENT,
          "item %zu of --net: '%s' is not one of none, relu, leaky:A, sigmoid, tanh, softmax (one at most), dropout, "
          "identity, flatten, /STRIDE, same, valid, padding:N, pad, replicate, symmetric, reflect, circular, dilation:N, "
          "groups:N, "
          "eps:E, ROWSxCOLUMNS of a dense layer, and, by itself, %s",
          number, word, gconv_layer_bare_names(names, sizeof names));
    at += length;
  }
  *text = *at == ',' ? at + 1 : NULL;
  if (item->padded && layer->padding != GCONV_LAYER_EXPLICIT)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "item %zu of --net: pad is a module of its own before the layer: say how much by "
                      "padding:N, too",
                      number);
  if (item->weights || is_plain(item))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "item %zu of --net: %s has no weights, so no activation and no settings: put a comma between layers",
                    number, gconv_layer_bare_names(names, sizeof names));
}

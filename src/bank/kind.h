/* SPDX-License-Identifier: MIT */
/*
 * What files and texts say of each kind of layers. A kind is a row of GCONV_EACH_LAYER_KIND (gconv.h) and a record in a file
 * of its own, kind_<name>.c, which does not compile before it has every field. src/layer/kind.h has what a kind computes.
 */
#pragma once

#include "bank/json_part.h"
#include "gconv_learn.h"

struct gconv_onnx_operator; /* network_onnx.h */

/* The shape of an image between layers. Height and width are 0 where they are not known. */
typedef struct gconv_layer_shape {
  int32_t channels, height, width;
  bool moved; /* a layer has changed a height and width that are not known */
} gconv_layer_shape;

typedef struct gconv_layer_form {
  const char *name;
  bool has_bank; /* it has weights and biases; without, it has a word of its own in texts, which is its name */
  int modules;   /* how many modules of an nn.Sequential it is, where texts describe one: 1, or 0 for what is none */
  const char *const *keys; /* of its object in JSON, with "kind"; ends with NULL */
  /* Reads the fields from JSON, and puts them into an object that has its "kind"; false without memory. */
  gconv_status (*take)(const gconv_json_part *part, gconv_layer *layer);
  bool (*put)(const gconv_layer *layer, json_t *object);
  /* Fails unless the fields are in their ranges, and the bank, if there is one, is whole. `where` begins the text. */
  gconv_status (*check)(const gconv_layer *layer, const char *where);
  /* Makes *at, the shape of the layer's input, that of its output. `first` is the shape of the network's input. Fails with
   * GCONV_BAD_ARGUMENT, in words about the layer, if it does not take this input. */
  gconv_status (*follow)(const gconv_layer *layer, const gconv_layer_shape *first, gconv_layer_shape *at);
  const struct gconv_onnx_operator *operators; /* of ONNX that make such layers; ends with a type of NULL */
} gconv_layer_form;

/* The record of a kind, all of its fields in this order. */
#define GCONV_LAYER_FORM(name, has_bank, modules, keys, take, put, check, follow, operators)                                \
  const gconv_layer_form gconv_layer_form_##name = {#name, has_bank, modules, keys, take, put, check, follow, operators}

#define GCONV_ROW(name, value) extern const gconv_layer_form gconv_layer_form_##name;
GCONV_EACH_LAYER_KIND(GCONV_ROW)
#undef GCONV_ROW

/* The record of a kind that is one. */
const gconv_layer_form *gconv_layer_form_of(gconv_layer_kind kind);

/* The fields of kinds that have none: nothing is read, nothing is written, and all must be 0. */
gconv_status gconv_layer_take_bare(const gconv_json_part *part, gconv_layer *layer);
bool gconv_layer_put_bare(const gconv_layer *layer, json_t *object);
gconv_status gconv_layer_check_bare(const gconv_layer *layer, const char *where);

/* Fails unless the kind is one, and its fields are right. */
gconv_status gconv_layer_check(const gconv_layer *layer, const char *where);

/* "mean or residual": the kinds without a bank, for texts. */
const char *gconv_layer_bare_names(char *text, size_t size);

/* The layer with all that its bank says: its padding is never the default one, strides and dilations are at least 1, and
 * groups are 0 where nothing sets them. */
gconv_layer gconv_layer_settled(const gconv_layer *layer);

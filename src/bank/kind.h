/* SPDX-License-Identifier: MIT */
/*
 * How each kind of layers is read from files and texts, written, and checked. A kind is a row of GCONV_EACH_LAYER_KIND
 * (gconv_network.h) and a record in a file of its own, kind_<name>.c, which does not compile before it has every field.
 * src/layer/kind.h has what a kind computes.
 */
#pragma once

#include "bank/json_part.h"
#include "gconv_learn.h"

struct gconv_onnx_writer; /* onnx_write.h */

/* The shape of an image between layers. Height and width are 0 where they are not known. */
typedef struct gconv_layer_shape {
  int32_t channels, height, width;
  bool moved; /* a layer has changed a height and width that are not known */
} gconv_layer_shape;

/* What stands after the name of a kind in the texts of networks (src/train/net_text.c). */
enum {
  GCONV_TEXT_FILTERS = 1,     /* K, the number of outputs */
  GCONV_TEXT_SIZE = 2,        /* RxS of the filters, or RxS/N with a stride */
  GCONV_TEXT_WINDOW = 4,      /* RxS of windows; the stride is the window, or N of RxS/N */
  GCONV_TEXT_FACTOR = 8,      /* N */
  GCONV_TEXT_NAME = 16,       /* the name of an earlier output, or nothing, for the input of the network */
  GCONV_TEXT_ACTIVATION = 32, /* an activation */
  GCONV_TEXT_GEOMETRY = 64    /* valid, same, dilation, groups */
};

typedef struct gconv_layer_form {
  const char *name;
  bool has_bank;           /* the kind has weights */
  bool has_biases;         /* and biases */
  unsigned text;           /* GCONV_TEXT_...: what stands after its name in texts; 0: nothing */
  int modules;             /* how many modules of PyTorch's nn.Sequential such a layer is: 1, or 0 */
  const char *const *keys; /* keys of its object in JSON, with "kind"; ends with NULL */
  /* take() reads the fields from JSON. put() adds them to an object that has its "kind"; false: no memory. */
  gconv_status (*take)(const gconv_json_part *part, gconv_layer *layer);
  bool (*put)(const gconv_layer *layer, json_t *object);
  /* Fails unless the fields are in their ranges, and the bank, if there is one, is whole. `where` begins the text. */
  gconv_status (*check)(const gconv_layer *layer, const char *where);
  /* Changes *at from the shape of the layer's input to the shape of its output. `other` is the shape of a second input: an
   * earlier output, or the network's input (gconv_layer_other()). Fails with GCONV_BAD_ARGUMENT if the layer cannot take
   * these inputs; the error text is about the layer. */
  gconv_status (*follow)(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at);
  /* Adds the layer's nodes to an ONNX model. An error is the end of a sentence that begins "layer 2: ". */
  gconv_status (*write)(struct gconv_onnx_writer *writer, const gconv_layer *layer);
} gconv_layer_form;

/* Defines the record of a kind, with all fields in this order. */
#define GCONV_LAYER_FORM(name, has_bank, has_biases, text, modules, keys, take, put, check, follow, write)                  \
  const gconv_layer_form gconv_layer_form_##name = {#name, has_bank, has_biases, text,   modules, keys,                     \
                                                    take,  put,      check,      follow, write}

#define GCONV_ROW(name, value) extern const gconv_layer_form gconv_layer_form_##name;
GCONV_EACH_LAYER_KIND(GCONV_ROW)
#undef GCONV_ROW

/* Returns the record of a kind, which must be valid. */
const gconv_layer_form *gconv_layer_form_of(gconv_layer_kind kind);

/* For kinds without fields: gconv_layer_take_bare() reads nothing, gconv_layer_put_bare() writes nothing, and
 * gconv_layer_check_bare() fails if the layer has a bank, an activation or a border. */
gconv_status gconv_layer_take_bare(const gconv_json_part *part, gconv_layer *layer);
bool gconv_layer_put_bare(const gconv_layer *layer, json_t *object);
gconv_status gconv_layer_check_bare(const gconv_layer *layer, const char *where);

/* Returns the shape of a layer's second input. shapes[0] is the shape of the network's input, shapes[i] the shape of the
 * output of layer i - 1. gconv_network_check() has checked `from`. */
static inline const gconv_layer_shape *gconv_layer_other(const gconv_layer *layer, const gconv_layer_shape *shapes) {
  return &shapes[layer->from];
}

/* Batch normalisation adds it to variances. */
#define GCONV_LAYER_EPSILON 1e-5F

/* Kinds share these functions for the window, the stride, the activation with its slope, and `from`. In JSON, `from` is the
 * number of a layer, from 0 on. */
gconv_status gconv_layer_take_window(const gconv_json_part *part, gconv_layer *layer);
bool gconv_layer_put_window(const gconv_layer *layer, json_t *object);
gconv_status gconv_layer_check_window(const gconv_layer *layer, const char *where);
gconv_status gconv_layer_follow_window(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at);
gconv_status gconv_layer_take_activation(const gconv_json_part *part, gconv_layer *layer);
bool gconv_layer_put_activation(const gconv_layer *layer, json_t *object);
gconv_status gconv_layer_take_from(const gconv_json_part *part, gconv_layer *layer);
bool gconv_layer_put_from(const gconv_layer *layer, json_t *object);
/* Fails unless two outputs that a layer takes have the same height and width, where both are known. `does`: "concat adds".
 */
gconv_status gconv_layer_check_sizes(const char *does, const gconv_layer_shape *at, const gconv_layer_shape *other);
/* Multiplies height and width, where they are known. */
gconv_status gconv_layer_enlarge(int32_t down, int32_t across, gconv_layer_shape *at);
/* Fails unless the bank has weights, sizes of at least 1, and finite numbers. */
gconv_status gconv_layer_check_weights(const gconv_bank *bank, const char *where);

/* Fails unless the kind is valid, and its fields are right. */
gconv_status gconv_layer_check(const gconv_layer *layer, const char *where);

/* True if the kind is a word by itself in texts: mean and residual. */
bool gconv_layer_is_bare(gconv_layer_kind kind);
/* Writes the names of such kinds, "mean or residual", and returns `text`. */
const char *gconv_layer_bare_names(char *text, size_t size);

/* Returns the layer with its defaults replaced by what its bank says: the padding is never GCONV_LAYER_DEFAULT, and strides
 * and dilations are at least 1. Groups are 0 if nothing sets them. */
gconv_layer gconv_layer_settled(const gconv_layer *layer);

/* For a convolution of an input of `size` columns (or rows): gconv_conv_pad() returns the padding before the first pixel,
 * gconv_conv_outputs() the number of outputs: 0 if the filter does not fit, or the size is not known, or above INT32_MAX. */
int64_t gconv_conv_pad(const gconv_layer *layer, int32_t size, bool columns);
int32_t gconv_conv_outputs(const gconv_layer *layer, int32_t size, bool columns);

/* Copies planes of `plane` weights; flip: rotated by 180 degrees. */
void gconv_layer_copy_planes(const float *from, size_t planes, size_t plane, bool flip, float *to);
/* Copies K x C x R x S weights, rotated by 180 degrees if layer->flip, then K biases, which are 0 if the bank has none. */
void gconv_layer_copy_weights(const gconv_layer *layer, float *weights);

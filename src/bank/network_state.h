/* SPDX-License-Identifier: MIT */
/* Weights of a PyTorch nn.Sequential on their way to a network: network_state_modules.c finds the modules that have tensors,
 * network_state_items.c reads the text of --net, which has the rest, and network_state.c puts both together. */
#pragma once

#include "bank/kind.h"
#include "bank/network_file.h"

/* A step that may follow a layer with weights. Steps are numbered modules of an nn.Sequential, except some kinds of layers
 * (gconv_layer_form.modules). */
typedef struct gconv_net_step {
  enum {
    GCONV_NET_ACTIVATION,
    GCONV_NET_NOTHING, /* dropout, identity: it does nothing in inference */
    GCONV_NET_FLATTEN,
    GCONV_NET_LAYER /* a layer without a bank */
  } does;
  gconv_layer_kind kind; /* for GCONV_NET_LAYER */
} gconv_net_step;

enum { GCONV_NET_STEPS = 8 /* the most steps of an item */ };

/* An item of the text, between commas: a layer with weights and what stands after it, or a step without weights. */
typedef struct gconv_net_item {
  bool weights;          /* it is a layer with weights */
  gconv_layer layer;     /* how the weights are applied; it has no bank, and a step applies its activation */
  int32_t rows, columns; /* of the input of a dense layer; 0: not given */
  double epsilon;        /* epsilon of a BatchNorm2d after it; below 0: not given */
  bool padded;           /* a separate module pads the layer's input */
  bool shaped;           /* it has a word that only convolutions have */
  gconv_net_step steps[GCONV_NET_STEPS];
  size_t count;
} gconv_net_item;

/* The kinds of tensors of a module. */
typedef enum gconv_state_part {
  GCONV_STATE_WEIGHT,
  GCONV_STATE_LENGTH, /* g of weight normalisation: weight = g * v / |v|; GCONV_STATE_DIRECTION is v */
  GCONV_STATE_DIRECTION,
  GCONV_STATE_MEAN,
  GCONV_STATE_VARIANCE,
  GCONV_STATE_COUNTED, /* how many batches the training had */
  GCONV_STATE_BIAS,
  GCONV_STATE_PARTS
} gconv_state_part;

/* A module of the nn.Sequential that has tensors. */
typedef struct gconv_state_module {
  uint64_t number;
  size_t entries[GCONV_STATE_PARTS]; /* the number of the file's entry, from 1 on; 0: it has no such tensor */
} gconv_state_module;

typedef struct gconv_state_modules {
  gconv_bank_file *file;
  gconv_state_module *items; /* owned; in ascending order */
  size_t count;
  bool counts;    /* the numbers count all modules, also modules without tensors */
  uint64_t first; /* the number of the first module, whether it has tensors or not */
  bool own;       /* tensors are called l<i>, as in files of gconv, which number only layers */
} gconv_state_modules;

/* Finds the modules of a file. Each is a layer with weights or a BatchNorm2d, and all tensors belong to one. Free the items,
 * also after a failure. */
gconv_status gconv_state_find(gconv_bank_file *file, gconv_state_modules *modules);

/* Fails with an error that begins "state.safetensors: tensor '0.weight' ". */
gconv_status gconv_state_fail(const gconv_bank_file *file, const gconv_state_module *module, const char *format, ...)
    GCONV_PRINTF(3, 4);
/* Returns the name of the tensor that stands for a module in error texts. */
const char *gconv_state_name(const gconv_bank_file *file, const gconv_state_module *module);

/* Returns the entry of a tensor that the module has. */
const gconv_bank_entry *gconv_state_entry(const gconv_bank_file *file, const gconv_state_module *module,
                                          gconv_state_part part);
bool gconv_state_is_normalization(const gconv_state_module *module);
/* For layers: returns the part that has the weights. */
gconv_state_part gconv_state_source(const gconv_state_module *module);
/* For layers: true if a Linear has the weights. */
bool gconv_state_is_dense(const gconv_bank_file *file, const gconv_state_module *module);
/* Reads `count` numbers, which gconv_release() frees. Without such a tensor, all are `otherwise`. */
gconv_status gconv_state_read(gconv_bank_file *file, const gconv_state_module *module, gconv_state_part part, int64_t count,
                              float otherwise, float **numbers);

/* Parses an item up to the next comma. Moves *text past it; to NULL after the last item. `number` is for errors. */
gconv_status gconv_net_item_parse(const char **text, size_t number, gconv_net_item *item);

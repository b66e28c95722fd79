/* SPDX-License-Identifier: MIT */
/* An ONNX model on its way to a network. network_onnx.c follows the chain of its nodes and has the table of operators;
 * network_onnx_layers.c makes layers of those that have weights. */
#ifndef GCONV_BANK_NETWORK_ONNX_H
#define GCONV_BANK_NETWORK_ONNX_H

#include "bank/network_file.h"
#include "bank/onnx.h"

/* The layouts of tensors on the chain. They are bits, so that an operator can accept several. */
typedef enum gconv_onnx_layout {
  GCONV_ONNX_IMAGES = 1,   /* N x C x H x W */
  GCONV_ONNX_ROWS = 2,     /* N x features: C x H x W of them, in this order */
  GCONV_ONNX_SQUEEZED = 4, /* as rows, or, of N = 1, one list of features */
  GCONV_ONNX_UNSAID = 8    /* the model's input, of which it says no shape */
} gconv_onnx_layout;

typedef struct gconv_onnx_graph {
  const gconv_onnx_model *model;
  const gconv_onnx_value *input; /* the only one that is no initialiser */
  gconv_network *network;
  char *at; /* the name of what the node before makes; owned */
  gconv_onnx_layout layout;
  int64_t batch, channels, height, width; /* of that; 0 where it is not known */
  gconv_layer pad;                        /* the pads and border of a Pad, for the Conv that must follow it ... */
  bool padded;                            /* ... where there is one */
  uint64_t claimed;                       /* numbers that were read, all together */
} gconv_onnx_graph;

/* Makes of a node what the network needs: a layer, or a change to the last one. */
typedef gconv_status gconv_onnx_maker(gconv_onnx_graph *graph, const gconv_onnx_node *node);

gconv_onnx_maker gconv_onnx_make_conv, gconv_onnx_make_gemm, gconv_onnx_make_matmul, gconv_onnx_make_add,
    gconv_onnx_make_normalization, gconv_onnx_make_pad;

gconv_status gconv_onnx_no_memory(const gconv_onnx_graph *graph);

/* Appends a layer. */
gconv_status gconv_onnx_add_layer(gconv_onnx_graph *graph, gconv_layer_kind kind, gconv_layer **layer);
/* The last layer, if it has weights and no activation yet; else NULL. */
gconv_layer *gconv_onnx_open_layer(const gconv_onnx_graph *graph);
/* Whether each channel is one number for every input that the model takes. */
bool gconv_onnx_is_one_pixel(const gconv_onnx_graph *graph);

/* Reads the integers of an attribute or, where it has none, of an input: a list of axes, shapes or pads. *given is false if
 * the node has neither. Fails if they are no constants, or more than are kept. */
gconv_status gconv_onnx_read_list(gconv_onnx_graph *graph, const gconv_onnx_node *node, const char *name, int input,
                                  gconv_onnx_integers *list, bool *given);

#endif

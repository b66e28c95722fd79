/* SPDX-License-Identifier: MIT */
/* The graph of an ONNX model on its way to a network of layers. chain.c follows its nodes and changes shapes; chain_layers.c
 * makes convolutions, and folds nodes into them. */
#pragma once

#include "graph/graph.h"

/* The layouts of tensors on the chain. They are bits, so that an operator can accept several. */
typedef enum gconv_chain_layout {
  GCONV_CHAIN_IMAGES = 1,   /* N x C x H x W */
  GCONV_CHAIN_ROWS = 2,     /* N x features, which are C x H x W in this order */
  GCONV_CHAIN_SQUEEZED = 4, /* as rows; or, if N is 1, one list of features */
  GCONV_CHAIN_UNSAID = 8    /* the model's input, if the model does not say its shape */
} gconv_chain_layout;

typedef struct gconv_chain {
  const gconv_graph *graph;
  gconv_network *network;
  const gconv_graph_node *node;   /* the node at work */
  size_t followed;                /* how many nodes were followed before it */
  int32_t at;                     /* the value that the last node made */
  int32_t first;                  /* the value that the first layer takes: the input, or the result of Sub and Div */
  const gconv_graph_value *input; /* the input of the model */
  gconv_chain_layout layout;
  int64_t batch, channels, height, width; /* sizes of the value `at`; 0: not known */
  gconv_layer pad;                        /* if `padded`: the pads and border of a Pad */
  bool padded;                            /* the last node was a Pad: a Conv must follow */
  int64_t claimed;                        /* how many numbers were copied, of all constants together */
} gconv_chain;

/* Makes a layer from a node, or changes the last layer. */
typedef gconv_status gconv_chain_maker(gconv_chain *chain, const gconv_onnx_node *node);
gconv_chain_maker gconv_chain_make_conv, gconv_chain_make_pad, gconv_chain_make_gemm, gconv_chain_make_matmul,
    gconv_chain_make_add, gconv_chain_make_normalization;

/* True if each channel is one number (height and width are 1), for every input that the model takes. */
static inline bool gconv_chain_is_one_pixel(const gconv_chain *chain) {
  return chain->height == 1 && chain->width == 1;
}

/* Reads the integers of an attribute or, if the node does not have it, of an input: a list of axes, shapes or pads. *given
 * is false if the node has neither. Fails if they are not constant, or more than GCONV_ONNX_INTEGERS. */
gconv_status gconv_chain_read_list(gconv_chain *chain, const gconv_onnx_node *node, const char *name, int32_t input,
                                   gconv_onnx_integers *list, bool *given);
/* Returns input number `input` of the node at work if it is constant; else NULL. */
const gconv_graph_value *gconv_chain_constant(const gconv_chain *chain, int32_t input);
/* Finds input number `input`, which must be a constant of floating-point numbers. */
gconv_status gconv_chain_find_constant(const gconv_chain *chain, const gconv_onnx_node *node, int32_t input,
                                       const char *what, const gconv_graph_value **constant);
/* Copies all numbers of a constant, as float32, for gconv_release(). Nodes may share constants, but not so often that the
 * copies are much larger than the file. */
gconv_status gconv_chain_copy_numbers(gconv_chain *chain, const gconv_onnx_node *node, const gconv_graph_value *constant,
                                      float **numbers);
/* Copies the numbers of input number `input`, which must be a list of `count`. */
gconv_status gconv_chain_copy_list(gconv_chain *chain, const gconv_onnx_node *node, int32_t input, const char *what,
                                   int64_t count, float **numbers);
/* Copies the numbers that a node adds to a tensor of `axes` axes: one for each of `count` channels (axis 1), or one for all,
 * broadcast as NumPy does. */
gconv_status gconv_chain_copy_added(gconv_chain *chain, const gconv_onnx_node *node, int32_t input, int32_t axes,
                                    int64_t count, float **numbers);

/* SPDX-License-Identifier: MIT */
/* An ONNX model on its way to a network. network_onnx.c follows the chain of its nodes. Each kind of layers has the table of
 * operators that make such layers (kind.h), with functions of network_onnx_graph.c. */
#pragma once

#include "bank/kind.h"
#include "bank/network_file.h"
#include "bank/onnx.h"

/* The layouts of tensors on the chain. They are bits, so that an operator can accept several. */
typedef enum gconv_onnx_layout {
  GCONV_ONNX_IMAGES = 1,   /* N x C x H x W */
  GCONV_ONNX_ROWS = 2,     /* N x features, which are C x H x W in this order */
  GCONV_ONNX_SQUEEZED = 4, /* as rows; or, if N is 1, one list of features */
  GCONV_ONNX_UNSAID = 8    /* the model's input, if the model does not say its shape */
} gconv_onnx_layout;

typedef struct gconv_onnx_graph {
  const gconv_onnx_model *model;
  const gconv_onnx_value *input; /* the only input that is no initialiser */
  gconv_network *network;
  char *at;    /* owned: the name of the tensor that the last node made */
  char *first; /* owned: the name of what the first layer takes: the input, or what Sub and Div made of it */
  gconv_onnx_layout layout;
  int64_t batch, channels, height, width; /* batch, channels, height and width of the tensor `at`; 0: not known */
  gconv_layer pad;                        /* if `padded`: the pads and border of a Pad */
  bool padded;                            /* the last node was a Pad: a Conv must follow */
  uint64_t claimed;                       /* how many numbers were read, of all tensors together */
} gconv_onnx_graph;

/* Makes of a node what the network needs: a layer, or a change to the last layer. */
typedef gconv_status gconv_onnx_maker(gconv_onnx_graph *graph, const gconv_onnx_node *node);

/* An operator, as it is from opset `since` on. */
typedef struct gconv_onnx_operator {
  const char *type; /* NULL ends a table */
  uint64_t since;
  int least, most;        /* inputs */
  unsigned layouts;       /* what the tensor on the chain may be */
  gconv_onnx_maker *make; /* NULL: it has no part in the chain */
  const gconv_onnx_rule *rules;
  unsigned flags;
} gconv_onnx_operator;
enum {
  GCONV_ONNX_EITHER_INPUT = 1, /* the chain may go on from its second input, too */
  GCONV_ONNX_AFTER_PAD = 2,    /* it may follow a Pad */
  GCONV_ONNX_HAS_FURTHER = 4   /* it has further outputs, which nothing needs */
};
extern const gconv_onnx_operator gconv_onnx_conv_operators[];
/* The table of kinds that have no operators. */
extern const gconv_onnx_operator gconv_layer_no_operators[];

gconv_status gconv_onnx_no_memory(const gconv_onnx_graph *graph);

/* Appends a layer that adds the input of the model, for an Add (kind_residual.c). */
gconv_status gconv_onnx_add_input(gconv_onnx_graph *graph, const gconv_onnx_node *node);
/* True if each channel is one number (height and width are 1), for every input that the model takes. */
bool gconv_onnx_is_one_pixel(const gconv_onnx_graph *graph);

/* Reads the integers of an attribute or, where it has none, of an input: a list of axes, shapes or pads. *given is false if
 * the node has neither. Fails if they are not constant, or more than GCONV_ONNX_INTEGERS. */
gconv_status gconv_onnx_read_list(gconv_onnx_graph *graph, const gconv_onnx_node *node, const char *name, int input,
                                  gconv_onnx_integers *list, bool *given);
/* True if the list is axes 2 and 3 of four; negative numbers count from the last axis. */
bool gconv_onnx_are_height_and_width(const gconv_onnx_integers *axes);

/* Finds input number `input` of a node, a constant of floating-point numbers. */
gconv_status gconv_onnx_find_constant(const gconv_onnx_graph *graph, const gconv_onnx_node *node, int input,
                                      const char *what, const gconv_onnx_tensor **tensor);
uint64_t gconv_onnx_count_numbers(const gconv_onnx_tensor *tensor);
/* Reads all numbers of a tensor, for gconv_release(). Nodes may share tensors, but not so often that reading takes much
 * longer than the file is large. */
gconv_status gconv_onnx_read_numbers(gconv_onnx_graph *graph, const gconv_onnx_node *node, const gconv_onnx_tensor *tensor,
                                     float **numbers);
/* Reads the numbers of input number `input`, which must be a list of `count`. */
gconv_status gconv_onnx_read_floats(gconv_onnx_graph *graph, const gconv_onnx_node *node, int input, const char *what,
                                    int64_t count, float **numbers);
/* Reads what a node adds to a tensor of `axes` dimensions, where dimension 1 is the channels: a number for each of `count`
 * channels, or one for all, broadcast as NumPy does. */
gconv_status gconv_onnx_read_added(gconv_onnx_graph *graph, const gconv_onnx_node *node, int input, size_t axes,
                                   int64_t count, float **numbers);

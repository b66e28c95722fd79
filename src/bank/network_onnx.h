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

/* An operator, from the opset on that has it as it is read here. */
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
/* Of kinds that no operator makes by itself. */
extern const gconv_onnx_operator gconv_layer_no_operators[];

gconv_status gconv_onnx_no_memory(const gconv_onnx_graph *graph);

/* A layer that adds the input of the model, for an Add (kind_residual.c). */
gconv_status gconv_onnx_add_input(gconv_onnx_graph *graph, const gconv_onnx_node *node);
/* Whether each channel is one number for every input that the model takes. */
bool gconv_onnx_is_one_pixel(const gconv_onnx_graph *graph);

/* Reads the integers of an attribute or, where it has none, of an input: a list of axes, shapes or pads. *given is false if
 * the node has neither. Fails if they are no constants, or more than are kept. */
gconv_status gconv_onnx_read_list(gconv_onnx_graph *graph, const gconv_onnx_node *node, const char *name, int input,
                                  gconv_onnx_integers *list, bool *given);
/* Whether they are axes 2 and 3 of four; negative ones count from the last. */
bool gconv_onnx_are_height_and_width(const gconv_onnx_integers *axes);

/* Finds input number `input` of a node, a constant of floating-point numbers. */
gconv_status gconv_onnx_find_constant(const gconv_onnx_graph *graph, const gconv_onnx_node *node, int input,
                                      const char *what, const gconv_onnx_tensor **tensor);
uint64_t gconv_onnx_count_numbers(const gconv_onnx_tensor *tensor);
/* Reads all numbers of a tensor, for gconv_release(). Nodes may share tensors, but not so often that reading takes much
 * longer than the file is large. */
gconv_status gconv_onnx_read_numbers(gconv_onnx_graph *graph, const gconv_onnx_node *node, const gconv_onnx_tensor *tensor,
                                     float **numbers);
/* The same of input number `input`: a list of `count` numbers. */
gconv_status gconv_onnx_read_floats(gconv_onnx_graph *graph, const gconv_onnx_node *node, int input, const char *what,
                                    int64_t count, float **numbers);
/* Reads what is added to a tensor of `axes` dimensions, of which number 1 are the channels: `count` numbers, or one for all
 * of them, as NumPy's broadcasting has it. */
gconv_status gconv_onnx_read_added(gconv_onnx_graph *graph, const gconv_onnx_node *node, int input, size_t axes,
                                   int64_t count, float **numbers);

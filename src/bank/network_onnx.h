/* SPDX-License-Identifier: MIT */
/* An ONNX model on its way to a network. Its graph is read twice, as tensors stand behind the nodes: first the tensors, then
 * the nodes in their order. network_onnx_graph.c reads, network_onnx.c makes layers. */
#ifndef GCONV_BANK_NETWORK_ONNX_H
#define GCONV_BANK_NETWORK_ONNX_H

#include "bank/network_file.h"
#include "bank/onnx.h"

enum { GCONV_ONNX_INPUTS = 6, GCONV_ONNX_INTEGERS = 8 };

/* An input or output of the graph; sizes that are not known are 0. */
typedef struct gconv_onnx_value {
  char *name; /* owned */
  int64_t sizes[4];
  size_t dimensions;
} gconv_onnx_value;

typedef struct gconv_onnx_graph {
  gconv_bank_file *file;
  gconv_onnx_tensor *tensors; /* initialisers and Constants; sorted by name in the second reading */
  size_t tensor_count;
  gconv_onnx_value *inputs, output; /* the last output */
  size_t input_count, output_count;
  const gconv_onnx_value *input; /* the only one that is no initialiser */
  gconv_network *network;
  char *at;                        /* what the node before makes; owned */
  int64_t channels, height, width; /* of that; height and width are 0 where they are not known */
  bool flat;                       /* it is N x (channels * height * width) */
  gconv_layer pad;                 /* the pads and border of a Pad, for the Conv that must follow it ... */
  bool padded;                     /* ... where there is one */
  uint64_t claimed;                /* numbers that were read, all together */
} gconv_onnx_graph;

typedef struct gconv_onnx_attribute {
  char *name, *text; /* owned */
  float number;
  int64_t integers[GCONV_ONNX_INTEGERS];
  size_t count;
  gconv_onnx_tensor tensor; /* its name is owned; NULL: there is none */
} gconv_onnx_attribute;

typedef struct gconv_onnx_node {
  const gconv_onnx_graph *graph;
  char *type, *name, *domain, *output, *inputs[GCONV_ONNX_INPUTS]; /* owned; each may be NULL */
  int input_count;
  gconv_onnx_attribute *attributes; /* owned */
  size_t attribute_count;
} gconv_onnx_node;

/* The integers of a small tensor, such as axes. */
typedef struct gconv_onnx_integers {
  int64_t numbers[GCONV_ONNX_INTEGERS];
  size_t count;
} gconv_onnx_integers;

/* The first reading, of a graph whose file and network are set: tensors, input and output, and the size of the network's
 * input. */
gconv_status gconv_onnx_graph_read(gconv_onnx_graph *graph);
/* The second reading: gives each node to take(), in their order. */
typedef gconv_status gconv_onnx_taker(gconv_onnx_graph *graph, const gconv_onnx_node *node);
gconv_status gconv_onnx_graph_follow(gconv_onnx_graph *graph, gconv_onnx_taker *take);
/* Frees all but the file and the network. */
void gconv_onnx_graph_free(gconv_onnx_graph *graph);

gconv_status gconv_onnx_no_memory(const gconv_onnx_graph *graph);
/* "model.onnx: node 'Pad_3' (Pad) ..." */
gconv_status gconv_onnx_fail_node(const gconv_onnx_node *node, gconv_status status, const char *format, ...)
    GCONV_PRINTF(3, 4);

/* The attribute of this name, or NULL; its first integer, or its number, or `otherwise`. */
const gconv_onnx_attribute *gconv_onnx_find_attribute(const gconv_onnx_node *node, const char *name);
int64_t gconv_onnx_integer_of(const gconv_onnx_node *node, const char *name, int64_t otherwise);
float gconv_onnx_number_of(const gconv_onnx_node *node, const char *name, float otherwise);

bool gconv_onnx_has_input(const gconv_onnx_node *node, int input);
/* The initialiser or Constant of this name, or NULL. */
const gconv_onnx_tensor *gconv_onnx_find_tensor(const gconv_onnx_graph *graph, const char *name);
/* Finds input number `input` of a node, a constant of floating-point numbers. */
gconv_status gconv_onnx_find_constant(const gconv_onnx_node *node, int input, const char *what,
                                      const gconv_onnx_tensor **tensor);
/* Reads all numbers of a tensor, for gconv_release(). Nodes may share tensors, but not so often that reading takes much
 * longer than the file is large. */
gconv_status gconv_onnx_read_numbers(gconv_onnx_graph *graph, const gconv_onnx_node *node, const gconv_onnx_tensor *tensor,
                                     float **numbers);
/* Reads input number `input`, which must have this many numbers. */
gconv_status gconv_onnx_read_constant(gconv_onnx_graph *graph, const gconv_onnx_node *node, int input, const char *what,
                                      int64_t count, float **numbers);
/* Reads the integers of input number `input`, a constant; none where it is no such tensor. */
gconv_status gconv_onnx_read_integers(gconv_onnx_graph *graph, const gconv_onnx_node *node, int input,
                                      gconv_onnx_integers *list);

#endif

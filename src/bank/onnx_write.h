/* SPDX-License-Identifier: MIT */
/* Writing a network as an ONNX model. network_write.c goes through the layers; each kind of layers adds its nodes
 * (gconv_layer_form.write). */
#pragma once

#include "bank/kind.h"
#include "bank/protobuf.h"

enum {
  GCONV_ONNX_NAME_BYTES = 48, /* the most bytes of a tensor's name, with its final 0 */
  GCONV_ONNX_WRAP_OPSET = 19  /* the first opset whose Pad has the mode wrap */
};

typedef struct gconv_onnx_writer {
  const gconv_network *network;
  gconv_message_writer graph; /* a GraphProto */
  gconv_message_writer node;  /* a NodeProto: the node that was begun, before gconv_onnx_end_node() */
  bool begun;
  size_t layer;                           /* number of the layer that is being written */
  char at[GCONV_ONNX_NAME_BYTES];         /* the output of the last node */
  char first[GCONV_ONNX_NAME_BYTES];      /* the input of the first layer */
  char (*outputs)[GCONV_ONNX_NAME_BYTES]; /* owned: the output of each layer */
  gconv_layer_shape *shapes;              /* owned: shapes of the network's input, and of each layer's output */
  size_t tail;                            /* from this layer on, tensors are matrices, N x features */
  bool row_input;                         /* the model's input is a matrix, too */
  uint64_t opset;                         /* the lowest opset that has all nodes */
} gconv_onnx_writer;

/* Begins a node that takes the output of the node before it. */
void gconv_onnx_put_node(gconv_onnx_writer *writer, const char *operator);
/* Ends the node that was begun, and names its output. */
void gconv_onnx_end_node(gconv_onnx_writer *writer, const char *output);
/* Adds the tensor `name` to the inputs of the node; "" stands for an optional input that is left out. */
void gconv_onnx_put_input(gconv_onnx_writer *writer, const char *name);
/* Add a constant to the inputs of the node: floats, or integers in one dimension. The constant is named after the layer and
 * `part`: "l0.weight". */
void gconv_onnx_put_floats(gconv_onnx_writer *writer, const char *part, size_t dimensions, const int64_t *shape,
                           const float *floats);
void gconv_onnx_put_integers(gconv_onnx_writer *writer, const char *part, size_t count, const int64_t *integers);
/* Add an attribute to the node. */
void gconv_onnx_put_attribute_float(gconv_onnx_writer *writer, const char *name, float value);
void gconv_onnx_put_attribute_integer(gconv_onnx_writer *writer, const char *name, int64_t value);
void gconv_onnx_put_attribute_integers(gconv_onnx_writer *writer, const char *name, size_t count, const int64_t *values);
void gconv_onnx_put_attribute_text(gconv_onnx_writer *writer, const char *name, const char *value);

/* Adds the node of a pool. */
void gconv_onnx_put_window(gconv_onnx_writer *writer, const gconv_layer *layer, const char *operator);

/* Returns whether tensors of the layer that is being written are matrices, N x features. */
bool gconv_onnx_has_rows(const gconv_onnx_writer *writer);
/* Returns the name of a tensor: number 0 is the input of the first layer, and number i + 1 the output of layer i. */
const char *gconv_onnx_output_of(const gconv_onnx_writer *writer, size_t number);

/* Adds the node of the layer's activation, if it has one. */
void gconv_onnx_put_activation(gconv_onnx_writer *writer, const gconv_layer *layer);

/* Adds the nodes of a convolution. */
gconv_status gconv_conv_export(gconv_onnx_writer *writer, const gconv_layer *layer);

/* Makes the bytes of the ONNX model. The caller frees them. The input is images, N x C x H x W. If an image has one pixel,
 * as a row of a table does, and all layers can take matrices, the input is a matrix, N x features, unless `images` is true.
 * Fails with GCONV_UNSUPPORTED, and names the layer, if ONNX has no node for a layer. */
gconv_status gconv_network_to_onnx(const gconv_network *network, bool images, uint8_t **bytes, size_t *size);

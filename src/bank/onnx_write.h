/* SPDX-License-Identifier: MIT */
/* A network on its way to an ONNX model. network_write.c goes through the layers; each kind of layers adds its nodes
 * (gconv_layer_form.write). */
#pragma once

#include "bank/kind.h"
#include "bank/protobuf.h"

enum {
  GCONV_ONNX_NAME_BYTES = 48, /* bytes of the name of a tensor that is made here */
  GCONV_ONNX_WRAP_OPSET = 19  /* from which on Pad has the mode wrap */
};

typedef struct gconv_onnx_writer {
  const gconv_network *network;
  gconv_message_writer graph; /* a GraphProto */
  gconv_message_writer node;  /* a NodeProto: the node that was begun last, without its output */
  bool begun;
  size_t layer;                           /* number of the layer at work */
  char at[GCONV_ONNX_NAME_BYTES];         /* the output of the last node */
  char first[GCONV_ONNX_NAME_BYTES];      /* what the first layer takes */
  char (*outputs)[GCONV_ONNX_NAME_BYTES]; /* owned: the output of each layer */
  gconv_layer_shape *shapes;              /* owned: of the input of the network, and of the output of each layer */
  size_t tail;                            /* from this layer on, tensors are rows, N x features */
  bool row_input;                         /* the input is a row, too */
  uint64_t opset;                         /* the least that all nodes need */
} gconv_onnx_writer;

/* Begins a node that takes the output of the node before it. */
void gconv_onnx_put_node(gconv_onnx_writer *writer, const char *operator);
/* Ends the node that was begun, and calls its output so. */
void gconv_onnx_end_node(gconv_onnx_writer *writer, const char *output);
/* Adds an input, by the name of a tensor; "" leaves it out. */
void gconv_onnx_put_input(gconv_onnx_writer *writer, const char *name);
/* Adds a constant as an input: floats, or integers in one dimension. Its name is the name of the layer and `part`:
 * "l0.weight".
 */
void gconv_onnx_put_floats(gconv_onnx_writer *writer, const char *part, size_t dimensions, const int64_t *shape,
                           const float *floats);
void gconv_onnx_put_integers(gconv_onnx_writer *writer, const char *part, size_t count, const int64_t *integers);
/* Add attributes. */
void gconv_onnx_put_attribute_float(gconv_onnx_writer *writer, const char *name, float value);
void gconv_onnx_put_attribute_integer(gconv_onnx_writer *writer, const char *name, int64_t value);
void gconv_onnx_put_attribute_integers(gconv_onnx_writer *writer, const char *name, size_t count, const int64_t *values);
void gconv_onnx_put_attribute_text(gconv_onnx_writer *writer, const char *name, const char *value);

/* Adds the node of a pool. */
void gconv_onnx_put_window(gconv_onnx_writer *writer, const gconv_layer *layer, const char *operator);

/* True if tensors of the layer at work are rows, N x features. */
bool gconv_onnx_has_rows(const gconv_onnx_writer *writer);
/* Returns the name of the output of a layer; 0: of the input of the first layer, 1: of the output of layer 0 ... */
const char *gconv_onnx_output_of(const gconv_onnx_writer *writer, size_t number);

/* Adds the node of an activation; of none, nothing. */
void gconv_onnx_put_activation(gconv_onnx_writer *writer, const gconv_layer *layer);

/* Adds the nodes of a convolution. */
gconv_status gconv_conv_export(gconv_onnx_writer *writer, const gconv_layer *layer);

/* Makes the bytes of the ONNX model, for free(). Inputs of one pixel are rows, N x features, as of tables, where all layers
 * can have rows; `images`: they are images, too. GCONV_UNSUPPORTED names the layer that ONNX has no node for. */
gconv_status gconv_network_to_onnx(const gconv_network *network, bool images, uint8_t **bytes, size_t *size);

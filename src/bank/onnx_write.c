/* SPDX-License-Identifier: MIT */
/* Adds nodes, constants and attributes to an ONNX model (onnx.proto has the numbers of fields). */
#include "bank/onnx_write.h"
#include "bank/onnx.h"

#include <stdio.h>

enum { GRAPH_NODE = 1, GRAPH_TENSOR = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5 };
enum { TENSOR_DIMENSION = 1, TENSOR_TYPE = 2, TENSOR_INT64 = 7, TENSOR_NAME = 8, TENSOR_BYTES = 9 };
enum {
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_FLOAT = 2,
  ATTRIBUTE_INT = 3,
  ATTRIBUTE_TEXT = 4,
  ATTRIBUTE_INTS = 8,
  ATTRIBUTE_TYPE = 20
};

/* ---- Nodes ---- */

void gconv_onnx_end_node(gconv_onnx_writer *w, const char *output) {
  if (!w->begun)
    return;
  gconv_message_put_text(&w->node, NODE_OUTPUT, output);
  gconv_message_put_text(&w->node, NODE_NAME, output);
  gconv_message_put_message(&w->graph, GRAPH_NODE, &w->node);
  w->begun = false;
}

void gconv_onnx_put_node(gconv_onnx_writer *w, const char *operator) {
  gconv_onnx_end_node(w, w->at);
  gconv_message_put_text(&w->node, NODE_OPERATOR, operator);
  gconv_message_put_text(&w->node, NODE_INPUT, w->at);
  snprintf(w->at, sizeof w->at, "l%zu.%s", w->layer, operator);
  w->begun = true;
}

void gconv_onnx_put_input(gconv_onnx_writer *w, const char *name) {
  gconv_message_put_text(&w->node, NODE_INPUT, name);
}

/* ---- Constants ---- */

/* Begins a tensor such as "l0.weight", and adds it to the inputs of the node. */
static gconv_message_writer begin_tensor(gconv_onnx_writer *w, const char *part, uint64_t type, size_t dimensions,
                                         const int64_t *shape) {
  gconv_message_writer tensor = {0};
  char name[GCONV_ONNX_NAME_BYTES];
  snprintf(name, sizeof name, "l%zu.%s", w->layer, part);
  for (size_t i = 0; i < dimensions; i++)
    gconv_message_put_integer(&tensor, TENSOR_DIMENSION, (uint64_t)shape[i]);
  gconv_message_put_integer(&tensor, TENSOR_TYPE, type);
  gconv_message_put_text(&tensor, TENSOR_NAME, name);
  gconv_onnx_put_input(w, name);
  return tensor;
}

void gconv_onnx_put_floats(gconv_onnx_writer *w, const char *part, size_t dimensions, const int64_t *shape,
                           const float *floats) {
  size_t count = 1;
  for (size_t i = 0; i < dimensions; i++)
    count *= (size_t)shape[i];
  gconv_message_writer tensor = begin_tensor(w, part, GCONV_ONNX_FLOAT, dimensions, shape);
  gconv_message_put_floats(&tensor, TENSOR_BYTES, floats, count);
  gconv_message_put_message(&w->graph, GRAPH_TENSOR, &tensor);
}

void gconv_onnx_put_integers(gconv_onnx_writer *w, const char *part, size_t count, const int64_t *integers) {
  const int64_t shape[] = {(int64_t)count};
  gconv_message_writer tensor = begin_tensor(w, part, GCONV_ONNX_INT64, 1, shape);
  for (size_t i = 0; i < count; i++)
    gconv_message_put_integer(&tensor, TENSOR_INT64, (uint64_t)integers[i]);
  gconv_message_put_message(&w->graph, GRAPH_TENSOR, &tensor);
}

/* ---- Attributes ---- */

static gconv_message_writer begin_attribute(const char *name, gconv_onnx_kind kind) {
  gconv_message_writer attribute = {0};
  gconv_message_put_text(&attribute, ATTRIBUTE_NAME, name);
  gconv_message_put_integer(&attribute, ATTRIBUTE_TYPE, kind);
  return attribute;
}

void gconv_onnx_put_attribute_float(gconv_onnx_writer *w, const char *name, float value) {
  gconv_message_writer attribute = begin_attribute(name, GCONV_ONNX_A_FLOAT);
  gconv_message_put_float(&attribute, ATTRIBUTE_FLOAT, value);
  gconv_message_put_message(&w->node, NODE_ATTRIBUTE, &attribute);
}

void gconv_onnx_put_attribute_integer(gconv_onnx_writer *w, const char *name, int64_t value) {
  gconv_message_writer attribute = begin_attribute(name, GCONV_ONNX_AN_INT);
  gconv_message_put_integer(&attribute, ATTRIBUTE_INT, (uint64_t)value);
  gconv_message_put_message(&w->node, NODE_ATTRIBUTE, &attribute);
}

void gconv_onnx_put_attribute_integers(gconv_onnx_writer *w, const char *name, size_t count, const int64_t *values) {
  gconv_message_writer attribute = begin_attribute(name, GCONV_ONNX_INTS);
  for (size_t i = 0; i < count; i++)
    gconv_message_put_integer(&attribute, ATTRIBUTE_INTS, (uint64_t)values[i]);
  gconv_message_put_message(&w->node, NODE_ATTRIBUTE, &attribute);
}

void gconv_onnx_put_attribute_text(gconv_onnx_writer *w, const char *name, const char *value) {
  gconv_message_writer attribute = begin_attribute(name, GCONV_ONNX_A_STRING);
  gconv_message_put_text(&attribute, ATTRIBUTE_TEXT, value);
  gconv_message_put_message(&w->node, NODE_ATTRIBUTE, &attribute);
}

void gconv_onnx_put_window(gconv_onnx_writer *w, const gconv_layer *layer, const char *operator) {
  gconv_onnx_put_node(w, operator);
  gconv_onnx_put_attribute_integers(w, "kernel_shape", 2, (int64_t[]){layer->window_y, layer->window_x});
  gconv_onnx_put_attribute_integers(w, "strides", 2, (int64_t[]){layer->stride_y, layer->stride_x});
}

/* ---- State ---- */

bool gconv_onnx_has_rows(const gconv_onnx_writer *w) {
  return w->layer >= w->tail;
}

const char *gconv_onnx_output_of(const gconv_onnx_writer *w, size_t number) {
  return number == 0 ? w->first : w->outputs[number - 1];
}

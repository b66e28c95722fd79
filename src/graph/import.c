/* SPDX-License-Identifier: MIT */
/* Makes networks of models that other programs wrote: chains of layers where they are that, else graphs. */
#include "bank/network_file.h"
#include "bank/onnx_write.h"
#include "base/arguments.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* Fills *digest from the bytes of the file and the constants, which may lie in other files. */
static gconv_status digest(gconv_bank_file *file, const gconv_graph *graph, uint64_t *digest) {
  const uint8_t *bytes;
  size_t got;
  *digest = GCONV_FNV1A_BASIS;
  GCONV_TRY(gconv_source_rewind(&file->source, 0));
  for (;;) {
    GCONV_TRY(gconv_source_next(&file->source, &bytes, &got));
    if (got == 0)
      break;
    *digest = gconv_fnv1a(*digest, bytes, got);
  }
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].external)
      *digest = gconv_fnv1a(*digest, graph->values[i].tensor.data, gconv_tensor_bytes(&graph->values[i].tensor));
  return GCONV_OK;
}

/* Sets the sizes that the input of images has; 0: any. */
static gconv_status take_input(const char *path, gconv_network *network) {
  const gconv_graph *g = network->graph;
  const gconv_graph_value *v = g->input_count > 0 ? &g->values[g->inputs[0]] : NULL;
  const int64_t *shape = v ? v->tensor.shape : NULL;
  if (g->input_count != 1)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has %zu inputs: a network takes one, an image", path,
                      g->input_count);
  if (v->tensor.type != GCONV_TENSOR_F32 || (v->said && v->tensor.axes != 4))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: the input of the model has %d axes of %s numbers: images are N x C x H x W of float32", path,
                      v->tensor.axes, gconv_tensor_type_name(v->tensor.type));
  if (!v->said)
    return GCONV_OK;
  if (shape[0] > 1)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model takes %lld images at a time: here it can be one, or any number",
                      path, (long long)shape[0]);
  network->channels = (int32_t)shape[1];
  network->height = (int32_t)shape[2];
  network->width = (int32_t)shape[3];
  return GCONV_OK;
}

static gconv_status read_graph(gconv_bank_file *file, gconv_network *network) {
  GCONV_TRY(gconv_graph_read(file, &network->graph));
  GCONV_TRY(take_input(file->path, network));
  return digest(file, network->graph, &network->graph_digest);
}

gconv_status gconv_graph_of_network(const gconv_network *network, gconv_graph **graph) {
  gconv_network layers = *network; /* what normalises images is no part of the graph */
  layers.mean_count = layers.std_count = 0;
  gconv_bank_file *file = NULL;
  uint8_t *bytes = NULL;
  size_t size = 0;
  GCONV_TRY(gconv_network_to_onnx(&layers, &bytes, &size));
  gconv_status status = gconv_bank_file_open_bytes("the network", bytes, size, gconv_bank_syntax_onnx.name, &file);
  GCONV_THEN(status, gconv_graph_read(file, graph));
  gconv_bank_file_close(file);
  free(bytes);
  return status;
}

/* Reads a model that is no chain of layers, as the last error says. */
static gconv_status import_graph(gconv_bank_file *file, gconv_network *network) {
  char *obstacle = strdup(gconv_last_error());
  GCONV_NEED_MEMORY(obstacle, "%s: no memory for a graph", file->path);
  gconv_network_free(network); /* what the reader of chains began with */
  gconv_status status = read_graph(file, network);
  if (status == GCONV_OK) {
    ((gconv_graph_head *)network->graph)->obstacle = obstacle;
    return status;
  }
  GCONV_FREED char *text = strdup(gconv_last_error());
  status = status == GCONV_NO_MEMORY ? status : GCONV_UNSUPPORTED;
  gconv_fail(status, "%s; and it is no chain of layers: %s", text ? text : "", obstacle);
  free(obstacle);
  return status;
}

static gconv_status import(gconv_bank_file *file, const char *net, gconv_network *network) {
  const bool onnx = file->syntax == &gconv_bank_syntax_onnx;
  if (!onnx && file->syntax != &gconv_bank_syntax_safetensors)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: networks are made of ONNX and safetensors, not of %s", file->path,
                      file->syntax->name);
  if (onnx && net)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: --net is for weights alone: an ONNX model says itself what its layers are",
                      file->path);
  if (onnx) {
    const gconv_status status = gconv_network_of_onnx(file, network);
    return status == GCONV_UNSUPPORTED ? import_graph(file, network) : status;
  }
  if (!net)
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s: has weights alone: say with --net what becomes of each layer's outputs, such as 'relu, relu, softmax'",
        file->path);
  return gconv_network_of_state(file, net, network);
}

/* Imports into a network with room for GCONV_NETWORK_MAX_LAYERS layers: readers append layers. */
static gconv_status import_whole(gconv_bank_file *file, const char *net, gconv_network *network) {
  network->layers = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *network->layers);
  network->banks = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *network->banks);
  GCONV_NEED_MEMORY(network->layers && network->banks, "%s: no memory for a network", file->path);
  GCONV_TRY(import(file, net, network));
  if (network->graph)
    return GCONV_OK;
  for (size_t i = 0; i < network->count; i++)
    if (network->layers[i].bank)
      GCONV_TRY(gconv_bank_check_finite(file->path, GCONV_BAD_FILE, network->layers[i].bank));
  return gconv_network_check(file->path, GCONV_BAD_FILE, network);
}

gconv_status gconv_network_import(const char *path, const char *net, gconv_network *network) {
  gconv_bank_file *file = NULL;
  gconv_network made = {0};
  GCONV_NEED(path);
  GCONV_NEED(network);
  GCONV_TRY(gconv_network_check_empty("gconv_network_import", network));
  GCONV_TRY(gconv_bank_file_open_path(path, NULL, &file));
  gconv_status status = import_whole(file, net, &made);
  gconv_bank_file_close(file);
  if (status == GCONV_OK)
    *network = made;
  else
    gconv_network_free(&made);
  return status;
}

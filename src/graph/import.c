/* SPDX-License-Identifier: MIT */
/* Imports models that other programs wrote as networks: as chains of layers where possible, else as graphs. */
#include "bank/network_file.h"
#include "bank/onnx_write.h"
#include "base/arguments.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "graph/image.h"

#include <string.h>

/* Fills *digest from the bytes of the file and the constants, which may lie in other files. */
static gconv_status digest(gconv_bank_file *file, const gconv_graph *graph, uint64_t *digest) {
  const uint8_t *bytes;
  size_t got;
  uint64_t seen[2] = {0}; /* the CRC-32 and the number of all bytes: FNV-1a of them takes a nanosecond for each */
  GCONV_TRY(gconv_source_rewind(&file->source, 0));
  for (;; seen[1] += got) {
    GCONV_TRY(gconv_source_next(&file->source, &bytes, &got));
    if (got == 0)
      break;
    seen[0] = gconv_crc32((uint32_t)seen[0], bytes, got);
  }
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].external) {
      got = gconv_tensor_bytes(&graph->values[i].tensor);
      seen[0] = gconv_crc32((uint32_t)seen[0], graph->values[i].tensor.data, got);
      seen[1] += got;
    }
  *digest = gconv_fnv1a(GCONV_FNV1A_BASIS, seen, sizeof seen);
  return GCONV_OK;
}

/* Describes those of `count` values that nodes take, for users. */
static gconv_status describe(const gconv_graph *g, const int32_t *values, size_t count, gconv_network_tensor **tensors,
                             size_t *described) {
  GCONV_NEW(*tensors, count + 1, "%s: no memory for a graph", g->path);
  for (size_t i = 0; i < count; i++) {
    const gconv_graph_value *v = &g->values[values[i]];
    if (!v->taken)
      continue;
    gconv_network_tensor *t = &(*tensors)[(*described)++];
    *t = (gconv_network_tensor){.name = strdup(v->name), .type = gconv_tensor_type_name(v->tensor.type), .axes = -1};
    GCONV_NEED_MEMORY(t->name, "%s: no memory for a graph", g->path);
    if (v->said || v->constant) {
      t->axes = v->tensor.axes;
      memcpy(t->shape, v->tensor.shape, sizeof t->shape);
    }
  }
  return GCONV_OK;
}

/* Describes the inputs and outputs of the graph. */
static gconv_status describe_ends(const gconv_graph *g, gconv_network *network) {
  GCONV_TRY(describe(g, g->inputs, g->input_count, &network->inputs, &network->input_count));
  return describe(g, g->outputs, g->output_count, &network->outputs, &network->output_count);
}

/* Finishes a network whose layers were made from a graph. */
static gconv_status finish_chain(const gconv_graph *g, bool rows, gconv_network *network) {
  GCONV_TRY(describe_ends(g, network));
  network->inputs[0].type = network->outputs[0].type = gconv_tensor_type_name(GCONV_TENSOR_F32);
  if (rows && network->outputs[0].axes < 0)
    network->outputs[0].axes = 2; /* the file does not say the sizes */
  return GCONV_OK;
}

/* Finishes a network that is a graph: network->graph. */
static gconv_status finish_graph(gconv_bank_file *file, gconv_network *network) {
  const gconv_graph *g = network->graph;
  bool last = false;
  GCONV_TRY(describe_ends(g, network));
  if (gconv_graph_image_size(g, &network->channels, &network->height, &network->width, &last) != GCONV_OK) {
    network->channels = network->height = network->width = 0; /* the operation will fail with the reason */
  } else {
    network->inputs[0].channels_last = last;
    GCONV_TRY(gconv_network_take_notes(file->path, gconv_onnx_model_of(file)->notes, 0, network));
  }
  return digest(file, g, &network->graph_digest);
}

gconv_status gconv_graph_of_network(const gconv_network *network, gconv_graph **graph) {
  gconv_network layers = *network; /* mean and std are not part of the graph */
  layers.mean_count = layers.std_count = 0;
  gconv_bank_file *file = NULL;
  GCONV_FREED uint8_t *bytes = NULL;
  size_t size = 0;
  GCONV_TRY(gconv_network_to_onnx(&layers, true, &bytes, &size));
  gconv_status status = gconv_bank_file_open_bytes("the network", bytes, size, gconv_bank_syntax_onnx.name, &file);
  GCONV_THEN(status, gconv_graph_read(file, graph));
  gconv_bank_file_close(file);
  return status;
}

/* Warns if the model computes in a type that gconv replaces by float32. */
static void warn_of_types(gconv_bank_file *file, bool chain) {
  const gconv_onnx_model *m = gconv_onnx_model_of(file);
  for (size_t i = 0; i < m->input_count; i++) {
    const int64_t type = m->inputs[i].type;
    if (type == GCONV_ONNX_FLOAT16 || type == GCONV_ONNX_BFLOAT16 || (chain && type == GCONV_ONNX_DOUBLE)) {
      gconv_warn("%s: the model computes in %s; gconv does in float32", file->path, gconv_onnx_type_name(type));
      return;
    }
  }
}

/* Reads a model as layers if it is a chain of them, else as a graph. */
static gconv_status import_model(gconv_bank_file *file, gconv_network *network) {
  gconv_graph *graph = NULL;
  bool rows = false;
  GCONV_TRY(gconv_graph_read(file, &graph));
  gconv_status status = gconv_graph_read_chain(file, graph, network, &rows);
  const bool chain = status != GCONV_UNSUPPORTED;
  if (chain) {
    GCONV_THEN(status, finish_chain(graph, rows, network));
    gconv_graph_free(graph);
  } else {
    gconv_network_free(network); /* the layers that were made before the obstacle */
    network->graph = graph;
    graph->head.obstacle = strdup(gconv_last_error());
    GCONV_NEED_MEMORY(graph->head.obstacle, "%s: no memory for a graph", file->path);
    status = finish_graph(file, network);
  }
  if (status == GCONV_OK)
    warn_of_types(file, chain);
  return status;
}

static gconv_status import(gconv_bank_file *file, const char *net, gconv_network *network) {
  const bool onnx = file->syntax == &gconv_bank_syntax_onnx;
  if (!onnx && file->syntax != &gconv_bank_syntax_safetensors)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: networks are read from ONNX and safetensors, not from %s", file->path,
                      file->syntax->name);
  if (onnx && net)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: --net is for weights alone: an ONNX model says itself what its layers are",
                      file->path);
  if (onnx)
    return import_model(file, network);
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

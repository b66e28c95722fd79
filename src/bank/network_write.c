/* SPDX-License-Identifier: MIT */
/* Writes a network as an ONNX model (onnx.proto has the numbers of fields): the nodes of its layers one after the other.
 * Tensors are N x C x H x W. Dense layers at the end have matrices, N x features, as programs expect of classifiers. */
#include "bank/network_file.h"
#include "bank/onnx.h"
#include "bank/onnx_write.h"
#include "base/arguments.h"
#include "base/ending.h"
#include "base/memory.h"

#include <string.h>

enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_PRODUCER_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14 };
enum { GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { IR = 7, LEAST_OPSET = 13, WRAP_IR = 9 }; /* known to programs from 2020 on; Pad by wrap: from 2023 on */
enum { MOST_BYTES = INT32_MAX };                /* the most bytes of a message that readers of protocol buffers accept */

/* ---- Layers ---- */

/* Finds the shapes of all outputs, with the sizes after convolutions, which follow() leaves out. The sizes of second inputs
 * are taken to fit. */
static gconv_status find_shapes(gconv_onnx_writer *w) {
  const gconv_network *network = w->network;
  GCONV_NEW(w->shapes, network->count + 1, "no memory for an ONNX model");
  w->shapes[0] = (gconv_layer_shape){network->channels, network->height, network->width, false};
  for (size_t i = 0; i < network->count; i++) {
    const gconv_layer *layer = &network->layers[i];
    const gconv_layer_shape in = w->shapes[i];
    gconv_layer_shape other = *gconv_layer_other(layer, w->shapes), *at = &w->shapes[i + 1];
    other.height = in.height, other.width = in.width;
    *at = in;
    GCONV_TRY(gconv_layer_form_of(layer->kind)->follow(layer, &other, at));
    if (layer->kind == GCONV_LAYER_CONV) {
      at->height = gconv_conv_outputs(layer, in.height, false);
      at->width = gconv_conv_outputs(layer, in.width, true);
    }
    at->moved = false;
  }
  return GCONV_OK;
}

/* True if the layer adds an earlier output, or appends its channels. */
static bool takes_earlier(const gconv_layer *layer) {
  return layer->kind == GCONV_LAYER_RESIDUAL || layer->kind == GCONV_LAYER_ADD || layer->kind == GCONV_LAYER_CONCAT;
}

/* True if the layer can take a matrix, one row for each image. Layers that take an earlier output can if all layers do. */
static bool takes_rows(const gconv_onnx_writer *w, const gconv_layer *layer, const gconv_layer_shape *in) {
  const gconv_bank *bank = layer->bank;
  const bool one_pixel = in->height == 1 && in->width == 1;
  if (takes_earlier(layer))
    return one_pixel && w->row_input;
  if (layer->kind != GCONV_LAYER_CONV)
    return one_pixel && (layer->kind == GCONV_LAYER_PRELU || layer->kind == GCONV_LAYER_BATCHNORM);
  return in->height == bank->rows && in->width == bank->columns && bank->channels == in->channels &&
         layer->border == GCONV_BORDER_ZERO && gconv_conv_outputs(layer, in->height, false) == 1 &&
         gconv_conv_outputs(layer, in->width, true) == 1 && gconv_conv_pad(layer, in->height, false) == 0 &&
         gconv_conv_pad(layer, in->width, true) == 0;
}

/* Sets `tail`, the first of the layers at the end that take matrices, and `row_input`: the model's input is a matrix, as it
 * is for tables. With `images`, it never is. */
static void find_tail(gconv_onnx_writer *w, bool images) {
  const gconv_network *network = w->network;
  w->row_input = !images && network->height == 1 && network->width == 1;
  w->tail = 0;
  for (size_t i = 0; i < network->count; i++)
    if (!takes_rows(w, &network->layers[i], &w->shapes[i]))
      w->tail = i + 1;
  w->row_input = w->row_input && w->tail == 0;
  for (size_t i = network->count; !w->row_input && i > w->tail; i--)
    if (takes_earlier(&network->layers[i - 1]))
      w->tail = i;
}

/* Subtracts the means and divides by the standard deviations, as gconv does before the first layer. */
static void put_normalisation(gconv_onnx_writer *w) {
  const gconv_network *network = w->network;
  const struct {
    const char *operator, * part;
    const float *numbers;
    int32_t count;
  } steps[] = {{"Sub", "input_mean", network->mean, network->mean_count},
               {"Div", "input_std", network->std, network->std_count}};
  for (int i = 0; i < 2; i++) {
    const int64_t shape[] = {steps[i].count, 1, 1};
    if (steps[i].count == 0)
      continue;
    gconv_onnx_put_node(w, steps[i].operator);
    gconv_onnx_put_floats(w, steps[i].part, w->row_input ? 1 : 3, shape, steps[i].numbers);
  }
}

static gconv_status put_layers(gconv_onnx_writer *w) {
  const gconv_network *network = w->network;
  for (; w->layer < network->count; w->layer++) {
    const gconv_layer *layer = &network->layers[w->layer];
    if (w->layer == w->tail && !w->row_input)
      gconv_onnx_put_node(w, "Flatten");
    const gconv_status status = gconv_layer_form_of(layer->kind)->write(w, layer);
    if (status != GCONV_OK)
      return gconv_fail_in(status, "layer %zu", w->layer + 1);
    memcpy(w->outputs[w->layer], w->at, sizeof w->at);
  }
  return GCONV_OK;
}

/* ---- The model ---- */

/* Adds an input or output of the model: its name, float32, and its shape. Sizes that are 0 get a name. */
static void put_value(gconv_onnx_writer *w, uint32_t field, const char *name, const gconv_layer_shape *shape, bool row) {
  const int32_t sizes[] = {0, shape->channels, shape->height, shape->width};
  const char *const names[2][4] = {{"N", "C", "H", "W"}, {"N", "K", "P", "Q"}};
  gconv_message_writer value = {0}, type = {0}, tensor = {0}, dimensions = {0};
  for (int i = 0; i < (row ? 2 : 4); i++) {
    gconv_message_writer dimension = {0};
    if (sizes[i] > 0)
      gconv_message_put_integer(&dimension, 1, (uint64_t)sizes[i]);
    else
      gconv_message_put_text(&dimension, 2, names[field == GRAPH_OUTPUT][i]);
    gconv_message_put_message(&dimensions, 1, &dimension);
  }
  gconv_message_put_integer(&tensor, 1, GCONV_ONNX_FLOAT);
  gconv_message_put_message(&tensor, 2, &dimensions);
  gconv_message_put_message(&type, 1, &tensor);
  gconv_message_put_text(&value, 1, name);
  gconv_message_put_message(&value, 2, &type);
  gconv_message_put_message(&w->graph, field, &value);
}

static gconv_status put_graph(gconv_onnx_writer *w, bool images) {
  const gconv_network *network = w->network;
  GCONV_TRY(find_shapes(w));
  find_tail(w, images);
  GCONV_NEW(w->outputs, network->count + 1, "no memory for an ONNX model");
  gconv_message_put_text(&w->graph, GRAPH_NAME, "gconv");
  put_value(w, GRAPH_INPUT, "input", &w->shapes[0], w->row_input);
  snprintf(w->at, sizeof w->at, "input");
  put_normalisation(w);
  memcpy(w->first, w->at, sizeof w->at);
  GCONV_TRY(put_layers(w));
  bool row = w->tail < network->count;
  if (!row && network->layers[network->count - 1].kind == GCONV_LAYER_MEAN) { /* N x K, like dense layers */
    gconv_onnx_put_node(w, "Flatten");
    row = true;
  }
  gconv_onnx_end_node(w, "output");
  put_value(w, GRAPH_OUTPUT, "output", &w->shapes[network->count], row);
  return GCONV_OK;
}

/* Adds the JSON of a network's file. gconv reads names of classes from it. */
static gconv_status put_metadata(const gconv_network *network, gconv_message_writer *model) {
  GCONV_FREED char *json = NULL;
  gconv_message_writer entry = {0};
  GCONV_TRY(gconv_network_to_json(network, &json));
  gconv_message_put_text(&entry, 1, "gconv");
  gconv_message_put_text(&entry, 2, json);
  gconv_message_put_message(model, MODEL_METADATA, &entry);
  return GCONV_OK;
}

static gconv_status put_model(gconv_onnx_writer *w, bool images, gconv_message_writer *model) {
  gconv_message_writer opset = {0};
  GCONV_TRY(put_graph(w, images));
  gconv_message_put_integer(model, MODEL_IR, w->opset < GCONV_ONNX_WRAP_OPSET ? IR : WRAP_IR);
  gconv_message_put_text(model, MODEL_PRODUCER, "gconv");
  gconv_message_put_text(model, MODEL_PRODUCER_VERSION, gconv_version());
  gconv_message_put_text(&opset, 1, "");
  gconv_message_put_integer(&opset, 2, w->opset);
  gconv_message_put_message(model, MODEL_OPSET, &opset);
  GCONV_TRY(put_metadata(w->network, model));
  gconv_message_put_message(model, MODEL_GRAPH, &w->graph);
  if (model->failed)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an ONNX model");
  return model->size <= MOST_BYTES
             ? GCONV_OK
             : gconv_fail(GCONV_TOO_LARGE, "the model has %zu bytes: an ONNX model of one file has at most %d", model->size,
                          MOST_BYTES);
}

gconv_status gconv_network_to_onnx(const gconv_network *network, bool images, uint8_t **bytes, size_t *size) {
  gconv_onnx_writer w = {.network = network, .opset = LEAST_OPSET};
  gconv_message_writer model = {0};
  const gconv_status status = put_model(&w, images, &model);
  free(w.graph.bytes);
  free(w.node.bytes);
  free(w.outputs);
  free(w.shapes);
  if (status != GCONV_OK) {
    free(model.bytes);
    return status;
  }
  *bytes = model.bytes;
  *size = model.size;
  return GCONV_OK;
}

/* ---- The file ---- */

/* Says what input the model takes, if other programs must know it. */
static void describe_input(const char *path, const gconv_network *network) {
  const bool bgr = network->order == GCONV_ORDER_BGR, usual = !bgr && (network->white <= 0 || network->white == 1);
  const char *const more = network->mean_count > 0 || network->std_count > 0
                               ? "; its first nodes apply the network's mean and standard deviation"
                               : "";
  if (network->features)
    gconv_warn("%s: the model takes features of pixels, %s, which other programs must make themselves", path,
               network->features);
  else if (usual && (network->height != 1 || network->width != 1))
    gconv_remark("%s: the model takes samples from 0, black, to 1, white, as float32%s", path, more);
  else if (!usual)
    gconv_warn("%s: the model takes samples from 0, black, to %g, white, as float32%s%s: other programs must make them so",
               path, network->white > 0 ? (double)network->white : 1, bgr ? ", in the order blue, green, red" : "", more);
  if (network->notes.means || network->notes.origins)
    gconv_warn("%s: an ONNX model does not have the %s: other programs must apply them before", path,
               network->notes.origins ? "numbers that are subtracted from columns, and the means that fill gaps"
                                      : "means that fill gaps of tables");
}

static gconv_status write_onnx(const char *path, const gconv_network *network) {
  uint8_t *bytes = NULL;
  size_t size = 0;
  GCONV_TRY(gconv_network_check_given(network));
  const gconv_status made = gconv_network_to_onnx(network, false, &bytes, &size);
  if (made != GCONV_OK)
    return gconv_fail_in(made, "%s", path);
  const gconv_status status = gconv_file_write(path, bytes, size);
  free(bytes);
  if (status == GCONV_OK)
    describe_input(path, network);
  return status;
}

gconv_status gconv_network_write(const char *path, const gconv_network *network) {
  GCONV_NEED(path);
  GCONV_NEED(network);
  GCONV_NEED_KNOWN(network);
  return gconv_ends_in(path, ".onnx") ? write_onnx(path, network) : gconv_network_file_write(path, network, NULL);
}

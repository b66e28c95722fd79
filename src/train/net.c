/* SPDX-License-Identifier: MIT */
#include "train/net.h"
#include "bank/column_notes.h"
#include "bank/network_file.h"
#include "base/memory.h"
#include "layer/kind.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DENSE_INPUTS = 1 << 22 }; /* 2 GiB for the GCONV_LEARN_SLICE cases that a thread keeps */

/* ---- Shapes ---- */

/* Fails if a convolution cannot be trained. */
static gconv_status check_conv(const gconv_layer *layer, const char *where, int32_t channels, bool each) {
  if (layer->border != GCONV_BORDER_ZERO)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s has border %s, which cannot be trained: train with zeros outside (padding same), or padding valid",
                      where, gconv_border_name(layer->border));
  if (each)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s applies a bank of one channel to each of %d channels by itself, which cannot be trained: give it as "
        "many groups as channels",
        where, channels);
  if (layer->activation == GCONV_ACTIVATION_LEAKY && !(layer->slope > 0))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: leaky with a slope of %g cannot be trained: it must be above 0, or relu",
                      where, (double)layer->slope);
  return GCONV_OK;
}

static size_t planes_of(const gconv_bank *bank) {
  return (size_t)bank->filters * (size_t)bank->channels;
}

static size_t count_parameters(const gconv_layer *layer) {
  const gconv_bank *bank = layer->bank;
  return !bank ? 0
               : planes_of(bank) * (size_t)bank->rows * (size_t)bank->columns +
                     (gconv_layer_form_of(layer->kind)->has_biases ? (size_t)bank->filters : 0);
}

/* Resolves a layer for one case. in: the problem of the layer before, whose outputs are the inputs; other: the shape of the
 * second input, or of the network's input if the layer has only one. */
static gconv_status resolve_layer(const gconv_layer *layer, const char *where, const gconv_layer_shape *other,
                                  const gconv_layer_problem *in, gconv_learn_layer *result) {
  const gconv_layer_work *work = gconv_layer_work_of(layer->kind);
  const gconv_layer_input input = {1, {in->filters, in->out_height, in->out_width, false}, *other};
  gconv_step step;
  if (!work->by_algorithms && !work->in_graphs && !work->teach)
    return gconv_fail(GCONV_UNSUPPORTED, "%s, %s, cannot be trained", where, gconv_layer_kind_name(layer->kind));
  GCONV_TRY(work->resolve(layer, where, &input, &step));
  if (work->by_algorithms)
    GCONV_TRY(check_conv(layer, where, in->filters, step.info.each));
  result->kind = layer->kind;
  result->problem = step.problem;
  result->problem.activation = layer->activation;
  result->from = (size_t)layer->from;
  result->parameters = count_parameters(layer);
  return GCONV_OK;
}

static gconv_status resolve_layers(const gconv_network *network, const gconv_layer_shape *first, gconv_learn_layer *layers,
                                   size_t *parameters) {
  const gconv_layer_problem input = {.filters = first->channels, .out_height = first->height, .out_width = first->width};
  const gconv_layer_problem *in = &input;
  for (size_t i = 0; i < network->count; i++) {
    char where[32];
    snprintf(where, sizeof where, "layer %zu", i + 1);
    const size_t from = (size_t)network->layers[i].from;
    const gconv_layer_problem *o = from > 0 && from <= i ? &layers[from - 1].problem : &input;
    const gconv_layer_shape other = {o->filters, o->out_height, o->out_width, false};
    GCONV_TRY(resolve_layer(&network->layers[i], where, &other, in, &layers[i]));
    in = &layers[i].problem;
    layers[i].weights = *parameters;
    *parameters += layers[i].parameters;
  }
  return GCONV_OK;
}

/* ---- Whether the network fits the data ---- */

static gconv_status check_input(const gconv_network *network, const gconv_dataset_info *info) {
  bool any = network->height == 0;
  if (network->channels == info->channels && (any || (network->height == info->height && network->width == info->width)))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "the network takes inputs of %d x %d x %d%s, but the data are %d x %d x %d",
                    network->channels, network->height, network->width, any ? " (of any size)" : "", info->channels,
                    info->height, info->width);
}

static gconv_status check_outputs(const gconv_learn_net *net, const gconv_dataset_info *info) {
  const gconv_layer_problem *last = &net->layers[net->count - 1].problem;
  size_t wanted = info->class_count > 0 ? info->class_count : info->outputs, outputs = gconv_learn_outputs(net);
  if (wanted == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the data have neither classes nor targets to be trained on");
  if (info->class_count > 0 && outputs != (size_t)last->filters)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the last layer yields %d x %d outputs of each of %d filters, but classes need one: end the network "
                      "in \"mean\" or a dense layer",
                      last->out_height, last->out_width, last->filters);
  bool images = info->class_count == 0 && info->target_channels > 0 && (last->out_height > 1 || last->out_width > 1);
  if (images && (info->target_channels != last->filters || info->target_height != last->out_height ||
                 info->target_width != last->out_width))
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "the network's outputs are %d x %d x %d (channels, height, width), but the targets %d x %d x %d: strides, pools "
        "and \"valid\" make images smaller, \"upconv\" and \"shuffle\" larger, and the last layer has a filter for each "
        "channel",
        last->filters, last->out_height, last->out_width, info->target_channels, info->target_height, info->target_width);
  if (outputs != wanted)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network has %zu outputs (%d x %d x %d), but the data have %zu %s", outputs,
                      last->filters, last->out_height, last->out_width, wanted,
                      info->class_count > 0 ? "classes" : "targets");
  return GCONV_OK;
}

/* Fails if a dense layer has too many inputs: a file of few bytes can ask for millions of columns. */
static gconv_status check_dense(const gconv_learn_net *net) {
  size_t tail = gconv_learn_tail(net), inputs = tail < net->count ? gconv_learn_in_floats(&net->layers[tail]) : 0;
  if (inputs <= MOST_DENSE_INPUTS)
    return GCONV_OK;
  return gconv_fail(GCONV_TOO_LARGE, "layer %zu, a dense one, has %zu inputs: at most %d can be trained", tail + 1, inputs,
                    MOST_DENSE_INPUTS);
}

static gconv_status choose_loss(gconv_learn_net *net, gconv_loss loss) {
  const gconv_learn_layer *last = &net->layers[net->count - 1];
  bool softmax = last->problem.activation == GCONV_ACTIVATION_SOFTMAX;
  bool fits = softmax && net->classes;
  if (loss == GCONV_LOSS_CROSS_ENTROPY && !fits)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the loss cross-entropy needs %s",
                      softmax ? "data with classes" : "a last layer with the activation softmax");
  net->loss = loss != GCONV_LOSS_DEFAULT ? loss : fits ? GCONV_LOSS_CROSS_ENTROPY : GCONV_LOSS_MSE;
  return GCONV_OK;
}

gconv_status gconv_learn_net_make(const gconv_network *network, const gconv_dataset_info *info, gconv_loss loss,
                                  gconv_learn_net *net) {
  if (network->count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a network without layers cannot be trained");
  GCONV_TRY(check_input(network, info));
  GCONV_FREED gconv_learn_layer *layers = calloc(network->count, sizeof *layers);
  GCONV_NEED_MEMORY(layers, "no memory for a network");
  const gconv_layer_shape first = {info->channels, info->height, info->width, false};
  gconv_learn_net made = {.layers = layers, .count = network->count, .classes = info->class_count > 0};
  GCONV_TRY(resolve_layers(network, &first, layers, &made.parameters));
  GCONV_TRY(check_outputs(&made, info));
  GCONV_TRY(check_dense(&made));
  GCONV_TRY(choose_loss(&made, loss));
  if (made.parameters == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a network without weights cannot be trained");
  *net = made;
  layers = NULL; /* the net has them */
  return GCONV_OK;
}

void gconv_learn_net_free(gconv_learn_net *net) {
  if (!net)
    return;
  free((void *)net->layers);
  *net = (gconv_learn_net){0};
}

/* ---- Weights ---- */

static bool has_biases(const gconv_layer *layer) {
  return gconv_layer_form_of(layer->kind)->has_biases;
}

static void take_weights(const gconv_layer *layer, float *weights) {
  if (has_biases(layer))
    gconv_layer_copy_weights(layer, weights);
  else
    memcpy(weights, layer->bank->weights, count_parameters(layer) * sizeof *weights);
}

void gconv_learn_net_take(const gconv_learn_net *net, const gconv_network *network, float *parameters) {
  for (size_t i = 0; i < net->count; i++)
    if (network->layers[i].bank)
      take_weights(&network->layers[i], parameters + net->layers[i].weights);
}

void gconv_learn_net_give(const gconv_learn_net *net, const float *parameters, gconv_network *network) {
  for (size_t i = 0; i < net->count; i++) {
    gconv_bank *bank = &network->banks[i];
    const float *from = parameters + net->layers[i].weights;
    if (!network->layers[i].bank)
      continue;
    size_t plane = (size_t)bank->rows * (size_t)bank->columns;
    gconv_layer_copy_planes(from, planes_of(bank), plane, network->layers[i].flip, bank->weights);
    if (has_biases(&network->layers[i]))
      memcpy(bank->biases, from + planes_of(bank) * plane, (size_t)bank->filters * sizeof *bank->biases);
  }
}

/* ---- Copies ---- */

/* *copy = a copy of `bytes` bytes, or NULL if `from` is NULL. Returns false without memory. */
static bool copy_bytes(const void *from, size_t bytes, void *copy) {
  void *memory = from ? malloc(bytes ? bytes : 1) : NULL;
  if (memory)
    memcpy(memory, from, bytes);
  memcpy(copy, &memory, sizeof memory);
  return memory || !from;
}

static bool copy_text(const char *from, char **copy) {
  return copy_bytes(from, from ? strlen(from) + 1 : 0, copy);
}

/* Copies the bank of a layer. If the kind of layer has biases, so has the copy: 0 if the bank has none. */
static bool copy_bank(const gconv_layer *layer, gconv_bank *copy) {
  const gconv_bank *bank = layer->bank;
  const bool biased = has_biases(layer);
  size_t filters = (size_t)bank->filters, weights = planes_of(bank) * (size_t)bank->rows * (size_t)bank->columns;
  *copy = *bank;
  copy->name = NULL, copy->weights = copy->biases = NULL, copy->names = NULL;
  if (biased)
    copy->biases = calloc(filters, sizeof *copy->biases);
  if ((biased && !copy->biases) || !copy_text(bank->name, &copy->name) ||
      !copy_bytes(bank->weights, weights * sizeof *bank->weights, &copy->weights))
    return false;
  if (bank->biases && biased)
    memcpy(copy->biases, bank->biases, filters * sizeof *bank->biases);
  if (!bank->names)
    return true;
  copy->names = calloc(filters, sizeof *copy->names);
  for (size_t k = 0; copy->names && k < filters; k++)
    if (!copy_text(bank->names[k], &copy->names[k]))
      return false;
  return copy->names != NULL;
}

static bool copy_layers(const gconv_network *network, gconv_network *copy) {
  copy->layers = calloc(network->count, sizeof *copy->layers);
  copy->banks = calloc(network->count, sizeof *copy->banks);
  if (!copy->layers || !copy->banks)
    return false;
  copy->count = network->count;
  for (size_t i = 0; i < network->count; i++) {
    copy->layers[i] = network->layers[i];
    copy->layers[i].algorithm = NULL; /* the caller's text */
    copy->layers[i].bank = NULL;
    if (!network->layers[i].bank)
      continue;
    copy->layers[i].bank = &copy->banks[i];
    if (!copy_bank(&network->layers[i], &copy->banks[i]))
      return false;
  }
  return true;
}

static bool copy_classes(const gconv_network *network, gconv_network *copy) {
  if (!network->classes || network->class_count == 0)
    return true;
  copy->classes = calloc(network->class_count, sizeof *copy->classes);
  copy->class_count = copy->classes ? network->class_count : 0;
  for (size_t i = 0; i < copy->class_count; i++)
    if (!copy_text(network->classes[i], &copy->classes[i]))
      return false;
  return copy->classes != NULL;
}

gconv_status gconv_network_copy(const gconv_network *network, gconv_network *copy) {
  gconv_network made = *network;
  made.layers = NULL, made.banks = NULL, made.count = 0;
  made.mean = made.std = NULL, made.classes = NULL, made.class_count = 0;
  made.trained = made.others = made.features = made.label = NULL, made.palette = NULL;
  made.notes = (gconv_column_notes){0};
  made.inputs = made.outputs = NULL, made.input_count = made.output_count = 0; /* these only describe an ONNX model */
  bool good = copy_layers(network, &made) && copy_classes(network, &made) &&
              copy_bytes(network->mean, (size_t)network->mean_count * sizeof(float), &made.mean) &&
              copy_bytes(network->std, (size_t)network->std_count * sizeof(float), &made.std) &&
              copy_text(network->trained, &made.trained) && copy_text(network->features, &made.features) &&
              copy_text(network->label, &made.label) &&
              (!network->palette || network->class_count == 0 ||
               copy_bytes(network->palette, 3 * network->class_count, &made.palette)) &&
              copy_text(network->others, &made.others) && gconv_column_notes_copy(&network->notes, &made.notes) == GCONV_OK;
  if (!good) {
    gconv_network_free(&made);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a copy of a network");
  }
  *copy = made;
  return GCONV_OK;
}

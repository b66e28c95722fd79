/* SPDX-License-Identifier: MIT */
/* Layers as an operation, which has copies of the layers and of the options. */
#include "base/arguments.h"
#include "base/lists.h"
#include "base/memory.h"
#include "gconv_learn.h"
#include "layer/kind.h"
#include "operation/pick.h"

#include <math.h>
#include <string.h>

const char *gconv_activation_name(gconv_activation activation) {
  static const char *const names[] = {GCONV_EACH_ACTIVATION(GCONV_NAMED_AS)[GCONV_ACTIVATION_SOFTMAX] = "softmax"};
  return (size_t)activation < sizeof names / sizeof names[0] ? names[activation] : NULL;
}

static void free_operation(gconv_operation *base) {
  gconv_network_operation *operation = (gconv_network_operation *)base;
  for (size_t i = 0; operation->layers && i < operation->count; i++)
    free((char *)operation->layers[i].algorithm); /* copies of its own, as all below */
  free(operation->layers);
  free((float *)operation->options.mean);
  free((float *)operation->options.std);
  free((uint16_t *)operation->options.class_values);
  free((char *)operation->options.algorithm);
  free((char *)operation->options.without);
  if (operation->graph != operation->own_graph)
    gconv_graph_free_image(operation->graph);
  gconv_graph_free(operation->own_graph);
  free(operation);
}

/* Returns the number of outputs. There is a picture for each filter of the last bank, since layers after it keep the
 * channels. */
static size_t count_outputs(const gconv_operation *base) {
  const gconv_network_operation *operation = (const gconv_network_operation *)base;
  const gconv_bank *last = NULL;
  if (operation->graph && operation->graph->output_count > 1)
    return operation->graph->output_count;
  if (operation->graph)
    return operation->options.presentation == GCONV_PRESENT_PICTURES ? (size_t)operation->graph_outputs : 1;
  for (size_t i = operation->count; i-- > 0 && !last;)
    last = operation->layers[i].bank;
  return operation->options.presentation == GCONV_PRESENT_PICTURES && last ? (size_t)last->filters : 1;
}

/* Returns the bytes of the banks: they are the caller's, but stay in memory as long as the operation. */
static double held_bytes(const gconv_operation *base) {
  const gconv_network_operation *operation = (const gconv_network_operation *)base;
  double weights = 0;
  for (size_t i = 0; operation->graph && i < operation->graph->value_count; i++)
    if (operation->graph->values[i].constant)
      weights += (double)gconv_tensor_elements(&operation->graph->values[i].tensor);
  for (size_t i = 0; i < operation->count; i++) {
    const gconv_bank *bank = operation->layers[i].bank;
    weights += bank ? (double)bank->filters * bank->channels * bank->rows * bank->columns : 0;
  }
  return weights * sizeof(float);
}

static const char *lacks(const gconv_operation *base, const char *device) {
  const gconv_network_operation *operation = (const gconv_network_operation *)base;
  if (operation->graph && !gconv_device_has(device, operation->options.algorithm, gconv_layer_algorithm_at))
    return operation->options.algorithm;
  for (size_t i = 0; i < operation->count; i++) {
    const char *own = operation->layers[i].algorithm, *name = own ? own : operation->options.algorithm;
    if (!gconv_device_has(device, name, gconv_layer_algorithm_at))
      return name;
  }
  return NULL;
}

static const gconv_operation_type network_type = {.name = "a network",
                                                  .free = free_operation,
                                                  .outputs = count_outputs,
                                                  .held_bytes = held_bytes,
                                                  .plan_type = &gconv_network_plan_type,
                                                  .fill_plan = gconv_network_fill,
                                                  .lacks = lacks,
                                                  .batches = true,
                                                  .shares = true};

static const gconv_operation_type image_type = {.name = "a network",
                                                .free = free_operation,
                                                .outputs = count_outputs,
                                                .plan_type = &gconv_network_plan_type,
                                                .fill_plan = gconv_network_fill,
                                                .lacks = lacks,
                                                .batches = true,
                                                .of_photos = true,
                                                .shares = true};

/* Return copies for free(); NULL if the argument is NULL, or for lack of memory. */
static const char *copy_text(const char *text) {
  return text ? strdup(text) : NULL;
}
static const float *copy_numbers(const float *numbers, int32_t count) {
  size_t bytes = count > 0 ? (size_t)count * sizeof *numbers : 0;
  void *copy = numbers ? malloc(bytes + 1) : NULL;
  return copy ? memcpy(copy, numbers, bytes) : NULL;
}

static const uint16_t *copy_values(const uint16_t *values, size_t count) {
  void *copy = values && count < SIZE_MAX / sizeof *values ? malloc(count * sizeof *values + 1) : NULL;
  return copy ? memcpy(copy, values, count * sizeof *values) : NULL;
}

/* Replaces all pointers by copies; by NULL if there is no memory. */
static gconv_status own_options(gconv_network_options *options) {
  const gconv_network_options given = *options;
  options->algorithm = copy_text(given.algorithm);
  options->without = copy_text(given.without);
  options->mean = copy_numbers(given.mean, given.mean_count);
  options->std = copy_numbers(given.std, given.std_count);
  options->class_values = copy_values(given.class_values, given.class_value_count);
  if (!options->class_values != !given.class_values || !options->algorithm != !given.algorithm ||
      !options->without != !given.without || !options->mean != !given.mean || !options->std != !given.std)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  return GCONV_OK;
}

static gconv_status fill(const gconv_layer *layers, size_t count, gconv_network_operation *operation) {
  GCONV_TRY(own_options(&operation->options));
  GCONV_NEW(operation->layers, count + 1, "no memory for a network");
  for (; operation->count < count; operation->count++) {
    gconv_layer *layer = &operation->layers[operation->count];
    *layer = layers[operation->count];
    layer->algorithm = copy_text(layer->algorithm);
    if (!layer->algorithm && layers[operation->count].algorithm)
      return gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  }
  return GCONV_OK;
}

/* ---- Checks ---- */

static gconv_status check_numbers(const char *what, const float *numbers, int32_t count, bool above_0) {
  if (numbers ? count < 1 : count != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%d numbers as %s%s: give one, or one for each channel", count, what,
                      numbers ? "" : ", and none are given");
  for (int32_t i = 0; numbers && i < count; i++)
    if (!isfinite(numbers[i]) || (above_0 && numbers[i] <= 0))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s %d is not a finite number%s", what, i + 1, above_0 ? " above 0" : "");
  return GCONV_OK;
}

/* Checks what follows from the options alone. The number of channels is known only when there are images. */
static gconv_status check_options(const gconv_network_options *o) {
  GCONV_TRY(GCONV_CHECK_KNOWN(o, "options"));
  const bool labels = o->presentation == GCONV_PRESENT_LABELS || o->presentation == GCONV_PRESENT_CLASSES;
  GCONV_TRY(check_numbers("mean", o->mean, o->mean_count, false));
  GCONV_TRY(check_numbers("standard deviation", o->std, o->std_count, true));
  GCONV_TRY(gconv_check_value("options->math", o->math, GCONV_MATH_FP32, GCONV_MATH_BF16));
  GCONV_TRY(gconv_check_value("options->order", o->order, GCONV_ORDER_DEFAULT, GCONV_ORDER_BGR));
  GCONV_TRY(gconv_check_value("options->alpha", o->alpha, GCONV_ALPHA_KEEP, GCONV_ALPHA_DROP));
  if (o->alpha == GCONV_ALPHA_PREMULTIPLY)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "alpha premultiply is for filters: a network sees the colours of neighbours where pixels are "
                      "transparent, so that no rim becomes dark: leave out --alpha, or use --alpha filter");
  if (!isfinite(o->white) || o->white < 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->white is %g: it is a finite number above 0, or 0 for the default",
                      (double)o->white);
  GCONV_TRY(gconv_check_value("options->combine", o->combine, GCONV_COMBINE_NONE, GCONV_COMBINE_ARGMAX));
  GCONV_TRY(gconv_check_value("options->presentation", o->presentation, GCONV_PRESENT_TENSOR, GCONV_PRESENT_CLASSES));
  GCONV_TRY(gconv_check_scaling(o->tone.scale, o->tone.offset, o->tone.range, o->tone.type));
  if (o->tone.type == GCONV_I16)
    return gconv_fail(GCONV_UNSUPPORTED, "options->tone.type is i16, which plain filters alone make: take f32");
  if (o->combine == GCONV_COMBINE_STACK)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->combine is a stack, which the outputs of a network are already");
  if (labels && o->combine != GCONV_COMBINE_ARGMAX)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->presentation is of labels or classes: options->combine must be argmax");
  if (!o->class_values && o->class_value_count > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->class_values is NULL, and options->class_value_count is %zu",
                      o->class_value_count);
  return GCONV_OK;
}

static gconv_status check(const gconv_layer *layers, size_t count, const gconv_network_options *options) {
  if (count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a network of no layers: there must be at least one");
  for (size_t i = 0; i < count; i++) {
    char where[32];
    snprintf(where, sizeof where, "layer %zu", i + 1);
    GCONV_TRY(gconv_layer_check(&layers[i], where));
  }
  return check_options(options);
}

/* Returns the number of the first layer that runs in graphs alone; `count` if there is none. */
static size_t find_in_graphs(const gconv_layer *layers, size_t count) {
  size_t i = 0;
  while (i < count && !gconv_layer_work_of(layers[i].kind)->in_graphs)
    i++;
  return i;
}

/* Takes the channels, the size and the graph of a network. */
static gconv_status take_network(const gconv_network *network, gconv_network_operation *operation) {
  operation->channels = network->channels;
  operation->height = network->height;
  operation->width = network->width;
  if (find_in_graphs(network->layers, network->count) < network->count) {
    GCONV_TRY(gconv_graph_of_network(network, &operation->own_graph));
    operation->graph = operation->own_graph;
  } else if (network->graph) {
    GCONV_TRY(gconv_graph_make_image(network->graph, network->output, &operation->graph));
  }
  if (operation->graph && gconv_graph_find_outputs(operation->graph, network->channels, network->height, network->width,
                                                   &operation->graph_outputs) != GCONV_OK)
    operation->graph_outputs = 1; /* no size that was tried fits: the plan for an image will say what is wrong */
  return GCONV_OK;
}

/* network: the network that has the layers; or NULL. */
static gconv_status make_operation(const gconv_layer *layers, size_t count, const gconv_network_options *options,
                                   const gconv_network *network, gconv_operation **result) {
  static const gconv_network_options defaults;
  if (!network || !network->graph)
    GCONV_TRY(check(layers, count, options ? options : &defaults));
  const size_t special = find_in_graphs(layers, count);
  if (special < count && !network)
    return gconv_fail(GCONV_UNSUPPORTED, "layer %zu, %s, runs as a part of a gconv_network: gconv_operation_of_network()",
                      special + 1, gconv_layer_kind_name(layers[special].kind));
  gconv_network_operation *operation = calloc(1, sizeof *operation);
  GCONV_NEED_MEMORY(operation, "no memory for a network");
  bool image = options && options->presentation == GCONV_PRESENT_IMAGE;
  operation->base = (gconv_operation){image ? &image_type : &network_type, 1, NULL};
  operation->options = options ? *options : defaults;
  if (operation->options.tone.scale == 0)
    operation->options.tone.scale = 1;
  gconv_status status = fill(layers, special < count ? 0 : count, operation); /* a graph runs in place of all layers */
  if (status == GCONV_OK && network)
    status = take_network(network, operation);
  if (status != GCONV_OK) {
    free_operation(&operation->base);
    return status;
  }
  *result = &operation->base;
  return GCONV_OK;
}

gconv_status gconv_operation_network(const gconv_layer *layers, size_t count, const gconv_network_options *options,
                                     gconv_operation **result) {
  GCONV_NEED(layers);
  GCONV_NEED_AS(result, "operation");
  return make_operation(layers, count, options, NULL, result);
}

/* A model with inputs of integers takes levels by itself. So options->white may only repeat the model's level of white. */
static gconv_status check_white(const gconv_network *network, gconv_network_options *options) {
  const float white = network->graph ? gconv_graph_white(network->graph) : 0;
  if (white == 0 || options->white <= 1)
    return GCONV_OK;
  if (options->white != white)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the model takes integers, of which %g is white, not %g", (double)white,
                      (double)options->white);
  options->white = 1;
  return GCONV_OK;
}

gconv_status gconv_operation_of_network(const gconv_network *network, const gconv_network_options *options,
                                        gconv_operation **result) {
  static const gconv_network_options defaults;
  GCONV_NEED(network);
  GCONV_NEED_KNOWN(network);
  if (!network->graph)
    GCONV_NEED_AS(network->layers, "network->layers");
  GCONV_NEED_AS(result, "operation");
  GCONV_TRY(gconv_check_value("the network's channels", network->channels, network->graph ? 0 : 1, INT32_MAX));
  gconv_network_options own = options ? *options : defaults;
  GCONV_TRY(check_options(&own));
  if (!own.mean && network->mean) {
    own.mean = network->mean;
    own.mean_count = network->mean_count;
  }
  if (!own.std && network->std) {
    own.std = network->std;
    own.std_count = network->std_count;
  }
  own.white = own.white > 0 ? own.white : network->white;
  GCONV_TRY(check_white(network, &own));
  own.order = own.order != GCONV_ORDER_DEFAULT ? own.order : network->order;
  GCONV_TRY(check_options(&own));
  return make_operation(network->layers, network->count, &own, network, result);
}

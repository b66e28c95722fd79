/* SPDX-License-Identifier: MIT */
/* What a network is, layer by layer: gconv info and gconv bank info. */
#include "base/json.h"
#include "base/lists.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/bank.h"
#include "cli/graph_draw.h"
#include "cli/job.h"
#include "cli/page.h"
#include "gconv_learn.h"

#include <inttypes.h>
#include <string.h>

enum { ANY_SIZE = 256, TEXT_BYTES = 64, LISTED_CLASSES = 32, LISTED_NUMBERS = 16 };

/* A network, and a plan with the shapes of its layers; NULL if an image of ANY_SIZE does not fit. */
typedef struct drawn {
  gconv_network network;
  gconv_device *device;
  gconv_operation *operation;
  gconv_plan *plan;
  int32_t height, width; /* height and width of the input to which the shapes belong */
} drawn;

/* ---- Shapes ---- */

static gconv_status begin(const char *path, drawn *d) {
  GCONV_TRY(gconv_network_load(path, &d->network));
  const gconv_network *network = &d->network;
  d->height = network->height > 0 ? network->height : ANY_SIZE;
  d->width = network->width > 0 ? network->width : ANY_SIZE;
  gconv_image like = {
      .type = GCONV_F32, .frames = 1, .height = d->height, .width = d->width, .channels = network->channels, .planar = true};
  like.channels = network->channels > 0 ? network->channels : 3; /* a graph may take any number */
  GCONV_TRY(gconv_device_open("cpu", 1, &d->device));
  GCONV_TRY(gconv_operation_of_network(network, NULL, &d->operation));
  gconv_status status = gconv_plan_create(d->device, &like, d->operation, 0, &d->plan);
  return status == GCONV_NO_MEMORY ? status : GCONV_OK; /* without a plan, shapes are not printed */
}

static void end(drawn *d) {
  gconv_plan_free(d->plan);
  gconv_operation_free(d->operation);
  gconv_device_close(d->device);
  gconv_network_free(&d->network);
}

size_t gconv_count_weights(const gconv_bank *bank) {
  return bank ? (size_t)bank->filters * (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns : 0;
}

static uint64_t count_parameters(const gconv_bank *bank) {
  return gconv_count_weights(bank) + (bank && bank->biases ? (uint64_t)bank->filters : 0);
}

static uint64_t count_all_parameters(const gconv_network *network) {
  uint64_t all = 0;
  for (size_t i = 0; i < network->count; i++)
    all += count_parameters(network->layers[i].bank);
  return all;
}

/* Returns the name of a layer's kind: "dense" for a convolution whose filters cover its whole input. */
static const char *name_kind(const gconv_layer *layer, const gconv_layer_info *info) {
  if (layer->kind != GCONV_LAYER_CONV)
    return gconv_layer_kind_name(layer->kind);
  bool dense = info && info->out_height == 1 && info->out_width == 1 && info->height == info->rows &&
               info->width == info->columns && info->groups == 1;
  return dense ? "dense" : "conv";
}

static const char *name_loss(gconv_loss loss) {
  static const char *const names[] = {GCONV_EACH_LOSS(GCONV_NAMED)};
  return names[loss];
}

/* ---- Graphs ---- */

/* Counts the numbers in the constants of a graph. */
static double count_numbers(const gconv_plan *plan) {
  double all = 0;
  const gconv_node_info *node;
  for (size_t i = 0; (node = gconv_plan_node(plan, i)); i++)
    all += node->parameters;
  return all;
}

static void print_tensors(const char *what, const gconv_network_tensor *tensors, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const gconv_network_tensor *t = &tensors[i];
    gconv_print(stdout, "  %-10s  '%s' %s", what, t->name, t->type);
    for (int32_t axis = 0; axis < t->axes; axis++)
      printf(t->shape[axis] > 0 ? "%s%" PRId64 : "%s?", axis > 0 ? " x " : " ", t->shape[axis]);
    puts(t->axes < 0 ? " of any shape" : "");
  }
}

static gconv_status print_graph(const char *path, const drawn *d) {
  GCONV_FREED char *text = NULL;
  gconv_print(stdout, "%s: a graph of nodes; for an image of %d x %d:\n", path, d->width, d->height);
  print_tensors("input", d->network.inputs, d->network.input_count);
  print_tensors("output", d->network.outputs, d->network.output_count);
  printf("  parameters  %.0f\n\n", count_numbers(d->plan));
  GCONV_TRY(gconv_graph_draw_text(stdout, d->plan));
  GCONV_TRY(gconv_plan_explain(d->plan, &text));
  const char *memory = strstr(text, "\nmemory: ");
  if (memory)
    printf("\n%.*s\n", (int)strcspn(memory + 1, "\n"), memory + 1);
  return GCONV_OK;
}

typedef struct drawing {
  const drawn *of;
  const char *heading;
} drawing;

static void put_drawing(FILE *out, const void *context) {
  const drawing *d = context;
  gconv_graph_draw_svg(out, d->of->plan, d->heading);
}

static gconv_status draw(const char *path, const drawn *d, const char *output) {
  char heading[400];
  const char *slash = strrchr(path, '/');
  snprintf(heading, sizeof heading, "%.200s, for an image of %d x %d: %.0f parameters", slash ? slash + 1 : path, d->width,
           d->height, count_numbers(d->plan));
  const drawing what = {d, heading};
  return gconv_page_write(output, put_drawing, &what);
}

/* ---- As text ---- */

/* Writes an activation and its slope, such as "relu" or "leaky 0.1"; "" if there is none. */
static void print_activation(const gconv_layer *layer, char text[TEXT_BYTES]) {
  const char *name = layer->activation == GCONV_ACTIVATION_NONE ? "" : gconv_activation_name(layer->activation);
  bool sloped = layer->activation == GCONV_ACTIVATION_LEAKY ||
                (layer->activation == GCONV_ACTIVATION_SIGMOID && layer->slope != 0 && layer->slope != 1);
  snprintf(text, TEXT_BYTES, sloped ? "%s %.6g" : "%s", name, (double)layer->slope);
}

/* Returns what the plan knows of a layer; NULL: nothing, as the network runs as a graph. */
static const gconv_layer_info *info_of(const drawn *d, size_t i) {
  return gconv_job_is_graph(&d->network) ? NULL : gconv_plan_layer_info(d->plan, i);
}

/* Prints how the layer is applied, where it is not the default. */
static void print_geometry(const gconv_layer *layer) {
  static const char *const paddings[] = {"", "", "valid", "full", "padded", "same_upper", "same_lower"};
  if (layer->stride_y > 1 || layer->stride_x > 1)
    printf(" stride %d,%d", layer->stride_y, layer->stride_x);
  if (layer->dilation_y > 1 || layer->dilation_x > 1)
    printf(" dilation %d,%d", layer->dilation_y, layer->dilation_x);
  if (layer->groups > 1)
    printf(" groups %d", layer->groups);
  if (layer->window_y > 0)
    printf(layer->kind == GCONV_LAYER_SHUFFLE ? " by %d" : " windows %d x %d", layer->window_y, layer->window_x);
  if (layer->from > 0)
    printf(" from layer %d", layer->from);
  if (paddings[layer->padding][0])
    printf(" %s", paddings[layer->padding]);
  if (layer->border == GCONV_BORDER_CONSTANT)
    printf(" constant:%.6g", layer->border_value);
  else if (layer->border != GCONV_BORDER_ZERO)
    printf(" %s", gconv_border_name(layer->border));
}

static void print_layer(const drawn *d, size_t i) {
  const gconv_layer *layer = &d->network.layers[i];
  const gconv_layer_info *info = info_of(d, i);
  char weights[TEXT_BYTES] = "", in[TEXT_BYTES] = "?", out[TEXT_BYTES] = "?", activation[TEXT_BYTES];
  if (layer->bank)
    snprintf(weights, sizeof weights, "%d x %d x %d x %d", layer->bank->filters, layer->bank->channels, layer->bank->rows,
             layer->bank->columns);
  if (info) {
    const int32_t channels = info->each ? info->images : info->channels;
    snprintf(in, sizeof in, "%d x %d x %d", channels, info->height, info->width);
    snprintf(out, sizeof out, "%d x %d x %d", info->filters * (info->each ? info->images : 1), info->out_height,
             info->out_width);
  }
  print_activation(layer, activation);
  printf("  %5zu  %-8s  %-18s  %16s -> %-16s  %-10s %11" PRIu64, i + 1, name_kind(layer, info), weights, in, out, activation,
         count_parameters(layer->bank));
  print_geometry(layer);
  putchar('\n');
}

static void print_floats(const char *name, const float *floats, int32_t count) {
  if (count == 0)
    return;
  printf("  %-10s ", name);
  for (int32_t i = 0; i < count && i < LISTED_NUMBERS; i++)
    printf(" %.6g", (double)floats[i]);
  puts(count > LISTED_NUMBERS ? " ..." : "");
}

void gconv_print_classes(const char *const *classes, size_t count) {
  if (count == 0)
    return;
  printf("  classes     %zu:", count);
  for (size_t i = 0; i < count && i < LISTED_CLASSES; i++)
    gconv_print(stdout, "%s %s", i == 0 ? "" : ",", classes[i]);
  puts(count > LISTED_CLASSES ? ", ..." : "");
}

static void print_trained(const gconv_network *network) {
  char *words = network->trained ? gconv_trained_words(network->trained) : NULL;
  if (words && *words)
    gconv_print(stdout, "  trained     %s\n", words);
  free(words);
}

static void print_network(const char *path, const drawn *d) {
  const gconv_network *network = &d->network;
  gconv_print(stdout, "%s: network, %zu layer%s, %" PRIu64 " parameters\n", path, network->count,
              network->count == 1 ? "" : "s", count_all_parameters(network));
  printf("  input       %d channel%s, ", network->channels, network->channels == 1 ? "" : "s");
  if (network->height > 0)
    printf("%d x %d (height x width)\n", network->height, network->width);
  else
    printf("any size; shapes here are for %d x %d\n", d->height, d->width);
  print_floats("mean", network->mean, network->mean_count);
  print_floats("std", network->std, network->std_count);
  if (network->white > 0)
    printf("  white       %g\n", (double)network->white);
  if (network->order != GCONV_ORDER_DEFAULT)
    printf("  order       %s\n", network->order == GCONV_ORDER_BGR ? "bgr" : "rgb");
  printf("  %5s  %-8s  %-18s  %16s -> %-16s  %-10s %11s\n", "layer", "kind", "weights", "input", "output", "activation",
         "parameters");
  for (size_t i = 0; i < network->count; i++)
    print_layer(d, i);
  gconv_print_classes((const char *const *)network->classes, network->class_count);
  if (network->features)
    gconv_print(stdout, "  features    %s\n", network->features);
  if (name_loss(network->loss))
    printf("  loss        %s\n", name_loss(network->loss));
  print_trained(network);
}

gconv_status gconv_graph_print(const char *path, const char *output) {
  GCONV_ENDED_BY(end) drawn d = {0};
  gconv_status status = begin(path, &d);
  if (status == GCONV_OK && d.network.graph && d.plan)
    status = output ? draw(path, &d, output) : print_graph(path, &d);
  else if (d.network.graph && !output) { /* the graph cannot be planned, as it takes no images */
    gconv_print(stdout, "%s: a graph of nodes\n", path);
    print_tensors("input", d.network.inputs, d.network.input_count);
    print_tensors("output", d.network.outputs, d.network.output_count);
    gconv_print(stdout, "  not drawn   %s\n", gconv_last_error());
    status = GCONV_OK;
  }
  if (status == GCONV_OK && !d.network.graph && !output)
    print_network(path, &d);
  if (output && status == GCONV_OK && !(d.network.graph && d.plan))
    status = gconv_fail(GCONV_UNSUPPORTED,
                        d.network.graph ? "%s: cannot be planned for an image, so that it is not drawn: %s"
                                        : "%s: is a chain of layers, which gconv info lists: -o draws graphs",
                        path, gconv_last_error());
  return status;
}

gconv_status gconv_network_print(const char *path) {
  GCONV_ENDED_BY(end) drawn d = {0};
  gconv_status status = begin(path, &d);
  if (status == GCONV_OK)
    print_network(path, &d);
  if (status == GCONV_OK && gconv_job_is_graph(&d.network))
    status = d.plan ? print_graph(path, &d) : GCONV_OK;
  return status;
}

/* ---- As JSON ---- */

static json_t *describe_layer(const drawn *d, size_t i) {
  const gconv_layer *layer = &d->network.layers[i];
  const gconv_layer_info *info = info_of(d, i);
  json_t *object =
      json_pack("{s:s, s:I}", "kind", name_kind(layer, info), "parameters", (json_int_t)count_parameters(layer->bank));
  if (layer->bank) {
    gconv_json_put(
        object, "weights",
        json_pack("[i, i, i, i]", layer->bank->filters, layer->bank->channels, layer->bank->rows, layer->bank->columns));
    gconv_json_put(object, "activation", gconv_activation_name(layer->activation));
    gconv_json_put(object, "slope", (double)layer->slope);
  }
  if (info) {
    const int32_t each = info->each ? info->images : 1;
    gconv_json_put(object, "input", json_pack("[i, i, i]", info->each ? each : info->channels, info->height, info->width));
    gconv_json_put(object, "output", json_pack("[i, i, i]", info->filters * each, info->out_height, info->out_width));
  }
  return object;
}

static json_t *describe_floats(const float *floats, int32_t count) {
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++)
    json_array_append_new(list, json_real((double)floats[i]));
  return list;
}

static json_t *describe_network(const drawn *d) {
  const gconv_network *network = &d->network;
  json_error_t error;
  json_t *layers = json_array(), *classes = json_array();
  json_t *trained = network->trained ? json_loads(network->trained, 0, &error) : NULL;
  for (size_t i = 0; i < network->count; i++)
    json_array_append_new(layers, describe_layer(d, i));
  for (size_t i = 0; i < network->class_count; i++)
    json_array_append_new(classes, gconv_json_text(network->classes[i]));
  json_t *json = json_pack("{s:I, s:[i, i, i], s:o, s:o, s:o, s:o, s:o, s:o}", "parameters",
                           (json_int_t)count_all_parameters(network), "input", network->channels, network->height,
                           network->width, "mean", describe_floats(network->mean, network->mean_count), "std",
                           describe_floats(network->std, network->std_count), "layers", layers, "classes", classes, "loss",
                           gconv_json_text(name_loss(network->loss)), "trained", trained ? trained : json_null());
  if (network->features)
    gconv_json_put(json, "features", network->features);
  return json;
}

gconv_status gconv_network_describe(const char *path, json_t **json) {
  GCONV_ENDED_BY(end) drawn d = {0};
  gconv_status status = begin(path, &d);
  *json = status == GCONV_OK ? describe_network(&d) : NULL;
  return status;
}

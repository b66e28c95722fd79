/* SPDX-License-Identifier: MIT */
/* A whole ONNX model as a network, if its nodes are a chain from the graph's input to its output: each node takes what the
 * node before it makes. A table has all operators that are read, with the opsets and the attributes that are understood.
 * Operators without a row are refused by name. */
#include "bank/onnx_rows.h"
#include "base/lists.h"
#include "base/memory.h"
#include "base/printable.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 80 };

/* ---- Activations ---- */

static gconv_status activate(gconv_onnx_graph *g, const gconv_onnx_node *n, gconv_activation activation, float slope) {
  gconv_layer *layer = gconv_network_open_layer(g->network);
  if (!layer)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is an activation that does not follow a Conv, Gemm or MatMul");
  if (!isfinite(slope))
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has a slope that is no finite number");
  layer->activation = activation;
  layer->slope = slope;
  return GCONV_OK;
}

static gconv_status make_relu(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return activate(g, n, GCONV_ACTIVATION_RELU, 0);
}

static gconv_status make_leaky(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return activate(g, n, GCONV_ACTIVATION_LEAKY, gconv_onnx_number_of(n, "alpha", 0.01F));
}

static gconv_status make_sigmoid(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return activate(g, n, GCONV_ACTIVATION_SIGMOID, 0);
}

static gconv_status make_tanh(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  return activate(g, n, GCONV_ACTIVATION_TANH, 0);
}

/* A layer has softmax over its channels. From opset 13 on, softmax is over one axis; before, over all axes from `axis` on
 * together. */
static gconv_status make_softmax(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  const bool one_axis = g->model->opset >= 13, images = g->layout == GCONV_ONNX_IMAGES;
  const int64_t axis = gconv_onnx_integer_of(n, "axis", one_axis ? -1 : 1), axes = images ? 4 : 2;
  const bool channels = axis == 1 || axis == 1 - axes;
  if (!channels || ((!one_axis || !images) && !gconv_onnx_is_one_pixel(g)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                one_axis ? "normalises along axis %" PRId64 ": here that is the channels, axis 1"
                                         : "normalises along all axes from %" PRId64
                                           " on, as opsets below 13 do: here that is the channels alone, axis 1",
                                axis);
  return activate(g, n, GCONV_ACTIVATION_SOFTMAX, 0);
}

/* ---- Nodes that change the shape alone ---- */

static gconv_status make_nothing(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  (void)g;
  (void)n;
  return GCONV_OK;
}

/* Takes a Dropout, which does nothing unless it is in training mode. */
static gconv_status make_dropout(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_onnx_integers training;
  bool given;
  GCONV_TRY(gconv_onnx_read_list(g, n, "training_mode", 2, &training, &given));
  if (given && (training.count != 1 || training.numbers[0] != 0))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is in training mode, in which it drops numbers at random");
  return GCONV_OK;
}

/* Takes a Reshape to N x features, if it is one for every input of the model. In its shape, 0 keeps the size of an axis, and
 * -1 is the size that is left. */
static gconv_status make_reshape(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_onnx_integers shape;
  bool given;
  GCONV_TRY(gconv_onnx_read_list(g, n, "shape", 1, &shape, &given));
  const bool zeros = gconv_onnx_integer_of(n, "allowzero", 0) == 0;
  const int64_t rows = shape.numbers[0], columns = shape.numbers[1];
  const bool known =
      g->channels > 0 && g->height > 0 && g->width > 0 && g->height <= INT32_MAX / g->width && g->channels <= INT32_MAX;
  const int64_t features = known ? g->channels * g->height * g->width : 0;
  const bool keeps_rows = (rows == 0 && zeros) || (rows > 0 && rows == g->batch);
  const bool all_columns = (columns > 0 && columns == features) || (columns == 0 && zeros && g->layout == GCONV_ONNX_ROWS);
  if (shape.count != 2 || !((keeps_rows && (columns == -1 || all_columns)) || (rows == -1 && all_columns)))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "makes no list of features of each image, images x features, for every input");
  g->layout = GCONV_ONNX_ROWS;
  return GCONV_OK;
}

/* Takes a Squeeze that drops height and width after a mean. If it does not name its axes, it drops all axes of size 1, also
 * the batch if that is one image. */
static gconv_status make_squeeze(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  gconv_onnx_integers axes;
  bool given;
  GCONV_TRY(gconv_onnx_read_list(g, n, "axes", 1, &axes, &given));
  if (!gconv_onnx_is_one_pixel(g) || (given ? !gconv_onnx_are_height_and_width(&axes) : g->channels < 2))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "does not drop height and width, axes 2 and 3, behind a mean over both");
  g->layout = given ? GCONV_ONNX_ROWS : GCONV_ONNX_SQUEEZED;
  return GCONV_OK;
}

static gconv_status make_flatten(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  const int64_t axis = gconv_onnx_integer_of(n, "axis", 1);
  if (axis != 1 && axis != (g->layout == GCONV_ONNX_IMAGES ? -3 : -1))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "flattens from another axis than 1 on");
  g->layout = GCONV_ONNX_ROWS;
  return GCONV_OK;
}

/* ---- Mean and standard deviation, before the first layer ---- */

/* Reads what a node does to each channel of the input into a list of the network. */
static gconv_status take_normalisation(gconv_onnx_graph *g, const gconv_onnx_node *n, float **list, int32_t *count) {
  gconv_network *network = g->network;
  float *numbers = NULL;
  if (network->count > 0 || *list || network->std || g->channels == 0)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "is no mean and no standard deviation before the first layer");
  GCONV_TRY(gconv_onnx_read_added(g, n, 1, g->layout == GCONV_ONNX_IMAGES ? 4 : 2, g->channels, &numbers));
  *list = malloc((size_t)g->channels * sizeof **list);
  if (*list)
    memcpy(*list, numbers, (size_t)g->channels * sizeof **list);
  gconv_release(numbers);
  *count = *list ? (int32_t)g->channels : 0;
  free(g->first);
  g->first = strdup(gconv_onnx_output(n));
  return *list && g->first ? GCONV_OK : gconv_onnx_no_memory(g);
}

/* Means beyond 1 are meant for samples up to 255, which no chain takes. A graph takes the numbers as they are. */
static gconv_status make_mean(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  GCONV_TRY(take_normalisation(g, n, &g->network->mean, &g->network->mean_count));
  for (int32_t i = 0; i < g->network->mean_count; i++)
    if (!isfinite(g->network->mean[i]) || (g->layout == GCONV_ONNX_IMAGES && fabsf(g->network->mean[i]) > 1))
      return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "subtracts what is no mean of samples from 0 to 1");
  return GCONV_OK;
}

static gconv_status make_deviation(gconv_onnx_graph *g, const gconv_onnx_node *n) {
  GCONV_TRY(take_normalisation(g, n, &g->network->std, &g->network->std_count));
  for (int32_t i = 0; i < g->network->std_count; i++)
    if (!isfinite(g->network->std[i]) || g->network->std[i] <= 0)
      return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "divides by what is no standard deviation");
  return GCONV_OK;
}

/* ---- The table of operators ---- */

static rules none = {END}, value = {TENSOR("value"), END}, alpha = {FLOAT("alpha", 1, NEWEST), END},
             axis = {INT("axis", 1, NEWEST), END}, axes = {INTS("axes", 1, 12), END};
static rules reshape = {INT("allowzero", 14, NEWEST), END};
static rules dropout = {FLOAT("ratio", 1, 11), INT("seed", 12, NEWEST), NEEDED("is_test", 1, 6),
                        INTS("consumed_inputs", 1, 5), END};

/* Operators that make no layer: activations, changes of the shape alone, and operators that do nothing. */
static const gconv_onnx_operator others[] = {
    {"Relu", 1, 1, 1, ANY, make_relu, none, 0},
    {"LeakyRelu", 1, 1, 1, ANY, make_leaky, alpha, 0},
    {"Sigmoid", 1, 1, 1, ANY, make_sigmoid, none, 0},
    {"Tanh", 1, 1, 1, ANY, make_tanh, none, 0},
    {"Softmax", 1, 1, 1, IMAGES | ROWS, make_softmax, axis, 0},
    {"Flatten", 1, 1, 1, IMAGES | ROWS, make_flatten, axis, 0},
    {"Reshape", 5, 2, 2, IMAGES | ROWS, make_reshape, reshape, 0},
    {"Squeeze", 1, 1, 2, IMAGES, make_squeeze, axes, 0},
    {"Dropout", 1, 1, 3, ANY, make_dropout, dropout, GCONV_ONNX_AFTER_PAD | GCONV_ONNX_HAS_FURTHER},
    {"Identity", 1, 1, 1, ANY, make_nothing, none, GCONV_ONNX_AFTER_PAD},
    {"Sub", 7, 2, 2, IMAGES | ROWS, make_mean, none, 0},
    {"Div", 7, 2, 2, IMAGES | ROWS, make_deviation, none, 0},
    {"Constant", 1, 0, 0, 0, NULL, value, 0},
    {0},
};

/* The tables of operators: one for each kind of layers, then `others`. */
enum { TABLES = GCONV_EACH_LAYER_KIND(GCONV_COUNTED) + 1 };

static const gconv_onnx_operator *table_at(size_t i) {
  return i < TABLES - 1 ? gconv_layer_form_of((gconv_layer_kind)i)->operators : others;
}

/* Returns the row of a node's operator, or NULL. */
static const gconv_onnx_operator *find_operator(const gconv_onnx_node *n) {
  for (size_t i = 0; i < TABLES && n->type && gconv_onnx_is_standard(n); i++)
    for (const gconv_onnx_operator *o = table_at(i); o->type; o++)
      if (strcmp(o->type, n->type) == 0)
        return o;
  return NULL;
}

static bool is_read(const gconv_onnx_model *m, const gconv_onnx_operator *op) {
  return op && m->opset >= op->since;
}

/* ---- Unknown operators, all in one error ---- */

typedef struct unknown {
  const gconv_onnx_graph *graph;
  char text[800]; /* "MaxPool (node 'pool'), Concat (node 'c')" */
  size_t kinds;
} unknown;

/* Writes "MaxPool", "com.microsoft.FusedConv", or "Add of opset 6". */
static void name_operator(const gconv_onnx_graph *g, const gconv_onnx_node *n, char *text, size_t size) {
  const gconv_onnx_operator *op = find_operator(n);
  char *type = gconv_printable_copy(n->type ? n->type : "(no type)", SHOWN_BYTES);
  char *domain = gconv_printable_copy(n->domain ? n->domain : "", SHOWN_BYTES);
  snprintf(text, size, "%s%s%s", domain && *domain ? domain : "", domain && *domain ? "." : "", type ? type : "");
  size_t used = strlen(text);
  if (op && g->model->opset == 0)
    snprintf(text + used, size - used, " of an opset that the model does not say");
  else if (op)
    snprintf(text + used, size - used, " of opset %" PRIu64 " (read from %" PRIu64 " on)", g->model->opset, op->since);
  free(type);
  free(domain);
}

static gconv_status note_unknown(void *context, const gconv_onnx_node *n) {
  unknown *u = context;
  char operator[240], entry[400];
  const size_t room = sizeof u->text, used = strlen(u->text);
  if (is_read(u->graph->model, find_operator(n)))
    return GCONV_OK;
  name_operator(u->graph, n, operator, sizeof operator);
  char *name = gconv_printable_copy(n->name && *n->name    ? n->name
                                    : gconv_onnx_output(n) ? gconv_onnx_output(n)
                                                           : "",
                                    SHOWN_BYTES);
  snprintf(entry, sizeof entry, "%s (", operator);
  if (!strstr(u->text, entry)) {
    u->kinds++;
    if (used + strlen(entry) + SHOWN_BYTES + 12 < room)
      snprintf(u->text + used, room - used, "%s%snode '%s')", used > 0 ? ", " : "", entry, name ? name : "");
  }
  free(name);
  return GCONV_OK;
}

/* Lists the names of all operators that are read. */
static void list_operators(char *text, size_t size) {
  size_t used = 0;
  for (size_t i = 0; i < TABLES; i++)
    for (const gconv_onnx_operator *o = table_at(i); o->type && used < size; o++)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ", o->type);
}

static gconv_status check_operators(const gconv_onnx_graph *g) {
  unknown u = {.graph = g};
  char known[400];
  GCONV_TRY(gconv_onnx_model_follow(g->model, note_unknown, &u));
  if (u.kinds == 0)
    return GCONV_OK;
  list_operators(known, sizeof known);
  return gconv_fail(
      GCONV_UNSUPPORTED,
      "%s: the model is no network here, for it has %zu operator%s that no layer does: %s; what is read are %s; "
      "its Conv nodes are banks, as '%s:NAME'",
      g->model->file->path, u.kinds, u.kinds == 1 ? "" : "s", u.text, known, g->model->file->path);
}

/* ---- The chain ---- */

/* Fails unless the node's inputs, outputs and attributes are as the row of its operator says. */
static gconv_status check_node(const gconv_onnx_graph *g, const gconv_onnx_node *n, const gconv_onnx_operator *op) {
  static const char *const layouts[] = {[IMAGES] = "images, N x C x H x W",
                                        [ROWS] = "rows, N x features",
                                        [SQUEEZED] = "a list that lost its axes of size 1",
                                        [UNSAID] = "an input whose shape the model does not say"};
  if (n->input_count < op->least || n->input_count > op->most)
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has %d inputs, and the operator takes %d to %d", n->input_count,
                                op->least, op->most);
  GCONV_TRY(gconv_onnx_check_attributes(n, op->rules, g->model->opset));
  if (!op->make)
    return GCONV_OK;
  for (int i = 1; i < n->output_count && !(op->flags & GCONV_ONNX_HAS_FURTHER); i++)
    if (n->outputs[i] && *n->outputs[i])
      return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has a second output, '%.80s', as it has in training",
                                  n->outputs[i]);
  if (!(op->layouts & (unsigned)g->layout))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "gets %s, of which it makes what no layer does", layouts[g->layout]);
  return GCONV_OK;
}

static gconv_status take_node(void *context, const gconv_onnx_node *n) {
  gconv_onnx_graph *g = context;
  const gconv_onnx_operator *op = find_operator(n);
  if (!op->make)
    return check_node(g, n, op);
  bool takes = gconv_onnx_has_input(n, 0) && strcmp(n->inputs[0], g->at) == 0;
  takes = takes || ((op->flags & GCONV_ONNX_EITHER_INPUT) && gconv_onnx_has_input(n, 1) && strcmp(n->inputs[1], g->at) == 0);
  const char *output = gconv_onnx_output(n);
  if (!takes || !output)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "does not take what the node before it makes, so the model is no chain of layers");
  GCONV_TRY(check_node(g, n, op));
  if (g->padded && !(op->flags & GCONV_ONNX_AFTER_PAD))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "follows a Pad, which a network here has before a Conv alone");
  if (gconv_onnx_find_tensor(g->model, output) || gconv_onnx_is_input(g->model, output))
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE,
                                "is not valid: its output has the name of a tensor or input of the model");
  GCONV_TRY(op->make(g, n));
  free(g->at);
  g->at = strdup(output);
  return g->at ? GCONV_OK : gconv_onnx_no_memory(g);
}

/* ---- The model's input and output ---- */

static gconv_status find_input(gconv_onnx_graph *g) {
  const gconv_onnx_model *m = g->model;
  for (size_t i = 0; i < m->input_count; i++) {
    if (gconv_onnx_find_tensor(m, m->inputs[i].name))
      continue;
    if (g->input)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has several inputs, so it is no chain of layers", m->file->path);
    g->input = &m->inputs[i];
  }
  if (!g->input || !g->input->name || !*g->input->name)
    return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: it has no input", m->file->path);
  if (m->output_count != 1 || !m->outputs[0].name)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has %zu outputs, so it is no chain of layers", m->file->path,
                      m->output_count);
  return GCONV_OK;
}

/* Takes type and shape of the model's input. gconv computes in float32, whatever the type is. */
static gconv_status take_input(gconv_onnx_graph *g) {
  const gconv_onnx_value *v = g->input;
  const char *path = g->model->file->path;
  if (v->type != 0 && !gconv_onnx_is_floating(v->type))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the input of the model has %s numbers, which no network here takes", path,
                      v->type > 0 ? gconv_onnx_type_name(v->type) : "no");
  if (v->has_shape && v->dimensions != 2 && v->dimensions != 4)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: the input of the model has %zu dimensions: 4 are images, 2 are rows of a table", path,
                      v->dimensions);
  if (v->type > GCONV_ONNX_FLOAT)
    gconv_warn("%s: the model computes in %s; gconv does in float32", path, gconv_onnx_type_name(v->type));
  const bool images = v->dimensions == 4, rows = v->dimensions == 2;
  g->layout = images ? GCONV_ONNX_IMAGES : rows ? GCONV_ONNX_ROWS : GCONV_ONNX_UNSAID;
  g->batch = v->sizes[0];
  g->channels = v->sizes[1];
  g->height = images ? v->sizes[2] : rows;
  g->width = images ? v->sizes[3] : rows;
  g->network->channels = (int32_t)g->channels;
  g->network->height = g->height > 0 && g->width > 0 ? (int32_t)g->height : 0;
  g->network->width = g->height > 0 && g->width > 0 ? (int32_t)g->width : 0;
  g->at = strdup(v->name);
  g->first = strdup(v->name);
  return g->at && g->first ? GCONV_OK : gconv_onnx_no_memory(g);
}

gconv_status gconv_network_take_notes(gconv_bank_file *file, int64_t outputs, gconv_network *network) {
  const gconv_onnx_model *model = gconv_onnx_model_of(file);
  gconv_network noted = {0};
  const char *path = file->path;
  if (!model->notes)
    return GCONV_OK;
  gconv_status status = gconv_network_of_json(path, model->notes, &noted);
  if (status == GCONV_OK && noted.channels == network->channels &&
      (outputs == 0 || noted.class_count == 0 || (int64_t)noted.class_count == outputs)) {
    gconv_network_move_notes(&noted, network);
  } else if (status != GCONV_NO_MEMORY) {
    gconv_warn("%s: what gconv noted in the model does not fit it, and is left out", path);
    status = GCONV_OK;
  }
  gconv_network_free(&noted);
  return status;
}

static gconv_status read_chain(gconv_onnx_graph *g) {
  gconv_network *network = g->network;
  const char *path = g->model->file->path;
  GCONV_TRY(gconv_onnx_model_check(g->model));
  GCONV_TRY(check_operators(g));
  GCONV_TRY(find_input(g));
  GCONV_TRY(take_input(g));
  GCONV_TRY(gconv_onnx_model_follow(g->model, take_node, g));
  if (network->count == 0 || g->padded || strcmp(g->at, g->model->outputs[0].name) != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the nodes of the model do not lead from its input to its output in a chain",
                      path);
  if (network->channels == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model does not say how many channels its input has", path);
  return gconv_network_take_notes(g->model->file, g->channels, network);
}

gconv_status gconv_network_of_onnx(gconv_bank_file *file, gconv_network *network, bool *rows) {
  gconv_onnx_graph g = {.model = gconv_onnx_model_of(file), .network = network};
  gconv_status status = read_chain(&g);
  *rows = g.layout == GCONV_ONNX_ROWS;
  free(g.at);
  free(g.first);
  return status;
}

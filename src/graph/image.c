/* SPDX-License-Identifier: MIT */
#include "graph/image.h"
#include "base/memory.h"
#include "base/printable.h"
#include "graph/narrow.h"

#include <stdlib.h>
#include <string.h>

enum { INSERTED = 5, OPSET = 21 /* of the nodes that are inserted */, MOST_CHANNELS = 4, SHOWN_BYTES = 80 };
static const int64_t TO_LAST[4] = {0, 2, 3, 1}, TO_FIRST[4] = {0, 3, 1, 2}; /* of channels, by Transpose */

/* ---- The model's input ---- */

/* How the input of a graph holds an image. */
typedef struct entry {
  int32_t value;
  bool last;   /* N x H x W x C */
  float white; /* the level of white, if it takes integers; 0: it takes floats */
  int64_t channels, height, width;
} entry;

/* Fills `settings` as parse() fills those of a Transpose with these axes. */
static gconv_status make_perm(const gconv_node_kind *kind, const int64_t perm[4], void *settings) {
  char name[] = "perm";
  gconv_onnx_attribute attribute = {.name = name, .type = GCONV_ONNX_INTS};
  attribute.integers.count = 4;
  memcpy(attribute.integers.numbers, perm, 4 * sizeof *perm);
  gconv_onnx_node node = {.attributes = &attribute, .attribute_count = 1};
  return kind->parse(&node, kind, OPSET, settings);
}

/* Whether the node transposes by these axes. */
static bool transposes(const gconv_graph_node *node, const int64_t perm[4]) {
  if (strcmp(node->kind->name, "Transpose") != 0)
    return false;
  GCONV_FREED void *settings = calloc(1, node->kind->settings_bytes + 1);
  return settings && make_perm(node->kind, perm, settings) == GCONV_OK &&
         memcmp(settings, node->settings, node->kind->settings_bytes) == 0;
}

/* Returns whether all nodes that take a value are Transposes that move its channels from the last axis to the second. */
static bool is_moved(const gconv_graph *g, int32_t value) {
  size_t takers = 0;
  for (size_t n = 0; n < g->node_count; n++)
    for (int32_t i = 0; i < g->nodes[n].in_count; i++)
      if (g->nodes[n].in[i] == value) {
        takers++;
        if (!transposes(&g->nodes[n], TO_FIRST))
          return false;
      }
  return takers > 0;
}

static bool are_channels(int64_t size) {
  return size >= 1 && size <= MOST_CHANNELS;
}

/* Writes "'x', 'mask'": the names of the inputs that nodes take. Returns their count. */
static size_t list_inputs(const gconv_graph *g, char *text, size_t size) {
  size_t count = 0;
  *text = '\0';
  for (size_t i = 0; i < g->input_count; i++) {
    const gconv_graph_value *v = &g->values[g->inputs[i]];
    GCONV_FREED char *name = gconv_printable_copy(v->name, SHOWN_BYTES);
    const size_t used = strlen(text);
    if (v->taken && used + SHOWN_BYTES + 6 < size)
      snprintf(text + used, size - used, "%s'%s'", used > 0 ? ", " : "", name ? name : "");
    count += v->taken;
  }
  return count;
}

static gconv_status fail_input(const gconv_graph *g, const gconv_graph_value *v) {
  char shape[200];
  GCONV_FREED char *name = gconv_printable_copy(v->name, SHOWN_BYTES);
  gconv_tensor_shape_text(&v->tensor, shape, sizeof shape);
  return gconv_fail(
      GCONV_UNSUPPORTED,
      "%s: the input '%s' of the model takes %s of %s (0: any size): images are N x C x H x W or N x H x W x C "
      "of float32, float64, uint8 or uint16. Python's gconv.Network takes arrays of any shape",
      g->path, name ? name : "", gconv_onnx_type_name(gconv_tensor_type_in_model(&v->tensor)), shape);
}

static gconv_status find_entry(const gconv_graph *g, entry *e) {
  char names[400];
  const size_t count = list_inputs(g, names, sizeof names);
  if (count != 1)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: the model has %zu inputs%s%s: a network of images takes one. Python's gconv.Network takes an "
                      "array for each",
                      g->path, count, count > 0 ? ", " : " that its outputs need", names);
  for (size_t i = 0; i < g->input_count; i++)
    if (g->values[g->inputs[i]].taken)
      e->value = g->inputs[i];
  const gconv_graph_value *v = &g->values[e->value];
  const gconv_tensor *t = &v->tensor;
  e->white = t->type == GCONV_TENSOR_U8 ? 255 : t->type == GCONV_TENSOR_U16 ? 65535 : 0;
  if ((!gconv_tensor_type_is_real(t->type) && e->white == 0) || (v->said && t->axes != 4) ||
      gconv_narrow_in_byte(t->narrow) > 0)
    return fail_input(g, v);
  if (v->said && t->shape[0] > 1)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model takes %lld images at a time: it must take one, or any number",
                      g->path, (long long)t->shape[0]);
  e->last = v->said && !are_channels(t->shape[1]) && (are_channels(t->shape[3]) || is_moved(g, e->value));
  e->channels = v->said ? t->shape[e->last ? 3 : 1] : 0;
  e->height = v->said ? t->shape[e->last ? 1 : 2] : 0;
  e->width = v->said ? t->shape[e->last ? 2 : 3] : 0;
  return GCONV_OK;
}

gconv_status gconv_graph_image_size(const gconv_graph *graph, int32_t *channels, int32_t *height, int32_t *width,
                                    bool *channels_last) {
  entry e = {0};
  GCONV_TRY(find_entry(graph, &e));
  *channels = (int32_t)e.channels;
  *height = (int32_t)e.height;
  *width = (int32_t)e.width;
  *channels_last = e.last;
  return GCONV_OK;
}

float gconv_graph_white(const gconv_graph *graph) {
  entry e = {0};
  return find_entry(graph, &e) == GCONV_OK ? e.white : 0;
}

/* ---- A graph that shares all but its lists with another ---- */

/* The graph that is made. All memory that it does not share is in `owned`. */
typedef struct image_graph {
  gconv_graph graph; /* first, so that a pointer to it is one to the whole */
  void **owned;
  size_t owned_count;
  size_t room; /* places for nodes before those of the model */
} image_graph;

static gconv_status own(image_graph *m, size_t bytes, const void *contents, void *memory) {
  GCONV_GROW(m->owned, m->owned_count, "%s: no memory for a graph", m->graph.path);
  void *made = calloc(1, bytes + 1);
  GCONV_NEED_MEMORY(made, "%s: no memory for a graph", m->graph.path);
  m->owned[m->owned_count++] = made;
  if (contents)
    memcpy(made, contents, bytes);
  *(void **)memory = made;
  return GCONV_OK;
}

void gconv_graph_free_image(gconv_graph *made) {
  image_graph *m = (image_graph *)made;
  if (!m)
    return;
  for (size_t i = 0; i < m->owned_count; i++)
    free(m->owned[i]);
  free(m->owned);
  free(m);
}

/* Copies the lists of values and nodes, with room for those that are inserted. */
static gconv_status copy_lists(image_graph *m, const gconv_graph *g) {
  m->graph = *g;
  GCONV_TRY(own(m, (g->value_count + 2 * INSERTED) * sizeof *g->values, NULL, &m->graph.values));
  GCONV_TRY(own(m, (g->node_count + 2 * INSERTED + g->output_count) * sizeof *g->nodes, NULL, &m->graph.nodes));
  memcpy(m->graph.values, g->values, g->value_count * sizeof *g->values);
  m->room = INSERTED;
  memcpy(m->graph.nodes + INSERTED, g->nodes, g->node_count * sizeof *g->nodes);
  GCONV_TRY(own(m, sizeof(int32_t), NULL, &m->graph.inputs));
  return own(m, g->output_count * sizeof *g->outputs, g->outputs, &m->graph.outputs);
}

static int32_t add_value(image_graph *m, const char *name, gconv_tensor tensor) {
  m->graph.values[m->graph.value_count] =
      (gconv_graph_value){.name = (char *)name, .tensor = tensor, .constant = tensor.data, .taken = true, .maker = -1};
  return (int32_t)m->graph.value_count++;
}

/* Fills *node: it makes value `out` of value `in`, and of `more` unless that is -1. */
static gconv_status fill_node(image_graph *m, const char *type, int32_t in, int32_t more, int32_t out,
                              gconv_graph_node *node) {
  static char name[] = "the image";
  const gconv_node_kind *kind = gconv_node_kind_find(type, OPSET);
  *node = (gconv_graph_node){.kind = kind, .name = name, .in_count = more < 0 ? 1 : 2, .out_count = 1};
  GCONV_TRY(own(m, 2 * sizeof *node->in, (int32_t[]){in, more}, &node->in));
  GCONV_TRY(own(m, sizeof *node->out, &out, &node->out));
  return own(m, kind->settings_bytes, NULL, &node->settings);
}

/* Adds a node before those of the model and those added so far. */
static gconv_status put_first(image_graph *m, const char *type, int32_t in, int32_t more, int32_t out,
                              gconv_graph_node **node) {
  *node = &m->graph.nodes[--m->room];
  return fill_node(m, type, in, more, out, *node);
}

static gconv_status put_transpose(image_graph *m, int32_t in, int32_t out) {
  gconv_graph_node *node;
  GCONV_TRY(put_first(m, "Transpose", in, -1, out, &node));
  return make_perm(node->kind, TO_LAST, node->settings);
}

static gconv_status put_cast(image_graph *m, gconv_tensor_type type, int32_t in, int32_t out) {
  char name[] = "to";
  gconv_onnx_attribute attribute = {.name = name, .type = GCONV_ONNX_AN_INT};
  attribute.integers.numbers[0] = type;
  attribute.integers.count = 1;
  const gconv_onnx_node made = {.attributes = &attribute, .attribute_count = 1};
  gconv_graph_node *node;
  GCONV_TRY(put_first(m, "Cast", in, -1, out, &node));
  return node->kind->parse(&made, node->kind, OPSET, node->settings);
}

static gconv_status add_number(image_graph *m, float number, int32_t *value) {
  gconv_tensor t = {.type = GCONV_TENSOR_F32};
  GCONV_TRY(own(m, sizeof number, &number, &t.data));
  *value = add_value(m, "a number", t);
  return GCONV_OK;
}

/* Adds nodes that convert numbers 0 .. 1 to levels 0 .. white. */
static gconv_status put_levels(image_graph *m, float white, gconv_tensor_type type, int32_t in, int32_t out) {
  const gconv_tensor unknown = {.type = GCONV_TENSOR_F32};
  int32_t made[3], numbers[2];
  gconv_graph_node *node;
  for (int i = 0; i < 3; i++)
    made[i] = add_value(m, "levels", unknown);
  GCONV_TRY(add_number(m, 0, &numbers[0]));
  GCONV_TRY(add_number(m, white, &numbers[1]));
  GCONV_TRY(put_cast(m, type, made[2], out));
  GCONV_TRY(put_first(m, "Round", made[1], -1, made[2], &node));
  GCONV_TRY(put_first(m, "Clip", made[0], numbers[0], made[1], &node));
  node->in_count = 3;
  GCONV_TRY(own(m, 3 * sizeof *node->in, (int32_t[]){made[0], numbers[0], numbers[1]}, &node->in));
  return put_first(m, "Mul", in, numbers[1], made[0], &node);
}

/* Replaces a node by an Identity of `in`. */
static gconv_status pass_on(image_graph *m, gconv_graph_node *node, int32_t in) {
  const int32_t out = node->out[0];
  return fill_node(m, "Identity", in, -1, out, node);
}

/* ---- Inputs and outputs of images ---- */

/* Inserts nodes that convert the image to the model's input. Transposes that would undo the conversion become Identities. */
static gconv_status convert_input(image_graph *m, const entry *e) {
  const gconv_tensor shape = {.type = GCONV_TENSOR_F32,
                              .axes = 4,
                              .shape = {m->graph.values[e->value].tensor.shape[0], e->channels, e->height, e->width}};
  gconv_graph_node *nodes = m->graph.nodes + INSERTED;
  const gconv_tensor_type type = m->graph.values[e->value].tensor.type;
  int32_t first = e->value, image = e->value;
  if (e->last) {
    first = add_value(m, m->graph.values[e->value].name, (gconv_tensor){.type = GCONV_TENSOR_F32});
    for (size_t i = 0; i < m->graph.node_count; i++)
      if (nodes[i].in_count == 1 && nodes[i].in[0] == e->value && transposes(&nodes[i], TO_FIRST))
        GCONV_TRY(pass_on(m, &nodes[i], first));
    GCONV_TRY(put_transpose(m, first, e->value));
    image = first;
  }
  if (type != GCONV_TENSOR_F32) {
    image = add_value(m, m->graph.values[e->value].name, shape);
    GCONV_TRY(e->white > 0 ? put_levels(m, e->white, type, image, first) : put_cast(m, type, image, first));
  }
  gconv_graph_value *v = &m->graph.values[image];
  if (image != e->value) {
    m->graph.values[e->value].input = false;
    v->tensor = shape;
    v->said = true;
    v->input = true;
  }
  m->graph.inputs[0] = image;
  m->graph.input_count = 1;
  return GCONV_OK;
}

/* Finds the node that makes a value. Skips element-wise nodes with one input, if nothing else takes that input. */
static gconv_graph_node *find_mover(const image_graph *m, int32_t value) {
  gconv_graph_node *nodes = m->graph.nodes + INSERTED;
  for (;;) {
    const int32_t maker = m->graph.values[value].maker;
    gconv_graph_node *node = maker >= 0 ? &nodes[maker] : NULL;
    size_t takers = 0;
    if (!node || node->kind->reach != GCONV_REACH_POINT || node->in_count != 1)
      return node;
    value = node->in[0];
    for (size_t i = 0; i < m->graph.node_count; i++)
      for (int32_t k = 0; k < nodes[i].in_count; k++)
        takers += nodes[i].in[k] == value;
    for (size_t i = 0; i < m->graph.output_count; i++)
      takers += m->graph.outputs[i] == value;
    if (takers != 1)
      return NULL;
  }
}

/* If the model ends by a Transpose that moves the channels of an output to the last axis, makes it an Identity. */
static gconv_status convert_outputs(image_graph *m) {
  for (size_t i = 0; i < m->graph.output_count; i++) {
    gconv_graph_node *node = find_mover(m, m->graph.outputs[i]);
    if (node && transposes(node, TO_LAST))
      GCONV_TRY(pass_on(m, node, node->in[0]));
  }
  return GCONV_OK;
}

/* Keeps one output. */
static gconv_status choose_output(image_graph *m, const char *name) {
  char names[400] = "";
  for (size_t i = 0; i < m->graph.output_count; i++) {
    const int32_t value = m->graph.outputs[i];
    GCONV_FREED char *shown = gconv_printable_copy(m->graph.values[value].name, SHOWN_BYTES);
    const size_t used = strlen(names);
    if (strcmp(m->graph.values[value].name, name) == 0) {
      m->graph.outputs[0] = value;
      m->graph.output_count = 1;
      return GCONV_OK;
    }
    if (used + SHOWN_BYTES + 6 < sizeof names)
      snprintf(names + used, sizeof names - used, "%s'%s'", i > 0 ? ", " : "", shown ? shown : "");
  }
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the model has no output '%.80s', but %s", m->graph.path, name, names);
}

/* Closes the gap in the list between the inserted nodes and the nodes of the model. */
static void close_gap(image_graph *m) {
  const size_t inserted = INSERTED - m->room;
  gconv_graph *g = &m->graph;
  for (size_t i = 0; i < g->value_count; i++)
    g->values[i].maker += g->values[i].maker >= 0 ? (int32_t)inserted : 0;
  g->nodes += m->room;
  g->node_count += inserted;
  for (size_t i = 0; i < inserted; i++)
    g->values[g->nodes[i].out[0]].maker = (int32_t)i;
}

static gconv_status fill(image_graph *m, const gconv_graph *graph, const char *output) {
  entry e = {0};
  GCONV_TRY(find_entry(graph, &e));
  GCONV_TRY(copy_lists(m, graph));
  if (output)
    GCONV_TRY(choose_output(m, output));
  GCONV_TRY(convert_input(m, &e));
  if (e.last)
    GCONV_TRY(convert_outputs(m));
  close_gap(m);
  return GCONV_OK;
}

gconv_status gconv_graph_make_image(const gconv_graph *graph, const char *output, gconv_graph **made) {
  image_graph *m;
  GCONV_NEW(m, 1, "%s: no memory for a graph", graph->path);
  const gconv_status status = fill(m, graph, output);
  if (status == GCONV_OK)
    *made = &m->graph;
  else
    gconv_graph_free_image(&m->graph);
  return status;
}

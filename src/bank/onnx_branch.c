/* SPDX-License-Identifier: MIT */
/* Graphs within nodes of ONNX models: the branches of If. They may use values of the graph around them. The names of their
 * own values get a prefix, because both branches may use the same names. */
#include "bank/onnx_function.h"
#include "base/memory.h"

#include <string.h>

enum { NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12, SPARSE = 15 }; /* GraphProto */

typedef struct gconv_onnx_branch {
  const gconv_onnx_model *model;
  const gconv_onnx_node *node;
  const char *attribute, *prefix;
  const gconv_onnx_branch_taker *take;
  size_t *called;
  char **names; /* owned: the names of the branch's own values, sorted */
  size_t count;
  const struct gconv_onnx_branch *outer; /* the branch around it; NULL: none */
  int depth;                             /* how many branches are around it */
} branch;

/* ---- Names ---- */

static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Moves *name to the names of the branch's own values. */
static gconv_status keep(branch *b, char **name) {
  if (!*name || !**name)
    return GCONV_OK;
  GCONV_GROW(b->names, b->count, "%s: no memory for its nodes", b->model->file->path);
  b->names[b->count++] = gconv_taken(name);
  return GCONV_OK;
}

static gconv_status keep_outputs(branch *b, gconv_message_reader message) {
  GCONV_ENDED_BY(gconv_onnx_node_free) gconv_onnx_node n = {.file = b->model->file};
  GCONV_TRY(gconv_onnx_node_read(message, &n));
  for (int i = 0; i < n.output_count; i++)
    GCONV_TRY(keep(b, &n.outputs[i]));
  return GCONV_OK;
}

static gconv_status collect(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  branch *b = context;
  gconv_onnx_tensor tensor = {0};
  if (part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  if (part->number == INPUT || part->number == SPARSE)
    return gconv_onnx_fail_node(b->node, GCONV_UNSUPPORTED, "has a branch with %s, which is not read",
                                part->number == INPUT ? "inputs" : "sparse tensors");
  if (part->number == NODE)
    return keep_outputs(b, gconv_message_inside(inside, part));
  if (part->number != INITIALIZER)
    return GCONV_OK;
  gconv_status status = gconv_onnx_tensor_find(inside, part, &tensor);
  GCONV_THEN(status, keep(b, &tensor.name));
  free(tensor.name);
  return status;
}

/* Puts the prefix before a name if the value belongs to this branch, or to a branch around it. *name is owned. */
static gconv_status rename_value(const branch *b, char **name) {
  while (b && *name && !(b->names && bsearch(name, b->names, b->count, sizeof *b->names, compare)))
    b = b->outer;
  if (!b || !*name || !**name)
    return GCONV_OK;
  char *renamed = gconv_format_text("%s/%s/%s", b->prefix, b->attribute, *name);
  GCONV_NEED_MEMORY(renamed, "%s: no memory for its nodes", b->model->file->path);
  free(*name);
  *name = renamed;
  return GCONV_OK;
}

/* ---- Contents ---- */

static gconv_status take_node(const branch *b, gconv_message_reader message) {
  GCONV_ENDED_BY(gconv_onnx_node_free) gconv_onnx_node n = {.file = b->model->file, .branch = b};
  GCONV_TRY(gconv_onnx_node_read(message, &n));
  for (int i = 0; i < n.input_count; i++)
    GCONV_TRY(rename_value(b, &n.inputs[i]));
  for (int i = 0; i < n.output_count; i++)
    GCONV_TRY(rename_value(b, &n.outputs[i]));
  return gconv_onnx_model_give(b->model, &n, b->take->node, b->take->context, b->called);
}

static gconv_status take_tensor(const branch *b, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_tensor tensor = {0};
  gconv_status status = gconv_onnx_tensor_find(inside, part, &tensor);
  GCONV_THEN(status, rename_value(b, &tensor.name));
  if (status == GCONV_OK && *tensor.name && b->take->tensor)
    status = b->take->tensor(b->take->context, &tensor);
  free(tensor.name);
  return status;
}

static gconv_status take_name(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  return part->number == 1 ? gconv_message_name(inside, part, context) : GCONV_OK; /* ValueInfoProto.name */
}

static gconv_status take_output(const branch *b, gconv_message_reader message) {
  GCONV_FREED char *name = NULL;
  GCONV_TRY(gconv_message_each(message, take_name, &name));
  GCONV_TRY(rename_value(b, &name));
  return b->take->output ? b->take->output(b->take->context, name ? name : "") : GCONV_OK;
}

static gconv_status take_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  const branch *b = context;
  if (part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  return part->number == NODE          ? take_node(b, gconv_message_inside(inside, part))
         : part->number == INITIALIZER ? take_tensor(b, inside, part)
         : part->number == OUTPUT      ? take_output(b, gconv_message_inside(inside, part))
                                       : GCONV_OK;
}

gconv_status gconv_onnx_branch_follow(const gconv_onnx_model *model, const gconv_onnx_node *node, const char *attribute,
                                      const gconv_onnx_branch_taker *take, size_t *called) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(node, attribute);
  branch b = {.model = model, .node = node, .attribute = attribute, .take = take, .called = called, .outer = node->branch};
  b.depth = b.outer ? b.outer->depth + 1 : 0;
  if (b.depth == GCONV_ONNX_MOST_DEPTH)
    return gconv_onnx_fail_node(node, GCONV_TOO_LARGE, "is in branches within each other: at most %d deep",
                                GCONV_ONNX_MOST_DEPTH);
  if (!a || a->graph_end == 0)
    return gconv_onnx_fail_node(node, GCONV_BAD_FILE, "has no graph as its attribute '%s'", attribute);
  for (int i = 0; i < node->output_count && !b.prefix; i++)
    b.prefix = node->outputs[i] && *node->outputs[i] ? node->outputs[i] : NULL;
  if (!b.prefix)
    return GCONV_OK;
  const gconv_message_reader graph = {&model->file->source, a->graph_at, a->graph_end};
  gconv_status status = gconv_message_each(graph, collect, &b);
  if (b.count > 0)
    qsort(b.names, b.count, sizeof *b.names, compare);
  GCONV_THEN(status, gconv_message_each(graph, take_field, &b));
  for (size_t i = 0; i < b.count; i++)
    free(b.names[i]);
  free(b.names);
  return status;
}

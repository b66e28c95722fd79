/* SPDX-License-Identifier: MIT */
/* ONNX models (onnx.proto): the Conv nodes of the graph, with their weights, biases, strides, pads, dilations and groups.
 * The file is read field by field, and numbers are read only for the chosen node, so models may be of any size. Nodes within
 * control flow and functions are ignored. */
#include "bank/onnx.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_GRAPH = 7 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_I = 3, ATTRIBUTE_S = 4, ATTRIBUTE_T = 5, ATTRIBUTE_INTS = 8 };
enum { X, WEIGHTS, BIASES, INPUTS }; /* of a Conv node */

/* ---- The model ---- */

typedef struct conv {
  char *name, *output, *input[INPUTS]; /* owned; each may be NULL */
  uint64_t at, end;                    /* of its message in the file */
} conv;

typedef struct model {
  gconv_onnx_tensor *tensors; /* initialisers and Constants; sorted by name when all are known */
  size_t tensor_count, tensor_capacity;
  conv *convs; /* one for each entry of the file */
  size_t conv_count, conv_capacity;
  size_t foreign; /* nodes that convolve in a way that is not supported */
} model;

/* Makes room in the list for one more item of `bytes`, zeroed. Returns NULL without memory; the list then stays as it was.
 */
static void *grow(void *list, size_t count, size_t *capacity, size_t bytes) {
  if (count == *capacity) {
    size_t larger = *capacity == 0 ? 16 : 2 * *capacity;
    list = realloc(list, larger * bytes);
    if (!list) {
      gconv_fail(GCONV_NO_MEMORY, "no memory for a list of %zu nodes", larger);
      return NULL;
    }
    *capacity = larger;
  }
  memset((char *)list + count * bytes, 0, bytes);
  return list;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const gconv_onnx_tensor *)a)->name, ((const gconv_onnx_tensor *)b)->name);
}

static const gconv_onnx_tensor *find_tensor(const model *m, const char *name) {
  gconv_onnx_tensor key = {.name = (char *)name};
  return name && *name && m->tensors ? bsearch(&key, m->tensors, m->tensor_count, sizeof key, compare_names) : NULL;
}

/* ---- Reading the graph ---- */

static gconv_status add_tensor(gconv_bank_file *file, const gconv_message_reader *message, const gconv_field_value *field,
                               const char *name) {
  model *m = file->state;
  gconv_onnx_tensor *t = grow(m->tensors, m->tensor_count, &m->tensor_capacity, sizeof *t);
  if (!t)
    return GCONV_NO_MEMORY;
  m->tensors = t;
  t += m->tensor_count++;
  GCONV_TRY(gconv_onnx_tensor_find(message, field, t));
  if (!name)
    return GCONV_OK;
  free(t->name);
  t->name = strdup(name);
  return t->name ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its names", file->path);
}

static gconv_status read_node_field(const gconv_message_reader *inside, const gconv_field_value *part, conv *c, int *input) {
  switch (part->number) {
  case NODE_INPUT:
    if (*input == INPUTS)
      return GCONV_OK;
    return gconv_message_text(inside, part, &c->input[(*input)++]);
  case NODE_OUTPUT:
    return c->output ? GCONV_OK : gconv_message_text(inside, part, &c->output);
  case NODE_NAME:
    return gconv_message_text(inside, part, &c->name);
  default:
    return GCONV_OK;
  }
}

static gconv_status add_conv(gconv_bank_file *file, gconv_message_reader inside) {
  model *m = file->state;
  gconv_field_value part;
  int input = 0;
  conv *c = grow(m->convs, m->conv_count, &m->conv_capacity, sizeof *c);
  if (!c)
    return GCONV_NO_MEMORY;
  m->convs = c;
  c += m->conv_count++;
  c->at = inside.at;
  c->end = inside.end;
  for (bool more = true;;) {
    GCONV_TRY(gconv_message_next(&inside, &part, &more));
    if (!more)
      return GCONV_OK;
    GCONV_TRY(read_node_field(&inside, &part, c, &input));
  }
}

static gconv_status add_attribute_tensor(gconv_bank_file *file, gconv_message_reader inside, const char *name) {
  gconv_field_value part;
  for (bool more = true;;) {
    GCONV_TRY(gconv_message_next(&inside, &part, &more));
    if (!more)
      return GCONV_OK;
    if (part.number == ATTRIBUTE_T && part.wire == GCONV_WIRE_BYTES)
      GCONV_TRY(add_tensor(file, &inside, &part, name));
  }
}

/* Adds the tensors of a Constant node, whose output is called `name`. If `name` is NULL, returns that name, for free(). */
static gconv_status walk_constant(gconv_bank_file *file, gconv_message_reader inside, const char *name, char **output) {
  gconv_field_value part;
  for (bool more = true;;) {
    GCONV_TRY(gconv_message_next(&inside, &part, &more));
    if (!more)
      return GCONV_OK;
    if (!name && part.number == NODE_OUTPUT)
      GCONV_TRY(gconv_message_text(&inside, &part, output));
    if (name && part.number == NODE_ATTRIBUTE && part.wire == GCONV_WIRE_BYTES)
      GCONV_TRY(add_attribute_tensor(file, gconv_message_inside(&inside, &part), name));
  }
}

/* Fields may be in any order, so the node is read twice: first for the name, then for the value. */
static gconv_status add_constant(gconv_bank_file *file, gconv_message_reader inside) {
  char *output = NULL;
  gconv_status status = walk_constant(file, inside, NULL, &output);
  if (status == GCONV_OK && output)
    status = walk_constant(file, inside, output, NULL);
  free(output);
  return status;
}

/* Reads op_type and domain, for free(). */
static gconv_status read_type(gconv_message_reader inside, char **type, char **domain) {
  gconv_field_value part;
  for (bool more = true;;) {
    GCONV_TRY(gconv_message_next(&inside, &part, &more));
    if (!more)
      return GCONV_OK;
    if (part.number == NODE_OP_TYPE)
      GCONV_TRY(gconv_message_text(&inside, &part, type));
    else if (part.number == NODE_DOMAIN)
      GCONV_TRY(gconv_message_text(&inside, &part, domain));
  }
}

static gconv_status read_node(gconv_bank_file *file, gconv_message_reader inside) {
  model *m = file->state;
  char *type = NULL, *domain = NULL;
  gconv_status status = read_type(inside, &type, &domain);
  bool standard = !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
  if (status == GCONV_OK && type && standard && strcmp(type, "Conv") == 0)
    status = add_conv(file, inside);
  else if (status == GCONV_OK && type && standard && strcmp(type, "Constant") == 0)
    status = add_constant(file, inside);
  else
    m->foreign += type && strstr(type, "Conv");
  free(type);
  free(domain);
  return status;
}

static gconv_status read_graph(gconv_bank_file *file, gconv_message_reader inside) {
  gconv_field_value part;
  for (bool more = true;;) {
    GCONV_TRY(gconv_message_next(&inside, &part, &more));
    if (!more)
      return GCONV_OK;
    if (part.number == GRAPH_NODE && part.wire == GCONV_WIRE_BYTES)
      GCONV_TRY(read_node(file, gconv_message_inside(&inside, &part)));
    else if (part.number == GRAPH_INITIALIZER && part.wire == GCONV_WIRE_BYTES)
      GCONV_TRY(add_tensor(file, &inside, &part, NULL));
  }
}

static gconv_status read_model(gconv_bank_file *file) {
  gconv_message_reader inside = {&file->source, 0, file->source.size};
  gconv_field_value part;
  bool graph = false;
  for (bool more = true;;) {
    GCONV_TRY(gconv_message_next(&inside, &part, &more));
    if (!more)
      break;
    if (part.number != MODEL_GRAPH || part.wire != GCONV_WIRE_BYTES)
      continue;
    graph = true;
    GCONV_TRY(read_graph(file, gconv_message_inside(&inside, &part)));
  }
  return graph ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: it has no graph", file->path);
}

/* ---- Entries ---- */

static const char *find_obstacle(const gconv_onnx_tensor *weights) {
  uint64_t shape[GCONV_BANK_DIMENSIONS];
  if (!weights)
    return "takes its weights from an input, or from what the model computes: only initialisers and Constants are read";
  for (int i = 0; i < GCONV_BANK_DIMENSIONS; i++)
    shape[i] = weights->shape[i] > 0 ? (uint64_t)weights->shape[i] : 0;
  const char *obstacle = gconv_bank_shape_obstacle((int32_t)weights->dimensions, shape);
  return obstacle ? obstacle
         : gconv_onnx_is_floating(weights)
             ? NULL
             : "has weights of a type that is not read: they are to be float, double, float16 or "
               "bfloat16";
}

/* A node is known by its name, its output, and its weights. */
static bool name_entry(const conv *c, gconv_bank_entry *entry) {
  const char *names[3] = {c->name, c->output, c->input[WEIGHTS]};
  char *copies[3] = {NULL, NULL, NULL};
  int count = 0;
  for (int i = 0; i < 3; i++)
    if (names[i] && *names[i] && !(copies[count++] = gconv_bank_printable(names[i], strlen(names[i]))))
      break;
  entry->name = count > 0 ? copies[0] : strdup("");
  entry->other[0] = copies[1];
  entry->other[1] = copies[2];
  return entry->name && (count < 2 || copies[count - 1]);
}

static gconv_status add_entry(gconv_bank_file *file, const conv *c) {
  const model *m = file->state;
  const gconv_onnx_tensor *weights = find_tensor(m, c->input[WEIGHTS]);
  gconv_bank_entry *entry;
  GCONV_TRY(gconv_bank_file_add(file, &entry));
  if (!name_entry(c, entry))
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its names", file->path);
  entry->kind = "Conv";
  entry->obstacle = find_obstacle(weights);
  if (!weights)
    return GCONV_OK;
  snprintf(entry->type, sizeof entry->type, "%s", gconv_onnx_type_name(weights->type));
  entry->dimensions = weights->dimensions < INT32_MAX ? (int32_t)weights->dimensions : INT32_MAX;
  for (size_t i = 0; i < weights->dimensions && i < GCONV_BANK_DIMENSIONS; i++)
    entry->shape[i] = weights->shape[i] > 0 ? (uint64_t)weights->shape[i] : 0;
  return GCONV_OK;
}

static gconv_status check_names(const gconv_bank_file *file, const model *m) {
  for (size_t i = 1; i < m->tensor_count; i++)
    if (*m->tensors[i].name && compare_names(&m->tensors[i - 1], &m->tensors[i]) == 0)
      return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: two tensors are called '%.80s'", file->path,
                        m->tensors[i].name);
  return GCONV_OK;
}

static gconv_status open_onnx(gconv_bank_file *file) {
  model *m = calloc(1, sizeof *m);
  file->state = m;
  if (!m)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a model", file->path);
  GCONV_TRY(read_model(file));
  if (m->tensor_count > 0)
    qsort(m->tensors, m->tensor_count, sizeof *m->tensors, compare_names);
  GCONV_TRY(check_names(file, m));
  for (size_t i = 0; i < m->conv_count; i++)
    GCONV_TRY(add_entry(file, &m->convs[i]));
  if (m->conv_count > 0)
    return GCONV_OK;
  return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has no Conv node%s", file->path,
                    m->foreign > 0 ? ", but others, transposed, fused or quantised, which are not read: export it before "
                                     "they are made"
                                   : "");
}

static void close_onnx(gconv_bank_file *file) {
  model *m = file->state;
  if (!m)
    return;
  for (size_t i = 0; i < m->tensor_count; i++)
    free(m->tensors[i].name);
  for (size_t i = 0; i < m->conv_count; i++) {
    free(m->convs[i].name);
    free(m->convs[i].output);
    for (int j = 0; j < INPUTS; j++)
      free(m->convs[i].input[j]);
  }
  free(m->tensors);
  free(m->convs);
  free(m);
}

/* ---- Attributes: how the node is applied ---- */

typedef enum key { STRIDES, PADS, DILATIONS, KERNEL_SHAPE, GROUP, AUTO_PAD, KEYS } key;
static const struct {
  const char *name;
  size_t count; /* of its integers, for two dimensions */
} keys[KEYS] = {{"strides", 2}, {"pads", 4}, {"dilations", 2}, {"kernel_shape", 2}, {"group", 1}, {"auto_pad", 0}};

/* The content of one attribute. Zero-initialise; free the texts. */
typedef struct attribute {
  char *name, *text;
  int64_t integers[4];
  size_t count;
} attribute;

static gconv_status read_attribute(gconv_message_reader inside, attribute *a) {
  gconv_field_value part;
  for (bool more = true;;) {
    GCONV_TRY(gconv_message_next(&inside, &part, &more));
    if (!more)
      return GCONV_OK;
    if (part.number == ATTRIBUTE_NAME)
      GCONV_TRY(gconv_message_text(&inside, &part, &a->name));
    else if (part.number == ATTRIBUTE_S)
      GCONV_TRY(gconv_message_text(&inside, &part, &a->text));
    else if (part.number == ATTRIBUTE_I || part.number == ATTRIBUTE_INTS)
      GCONV_TRY(gconv_message_integers(&inside, &part, 4, a->integers, &a->count));
  }
}

static gconv_status fail_attribute(const gconv_bank_file *file, const gconv_bank *bank, const char *name,
                                   const char *wrong) {
  return gconv_fail(GCONV_BAD_FILE, "%s: '%s': its attribute '%s' %s", file->path, bank->name, name, wrong);
}

static gconv_status take_auto_pad(const gconv_bank_file *file, const char *text, gconv_bank *bank) {
  bank->same_upper = strcmp(text, "SAME_UPPER") == 0;
  bank->same_lower = strcmp(text, "SAME_LOWER") == 0;
  if (bank->same_upper || bank->same_lower || strcmp(text, "NOTSET") == 0 || strcmp(text, "VALID") == 0)
    return GCONV_OK;
  return fail_attribute(file, bank, "auto_pad", "is none of NOTSET, SAME_UPPER, SAME_LOWER and VALID");
}

static gconv_status take_kernel_shape(const gconv_bank_file *file, const int32_t *value, const gconv_bank *bank) {
  if (value[0] == bank->rows && value[1] == bank->columns)
    return GCONV_OK;
  return fail_attribute(file, bank, "kernel_shape", "is not the size of its weights");
}

static gconv_status take_attribute(const gconv_bank_file *file, const attribute *a, bool *auto_pad, gconv_bank *bank) {
  int which = 0;
  int32_t value[4] = {0};
  while (which < KEYS && (!a->name || strcmp(a->name, keys[which].name) != 0))
    which++;
  if (which == KEYS)
    return GCONV_OK;
  if (which == AUTO_PAD) {
    *auto_pad = a->text && strcmp(a->text, "NOTSET") != 0;
    return take_auto_pad(file, a->text ? a->text : "", bank);
  }
  if (a->count != keys[which].count)
    return fail_attribute(file, bank, a->name, "has not as many numbers as two dimensions need");
  for (size_t i = 0; i < a->count; i++) {
    if (a->integers[i] < 0 || a->integers[i] > INT32_MAX)
      return fail_attribute(file, bank, a->name, "is negative, or too large");
    value[i] = (int32_t)a->integers[i];
  }
  switch ((key)which) {
  case STRIDES:
    bank->stride_y = value[0], bank->stride_x = value[1];
    break;
  case DILATIONS:
    bank->dilation_y = value[0], bank->dilation_x = value[1];
    break;
  case PADS: /* first all beginnings, then all ends */
    bank->pad_top = value[0], bank->pad_left = value[1], bank->pad_bottom = value[2], bank->pad_right = value[3];
    break;
  case GROUP:
    bank->groups = value[0];
    break;
  default:
    return take_kernel_shape(file, value, bank);
  }
  return GCONV_OK;
}

static gconv_status read_one_attribute(gconv_bank_file *file, gconv_message_reader inside, bool *auto_pad,
                                       gconv_bank *bank) {
  attribute a = {0};
  gconv_status status = read_attribute(inside, &a);
  if (status == GCONV_OK)
    status = take_attribute(file, &a, auto_pad, bank);
  free(a.name);
  free(a.text);
  return status;
}

static gconv_status read_geometry(gconv_bank_file *file, const conv *c, gconv_bank *bank) {
  gconv_message_reader inside = {&file->source, c->at, c->end};
  gconv_field_value part;
  bool auto_pad = false;
  bank->has_geometry = true;
  bank->stride_y = bank->stride_x = bank->dilation_y = bank->dilation_x = bank->groups = 1;
  for (bool more = true;;) {
    GCONV_TRY(gconv_message_next(&inside, &part, &more));
    if (!more)
      break;
    if (part.number == NODE_ATTRIBUTE && part.wire == GCONV_WIRE_BYTES)
      GCONV_TRY(read_one_attribute(file, gconv_message_inside(&inside, &part), &auto_pad, bank));
  }
  if (auto_pad && (bank->pad_top || bank->pad_left || bank->pad_bottom || bank->pad_right))
    return fail_attribute(file, bank, "pads", "contradicts its 'auto_pad'");
  return gconv_bank_check_geometry(bank->name, GCONV_BAD_FILE, bank);
}

/* ---- Reading ---- */

static gconv_status read_biases(gconv_bank_file *file, const conv *c, gconv_bank *bank) {
  const gconv_onnx_tensor *biases = find_tensor(file->state, c->input[BIASES]);
  if (!c->input[BIASES] || !*c->input[BIASES]) /* there are none, or they are left out */
    return GCONV_OK;
  if (!biases || !gconv_onnx_is_floating(biases) || biases->dimensions != 1 || biases->shape[0] != bank->filters)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s: '%s': its biases '%.80s' are not an initialiser or Constant of %d floating-point numbers, one a filter",
        file->path, bank->name, c->input[BIASES], bank->filters);
  GCONV_TRY(gconv_onnx_tensor_check(file, biases, (uint64_t)bank->filters));
  GCONV_TRY(gconv_bank_add_biases(bank));
  return gconv_onnx_tensor_read(file, biases, (size_t)bank->filters, bank->biases);
}

static gconv_status read_onnx(gconv_bank_file *file, size_t index, gconv_bank *bank) {
  const model *m = file->state;
  const conv *c = &m->convs[index];
  const gconv_bank_entry *entry = &file->entries[index];
  const gconv_onnx_tensor *weights = find_tensor(m, c->input[WEIGHTS]);
  gconv_bank_shape shape = {entry->shape[0], entry->shape[1], entry->shape[2], entry->shape[3]};
  GCONV_TRY(gconv_bank_check_shape(file->path, shape));
  GCONV_TRY(gconv_onnx_tensor_check(file, weights, gconv_bank_shape_weights(shape)));
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  GCONV_TRY(gconv_bank_rename(bank, entry->name));
  GCONV_TRY(read_geometry(file, c, bank));
  GCONV_TRY(gconv_onnx_tensor_read(file, weights, gconv_bank_weights(bank), bank->weights));
  return read_biases(file, c, bank);
}

/* The file begins with ir_version, a small number, then a text, a number, or the graph. */
static bool recognise(const uint8_t *bytes, size_t size) {
  return size > 4 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32 &&
         memchr("\x12\x1A\x22\x28\x32\x3A\x42", bytes[2], 7);
}

const gconv_bank_syntax gconv_bank_syntax_onnx = {
    .name = "onnx",
    .help = "a model: its Conv nodes",
    .extension = ".onnx",
    .recognise = recognise,
    .open = open_onnx,
    .read = read_onnx,
    .close = close_onnx,
};

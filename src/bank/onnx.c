/* SPDX-License-Identifier: MIT */
/* ONNX models (onnx.proto): the Conv nodes of the graph, with their weights, biases, strides, pads, dilations and groups.
 * The file is read field by field, and numbers are read only for the chosen node, so models may be of any size. Nodes within
 * control flow and functions are ignored. */
#include "bank/onnx.h"
#include "base/memory.h"
#include "base/printable.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_GRAPH = 7 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11 };
enum { VALUE_NAME = 1 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_I = 3, ATTRIBUTE_S = 4, ATTRIBUTE_T = 5, ATTRIBUTE_INTS = 8 };
enum { X, WEIGHTS, BIASES, INPUTS }; /* of a Conv node */
enum { MOST_SHARED = 64 };           /* all tensors of Conv nodes, by the size of the model and the files beside it */

/* Nodes that convolve, and why those that are no Conv are not read. */
typedef struct kind {
  const char *type, *obstacle;
} kind;
static const kind kinds[] = {
    {"Conv", NULL},
    {"ConvTranspose",
     "is a transposed convolution, which makes images larger: that is no bank of filters, and not done here"},
    {"ConvInteger", "convolves integers: export the model before it is quantised, with weights in floating point"},
    {"QLinearConv", "convolves integers: export the model before it is quantised, with weights in floating point"},
    {"DeformConv", "takes its samples from places that the model computes for each pixel: that is not done here"},
    {"FusedConv", "was fused with what follows it: export the model before it is optimised for a run time"},
    {"NhwcConv", "was made for a run time: export the model before it is optimised"},
    {"NhwcFusedConv", "was made for a run time: export the model before it is optimised"},
    {"QLinearConvTranspose", "is a transposed convolution of integers, which is not done here"},
    {"CausalConvWithState", "is a convolution with a state, which is not done here"},
};

/* ---- The model ---- */

typedef struct conv {
  char *name, *output, *input[INPUTS]; /* owned; each may be NULL */
  uint64_t at, end;                    /* of its message in the file */
  const kind *kind;
} conv;

typedef struct model {
  gconv_onnx_tensor *tensors; /* initialisers and Constants that have a name; sorted by it when all are known */
  size_t tensor_count;
  conv *convs; /* one for each entry of the file */
  size_t conv_count;
  bool graph;
  char **inputs; /* names of the graph's inputs, sorted when all are known; owned */
  size_t input_count;
  double claimed; /* bytes that the tensors of all Conv nodes are read from, those of a tensor once a node */
} model;

static gconv_status fail_memory(const gconv_bank_file *file) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a list of its nodes", file->path);
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const gconv_onnx_tensor *)a)->name, ((const gconv_onnx_tensor *)b)->name);
}

static gconv_onnx_tensor *find_tensor(const model *m, const char *name) {
  gconv_onnx_tensor key = {.name = (char *)name};
  return name && *name && m->tensors ? bsearch(&key, m->tensors, m->tensor_count, sizeof key, compare_names) : NULL;
}

/* ---- Reading the graph ---- */

/* The list of tensors takes over what is in *tensor. One without a name is dropped: no node can mean it. */
static gconv_status add_tensor(gconv_bank_file *file, gconv_onnx_tensor *tensor) {
  model *m = file->state;
  bool named = tensor->name && *tensor->name;
  gconv_onnx_tensor *tensors = named ? gconv_grown(m->tensors, m->tensor_count, sizeof *tensors) : NULL;
  if (tensors) {
    m->tensors = tensors;
    tensors[m->tensor_count++] = *tensor;
  } else {
    free(tensor->name);
  }
  *tensor = (gconv_onnx_tensor){0};
  return tensors || !named ? GCONV_OK : fail_memory(file);
}

static gconv_status add_initialiser(gconv_bank_file *file, const gconv_message_reader *message,
                                    const gconv_field_value *field) {
  gconv_onnx_tensor tensor = {0};
  gconv_status status = gconv_onnx_tensor_find(message, field, &tensor);
  if (status == GCONV_OK)
    return add_tensor(file, &tensor);
  free(tensor.name);
  return status;
}

static void free_conv(conv *c) {
  free(c->name);
  free(c->output);
  for (int i = 0; i < INPUTS; i++)
    free(c->input[i]);
}

/* A node of the graph, as if it were a Conv. */
typedef struct node {
  char *type, *domain;
  conv content;
  int inputs;
} node;

static gconv_status take_node_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  node *n = context;
  switch (part->number) {
  case NODE_INPUT:
    return n->inputs == INPUTS ? GCONV_OK : gconv_message_text(inside, part, &n->content.input[n->inputs++]);
  case NODE_OUTPUT:
    return n->content.output ? GCONV_OK : gconv_message_text(inside, part, &n->content.output);
  case NODE_NAME:
    return gconv_message_text(inside, part, &n->content.name);
  case NODE_OP_TYPE:
    return gconv_message_text(inside, part, &n->type);
  case NODE_DOMAIN:
    return gconv_message_text(inside, part, &n->domain);
  default:
    return GCONV_OK;
  }
}

/* The list of Conv nodes takes the content of the node over. */
static gconv_status add_conv(gconv_bank_file *file, conv *content, const kind *found, gconv_message_reader inside) {
  model *m = file->state;
  conv *c = gconv_grown(m->convs, m->conv_count, sizeof *c);
  if (!c)
    return fail_memory(file);
  m->convs = c;
  c += m->conv_count++;
  *c = *content;
  *content = (conv){0};
  c->kind = found;
  c->at = inside.at;
  c->end = inside.end;
  return GCONV_OK;
}

/* A Constant node: its tensor, which is called by the name of its output. */
typedef struct constant {
  const gconv_bank_file *file;
  const char *name;
  gconv_onnx_tensor tensor; /* without a name: there is none */
} constant;

static gconv_status take_constant_tensor(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  constant *c = context;
  if (part->number != ATTRIBUTE_T || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  if (c->tensor.name)
    return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: the Constant '%.80s' has two tensors", c->file->path,
                      c->name);
  return gconv_onnx_tensor_find(inside, part, &c->tensor);
}

static gconv_status take_constant_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  if (part->number != NODE_ATTRIBUTE || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  return gconv_message_each(gconv_message_inside(inside, part), take_constant_tensor, context);
}

/* Adds the tensor of a Constant node, whose name is taken over. */
static gconv_status add_constant(gconv_bank_file *file, gconv_message_reader inside, char **name) {
  constant c = {.file = file, .name = *name};
  gconv_status status = gconv_message_each(inside, take_constant_field, &c);
  if (status != GCONV_OK || !c.tensor.name) {
    free(c.tensor.name);
    return status;
  }
  free(c.tensor.name);
  c.tensor.name = *name;
  *name = NULL;
  return add_tensor(file, &c.tensor);
}

/* NULL for nodes that do not convolve, or in a way that is not known. */
static const kind *find_kind(const char *type) {
  for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].type, type) == 0)
      return &kinds[i];
  return NULL;
}

static gconv_status read_node(gconv_bank_file *file, gconv_message_reader inside) {
  node n = {0};
  gconv_status status = gconv_message_each(inside, take_node_field, &n);
  bool standard = !n.domain || !*n.domain || strcmp(n.domain, "ai.onnx") == 0;
  const kind *found = find_kind(n.type);
  if (status == GCONV_OK && found && (standard || found->obstacle))
    status = add_conv(file, &n.content, found, inside);
  else if (status == GCONV_OK && n.type && standard && strcmp(n.type, "Constant") == 0)
    status = n.content.output ? add_constant(file, inside, &n.content.output) : GCONV_OK;
  free(n.type);
  free(n.domain);
  free_conv(&n.content);
  return status;
}

/* The name of an input of the graph. */
static gconv_status take_input_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  return part->number == VALUE_NAME ? gconv_message_text(inside, part, context) : GCONV_OK;
}

static gconv_status add_input(gconv_bank_file *file, gconv_message_reader inside) {
  model *m = file->state;
  char *name = NULL;
  gconv_status status = gconv_message_each(inside, take_input_field, &name);
  char **inputs = status == GCONV_OK && name ? gconv_grown(m->inputs, m->input_count, sizeof *inputs) : NULL;
  if (!inputs) {
    status = status == GCONV_OK && name ? fail_memory(file) : status;
    free(name);
    return status;
  }
  m->inputs = inputs;
  inputs[m->input_count++] = name;
  return GCONV_OK;
}

static gconv_status take_graph_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  if (part->number == GRAPH_NODE && part->wire == GCONV_WIRE_BYTES)
    return read_node(context, gconv_message_inside(inside, part));
  if (part->number == GRAPH_INITIALIZER && part->wire == GCONV_WIRE_BYTES)
    return add_initialiser(context, inside, part);
  if (part->number == GRAPH_INPUT && part->wire == GCONV_WIRE_BYTES)
    return add_input(context, gconv_message_inside(inside, part));
  return GCONV_OK;
}

static gconv_status take_model_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_bank_file *file = context;
  if (part->number != MODEL_GRAPH || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  ((model *)file->state)->graph = true;
  return gconv_message_each(gconv_message_inside(inside, part), take_graph_field, file);
}

static gconv_status read_model(gconv_bank_file *file) {
  GCONV_TRY(gconv_message_each((gconv_message_reader){&file->source, 0, file->source.size}, take_model_field, file));
  return ((model *)file->state)->graph
             ? GCONV_OK
             : gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: it has no graph", file->path);
}

/* ---- Entries ---- */

static bool is_input(const model *m, const char *name) {
  return m->inputs && bsearch(&name, m->inputs, m->input_count, sizeof *m->inputs, compare_texts);
}

static const char *find_obstacle(const model *m, const conv *c, const gconv_onnx_tensor *weights) {
  uint64_t shape[GCONV_BANK_DIMENSIONS];
  const char *name = c->input[WEIGHTS];
  if (c->kind->obstacle)
    return c->kind->obstacle;
  if (!weights && name && is_input(m, name))
    return "takes its weights from an input of the model, so that the file does not have them: export the model with its "
           "parameters inside, or give the weights as .npy or safetensors";
  if (!weights)
    return "takes its weights from what other nodes compute: export the model with its constants folded; only initialisers "
           "and Constants are read";
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
    if (names[i] && *names[i] && !(copies[count++] = gconv_printable_copy(names[i], strlen(names[i]))))
      break;
  entry->name = count > 0 ? copies[0] : strdup("");
  entry->other[0] = copies[1];
  entry->other[1] = copies[2];
  return entry->name && (count < 2 || copies[count - 1]);
}

/* Counts a tensor that a node has; NULL counts nothing. */
static void claim(gconv_bank_file *file, gconv_onnx_tensor *tensor) {
  if (!tensor)
    return;
  gconv_onnx_tensor_look(file, tensor);
  ((model *)file->state)->claimed += gconv_onnx_tensor_bytes(tensor);
}

static int compare_files(const void *a, const void *b) {
  const gconv_onnx_file *x = a, *y = b;
  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* Sums up the files of external tensors, each once. */
static gconv_status sum_files(const gconv_bank_file *file, double *bytes) {
  const model *m = file->state;
  size_t count = 0;
  gconv_onnx_file *files = calloc(m->tensor_count + 1, sizeof *files);
  if (!files)
    return fail_memory(file);
  for (size_t i = 0; i < m->tensor_count; i++)
    if (m->tensors[i].looked)
      files[count++] = m->tensors[i].file;
  qsort(files, count, sizeof *files, compare_files);
  *bytes = 0;
  for (size_t i = 0; i < count; i++)
    *bytes += i == 0 || compare_files(&files[i - 1], &files[i]) != 0 ? (double)files[i].bytes : 0;
  free(files);
  return GCONV_OK;
}

/* Nodes may share tensors, but not so that reading each would take much longer than the files are large. */
static gconv_status check_claimed(const gconv_bank_file *file) {
  const model *m = file->state;
  double beside = 0;
  GCONV_TRY(sum_files(file, &beside));
  if (m->claimed <= MOST_SHARED * ((double)file->source.size + beside) + (1 << 24))
    return GCONV_OK;
  return gconv_fail(GCONV_TOO_LARGE,
                    "%s: its Conv nodes share weights so often that all together are more than %d times as large as the "
                    "model and the files beside it: that is the limit",
                    file->path, MOST_SHARED);
}

static gconv_status add_entry(gconv_bank_file *file, const conv *c) {
  const model *m = file->state;
  gconv_onnx_tensor *weights = find_tensor(m, c->input[WEIGHTS]);
  gconv_bank_entry *entry;
  GCONV_TRY(gconv_bank_file_add(file, &entry));
  if (!name_entry(c, entry))
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its names", file->path);
  entry->kind = c->kind->type;
  entry->obstacle = find_obstacle(m, c, weights);
  if (!weights)
    return GCONV_OK;
  snprintf(entry->type, sizeof entry->type, "%s", gconv_onnx_type_name(weights->type));
  entry->dimensions = weights->dimensions < INT32_MAX ? (int32_t)weights->dimensions : INT32_MAX;
  for (size_t i = 0; i < weights->dimensions && i < GCONV_BANK_DIMENSIONS; i++)
    entry->shape[i] = weights->shape[i] > 0 ? (uint64_t)weights->shape[i] : 0;
  if (!entry->obstacle) {
    claim(file, weights);
    claim(file, find_tensor(m, c->input[BIASES]));
  }
  return GCONV_OK;
}

static gconv_status check_names(const gconv_bank_file *file, const model *m) {
  for (size_t i = 1; i < m->tensor_count; i++)
    if (compare_names(&m->tensors[i - 1], &m->tensors[i]) == 0)
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
  if (m->input_count > 0)
    qsort(m->inputs, m->input_count, sizeof *m->inputs, compare_texts);
  GCONV_TRY(check_names(file, m));
  for (size_t i = 0; i < m->conv_count; i++)
    GCONV_TRY(add_entry(file, &m->convs[i]));
  return check_claimed(file); /* a model without Conv nodes may be a network */
}

static void close_onnx(gconv_bank_file *file) {
  model *m = file->state;
  if (!m)
    return;
  for (size_t i = 0; i < m->tensor_count; i++)
    free(m->tensors[i].name);
  for (size_t i = 0; i < m->conv_count; i++)
    free_conv(&m->convs[i]);
  for (size_t i = 0; i < m->input_count; i++)
    free(m->inputs[i]);
  free(m->inputs);
  free(m->tensors);
  free(m->convs);
  free(m);
}

/* ---- Attributes: how the node is applied ---- */

/* Attributes with integers, for two dimensions, and where the bank has them; of kernel_shape, it has them already. Of pads,
 * first come all beginnings, then all ends. */
#define PLACE(field) offsetof(gconv_bank, field)
static const struct key {
  const char *name;
  size_t count, places[4];
} keys[] = {
    {"strides", 2, {PLACE(stride_y), PLACE(stride_x)}},
    {"pads", 4, {PLACE(pad_top), PLACE(pad_left), PLACE(pad_bottom), PLACE(pad_right)}},
    {"dilations", 2, {PLACE(dilation_y), PLACE(dilation_x)}},
    {"kernel_shape", 2, {PLACE(rows), PLACE(columns)}},
    {"group", 1, {PLACE(groups)}},
};
enum { KEYS = sizeof keys / sizeof *keys, KERNEL_SHAPE = 3 };

/* The content of one attribute. Zero-initialise; free the texts. */
typedef struct attribute {
  char *name, *text;
  int64_t integers[4];
  size_t count;
} attribute;

static gconv_status take_attribute_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  attribute *a = context;
  if (part->number == ATTRIBUTE_NAME)
    return gconv_message_text(inside, part, &a->name);
  if (part->number == ATTRIBUTE_S)
    return gconv_message_text(inside, part, &a->text);
  if (part->number == ATTRIBUTE_I || part->number == ATTRIBUTE_INTS)
    return gconv_message_integers(inside, part, 4, a->integers, &a->count);
  return GCONV_OK;
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

static gconv_status take_integers(const gconv_bank_file *file, const attribute *a, const struct key *key, gconv_bank *bank) {
  if (a->count != key->count)
    return fail_attribute(file, bank, a->name, "has not as many numbers as two dimensions need");
  for (size_t i = 0; i < a->count; i++)
    if (a->integers[i] < 0 || a->integers[i] > INT32_MAX)
      return fail_attribute(file, bank, a->name, "is negative, or too large");
  for (size_t i = 0; i < a->count; i++) {
    int32_t *place = (int32_t *)((char *)bank + key->places[i]);
    if (key == &keys[KERNEL_SHAPE] && *place != a->integers[i])
      return fail_attribute(file, bank, "kernel_shape", "is not the size of its weights");
    *place = (int32_t)a->integers[i];
  }
  return GCONV_OK;
}

/* How a node is applied, while it is being read. */
typedef struct geometry {
  gconv_bank_file *file;
  gconv_bank *bank;
  bool auto_pad;
} geometry;

static gconv_status take_attribute(geometry *g, const attribute *a) {
  if (a->name && strcmp(a->name, "auto_pad") == 0) {
    g->auto_pad = a->text && strcmp(a->text, "NOTSET") != 0;
    return take_auto_pad(g->file, a->text ? a->text : "", g->bank);
  }
  for (int i = 0; a->name && i < KEYS; i++)
    if (strcmp(a->name, keys[i].name) == 0)
      return take_integers(g->file, a, &keys[i], g->bank);
  return GCONV_OK;
}

static gconv_status take_geometry_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  attribute a = {0};
  if (part->number != NODE_ATTRIBUTE || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  gconv_status status = gconv_message_each(gconv_message_inside(inside, part), take_attribute_field, &a);
  if (status == GCONV_OK)
    status = take_attribute(context, &a);
  free(a.name);
  free(a.text);
  return status;
}

static gconv_status read_geometry(gconv_bank_file *file, const conv *c, gconv_bank *bank) {
  geometry g = {file, bank, false};
  bank->has_geometry = true;
  bank->stride_y = bank->stride_x = bank->dilation_y = bank->dilation_x = bank->groups = 1;
  GCONV_TRY(gconv_message_each((gconv_message_reader){&file->source, c->at, c->end}, take_geometry_field, &g));
  if (g.auto_pad && (bank->pad_top || bank->pad_left || bank->pad_bottom || bank->pad_right))
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

/* SPDX-License-Identifier: MIT */
/* An ONNX model as a whole: its versions, tensors, inputs and outputs, and its nodes one after the other. The file is read
 * field by field, so models may be of any size. A node that calls a function of the model is replaced by the function's
 * nodes. Nodes within other nodes, such as the branches of If, are skipped: onnx_branch.c reads them. */
#include "bank/onnx_function.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

enum { MODEL_IR = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14, MODEL_FUNCTION = 25 };
enum { NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12, SPARSE = 15 }; /* GraphProto */
enum { MOST_NOTES_BYTES = 1 << 26 };

static gconv_status no_memory(const gconv_onnx_model *m) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a list of its nodes", m->file->path);
}

/* ---- Tensors ---- */

static int compare_tensors(const void *a, const void *b) {
  return strcmp(((const gconv_onnx_tensor *)a)->name, ((const gconv_onnx_tensor *)b)->name);
}

gconv_onnx_tensor *gconv_onnx_find_tensor(const gconv_onnx_model *m, const char *name) {
  gconv_onnx_tensor key = {.name = (char *)name};
  return name && *name && m->tensors ? bsearch(&key, m->tensors, m->tensor_count, sizeof key, compare_tensors) : NULL;
}

/* Moves *tensor to the list. A tensor without a name is dropped, because no node can refer to it. */
static gconv_status add_tensor(gconv_onnx_model *m, gconv_onnx_tensor *tensor) {
  bool named = tensor->name && *tensor->name;
  gconv_onnx_tensor *tensors = named ? gconv_grown(m->tensors, m->tensor_count, sizeof *tensors) : NULL;
  if (tensors) {
    m->tensors = tensors;
    tensors[m->tensor_count++] = *tensor;
  } else {
    free(tensor->name);
  }
  *tensor = (gconv_onnx_tensor){0};
  return tensors || !named ? GCONV_OK : no_memory(m);
}

static gconv_status add_initialiser(gconv_onnx_model *m, const gconv_message_reader *message,
                                    const gconv_field_value *field) {
  gconv_onnx_tensor tensor = {0};
  gconv_status status = gconv_onnx_tensor_find(message, field, &tensor);
  if (status == GCONV_OK)
    return add_tensor(m, &tensor);
  free(tensor.name);
  return status;
}

/* Adds the tensor of a Constant under the name of the node's output. */
static gconv_status add_constant(gconv_onnx_model *m, const gconv_onnx_node *n) {
  const gconv_onnx_attribute *found = NULL;
  for (size_t i = 0; i < n->attribute_count && gconv_onnx_output(n); i++)
    if (n->attributes[i].tensor.name && n->attributes[i].name && strcmp(n->attributes[i].name, "value") == 0) {
      if (found)
        return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "is not valid: it has two tensors");
      found = &n->attributes[i];
    }
  if (!found)
    return GCONV_OK;
  gconv_onnx_tensor tensor = found->tensor;
  tensor.constant = true;
  tensor.name = strdup(gconv_onnx_output(n));
  return tensor.name ? add_tensor(m, &tensor) : no_memory(m);
}

static gconv_status sort_tensors(gconv_onnx_model *m) {
  if (m->tensor_count > 0)
    qsort(m->tensors, m->tensor_count, sizeof *m->tensors, compare_tensors);
  for (size_t i = 1; i < m->tensor_count; i++)
    if (compare_tensors(&m->tensors[i - 1], &m->tensors[i]) == 0)
      return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: two tensors are called '%.80s'", m->file->path,
                        m->tensors[i].name);
  return GCONV_OK;
}

/* ---- Inputs and outputs: ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto ---- */

static gconv_status take_dimension(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_value *v = context;
  if (part->number == 1 && part->wire == GCONV_WIRE_VARINT && v->dimensions <= GCONV_BANK_DIMENSIONS)
    v->sizes[v->dimensions - 1] = part->value <= INT32_MAX ? (int64_t)part->value : 0;
  return GCONV_OK;
}

static gconv_status take_shape(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_value *v = context;
  if (part->number != 1 || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  v->dimensions++;
  return gconv_message_each(gconv_message_inside(inside, part), take_dimension, v);
}

static gconv_status take_tensor_type(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_value *v = context;
  if (part->number == 1 && part->wire == GCONV_WIRE_VARINT)
    v->type = part->value <= INT32_MAX ? (int64_t)part->value : -1;
  if (part->number != 2 || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  v->has_shape = true;
  return gconv_message_each(gconv_message_inside(inside, part), take_shape, v);
}

static gconv_status take_type(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  if (part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  if (part->number == 1)
    return gconv_message_each(gconv_message_inside(inside, part), take_tensor_type, context);
  if (part->number != 6) /* 6: a denotation; other numbers: sequences, maps and the like */
    ((gconv_onnx_value *)context)->type = -1;
  return GCONV_OK;
}

static gconv_status take_value_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_value *v = context;
  if (part->number == 1)
    return gconv_message_name(inside, part, &v->name);
  return part->number == 2 && part->wire == GCONV_WIRE_BYTES
             ? gconv_message_each(gconv_message_inside(inside, part), take_type, v)
             : GCONV_OK;
}

static int compare_values(const void *a, const void *b) {
  const char *x = ((const gconv_onnx_value *)a)->name, *y = ((const gconv_onnx_value *)b)->name;
  return strcmp(x ? x : "", y ? y : "");
}

bool gconv_onnx_is_input(const gconv_onnx_model *m, const char *name) {
  const gconv_onnx_value key = {.name = (char *)name};
  return name && *name && m->inputs && bsearch(&key, m->inputs, m->input_count, sizeof key, compare_values);
}

static gconv_status add_value(const gconv_onnx_model *m, gconv_message_reader inside, gconv_onnx_value **values,
                              size_t *count) {
  gconv_onnx_value *grown = gconv_grown(*values, *count, sizeof *grown);
  if (!grown)
    return no_memory(m);
  *values = grown;
  grown[*count] = (gconv_onnx_value){.number = *count};
  return gconv_message_each(inside, take_value_field, &grown[(*count)++]);
}

/* ---- The model ---- */

/* The state of reading a model. */
typedef struct reading {
  gconv_onnx_model *model; /* to fill; NULL: the nodes alone are read */
  gconv_bank_file *file;
  gconv_onnx_taker *take;
  void *context;
  const gconv_onnx_model *of; /* the model whose functions may be called */
  int depth;                  /* how many functions are called within each other */
  size_t called;              /* nodes of functions so far */
} reading;

/* Gives take() a node or, if the node calls a function, the nodes of the function. */
static gconv_status give_node(void *context, const gconv_onnx_node *n) {
  reading *r = context;
  const gconv_onnx_function *f = gconv_onnx_function_called(r->of, n->type, n->domain, n->overload);
  if (!f) {
    r->called += r->depth > 0;
    if (r->model && n->type && strcmp(n->type, "Constant") == 0 && gconv_onnx_is_standard(n))
      GCONV_TRY(add_constant(r->model, n));
    return r->take(r->context, n);
  }
  if (r->of->opset != 0 && f->opset != 0 && f->opset != r->of->opset)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "calls a function of opset %" PRIu64 " in a model of opset %" PRIu64
                                ": gconv needs them to be equal",
                                f->opset, r->of->opset);
  if (r->depth == GCONV_ONNX_MOST_DEPTH || r->called >= GCONV_ONNX_MOST_CALLED)
    return gconv_onnx_fail_node(
        n, GCONV_TOO_LARGE,
        "calls a function that calls itself, or functions within each other: at most %d deep, and of "
        "%d nodes together",
        GCONV_ONNX_MOST_DEPTH, GCONV_ONNX_MOST_CALLED);
  r->depth++;
  r->called++;
  const gconv_status status = gconv_onnx_function_follow(f, n, give_node, r);
  r->depth--;
  return status;
}

gconv_status gconv_onnx_model_give(const gconv_onnx_model *m, const gconv_onnx_node *node, gconv_onnx_taker *take,
                                   void *context, size_t *called) {
  reading r = {.file = m->file, .take = take, .context = context, .of = m, .called = *called};
  const gconv_status status = give_node(&r, node);
  *called = r.called;
  return status;
}

static gconv_status take_node(reading *r, gconv_message_reader message) {
  GCONV_ENDED_BY(gconv_onnx_node_free) gconv_onnx_node n = {.file = r->file};
  GCONV_TRY(gconv_onnx_node_read(message, &n));
  return give_node(r, &n);
}

static gconv_status take_graph_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  reading *r = context;
  gconv_onnx_model *m = r->model;
  if (part->wire != GCONV_WIRE_BYTES || (!m && part->number != NODE))
    return GCONV_OK;
  gconv_message_reader message = gconv_message_inside(inside, part);
  switch (part->number) {
  case NODE:
    return take_node(r, message);
  case INITIALIZER:
    return add_initialiser(m, inside, part);
  case INPUT:
    return add_value(m, message, &m->inputs, &m->input_count);
  case OUTPUT:
    return add_value(m, message, &m->outputs, &m->output_count);
  case SPARSE:
    m->obstacle = "has sparse tensors, which are not read";
    return GCONV_OK;
  default:
    return GCONV_OK;
  }
}

/* Takes the functions of a model. They stand after the nodes that call them, so the file is read once for them alone. */
static gconv_status take_function(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_model *m = context;
  if (part->number != MODEL_FUNCTION || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  gconv_onnx_function *functions = gconv_grown(m->functions, m->function_count, sizeof *functions);
  if (!functions)
    return no_memory(m);
  m->functions = functions;
  gconv_onnx_function *f = &functions[m->function_count++];
  GCONV_TRY(gconv_onnx_function_find(gconv_message_inside(inside, part), f));
  if (gconv_onnx_function_called(m, f->name, f->domain, f->overload) != f)
    return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: two functions are called '%.80s'", m->file->path,
                      f->name ? f->name : "");
  if (gconv_onnx_is_standard_domain(f->domain))
    m->obstacle = "has functions that replace operators of ONNX, which are not read";
  return GCONV_OK;
}

/* An entry of the metadata. */
typedef struct entry {
  char *key;              /* owned */
  gconv_field_value text; /* where its text stands */
} entry;

static gconv_status take_entry_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  entry *e = context;
  if (part->number == 1 && part->value <= sizeof "gconv")
    return gconv_message_name(inside, part, &e->key);
  if (part->number == 2)
    e->text = *part;
  return GCONV_OK;
}

/* Keeps the entry "gconv", which network_write.c wrote. */
static gconv_status take_entry(gconv_onnx_model *m, gconv_message_reader message) {
  entry e = {0};
  gconv_status status = gconv_message_each(message, take_entry_field, &e);
  if (status == GCONV_OK && e.key && strcmp(e.key, "gconv") == 0 && e.text.number == 2 && !m->notes)
    status = gconv_message_text(&message, &e.text, MOST_NOTES_BYTES, &m->notes);
  free(e.key);
  return status;
}

static gconv_status take_model_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  reading *r = context;
  gconv_onnx_model *m = r->model;
  if (m && part->number == MODEL_IR && part->wire == GCONV_WIRE_VARINT)
    m->ir = part->value;
  if (part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  gconv_message_reader message = gconv_message_inside(inside, part);
  if (m && part->number == MODEL_OPSET)
    return gconv_onnx_take_opset(message, &m->opset);
  if (m && part->number == MODEL_METADATA)
    return take_entry(m, message);
  if (part->number != MODEL_GRAPH)
    return GCONV_OK;
  if (m)
    m->graph = true;
  return gconv_message_each(message, take_graph_field, r);
}

static gconv_status read_all(reading r) {
  return gconv_message_each((gconv_message_reader){&r.file->source, 0, r.file->source.size}, take_model_field, &r);
}

gconv_status gconv_onnx_model_read(gconv_onnx_model *m, gconv_onnx_taker *take, void *context) {
  GCONV_TRY(gconv_message_each((gconv_message_reader){&m->file->source, 0, m->file->source.size}, take_function, m));
  GCONV_TRY(read_all((reading){.model = m, .file = m->file, .take = take, .context = context, .of = m}));
  if (!m->graph)
    return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: it has no graph", m->file->path);
  if (m->opset == 0 && m->ir < 3)
    m->opset = 1; /* such old files do not state it */
  if (m->input_count > 0)
    qsort(m->inputs, m->input_count, sizeof *m->inputs, compare_values);
  return sort_tensors(m);
}

gconv_status gconv_onnx_model_follow(const gconv_onnx_model *m, gconv_onnx_taker *take, void *context) {
  return read_all((reading){.file = m->file, .take = take, .context = context, .of = m});
}

gconv_status gconv_onnx_model_check(const gconv_onnx_model *m) {
  if (m->ir > GCONV_ONNX_NEWEST_IR || m->opset > GCONV_ONNX_NEWEST_OPSET)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: is a model of IR version %" PRIu64 " and opset %" PRIu64
                      "; this gconv (%s) knows them up to %d and %d: export the model for an older opset",
                      m->file->path, m->ir, m->opset, gconv_version(), GCONV_ONNX_NEWEST_IR, GCONV_ONNX_NEWEST_OPSET);
  return m->obstacle ? gconv_fail(GCONV_UNSUPPORTED, "%s: the model %s", m->file->path, m->obstacle) : GCONV_OK;
}

static void free_values(gconv_onnx_value *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    free(values[i].name);
  free(values);
}

void gconv_onnx_model_free(gconv_onnx_model *m) {
  for (size_t i = 0; i < m->tensor_count; i++)
    free(m->tensors[i].name);
  free(m->tensors);
  for (size_t i = 0; i < m->function_count; i++)
    gconv_onnx_function_free(&m->functions[i]);
  free(m->functions);
  free_values(m->inputs, m->input_count);
  free_values(m->outputs, m->output_count);
  free(m->notes);
}

/* SPDX-License-Identifier: MIT */
#include "bank/onnx_function.h"
#include "base/memory.h"

#include <string.h>

enum { NAME = 1, INPUT = 4, OUTPUT = 5, NODE = 7, OPSET = 9, DOMAIN = 10, DEFAULT = 11, OVERLOAD = 13 }; /* FunctionProto */
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };

/* ---- Versions of sets of operators ---- */

typedef struct version {
  char *domain; /* owned */
  uint64_t number;
} version;

static gconv_status take_version_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  version *v = context;
  if (part->number == OPSET_DOMAIN)
    return gconv_message_name(inside, part, &v->domain);
  if (part->number == OPSET_VERSION && part->wire == GCONV_WIRE_VARINT)
    v->number = part->value;
  return GCONV_OK;
}

gconv_status gconv_onnx_take_opset(gconv_message_reader message, uint64_t *opset) {
  version v = {0};
  const gconv_status status = gconv_message_each(message, take_version_field, &v);
  if (gconv_onnx_is_standard_domain(v.domain))
    *opset = v.number;
  free(v.domain);
  return status;
}

/* ---- Finding functions ---- */

static gconv_status take_name_of(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_function *f = context;
  switch (part->number) {
  case NAME:
    return gconv_message_name(inside, part, &f->name);
  case DOMAIN:
    return gconv_message_name(inside, part, &f->domain);
  case OVERLOAD:
    return gconv_message_name(inside, part, &f->overload);
  case OPSET:
    return part->wire == GCONV_WIRE_BYTES ? gconv_onnx_take_opset(gconv_message_inside(inside, part), &f->opset) : GCONV_OK;
  default:
    return GCONV_OK;
  }
}

gconv_status gconv_onnx_function_find(gconv_message_reader message, gconv_onnx_function *function) {
  *function = (gconv_onnx_function){.at = message.at, .end = message.end};
  return gconv_message_each(message, take_name_of, function);
}

void gconv_onnx_function_free(gconv_onnx_function *function) {
  free(function->name);
  free(function->domain);
  free(function->overload);
}

static bool same(const char *a, const char *b) {
  return strcmp(a ? a : "", b ? b : "") == 0;
}

const gconv_onnx_function *gconv_onnx_function_called(const gconv_onnx_model *model, const char *name, const char *domain,
                                                      const char *overload) {
  for (size_t i = 0; i < model->function_count; i++) {
    const gconv_onnx_function *f = &model->functions[i];
    if (same(f->name, name) && same(f->domain, domain) && same(f->overload, overload))
      return f;
  }
  return NULL;
}

/* ---- Calls ---- */

/* A call while the nodes of its function are read. `formal` has the function's own names of inputs and outputs, and its
 * attributes that have defaults. */
typedef struct calling {
  const gconv_onnx_node *call;
  gconv_onnx_node formal;
  const char *output; /* the first output of the call that has a name */
  gconv_onnx_taker *take;
  void *context;
} calling;

static gconv_status take_formal(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  calling *c = context;
  if (part->number == INPUT)
    return gconv_onnx_node_add_name(&c->formal, inside, part, &c->formal.inputs, &c->formal.input_count);
  if (part->number == OUTPUT)
    return gconv_onnx_node_add_name(&c->formal, inside, part, &c->formal.outputs, &c->formal.output_count);
  return part->number == DEFAULT && part->wire == GCONV_WIRE_BYTES ? gconv_onnx_node_add_attribute(&c->formal, inside, part)
                                                                   : GCONV_OK;
}

/* Replaces a name in the function by the name in the call. *name is owned. */
static gconv_status rename_value(const calling *c, char **name) {
  const char *actual = NULL;
  if (!*name || !**name)
    return GCONV_OK;
  for (int i = 0; i < c->formal.input_count && !actual; i++)
    if (same(c->formal.inputs[i], *name))
      actual = i < c->call->input_count && c->call->inputs[i] ? c->call->inputs[i] : "";
  for (int i = 0; i < c->formal.output_count && !actual; i++)
    if (i < c->call->output_count && c->call->outputs[i] && *c->call->outputs[i] && same(c->formal.outputs[i], *name))
      actual = c->call->outputs[i];
  /* The function's name keeps names unique if a nested call makes the same output. */
  char *renamed = actual ? strdup(actual) : gconv_format_text("%s/%s/%s", c->output, c->call->type, *name);
  GCONV_NEED_MEMORY(renamed, "%s: no memory for its nodes", c->call->file->path);
  free(*name);
  *name = renamed;
  return GCONV_OK;
}

static void copy_text(char **text) {
  *text = *text ? strdup(*text) : NULL;
}

/* Replaces a reference by the call's attribute or, if the call has none, by the function's default. If that is missing, too,
 * removes the attribute. */
static gconv_status resolve(const calling *c, gconv_onnx_node *n, size_t *i) {
  gconv_onnx_attribute *a = &n->attributes[*i];
  const gconv_onnx_attribute *given = gconv_onnx_find_attribute(c->call, a->reference);
  given = given ? given : gconv_onnx_find_attribute(&c->formal, a->reference);
  gconv_onnx_attribute old = *a;
  bool complete = true;
  if (given) {
    char *name = old.name;
    *a = *given;
    a->name = name;
    copy_text(&a->text);
    copy_text(&a->tensor.name);
    copy_text(&a->reference);
    old.name = NULL;
    complete =
        !((given->text && !a->text) || (given->tensor.name && !a->tensor.name) || (given->reference && !a->reference));
  } else {
    n->attribute_count--;
    memmove(a, a + 1, (n->attribute_count - *i) * sizeof *a);
    --*i;
  }
  free(old.name);
  free(old.text);
  free(old.tensor.name);
  free(old.reference);
  return complete ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its nodes", n->file->path);
}

/* Replaces the names and references in a node of the function. */
static gconv_status adapt(const calling *c, gconv_onnx_node *n) {
  for (int i = 0; i < n->input_count; i++)
    GCONV_TRY(rename_value(c, &n->inputs[i]));
  for (int i = 0; i < n->output_count; i++)
    GCONV_TRY(rename_value(c, &n->outputs[i]));
  for (size_t i = 0; i < n->attribute_count; i++)
    if (n->attributes[i].reference)
      GCONV_TRY(resolve(c, n, &i));
  return GCONV_OK;
}

static gconv_status take_body(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  const calling *c = context;
  if (part->number != NODE || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  GCONV_ENDED_BY(gconv_onnx_node_free) gconv_onnx_node n = {.file = c->call->file};
  GCONV_TRY(gconv_onnx_node_read(gconv_message_inside(inside, part), &n));
  for (size_t i = 0; i < n.attribute_count; i++)
    if (n.attributes[i].graph_end > 0) /* its nodes would need the names of the call, too */
      return gconv_onnx_fail_node(&n, GCONV_UNSUPPORTED, "has a graph within a function, which is not read");
  GCONV_TRY(adapt(c, &n));
  return c->take(c->context, &n);
}

gconv_status gconv_onnx_function_follow(const gconv_onnx_function *function, const gconv_onnx_node *call,
                                        gconv_onnx_taker *take, void *context) {
  const gconv_message_reader body = {&call->file->source, function->at, function->end};
  calling c = {.call = call, .formal = {.file = call->file}, .take = take, .context = context};
  for (int i = 0; i < call->output_count && !c.output; i++)
    c.output = call->outputs[i] && *call->outputs[i] ? call->outputs[i] : NULL;
  if (!c.output) /* nothing uses its results */
    return GCONV_OK;
  gconv_status status = gconv_message_each(body, take_formal, &c);
  if (status == GCONV_OK && (call->input_count > c.formal.input_count || call->output_count > c.formal.output_count))
    status = gconv_onnx_fail_node(call, GCONV_BAD_FILE, "has %d inputs and %d outputs, and its function %d and %d",
                                  call->input_count, call->output_count, c.formal.input_count, c.formal.output_count);
  GCONV_THEN(status, gconv_message_each(body, take_body, &c));
  gconv_onnx_node_free(&c.formal);
  return status;
}

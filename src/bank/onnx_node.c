/* SPDX-License-Identifier: MIT */
/* Nodes of ONNX models with their attributes. A table has a rule for each attribute that is known. */
#include "bank/onnx.h"
#include "base/element.h"
#include "base/memory.h"
#include "base/printable.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum { INPUT = 1, OUTPUT = 2, NAME = 3, OP_TYPE = 4, ATTRIBUTE = 5, DOMAIN = 7, OVERLOAD = 8 }; /* NodeProto */
enum {
  A_NAME = 1,
  A_F = 2,
  A_I = 3,
  A_S = 4,
  A_T = 5,
  A_G = 6,
  A_FLOATS = 7,
  A_INTS = 8,
  A_TYPE = 20,
  A_REFERENCE = 21
}; /* AttributeProto */
enum { SHOWN_BYTES = 80, MOST_TEXT = 1024 /* the most bytes of a text that is kept: all known texts are shorter */ };

/* ---- Reading ---- */

/* Returns the AttributeType of the values in a field; 0: the field has no value. */
static unsigned kind_of_field(uint32_t number) {
  static const uint8_t kinds[] = {[2] = 1, [3] = 2,  [4] = 3,   [5] = 4,   [6] = 5,   [7] = 6,   [8] = 7,
                                  [9] = 8, [10] = 9, [11] = 10, [14] = 13, [15] = 14, [22] = 11, [23] = 12};
  return number < sizeof kinds ? kinds[number] : 0;
}

/* Keeps a number, or packed numbers, of a list of floats. */
static gconv_status take_floats(gconv_onnx_attribute *a, const gconv_message_reader *inside, const gconv_field_value *part) {
  const gconv_element element = {'f', sizeof(float), false};
  const uint32_t bits = (uint32_t)part->value;
  if (part->wire == GCONV_WIRE_FIXED32) {
    if (a->float_count < GCONV_ONNX_FLOATS)
      memcpy(&a->floats[a->float_count], &bits, sizeof bits);
    a->float_count++;
  }
  if (part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  const size_t count = part->value / sizeof(float),
               fits = a->float_count < GCONV_ONNX_FLOATS ? GCONV_ONNX_FLOATS - a->float_count : 0;
  GCONV_TRY(gconv_source_rewind(inside->source, part->at));
  GCONV_TRY(gconv_elements_read(inside->source, element, count < fits ? count : fits, "an attribute",
                                a->floats + (GCONV_ONNX_FLOATS - fits)));
  a->float_count += count;
  return GCONV_OK;
}

static gconv_status take_attribute_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_attribute *a = context;
  const uint32_t bits = (uint32_t)part->value;
  const unsigned kind = (1U << kind_of_field(part->number)) & ~1U;
  if ((part->number == A_T || part->number == A_G) && a->values & kind)
    return gconv_fail(GCONV_BAD_FILE, "%s: an attribute has two tensors or graphs", inside->source->name);
  a->values |= kind;
  switch (part->number) {
  case A_NAME:
    return gconv_message_name(inside, part, &a->name);
  case A_S: /* longer texts are data of operators that gconv does not know */
    return part->value > MOST_TEXT ? GCONV_OK : gconv_message_name(inside, part, &a->text);
  case A_F:
    if (part->wire == GCONV_WIRE_FIXED32)
      memcpy(&a->number, &bits, sizeof bits);
    return GCONV_OK;
  case A_T:
    return part->wire != GCONV_WIRE_BYTES || a->tensor.name ? GCONV_OK : gconv_onnx_tensor_find(inside, part, &a->tensor);
  case A_G:
    if (part->wire == GCONV_WIRE_BYTES) {
      a->graph_at = part->at;
      a->graph_end = part->at + part->value;
    }
    return GCONV_OK;
  case A_FLOATS:
    return take_floats(a, inside, part);
  case A_TYPE:
    a->type = part->wire == GCONV_WIRE_VARINT && part->value < 32 ? (int64_t)part->value : -1;
    return GCONV_OK;
  case A_REFERENCE:
    return gconv_message_name(inside, part, &a->reference);
  case A_I:
  case A_INTS:
    return gconv_message_integers(inside, part, GCONV_ONNX_INTEGERS, a->integers.numbers, &a->integers.count);
  default:
    return GCONV_OK;
  }
}

gconv_status gconv_onnx_node_add_attribute(gconv_onnx_node *n, const gconv_message_reader *inside,
                                           const gconv_field_value *part) {
  GCONV_GROW(n->attributes, n->attribute_count, "%s: no memory for its nodes", n->file->path);
  n->attributes[n->attribute_count] = (gconv_onnx_attribute){0};
  return gconv_message_each(gconv_message_inside(inside, part), take_attribute_field, &n->attributes[n->attribute_count++]);
}

gconv_status gconv_onnx_node_add_name(const gconv_onnx_node *n, const gconv_message_reader *inside,
                                      const gconv_field_value *part, char ***names, int *count) {
  GCONV_GROW(*names, (size_t)*count, "%s: no memory for its nodes", n->file->path);
  (*names)[*count] = NULL;
  return gconv_message_name(inside, part, &(*names)[(*count)++]);
}

static gconv_status take_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_node *n = context;
  switch (part->number) {
  case INPUT:
    return gconv_onnx_node_add_name(n, inside, part, &n->inputs, &n->input_count);
  case OUTPUT:
    return gconv_onnx_node_add_name(n, inside, part, &n->outputs, &n->output_count);
  case NAME:
    return gconv_message_name(inside, part, &n->name);
  case OP_TYPE:
    return gconv_message_name(inside, part, &n->type);
  case DOMAIN:
    return gconv_message_name(inside, part, &n->domain);
  case OVERLOAD:
    return gconv_message_name(inside, part, &n->overload);
  case ATTRIBUTE:
    return part->wire == GCONV_WIRE_BYTES ? gconv_onnx_node_add_attribute(n, inside, part) : GCONV_OK;
  default:
    return GCONV_OK;
  }
}

gconv_status gconv_onnx_node_read(gconv_message_reader message, gconv_onnx_node *n) {
  n->at = message.at;
  n->end = message.end;
  return gconv_message_each(message, take_field, n);
}

static void free_names(char **names, int count) {
  for (int i = 0; i < count; i++)
    free(names[i]);
  free(names);
}

void gconv_onnx_node_free(gconv_onnx_node *n) {
  for (size_t i = 0; i < n->attribute_count; i++) {
    free(n->attributes[i].name);
    free(n->attributes[i].text);
    free(n->attributes[i].tensor.name);
    free(n->attributes[i].reference);
  }
  free_names(n->inputs, n->input_count);
  free_names(n->outputs, n->output_count);
  free(n->attributes);
  free(n->type);
  free(n->name);
  free(n->domain);
  free(n->overload);
  *n = (gconv_onnx_node){.file = n->file};
}

gconv_status gconv_onnx_fail_node(const gconv_onnx_node *n, gconv_status status, const char *format, ...) {
  char text[512];
  const char *called = n->name && *n->name ? n->name : gconv_onnx_output(n) ? gconv_onnx_output(n) : "";
  GCONV_FREED char *name = gconv_printable_copy(called, SHOWN_BYTES);
  GCONV_FREED char *type = gconv_printable_copy(n->type ? n->type : "", SHOWN_BYTES);
  GCONV_FORMAT(text, sizeof text, format);
  gconv_make_printable(text);
  return gconv_fail(status, "%s: node '%s' (%s) %s", n->file->path, name ? name : "", type ? type : "", text);
}

bool gconv_onnx_is_standard_domain(const char *domain) {
  return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

bool gconv_onnx_is_standard(const gconv_onnx_node *n) {
  return gconv_onnx_is_standard_domain(n->domain) && (!n->overload || !*n->overload);
}

bool gconv_onnx_has_input(const gconv_onnx_node *n, int input) {
  return input < n->input_count && n->inputs[input] && *n->inputs[input];
}

const char *gconv_onnx_output(const gconv_onnx_node *n) {
  return n->output_count > 0 ? n->outputs[0] : NULL;
}

/* ---- Attributes ---- */

const gconv_onnx_attribute *gconv_onnx_find_attribute(const gconv_onnx_node *n, const char *name) {
  for (size_t i = 0; i < n->attribute_count; i++)
    if (n->attributes[i].name && strcmp(n->attributes[i].name, name) == 0)
      return &n->attributes[i];
  return NULL;
}

/* Returns 0 if the attribute has no number in the file. */
int64_t gconv_onnx_integer_of(const gconv_onnx_node *n, const char *name, int64_t otherwise) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, name);
  return a ? a->integers.numbers[0] : otherwise;
}

float gconv_onnx_number_of(const gconv_onnx_node *n, const char *name, float otherwise) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, name);
  return a ? a->number : otherwise;
}

/* Whether the attribute holds a value of this kind, and no other. */
static bool is_of_kind(const gconv_onnx_attribute *a, gconv_onnx_kind kind) {
  const uint32_t only = 1U << kind;
  const bool may_be_empty = kind != GCONV_ONNX_A_TENSOR && a->type != 0;
  if (a->reference || (a->type != 0 && a->type != (int64_t)kind) || (kind == GCONV_ONNX_AN_INT && a->integers.count > 1))
    return false;
  return a->values == only || (may_be_empty && a->values == 0);
}

static gconv_status check_attribute(const gconv_onnx_node *n, const gconv_onnx_attribute *a, const gconv_onnx_rule *rule) {
  const bool is_float = rule->kind == GCONV_ONNX_A_FLOAT;
  if (gconv_onnx_find_attribute(n, a->name) != a)
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has two attributes '%.40s'", a->name);
  if (!is_of_kind(a, rule->kind))
    return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "has an attribute '%.40s' whose value is of another type than ONNX says",
                                a->name);
  if (rule->use != GCONV_ONNX_READ && (is_float ? a->number != (float)rule->value : a->integers.numbers[0] != rule->value))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has the attribute '%.40s' = %.9g: only %d is supported", a->name,
                                is_float ? (double)a->number : (double)a->integers.numbers[0], rule->value);
  return GCONV_OK;
}

static const gconv_onnx_rule *find_rule(const gconv_onnx_rule *rules, const char *name, uint64_t opset) {
  for (; name && rules->name; rules++)
    if (strcmp(rules->name, name) == 0 && opset >= rules->since && opset <= rules->until)
      return rules;
  return NULL;
}

gconv_status gconv_onnx_check_attributes(const gconv_onnx_node *n, const gconv_onnx_rule *rules, uint64_t opset) {
  for (size_t i = 0; i < n->attribute_count; i++) {
    const gconv_onnx_attribute *a = &n->attributes[i];
    const gconv_onnx_rule *rule = find_rule(rules, a->name, opset);
    if (!rule)
      return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                  "has an attribute '%.40s', which gconv does not know (opset %" PRIu64 ")",
                                  a->name ? a->name : "", opset);
    GCONV_TRY(check_attribute(n, a, rule));
  }
  for (; rules->name; rules++)
    if (rules->use == GCONV_ONNX_NEEDED && opset <= rules->until && !gconv_onnx_find_attribute(n, rules->name))
      return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has no attribute '%s' = %d, and the default is not supported",
                                  rules->name, rules->value);
  return GCONV_OK;
}

/* ---- The attributes of a Conv ---- */

#define RULE(name, kind)                                                                                                    \
  { name, kind, 0, UINT64_MAX, GCONV_ONNX_READ, 0 }
const gconv_onnx_rule gconv_onnx_conv_rules[] = {
    RULE("auto_pad", GCONV_ONNX_A_STRING), RULE("dilations", GCONV_ONNX_INTS), RULE("group", GCONV_ONNX_AN_INT),
    RULE("kernel_shape", GCONV_ONNX_INTS), RULE("pads", GCONV_ONNX_INTS),      RULE("strides", GCONV_ONNX_INTS),
    RULE(NULL, GCONV_ONNX_AN_INT),
};

/* Integers of an attribute, and where the bank has them. Pads have all beginnings first, then all ends. */
#define PLACE(field) offsetof(gconv_bank, field)
static const struct key {
  const char *name;
  size_t count, places[4];
} keys[] = {
    {"strides", 2, {PLACE(stride_y), PLACE(stride_x)}},
    {"pads", 4, {PLACE(pad_top), PLACE(pad_left), PLACE(pad_bottom), PLACE(pad_right)}},
    {"dilations", 2, {PLACE(dilation_y), PLACE(dilation_x)}},
    {"group", 1, {PLACE(groups)}},
};

static gconv_status fail_value(const gconv_onnx_node *n, const char *name, const char *wrong) {
  return gconv_onnx_fail_node(n, GCONV_BAD_FILE, "is not valid: its attribute '%s' %s", name, wrong);
}

static gconv_status take_key(const gconv_onnx_node *n, const struct key *key, gconv_bank *bank) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, key->name);
  if (a && a->integers.count != key->count && key->count > 1)
    return fail_value(n, key->name, "does not have the numbers for two dimensions");
  for (size_t i = 0; a && i < key->count; i++) {
    int64_t value = a->integers.numbers[i];
    if (value < 0 || value > INT32_MAX)
      return fail_value(n, key->name, "is negative, or too large");
    *(int32_t *)((char *)bank + key->places[i]) = (int32_t)value;
  }
  return GCONV_OK;
}

static gconv_status check_kernel_shape(const gconv_onnx_node *n, const gconv_bank *bank) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, "kernel_shape");
  if (!a || (a->integers.count == 2 && a->integers.numbers[0] == bank->rows && a->integers.numbers[1] == bank->columns))
    return GCONV_OK;
  return fail_value(n, "kernel_shape", "is not the size of its weights");
}

gconv_status gconv_onnx_read_geometry(const gconv_onnx_node *n, gconv_bank *bank) {
  const gconv_onnx_attribute *automatic = gconv_onnx_find_attribute(n, "auto_pad");
  const char *text = !automatic ? "NOTSET" : automatic->text ? automatic->text : "";
  bank->has_geometry = true;
  bank->stride_y = bank->stride_x = bank->dilation_y = bank->dilation_x = bank->groups = 1;
  bank->same_upper = strcmp(text, "SAME_UPPER") == 0;
  bank->same_lower = strcmp(text, "SAME_LOWER") == 0;
  bool given = strcmp(text, "NOTSET") == 0;
  if (!given && !bank->same_upper && !bank->same_lower && strcmp(text, "VALID") != 0)
    return fail_value(n, "auto_pad", "is not NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    GCONV_TRY(take_key(n, &keys[i], bank));
  GCONV_TRY(check_kernel_shape(n, bank));
  if (!given && (bank->pad_top || bank->pad_left || bank->pad_bottom || bank->pad_right))
    return fail_value(n, "pads", "contradicts its 'auto_pad'");
  return gconv_bank_check_geometry(bank->name ? bank->name : "Conv", GCONV_BAD_FILE, bank);
}

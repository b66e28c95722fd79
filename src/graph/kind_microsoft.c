/* SPDX-License-Identifier: MIT */
/*
 * Operators of ONNX Runtime for quantised numbers, in the domain com.microsoft: QLinearAdd, QLinearConcat and others, as its
 * tool for quantisation writes them. Inputs become float32, an operator of the standard computes, and its result is rounded
 * to integers again. ONNX Runtime does the same in another order of roundings: so a result may differ by 1.
 */
#include "bank/onnx_rules.h"
#include "base/memory.h"
#include "graph/node.h"

#include <math.h>

enum { MOST = 32, SETTINGS = 2048 };

/* An operator of the standard, and the places of inputs. After each quantised input come its scale and its zero point.
 * `result` is the place of the scale of the result; its zero point comes next. */
typedef struct form {
  const char *operator;
  int32_t first, result; /* inputs: first, first + 3 ... */
} form;
enum { ADDED, MULTIPLIED, JOINED, SIGMOID_OF, LEAKY_OF, MEANS };
static const form forms[] = {
    [ADDED] = {"Add", 0, 6},          [MULTIPLIED] = {"Mul", 0, 6},     [JOINED] = {"Concat", 2, 0},
    [SIGMOID_OF] = {"Sigmoid", 0, 3}, [LEAKY_OF] = {"LeakyRelu", 0, 3}, [MEANS] = {"GlobalAveragePool", 0, 3}};

static const gconv_node_kind *inner_kind(int32_t code) {
  return gconv_node_kind_find(forms[code].operator, GCONV_NEWEST_OPSET);
}

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *settings) {
  const gconv_node_kind *inner = inner_kind(kind->code);
  if (inner->settings_bytes > SETTINGS)
    return gconv_fail(GCONV_UNSUPPORTED, "has too many settings");
  if (gconv_onnx_integer_of(node, "channels_last", 0) != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "has its channels last");
  return inner->parse ? inner->parse(node, inner, opset, settings) : GCONV_OK;
}

/* The node of the standard, which computes on floats. */
typedef struct inside {
  gconv_tensor tensors[MOST], made;
  const gconv_tensor *in[MOST];
  gconv_tensor *out[1];
  gconv_node_work work;
} inside;

/* Lists the inputs of that node, as tensors of floats without elements. */
static gconv_status look_inside(const gconv_node_work *work, int32_t code, inside *i) {
  const form *f = &forms[code];
  const int32_t end = f->result > f->first ? f->result : work->in_count;
  *i = (inside){.work = *work};
  i->work.in_count = 0;
  for (int32_t n = 0; f->first + 3 * n < end; n++) {
    const int32_t at = f->first + 3 * n;
    if (n >= MOST || at + 2 >= work->in_count || !work->in[at] || !work->in[at + 1] || !work->in[at + 2] ||
        gconv_tensor_elements(work->in[at + 1]) != 1 || gconv_tensor_elements(work->in[at + 2]) != 1)
      return gconv_fail(GCONV_UNSUPPORTED, "needs for each of at most %d inputs one scale and one zero point", MOST);
    i->tensors[n] = *work->in[at];
    i->tensors[n].type = GCONV_TENSOR_F32;
    i->tensors[n].data = NULL;
    i->in[n] = &i->tensors[n];
    i->work.in_count = n + 1;
  }
  const gconv_tensor *scale = work->in[f->result], *zero = work->in[f->result + 1];
  if (!scale || !zero || gconv_tensor_elements(scale) != 1 || gconv_tensor_elements(zero) != 1 ||
      (zero->type != GCONV_TENSOR_U8 && zero->type != GCONV_TENSOR_I8))
    return gconv_fail(GCONV_UNSUPPORTED, "needs one scale and one zero point of int8 or uint8 of its result");
  i->out[0] = &i->made;
  i->work.in = i->in;
  i->work.out = i->out;
  i->work.out_count = 1;
  return GCONV_OK;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_node_kind *inner = inner_kind(kind->code);
  inside i;
  GCONV_TRY(look_inside(work, kind->code, &i));
  GCONV_TRY(inner->shape(&i.work, inner));
  gconv_node_set(work, 0, work->in[forms[kind->code].result + 1]->type, i.made.axes, i.made.shape);
  return GCONV_OK;
}

static void dequantize(const gconv_tensor *const *in, const gconv_tensor *to) {
  const float scale = (float)gconv_tensor_number(in[1], 0), zero = (float)gconv_tensor_number(in[2], 0);
  for (int64_t i = 0; i < gconv_tensor_elements(to); i++)
    ((float *)to->data)[i] = ((float)gconv_tensor_integer(in[0], i) - zero) * scale;
}

static void quantize(const gconv_tensor *from, const gconv_tensor *scales, const gconv_tensor *zeros,
                     const gconv_tensor *to) {
  const float scale = (float)gconv_tensor_number(scales, 0), zero = (float)gconv_tensor_number(zeros, 0);
  const float least = to->type == GCONV_TENSOR_U8 ? 0 : INT8_MIN, most = to->type == GCONV_TENSOR_U8 ? UINT8_MAX : INT8_MAX;
  for (int64_t i = 0; i < gconv_tensor_elements(to); i++) {
    const float q = rintf(((const float *)from->data)[i] / scale) + zero;
    const int32_t n = (int32_t)(q >= least ? q > most ? most : q : least);
    ((uint8_t *)to->data)[i] = (uint8_t)n;
  }
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const form *f = &forms[kind->code];
  const gconv_node_kind *inner = inner_kind(kind->code);
  size_t count = (size_t)gconv_tensor_elements(work->out[0]);
  GCONV_FREED void *memory = NULL;
  inside i;
  GCONV_TRY(look_inside(work, kind->code, &i));
  for (int32_t n = 0; n < i.work.in_count; n++)
    count += (size_t)gconv_tensor_elements(i.in[n]);
  GCONV_TRY(gconv_allocate(count * sizeof(float), "floats of quantised numbers", &memory));
  float *next = memory;
  for (int32_t n = 0; n < i.work.in_count; n++) {
    i.tensors[n].data = next;
    next += gconv_tensor_elements(i.in[n]);
    dequantize(&work->in[f->first + 3 * n], i.in[n]);
  }
  i.made = *work->out[0];
  i.made.type = GCONV_TENSOR_F32;
  i.made.data = next;
  GCONV_TRY(inner->run(&i.work, inner));
  quantize(&i.made, work->in[f->result], work->in[f->result + 1], work->out[0]);
  return GCONV_OK;
}

static rules none = {END}, axis = {INT("axis", 1, NEWEST), END}, alpha = {FLOAT("alpha", 1, NEWEST), END};
static rules channels = {INT("channels_last", 1, NEWEST), END};

#define ROW(name, least, most, rules, code)                                                                                 \
  GCONV_NODE_KIND("com.microsoft." name, 1, NEWEST, least, most, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, rules,      \
                  code, SETTINGS, parse, shape, run, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_microsoft[] = {
    ROW("QLinearAdd", 8, 8, none, ADDED),
    ROW("QLinearMul", 8, 8, none, MULTIPLIED),
    ROW("QLinearConcat", 5, 3 * MOST + 2, axis, JOINED),
    ROW("QLinearSigmoid", 5, 5, none, SIGMOID_OF),
    ROW("QLinearLeakyRelu", 5, 5, alpha, LEAKY_OF),
    ROW("QLinearGlobalAveragePool", 5, 5, channels, MEANS),
    GCONV_NODE_KIND_END,
};

/* SPDX-License-Identifier: MIT */
/* Nodes that make numbers of shapes, and numbers of other types: Shape, Size, ConstantOfShape, Range, Cast, CastLike. */
#include "bank/onnx_rules.h"
#include "base/element.h"
#include "base/memory.h"
#include "graph/node.h"
#include "kernels/cuda/graph/graph.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct settings {
  int64_t start, end, to;
  bool has_end;
  gconv_tensor_type type; /* type of ConstantOfShape */
  uint64_t bits;          /* the bits of its element */
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  gconv_tensor value;
  (void)kind;
  (void)opset;
  s->start = gconv_onnx_integer_of(node, "start", 0);
  s->has_end = gconv_onnx_find_attribute(node, "end") != NULL;
  s->end = gconv_onnx_integer_of(node, "end", 0);
  s->to = gconv_onnx_integer_of(node, "to", 0);
  GCONV_TRY(gconv_node_attribute_tensor(node, "value", &value));
  s->type = value.type;
  gconv_status status = GCONV_OK;
  if (value.data && gconv_tensor_elements(&value) != 1)
    status = gconv_fail(GCONV_BAD_FILE, "has a value of %" PRId64 " elements, not of 1", gconv_tensor_elements(&value));
  else if (value.data)
    memcpy(&s->bits, value.data, gconv_tensor_type_bytes(value.type));
  gconv_release(value.data);
  return status;
}

/* ---- Shape, Size ---- */

/* Shape yields the sizes of axes begin .. end - 1. */
static void shown_axes(const gconv_node_work *work, int64_t *begin, int64_t *end) {
  const settings *s = work->settings;
  const int64_t axes = work->in[0]->axes;
  *begin = s->start < 0 ? s->start + axes : s->start;
  *end = !s->has_end ? axes : s->end < 0 ? s->end + axes : s->end;
  *begin = *begin < 0 ? 0 : *begin > axes ? axes : *begin;
  *end = *end < *begin ? *begin : *end > axes ? axes : *end;
}

static gconv_status shape_shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  int64_t begin, end;
  (void)kind;
  shown_axes(work, &begin, &end);
  const int64_t count = end - begin;
  gconv_node_set(work, 0, GCONV_TENSOR_I64, 1, &count);
  return GCONV_OK;
}

static gconv_status run_shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  int64_t begin, end, *to = work->out[0]->data;
  (void)kind;
  shown_axes(work, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    *to++ = work->in[0]->shape[i];
  return GCONV_OK;
}

static gconv_status shape_size(const gconv_node_work *work, const gconv_node_kind *kind) {
  (void)kind;
  gconv_node_set(work, 0, GCONV_TENSOR_I64, 0, NULL);
  return GCONV_OK;
}

static gconv_status run_size(const gconv_node_work *work, const gconv_node_kind *kind) {
  (void)kind;
  *(int64_t *)work->out[0]->data = gconv_tensor_elements(work->in[0]);
  return GCONV_OK;
}

/* ---- ConstantOfShape, Range ---- */

static gconv_status shape_constant(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_node_integers shape;
  (void)kind;
  GCONV_TRY(gconv_node_read_integers(work, 0, "shape", &shape));
  if (shape.count > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of %d axes: %d is the most", shape.count, GCONV_TENSOR_AXES);
  gconv_node_set(work, 0, gconv_node_type(work, s->type), shape.count, shape.number);
  return GCONV_OK;
}

static gconv_status run_constant(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *out = work->out[0];
  const size_t each = gconv_tensor_type_bytes(out->type);
  const gconv_tensor value = {.type = s->type, .data = (void *)&s->bits};
  uint64_t bits = s->bits;
  (void)kind;
  if (out->type != s->type)
    gconv_tensor_convert(&value, &(gconv_tensor){.type = out->type, .data = &bits}, 0, 1);
  for (int64_t i = 0; i < gconv_tensor_elements(out); i++)
    memcpy((char *)out->data + (size_t)i * each, &bits, each);
  return GCONV_OK;
}

static gconv_status shape_range(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor_type type = work->in[0]->type;
  (void)kind;
  for (int32_t i = 0; i < 3; i++)
    if (work->in[i]->type != type || gconv_tensor_elements(work->in[i]) != 1 || type == GCONV_TENSOR_BOOL)
      return gconv_fail(GCONV_BAD_FILE, "needs a start, a limit and a step of one number each, and of one type");
  const double start = gconv_tensor_number(work->in[0], 0), limit = gconv_tensor_number(work->in[1], 0),
               step = gconv_tensor_number(work->in[2], 0);
  const double count = ceil((limit - start) / step);
  if (step == 0 || !(fabs(count) < 0x1p40))
    return gconv_fail(GCONV_BAD_FILE, "counts from %g to %g by %g", start, limit, step);
  const int64_t shape = count > 0 ? (int64_t)count : 0;
  gconv_node_set(work, 0, type, 1, &shape);
  return GCONV_OK;
}

static gconv_status run_range(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *out = work->out[0], *start = work->in[0], *step = work->in[2];
  (void)kind;
  for (int64_t i = 0; i < out->shape[0]; i++) {
    const double real = gconv_tensor_number(start, 0) + (double)i * gconv_tensor_number(step, 0);
    switch (out->type) {
    case GCONV_TENSOR_F32:
      ((float *)out->data)[i] = *(const float *)start->data + (float)i * *(const float *)step->data;
      break;
    case GCONV_TENSOR_F64:
      ((double *)out->data)[i] = real;
      break;
#define COUNT(name, type, code)                                                                                             \
  case GCONV_TENSOR_##name:                                                                                                 \
    ((type *)out->data)[i] = (type)(gconv_tensor_integer(start, 0) + i * gconv_tensor_integer(step, 0));                    \
    break;
      GCONV_EACH_TENSOR_INTEGER(COUNT)
#undef COUNT
    }
  }
  return GCONV_OK;
}

/* ---- Cast ---- */

/* Finds the type for a TensorProto.DataType. */
static gconv_status type_of(int64_t number, gconv_tensor_type *type) {
  return gconv_tensor_type_of_onnx(number, type)
             ? GCONV_OK
             : gconv_fail(GCONV_UNSUPPORTED, "makes %s numbers, which are not computed here",
                          *gconv_onnx_type_name(number) ? gconv_onnx_type_name(number) : "unknown");
}

static gconv_status shape_cast(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_tensor_type type = work->in_count > 1 ? work->in[1]->type : GCONV_TENSOR_F32;
  (void)kind;
  if (work->in_count == 1)
    GCONV_TRY(type_of(s->to, &type));
  gconv_node_set(work, 0, gconv_node_type(work, type), work->in[0]->axes, work->in[0]->shape);
  return GCONV_OK;
}

enum { FLOAT16 = GCONV_ONNX_FLOAT16, BFLOAT16 = GCONV_ONNX_BFLOAT16 };

/* Rounds to the nearest number of a type of 16 bits, ties to even. The result is float32 again. */
static float narrow(float x, int64_t type) {
  const gconv_element half = {'f', sizeof(uint16_t), gconv_host_is_big_endian()};
  uint16_t narrowed;
  uint32_t bits;
  if (type == FLOAT16) {
    gconv_elements_make('f', &x, 1, 1, &narrowed);
    return gconv_element_read(half, (const uint8_t *)&narrowed);
  }
  if (type != BFLOAT16 || x != x)
    return x;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  memcpy(&x, &bits, sizeof x);
  return x;
}

typedef struct cast {
  const gconv_tensor *in, *out;
  int64_t to; /* the type that the model names */
} cast;

static void cast_part(void *context, int64_t begin, int64_t end) {
  const cast *c = context;
  gconv_tensor_convert(c->in, c->out, begin, end);
  for (int64_t i = begin; i < end && (c->to == FLOAT16 || c->to == BFLOAT16); i++)
    if (c->out->type == GCONV_TENSOR_F32)
      ((float *)c->out->data)[i] = narrow(((const float *)c->out->data)[i], c->to);
    else
      ((double *)c->out->data)[i] = (double)narrow((float)((const double *)c->out->data)[i], c->to);
}

static gconv_status run_cast(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  cast c = {work->in[0], work->out[0], s->to};
  (void)kind;
  if (c.in->type == c.out->type && c.to != FLOAT16 && c.to != BFLOAT16)
    memcpy(c.out->data, c.in->data, (size_t)gconv_tensor_elements(c.in) * gconv_tensor_type_bytes(c.in->type));
  else
    gconv_node_share(work, gconv_tensor_elements(c.in), 1 << 14, cast_part, &c);
  return GCONV_OK;
}

static gconv_status cuda_cast(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_gpu_cast job = {.in = work->in[0]->there,
                              .out = work->out[0]->there,
                              .count = gconv_tensor_elements(work->in[0]),
                              .in_type = work->in[0]->type,
                              .out_type = work->out[0]->type,
                              .to_half = s->to == FLOAT16,
                              .to_brain = s->to == BFLOAT16};
  (void)kind;
  return gconv_gpu_cast_run(&job, work->stream);
}

/* ---- The table ---- */

static rules none = {END}, span = {INT("start", 15, NEWEST), INT("end", 15, NEWEST), END}, value = {TENSOR("value"), END};
static rules to = {INT("to", 1, NEWEST), INT("saturate", 19, NEWEST), STRING("round_mode"), END};
static rules like = {INT("saturate", 19, NEWEST), STRING("round_mode"), END};

#define ROW(name, since, least, most, known, unread, reach, rules, shape, run, cuda)                                        \
  GCONV_NODE_KIND(name, since, NEWEST, least, most, 1, 1, known, unread, GCONV_MEMORY_OWN, reach, rules, 0,                 \
                  sizeof(settings), parse, shape, run, cuda, NULL, NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_constant[] = {
    ROW("Shape", 1, 1, 1, 0, 1, GCONV_REACH_ALL, span, shape_shape, run_shape, GCONV_NOT_ON_CUDA),
    ROW("Size", 1, 1, 1, 0, 1, GCONV_REACH_ALL, none, shape_size, run_size, GCONV_NOT_ON_CUDA),
    ROW("ConstantOfShape", 9, 1, 1, 1, 0, GCONV_REACH_ALL, value, shape_constant, run_constant, GCONV_NOT_ON_CUDA),
    ROW("Range", 11, 3, 3, 7, 0, GCONV_REACH_ALL, none, shape_range, run_range, GCONV_NOT_ON_CUDA),
    ROW("Cast", 6, 1, 1, 0, 0, GCONV_REACH_POINT, to, shape_cast, run_cast, cuda_cast),
    ROW("CastLike", 15, 2, 2, 0, 2, GCONV_REACH_POINT, like, shape_cast, run_cast, cuda_cast),
    GCONV_NODE_KIND_END,
};

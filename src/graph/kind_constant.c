/* SPDX-License-Identifier: MIT */
/* Nodes that make shapes or constants, or convert types: Shape, Size, ConstantOfShape, Range, Cast, CastLike. */
#include "bank/onnx_rules.h"
#include "base/memory.h"
#include "graph/narrow.h"
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
  bool saturates;         /* for Cast: numbers that are too large become the largest */
  gconv_narrow_rounding rounding;
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  static const char *const roundings[] = {"up", "down", "nearest", NULL};
  settings *s = made;
  gconv_tensor value;
  int32_t rounding = GCONV_NARROW_UP;
  s->start = gconv_onnx_integer_of(node, "start", 0);
  s->has_end = gconv_onnx_find_attribute(node, "end") != NULL;
  s->end = gconv_onnx_integer_of(node, "end", 0);
  s->to = gconv_onnx_integer_of(node, "to", 0);
  s->saturates = gconv_onnx_integer_of(node, "saturate", 1) != 0;
  GCONV_TRY(gconv_node_attribute_choice(node, "round_mode", roundings, &rounding));
  s->rounding = (gconv_narrow_rounding)rounding;
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
  shown_axes(work, &begin, &end);
  const int64_t count = end - begin;
  gconv_node_set(work, 0, GCONV_TENSOR_I64, 1, &count);
  return GCONV_OK;
}

static gconv_status run_shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  int64_t begin, end, *to = work->out[0]->data;
  shown_axes(work, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    *to++ = work->in[0]->shape[i];
  return GCONV_OK;
}

static gconv_status shape_size(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_node_set(work, 0, GCONV_TENSOR_I64, 0, NULL);
  return GCONV_OK;
}

static gconv_status run_size(const gconv_node_work *work, const gconv_node_kind *kind) {
  *(int64_t *)work->out[0]->data = gconv_tensor_elements(work->in[0]);
  return GCONV_OK;
}

/* ---- ConstantOfShape, Range ---- */

static gconv_status shape_constant(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_node_integers shape;
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
  if (out->type != s->type)
    gconv_tensor_convert(&value, &(gconv_tensor){.type = out->type, .data = &bits}, 0, 1);
  for (int64_t i = 0; i < gconv_tensor_elements(out); i++)
    memcpy((char *)out->data + (size_t)i * each, &bits, each);
  return GCONV_OK;
}

static gconv_status shape_range(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor_type type = work->in[0]->type;
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

/* Returns the type of the result, as ONNX numbers it. */
static int64_t wanted_type(const gconv_node_work *work) {
  const settings *s = work->settings;
  return work->in_count > 1 ? gconv_tensor_type_in_model(work->in[1]) : s->to;
}

static gconv_status shape_cast(const gconv_node_work *work, const gconv_node_kind *kind) {
  const int64_t wanted = wanted_type(work);
  gconv_tensor_type type;
  int32_t narrow;
  if (!gconv_tensor_type_of_onnx(wanted, &type, &narrow))
    return gconv_fail(GCONV_UNSUPPORTED, "makes %s numbers, which are not computed here",
                      *gconv_onnx_type_name(wanted) ? gconv_onnx_type_name(wanted) : "unknown");
  gconv_node_set(work, 0, gconv_node_type(work, type), work->in[0]->axes, work->in[0]->shape);
  work->out[0]->narrow = narrow;
  return GCONV_OK;
}

typedef struct cast {
  const gconv_tensor *in, *out;
  int64_t narrow; /* the type that the model names, if it is narrow; or 0 */
  bool saturates;
  gconv_narrow_rounding rounding;
} cast;

static void cast_part(void *context, int64_t begin, int64_t end) {
  const cast *c = context;
  gconv_tensor_convert(c->in, c->out, begin, end);
  for (int64_t i = begin; i < end && c->narrow != 0; i++)
    switch (c->out->type) {
    case GCONV_TENSOR_F32: {
      float *x = (float *)c->out->data + i;
      *x = (float)gconv_narrow_round((double)*x, c->narrow, c->saturates, c->rounding);
      break;
    }
    case GCONV_TENSOR_F64: {
      double *x = (double *)c->out->data + i;
      *x = gconv_narrow_round(*x, c->narrow, c->saturates, c->rounding);
      break;
    }
    default: { /* int8 or uint8 */
      int8_t *x = (int8_t *)c->out->data + i;
      *x = (int8_t)gconv_narrow_wrap(*x, c->narrow);
    }
    }
}

static gconv_status run_cast(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const cast c = {work->in[0], work->out[0], work->out[0]->narrow, s->saturates, s->rounding};
  if (c.in->type == c.out->type && c.narrow == 0)
    memcpy(c.out->data, c.in->data, (size_t)gconv_tensor_elements(c.in) * gconv_tensor_type_bytes(c.in->type));
  else
    gconv_node_share(work, gconv_tensor_elements(c.in), 1 << 14, cast_part, (void *)&c);
  return GCONV_OK;
}

static gconv_status cuda_cast(const gconv_node_work *work, const gconv_node_kind *kind) {
  const int32_t narrow = work->out[0]->narrow;
  const gconv_gpu_cast job = {.in = work->in[0]->there,
                              .out = work->out[0]->there,
                              .count = gconv_tensor_elements(work->in[0]),
                              .in_type = work->in[0]->type,
                              .out_type = work->out[0]->type,
                              .to_half = narrow == GCONV_ONNX_FLOAT16,
                              .to_brain = narrow == GCONV_ONNX_BFLOAT16};
  if (gconv_narrow_in_byte(narrow) > 0)
    return gconv_fail(GCONV_UNSUPPORTED, "makes %s numbers, which GPUs do not", gconv_onnx_type_name(narrow));
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

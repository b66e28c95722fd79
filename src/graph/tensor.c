/* SPDX-License-Identifier: MIT */
#include "bank/onnx.h"
#include "graph/narrow.h"

#include "base/file.h"
#include "kernels/layer_algorithm.h"

#include <inttypes.h>
#include <stdio.h>

static const int64_t MOST_ELEMENTS = 1LL << 40;

size_t gconv_tensor_type_bytes(gconv_tensor_type type) {
#define BYTES(name, type, number)                                                                                           \
  case GCONV_TENSOR_##name:                                                                                                 \
    return sizeof(type);
  switch (type) { GCONV_EACH_TENSOR_TYPE(BYTES) }
  return 0;
}

const char *gconv_tensor_type_name(gconv_tensor_type type) {
  return gconv_onnx_type_name(type);
}

bool gconv_tensor_type_of_onnx(int64_t number, gconv_tensor_type *type, int32_t *narrow) {
  const bool half = number == GCONV_ONNX_FLOAT16 || number == GCONV_ONNX_BFLOAT16;
  const bool wider = gconv_narrow_type(number, type) || half;
  if (!wider || half)
    *type = half ? GCONV_TENSOR_F32 : (gconv_tensor_type)number;
  if (narrow)
    *narrow = wider ? (int32_t)number : 0;
  return wider || (number >= 0 && number <= GCONV_ONNX_BFLOAT16 && gconv_tensor_type_bytes(*type) > 0);
}

double gconv_tensor_number(const gconv_tensor *t, int64_t i) {
#define NUMBER(name, type, number)                                                                                          \
  case GCONV_TENSOR_##name:                                                                                                 \
    return (double)((const type *)t->data)[i];
  switch (t->type) { GCONV_EACH_TENSOR_TYPE(NUMBER) }
  return 0;
}

/* NaN becomes 0, and numbers out of range the nearest in range. */
static int64_t whole(double x) {
  return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

static uint64_t natural(double x) {
  return x >= 0x1p64 ? UINT64_MAX : x >= 0x1p63 ? (uint64_t)x : (uint64_t)whole(x);
}

/* An element of any type, in the widest types: `real` is near to `whole` if the element is an integer. */
typedef struct element {
  double real;
  int64_t whole;
} element;

static element element_of(const gconv_tensor *t, int64_t i) {
#define WHOLE(name, type, number)                                                                                           \
  case GCONV_TENSOR_##name:                                                                                                 \
    return (element){(double)((const type *)t->data)[i], (int64_t)((const type *)t->data)[i]};
  switch (t->type) {
  case GCONV_TENSOR_F32:
  case GCONV_TENSOR_F64: {
    const double x = gconv_tensor_number(t, i);
    return (element){x, whole(x)};
  }
    GCONV_EACH_TENSOR_INTEGER(WHOLE)
  }
  return (element){0, 0};
}

int64_t gconv_tensor_integer(const gconv_tensor *t, int64_t i) {
  const element e = element_of(t, i);
  return t->type == GCONV_TENSOR_U64 && e.whole < 0 ? INT64_MAX : e.whole;
}

void gconv_tensor_convert(const gconv_tensor *from, const gconv_tensor *to, int64_t begin, int64_t end) {
  const bool reals = gconv_tensor_type_is_real(from->type), naturals = from->type == GCONV_TENSOR_U64;
  for (int64_t i = begin; i < end; i++) {
    const element e = element_of(from, i);
    switch (to->type) {
    case GCONV_TENSOR_F32:
      ((float *)to->data)[i] = reals ? (float)e.real : naturals ? (float)(uint64_t)e.whole : (float)e.whole;
      break;
    case GCONV_TENSOR_F64:
      ((double *)to->data)[i] = e.real;
      break;
    case GCONV_TENSOR_BOOL:
      ((bool *)to->data)[i] = e.real != 0;
      break;
    case GCONV_TENSOR_U64:
      ((uint64_t *)to->data)[i] = reals ? natural(e.real) : (uint64_t)e.whole;
      break;
#define STORE(name, type, number)                                                                                           \
  case GCONV_TENSOR_##name:                                                                                                 \
    ((type *)to->data)[i] = (type)e.whole;                                                                                  \
    break;
      GCONV_EACH_TENSOR_INT64(STORE)
    }
  }
}

int64_t gconv_tensor_count(const gconv_tensor *tensor, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t axis = first; axis < end; axis++)
    count *= tensor->shape[axis];
  return count;
}

gconv_status gconv_tensor_check(const gconv_tensor *tensor) {
  int64_t count = 1;
  if (tensor->axes < 0 || tensor->axes > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "has a tensor of %d axes: there can be %d", tensor->axes, GCONV_TENSOR_AXES);
  for (int32_t i = 0; i < tensor->axes; i++)
    if (tensor->shape[i] < 0 || tensor->shape[i] > MOST_ELEMENTS)
      return gconv_fail(GCONV_BAD_FILE, "has a tensor whose axis %d has the size %" PRId64, i, tensor->shape[i]);
  for (int32_t i = 0; i < tensor->axes; i++) { /* an axis of size 0 does not hide that the other axes are too large */
    const int64_t size = tensor->shape[i] > 0 ? tensor->shape[i] : 1;
    if (count > MOST_ELEMENTS / size)
      return gconv_fail(GCONV_TOO_LARGE, "has a tensor of more than 2^40 elements");
    count *= size;
  }
  return GCONV_OK;
}

void gconv_tensor_shape_text(const gconv_tensor *tensor, char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "%s", tensor->axes == 0 ? "a scalar" : "");
  for (int32_t i = 0; i < tensor->axes && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i == 0 ? "" : " x ", tensor->shape[i]);
}

gconv_status gconv_tensor_axis(int64_t number, int32_t axes, int32_t *axis) {
  if (number < -(int64_t)axes || number >= axes)
    return gconv_fail(GCONV_BAD_FILE, "has the axis %" PRId64 " of a tensor of %d axes", number, axes);
  *axis = (int32_t)(number < 0 ? number + axes : number);
  return GCONV_OK;
}

void gconv_tensor_view_blocks(const gconv_tensor *t, gconv_tensor *view) {
  *view = *t;
  if (!t->blocks && !gconv_tensor_is_point(t))
    return;
  view->blocks = false;
  view->axes = 5;
  view->shape[1] = gconv_layer_image_floats(t->shape[1], 1, true) / GCONV_BLOCK;
  view->shape[4] = GCONV_BLOCK;
}

size_t gconv_tensor_bytes(const gconv_tensor *t) {
  gconv_tensor view = *t;
  if (t->blocks)
    gconv_tensor_view_blocks(t, &view);
  return (size_t)gconv_tensor_elements(&view) * gconv_tensor_type_bytes(t->type);
}

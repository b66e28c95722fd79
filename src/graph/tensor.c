/* SPDX-License-Identifier: MIT */
#include "graph/tensor.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const int64_t MOST_ELEMENTS = 1LL << 40;

size_t gconv_tensor_type_bytes(gconv_tensor_type type) {
#define BYTES(name, type, number)                                                                                           \
  case GCONV_TENSOR_##name:                                                                                                 \
    return sizeof(type);
  switch (type) { GCONV_EACH_TENSOR_TYPE(BYTES) }
  return 0;
}

const char *gconv_tensor_type_name(gconv_tensor_type type) {
  static const char *const names[] = {
      [GCONV_TENSOR_F32] = "float32", [GCONV_TENSOR_U8] = "uint8",  [GCONV_TENSOR_I8] = "int8",
      [GCONV_TENSOR_I32] = "int32",   [GCONV_TENSOR_I64] = "int64", [GCONV_TENSOR_BOOL] = "bool"};
  return (size_t)type < sizeof names / sizeof *names && names[type] ? names[type] : "no type";
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
  for (int32_t i = 0; i < tensor->axes; i++) { /* an axis of size 0 does not hide that the others are too large */
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

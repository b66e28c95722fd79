/* SPDX-License-Identifier: MIT */
/* Tensors of graphs: dense arrays of up to 8 axes, the last axis fastest. */
#pragma once

#include "base/both.h"
#include "base/status.h"

GCONV_C_BEGIN

/* The types of elements: the name, the type in C, and the number in ONNX's TensorProto.DataType. First the integers that an
 * int64_t holds, then all integers, then all types. Floating-point numbers of 4, 8 and 16 bits become F32 when they are
 * read, and integers of 2 and 4 bits I8 or U8. */
#define GCONV_EACH_TENSOR_INT64(ROW)                                                                                        \
  ROW(U8, uint8_t, 2)                                                                                                       \
  ROW(I8, int8_t, 3)                                                                                                        \
  ROW(U16, uint16_t, 4)                                                                                                     \
  ROW(I16, int16_t, 5)                                                                                                      \
  ROW(I32, int32_t, 6)                                                                                                      \
  ROW(U32, uint32_t, 12)                                                                                                    \
  ROW(I64, int64_t, 7)
#define GCONV_EACH_TENSOR_INTEGER(ROW)                                                                                      \
  GCONV_EACH_TENSOR_INT64(ROW)                                                                                              \
  ROW(U64, uint64_t, 13)                                                                                                    \
  ROW(BOOL, bool, 9)
#define GCONV_EACH_TENSOR_TYPE(ROW)                                                                                         \
  GCONV_EACH_TENSOR_INTEGER(ROW)                                                                                            \
  ROW(F32, float, 1)                                                                                                        \
  ROW(F64, double, 11)

#define GCONV_TENSOR_LISTED(name, type, number) GCONV_TENSOR_##name = number,
typedef enum gconv_tensor_type { GCONV_EACH_TENSOR_TYPE(GCONV_TENSOR_LISTED) } gconv_tensor_type;

enum { GCONV_TENSOR_AXES = 8, GCONV_TENSOR_TYPES = 14 /* one more than the largest number of a type */ };

/* A scalar has no axes, and one element. */
typedef struct gconv_tensor {
  gconv_tensor_type type;
  int32_t axes;
  int32_t narrow; /* if elements are narrower in the model (narrow.h): their type, as ONNX numbers it; else 0 */
  bool blocks;    /* of 4 axes, N x C x H x W: the elements are N x C/16 x H x W x 16, C rounded up. Channels beyond C do not
                     matter */
  int64_t shape[GCONV_TENSOR_AXES]; /* each at least 0 */
  void *data;                       /* NULL: the elements are not known yet, or are on a GPU alone */
  void *there;                      /* in memory of the GPU that computes; NULL on the CPU */
} gconv_tensor;

/* Returns the bytes of an element. */
size_t gconv_tensor_type_bytes(gconv_tensor_type type);
/* Returns "float32", "int64" and so on. */
const char *gconv_tensor_type_name(gconv_tensor_type type);
/* Whether elements are float32 or float64. */
static inline bool gconv_tensor_type_is_real(gconv_tensor_type type) {
  return type == GCONV_TENSOR_F32 || type == GCONV_TENSOR_F64;
}
/* Sets *type to the type that stores elements of TensorProto.DataType `number`, and *narrow to `number` if that is wider,
 * else to 0; narrow may be NULL. Returns false if there is no such type. */
bool gconv_tensor_type_of_onnx(int64_t number, gconv_tensor_type *type, int32_t *narrow);
/* Returns the TensorProto.DataType of the elements, as the model has it. */
static inline int64_t gconv_tensor_type_in_model(const gconv_tensor *tensor) {
  return tensor->narrow != 0 ? tensor->narrow : (int64_t)tensor->type;
}

/* Returns the number of elements of axes first .. end - 1: 1 if there are none. Shapes that gconv_tensor_check() accepts do
 * not overflow. */
int64_t gconv_tensor_count(const gconv_tensor *tensor, int32_t first, int32_t end);
/* Returns the number of elements. */
static inline int64_t gconv_tensor_elements(const gconv_tensor *tensor) {
  return gconv_tensor_count(tensor, 0, tensor->axes);
}

/* Returns whether blocks do not change the order of elements: there is one image, and each channel is one number. */
static inline bool gconv_tensor_is_point(const gconv_tensor *tensor) {
  return tensor->axes == 4 && tensor->shape[0] * tensor->shape[2] * tensor->shape[3] == 1;
}
/* Sets *view to a tensor in blocks as a dense array of 5 axes. A tensor that gconv_tensor_is_point() counts as one in
 * blocks. */
void gconv_tensor_view_blocks(const gconv_tensor *tensor, gconv_tensor *view);

/* Returns the bytes of all elements; of a tensor in blocks, also those of channels beyond C. */
size_t gconv_tensor_bytes(const gconv_tensor *tensor);

/* Returns element number `i`, as float64. */
double gconv_tensor_number(const gconv_tensor *tensor, int64_t i);
/* Returns element number `i` of a tensor of integers: numbers of uint64 above INT64_MAX become INT64_MAX. */
int64_t gconv_tensor_integer(const gconv_tensor *tensor, int64_t i);
/* Converts elements begin .. end - 1 to the type of `to`, as Cast does: integers wrap around, floating-point numbers are cut
 * off towards 0, and all but 0 are true. NaN becomes 0, and numbers beyond 64 bits the nearest that fit. */
void gconv_tensor_convert(const gconv_tensor *from, const gconv_tensor *to, int64_t begin, int64_t end);

/* Fails if the shape has a negative size, too many axes, or more than 2^40 elements. */
gconv_status gconv_tensor_check(const gconv_tensor *tensor);

/* Writes "1 x 3 x 224 x 224", or "a scalar". */
void gconv_tensor_shape_text(const gconv_tensor *tensor, char *text, size_t size);

/* Sets *axis to 0 .. axes - 1. A negative number counts from the end, -1 is the last axis. Fails if it is out of range. */
gconv_status gconv_tensor_axis(int64_t number, int32_t axes, int32_t *axis);

GCONV_C_END

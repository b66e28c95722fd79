/* SPDX-License-Identifier: MIT */
/* Tensors of ONNX models: onnx.c finds them, onnx_tensor.c reads their numbers. Field numbers are those of onnx.proto. */
#ifndef GCONV_BANK_ONNX_H
#define GCONV_BANK_ONNX_H

#include "bank/protobuf.h"
#include "bank/syntax.h"

typedef struct gconv_onnx_tensor {
  char *name; /* owned */
  int64_t type;
  size_t dimensions;
  int64_t shape[GCONV_BANK_DIMENSIONS];
  uint64_t at, end;    /* of its message in the file */
  uint64_t data_bytes; /* in fields of data: at least as many as numbers */
  bool external;       /* the numbers are in a file of their own */
} gconv_onnx_tensor;

/* "float16"; "" for types without a name here. */
const char *gconv_onnx_type_name(int64_t type);

/* Whether its numbers are of a type that is read: FLOAT, DOUBLE, FLOAT16, BFLOAT16. */
bool gconv_onnx_is_floating(const gconv_onnx_tensor *tensor);

/* Takes what is to be known of the tensor in a field of `message`. The name is empty if it has none. On failure free it too.
 */
gconv_status gconv_onnx_tensor_find(const gconv_message_reader *message, const gconv_field_value *field,
                                    gconv_onnx_tensor *tensor);

/* Fails unless the tensor, of a type that is read, can have `count` numbers in the bytes that it has. */
gconv_status gconv_onnx_tensor_check(const gconv_bank_file *file, const gconv_onnx_tensor *tensor, uint64_t count);

/* Reads its `count` numbers, which have been checked. */
gconv_status gconv_onnx_tensor_read(gconv_bank_file *file, const gconv_onnx_tensor *tensor, size_t count, float *numbers);

#endif

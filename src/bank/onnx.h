/* SPDX-License-Identifier: MIT */
/* Tensors of ONNX models. onnx.c finds them, onnx_tensor.c reads their numbers. Field numbers are those of onnx.proto. */
#ifndef GCONV_BANK_ONNX_H
#define GCONV_BANK_ONNX_H

#include "bank/protobuf.h"
#include "bank/syntax.h"

/* A file beside the model, as the system knows it: several names may lead to it. */
typedef struct gconv_onnx_file {
  uint64_t device, number, bytes; /* all 0: it cannot be looked at */
} gconv_onnx_file;

typedef struct gconv_onnx_tensor {
  char *name; /* owned */
  int64_t type;
  size_t dimensions;
  int64_t shape[GCONV_BANK_DIMENSIONS];
  uint64_t at, end;    /* of its message in the file */
  uint64_t data_bytes; /* bytes in fields of data: at least as many as numbers */
  bool external;       /* the numbers are in a separate file */
  bool looked;         /* `file` is set */
  gconv_onnx_file file;
} gconv_onnx_tensor;

/* Returns "float16" and so on; "" for types without a name here. */
const char *gconv_onnx_type_name(int64_t type);

/* Returns whether its numbers have a type that is read: FLOAT, DOUBLE, FLOAT16, BFLOAT16. */
bool gconv_onnx_is_floating(const gconv_onnx_tensor *tensor);

/* Collects what is known of a tensor from `message`. The name is empty if it has none. Free it even after a failure. */
gconv_status gconv_onnx_tensor_find(const gconv_message_reader *message, const gconv_field_value *field,
                                    gconv_onnx_tensor *tensor);

/* Fails if the tensor, of a type that is read, has too few bytes for `count` numbers. */
gconv_status gconv_onnx_tensor_check(const gconv_bank_file *file, const gconv_onnx_tensor *tensor, uint64_t count);

/* Looks at the file of an external tensor, once: sets tensor->file. What is wrong with it, reading tells. */
void gconv_onnx_tensor_look(gconv_bank_file *file, gconv_onnx_tensor *tensor);

/* Bytes that are passed over to read its numbers: of its message, and of its file, if that was looked at. */
double gconv_onnx_tensor_bytes(const gconv_onnx_tensor *tensor);

/* Reads its `count` numbers, after the check. */
gconv_status gconv_onnx_tensor_read(gconv_bank_file *file, const gconv_onnx_tensor *tensor, size_t count, float *numbers);

#endif

/* SPDX-License-Identifier: MIT */
/* safetensors beyond banks: tensors by their exact names, the texts of __metadata__, and writing any tensors. */
#pragma once

#include "bank/syntax.h"

#include <jansson.h>

typedef enum gconv_named_array_type { GCONV_NAMED_F32, GCONV_NAMED_F64, GCONV_NAMED_U64 } gconv_named_array_type;

enum { GCONV_NAMED_DIMENSIONS = 4 };

/* A named array. A tensor for writing points to memory of the caller. A tensor that was read owns its memory, which
 * gconv_named_array_free() frees. */
typedef struct gconv_named_array {
  char *name;
  gconv_named_array_type type;
  int32_t dimensions; /* 0 (one number) to GCONV_NAMED_DIMENSIONS */
  uint64_t shape[GCONV_NAMED_DIMENSIONS];
  void *data; /* float, double or uint64_t, the last dimension fastest */
} gconv_named_array;

/* Returns the product of the shape: 1 without dimensions. The shape must fit into memory. */
size_t gconv_named_array_items(const gconv_named_array *tensor);

/* Returns the bytes of a number: 4 or 8. */
size_t gconv_named_array_item_bytes(const gconv_named_array *tensor);

/* Frees name and data and zeroes the tensor. NULL is allowed. */
void gconv_named_array_free(gconv_named_array *tensor);

/* ---- Reading: of a gconv_bank_file whose syntax is safetensors ---- */

/* Returns the name of an entry exactly as in the file. It may have control characters, so do not print it. */
const char *gconv_safetensors_name(const gconv_bank_file *file, size_t index);

/* Finds the entry with just this name; false if there is none. */
bool gconv_safetensors_find(const gconv_bank_file *file, const char *name, size_t *index);

/* Returns the text called `key` of __metadata__; NULL if there is none. Valid until the file is closed. */
const char *gconv_safetensors_metadata(const gconv_bank_file *file, const char *key);

/* True if the numbers of an entry can be read as float32. */
bool gconv_safetensors_is_floating(const gconv_bank_file *file, size_t index);

/* Reads an entry of a floating-point type as float32; `floats` must have room for all numbers of its shape. */
gconv_status gconv_safetensors_read_floats(gconv_bank_file *file, size_t index, float *floats);

/* Reads an entry into *tensor, which must be empty, bit by bit: GCONV_UNSUPPORTED if its type is none of
 * gconv_named_array_type, or if it has more than GCONV_NAMED_DIMENSIONS dimensions. */
gconv_status gconv_safetensors_read_tensor(gconv_bank_file *file, size_t index, gconv_named_array *tensor);

/* ---- Writing ---- */

/* Writes a whole file: tensors of 8 bytes a number first, so that all are aligned, else in their order. `metadata`, an
 * object of texts, may be NULL. GCONV_BAD_ARGUMENT if a name or text is not UTF-8, or two names are equal. */
gconv_status gconv_safetensors_write(gconv_sink *sink, const gconv_named_array *tensors, size_t count, json_t *metadata);

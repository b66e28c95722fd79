/* SPDX-License-Identifier: MIT */
/* Making banks: limits, memory, and numbers from files. */
#pragma once

#include "base/element.h"
#include "base/file.h"

enum {
  GCONV_BANK_MAX_WEIGHTS = 1 << 30,   /* K * C * R * S: 4 GiB as float32 */
  GCONV_BANK_MAX_FILE_BYTES = 1 << 30 /* the most bytes of a text, and of a file from a pipe */
};

typedef struct gconv_bank_shape {
  uint64_t filters, channels, rows, columns; /* K, C, R, S */
} gconv_bank_shape;

/* Fails if a bank cannot have this shape: GCONV_BAD_FILE for zeros, GCONV_TOO_LARGE naming the limit. `where` begins the
 * text. */
gconv_status gconv_bank_check_shape(const char *where, gconv_bank_shape shape);

/* Returns K * C * R * S of a shape that was checked. */
uint64_t gconv_bank_shape_weights(gconv_bank_shape shape);
size_t gconv_bank_weights(const gconv_bank *bank);

/* Gives an empty bank this shape, which was checked. The weights are not set. There are no biases and names. On failure the
 * bank stays empty. */
gconv_status gconv_bank_allocate(gconv_bank_shape shape, gconv_bank *bank);

/* Adds biases, all 0, if there are none. */
gconv_status gconv_bank_add_biases(gconv_bank *bank);

/* Names the bank; the name is copied. */
gconv_status gconv_bank_rename(gconv_bank *bank, const char *name);

/* Names filter `k`; the name is copied. */
gconv_status gconv_bank_name_filter(gconv_bank *bank, int32_t k, const char *name);

/* Fails with `status`, naming the first weight or bias that is not finite. */
gconv_status gconv_bank_check_finite(const char *where, gconv_status status, const gconv_bank *bank);

/* Fails with `status` if strides, dilations or groups are below 1, padding is below 0, or the filters cannot be divided into
 * the groups. */
gconv_status gconv_bank_check_geometry(const char *where, gconv_status status, const gconv_bank *bank);

/* Fails with GCONV_BAD_ARGUMENT if a bank made by a caller violates the rules of gconv.h. */
gconv_status gconv_bank_check(const gconv_bank *bank);

/* Writes numbers as float32, lowest byte first. */
gconv_status gconv_bank_write_floats(gconv_sink *sink, const float *numbers, size_t count);

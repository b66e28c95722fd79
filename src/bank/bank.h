/* SPDX-License-Identifier: MIT */
/* Making banks: limits, memory, and numbers that come from files. */
#ifndef GCONV_BANK_BANK_H
#define GCONV_BANK_BANK_H

#include "base/element.h"
#include "base/file.h"

enum {
  GCONV_BANK_MAX_WEIGHTS = 1 << 30,   /* K * C * R * S: 4 GiB as float32 */
  GCONV_BANK_MAX_FILE_BYTES = 1 << 30 /* of text, and of what comes through a pipe */
};

typedef struct gconv_bank_shape {
  uint64_t filters, channels, rows, columns; /* K, C, R, S */
} gconv_bank_shape;

/* Fails if a bank cannot have this shape: GCONV_BAD_FILE for zeroes, GCONV_TOO_LARGE naming the limit. `where` starts the
 * text. */
gconv_status gconv_bank_check_shape(const char *where, gconv_bank_shape shape);

/* K * C * R * S of a shape that was checked. */
uint64_t gconv_bank_shape_weights(gconv_bank_shape shape);
size_t gconv_bank_weights(const gconv_bank *bank);

/* Makes an empty bank one of this shape, which has been checked; the weights are not set. There are no biases and names. On
 * failure the bank is empty. */
gconv_status gconv_bank_allocate(gconv_bank_shape shape, gconv_bank *bank);

/* Adds biases, all 0, if there are none yet. */
gconv_status gconv_bank_add_biases(gconv_bank *bank);

/* Names the bank; the name is copied. */
gconv_status gconv_bank_rename(gconv_bank *bank, const char *name);

/* Names filter `k`; the name is copied. */
gconv_status gconv_bank_name_filter(gconv_bank *bank, int32_t k, const char *name);

/* Fails with `status`, naming the first weight or bias that is not finite. */
gconv_status gconv_bank_check_finite(const char *where, gconv_status status, const gconv_bank *bank);

/* Fails with `status` if strides, dilations or groups are below 1, padding is below 0, or the groups do not divide the
 * filters.
 */
gconv_status gconv_bank_check_geometry(const char *where, gconv_status status, const gconv_bank *bank);

/* Fails with GCONV_BAD_ARGUMENT if a bank that a caller made is not as gconv.h demands. */
gconv_status gconv_bank_check(const gconv_bank *bank);

/* Reads the next `count` elements of the source as float32; what does not fit is infinite. `what` is for error texts. */
gconv_status gconv_bank_read_elements(gconv_source *source, gconv_element element, size_t count, const char *what,
                                      float *numbers);

/* Writes numbers as float32, the lowest byte first. */
gconv_status gconv_bank_write_floats(gconv_sink *sink, const float *numbers, size_t count);

/* A copy of length bytes for free(), with '?' for control characters, which terminals obey; NULL without memory. */
char *gconv_bank_printable(const char *text, size_t length);

#endif

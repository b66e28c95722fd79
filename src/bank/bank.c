/* SPDX-License-Identifier: MIT */
#include "bank/bank.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "filter/filter.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Shapes and memory ---- */

uint64_t gconv_bank_shape_weights(gconv_bank_shape shape) {
  return shape.filters * shape.channels * shape.rows * shape.columns;
}

size_t gconv_bank_weights(const gconv_bank *bank) {
  return (size_t)bank->filters * (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns;
}

/* Returns whether the product of the factors is at most `limit`. No factor is 0. */
static bool fits(const uint64_t factors[4], uint64_t limit) {
  for (int i = 0; i < 4; i++)
    limit /= factors[i];
  return limit > 0;
}

gconv_status gconv_bank_check_shape(const char *where, gconv_bank_shape shape) {
  const uint64_t sizes[] = {shape.filters, shape.channels, shape.rows, shape.columns};
  for (int i = 0; i < 4; i++)
    if (sizes[i] == 0)
      return gconv_fail(GCONV_BAD_FILE,
                        "%s: a bank of %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                        " (filters, channels, rows, columns); it needs at least 1 of each",
                        where, sizes[0], sizes[1], sizes[2], sizes[3]);
  bool sides = shape.rows <= GCONV_FILTER_MAX_SIDE && shape.columns <= GCONV_FILTER_MAX_SIDE;
  if (!sides || !fits(sizes, GCONV_BANK_MAX_WEIGHTS))
    return gconv_fail(GCONV_TOO_LARGE,
                      "%s: a bank of %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                      " (filters, channels, rows, columns); the limit is %d rows and columns, and %d weights",
                      where, sizes[0], sizes[1], sizes[2], sizes[3], GCONV_FILTER_MAX_SIDE, GCONV_BANK_MAX_WEIGHTS);
  return GCONV_OK;
}

gconv_status gconv_bank_allocate(gconv_bank_shape shape, gconv_bank *bank) {
  void *weights = NULL;
  char *name = NULL;
  GCONV_TRY(gconv_allocate((size_t)gconv_bank_shape_weights(shape) * sizeof(float), "the weights of a bank", &weights));
  name = strdup("");
  if (!name) {
    gconv_release(weights);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a bank");
  }
  *bank = (gconv_bank){.name = name,
                       .filters = (int32_t)shape.filters,
                       .channels = (int32_t)shape.channels,
                       .rows = (int32_t)shape.rows,
                       .columns = (int32_t)shape.columns,
                       .weights = weights};
  return GCONV_OK;
}

gconv_status gconv_bank_add_biases(gconv_bank *bank) {
  void *biases = NULL;
  if (bank->biases)
    return GCONV_OK;
  GCONV_TRY(gconv_allocate((size_t)bank->filters * sizeof(float), "the biases of a bank", &biases));
  bank->biases = biases;
  for (int32_t k = 0; k < bank->filters; k++)
    bank->biases[k] = 0;
  return GCONV_OK;
}

gconv_status gconv_bank_rename(gconv_bank *bank, const char *name) {
  char *copy = strdup(name);
  GCONV_NEED_MEMORY(copy, "no memory for the name of a bank");
  free(bank->name);
  bank->name = copy;
  return GCONV_OK;
}

gconv_status gconv_bank_name_filter(gconv_bank *bank, int32_t k, const char *name) {
  if (!bank->names)
    bank->names = calloc((size_t)bank->filters, sizeof *bank->names);
  char *copy = bank->names ? strdup(name) : NULL;
  GCONV_NEED_MEMORY(copy, "no memory for the name of a filter");
  free(bank->names[k]);
  bank->names[k] = copy;
  return GCONV_OK;
}

void gconv_bank_free(gconv_bank *bank) {
  if (!bank)
    return;
  for (int32_t k = 0; bank->names && k < bank->filters; k++)
    free(bank->names[k]);
  free(bank->names);
  free(bank->name);
  gconv_release(bank->weights);
  gconv_release(bank->biases);
  *bank = (gconv_bank){0};
}

/* ---- Checks ---- */

gconv_status gconv_bank_check_finite(const char *where, gconv_status status, const gconv_bank *bank) {
  size_t columns = (size_t)bank->columns, rows = (size_t)bank->rows, channels = (size_t)bank->channels;
  for (size_t i = 0, count = gconv_bank_weights(bank); i < count; i++)
    if (!isfinite(bank->weights[i]))
      return gconv_fail(status,
                        "%s: the weight of filter %zu, channel %zu, row %zu, column %zu (from 0) is %s in float32; every "
                        "weight must be finite: was the training unstable, or the file damaged?",
                        where, i / columns / rows / channels, i / columns / rows % channels, i / columns % rows, i % columns,
                        isnan(bank->weights[i]) ? "nan" : "infinite");
  for (int32_t k = 0; bank->biases && k < bank->filters; k++)
    if (!isfinite(bank->biases[k]))
      return gconv_fail(status, "%s: the bias of filter %d (from 0) is %s in float32; every bias must be finite", where, k,
                        isnan(bank->biases[k]) ? "nan" : "infinite");
  return GCONV_OK;
}

gconv_status gconv_bank_check_geometry(const char *where, gconv_status status, const gconv_bank *bank) {
  if (bank->stride_y < 1 || bank->stride_x < 1 || bank->dilation_y < 1 || bank->dilation_x < 1)
    return gconv_fail(status, "%s: strides of %d and %d and dilations of %d and %d; each must be at least 1", where,
                      bank->stride_y, bank->stride_x, bank->dilation_y, bank->dilation_x);
  if (bank->pad_top < 0 || bank->pad_left < 0 || bank->pad_bottom < 0 || bank->pad_right < 0)
    return gconv_fail(status, "%s: padding of %d %d %d %d; each must be at least 0", where, bank->pad_top, bank->pad_left,
                      bank->pad_bottom, bank->pad_right);
  if (bank->groups < 1 || bank->filters % bank->groups != 0)
    return gconv_fail(status, "%s: %d filters in %d groups; groups are at least 1, and all have as many filters", where,
                      bank->filters, bank->groups);
  return GCONV_OK;
}

gconv_status gconv_bank_check(const gconv_bank *bank) {
  GCONV_NEED_KNOWN(bank);
  const char *where = bank->name && *bank->name ? bank->name : "the bank";
  if (bank->filters < 1 || bank->channels < 1 || bank->rows < 1 || bank->columns < 1 || !bank->weights)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: a bank needs filters, channels, rows and columns, at least 1 of each, and weights", where);
  GCONV_TRY(gconv_bank_check_shape(where, (gconv_bank_shape){(uint64_t)bank->filters, (uint64_t)bank->channels,
                                                             (uint64_t)bank->rows, (uint64_t)bank->columns}));
  if (bank->has_geometry)
    GCONV_TRY(gconv_bank_check_geometry(where, GCONV_BAD_ARGUMENT, bank));
  return gconv_bank_check_finite(where, GCONV_BAD_ARGUMENT, bank);
}

/* ---- Numbers ---- */

gconv_status gconv_bank_write_floats(gconv_sink *sink, const float *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint8_t bytes[4];
    gconv_element_store(numbers[i], bytes);
    GCONV_TRY(gconv_sink_write(sink, bytes, sizeof bytes));
  }
  return GCONV_OK;
}

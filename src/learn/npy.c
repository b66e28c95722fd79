/* SPDX-License-Identifier: MIT */
/* NumPy's .npy: an array of cases x numbers, of which one column is that of labels; or, where targets are a file of their
 * own, cases x any shape of inputs, and cases or cases x any shape of targets. */
#include "base/element.h"
#include "base/memory.h"
#include "base/npy_header.h"
#include "learn/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool recognise(const uint8_t *bytes, size_t size) {
  return gconv_npy_sniff(bytes, size);
}

typedef struct reading {
  gconv_table *table;
  size_t width; /* numbers of a case */
  size_t label; /* the column of labels; SIZE_MAX: none */
} reading;

/* The shape of what a case has: 1 to 3 numbers; missing ones are 1. */
static void set_shape(const gconv_npy_header *header, int32_t shape[3]) {
  int first = 1, count = header->dimensions - first;
  shape[0] = shape[1] = shape[2] = 1;
  if (count == 1)
    shape[0] = (int32_t)header->shape[first];
  for (int i = 0; i < count && count > 1; i++) /* H x W, or C x H x W */
    shape[3 - count + i] = (int32_t)header->shape[first + i];
}

static gconv_status find_label(reading *r) {
  const char *label = r->table->options->label;
  r->label = r->width - 1;
  if (!label)
    return GCONV_OK;
  char *end;
  unsigned long number = strtoul(label, &end, 10);
  if (label[0] < '0' || label[0] > '9' || *end || number < 1 || number > r->width)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: there is no column '%s': --label takes the number of a column, 1 to %zu",
                      r->table->path, label, r->width);
  r->label = number - 1;
  return GCONV_OK;
}

static gconv_status check_shape(reading *r, const gconv_npy_header *header) {
  gconv_table *table = r->table;
  bool one = header->dimensions == 1 && table->of_targets;
  if (header->dimensions < (one ? 1 : 2) || header->dimensions > 4)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: has %d dimension%s: a table has two, cases x numbers; with targets in a file of their own, cases "
                      "x height x width and cases x channels x height x width are right, too",
                      table->path, header->dimensions, header->dimensions == 1 ? "" : "s");
  r->width = 1;
  for (int i = 1; i < header->dimensions; i++) {
    if (!gconv_multiply(r->width, header->shape[i], &r->width))
      r->width = SIZE_MAX;
    GCONV_TRY(gconv_table_check_columns(table, r->width));
  }
  if (header->items == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: has no cases", table->path);
  if (table->of_targets ? r->width > 1 : gconv_table_is_inputs(table)) {
    r->label = SIZE_MAX;
    table->unlabelled = true;
  } else {
    if (header->dimensions > 2)
      return gconv_fail(GCONV_BAD_FILE, "%s: has %d dimensions: name the file of its targets, too", table->path,
                        header->dimensions);
    GCONV_TRY(find_label(r));
  }
  table->labelled = !table->unlabelled && !table->options->regression;
  int32_t shape[3];
  set_shape(header, shape);
  if (table->of_targets && header->dimensions > 2) {
    memcpy(table->target_shape, shape, sizeof shape);
  } else if (header->dimensions > 2) {
    table->channels = shape[0];
    table->height = shape[1];
    table->width = shape[2];
  }
  return GCONV_OK;
}

static gconv_status take_label(gconv_table *table, double number, size_t index, size_t *label) {
  char text[32];
  const char *wrong = NULL;
  if (!table->labelled)
    return table->unlabelled ? GCONV_OK : gconv_row_add(&table->target, number);
  int length = snprintf(text, sizeof text, "%.15g", number);
  GCONV_TRY(gconv_labels_find(&table->labels, text, text + length, label, &wrong));
  if (wrong)
    return gconv_fail(GCONV_BAD_FILE, "%s: row %zu: the label %s %s", table->path, index + 1, text, wrong);
  return GCONV_OK;
}

static gconv_status take_row(reading *r, const double *numbers, size_t index) {
  gconv_table *table = r->table;
  size_t label = 0;
  for (size_t i = 0; i < r->width; i++) {
    double number = numbers[i];
    bool missing = isnan(number) && table->missing != GCONV_MISSING_ERROR && i != r->label;
    if (!gconv_fits_float(number) && !missing)
      return gconv_fail(GCONV_BAD_FILE, "%s: row %zu, column %zu is %s: numbers must be finite, and fit into float32%s",
                        table->path, index + 1, i + 1,
                        isnan(number)   ? "NaN"
                        : isinf(number) ? "infinite"
                                        : "too large",
                        isnan(number) && i != r->label ? "; --missing mean puts in the mean of the column" : "");
    table->missing_numbers += missing;
    GCONV_TRY(i == r->label ? take_label(table, number, index, &label) : gconv_row_add(&table->row, number));
  }
  return gconv_table_end_row(table, label);
}

/* Reads some numbers at a time: the header may promise rows that are not there. */
static gconv_status read_in_order(reading *r, gconv_source *source, gconv_element element, size_t cases) {
  enum { STEP = 2048 };
  gconv_row row = {0};
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < cases && status == GCONV_OK; i++) {
    row.count = 0;
    while (row.count < r->width && status == GCONV_OK) {
      double numbers[STEP];
      size_t count = r->width - row.count < STEP ? r->width - row.count : STEP;
      status = gconv_elements_read_doubles(source, element, count, "its elements", numbers);
      for (size_t k = 0; k < count && status == GCONV_OK; k++)
        status = gconv_row_add(&row, numbers[k]);
    }
    if (status == GCONV_OK)
      status = take_row(r, row.items, i);
  }
  free(row.items);
  return status;
}

/* In Fortran order, the first index runs fastest. All is read first. */
static gconv_status read_fortran(reading *r, gconv_source *source, const gconv_npy_header *header) {
  enum { STEP = 2048 };
  const gconv_element element = {header->kind, header->item_bytes, header->big_endian};
  gconv_store all = {.limit = r->table->inputs.limit};
  gconv_status status = GCONV_OK;
  for (size_t done = 0; done < header->items && status == GCONV_OK; done += STEP) {
    double numbers[STEP];
    size_t count = header->items - done < STEP ? header->items - done : STEP;
    status = gconv_elements_read_doubles(source, element, count, "its elements", numbers);
    if (status == GCONV_OK)
      status = gconv_store_append(&all, numbers, count * sizeof *numbers);
  }
  if (status == GCONV_OK)
    status = gconv_store_finish(&all);
  const double *from = (const double *)(const void *)all.bytes;
  double *row = status == GCONV_OK ? malloc(r->width * sizeof *row) : NULL;
  if (status == GCONV_OK && !row)
    status = gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a row", source->name);
  for (size_t i = 0; i < header->shape[0] && status == GCONV_OK; i++) {
    for (size_t k = 0; k < r->width; k++) {
      size_t left = k, at = 0;
      for (int d = header->dimensions - 1; d > 0; d--) { /* the index along each axis, from the last */
        size_t distance = 1;
        for (int e = 0; e < d; e++)
          distance *= header->shape[e];
        at += left % header->shape[d] * distance;
        left /= header->shape[d];
      }
      row[k] = from[i + at];
    }
    status = take_row(r, row, i);
  }
  free(row);
  gconv_store_free(&all);
  return status;
}

static gconv_status read_npy(gconv_source *source, gconv_table *table) {
  gconv_npy_header header;
  reading r = {.table = table};
  const uint8_t *bytes;
  size_t got;
  GCONV_TRY(gconv_npy_header_read(source, &header));
  GCONV_TRY(check_shape(&r, &header));
  const gconv_element element = {header.kind, header.item_bytes, header.big_endian};
  if (header.fortran_order && header.dimensions > 1)
    GCONV_TRY(read_fortran(&r, source, &header));
  else
    GCONV_TRY(read_in_order(&r, source, element, header.shape[0]));
  GCONV_TRY(gconv_source_peek(source, 1, &bytes, &got));
  if (got > 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: has more bytes than its header promises", table->path);
  return GCONV_OK;
}

const gconv_table_syntax gconv_table_syntax_npy = {
    .name = "npy",
    .help = "an array of NumPy: cases x numbers",
    .extensions = "npy",
    .recognise = recognise,
    .read = read_npy,
};

/* SPDX-License-Identifier: MIT */
/* Arrays: NumPy's .npy, and IDX, as MNIST has it. They are cases x numbers, with a column of labels. If targets are in a
 * file of their own, inputs are cases x any shape, and targets are cases, or cases x any shape. */
#include "base/element.h"
#include "base/memory.h"
#include "base/npy_header.h"
#include "data/field.h"
#include "data/table.h"

#include <math.h>
#include <string.h>

/* Sets the shape of a case, of up to 3 dimensions. Dimensions that the array lacks become 1. */
static void set_shape(const gconv_npy_header *header, int32_t shape[3]) {
  int first = 1, count = header->dimensions - first;
  shape[0] = shape[1] = shape[2] = 1;
  if (count == 1)
    shape[0] = (int32_t)header->shape[first];
  for (int i = 0; i < count && count > 1; i++) /* H x W, or C x H x W */
    shape[3 - count + i] = (int32_t)header->shape[first + i];
}

static gconv_status find_label(gconv_rows *r) {
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

static gconv_status check_shape(gconv_rows *r, const gconv_npy_header *header) {
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
  if (header->dimensions == 4 && shape[0] > 4 && shape[2] <= 4)
    gconv_warn(
        "%s: is taken for %d channels of %d x %d: if its last axis has the channels, save array.transpose(0, 3, 1, 2)",
        table->path, (int)shape[0], (int)shape[1], (int)shape[2]);
  return GCONV_OK;
}

static gconv_status fail_gap(const gconv_rows *r, size_t index, size_t column) {
  return gconv_fail(GCONV_BAD_FILE, "%s: row %zu, column %zu is missing: --missing %sdrop leaves such rows out",
                    r->table->path, index + 1, column + 1,
                    column == r->label ? "" : "mean puts in the mean of the column, --missing ");
}

/* Finds the number of a label. text: the label as text; NULL: the label is `number`. */
static gconv_status take_label(gconv_rows *r, double number, const char *text, size_t index, size_t *label) {
  gconv_table *table = r->table;
  char digits[32];
  const char *wrong = NULL;
  if (table->unlabelled)
    return GCONV_OK;
  if (isnan(number) && (!text || !table->labelled || !gconv_field_may_be_name(text, text + strlen(text)))) {
    if (table->missing != GCONV_MISSING_DROP)
      return fail_gap(r, index, r->label);
    table->missing_numbers++;
    return table->labelled ? GCONV_OK : gconv_row_add(&table->target, number);
  }
  if (!table->labelled)
    return gconv_row_add(&table->target, number);
  snprintf(digits, sizeof digits, "%.15g", number);
  if (!text && strtod(digits, NULL) != number)
    snprintf(digits, sizeof digits, "%.17g", number);
  text = text ? text : digits;
  if (text == digits && fabs(number) >= 0x1p53)
    return gconv_fail(GCONV_BAD_FILE, "%s: row %zu: the label %s is beyond 2^53: float64 cannot tell such numbers apart",
                      table->path, index + 1, text);
  GCONV_TRY(gconv_labels_find(&table->labels, text, text + strlen(text), label, &wrong));
  if (wrong)
    return gconv_fail(GCONV_BAD_FILE, "%s: row %zu: the label %s %s", table->path, index + 1, text, wrong);
  return GCONV_OK;
}

gconv_status gconv_table_take_row(gconv_rows *r, const double *numbers, const char *text, size_t index) {
  gconv_table *table = r->table;
  size_t label = 0;
  for (size_t i = 0; i < r->width; i++) {
    const double number = numbers[i];
    if (!gconv_fits_float(number) && !isnan(number) && !(i == r->label && table->labelled))
      return gconv_fail(GCONV_BAD_FILE, "%s: row %zu, column %zu is %s: numbers must be finite, and fit into float32",
                        table->path, index + 1, i + 1, isinf(number) ? "infinite" : "too large");
    if (i == r->label) {
      GCONV_TRY(take_label(r, number, text, index, &label));
      continue;
    }
    if (isnan(number) && table->missing == GCONV_MISSING_ERROR)
      return fail_gap(r, index, i);
    table->missing_numbers += isnan(number);
    GCONV_TRY(gconv_row_add(&table->row, number));
  }
  return gconv_table_end_row(table, label);
}

/* Reads some numbers at a time: the header may claim rows that do not exist. */
static gconv_status read_in_order(gconv_rows *r, gconv_source *source, gconv_element element, size_t cases) {
  enum { STEP = 2048 };
  GCONV_ENDED_BY(gconv_row_free) gconv_row row = {0};
  for (size_t i = 0; i < cases; i++) {
    row.count = 0;
    while (row.count < r->width) {
      double numbers[STEP];
      size_t count = r->width - row.count < STEP ? r->width - row.count : STEP;
      GCONV_TRY(gconv_elements_read_doubles(source, element, count, "its elements", numbers));
      for (size_t k = 0; k < count; k++)
        GCONV_TRY(gconv_row_add(&row, numbers[k]));
    }
    GCONV_TRY(gconv_table_take_row(r, row.items, NULL, i));
  }
  return GCONV_OK;
}

/* Reads Fortran order, in which the first index runs fastest. The whole array is read first. */
static gconv_status read_fortran(gconv_rows *r, gconv_source *source, const gconv_npy_header *header) {
  enum { STEP = 2048 };
  const gconv_element element = {header->kind, header->item_bytes, header->big_endian};
  GCONV_ENDED_BY(gconv_store_free) gconv_store all = {.limit = r->table->inputs.limit};
  for (size_t done = 0; done < header->items; done += STEP) {
    double numbers[STEP];
    size_t count = header->items - done < STEP ? header->items - done : STEP;
    GCONV_TRY(gconv_elements_read_doubles(source, element, count, "its elements", numbers));
    GCONV_TRY(gconv_store_append(&all, numbers, count * sizeof *numbers));
  }
  GCONV_TRY(gconv_store_finish(&all));
  const double *from = (const double *)(const void *)all.bytes;
  GCONV_FREED double *row = malloc(r->width * sizeof *row);
  GCONV_NEED_MEMORY(row, "%s: no memory for a row", source->name);
  for (size_t i = 0; i < header->shape[0]; i++) {
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
    GCONV_TRY(gconv_table_take_row(r, row, NULL, i));
  }
  return GCONV_OK;
}

/* ---- Texts --------------------------------------------------------------------------------------------------------- */

/* Writes a character as UTF-8, and returns the number of bytes. A wrong character becomes wrong UTF-8. */
static size_t put_character(uint32_t c, char *to) {
  if (c < 0x80) {
    to[0] = (char)c;
    return 1;
  }
  const size_t bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = bytes; i-- > 1; c >>= 6)
    to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)((bytes == 2 ? 0xc0 : bytes == 3 ? 0xe0 : 0xf0) | c);
  return bytes;
}

/* Converts an element to a text without its trailing zeros. `text` has room for item_bytes + 1. */
static void decode(const gconv_npy_header *header, const uint8_t *element, char *text) {
  const size_t step = header->kind == 'U' ? 4 : 1;
  size_t used = 0, end = header->item_bytes;
  while (end > 0 && gconv_bytes_number(element + end - step, step, header->big_endian) == 0)
    end -= step;
  for (size_t at = 0; at < end; at += step) {
    const uint64_t c = gconv_bytes_number(element + at, step, header->big_endian);
    if (step == 1)
      text[used++] = (char)(c > 0 ? c : '?');
    else
      used += put_character(c > 0 && c <= 0x10FFFF ? (uint32_t)c : '?', text + used);
  }
  text[used] = '\0';
}

/* Takes a row of texts. All but the label must be numbers. */
static gconv_status take_texts(gconv_rows *r, const gconv_npy_header *header, const uint8_t *elements, char *text,
                               char *label, gconv_row *row, size_t index) {
  row->count = 0;
  for (size_t i = 0; i < r->width; i++) {
    char *to = i == r->label ? label : text;
    double number = 0;
    decode(header, elements + i * header->item_bytes, to);
    gconv_field kind = gconv_field_read(to, to + strlen(to), &number);
    const bool name = i == r->label && (r->table->labelled || r->table->unlabelled);
    if (!name && (kind == GCONV_FIELD_TEXT || kind == GCONV_FIELD_NOT_FINITE))
      return gconv_fail(GCONV_BAD_FILE, "%s: row %zu, column %zu is \"%.40s\", which is no finite number", r->table->path,
                        index + 1, i + 1, to);
    GCONV_TRY(gconv_row_add(row, kind == GCONV_FIELD_GAP ? (double)NAN : kind == GCONV_FIELD_NUMBER ? number : 0));
  }
  return gconv_table_take_row(r, row->items, label, index);
}

static gconv_status read_texts(gconv_rows *r, gconv_source *source, const gconv_npy_header *header) {
  enum { MOST_ROW_BYTES = 1 << 26 };
  size_t bytes;
  GCONV_ENDED_BY(gconv_row_free) gconv_row row = {0};
  if (header->fortran_order && header->dimensions > 1 && r->width > 1)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: holds texts in Fortran order: save numpy.ascontiguousarray() of it",
                      r->table->path);
  if (header->item_bytes == 0 || !gconv_multiply(r->width, header->item_bytes, &bytes) || bytes > MOST_ROW_BYTES)
    return gconv_fail(GCONV_TOO_LARGE, "%s: a row of its texts has no bytes, or more than %d MB", r->table->path,
                      MOST_ROW_BYTES >> 20);
  GCONV_FREED uint8_t *elements = malloc(bytes);
  GCONV_FREED char *texts = malloc(2 * (header->item_bytes + 1));
  GCONV_NEED_MEMORY(elements && texts, "%s: no memory for a row", source->name);
  for (size_t i = 0; i < header->shape[0]; i++) {
    GCONV_TRY(gconv_source_read_exactly(source, elements, bytes, "its elements"));
    GCONV_TRY(take_texts(r, header, elements, texts, texts + header->item_bytes + 1, &row, i));
  }
  return GCONV_OK;
}

/* ---- The whole ----------------------------------------------------------------------------------------------------- */

static gconv_status read_array(gconv_source *source, const gconv_npy_header *header, gconv_table *table) {
  gconv_rows r = {.table = table};
  const uint8_t *bytes;
  size_t got;
  GCONV_TRY(check_shape(&r, header));
  const gconv_element element = {header->kind, header->item_bytes, header->big_endian};
  if (header->kind == 'U' || header->kind == 'S')
    GCONV_TRY(read_texts(&r, source, header));
  else if (header->fortran_order && header->dimensions > 1)
    GCONV_TRY(read_fortran(&r, source, header));
  else
    GCONV_TRY(read_in_order(&r, source, element, header->shape[0]));
  GCONV_TRY(gconv_source_peek(source, 1, &bytes, &got));
  if (got > 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: has more bytes than its header promises", table->path);
  return GCONV_OK;
}

static gconv_status read_npy(gconv_source *source, gconv_table *table) {
  gconv_npy_header header;
  GCONV_TRY(gconv_npy_header_read_texts(source, &header));
  return read_array(source, &header, table);
}

const gconv_table_syntax gconv_table_syntax_npy = {
    .name = "npy",
    .help = "an array of NumPy: cases x numbers",
    .extensions = "npy",
    .recognise = gconv_npy_sniff,
    .read = read_npy,
};

/* ---- IDX: two zeros, the type, the number of dimensions, their lengths as u32be, the elements ---------------------------
 */

/* Finds the elements that byte 2 of a file stands for. */
static bool find_element(uint8_t type, gconv_npy_header *header) {
  static const struct {
    uint8_t type;
    char kind;
    size_t bytes;
  } types[] = {{8, 'u', 1}, {9, 'i', 1}, {11, 'i', 2}, {12, 'i', 4}, {13, 'f', 4}, {14, 'f', 8}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].type == type) {
      *header = (gconv_npy_header){.kind = types[i].kind, .item_bytes = types[i].bytes, .big_endian = true, .items = 1};
      return true;
    }
  return false;
}

static bool sniff_idx(const uint8_t *bytes, size_t size) {
  gconv_npy_header header;
  return size >= 8 && bytes[0] == 0 && bytes[1] == 0 && find_element(bytes[2], &header) && bytes[3] >= 1 && bytes[3] <= 4;
}

static gconv_status read_idx(gconv_source *source, gconv_table *table) {
  uint8_t bytes[4];
  gconv_npy_header header = {0};
  GCONV_TRY(gconv_source_read_exactly(source, bytes, sizeof bytes, "its header"));
  if (bytes[0] != 0 || bytes[1] != 0 || !find_element(bytes[2], &header) || bytes[3] < 1 || bytes[3] > 4)
    return gconv_fail(GCONV_BAD_FILE, "%s: is no IDX file of 1 to 4 dimensions", table->path);
  header.dimensions = bytes[3];
  for (int i = 0; i < header.dimensions; i++) {
    GCONV_TRY(gconv_source_read_exactly(source, bytes, sizeof bytes, "its header"));
    header.shape[i] = (size_t)gconv_bytes_number(bytes, sizeof bytes, true);
    if (!gconv_multiply(header.items, header.shape[i], &header.items))
      return gconv_fail(GCONV_TOO_LARGE, "%s: has more elements than memory can have", table->path);
  }
  return read_array(source, &header, table);
}

const gconv_table_syntax gconv_table_syntax_idx = {
    .name = "idx",
    .help = "IDX, as MNIST has it: images, and labels for -t",
    .extensions = "idx",
    .recognise = sniff_idx,
    .read = read_idx,
};

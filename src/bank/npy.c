/* SPDX-License-Identifier: MIT */
/* NumPy's .npy: K x C x R x S is a bank, and so is K x R x S, whose filters have one channel. */
#include "bank/syntax.h"
#include "base/memory.h"
#include "base/npy_header.h"

#include <string.h>

static const char *kind_name(char kind) {
  return kind == 'f' ? "float" : kind == 'u' ? "uint" : kind == 'i' ? "int" : "bool";
}

static gconv_status check_file_size(const gconv_bank_file *file, const gconv_npy_header *header) {
  uint64_t left = file->source.size - file->source.position;
  if (left == header->items * header->item_bytes)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: its header promises %zu elements of %zu byte%s, but %llu bytes follow", file->path,
                    header->items, header->item_bytes, header->item_bytes == 1 ? "" : "s", (unsigned long long)left);
}

void gconv_bank_describe_npy(const gconv_npy_header *header, gconv_bank_entry *entry) {
  entry->kind = "array";
  entry->dimensions = header->dimensions;
  snprintf(entry->type, sizeof entry->type, "%s%zu", kind_name(header->kind), 8 * header->item_bytes);
  for (int i = 0; i < header->dimensions; i++)
    entry->shape[i] = header->shape[i];
  if (header->dimensions == 2)
    entry->obstacle = "has 2 dimensions, as a single plain filter; a bank has 3 (filters, rows, columns) or 4 (filters, "
                      "channels, rows, columns)";
  else if (header->dimensions != 3 || header->items == 0)
    entry->obstacle = gconv_bank_shape_obstacle(header->dimensions, entry->shape);
}

static gconv_status open_npy(gconv_bank_file *file) {
  gconv_npy_header *header = calloc(1, sizeof *header);
  gconv_bank_entry *entry;
  file->state = header;
  GCONV_NEED_MEMORY(header, "%s: no memory for its header", file->path);
  GCONV_TRY(gconv_npy_header_read(&file->source, header));
  GCONV_TRY(gconv_bank_file_add(file, &entry));
  gconv_bank_describe_npy(header, entry);
  entry->name = strdup("");
  GCONV_NEED_MEMORY(entry->name, "%s: no memory for its header", file->path);
  return check_file_size(file, header);
}

/* Converts weights from Fortran order, in which the first index runs fastest, to C order. */
static gconv_status reorder(gconv_bank *bank) {
  const size_t count = gconv_bank_weights(bank), filters = (size_t)bank->filters, channels = (size_t)bank->channels,
               rows = (size_t)bank->rows, columns = (size_t)bank->columns;
  void *memory = NULL;
  GCONV_TRY(gconv_allocate(count * sizeof(float), "the weights of a bank", &memory));
  float *ordered = memory, *to = ordered;
  for (size_t k = 0; k < filters; k++)
    for (size_t c = 0; c < channels; c++)
      for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s < columns; s++)
          *to++ = bank->weights[k + filters * (c + channels * (r + rows * s))];
  gconv_release(bank->weights);
  bank->weights = ordered;
  return GCONV_OK;
}

gconv_status gconv_bank_load_npy(gconv_source *source, const gconv_npy_header *header, gconv_bank *bank) {
  const size_t *from = header->shape;
  bool flat = header->dimensions == 3; /* K x R x S: no channels */
  gconv_bank_shape shape = {from[0], flat ? 1 : from[1], from[header->dimensions - 2], from[header->dimensions - 1]};
  gconv_element element = {header->kind, header->item_bytes, header->big_endian};
  GCONV_TRY(gconv_bank_check_shape(source->name, shape));
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  GCONV_TRY(gconv_elements_read(source, element, header->items, "its elements", bank->weights));
  return header->fortran_order ? reorder(bank) : GCONV_OK;
}

static gconv_status read_npy(gconv_bank_file *file, size_t index, gconv_bank *bank) {
  const gconv_npy_header *header = file->state;
  GCONV_TRY(gconv_source_rewind(&file->source, file->source.size - header->items * header->item_bytes));
  return gconv_bank_load_npy(&file->source, header, bank);
}

static void close_npy(gconv_bank_file *file) {
  free(file->state);
}

static gconv_status write_npy(gconv_sink *sink, const gconv_bank *bank) {
  gconv_npy_header header = {
      .kind = 'f',
      .item_bytes = sizeof(float),
      .dimensions = 4,
      .shape = {(size_t)bank->filters, (size_t)bank->channels, (size_t)bank->rows, (size_t)bank->columns}};
  GCONV_TRY(gconv_npy_header_write(sink, &header));
  return gconv_bank_write_floats(sink, bank->weights, gconv_bank_weights(bank));
}

const gconv_bank_syntax gconv_bank_syntax_npy = {
    .name = "npy",
    .help = "an array of NumPy: filters x channels x rows x columns, or filters x rows x columns",
    .extension = ".npy",
    .recognise = gconv_npy_sniff,
    .open = open_npy,
    .read = read_npy,
    .close = close_npy,
    .write = write_npy,
};

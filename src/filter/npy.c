/* SPDX-License-Identifier: MIT */
/* Reads NumPy's .npy: R x S is one filter; K x R x S, and K x 1 x R x S, are K filters. */
#include "base/element.h"
#include "base/npy_header.h"
#include "filter/syntax.h"

#include <math.h>

enum { MAX_FILTERS = 65536 };

static bool recognise(const gconv_content *content) {
  return gconv_npy_sniff(content->bytes, content->size);
}

typedef struct shape {
  size_t filters, rows, columns;
} shape;

/* Reads K, R and S from a header, and checks them. */
static gconv_status read_shape(const char *name, const gconv_npy_header *header, shape *to) {
  const size_t *from = header->shape;
  int dimensions = header->dimensions;
  if (dimensions < 2 || dimensions > 4)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: an array of %d dimension%s; a filter has 2 (rows, columns), several have 3 "
                      "(filters, rows, columns)",
                      name, dimensions, dimensions == 1 ? "" : "s");
  if (dimensions == 4 && from[1] != 1)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s: an array of %zu x %zu x %zu x %zu is a bank of filters over %zu channels; filters for each channel by "
        "itself have 1 in the second place",
        name, from[0], from[1], from[2], from[3], from[1]);
  *to = (shape){dimensions == 2 ? 1 : from[0], from[dimensions - 2], from[dimensions - 1]};
  if (header->items == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: an array without elements; a filter has at least one", name);
  if (to->filters > MAX_FILTERS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: %zu filters; the limit is %d", name, to->filters, MAX_FILTERS);
  int64_t rows = to->rows > INT32_MAX ? INT32_MAX : (int64_t)to->rows;
  int64_t columns = to->columns > INT32_MAX ? INT32_MAX : (int64_t)to->columns;
  return gconv_filter_check_size(name, rows, columns);
}

/* Reads filter k. Elements (k, r, s) are in C order or in Fortran order. */
static gconv_status read_filter(const gconv_content *content, const gconv_npy_header *header, const uint8_t *elements,
                                const shape *size, size_t k, gconv_filter *filter) {
  for (size_t r = 0; r < size->rows; r++)
    for (size_t s = 0; s < size->columns; s++) {
      size_t place =
          header->fortran_order ? k + size->filters * (r + size->rows * s) : (k * size->rows + r) * size->columns + s;
      float tap = gconv_element_read((gconv_element){header->kind, header->item_bytes, header->big_endian},
                                     elements + place * header->item_bytes);
      if (!isfinite(tap))
        return gconv_fail(GCONV_BAD_FILE,
                          "%s: the tap of filter %zu, row %zu, column %zu (from 0) is not finite in float32; "
                          "every tap must be",
                          content->name, k, r, s);
      filter->taps[r * size->columns + s] = tap;
    }
  return GCONV_OK;
}

static gconv_status parse(const gconv_content *content, gconv_filters *list) {
  gconv_source source;
  gconv_source_of_bytes(content->name, content->bytes, content->size, &source);
  gconv_npy_header header;
  GCONV_TRY(gconv_npy_header_read(&source, &header));
  shape size = {0};
  GCONV_TRY(read_shape(content->name, &header, &size));
  size_t left = content->size - (size_t)source.position;
  if (left != header.items * header.item_bytes)
    return gconv_fail(GCONV_BAD_FILE, "%s: its header promises %zu elements of %zu byte%s, but %zu bytes follow",
                      content->name, header.items, header.item_bytes, header.item_bytes == 1 ? "" : "s", left);
  for (size_t k = 0; k < size.filters; k++) {
    gconv_filter *filter;
    GCONV_TRY(gconv_filters_add(list, (int32_t)size.rows, (int32_t)size.columns, &filter));
    GCONV_TRY(read_filter(content, &header, content->bytes + source.position, &size, k, filter));
  }
  return GCONV_OK;
}

const gconv_syntax gconv_syntax_npy = {
    .name = "npy",
    .help = "an array of NumPy: rows x columns, or filters x rows x columns",
    .recognise = recognise,
    .parse = parse,
};

/* SPDX-License-Identifier: MIT */
/* The header of NumPy's .npy files, format versions 1, 2 and 3: magic, version, a Python dict that describes the data. */
#pragma once

#include "base/file.h"

enum { GCONV_NPY_DIMENSIONS = 8 };

typedef struct gconv_npy_header {
  char kind;         /* 'f' floating point, 'u' unsigned, 'i' signed integer, 'b' bool; for texts, 'U' UTF-32 or 'S' bytes */
  size_t item_bytes; /* bytes of an element: 1, 2, 4 or 8; for a text, all bytes that it has room for */
  bool big_endian;   /* false for single bytes */
  bool fortran_order;
  int dimensions; /* 0 (a single number) to GCONV_NPY_DIMENSIONS */
  size_t shape[GCONV_NPY_DIMENSIONS];
  size_t items; /* the product of shape; items * item_bytes fits in size_t */
} gconv_npy_header;

/* Returns whether a file that begins with these bytes (6 are enough) is a .npy file. */
bool gconv_npy_sniff(const uint8_t *bytes, size_t size);

/* Reads the header. The elements follow in the source. Fails with GCONV_BAD_FILE if the header is wrong. Fails with
 * GCONV_UNSUPPORTED for other types of elements (objects, records, strings, complex numbers), and for shapes with more
 * dimensions. */
gconv_status gconv_npy_header_read(gconv_source *source, gconv_npy_header *header);
/* Does what gconv_npy_header_read() does, but also reads headers of arrays of texts. */
gconv_status gconv_npy_header_read_texts(gconv_source *source, gconv_npy_header *header);

/* Makes a header as gconv_npy_header_write() writes it. Returns its bytes. */
enum { GCONV_NPY_HEADER_BYTES = 384 };
size_t gconv_npy_header_format(const gconv_npy_header *header, uint8_t bytes[GCONV_NPY_HEADER_BYTES]);

/* Writes a header of version 1. As in NumPy, padding makes elements begin at a multiple of 64 bytes. `items` is ignored. */
gconv_status gconv_npy_header_write(gconv_sink *sink, const gconv_npy_header *header);

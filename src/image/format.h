/* SPDX-License-Identifier: MIT */
/*
 * What a file format offers: one row in the table of formats.c, one file each (png.c, jpeg.c, pnm.c, pfm.c, npy.c).
 *
 * Reading and writing go by rows, in order from the top, so that a later stage can start before the last row is there and a
 * huge image need not be in memory at once. A format that cannot go by rows (interlaced PNG, PFM from the bottom up) does
 * the work at its first row.
 */
#ifndef GCONV_IMAGE_FORMAT_H
#define GCONV_IMAGE_FORMAT_H

#include "base/file.h"
#include "base/memory.h"
#include "gconv.h"

typedef struct gconv_format gconv_format;

/* An image being read. */
typedef struct gconv_reader {
  const gconv_format *format;
  gconv_source *source;
  gconv_image header;  /* set by open(): all but data, row_bytes and plane_bytes; owns icc */
  int orientation;     /* EXIF, 1 to 8; 1: as it is. Set by open(); applied after the rows are read */
  uint64_t max_pixels; /* checked by gconv_reader_open() between open() and the first row */
  int64_t rows_read;   /* of frames * (planar ? channels : 1) * height */
  void *state;         /* the format's own; freed by close() */
} gconv_reader;

/* An image being written. */
typedef struct gconv_writer {
  const gconv_format *format;
  gconv_sink *sink;
  const gconv_image *header;          /* shapes, type, alpha, icc and resolution; its pixels are not looked at */
  const gconv_write_options *options; /* never NULL, defaults filled in */
  void *state;
} gconv_writer;

struct gconv_format {
  gconv_format_info info;

  /* Whether a file that begins with these bytes (up to 16; fewer if it is shorter) is of this format. */
  bool (*sniff)(const uint8_t *bytes, size_t size);
  /* Reads the header only: no memory in proportion to the pixels is taken. */
  gconv_status (*open)(gconv_reader *reader);
  /* Reads the next `count` rows to rows + i * row_bytes. */
  gconv_status (*read_rows)(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count);
  /* After success or failure of open(). */
  void (*close)(gconv_reader *reader);

  gconv_status (*start)(gconv_writer *writer);
  gconv_status (*write_rows)(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count);
  /* Writes what follows the last row. */
  gconv_status (*finish)(gconv_writer *writer);
  /* Frees the state, after success or failure of start(). */
  void (*end)(gconv_writer *writer);
};

#endif

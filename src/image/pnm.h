/* SPDX-License-Identifier: MIT */
/*
 * Netpbm's formats: what the parts share.
 *
 *   pnm_header.c  headers, and numbers as text
 *   pnm_write.c   writing
 *   pnm.c         reading, and the rows of the formats
 */
#pragma once

#include "image/format.h"

enum { GCONV_PNM_END = -1 }; /* in place of a byte: the file ends */

static inline bool gconv_pnm_is_space(int c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Reads the first byte that is neither white space nor in a comment (from # to the end of the line). */
gconv_status gconv_pnm_skip_space(gconv_source *source, int *c);

/* Reads a number after white space and comments, and the one byte after it. */
gconv_status gconv_pnm_read_number(gconv_source *source, const char *what, uint32_t limit, uint32_t *value);

/* Reads the header of the next image: *kind is 1 to 7, the digit of the magic. Sets width, height, channels and alpha. */
gconv_status gconv_pnm_read_header(gconv_reader *reader, int *kind, uint32_t *maxval, gconv_image *header);

/* ---- Parts of the rows ---- */

gconv_status gconv_pnm_start(gconv_writer *writer);
gconv_status gconv_pnm_write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count);
gconv_status gconv_pnm_add_frame(gconv_writer *writer);

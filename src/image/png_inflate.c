/* SPDX-License-Identifier: MIT */
#include "image/png_inflate.h"

#ifdef GCONV_WITH_ISAL
#include "base/checksum.h"
#include "base/element.h"
#include "image/png_filter.h"

#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>

enum {
  INPUT_BYTES = 64 * 1024,  /* bytes of IDAT chunks that are read at a time */
  PIECE_BYTES = 256 * 1024, /* bytes that are inflated at a time, or a line if that is longer */
  MOST_LINE_BYTES = 1 << 28,
  ZLIB_HEAD = 2,
  CHUNK_HEAD = 8, /* size and type of a chunk */
  CRC_BYTES = 4,
  TIME_BYTES = 7, /* data of a tIME chunk */
};

struct gconv_png_inflate {
  gconv_source *source;

  /* The chunk of the file whose bytes come next. */
  uint8_t type[4];
  size_t left; /* bytes of the chunk that are left */
  uint32_t crc;

  /* IDAT chunks are inflated into lines. A line is the number of a row's filter, and the row. */
  struct inflate_state *state;
  uint8_t *input;
  uint8_t *piece; /* piece[begin .. end) is inflated */
  size_t begin, end, piece_bytes;
  uint64_t to_inflate; /* bytes of lines that ISA-L has not been asked for */

  size_t line, pixel; /* bytes of a line, and of a pixel */
  int32_t rows_left;
  uint8_t *above; /* the last row of the last call */
};

static size_t line_bytes(const gconv_image *header) {
  return gconv_image_row_bytes(header) + 1;
}

static size_t piece_bytes(size_t line) {
  return line > PIECE_BYTES ? line : PIECE_BYTES;
}

static size_t smaller(size_t a, uint64_t b) {
  return a < b ? a : (size_t)b;
}

/* ---- The chunks of the file ---- */

static bool read_exactly(gconv_png_inflate *inflate, void *bytes, size_t size) {
  size_t got = 0;
  return gconv_source_read(inflate->source, bytes, size, &got) == GCONV_OK && got == size;
}

static bool is_type(const gconv_png_inflate *inflate, const char *type) {
  return memcmp(inflate->type, type, sizeof inflate->type) == 0;
}

static void begin_chunk(gconv_png_inflate *inflate, const char *type, size_t size) {
  memcpy(inflate->type, type, sizeof inflate->type);
  inflate->left = size;
  inflate->crc = gconv_crc32(0, inflate->type, sizeof inflate->type);
}

/* Reads the next bytes of the chunk. */
static bool read_chunk(gconv_png_inflate *inflate, uint8_t *bytes, size_t size) {
  if (!read_exactly(inflate, bytes, size))
    return false;
  inflate->crc = gconv_crc32(inflate->crc, bytes, size);
  inflate->left -= size;
  return true;
}

/* Reads the checksum of the chunk. Returns false if it is wrong. */
static bool end_chunk(gconv_png_inflate *inflate) {
  uint8_t crc[CRC_BYTES];
  return read_exactly(inflate, crc, sizeof crc) && gconv_bytes_number(crc, sizeof crc, true) == inflate->crc;
}

/* Returns false if the checksum of the chunk is wrong, or there is no other chunk. */
static bool next_chunk(gconv_png_inflate *inflate) {
  uint8_t head[CHUNK_HEAD];
  if (!end_chunk(inflate) || !read_exactly(inflate, head, sizeof head))
    return false;
  begin_chunk(inflate, (const char *)head + 4, (size_t)gconv_bytes_number(head, 4, true));
  return inflate->left <= INT32_MAX;
}

/* Reads more of the IDAT chunks, and nothing after the last. Returns false if something is wrong. */
static bool read_input(gconv_png_inflate *inflate) {
  size_t size = 0;
  while (size < INPUT_BYTES) {
    while (inflate->left == 0 && is_type(inflate, "IDAT"))
      if (!next_chunk(inflate))
        return false;
    if (!is_type(inflate, "IDAT"))
      break;
    size_t some = smaller(inflate->left, INPUT_BYTES - size);
    if (!read_chunk(inflate, inflate->input + size, some))
      return false;
    size += some;
  }
  inflate->state->next_in = inflate->input;
  inflate->state->avail_in = (uint32_t)size;
  return true;
}

/* Goes on to the end of the file. Skips texts, times, and EXIF, which ImageMagick writes after the pixels. Returns false at
 * other chunks: libpng must look at them. */
static bool read_end(gconv_png_inflate *inflate) {
  while (!is_type(inflate, "IEND")) {
    bool skipped =
        is_type(inflate, "tEXt") || is_type(inflate, "zTXt") || is_type(inflate, "iTXt") || is_type(inflate, "eXIf");
    if (!skipped && !(is_type(inflate, "tIME") && inflate->left == TIME_BYTES))
      return false;
    while (inflate->left > 0)
      if (!read_chunk(inflate, inflate->input, smaller(inflate->left, INPUT_BYTES)))
        return false;
    if (!next_chunk(inflate))
      return false;
  }
  return inflate->left == 0 && end_chunk(inflate);
}

/* ---- Lines ---- */

/* Inflates until the output is full or the stream has ended. */
static bool inflate_some(gconv_png_inflate *inflate) {
  struct inflate_state *state = inflate->state;
  for (;;) {
    if (isal_inflate(state) < 0)
      return false;
    if (state->avail_out == 0 || state->block_state == ISAL_BLOCK_FINISH)
      return true;
    if (state->avail_in > 0 || !read_input(inflate) || state->avail_in == 0)
      return false;
  }
}

/* Inflates the next lines into the piece, after what is left of the lines before. */
static bool inflate_piece(gconv_png_inflate *inflate) {
  size_t kept = inflate->end - inflate->begin;
  memmove(inflate->piece, inflate->piece + inflate->begin, kept);
  size_t wanted = smaller(inflate->piece_bytes - kept, inflate->to_inflate);
  inflate->state->next_out = inflate->piece + kept;
  inflate->state->avail_out = (uint32_t)wanted;
  inflate->to_inflate -= wanted;
  inflate->begin = 0;
  inflate->end = kept + wanted;
  return inflate_some(inflate) && inflate->state->avail_out == 0;
}

/* Called after the last line. Returns whether the stream ends here, with the right checksum, and the IDAT chunks end with
 * it. */
static bool end_stream(gconv_png_inflate *inflate) {
  struct inflate_state *state = inflate->state;
  uint8_t beyond;
  state->next_out = &beyond;
  state->avail_out = 1;
  return inflate_some(inflate) && state->avail_out == 1 && state->avail_in == 0 && state->read_in_length == 0 &&
         read_input(inflate) && state->avail_in == 0;
}

bool gconv_png_inflate_rows(gconv_png_inflate *inflate, uint8_t *rows, size_t row_bytes, int32_t count) {
  const uint8_t *above = inflate->above;
  for (int32_t i = 0; i < count; i++, rows += row_bytes) {
    if (inflate->end - inflate->begin < inflate->line && !inflate_piece(inflate))
      return false;
    const uint8_t *line = inflate->piece + inflate->begin;
    inflate->begin += inflate->line;
    if (line[0] >= GCONV_PNG_FILTERS)
      return false;
    gconv_png_unfilter_row(line[0], line + 1, above, inflate->line - 1, inflate->pixel, rows);
    above = rows;
  }
  memcpy(inflate->above, above, inflate->line - 1);
  inflate->rows_left -= count;
  return inflate->rows_left > 0 || (end_stream(inflate) && read_end(inflate));
}

/* ---- Memory ---- */

static gconv_status allocate(gconv_png_inflate *inflate) {
  GCONV_ALLOCATE(inflate->input, INPUT_BYTES, "lines of a PNG");
  GCONV_ALLOCATE(inflate->piece, inflate->piece_bytes, "lines of a PNG");
  GCONV_ALLOCATE(inflate->above, inflate->line, "lines of a PNG");
  GCONV_ALLOCATE(inflate->state, sizeof *inflate->state, "lines of a PNG");
  memset(inflate->above, 0, inflate->line); /* the row above the image */
  isal_inflate_init(inflate->state);
  inflate->state->crc_flag = ISAL_ZLIB;
  return GCONV_OK;
}

gconv_png_inflate *gconv_png_inflate_open(gconv_source *source, size_t chunk_bytes, const gconv_image *header) {
  const uint8_t *begin;
  size_t got, line = line_bytes(header);
  if (!gconv_source_can_rewind(source) || line > MOST_LINE_BYTES || chunk_bytes < ZLIB_HEAD ||
      gconv_source_peek(source, ZLIB_HEAD, &begin, &got) != GCONV_OK || got < ZLIB_HEAD)
    return NULL;
  /* ISA-L, unlike zlib, allows distances beyond the stream's window: so zlib inflates streams with a smaller window. */
  if (begin[0] != 0x78 || (begin[0] << 8 | begin[1]) % 31 != 0 || (begin[1] & 0x20))
    return NULL;
  gconv_png_inflate *inflate = calloc(1, sizeof *inflate);
  if (!inflate)
    return NULL;
  inflate->source = source;
  begin_chunk(inflate, "IDAT", chunk_bytes);
  inflate->line = line;
  inflate->piece_bytes = piece_bytes(line);
  inflate->pixel = (size_t)header->channels * gconv_type_bytes(header->type);
  inflate->rows_left = header->height;
  inflate->to_inflate = (uint64_t)line * (uint64_t)header->height;
  if (allocate(inflate) == GCONV_OK)
    return inflate;
  gconv_png_inflate_close(inflate);
  return NULL;
}

size_t gconv_png_inflate_bytes(const gconv_image *header) {
  size_t line = line_bytes(header);
  return sizeof(struct inflate_state) + INPUT_BYTES + piece_bytes(line) + line;
}

void gconv_png_inflate_close(gconv_png_inflate *inflate) {
  if (!inflate)
    return;
  gconv_release(inflate->state);
  gconv_release(inflate->input);
  gconv_release(inflate->piece);
  gconv_release(inflate->above);
  free(inflate);
}

#else

gconv_png_inflate *gconv_png_inflate_open(gconv_source *source, size_t chunk_bytes, const gconv_image *header) {
  return NULL;
}

bool gconv_png_inflate_rows(gconv_png_inflate *inflate, uint8_t *rows, size_t row_bytes, int32_t count) {
  return false;
}

size_t gconv_png_inflate_bytes(const gconv_image *header) {
  return 0;
}

void gconv_png_inflate_close(gconv_png_inflate *inflate) {}

#endif

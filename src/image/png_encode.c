/* SPDX-License-Identifier: MIT */
#include "image/png_encode.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "image/format.h"

#include <string.h>
#include <zlib.h>

struct gconv_png_strip_encoder {
  gconv_png_shape shape;
  gconv_png_deflater *deflater; /* tries filters and compresses; not used at level 0 */
  z_stream zlib;
  bool zlib_begun;
  size_t zlib_room;    /* the most bytes that zlib makes of a strip; used at level 0 */
  uint8_t *lines;      /* filtered */
  uint8_t *swapped[2]; /* if shape.swap: a row and the one above it, as the file has them */
};

/* ---- Chunks ---- */

void gconv_png_put_be32(uint8_t *bytes, uint32_t value) {
  for (int i = 0; i < 4; i++)
    bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

size_t gconv_png_frame_chunk(uint8_t *chunk, const char *type, size_t size) {
  gconv_png_put_be32(chunk, (uint32_t)size);
  memcpy(chunk + 4, type, 4);
  gconv_png_put_be32(chunk + GCONV_PNG_CHUNK_HEAD + size, gconv_crc32(0, chunk + 4, size + 4));
  return GCONV_PNG_CHUNK_HEAD + size + GCONV_PNG_CHUNK_TAIL;
}

/* ---- Rows ---- */

/* Returns row y of the strip, with its bytes in the order of the file. With y = -1, it is the row above the strip. */
static const uint8_t *fetch_row(gconv_png_strip_encoder *encoder, const gconv_png_rows *rows, ptrdiff_t y) {
  const uint8_t *row = y < 0 ? rows->above : rows->rows + (size_t)y * rows->stride;
  if (!encoder->shape.swap)
    return row;
  uint8_t *swapped = encoder->swapped[y & 1];
  memcpy(swapped, row, encoder->shape.row_bytes);
  gconv_swap_bytes(swapped, encoder->shape.row_bytes / 2, 2);
  return swapped;
}

static gconv_png_lines filter_rows(gconv_png_strip_encoder *encoder, const gconv_png_rows *rows, int filter, size_t begin,
                                   size_t count) {
  const gconv_png_shape *shape = &encoder->shape;
  size_t line = shape->row_bytes + 1;
  uint8_t *out = encoder->lines;
  const uint8_t *above = fetch_row(encoder, rows, (ptrdiff_t)begin - 1);
  for (size_t y = begin; y < begin + count; y++, out += line) {
    const uint8_t *row = fetch_row(encoder, rows, (ptrdiff_t)y);
    out[0] = (uint8_t)filter;
    gconv_png_filter_row(filter, row, above, shape->row_bytes, shape->pixel, out + 1);
    above = row;
  }
  memset(out, 0, GCONV_PNG_DEFLATE_SLACK); /* the compressor compares eight bytes at a time */
  return (gconv_png_lines){.bytes = encoder->lines, .size = count * line, .line = line, .pixel = shape->pixel};
}

/* Chooses a filter by the rules of png_strip.h. */
static gconv_png_choice choose_filter(gconv_png_strip_encoder *encoder, const gconv_png_rows *rows) {
  const gconv_png_sample sample = gconv_png_sample_of(encoder->shape.row_bytes + 1, 0, rows->count);
  uint64_t literals[GCONV_PNG_FILTERS];
  for (int filter = GCONV_PNG_NONE; filter < GCONV_PNG_FILTERS; filter++) {
    gconv_png_lines lines = filter_rows(encoder, rows, filter, sample.begin, sample.count);
    literals[filter] = gconv_png_deflate_try_literals(encoder->deflater, &lines);
  }
  gconv_png_choice choice = gconv_png_choice_begin(literals);
  for (int turn = 0; turn < GCONV_PNG_FILTERS; turn++) {
    int filter = gconv_png_choice_turn(&choice, turn);
    bool tried = gconv_png_choice_wants(&choice, filter, choice.pay);
    uint64_t with = 0;
    if (tried) {
      gconv_png_lines lines = filter_rows(encoder, rows, filter, sample.begin, sample.count);
      with = gconv_png_deflate_try_matches(encoder->deflater, &lines);
    }
    gconv_png_choice_take(&choice, filter, tried, with);
  }
  return choice;
}

/* ---- Compression ---- */

/* Makes raw deflate in out[0 .. room). Returns its size; 0 if the room is not enough. */
static size_t deflate_by_zlib(z_stream *stream, const gconv_png_lines *lines, bool last, uint8_t *out, size_t room) {
  deflateReset(stream);
  stream->next_in = (z_const Bytef *)lines->bytes;
  stream->avail_in = (uInt)lines->size;
  stream->next_out = out;
  stream->avail_out = (uInt)room;
  int result = deflate(stream, last ? Z_FINISH : Z_SYNC_FLUSH);
  bool whole = last ? result == Z_STREAM_END : stream->avail_out > 0;
  return whole ? room - stream->avail_out : 0;
}

/* Our own deflate knows pixels, and makes some photos smaller than zlib at any level. So users who ask for a level get the
 * smaller of both results. zlib's result overwrites ours. If it is not smaller, ours is made once more, which is fast. */
static size_t deflate_lines(gconv_png_strip_encoder *encoder, const gconv_png_lines *lines, bool last, uint8_t *out) {
  if (encoder->shape.level == 0)
    return deflate_by_zlib(&encoder->zlib, lines, last, out, encoder->zlib_room);
  size_t own = gconv_png_deflate(encoder->deflater, lines, last, out);
  if (!encoder->zlib_begun)
    return own;
  size_t size = deflate_by_zlib(&encoder->zlib, lines, last, out, own);
  return size > 0 ? size : gconv_png_deflate(encoder->deflater, lines, last, out);
}

size_t gconv_png_encode_strip(gconv_png_strip_encoder *encoder, const gconv_png_rows *rows, uint8_t *chunk,
                              uint32_t *adler) {
  const gconv_png_shape *shape = &encoder->shape;
  gconv_png_choice choice = {.best = GCONV_PNG_NONE};
  if (shape->level > 0)
    choice = choose_filter(encoder, rows);
  gconv_png_lines lines = filter_rows(encoder, rows, choice.best, 0, rows->count);
  lines.matches = choice.matches;
  uint8_t *out = chunk + GCONV_PNG_CHUNK_HEAD;
  if (rows->first) {
    const unsigned head = gconv_png_stream_head(shape->level);
    *out++ = (uint8_t)(head >> 8);
    *out++ = (uint8_t)head;
  }
  out += deflate_lines(encoder, &lines, rows->last, out);
  *adler = gconv_adler32(1, lines.bytes, lines.size);
  return gconv_png_frame_chunk(chunk, "IDAT", (size_t)(out - chunk) - GCONV_PNG_CHUNK_HEAD);
}

/* ---- Workspace ---- */

static gconv_status allocate(gconv_png_strip_encoder *encoder) {
  const gconv_png_shape *shape = &encoder->shape;
  const size_t size = shape->strip_rows * (shape->row_bytes + 1);
  void *memory;
  GCONV_TRY(gconv_allocate(size + GCONV_PNG_DEFLATE_SLACK, "a strip of a PNG", &memory));
  encoder->lines = memory;
  for (int i = 0; i < 2 && shape->swap; i++) {
    GCONV_TRY(gconv_allocate(shape->row_bytes, "a row of a PNG", &memory));
    encoder->swapped[i] = memory;
  }
  return gconv_png_deflater_create(&encoder->deflater);
}

static gconv_status begin_zlib(gconv_png_strip_encoder *encoder) {
  enum { RAW = -15, MOST_MEMORY = 9, FLUSH = 16 };
  const gconv_png_shape *shape = &encoder->shape;
  if (shape->level == GCONV_PNG_FAST_LEVEL)
    return GCONV_OK;
  if (deflateInit2(&encoder->zlib, shape->level, Z_DEFLATED, RAW, MOST_MEMORY, Z_FILTERED) != Z_OK)
    return gconv_fail(GCONV_NO_MEMORY, "no memory to compress a PNG");
  encoder->zlib_begun = true;
  encoder->zlib_room = deflateBound(&encoder->zlib, shape->strip_rows * (shape->row_bytes + 1)) + FLUSH;
  return GCONV_OK;
}

gconv_status gconv_png_strip_encoder_create(const gconv_png_shape *shape, gconv_png_strip_encoder **result) {
  gconv_png_strip_encoder *encoder;
  GCONV_NEW(encoder, 1, "no memory for a PNG");
  encoder->shape = *shape;
  gconv_status status = allocate(encoder);
  GCONV_THEN(status, begin_zlib(encoder));
  if (status == GCONV_OK)
    *result = encoder;
  else
    gconv_png_strip_encoder_free(encoder);
  return status;
}

void gconv_png_strip_encoder_free(gconv_png_strip_encoder *encoder) {
  if (!encoder)
    return;
  gconv_png_deflater_free(encoder->deflater);
  if (encoder->zlib_begun)
    deflateEnd(&encoder->zlib);
  gconv_release(encoder->lines);
  gconv_release(encoder->swapped[0]);
  gconv_release(encoder->swapped[1]);
  free(encoder);
}

size_t gconv_png_strip_encoder_room(const gconv_png_strip_encoder *encoder) {
  const gconv_png_shape *shape = &encoder->shape;
  const size_t own = gconv_png_chunk_bound(shape->strip_rows * (shape->row_bytes + 1));
  const size_t stored = GCONV_PNG_CHUNK_HEAD + GCONV_PNG_STREAM_HEAD + encoder->zlib_room + GCONV_PNG_CHUNK_TAIL;
  return shape->level == 0 ? stored : own;
}

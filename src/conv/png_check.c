/* SPDX-License-Identifier: MIT */
#include "conv/png_check.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "image/png_deflate.h"
#include "image/png_filter.h"

#include <stdlib.h>
#include <string.h>

enum {
  PIXEL = 3,
  WIDTH = 200,
  HEIGHT = 360,
  NOISY_ROWS = 225, /* more than the first block of the first strip */
  FLAT_ROW = 330,   /* from here on */
  ROW = WIDTH * PIXEL,
  LINE = ROW + 1,
  STRIP = GCONV_PNG_CHECK_ROWS * LINE,
  CHUNK_HEAD = 8, /* length and type */
  CHUNK_TAIL = 4, /* CRC */
  STREAM_HEAD = 2,
};

struct gconv_png_check {
  gconv_image picture;
  gconv_png_deflater *deflater;
  uint8_t *chunk; /* with room for that of any strip */
  uint8_t pixels[HEIGHT * ROW], zeros[ROW];
  uint8_t lines[STRIP + GCONV_PNG_DEFLATE_SLACK];
};

/* ---- The picture ---- */

static uint32_t draw(uint32_t *seed) {
  *seed = *seed * 1664525 + 1013904223;
  return *seed >> 8;
}

/* Noise of all levels; a slope with some of which each level is half as frequent as the one below; a flat run. */
static void paint(uint8_t *pixels) {
  uint32_t seed = 1;
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < ROW; x++) {
      const uint32_t drawn = draw(&seed);
      const unsigned slope = (unsigned)(x / 24 + y / 4);
      const unsigned rare = 3 * gconv_lowest_bit(drawn | 1u << 20);
      *pixels++ = (uint8_t)(y < NOISY_ROWS ? drawn >> 8 : y < FLAT_ROW ? slope + rare : 90);
    }
}

gconv_status gconv_png_check_create(gconv_png_check **result) {
  void *memory;
  GCONV_TRY(gconv_allocate(sizeof **result, "a check of PNG", &memory));
  gconv_png_check *check = memset(memory, 0, sizeof *check);
  gconv_status status = gconv_png_deflater_create(&check->deflater);
  if (status == GCONV_OK)
    status =
        gconv_allocate(CHUNK_HEAD + STREAM_HEAD + gconv_png_deflate_bound(STRIP) + CHUNK_TAIL, "a check of PNG", &memory);
  if (status != GCONV_OK) {
    gconv_png_check_free(check);
    return status;
  }
  check->chunk = memory;
  paint(check->pixels);
  check->picture = (gconv_image){.type = GCONV_U8,
                                 .frames = 1,
                                 .width = WIDTH,
                                 .height = HEIGHT,
                                 .channels = PIXEL,
                                 .row_bytes = ROW,
                                 .plane_bytes = sizeof check->pixels,
                                 .data = check->pixels};
  *result = check;
  return GCONV_OK;
}

void gconv_png_check_free(gconv_png_check *check) {
  if (!check)
    return;
  gconv_png_deflater_free(check->deflater);
  gconv_release(check->chunk);
  gconv_release(check);
}

const gconv_image *gconv_png_check_picture(const gconv_png_check *check) {
  return &check->picture;
}

/* ---- Its PNG ---- */

static int rows_of(size_t strip) {
  const int left = HEIGHT - (int)strip * GCONV_PNG_CHECK_ROWS;
  return left < GCONV_PNG_CHECK_ROWS ? left : GCONV_PNG_CHECK_ROWS;
}

/* Returns the bytes of the strip's lines. */
static size_t filter_lines(gconv_png_check *check, size_t strip, int filter) {
  const uint8_t *row = check->pixels + strip * GCONV_PNG_CHECK_ROWS * ROW;
  const uint8_t *above = strip == 0 ? check->zeros : row - ROW;
  uint8_t *out = check->lines;
  for (int y = 0; y < rows_of(strip); y++, above = row, row += ROW, out += LINE) {
    out[0] = (uint8_t)filter;
    gconv_png_filter_row(filter, row, above, ROW, PIXEL, out + 1);
  }
  return (size_t)(out - check->lines);
}

static void put_be32(uint8_t *bytes, uint32_t value) {
  for (int i = 0; i < 4; i++)
    bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Makes the chunk of the lines that are in memory; returns its size. */
static size_t make_chunk(gconv_png_check *check, size_t strip, size_t line_bytes) {
  const gconv_png_lines lines = {check->lines, line_bytes, LINE, PIXEL, GCONV_PNG_LITERALS};
  const uint8_t head[STREAM_HEAD] = {0x78, 0x01};
  uint8_t *data = check->chunk + CHUNK_HEAD;
  size_t size = strip == 0 ? STREAM_HEAD : 0;
  memcpy(data, head, size);
  size += gconv_png_deflate(check->deflater, &lines, strip + 1 == GCONV_PNG_CHECK_STRIPS, data + size);
  put_be32(check->chunk, (uint32_t)size);
  memcpy(check->chunk + 4, "IDAT", 4);
  put_be32(data + size, gconv_crc32(0, check->chunk + 4, size + 4));
  return CHUNK_HEAD + size + CHUNK_TAIL;
}

const uint8_t *gconv_png_check_chunk(gconv_png_check *check, size_t strip, int filter, size_t *size, uint32_t *adler) {
  const size_t line_bytes = filter_lines(check, strip, filter);
  *adler = gconv_adler32(1, check->lines, line_bytes);
  *size = make_chunk(check, strip, line_bytes);
  return check->chunk;
}

/* ---- The comparison ---- */

/* The filter is known by the lines' checksum. */
static bool is_right(gconv_png_check *check, size_t number, const gconv_png_strip *strip, const uint8_t *chunks,
                     size_t size) {
  if (strip->offset > size || strip->size > size - strip->offset || strip->rows != rows_of(number) ||
      strip->first_row != (int32_t)number * GCONV_PNG_CHECK_ROWS)
    return false;
  for (int filter = 0; filter < GCONV_PNG_FILTERS; filter++) {
    const size_t line_bytes = filter_lines(check, number, filter);
    if (gconv_adler32(1, check->lines, line_bytes) == strip->adler)
      return make_chunk(check, number, line_bytes) == strip->size &&
             memcmp(check->chunk, chunks + strip->offset, strip->size) == 0;
  }
  return false;
}

gconv_status gconv_png_check_strips(gconv_png_check *check, const gconv_png_strip *strips, const uint8_t *chunks,
                                    size_t size) {
  for (size_t i = 0; i < GCONV_PNG_CHECK_STRIPS; i++)
    if (!is_right(check, i, &strips[i], chunks, size))
      return gconv_fail(GCONV_UNSUPPORTED, "of a picture that is known, its PNG differs from what the CPU makes");
  return GCONV_OK;
}

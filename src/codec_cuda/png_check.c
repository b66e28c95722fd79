/* SPDX-License-Identifier: MIT */
#include "codec_cuda/png_check.h"
#include "base/memory.h"
#include "image/png_encode.h"

#include <string.h>

enum {
  PIXEL = 3,
  WIDTH = 200,
  HEIGHT = 360,
  NOISY_ROWS = 225, /* more than the first block of the first strip */
  FLAT_ROW = 330,   /* rows are flat from here on */
  ROW = WIDTH * PIXEL,
};

struct gconv_png_check {
  gconv_image picture;
  gconv_png_strip_encoder *encoder;
  uint8_t *chunk; /* room for the chunk of any strip */
  uint8_t pixels[HEIGHT * ROW], zeros[ROW];
};

/* ---- The picture ---- */

static uint32_t draw(uint32_t *seed) {
  *seed = *seed * 1664525 + 1013904223;
  return *seed >> 8;
}

/* Paints rows of noise of all levels; then a slope with noise, where each level of noise is half as frequent as the level
 * below; then flat rows. */
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
  const gconv_png_shape shape = {
      .row_bytes = ROW, .pixel = PIXEL, .strip_rows = GCONV_PNG_CHECK_ROWS, .level = GCONV_PNG_FAST_LEVEL};
  void *memory;
  GCONV_TRY(gconv_allocate(sizeof **result, "a check of PNG", &memory));
  gconv_png_check *check = memset(memory, 0, sizeof *check);
  gconv_status status = gconv_png_strip_encoder_create(&shape, &check->encoder);
  GCONV_THEN(status, gconv_allocate(gconv_png_strip_encoder_room(check->encoder), "a check of PNG", &memory));
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
  gconv_png_strip_encoder_free(check->encoder);
  gconv_release(check->chunk);
  gconv_release(check);
}

const gconv_image *gconv_png_check_picture(const gconv_png_check *check) {
  return &check->picture;
}

/* ---- Its PNG ---- */

const uint8_t *gconv_png_check_chunk(gconv_png_check *check, gconv_png_strip *strip, size_t number) {
  const int first = (int)number * GCONV_PNG_CHECK_ROWS, left = HEIGHT - first;
  gconv_png_rows rows = {.rows = check->pixels + first * ROW, .stride = ROW, .first = first == 0};
  rows.above = rows.first ? check->zeros : rows.rows - ROW;
  rows.count = (size_t)(left < GCONV_PNG_CHECK_ROWS ? left : GCONV_PNG_CHECK_ROWS);
  rows.last = number + 1 == GCONV_PNG_CHECK_STRIPS;
  *strip = (gconv_png_strip){.first_row = first, .rows = (int32_t)rows.count};
  strip->size = (uint32_t)gconv_png_encode_strip(check->encoder, &rows, check->chunk, &strip->adler);
  return check->chunk;
}

static bool is_right(gconv_png_check *check, size_t number, const gconv_png_strip *strip, const uint8_t *chunks,
                     size_t size) {
  gconv_png_strip right;
  const uint8_t *chunk = gconv_png_check_chunk(check, &right, number);
  return strip->first_row == right.first_row && strip->rows == right.rows && strip->adler == right.adler &&
         strip->size == right.size && strip->offset <= size && strip->size <= size - strip->offset &&
         memcmp(chunk, chunks + strip->offset, strip->size) == 0;
}

gconv_status gconv_png_check_strips(gconv_png_check *check, const gconv_png_strip *strips, const uint8_t *chunks,
                                    size_t size) {
  for (size_t i = 0; i < GCONV_PNG_CHECK_STRIPS; i++)
    if (!is_right(check, i, &strips[i], chunks, size))
      return gconv_fail(GCONV_UNSUPPORTED, "its PNG of a known picture differs from the CPU's");
  return GCONV_OK;
}

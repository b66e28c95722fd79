/* SPDX-License-Identifier: MIT */
/* BMP of Windows: palettes of 1, 4 and 8 bits, colours of 16, 24 and 32 bits; rows from the bottom up, or from the top. */
#include "image/format.h"

#include <string.h>

enum { FILE_HEADER = 14, CORE = 12, V4 = 108, MOST_HEADER = 256, LIMIT = 1 << 30 };
enum { SRGB = 0x73524742, LINKED = 0x4c494e4b, EMBEDDED = 0x4d424544 }; /* colour spaces: 'sRGB', 'LINK', 'MBED' */

typedef struct bmp_state {
  int bits;
  uint32_t masks[4]; /* of red, green, blue and alpha, with 16 and 32 bits */
  uint8_t palette[256][3];
  uint8_t *row; /* owned: a row of the file */
  size_t row_bytes;
} bmp_state;

static bool sniff(const uint8_t *bytes, size_t size) {
  if (size < FILE_HEADER + 2)
    return false;
  const uint64_t length = gconv_bytes_number(bytes + FILE_HEADER, 2, false);
  return bytes[0] == 'B' && bytes[1] == 'M' && (length == CORE || (length >= 40 && length <= MOST_HEADER));
}

static uint32_t u32(const uint8_t *at) {
  return (uint32_t)gconv_bytes_number(at, 4, false);
}

/* Reads the palette. Returns whether all of its colours are grey. */
static gconv_status read_palette(gconv_reader *reader, bmp_state *state, uint32_t count, size_t entry, bool *grey) {
  const uint32_t most = 1U << state->bits;
  uint8_t colour[4];
  count = count == 0 || count > most ? most : count;
  *grey = true;
  for (uint32_t i = 0; i < count; i++) {
    GCONV_TRY(gconv_source_read_exactly(reader->source, colour, entry, "its palette"));
    for (int c = 0; c < 3; c++)
      state->palette[i][c] = colour[2 - c];
    *grey = *grey && colour[0] == colour[1] && colour[1] == colour[2];
  }
  return GCONV_OK;
}

static gconv_status take_masks(const gconv_reader *reader, bmp_state *state, const uint8_t *dib, uint32_t length,
                               uint32_t compression) {
  static const uint32_t usual[2][4] = {{0x7c00, 0x3e0, 0x1f, 0}, {0xff0000, 0xff00, 0xff, 0}};
  memcpy(state->masks, usual[state->bits == 32], sizeof state->masks);
  for (size_t c = 0; c < 4 && compression != 0; c++)
    state->masks[c] = c < 3 || length >= 56 ? u32(dib + 40 + 4 * c) : 0;
  for (size_t c = 0; c < 4; c++) {
    const uint32_t mask = state->masks[c], least = mask & -mask, ends = least ? mask / least + 1 : 0;
    if ((mask == 0 && c < 3) || (ends & (ends - 1)) != 0)
      return gconv_fail(GCONV_BAD_FILE, "%s: its mask for colour %d has gaps, or is 0", reader->source->name, (int)c + 1);
  }
  return GCONV_OK;
}

static gconv_status check(const gconv_reader *reader, const bmp_state *state, uint32_t compression) {
  const char *name = reader->source->name;
  const int bits = state->bits;
  if (compression == 1 || compression == 2)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: is compressed by run lengths, which is not read here: convert it first: convert "
                      "IN OUT.png (ImageMagick)",
                      name);
  if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %d bits a pixel: it must be 1, 4, 8, 16, 24 or 32", name, bits);
  if ((compression != 0 && compression != 3 && compression != 6) || (compression != 0 && bits != 16 && bits != 32))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: has the compression %u, which is not read here", name, (unsigned)compression);
  return GCONV_OK;
}

static gconv_status take_size(gconv_reader *reader, int64_t width, int64_t height) {
  reader->orientation = height < 0 ? 1 : 4; /* 4: upside down */
  height = height < 0 ? -height : height;
  if (width < 1 || height < 1 || width > LIMIT || height > LIMIT)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %lld x %lld pixels", reader->source->name, (long long)width,
                      (long long)height);
  reader->header.width = (int32_t)width;
  reader->header.height = (int32_t)height;
  reader->header.frames = 1;
  reader->header.type = GCONV_U8;
  return GCONV_OK;
}

static gconv_status open_bmp(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(bmp_state), "a BMP", &reader->state));
  bmp_state *state = reader->state;
  uint8_t head[FILE_HEADER + 4], dib[MOST_HEADER + 16] = {0};
  GCONV_TRY(gconv_source_read_exactly(reader->source, head, sizeof head, "its header"));
  const uint32_t length = u32(head + FILE_HEADER), begin = u32(head + 10);
  if (length != CORE && (length < 40 || length > MOST_HEADER))
    return gconv_fail(GCONV_BAD_FILE, "%s: no known kind of BMP has a header of %u bytes", reader->source->name,
                      (unsigned)length);
  GCONV_TRY(gconv_source_read_exactly(reader->source, dib + 4, length - 4, "its header"));
  const bool core = length == CORE;
  const uint32_t compression = core ? 0 : u32(dib + 16);
  state->bits = (int)gconv_bytes_number(dib + (core ? 10 : 14), 2, false);
  GCONV_TRY(check(reader, state, compression));
  GCONV_TRY(core ? take_size(reader, (int64_t)gconv_bytes_number(dib + 4, 2, false),
                             (int64_t)gconv_bytes_number(dib + 6, 2, false))
                 : take_size(reader, (int32_t)u32(dib + 4), (int32_t)u32(dib + 8)));
  if (compression != 0 && length == 40) /* the masks follow the header */
    GCONV_TRY(gconv_source_read_exactly(reader->source, dib + 40, 12, "its masks"));
  bool grey = false;
  if (state->bits <= 8)
    GCONV_TRY(read_palette(reader, state, core ? 0 : u32(dib + 32), core ? 3 : 4, &grey));
  else if (state->bits != 24)
    GCONV_TRY(take_masks(reader, state, dib, length, compression));
  gconv_image *header = &reader->header;
  header->alpha = state->masks[3] != 0;
  header->channels = grey ? 1 : header->alpha ? 4 : 3;
  if (!core && (int32_t)u32(dib + 24) > 0 && (int32_t)u32(dib + 28) > 0) {
    header->pixels_per_metre_x = u32(dib + 24);
    header->pixels_per_metre_y = u32(dib + 28);
  }
  const uint32_t space = length >= V4 ? u32(dib + 56) : SRGB; /* bV4CSType, and bV4GammaRed at 96 */
  if (space == LINKED || space == EMBEDDED || (space == 0 && u32(dib + 96) != 0))
    gconv_reader_lose(reader, "the colour profile of BMP");
  if (begin < reader->source->position)
    return gconv_fail(GCONV_BAD_FILE, "%s: its pixels begin inside its header", reader->source->name);
  GCONV_TRY(gconv_source_skip(reader->source, begin - reader->source->position));
  state->row_bytes = ((size_t)header->width * (size_t)state->bits + 31) / 32 * 4;
  const size_t sizes[] = {state->row_bytes, (size_t)header->height}, bytes = gconv_checked_product(2, sizes);
  reader->end = reader->source->position + bytes;
  return gconv_reader_expect(reader, bytes);
}

/* Returns a colour of a pixel as a level of 8 bits. */
static uint8_t level(uint32_t pixel, uint32_t mask) {
  const uint32_t least = mask & -mask, most = mask / least;
  return (uint8_t)(((uint64_t)(pixel & mask) / least * 255 + most / 2) / most);
}

static void convert_row(const bmp_state *state, const gconv_image *header, uint8_t *out) {
  const size_t channels = (size_t)header->channels, bytes = (size_t)state->bits / 8;
  for (size_t x = 0; x < (size_t)header->width; x++) {
    const size_t bit = x * (size_t)state->bits;
    if (state->bits <= 8) {
      const uint8_t number =
          (uint8_t)(state->row[bit / 8] >> (8 - (size_t)state->bits - bit % 8)) & ((1U << state->bits) - 1);
      memcpy(out + x * channels, state->palette[number], channels);
    } else if (state->bits == 24) {
      for (size_t c = 0; c < 3; c++)
        out[x * 3 + c] = state->row[x * 3 + 2 - c];
    } else {
      const uint32_t pixel = (uint32_t)gconv_bytes_number(state->row + x * bytes, bytes, false);
      for (size_t c = 0; c < channels; c++)
        out[x * channels + c] = level(pixel, state->masks[c]);
    }
  }
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  bmp_state *state = reader->state;
  if (!state->row)
    GCONV_ALLOCATE(state->row, state->row_bytes, "a row");
  for (int32_t y = 0; y < count; y++) {
    GCONV_TRY(gconv_source_read_exactly(reader->source, state->row, state->row_bytes, "its pixels"));
    convert_row(state, &reader->header, (uint8_t *)rows + (size_t)y * row_bytes);
  }
  return GCONV_OK;
}

static void close_bmp(gconv_reader *reader) {
  const bmp_state *state = reader->state;
  gconv_release(state ? state->row : NULL);
}

const gconv_format gconv_format_bmp = {
    .info = {.name = "bmp",
             .extensions = "bmp dib",
             .help = "BMP of Windows, without run lengths; only read",
             .reads = true},
    .sniff = sniff,
    .open = open_bmp,
    .read_rows = read_rows,
    .close = close_bmp,
};

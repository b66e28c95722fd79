/* SPDX-License-Identifier: MIT */
#include "image/png_inflate.h"

#ifdef GCONV_WITH_ISAL
#include "base/checksum.h"
#include "base/memory.h"
#include "image/png_filter.h"

#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>

enum {
  INPUT_BYTES = 64 * 1024,  /* of IDAT chunks that are read at a time */
  PIECE_BYTES = 256 * 1024, /* that are inflated at a time, at least a line */
  PASSES = 7,               /* of an interlaced image */
  MOST_LINE_BYTES = 1 << 28,
  MOST_STORED = 65535, /* bytes of a stored block */
  STORED_HEAD = 5,
  ZLIB_HEAD = 2,
  SUM_BYTES = 4, /* Adler-32 at the end of the stream, CRC-32 at the end of each chunk */
  MOST_CHUNK_BYTES = ZLIB_HEAD + STORED_HEAD + MOST_STORED + 2 * SUM_BYTES + GCONV_PNG_HEAD, /* and the next one's head */
};

/* The lines of an image, or of a pass of an interlaced one. A line is the number of a row's filter, and the row. */
typedef struct png_pass {
  size_t line_bytes, lines;
} png_pass;

struct gconv_png_inflate {
  /* The chunk of the file whose bytes come next. */
  gconv_source *source;
  uint8_t head[GCONV_PNG_HEAD];
  size_t left; /* of its bytes */
  uint32_t crc;

  /* IDAT chunks into lines. */
  struct inflate_state *state;
  uint8_t *input;
  uint8_t *piece; /* piece[begin .. end) is inflated */
  size_t begin, end, piece_bytes;
  uint64_t to_inflate; /* bytes of all lines that were not asked for yet */

  /* Lines into rows without filters. */
  size_t pixel;   /* bytes of a pixel, 1 at least */
  size_t longest; /* bytes of a line */
  png_pass passes[PASSES];
  int pass;
  size_t line;          /* of the pass */
  uint64_t lines_left;  /* of all passes */
  uint8_t *row, *above; /* the next row's memory, and the last row */

  /* Rows into chunks for libpng: a stored block each. Of `chunk`, the bytes from `given` to `made` are wanted next. */
  const uint8_t *rest; /* of the last row */
  size_t rest_bytes;
  uint8_t *chunk;
  size_t given, made;
  bool begun, ended;
  uint32_t adler;
};

/* ---- Numbers and sizes ---- */

static uint32_t be32_at(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void put_be32(uint8_t *bytes, uint32_t value) {
  for (int i = 0; i < 4; i++)
    bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

static size_t smaller(size_t a, uint64_t b) {
  return a < b ? a : (size_t)b;
}

static size_t line_bytes(const gconv_png_shape *shape, uint32_t width) {
  return (size_t)(((uint64_t)width * shape->pixel_bits + 7) / 8) + 1;
}

static size_t piece_bytes(size_t longest_line) {
  return longest_line > PIECE_BYTES ? longest_line : PIECE_BYTES;
}

static bool allocate_bytes(size_t bytes, uint8_t **result) {
  void *memory = NULL;
  gconv_status status = gconv_allocate(bytes, "lines of a PNG", &memory);
  *result = memory;
  return status == GCONV_OK;
}

static void add_pass(gconv_png_inflate *inflate, const gconv_png_shape *shape, uint32_t width, uint32_t height) {
  png_pass *pass = &inflate->passes[inflate->pass++];
  *pass = (png_pass){line_bytes(shape, width), height};
  inflate->lines_left += pass->lines;
  inflate->to_inflate += (uint64_t)pass->line_bytes * pass->lines;
}

/* The passes that have pixels, by clause 8 of the specification; a whole image is one. */
static void add_passes(gconv_png_inflate *inflate, const gconv_png_shape *shape) {
  static const struct {
    uint32_t x, y, step_x, step_y;
  } adam7[PASSES] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  if (!shape->interlaced)
    add_pass(inflate, shape, shape->width, shape->height);
  for (int i = 0; shape->interlaced && i < PASSES; i++)
    if (shape->width > adam7[i].x && shape->height > adam7[i].y)
      add_pass(inflate, shape, (shape->width - adam7[i].x - 1) / adam7[i].step_x + 1,
               (shape->height - adam7[i].y - 1) / adam7[i].step_y + 1);
  inflate->pass = 0;
}

/* ---- The chunks of the file ---- */

static bool read_exactly(gconv_png_inflate *inflate, void *bytes, size_t size) {
  size_t got = 0;
  return gconv_source_read(inflate->source, bytes, size, &got) == GCONV_OK && got == size;
}

static void begin_chunk(gconv_png_inflate *inflate) {
  inflate->left = be32_at(inflate->head);
  inflate->crc = gconv_crc32(0, inflate->head + 4, 4);
}

/* False if the checksum of the chunk is wrong, or there is no other one. */
static bool next_chunk(gconv_png_inflate *inflate) {
  uint8_t crc[SUM_BYTES];
  if (!read_exactly(inflate, crc, sizeof crc) || be32_at(crc) != inflate->crc ||
      !read_exactly(inflate, inflate->head, sizeof inflate->head))
    return false;
  begin_chunk(inflate);
  return inflate->left <= INT32_MAX;
}

/* Reads some more of the IDAT chunks: nothing only behind the last of them. False if something is wrong. */
static bool read_input(gconv_png_inflate *inflate) {
  size_t size = 0;
  while (size < INPUT_BYTES) {
    while (inflate->left == 0 && memcmp(inflate->head + 4, "IDAT", 4) == 0)
      if (!next_chunk(inflate))
        return false;
    if (memcmp(inflate->head + 4, "IDAT", 4) != 0)
      break;
    size_t some = smaller(inflate->left, INPUT_BYTES - size);
    if (!read_exactly(inflate, inflate->input + size, some))
      return false;
    inflate->crc = gconv_crc32(inflate->crc, inflate->input + size, some);
    inflate->left -= some;
    size += some;
  }
  inflate->state->next_in = inflate->input;
  inflate->state->avail_in = (uint32_t)size;
  return true;
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

/* Inflates the next lines behind what is left of the last ones. */
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

/* Behind the last line: whether the stream ends here, with the right checksum, and the IDAT chunks end with it. */
static bool end_stream(gconv_png_inflate *inflate) {
  struct inflate_state *state = inflate->state;
  uint8_t beyond;
  state->next_out = &beyond;
  state->avail_out = 1;
  return inflate_some(inflate) && state->avail_out == 1 && state->avail_in == 0 && state->read_in_length == 0 &&
         read_input(inflate) && state->avail_in == 0;
}

/* The next row, behind a 0 in place of the number of its filter, becomes the rest. */
static bool make_row(gconv_png_inflate *inflate) {
  const png_pass *pass = &inflate->passes[inflate->pass];
  if (inflate->end - inflate->begin < pass->line_bytes && !inflate_piece(inflate))
    return false;
  const uint8_t *line = inflate->piece + inflate->begin;
  inflate->begin += pass->line_bytes;
  if (line[0] >= GCONV_PNG_FILTERS)
    return false;
  if (inflate->line == 0)
    memset(inflate->above, 0, pass->line_bytes);
  uint8_t *row = inflate->row;
  row[0] = GCONV_PNG_NONE;
  gconv_png_unfilter_row(line[0], line + 1, inflate->above + 1, pass->line_bytes - 1, inflate->pixel, row + 1);
  inflate->row = inflate->above;
  inflate->above = row;
  inflate->rest = row;
  inflate->rest_bytes = pass->line_bytes;
  inflate->lines_left--;
  bool next_pass = ++inflate->line == pass->lines;
  inflate->pass += next_pass;
  inflate->line = next_pass ? 0 : inflate->line;
  return inflate->lines_left > 0 || end_stream(inflate);
}

/* ---- Chunks for libpng ---- */

/* How many bytes of which row the next chunk has, and whether it is the last one. */
static size_t next_block(const gconv_png_inflate *inflate, bool *last) {
  size_t left = inflate->rest_bytes > 0 ? inflate->rest_bytes : inflate->passes[inflate->pass].line_bytes;
  *last = left <= MOST_STORED && inflate->lines_left == (inflate->rest_bytes > 0 ? 0 : 1);
  return smaller(left, MOST_STORED);
}

static uint32_t next_chunk_bytes(const gconv_png_inflate *inflate) {
  bool last;
  size_t block = next_block(inflate, &last);
  return (uint32_t)((inflate->begun ? 0 : ZLIB_HEAD) + STORED_HEAD + block + (last ? SUM_BYTES : 0));
}

static void put_bytes(gconv_png_inflate *inflate, const void *bytes, size_t size) {
  memcpy(inflate->chunk + inflate->made, bytes, size);
  inflate->made += size;
}

static void put_number(gconv_png_inflate *inflate, uint32_t number) {
  put_be32(inflate->chunk + inflate->made, number);
  inflate->made += 4;
}

/* A chunk without its head, which libpng has, and with the head of the next one. */
static bool make_chunk(gconv_png_inflate *inflate) {
  static const uint8_t zlib_head[ZLIB_HEAD] = {0x08,
                                               0x1d}; /* the smallest window: zlib copies what is in it again and again */
  if (inflate->rest_bytes == 0 && !make_row(inflate))
    return false;
  bool last;
  size_t size = next_block(inflate, &last);
  inflate->given = inflate->made = 0;
  if (!inflate->begun)
    put_bytes(inflate, zlib_head, ZLIB_HEAD);
  inflate->begun = true;
  uint8_t low = (uint8_t)size, high = (uint8_t)(size >> 8);
  put_bytes(inflate, (uint8_t[]){last, low, high, (uint8_t)~low, (uint8_t)~high}, STORED_HEAD);
  put_bytes(inflate, inflate->rest, size);
  inflate->adler = gconv_adler32(inflate->adler, inflate->rest, size);
  inflate->rest += size;
  inflate->rest_bytes -= size;
  if (last)
    put_number(inflate, inflate->adler);
  put_number(inflate, 0); /* no checksum */
  inflate->ended = last;
  if (last) {
    put_bytes(inflate, inflate->head, GCONV_PNG_HEAD);
  } else {
    put_number(inflate, next_chunk_bytes(inflate));
    put_bytes(inflate, "IDAT", 4);
  }
  return true;
}

/* ---- From outside ---- */

gconv_png_inflate *gconv_png_inflate_open(gconv_source *source, const gconv_png_shape *shape, uint8_t head[GCONV_PNG_HEAD]) {
  const uint8_t *begin;
  size_t got, longest = line_bytes(shape, shape->width);
  if (!gconv_source_can_rewind(source) || shape->width == 0 || shape->height == 0 || longest > MOST_LINE_BYTES ||
      gconv_source_peek(source, ZLIB_HEAD, &begin, &got) != GCONV_OK || got < ZLIB_HEAD || be32_at(head) < ZLIB_HEAD)
    return NULL;
  /* zlib holds distances to the window that is announced, which ISA-L does not: so only the full one is taken. */
  if (begin[0] != 0x78 || (begin[0] << 8 | begin[1]) % 31 != 0 || (begin[1] & 0x20))
    return NULL;
  gconv_png_inflate *inflate = calloc(1, sizeof *inflate);
  if (!inflate)
    return NULL;
  inflate->source = source;
  memcpy(inflate->head, head, GCONV_PNG_HEAD);
  begin_chunk(inflate);
  inflate->longest = longest;
  inflate->pixel = (shape->pixel_bits + 7) / 8;
  inflate->adler = 1;
  add_passes(inflate, shape);
  put_be32(head, next_chunk_bytes(inflate));
  return inflate;
}

/* Late: the header alone takes no memory in proportion to the image. */
static bool allocate(gconv_png_inflate *inflate) {
  inflate->piece_bytes = piece_bytes(inflate->longest);
  void *state = NULL;
  if (inflate->state)
    return true;
  if (!allocate_bytes(INPUT_BYTES, &inflate->input) || !allocate_bytes(inflate->piece_bytes, &inflate->piece) ||
      !allocate_bytes(inflate->longest, &inflate->row) || !allocate_bytes(inflate->longest, &inflate->above) ||
      !allocate_bytes(MOST_CHUNK_BYTES, &inflate->chunk) ||
      gconv_allocate(sizeof *inflate->state, "lines of a PNG", &state) != GCONV_OK)
    return false;
  inflate->state = state;
  isal_inflate_init(inflate->state);
  inflate->state->crc_flag = ISAL_ZLIB;
  return true;
}

bool gconv_png_inflate_read(gconv_png_inflate *inflate, uint8_t *bytes, size_t size) {
  if (!allocate(inflate))
    return false;
  for (size_t some; size > 0; size -= some, bytes += some) {
    if (inflate->given == inflate->made && inflate->ended)
      return read_exactly(inflate, bytes, size);
    if (inflate->given == inflate->made && !make_chunk(inflate))
      return false;
    some = smaller(size, inflate->made - inflate->given);
    memcpy(bytes, inflate->chunk + inflate->given, some);
    inflate->given += some;
  }
  return true;
}

size_t gconv_png_inflate_bytes(const gconv_png_shape *shape) {
  size_t longest = line_bytes(shape, shape->width);
  return sizeof(struct inflate_state) + INPUT_BYTES + MOST_CHUNK_BYTES + piece_bytes(longest) + 2 * longest;
}

void gconv_png_inflate_close(gconv_png_inflate *inflate) {
  if (!inflate)
    return;
  gconv_release(inflate->state);
  gconv_release(inflate->input);
  gconv_release(inflate->piece);
  gconv_release(inflate->row);
  gconv_release(inflate->above);
  gconv_release(inflate->chunk);
  free(inflate);
}

#else

gconv_png_inflate *gconv_png_inflate_open(gconv_source *source, const gconv_png_shape *shape, uint8_t head[GCONV_PNG_HEAD]) {
  (void)source;
  (void)shape;
  (void)head;
  return NULL;
}

bool gconv_png_inflate_read(gconv_png_inflate *inflate, uint8_t *bytes, size_t size) {
  (void)inflate;
  (void)bytes;
  (void)size;
  return false;
}

size_t gconv_png_inflate_bytes(const gconv_png_shape *shape) {
  (void)shape;
  return 0;
}

void gconv_png_inflate_close(gconv_png_inflate *inflate) {
  (void)inflate;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * QOI, the Quite OK Image format (qoiformat.org): "qoif", width, height, channels, a byte that tells of colours; then codes
 * of 1 to 5 bytes, each for a pixel or a run of pixels; then seven bytes of 0 and one of 1. The two highest bits of a code's
 * first byte tell its kind. Grey is written as RGB.
 */
#include "base/element.h"
#include "image/format.h"

#include <string.h>

enum {
  HEAD_BYTES = 14,
  END_BYTES = 8,
  LONGEST_RUN = 62,
  CODES_BYTES = 4096,
  INDEX = 0x00, /* kinds: a pixel that was seen before */
  DIFF = 0x40,  /* small differences from the last pixel, of each sample by itself */
  LUMA = 0x80,  /* larger ones: of green, and of red and blue less that of green */
  RUN = 0xc0,   /* the last pixel several times */
  KINDS = 0xc0,
  WHOLE_RGB = 0xfe, /* in place of two lengths that a run cannot have */
  WHOLE_RGBA = 0xff,
};

typedef struct pixel {
  uint8_t r, g, b, a;
} pixel;

typedef struct qoi_state {
  pixel last, seen[64];       /* the latter by place_of() */
  int32_t run;                /* times that `last` still comes (reading), or came since its code (writing) */
  bool linear;                /* samples are in proportion to light */
  const uint8_t *next, *end;  /* bytes of the source */
  uint8_t codes[CODES_BYTES]; /* for the sink */
  size_t used;
} qoi_state;

static size_t place_of(pixel p) {
  return (p.r * 3u + p.g * 5u + p.b * 7u + p.a * 11u) % 64;
}

static gconv_status create_state(void **result) {
  GCONV_TRY(gconv_format_state(sizeof(qoi_state), "a QOI", result));
  ((qoi_state *)*result)->last.a = 255;
  return GCONV_OK;
}

/* ---- Reading ---- */

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 4 && memcmp(bytes, "qoif", 4) == 0;
}

static gconv_status open_qoi(gconv_reader *reader) {
  gconv_image *header = &reader->header;
  uint8_t head[HEAD_BYTES];
  GCONV_TRY(create_state(&reader->state));
  GCONV_TRY(gconv_source_read_exactly(reader->source, head, sizeof head, "its header"));
  uint32_t width = (uint32_t)gconv_bytes_number(head + 4, 4, true), height = (uint32_t)gconv_bytes_number(head + 8, 4, true);
  uint32_t channels = head[12], colours = head[13];
  if (width < 1 || width > INT32_MAX || height < 1 || height > INT32_MAX || channels < 3 || channels > 4 || colours > 1)
    return gconv_fail(GCONV_BAD_FILE, "%s: its QOI header tells of %u x %u pixels, %u channels and colours of kind %u",
                      reader->source->name, width, height, channels, colours);
  ((qoi_state *)reader->state)->linear = colours == 1;
  header->type = GCONV_U8;
  header->frames = 1;
  header->width = (int32_t)width;
  header->height = (int32_t)height;
  header->channels = (int32_t)channels;
  header->alpha = channels == 4;
  return gconv_reader_expect(reader, (size_t)((uint64_t)width * height / LONGEST_RUN) + END_BYTES);
}

static inline gconv_status read_bytes(qoi_state *state, gconv_source *source, uint8_t *bytes, size_t count) {
  for (size_t i = 0, got; i < count; i++) {
    if (state->next == state->end) {
      GCONV_TRY(gconv_source_next(source, &state->next, &got));
      if (got == 0)
        return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its pixels", source->name);
      state->end = state->next + got;
    }
    bytes[i] = *state->next++;
  }
  return GCONV_OK;
}

/* The next pixel becomes the last one. */
static gconv_status read_code(qoi_state *state, gconv_source *source) {
  uint8_t code[5] = {0};
  pixel *p = &state->last;
  GCONV_TRY(read_bytes(state, source, code, 1));
  int kind = code[0] & KINDS, value = code[0] & ~KINDS;
  size_t more = code[0] == WHOLE_RGBA ? 4 : code[0] == WHOLE_RGB ? 3 : kind == LUMA ? 1 : 0;
  GCONV_TRY(read_bytes(state, source, code + 1, more));
  if (more >= 3) {
    *p = (pixel){code[1], code[2], code[3], more == 4 ? code[4] : p->a};
  } else if (kind == INDEX) {
    *p = state->seen[value];
  } else if (kind == RUN) {
    state->run = value; /* besides this one */
  } else {
    int green = kind == LUMA ? value - 32 : (value >> 2 & 3) - 2;
    p->r = (uint8_t)(p->r + (kind == LUMA ? green + (code[1] >> 4) - 8 : (value >> 4) - 2));
    p->b = (uint8_t)(p->b + (kind == LUMA ? green + (code[1] & 15) - 8 : (value & 3) - 2));
    p->g = (uint8_t)(p->g + green);
  }
  state->seen[place_of(*p)] = *p;
  return GCONV_OK;
}

static gconv_status check_end(gconv_reader *reader, qoi_state *state) {
  uint8_t bytes[END_BYTES];
  GCONV_TRY(read_bytes(state, reader->source, bytes, sizeof bytes));
  if (state->run > 0 || memcmp(bytes, "\0\0\0\0\0\0\0\1", END_BYTES) != 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: damaged QOI: its pixels do not end with the image", reader->source->name);
  if (state->linear && !reader->again)
    gconv_warn("%s: its samples are in proportion to light; viewers will take the result for sRGB", reader->source->name);
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  qoi_state *state = reader->state;
  const size_t channels = (size_t)reader->header.channels;
  for (int32_t y = 0; y < count; y++) {
    uint8_t *out = (uint8_t *)rows + (size_t)y * row_bytes;
    for (int32_t x = 0; x < reader->header.width; x++, out += channels) {
      if (state->run > 0)
        state->run--;
      else
        GCONV_TRY(read_code(state, reader->source));
      memcpy(out, &state->last, channels);
    }
  }
  return reader->rows_read + count == reader->header.height ? check_end(reader, state) : GCONV_OK;
}

/* ---- Writing ---- */

static gconv_status start(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  uint8_t head[HEAD_BYTES] = "qoif";
  for (int i = 0; i < 4; i++) {
    head[4 + i] = (uint8_t)(header->width >> (24 - 8 * i));
    head[8 + i] = (uint8_t)(header->height >> (24 - 8 * i));
  }
  head[12] = header->channels % 2 ? 3 : 4;
  GCONV_TRY(create_state(&writer->state));
  return gconv_sink_write(writer->sink, head, sizeof head);
}

static void put(qoi_state *state, size_t count, const uint8_t *bytes) {
  memcpy(state->codes + state->used, bytes, count);
  state->used += count;
}

static void put_byte(qoi_state *state, int byte) {
  state->codes[state->used++] = (uint8_t)byte;
}

static void put_run(qoi_state *state) {
  if (state->run > 0)
    put_byte(state, RUN | (state->run - 1));
  state->run = 0;
}

static bool is_within(int difference, int least) {
  return difference >= -least && difference < least;
}

/* A pixel that is not the last one. */
static void put_pixel(qoi_state *state, pixel p) {
  const pixel last = state->last, seen = state->seen[place_of(p)];
  state->last = state->seen[place_of(p)] = p;
  int r = (int8_t)(p.r - last.r), g = (int8_t)(p.g - last.g), b = (int8_t)(p.b - last.b), rg = (int8_t)(r - g),
      bg = (int8_t)(b - g);
  if (memcmp(&seen, &p, sizeof p) == 0)
    put_byte(state, INDEX | (int)place_of(p));
  else if (p.a != last.a)
    put(state, 5, (uint8_t[]){WHOLE_RGBA, p.r, p.g, p.b, p.a});
  else if (is_within(r, 2) && is_within(g, 2) && is_within(b, 2))
    put_byte(state, DIFF | (r + 2) << 4 | (g + 2) << 2 | (b + 2));
  else if (is_within(g, 32) && is_within(rg, 8) && is_within(bg, 8))
    put(state, 2, (uint8_t[]){(uint8_t)(LUMA | (g + 32)), (uint8_t)((rg + 8) << 4 | (bg + 8))});
  else
    put(state, 4, (uint8_t[]){WHOLE_RGB, p.r, p.g, p.b});
}

static gconv_status write_codes(gconv_writer *writer, qoi_state *state) {
  GCONV_TRY(gconv_sink_write(writer->sink, state->codes, state->used));
  state->used = 0;
  return GCONV_OK;
}

static gconv_status write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  qoi_state *state = writer->state;
  const size_t channels = (size_t)writer->header->channels, green = channels < 3 ? 0 : 1, blue = channels < 3 ? 0 : 2;
  for (int32_t y = 0; y < count; y++) {
    const uint8_t *in = (const uint8_t *)rows + (size_t)y * row_bytes;
    for (int32_t x = 0; x < writer->header->width; x++, in += channels) {
      pixel p = {in[0], in[green], in[blue], channels % 2 ? 255 : in[channels - 1]};
      bool same = memcmp(&p, &state->last, sizeof p) == 0;
      state->run += same;
      if (!same || state->run == LONGEST_RUN)
        put_run(state);
      if (!same)
        put_pixel(state, p);
      if (state->used > CODES_BYTES - 6) /* a run and a pixel */
        GCONV_TRY(write_codes(writer, state));
    }
  }
  return GCONV_OK;
}

static gconv_status finish(gconv_writer *writer) {
  put_run(writer->state);
  GCONV_TRY(write_codes(writer, writer->state));
  return gconv_sink_write(writer->sink, "\0\0\0\0\0\0\0\1", END_BYTES);
}

const gconv_format gconv_format_qoi = {
    .info = {.name = "qoi",
             .extensions = "qoi",
             .help = "Quite OK Image: RGB of 8 bits, alpha, lossless",
             .reads = true,
             .writes = true,
             .holds = {true, false, false}},
    .alpha = true,
    .sniff = sniff,
    .open = open_qoi,
    .read_rows = read_rows,
    .start = start,
    .write_rows = write_rows,
    .finish = finish,
};

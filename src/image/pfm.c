/* SPDX-License-Identifier: MIT */
/* PFM, the portable float map: "PF" (RGB) or "Pf" (grey), width, height, scale, then floats by rows from the bottom up. The
 * sign of the scale is the byte order: negative is little-endian. Its magnitude was meant for radiance, and is ignored. */
#include "image/format.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 32 };

typedef struct pfm_state {
  bool big_endian;
  uint8_t *rows; /* for writing: the image, if it comes in parts */
  int32_t count; /* rows that have come so far */
} pfm_state;

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 3 && bytes[0] == 'P' && (bytes[1] == 'F' || bytes[1] == 'f') && isspace(bytes[2]);
}

/* Reads a word, and exactly one byte after it: the next byte may look like white space, but is a pixel. Skips white space
 * before the word, and comments, which libvips writes, from # to the end of a line. */
static gconv_status read_word(gconv_source *source, char word[WORD_BYTES]) {
  size_t used = 0;
  bool comment = false;
  for (;;) {
    uint8_t c;
    GCONV_TRY(gconv_source_read_exactly(source, &c, 1, "its header"));
    comment = (c == '#' && used == 0) || (comment && c != '\n');
    if (comment)
      continue;
    if (isspace(c) && used > 0)
      break;
    if (isspace(c))
      continue;
    if (used == WORD_BYTES - 1 || !isprint(c))
      return gconv_fail(GCONV_BAD_FILE, "%s: its PFM header is not width, height, scale", source->name);
    word[used++] = (char)c;
  }
  word[used] = '\0';
  return GCONV_OK;
}

static gconv_status read_size(gconv_source *source, int32_t *size) {
  char word[WORD_BYTES];
  GCONV_TRY(read_word(source, word));
  int64_t value = 0;
  for (const char *c = word; *c; c++) {
    if (!isdigit((unsigned char)*c) || value > INT32_MAX)
      return gconv_fail(GCONV_BAD_FILE, "%s: its size %s is not a whole number below 2^31", source->name, word);
    value = value * 10 + (*c - '0');
  }
  if (value < 1 || value > INT32_MAX)
    return gconv_fail(GCONV_BAD_FILE, "%s: a size of %s pixels: it must be 1 to 2^31 - 1", source->name, word);
  *size = (int32_t)value;
  return GCONV_OK;
}

/* Finds the sign of a decimal number, and whether it is 1. strtod() would use the decimal point of the locale. */
static gconv_status read_scale(gconv_reader *reader, bool *negative) {
  gconv_source *source = reader->source;
  char word[WORD_BYTES];
  GCONV_TRY(read_word(source, word));
  *negative = word[0] == '-';
  const char *number = word + (*negative || word[0] == '+');
  size_t digits = strspn(number, "0123456789."), zeros = strspn(number, "0.");
  if (digits == 0 || zeros == digits || strspn(number, "0123456789.eE+-") != strlen(number))
    return gconv_fail(GCONV_BAD_FILE, "%s: its scale %s is not a number other than 0", source->name, word);
  size_t rest = number[0] == '1' ? strspn(number + 1, ".0") : 0;
  bool is_one =
      number[0] == '1' && (rest == 0 || number[1] == '.') && number[1 + rest + strspn(number + 1 + rest, "eE+-0")] == '\0';
  if (!is_one)
    gconv_reader_note(reader, "its scale of %s is not applied: samples are used as they are stored", number);
  return GCONV_OK;
}

static gconv_status read_header(gconv_reader *reader, pfm_state *state) {
  gconv_source *source = reader->source;
  gconv_image *header = &reader->header;
  char magic[WORD_BYTES];
  bool little_endian;
  GCONV_TRY(read_word(source, magic));
  GCONV_TRY(read_size(source, &header->width));
  GCONV_TRY(read_size(source, &header->height));
  GCONV_TRY(read_scale(reader, &little_endian));
  state->big_endian = !little_endian;
  header->type = GCONV_F32;
  header->frames = 1;
  header->channels = magic[1] == 'F' ? 3 : 1;
  size_t bytes;
  gconv_multiply(gconv_image_row_bytes(&reader->header), (size_t)header->height, &bytes);
  reader->end = source->position + bytes;
  return gconv_reader_expect(reader, bytes);
}

static gconv_status open_pfm(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(pfm_state), "a PFM", &reader->state));
  reader->out_of_order = true; /* rows are stored from the bottom up */
  return read_header(reader, reader->state);
}

static gconv_status read_all(gconv_reader *reader, uint8_t *rows, size_t row_bytes) {
  const pfm_state *state = reader->state;
  size_t bytes = gconv_image_row_bytes(&reader->header);
  for (size_t y = (size_t)reader->header.height; y-- > 0;) {
    uint8_t *row = rows + y * row_bytes;
    GCONV_TRY(gconv_source_read_exactly(reader->source, row, bytes, "its pixels"));
    if (state->big_endian != gconv_host_is_big_endian())
      gconv_swap_bytes(row, bytes / sizeof(float), sizeof(float));
  }
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  return gconv_reader_whole(reader, read_all, rows, row_bytes, count);
}

/* ---- Writing, in the byte order of this machine: little-endian nearly everywhere ---- */

static gconv_status start(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  char text[64];
  GCONV_TRY(gconv_format_state(sizeof(pfm_state), "a PFM", &writer->state));
  snprintf(text, sizeof text, "P%c\n%d %d\n%s\n", header->channels == 3 ? 'F' : 'f', header->width, header->height,
           gconv_host_is_big_endian() ? "1.0" : "-1.0");
  return gconv_sink_write(writer->sink, text, strlen(text));
}

static size_t bytes_of_row(const gconv_image *header) {
  return (size_t)header->width * (size_t)header->channels * sizeof(float);
}

/* In the file, the last row comes first: if rows come in parts, all are held until the last is there. */
static double held_bytes(const gconv_image *header, const gconv_write_options *options, int how) {
  return how & GCONV_IN_PARTS ? gconv_image_frame_bytes(header) : 0;
}

static gconv_status write_upwards(gconv_writer *writer, const uint8_t *rows, size_t row_bytes) {
  for (size_t y = (size_t)writer->header->height; y-- > 0;)
    GCONV_TRY(gconv_sink_write(writer->sink, rows + y * row_bytes, bytes_of_row(writer->header)));
  return GCONV_OK;
}

static gconv_status write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  pfm_state *state = writer->state;
  if (count == writer->header->height)
    return write_upwards(writer, rows, row_bytes);
  size_t bytes = bytes_of_row(writer->header), size;
  if (!state->rows) {
    gconv_multiply(bytes, (size_t)writer->header->height, &size);
    GCONV_ALLOCATE(state->rows, size, "an image");
  }
  for (size_t i = 0; i < (size_t)count; i++)
    memcpy(state->rows + (size_t)state->count++ * bytes, (const uint8_t *)rows + i * row_bytes, bytes);
  return state->count == writer->header->height ? write_upwards(writer, state->rows, bytes) : GCONV_OK;
}

static void end(gconv_writer *writer) {
  const pfm_state *state = writer->state;
  if (state)
    gconv_release(state->rows);
}

const gconv_format gconv_format_pfm = {
    .info = {.name = "pfm",
             .extensions = "pfm",
             .help = "Portable float map: grey and RGB of 32-bit floats, not compressed",
             .reads = true,
             .writes = true,
             .holds = {false, false, true}},
    .sniff = sniff,
    .open = open_pfm,
    .read_rows = read_rows,
    .held_bytes = held_bytes,
    .start = start,
    .write_rows = write_rows,
    .end = end,
};

/* SPDX-License-Identifier: MIT */
/* Reads samples without a header, of scanners and cameras. FILE:640x480x3:u16le names their shape and type; with +512 after
 * it, 512 bytes of the file are skipped first. The other bytes are one frame or several. */
#include "image/numbers.h"
#include "image/rows.h"

#include <stdlib.h>
#include <string.h>

typedef struct raw_state {
  gconv_numbers_file numbers;
  uint64_t skipped;
} raw_state;

/* Reads WIDTHxHEIGHT[xCHANNELS]:TYPE[+BYTES]. Returns false if `text` is something else. */
static bool parse(const char *text, gconv_image *header, raw_state *state) {
  static const struct {
    const char *name;
    gconv_element element;
  } types[] = {{"u8", {'u', 1, false}},    {"i8", {'i', 1, false}},   {"u16le", {'u', 2, false}}, {"u16be", {'u', 2, true}},
               {"i16le", {'i', 2, false}}, {"i16be", {'i', 2, true}}, {"u32le", {'u', 4, false}}, {"u32be", {'u', 4, true}},
               {"i32le", {'i', 4, false}}, {"i32be", {'i', 4, true}}, {"f16le", {'f', 2, false}}, {"f16be", {'f', 2, true}},
               {"f32le", {'f', 4, false}}, {"f32be", {'f', 4, true}}, {"f64le", {'f', 8, false}}, {"f64be", {'f', 8, true}}};
  char *end = (char *)(uintptr_t)text;
  long sizes[3] = {0, 0, 1};
  for (int i = 0; i < 3 && (i < 2 || *end == 'x'); i++) {
    if (i > 0 && *end != 'x')
      return false;
    const char *from = end + (i > 0);
    if (*from < '1' || *from > '9')
      return false;
    sizes[i] = strtol(from, &end, 10);
  }
  const size_t length = *end == ':' ? strcspn(end + 1, "+") : 0;
  const char *skip = end + 1 + length;
  if (length == 0 || sizes[0] > INT32_MAX || sizes[1] > INT32_MAX || sizes[2] > 4)
    return false;
  header->width = (int32_t)sizes[0];
  header->height = (int32_t)sizes[1];
  header->channels = (int32_t)sizes[2];
  state->skipped = *skip ? strtoull(skip + 1, &end, 10) : 0;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i].name) == length && strncmp(types[i].name, skip - length, length) == 0) {
      state->numbers = (gconv_numbers_file){.element = types[i].element, .scale = 1};
      return !*skip || (skip[1] >= '0' && skip[1] <= '9' && !*end && state->skipped < INT64_MAX);
    }
  return false;
}

bool gconv_is_raw_member(const char *member) {
  gconv_image header;
  raw_state state;
  return member && parse(member, &header, &state);
}

static bool sniff(const uint8_t *bytes, size_t size) {
  return false; /* only reader->member says that a file has raw samples */
}

static gconv_status open_raw(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(raw_state), "raw samples", &reader->state));
  raw_state *state = reader->state;
  gconv_image *header = &reader->header;
  gconv_source *source = reader->source;
  parse(reader->member, header, state);
  gconv_numbers_set_type(&state->numbers, header);
  header->alpha = false;
  const size_t sizes[] = {(size_t)header->width, (size_t)header->height, (size_t)header->channels,
                          state->numbers.element.bytes};
  const size_t frame = gconv_checked_product(4, sizes);
  GCONV_TRY(gconv_source_skip(source, state->skipped));
  const uint64_t left = source->size - source->position;
  reader->open_ended = source->size == UINT64_MAX;
  header->frames = 1;
  if (reader->open_ended)
    return GCONV_OK;
  if (left < frame || left % frame != 0 || left / frame > INT32_MAX)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: has %llu bytes, and a frame takes %zu: these must be whole frames (+N skips N bytes)",
                      source->name, (unsigned long long)left, frame);
  header->frames = (int32_t)(left / frame);
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  return gconv_numbers_read_rows(reader, &((const raw_state *)reader->state)->numbers, rows, row_bytes, count);
}

/* In a pipe, another frame follows if another byte does. */
static gconv_status next(gconv_reader *reader, bool *more) {
  const uint8_t *bytes;
  size_t got;
  GCONV_TRY(gconv_source_peek(reader->source, 1, &bytes, &got));
  *more = got > 0;
  return GCONV_OK;
}

/* The format is not in formats.def, as neither the content nor the name of a file shows it. */
const gconv_format gconv_format_raw = {
    .info = {.name = "raw", .extensions = "", .help = "samples without a header", .reads = true, .several = true},
    .members = true,
    .sniff = sniff,
    .open = open_raw,
    .read_rows = read_rows,
    .next = next,
};

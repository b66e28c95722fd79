/* SPDX-License-Identifier: MIT */
/* Netpbm's formats. PNM: P1 to P3 are bitmaps, grey and RGB as text; P4 to P6 are the same as bytes. PAM: P7, which adds
 * alpha. Samples run from 0 to any maxval up to 65535. If that is not 255 or 65535, they are rescaled to the full range.
 *
 * A file may have several images, one behind the other, each with its header. Those of a file are counted when it is opened,
 * those of a pipe are found one by one. They must have one shape, but may be of different kinds. */
#include "image/format.h"

#include <stdio.h>
#include <string.h>

typedef struct pnm_state {
  gconv_image header; /* of the image at hand */
  int32_t row;        /* of the image at hand: the next to read */
  int32_t image;      /* its number in the file, from 0 */
  int kind;           /* 1 to 7, the digit of the magic */
  uint32_t maxval;    /* 1 to 65535 */
  uint16_t *scaled;   /* sample -> rescaled sample: `levels`; NULL if samples stay as they are */
  uint16_t *levels;   /* owned; of images whose maxval is levels_of */
  float *fractions;   /* owned; sample -> sample / maxval, if the image is f32; else NULL */
  uint32_t levels_of, fractions_of;
  int32_t tables; /* of both kinds that were made since the first image, and are larger than theirs */
  uint8_t *bits;  /* of P4: a row, 8 pixels a byte */
} pnm_state;

/* ---- Text ---- */

enum { END = -1, PIECE = 4096 };

static bool is_space(int c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline gconv_status next_byte(gconv_source *source, int *c) {
  const uint8_t *byte;
  size_t got = 1;
  if (source->begin == source->end)
    GCONV_TRY(gconv_source_peek(source, 1, &byte, &got));
  *c = got ? source->buffer[source->begin] : END;
  source->begin += got;
  source->position += got;
  return GCONV_OK;
}

/* Reads the first byte that is neither white space nor in a comment (from # to the end of the line). */
static gconv_status skip_space(gconv_source *source, int *c) {
  bool comment = false;
  do {
    GCONV_TRY(next_byte(source, c));
    comment = *c == '#' || (comment && *c != '\n' && *c != '\r' && *c != END);
  } while (comment || is_space(*c));
  return GCONV_OK;
}

/* Reads a number after white space and comments, and the one byte behind it. */
static gconv_status read_number(gconv_source *source, const char *what, uint32_t limit, uint32_t *value) {
  int c;
  GCONV_TRY(skip_space(source, &c));
  if (c == END)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, before its %s", source->name, what);
  uint64_t number = 0;
  bool any = false;
  for (; c >= '0' && c <= '9' && number <= limit; any = true) {
    number = number * 10 + (uint64_t)(c - '0');
    GCONV_TRY(next_byte(source, &c));
  }
  if (number > limit)
    return gconv_fail(GCONV_BAD_FILE, "%s: its %s is over %u", source->name, what, limit);
  if (!any || !(is_space(c) || c == END || c == '#'))
    return gconv_fail(GCONV_BAD_FILE, "%s: its %s is not a whole number, at byte %llu", source->name, what,
                      (unsigned long long)source->position);
  while (c == '#' || (c != '\n' && c != END && !is_space(c))) /* a comment directly behind a number */
    GCONV_TRY(next_byte(source, &c));
  *value = (uint32_t)number;
  return GCONV_OK;
}

/* ---- Headers ---- */

static gconv_status read_pnm_header(gconv_reader *reader, pnm_state *state, gconv_image *header) {
  gconv_source *source = reader->source;
  uint32_t width, height;
  GCONV_TRY(read_number(source, "width", INT32_MAX, &width));
  GCONV_TRY(read_number(source, "height", INT32_MAX, &height));
  state->maxval = 1;
  if (state->kind != 1 && state->kind != 4)
    GCONV_TRY(read_number(source, "maxval", UINT16_MAX, &state->maxval));
  header->width = (int32_t)width;
  header->height = (int32_t)height;
  header->channels = state->kind == 3 || state->kind == 6 ? 3 : 1;
  return GCONV_OK;
}

/* Reads a line without its end. What does not fit is cut; no known word is so long. */
static gconv_status read_line(gconv_source *source, char *line, size_t size) {
  size_t used = 0;
  int c;
  for (;;) {
    GCONV_TRY(next_byte(source, &c));
    if (c == END)
      return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its PAM header", source->name);
    if (c == '\n')
      break;
    if (used + 1 < size)
      line[used++] = (char)c;
  }
  while (used > 0 && is_space(line[used - 1]))
    used--;
  line[used] = '\0';
  return GCONV_OK;
}

static gconv_status set_tuple_type(const gconv_reader *reader, const char *type, uint32_t depth, gconv_image *header) {
  static const struct {
    const char *name;
    uint32_t depth;
    bool alpha;
  } known[] = {{"BLACKANDWHITE", 1, false},      {"GRAYSCALE", 1, false},      {"RGB", 3, false},
               {"BLACKANDWHITE_ALPHA", 2, true}, {"GRAYSCALE_ALPHA", 2, true}, {"RGB_ALPHA", 4, true}};
  bool found = type[0] == '\0' && depth >= 1 && depth <= 4; /* without a type, they are just numbers */
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(type, known[i].name) == 0 && depth == known[i].depth) {
      found = true;
      header->alpha = known[i].alpha;
    }
  if (!found)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: a PAM of type '%s' and depth %u; known are BLACKANDWHITE, GRAYSCALE and RGB (depth 1, 1, 3), and "
                      "the same with _ALPHA (2, 2, 4)",
                      reader->source->name, type, depth);
  header->channels = (int32_t)depth;
  return GCONV_OK;
}

/* Reads the decimal number that is all of `text`, and at least 1. Otherwise `*value` is not changed. */
static void parse_field(const char *text, uint32_t *value) {
  uint64_t number = 0;
  const char *c = text + strspn(text, " \t");
  if (*c == '\0' || strspn(c, "0123456789") != strlen(c))
    return;
  for (; *c && number <= INT32_MAX; c++)
    number = number * 10 + (uint64_t)(*c - '0');
  if (number >= 1 && number <= INT32_MAX)
    *value = (uint32_t)number;
}

/* Reads lines such as "WIDTH 640", in any order, up to ENDHDR. */
static gconv_status read_pam_header(gconv_reader *reader, pnm_state *state, gconv_image *header) {
  enum { FIELDS = 4, MAX_LINES = 1000 };
  static const char *const names[FIELDS] = {"WIDTH", "HEIGHT", "DEPTH", "MAXVAL"};
  uint32_t values[FIELDS] = {0, 0, 0, 0};
  char line[256], type[256] = "";
  for (int i = 0;; i++) {
    GCONV_TRY(read_line(reader->source, line, sizeof line));
    size_t length = strcspn(line, " \t");
    if (strcmp(line, "ENDHDR") == 0)
      break;
    if (i == MAX_LINES)
      return gconv_fail(GCONV_BAD_FILE, "%s: no ENDHDR within %d lines of its PAM header", reader->source->name, MAX_LINES);
    if (length == 8 && memcmp(line, "TUPLTYPE", 8) == 0)
      snprintf(type, sizeof type, "%s", line + 8 + strspn(line + 8, " \t"));
    for (int field = 0; field < FIELDS; field++)
      if (length == strlen(names[field]) && memcmp(line, names[field], length) == 0)
        parse_field(line + length, &values[field]);
  }
  for (int field = 0; field < FIELDS; field++)
    if (values[field] == 0)
      return gconv_fail(GCONV_BAD_FILE, "%s: its PAM header has no valid %s", reader->source->name, names[field]);
  if (values[3] > UINT16_MAX)
    return gconv_fail(GCONV_BAD_FILE, "%s: its maxval is over 65535", reader->source->name);
  header->width = (int32_t)values[0];
  header->height = (int32_t)values[1];
  state->maxval = values[3];
  return set_tuple_type(reader, type, values[2], header);
}

/* ---- Reading ---- */

/* Bytes of a sample in P5 to P7. */
static size_t sample_bytes(const pnm_state *state) {
  return state->maxval > UINT8_MAX ? 2 : 1;
}

static bool sniff_pnm(const uint8_t *bytes, size_t size) {
  return size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' && (is_space(bytes[2]) || bytes[2] == '#');
}

static bool sniff_pam(const uint8_t *bytes, size_t size) {
  return size >= 3 && memcmp(bytes, "P7\n", 3) == 0;
}

/* Makes memory for a table of samples. It may take as long as thousands of samples, where an image of another maxval has a
 * dozen: tables that are larger than their image are counted. */
static gconv_status begin_table(const gconv_reader *reader, size_t item_bytes, void **table) {
  enum { MOST_TABLES = 64 };
  pnm_state *state = reader->state;
  const gconv_image *header = &state->header;
  uint64_t samples = (uint64_t)header->width * (uint64_t)header->height * (uint64_t)header->channels;
  if (samples <= state->maxval && state->tables++ == MOST_TABLES)
    return gconv_fail(GCONV_TOO_LARGE,
                      "%s: the maxval changes more than %d times from one small image to the next; that is the limit: "
                      "divide them, or give them one maxval",
                      reader->source->name, MOST_TABLES);
  return gconv_allocate(((size_t)state->maxval + 1) * item_bytes, "a table of samples", table);
}

/* value * full / maxval, rounded to nearest, ties to even. */
static gconv_status make_scale(const gconv_reader *reader, uint32_t full) {
  pnm_state *state = reader->state;
  void *table = NULL;
  state->scaled = NULL;
  if (state->kind == 1 || state->kind == 4 || state->maxval == full) /* in bitmaps, 1 is black */
    return GCONV_OK;
  if (state->levels_of != state->maxval) {
    GCONV_TRY(begin_table(reader, sizeof *state->levels, &table));
    gconv_release(state->levels);
    state->levels = table;
    state->levels_of = state->maxval;
    for (uint32_t value = 0; value <= state->maxval; value++) {
      uint64_t product = (uint64_t)value * full, level = product / state->maxval, rest = product % state->maxval;
      state->levels[value] = (uint16_t)(level + (2 * rest + (level & 1) > state->maxval));
    }
  }
  state->scaled = state->levels;
  return GCONV_OK;
}

/* For images that become f32. */
static gconv_status make_fractions(const gconv_reader *reader) {
  pnm_state *state = reader->state;
  void *table = NULL;
  if (state->fractions_of == state->maxval)
    return GCONV_OK;
  GCONV_TRY(begin_table(reader, sizeof *state->fractions, &table));
  gconv_release(state->fractions);
  state->fractions = table;
  state->fractions_of = state->maxval;
  for (uint32_t value = 0; value <= state->maxval; value++)
    state->fractions[value] = (float)((double)value / state->maxval);
  return GCONV_OK;
}

/* Bytes of the pixels of an image in the file; of text, at least so many, as a sample has at least one digit. */
static size_t pixel_bytes(const pnm_state *state, const gconv_image *header) {
  size_t samples = (size_t)header->width * (size_t)header->channels;
  size_t row = state->kind == 4   ? ((size_t)header->width + 7) / 8
               : state->kind <= 3 ? samples
                                  : samples * gconv_type_bytes(header->type);
  return gconv_product(2, (size_t[]){row, (size_t)header->height});
}

/* Reads the header of the next image, and prepares for its rows. */
static gconv_status read_header(gconv_reader *reader) {
  pnm_state *state = reader->state;
  gconv_image *header = &state->header;
  uint8_t magic[2];
  *header = (gconv_image){.frames = 1};
  gconv_release(state->bits);
  state->bits = NULL;
  GCONV_TRY(gconv_source_read_exactly(reader->source, magic, sizeof magic, "its header"));
  state->kind = magic[1] - '0';
  state->row = 0;
  if (state->kind == 7) {
    char rest[2];
    GCONV_TRY(read_line(reader->source, rest, sizeof rest));
    GCONV_TRY(read_pam_header(reader, state, header));
  } else {
    GCONV_TRY(read_pnm_header(reader, state, header));
  }
  if (header->width < 1 || header->height < 1 || state->maxval < 1)
    return gconv_fail(GCONV_BAD_FILE, "%s: %d x %d pixels with a maxval of %u: all must be at least 1", reader->source->name,
                      header->width, header->height, state->maxval);
  header->type = state->maxval > UINT8_MAX ? GCONV_U16 : GCONV_U8;
  GCONV_TRY(gconv_reader_expect(reader, pixel_bytes(state, header)));
  return make_scale(reader, header->type == GCONV_U16 ? UINT16_MAX : UINT8_MAX);
}

/* Where 255 or 65535 is a multiple of maxval, all samples are levels; and where it is not, rescaling rounds. Later images of
 * the file have the type of the first. */
static gconv_status unround(gconv_reader *reader) {
  pnm_state *state = reader->state;
  if (!state->scaled || (sample_bytes(state) == 2 ? UINT16_MAX : UINT8_MAX) % state->maxval == 0)
    return GCONV_OK;
  reader->header.type = GCONV_F32;
  return make_fractions(reader);
}

/* P1: digits 0 and 1, with or without white space between them. */
static gconv_status read_text_bits(gconv_reader *reader, uint8_t *row) {
  for (int32_t x = 0; x < ((const pnm_state *)reader->state)->header.width; x++) {
    int c;
    GCONV_TRY(skip_space(reader->source, &c));
    if (c != '0' && c != '1')
      return gconv_fail(GCONV_BAD_FILE, c == END ? "%s: the file ends too early, in its bits" : "%s: a bit is not 0 or 1",
                        reader->source->name);
    row[x] = c == '1' ? 0 : UINT8_MAX;
  }
  return GCONV_OK;
}

/* P2 and P3. */
static gconv_status read_text_samples(gconv_reader *reader, void *row, size_t samples) {
  const pnm_state *state = reader->state;
  for (size_t i = 0; i < samples; i++) {
    uint32_t value;
    GCONV_TRY(read_number(reader->source, "sample", state->maxval, &value));
    if (state->scaled && !state->fractions)
      value = state->scaled[value];
    if (state->fractions)
      ((float *)row)[i] = state->fractions[value];
    else if (state->header.type == GCONV_U8)
      ((uint8_t *)row)[i] = (uint8_t)value;
    else
      ((uint16_t *)row)[i] = (uint16_t)value;
  }
  return GCONV_OK;
}

/* P4: the highest bit is the leftmost pixel. */
static gconv_status read_packed_bits(gconv_reader *reader, uint8_t *row) {
  pnm_state *state = reader->state;
  size_t bytes = ((size_t)state->header.width + 7) / 8;
  if (!state->bits) {
    void *bits = NULL;
    GCONV_TRY(gconv_allocate(bytes, "a row of bits", &bits));
    state->bits = bits;
  }
  GCONV_TRY(gconv_source_read_exactly(reader->source, state->bits, bytes, "its pixels"));
  for (int32_t x = 0; x < state->header.width; x++)
    row[x] = state->bits[x / 8] >> (7 - x % 8) & 1 ? 0 : UINT8_MAX;
  return GCONV_OK;
}

static gconv_status fail_sample(const gconv_reader *reader, uint32_t value) {
  return gconv_fail(GCONV_BAD_FILE, "%s: a sample is %u, over the maxval of %u", reader->source->name, value,
                    ((const pnm_state *)reader->state)->maxval);
}

static gconv_status convert_samples(const gconv_reader *reader, const uint8_t *stored, float *row, size_t samples) {
  const pnm_state *state = reader->state;
  size_t item_bytes = sample_bytes(state);
  for (size_t i = 0; i < samples; i++) {
    uint16_t wide = stored[i * item_bytes];
    if (item_bytes == 2)
      memcpy(&wide, stored + i * item_bytes, sizeof wide);
    uint32_t value = wide;
    if (value > state->maxval)
      return fail_sample(reader, value);
    row[i] = state->fractions[value];
  }
  return GCONV_OK;
}

/* P5, P6 and P7: 16 bit samples begin with the most significant byte. */
static gconv_status read_samples(gconv_reader *reader, void *row, size_t samples) {
  const pnm_state *state = reader->state;
  size_t item_bytes = sample_bytes(state);
  void *stored = row;
  if (state->fractions) /* samples are read into the end of the row, and so none is written over before it is converted */
    stored = (uint8_t *)row + samples * (sizeof(float) - item_bytes);
  GCONV_TRY(gconv_source_read_exactly(reader->source, stored, samples * item_bytes, "its pixels"));
  if (item_bytes == 2 && !gconv_host_is_big_endian())
    gconv_swap_bytes(stored, samples, item_bytes);
  if (state->fractions)
    return convert_samples(reader, stored, row, samples);
  if (!state->scaled)
    return GCONV_OK;
  for (size_t i = 0; i < samples; i++) {
    uint32_t value = item_bytes == 2 ? ((uint16_t *)row)[i] : ((uint8_t *)row)[i];
    if (value > state->maxval)
      return fail_sample(reader, value);
    if (item_bytes == 2)
      ((uint16_t *)row)[i] = state->scaled[value];
    else
      ((uint8_t *)row)[i] = (uint8_t)state->scaled[value];
  }
  return GCONV_OK;
}

static gconv_status read_row(gconv_reader *reader, void *row) {
  pnm_state *state = reader->state;
  size_t samples = (size_t)state->header.width * (size_t)state->header.channels;
  state->row++;
  switch (state->kind) {
  case 1:
    return read_text_bits(reader, row);
  case 2:
  case 3:
    return read_text_samples(reader, row, samples);
  case 4:
    return read_packed_bits(reader, row);
  default:
    return read_samples(reader, row, samples);
  }
}

/* ---- Several images ---- */

/* Puts "FILE: image 2: " in front of an error text, which may begin with the name of the file itself. */
static gconv_status fail_in_image(const gconv_reader *reader, int32_t number, gconv_status status) {
  const char *name = reader->source->name, *text = gconv_last_error();
  size_t length = strlen(name);
  bool named = strncmp(text, name, length) == 0 && strncmp(text + length, ": ", 2) == 0;
  return gconv_fail(status, "%s: image %d: %s", name, number, named ? text + length + 2 : text);
}

/* Reads the header of a later image, which must have the shape of the first. */
static gconv_status read_next_header(gconv_reader *reader) {
  pnm_state *state = reader->state;
  const gconv_image *first = &reader->header;
  int32_t number = ++state->image + 1;
  gconv_status status = read_header(reader);
  if (status != GCONV_OK)
    return fail_in_image(reader, number, status);
  gconv_image next = state->header;
  next.frames = first->frames;
  if (first->type == GCONV_F32 && state->kind != 1 && state->kind != 4) {
    next.type = GCONV_F32;
    GCONV_TRY(make_fractions(reader));
  }
  return gconv_reader_check_next(reader, number, &next);
}

/* Skips white space behind an image. *more: another image follows. */
static gconv_status look_behind(gconv_reader *reader, bool *more) {
  const uint8_t *bytes;
  size_t got;
  uint8_t space;
  for (;;) {
    GCONV_TRY(gconv_source_peek(reader->source, 3, &bytes, &got));
    if (got == 0 || !is_space(bytes[0]))
      break;
    GCONV_TRY(gconv_source_read_exactly(reader->source, &space, 1, "its end"));
  }
  *more = sniff_pnm(bytes, got) || sniff_pam(bytes, got);
  reader->foreign = got > 0 && !*more;
  return GCONV_OK;
}

/* Skips the pixels of the image at hand; in a file, those that are bytes are not read. */
static gconv_status skip_pixels(gconv_reader *reader) {
  const pnm_state *state = reader->state;
  if (state->kind > 3 && gconv_source_can_rewind(reader->source))
    return gconv_source_rewind(reader->source, reader->source->position + pixel_bytes(state, &state->header));
  void *row = NULL;
  GCONV_TRY(gconv_allocate(gconv_image_row_bytes(&state->header), "a row of pixels", &row));
  gconv_status status = GCONV_OK;
  for (int32_t y = 0; y < state->header.height && status == GCONV_OK; y++)
    status = read_row(reader, row);
  gconv_release(row);
  return status;
}

/* Counts the images of a file, from the first on, whose header was read. */
static gconv_status count_images(gconv_reader *reader, int32_t *count) {
  bool more = true;
  for (*count = 1; *count < INT32_MAX; ++*count) {
    GCONV_TRY(skip_pixels(reader));
    GCONV_TRY(look_behind(reader, &more));
    if (!more)
      return GCONV_OK;
    GCONV_TRY(reader->member ? read_header(reader) : read_next_header(reader));
  }
  return gconv_fail(GCONV_TOO_LARGE, "%s: has more than 2^31 - 1 images", reader->source->name);
}

/* Goes to image `index`, from the first, whose header was read. */
static gconv_status go_to_image(gconv_reader *reader, int64_t index) {
  bool more = true;
  for (int64_t i = 0; i < index; i++) {
    GCONV_TRY(skip_pixels(reader));
    GCONV_TRY(look_behind(reader, &more));
    if (!more)
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: there are only %lld images", reader->source->name, (long long)i + 1);
    GCONV_TRY(read_header(reader));
  }
  reader->foreign = false;
  return GCONV_OK;
}

static gconv_status open_pnm(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(pnm_state), "a PNM", &reader->state));
  pnm_state *state = reader->state;
  GCONV_TRY(read_header(reader));
  reader->header = state->header;
  bool file = gconv_source_can_rewind(reader->source);
  int32_t count = INT32_MAX;
  int64_t index = 0;
  if (file)
    GCONV_TRY(count_images(reader, &count));
  if (reader->member)
    GCONV_TRY(gconv_reader_find_number(reader, count, &index));
  if (file) {
    GCONV_TRY(gconv_source_rewind(reader->source, 0));
    state->tables = 0;
    GCONV_TRY(read_header(reader));
    state->image = 0;
  }
  if (reader->member) {
    GCONV_TRY(go_to_image(reader, index));
    reader->header = state->header;
  } else if (file) {
    reader->header.frames = count;
  }
  reader->open_ended = !file && !reader->member;
  return GCONV_OK;
}

/* Of a file whose images were counted: goes on with the next one. */
static gconv_status begin_next(gconv_reader *reader) {
  bool more, foreign = reader->foreign; /* behind the last image, as was found when they were counted */
  GCONV_TRY(look_behind(reader, &more));
  reader->foreign = foreign;
  if (!more)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file changed while it was read", reader->source->name);
  return read_next_header(reader);
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  const pnm_state *state = reader->state;
  for (size_t i = 0; i < (size_t)count; i++) {
    if (state->row == state->header.height)
      GCONV_TRY(begin_next(reader));
    GCONV_TRY(read_row(reader, (uint8_t *)rows + i * row_bytes));
  }
  return GCONV_OK;
}

static gconv_status next_of_pipe(gconv_reader *reader, bool *more) {
  GCONV_TRY(look_behind(reader, more));
  return *more ? read_next_header(reader) : GCONV_OK;
}

static void close_pnm(gconv_reader *reader) {
  const pnm_state *state = reader->state;
  gconv_release(state ? state->levels : NULL);
  gconv_release(state ? state->fractions : NULL);
  gconv_release(state ? state->bits : NULL);
}

/* ---- Writing ---- */

/* Rows of the frame at hand that are written: each frame has its header. */
typedef struct written {
  int32_t rows;
} written;

static gconv_status start(gconv_writer *writer) {
  return gconv_format_state(sizeof(written), "a PNM", &writer->state);
}

static gconv_status write_text(gconv_writer *writer, const char *text) {
  return gconv_sink_write(writer->sink, text, strlen(text));
}

static int maxval_of(const gconv_image *image) {
  return image->type == GCONV_U16 ? UINT16_MAX : UINT8_MAX;
}

static gconv_status write_pnm_header(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  char text[64];
  snprintf(text, sizeof text, "P%c\n%d %d\n%d\n", header->channels == 3 ? '6' : '5', header->width, header->height,
           maxval_of(header));
  return write_text(writer, text);
}

static gconv_status write_pam_header(gconv_writer *writer) {
  static const char *const types[] = {"GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA"};
  const gconv_image *header = writer->header;
  char text[160];
  snprintf(text, sizeof text, "P7\nWIDTH %d\nHEIGHT %d\nDEPTH %d\nMAXVAL %d\nTUPLTYPE %s\nENDHDR\n", header->width,
           header->height, header->channels, maxval_of(header), types[header->channels - 1]);
  return write_text(writer, text);
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Writes the most significant byte first, a few samples at a time, so that the row is not changed. */
static gconv_status write_u16(gconv_sink *sink, const uint16_t *row, size_t samples) {
  uint8_t bytes[2 * PIECE];
  for (size_t done = 0; done < samples; done += PIECE) {
    size_t count = smaller(samples - done, PIECE);
    for (size_t i = 0; i < count; i++) {
      bytes[2 * i] = (uint8_t)(row[done + i] >> 8);
      bytes[2 * i + 1] = (uint8_t)(row[done + i] & 255);
    }
    GCONV_TRY(gconv_sink_write(sink, bytes, 2 * count));
  }
  return GCONV_OK;
}

static gconv_status write_row(gconv_writer *writer, const void *row) {
  const gconv_image *header = writer->header;
  written *state = writer->state;
  size_t samples = (size_t)header->width * (size_t)header->channels;
  if (state->rows == 0)
    GCONV_TRY(writer->format == &gconv_format_pam ? write_pam_header(writer) : write_pnm_header(writer));
  state->rows = (state->rows + 1) % header->height;
  return header->type == GCONV_U16 ? write_u16(writer->sink, row, samples) : gconv_sink_write(writer->sink, row, samples);
}

static gconv_status write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  for (size_t i = 0; i < (size_t)count; i++)
    GCONV_TRY(write_row(writer, (const uint8_t *)rows + i * row_bytes));
  return GCONV_OK;
}

/* The next row begins a frame by itself. */
static gconv_status add_frame(gconv_writer *writer) {
  (void)writer;
  return GCONV_OK;
}

const gconv_format gconv_format_pnm = {
    .info = {.name = "pnm",
             .extensions = "pnm ppm pgm pbm",
             .help = "Netpbm grey and RGB: 8 and 16 bits, no alpha, not compressed",
             .reads = true,
             .writes = true,
             .holds = {true, true, false},
             .multiframe = true},
    .alpha = false,
    .members = true,
    .sniff = sniff_pnm,
    .open = open_pnm,
    .read_rows = read_rows,
    .next = next_of_pipe,
    .unround = unround,
    .close = close_pnm,
    .start = start,
    .write_rows = write_rows,
    .add_frame = add_frame,
};

const gconv_format gconv_format_pam = {
    .info = {.name = "pam",
             .extensions = "pam",
             .help = "Netpbm with alpha: 8 and 16 bits, not compressed",
             .reads = true,
             .writes = true,
             .holds = {true, true, false},
             .multiframe = true},
    .alpha = true,
    .members = true,
    .sniff = sniff_pam,
    .open = open_pnm,
    .read_rows = read_rows,
    .next = next_of_pipe,
    .unround = unround,
    .close = close_pnm,
    .start = start,
    .write_rows = write_rows,
    .add_frame = add_frame,
};

/* SPDX-License-Identifier: MIT */
/* Netpbm's formats. PNM: P1 to P3 are bitmaps, grey and RGB as text; P4 to P6 are the same as bytes. PAM: P7, which adds
 * alpha. Samples run from 0 to any maxval up to 65535. If that is not 255 or 65535, they are rescaled to the full range.
 *
 * A file may have several images, one after the other, each with its header. Images of a file are counted when it is
 * opened, images of a pipe are found one by one. They must have one shape, but may be of different kinds. */
#include "image/pnm.h"

#include <string.h>

typedef struct pnm_state {
  gconv_image header;               /* header of the current image */
  int32_t row;                      /* next row of the current image to be read */
  int32_t image;                    /* number of the current image, from 0 */
  int kind;                         /* 1 to 7, the digit of the magic */
  uint32_t maxval;                  /* 1 to 65535 */
  uint16_t *scaled;                 /* `levels`, if samples are rescaled; NULL if they stay as they are */
  uint16_t *levels;                 /* owned; sample -> rescaled sample */
  float *fractions;                 /* owned; sample -> sample / maxval, if the image is f32; else NULL */
  uint32_t levels_of, fractions_of; /* the maxval for which the table was made */
  int32_t tables;                   /* number of tables made that are larger than their image, since the first image */
  uint8_t *bits;                    /* for P4: a row, 8 pixels a byte */
} pnm_state;

/* ---- Reading ---- */

/* Returns the bytes of a sample in P5 to P7. */
static size_t sample_bytes(const pnm_state *state) {
  return state->maxval > UINT8_MAX ? 2 : 1;
}

static bool sniff_pnm(const uint8_t *bytes, size_t size) {
  return size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
         (gconv_pnm_is_space(bytes[2]) || bytes[2] == '#');
}

static bool sniff_pam(const uint8_t *bytes, size_t size) {
  return size >= 3 && memcmp(bytes, "P7\n", 3) == 0;
}

/* Makes memory for a table of samples. A file may have thousands of tiny images, each with a new maxval and so with a large
 * table, which takes long. So the tables that are larger than their image are counted, and limited. */
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

/* Makes the table of value * full / maxval, rounded to nearest, ties to even. */
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

/* Makes the table for images that become f32. */
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

/* Returns the bytes of an image's pixels in the file; for text, a lower bound: one digit a sample. */
static size_t pixel_bytes(const pnm_state *state, const gconv_image *header) {
  size_t samples = (size_t)header->width * (size_t)header->channels;
  size_t row = state->kind == 4   ? ((size_t)header->width + 7) / 8
               : state->kind <= 3 ? samples
                                  : samples * gconv_type_bytes(header->type);
  return gconv_checked_product(2, (size_t[]){row, (size_t)header->height});
}

/* Reads the header of the next image, and prepares for its rows. */
static gconv_status read_header(gconv_reader *reader) {
  pnm_state *state = reader->state;
  gconv_image *header = &state->header;
  *header = (gconv_image){.frames = 1};
  gconv_release(state->bits);
  state->bits = NULL;
  state->row = 0;
  GCONV_TRY(gconv_pnm_read_header(reader, &state->kind, &state->maxval, header));
  if (header->width < 1 || header->height < 1 || state->maxval < 1)
    return gconv_fail(GCONV_BAD_FILE, "%s: %d x %d pixels with a maxval of %u: all must be at least 1", reader->source->name,
                      header->width, header->height, state->maxval);
  header->type = state->maxval > UINT8_MAX ? GCONV_U16 : GCONV_U8;
  GCONV_TRY(gconv_reader_expect(reader, pixel_bytes(state, header)));
  return make_scale(reader, header->type == GCONV_U16 ? UINT16_MAX : UINT8_MAX);
}

/* Makes the image f32 if rescaling would round: if maxval divides neither 255 nor 65535. Later images of the file have the
 * type of the first. */
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
    GCONV_TRY(gconv_pnm_skip_space(reader->source, &c));
    if (c != '0' && c != '1')
      return gconv_fail(GCONV_BAD_FILE,
                        c == GCONV_PNM_END ? "%s: the file ends too early, in its bits" : "%s: a bit is not 0 or 1",
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
    GCONV_TRY(gconv_pnm_read_number(reader->source, "sample", state->maxval, &value));
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
  if (!state->bits)
    GCONV_ALLOCATE(state->bits, bytes, "a row of bits");
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
  if (state->fractions) /* samples are read to the end of the row, so that none is written over before it is converted */
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

/* Skips white space after an image. *more: another image follows. */
static gconv_status look_behind(gconv_reader *reader, bool *more) {
  const uint8_t *bytes;
  size_t got;
  uint8_t space;
  for (;;) {
    GCONV_TRY(gconv_source_peek(reader->source, 3, &bytes, &got));
    if (got == 0 || !gconv_pnm_is_space(bytes[0]))
      break;
    GCONV_TRY(gconv_source_read_exactly(reader->source, &space, 1, "its end"));
  }
  *more = sniff_pnm(bytes, got) || sniff_pam(bytes, got);
  reader->foreign = got > 0 && !*more;
  return GCONV_OK;
}

/* Skips the pixels of the current image; in a file, pixels of binary kinds are not even read. */
static gconv_status skip_pixels(gconv_reader *reader) {
  const pnm_state *state = reader->state;
  if (state->kind > 3 && gconv_source_can_rewind(reader->source))
    return gconv_source_rewind(reader->source, reader->source->position + pixel_bytes(state, &state->header));
  GCONV_FREED void *row = NULL;
  GCONV_ALLOCATE(row, gconv_image_row_bytes(&state->header), "a row of pixels");
  for (int32_t y = 0; y < state->header.height; y++)
    GCONV_TRY(read_row(reader, row));
  return GCONV_OK;
}

/* Counts the images of a file. The header of the first was read. */
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

/* Goes to image `index`. The header of the first was read. */
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

/* Goes on with the next image of a file whose images were counted. */
static gconv_status begin_next(gconv_reader *reader) {
  bool more, foreign = reader->foreign; /* count_images() has found whether something else follows the last image */
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

/* Fields that are the same in both formats. */
#define BOTH                                                                                                                \
  .members = true, .open = open_pnm, .read_rows = read_rows, .next = next_of_pipe, .unround = unround, .close = close_pnm,  \
  .start = gconv_pnm_start, .write_rows = gconv_pnm_write_rows, .add_frame = gconv_pnm_add_frame

const gconv_format gconv_format_pnm = {
    .info = {.name = "pnm",
             .extensions = "pnm ppm pgm pbm",
             .help = "Netpbm grey and RGB: 8 and 16 bits, no alpha, not compressed",
             .reads = true,
             .writes = true,
             .holds = {true, true, false},
             .multiframe = true},
    .sniff = sniff_pnm,
    BOTH,
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
    .sniff = sniff_pam,
    BOTH,
};

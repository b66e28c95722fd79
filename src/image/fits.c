/* SPDX-License-Identifier: MIT */
/*
 * FITS, of astronomy. A file has units: a header (cards of 80 letters, in blocks of 2880 bytes), then numbers. The image of
 * any unit is read: numbers of all types, BSCALE, BZERO and BLANK. The third axis and those after it are frames. The first
 * row of the file is the first row of the image, as in arrays of astropy; viewers draw it at the bottom.
 */
#include "base/nodata.h"
#include "image/fits_cards.h"
#include "image/numbers.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CARD = GCONV_FITS_CARD, BLOCK = 2880, MOST_BLOCKS = 4096 /* of a header: 12 MB */, MOST_AXES = 999 };

typedef struct fits_state {
  gconv_numbers_file numbers;
  uint64_t after;  /* the position after the image's unit */
  int64_t version; /* its EXTVER, if it was asked for by its EXTNAME alone; else 0 */
  uint8_t *frame;  /* for writing colours: the planes of a frame; owned */
  int32_t rows;    /* rows of the frame so far */
  uint64_t bytes;  /* of numbers that were written */
} fits_state;

/* What a header says. */
typedef struct unit {
  bool extension, is_image, is_table; /* is_table: a binary table, which may hold a compressed image */
  bool compressed;
  int bits, axes, found;  /* found: how many axes have a length so far; their cards come in order, and once */
  size_t points;          /* the product of the axes */
  uint64_t other, groups; /* PCOUNT, GCOUNT */
  int32_t width, height, frames;
  gconv_numbers_file numbers;
  char name[CARD]; /* EXTNAME */
  int64_t version; /* EXTVER; 0: there is none, which means 1 */
  gconv_fits_cards *cards;
} unit;

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 16 && memcmp(bytes, "SIMPLE  =", 9) == 0;
}

/* ---- Headers --------------------------------------------------------------------------------------------------------- */

static bool is_key(const char *card, const char *key) {
  const size_t length = strlen(key);
  return strncmp(card, key, length) == 0 && strspn(card + length, " ") >= 8 - length && card[8] == '=';
}

/* Reads the number of a card: up to a blank or a comment. Fortran's exponents, 1D3, are numbers, too. */
static bool read_number(const char *card, double *value) {
  char text[CARD];
  size_t used = 0;
  const char *at = card + 9;
  at += strspn(at, " ");
  while (*at && !isspace((unsigned char)*at) && *at != '/' && used + 1 < sizeof text) {
    text[used++] = *at == 'D' || *at == 'd' ? 'e' : *at;
    at++;
  }
  text[used] = 0;
  return gconv_nodata_read(text, value);
}

static gconv_status fail_card(const gconv_reader *reader, const char *card) {
  return gconv_fail(GCONV_BAD_FILE, "%s: its header has a value that is wrong or missing: %.40s", reader->source->name,
                    card);
}

/* Takes an axis: the first is the width, the second the height, the others count frames. */
static bool take_axis(unit *u, int axis, double length) {
  if (!(length >= 0 && length <= INT32_MAX) || length != (double)(int64_t)length ||
      !gconv_multiply(u->points, (size_t)length, &u->points))
    return false;
  u->found = axis;
  int32_t *to = axis == 1 ? &u->width : axis == 2 ? &u->height : &u->frames;
  const double product = axis <= 2 ? length : *to * length;
  *to = product <= INT32_MAX ? (int32_t)product : -1;
  return *to >= 0;
}

static gconv_status take_card(gconv_reader *reader, const char *card, unit *u) {
  double value = 0;
  const bool number = card[8] == '=' && read_number(card, &value);
  int axis = 0;
  if (is_key(card, "BITPIX"))
    u->bits = number && value >= -64 && value <= 64 ? (int)value : 0;
  else if (is_key(card, "NAXIS") && !(number && value >= 0 && value <= MOST_AXES))
    return fail_card(reader, card);
  else if (is_key(card, "NAXIS"))
    u->axes = u->found > 0 ? u->axes : (int)value;
  else if (sscanf(card, "NAXIS%3d =", &axis) == 1 && axis == u->found + 1 && axis <= u->axes &&
           !(number && take_axis(u, axis, value)))
    return fail_card(reader, card);
  else if (is_key(card, "BSCALE") && number)
    u->numbers.scale = value;
  else if (is_key(card, "BZERO") && number)
    u->numbers.offset = value;
  else if (is_key(card, "BLANK") && number && value >= -9e18 && value <= 9e18) {
    u->numbers.has_blank = true;
    u->numbers.blank = (int64_t)value;
  } else if ((is_key(card, "PCOUNT") || is_key(card, "GCOUNT")) && !(number && value >= 0 && value < 1e15))
    return fail_card(reader, card);
  else if (is_key(card, "PCOUNT"))
    u->other = (uint64_t)value;
  else if (is_key(card, "GCOUNT"))
    u->groups = (uint64_t)value;
  else if (is_key(card, "XTENSION")) {
    u->extension = true;
    u->is_image = strstr(card, "'IMAGE ") != NULL;
    u->is_table = strstr(card, "'BINTABLE") != NULL;
  } else if (is_key(card, "EXTNAME"))
    sscanf(card, "EXTNAME =%*[ ]'%79[^']", u->name);
  else if (is_key(card, "EXTVER") && number)
    u->version = (int64_t)value;
  else if (is_key(card, "ZIMAGE"))
    u->compressed = true;
  return gconv_fits_add_card(u->cards, card);
}

/* Reads a header up to its last block. */
static gconv_status read_header(gconv_reader *reader, unit *u) {
  char block[BLOCK + 1], card[CARD + 1] = "";
  gconv_fits_free_cards(u->cards);
  *u = (unit){.is_image = true,
              .points = 1,
              .groups = 1,
              .width = 1,
              .height = 1,
              .frames = 1,
              .numbers = {.scale = 1},
              .cards = u->cards};
  bool ended = false;
  for (int blocks = 0; !ended; blocks++) {
    if (blocks == MOST_BLOCKS)
      return gconv_fail(GCONV_TOO_LARGE, "%s: a header of more than %d blocks", reader->source->name, (int)MOST_BLOCKS);
    GCONV_TRY(gconv_source_read_exactly(reader->source, block, BLOCK, "a header"));
    block[BLOCK] = 0;
    for (int i = 0; i < BLOCK / CARD && !ended; i++) {
      memcpy(card, block + (size_t)i * CARD, CARD);
      ended = strncmp(card, "END", 3) == 0 && strspn(card + 3, " ") >= CARD - 3;
      GCONV_TRY(take_card(reader, card, u));
    }
  }
  const int bits = u->bits;
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64 && bits != -32 && bits != -64)
    return gconv_fail(GCONV_BAD_FILE, "%s: BITPIX is %d: it must be 8, 16, 32, 64, -32 or -64", reader->source->name, bits);
  if (u->found < u->axes)
    return gconv_fail(GCONV_BAD_FILE, "%s: its header has %d axes, and the lengths of %d", reader->source->name, u->axes,
                      u->found);
  u->numbers.element = (gconv_element){.kind = bits == 8  ? 'u'
                                               : bits > 0 ? 'i'
                                                          : 'f',
                                       .bytes = (size_t)(bits < 0 ? -bits : bits) / 8,
                                       .big_endian = true};
  return GCONV_OK;
}

/* Returns the bytes of a unit's numbers, in whole blocks. */
static uint64_t bytes_of(const unit *u) {
  const double product = (double)u->numbers.element.bytes * (double)u->groups * ((double)u->other + (double)u->points);
  if (u->axes == 0 || product > 9e18)
    return u->axes == 0 ? 0 : UINT64_MAX / 2;
  const uint64_t bytes = u->numbers.element.bytes * u->groups * (u->other + u->points);
  return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static bool has_image(const unit *u) {
  return u->is_image && u->axes > 0 && u->points > 0;
}

/* Adds the cards of the first header to those of the image. */
static gconv_status add_first(gconv_reader *reader, unit *u, const gconv_fits_cards *first) {
  bool added;
  GCONV_TRY(gconv_fits_add_first(u->cards, first, &added));
  if (!added)
    gconv_reader_lose(reader, "the first header of FITS");
  return GCONV_OK;
}

/* Returns the version in a name such as "SCI,2"; NULL: there is none. */
static const char *version_in(const char *name) {
  const char *comma = strrchr(name, ',');
  return comma && comma[1] && comma[1 + strspn(comma + 1, "0123456789")] == '\0' ? comma + 1 : NULL;
}

/* Returns whether an image has this EXTNAME, and the EXTVER if it is named. */
static bool has_name(unit *u, const char *name) {
  const char *version = version_in(name);
  const size_t length = version ? (size_t)(version - 1 - name) : strlen(name);
  for (size_t end = strlen(u->name); end > 0 && u->name[end - 1] == ' '; end--)
    u->name[end - 1] = 0;
  return strlen(u->name) == length && strncasecmp(u->name, name, length) == 0 &&
         (!version || strtoll(version, NULL, 10) == (u->version ? u->version : 1));
}

/* Finds the image that is wanted: the first, or the one whose number or EXTNAME is reader->member. If the file begins with a
 * header alone, as those of telescopes do, `first` gets its cards. */
static gconv_status find_image(gconv_reader *reader, unit *u, gconv_fits_cards *first) {
  int64_t wanted = 0, found = 0;
  const char *name = reader->source->name;
  const char *name_of_image = reader->member && reader->member[strspn(reader->member, "0123456789")] ? reader->member : NULL;
  if (reader->member && !name_of_image)
    GCONV_TRY(gconv_reader_find_number(reader, INT32_MAX, &wanted));
  for (;;) {
    GCONV_TRY(read_header(reader, u));
    if (u->compressed && u->is_table)
      return gconv_fail(GCONV_UNSUPPORTED,
                        "%s: its image is compressed in tiles, which is not read here: unpack it first: "
                        "funpack IN (CFITSIO)",
                        name);
    if (has_image(u) && (name_of_image ? has_name(u, name_of_image) : found == wanted))
      return add_first(reader, u, first);
    found += has_image(u);
    if (!u->extension && !has_image(u)) {
      *first = *u->cards;
      *u->cards = (gconv_fits_cards){0};
    }
    const uint8_t *bytes;
    size_t got;
    GCONV_TRY(gconv_source_skip(reader->source, bytes_of(u)));
    GCONV_TRY(gconv_source_peek(reader->source, 9, &bytes, &got));
    if (got < 9 || memcmp(bytes, "XTENSION=", 9) != 0)
      return gconv_fail(reader->member ? GCONV_BAD_ARGUMENT : GCONV_UNSUPPORTED,
                        "%s: has %lld image%s%s%s%s (planes of a cube are frames: -o '{frame}.fits')", name,
                        (long long)found, found == 1 ? "" : "s", reader->member ? "" : ", only tables or headers",
                        name_of_image ? ", and none has the EXTNAME " : "", name_of_image ? name_of_image : "");
  }
}

static gconv_status open_fits(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(fits_state), "a FITS", &reader->state));
  fits_state *state = reader->state;
  gconv_image *header = &reader->header;
  GCONV_ENDED_BY(gconv_fits_free_cards) gconv_fits_cards first = {0};
  GCONV_ENDED_BY(gconv_fits_free_cards) gconv_fits_cards cards = {0};
  unit u = {.cards = &cards};
  GCONV_TRY(find_image(reader, &u, &first));
  if (u.other > 0 || u.groups != 1)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: its image has random groups, which are not read here", reader->source->name);
  if (u.frames < 1)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: has too many planes", reader->source->name);
  header->width = u.width;
  header->height = u.height;
  header->frames = u.frames;
  header->channels = 1;
  state->numbers = u.numbers;
  gconv_numbers_set_type(&state->numbers, header);
  const uint64_t bytes = u.points * u.numbers.element.bytes;
  state->after = reader->source->position + bytes_of(&u);
  state->version =
      reader->member && isalpha((unsigned char)reader->member[0]) && !version_in(reader->member) ? u.version : 0;
  GCONV_TRY(gconv_fits_keep_cards(reader, &cards));
  return gconv_reader_expect(reader, bytes);
}

static gconv_status look_behind(gconv_reader *reader) {
  const fits_state *state = reader->state;
  if (reader->source->size == UINT64_MAX || reader->source->size <= state->after)
    return GCONV_OK;
  if (!reader->member)
    gconv_reader_note(reader, "only its first image is read: FILE:2 would be the next one, if there is one");
  else if (state->version > 0)
    gconv_reader_note(reader, "is EXTVER %lld: FILE:%s,%lld would be the next one, if there is one",
                      (long long)state->version, reader->member, (long long)state->version + 1);
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  return gconv_numbers_read_rows(reader, &((const fits_state *)reader->state)->numbers, rows, row_bytes, count);
}

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

static bool is_transposed(const gconv_image *image) {
  return !image->planar && image->channels > 1;
}

static double held_bytes(const gconv_image *header, const gconv_write_options *options, int how) {
  return is_transposed(header) ? gconv_image_frame_bytes(header) : 0;
}

static gconv_status put_card(gconv_writer *writer, const char *key, const char *value) {
  char card[CARD];
  memset(card, ' ', CARD);
  memcpy(card, key, strlen(key));
  if (*value) {
    card[8] = '=';
    memcpy(card + 30 - strlen(value), value, strlen(value));
  }
  return gconv_sink_write(writer->sink, card, CARD);
}

static gconv_status put_number(gconv_writer *writer, const char *key, int64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, value);
  return put_card(writer, key, text);
}

static gconv_status fill_block(gconv_writer *writer, uint64_t used, char with) {
  char rest[BLOCK];
  memset(rest, with, sizeof rest);
  return gconv_sink_write(writer->sink, rest, (size_t)((BLOCK - used % BLOCK) % BLOCK));
}

static gconv_status start(gconv_writer *writer) {
  const gconv_image *image = writer->header;
  const int32_t lengths[] = {image->width, image->height, image->channels, image->frames};
  int axes = 0;
  int32_t kept[4];
  for (int i = 0; i < 4; i++)
    if (i < 2 || lengths[i] > 1)
      kept[axes++] = lengths[i];
  GCONV_TRY(gconv_format_state(sizeof(fits_state), "a FITS", &writer->state));
  fits_state *state = writer->state;
  const size_t frame[] = {(size_t)image->width, (size_t)image->height, (size_t)image->channels,
                          gconv_type_bytes(image->type)};
  if (is_transposed(image))
    GCONV_ALLOCATE(state->frame, gconv_checked_product(4, frame), "a frame");
  GCONV_TRY(put_card(writer, "SIMPLE", "T"));
  GCONV_TRY(put_number(writer, "BITPIX", image->type == GCONV_U8 ? 8 : image->type == GCONV_U16 ? 16 : -32));
  GCONV_TRY(put_number(writer, "NAXIS", axes));
  for (int i = 0; i < axes; i++) {
    char key[9];
    snprintf(key, sizeof key, "NAXIS%d", i + 1);
    GCONV_TRY(put_number(writer, key, kept[i]));
  }
  if (image->type == GCONV_U16) {
    GCONV_TRY(put_number(writer, "BSCALE", 1));
    GCONV_TRY(put_number(writer, "BZERO", 32768));
  }
  GCONV_TRY(gconv_fits_write_cards(writer));
  GCONV_TRY(put_card(writer, "END", ""));
  return fill_block(writer, gconv_sink_position(writer->sink), ' ');
}

/* Writes samples. Changes them in place to the numbers of the file. */
static gconv_status put_samples(gconv_writer *writer, uint8_t *samples, size_t count) {
  const gconv_type type = writer->header->type;
  const size_t bytes = gconv_type_bytes(type);
  if (type == GCONV_U16)
    for (size_t i = 0; i < count; i++)
      ((uint16_t *)(void *)samples)[i] ^= 0x8000;
  if (bytes > 1 && !gconv_host_is_big_endian())
    gconv_swap_bytes(samples, count, bytes);
  ((fits_state *)writer->state)->bytes += count * bytes;
  return gconv_sink_write(writer->sink, samples, count * bytes);
}

/* Separates a row of pixels into the planes of the frame. Writes the frame after its last row. */
static gconv_status put_colours(gconv_writer *writer, const uint8_t *row) {
  const gconv_image *image = writer->header;
  fits_state *state = writer->state;
  const size_t bytes = gconv_type_bytes(image->type), width = (size_t)image->width, channels = (size_t)image->channels;
  for (size_t c = 0; c < channels; c++) {
    uint8_t *to = state->frame + ((c * (size_t)image->height + (size_t)state->rows) * width) * bytes;
    for (size_t x = 0; x < width; x++)
      memcpy(to + x * bytes, row + (x * channels + c) * bytes, bytes);
  }
  if (++state->rows < image->height)
    return GCONV_OK;
  state->rows = 0;
  return put_samples(writer, state->frame, width * (size_t)image->height * channels);
}

static gconv_status write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  const gconv_image *image = writer->header;
  const size_t width = (size_t)image->width, bytes = gconv_type_bytes(image->type);
  uint8_t piece[8192] __attribute__((aligned(8)));
  for (int32_t y = 0; y < count; y++) {
    const uint8_t *row = (const uint8_t *)rows + (size_t)y * row_bytes;
    if (is_transposed(image)) {
      GCONV_TRY(put_colours(writer, row));
      continue;
    }
    for (size_t x = 0; x < width; x += sizeof piece / 4) {
      const size_t step = width - x < sizeof piece / 4 ? width - x : sizeof piece / 4;
      memcpy(piece, row + x * bytes, step * bytes);
      GCONV_TRY(put_samples(writer, piece, step));
    }
  }
  return GCONV_OK;
}

static gconv_status finish(gconv_writer *writer) {
  return fill_block(writer, ((const fits_state *)writer->state)->bytes, 0);
}

static void end(gconv_writer *writer) {
  const fits_state *state = writer->state;
  gconv_release(state ? state->frame : NULL);
}

const gconv_format gconv_format_fits = {
    .info = {.name = "fits",
             .extensions = "fits fit fts",
             .help = "FITS of astronomy: images and cubes of any numbers; colours become an axis",
             .reads = true,
             .writes = true,
             .holds = {true, true, true},
             .multiframe = true,
             .tensors = true},
    .alpha = true,
    .plain = true,
    .number = true,
    .members = true,
    .metadata = GCONV_HOLDS_CARDS,
    .sniff = sniff,
    .open = open_fits,
    .look_behind = look_behind,
    .read_rows = read_rows,
    .held_bytes = held_bytes,
    .start = start,
    .write_rows = write_rows,
    .finish = finish,
    .end = end,
};

/* SPDX-License-Identifier: MIT */
/*
 * Reading TIFF: pages, one after the other, each from the top.
 *
 * A page is decoded by bands: the rows of a strip, or of a row of tiles. Whole bands that are asked for are decoded where
 * they are wanted, their blocks by the shared threads side by side; of a band that is asked for in parts, the rows are held.
 * Each thread that needs libtiff has the file open by itself.
 */
#include "base/threads.h"
#include "image/metadata.h"
#include "image/tiff.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#ifdef GCONV_WITH_ISAL
#include <isa-l/igzip_lib.h>
#endif

enum { MOST_PLANES = 4, RUN_BYTES = 1 << 20 };

/* What one thread works with. */
typedef struct seat {
  gconv_tiff_file file; /* opened when it is needed */
  int32_t page;         /* that libtiff is at; -1: none */
  uint8_t *raw, *block, *samples;
  size_t raw_room, block_room, samples_room;
  void *inflate;
  bool lost; /* a number was rounded */
} seat;

typedef struct state {
  gconv_reader *reader;
  gconv_source bytes; /* of a pipe, all of it */
  uint8_t *buffer;    /* the same; owned */
  const gconv_source *source;
  uint64_t *pages; /* where their directories are; owned, as all below */
  int32_t page_count, room;
  int32_t number;   /* of the first page; above 1 if one was asked for */
  int32_t left_out; /* reduced copies */
  seat *seats;      /* one a thread, or a plane; seats[0] has the file open from the beginning */
  size_t seat_count;
  gconv_tiff_page page; /* that is read now: number `at` */
  int32_t at, row;      /* row: the next one of it */
  uint8_t *held;        /* rows held_begin .. held_end - 1 of it */
  size_t held_room;
  int32_t held_begin, held_end;

  /* The bands being decoded. */
  uint8_t *rows;
  size_t row_bytes;
  int32_t band;
  pthread_mutex_t lock; /* guards all below */
  gconv_status status;
  char error[600];
} state;

/* ---- Pages ---- */

/* Copies at smaller sizes and masks, of which viewers make use: they are no pages. */
static bool is_left_out(seat *first) {
  uint32_t kind = 0;
  uint16_t old_kind = 0;
  TIFF *handle = first->file.handle;
  if (gconv_tiff.TIFFGetField(handle, TIFFTAG_SUBFILETYPE, &kind))
    return (kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) != 0;
  return gconv_tiff.TIFFGetField(handle, TIFFTAG_OSUBFILETYPE, &old_kind) && old_kind == OFILETYPE_REDUCEDIMAGE;
}

static gconv_status add_page(state *s) {
  if (s->page_count == s->room) {
    int32_t room = s->room ? 2 * s->room : 8;
    uint64_t *pages = realloc(s->pages, (size_t)room * sizeof *pages);
    if (!pages)
      return gconv_fail(GCONV_NO_MEMORY, "no memory for a TIFF");
    s->pages = pages;
    s->room = room;
  }
  s->pages[s->page_count++] = gconv_tiff.TIFFCurrentDirOffset(s->seats[0].file.handle);
  return GCONV_OK;
}

static void describe(const gconv_image *header, char text[80]) {
  snprintf(text, 80, "%d x %d pixels of %d %s samples%s", header->width, header->height, header->channels,
           gconv_type_name(header->type), header->alpha ? " with alpha" : "");
}

/* Pages become the frames of one image: so they have to be alike. */
static gconv_status compare(const state *s, const gconv_tiff_page *first, const gconv_tiff_page *other) {
  char one[80], two[80];
  const char *name = s->reader->source->name;
  if (gconv_image_same_shape(&first->header, &other->header) && first->orientation == other->orientation)
    return GCONV_OK;
  describe(&first->header, one);
  describe(&other->header, two);
  bool turned = gconv_image_same_shape(&first->header, &other->header);
  return gconv_fail(
      GCONV_UNSUPPORTED,
      "%s: its pages differ: page 1 has %s, page %d %s; pages that are read together are alike: name one, such "
      "as %s:%d",
      name, one, s->page_count, turned ? "another orientation" : two, name, s->page_count);
}

/* "3" is the third page. */
static gconv_status parse_member(const gconv_reader *reader, int32_t *number) {
  char *end;
  errno = 0;
  long value = strtol(reader->member, &end, 10);
  if (errno || end == reader->member || *end != '\0' || value < 1 || value > INT32_MAX)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: \"%s\" is no page: pages of a TIFF have the numbers 1, 2, 3 ...",
                      reader->source->name, reader->member);
  *number = (int32_t)value;
  return GCONV_OK;
}

static gconv_status no_page(const state *s, int32_t wanted) {
  const char *name = s->reader->source->name;
  if (wanted > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has no page %d: there %s %d", name, wanted, s->page_count == 1 ? "is" : "are",
                      s->page_count);
  return gconv_fail(GCONV_UNSUPPORTED,
                    "%s: a TIFF of reduced copies alone: its image is where this program does not look (raw photos are so): "
                    "convert it first",
                    name);
}

/* Finds all pages, or the one that is wanted, and sets s->page to the first of them. */
static gconv_status find_pages(state *s) {
  seat *first = &s->seats[0];
  int32_t wanted = 0;
  bool found = false;
  if (s->reader->member)
    GCONV_TRY(parse_member(s->reader, &wanted));
  for (bool more = true; more && !(found && wanted > 0);) {
    if (is_left_out(first)) {
      s->left_out++;
    } else {
      gconv_tiff_page page;
      GCONV_TRY(add_page(s));
      if (wanted == 0 || s->page_count == wanted) {
        GCONV_TRY(gconv_tiff_look(&first->file, &page));
        if (found)
          GCONV_TRY(compare(s, &s->page, &page));
        else
          s->page = page;
        found = true;
      }
    }
    if (found && wanted > 0)
      break;
    more = !gconv_tiff.TIFFLastDirectory(first->file.handle);
    if (more && !gconv_tiff.TIFFReadDirectory(first->file.handle))
      return gconv_tiff_fail(&first->file, "the directory of its next page cannot be read");
  }
  if (!found)
    return no_page(s, wanted);
  s->number = wanted > 0 ? wanted : 1;
  if (wanted > 0)
    s->pages[0] = s->pages[wanted - 1];
  s->page_count = wanted > 0 ? 1 : s->page_count;
  return GCONV_OK;
}

/* Puts the handle of a seat at page `at`. */
static gconv_status turn_to(state *s, seat *its, const gconv_tiff_page *page) {
  if (!its->file.handle) {
    its->file = (gconv_tiff_file){.name = s->reader->source->name, .source = s->source};
    GCONV_TRY(gconv_tiff_open(&its->file, "rm"));
    its->page = -1;
  }
  if (its->page == s->at)
    return GCONV_OK;
  its->file.decoding = false;
  if (!gconv_tiff.TIFFSetSubDirectory(its->file.handle, s->pages[s->at]))
    return gconv_tiff_fail(&its->file, "the directory of a page cannot be read");
  if (page)
    gconv_tiff_prepare(&its->file, page);
  its->page = s->at;
  its->file.decoding = true;
  return GCONV_OK;
}

/* Begins to read page number `at`. */
static gconv_status begin_page(state *s, int32_t at) {
  gconv_tiff_page page;
  s->at = at;
  s->row = s->held_begin = s->held_end = 0;
  GCONV_TRY(turn_to(s, &s->seats[0], NULL));
  s->seats[0].file.decoding = false;
  GCONV_TRY(gconv_tiff_look(&s->seats[0].file, &page));
  s->seats[0].file.decoding = true;
  if (!gconv_image_same_shape(&page.header, &s->page.header))
    return gconv_fail(GCONV_BAD_FILE, "%s: it changed while it was read", s->reader->source->name);
  s->page = page;
  return GCONV_OK;
}

/* ---- Opening ---- */

/* libtiff goes back and forth: what comes through a pipe is taken into memory. */
static gconv_status keep_bytes(state *s) {
  const uint64_t a_pixel = 16, more = 64 << 20;
  gconv_reader *reader = s->reader;
  size_t size, limit = reader->max_pixels < SIZE_MAX / 32 ? (size_t)(a_pixel * reader->max_pixels + more) : PTRDIFF_MAX;
  s->source = reader->source;
  if (gconv_source_can_rewind(reader->source))
    return GCONV_OK;
  GCONV_TRY(gconv_reader_read_all(reader, limit, &s->buffer, &size));
  gconv_source_of_bytes(reader->source->name, s->buffer, size, &s->bytes);
  s->source = &s->bytes;
  return GCONV_OK;
}

static gconv_status read_icc(const state *s, gconv_reader *reader) {
  uint32_t size = 0;
  void *bytes = NULL;
  if (!gconv_tiff.TIFFGetField(s->seats[0].file.handle, TIFFTAG_ICCPROFILE, &size, &bytes) || size == 0)
    return GCONV_OK;
  if (s->page.colour == GCONV_TIFF_CMYK || s->page.way == GCONV_TIFF_COLOURS) {
    gconv_remark("%s: its colours become RGB by a plain formula, without its ICC profile", reader->source->name);
    return GCONV_OK;
  }
  if (!gconv_reader_has_room(reader, size))
    return GCONV_OK;
  GCONV_TRY(gconv_allocate(size, "an ICC profile", &reader->header.icc));
  memcpy(reader->header.icc, bytes, size);
  reader->header.icc_bytes = size;
  return GCONV_OK;
}

/* Whether the description tells a program how the file is laid out. Results are laid out otherwise, so it would mislead. */
static bool is_of_layout(const char *text) {
  static const char *const begins[] = {"{\"shape\":", "ImageJ=", "SCIFIO=", "<OME"};
  for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
    if (strncmp(text, begins[i], strlen(begins[i])) == 0)
      return true;
  return strncmp(text, "<?xml", 5) == 0 && strstr(text, "<OME");
}

static gconv_status read_description(const state *s, gconv_reader *reader) {
  const char *text = NULL;
  if (!gconv_tiff.TIFFGetField(s->seats[0].file.handle, TIFFTAG_IMAGEDESCRIPTION, &text) || !text)
    return GCONV_OK;
  if (!is_of_layout(text))
    return gconv_reader_add_comment(reader, text, strlen(text));
  bool shape_alone = text[0] == '{' && strchr(text, ':') == strrchr(text, ':');
  if (!shape_alone)
    gconv_reader_note(reader, "its description is left out, which is about the layout of the file (%.7s...)", text);
  return GCONV_OK;
}

/* What the first page carries besides pixels. The orientation of the page itself comes before those of EXIF and XMP. */
static gconv_status read_metadata(const state *s, gconv_reader *reader) {
  TIFF *handle = s->seats[0].file.handle;
  uint32_t size = 0;
  void *xmp = NULL;
  uint16_t orientation = 0;
  if (gconv_tiff.TIFFGetField(handle, TIFFTAG_ORIENTATION, &orientation) && orientation >= 1 && orientation <= 8)
    reader->orientation = orientation;
  if (gconv_tiff.TIFFGetField(handle, TIFFTAG_XMLPACKET, &size, &xmp) && xmp && gconv_reader_has_room(reader, size))
    GCONV_TRY(gconv_metadata_set_xmp(&reader->header, xmp, size));
  GCONV_TRY(read_description(s, reader));
  GCONV_TRY(gconv_tiff_read_exif(reader, s->source, s->pages[0]));
  return read_icc(s, reader);
}

/* Bytes of a block, of all its planes, when it has become samples. */
static size_t block_bytes(const gconv_tiff_page *page) {
  size_t bytes = gconv_type_bytes(page->header.type) * page->samples;
  return (size_t)page->width * (size_t)page->height * (bytes > 4 ? bytes : 4);
}

/* Memory besides the rows: a band that is held, and a block a thread; where libtiff decodes line by line, a strip of each
 * plane as it is in the file. */
static size_t memory_of(const state *s) {
  const gconv_tiff_page *page = &s->page;
  size_t row = gconv_image_row_bytes(&page->header), band = row * (size_t)page->height;
  uint64_t raw = page->way == GCONV_TIFF_LINES ? gconv_tiff.TIFFGetStrileByteCount(s->seats[0].file.handle, 0) : 0;
  raw = raw < s->source->size / MOST_PLANES ? MOST_PLANES * raw : s->source->size;
  if (page->way == GCONV_TIFF_STORED || page->way == GCONV_TIFF_LINES)
    return RUN_BYTES + MOST_PLANES * (row + page->row_bytes) + (size_t)raw;
  return band + (size_t)gconv_threads_allowed(0) * 3 * block_bytes(page);
}

gconv_status gconv_tiff_open_reader(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(state), "a TIFF", &reader->state));
  state *s = reader->state;
  pthread_mutex_init(&s->lock, NULL);
  s->reader = reader;
  s->at = -1;
  s->seat_count = (size_t)gconv_threads_allowed(INT_MAX);
  s->seat_count = s->seat_count > MOST_PLANES ? s->seat_count : MOST_PLANES;
  s->seats = calloc(s->seat_count, sizeof *s->seats);
  if (!s->seats) {
    s->seat_count = 0;
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a TIFF");
  }
  s->seats[0].page = -1;
  GCONV_TRY(keep_bytes(s));
  s->seats[0].file = (gconv_tiff_file){.name = reader->source->name, .source = s->source};
  GCONV_TRY(gconv_tiff_open(&s->seats[0].file, "rm"));
  GCONV_TRY(find_pages(s));
  reader->header = s->page.header;
  reader->header.frames = s->page_count;
  GCONV_TRY(begin_page(s, 0));
  reader->bytes += memory_of(s);
  return read_metadata(s, reader);
}

void gconv_tiff_close_reader(gconv_reader *reader) {
  state *s = reader->state;
  if (!s)
    return;
  bool lost = false;
  for (size_t i = 0; i < s->seat_count; i++) {
    seat *its = &s->seats[i];
    lost |= its->lost;
    gconv_tiff_close(&its->file);
    gconv_release(its->raw);
    gconv_release(its->block);
    gconv_release(its->samples);
    gconv_release(its->inflate);
  }
  if (lost)
    gconv_remark("%s: numbers became float32, with rounding", reader->source->name);
  free(s->seats);
  free(s->pages);
  gconv_release(s->buffer);
  gconv_release(s->held);
  pthread_mutex_destroy(&s->lock);
}

/* ---- Blocks ---- */

static gconv_status make_room(size_t bytes, uint8_t **memory, size_t *room) {
  void *larger = NULL;
  if (bytes <= *room)
    return GCONV_OK;
  gconv_release(*memory);
  *memory = NULL;
  *room = 0;
  GCONV_TRY(gconv_allocate(bytes, "pixels of a TIFF", &larger));
  *memory = larger;
  *room = bytes;
  return GCONV_OK;
}

/* The bytes of a block as they are in the file. */
static gconv_status read_raw(const state *s, seat *its, uint32_t index, size_t *size) {
  TIFF *main = s->seats[0].file.handle; /* nobody changes its lists while a page is read */
  uint64_t at = gconv_tiff.TIFFGetStrileOffset(main, index), bytes = gconv_tiff.TIFFGetStrileByteCount(main, index);
  if (at > s->source->size || bytes > s->source->size - at || bytes == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its pixels", s->reader->source->name);
  GCONV_TRY(make_room((size_t)bytes, &its->raw, &its->raw_room));
  GCONV_TRY(gconv_source_read_at(s->source, at, its->raw, (size_t)bytes, size));
  return *size == bytes ? GCONV_OK
                        : gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its pixels", s->reader->source->name);
}

/* zlib's format into out[0 .. size); false if that does not become so many bytes, or the checksum is wrong. */
static bool inflate_block(seat *its, size_t raw_size, uint8_t *out, size_t size) {
#ifdef GCONV_WITH_ISAL
  struct inflate_state *inflate = its->inflate;
  if (!inflate && gconv_allocate(sizeof *inflate, "pixels of a TIFF", &its->inflate) != GCONV_OK)
    return false;
  inflate = its->inflate;
  isal_inflate_init(inflate);
  inflate->crc_flag = ISAL_ZLIB;
  inflate->next_in = its->raw;
  inflate->avail_in = (uint32_t)raw_size;
  inflate->next_out = out;
  inflate->avail_out = (uint32_t)size;
  if (raw_size > UINT32_MAX || size > UINT32_MAX || isal_inflate(inflate) != ISAL_DECOMP_OK || inflate->avail_out != 0)
    return false;
  return inflate->block_state == ISAL_BLOCK_FINISH;
#else
  uLongf made = (uLongf)size;
  return uncompress(out, &made, its->raw, (uLong)raw_size) == Z_OK && made == size;
#endif
}

/* Decodes a block without libtiff: it is stored, or by Deflate. False if something is irregular: then libtiff is asked. */
static gconv_status decode_own(const state *s, seat *its, uint32_t index, int32_t rows, uint8_t *out, bool *done) {
  const gconv_tiff_page *page = &s->page;
  size_t bytes = page->row_bytes * (size_t)rows, size = 0;
  *done = false;
  GCONV_TRY(read_raw(s, its, index, &size));
  if (page->compression == COMPRESSION_NONE) {
    if (size < bytes)
      return gconv_fail(GCONV_BAD_FILE, "%s: damaged TIFF: a tile has %zu bytes of %zu", s->reader->source->name, size,
                        bytes);
    memcpy(out, its->raw, bytes);
  } else if (!inflate_block(its, size, out, bytes)) {
    return GCONV_OK;
  }
  GCONV_TRY(make_room(page->row_bytes, &its->raw, &its->raw_room));
  for (int32_t y = 0; y < rows; y++)
    gconv_tiff_undo(page, out + (size_t)y * page->row_bytes, its->raw);
  *done = true;
  return GCONV_OK;
}

/* Decodes a block to bytes of samples in the order of this machine. */
static gconv_status decode_block(state *s, seat *its, uint32_t index, int32_t rows, uint8_t *out) {
  const gconv_tiff_page *page = &s->page;
  tmsize_t bytes = (tmsize_t)(page->row_bytes * (size_t)rows), got;
  bool done = false;
  if (page->own)
    GCONV_TRY(decode_own(s, its, index, rows, out, &done));
  if (done)
    return GCONV_OK;
  GCONV_TRY(turn_to(s, its, page));
  memset(out, 0, (size_t)bytes);
  got = page->tiled ? gconv_tiff.TIFFReadEncodedTile(its->file.handle, index, out, bytes)
                    : gconv_tiff.TIFFReadEncodedStrip(its->file.handle, index, out, bytes);
  if (got < 0 || its->file.text[0])
    return gconv_tiff_fail(&its->file, "its pixels cannot be decoded");
  return GCONV_OK;
}

/* Where a block goes. */
typedef struct target {
  int32_t band, column;
  int32_t width, height; /* of the part that is in the page */
  uint8_t *pixels;
  size_t row_bytes;
} target;

/* Makes colours of the samples of a block, which are in the image already unless their number differs. */
static void finish_block(const gconv_tiff_page *page, const target *t, const seat *its) {
  size_t row = gconv_type_bytes(page->header.type) * page->samples * (size_t)t->width;
  bool elsewhere = page->header.channels != page->samples;
  for (int32_t y = 0; y < t->height; y++) {
    uint8_t *pixels = t->pixels + (size_t)y * t->row_bytes;
    gconv_tiff_colours(page, elsewhere ? its->samples + (size_t)y * row : pixels, t->width, pixels);
  }
}

/* Unpacks a decoded plane of a block. */
static void unpack_block(const gconv_tiff_page *page, const target *t, seat *its, const uint8_t *block, int plane) {
  size_t bytes = gconv_type_bytes(page->header.type) * page->samples * (size_t)t->width;
  bool elsewhere = page->header.channels != page->samples;
  for (int32_t y = 0; y < t->height; y++) {
    uint8_t *samples = elsewhere ? its->samples + (size_t)y * bytes : t->pixels + (size_t)y * t->row_bytes;
    const uint8_t *row = block + (size_t)y * page->row_bytes;
    if (samples != row)
      its->lost |= gconv_tiff_unpack(page, row, t->width, plane, samples);
  }
}

static gconv_status decode_cell(state *s, seat *its, const target *t) {
  const gconv_tiff_page *page = &s->page;
  size_t row = gconv_type_bytes(page->header.type) * page->samples * (size_t)t->width;
  int planes = page->separate ? page->samples : 1;
  int32_t rows = page->tiled ? page->height : t->height;
  bool in_place = page->kind == GCONV_TIFF_DIRECT && !page->tiled && planes == 1 && page->header.channels == page->samples &&
                  t->row_bytes == page->row_bytes;
  if (!in_place)
    GCONV_TRY(make_room(page->row_bytes * (size_t)rows, &its->block, &its->block_room));
  if (page->header.channels != page->samples)
    GCONV_TRY(make_room(row * (size_t)t->height, &its->samples, &its->samples_room));
  for (int plane = 0; plane < planes; plane++) {
    uint32_t index = ((uint32_t)plane * (uint32_t)page->down + (uint32_t)t->band) * (uint32_t)page->across;
    uint8_t *block = in_place ? t->pixels : its->block;
    GCONV_TRY(decode_block(s, its, index + (uint32_t)t->column, rows, block));
    unpack_block(page, t, its, block, plane);
  }
  finish_block(page, t, its);
  return GCONV_OK;
}

/* A block whose colours libtiff converts: it gives rows from the bottom up, of a strip just those that there are. */
static gconv_status decode_colours(state *s, seat *its, const target *t) {
  const gconv_tiff_page *page = &s->page;
  GCONV_TRY(turn_to(s, its, page));
  GCONV_TRY(make_room((size_t)page->width * (size_t)page->height * 4, &its->block, &its->block_room));
  uint32_t *raster = (uint32_t *)(void *)its->block;
  uint32_t x = (uint32_t)t->column * (uint32_t)page->width, y = (uint32_t)t->band * (uint32_t)page->height;
  int good = page->tiled ? gconv_tiff.TIFFReadRGBATile(its->file.handle, x, y, raster)
                         : gconv_tiff.TIFFReadRGBAStrip(its->file.handle, y, raster);
  if (!good || its->file.text[0])
    return gconv_tiff_fail(&its->file, "its colours cannot be converted");
  int32_t last = (page->tiled ? page->height : t->height) - 1;
  for (int32_t i = 0; i < t->height; i++)
    for (int32_t k = 0; k < t->width; k++) {
      uint32_t pixel = raster[(size_t)(last - i) * (size_t)page->width + (size_t)k];
      uint8_t *out = t->pixels + (size_t)i * t->row_bytes + (size_t)k * 3;
      out[0] = (uint8_t)TIFFGetR(pixel);
      out[1] = (uint8_t)TIFFGetG(pixel);
      out[2] = (uint8_t)TIFFGetB(pixel);
    }
  return GCONV_OK;
}

/* ---- Bands ---- */

static int32_t smaller(int64_t a, int64_t b) {
  return (int32_t)(a < b ? a : b);
}

static void decode_turn(void *context, size_t turn, int number) {
  state *s = context;
  const gconv_tiff_page *page = &s->page;
  size_t pixel = gconv_type_bytes(page->header.type) * (size_t)page->header.channels;
  int32_t band = s->band + (int32_t)(turn / (size_t)page->across), column = (int32_t)(turn % (size_t)page->across);
  target t = {.band = band, .column = column, .row_bytes = s->row_bytes};
  t.width = smaller(page->width, (int64_t)page->header.width - (int64_t)column * page->width);
  t.height = smaller(page->height, (int64_t)page->header.height - (int64_t)band * page->height);
  t.pixels = s->rows + (size_t)(band - s->band) * (size_t)page->height * s->row_bytes +
             (size_t)column * (size_t)page->width * pixel;
  seat *its = &s->seats[number];
  gconv_status status = page->way == GCONV_TIFF_COLOURS ? decode_colours(s, its, &t) : decode_cell(s, its, &t);
  if (status == GCONV_OK)
    return;
  pthread_mutex_lock(&s->lock);
  if (s->status == GCONV_OK)
    snprintf(s->error, sizeof s->error, "%s", gconv_last_error());
  s->status = s->status == GCONV_OK ? status : s->status;
  pthread_mutex_unlock(&s->lock);
}

static gconv_status decode_bands(state *s, int32_t band, int32_t count, uint8_t *rows, size_t row_bytes) {
  size_t turns = (size_t)count * (size_t)s->page.across;
  s->band = band;
  s->rows = rows;
  s->row_bytes = row_bytes;
  if (s->reader->shared)
    gconv_threads_run(s->reader->shared, turns, decode_turn, s);
  for (size_t turn = 0; !s->reader->shared && turn < turns && s->status == GCONV_OK; turn++)
    decode_turn(s, turn, 0);
  return s->status == GCONV_OK ? GCONV_OK : gconv_set_error(s->status, s->error);
}

static gconv_status hold_band(state *s, int32_t band) {
  const gconv_tiff_page *page = &s->page;
  size_t row = gconv_image_row_bytes(&page->header);
  int32_t height = smaller(page->height, page->header.height);
  GCONV_TRY(make_room(row * (size_t)height, &s->held, &s->held_room));
  GCONV_TRY(decode_bands(s, band, 1, s->held, row));
  s->held_begin = band * page->height;
  s->held_end = smaller(page->header.height, (int64_t)s->held_begin + page->height);
  return GCONV_OK;
}

/* Reads some of the next rows, at most `count`; *got says how many. */
static gconv_status read_blocks(state *s, uint8_t *rows, size_t row_bytes, int32_t count, int32_t *got) {
  const gconv_tiff_page *page = &s->page;
  size_t row = gconv_image_row_bytes(&page->header);
  int32_t band = s->row / page->height, left = page->header.height - s->row;
  if (s->row >= s->held_begin && s->row < s->held_end) {
    *got = smaller(count, s->held_end - s->row);
    for (int32_t i = 0; i < *got; i++)
      memcpy(rows + (size_t)i * row_bytes, s->held + (size_t)(s->row - s->held_begin + i) * row, row);
    return GCONV_OK;
  }
  *got = count >= left ? left : count / page->height * page->height;
  if (*got > 0)
    return decode_bands(s, band, (*got - 1) / page->height + 1, rows, row_bytes);
  return hold_band(s, band);
}

/* ---- Lines ---- */

static gconv_status read_line(state *s, int32_t y, uint8_t *pixels) {
  const gconv_tiff_page *page = &s->page;
  int planes = page->separate ? page->samples : 1;
  seat *first = &s->seats[0];
  bool elsewhere = page->header.channels != page->samples;
  uint8_t *samples = elsewhere ? first->samples : pixels;
  for (int plane = 0; plane < planes; plane++) {
    seat *its = &s->seats[plane]; /* each plane is decoded on and on */
    GCONV_TRY(turn_to(s, its, page));
    int good = gconv_tiff.TIFFReadScanline(its->file.handle, first->block, (uint32_t)y, (uint16_t)plane);
    if (good < 0 || its->file.text[0])
      return gconv_tiff_fail(&its->file, "its pixels cannot be decoded");
    first->lost |= gconv_tiff_unpack(page, first->block, page->header.width, plane, samples);
  }
  gconv_tiff_colours(page, samples, page->header.width, pixels);
  return GCONV_OK;
}

/* ---- Stored rows ---- */

/* Where row y of a plane is, and how many more rows follow it without a gap. */
static uint64_t find_stored(const state *s, int plane, int32_t y, int32_t most, int32_t *run) {
  const gconv_tiff_page *page = &s->page;
  TIFF *handle = s->seats[0].file.handle;
  int32_t strip = y / page->height, in_strip = y % page->height;
  uint32_t index = (uint32_t)plane * (uint32_t)page->down + (uint32_t)strip;
  uint64_t at = gconv_tiff.TIFFGetStrileOffset(handle, index) + (uint64_t)in_strip * page->row_bytes;
  *run = smaller(most, page->height - in_strip);
  while (*run < most) {
    uint64_t end = at + (uint64_t)*run * page->row_bytes;
    if (gconv_tiff.TIFFGetStrileOffset(handle, ++index) != end)
      break;
    *run = smaller(most, (int64_t)*run + page->height);
  }
  return at;
}

/* Reads rows of a plane, which are as they are in the file but for the byte order. */
static gconv_status read_stored_bytes(const state *s, int plane, int32_t y, int32_t count, uint8_t *out) {
  const gconv_tiff_page *page = &s->page;
  for (int32_t run; count > 0; count -= run, y += run) {
    size_t got, bytes;
    uint64_t at = find_stored(s, plane, y, count, &run);
    bytes = page->row_bytes * (size_t)run;
    GCONV_TRY(gconv_source_read_at(s->source, at, out, bytes, &got));
    if (got < bytes || at == 0)
      return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its pixels", s->reader->source->name);
    for (int32_t i = 0; i < run && page->swapped; i++)
      gconv_tiff_undo(page, out + (size_t)i * page->row_bytes, NULL);
    out += bytes;
  }
  return GCONV_OK;
}

/* Reads some of the next rows, by way of a buffer. */
static gconv_status convert_stored(state *s, uint8_t *rows, size_t row_bytes, int32_t count) {
  const gconv_tiff_page *page = &s->page;
  seat *first = &s->seats[0];
  int planes = page->separate ? page->samples : 1;
  size_t row = gconv_type_bytes(page->header.type) * page->samples * (size_t)page->header.width;
  bool elsewhere = page->header.channels != page->samples;
  if (elsewhere)
    GCONV_TRY(make_room(row, &first->samples, &first->samples_room));
  GCONV_TRY(make_room(page->row_bytes * (size_t)count * (size_t)planes, &first->block, &first->block_room));
  for (int plane = 0; plane < planes; plane++)
    GCONV_TRY(read_stored_bytes(s, plane, s->row, count, first->block + (size_t)(plane * count) * page->row_bytes));
  for (int32_t y = 0; y < count; y++) {
    uint8_t *pixels = rows + (size_t)y * row_bytes, *samples = elsewhere ? first->samples : pixels;
    for (int plane = 0; plane < planes; plane++)
      first->lost |= gconv_tiff_unpack(page, first->block + ((size_t)plane * (size_t)count + (size_t)y) * page->row_bytes,
                                       page->header.width, plane, samples);
    gconv_tiff_colours(page, samples, page->header.width, pixels);
  }
  return GCONV_OK;
}

static gconv_status read_stored(state *s, uint8_t *rows, size_t row_bytes, int32_t count, int32_t *got) {
  const gconv_tiff_page *page = &s->page;
  bool same = page->kind == GCONV_TIFF_DIRECT && !page->separate && page->header.channels == page->samples &&
              row_bytes == page->row_bytes;
  if (!same) {
    size_t least = page->row_bytes * page->samples, most = least < RUN_BYTES ? RUN_BYTES / least : 1;
    *got = smaller(count, (int64_t)most);
    return convert_stored(s, rows, row_bytes, *got);
  }
  *got = count;
  GCONV_TRY(read_stored_bytes(s, 0, s->row, count, rows));
  for (int32_t y = 0; y < count && page->colour != GCONV_TIFF_PLAIN; y++)
    gconv_tiff_colours(page, rows + (size_t)y * row_bytes, page->header.width, rows + (size_t)y * row_bytes);
  return GCONV_OK;
}

/* ---- Rows ---- */

typedef struct wanted {
  state *s;
  uint8_t *rows;
  size_t row_bytes;
  int32_t count, got;
} wanted;

/* What is done by one thread: any but blocks. */
static gconv_status read_in_order(void *context) {
  wanted *w = context;
  state *s = w->s;
  const gconv_tiff_page *page = &s->page;
  if (page->way == GCONV_TIFF_STORED)
    return read_stored(s, w->rows, w->row_bytes, w->count, &w->got);
  seat *first = &s->seats[0];
  GCONV_TRY(make_room(page->row_bytes, &first->block, &first->block_room));
  GCONV_TRY(make_room(gconv_type_bytes(page->header.type) * page->samples * (size_t)page->header.width, &first->samples,
                      &first->samples_room));
  for (; w->got < w->count; w->got++)
    GCONV_TRY(read_line(s, s->row + w->got, w->rows + (size_t)w->got * w->row_bytes));
  return GCONV_OK;
}

static void warn_once(state *s) {
  if (s->left_out > 0 && !s->reader->again)
    gconv_warn("%s: %d reduced cop%s of the image (thumbnails or a pyramid) %s left out", s->reader->source->name,
               s->left_out, s->left_out == 1 ? "y" : "ies", s->left_out == 1 ? "is" : "are");
  s->left_out = 0;
}

gconv_status gconv_tiff_read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  state *s = reader->state;
  uint8_t *next = rows;
  warn_once(s);
  while (count > 0) {
    if (s->row == s->page.header.height)
      GCONV_TRY(begin_page(s, s->at + 1));
    wanted w = {s, next, row_bytes, smaller(count, s->page.header.height - s->row), 0};
    if (s->page.way == GCONV_TIFF_BLOCKS || s->page.way == GCONV_TIFF_COLOURS)
      GCONV_TRY(read_blocks(s, next, row_bytes, w.count, &w.got));
    else if (reader->shared)
      GCONV_TRY(gconv_threads_do(reader->shared, read_in_order, &w));
    else
      GCONV_TRY(read_in_order(&w));
    s->row += w.got;
    count -= w.got;
    next += (size_t)w.got * row_bytes;
  }
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/*
 * Decodes the pixels of TIFF: pages one after the other, each from the top.
 *
 * A page is decoded by bands: the rows of a strip, or of a row of tiles. Whole bands are decoded to where the caller wants
 * them, and the shared threads decode their blocks side by side. If only a part of a band is asked for, all of it is decoded
 * and held. Each thread that needs libtiff has the file open by itself.
 */
#include "base/threads.h"
#include "image/tiff_reading.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#ifdef GCONV_WITH_ISAL
#include <isa-l/igzip_lib.h>
#endif

/* ---- Blocks ---- */

static gconv_status make_room(size_t bytes, uint8_t **memory, size_t *room) {
  if (bytes <= *room)
    return GCONV_OK;
  gconv_release(*memory);
  *memory = NULL;
  *room = 0;
  GCONV_ALLOCATE(*memory, bytes, "pixels of a TIFF");
  *room = bytes;
  return GCONV_OK;
}

/* Reads the bytes of a block into its->raw, as they are in the file. */
static gconv_status read_raw(const gconv_tiff_reading *s, gconv_tiff_seat *its, uint32_t index, size_t *size) {
  TIFF *main = s->seats[0].file.handle; /* its tables do not change while a page is read */
  uint64_t at = gconv_tiff.TIFFGetStrileOffset(main, index), bytes = gconv_tiff.TIFFGetStrileByteCount(main, index);
  if (at > s->source->size || bytes > s->source->size - at || bytes == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its pixels", s->reader->source->name);
  GCONV_TRY(make_room((size_t)bytes, &its->raw, &its->raw_room));
  GCONV_TRY(gconv_source_read_at(s->source, at, its->raw, (size_t)bytes, size));
  return *size == bytes ? GCONV_OK
                        : gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its pixels", s->reader->source->name);
}

/* Inflates its->raw, which is in zlib's format, into out[0 .. size). Returns false if it does not become `size` bytes, or
 * the checksum is wrong. */
static bool inflate_block(gconv_tiff_seat *its, size_t raw_size, uint8_t *out, size_t size) {
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

/* Compares a compressed strip or tile with its checksum, because libtiff does not. Bytes after the stream are ignored. */
static gconv_status check_deflated(const gconv_tiff_reading *s, gconv_tiff_seat *its, uint32_t index) {
  uint8_t scrap[1 << 14];
  size_t size;
  z_stream stream = {0};
  GCONV_TRY(read_raw(s, its, index, &size));
  if (size > UINT32_MAX)
    return GCONV_OK;
  if (s->page.reversed)
    gconv_tiff.TIFFReverseBits(its->raw, (tmsize_t)size);
  if (inflateInit(&stream) != Z_OK)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a TIFF", s->reader->source->name);
  stream.next_in = its->raw;
  stream.avail_in = (uInt)size;
  int got = Z_OK;
  while (got == Z_OK) {
    stream.next_out = scrap;
    stream.avail_out = sizeof scrap;
    got = inflate(&stream, Z_NO_FLUSH);
  }
  inflateEnd(&stream);
  if (got == Z_STREAM_END)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: damaged TIFF: %s of its pixels by Deflate %s", s->reader->source->name,
                    s->page.tiled ? "a tile" : "a strip",
                    got == Z_BUF_ERROR ? "ends too early" : "has a wrong checksum, or codes that are not valid");
}

/* Returns whether the blocks of the page are compressed by Deflate. */
static bool is_deflated(const gconv_tiff_page *page) {
  return page->compression == COMPRESSION_ADOBE_DEFLATE || page->compression == COMPRESSION_DEFLATE;
}

/* Decodes a stored or deflated block without libtiff. *done is false if something is irregular: then libtiff decodes it. */
static gconv_status decode_own(const gconv_tiff_reading *s, gconv_tiff_seat *its, uint32_t index, int32_t rows, uint8_t *out,
                               bool *done) {
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

/* Sets the samples of a row whose planes are left out to the number that stands for no data. Without one, they stay 0. Bit p
 * of `holes` is of plane p. */
static void fill_holes(const gconv_tiff_page *page, unsigned holes, int32_t count, uint8_t *pixels) {
  const gconv_image *header = &page->header;
  const double value = header->nodata, most = header->type == GCONV_U8 ? UINT8_MAX : UINT16_MAX;
  const bool fits = value >= 0 && value <= most;
  const uint16_t level = fits ? (uint16_t)value : 0;
  if (holes == 0 || !header->has_nodata)
    return;
  for (size_t i = 0; i < (size_t)count * (size_t)header->channels; i++)
    if (!(holes >> (page->separate ? i % (size_t)header->channels : 0) & 1))
      continue;
    else if (header->type == GCONV_U8)
      pixels[i] = (uint8_t)level;
    else if (header->type == GCONV_U16)
      ((uint16_t *)(void *)pixels)[i] = level;
    else
      ((float *)(void *)pixels)[i] = (float)value;
}

/* Decodes a block to bytes of samples in the order of this machine. */
static gconv_status decode_block(gconv_tiff_reading *s, gconv_tiff_seat *its, uint32_t index, int32_t rows, uint8_t *out) {
  const gconv_tiff_page *page = &s->page;
  tmsize_t bytes = (tmsize_t)(page->row_bytes * (size_t)rows), got;
  bool done = false;
  if (page->holes && gconv_tiff_is_hole(&s->seats[0].file, index)) {
    memset(out, 0, (size_t)bytes);
    return GCONV_OK;
  }
  if (page->own)
    GCONV_TRY(decode_own(s, its, index, rows, out, &done));
  if (done)
    return GCONV_OK;
  if (is_deflated(page))
    GCONV_TRY(check_deflated(s, its, index));
  GCONV_TRY(gconv_tiff_turn_to(s, its, page));
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
  int32_t width, height; /* size of the part of the block that lies in the page */
  uint8_t *pixels;
  size_t row_bytes;
} target;

static int planes_of(const gconv_tiff_page *page) {
  return page->separate ? page->samples : 1;
}

/* Returns the bytes of `width` pixels that have the samples of the file, in the type of the image. */
static size_t sample_row(const gconv_tiff_page *page, int32_t width) {
  return gconv_type_bytes(page->header.type) * page->samples * (size_t)width;
}

/* Makes `count` pixels of row y of a decoded block, which has `rows` rows of each plane, one plane after the other. If image
 * and file differ in the number of samples per pixel, its->samples holds the samples before they become colours. */
static void finish_row(const gconv_tiff_page *page, gconv_tiff_seat *its, const uint8_t *block, size_t rows, size_t y,
                       int32_t count, uint8_t *pixels) {
  uint8_t *samples = page->header.channels != page->samples ? its->samples : pixels;
  for (int plane = 0; plane < planes_of(page); plane++) {
    const uint8_t *row = block + ((size_t)plane * rows + y) * page->row_bytes;
    if (samples != row)
      gconv_tiff_unpack(page, row, count, plane, samples, &its->rounding);
  }
  its->shone |= gconv_tiff_colours(page, samples, count, pixels);
}

static gconv_status decode_cell(gconv_tiff_reading *s, gconv_tiff_seat *its, const target *t) {
  const gconv_tiff_page *page = &s->page;
  const int planes = planes_of(page);
  const int32_t rows = page->tiled ? page->height : t->height;
  const size_t plane_bytes = page->row_bytes * (size_t)rows;
  bool in_place = page->kind == GCONV_TIFF_DIRECT && !page->tiled && planes == 1 && page->header.channels == page->samples &&
                  t->row_bytes == page->row_bytes;
  if (!in_place)
    GCONV_TRY(make_room(plane_bytes * (size_t)planes, &its->block, &its->block_room));
  GCONV_TRY(make_room(sample_row(page, t->width), &its->samples, &its->samples_room));
  uint8_t *block = in_place ? t->pixels : its->block;
  unsigned holes = 0;
  for (int plane = 0; plane < planes; plane++) {
    uint32_t index = ((uint32_t)plane * (uint32_t)page->down + (uint32_t)t->band) * (uint32_t)page->across;
    index += (uint32_t)t->column;
    GCONV_TRY(decode_block(s, its, index, rows, block + (size_t)plane * plane_bytes));
    holes |= (unsigned)(page->holes && gconv_tiff_is_hole(&s->seats[0].file, index)) << plane;
  }
  for (size_t y = 0; y < (size_t)t->height; y++) {
    finish_row(page, its, block, (size_t)rows, y, t->width, t->pixels + y * t->row_bytes);
    fill_holes(page, holes, t->width, t->pixels + y * t->row_bytes);
  }
  return GCONV_OK;
}

/* Decodes a block whose colours libtiff converts. libtiff gives rows from the bottom up. A short strip has no padding. */
static gconv_status decode_colours(gconv_tiff_reading *s, gconv_tiff_seat *its, const target *t) {
  const gconv_tiff_page *page = &s->page;
  GCONV_TRY(gconv_tiff_turn_to(s, its, page));
  gconv_tiff_prepare(&its->file, page); /* for seat 0, gconv_tiff_turn_to() does not do this */
  if (is_deflated(page))
    GCONV_TRY(check_deflated(s, its, (uint32_t)t->band * (uint32_t)page->across + (uint32_t)t->column));
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
  gconv_tiff_reading *s = context;
  const gconv_tiff_page *page = &s->page;
  size_t pixel = gconv_type_bytes(page->header.type) * (size_t)page->header.channels;
  int32_t band = s->band + (int32_t)(turn / (size_t)page->across), column = (int32_t)(turn % (size_t)page->across);
  target t = {.band = band, .column = column, .row_bytes = s->row_bytes};
  t.width = smaller(page->width, (int64_t)page->header.width - (int64_t)column * page->width);
  t.height = smaller(page->height, (int64_t)page->header.height - (int64_t)band * page->height);
  t.pixels = s->rows + (size_t)(band - s->band) * (size_t)page->height * s->row_bytes +
             (size_t)column * (size_t)page->width * pixel;
  gconv_tiff_seat *its = &s->seats[number];
  gconv_status status = page->way == GCONV_TIFF_COLOURS ? decode_colours(s, its, &t) : decode_cell(s, its, &t);
  if (status == GCONV_OK)
    return;
  pthread_mutex_lock(&s->lock);
  if (s->status == GCONV_OK)
    snprintf(s->error, sizeof s->error, "%s", gconv_last_error());
  s->status = s->status == GCONV_OK ? status : s->status;
  pthread_mutex_unlock(&s->lock);
}

static gconv_status decode_bands(gconv_tiff_reading *s, int32_t band, int32_t count, uint8_t *rows, size_t row_bytes) {
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

static gconv_status hold_band(gconv_tiff_reading *s, int32_t band) {
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
static gconv_status read_blocks(gconv_tiff_reading *s, uint8_t *rows, size_t row_bytes, int32_t count, int32_t *got) {
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

static gconv_status read_line(gconv_tiff_reading *s, int32_t y, uint8_t *pixels) {
  const gconv_tiff_page *page = &s->page;
  gconv_tiff_seat *first = &s->seats[0];
  unsigned holes = 0;
  for (int plane = 0; plane < planes_of(page); plane++) {
    gconv_tiff_seat *its = &s->seats[plane]; /* each plane has a seat, as its lines must be decoded in order */
    uint8_t *line = first->block + (size_t)plane * page->row_bytes;
    const uint32_t index = (uint32_t)(plane * page->down + y / page->height);
    if (page->holes && gconv_tiff_is_hole(&first->file, index)) {
      memset(line, 0, page->row_bytes);
      holes |= 1U << plane;
      continue;
    }
    if (y % page->height == 0 && is_deflated(page))
      GCONV_TRY(check_deflated(s, its, index));
    GCONV_TRY(gconv_tiff_turn_to(s, its, page));
    int good = gconv_tiff.TIFFReadScanline(its->file.handle, line, (uint32_t)y, (uint16_t)plane);
    if (good < 0 || its->file.text[0])
      return gconv_tiff_fail(&its->file, "its pixels cannot be decoded");
  }
  finish_row(page, first, first->block, 1, 0, page->header.width, pixels);
  fill_holes(page, holes, page->header.width, pixels);
  return GCONV_OK;
}

/* ---- Stored rows ---- */

/* Returns the position of row y of a plane in the file. *run: how many rows, at most `most`, follow from there without a
 * gap. */
static uint64_t find_stored(const gconv_tiff_reading *s, int plane, int32_t y, int32_t most, int32_t *run) {
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

/* Reads rows of a plane as they are in the file, but in the byte order of this machine. */
static gconv_status read_stored_bytes(const gconv_tiff_reading *s, int plane, int32_t y, int32_t count, uint8_t *out) {
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

/* Reads the next `count` rows into a buffer, and converts them from there. */
static gconv_status convert_stored(gconv_tiff_reading *s, uint8_t *rows, size_t row_bytes, int32_t count) {
  const gconv_tiff_page *page = &s->page;
  gconv_tiff_seat *first = &s->seats[0];
  const size_t planes = (size_t)planes_of(page);
  GCONV_TRY(make_room(page->row_bytes * (size_t)count * planes, &first->block, &first->block_room));
  for (size_t plane = 0; plane < planes; plane++)
    GCONV_TRY(read_stored_bytes(s, (int)plane, s->row, count, first->block + plane * (size_t)count * page->row_bytes));
  for (size_t y = 0; y < (size_t)count; y++)
    finish_row(page, first, first->block, (size_t)count, y, page->header.width, rows + y * row_bytes);
  return GCONV_OK;
}

static gconv_status read_stored(gconv_tiff_reading *s, uint8_t *rows, size_t row_bytes, int32_t count, int32_t *got) {
  const gconv_tiff_page *page = &s->page;
  bool same = page->kind == GCONV_TIFF_DIRECT && !page->separate && page->header.channels == page->samples &&
              row_bytes == page->row_bytes;
  if (!same) {
    size_t least = page->row_bytes * page->samples, most = least < GCONV_TIFF_RUN_BYTES ? GCONV_TIFF_RUN_BYTES / least : 1;
    *got = smaller(count, (int64_t)most);
    return convert_stored(s, rows, row_bytes, *got);
  }
  *got = count;
  GCONV_TRY(read_stored_bytes(s, 0, s->row, count, rows));
  for (int32_t y = 0; y < count && page->colour != GCONV_TIFF_PLAIN; y++)
    s->seats[0].shone |=
        gconv_tiff_colours(page, rows + (size_t)y * row_bytes, page->header.width, rows + (size_t)y * row_bytes);
  return GCONV_OK;
}

/* ---- Rows ---- */

typedef struct wanted {
  gconv_tiff_reading *s;
  uint8_t *rows;
  size_t row_bytes;
  int32_t count, got;
} wanted;

/* Reads rows that one thread reads alone: stored rows, or lines. */
static gconv_status read_in_order(void *context) {
  wanted *w = context;
  gconv_tiff_reading *s = w->s;
  const gconv_tiff_page *page = &s->page;
  gconv_tiff_seat *first = &s->seats[0];
  GCONV_TRY(make_room(sample_row(page, page->header.width), &first->samples, &first->samples_room));
  if (page->way == GCONV_TIFF_STORED)
    return read_stored(s, w->rows, w->row_bytes, w->count, &w->got);
  GCONV_TRY(make_room(page->row_bytes * (size_t)planes_of(page), &first->block, &first->block_room));
  for (; w->got < w->count; w->got++)
    GCONV_TRY(read_line(s, s->row + w->got, w->rows + (size_t)w->got * w->row_bytes));
  return GCONV_OK;
}

gconv_status gconv_tiff_read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  gconv_tiff_reading *s = reader->state;
  uint8_t *next = rows;
  while (count > 0) {
    if (s->row == s->page.header.height)
      GCONV_TRY(gconv_tiff_begin_page(s, s->at + 1));
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

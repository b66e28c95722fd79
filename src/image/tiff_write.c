/* SPDX-License-Identifier: MIT */
/*
 * Writing TIFF. libtiff makes the file, and compresses strips by LZW or ZSTD. This file makes all other strips.
 * Stored strips are the rows themselves. For Deflate, threads take strips in turn and compress them as png_write.c does, and
 * the strips are written in their order. So the file is the same for any number of threads.
 */
#include "base/checksum.h"
#include "base/threads.h"
#include "image/metadata.h"
#include "image/png_deflate.h"
#include "image/tiff.h"
#include "image/tiff_tags.h"

#include <stdlib.h>
#include <string.h>

enum {
  STRIP_BYTES = 256 << 10,
  SLOTS_PER_THREAD = 2,
  ZLIB_HEAD = 2, /* bytes before the blocks of deflate in a stream */
  ZLIB_TAIL = 4,
  ZSTD = 50000,       /* the number of the compression */
  ZSTD_LEVEL = 65564, /* the tag of libtiff */
  FAST_LEVEL = 3
};

/* A compressed strip. */
typedef struct slot {
  uint8_t *bytes;
  size_t size;
} slot;

/* The workspace of a thread. */
typedef struct seat {
  gconv_png_deflater *deflater;
  uint8_t *lines; /* a strip, as it is compressed */
} seat;

typedef struct state {
  gconv_writer *writer;
  gconv_tiff_file file;
  gconv_threads *pool; /* NULL: no threads but the caller's */
  bool own_pool;
  bool big;       /* BigTIFF */
  bool described; /* the first page has its description */
  seat *seats;
  slot *slots;
  size_t seat_count, slot_count;
  size_t row_bytes;
  int32_t strip_rows;
  int32_t row;   /* rows of the page that are written; held rows do not count */
  int32_t page;  /* pages that are complete */
  uint8_t *held; /* rows of a strip that is not complete */
  int32_t held_rows;

  /* The strips being compressed. */
  const uint8_t *rows;
  size_t stride;
  int32_t count; /* number of their rows */
} state;

/* ---- A page's tags ---- */

static const uint16_t compressions[] = {COMPRESSION_NONE, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_LZW, ZSTD};

static void set_resolution(TIFF *handle, const gconv_image *header) {
  double x = header->pixels_per_metre_x * 0.0254, y = header->pixels_per_metre_y * 0.0254;
  bool inches = x > 0 && y > 0;
  if (!inches) {
    x = header->unitless_x;
    y = header->unitless_y;
  }
  if (!(x > 0 && y > 0))
    return;
  gconv_tiff.TIFFSetField(handle, TIFFTAG_RESOLUTIONUNIT, inches ? RESUNIT_INCH : RESUNIT_NONE);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_XRESOLUTION, x);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_YRESOLUTION, y);
}

static void set_icc(TIFF *handle, const gconv_image *header) {
  if (header->icc)
    gconv_tiff.TIFFSetField(handle, TIFFTAG_ICCPROFILE, (uint32_t)header->icc_bytes, header->icc);
}

/* Sets XMP, EXIF and the comment, for the first page. */
static gconv_status set_metadata(state *s) {
  const gconv_image *header = s->writer->header;
  GCONV_ENDED_BY(gconv_image_free) gconv_image description = {0}; /* only its field `comment` is used */
  TIFF *handle = s->file.handle;
  if (header->xmp && header->xmp_bytes <= UINT32_MAX)
    gconv_tiff.TIFFSetField(handle, TIFFTAG_XMLPACKET, (uint32_t)header->xmp_bytes, header->xmp);
  GCONV_TRY(gconv_tiff_write_exif(&s->file, s->big, header, &description));
  bool same = header->comment && description.comment && strcmp(header->comment, description.comment) == 0;
  size_t length = description.comment ? strlen(description.comment) : 0;
  if (header->comment && !same)
    GCONV_TRY(gconv_metadata_add_comment(&description, &length, header->comment, strlen(header->comment)));
  if (description.comment && !s->described)
    gconv_tiff.TIFFSetField(handle, TIFFTAG_IMAGEDESCRIPTION, description.comment);
  return GCONV_OK;
}

static gconv_status set_tags(state *s) {
  const gconv_image *header = s->writer->header;
  TIFF *handle = s->file.handle;
  uint16_t compression = compressions[s->writer->options->tiff_compression];
  uint16_t extra = header->alpha ? EXTRASAMPLE_UNASSALPHA : EXTRASAMPLE_UNSPECIFIED;
  bool floats = header->type == GCONV_F32;
  gconv_tiff.TIFFSetField(handle, TIFFTAG_IMAGEWIDTH, (uint32_t)header->width);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_IMAGELENGTH, (uint32_t)header->height);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_BITSPERSAMPLE, 8 * (int)gconv_type_bytes(header->type));
  gconv_tiff.TIFFSetField(handle, TIFFTAG_SAMPLEFORMAT, floats ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_SAMPLESPERPIXEL, header->channels);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_PHOTOMETRIC, header->channels >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK);
  if (header->channels % 2 == 0)
    gconv_tiff.TIFFSetField(handle, TIFFTAG_EXTRASAMPLES, 1, &extra);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_ROWSPERSTRIP, (uint32_t)s->strip_rows);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_COMPRESSION, compression);
  if (compression != COMPRESSION_NONE)
    gconv_tiff.TIFFSetField(handle, TIFFTAG_PREDICTOR, floats ? PREDICTOR_FLOATINGPOINT : PREDICTOR_HORIZONTAL);
  if (compression == ZSTD)
    gconv_tiff.TIFFSetField(handle, ZSTD_LEVEL, FAST_LEVEL);
  if (header->frames > 1)
    gconv_tiff.TIFFSetField(handle, TIFFTAG_SUBFILETYPE, FILETYPE_PAGE);
  set_resolution(handle, header);
  set_icc(handle, header);
  return gconv_tiff_write_tags(&s->file, header, s->page == 0, &s->described);
}

/* ---- Beginning ---- */

/* Returns the most bytes of a page. None of the compressions makes strips much larger. */
static uint64_t page_bytes(const state *s) {
  const uint64_t a_page = 4096, a_strip = 64 + STRIP_BYTES / 64;
  const gconv_image *header = s->writer->header;
  uint64_t strips = (uint64_t)((header->height - 1) / s->strip_rows + 1);
  uint64_t page = (uint64_t)header->height * s->row_bytes + strips * a_strip + a_page + header->icc_bytes +
                  2 * (uint64_t)header->exif_bytes + header->xmp_bytes + 2 * header->tags_bytes +
                  (header->comment ? strlen(header->comment) : 0);
  return page + (s->writer->options->tiff_compression == GCONV_TIFF_LZW ? page / 2 : 0);
}

/* Returns whether the file may be too large for classic TIFF, which has offsets of 32 bits. */
static bool needs_big(const state *s) {
  enum { PAGES = 64 }; /* if the number of pages is not known, there is room for at least this many */
  int32_t frames = s->writer->header->frames;
  return page_bytes(s) > UINT32_MAX / (uint64_t)(s->writer->grows && frames < PAGES ? PAGES : frames);
}

static gconv_status find_threads(state *s, size_t strips) {
  int threads = gconv_threads_allowed(s->writer->options->threads);
  s->pool = s->writer->options->shared;
  if (s->pool)
    return GCONV_OK;
  threads = (size_t)threads > strips ? (int)strips : threads;
  s->own_pool = threads > 1;
  return s->own_pool ? gconv_threads_create(threads, &s->pool) : GCONV_OK;
}

/* Frees what compressing took. */
static void release(state *s) {
  for (size_t i = 0; s->seats && i < s->seat_count; i++) {
    gconv_png_deflater_free(s->seats[i].deflater);
    gconv_release(s->seats[i].lines);
  }
  for (size_t i = 0; s->slots && i < s->slot_count; i++)
    gconv_release(s->slots[i].bytes);
  free(s->seats);
  free(s->slots);
  gconv_release(s->held);
  s->seats = NULL;
  s->slots = NULL;
  s->held = NULL;
  if (s->own_pool)
    gconv_threads_free(s->pool);
  s->own_pool = false;
}

/* Divides the page into strips. */
static gconv_status find_strips(state *s) {
  const gconv_image *header = s->writer->header;
  s->row_bytes = gconv_image_row_bytes(header);
  if (s->row_bytes > INT32_MAX / 2)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: rows of %zu bytes: this program writes TIFF rows of up to a gigabyte",
                      s->writer->name, s->row_bytes);
  int64_t rows = STRIP_BYTES / (int64_t)s->row_bytes;
  s->strip_rows = rows < 1 ? 1 : rows < header->height ? (int32_t)rows : header->height;
  return GCONV_OK;
}

/* Makes threads and memory for Deflate, before the first strip. */
static gconv_status prepare(state *s) {
  size_t strip = (size_t)s->strip_rows * s->row_bytes;
  if (s->slots)
    return GCONV_OK;
  GCONV_TRY(find_threads(s, (size_t)((s->writer->header->height - 1) / s->strip_rows) + 1));
  s->seat_count = s->pool ? (size_t)gconv_threads_count(s->pool) : 1;
  s->slot_count = s->seat_count > 1 ? SLOTS_PER_THREAD * s->seat_count : 1;
  s->seats = calloc(s->seat_count, sizeof *s->seats);
  s->slots = calloc(s->slot_count, sizeof *s->slots);
  GCONV_NEED_MEMORY(s->seats && s->slots, "no memory for a TIFF");
  for (size_t i = 0; i < s->seat_count; i++) {
    void *memory;
    GCONV_TRY(gconv_png_deflater_create(&s->seats[i].deflater));
    GCONV_TRY(gconv_allocate(strip + s->row_bytes + GCONV_PNG_DEFLATE_SLACK, "a strip of a TIFF", &memory));
    s->seats[i].lines = memset(memory, 0, strip + s->row_bytes + GCONV_PNG_DEFLATE_SLACK);
  }
  for (size_t i = 0; i < s->slot_count; i++) {
    void *memory;
    GCONV_TRY(gconv_allocate(ZLIB_HEAD + gconv_png_deflate_bound(strip) + ZLIB_TAIL, "a strip of a TIFF", &memory));
    s->slots[i].bytes = memory;
  }
  return GCONV_OK;
}

static gconv_status check_compression(const gconv_writer *writer, uint16_t compression) {
  if (compression == COMPRESSION_NONE || compression == COMPRESSION_ADOBE_DEFLATE ||
      gconv_tiff.TIFFIsCODECConfigured(compression))
    return GCONV_OK;
  return gconv_fail(GCONV_UNSUPPORTED, "%s: this libtiff does not have that compression: choose --tiff-compression deflate",
                    writer->name);
}

/* A file for a pipe is made in memory, because libtiff seeks. While this memory grows, the old and the new memory exist
 * together: hence the factor 2. */
double gconv_tiff_held_bytes(const gconv_image *header, const gconv_write_options *options, int how) {
  return how & GCONV_TO_PIPE ? 2 * header->frames * gconv_image_frame_bytes(header) : 0;
}

gconv_status gconv_tiff_start(gconv_writer *writer) {
  GCONV_TRY(gconv_format_state(sizeof(state), "a TIFF", &writer->state));
  state *s = writer->state;
  s->writer = writer;
  GCONV_TRY(find_strips(s));
  s->file.name = writer->name;
  s->file.sink = gconv_sink_can_seek(writer->sink) ? writer->sink : NULL;
  s->big = needs_big(s);
  GCONV_TRY(gconv_tiff_open(&s->file, s->big ? "w8" : "w"));
  GCONV_TRY(check_compression(writer, compressions[writer->options->tiff_compression]));
  GCONV_TRY(set_tags(s));
  GCONV_TRY(set_metadata(s));
  return s->file.text[0] ? gconv_tiff_fail(&s->file, "") : GCONV_OK;
}

/* ---- Deflate ---- */

#define TAKE_DIFFERENCES(type, name)                                                                                        \
  static void name(const type *samples, size_t count, size_t step, type *out) {                                             \
    for (size_t i = 0; i < step && i < count; i++)                                                                          \
      out[i] = samples[i];                                                                                                  \
    for (size_t i = step; i < count; i++)                                                                                   \
      out[i] = (type)(samples[i] - samples[i - step]);                                                                      \
  }
TAKE_DIFFERENCES(uint8_t, differ_u8)
TAKE_DIFFERENCES(uint16_t, differ_u16)

/* Does the predictor of floats: `spare` becomes the first bytes of all floats, which have the sign, then all second bytes
 * and so on; `out` becomes the difference of each of these bytes from the one `step` before. `spare` has room for a row. */
static void differ_floats(const uint8_t *row, size_t count, size_t step, uint8_t *spare, uint8_t *out) {
  for (size_t i = 0; i < count; i++)
    for (size_t byte = 0; byte < 4; byte++)
      spare[byte * count + i] = row[4 * i + (gconv_host_is_big_endian() ? byte : 3 - byte)];
  differ_u8(spare, 4 * count, step, out);
}

static void compress(const state *s, const seat *its, const uint8_t *rows, size_t count, slot *strip) {
  const gconv_image *header = s->writer->header;
  size_t bytes = gconv_type_bytes(header->type), samples = s->row_bytes / bytes, step = (size_t)header->channels;
  size_t size = count * s->row_bytes;
  for (size_t y = 0; y < count; y++) {
    const uint8_t *row = rows + y * s->stride;
    uint8_t *line = its->lines + y * s->row_bytes;
    if (bytes == 1)
      differ_u8(row, samples, step, line);
    else if (bytes == 2)
      differ_u16((const uint16_t *)(const void *)row, samples, step, (uint16_t *)(void *)line);
    else
      differ_floats(row, samples, step, its->lines + (size_t)s->strip_rows * s->row_bytes, line);
  }
  gconv_png_lines lines = {
      .bytes = its->lines, .size = size, .line = s->row_bytes, .pixel = bytes == 4 ? 1 : bytes * step, .matches = true};
  uint8_t *out = strip->bytes;
  *out++ = 0x78; /* the whole window, and the fastest level */
  *out++ = 0x01;
  out += gconv_png_deflate(its->deflater, &lines, true, out);
  uint32_t adler = gconv_adler32(1, its->lines, size);
  for (int shift = 24; shift >= 0; shift -= 8)
    *out++ = (uint8_t)(adler >> shift);
  strip->size = (size_t)(out - strip->bytes);
}

static size_t rows_of(const state *s, size_t turn) {
  size_t before = turn * (size_t)s->strip_rows, left = (size_t)s->count - before;
  return left < (size_t)s->strip_rows ? left : (size_t)s->strip_rows;
}

static void compress_turn(void *context, size_t turn, int number) {
  const state *s = context;
  compress(s, &s->seats[number], s->rows + turn * (size_t)s->strip_rows * s->stride, rows_of(s, turn), &s->slots[turn]);
}

static gconv_status deflate_strips(state *s, const uint8_t *rows, size_t stride, int32_t first, int32_t count) {
  GCONV_TRY(prepare(s));
  int32_t most = (int32_t)s->slot_count * s->strip_rows;
  for (int32_t some; count > 0; count -= some, first += (int32_t)s->slot_count, rows += (size_t)some * stride) {
    some = count < most ? count : most;
    s->rows = rows;
    s->stride = stride;
    s->count = some;
    size_t strips = (size_t)((some - 1) / s->strip_rows + 1);
    if (s->pool)
      gconv_threads_run(s->pool, strips, compress_turn, s);
    for (size_t turn = 0; !s->pool && turn < strips; turn++)
      compress_turn(s, turn, 0);
    for (size_t i = 0; i < strips; i++)
      if (gconv_tiff.TIFFWriteRawStrip(s->file.handle, (uint32_t)first + (uint32_t)i, s->slots[i].bytes,
                                       (tmsize_t)s->slots[i].size) < 0)
        return gconv_tiff_fail(&s->file, "a strip cannot be written");
  }
  return GCONV_OK;
}

/* ---- Strips ---- */

static gconv_status make_held(state *s) {
  if (s->held)
    return GCONV_OK;
  GCONV_ALLOCATE(s->held, (size_t)s->strip_rows * s->row_bytes, "rows of a TIFF");
  return GCONV_OK;
}

/* Sets *joined to the rows without gaps between them. If there are gaps, or libtiff compresses the rows (and so changes
 * them), this is a copy in s->held, which holds no other rows at that time. */
static gconv_status join(state *s, const uint8_t *rows, size_t stride, int32_t count, const uint8_t **joined) {
  bool stored = s->writer->options->tiff_compression == GCONV_TIFF_NONE;
  *joined = rows;
  if (rows == s->held || (stored && stride == s->row_bytes))
    return GCONV_OK;
  GCONV_TRY(make_held(s));
  for (size_t y = 0; y < (size_t)count; y++)
    memcpy(s->held + y * s->row_bytes, rows + y * stride, s->row_bytes);
  *joined = s->held;
  return GCONV_OK;
}

static gconv_status write_strip(state *s, const uint8_t *rows, size_t stride, int32_t strip, int32_t count) {
  bool stored = s->writer->options->tiff_compression == GCONV_TIFF_NONE;
  const uint8_t *joined;
  GCONV_TRY(join(s, rows, stride, count, &joined));
  void *bytes = (void *)(uintptr_t)joined; /* libtiff only reads bytes that are stored */
  tmsize_t size = (tmsize_t)s->row_bytes * count;
  tmsize_t done = stored ? gconv_tiff.TIFFWriteRawStrip(s->file.handle, (uint32_t)strip, bytes, size)
                         : gconv_tiff.TIFFWriteEncodedStrip(s->file.handle, (uint32_t)strip, bytes, size);
  return done < 0 ? gconv_tiff_fail(&s->file, "a strip cannot be written") : GCONV_OK;
}

/* Writes whole strips of the page, from row s->row on. Only the last strip of the page may be shorter. */
static gconv_status write_strips(state *s, const uint8_t *rows, size_t stride, int32_t count) {
  int32_t strip = s->row / s->strip_rows;
  if (s->writer->options->tiff_compression == GCONV_TIFF_DEFLATE)
    return deflate_strips(s, rows, stride, strip, count);
  for (int32_t some; count > 0; count -= some, rows += (size_t)some * stride) {
    some = count < s->strip_rows ? count : s->strip_rows;
    GCONV_TRY(write_strip(s, rows, stride, strip++, some));
  }
  return GCONV_OK;
}

/* Holds rows until the strip is complete; returns how many are taken. */
static int32_t hold(state *s, const uint8_t *rows, size_t stride, int32_t count) {
  int32_t room = s->strip_rows - s->held_rows, taken = count < room ? count : room;
  for (int32_t i = 0; i < taken; i++)
    memcpy(s->held + (size_t)(s->held_rows + i) * s->row_bytes, rows + (size_t)i * stride, s->row_bytes);
  s->held_rows += taken;
  return taken;
}

static gconv_status end_page(state *s) {
  s->row = 0;
  s->page++;
  return gconv_tiff.TIFFWriteDirectory(s->file.handle) ? GCONV_OK
                                                       : gconv_tiff_fail(&s->file, "a directory cannot be written");
}

/* Writes or holds some of the rows, not beyond the end of the page; *taken says how many. */
static gconv_status write_some(state *s, const uint8_t *rows, size_t stride, int32_t count, int32_t *taken) {
  int32_t height = s->writer->header->height, left = height - s->row - s->held_rows;
  *taken = count >= left ? left : count / s->strip_rows * s->strip_rows;
  if (s->held_rows == 0 && *taken > 0) {
    GCONV_TRY(write_strips(s, rows, stride, *taken));
    s->row += *taken;
    return GCONV_OK;
  }
  GCONV_TRY(make_held(s));
  *taken = hold(s, rows, stride, count < left ? count : left);
  if (s->held_rows < s->strip_rows && s->row + s->held_rows < height)
    return GCONV_OK;
  GCONV_TRY(write_strips(s, s->held, s->row_bytes, s->held_rows));
  s->row += s->held_rows;
  s->held_rows = 0;
  return GCONV_OK;
}

gconv_status gconv_tiff_write_rows(gconv_writer *writer, const void *rows, size_t stride, int32_t count) {
  state *s = writer->state;
  const uint8_t *next = rows;
  for (int32_t taken; count > 0; count -= taken, next += (size_t)taken * stride) {
    if (s->page > 0 && s->row == 0 && s->held_rows == 0)
      GCONV_TRY(set_tags(s)); /* not before the first row of a page: its shape may not be known */
    GCONV_TRY(write_some(s, next, stride, count, &taken));
    if (s->row == writer->header->height)
      GCONV_TRY(end_page(s));
  }
  return GCONV_OK;
}

gconv_status gconv_tiff_add_frame(gconv_writer *writer) {
  state *s = writer->state;
  size_t row_bytes = s->row_bytes;
  int32_t strip_rows = s->strip_rows;
  GCONV_TRY(find_strips(s));
  if (!s->big && s->file.end + page_bytes(s) > UINT32_MAX)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: page %d of what came through a pipe does not fit into the 4 GB of a TIFF, and a BigTIFF must be "
                      "begun as one: save the images to a file first, or write a file each, by a template with {frame}",
                      writer->name, s->page + 1);
  if (s->row_bytes != row_bytes || s->strip_rows != strip_rows)
    release(s);
  return GCONV_OK;
}

int32_t gconv_tiff_row_step(const gconv_writer *writer) {
  return ((const state *)writer->state)->strip_rows;
}

/* Writes the file if it was made in memory. */
gconv_status gconv_tiff_finish(gconv_writer *writer) {
  const state *s = writer->state;
  return s->file.sink ? GCONV_OK : gconv_sink_write(writer->sink, s->file.memory, (size_t)s->file.end);
}

void gconv_tiff_end(gconv_writer *writer) {
  state *s = writer->state;
  if (!s)
    return;
  gconv_tiff_close(&s->file);
  release(s);
}

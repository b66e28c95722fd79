/* SPDX-License-Identifier: MIT */
/* The way of images from and to files, by rows and whole, whatever the format. */
#include "base/threads.h"
#include "image/format.h"
#include "image/jpeg_check.h"
#include "image/orientation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading by rows ---- */

/* Writes "png, jpeg, ..." */
static void list_formats(char *text, size_t size) {
  text[0] = '\0';
  for (size_t i = 0; gconv_format_at(i); i++) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", gconv_format_at(i)->name);
  }
}

/* The name of a format that is known but not read, or NULL. */
static const char *foreign_format(const uint8_t *bytes, size_t size) {
  static const struct {
    const char *name;
    size_t offset, length;
    const char *bytes;
  } known[] = {
      {"GIF", 0, 4, "GIF8"},
      {"WebP", 8, 4, "WEBP"},
      {"BMP", 0, 2, "BM"},
      {"TIFF", 0, 4, "II*\0"},
      {"TIFF", 0, 4, "MM\0*"},
      {"HEIC", 4, 8, "ftypheic"},
      {"HEIC", 4, 8, "ftypmif1"},
      {"AVIF", 4, 8, "ftypavif"},
      {"JPEG XL", 0, 2, "\xff\x0a"},
      {"JPEG XL", 4, 4, "JXL "},
      {"JPEG 2000", 4, 4, "jP  "},
      {"PDF", 0, 5, "%PDF-"},
      {"OpenEXR", 0, 4, "\x76\x2f\x31\x01"},
      {"SVG or XML", 0, 1, "<"},
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (size >= known[i].offset + known[i].length && memcmp(bytes + known[i].offset, known[i].bytes, known[i].length) == 0)
      return known[i].name;
  return NULL;
}

static gconv_status fail_unknown(const char *name, const uint8_t *bytes, size_t size) {
  if (size == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file is empty", name);
  char list[256];
  list_formats(list, sizeof list);
  const char *foreign = foreign_format(bytes, size);
  if (foreign)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: a %s file, which is not read here (only %s): convert it first, for example with "
                      "ImageMagick: convert IN OUT.png",
                      name, foreign, list);
  return gconv_fail(GCONV_BAD_FILE, "%s: not an image of a known format (%s)", name, list);
}

/* Four channels at most make one pixel of the limit, so that it bounds memory for planar images of many channels too. */
static gconv_status check_limit(const gconv_reader *reader) {
  const gconv_image *header = &reader->header;
  size_t factors[] = {(size_t)header->frames, (size_t)header->height, (size_t)header->width,
                      ((size_t)header->channels + 3) / 4};
  if (gconv_product(4, factors) <= reader->max_pixels)
    return GCONV_OK;
  char frames[64] = "";
  if (header->planar)
    snprintf(frames, sizeof frames, " (%d x %d channels)", header->frames, header->channels);
  return gconv_fail(GCONV_TOO_LARGE, "%s: is %d x %d pixels%s; the limit is %" PRIu64 ": raise it with --max-pixels",
                    reader->source->name, header->width, header->height, frames, reader->max_pixels);
}

gconv_status gconv_reader_open(gconv_reader *reader, gconv_source *source, uint64_t max_pixels) {
  enum { SNIFFED_BYTES = 16 };
  *reader = (gconv_reader){
      .source = source, .threads = 1, .max_pixels = max_pixels, .orientation = 1, .obstacle = "it is no JPEG"};
  const uint8_t *bytes;
  size_t size;
  GCONV_TRY(gconv_source_peek(source, SNIFFED_BYTES, &bytes, &size));
  reader->format = gconv_format_by_content(bytes, size);
  if (!reader->format)
    return fail_unknown(source->name, bytes, size);
  GCONV_TRY(reader->format->open(reader));
  return check_limit(reader);
}

int64_t gconv_reader_row_count(const gconv_reader *reader) {
  const gconv_image *header = &reader->header;
  return (int64_t)header->frames * (header->planar ? header->channels : 1) * header->height;
}

size_t gconv_reader_row_bytes(const gconv_reader *reader) {
  const gconv_image *header = &reader->header;
  return (size_t)header->width * (header->planar ? 1 : (size_t)header->channels) * gconv_type_bytes(header->type);
}

/* ---- On shared threads ---- */

/* Reading or writing rows on shared threads: one turn, whose error text is another thread's. */
typedef struct shared_rows {
  gconv_reader *reader; /* with */
  gconv_read_rows *read;
  gconv_writer *writer; /* or this one */
  void *rows;
  size_t row_bytes;
  int32_t count;
  gconv_status status;
  char error[1024];
} shared_rows;

static void take_rows(void *context, size_t turn, int seat) {
  shared_rows *s = context;
  (void)turn;
  (void)seat;
  s->status = s->reader ? s->read(s->reader, s->rows, s->row_bytes, s->count)
                        : s->writer->format->write_rows(s->writer, s->rows, s->row_bytes, s->count);
  if (s->status != GCONV_OK)
    snprintf(s->error, sizeof s->error, "%s", gconv_last_error());
}

static gconv_status share_rows(gconv_threads *threads, shared_rows *s) {
  gconv_threads_run(threads, 1, take_rows, s);
  return s->status == GCONV_OK ? GCONV_OK : gconv_set_error(s->status, s->error);
}

gconv_status gconv_reader_in_turn(gconv_reader *reader, gconv_read_rows *read, void *rows, size_t row_bytes, int32_t count) {
  if (!reader->shared)
    return read(reader, rows, row_bytes, count);
  shared_rows s = {.reader = reader, .read = read, .rows = rows, .row_bytes = row_bytes, .count = count};
  return share_rows(reader->shared, &s);
}

gconv_status gconv_reader_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  const gconv_format *format = reader->format;
  GCONV_TRY(format->threads ? format->read_rows(reader, rows, row_bytes, count)
                            : gconv_reader_in_turn(reader, format->read_rows, rows, row_bytes, count));
  reader->rows_read += count;
  return GCONV_OK;
}

void gconv_reader_close(gconv_reader *reader) {
  if (reader->format)
    reader->format->close(reader);
  gconv_image_free(&reader->header);
  gconv_release(reader->whole);
  *reader = (gconv_reader){0};
}

gconv_status gconv_reader_expect(const gconv_reader *reader, size_t bytes) {
  const gconv_source *source = reader->source;
  if (source->size == UINT64_MAX || (source->size >= source->position && source->size - source->position >= bytes))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early: its header promises %zu bytes of pixels", source->name,
                    bytes);
}

gconv_status gconv_reader_whole(gconv_reader *reader, gconv_read_all_rows *read_all, void *rows, size_t row_bytes,
                                int32_t count) {
  if (count == gconv_reader_row_count(reader))
    return read_all(reader, rows, row_bytes);
  size_t bytes = gconv_reader_row_bytes(reader);
  if (!reader->whole) {
    size_t size;
    void *whole = NULL;
    gconv_multiply(bytes, (size_t)gconv_reader_row_count(reader), &size);
    GCONV_TRY(gconv_allocate(size, "an image", &whole));
    reader->whole = whole;
    GCONV_TRY(read_all(reader, whole, bytes));
  }
  const uint8_t *next = reader->whole + (size_t)reader->rows_read * bytes;
  for (size_t i = 0; i < (size_t)count; i++)
    memcpy((uint8_t *)rows + i * row_bytes, next + i * bytes, bytes);
  return GCONV_OK;
}

/* ---- Reading by rows, and whole ---- */

struct gconv_row_reader {
  gconv_source source;
  gconv_reader reader;
};

gconv_status gconv_row_reader_open(const char *path, const gconv_read_options *options, gconv_row_reader **result) {
  uint64_t max_pixels = options && options->max_pixels ? options->max_pixels : GCONV_DEFAULT_MAX_PIXELS;
  gconv_row_reader *rows = calloc(1, sizeof *rows);
  if (!rows)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory to read it", path);
  gconv_status status = gconv_source_open(path, &rows->source);
  if (status == GCONV_OK)
    status = gconv_reader_open(&rows->reader, &rows->source, max_pixels);
  rows->reader.threads = gconv_threads_allowed(options ? options->threads : 0);
  if (status == GCONV_NO_MEMORY)
    gconv_fail_in(status, "%s", path);
  if (status == GCONV_OK)
    *result = rows;
  else
    gconv_row_reader_close(rows);
  return status;
}

const gconv_image *gconv_row_reader_header(const gconv_row_reader *rows) {
  return &rows->reader.header;
}

const gconv_format_info *gconv_row_reader_format(const gconv_row_reader *rows) {
  return &rows->reader.format->info;
}

bool gconv_row_reader_is_in_order(const gconv_row_reader *rows) {
  return !rows->reader.out_of_order && rows->reader.orientation == 1;
}

size_t gconv_row_reader_bytes(const gconv_row_reader *rows) {
  enum { BUFFERS = 2 << 20 }; /* of the file, and rows ahead */
  const gconv_reader *reader = &rows->reader;
  size_t factors[] = {gconv_reader_row_bytes(reader), (size_t)gconv_reader_row_count(reader)};
  return BUFFERS + reader->bytes + (reader->orientation > 1 ? gconv_product(2, factors) : 0);
}

static gconv_status refuse_jpeg(const gconv_row_reader *rows, const char *why) {
  gconv_remark("%s: not decoded by a GPU: %s", rows->source.name, why);
  return gconv_fail(GCONV_UNSUPPORTED, "%s: not decoded by a GPU: %s", rows->source.name, why);
}

gconv_status gconv_row_reader_jpeg(gconv_row_reader *rows, void **jpeg, size_t *size) {
  uint8_t *bytes = NULL;
  if (rows->reader.obstacle)
    return refuse_jpeg(rows, rows->reader.obstacle);
  GCONV_TRY(gconv_source_copy(&rows->source, &bytes, size));
  if (!gconv_jpeg_is_whole(bytes, *size)) {
    gconv_release(bytes);
    return refuse_jpeg(rows, "its data do not end where they should, or have marks amidst");
  }
  *jpeg = bytes;
  return GCONV_OK;
}

bool gconv_row_reader_may_be_jpeg(const gconv_row_reader *rows) {
  return !rows->reader.obstacle;
}

void gconv_row_reader_share(gconv_row_reader *rows, gconv_threads *threads) {
  rows->reader.shared = threads;
  rows->reader.threads = gconv_threads_count(threads);
}

gconv_status gconv_row_reader_read(gconv_row_reader *rows, void *samples, size_t row_bytes, int32_t count) {
  gconv_reader *reader = &rows->reader;
  if (count < 1 || count > gconv_reader_row_count(reader) - reader->rows_read)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %d rows are asked for, %" PRId64 " are left", rows->source.name, count,
                      gconv_reader_row_count(reader) - reader->rows_read);
  return gconv_reader_rows(reader, samples, row_bytes, count);
}

void gconv_row_reader_close(gconv_row_reader *rows) {
  if (!rows)
    return;
  gconv_reader_close(&rows->reader);
  gconv_source_close(&rows->source);
  free(rows);
}

static bool has_room(const gconv_image *image, const gconv_image *header) {
  return image->data && image->type == header->type && image->frames == header->frames && image->height == header->height &&
         image->width == header->width && image->channels == header->channels && image->planar == header->planar;
}

/* Gives the header the memory of an image that is not wanted any more, or memory of its own. */
static gconv_status take_room(gconv_image *old, gconv_image *header) {
  gconv_status status = GCONV_OK;
  if (has_room(old, header)) {
    header->data = old->data;
    header->row_bytes = old->row_bytes;
    header->plane_bytes = old->plane_bytes;
    old->data = NULL;
  } else {
    status = gconv_image_allocate(header);
  }
  gconv_image_free(old);
  return status;
}

/* Gives *image the header, which it takes over, and memory, and reads all rows. */
static gconv_status read_pixels(gconv_reader *reader, gconv_image *image) {
  GCONV_TRY(take_room(image, &reader->header));
  *image = reader->header;
  reader->header.data = reader->header.icc = NULL;
  int64_t left = gconv_reader_row_count(reader);
  uint8_t *next = image->data;
  while (left > 0) {
    int32_t count = left < INT32_MAX ? (int32_t)left : INT32_MAX;
    GCONV_TRY(gconv_reader_rows(reader, next, image->row_bytes, count));
    next += (size_t)count * image->row_bytes;
    left -= count;
  }
  return gconv_orient(image, reader->orientation);
}

gconv_status gconv_row_reader_image(gconv_row_reader *rows, gconv_image *image) {
  if (rows->reader.rows_read > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: rows have been read already", rows->source.name);
  gconv_status status = read_pixels(&rows->reader, image);
  if (status == GCONV_NO_MEMORY)
    gconv_fail_in(status, "%s", rows->source.name);
  if (status != GCONV_OK)
    gconv_image_free(image);
  return status;
}

gconv_status gconv_image_read(const char *path, const gconv_read_options *options, gconv_image *image) {
  gconv_row_reader *rows = NULL;
  *image = (gconv_image){0};
  GCONV_TRY(gconv_row_reader_open(path, options, &rows));
  gconv_status status = gconv_row_reader_image(rows, image);
  gconv_row_reader_close(rows);
  return status;
}

gconv_status gconv_image_read_header(const char *path, gconv_image *image, const gconv_format_info **format) {
  gconv_source source;
  gconv_reader reader = {0};
  *image = (gconv_image){0};
  gconv_status status = gconv_source_open(path, &source);
  if (status == GCONV_OK)
    status = gconv_reader_open(&reader, &source, UINT64_MAX);
  if (status == GCONV_OK) {
    *image = reader.header;
    reader.header.icc = NULL;
    gconv_orient_header(image, reader.orientation);
    if (format)
      *format = &reader.format->info;
  }
  gconv_reader_close(&reader);
  gconv_source_close(&source);
  return status;
}

/* ---- Writing ---- */

static gconv_status fill_options(const char *path, const gconv_write_options *given, gconv_write_options *options) {
  enum { DEFAULT_QUALITY = 90, DEFAULT_LEVEL = 1 };
  *options = given ? *given : (gconv_write_options){0};
  if (options->jpeg_quality < 0 || options->jpeg_quality > 100)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a JPEG quality of %d: it is 1 to 100", options->jpeg_quality);
  if (options->png_level < GCONV_PNG_STORED || options->png_level > 9)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a PNG level of %d: it is 1 (fast) to 9 (small)", options->png_level);
  if (options->jpeg_quality == 0)
    options->jpeg_quality = DEFAULT_QUALITY;
  if (options->png_level == 0)
    options->png_level = DEFAULT_LEVEL;
  if (!options->format)
    options->format = gconv_format_by_path(path);
  if (options->format)
    return GCONV_OK;
  char list[256];
  list_formats(list, sizeof list);
  if (strcmp(path, "-") == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "standard output has no file name to know the format by: give --format (%s)",
                      list);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: its name does not tell the format: end it in a known extension or give --format (%s)", path, list);
}

static gconv_status check_channels(const gconv_format *format, const gconv_image *image) {
  const char *name = format->info.name, *other = image->type == GCONV_F32 ? ".npy" : ".png";
  int most = format->alpha ? 4 : 3;
  if (image->channels > 4)
    return gconv_fail(GCONV_UNSUPPORTED, "there are %d channels, %s holds %d: write .npy", image->channels, name, most);
  if (format->alpha || image->channels == 1 || image->channels == 3)
    return GCONV_OK;
  if (image->alpha)
    return gconv_fail(GCONV_UNSUPPORTED, "%s has no alpha: write %s instead, or leave it out (--alpha drop)", name, other);
  return gconv_fail(GCONV_UNSUPPORTED, "there are %d channels, %s holds 1 or 3: write %s instead", image->channels, name,
                    other);
}

/* Limits of its own, such as the largest size, are checked by the format's start(). */
gconv_status gconv_format_check(const gconv_format_info *info, const gconv_image *image) {
  if (!info->writes)
    return gconv_fail(GCONV_UNSUPPORTED, "%s is only read, not written", info->name);
  if (!info->holds[image->type])
    return gconv_fail(GCONV_UNSUPPORTED, "%s does not hold %s samples; it holds %s", info->name,
                      gconv_type_name(image->type), gconv_type_name(gconv_format_type(info, image->type)));
  if (info->multiframe)
    return GCONV_OK;
  if (image->frames > 1 || (image->planar && image->channels <= 4))
    return gconv_fail(GCONV_UNSUPPORTED, "%s does not hold frames or planes (N x C x H x W): write .npy", info->name);
  return check_channels((const gconv_format *)info, image); /* every info is the first member of its row */
}

struct gconv_row_writer {
  gconv_writer writer;
  gconv_write_options options;
  gconv_image header; /* the caller's, whose profile is only borrowed */
  int64_t rows_left;
};

static int64_t row_count(const gconv_image *image) {
  return (int64_t)image->frames * (image->planar ? image->channels : 1) * image->height;
}

gconv_status gconv_row_writer_open(const char *path, const gconv_write_options *given, const gconv_image *header,
                                   gconv_row_writer **result) {
  gconv_write_options options;
  GCONV_TRY(fill_options(path, given, &options));
  gconv_status status = gconv_format_check(options.format, header);
  if (status != GCONV_OK)
    return gconv_fail_in(status, "%s", path);
  gconv_row_writer *rows = calloc(1, sizeof *rows);
  if (!rows)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory to write it", path);
  rows->options = options;
  rows->header = *header;
  rows->rows_left = row_count(header);
  rows->writer = (gconv_writer){.format = (const gconv_format *)options.format, /* the first member of its row */
                                .name = path,
                                .header = &rows->header,
                                .options = &rows->options};
  status = gconv_sink_open(path, &rows->writer.sink);
  if (status == GCONV_OK)
    status = rows->writer.format->start(&rows->writer);
  if (status == GCONV_OK)
    *result = rows;
  else
    gconv_row_writer_discard(rows);
  return status;
}

gconv_status gconv_row_writer_write(gconv_row_writer *rows, const void *samples, size_t row_bytes, int32_t count) {
  if (count < 1 || count > rows->rows_left)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %d rows are given, %" PRId64 " are missing", rows->writer.name, count,
                      rows->rows_left);
  rows->rows_left -= count;
  if (!rows->options.shared || rows->writer.format->threads)
    return rows->writer.format->write_rows(&rows->writer, samples, row_bytes, count);
  shared_rows s = {
      .writer = &rows->writer, .rows = (void *)(uintptr_t)samples, .row_bytes = row_bytes, .count = count}; /* only read */
  return share_rows(rows->options.shared, &s);
}

gconv_status gconv_row_writer_write_part(gconv_row_writer *rows, const gconv_part *part) {
  if (part->samples && !part->above)
    return gconv_row_writer_write(rows, part->samples, part->row_bytes, part->count);
  if (!rows->writer.format->write_part || part->count < (part->samples ? 1 : 0) || part->count > rows->rows_left)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: does not take %d rows like these", rows->writer.name, part->count);
  rows->rows_left -= part->count;
  return rows->writer.format->write_part(&rows->writer, part);
}

bool gconv_row_writer_is_free(const gconv_row_writer *rows) {
  return rows->header.planar && rows->writer.format->write_rows_at && gconv_sink_can_seek(rows->writer.sink);
}

gconv_status gconv_row_writer_write_at(gconv_row_writer *rows, int64_t plane, int32_t row, const void *samples,
                                       size_t row_bytes, int32_t count) {
  const gconv_image *header = &rows->header;
  bool inside = plane >= 0 && plane < (int64_t)header->frames * header->channels && row >= 0 && count > 0 &&
                count <= header->height - row && count <= rows->rows_left;
  if (!gconv_row_writer_is_free(rows) || !inside)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has no rows %d to %lld of plane %lld that can be written now",
                      rows->writer.name, row, (long long)row + count - 1, (long long)plane);
  rows->rows_left -= count;
  return rows->writer.format->write_rows_at(&rows->writer, plane * header->height + row, samples, row_bytes, count);
}

int32_t gconv_row_writer_step(const gconv_row_writer *rows) {
  const gconv_format *format = rows->writer.format;
  return format->row_step ? format->row_step(&rows->writer) : 1;
}

gconv_status gconv_row_writer_commit(gconv_row_writer *rows) {
  gconv_status status = GCONV_OK;
  if (rows->rows_left > 0)
    status = gconv_fail(GCONV_BAD_ARGUMENT, "%s: %" PRId64 " rows are missing", rows->writer.name, rows->rows_left);
  if (status == GCONV_OK)
    status = rows->writer.format->finish(&rows->writer);
  if (status != GCONV_OK) {
    gconv_row_writer_discard(rows);
    return status;
  }
  rows->writer.format->end(&rows->writer);
  status = gconv_sink_commit(rows->writer.sink, rows->options.keep_existing);
  free(rows);
  return status;
}

void gconv_row_writer_discard(gconv_row_writer *rows) {
  if (!rows)
    return;
  if (rows->writer.sink) {
    rows->writer.format->end(&rows->writer);
    gconv_sink_discard(rows->writer.sink);
  }
  free(rows);
}

gconv_status gconv_image_write(const char *path, const gconv_write_options *options, const gconv_image *image) {
  gconv_row_writer *rows = NULL;
  GCONV_TRY(gconv_row_writer_open(path, options, image, &rows));
  size_t planes = (size_t)image->frames * (image->planar ? (size_t)image->channels : 1);
  for (size_t i = 0; i < planes; i++) {
    const uint8_t *plane = (const uint8_t *)image->data + i * image->plane_bytes;
    gconv_status status = gconv_row_writer_write(rows, plane, image->row_bytes, image->height);
    if (status != GCONV_OK) {
      gconv_row_writer_discard(rows);
      return status;
    }
  }
  return gconv_row_writer_commit(rows);
}

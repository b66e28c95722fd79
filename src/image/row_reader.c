/* SPDX-License-Identifier: MIT */
/* Reads files, by rows and as a whole: the public functions over reader.c. */
#include "base/arguments.h"
#include "base/bytes.h"
#include "base/control.h"
#include "base/gunzip.h"
#include "image/format.h"
#include "image/metadata.h"
#include "image/orientation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SNIFFED_BYTES = 16 };

struct gconv_row_reader {
  gconv_source source;
  gconv_reader reader;
  bool by_frames;    /* gconv_row_reader_next_frame() was called */
  gconv_image frame; /* if by_frames: the header of the current frame; the reader owns its metadata */
  int64_t begun;     /* number of frames begun; always 1 if the reader is open-ended */
  bool looked, more; /* `looked`: the reader was asked for another frame; `more`: there is one */
};

/* Changes the reader as the options demand, after its header was read. */
static gconv_status apply_options(const gconv_read_options *options, gconv_reader *reader) {
  const gconv_format *format = reader->format;
  if (options && options->palette)
    options->palette->count = 0;
  if (options && options->planes > 1 && format->take_planes)
    format->take_planes(reader, options->planes);
  if (options && options->unrounded && format->unround)
    GCONV_TRY(format->unround(reader));
  return options && options->palette && format->take_palette ? format->take_palette(reader, options->palette) : GCONV_OK;
}

/* Where an image comes from. */
typedef struct origin {
  const char *path;            /* PATH or PATH:MEMBER; NULL: it is in `bytes` */
  const gconv_bytes_in *bytes; /* of a caller */
} origin;

static const char *name_of(const origin *from) {
  return from->path ? from->path : gconv_bytes_name(from->bytes->name);
}

static gconv_status open_source(const origin *from, const gconv_read_options *options, gconv_source *source) {
  gconv_status status =
      from->path ? gconv_source_open_member(from->path, source) : gconv_source_open_bytes(from->bytes, source);
  GCONV_THEN(status, gconv_source_unzip(source));
  source->max_bytes = options ? options->max_bytes : 0;
  return status;
}

static gconv_status open_rows(const origin *from, const gconv_read_options *options, gconv_row_reader **result) {
  uint64_t max_pixels = options && options->max_pixels ? options->max_pixels : GCONV_DEFAULT_MAX_PIXELS;
  gconv_row_reader *rows;
  GCONV_NEW(rows, 1, "%s: no memory to read it", name_of(from));
  gconv_status status = open_source(from, options, &rows->source);
  GCONV_THEN(status, gconv_reader_open(&rows->reader, &rows->source, max_pixels));
  GCONV_THEN(status, gconv_reader_check_expansion(&rows->reader, rows->reader.header.frames));
  GCONV_THEN(status, apply_options(options, &rows->reader));
  GCONV_THEN(status, gconv_reader_look(&rows->reader));
  rows->reader.again = options && options->again;
  rows->reader.strip = options && options->strip;
  if (status == GCONV_NO_MEMORY)
    gconv_fail_in(status, "%s", name_of(from));
  if (status == GCONV_OK)
    *result = rows;
  else
    gconv_row_reader_close(rows);
  return status;
}

gconv_status gconv_row_reader_open(const char *path, const gconv_read_options *options, gconv_row_reader **result) {
  return open_rows(&(origin){.path = path}, options, result);
}

const gconv_image *gconv_row_reader_header(const gconv_row_reader *rows) {
  return rows->by_frames ? &rows->frame : &rows->reader.header;
}

/* Returns how many rows of the image, or of the current frame, are not read yet. */
static int64_t rows_left(const gconv_row_reader *rows) {
  const gconv_reader *reader = &rows->reader;
  return rows->by_frames ? rows->begun * reader->header.height - reader->rows_read
                         : gconv_image_row_count(&reader->header) - reader->rows_read;
}

bool gconv_row_reader_is_in_order(const gconv_row_reader *rows) {
  return !rows->reader.out_of_order && rows->reader.orientation == 1;
}

bool gconv_row_reader_is_turned(const gconv_row_reader *rows) {
  return rows->reader.orientation > 1;
}

size_t gconv_row_reader_bytes(const gconv_row_reader *rows) {
  enum { BUFFERS = 2 << 20 }; /* buffers of the file, and of rows read ahead */
  const gconv_reader *reader = &rows->reader;
  size_t factors[] = {gconv_image_row_bytes(&reader->header), (size_t)gconv_image_row_count(gconv_row_reader_header(rows))};
  return BUFFERS + reader->bytes + (reader->orientation > 1 ? gconv_checked_product(2, factors) : 0);
}

size_t gconv_row_reader_metadata_bytes(const gconv_row_reader *rows) {
  return gconv_metadata_bytes(&rows->reader.header);
}

size_t gconv_row_reader_held_bytes(const gconv_row_reader *rows) {
  return rows->reader.held + gconv_row_reader_metadata_bytes(rows);
}

/* There are up to COPIES copies of metadata at once: as they are in the file, joined or inflated, and those kept. */
double gconv_row_reader_opening_bytes(const char *path) {
  enum { COPIES = 3 };
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  struct stat file;
  const uint8_t *bytes;
  size_t got = 0;
  GCONV_FREED char *name = strndup(path, gconv_member_split(path));
  if (!name || stat(name, &file) != 0 || !S_ISREG(file.st_mode) || gconv_source_open(name, &source) != GCONV_OK ||
      gconv_source_peek(&source, SNIFFED_BYTES, &bytes, &got) != GCONV_OK)
    return 0;
  const gconv_format *format = gconv_format_by_content(bytes, got);
  const double size = (double)source.size;
  return format && format->opens_whole
             ? size
             : COPIES * fmin(size * (format && format->most_expansion ? format->most_expansion : 1), GCONV_MOST_METADATA);
}

static gconv_status refuse_jpeg(const gconv_row_reader *rows, const char *why) {
  gconv_remark("%s: not decoded by a GPU: %s", rows->source.name, why);
  return gconv_fail(GCONV_UNSUPPORTED, "%s: not decoded by a GPU: %s", rows->source.name, why);
}

gconv_status gconv_row_reader_jpeg(gconv_row_reader *rows, void **jpeg, size_t *size) {
  GCONV_FREED uint8_t *bytes = NULL;
  if (rows->reader.obstacle)
    return refuse_jpeg(rows, rows->reader.obstacle);
  GCONV_TRY(gconv_source_copy(&rows->source, &bytes, size));
  if (!gconv_jpeg_is_whole(bytes, *size))
    return refuse_jpeg(rows, "its data do not end where they should, or have marks inside");
  rows->reader.used = true;
  *jpeg = gconv_taken(&bytes);
  return GCONV_OK;
}

bool gconv_row_reader_may_be_jpeg(const gconv_row_reader *rows) {
  return !rows->reader.obstacle;
}

void gconv_row_reader_share(gconv_row_reader *rows, gconv_threads *threads) {
  rows->reader.shared = threads;
}

gconv_status gconv_row_reader_read(gconv_row_reader *rows, void *samples, size_t row_bytes, int32_t count) {
  gconv_reader *reader = &rows->reader;
  if (count < 1 || count > rows_left(rows))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %d rows are asked for, %" PRId64 " are left", rows->source.name, count,
                      rows_left(rows));
  return gconv_reader_rows(reader, samples, row_bytes, count);
}

/* ---- Frames ---- */

bool gconv_row_reader_has_frames(const gconv_row_reader *rows) {
  return rows->reader.open_ended || (rows->reader.header.frames > 1 && !rows->reader.header.planar);
}

bool gconv_row_reader_is_open_ended(const gconv_row_reader *rows) {
  return rows->reader.open_ended && !gconv_row_reader_frames_differ(rows);
}

bool gconv_row_reader_frames_differ(const gconv_row_reader *rows) {
  return rows->reader.apart[0] != '\0';
}

bool gconv_row_reader_can_begin_again(const gconv_row_reader *rows) {
  return !gconv_row_reader_has_frames(rows) && gconv_source_can_rewind(&rows->source);
}

bool gconv_row_reader_is_scattered(const gconv_row_reader *rows) {
  return rows->reader.out_of_order;
}

bool gconv_row_reader_is_through(const gconv_row_reader *rows) {
  return rows->looked || rows_left(rows) == 0;
}

gconv_status gconv_row_reader_more_frames(gconv_row_reader *rows, bool *more) {
  gconv_reader *reader = &rows->reader;
  *more = reader->header.frames > rows->begun;
  if (!reader->open_ended)
    return GCONV_OK;
  if (!rows->looked)
    GCONV_TRY(gconv_reader_next(reader, &rows->more));
  rows->looked = true;
  *more = rows->more;
  return GCONV_OK;
}

gconv_status gconv_row_reader_next_frame(gconv_row_reader *rows, bool *found) {
  gconv_reader *reader = &rows->reader;
  *found = true;
  if (rows->by_frames)
    GCONV_TRY(gconv_row_reader_more_frames(rows, found));
  rows->by_frames = reader->one_by_one = true;
  rows->looked = false;
  rows->begun = reader->open_ended ? 1 : rows->begun + *found;
  rows->frame = reader->header;
  rows->frame.frames = 1;
  return GCONV_OK;
}

void gconv_row_reader_close(gconv_row_reader *rows) {
  if (!rows)
    return;
  gconv_reader_close(&rows->reader);
  gconv_source_close(&rows->source);
  free(rows);
}

/* Gives the header the memory of an image that is no longer needed, or new memory. */
static gconv_status take_room(gconv_image *old, gconv_image *header) {
  gconv_status status = GCONV_OK;
  if (old->data && gconv_image_same_shape(old, header)) {
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

/* Gives *image the header and memory. */
static gconv_status begin_image(gconv_row_reader *rows, gconv_image *image) {
  if (!rows->by_frames) {
    GCONV_TRY(gconv_reader_check_whole(&rows->reader));
    GCONV_TRY(take_room(image, &rows->reader.header));
    *image = rows->reader.header; /* the image now owns the metadata */
    rows->reader.header.data = NULL;
    gconv_metadata_disown(&rows->reader.header);
    return GCONV_OK;
  }
  gconv_image header = rows->frame;
  gconv_metadata_disown(&header);
  GCONV_TRY(take_room(image, &header));
  *image = header;
  return gconv_image_copy_metadata(image, &rows->frame);
}

/* Returns how many of the `left` rows to read at a time: all, unless the caller may stop the reading or see its progress. */
static int32_t band_of(const gconv_reader *reader, const gconv_image *image, int64_t left) {
  const size_t most = 4 << 20; /* bytes */
  const bool in_bands = gconv_control_here() && !reader->out_of_order;
  const int64_t band = in_bands && most / image->row_bytes < INT32_MAX ? 1 + (int64_t)(most / image->row_bytes) : INT32_MAX;
  return (int32_t)(left < band ? left : band);
}

/* Reads all rows of the image, or of the current frame. */
static gconv_status read_pixels(gconv_row_reader *rows, gconv_image *image) {
  gconv_reader *reader = &rows->reader;
  GCONV_TRY(begin_image(rows, image));
  const int64_t all = gconv_image_row_count(image);
  int64_t left = all;
  uint8_t *next = image->data;
  while (left > 0) {
    const int32_t count = band_of(reader, image, left);
    GCONV_TRY(gconv_control_step("reading", (double)(all - left) / (double)all));
    GCONV_TRY(gconv_reader_rows(reader, next, image->row_bytes, count));
    next += (size_t)count * image->row_bytes;
    left -= count;
  }
  GCONV_TRY(gconv_control_step("reading", 1));
  return gconv_orient(image, reader->orientation);
}

gconv_status gconv_row_reader_image(gconv_row_reader *rows, gconv_image *image) {
  if (rows_left(rows) != gconv_image_row_count(gconv_row_reader_header(rows)))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: rows have been read already", rows->source.name);
  gconv_status status = read_pixels(rows, image);
  if (status == GCONV_NO_MEMORY)
    gconv_fail_in(status, "%s", rows->source.name);
  if (status != GCONV_OK)
    gconv_image_free(image);
  return status;
}

/* Makes room in *image for `frames` frames. Its memory grows by doubling. */
static gconv_status make_room(gconv_image *image, int32_t frames, int32_t *room) {
  if (frames > INT32_MAX / 2)
    return gconv_fail(GCONV_TOO_LARGE, "more than %d images", INT32_MAX / 2);
  if (frames <= *room)
    return GCONV_OK;
  gconv_image larger = *image;
  larger.frames = 2 * frames;
  larger.data = NULL;
  GCONV_TRY(gconv_image_allocate(&larger));
  memcpy(larger.data, image->data, (size_t)image->frames * image->plane_bytes);
  gconv_release(image->data);
  image->data = larger.data;
  *room = larger.frames;
  return GCONV_OK;
}

/* Reads the images after the first as further frames. Called for files whose images come one by one. */
static gconv_status read_others(gconv_row_reader *rows, gconv_image *image) {
  int32_t room = image->frames;
  for (bool more;; image->frames++) {
    GCONV_TRY(gconv_control_step("reading", 1));
    GCONV_TRY(gconv_reader_next(&rows->reader, &more));
    if (!more)
      return GCONV_OK;
    gconv_image all = *image;
    all.frames++;
    size_t pixels = gconv_checked_product(3, (size_t[]){(size_t)all.frames, (size_t)all.height, (size_t)all.width});
    if (pixels > rows->reader.max_pixels)
      return gconv_fail(GCONV_TOO_LARGE, "%s: has more than %" PRIu64 " pixels in its images", rows->source.name,
                        rows->reader.max_pixels);
    GCONV_TRY(make_room(image, all.frames, &room));
    uint8_t *frame = (uint8_t *)image->data + (size_t)image->frames * image->plane_bytes;
    GCONV_TRY(gconv_reader_rows(&rows->reader, frame, image->row_bytes, image->height));
  }
}

/* Reads the other images of a file as further frames. For a pipe, only warns that other images follow, if some of their
 * bytes have come already: it does not wait for more, as the writer may keep the pipe open. */
static gconv_status read_or_tell_of_others(gconv_row_reader *rows, gconv_image *image) {
  bool more = false, has_come = rows->source.end - rows->source.begin >= 3;
  if (!rows->reader.open_ended)
    return GCONV_OK;
  if (gconv_source_can_rewind(&rows->source) && rows->reader.orientation == 1)
    return read_others(rows, image);
  if (has_come)
    GCONV_TRY(gconv_row_reader_more_frames(rows, &more));
  if (more)
    gconv_warn("%s: only the first of its images was read: write them to a file to have all", rows->source.name);
  return GCONV_OK;
}

static gconv_status read_image(const origin *from, const gconv_read_options *options, gconv_image *image) {
  gconv_row_reader *rows = NULL;
  *image = (gconv_image){0};
  GCONV_NEED_KNOWN(options);
  GCONV_TRY(open_rows(from, options, &rows));
  gconv_status status = gconv_row_reader_image(rows, image);
  GCONV_THEN(status, read_or_tell_of_others(rows, image));
  if (status != GCONV_OK)
    gconv_image_free(image);
  gconv_row_reader_close(rows);
  return status;
}

gconv_status gconv_image_read(const char *path, const gconv_read_options *options, gconv_image *image) {
  GCONV_NEED(path, image);
  return read_image(&(origin){.path = path}, options, image);
}

gconv_status gconv_image_decode(const gconv_bytes_in *from, const gconv_read_options *options, gconv_image *image) {
  GCONV_NEED(from, image);
  return read_image(&(origin){.bytes = from}, options, image);
}

static gconv_status read_header(const origin *from, const gconv_read_options *options, gconv_image *image,
                                const gconv_format_info **format) {
  gconv_source source;
  gconv_reader reader = {0};
  *image = (gconv_image){0};
  gconv_status status = open_source(from, options, &source);
  GCONV_THEN(status, gconv_reader_open(&reader, &source, UINT64_MAX));
  GCONV_THEN(status, apply_options(options, &reader));
  char *left_out = NULL;
  GCONV_THEN(status, gconv_reader_describe_rest(&reader, &left_out));
  if (status == GCONV_NO_MEMORY)
    gconv_fail_in(status, "%s", name_of(from));
  if (status == GCONV_OK) {
    *image = reader.header;
    image->left_out = left_out;
    gconv_metadata_disown(&reader.header);
    gconv_orient_header(image, reader.orientation);
  }
  if (format && reader.format) /* of a broken file, too, if its first bytes name its format */
    *format = &reader.format->info;
  gconv_reader_close(&reader);
  gconv_source_close(&source);
  return status;
}

gconv_status gconv_image_read_header(const char *path, gconv_image *image, const gconv_format_info **format) {
  GCONV_NEED(path, image);
  return read_header(&(origin){.path = path}, NULL, image, format);
}

gconv_status gconv_image_decode_header(const gconv_bytes_in *from, gconv_image *image, const gconv_format_info **format) {
  GCONV_NEED(from, image);
  return read_header(&(origin){.bytes = from}, NULL, image, format);
}

gconv_status gconv_image_read_header_as(const char *path, const gconv_read_options *options, gconv_image *image) {
  return read_header(&(origin){.path = path}, options, image, NULL);
}

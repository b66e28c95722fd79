/* SPDX-License-Identifier: MIT */
/* Writes files, by rows and as a whole. */
#include "base/arguments.h"
#include "base/bytes.h"
#include "base/control.h"
#include "base/nodata.h"
#include "base/threads.h"
#include "image/exif.h"
#include "image/format.h"
#include "image/metadata.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_known(const gconv_format_info *format) {
  size_t i = 0;
  while (gconv_format_at(i) && gconv_format_at(i) != format)
    i++;
  return gconv_format_at(i) != NULL;
}

gconv_status gconv_write_options_check(const gconv_write_options *options) {
  if (options->quality < 0 || options->quality > 100)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a quality of %d: it is 1 to 100", options->quality);
  if (options->png_level < GCONV_PNG_STORED || options->png_level > 9)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a PNG level of %d: it is 1 (fast) to 9 (small)", options->png_level);
  GCONV_TRY(gconv_check_value("tiff_compression", options->tiff_compression, GCONV_TIFF_NONE, GCONV_TIFF_ZSTD));
  GCONV_TRY(gconv_check_value("store", options->store, GCONV_STORE_F32, GCONV_STORE_F16));
  GCONV_TRY(gconv_check_palette(options->palette));
  if (!isfinite(options->unit) || options->unit < 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a unit of %g: it is a finite number above 0, or 0 for 1", options->unit);
  if (options->format && !is_known(options->format))
    return gconv_fail(GCONV_BAD_ARGUMENT, "gconv_format_at() does not list the format");
  return GCONV_OK;
}

/* `path` is NULL for bytes of a caller. */
static gconv_status fill_options(const char *path, const gconv_write_options *given, gconv_write_options *options) {
  enum { DEFAULT_QUALITY = 90, DEFAULT_LEVEL = 1 };
  *options = given ? *given : (gconv_write_options){0};
  GCONV_TRY(gconv_write_options_check(options));
  if (options->quality == 0)
    options->quality = DEFAULT_QUALITY;
  if (options->png_level == 0)
    options->png_level = DEFAULT_LEVEL;
  if (!options->format && path)
    options->format = gconv_format_by_path(path);
  if (options->format)
    return GCONV_OK;
  char list[256];
  gconv_formats_list(list, sizeof list);
  if (!path)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->format is NULL: bytes have no name that tells the format (%s)", list);
  if (strcmp(path, "-") == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "standard output has no file name to know the format by: give --format (%s)",
                      list);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: its name does not tell the format: end it in a known extension or give --format (%s)", path, list);
}

static bool holds_channels(const gconv_format *format, const gconv_image *image) {
  bool plain = (image->frames <= 1 || format->info.multiframe) && !image->planar && image->channels <= 4;
  return format->info.tensors || (plain && (format->alpha || image->channels == 1 || image->channels == 3));
}

/* Returns the name of the first format that holds the image. */
static const char *other_format(const gconv_image *image) {
  const gconv_format_info *info;
  for (size_t i = 0; (info = gconv_format_at(i)); i++)
    if (info->writes && info->holds[image->type] && holds_channels((const gconv_format *)info, image))
      return info->name;
  return "another one";
}

static gconv_status check_channels(const gconv_format *format, const gconv_image *image) {
  const char *name = format->info.name, *other = other_format(image);
  if (holds_channels(format, image))
    return GCONV_OK;
  if ((image->frames > 1 && !format->info.multiframe) || (image->planar && image->channels <= 4))
    return gconv_fail(GCONV_UNSUPPORTED, "%s does not hold %s (N x C x H x W): write .%s", name,
                      format->info.multiframe ? "planes" : "frames or planes", other);
  if (image->channels > 4)
    return gconv_fail(GCONV_UNSUPPORTED, "there are %d channels, %s holds %d: write .%s", image->channels, name,
                      format->alpha ? 4 : 3, other);
  if (image->alpha)
    return gconv_fail(GCONV_UNSUPPORTED, "%s has no alpha: write .%s instead, or leave it out (--alpha drop)", name, other);
  return gconv_fail(GCONV_UNSUPPORTED, "there are %d channels, %s holds 1 or 3: write .%s instead", image->channels, name,
                    other);
}

/* The format's start() checks limits of its own, such as the largest size. */
gconv_status gconv_format_check(const gconv_format_info *info, const gconv_image *image) {
  GCONV_NEED(info, image);
  GCONV_TRY(gconv_check_value("the type of the image", image->type, GCONV_U8, GCONV_I16)); /* sizes may not be known yet */
  if (!info->writes)
    return gconv_fail(GCONV_UNSUPPORTED, "%s is only read, not written", info->name);
  if (!info->holds[image->type])
    return gconv_fail(GCONV_UNSUPPORTED, "%s does not hold %s samples; it holds %s", info->name,
                      gconv_type_name(image->type), gconv_type_name(gconv_format_type(info, image->type)));
  return check_channels((const gconv_format *)info, image); /* every info is the first member of its row */
}

struct gconv_row_writer {
  gconv_writer writer;
  gconv_write_options options;
  gconv_image header; /* of the current frame; its metadata are those of `owned` */
  gconv_image owned;  /* a copy of the metadata: the caller may free those of the first frame before the next one comes */
  int64_t rows_left;
  bool frames_differ; /* then rows_left counts the current frame's rows */
};

/* ---- Metadata ---- */

typedef struct metadata_kind {
  int held; /* GCONV_HOLDS_... */
  const char *name;
  bool several;       /* the name is a plural, for messages */
  size_t bytes, size; /* offsets in gconv_image: of a pointer to the bytes, and of their number; 0: there is none */
} metadata_kind;

static const metadata_kind metadata_kinds[] = {
#define AT(field) offsetof(gconv_image, field)
    {GCONV_HOLDS_EXIF, "EXIF", false, AT(exif), AT(exif_bytes)},
    {GCONV_HOLDS_XMP, "XMP", false, AT(xmp), AT(xmp_bytes)},
    {GCONV_HOLDS_COMMENT, "comments", true, AT(comment), 0},
    {GCONV_HOLDS_RESOLUTION, "the resolution", false, 0, 0},
    {GCONV_HOLDS_ICC, "the ICC profile", false, AT(icc), AT(icc_bytes)},
    {GCONV_HOLDS_TAGS, "tags of TIFF (places on Earth, spacing, axes)", true, AT(tags), AT(tags_bytes)},
    {GCONV_HOLDS_CARDS, "the header of FITS (places in the sky, unit, exposure)", false, AT(tags), AT(tags_bytes)},
};
enum { METADATA_KINDS = sizeof metadata_kinds / sizeof metadata_kinds[0] };

static bool has(const gconv_image *header, const metadata_kind *kind) {
  if (kind->held == GCONV_HOLDS_RESOLUTION)
    return (header->pixels_per_metre_x > 0 && header->pixels_per_metre_y > 0) || header->unitless_x > 0;
  bool of_fits =
      header->tags_bytes >= sizeof GCONV_FITS_MARK && !memcmp(header->tags, GCONV_FITS_MARK, sizeof GCONV_FITS_MARK);
  return kind->held != (of_fits ? GCONV_HOLDS_TAGS : GCONV_HOLDS_CARDS) &&
         *(void *const *)(const void *)((const char *)header + kind->bytes) != NULL;
}

static void drop(gconv_image *header, const metadata_kind *kind) {
  if (kind->held == GCONV_HOLDS_RESOLUTION)
    header->pixels_per_metre_x = header->pixels_per_metre_y = header->unitless_x = header->unitless_y = 0;
  else
    *(void **)(void *)((char *)header + kind->bytes) = NULL;
  if (kind->size > 0)
    *(size_t *)(void *)((char *)header + kind->size) = 0;
}

/* Returns whether EXIF that will be written has the resolution. */
static bool exif_has_resolution(const gconv_image *header, int held) {
  gconv_exif exif = {0};
  GCONV_FREED void *copy = NULL;
  size_t size;
  return header->exif && (held & GCONV_HOLDS_EXIF) &&
         gconv_allocate(gconv_exif_room(header->exif_bytes), "EXIF", &copy) == GCONV_OK &&
         !gconv_exif_read(header->exif, header->exif_bytes, copy, &size, &exif) && exif.pixels_per_metre_x > 0;
}

/* Removes metadata that are not in `held` from the header. A warning names them, once for all files of a run, except those
 * in `untold`. */
static void drop_metadata(const gconv_format *format, int held, int untold, gconv_image *header) {
  static const char *const between[] = {", ", " and "};
  const metadata_kind *dropped[METADATA_KINDS];
  char names[160] = "";
  int count = 0;
  bool in_exif = !(held & GCONV_HOLDS_RESOLUTION) && exif_has_resolution(header, held);
  for (int i = 0; i < METADATA_KINDS; i++) {
    const metadata_kind *kind = &metadata_kinds[i];
    if ((held & kind->held) || !has(header, kind))
      continue;
    drop(header, kind);
    if (!(kind->held & untold) && (!in_exif || kind->held != GCONV_HOLDS_RESOLUTION))
      dropped[count++] = kind;
  }
  for (int i = 0; i < count; i++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i == 0 ? "" : between[i + 1 == count],
             dropped[i]->name);
  bool several = count > 1 || (count > 0 && dropped[0]->several);
  if (count > 0)
    gconv_warn_once("metadata left out", "%s %s left out: %s cannot hold %s", names, several ? "are" : "is",
                    format->info.name, several ? "them" : "it");
}

/* Removes a profile from the header if readers would refuse it: for other colours than the image's, or damaged. */
static void drop_unfit_icc(const char *name, int held, gconv_image *header) {
  bool grey = header->channels < 3;
  const char *fault = header->icc ? gconv_icc_fault(header, held & GCONV_HOLDS_WHOLE_ICC) : NULL;
  if (header->icc && !fault && grey && (held & GCONV_HOLDS_COLOUR_ICC))
    fault = "it is one of grey, which becomes RGB in this format";
  if (!fault)
    return;
  header->icc = NULL;
  header->icc_bytes = 0;
  gconv_warn_once("ICC profile left out", "%s: the ICC profile is left out: %s", name, fault);
}

/* Warns if samples may be the number that stands for no data, and the format cannot record that number. Only TIFF can. */
static void tell_of_nodata(const gconv_format *format, const gconv_image *header) {
  char text[GCONV_NODATA_BYTES];
  if (header->has_nodata && !(format->metadata & GCONV_HOLDS_TAGS))
    gconv_warn_once("no data not named", "the number %s stands for no data in the results: %s cannot record that",
                    gconv_nodata_write(header->nodata, text), format->info.name);
}

/* Removes metadata that the format will not write from the header. Copies all others; EXIF gets the size of the image. */
static gconv_status settle_metadata(gconv_row_writer *rows) {
  gconv_image *header = &rows->header;
  const gconv_format *format = rows->writer.format;
  int held = format->metadata | (format->metadata & GCONV_HOLDS_COLOUR_ICC ? GCONV_HOLDS_ICC : 0);
  const int stripped = rows->options.strip ? GCONV_HOLDS_EXIF | GCONV_HOLDS_XMP | GCONV_HOLDS_COMMENT : 0;
  held &= ~stripped;
  drop_metadata(format, held, stripped ? stripped | GCONV_HOLDS_RESOLUTION : 0, header);
  drop_unfit_icc(rows->writer.name, held, header);
  tell_of_nodata(format, header);
  if (format->alpha && !format->plain && !header->alpha && (header->channels == 2 || header->channels == 4))
    gconv_warn_once(
        "channels that became alpha",
        "%s: the last of %d channels, which the input does not call alpha, becomes alpha: .tif and .npy keep it as "
        "it is",
        rows->writer.name, header->channels);
  GCONV_TRY(gconv_image_copy_metadata(&rows->owned, header));
  gconv_metadata_lend(header, &rows->owned);
  if (header->exif)
    gconv_exif_set_size(header->exif, header->exif_bytes, header->width, header->height);
  return GCONV_OK;
}

double gconv_row_writer_bytes(const gconv_write_options *options, const gconv_image *header, bool in_parts, bool to_pipe) {
  const gconv_format *format = (const gconv_format *)options->format; /* the first member of its row */
  int how = (in_parts ? GCONV_IN_PARTS : 0) | (to_pipe ? GCONV_TO_PIPE : 0);
  return format->held_bytes ? format->held_bytes(header, options, how) : 0;
}

/* ---- Rows ---- */

/* Where a picture goes. */
typedef struct target {
  const char *path;     /* of a file; NULL: `out` gets it */
  bool backs_up;        /* the file that it replaces is kept */
  gconv_bytes_out *out; /* bytes of a caller */
} target;

static gconv_status open_sink(const target *to, gconv_sink **sink) {
  return to->path ? gconv_sink_open(to->path, sink) : gconv_sink_open_bytes(to->out, sink);
}

static gconv_status open_rows(const target *to, const gconv_write_options *given, const gconv_image *header, bool grows,
                              gconv_row_writer **result) {
  gconv_write_options options;
  const char *path = to->path ? to->path : gconv_bytes_name(to->out->name);
  GCONV_TRY(fill_options(to->path, given, &options));
  gconv_status status = gconv_format_check(options.format, header);
  if (status == GCONV_OK && options.store != GCONV_STORE_F32 && (!options.format->stores || header->type != GCONV_F32))
    status =
        gconv_fail(GCONV_UNSUPPORTED, "%s does not hold %s samples of %s images: write .npy, of f32", options.format->name,
                   options.store == GCONV_STORE_I16 ? "int16" : "float16", gconv_type_name(header->type));
  if (status != GCONV_OK)
    return gconv_fail_in(status, "%s", path);
  gconv_row_writer *rows;
  GCONV_NEW(rows, 1, "%s: no memory to write it", path);
  rows->options = options;
  rows->header = *header;
  rows->rows_left = gconv_image_row_count(header);
  rows->writer = (gconv_writer){.format = (const gconv_format *)options.format, /* the first member of its row */
                                .name = path,
                                .grows = grows,
                                .header = &rows->header,
                                .options = &rows->options};
  status = settle_metadata(rows);
  GCONV_THEN(status, open_sink(to, &rows->writer.sink));
  GCONV_THEN(status, rows->writer.format->start(&rows->writer));
  if (status == GCONV_OK)
    *result = rows;
  else
    gconv_row_writer_discard(rows);
  return status;
}

gconv_status gconv_row_writer_open_growing(const char *path, const gconv_write_options *given, const gconv_image *header,
                                           bool grows, gconv_row_writer **result) {
  return open_rows(&(target){.path = path}, given, header, grows, result);
}

/* Arguments of write_rows(), which one of the shared threads calls. */
typedef struct writing {
  gconv_writer *writer;
  const void *rows;
  size_t row_bytes;
  int32_t count;
} writing;

static gconv_status write_in_turn(void *context) {
  const writing *w = context;
  return w->writer->format->write_rows(w->writer, w->rows, w->row_bytes, w->count);
}

gconv_status gconv_row_writer_write(gconv_row_writer *rows, const void *samples, size_t row_bytes, int32_t count) {
  if (count < 1 || count > rows->rows_left)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %d rows are given, %" PRId64 " are missing", rows->writer.name, count,
                      rows->rows_left);
  rows->rows_left -= count;
  writing w = {.writer = &rows->writer, .rows = samples, .row_bytes = row_bytes, .count = count};
  bool in_turn = rows->options.shared && !rows->writer.format->threads;
  return in_turn ? gconv_threads_do(rows->options.shared, write_in_turn, &w) : write_in_turn(&w);
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

bool gconv_format_minds_number(const gconv_format_info *format) {
  return ((const gconv_format *)format)->number; /* every info is the first member of its row */
}

/* Gives the header the shape and the no data of a frame that differs from the one before. */
static gconv_status change_shape(gconv_row_writer *rows, const gconv_image *like) {
  gconv_image *header = &rows->header;
  if (!rows->writer.format->frames_differ)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s: the images differ in size or kind, and a file of this format holds images that are alike: write .tif, "
        "or a file each, by a template with {frame}",
        rows->writer.name);
  header->type = like->type;
  header->height = like->height;
  header->width = like->width;
  header->channels = like->channels;
  header->alpha = like->alpha;
  header->has_nodata = like->has_nodata;
  header->nodata = like->nodata;
  rows->frames_differ = true;
  return rows->writer.format->add_frame(&rows->writer);
}

gconv_status gconv_row_writer_add_frame(gconv_row_writer *rows, const gconv_image *like, bool counted) {
  const gconv_format *format = rows->writer.format;
  gconv_image before = rows->header;
  before.frames = like->frames;
  if (!counted && !format->add_frame)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s: several images came through a pipe, and a file of this format cannot take them: write .pnm, or a file "
        "each, by a template with {frame}",
        rows->writer.name);
  if (!counted)
    rows->header.frames++;
  if (!gconv_image_same_shape(&before, like) || (format->frames_differ && !gconv_nodata_same(&before, like)))
    GCONV_TRY(change_shape(rows, like));
  else if (!counted)
    GCONV_TRY(format->add_frame(&rows->writer));
  int64_t frame_rows = (int64_t)like->height * (like->planar ? like->channels : 1);
  rows->rows_left = rows->frames_differ ? frame_rows : rows->rows_left + (counted ? 0 : frame_rows);
  return GCONV_OK;
}

gconv_status gconv_row_writer_rename(gconv_row_writer *rows, const char *path) {
  rows->writer.name = path;
  return gconv_sink_rename(rows->writer.sink, path);
}

void gconv_row_writer_back_up(gconv_row_writer *rows) {
  gconv_sink_back_up(rows->writer.sink);
}

int32_t gconv_row_writer_step(const gconv_row_writer *rows) {
  const gconv_format *format = rows->writer.format;
  return format->row_step ? format->row_step(&rows->writer) : 1;
}

static void end(gconv_row_writer *rows) {
  if (rows->writer.format->end)
    rows->writer.format->end(&rows->writer);
  free(rows->writer.state);
}

gconv_status gconv_row_writer_commit(gconv_row_writer *rows) {
  gconv_status status = GCONV_OK;
  if (rows->rows_left > 0)
    status = gconv_fail(GCONV_BAD_ARGUMENT, "%s: %" PRId64 " rows are missing", rows->writer.name, rows->rows_left);
  if (status == GCONV_OK && rows->writer.format->finish)
    status = rows->writer.format->finish(&rows->writer);
  if (status != GCONV_OK) {
    gconv_row_writer_discard(rows);
    return status;
  }
  end(rows);
  status = gconv_sink_commit(rows->writer.sink, rows->options.keep_existing);
  gconv_image_free(&rows->owned);
  free(rows);
  return status;
}

void gconv_row_writer_discard(gconv_row_writer *rows) {
  if (!rows)
    return;
  if (rows->writer.sink) {
    end(rows);
    gconv_sink_discard(rows->writer.sink);
  }
  gconv_image_free(&rows->owned);
  free(rows);
}

/* Returns how many rows to write at a time: all of a plane, unless the caller may stop the writing or see its progress. Then
 * it is some 4 MiB, in multiples of gconv_row_writer_step(). */
static int32_t band_of(const gconv_row_writer *rows, const gconv_image *image) {
  const size_t most = 4 << 20, step = (size_t)gconv_row_writer_step(rows), bytes = step * image->row_bytes;
  if (!gconv_control_here())
    return image->height;
  const size_t band = step * (most / bytes + 1);
  return band < (size_t)image->height ? (int32_t)band : image->height;
}

static gconv_status write_planes(gconv_row_writer *rows, const gconv_image *image) {
  const size_t planes = (size_t)image->frames * (image->planar ? (size_t)image->channels : 1);
  const int32_t band = band_of(rows, image);
  for (size_t i = 0; i < planes; i++) {
    const uint8_t *plane = (const uint8_t *)image->data + i * image->plane_bytes;
    for (int32_t y = 0, count; y < image->height; y += count) {
      count = image->height - y < band ? image->height - y : band;
      GCONV_TRY(gconv_control_step("writing", ((double)i + (double)y / image->height) / (double)planes));
      GCONV_TRY(gconv_row_writer_write(rows, plane + (size_t)y * image->row_bytes, image->row_bytes, count));
    }
  }
  return gconv_control_step("writing", 1);
}

static gconv_status write_image(const target *to, const gconv_write_options *options, const gconv_image *image) {
  GCONV_NEED_KNOWN(options);
  gconv_row_writer *rows = NULL;
  const char *name = to->path ? to->path : gconv_bytes_name(to->out->name);
  GCONV_TRY(gconv_check_pixels(image, name));
  if ((image->icc_bytes && !image->icc) || (image->exif_bytes && !image->exif) || (image->xmp_bytes && !image->xmp) ||
      (image->tags_bytes && !image->tags))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the ICC profile, EXIF, XMP or tags of the image have a size, and are NULL",
                      name);
  GCONV_TRY(open_rows(to, options, image, false, &rows));
  if (to->backs_up)
    gconv_row_writer_back_up(rows);
  gconv_status status = write_planes(rows, image);
  if (status == GCONV_OK)
    return gconv_row_writer_commit(rows);
  gconv_row_writer_discard(rows);
  return status;
}

gconv_status gconv_image_write(const char *path, const gconv_write_options *options, const gconv_image *image) {
  GCONV_NEED(path, image);
  return write_image(&(target){.path = path}, options, image);
}

gconv_status gconv_image_replace(const char *path, const gconv_write_options *options, const gconv_image *image) {
  return write_image(&(target){.path = path, .backs_up = true}, options, image);
}

/* Fails if the memory of `to` and the pixels overlap: growing that memory would free the pixels. */
static gconv_status check_room(const gconv_bytes_out *to, const gconv_image *image) {
  const uintptr_t data = (uintptr_t)to->data, pixels = (uintptr_t)image->data;
  const size_t bytes = image->plane_bytes * (size_t)image->frames * (image->planar ? (size_t)image->channels : 1);
  if (!data && to->room > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "to->data is NULL, and to->room is %zu: both are 0 before the first use",
                      to->room);
  if (data && data < pixels + bytes && (pixels <= data || pixels - data < to->room))
    return gconv_fail(GCONV_BAD_ARGUMENT, "to->data has the pixels of the image: it must be other memory");
  return GCONV_OK;
}

gconv_status gconv_image_encode(gconv_bytes_out *to, const gconv_write_options *options, const gconv_image *image) {
  GCONV_NEED(to, options, image);
  GCONV_NEED_KNOWN(to);
  to->size = 0;
  GCONV_TRY(gconv_check_pixels(image, gconv_bytes_name(to->name)));
  GCONV_TRY(check_room(to, image));
  return write_image(&(target){.out = to}, options, image);
}

/* SPDX-License-Identifier: MIT */
/* Reads a source by rows, through the interface of formats. Finds the format by the content, and checks limits. */
#include "base/gunzip.h"
#include "base/threads.h"
#include "image/format.h"
#include "image/metadata.h"
#include "image/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Opening ---- */

/* The limit counts a pixel for every four channels, or part of four. So it also bounds planar images with many channels. */
static gconv_status check_limit(const gconv_reader *reader, int32_t frames_at_a_time) {
  const gconv_image *header = &reader->header;
  size_t factors[] = {(size_t)frames_at_a_time, (size_t)header->height, (size_t)header->width,
                      ((size_t)header->channels + 3) / 4};
  size_t pixels = gconv_checked_product(4, factors);
  if (pixels <= reader->max_pixels)
    return GCONV_OK;
  char frames[64] = "";
  if (header->planar)
    snprintf(frames, sizeof frames, " (%d x %d channels)", header->frames, header->channels);
  else if (frames_at_a_time > 1)
    snprintf(frames, sizeof frames, " in %d frames", header->frames);
  return gconv_fail(GCONV_TOO_LARGE, "%s: is %d x %d pixels%s; the limit is %" PRIu64 ": raise it with --max-pixels %zu",
                    reader->source->name, header->width, header->height, frames, reader->max_pixels, pixels);
}

gconv_status gconv_reader_check_expansion(const gconv_reader *reader, int32_t frames) {
  const gconv_image *header = &reader->header;
  size_t pixels = gconv_checked_product(3, (size_t[]){(size_t)frames, (size_t)header->height, (size_t)header->width});
  size_t always = frames > 1 ? 1 << 26 : 1 << 28; /* 1 << 28: the largest WebP, whose file is tiny if it has one colour */
  uint64_t size = reader->source->size == UINT64_MAX ? reader->held : reader->source->size;
  if (size == 0 || pixels <= always || pixels / GCONV_MOST_EXPANSION <= size)
    return GCONV_OK;
  return gconv_fail(
      GCONV_TOO_LARGE,
      "%s: %d image%s of %d x %d pixels in %" PRIu64 " bytes, which is no picture: the limit is %d pixels a byte",
      reader->source->name, frames, frames > 1 ? "s" : "", header->width, header->height, size, GCONV_MOST_EXPANSION);
}

gconv_status gconv_reader_check_whole(const gconv_reader *reader) {
  if (reader->apart[0] && !reader->one_by_one)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: %s", reader->source->name, reader->apart);
  return check_limit(reader, reader->header.frames);
}

gconv_status gconv_reader_find_number(const gconv_reader *reader, int64_t count, int64_t *index) {
  const char *member = reader->member;
  int64_t number = 0;
  for (const char *c = member; *c >= '0' && *c <= '9' && number <= count; c++)
    number = 10 * number + (*c - '0');
  if (member[strspn(member, "0123456789")] != '\0' || number < 1 || number > count)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: there is no image '%s' in this file: its images have the numbers 1 to %" PRId64,
                      reader->source->name, member, count);
  *index = number - 1;
  return GCONV_OK;
}

gconv_status gconv_reader_open(gconv_reader *reader, gconv_source *source, uint64_t max_pixels) {
  enum { SNIFFED_BYTES = 16 };
  *reader =
      (gconv_reader){.source = source, .member = source->member, .max_pixels = max_pixels, .obstacle = "it is no JPEG"};
  const uint8_t *bytes;
  size_t size;
  GCONV_TRY(gconv_source_peek(source, SNIFFED_BYTES, &bytes, &size));
  reader->format = gconv_is_raw_member(reader->member) ? &gconv_format_raw : gconv_format_by_content(bytes, size);
  if (!reader->format) { /* the mark of NIfTI is at byte 344 */
    GCONV_TRY(gconv_source_peek(source, GCONV_FOREIGN_BYTES, &bytes, &size));
    reader->format = gconv_format_by_content(bytes, size);
  }
  if (!reader->format && reader->member && strchr(reader->member, ':'))
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s: samples without a header are FILE:WIDTHxHEIGHT[xCHANNELS]:TYPE[+BYTES], such as FILE:640x480:u16le; "
        "types are u8, i8, and u16, i16, u32, i32, f16, f32, f64 with le or be",
        source->name);
  if (!reader->format)
    return gconv_fail_unknown(source->name, bytes, size);
  if (reader->member && !reader->format->members)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: a %s file has one image: leave out the ':%s'", source->name,
                      reader->format->info.name, reader->member);
  GCONV_TRY(reader->format->open(reader));
  GCONV_TRY(check_limit(reader, reader->header.planar ? reader->header.frames : 1));
  GCONV_TRY(gconv_metadata_settle(&reader->header, &reader->orientation, reader->note, sizeof reader->note));
  if (reader->orientation != 1 && !reader->obstacle)
    reader->obstacle = "EXIF turns it";
  return GCONV_OK;
}

void gconv_reader_note(gconv_reader *reader, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  gconv_metadata_note(reader->note, sizeof reader->note, format, arguments);
  va_end(arguments);
}

void gconv_reader_tell_of_cmyk(gconv_reader *reader) {
  reader->header.cmyk = true;
  gconv_reader_note(reader,
                    "its colours are CMYK, for printing: they become RGB by a plain formula, as in Pillow, without its "
                    "ICC profile. Where colours matter, convert it by profiles first, as ImageMagick does: convert IN "
                    "-profile cmyk.icc -profile srgb.icc OUT.tif");
}

void gconv_reader_lose(gconv_reader *reader, const char *name) {
  size_t used = strlen(reader->lost), room = sizeof reader->lost - used;
  const char *found = strstr(reader->lost, name);
  bool named = found && (found[strlen(name)] == ',' || found[strlen(name)] == '\0');
  if (!named && strlen(name) + sizeof ", ..." < room)
    snprintf(reader->lost + used, room, "%s%s", used > 0 ? ", " : "", name);
  else if (!named && used > 0 && reader->lost[used - 1] != '.' && room > sizeof ", ...")
    memcpy(reader->lost + used, ", ...", sizeof ", ...");
}

/* Warns of what a file has besides the pixels that were read. */
static void warn_of_rest(const gconv_reader *reader) {
  const char *name = reader->source->name;
  bool more = reader->open_ended && !reader->next_asked, unzipped = false;
  if (more && !gconv_source_can_rewind(reader->source)) /* A pipe is not asked, as it may stay open. */
    more = gconv_source_has_unzipped(reader->source, &unzipped) == GCONV_OK && unzipped;
  if (reader->note[0])
    gconv_warn("%s: %s", name, reader->note);
  if (reader->pictures > 1)
    gconv_warn_once("further pictures left out",
                    "%s: of its %lld pictures (MPF: views, previews, maps of gain), the first is "
                    "read",
                    name, (long long)reader->pictures);
  if (more)
    gconv_warn("%s: further images follow in this file: only the first is read here", name);
  if (reader->foreign)
    gconv_warn_once("bytes behind the image", "%s: what follows its last image is no image, and is left out", name);
  if (reader->lost[0] && !reader->strip)
    gconv_warn_once("metadata not read", "%s: of its metadata, these are not read, and left out: %s", name, reader->lost);
}

gconv_status gconv_reader_describe_rest(const gconv_reader *reader, char **rest) {
  char text[1200] = "", pictures[80] = "";
  size_t used = 0;
  void *copy = NULL;
  if (reader->pictures > 1)
    snprintf(pictures, sizeof pictures, "of its %lld pictures (MPF), the first is read", (long long)reader->pictures);
  const struct {
    const char *before, *text;
  } parts[] = {{"", reader->note}, {"", reader->apart}, {"", pictures}, {"metadata that are not read: ", reader->lost}};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (parts[i].text[0])
      used +=
          (size_t)snprintf(text + used, sizeof text - used, "%s%s%s", used > 0 ? "; " : "", parts[i].before, parts[i].text);
  if (used > 0)
    GCONV_TRY(gconv_metadata_copy(text, used, "a text", &copy));
  *rest = copy;
  return GCONV_OK;
}

bool gconv_reader_has_room(gconv_reader *reader, size_t size) {
  const gconv_image *header = &reader->header;
  size_t before = header->icc_bytes + header->exif_bytes + header->xmp_bytes + reader->comment_bytes;
  if (size <= GCONV_MOST_METADATA && before <= GCONV_MOST_METADATA - size)
    return true;
  if (!reader->left_out)
    gconv_reader_note(reader, "metadata beyond %d MiB are left out", GCONV_MOST_METADATA >> 20);
  reader->left_out = true;
  return false;
}

gconv_status gconv_reader_add_comment(gconv_reader *reader, const void *bytes, size_t size) {
  if (!gconv_reader_has_room(reader, size))
    return GCONV_OK;
  if (size <= GCONV_MOST_COMMENTS && reader->comment_bytes <= GCONV_MOST_COMMENTS - size)
    return gconv_metadata_add_comment(&reader->header, &reader->comment_bytes, bytes, size);
  if (!reader->comments_left)
    gconv_reader_note(reader, "comments beyond %d MiB are left out", GCONV_MOST_COMMENTS >> 20);
  reader->comments_left = true;
  return GCONV_OK;
}

/* Returns the most bytes that a file of gzip may become in memory, so that a small file cannot take all of it: formats that
 * are held whole are compressed themselves, and gzip makes them but a little smaller. SIZE_MAX: gzip did not compress it. */
static size_t most_unzipped(const gconv_source *source) {
  enum { GROWTH = 256, LEAST = 1 << 26, OF_PIPES = 1 << 30 };
  const uint64_t packed = gconv_source_packed_bytes(source);
  if (packed == 0)
    return SIZE_MAX;
  return packed > SIZE_MAX / GROWTH ? OF_PIPES : LEAST + GROWTH * (size_t)packed;
}

gconv_status gconv_reader_read_all(gconv_reader *reader, size_t limit, uint8_t **bytes, size_t *size) {
  gconv_source *source = reader->source;
  const size_t unzipped = most_unzipped(source);
  bool known = gconv_source_can_rewind(source);
  uint64_t most = known ? source->max_bytes
                        : source->max_bytes / 3; /* a pipe's buffer doubles: the old and the new one exist together */
  bool bounded = source->max_bytes > 0 && most < limit;
  if (bounded)
    limit = (size_t)most;
  const bool of_gzip = unzipped < limit;
  if (of_gzip)
    limit = unzipped;
  gconv_status status = known && source->size > limit ? GCONV_TOO_LARGE : gconv_source_read_all(source, limit, bytes, size);
  if (status == GCONV_TOO_LARGE && of_gzip)
    return gconv_fail(status,
                      "%s: what gzip compressed is more than %zu MB, far more than its bytes promise: if the file is good, "
                      "decompress it first (gunzip -k)",
                      source->name, unzipped / 1000000);
  if (status == GCONV_TOO_LARGE && bounded)
    return gconv_fail(
        status, "%s: a %s file is held in memory as a whole%s, and --memory leaves %.1f MB for it: raise --memory",
        source->name, reader->format->info.name, known ? "" : " where it comes through a pipe", (double)limit * 1e-6);
  if (status == GCONV_TOO_LARGE)
    return gconv_fail(status, "%s: larger than the %zu bytes allowed here", source->name, limit);
  GCONV_TRY(status);
  reader->held = *size;
  reader->bytes += *size;
  return GCONV_OK;
}

/* ---- Rows ---- */

/* Arguments of read_rows(), which one of the shared threads calls. */
typedef struct reading {
  gconv_reader *reader;
  void *rows;
  size_t row_bytes;
  int32_t count;
} reading;

static gconv_status read_in_turn(void *context) {
  const reading *r = context;
  return r->reader->format->read_rows(r->reader, r->rows, r->row_bytes, r->count);
}

gconv_status gconv_reader_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  reading r = {.reader = reader, .rows = rows, .row_bytes = row_bytes, .count = count};
  if (reader->failed)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: cannot be read further after a failure: open it again", reader->source->name);
  if (reader->apart[0] && !reader->one_by_one)
    return gconv_reader_check_whole(reader);
  reader->failed = reader->used = true;
  bool in_turn = reader->shared && !reader->format->reads_on_threads;
  GCONV_TRY(in_turn ? gconv_threads_do(reader->shared, read_in_turn, &r) : read_in_turn(&r));
  reader->rows_read += count;
  if (reader->rows_read == gconv_image_row_count(&reader->header))
    GCONV_TRY(gconv_source_check_unzipped(reader->source));
  reader->failed = false;
  return GCONV_OK;
}

/* Returns whether there are only zeros and white space, which some programs put after an image. */
static bool is_blank(const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != 0 && bytes[i] != ' ' && !(bytes[i] >= '\t' && bytes[i] <= '\r'))
      return false;
  return true;
}

enum { BEHIND_BYTES = 512 }; /* how many bytes after an image are looked at */

gconv_status gconv_reader_look_behind(gconv_reader *reader, uint64_t end, bool (*sniff)(const uint8_t *bytes, size_t size)) {
  uint8_t bytes[BEHIND_BYTES];
  size_t got;
  GCONV_TRY(gconv_source_read_at(reader->source, end, bytes, sizeof bytes, &got));
  reader->open_ended = sniff(bytes, got);
  reader->foreign = !reader->open_ended && !is_blank(bytes, got);
  return GCONV_OK;
}

void gconv_reader_tell_of_rest(gconv_reader *reader, const uint8_t *bytes, size_t size) {
  if (reader->format->sniff(bytes, size))
    gconv_reader_note(reader, "further images follow: only the first is read here");
  else
    reader->foreign = !is_blank(bytes, size < BEHIND_BYTES ? size : BEHIND_BYTES);
}

gconv_status gconv_reader_look(gconv_reader *reader) {
  uint8_t bytes[BEHIND_BYTES];
  size_t got;
  if (reader->format->look_behind)
    return reader->format->look_behind(reader);
  if (reader->end == 0 || !gconv_source_can_rewind(reader->source))
    return GCONV_OK;
  GCONV_TRY(gconv_source_read_at(reader->source, reader->end, bytes, sizeof bytes, &got));
  gconv_reader_tell_of_rest(reader, bytes, got);
  return GCONV_OK;
}

/* Looks at what follows an image from a pipe, if it has come already. Does not wait: the pipe may stay open. */
static void look_at_pipe(gconv_reader *reader) {
  const gconv_source *source = reader->source;
  if (reader->end > 0 && !gconv_source_can_rewind(source) && source->end > source->begin)
    gconv_reader_tell_of_rest(reader, source->buffer + source->begin, source->end - source->begin);
}

gconv_status gconv_reader_look_for_next(gconv_reader *reader, bool (*sniff)(const uint8_t *bytes, size_t size), bool *more) {
  enum { SNIFFED_BYTES = 16 };
  const uint8_t *bytes;
  size_t got;
  GCONV_TRY(gconv_source_peek(reader->source, SNIFFED_BYTES, &bytes, &got));
  *more = sniff(bytes, got);
  reader->foreign = !*more && !is_blank(bytes, got);
  return GCONV_OK;
}

gconv_status gconv_reader_check_next(const gconv_reader *reader, int32_t number, const gconv_image *header) {
  const gconv_image *first = &reader->header;
  gconv_image next = *header;
  next.frames = first->frames;
  if (gconv_image_same_shape(first, &next))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE,
                    "%s: image %d of it has %d x %d pixels of %d channels (%s), the first %d x %d of %d (%s): images of one "
                    "input must have one shape: divide them%s",
                    reader->source->name, number, next.width, next.height, next.channels, gconv_type_name(next.type),
                    first->width, first->height, first->channels, gconv_type_name(first->type),
                    reader->format->members ? ", or name one of a file by its number: FILE:2" : "");
}

gconv_status gconv_reader_next(gconv_reader *reader, bool *more) {
  *more = false;
  if (!reader->open_ended || reader->failed)
    return GCONV_OK;
  reader->failed = reader->next_asked = true;
  GCONV_TRY(reader->format->next(reader, more));
  GCONV_TRY(check_limit(reader, 1));
  gconv_release(reader->whole);
  reader->whole = NULL;
  reader->failed = false;
  reader->rows_read = 0;
  return GCONV_OK;
}

void gconv_reader_close(gconv_reader *reader) {
  if (reader->format && reader->format->close)
    reader->format->close(reader);
  if (reader->source && !reader->again)
    gconv_rounding_tell(&reader->rounding, reader->source->name);
  if (reader->used && !reader->failed && !reader->again) {
    look_at_pipe(reader);
    warn_of_rest(reader);
  }
  free(reader->state);
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
  if (count == gconv_image_row_count(&reader->header))
    return read_all(reader, rows, row_bytes);
  size_t bytes = gconv_image_row_bytes(&reader->header);
  if (!reader->whole) {
    size_t size;
    gconv_multiply(bytes, (size_t)gconv_image_row_count(&reader->header), &size);
    GCONV_ALLOCATE(reader->whole, size, "an image");
    GCONV_TRY(read_all(reader, reader->whole, bytes));
  }
  const uint8_t *next = reader->whole + (size_t)reader->rows_read * bytes;
  for (size_t i = 0; i < (size_t)count; i++)
    memcpy((uint8_t *)rows + i * row_bytes, next + i * bytes, bytes);
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Opens TIFF: finds which pages a file has, and what the first one carries besides pixels. */
#include "base/nodata.h"
#include "image/directory.h"
#include "image/metadata.h"
#include "image/tiff_reading.h"
#include "image/tiff_tags.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_UNKNOWN = 256 }; /* the most unknown tags of a directory: at each, libtiff sorts all unknown tags so far */

/* ---- Pages ---- */

/* Counts the image if its NewSubfileType, `kind`, is a smaller copy or a mask of a page. Returns false for other kinds. */
static bool count_left_out(gconv_tiff_left_out *left_out, uint32_t kind) {
  left_out->masks += (kind & FILETYPE_MASK) != 0;
  left_out->copies += (kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) == FILETYPE_REDUCEDIMAGE;
  return (kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) != 0;
}

/* Returns whether the current directory is no page. */
static bool is_left_out(gconv_tiff_reading *s) {
  uint32_t kind = 0;
  uint16_t old_kind = 0;
  TIFF *handle = s->seats[0].file.handle;
  if (!gconv_tiff.TIFFGetField(handle, TIFFTAG_SUBFILETYPE, &kind) &&
      gconv_tiff.TIFFGetField(handle, TIFFTAG_OSUBFILETYPE, &old_kind) && old_kind == OFILETYPE_REDUCEDIMAGE)
    kind = FILETYPE_REDUCEDIMAGE;
  return count_left_out(&s->left_out, kind);
}

/* Counts the images below the current page (SubIFDs). */
static void count_images_below(gconv_tiff_reading *s) {
  enum { MOST = 64 };
  uint16_t count = 0;
  const uint64_t *directories = NULL;
  gconv_tiff_origin from;
  if (!gconv_tiff.TIFFGetField(s->seats[0].file.handle, TIFFTAG_SUBIFD, &count, &directories) ||
      !gconv_tiff_find_origin(s->source, &from))
    return;
  for (uint16_t i = 0; i < count; i++)
    if (i >= MOST || !count_left_out(&s->left_out, gconv_tiff_subfile_type(&from, directories[i])))
      s->left_out.others++;
}

/* Appends "3 masks" or "1 mask" to the text, after a comma if there is a text. */
static void add_count(char text[160], int32_t count, const char *one, const char *many) {
  size_t used = strlen(text);
  if (count > 0)
    snprintf(text + used, 160 - used, "%s%d %s", used > 0 ? ", " : "", count, count == 1 ? one : many);
}

static void note_left_out(gconv_tiff_reading *s) {
  const gconv_tiff_left_out *left_out = &s->left_out;
  char text[160] = "";
  int32_t all = left_out->copies + left_out->masks + left_out->others;
  add_count(text, left_out->copies, "reduced copy of the image (a thumbnail or a pyramid)",
            "reduced copies of the image (thumbnails or a pyramid)");
  add_count(text, left_out->masks, "mask of transparency", "masks of transparency");
  add_count(text, left_out->others, "image below a page (SubIFD)", "images below pages (SubIFDs)");
  if (all > 0)
    gconv_reader_note(s->reader, "%s %s left out", text, all == 1 ? "is" : "are");
}

static gconv_status add_page(gconv_tiff_reading *s) {
  uint64_t *pages = s->page_count < INT32_MAX ? gconv_grown(s->pages, (size_t)s->page_count, sizeof *pages) : NULL;
  GCONV_NEED_MEMORY(pages, "no memory for a TIFF");
  s->pages = pages;
  s->pages[s->page_count++] = gconv_tiff.TIFFCurrentDirOffset(s->seats[0].file.handle);
  return GCONV_OK;
}

static void describe(const gconv_image *header, char text[120]) {
  char number[GCONV_NODATA_BYTES];
  snprintf(text, 120, "%d x %d pixels of %d %s samples%s%s%s", header->width, header->height, header->channels,
           gconv_type_name(header->type), header->alpha ? " with alpha" : "", header->has_nodata ? ", no data " : "",
           header->has_nodata ? gconv_nodata_write(header->nodata, number) : "");
}

/* Compares two pages. Pages that are alike become the frames of one image. If they differ, sets reader->apart: then each
 * page is an image of its own. */
static void compare(const gconv_tiff_reading *s, const gconv_tiff_page *first, const gconv_tiff_page *other) {
  char one[120], two[120];
  gconv_reader *reader = s->reader;
  bool same = gconv_image_alike(&first->header, &other->header);
  if (reader->apart[0] || (same && first->orientation == other->orientation))
    return;
  describe(&first->header, one);
  describe(&other->header, two);
  snprintf(reader->apart, sizeof reader->apart,
           "its pages differ: page 1 has %s, page %d %s; pages that are read together are alike: name one, such as FILE:%d",
           one, s->page_count, same ? "another orientation" : two, s->page_count);
}

/* Reads the number of the wanted page: "3" is the third. */
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

static gconv_status no_page(const gconv_tiff_reading *s, int32_t wanted) {
  const char *name = s->reader->source->name;
  if (wanted > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has no page %d: there %s %d", name, wanted, s->page_count == 1 ? "is" : "are",
                      s->page_count);
  return gconv_fail(GCONV_UNSUPPORTED,
                    "%s: a TIFF of reduced copies alone: its image is where gconv does not look, as in raw photos: "
                    "convert it first",
                    name);
}

/* Refuses pages whose strips or tiles are more than the file can list, or claim the same bytes over and over. */
static gconv_status check_claims(gconv_tiff_reading *s, const gconv_tiff_page *page) {
  gconv_tiff_file *file = &s->seats[0].file;
  uint64_t planes = page->separate ? page->samples : 1, blocks = (uint64_t)page->across * (uint64_t)page->down * planes;
  uint64_t most = gconv_tiff_most_claimed(file->end);
  s->blocks += blocks;
  if (s->blocks > file->end)
    return gconv_fail(GCONV_BAD_FILE, "%s: damaged TIFF: its header promises %llu strips or tiles", file->name,
                      (unsigned long long)s->blocks);
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t bytes = gconv_tiff.TIFFGetStrileByteCount(file->handle, (uint32_t)i);
    s->claimed += bytes < file->end ? bytes : file->end;
    if (s->claimed > most)
      return gconv_fail(
          GCONV_TOO_LARGE,
          "%s: its strips or tiles share their bytes so often that all together are more than %d times as large "
          "as the file: that is the limit",
          file->name, GCONV_TIFF_MOST_SHARED);
  }
  return GCONV_OK;
}

/* Returns the bytes of a block, of all its planes, after it has become samples. */
static size_t block_bytes(const gconv_tiff_page *page) {
  size_t bytes = gconv_type_bytes(page->header.type) * page->samples;
  return (size_t)page->width * (size_t)page->height * (bytes > 4 ? bytes : 4);
}

/* Returns whether each thread has the file open. */
static bool opens_for_all(const gconv_tiff_page *page) {
  return page->way != GCONV_TIFF_STORED && page->way != GCONV_TIFF_LINES;
}

/* Returns the memory that a page takes besides the rows: a band that is held, and some blocks per thread. If libtiff decodes
 * line by line, it is a compressed strip of each plane. */
static size_t memory_of(const gconv_tiff_reading *s, const gconv_tiff_page *page) {
  size_t row = gconv_image_row_bytes(&page->header), band = row * (size_t)page->height;
  uint64_t raw = page->way == GCONV_TIFF_LINES ? gconv_tiff.TIFFGetStrileByteCount(s->seats[0].file.handle, 0) : 0;
  raw = raw < s->source->size / GCONV_TIFF_MOST_PLANES ? GCONV_TIFF_MOST_PLANES * raw : s->source->size;
  if (!opens_for_all(page))
    return GCONV_TIFF_RUN_BYTES + GCONV_TIFF_MOST_PLANES * (row + page->row_bytes) + (size_t)raw;
  return band + (size_t)gconv_threads_allowed(0) * 3 * block_bytes(page);
}

/* Finds all pages, or the one that is wanted, and sets s->page to the first of them. */
static gconv_status find_pages(gconv_tiff_reading *s) {
  gconv_tiff_seat *first = &s->seats[0];
  int32_t wanted = 0;
  bool found = false;
  if (s->reader->member)
    GCONV_TRY(parse_member(s->reader, &wanted));
  for (bool more = true; more && !(found && wanted > 0);) {
    if (first->file.status != GCONV_OK) /* libtiff continues after a value that it could not read */
      return gconv_tiff_fail(&first->file, "its directories cannot be read");
    if (first->file.unknown > MOST_UNKNOWN)
      return gconv_fail(GCONV_TOO_LARGE,
                        "%s: one of its directories has more than %d tags that are not known: that is the limit",
                        first->file.name, MOST_UNKNOWN);
    first->file.unknown = 0;
    if (!is_left_out(s)) {
      gconv_tiff_page page;
      GCONV_TRY(add_page(s));
      count_images_below(s);
      if (wanted == 0 || s->page_count == wanted) {
        GCONV_TRY(gconv_tiff_look(&first->file, &page));
        GCONV_TRY(check_claims(s, &page));
        uint32_t place = gconv_tiff_place_sum(s->source, s->pages[s->page_count - 1]);
        s->place = found ? s->place : place;
        s->places_differ |= place != s->place;
        if (found)
          compare(s, &s->page, &page);
        else
          s->page = page;
        size_t bytes = memory_of(s, &page);
        s->page_bytes = bytes > s->page_bytes ? bytes : s->page_bytes;
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
  s->one_of_several = wanted > 1 || (wanted == 1 && !gconv_tiff.TIFFLastDirectory(first->file.handle));
  if (wanted > 0)
    s->pages[0] = s->pages[wanted - 1];
  s->page_count = wanted > 0 ? 1 : s->page_count;
  return GCONV_OK;
}

gconv_status gconv_tiff_turn_to(gconv_tiff_reading *s, gconv_tiff_seat *its, const gconv_tiff_page *page) {
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

gconv_status gconv_tiff_begin_page(gconv_tiff_reading *s, int32_t at) {
  gconv_tiff_page page;
  s->at = at;
  s->row = s->held_begin = s->held_end = 0;
  GCONV_TRY(gconv_tiff_turn_to(s, &s->seats[0], NULL));
  s->seats[0].file.decoding = false;
  GCONV_TRY(gconv_tiff_look(&s->seats[0].file, &page));
  s->seats[0].file.decoding = true;
  if (!s->reader->apart[0] && !gconv_image_alike(&page.header, &s->page.header))
    return gconv_fail(GCONV_BAD_FILE, "%s: it changed while it was read", s->reader->source->name);
  s->page = page;
  return GCONV_OK;
}

/* Makes the next page, if there is one, the reader's image. Called for pages that differ. */
gconv_status gconv_tiff_next_page(gconv_reader *reader, bool *more) {
  gconv_tiff_reading *s = reader->state;
  gconv_image *header = &reader->header;
  *more = s->at + 1 < s->page_count;
  if (!*more)
    return GCONV_OK;
  GCONV_TRY(gconv_tiff_begin_page(s, s->at + 1));
  reader->orientation = s->page.orientation;
  header->type = s->page.header.type;
  header->width = s->page.header.width;
  header->height = s->page.header.height;
  header->channels = s->page.header.channels;
  header->alpha = s->page.header.alpha;
  header->has_nodata = s->page.header.has_nodata;
  header->nodata = s->page.header.nodata;
  return GCONV_OK;
}

/* ---- Opening ---- */

/* Reads all bytes of a pipe into memory, because libtiff seeks. */
static gconv_status keep_bytes(gconv_tiff_reading *s) {
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

static gconv_status read_icc(const gconv_tiff_reading *s, gconv_reader *reader) {
  uint32_t size = 0;
  void *bytes = NULL;
  if (s->page.colour == GCONV_TIFF_CMYK)
    gconv_reader_tell_of_cmyk(reader);
  if (!gconv_tiff.TIFFGetField(s->seats[0].file.handle, TIFFTAG_ICCPROFILE, &size, &bytes) || size == 0 ||
      s->page.colour == GCONV_TIFF_CMYK)
    return GCONV_OK;
  if (s->page.way == GCONV_TIFF_COLOURS) {
    gconv_reader_note(reader, "its colours become RGB by a plain formula, without its ICC profile");
    return GCONV_OK;
  }
  return gconv_reader_has_room(reader, size) ? gconv_metadata_set_icc(&reader->header, bytes, size) : GCONV_OK;
}

/* Returns how many samples a description of ImageJ or tifffile promises; 0: it does not say. Both programs may write only
 * one directory for many images. */
static double promised_samples(const gconv_tiff_page *page, const char *text) {
  double samples = 1;
  const char *images = strstr(text, "\nimages=");
  if (strncmp(text, "ImageJ=", 7) == 0)
    return images ? atof(images + 8) * page->header.width * page->header.height * page->samples : 0;
  if (strncmp(text, "{\"shape\": [", 11) != 0)
    return 0;
  for (char *at = (char *)(uintptr_t)text + 11; *at && *at != ']'; at += strcspn(at, "0123456789]"))
    samples *= strtod(at, &at);
  return samples;
}

static gconv_status read_description(gconv_tiff_reading *s, gconv_reader *reader) {
  const char *text = NULL;
  const gconv_image *header = &s->page.header;
  if (!gconv_tiff.TIFFGetField(s->seats[0].file.handle, TIFFTAG_IMAGEDESCRIPTION, &text) || !text)
    return GCONV_OK;
  if (!gconv_tiff_is_layout(text))
    return gconv_reader_add_comment(reader, text, strlen(text));
  double samples = (double)header->width * header->height * s->page.samples;
  double images = samples > 0 ? promised_samples(&s->page, text) / samples : 0;
  s->false_layout = s->one_of_several || images > s->page_count;
  if (s->one_of_several)
    gconv_reader_lose(reader, "the description of axes, which is of all pages");
  if (s->one_of_several || !s->false_layout)
    return GCONV_OK;
  gconv_reader_note(reader, "its description promises %.15g images, and it has directories for %d: the others are left out",
                    images, s->page_count);
  return GCONV_OK;
}

/* Reads the metadata of the first page. The orientation in the page's own tag has precedence over EXIF and XMP. */
static gconv_status read_metadata(gconv_tiff_reading *s, gconv_reader *reader) {
  TIFF *handle = s->seats[0].file.handle;
  uint32_t size = 0;
  void *xmp = NULL;
  uint16_t orientation = 0;
  if (gconv_tiff.TIFFGetField(handle, TIFFTAG_ORIENTATION, &orientation) && orientation >= 1 && orientation <= 8)
    reader->orientation = orientation;
  if (gconv_tiff.TIFFGetField(handle, TIFFTAG_XMLPACKET, &size, &xmp) && xmp && gconv_reader_has_room(reader, size))
    GCONV_TRY(gconv_metadata_set_xmp(&reader->header, xmp, size));
  if (s->seats[0].file.ignored[0])
    gconv_reader_note(reader, "a damaged tag is left out: %s", s->seats[0].file.ignored);
  if (s->page.photometric == PHOTOMETRIC_MINISWHITE && s->page.colour == GCONV_TIFF_PLAIN)
    gconv_reader_note(reader, "its white is 0 (MinIsWhite), and its numbers stay as they are: dark is bright");
  GCONV_TRY(read_description(s, reader));
  GCONV_TRY(gconv_tiff_read_exif(reader, s->source, s->pages[0]));
  GCONV_TRY(gconv_tiff_read_tags(reader, s->source, s->pages[0], s->places_differ ? 1 : s->page_count, !s->false_layout));
  return read_icc(s, reader);
}

/* Returns the bytes that libtiff takes for the table of strips or tiles, in each thread that has the file open. */
static size_t table_of(const gconv_tiff_reading *s) {
  return (size_t)s->blocks * 2 * sizeof(uint64_t);
}

gconv_status gconv_tiff_open_reader(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(gconv_tiff_reading), "a TIFF", &reader->state));
  gconv_tiff_reading *s = reader->state;
  pthread_mutex_init(&s->lock, NULL);
  s->reader = reader;
  s->at = -1;
  s->seat_count = (size_t)gconv_threads_allowed(INT_MAX);
  s->seat_count = s->seat_count > GCONV_TIFF_MOST_PLANES ? s->seat_count : GCONV_TIFF_MOST_PLANES;
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
  note_left_out(s);
  reader->header = s->page.header;
  reader->header.frames = s->page_count;
  reader->open_ended = reader->apart[0];
  GCONV_TRY(gconv_tiff_begin_page(s, 0));
  reader->held += table_of(s);
  reader->bytes += s->page_bytes + table_of(s) * (opens_for_all(&s->page) ? (size_t)gconv_threads_allowed(0) + 1 : 1);
  return read_metadata(s, reader);
}

gconv_status gconv_tiff_take_palette(gconv_reader *reader, gconv_palette *palette) {
  gconv_tiff_reading *s = reader->state;
  if (s->page.colour != GCONV_TIFF_PALETTE || s->page_count != 1)
    return GCONV_OK;
  *palette = (gconv_palette){.count = 1 << s->page.bits};
  memcpy(palette->colours, s->page.palette, sizeof palette->colours);
  s->page.colour = GCONV_TIFF_INDICES;
  s->page.header.channels = reader->header.channels = 1;
  return GCONV_OK;
}

void gconv_tiff_close_reader(gconv_reader *reader) {
  gconv_tiff_reading *s = reader->state;
  if (!s)
    return;
  bool shone = false;
  for (size_t i = 0; i < s->seat_count; i++) {
    gconv_tiff_seat *its = &s->seats[i];
    gconv_rounding_join(&reader->rounding, &its->rounding);
    shone |= its->shone;
    gconv_tiff_close(&its->file);
    gconv_release(its->raw);
    gconv_release(its->block);
    gconv_release(its->samples);
    gconv_release(its->inflate);
  }
  if (shone && !reader->again)
    gconv_warn("%s: colours that are larger than their alpha are lost: they were multiplied by it, and results have alpha "
               "beside plain colours",
               reader->source->name);
  free(s->seats);
  free(s->pages);
  gconv_release(s->buffer);
  gconv_release(s->held);
  pthread_mutex_destroy(&s->lock);
}

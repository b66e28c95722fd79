/* SPDX-License-Identifier: MIT */
/*
 * EXIF in TIFF. A block of EXIF is laid out like a small TIFF, and a TIFF has the directories of EXIF among its own. So
 * reading and writing are the same work: directories are copied from one to the other, with their values. All positions
 * change. The byte order may change, and so may the size of an entry, which is larger in BigTIFF. The bytes of UNDEFINED
 * values stay as they are.
 *
 * The file may be damaged or made to do harm: each position and size is checked, and the copy has a limit.
 */
#include "image/directory.h"
#include "image/metadata.h"
#include "image/tiff.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 8 };

/* How deep a directory is. */
typedef enum level { MAIN, CAMERA, LAST } level;

/* The copy. */
typedef struct target {
  uint8_t *bytes; /* zeros after `size` */
  size_t size, room;
  uint64_t base; /* the position of bytes[0] in the file */
  bool big_endian;
  size_t wide;          /* bytes of a count or position in an entry: 4; in BigTIFF 8 */
  size_t kept, damaged; /* entries of EXIF's main directory; entries that are left out */
} target;

/* ---- Bytes ---- */

static void put(const target *to, size_t at, uint64_t number, size_t bytes) {
  gconv_put_number(to->bytes + at, number, bytes, to->big_endian);
}

static bool make_target(target *to, uint64_t size) {
  to->room = size < GCONV_TIFF_MOST_VALUE / 2 ? 2 * (size_t)size + 4096 : GCONV_TIFF_MOST_VALUE;
  to->bytes = calloc(to->room, 1);
  return to->bytes != NULL;
}

static void free_target(target *to) {
  free(to->bytes);
}

/* Appends `bytes` zeros, from an even position on. *at becomes this position. Returns false if there is not enough room. */
static bool reserve(target *to, size_t bytes, size_t *at) {
  *at = (to->size + 1) & ~(size_t)1;
  if (*at > to->room || bytes > to->room - *at)
    return false;
  to->size = *at + bytes;
  return true;
}

/* ---- Entries ---- */

/* Copies the entry to to->bytes + slot. A value that is too large for the entry is appended to to->bytes. */
static bool copy_entry(const gconv_tiff_origin *from, const gconv_tiff_entry *e, target *to, size_t slot) {
  size_t place = slot + 4 + to->wide, size = to->size;
  size_t item = e->type == GCONV_TIFF_RATIONAL || e->type == GCONV_TIFF_SIGNED_RATIONAL ? 4 : gconv_tiff_type_bytes[e->type];
  if (e->bytes > to->wide && !reserve(to, e->bytes, &place))
    return false;
  if (!gconv_tiff_fetch(from, e->value, to->bytes + place, e->bytes)) {
    to->size = size;
    return false;
  }
  if (from->big_endian != to->big_endian && item > 1)
    gconv_swap_bytes(to->bytes + place, e->bytes / item, item);
  put(to, slot, e->tag, 2);
  put(to, slot + 2, e->type, 2);
  put(to, slot + 4, e->count, to->wide);
  if (e->bytes > to->wide)
    put(to, slot + 4 + to->wide, to->base + place, to->wide);
  return true;
}

/* ---- Directories ---- */

/* Returns whether an entry of a TIFF's own directory is also one of EXIF. All such entries are text. */
static bool is_text_of_exif(unsigned tag) {
  return tag == TIFFTAG_MAKE || tag == TIFFTAG_MODEL || tag == TIFFTAG_SOFTWARE || tag == TIFFTAG_DATETIME ||
         tag == TIFFTAG_ARTIST || tag == TIFFTAG_HOSTCOMPUTER || tag == TIFFTAG_COPYRIGHT;
}

static bool copy_directory(const gconv_tiff_origin *from, uint64_t at, level depth, target *to, uint64_t *position);

/* Copies the directory to which the entry leads, and makes an entry that leads to the copy. */
static bool follow(const gconv_tiff_origin *from, const gconv_tiff_entry *e, level depth, target *to, uint64_t *position) {
  uint8_t bytes[8];
  bool expected = e->tag == GCONV_EXIF_INTEROPERABILITY ? depth == CAMERA : depth == MAIN;
  return expected && e->count == 1 && (e->bytes == 4 || e->bytes == 8) &&
         gconv_tiff_fetch(from, e->value, bytes, e->bytes) &&
         copy_directory(from, gconv_tiff_number(from, bytes, e->bytes), e->tag == TIFFTAG_EXIFIFD ? CAMERA : LAST, to,
                        position);
}

static bool copy_or_follow(const gconv_tiff_origin *from, const gconv_tiff_entry *e, level depth, target *to, size_t slot) {
  uint64_t position;
  if (!gconv_exif_leads_on(e->tag))
    return e->type < GCONV_TIFF_TYPES_OF_EXIF && copy_entry(from, e, to, slot);
  if (!follow(from, e, depth, to, &position))
    return false;
  put(to, slot, e->tag, 2);
  put(to, slot + 2, GCONV_TIFF_LONG, 2);
  put(to, slot + 4, 1, to->wide);
  put(to, slot + 4 + to->wide, position, 4);
  return true;
}

/* Copies the directory at `at`. Of a TIFF's main directory, copies only the entries that belong to EXIF. */
static bool copy_directory(const gconv_tiff_origin *from, uint64_t at, level depth, target *to, uint64_t *position) {
  size_t entries, begin, slot, kept = 0, count_bytes = to->wide == 8 ? 8 : 2, entry_bytes = 4 + 2 * to->wide;
  if (!gconv_tiff_read_count(from, &at, &entries) || !reserve(to, count_bytes + entries * entry_bytes + to->wide, &begin))
    return false;
  slot = begin + count_bytes;
  for (size_t i = 0; i < entries; i++, at += gconv_tiff_entry_bytes(from)) {
    gconv_tiff_entry e;
    bool read = gconv_tiff_read_entry(from, at, &e);
    if (depth == MAIN && !is_text_of_exif(e.tag) && !gconv_exif_leads_on(e.tag))
      continue;
    if (!read || !copy_or_follow(from, &e, depth, to, slot)) {
      to->damaged++;
      memset(to->bytes + slot, 0, entry_bytes);
      continue;
    }
    slot += entry_bytes;
    kept++;
  }
  put(to, begin, kept, count_bytes);
  to->kept = kept; /* the main directory is completed last, so its number stays */
  *position = to->base + begin;
  return true;
}

/* ---- Reading ---- */

gconv_status gconv_tiff_read_exif(gconv_reader *reader, const gconv_source *source, uint64_t directory) {
  uint64_t position;
  gconv_tiff_origin from;
  if (!gconv_tiff_find_origin(source, &from))
    return GCONV_OK;
  GCONV_ENDED_BY(free_target) target to = {.big_endian = from.big_endian, .wide = 4, .size = HEADER_BYTES};
  GCONV_NEED_MEMORY(make_target(&to, source->size), "no memory for EXIF");
  memset(to.bytes, from.big_endian ? 'M' : 'I', 2);
  put(&to, 2, 42, 2);
  put(&to, 4, HEADER_BYTES, 4);
  if (copy_directory(&from, directory, MAIN, &to, &position) && to.kept > 0)
    GCONV_TRY(gconv_metadata_set_exif(&reader->header, to.bytes, to.size));
  if (to.damaged > 0)
    gconv_reader_note(reader, "%zu damaged entr%s left out", to.damaged,
                      to.damaged == 1 ? "y of its EXIF is" : "ies of its EXIF are");
  return GCONV_OK;
}

/* ---- Writing ---- */

/* Returns whether an entry is not needed: other tags of the TIFF say the same, or it describes nothing that results have. */
static bool is_said_otherwise(unsigned tag) {
  enum { PADDING = 0xea1c };
  return (tag >= TIFFTAG_SUBFILETYPE && tag < TIFFTAG_DOCUMENTNAME) || (tag > TIFFTAG_MODEL && tag < TIFFTAG_SOFTWARE) ||
         tag == TIFFTAG_WHITEPOINT || tag == TIFFTAG_PRIMARYCHROMATICITIES ||
         (tag >= TIFFTAG_YCBCRCOEFFICIENTS && tag <= TIFFTAG_REFERENCEBLACKWHITE) || tag == PADDING;
}

/* Sets a tag to the text of the entry. A description becomes the comment of `description` instead, unless that has one. */
static gconv_status set_text(const gconv_tiff_origin *from, const gconv_tiff_entry *e, TIFF *handle,
                             gconv_image *description, bool *done) {
  GCONV_FREED char *text = NULL;
  *done = false;
  if (e->type != GCONV_TIFF_ASCII || e->value > from->source->size || e->bytes > from->source->size - e->value)
    return GCONV_OK;
  GCONV_ALLOCATE(text, e->bytes + 1, "EXIF");
  memset(text, 0, e->bytes + 1);
  size_t length = 0;
  *done = gconv_tiff_fetch(from, e->value, text, e->bytes) && !(e->tag == TIFFTAG_IMAGEDESCRIPTION && description->comment);
  if (*done && e->tag == TIFFTAG_IMAGEDESCRIPTION)
    return gconv_metadata_add_comment(description, &length, text, strlen(text));
  if (*done)
    gconv_tiff.TIFFSetField(handle, e->tag, text);
  return GCONV_OK;
}

/* Sets the tags that EXIF's main directory has, and copies the directories to which it leads. */
static gconv_status set_tags(const gconv_tiff_origin *from, target *to, TIFF *handle, gconv_image *description) {
  uint8_t head[4];
  size_t entries = 0;
  uint64_t at = gconv_tiff_fetch(from, 4, head, sizeof head) ? gconv_tiff_number(from, head, sizeof head) : 0, position;
  if (!gconv_tiff_read_count(from, &at, &entries))
    return GCONV_OK;
  for (size_t i = 0; i < entries; i++, at += gconv_tiff_entry_bytes(from)) {
    gconv_tiff_entry e;
    bool done = false;
    if (!gconv_tiff_read_entry(from, at, &e)) {
      to->damaged++;
    } else if (is_text_of_exif(e.tag) || e.tag == TIFFTAG_IMAGEDESCRIPTION) {
      GCONV_TRY(set_text(from, &e, handle, description, &done));
      to->damaged += !done;
    } else if (gconv_exif_leads_on(e.tag)) {
      /* libtiff before 4.2 does not know GPS. */
      done = gconv_tiff.TIFFFindField(handle, e.tag, TIFF_ANY) && follow(from, &e, MAIN, to, &position);
      to->damaged += !done;
      if (done)
        gconv_tiff.TIFFSetField(handle, e.tag, position);
    } else {
      to->damaged += !is_said_otherwise(e.tag);
    }
  }
  return GCONV_OK;
}

gconv_status gconv_tiff_write_exif(gconv_tiff_file *file, bool big, const gconv_image *header, gconv_image *description) {
  gconv_source block;
  uint8_t *bytes = header->exif;
  if (!bytes || header->exif_bytes < HEADER_BYTES)
    return GCONV_OK;
  gconv_source_of_bytes(file->name, bytes, header->exif_bytes, &block);
  const gconv_tiff_origin from = {.source = &block, .big_endian = bytes[0] == 'M', .wide = 4};
  GCONV_ENDED_BY(free_target) target to = {.base = file->end, .big_endian = gconv_host_is_big_endian(), .wide = big ? 8 : 4};
  GCONV_NEED_MEMORY(make_target(&to, header->exif_bytes), "no memory for EXIF");
  GCONV_TRY(set_tags(&from, &to, file->handle, description));
  if (to.size > 0)
    GCONV_TRY(gconv_tiff_append(file, to.bytes, to.size));
  if (to.damaged > 0)
    gconv_warn_once("EXIF left out", "%s: %zu entr%s left out: TIFF has no place for %s", file->name, to.damaged,
                    to.damaged == 1 ? "y of its EXIF is" : "ies of its EXIF are", to.damaged == 1 ? "it" : "them");
  return GCONV_OK;
}

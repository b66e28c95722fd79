/* SPDX-License-Identifier: MIT */
/*
 * EXIF in TIFF. A block of EXIF is laid out like a small TIFF, and a TIFF has the directories of EXIF among its own. So
 * reading and writing are the same work: directories are copied from one to the other, with their values. All positions
 * change, and the byte order and the size of an entry may, which is larger in BigTIFF. The bytes of UNDEFINED values stay as
 * they are.
 *
 * The origin may be damaged or made to do harm: each position and size is checked, and the copy has a limit.
 */
#include "image/metadata.h"
#include "image/tiff.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 8, MOST_ENTRIES = 4096, MOST_BYTES = 16 << 20, ENTRY_BYTES = 20 };
enum { TYPE_ASCII = 2, TYPE_LONG = 4, TYPE_RATIONAL = 5, TYPE_SIGNED_RATIONAL = 10, TYPES_OF_EXIF = 14, TYPES = 19 };
enum { TAG_INTEROPERABILITY = 0xa005 };

/* How deep a directory is. */
typedef enum level { MAIN, CAMERA, LAST } level;

/* Where directories come from. `wide` is the size of positions: 4, or 8 in BigTIFF. */
typedef struct origin {
  const gconv_source *source;
  bool big_endian;
  size_t wide;
} origin;

/* The copy. */
typedef struct target {
  uint8_t *bytes; /* zeros behind `size` */
  size_t size, room;
  uint64_t base; /* the position of bytes[0] in the file */
  bool big_endian;
  size_t wide;
  bool worthwhile; /* there is more than the name of a program, and when it ran */
  size_t damaged;  /* entries that are left out */
} target;

typedef struct entry {
  unsigned tag, type;
  uint64_t count, value; /* value: its position */
  size_t bytes;
} entry;

/* ---- Bytes ---- */

static bool fetch(const origin *from, uint64_t at, void *bytes, size_t size) {
  size_t got = 0;
  return at <= from->source->size && size <= from->source->size - at &&
         gconv_source_read_at(from->source, at, bytes, size, &got) == GCONV_OK && got == size;
}

static void put(const target *to, size_t at, uint64_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    to->bytes[at + i] = (uint8_t)(number >> 8 * (to->big_endian ? bytes - 1 - i : i));
}

static bool make_target(target *to, uint64_t size) {
  to->room = size < MOST_BYTES / 2 ? 2 * (size_t)size + 4096 : MOST_BYTES;
  to->bytes = calloc(to->room, 1);
  return to->bytes != NULL;
}

/* Appends zeros, from an even position on, which *at becomes. Returns false if that is more than there is room for. */
static bool reserve(target *to, size_t bytes, size_t *at) {
  *at = (to->size + 1) & ~(size_t)1;
  if (*at > to->room || bytes > to->room - *at)
    return false;
  to->size = *at + bytes;
  return true;
}

/* ---- Entries ---- */

/* The last three are those of positions in BigTIFF. */
static const uint8_t type_bytes[TYPES] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};

static uint64_t number_in(const origin *from, const uint8_t *bytes, size_t count) {
  return gconv_bytes_number(bytes, count, from->big_endian);
}

/* Reads the count of a directory, and makes *at the position of its first entry. */
static bool read_count(const origin *from, uint64_t *at, size_t *entries) {
  uint8_t bytes[8];
  size_t size = from->wide == 8 ? 8 : 2;
  if (!fetch(from, *at, bytes, size))
    return false;
  uint64_t count = number_in(from, bytes, size);
  *at += size;
  *entries = (size_t)count;
  return count <= MOST_ENTRIES;
}

/* Reads the entry at `at`. Returns false if its type is unknown, or it is larger than any value that is kept. */
static bool read_entry(const origin *from, uint64_t at, entry *e) {
  uint8_t bytes[ENTRY_BYTES];
  *e = (entry){0};
  if (!fetch(from, at, bytes, 4 + 2 * from->wide))
    return false;
  e->tag = (unsigned)number_in(from, bytes, 2);
  e->type = (unsigned)number_in(from, bytes + 2, 2);
  e->count = number_in(from, bytes + 4, from->wide);
  if (e->type >= TYPES || type_bytes[e->type] == 0 || e->count > MOST_BYTES)
    return false;
  e->bytes = (size_t)e->count * type_bytes[e->type];
  e->value = e->bytes > from->wide ? number_in(from, bytes + 4 + from->wide, from->wide) : at + 4 + from->wide;
  return true;
}

/* Copies the entry to to->bytes + slot, and a value that is too large for it behind all. */
static bool copy_entry(const origin *from, const entry *e, target *to, size_t slot) {
  size_t place = slot + 4 + to->wide, size = to->size;
  size_t item = e->type == TYPE_RATIONAL || e->type == TYPE_SIGNED_RATIONAL ? 4 : type_bytes[e->type];
  if (e->bytes > to->wide && !reserve(to, e->bytes, &place))
    return false;
  if (!fetch(from, e->value, to->bytes + place, e->bytes)) {
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

static bool is_pointer(unsigned tag) {
  return tag == TIFFTAG_EXIFIFD || tag == TIFFTAG_GPSIFD || tag == TAG_INTEROPERABILITY;
}

/* Whether the entry of a TIFF's own directory is one of EXIF, too. All of these are text. */
static bool is_text_of_exif(unsigned tag) {
  return tag == TIFFTAG_MAKE || tag == TIFFTAG_MODEL || tag == TIFFTAG_SOFTWARE || tag == TIFFTAG_DATETIME ||
         tag == TIFFTAG_ARTIST || tag == TIFFTAG_HOSTCOMPUTER || tag == TIFFTAG_COPYRIGHT;
}

static bool copy_directory(const origin *from, uint64_t at, level depth, target *to, uint64_t *position);

/* Copies the directory to which the entry leads, and makes an entry that leads to the copy. */
static bool follow(const origin *from, const entry *e, level depth, target *to, uint64_t *position) {
  uint8_t bytes[8];
  bool expected = e->tag == TAG_INTEROPERABILITY ? depth == CAMERA : depth == MAIN;
  return expected && e->count == 1 && (e->bytes == 4 || e->bytes == 8) && fetch(from, e->value, bytes, e->bytes) &&
         copy_directory(from, number_in(from, bytes, e->bytes), e->tag == TIFFTAG_EXIFIFD ? CAMERA : LAST, to, position);
}

static bool copy_or_follow(const origin *from, const entry *e, level depth, target *to, size_t slot) {
  uint64_t position;
  if (!is_pointer(e->tag))
    return e->type < TYPES_OF_EXIF && copy_entry(from, e, to, slot);
  if (!follow(from, e, depth, to, &position))
    return false;
  put(to, slot, e->tag, 2);
  put(to, slot + 2, TYPE_LONG, 2);
  put(to, slot + 4, 1, to->wide);
  put(to, slot + 4 + to->wide, position, 4);
  return true;
}

/* Copies the directory at `at`; of the main one, only what is EXIF. */
static bool copy_directory(const origin *from, uint64_t at, level depth, target *to, uint64_t *position) {
  size_t entries, begin, slot, kept = 0, count_bytes = to->wide == 8 ? 8 : 2, entry_bytes = 4 + 2 * to->wide;
  if (!read_count(from, &at, &entries) || !reserve(to, count_bytes + entries * entry_bytes + to->wide, &begin))
    return false;
  slot = begin + count_bytes;
  for (size_t i = 0; i < entries; i++, at += 4 + 2 * from->wide) {
    entry e;
    bool read = read_entry(from, at, &e);
    if (depth == MAIN && !is_text_of_exif(e.tag) && !is_pointer(e.tag))
      continue;
    if (!read || !copy_or_follow(from, &e, depth, to, slot)) {
      to->damaged++;
      memset(to->bytes + slot, 0, entry_bytes);
      continue;
    }
    to->worthwhile |= e.tag != TIFFTAG_SOFTWARE && e.tag != TIFFTAG_DATETIME && e.tag != TIFFTAG_HOSTCOMPUTER;
    slot += entry_bytes;
    kept++;
  }
  put(to, begin, kept, count_bytes);
  *position = to->base + begin;
  return true;
}

/* ---- Reading ---- */

gconv_status gconv_tiff_read_exif(gconv_reader *reader, const gconv_source *source, uint64_t directory) {
  uint8_t head[4];
  uint64_t position;
  origin from = {.source = source, .wide = 4};
  if (!fetch(&from, 0, head, sizeof head))
    return GCONV_OK;
  from.big_endian = head[0] == 'M';
  from.wide = head[2] == '+' || head[3] == '+' ? 8 : 4;
  target to = {.big_endian = from.big_endian, .wide = 4, .size = HEADER_BYTES};
  if (!make_target(&to, source->size))
    return gconv_fail(GCONV_NO_MEMORY, "no memory for EXIF");
  memcpy(to.bytes, head, 2);
  put(&to, 2, 42, 2);
  put(&to, 4, HEADER_BYTES, 4);
  gconv_status status = GCONV_OK;
  if (copy_directory(&from, directory, MAIN, &to, &position) && to.worthwhile)
    status = gconv_metadata_set_exif(&reader->header, to.bytes, to.size);
  if (to.damaged > 0)
    gconv_reader_note(reader, "%zu damaged entr%s left out", to.damaged,
                      to.damaged == 1 ? "y of its EXIF is" : "ies of its EXIF are");
  free(to.bytes);
  return status;
}

/* ---- Writing ---- */

/* Entries that say what other tags of a TIFF say, or what a result does not have. */
static bool is_said_otherwise(unsigned tag) {
  enum { PADDING = 0xea1c };
  return (tag >= TIFFTAG_SUBFILETYPE && tag < TIFFTAG_DOCUMENTNAME) || (tag > TIFFTAG_MODEL && tag < TIFFTAG_SOFTWARE) ||
         tag == TIFFTAG_WHITEPOINT || tag == TIFFTAG_PRIMARYCHROMATICITIES ||
         (tag >= TIFFTAG_YCBCRCOEFFICIENTS && tag <= TIFFTAG_REFERENCEBLACKWHITE) || tag == PADDING;
}

/* Sets a tag to the text of the entry. That of the description goes before the comment. */
static gconv_status set_text(const origin *from, const entry *e, TIFF *handle, gconv_image *description, bool *done) {
  void *text = NULL;
  *done = false;
  if (e->type != TYPE_ASCII || e->value > from->source->size || e->bytes > from->source->size - e->value)
    return GCONV_OK;
  GCONV_TRY(gconv_allocate(e->bytes + 1, "EXIF", &text));
  memset(text, 0, e->bytes + 1);
  gconv_status status = GCONV_OK;
  size_t length = 0;
  *done = fetch(from, e->value, text, e->bytes) && !(e->tag == TIFFTAG_IMAGEDESCRIPTION && description->comment);
  if (*done && e->tag == TIFFTAG_IMAGEDESCRIPTION)
    status = gconv_metadata_add_comment(description, &length, text, strlen(text));
  else if (*done)
    gconv_tiff.TIFFSetField(handle, e->tag, (const char *)text);
  gconv_release(text);
  return status;
}

/* Sets the tags that EXIF's main directory has, and copies the directories to which it leads. */
static gconv_status set_tags(const origin *from, target *to, TIFF *handle, gconv_image *description) {
  uint8_t head[4];
  size_t entries = 0;
  uint64_t at = fetch(from, 4, head, sizeof head) ? number_in(from, head, sizeof head) : 0, position;
  if (!read_count(from, &at, &entries))
    return GCONV_OK;
  for (size_t i = 0; i < entries; i++, at += 4 + 2 * from->wide) {
    entry e;
    bool done = false;
    if (!read_entry(from, at, &e)) {
      to->damaged++;
    } else if (is_text_of_exif(e.tag) || e.tag == TIFFTAG_IMAGEDESCRIPTION) {
      GCONV_TRY(set_text(from, &e, handle, description, &done));
      to->damaged += !done;
    } else if (is_pointer(e.tag)) {
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
  const origin from = {.source = &block, .big_endian = bytes[0] == 'M', .wide = 4};
  target to = {.base = file->end, .big_endian = gconv_host_is_big_endian(), .wide = big ? 8 : 4};
  if (!make_target(&to, header->exif_bytes))
    return gconv_fail(GCONV_NO_MEMORY, "no memory for EXIF");
  gconv_status status = set_tags(&from, &to, file->handle, description);
  if (status == GCONV_OK && to.size > 0)
    status = gconv_tiff_append(file, to.bytes, to.size);
  if (to.damaged > 0)
    gconv_warn_once("EXIF left out", "%s: %zu entr%s left out: TIFF has no place for %s", file->name, to.damaged,
                    to.damaged == 1 ? "y of its EXIF is" : "ies of its EXIF are", to.damaged == 1 ? "it" : "them");
  free(to.bytes);
  return status;
}

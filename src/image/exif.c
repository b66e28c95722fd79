/* SPDX-License-Identifier: MIT */
#include "image/exif.h"
#include "image/directory.h"

#include <string.h>

/* TIFF 6.0: byte order, 42, the position of the main directory. A directory is a count, entries, and the position of the
 * next directory, which is the thumbnail's. An entry is a tag, a type, a count, and the value, or its position if it has
 * more than 4 bytes. */
enum { HEADER_BYTES = 8, COUNT_BYTES = 2, ENTRY_BYTES = 12, NEXT_BYTES = 4, INLINE_BYTES = 4 };

enum {
  TAG_WIDTH = 0x100,
  TAG_HEIGHT = 0x101,
  TAG_STRIPS = 0x111,
  TAG_ORIENTATION = 0x112,
  TAG_STRIP_SIZES = 0x117,
  TAG_X_RESOLUTION = 0x11a,
  TAG_Y_RESOLUTION = 0x11b,
  TAG_UNIT = 0x128,
  TAG_TILES = 0x144,
  TAG_TILE_SIZES = 0x145,
  TAG_SUB_IMAGES = 0x14a,
  TAG_JPEG = 0x201,
  TAG_JPEG_SIZE = 0x202,
  TAG_CAMERA_WIDTH = 0xa002,
  TAG_CAMERA_HEIGHT = 0xa003,
};

typedef struct directory {
  size_t at, entries;
  size_t bytes; /* bytes of the count and the entries; of the main directory, also of the position of the next one */
} directory;

enum { MOST_DIRECTORIES = 4 }; /* main, camera, GPS, interoperability */
enum { MOST_OVERLAP = 8 };     /* all values together have at most this many times the bytes of the block */

typedef struct block {
  const uint8_t *bytes;
  size_t size;
  bool big_endian;
  gconv_source source; /* gives `bytes` to the functions of directory.h */
  gconv_tiff_origin from;
  uint8_t *copy;
  size_t copy_size;
  directory found[MOST_DIRECTORIES]; /* the main one first */
  size_t count;
  gconv_exif *exif;
  size_t resolution[2]; /* positions of the main directory's entries for the resolutions in x and y; 0: there is none */
} block;

/* ---- Numbers ---- */

static uint32_t number_at(const block *b, size_t at, size_t bytes) {
  return (uint32_t)gconv_bytes_number(b->bytes + at, bytes, b->big_endian);
}

/* ---- Entries ---- */

static void set_origin(block *b) {
  gconv_source_of_bytes("EXIF", (uint8_t *)(uintptr_t)b->bytes, b->size, &b->source); /* the source only reads the bytes */
  b->from = (gconv_tiff_origin){.source = &b->source, .big_endian = b->big_endian, .wide = 4};
}

/* Reads entry `i`. Returns false if its type is unknown, or its value lies outside the block. */
static bool read_entry(const block *b, const directory *d, size_t i, gconv_tiff_entry *e) {
  bool known = gconv_tiff_read_entry(&b->from, d->at + COUNT_BYTES + i * ENTRY_BYTES, e);
  if (!known || e->type >= GCONV_TIFF_TYPES_OF_EXIF || e->count > b->size)
    return false;
  return e->bytes <= INLINE_BYTES || (e->value >= HEADER_BYTES && e->value <= b->size && e->bytes <= b->size - e->value);
}

/* Finds the entry for `tag`, with one value of the type, in the directory. */
static bool find_entry(const block *b, const directory *d, unsigned tag, unsigned type, gconv_tiff_entry *e) {
  for (size_t i = 0; i < d->entries; i++)
    if (read_entry(b, d, i, e) && e->tag == tag && e->type == type && e->bytes == gconv_tiff_type_bytes[type])
      return true;
  return false;
}

/* Returns whether the entry leads to the pixels of a thumbnail or preview, which the copy leaves out. */
static bool names_pixels(unsigned tag) {
  return tag == TAG_STRIPS || tag == TAG_STRIP_SIZES || tag == TAG_TILES || tag == TAG_TILE_SIZES || tag == TAG_SUB_IMAGES ||
         tag == TAG_JPEG || tag == TAG_JPEG_SIZE;
}

/* ---- Directories ---- */

/* Adds the directory at `at` to those found. Returns false if it lies outside the block, or overlaps one that was found. */
static bool add_directory(block *b, size_t at) {
  if (b->count == MOST_DIRECTORIES || at < HEADER_BYTES || at > b->size || b->size - at < COUNT_BYTES)
    return false;
  directory d = {.at = at, .entries = number_at(b, at, COUNT_BYTES)};
  size_t room = (b->size - at - COUNT_BYTES) / ENTRY_BYTES;
  if (d.entries > room && (b->count > 0 || room == 0))
    return false;
  if (d.entries > room) { /* the block was cut, but may still have its orientation */
    b->exif->damaged += d.entries - room;
    d.entries = room;
  }
  d.bytes = COUNT_BYTES + d.entries * ENTRY_BYTES + (b->count == 0 ? NEXT_BYTES : 0);
  for (size_t i = 0; i < b->count; i++)
    if (at < b->found[i].at + b->found[i].bytes && b->found[i].at < at + d.bytes)
      return false;
  b->found[b->count++] = d;
  return true;
}

/* Adds the directory to which the entry for `tag` in directory `i` leads, if there is such an entry. */
static void follow(block *b, size_t i, unsigned tag) {
  gconv_tiff_entry e;
  if (find_entry(b, &b->found[i], tag, GCONV_TIFF_LONG, &e))
    add_directory(b, number_at(b, e.value, 4));
}

static bool find_directories(block *b) {
  if (!add_directory(b, number_at(b, 4, 4)))
    return false;
  follow(b, 0, GCONV_EXIF_CAMERA);
  size_t camera = b->count - 1;
  if (camera > 0)
    follow(b, camera, GCONV_EXIF_INTEROPERABILITY);
  follow(b, 0, GCONV_EXIF_GPS);
  return true;
}

static bool is_found(const block *b, size_t at) {
  for (size_t i = 1; i < b->count; i++)
    if (b->found[i].at == at)
      return true;
  return false;
}

/* ---- Facts about the pixels ---- */

static double resolution_of(block *b, unsigned tag) {
  enum { PER_CENTIMETRE = 3, NO_UNIT = 1 };
  gconv_tiff_entry value, unit;
  bool found = find_entry(b, &b->found[0], tag, GCONV_TIFF_RATIONAL, &value);
  b->resolution[tag == TAG_Y_RESOLUTION] = found ? (size_t)value.at : 0;
  unsigned kind = 0;
  if (find_entry(b, &b->found[0], TAG_UNIT, GCONV_TIFF_SHORT, &unit))
    kind = number_at(b, unit.value, 2);
  if (kind == NO_UNIT || !found)
    return 0;
  double above = number_at(b, value.value, 4), below = number_at(b, value.value + 4, 4);
  return below > 0 ? above / below * (kind == PER_CENTIMETRE ? 100 : 1 / 0.0254) : 0;
}

static void read_facts(block *b) {
  gconv_tiff_entry e;
  if (find_entry(b, &b->found[0], TAG_ORIENTATION, GCONV_TIFF_SHORT, &e)) {
    unsigned orientation = number_at(b, e.value, 2);
    b->exif->orientation = orientation >= 1 && orientation <= 8 ? (int)orientation : 0;
  }
  b->exif->pixels_per_metre_x = resolution_of(b, TAG_X_RESOLUTION);
  b->exif->pixels_per_metre_y = resolution_of(b, TAG_Y_RESOLUTION);
}

/* ---- The copy ---- */

/* Returns whether the values together have at most MOST_OVERLAP times `size` bytes, the size of a block. Values may lie on
 * each other: some writers store one number for two entries. But thousands of entries as large as the block would take
 * hours. */
static bool has_sound_values(const block *b, size_t size) {
  size_t left = MOST_OVERLAP * size;
  for (size_t d = 0; d < b->count; d++)
    for (size_t i = 0; i < b->found[d].entries; i++) {
      gconv_tiff_entry e;
      if (!read_entry(b, &b->found[d], i, &e))
        continue;
      if (e.bytes > left)
        return false;
      left -= e.bytes;
    }
  return true;
}

static void keep(block *b, size_t at, size_t bytes) {
  if (at + bytes > b->copy_size)
    b->copy_size = at + bytes;
}

/* Returns whether the entry is copied. */
static bool is_kept(const block *b, const directory *d, size_t i, gconv_tiff_entry *e) {
  if (!read_entry(b, d, i, e) || names_pixels(e->tag))
    return false;
  if (d == &b->found[0] && e->tag == TAG_ORIENTATION)
    return e->type == GCONV_TIFF_SHORT && e->bytes == gconv_tiff_type_bytes[GCONV_TIFF_SHORT];
  return !gconv_exif_leads_on(e->tag) ||
         (e->type == GCONV_TIFF_LONG && e->bytes == 4 && is_found(b, number_at(b, e->value, 4)));
}

static void copy_values(block *b, const directory *d) {
  gconv_tiff_entry e;
  for (size_t i = 0; i < d->entries; i++) {
    if (!is_kept(b, d, i, &e)) {
      b->exif->damaged += !names_pixels(e.tag);
    } else if (e.bytes > INLINE_BYTES) {
      memcpy(b->copy + e.value, b->bytes + e.value, e.bytes);
      keep(b, e.value, e.bytes);
    }
  }
}

/* Writes entry `e` to `to`. The orientation becomes 1. If the image is transposed, its resolutions change places. */
static void copy_entry(const block *b, const directory *d, const gconv_tiff_entry *e, uint8_t *to) {
  bool main = d == &b->found[0], swapped = b->exif->orientation >= 5;
  memcpy(to, b->bytes + e->at, ENTRY_BYTES);
  if (main && e->tag == TAG_ORIENTATION)
    gconv_put_number(to + 8, 1, 2, b->big_endian);
  size_t other = e->tag == TAG_X_RESOLUTION ? b->resolution[1] : e->tag == TAG_Y_RESOLUTION ? b->resolution[0] : 0;
  if (main && swapped && other && e->type == GCONV_TIFF_RATIONAL && e->bytes == gconv_tiff_type_bytes[GCONV_TIFF_RATIONAL])
    memcpy(to + 8, b->bytes + other + 8, INLINE_BYTES);
}

/* Copies the entries that are kept, one after the other, and fills the rest of the directory with zeros. The position of
 * the thumbnail's directory becomes 0, too. Comes after all values, so that no value overwrites a directory. */
static void copy_directory(block *b, const directory *d) {
  size_t kept = 0;
  gconv_tiff_entry e;
  uint8_t *to = b->copy + d->at;
  memset(to, 0, d->bytes);
  for (size_t i = 0; i < d->entries; i++)
    if (is_kept(b, d, i, &e))
      copy_entry(b, d, &e, to + COUNT_BYTES + kept++ * ENTRY_BYTES);
  gconv_put_number(to, (uint32_t)kept, COUNT_BYTES, b->big_endian);
  keep(b, d->at, COUNT_BYTES + kept * ENTRY_BYTES + NEXT_BYTES);
}

size_t gconv_exif_room(size_t size) {
  return size + NEXT_BYTES; /* some writers forget these bytes after the last directory */
}

const char *gconv_exif_read(const uint8_t *bytes, size_t size, uint8_t *copy, size_t *copy_size, gconv_exif *exif) {
  *exif = (gconv_exif){0};
  if (size < HEADER_BYTES || (memcmp(bytes, "II", 2) != 0 && memcmp(bytes, "MM", 2) != 0))
    return "it does not begin as EXIF does";
  block b = {.bytes = bytes, .size = size, .big_endian = bytes[0] == 'M', .copy = copy, .exif = exif};
  set_origin(&b);
  if (number_at(&b, 2, 2) != 42)
    return "it does not begin as EXIF does";
  if (!find_directories(&b))
    return "its directory of entries is damaged";
  static const char shared[] = "its entries share their bytes over and over";
  if (!has_sound_values(&b, b.size))
    return shared;
  read_facts(&b);
  memset(copy, 0, gconv_exif_room(size));
  for (size_t i = 0; i < b.count; i++)
    copy_values(&b, &b.found[i]);
  for (size_t i = 0; i < b.count; i++)
    copy_directory(&b, &b.found[i]);
  memcpy(copy, bytes, HEADER_BYTES);
  *copy_size = b.copy_size;
  return has_sound_values(&b, b.copy_size) ? NULL : shared; /* the copy is smaller, and will be read and checked again */
}

/* ---- The size of the image ---- */

static void set_number(uint8_t *block_bytes, const block *b, size_t i, unsigned tag, int32_t number) {
  for (unsigned type = GCONV_TIFF_SHORT; type <= GCONV_TIFF_LONG; type++) {
    gconv_tiff_entry e;
    if (!find_entry(b, &b->found[i], tag, type, &e))
      continue;
    uint8_t *at = block_bytes + e.at;
    bool fits = type == GCONV_TIFF_LONG || number <= UINT16_MAX;
    gconv_put_number(at + 2, fits ? type : GCONV_TIFF_LONG, 2, b->big_endian);
    gconv_put_number(at + 4, 1, 4, b->big_endian);
    gconv_put_number(at + 8, (uint32_t)number, fits && type == GCONV_TIFF_SHORT ? 2 : 4, b->big_endian);
    return;
  }
}

void gconv_exif_set_size(uint8_t *bytes, size_t size, int32_t width, int32_t height) {
  gconv_exif ignored = {0};
  block b = {.bytes = bytes, .size = size, .big_endian = size > 0 && bytes[0] == 'M', .exif = &ignored};
  set_origin(&b);
  if (size < HEADER_BYTES || !find_directories(&b))
    return;
  set_number(bytes, &b, 0, TAG_WIDTH, width);
  set_number(bytes, &b, 0, TAG_HEIGHT, height);
  for (size_t i = 1; i < b.count; i++) {
    set_number(bytes, &b, i, TAG_CAMERA_WIDTH, width);
    set_number(bytes, &b, i, TAG_CAMERA_HEIGHT, height);
  }
}

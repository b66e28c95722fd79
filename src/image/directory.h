/* SPDX-License-Identifier: MIT */
/* Reads the entries of TIFF directories as they are in the file, for tags that libtiff does not know. EXIF is laid out like
 * a small TIFF. The file may be damaged or made to do harm: each position and size is checked. */
#pragma once

#include "image/format.h"

enum { GCONV_TIFF_MOST_ENTRIES = 4096, GCONV_TIFF_MOST_VALUE = 16 << 20 /* bytes */ };
enum {
  GCONV_TIFF_BYTE = 1,
  GCONV_TIFF_ASCII = 2,
  GCONV_TIFF_SHORT = 3,
  GCONV_TIFF_LONG = 4,
  GCONV_TIFF_RATIONAL = 5,
  GCONV_TIFF_SIGNED_RATIONAL = 10,
  GCONV_TIFF_DOUBLE = 12,
  GCONV_TIFF_TYPES_OF_EXIF = 14, /* EXIF has only the types below this number */
  GCONV_TIFF_TYPES = 19
};

enum { GCONV_TIFF_NODATA = 42113 /* GDAL's tag: a number as text; samples equal to it have no data */ };

/* Bytes of a value of each type; 0: there is no such type. */
extern const uint8_t gconv_tiff_type_bytes[GCONV_TIFF_TYPES];

/* Where directories are read. `wide` is the size of positions: 4, or 8 in BigTIFF. */
typedef struct gconv_tiff_origin {
  const gconv_source *source;
  bool big_endian;
  size_t wide;
} gconv_tiff_origin;

typedef struct gconv_tiff_entry {
  unsigned tag, type;
  uint64_t at, count, value; /* at, value: positions of the entry and of its value */
  size_t bytes;
} gconv_tiff_entry;

/* Reads the header of the file. Returns false if there is none. */
bool gconv_tiff_find_origin(const gconv_source *source, gconv_tiff_origin *from);

/* Reads bytes at a position. Returns false if the source ends before. */
bool gconv_tiff_fetch(const gconv_tiff_origin *from, uint64_t at, void *bytes, size_t size);

/* Returns the number that these bytes are, in the byte order of the origin. */
uint64_t gconv_tiff_number(const gconv_tiff_origin *from, const uint8_t *bytes, size_t count);

/* Reads the count of a directory, and makes *at the position of its first entry. Returns false if there is no directory. */
bool gconv_tiff_read_count(const gconv_tiff_origin *from, uint64_t *at, size_t *entries);

/* Reads the entry at `at`. Returns false if its type is unknown, or its value is larger than GCONV_TIFF_MOST_VALUE; its tag
 * is set in any case. */
bool gconv_tiff_read_entry(const gconv_tiff_origin *from, uint64_t at, gconv_tiff_entry *e);

/* Finds the entry of this tag in a directory. Returns false if there is none that can be read. */
bool gconv_tiff_find_entry(const gconv_tiff_origin *from, uint64_t directory, unsigned tag, gconv_tiff_entry *e);

/* Returns the NewSubfileType of a directory; 0 if it has none. */
uint32_t gconv_tiff_subfile_type(const gconv_tiff_origin *from, uint64_t directory);

/* Tags of entries that lead to other directories of EXIF. */
enum { GCONV_EXIF_CAMERA = 0x8769, GCONV_EXIF_GPS = 0x8825, GCONV_EXIF_INTEROPERABILITY = 0xa005 };
static inline bool gconv_exif_leads_on(unsigned tag) {
  return tag == GCONV_EXIF_CAMERA || tag == GCONV_EXIF_GPS || tag == GCONV_EXIF_INTEROPERABILITY;
}

static inline void gconv_put_number(uint8_t *to, uint64_t number, size_t bytes, bool big_endian) {
  for (size_t i = 0; i < bytes; i++)
    to[i] = (uint8_t)(number >> 8 * (big_endian ? bytes - 1 - i : i));
}

/* The bytes of an entry in a directory. */
static inline size_t gconv_tiff_entry_bytes(const gconv_tiff_origin *from) {
  return 4 + 2 * from->wide;
}

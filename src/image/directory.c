/* SPDX-License-Identifier: MIT */
#include "image/directory.h"

/* The last three types, integers of 64 bits, exist only in BigTIFF. */
const uint8_t gconv_tiff_type_bytes[GCONV_TIFF_TYPES] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};

bool gconv_tiff_fetch(const gconv_tiff_origin *from, uint64_t at, void *bytes, size_t size) {
  size_t got = 0;
  return at <= from->source->size && size <= from->source->size - at &&
         gconv_source_read_at(from->source, at, bytes, size, &got) == GCONV_OK && got == size;
}

bool gconv_tiff_find_origin(const gconv_source *source, gconv_tiff_origin *from) {
  uint8_t head[4];
  *from = (gconv_tiff_origin){.source = source, .wide = 4};
  if (!gconv_tiff_fetch(from, 0, head, sizeof head))
    return false;
  from->big_endian = head[0] == 'M';
  from->wide = head[2] == '+' || head[3] == '+' ? 8 : 4;
  return true;
}

uint64_t gconv_tiff_number(const gconv_tiff_origin *from, const uint8_t *bytes, size_t count) {
  return gconv_bytes_number(bytes, count, from->big_endian);
}

bool gconv_tiff_read_count(const gconv_tiff_origin *from, uint64_t *at, size_t *entries) {
  uint8_t bytes[8];
  size_t size = from->wide == 8 ? 8 : 2;
  if (!gconv_tiff_fetch(from, *at, bytes, size))
    return false;
  uint64_t count = gconv_tiff_number(from, bytes, size);
  *at += size;
  *entries = (size_t)count;
  return count <= GCONV_TIFF_MOST_ENTRIES;
}

bool gconv_tiff_read_entry(const gconv_tiff_origin *from, uint64_t at, gconv_tiff_entry *e) {
  uint8_t bytes[20];
  *e = (gconv_tiff_entry){.at = at};
  if (!gconv_tiff_fetch(from, at, bytes, gconv_tiff_entry_bytes(from)))
    return false;
  e->tag = (unsigned)gconv_tiff_number(from, bytes, 2);
  e->type = (unsigned)gconv_tiff_number(from, bytes + 2, 2);
  e->count = gconv_tiff_number(from, bytes + 4, from->wide);
  if (e->type >= GCONV_TIFF_TYPES || gconv_tiff_type_bytes[e->type] == 0 || e->count > GCONV_TIFF_MOST_VALUE)
    return false;
  e->bytes = (size_t)e->count * gconv_tiff_type_bytes[e->type];
  e->value = e->bytes > from->wide ? gconv_tiff_number(from, bytes + 4 + from->wide, from->wide) : at + 4 + from->wide;
  return true;
}

bool gconv_tiff_find_entry(const gconv_tiff_origin *from, uint64_t directory, unsigned tag, gconv_tiff_entry *e) {
  size_t entries;
  if (!gconv_tiff_read_count(from, &directory, &entries))
    return false;
  for (size_t i = 0; i < entries; i++, directory += gconv_tiff_entry_bytes(from))
    if (gconv_tiff_read_entry(from, directory, e) && e->tag == tag)
      return true;
  return false;
}

uint32_t gconv_tiff_subfile_type(const gconv_tiff_origin *from, uint64_t directory) {
  enum { NEW_SUBFILE_TYPE = 254 };
  uint8_t bytes[4];
  gconv_tiff_entry e;
  bool found = gconv_tiff_find_entry(from, directory, NEW_SUBFILE_TYPE, &e) && (e.bytes == 2 || e.bytes == 4) &&
               gconv_tiff_fetch(from, e.value, bytes, e.bytes);
  return found ? (uint32_t)gconv_tiff_number(from, bytes, e.bytes) : 0;
}

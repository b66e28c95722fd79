/* SPDX-License-Identifier: MIT */
#include "image/format.h"

#include <string.h>

enum { MARK = 0xff, TEMPORARY = 0x01, START = 0xd8, END = 0xd9, FIRST_RESTART = 0xd0, SCAN = 0xda, RESTART_INTERVAL = 0xdd };

/* Returns where the coded data begin, after all segments; 0 if there are none. *restarts: whether the file announces
 * restarts. */
static size_t find_data(const uint8_t *bytes, size_t size, bool *restarts) {
  size_t at = 2;
  *restarts = false;
  if (size < 4 || bytes[0] != MARK || bytes[1] != START)
    return 0;
  while (size - at >= 4 && bytes[at] == MARK) {
    if (bytes[at + 1] == MARK) { /* a mark may have several fill bytes */
      at++;
      continue;
    }
    size_t length = (size_t)gconv_bytes_number(bytes + at + 2, 2, true);
    if (bytes[at + 1] == TEMPORARY /* it has no length */ || length < 2 || length > size - at - 2)
      return 0;
    if (bytes[at + 1] == RESTART_INTERVAL && length == 4)
      *restarts = gconv_bytes_number(bytes + at + 4, 2, true) > 0;
    if (bytes[at + 1] == SCAN)
      return at + 2 + length;
    at += 2 + length;
  }
  return 0;
}

bool gconv_jpeg_is_whole(const uint8_t *bytes, size_t size) {
  bool restarts;
  size_t at = find_data(bytes, size, &restarts);
  if (at == 0)
    return false;
  const uint8_t *end = bytes + size, *next = bytes + at;
  for (int expected = 0; (next = memchr(next, MARK, (size_t)(end - next))) && end - next >= 2;) {
    uint8_t kind = *++next;
    if (kind == END)
      return next + 1 == end; /* an end mark in the middle may be damage, with data after it */
    if (restarts && kind == FIRST_RESTART + expected)
      expected = (expected + 1) % 8;
    else if (kind != 0 && kind != MARK)
      return false;
    next += kind != MARK;
  }
  return false;
}

/* A piece of the file, from position `begin` on. */
typedef struct piece {
  uint64_t begin;
  size_t size;
  uint8_t bytes[1 << 16];
} piece;

/* Finds the first mark from *at on that does not belong to coded data. *kind is its second byte, *at the position after it;
 * both are 0 if the file ends first. */
static gconv_status find_mark(const gconv_source *source, piece *p, uint64_t *at, uint8_t *kind) {
  *kind = 0;
  for (uint64_t from = *at;;) {
    if (from < p->begin || from + 2 > p->begin + p->size) {
      p->begin = from;
      GCONV_TRY(gconv_source_read_at(source, from, p->bytes, sizeof p->bytes, &p->size));
    }
    size_t skipped = (size_t)(from - p->begin);
    if (p->size < skipped + 2)
      break;
    const uint8_t *found = memchr(p->bytes + skipped, MARK, p->size - skipped - 1);
    from = p->begin + (found ? (size_t)(found - p->bytes) : p->size - 1);
    if (!found)
      continue;
    uint8_t next = found[1];
    bool alone = next == TEMPORARY || (next >= FIRST_RESTART && next < FIRST_RESTART + 8); /* marks without a length */
    if (next != 0 && next != MARK && !alone) {
      *kind = next;
      *at = from + 2;
      return GCONV_OK;
    }
    from += next == MARK ? 1 : 2;
  }
  *at = 0;
  return GCONV_OK;
}

gconv_status gconv_jpeg_find_end(const gconv_source *source, uint64_t at, uint64_t *end) {
  GCONV_FREED piece *p = NULL;
  *end = 0;
  GCONV_ALLOCATE(p, sizeof *p, "a piece of a JPEG");
  p->begin = p->size = 0;
  for (;;) {
    uint8_t kind, length[2];
    size_t got = 0;
    GCONV_TRY(find_mark(source, p, &at, &kind));
    if (kind == 0 || kind == START)
      return GCONV_OK;
    if (kind == END) {
      *end = at;
      return GCONV_OK;
    }
    GCONV_TRY(gconv_source_read_at(source, at, length, sizeof length, &got)); /* skip this segment */
    at += got == sizeof length ? gconv_bytes_number(length, 2, true) : 0;
  }
}

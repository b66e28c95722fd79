/* SPDX-License-Identifier: MIT */
#include "image/format.h"

#include <string.h>

enum { MARK = 0xff, START = 0xd8, END = 0xd9, FIRST_RESTART = 0xd0, SCAN = 0xda, RESTART_INTERVAL = 0xdd };

/* Returns the first byte of the coded data, behind all segments; 0 if there is none. *restarts: whether the file announces
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
    if (length < 2 || length > size - at - 2)
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
      return next + 1 == end; /* the rest of the data may follow */
    if (restarts && kind == FIRST_RESTART + expected)
      expected = (expected + 1) % 8;
    else if (kind != 0 && kind != MARK)
      return false;
    next += kind != MARK;
  }
  return false;
}

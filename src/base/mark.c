/* SPDX-License-Identifier: MIT */
#include "base/mark.h"
#include "base/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

/* The extended attribute. Its value is the size and the CRC-32 of the file. */
#define MARK "user.gconv.result"
enum { MARK_BYTES = 64 };

static int make_mark(const char *path, char mark[MARK_BYTES]) {
  uint64_t bytes;
  uint32_t crc32;
  bool known = gconv_file_checksum(path, &bytes, &crc32) == GCONV_OK;
  return known ? snprintf(mark, MARK_BYTES, "%" PRIu64 " %08" PRIx32, bytes, crc32) : 0;
}

void gconv_mark(const char *path) {
  char mark[MARK_BYTES];
  int size = make_mark(path, mark);
  if (size > 0)
    (void)!setxattr(path, MARK, mark, (size_t)size, 0);
}

bool gconv_is_marked(const char *path) {
  char own[MARK_BYTES], mark[MARK_BYTES];
  ssize_t size = getxattr(path, MARK, own, sizeof own);
  return size > 0 && size == make_mark(path, mark) && memcmp(own, mark, (size_t)size) == 0;
}

bool gconv_takes_marks(int file) {
  return fsetxattr(file, MARK, "", 0, 0) == 0;
}

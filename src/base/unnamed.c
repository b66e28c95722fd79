/* SPDX-License-Identifier: MIT */
/* Temporary files without names, for numbers that need not be in memory. */
#include "base/file.h"
#include "base/memory.h"

#include <fcntl.h>
#include <unistd.h>

const char *gconv_temporary_folder(void) {
  const char *path = getenv("TMPDIR");
  if (path && path[0])
    return path;
  return access("/var/tmp", W_OK | X_OK) == 0 ? "/var/tmp" : "/tmp"; /* in many systems, /tmp is in memory */
}

int gconv_open_unnamed(void) {
  int file = open(gconv_temporary_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0)
    return file;
  GCONV_FREED char *path = gconv_format_text("%s/.gconv-XXXXXX", gconv_temporary_folder()); /* no such files there */
  file = path ? mkostemp(path, O_CLOEXEC) : -1;
  if (file >= 0)
    unlink(path);
  return file;
}

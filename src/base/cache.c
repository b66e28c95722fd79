/* SPDX-License-Identifier: MIT */
#include "base/cache.h"
#include "base/file.h"
#include "base/folders.h"
#include "base/memory.h"

#include <string.h>
#include <sys/stat.h>

enum { MOST_BYTES = 1 << 20 };

/* Returns "$<variable><below>/<name>", or NULL if the variable is no absolute path, as the XDG specification demands. */
static char *path_below(const char *variable, const char *below, const char *name) {
  const char *folder = getenv(variable);
  return folder && folder[0] == '/' ? gconv_format_text("%s%s/%s", folder, below, name) : NULL;
}

char *gconv_cache_path(const char *name) {
  const char *folder = getenv("GCONV_CACHE");
  if (folder)
    return folder[0] ? gconv_format_text("%s/%s", folder, name) : NULL;
  char *path = path_below("XDG_CACHE_HOME", "/gconv", name);
  return path ? path : path_below("HOME", "/.cache/gconv", name);
}

char *gconv_cache_read(const char *name) {
  GCONV_FREED char *path = gconv_cache_path(name);
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  struct stat status;
  uint8_t *text = NULL;
  size_t size;
  bool regular = path && stat(path, &status) == 0 && S_ISREG(status.st_mode); /* opening a pipe would wait */
  if (regular && gconv_source_open(path, &source) == GCONV_OK)
    gconv_source_read_all(&source, MOST_BYTES, &text, &size);
  return (char *)text;
}

bool gconv_cache_write(const char *name, const char *text) {
  GCONV_FREED char *path = gconv_cache_path(name);
  struct stat status;
  if (!path)
    return false;
  gconv_make_folders(path, 0700); /* for the user alone; if this fails, opening the file fails, too */
  bool regular = lstat(path, &status) != 0 || S_ISREG(status.st_mode); /* never writes to a pipe, or through a link */
  return regular && gconv_file_write(path, text, strlen(text)) == GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
#include "base/folders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool gconv_is_folder(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *gconv_path_folder(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

gconv_status gconv_make_folders(const char *path, unsigned mode) {
  const char *last = strrchr(path, '/');
  char *folder = strndup(path, last ? (size_t)(last - path) : 0);
  GCONV_NEED_MEMORY(folder, "no memory for a name");
  gconv_status status = GCONV_OK;
  struct stat found;
  for (char *end = !folder[0] || stat(folder, &found) == 0 ? NULL : folder; end && status == GCONV_OK;) {
    end = strchr(end + 1, '/');
    if (end)
      *end = '\0';
    if (stat(folder, &found) != 0 && mkdir(folder, (mode_t)mode) != 0 && errno != EEXIST)
      status = gconv_fail(GCONV_IO_ERROR, "%s: cannot make this folder: %s", folder, strerror(errno));
    if (end)
      *end = '/';
  }
  free(folder);
  return status;
}

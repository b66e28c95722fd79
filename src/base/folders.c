/* SPDX-License-Identifier: MIT */
#include "base/folders.h"
#include "base/memory.h"

#include <errno.h>
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

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static int compare(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

bool gconv_entries_read(const char *path, bool hidden, gconv_entries *entries) {
  int count = scandir(path[0] ? path : ".", &entries->items, hidden ? NULL : is_visible, compare);
  entries->count = count > 0 ? count : 0;
  return count >= 0;
}

void gconv_entries_free(gconv_entries *entries) {
  for (int i = 0; i < entries->count; i++)
    free(entries->items[i]);
  free(entries->items);
}

gconv_status gconv_make_folders(const char *path, unsigned mode) {
  const char *last = strrchr(path, '/');
  GCONV_FREED char *folder = strndup(path, last ? (size_t)(last - path) : 0);
  GCONV_NEED_MEMORY(folder, "no memory for a name");
  struct stat found;
  for (char *end = !folder[0] || stat(folder, &found) == 0 ? NULL : folder; end;) {
    end = strchr(end + 1, '/');
    if (end)
      *end = '\0';
    if (stat(folder, &found) != 0 && mkdir(folder, (mode_t)mode) != 0 && errno != EEXIST)
      return gconv_fail(GCONV_IO_ERROR, "%s: cannot make this folder: %s", folder, strerror(errno));
    if (end)
      *end = '/';
  }
  return GCONV_OK;
}

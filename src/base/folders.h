/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/status.h"

#include <dirent.h>

/* Returns whether `path` is a folder. Returns false, too, if nothing is there, or it cannot be reached. */
bool gconv_is_folder(const char *path);

/* Returns the folder of a path, or "." if the path names none. The caller frees it. NULL without memory. */
char *gconv_path_folder(const char *path);

/* The entries of a folder. Zero-initialise before first use. */
typedef struct gconv_entries {
  struct dirent **items;
  int count;
} gconv_entries;

/* Reads the entries of a folder, sorted by name; with `hidden`, also the entries whose names begin with a dot. If the folder
 * cannot be read, returns false, and errno has the reason. */
bool gconv_entries_read(const char *path, bool hidden, gconv_entries *entries);
void gconv_entries_free(gconv_entries *entries);

/* Makes the missing folders of `path`, up to its last '/'. They get `mode`, less the bits of the umask. If a folder cannot
 * be made, fails with GCONV_IO_ERROR, and names it; its parents may then exist. */
gconv_status gconv_make_folders(const char *path, unsigned mode);

/* SPDX-License-Identifier: MIT */
/* Paths, and the files and folders that they name. */
#pragma once

#include "base/folders.h"
#include "names/texts.h"

#include <sys/stat.h>

/* ---- Paths as texts ---- */

/* Returns the part of `path` after the last slash, or `path` if it has no slash. Copies nothing. */
const char *gconv_path_name(const char *path);
/* Returns the length of a file name without its extension and without a .gz after the extension. A dot at the beginning of
 * the name begins no extension. */
size_t gconv_path_stem(const char *name);
/* Returns "folder/name", on the heap; just "name" if the folder is "". NULL without memory. */
char *gconv_path_join(const char *folder, const char *name);
/* Appends the parts of `rest` to the absolute path `real`, whose memory must suffice. Resolves ".." and "." in the text
 * alone, without a look at links. */
void gconv_path_append(char *real, const char *rest);

/* ---- Files at paths ---- */

/* Returns the absolute path without links, "." and "..". Parts that do not exist yet are resolved as by gconv_path_append().
 * On the heap; NULL without memory. */
char *gconv_path_canonical(const char *path);

/* Returns whether `path` is a regular file. Such an input can be read several times; a pipe can be read only once. */
bool gconv_path_is_file(const char *path);
/* Returns whether results at `path` cannot be removed again: standard output, a pipe or a device, but not /dev/null. */
bool gconv_path_is_sent(const char *path);

/* Identifies a file or folder, whatever names lead to it. */
typedef struct gconv_identity {
  dev_t device;
  ino_t inode;
} gconv_identity;

/* Finds the identity of a regular file. Returns false for anything else. */
bool gconv_path_identify(const char *path, gconv_identity *identity);
/* Orders two identities, for qsort(), bsearch() and tsearch(). */
int gconv_identity_compare(const void *a, const void *b);

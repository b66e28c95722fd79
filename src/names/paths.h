/* SPDX-License-Identifier: MIT */
/* Paths, and the files and folders that lie there. */
#pragma once

#include "base/folders.h"

#include "names/texts.h"

#include <sys/stat.h>

/* ---- By their letters ---- */

/* Returns the part after the last slash; all of the path if it has no slash. The text is a part of `path`. */
const char *gconv_path_name(const char *path);
/* Returns the length of a name without its extension, and without .gz behind that. A dot at the beginning begins no
 * extension. */
size_t gconv_path_stem(const char *name);
/* Returns "folder/name", on the heap; just "name" if the folder is "". NULL without memory. */
char *gconv_path_join(const char *folder, const char *name);
/* Appends the parts of `rest` to the absolute path `real`, which has room for them. Resolves ".." and "." by letters
 * alone. */
void gconv_path_append(char *real, const char *rest);

/* ---- By what lies there ---- */

/* Returns the path as an absolute name without links, "." and "..". Parts that do not exist yet are resolved by their
 * letters. On the heap; NULL without memory. */
char *gconv_path_canonical(const char *path);

/* Returns whether an input may be opened before its turn. A pipe may not: it can be read only once. */
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

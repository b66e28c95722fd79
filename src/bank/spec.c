/* SPDX-License-Identifier: MIT */
/* From what a user writes, PATH or PATH:NAME, to a bank. */
#include "bank/syntax.h"
#include "base/npy_header.h"
#include "filter/filter.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path) {
  struct stat status;
  return strcmp(path, "-") == 0 || (stat(path, &status) == 0 && !S_ISDIR(status.st_mode));
}

/* Splits a spec into *path, for free(), and *name, which is NULL or points into the spec. It is tried in this order: the
 * whole spec is a path; the text before a ':', from the left, is a path; that text looks like a path by its extension; the
 * whole spec is a bank that ships with gconv. */
static gconv_status split(const char *spec, char **path, const char **name) {
  char shipped[PATH_MAX];
  *name = NULL;
  *path = strdup(spec);
  for (int pass = 0; *path && !is_file(spec) && pass < 2; pass++)
    for (char *colon = strchr(*path, ':'); colon; colon = strchr(colon + 1, ':')) {
      *colon = '\0';
      if (pass == 0 ? is_file(*path) : gconv_bank_syntax_by_path(*path) != NULL) {
        *name = spec + (colon - *path) + 1;
        return GCONV_OK;
      }
      *colon = ':';
    }
  if (*path && !is_file(spec) && gconv_filter_find_shipped(spec, shipped)) {
    free(*path);
    *path = strdup(shipped);
  }
  return *path ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a file name");
}

gconv_status gconv_bank_file_open(const char *spec, const char *syntax, gconv_bank_file **file, const char **name) {
  char *path;
  const char *rest;
  GCONV_TRY(split(spec, &path, &rest));
  gconv_status status = gconv_bank_file_open_path(path, syntax, file);
  free(path);
  if (status == GCONV_OK && name)
    *name = rest;
  return status;
}

gconv_status gconv_bank_read(const char *spec, const char *syntax, gconv_bank *bank) {
  const char *name;
  size_t index = 0;
  gconv_bank_file *file = NULL;
  GCONV_TRY(gconv_bank_file_open(spec, syntax, &file, &name));
  gconv_status status = gconv_bank_file_find(file, name, &index);
  if (status == GCONV_OK)
    status = gconv_bank_file_read(file, index, bank);
  gconv_bank_file_close(file);
  return status;
}

/* Returns whether a .npy array has 4 dimensions with several channels, or more dimensions; such arrays are no filters. Looks
 * only at the header, even if the file is cut short; reading will report that. */
static bool is_npy_bank(gconv_source *source) {
  gconv_npy_header header;
  return gconv_npy_header_read(source, &header) == GCONV_OK &&
         (header.dimensions > 4 || (header.dimensions == 4 && header.shape[1] != 1));
}

/* Returns whether a file exists and holds a bank. */
static bool is_bank_file(const char *path) {
  gconv_source source;
  const uint8_t *bytes;
  size_t size = 0;
  const gconv_bank_syntax *syntax = NULL;
  if (gconv_source_open(path, &source) == GCONV_OK && gconv_source_peek(&source, 4096, &bytes, &size) == GCONV_OK)
    syntax = gconv_bank_syntax_find("", bytes, size);
  bool is = syntax == &gconv_bank_syntax_npy ? is_npy_bank(&source) : syntax != NULL;
  gconv_source_close(&source);
  return is;
}

bool gconv_bank_is_one(const char *spec) {
  char *path;
  const char *name;
  struct stat status;
  if (split(spec, &path, &name) != GCONV_OK)
    return false;
  const gconv_bank_syntax *syntax = gconv_bank_syntax_by_path(path);
  bool is = syntax && syntax != &gconv_bank_syntax_text && syntax != &gconv_bank_syntax_npy;
  if (!is && stat(path, &status) == 0 && S_ISREG(status.st_mode))
    is = is_bank_file(path);
  free(path);
  return is;
}

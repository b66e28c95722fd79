/* SPDX-License-Identifier: MIT */
/* From what a user writes, PATH or PATH:NAME, to a bank. */
#include "bank/syntax.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Splits into *path, for free(), and *name, which is NULL or points into the spec: at the end or, from the left, at a ':'
 * behind which a file ends; where there is no such file, behind what has the extension of one. */
static gconv_status split(const char *spec, char **path, const char **name) {
  struct stat status;
  *name = NULL;
  *path = strdup(spec);
  if (!*path)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a file name");
  if (stat(spec, &status) == 0)
    return GCONV_OK;
  for (int pass = 0; pass < 2; pass++)
    for (char *colon = strchr(*path, ':'); colon; colon = strchr(colon + 1, ':')) {
      *colon = '\0';
      bool is_file = strcmp(*path, "-") == 0 || (stat(*path, &status) == 0 && !S_ISDIR(status.st_mode));
      if (pass == 0 ? is_file : gconv_bank_syntax_by_path(*path) != NULL) {
        *name = spec + (colon - *path) + 1;
        return GCONV_OK;
      }
      *colon = ':';
    }
  return GCONV_OK;
}

gconv_status gconv_bank_read(const char *spec, const char *syntax, gconv_bank *bank) {
  char *path;
  const char *name;
  size_t index = 0;
  gconv_bank_file *file = NULL;
  GCONV_TRY(split(spec, &path, &name));
  gconv_status status = gconv_bank_file_open(path, syntax, &file);
  if (status == GCONV_OK)
    status = gconv_bank_file_find(file, name, &index);
  if (status == GCONV_OK)
    status = gconv_bank_file_read(file, index, bank);
  gconv_bank_file_close(file);
  free(path);
  return status;
}

/* Whether an array is one of 4 dimensions with several channels, or of more, which no filter has either. */
static bool is_npy_bank(const gconv_bank_file *file) {
  const gconv_bank_entry *entry = &file->entries[0];
  return entry->dimensions > 4 || (entry->dimensions == 4 && entry->shape[1] != 1);
}

/* Of a file that is there. */
static bool is_bank_file(const char *path) {
  gconv_source source;
  const uint8_t *bytes;
  size_t size = 0;
  const gconv_bank_syntax *syntax = NULL;
  if (gconv_source_open(path, &source) == GCONV_OK && gconv_source_peek(&source, 4096, &bytes, &size) == GCONV_OK)
    syntax = gconv_bank_syntax_find("", bytes, size);
  gconv_source_close(&source);
  if (syntax != &gconv_bank_syntax_npy)
    return syntax != NULL;
  gconv_bank_file *file = NULL;
  bool is = gconv_bank_file_open(path, syntax->name, &file) == GCONV_OK && is_npy_bank(file);
  gconv_bank_file_close(file);
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

/* SPDX-License-Identifier: MIT */
/* Opens and reads the bank that a user names as PATH or PATH:NAME. */
#include "bank/syntax.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "base/npy_header.h"
#include "base/zip.h"
#include "filter/filter.h"

#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path) {
  struct stat status;
  return strcmp(path, "-") == 0 || (stat(path, &status) == 0 && !S_ISDIR(status.st_mode));
}

/* Splits a spec into *path, which the caller frees, and *name, which is NULL or points into the spec. The first of these
 * that holds decides: the whole spec is a path; the text before a ':', from the left, is a path; that text looks like a path
 * by its extension; the whole spec is a bank that ships with gconv. */
static gconv_status split(const char *spec, char **path, const char **name) {
  char shipped[PATH_MAX];
  size_t file = gconv_member_split(spec);
  *name = spec[file] == ':' ? spec + file + 1 : NULL;
  *path = strndup(spec, file);
  GCONV_NEED_MEMORY(*path, "no memory for a file name");
  for (char *colon = !*name && !is_file(spec) ? strchr(*path, ':') : NULL; colon; colon = strchr(colon + 1, ':')) {
    *colon = '\0';
    if (gconv_bank_syntax_by_path(*path)) {
      *name = spec + (colon - *path) + 1;
      return GCONV_OK;
    }
    *colon = ':';
  }
  if (*name)
    return GCONV_OK;
  if (!is_file(spec) && gconv_filter_find_shipped(spec, shipped)) {
    free(*path);
    *path = strdup(shipped);
  }
  return *path ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a file name");
}

gconv_status gconv_bank_file_open(const char *spec, const char *syntax, gconv_bank_file **file, const char **name) {
  char *path;
  const char *rest;
  GCONV_NEED(spec, file);
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
  GCONV_NEED(bank);
  GCONV_TRY(gconv_bank_file_open(spec, syntax, &file, &name));
  gconv_status status = gconv_bank_file_find(file, name, &index);
  GCONV_THEN(status, gconv_bank_file_read(file, index, bank));
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

/* Returns is_npy_bank() of a member of an archive of NumPy. */
static bool is_member_bank(gconv_source *archive, const gconv_zip_member *member) {
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  size_t length;
  return gconv_zip_is_array(member, &length) && gconv_zip_open_member(archive, member, archive->name, &source) == GCONV_OK &&
         is_npy_bank(&source);
}

/* Returns is_npy_bank() of the array `name` of an archive of NumPy; without a name, whether any array is a bank. */
static bool is_npz_bank(gconv_source *archive, const char *name) {
  gconv_zip zip;
  size_t index = 0;
  bool is = false, found = gconv_zip_read(archive, &zip) == GCONV_OK;
  if (found && name)
    is = gconv_zip_find_array(archive, &zip, name, &index) == GCONV_OK && is_member_bank(archive, &zip.members[index]);
  for (size_t i = 0; found && !name && i < zip.count && !is; i++)
    is = is_member_bank(archive, &zip.members[i]);
  gconv_zip_free(&zip);
  return is;
}

/* Returns whether a file exists and holds a bank. In an archive of NumPy, `name` is the array; NULL: any array. */
static bool is_bank_file(const char *path, const char *name) {
  gconv_source source;
  const uint8_t *bytes;
  size_t size = 0;
  const gconv_bank_syntax *syntax = NULL;
  if (gconv_source_open(path, &source) == GCONV_OK && gconv_source_peek(&source, 4096, &bytes, &size) == GCONV_OK)
    syntax = gconv_bank_syntax_find("", bytes, size);
  bool is = syntax == &gconv_bank_syntax_npy   ? is_npy_bank(&source)
            : syntax == &gconv_bank_syntax_npz ? is_npz_bank(&source, name)
                                               : syntax != NULL;
  gconv_source_close(&source);
  return is;
}

bool gconv_bank_is_one(const char *spec) {
  char *path;
  const char *name;
  struct stat status;
  if (!spec || split(spec, &path, &name) != GCONV_OK)
    return false;
  const gconv_bank_syntax *syntax = gconv_bank_syntax_by_path(path);
  bool is =
      syntax && syntax != &gconv_bank_syntax_text && syntax != &gconv_bank_syntax_npy && syntax != &gconv_bank_syntax_npz;
  if (!is && stat(path, &status) == 0 && S_ISREG(status.st_mode))
    is = is_bank_file(path, name);
  free(path);
  return is;
}

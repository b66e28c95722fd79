/* SPDX-License-Identifier: MIT */
/* Unfinished files of processes that were killed: how they are named, and their removal. */
#include "base/file.h"
#include "base/memory.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Uses at most 200 bytes of the name, because the name may have the greatest length that is allowed. */
char *gconv_temporary_beginning(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return gconv_format_text("%.*s.%.200s.gconv-", (int)(name - path), path, name);
}

/* Returns the beginning of the names of temporary files for `path`. They are in the folder of the file that a link leads to.
 */
static char *beginning_of(const char *path) {
  char *target = realpath(path, NULL);
  char *beginning = gconv_temporary_beginning(target ? target : path);
  free(target);
  return beginning;
}

static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the length of `name` without the letters at the end of a temporary name, or 0 if it does not end like one. */
static size_t length_without_letters(const char *name) {
  size_t length = strlen(name);
  for (int i = 0; i < GCONV_TEMPORARY_LETTERS; i++, length--)
    if (length == 0 || !isalnum((unsigned char)name[length - 1]))
      return 0;
  return length;
}

/* Removes the entry `name` of `folder` if it begins with one of the texts, which are sorted. `folder` is "" or ends with a
 * slash. */
static gconv_status remove_entry(const char *folder, const char *name, char **texts, size_t count, size_t *removed) {
  size_t length = name[0] == '.' ? length_without_letters(name) : 0;
  if (length == 0)
    return GCONV_OK;
  char *beginning = gconv_format_text("%s%.*s", folder, (int)length, name), *path = gconv_format_text("%s%s", folder, name);
  bool complete = beginning && path;
  if (complete && bsearch(&beginning, texts, count, sizeof *texts, compare))
    *removed += unlink(path) == 0;
  free(beginning);
  free(path);
  return complete ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a file name");
}

static gconv_status clean_folder(const char *folder, char **texts, size_t count, size_t *removed) {
  DIR *entries = opendir(folder[0] ? folder : ".");
  if (!entries)
    return GCONV_OK;
  gconv_status status = GCONV_OK;
  for (const struct dirent *entry = readdir(entries); entry && status == GCONV_OK; entry = readdir(entries))
    status = remove_entry(folder, entry->d_name, texts, count, removed);
  closedir(entries);
  return status;
}

/* Cleans each folder once. The texts are sorted, so those of one folder follow each other. */
static gconv_status clean_folders(char **texts, size_t count, size_t *removed) {
  char *folder = NULL;
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < count && status == GCONV_OK; i++) {
    const char *slash = strrchr(texts[i], '/');
    size_t length = slash ? (size_t)(slash + 1 - texts[i]) : 0;
    if (folder && strlen(folder) == length && strncmp(folder, texts[i], length) == 0)
      continue;
    free(folder);
    folder = strndup(texts[i], length);
    status = folder ? clean_folder(folder, texts, count, removed)
                    : gconv_fail(GCONV_NO_MEMORY, "no memory for the name of a folder");
  }
  free(folder);
  return status;
}

gconv_status gconv_remove_leftovers(char *const *paths, size_t count, size_t *removed) {
  *removed = 0;
  char **texts = calloc(count > 0 ? count : 1, sizeof *texts);
  bool complete = texts != NULL;
  for (size_t i = 0; i < count && complete; i++)
    complete = (texts[i] = beginning_of(paths[i])) != NULL;
  gconv_status status = complete ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu file names", count);
  if (complete) {
    qsort(texts, count, sizeof *texts, compare);
    status = clean_folders(texts, count, removed);
  }
  for (size_t i = 0; texts && i < count; i++)
    free(texts[i]);
  free(texts);
  return status;
}

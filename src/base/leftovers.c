/* SPDX-License-Identifier: MIT */
/*
 * Names temporary files, and removes the files of processes that were killed.
 *
 * A process that writes a temporary file holds a lock on it (flock), from the creation of the file until it has its final
 * name. The kernel releases the lock when the process ends, in whatever way. So a file that is not locked is a leftover, and
 * a locked file is being written: by a plain run, another shard, or another job in the same folder.
 *
 * A process number in the name would not help: numbers are reused, differ between containers, and mean nothing to another
 * host that shares the folder. The time of the last change would not help, either: clocks differ between hosts and jump, and
 * a slow result may take hours. NFS and most cluster file systems share locks among hosts. If a file system has no locks,
 * nothing is removed, and a warning says so. An administrator can make locks local to each host (local_lock of NFS,
 * localflock of Lustre). Then a host cannot see the locks of other hosts. There, jobs of several hosts must not make the
 * same results at the same time; the lock of the manifest has the same limit. --shard keeps results apart.
 */
#include "base/file.h"
#include "base/memory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Uses at most 200 bytes of the name, because the name may have the greatest length that is allowed. */
char *gconv_temporary_beginning(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return gconv_format_text("%.*s.%.200s.gconv-", (int)(name - path), path, name);
}

/* Returns the beginning of the names of temporary files for `path`. If `path` is a link, they are in the folder of the file
 * to which it leads. */
static char *beginning_of(const char *path) {
  GCONV_FREED char *target = realpath(path, NULL);
  return gconv_temporary_beginning(target ? target : path);
}

static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the length of `name` without the letters at its end, or 0 if it does not end like a temporary name. */
static size_t length_without_letters(const char *name) {
  size_t length = strlen(name);
  for (int i = 0; i < GCONV_TEMPORARY_LETTERS; i++, length--)
    if (length == 0 || !isalnum((unsigned char)name[length - 1]))
      return 0;
  return length;
}

/* Removes the file `name` of a folder if its process is gone. Returns whether it did. `path` is the folder's path, "" or
 * with a slash at its end. The file is locked while it is removed. If a process has just created the file but not locked it
 * yet, its lock fails, and it creates another file. */
static bool remove_abandoned(int folder, const char *path, const char *name) {
  struct stat status;
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  bool regular = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode), removed = false;
  if (regular && flock(file, LOCK_SH | LOCK_NB) == 0)
    removed = unlinkat(folder, name, 0) == 0;
  else if (regular && errno != EWOULDBLOCK)
    gconv_warn_once("unfinished files kept",
                    "%s%s: an unfinished file is kept, because this file system has no locks (%s), which would tell whether "
                    "its process is gone: remove it when no gconv is at work there",
                    path, name, strerror(errno));
  if (file >= 0)
    close(file);
  return removed;
}

/* Removes the entry `name` of a folder if it begins with one of the texts, and is a leftover. The texts are sorted. */
static gconv_status remove_entry(int folder, const char *path, const char *name, char **texts, size_t count,
                                 size_t *removed) {
  size_t length = name[0] == '.' ? length_without_letters(name) : 0;
  if (length == 0)
    return GCONV_OK;
  GCONV_FREED char *beginning = gconv_format_text("%s%.*s", path, (int)length, name);
  GCONV_NEED_MEMORY(beginning, "no memory for a file name");
  if (bsearch(&beginning, texts, count, sizeof *texts, compare))
    *removed += remove_abandoned(folder, path, name);
  return GCONV_OK;
}

static gconv_status clean_folder(const char *path, char **texts, size_t count, size_t most, size_t *removed) {
  DIR *entries = opendir(path[0] ? path : ".");
  if (!entries)
    return GCONV_OK;
  gconv_status status = GCONV_OK;
  for (const struct dirent *entry = readdir(entries); entry && most-- > 0 && status == GCONV_OK; entry = readdir(entries))
    status = remove_entry(dirfd(entries), path, entry->d_name, texts, count, removed);
  closedir(entries);
  return status;
}

/* Cleans each folder once. The texts are sorted, so that the texts of one folder follow each other. */
static gconv_status clean_folders(char **texts, size_t count, size_t most, size_t *removed) {
  GCONV_FREED char *folder = NULL;
  for (size_t i = 0; i < count; i++) {
    const char *slash = strrchr(texts[i], '/');
    size_t length = slash ? (size_t)(slash + 1 - texts[i]) : 0;
    if (folder && strlen(folder) == length && strncmp(folder, texts[i], length) == 0)
      continue;
    free(folder);
    folder = strndup(texts[i], length);
    GCONV_NEED_MEMORY(folder, "no memory for the name of a folder");
    GCONV_TRY(clean_folder(folder, texts, count, most, removed));
  }
  return GCONV_OK;
}

gconv_status gconv_remove_leftovers(char *const *paths, size_t count, size_t most, size_t *removed) {
  *removed = 0;
  GCONV_FREED char **texts = calloc(count > 0 ? count : 1, sizeof *texts);
  bool complete = texts != NULL;
  for (size_t i = 0; i < count && complete; i++)
    complete = (texts[i] = beginning_of(paths[i])) != NULL;
  if (complete)
    qsort(texts, count, sizeof *texts, compare);
  gconv_status status = complete ? clean_folders(texts, count, most, removed)
                                 : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu file names", count);
  for (size_t i = 0; texts && i < count; i++)
    free(texts[i]);
  return status;
}

/* SPDX-License-Identifier: MIT */
/* Backups: the file that a result replaces stays under another name, PATH.orig. */
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sets *backup to the name of the backup of `path`. A link is followed: the file it leads to is replaced. If there is no
 * such file, sets it to NULL. */
static gconv_status name_backup(const char *path, char **backup) {
  GCONV_FREED char *real = realpath(path, NULL);
  *backup = real ? gconv_format_text("%s.orig", real) : NULL;
  return *backup || (!real && errno != ENOMEM) ? GCONV_OK : gconv_no_memory();
}

/* Returns whether both are names of one file: a run that was killed had made the backup, and not yet the result. */
static bool are_one_file(const char *path, const char *backup) {
  struct stat a, b;
  return stat(path, &a) == 0 && stat(backup, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static gconv_status refuse_older(const char *path, const char *backup) {
  struct stat status;
  if (lstat(backup, &status) != 0 || are_one_file(path, backup))
    return GCONV_OK;
  return gconv_fail(GCONV_EXISTS, "%s: stays as it is, as its backup would replace an older one, %s: rename or remove that",
                    path, backup);
}

gconv_status gconv_backup_check(const char *path) {
  GCONV_FREED char *backup = NULL;
  GCONV_TRY(name_backup(path, &backup));
  return backup ? refuse_older(path, backup) : GCONV_OK;
}

/* Gives the file its second name, or, on file systems without links, as cameras have, its new one: then *moved is set. */
static bool keep(const char *path, const char *backup, bool *moved) {
  if (link(path, backup) == 0)
    return true;
  const int error = errno;
  if (error == EEXIST)
    return are_one_file(path, backup);
  *moved = (error == EPERM || error == EOPNOTSUPP || error == EMLINK) && rename(path, backup) == 0;
  return *moved;
}

gconv_status gconv_backup_replace(const char *path, const char *result) {
  bool moved = false;
  GCONV_FREED char *backup = NULL;
  GCONV_TRY(name_backup(path, &backup));
  GCONV_TRY(backup ? refuse_older(path, backup) : GCONV_OK);
  const bool kept = !backup || keep(path, backup, &moved);
  if (kept && rename(result, path) == 0)
    return GCONV_OK;
  const int error = errno;
  if (moved && rename(backup, path) != 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot be replaced, and is %s now: %s", path, backup, strerror(error));
  if (kept && backup && !moved)
    unlink(backup);
  return gconv_fail(GCONV_IO_ERROR, "%s: cannot be replaced with a backup beside it: %s", path, strerror(error));
}

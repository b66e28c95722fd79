/* SPDX-License-Identifier: MIT */
#include "names/paths.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* ---- Paths as texts ------------------------------------------------------------------------------------------------ */

const char *gconv_path_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

size_t gconv_path_stem(const char *name) {
  const size_t length = strlen(name), packed = length > 3 && strcasecmp(name + length - 3, ".gz") == 0 ? 3 : 0;
  for (size_t dot = length - packed; dot-- > 1;)
    if (name[dot] == '.')
      return dot;
  return length - packed;
}

char *gconv_path_join(const char *folder, const char *name) {
  size_t length = strlen(folder);
  return gconv_format_text("%s%s%s", folder, length == 0 || folder[length - 1] == '/' ? "" : "/", name);
}

void gconv_path_append(char *real, const char *rest) {
  for (size_t length; *rest; rest += length) {
    rest += strspn(rest, "/");
    length = strcspn(rest, "/");
    char *end = real + strlen(real), *slash = strrchr(real, '/');
    if (length == 2 && strncmp(rest, "..", 2) == 0)
      slash[slash == real] = '\0';
    else if (length > 0 && !(length == 1 && *rest == '.'))
      sprintf(end, "%s%.*s", end == real + 1 ? "" : "/", (int)length, rest);
  }
}

/* ---- Files at paths ------------------------------------------------------------------------------------------------ */

char *gconv_path_canonical(const char *path) {
  GCONV_FREED char *existing = strdup(path), *real = NULL;
  size_t length = strlen(path);
  if (!existing)
    return NULL;
  errno = 0;
  real = realpath(path, NULL);
  while (!real && length > 0 && errno != ENOMEM) { /* try the path without its last part */
    while (length > 0 && existing[length - 1] == '/')
      length--;
    while (length > 0 && existing[length - 1] != '/')
      length--;
    existing[length] = '\0';
    real = realpath(length > 0 ? existing : ".", NULL);
  }
  if (!real && errno != ENOMEM) /* the working folder was removed and has no path: writing will report it */
    real = strdup("/");
  char *result = real ? malloc(strlen(real) + strlen(path + length) + 2) : NULL;
  if (result)
    gconv_path_append(strcpy(result, real), path + length);
  return result;
}

bool gconv_path_is_file(const char *path) {
  struct stat status;
  return strcmp(path, "-") != 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool gconv_output_exists(const char *path) {
  return path && gconv_path_is_file(path);
}

bool gconv_path_is_sent(const char *path) {
  struct stat status;
  if (strcmp(path, "-") == 0)
    return true;
  return strcmp(path, "/dev/null") != 0 && stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

bool gconv_path_identify(const char *path, gconv_identity *identity) {
  struct stat status;
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
    return false;
  *identity = (gconv_identity){status.st_dev, status.st_ino};
  return true;
}

int gconv_identity_compare(const void *a, const void *b) {
  const gconv_identity *left = a, *right = b;
  if (left->device != right->device)
    return left->device < right->device ? -1 : 1;
  return (left->inode > right->inode) - (left->inode < right->inode);
}

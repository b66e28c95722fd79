/* SPDX-License-Identifier: MIT */
/* Whether the named results can be written without harm, as far as can be told before the work begins. */
#include "batch/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of `path` on the heap: "." if it has none. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash)
    return strdup(".");
  return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* ---- Results that land on each other ------------------------------------------------------------------------------- */

/* `path` on the heap as one absolute name, whatever links, "." and ".." it goes through; what does not exist yet is taken by
 * its letters. */
static char *canonical(const char *path) {
  char *real = realpath(path, NULL);
  if (real || strcmp(path, ".") == 0 || strcmp(path, "/") == 0)
    return real ? real : strdup(path);
  char *folder = folder_of(path), *around = folder ? canonical(folder) : NULL, *result = NULL;
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (around && (name[0] == '\0' || strcmp(name, ".") == 0))
    result = strdup(around);
  else if (around && strcmp(name, "..") == 0)
    result = folder_of(around);
  else if (around && asprintf(&result, "%s/%s", strcmp(around, "/") == 0 ? "" : around, name) < 0)
    result = NULL;
  free(folder);
  free(around);
  return result;
}

struct target {
  char *path;   /* canonical */
  size_t index; /* in outputs->paths */
};

static int compare_targets(const void *a, const void *b) {
  const struct target *left = a, *right = b;
  int order = strcmp(left->path, right->path);
  return order ? order : (left->index > right->index) - (left->index < right->index);
}

/* The input that result `index` is of. */
static const char *input_of(const gconv_inputs *inputs, const gconv_outputs *outputs, size_t index) {
  size_t low = 0, high = inputs->count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (outputs->first[middle] <= index)
      low = middle;
    else
      high = middle;
  }
  return inputs->items[low].path;
}

static gconv_status complain_collision(const gconv_inputs *inputs, const gconv_outputs *outputs, size_t a, size_t b,
                                       gconv_message *message) {
  const char *first = input_of(inputs, outputs, a), *second = input_of(inputs, outputs, b);
  if (first == second)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "%s: several results of %s would land on this file: tell them apart with {filter}, {index} or "
                          "{frame} in -o",
                          outputs->paths.items[b], first);
  return gconv_complain(message, GCONV_BAD_ARGUMENT,
                        "%s: the results of %s and of %s would both land on this file: tell them apart with {stem} or "
                        "{index} in -o",
                        outputs->paths.items[b], first, second);
}

static gconv_status check_collisions(const gconv_inputs *inputs, const gconv_outputs *outputs, gconv_message *message) {
  size_t count = outputs->paths.count;
  struct target *targets = calloc(count, sizeof *targets);
  bool complete = targets != NULL;
  for (size_t i = 0; complete && i < count; i++) {
    targets[i] = (struct target){canonical(outputs->paths.items[i]), i};
    complete = targets[i].path != NULL;
  }
  gconv_status status = complete ? GCONV_OK : gconv_complain_memory(message);
  if (complete)
    qsort(targets, count, sizeof *targets, compare_targets);
  for (size_t i = 1; i < count && status == GCONV_OK; i++)
    if (strcmp(targets[i - 1].path, targets[i].path) == 0)
      status = complain_collision(inputs, outputs, targets[i - 1].index, targets[i].index, message);
  for (size_t i = 0; targets && i < count; i++)
    free(targets[i].path);
  free(targets);
  return status;
}

/* ---- Results that land on an input --------------------------------------------------------------------------------- */

struct identity {
  dev_t device;
  ino_t inode;
};

static int compare_identities(const void *a, const void *b) {
  const struct identity *left = a, *right = b;
  if (left->device != right->device)
    return left->device < right->device ? -1 : 1;
  return (left->inode > right->inode) - (left->inode < right->inode);
}

static gconv_status check_inputs(const gconv_inputs *inputs, const gconv_outputs *outputs, gconv_message *message) {
  struct identity *known = calloc(inputs->count, sizeof *known);
  size_t count = 0;
  if (!known)
    return gconv_complain_memory(message);
  for (size_t i = 0; i < inputs->count; i++) {
    struct stat status;
    if (stat(inputs->items[i].path, &status) == 0 && S_ISREG(status.st_mode))
      known[count++] = (struct identity){status.st_dev, status.st_ino};
  }
  qsort(known, count, sizeof *known, compare_identities);
  gconv_status result = GCONV_OK;
  for (size_t i = 0; i < outputs->paths.count && result == GCONV_OK; i++) {
    const char *path = outputs->paths.items[i];
    struct stat status;
    if (stat(path, &status) != 0)
      continue;
    struct identity key = {status.st_dev, status.st_ino};
    if (bsearch(&key, known, count, sizeof *known, compare_identities))
      result =
          gconv_complain(message, GCONV_BAD_ARGUMENT, "%s: this output is one of the inputs: choose another name", path);
  }
  free(known);
  return result;
}

/* ---- Folders ------------------------------------------------------------------------------------------------------- */

/* Whether files can be made in `folder`; with `make`, in the nearest folder around it that exists, if it does not. */
static gconv_status check_folder(const char *folder, bool make, const char *path, gconv_message *message) {
  struct stat status;
  if (stat(folder, &status) == 0) {
    if (!S_ISDIR(status.st_mode))
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s: cannot be written: %s is not a folder", path, folder);
    if (access(folder, W_OK | X_OK) != 0)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s: cannot be written: the folder %s: %s", path, folder,
                            strerror(errno));
    return GCONV_OK;
  }
  if (errno != ENOENT)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s: cannot be written: %s: %s", path, folder, strerror(errno));
  if (!make)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s: cannot be written: there is no folder %s: make it first", path,
                          folder);
  char *around = folder_of(folder);
  gconv_status result = around ? check_folder(around, make, path, message) : gconv_complain_memory(message);
  free(around);
  return result;
}

/* *folder is the one checked last, for the many results that share theirs. */
static gconv_status check_path(const char *path, bool make, char **folder, gconv_message *message) {
  struct stat status;
  if (stat(path, &status) == 0) {
    if (S_ISDIR(status.st_mode))
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s: cannot be written: there is a folder of that name", path);
    if (!S_ISREG(status.st_mode)) /* a pipe or a device: written as it is, nothing is made beside it */
      return GCONV_OK;
  }
  char *own = folder_of(path);
  if (!own)
    return gconv_complain_memory(message);
  bool checked = *folder && strcmp(*folder, own) == 0;
  free(*folder);
  *folder = own;
  return checked ? GCONV_OK : check_folder(own, make, path, message);
}

static gconv_status check_folders(const gconv_outputs *outputs, gconv_message *message) {
  char *folder = NULL;
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < outputs->paths.count && status == GCONV_OK; i++)
    status = check_path(outputs->paths.items[i], outputs->make_folders, &folder, message);
  free(folder);
  return status;
}

gconv_status gconv_outputs_check(const gconv_inputs *inputs, const gconv_outputs *outputs, gconv_message *message) {
  if (strcmp(outputs->paths.items[0], "-") == 0) /* then it is the only one */
    return GCONV_OK;
  GCONV_TRY(check_inputs(inputs, outputs, message));
  GCONV_TRY(check_collisions(inputs, outputs, message));
  return check_folders(outputs, message);
}

gconv_status gconv_outputs_make_folders(const char *path, gconv_message *message) {
  char *folder = folder_of(path);
  if (!folder)
    return gconv_complain_memory(message);
  gconv_status status = GCONV_OK;
  struct stat found;
  if (stat(folder, &found) != 0) {
    status = gconv_outputs_make_folders(folder, message);
    if (status == GCONV_OK && mkdir(folder, 0777) != 0 && errno != EEXIST)
      status = gconv_complain(message, GCONV_IO_ERROR, "%s: cannot make this folder: %s", folder, strerror(errno));
  }
  free(folder);
  return status;
}

/* SPDX-License-Identifier: MIT */
/* Images that belong together by their names: inputs and what is wanted of them, images and masks. */
#include "base/status.h"
#include "learn/pictures.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The length of a name without its extension. */
static size_t stem_length(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && dot > name ? (size_t)(dot - name) : strlen(name);
}

/* By stem, then by the whole name. */
static int compare_pictures(const void *a, const void *b) {
  const char *x = name_of(((const gconv_picture *)a)->path), *y = name_of(((const gconv_picture *)b)->path);
  size_t m = stem_length(x), n = stem_length(y);
  int order = memcmp(x, y, m < n ? m : n);
  return order ? order : m != n ? (m < n ? -1 : 1) : strcmp(x, y);
}

static bool same_stem(const gconv_picture *a, const gconv_picture *b) {
  const char *x = name_of(a->path), *y = name_of(b->path);
  size_t length = stem_length(x);
  return length == stem_length(y) && memcmp(x, y, length) == 0;
}

static gconv_status complain_alone(const gconv_picture *alone, const char *folder) {
  return gconv_fail(GCONV_BAD_FILE, "%s: there is no image of this name in %s", alone->path, folder);
}

static bool is_folder(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

gconv_status gconv_pictures_pair(gconv_pictures *inputs, const char *inputs_path, gconv_pictures *targets,
                                 const char *targets_path) {
  bool files = !is_folder(inputs_path) && !is_folder(targets_path); /* which may have any names */
  qsort(inputs->items, inputs->count, sizeof *inputs->items, compare_pictures);
  qsort(targets->items, targets->count, sizeof *targets->items, compare_pictures);
  for (size_t i = 0; i < inputs->count || i < targets->count; i++) {
    const gconv_picture *input = &inputs->items[i], *target = &targets->items[i];
    bool more = i < inputs->count && i < targets->count;
    if (more && (files || same_stem(input, target)))
      continue;
    bool first = i >= targets->count || (more && compare_pictures(input, target) < 0);
    return first ? complain_alone(input, targets_path) : complain_alone(target, inputs_path);
  }
  for (size_t i = 0; i < inputs->count; i++) {
    const gconv_picture *input = &inputs->items[i], *target = &targets->items[i];
    if (input->height != target->height || input->width != target->width)
      return gconv_fail(GCONV_BAD_FILE, "%s has %d x %d pixels, and %s %d x %d: the images of a pair must have one size",
                        input->path, (int)input->width, (int)input->height, target->path, (int)target->width,
                        (int)target->height);
  }
  return GCONV_OK;
}

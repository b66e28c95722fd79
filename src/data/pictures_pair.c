/* SPDX-License-Identifier: MIT */
/* Pairs images by their names: inputs and targets, images and masks. */
#include "base/folders.h"
#include "base/memory.h"
#include "base/partners.h"
#include "data/pictures.h"

#include <string.h>

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Compares by stem, then by the whole name. */
static int compare_pictures(const void *a, const void *b) {
  const char *x = name_of(((const gconv_picture *)a)->path), *y = name_of(((const gconv_picture *)b)->path);
  size_t m = gconv_stem_length(x), n = gconv_stem_length(y);
  int order = memcmp(x, y, m < n ? m : n);
  return order ? order : m != n ? (m < n ? -1 : 1) : strcmp(x, y);
}

static const char **list_names(const gconv_pictures *pictures) {
  const char **names = calloc(pictures->count + 1, sizeof *names);
  for (size_t i = 0; names && i < pictures->count; i++)
    names[i] = name_of(pictures->items[i].path);
  return names;
}

static gconv_status complain_alone(const gconv_picture *alone, const char *folder) {
  return gconv_fail(GCONV_BAD_FILE, "%s: there is no image of this name in %s", alone->path, folder);
}

/* Brings the targets into the order of the inputs. */
static gconv_status order_targets(const gconv_pictures *inputs, const char *inputs_path, gconv_pictures *targets,
                                  const char *targets_path, const gconv_partners *partners, size_t count) {
  GCONV_FREED gconv_picture *ordered = calloc(targets->count + 1, sizeof *ordered);
  GCONV_NEED_MEMORY(ordered, "no memory for a list of images");
  for (size_t i = 0; i < count; i++)
    if (partners[i].b == GCONV_ALONE)
      return complain_alone(&inputs->items[partners[i].a], targets_path);
    else if (partners[i].a == GCONV_ALONE)
      return complain_alone(&targets->items[partners[i].b], inputs_path);
    else
      ordered[partners[i].a] = targets->items[partners[i].b];
  memcpy(targets->items, ordered, targets->count * sizeof *ordered);
  return GCONV_OK;
}

static gconv_status pair_names(gconv_pictures *inputs, const char *inputs_path, gconv_pictures *targets,
                               const char *targets_path) {
  GCONV_FREED const char **a = list_names(inputs), **b = list_names(targets);
  GCONV_FREED gconv_partners *partners = NULL;
  size_t count;
  GCONV_NEED_MEMORY(a && b, "no memory for a list of images");
  GCONV_TRY(gconv_partners_find(a, inputs->count, b, targets->count, &partners, &count));
  return order_targets(inputs, inputs_path, targets, targets_path, partners, count);
}

/* Fails unless the target of a pair is `scale` times as high and wide as the input. */
static gconv_status check_sizes(const gconv_picture *input, const gconv_picture *target, int32_t scale, bool may_scale) {
  if ((int64_t)input->height * scale == target->height && (int64_t)input->width * scale == target->width)
    return GCONV_OK;
  char times[80] = "";
  if (scale > 1)
    snprintf(times, sizeof times, ", here %d times as many, as those of the first pair", scale);
  return gconv_fail(GCONV_BAD_FILE, "%s has %d x %d pixels, and %s %d x %d: the images of a pair must have one size%s%s",
                    input->path, (int)input->width, (int)input->height, target->path, (int)target->width,
                    (int)target->height, may_scale ? ", or the wanted one N times as many rows and columns" : "", times);
}

gconv_status gconv_pictures_pair(gconv_pictures *inputs, const char *inputs_path, gconv_pictures *targets,
                                 const char *targets_path, int32_t *scale) {
  qsort(inputs->items, inputs->count, sizeof *inputs->items, compare_pictures);
  if (gconv_is_folder(inputs_path) || gconv_is_folder(targets_path)) /* two files may have any names */
    GCONV_TRY(pair_names(inputs, inputs_path, targets, targets_path));
  return gconv_pictures_check_pairs(inputs, targets, scale);
}

gconv_status gconv_pictures_check_pairs(const gconv_pictures *inputs, const gconv_pictures *targets, int32_t *scale) {
  int32_t times = 1;
  if (scale && inputs->count > 0 && targets->items[0].height >= inputs->items[0].height)
    times = targets->items[0].height / inputs->items[0].height;
  for (size_t i = 0; i < inputs->count; i++)
    GCONV_TRY(check_sizes(&inputs->items[i], &targets->items[i], times, scale != NULL));
  if (scale)
    *scale = times;
  return GCONV_OK;
}

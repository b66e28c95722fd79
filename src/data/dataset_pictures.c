/* SPDX-License-Identifier: MIT */
/* Data sets of images: with classes, or in pairs. */
#include "base/checksum.h"
#include "base/folders.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/pictures.h"
#include "data/random.h"

#include <string.h>

typedef struct picture_set {
  gconv_dataset base;
  gconv_pictures inputs, targets; /* targets: with pairs, one for each input; else empty */
  gconv_labels labels;
  size_t *classes; /* owned: the class of each image; NULL: no classes */
  size_t *ends;    /* owned, with patches: for each image, the number of its last case + 1; NULL: an image is a case */
  int32_t patch;
  int32_t scale; /* targets are this many times as high and wide as inputs */
  bool augment;
  uint64_t seed;
} picture_set;

/* ---- Cases --------------------------------------------------------------------------------------------------------- */

/* Returns the number of the image that a case is from: the first image whose end is larger than `index`. */
static size_t picture_of(const gconv_dataset *dataset, size_t index) {
  const picture_set *set = (const picture_set *)dataset;
  if (!set->ends)
    return index;
  size_t low = 0, high = set->inputs.count - 1;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (set->ends[middle] > index)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Chooses place and rotation, by random numbers that depend on the case and the epoch alone. */
static gconv_crop choose_crop(const picture_set *set, uint64_t epoch, size_t index, const gconv_picture *picture) {
  enum { PLACE_Y, PLACE_X, TURN, NUMBERS };
  gconv_crop crop = {.height = picture->height, .width = picture->width};
  uint64_t bits[NUMBERS];
  for (int i = 0; i < NUMBERS; i++)
    bits[i] = gconv_random_bits(set->seed, GCONV_RANDOM_PATCHES, epoch, (uint64_t)index * NUMBERS + (uint64_t)i);
  if (set->patch > 0) {
    crop.height = crop.width = set->patch;
    crop.y = (int32_t)gconv_random_below(bits[PLACE_Y], (size_t)(picture->height - set->patch) + 1);
    crop.x = (int32_t)gconv_random_below(bits[PLACE_X], (size_t)(picture->width - set->patch) + 1);
  }
  if (set->augment)
    crop.turn = (unsigned)(bits[TURN] >> 61);
  if (crop.height != crop.width)
    crop.turn &= 5; /* only by 180 degrees */
  return crop;
}

/* Returns the part of a target that belongs to a part of an input. */
static gconv_crop enlarged(gconv_crop crop, int32_t scale) {
  crop.y *= scale, crop.x *= scale;
  crop.height *= scale, crop.width *= scale;
  return crop;
}

static gconv_status read_pictures(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                                  float *inputs, float *targets) {
  const picture_set *set = (const picture_set *)dataset;
  size_t width = gconv_dataset_input_floats(&dataset->info), outputs = gconv_dataset_target_floats(&dataset->info);
  for (size_t i = 0; i < count; i++) {
    size_t index = picture_of(dataset, cases[i]);
    gconv_crop crop = choose_crop(set, epoch, cases[i], &set->inputs.items[index]);
    GCONV_TRY(gconv_pictures_get(&set->inputs, index, crop, inputs + i * width));
    if (targets && set->classes)
      targets[i] = (float)set->classes[index];
    else if (targets && outputs > 0)
      GCONV_TRY(gconv_pictures_get(&set->targets, index, enlarged(crop, set->scale), targets + i * outputs));
  }
  return GCONV_OK;
}

static size_t class_of(const gconv_dataset *dataset, size_t index) {
  return ((const picture_set *)dataset)->classes[index];
}

static void free_pictures(gconv_dataset *dataset) {
  picture_set *set = (picture_set *)dataset;
  gconv_pictures_free(&set->inputs);
  gconv_pictures_free(&set->targets);
  gconv_labels_free(&set->labels);
  free(set->classes);
  free(set->ends);
  free(set);
}

static uint64_t digest(const gconv_dataset *dataset, uint64_t hash) {
  const picture_set *set = (const picture_set *)dataset;
  const uint64_t chosen[] = {(uint64_t)set->patch, set->augment, set->inputs.gray, set->seed};
  hash = gconv_fnv1a(hash, chosen, sizeof chosen);
  hash = gconv_pictures_digest(&set->inputs, hash);
  hash = gconv_pictures_digest(&set->targets, hash);
  if (set->classes)
    hash = gconv_fnv1a(hash, set->classes, set->inputs.count * sizeof *set->classes);
  return gconv_labels_digest(&set->labels, hash);
}

static const gconv_dataset_type classes_type = {
    .read = read_pictures, .free = free_pictures, .class_of = class_of, .digest = digest};
static const gconv_dataset_type pairs_type = {
    .read = read_pictures, .free = free_pictures, .group_of = picture_of, .digest = digest};

static gconv_status make_set(const gconv_dataset_options *options, const gconv_dataset_type *type, gconv_dataset **dataset,
                             picture_set **made) {
  picture_set *set;
  GCONV_NEW(set, 1, "no memory for a data set");
  *set = (picture_set){
      .base.type = type, .patch = options->patch, .scale = 1, .augment = options->augment, .seed = options->seed};
  *made = set;
  *dataset = &set->base;
  GCONV_TRY(gconv_pictures_begin(&set->inputs, options->gray, gconv_dataset_part(options)));
  return gconv_pictures_begin(&set->targets, options->gray, gconv_dataset_part(options));
}

/* True if an image is larger than a patch. */
static bool has_larger(const picture_set *set) {
  for (size_t i = 0; i < set->inputs.count; i++)
    if (set->inputs.items[i].height > set->patch || set->inputs.items[i].width > set->patch)
      return true;
  return false;
}

static void set_info(picture_set *set) {
  const gconv_picture *first = set->inputs.items;
  set->base.varies = set->augment || (set->patch > 0 && has_larger(set));
  set->base.info = (gconv_dataset_info){.cases = set->ends ? set->ends[set->inputs.count - 1] : set->inputs.count,
                                        .channels = set->inputs.channels,
                                        .height = set->patch ? set->patch : first->height,
                                        .width = set->patch ? set->patch : first->width};
}

/* Appends the images, of files or in memory. */
static gconv_status add_images(const gconv_dataset_options *options, gconv_pictures *pictures) {
  const gconv_dataset_cases *cases = options->cases;
  return cases ? gconv_pictures_add_given(pictures, cases->images, cases->count, "image")
               : gconv_pictures_add(pictures, options->inputs, NULL);
}

/* ---- Classes ------------------------------------------------------------------------------------------------------- */

/* Sets the class of the images from number `first` on. */
static gconv_status set_class(picture_set *set, size_t first, size_t class) {
  size_t *classes = realloc(set->classes, set->inputs.count * sizeof *classes);
  GCONV_NEED_MEMORY(classes, "no memory for the classes of %zu images", set->inputs.count);
  set->classes = classes;
  for (size_t i = first; i < set->inputs.count; i++)
    classes[i] = class;
  return GCONV_OK;
}

static gconv_status add_class(void *context, const char *path, const char *name) {
  picture_set *set = context;
  size_t found, first = set->inputs.count, class;
  const char *wrong;
  if (!gconv_is_folder(path))
    return GCONV_OK;
  GCONV_TRY(gconv_labels_find(&set->labels, name, name + strlen(name), &class, &wrong));
  if (wrong)
    return gconv_fail(GCONV_BAD_FILE, "%s: the class \"%s\" %s", path, name, wrong);
  GCONV_TRY(gconv_pictures_add(&set->inputs, path, &found));
  if (found == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: the class \"%s\" has no images: put some into its folder, or remove it", path,
                      name);
  return set_class(set, first, class);
}

/* Takes images in memory, with labels. */
static gconv_status take_classes(picture_set *set, const gconv_dataset_cases *cases) {
  GCONV_TRY(gconv_pictures_add_given(&set->inputs, cases->images, cases->count, "image"));
  for (size_t i = 0; i < cases->count && cases->labels; i++) {
    const char *name = cases->labels[i], *wrong = NULL;
    size_t class = 0;
    if (!name)
      return gconv_fail(GCONV_BAD_ARGUMENT, "cases->labels[%zu] is NULL: each image needs the name of its class", i);
    GCONV_TRY(gconv_labels_find(&set->labels, name, name + strlen(name), &class, &wrong));
    if (wrong)
      return gconv_fail(GCONV_BAD_ARGUMENT, "image %zu: the class \"%s\" %s", i, name, wrong);
    if (i == 0)
      GCONV_TRY(set_class(set, 0, class));
    set->classes[i] = class;
  }
  GCONV_FREED size_t *order = NULL;
  GCONV_TRY(gconv_labels_sort(&set->labels, &order));
  for (size_t i = 0; i < cases->count && order; i++)
    set->classes[i] = order[set->classes[i]];
  return GCONV_OK;
}

static gconv_status check_classes(const picture_set *set, const char *folder) {
  if (set->labels.count == 0)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: has no folders in it: images by class are a folder with a folder of images for each class",
                      folder);
  if (set->labels.count < 2 && !set->labels.known)
    return gconv_fail(GCONV_BAD_FILE, "%s: all images are of the class \"%s\": there must be two classes at least", folder,
                      set->labels.names[0]);
  return GCONV_OK;
}

static gconv_status open_classes(picture_set *set, const gconv_dataset_options *options) {
  if (options->unlabelled) {
    GCONV_TRY(add_images(options, &set->inputs));
  } else {
    GCONV_TRY(gconv_labels_begin(&set->labels, options->classes, options->class_count));
    GCONV_TRY(options->cases ? take_classes(set, options->cases) : gconv_folder_each(options->inputs, add_class, set));
    GCONV_TRY(check_classes(set, options->inputs));
  }
  GCONV_TRY(gconv_pictures_finish(&set->inputs));
  GCONV_TRY(gconv_pictures_check_sizes(&set->inputs, set->patch));
  set_info(set);
  gconv_dataset_info *info = &set->base.info;
  info->classes = (const char *const *)set->labels.names;
  info->outputs = info->class_count = set->labels.count;
  info->target_channels = (int32_t)info->outputs;
  info->target_height = info->target_width = info->outputs > 0;
  return GCONV_OK;
}

gconv_status gconv_dataset_open_classes(const gconv_dataset_options *options, gconv_dataset **dataset) {
  picture_set *set = NULL;
  GCONV_TRY(make_set(options, &classes_type, dataset, &set));
  return open_classes(set, options);
}

/* ---- Pairs --------------------------------------------------------------------------------------------------------- */

/* Sets the number of patches per epoch: for each image, as many as fit into it side by side. */
static gconv_status count_patches(picture_set *set) {
  size_t cases = 0;
  if (set->patch == 0)
    return GCONV_OK;
  GCONV_NEW(set->ends, set->inputs.count, "no memory for %zu images", set->inputs.count);
  for (size_t i = 0; i < set->inputs.count; i++) {
    cases += (size_t)(set->inputs.items[i].height / set->patch) * (size_t)(set->inputs.items[i].width / set->patch);
    set->ends[i] = cases;
  }
  return GCONV_OK;
}

static gconv_status open_pairs(picture_set *set, const gconv_dataset_options *options) {
  const gconv_dataset_cases *cases = options->cases;
  GCONV_TRY(add_images(options, &set->inputs));
  if (!options->unlabelled && !options->targets)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: name what is wanted of these images, too: a folder, or a file, with -t",
                      options->inputs);
  bool targets = !options->unlabelled;
  if (targets && cases) {
    GCONV_TRY(gconv_pictures_add_given(&set->targets, cases->wanted, cases->count, "wanted image"));
    GCONV_TRY(gconv_pictures_check_pairs(&set->inputs, &set->targets, &set->scale));
    GCONV_TRY(gconv_pictures_finish(&set->targets));
  } else if (targets) {
    GCONV_TRY(gconv_pictures_add(&set->targets, options->targets, NULL));
    GCONV_TRY(gconv_pictures_pair(&set->inputs, options->inputs, &set->targets, options->targets, &set->scale));
    GCONV_TRY(gconv_pictures_finish(&set->targets));
  }
  GCONV_TRY(gconv_pictures_finish(&set->inputs));
  GCONV_TRY(gconv_pictures_check_sizes(&set->inputs, set->patch));
  GCONV_TRY(count_patches(set));
  set_info(set);
  gconv_dataset_info *info = &set->base.info;
  if (targets) {
    info->target_channels = set->targets.channels;
    info->target_height = info->height * set->scale;
    info->target_width = info->width * set->scale;
    info->outputs = (size_t)info->target_channels * (size_t)info->target_height * (size_t)info->target_width;
  }
  return GCONV_OK;
}

gconv_status gconv_dataset_open_pairs(const gconv_dataset_options *options, gconv_dataset **dataset) {
  picture_set *set = NULL;
  GCONV_TRY(make_set(options, &pairs_type, dataset, &set));
  return open_pairs(set, options);
}

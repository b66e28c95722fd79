/* SPDX-License-Identifier: MIT */
/* Data sets of pixels: a case is the features of a pixel with a class in a mask. Opening computes all features. */
#include "base/checksum.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/mask.h"
#include "data/pictures.h"
#include "data/random.h"
#include "data/store.h"
#include "gconv_classify.h"
#include "image/layout.h"

#include <math.h>
#include <string.h>

enum { VALUES = 1 << 16, STRIP = 64 /* rows of features that are computed at a time */ };

/* For a class: how many of its pixels are not read yet, and how many of these must become cases. */
typedef struct draw {
  uint64_t left, wanted;
  bool settled; /* all pixels become cases */
} draw;

typedef struct pixel_set {
  gconv_dataset base;
  gconv_pictures inputs, masks;
  gconv_labels labels;
  gconv_palette palette; /* palette of the first mask with a palette */
  uint8_t *colours;      /* owned: RGB of each class, or NULL */
  char *features;        /* owned */
  int32_t *classes;      /* owned, [VALUES]: the class of each number of a mask; -1: none */
  size_t *labelled;      /* owned: the number of each mask's pixels with a class */
  draw *draws;           /* owned: one for each class */
  uint64_t seed;         /* for the draws */
  gconv_store samples;   /* float32: the features of a case, one case after the other */
  gconv_store targets;   /* float32: the number of each case's class */
} pixel_set;

/* ---- Cases --------------------------------------------------------------------------------------------------------- */

static const float *floats_of(const gconv_store *store) {
  return (const float *)(const void *)store->bytes;
}

static gconv_status read_pixels(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                                float *inputs, float *targets) {
  const pixel_set *set = (const pixel_set *)dataset;
  const size_t width = (size_t)dataset->info.channels;
  for (size_t i = 0; i < count; i++) {
    memcpy(inputs + i * width, floats_of(&set->samples) + cases[i] * width, width * sizeof *inputs);
    if (targets)
      targets[i] = floats_of(&set->targets)[cases[i]];
  }
  return GCONV_OK;
}

static size_t class_of(const gconv_dataset *dataset, size_t index) {
  return (size_t)floats_of(&((const pixel_set *)dataset)->targets)[index];
}

static void free_pixels(gconv_dataset *dataset) {
  pixel_set *set = (pixel_set *)dataset;
  gconv_pictures_free(&set->inputs);
  gconv_pictures_free(&set->masks);
  gconv_labels_free(&set->labels);
  gconv_store_free(&set->samples);
  gconv_store_free(&set->targets);
  free(set->colours);
  free(set->features);
  free(set->classes);
  free(set->labelled);
  free(set->draws);
  free(set);
}

static uint64_t digest(const gconv_dataset *dataset, uint64_t hash) {
  const pixel_set *set = (const pixel_set *)dataset;
  hash = gconv_fnv1a(hash, set->features, strlen(set->features) + 1);
  hash = gconv_store_digest(&set->samples, hash);
  hash = gconv_store_digest(&set->targets, hash);
  return gconv_labels_digest(&set->labels, hash);
}

static const gconv_dataset_type pixels_type = {
    .read = read_pixels, .free = free_pixels, .class_of = class_of, .digest = digest};

/* ---- Masks --------------------------------------------------------------------------------------------------------- */

/* Reads mask number `index`. The caller frees *mask, after a failure too. */
static gconv_status read_mask(pixel_set *set, size_t index, gconv_image *mask) {
  const gconv_picture *item = &set->masks.items[index], *input = &set->inputs.items[index];
  gconv_palette palette = {0};
  if (item->given)
    return gconv_mask_take(item->given, item->path, mask);
  GCONV_TRY(gconv_mask_read(item->path, &(gconv_read_options){.palette = &palette}, mask));
  if (mask->height != input->height || mask->width != input->width)
    return gconv_fail(GCONV_BAD_FILE, "%s: has changed while it was in use", item->path);
  if (set->palette.count == 0)
    set->palette = palette;
  return GCONV_OK;
}

static unsigned mask_at(const gconv_image *mask, int32_t y, int32_t x) {
  return (unsigned)gconv_stored_at(mask->type, gconv_row_at(mask, 0, y), (size_t)x * (size_t)mask->channels);
}

/* Counts the numbers in all masks: counts[v] pixels are v. Also counts the labelled pixels of each mask. */
static gconv_status count_values(pixel_set *set, uint64_t *counts) {
  for (size_t i = 0; i < set->masks.count; i++) {
    GCONV_ENDED_BY(gconv_image_free) gconv_image mask = {0};
    GCONV_TRY(read_mask(set, i, &mask));
    for (int32_t y = 0; y < mask.height; y++)
      for (int32_t x = 0; x < mask.width; x++) {
        unsigned value = mask_at(&mask, y, x);
        counts[value]++;
        set->labelled[i] += value > 0;
      }
  }
  return GCONV_OK;
}

static gconv_status add_class(pixel_set *set, unsigned value, const char *path) {
  char name[8];
  const char *wrong;
  size_t number;
  snprintf(name, sizeof name, "%u", value);
  GCONV_TRY(gconv_labels_find(&set->labels, name, name + strlen(name), &number, &wrong));
  if (wrong)
    return gconv_fail(GCONV_BAD_FILE, "%s: the number %s in a mask %s", path, name, wrong);
  set->classes[value] = (int32_t)number;
  return GCONV_OK;
}

/* Decides how many pixels of each class become cases: all, or equal shares of `most`. A class with fewer pixels than its
 * share gives all, and the other classes share the rest. */
static gconv_status share_out(pixel_set *set, const uint64_t *counts, size_t most) {
  const size_t classes = set->labels.count;
  size_t rest = most, open = classes, before = 0, number = 0;
  GCONV_NEW(set->draws, classes + 1, "no memory for the classes of masks");
  if (most > 0 && most < classes)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%zu pixels of %zu classes: each class needs one at least", most, classes);
  for (unsigned value = 1; value < VALUES; value++)
    if (counts[value] > 0)
      set->draws[set->classes[value]].left = counts[value];
  while (open != before && open > 0) {
    const size_t share = most > 0 ? rest / open : SIZE_MAX;
    before = open;
    for (size_t c = 0; c < classes; c++) {
      draw *d = &set->draws[c];
      if (d->settled || d->left > share)
        continue;
      d->settled = true;
      d->wanted = d->left;
      rest -= (size_t)d->left;
      open--;
    }
  }
  for (size_t c = 0; c < classes; c++)
    if (!set->draws[c].settled)
      set->draws[c].wanted = rest / open + (number++ < rest % open);
  return GCONV_OK;
}

/* Decides whether the next pixel of a class becomes a case. Exactly the wanted number of pixels is drawn, and all selections
 * are equally likely (Knuth, The Art of Computer Programming, 3.4.2, algorithm S). */
static bool draw_pixel(pixel_set *set, size_t class) {
  draw *d = &set->draws[class];
  const uint64_t left = d->left--;
  const bool taken = d->wanted == left ||
                     gconv_random_below(gconv_random_bits(set->seed, GCONV_RANDOM_DRAW, class, left), left) < d->wanted;
  d->wanted -= taken;
  return taken;
}

/* Each number from 1 on that a mask has becomes a class, in ascending order. */
static gconv_status find_classes(pixel_set *set, const gconv_dataset_options *options) {
  uint64_t labelled = 0;
  GCONV_FREED uint64_t *counts = calloc(VALUES, sizeof *counts);
  set->classes = malloc(VALUES * sizeof *set->classes);
  set->labelled = calloc(set->masks.count, sizeof *set->labelled);
  GCONV_NEED_MEMORY(counts && set->classes && set->labelled, "no memory for the classes of masks");
  GCONV_TRY(gconv_labels_begin(&set->labels, options->classes, options->class_count));
  GCONV_TRY(count_values(set, counts));
  for (unsigned value = 0; value < VALUES; value++)
    set->classes[value] = -1;
  for (unsigned value = 1; value < VALUES; value++) {
    labelled += counts[value];
    if (counts[value] > 0)
      GCONV_TRY(add_class(set, value, options->targets));
  }
  set->base.info.labelled = labelled;
  if (labelled == 0)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: no pixel has a class: all are 0, which is unlabelled; give each class a number from 1 on",
                      options->targets);
  for (size_t i = 0; i < set->masks.count; i++)
    if (set->labelled[i] == 0)
      gconv_warn("%s: labels no pixel, as all are 0: its image is not learned", set->masks.items[i].path);
  GCONV_TRY(share_out(set, counts, options->most_cases));
  if (set->labels.count < 2)
    return gconv_fail(GCONV_BAD_FILE, "%s: all labelled pixels are %s: there must be two classes at least", options->targets,
                      set->labels.names[0]);
  return GCONV_OK;
}

/* Sets the colours of the classes, if a mask has a palette, and the classes are not those of a model. */
static gconv_status find_colours(pixel_set *set) {
  if (set->palette.count == 0 || set->labels.known)
    return GCONV_OK;
  set->colours = malloc(3 * set->labels.count);
  GCONV_NEED_MEMORY(set->colours, "no memory for the colours of classes");
  for (unsigned value = 0; value < VALUES; value++)
    for (size_t c = 0; c < 3 && set->classes[value] >= 0; c++)
      set->colours[3 * (size_t)set->classes[value] + c] = value < 256 ? set->palette.colours[value][c] : UINT8_MAX;
  return GCONV_OK;
}

/* ---- Features ------------------------------------------------------------------------------------------------------ */

/* Computes the features of one image after the other. */
typedef struct maker {
  gconv_device *device;
  gconv_operation *operation;
  gconv_plan *plan;  /* for the shape of the last image; NULL before the first */
  gconv_image strip; /* features of some rows */
  float *row;        /* features of the labelled pixels of a row */
} maker;

static void free_maker(maker *m) {
  gconv_plan_free(m->plan);
  gconv_operation_free(m->operation);
  gconv_device_close(m->device);
  gconv_image_free(&m->strip);
  free(m->row);
}

/* Makes the plan, and allocates a strip, for images of this shape. */
static gconv_status fit_maker(maker *m, const gconv_image *image) {
  if (m->plan && gconv_plan_fits(m->plan, image))
    return GCONV_OK;
  gconv_plan_free(m->plan);
  gconv_image_free(&m->strip);
  free(m->row);
  m->plan = NULL;
  m->row = NULL;
  GCONV_TRY(gconv_plan_create(m->device, image, m->operation, 0, &m->plan));
  m->strip = *gconv_plan_output_header(m->plan, 0);
  m->strip.height = m->strip.height < STRIP ? m->strip.height : STRIP;
  GCONV_TRY(gconv_image_allocate(&m->strip));
  m->row = malloc((size_t)m->strip.width * (size_t)m->strip.channels * sizeof *m->row);
  return m->row ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for features");
}

/* Appends the labelled pixels of row `row` of the strip, which is row y of the image. */
static gconv_status take_row(pixel_set *set, const maker *m, const gconv_image *mask, int32_t y, int32_t row,
                             const char *path) {
  const size_t channels = (size_t)m->strip.channels, plane = m->strip.plane_bytes / sizeof(float);
  const float *from = (const float *)m->strip.data + (size_t)row * (m->strip.row_bytes / sizeof(float));
  size_t count = 0;
  for (int32_t x = 0; x < mask->width; x++) {
    int32_t class = set->classes[mask_at(mask, y, x)];
    const float target = (float)class;
    if (class < 0 || !draw_pixel(set, (size_t) class))
      continue;
    for (size_t c = 0; c < channels; c++) {
      float value = from[c * plane + (size_t)x];
      if (!isfinite(value))
        return gconv_fail(GCONV_BAD_FILE,
                          "%s: the features of the pixel in column %d of row %d are not finite: the image has NaN "
                          "or infinite samples near it",
                          path, (int)x, (int)y);
      m->row[count++] = value;
    }
    GCONV_TRY(gconv_store_append(&set->targets, &target, sizeof target));
  }
  set->base.info.cases += count / channels;
  return gconv_store_append(&set->samples, m->row, count * sizeof *m->row);
}

static bool has_labels(const gconv_image *mask, int32_t first, int32_t count) {
  for (int32_t y = first; y < first + count; y++)
    for (int32_t x = 0; x < mask->width; x++)
      if (mask_at(mask, y, x) > 0)
        return true;
  return false;
}

static gconv_status take_strips(pixel_set *set, maker *m, const gconv_image *image, const gconv_image *mask,
                                const char *path) {
  GCONV_TRY(fit_maker(m, image));
  for (int32_t first = 0; first < image->height; first += STRIP) {
    gconv_image part = m->strip;
    part.height = image->height - first < part.height ? image->height - first : part.height;
    if (!has_labels(mask, first, part.height))
      continue;
    GCONV_TRY(gconv_plan_execute_rows(m->plan, &(gconv_input_rows){image, 0}, first, &part, 1, NULL));
    for (int32_t row = 0; row < part.height; row++)
      GCONV_TRY(take_row(set, m, mask, first + row, row, path));
  }
  return GCONV_OK;
}

static gconv_status take_image(pixel_set *set, maker *m, size_t index) {
  const gconv_picture *item = &set->inputs.items[index];
  GCONV_ENDED_BY(gconv_image_free) gconv_image image = {0};
  GCONV_ENDED_BY(gconv_image_free) gconv_image mask = {0};
  if (set->labelled[index] == 0)
    return GCONV_OK;
  GCONV_TRY(read_mask(set, index, &mask));
  if (item->given)
    return take_strips(set, m, item->given, &mask, item->path);
  GCONV_TRY(gconv_image_read(item->path, NULL, &image));
  if (image.height != mask.height || image.width != mask.width)
    return gconv_fail(GCONV_BAD_FILE, "%s: has changed while it was in use", item->path);
  return take_strips(set, m, &image, &mask, item->path);
}

static gconv_status make_features(pixel_set *set) {
  GCONV_ENDED_BY(free_maker) maker m = {0};
  GCONV_TRY(gconv_device_open("cpu", 0, &m.device));
  GCONV_TRY(gconv_operation_features(set->features, set->inputs.channels, &m.operation));
  for (size_t i = 0; i < set->inputs.count; i++)
    GCONV_TRY(take_image(set, &m, i));
  GCONV_TRY(gconv_store_finish(&set->samples));
  return gconv_store_finish(&set->targets);
}

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

static gconv_status find_images(pixel_set *set, const gconv_dataset_options *options) {
  if (!options->targets || options->unlabelled)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: name the masks of these images, too: a folder, or a file, with -t",
                      options->inputs);
  const gconv_dataset_cases *cases = options->cases;
  if (cases) {
    GCONV_TRY(gconv_pictures_add_given(&set->inputs, cases->images, cases->count, "image"));
    GCONV_TRY(gconv_pictures_add_given(&set->masks, cases->wanted, cases->count, "mask"));
    GCONV_TRY(gconv_pictures_check_pairs(&set->inputs, &set->masks, NULL));
  } else {
    GCONV_TRY(gconv_pictures_add(&set->inputs, options->inputs, NULL));
    GCONV_TRY(gconv_pictures_add(&set->masks, options->targets, NULL));
    GCONV_TRY(gconv_pictures_pair(&set->inputs, options->inputs, &set->masks, options->targets, NULL));
  }
  GCONV_TRY(gconv_pictures_finish(&set->inputs));
  if (set->inputs.channels != 1 && set->inputs.channels != 3)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %d channels: images whose pixels are classified are grey or RGB",
                      set->inputs.items[0].path, (int)set->inputs.channels);
  return GCONV_OK;
}

static gconv_status open_pixels(pixel_set *set, const gconv_dataset_options *options) {
  int32_t count;
  set->seed = options->seed;
  GCONV_TRY(gconv_features_resolve(options->features ? options->features : "default", &set->features, &count));
  set->samples.limit = set->targets.limit = gconv_dataset_part(options);
  GCONV_TRY(gconv_pictures_begin(&set->inputs, options->gray, gconv_dataset_part(options)));
  GCONV_TRY(gconv_pictures_begin(&set->masks, false, gconv_dataset_part(options)));
  GCONV_TRY(find_images(set, options));
  GCONV_TRY(find_classes(set, options));
  GCONV_TRY(find_colours(set));
  GCONV_TRY(make_features(set));
  gconv_dataset_info *info = &set->base.info;
  info->channels = set->inputs.channels * count;
  info->height = info->width = 1;
  info->classes = (const char *const *)set->labels.names;
  info->outputs = info->class_count = set->labels.count;
  info->target_channels = (int32_t)info->outputs;
  info->target_height = info->target_width = 1;
  info->features = set->features;
  info->palette = set->colours;
  return GCONV_OK;
}

gconv_status gconv_dataset_open_pixels(const gconv_dataset_options *options, gconv_dataset **dataset) {
  pixel_set *set;
  GCONV_NEW(set, 1, "no memory for a data set");
  set->base.type = &pixels_type;
  *dataset = &set->base;
  return open_pixels(set, options);
}

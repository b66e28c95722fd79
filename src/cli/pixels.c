/* SPDX-License-Identifier: MIT */
/* Maps of classes, by the main job, and how well they agree with masks. */
#include "cli/pixels.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/job.h"
#include "cli/learn.h"
#include "cli/pairs.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VALUES = 1 << 16, UNKNOWN = -1 };

typedef struct evaluation {
  gconv_settings *settings;
  gconv_texts masks;     /* as they were named */
  int32_t *classes;      /* owned, [VALUES]: the class of each number of maps and masks */
  gconv_confusion found; /* owned */
} evaluation;

/* ---- Comparing maps with masks ---------------------------------------------------------------------------------------- */

/* Reads numbers: a map or a mask. */
static gconv_status read_numbers(const char *path, const gconv_settings *settings, gconv_image *image) {
  gconv_palette palette;
  const gconv_read_options options = {.palette = &palette, .max_pixels = settings->job.max_pixels};
  GCONV_TRY(gconv_image_read(path, &options, image));
  if (image->frames == 1 && image->channels - image->alpha == 1 && image->type != GCONV_F32)
    return GCONV_OK;
  const bool stack = image->frames > 1;
  gconv_image_free(image);
  if (stack)
    return gconv_set_error(GCONV_BAD_FILE, "holds several images, and maps are compared with masks one by one");
  return gconv_set_error(GCONV_BAD_FILE, "is no mask: that has one whole number a pixel, of 8 or 16 bits, or a palette");
}

static unsigned number_at(const gconv_image *image, int32_t y, int32_t x) {
  const uint8_t *row = (const uint8_t *)image->data + (size_t)y * image->row_bytes;
  size_t at = (size_t)x * (size_t)image->channels;
  return image->type == GCONV_U8 ? row[at] : ((const uint16_t *)(const void *)row)[at];
}

/* Counts the pixels that the mask labels. */
static gconv_status count_pixels(evaluation *e, const gconv_image *map, const gconv_image *mask, const char *path,
                                 gconv_message *message) {
  if (map->height != mask->height || map->width != mask->width)
    return gconv_complain(message, GCONV_BAD_FILE,
                          "%s: has %d x %d pixels, and the image %d x %d: a mask has the size of its image", path,
                          (int)mask->width, (int)mask->height, (int)map->width, (int)map->height);
  for (int32_t y = 0; y < mask->height; y++)
    for (int32_t x = 0; x < mask->width; x++) {
      unsigned wanted = number_at(mask, y, x), got = number_at(map, y, x);
      if (wanted == 0)
        continue;
      if (e->classes[wanted] == UNKNOWN || e->classes[got] == UNKNOWN)
        return gconv_complain(message, GCONV_BAD_FILE,
                              "%s: the pixel in column %d of row %d is %u, which is no class of the model", path, (int)x,
                              (int)y, e->classes[wanted] == UNKNOWN ? wanted : got);
      gconv_confusion_add(&e->found, (size_t)e->classes[wanted], (size_t)e->classes[got]);
    }
  return GCONV_OK;
}

static gconv_status compare_pair(evaluation *e, const char *map_path, const char *mask_path, gconv_message *message) {
  gconv_image map = {0}, mask = {0};
  gconv_status status = read_numbers(map_path, e->settings, &map);
  const char *path = map_path;
  if (status == GCONV_OK) {
    path = mask_path;
    status = read_numbers(mask_path, e->settings, &mask);
  }
  if (status != GCONV_OK)
    gconv_complain(message, status, "%s%s%s", strncmp(gconv_last_error(), path, strlen(path)) == 0 ? "" : path,
                   strncmp(gconv_last_error(), path, strlen(path)) == 0 ? "" : ": ", gconv_last_error());
  else
    status = count_pixels(e, &map, &mask, mask_path, message);
  gconv_image_free(&map);
  gconv_image_free(&mask);
  return status;
}

/* Compares all maps of the job. */
static gconv_status compare_all(evaluation *e, const gconv_main_job *job, const gconv_inputs *masks,
                                gconv_message *message) {
  gconv_matched *pairs = NULL;
  size_t count = 0;
  bool by_name = job->inputs.many || masks->many;
  GCONV_TRY(gconv_pairs_find(&job->inputs, masks, by_name, NULL, &pairs, &count, message));
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < count && status == GCONV_OK; i++) {
    const gconv_input *input = pairs[i].a, *mask = pairs[i].b;
    if (!input) /* of another shard, or of an image that is not classified */
      continue;
    if (!mask)
      status =
          gconv_complain(message, GCONV_BAD_FILE, "%s: there is no mask of this name in %s", input->path, e->masks.items[0]);
    else
      status = compare_pair(e, job->outputs.paths.items[job->outputs.first[input - job->inputs.items]], mask->path, message);
  }
  free(pairs);
  return status;
}

/* ---- Telling of it ---------------------------------------------------------------------------------------------------- */

/* Of a class: pixels that are in both, in the mask, and in the map. */
typedef struct class_sums {
  double both, wanted, got;
} class_sums;

static class_sums sums_of(const gconv_confusion *c, size_t class) {
  class_sums s = {(double)c->counts[class * c->classes + class], 0, 0};
  for (size_t k = 0; k < c->classes; k++) {
    s.wanted += (double)c->counts[class * c->classes + k];
    s.got += (double)c->counts[k * c->classes + class];
  }
  return s;
}

/* Not a number where the class is neither in a mask nor in a map. */
static double iou_of(class_sums s) {
  return s.both / (s.wanted + s.got - s.both);
}
static double f1_of(class_sums s) {
  return 2 * s.both / (s.wanted + s.got);
}

static json_t *evaluation_json(const gconv_confusion *c) {
  json_t *json = gconv_data_confusion_json(c), *iou = json_array(), *f1 = json_array();
  for (size_t k = 0; k < c->classes; k++) {
    json_array_append_new(iou, gconv_json_number(iou_of(sums_of(c, k))));
    json_array_append_new(f1, gconv_json_number(f1_of(sums_of(c, k))));
  }
  json_object_set_new(json, "iou", iou);
  json_object_set_new(json, "f1", f1);
  return json;
}

static void print_evaluation(const evaluation *e) {
  const gconv_confusion *c = &e->found;
  FILE *out = strcmp(e->settings->naming.output, "-") == 0 ? stderr : stdout;
  if (e->settings->json) {
    json_t *json = evaluation_json(c);
    gconv_json_print(out, json, JSON_INDENT(2));
    json_decref(json);
    return;
  }
  fprintf(out, "%.2f%% of the labelled pixels right: %zu of %zu\n",
          c->cases ? 100.0 * (double)c->right / (double)c->cases : 0, c->right, c->cases);
  gconv_data_print_confusion(out, c);
  fprintf(out, "%12s  %7s %7s %12s\n", "class", "IoU", "F1", "pixels");
  for (size_t k = 0; k < c->classes; k++) {
    class_sums s = sums_of(c, k);
    fprintf(out, "%12s  %7.4f %7.4f %12.0f\n", c->names[k], iou_of(s), f1_of(s), s.wanted);
  }
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

/* Which number is which class. */
static gconv_status find_classes(evaluation *e, const gconv_classifier *by) {
  uint16_t *values = calloc(by->class_count + 1, sizeof *values);
  e->classes = malloc(VALUES * sizeof *e->classes);
  gconv_status status = values && e->classes ? gconv_class_values(by->classes, by->class_count, values)
                                             : gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (size_t v = 0; v < VALUES && e->classes; v++)
    e->classes[v] = UNKNOWN;
  for (size_t k = 0; k < by->class_count && status == GCONV_OK; k++)
    e->classes[values[k]] = (int32_t)k;
  free(values);
  return status;
}

static gconv_status evaluate_job(evaluation *e, const gconv_main_job *job, gconv_message *message) {
  gconv_classifier by = {0};
  gconv_inputs masks = {0};
  gconv_job_find_classifier(job, &by);
  GCONV_TRY(gconv_learn_complain(find_classes(e, &by), message));
  GCONV_TRY(gconv_learn_complain(gconv_confusion_begin(by.classes, by.class_count, &e->found), message));
  if (!e->found.counts)
    return gconv_complain(message, GCONV_TOO_LARGE, "--evaluate: %zu classes are too many for a table", by.class_count);
  gconv_status status = gconv_inputs_find(&e->masks, e->settings->recursive, "-", &masks, message);
  if (status == GCONV_OK)
    status = compare_all(e, job, &masks, message);
  gconv_inputs_free(&masks);
  if (status == GCONV_OK)
    print_evaluation(e);
  return status;
}

static int evaluate(const gconv_main_job *job, void *user) {
  evaluation *e = user;
  gconv_message message;
  if (e->settings->dry_run)
    return GCONV_EXIT_OK;
  gconv_status status = evaluate_job(e, job, &message);
  if (status != GCONV_OK)
    gconv_say("%s", message.text);
  gconv_confusion_free(&e->found);
  free(e->classes);
  return status == GCONV_OK ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
}

static gconv_status check(gconv_settings *settings, const gconv_texts *words, evaluation *e, gconv_message *message) {
  gconv_learn_settings *learn = &settings->learn;
  const char *network = words->items[0], *second = words->count > 1 ? words->items[1] : NULL;
  struct stat status;
  if (second && (!learn->evaluate || learn->targets || words->count > 2))
    return gconv_refuse(message,
                        "%s: one word too many: gconv classify NETWORK -i IMAGES -o MAPS, with masks behind --evaluate",
                        words->items[words->count - 1]);
  if (settings->inputs.count == 0)
    return gconv_refuse(message, "%s: name images, or a folder of them, with -i", network);
  if (!settings->naming.output)
    return gconv_refuse(message, "%s: names the class of each pixel: say with -o where the maps go, a file or a folder",
                        network);
  learn->targets = second ? second : learn->targets;
  if (learn->targets && !learn->evaluate)
    return gconv_refuse(message, "-t names masks, which --evaluate compares with");
  if (learn->evaluate && !learn->targets)
    return gconv_refuse(message, "--evaluate: name the masks to compare with: --evaluate masks/");
  if (learn->evaluate && (learn->probabilities || strcmp(settings->naming.output, "-") == 0))
    return gconv_refuse(message, "--evaluate reads the maps of classes again: leave out %s",
                        learn->probabilities ? "--probabilities" : "-o -");
  if (learn->evaluate && stat(learn->targets, &status) != 0)
    return gconv_refuse(message, "--evaluate %s: there is no such file or folder", learn->targets);
  if (settings->json && !learn->evaluate)
    return gconv_refuse(message, "--json prints what --evaluate finds");
  settings->options.gray = false; /* the network's features tell */
  if (!settings->job.device)
    settings->job.device = "cpu";
  if (!gconv_texts_add(&settings->last.filters, strdup(network)) ||
      (learn->targets && !gconv_texts_add(&e->masks, strdup(learn->targets))))
    return gconv_complain_memory(message);
  return GCONV_OK;
}

int gconv_classify_pixels(gconv_settings *settings, const gconv_texts *words) {
  evaluation e = {.settings = settings};
  gconv_message message;
  int result = GCONV_EXIT_USAGE;
  if (check(settings, words, &e, &message) == GCONV_OK)
    result = gconv_job_run(settings, settings->learn.evaluate ? evaluate : NULL, &e);
  else
    gconv_say("%s", message.text);
  gconv_texts_free(&e.masks);
  return result;
}

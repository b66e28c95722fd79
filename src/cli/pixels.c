/* SPDX-License-Identifier: MIT */
/* Maps of classes, by the main job, and how well they agree with masks. */
#include "cli/pixels.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/job.h"
#include "cli/learn.h"
#include "cli/overlay.h"
#include "cli/pairs.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#include <string.h>

enum { VALUES = 1 << 16, UNKNOWN = -1, WORST = 6 /* pictures that a report shows */ };

/* An image whose map was compared, for the report. */
typedef struct compared {
  const char *image, *map, *mask; /* paths, owned by the inputs; map is NULL if it is not written */
  uint64_t labelled, wrong;
} compared;

typedef struct evaluation {
  const gconv_pixels_task *task;
  const gconv_common *common; /* the common settings of the task */
  gconv_main_job own;         /* only if maps are not written: has the model, and the operation that makes maps */
  gconv_device *device;       /* only if maps are not written */
  gconv_chosen_device chosen;
  gconv_plan *plan;      /* only if maps are not written: for images of the last shape */
  gconv_classifier by;   /* the model owns its texts */
  int32_t *classes;      /* owned, [VALUES]: the class of each number of maps and masks */
  uint8_t *colours;      /* owned: of the classes, R G B */
  gconv_confusion found; /* owned */
  compared worst[WORST]; /* sorted by the share of labelled pixels that are wrong, the largest first */
  size_t worst_count;
} evaluation;

/* ---- Comparing maps with masks ---------------------------------------------------------------------------------------- */

/* Reads a mask or a map, which have the same form. */
static gconv_status read_numbers(const char *path, const gconv_common *common, gconv_image *image) {
  gconv_palette palette;
  return gconv_mask_read(path, &(gconv_read_options){.palette = &palette, .max_pixels = common->max_pixels}, image);
}

static double share_of(const compared *c) {
  return (double)c->wrong / (double)c->labelled;
}

static void note_worst(evaluation *e, const compared *new) {
  size_t at = e->worst_count < WORST ? e->worst_count++ : WORST - 1;
  if (at == WORST - 1 && e->worst[at].image && share_of(new) <= share_of(&e->worst[at]))
    return;
  for (; at > 0 && share_of(new) > share_of(&e->worst[at - 1]); at--)
    e->worst[at] = e->worst[at - 1];
  e->worst[at] = *new;
}

/* Finds the index, in the confusion matrix, of a mask's number that is no class of the model. */
static gconv_status find_other(evaluation *e, unsigned number, size_t *class) {
  char name[12];
  const int length = snprintf(name, sizeof name, "%u", number);
  return gconv_confusion_find_other(&e->found, name, (size_t)length, class);
}

/* Compares the map with the mask where the mask labels pixels, and counts these. */
static gconv_status count_pixels(evaluation *e, const gconv_image *map, const gconv_image *mask, compared *c) {
  const char *path = c->mask;
  if (map->height != mask->height || map->width != mask->width)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %d x %d pixels, and the image %d x %d: a mask has the size of its image",
                      path, (int)mask->width, (int)mask->height, (int)map->width, (int)map->height);
  for (int32_t y = 0; y < mask->height; y++)
    for (int32_t x = 0; x < mask->width; x++) {
      unsigned wanted = gconv_overlay_number(mask, y, x), got = gconv_overlay_number(map, y, x);
      if (wanted == 0)
        continue;
      if (got != 0 && e->classes[got] == UNKNOWN)
        return gconv_fail(GCONV_BAD_FILE, "%s: the map has %u in column %d of row %d, which is no class of the model", path,
                          got, (int)x, (int)y);
      size_t class = (size_t)e->classes[wanted];
      if (e->classes[wanted] == UNKNOWN)
        GCONV_TRY(find_other(e, wanted, &class));
      gconv_confusion_add(&e->found, class, got == 0 ? SIZE_MAX : (size_t)e->classes[got]);
      c->labelled++;
      c->wrong += wanted != got;
    }
  if (c->labelled > 0)
    note_worst(e, c);
  else if (!e->common->quiet)
    gconv_say("warning: %s: labels no pixel, as all are 0: it does not count", path);
  return GCONV_OK;
}

/* Makes the map of an image, if maps are not written. */
static gconv_status make_map(evaluation *e, const char *path, gconv_image *map) {
  GCONV_ENDED_BY(gconv_image_free) gconv_image image = {0};
  const gconv_read_options options = {.max_pixels = e->common->max_pixels};
  GCONV_TRY(gconv_image_read(path, &options, &image));
  if (image.frames > 1)
    return gconv_set_error(GCONV_BAD_FILE, "holds several images, and maps are compared with masks one by one");
  if (!e->plan || !gconv_plan_fits(e->plan, &image)) {
    gconv_plan_free(e->plan);
    e->plan = NULL;
    GCONV_TRY(gconv_plan_create(e->device, &image, e->own.operation, 0, &e->plan));
  }
  return gconv_plan_execute(e->plan, &image, map, 1, NULL);
}

static gconv_status get_map(evaluation *e, const compared *c, gconv_image *map) {
  return c->map ? read_numbers(c->map, e->common, map) : make_map(e, c->image, map);
}

static gconv_status compare_pair(evaluation *e, compared *c) {
  GCONV_ENDED_BY(gconv_image_free) gconv_image map = {0};
  GCONV_ENDED_BY(gconv_image_free) gconv_image mask = {0};
  gconv_status status = get_map(e, c, &map);
  const char *path = c->map ? c->map : c->image;
  if (status == GCONV_OK) {
    path = c->mask;
    status = read_numbers(c->mask, e->common, &mask);
  }
  const bool named = status != GCONV_OK && strncmp(gconv_last_error(), path, strlen(path)) == 0;
  return status == GCONV_OK ? count_pixels(e, &map, &mask, c)
                            : gconv_fail(status, "%s%s%s", named ? "" : path, named ? "" : ": ", gconv_last_error());
}

static void show_progress(const evaluation *e, size_t done, size_t count) {
  char text[80];
  snprintf(text, sizeof text, "%zu/%zu images compared", done, count);
  if (!e->common->quiet && count > 1 && gconv_terminal_can_erase())
    gconv_progress_show(text);
}

/* Compares the maps of all inputs with masks. `outputs` has the paths of the maps; NULL: they are not written. */
static gconv_status compare_all(evaluation *e, const gconv_inputs *inputs, const gconv_outputs *outputs,
                                const gconv_inputs *masks) {
  GCONV_FREED gconv_matched *pairs = NULL;
  size_t count = 0;
  GCONV_TRY(gconv_pairs_find(inputs, masks, inputs->many || masks->many, NULL, &pairs, &count));
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < count && status == GCONV_OK; i++) {
    const gconv_input *input = pairs[i].a, *mask = pairs[i].b;
    if (!input) /* another shard has the image of this mask, or the image is not classified */
      continue;
    show_progress(e, i, count);
    compared c = {.image = input->path, .mask = mask ? mask->path : NULL};
    c.map = outputs ? outputs->paths.items[outputs->first[input - inputs->items]] : NULL;
    status = mask ? compare_pair(e, &c)
                  : gconv_fail(GCONV_BAD_FILE, "%s: there is no mask of this name in %s", input->path, e->task->masks);
  }
  gconv_progress_hide();
  return status;
}

/* ---- Reports ---------------------------------------------------------------------------------------------------- */

static void print_evaluation(const evaluation *e) {
  const gconv_confusion *c = &e->found;
  const char *output = e->common->output;
  FILE *out = output && strcmp(output, "-") == 0 ? stderr : stdout;
  if (e->common->json) {
    gconv_classify_print_json(out, c, &e->chosen);
    return;
  }
  fprintf(out, "%.2f%% of the labelled pixels right: %zu of %zu\n",
          c->cases ? 100.0 * (double)c->right / (double)c->cases : 0, c->right, c->cases);
  gconv_data_print_confusion(out, c);
  fprintf(out, "%12s  %7s %7s %12s\n", "class", "IoU", "F1", "pixels");
  for (size_t k = 0; k < c->classes; k++) {
    gconv_class_score s = gconv_confusion_score(c, k);
    gconv_print(out, "%12s  %7.4f %7.4f %12.0f\n", c->names[k], s.iou, s.f1, s.wanted);
  }
}

/* ---- The report ------------------------------------------------------------------------------------------------------- */

static void put_overlay(FILE *out, evaluation *e, const compared *c) {
  gconv_image map = {0}, mask = {0};
  const gconv_overlay overlay = {.path = c->image,
                                 .labelled = c->labelled,
                                 .wrong = c->wrong,
                                 .map = &map,
                                 .mask = &mask,
                                 .classes = e->classes,
                                 .colours = e->colours};
  if (get_map(e, c, &map) == GCONV_OK && read_numbers(c->mask, e->common, &mask) == GCONV_OK)
    gconv_overlay_put(out, &overlay);
  gconv_image_free(&map);
  gconv_image_free(&mask);
}

static void put_overlays(FILE *out, void *user) {
  evaluation *e = user;
  fputs("<h2>Pictures</h2>\n<p>The pictures with the largest share of errors, each with its mask, the prediction, and the "
        "errors: wrong pixels are red, right ones are green.</p>\n",
        out);
  for (size_t i = 0; i < e->worst_count; i++)
    put_overlay(out, e, &e->worst[i]);
}

static gconv_status write_report(evaluation *e, const char *input) {
  const gconv_evaluation_page page = {.model = e->task->model,
                                      .input = input,
                                      .unit = "labelled pixel",
                                      .found = &e->found,
                                      .colours = e->colours,
                                      .more = put_overlays,
                                      .user = e};
  return gconv_evaluation_write(e->common->report, &page);
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

/* Finds the class of each number. */
static gconv_status find_classes(evaluation *e, const gconv_classifier *by) {
  GCONV_FREED uint16_t *values = calloc(by->class_count + 1, sizeof *values);
  e->classes = malloc(VALUES * sizeof *e->classes);
  GCONV_NEED_MEMORY(values && e->classes, "out of memory");
  GCONV_TRY(gconv_class_values(by->classes, by->class_count, values));
  for (size_t v = 0; v < VALUES; v++)
    e->classes[v] = UNKNOWN;
  for (size_t k = 0; k < by->class_count; k++)
    e->classes[values[k]] = (int32_t)k;
  return GCONV_OK;
}

static gconv_status find_colours(evaluation *e) {
  e->colours = malloc(3 * e->by.class_count + 1);
  GCONV_NEED_MEMORY(e->colours, "out of memory");
  for (size_t k = 0; k < e->by.class_count; k++)
    gconv_classifier_colour(&e->by, k, e->colours + 3 * k);
  return GCONV_OK;
}

/* Compares the maps of a job, written or not, and reports the result. */
static gconv_status evaluate_all(evaluation *e, const gconv_main_job *job, const gconv_inputs *inputs,
                                 const gconv_outputs *outputs) {
  char *path = (char *)e->task->masks;
  const gconv_texts named = {&path, 1};
  gconv_inputs masks = {0};
  gconv_job_find_classifier(job, &e->by);
  if (e->by.class_count == 0)
    return gconv_refuse("--evaluate: %s has no classes to compare", e->task->model);
  GCONV_TRY(find_classes(e, &e->by));
  GCONV_TRY(find_colours(e));
  GCONV_TRY(gconv_confusion_begin(e->by.classes, e->by.class_count, &e->found));
  if (!e->found.counts)
    return gconv_fail(GCONV_TOO_LARGE, "--evaluate: %zu classes are too many for a table", e->by.class_count);
  gconv_status status = gconv_inputs_find_all(&named, e->common->recursive, "-", &masks);
  GCONV_THEN(status, compare_all(e, inputs, outputs, &masks));
  if (status == GCONV_OK && e->found.cases == 0)
    status = gconv_fail(GCONV_BAD_FILE,
                        "--evaluate %s: labels no pixel: all are 0, which is unlabelled, so there is nothing to compare",
                        e->task->masks);
  if (status == GCONV_OK && e->common->report)
    status = write_report(e, e->common->inputs.items[0]);
  gconv_inputs_free(&masks);
  if (status == GCONV_OK && !e->common->quiet)
    gconv_confusion_tell_others(&e->found, e->task->masks, "labelled pixel");
  if (status == GCONV_OK)
    print_evaluation(e);
  return status;
}

static void free_evaluation(evaluation *e) {
  gconv_plan_free(e->plan);
  gconv_device_close(e->device);
  gconv_confusion_free(&e->found);
  free(e->classes);
  free(e->colours);
}

static int evaluate(const gconv_main_job *job, void *user) {
  evaluation *e = user;
  if (e->task->dry_run)
    return GCONV_EXIT_OK;
  e->chosen = job->device;
  gconv_status status = evaluate_all(e, job, &job->inputs, &job->outputs);
  return status == GCONV_OK ? GCONV_EXIT_OK : (gconv_say_end(status), GCONV_EXIT_FAILED);
}

/* Makes the operation for maps that are compared, not written. The maps have 16 bits, which hold any class. */
static gconv_status prepare_own(evaluation *e, gconv_main_job *job) {
  const char *report = e->common->report;
  gconv_sandbox_files(e->common, &report, 1, false);
  GCONV_TRY(gconv_job_read_networks(job));
  job->network.presentation = GCONV_PRESENT_CLASSES;
  job->network.combine = GCONV_COMBINE_ARGMAX;
  job->network.tone = (gconv_tone){.scale = 1, .type = GCONV_U16};
  gconv_status status = job->svm ? gconv_operation_svm(job->svm, &job->network, &job->operation)
                                 : gconv_operation_pixels(gconv_job_last_network(job), &job->network, &job->operation);
  GCONV_THEN(status,
             gconv_device_open(e->common->device, gconv_settle_threads(e->common->threads, e->common->quiet), &e->device));
  GCONV_TRY(status);
  e->chosen = job->device;
  if (!e->chosen.name[0]) {
    const bool any = strcmp(e->common->device, "auto") == 0;
    gconv_device_choose(&e->chosen, gconv_device_get_info(e->device)->name, any ? "a GPU can be used" : NULL);
    gconv_device_tell(e->common, &e->chosen);
  }
  return GCONV_OK;
}

static int evaluate_only(evaluation *e) {
  gconv_main_job *job = &e->own;
  GCONV_ENDED_BY(gconv_inputs_free) gconv_inputs inputs = {0};
  gconv_set_log(e->common->quiet ? NULL : gconv_say_warning, NULL);
  job->settings = e->task->job;
  job->common = e->common;
  gconv_status status = prepare_own(e, job);
  GCONV_THEN(status, gconv_inputs_find_all(&e->common->inputs, e->common->recursive, "-", &inputs));
  GCONV_THEN(status, evaluate_all(e, job, &inputs, NULL));
  gconv_plan_free(e->plan);
  e->plan = NULL;
  gconv_job_free(job);
  return gconv_say_end(status);
}

int gconv_classify_pixels(const gconv_pixels_task *task) {
  GCONV_ENDED_BY(free_evaluation) evaluation e = {.task = task, .common = task->common};
  return task->common->output ? gconv_job_run(task->job, task->masks ? evaluate : NULL, &e) : evaluate_only(&e);
}

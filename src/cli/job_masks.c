/* SPDX-License-Identifier: MIT */
/* --mask and --weights that name a file for each image, such as 'masks/{stem}.png'. Each image is then a run of its own,
 * with an operation of its own. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/job.h"
#include "cli/job_holes.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns whether the word names a file for each image: it has a brace, and is no existing file itself. */
static bool is_template(const char *word) {
  return word && strchr(word, '{') && access(word, F_OK) != 0;
}

static bool has_templates(const gconv_main_job *job) {
  return is_template(job->mask_name) || is_template(job->holes->weights);
}

/* Returns the field of the template that is not known of a picture, or NULL: the frames of an image have one picture, and
 * the picture's format is its own. */
static const char *find_unknown(const char *word) {
  static const char *const unknown[] = {"{frame}", "{filter}", "{output}", "{ext}", NULL};
  size_t i = 0;
  while (unknown[i] && !strstr(word, unknown[i]))
    i++;
  return unknown[i];
}

/* Names the picture of each image. Fails unless all of them exist, and no result would replace one. */
static gconv_status name_pictures(const gconv_main_job *job, const char *option, const char *word, gconv_outputs *pictures) {
  if (find_unknown(word))
    return gconv_refuse("%s %s: this takes {stem} and {index} of the image, and no %s", option, word, find_unknown(word));
  gconv_filter label = {.name = ""};
  const gconv_filters labels = {.items = &label, .count = 1};
  const gconv_naming naming = {.output = word, .format = gconv_format_by_name("npy"), .filters = &labels};
  gconv_inputs named = {.items = calloc(job->inputs.count + 1, sizeof *named.items), .count = job->inputs.count};
  GCONV_NEED_MEMORY(named.items, "out of memory");
  for (size_t i = 0; i < named.count; i++) /* no path is given: the frames of an image have one picture */
    named.items[i] = (gconv_input){.path = (char *)"-", .file = (char *)"-", .relative = job->inputs.items[i].relative};
  gconv_status status = gconv_outputs_name(&named, &naming, pictures, &(gconv_message){0});
  for (size_t i = 0; i < named.count && status == GCONV_OK; i++)
    status = gconv_check_is_there(pictures->paths.items[i]);
  GCONV_THEN(status, gconv_outputs_check_filters(&pictures->paths, false, &job->outputs, &(gconv_message){0}));
  free(named.items);
  return status == GCONV_OK ? status : gconv_refuse("%s of each image: %s", option, gconv_last_error());
}

static gconv_status read_one(const gconv_main_job *job, const char *option, const char *word, const gconv_outputs *pictures,
                             size_t i, gconv_image *image) {
  return word ? gconv_read_picture(job->common, option, pictures->paths.count ? pictures->paths.items[i] : word, image)
              : GCONV_OK;
}

/* Reads the mask and the weights of image `i`, which may be those of all images. */
static gconv_status read_masks_of(gconv_main_job *job, size_t i) {
  gconv_image_free(&job->mask);
  gconv_image_free(&job->weights);
  GCONV_TRY(read_one(job, "--mask", job->mask_name, &job->masks, i, &job->mask));
  return read_one(job, "--weights", job->holes->weights, &job->many_weights, i, &job->weights);
}

/* If --mask or --weights is a template, names the files of all images, and refuses options that do not go with it. */
static gconv_status name_masks(gconv_main_job *job, bool resumes) {
  if (!has_templates(job))
    return GCONV_OK;
  if (resumes || job->batch.one_array)
    return gconv_refuse("%s: takes one --mask and --weights for all images",
                        resumes ? "--resume" : "one array of all results");
  if (is_template(job->mask_name))
    GCONV_TRY(name_pictures(job, "--mask", job->mask_name, &job->masks));
  return is_template(job->holes->weights) ? name_pictures(job, "--weights", job->holes->weights, &job->many_weights)
                                          : GCONV_OK;
}

gconv_status gconv_job_read_mask(gconv_main_job *job, bool resumes) {
  GCONV_TRY(gconv_hole_options_check(job->holes, job->has_banks && job->before_count == 0));
  GCONV_TRY(name_masks(job, resumes));
  GCONV_TRY(read_masks_of(job, 0));
  gconv_job_warn(job);
  return GCONV_OK;
}

static void add_summary(gconv_batch_summary *sum, const gconv_batch_summary *part) {
  sum->begun += part->begun;
  sum->written += part->written;
  sum->passed += part->passed;
  sum->failed += part->failed;
  sum->wall_ms += part->wall_ms;
  sum->leftovers += part->leftovers;
  sum->device = part->device;
  memcpy(sum->device_reason, part->device_reason, sizeof sum->device_reason);
}

/* Runs image `i` with its own mask and weights. */
static gconv_status run_one(gconv_main_job *job, size_t i, gconv_batch_summary *summary) {
  const size_t first = job->outputs.first[i], count = job->outputs.first[i + 1] - first;
  gconv_inputs input = {.items = &job->inputs.items[i], .count = 1, .many = job->inputs.many};
  gconv_outputs outputs = job->outputs;
  gconv_batch batch = job->batch;
  outputs.paths = (gconv_texts){.items = job->outputs.paths.items + first, .count = count};
  outputs.formats += first;
  outputs.first = (size_t[]){0, count};
  gconv_operation_free(job->operation);
  job->operation = NULL;
  gconv_status status = read_masks_of(job, i);
  GCONV_THEN(status, gconv_job_make_operation(job));
  if (status != GCONV_OK) {
    gconv_progress_hide();
    gconv_say("%s", gconv_last_error());
    *summary = (gconv_batch_summary){.begun = 1, .failed = count};
    return GCONV_OK;
  }
  batch.inputs = &input;
  batch.outputs = &outputs;
  batch.operation = job->operation;
  batch.unrounded = job->batch.unrounded;
  return gconv_batch_run(&batch, summary, &(gconv_message){0});
}

gconv_status gconv_job_run_batch(gconv_main_job *job, gconv_batch_summary *summary) {
  gconv_status status = GCONV_OK;
  if (!has_templates(job))
    return gconv_batch_run(&job->batch, summary, &(gconv_message){0});
  for (size_t i = 0; i < job->inputs.count && status == GCONV_OK; i++) {
    gconv_batch_summary one = {0};
    status = run_one(job, i, &one);
    add_summary(summary, &one);
    if (one.failed > 0 && job->batch.fail_fast) {
      summary->failed += job->outputs.paths.count - job->outputs.first[i + 1];
      break;
    }
  }
  return status;
}

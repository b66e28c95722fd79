/* SPDX-License-Identifier: MIT */
/* Makes a job of its settings: reads filters or banks, finds inputs, names results, and refuses options that do not fit. */
#include "cli/job.h"
#include "cli/bank.h"
#include "cli/job_settings.h"
#include "cli/picture_filter.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Filters and banks ----------------------------------------------------------------------------------------------- */

/* Fails with the reason why `spec` could not be read. Adds `spec` to an error of missing memory that does not name it. */
static gconv_status complain_spec(const char *spec, gconv_status status) {
  bool named = status != GCONV_NO_MEMORY || strncmp(gconv_last_error(), spec, strlen(spec)) == 0;
  return gconv_fail(status, "%s%s%s%s", named ? "" : "-f ", named ? "" : spec, named ? "" : ": ", gconv_last_error());
}

/* Does --normalize: the sum of the taps becomes the divisor. */
static gconv_status normalise(const gconv_filters *filters) {
  for (size_t i = 0; i < filters->count; i++) {
    gconv_filter *filter = &filters->items[i];
    double sum = 0, magnitude = 0;
    for (size_t k = 0; k < (size_t)filter->rows * (size_t)filter->columns; k++) {
      sum += (double)filter->taps[k];
      magnitude += fabs((double)filter->taps[k]);
    }
    if (fabs(sum) <= 1e-6 * magnitude)
      return gconv_refuse("--normalize: %s: its taps sum to 0, and no factor makes that 1: leave it out", filter->name);
    filter->divisor = (float)sum;
  }
  return GCONV_OK;
}

static gconv_status read_stage(gconv_main_job *job, size_t number, gconv_filters *filters) {
  const gconv_layer_settings *stage = gconv_job_settings_stage(job->settings, number);
  GCONV_TRY(gconv_stage_read_arithmetic(job->common, &stage->filters, &job->arithmetic[number], filters));
  if (job->arithmetic[number].given || job->arithmetic[number].statistic)
    return GCONV_OK;
  for (size_t i = 0; i < stage->filters.count; i++) {
    bool taken; /* astronomers keep PSFs as FITS; other pictures are no filters */
    gconv_status status = gconv_picture_filter_read(stage->filters.items[i], "fits", filters, &taken);
    if (status == GCONV_OK && !taken)
      status = gconv_filters_read(stage->filters.items[i], stage->syntax, filters);
    if (status != GCONV_OK)
      return complain_spec(stage->filters.items[i], status);
  }
  return job->settings->normalize ? normalise(filters) : GCONV_OK;
}

static gconv_status read_filters(gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  GCONV_NEW(job->before, job->before_count + 1, "out of memory");
  GCONV_NEW(job->arithmetic, job->before_count + 1, "out of memory");
  for (size_t i = 0; i < settings->before_count; i++) {
    if (gconv_job_is_network(&job->networks[i]))
      continue;
    GCONV_TRY(read_stage(job, i, &job->before[i]));
    if (job->before[i].count != 1 && !job->before[i].gradient)
      return gconv_refuse("--then: %zu filters stand before it, but the stage after it takes one image: name one filter",
                          job->before[i].count);
  }
  if (settings->before_count > 0 && gconv_job_settings_want_race(settings))
    return gconv_refuse("--algorithm all times the filters of one image: leave out --then");
  if (gconv_job_last_network(job) || job->svm)
    return GCONV_OK;
  GCONV_TRY(read_stage(job, job->before_count, &job->filters));
  const char *statistic = job->arithmetic[job->before_count].statistic;
  return statistic && gconv_job_settings_want_race(settings)
             ? gconv_refuse("--algorithm all times filters, and %s has one algorithm: leave it out", statistic)
             : GCONV_OK;
}

/* Makes job->layers, still without banks. */
static gconv_status make_layers(gconv_main_job *job) {
  job->layer_count = job->before_count + 1;
  GCONV_NEW(job->layers, job->layer_count, "out of memory");
  for (size_t i = 0; i < job->layer_count; i++)
    job->layers[i] = gconv_job_settings_stage(job->settings, i)->layer;
  return GCONV_OK;
}

static gconv_status read_bank(const gconv_layer_settings *layer, gconv_bank *bank) {
  const gconv_texts *specs = &layer->filters;
  bool is_bank = gconv_bank_is_own_syntax(layer->syntax) || gconv_bank_is_one(specs->items[0]);
  for (size_t i = 1; i < specs->count; i++)
    if (is_bank || gconv_bank_is_one(specs->items[i]))
      return gconv_refuse("-f %s -f %s: a layer has one bank: put --then between them to apply one after the other",
                          specs->items[0], specs->items[i]);
  gconv_status status =
      is_bank ? gconv_bank_read(specs->items[0], layer->syntax, bank) : gconv_bank_stack_specs(specs, layer->syntax, bank);
  return status == GCONV_OK ? GCONV_OK : complain_spec(specs->items[0], status);
}

static gconv_status read_banks(gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  const size_t count = job->layer_count;
  GCONV_NEW(job->banks, count, "out of memory");
  for (size_t i = 0; i < count; i++) {
    GCONV_TRY(read_bank(gconv_job_settings_stage(settings, i), &job->banks[i]));
    job->layers[i].bank = &job->banks[i];
    job->layers[i].border = settings->border.border;
    job->layers[i].border_value = settings->border.value;
  }
  job->layers[count - 1].algorithm = NULL; /* the last --algorithm is for all layers that have none before their --then */
  return GCONV_OK;
}

/* ---- Options ---------------------------------------------------------------------------------------------------------- */

/* Fills the options that filters and banks share. */
static void make_options(gconv_job_settings *settings) {
  gconv_options *options = &settings->options;
  options->border = settings->border.border;
  options->border_value = settings->border.value;
  options->combine = settings->combine == GCONV_COMBINE_MOSAIC ? GCONV_COMBINE_NONE : (gconv_combine)settings->combine;
  options->range = settings->range < 0 ? GCONV_RANGE_CLAMP : (gconv_range)settings->range;
  options->sets_type = settings->depth >= 0;
  if (options->sets_type)
    options->output_type = settings->depth > GCONV_F32 ? GCONV_F32 : (gconv_type)settings->depth;
  options->workspace_bytes = settings->workspace < SIZE_MAX / 2 ? (size_t)settings->workspace : SIZE_MAX / 2;
  if (!settings->last.layer.algorithm)
    settings->last.layer.algorithm = "auto";
  options->algorithm = gconv_job_settings_want_race(settings) ? "auto" : settings->last.layer.algorithm;
}

static void make_network_options(gconv_network_options *network, const gconv_job_settings *settings) {
  const gconv_options *options = &settings->options;
  network->gray = options->gray;
  network->mean = settings->mean.items;
  network->mean_count = settings->mean.count;
  network->std = settings->std.items;
  network->std_count = settings->std.count;
  network->white = isnan(settings->white) ? 0 : (float)settings->white;
  network->luma = settings->luma;
  network->alpha = options->alpha;
  network->order = (gconv_colour_order)settings->order;
  network->algorithm = options->algorithm;
  network->without = options->without;
  network->workspace_bytes = options->workspace_bytes;
  network->any_batch = true;
  network->combine = options->combine;
}

/* Fills the batch from the settings, except the inputs, the outputs and the operation. */
static void make_batch(gconv_main_job *job) {
  gconv_job_settings *settings = job->settings;
  gconv_batch *batch = &job->batch;
  if (!job->has_banks)
    gconv_job_make_plain_options(&settings->last.layer, &settings->options);
  if (!job->has_banks && settings->range < 0)
    settings->range = GCONV_RANGE_CLAMP;
  make_options(settings);
  job->options = settings->options;
  job->network = settings->network;
  make_network_options(&job->network, settings);
  *batch = settings->job;
  batch->device = settings->common.device;
  batch->threads = settings->common.threads;
  batch->memory = settings->common.memory;
  batch->max_pixels = settings->common.max_pixels;
  batch->inputs = &job->inputs;
  batch->outputs = &job->outputs;
  batch->nhwc = job->has_banks && settings->layout == 1;
  batch->png_level = settings->png_level < 0 ? 0 : settings->png_level == 0 ? GCONV_PNG_STORED : settings->png_level;
  batch->store = settings->depth == GCONV_DEPTH_I16   ? GCONV_STORE_I16
                 : settings->depth == GCONV_DEPTH_F16 ? GCONV_STORE_F16
                                                      : GCONV_STORE_F32;
  batch->existing = settings->common.no_clobber ? GCONV_EXISTING_KEEP
                    : settings->skip_existing   ? GCONV_EXISTING_SKIP
                    : settings->newer           ? GCONV_EXISTING_NEWER
                    : settings->naming.in_place ? GCONV_EXISTING_BACK_UP
                                                : GCONV_EXISTING_REPLACE;
  batch->watch = !settings->common.quiet;
  batch->written = &job->written;
  batch->leaves_threads = true; /* main.c ends by _exit() */
  batch->report = gconv_job_report;
  batch->user = job;
}

/* True if --border has an effect: on plain filters. For networks, their files say what lies outside. */
static bool has_use_for_border(const gconv_main_job *job) {
  size_t networks = job->svm != NULL, stages = job->settings->before_count + 1;
  for (size_t i = 0; job->networks && i < stages; i++)
    networks += gconv_job_is_network(&job->networks[i]);
  return networks < stages;
}

/* Refuses options that only plain filters have and, in a race, layers with an algorithm of their own. */
static gconv_status check_bank_options(const gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  const gconv_options *options = &job->options;
  if (settings->border.border == GCONV_BORDER_NORMALIZE)
    return gconv_refuse("--border normalize is for plain filters: banks and networks have no weights that it could change");
  if (settings->border.given && !has_use_for_border(job))
    return gconv_refuse("--border: %s says for each layer what lies outside its input: leave it out",
                        settings->last.filters.items[0]);
  const char *option = settings->normalize                                        ? "--normalize"
                       : options->linear                                          ? "--linear"
                       : options->alpha != GCONV_ALPHA_KEEP && !job->has_networks ? "--alpha"
                       : options->combine == GCONV_COMBINE_STACK ? "--combine stack (the outputs are one already)"
                                                                 : NULL;
  if (option)
    return gconv_refuse("%s is not for banks: apply it in a run of its own", option);
  for (size_t i = 0; i < settings->before_count && gconv_job_settings_want_race(settings); i++)
    if (settings->before[i].layer.algorithm)
      return gconv_refuse("--algorithm all times all layers together, but layer %zu has an --algorithm of its own", i + 1);
  return GCONV_OK;
}

/* Does --luma for plain filters: they get a grey image, and add_brightness() brings the colours of the input back. */
static gconv_status take_luma(gconv_main_job *job) {
  const gconv_options *options = &job->options;
  const char *option = options->linear ? "--linear" : options->gray ? "--gray" : options->mix > 0 ? "--mix" : NULL;
  if (option)
    return gconv_refuse("--luma filters the brightness of the samples as they are stored: leave out %s", option);
  if (options->alpha == GCONV_ALPHA_FILTER)
    return gconv_refuse("--luma --alpha filter: alpha is no brightness: leave out --alpha filter, and alpha stays");
  if (job->filters.count != 1 && options->combine == GCONV_COMBINE_NONE)
    return gconv_refuse("--luma: %zu filters: name one, or combine them", job->filters.count);
  job->options.gray = true;
  return GCONV_OK;
}

/* ---- Inputs ---------------------------------------------------------------------------------------------------------- */

static gconv_status find_inputs(gconv_main_job *job) {
  gconv_job_settings *settings = job->settings;
  job->inputs.exclude = &settings->exclude;
  const char *output = settings->naming.in_place ? "-" : settings->common.output;
  GCONV_TRY(
      gconv_inputs_find(&settings->common.inputs, settings->common.recursive, output, &job->inputs, &(gconv_message){0}));
  job->inputs.many |= settings->files_from != NULL;
  for (size_t i = 0; i < settings->missed.count; i++)
    if (!gconv_texts_add(&job->inputs.missed, strdup(settings->missed.items[i])))
      return gconv_no_memory();
  return GCONV_OK;
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

gconv_status gconv_job_prepare(gconv_main_job *job) {
  gconv_job_settings *settings = job->settings;
  job->before_count = settings->before_count;
  job->specs = &settings->last.filters;
  job->area = settings->area;
  job->mask_name = settings->mask;
  job->holes = &settings->holes;
  job->border_given = settings->border.given;
  GCONV_TRY(make_layers(job));
  GCONV_TRY(gconv_job_read_networks(job));
  job->has_banks = job->has_networks ? gconv_job_last_network(job) || job->svm : gconv_job_settings_want_banks(settings);
  job->combine_given = settings->combine >= 0;
  if (!job->has_networks && settings->combine < GCONV_COMBINE_ARGMAX && !gconv_job_settings_have_bank(settings))
    job->made_bank = settings->of_banks;
  if (job->has_networks && !job->has_banks && settings->combine >= GCONV_COMBINE_ARGMAX)
    return gconv_refuse("--combine argmax and mosaic are for what a bank or a network makes, not for filters");
  GCONV_TRY(job->has_banks && !job->has_networks ? read_banks(job) : read_filters(job));
  settings->combine = gconv_job_choose_combine(&job->filters, settings->combine);
  make_batch(job);
  if (job->has_banks)
    GCONV_TRY(check_bank_options(job));
  else if (settings->luma)
    GCONV_TRY(take_luma(job));
  GCONV_TRY(find_inputs(job));
  GCONV_TRY(gconv_job_name_results(job));
  const gconv_status status = gconv_outputs_check(&job->inputs, &job->outputs, &(gconv_message){0});
  if (status != GCONV_OK && strstr(gconv_last_error(), "one of the inputs: "))
    return gconv_fail(status, "%s, or --in-place for -o: it keeps a backup", gconv_last_error());
  GCONV_TRY(status);
  job->missed = gconv_inputs_tell(&job->inputs, settings->common.quiet);
  settings->naming.format = job->outputs.same ? NULL : job->outputs.format; /* for the digest */
  settings->naming.same = job->outputs.same;
  if (job->outputs.earlier > 0 && !settings->common.quiet)
    gconv_say("%zu result%s of an earlier run %s among the inputs, and passed over", job->outputs.earlier,
              job->outputs.earlier > 1 ? "s" : "", job->outputs.earlier > 1 ? "are" : "is");
  GCONV_TRY(gconv_job_check_results(job));
  gconv_shard_take(&settings->shard, &job->inputs, &job->outputs);
  return GCONV_OK;
}

gconv_status gconv_job_open_manifest(gconv_main_job *job, bool writes) {
  const gconv_job_settings *settings = job->settings;
  if (!settings->resume || job->manifest)
    return GCONV_OK;
  uint64_t number;
  size_t removed = 0;
  GCONV_TRY(gconv_job_digest(job, &number));
  GCONV_TRY(gconv_manifest_open(&job->outputs, &settings->shard, number, writes ? &removed : NULL, &job->manifest,
                                &(gconv_message){0}));
  job->batch.manifest = job->manifest;
  job->leftovers = removed;
  return GCONV_OK;
}

void gconv_job_free(gconv_main_job *job) {
  gconv_manifest_close(job->manifest);
  gconv_operation_free(job->operation);
  gconv_image_free(&job->mask);
  for (size_t i = 0; job->arithmetic && i <= job->settings->before_count; i++)
    gconv_stage_free_arithmetic(&job->arithmetic[i]);
  free(job->arithmetic);
  gconv_image_free(&job->weights);
  for (size_t i = 0; job->banks && i < job->layer_count; i++)
    gconv_bank_free(&job->banks[i]);
  free(job->banks);
  free(job->layers);
  for (size_t i = 0; job->networks && i <= job->settings->before_count; i++)
    gconv_network_free(&job->networks[i]);
  free(job->networks);
  gconv_svm_free(job->svm);
  for (size_t i = 0; i < job->before_count && job->before; i++)
    gconv_filters_free(&job->before[i]);
  free(job->before);
  gconv_filters_free(&job->filters);
  gconv_outputs_free(&job->masks);
  gconv_outputs_free(&job->many_weights);
  gconv_outputs_free(&job->outputs);
  gconv_inputs_free(&job->inputs);
}

/* SPDX-License-Identifier: MIT */
#include "cli/job_settings.h"
#include "base/memory.h"
#include "cli/bank.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gconv_job_settings_begin(void *settings) {
  gconv_job_settings *s = settings;
  s->combine = s->depth = s->png_level = s->range = -1;
  s->job.tolerance = -1;
  s->options = gconv_options_default();
}

void gconv_job_settings_end(void *settings) {
  gconv_job_settings *s = settings;
  for (size_t i = 0; i < s->before_count; i++)
    gconv_texts_free(&s->before[i].filters);
  free(s->before);
  gconv_texts_free(&s->last.filters); /* of classify, without an option */
  gconv_texts_free(&s->meanings);
  gconv_texts_free(&s->missed);
}

/* ---- Layers ---- */

bool gconv_job_settings_want_race(const gconv_job_settings *settings) {
  const char *algorithm = settings->last.layer.algorithm;
  return algorithm && strcmp(algorithm, "all") == 0;
}

gconv_status gconv_job_settings_begin_layer(gconv_job_settings *settings) {
  if (settings->last.filters.count == 0)
    return gconv_refuse("there is no filter before it: -f FILTER --then -f FILTER");
  if (settings->combine > GCONV_COMBINE_NONE)
    return gconv_refuse("--combine stands before it, but is for what the last one yields: put it behind the last --then");
  if (gconv_job_settings_want_race(settings))
    return gconv_refuse("--algorithm all stands before it, but times all layers together: put it behind the last --then");
  gconv_layer_settings *layers = gconv_grown(settings->before, settings->before_count, sizeof *layers);
  GCONV_NEED_MEMORY(layers, "out of memory");
  settings->before = layers;
  layers[settings->before_count++] = settings->last;
  settings->last = (gconv_layer_settings){0};
  return GCONV_OK;
}

/* Whether a layer names the file of a bank. */
static bool has_bank(const gconv_layer_settings *layer) {
  bool has = gconv_bank_is_own_syntax(layer->syntax);
  for (size_t i = 0; i < layer->filters.count && !has; i++)
    has = gconv_bank_is_one(layer->filters.items[i]);
  return has;
}

bool gconv_job_settings_have_bank(const gconv_job_settings *settings) {
  bool has = has_bank(&settings->last);
  for (size_t i = 0; i < settings->before_count && !has; i++)
    has = has_bank(&settings->before[i]);
  return has;
}

bool gconv_job_settings_want_banks(const gconv_job_settings *settings) {
  return settings->of_banks || settings->combine >= GCONV_COMBINE_ARGMAX || gconv_job_settings_have_bank(settings);
}

/* ---- Devices ---- */

static gconv_status choose_device(gconv_job_settings *settings) {
  const char *environment = getenv("GCONV_DEVICE");
  if (settings->common.device)
    return GCONV_OK;
  settings->common.device = environment && environment[0] != '\0' ? environment : "auto";
  const gconv_option *option = gconv_option_find(gconv_job_options, "-d", 2);
  gconv_status status = gconv_option_meaning(option, settings->common.device, &settings->meanings, &settings->common.device);
  GCONV_THEN(status, gconv_check_device(settings->common.device));
  return status == GCONV_OK ? status : gconv_fail(status, "GCONV_DEVICE=%s: %s", environment, gconv_last_error());
}

/* Whoever wants the GPU to decode wants a GPU. */
static gconv_status check_decoder(gconv_job_settings *settings) {
  if (settings->job.decoder != GCONV_DECODER_GPU)
    return GCONV_OK;
  if (strcmp(settings->common.device, "cpu") == 0)
    return gconv_refuse("--decode gpu: the device is the CPU: use -d cuda");
  settings->job.cpu_may_begin = strcmp(settings->common.device, "auto") == 0;
  if (settings->job.cpu_may_begin)
    settings->common.device = "cuda";
  return GCONV_OK;
}

/* ---- What was given ---- */

/* The last of the words of an option, if it looks like a result that was given without -o: an image that is not there. */
static const char *find_result(const gconv_texts *words) {
  const char *last = words->count > 1 ? words->items[words->count - 1] : NULL;
  const gconv_format_info *format = last ? gconv_format_by_path(last) : NULL;
  return format && format->writes && access(last, F_OK) != 0 ? last : NULL;
}

static gconv_status complain_output(const gconv_job_settings *settings) {
  const char *meant = find_result(&settings->last.filters);
  if (!meant)
    meant = find_result(&settings->common.inputs);
  return gconv_refuse("no output: name a file, a folder or a template with -o%s%s%s", meant ? ": did you mean -o " : "",
                      meant ? meant : "", meant ? "?" : "");
}

/* Options of signals alone. */
static gconv_status check_signal(const gconv_job_settings *settings) {
  const char *option = settings->raw                          ? "--raw"
                       : settings->rows == GCONV_ROWS_CSV     ? "--format csv"
                       : settings->rows != GCONV_ROWS_UNKNOWN ? "--format f32le"
                                                              : NULL;
  if (!option || settings->windows.samples > 0)
    return GCONV_OK;
  return gconv_refuse("%s is for signals: --windows S:HOP says which samples a network gets at a time", option);
}

static gconv_status check_given(const gconv_job_settings *settings) {
  const char *missing = NULL;
  if (!settings->common.inputs.count)
    missing = "no input: name an image, a folder or a pattern with -i";
  else if (!settings->last.filters.count && settings->before_count > 0)
    missing = "--then: no filter follows it: -f FILTER --then -f FILTER";
  else if (!settings->last.filters.count)
    missing = "no filter: name one with -f; gconv filters lists those that are built in";
  else if (settings->options.scale == 0)
    missing = "--scale 0: all samples would be the same, whatever the image";
  else if (!settings->common.output)
    return complain_output(settings);
  return missing ? gconv_refuse("%s", missing) : GCONV_OK;
}

/* "-", and "-:NAME", a bank of it, among filters. */
static size_t count_standard_input(const gconv_texts *words, bool filters) {
  size_t count = 0;
  for (size_t i = 0; i < words->count; i++)
    count += strcmp(words->items[i], "-") == 0 || (filters && strncmp(words->items[i], "-:", 2) == 0);
  return count;
}

/* Standard input can be read once: as an image, a mask, or a filter of any layer. */
static gconv_status check_standard_input(const gconv_job_settings *settings) {
  size_t uses = count_standard_input(&settings->common.inputs, false) + count_standard_input(&settings->last.filters, true);
  uses += settings->mask && strcmp(settings->mask, "-") == 0;
  uses += settings->files_from && strcmp(settings->files_from, "-") == 0;
  for (size_t i = 0; i < settings->before_count; i++)
    uses += count_standard_input(&settings->before[i].filters, true);
  return uses <= 1 ? GCONV_OK : gconv_refuse("-: standard input can be read only once");
}

/* Values that --resume excludes: those of options that it excludes are in the table. */
static gconv_status check_resumption(const gconv_job_settings *settings) {
  if (settings->resume && strcmp(settings->common.output, "-") == 0)
    return gconv_refuse("--resume: standard output has no manifest: name a file or a folder");
  if (settings->resume && gconv_job_settings_want_race(settings))
    return gconv_refuse("--resume excludes --algorithm all, which is a race on one image");
  return GCONV_OK;
}

gconv_status gconv_job_settings_finish(gconv_job_settings *settings) {
  GCONV_TRY(check_given(settings));
  GCONV_TRY(check_signal(settings));
  GCONV_TRY(check_resumption(settings));
  GCONV_TRY(check_standard_input(settings));
  GCONV_TRY(choose_device(settings));
  GCONV_TRY(check_decoder(settings));
  settings->common.threads = gconv_settle_threads(settings->common.threads, settings->common.quiet);
  settings->naming.output = settings->common.output;
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
#include "cli/settings.h"
#include "cli/bank.h"
#include "cli/numbers.h"
#include "cli/options.h"
#include "cli/threads.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

gconv_settings gconv_settings_default(void) {
  return (gconv_settings){.depth = -1, .png_level = -1, .convolution = gconv_options_default(), .tolerance = -1};
}

bool gconv_settings_want_banks(const gconv_settings *settings) {
  if (settings->bank_option || gconv_bank_is_own_syntax(settings->syntax))
    return true;
  for (size_t i = 0; i < settings->filters.count; i++)
    if (gconv_bank_is_one(settings->filters.items[i]))
      return true;
  return false;
}

void gconv_settings_free(gconv_settings *settings) {
  for (size_t i = 0; i < settings->layer_count; i++)
    gconv_texts_free(&settings->layers[i].filters);
  free(settings->layers);
  free(settings->mean);
  free(settings->std);
  gconv_texts_free(&settings->inputs);
  gconv_texts_free(&settings->filters);
}

/* "0", "0,2" or "all". */
static bool are_gpus(const char *value) {
  enum { MOST_NUMBERS = 64 };
  int32_t numbers[MOST_NUMBERS];
  int count = strcmp(value, "all") == 0 ? 0 : gconv_parse_integers(value, MOST_NUMBERS, 0, INT_MAX, numbers);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < i; k++)
      if (numbers[i] == numbers[k])
        return false;
  return count > 0 || strcmp(value, "all") == 0;
}

gconv_status gconv_settings_take_device(gconv_settings *settings, const char *value, gconv_message *message) {
  static const char *const names[] = {"auto", "cpu", "cuda", NULL};
  bool numbered = strncmp(value, "cuda:", 5) == 0;
  if (numbered && !are_gpus(value + 5))
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "cuda takes the number of a GPU, such as cuda:0, or several, such as cuda:0,2, or all of them: "
                          "cuda:all");
  if (strcasecmp(value, "gpu") == 0 || strcasecmp(value, "nvidia") == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "here this is called cuda");
  int index;
  if (!numbered)
    GCONV_TRY(gconv_option_find(names, value, &index, message));
  settings->device = value;
  return GCONV_OK;
}

static gconv_status choose_device(gconv_settings *settings, gconv_message *message) {
  const char *environment = getenv("GCONV_DEVICE");
  if (settings->device)
    return GCONV_OK;
  if (!environment || environment[0] == '\0') {
    settings->device = "auto";
    return GCONV_OK;
  }
  gconv_status status = gconv_settings_take_device(settings, environment, message);
  return status == GCONV_OK ? status : gconv_complain(message, status, "GCONV_DEVICE=%s: %s", environment, message->text);
}

/* The last of the words of an option, if it looks like a result that was given without -o: an image that is not there. */
static const char *find_result(const gconv_texts *words) {
  const char *last = words->count > 1 ? words->items[words->count - 1] : NULL;
  const gconv_format_info *format = last ? gconv_format_by_path(last) : NULL;
  return format && format->writes && access(last, F_OK) != 0 ? last : NULL;
}

static gconv_status complain_output(const gconv_settings *settings, gconv_message *message) {
  const char *meant = find_result(&settings->filters);
  if (!meant)
    meant = find_result(&settings->inputs);
  return gconv_complain(message, GCONV_BAD_ARGUMENT, "no output: name a file, a folder or a template with -o%s%s%s",
                        meant ? ": did you mean -o " : "", meant ? meant : "", meant ? "?" : "");
}

static gconv_status check_given(const gconv_settings *settings, gconv_message *message) {
  const char *missing = NULL;
  if (!settings->inputs.count)
    missing = "no input: name an image, a folder or a pattern with -i";
  else if (!settings->filters.count && settings->layer_count > 0)
    missing = "--then: no bank follows it: -f BANK --then -f BANK";
  else if (!settings->filters.count)
    missing = "no filter: name one with -f; gconv filters lists those that are built in";
  else if (!settings->output)
    return complain_output(settings, message);
  return missing ? gconv_complain(message, GCONV_BAD_ARGUMENT, "%s", missing) : GCONV_OK;
}

/* "-", and "-:NAME", a bank of it, among filters. */
static size_t count_standard_input(const gconv_texts *words, bool filters) {
  size_t count = 0;
  for (size_t i = 0; i < words->count; i++)
    count += strcmp(words->items[i], "-") == 0 || (filters && strncmp(words->items[i], "-:", 2) == 0);
  return count;
}

/* Standard input can be read once: as an image, or as a filter of any layer. */
static gconv_status check_standard_input(const gconv_settings *settings, gconv_message *message) {
  size_t uses = count_standard_input(&settings->inputs, false) + count_standard_input(&settings->filters, true);
  for (size_t i = 0; i < settings->layer_count; i++)
    uses += count_standard_input(&settings->layers[i].filters, true);
  return uses <= 1 ? GCONV_OK : gconv_complain(message, GCONV_BAD_ARGUMENT, "-: standard input can be read only once");
}

static gconv_status check_exclusive(const gconv_settings *settings, gconv_message *message) {
  if (settings->no_clobber && settings->skip_existing)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--no-clobber and --skip-existing exclude each other: one calls a "
                          "result that exists a failure, the other does not");
  if (settings->resume && (settings->no_clobber || settings->skip_existing))
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--resume excludes %s: it decides by the manifest, not by whether a file exists",
                          settings->no_clobber ? "--no-clobber" : "--skip-existing");
  if (settings->resume && strcmp(settings->output, "-") == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--resume: standard output has no manifest: name a file or a folder");
  if (settings->resume && settings->race)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--resume excludes --algorithm all, which is a race on one image");
  if (settings->verbose && settings->quiet)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--verbose and --quiet exclude each other");
  return GCONV_OK;
}

/* Whoever wants the GPU to decode wants a GPU. */
static gconv_status check_decoder(gconv_settings *settings, gconv_message *message) {
  if (settings->decode != GCONV_DECODER_GPU)
    return GCONV_OK;
  if (strcmp(settings->device, "cpu") == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--decode gpu: the device is the CPU: use -d cuda");
  settings->cpu_may_begin = strcmp(settings->device, "auto") == 0;
  if (settings->cpu_may_begin)
    settings->device = "cuda";
  return GCONV_OK;
}

gconv_status gconv_settings_finish(gconv_settings *settings, gconv_message *message) {
  GCONV_TRY(check_given(settings, message));
  GCONV_TRY(check_exclusive(settings, message));
  GCONV_TRY(check_standard_input(settings, message));
  GCONV_TRY(choose_device(settings, message));
  GCONV_TRY(check_decoder(settings, message));
  settings->threads = gconv_settle_threads(settings->threads, settings->quiet);
  gconv_options *options = &settings->convolution;
  settings->layer.flip = options->flip;
  options->alpha = (gconv_alpha)settings->alpha;
  options->range = (gconv_range)settings->range;
  options->keep_type = settings->depth < 0;
  if (!options->keep_type)
    options->output_type = (gconv_type)settings->depth;
  return GCONV_OK;
}

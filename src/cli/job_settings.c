/* SPDX-License-Identifier: MIT */
#include "cli/job_settings.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/bank.h"
#include "cli/command.h"
#include "image/rows.h"

#include <dirent.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void gconv_job_settings_begin(void *settings) {
  gconv_job_settings *s = settings;
  s->combine = s->depth = s->png_level = s->range = -1;
  s->white = NAN;
  s->job.tolerance = -1;
  s->options = gconv_options_default();
}

void gconv_job_settings_end(void *settings) {
  gconv_job_settings *s = settings;
  for (size_t i = 0; i < s->before_count; i++)
    gconv_texts_free(&s->before[i].filters);
  free(s->before);
  gconv_texts_free(&s->last.filters); /* classify sets these without an option */
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
    return gconv_refuse("--combine is for the result of the last filter: put it after the last --then");
  if (gconv_job_settings_want_race(settings))
    return gconv_refuse("--algorithm all times all layers together: put it after the last --then");
  GCONV_GROW(settings->before, settings->before_count, "out of memory");
  settings->before[settings->before_count++] = settings->last;
  settings->last = (gconv_layer_settings){0};
  return GCONV_OK;
}

const gconv_layer_settings *gconv_job_settings_stage(const gconv_job_settings *settings, size_t index) {
  return index < settings->before_count ? &settings->before[index] : &settings->last;
}

/* True if a layer names the file of a bank. */
static bool has_bank(const gconv_layer_settings *layer) {
  bool has = gconv_bank_is_own_syntax(layer->syntax);
  for (size_t i = 0; i < layer->filters.count && !has; i++)
    has = gconv_bank_is_one(layer->filters.items[i]);
  return has;
}

bool gconv_job_settings_have_bank(const gconv_job_settings *settings) {
  bool has = false;
  for (size_t i = 0; i <= settings->before_count && !has; i++)
    has = has_bank(gconv_job_settings_stage(settings, i));
  return has;
}

bool gconv_job_settings_want_banks(const gconv_job_settings *settings) {
  return settings->of_banks || settings->combine >= GCONV_COMBINE_ARGMAX || gconv_job_settings_have_bank(settings);
}

/* ---- The list of --files-from --------------------------------------------------------------------------------------- */

enum { MOST_LIST_BYTES = 1 << 28 };

/* Takes one name. If it is no file or folder, leaves it out, and keeps the error. */
static gconv_status take_name(gconv_job_settings *settings, const char *name) {
  bool there = gconv_check_is_there(name) == GCONV_OK;
  if (strcmp(name, "-") == 0)
    return gconv_refuse("--files-from %s: has the name -, which is standard input: name it with -i", settings->files_from);
  bool taken = there ? gconv_texts_add(&settings->common.inputs, strdup(name))
                     : gconv_texts_add(&settings->missed, strdup(gconv_last_error()));
  return taken ? GCONV_OK : gconv_no_memory();
}

/* Takes the names of a text, which ends with a 0 byte. */
static gconv_status take_names(gconv_job_settings *settings, char *text, size_t size) {
  if (!settings->null_ends && memchr(text, '\0', size))
    return gconv_refuse("--files-from %s: has bytes that are 0: -0 says that these end the names", settings->files_from);
  for (char *at = text, *end = text + size; at < end;) {
    size_t length = settings->null_ends ? strlen(at) : strcspn(at, "\n");
    char *next = at + length + 1;
    at[length] = '\0';
    if (!settings->null_ends && length > 0 && at[length - 1] == '\r') /* a list from Windows */
      at[length - 1] = '\0';
    if (at[0])
      GCONV_TRY(take_name(settings, at));
    at = next;
  }
  return GCONV_OK;
}

static gconv_status read_list(const char *path, uint8_t **text, size_t *size) {
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  GCONV_TRY(gconv_source_open(path, &source));
  return gconv_source_read_all(&source, MOST_LIST_BYTES, text, size);
}

static gconv_status take_list(gconv_job_settings *settings) {
  uint8_t *text = NULL;
  size_t size = 0;
  if (!settings->files_from)
    return settings->null_ends ? gconv_refuse("-0: says how the names of --files-from end: name the list") : GCONV_OK;
  if (read_list(settings->files_from, &text, &size) != GCONV_OK)
    return gconv_refuse("--files-from: %s", gconv_last_error());
  gconv_status status = take_names(settings, (char *)text, size);
  gconv_release(text);
  if (status == GCONV_OK && settings->common.inputs.count == 0 && settings->missed.count > 0)
    return gconv_refuse("--files-from %s: none of its files is there: %s", settings->files_from, settings->missed.items[0]);
  return status != GCONV_OK || settings->common.inputs.count > 0
             ? status
             : gconv_refuse("--files-from %s: has no names", settings->files_from);
}

/* ---- Words that stand without an option: gconv FILTER INPUT... OUTPUT ------------------------------------------------ */

/* True if the word is an existing folder, or a file with the extension of an image. */
static bool is_image(const char *word) {
  struct stat status;
  return stat(word, &status) == 0 && (S_ISDIR(status.st_mode) || gconv_format_by_path(word));
}

/* True if a result of this name would replace a file, or results would go among other files. */
static bool is_taken(const char *word) {
  struct stat status;
  if (stat(word, &status) != 0)
    return false;
  DIR *folder = S_ISDIR(status.st_mode) ? opendir(word) : NULL;
  int entries = 0;
  while (folder && readdir(folder))
    entries++;
  if (folder)
    closedir(folder);
  return !folder || entries > 2; /* . and .. */
}

static gconv_status take_filter(gconv_job_settings *settings, const char *word) {
  bool file = access(word, F_OK) == 0;
  if (file && gconv_word_is_filter(word))
    return gconv_refuse("%s: is a file here, and also the name of a filter: write ./%s for the file, %s: with a colon for "
                        "the filter, or use -i and -f",
                        word, word, word);
  if (is_image(word))
    return gconv_refuse("%s: is an image or a folder, where a filter is expected: gconv FILTER INPUT... OUTPUT, or "
                        "gconv INPUT... -f FILTER -o OUTPUT",
                        word);
  return gconv_filters_split(word, &settings->last.filters) ? GCONV_OK : gconv_no_memory();
}

static gconv_status take_output(gconv_job_settings *settings, const char *word) {
  if (strcmp(word, "-") != 0 && is_taken(word))
    return gconv_refuse("%s: exists, and may be meant as an input: name the result with -o, as in -o %s", word, word);
  settings->common.output = word;
  return GCONV_OK;
}

gconv_status gconv_job_settings_take_words(gconv_job_settings *settings, const gconv_texts *words) {
  GCONV_TRY(take_list(settings));
  bool inputs = settings->common.inputs.count > 0, filters = settings->last.filters.count + settings->before_count > 0;
  size_t first = 0, last = words->count;
  if (first < last && !filters)
    GCONV_TRY(take_filter(settings, words->items[first++]));
  if (!settings->common.output && !settings->naming.in_place && last - first >= (inputs ? 1 : 2))
    GCONV_TRY(take_output(settings, words->items[--last]));
  if (first < last && inputs)
    return gconv_refuse("%s: unexpected argument: images follow -i, filters -f, and the result -o", words->items[first]);
  for (; first < last; first++)
    if (!gconv_texts_add(&settings->common.inputs, strdup(words->items[first])))
      return gconv_no_memory();
  return GCONV_OK;
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

/* If a GPU shall decode, makes the device a GPU. */
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

/* Returns the last of an option's words if it looks like a result without -o: an image that does not exist. */
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

/* Whether --raw is for images, such as 640x480:u16le. */
static bool is_raw_image(const gconv_job_settings *settings) {
  return settings->raw && settings->windows.samples == 0 && settings->raw[0] >= '0' && settings->raw[0] <= '9';
}

/* Does --raw for images: FILE becomes FILE:640x480:u16le, which readers understand. */
static gconv_status name_raw_images(gconv_job_settings *settings) {
  const gconv_texts *inputs = &settings->common.inputs;
  for (size_t i = 0; is_raw_image(settings) && i < inputs->count; i++) {
    struct stat status;
    const char *input = inputs->items[i];
    const bool found = stat(input, &status) == 0;
    if (found ? S_ISDIR(status.st_mode) : strpbrk(input, "*?[") != NULL)
      return gconv_refuse(
          "--raw: %s: name files, as folders and patterns are not looked through for samples without a header", input);
    char *named = gconv_format_text("%s:%s", input, settings->raw);
    if (!named)
      return gconv_no_memory();
    free(inputs->items[i]);
    inputs->items[i] = named;
  }
  return GCONV_OK;
}

/* Refuses options of signals without --windows. */
static gconv_status check_signal(const gconv_job_settings *settings) {
  const char *option = settings->raw && !is_raw_image(settings) ? "--raw"
                       : settings->rows == GCONV_ROWS_CSV       ? "--format csv"
                       : settings->rows != GCONV_ROWS_UNKNOWN   ? "--format f32le"
                                                                : NULL;
  if (!option || settings->windows.samples > 0)
    return GCONV_OK;
  return gconv_refuse("%s is for signals: --windows S:HOP says which samples a network gets at a time%s", option,
                      settings->raw ? "; --raw of images is WIDTHxHEIGHT[xCHANNELS]:TYPE, such as 640x480:u16le" : "");
}

static gconv_status check_given(const gconv_job_settings *settings) {
  const char *missing = NULL;
  if (!settings->common.inputs.count)
    missing = "no input: name an image, a folder or a pattern with -i";
  else if (!settings->last.filters.count && settings->before_count > 0)
    missing = "--then: no filter follows it: -f FILTER --then -f FILTER";
  else if (!settings->last.filters.count)
    missing = "no filter: name one with -f; gconv filters lists the built-in filters";
  else if (!isnan(settings->white) && !(settings->white > 0 && isfinite((float)settings->white)))
    missing = "--white: it is the number that is white for a network, above 0: 1, or 255";
  else if (settings->options.scale == 0)
    missing = "--scale 0: all samples would be the same, whatever the image";
  else if (!settings->common.output && !settings->naming.in_place)
    return complain_output(settings);
  return missing ? gconv_refuse("%s", missing) : GCONV_OK;
}

/* Counts the words that read standard input: "-", and "-:NAME". An input "-:NAME" is a file of that name, unless NAME
 * describes raw samples, as in -:640x480:u16le. */
static size_t count_standard_input(const gconv_texts *words, bool filters) {
  size_t count = 0;
  for (size_t i = 0; i < words->count; i++)
    count += strcmp(words->items[i], "-") == 0 ||
             (strncmp(words->items[i], "-:", 2) == 0 && (filters || gconv_is_raw_member(words->items[i] + 2)));
  return count;
}

/* Refuses a second use of standard input: as an image, a mask, weights, or a filter of any layer. */
static gconv_status check_standard_input(const gconv_job_settings *settings) {
  size_t uses = count_standard_input(&settings->common.inputs, false);
  uses += settings->mask && strcmp(settings->mask, "-") == 0;
  uses += settings->holes.weights && strcmp(settings->holes.weights, "-") == 0;
  uses += settings->files_from && strcmp(settings->files_from, "-") == 0;
  for (size_t i = 0; i <= settings->before_count; i++)
    uses += count_standard_input(&gconv_job_settings_stage(settings, i)->filters, true);
  return uses <= 1 ? GCONV_OK : gconv_refuse("-: standard input can be read only once");
}

/* Refuses values that --resume excludes. (Its row excludes options.) */
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
  GCONV_TRY(name_raw_images(settings));
  GCONV_TRY(check_resumption(settings));
  GCONV_TRY(check_standard_input(settings));
  GCONV_TRY(choose_device(settings));
  GCONV_TRY(check_decoder(settings));
  settings->common.threads = gconv_settle_threads(settings->common.threads, settings->common.quiet);
  settings->naming.output = settings->common.output;
  return GCONV_OK;
}

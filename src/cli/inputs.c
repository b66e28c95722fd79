/* SPDX-License-Identifier: MIT */
/* The inputs of the main job: words that stand without an option, the list of --files-from, and what is told of a search. */
#include "base/file.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/job.h"
#include "cli/job_settings.h"
#include "cli/terminal.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The list of --files-from --------------------------------------------------------------------------------------- */

enum { MOST_LIST_BYTES = 1 << 28 };

/* Takes one name. One that is no file or folder is left out, and told of. */
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
    return gconv_refuse("--files-from %s: has 0 bytes: -0 says that these end the names", settings->files_from);
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
  gconv_source source;
  GCONV_TRY(gconv_source_open(path, &source));
  gconv_status status = gconv_source_read_all(&source, MOST_LIST_BYTES, text, size);
  gconv_source_close(&source);
  return status;
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

/* An existing folder, or a file with the extension of an image. */
static bool is_image(const char *word) {
  struct stat status;
  return stat(word, &status) == 0 && (S_ISDIR(status.st_mode) || gconv_format_by_path(word));
}

/* Whether results would replace something, or come to other files. */
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
  if (!settings->common.output && last - first >= (inputs ? 1 : 2))
    GCONV_TRY(take_output(settings, words->items[--last]));
  if (first < last && inputs)
    return gconv_refuse("%s: unexpected argument: images follow -i, filters -f, and the result -o", words->items[first]);
  for (; first < last; first++)
    if (!gconv_texts_add(&settings->common.inputs, strdup(words->items[first])))
      return gconv_no_memory();
  return GCONV_OK;
}

/* ---- What is told --------------------------------------------------------------------------------------------------- */

static void tell(const gconv_passed_over *all, const char *reason) {
  if (all->count > 0)
    gconv_say("%s%s: %s, and passed over", all->first, all->count > 1 ? ", and more" : "", reason);
}

size_t gconv_inputs_tell(const gconv_inputs *inputs, bool quiet) {
  for (size_t i = 0; i < inputs->missed.count; i++)
    gconv_say("%s", inputs->missed.items[i]);
  if (quiet)
    return inputs->missed.count;
  if (inputs->unread.count > 0)
    gconv_say("passed over: %s%s%s", inputs->unread_kinds, inputs->unread.count > 1 ? "; the first is " : ": ",
              inputs->unread.first);
  tell(&inputs->linked, "another name of a folder that is searched anyway");
  tell(&inputs->dangling, "a link that leads nowhere");
  if (inputs->repeated.count > 0)
    gconv_say("%s%s: named more than once, and taken once", inputs->repeated.first,
              inputs->repeated.count > 1 ? ", and more" : "");
  return inputs->missed.count;
}

gconv_status gconv_inputs_find_all(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs) {
  GCONV_TRY(gconv_inputs_find(specs, recursive, output, inputs, &(gconv_message){0}));
  return inputs->missed.count == 0 ? GCONV_OK : gconv_refuse("%s", inputs->missed.items[0]);
}

gconv_status gconv_job_find_inputs(gconv_main_job *job) {
  gconv_job_settings *settings = job->settings;
  job->inputs.exclude = &settings->exclude;
  GCONV_TRY(gconv_inputs_find(&settings->common.inputs, settings->common.recursive, settings->common.output, &job->inputs,
                              &(gconv_message){0}));
  job->inputs.many |= settings->files_from != NULL;
  for (size_t i = 0; i < settings->missed.count; i++)
    if (!gconv_texts_add(&job->inputs.missed, strdup(settings->missed.items[i])))
      return gconv_no_memory();
  return GCONV_OK;
}

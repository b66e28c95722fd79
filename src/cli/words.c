/* SPDX-License-Identifier: MIT */
/* Words of the main command that stand without an option: gconv FILTER INPUT... OUTPUT. */
#include "cli/command.h"
#include "cli/job_settings.h"

#include <dirent.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- What a word may be ----------------------------------------------------------------------------------------------- */

/* Whether `names`, with blanks between, has the first `length` letters of the word, in any case. */
static bool has_name(const char *names, const char *word, size_t length) {
  for (const char *at = names; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
    if (strcspn(at, " ") == length && strncasecmp(at, word, length) == 0)
      return true;
  return false;
}

const gconv_builtin_info *gconv_word_builtin(const char *word) {
  const gconv_builtin_info *filter;
  size_t length = strcspn(word, ":");
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++)
    if (has_name(filter->name, word, length) || has_name(filter->also, word, length))
      return filter;
  return NULL;
}

bool gconv_word_is_filter(const char *word) {
  char path[4096];
  return gconv_word_builtin(word) ||
         (!strchr(word, '/') && snprintf(path, sizeof path, "%s/%s.txt", gconv_filter_folder(), word) < (int)sizeof path &&
          access(path, F_OK) == 0);
}

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

/* ---- What it is taken for --------------------------------------------------------------------------------------------- */

static gconv_status take_filter(gconv_job_settings *settings, const char *word, gconv_message *message) {
  bool file = access(word, F_OK) == 0;
  if (file && gconv_word_is_filter(word))
    return gconv_refuse(message,
                        "%s: is a file here, and also the name of a filter: write ./%s for the file, %s: with a colon for "
                        "the filter, or use -i and -f",
                        word, word, word);
  if (is_image(word))
    return gconv_refuse(message,
                        "%s: is an image or a folder, where a filter is expected: gconv FILTER INPUT... OUTPUT, or "
                        "gconv INPUT... -f FILTER -o OUTPUT",
                        word);
  return gconv_filters_split(word, &settings->last.filters) ? GCONV_OK : gconv_complain_memory(message);
}

static gconv_status take_output(gconv_job_settings *settings, const char *word, gconv_message *message) {
  if (strcmp(word, "-") != 0 && is_taken(word))
    return gconv_refuse(message, "%s: exists, and may be meant as an input: name the result with -o, as in -o %s", word,
                        word);
  settings->common.output = word;
  return GCONV_OK;
}

gconv_status gconv_job_settings_take_words(gconv_job_settings *settings, const gconv_texts *words, gconv_message *message) {
  GCONV_TRY(gconv_job_settings_take_list(settings, message));
  bool inputs = settings->common.inputs.count > 0, filters = settings->last.filters.count + settings->before_count > 0;
  size_t first = 0, last = words->count;
  if (first < last && !filters)
    GCONV_TRY(take_filter(settings, words->items[first++], message));
  if (!settings->common.output && last - first >= (inputs ? 1 : 2))
    GCONV_TRY(take_output(settings, words->items[--last], message));
  if (first < last && inputs)
    return gconv_refuse(message, "%s: unexpected argument: images follow -i, filters -f, and the result -o",
                        words->items[first]);
  for (; first < last; first++)
    if (!gconv_texts_add(&settings->common.inputs, strdup(words->items[first])))
      return gconv_complain_memory(message);
  return GCONV_OK;
}

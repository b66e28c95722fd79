/* SPDX-License-Identifier: MIT */
/* gconv filters: the built-in filters, and the files that ship. */
#include "base/printable.h"
#include "cli/command.h"
#include "cli/terminal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Whether each of the words is in the name or the text of a filter; true without words. */
static bool is_wanted(const gconv_texts *words, const char *name, const char *text) {
  for (size_t i = 0; i < words->count; i++)
    if (!strcasestr(name, words->items[i]) && !strcasestr(text, words->items[i]))
      return false;
  return true;
}

/* Returns how many it prints, below a heading. */
static size_t print_builtins(const gconv_texts *words) {
  const gconv_builtin_info *filter;
  size_t printed = 0;
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++) {
    char name[128];
    if (!is_wanted(words, filter->name, filter->help))
      continue;
    if (printed++ == 0)
      puts("Built in:");
    snprintf(name, sizeof name, "%s%s%s", filter->name, filter->parameters[0] ? ":" : "", filter->parameters);
    printf("  %-44s  %s\n", name, filter->help);
  }
  return printed;
}

static int is_filter_file(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return entry->d_name[0] != '.' && dot && strcmp(dot, ".txt") == 0;
}

/* The first line of a file, if it is a comment: what its author says of it. "" otherwise. */
static void read_comment(const char *folder, const char *name, char *comment, size_t size) {
  char path[4096], line[256];
  comment[0] = '\0';
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "re");
  if (file && fgets(line, sizeof line, file) && (line[0] == '#' || line[0] == '%')) {
    char *text = line + strspn(line, "#% \t");
    text[strcspn(text, "\r\n")] = '\0';
    snprintf(comment, size, "%s", text);
  }
  if (file)
    fclose(file);
}

static size_t print_folder(const gconv_texts *words) {
  const char *folder = gconv_filter_folder();
  struct dirent **entries = NULL;
  size_t printed = 0;
  int count = scandir(folder, &entries, is_filter_file, alphasort);
  if (count < 0 && words->count == 0)
    gconv_print(stdout, "\nFiles in %s (there is no such folder; GCONV_FILTERS may name one)\n", folder);
  for (int i = 0; i < count; i++) {
    char comment[256], stem[256];
    const char *name = entries[i]->d_name;
    snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - strlen(".txt")), name);
    read_comment(folder, name, comment, sizeof comment);
    free(entries[i]);
    if (!is_wanted(words, stem, comment))
      continue;
    if (printed++ == 0)
      gconv_print(stdout, "\nFiles in %s:\n", folder);
    gconv_print(stdout, "  %-44s%s%s\n", stem, comment[0] ? "  " : "", comment);
  }
  free(entries);
  return printed;
}

size_t gconv_filters_list(const gconv_texts *words) {
  size_t printed = print_builtins(words);
  return printed + print_folder(words);
}

static int run(void *settings, const gconv_texts *words) {
  (void)settings;
  if (gconv_filters_list(words) > 0)
    return GCONV_EXIT_OK;
  gconv_say("no filter has all of these words in its name or description: gconv filters lists all");
  return GCONV_EXIT_FAILED;
}

const gconv_command gconv_command_filters = {
    .name = "filters",
    .synopsis = "filters [WORD...]",
    .help = "the filters that are built in, and those that are files in the folder of filters; all, or those with a WORD",
    .words = GCONV_WORDS_ANY,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
#include "cli/command.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const gconv_option options[] = {GCONV_OPTIONS_END};

static void print_builtins(void) {
  const gconv_builtin_info *filter;
  puts("Built in:");
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++) {
    char name[128];
    snprintf(name, sizeof name, "%s%s%s", filter->name, filter->parameters[0] ? ":" : "", filter->parameters);
    printf("  %-44s  %s\n", name, filter->help);
  }
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

static void print_folder(void) {
  const char *folder = gconv_filter_folder();
  struct dirent **entries = NULL;
  int count = scandir(folder, &entries, is_filter_file, alphasort);
  printf("\nFiles in %s%s\n", folder, count < 0 ? " (there is no such folder; GCONV_FILTERS may name one)" : ":");
  for (int i = 0; i < count; i++) {
    char comment[256];
    const char *name = entries[i]->d_name;
    read_comment(folder, name, comment, sizeof comment);
    printf("  %-44.*s%s%s\n", (int)(strlen(name) - strlen(".txt")), name, comment[0] ? "  " : "", comment);
    free(entries[i]);
  }
  free(entries);
}

static int run(const gconv_command *self, int count, char *const *words) {
  gconv_texts operands = {0};
  int status;
  if (!gconv_command_parse(self, count, words, NULL, &operands, &status))
    return status;
  status = gconv_command_refuse(self, &operands);
  if (status == GCONV_EXIT_OK) {
    print_builtins();
    print_folder();
  }
  gconv_texts_free(&operands);
  return status;
}

const gconv_command gconv_command_filters = {
    .name = "filters",
    .synopsis = "filters",
    .help = "the filters that are built in, and those that are files in the folder of filters",
    .options = options,
    .run = run,
};

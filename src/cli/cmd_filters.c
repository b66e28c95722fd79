/* SPDX-License-Identifier: MIT */
/* gconv filters: the built-in filters, and the filter files that come with gconv. */
#include "base/memory.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "gconv_science.h"

#include <string.h>

/* True if each of the words is in the name or the text of a filter, or there are no words. */
static bool is_wanted(const gconv_texts *words, const char *name, const char *text) {
  for (size_t i = 0; i < words->count; i++)
    if (!strcasestr(name, words->items[i]) && !strcasestr(text, words->items[i]))
      return false;
  return true;
}

/* Prints built-in filters below a heading. Returns how many. */
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

/* Reads the first line of a shipped filter if it is a comment, in which its author describes it; else "". */
static void read_comment(const char *name, char comment[256]) {
  char path[4096], line[256];
  comment[0] = '\0';
  FILE *file = gconv_shipped_path(name, path) ? fopen(path, "re") : NULL;
  if (file && fgets(line, sizeof line, file) && (line[0] == '#' || line[0] == '%')) {
    char *text = line + strspn(line, "#% \t");
    text[strcspn(text, "\r\n")] = '\0';
    strcpy(comment, text);
  }
  if (file)
    fclose(file);
}

static size_t print_shipped(const gconv_texts *words) {
  const char *folder = gconv_filter_folder();
  GCONV_ENDED_BY(gconv_texts_free) gconv_texts names = {0};
  size_t printed = 0;
  if (!gconv_shipped_names(&names) && words->count == 0)
    gconv_print(stdout, "\nFiles in %s (there is no such folder; GCONV_FILTERS may name one)\n", folder);
  for (size_t i = 0; i < names.count; i++) {
    char comment[256];
    read_comment(names.items[i], comment);
    if (!is_wanted(words, names.items[i], comment))
      continue;
    if (printed++ == 0)
      gconv_print(stdout, "\nFiles in %s:\n", folder);
    gconv_print(stdout, "  %-44s%s%s\n", names.items[i], comment[0] ? "  " : "", comment);
  }
  return printed;
}

static const char *const made_by[GCONV_BRIGHTNESS] = {
    [GCONV_ADD] = "x + y",
    [GCONV_SUBTRACT] = "x - y",
    [GCONV_SUBTRACT_FROM] = "y - x: after a blur and with the input, the details that the blur removed",
    [GCONV_MULTIPLY] = "x * y",
    [GCONV_DIVIDE] = "x / y",
    [GCONV_DIVIDE_INTO] = "y / x",
    [GCONV_FLAT] = "x / (y / the mean of each channel of y): y is the picture of a flat field",
    [GCONV_MIX] = "blend: A * x + (1 - A) * y",
    [GCONV_MAX] = "the larger of both",
    [GCONV_MIN] = "the smaller of both",
    [GCONV_HYPOT] = "sqrt(x * x + y * y)",
};

/* Lists stages that compute with a second image. */
static size_t print_arithmetic(const gconv_texts *words) {
  size_t printed = 0;
  for (int k = 0; k < GCONV_BRIGHTNESS; k++) {
    const gconv_arithmetic kind = (gconv_arithmetic)k;
    const char *help = made_by[k];
    char name[64];
    if (!is_wanted(words, gconv_arithmetic_name(kind), help))
      continue;
    if (printed++ == 0)
      puts("\nWith a second image y, a file or `input`, the picture before the filters; x is the result so far:");
    snprintf(name, sizeof name, "%s:%s", gconv_arithmetic_name(kind), kind == GCONV_MIX ? "FILE,A" : "FILE");
    printf("  %-44s  %s\n", name, help);
  }
  return printed;
}

static size_t print_statistics(const gconv_texts *words) {
  static const char *const help[] = {[GCONV_VARIANCE] = "the variance of the samples in a window, size=3",
                                     [GCONV_STD] = "the standard deviation of the samples in a window",
                                     [GCONV_CONTRAST] = "contrast normalisation: (pixel - mean) / std of a window"};
  size_t printed = 0;
  for (size_t k = 0; k < sizeof help / sizeof *help; k++) {
    const char *name = gconv_statistic_name((gconv_statistic)k);
    if (!is_wanted(words, name, help[k]))
      continue;
    if (printed++ == 0)
      puts("\nLocal statistics, in float64; size=5x7: 5 rows, 7 columns:");
    printf("  %-44s  %s\n", name, help[k]);
  }
  return printed;
}

size_t gconv_filters_list(const gconv_texts *words) {
  size_t printed = print_builtins(words);
  printed += print_arithmetic(words);
  printed += print_statistics(words);
  return printed + print_shipped(words);
}

static int run(void *settings, const gconv_texts *words) {
  if (gconv_filters_list(words) > 0)
    return GCONV_EXIT_OK;
  gconv_say("no filter has all of these words in its name or description: gconv filters lists all");
  return GCONV_EXIT_FAILED;
}

const gconv_command gconv_command_filters = {
    .name = "filters",
    .synopsis = "filters [WORD...]",
    .help = "list built-in filters and the files in the folder of filters: all, or those whose lines have each WORD",
    .words = GCONV_WORDS_ANY,
    .run = run,
};

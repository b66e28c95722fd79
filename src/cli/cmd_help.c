/* SPDX-License-Identifier: MIT */
/* gconv help: the overview, and what tables say of a word. */
#include "base/printable.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/documented.h"
#include "cli/terminal.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

static void print_overview(void) {
  const gconv_command *command;
  printf("gconv %s: filter and convolve images, exactly and fast, on the CPU and on CUDA GPUs\n\n"
         "Usage: gconv -i INPUT -f FILTER -o OUTPUT [OPTION...]\n"
         "       gconv FILTER INPUT... OUTPUT [OPTION...]\n"
         "       gconv COMMAND ...\n\n"
         "  gconv -i photo.jpg -f sobel -o edges.png\n"
         "  gconv gaussian:sigma=2 photo.png blurred.png\n"
         "  gconv -i photos/ -f gaussian:size=9,sigma=2 -o out/\n"
         "  gconv -i - -f '3x3: 0,-1,0 -1,5,-1 0,-1,0' -o - < photo.png > sharp.png\n\n"
         "Commands:\n",
         gconv_version());
  for (size_t i = 0; (command = gconv_command_at(i)); i++)
    if (!gconv_command_is_part(command))
      printf("  %-12s%s\n", command->name, command->help);
  fputs("\ngconv help COMMAND lists the options of a command; gconv help filter lists the options of the main job. gconv "
        "help WORD\n"
        "answers for any option, filter, algorithm, format or word of the documentation: gconv help border.\n"
        "gconv --version prints the version, and the libraries it was built with.\n",
        stdout);
}

/* ---- Kinds of words: each function prints what is known of the word, and returns whether there was anything ---- */

static bool print_command(const char *word) {
  bool asks = strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
  const gconv_command *command = asks ? &gconv_command_help : gconv_command_find(word);
  if (command)
    gconv_command_print(stdout, command);
  return command != NULL;
}

static bool print_builtin(const char *word) {
  const gconv_builtin_info *filter = gconv_word_builtin(word);
  if (!filter)
    return false;
  printf("Usage: gconv -i INPUT -f %s%s%s -o OUTPUT [OPTION...]\n%s\n", filter->name, filter->parameters[0] ? ":" : "",
         filter->parameters, filter->help);
  if (filter->also)
    printf("Also called: %s\n", filter->also);
  printf("\ngconv info %s describes it, gconv make %s prints it.\n", filter->name, filter->name);
  return true;
}

static bool print_shipped(const char *word) {
  char path[4096], line[256];
  FILE *file = gconv_word_builtin(word) || !gconv_shipped_path(word, path) ? NULL : fopen(path, "re");
  if (!file)
    return false;
  gconv_print(stdout, "Usage: gconv -i INPUT -f %s -o OUTPUT [OPTION...]\n", word);
  while (fgets(line, sizeof line, file) && line[0] == '#')
    gconv_print(stdout, "%.*s\n", (int)strcspn(line, "\r\n") - (int)strspn(line, "# "), line + strspn(line, "# "));
  fclose(file);
  return true;
}

/* Prints the option of this name that the main job has or, if it has none, the first other command that has one. */
static bool print_option(const char *word) {
  const gconv_command *command;
  char name[64];
  snprintf(name, sizeof name, "%s%s", word[0] == '-' ? "" : "--", word);
  for (size_t i = 0; strlen(name) > 1 && (command = gconv_command_at(i)); i++) {
    const gconv_option *option = gconv_option_find(gconv_command_options(command), name, strlen(name));
    if (!option)
      continue;
    if (command != &gconv_command_filter)
      printf("Option of gconv %s:\n", command->name);
    gconv_option_print(stdout, option);
    gconv_option_print_more(stdout, option);
    return true;
  }
  return false;
}

static bool print_algorithm(const char *word) {
  size_t printed = 0;
  const gconv_algorithm_info *info;
  for (size_t i = 0; (info = gconv_algorithm_at(i)); i++)
    if (strcasecmp(info->name, word) == 0 && ++printed)
      gconv_algorithm_print(info, gconv_algorithm_obstacle(i), "");
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)); i++)
    if (strcasecmp(info->name, word) == 0 && ++printed)
      gconv_algorithm_print(info, gconv_layer_algorithm_obstacle(i), "for banks: ");
  if (printed > 0)
    gconv_print(stdout, "\n-a %s asks for it; gconv algorithms lists all.\n", word);
  return printed > 0;
}

static bool print_format(const char *word) {
  static const char *const depths[] = {"8", "16", "float"};
  const gconv_format_info *format = gconv_format_by_name(word);
  if (!format)
    return false;
  printf("%s: a format of images: %s\nextensions: %s; %s%s%s; depths:", format->name, format->help, format->extensions,
         format->reads ? "read" : "", format->reads && format->writes ? " and " : "", format->writes ? "written" : "");
  for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
    if (format->holds[i])
      printf(" %s", depths[i]);
  putchar('\n');
  return true;
}

static bool print_formats(const char *word) {
  static const char words[] = "format, formats, file formats, extension, extensions, file types";
  const bool asked = gconv_find_word(words, ',', word, strlen(word)) != NULL;
  if (asked)
    gconv_formats_print(stdout);
  return asked;
}

/* Prints the built-in filters that have a parameter of this name. */
static bool print_parameter(const char *word) {
  const gconv_builtin_info *filter;
  size_t length = strlen(word), printed = 0;
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++)
    for (const char *at = filter->parameters; *at; at += strcspn(at, ","), at += *at == ',')
      if (strncasecmp(at, word, length) == 0 && at[length] == '=')
        printf("%s%s:%s\n", printed++ ? "" : "Parameter of filters, with the defaults:\n", filter->name, filter->parameters);
  return printed > 0;
}

/* True if one of the first `commands` commands has the same row. */
static bool is_row_before(const gconv_option *row, size_t commands) {
  const gconv_option *other;
  for (size_t i = 0; i < commands; i++) {
    const gconv_option *table = gconv_command_options(gconv_command_at(i));
    for (gconv_option_walk walk = {table, NULL}; (other = gconv_option_next_named(&walk));)
      if (strcmp(other->name, row->name) == 0 && strcmp(other->help, row->help) == 0)
        return true;
  }
  return false;
}

/* Prints the options of command number `index` that have this value, by its name in gconv or in other programs. Leaves out
 * rows that earlier commands have. Returns true if it printed anything, or if `printed`. */
static bool print_value_of(size_t index, const char *word, bool printed) {
  const gconv_option *row, *table = gconv_command_options(gconv_command_at(index));
  for (gconv_option_walk walk = {table, NULL}; (row = gconv_option_next_named(&walk));)
    if (gconv_option_has_value(row, word) && !is_row_before(row, index)) {
      gconv_print(stdout, "%s%s is a value of\n", printed ? "\n" : "", word);
      gconv_option_print(stdout, row);
      gconv_option_print_more(stdout, row);
      printed = true;
    }
  return printed;
}

/* Prints the options of the main job that have this value or, if there are none, those of other commands. */
static bool print_value(const char *word) {
  bool printed = false;
  if (print_value_of(0, word, false))
    return true;
  for (size_t i = 1; gconv_command_at(i); i++)
    printed = print_value_of(i, word, printed);
  return printed;
}

/* Prints the paragraphs on exit statuses in the help of commands. Most commands share the main job's. */
static bool print_statuses(const char *word) {
  static const char words[] = "exit, exit status, exit statuses, exit code, status, return code";
  const gconv_command *command;
  bool asked = gconv_find_word(words, ',', word, strlen(word)) != NULL;
  for (size_t i = 0; asked && (command = gconv_command_at(i)); i++) {
    const char *text = command->details ? strstr(command->details, "Exit status: ") : NULL;
    if (text)
      printf("gconv %s%s\n%s\n", command->name,
             command == &gconv_command_filter ? ", and all commands but the ones below" : "", text);
  }
  return asked;
}

static bool print_elsewhere(const char *word) {
  const char *text = gconv_elsewhere(word);
  if (text)
    gconv_print(stdout, "%s: %s\n", word, text);
  return text != NULL;
}

/* Prints filters with the word in their descriptions, such as "blur" or "edges". */
static bool print_filters(const char *word) {
  enum { SHORTEST = 3 }; /* letters: nearly all descriptions contain shorter words */
  char *texts[] = {(char *)word};
  return strlen(word) >= SHORTEST && gconv_filters_list(&(gconv_texts){texts, 1}) > 0;
}

/* ---- All words ---- */

static bool answer(const char *word) {
  static bool (*const all[])(const char *) = {print_builtin,   print_shipped,
                                              print_option,    print_algorithm,
                                              print_format,    gconv_documented_print_algorithm,
                                              print_parameter, gconv_documented_print_meaning,
                                              print_statuses,  print_formats};
  bool known = print_command(word);
  for (size_t i = 0; !known && i < sizeof all / sizeof *all; i++)
    if (all[i](word)) {
      known = true;
      while (++i < sizeof all / sizeof *all)
        all[i](word);
    }
  if (known || print_value(word))
    return true;
  bool named = gconv_documented_print_name(word);
  return print_elsewhere(word) || print_filters(word) || named || gconv_documented_print_places(word);
}

static void suggest(gconv_suggestion *best, const char *word) {
  for (size_t i = 0; gconv_command_at(i); i++)
    gconv_suggest(best, word, gconv_command_at(i)->name);
  for (size_t i = 0; gconv_builtin_at(i); i++)
    gconv_suggest(best, word, gconv_builtin_at(i)->name);
  for (size_t i = 0; gconv_command_at(i); i++) {
    const gconv_option *row, *table = gconv_command_options(gconv_command_at(i));
    for (gconv_option_walk walk = {table, NULL}; (row = gconv_option_next_named(&walk));)
      gconv_suggest(best, word + strspn(word, "-"), row->name);
  }
  for (size_t i = 0; gconv_algorithm_at(i); i++)
    gconv_suggest(best, word, gconv_algorithm_at(i)->name);
  for (size_t i = 0; gconv_format_at(i); i++)
    gconv_suggest(best, word, gconv_format_at(i)->name);
  for (size_t i = 0; gconv_documented_words_at(i); i++)
    gconv_suggest(best, word, gconv_documented_words_at(i));
}

static int answer_or_say(const char *word) {
  gconv_suggestion best = {.any = true};
  if (answer(word))
    return GCONV_EXIT_OK;
  suggest(&best, word);
  if (access(word, F_OK) == 0)
    gconv_say("%s: is a file: gconv info describes it", word);
  else if (best.name[0])
    gconv_say("%s: there is no help on this: did you mean %s?", word, best.name);
  else
    gconv_say("%s: there is no help on this: gconv help lists commands, gconv help filter options, gconv filters filters",
              word);
  return GCONV_EXIT_USAGE;
}

/* Several words may be one term, such as "exact family". Otherwise each word is answered by itself. */
static int run(void *settings, const gconv_texts *words) {
  char phrase[128] = "";
  int status = GCONV_EXIT_OK;
  if (words->count == 0)
    print_overview();
  for (size_t i = 0; i < words->count && strlen(phrase) + strlen(words->items[i]) + 2 < sizeof phrase; i++)
    strcat(strcat(phrase, i > 0 ? " " : ""), words->items[i]);
  if (words->count > 1 && answer(phrase))
    return GCONV_EXIT_OK;
  for (size_t i = 0; i < words->count && status == GCONV_EXIT_OK; i++)
    status = answer_or_say(words->items[i]);
  return status;
}

const gconv_command gconv_command_help = {
    .name = "help",
    .synopsis = "help [WORD...]",
    .help = "what a command, option, filter, algorithm, format or word of the documentation is",
    .words = GCONV_WORDS_ALL,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* Completion for shells, out of the tables of commands, options, filters and names of values. */
#include "cli/complete.h"
#include "cli/bank.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Candidates ----------------------------------------------------------------------------------------------------- */

/* Prints `before` and the name, if the word is the beginning of that. */
static void offer(const char *word, const char *before, const char *name) {
  size_t length = strlen(before);
  if (strncmp(word, before, length) == 0 ? strncmp(word + length, name, strlen(word + length)) == 0
                                         : strncmp(before, word, strlen(word)) == 0)
    printf("%s%s\n", before, name);
}

static bool is_builtin(const char *name) {
  const gconv_builtin_info *filter;
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++)
    if (strcmp(filter->name, name) == 0)
      return true;
  return false;
}

static void offer_builtins(const char *word, const char *before) {
  const gconv_builtin_info *filter;
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++) {
    char text[256];
    snprintf(text, sizeof text, "%s:%s", filter->name, filter->parameters);
    offer(word, before, filter->name);
    if (filter->parameters[0] && strchr(word, ':'))
      offer(word, before, text);
  }
}

/* Built-in filters, with their parameters behind a colon, and the other files of the folder. */
static void offer_filters(const char *word, const char *before) {
  offer_builtins(word, before);
  DIR *folder = opendir(gconv_filter_folder());
  for (const struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
    char name[256];
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".txt") != 0)
      continue;
    snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
    if (!is_builtin(name))
      offer(word, before, name);
  }
  if (folder)
    closedir(folder);
}

/* ---- Values of options ---------------------------------------------------------------------------------------------- */

static const char *border_at(size_t i) {
  return gconv_border_name((gconv_border)i);
}
static const char *combine_at(size_t i) {
  const char *name = gconv_combine_name((gconv_combine)i);
  return name ? name : i > 0 && gconv_combine_name((gconv_combine)(i - 1)) ? "mosaic" : NULL;
}
static const char *activation_at(size_t i) {
  return gconv_activation_name((gconv_activation)i);
}
static const char *math_at(size_t i) {
  return gconv_math_name((gconv_math)i);
}
static const char *format_at(size_t i) {
  const gconv_format_info *format = gconv_format_at(i);
  return format ? format->name : NULL;
}
static const char *syntax_at(size_t i) {
  size_t filters = 0;
  while (gconv_filter_syntax_at(filters))
    filters++;
  return i < filters ? gconv_filter_syntax_at(i) : gconv_bank_syntax_at(i - filters);
}
static const char *algorithm_at(size_t i) {
  static const char *const more[] = {"auto", "all"};
  size_t images = 0;
  while (gconv_algorithm_at(images))
    images++;
  if (i < 2)
    return more[i];
  const gconv_algorithm_info *info = i - 2 < images ? gconv_algorithm_at(i - 2) : gconv_layer_algorithm_at(i - 2 - images);
  return info ? info->name : NULL;
}
static const char *device_at(size_t i) {
  static const char *const names[] = {"auto", "cpu", "cuda", "cuda:all"};
  return i < sizeof names / sizeof *names ? names[i] : NULL;
}
static const char *padding_at(size_t i) {
  static const char *const names[] = {"same", "valid", "full", "same-upper", "same-lower"};
  return i < sizeof names / sizeof *names ? names[i] : NULL;
}

static const struct {
  const char *option;
  const char *(*at)(size_t index); /* NULL past the end */
} values[] = {
    {"border", border_at}, {"combine", combine_at},      {"activation", activation_at}, {"math", math_at},
    {"format", format_at}, {"filter-format", syntax_at}, {"algorithm", algorithm_at},   {"without", algorithm_at},
    {"device", device_at}, {"padding", padding_at},
};

/* "8|16|float" or "[=table|json]": what the help shows in small letters is meant as it is. */
static void offer_alternatives(const char *word, const char *before, const char *text) {
  while (*text) {
    char name[64];
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (length > 0 && strchr("|]", text[length]) && length < sizeof name) {
      snprintf(name, sizeof name, "%.*s", (int)length, text);
      offer(word, before, name);
    }
    text += strcspn(text, "|=[]") + (text[strcspn(text, "|=[]")] != '\0');
  }
}

/* The values of an option, with `before` in front of each. */
static void offer_values(const gconv_option *option, const char *word, const char *before) {
  const char *name;
  if (strcmp(option->name, "filter") == 0)
    offer_filters(word, before);
  for (size_t i = 0; option->choices && option->choices[i]; i++)
    offer(word, before, option->choices[i]);
  for (size_t k = 0; k < sizeof values / sizeof *values; k++)
    for (size_t i = 0; strcmp(values[k].option, option->name) == 0 && (name = values[k].at(i)); i++)
      offer(word, before, name);
  if (!option->choices && option->value)
    offer_alternatives(word, before, option->value);
}

/* ---- The word ------------------------------------------------------------------------------------------------------- */

/* The option of which `word` is the name, of `length` letters. */
static const gconv_option *find_option(const gconv_option *table, const char *word, size_t length) {
  for (; table->name; table++)
    if (word[1] == '-' ? strlen(table->name) == length - 2 && strncmp(table->name, word + 2, length - 2) == 0
                       : length == 2 && table->letter == word[1])
      return table;
  return NULL;
}

static void offer_options(const gconv_option *table, const char *word) {
  size_t length = strcspn(word, "=");
  const gconv_option *option = word[length] == '=' ? find_option(table, word, length) : NULL;
  char before[96];
  if (option) {
    snprintf(before, sizeof before, "%.*s=", (int)length, word);
    offer_values(option, word, before);
  }
  for (; !option && table->name; table++)
    offer(word, "--", table->name);
}

/* The option whose value the last word is, or may be; NULL if it is none. */
static const gconv_option *option_before(const gconv_option *table, int count, char *const *words) {
  int at = count - 2;
  while (at >= 0 && (words[at][0] != '-' || words[at][1] == '\0'))
    at--;
  const gconv_option *option = at >= 0 && !strchr(words[at], '=') ? find_option(table, words[at], strlen(words[at])) : NULL;
  bool takes = option && option->value && option->value[0] != '[';
  return takes && (at == count - 2 || option->several) ? option : NULL;
}

static void offer_commands(const char *word) {
  for (size_t i = 0; gconv_command_at(i); i++)
    offer(word, "", gconv_command_at(i)->name);
}

static void complete(const gconv_command *command, int count, char *const *words) {
  static const gconv_command *const takes_filters[] = {&gconv_command_make, &gconv_command_info, &gconv_command_help};
  const char *word = words[count - 1];
  const gconv_option *option = option_before(command->options, count, words);
  if (option)
    offer_values(option, word, "");
  else if (word[0] == '-')
    offer_options(command->options, word);
  else
    for (size_t i = 0; i < sizeof takes_filters / sizeof *takes_filters; i++)
      if (command == takes_filters[i])
        offer_filters(word, "");
  if (!option && command == &gconv_command_help)
    offer_commands(word);
}

/* The parts of gconv bank, whose names begin with that. */
static void complete_bank(int count, char *const *words) {
  static const gconv_command *const parts[] = {&gconv_bank_info, &gconv_bank_show, &gconv_bank_convert};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const char *name = strchr(parts[i]->name, ' ') + 1;
    if (count == 1)
      offer(words[0], "", name);
    else if (strcmp(words[0], name) == 0)
      complete(parts[i], count - 1, words + 1);
  }
}

int gconv_complete(int count, char *const *words) {
  const gconv_command *command = count > 1 ? gconv_command_find(words[0]) : NULL;
  if (count == 0)
    return GCONV_EXIT_OK;
  if (command == &gconv_command_bank)
    complete_bank(count - 1, words + 1);
  else if (command)
    complete(command, count - 1, words + 1);
  else
    complete(&gconv_command_filter, count, words);
  if (count == 1 && words[0][0] != '-')
    offer_commands(words[0]);
  return GCONV_EXIT_OK;
}

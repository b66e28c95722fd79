/* SPDX-License-Identifier: MIT */
/* Completion for shells, out of the tables of commands, options and filters. */
#include "base/memory.h"
#include "base/printable.h"
#include "cli/command.h"

#include <string.h>

/* ---- Candidates ----------------------------------------------------------------------------------------------------- */

/* True if a name has no control characters, such as commands to terminals. */
static bool is_printable(const char *name) {
  GCONV_FREED char *copy = gconv_printable_copy(name, strlen(name));
  bool same = copy && strcmp(copy, name) == 0;
  return same;
}

/* Prints `before` followed by the name, if both together begin with the word. Leaves out names that are not printable. */
static void offer(const char *word, const char *before, const char *name) {
  size_t length = strlen(before);
  if (!is_printable(name))
    return;
  if (strncmp(word, before, length) == 0 ? strncmp(word + length, name, strlen(word + length)) == 0
                                         : strncmp(before, word, strlen(word)) == 0)
    printf("%s%s\n", before, name);
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

/* Offers built-in filters, with their parameters after a colon, and shipped ones. */
static void offer_filters(const char *word, const char *before) {
  offer_builtins(word, before);
  gconv_texts names = {0};
  gconv_shipped_names(&names);
  for (size_t i = 0; i < names.count; i++)
    if (!gconv_word_builtin(names.items[i]))
      offer(word, before, names.items[i]);
  gconv_texts_free(&names);
}

/* Asks the shell to offer names of files, which it also quotes. No candidate begins with a colon. */
static void offer_files(void) {
  puts(":files");
}

/* Offers the values of an option, with `before` in front of each. */
static void offer_values(const gconv_option *option, const char *word, const char *before) {
  char name[64];
  if (option->kind == &gconv_value_filters)
    offer_filters(word, before);
  if (gconv_option_takes_file(option))
    offer_files();
  for (size_t i = 0; gconv_option_word(option, i, name); i++)
    offer(word, before, name);
}

/* Offers first words of commands' names or, if there are two words, the second words of names that begin with words[0]. */
static void offer_commands(int count, char *const *words) {
  const gconv_command *command;
  for (size_t i = 0; count <= 2 && (command = gconv_command_at(i)); i++) {
    const char *blank = strchr(command->name, ' ');
    size_t length = blank ? (size_t)(blank - command->name) : 0;
    if (count == 1 && !blank)
      offer(words[0], "", command->name);
    else if (count == 2 && blank && strncmp(words[0], command->name, length) == 0 && words[0][length] == '\0')
      offer(words[1], "", blank + 1);
  }
}

/* ---- The word ------------------------------------------------------------------------------------------------------- */

static void offer_options(const gconv_option *table, const char *word) {
  size_t length = strcspn(word, "=");
  const gconv_option *option = word[length] == '=' ? gconv_option_find(table, word, length) : NULL;
  char before[96];
  if (option) {
    snprintf(before, sizeof before, "%.*s=", (int)length, word);
    offer_values(option, word, before);
    return;
  }
  const gconv_option *row;
  for (gconv_option_walk walk = {table, NULL}; (row = gconv_option_next_named(&walk));)
    offer(word, "--", row->name);
}

/* Returns the option that the last word may be a value of; NULL: none. Only a first value may begin with a dash. */
static const gconv_option *option_before(const gconv_option *table, int count, char *const *words) {
  int at = count - 2;
  while (at >= 0 && (words[at][0] != '-' || words[at][1] == '\0'))
    at--;
  const gconv_option *option =
      at >= 0 && !strchr(words[at], '=') ? gconv_option_find(table, words[at], strlen(words[at])) : NULL;
  bool takes = option && gconv_option_takes_value(option);
  return takes && (at == count - 2 || (option->several && words[count - 1][0] != '-')) ? option : NULL;
}

static void complete(const gconv_command *command, int count, char *const *words) {
  const char *word = words[count - 1];
  const gconv_option *option = option_before(gconv_command_options(command), count, words);
  if (option)
    offer_values(option, word, "");
  else if (word[0] == '-')
    offer_options(gconv_command_options(command), word);
  else if (command->words >= GCONV_WORDS_FILTERS)
    offer_filters(word, "");
  if (!option && word[0] != '-' && (command->words == GCONV_WORDS_FILES || command->words == GCONV_WORDS_FILTERS))
    offer_files();
  if (!option && command == &gconv_command_help)
    offer_commands(1, words + count - 1);
}

int gconv_complete(int count, char *const *words) {
  int used = 0;
  const gconv_command *command = gconv_command_choose(count - 1, words, &used);
  if (count == 0)
    return GCONV_EXIT_OK;
  if (!command)
    used = 0;
  complete(command ? command : &gconv_command_filter, count - used, words + used);
  if (words[count - 1][0] != '-')
    offer_commands(count, words);
  return GCONV_EXIT_OK;
}

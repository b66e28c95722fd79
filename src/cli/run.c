/* SPDX-License-Identifier: MIT */
/* Finds the command that the words of a command line mean. */
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/terminal.h"

#include <string.h>
#include <unistd.h>

static void suggest_command(gconv_suggestion *best, const char *name) {
  const gconv_command *command;
  for (size_t i = 0; (command = gconv_command_at(i)); i++)
    if (!gconv_command_is_part(command))
      gconv_suggest(best, name, command->name);
}

/* True if words, the first of which is no command, are a job: its filter or its inputs come first. */
static bool are_job(int count, char *const *words) {
  gconv_suggestion command = {.any = true};
  if (count < 2)
    return false;
  if (access(words[0], F_OK) == 0 || gconv_word_is_filter(words[0]))
    return true;
  suggest_command(&command, words[0]);
  return command.name[0] == '\0' && !gconv_elsewhere(words[0]);
}

/* Prints that there is no such subcommand, and what may have been meant. */
static int say_unknown(const char *name) {
  gconv_suggestion best = {.any = true};
  suggest_command(&best, name);
  if (gconv_word_is_filter(name))
    gconv_say("%s: is a filter, where a command is expected: gconv %s INPUT OUTPUT applies it, gconv info %s describes it",
              name, name, name);
  else if (gconv_elsewhere(name))
    gconv_say("%s: %s", name, gconv_elsewhere(name));
  else if (access(name, F_OK) == 0)
    gconv_say("%s: is a file, where a command is expected; images are given with -i: gconv -i %s -f FILTER -o OUTPUT", name,
              name);
  else if (best.name[0])
    gconv_say("%s: no such command: did you mean %s?", name, best.name);
  else
    gconv_say(
        "%s: no such command: gconv help lists them, and gconv help %s says what the word is, if it is known; images are "
        "given with -i",
        name, name);
  return GCONV_EXIT_USAGE;
}

static void print_version(void) {
  const char *name;
  gconv_end_when_unread(NULL);
  printf("gconv %s\n", gconv_version());
  for (size_t i = 0; (name = gconv_built_with(i)); i++)
    printf("  %s\n", name);
}

int gconv_run(int count, char *const *words) {
  if (count == 0) {
    fputs("Usage: gconv -i INPUT -f FILTER -o OUTPUT [OPTION...]\n"
          "       gconv FILTER INPUT OUTPUT, such as: gconv sobel photo.jpg edges.png\n"
          "       gconv help\n",
          stderr);
    return GCONV_EXIT_USAGE;
  }
  if (strcmp(words[0], "--version") == 0 || strcmp(words[0], "version") == 0) {
    print_version();
    return GCONV_EXIT_OK;
  }
  if (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0)
    return gconv_command_run(&gconv_command_help, 0, NULL);
  if (strcmp(words[0], "complete") == 0)
    return gconv_complete(count - 1, words + 1);
  for (int i = 0; i < count && words[0][0] == '-'; i++)
    if (strcmp(words[i], "--volume") == 0)
      return gconv_command_run(&gconv_command_volume, count, words);
  const char *bare = words[0] + strspn(words[0], "-"); /* what other programs call their lists */
  bare += strncmp(bare, "list-", 5) == 0 ? 5 : 0;
  if (count == 1 && strcmp(bare, "formats") == 0)
    return gconv_command_run(&gconv_command_help, 1, (char *[]){"formats"});
  if (count == 1 && bare != words[0] && strcmp(bare, "filters") == 0)
    return gconv_command_run(&gconv_command_filters, 0, NULL);
  if (words[0][0] == '-')
    return gconv_command_run(&gconv_command_filter, count, words);
  int used;
  const gconv_command *command = gconv_command_choose(count, words, &used);
  if (!command && are_job(count, words))
    return gconv_command_run(&gconv_command_filter, count, words);
  return command ? gconv_command_run(command, count - used, words + used) : say_unknown(words[0]);
}

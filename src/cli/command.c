/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
#include "base/suggest.h"
#include "cli/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const gconv_command *const commands[] = {
    &gconv_command_filter, &gconv_command_make,  &gconv_command_filters, &gconv_command_info,     &gconv_command_compare,
    &gconv_command_fit,    &gconv_command_train, &gconv_command_svm,     &gconv_command_classify, &gconv_command_bank,
    &gconv_bank_info,      &gconv_bank_show,     &gconv_bank_convert,    &gconv_command_devices,  &gconv_command_algorithms,
    &gconv_command_bench,  &gconv_command_tune,  &gconv_command_help,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

const gconv_command *gconv_command_at(size_t index) {
  return index < COMMANDS ? commands[index] : NULL;
}

bool gconv_command_is_part(const gconv_command *command) {
  return strchr(command->name, ' ') != NULL;
}

const gconv_command *gconv_command_find(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i]->name, name) == 0)
      return commands[i];
  return NULL;
}

const gconv_command *gconv_command_choose(int count, char *const *words, int *used) {
  char both[64];
  const gconv_command *part = NULL;
  if (count > 1 && (size_t)snprintf(both, sizeof both, "%s %s", words[0], words[1]) < sizeof both)
    part = gconv_command_find(both);
  *used = part ? 2 : 1;
  return part ? part : count > 0 ? gconv_command_find(words[0]) : NULL;
}

static void suggest_command(gconv_suggestion *best, const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (!gconv_command_is_part(commands[i]))
      gconv_suggest(best, name, commands[i]->name);
}

/* Whether words that begin with no command are a job: its filter or its inputs stand first. */
static bool are_job(int count, char *const *words) {
  gconv_suggestion command = {.any = true};
  if (count < 2)
    return false;
  if (access(words[0], F_OK) == 0 || gconv_word_is_filter(words[0]))
    return true;
  suggest_command(&command, words[0]);
  return command.name[0] == '\0' && !gconv_elsewhere(words[0]);
}

int gconv_command_unknown(const char *name) {
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
    gconv_say("%s: no such command: gconv help lists them; images are given with -i", name);
  return GCONV_EXIT_USAGE;
}

/* Lists of filters with commas become their filters. */
static bool split_filters(gconv_texts *words) {
  gconv_texts specs = {0};
  bool good = true;
  for (size_t i = 0; i < words->count && good; i++)
    good = gconv_filters_split(words->items[i], &specs);
  gconv_texts_free(words);
  *words = specs;
  return good;
}

/* Parses the words. False if there is nothing left to do, with *status for the end of the program: after --help, which is
 * printed, or after a mistake, which is said. */
static bool parse(const gconv_command *command, int count, char *const *words, gconv_settings *settings,
                  gconv_texts *operands, int *status) {
  gconv_message message;
  bool help = false;
  *status = GCONV_EXIT_OK;
  for (int i = 0; command->words == GCONV_WORDS_ALL && i < count; i++)
    gconv_texts_add(operands, strdup(words[i]));
  if (command->words == GCONV_WORDS_ALL)
    return true;
  if (gconv_options_parse(command->of, count, words, settings, operands, &help, &message) != GCONV_OK) {
    gconv_say("%s", message.text);
    *status = GCONV_EXIT_USAGE;
  } else if (help) {
    gconv_end_when_unread(NULL);
    gconv_command_print(stdout, command);
  } else if (command->words == GCONV_WORDS_FILTERS && !split_filters(operands)) {
    gconv_say("out of memory");
    *status = GCONV_EXIT_FAILED;
  } else if (command->words == GCONV_WORDS_NONE && operands->count > 0) {
    gconv_say("%s: unexpected argument of gconv %s", operands->items[0], command->name);
    *status = GCONV_EXIT_USAGE;
  }
  return *status == GCONV_EXIT_OK && !help;
}

int gconv_command_run(const gconv_command *command, int count, char *const *words) {
  gconv_settings settings = gconv_settings_default();
  gconv_texts operands = {0};
  int status;
  if (parse(command, count, words, &settings, &operands, &status)) {
    if (!command->writes && !settings.learn.report && !settings.learn.plot && !settings.bench.plot)
      gconv_end_when_unread(settings.naming.output);
    status = command->run(&settings, &operands);
  }
  gconv_texts_free(&operands);
  gconv_settings_free(&settings);
  return status;
}

void gconv_command_print(FILE *out, const gconv_command *command) {
  fprintf(out, "Usage: gconv %s\n%s\n", command->synopsis, command->help);
  gconv_options_print(out, command->of);
  if (command->details)
    fprintf(out, "\n%s", command->details);
  if (command->more)
    command->more(out);
}

bool gconv_command_may_write(const gconv_texts *specs, bool banks, const char *output) {
  char *paths[] = {(char *)output};
  gconv_outputs outputs = {.paths = {paths, output ? 1 : 0}};
  gconv_message message;
  if (gconv_outputs_check_filters(specs, banks, &outputs, &message) == GCONV_OK)
    return true;
  gconv_say("%s", message.text);
  return false;
}

int gconv_command_end(gconv_status status, bool failed) {
  if (status == GCONV_OK)
    return failed ? GCONV_EXIT_FAILED : GCONV_EXIT_OK;
  gconv_say("%s", gconv_last_error());
  return status == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

void gconv_tally_add(gconv_tally *tally, const char *path, gconv_status status) {
  gconv_message message;
  bool failed = status != GCONV_OK;
  tally->done++;
  tally->failed += failed;
  tally->wrong += failed && (status == GCONV_BAD_ARGUMENT || gconv_check_is_there(path, &message) != GCONV_OK);
}

int gconv_tally_end(const gconv_tally *tally) {
  if (tally->failed == 0)
    return GCONV_EXIT_OK;
  if (tally->failed < tally->done)
    return GCONV_EXIT_PARTLY;
  return tally->wrong == tally->done ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

gconv_status gconv_check_is_there(const char *path, gconv_message *message) {
  const char *colon = strrchr(path, ':');
  if (access(path, F_OK) == 0 || strcmp(path, "-") == 0)
    return GCONV_OK;
  int error = errno;
  char *file = colon ? strndup(path, (size_t)(colon - path)) : NULL;
  bool there = file && access(file, F_OK) == 0;
  free(file);
  return there ? GCONV_OK : gconv_refuse(message, "%s: cannot find this input: %s", path, strerror(error));
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
  if (words[0][0] == '-')
    return gconv_command_run(&gconv_command_filter, count, words);
  int used;
  const gconv_command *command = gconv_command_choose(count, words, &used);
  if (!command && are_job(count, words))
    return gconv_command_run(&gconv_command_filter, count, words);
  return command ? gconv_command_run(command, count - used, words + used) : gconv_command_unknown(words[0]);
}

/* SPDX-License-Identifier: MIT */
/* The table of commands: finding, running and describing one. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/terminal.h"

#include <string.h>

static const gconv_command *const commands[] = {
#define GCONV_COMMAND(name) &gconv_command_##name,
#include "cli/commands.def"
#undef GCONV_COMMAND
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

static bool split_filters(gconv_texts *words) {
  gconv_texts specs = {0};
  bool good = true;
  for (size_t i = 0; i < words->count && good; i++)
    good = gconv_filters_split(words->items[i], &specs);
  gconv_texts_free(words);
  *words = specs;
  return good;
}

const gconv_option *gconv_command_options(const gconv_command *command) {
  return command->options ? command->options : gconv_no_options;
}

/* Parses the words. After printing --help, or the error of a mistake, returns false with the exit status in *status. */
static bool parse(const gconv_command *command, int count, char *const *words, gconv_parsed *parsed, int *status) {
  const char *lists_all =
      command == &gconv_command_filter ? "gconv help filter" : "--help"; /* gconv --help lists commands */
  *status = GCONV_EXIT_OK;
  for (int i = 0; command->words == GCONV_WORDS_ALL && i < count; i++)
    gconv_texts_add(&parsed->operands, strdup(words[i]));
  if (command->words == GCONV_WORDS_ALL)
    return true;
  if (gconv_options_parse(gconv_command_options(command), lists_all, count, words, parsed) != GCONV_OK) {
    gconv_say("%s", gconv_last_error());
    *status = GCONV_EXIT_USAGE;
  } else if (parsed->help) {
    gconv_end_when_unread(NULL);
    gconv_command_print(stdout, command);
  } else if (command->words == GCONV_WORDS_FILTERS && !split_filters(&parsed->operands)) {
    gconv_say("out of memory");
    *status = GCONV_EXIT_FAILED;
  } else if (command->words == GCONV_WORDS_NONE && parsed->operands.count > 0) {
    gconv_say("%s: unexpected argument of gconv %s", parsed->operands.items[0], command->name);
    *status = GCONV_EXIT_USAGE;
  }
  return *status == GCONV_EXIT_OK && !parsed->help;
}

int gconv_command_run(const gconv_command *command, int count, char *const *words) {
  GCONV_FREED gconv_common *common = calloc(1, command->record_bytes ? command->record_bytes : sizeof *common);
  gconv_parsed parsed = {.record = common};
  int status;
  if (!common) {
    gconv_say("out of memory");
    return GCONV_EXIT_FAILED;
  }
  if (command->begin)
    command->begin(common);
  if (parse(command, count, words, &parsed, &status)) {
    if (!command->writes && !common->report && !common->plot)
      gconv_end_when_unread(common->output);
    gconv_set_log(gconv_log_of(common->quiet, common->verbose), NULL);
    status = command->run(common, &parsed.operands);
  }
  gconv_options_release(gconv_command_options(command), common);
  if (command->end)
    command->end(common);
  gconv_texts_free(&parsed.operands);
  gconv_texts_free(&parsed.meanings);
  return status;
}

void gconv_command_print(FILE *out, const gconv_command *command) {
  fprintf(out, "Usage: gconv %s\n%s\n", command->synopsis, command->help);
  gconv_options_print(out, gconv_command_options(command));
  if (command->details)
    fprintf(out, "\n%s", command->details);
  if (command->more)
    command->more(out);
}

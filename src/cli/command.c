/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
#include "base/suggest.h"
#include "batch/outputs.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const gconv_command *const commands[] = {
    &gconv_command_filter,  &gconv_command_make,       &gconv_command_filters, &gconv_command_info, &gconv_command_bank,
    &gconv_command_devices, &gconv_command_algorithms, &gconv_command_bench,   &gconv_command_tune, &gconv_command_help,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

const gconv_command *gconv_command_at(size_t index) {
  return index < COMMANDS ? commands[index] : NULL;
}

const gconv_command *gconv_command_find(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i]->name, name) == 0)
      return commands[i];
  return NULL;
}

int gconv_command_unknown(const char *name) {
  gconv_suggestion best = {0};
  for (size_t i = 0; i < COMMANDS; i++)
    gconv_suggest(&best, name, commands[i]->name);
  if (access(name, F_OK) == 0)
    gconv_say("%s: is a file, where a command is expected; images are given with -i: gconv -i %s -f FILTER -o OUTPUT", name,
              name);
  else if (best.name[0])
    gconv_say("%s: no such command: did you mean %s?", name, best.name);
  else
    gconv_say("%s: no such command: gconv help lists them; images are given with -i", name);
  return GCONV_EXIT_USAGE;
}

bool gconv_command_parse(const gconv_command *command, int count, char *const *words, void *settings, gconv_texts *operands,
                         int *status) {
  gconv_message message;
  bool help = false;
  gconv_status parsed = gconv_options_parse(command->options, count, words, settings, operands, &help, &message);
  *status = parsed == GCONV_OK ? GCONV_EXIT_OK : GCONV_EXIT_USAGE;
  if (parsed == GCONV_OK && !help)
    return true;
  if (help)
    gconv_command_print(stdout, command);
  else
    gconv_say("%s", message.text);
  gconv_texts_free(operands);
  return false;
}

void gconv_command_print(FILE *out, const gconv_command *command) {
  fprintf(out, "Usage: gconv %s\n%s\n", command->synopsis, command->help);
  if (!command->options[0].group)
    fputs("\nOptions:\n", out);
  gconv_options_print(out, command->options);
  if (command->details)
    fprintf(out, "\n%s", command->details);
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

int gconv_command_refuse(const gconv_command *command, const gconv_texts *operands) {
  if (operands->count == 0)
    return GCONV_EXIT_OK;
  gconv_say("%s: unexpected argument of gconv %s", operands->items[0], command->name);
  return GCONV_EXIT_USAGE;
}

/* SPDX-License-Identifier: MIT */
#include "cli/run.h"
#include "cli/command.h"
#include "cli/complete.h"

#include <stdio.h>
#include <string.h>

int gconv_run(int count, char *const *words) {
  if (count == 0) {
    fputs("Usage: gconv -i INPUT -f FILTER -o OUTPUT [OPTION...]\n"
          "       gconv -i photo.jpg -f sobel_x -o edges.png\n"
          "       gconv help\n",
          stderr);
    return GCONV_EXIT_USAGE;
  }
  if (strcmp(words[0], "--version") == 0 || strcmp(words[0], "version") == 0) {
    printf("gconv %s\n", gconv_version());
    return GCONV_EXIT_OK;
  }
  if (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0)
    return gconv_command_help.run(&gconv_command_help, 0, NULL);
  if (strcmp(words[0], "complete") == 0)
    return gconv_complete(count - 1, words + 1);
  if (words[0][0] == '-')
    return gconv_command_filter.run(&gconv_command_filter, count, words);
  const gconv_command *command = gconv_command_find(words[0]);
  return command ? command->run(command, count - 1, words + 1) : gconv_command_unknown(words[0]);
}

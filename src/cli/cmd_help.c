/* SPDX-License-Identifier: MIT */
/* gconv help: the overview, and the help of commands. */
#include "cli/command.h"

#include <string.h>

static const gconv_option options[] = {GCONV_OPTIONS_END};

static void print_overview(void) {
  const gconv_command *command;
  printf("gconv %s: filter and convolve images, exactly and fast, on the CPU and on CUDA GPUs\n\n"
         "Usage: gconv -i INPUT -f FILTER -o OUTPUT [OPTION...]\n"
         "       gconv COMMAND ...\n\n"
         "  gconv -i photo.jpg -f sobel_x -o edges.png\n"
         "  gconv -i photo.png -f sobel --combine magnitude -o edges.png\n"
         "  gconv -i photos/ -f gaussian:size=9,sigma=2 -o out/\n"
         "  gconv -i - -f '3x3: 0,-1,0 -1,5,-1 0,-1,0' -o - < photo.png > sharp.png\n\n"
         "Commands:\n",
         gconv_version());
  for (size_t i = 0; (command = gconv_command_at(i)); i++)
    printf("  %-12s%s\n", command->name, command->help);
  fputs("\ngconv help COMMAND lists the options of a command; gconv help filter those of the main job.\n"
        "gconv --version prints the version.\n",
        stdout);
}

/* What a built-in filter is; false if there is none of this name. */
static bool print_filter(const char *name) {
  const gconv_builtin_info *filter;
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++)
    if (strcmp(filter->name, name) == 0) {
      const char *colon = filter->parameters[0] ? ":" : "";
      printf("Usage: gconv -i INPUT -f %s%s%s -o OUTPUT [OPTION...]\n%s\n\ngconv info %s describes it, gconv make %s prints "
             "it.\n",
             name, colon, filter->parameters, filter->help, name, name);
      return true;
    }
  return false;
}

static int run(const gconv_command *self, int count, char *const *words) {
  gconv_texts operands = {0};
  int status;
  if (!gconv_command_parse(self, count, words, NULL, &operands, &status))
    return status;
  if (operands.count == 0)
    print_overview();
  for (size_t i = 0; i < operands.count && status == GCONV_EXIT_OK; i++) {
    const gconv_command *command = gconv_command_find(operands.items[i]);
    if (command)
      gconv_command_print(stdout, command);
    else if (print_filter(operands.items[i]))
      continue;
    else
      status = gconv_command_unknown(operands.items[i]);
  }
  gconv_texts_free(&operands);
  return status;
}

const gconv_command gconv_command_help = {
    .name = "help",
    .synopsis = "help [COMMAND|FILTER...]",
    .help = "how gconv, one of its commands, or a built-in filter, is used",
    .options = options,
    .run = run,
};

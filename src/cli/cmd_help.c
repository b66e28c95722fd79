/* SPDX-License-Identifier: MIT */
/* gconv help: the overview, and the help of commands, built-in filters and options. */
#include "cli/command.h"

#include <string.h>

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
    if (!gconv_command_is_part(command))
      printf("  %-12s%s\n", command->name, command->help);
  fputs("\ngconv help COMMAND lists the options of a command; gconv help filter those of the main job, and\n"
        "gconv help border one of these.\n"
        "gconv --version prints the version, and the libraries it was built with.\n",
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

/* What an option of the main job does, "border", "--border" or "-f"; false if there is none of this name. */
static bool print_option(const char *word) {
  char name[64];
  snprintf(name, sizeof name, "%s%s", word[0] == '-' ? "" : "--", word);
  const gconv_option *option = gconv_option_find(GCONV_OF_FILTER, name, strlen(name));
  if (option)
    gconv_option_print(stdout, option);
  return option != NULL;
}

static bool asks_for_help(const char *word) {
  return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

static int run(gconv_settings *settings, const gconv_texts *words) {
  (void)settings;
  int status = GCONV_EXIT_OK;
  if (words->count == 0)
    print_overview();
  for (size_t i = 0; i < words->count && status == GCONV_EXIT_OK; i++) {
    const char *word = words->items[i];
    const gconv_command *command = asks_for_help(word) ? &gconv_command_help : gconv_command_find(word);
    if (command)
      gconv_command_print(stdout, command);
    else if (!print_filter(word) && !print_option(word))
      status = gconv_command_unknown(word);
  }
  return status;
}

const gconv_command gconv_command_help = {
    .name = "help",
    .synopsis = "help [COMMAND|FILTER|OPTION...]",
    .help = "how gconv, one of its commands, a built-in filter or an option, is used",
    .of = GCONV_OF_REST,
    .words = GCONV_WORDS_ALL,
    .run = run,
};

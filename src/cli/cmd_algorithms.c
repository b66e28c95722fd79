/* SPDX-License-Identifier: MIT */
/* gconv algorithms: what can be asked for with -a. */
#include "cli/command.h"

static const gconv_option options[] = {GCONV_OPTIONS_END};

static void print_row(const gconv_algorithm_info *algorithm, const char *obstacle) {
  printf("%-4s  %-13s  %-7s  %s", algorithm->device, algorithm->name, algorithm->exact ? "exact" : "bounded",
         algorithm->help);
  if (obstacle)
    printf(" (not here: %s)", obstacle);
  putchar('\n');
}

static void print_all(void) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    print_row(algorithm, gconv_algorithm_obstacle(i));
  puts("\nfor banks:");
  for (size_t i = 0; (algorithm = gconv_layer_algorithm_at(i)); i++)
    print_row(algorithm, gconv_layer_algorithm_obstacle(i));
}

static int run(const gconv_command *self, int count, char *const *words) {
  gconv_texts operands = {0};
  int status;
  if (!gconv_command_parse(self, count, words, NULL, &operands, &status))
    return status;
  status = gconv_command_refuse(self, &operands);
  if (status == GCONV_EXIT_OK)
    print_all();
  gconv_texts_free(&operands);
  return status;
}

const gconv_command gconv_command_algorithms = {
    .name = "algorithms",
    .synopsis = "algorithms",
    .help = "the algorithms of this build, for --algorithm",
    .details =
        "Exact algorithms give the same bits on every device; the others state a bound on their error, which --verify\n"
        "holds them to. Some are made of a library, and say so where it is missing.\n",
    .options = options,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* gconv algorithms: what can be asked for with -a. */
#include "base/printable.h"
#include "cli/command.h"

void gconv_algorithm_print(const gconv_algorithm_info *algorithm, const char *obstacle, const char *before) {
  printf("%-4s  %-13s  %-7s  %s%s", algorithm->device, algorithm->name, algorithm->exact ? "exact" : "bounded", before,
         algorithm->help);
  if (obstacle)
    gconv_print(stdout, " (not here: %s)", obstacle);
  putchar('\n');
}

static int run(void *settings, const gconv_texts *words) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    gconv_algorithm_print(algorithm, gconv_algorithm_obstacle(i), "");
  puts("\nfor banks:");
  for (size_t i = 0; (algorithm = gconv_layer_algorithm_at(i)); i++)
    gconv_algorithm_print(algorithm, gconv_layer_algorithm_obstacle(i), "");
  return GCONV_EXIT_OK;
}

const gconv_command gconv_command_algorithms = {
    .name = "algorithms",
    .synopsis = "algorithms",
    .help = "the algorithms of this build, for --algorithm",
    .details =
        "Exact algorithms give the same bits on every device; the others state a bound on their error, which --verify\n"
        "checks. Some need a library; the list says so where it is missing.\n",
    .run = run,
};

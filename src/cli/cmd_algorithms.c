/* SPDX-License-Identifier: MIT */
#include "cli/command.h"

static const gconv_option options[] = {GCONV_OPTIONS_END};

static int run(const gconv_command *self, int count, char *const *words) {
  gconv_texts operands = {0};
  int status;
  if (!gconv_command_parse(self, count, words, NULL, &operands, &status))
    return status;
  status = gconv_command_refuse(self, &operands);
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; status == GCONV_EXIT_OK && (algorithm = gconv_algorithm_at(i)); i++)
    printf("%-4s  %-12s  %-7s  %s\n", algorithm->device, algorithm->name, algorithm->exact ? "exact" : "bounded",
           algorithm->help);
  gconv_texts_free(&operands);
  return status;
}

const gconv_command gconv_command_algorithms = {
    .name = "algorithms",
    .synopsis = "algorithms",
    .help = "the algorithms of this build, for --algorithm",
    .details =
        "Exact algorithms give the same bits on every device; the others state a bound on their error, which --verify\n"
        "holds them to.\n",
    .options = options,
    .run = run,
};

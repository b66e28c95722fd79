/* SPDX-License-Identifier: MIT */
/* gconv devices: what can be asked for with -d. */
#include "cli/command.h"

static const gconv_option options[] = {GCONV_OPTIONS_END};

static int run(const gconv_command *self, int count, char *const *words) {
  gconv_texts operands = {0};
  int status;
  if (!gconv_command_parse(self, count, words, NULL, &operands, &status))
    return status;
  status = gconv_command_refuse(self, &operands);
  gconv_device_info info;
  for (size_t i = 0; status == GCONV_EXIT_OK && gconv_device_at(i, &info); i++)
    printf("%-8s  %s%s\n", info.name, info.usable ? "" : "cannot be used: ", info.usable ? info.description : info.reason);
  gconv_texts_free(&operands);
  return status;
}

const gconv_command gconv_command_devices = {
    .name = "devices",
    .synopsis = "devices",
    .help = "the devices of this machine, or why they cannot be used",
    .options = options,
    .run = run,
};

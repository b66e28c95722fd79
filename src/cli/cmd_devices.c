/* SPDX-License-Identifier: MIT */
/* gconv devices: what can be asked for with -d. */
#include "base/printable.h"
#include "cli/command.h"

static int run(void *settings, const gconv_texts *words) {
  gconv_device_info info;
  for (size_t i = 0; gconv_device_at(i, &info); i++)
    gconv_print(stdout, "%-8s  %s%s\n", info.name,
                info.usable ? "" : "cannot be used: ", info.usable ? info.description : info.reason);
  return GCONV_EXIT_OK;
}

const gconv_command gconv_command_devices = {
    .name = "devices",
    .synopsis = "devices",
    .help = "the devices of this machine, or why they cannot be used",
    .run = run,
};

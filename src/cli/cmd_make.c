/* SPDX-License-Identifier: MIT */
/* gconv make: filters as text. */
#include "cli/command.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

static int run(gconv_settings *settings, const gconv_texts *specs) {
  gconv_filters filters = {0};
  int status = GCONV_EXIT_OK;
  gconv_set_log(gconv_say_warning, NULL);
  gconv_sandbox_file(settings, settings->naming.output);
  if (specs->count == 0) {
    gconv_say("make: name a filter, such as gaussian:size=9,sigma=2; gconv filters lists them");
    status = GCONV_EXIT_USAGE;
  }
  for (size_t i = 0; i < specs->count && status == GCONV_EXIT_OK; i++)
    if (!settings->last.syntax && gconv_bank_is_one(specs->items[i])) {
      gconv_say("make: %s is a bank of filters: gconv bank convert prints it", specs->items[i]);
      status = GCONV_EXIT_USAGE;
    } else if (gconv_filters_read(specs->items[i], settings->last.syntax, &filters) != GCONV_OK) {
      gconv_say("%s", gconv_last_error());
      status = GCONV_EXIT_USAGE;
    }
  if (status == GCONV_EXIT_OK && !gconv_command_may_write(specs, false, settings->naming.output))
    status = GCONV_EXIT_USAGE;
  gconv_status written = GCONV_OK;
  if (status == GCONV_EXIT_OK)
    written = gconv_filters_write(settings->naming.output ? settings->naming.output : "-", &filters);
  if (written != GCONV_OK) {
    gconv_say("%s", gconv_last_error());
    status = written == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
  }
  gconv_filters_free(&filters);
  return status;
}

const gconv_command gconv_command_make = {
    .name = "make",
    .synopsis = "make SPEC... [OPTION...]",
    .help = "print filters as text, to be read again with -f",
    .details = "A SPEC is what -f takes: a file, a built-in filter such as log:size=9,sigma=1.4, or an ImageMagick kernel.\n"
               "Several filters become ImageMagick kernels, which share a file; none may have a divisor or offset.\n",
    .of = GCONV_OF_MAKE,
    .words = GCONV_WORDS_FILTERS,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* gconv make: filters as text. */
#include "cli/command.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#define OPTION(...) GCONV_OPTION(gconv_common, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('o', "output", "FILE", once, output, .help = "write to this file; default: standard output"),
    GCONV_FILTER_SYNTAX_ROW,
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *specs) {
  const gconv_common *settings = record;
  gconv_filters filters = {0};
  int status = GCONV_EXIT_OK;
  gconv_set_log(gconv_say_warning, NULL);
  gconv_sandbox_file(settings, settings->output);
  if (specs->count == 0) {
    gconv_say("make: name a filter, such as gaussian:size=9,sigma=2; gconv filters lists them");
    status = GCONV_EXIT_USAGE;
  }
  for (size_t i = 0; i < specs->count && status == GCONV_EXIT_OK; i++)
    if (!settings->syntax && gconv_bank_is_one(specs->items[i])) {
      gconv_say("make: %s is a bank of filters: gconv bank convert prints it", specs->items[i]);
      status = GCONV_EXIT_USAGE;
    } else if (gconv_filters_read(specs->items[i], settings->syntax, &filters) != GCONV_OK) {
      gconv_say("%s", gconv_last_error());
      status = GCONV_EXIT_USAGE;
    }
  if (status == GCONV_EXIT_OK && !gconv_command_may_write(specs, false, settings->output))
    status = GCONV_EXIT_USAGE;
  gconv_status written = GCONV_OK;
  if (status == GCONV_EXIT_OK)
    written = gconv_filters_write(settings->output ? settings->output : "-", &filters);
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
    .options = options,
    .words = GCONV_WORDS_FILTERS,
    .run = run,
};

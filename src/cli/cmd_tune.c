/* SPDX-License-Identifier: MIT */
/* gconv tune: its options are in table.c, the work is in src/bench. */
#include "bench/bench.h"
#include "cli/command.h"
#include "cli/terminal.h"

static gconv_status tune(gconv_bench *bench, bool quick) {
  bench->progress = gconv_terminal_can_erase() ? gconv_progress_show : NULL;
  gconv_status status = gconv_bench_measure_machine(bench);
  if (status == GCONV_OK)
    status = gconv_tune(bench, quick);
  gconv_progress_hide();
  if (status == GCONV_OK)
    gconv_tune_print(stdout, bench->device);
  return status;
}

static int run(gconv_settings *settings, const gconv_texts *words) {
  (void)words;
  gconv_bench bench = {.out = stdout, .say = gconv_say_text};
  gconv_set_log(gconv_say_warning, NULL);
  gconv_status status =
      gconv_bench_open(&bench, settings->bench.device, gconv_settle_threads(settings->tune_threads, false));
  if (status == GCONV_OK && settings->show)
    gconv_tune_print(stdout, bench.device);
  else if (status == GCONV_OK)
    status = settings->forget ? gconv_tune_forget(bench.device) : tune(&bench, settings->quick);
  gconv_bench_close(&bench);
  return gconv_command_end(status, bench.failed);
}

const gconv_command gconv_command_tune = {
    .name = "tune",
    .synopsis = "tune [OPTION...]",
    .help = "measure this machine, and remember it for the choices of auto",
    .details =
        "Measures copies, multiply-adds, launches, and each algorithm on images, layers and filters of several sizes,\n"
        "in a minute or so. auto multiplies its estimates by the ratios found, as --explain tells. The file is in\n"
        "$GCONV_CACHE, else in gconv below $XDG_CACHE_HOME, else in .cache/gconv below $HOME; another device, driver\n"
        "or version of gconv makes it void. There is one file for a device. Of the CPU it is used with any number of\n"
        "threads, whatever --threads was when it was measured: images of a folder are filtered by one thread each,\n"
        "which --threads 1 measures.\n",
    .of = GCONV_OF_TUNE,
    .writes = true,
    .run = run,
};

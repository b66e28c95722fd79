/* SPDX-License-Identifier: MIT */
/* gconv tune: the work is in src/bench. */
#include "bench/bench.h"
#include "cli/command.h"
#include "cli/terminal.h"

typedef struct tune_settings {
  gconv_common common;
  bool show, forget, quick;
} tune_settings;

#define OPTION(...) GCONV_OPTION(tune_settings, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_ANY_DEVICE_ROW,
    OPTION(0, "threads", "N", integer, common.threads, .least = 1, .most = GCONV_MOST_THREADS, .help = GCONV_THREADS_HELP),
    OPTION(0, "quick", NULL, flag, quick, .help = "u8 and three sizes of filters only"),
    OPTION(0, "show", NULL, flag, show, .excludes = "forget", .help = "print the stored measurements, and measure nothing"),
    OPTION(0, "forget", NULL, flag, forget, .help = "remove the stored measurements, and measure nothing"),
    GCONV_OPTIONS_END,
};

static gconv_status tune(gconv_bench *bench, bool quick) {
  bench->progress = gconv_terminal_can_erase() ? gconv_progress_show : NULL;
  gconv_status status = gconv_bench_measure_machine(bench);
  GCONV_THEN(status, gconv_tune(bench, quick));
  gconv_progress_hide();
  if (status == GCONV_OK)
    gconv_tune_print(stdout, bench->device);
  return status;
}

static int run(void *record, const gconv_texts *words) {
  const tune_settings *settings = record;
  gconv_bench bench = {.out = stdout, .say = gconv_say_text};
  gconv_status status =
      gconv_bench_open(&bench, settings->common.device, gconv_settle_threads(settings->common.threads, false));
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
        "or version of gconv makes it void. There is one file for a device. That of the CPU is used with any number of\n"
        "threads, whatever --threads was when it was measured. For folders, whose images are filtered by one thread\n"
        "each, measure with --threads 1.\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(tune_settings, common),
    .writes = true,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* gconv bench: its options are in table.c, the work is in src/bench. */
#include "base/ending.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>

/* Runs it, with the report in a file of these extensions; NULL or "-": on standard output. The file appears when it is
 * whole. */
static gconv_status run_into(gconv_bench *bench, const char *path, const char *endings) {
  char *text = NULL;
  size_t size = 0;
  gconv_sink *sink = NULL;
  if (!path || strcmp(path, "-") == 0)
    return gconv_bench_run(bench);
  GCONV_TRY(gconv_check_ending(path, endings, "this report", ""));
  GCONV_TRY(gconv_sink_open(path, &sink));
  bench->out = open_memstream(&text, &size);
  gconv_status status = bench->out ? gconv_bench_run(bench) : gconv_fail(GCONV_NO_MEMORY, "no memory for the report");
  if (bench->out && fclose(bench->out) != 0 && status == GCONV_OK)
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for the report");
  if (status == GCONV_OK)
    status = gconv_sink_write(sink, text, size);
  if (status == GCONV_OK)
    status = gconv_sink_commit(sink, false);
  else
    gconv_sink_discard(sink);
  bench->out = stdout;
  free(text);
  return status;
}

static int run(gconv_settings *all, const gconv_texts *words) {
  (void)words;
  gconv_bench_settings *settings = &all->bench;
  gconv_bench bench = {.settings = settings, .out = stdout, .say = gconv_say_text};
  if (settings->experiment && strcmp(settings->experiment, "list") == 0) {
    fputs(GCONV_BENCH_EXPERIMENTS, stdout);
    return GCONV_EXIT_OK;
  }
  gconv_set_log(gconv_say_warning, NULL);
  for (int i = 0; i < settings->threads.count; i++)
    settings->threads.items[i] = gconv_settle_threads(settings->threads.items[i], false);
  gconv_status status = gconv_bench_settle(settings);
  if (status == GCONV_OK)
    status = run_into(&bench, settings->csv ? settings->csv : settings->json, settings->csv ? "csv txt" : "json");
  gconv_bench_close(&bench);
  return gconv_command_end(status, bench.failed);
}

const gconv_command gconv_command_bench = {
    .name = "bench",
    .synopsis = "bench [OPTION...]",
    .help = "how fast the algorithms are on this machine, by themselves",
    .details =
        "Times are of the convolution alone, on samples in the memory of the device, without files and transfers; on\n"
        "a GPU they are from events, and inputs are rotated past its caches. A sample is a channel of a pixel. `copy`\n"
        "is the bandwidth used (input read once, output written once) as a part of that of a copy, and `peak` the\n"
        "multiply-adds as a part of the best rate, both measured in the same run. TFLOP/s count the taps as they are\n"
        "written; of algorithms that do fewer multiply-adds, such as separable, they are effective, and no part of the\n"
        "best rate. `+-` is half the distance of the quartiles of the runs. `error` is the largest difference to\n"
        "float64, in samples of the result, of some of the rows. Several filters in one FILTER are combined to their\n"
        "magnitude. With --profile, `warps` are those resident in a multiprocessor, as a part of the most that it can\n"
        "hold, and behind `waiting for` stand the three reasons why they issue no instruction most of the time, as\n"
        "NVIDIA's tools call them, with their parts of the time of all warps (docs/kernels.md explains some).\n\n"
        "Figures:\n" GCONV_BENCH_FIGURES "\nExperiments:\n" GCONV_BENCH_EXPERIMENTS,
    .of = GCONV_OF_BENCH,
    .run = run,
};

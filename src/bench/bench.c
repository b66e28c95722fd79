/* SPDX-License-Identifier: MIT */
/* Measures algorithms against each other and against the machine: medians, with data in the memory of the device. */
#include "base/ending.h"
#include "base/suggest.h"
#include "bench/settings.h"

#include <math.h>
#include <string.h>

static void measure_algorithm(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters,
                              const gconv_bench_row *shape, const char *algorithm) {
  const int grids = bench->settings->grids.count;
  for (int i = 0; i < bench->settings->block_count * grids; i++) {
    gconv_bench_row row = *shape;
    row.algorithm = algorithm;
    row.block = bench->settings->blocks[i / grids];
    row.grid = bench->settings->grids.items[i % grids];
    gconv_bench_measure(bench, image, filters, &row);
    gconv_bench_keep(bench, &row);
    gconv_bench_print_row(bench);
  }
}

static void visit(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters, const gconv_bench_row *shape) {
  const char *algorithm;
  for (size_t i = 0; (algorithm = gconv_bench_algorithm_at(bench, false, i)); i++)
    measure_algorithm(bench, image, filters, shape, algorithm);
}

/* The algorithms for GPUs that use the options --block or --grid: their kernels call block_for() or hinted_grid(). */
static const char block_takers[] = "direct,tiled,direct-classic,tiled-classic";
static const char grid_takers[] = "direct,tiled,sparse,direct-classic,tiled-classic";

/* Says which algorithms ignore the option: their rows differ only by chance. */
static void note_option(const gconv_bench *bench, const char *option, const char *takers) {
  const bool on_gpu = strcmp(bench->type_name, "cuda") == 0;
  const char *name;
  char names[256] = "";
  for (size_t i = 0; (name = gconv_bench_algorithm_at(bench, false, i)); i++) {
    const size_t used = strlen(names);
    if (strcmp(name, "auto") != 0 && !(on_gpu && gconv_find_word(takers, ',', name, strlen(name))))
      snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", name);
  }
  if (names[0] != '\0')
    gconv_bench_say(bench, "note: %s has no effect on %s", option, names);
}

/* Returns whether an algorithm that is measured takes the option: for images, one of the takers, or auto, which may choose
 * one; in an experiment, the kernels of a thesis. */
static bool is_taken(const gconv_bench *bench, const char *takers) {
  const bool layers = bench->settings->experiment != NULL;
  const char *name;
  bool taken = layers && bench->grid->algorithms.count == 0;
  for (size_t i = 0; (name = gconv_bench_algorithm_at(bench, layers, i)); i++)
    taken |= layers ? gconv_ends_in(name, "-classic")
                    : strcmp(name, "auto") == 0 || gconv_find_word(takers, ',', name, strlen(name));
  return taken && strcmp(bench->type_name, "cuda") == 0;
}

/* Refuses a sweep of an option that no algorithm takes: all its rows would be the same. */
static gconv_status check_sweeps(const gconv_bench *bench) {
  const bool blocks = bench->settings->sweep_blocks && !is_taken(bench, block_takers);
  const bool grids = bench->settings->sweep_grids && !is_taken(bench, grid_takers);
  if (!blocks && !grids)
    return GCONV_OK;
  gconv_device_info gpu = {.reason = ""};
  for (size_t i = 0; gconv_device_at(i, &gpu) && (gpu.usable || strncmp(gpu.name, "cuda", 4) != 0); i++)
    gpu.reason[0] = '\0';
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "--sweep %s: this would measure the same again and again: only %s have %ss to choose, on a GPU%s%s",
                    blocks ? "block" : "grid",
                    bench->settings->experiment ? "kernels of the thesis"
                    : blocks                    ? "direct and tiled"
                                                : "direct, tiled and sparse",
                    blocks ? "block" : "grid", gpu.reason[0] ? "; there is none: " : "", gpu.reason);
}

/* Measures with one number of threads. */
static gconv_status run_with(gconv_bench *bench, int threads) {
  gconv_profiler_close(bench->profiler);
  bench->profiler = NULL;
  gconv_device_close(bench->device);
  bench->device = NULL;
  GCONV_TRY(gconv_bench_open(bench, bench->settings->device, threads));
  GCONV_TRY(check_sweeps(bench));
  GCONV_TRY(gconv_bench_measure_machine(bench));
  if (bench->settings->profile && gconv_profiler_open(bench->device, &bench->profiler) != GCONV_OK)
    return gconv_fail_in(GCONV_UNSUPPORTED, "--profile");
  bench->patience_ms = HUGE_VAL;
  gconv_bench_take_words(bench);
  gconv_bench_print_head(bench);
  if (bench->settings->experiment)
    return gconv_bench_experiment(bench);
  if (bench->settings->auto_check) {
    bench->unchecked = true; /* in this mode, only times count */
    return gconv_bench_auto(bench);
  }
  if (bench->settings->blocks[0].width > 0)
    note_option(bench, "--block", block_takers);
  if (bench->settings->grids.items[0] > 0)
    note_option(bench, "--grid", grid_takers);
  return gconv_bench_walk(bench, visit);
}

gconv_status gconv_bench_run(gconv_bench *bench) {
  const gconv_bench_settings *settings = bench->settings;
  gconv_status status = GCONV_OK;
  for (int i = 0; status == GCONV_OK && i < settings->threads.count; i++)
    status = run_with(bench, settings->threads.items[i]);
  if (settings->experiment || settings->auto_check || !bench->device)
    return status;
  gconv_status printed = gconv_bench_print_end(bench);
  GCONV_THEN(status, printed);
  return status == GCONV_OK && settings->plot ? gconv_bench_draw(bench, NULL, settings->plot, settings->profile) : status;
}

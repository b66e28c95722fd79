/* SPDX-License-Identifier: MIT */
/* A run of gconv svm: its grid, its progress and its device. */
#include "base/clock.h"
#include "cli/svm.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>

/* ---- The grid ---- */

enum { DEFAULT_FOLDS = 5 };

static size_t count_of(const gconv_powers *powers) {
  return (size_t)floor((powers->last - powers->first) / powers->step + 1e-9) + 1;
}

double gconv_svm_exponent(const gconv_powers *powers, size_t index) {
  return powers->first + (double)index * powers->step;
}

size_t gconv_svm_grid_folds(const gconv_svm_run *run) {
  return run->settings->folds > 0 ? (size_t)run->settings->folds : DEFAULT_FOLDS;
}

gconv_svm_grid gconv_svm_grid_of(const gconv_svm_run *run) {
  const gconv_svm_settings *svm = run->settings;
  gconv_svm_grid g = {.costs = {-5, 15, 2}, .gammas = {3, -15, -2}};
  g.costs = svm->grid_cost.step != 0 ? svm->grid_cost : g.costs;
  g.gammas = svm->grid_gamma.step != 0 ? svm->grid_gamma : g.gammas;
  g.columns = count_of(&g.costs);
  g.rows = gconv_svm_has_gamma(run->options.kernel) ? count_of(&g.gammas) : 1;
  return g;
}

/* ---- Progress ---- */

static void show_progress(void *user, const gconv_svm_progress *p) {
  enum { PROGRESS_MS = 100 };
  gconv_svm_run *run = user;
  char text[160];
  const double now = gconv_now_ms();
  if (now - run->shown < PROGRESS_MS)
    return;
  run->shown = now;
  double seconds = (now - run->begin) / 1000, tolerance = run->options.tolerance > 0 ? run->options.tolerance : 0.001;
  const char *bar = gconv_progress_bar(p->done < p->machines ? p->done : p->machines, p->machines);
  size_t used = (size_t)snprintf(text, sizeof text, "%s %zu/%zu machines", bar, p->done, p->machines);
  if (p->machines - p->done <= 1 && isfinite(p->gap))
    used +=
        (size_t)snprintf(text + used, sizeof text - used, ", distance to the optimum %.2g, ends at %.2g", p->gap, tolerance);
  else if (p->done > 0)
    used += (size_t)snprintf(text + used, sizeof text - used, ", %.0f s left",
                             seconds * (double)(p->machines - p->done) / (double)p->done);
  gconv_progress_show(text);
}

void gconv_svm_begin_progress(gconv_svm_run *run, gconv_svm_options *options) {
  const gconv_svm_settings *s = run->settings;
  run->begin = gconv_now_ms();
  options->progress = !s->common.quiet && !s->common.json && gconv_terminal_can_erase() ? show_progress : NULL;
  options->user = run;
}

/* ---- The device ---- */

static bool is_gpu(const gconv_svm_run *run) {
  return strncmp(gconv_device_get_info(run->device)->name, "cuda", 4) == 0;
}

void gconv_svm_note_device(gconv_svm_run *run, bool on_gpu) {
  if (on_gpu || !is_gpu(run))
    return;
  run->fell_back = true;
  snprintf(run->why, sizeof run->why, "%s has too little memory", gconv_device_get_info(run->device)->name);
}

const char *gconv_svm_device_name(const gconv_svm_run *run) {
  return run->fell_back ? "cpu" : gconv_device_get_info(run->device)->name;
}

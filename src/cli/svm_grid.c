/* SPDX-License-Identifier: MIT */
/* gconv svm --grid: cross-validation over powers of two of C and gamma. */
#include "base/memory.h"
#include "cli/learn.h"
#include "cli/svm.h"

#include <math.h>

/* True if a score is better than the best; among equal scores, the first is taken. */
static bool is_better(const gconv_svm_run *run, double score, double best) {
  return run->regression ? score < best : score > best;
}

static double cost_at(const gconv_svm_grid *g, size_t at) {
  return exp2(gconv_svm_exponent(&g->costs, at % g->columns));
}

static double gamma_at(const gconv_svm_grid *g, size_t at) {
  return exp2(gconv_svm_exponent(&g->gammas, at / g->columns));
}

static void set_kernel(const gconv_svm_grid *g, size_t at, gconv_svm_options *options) {
  options->cost = cost_at(g, at);
  if (gconv_svm_has_gamma(options->kernel))
    options->gamma = gamma_at(g, at);
}

static gconv_status fill(gconv_svm_run *run, gconv_svm_grid *g) {
  const size_t folds = gconv_svm_grid_folds(run);
  for (size_t at = 0; at < g->rows * g->columns; at++) {
    gconv_svm_options options = run->options;
    gconv_svm_validation found;
    gconv_svm_begin_progress(run, &options);
    set_kernel(g, at, &options);
    GCONV_TRY(gconv_svm_validate(&options, run->data, folds, run->device, &found));
    gconv_svm_note_device(run, found.on_gpu);
    g->scores[at] = run->regression ? found.mse : 100 * found.accuracy;
    if (at == 0 || is_better(run, g->scores[at], g->scores[g->best]))
      g->best = at;
  }
  return GCONV_OK;
}

static void print(const gconv_svm_run *run, const gconv_svm_grid *g) {
  bool gammas = gconv_svm_has_gamma(run->options.kernel);
  fprintf(run->out, "%s by C (columns)%s, powers of 2\n", run->regression ? "MSE" : "% right",
          gammas ? " and gamma (rows)" : "");
  fprintf(run->out, "%8s", "");
  for (size_t c = 0; c < g->columns; c++)
    fprintf(run->out, " %9g", gconv_svm_exponent(&g->costs, c));
  for (size_t r = 0; r < g->rows; r++) {
    if (gammas)
      fprintf(run->out, "\n%8g", gconv_svm_exponent(&g->gammas, r));
    else
      fprintf(run->out, "\n%8s", "");
    for (size_t c = 0; c < g->columns; c++)
      fprintf(run->out, run->regression ? " %8.4g%c" : " %8.2f%c", g->scores[r * g->columns + c],
              r * g->columns + c == g->best ? '*' : ' ');
  }
  fprintf(run->out, "\nbest: -c %.9g", cost_at(g, g->best));
  if (gammas)
    fprintf(run->out, " -g %.9g", gamma_at(g, g->best));
  fprintf(run->out, run->regression ? ": MSE %.6g\n" : ": %.2f%% right\n", g->scores[g->best]);
}

static void add_json(const gconv_svm_run *run, const gconv_svm_grid *g, json_t *json) {
  json_t *rows = json_array();
  for (size_t i = 0; i < g->rows * g->columns; i++) {
    json_t *row = json_pack("{s:f}", "c", cost_at(g, i));
    if (gconv_svm_has_gamma(run->options.kernel))
      json_object_set_new(row, "gamma", json_real(gamma_at(g, i)));
    json_object_set_new(row, run->regression ? "mse" : "accuracy",
                        json_real(run->regression ? g->scores[i] : g->scores[i] / 100));
    json_array_append_new(rows, row);
  }
  json_object_set_new(json, "grid", rows);
}

gconv_status gconv_svm_search(gconv_svm_run *run, json_t *json) {
  gconv_svm_grid g = gconv_svm_grid_of(run);
  GCONV_FREED double *scores = calloc(g.rows * g.columns, sizeof *scores);
  GCONV_NEED_MEMORY(scores, "out of memory");
  g.scores = scores;
  GCONV_TRY(fill(run, &g));
  if (run->settings->common.json)
    add_json(run, &g, json);
  else
    print(run, &g);
  set_kernel(&g, g.best, &run->options);
  return run->settings->common.plot ? gconv_svm_write_plot(run, &g, run->settings->common.plot) : GCONV_OK;
}

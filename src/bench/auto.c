/* SPDX-License-Identifier: MIT */
/* Compares the choice of auto with the best algorithm, at each point of a grid. */
#include "base/memory.h"
#include "bench/bench.h"

#include <math.h>
#include <string.h>

/* The demand on auto: at most 10% slower than the best at 95% of the points, and nowhere more than 25%. */
static const double NEAR = 1.10, NEARLY_ALL = 0.95, WORST = 1.25;

typedef struct tally {
  size_t points, near;
  double worst;
  char worst_point[160];
} tally;

/* ---- One point ---- */

/* Judges auto at one point. Rows [first, bench->count) are the rows of this point, with auto's choice among them. */
static void judge(gconv_bench *bench, size_t first, const char *choice, tally *all) {
  const gconv_bench_row *best = NULL, *chosen = NULL;
  for (size_t i = first; i < bench->count; i++) {
    const gconv_bench_row *row = &bench->rows[i];
    if (row->obstacle[0] != '\0')
      continue;
    best = !best || row->ms < best->ms ? row : best;
    chosen = strcmp(row->algorithm, choice) == 0 ? row : chosen;
  }
  if (!best)
    return;
  double ratio = chosen ? chosen->ms / best->ms : HUGE_VAL;
  all->points++;
  all->near += ratio <= NEAR;
  if (ratio > all->worst) {
    all->worst = ratio;
    snprintf(all->worst_point, sizeof all->worst_point, "%s, %s: %s in place of %s", best->group, best->filter, choice,
             best->algorithm);
  }
  fprintf(bench->out, "%-34s %-20.20s %-13s %9.4f %-13s %6.2f  ", best->group, best->filter, best->algorithm, best->ms,
          choice, ratio);
  for (size_t i = first; i < bench->count; i++)
    if (bench->rows[i].obstacle[0] == '\0')
      fprintf(bench->out, " %s %.4f/%.4f", bench->rows[i].algorithm, bench->rows[i].ms, bench->rows[i].estimate_ms);
  fputc('\n', bench->out);
  fflush(bench->out);
}

static void visit(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters, const gconv_bench_row *shape) {
  tally *all = bench->user;
  size_t first = bench->count;
  const char *choice = gconv_bench_ask_auto(bench, image, filters);
  const char *algorithm;
  for (size_t i = 0; choice && (algorithm = gconv_bench_algorithm_at(bench, false, i)); i++) {
    gconv_bench_row row = *shape;
    row.algorithm = algorithm;
    gconv_bench_measure(bench, image, filters, &row);
    gconv_bench_keep(bench, &row);
  }
  if (choice)
    judge(bench, first, choice, all);
  bench->failed |= !choice;
}

/* ---- All ---- */

/* Collects how the measured times of an algorithm compare with its estimates, from row `first` on. */
static size_t list_ratios(const gconv_bench *bench, size_t first, const char *algorithm, double *ratios) {
  size_t count = 0;
  for (size_t i = first; i < bench->count; i++) {
    const gconv_bench_row *row = &bench->rows[i];
    if (row->obstacle[0] == '\0' && strcmp(row->algorithm, algorithm) == 0)
      ratios[count++] = row->ms / row->estimate_ms;
  }
  return count;
}

/* Prints a line for each algorithm, at its first measured row: as many ratios follow this row as there are in all. */
static void print_accuracy(const gconv_bench *bench) {
  GCONV_FREED double *ratios = calloc(bench->count + 1, sizeof *ratios);
  fprintf(bench->out, "\nmeasured / estimated, from the least over the median to the most:\n");
  for (size_t i = 0; i < bench->count && ratios; i++) {
    const char *algorithm = bench->rows[i].algorithm;
    const size_t count = list_ratios(bench, i, algorithm, ratios);
    if (bench->rows[i].obstacle[0] != '\0' || list_ratios(bench, 0, algorithm, ratios) > count)
      continue;
    const double median = gconv_bench_median(ratios, (int)count); /* this sorts the ratios */
    fprintf(bench->out, "  %-13s %5.2f %5.2f %5.2f  of %zu\n", algorithm, ratios[0], median, ratios[count - 1], count);
  }
}

gconv_status gconv_bench_auto(gconv_bench *bench) {
  tally all = {.worst = 0};
  bench->user = &all;
  fprintf(bench->out, "%-34s %-20s %-13s %9s %-13s %6s   measured/estimated ms of all\n", "image", "filter", "best", "ms",
          "auto", "ratio");
  gconv_status status = gconv_bench_walk(bench, visit);
  bool good = (double)all.near >= NEARLY_ALL * (double)all.points && all.worst <= WORST;
  print_accuracy(bench);
  if (all.points > 0)
    fprintf(bench->out, "auto within %.0f%% of the best on %zu of %zu points (%.1f%%); worst %.2f: %s\n", 100 * (NEAR - 1),
            all.near, all.points, 100 * (double)all.near / (double)all.points, all.worst, all.worst_point);
  bench->failed |= !good;
  bench->user = NULL;
  return status;
}

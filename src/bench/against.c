/* SPDX-License-Identifier: MIT */
/* bench --against: a second device, on which experiments with layers are measured too. Each layer has one row for it, by the
 * algorithm that auto chooses there. Like all times of bench, these are without transfers. */
#include "bench/settings.h"

#include <math.h>
#include <string.h>

gconv_status gconv_bench_open_other(gconv_bench *bench) {
  const char *name = bench->settings->against;
  if (!name)
    return GCONV_OK;
  gconv_status status = gconv_device_open(name, bench->threads, &bench->other);
  if (status != GCONV_OK) {
    gconv_bench_say(bench, "note: --against %s is left out: %s", name, gconv_last_error());
    return status == GCONV_UNSUPPORTED ? GCONV_OK : status;
  }
  if (strcmp(gconv_device_get_info(bench->other)->name, gconv_device_get_info(bench->device)->name) == 0)
    gconv_bench_say(bench, "note: --against %s: both devices are %s; gconv devices lists GPUs", name,
                    gconv_device_get_info(bench->device)->name);
  return GCONV_OK;
}

bool gconv_bench_measure_other(gconv_bench *bench, const gconv_bench_layer *data, gconv_layer_padding padding,
                               const gconv_bench_row *shape) {
  gconv_device *own = bench->device;
  gconv_bench_row row = *shape;
  if (!bench->other || shape->workspace_mib > 0) /* rows with a workspace compare algorithms, not devices */
    return false;
  row.algorithm = "auto";
  row.against = true;
  bench->device = bench->other;
  gconv_bench_measure_layer(bench, data, padding, &row);
  bench->device = own;
  gconv_bench_keep(bench, &row);
  return true;
}

const char *gconv_bench_device_of(const gconv_bench *bench, const gconv_bench_row *row) {
  return gconv_device_get_info(row->against ? bench->other : bench->device)->name;
}

/* Returns the best time at a place of the group, on one of the devices; HUGE_VAL: there is none. */
static double best_at(const gconv_bench *bench, size_t first, double place, bool against) {
  double best = HUGE_VAL;
  for (size_t i = first; i < bench->count && strcmp(bench->rows[i].group, bench->rows[first].group) == 0; i++) {
    const gconv_bench_row *row = &bench->rows[i];
    if (row->place == place && row->against == against && row->obstacle[0] == '\0')
      best = fmin(best, row->ms);
  }
  return best;
}

bool gconv_bench_overtakes(const gconv_bench *bench, size_t first, double *from) {
  bool any = false;
  *from = HUGE_VAL;
  for (size_t i = first; i < bench->count && strcmp(bench->rows[i].group, bench->rows[first].group) == 0; i++) {
    const double place = bench->rows[i].place;
    const double own = best_at(bench, first, place, false), other = best_at(bench, first, place, true);
    if (own == HUGE_VAL || other == HUGE_VAL)
      continue;
    any = true;
    *from = own < other ? fmin(*from, place) : HUGE_VAL;
  }
  return any;
}

void gconv_bench_report_overtaking(const gconv_bench *bench) {
  const gconv_bench_settings *settings = bench->settings;
  for (size_t i = 0; i < bench->count && bench->other && !settings->json; i++) {
    const gconv_bench_row *row = &bench->rows[i];
    double from;
    char text[256], titled[48];
    if ((i > 0 && strcmp(row->group, row[-1].group) == 0) || !gconv_bench_overtakes(bench, i, &from))
      continue;
    const int title = (int)strcspn(row->filter, " "); /* "batch" of "batch 4": the quantity along x */
    snprintf(titled, sizeof titled, "%.*s %.0f", title, row->filter, from);
    snprintf(text, sizeof text, "%s: %s is %s%s%s", row->group, gconv_device_get_info(bench->device)->name,
             from < HUGE_VAL ? "faster than --against from " : "not faster than --against", from < HUGE_VAL ? titled : "",
             from < HUGE_VAL ? " on" : "");
    if (settings->csv)
      gconv_bench_say(bench, "%s", text);
    else
      fprintf(bench->out, "\n%s\n", text);
  }
}

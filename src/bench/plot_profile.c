/* SPDX-License-Identifier: MIT */
/* Draws profiles: a panel for each kind of figure, with a line for each row. The occupancy by registers, threads of a block
 * and shared memory is computed from the longest kernel of each row. */
#include "bench/bench.h"
#include "bench/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 160 }; /* of a row */

/* Returns a row's method. If times are drawn against another method's, row->line names both. */
static const char *method_of(const gconv_bench_row *row) {
  return row->line[0] && row->drawn == 0 ? row->line : row->algorithm;
}

/* A row's line: its method, and what differs from other rows of the same method. */
static void name_series(const gconv_bench *bench, const gconv_bench_row *row, char *name, size_t size) {
  const char *own = method_of(row);
  bool filters = false, groups = false;
  for (const gconv_bench_row *other = bench->rows; other < bench->rows + bench->count; other++) {
    const bool same = strcmp(method_of(other), own) == 0;
    filters |= same && strcmp(other->filter, row->filter) != 0;
    groups |= same && strcmp(other->group, row->group) != 0;
  }
  snprintf(name, size, "%s%s%s%s%s", own, filters ? ", " : "", filters ? row->filter : "", groups ? ", " : "",
           groups ? row->group : "");
}

/* The panels of one row. */
typedef struct drawing {
  gconv_plot *plot;
  const gconv_bench *bench;
  const gconv_bench_row *row;
  char series[224];
} drawing;

static void add(const drawing *d, const char *panel, const char *label, double y) {
  if (isnan(y))
    return;
  gconv_plot_point *at = &d->plot->points[d->plot->count++];
  snprintf(at->panel, sizeof at->panel, "%s", panel);
  snprintf(at->series, sizeof at->series, "%s", d->series);
  snprintf(at->label, sizeof at->label, "%s", label);
  at->y = y;
}

static double share_of(const gconv_profile *profile, const char *reason) {
  for (int i = 0; i < GCONV_PROFILE_REASONS; i++)
    if (strcmp(profile->stalls[i].reason, reason) == 0)
      return 100 * profile->stalls[i].share;
  return 0;
}

/* The labels are the reasons of all rows, the same for each row. */
static void add_stalls(const drawing *d) {
  const gconv_bench *bench = d->bench;
  static const char panel[] = "waiting for: % of the time of warps";
  for (size_t i = 0; i < bench->count; i++)
    for (int k = 0; k < GCONV_PROFILE_REASONS; k++) {
      const char *reason = bench->rows[i].profile.stalls[k].reason;
      bool seen = reason[0] == '\0';
      for (size_t j = 0; j < i && !seen; j++)
        for (int l = 0; l < GCONV_PROFILE_REASONS; l++)
          seen |= strcmp(bench->rows[j].profile.stalls[l].reason, reason) == 0;
      if (!seen)
        add(d, panel, reason, share_of(&d->row->profile, reason));
    }
}

static void add_row(const drawing *d, int drawn) {
  const gconv_profile *profile = &d->row->profile;
  const gconv_kernel_launch *kernel = &profile->kernel;
  const bool known = kernel->ms > 0;
  if (drawn & GCONV_DRAW_BUSY) {
    add(d, "busy: % of the peak", "units", 100 * profile->units);
    add(d, "busy: % of the peak", "memory", 100 * profile->memory);
  }
  for (size_t i = 0; drawn & GCONV_DRAW_INSTRUCTIONS && i < GCONV_PROFILE_KIND_COUNT; i++)
    add(d, "millions of instructions of warps", gconv_bench_kind_name(i), profile->kinds[i] * 1e-6);
  if (drawn & GCONV_DRAW_WAITS)
    add_stalls(d);
  for (size_t i = 0; drawn & GCONV_DRAW_BYTES && i < GCONV_PROFILE_PATH_COUNT; i++)
    add(d, "MB", gconv_bench_path_name(i), profile->bytes[i] * 1e-6);
  if (drawn & GCONV_DRAW_WARPS) {
    add(d, "warps: % of the most", "resident", 100 * profile->occupancy);
    add(d, "warps: % of the most", "that fit", known ? 100 * profile->theoretical : NAN);
    add(d, "the longest kernel", "registers of a thread", known ? kernel->registers : NAN);
    add(d, "the longest kernel", "shared KB of a block", known ? kernel->shared / 1024.0 : NAN);
  }
  if (drawn & GCONV_DRAW_ENERGY)
    add(d, "J of an execution", "the whole GPU", profile->joules);
}

/* Adds the occupancy with other numbers of registers, threads, or bytes of shared memory. Every eighth step has a label. */
static void add_occupancy(const drawing *d) {
  enum { STEPS = 32, LABELLED = 8 };
  const gconv_kernel_launch *k = &d->row->profile.kernel;
  const gconv_occupancy_limits *limits = &d->row->profile.limits;
  for (int i = 1; i <= STEPS && k->ms > 0; i++) {
    const int registers = 8 * i, threads = 32 * i, shared = limits->shared / STEPS * i - limits->reserved;
    const double parts[] = {gconv_occupancy(limits, registers, k->threads, k->shared),
                            gconv_occupancy(limits, k->registers, threads, k->shared),
                            gconv_occupancy(limits, k->registers, k->threads, shared)};
    const int numbers[] = {registers, threads, shared >> 10};
    static const char *const panels[] = {"by registers of a thread: % of the warps", "by threads of a block: % of the warps",
                                         "by KB of shared memory: % of the warps"};
    for (size_t panel = 0; panel < sizeof panels / sizeof *panels; panel++) {
      char text[24] = "";
      if (i % LABELLED == 0)
        snprintf(text, sizeof text, "%d", numbers[panel]);
      add(d, panels[panel], text, 100 * parts[panel]);
    }
  }
}

gconv_status gconv_bench_plot_profiles(const gconv_bench *bench, const char *file, int drawn) {
  gconv_plot p = {.file = file,
                  .axes = "set yrange [0:*]\nset xtics rotate by -45\n",
                  .labels = true,
                  .points = calloc(bench->count * MOST_POINTS + 1, sizeof *p.points)};
  GCONV_NEED_MEMORY(p.points, "out of memory");
  snprintf(p.title, sizeof p.title, "gconv on %s", gconv_device_get_info(bench->device)->description);
  for (size_t i = 0; i < bench->count; i++)
    if (bench->rows[i].profile.known) {
      drawing d = {.plot = &p, .bench = bench, .row = &bench->rows[i]};
      name_series(bench, d.row, d.series, sizeof d.series);
      add_row(&d, drawn);
      if (drawn & GCONV_DRAW_OCCUPANCY)
        add_occupancy(&d);
    }
  const gconv_status status = gconv_plot_draw(&p);
  free(p.points);
  return status;
}

gconv_status gconv_bench_draw(const gconv_bench *bench, const char *axes, const char *file, bool profiles) {
  char path[1024];
  const int stem = (int)(strlen(file) - strlen(".svg"));
  const gconv_status status = gconv_bench_plot(bench, axes, file);
  if (!profiles)
    return status;
  if (status != GCONV_OK) /* without gnuplot, both scripts are left */
    gconv_bench_say(bench, "%s", gconv_last_error());
  snprintf(path, sizeof path, "%.*s-profile%s", stem, file, file + stem);
  const gconv_status also = gconv_bench_plot_profiles(bench, path, GCONV_DRAW_PROFILE);
  return status != GCONV_OK ? status : also;
}

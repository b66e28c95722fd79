/* SPDX-License-Identifier: MIT */
/* Draws profiles: how busy units and memories were, instructions by kind, what warps waited for, bytes between memories.
 * Also draws occupancy by registers, threads of a block and shared memory, computed from the longest kernel of each row. */
#include "bench/bench.h"
#include "bench/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 160 }; /* of a row */

static void add(gconv_plot *p, const gconv_bench_row *row, const char *panel, const char *label, double x, double y) {
  if (isnan(y))
    return;
  gconv_plot_point *at = &p->points[p->count++];
  snprintf(at->panel, sizeof at->panel, "%s", panel);
  snprintf(at->series, sizeof at->series, "%s", row->line[0] ? row->line : row->algorithm);
  snprintf(at->label, sizeof at->label, "%s", label);
  at->x = x;
  at->y = y;
}

static double share_of(const gconv_profile *profile, const char *reason) {
  for (int i = 0; i < GCONV_PROFILE_REASONS; i++)
    if (strcmp(profile->stalls[i].reason, reason) == 0)
      return 100 * profile->stalls[i].share;
  return 0;
}

/* The labels are the reasons of all rows, the same for each row. */
static void add_stalls(gconv_plot *p, const gconv_bench *bench, const gconv_bench_row *row) {
  static const char panel[] = "waiting for: % of the time of warps";
  for (size_t i = 0; i < bench->count; i++)
    for (int k = 0; k < GCONV_PROFILE_REASONS; k++) {
      const char *reason = bench->rows[i].profile.stalls[k].reason;
      bool seen = reason[0] == '\0';
      for (size_t j = 0; j < i && !seen; j++)
        for (int l = 0; l < GCONV_PROFILE_REASONS; l++)
          seen |= strcmp(bench->rows[j].profile.stalls[l].reason, reason) == 0;
      if (!seen)
        add(p, row, panel, reason, 0, share_of(&row->profile, reason));
    }
}

static void add_row(gconv_plot *p, const gconv_bench *bench, const gconv_bench_row *row) {
  const gconv_profile *profile = &row->profile;
  add(p, row, "busy: % of the peak", "units", 0, 100 * profile->units);
  add(p, row, "busy: % of the peak", "memory", 0, 100 * profile->memory);
  for (size_t i = 0; i < GCONV_PROFILE_KIND_COUNT; i++)
    add(p, row, "millions of instructions of warps", gconv_bench_kind_name(i), 0, profile->kinds[i] * 1e-6);
  add_stalls(p, bench, row);
  for (size_t i = 0; i < GCONV_PROFILE_PATH_COUNT; i++)
    add(p, row, "MB", gconv_bench_path_name(i), 0, profile->bytes[i] * 1e-6);
}

/* Adds the occupancy with other numbers of registers, threads, or bytes of shared memory. Every eighth step has a label. */
static void add_occupancy(gconv_plot *p, const gconv_bench_row *row) {
  enum { STEPS = 32, LABELLED = 8 };
  const gconv_kernel_launch *k = &row->profile.kernel;
  const gconv_occupancy_limits *limits = &row->profile.limits;
  for (int i = 1; i <= STEPS && k->ms > 0; i++) {
    const int registers = 8 * i, threads = 32 * i, shared = limits->shared / STEPS * i - limits->reserved;
    const double parts[] = {gconv_occupancy(limits, registers, k->threads, k->shared),
                            gconv_occupancy(limits, k->registers, threads, k->shared),
                            gconv_occupancy(limits, k->registers, k->threads, shared)};
    const int numbers[] = {registers, threads, shared >> 10};
    static const char *const panels[] = {"by registers of a thread: % of the warps", "by threads of a block: % of the warps",
                                         "by KB of shared memory of a block: % of the warps"};
    for (size_t panel = 0; panel < sizeof panels / sizeof *panels; panel++) {
      char text[24] = "";
      if (i % LABELLED == 0)
        snprintf(text, sizeof text, "%d", numbers[panel]);
      add(p, row, panels[panel], text, 0, 100 * parts[panel]);
    }
  }
}

gconv_status gconv_bench_plot_profiles(const gconv_bench *bench, const char *file, bool occupancy) {
  gconv_plot p = {.file = file,
                  .axes = "set yrange [0:*]\nset xtics rotate by -45\n",
                  .labels = true,
                  .points = calloc(bench->count * MOST_POINTS + 1, sizeof *p.points)};
  GCONV_NEED_MEMORY(p.points, "out of memory");
  snprintf(p.title, sizeof p.title, "gconv on %s", gconv_device_get_info(bench->device)->description);
  for (size_t i = 0; i < bench->count; i++)
    if (bench->rows[i].profile.known && occupancy)
      add_occupancy(&p, &bench->rows[i]);
    else if (bench->rows[i].profile.known)
      add_row(&p, bench, &bench->rows[i]);
  const gconv_status status = gconv_plot_draw(&p);
  free(p.points);
  return status;
}

gconv_status gconv_bench_draw(const gconv_bench *bench, const char *axes, const char *file, bool profiles) {
  char path[1024];
  const int stem = (int)(strlen(file) - strlen(".svg"));
  GCONV_TRY(gconv_bench_plot(bench, axes));
  snprintf(path, sizeof path, "%.*s-profile%s", stem, file, file + stem);
  return profiles ? gconv_bench_plot_profiles(bench, path, false) : GCONV_OK;
}

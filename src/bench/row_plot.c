/* SPDX-License-Identifier: MIT */
/* What a plot shows of the rows: times against what varies along x, a line for each algorithm and whatever else varies. */
#include "bench/bench.h"
#include "bench/plot.h"

#include <math.h>
#include <string.h>

/* What differs between rows, in other directions than that of x. */
typedef struct directions {
  bool images, types, filters, blocks, grids;
} directions;

static directions find_directions(const gconv_bench *bench, gconv_bench_plot_kind kind) {
  directions several = {false};
  for (size_t i = 1; i < bench->count; i++) {
    const gconv_bench_row *a = &bench->rows[0], *b = &bench->rows[i];
    several.images |= kind != GCONV_PLOT_IMAGE && memcmp(&a->image, &b->image, sizeof a->image) != 0;
    several.types |= a->type != b->type;
    several.blocks |= kind != GCONV_PLOT_BLOCK && memcmp(&a->block, &b->block, sizeof a->block) != 0;
    several.grids |= kind != GCONV_PLOT_GRID && a->grid != b->grid;
    several.filters |= kind != GCONV_PLOT_FILTER && kind != GCONV_PLOT_ROOFLINE && strcmp(a->filter, b->filter) != 0;
  }
  return several;
}

static void name_series(const directions *several, const gconv_bench_row *row, char *title, size_t size) {
  size_t used = (size_t)snprintf(title, size, "%s", row->algorithm);
  if (several->images)
    used += (size_t)snprintf(title + used, size - used, " %dx%dx%d%s", row->image.width, row->image.height,
                             row->image.channels, row->image.planar ? " planes" : "");
  if (several->types)
    used += (size_t)snprintf(title + used, size - used, " %s", gconv_type_name(row->type));
  if (several->blocks && row->block.width > 0)
    used += (size_t)snprintf(title + used, size - used, " %dx%d", row->block.width, row->block.height);
  if (several->grids && row->grid > 0)
    used += (size_t)snprintf(title + used, size - used, " grid %d", row->grid);
  if (several->filters)
    snprintf(title + used, size - used, " %s", row->filter);
}

static void place_point(gconv_bench_plot_kind kind, const gconv_bench_row *row, gconv_plot_point *point) {
  point->y = row->ms;
  point->x = kind == GCONV_PLOT_IMAGE ? row->samples : sqrt((double)row->rows * row->columns);
  if (kind == GCONV_PLOT_ROOFLINE) {
    point->x = row->flop / row->bytes;
    point->y = row->flop / row->ms * 1e-9;
  }
  if (kind == GCONV_PLOT_BLOCK)
    snprintf(point->label, sizeof point->label, "%dx%d", row->block.width, row->block.height);
  else
    snprintf(point->label, sizeof point->label, "%d", row->grid);
}

gconv_status gconv_bench_plot(const gconv_bench *bench, const char *axes) {
  static const char *const axes_of[] = {
      [GCONV_PLOT_FILTER] = "set xlabel 'size of the filter'\nset ylabel 'ms'\nset logscale xy\n"
                            "set xtics (3,5,7,9,11,15,21,31,63,127,255,511,1025)\n",
      [GCONV_PLOT_IMAGE] = "set xlabel 'samples of the image'\nset ylabel 'ms'\nset logscale xy\nset format x '%.0s %c'\n",
      [GCONV_PLOT_BLOCK] = "set xlabel 'threads of a block'\nset ylabel 'ms'\nset yrange [0:*]\nset xtics rotate by -45\n",
      [GCONV_PLOT_GRID] = "set xlabel 'blocks of the grid'\nset ylabel 'ms'\nset logscale y\nset xtics rotate by -45\n",
      [GCONV_PLOT_ROOFLINE] = "set xlabel 'flop a byte (input read once, output written once)'\nset ylabel 'TFLOP/s'\n"
                              "set logscale xy\n",
  };
  gconv_bench_plot_kind kind =
      bench->settings->plot_kind < 0 ? GCONV_PLOT_FILTER : (gconv_bench_plot_kind)bench->settings->plot_kind;
  gconv_plot plot = {.file = bench->settings->plot,
                     .axes = axes ? axes : axes_of[kind],
                     .labels = kind == GCONV_PLOT_BLOCK || kind == GCONV_PLOT_GRID};
  directions several = find_directions(bench, kind);
  gconv_status status = GCONV_OK;
  snprintf(plot.title, sizeof plot.title, "gconv on %s", gconv_device_get_info(bench->device)->description);
  if (kind == GCONV_PLOT_ROOFLINE) {
    plot.slope = bench->machine.bytes_per_ms * 1e-9;
    plot.roof = bench->machine.fma_per_ms * 2e-9;
  }
  for (size_t i = 0; i < bench->count && status == GCONV_OK; i++) {
    const gconv_bench_row *row = &bench->rows[i];
    gconv_plot_point point = {.x = 0};
    if (row->obstacle[0] != '\0')
      continue;
    if (axes) { /* a panel for each group, a line for each algorithm */
      several = (directions){false};
      point.x = row->place;
      point.y = row->ms;
    } else {
      place_point(kind, row, &point);
    }
    name_series(&several, row, point.series, sizeof point.series);
    if (!several.images && !several.types && kind != GCONV_PLOT_IMAGE)
      snprintf(point.panel, sizeof point.panel, "%s", row->group);
    status = gconv_plot_add(&plot, &point);
  }
  gconv_status drawn = gconv_plot_draw(&plot);
  return status == GCONV_OK ? drawn : status;
}

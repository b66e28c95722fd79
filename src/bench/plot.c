/* SPDX-License-Identifier: MIT */
/*
 * Plots times over a quantity such as the size of the filter. Each algorithm has a line. If measurements also differ in
 * other properties, each combination has a line. A script with all data goes to gnuplot. Without gnuplot, the script is left
 * beside the picture that it would draw.
 */
#include "bench/plot.h"
#include "base/ending.h"
#include "bench/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef gconv_plot_point point;
typedef gconv_plot plot;

/* ---- Panels and series ------------------------------------------------------------------------------------------------ */

static void find_firsts(plot *p) {
  size_t series = 0;
  for (size_t i = 0; i < p->count; i++) {
    point *at = &p->points[i];
    at->of_panel = at->of_series = at->of_line = i;
    for (size_t k = i; k-- > 0;) {
      const bool panel = strcmp(p->points[k].panel, at->panel) == 0, same = strcmp(p->points[k].series, at->series) == 0;
      at->of_panel = panel ? k : at->of_panel;
      at->of_series = same ? k : at->of_series;
      at->of_line = panel && same ? k : at->of_line;
    }
    at->number = at->of_series == i ? ++series : p->points[at->of_series].number;
  }
}

/* ---- The script ------------------------------------------------------------------------------------------------------- */

/* Prints the text in single quotes. In these, gnuplot has no escapes but the doubled quote. */
static void print_quoted(FILE *out, const char *before, const char *text, const char *after) {
  fprintf(out, "%s'", before);
  for (; *text; text++)
    fputs(*text == '\'' ? "''" : (char[]){*text, '\0'}, out);
  fprintf(out, "'%s", after);
}

static void print_series(FILE *out, const plot *p, size_t first) {
  fprintf(out, "$series%zu << EOD\n", first);
  for (size_t i = first; i < p->count; i++) {
    const point *at = &p->points[i];
    if (at->of_line == first && p->labels)
      fprintf(out, "\"%s\" %g\n", at->label, at->y);
    else if (at->of_line == first)
      fprintf(out, "%g %g\n", at->x, at->y);
  }
  fprintf(out, "EOD\n");
}

/* Prints a panel. The key of a series is in its first panel only: other panels have no room for it. */
static void print_panel(FILE *out, const plot *p, size_t first) {
  const char *before = "plot ";
  for (size_t i = first; i < p->count; i++)
    if (p->points[i].of_panel == first && p->points[i].of_line == i)
      print_series(out, p, i);
  if (p->roof > 0) {
    fprintf(out, "roof(x) = x * %g < %g ? x * %g : %g\n", p->slope, p->roof, p->slope, p->roof);
    fprintf(out, "%sroof(x) with lines lw 2 lc rgb 'black' title 'roof'", before);
    before = ", \\\n  ";
  }
  for (size_t i = first; i < p->count; i++) {
    const point *at = &p->points[i];
    if (at->of_panel != first || at->of_line != i)
      continue;
    fprintf(out, "%s$series%zu using %s with linespoints lt %zu pt %zu", before, i, p->labels ? "0:2:xtic(1)" : "1:2",
            at->number, (at->number - 1) % 13 + 1);
    print_quoted(out, " title ", at->of_series == i ? at->series : "", " noenhanced");
    before = ", \\\n  ";
  }
  fputc('\n', out);
}

/* Prints the script. Panels stand in rows of up to 4. */
static void print_script(FILE *out, const plot *p, const char *path) {
  int panels = 0;
  for (size_t i = 0; i < p->count; i++)
    panels += p->points[i].of_panel == i;
  int columns = panels < 1 ? 1 : panels > 4 ? 4 : panels, rows = (panels + columns - 1) / columns;
  char size[48];
  const int wide = panels == 1 ? 1000 : panels == 2 ? 620 : 420, high = panels == 1 ? 640 : panels == 2 ? 440 : 330;
  snprintf(size, sizeof size, "size %d,%d", wide * columns, high * rows);
  if (gconv_ends_in(p->file, ".svg"))
    fprintf(out, "set terminal svg %s background rgb 'white'\n", size);
  else
    fprintf(out, "if (strstrt(GPVAL_TERMINALS, ' pngcairo ')) set terminal pngcairo %s; else set terminal png %s\n", size,
            size);
  print_quoted(out, "set output ", path, "\n");
  fputs("set linetype 5 linecolor rgb '#7f7f7f'\nset grid\n", out); /* instead of yellow, which is hard to see on white */
  fprintf(out, "set multiplot layout %d,%d", rows, columns);
  print_quoted(out, " title ", p->title, " noenhanced\n");
  fprintf(out, "set key %s\n%s", panels == 1 ? "outside right" : "right bottom font ',8' samplen 1", p->axes);
  for (size_t i = 0; i < p->count; i++)
    if (p->points[i].of_panel == i) {
      print_quoted(out, "set title ", p->points[i].panel, " noenhanced\n");
      print_panel(out, p, i);
    }
  fprintf(out, "unset multiplot\n");
}

/* ---- Drawing ---------------------------------------------------------------------------------------------------------- */

gconv_status gconv_bench_check_plot(const char *file) {
  if (!file || (strlen(file) < 1000 && (gconv_ends_in(file, ".svg") || gconv_ends_in(file, ".png"))))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "--plot %s: the name must end with .svg or .png, within 1000 bytes", file);
}

/* Opens a new or existing file of this name, but follows no link. NULL, with errno, after a failure. */
static FILE *open_script(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
  if (!out && file >= 0)
    close(file);
  return out;
}

/* Leaves the script beside the picture that it would draw, for users who have gnuplot elsewhere. */
static gconv_status leave_script(const plot *p) {
  char path[1024];
  snprintf(path, sizeof path, "%s.gp", p->file);
  FILE *out = open_script(path);
  if (out)
    print_script(out, p, p->file);
  if (!out || fclose(out) != 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot write: %s", path, strerror(errno));
  return gconv_fail(GCONV_UNSUPPORTED, "there is no gnuplot here: %s draws %s where there is", path, p->file);
}

/* Draws into a new file, FILE.part, and renames it to FILE. */
static gconv_status run_gnuplot(const plot *p) {
  char part[1024];
  snprintf(part, sizeof part, "%s.part", p->file);
  unlink(part);
  int file = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot write there: %s", p->file, strerror(errno));
  close(file);
  FILE *gnuplot = popen("gnuplot", "we");
  if (gnuplot)
    print_script(gnuplot, p, part);
  int status = gnuplot ? pclose(gnuplot) : -1;
  if (status == 0 && rename(part, p->file) == 0)
    return GCONV_OK;
  unlink(part);
  return gconv_fail(GCONV_IO_ERROR, "%s: gnuplot could not draw it", p->file);
}

gconv_status gconv_plot_draw(plot *p) {
  find_firsts(p);
  if (p->count == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: nothing was measured that could be drawn", p->file);
  return system("command -v gnuplot > /dev/null 2>&1") == 0 ? run_gnuplot(p) : leave_script(p);
}

/* ---- The points ------------------------------------------------------------------------------------------------------- */

/* The properties, besides x, in which rows differ. */
typedef struct differences {
  bool images, types, filters, blocks, grids;
} differences;

static differences find_differences(const gconv_bench *bench, gconv_bench_plot_kind kind) {
  differences several = {false};
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

static void name_series(const gconv_bench *bench, const differences *several, const gconv_bench_row *row, char *title,
                        size_t size) {
  const char *own = row->against ? gconv_bench_device_of(bench, row) : row->line[0] ? row->line : row->algorithm;
  size_t used = (size_t)snprintf(title, size, "%s", own);
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

static void place_point(gconv_bench_plot_kind kind, const gconv_bench_row *row, point *at) {
  at->y = row->ms;
  at->x = kind == GCONV_PLOT_IMAGE ? row->samples : sqrt((double)row->rows * row->columns);
  if (kind == GCONV_PLOT_ROOFLINE) {
    at->x = row->flop / row->bytes;
    at->y = row->flop / row->ms * 1e-9;
  }
  if (kind == GCONV_PLOT_BLOCK)
    snprintf(at->label, sizeof at->label, "%dx%d", row->block.width, row->block.height);
  else
    snprintf(at->label, sizeof at->label, "%d", row->grid);
}

/* Draws a row that holds for any x as a level line: moves its point to the left end, and adds a point at the right end. */
static void draw_everywhere(const gconv_bench *bench, plot *p, size_t number) {
  double least = HUGE_VAL, most = -HUGE_VAL;
  for (size_t i = 0; i < bench->count; i++)
    if (!bench->rows[i].everywhere) {
      least = fmin(least, bench->rows[i].place);
      most = fmax(most, bench->rows[i].place);
    }
  if (least > most)
    return;
  p->points[p->count] = p->points[number];
  p->points[number].x = least;
  p->points[p->count++].x = most;
}

gconv_status gconv_bench_plot(const gconv_bench *bench, const char *axes, const char *file) {
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
      axes || bench->settings->plot_kind < 0 ? GCONV_PLOT_FILTER : (gconv_bench_plot_kind)bench->settings->plot_kind;
  /* With axes of its own, an experiment has a panel for each group. So lines need no names of what differs. */
  differences several = {false};
  if (!axes)
    several = find_differences(bench, kind);
  plot p = {.file = file,
            .axes = axes ? axes : axes_of[kind],
            .labels = !axes && (kind == GCONV_PLOT_BLOCK || kind == GCONV_PLOT_GRID),
            .points = calloc(2 * bench->count + 1, sizeof *p.points)};
  GCONV_NEED_MEMORY(p.points, "out of memory");
  snprintf(p.title, sizeof p.title, "gconv on %s", gconv_device_get_info(bench->device)->description);
  if (kind == GCONV_PLOT_ROOFLINE) {
    p.slope = bench->machine.bytes_per_ms * 1e-9;
    p.roof = bench->machine.fma_per_ms * 2e-9;
  }
  for (size_t i = 0; i < bench->count; i++) {
    const gconv_bench_row *row = &bench->rows[i];
    point *at = &p.points[p.count];
    if (row->obstacle[0] != '\0' || row->drawn < 0)
      continue;
    p.count++;
    place_point(kind, row, at);
    if (axes) {
      at->x = row->place;
      at->y = row->drawn > 0        ? row->drawn
              : row->share > 0      ? 100 * row->share
              : row->draws_speed_up ? row->speed_up
              : row->rate > 0       ? row->rate * row->items / row->ms
                                    : row->ms;
    }
    name_series(bench, &several, row, at->series, sizeof at->series);
    if (!several.images && !several.types && kind != GCONV_PLOT_IMAGE)
      snprintf(at->panel, sizeof at->panel, "%s", row->group);
    if (row->everywhere)
      draw_everywhere(bench, &p, (size_t)(at - p.points));
  }
  gconv_status status = gconv_plot_draw(&p);
  free(p.points);
  return status;
}

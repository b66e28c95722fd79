/* SPDX-License-Identifier: MIT */
/*
 * A script of gnuplot with its data inside is written into gnuplot. Where there is none, the script is left beside the
 * picture that it would draw.
 */
#include "bench/plot.h"
#include "base/status.h"
#include "batch/texts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gconv_status gconv_plot_add(gconv_plot *plot, const gconv_plot_point *point) {
  gconv_plot_point *points = gconv_grown(plot->points, plot->count, sizeof *points);
  if (!points)
    return gconv_fail(GCONV_NO_MEMORY, "out of memory");
  plot->points = points;
  points[plot->count++] = *point;
  return GCONV_OK;
}

/* ---- Panels and series ------------------------------------------------------------------------------------------------ */

static bool same_panel(const gconv_plot_point *a, const gconv_plot_point *b) {
  return strcmp(a->panel, b->panel) == 0;
}

static bool same_series(const gconv_plot_point *a, const gconv_plot_point *b) {
  return strcmp(a->series, b->series) == 0;
}

static bool begins_panel(const gconv_plot *plot, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (same_panel(&plot->points[i], &plot->points[index]))
      return false;
  return true;
}

/* Whether the point is the first of its series, in its panel or, with `anywhere`, of all. */
static bool begins_series(const gconv_plot *plot, size_t index, bool anywhere) {
  const gconv_plot_point *point = &plot->points[index];
  for (size_t i = 0; i < index; i++)
    if (same_series(&plot->points[i], point) && (anywhere || same_panel(&plot->points[i], point)))
      return false;
  return true;
}

/* The colour and sign of a series: the same in all panels. */
static size_t number_of(const gconv_plot *plot, const gconv_plot_point *point) {
  size_t number = 1;
  for (size_t i = 0; !same_series(&plot->points[i], point); i++)
    number += begins_series(plot, i, true);
  return number;
}

/* ---- The script ------------------------------------------------------------------------------------------------------- */

/* Prints the text in single quotes, where gnuplot knows no escapes but the doubled quote. */
static void print_quoted(FILE *out, const char *before, const char *text, const char *after) {
  fprintf(out, "%s'", before);
  for (; *text; text++)
    fputs(*text == '\'' ? "''" : (char[]){*text, '\0'}, out);
  fprintf(out, "'%s", after);
}

static void print_series(FILE *out, const gconv_plot *plot, size_t first) {
  fprintf(out, "$series%zu << EOD\n", first);
  for (size_t i = first; i < plot->count; i++) {
    const gconv_plot_point *point = &plot->points[i];
    if (!same_series(point, &plot->points[first]) || !same_panel(point, &plot->points[first]))
      continue;
    if (plot->labels)
      fprintf(out, "\"%s\" %g\n", point->label, point->y);
    else
      fprintf(out, "%g %g\n", point->x, point->y);
  }
  fprintf(out, "EOD\n");
}

/* A series is in the key of its first panel: there is no room in all of them. */
static void print_panel(FILE *out, const gconv_plot *plot, size_t first) {
  const char *before = "plot ";
  for (size_t i = first; i < plot->count; i++)
    if (same_panel(&plot->points[i], &plot->points[first]) && begins_series(plot, i, false))
      print_series(out, plot, i);
  if (plot->roof > 0) {
    fprintf(out, "roof(x) = x * %g < %g ? x * %g : %g\n", plot->slope, plot->roof, plot->slope, plot->roof);
    fprintf(out, "%sroof(x) with lines lw 2 lc rgb 'black' title 'roof'", before);
    before = ", \\\n  ";
  }
  for (size_t i = first; i < plot->count; i++) {
    if (!same_panel(&plot->points[i], &plot->points[first]) || !begins_series(plot, i, false))
      continue;
    size_t number = number_of(plot, &plot->points[i]);
    fprintf(out, "%s$series%zu using %s with linespoints lt %zu pt %zu", before, i, plot->labels ? "0:2:xtic(1)" : "1:2",
            number, (number - 1) % 13 + 1);
    print_quoted(out, " title ", begins_series(plot, i, true) ? plot->points[i].series : "", " noenhanced");
    before = ", \\\n  ";
  }
  fputc('\n', out);
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length > tail && strcmp(text + length - tail, end) == 0;
}

/* The panels stand in rows of 4 at most. */
static void print_script(FILE *out, const gconv_plot *plot, const char *path) {
  int panels = 0;
  for (size_t i = 0; i < plot->count; i++)
    panels += begins_panel(plot, i);
  int columns = panels < 1 ? 1 : panels > 4 ? 4 : panels, rows = (panels + columns - 1) / columns;
  char size[48];
  snprintf(size, sizeof size, "size %d,%d", panels == 1 ? 1000 : 420 * columns, panels == 1 ? 640 : 330 * rows);
  if (ends_with(plot->file, ".svg"))
    fprintf(out, "set terminal svg %s background rgb 'white'\n", size);
  else
    fprintf(out, "if (strstrt(GPVAL_TERMINALS, ' pngcairo ')) set terminal pngcairo %s; else set terminal png %s\n", size,
            size);
  print_quoted(out, "set output ", path, "\n");
  fputs("set linetype 5 linecolor rgb '#7f7f7f'\nset grid\n", out); /* in place of a yellow that white swallows */
  fprintf(out, "set multiplot layout %d,%d", rows, columns);
  print_quoted(out, " title ", plot->title, " noenhanced\n");
  fprintf(out, "set key %s\n%s", panels == 1 ? "outside right" : "right bottom font ',8' samplen 1", plot->axes);
  for (size_t i = 0; i < plot->count; i++)
    if (begins_panel(plot, i)) {
      print_quoted(out, "set title ", plot->points[i].panel, " noenhanced\n");
      print_panel(out, plot, i);
    }
  fprintf(out, "unset multiplot\n");
}

/* ---- Drawing ---------------------------------------------------------------------------------------------------------- */

gconv_status gconv_plot_check(const char *file) {
  if (!file || ends_with(file, ".svg") || ends_with(file, ".png"))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "--plot %s: the name must end with .svg or .png", file);
}

/* Leaves the script beside the picture that it would draw, for those who have gnuplot elsewhere. */
static gconv_status leave_script(const gconv_plot *plot) {
  char path[1024];
  snprintf(path, sizeof path, "%s.gp", plot->file);
  FILE *out = fopen(path, "we");
  if (out)
    print_script(out, plot, plot->file);
  if (!out || fclose(out) != 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot write: %s", path, strerror(errno));
  return gconv_fail(GCONV_UNSUPPORTED, "there is no gnuplot here: %s draws %s where there is", path, plot->file);
}

/* The picture is drawn into a file beside it, which is then renamed. */
static gconv_status run_gnuplot(const gconv_plot *plot) {
  char part[1024];
  snprintf(part, sizeof part, "%s.part", plot->file);
  FILE *gnuplot = popen("gnuplot", "we");
  if (gnuplot)
    print_script(gnuplot, plot, part);
  int status = gnuplot ? pclose(gnuplot) : -1;
  if (status == 0 && rename(part, plot->file) == 0)
    return GCONV_OK;
  unlink(part);
  return gconv_fail(GCONV_IO_ERROR, "%s: gnuplot could not draw it", plot->file);
}

gconv_status gconv_plot_draw(gconv_plot *plot) {
  gconv_status status = plot->count == 0
                            ? gconv_fail(GCONV_UNSUPPORTED, "%s: nothing was measured that could be drawn", plot->file)
                        : system("command -v gnuplot > /dev/null 2>&1") == 0 ? run_gnuplot(plot)
                                                                             : leave_script(plot);
  free(plot->points);
  *plot = (gconv_plot){0};
  return status;
}

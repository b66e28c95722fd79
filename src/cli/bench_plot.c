/* SPDX-License-Identifier: MIT */
/*
 * Plots of what was measured, drawn by gnuplot: a script with its data inside is written into it. Where there is no gnuplot,
 * the script is left beside the picture that it would draw.
 */
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/terminal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SERIES = 64 };

/* Rows that a line joins: those of one algorithm, where there are several also of one image and type. */
typedef struct series {
  char title[128];
  size_t first; /* the row that it begins with */
} series;

typedef struct drawing {
  const gconv_bench *bench;
  gconv_bench_plot_kind kind;
  bool images, types, filters, blocks, grids; /* whether there are several, in other directions than that of x */
  series series[MOST_SERIES];
  size_t count;
} drawing;

/* ---- Series ---- */

static bool same_image(const gconv_bench_row *a, const gconv_bench_row *b) {
  return memcmp(&a->image, &b->image, sizeof a->image) == 0;
}

static bool same_block(const gconv_bench_row *a, const gconv_bench_row *b) {
  return a->block.width == b->block.width && a->block.height == b->block.height;
}

static bool same_series(const drawing *plot, const gconv_bench_row *a, const gconv_bench_row *b) {
  return strcmp(a->algorithm, b->algorithm) == 0 && a->type == b->type &&
         (plot->kind == GCONV_PLOT_IMAGE || same_image(a, b)) && (plot->kind == GCONV_PLOT_BLOCK || same_block(a, b)) &&
         (plot->kind == GCONV_PLOT_GRID || a->grid == b->grid) &&
         (plot->kind == GCONV_PLOT_FILTER || plot->kind == GCONV_PLOT_ROOFLINE || strcmp(a->filter, b->filter) == 0);
}

static void find_directions(drawing *plot) {
  const gconv_bench *bench = plot->bench;
  for (size_t i = 1; i < bench->count; i++) {
    const gconv_bench_row *a = &bench->rows[0], *b = &bench->rows[i];
    plot->images |= plot->kind != GCONV_PLOT_IMAGE && !same_image(a, b);
    plot->types |= a->type != b->type;
    plot->blocks |= plot->kind != GCONV_PLOT_BLOCK && !same_block(a, b);
    plot->grids |= plot->kind != GCONV_PLOT_GRID && a->grid != b->grid;
    plot->filters |=
        plot->kind != GCONV_PLOT_FILTER && plot->kind != GCONV_PLOT_ROOFLINE && strcmp(a->filter, b->filter) != 0;
  }
}

static void name_series(const drawing *plot, const gconv_bench_row *row, char *title, size_t size) {
  size_t used = (size_t)snprintf(title, size, "%s", row->algorithm);
  if (plot->images)
    used += (size_t)snprintf(title + used, size - used, " %dx%dx%d%s", row->image.width, row->image.height,
                             row->image.channels, row->image.planar ? " planes" : "");
  if (plot->types)
    used += (size_t)snprintf(title + used, size - used, " %s", gconv_type_name(row->type));
  if (plot->blocks && row->block.width > 0)
    used += (size_t)snprintf(title + used, size - used, " %dx%d", row->block.width, row->block.height);
  if (plot->grids && row->grid > 0)
    used += (size_t)snprintf(title + used, size - used, " grid %d", row->grid);
  if (plot->filters)
    snprintf(title + used, size - used, " %s", row->filter);
}

static void find_series(drawing *plot) {
  for (size_t i = 0; i < plot->bench->count; i++) {
    const gconv_bench_row *row = &plot->bench->rows[i];
    size_t known = 0;
    while (known < plot->count && !same_series(plot, row, &plot->bench->rows[plot->series[known].first]))
      known++;
    if (row->obstacle[0] != '\0' || known < plot->count || plot->count == MOST_SERIES)
      continue;
    plot->series[plot->count].first = i;
    name_series(plot, row, plot->series[plot->count].title, sizeof plot->series[0].title);
    plot->count++;
  }
}

/* ---- The script ---- */

/* Prints the text in single quotes, where gnuplot knows no escapes but the doubled quote. */
void gconv_bench_print_quoted(FILE *out, const char *text) {
  fputc('\'', out);
  for (; *text; text++)
    fputs(*text == '\'' ? "''" : (char[]){*text, '\0'}, out);
  fputc('\'', out);
}

static void print_point(FILE *out, const drawing *plot, const gconv_bench_row *row) {
  switch (plot->kind) {
  case GCONV_PLOT_FILTER:
    fprintf(out, "%g %g\n", sqrt((double)row->rows * row->columns), row->ms);
    break;
  case GCONV_PLOT_IMAGE:
    fprintf(out, "%g %g\n", row->samples, row->ms);
    break;
  case GCONV_PLOT_BLOCK:
    fprintf(out, "\"%dx%d\" %g\n", row->block.width, row->block.height, row->ms);
    break;
  case GCONV_PLOT_GRID:
    fprintf(out, "\"%d\" %g\n", row->grid, row->ms);
    break;
  case GCONV_PLOT_ROOFLINE:
    fprintf(out, "%g %g\n", row->flop / row->bytes, row->flop / row->ms * 1e-9);
    break;
  }
}

static void print_data(FILE *out, const drawing *plot) {
  for (size_t s = 0; s < plot->count; s++) {
    fprintf(out, "$series%zu << EOD\n", s);
    for (size_t i = plot->series[s].first; i < plot->bench->count; i++) {
      const gconv_bench_row *row = &plot->bench->rows[i];
      if (row->obstacle[0] == '\0' && same_series(plot, row, &plot->bench->rows[plot->series[s].first]))
        print_point(out, plot, row);
    }
    fprintf(out, "EOD\n");
  }
}

static void print_title(FILE *out, const drawing *plot) {
  const gconv_bench_row *row = &plot->bench->rows[plot->series[0].first];
  char image[64], title[256];
  gconv_bench_name_image(row, image, sizeof image);
  bool one = !plot->images && !plot->types && plot->kind != GCONV_PLOT_IMAGE;
  snprintf(title, sizeof title, "gconv on %s%s%s", gconv_device_get_info(plot->bench->device)->description, one ? ", " : "",
           one ? image : "");
  fprintf(out, "set title ");
  gconv_bench_print_quoted(out, title);
  fprintf(out, " noenhanced\n");
}

/* What differs between the kinds. */
static void print_axes(FILE *out, const drawing *plot) {
  static const char *const axes[] = {
      [GCONV_PLOT_FILTER] = "set xlabel 'size of the filter'\nset ylabel 'ms'\nset logscale xy\n"
                            "set xtics (3,5,7,9,11,15,21,31,63,127,255,511,1025)\n",
      [GCONV_PLOT_IMAGE] = "set xlabel 'samples of the image'\nset ylabel 'ms'\nset logscale xy\nset format x '%.0s %c'\n",
      [GCONV_PLOT_BLOCK] = "set xlabel 'threads of a block'\nset ylabel 'ms'\nset yrange [0:*]\nset xtics rotate by -45\n",
      [GCONV_PLOT_GRID] = "set xlabel 'blocks of the grid'\nset ylabel 'ms'\nset logscale y\nset xtics rotate by -45\n",
      [GCONV_PLOT_ROOFLINE] = "set xlabel 'flop a byte (input read once, output written once)'\nset ylabel 'TFLOP/s'\n"
                              "set logscale xy\n",
  };
  fputs(axes[plot->kind], out);
  if (plot->kind == GCONV_PLOT_ROOFLINE)
    fprintf(out, "bandwidth = %g\npeak = %g\nroof(x) = x * bandwidth < peak ? x * bandwidth : peak\n",
            plot->bench->machine.bytes_per_ms * 1e-9, plot->bench->machine.fma_per_ms * 2e-9);
}

static void print_curves(FILE *out, const drawing *plot) {
  bool labels = plot->kind == GCONV_PLOT_BLOCK || plot->kind == GCONV_PLOT_GRID, roof = plot->kind == GCONV_PLOT_ROOFLINE;
  fprintf(out, "plot ");
  if (roof)
    fprintf(out, "roof(x) with lines lw 2 lc rgb 'black' title 'roof'");
  for (size_t s = 0; s < plot->count; s++) {
    fprintf(out, "%s$series%zu using %s with linespoints pt %zu title ", s > 0 || roof ? ", \\\n  " : "", s,
            labels ? "0:2:xtic(1)" : "1:2", s % 13 + 1);
    gconv_bench_print_quoted(out, plot->series[s].title);
    fprintf(out, " noenhanced");
  }
  fputc('\n', out);
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length > tail && strcmp(text + length - tail, end) == 0;
}

void gconv_bench_print_terminal(FILE *out, const char *plot, const char *path, int width, int height) {
  char size[48];
  snprintf(size, sizeof size, "size %d,%d", width, height);
  if (ends_with(plot, ".svg"))
    fprintf(out, "set terminal svg %s background rgb 'white'\n", size);
  else
    fprintf(out, "if (strstrt(GPVAL_TERMINALS, ' pngcairo ')) set terminal pngcairo %s; else set terminal png %s\n", size,
            size);
  fprintf(out, "set output ");
  gconv_bench_print_quoted(out, path);
  fputs("\nset linetype 5 linecolor rgb '#7f7f7f'\n", out); /* grey, where gnuplot has a yellow that white swallows */
}

static void print_script(FILE *out, const void *data, const char *path) {
  const drawing *plot = data;
  gconv_bench_print_terminal(out, plot->bench->settings->plot, path, 1000, 640);
  fprintf(out, "set grid\nset key outside right\n");
  print_title(out, plot);
  print_axes(out, plot);
  print_data(out, plot);
  print_curves(out, plot);
}

/* ---- Drawing ---- */

static bool is_there(const char *program) {
  const char *path = getenv("PATH");
  char file[1024];
  while (path && *path) {
    size_t length = strcspn(path, ":");
    snprintf(file, sizeof file, "%.*s/%s", (int)length, path, program);
    if (length > 0 && access(file, X_OK) == 0)
      return true;
    path += length + (path[length] == ':');
  }
  return false;
}

/* Leaves the script beside the picture that it would draw, for those who have gnuplot elsewhere. */
static int leave_script(const char *plot, gconv_bench_script *script, const void *data) {
  char path[1024];
  snprintf(path, sizeof path, "%s.gp", plot);
  FILE *out = fopen(path, "we");
  if (out)
    script(out, data, plot);
  if (!out || fclose(out) != 0) {
    gconv_say("%s: cannot write: %s", path, strerror(errno));
    return GCONV_EXIT_FAILED;
  }
  gconv_say("there is no gnuplot here: %s draws %s where there is", path, plot);
  return GCONV_EXIT_FAILED;
}

/* The picture is drawn into a file beside it, which is then renamed. */
int gconv_bench_draw(const char *plot, gconv_bench_script *script, const void *data) {
  if (!is_there("gnuplot"))
    return leave_script(plot, script, data);
  char part[1024];
  snprintf(part, sizeof part, "%s.part", plot);
  FILE *gnuplot = popen("gnuplot", "we");
  if (gnuplot)
    script(gnuplot, data, part);
  int status = gnuplot ? pclose(gnuplot) : -1;
  if (status == 0 && rename(part, plot) == 0)
    return GCONV_EXIT_OK;
  unlink(part);
  gconv_say("%s: gnuplot could not draw it", plot);
  return GCONV_EXIT_FAILED;
}

int gconv_bench_plot(const gconv_bench *bench) {
  drawing plot = {.bench = bench,
                  .kind = (gconv_bench_plot_kind)(bench->settings->plot_kind < 0 ? 0 : bench->settings->plot_kind)};
  find_directions(&plot);
  find_series(&plot);
  if (plot.count == 0) {
    gconv_say("%s: nothing was measured that could be drawn", bench->settings->plot);
    return GCONV_EXIT_FAILED;
  }
  return gconv_bench_draw(bench->settings->plot, print_script, &plot);
}

gconv_status gconv_bench_check_plot(const gconv_bench_settings *settings, gconv_message *message) {
  if (!settings->plot || ends_with(settings->plot, ".svg") || ends_with(settings->plot, ".png"))
    return GCONV_OK;
  return gconv_complain(message, GCONV_BAD_ARGUMENT, "--plot %s: the name must end with .svg or .png", settings->plot);
}

/* SPDX-License-Identifier: MIT */
/* What experiments tell: rows for people, CSV, JSON, and a plot with a panel for each layer. */
#include "cli/bench_experiments.h"
#include "cli/command.h"
#include "cli/terminal.h"

#include <string.h>

/* Whether all but x and the algorithm is the same. */
static bool is_same_panel(gconv_experiment_axis axis, const gconv_experiment_row *a, const gconv_experiment_row *b) {
  return a->channels == b->channels && a->height == b->height && a->width == b->width && a->filters == b->filters &&
         (axis == GCONV_OVER_BATCH || a->images == b->images) && (axis == GCONV_OVER_SIZE || a->size == b->size) &&
         (axis == GCONV_OVER_WORKSPACE || a->workspace_mib == b->workspace_mib);
}

static int32_t place_of(gconv_experiment_axis axis, const gconv_experiment_row *row) {
  return axis == GCONV_OVER_BATCH ? row->images : axis == GCONV_OVER_SIZE ? row->size : row->workspace_mib;
}

/* "3x128x128, 8 filters 3x3"; with the number of images where that is not x. */
static void name_panel(gconv_experiment_axis axis, const gconv_experiment_row *row, char *text, size_t size) {
  size_t used = 0;
  if (axis != GCONV_OVER_BATCH)
    used = (size_t)snprintf(text, size, "%d x ", row->images);
  used += (size_t)snprintf(text + used, size - used, "%dx%dx%d, %d filters", row->channels, row->height, row->width,
                           row->filters);
  if (axis != GCONV_OVER_SIZE)
    snprintf(text + used, size - used, " %dx%d", row->size, row->size);
}

static double tflop_per_s(const gconv_experiment_row *row) {
  return row->flop / row->ms * 1e-9;
}

static double peak_tflop_per_s(const gconv_experiment_run *run) {
  return run->bench->machine.fma_per_ms * 2e-9;
}

/* ---- Text and CSV ---- */

void gconv_experiment_print_head(const gconv_experiment_run *run) {
  const gconv_device_info *info = gconv_device_get_info(run->bench->device);
  if (run->bench->settings->csv)
    printf("device,experiment,algorithm,chosen,images,channels,height,width,filters,size,workspace_mib,workspace_bytes,"
           "chunk,ms,estimate_ms,tflop_per_s,fma_tflop_per_s,error,allowed\n");
  else if (!run->bench->settings->json)
    printf("%s on %s (%s), multiply-adds %.2f TFLOP/s; medians of %d runs\n", run->name, info->name, info->description,
           peak_tflop_per_s(run), run->bench->settings->runs);
}

static void print_text(const gconv_experiment_run *run, const gconv_experiment_row *row) {
  static const char *const titles[] = {"batch", "filter", "MiB"}; /* by gconv_experiment_axis */
  char panel[96], error[24] = "";
  if (run->count == 1 || !is_same_panel(run->axis, row, row - 1)) {
    name_panel(run->axis, row, panel, sizeof panel);
    printf("\n%s\n%-18s %6s %10s %8s %6s %9s\n", panel, "algorithm", titles[run->axis], "ms", "TFLOP/s", "peak", "error");
  }
  if (row->obstacle[0] != '\0') {
    printf("%-18s %6d %s\n", row->algorithm, place_of(run->axis, row), row->obstacle);
    return;
  }
  if (row->checked)
    snprintf(error, sizeof error, "%.2g", row->error);
  printf("%-18s %6d %10.4f %8.3f %5.0f%% %9s", row->algorithm, place_of(run->axis, row), row->ms, tflop_per_s(row),
         100 * tflop_per_s(row) / peak_tflop_per_s(run), error);
  printf(strcmp(row->algorithm, row->chosen) == 0 ? "\n" : "  %s\n", row->chosen);
}

/* Prints what was measured; obstacles are for people. */
static void print_csv(const gconv_experiment_run *run, const gconv_experiment_row *row) {
  if (row->obstacle[0] != '\0')
    return;
  printf("%s,%s,%s,%s,%d,%d,%d,%d,%d,%d,%d,%.0f,%d,%.6g,%.6g,%.6g,%.6g,", gconv_device_get_info(run->bench->device)->name,
         run->name, row->algorithm, row->chosen, row->images, row->channels, row->height, row->width, row->filters,
         row->size, row->workspace_mib, row->workspace_used, row->chunk, row->ms, row->estimate_ms, tflop_per_s(row),
         peak_tflop_per_s(run));
  if (row->checked)
    printf("%.3g,%.3g\n", row->error, row->allowed);
  else
    printf(",\n");
}

void gconv_experiment_print_row(const gconv_experiment_run *run) {
  const gconv_experiment_row *row = &run->rows[run->count - 1];
  if (run->bench->settings->csv)
    print_csv(run, row);
  else if (!run->bench->settings->json)
    print_text(run, row);
  fflush(stdout);
}

/* ---- JSON ---- */

static json_t *json_row(const gconv_experiment_row *row) {
  json_t *json = json_pack("{s:s, s:[i,i,i,i], s:[i,i,i,i], s:i}", "algorithm", row->algorithm, "images", row->images,
                           row->channels, row->height, row->width, "filters", row->filters, row->channels, row->size,
                           row->size, "workspace_mib", row->workspace_mib);
  if (row->obstacle[0] != '\0') {
    json_object_set_new(json, "obstacle", json_string(row->obstacle));
    return json;
  }
  json_t *figures =
      json_pack("{s:s, s:f, s:f, s:f, s:f, s:i}", "chosen", row->chosen, "ms", row->ms, "estimate_ms", row->estimate_ms,
                "tflop_per_s", tflop_per_s(row), "workspace_bytes", row->workspace_used, "chunk", row->chunk);
  json_object_update(json, figures);
  json_decref(figures);
  if (row->checked) {
    json_object_set_new(json, "error", json_real(row->error));
    json_object_set_new(json, "allowed", json_real(row->allowed));
  }
  return json;
}

void gconv_experiment_print_end(const gconv_experiment_run *run) {
  if (!run->bench->settings->json)
    return;
  const gconv_device_info *info = gconv_device_get_info(run->bench->device);
  json_t *rows = json_array();
  for (size_t i = 0; i < run->count; i++)
    json_array_append_new(rows, json_row(&run->rows[i]));
  json_t *all = json_pack("{s:s, s:s, s:s, s:f, s:i, s:o}", "experiment", run->name, "device", info->name, "description",
                          info->description, "fma_tflop_per_s", peak_tflop_per_s(run), "runs", run->bench->settings->runs,
                          "rows", rows);
  gconv_bench_print_json(all);
}

/* ---- Plots ---- */

static bool begins_panel(const gconv_experiment_run *run, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (is_same_panel(run->axis, &run->rows[i], &run->rows[index]))
      return false;
  return true;
}

/* The colour and sign of an algorithm: the same in all panels. */
static size_t number_of(const gconv_experiment_run *run, const char *algorithm) {
  size_t number = 1;
  for (size_t i = 0; strcmp(run->rows[i].algorithm, algorithm) != 0; i++) {
    bool new = true;
    for (size_t j = 0; j < i; j++)
      new &= strcmp(run->rows[i].algorithm, run->rows[j].algorithm) != 0;
    number += new;
  }
  return number;
}

static bool is_on_line(const gconv_experiment_run *run, size_t first, size_t index) {
  const gconv_experiment_row *a = &run->rows[first], *b = &run->rows[index];
  return b->obstacle[0] == '\0' && strcmp(a->algorithm, b->algorithm) == 0 && is_same_panel(run->axis, a, b);
}

static bool begins_line(const gconv_experiment_run *run, size_t panel, size_t index) {
  if (run->rows[index].obstacle[0] != '\0' || !is_same_panel(run->axis, &run->rows[panel], &run->rows[index]))
    return false;
  for (size_t i = 0; i < index; i++)
    if (is_on_line(run, index, i))
      return false;
  return true;
}

/* Whether another panel has the algorithm in its key: there is no room in all of them. */
static bool is_in_key(const gconv_experiment_run *run, size_t panel, const char *algorithm) {
  for (size_t i = 0; i < panel; i++)
    if (run->rows[i].obstacle[0] == '\0' && strcmp(run->rows[i].algorithm, algorithm) == 0)
      return true;
  return false;
}

static void print_panel(FILE *out, const gconv_experiment_run *run, size_t panel) {
  char title[96];
  name_panel(run->axis, &run->rows[panel], title, sizeof title);
  fprintf(out, "set title '%s'\n", title);
  for (size_t i = panel; i < run->count; i++) {
    if (!begins_line(run, panel, i))
      continue;
    fprintf(out, "$line%zu << EOD\n", i);
    for (size_t j = i; j < run->count; j++)
      if (is_on_line(run, i, j))
        fprintf(out, "%d %g\n", place_of(run->axis, &run->rows[j]), run->rows[j].ms);
    fprintf(out, "EOD\n");
  }
  const char *before = "plot ";
  for (size_t i = panel; i < run->count; i++)
    if (begins_line(run, panel, i)) {
      const char *algorithm = run->rows[i].algorithm;
      size_t number = number_of(run, algorithm);
      fprintf(out, "%s$line%zu with linespoints lt %zu pt %zu title '%s' noenhanced", before, i, number, number,
              is_in_key(run, panel, algorithm) ? "" : algorithm);
      before = ", \\\n  ";
    }
  fputc('\n', out);
}

static bool has_lines(const gconv_experiment_run *run, size_t panel) {
  for (size_t i = panel; i < run->count; i++)
    if (begins_line(run, panel, i))
      return true;
  return false;
}

/* Whether x reaches over more than a factor of 20, as from one image to hundreds. */
static bool is_wide(const gconv_experiment_run *run) {
  int32_t least = INT32_MAX, most = 1;
  for (size_t i = 0; i < run->count; i++) {
    int32_t place = place_of(run->axis, &run->rows[i]);
    least = place < least ? place : least;
    most = place > most ? place : most;
  }
  return most / least > 20;
}

static void print_script(FILE *out, const void *data, const char *path) {
  static const char *const axes[] = {
      "set xlabel 'images in the batch'\nset logscale y\n",
      "set xlabel 'size of the filters'\nset logscale xy\nset xtics (3,4,5,7,9,11,16,25,32,64)\n",
      "set xlabel 'MiB of workspace'\nset logscale xy 2\n",
  };
  const gconv_experiment_run *run = data;
  int panels = 0;
  for (size_t i = 0; i < run->count; i++)
    panels += begins_panel(run, i) && has_lines(run, i);
  int columns = panels < 1 ? 1 : panels > 4 ? 4 : panels, rows = (panels + columns - 1) / columns;
  bool one = panels == 1;
  gconv_bench_print_terminal(out, run->bench->settings->plot, path, one ? 1000 : 420 * columns, one ? 640 : 330 * rows);
  fprintf(out, "set multiplot layout %d,%d title ", rows, columns);
  gconv_bench_print_quoted(out, gconv_device_get_info(run->bench->device)->description);
  fprintf(out, " noenhanced\nset grid\nset autoscale xfix\nset ylabel 'ms'\nset format y '%%g'\nset key %s\n%s",
          one ? "outside right" : "right bottom font ',8' samplen 1", axes[run->axis]);
  if (run->axis == GCONV_OVER_BATCH && is_wide(run))
    fprintf(out, "set logscale x 2\n");
  for (size_t i = 0; i < run->count; i++)
    if (begins_panel(run, i) && has_lines(run, i))
      print_panel(out, run, i);
  fprintf(out, "unset multiplot\n");
}

int gconv_experiment_plot(const gconv_experiment_run *run) {
  for (size_t i = 0; i < run->count; i++)
    if (run->rows[i].obstacle[0] == '\0')
      return gconv_bench_draw(run->bench->settings->plot, print_script, run);
  gconv_say("%s: nothing was measured that could be drawn", run->bench->settings->plot);
  return GCONV_EXIT_FAILED;
}

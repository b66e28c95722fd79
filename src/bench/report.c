/* SPDX-License-Identifier: MIT */
/* Reports of bench: rows for people, CSV, JSON. */
#include "base/json.h"
#include "bench/settings.h"

#include <math.h>
#include <string.h>

/* ---- Figures of a row ---- */

static double giga_per_s(double amount, double ms) {
  return amount / ms * 1e-6;
}

static double tflop_per_s(const gconv_bench_row *row) {
  return row->flop / row->ms * 1e-9;
}

/* True if the algorithm does fewer multiply-adds than there are taps, so that its rate cannot be compared with the machine's
 * peak. A library may choose such an algorithm by itself. */
static bool is_effective(const gconv_bench_row *row) {
  static const char *const fewer[] = {"separable", "sparse", "fft", "winograd"};
  for (size_t i = 0; row->chosen && i < sizeof fewer / sizeof *fewer; i++)
    if (strcmp(row->chosen, fewer[i]) == 0)
      return true;
  return row->of_fma > 1;
}

/* "direct", "auto: direct", "tiled 32x8", "tiled grid 128" */
static void name_algorithm(const gconv_bench_row *row, char *text, size_t size) {
  bool chosen = strcmp(row->algorithm, "auto") == 0 && row->chosen;
  snprintf(text, size, "%s%s%s", row->against ? "against" : row->algorithm, chosen ? ": " : "", chosen ? row->chosen : "");
  size_t used = strlen(text);
  if (row->block.width > 0)
    used += (size_t)snprintf(text + used, size - used, " %dx%d", row->block.width, row->block.height);
  if (row->grid > 0)
    snprintf(text + used, size - used, " grid %d", row->grid);
}

/* ---- Text ---- */

static void print_text_head(const gconv_bench *bench) {
  const gconv_device_info *info = gconv_device_get_info(bench->device);
  const char *experiment = bench->settings->experiment;
  fprintf(bench->out,
          "%s%s%s%s (%s): copy %.0f GB/s read + written, multiply-adds %.2f TFLOP/s, launch %.1f us; medians of %d runs, +- "
          "half the distance of the quartiles\n",
          bench->count > 0 ? "\n" : "", experiment ? experiment : "", experiment ? " on " : "", info->name,
          info->description, bench->machine.bytes_per_ms * 1e-6, bench->machine.fma_per_ms * 2e-9,
          bench->machine.launch_ms * 1e3, bench->grid->runs);
}

/* "    48%  long scoreboard 41%, wait 12%, barrier 9%" */
static void print_profile(FILE *out, const gconv_profile *profile) {
  if (!profile->known)
    return;
  fprintf(out, " %5.0f%%", 100 * profile->occupancy);
  for (int i = 0; i < GCONV_PROFILE_REASONS && profile->stalls[i].reason[0]; i++)
    fprintf(out, "%s %s %.0f%%", i > 0 ? "," : " ", profile->stalls[i].reason, 100 * profile->stalls[i].share);
}

static void print_text(const gconv_bench *bench, const gconv_bench_row *row) {
  char algorithm[64], error[24] = "", peak[16] = "effective";
  const bool layers = bench->settings->experiment != NULL; /* their groups have long names */
  if (bench->count == 1 || strcmp(row->group, row[-1].group) != 0)
    fprintf(bench->out, "\n%s%s%-18s %-20s %9s %9s %9s %8s %6s %8s %9s %9s%s\n", layers ? row->group : "",
            layers ? "\n" : "", "algorithm", layers ? "" : row->group, "ms", "+-", "Gsample/s", "GB/s", "copy", "TFLOP/s",
            "peak", "error", bench->profiler ? "  warps  waiting for" : "");
  name_algorithm(row, algorithm, sizeof algorithm);
  if (row->obstacle[0] != '\0') {
    fprintf(bench->out, "%-18s %-20.20s %s\n", algorithm, row->filter, row->obstacle);
    return;
  }
  if (row->checked)
    snprintf(error, sizeof error, "%.2g", row->error);
  if (row->against)
    snprintf(peak, sizeof peak, "-");
  else if (!is_effective(row))
    snprintf(peak, sizeof peak, "%.0f%%", 100 * row->of_fma);
  fprintf(bench->out, "%-18s %-20.20s %9.4f %9.4f %9.2f %8.1f %5.0f%% %8.3f %9s %9s", algorithm, row->filter, row->ms,
          row->spread_ms / 2, giga_per_s(row->samples, row->ms), giga_per_s(row->bytes, row->ms), 100 * row->of_copy,
          tflop_per_s(row), peak, error);
  print_profile(bench->out, &row->profile);
  fprintf(bench->out, "\n");
}

/* Prints a row of an experiment with nets. A blank line separates nets. */
static void print_net_text(const gconv_bench *bench, const gconv_bench_row *row) {
  char error[24] = "", a_second[24], over[24];
  snprintf(a_second, sizeof a_second, "%s/s", bench->items);
  snprintf(over, sizeof over, "x %s", bench->base);
  if (bench->count == 1 || strcmp(row->group, row[-1].group) != 0)
    fprintf(bench->out, "\n%s\n%-15s %-12s %10s %9s %10s %10s %9s\n", row->group, "method", bench->kind, "ms", "+-",
            a_second, over, "error");
  else if (strcmp(row->filter, row[-1].filter) != 0)
    fprintf(bench->out, "\n");
  if (row->obstacle[0] != '\0') {
    fprintf(bench->out, "%-15s %-12s %s\n", row->algorithm, row->filter, row->obstacle);
    return;
  }
  if (row->checked)
    snprintf(error, sizeof error, "%.2g", row->error);
  fprintf(bench->out, "%-15s %-12s %10.4f %9.4f %10.3g %10.2f %9s\n", row->algorithm, row->filter, row->ms,
          row->spread_ms / 2, row->items / row->ms * 1e3, row->speed_up, error);
}

/* ---- CSV: all columns, whatever is measured; experiments with nets have their own ---- */

static void print_csv_head(const gconv_bench *bench) {
  fprintf(bench->out,
          "device,algorithm,chosen,type,width,height,channels,planar,filter,rows,columns,block,grid,images,filters,"
          "workspace_mib,workspace_bytes,chunk,threads,ms,spread_ms,estimate_ms,gsample_per_s,gb_per_s,copy_gb_per_s,tflop_"
          "per_s,fma_tflop_per_s,error,allowed%s\n",
          bench->settings->profile ? ",occupancy,reason_1,share_1,reason_2,share_2,reason_3,share_3" : "");
}

static void print_net_csv_head(const gconv_bench *bench) {
  fprintf(bench->out, "device,method,%s,threads,%s,ms,spread_ms,%s_per_s,speed_up,error,allowed\n", bench->kind,
          bench->items, bench->items);
}

static void print_net_csv(const gconv_bench *bench, const gconv_bench_row *row) {
  if (row->obstacle[0] != '\0')
    return;
  fprintf(bench->out, "%s,%s,%s,%d,%.15g,%.6g,%.6g,%.6g,%.6g,%.3g,%.3g\n", gconv_device_get_info(bench->device)->name,
          row->algorithm, row->filter, row->threads, row->items, row->ms, row->spread_ms, row->items / row->ms * 1e3,
          row->speed_up, row->error, row->allowed);
}

static void print_csv_profile(FILE *out, const gconv_profile *profile) {
  if (profile->known)
    fprintf(out, ",%.4f", profile->occupancy);
  else
    fprintf(out, ",");
  for (int i = 0; i < GCONV_PROFILE_REASONS; i++)
    if (profile->known && profile->stalls[i].reason[0])
      fprintf(out, ",%s,%.4f", profile->stalls[i].reason, profile->stalls[i].share);
    else
      fprintf(out, ",,");
}

/* Prints rows that were measured; the rows of obstacles are for people only. */
static void print_csv(const gconv_bench *bench, const gconv_bench_row *row) {
  if (row->obstacle[0] != '\0')
    return;
  fprintf(bench->out, "%s,%s,%s,%s,%d,%d,%d,%d,\"%s\",%d,%d,%dx%d,%d,%d,%d,%d,%.0f,%d,", gconv_bench_device_of(bench, row),
          row->algorithm, row->chosen, gconv_type_name(row->type), row->image.width, row->image.height, row->image.channels,
          row->image.planar, row->filter, row->rows, row->columns, row->block.width, row->block.height, row->grid,
          row->images, row->filters, row->workspace_mib, row->workspace_bytes, row->chunk);
  fprintf(bench->out, "%d,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,", row->threads, row->ms, row->spread_ms, row->estimate_ms,
          giga_per_s(row->samples, row->ms), giga_per_s(row->bytes, row->ms), bench->machine.bytes_per_ms * 1e-6,
          tflop_per_s(row), bench->machine.fma_per_ms * 2e-9);
  if (row->checked)
    fprintf(bench->out, "%.3g,%.3g", row->error, row->allowed);
  else
    fprintf(bench->out, ",");
  if (bench->settings->profile)
    print_csv_profile(bench->out, &row->profile);
  fprintf(bench->out, "\n");
}

/* ---- JSON: one document ---- */

/* Returns the shape that was measured: a filter on an image, or a layer. */
static json_t *json_shape(const gconv_bench_row *row) {
  const gconv_bench_image *image = &row->image;
  if (row->layer)
    return json_pack("{s:s, s:[i,i,i,i], s:[i,i,i,i], s:i}", "algorithm", row->algorithm, "images", row->images,
                     image->channels, image->height, image->width, "filters", row->filters, image->channels, row->rows,
                     row->columns, "workspace_mib", row->workspace_mib);
  return json_pack("{s:s, s:s, s:[i,i,i], s:b, s:o, s:[i,i], s:[i,i], s:i}", "algorithm", row->algorithm, "type",
                   gconv_type_name(row->type), "image", image->width, image->height, image->channels, "planar",
                   image->planar, "filter", gconv_json_text(row->filter), "taps", row->rows, row->columns, "block",
                   row->block.width, row->block.height, "grid", row->grid);
}

static json_t *json_net_row(const gconv_bench *bench, const gconv_bench_row *row) {
  char a_second[24];
  snprintf(a_second, sizeof a_second, "%s_per_s", bench->items);
  if (row->obstacle[0] != '\0')
    return json_pack("{s:s, s:s, s:o}", "method", row->algorithm, bench->kind, row->filter, "obstacle",
                     gconv_json_text(row->obstacle));
  return json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "method", row->algorithm, bench->kind, row->filter,
                   "threads", row->threads, bench->items, row->items, "ms", row->ms, "spread_ms", row->spread_ms, a_second,
                   row->items / row->ms * 1e3, "speed_up", row->speed_up, "error", row->error, "allowed", row->allowed);
}

static json_t *json_profile(const gconv_profile *profile) {
  json_t *stalls = json_array();
  for (int i = 0; i < GCONV_PROFILE_REASONS && profile->stalls[i].reason[0]; i++)
    json_array_append_new(stalls,
                          json_pack("{s:s, s:f}", "reason", profile->stalls[i].reason, "share", profile->stalls[i].share));
  return json_pack("{s:f, s:o}", "occupancy", profile->occupancy, "stalls", stalls);
}

static json_t *json_row(const gconv_bench *bench, const gconv_bench_row *row) {
  if (bench->items)
    return json_net_row(bench, row);
  json_t *json = json_shape(row);
  if (row->against)
    gconv_json_put(json, "device", gconv_bench_device_of(bench, row));
  if (row->obstacle[0] != '\0') {
    gconv_json_put(json, "obstacle", row->obstacle);
    return json;
  }
  json_t *figures =
      json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:f, s:i}", "chosen", row->chosen, "threads",
                row->threads, "ms", row->ms, "spread_ms", row->spread_ms, "estimate_ms", row->estimate_ms, "gsample_per_s",
                giga_per_s(row->samples, row->ms), "gb_per_s", giga_per_s(row->bytes, row->ms), "of_copy", row->of_copy,
                "tflop_per_s", tflop_per_s(row), "of_fma", row->of_fma, "effective", is_effective(row), "workspace_bytes",
                row->workspace_bytes, "chunk", row->chunk);
  json_object_update(json, figures);
  json_decref(figures);
  if (row->checked) {
    gconv_json_put(json, "error", row->error);
    gconv_json_put(json, "allowed", row->allowed);
  }
  if (row->profile.known)
    gconv_json_put(json, "profile", json_profile(&row->profile));
  return json;
}

/* Returns, for each group, the x from which on the device is faster than the device of --against; null: nowhere. */
static json_t *json_overtaking(const gconv_bench *bench) {
  json_t *list = json_array();
  for (size_t i = 0; i < bench->count; i++) {
    double from;
    if ((i == 0 || strcmp(bench->rows[i].group, bench->rows[i - 1].group) != 0) && gconv_bench_overtakes(bench, i, &from))
      json_array_append_new(list, json_pack("{s:s, s:o}", "group", bench->rows[i].group, "from",
                                            from < HUGE_VAL ? json_real(from) : json_null()));
  }
  return list;
}

static gconv_status print_json(const gconv_bench *bench) {
  const gconv_device_info *info = gconv_device_get_info(bench->device);
  json_t *rows = json_array();
  for (size_t i = 0; i < bench->count; i++)
    json_array_append_new(rows, json_row(bench, &bench->rows[i]));
  json_t *all = json_pack("{s:s, s:o, s:f, s:f, s:f, s:i, s:o}", "device", info->name, "description",
                          gconv_json_text(info->description), "copy_gb_per_s", bench->machine.bytes_per_ms * 1e-6,
                          "fma_tflop_per_s", bench->machine.fma_per_ms * 2e-9, "launch_ms", bench->machine.launch_ms, "runs",
                          bench->grid->runs, "rows", rows);
  if (all && bench->other)
    gconv_json_put(all, "overtakes", json_overtaking(bench));
  if (all && bench->settings->experiment)
    gconv_json_put(all, "experiment", bench->settings->experiment);
  bool printed = gconv_json_print(bench->out, all, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  json_decref(all);
  return printed ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "there is no memory for the report");
}

/* ---- All ---- */

void gconv_bench_print_head(const gconv_bench *bench) {
  if (bench->settings->csv && bench->count == 0)
    (bench->items ? print_net_csv_head : print_csv_head)(bench);
  else if (!bench->settings->csv && !bench->settings->json)
    print_text_head(bench);
}

void gconv_bench_print_row(const gconv_bench *bench) {
  if (bench->count == 0)
    return;
  const gconv_bench_row *row = &bench->rows[bench->count - 1];
  if (bench->settings->csv)
    (bench->items ? print_net_csv : print_csv)(bench, row);
  else if (!bench->settings->json)
    (bench->items ? print_net_text : print_text)(bench, row);
  fflush(bench->out);
}

gconv_status gconv_bench_print_end(const gconv_bench *bench) {
  return bench->settings->json ? print_json(bench) : GCONV_OK;
}

/* ---- What experiments with nets share ---- */

void gconv_bench_end_row(gconv_bench *bench, gconv_bench_row *row, gconv_status status) {
  if (status == GCONV_OK && row->obstacle[0] == '\0' && !(row->ms > 0))
    status = gconv_fail(GCONV_UNSUPPORTED, "no figure: it takes less than the clock can tell");
  gconv_bench_take_status(bench, row, status);
  gconv_bench_keep(bench, row);
  const gconv_bench_row *one = NULL, *all = bench->rows;
  for (size_t i = 0; i < bench->count; i++)
    if (strcmp(all[i].algorithm, bench->base) == 0 && strcmp(all[i].filter, row->filter) == 0 && all[i].items == row->items)
      one = &all[i];
  if (one && one->obstacle[0] == '\0' && row->obstacle[0] == '\0')
    bench->rows[bench->count - 1].speed_up = one->ms / row->ms;
  gconv_bench_print_row(bench);
}

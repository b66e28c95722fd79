/* SPDX-License-Identifier: MIT */
/* What bench tells: rows for people, CSV, JSON. */
#include "cli/bench.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Figures of a row ---- */

static double giga_per_s(double amount, double ms) {
  return amount / ms * 1e-6;
}

static double tflop_per_s(const gconv_bench_row *row) {
  return row->flop / row->ms * 1e-9;
}

static double copy_part(const gconv_bench *bench, const gconv_bench_row *row) {
  return row->bytes / row->ms / bench->machine.bytes_per_ms;
}

static double fma_part(const gconv_bench *bench, const gconv_bench_row *row) {
  return row->flop / 2 / row->ms / bench->machine.fma_per_ms;
}

void gconv_bench_name_image(const gconv_bench_row *row, char *text, size_t size) {
  snprintf(text, size, "%dx%dx%d %s %s", row->image.width, row->image.height, row->image.channels,
           gconv_type_name(row->type), row->image.planar ? "planes" : "interleaved");
}

/* "direct", "auto: direct", "tiled 32x8", "tiled grid 128" */
static void name_algorithm(const gconv_bench_row *row, char *text, size_t size) {
  bool chosen = strcmp(row->algorithm, "auto") == 0 && row->chosen;
  snprintf(text, size, "%s%s%s", row->algorithm, chosen ? ": " : "", chosen ? row->chosen : "");
  size_t used = strlen(text);
  if (row->block.width > 0)
    used += (size_t)snprintf(text + used, size - used, " %dx%d", row->block.width, row->block.height);
  if (row->grid > 0)
    snprintf(text + used, size - used, " grid %d", row->grid);
}

/* ---- Text ---- */

static void print_text_head(const gconv_bench *bench) {
  const gconv_device_info *info = gconv_device_get_info(bench->device);
  printf("%s (%s): copy %.0f GB/s read + written, multiply-adds %.2f TFLOP/s, launch %.1f us; medians of %d runs\n",
         info->name, info->description, bench->machine.bytes_per_ms * 1e-6, bench->machine.fma_per_ms * 2e-9,
         bench->machine.launch_ms * 1e3, bench->settings->runs);
}

static void print_text(const gconv_bench *bench, const gconv_bench_row *row, bool first) {
  char image[64], algorithm[64], error[24] = "";
  if (first) {
    gconv_bench_name_image(row, image, sizeof image);
    printf("\n%-18s %-20s %9s %9s %8s %6s %8s %6s %9s\n", "algorithm", image, "ms", "Gsample/s", "GB/s", "copy", "TFLOP/s",
           "peak", "error");
  }
  name_algorithm(row, algorithm, sizeof algorithm);
  if (row->obstacle[0] != '\0') {
    printf("%-18s %-20.20s %s\n", algorithm, row->filter, row->obstacle);
    return;
  }
  if (row->checked)
    snprintf(error, sizeof error, "%.2g", row->error);
  printf("%-18s %-20.20s %9.4f %9.2f %8.1f %5.0f%% %8.3f %5.0f%% %9s\n", algorithm, row->filter, row->ms,
         giga_per_s(row->samples, row->ms), giga_per_s(row->bytes, row->ms), 100 * copy_part(bench, row), tflop_per_s(row),
         100 * fma_part(bench, row), error);
}

/* ---- CSV ---- */

static void print_csv_head(void) {
  printf("device,algorithm,chosen,type,width,height,channels,planar,filter,rows,columns,block,grid,ms,estimate_ms,gsample_"
         "per_s,"
         "gb_per_s,copy_gb_per_s,tflop_per_s,fma_tflop_per_s,error,allowed\n");
}

/* Prints what was measured; obstacles are for people. */
static void print_csv(const gconv_bench *bench, const gconv_bench_row *row) {
  if (row->obstacle[0] != '\0')
    return;
  printf("%s,%s,%s,%s,%d,%d,%d,%d,\"%s\",%d,%d,%dx%d,%d,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.3g,%.3g\n",
         gconv_device_get_info(bench->device)->name, row->algorithm, row->chosen, gconv_type_name(row->type),
         row->image.width, row->image.height, row->image.channels, row->image.planar, row->filter, row->rows, row->columns,
         row->block.width, row->block.height, row->grid, row->ms, row->estimate_ms, giga_per_s(row->samples, row->ms),
         giga_per_s(row->bytes, row->ms), bench->machine.bytes_per_ms * 1e-6, tflop_per_s(row),
         bench->machine.fma_per_ms * 2e-9, row->error, row->allowed);
}

/* ---- JSON: one document ---- */

static json_t *json_row(const gconv_bench *bench, const gconv_bench_row *row) {
  json_t *json = json_pack("{s:s, s:s, s:[i,i,i], s:b, s:s, s:[i,i], s:[i,i], s:i}", "algorithm", row->algorithm, "type",
                           gconv_type_name(row->type), "image", row->image.width, row->image.height, row->image.channels,
                           "planar", row->image.planar, "filter", row->filter, "taps", row->rows, row->columns, "block",
                           row->block.width, row->block.height, "grid", row->grid);
  if (row->obstacle[0] != '\0') {
    json_object_set_new(json, "obstacle", json_string(row->obstacle));
    return json;
  }
  json_t *figures =
      json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "chosen", row->chosen, "ms", row->ms, "estimate_ms",
                row->estimate_ms, "gsample_per_s", giga_per_s(row->samples, row->ms), "gb_per_s",
                giga_per_s(row->bytes, row->ms), "of_copy", copy_part(bench, row), "tflop_per_s", tflop_per_s(row), "of_fma",
                fma_part(bench, row), "error", row->error, "allowed", row->allowed);
  json_object_update(json, figures);
  json_decref(figures);
  return json;
}

void gconv_bench_print_json(json_t *report) {
  char *text = report ? json_dumps(report, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
  if (text)
    puts(text);
  else
    gconv_say("there is no memory for the report");
  free(text);
  json_decref(report);
}

static void print_json(const gconv_bench *bench) {
  const gconv_device_info *info = gconv_device_get_info(bench->device);
  json_t *rows = json_array();
  for (size_t i = 0; i < bench->count; i++)
    json_array_append_new(rows, json_row(bench, &bench->rows[i]));
  json_t *all =
      json_pack("{s:s, s:s, s:f, s:f, s:f, s:i, s:o}", "device", info->name, "description", info->description,
                "copy_gb_per_s", bench->machine.bytes_per_ms * 1e-6, "fma_tflop_per_s", bench->machine.fma_per_ms * 2e-9,
                "launch_ms", bench->machine.launch_ms, "runs", bench->settings->runs, "rows", rows);
  gconv_bench_print_json(all);
}

/* ---- All ---- */

static gconv_bench_style style_of(const gconv_bench *bench) {
  return bench->settings->csv ? GCONV_BENCH_CSV : bench->settings->json ? GCONV_BENCH_JSON : GCONV_BENCH_TEXT;
}

void gconv_bench_print_head(const gconv_bench *bench) {
  if (style_of(bench) == GCONV_BENCH_TEXT)
    print_text_head(bench);
  else if (style_of(bench) == GCONV_BENCH_CSV)
    print_csv_head();
}

void gconv_bench_print_row(const gconv_bench *bench, const gconv_bench_row *row, bool first) {
  if (style_of(bench) == GCONV_BENCH_TEXT)
    print_text(bench, row, first);
  else if (style_of(bench) == GCONV_BENCH_CSV)
    print_csv(bench, row);
  fflush(stdout);
}

void gconv_bench_print_end(const gconv_bench *bench) {
  if (style_of(bench) == GCONV_BENCH_JSON)
    print_json(bench);
}

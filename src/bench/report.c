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

/* ---- Figures of a row: each is named once, for all reports ---- */

typedef enum form { HEADS, TEXT, CSV_HEADS, CSV, JSON } form;

/* Where figures are written. */
typedef struct destination {
  form form;
  FILE *out;
  json_t *json;
} destination;

/* Writes a figure to JSON; to CSV, with `digits` digits, unless `digits` is 0; and to text, by a format of printf() in a
 * column of `width`, unless `width` is 0. A figure that was not measured is NAN: its field is empty, or not in JSON. */
#define PUT(destination, key, digits, value, width, head, ...)                                                              \
  do {                                                                                                                      \
    if ((destination)->form != JSON)                                                                                        \
      put_cell(destination, key, digits, value, width, head, __VA_ARGS__);                                                  \
    else if (!isnan((double)(value)))                                                                                       \
      gconv_json_put((destination)->json, key, value);                                                                      \
  } while (0)
#define PUT_DATA(destination, key, digits, value) PUT(destination, key, digits, value, 0, "", "%s", "")
#define PUT_CSV(destination, key, value) put_cell(destination, key, 6, value, 0, "", "%s", "")

GCONV_PRINTF(7, 8)
static void put_cell(const destination *t, const char *key, int digits, double value, int width, const char *head,
                     const char *format, ...) {
  char text[24];
  GCONV_FORMAT(text, sizeof text, format);
  if (t->form == HEADS && width > 0)
    fprintf(t->out, " %*s", width, head);
  else if (t->form == TEXT && width > 0)
    fprintf(t->out, " %*s", width, isnan(value) ? "" : text);
  else if (t->form == CSV_HEADS && digits > 0)
    fprintf(t->out, ",%s", key);
  else if (t->form == CSV && digits > 0)
    isnan(value) ? fputs(",", t->out) : fprintf(t->out, ",%.*g", digits, value);
}

static void put_figures(const gconv_bench *bench, const gconv_bench_row *row, const destination *t) {
  const double gsample_per_s = giga_per_s(row->samples, row->ms), gb_per_s = giga_per_s(row->bytes, row->ms);
  const double error = row->checked ? row->error : NAN, allowed = row->checked ? row->allowed : NAN;
  char peak[16];
  snprintf(peak, sizeof peak, row->against ? "-" : is_effective(row) ? "effective" : "%.0f%%", 100 * row->of_fma);
  PUT_DATA(t, "workspace_bytes", 15, row->workspace_bytes);
  PUT_DATA(t, "chunk", 15, row->chunk);
  PUT_DATA(t, "threads", 15, row->threads);
  PUT(t, "ms", 6, row->ms, 9, "ms", "%.4f", row->ms);
  PUT(t, "spread_ms", 6, row->spread_ms, 9, "+-", "%.4f", row->spread_ms / 2);
  PUT_DATA(t, "estimate_ms", 6, row->estimate_ms);
  PUT(t, "gsample_per_s", 6, gsample_per_s, 9, "Gsample/s", "%.2f", gsample_per_s);
  PUT(t, "gb_per_s", 6, gb_per_s, 8, "GB/s", "%.1f", gb_per_s);
  PUT_CSV(t, "copy_gb_per_s", bench->machine.bytes_per_ms * 1e-6);
  PUT(t, "of_copy", 0, row->of_copy, 6, "copy", "%.0f%%", 100 * row->of_copy);
  PUT(t, "tflop_per_s", 6, tflop_per_s(row), 8, "TFLOP/s", "%.3f", tflop_per_s(row));
  PUT_CSV(t, "fma_tflop_per_s", bench->machine.fma_per_ms * 2e-9);
  PUT(t, "of_fma", 0, row->of_fma, 9, "peak", "%s", peak);
  PUT_DATA(t, "effective", 0, is_effective(row));
  PUT(t, "error", 3, error, 9, "error", "%.2g", error);
  PUT_DATA(t, "allowed", 3, allowed);
}

/* Writes the figures of an experiment with nets. */
static void put_net_figures(const gconv_bench *bench, const gconv_bench_row *row, const destination *t) {
  char per_second[24], a_second[24], over[24], error[24] = "";
  snprintf(per_second, sizeof per_second, "%s_per_s", bench->items);
  snprintf(a_second, sizeof a_second, "%s/s", bench->items);
  snprintf(over, sizeof over, "x %s", bench->base);
  if (row->checked)
    snprintf(error, sizeof error, "%.2g", row->error);
  PUT_DATA(t, "threads", 15, row->threads);
  PUT_DATA(t, bench->items, 15, row->items);
  PUT(t, "ms", 6, row->ms, 10, "ms", "%.4f", row->ms);
  PUT(t, "spread_ms", 6, row->spread_ms, 9, "+-", "%.4f", row->spread_ms / 2);
  PUT(t, per_second, 6, row->items / row->ms * 1e3, 10, a_second, "%.3g", row->items / row->ms * 1e3);
  if (bench->latencies) {
    PUT(t, "p50_ms", 6, row->p50_ms, 9, "p50 ms", "%.4f", row->p50_ms);
    PUT(t, "p99_ms", 6, row->p99_ms, 9, "p99 ms", "%.4f", row->p99_ms);
  }
  if (bench->base[0])
    PUT(t, "speed_up", 6, row->speed_up, 10, over, "%.2f", row->speed_up);
  else
    PUT(t, "share", 6, row->share, 10, "share", "%.1f%%", 100 * row->share);
  PUT(t, "error", 3, row->error, 9, "error", "%s", error);
  PUT_DATA(t, "allowed", 3, row->allowed);
}

static void put_row(const gconv_bench *bench, const gconv_bench_row *row, form as, json_t *json) {
  (bench->items ? put_net_figures : put_figures)(bench, row, &(destination){as, bench->out, json});
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

static const char *const kind_names[] = {
#define NAME(kind, title, ...) title,
    GCONV_PROFILE_KINDS(NAME)};
static const char *const path_names[] = {
#define PATH_NAME(path, title, ...) title,
    GCONV_PROFILE_TRAFFIC(PATH_NAME)};
static const char *const path_keys[] = {
#define PATH_KEY(path, title, key, ...) key,
    GCONV_PROFILE_TRAFFIC(PATH_KEY)};

const char *gconv_bench_kind_name(size_t kind) {
  return kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : NULL;
}

const char *gconv_bench_path_name(size_t path) {
  return path < sizeof path_names / sizeof *path_names ? path_names[path] : NULL;
}

/* Prints "name 12%", with a comma before all but the first. */
static void print_part(FILE *out, int *count, const char *name, double share) {
  if (!isnan(share) && share >= 0.0005)
    fprintf(out, "%s%s %.3g%%", (*count)++ > 0 ? ", " : "", name, 100 * share);
}

/* Prints the lines below a row: the kernel, where it is busy, its instructions and bytes, and the energy. */
static void print_more(FILE *out, const gconv_profile *p) {
  int count = 0;
  fprintf(out, "\n    busy: ");
  print_part(out, &count, "units", p->units);
  print_part(out, &count, "memory", p->memory);
  if (p->kernel.ms > 0) {
    fprintf(out, "; longest kernel: %d registers, %d threads, %d bytes shared", (int)p->kernel.registers,
            (int)p->kernel.threads, (int)p->kernel.shared);
    fprintf(out, ", %.0f%% of the warps fit", 100 * p->theoretical);
  }
  if (!isnan(p->joules))
    fprintf(out, "; %.3g J", p->joules);
  fprintf(out, "\n    %.4g instructions of warps: ", p->instructions);
  count = 0;
  for (int i = 0; i < GCONV_PROFILE_KIND_COUNT; i++)
    print_part(out, &count, kind_names[i], p->kinds[i] / p->instructions);
  fprintf(out, "\n    MB: ");
  count = 0;
  for (int i = 0; i < GCONV_PROFILE_PATH_COUNT; i++)
    if (!isnan(p->bytes[i]))
      fprintf(out, "%s%s %.4g", count++ > 0 ? ", " : "", path_names[i], p->bytes[i] * 1e-6);
}

/* "    48%  long scoreboard 41%, wait 12%, barrier 9%" */
static void print_profile(FILE *out, const gconv_profile *profile) {
  if (!profile->known)
    return;
  fprintf(out, " %5.0f%%", 100 * profile->occupancy);
  for (int i = 0; i < GCONV_PROFILE_REPORTED && profile->stalls[i].reason[0]; i++)
    fprintf(out, "%s %s %.0f%%", i > 0 ? "," : " ", profile->stalls[i].reason, 100 * profile->stalls[i].share);
  print_more(out, profile);
}

/* Prints a row, and above the first of a group the heads of its columns. A blank line separates nets, too. */
static void print_text(const gconv_bench *bench, const gconv_bench_row *row) {
  const bool nets = bench->items != NULL, own_line = bench->settings->experiment != NULL; /* names of groups are long */
  const int first = nets ? 15 : 18, second = nets ? 12 : 20;
  char algorithm[64];
  name_algorithm(row, algorithm, sizeof algorithm);
  if (bench->count == 1 || strcmp(row->group, row[-1].group) != 0) {
    fprintf(bench->out, "\n%s%s%-*s %-*s", own_line ? row->group : "", own_line ? "\n" : "", first,
            nets ? "method" : "algorithm", second,
            nets       ? bench->kind
            : own_line ? ""
                       : row->group);
    put_row(bench, row, HEADS, NULL);
    fprintf(bench->out, "%s\n", bench->profiler ? "  warps  waiting for" : "");
  } else if (nets && strcmp(row->filter, row[-1].filter) != 0) {
    fprintf(bench->out, "\n");
  }
  fprintf(bench->out, "%-*s %-*.*s", first, algorithm, second, nets ? -1 : second, row->filter);
  if (row->obstacle[0] != '\0')
    fprintf(bench->out, " %s", row->obstacle);
  else
    put_row(bench, row, TEXT, NULL);
  print_profile(bench->out, &row->profile);
  fprintf(bench->out, "\n");
}

/* ---- CSV: all columns, whatever is measured; experiments with nets have their own ---- */

static void print_csv_head(const gconv_bench *bench) {
  if (bench->items)
    fprintf(bench->out, "device,method,%s", bench->kind);
  else
    fputs("device,algorithm,chosen,type,width,height,channels,planar,filter,rows,columns,block,grid,images,filters,"
          "workspace_mib",
          bench->out);
  put_row(bench, &(gconv_bench_row){.ms = 1}, CSV_HEADS, NULL);
  fprintf(bench->out, "%s",
          bench->settings->profile
              ? ",occupancy,reason_1,share_1,reason_2,share_2,reason_3,share_3,units,memory,theoretical,"
                "registers,block_threads,block_shared,joules,instructions"
              : "");
  for (int i = 0; bench->settings->profile && i < GCONV_PROFILE_KIND_COUNT; i++)
    fprintf(bench->out, ",%s", kind_names[i]);
  for (int i = 0; bench->settings->profile && i < GCONV_PROFILE_PATH_COUNT; i++)
    fprintf(bench->out, ",%s", path_keys[i]);
  fprintf(bench->out, "\n");
}

static void print_csv_number(FILE *out, bool known, double number) {
  known && !isnan(number) ? fprintf(out, ",%.6g", number) : fputs(",", out);
}

static void print_csv_profile(FILE *out, const gconv_profile *profile) {
  if (profile->known)
    fprintf(out, ",%.4f", profile->occupancy);
  else
    fprintf(out, ",");
  for (int i = 0; i < GCONV_PROFILE_REPORTED; i++)
    if (profile->known && profile->stalls[i].reason[0])
      fprintf(out, ",%s,%.4f", profile->stalls[i].reason, profile->stalls[i].share);
    else
      fprintf(out, ",,");
  const bool kernel = profile->known && profile->kernel.ms > 0;
  const double more[] = {profile->units,
                         profile->memory,
                         kernel ? profile->theoretical : NAN,
                         kernel ? profile->kernel.registers : NAN,
                         kernel ? profile->kernel.threads : NAN,
                         kernel ? profile->kernel.shared : NAN,
                         profile->joules,
                         profile->instructions};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    print_csv_number(out, profile->known, more[i]);
  for (int i = 0; i < GCONV_PROFILE_KIND_COUNT; i++)
    print_csv_number(out, profile->known, profile->kinds[i]);
  for (int i = 0; i < GCONV_PROFILE_PATH_COUNT; i++)
    print_csv_number(out, profile->known, profile->bytes[i]);
}

/* Prints a row that was measured. Rows with an obstacle are only in tables and JSON. */
static void print_csv(const gconv_bench *bench, const gconv_bench_row *row) {
  if (row->obstacle[0] != '\0')
    return;
  fprintf(bench->out, "%s,%s,", gconv_bench_device_of(bench, row), row->algorithm);
  if (bench->items)
    fprintf(bench->out, "%s", row->filter);
  else
    fprintf(bench->out, "%s,%s,%d,%d,%d,%d,\"%s\",%d,%d,%dx%d,%d,%d,%d,%d", row->chosen, gconv_type_name(row->type),
            row->image.width, row->image.height, row->image.channels, row->image.planar, row->filter, row->rows,
            row->columns, row->block.width, row->block.height, row->grid, row->images, row->filters, row->workspace_mib);
  put_row(bench, row, CSV, NULL);
  if (bench->settings->profile)
    print_csv_profile(bench->out, &row->profile);
  fprintf(bench->out, "\n");
}

/* ---- JSON: one document ---- */

/* Returns what was measured: a filter on an image, a layer, or a method. */
static json_t *json_shape(const gconv_bench *bench, const gconv_bench_row *row) {
  const gconv_bench_image *image = &row->image;
  if (bench->items)
    return json_pack("{s:s, s:s}", "method", row->algorithm, bench->kind, row->filter);
  if (row->layer)
    return json_pack("{s:s, s:[i,i,i,i], s:[i,i,i,i], s:[i,i], s:i, s:i}", "algorithm", row->algorithm, "images",
                     row->images, image->channels, image->height, image->width, "filters", row->filters, image->channels,
                     row->rows, row->columns, "block", row->block.width, row->block.height, "grid", row->grid,
                     "workspace_mib", row->workspace_mib);
  return json_pack("{s:s, s:s, s:[i,i,i], s:b, s:o, s:[i,i], s:[i,i], s:i}", "algorithm", row->algorithm, "type",
                   gconv_type_name(row->type), "image", image->width, image->height, image->channels, "planar",
                   image->planar, "filter", gconv_json_text(row->filter), "taps", row->rows, row->columns, "block",
                   row->block.width, row->block.height, "grid", row->grid);
}

static json_t *json_profile(const gconv_profile *profile) {
  json_t *stalls = json_array();
  for (int i = 0; i < GCONV_PROFILE_REPORTED && profile->stalls[i].reason[0]; i++)
    json_array_append_new(stalls,
                          json_pack("{s:s, s:f}", "reason", profile->stalls[i].reason, "share", profile->stalls[i].share));
  json_t *json = json_pack("{s:f, s:o}", "occupancy", profile->occupancy, "stalls", stalls);
  json_t *kinds = json_object(), *bytes = json_object();
  gconv_json_put(json, "units", profile->units);
  gconv_json_put(json, "memory", profile->memory);
  gconv_json_put(json, "joules", profile->joules);
  gconv_json_put(json, "instructions", profile->instructions);
  for (int i = 0; i < GCONV_PROFILE_KIND_COUNT; i++)
    gconv_json_put(kinds, kind_names[i], profile->kinds[i]);
  for (int i = 0; i < GCONV_PROFILE_PATH_COUNT; i++)
    gconv_json_put(bytes, path_keys[i], profile->bytes[i]);
  json_object_set_new(json, "kinds", kinds);
  json_object_set_new(json, "bytes", bytes);
  if (profile->kernel.ms > 0)
    json_object_set_new(json, "kernel",
                        json_pack("{s:o, s:i, s:i, s:i, s:f, s:f}", "name", gconv_json_text(profile->kernel.name),
                                  "registers", profile->kernel.registers, "threads", profile->kernel.threads, "shared",
                                  profile->kernel.shared, "ms", profile->kernel.ms, "theoretical", profile->theoretical));
  return json;
}

static json_t *json_row(const gconv_bench *bench, const gconv_bench_row *row) {
  json_t *json = json_shape(bench, row);
  if (row->against)
    gconv_json_put(json, "device", gconv_bench_device_of(bench, row));
  if (row->obstacle[0] != '\0') {
    gconv_json_put(json, "obstacle", row->obstacle);
    return json;
  }
  if (!bench->items)
    gconv_json_put(json, "chosen", row->chosen);
  put_row(bench, row, JSON, json);
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
    print_csv_head(bench);
  else if (!bench->settings->csv && !bench->settings->json)
    print_text_head(bench);
}

void gconv_bench_print_row(const gconv_bench *bench) {
  if (bench->count == 0)
    return;
  const gconv_bench_row *row = &bench->rows[bench->count - 1];
  if (bench->settings->csv)
    print_csv(bench, row);
  else if (!bench->settings->json)
    print_text(bench, row);
  fflush(bench->out);
}

gconv_status gconv_bench_print_end(const gconv_bench *bench) {
  return bench->settings->json ? print_json(bench) : GCONV_OK;
}

/* ---- What experiments with nets share ---- */

void gconv_bench_end_row(gconv_bench *bench, gconv_bench_row *row, gconv_status status) {
  if (status == GCONV_OK && row->obstacle[0] == '\0' && !(row->ms > 0))
    status = gconv_fail(GCONV_UNSUPPORTED, "no figure: it takes less time than the clock can measure");
  gconv_bench_take_status(bench, row, status);
  gconv_bench_keep(bench, row);
  const gconv_bench_row *one = NULL, *all = bench->rows;
  const size_t word = strcspn(row->filter, " "); /* the first word says what is computed, the others how */
  for (size_t i = 0; i < bench->count; i++)      /* the last one is of the same size */
    if (strcmp(all[i].algorithm, bench->base) == 0 && strcspn(all[i].filter, " ") == word &&
        strncmp(all[i].filter, row->filter, word) == 0)
      one = &all[i];
  if (one && one->obstacle[0] == '\0' && row->obstacle[0] == '\0')
    bench->rows[bench->count - 1].speed_up = row->items / row->ms / (one->items / one->ms);
  gconv_bench_print_row(bench);
}

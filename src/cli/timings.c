/* SPDX-License-Identifier: MIT */
#include "cli/timings.h"
#include "base/printable.h"
#include "cli/telling.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sums ---------------------------------------------------------------------------------------------------------- */

static void note(char *known, size_t size, const char *name) {
  if (known[0] == '\0')
    snprintf(known, size, "%s", name);
  else if (strcmp(known, name) != 0)
    snprintf(known, size, "several");
}

static void count(gconv_timings_total *total, const gconv_report *report) {
  total->inputs++;
  total->failed += report->failed > 0;
  if (!report->executed)
    return;
  gconv_timings_sum *sum = report->cold ? &total->cold : &total->warm;
  sum->images++;
  sum->kernel_ms += report->timings.kernel_ms;
  sum->bytes += report->plan.bytes;
  sum->flop += report->plan.flop;
  total->pixels += report->pixels;
  note(total->algorithm, sizeof total->algorithm, report->plan.algorithm);
  note(total->math, sizeof total->math, report->plan.math);
}

/* Returns the sums for speeds: of the warm executions, or of the cold ones if there are no others. */
static const gconv_timings_sum *speed_of(const gconv_timings_total *total) {
  return total->warm.images > 0 ? &total->warm : &total->cold;
}

/* Units of 10^9 a second; 0 if no time was measured. */
static double giga_per_s(double amount, double ms) {
  return ms > 0 ? amount / ms * 1e-6 : 0;
}

static double mpix_per_s(const gconv_timings_total *total, const gconv_batch_summary *summary) {
  return giga_per_s((double)total->pixels, summary->wall_ms) * 1e3;
}

/* ---- Table --------------------------------------------------------------------------------------------------------- */

static void print_row(const gconv_timings_total *total, const gconv_report *report) {
  if (total->inputs == 1)
    fprintf(total->out, "  decode    host  upload  kernel download  encode   total     image (times in ms)\n");
  const gconv_timings *timings = &report->timings;
  if (report->executed)
    gconv_print(total->out, "%8.2f%8.2f%8.2f%8.2f%9.2f%8.2f%8.2f     %s%s\n", report->decode_ms,
                timings->prepare_ms + timings->finish_ms, timings->upload_ms, timings->kernel_ms, timings->download_ms,
                report->encode_ms, report->total_ms, report->input->path, report->cold ? " (cold)" : "");
  else
    gconv_print(total->out, "%57s     %s (%s)\n", "", report->input->path, report->failed ? "failed" : "passed over");
}

static void print_summary(const gconv_timings_total *total, const gconv_batch_summary *summary) {
  const gconv_timings_sum *speed = speed_of(total);
  gconv_print(total->out, "device     %s (%s), started in %.1f ms, waited for %.1f ms\n", summary->device.name,
              summary->device.description, summary->device.start_ms, summary->device_wait_ms);
  if (summary->device_reason[0])
    gconv_print(total->out, "           because %s\n", summary->device_reason);
  if (speed->images > 0) {
    fprintf(total->out, "algorithm  %s, %s\n", total->algorithm, total->math);
    fprintf(total->out, "kernel     %.3g GB/s, %.3g GFLOP/s (%zu %s images)\n", giga_per_s(speed->bytes, speed->kernel_ms),
            giga_per_s(speed->flop, speed->kernel_ms), speed->images, speed == &total->warm ? "warm" : "cold");
  }
  fprintf(total->out, "images     %zu, %zu failed, %.3g Mpix in %.1f ms wall: %.4g Mpix/s\n", total->inputs, total->failed,
          (double)total->pixels * 1e-6, summary->wall_ms, mpix_per_s(total, summary));
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static json_t *json_paths(char *const *items, size_t count) {
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(array, gconv_json_text(items[i]));
  return array;
}

/* "a; b", or null. */
static json_t *json_errors(const gconv_texts *errors) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = errors->count > 0 ? open_memstream(&text, &size) : NULL;
  if (!out)
    return json_null();
  for (size_t i = 0; i < errors->count; i++)
    fprintf(out, "%s%s", i > 0 ? "; " : "", errors->items[i]);
  json_t *string = fclose(out) == 0 && text ? gconv_json_text(text) : json_null();
  free(text);
  return string;
}

/* Rounds to microseconds, the precision of the clocks. */
static json_t *json_ms(double ms) {
  return json_real((double)(int64_t)(ms * 1e3 + 0.5) * 1e-3);
}

static json_t *json_rate(double amount, double ms) {
  return ms > 0 ? json_real(giga_per_s(amount, ms)) : json_null();
}

static json_t *describe_execution(const gconv_report *report) {
  const gconv_plan_info *plan = &report->plan;
  const gconv_timings *timings = &report->timings;
  return json_pack("{s:o, s:o, s:o, s:[i,i,i,i], s:[i,i,i], s:[i,i,i,i], s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
                   "s:o, s:o, s:b}",
                   "device", gconv_json_text(plan->device), "algorithm", gconv_json_text(plan->algorithm), "math",
                   gconv_json_text(plan->math), "input_shape", (int)plan->frames, (int)plan->channels, (int)plan->height,
                   (int)plan->width, "filter_shape", (int)plan->filters, (int)plan->rows, (int)plan->columns, "output_shape",
                   (int)plan->frames, (int)plan->out_channels, (int)plan->out_height, (int)plan->out_width, "decode_ms",
                   json_ms(report->decode_ms), "wait_ms", json_ms(report->wait_ms), "plan_ms", json_ms(report->plan_ms),
                   "prepare_ms", json_ms(timings->prepare_ms), "upload_ms", json_ms(timings->upload_ms), "kernel_ms",
                   json_ms(timings->kernel_ms), "download_ms", json_ms(timings->download_ms), "finish_ms",
                   json_ms(timings->finish_ms), "encode_ms", json_ms(report->encode_ms), "total_ms",
                   json_ms(report->total_ms), "gb_per_s", json_rate(plan->bytes, timings->kernel_ms), "gflop_per_s",
                   json_rate(plan->flop, timings->kernel_ms), "cold", report->cold);
}

static void print_line(FILE *out, json_t *line) {
  gconv_tell_end(out, line, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

static void print_json(const gconv_timings_total *total, const gconv_report *report) {
  json_t *line = json_pack("{s:o, s:o, s:I, s:I, s:I}", "input", gconv_json_text(report->input->path), "outputs",
                           json_paths(report->outputs, report->output_count), "written", (json_int_t)report->written,
                           "passed_over", (json_int_t)report->passed, "failed", (json_int_t)report->failed);
  json_t *execution = report->executed ? describe_execution(report) : NULL;
  json_object_update(line, execution);
  json_decref(execution);
  if (report->verified) {
    json_object_set_new(line, "max_error", json_real(report->verification.max_error));
    json_object_set_new(line, "allowed_error", json_real(report->verification.allowed));
  }
  json_object_set_new(line, "error", json_errors(report->errors));
  print_line(total->out, line);
}

static void print_json_summary(const gconv_timings_total *total, const gconv_batch_summary *summary) {
  const gconv_timings_sum *speed = speed_of(total);
  const bool any = speed->images > 0;
  print_line(total->out,
             json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:I, s:I, s:o, s:o}}",
                       "summary", "images", (json_int_t)total->inputs, "failed", (json_int_t)total->failed,
                       "results_written", (json_int_t)summary->written, "results_passed_over", (json_int_t)summary->passed,
                       "results_failed", (json_int_t)summary->failed, "device", gconv_json_text(summary->device.name),
                       "description", gconv_json_text(summary->device.description), "algorithm",
                       gconv_json_text(any ? total->algorithm : NULL), "math", gconv_json_text(any ? total->math : NULL),
                       "device_reason", gconv_json_text(summary->device_reason[0] ? summary->device_reason : NULL),
                       "device_start_ms", json_ms(summary->device.start_ms), "device_wait_ms",
                       json_ms(summary->device_wait_ms), "wall_ms", json_ms(summary->wall_ms), "mpix",
                       (double)total->pixels * 1e-6, "mpix_per_s", mpix_per_s(total, summary), "cold_images",
                       (json_int_t)total->cold.images, "warm_images", (json_int_t)total->warm.images, "gb_per_s",
                       json_rate(speed->bytes, speed->kernel_ms), "gflop_per_s", json_rate(speed->flop, speed->kernel_ms)));
}

/* ---- Either -------------------------------------------------------------------------------------------------------- */

void gconv_timings_report(gconv_timings_total *total, const gconv_report *report) {
  count(total, report);
  if (total->style == GCONV_TIMINGS_JSON)
    print_json(total, report);
  else if (total->style == GCONV_TIMINGS_TABLE)
    print_row(total, report);
}

void gconv_timings_end(const gconv_timings_total *total, const gconv_batch_summary *summary) {
  if (total->style == GCONV_TIMINGS_JSON)
    print_json_summary(total, summary);
  else if (total->style == GCONV_TIMINGS_TABLE)
    print_summary(total, summary);
}

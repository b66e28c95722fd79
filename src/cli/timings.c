/* SPDX-License-Identifier: MIT */
#include "cli/timings.h"
#include "base/memory.h"
#include "cli/telling.h"

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

/* Returns units of 10^9 a second; 0 if no time was measured. */
static double giga_per_s(double amount, double ms) {
  return ms > 0 ? amount / ms * 1e-6 : 0;
}

static double mpix_per_s(const gconv_timings_total *total, const gconv_batch_summary *summary) {
  return giga_per_s((double)total->pixels, summary->wall_ms) * 1e3;
}

/* ---- Parts of JSON ------------------------------------------------------------------------------------------------- */

static json_t *json_paths(char *const *items, size_t count) {
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(array, gconv_json_text(items[i]));
  return array;
}

/* Returns all errors as one text, "a; b", or null. */
static json_t *json_errors(const gconv_texts *errors) {
  GCONV_FREED char *text = NULL;
  size_t size = 0;
  FILE *out = errors->count > 0 ? open_memstream(&text, &size) : NULL;
  if (!out)
    return json_null();
  for (size_t i = 0; i < errors->count; i++)
    fprintf(out, "%s%s", i > 0 ? "; " : "", errors->items[i]);
  return fclose(out) == 0 && text ? gconv_json_text(text) : json_null();
}

/* Rounds to microseconds, the precision of the clocks. */
static double rounded(double ms) {
  return (double)(int64_t)(ms * 1e3 + 0.5) * 1e-3;
}

/* Returns units of 10^9 a second; NAN, which is null, if no time was measured. */
static double rate(double amount, double ms) {
  return ms > 0 ? giga_per_s(amount, ms) : NAN;
}

#define TELL_MS(telling, key, format, ms) GCONV_TELL_IF(true, telling, key, format, rounded(ms), ms)

/* ---- An image ------------------------------------------------------------------------------------------------------ */

static json_t *describe_shape(size_t frames, int32_t channels, int32_t height, int32_t width) {
  return json_pack("[i,i,i,i]", (int)frames, (int)channels, (int)height, (int)width);
}

static void tell_execution(const gconv_telling *t, const gconv_report *report) {
  const gconv_plan_info *plan = &report->plan;
  const gconv_timings *timings = &report->timings;
  gconv_tell_json(t, "device", plan->device);
  gconv_tell_json(t, "algorithm", plan->algorithm);
  gconv_tell_json(t, "math", plan->math);
  gconv_tell_json(t, "input_shape", describe_shape(plan->frames, plan->channels, plan->height, plan->width));
  gconv_tell_json(t, "filter_shape", json_pack("[i,i,i]", (int)plan->filters, (int)plan->rows, (int)plan->columns));
  gconv_tell_json(t, "output_shape", describe_shape(plan->frames, plan->out_channels, plan->out_height, plan->out_width));
  TELL_MS(t, "decode_ms", "%8.2f", report->decode_ms);
  gconv_tell_json(t, "wait_ms", rounded(report->wait_ms));
  gconv_tell_json(t, "plan_ms", rounded(report->plan_ms));
  gconv_tell_json(t, "prepare_ms", rounded(timings->prepare_ms));
  gconv_tell_text(t, "%8.2f", timings->prepare_ms + timings->finish_ms);
  TELL_MS(t, "upload_ms", "%8.2f", timings->upload_ms);
  TELL_MS(t, "kernel_ms", "%8.2f", timings->kernel_ms);
  TELL_MS(t, "download_ms", "%9.2f", timings->download_ms);
  gconv_tell_json(t, "finish_ms", rounded(timings->finish_ms));
  TELL_MS(t, "encode_ms", "%8.2f", report->encode_ms);
  TELL_MS(t, "total_ms", "%8.2f", report->total_ms);
  gconv_tell_json(t, "gb_per_s", rate(plan->bytes, timings->kernel_ms));
  gconv_tell_json(t, "gflop_per_s", rate(plan->flop, timings->kernel_ms));
  gconv_tell_json(t, "cold", report->cold);
  gconv_tell_text(t, "     %s%s\n", report->input->path, report->cold ? " (cold)" : "");
}

static void tell_image(const gconv_telling *t, const gconv_report *report) {
  gconv_tell_json(t, "input", report->input->path);
  gconv_tell_json(t, "outputs", json_paths(report->outputs, report->output_count));
  gconv_tell_json(t, "written", report->written);
  gconv_tell_json(t, "passed_over", report->passed);
  gconv_tell_json(t, "failed", report->failed);
  if (report->executed)
    tell_execution(t, report);
  else
    gconv_tell_text(t, "%57s     %s (%s)\n", "", report->input->path, report->failed ? "failed" : "passed over");
  if (report->verified) {
    gconv_tell_json(t, "max_error", report->verification.max_error);
    gconv_tell_json(t, "allowed_error", report->verification.allowed);
  }
  gconv_tell_json(t, "error", json_errors(report->errors));
}

/* ---- The summary --------------------------------------------------------------------------------------------------- */

static void tell_summary(const gconv_telling *t, const gconv_timings_total *total, const gconv_batch_summary *summary) {
  const gconv_timings_sum *speed = speed_of(total);
  const bool any = speed->images > 0;
  const char *reason = summary->device_reason[0] ? summary->device_reason : NULL;
  gconv_tell(t, "device", "device     %s", summary->device.name);
  gconv_tell(t, "description", " (%s)", summary->device.description);
  TELL_MS(t, "device_start_ms", ", started in %.1f ms", summary->device.start_ms);
  TELL_MS(t, "device_wait_ms", ", waited for %.1f ms\n", summary->device_wait_ms);
  GCONV_TELL_IF(reason, t, "device_reason", "           because %s\n", reason, reason);
  GCONV_TELL_IF(any, t, "algorithm", "algorithm  %s", any ? total->algorithm : NULL, total->algorithm);
  GCONV_TELL_IF(any, t, "math", ", %s\n", any ? total->math : NULL, total->math);
  GCONV_TELL_IF(any, t, "gb_per_s", "kernel     %.3g GB/s", rate(speed->bytes, speed->kernel_ms),
                giga_per_s(speed->bytes, speed->kernel_ms));
  GCONV_TELL_IF(any, t, "gflop_per_s", ", %.3g GFLOP/s", rate(speed->flop, speed->kernel_ms),
                giga_per_s(speed->flop, speed->kernel_ms));
  gconv_tell_json(t, "cold_images", total->cold.images);
  gconv_tell_json(t, "warm_images", total->warm.images);
  if (any)
    gconv_tell_text(t, " (%zu %s images)\n", speed->images, speed == &total->warm ? "warm" : "cold");
  gconv_tell(t, "images", "images     %zu", total->inputs);
  gconv_tell(t, "failed", ", %zu failed", total->failed);
  gconv_tell_json(t, "results_written", summary->written);
  gconv_tell_json(t, "results_passed_over", summary->passed);
  gconv_tell_json(t, "results_failed", summary->failed);
  gconv_tell(t, "mpix", ", %.3g Mpix", (double)total->pixels * 1e-6);
  TELL_MS(t, "wall_ms", " in %.1f ms wall", summary->wall_ms);
  gconv_tell(t, "mpix_per_s", ": %.4g Mpix/s\n", mpix_per_s(total, summary));
}

/* ---- Text or JSON -------------------------------------------------------------------------------------------------- */

/* Returns a JSON object if that is wanted, or NULL for text. */
static json_t *new_json(const gconv_timings_total *total) {
  return total->style == GCONV_TIMINGS_JSON ? json_object() : NULL;
}

static void print_line(FILE *out, json_t *line) {
  gconv_tell_end(out, line, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

void gconv_timings_report(gconv_timings_total *total, const gconv_report *report) {
  count(total, report);
  if (total->style == GCONV_TIMINGS_NONE)
    return;
  json_t *line = new_json(total);
  if (!line && total->inputs == 1)
    fprintf(total->out, "  decode    host  upload  kernel download  encode   total     image (times in ms)\n");
  tell_image(&(gconv_telling){total->out, line}, report);
  print_line(total->out, line);
}

void gconv_timings_end(const gconv_timings_total *total, const gconv_batch_summary *summary) {
  if (total->style == GCONV_TIMINGS_NONE)
    return;
  json_t *json = new_json(total);
  tell_summary(&(gconv_telling){total->out, json}, total, summary);
  print_line(total->out, json ? json_pack("{s:o}", "summary", json) : NULL);
}

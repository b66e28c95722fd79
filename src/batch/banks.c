/* SPDX-License-Identifier: MIT */
#include "batch/bank_run.h"
#include "batch/worker.h"

#include <stdlib.h>
#include <string.h>

gconv_status gconv_bank_keep_text(gconv_message *why, gconv_status status) {
  return status == GCONV_OK ? GCONV_OK : gconv_complain(why, status, "%s", gconv_last_error());
}

void gconv_bank_hand_in(gconv_bank_run *r, gconv_report *report) {
  gconv_batch_summary *summary = r->summary;
  report->elapsed_ms = gconv_worker_clock_ms() - r->begin_ms;
  summary->begun++;
  summary->written += report->written;
  summary->passed += report->passed;
  summary->failed += report->failed;
  r->job->common.report(report, r->job->common.user);
}

gconv_report gconv_bank_begin_report(const gconv_bank_run *r, size_t input, const gconv_texts *errors) {
  const gconv_batch *common = &r->job->common;
  gconv_report report = {.input = &common->inputs->items[input], .errors = errors, .outputs = common->outputs->paths.items};
  report.output_count = 1;
  if (!r->job->one_tensor) {
    report.outputs += common->outputs->first[input];
    report.output_count = common->outputs->first[input + 1] - common->outputs->first[input];
  }
  return report;
}

/* ---- The device ---- */

/* Whether the CPU has the algorithm that is asked for. */
static bool cpu_has(const char *algorithm) {
  const gconv_algorithm_info *info;
  for (size_t i = 0; algorithm && (info = gconv_layer_algorithm_at(i)); i++)
    if (strcmp(info->device, "cpu") == 0 && strcmp(info->name, algorithm) == 0)
      return true;
  return !algorithm || strcmp(algorithm, "auto") == 0;
}

static gconv_status begin_device(gconv_bank_run *r, const gconv_bank_cost *total, gconv_message *message) {
  const char *name = r->job->common.device;
  if (strcmp(name, "auto") == 0 && cpu_has(r->job->options.algorithm)) {
    gconv_job job = {.likes = r->headers, .like_count = 1, .images = r->job->common.inputs->count};
    job.cpu_ms = total->cpu_ms;
    job.gpu_ms = total->gpu_ms;
    GCONV_TRY(gconv_bank_keep_text(message, gconv_device_choose(r->planner, &job, &r->choice)));
    name = r->choice.name;
  }
  return gconv_bank_keep_text(message, gconv_device_open_begin(name, r->threads, &r->opening));
}

static gconv_status wait_for_device(gconv_bank_run *r) {
  if (r->device)
    return GCONV_OK;
  double begin = gconv_worker_clock_ms();
  gconv_status status = gconv_bank_keep_text(&r->why, gconv_device_open_end(r->opening, &r->device));
  r->opening = NULL;
  r->summary->device_wait_ms = gconv_worker_clock_ms() - begin;
  if (status != GCONV_OK)
    return status;
  r->summary->device = *gconv_device_get_info(r->device);
  r->summary->device_start_ms = gconv_device_start_ms(r->device);
  memcpy(r->summary->device_reason, r->choice.reason, sizeof r->summary->device_reason);
  return GCONV_OK;
}

/* ---- Convolving ---- */

static gconv_status ensure_network(gconv_bank_run *r, const gconv_image *like) {
  r->cold = !r->network || !gconv_network_fits(r->network, like);
  if (!r->cold)
    return GCONV_OK;
  gconv_network_free(r->network);
  gconv_image_free(&r->maps);
  r->network = NULL;
  return gconv_network_create(r->device, like, r->job->layers, r->job->layer_count, &r->job->options, &r->network);
}

static void describe(const gconv_bank_run *r, const gconv_bank_loaded *l, gconv_plan_info *plan) {
  const gconv_layer_info *first = gconv_network_get_info(r->network, 0), *info;
  const gconv_image *out = gconv_network_output_header(r->network);
  double images = (double)l->count;
  *plan = (gconv_plan_info){.device = gconv_device_get_info(r->device)->name,
                            .algorithm = first->algorithm,
                            .math = first->math,
                            .exact = true,
                            .frames = l->image.frames / (int32_t)l->count,
                            .channels = l->image.channels,
                            .height = l->image.height,
                            .width = l->image.width,
                            .rows = first->rows,
                            .columns = first->columns,
                            .out_height = out->height,
                            .out_width = out->width,
                            .out_channels = out->channels,
                            .input_type = l->image.type,
                            .output_type = GCONV_F32};
  for (size_t i = 0; (info = gconv_network_get_info(r->network, i)); i++) {
    plan->exact = plan->exact && info->exact;
    plan->algorithm = strcmp(plan->algorithm, info->algorithm) == 0 ? info->algorithm : "several";
    plan->math = strcmp(plan->math, info->math) == 0 ? info->math : "several";
    plan->filters = info->filters;
    plan->flop += info->flop / images;
    plan->estimate_ms += info->estimate_ms / images;
    plan->error_bound = info->error_bound > plan->error_bound ? info->error_bound : plan->error_bound;
    plan->workspace_bytes = info->workspace_bytes > plan->workspace_bytes ? info->workspace_bytes : plan->workspace_bytes;
    plan->bytes +=
        4.0 / images * info->images *
        ((double)info->channels * info->height * info->width + (double)info->filters * info->out_height * info->out_width);
  }
}

/* What is common to the reports of a batch. */
typedef struct outcome {
  gconv_report report; /* times are those of one image: its share */
  char *explanation;
} outcome;

static gconv_status convolve(gconv_bank_run *r, const gconv_bank_loaded *l, outcome *o) {
  gconv_report *report = &o->report;
  double begin = gconv_worker_clock_ms(), images = (double)l->count;
  GCONV_TRY(ensure_network(r, &l->image));
  report->plan_ms = r->cold ? (gconv_worker_clock_ms() - begin) / images : 0;
  report->cold = r->cold;
  if (r->cold && r->job->common.explain && r->summary->begun == 0)
    GCONV_TRY(gconv_network_explain(r->network, &o->explanation));
  gconv_timings times;
  GCONV_TRY(gconv_network_execute(r->network, &l->image, &r->maps, &times));
  report->total_ms = (gconv_worker_clock_ms() - begin) / images;
  report->timings = (gconv_timings){times.prepare_ms / images, times.upload_ms / images, times.kernel_ms / images,
                                    times.download_ms / images, times.finish_ms / images};
  report->executed = true;
  report->pixels = (uint64_t)(l->image.frames / (int32_t)l->count) * (uint64_t)l->image.height * (uint64_t)l->image.width;
  describe(r, l, &report->plan);
  if (!r->job->common.verify)
    return GCONV_OK;
  gconv_status status =
      gconv_network_verify(r->network, &l->image, &r->maps, r->job->common.tolerance, &report->verification);
  report->verified = status == GCONV_OK || status == GCONV_MISMATCH;
  return status;
}

/* ---- A batch ---- */

/* Hands in those that failed before they could be convolved. */
static void report_unread(gconv_bank_run *r, const gconv_bank_loaded *l) {
  for (size_t i = 0; i < l->errors.count; i++) {
    gconv_texts errors = {0};
    gconv_message text;
    gconv_complain(&text, GCONV_IO_ERROR, "%s", l->errors.items[i]);
    gconv_texts_add(&errors, strdup(text.text));
    gconv_report report = gconv_bank_begin_report(r, l->failed[i], &errors);
    report.failed = report.output_count;
    gconv_bank_hand_in(r, &report);
    gconv_texts_free(&errors);
  }
}

static gconv_report make_report(const gconv_bank_run *r, const gconv_bank_loaded *l, size_t i, const outcome *o,
                                const gconv_texts *errors) {
  gconv_report bare = gconv_bank_begin_report(r, l->inputs[i], errors), report = o->report;
  report.input = bare.input;
  report.outputs = bare.outputs;
  report.output_count = bare.output_count;
  report.errors = errors;
  report.decode_ms = l->decode_ms[i];
  report.explanation = i == 0 ? o->explanation : NULL;
  report.device_reason = r->summary->device_reason;
  report.cold = o->report.cold && i == 0;
  return report;
}

static void process(gconv_bank_run *r, const gconv_bank_loaded *l) {
  outcome o = {0};
  gconv_report *reports = calloc(l->count, sizeof *reports);
  gconv_texts *errors = calloc(l->count, sizeof *errors);
  gconv_message why = {""};
  gconv_status status = reports && errors ? gconv_bank_keep_text(&why, convolve(r, l, &o)) : gconv_complain_memory(&why);
  for (size_t i = 0; i < l->count && reports && errors; i++)
    reports[i] = make_report(r, l, i, &o, &errors[i]);
  if (status == GCONV_OK)
    status = gconv_bank_keep_text(&why, gconv_bank_write_batch(r, l, reports, errors));
  for (size_t i = 0; i < l->count && reports && errors; i++) {
    gconv_report *report = &reports[i];
    if (status != GCONV_OK) {
      report->failed = report->output_count;
      gconv_complain(&r->why, status, "%s: %s", report->input->path, why.text);
      gconv_texts_add(&errors[i], strdup(r->why.text));
    }
    report->written += status == GCONV_OK && r->job->one_tensor && i == 0 && !r->summary->written;
    report->total_ms += report->decode_ms + report->encode_ms;
    gconv_bank_hand_in(r, report);
    gconv_texts_free(&errors[i]);
  }
  free(o.explanation);
  free(reports);
  free(errors);
}

/* Decodes, convolves and writes all batches, each while the next is decoded. */
static gconv_status process_all(gconv_bank_run *r, gconv_message *message) {
  gconv_bank_loader ahead;
  gconv_status status = GCONV_OK;
  gconv_bank_begin_loading(r, 0, &ahead);
  for (size_t i = 0; i < r->batch_count; i++) {
    gconv_bank_loaded now = {0};
    gconv_status loading = gconv_bank_end_loading(&ahead, &now, message);
    bool stop = status != GCONV_OK || loading != GCONV_OK || (r->job->common.fail_fast && r->summary->failed > 0);
    gconv_bank_begin_loading(r, stop ? r->batch_count : i + 1, &ahead);
    status = status == GCONV_OK ? loading : status;
    if (status == GCONV_OK && !stop) {
      report_unread(r, &now);
      status = now.count > 0 ? wait_for_device(r) : GCONV_OK;
      if (status != GCONV_OK)
        *message = r->why;
      else if (now.count > 0)
        process(r, &now);
    }
    gconv_bank_unload(&now);
    if (stop || status != GCONV_OK) {
      if (ahead.batch) {
        gconv_bank_end_loading(&ahead, &now, &r->why);
        gconv_bank_unload(&now);
      }
      break;
    }
  }
  return status;
}

static gconv_status run_all(gconv_bank_run *r, gconv_message *message) {
  gconv_bank_cost total = {0};
  const gconv_batch *common = &r->job->common;
  if (r->job->one_tensor && common->existing == GCONV_EXISTING_KEEP && gconv_output_exists(common->outputs->paths.items[0]))
    return gconv_complain(message, GCONV_EXISTS, "%s: exists and is kept (--no-clobber)", common->outputs->paths.items[0]);
  gconv_bank_read_headers(r);
  GCONV_TRY(gconv_bank_check_one_shape(r, message));
  GCONV_TRY(gconv_bank_make_batches(r, &total, message));
  if (r->batch_count == 0)
    return GCONV_OK;
  GCONV_TRY(begin_device(r, &total, message));
  gconv_status status = process_all(r, message);
  gconv_status tensor = gconv_bank_finish_tensor(r, message);
  return status == GCONV_OK ? tensor : status;
}

static void close_all(gconv_bank_run *r) {
  gconv_network_free(r->network);
  gconv_image_free(&r->maps);
  if (r->opening)
    gconv_device_open_end(r->opening, &r->device);
  gconv_device_close(r->device);
  gconv_device_close(r->planner);
  free(r->headers);
  free(r->order);
  free(r->batches);
}

gconv_status gconv_bank_batch_run(const gconv_bank_batch *job, gconv_batch_summary *summary, gconv_message *message) {
  size_t count = job->common.inputs->count;
  gconv_bank_run r = {.job = job, .summary = summary, .begin_ms = gconv_worker_clock_ms()};
  *summary = (gconv_batch_summary){0};
  r.threads = job->common.threads > 0 ? job->common.threads : gconv_processor_count();
  r.order = calloc(count, sizeof *r.order);
  r.batches = calloc(count, sizeof *r.batches);
  r.headers = calloc(count, sizeof *r.headers);
  gconv_status status = r.order && r.batches && r.headers ? GCONV_OK : gconv_complain_memory(message);
  if (status == GCONV_OK)
    status = gconv_bank_keep_text(message, gconv_device_open("cpu", r.threads, &r.planner));
  if (status == GCONV_OK)
    status = run_all(&r, message);
  close_all(&r);
  for (size_t i = summary->begun; i < count && status == GCONV_OK; i++)
    summary->failed++;
  summary->wall_ms = gconv_worker_clock_ms() - r.begin_ms;
  return status;
}

/* SPDX-License-Identifier: MIT */
#include "batch/bank_run.h"
#include "batch/worker.h"

#include <stdio.h>
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
  for (int f = 0; f < GCONV_FINDINGS; f++)
    summary->found[f] += report->found[f];
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
  for (size_t n = 0; r->findings && n < report.output_count; n++)
    report.found[r->findings[common->outputs->first[input] + n]]++;
  return report;
}

void gconv_bank_add_error(gconv_texts *errors, const char *path, gconv_status status, const char *why) {
  gconv_message text;
  bool named = strncmp(why, path, strlen(path)) == 0;
  gconv_complain(&text, status, "%s%s%s", named ? "" : path, named ? "" : ": ", why);
  gconv_texts_add(errors, strdup(text.text));
}

/* ---- The device ---- */

static bool cpu_has_algorithm(const char *algorithm) {
  const gconv_algorithm_info *info;
  for (size_t i = 0; algorithm && (info = gconv_layer_algorithm_at(i)); i++)
    if (strcmp(info->device, "cpu") == 0 && strcmp(info->name, algorithm) == 0)
      return true;
  return !algorithm || strcmp(algorithm, "auto") == 0;
}

/* Whether the CPU has the algorithms that are asked for. */
static bool cpu_suffices(const gconv_bank_run *r) {
  bool good = cpu_has_algorithm(r->job->options.algorithm);
  for (size_t i = 0; i < r->job->layer_count; i++)
    good = good && cpu_has_algorithm(r->job->layers[i].algorithm);
  return good;
}

static gconv_status begin_device(gconv_bank_run *r, const gconv_bank_cost *total, gconv_message *message) {
  const char *name = r->job->common.device;
  if (strcmp(name, "auto") == 0 && cpu_suffices(r)) {
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

static void drop_network(gconv_bank_run *r) {
  gconv_network_free(r->network);
  gconv_image_free(&r->maps);
  r->network = NULL;
}

static gconv_status make_network(gconv_bank_run *r, gconv_device *device, const gconv_image *like, int32_t rows) {
  gconv_network_options options = r->job->options;
  options.rows = rows;
  r->at = device;
  r->part = like->frames;
  return gconv_network_create(device, like, r->job->layers, r->job->layer_count, &options, &r->network);
}

/* The CPU, for what a GPU has no memory for, if the user left the device open. */
static gconv_device *spare_of(const gconv_bank_run *r) {
  return strcmp(r->job->common.device, "auto") == 0 && cpu_suffices(r) ? r->planner : NULL;
}

static bool is_gpu(const gconv_bank_run *r) {
  return strncmp(gconv_device_get_info(r->device)->name, "cuda", 4) == 0;
}

static gconv_status make_on_cpu(gconv_bank_run *r, const gconv_image *like, int32_t rows, gconv_status status) {
  gconv_device *spare = spare_of(r);
  if (!spare)
    return status;
  snprintf(r->remark, sizeof r->remark, "%s, so the CPU takes it", gconv_last_error());
  return make_network(r, spare, like, rows);
}

/* The network for images like `like`: on a GPU without memory for so many, for half as many at a time, and so on. */
static gconv_status ensure_network(gconv_bank_run *r, const gconv_image *like) {
  gconv_image part = *like;
  part.frames = r->part;
  r->cold = !r->network || r->rows != 0 || r->asked != like->frames || !gconv_network_fits(r->network, &part);
  part.frames = like->frames;
  if (!r->cold)
    return GCONV_OK;
  drop_network(r);
  r->rows = 0;
  r->asked = like->frames;
  r->remark[0] = '\0';
  gconv_status status = make_network(r, r->device, &part, 0);
  while (status == GCONV_NO_MEMORY && is_gpu(r) && part.frames > 1) {
    part.frames = (part.frames + 1) / 2;
    snprintf(r->remark, sizeof r->remark, "%s, so it takes %d images at a time", gconv_last_error(), part.frames);
    status = make_network(r, r->device, &part, 0);
  }
  return status;
}

gconv_status gconv_bank_rows_network(gconv_bank_run *r, const gconv_image *like, int32_t rows) {
  enum { LEAST_ROWS = 16 };
  r->cold = !r->network || r->rows != rows || !gconv_network_fits(r->network, like);
  if (!r->cold)
    return GCONV_OK;
  drop_network(r);
  r->rows = rows;
  r->remark[0] = '\0';
  gconv_status status = make_network(r, r->device, like, rows);
  while (status == GCONV_NO_MEMORY && is_gpu(r) && rows > LEAST_ROWS) {
    rows = (rows + 1) / 2;
    snprintf(r->remark, sizeof r->remark, "%s, so it takes %d rows at a time", gconv_last_error(), rows);
    status = make_network(r, r->device, like, rows);
  }
  return status == GCONV_NO_MEMORY && is_gpu(r) ? make_on_cpu(r, like, r->rows, status) : status;
}

void gconv_bank_describe(const gconv_bank_run *r, const gconv_image *header, int32_t count, gconv_plan_info *plan) {
  const gconv_layer_info *first = gconv_network_get_info(r->network, 0), *info;
  const gconv_image *out = gconv_network_output_header(r->network);
  double images = (double)r->part * count / header->frames; /* inputs that an execution takes */
  *plan = (gconv_plan_info){.device = gconv_device_get_info(r->at)->name,
                            .algorithm = first->algorithm,
                            .math = first->math,
                            .exact = true,
                            .frames = header->frames / count,
                            .channels = header->channels,
                            .height = header->height,
                            .width = header->width,
                            .rows = first->rows,
                            .columns = first->columns,
                            .out_width = out->width,
                            .out_channels = out->channels,
                            .input_type = header->type,
                            .output_type = GCONV_F32};
  for (size_t i = 0; (info = gconv_network_get_info(r->network, i)); i++) {
    plan->exact = plan->exact && info->exact;
    plan->algorithm = strcmp(plan->algorithm, info->algorithm) == 0 ? info->algorithm : "several";
    plan->math = strcmp(plan->math, info->math) == 0 ? info->math : "several";
    plan->filters = info->filters;
    plan->out_height = info->out_height;
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
  bool by_bands; /* nothing was done, as the device has no memory for one image */
} outcome;

/* Frames of an image. */
static gconv_image frames_of(const gconv_image *image, int32_t first, int32_t count) {
  size_t planes = image->planar ? (size_t)image->channels : 1;
  gconv_image part = *image;
  part.frames = count;
  part.data = (uint8_t *)image->data + (size_t)first * planes * image->plane_bytes;
  return part;
}

/* The maps of all frames, as many at a time as the network takes; the last ones may repeat some of those before. */
static gconv_status execute(gconv_bank_run *r, const gconv_image *image, gconv_report *report) {
  if (r->part == image->frames)
    return gconv_network_execute(r->network, image, &r->maps, &report->timings);
  if (!r->maps.data) {
    r->maps = *gconv_network_output_header(r->network);
    r->maps.frames = image->frames;
    gconv_status status = gconv_image_allocate(&r->maps);
    if (status != GCONV_OK) {
      r->maps = (gconv_image){0};
      return status;
    }
  }
  gconv_status status = GCONV_OK;
  for (int32_t at = 0; at < image->frames && status == GCONV_OK; at += r->part) {
    int32_t first = at < image->frames - r->part ? at : image->frames - r->part;
    gconv_image in = frames_of(image, first, r->part), out = frames_of(&r->maps, first, r->part);
    gconv_timings times;
    status = gconv_network_execute(r->network, &in, &out, &times);
    report->timings.prepare_ms += times.prepare_ms;
    report->timings.upload_ms += times.upload_ms;
    report->timings.kernel_ms += times.kernel_ms;
    report->timings.download_ms += times.download_ms;
    report->timings.finish_ms += times.finish_ms;
  }
  return status;
}

static gconv_status verify(const gconv_bank_run *r, const gconv_image *image, gconv_report *report) {
  gconv_status status = GCONV_OK;
  uint64_t compared = 0;
  for (int32_t at = 0; at < image->frames && status == GCONV_OK; at += r->part) {
    int32_t first = at < image->frames - r->part ? at : image->frames - r->part;
    gconv_image in = frames_of(image, first, r->part), out = frames_of(&r->maps, first, r->part);
    status = gconv_network_verify(r->network, &in, &out, r->job->common.tolerance, &report->verification);
    compared += report->verification.compared;
  }
  report->verification.compared = compared;
  report->verified = status == GCONV_OK || status == GCONV_MISMATCH;
  return status;
}

/* With the network that there is. */
static gconv_status run_network(gconv_bank_run *r, const gconv_bank_loaded *l, outcome *o) {
  gconv_report *report = &o->report;
  double begin = gconv_worker_clock_ms(), images = (double)l->count;
  report->cold = r->cold;
  report->remark = r->remark[0] ? r->remark : NULL;
  if (r->cold && r->job->common.explain && r->summary->begun == 0)
    GCONV_TRY(gconv_network_explain(r->network, &o->explanation));
  GCONV_TRY(execute(r, &l->image, report));
  gconv_timings *times = &report->timings;
  *times = (gconv_timings){times->prepare_ms / images,  times->upload_ms / images, times->kernel_ms / images,
                           times->download_ms / images, times->finish_ms / images, 0};
  report->total_ms = report->plan_ms + (gconv_worker_clock_ms() - begin) / images;
  report->executed = true;
  report->pixels = (uint64_t)(l->image.frames / (int32_t)l->count) * (uint64_t)l->image.height * (uint64_t)l->image.width;
  gconv_bank_describe(r, &l->image, (int32_t)l->count, &report->plan);
  return r->job->common.verify ? verify(r, &l->image, report) : GCONV_OK;
}

/* GCONV_NO_MEMORY before anything is done: bands may take less. */
static gconv_status convolve(gconv_bank_run *r, const gconv_bank_loaded *l, outcome *o) {
  double begin = gconv_worker_clock_ms();
  bool single = l->image.frames == (int32_t)l->count && !r->job->common.verify;
  gconv_status status = ensure_network(r, &l->image);
  if (status == GCONV_NO_MEMORY && is_gpu(r) && !single)
    status = make_on_cpu(r, &l->image, 0, status);
  o->by_bands = status == GCONV_NO_MEMORY && is_gpu(r) && single;
  if (status != GCONV_OK)
    return status;
  o->report.plan_ms = r->cold ? (gconv_worker_clock_ms() - begin) / (double)l->count : 0;
  return run_network(r, l, o);
}

/* ---- A batch ---- */

/* Hands in an input of which nothing was made. */
static void refuse_input(gconv_bank_run *r, size_t input, gconv_status status, const char *why) {
  gconv_texts errors = {0};
  gconv_report report = gconv_bank_begin_report(r, input, &errors);
  report.failed = report.output_count;
  gconv_bank_add_error(&errors, report.input->path, status, why);
  gconv_bank_hand_in(r, &report);
  gconv_texts_free(&errors);
}

/* Those that failed before they could be convolved. */
static void report_unread(gconv_bank_run *r, const gconv_bank_loaded *l) {
  for (size_t i = 0; i < l->errors.count; i++)
    refuse_input(r, l->failed[i], GCONV_IO_ERROR, l->errors.items[i]);
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
  memcpy(report.found, bare.found, sizeof report.found);
  report.device_reason = r->summary->device_reason;
  report.cold = o->report.cold && i == 0;
  report.remark = i == 0 && r->cold ? o->report.remark : NULL;
  return report;
}

/* Each image of a batch by bands of rows. */
static void process_by_bands(gconv_bank_run *r, const gconv_bank_loaded *l) {
  for (size_t i = 0; i < l->count; i++) {
    gconv_image image = frames_of(&l->image, (int32_t)i, 1);
    gconv_bank_group group = {0};
    gconv_message why;
    gconv_status status = gconv_bank_cut_for_device(r, l->inputs[i], &image, &group, &why);
    if (status == GCONV_OK)
      gconv_bank_process_bands(r, &group, l->inputs[i], &image);
    else
      refuse_input(r, l->inputs[i], status, why.text);
  }
}

static void process(gconv_bank_run *r, const gconv_bank_loaded *l) {
  outcome o = {0};
  gconv_report *reports = calloc(l->count, sizeof *reports);
  gconv_texts *errors = calloc(l->count, sizeof *errors);
  gconv_message why = {""};
  gconv_status status = reports && errors ? gconv_bank_keep_text(&why, convolve(r, l, &o)) : gconv_complain_memory(&why);
  if (o.by_bands) {
    process_by_bands(r, l);
    free(reports);
    free(errors);
    return;
  }
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

/* What becomes of a batch that is in memory, or is not to be. */
static gconv_status process_batch(gconv_bank_run *r, const gconv_bank_group *batch, const gconv_bank_loaded *l) {
  if (batch->refused) {
    refuse_input(r, r->order[batch->first], GCONV_TOO_LARGE, batch->refused);
    return GCONV_OK;
  }
  report_unread(r, l);
  if (l->count == 0 && batch->rows == 0)
    return GCONV_OK;
  GCONV_TRY(wait_for_device(r));
  if (batch->rows > 0)
    gconv_bank_process_bands(r, batch, r->order[batch->first], NULL);
  else
    process(r, l);
  return GCONV_OK;
}

/* Whether nothing more is to be begun: one array is whole, or is not there. */
static bool has_enough(const gconv_bank_run *r) {
  return (r->job->common.fail_fast || r->job->one_tensor) && r->summary->failed > 0;
}

/* Decodes, convolves and writes all batches, each while the next is decoded. */
static gconv_status process_all(gconv_bank_run *r, gconv_message *message) {
  gconv_bank_loader ahead;
  gconv_status status = GCONV_OK;
  bool stop = false;
  gconv_bank_begin_loading(r, 0, &ahead);
  for (size_t i = 0; i < r->batch_count && status == GCONV_OK && !stop; i++) {
    gconv_bank_loaded now = {0};
    status = gconv_bank_end_loading(&ahead, &now, message);
    stop = has_enough(r);
    gconv_bank_begin_loading(r, stop || status != GCONV_OK ? r->batch_count : i + 1, &ahead);
    if (status == GCONV_OK && !stop) {
      status = process_batch(r, &r->batches[i], &now);
      if (status != GCONV_OK)
        *message = r->why;
    }
    gconv_bank_unload(&now);
  }
  if (ahead.batch) { /* it was begun in vain */
    gconv_bank_loaded rest = {0};
    gconv_bank_end_loading(&ahead, &rest, &r->why);
    gconv_bank_unload(&rest);
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
  GCONV_TRY(gconv_bank_look_up(r, message));
  GCONV_TRY(gconv_bank_make_batches(r, &total, message));
  if (r->batch_count == 0)
    return GCONV_OK;
  GCONV_TRY(begin_device(r, &total, message));
  gconv_status status = process_all(r, message);
  gconv_status tensor = gconv_bank_tensor_finish(r, message);
  return status == GCONV_OK ? tensor : status;
}

static void close_all(gconv_bank_run *r) {
  gconv_network_free(r->network);
  gconv_image_free(&r->maps);
  if (r->opening)
    gconv_device_open_end(r->opening, &r->device);
  gconv_device_close(r->device);
  gconv_device_close(r->planner);
  for (size_t i = 0; i < r->batch_count; i++)
    free(r->batches[i].refused);
  free(r->findings);
  free(r->prints);
  free(r->headers);
  free(r->order);
  free(r->batches);
}

gconv_status gconv_bank_batch_run(const gconv_bank_batch *job, gconv_batch_summary *summary, gconv_message *message) {
  size_t count = job->common.inputs->count;
  gconv_bank_run r = {.job = job, .summary = summary, .begin_ms = gconv_worker_clock_ms()};
  *summary = (gconv_batch_summary){0};
  r.threads = job->common.threads > 0 ? job->common.threads : gconv_processor_count();
  gconv_budget *budget = gconv_budget_create(job->common.memory);
  r.memory = budget ? gconv_budget_bytes(budget) : 1;
  gconv_budget_free(budget);
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

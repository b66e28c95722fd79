/* SPDX-License-Identifier: MIT */
#include "batch/bank_run.h"
#include "batch/budget.h"
#include "batch/clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- Convolving ---- */

/* What is common to the reports of a batch. */
typedef struct outcome {
  gconv_report report; /* times are those of one image: its share */
  char *explanation;
  bool by_bands; /* nothing was done, as the device has no memory for one image */
} outcome;

/* `count` frames of an image, from `first` on: its pixels, not a copy. */
static gconv_image frames_of(const gconv_image *image, int32_t first, int32_t count) {
  size_t planes = image->planar ? (size_t)image->channels : 1;
  gconv_image part = *image;
  part.frames = count;
  part.data = (uint8_t *)image->data + (size_t)first * planes * image->plane_bytes;
  return part;
}

/* Makes the maps of all frames, as many at a time as the network takes; the last part may repeat frames of the one before.
 */
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
  gconv_verification *worst = &report->verification, part = {0};
  uint64_t compared = 0;
  for (int32_t at = 0; at < image->frames && status == GCONV_OK; at += r->part) {
    int32_t first = at < image->frames - r->part ? at : image->frames - r->part;
    gconv_image in = frames_of(image, first, r->part), out = frames_of(&r->maps, first, r->part);
    status = gconv_network_verify(r->network, &in, &out, r->job->common.tolerance, &part);
    part.frame += first;
    compared += part.compared / (uint64_t)r->part * (uint64_t)(at + r->part <= image->frames ? r->part : image->frames - at);
    if (at == 0 || status != GCONV_OK || part.max_error * worst->allowed > worst->max_error * part.allowed)
      *worst = part;
  }
  worst->compared = compared;
  report->verified = status == GCONV_OK || status == GCONV_MISMATCH;
  return status;
}

/* Convolves the batch with the network that there is, and sets the times of the report. */
static gconv_status run_network(gconv_bank_run *r, const gconv_bank_loaded *l, outcome *o) {
  gconv_report *report = &o->report;
  double begin = gconv_batch_clock_ms(), images = (double)l->count;
  report->cold = r->cold;
  report->remark = r->remark[0] ? r->remark : NULL;
  if (r->cold && r->job->common.explain && !r->explained) {
    GCONV_TRY(gconv_network_explain(r->network, &o->explanation));
    r->explained = true;
  }
  GCONV_TRY(execute(r, &l->image, report));
  gconv_timings *times = &report->timings;
  *times = (gconv_timings){.prepare_ms = times->prepare_ms / images,
                           .upload_ms = times->upload_ms / images,
                           .kernel_ms = times->kernel_ms / images,
                           .download_ms = times->download_ms / images,
                           .finish_ms = times->finish_ms / images};
  report->total_ms = report->plan_ms + (gconv_batch_clock_ms() - begin) / images;
  report->executed = true;
  report->pixels = (uint64_t)(l->image.frames / (int32_t)l->count) * (uint64_t)l->image.height * (uint64_t)l->image.width;
  gconv_bank_describe(r, &l->image, (int32_t)l->count, &report->plan);
  return r->job->common.verify ? verify(r, &l->image, report) : GCONV_OK;
}

/* Makes the network for the batch, and convolves it. With o->by_bands, nothing was done: bands of rows take less memory. */
static gconv_status convolve(gconv_bank_run *r, const gconv_bank_loaded *l, outcome *o) {
  double begin = gconv_batch_clock_ms();
  gconv_image one = frames_of(&l->image, 0, l->image.frames / (int32_t)l->count);
  bool bands_may = true;
  for (size_t i = 0; i < l->count; i++)
    bands_may = bands_may && gconv_bank_may_go_by_bands(r, l->inputs[i], &one);
  gconv_status status = gconv_bank_whole_network(r, &l->image, bands_may);
  o->by_bands = status == GCONV_NO_MEMORY && gconv_bank_on_gpu(r) && bands_may;
  if (status != GCONV_OK)
    return status;
  o->report.plan_ms = r->cold ? (gconv_batch_clock_ms() - begin) / (double)l->count : 0;
  return run_network(r, l, o);
}

/* ---- A batch ---- */

/* Reports an input of which nothing was made. */
static void refuse_input(gconv_bank_run *r, size_t input, gconv_status status, const char *why) {
  gconv_texts errors = {0};
  gconv_report report = gconv_bank_begin_report(r, input, &errors);
  gconv_bank_fail_all(r, input, &report);
  gconv_bank_add_error(&errors, report.input->path, status, why);
  gconv_bank_hand_in(r, &report);
  gconv_texts_free(&errors);
}

/* Reports the images of the batch that could not be read. */
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

/* Carries each image of a batch by bands of rows; `because` is what the device said that makes it necessary. */
static void process_by_bands(gconv_bank_run *r, const gconv_bank_loaded *l, const char *because) {
  for (size_t i = 0; i < l->count; i++) {
    gconv_image image = frames_of(&l->image, (int32_t)i, 1);
    gconv_bank_group group = {0};
    gconv_message why;
    gconv_status status = gconv_bank_cut_for_device(r, l->inputs[i], &image, &group, &why);
    group.because = because;
    if (status == GCONV_OK)
      gconv_bank_process_bands(r, &group, l->inputs[i], &image);
    else
      refuse_input(r, l->inputs[i], status, why.text);
  }
}

static void refuse_all(gconv_bank_run *r, const gconv_bank_loaded *l, gconv_status status, const char *why) {
  for (size_t i = 0; i < l->count; i++)
    refuse_input(r, l->inputs[i], status, why);
}

/* Convolves a batch and writes its results; reports and errors are of each image. */
static void process_whole(gconv_bank_run *r, const gconv_bank_loaded *l, gconv_report *reports, gconv_texts *errors) {
  outcome o = {0};
  gconv_message why = {""};
  gconv_status status = gconv_bank_keep_text(&why, convolve(r, l, &o));
  if (o.by_bands) {
    process_by_bands(r, l, why.text);
    return;
  }
  for (size_t i = 0; i < l->count; i++)
    reports[i] = make_report(r, l, i, &o, &errors[i]);
  if (status == GCONV_OK)
    status = gconv_bank_keep_text(&why, gconv_bank_write_batch(r, l, reports, errors));
  for (size_t i = 0; i < l->count; i++) {
    gconv_report *report = &reports[i];
    if (status != GCONV_OK) {
      gconv_bank_fail_all(r, l->inputs[i], report);
      bool of_output = strncmp(why.text, report->outputs[0], strlen(report->outputs[0])) == 0; /* of one array */
      gconv_bank_add_error(&errors[i], of_output ? report->outputs[0] : report->input->path, status, why.text);
    }
    report->written += status == GCONV_OK && r->job->one_tensor && i == 0 && !r->summary->written;
    report->total_ms += report->decode_ms + report->encode_ms;
    gconv_bank_hand_in(r, report);
    gconv_texts_free(&errors[i]);
  }
  free(o.explanation);
}

static void process(gconv_bank_run *r, const gconv_bank_loaded *l) {
  gconv_report *reports = calloc(l->count, sizeof *reports);
  gconv_texts *errors = calloc(l->count, sizeof *errors);
  if (reports && errors)
    process_whole(r, l, reports, errors);
  else
    refuse_all(r, l, GCONV_NO_MEMORY, "out of memory");
  free(reports);
  free(errors);
}

/* Does a batch: by bands of rows, or, if it is in memory, as a whole; or reports why it is refused. */
static gconv_status process_batch(gconv_bank_run *r, const gconv_bank_group *batch, const gconv_bank_loaded *l) {
  if (batch->refused) {
    refuse_input(r, r->order[batch->first], GCONV_TOO_LARGE, batch->refused);
    return GCONV_OK;
  }
  report_unread(r, l);
  if (l->count == 0 && batch->rows == 0)
    return GCONV_OK;
  GCONV_TRY(gconv_bank_wait_for_device(r));
  if (batch->rows > 0)
    gconv_bank_process_bands(r, batch, r->order[batch->first], NULL);
  else
    process(r, l);
  return GCONV_OK;
}

/* Whether no further batch is to be begun, as one failed: by --fail-fast, or because one array is written whole or not at
 * all. */
static bool has_enough(const gconv_bank_run *r) {
  return (r->job->common.fail_fast || r->job->one_tensor) && r->summary->failed > 0;
}

/* Makes room for a batch that could not be decoded while the one before was in memory: frees the network of that one, unless
 * this one can use it, too. */
static void make_room(gconv_bank_run *r, size_t batch) {
  const gconv_bank_group *now = &r->batches[batch], *last = now - 1;
  if (batch > 0 && (now->count != last->count || now->rows != last->rows ||
                    !gconv_image_same_shape(&r->headers[r->order[now->first]], &r->headers[r->order[last->first]])))
    gconv_bank_drop_network(r);
}

/* Decodes, convolves and writes all batches, each while the next is decoded. */
static gconv_status process_all(gconv_bank_run *r, gconv_message *message) {
  gconv_bank_loader ahead;
  gconv_status status = GCONV_OK;
  bool stop = false;
  gconv_bank_begin_loading(r, 0, &ahead);
  for (size_t i = 0; i < r->batch_count && status == GCONV_OK && !stop; i++) {
    gconv_bank_loaded now = {0};
    if (!ahead.started)
      make_room(r, i);
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
  GCONV_TRY(gconv_bank_begin_device(r, &total, message));
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
  gconv_bank_run r = {.job = job, .summary = summary, .begin_ms = gconv_batch_clock_ms()};
  *summary = (gconv_batch_summary){0};
  r.threads = gconv_threads_allowed(job->common.threads);
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
  size_t results = job->one_tensor ? count : job->common.outputs->first[count];
  if (status == GCONV_OK)
    summary->failed += results - r.told;
  summary->wall_ms = gconv_batch_clock_ms() - r.begin_ms;
  return status;
}

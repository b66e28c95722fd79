/* SPDX-License-Identifier: MIT */
/* What a GPU does besides: it decodes JPEG files, and sends results in parts, rows or the PNG that it makes of them. */
#include "base/clock.h"
#include "batch/run.h"
#include "image/gpu_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What it can do for a job --------------------------------------------------------------------------------------- */

bool gconv_gpu_makes_png(const gconv_batch *batch, const gconv_format_info *format) {
  return format && strcmp(format->name, "png") == 0 && (batch->png_level == 0 || batch->png_level == 1);
}

int gconv_host_stages(const gconv_batch *batch) {
  const gconv_operation_type *type = batch->operation->type;
  return type->host_stages ? type->host_stages(batch->operation) : GCONV_HOST_BEFORE | GCONV_HOST_AFTER;
}

bool gconv_gpu_may_decode(const gconv_batch *batch) {
  return !batch->verify && !(gconv_host_stages(batch) & GCONV_HOST_BEFORE);
}

bool gconv_gpu_may_send_parts(const gconv_batch *batch, char *const *paths, size_t count) {
  const size_t most = 8;
  bool may = count <= most && !batch->verify;
  for (size_t n = 0; n < count && may; n++)
    may = !gconv_path_is_sent(paths[n]);
  return may;
}

/* ---- Results in parts ------------------------------------------------------------------------------------------------ */

/* For parts, all files of results are open at once, and what each needs besides its rows must fit into --memory. If several
 * threads compress a result, it is faster whole. */
double gconv_parts_bytes(const gconv_worker *worker, const gconv_task *task, double whole) {
  const gconv_batch *batch = worker->run->batch;
  const gconv_item *item = &task->items[0];
  double bytes = whole + ((double)item->count - 1) * (5 << 20) * worker->threads;
  bool may = task->count == 1 && !worker->run->operation->type->batches &&
             gconv_gpu_may_send_parts(batch, item->paths, item->count) &&
             (gconv_gpu_makes_png(batch, item->format) || worker->threads == 1) &&
             (batch->memory == 0 || bytes <= (double)worker->run->budget.bytes);
  return may ? bytes : 0;
}

/* Results that are written as they come, and whose they are. */
typedef struct sending {
  gconv_worker *worker;
  gconv_task *task;
  const gconv_image *in;      /* whose profile and resolution the results get */
  gconv_row_writer **writers; /* one an output; NULL: that output is not wanted */
  bool begun;                 /* results have come */
} sending;

/* When results come: files are wanted for them. */
static int32_t begin_results(void *user) {
  sending *s = user;
  s->begun = true;
  return gconv_task_open_files(s->worker, s->task, 0, s->task->items[0].count, s->in, s->worker->threads, NULL, s->writers);
}

static void take_part(void *user, size_t output, const gconv_part *part) {
  sending *s = user;
  gconv_row_writer **writer = &s->writers[output];
  double begin = gconv_now_ms();
  gconv_status status = *writer ? gconv_row_writer_write_part(*writer, part) : GCONV_OK;
  if (status != GCONV_OK) {
    gconv_item_count(s->worker->run, s->task, &s->task->items[0], output, status);
    gconv_row_writer_discard(*writer);
    *writer = NULL;
  }
  s->task->common.encode_ms += gconv_now_ms() - begin;
}

gconv_status gconv_task_execute_parts(gconv_worker *worker, gconv_task *task, const gconv_image *in, const void *jpeg,
                                      size_t size) {
  gconv_item *item = &task->items[0];
  gconv_timings *timings = &task->common.timings;
  sending s = {.worker = worker, .task = task, .in = in};
  gconv_taker taker = {
      .begin = begin_results, .take = take_part, .user = &s, .png = gconv_gpu_makes_png(worker->run->batch, item->format)};
  s.writers = gconv_plan_outputs(task->plan) == item->count ? calloc(item->count, sizeof *s.writers) : NULL;
  if (!s.writers)
    return GCONV_UNSUPPORTED;
  gconv_status status = gconv_plan_execute_parts(task->plan, in, jpeg, size, &taker, timings);
  task->streamed = s.begun;
  if (s.begun) {
    if (gconv_task_keep_text(task, status) != GCONV_OK)
      gconv_item_add_error(item, item->report.input->path, task->why.text);
    gconv_task_close_files(worker, task, 0, item->count, s.writers, status);
  }
  task->common.encode_ms += timings->encode_ms;
  free(s.writers);
  return status;
}

/* ---- JPEG ------------------------------------------------------------------------------------------------------------ */

static gconv_status execute_jpeg(gconv_worker *worker, gconv_task *task, const gconv_image *header, const void *jpeg,
                                 size_t size) {
  GCONV_TRY(gconv_worker_prepare_results(worker, task));
  return gconv_plan_execute_jpeg(task->plan, jpeg, size, header, worker->results, &task->common.timings);
}

/* Decodes and convolves: in parts, or, where results are wanted as a whole, at once. Fails only if results were begun. */
static gconv_status decode_and_convolve(gconv_worker *worker, gconv_task *task, const gconv_image *header, const void *jpeg,
                                        size_t size, bool in_parts) {
  gconv_status status = GCONV_UNSUPPORTED;
  if (in_parts)
    status = gconv_task_execute_parts(worker, task, header, jpeg, size);
  if (status == GCONV_UNSUPPORTED && !task->streamed)
    status = execute_jpeg(worker, task, header, jpeg, size);
  if (status == GCONV_OK) {
    gconv_task_describe(task);
    task->common.decode_ms += task->common.timings.decode_ms;
  } else if (!task->streamed) {
    if (!task->remark[0])
      snprintf(task->remark, sizeof task->remark, "not decoded by a GPU: %.400s", gconv_last_error());
    return GCONV_OK;
  }
  return status;
}

gconv_status gconv_task_convolve_jpeg(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, double whole) {
  void *jpeg = NULL;
  size_t size = 0;
  if (!gconv_devices_decode(worker->run->devices, worker->index))
    return GCONV_OK;
  double parts = gconv_parts_bytes(worker, task, whole);
  GCONV_TRY(gconv_worker_admit(worker, parts > 0 ? parts : whole, "a GPU takes images whole, and -d cpu does not"));
  double begin = gconv_now_ms();
  if (gconv_row_reader_jpeg(reader, &jpeg, &size) != GCONV_OK)
    return GCONV_OK;
  task->common.decode_ms += gconv_now_ms() - begin;
  gconv_status status = gconv_task_plan(worker, task, 0, false);
  if (status == GCONV_OK)
    status = decode_and_convolve(worker, task, gconv_row_reader_header(reader), jpeg, size, parts > 0);
  free(jpeg);
  return status;
}

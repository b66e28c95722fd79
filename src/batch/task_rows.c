/* SPDX-License-Identifier: MIT */
/* An input from file to file by rows, and the files of results that come by rows from elsewhere. */
#include "batch/clock.h"
#include "batch/room.h"
#include "batch/task.h"

#include <stdlib.h>

/* ---- Writers ------------------------------------------------------------------------------------------------------- */

void gconv_carriage_failed(void *user, size_t output) {
  gconv_carriage *c = user;
  gconv_task_count(c->worker, c->task, output, GCONV_IO_ERROR);
}

void gconv_carriage_open(gconv_carriage *c) {
  gconv_write_options options = gconv_task_write_options(c->worker);
  options.shared = c->stream.threads;
  for (size_t n = 0; n < c->task->count; n++) {
    if (!c->task->wanted[n] || !gconv_task_make_folder(c->worker, c->task, n))
      continue;
    gconv_image header = *gconv_plan_output_header(c->stream.plan, n);
    header.icc = c->in->icc;
    header.icc_bytes = c->in->icc_bytes;
    header.pixels_per_metre_x = c->in->pixels_per_metre_x;
    header.pixels_per_metre_y = c->in->pixels_per_metre_y;
    gconv_status status = gconv_row_writer_open(c->task->paths[n], &options, &header, &c->stream.writers[n]);
    if (status != GCONV_OK)
      gconv_task_count(c->worker, c->task, n, status);
  }
}

void gconv_carriage_close(gconv_carriage *c, gconv_status status) {
  double begin = gconv_batch_clock_ms();
  for (size_t n = 0; n < c->task->count; n++) {
    if (!c->stream.writers[n])
      continue;
    if (status == GCONV_OK) {
      gconv_task_count(c->worker, c->task, n, gconv_row_writer_commit(c->stream.writers[n]));
    } else {
      gconv_row_writer_discard(c->stream.writers[n]);
      c->task->report->failed++;
    }
  }
  if (status != GCONV_OK)
    gconv_task_add_error(c->task, c->task->report->input->path, c->task->why.text);
  c->stream.encode_ms += gconv_batch_clock_ms() - begin;
}

/* ---- By rows, or whole --------------------------------------------------------------------------------------------- */

const char *gconv_task_reason_for_whole(const gconv_worker *worker, const gconv_task *task, const gconv_row_reader *reader) {
  const gconv_image *header = gconv_row_reader_header(reader);
  if (worker->batch->verify)
    return "--verify compares the whole image";
  if (!gconv_worker_is_on_cpu(worker))
    return "a GPU takes images whole, and -d cpu does not";
  if (!gconv_row_reader_is_in_order(reader))
    return "its rows do not come in order (interlaced, turned by EXIF, or stored from the bottom)";
  if (header->frames > 1 || header->planar)
    return "it has frames or planes";
  if (gconv_task_is_sent(task))
    return "what goes to standard output, a pipe or a device waits for all of it, and a file does not";
  return "border wrap, range minmax and stacks of more than 4 channels take it whole";
}

/* A GPU takes images whole, and is better waited for when they are decoded. */
bool gconv_task_may_go_by_rows(const gconv_worker *worker, const gconv_task *task, const gconv_row_reader *reader) {
  const gconv_image *header = gconv_row_reader_header(reader);
  return !worker->batch->verify && gconv_worker_is_on_cpu(worker) && gconv_row_reader_is_in_order(reader) &&
         header->frames == 1 && !header->planar && !gconv_task_is_sent(task) &&
         (gconv_stream_pays(header) || gconv_worker_whole_bytes(worker, reader) > gconv_budget_bytes(worker->budget));
}

/* ---- The way ------------------------------------------------------------------------------------------------------- */

static gconv_status run_stream(gconv_carriage *c) {
  gconv_report *report = c->task->report;
  c->stream.writers = calloc(c->task->count, sizeof *c->stream.writers);
  if (!c->stream.writers)
    return gconv_complain_memory(&c->task->why);
  c->task->streamed = true;
  c->stream.threads = gconv_device_threads(c->worker->device);
  gconv_carriage_open(c);
  gconv_status status = gconv_task_keep_text(c->task, gconv_stream_run(&c->stream));
  gconv_carriage_close(c, status);
  free(c->stream.writers);
  report->timings = c->stream.timings;
  report->decode_ms += c->stream.decode_ms;
  report->encode_ms = c->stream.encode_ms;
  report->executed = status == GCONV_OK;
  report->plan = *gconv_plan_get_info(c->worker->now.plan);
  return status;
}

gconv_status gconv_task_convolve_rows(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader) {
  task->image = *gconv_row_reader_header(reader);
  task->image.icc = NULL; /* it stays the reader's */
  GCONV_TRY(gconv_task_plan(worker, task));
  if (gconv_plan_row_step(worker->now.plan) == 0 || worker->now.result_count != task->count)
    return GCONV_OK;
  GCONV_TRY(gconv_worker_admit(worker,
                               gconv_stream_bytes(worker->now.plan, &task->image, task->count, worker->threads) +
                                   gconv_row_reader_bytes(reader) +
                                   gconv_plan_get_info(worker->now.plan)->workspace_bytes * (uint64_t)worker->threads,
                               NULL, &task->why));
  GCONV_TRY(gconv_task_plan(worker, task));
  gconv_carriage c = {.stream = {.reader = reader, .plan = worker->now.plan, .failed = gconv_carriage_failed},
                      .in = gconv_row_reader_header(reader),
                      .worker = worker,
                      .task = task};
  c.stream.user = &c;
  return run_stream(&c);
}

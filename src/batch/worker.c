/* SPDX-License-Identifier: MIT */
#include "batch/worker.h"
#include "batch/clock.h"
#include "batch/pieces.h"
#include "batch/room.h"
#include "batch/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One input on its way. */
struct task {
  char *const *paths; /* of its results */
  bool *wanted;       /* [count]: which of them are to be written */
  size_t count;
  gconv_print print; /* of the input, as it was before it was read; known only if there is a manifest */
  gconv_image image;
  gconv_report *report;
  gconv_texts *errors;
  gconv_message why;     /* it failed, if it did before the writing */
  gconv_status stranded; /* it failed because there is no device */
  bool streamed;         /* it was carried by rows, and its results are counted */
};

/* ---- Errors -------------------------------------------------------------------------------------------------------- */

/* Keeps the text of a failure of the library, with advice that only options can follow. */
static gconv_status keep_text(struct task *task, gconv_status status) {
  const char *advice = status == GCONV_NO_MEMORY ? ": a smaller --padding or fewer --jobs need less" : "";
  return status == GCONV_OK ? status : gconv_complain(&task->why, status, "%s%s", gconv_last_error(), advice);
}

/* Adds an error about `path`, whose name is put in front unless the text has it. */
static void add_error(struct task *task, const char *path, const char *text) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *found = strcmp(path, "-") == 0 ? NULL : strstr(text, name);
  bool named = (found && found[strlen(name)] == ':') || strncmp(text, "standard ", 9) == 0;
  char *error = NULL;
  if (asprintf(&error, "%s%s%s", named ? "" : path, named ? "" : ": ", text) < 0)
    return;
  gconv_texts_add(task->errors, error);
}

/* Every result still wanted failed for the reason in `text`. */
static void fail_all(struct task *task, const char *path, const char *text) {
  for (size_t n = 0; n < task->count; n++)
    task->report->failed += task->wanted[n];
  add_error(task, path, text);
}

/* ---- Results that exist -------------------------------------------------------------------------------------------- */

static void count_existing(struct task *task, gconv_existing existing, const char *path) {
  if (existing == GCONV_EXISTING_SKIP) {
    task->report->passed++;
    return;
  }
  task->report->failed++;
  add_error(task, path, "exists and is kept (--no-clobber)");
}

/* By the manifest. The input is looked at before it is read: if it changes meanwhile, it is not taken for what was read. */
static bool choose_unfinished(struct task *task, const gconv_manifest *manifest) {
  const gconv_input *input = task->report->input;
  bool any = false;
  task->print = gconv_print_of(input->path);
  for (size_t n = 0; n < task->count; n++) {
    gconv_finding finding = gconv_manifest_look_up(manifest, task->paths[n], input->relative, task->print);
    task->report->found[finding]++;
    task->wanted[n] = finding != GCONV_FOUND_DONE;
    task->report->passed += !task->wanted[n];
    any |= task->wanted[n];
  }
  return any;
}

/* Sets task->wanted; false if no result is. */
static bool choose_wanted(struct task *task, const gconv_batch *batch) {
  gconv_existing existing = batch->existing;
  bool any = false;
  if (batch->manifest)
    return choose_unfinished(task, batch->manifest);
  for (size_t n = 0; n < task->count; n++) {
    task->wanted[n] = existing == GCONV_EXISTING_REPLACE || !gconv_output_exists(task->paths[n]);
    any |= task->wanted[n];
    if (!task->wanted[n])
      count_existing(task, existing, task->paths[n]);
  }
  return any;
}

/* ---- Read, plan, execute ------------------------------------------------------------------------------------------- */

/* Whether the results of the plan could be written if they had this many channels. */
static gconv_status check_channels(const gconv_worker *worker, const gconv_image *image, int32_t channels) {
  const gconv_format_info *format = worker->batch->outputs->format;
  gconv_image piece = {
      .type = gconv_plan_get_info(worker->now.plan)->output_type,
      .frames = 1,
      .channels = channels,
      .planar = channels > 4, /* what is not is made interleaved */
      .alpha = image->alpha,
  };
  return format->multiframe ? GCONV_OK : gconv_format_check(format, &piece);
}

/* Better said before the work than after it. */
static gconv_status check_results(const gconv_worker *worker, struct task *task) {
  const gconv_options *options = &worker->batch->options;
  const gconv_image *image = &task->image;
  gconv_status status = check_channels(worker, image, gconv_plan_get_info(worker->now.plan)->out_channels);
  if (status == GCONV_OK || options->combine != GCONV_COMBINE_STACK)
    return keep_text(task, status);
  gconv_complain(&task->why, status, "in the stack, %s", gconv_last_error());
  bool grey_helps = !options->gray && image->channels - image->alpha == 3 &&
                    check_channels(worker, image, (int32_t)worker->batch->filters->count + image->alpha) == GCONV_OK;
  return gconv_complain(&task->why, status, "%s%s", task->why.text, grey_helps ? ", or use --gray" : "");
}

/* On the worker's device; where that has no memory for the image, and another may do, on the CPU. */
static gconv_status plan_somewhere(gconv_worker *worker, const gconv_image *image, const gconv_options *options) {
  const gconv_filters *filters = worker->batch->filters;
  gconv_status status = gconv_plan_create(worker->device, image, filters, options, &worker->now.plan);
  if (status == GCONV_NO_MEMORY && worker->before.plan) {
    gconv_planned_free(&worker->before);
    status = gconv_plan_create(worker->device, image, filters, options, &worker->now.plan);
  }
  gconv_device *spare = status == GCONV_NO_MEMORY ? gconv_devices_spare(worker->devices, worker->index) : NULL;
  if (!spare)
    return status;
  snprintf(worker->now.remark, sizeof worker->now.remark, "%s, so the CPU takes it", gconv_last_error());
  return gconv_plan_create(spare, image, filters, options, &worker->now.plan);
}

static gconv_status make_plan(gconv_worker *worker, struct task *task) {
  const gconv_batch *batch = worker->batch;
  gconv_options options = batch->options;
  options.keep_type = false;
  options.output_type = gconv_batch_output_type(&batch->options, batch->outputs->format, task->image.type);
  options.executions = batch->inputs->count;
  options.without = gconv_devices_without(worker->devices);
  GCONV_TRY(keep_text(task, plan_somewhere(worker, &task->image, &options)));
  worker->now.results = calloc(gconv_plan_outputs(worker->now.plan), sizeof *worker->now.results);
  if (!worker->now.results)
    return gconv_complain_memory(&task->why);
  worker->now.result_count = gconv_plan_outputs(worker->now.plan);
  GCONV_TRY(check_results(worker, task));
  if (batch->explain && worker->explains)
    return keep_text(task, gconv_plan_explain(worker->now.plan, &worker->now.explanation));
  return GCONV_OK;
}

/* Whether the whole image has more than all of the memory that was allowed. */
static bool is_too_large(const gconv_worker *worker, const gconv_row_reader *reader) {
  return worker->batch->memory > 0 && gconv_worker_whole_bytes(worker, reader) > gconv_budget_bytes(worker->budget);
}

/* The device of this image, as far as that is known; plans of another one are given up. Where CPUs begin, one takes what can
 * only go by rows, then and later: whether it fails is not to depend on when the GPU is ready. */
static void take_device(gconv_worker *worker, const gconv_row_reader *reader) {
  gconv_device *spare = gconv_devices_agree(worker->devices) && is_too_large(worker, reader)
                            ? gconv_devices_spare(worker->devices, worker->index)
                            : NULL;
  gconv_device *device = spare ? spare : gconv_devices_now(worker->devices, worker->index);
  if (worker->device && worker->device != device) {
    gconv_planned_free(&worker->now);
    gconv_planned_free(&worker->before);
  }
  worker->device = device;
}

static bool is_for_cpu(const gconv_worker *worker) {
  return worker->device && strcmp(gconv_device_get_info(worker->device)->name, "cpu") == 0;
}

static gconv_status ensure_device(gconv_worker *worker, struct task *task) {
  if (worker->device)
    return GCONV_OK;
  double begin = gconv_batch_clock_ms();
  task->stranded = gconv_devices_wait(worker->devices, worker->index, &task->image, &worker->device, &task->why);
  task->report->wait_ms = gconv_batch_clock_ms() - begin;
  return task->stranded;
}

/* Whether the worker has a plan for the image, which then is worker->now; else there is room for one. */
static bool find_plan(gconv_worker *worker, const gconv_image *image) {
  static const double MOST_BYTES = 1e9; /* what is larger is made again rather than kept */
  if (worker->now.plan && gconv_plan_fits(worker->now.plan, image))
    return true;
  gconv_planned last = worker->now;
  worker->now = worker->before;
  worker->before = last;
  if (worker->now.plan && gconv_plan_fits(worker->now.plan, image))
    return true;
  gconv_planned_free(&worker->now);
  if (worker->before.plan && gconv_plan_get_info(worker->before.plan)->bytes > MOST_BYTES)
    gconv_planned_free(&worker->before);
  return false;
}

static gconv_status ensure_plan(gconv_worker *worker, struct task *task) {
  gconv_report *report = task->report;
  GCONV_TRY(ensure_device(worker, task));
  if (find_plan(worker, &task->image))
    return GCONV_OK;
  double begin = gconv_batch_clock_ms();
  gconv_status status = make_plan(worker, task);
  report->plan_ms = gconv_batch_clock_ms() - begin;
  report->cold = true;
  report->explanation = worker->now.explanation;
  report->device_reason = gconv_devices_reason(worker->devices);
  report->remark = worker->now.remark[0] ? worker->now.remark : NULL;
  if (status != GCONV_OK)
    gconv_planned_free(&worker->now);
  return status;
}

static gconv_status verify(gconv_worker *worker, struct task *task) {
  gconv_report *report = task->report;
  gconv_status status = gconv_plan_verify(worker->now.plan, &task->image, worker->now.results, worker->batch->tolerance,
                                          &report->verification);
  report->verified = status == GCONV_OK || status == GCONV_MISMATCH;
  return keep_text(task, status);
}

/* ---- Write --------------------------------------------------------------------------------------------------------- */

static gconv_write_options write_options(const gconv_worker *worker) {
  const gconv_batch *batch = worker->batch;
  return (gconv_write_options){
      .format = batch->outputs->format,
      .keep_existing = batch->existing != GCONV_EXISTING_REPLACE,
      .jpeg_quality = batch->jpeg_quality,
      .png_level = batch->png_level,
      .threads = worker->threads,
  };
}

static gconv_status write_file(const gconv_worker *worker, const char *path, const gconv_image *image) {
  gconv_write_options options = write_options(worker);
  return gconv_image_write(path, &options, image);
}

/* Writes frame `frame` of a result, or all of it if the format holds that. */
static gconv_status write_piece(const gconv_worker *worker, const char *path, const gconv_image *result, int32_t frame) {
  if (worker->batch->outputs->format->multiframe)
    return write_file(worker, path, result);
  gconv_image piece = {0};
  GCONV_TRY(gconv_piece_take(result, frame, &piece));
  gconv_status status = write_file(worker, path, &piece);
  gconv_piece_free(result, &piece);
  return status;
}

/* A result that cannot be noted is one all the same: it would be made again. */
static void note_result(const gconv_worker *worker, struct task *task, size_t n) {
  gconv_manifest *manifest = worker->batch->manifest;
  gconv_message message;
  if (manifest &&
      gconv_manifest_add(manifest, task->paths[n], task->report->input->relative, task->print, &message) != GCONV_OK)
    gconv_texts_add(task->errors, strdup(message.text));
}

/* Counts result n: written, or why it is not. */
static void count_result(const gconv_worker *worker, struct task *task, size_t n, gconv_status status) {
  if (status == GCONV_OK) {
    task->report->written++;
    note_result(worker, task, n);
  } else if (status == GCONV_EXISTS) { /* it was not there when this input was begun */
    count_existing(task, worker->batch->existing, task->paths[n]);
  } else {
    task->report->failed++;
    add_error(task, task->paths[n], gconv_last_error());
  }
}

/* Makes the folder of result n, if folders are to be made. False, and the result is counted as failed, if that cannot be. */
static bool make_folder(const gconv_worker *worker, struct task *task, size_t n) {
  gconv_message message;
  if (!worker->batch->outputs->make_folders || gconv_outputs_make_folders(task->paths[n], &message) == GCONV_OK)
    return true;
  task->report->failed++;
  add_error(task, task->paths[n], message.text);
  return false;
}

static void write_result(const gconv_worker *worker, struct task *task, size_t n, const gconv_image *result, int32_t frame) {
  if (make_folder(worker, task, n))
    count_result(worker, task, n, write_piece(worker, task->paths[n], result, frame));
}

static void write_results(gconv_worker *worker, struct task *task) {
  const char *input = task->report->input->path;
  size_t pieces = worker->batch->outputs->format->multiframe ? 1 : (size_t)task->image.frames;
  if (worker->now.result_count * pieces != task->count) {
    char text[160];
    snprintf(text, sizeof text, "%zu frames, where %zu could be told beforehand: give it as a .npy file, or write .npy",
             pieces, task->count / worker->now.result_count);
    fail_all(task, input, text);
    return;
  }
  double begin = gconv_batch_clock_ms();
  for (size_t n = 0; n < task->count; n++)
    if (task->wanted[n])
      write_result(worker, task, n, &worker->now.results[n / pieces], (int32_t)(n % pieces));
  task->report->encode_ms = gconv_batch_clock_ms() - begin;
}

/* ---- By rows ------------------------------------------------------------------------------------------------------- */

/* A stream, and whose it is. */
typedef struct carriage {
  gconv_stream stream;
  gconv_worker *worker;
  struct task *task;
  bool begun; /* results come from a GPU */
} carriage;

static void writing_failed(void *user, size_t output) {
  carriage *c = user;
  count_result(c->worker, c->task, output, GCONV_IO_ERROR);
}

static void open_writers(carriage *c) {
  const gconv_image *in = gconv_row_reader_header(c->stream.reader);
  gconv_write_options options = write_options(c->worker);
  options.shared = c->stream.threads;
  for (size_t n = 0; n < c->task->count; n++) {
    if (!c->task->wanted[n] || !make_folder(c->worker, c->task, n))
      continue;
    gconv_image header = *gconv_plan_output_header(c->stream.plan, n);
    header.icc = in->icc;
    header.icc_bytes = in->icc_bytes;
    header.pixels_per_metre_x = in->pixels_per_metre_x;
    header.pixels_per_metre_y = in->pixels_per_metre_y;
    gconv_status status = gconv_row_writer_open(c->task->paths[n], &options, &header, &c->stream.writers[n]);
    if (status != GCONV_OK)
      count_result(c->worker, c->task, n, status);
  }
}

/* Commits the results, or, if the input failed, discards them and counts them as failed. */
static void close_writers(carriage *c, gconv_status status) {
  double begin = gconv_batch_clock_ms();
  for (size_t n = 0; n < c->task->count; n++) {
    if (!c->stream.writers[n])
      continue;
    if (status == GCONV_OK) {
      count_result(c->worker, c->task, n, gconv_row_writer_commit(c->stream.writers[n]));
    } else {
      gconv_row_writer_discard(c->stream.writers[n]);
      c->task->report->failed++;
    }
  }
  if (status != GCONV_OK)
    add_error(c->task, c->task->report->input->path, c->task->why.text);
  c->stream.encode_ms += gconv_batch_clock_ms() - begin;
}

static gconv_status run_stream(carriage *c) {
  gconv_report *report = c->task->report;
  c->stream.writers = calloc(c->task->count, sizeof *c->stream.writers);
  if (!c->stream.writers)
    return gconv_complain_memory(&c->task->why);
  c->task->streamed = true;
  c->stream.threads = gconv_device_threads(c->worker->device);
  open_writers(c);
  gconv_status status = keep_text(c->task, gconv_stream_run(&c->stream));
  close_writers(c, status);
  free(c->stream.writers);
  report->timings = c->stream.timings;
  report->decode_ms += c->stream.decode_ms;
  report->encode_ms = c->stream.encode_ms;
  report->executed = status == GCONV_OK;
  report->plan = *gconv_plan_get_info(c->worker->now.plan);
  return status;
}

/* Whether a result cannot be taken back, once begun, if the input turns out to be damaged. */
static bool sends_results(const struct task *task) {
  for (size_t n = 0; n < task->count; n++)
    if (gconv_output_is_sent(task->paths[n]))
      return true;
  return false;
}

/* ---- By rows, or whole --------------------------------------------------------------------------------------------- */

/* Why the image cannot go by rows. */
static const char *reason_for_whole(const gconv_worker *worker, const struct task *task, const gconv_row_reader *reader) {
  const gconv_image *header = gconv_row_reader_header(reader);
  if (worker->batch->verify)
    return "--verify compares the whole image";
  if (!is_for_cpu(worker))
    return "a GPU takes images whole, and -d cpu does not";
  if (!gconv_row_reader_is_in_order(reader))
    return "its rows do not come in order (interlaced, turned by EXIF, or stored from the bottom)";
  if (header->frames > 1 || header->planar)
    return "it has frames or planes";
  if (sends_results(task))
    return "what goes to standard output, a pipe or a device waits for all of it, and a file does not";
  return "border wrap, range minmax and stacks of more than 4 channels take it whole";
}

/* A GPU takes images whole, and is better waited for when they are decoded. */
static bool may_go_by_rows(const gconv_worker *worker, const struct task *task, const gconv_row_reader *reader) {
  const gconv_image *header = gconv_row_reader_header(reader);
  return !worker->batch->verify && is_for_cpu(worker) && gconv_row_reader_is_in_order(reader) && header->frames == 1 &&
         !header->planar && !sends_results(task) &&
         (gconv_stream_pays(header) || gconv_worker_whole_bytes(worker, reader) > gconv_budget_bytes(worker->budget));
}

/* Carries the image from file to file if its plan goes by rows; else the plan is kept for the whole. */
static gconv_status convolve_by_rows(gconv_worker *worker, struct task *task, gconv_row_reader *reader) {
  task->image = *gconv_row_reader_header(reader);
  task->image.icc = NULL; /* it stays the reader's */
  GCONV_TRY(ensure_plan(worker, task));
  if (gconv_plan_row_step(worker->now.plan) == 0 || worker->now.result_count != task->count)
    return GCONV_OK;
  GCONV_TRY(gconv_worker_admit(worker,
                               gconv_stream_bytes(worker->now.plan, &task->image, task->count, worker->threads) +
                                   gconv_row_reader_bytes(reader) +
                                   gconv_plan_get_info(worker->now.plan)->workspace_bytes * (uint64_t)worker->threads,
                               NULL, &task->why));
  GCONV_TRY(ensure_plan(worker, task));
  carriage c = {
      .stream = {.reader = reader, .plan = worker->now.plan, .failed = writing_failed}, .worker = worker, .task = task};
  c.stream.user = &c;
  return run_stream(&c);
}

/* ---- All of it ----------------------------------------------------------------------------------------------------- */

/* From the whole image to the results of the plan. */
static gconv_status convolve_whole(gconv_worker *worker, struct task *task, gconv_row_reader *reader) {
  gconv_report *report = task->report;
  GCONV_TRY(gconv_worker_admit(worker, gconv_worker_whole_bytes(worker, reader), reason_for_whole(worker, task, reader),
                               &task->why));
  double begin = gconv_batch_clock_ms();
  task->image = worker->input;
  worker->input = (gconv_image){0};
  GCONV_TRY(keep_text(task, gconv_row_reader_image(reader, &task->image)));
  const gconv_image *image = &task->image;
  report->decode_ms += gconv_batch_clock_ms() - begin;
  GCONV_TRY(ensure_plan(worker, task));
  GCONV_TRY(keep_text(task, gconv_plan_execute(worker->now.plan, image, worker->now.results, &report->timings)));
  report->executed = true;
  report->plan = *gconv_plan_get_info(worker->now.plan);
  return GCONV_OK;
}

/* Whether the pixels of the input are wanted on the host, which then decodes what the GPU could: to verify, or for stages
 * before the convolution. */
static bool wants_pixels(const gconv_batch *batch) {
  return batch->verify || batch->options.gray || batch->options.linear;
}

/* When results come from the GPU: a processor is wanted again, and files for them. */
static int32_t begin_results(void *user) {
  carriage *c = user;
  int32_t step = 1;
  c->begun = true;
  gconv_worker_take_turn(c->worker);
  open_writers(c);
  for (size_t n = 0; n < c->task->count; n++) {
    int32_t own = c->stream.writers[n] ? gconv_row_writer_step(c->stream.writers[n]) : 1;
    step = own > step ? own : step;
  }
  return step;
}

static void take_rows(void *user, size_t output, const void *rows, size_t row_bytes, int32_t count) {
  carriage *c = user;
  gconv_row_writer **writer = &c->stream.writers[output];
  double begin = gconv_batch_clock_ms();
  if (*writer && gconv_row_writer_write(*writer, rows, row_bytes, count) != GCONV_OK) {
    writing_failed(c, output);
    gconv_row_writer_discard(*writer);
    *writer = NULL;
  }
  c->stream.encode_ms += gconv_batch_clock_ms() - begin;
}

/* Whether the results of an image that the GPU decodes may be written as they come: all files are open at once, and what
 * each needs beside its rows is to fit in --memory. */
static bool may_take_rows(const gconv_worker *worker, const struct task *task, uint64_t bytes) {
  const size_t most = 8;
  return task->count <= most && !sends_results(task) &&
         (worker->batch->memory == 0 || bytes <= gconv_budget_bytes(worker->budget));
}

/* Writes the results as they come: task->streamed is set once any is begun. GCONV_UNSUPPORTED if they cannot come by rows.
 */
static gconv_status execute_jpeg_rows(gconv_worker *worker, struct task *task, gconv_row_reader *reader, const void *jpeg,
                                      size_t size) {
  carriage c = {.stream = {.reader = reader, .plan = worker->now.plan}, .worker = worker, .task = task};
  gconv_taker taker = {.begin = begin_results, .take = take_rows, .user = &c};
  c.stream.writers = calloc(task->count, sizeof *c.stream.writers);
  if (!c.stream.writers)
    return GCONV_UNSUPPORTED;
  gconv_worker_give_turn(worker);
  gconv_status status = gconv_plan_execute_jpeg_rows(worker->now.plan, jpeg, size, gconv_row_reader_header(reader), &taker,
                                                     &task->report->timings);
  if (!c.begun)
    gconv_worker_take_turn(worker);
  task->streamed = c.begun;
  if (c.begun) {
    keep_text(task, status);
    close_writers(&c, status);
  }
  task->report->encode_ms = c.stream.encode_ms;
  free(c.stream.writers);
  return status;
}

/* Leaves the processor to others meanwhile. */
static gconv_status execute_jpeg(gconv_worker *worker, struct task *task, gconv_row_reader *reader, const void *jpeg,
                                 size_t size) {
  gconv_worker_give_turn(worker);
  gconv_status status = gconv_plan_execute_jpeg(worker->now.plan, jpeg, size, gconv_row_reader_header(reader),
                                                worker->now.results, &task->report->timings);
  gconv_worker_take_turn(worker);
  return status;
}

/* By rows, or, where results are wanted as a whole, whole. A failure is one only if results were begun. */
static gconv_status decode_and_convolve(gconv_worker *worker, struct task *task, gconv_row_reader *reader, const void *jpeg,
                                        size_t size, bool by_rows) {
  gconv_report *report = task->report;
  gconv_status status = GCONV_UNSUPPORTED;
  if (by_rows && worker->now.result_count == task->count)
    status = execute_jpeg_rows(worker, task, reader, jpeg, size);
  if (status == GCONV_UNSUPPORTED && !task->streamed)
    status = execute_jpeg(worker, task, reader, jpeg, size);
  report->executed = status == GCONV_OK;
  if (report->executed) {
    report->decode_ms += report->timings.decode_ms;
    report->plan = *gconv_plan_get_info(worker->now.plan);
  } else if (!task->streamed) {
    snprintf(worker->refusal, sizeof worker->refusal, "not decoded by a GPU: %s", gconv_last_error());
    report->remark = report->remark ? report->remark : worker->refusal;
    return GCONV_OK;
  }
  return status;
}

/* From the bytes of a JPEG to the results of the plan, all on the GPU. Where that cannot be, report->executed remains false,
 * with the reason as a remark, and the CPU decodes: its pixels are the same. */
static gconv_status convolve_jpeg(gconv_worker *worker, struct task *task, gconv_row_reader *reader) {
  gconv_report *report = task->report;
  const gconv_image *header = gconv_row_reader_header(reader);
  void *jpeg = NULL;
  size_t size = 0;
  if (is_for_cpu(worker) || wants_pixels(worker->batch) || !gconv_devices_decode(worker->devices, worker->index))
    return GCONV_OK;
  uint64_t bytes = gconv_worker_whole_bytes(worker, reader);
  uint64_t more = bytes + (task->count - 1) * gconv_stream_writer_bytes(worker->threads);
  bool by_rows = may_take_rows(worker, task, more);
  GCONV_TRY(gconv_worker_admit(worker, by_rows ? more : bytes, reason_for_whole(worker, task, reader), &task->why));
  double begin = gconv_batch_clock_ms();
  gconv_status status = gconv_row_reader_jpeg(reader, &jpeg, &size);
  if (status != GCONV_OK)
    return GCONV_OK;
  report->decode_ms += gconv_batch_clock_ms() - begin;
  task->image = *header;
  task->image.icc = NULL; /* it stays the reader's */
  status = ensure_plan(worker, task);
  if (status == GCONV_OK)
    status = decode_and_convolve(worker, task, reader, jpeg, size, by_rows);
  free(jpeg);
  return status;
}

/* From the file to the results of the plan, or, if it was carried by rows, to those on disk. */
static gconv_status convolve(gconv_worker *worker, struct task *task) {
  gconv_report *report = task->report;
  gconv_read_options options = {.max_pixels = worker->batch->max_pixels, .threads = worker->threads};
  gconv_row_reader *reader = NULL;
  double begin = gconv_batch_clock_ms();
  GCONV_TRY(keep_text(task, gconv_row_reader_open(report->input->path, &options, &reader)));
  const gconv_image *header = gconv_row_reader_header(reader);
  report->pixels = (uint64_t)header->frames * (uint64_t)header->height * (uint64_t)header->width;
  report->decode_ms = gconv_batch_clock_ms() - begin;
  gconv_status status = GCONV_OK;
  take_device(worker, reader);
  if (may_go_by_rows(worker, task, reader))
    status = convolve_by_rows(worker, task, reader);
  if (status == GCONV_OK && !task->streamed && worker->batch->gpu_decodes)
    status = convolve_jpeg(worker, task, reader);
  if (status == GCONV_OK && !task->streamed && !report->executed)
    status = convolve_whole(worker, task, reader);
  gconv_row_reader_close(reader);
  return status;
}

/* What goes by rows, or is decoded by a GPU, has no pixels to keep. */
static void keep_input(gconv_worker *worker, struct task *task) {
  gconv_image_free(&worker->input);
  if (task->image.data)
    worker->input = task->image;
  else
    gconv_image_free(&task->image);
  task->image = (gconv_image){0};
}

static void carry(gconv_worker *worker, struct task *task) {
  double begin = gconv_batch_clock_ms();
  gconv_status status = convolve(worker, task);
  if (!worker->now.plan) /* it was given up, with its texts */
    task->report->explanation = task->report->remark = NULL;
  double paused = gconv_batch_clock_ms();
  if (status == GCONV_OK && worker->batch->verify)
    status = verify(worker, task);
  double resumed = gconv_batch_clock_ms();
  if (status == GCONV_OK && !task->streamed)
    write_results(worker, task);
  else if (status != GCONV_OK && !task->streamed && task->stranded == GCONV_OK)
    fail_all(task, task->report->input->path, task->why.text);
  task->report->total_ms = gconv_batch_clock_ms() - begin - (resumed - paused);
  keep_input(worker, task);
  gconv_worker_give_back(worker);
}

gconv_status gconv_worker_process(gconv_worker *worker, size_t i, gconv_report *report, gconv_texts *errors,
                                  gconv_message *message) {
  const gconv_outputs *outputs = worker->batch->outputs;
  struct task task = {
      .paths = outputs->paths.items + outputs->first[i],
      .count = outputs->first[i + 1] - outputs->first[i],
      .report = report,
      .errors = errors,
  };
  *report = (gconv_report){
      .input = &worker->batch->inputs->items[i],
      .outputs = task.paths,
      .output_count = task.count,
      .errors = errors,
  };
  worker->explains |= i == 0;
  task.wanted = calloc(task.count, sizeof *task.wanted);
  if (!task.wanted) {
    report->failed = task.count;
    add_error(&task, report->input->path, "out of memory");
    return GCONV_OK;
  }
  if (choose_wanted(&task, worker->batch))
    carry(worker, &task);
  free(task.wanted);
  return task.stranded == GCONV_OK ? GCONV_OK : gconv_complain(message, task.stranded, "%s", task.why.text);
}

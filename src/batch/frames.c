/* SPDX-License-Identifier: MIT */
/*
 * An input of several images of one shape: a file or a pipe of PNM images, the pages of a file, an array of frames. One
 * image is in progress at a time, and goes the way of any other, by rows where it is large. So memory does not grow with
 * their number, and a pipe may be endless.
 *
 * A format that holds several images gets all results of a filter in one file, which stays open from frame to frame. Else
 * each frame has files of its own. Those of files are named beforehand. The images of a pipe cannot be counted, so the
 * results of each are named in its turn. The first one has the name of a single image, until another image follows.
 */
#include "batch/run.h"

#include <stdlib.h>
#include <string.h>

struct gconv_frames {
  const gconv_worker *worker;
  gconv_task *task; /* of the whole input */
  gconv_row_reader *reader;
  size_t number;              /* of the frame at hand, from 1 */
  size_t total;               /* frames of the input; 0: of a pipe, not known */
  size_t results;             /* of a frame */
  size_t named;               /* frames that have names for their results; 0: each gets them in its turn */
  bool shared;                /* all frames of a result go into one file */
  bool counted;               /* the files were begun for the frame at hand already: with two frames */
  bool refused;               /* there are more frames than names */
  gconv_row_writer **writers; /* [results]: of the shared files that are open between frames */
  char **paths;               /* [results]: those of the frame at hand, */
  char **made;                /* [results]: and which of them were made in its turn; owned */
};

/* ---- Names --------------------------------------------------------------------------------------------------------- */

static size_t input_of(const gconv_frames *frames) {
  return frames->worker->run->order[frames->task->items[0].place];
}

/* Names all results of the frame at hand in its turn. */
static gconv_status make_names(gconv_frames *frames) {
  const gconv_batch *batch = frames->worker->run->batch;
  gconv_message why;
  for (size_t n = 0; n < frames->results; n++) {
    free(frames->made[n]);
    frames->made[n] = NULL;
    gconv_status status =
        gconv_outputs_name_frame(batch->inputs, batch->outputs, input_of(frames), n, frames->number, &frames->made[n], &why);
    if (status != GCONV_OK)
      return gconv_set_error(status, why.text);
    frames->paths[n] = frames->made[n];
  }
  return GCONV_OK;
}

gconv_status gconv_frames_settle_names(gconv_frames *frames, gconv_row_writer **writers) {
  bool more, undecided = !frames->shared && !frames->named && frames->total == 0 && frames->number == 1;
  if (!undecided)
    return GCONV_OK;
  GCONV_TRY(gconv_row_reader_more_frames(frames->reader, &more));
  gconv_status status = more ? make_names(frames) : GCONV_OK;
  frames->refused = status != GCONV_OK;
  for (size_t n = 0; n < frames->results && more && writers && status == GCONV_OK; n++)
    if (writers[n])
      status = gconv_row_writer_rename(writers[n], frames->paths[n]);
  return status;
}

/* ---- Files of all frames ------------------------------------------------------------------------------------------- */

bool gconv_frames_are_shared(const gconv_frames *frames) {
  return frames && frames->shared;
}

gconv_status gconv_frames_take_writer(gconv_frames *frames, size_t n, gconv_image *header, gconv_row_writer **writer) {
  bool more = false;
  *writer = frames->writers[n];
  frames->writers[n] = NULL;
  bool known = frames->total > 0 || (frames->number == 2 && frames->counted);
  if (frames->number > 1)
    return *writer ? gconv_row_writer_add_frame(*writer, header, known) : GCONV_OK;
  bool waits = gconv_format_minds_number(frames->task->items[0].format);
  if (waits && frames->total == 0 && gconv_row_reader_is_through(frames->reader))
    GCONV_TRY(gconv_row_reader_more_frames(frames->reader, &more));
  frames->counted = more;
  header->frames = frames->total > 0 ? (int32_t)frames->total : more ? 2 : 1;
  return GCONV_OK;
}

bool gconv_frames_go_on(const gconv_frames *frames) {
  return frames && frames->counted;
}

int32_t gconv_frames_at(const gconv_frames *frames) {
  return (int32_t)frames->number - 1;
}

void gconv_frames_keep_writer(gconv_frames *frames, size_t n, gconv_row_writer *writer) {
  frames->writers[n] = writer;
}

/* All frames are there, or `failed`: then no file appears. A file that was counted with the frame that failed counts once.
 */
static void close_shared(gconv_frames *frames, bool failed) {
  gconv_item *item = &frames->task->items[0];
  gconv_report *report = &item->report;
  for (size_t n = 0; n < frames->results && frames->shared; n++) {
    if (!frames->writers[n])
      continue;
    if (failed) {
      gconv_row_writer_discard(frames->writers[n]);
      report->failed++;
    } else {
      gconv_item_count(frames->worker->run, frames->task, item, n, gconv_row_writer_commit(frames->writers[n]));
    }
    frames->writers[n] = NULL;
  }
  size_t most = frames->results - report->written - report->passed;
  if (frames->shared && report->failed > most)
    report->failed = most;
}

/* ---- What is told -------------------------------------------------------------------------------------------------- */

static void add_times(gconv_report *sum, const gconv_report *part) {
  gconv_timings *a = &sum->timings;
  const gconv_timings *b = &part->timings;
  *a = (gconv_timings){a->prepare_ms + b->prepare_ms,   a->upload_ms + b->upload_ms, a->kernel_ms + b->kernel_ms,
                       a->download_ms + b->download_ms, a->finish_ms + b->finish_ms, a->decode_ms + b->decode_ms,
                       a->encode_ms + b->encode_ms};
  sum->decode_ms += part->decode_ms;
  sum->plan_ms += part->plan_ms;
  sum->encode_ms += part->encode_ms;
  sum->wait_ms += part->wait_ms;
}

/* Adds what was executed; keeps the worst verification. */
static void add_execution(gconv_report *sum, const gconv_report *part, int32_t frame) {
  gconv_verification *worst = &sum->verification, found = part->verification;
  uint64_t compared = worst->compared + found.compared;
  if (part->verified && (!sum->verified || found.max_error * worst->allowed > worst->max_error * found.allowed)) {
    *worst = found;
    worst->frame = frame;
  }
  worst->compared = compared;
  sum->verified |= part->verified;
  if (!part->executed)
    return;
  gconv_plan_info before = sum->plan;
  sum->plan = part->plan;
  sum->plan.frames += before.frames;
  sum->plan.flop += before.flop;
  sum->plan.bytes += before.bytes;
  sum->plan.estimate_ms += before.estimate_ms;
  sum->executed = true;
}

/* Adds a frame that is through to the report of its input. */
static void add_report(gconv_frames *frames, gconv_task *one, gconv_item *part) {
  gconv_task *task = frames->task;
  gconv_item *item = &task->items[0];
  item->report.written += part->report.written;
  item->report.passed += part->report.passed;
  item->report.failed += part->report.failed;
  for (size_t i = 0; i < part->errors.count; i++)
    gconv_texts_add(&item->errors, strdup(part->errors.items[i]));
  gconv_texts_free(&part->errors);
  add_times(&task->common, &one->common);
  task->common.decode_ms += part->report.decode_ms;
  add_execution(&task->common, &one->common, (int32_t)frames->number - 1);
  gconv_losses_keep_worst(&task->losses, &one->losses);
  gconv_look_add(&item->look, &part->look);
  task->common.cold |= one->common.cold;
  if (!task->explanation) {
    task->explanation = one->explanation;
    one->explanation = NULL;
  }
  free(one->explanation);
  if (!task->remark[0])
    memcpy(task->remark, one->remark, sizeof task->remark);
}

/* ---- A frame ------------------------------------------------------------------------------------------------------- */

/* Sets the paths of the frame at hand, and which of its results are wanted: none counts as wanted in the input any more. */
static gconv_status begin_frame(gconv_frames *frames, gconv_item *part) {
  gconv_item *item = &frames->task->items[0];
  gconv_run *run = frames->worker->run;
  bool turn = !frames->shared && !frames->named && (frames->number > 1 || frames->total > 0);
  *part = (gconv_item){
      .place = item->place, .paths = frames->paths, .format = item->format, .count = frames->results, .sent = item->sent};
  part->print = item->print;
  if (frames->shared) /* of a pipe, two are as many as more, for what a writer holds */
    part->file_frames = frames->total > 0 ? (int32_t)frames->total : 2;
  part->report.input = item->report.input;
  part->wanted = calloc(part->count, sizeof *part->wanted);
  if (!part->wanted)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  if (turn) {
    for (size_t n = 0; n < part->count; n++)
      part->wanted[n] = true; /* what cannot be named counts as failed */
    GCONV_TRY(make_names(frames));
    gconv_item_choose(run, part);
    return GCONV_OK;
  }
  for (size_t n = 0; n < part->count; n++) {
    size_t place = frames->named ? n * frames->named + frames->number - 1 : n;
    frames->paths[n] = item->paths[place];
    part->wanted[n] = item->wanted[place];
    item->wanted[place] &= frames->shared;
  }
  return GCONV_OK;
}

static bool is_any_wanted(const gconv_item *part) {
  bool any = false;
  for (size_t n = 0; n < part->count; n++)
    any |= part->wanted[n];
  return any;
}

/* Reads over a frame of which nothing is wanted. */
static gconv_status skip_frame(gconv_frames *frames) {
  gconv_image pixels = {0};
  gconv_status status = gconv_row_reader_image(frames->reader, &pixels);
  gconv_image_free(&pixels);
  return status;
}

/* Carries the frame at hand all the way. */
static gconv_status carry_frame(gconv_worker *worker, gconv_frames *frames) {
  gconv_item part;
  gconv_task one = {.group = frames->task->group, .items = &part, .count = 1, .frames = frames};
  pthread_mutex_init(&one.lock, NULL);
  gconv_status status = gconv_task_keep_text(&one, begin_frame(frames, &part));
  if (status == GCONV_OK && !is_any_wanted(&part))
    status = gconv_task_keep_text(&one, skip_frame(frames));
  else if (status == GCONV_OK)
    status = gconv_worker_carry_reader(worker, &one, frames->reader);
  frames->task->stranded = one.stranded;
  if (status != GCONV_OK && !one.streamed && !one.stranded)
    gconv_item_fail(&part, one.why.text);
  if (status != GCONV_OK)
    gconv_complain(&frames->task->why, status, "%s", one.why.text);
  add_report(frames, &one, &part);
  free(part.wanted);
  pthread_mutex_destroy(&one.lock);
  return status;
}

/* ---- All frames ---------------------------------------------------------------------------------------------------- */

/* The frames that come no more count as failed, where it is known how many they would have been. */
static void fail_rest(gconv_frames *frames) {
  gconv_item *item = &frames->task->items[0];
  for (size_t n = 0; n < item->count && frames->named; n++) {
    item->report.failed += item->wanted[n];
    item->wanted[n] = false;
  }
}

/* Another frame could not be begun: an error of the input, and one result of it that failed at least. */
static void fail_next(gconv_frames *frames) {
  gconv_item *item = &frames->task->items[0];
  gconv_item_add_error(item, item->report.input->path, gconv_last_error());
  if (!frames->named && !frames->shared)
    item->report.failed += frames->results;
}

static gconv_status carry_all(gconv_worker *worker, gconv_frames *frames) {
  gconv_task *task = frames->task;
  gconv_status status = GCONV_OK;
  for (bool found; status == GCONV_OK && !frames->refused; frames->number++) {
    status = gconv_row_reader_next_frame(frames->reader, &found);
    if (status != GCONV_OK)
      fail_next(frames);
    if (status != GCONV_OK || !found)
      break;
    task->image = gconv_header_of(gconv_row_reader_header(frames->reader));
    status = carry_frame(worker, frames);
    if (frames->shared && task->items[0].report.failed >= frames->results)
      break; /* there is no file to which more could be added */
  }
  fail_rest(frames);
  close_shared(frames, status != GCONV_OK || frames->refused);
  task->items[0].frames = (int32_t)frames->number - 1;
  task->image.frames = task->items[0].frames > 0 ? task->items[0].frames : 1;
  return task->stranded ? status : GCONV_OK;
}

static void free_frames(gconv_frames *frames) {
  for (size_t n = 0; n < frames->results; n++) {
    if (frames->writers)
      gconv_row_writer_discard(frames->writers[n]);
    if (frames->made)
      free(frames->made[n]);
  }
  free(frames->writers);
  free(frames->paths);
  free(frames->made);
}

gconv_status gconv_task_carry_frames(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader) {
  const gconv_item *item = &task->items[0];
  gconv_frames frames = {
      .worker = worker, .task = task, .reader = reader, .number = 1, .results = worker->run->batch->outputs->labels.count};
  frames.total = gconv_row_reader_is_open_ended(reader) ? 0 : (size_t)gconv_row_reader_header(reader)->frames;
  frames.shared = !gconv_outputs_are_apart(worker->run->batch->outputs, item->format);
  frames.named = item->count == frames.total * frames.results && !frames.shared ? frames.total : 0;
  frames.writers = calloc(frames.results, sizeof *frames.writers);
  frames.paths = calloc(frames.results, sizeof *frames.paths);
  frames.made = calloc(frames.results, sizeof *frames.made);
  bool good = frames.writers && frames.paths && frames.made;
  gconv_status status = good ? carry_all(worker, &frames) : gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  task->streamed = good;
  free_frames(&frames);
  return status;
}

bool gconv_goes_by_frames(gconv_worker *worker, const gconv_row_reader *reader) {
  const gconv_run *run = worker->run;
  bool open = gconv_row_reader_is_open_ended(reader);
  if (run->batch->one_array || !gconv_row_reader_has_frames(reader) || (!open && gconv_row_reader_is_scattered(reader)))
    return false;
  gconv_image header = gconv_header_of(gconv_row_reader_header(reader));
  bool together = run->operation->type->batches && !open && !gconv_row_reader_frames_differ(reader);
  return !together || gconv_whole_bytes(worker, NULL, &header, 1, 0) > (double)run->budget.bytes;
}

/* SPDX-License-Identifier: MIT */
/*
 * An input with several images: the pages of a file, an array of frames, a file or a pipe of PNM images. Its frames are
 * carried one after the other, each like a single image. So memory does not grow with the number of frames, and a pipe may
 * be endless.
 *
 * A format that holds several images gets all results of a filter in one file, which stays open from frame to frame. With
 * other formats each frame has files of its own, which are named beforehand. Only the images of a pipe cannot be counted, so
 * they get names in their turn: the first image has the name of a single image, until a second image follows.
 */
#include "base/memory.h"
#include "batch/carry.h"
#include "batch/files.h"
#include "batch/item.h"

#include <string.h>

/* The frames of an input: `frame` is the current frame, `group` the group of the whole input, and `item` its only item. */
typedef struct frames {
  gconv_group *group;
  gconv_item *item;
  gconv_frame frame;
  gconv_carrier *carrier;
} frames;

/* ---- Reports ------------------------------------------------------------------------------------------------------- */

/* Adds the times of a frame, and keeps the worst verification. */
static void add_execution(gconv_report *sum, const gconv_report *part, int32_t frame) {
  gconv_plan_info before = sum->plan;
  if (part->verified)
    gconv_report_add_verification(sum, &part->verification, frame);
  sum->verified |= part->verified;
  sum->cold |= part->cold;
  if (!part->executed)
    return;
  sum->plan = part->plan;
  sum->plan.frames += before.frames;
  sum->plan.flop += before.flop;
  sum->plan.bytes += before.bytes;
  sum->plan.estimate_ms += before.estimate_ms;
  sum->executed = true;
}

/* Adds the report of a frame, whose group is `one`, to the report of the input. */
static void add_report(frames *f, gconv_group *one) {
  gconv_group *group = f->group;
  gconv_outcome *outcome = &f->item->outcome, *part = &one->items[0].outcome;
  outcome->report.written += part->report.written;
  outcome->report.passed += part->report.passed;
  outcome->report.failed += part->report.failed;
  for (size_t i = 0; i < part->errors.count; i++)
    gconv_texts_add(&outcome->errors, strdup(part->errors.items[i]));
  gconv_texts_free(&part->errors);
  gconv_report_add_times(&group->common, &one->common, 1);
  group->common.decode_ms += part->report.decode_ms;
  add_execution(&group->common, &one->common, (int32_t)f->frame.number - 1);
  gconv_losses_keep_worst(&group->losses, &one->losses);
  gconv_look_add(&outcome->look, &part->look);
  if (!group->explanation) {
    group->explanation = one->explanation;
    one->explanation = NULL;
  }
  free(one->explanation);
  if (!group->remark[0])
    memcpy(group->remark, one->remark, sizeof group->remark);
}

/* ---- A frame ------------------------------------------------------------------------------------------------------- */

/* Sets the paths of the current frame, and which of its results are wanted. Takes the frame's own results out of
 * f->item->wanted, so that fail_rest() does not count them. */
static gconv_status begin_frame(frames *f, gconv_item *part) {
  gconv_frame *frame = &f->frame;
  gconv_item *item = f->item;
  bool in_turn = !frame->shared && !frame->named && (frame->number > 1 || frame->total > 0);
  *part = (gconv_item){.place = item->place,
                       .input = item->input,
                       .paths = frame->paths,
                       .format = item->format,
                       .count = frame->results,
                       .sent = item->sent,
                       .print = item->print,
                       .outcome.report.input = item->input};
  if (frame->shared) /* 2: a pipe may have any number of frames; a writer holds the same memory for all above 1 */
    part->file_frames = frame->total > 0 ? (int32_t)frame->total : 2;
  GCONV_NEW(part->wanted, part->count, "out of memory");
  for (size_t n = 0; n < part->count; n++) {
    size_t place = frame->named ? n * frame->named + frame->number - 1 : n;
    if (!in_turn)
      frame->paths[n] = item->paths[place];
    part->wanted[n] = in_turn || item->wanted[place]; /* results that cannot be named count as failed */
    item->wanted[place] &= in_turn || frame->shared;
  }
  if (in_turn) {
    GCONV_TRY(gconv_frame_name(frame));
    gconv_item_choose(f->group->worker->run, part);
  }
  return GCONV_OK;
}

/* Skips a frame from which no result is wanted. */
static gconv_status skip_frame(gconv_row_reader *reader) {
  GCONV_ENDED_BY(gconv_image_free) gconv_image pixels = {0};
  return gconv_row_reader_image(reader, &pixels);
}

static gconv_status carry_frame(frames *f) {
  gconv_item part;
  gconv_group one = {.worker = f->group->worker, .range = f->group->range, .items = &part, .count = 1, .frame = &f->frame};
  pthread_mutex_init(&one.lock, NULL);
  gconv_status status = gconv_group_keep_text(&one, begin_frame(f, &part));
  if (status == GCONV_OK && !gconv_item_is_wanted(&part))
    status = gconv_group_keep_text(&one, skip_frame(f->frame.reader));
  else if (status == GCONV_OK)
    status = f->carrier(&one, f->frame.reader);
  f->group->stranded = one.stranded;
  if (status != GCONV_OK && !one.streamed && !one.stranded)
    gconv_item_fail(&part, one.why.text);
  if (status != GCONV_OK)
    gconv_complain(&f->group->why, status, "%s", one.why.text);
  add_report(f, &one);
  free(part.wanted);
  pthread_mutex_destroy(&one.lock);
  return status;
}

/* ---- All frames ---------------------------------------------------------------------------------------------------- */

/* Adds an error of the input, because the next frame could not be begun, and counts the frame's results as failed. */
static void fail_next(frames *f) {
  gconv_item_add_error(f->item, f->item->input->path, gconv_last_error());
  if (!f->frame.named && !f->frame.shared)
    f->item->outcome.report.failed += f->frame.results;
}

/* If the number of frames is known, counts the results of missing frames as failed. */
static void fail_rest(frames *f) {
  for (size_t n = 0; n < f->item->count && f->frame.named; n++) {
    f->item->outcome.report.failed += f->item->wanted[n];
    f->item->wanted[n] = false;
  }
}

/* Ends the files that frames share. If a frame failed, no file appears; a failed result counts only once. */
static void close_shared(frames *f, bool failed) {
  const gconv_frame *frame = &f->frame;
  gconv_report *report = &f->item->outcome.report;
  for (size_t n = 0; n < frame->results && frame->shared; n++) {
    gconv_row_writer *writer = frame->writers[n];
    frame->writers[n] = NULL;
    if (writer && !failed) {
      gconv_item_count(f->group, f->item, n, gconv_row_writer_commit(writer));
    } else if (writer) {
      gconv_row_writer_discard(writer);
      report->failed++;
    }
  }
  if (failed && f->group->worker->run->batch->one_array)
    report->written = 0; /* an earlier frame was counted, and the array is discarded */
  size_t most = frame->results - report->written - report->passed;
  if (frame->shared && report->failed > most)
    report->failed = most;
}

static gconv_status carry_all(frames *f) {
  gconv_group *group = f->group;
  gconv_frame *frame = &f->frame;
  gconv_status status = GCONV_OK;
  for (bool found; status == GCONV_OK && !frame->refused; frame->number++) {
    status = gconv_row_reader_next_frame(frame->reader, &found);
    if (status != GCONV_OK)
      fail_next(f);
    if (status != GCONV_OK || !found)
      break;
    group->image = gconv_header_of(gconv_row_reader_header(frame->reader));
    status = carry_frame(f);
    if (frame->shared && f->item->outcome.report.failed >= frame->results)
      break; /* all shared files have failed */
  }
  fail_rest(f);
  close_shared(f, status != GCONV_OK || frame->refused);
  f->item->frames = (int32_t)frame->number - 1;
  group->image.frames = f->item->frames > 0 ? f->item->frames : 1;
  return group->stranded ? status : GCONV_OK;
}

static void free_frame(gconv_frame *frame) {
  for (size_t n = 0; n < frame->results; n++) {
    if (frame->writers)
      gconv_row_writer_discard(frame->writers[n]);
    if (frame->made)
      free(frame->made[n]);
  }
  free(frame->writers);
  free(frame->paths);
  free(frame->made);
}

gconv_status gconv_group_carry_frames(gconv_group *group, gconv_row_reader *reader, gconv_carrier *carrier) {
  gconv_worker *worker = group->worker;
  const gconv_batch *batch = worker->run->batch;
  gconv_item *item = &group->items[0];
  frames f = {.group = group, .item = item, .carrier = carrier};
  gconv_frame *frame = &f.frame;
  *frame = (gconv_frame){.reader = reader,
                         .batch = batch,
                         .input = worker->run->order[item->place],
                         .number = 1,
                         .results = batch->outputs->labels.count,
                         .shared = !gconv_outputs_are_apart(batch->outputs, item->format)};
  frame->total = gconv_row_reader_is_open_ended(reader) ? 0 : (size_t)gconv_row_reader_header(reader)->frames;
  frame->named = item->count == frame->total * frame->results && !frame->shared ? frame->total : 0;
  frame->writers = calloc(frame->results, sizeof *frame->writers);
  frame->paths = calloc(frame->results, sizeof *frame->paths);
  frame->made = calloc(frame->results, sizeof *frame->made);
  group->streamed = frame->writers && frame->paths && frame->made;
  gconv_status status = group->streamed ? carry_all(&f) : gconv_no_memory();
  free_frame(frame);
  return status;
}

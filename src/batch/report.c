/* SPDX-License-Identifier: MIT */
/* What is told of each input, in the order of the run. */
#include "base/clock.h"
#include "batch/run.h"

#include <stdlib.h>
#include <string.h>

void gconv_item_begin(const gconv_run *run, size_t place, gconv_item *item) {
  const gconv_batch *batch = run->batch;
  const gconv_outputs *outputs = batch->outputs;
  size_t input = run->order[place], first = batch->one_array ? 0 : outputs->first[input];
  *item = (gconv_item){.place = place,
                       .paths = outputs->paths.items + first,
                       .count = batch->one_array ? 1 : outputs->first[input + 1] - first};
  item->report.input = &batch->inputs->items[input];
  item->report.outputs = item->paths;
  item->report.output_count = item->count;
}

/* Keeps what will not be there any more when the worker goes on. Without memory, the explanation is lost, not the report. */
static void hold(gconv_held *held, gconv_item *item) {
  held->report = item->report;
  held->errors = item->errors;
  item->errors = (gconv_texts){0};
  held->report.errors = &held->errors;
  held->report.explanation = held->explanation = item->report.explanation ? strdup(item->report.explanation) : NULL;
  held->report.remark = held->remark = item->report.remark ? strdup(item->report.remark) : NULL;
  held->done = true;
}

void gconv_held_free(gconv_held *held) {
  gconv_texts_free(&held->errors);
  free(held->explanation);
  free(held->remark);
  held->explanation = held->remark = NULL;
}

/* Under the lock. */
static void count(gconv_run *run, const gconv_report *report) {
  gconv_batch_summary *summary = run->summary;
  summary->begun++;
  summary->written += report->written;
  summary->passed += report->passed;
  summary->failed += report->failed;
  for (int i = 0; i < GCONV_FINDINGS; i++)
    summary->found[i] += report->found[i];
  run->stopped |= report->failed > 0 && (run->batch->fail_fast || run->batch->one_array);
}

void gconv_item_hand_in(gconv_run *run, gconv_item *item) {
  pthread_mutex_lock(&run->lock);
  count(run, &item->report);
  hold(&run->held[item->place], item);
  for (gconv_held *held; run->told < run->batch->inputs->count && (held = &run->held[run->told])->done; run->told++) {
    held->report.elapsed_ms = gconv_now_ms() - run->begin_ms;
    run->batch->report(&held->report, run->batch->user);
    gconv_held_free(held);
  }
  pthread_mutex_unlock(&run->lock);
}

/* SPDX-License-Identifier: MIT */
/* Reports and the summary of a job of banks. */
#include "batch/bank_run.h"
#include "batch/clock.h"

#include <string.h>

gconv_status gconv_bank_keep_text(gconv_message *why, gconv_status status) {
  return status == GCONV_OK ? GCONV_OK : gconv_complain(why, status, "%s", gconv_last_error());
}

void gconv_bank_hand_in(gconv_bank_run *r, gconv_report *report) {
  gconv_batch_summary *summary = r->summary;
  report->elapsed_ms = gconv_batch_clock_ms() - r->begin_ms;
  summary->begun++;
  r->told += report->output_count;
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

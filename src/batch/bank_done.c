/* SPDX-License-Identifier: MIT */
/* What of a bank job is done already: by the manifest of --resume, or because a file is there. */
#include "batch/bank_run.h"

#include <stdlib.h>

gconv_status gconv_bank_look_up(gconv_bank_run *r, gconv_message *message) {
  const gconv_batch *common = &r->job->common;
  const gconv_outputs *outputs = common->outputs;
  if (!common->manifest)
    return GCONV_OK;
  r->findings = calloc(outputs->paths.count, sizeof *r->findings);
  r->prints = calloc(common->inputs->count, sizeof *r->prints);
  if (!r->findings || !r->prints)
    return gconv_complain_memory(message);
  for (size_t i = 0; i < common->inputs->count; i++) {
    const gconv_input *input = &common->inputs->items[i];
    r->prints[i] = gconv_print_of(input->path);
    for (size_t n = outputs->first[i]; n < outputs->first[i + 1]; n++)
      r->findings[n] = gconv_manifest_look_up(common->manifest, outputs->paths.items[n], input->relative, r->prints[i]);
  }
  return GCONV_OK;
}

bool gconv_bank_is_done(const gconv_bank_run *r, size_t input, size_t n) {
  const gconv_batch *common = &r->job->common;
  if (r->job->one_tensor)
    return false;
  size_t result = common->outputs->first[input] + n;
  if (r->findings)
    return r->findings[result] == GCONV_FOUND_DONE;
  return common->existing == GCONV_EXISTING_SKIP && gconv_output_exists(common->outputs->paths.items[result]);
}

void gconv_bank_fail_all(const gconv_bank_run *r, size_t input, gconv_report *report) {
  report->written = report->passed = report->failed = 0;
  for (size_t n = 0; n < report->output_count; n++)
    ++*(gconv_bank_is_done(r, input, n) ? &report->passed : &report->failed);
}

/* Whether all results of an input are there already, and shall stay. */
static bool is_there(const gconv_bank_run *r, size_t input) {
  const gconv_batch *common = &r->job->common;
  if (common->existing == GCONV_EXISTING_REPLACE)
    return false;
  if (r->job->one_tensor)
    return gconv_output_exists(common->outputs->paths.items[0]);
  for (size_t n = common->outputs->first[input]; n < common->outputs->first[input + 1]; n++)
    if (!gconv_output_exists(common->outputs->paths.items[n]))
      return false;
  return true;
}

static bool are_done(const gconv_bank_run *r, size_t input) {
  const gconv_outputs *outputs = r->job->common.outputs;
  for (size_t n = 0; r->findings && n < outputs->first[input + 1] - outputs->first[input]; n++)
    if (!gconv_bank_is_done(r, input, n))
      return false;
  return r->findings != NULL;
}

/* Reports an input whose results are there: as passed over, or as failed. */
static void report_existing(gconv_bank_run *r, size_t input) {
  gconv_texts errors = {0};
  gconv_report report = gconv_bank_begin_report(r, input, &errors);
  bool kept = r->job->common.existing == GCONV_EXISTING_KEEP;
  size_t count = r->job->one_tensor && input > 0 ? 0 : report.output_count; /* one array is one result */
  *(kept ? &report.failed : &report.passed) = count;
  for (size_t n = 0; n < report.output_count && kept; n++)
    gconv_bank_add_error(&errors, report.outputs[n], GCONV_EXISTS, "exists and is kept (--no-clobber)");
  gconv_bank_hand_in(r, &report);
  gconv_texts_free(&errors);
}

bool gconv_bank_pass_over(gconv_bank_run *r, size_t input) {
  bool over = is_there(r, input) || are_done(r, input);
  if (over)
    report_existing(r, input);
  return over;
}

gconv_status gconv_bank_note(const gconv_bank_run *r, size_t input, const char *path, gconv_message *why) {
  const gconv_batch *common = &r->job->common;
  return common->manifest
             ? gconv_manifest_add(common->manifest, path, common->inputs->items[input].relative, r->prints[input], why)
             : GCONV_OK;
}

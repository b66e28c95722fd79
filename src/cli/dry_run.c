/* SPDX-License-Identifier: MIT */
/* --dry-run: what the main job would read and write, and, with --explain, what it would do with its first image. */
#include "cli/command.h"
#include "cli/job.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *remark_on(const gconv_main_job *job, const gconv_input *input, const char *path) {
  if (job->manifest)
    return gconv_manifest_find(job->manifest, path, input) == GCONV_FOUND_DONE ? " (done: passed over)" : "";
  if (strcmp(path, "-") == 0 || access(path, F_OK) != 0)
    return "";
  if (job->settings->no_clobber)
    return " (exists: kept)";
  return job->settings->skip_existing ? " (exists: passed over)" : " (exists: replaced)";
}

static int explain_first(gconv_main_job *job) {
  gconv_message message;
  char *text = NULL, reason[192] = "";
  gconv_status status = gconv_job_make_operation(job, &message);
  if (status == GCONV_OK)
    status = gconv_batch_explain_first(&job->batch, &text, reason, &message);
  if (status == GCONV_OK)
    gconv_job_print_explanation(text, reason);
  else
    gconv_say("%s", message.text);
  free(text);
  return status == GCONV_OK ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
}

int gconv_job_dry_run(gconv_main_job *job) {
  gconv_message message;
  if (gconv_job_open_manifest(job, false, &message) != GCONV_OK) {
    gconv_say("%s", message.text);
    return GCONV_EXIT_FAILED;
  }
  for (size_t i = 0; i < job->inputs.count; i++) {
    const gconv_input *input = &job->inputs.items[i];
    bool one = job->batch.one_array; /* of all inputs */
    for (size_t n = one ? 0 : job->outputs.first[i]; n < (one ? 1 : job->outputs.first[i + 1]); n++)
      fprintf(job->out, "%s -> %s%s\n", input->path, job->outputs.paths.items[n],
              remark_on(job, input, job->outputs.paths.items[n]));
  }
  return job->batch.explain && job->inputs.count > 0 ? explain_first(job) : GCONV_EXIT_OK;
}

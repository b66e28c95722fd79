/* SPDX-License-Identifier: MIT */
/* --dry-run: what the main job would read and write, and, with --explain, what it would do with its first image. */
#include "batch/devices.h"
#include "batch/explain.h"
#include "cli/command.h"
#include "cli/filter_job.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *remark_on(const gconv_filter_job *job, const gconv_input *input, const char *path) {
  if (job->manifest)
    return gconv_manifest_look_up(job->manifest, path, input->relative, gconv_print_of(input->path)) == GCONV_FOUND_DONE
               ? " (done: passed over)"
               : "";
  if (strcmp(path, "-") == 0 || access(path, F_OK) != 0)
    return "";
  if (job->settings.no_clobber)
    return " (exists: kept)";
  return job->settings.skip_existing ? " (exists: passed over)" : " (exists: replaced)";
}

/* Plans the first image by its header, as the run would. */
static gconv_status explain_header(const gconv_filter_job *job, const gconv_batch *batch, gconv_devices *devices,
                                   gconv_device *device, const gconv_image *header) {
  gconv_options options = job->settings.convolution;
  options.executions = job->inputs.count;
  options.without = gconv_devices_without(devices);
  options.keep_type = false;
  options.output_type = gconv_batch_output_type(&job->settings.convolution, job->outputs.format, header->type);
  gconv_plan *plan = NULL;
  char *text = NULL;
  gconv_status status = gconv_plan_create(device, header, &job->filters, &options, &plan);
  if (status == GCONV_OK)
    status = gconv_batch_explain(batch, plan, &text);
  if (status == GCONV_OK)
    gconv_filter_print_explanation(text, gconv_devices_reason(devices));
  free(text);
  gconv_plan_free(plan);
  return status;
}

/* Explains the plan on the device that the run would have. */
static gconv_status explain_on_device(gconv_filter_job *job, const gconv_image *header, gconv_message *message) {
  gconv_batch batch = gconv_filter_batch(job);
  batch.options.executions = job->inputs.count;
  batch.only_explained = true;
  gconv_devices *devices = NULL;
  int threads = gconv_threads_allowed(batch.threads);
  GCONV_TRY(gconv_devices_begin(&batch, threads, 1, NULL, &devices, message));
  gconv_device *device = gconv_devices_now(devices, 0);
  gconv_status status = device ? GCONV_OK : gconv_devices_wait(devices, 0, header, &device, message);
  if (status == GCONV_OK && explain_header(job, &batch, devices, device, header) != GCONV_OK)
    status = gconv_complain(message, GCONV_UNSUPPORTED, "%s", gconv_last_error());
  gconv_devices_close(devices);
  return status;
}

static int explain_first(gconv_filter_job *job) {
  if (job->has_banks)
    return gconv_bank_job_explain(&job->settings, &job->bank, job->inputs.items[0].path) ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
  gconv_image header = {0};
  gconv_message message;
  gconv_status status = gconv_image_read_header(job->inputs.items[0].path, &header, NULL);
  if (status == GCONV_OK)
    status = explain_on_device(job, &header, &message);
  else
    gconv_complain(&message, status, "%s", gconv_last_error());
  if (status != GCONV_OK)
    gconv_say("%s", message.text);
  gconv_image_free(&header);
  return status == GCONV_OK ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
}

int gconv_filter_dry_run(gconv_filter_job *job) {
  gconv_message message;
  if (gconv_filter_open_manifest(job, false, &message) != GCONV_OK) {
    gconv_say("%s", message.text);
    return GCONV_EXIT_FAILED;
  }
  bool one_tensor = job->has_banks && job->bank.batch.one_tensor;
  for (size_t i = 0; i < job->inputs.count && one_tensor; i++)
    fprintf(job->out, "%s -> %s%s\n", job->inputs.items[i].path, job->outputs.paths.items[0],
            remark_on(job, &job->inputs.items[i], job->outputs.paths.items[0]));
  for (size_t i = 0; i < job->inputs.count && !one_tensor; i++)
    for (size_t n = job->outputs.first[i]; n < job->outputs.first[i + 1]; n++)
      fprintf(job->out, "%s -> %s%s\n", job->inputs.items[i].path, job->outputs.paths.items[n],
              remark_on(job, &job->inputs.items[i], job->outputs.paths.items[n]));
  return job->settings.explain && job->inputs.count > 0 ? explain_first(job) : GCONV_EXIT_OK;
}

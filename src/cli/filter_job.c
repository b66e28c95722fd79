/* SPDX-License-Identifier: MIT */
#include "cli/filter_job.h"
#include "batch/digest.h"
#include "cli/terminal.h"

static gconv_existing choose_existing(const gconv_settings *settings) {
  if (settings->no_clobber)
    return GCONV_EXISTING_KEEP;
  return settings->skip_existing ? GCONV_EXISTING_SKIP : GCONV_EXISTING_REPLACE;
}

/* The level as gconv_write_options has it, where 0 is the default. */
static int choose_png_level(const gconv_settings *settings) {
  return settings->png_level < 0 ? 0 : settings->png_level == 0 ? GCONV_PNG_STORED : settings->png_level;
}

gconv_batch gconv_filter_batch(gconv_filter_job *job) {
  const gconv_settings *settings = &job->settings;
  return (gconv_batch){
      .inputs = &job->inputs,
      .outputs = &job->outputs,
      .filters = &job->filters,
      .options = settings->convolution,
      .device = settings->device,
      .decoder = (gconv_decoder)settings->decode,
      .cpu_may_begin = settings->cpu_may_begin,
      .threads = settings->threads,
      .jobs = settings->jobs,
      .memory = settings->memory,
      .max_pixels = settings->max_pixels,
      .jpeg_quality = settings->jpeg_quality,
      .png_level = choose_png_level(settings),
      .existing = choose_existing(settings),
      .manifest = job->manifest,
      .fail_fast = settings->fail_fast,
      .verify = settings->verify,
      .explain = settings->explain,
      .tolerance = settings->tolerance,
      .report = gconv_filter_report,
      .user = job,
  };
}

static uint64_t digest_of(gconv_filter_job *job) {
  gconv_batch batch = gconv_filter_batch(job);
  job->bank.batch.common = batch;
  return job->has_banks ? gconv_bank_digest(&job->bank.batch) : gconv_batch_digest(&batch);
}

gconv_status gconv_filter_open_manifest(gconv_filter_job *job, bool writes, gconv_message *message) {
  if (!job->settings.resume || job->manifest)
    return GCONV_OK;
  GCONV_TRY(gconv_manifest_open(&job->outputs, &job->settings.shard, digest_of(job), writes, &job->manifest, message));
  if (writes && gconv_manifest_leftovers(job->manifest) > 0 && !job->settings.quiet)
    gconv_say("removed %zu unfinished files that a killed run had left", gconv_manifest_leftovers(job->manifest));
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* The main command: images in, filtered images out. */
#include "cli/bank_race.h"
#include "cli/command.h"
#include "cli/filter_job.h"
#include "cli/filter_options.h"
#include "cli/race.h"
#include "cli/terminal.h"

#include <string.h>
#include <unistd.h>

/* ---- --algorithm all ---------------------------------------------------------------------------------------------- */

/* Whether any result would be written: not if those that exist are kept, and all do. */
static bool writes_any(const gconv_filter_job *job) {
  if (!job->settings.no_clobber && !job->settings.skip_existing)
    return true;
  for (size_t n = 0; n < job->outputs.paths.count; n++)
    if (!gconv_output_exists(job->outputs.paths.items[n]))
      return true;
  return false;
}

/* Lets the fastest algorithm do the job that follows. GCONV_EXIT_OK, or what the program ends with. */
static int race(gconv_filter_job *job) {
  gconv_settings *settings = &job->settings;
  if (job->inputs.count != 1 || strcmp(job->inputs.items[0].path, "-") == 0) {
    gconv_say(
        "--algorithm all is a race on one image, which is read twice: name a single file, not a folder, a pattern or -");
    return GCONV_EXIT_USAGE;
  }
  if (!writes_any(job)) { /* nothing to race for: the batch says so */
    settings->convolution.algorithm = "auto";
    return GCONV_EXIT_OK;
  }
  if (job->has_banks) {
    FILE *out = settings->timings == GCONV_TIMINGS_JSON ? stderr : job->out;
    job->bank.batch.options.algorithm =
        gconv_bank_race_run(settings, &job->bank, job->inputs.items[0].path, out, job->raced);
    settings->device = job->raced;
    return job->bank.batch.options.algorithm ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
  }
  gconv_race entry = {.device = settings->device,
                      .threads = settings->threads,
                      .input = job->inputs.items[0].path,
                      .max_pixels = settings->max_pixels,
                      .format = job->outputs.format,
                      .filters = &job->filters,
                      .options = &settings->convolution,
                      .verify = settings->verify,
                      .out = settings->timings == GCONV_TIMINGS_JSON ? stderr : job->out};
  settings->convolution.algorithm = gconv_race_run(&entry, job->raced);
  settings->device = job->raced;
  return settings->convolution.algorithm ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
}

/* ---- The work ------------------------------------------------------------------------------------------------------ */

static int exit_status(const gconv_batch_summary *summary) {
  if (summary->failed == 0)
    return GCONV_EXIT_OK;
  return summary->written + summary->passed > 0 ? GCONV_EXIT_PARTLY : GCONV_EXIT_FAILED;
}

static gconv_status run_batch(gconv_filter_job *job, gconv_batch_summary *summary, gconv_message *message) {
  gconv_batch batch = gconv_filter_batch(job);
  batch.options.executions = job->inputs.count;
  if (!job->has_banks)
    return gconv_batch_run(&batch, summary, message);
  job->bank.batch.common = batch;
  job->bank.batch.options.executions = job->inputs.count;
  return gconv_bank_batch_run(&job->bank.batch, summary, message);
}

static int work(gconv_filter_job *job) {
  gconv_batch_summary summary;
  gconv_message message;
  if (gconv_filter_open_manifest(job, true, &message) != GCONV_OK) {
    gconv_say("%s", message.text);
    return GCONV_EXIT_FAILED;
  }
  job->total.out = job->out;
  job->progress = job->inputs.count > 1 && !job->settings.quiet && isatty(STDERR_FILENO);
  gconv_status status = run_batch(job, &summary, &message);
  if (status == GCONV_OK) {
    gconv_filter_report_all(job, &summary);
    return exit_status(&summary);
  }
  gconv_progress_hide();
  gconv_say("%s", message.text);
  if (summary.written + summary.passed > 0)
    return GCONV_EXIT_PARTLY;
  return status == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

/* More shards than images, or the luck of the hash. */
static int remark_on_no_share(const gconv_filter_job *job) {
  if (!job->settings.quiet)
    gconv_say("shard %d/%d has none of the images", job->settings.shard.number, job->settings.shard.count);
  return GCONV_EXIT_OK;
}

static void log_to_terminal(gconv_log_level level, const char *text, void *user) {
  const gconv_settings *settings = user;
  if (level == GCONV_LOG_WARNING && !settings->quiet)
    gconv_say("warning: %s", text);
  else if (level == GCONV_LOG_REMARK && settings->verbose)
    gconv_say("%s", text);
}

static int run_job(gconv_filter_job *job) {
  gconv_message message;
  gconv_set_log(log_to_terminal, &job->settings);
  if (gconv_filter_prepare(job, &message) != GCONV_OK) {
    gconv_say("%s", message.text);
    return GCONV_EXIT_USAGE;
  }
  job->out = strcmp(job->settings.output, "-") == 0 ? stderr : stdout;
  if (job->settings.dry_run)
    return gconv_filter_dry_run(job);
  if (job->inputs.count == 0)
    return remark_on_no_share(job);
  int status = job->settings.race ? race(job) : GCONV_EXIT_OK;
  return status == GCONV_EXIT_OK ? work(job) : status;
}

static int refuse_word(const char *word) {
  gconv_say("%s: unexpected argument: images follow -i, filters -f, and the result -o", word);
  return GCONV_EXIT_USAGE;
}

static int run(const gconv_command *self, int count, char *const *words) {
  gconv_filter_job job = {.settings = gconv_settings_default()};
  gconv_texts operands = {0};
  int status;
  if (gconv_command_parse(self, count, words, &job.settings, &operands, &status))
    status = operands.count > 0 ? refuse_word(operands.items[0]) : run_job(&job);
  gconv_texts_free(&operands);
  gconv_manifest_close(job.manifest);
  gconv_outputs_free(&job.outputs);
  gconv_inputs_free(&job.inputs);
  gconv_filters_free(&job.filters);
  gconv_bank_job_free(&job.bank);
  gconv_settings_free(&job.settings);
  return status;
}

const gconv_command gconv_command_filter = {
    .name = "filter",
    .synopsis = "[filter] -i INPUT... -f FILTER... -o OUTPUT [OPTION...]",
    .help = "filter images: the main command, which need not be named",
    .details = "Borders of the row  a b c d:\n"
               "  zero         0 0 0 | a b c d | 0 0 0        symmetric    c b a | a b c d | d c b\n"
               "  constant:V   v v v | a b c d | v v v        reflect101   d c b | a b c d | c b a\n"
               "  replicate    a a a | a b c d | d d d        wrap         b c d | a b c d | a b c\n\n"
               "Formats, recognised by content: png, jpeg, pnm (ppm, pgm, pbm), pam, pfm, npy.\n"
               "Exit status: 0 if all went well, 1 if everything failed, 2 if the request was wrong and nothing was done,\n"
               "3 if some results failed.\n",
    .options = gconv_filter_options,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* The main command: images in, filtered images out. */
#include "base/file.h"
#include "base/memory.h"
#include "base/printable.h"
#include "bench/bench.h"
#include "cli/command.h"
#include "cli/job.h"
#include "cli/job_settings.h"
#include "cli/memory_limit.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"
#include "cli/windows.h"

#include <string.h>
#include <unistd.h>

/* ---- Before the images --------------------------------------------------------------------------------------------- */

static gconv_status open_manifest(gconv_main_job *job, bool writes) {
  return gconv_memory_limit_explain(job->common->memory, gconv_job_open_manifest(job, writes));
}

/* The last step before the run, which counts the memory of its images itself. */
static gconv_status make_operation(gconv_main_job *job) {
  gconv_status status = gconv_memory_limit_explain(job->common->memory, gconv_job_make_operation(job));
  gconv_memory_limit_end();
  return status;
}

/* ---- --algorithm all ---------------------------------------------------------------------------------------------- */

/* True if any result would be written; false if existing results are kept, and all exist. */
static bool writes_any(const gconv_main_job *job) {
  if (!job->common->no_clobber && !job->settings->skip_existing)
    return true;
  for (size_t n = 0; n < job->outputs.paths.count; n++)
    if (!gconv_output_exists(job->outputs.paths.items[n]))
      return true;
  return false;
}

/* Finds the fastest algorithm, and sets it for the job. Returns GCONV_EXIT_OK, or the exit status of the command. */
static int race(gconv_main_job *job) {
  const gconv_network *network = gconv_job_last_network(job);
  const gconv_race asked = {.batch = &job->batch,
                            .filters = &job->filters,
                            .options = &job->options,
                            .layers = network      ? network->layers
                                      : job->banks ? job->layers
                                                   : NULL,
                            .layer_count = network ? network->count : job->layer_count,
                            .network = &job->network,
                            .among = job->settings->racers,
                            .path = job->inputs.items[0].path,
                            .out = job->settings->timings == GCONV_TIMINGS_JSON ? stderr : job->out};
  const char *fastest;
  if (job->inputs.count != 1 || strcmp(asked.path, "-") == 0) {
    gconv_say(
        "--algorithm all is a race on one image, which is read twice: name a single file, not a folder, a pattern or -");
    return GCONV_EXIT_USAGE;
  }
  if (!writes_any(job)) /* there is no work for the fastest algorithm; the batch will say so */
    return GCONV_EXIT_OK;
  gconv_memory_limit_end();
  if (gconv_race_run(&asked, &fastest, job->raced) != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_FAILED);
  job->options.algorithm = job->network.algorithm = fastest;
  job->batch.device = job->raced;
  return GCONV_EXIT_OK;
}

/* ---- --dry-run ------------------------------------------------------------------------------------------------------ */

static const char *remark_on(const gconv_main_job *job, const gconv_input *input, const char *path) {
  if (job->manifest)
    return gconv_manifest_find(job->manifest, path, input) == GCONV_FOUND_DONE ? " (done: passed over)" : "";
  if (strcmp(path, "-") == 0 || access(path, F_OK) != 0)
    return "";
  if (job->common->no_clobber)
    return " (exists: kept)";
  if (job->settings->naming.in_place)
    return gconv_backup_check(path) == GCONV_OK ? " (kept as its .orig)" : " (left alone: there is an older .orig)";
  return job->settings->skip_existing ? " (exists: passed over)" : " (exists: replaced)";
}

static int explain_first(gconv_main_job *job) {
  char *text = NULL, reason[192] = "";
  gconv_status status = make_operation(job);
  GCONV_THEN(status, gconv_batch_explain_first(&job->batch, &text, reason, &(gconv_message){0}));
  if (status == GCONV_OK)
    gconv_job_print_explanation(text, reason);
  else
    gconv_say("%s", gconv_last_error());
  free(text);
  return status == GCONV_OK ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
}

/* Prints what would be read and written, and, with --explain, what would be done with the first image. */
static int dry_run(gconv_main_job *job) {
  if (open_manifest(job, false) != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_FAILED);
  for (size_t i = 0; i < job->inputs.count; i++) {
    const gconv_input *input = &job->inputs.items[i];
    bool one = job->batch.one_array; /* one array has the results of all inputs */
    for (size_t n = one ? 0 : job->outputs.first[i]; n < (one ? 1 : job->outputs.first[i + 1]); n++)
      gconv_print(job->out, "%s -> %s%s\n", input->path, job->outputs.paths.items[n],
                  remark_on(job, input, job->outputs.paths.items[n]));
  }
  return job->batch.explain && job->inputs.count > 0 ? explain_first(job) : GCONV_EXIT_OK;
}

/* ---- The work ------------------------------------------------------------------------------------------------------ */

static int exit_status(const gconv_batch_summary *summary) {
  if (summary->failed == 0)
    return GCONV_EXIT_OK;
  return summary->written + summary->passed > 0 ? GCONV_EXIT_PARTLY : GCONV_EXIT_FAILED;
}

static int work(gconv_main_job *job) {
  gconv_batch_summary summary = {0};
  if (open_manifest(job, true) != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_FAILED);
  job->total.out = job->out;
  job->total.style = job->settings->timings;
  job->progress = job->inputs.count > 1 && !job->common->quiet && gconv_terminal_can_erase();
  if (job->inputs.count == 1 && !job->common->quiet && gconv_terminal_can_erase())
    job->batch.advance = gconv_job_advance;
  gconv_status status = make_operation(job);
  gconv_job_count_for_signals(job);
  GCONV_THEN(status, gconv_job_run_batch(job, &summary));
  gconv_job_count_for_signals(NULL);
  if (!job->device.name[0])
    gconv_device_choose(&job->device, summary.device.name, summary.device_reason);
  if (status == GCONV_OK) {
    gconv_job_report_all(job, &summary);
    return exit_status(&summary);
  }
  gconv_progress_hide();
  gconv_say("%s", gconv_last_error());
  if (summary.written + summary.passed > 0)
    return GCONV_EXIT_PARTLY;
  return status == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

/* Prints that this shard got no image: there are more shards than images, or the hash gave it none. */
static int remark_on_no_share(const gconv_main_job *job) {
  if (!job->common->quiet)
    gconv_say("shard %d/%d has none of the images", job->settings->shard.number, job->settings->shard.count);
  return GCONV_EXIT_OK;
}

/* Does everything before the first image is filtered. Gives up rights to change files as soon as the outputs are known. */
static gconv_status prepare(gconv_main_job *job) {
  gconv_job_settings *settings = job->settings;
  GCONV_TRY(gconv_job_settings_finish(settings));
  if (settings->dry_run)
    gconv_sandbox_outputs(&settings->common, NULL, false);
  GCONV_TRY(gconv_job_prepare(job));
  if (job->inputs.count == 0) /* this shard has no inputs */
    return GCONV_OK;
  if (!settings->dry_run)
    gconv_sandbox_outputs(&settings->common, &job->outputs, job->has_banks); /* networks keep maps */
  return gconv_job_read_mask(job, settings->resume);
}

static int run_job(gconv_main_job *job) {
  gconv_memory_limit_begin(job->common->memory);
  if (gconv_memory_limit_explain(job->common->memory, prepare(job)) != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_USAGE);
  job->out = job->common->output && strcmp(job->common->output, "-") == 0 ? stderr : stdout;
  if (job->settings->dry_run) {
    int status = dry_run(job);
    return status == GCONV_EXIT_OK && job->missed > 0 ? GCONV_EXIT_PARTLY : status;
  }
  if (job->inputs.count == 0)
    return remark_on_no_share(job);
  int status = gconv_job_settings_want_race(job->settings) ? race(job) : GCONV_EXIT_OK;
  if (status == GCONV_EXIT_OK)
    status = work(job);
  return status == GCONV_EXIT_OK && job->missed > 0 ? GCONV_EXIT_PARTLY : status;
}

int gconv_job_run(gconv_job_settings *settings, int (*then)(const gconv_main_job *job, void *user), void *user) {
  GCONV_ENDED_BY(gconv_job_free) gconv_main_job job = {.settings = settings, .common = &settings->common};
  int status = run_job(&job);
  if (status == GCONV_EXIT_OK && then)
    status = then(&job, user);
  gconv_memory_limit_end();
  gconv_sandbox_tidy();
  return status;
}

static gconv_status check_windows(const gconv_job_settings *settings) {
  const gconv_common *common = &settings->common;
  const gconv_texts *networks = &settings->last.filters;
  if (common->inputs.count != 1)
    return gconv_refuse("--windows takes one signal: %s and %s are several", common->inputs.items[0],
                        common->inputs.items[1]);
  if (networks->count != 1)
    return gconv_refuse("--windows takes one network: %s and %s are several", networks->items[0], networks->items[1]);
  if (gconv_job_settings_want_race(settings))
    return gconv_refuse("--algorithm all is a race on one image: --windows takes auto, or one algorithm");
  if (gconv_devices_are_several(common->device))
    return gconv_refuse("--device %s: --windows uses one device", common->device);
  return GCONV_OK;
}

static int run_windows(gconv_job_settings *settings) {
  gconv_set_log(settings->common.quiet ? NULL : gconv_say_warning, NULL);
  gconv_status status = gconv_job_settings_finish(settings);
  GCONV_THEN(status, check_windows(settings));
  if (status != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_USAGE);
  const gconv_windows_task task = {
      .common = &settings->common,
      .network = settings->last.filters.items[0],
      .options = {.any_batch = true,
                  .math = settings->network.math,
                  .without = settings->options.without,
                  .algorithm = settings->last.layer.algorithm,
                  .workspace_bytes = settings->workspace < SIZE_MAX / 2 ? (size_t)settings->workspace : SIZE_MAX / 2},
      .raw = settings->raw,
      .windows = settings->windows,
      .naming = &settings->naming,
      .timings = settings->timings,
      .format = settings->rows};
  return gconv_windows_run(&task);
}

static int run(void *record, const gconv_texts *words) {
  gconv_job_settings *settings = record;
  if (gconv_job_settings_take_words(settings, words) == GCONV_OK) {
    if (settings->common.output)
      gconv_end_when_unread(settings->common.output);
    return settings->windows.samples > 0 ? run_windows(settings) : gconv_job_run(settings, NULL, NULL);
  }
  return gconv_say_failed(GCONV_EXIT_USAGE);
}

/* Prints drawings of what the values of options mean. */
static void print_drawings(FILE *out) {
  const gconv_option *row;
  for (gconv_option_walk walk = {gconv_job_options, NULL}; (row = gconv_option_next(&walk));)
    if (row->drawing)
      fprintf(out, "\n%s", row->drawing);
}

void gconv_formats_print(FILE *out) {
  const gconv_format_info *format;
  fputs("Formats, recognised by content; extensions that results may have:\n", out);
  for (size_t i = 0; (format = gconv_format_at(i)); i++)
    fprintf(out, "  %-8s %-18s %s\n", format->name, format->extensions, format->help);
}

static void print_formats(FILE *out) {
  print_drawings(out);
  fputc('\n', out);
  gconv_formats_print(out);
}

const gconv_command gconv_command_filter = {
    .name = "filter",
    .synopsis = "[filter] -i INPUT... -f FILTER... -o OUTPUT [OPTION...]\n"
                "       gconv FILTER INPUT... OUTPUT [OPTION...]",
    .help = "filter images: the main command, which need not be named",
    .details = "-f, -i and -o can be left out where nothing is unclear: gconv FILTER INPUT... OUTPUT.\n\n"
               "Exit status: 0 if all went well, 1 if everything failed, 2 if the request was wrong and nothing was done,\n"
               "3 if some results failed, 128 + N if signal N ended it: finished results stay.\n",
    .more = print_formats,
    .options = gconv_job_options,
    .record_bytes = GCONV_RECORD_BYTES(gconv_job_settings, common),
    .begin = gconv_job_settings_begin,
    .end = gconv_job_settings_end,
    .words = GCONV_WORDS_FILES,
    .writes = true,
    .run = run,
};

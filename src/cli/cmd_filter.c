/* SPDX-License-Identifier: MIT */
/* The main job: images in, filtered images out. */
#include "batch/devices.h"
#include "batch/digest.h"
#include "batch/explain.h"
#include "cli/bank_race.h"
#include "cli/command.h"
#include "cli/filter_options.h"
#include "cli/race.h"
#include "cli/terminal.h"
#include "cli/timings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the parts of one run share. */
struct job {
  gconv_settings settings;
  gconv_inputs inputs;
  gconv_outputs outputs;
  gconv_filters filters;
  gconv_manifest *manifest; /* with --resume */
  bool has_banks;           /* it applies banks, as `bank` says, and no filters */
  gconv_bank_job bank;
  gconv_timings_total total;
  FILE *out;      /* where reports go: standard output, unless an image goes there */
  bool progress;  /* a line of progress is wanted */
  char raced[32]; /* the device of the race, with --algorithm all */
};

/* ---- Before the work ----------------------------------------------------------------------------------------------- */

static void log_to_terminal(gconv_log_level level, const char *text, void *user) {
  const gconv_settings *settings = user;
  if (level == GCONV_LOG_WARNING && !settings->quiet)
    gconv_say("warning: %s", text);
  else if (level == GCONV_LOG_REMARK && settings->verbose)
    gconv_say("%s", text);
}

static gconv_status read_filters(struct job *job, gconv_message *message) {
  const gconv_settings *settings = &job->settings;
  for (size_t i = 0; i < settings->filters.count; i++) {
    gconv_status status = gconv_filters_read(settings->filters.items[i], settings->syntax, &job->filters);
    if (status != GCONV_OK)
      return gconv_complain(message, status, "%s", gconv_last_error());
  }
  return GCONV_OK;
}

/* Weights of a layer with a channel in each group look like plain filters. */
static gconv_status hint_at_groups(const struct job *job, gconv_status status, gconv_message *message) {
  const gconv_texts *filters = &job->settings.filters;
  size_t length = filters->count == 1 ? strlen(filters->items[0]) : 0;
  bool array = length > 4 && strcmp(filters->items[0] + length - 4, ".npy") == 0;
  if (job->has_banks || !array || job->filters.count < 2)
    return status;
  return gconv_complain(message, status,
                        "%s; %s has filters for each channel by itself: if they are the weights of a depthwise "
                        "layer, say --groups %zu",
                        message->text, filters->items[0], job->filters.count);
}

static gconv_status name_outputs(struct job *job, gconv_message *message) {
  if (job->has_banks)
    GCONV_TRY(gconv_bank_job_name(&job->settings, &job->inputs, &job->bank, &job->outputs, message));
  if (job->has_banks)
    return gconv_outputs_check(&job->inputs, &job->outputs, message);
  gconv_naming naming = {
      .output = job->settings.output,
      .format = job->settings.format,
      .filters = &job->filters,
      .each_filter = job->settings.convolution.combine == GCONV_COMBINE_NONE,
  };
  gconv_status status = gconv_outputs_name(&job->inputs, &naming, &job->outputs, message);
  if (status != GCONV_OK)
    return hint_at_groups(job, status, message);
  return gconv_outputs_check(&job->inputs, &job->outputs, message);
}

/* Options that only some formats have. */
static gconv_status check_format(const struct job *job, gconv_message *message) {
  static const char *const depths[] = {"8", "16", "float"};
  const gconv_settings *settings = &job->settings;
  const gconv_format_info *format = job->outputs.format;
  if (settings->depth >= 0 && !format->holds[settings->depth])
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--depth %s: the format %s cannot hold that: choose another with --format",
                          depths[settings->depth], format->name);
  if (settings->png_level >= 0 && strcmp(format->name, "png") != 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--png-level: the results are %s, not PNG", format->name);
  if (settings->jpeg_quality && format != gconv_format_by_name("jpg"))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--jpeg-quality: the results are %s, not JPEG", format->name);
  return GCONV_OK;
}

/* Half of what a derivative finds is below 0, where levels end. */
static void remark_on_signs(const struct job *job) {
  const gconv_options *options = &job->settings.convolution;
  if (!job->settings.verbose || job->has_banks || job->outputs.format->holds[GCONV_F32] || options->offset != 0 ||
      options->range != GCONV_RANGE_CLAMP || options->combine != GCONV_COMBINE_NONE)
    return;
  for (size_t i = 0; i < job->filters.count; i++) {
    gconv_filter_analysis found;
    const gconv_filter *filter = &job->filters.items[i];
    if (filter->offset == 0 && gconv_filter_analyze(filter, &found) == GCONV_OK && found.positive_sum > 0 &&
        fabs(found.sum) <= 1e-6 * found.positive_sum) {
      gconv_say("%s: responses below 0, about half of them, become black: --range signed or abs shows them", filter->name);
      return;
    }
  }
}

/* Everything that can be known before the first image is read. */
static gconv_status prepare(struct job *job, gconv_message *message) {
  GCONV_TRY(gconv_settings_finish(&job->settings, message));
  job->has_banks = gconv_settings_mean_banks(&job->settings);
  GCONV_TRY(job->has_banks ? gconv_bank_job_read(&job->settings, &job->bank, message) : read_filters(job, message));
  GCONV_TRY(gconv_inputs_find(&job->settings.inputs, job->settings.recursive, job->settings.output, &job->inputs, message));
  if (job->inputs.unread > 0 && !job->settings.quiet)
    gconv_say("%s%s: not of a format that is read here, and passed over", job->inputs.unread_one,
              job->inputs.unread > 1 ? ", and more" : "");
  GCONV_TRY(name_outputs(job, message));
  GCONV_TRY(gconv_outputs_check_filters(&job->settings.filters, &job->outputs, message));
  for (size_t i = 0; i < job->settings.layer_count; i++)
    GCONV_TRY(gconv_outputs_check_filters(&job->settings.layers[i].filters, &job->outputs, message));
  GCONV_TRY(check_format(job, message));
  remark_on_signs(job);
  if (job->has_banks && job->bank.batch.one_tensor && job->settings.shard.count > 1)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--shard: one array of all results cannot be divided: name a folder");
  if (job->has_banks && job->bank.batch.one_tensor && job->settings.resume)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--resume: one array of all results is made as a whole: name a folder (-o results/ --format npy)");
  if (job->has_banks && (job->settings.decode == GCONV_DECODER_GPU || gconv_devices_are_several(job->settings.device)))
    return gconv_complain(message, GCONV_UNSUPPORTED,
                          "banks are applied on one device, to what the CPU decodes: -d cuda:N, "
                          "without --decode gpu");
  gconv_shard_take(&job->settings.shard, &job->inputs, &job->outputs);
  return GCONV_OK;
}

/* ---- While it works ------------------------------------------------------------------------------------------------ */

enum { BAR_WIDTH = 24 };

static void show_progress(const struct job *job, const gconv_report *report) {
  size_t done = job->total.inputs, all = job->inputs.count;
  char bar[BAR_WIDTH + 1], text[160];
  size_t filled = done * BAR_WIDTH / all;
  memset(bar, '#', filled);
  memset(bar + filled, '.', BAR_WIDTH - filled);
  bar[BAR_WIDTH] = '\0';
  double seconds = report->elapsed_ms * 1e-3;
  snprintf(text, sizeof text, "[%s] %zu/%zu images, %.1f Mpix/s, %.0f s left", bar, done, all,
           seconds > 0 ? (double)job->total.pixels * 1e-6 / seconds : 0.0, seconds * (double)(all - done) / (double)done);
  gconv_progress_show(text);
}

/* In the form of a mismatch, which is an error and said as one. */
static void print_verification(FILE *out, const gconv_report *report) {
  const gconv_verification *found = &report->verification;
  if (found->max_error == 0) {
    fprintf(out, "%s: equal to float64, %llu samples compared\n", report->input->path, (unsigned long long)found->compared);
    return;
  }
  fprintf(out,
          "%s: largest error %.3g of the %.3g allowed: output %zu, frame %d, row %d, column %d, channel %d is %.9g, and "
          "float64 gives %.9g; %llu samples compared\n",
          report->input->path, found->max_error, found->allowed, found->output, (int)found->frame, (int)found->y,
          (int)found->x, (int)found->channel, found->got, found->expected, (unsigned long long)found->compared);
}

static void print_explanation(const char *explanation, const char *device_reason) {
  fputs(explanation, stderr);
  if (device_reason[0])
    fprintf(stderr, "this device, because %s\n", device_reason);
}

static void print_remarks(const struct job *job, const gconv_report *report) {
  if (report->explanation)
    print_explanation(report->explanation, report->device_reason);
  if (job->settings.verbose && report->remark)
    gconv_say("%s: %s", report->input->path, report->remark);
  if (job->settings.verbose && report->executed)
    gconv_say("%s: %s, %s, %s, %.1f ms", report->input->path, report->plan.device, report->plan.algorithm, report->plan.math,
              report->total_ms);
  bool matches = report->verified && report->verification.max_error <= report->verification.allowed;
  if (matches && job->settings.timings != GCONV_TIMINGS_JSON)
    print_verification(job->out, report);
}

static void take_report(const gconv_report *report, void *user) {
  struct job *job = user;
  gconv_progress_hide();
  print_remarks(job, report);
  for (size_t i = 0; i < report->errors->count; i++)
    gconv_say("%s", report->errors->items[i]);
  if (report->failed > 0 && report->errors->count == 0)
    gconv_say("%s: failed, and there is no memory to say why", report->input->path);
  if (job->settings.timings == GCONV_TIMINGS_JSON)
    gconv_timings_print_json(&job->total, report);
  else if (job->settings.timings == GCONV_TIMINGS_TABLE)
    gconv_timings_print_row(&job->total, report);
  else
    gconv_timings_count(&job->total, report);
  if (job->progress)
    show_progress(job, report);
}

static gconv_existing choose_existing(const gconv_settings *settings) {
  if (settings->no_clobber)
    return GCONV_EXISTING_KEEP;
  return settings->skip_existing ? GCONV_EXISTING_SKIP : GCONV_EXISTING_REPLACE;
}

/* ---- The batch ----------------------------------------------------------------------------------------------------- */

/* As gconv_write_options has it. */
static int choose_png_level(const gconv_settings *settings) {
  return settings->png_level < 0 ? 0 : settings->png_level == 0 ? GCONV_PNG_STORED : settings->png_level;
}

static gconv_batch make_batch(struct job *job) {
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
      .report = take_report,
      .user = job,
  };
}

static uint64_t digest_of(struct job *job) {
  gconv_batch batch = make_batch(job);
  job->bank.batch.common = batch;
  return job->has_banks ? gconv_bank_digest(&job->bank.batch) : gconv_batch_digest(&batch);
}

/* `writes`: the manifest goes on, else it is only read. */
static gconv_status open_manifest(struct job *job, bool writes, gconv_message *message) {
  if (!job->settings.resume || job->manifest)
    return GCONV_OK;
  GCONV_TRY(gconv_manifest_open(&job->outputs, &job->settings.shard, digest_of(job), writes, &job->manifest, message));
  if (writes && gconv_manifest_leftovers(job->manifest) > 0 && !job->settings.quiet)
    gconv_say("removed %zu unfinished files that a killed run had left", gconv_manifest_leftovers(job->manifest));
  return GCONV_OK;
}

/* ---- --dry-run ----------------------------------------------------------------------------------------------------- */

static const char *remark_on(const struct job *job, const gconv_input *input, const char *path) {
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
static gconv_status explain_header(const struct job *job, const gconv_batch *batch, gconv_devices *devices,
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
    print_explanation(text, gconv_devices_reason(devices));
  free(text);
  gconv_plan_free(plan);
  return status;
}

/* On the device that the run would have. */
static gconv_status explain_on_device(struct job *job, const gconv_image *header, gconv_message *message) {
  gconv_batch batch = make_batch(job);
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

static int explain_first(struct job *job) {
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

static int dry_run(struct job *job) {
  gconv_message message;
  if (open_manifest(job, false, &message) != GCONV_OK) {
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

/* ---- --algorithm all ---- */

/* Whether any result would be written: not if those that exist are kept, and all do. */
static bool writes_any(const struct job *job) {
  if (choose_existing(&job->settings) == GCONV_EXISTING_REPLACE)
    return true;
  for (size_t n = 0; n < job->outputs.paths.count; n++)
    if (!gconv_output_exists(job->outputs.paths.items[n]))
      return true;
  return false;
}

/* Lets the fastest algorithm do the job that follows. GCONV_EXIT_OK, or what the program ends with. */
static int race(struct job *job) {
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

/* What starting CUDA cost. */
static void remark_on_start(const gconv_batch_summary *summary) {
  double hidden = summary->device_start_ms - summary->device_wait_ms;
  if (strncmp(summary->device.name, "cuda", 4) == 0 && summary->device_start_ms > 0)
    gconv_say("%s: CUDA started in %.0f ms, of which %.0f ms were hidden behind reading and decoding", summary->device.name,
              summary->device_start_ms, hidden > 0 ? hidden : 0);
}

/* What --resume made of what it found. A first run finds nothing, and says nothing. */
static void remark_on_resumption(const gconv_batch_summary *summary) {
  static const char *const taken_up[] = {[GCONV_FOUND_NEW] = "new",
                                         [GCONV_FOUND_OTHER_JOB] = "of other filters, options or another version",
                                         [GCONV_FOUND_OTHER_INPUT] = "of inputs that changed",
                                         [GCONV_FOUND_OTHER_RESULT] = "missing or changed"};
  const size_t *found = summary->found, done = found[GCONV_FOUND_DONE];
  char text[256] = "";
  size_t used = 0;
  if (found[GCONV_FOUND_NEW] == summary->written + summary->passed + summary->failed)
    return;
  for (size_t i = GCONV_FOUND_NEW; i <= GCONV_FOUND_OTHER_RESULT; i++)
    if (found[i] > 0)
      used +=
          (size_t)snprintf(text + used, sizeof text - used, "%s %zu %s", used ? "," : "; taken up:", found[i], taken_up[i]);
  gconv_say("--resume: %zu result%s done%s", done, done == 1 ? " was" : "s were", used ? text : ", which is all");
}

static int finish(const struct job *job, const gconv_batch_summary *summary) {
  gconv_progress_hide();
  if (job->manifest && !job->settings.quiet)
    remark_on_resumption(summary);
  if (job->settings.verbose)
    remark_on_start(summary);
  if (summary->begun < job->inputs.count)
    gconv_say("%s: %zu of %zu images were not read",
              job->has_banks && job->bank.batch.one_tensor ? "no array is written, as it would not be whole"
                                                           : "stopped by --fail-fast",
              job->inputs.count - summary->begun, job->inputs.count);
  if (job->settings.timings == GCONV_TIMINGS_JSON)
    gconv_timings_print_json_summary(&job->total, summary);
  else if (job->settings.timings == GCONV_TIMINGS_TABLE)
    gconv_timings_print_summary(&job->total, summary);
  return exit_status(summary);
}

static gconv_status run_batch(struct job *job, gconv_batch_summary *summary, gconv_message *message) {
  gconv_batch batch = make_batch(job);
  batch.options.executions = job->inputs.count;
  if (!job->has_banks)
    return gconv_batch_run(&batch, summary, message);
  job->bank.batch.common = batch;
  job->bank.batch.options.executions = job->inputs.count;
  return gconv_bank_batch_run(&job->bank.batch, summary, message);
}

static int work(struct job *job) {
  gconv_batch_summary summary;
  gconv_message message;
  if (open_manifest(job, true, &message) != GCONV_OK) {
    gconv_say("%s", message.text);
    return GCONV_EXIT_FAILED;
  }
  job->total.out = job->out;
  job->progress = job->inputs.count > 1 && !job->settings.quiet && isatty(STDERR_FILENO);
  gconv_status status = run_batch(job, &summary, &message);
  if (status == GCONV_OK)
    return finish(job, &summary);
  gconv_progress_hide();
  gconv_say("%s", message.text);
  if (summary.written + summary.passed > 0)
    return GCONV_EXIT_PARTLY;
  return status == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

/* More shards than images, or the luck of the hash. */
static int remark_on_no_share(const struct job *job) {
  if (!job->settings.quiet)
    gconv_say("shard %d/%d has none of the images", job->settings.shard.number, job->settings.shard.count);
  return GCONV_EXIT_OK;
}

static int run_job(struct job *job) {
  gconv_message message;
  gconv_set_log(log_to_terminal, &job->settings);
  if (prepare(job, &message) != GCONV_OK) {
    gconv_say("%s", message.text);
    return GCONV_EXIT_USAGE;
  }
  job->out = strcmp(job->settings.output, "-") == 0 ? stderr : stdout;
  if (job->settings.dry_run)
    return dry_run(job);
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
  struct job job = {.settings = gconv_settings_default()};
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

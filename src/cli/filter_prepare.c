/* SPDX-License-Identifier: MIT */
/* The main job before its first image: options are settled, filters read, inputs found, outputs named. */
#include "batch/devices.h"
#include "cli/filter_job.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>

static gconv_status read_filters(gconv_filter_job *job, gconv_message *message) {
  const gconv_settings *settings = &job->settings;
  for (size_t i = 0; i < settings->filters.count; i++) {
    gconv_status status = gconv_filters_read(settings->filters.items[i], settings->syntax, &job->filters);
    if (status != GCONV_OK)
      return gconv_complain(message, status, "%s", gconv_last_error());
  }
  return GCONV_OK;
}

/* Weights of a layer with a channel in each group look like plain filters. */
static gconv_status hint_at_groups(const gconv_filter_job *job, gconv_status status, gconv_message *message) {
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

static gconv_status name_outputs(gconv_filter_job *job, gconv_message *message) {
  if (job->has_banks) {
    GCONV_TRY(gconv_bank_job_name(&job->settings, &job->inputs, &job->bank, &job->outputs, message));
    return gconv_outputs_check(&job->inputs, &job->outputs, message);
  }
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
static gconv_status check_format(const gconv_filter_job *job, gconv_message *message) {
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
static void remark_on_signs(const gconv_filter_job *job) {
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

/* Options that banks do not have. */
static gconv_status check_bank_options(const gconv_filter_job *job, gconv_message *message) {
  const gconv_settings *settings = &job->settings;
  if (job->bank.batch.one_tensor && settings->shard.count > 1)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--shard: one array of all results cannot be divided: name a folder");
  if (job->bank.batch.one_tensor && settings->resume)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--resume: one array of all results is made as a whole: name a folder (-o results/ --format npy)");
  if (settings->decode == GCONV_DECODER_GPU || gconv_devices_are_several(settings->device))
    return gconv_complain(message, GCONV_UNSUPPORTED,
                          "banks are applied on one device, to what the CPU decodes: -d cuda:N, "
                          "without --decode gpu");
  return GCONV_OK;
}

gconv_status gconv_filter_prepare(gconv_filter_job *job, gconv_message *message) {
  GCONV_TRY(gconv_settings_finish(&job->settings, message));
  job->has_banks = gconv_settings_want_banks(&job->settings);
  GCONV_TRY(job->has_banks ? gconv_bank_job_read(&job->settings, &job->bank, message) : read_filters(job, message));
  GCONV_TRY(gconv_inputs_find(&job->settings.inputs, job->settings.recursive, job->settings.output, &job->inputs, message));
  if (job->inputs.unread > 0 && !job->settings.quiet)
    gconv_say("%s%s: not of a format that is read here, and passed over", job->inputs.unread_one,
              job->inputs.unread > 1 ? ", and more" : "");
  GCONV_TRY(name_outputs(job, message));
  GCONV_TRY(gconv_outputs_check_filters(&job->settings.filters, job->has_banks, &job->outputs, message));
  for (size_t i = 0; i < job->settings.layer_count; i++)
    GCONV_TRY(gconv_outputs_check_filters(&job->settings.layers[i].filters, true, &job->outputs, message));
  GCONV_TRY(check_format(job, message));
  remark_on_signs(job);
  if (job->has_banks)
    GCONV_TRY(check_bank_options(job, message));
  gconv_shard_take(&job->settings.shard, &job->inputs, &job->outputs);
  return GCONV_OK;
}

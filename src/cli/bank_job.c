/* SPDX-License-Identifier: MIT */
#include "cli/bank_job.h"
#include "batch/template.h"
#include "cli/bank.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Banks ---------------------------------------------------------------------------------------------------------- */

/* The bank of one layer. */
static gconv_status read_bank(const gconv_texts *specs, const char *syntax, gconv_bank *bank, gconv_message *message) {
  if (specs->count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--then: no bank follows it: -f BANK --then -f BANK");
  bool is_bank = gconv_bank_is_own_syntax(syntax) || gconv_bank_is_one(specs->items[0]);
  for (size_t i = 1; i < specs->count; i++)
    if (is_bank || gconv_bank_is_one(specs->items[i]))
      return gconv_complain(message, GCONV_BAD_ARGUMENT,
                            "-f %s -f %s: a layer has one bank: put --then between them to apply one after the other",
                            specs->items[0], specs->items[i]);
  gconv_status status =
      is_bank ? gconv_bank_read(specs->items[0], syntax, bank) : gconv_bank_stack_specs(specs, syntax, bank);
  return status == GCONV_OK ? GCONV_OK : gconv_complain(message, status, "%s", gconv_last_error());
}

static gconv_status read_banks(const gconv_settings *settings, gconv_bank_job *job, gconv_message *message) {
  job->count = settings->layer_count + 1;
  job->banks = calloc(job->count, sizeof *job->banks);
  job->layers = calloc(job->count, sizeof *job->layers);
  if (!job->banks || !job->layers)
    return gconv_complain_memory(message);
  for (size_t i = 0; i < job->count; i++) {
    bool last = i == settings->layer_count;
    const gconv_layer_settings *before = last ? NULL : &settings->layers[i];
    GCONV_TRY(read_bank(last ? &settings->filters : &before->filters, last ? settings->syntax : before->syntax,
                        &job->banks[i], message));
    job->layers[i] = last ? settings->layer : before->layer;
    job->layers[i].bank = &job->banks[i];
  }
  return GCONV_OK;
}

/* Options that only images have. */
static gconv_status check_options(const gconv_settings *settings, gconv_message *message) {
  const gconv_options *options = &settings->convolution;
  const char *option = options->border != GCONV_BORDER_ZERO      ? "--border (banks see zeros outside the image)"
                       : options->linear                         ? "--linear"
                       : options->alpha != GCONV_ALPHA_KEEP      ? "--alpha"
                       : options->combine == GCONV_COMBINE_STACK ? "--combine stack (the outputs are one already)"
                                                                 : NULL;
  if (!option)
    return GCONV_OK;
  return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s is not for banks: apply it in a run of its own", option);
}

gconv_status gconv_bank_job_read(const gconv_settings *settings, gconv_bank_job *job, gconv_message *message) {
  GCONV_TRY(check_options(settings, message));
  for (size_t i = 0; i < settings->layer_count && settings->race; i++)
    if (settings->layers[i].layer.algorithm)
      return gconv_complain(message, GCONV_BAD_ARGUMENT,
                            "--algorithm all times all layers together, but layer %zu has an --algorithm of its own", i + 1);
  GCONV_TRY(read_banks(settings, job, message));
  const gconv_options *convolution = &settings->convolution;
  job->batch = (gconv_bank_batch){.layers = job->layers,
                                  .layer_count = job->count,
                                  .gray = convolution->gray,
                                  .nhwc = settings->nhwc,
                                  .batch = settings->batch,
                                  .options = {.mean = settings->mean,
                                              .std = settings->std,
                                              .mean_count = settings->mean_count,
                                              .std_count = settings->std_count,
                                              .math = (gconv_math)settings->math,
                                              .algorithm = convolution->algorithm,
                                              .without = convolution->without,
                                              .workspace_bytes = convolution->workspace_bytes,
                                              .combine = convolution->combine}};
  return GCONV_OK;
}

void gconv_bank_job_free(gconv_bank_job *job) {
  for (size_t i = 0; job->banks && i < job->count; i++)
    gconv_bank_free(&job->banks[i]);
  free(job->banks);
  free(job->layers);
  *job = (gconv_bank_job){0};
}

/* ---- Names ---------------------------------------------------------------------------------------------------------- */

/* What {filter} stands for: the names of the filters, or their numbers, with as many digits as the last one has. */
static gconv_status make_labels(const gconv_bank *bank, gconv_filters *labels, gconv_message *message) {
  labels->items = calloc((size_t)bank->filters, sizeof *labels->items);
  if (!labels->items)
    return gconv_complain_memory(message);
  labels->count = (size_t)bank->filters;
  int digits = snprintf(NULL, 0, "%d", bank->filters - 1);
  for (int32_t k = 0; k < bank->filters; k++) {
    char number[16];
    snprintf(number, sizeof number, "%0*d", digits, k);
    labels->items[k].name = strdup(bank->names && bank->names[k] ? bank->names[k] : number);
    if (!labels->items[k].name)
      return gconv_complain_memory(message);
  }
  return GCONV_OK;
}

/* One result an input. */
static gconv_status make_label(const gconv_bank *bank, gconv_filters *labels, gconv_message *message) {
  labels->items = calloc(1, sizeof *labels->items);
  if (!labels->items)
    return gconv_complain_memory(message);
  labels->count = 1;
  labels->items[0].name = strdup(bank->name && bank->name[0] ? bank->name : "bank");
  return labels->items[0].name ? GCONV_OK : gconv_complain_memory(message);
}

/* Whether -o is a file, rather than a folder or a template. */
static bool is_one_file(const char *output) {
  struct stat status;
  size_t length = strlen(output);
  if (length == 0 || output[length - 1] == '/' || gconv_template_is_one(output))
    return false;
  char *path = gconv_template_plain(output);
  bool folder = path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
  free(path);
  return !folder;
}

static gconv_tone choose_tone(const gconv_settings *settings, const gconv_format_info *format) {
  const gconv_options *options = &settings->convolution;
  gconv_tone tone = {.scale = options->scale, .offset = options->offset, .range = options->range};
  tone.type = gconv_format_type(format, settings->depth < 0 ? GCONV_U8 : (gconv_type)settings->depth);
  bool given = settings->tone_given || options->scale != 1 || options->offset != 0;
  tone.fit = !given && tone.type != GCONV_F32;
  return tone;
}

static gconv_presentation choose_presentation(const gconv_settings *settings, const gconv_format_info *format) {
  gconv_combine combine = settings->convolution.combine;
  if (settings->mosaic)
    return GCONV_PRESENT_MOSAIC;
  if (format->multiframe)
    return GCONV_PRESENT_TENSOR;
  return combine == GCONV_COMBINE_NONE     ? GCONV_PRESENT_PICTURES
         : combine == GCONV_COMBINE_ARGMAX ? GCONV_PRESENT_LABELS
                                           : GCONV_PRESENT_COMBINED;
}

/* Arrays hold what the network yields, and labels have their colours: values are made samples of other pictures alone. */
static gconv_status check_tone(const gconv_settings *settings, gconv_presentation presentation, gconv_message *message) {
  const gconv_options *options = &settings->convolution;
  bool tensor = presentation == GCONV_PRESENT_TENSOR, labels = presentation == GCONV_PRESENT_LABELS;
  const char *option = options->scale != 1                                                   ? "--scale"
                       : options->offset != 0                                                ? "--offset"
                       : options->range != GCONV_RANGE_CLAMP                                 ? "--range"
                       : tensor && settings->depth >= 0 && settings->depth != (int)GCONV_F32 ? "--depth"
                                                                                             : NULL;
  if (!option || (!tensor && !labels))
    return GCONV_OK;
  return gconv_complain(message, GCONV_BAD_ARGUMENT,
                        tensor ? "%s is for the pictures of banks: arrays hold the outputs as they are, in float32"
                               : "%s is for values: in pictures, --combine argmax gives each pixel the colour of a filter",
                        option);
}

/* The format that the results will have, as gconv_outputs_name() finds it. */
static const gconv_format_info *expected_format(const gconv_settings *settings) {
  if (settings->format)
    return settings->format;
  const gconv_format_info *format = is_one_file(settings->output) || gconv_template_is_one(settings->output)
                                        ? gconv_format_by_path(settings->output)
                                        : NULL;
  return format ? format : gconv_format_by_name("png");
}

gconv_status gconv_bank_job_name(const gconv_settings *settings, const gconv_inputs *inputs, gconv_bank_job *job,
                                 gconv_outputs *outputs, gconv_message *message) {
  const gconv_bank *last = &job->banks[job->count - 1];
  const gconv_format_info *format = expected_format(settings);
  gconv_bank_batch *batch = &job->batch;
  batch->presentation = choose_presentation(settings, format);
  GCONV_TRY(check_tone(settings, batch->presentation, message));
  batch->one_tensor = batch->presentation == GCONV_PRESENT_TENSOR && inputs->count > 1 && is_one_file(settings->output);
  gconv_inputs named = *inputs;
  if (batch->one_tensor)
    named.count = 1;
  gconv_filters labels = {0};
  gconv_naming naming = {.output = settings->output, .format = settings->format, .filters = &labels};
  naming.each_filter = batch->presentation == GCONV_PRESENT_PICTURES;
  gconv_status status = naming.each_filter ? make_labels(last, &labels, message) : make_label(last, &labels, message);
  if (status == GCONV_OK)
    status = gconv_outputs_name(&named, &naming, outputs, message);
  if (status == GCONV_OK)
    batch->tone = choose_tone(settings, outputs->format);
  gconv_filters_free(&labels);
  return status;
}

/* ---- Explaining ------------------------------------------------------------------------------------------------------ */

bool gconv_bank_job_explain(const gconv_settings *settings, const gconv_bank_job *job, const char *path) {
  gconv_image header = {0};
  gconv_device *device = NULL;
  gconv_network *network = NULL;
  char *text = NULL;
  gconv_status status = gconv_image_read_header(path, &header, NULL);
  if (status == GCONV_OK && job->batch.gray)
    status = gconv_image_to_gray(&header);
  if (status == GCONV_OK)
    status = gconv_device_open(settings->device, settings->threads, &device);
  if (status == GCONV_OK)
    status = gconv_network_create(device, &header, job->layers, job->count, &job->batch.options, &network);
  if (status == GCONV_OK)
    status = gconv_network_explain(network, &text);
  if (status == GCONV_OK)
    fputs(text, stderr);
  else
    gconv_say("%s", gconv_last_error());
  free(text);
  gconv_network_free(network);
  gconv_device_close(device);
  gconv_image_free(&header);
  return status == GCONV_OK;
}

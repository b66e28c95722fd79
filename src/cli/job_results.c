/* SPDX-License-Identifier: MIT */
/* Names the results of a job, decides how they are shown, and refuses options that do not fit them. */
#include "base/ending.h"
#include "base/memory.h"
#include "cli/job.h"
#include "cli/job_settings.h"
#include "gconv_classify.h"

#include <string.h>

/* ---- Names ------------------------------------------------------------------------------------------------------------ */

/* Appends a name to the values of {filter}. */
static bool add_label(gconv_filters *labels, const char *name) {
  labels->items[labels->count].name = strdup(name);
  return labels->items[labels->count++].name != NULL;
}

/* Makes the values of {filter}. If each filter has a result, these are the filters' names or numbers, padded to the digits
 * of the last number; else the bank's name. */
static gconv_status make_labels(const gconv_bank *bank, bool each, gconv_filters *labels) {
  int digits = snprintf(NULL, 0, "%d", bank->filters - 1);
  labels->items = calloc(each ? (size_t)bank->filters : 1, sizeof *labels->items);
  bool good = labels->items;
  for (int32_t k = 0; good && each && k < bank->filters; k++) {
    char number[16];
    snprintf(number, sizeof number, "%0*d", digits, k);
    good = add_label(labels, bank->names && bank->names[k] ? bank->names[k] : number);
  }
  if (good && !each)
    good = add_label(labels, bank->name && bank->name[0] ? bank->name : "bank");
  return good ? GCONV_OK : gconv_no_memory();
}

static gconv_presentation choose_presentation(const gconv_job_settings *settings, const gconv_format_info *format) {
  if (settings->combine == GCONV_COMBINE_MOSAIC)
    return GCONV_PRESENT_MOSAIC;
  if (format->tensors)
    return GCONV_PRESENT_TENSOR;
  return settings->combine <= GCONV_COMBINE_NONE     ? GCONV_PRESENT_PICTURES
         : settings->combine == GCONV_COMBINE_ARGMAX ? GCONV_PRESENT_LABELS
                                                     : GCONV_PRESENT_COMBINED;
}

static gconv_tone choose_tone(const gconv_main_job *job) {
  const gconv_options *options = &job->options;
  gconv_tone tone = {.scale = options->scale, .offset = options->offset, .range = options->range};
  if (job->network.presentation == GCONV_PRESENT_IMAGE) {
    tone.keep_type = !options->sets_type;
    tone.format = job->outputs.format;
    tone.type = options->output_type;
    return tone;
  }
  if (job->network.presentation == GCONV_PRESENT_CLASSES)
    return job->network.tone;
  tone.type = gconv_format_type(job->outputs.format, options->sets_type ? options->output_type : GCONV_U8);
  bool given = job->settings->range >= 0 || options->scale != 1 || options->offset != 0;
  tone.fit = !given && tone.type != GCONV_F32;
  return tone;
}

/* Refuses options that scale values if results are arrays, which hold raw values, or maps of labels in fixed colours. */
static gconv_status check_tone(const gconv_main_job *job) {
  const gconv_options *options = &job->options;
  bool tensor = job->network.presentation == GCONV_PRESENT_TENSOR,
       labels = job->network.presentation == GCONV_PRESENT_LABELS || job->network.presentation == GCONV_PRESENT_CLASSES;
  if (options->scale == 0)
    return gconv_refuse("--scale 0: leaves nothing of what a bank or a network makes");
  const char *option = options->scale != 1                                                 ? "--scale"
                       : options->offset != 0                                              ? "--offset"
                       : options->range != GCONV_RANGE_CLAMP                               ? "--range"
                       : tensor && options->sets_type && options->output_type != GCONV_F32 ? "--depth"
                                                                                           : NULL;
  if (!option || (!tensor && !labels))
    return GCONV_OK;
  return gconv_refuse(tensor ? "%s is for the pictures of banks: arrays hold the outputs as they are, in float32"
                             : "%s is for values: in pictures, --combine argmax gives each pixel the colour of a filter",
                      option);
}

/* Makes the values of {filter} for a network: its file's name or, with a picture for each output, the classes' names. */
static gconv_status make_network_labels(const gconv_main_job *job, bool each, gconv_filters *labels) {
  const gconv_network *network = gconv_job_last_network(job);
  const char *path = job->settings->last.filters.items[0], *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t length = strcspn(name, ".");
  gconv_bank outputs = {.filters = 1}; /* as if the network was a bank */
  for (size_t i = 0; network && i < network->count; i++)
    if (network->layers[i].bank)
      outputs.filters = network->layers[i].bank->filters;
  if (network && gconv_job_is_graph(network))
    outputs.filters = gconv_job_count_channels(network);
  outputs.names = network && network->class_count == (size_t)outputs.filters ? network->classes : NULL;
  if (job->svm) {
    outputs.filters = (int32_t)gconv_svm_get_info(job->svm)->class_count;
    outputs.names = (char **)gconv_svm_get_info(job->svm)->classes;
  }
  outputs.name = strndup(name, length > 0 ? length : strlen(name));
  GCONV_NEED_MEMORY(outputs.name, "out of memory");
  gconv_status status = make_labels(&outputs, each, labels);
  free(outputs.name);
  return status;
}

/* Makes the values of {output} of a network with several outputs: their names. */
static gconv_status make_output_labels(const gconv_network *network, gconv_filters *labels) {
  labels->items = calloc(network->output_count, sizeof *labels->items);
  bool good = labels->items;
  for (size_t k = 0; good && k < network->output_count; k++)
    good = add_label(labels, network->outputs[k].name);
  return good ? GCONV_OK : gconv_no_memory();
}

/* Returns how many channels the first stage takes, which an array C x H x W may have; 0: any number. */
static int32_t planes_of_first(const gconv_main_job *job) {
  const gconv_network *network = job->has_networks ? &job->networks[0] : NULL;
  if (job->settings->layout == 1 || (network && (!gconv_job_is_network(network) || network->features)))
    return 0;
  if (network)
    return network->channels;
  const gconv_layer *layer = &job->layers[0];
  const int32_t groups = layer->groups ? layer->groups : layer->bank->has_geometry ? layer->bank->groups : 1;
  return layer->bank->channels <= INT32_MAX / (groups > 0 ? groups : 1) ? layer->bank->channels * groups : 0;
}

/* Names the results of banks, and finds out whether all inputs go into one array. */
static gconv_status name_of_banks(gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  gconv_batch *batch = &job->batch;
  bool one_file, whole = gconv_job_last_network(job) || job->svm;
  const gconv_format_info *format = gconv_outputs_format(&settings->naming, job->inputs.many, &one_file);
  if (whole) {
    GCONV_TRY(gconv_job_choose_outputs(job, one_file));
    GCONV_TRY(gconv_job_present_network(job, format));
  }
  if (job->network.presentation != GCONV_PRESENT_IMAGE && job->network.presentation != GCONV_PRESENT_CLASSES)
    job->network.presentation = choose_presentation(settings, format);
  GCONV_TRY(check_tone(job));
  batch->one_array = job->network.presentation == GCONV_PRESENT_TENSOR && job->inputs.count > 1 && one_file;
  gconv_inputs named = job->inputs;
  if (batch->one_array)
    named.count = 1;
  GCONV_ENDED_BY(gconv_filters_free) gconv_filters labels = {0};
  gconv_naming naming = settings->naming;
  naming.keeps = settings->common.no_clobber || settings->skip_existing || settings->newer;
  naming.filters = &labels;
  naming.planes = planes_of_first(job);
  const bool several = gconv_job_has_several_outputs(job);
  naming.each_filter = several || job->network.presentation == GCONV_PRESENT_PICTURES;
  GCONV_TRY(several ? make_output_labels(gconv_job_last_network(job), &labels)
            : whole ? make_network_labels(job, naming.each_filter, &labels)
                    : make_labels(&job->banks[job->layer_count - 1], naming.each_filter, &labels));
  GCONV_TRY(gconv_outputs_name(&named, &naming, &job->outputs, &(gconv_message){0}));
  if (job->outputs.same && job->network.presentation != GCONV_PRESENT_IMAGE)
    return gconv_refuse("%s: results of banks are not like their inputs: %s",
                        naming.in_place ? "--in-place" : "--format same, {ext}",
                        naming.in_place ? "name -o" : "name a format");
  job->network.tone = choose_tone(job);
  return GCONV_OK;
}

/* Returns how many channels of the first input a bank would see; 0 if its header cannot be read. */
static int32_t channels_of_first(const gconv_main_job *job) {
  const char *path = job->inputs.count > 0 ? job->inputs.items[0].path : "-";
  GCONV_ENDED_BY(gconv_image_free) gconv_image header = {0};
  if (strcmp(path, "-") == 0 || gconv_image_read_header(path, &header, NULL) != GCONV_OK)
    return 0;
  return header.channels;
}

/* If the weights look like plain filters, as those of a depthwise layer do, adds a hint to the error: --groups, with as many
 * groups as the input has channels. */
static gconv_status hint_at_groups(const gconv_main_job *job, gconv_status status) {
  const gconv_texts *filters = &job->settings->last.filters;
  bool array = filters->count == 1 && gconv_ends_in(filters->items[0], ".npy");
  bool one_file, arrays = gconv_outputs_format(&job->settings->naming, job->inputs.many, &one_file)->tensors;
  int32_t channels = array && arrays && job->filters.count >= 2 ? channels_of_first(job) : 0;
  if (channels < 1 || job->filters.count % (size_t)channels != 0)
    return status;
  return gconv_fail(status,
                    "%s; %s has filters for each channel by itself: if they are the weights of a depthwise "
                    "layer, say --groups %d",
                    gconv_last_error(), filters->items[0], (int)channels);
}

static gconv_status name_of_filters(gconv_main_job *job) {
  gconv_naming naming = job->settings->naming;
  naming.keeps = job->common->no_clobber || job->settings->skip_existing || job->settings->newer;
  naming.filters = &job->filters;
  naming.each_filter = job->settings->combine == GCONV_COMBINE_NONE;
  bool one_file, arrays = gconv_outputs_format(&naming, job->inputs.many, &one_file)->tensors,
                 one = !naming.each_filter || job->filters.count == 1;
  gconv_inputs named = job->inputs;
  job->batch.one_array = arrays && one_file && one && named.count > 1;
  if (job->batch.one_array)
    named.count = 1;
  gconv_status status = gconv_outputs_name(&named, &naming, &job->outputs, &(gconv_message){0});
  return status == GCONV_OK ? status : hint_at_groups(job, status);
}

gconv_status gconv_job_name_results(gconv_main_job *job) {
  return job->has_banks ? name_of_banks(job) : name_of_filters(job);
}

/* ---- Checks with names ------------------------------------------------------------------------------------------------ */

/* Refuses results that would replace a file of filters. */
static gconv_status check_filters(const gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  bool banks = job->has_banks || job->has_networks;
  GCONV_TRY(gconv_outputs_check_filters(&settings->last.filters, banks, &job->outputs, &(gconv_message){0}));
  for (size_t i = 0; i < settings->before_count; i++)
    GCONV_TRY(gconv_outputs_check_filters(&settings->before[i].filters, banks, &job->outputs, &(gconv_message){0}));
  return GCONV_OK;
}

/* Checks that every result can have the depth that is asked for. */
static gconv_status check_depth(const gconv_main_job *job) {
  static const char *const depths[] = {"8", "16", "float", "int16", "float16"}; /* as settings->depth */
  int depth = job->settings->depth;
  for (size_t i = 0; depth >= 0 && i < job->outputs.paths.count; i++) {
    const gconv_format_info *format = job->outputs.formats[i];
    if (depth > GCONV_F32 && !format->stores)
      return gconv_refuse("--depth %s: the format %s cannot hold that, but npy can: --format npy", depths[depth],
                          format->name);
    if (depth <= GCONV_F32 && !format->holds[depth])
      return gconv_refuse("--depth %s: the format %s cannot hold that: choose another with --format%s", depths[depth],
                          format->name, depth == GCONV_F32 ? ", such as tiff, pfm or npy" : "");
  }
  return GCONV_OK;
}

/* Refuses --region and --mask without filters, and results that would replace the mask, weights or a second image. */
static gconv_status check_area(const gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  char *path = (char *)settings->mask, *weights = (char *)settings->holes.weights;
  if (job->has_banks && job->network.presentation != GCONV_PRESENT_IMAGE && (path || settings->area.width > 0))
    return gconv_refuse("%s is not for banks: their outputs are no images like the input", path ? "--mask" : "--region");
  if (path)
    GCONV_TRY(gconv_outputs_check_filters(&(gconv_texts){&path, 1}, false, &job->outputs, &(gconv_message){0}));
  if (weights)
    GCONV_TRY(gconv_outputs_check_filters(&(gconv_texts){&weights, 1}, false, &job->outputs, &(gconv_message){0}));
  for (size_t i = 0; i <= job->before_count && job->arithmetic; i++)
    if (job->arithmetic[i].other.data)
      GCONV_TRY(gconv_outputs_check_filters(&(gconv_texts){&job->arithmetic[i].path, 1}, false, &job->outputs,
                                            &(gconv_message){0}));
  return GCONV_OK;
}

/* Refuses options that the format does not have. */
static gconv_status check_format(const gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  const gconv_format_info *format = job->outputs.format; /* NULL: there are several, and some may have the options */
  GCONV_TRY(check_depth(job));
  if (!format)
    return GCONV_OK;
  const struct {
    bool given, can;
    const char *option, *formats;
  } rows[] = {
      {settings->png_level >= 0, format->level, "--png-level", "PNG"},
      {settings->job.quality > 0, format->quality, "--quality", "JPEG or WebP"},
      {settings->job.lossless, format->lossless, "--lossless", "WebP"},
      {settings->job.tiff_compression != GCONV_TIFF_NONE, format->compression, "--tiff-compression", "TIFF"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].given && !rows[i].can)
      return gconv_refuse("%s: the results are %s, not %s", rows[i].option, format->name, rows[i].formats);
  return GCONV_OK;
}

/* Refuses results that would replace a mask of --evaluate. */
static gconv_status check_truth(const gconv_main_job *job) {
  GCONV_ENDED_BY(gconv_inputs_free) gconv_inputs masks = {0};
  GCONV_ENDED_BY(gconv_texts_free) gconv_texts paths = {0};
  char *named = (char *)job->settings->truth;
  if (!named)
    return GCONV_OK;
  GCONV_TRY(gconv_inputs_find_all(&(gconv_texts){&named, 1}, job->common->recursive, "-", &masks));
  for (size_t i = 0; i < masks.count; i++)
    if (!gconv_texts_add(&paths, strdup(masks.items[i].path)))
      return gconv_no_memory();
  if (gconv_outputs_check_filters(&paths, false, &job->outputs, &(gconv_message){0}) == GCONV_OK)
    return GCONV_OK;
  return gconv_refuse("-o %s: a map would replace a mask of --evaluate: name another place", job->common->output);
}

/* Refuses what one array of all results cannot be, and banks cannot do. */
static gconv_status check_job(const gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  if (job->batch.one_array && settings->shard.count > 1)
    return gconv_refuse("--shard: one array of all results cannot be divided: name a folder");
  if (job->batch.one_array && settings->resume)
    return gconv_refuse("--resume: one array of all results is made as a whole: name a folder (-o results/ --format npy)");
  if (job->has_banks && job->batch.decoder == GCONV_DECODER_GPU)
    return gconv_fail(GCONV_UNSUPPORTED, "banks are applied to what the CPU decodes: leave --decode gpu out");
  return GCONV_OK;
}

gconv_status gconv_job_check_results(const gconv_main_job *job) {
  GCONV_TRY(check_filters(job));
  GCONV_TRY(check_format(job));
  GCONV_TRY(check_area(job));
  GCONV_TRY(check_truth(job));
  return check_job(job);
}

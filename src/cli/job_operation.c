/* SPDX-License-Identifier: MIT */
/* From the filters, banks and options of a job to its operation: its stages, one after the other. */
#include "base/memory.h"
#include "cli/job.h"
#include "cli/job_holes.h"

int gconv_job_choose_combine(const gconv_filters *filters, int asked) {
  return asked >= 0 ? asked : filters->gradient ? GCONV_COMBINE_MAGNITUDE : GCONV_COMBINE_NONE;
}

/* Returns the padding of plain filters that has the same name as a layer's. */
static gconv_padding plain_padding(gconv_layer_padding padding) {
  return padding == GCONV_LAYER_VALID      ? GCONV_PADDING_VALID
         : padding == GCONV_LAYER_FULL     ? GCONV_PADDING_FULL
         : padding == GCONV_LAYER_EXPLICIT ? GCONV_PADDING_EXPLICIT
                                           : GCONV_PADDING_SAME;
}

void gconv_job_make_plain_options(gconv_layer *layer, gconv_options *options) {
  if (layer->padding == GCONV_LAYER_DEFAULT)
    layer->padding = GCONV_LAYER_SAME;
  options->flip = layer->flip;
  options->padding = plain_padding(layer->padding);
  options->pad_top = layer->pad_top;
  options->pad_bottom = layer->pad_bottom;
  options->pad_left = layer->pad_left;
  options->pad_right = layer->pad_right;
  options->stride_y = layer->stride_y += layer->stride_y == 0;
  options->stride_x = layer->stride_x += layer->stride_x == 0;
  options->dilation_y = layer->dilation_y += layer->dilation_y == 0;
  options->dilation_x = layer->dilation_x += layer->dilation_x == 0;
}

/* True if results of integer images are float32. */
static bool are_results_float(const gconv_main_job *job) {
  const gconv_options *options = &job->options;
  gconv_type wanted = options->sets_type ? options->output_type : GCONV_U8;
  if (job->has_banks && job->network.presentation != GCONV_PRESENT_IMAGE)
    return job->network.presentation == GCONV_PRESENT_TENSOR || job->network.tone.type == GCONV_F32;
  return (job->outputs.format ? gconv_format_type(job->outputs.format, wanted) : wanted) == GCONV_F32;
}

/* True if a filter has an offset. Offsets are in levels, which float32 samples do not have. */
static bool has_offset(const gconv_filters *filters) {
  bool any = false;
  for (size_t i = 0; i < filters->count; i++)
    any |= filters->items[i].offset != 0;
  return any;
}

/* Returns the options of filters before a --then. Their result, in float32, is the image for the next stage. */
static gconv_options stage_options(const gconv_main_job *job, gconv_layer *stage, const gconv_filters *filters) {
  gconv_options options = job->options;
  gconv_job_make_plain_options(stage, &options);
  options.format = NULL;
  options.sets_type = true;
  options.output_type = GCONV_F32;
  options.combine = (gconv_combine)gconv_job_choose_combine(filters, -1);
  options.range = GCONV_RANGE_CLAMP; /* float32 values stay as they are */
  options.round_gray = !are_results_float(job) && !job->network.luma;
  if (options.gray && job->network.luma && options.alpha == GCONV_ALPHA_DROP) /* make_finish() drops it */
    options.alpha = GCONV_ALPHA_KEEP;
  options.scale = 1;
  options.offset = 0;
  if (stage->algorithm || job->has_banks) /* the last stage's algorithm is for a network */
    options.algorithm = stage->algorithm ? stage->algorithm : "auto";
  return options;
}

/* Returns the options of a network before a --then, which makes an image of an image. */
static gconv_network_options network_stage_options(const gconv_main_job *job, const gconv_layer *stage) {
  gconv_network_options options = job->network;
  options.presentation = GCONV_PRESENT_IMAGE;
  options.combine = GCONV_COMBINE_NONE;
  options.tone = (gconv_tone){.scale = 1, .type = GCONV_F32};
  options.algorithm = stage->algorithm ? stage->algorithm : "auto";
  return options;
}

/* For a stage that is a local statistic, removes options that are given once for all stages and have no meaning for it.
 * Those that were given for this stage stay, and are refused later. */
static void drop_options_of_filters(const gconv_main_job *job, size_t i, gconv_options *options) {
  if (!job->arithmetic || !job->arithmetic[i].statistic)
    return;
  if (i < job->before_count && !job->layers[i].algorithm)
    options->algorithm = "auto";
  if (i > 0)
    options->least_weight = 0;
}

/* Makes stage number `i`; the last stage follows the last --then. */
static gconv_status make_stage(gconv_main_job *job, size_t i, gconv_operation **operation) {
  const gconv_network *network = &job->networks[i];
  const gconv_stage_arithmetic *a = job->arithmetic ? &job->arithmetic[i] : NULL;
  if (i == job->before_count && job->svm)
    return gconv_operation_svm(job->svm, &job->network, operation);
  if (i == job->before_count && network->features)
    return gconv_operation_pixels(network, &job->network, operation);
  if (i == job->before_count && !gconv_job_is_network(network)) {
    gconv_options options = job->options;
    gconv_hole_options_apply(job->holes, &job->weights, job->border_given, i, &options);
    drop_options_of_filters(job, i, &options);
    return gconv_stage_make_filters(a, &job->filters, &options, job->border_given, operation);
  }
  if (i == job->before_count)
    return gconv_operation_of_network(network, &job->network, operation);
  if (gconv_job_is_network(network)) {
    gconv_network_options options = network_stage_options(job, &job->layers[i]);
    return gconv_operation_of_network(network, &options, operation);
  }
  gconv_options options = stage_options(job, &job->layers[i], &job->before[i]);
  gconv_hole_options_apply(job->holes, &job->weights, job->border_given, i, &options);
  drop_options_of_filters(job, i, &options);
  return gconv_stage_make_filters(a, &job->before[i], &options, job->border_given, operation);
}

/* Makes the identity filter after stages of float32: it converts to the range and type of the results. */
static gconv_status make_finish(const gconv_main_job *job, gconv_operation **operation) {
  GCONV_ENDED_BY(gconv_filters_free) gconv_filters identity = {0};
  gconv_options options = job->options;
  gconv_job_make_plain_options(&(gconv_layer){0}, &options);
  options.combine = GCONV_COMBINE_NONE;
  options.gray = false;
  GCONV_TRY(gconv_filters_read("identity", NULL, &identity));
  return gconv_operation_filters(&identity, &options, operation);
}

/* Adds the last stages of --luma for plain filters: the last filters make float32 from grey, the result of all stages so far
 * replaces the brightness of the input, and make_finish() converts to the type of the results. */
static gconv_status add_brightness(gconv_main_job *job, gconv_operation **stages, size_t *count) {
  gconv_options options = stage_options(job, &job->layers[job->before_count], &job->filters);
  options.combine = job->options.combine;
  GCONV_TRY(gconv_operation_filters(&job->filters, &options, &stages[*count]));
  ++*count;
  GCONV_TRY(gconv_stages_compute(stages, count, &(gconv_stage_arithmetic){.kind = GCONV_BRIGHTNESS}));
  GCONV_TRY(make_finish(job, &stages[*count]));
  ++*count;
  return GCONV_OK;
}

/* Adds stage number `i`. A stage of arithmetic replaces all stages before it by one that computes with their result. */
static gconv_status add_stage(gconv_main_job *job, size_t i, gconv_operation **stages, size_t *count) {
  const gconv_stage_arithmetic *a = job->arithmetic ? &job->arithmetic[i] : NULL;
  const bool last = i == job->before_count;
  if (a && a->given && *count == 0) {
    gconv_filters identity = {0};
    GCONV_TRY(gconv_filters_read("identity", NULL, &identity));
    gconv_options options = stage_options(job, &(gconv_layer){0}, &identity);
    const gconv_status status = gconv_operation_filters(&identity, &options, &stages[0]);
    gconv_filters_free(&identity);
    GCONV_TRY(status);
    *count = 1;
  }
  if (a && a->given)
    GCONV_TRY(gconv_stages_compute(stages, count, a));
  if (a && a->given && !last)
    return GCONV_OK;
  if (last && job->options.gray && job->network.luma && !job->has_banks)
    return add_brightness(job, stages, count);
  GCONV_TRY(make_stage(job, i, &stages[*count]));
  ++*count;
  return GCONV_OK;
}

/* Makes the stages of plain filters and networks: the last one, or a chain that ends with it. */
static gconv_status make_stages(gconv_main_job *job) {
  const size_t last = job->before_count;
  size_t count = 0;
  GCONV_FREED gconv_operation **stages = calloc(last + 3, sizeof *stages);
  gconv_status status = stages ? GCONV_OK : gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (size_t i = 0; i <= last && status == GCONV_OK; i++)
    status = add_stage(job, i, stages, &count);
  if (status == GCONV_OK && count == 1) {
    job->operation = stages[0];
    count = 0;
  }
  if (count > 0)
    GCONV_THEN(status, gconv_operation_chain(stages, count, &job->operation));
  for (size_t i = 0; i < count; i++)
    gconv_operation_free(stages[i]);
  return status;
}

/* Restricts the operation to a part of the image, with --region and --mask. */
static gconv_status restrict_operation(gconv_main_job *job) {
  job->area.mask = job->mask.data ? &job->mask : NULL;
  if (job->area.width == 0 && !job->area.mask)
    return GCONV_OK;
  gconv_operation *everywhere = job->operation;
  job->operation = NULL;
  gconv_status status = gconv_operation_within(everywhere, &job->area, &job->operation);
  gconv_operation_free(everywhere);
  gconv_image_free(&job->mask);
  return status;
}

gconv_status gconv_job_make_operation(gconv_main_job *job) {
  if (job->operation)
    return GCONV_OK;
  job->options.format = job->outputs.format;
  gconv_status status = job->has_banks && !job->has_networks
                            ? gconv_operation_network(job->layers, job->layer_count, &job->network, &job->operation)
                            : make_stages(job);
  gconv_image_free(&job->weights); /* the operation has a copy */
  GCONV_THEN(status, restrict_operation(job));
  job->batch.operation = job->operation;
  job->batch.unrounded = are_results_float(job) && !has_offset(&job->filters) && job->batch.store != GCONV_STORE_I16;
  return status;
}

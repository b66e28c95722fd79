/* SPDX-License-Identifier: MIT */
/* The operation of filters over samples with weights, and its plans (weighted.h). */
#include "conv/weighted.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "base/element.h"
#include "base/memory.h"
#include "image/colour.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct weighted {
  gconv_operation base;  /* wraps plain filters, whose options lack weights and missing samples; they define the outputs */
  gconv_options options; /* the names of algorithms belong to the wrapped filters */
  gconv_image weights;   /* owned: one channel of f32, from 0 to 1; without pixels if there are none */
} weighted;

/* ---- Options ---------------------------------------------------------------------------------------------------------- */

bool gconv_weighted_divides(const gconv_options *options) {
  return options->nan == GCONV_NAN_SKIP || options->nan == GCONV_NAN_FILL || options->weights ||
         (options->sets_nodata && options->nan != GCONV_NAN_ZERO) || options->border == GCONV_BORDER_NORMALIZE;
}

/* Finds the sum of the taps, and `size`, the sum of their absolute values. */
static void sum_taps(const gconv_filter *filter, double *sum, double *size) {
  *sum = *size = 0;
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++) {
    *sum += (double)filter->taps[i] / (double)filter->divisor;
    *size += fabs((double)filter->taps[i] / (double)filter->divisor);
  }
}

gconv_status gconv_weighted_check_sum(const char *name, double sum, double size) {
  if (fabs(sum) > 1e-6 * size)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s sums to 0, and where samples are missing or have weights, responses are divided by the sum of "
                    "the weights under the taps: fill the holes first, with a filter that smooths (--nan fill), and "
                    "apply this one to the result; or take --nan zero",
                    name ? name : "a filter");
}

static gconv_status check_sums(const gconv_filters *filters) {
  for (size_t k = 0; k < filters->count; k++) {
    double sum, size;
    sum_taps(&filters->items[k], &sum, &size);
    GCONV_TRY(gconv_weighted_check_sum(filters->items[k].name, sum, size));
  }
  return GCONV_OK;
}

/* ---- The picture of weights ------------------------------------------------------------------------------------------- */

/* Makes a row of weights from a row of grey, with or without alpha. NaN becomes the weight 0. Returns false if a weight is
 * below 0, or infinite. */
static bool make_weight_row(gconv_type type, bool alpha, const void *grey, float *out, size_t pixels, float *most) {
  const double white = gconv_level_of_white(type);
  for (size_t i = 0; i < pixels; i++) {
    double samples[2] = {0, white};
    for (size_t c = 0; c < 1 + (size_t)alpha; c++)
      samples[c] = gconv_stored_at(type, grey, i * (1 + (size_t)alpha) + c);
    const double weight = isnan(samples[0]) ? 0 : samples[0] * (samples[1] / white);
    if (!(weight >= 0 && weight <= 3.4e38))
      return false;
    out[i] = (float)weight;
    *most = out[i] > *most ? out[i] : *most;
  }
  return true;
}

gconv_status gconv_weighted_make_weights(const gconv_image *picture, gconv_image *weights) {
  const int32_t colours = picture->channels - picture->alpha;
  const size_t pixels = (size_t)picture->width;
  float most = 0;
  if (picture->frames != 1 || (picture->planar && picture->channels > 1) || (colours != 1 && colours != 3))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "weights of %d frames and %d channels: they are one picture, grey or in colour, with or without alpha",
                      (int)picture->frames, (int)picture->channels);
  *weights =
      (gconv_image){.type = GCONV_F32, .frames = 1, .height = picture->height, .width = picture->width, .channels = 1};
  GCONV_TRY(gconv_image_allocate(weights));
  GCONV_FREED void *grey = malloc(pixels * 2 * gconv_type_bytes(picture->type));
  GCONV_NEED_MEMORY(grey, "no memory for weights");
  for (int32_t y = 0; y < picture->height; y++) {
    gconv_colour_grey_row(picture->type, picture->channels, picture->alpha, gconv_row_at(picture, 0, y), grey, pixels);
    if (!make_weight_row(picture->type, picture->alpha, grey, gconv_row_at(weights, 0, y), pixels, &most))
      return gconv_fail(GCONV_BAD_ARGUMENT, "row %d of the weights has a weight below 0, or an infinite one", (int)y);
  }
  if (most == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "all weights are 0: no sample would count");
  for (int32_t y = 0; y < picture->height; y++)
    for (size_t x = 0; x < pixels; x++)
      ((float *)gconv_row_at(weights, 0, y))[x] /= most;
  return GCONV_OK;
}

/* ---- The operation ---------------------------------------------------------------------------------------------------- */

static void free_operation(gconv_operation *base) {
  weighted *w = (weighted *)base;
  gconv_image_free(&w->weights);
  free(w);
}

static const gconv_filter_operation *filters_of(const gconv_operation *base) {
  return (const gconv_filter_operation *)base->inner;
}

static double held_bytes(const gconv_operation *base) {
  const weighted *w = (const weighted *)base;
  return 3 * gconv_operation_held_bytes(w->base.inner) + (w->weights.data ? gconv_pixel_bytes(&w->weights) : 0);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------------ */

static void free_plan(gconv_plan *base) {
  gconv_weighted_plan *plan = (gconv_weighted_plan *)base;
  gconv_plan_free(plan->values);
  gconv_plan_free(plan->shares);
  free(plan->of);
  free(plan);
}

/* Finds the headers of the outputs, which are the same as for the wrapped filters. */
static gconv_status find_outputs(const gconv_plan_order *order, const weighted *w, gconv_weighted_plan *plan) {
  gconv_plan_order outline = *order;
  gconv_plan *plain = NULL;
  outline.like = &plan->source;
  if (outline.extent == GCONV_PLAN_WHOLE)
    outline.extent = GCONV_PLAN_OUTLINE;
  GCONV_TRY(gconv_plan_make(&outline, w->base.inner, &plain));
  plan->base.outputs = calloc(plain->output_count, sizeof *plan->base.outputs);
  if (!plan->base.outputs) {
    gconv_plan_free(plain);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  }
  plan->base.output_count = plain->output_count;
  memcpy(plan->base.outputs, plain->outputs, plain->output_count * sizeof *plain->outputs);
  plan->base.info = plain->info;
  plan->base.bleeds = plain->bleeds;
  gconv_plan_free(plain);
  return GCONV_OK;
}

void gconv_weighted_split_options(gconv_type type, bool of_shares, gconv_options *options) {
  options->nan = GCONV_NAN_KEEP;
  options->weights = NULL;
  options->sets_nodata = options->preserves = false;
  options->combine = GCONV_COMBINE_NONE;
  options->range = GCONV_RANGE_CLAMP;
  options->scale = 1;
  options->offset = 0;
  options->sets_type = true;
  options->output_type = GCONV_F32;
  options->format = NULL;
  options->border_value = of_shares                                  ? 1
                          : options->border == GCONV_BORDER_CONSTANT ? options->border_value * (double)gconv_white(type)
                                                                     : 0;
  if (options->border == GCONV_BORDER_NORMALIZE)
    options->border = GCONV_BORDER_ZERO;
  else if (of_shares && options->border == GCONV_BORDER_ZERO)
    options->border = GCONV_BORDER_CONSTANT; /* zeros outside have the weight 1 */
}

/* Makes a plan that convolves images between the stages with the filters. */
static gconv_status make_inner(const gconv_plan_order *order, const weighted *w, const gconv_weighted_plan *plan,
                               bool of_shares, gconv_plan **inner) {
  gconv_filters filters = filters_of(&w->base)->filters;
  gconv_options options = w->options;
  gconv_plan_order inside = *order;
  gconv_operation *operation = NULL;
  gconv_weighted_split_options(plan->source.type, of_shares, &options);
  inside.like = &plan->middle;
  inside.kept = GCONV_F32;
  gconv_filter *items = malloc(filters.count * sizeof *items);
  GCONV_NEED_MEMORY(items, "no memory for a plan");
  memcpy(items, filters.items, filters.count * sizeof *items);
  for (size_t k = 0; k < filters.count; k++)
    items[k].offset = 0; /* it is added after the division */
  filters.items = items;
  gconv_status status = gconv_operation_plain(&filters, &options, &operation);
  free(items);
  GCONV_THEN(status, gconv_plan_make(&inside, operation, inner));
  gconv_operation_free(operation);
  return status;
}

static const gconv_pass *pass_of(const gconv_plan *inner, size_t k) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)inner;
  return plan->pass_count == 1 ? &plan->passes[0] : &plan->passes[k];
}

static gconv_status find_filters(const gconv_filters *filters, gconv_weighted_plan *plan) {
  plan->filters = filters->count;
  GCONV_NEW(plan->of, filters->count, "no memory for a plan");
  for (size_t k = 0; k < filters->count; k++) {
    gconv_weighted_filter *filter = &plan->of[k];
    const gconv_plan *whole = plan->shares ? plan->shares : plan->values;
    *filter = (gconv_weighted_filter){.pass = pass_of(whole, k), .outside = pass_of(plan->values, k)->problem.border_level};
    filter->index = filter->pass == pass_of(whole, 0) ? k : 0;
    filter->bias = filters->items[k].offset;
    sum_taps(&filters->items[k], &filter->sum, &filter->size);
  }
  return GCONV_OK;
}

/* Adds the work and memory of the two convolutions to the description of the plan. */
static void describe(gconv_weighted_plan *plan) {
  gconv_plan_info *info = &plan->base.info;
  const gconv_plan_info *value = &plan->values->info, *share = plan->shares ? &plan->shares->info : NULL;
  plan->exact = value->exact && (!share || share->exact);
  info->algorithm = share && strcmp(value->algorithm, share->algorithm) != 0 ? "several" : value->algorithm;
  info->exact = plan->exact;
  info->flop = value->flop + (share ? share->flop : 0);
  info->workspace_bytes = value->workspace_bytes + (share ? share->workspace_bytes : 0);
  info->estimate_ms = value->estimate_ms + (share ? share->estimate_ms : 0);
  info->error_bound = value->error_bound + (share ? share->error_bound : 0);
}

static gconv_status fill_plan(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *base) {
  const weighted *w = (const weighted *)operation;
  gconv_weighted_plan *plan = (gconv_weighted_plan *)base;
  const gconv_image *like = order->like;
  plan->options = &w->options;
  plan->respond = gconv_weighted_response;
  plan->weights = w->options.weights;
  plan->source = *like;
  if (w->options.sets_nodata) {
    plan->source.has_nodata = true;
    plan->source.nodata = w->options.nodata;
  }
  plan->preserves = w->options.preserves || w->options.nan == GCONV_NAN_SKIP ||
                    (plan->source.has_nodata && w->options.nan == GCONV_NAN_KEEP);
  plan->keeps_alpha = like->alpha && !like->planar && w->options.alpha != GCONV_ALPHA_FILTER;
  if (plan->weights && (like->width != plan->weights->width || like->height != plan->weights->height))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the weights have %d x %d pixels, and the image %d x %d: each pixel has a weight",
                      (int)plan->weights->width, (int)plan->weights->height, (int)like->width, (int)like->height);
  GCONV_TRY(find_outputs(order, w, plan));
  if (order->extent == GCONV_PLAN_WHOLE && w->options.nan != GCONV_NAN_ZERO)
    gconv_warn_of_nodata(&plan->source, &plan->base.outputs[0]);
  plan->middle = gconv_header_with(like, GCONV_F32, like->channels - plan->keeps_alpha, like->planar);
  GCONV_TRY(make_inner(order, w, plan, false, &plan->values));
  plan->divides = gconv_weighted_divides(&w->options) || (plan->source.has_nodata && w->options.nan != GCONV_NAN_ZERO);
  if (plan->divides) {
    GCONV_TRY(check_sums(&filters_of(operation)->filters));
    GCONV_TRY(make_inner(order, w, plan, true, &plan->shares));
  }
  describe(plan);
  return find_filters(&filters_of(operation)->filters, plan);
}

/* ---- Execution -------------------------------------------------------------------------------------------------------- */

static void free_images(const gconv_weighted_plan *plan, gconv_weighted_images *images) {
  gconv_image_free(&images->value);
  gconv_image_free(&images->share);
  for (size_t i = 0; i < 2; i++) {
    for (size_t k = 0; images->sums[i] && k < plan->filters; k++)
      gconv_image_free(&images->sums[i][k]);
    free(images->sums[i]);
  }
}

/* Convolves `in`: makes the rows of `outputs` if by_rows, else whole images. */
static gconv_status convolve(gconv_plan *inner, const gconv_weighted_images *images, const gconv_image *in, bool by_rows,
                             const gconv_image *outputs, bool one_output, gconv_image **sums, gconv_timings *timings) {
  GCONV_NEW(*sums, inner->output_count, "no memory for %zu outputs", inner->output_count);
  if (!by_rows)
    return gconv_plan_execute(inner, in, *sums, inner->output_count, timings);
  for (size_t k = 0; k < inner->output_count; k++) {
    (*sums)[k] = inner->outputs[k];
    (*sums)[k].height = outputs[one_output ? 0 : k].height;
    GCONV_TRY(gconv_image_allocate(&(*sums)[k]));
  }
  return gconv_plan_execute_rows(inner, &(gconv_input_rows){in, images->in_row}, images->first, *sums, inner->output_count,
                                 timings);
}

static gconv_status make(gconv_weighted_plan *plan, gconv_weighted_images *images, bool by_rows, const gconv_image *outputs,
                         gconv_timings *timings) {
  const bool one = plan->base.output_count == 1;
  gconv_timings device = {0};
  double start = gconv_now_ms();
  gconv_status status = gconv_weighted_prepare(plan, images);
  timings->prepare_ms += gconv_now_ms() - start;
  GCONV_THEN(status, convolve(plan->values, images, &images->value, by_rows, outputs, one, &images->sums[0], &device));
  timings->kernel_ms += device.kernel_ms;
  timings->upload_ms += device.upload_ms;
  timings->download_ms += device.download_ms;
  device = (gconv_timings){0};
  if (images->divides)
    GCONV_THEN(status, convolve(plan->shares, images, &images->share, by_rows, outputs, one, &images->sums[1], &device));
  timings->kernel_ms += device.kernel_ms;
  timings->upload_ms += device.upload_ms;
  timings->download_ms += device.download_ms;
  start = gconv_now_ms();
  GCONV_THEN(status, gconv_weighted_finish(plan, images, outputs));
  timings->finish_ms += gconv_now_ms() - start;
  return status;
}

static gconv_status execute(gconv_plan *base, const gconv_plan_input *input, gconv_image *outputs, gconv_timings *timings) {
  gconv_weighted_plan *plan = (gconv_weighted_plan *)base;
  gconv_weighted_images images = {.in = input->image};
  gconv_status status = make(plan, &images, false, outputs, timings);
  for (size_t i = 0; i < base->output_count && status == GCONV_OK; i++)
    status = gconv_image_copy_metadata(&outputs[i], input->image);
  free_images(plan, &images);
  return status;
}

static gconv_status execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  gconv_weighted_plan *plan = (gconv_weighted_plan *)base;
  gconv_weighted_images images = {.in = window, .in_row = window_row, .first = first};
  gconv_status status = make(plan, &images, true, outputs, timings);
  free_images(plan, &images);
  return status;
}

static gconv_status execute_device(gconv_plan *base, const gconv_image *in, gconv_image *outputs, void *stream) {
  gconv_timings timings = {0};
  if (strcmp(base->device->info.name, "cpu") != 0)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "missing samples, weights and the border normalize need work on the host, besides the "
                      "convolutions on the GPU: execute from memory of the host");
  return execute(base, &(gconv_plan_input){.image = in}, outputs, &timings);
}

static int32_t row_step(const gconv_plan *base) {
  const gconv_weighted_plan *plan = (const gconv_weighted_plan *)base;
  int64_t step = gconv_plan_row_step(plan->values), other = plan->shares ? gconv_plan_row_step(plan->shares) : step;
  if (step == 0 || other == 0)
    return 0;
  step = gconv_common_multiple(step, other);
  return step > INT32_MAX / 2 ? 0 : (int32_t)step;
}

/* A strip needs the rows of both convolutions, and the rows under the anchors. If rows of taps were left out, the anchors'
 * rows may lie outside the rows of the convolutions. */
static void rows_needed(const gconv_plan *base, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const gconv_weighted_plan *plan = (const gconv_weighted_plan *)base;
  gconv_plan_rows_needed(plan->values, first, count, begin, end);
  if (plan->shares) {
    int32_t from = *begin, to = *end;
    gconv_plan_rows_needed(plan->shares, first, count, &from, &to);
    *begin = from < *begin ? from : *begin;
    *end = to > *end ? to : *end;
  }
  for (int32_t i = 0; i < 2 && plan->of; i++) {
    const gconv_problem *problem = &plan->of[0].pass->problem;
    int64_t y = (first + (int64_t)i * (count - 1)) * problem->stride_y - problem->pad_top + problem->anchor_y;
    y = y < 0 ? 0 : y >= problem->height ? problem->height - 1 : y;
    *begin = y < *begin ? (int32_t)y : *begin;
    *end = y >= *end ? (int32_t)y + 1 : *end;
  }
}

/* Prints what becomes of missing samples. With nan keep, samples of no data are missing, but NaN and infinities are not. */
static void explain_missing(const gconv_weighted_plan *plan, FILE *text) {
  const gconv_nan how = plan->options->nan;
  const char *then = plan->preserves ? ", and put back" : how == GCONV_NAN_FILL ? ", and filled" : "";
  if (how == GCONV_NAN_KEEP)
    fprintf(text, "NaN and infinities spread; ");
  if (how != GCONV_NAN_KEEP || plan->source.has_nodata)
    fprintf(text, "missing samples are %s%s; ", how == GCONV_NAN_ZERO ? "taken for 0" : "left out", then);
}

static void explain(const gconv_plan *base, FILE *text) {
  const gconv_weighted_plan *plan = (const gconv_weighted_plan *)base;
  explain_missing(plan, text);
  fprintf(text, "%s\n",
          plan->shares ? "a result is the sum of weighted samples over the sum of weights: two convolutions, the second one "
                         "only if some weight is not 1"
                       : "no weights");
  plan->values->type->explain(plan->values, text);
}

/* The images of an execution: the two inputs in f32, and the sums. */
static void find_need(const gconv_plan *base, gconv_need *need) {
  const gconv_weighted_plan *plan = (const gconv_weighted_plan *)base;
  gconv_need other = {0};
  plan->values->type->find_need(plan->values, need);
  if (plan->shares)
    plan->shares->type->find_need(plan->shares, &other);
  need->fixed += other.fixed;
  need->image += other.image + 2 * gconv_pixel_bytes(&plan->middle);
  for (size_t k = 0; k < plan->values->output_count; k++)
    need->image += 2 * gconv_pixel_bytes(&plan->values->outputs[k]);
  need->row = need->image / base->outputs[0].height;
}

static const gconv_plan_type weighted_plan_type = {.bytes = sizeof(gconv_weighted_plan),
                                                   .free = free_plan,
                                                   .execute = execute,
                                                   .row_step = row_step,
                                                   .rows_needed = rows_needed,
                                                   .execute_rows = execute_rows,
                                                   .execute_device = execute_device,
                                                   .explain = explain,
                                                   .verify = gconv_weighted_verify,
                                                   .find_need = find_need};

static gconv_status keep_exact(const gconv_operation *base, gconv_operation **exact);

static const gconv_operation_type weighted_type = {.name = "filters with weights",
                                                   .free = free_operation,
                                                   .held_bytes = held_bytes,
                                                   .plan_type = &weighted_plan_type,
                                                   .minds_nodata = true,
                                                   .fill_plan = fill_plan,
                                                   .keep_exact = keep_exact,
                                                   .repeats = true};

/* Makes the operation of `plain`, which it takes over, even if it fails. */
static gconv_status wrap(gconv_operation *plain, const gconv_options *options, gconv_operation **result) {
  weighted *w = calloc(1, sizeof *w);
  if (!w) {
    gconv_operation_free(plain);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an operation");
  }
  *w = (weighted){.base = {&weighted_type, 1, plain}, .options = *options};
  w->options.algorithm = ((gconv_filter_operation *)plain)->options.algorithm;
  w->options.without = ((gconv_filter_operation *)plain)->options.without;
  w->options.weights = options->weights ? &w->weights : NULL; /* not the caller's, who may free them */
  gconv_status status = options->weights ? gconv_weighted_make_weights(options->weights, &w->weights) : GCONV_OK;
  if (status == GCONV_OK)
    *result = &w->base;
  else
    gconv_operation_free(&w->base);
  return status;
}

static gconv_status keep_exact(const gconv_operation *base, gconv_operation **exact) {
  const weighted *w = (const weighted *)base;
  gconv_operation *plain = NULL;
  GCONV_TRY(gconv_operation_keep_exact(w->base.inner, &plain));
  return plain ? wrap(plain, &w->options, exact) : GCONV_OK;
}

/* Makes the operation for options that want weights. */
static gconv_status make_weighted(const gconv_filters *filters, const gconv_options *options, gconv_operation **result) {
  gconv_options plainly = *options;
  gconv_operation *plain = NULL;
  if (options->weights) {
    GCONV_TRY(gconv_check_source(options->weights, "the weights"));
    GCONV_TRY(gconv_check_pixels(options->weights, "the weights"));
  }
  if (gconv_weighted_divides(options))
    GCONV_TRY(check_sums(filters));
  plainly.nan = GCONV_NAN_KEEP;
  plainly.weights = NULL;
  plainly.sets_nodata = plainly.preserves = false;
  if (plainly.border == GCONV_BORDER_NORMALIZE)
    plainly.border = GCONV_BORDER_ZERO;
  GCONV_TRY(gconv_operation_plain(filters, &plainly, &plain));
  return wrap(plain, options, result);
}

gconv_status gconv_operation_filters(const gconv_filters *filters, const gconv_options *options, gconv_operation **result) {
  GCONV_NEED(filters, options);
  GCONV_NEED_AS(result, "operation");
  GCONV_TRY(gconv_filters_check(filters));
  const gconv_options filled = gconv_options_filled(options);
  GCONV_TRY(gconv_options_check(&filled));
  return gconv_wants_weights(&filled) ? make_weighted(filters, &filled, result)
                                      : gconv_operation_plain(filters, &filled, result);
}

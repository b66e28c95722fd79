/* SPDX-License-Identifier: MIT */
/* Makes plans of filters. */
#include "conv/plan.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "base/printable.h"
#include "kernels/factor.h"
#include "operation/stages.h"

#include <math.h>
#include <string.h>

/* ---- Passes ---- */

static gconv_image output_header(const gconv_filter_plan *plan, const gconv_pass *pass, gconv_type type) {
  const gconv_image *in = &plan->convolved;
  const gconv_problem *problem = &pass->problem;
  gconv_image header = gconv_header_with(in, type, in->channels, in->planar);
  header.height = problem->out_height;
  header.width = problem->out_width;
  header.alpha = in->alpha;
  header.has_nodata = plan->base.like.has_nodata;
  bool kept;
  header.nodata = header.has_nodata ? gconv_nodata_as(&plan->base.like, type, &kept) : 0;
  if (problem->epilogue.combine == GCONV_COMBINE_STACK) {
    header.channels = problem->filters * (in->channels - problem->keep_alpha) + problem->keep_alpha;
    header.planar = in->planar || header.channels > 4;
    header.alpha = problem->keep_alpha || (in->alpha && problem->filters == 1);
  }
  return header;
}

/* Lets the algorithm write its prepared weights after the weights. */
static gconv_status prepare_weights(gconv_pass *pass) {
  const gconv_problem *problem = &pass->problem;
  size_t plain = (size_t)gconv_weight_floats(problem);
  pass->weight_count = plain;
  if (!pass->algorithm->prepared_floats)
    return GCONV_OK;
  size_t prepared = pass->algorithm->prepared_floats(problem);
  if (prepared > PTRDIFF_MAX / sizeof(float) - plain)
    return gconv_fail(GCONV_TOO_LARGE, "the prepared weights would exceed the address space");
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((plain + prepared) * sizeof(float), "the prepared weights", &memory));
  memcpy(memory, pass->weights, plain * sizeof(float));
  gconv_release(pass->weights);
  pass->weights = memory;
  pass->weight_count = plain + prepared;
  return pass->algorithm->prepare ? pass->algorithm->prepare(problem, pass->weights, pass->weights + plain) : GCONV_OK;
}

/* Returns the factor by which the error of combined responses may exceed the error of one response. */
static double combined_errors(const gconv_problem *problem) {
  gconv_combine combine = problem->epilogue.combine;
  return combine == GCONV_COMBINE_SUM ? problem->filters : combine == GCONV_COMBINE_MAGNITUDE ? sqrt(problem->filters) : 1;
}

/* Returns the error of a response that is half a level of the result, relative to (sum |tap|) * max |x|. For filters that
 * amplify, it is half a level of their own range. Floats have no levels: for them, it is 2^-14, a 64th of a level of u8. */
static double accuracy_of(const gconv_filter_plan *plan, const gconv_problem *problem) {
  gconv_type type = plan->options.output_type;
  double gain = problem->structure.gain * fabs(plan->options.scale) * combined_errors(problem);
  if (gain == 0)
    return INFINITY;
  if (type == GCONV_F32)
    return 0x1p-14;
  bool stretched = plan->options.range == GCONV_RANGE_MINMAX;
  return 0.5 / (double)gconv_white_of_result(problem->in_type, type) / (stretched ? 1 : fmin(gain, 1));
}

static gconv_status make_pass(gconv_filter_plan *plan, const gconv_filter *filters, size_t count, FILE *reasons) {
  gconv_options core = gconv_core_options(&plan->base.like, &plan->options);
  if (plan->parts_alpha)
    gconv_ask_for_levels(plan->convolved.type, &core);
  gconv_pass *pass = &plan->passes[plan->pass_count];
  GCONV_TRY(gconv_problem_create(&plan->convolved, filters, count, &core, &pass->problem, &pass->weights));
  plan->pass_count++; /* from here on, the pass is freed with the plan */
  GCONV_TRY(gconv_find_structure(&pass->problem, pass->weights, &pass->problem.structure));
  pass->problem.accuracy = accuracy_of(plan, &pass->problem);
  const gconv_problem *problem = &pass->problem;
  /* Offsets of filters are in levels of the input. A stage before may have given the image to convolve other levels. */
  float *biases = pass->weights + gconv_tap_count(problem) + problem->filters;
  for (size_t k = 0; k < count; k++)
    biases[k] =
        (float)((double)biases[k] / (double)gconv_white(plan->base.like.type) * (double)gconv_white(plan->convolved.type));
  if (plan->filters->count > 1 && count == 1)
    gconv_print(reasons, "  for %s, %d x %d outputs:\n", filters->name, problem->out_height, problem->out_width);
  if (problem->rows < filters->rows || problem->columns < filters->columns)
    fprintf(reasons, "  of %d x %d taps, %d x %d are used: the rest lie on zeros outside the image, or are no taps\n",
            filters->rows, filters->columns, problem->rows, problem->columns);
  GCONV_TRY(gconv_choose(problem, plan->base.device, &plan->options, reasons, &pass->algorithm));
  pass->workspace_bytes = pass->algorithm->workspace_bytes ? pass->algorithm->workspace_bytes(problem) : 0;
  pass->first_output = plan->base.output_count;
  for (size_t i = 0; i < gconv_pass_outputs(pass); i++) {
    plan->base.outputs[plan->base.output_count] = output_header(plan, pass, plan->options.output_type);
    plan->raw_outputs[plan->base.output_count++] = output_header(plan, pass, problem->out_type);
  }
  return GCONV_OK;
}

static gconv_status make_passes(gconv_filter_plan *plan, FILE *reasons) {
  size_t count = plan->filters->count;
  plan->passes = calloc(count, sizeof *plan->passes);
  plan->base.outputs = calloc(count, sizeof *plan->base.outputs);
  plan->raw_outputs = calloc(count, sizeof *plan->raw_outputs);
  GCONV_NEED_MEMORY(plan->passes && plan->base.outputs && plan->raw_outputs, "no memory for a plan of %zu filters", count);
  if (gconv_filters_have_one_frame(plan->filters))
    return make_pass(plan, plan->filters->items, count, reasons);
  for (size_t k = 0; k < count; k++)
    GCONV_TRY(make_pass(plan, &plan->filters->items[k], 1, reasons));
  return GCONV_OK;
}

/* ---- Plans ---- */

static void fill_info(gconv_filter_plan *plan) {
  const gconv_pass *first = &plan->passes[0];
  const gconv_problem *problem = &first->problem;
  const gconv_prices prices = gconv_device_prices(plan->base.device);
  gconv_plan_info *info = &plan->base.info;
  *info = (gconv_plan_info){.device = plan->base.device->info.name,
                            .algorithm = first->algorithm->info.name,
                            .math = "fp32",
                            .exact = true,
                            .frames = problem->images,
                            .channels = problem->planes * (problem->channels - problem->keep_alpha),
                            .height = problem->height,
                            .width = problem->width,
                            .filters = (int32_t)plan->filters->count,
                            .out_height = problem->out_height,
                            .out_width = problem->out_width,
                            .out_channels = plan->base.outputs[0].channels,
                            .input_type = plan->base.like.type,
                            .output_type = plan->base.outputs[0].type};
  for (size_t i = 0; i < plan->pass_count; i++) {
    const gconv_pass *pass = &plan->passes[i];
    info->exact = info->exact && pass->algorithm->info.exact;
    info->flop += gconv_problem_flop(&pass->problem);
    if (pass->algorithm != first->algorithm)
      info->algorithm = "several";
    info->workspace_bytes = pass->workspace_bytes > info->workspace_bytes ? pass->workspace_bytes : info->workspace_bytes;
    info->estimate_ms += pass->algorithm->cost(&pass->problem, &prices.machine);
    info->error_bound = fmax(info->error_bound, pass->algorithm->error_bound(&pass->problem));
  }
  for (size_t k = 0; k < plan->filters->count; k++) {
    info->rows = plan->filters->items[k].rows > info->rows ? plan->filters->items[k].rows : info->rows;
    info->columns = plan->filters->items[k].columns > info->columns ? plan->filters->items[k].columns : info->columns;
  }
  info->bytes = gconv_pixel_bytes(&plan->convolved);
  for (size_t i = 0; i < plan->base.output_count; i++)
    info->bytes += gconv_pixel_bytes(&plan->raw_outputs[i]);
}

/* Returns whether a filter mixes colours of neighbours: its sum is not 0, and a tap beside the anchor is not 0. Colours can
 * be premultiplied by alpha only for filters whose sum is not 0. */
static bool adds_up(const gconv_filter *filter) {
  double sum = 0, magnitude = 0;
  bool beside = false;
  for (int32_t r = 0; r < filter->rows; r++)
    for (int32_t s = 0; s < filter->columns; s++) {
      double tap = (double)filter->taps[(size_t)r * (size_t)filter->columns + (size_t)s];
      sum += tap;
      magnitude += fabs(tap);
      beside |= tap != 0 && (r != filter->anchor_row || s != filter->anchor_column);
    }
  return beside && fabs(sum) > 1e-3 * magnitude;
}

static bool bleeds(const gconv_filter_plan *plan) {
  bool any = false;
  for (size_t k = 0; k < plan->filters->count; k++)
    any |= adds_up(&plan->filters->items[k]);
  return any && plan->base.like.alpha && !plan->base.like.planar && plan->options.alpha == GCONV_ALPHA_KEEP;
}

/* Makes all decisions of a plan: stages, problems and algorithms. Prepares nothing yet. */
static gconv_status decide(gconv_filter_plan *plan) {
  const gconv_image *like = &plan->base.like;
  plan->before = gconv_needs_before(like, &plan->options);
  plan->parts_alpha =
      !gconv_needs_after(like, &plan->options) && gconv_range_parts_alpha(like, &plan->options, plan->filters->count);
  plan->after = plan->parts_alpha || gconv_needs_after(like, &plan->options);
  GCONV_TRY(gconv_before_header(like, &plan->options, &plan->convolved));
  size_t size = 0;
  FILE *reasons = open_memstream(&plan->reasons, &size);
  GCONV_NEED_MEMORY(reasons, "no memory for a plan");
  gconv_status status = make_passes(plan, reasons);
  bool whole = gconv_close_text(reasons, &plan->reasons);
  GCONV_TRY(status);
  GCONV_NEED_MEMORY(whole, "no memory for a plan");
  fill_info(plan);
  return GCONV_OK;
}

/* ---- Rounding ---- */

/* A bound above this number of half levels is an error, unless the user named the algorithm. A bound above one half level is
 * a warning. */
static const double MOST_HALF_LEVELS = 8;

/* Writes a bound as text: "3.5 levels of u8", or, for floats, "0.001 of the largest possible". */
static void write_bound(const gconv_filter_plan *plan, double half_levels, char text[64]) {
  gconv_type type = plan->options.output_type;
  if (type == GCONV_F32)
    snprintf(text, 64, "%.3g of the largest possible", half_levels * 0x1p-14);
  else
    snprintf(text, 64, "%.3g levels of %s", half_levels / 2, gconv_type_name(type));
}

/* Warns if the user named an algorithm that multiplies by 0 at places that are no taps. */
static void warn_of_marks(const gconv_pass *pass) {
  if (!gconv_leaves_out_marks(pass->algorithm, &pass->problem))
    gconv_warn_once(
        "places that are no taps",
        "the algorithm %s treats places that are no taps as taps of 0: if a sample there is NaN or infinite, the "
        "result is NaN",
        pass->algorithm->info.name);
}

static gconv_status check_rounding(const gconv_filter_plan *plan, gconv_plan_extent extent) {
  bool is_auto = strcmp(plan->options.algorithm, "auto") == 0;
  for (size_t i = 0; i < plan->pass_count; i++) {
    const gconv_pass *pass = &plan->passes[i];
    const gconv_problem *problem = &pass->problem;
    double half_levels = pass->algorithm->error_bound(problem) / problem->accuracy;
    char bound[64];
    if (extent == GCONV_PLAN_WHOLE)
      warn_of_marks(pass);
    write_bound(plan, half_levels, bound);
    if (half_levels > MOST_HALF_LEVELS && is_auto)
      return gconv_fail(GCONV_UNSUPPORTED,
                        "rounding may make results of a filter of %d x %d taps wrong by up to %s: no algorithm that may be "
                        "taken does better; name an algorithm, such as %s, to accept such results",
                        problem->rows, problem->columns, bound, pass->algorithm->info.name);
    if (half_levels > 1 && extent == GCONV_PLAN_WHOLE)
      gconv_warn_once("rounding",
                      "rounding of the algorithm %s may make results of a filter of %d x %d taps wrong by up to %s: the "
                      "algorithm auto takes a more accurate one, if there is one",
                      pass->algorithm->info.name, problem->rows, problem->columns, bound);
  }
  return GCONV_OK;
}

/* Makes the prepared weights and buffers, which outlines of plans lack. */
static gconv_status prepare(gconv_filter_plan *plan) {
  gconv_device *device = plan->base.device;
  for (size_t i = 0; i < plan->pass_count; i++)
    GCONV_TRY(prepare_weights(&plan->passes[i]));
  return plan->run_type->prepare(device, plan->passes, plan->pass_count, plan->raw_outputs, &plan->run);
}

void gconv_warn_of_nodata(const gconv_image *like, const gconv_image *out) {
  char before[GCONV_NODATA_BYTES], after[GCONV_NODATA_BYTES];
  bool kept = true;
  if (like->has_nodata)
    gconv_nodata_as(like, out->type, &kept);
  if (!kept)
    gconv_warn_once(
        "no data in another type",
        "no data, %s in the input, become %s in %s results, where data may have the same value: --depth float keeps them",
        gconv_nodata_write(like->nodata, before), gconv_nodata_write(out->nodata, after), gconv_type_name(out->type));
}

gconv_status gconv_filter_plan_fill(const gconv_plan_order *order, const gconv_operation *to_do, gconv_plan *base) {
  const gconv_filter_operation *operation = (const gconv_filter_operation *)to_do;
  gconv_filter_plan *plan = (gconv_filter_plan *)base;
  plan->run_type = GCONV_OF_DEVICE(order->device, gconv_run_type);
  GCONV_TRY(gconv_filter_plan_check(order->like, &operation->filters, &operation->options));
  plan->options = operation->options;
  plan->options.output_type = gconv_filter_output_type(&operation->options, order->kept);
  plan->options.sets_type = true;
  plan->filters = &operation->filters;
  base->bleeds = bleeds(plan);
  if (order->extent == GCONV_PLAN_OUTLINE_OF_ANY) {
    plan->options.algorithm = "auto";
    plan->options.without = "";
  }
  gconv_device_enter(order->device);
  gconv_status status = decide(plan);
  if (status == GCONV_OK && order->extent != GCONV_PLAN_OUTLINE_OF_ANY)
    status = check_rounding(plan, order->extent);
  if (status == GCONV_OK && order->extent == GCONV_PLAN_WHOLE)
    gconv_warn_of_nodata(&base->like, &base->outputs[0]);
  if (status == GCONV_OK && order->extent == GCONV_PLAN_WHOLE)
    status = prepare(plan);
  gconv_device_leave(order->device);
  return status;
}

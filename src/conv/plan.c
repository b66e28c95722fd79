/* SPDX-License-Identifier: MIT */
/* Making plans. */
#include "conv/plan.h"
#include "base/memory.h"
#include "conv/choose.h"
#include "conv/factor.h"
#include "conv/stages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Filters ---- */

static gconv_status copy_filter(const gconv_filter *from, gconv_filter *to) {
  gconv_filter copy = *from;
  size_t bytes = gconv_product(3, (size_t[]){(size_t)from->rows, (size_t)from->columns, sizeof *from->taps});
  copy.name = strdup(from->name ? from->name : "filter");
  copy.taps = bytes == SIZE_MAX ? NULL : malloc(bytes);
  if (!copy.name || !copy.taps) {
    free(copy.name);
    free(copy.taps);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a filter of %d x %d", from->rows, from->columns);
  }
  memcpy(copy.taps, from->taps, bytes);
  *to = copy;
  return GCONV_OK;
}

static gconv_status copy_filters(const gconv_filters *from, gconv_filters *to) {
  to->items = calloc(from->count, sizeof *to->items);
  if (!to->items)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu filters", from->count);
  for (; to->count < from->count; to->count++) {
    GCONV_TRY(copy_filter(&from->items[to->count], &to->items[to->count]));
  }
  return GCONV_OK;
}

static int32_t larger(int32_t a, int32_t b) {
  return a > b ? a : b;
}

/* Puts a filter into a larger frame of zeros, anchor on anchor. */
static gconv_status embed_filter(gconv_filter *filter, int32_t rows, int32_t columns, int32_t anchor_row,
                                 int32_t anchor_column) {
  float *taps = calloc(gconv_product(2, (size_t[]){(size_t)rows, (size_t)columns}), sizeof *taps);
  if (!taps)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a filter of %d x %d", rows, columns);
  int32_t top = anchor_row - filter->anchor_row, left = anchor_column - filter->anchor_column;
  for (int32_t r = 0; r < filter->rows; r++)
    memcpy(taps + (size_t)(top + r) * (size_t)columns + left, filter->taps + (size_t)r * (size_t)filter->columns,
           (size_t)filter->columns * sizeof *taps);
  free(filter->taps);
  filter->taps = taps;
  filter->rows = rows;
  filter->columns = columns;
  filter->anchor_row = anchor_row;
  filter->anchor_column = anchor_column;
  return GCONV_OK;
}

static bool same_frame(const gconv_filter *a, const gconv_filter *b) {
  return a->rows == b->rows && a->columns == b->columns && a->anchor_row == b->anchor_row &&
         a->anchor_column == b->anchor_column;
}

static bool all_same_frame(const gconv_filters *filters) {
  for (size_t k = 1; k < filters->count; k++)
    if (!same_frame(&filters->items[0], &filters->items[k]))
      return false;
  return true;
}

/* Gives all filters the smallest frame that holds each of them with its anchor at one place. */
static gconv_status align_filters(gconv_filters *filters) {
  int32_t above = 0, below = 0, before = 0, behind = 0;
  for (size_t k = 0; k < filters->count; k++) {
    const gconv_filter *filter = &filters->items[k];
    above = larger(above, filter->anchor_row);
    below = larger(below, filter->rows - filter->anchor_row);
    before = larger(before, filter->anchor_column);
    behind = larger(behind, filter->columns - filter->anchor_column);
  }
  for (size_t k = 0; k < filters->count; k++)
    GCONV_TRY(embed_filter(&filters->items[k], above + below, before + behind, above, before));
  return GCONV_OK;
}

/* ---- Passes ---- */

/* The header of the outputs of a pass. */
static gconv_image output_header(const gconv_plan *plan, const gconv_pass *pass, gconv_type type) {
  const gconv_image *in = &plan->convolved;
  const gconv_problem *problem = &pass->problem;
  gconv_image header = {.type = type,
                        .frames = in->frames,
                        .height = problem->out_height,
                        .width = problem->out_width,
                        .channels = in->channels,
                        .planar = in->planar,
                        .alpha = in->alpha};
  if (problem->epilogue.combine == GCONV_COMBINE_STACK) {
    header.channels = problem->filters * (in->channels - problem->keep_alpha) + problem->keep_alpha;
    header.planar = in->planar || header.channels > 4;
    header.alpha = problem->keep_alpha || (in->alpha && problem->filters == 1);
  }
  return header;
}

/* Lets the algorithm write what it wants to have behind the weights. */
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

static gconv_status make_pass(gconv_plan *plan, const gconv_filter *filters, size_t count, FILE *reasons) {
  gconv_options core = gconv_core_options(&plan->like, &plan->options);
  gconv_pass *pass = &plan->passes[plan->pass_count];
  GCONV_TRY(gconv_problem_create(&plan->convolved, filters, count, &core, &pass->problem, &pass->weights));
  plan->pass_count++; /* from here on, it is freed with the plan */
  GCONV_TRY(gconv_find_structure(&pass->problem, pass->weights, &pass->problem.structure));
  const gconv_problem *problem = &pass->problem;
  /* Offsets of filters are in levels of the inputs, which a stage before may have changed. */
  float *biases = pass->weights + gconv_tap_count(problem) + problem->filters;
  for (size_t k = 0; k < count; k++)
    biases[k] =
        (float)((double)biases[k] / (double)gconv_white(plan->like.type) * (double)gconv_white(plan->convolved.type));
  if (plan->filters.count > 1 && count == 1)
    fprintf(reasons, "  for %s, %d x %d outputs:\n", filters->name, problem->out_height, problem->out_width);
  if (problem->rows < filters->rows || problem->columns < filters->columns)
    fprintf(reasons, "  of %d x %d taps, %d x %d can meet the image; beyond it are zeros\n", filters->rows, filters->columns,
            problem->rows, problem->columns);
  GCONV_TRY(gconv_choose(problem, plan->device, &plan->options, reasons, &pass->algorithm));
  pass->workspace_bytes = pass->algorithm->workspace_bytes ? pass->algorithm->workspace_bytes(problem) : 0;
  pass->first_output = plan->output_count;
  gconv_type type = plan->options.keep_type ? plan->like.type : plan->options.output_type;
  for (size_t i = 0; i < gconv_pass_outputs(pass); i++) {
    plan->outputs[plan->output_count] = output_header(plan, pass, type);
    plan->raw_outputs[plan->output_count++] = output_header(plan, pass, problem->out_type);
  }
  return GCONV_OK;
}

static gconv_status make_passes(gconv_plan *plan, FILE *reasons) {
  size_t count = plan->filters.count;
  plan->passes = calloc(count, sizeof *plan->passes);
  plan->outputs = calloc(count, sizeof *plan->outputs);
  plan->raw_outputs = calloc(count, sizeof *plan->raw_outputs);
  if (!plan->passes || !plan->outputs || !plan->raw_outputs)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a plan of %zu filters", count);
  if (!all_same_frame(&plan->filters) && plan->options.combine == GCONV_COMBINE_NONE) {
    for (size_t k = 0; k < count; k++)
      GCONV_TRY(make_pass(plan, &plan->filters.items[k], 1, reasons));
    return GCONV_OK;
  }
  if (!all_same_frame(&plan->filters)) {
    if (plan->options.padding != GCONV_PADDING_SAME)
      return gconv_fail(GCONV_BAD_ARGUMENT, "filters of different sizes or anchors can be combined with padding same only");
    GCONV_TRY(align_filters(&plan->filters));
  }
  return make_pass(plan, plan->filters.items, count, reasons);
}

/* ---- Plans ---- */

static double image_bytes(const gconv_image *image) {
  return (double)image->frames * image->height * image->width * image->channels * (double)gconv_type_bytes(image->type);
}

static void fill_info(gconv_plan *plan) {
  const gconv_pass *first = &plan->passes[0];
  const gconv_problem *problem = &first->problem;
  gconv_plan_info *info = &plan->info;
  *info = (gconv_plan_info){.device = plan->device->info.name,
                            .algorithm = first->algorithm->info.name,
                            .math = "fp32",
                            .exact = true,
                            .frames = problem->images,
                            .channels = problem->planes * (problem->channels - problem->keep_alpha),
                            .height = problem->height,
                            .width = problem->width,
                            .filters = (int32_t)plan->filters.count,
                            .out_height = problem->out_height,
                            .out_width = problem->out_width,
                            .out_channels = plan->outputs[0].channels,
                            .input_type = plan->like.type,
                            .output_type = plan->outputs[0].type};
  for (size_t i = 0; i < plan->pass_count; i++) {
    const gconv_pass *pass = &plan->passes[i];
    info->exact = info->exact && pass->algorithm->info.exact;
    info->flop += gconv_problem_flop(&pass->problem);
    if (pass->algorithm != first->algorithm)
      info->algorithm = "several";
    info->workspace_bytes = pass->workspace_bytes > info->workspace_bytes ? pass->workspace_bytes : info->workspace_bytes;
    info->estimate_ms += pass->algorithm->cost(&pass->problem, &plan->device->machine);
    info->error_bound = fmax(info->error_bound, pass->algorithm->error_bound(&pass->problem));
  }
  for (size_t k = 0; k < plan->filters.count; k++) {
    info->rows = larger(info->rows, plan->filters.items[k].rows);
    info->columns = larger(info->columns, plan->filters.items[k].columns);
  }
  info->bytes = image_bytes(&plan->convolved);
  for (size_t i = 0; i < plan->output_count; i++)
    info->bytes += image_bytes(&plan->raw_outputs[i]);
}

/* All that is decided, before anything is prepared for it. */
static gconv_status decide(gconv_plan *plan, const gconv_filters *filters) {
  GCONV_TRY(copy_filters(filters, &plan->filters));
  plan->before = gconv_needs_before(&plan->like, &plan->options);
  plan->after = gconv_needs_after(&plan->like, &plan->options);
  GCONV_TRY(gconv_before_header(&plan->like, &plan->options, &plan->convolved));
  size_t size = 0;
  FILE *reasons = open_memstream(&plan->reasons, &size);
  if (!reasons)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  gconv_status status = make_passes(plan, reasons);
  bool whole = gconv_close_text(reasons, &plan->reasons);
  GCONV_TRY(status);
  if (!whole)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  fill_info(plan);
  return GCONV_OK;
}

gconv_status gconv_plan_outline(gconv_device *device, const gconv_image *like, const gconv_filters *filters,
                                const gconv_options *options, gconv_plan **result) {
  GCONV_TRY(gconv_plan_check(like, filters, options));
  gconv_plan *plan = calloc(1, sizeof *plan);
  char *algorithm = strdup(options->algorithm), *without = strdup(options->without ? options->without : "");
  if (!plan || !algorithm || !without) {
    free(plan);
    free(algorithm);
    free(without);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  }
  plan->device = device;
  plan->options = *options;
  plan->options.algorithm = algorithm;
  plan->options.without = without;
  plan->like = (gconv_image){.type = like->type,
                             .frames = like->frames,
                             .height = like->height,
                             .width = like->width,
                             .channels = like->channels,
                             .planar = like->planar,
                             .alpha = like->alpha};
  gconv_device_enter(device);
  gconv_status status = decide(plan, filters);
  if (status != GCONV_OK) {
    gconv_plan_free(plan);
    return status;
  }
  *result = plan;
  return GCONV_OK;
}

gconv_status gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_filters *filters,
                               const gconv_options *options, gconv_plan **result) {
  gconv_plan *plan = NULL;
  GCONV_TRY(gconv_plan_outline(device, like, filters, options, &plan));
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < plan->pass_count && status == GCONV_OK; i++)
    status = prepare_weights(&plan->passes[i]);
  if (status == GCONV_OK)
    status = device->type->prepare(device, plan->passes, plan->pass_count, plan->raw_outputs, &plan->run);
  if (status != GCONV_OK) {
    gconv_plan_free(plan);
    return status;
  }
  *result = plan;
  return GCONV_OK;
}

void gconv_plan_free(gconv_plan *plan) {
  if (!plan)
    return;
  plan->device->type->release(plan->run);
  for (size_t i = 0; i < plan->pass_count; i++)
    gconv_release(plan->passes[i].weights);
  free(plan->passes);
  free(plan->outputs);
  free(plan->raw_outputs);
  gconv_filters_free(&plan->filters);
  free(plan->reasons);
  free((char *)plan->options.algorithm); /* copies of its own */
  free((char *)plan->options.without);
  free(plan);
}

size_t gconv_plan_outputs(const gconv_plan *plan) {
  return plan->output_count;
}

const gconv_image *gconv_plan_output_header(const gconv_plan *plan, size_t output) {
  return output < plan->output_count ? &plan->outputs[output] : NULL;
}

const gconv_plan_info *gconv_plan_get_info(const gconv_plan *plan) {
  return &plan->info;
}

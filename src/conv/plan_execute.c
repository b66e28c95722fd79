/* SPDX-License-Identifier: MIT */
/* Executes plans, for whole images and for some rows: the device's work, and the stages on the host before and after it. */
#include "base/clock.h"
#include "base/memory.h"
#include "conv/holes.h"
#include "conv/verify.h"
#include "kernels/border.h"
#include "operation/stages.h"

/* The images between the stages: the image that is convolved, and the raw outputs. Without stages, both are the caller's. */
typedef struct middle_images {
  gconv_image in;
  gconv_image *outputs;
  bool watched;          /* `in` has the pixels from which the outputs were made: losses can be estimated */
  int32_t in_row, first; /* the row of the image with which `in` begins; the row with which outputs begin */
  gconv_holes holes;     /* samples of no data of the input */
} middle_images;

/* Prepares the images between the stages, for whole images, or for some rows of outputs and the input rows they need. */
static gconv_status prepare_middle(const gconv_filter_plan *plan, const gconv_image *in, gconv_image *outputs,
                                   middle_images *middle) {
  *middle = (middle_images){.outputs = plan->after ? NULL : outputs};
  GCONV_TRY(gconv_holes_find(plan, in, &middle->holes));
  const gconv_image *from = middle->holes.filled.data ? &middle->holes.filled : in;
  middle->in = *from;
  if (plan->before)
    GCONV_TRY(gconv_run_before(plan->base.device->threads, &plan->options, &plan->convolved, from, &middle->in));
  if (!plan->after)
    return GCONV_OK;
  GCONV_NEW(middle->outputs, plan->base.output_count, "no memory for %zu outputs", plan->base.output_count);
  for (size_t i = 0; i < plan->base.output_count; i++) {
    middle->outputs[i] = plan->raw_outputs[i];
    middle->outputs[i].height = outputs[i].height;
    GCONV_TRY(gconv_image_allocate(&middle->outputs[i]));
  }
  return GCONV_OK;
}

static gconv_status begin_middle(const gconv_filter_plan *plan, const gconv_image *in, gconv_image *outputs,
                                 middle_images *middle, gconv_timings *timings) {
  double start = gconv_now_ms();
  gconv_status status = prepare_middle(plan, in, outputs, middle);
  timings->prepare_ms += gconv_now_ms() - start;
  return status;
}

/* Runs the stage after the convolution, unless `status` says that something failed. Frees the images between the stages.
 * Outputs get the metadata of `in`, unless it is NULL, as for rows. */
static gconv_status end_middle(const gconv_filter_plan *plan, gconv_status status, const gconv_image *in,
                               middle_images *middle, gconv_image *outputs, gconv_timings *timings) {
  double start = gconv_now_ms();
  bool raw = plan->after && !plan->parts_alpha;
  if (status == GCONV_OK && outputs && raw)
    status = gconv_holes_mend(plan, &middle->holes, &middle->in, middle->in_row, middle->outputs, middle->first);
  for (size_t i = 0; i < plan->base.output_count && status == GCONV_OK && outputs; i++) {
    if (plan->parts_alpha)
      gconv_finish_levels(plan->base.device->threads, &plan->options, plan->convolved.type, &middle->outputs[i],
                          &outputs[i]);
    else if (plan->after)
      status = gconv_run_after(plan->base.device->threads, &plan->options, &middle->outputs[i], &outputs[i]);
    if (status == GCONV_OK && in)
      status = gconv_image_copy_metadata(&outputs[i], in);
  }
  if (status == GCONV_OK && outputs && !raw)
    status = gconv_holes_mend(plan, &middle->holes, &middle->in, middle->in_row, outputs, middle->first);
  if (status == GCONV_OK && outputs)
    status = gconv_holes_set(plan, &middle->holes, outputs);
  if (status == GCONV_OK && middle->watched)
    gconv_filter_watch(plan, &middle->in, &middle->holes, middle->in_row, outputs, middle->first);
  if (plan->before)
    gconv_image_free(&middle->in);
  for (size_t i = 0; plan->after && middle->outputs && i < plan->base.output_count; i++)
    gconv_image_free(&middle->outputs[i]);
  if (plan->after)
    free(middle->outputs);
  gconv_holes_free(plan, &middle->holes);
  timings->finish_ms += gconv_now_ms() - start;
  return status;
}

static gconv_status execute(gconv_plan *base, const gconv_plan_input *input, gconv_image *outputs, gconv_timings *timings) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  middle_images middle;
  gconv_status status = begin_middle(plan, input->image, outputs, &middle, timings);
  if (status == GCONV_OK && input->jpeg)
    status = plan->run_type->execute_jpeg(plan->run, input->jpeg, input->jpeg_bytes, middle.outputs, timings);
  else if (status == GCONV_OK)
    status = plan->run_type->execute(plan->run, &middle.in, middle.outputs, timings);
  if (status == GCONV_OK && !input->jpeg) /* the pixels of a JPEG are on the device only */
    middle.watched = true;
  return end_middle(plan, status, input->image, &middle, outputs, timings);
}

static gconv_status execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  middle_images middle;
  gconv_status status = begin_middle(plan, window, outputs, &middle, timings);
  GCONV_THEN(status, plan->run_type->execute_rows(plan->run, &middle.in, window_row, middle.outputs, first, timings));
  middle.watched = true;
  middle.in_row = window_row;
  middle.first = first;
  return end_middle(plan, status, NULL, &middle, outputs, timings);
}

static gconv_status execute_device(gconv_plan *base, const gconv_image *in, gconv_image *outputs, void *stream) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  gconv_timings timings = {0};
  if (!plan->run_type->execute_device)
    return execute(base, &(gconv_plan_input){.image = in}, outputs, &timings);
  if (plan->before || plan->after || base->like.has_nodata)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "grey, mixed channels, linear light, premultiplied alpha, minmax and samples of no data are computed on "
        "the host: execute from memory of the host");
  return plan->run_type->execute_device(plan->run, in, outputs, stream);
}

static gconv_status check_jpeg(const gconv_plan *base, const gconv_image *header) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  if (!gconv_device_decoder(plan->base.device))
    return gconv_fail(GCONV_UNSUPPORTED, "no decoder was started on %s", plan->base.device->info.name);
  if (plan->before || header->type != GCONV_U8 || header->channels != 3 || header->planar || header->frames != 1)
    return gconv_fail(GCONV_UNSUPPORTED, plan->before ? "the pixels are wanted on the host, for grey or linear light"
                                                      : "only plain colour images are decoded on a device");
  return GCONV_OK;
}

/* Returns whether results need no work on the host, and their rows fit into a slab (device/transfer_cuda.h). */
static bool can_come_in_parts(const gconv_filter_plan *plan) {
  const size_t most = (size_t)1 << 19; /* bytes of a row */
  for (size_t i = 0; i < plan->base.output_count; i++) {
    const gconv_image *output = &plan->base.outputs[i];
    if (plan->after || output->has_nodata || output->planar || output->frames > 1 ||
        (size_t)output->width * (size_t)output->channels * gconv_type_bytes(output->type) > most)
      return false;
  }
  return true;
}

static gconv_status check_parts(const gconv_plan *base) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  if (!plan->run_type->execute_parts)
    return gconv_fail(GCONV_UNSUPPORTED, "%s yields whole results", plan->base.device->info.name);
  return can_come_in_parts(plan) ? GCONV_OK : gconv_fail(GCONV_UNSUPPORTED, "the results are wanted as a whole");
}

static gconv_status execute_parts(gconv_plan *base, const gconv_plan_input *input, const gconv_taker *taker,
                                  gconv_timings *timings) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  middle_images middle;
  gconv_status status = begin_middle(plan, input->image, NULL, &middle, timings);
  GCONV_THEN(status, plan->run_type->execute_parts(plan->run, &middle.in, input->jpeg, input->jpeg_bytes, taker, timings));
  middle.watched = !input->jpeg;
  return end_middle(plan, status, NULL, &middle, NULL, timings);
}

static size_t held_bytes(const gconv_plan *base) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  return plan->run && plan->run_type->held_bytes ? plan->run_type->held_bytes(plan->run) : 0;
}

static size_t png_bytes(const gconv_plan *base) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  return plan->run_type->png_bytes && can_come_in_parts(plan) ? plan->run_type->png_bytes(&base->outputs[0]) : 0;
}

static gconv_status measure(gconv_plan *base, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  gconv_timings timings = {0};
  middle_images middle;
  gconv_status status = begin_middle(plan, in, outputs, &middle, &timings);
  GCONV_THEN(status, plan->run_type->measure(plan->run, &middle.in, middle.outputs, runs, milliseconds));
  return end_middle(plan, status, in, &middle, outputs, &timings);
}

/* ---- Which rows ---- */

/* The most rows under a filter of which bands are made: for more rows, a window of the input saves too little. */
enum { MOST_REACH = 1 << 16 };

static int32_t row_step(const gconv_plan *base) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  int64_t step = 1;
  if (!plan->run_type->execute_rows || plan->base.like.planar || plan->base.like.frames > 1 ||
      plan->options.border == GCONV_BORDER_WRAP || plan->options.range == GCONV_RANGE_MINMAX)
    return 0;
  for (size_t i = 0; i < plan->base.output_count; i++)
    if (plan->base.outputs[i].planar)
      return 0;
  for (size_t i = 0; i < plan->pass_count; i++) {
    const gconv_pass *pass = &plan->passes[i];
    if (pass->problem.out_height != plan->passes[0].problem.out_height ||
        (int64_t)pass->problem.rows * pass->problem.dilation_y > MOST_REACH)
      return 0;
    if (pass->algorithm->row_step)
      step = gconv_common_multiple(step, pass->algorithm->row_step(&pass->problem));
    if (step > INT32_MAX / 2)
      return 0;
  }
  return (int32_t)step;
}

static void include_row(int64_t row, int32_t *begin, int32_t *end) {
  if (row < *begin)
    *begin = (int32_t)row;
  if (row >= *end)
    *end = (int32_t)row + 1;
}

/* Adds the rows of the image that the border uses for rows first .. last, which are all above the image or all below. */
static void include_outside(const gconv_problem *problem, int64_t first, int64_t last, int32_t *begin, int32_t *end) {
  int64_t height = problem->height;
  for (int64_t y = first; y <= last && y < first + 2 * height; y++) { /* borders repeat after 2 * height rows */
    int64_t row = gconv_border_index(problem->border, y, height);
    if (row != GCONV_OUTSIDE)
      include_row(row, begin, end);
  }
}

/* Adds the rows that a problem reads for output rows first .. last: the rows inside the image, and the rows that the border
 * uses for rows above and below it. */
static void include_problem(const gconv_problem *problem, int64_t first, int64_t last, int32_t *begin, int32_t *end) {
  int64_t height = problem->height, top = first * problem->stride_y - problem->pad_top;
  int64_t bottom = last * problem->stride_y - problem->pad_top + (int64_t)(problem->rows - 1) * problem->dilation_y;
  int64_t inside = top > 0 ? top : 0, last_inside = bottom < height - 1 ? bottom : height - 1;
  include_outside(problem, top, bottom < -1 ? bottom : -1, begin, end);
  if (inside <= last_inside) {
    include_row(inside, begin, end);
    include_row(last_inside, begin, end);
  }
  include_outside(problem, top > height ? top : height, bottom, begin, end);
}

static void rows_needed(const gconv_plan *base, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  *begin = INT32_MAX;
  *end = 0;
  for (size_t i = 0; i < plan->pass_count; i++) {
    const gconv_pass *pass = &plan->passes[i];
    int64_t step = pass->algorithm->row_step ? pass->algorithm->row_step(&pass->problem) : 1;
    int64_t beyond = ((int64_t)first + count + step - 1) / step * step; /* the last tile computes all its rows */
    include_problem(&pass->problem, first, beyond - 1, begin, end);
  }
  if (*begin >= *end) /* only the border's constant is read: any row will do */
    *begin = 0, *end = 1;
}

/* ---- The table ---- */

/* Returns the bytes of weights. prepare_weights() copies them to new memory, before it frees the old memory. */
static double weight_bytes(const gconv_pass *pass) {
  size_t prepared = pass->algorithm->prepared_floats ? pass->algorithm->prepared_floats(&pass->problem) : 0;
  return ((double)gconv_weight_floats(&pass->problem) * (prepared > 0 ? 2 : 1) + (double)prepared) * sizeof(float);
}

/* Adds up the memory that executions need. Stages on the host have copies of their inputs and outputs, in float32. */
static void find_need(const gconv_plan *base, gconv_need *need) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  const double A_THREAD = 1 << 20; /* bytes of a thread besides its workspace */
  need->fixed = ((double)base->info.workspace_bytes + A_THREAD) * gconv_threads_count(base->device->threads);
  for (size_t i = 0; i < plan->pass_count; i++)
    need->fixed += weight_bytes(&plan->passes[i]);
  need->image = plan->before ? gconv_pixel_bytes(&plan->convolved) : 0;
  if (base->like.has_nodata) /* a copy of the input, and marks of the input and of the results */
    need->image += 2 * gconv_pixel_bytes(&base->like) + gconv_pixel_bytes(&plan->convolved);
  for (size_t i = 0; i < base->output_count && base->like.has_nodata; i++)
    need->image += gconv_pixel_bytes(&base->outputs[i]);
  for (size_t i = 0; i < base->output_count && plan->after; i++)
    need->image += gconv_pixel_bytes(&plan->raw_outputs[i]);
  need->row = need->image / base->outputs[0].height;
}

static void free_plan(gconv_plan *base) {
  gconv_filter_plan *plan = (gconv_filter_plan *)base;
  plan->run_type->release(plan->run);
  for (size_t i = 0; i < plan->pass_count; i++)
    gconv_release(plan->passes[i].weights);
  free(plan->passes);
  free(plan->raw_outputs);
  free(plan->reasons);
  free(plan);
}

static gconv_status verify(gconv_plan *base, const gconv_image *in, const gconv_image *outputs, double tolerance,
                           double budget, gconv_verification *result) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  gconv_holes holes;
  gconv_status status = gconv_holes_find(plan, in, &holes);
  const gconv_image *from = holes.filled.data ? &holes.filled : in;
  gconv_image convolved = *from;
  bool made = status == GCONV_OK && plan->before;
  if (made)
    status = gconv_run_before(base->device->threads, &plan->options, &plan->convolved, from, &convolved);
  for (size_t i = 0; i < plan->pass_count && status == GCONV_OK; i++)
    status = gconv_pass_verify(plan, &plan->passes[i], &convolved, &holes, outputs, tolerance, budget, result);
  if (made)
    gconv_image_free(&convolved);
  gconv_holes_free(plan, &holes);
  return status;
}

const gconv_plan_type gconv_filter_plan_type = {.bytes = sizeof(gconv_filter_plan),
                                                .free = free_plan,
                                                .execute = execute,
                                                .row_step = row_step,
                                                .rows_needed = rows_needed,
                                                .execute_rows = execute_rows,
                                                .check_jpeg = check_jpeg,
                                                .check_parts = check_parts,
                                                .execute_parts = execute_parts,
                                                .held_bytes = held_bytes,
                                                .execute_device = execute_device,
                                                .png_bytes = png_bytes,
                                                .measure = measure,
                                                .explain = gconv_filter_explain,
                                                .verify = verify,
                                                .find_need = find_need};

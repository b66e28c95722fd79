/* SPDX-License-Identifier: MIT */
/* Executing and measuring plans: the stages around what the device does. */
#include "base/clock.h"
#include "conv/plan.h"
#include "device/decoder.h"
#include "operation/stages.h"

#include <stdlib.h>

/* The images between the stages: what is convolved, and the raw outputs. Where there is no stage, they are the caller's. */
typedef struct middle_images {
  gconv_image in;
  gconv_image *outputs;
} middle_images;

static void free_middle(const gconv_filter_plan *plan, middle_images *middle) {
  if (plan->before)
    gconv_image_free(&middle->in);
  for (size_t i = 0; plan->after && middle->outputs && i < plan->base.output_count; i++)
    gconv_image_free(&middle->outputs[i]);
  if (plan->after)
    free(middle->outputs);
}

/* For whole images, or for some rows of the outputs and those of the input that these need. */
static gconv_status prepare_middle(const gconv_filter_plan *plan, const gconv_image *in, gconv_image *outputs,
                                   middle_images *middle) {
  middle->in = *in;
  middle->outputs = outputs;
  if (plan->before)
    GCONV_TRY(gconv_run_before(plan->base.device->threads, &plan->options, &plan->convolved, in, &middle->in));
  if (!plan->after)
    return GCONV_OK;
  middle->outputs = calloc(plan->base.output_count, sizeof *middle->outputs);
  if (!middle->outputs)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu outputs", plan->base.output_count);
  for (size_t i = 0; i < plan->base.output_count; i++) {
    middle->outputs[i] = plan->raw_outputs[i];
    middle->outputs[i].height = outputs[i].height;
    GCONV_TRY(gconv_image_allocate(&middle->outputs[i]));
  }
  return GCONV_OK;
}

static gconv_status finish_outputs(const gconv_filter_plan *plan, middle_images *middle, gconv_image *outputs) {
  for (size_t i = 0; i < plan->base.output_count && plan->after; i++)
    GCONV_TRY(gconv_run_after(plan->base.device->threads, &plan->options, &middle->outputs[i], &outputs[i]));
  return GCONV_OK;
}

/* Of whole images, whose metadata the outputs get. */
static gconv_status finish_images(const gconv_filter_plan *plan, const gconv_image *in, middle_images *middle,
                                  gconv_image *outputs) {
  GCONV_TRY(finish_outputs(plan, middle, outputs));
  for (size_t i = 0; i < plan->base.output_count; i++)
    GCONV_TRY(gconv_image_copy_metadata(&outputs[i], in));
  return GCONV_OK;
}

gconv_status gconv_filter_execute(gconv_plan *base, const gconv_plan_input *input, gconv_image *outputs,
                                  gconv_timings *timings) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  const gconv_image *in = input->image;
  middle_images middle = {.outputs = NULL};
  double start = gconv_now_ms();
  gconv_status status = prepare_middle(plan, in, outputs, &middle);
  timings->prepare_ms += gconv_now_ms() - start;
  if (status == GCONV_OK && input->jpeg)
    status = plan->run_type->execute_jpeg(plan->run, input->jpeg, input->jpeg_bytes, middle.outputs, timings);
  else if (status == GCONV_OK)
    status = plan->run_type->execute(plan->run, &middle.in, middle.outputs, timings);
  start = gconv_now_ms();
  if (status == GCONV_OK)
    status = finish_images(plan, in, &middle, outputs);
  free_middle(plan, &middle);
  timings->finish_ms += gconv_now_ms() - start;
  return status;
}

gconv_status gconv_filter_execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                       gconv_image *outputs, gconv_timings *timings) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  middle_images middle = {.outputs = NULL};
  double start = gconv_now_ms();
  gconv_status status = prepare_middle(plan, window, outputs, &middle);
  timings->prepare_ms += gconv_now_ms() - start;
  if (status == GCONV_OK)
    status = plan->run_type->execute_rows(plan->run, &middle.in, window_row, middle.outputs, first, timings);
  start = gconv_now_ms();
  if (status == GCONV_OK)
    status = finish_outputs(plan, &middle, outputs);
  free_middle(plan, &middle);
  timings->finish_ms += gconv_now_ms() - start;
  return status;
}

gconv_status gconv_filter_execute_device(gconv_plan *base, const gconv_image *in, gconv_image *outputs, void *stream) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  gconv_timings timings = {0};
  if (!plan->run_type->execute_device)
    return gconv_filter_execute(base, &(gconv_plan_input){.image = in}, outputs, &timings);
  if (plan->before || plan->after)
    return gconv_fail(GCONV_UNSUPPORTED, "grey, linear light, premultiplied alpha and minmax are made on the host: execute "
                                         "from memory of the host");
  return plan->run_type->execute_device(plan->run, in, outputs, stream);
}

gconv_status gconv_filter_check_jpeg(const gconv_plan *base, const gconv_image *header) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  if (!gconv_device_decoder(plan->base.device))
    return gconv_fail(GCONV_UNSUPPORTED, "no decoder was started on %s", plan->base.device->info.name);
  if (plan->before || header->type != GCONV_U8 || header->channels != 3 || header->planar || header->frames != 1)
    return gconv_fail(GCONV_UNSUPPORTED, plan->before ? "the pixels are wanted on the host, for grey or linear light"
                                                      : "only plain colour images are decoded on a device");
  return GCONV_OK;
}

/* Whether results come as they leave the device, in rows that its slabs hold. */
static bool can_come_in_parts(const gconv_filter_plan *plan) {
  const size_t most = (size_t)1 << 19; /* bytes of a row */
  for (size_t i = 0; i < plan->base.output_count; i++) {
    const gconv_image *output = &plan->base.outputs[i];
    if (plan->after || output->planar || output->frames > 1 ||
        (size_t)output->width * (size_t)output->channels * gconv_type_bytes(output->type) > most)
      return false;
  }
  return true;
}

gconv_status gconv_filter_check_parts(const gconv_plan *base) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  if (!plan->run_type->execute_parts)
    return gconv_fail(GCONV_UNSUPPORTED, "%s yields whole results", plan->base.device->info.name);
  return can_come_in_parts(plan) ? GCONV_OK : gconv_fail(GCONV_UNSUPPORTED, "the results are wanted as a whole");
}

gconv_status gconv_filter_execute_parts(gconv_plan *base, const gconv_plan_input *input, const gconv_taker *taker,
                                        gconv_timings *timings) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  middle_images middle = {.outputs = NULL};
  double start = gconv_now_ms();
  gconv_status status = prepare_middle(plan, input->image, NULL, &middle);
  timings->prepare_ms = gconv_now_ms() - start;
  if (status == GCONV_OK)
    status = plan->run_type->execute_parts(plan->run, &middle.in, input->jpeg, input->jpeg_bytes, taker, timings);
  free_middle(plan, &middle);
  return status;
}

size_t gconv_filter_held_bytes(const gconv_plan *base) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  return plan->run && plan->run_type->held_bytes ? plan->run_type->held_bytes(plan->run) : 0;
}

size_t gconv_filter_png_bytes(const gconv_plan *base) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  return plan->run_type->png_bytes && can_come_in_parts(plan) ? plan->run_type->png_bytes(&base->outputs[0]) : 0;
}

/* ---- Measuring ---- */

gconv_status gconv_filter_measure(gconv_plan *base, const gconv_image *in, gconv_image *outputs, int runs,
                                  double *milliseconds) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  middle_images middle = {.outputs = NULL};
  gconv_status status = prepare_middle(plan, in, outputs, &middle);
  if (status == GCONV_OK)
    status = plan->run_type->measure(plan->run, &middle.in, middle.outputs, runs, milliseconds);
  if (status == GCONV_OK)
    status = finish_images(plan, in, &middle, outputs);
  free_middle(plan, &middle);
  return status;
}

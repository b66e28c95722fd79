/* SPDX-License-Identifier: MIT */
/* Executing and measuring plans: the stages around what the device does. */
#include "base/clock.h"
#include "conv/plan.h"
#include "conv/stages.h"

#include <stdio.h>
#include <stdlib.h>

bool gconv_plan_fits(const gconv_plan *plan, const gconv_image *like) {
  return gconv_image_same_shape(&plan->like, like);
}

gconv_status gconv_plan_fit_image(const gconv_image *header, const char *what, gconv_image *image) {
  if (image->data) {
    if (!gconv_image_same_shape(header, image))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s has pixels of another shape or type than the plan yields", what);
    return GCONV_OK;
  }
  gconv_image fresh = *header;
  GCONV_TRY(gconv_image_allocate(&fresh));
  gconv_image_free(image); /* metadata that it may have */
  *image = fresh;
  return GCONV_OK;
}

/* The images between the stages: what is convolved, and the raw outputs. Where there is no stage, they are the caller's. */
typedef struct middle_images {
  gconv_image in;
  gconv_image *outputs;
} middle_images;

static void free_middle(const gconv_plan *plan, middle_images *middle) {
  if (plan->before)
    gconv_image_free(&middle->in);
  if (plan->after) {
    for (size_t i = 0; middle->outputs && i < plan->output_count; i++)
      gconv_image_free(&middle->outputs[i]);
    free(middle->outputs);
  }
}

static gconv_status prepare_middle(const gconv_plan *plan, const gconv_image *in, gconv_image *outputs,
                                   middle_images *middle) {
  middle->in = *in;
  middle->outputs = outputs;
  if (plan->before) {
    middle->in = plan->convolved;
    GCONV_TRY(gconv_image_allocate(&middle->in));
    GCONV_TRY(gconv_run_before(plan->device->threads, &plan->options, in, &middle->in));
  }
  if (plan->after) {
    middle->outputs = calloc(plan->output_count, sizeof *middle->outputs);
    if (!middle->outputs)
      return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu outputs", plan->output_count);
    for (size_t i = 0; i < plan->output_count; i++)
      GCONV_TRY(gconv_plan_fit_image(&plan->raw_outputs[i], "an output", &middle->outputs[i]));
  }
  return GCONV_OK;
}

static gconv_status finish_outputs(const gconv_plan *plan, const gconv_image *in, middle_images *middle,
                                   gconv_image *outputs) {
  for (size_t i = 0; i < plan->output_count; i++) {
    if (plan->after)
      GCONV_TRY(gconv_run_after(plan->device->threads, &plan->options, &middle->outputs[i], &outputs[i]));
    GCONV_TRY(gconv_image_copy_metadata(&outputs[i], in));
  }
  return GCONV_OK;
}

/* What is filtered: an image, or a file that the device decodes and the header of what that will be. */
typedef struct plan_input {
  const gconv_image *image;
  const void *jpeg; /* NULL: the image has its pixels */
  size_t jpeg_bytes;
} plan_input;

/* Everything between allocated outputs and finished ones. */
static gconv_status execute_stages(gconv_plan *plan, const plan_input *input, gconv_image *outputs, gconv_timings *timings) {
  const gconv_image *in = input->image;
  middle_images middle = {.outputs = NULL};
  double start = gconv_now_ms();
  gconv_status status = prepare_middle(plan, in, outputs, &middle);
  timings->prepare_ms = gconv_now_ms() - start;
  if (status == GCONV_OK && input->jpeg)
    status = plan->device->type->execute_jpeg(plan->run, input->jpeg, input->jpeg_bytes, middle.outputs, timings);
  else if (status == GCONV_OK)
    status = plan->device->type->execute(plan->run, &middle.in, middle.outputs, timings);
  start = gconv_now_ms();
  if (status == GCONV_OK)
    status = finish_outputs(plan, in, &middle, outputs);
  free_middle(plan, &middle);
  timings->finish_ms = gconv_now_ms() - start;
  return status;
}

/* Into outputs that are allocated where they are empty; those are freed again if it fails. */
static gconv_status execute(gconv_plan *plan, const plan_input *input, gconv_image *outputs, gconv_timings *timings) {
  gconv_timings local = {0};
  bool *allocated = calloc(plan->output_count, sizeof *allocated);
  if (!allocated)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu outputs", plan->output_count);
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < plan->output_count && status == GCONV_OK; i++) {
    char what[32];
    snprintf(what, sizeof what, "output %zu", i + 1);
    bool empty = !outputs[i].data;
    status = gconv_plan_fit_image(&plan->outputs[i], what, &outputs[i]);
    allocated[i] = empty && status == GCONV_OK;
  }
  if (status == GCONV_OK)
    status = execute_stages(plan, input, outputs, &local);
  for (size_t i = 0; i < plan->output_count && status != GCONV_OK; i++)
    if (allocated[i])
      gconv_image_free(&outputs[i]);
  free(allocated);
  if (timings)
    *timings = local;
  return status;
}

static gconv_status check_pixels(const gconv_plan *plan, const gconv_image *in) {
  return gconv_plan_fits(plan, in) && in->data
             ? GCONV_OK
             : gconv_fail(GCONV_BAD_ARGUMENT,
                          "the image has another shape or type than the plan was made for, or no pixels");
}

gconv_status gconv_plan_execute(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, gconv_timings *timings) {
  GCONV_TRY(check_pixels(plan, in));
  for (size_t i = 0; i < plan->output_count; i++)
    if (outputs[i].data == in->data)
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "an output cannot be the input: pixels are read after their neighbours are written");
  return execute(plan, &(plan_input){.image = in}, outputs, timings);
}

static bool has_decoder(gconv_device *device) {
  pthread_mutex_lock(&device->decoder_lock);
  bool has = device->decoder != NULL;
  pthread_mutex_unlock(&device->decoder_lock);
  return has;
}

/* Whether the device can decode what the plan was made for. */
static gconv_status check_jpeg(const gconv_plan *plan, const gconv_image *header) {
  if (!gconv_plan_fits(plan, header))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the image has another shape or type than the plan was made for");
  if (!has_decoder(plan->device))
    return gconv_fail(GCONV_UNSUPPORTED, "no decoder was started on %s", plan->device->info.name);
  if (plan->before || header->type != GCONV_U8 || header->channels != 3 || header->planar || header->frames != 1)
    return gconv_fail(GCONV_UNSUPPORTED, plan->before ? "the pixels are wanted on the host, for grey or linear light"
                                                      : "only plain colour images are decoded on a device");
  return GCONV_OK;
}

gconv_status gconv_plan_execute_jpeg(gconv_plan *plan, const void *jpeg, size_t size, const gconv_image *header,
                                     gconv_image *outputs, gconv_timings *timings) {
  GCONV_TRY(check_jpeg(plan, header));
  return execute(plan, &(plan_input){.image = header, .jpeg = jpeg, .jpeg_bytes = size}, outputs, timings);
}

/* Whether results come as they leave the device, in rows that its slabs hold. */
static bool can_come_in_parts(const gconv_plan *plan) {
  const size_t most = (size_t)1 << 19; /* bytes of a row */
  for (size_t i = 0; i < plan->output_count; i++) {
    const gconv_image *output = &plan->outputs[i];
    if (plan->after || output->planar || output->frames > 1 ||
        (size_t)output->width * (size_t)output->channels * gconv_type_bytes(output->type) > most)
      return false;
  }
  return true;
}

static gconv_status check_parts(const gconv_plan *plan) {
  if (!plan->device->type->execute_parts)
    return gconv_fail(GCONV_UNSUPPORTED, "%s yields whole results", plan->device->info.name);
  return can_come_in_parts(plan) ? GCONV_OK : gconv_fail(GCONV_UNSUPPORTED, "the results are wanted as a whole");
}

gconv_status gconv_plan_execute_parts(gconv_plan *plan, const gconv_image *in, const void *jpeg, size_t size,
                                      const gconv_taker *taker, gconv_timings *timings) {
  gconv_timings local = {0};
  middle_images middle = {.outputs = NULL};
  GCONV_TRY(jpeg ? check_jpeg(plan, in) : check_pixels(plan, in));
  GCONV_TRY(check_parts(plan));
  double start = gconv_now_ms();
  gconv_status status = prepare_middle(plan, in, NULL, &middle);
  local.prepare_ms = gconv_now_ms() - start;
  if (status == GCONV_OK)
    status = plan->device->type->execute_parts(plan->run, &middle.in, jpeg, size, taker, &local);
  free_middle(plan, &middle);
  if (timings)
    *timings = local;
  return status;
}

size_t gconv_plan_held_bytes(const gconv_plan *plan) {
  return plan->run && plan->device->type->held_bytes ? plan->device->type->held_bytes(plan->run) : 0;
}

size_t gconv_plan_png_bytes(const gconv_plan *plan) {
  return plan->device->type->png_bytes && can_come_in_parts(plan) ? plan->device->type->png_bytes(&plan->outputs[0]) : 0;
}

/* ---- Measuring ---- */

static gconv_status measure_into(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, int runs,
                                 double *milliseconds) {
  middle_images middle = {.outputs = NULL};
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < plan->output_count && status == GCONV_OK; i++)
    status = gconv_plan_fit_image(&plan->outputs[i], "an output", &outputs[i]);
  if (status == GCONV_OK)
    status = prepare_middle(plan, in, outputs, &middle);
  if (status == GCONV_OK)
    status = plan->device->type->measure(plan->run, &middle.in, middle.outputs, runs, milliseconds);
  if (status == GCONV_OK)
    status = finish_outputs(plan, in, &middle, outputs);
  free_middle(plan, &middle);
  return status;
}

gconv_status gconv_plan_measure(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, int runs,
                                double *milliseconds) {
  GCONV_TRY(check_pixels(plan, in));
  GCONV_TRY(gconv_check_runs(runs));
  gconv_image *own = outputs ? NULL : calloc(plan->output_count, sizeof *own);
  if (!outputs && !own)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu outputs", plan->output_count);
  gconv_status status = measure_into(plan, in, outputs ? outputs : own, runs, milliseconds);
  for (size_t i = 0; own && i < plan->output_count; i++)
    gconv_image_free(&own[i]);
  free(own);
  return status;
}

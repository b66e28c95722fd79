/* SPDX-License-Identifier: MIT */
/*
 * A GPU with little memory, on machines that have none: linked into the program with --wrap, it lets the device "cuda:0" be
 * a CPU which refuses networks whose tensors take more than $SMALL_GPU bytes. What becomes of a bank job then, half as many
 * images at a time, bands, or the CPU, is decided by src/batch, which cannot tell the difference.
 */
#include "batch/worth.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gconv_worth __real_gconv_worth_find(const gconv_batch *batch, bool looks);
const gconv_algorithm_info *__real_gconv_layer_algorithm_at(size_t index);
gconv_status __real_gconv_device_open(const char *name, int threads, gconv_device **device);
gconv_status __real_gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                      int32_t rows, gconv_plan **plan);

static const gconv_device *small;

bool __wrap_gconv_gpu_may_be_there(void);
bool __wrap_gconv_gpu_may_be_there(void) {
  return true;
}

gconv_worth __wrap_gconv_worth_find(const gconv_batch *batch, bool looks);
gconv_worth __wrap_gconv_worth_find(const gconv_batch *batch, bool looks) {
  gconv_worth worth = __real_gconv_worth_find(batch, looks);
  worth.gpu = true;
  return worth;
}

/* The CPU's, and the same as those of the GPU. */
const gconv_algorithm_info *__wrap_gconv_layer_algorithm_at(size_t index);
const gconv_algorithm_info *__wrap_gconv_layer_algorithm_at(size_t index) {
  static gconv_algorithm_info its[64]; /* written with the same values by whoever asks */
  const gconv_algorithm_info *own = __real_gconv_layer_algorithm_at(index);
  size_t count = 0;
  while (__real_gconv_layer_algorithm_at(count))
    count++;
  if (own || index >= 2 * count || index - count >= sizeof its / sizeof its[0])
    return own;
  gconv_algorithm_info *copy = &its[index - count];
  *copy = *__real_gconv_layer_algorithm_at(index - count);
  copy->device = "cuda";
  return copy;
}

gconv_status __wrap_gconv_device_open(const char *name, int threads, gconv_device **device);
gconv_status __wrap_gconv_device_open(const char *name, int threads, gconv_device **device) {
  gconv_status status = __real_gconv_device_open("cpu", threads, device);
  if (status != GCONV_OK || strcmp(name, "cpu") == 0)
    return status;
  snprintf((*device)->info.name, sizeof(*device)->info.name, "cuda:0");
  small = *device;
  return GCONV_OK;
}

/* Of the input and of what each layer yields; by rows, what those take. */
static double tensor_bytes(const gconv_plan *plan, const gconv_image *like) {
  const gconv_layer_info *layer;
  double height = gconv_plan_output_header(plan, 0)->height, rows = gconv_plan_row_step(plan);
  double bytes = 4.0 * like->frames * like->channels * like->height * like->width;
  for (size_t i = 0; (layer = gconv_plan_layer_info(plan, i)); i++)
    bytes += 4.0 * layer->images * layer->filters * layer->out_height * layer->out_width;
  return rows > 0 ? bytes * rows / height : bytes;
}

gconv_status __wrap_gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                      int32_t rows, gconv_plan **plan);
gconv_status __wrap_gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                      int32_t rows, gconv_plan **plan) {
  gconv_status status = __real_gconv_plan_create(device, like, operation, rows, plan);
  const char *most = getenv("SMALL_GPU");
  if (status != GCONV_OK || device != small || !most || tensor_bytes(*plan, like) <= atof(most))
    return status;
  gconv_plan_free(*plan);
  *plan = NULL;
  return gconv_set_error(GCONV_NO_MEMORY, "no memory on the small device");
}

/* SPDX-License-Identifier: MIT */
/* Executes plans on arrays of the caller in device memory, by treating them as images. */
#include "base/arguments.h"
#include "base/status.h"
#include "operation/operation.h"

#include <string.h>

static gconv_status check_shape(const gconv_array *array, const gconv_image *header, const char *what) {
  const int64_t shape[4] = {header->frames, header->channels, header->height, header->width};
  GCONV_TRY(gconv_check_value("the type of an array", array->type, GCONV_U8, GCONV_I16));
  if (array->type != header->type)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has samples of type %s, and the plan is one for %s", what,
                      gconv_type_name(array->type), gconv_type_name(header->type));
  for (int i = 0; i < 4; i++)
    if (array->shape[i] != shape[i])
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "%s is %lld x %lld x %lld x %lld, and the plan is one for %lld x %lld x %lld x %lld (N, C, H, W)",
                        what, (long long)array->shape[0], (long long)array->shape[1], (long long)array->shape[2],
                        (long long)array->shape[3], (long long)shape[0], (long long)shape[1], (long long)shape[2],
                        (long long)shape[3]);
  return array->data ? GCONV_OK : gconv_fail(GCONV_BAD_ARGUMENT, "%s has no data", what);
}

/* Returns whether the stride of an axis is `expected`, or does not matter because the axis has length 1. */
static bool steps_by(const gconv_array *array, int axis, int64_t expected) {
  return array->shape[axis] == 1 || array->stride[axis] == expected;
}

/* Sets row_bytes and plane_bytes of the image to the strides of the array. */
static gconv_status find_strides(const gconv_array *array, const char *what, gconv_image *image) {
  const int64_t size = (int64_t)gconv_type_bytes(image->type), planes = image->planar ? image->channels : 1;
  const int64_t most = PTRDIFF_MAX / ((int64_t)1 << 32); /* the product of a stride and a size cannot overflow */
  for (int i = 0; i < 4; i++)
    if (array->shape[i] > 1 && (array->stride[i] < 0 || array->stride[i] > most * (i < 2 ? 1 << 16 : 1)))
      return gconv_fail(GCONV_UNSUPPORTED, "%s has rows or planes that run backwards, or lie further apart than any memory",
                        what);
  const int64_t pixel = image->planar ? size : size * image->channels, row = pixel * image->width;
  if (!steps_by(array, 3, pixel) || (!image->planar && !steps_by(array, 1, size)))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s has strides of %lld bytes between columns and %lld between channels, and the plan is one for %s: "
                      "make it for images of the other layout, or copy",
                      what, (long long)array->stride[3], (long long)array->stride[1],
                      image->planar ? "planes, whose samples are neighbours" : "pixels, whose channels are neighbours");
  int64_t rows = array->shape[2] == 1 ? row : array->stride[2], plane = rows * image->height;
  if (image->planar && image->channels > 1)
    plane = array->stride[1];
  else if (image->frames > 1)
    plane = array->stride[0];
  if (rows < row || rows % size != 0 || plane < rows * (image->height - 1) + row || plane % size != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s has rows or planes that overlap, run backwards or split a sample", what);
  if (!steps_by(array, 0, planes * plane))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s has %lld bytes from an image to the next, and %lld planes of %lld in each: "
                      "leave no gap between images",
                      what, (long long)array->stride[0], (long long)planes, (long long)plane);
  image->row_bytes = (size_t)rows;
  image->plane_bytes = (size_t)plane;
  return GCONV_OK;
}

static gconv_status view_array(const gconv_array *array, const gconv_image *header, const char *what, gconv_image *image) {
  GCONV_TRY(check_shape(array, header, what));
  *image = *header;
  image->data = array->data;
  if ((uintptr_t)array->data % gconv_type_bytes(header->type) != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s begins at an address that splits a sample", what);
  return find_strides(array, what, image);
}

bool gconv_array_is_image(const gconv_array *array, const gconv_image *header, gconv_image *image) {
  return view_array(array, header, "it", image) == GCONV_OK;
}

/* Makes headers of images for the output arrays, in memory of the plan. */
static gconv_status view_outputs(gconv_plan *plan, const gconv_image *in, const gconv_array *outputs, size_t count) {
  for (size_t i = 0; i < count && i < plan->output_count; i++) {
    char what[32];
    snprintf(what, sizeof what, "output %zu", i + 1);
    GCONV_TRY(view_array(&outputs[i], &plan->outputs[i], what, &plan->arrays[i]));
  }
  return gconv_plan_check_outputs(plan, in, plan->arrays, count);
}

gconv_status gconv_plan_execute_device(const gconv_plan *shared, const gconv_array *in, const gconv_array *outputs,
                                       size_t output_count, void *stream) {
  gconv_plan *plan = (gconv_plan *)shared; /* executions only change members that its lock guards */
  gconv_image image;
  gconv_plan *own;
  GCONV_NEED(plan, in, outputs);
  if (!plan->type->execute_device)
    return gconv_fail(GCONV_UNSUPPORTED, "this operation cannot execute on arrays in device memory");
  GCONV_TRY(view_array(in, &plan->like, "the input", &image));
  bool on_gpu = strcmp(plan->info.device, "cpu") != 0; /* work in a stream or a graph may still use this plan's memory */
  GCONV_TRY(gconv_plan_enter(plan, on_gpu, &own));
  gconv_status status = view_outputs(own, &image, outputs, output_count);
  GCONV_THEN(status, own->type->execute_device(own, &image, own->arrays, stream));
  gconv_plan_leave(plan, own);
  if (status == GCONV_OK && !on_gpu) /* the host cannot read device memory */
    gconv_plan_tell_of_numbers(plan, &image);
  return status;
}

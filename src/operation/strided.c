/* SPDX-License-Identifier: MIT */
/* Executes plans on tensors of any strides, also of float16 and bfloat16. A tensor that the plan can take is not copied. Any
 * other tensor goes through an image of the host, or through memory of the GPU that the plan keeps. */
#include "operation/strided.h"
#include "base/arguments.h"
#include "base/element.h"
#include "base/memory.h"
#include "device/device.h"
#include "operation/operation.h"

#include <string.h>

static size_t bytes_of(gconv_element_type type) {
  return type == GCONV_ELEMENT_U8 ? 1 : type == GCONV_ELEMENT_F32 ? 4 : 2;
}

static bool is_half(gconv_element_type type) {
  return type == GCONV_ELEMENT_F16 || type == GCONV_ELEMENT_BF16;
}

/* ---- Checking ------------------------------------------------------------------------------------------------------ */

/* Finds how many bytes a tensor spans, gaps included. False if no memory has so many. */
static bool find_reach(const gconv_strided *t, size_t *reach) {
  *reach = bytes_of(t->type);
  for (int axis = 0; axis < 4; axis++) {
    const uint64_t step = t->stride[axis] < 0 ? 0 - (uint64_t)t->stride[axis] : (uint64_t)t->stride[axis];
    size_t part;
    if (t->shape[axis] > 1 && (!gconv_multiply((size_t)step, (size_t)t->shape[axis] - 1, &part) || part > PTRDIFF_MAX / 8))
      return false;
    *reach += t->shape[axis] > 1 ? part : 0;
  }
  return true;
}

/* An axis of several elements: its stride in bytes, without sign, and how many. */
typedef struct axis {
  int64_t step, count, reach; /* reach: bytes that this and the smaller strides span */
} axis;

/* Returns whether two different elements lie less than `bytes` apart, whose distance along larger strides is `offset`. Goes
 * through the distances along the axis that smaller strides can make up for; gives up, as if there were two, after many. */
static bool do_meet(const axis *axes, int count, int64_t offset, bool differ, int64_t bytes, int *tries) {
  if (count == 0)
    return differ && offset > -bytes && offset < bytes;
  const int64_t step = axes->step, room = bytes - 1 + (count > 1 ? axes[1].reach : 0);
  int64_t from = (-room - offset) / step - 1, to = (room - offset) / step + 1;
  from = from > 1 - axes->count ? from : 1 - axes->count;
  to = to < axes->count - 1 ? to : axes->count - 1;
  for (int64_t i = from; i <= to; i++)
    if (--*tries < 0 || do_meet(axes + 1, count - 1, offset + i * step, differ || i != 0, bytes, tries))
      return true;
  return false;
}

/* Returns whether no two elements share memory. */
static bool are_apart(const gconv_strided *t) {
  axis axes[4] = {{0}};
  int count = 0, tries = 1 << 20;
  for (int i = 0; i < 4; i++) {
    const axis one = {t->stride[i] < 0 ? -t->stride[i] : t->stride[i], t->shape[i], 0};
    if (one.count > 1 && one.step == 0)
      return false;
    int at = count;
    for (; one.count > 1 && at > 0 && axes[at - 1].step < one.step; at--)
      axes[at] = axes[at - 1];
    if (one.count > 1)
      axes[at] = one;
    count += one.count > 1;
  }
  for (int i = count - 1; i >= 0; i--)
    axes[i].reach = axes[i].step * (axes[i].count - 1) + (i + 1 < count ? axes[i + 1].reach : 0);
  return !do_meet(axes, count, 0, false, (int64_t)bytes_of(t->type), &tries);
}

/* Fails unless type and shape of the tensor are those of the header. */
static gconv_status check(const gconv_strided *t, const gconv_image *header, const char *what) {
  const int64_t shape[4] = {header->frames, header->channels, header->height, header->width};
  size_t reach;
  GCONV_TRY(gconv_check_value(what, t->type, GCONV_ELEMENT_U8, GCONV_ELEMENT_BF16));
  if (!t->data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no data", what);
  if ((is_half(t->type) ? (int)GCONV_F32 : (int)t->type) != (int)header->type)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has elements of another type than the plan is for, which is %s", what,
                      gconv_type_name(header->type));
  for (int i = 0; i < 4; i++)
    if (t->shape[i] != shape[i])
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "%s is %lld x %lld x %lld x %lld, and the plan is one for %lld x %lld x %lld x %lld (N, C, H, W)",
                        what, (long long)t->shape[0], (long long)t->shape[1], (long long)t->shape[2], (long long)t->shape[3],
                        (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)shape[3]);
  return find_reach(t, &reach) ? GCONV_OK
                               : gconv_fail(GCONV_BAD_ARGUMENT, "%s has strides that reach further than any memory", what);
}

/* ---- Copying ------------------------------------------------------------------------------------------------------- */

static gconv_strided view_of(const gconv_image *image) {
  const int64_t size = (int64_t)gconv_type_bytes(image->type), plane = (int64_t)image->plane_bytes, c = image->channels;
  const int64_t row = (int64_t)image->row_bytes;
  gconv_strided view = {image->data,
                        (gconv_element_type)image->type,
                        {image->frames, c, image->height, image->width},
                        {plane, size, row, c * size}};
  if (image->planar) {
    view.stride[0] = c * plane;
    view.stride[1] = plane;
    view.stride[3] = size;
  }
  return view;
}

/* Copies `count` elements of `size` bytes, which are `step` and `to_step` bytes apart. */
static void copy_line(const uint8_t *from, int64_t step, uint8_t *to, int64_t to_step, int64_t count, size_t size) {
  if (step == (int64_t)size && to_step == (int64_t)size) {
    memcpy(to, from, (size_t)count * size);
    return;
  }
  for (int64_t i = 0; i < count; i++, from += step, to += to_step)
    switch (size) {
    case 1:
      *to = *from;
      break;
    case 2:
      memcpy(to, from, 2);
      break;
    default:
      memcpy(to, from, 4);
    }
}

/* Rounds to nearest even. NaN stays NaN. */
static uint16_t to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Converts a line of halves to floats, or of floats to halves. `halves` and `floats` have room for the line. */
static void convert_line(const gconv_strided *from, const uint8_t *line, const gconv_strided *to, uint8_t *to_line,
                         uint16_t *halves, float *floats) {
  const int64_t count = from->shape[3];
  if (is_half(from->type)) {
    const gconv_element element = {from->type == GCONV_ELEMENT_F16 ? 'f' : 'B', 2, gconv_host_is_big_endian()};
    copy_line(line, from->stride[3], (uint8_t *)halves, 2, count, 2);
    gconv_elements_convert(element, (const uint8_t *)halves, (size_t)count, floats);
    copy_line((const uint8_t *)floats, 4, to_line, to->stride[3], count, 4);
    return;
  }
  copy_line(line, from->stride[3], (uint8_t *)floats, 4, count, 4);
  if (to->type == GCONV_ELEMENT_F16)
    gconv_elements_make('f', floats, (size_t)count, 1, halves, &(gconv_elements_made){0});
  else
    for (int64_t i = 0; i < count; i++)
      halves[i] = to_bfloat16(floats[i]);
  copy_line((const uint8_t *)halves, 2, to_line, to->stride[3], count, 2);
}

/* Copies a tensor to one of the same shape, and converts its elements if they have another type. */
static gconv_status copy(const gconv_strided *from, const gconv_strided *to) {
  const size_t width = (size_t)from->shape[3];
  GCONV_FREED float *floats = malloc(width * sizeof *floats);
  GCONV_FREED uint16_t *halves = malloc(width * sizeof *halves);
  GCONV_NEED_MEMORY(floats && halves, "no memory for a row of %zu elements", width);
  for (int64_t n = 0; n < from->shape[0]; n++)
    for (int64_t c = 0; c < from->shape[1]; c++)
      for (int64_t y = 0; y < from->shape[2]; y++) {
        const uint8_t *line = (const uint8_t *)from->data + n * from->stride[0] + c * from->stride[1] + y * from->stride[2];
        uint8_t *to_line = (uint8_t *)to->data + n * to->stride[0] + c * to->stride[1] + y * to->stride[2];
        if (from->type == to->type)
          copy_line(line, from->stride[3], to_line, to->stride[3], from->shape[3], bytes_of(from->type));
        else
          convert_line(from, line, to, to_line, halves, floats);
      }
  return GCONV_OK;
}

/* ---- Executing ----------------------------------------------------------------------------------------------------- */

/* Returns whether a planar image has no gaps between its rows. Networks demand that of outputs. */
static bool is_tight(const gconv_image *image) {
  const size_t row = (size_t)image->width * gconv_type_bytes(image->type);
  return !image->planar || (image->row_bytes == row && image->plane_bytes == row * (size_t)image->height);
}

/* Makes *image a view of the tensor if a plan can execute on it. Otherwise allocates *image, and sets *own. */
static gconv_status view_tensor(const gconv_strided *t, const gconv_image *header, const char *what, bool is_output,
                                gconv_image *image, bool *own) {
  GCONV_TRY(check(t, header, what));
  gconv_array array = {.data = t->data, .type = header->type};
  memcpy(array.shape, t->shape, sizeof array.shape);
  memcpy(array.stride, t->stride, sizeof array.stride);
  *own = is_half(t->type) || !gconv_array_is_image(&array, header, image) || (is_output && !is_tight(image));
  if (!*own)
    return GCONV_OK;
  *image = *header;
  image->data = NULL;
  return gconv_image_allocate(image);
}

/* An execution: images for the input and each output. */
typedef struct executing {
  gconv_image in, *outputs;
  bool own_in, *own;
  size_t count;
} executing;

static void end(executing *e) {
  if (e->own_in)
    gconv_image_free(&e->in);
  for (size_t i = 0; i < e->count && e->outputs && e->own; i++)
    if (e->own[i])
      gconv_image_free(&e->outputs[i]);
  free(e->outputs);
  free(e->own);
}

gconv_status gconv_plan_execute_strided(const gconv_plan *plan, const gconv_strided *in, const gconv_strided *outputs,
                                        size_t output_count) {
  GCONV_NEED(plan, in, outputs);
  if (output_count != gconv_plan_outputs(plan))
    return gconv_fail(GCONV_BAD_ARGUMENT, "output_count is %zu, and the plan has %zu outputs", output_count,
                      gconv_plan_outputs(plan));
  GCONV_ENDED_BY(end) executing e = {.count = output_count};
  GCONV_NEW(e.outputs, output_count, "no memory for %zu outputs", output_count);
  GCONV_NEW(e.own, output_count, "no memory for %zu outputs", output_count);
  GCONV_TRY(view_tensor(in, &plan->like, "in", false, &e.in, &e.own_in));
  for (size_t i = 0; i < output_count; i++) {
    char what[40];
    snprintf(what, sizeof what, "outputs[%zu]", i);
    GCONV_TRY(view_tensor(&outputs[i], gconv_plan_output_header(plan, i), what, true, &e.outputs[i], &e.own[i]));
    if (!are_apart(&outputs[i]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s has elements that share memory", what);
  }
  if (e.own_in) {
    const gconv_strided view = view_of(&e.in);
    GCONV_TRY(copy(in, &view));
  }
  GCONV_TRY(gconv_plan_execute(plan, &e.in, e.outputs, output_count, NULL));
  for (size_t i = 0; i < output_count; i++)
    if (e.own[i]) {
      const gconv_strided view = view_of(&e.outputs[i]);
      GCONV_TRY(copy(&view, &outputs[i]));
    }
  return GCONV_OK;
}

/* ---- On a GPU ------------------------------------------------------------------------------------------------------ */

#ifdef GCONV_WITH_CUDA
/* If gconv_plan_execute_device() can take the tensor, makes *array a view of it, and staged->data NULL. Otherwise makes
 * *array and *staged views of plan->staged[number], which is memory of the GPU. */
static gconv_status view_there(gconv_plan *plan, size_t number, const gconv_strided *t, const gconv_image *header,
                               const char *what, gconv_array *array, gconv_strided *staged) {
  gconv_image image;
  *staged = (gconv_strided){0};
  GCONV_TRY(check(t, header, what));
  for (int i = 0; i < 4; i++)
    if ((uintptr_t)t->data % bytes_of(t->type) || (t->shape[i] > 1 && t->stride[i] % (int64_t)bytes_of(t->type)))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s has data or strides that split an element, which GPUs cannot read", what);
  *array = (gconv_array){.data = t->data, .type = header->type};
  memcpy(array->shape, t->shape, sizeof array->shape);
  memcpy(array->stride, t->stride, sizeof array->stride);
  if (!is_half(t->type) && gconv_array_is_image(array, header, &image))
    return GCONV_OK;
  const size_t size = gconv_type_bytes(header->type), row = (size_t)header->width * size;
  image = *header;
  image.row_bytes = header->planar ? row : row * (size_t)header->channels;
  image.plane_bytes = image.row_bytes * (size_t)header->height;
  if (!plan->staged[number])
    GCONV_TRY(gconv_cuda_allocate(
        plan->device, image.plane_bytes * (size_t)header->frames * (header->planar ? (size_t)header->channels : 1), what,
        &plan->staged[number]));
  image.data = plan->staged[number];
  *staged = view_of(&image);
  array->data = staged->data;
  memcpy(array->stride, staged->stride, sizeof array->stride);
  return GCONV_OK;
}

static gconv_status execute_there(gconv_plan *plan, const gconv_strided *in, const gconv_strided *outputs, size_t count,
                                  void *stream) {
  const int device = plan->device->index;
  gconv_array array;
  GCONV_FREED gconv_array *arrays = NULL;
  GCONV_FREED gconv_strided *staged = NULL;
  GCONV_NEW(arrays, count, "no memory for %zu outputs", count);
  GCONV_NEW(staged, count + 1, "no memory for %zu outputs", count);
  if (!plan->staged)
    GCONV_NEW(plan->staged, count + 1, "no memory for %zu outputs", count);
  GCONV_TRY(view_there(plan, count, in, &plan->like, "in", &array, &staged[count]));
  for (size_t i = 0; i < count; i++) {
    char what[40];
    snprintf(what, sizeof what, "outputs[%zu]", i);
    GCONV_TRY(view_there(plan, i, &outputs[i], &plan->outputs[i], what, &arrays[i], &staged[i]));
    if (!are_apart(&outputs[i]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s has elements that share memory", what);
  }
  if (staged[count].data)
    GCONV_TRY(gconv_strided_copy_cuda(device, in, &staged[count], stream));
  GCONV_TRY(gconv_plan_execute_device(plan, &array, arrays, count, stream));
  for (size_t i = 0; i < count; i++)
    if (staged[i].data)
      GCONV_TRY(gconv_strided_copy_cuda(device, &staged[i], &outputs[i], stream));
  return GCONV_OK;
}
#endif

gconv_status gconv_plan_execute_strided_device(const gconv_plan *plan, const gconv_strided *in, const gconv_strided *outputs,
                                               size_t output_count, void *stream) {
  GCONV_NEED(plan, in, outputs);
#ifdef GCONV_WITH_CUDA
  if (strcmp(plan->info.device, "cpu") != 0)
    return output_count == plan->output_count
               ? execute_there((gconv_plan *)plan, in, outputs, output_count, stream)
               : gconv_fail(GCONV_BAD_ARGUMENT, "output_count is %zu, and the plan has %zu outputs", output_count,
                            plan->output_count);
#endif
  return gconv_plan_execute_strided(plan, in, outputs, output_count);
}

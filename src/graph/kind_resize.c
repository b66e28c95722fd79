/* SPDX-License-Identifier: MIT */
/*
 * Resize and Upsample: nearest, linear and cubic interpolation of any axes. An output is a weighted sum of few inputs along
 * each axis (taps), so axes are resized one after the other, shrinking axes first. kernels/resize.h has the formulas.
 */
#include "bank/onnx_rules.h"
#include "base/memory.h"
#include "graph/node.h"
#include "kernels/cuda/graph/graph.h"
#include "kernels/resize.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_TAPS = 1 << 20 /* the most taps of an output */ };
static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
static const char *const coordinate_names[] = {
    "half_pixel",         "pytorch_half_pixel",   "align_corners",        "asymmetric",
    "tf_crop_and_resize", "half_pixel_symmetric", "tf_half_pixel_for_nn", NULL};
static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};

typedef struct settings {
  int32_t mode, coordinates, rounding, policy;
  bool antialias, excludes;
  float cubic, outside;
  gconv_node_integers axes;        /* none: all */
  float scales[GCONV_TENSOR_AXES]; /* scales of Upsample's attribute */
  int32_t scale_count;
} settings;

/* ---- Attributes ---- */

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  const gconv_onnx_attribute *scales = gconv_onnx_find_attribute(node, "scales");
  const gconv_onnx_attribute *named = gconv_onnx_find_attribute(node, "mode");
  s->coordinates = opset < 11 ? GCONV_RESIZE_ASYMMETRIC : GCONV_RESIZE_HALF_PIXEL;
  s->rounding = GCONV_RESIZE_PREFER_FLOOR;
  if (named && named->text && strcmp(named->text, "bilinear") == 0) /* Upsample says so, in opset 1 to 7 */
    s->mode = GCONV_RESIZE_LINEAR;
  else
    GCONV_TRY(gconv_node_attribute_choice(node, "mode", modes, &s->mode));
  GCONV_TRY(gconv_node_attribute_choice(node, "coordinate_transformation_mode", coordinate_names, &s->coordinates));
  GCONV_TRY(gconv_node_attribute_choice(node, "nearest_mode", roundings, &s->rounding));
  GCONV_TRY(gconv_node_attribute_choice(node, "keep_aspect_ratio_policy", policies, &s->policy));
  s->antialias = gconv_onnx_integer_of(node, "antialias", 0) != 0;
  s->excludes = gconv_onnx_integer_of(node, "exclude_outside", 0) != 0;
  s->cubic = gconv_onnx_number_of(node, "cubic_coeff_a", -0.75F);
  s->outside = gconv_onnx_number_of(node, "extrapolation_value", 0);
  GCONV_TRY(gconv_node_attribute_list(node, "axes", INT64_MIN, INT64_MAX, &s->axes, NULL));
  if (s->axes.count > GCONV_TENSOR_AXES || (scales && scales->float_count > GCONV_TENSOR_AXES))
    return gconv_fail(GCONV_UNSUPPORTED, "resizes more than %d axes", GCONV_TENSOR_AXES);
  for (size_t i = 0; scales && i < scales->float_count; i++)
    s->scales[s->scale_count++] = scales->floats[i];
  return GCONV_OK;
}

/* ---- Sizes ---- */

typedef gconv_resize_axis change;

static const gconv_tensor *given(const gconv_node_work *work, int32_t input) {
  const gconv_tensor *t = input < work->in_count ? work->in[input] : NULL;
  return t && gconv_tensor_elements(t) > 0 ? t : NULL;
}

/* Returns a size rounded down. It is first rounded to float32, as scales are float32: 10 * 1.3 is 13, not below. */
static int64_t size_of(double size) {
  return (int64_t)floor(size < 0x1p24 ? (double)(float)size : size);
}

/* Sets the scales of the changes that are listed in axes[]. */
static gconv_status take_scales(const gconv_node_work *work, const gconv_tensor *scales, const int32_t *axes, int32_t count,
                                change *changes) {
  for (int32_t i = 0; i < count; i++) {
    change *c = &changes[axes[i]];
    c->scale = gconv_tensor_number(scales, i);
    if (!(c->scale >= 0x1p-40) || !(c->scale * (double)c->in < 0x1p40)) /* a smaller scale may have too many taps to count */
      return gconv_fail(GCONV_BAD_FILE, "has a scale of %g", c->scale);
    c->out = size_of((double)c->in * c->scale);
  }
  const settings *s = work->settings;
  for (int32_t i = 0; s->coordinates == GCONV_RESIZE_CROP && i < count; i++) {
    change *c = &changes[axes[i]];
    const double size = (double)c->in * (c->end - c->begin) * c->scale;
    if (!(size >= 0 && size < 0x1p40))
      return gconv_fail(GCONV_BAD_FILE, "has a region from %g to %g", c->begin, c->end);
    c->out = size_of(size);
  }
  return GCONV_OK;
}

/* Sets the given sizes or, if the policy keeps the aspect ratio, sizes with the same scale for all axes. */
static gconv_status take_sizes(const settings *s, const gconv_node_integers *sizes, const int32_t *axes, change *changes) {
  double common = 0;
  for (int32_t i = 0; i < sizes->count; i++) {
    change *c = &changes[axes[i]];
    c->out = sizes->number[i];
    if (c->out < 0 || c->in == 0)
      return gconv_fail(GCONV_BAD_FILE, "makes %" PRId64 " elements of %" PRId64, c->out, c->in);
    c->scale = (double)c->out / (double)c->in;
    if (i == 0 || (s->policy == 1 ? c->scale < common : c->scale > common))
      common = c->scale;
  }
  for (int32_t i = 0; s->policy != 0 && i < sizes->count; i++) {
    change *c = &changes[axes[i]];
    c->scale = common;
    c->out = common * (double)c->in < 0x1p40 ? (int64_t)floor((double)c->in * common + 0.5) : INT64_MAX;
  }
  return GCONV_OK;
}

/* Sets the regions from input 1: first the begin of each axis, then the end of each. */
static gconv_status take_regions(const gconv_node_work *work, const int32_t *axes, int32_t count, change *changes) {
  const gconv_tensor *region = given(work, 1);
  if (!region || !region->data || !gconv_tensor_type_is_real(region->type) ||
      gconv_tensor_elements(region) != 2 * (int64_t)count)
    return gconv_fail(GCONV_UNSUPPORTED, "needs a region ('roi') of %d constant numbers", 2 * count);
  for (int32_t i = 0; i < count; i++) {
    changes[axes[i]].begin = gconv_tensor_number(region, i);
    changes[axes[i]].end = gconv_tensor_number(region, i + count);
  }
  return GCONV_OK;
}

static gconv_status find_sizes(const gconv_node_work *work, change changes[GCONV_TENSOR_AXES]) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  const bool modern = work->opset >= 11;
  const gconv_tensor *scales = given(work, modern ? 2 : 1), *sizes = modern ? given(work, 3) : NULL;
  int32_t axes[GCONV_TENSOR_AXES], count = s->axes.count > 0 ? s->axes.count : in->axes;
  for (int32_t i = 0; i < in->axes; i++)
    changes[i] = (change){in->shape[i],
                          in->shape[i],
                          1,
                          0,
                          1,
                          (gconv_resize_mode)s->mode,
                          (gconv_resize_coordinates)s->coordinates,
                          (gconv_resize_rounding)s->rounding,
                          s->antialias,
                          s->excludes,
                          (double)s->cubic};
  for (int32_t i = 0; i < count; i++) {
    axes[i] = i;
    if (s->axes.count > 0)
      GCONV_TRY(gconv_tensor_axis(s->axes.number[i], in->axes, &axes[i]));
  }
  if (s->coordinates == GCONV_RESIZE_CROP)
    GCONV_TRY(take_regions(work, axes, count, changes));
  if (sizes) {
    gconv_node_integers list;
    GCONV_TRY(gconv_node_read_integers(work, 3, "sizes", &list));
    if (list.count == count)
      return take_sizes(s, &list, axes, changes);
  } else if (s->scale_count == count)
    return take_scales(work, &(gconv_tensor){.type = GCONV_TENSOR_F32, .data = (void *)s->scales}, axes, count, changes);
  else if (scales && scales->data && gconv_tensor_type_is_real(scales->type) && gconv_tensor_elements(scales) == count)
    return take_scales(work, scales, axes, count, changes);
  return gconv_fail(GCONV_UNSUPPORTED, "needs %d constant scales or sizes, one for each axis that it resizes", count);
}

/* Up to opset 10, the nearest input is rounded up along an axis that shrinks, and down along any other axis. */
static gconv_status find_changes(const gconv_node_work *work, change changes[GCONV_TENSOR_AXES]) {
  GCONV_TRY(find_sizes(work, changes));
  for (int32_t i = 0; work->opset < 11 && i < work->in[0]->axes; i++)
    changes[i].rounding = changes[i].scale < 1 ? GCONV_RESIZE_CEIL : GCONV_RESIZE_FLOOR;
  return GCONV_OK;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  change changes[GCONV_TENSOR_AXES];
  gconv_tensor out = *work->in[0];
  if (s->mode != GCONV_RESIZE_NEAREST || s->coordinates == GCONV_RESIZE_CROP) /* nearest moves numbers of any type */
    GCONV_TRY(gconv_node_need_real(work, 0, 0));
  GCONV_TRY(find_changes(work, changes));
  for (int32_t i = 0; i < out.axes; i++)
    out.shape[i] = changes[i].out;
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

/* ---- Taps ---- */

/* The inputs of all outputs of an axis: output o is the sum of `count` inputs index[o * count ...], each times its weight.
 */
typedef struct taps {
  int64_t count;
  int64_t *index; /* owned */
  void *weights;  /* owned: float, or double for float64 */
  bool *outside;  /* owned: whether an output gets the value outside; NULL: none does */
} taps;

static void free_taps(taps *t) {
  gconv_release(t->index);
  gconv_release(t->weights);
  gconv_release(t->outside);
}

static gconv_status make_taps(const change *c, bool wide, taps *t) {
  void *memory[3] = {NULL, NULL, NULL};
  const size_t out = (size_t)c->out;
  *t = (taps){.count = gconv_resize_taps(c)};
  if (t->count > MOST_TAPS || c->in == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "shrinks an axis by too much");
  gconv_status status = gconv_allocate(out * (size_t)t->count * sizeof *t->index, "a table of Resize", &memory[0]);
  GCONV_THEN(status, gconv_allocate(out * (size_t)t->count * (wide ? sizeof(double) : sizeof(float)), "a table of Resize",
                                    &memory[1]));
  GCONV_THEN(status, gconv_allocate(out + 1, "a table of Resize", &memory[2]));
  t->index = memory[0];
  t->weights = memory[1];
  t->outside = memory[2];
  if (status != GCONV_OK) {
    free_taps(t);
    return status;
  }
  for (int64_t o = 0, at = 0; o < c->out; o++, at += t->count)
    t->outside[o] = gconv_resize_fill(c, o, t->count, t->index + at, wide ? NULL : (float *)t->weights + at,
                                      wide ? (double *)t->weights + at : NULL);
  return GCONV_OK;
}

/* ---- One axis ---- */

typedef struct job {
  const taps *taps;
  const void *in;
  void *out;
  int64_t in_size, out_size, inner; /* sizes of the axis; elements between its neighbours */
} job;

#define NAME(name) name##_f32
#define NUMBER float
#define WEIGHT float
#include "graph/resize_loops.h"
#define NAME(name) name##_f64
#define NUMBER double
#define WEIGHT double
#include "graph/resize_loops.h"
#define NAME(name) name##_1
#define NUMBER uint8_t
#define WEIGHT float
#include "graph/resize_loops.h"
#define NAME(name) name##_2
#define NUMBER uint16_t
#define WEIGHT float
#include "graph/resize_loops.h"
#define NAME(name) name##_4
#define NUMBER uint32_t
#define WEIGHT float
#include "graph/resize_loops.h"
#define NAME(name) name##_8
#define NUMBER uint64_t
#define WEIGHT float
#include "graph/resize_loops.h"

typedef struct loops {
  void (*part)(void *context, int64_t begin, int64_t end);
  void (*outside)(const gconv_tensor *out, int32_t axis, const taps *t, float value);
} loops;

static loops loops_of(gconv_tensor_type type) {
  static const loops reals[] = {{resize_part_f32, fill_outside_f32}, {resize_part_f64, fill_outside_f64}};
  static const loops moved[] = {[1] = {resize_part_1, fill_outside_1},
                                [2] = {resize_part_2, fill_outside_2},
                                [4] = {resize_part_4, fill_outside_4},
                                [8] = {resize_part_8, fill_outside_8}};
  return gconv_tensor_type_is_real(type) ? reals[type == GCONV_TENSOR_F64] : moved[gconv_tensor_type_bytes(type)];
}

/* ---- All axes ---- */

/* Whether an axis is left as it is: tf_half_pixel_for_nn does not move it by a half, which would mix images of a batch. */
static bool stays(const change *c) {
  return c->out == c->in && c->scale == 1 && c->coordinates != GCONV_RESIZE_CROP;
}

/* Sets order[] to the axes that change, from the smallest scale to the largest, and returns their number. */
static int32_t order_axes(const change *changes, int32_t axes, int32_t *order) {
  int32_t count = 0;
  for (int32_t i = 0; i < axes; i++) {
    const change *c = &changes[i];
    if (stays(c))
      continue;
    int32_t at = count++;
    for (; at > 0 && changes[order[at - 1]].scale > c->scale; at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
  return count;
}

/* Returns the elements of the largest tensor between two axes. */
static int64_t largest_between(const gconv_node_work *work) {
  change changes[GCONV_TENSOR_AXES];
  int32_t order[GCONV_TENSOR_AXES];
  gconv_tensor t = *work->in[0];
  int64_t largest = 0;
  if (find_changes(work, changes) != GCONV_OK)
    return 0;
  const int32_t count = order_axes(changes, t.axes, order);
  for (int32_t i = 0; i + 1 < count; i++) {
    t.shape[order[i]] = changes[order[i]].out;
    largest = gconv_tensor_elements(&t) > largest ? gconv_tensor_elements(&t) : largest;
  }
  return largest;
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  change changes[GCONV_TENSOR_AXES];
  int32_t order[GCONV_TENSOR_AXES];
  gconv_tensor t = *work->in[0];
  taps made[GCONV_TENSOR_AXES] = {{0}};
  uint8_t *between[2] = {work->workspace, NULL};
  const loops l = loops_of(t.type);
  GCONV_TRY(find_changes(work, changes));
  if (gconv_tensor_elements(work->out[0]) == 0)
    return GCONV_OK;
  const int32_t count = order_axes(changes, t.axes, order);
  if (between[0])
    between[1] = between[0] + (size_t)largest_between(work) * gconv_tensor_type_bytes(t.type);
  if (count == 0)
    memcpy(work->out[0]->data, t.data, gconv_tensor_bytes(&t));
  gconv_status status = GCONV_OK;
  for (int32_t i = 0; i < count && status == GCONV_OK; i++) {
    const int32_t axis = order[i];
    void *to = i + 1 < count ? between[i % 2] : work->out[0]->data;
    status = make_taps(&changes[axis], t.type == GCONV_TENSOR_F64, &made[axis]);
    if (status != GCONV_OK)
      break;
    job j = {&made[axis], t.data, to, t.shape[axis], changes[axis].out, gconv_tensor_count(&t, axis + 1, t.axes)};
    const int64_t outer = gconv_tensor_count(&t, 0, axis), each = j.inner == 1 ? j.out_size : j.inner;
    gconv_node_share(work, j.inner == 1 ? outer : outer * j.out_size, (1 << 14) / (each * j.taps->count) + 1, l.part, &j);
    t.shape[axis] = changes[axis].out;
    t.data = to;
  }
  for (int32_t i = 0; i < t.axes && status == GCONV_OK; i++)
    if (s->coordinates == GCONV_RESIZE_CROP && made[i].outside)
      l.outside(work->out[0], i, &made[i], s->outside);
  for (int32_t i = 0; i < t.axes; i++)
    free_taps(&made[i]);
  return status;
}

/* ---- On a GPU ---- */

static gconv_status make_job(const gconv_node_work *work, gconv_gpu_resize *on_gpu) {
  const settings *s = work->settings;
  change changes[GCONV_TENSOR_AXES];
  int32_t order[GCONV_TENSOR_AXES];
  *on_gpu = (gconv_gpu_resize){.axes = work->in[0]->axes,
                               .from = work->in[0]->there,
                               .to = work->out[0]->there,
                               .outside = s->outside,
                               .tables = work->workspace};
  GCONV_TRY(find_changes(work, changes));
  on_gpu->changed = order_axes(changes, on_gpu->axes, order);
  if (on_gpu->changed > GCONV_GPU_RESIZED)
    return gconv_fail(GCONV_UNSUPPORTED, "resizes %d axes: %d are the most on a GPU", on_gpu->changed, GCONV_GPU_RESIZED);
  for (int32_t i = 0; i < on_gpu->changed; i++) {
    on_gpu->axis[i] = order[i];
    on_gpu->how[i] = changes[order[i]];
    if (gconv_resize_taps(&on_gpu->how[i]) > MOST_TAPS || on_gpu->how[i].in == 0)
      return gconv_fail(GCONV_UNSUPPORTED, "shrinks an axis by too much");
  }
  memcpy(on_gpu->in, work->in[0]->shape, sizeof on_gpu->in);
  memcpy(on_gpu->out, work->out[0]->shape, sizeof on_gpu->out);
  return GCONV_OK;
}

/* On the CPU: two tensors between axes. On a GPU: a table for each axis. */
static size_t workspace(const gconv_node_work *work) {
  gconv_gpu_resize on_gpu;
  size_t bytes = 0;
  if (!gconv_node_is_for_gpu(work))
    return 2 * (size_t)largest_between(work) * gconv_tensor_type_bytes(work->in[0]->type);
  if (make_job(work, &on_gpu) != GCONV_OK)
    return 0;
  for (int32_t i = 0; i < on_gpu.changed; i++)
    bytes += gconv_gpu_table_bytes(&on_gpu.how[i]);
  return bytes;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_gpu_resize on_gpu;
  GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_F32));
  if (gconv_tensor_elements(work->out[0]) == 0)
    return GCONV_OK;
  GCONV_TRY(make_job(work, &on_gpu));
  return gconv_gpu_resize_run(&on_gpu, work->stream);
}

/* Finds how far the taps of outputs reach before o / scale, rounded down, and after it, rounded up. If each input becomes a
 * whole number of outputs, the taps of as many outputs show it, and no coordinate is rounded so that they differ from those
 * of other outputs. For other scales, margins are for the taps, which antialias makes more, and for rounding. */
static void find_reach(const change *c, int64_t *before, int64_t *after) {
  enum { MOST_TIMES = 16 };
  const int64_t count = gconv_resize_taps(c), times = c->out / c->in;
  *before = *after = count / 2 + 2 + (c->in + c->out - 1) / c->out;
  if (c->out % c->in != 0 || times > MOST_TIMES)
    return;
  *before = *after = 0;
  for (int64_t o = 0; o < times; o++) {
    const double x = gconv_resize_coordinate(c, o);
    const int64_t first = c->mode == GCONV_RESIZE_NEAREST ? gconv_resize_nearest(c, x) : (int64_t)floor(x) - (count - 1) / 2;
    const int64_t last = first + count - 1 - (o > 0); /* from 0, or 1 for all outputs between inputs, on */
    *before = -first > *before ? -first : *before;
    *after = last > *after ? last : *after;
  }
}

/* Output o sees inputs around o / scale. */
static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t axis) {
  const settings *s = work->settings;
  change changes[GCONV_TENSOR_AXES];
  gconv_node_window w = {1, 0, 0, 0};
  if (find_changes(work, changes) != GCONV_OK || s->coordinates == GCONV_RESIZE_CORNERS ||
      s->coordinates == GCONV_RESIZE_CROP)
    return w;
  const change *c = &changes[axis];
  if (c->out < 1 || c->scale * (double)c->in != (double)c->out)
    return w;
  w.numerator = c->in;
  w.denominator = c->out;
  if (!stays(c))
    find_reach(c, &w.before, &w.after);
  return w;
}

static rules upsample7 = {STRING("mode"), FLOATS("scales", 7, 8), END}, mode_only = {STRING("mode"), END};
static rules resize = {STRING("mode"),
                       STRING("coordinate_transformation_mode"),
                       STRING("nearest_mode"),
                       STRING("keep_aspect_ratio_policy"),
                       FLOAT("cubic_coeff_a", 11, NEWEST),
                       FLOAT("extrapolation_value", 11, NEWEST),
                       INT("exclude_outside", 11, NEWEST),
                       INT("antialias", 18, NEWEST),
                       INTS("axes", 18, NEWEST),
                       END};

#define ROW(name, since, until, least, most, known, rules)                                                                  \
  GCONV_NODE_KIND(name, since, until, least, most, 1, 1, known, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, rules, 0,          \
                  sizeof(settings), parse, shape, run, cuda, workspace, window, NULL, NULL)
const gconv_node_kind gconv_node_kinds_resize[] = {
    ROW("Upsample", 7, 8, 1, 1, 0, upsample7),
    ROW("Upsample", 9, 9, 2, 2, 2, mode_only),
    ROW("Resize", 10, 10, 2, 2, 2, mode_only),
    ROW("Resize", 11, NEWEST, 1, 4, 14, resize),
    GCONV_NODE_KIND_END,
};

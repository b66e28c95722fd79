/* SPDX-License-Identifier: MIT */
/* Pad: adds elements before and after each axis. Negative pads cut elements off. */
#include "bank/onnx_rules.h"
#include "graph/node.h"
#include "kernels/cuda/graph/graph.h"

#include <inttypes.h>
#include <string.h>

typedef enum mode { CONSTANT, REFLECT, EDGE, WRAP } mode;

typedef struct settings {
  mode mode;
  float value;
  bool given; /* pads are an attribute */
  gconv_node_integers pads;
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};
  settings *s = made;
  int32_t choice = CONSTANT;
  GCONV_TRY(gconv_node_attribute_choice(node, "mode", modes, &choice));
  if (choice == WRAP && opset < 19)
    return gconv_fail(GCONV_BAD_FILE, "wraps, which this operator does from opset 19 on");
  s->mode = (mode)choice;
  s->value = gconv_onnx_number_of(node, "value", 0);
  return gconv_node_attribute_list(node, "pads", INT64_MIN, INT64_MAX, &s->pads, &s->given);
}

/* Sets before[] and after[] for each axis of the input. */
static gconv_status find_pads(const gconv_node_work *work, int64_t before[GCONV_TENSOR_AXES],
                              int64_t after[GCONV_TENSOR_AXES]) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  gconv_node_integers pads = s->pads, axes = {{0}, 0};
  if (!s->given)
    GCONV_TRY(gconv_node_read_integers(work, 1, "pads", &pads));
  if (work->in_count > 3 && work->in[3])
    GCONV_TRY(gconv_node_read_integers(work, 3, "axes", &axes));
  else
    for (; axes.count < in->axes; axes.count++)
      axes.number[axes.count] = axes.count;
  if (pads.count != 2 * axes.count)
    return gconv_fail(GCONV_BAD_FILE, "has %d pads for %d axes: it needs two each", pads.count, axes.count);
  memset(before, 0, GCONV_TENSOR_AXES * sizeof *before);
  memset(after, 0, GCONV_TENSOR_AXES * sizeof *after);
  for (int32_t i = 0, axis; i < axes.count; i++) {
    GCONV_TRY(gconv_tensor_axis(axes.number[i], in->axes, &axis));
    before[axis] = pads.number[i];
    after[axis] = pads.number[i + axes.count];
  }
  return GCONV_OK;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  int64_t before[GCONV_TENSOR_AXES], after[GCONV_TENSOR_AXES];
  gconv_tensor out = *work->in[0];
  GCONV_TRY(find_pads(work, before, after));
  const gconv_tensor *value = work->in_count > 2 ? work->in[2] : NULL;
  GCONV_TRY(gconv_node_need_type(work, 2, out.type));
  if (value && gconv_tensor_elements(value) != 1)
    return gconv_fail(GCONV_BAD_FILE, "pads with %" PRId64 " values, not with one", gconv_tensor_elements(value));
  for (int32_t i = 0; i < out.axes; i++) {
    const int64_t size = out.shape[i], most = before[i] > after[i] ? before[i] : after[i];
    if (before[i] < -size || after[i] < -size || before[i] > INT32_MAX || after[i] > INT32_MAX)
      return gconv_fail(GCONV_BAD_FILE, "has pads of %" PRId64 " and %" PRId64 " for %" PRId64 " elements", before[i],
                        after[i], size);
    if (s->mode != CONSTANT && most > 0 && (size == 0 || (s->mode == REFLECT && most > size - 1)))
      return gconv_fail(GCONV_UNSUPPORTED,
                        "pads %" PRId64 " elements of %" PRId64 ": for mode reflect the pads must be smaller "
                        "than the input",
                        most, size);
    if (s->mode == WRAP && most > 0 && (before[i] < 0 || after[i] < 0))
      return gconv_fail(GCONV_UNSUPPORTED,
                        "cuts elements off one end of an axis, and wraps around it at the other: whether the "
                        "elements that are cut off come back, the standard does not say");
    out.shape[i] += before[i] + after[i];
    if (out.shape[i] < 0)
      return gconv_fail(GCONV_BAD_FILE, "cuts off more elements than there are");
  }
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

typedef struct job {
  const gconv_tensor *in, *out;
  int64_t before[GCONV_TENSOR_AXES];
  mode mode;
  const void *outside; /* an element */
  size_t bytes;
} job;

/* Returns the index of the element that output index `at` of an axis gets; -1: the value outside. */
static int64_t source(const job *j, int32_t axis, int64_t at) {
  const int64_t size = j->in->shape[axis], last = size - 1;
  int64_t from = at - j->before[axis];
  if (from >= 0 && from < size)
    return from;
  switch (j->mode) {
  case REFLECT:
    from = from < 0 ? -from : 2 * last - from;
    break;
  case EDGE:
    from = from < 0 ? 0 : last;
    break;
  case WRAP:
    from = (from % size + size) % size;
    break;
  case CONSTANT:
    return -1;
  }
  return from;
}

static void fill(const job *j, char *to, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    memcpy(to + (size_t)i * j->bytes, j->outside, j->bytes);
}

/* Makes lines begin .. end - 1 of the last axis. */
static void pad_lines(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const int32_t last = j->out->axes - 1;
  const int64_t width = j->out->shape[last], in_width = j->in->shape[last], shift = j->before[last];
  const int64_t first = shift > 0 ? shift : 0, stop = in_width + shift < width ? in_width + shift : width;
  for (int64_t line = begin; line < end; line++) {
    int64_t from = 0, rest = line, pitch = 1;
    for (int32_t axis = last - 1; axis >= 0 && from >= 0; axis--) {
      const int64_t at = source(j, axis, rest % j->out->shape[axis]);
      rest /= j->out->shape[axis];
      from = at < 0 ? -1 : from + at * pitch;
      pitch *= j->in->shape[axis];
    }
    char *to = (char *)j->out->data + (size_t)(line * width) * j->bytes;
    if (from < 0) {
      fill(j, to, width);
      continue;
    }
    const char *row = (const char *)j->in->data + (size_t)(from * in_width) * j->bytes;
    for (int64_t x = 0; x < width; x++) {
      if (x == first && stop > first) {
        memcpy(to + (size_t)x * j->bytes, row + (size_t)(x - shift) * j->bytes, (size_t)(stop - first) * j->bytes);
        x = stop - 1;
        continue;
      }
      const int64_t at = source(j, last, x);
      memcpy(to + (size_t)x * j->bytes, at < 0 ? (const char *)j->outside : row + (size_t)at * j->bytes, j->bytes);
    }
  }
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  static const uint64_t zero = 0;
  const settings *s = work->settings;
  const double wide = (double)s->value;
  int64_t after[GCONV_TENSOR_AXES];
  job j = {.in = work->in[0], .out = work->out[0], .mode = s->mode, .outside = &zero};
  j.bytes = gconv_tensor_type_bytes(j.in->type);
  if (work->in_count > 2 && work->in[2])
    j.outside = work->in[2]->data;
  else if (gconv_tensor_type_is_real(j.in->type))
    j.outside = j.in->type == GCONV_TENSOR_F32 ? (const void *)&s->value : &wide;
  GCONV_TRY(find_pads(work, j.before, after));
  if (j.out->axes == 0)
    memcpy(j.out->data, j.in->data, j.bytes);
  else if (j.out->shape[j.out->axes - 1] > 0)
    gconv_node_share(work, gconv_tensor_count(j.out, 0, j.out->axes - 1), (1 << 14) / j.out->shape[j.out->axes - 1] + 1,
                     pad_lines, &j);
  return GCONV_OK;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  static const gconv_gpu_edge edges[] = {[CONSTANT] = GCONV_EDGE_CONSTANT,
                                         [REFLECT] = GCONV_EDGE_REFLECT,
                                         [EDGE] = GCONV_EDGE_REPEAT,
                                         [WRAP] = GCONV_EDGE_WRAP};
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0], *value = work->in_count > 2 ? work->in[2] : NULL;
  int64_t after[GCONV_TENSOR_AXES];
  gconv_gpu_pad on_gpu = {.axes = in->axes,
                          .edge = edges[s->mode],
                          .from = in->there,
                          .to = work->out[0]->there,
                          .bytes = gconv_tensor_type_bytes(in->type)};
  GCONV_TRY(find_pads(work, on_gpu.before, after));
  memcpy(on_gpu.in, in->shape, sizeof on_gpu.in);
  memcpy(on_gpu.out, work->out[0]->shape, sizeof on_gpu.out);
  if (value && value->data)
    memcpy(&on_gpu.outside, value->data, on_gpu.bytes);
  else if (value)
    on_gpu.outside_there = value->there;
  else if (in->type == GCONV_TENSOR_F32)
    memcpy(&on_gpu.outside, &s->value, sizeof s->value);
  return gconv_gpu_pad_run(&on_gpu, work->stream);
}

static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t axis) {
  int64_t before[GCONV_TENSOR_AXES] = {0}, after[GCONV_TENSOR_AXES] = {0};
  const settings *s = work->settings;
  if (find_pads(work, before, after) != GCONV_OK)
    return (gconv_node_window){1, 0, 0, 0};
  const int64_t most = before[axis] > after[axis] ? before[axis] : after[axis];
  if (s->mode == WRAP && most > 0)
    return (gconv_node_window){1, 0, 0, 0};
  if (s->mode == REFLECT && most > 0)
    return (gconv_node_window){1, 1, most, most};
  return (gconv_node_window){1, 1, before[axis] > -after[axis] ? before[axis] : -after[axis],
                             after[axis] > -before[axis] ? after[axis] : -before[axis]};
}

static rules old = {STRING("mode"), INTS("pads", 2, 10), FLOAT("value", 2, 10), END}, new = {STRING("mode"), END};

#define ROW(since, until, most, known, rules)                                                                               \
  GCONV_NODE_KIND("Pad", since, until, 1, most, 1, 1, known, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, rules, 0,             \
                  sizeof(settings), parse, shape, run, cuda, NULL, window, NULL, NULL)
const gconv_node_kind gconv_node_kinds_pad[] = {
    ROW(2, 10, 1, 0, old),
    ROW(11, NEWEST, 4, 10, new),
    GCONV_NODE_KIND_END,
};

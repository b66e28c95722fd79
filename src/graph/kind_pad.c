/* SPDX-License-Identifier: MIT */
/* Pad: adds elements before and after each axis. Negative pads cut elements off. */
#include "bank/onnx_rules.h"
#include "graph/node.h"
#include "kernels/cuda/graph/graph.h"

#include <inttypes.h>
#include <string.h>

typedef struct settings {
  gconv_border border;
  float value;
  bool given; /* pads are an attribute */
  gconv_node_integers pads;
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  GCONV_TRY(gconv_node_attribute_border(node, &s->border));
  if (s->border == GCONV_BORDER_WRAP && opset < 19)
    return gconv_fail(GCONV_BAD_FILE, "wraps, which this operator does from opset 19 on");
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
    if (s->border != GCONV_BORDER_CONSTANT && most > 0 &&
        (size == 0 || (s->border == GCONV_BORDER_REFLECT101 && most > size - 1)))
      return gconv_fail(GCONV_UNSUPPORTED,
                        "pads %" PRId64 " elements of %" PRId64 ": for mode reflect the pads must be smaller "
                        "than the input",
                        most, size);
    if (s->border == GCONV_BORDER_WRAP && most > 0 && (before[i] < 0 || after[i] < 0))
      return gconv_fail(GCONV_UNSUPPORTED,
                        "cuts elements off one end of an axis, and wraps around at the other end: the standard does not say "
                        "whether the elements that are cut off come back");
    out.shape[i] += before[i] + after[i];
    if (out.shape[i] < 0)
      return gconv_fail(GCONV_BAD_FILE, "cuts off more elements than there are");
  }
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

static void fill(const gconv_gpu_pad *j, char *to, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    memcpy(to + (size_t)i * j->bytes, j->outside_there, j->bytes);
}

/* Makes lines begin .. end - 1 of the last axis. */
static void pad_lines(void *context, int64_t begin, int64_t end) {
  const gconv_gpu_pad *j = context;
  const int32_t last = j->axes - 1;
  const int64_t width = j->out[last], in_width = j->in[last], shift = j->before[last];
  const int64_t first = shift > 0 ? shift : 0, stop = in_width + shift < width ? in_width + shift : width;
  for (int64_t line = begin; line < end; line++) {
    int64_t from = 0, rest = line, pitch = 1;
    for (int32_t axis = last - 1; axis >= 0 && from >= 0; axis--) {
      const int64_t at = gconv_gpu_pad_source(j, axis, rest % j->out[axis]);
      rest /= j->out[axis];
      from = at < 0 ? -1 : from + at * pitch;
      pitch *= j->in[axis];
    }
    char *to = (char *)j->to + (size_t)(line * width) * j->bytes;
    if (from < 0) {
      fill(j, to, width);
      continue;
    }
    const char *row = (const char *)j->from + (size_t)(from * in_width) * j->bytes;
    for (int64_t x = 0; x < width; x++) {
      if (x == first && stop > first) {
        memcpy(to + (size_t)x * j->bytes, row + (size_t)(x - shift) * j->bytes, (size_t)(stop - first) * j->bytes);
        x = stop - 1;
        continue;
      }
      const int64_t at = gconv_gpu_pad_source(j, last, x);
      memcpy(to + (size_t)x * j->bytes, at < 0 ? (const char *)j->outside_there : row + (size_t)at * j->bytes, j->bytes);
    }
  }
}

/* Describes the work of a node, except for the value outside. */
static gconv_status make(const gconv_node_work *work, gconv_gpu_pad *j) {
  const gconv_tensor *in = work->in[0], *out = work->out[0];
  int64_t after[GCONV_TENSOR_AXES];
  *j = (gconv_gpu_pad){.axes = in->axes,
                       .border = ((const settings *)work->settings)->border,
                       .from = gconv_node_data(work, in),
                       .to = gconv_node_data(work, out),
                       .bytes = gconv_tensor_type_bytes(in->type)};
  memcpy(j->in, in->shape, sizeof j->in);
  memcpy(j->out, out->shape, sizeof j->out);
  return find_pads(work, j->before, after);
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  static const uint64_t zero = 0;
  const settings *s = work->settings;
  const double wide = (double)s->value;
  const gconv_tensor *in = work->in[0], *out = work->out[0];
  gconv_gpu_pad j;
  GCONV_TRY(make(work, &j));
  j.outside_there = &zero;
  if (work->in_count > 2 && work->in[2])
    j.outside_there = work->in[2]->data;
  else if (gconv_tensor_type_is_real(in->type))
    j.outside_there = in->type == GCONV_TENSOR_F32 ? (const void *)&s->value : &wide;
  if (j.axes == 0)
    memcpy(out->data, in->data, j.bytes);
  else if (j.out[j.axes - 1] > 0)
    gconv_node_share(work, gconv_tensor_count(out, 0, j.axes - 1), (1 << 14) / j.out[j.axes - 1] + 1, pad_lines, &j);
  return GCONV_OK;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *value = work->in_count > 2 ? work->in[2] : NULL;
  gconv_gpu_pad j;
  GCONV_TRY(make(work, &j));
  if (value && value->data)
    memcpy(&j.outside, value->data, j.bytes);
  else if (value)
    j.outside_there = value->there;
  else if (work->in[0]->type == GCONV_TENSOR_F32)
    memcpy(&j.outside, &s->value, sizeof s->value);
  return gconv_gpu_pad_run(&j, work->stream);
}

static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t axis) {
  int64_t before[GCONV_TENSOR_AXES] = {0}, after[GCONV_TENSOR_AXES] = {0};
  const settings *s = work->settings;
  if (find_pads(work, before, after) != GCONV_OK)
    return (gconv_node_window){1, 0, 0, 0};
  const int64_t most = before[axis] > after[axis] ? before[axis] : after[axis];
  if (s->border == GCONV_BORDER_WRAP && most > 0)
    return (gconv_node_window){1, 0, 0, 0};
  if (s->border == GCONV_BORDER_REFLECT101 && most > 0)
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

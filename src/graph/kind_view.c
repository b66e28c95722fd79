/* SPDX-License-Identifier: MIT */
/* Views: nodes whose output has the elements of input 0 in the same order. The output is the same memory if possible;
 * otherwise elements are copied. */
#include "bank/onnx_rules.h"
#include "graph/node.h"

#include <inttypes.h>
#include <string.h>

typedef struct settings {
  int64_t axis;
  bool zeros;                 /* for Reshape: a size of 0 is 0, not the size of the input */
  bool given;                 /* the axes are an attribute */
  gconv_node_integers listed; /* the axes, if given */
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  s->axis = gconv_onnx_integer_of(node, "axis", 1);
  s->zeros = gconv_onnx_integer_of(node, "allowzero", 0) != 0;
  return gconv_node_attribute_list(node, "axes", INT64_MIN, INT64_MAX, &s->listed, &s->given);
}

static gconv_status shape_reshape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  gconv_node_integers wanted;
  int64_t shape[GCONV_TENSOR_AXES], known = 1;
  int32_t open = -1;
  GCONV_TRY(gconv_node_read_integers(work, 1, "shape", &wanted));
  if (wanted.count > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of %d axes: %d is the most", wanted.count, GCONV_TENSOR_AXES);
  for (int32_t i = 0; i < wanted.count; i++) {
    shape[i] = wanted.number[i];
    if (shape[i] == 0 && !s->zeros) {
      if (i >= in->axes)
        return gconv_fail(GCONV_BAD_FILE, "keeps the size of axis %d, which its input does not have", i);
      shape[i] = in->shape[i];
    }
    if (shape[i] < -1 || (shape[i] == -1 && open >= 0))
      return gconv_fail(GCONV_BAD_FILE, "has a shape that is not valid: a size is %" PRId64, shape[i]);
    if (shape[i] == -1)
      open = i;
    else if (__builtin_mul_overflow(known, shape[i], &known))
      return gconv_fail(GCONV_BAD_FILE, "has a shape that is too large");
  }
  const int64_t count = gconv_tensor_elements(in);
  if (open >= 0)
    shape[open] = known > 0 ? count / known : 0;
  if (known * (open >= 0 ? shape[open] : 1) != count)
    return gconv_fail(GCONV_BAD_FILE, "makes a shape of %" PRId64 " elements%s of %" PRId64, known,
                      open >= 0 ? " times a whole number" : "", count);
  gconv_node_set(work, 0, in->type, wanted.count, shape);
  return GCONV_OK;
}

static gconv_status shape_flatten(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  const int64_t axis = s->axis < 0 ? s->axis + in->axes : s->axis;
  if (axis < 0 || axis > in->axes)
    return gconv_fail(GCONV_BAD_FILE, "flattens from axis %" PRId64 " on, of %d axes", s->axis, in->axes);
  const int64_t shape[] = {gconv_tensor_count(in, 0, (int32_t)axis), gconv_tensor_count(in, (int32_t)axis, in->axes)};
  gconv_node_set(work, 0, in->type, 2, shape);
  return GCONV_OK;
}

/* Sets marked[i] for each listed axis i of `count` axes. */
static gconv_status mark_axes(const gconv_node_work *work, int32_t count, bool marked[GCONV_TENSOR_AXES], bool *listed) {
  const settings *s = work->settings;
  gconv_node_integers list = s->listed;
  *listed = s->given;
  if (!s->given && work->in_count > 1 && work->in[1]) {
    GCONV_TRY(gconv_node_read_integers(work, 1, "axes", &list));
    *listed = true;
  }
  for (int32_t i = 0, axis; i < list.count; i++) {
    GCONV_TRY(gconv_tensor_axis(list.number[i], count, &axis));
    if (marked[axis])
      return gconv_fail(GCONV_BAD_FILE, "lists axis %d twice", axis);
    marked[axis] = true;
  }
  return GCONV_OK;
}

static gconv_status shape_squeeze(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0];
  bool marked[GCONV_TENSOR_AXES] = {0}, listed;
  int64_t shape[GCONV_TENSOR_AXES];
  int32_t axes = 0;
  GCONV_TRY(mark_axes(work, in->axes, marked, &listed));
  for (int32_t i = 0; i < in->axes; i++) {
    if (marked[i] && in->shape[i] != 1)
      return gconv_fail(GCONV_BAD_FILE, "drops axis %d, which has %" PRId64 " elements, not 1", i, in->shape[i]);
    if (listed ? !marked[i] : in->shape[i] != 1)
      shape[axes++] = in->shape[i];
  }
  gconv_node_set(work, 0, in->type, axes, shape);
  return GCONV_OK;
}

static gconv_status shape_unsqueeze(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  gconv_node_integers list = s->listed;
  bool marked[GCONV_TENSOR_AXES] = {0}, listed;
  int64_t shape[GCONV_TENSOR_AXES];
  if (!s->given)
    GCONV_TRY(gconv_node_read_integers(work, 1, "axes", &list));
  const int32_t axes = in->axes + list.count;
  if (axes > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of %d axes: %d is the most", axes, GCONV_TENSOR_AXES);
  GCONV_TRY(mark_axes(work, axes, marked, &listed));
  for (int32_t i = 0, from = 0; i < axes; i++)
    shape[i] = marked[i] ? 1 : in->shape[from++];
  gconv_node_set(work, 0, in->type, axes, shape);
  return GCONV_OK;
}

static gconv_status shape_dropout(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(gconv_node_need_type(work, 2, GCONV_TENSOR_BOOL));
  if (work->in_count > 2 && work->in[2] && gconv_tensor_elements(work->in[2]) > 0 && *(const bool *)work->in[2]->data)
    return gconv_fail(GCONV_UNSUPPORTED, "is in training mode, in which it drops numbers at random");
  gconv_node_set_like(work, 0, work->in[0]);
  if (work->out_count > 1 && work->out[1]) /* the mask: all ones */
    return gconv_fail(GCONV_UNSUPPORTED, "has a mask as its second output, which gconv does not compute");
  return GCONV_OK;
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0];
  gconv_tensor *out = work->out[0];
  if (out && out->data != in->data)
    memcpy(out->data, in->data, (size_t)gconv_tensor_elements(in) * gconv_tensor_type_bytes(in->type));
  return GCONV_OK;
}

static rules none = {END}, axis = {INT("axis", 1, NEWEST), END}, axes = {INTS("axes", 1, 12), END};
static rules reshape = {INT("allowzero", 14, NEWEST), END};
static rules dropout = {FLOAT("ratio", 1, 11), INT("seed", 12, NEWEST), NEEDED("is_test", 1, 6),
                        INTS("consumed_inputs", 1, 5), END};

#define ROW(name, since, until, least, most, outs, known, rules, shape)                                                     \
  GCONV_NODE_KIND(name, since, until, least, most, 1, outs, known, 0, GCONV_MEMORY_VIEW, GCONV_REACH_ALL, rules, 0,         \
                  sizeof(settings), parse, shape, run, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL)
#define POINTS(name, since, until, most, outs, known, rules, shape)                                                         \
  GCONV_NODE_KIND(name, since, until, 1, most, 1, outs, known, 0, GCONV_MEMORY_VIEW, GCONV_REACH_POINT, rules, 0, 0, NULL,  \
                  shape, run, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_view[] = {
    POINTS("Identity", 1, NEWEST, 1, 1, 0, none, gconv_node_shape_like),
    POINTS("Dropout", 1, 11, 1, 2, 0, dropout, shape_dropout),
    POINTS("Dropout", 12, NEWEST, 3, 2, 4, dropout, shape_dropout),
    ROW("Reshape", 5, NEWEST, 2, 2, 1, 2, reshape, shape_reshape),
    ROW("Flatten", 1, NEWEST, 1, 1, 1, 0, axis, shape_flatten),
    ROW("Squeeze", 1, 12, 1, 1, 1, 0, axes, shape_squeeze),
    ROW("Squeeze", 13, NEWEST, 1, 2, 1, 2, none, shape_squeeze),
    ROW("Unsqueeze", 1, 12, 1, 1, 1, 0, axes, shape_unsqueeze),
    ROW("Unsqueeze", 13, NEWEST, 2, 2, 1, 2, none, shape_unsqueeze),
    GCONV_NODE_KIND_END,
};

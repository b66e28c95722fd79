/* SPDX-License-Identifier: MIT */
/* Nodes that move elements to other places: Transpose, Concat, Split, Slice, Gather, Expand, Tile, DepthToSpace,
 * SpaceToDepth. */
#include "bank/onnx_rules.h"
#include "graph/move.h"
#include "kernels/cuda/graph/graph.h"

#include <inttypes.h>
#include <string.h>

typedef struct settings {
  int64_t axis, block, parts;
  bool columns_first; /* for DepthToSpace: mode CRD */
  bool has_list;
  gconv_node_integers list, starts, ends; /* list: perm of Transpose, split of Split, axes of Slice */
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  static const char *const modes[] = {"DCR", "CRD", NULL}, *const lists[] = {"perm", "split", "axes"};
  int32_t mode = 0;
  s->axis = gconv_onnx_integer_of(node, "axis", 0);
  s->block = gconv_onnx_integer_of(node, "blocksize", 0);
  s->parts = gconv_onnx_integer_of(node, "num_outputs", 0);
  GCONV_TRY(gconv_node_attribute_choice(node, "mode", modes, &mode));
  s->columns_first = mode == 1;
  for (size_t i = 0; i < sizeof lists / sizeof *lists && !s->has_list; i++) /* an operator has one of them */
    GCONV_TRY(gconv_node_attribute_list(node, lists[i], INT64_MIN, INT64_MAX, &s->list, &s->has_list));
  GCONV_TRY(gconv_node_attribute_list(node, "starts", INT64_MIN, INT64_MAX, &s->starts, NULL));
  return gconv_node_attribute_list(node, "ends", INT64_MIN, INT64_MAX, &s->ends, NULL);
}

/* Sets step[] to the distances of neighbours along each axis. */
static void steps_of(const gconv_tensor *t, int64_t step[GCONV_TENSOR_AXES]) {
  int64_t distance = 1;
  for (int32_t i = t->axes - 1; i >= 0; distance *= t->shape[i--])
    step[i] = distance;
}

static gconv_status move(const gconv_node_work *work, const gconv_move *how, const gconv_tensor *from, int64_t from_at,
                         const gconv_tensor *to, int64_t to_at) {
  const size_t bytes = gconv_tensor_type_bytes(from->type);
  return gconv_move_run(work, how, bytes, (const char *)gconv_node_data(work, from) + from_at * (int64_t)bytes,
                        (char *)gconv_node_data(work, to) + to_at * (int64_t)bytes);
}

/* ---- Transpose ---- */

/* Sets perm[]: axis i of the output is axis perm[i] of the input. Without a list, the order of axes is reversed. */
static gconv_status permutation(const gconv_node_work *work, int32_t perm[GCONV_TENSOR_AXES]) {
  const settings *s = work->settings;
  const int32_t axes = work->in[0]->axes;
  bool used[GCONV_TENSOR_AXES] = {0};
  if (s->has_list && s->list.count != axes)
    return gconv_fail(GCONV_BAD_FILE, "orders %d axes of a tensor that has %d", s->list.count, axes);
  for (int32_t i = 0; i < axes; i++) {
    perm[i] = axes - 1 - i;
    if (s->has_list)
      GCONV_TRY(gconv_tensor_axis(s->list.number[i], axes, &perm[i]));
    if (used[perm[i]])
      return gconv_fail(GCONV_BAD_FILE, "takes axis %d twice", perm[i]);
    used[perm[i]] = true;
  }
  return GCONV_OK;
}

static gconv_status shape_transpose(const gconv_node_work *work, const gconv_node_kind *kind) {
  int32_t perm[GCONV_TENSOR_AXES];
  int64_t shape[GCONV_TENSOR_AXES];
  GCONV_TRY(permutation(work, perm));
  for (int32_t i = 0; i < work->in[0]->axes; i++)
    shape[i] = work->in[0]->shape[perm[i]];
  gconv_node_set(work, 0, work->in[0]->type, work->in[0]->axes, shape);
  return GCONV_OK;
}

static gconv_status run_transpose(const gconv_node_work *work, const gconv_node_kind *kind) {
  int32_t perm[GCONV_TENSOR_AXES];
  int64_t in_step[GCONV_TENSOR_AXES], out_step[GCONV_TENSOR_AXES];
  gconv_move how = {0};
  GCONV_TRY(permutation(work, perm));
  steps_of(work->in[0], in_step);
  steps_of(work->out[0], out_step);
  for (int32_t i = 0; i < work->out[0]->axes; i++)
    gconv_move_add(&how, work->out[0]->shape[i], in_step[perm[i]], out_step[i]);
  return move(work, &how, work->in[0], 0, work->out[0], 0);
}

/* ---- Concat, Split ---- */

static gconv_status shape_concat(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *first = work->in[0];
  gconv_tensor whole = *first;
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, first->axes, &axis));
  for (int32_t i = 1; i < work->in_count; i++) {
    const gconv_tensor *t = work->in[i];
    bool fits = t->axes == first->axes && t->type == first->type;
    for (int32_t a = 0; a < first->axes && fits; a++)
      fits = a == axis || t->shape[a] == first->shape[a];
    if (!fits) {
      char texts[2][160];
      gconv_tensor_shape_text(first, texts[0], sizeof texts[0]);
      gconv_tensor_shape_text(t, texts[1], sizeof texts[1]);
      return gconv_fail(GCONV_BAD_FILE, "joins tensors of %s and of %s (%s, %s) along axis %d, which do not fit together",
                        texts[0], texts[1], gconv_tensor_type_name(first->type), gconv_tensor_type_name(t->type), axis);
    }
    whole.shape[axis] += t->shape[axis];
  }
  gconv_node_set_like(work, 0, &whole);
  return GCONV_OK;
}

/* Describes a move along `axis`: `part` is moved into a whole tensor or, unless `joins`, out of it. */
static gconv_move part_of(const gconv_tensor *part, const gconv_tensor *whole, int32_t axis, bool joins) {
  const int64_t inner = gconv_tensor_count(part, axis, part->axes), outer = gconv_tensor_count(part, 0, axis);
  const int64_t pitch = gconv_tensor_count(whole, axis, whole->axes);
  gconv_move how = {0};
  gconv_move_add(&how, outer, joins ? inner : pitch, joins ? pitch : inner);
  gconv_move_add(&how, inner, 1, 1);
  return how;
}

static gconv_status run_concat(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  int64_t at = 0;
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, work->out[0]->axes, &axis));
  for (int32_t i = 0; i < work->in_count; i++) {
    const gconv_move how = part_of(work->in[i], work->out[0], axis, true);
    const size_t place = (size_t)at * gconv_tensor_type_bytes(work->out[0]->type);
    const uint8_t *from = gconv_node_data(work, work->in[i]), *to = gconv_node_data(work, work->out[0]);
    if (from != to + place) /* else it lies there already */
      GCONV_TRY(move(work, &how, work->in[i], 0, work->out[0], at));
    at += gconv_tensor_count(work->in[i], axis, work->in[i]->axes);
  }
  return GCONV_OK;
}

static gconv_status shape_split(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_tensor part = *work->in[0];
  gconv_node_integers sizes = s->list;
  int64_t sum = 0;
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, part.axes, &axis));
  const int64_t whole = part.shape[axis], count = work->out_count, equal = (whole + count - 1) / count;
  const bool listed = s->has_list || (work->in_count > 1 && work->in[1]);
  if (listed && !s->has_list)
    GCONV_TRY(gconv_node_read_integers(work, 1, "sizes of its parts", &sizes));
  if (listed ? sizes.count != count : s->parts == 0 ? whole % count != 0 : s->parts != count)
    return gconv_fail(GCONV_BAD_FILE, "does not divide %" PRId64 " elements into its %" PRId64 " outputs", whole, count);
  for (int32_t i = 0; i < count; i++) {
    const int64_t left = whole - sum;
    part.shape[axis] = listed ? sizes.number[i] : left < equal ? left : equal;
    if (part.shape[axis] < 0 || part.shape[axis] > left)
      return gconv_fail(GCONV_BAD_FILE, "has a part of %" PRId64 " elements, where %" PRId64 " are left", part.shape[axis],
                        left);
    sum += part.shape[axis];
    gconv_node_set_like(work, i, &part);
  }
  return sum == whole ? GCONV_OK
                      : gconv_fail(GCONV_BAD_FILE, "has parts of %" PRId64 " elements together, of %" PRId64, sum, whole);
}

/* Finds the sizes of parts again, because outputs that no node takes have no shape. */
static gconv_status run_split(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  gconv_node_integers sizes = s->list;
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, in->axes, &axis));
  const int64_t equal = (in->shape[axis] + work->out_count - 1) / work->out_count,
                inner = gconv_tensor_count(in, axis + 1, in->axes);
  const bool listed = s->has_list || (work->in_count > 1 && work->in[1]);
  if (listed && !s->has_list)
    GCONV_TRY(gconv_node_read_integers(work, 1, "sizes of its parts", &sizes));
  for (int64_t i = 0, at = 0; i < work->out_count; at += listed ? sizes.number[i] : equal, i++)
    if (work->out[i]) {
      const gconv_move how = part_of(work->out[i], in, axis, false);
      GCONV_TRY(move(work, &how, in, at * inner, work->out[i], 0));
    }
  return GCONV_OK;
}

/* ---- Slice ---- */

typedef struct cut {
  int64_t start[GCONV_TENSOR_AXES], step[GCONV_TENSOR_AXES], count[GCONV_TENSOR_AXES];
} cut;

/* Takes elements start, start + step ... before `end` of an axis. Positions from the end may be negative. A start outside is
 * moved to the nearest element; an end outside, to the place after the last element or, for negative steps, before the
 * first. */
static gconv_status cut_axis(int64_t size, int64_t start, int64_t end, int64_t step, cut *c, int32_t axis) {
  const bool back = step < 0;
  if (step == 0 || step == INT64_MIN)
    return gconv_fail(GCONV_BAD_FILE, "has a step of %" PRId64, step);
  start += start < 0 ? size : 0;
  end += end < 0 ? size : 0;
  start = start < 0 ? 0 : start > size - back ? size - back : start;
  end = end < -back ? -back : end > size - back ? size - back : end;
  const int64_t span = step > 0 ? end - start : start - end, pace = step > 0 ? step : -step;
  c->start[axis] = start;
  c->step[axis] = step;
  c->count[axis] = span > 0 && size > 0 ? (span - 1) / pace + 1 : 0;
  return GCONV_OK;
}

static gconv_status find_cut(const gconv_node_work *work, cut *c) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  gconv_node_integers starts = s->starts, ends = s->ends, axes = s->list, steps = {{0}, 0};
  bool seen[GCONV_TENSOR_AXES] = {0};
  if (work->in_count > 1) {
    GCONV_TRY(gconv_node_read_integers(work, 1, "starts", &starts));
    GCONV_TRY(gconv_node_read_integers(work, 2, "ends", &ends));
    if (work->in_count > 3 && work->in[3])
      GCONV_TRY(gconv_node_read_integers(work, 3, "axes", &axes));
    if (work->in_count > 4 && work->in[4])
      GCONV_TRY(gconv_node_read_integers(work, 4, "steps", &steps));
  }
  for (int32_t i = 0; i < in->axes; i++)
    GCONV_TRY(cut_axis(in->shape[i], 0, in->shape[i], 1, c, i));
  if (starts.count != ends.count || (axes.count && axes.count != starts.count) ||
      (steps.count && steps.count != starts.count) || starts.count > in->axes)
    return gconv_fail(GCONV_BAD_FILE, "has %d starts, %d ends, %d axes and %d steps for a tensor of %d axes", starts.count,
                      ends.count, axes.count, steps.count, in->axes);
  for (int32_t i = 0; i < starts.count; i++) {
    int32_t axis = i;
    if (axes.count)
      GCONV_TRY(gconv_tensor_axis(axes.number[i], in->axes, &axis));
    if (seen[axis])
      return gconv_fail(GCONV_BAD_FILE, "lists axis %d twice", axis);
    seen[axis] = true;
    GCONV_TRY(cut_axis(in->shape[axis], starts.number[i], ends.number[i], steps.count ? steps.number[i] : 1, c, axis));
  }
  return GCONV_OK;
}

static gconv_status shape_slice(const gconv_node_work *work, const gconv_node_kind *kind) {
  cut c;
  GCONV_TRY(find_cut(work, &c));
  gconv_node_set(work, 0, work->in[0]->type, work->in[0]->axes, c.count);
  return GCONV_OK;
}

static gconv_status run_slice(const gconv_node_work *work, const gconv_node_kind *kind) {
  int64_t in_step[GCONV_TENSOR_AXES], out_step[GCONV_TENSOR_AXES], at = 0;
  gconv_move how = {0};
  cut c;
  GCONV_TRY(find_cut(work, &c));
  steps_of(work->in[0], in_step);
  steps_of(work->out[0], out_step);
  for (int32_t i = 0; i < work->in[0]->axes; i++) {
    at += c.start[i] * in_step[i];
    gconv_move_add(&how, c.count[i], c.count[i] > 1 ? in_step[i] * c.step[i] : 0, out_step[i]);
  }
  return move(work, &how, work->in[0], at, work->out[0], 0);
}

/* ---- Gather ---- */

static gconv_status shape_gather(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0], *indices = work->in[1];
  int64_t shape[GCONV_TENSOR_AXES];
  int32_t axis, axes = 0;
  GCONV_TRY(gconv_tensor_axis(s->axis, in->axes, &axis));
  if (indices->type != GCONV_TENSOR_I64 && indices->type != GCONV_TENSOR_I32)
    return gconv_fail(GCONV_BAD_FILE, "takes its indices as %s, not as integers", gconv_tensor_type_name(indices->type));
  if (in->axes - 1 + indices->axes > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of more than %d axes", GCONV_TENSOR_AXES);
  for (int32_t i = 0; i < axis; i++)
    shape[axes++] = in->shape[i];
  for (int32_t i = 0; i < indices->axes; i++)
    shape[axes++] = indices->shape[i];
  for (int32_t i = axis + 1; i < in->axes; i++)
    shape[axes++] = in->shape[i];
  gconv_node_set(work, 0, in->type, axes, shape);
  return GCONV_OK;
}

/* Sets *index to index number `i`, counted from the beginning of an axis of `size` elements. */
static gconv_status check_index(const gconv_tensor *indices, int64_t i, int64_t size, int64_t *index) {
  const int64_t given =
      indices->type == GCONV_TENSOR_I64 ? ((const int64_t *)indices->data)[i] : ((const int32_t *)indices->data)[i];
  *index = given < 0 ? given + size : given;
  if (*index < 0 || *index >= size)
    return gconv_fail(GCONV_BAD_FILE, "takes element %" PRId64 " of an axis that has %" PRId64, given, size);
  return GCONV_OK;
}

static gconv_status run_gather(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0], *indices = work->in[1];
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, in->axes, &axis));
  const int64_t outer = gconv_tensor_count(in, 0, axis), inner = gconv_tensor_count(in, axis + 1, in->axes);
  const int64_t count = gconv_tensor_elements(indices), size = in->shape[axis];
  const size_t bytes = (size_t)inner * gconv_tensor_type_bytes(in->type);
  for (int64_t i = 0; i < count; i++) {
    int64_t index;
    GCONV_TRY(check_index(indices, i, size, &index));
    for (int64_t o = 0; o < outer; o++)
      memcpy((char *)work->out[0]->data + (size_t)(o * count + i) * bytes,
             (const char *)in->data + (size_t)(o * size + index) * bytes, bytes);
  }
  return GCONV_OK;
}

/* On a GPU, indices must be constant, because they are checked while planning. */
static gconv_status cuda_gather(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0], *indices = work->in[1];
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, in->axes, &axis));
  if (!indices->data)
    return gconv_fail(GCONV_UNSUPPORTED, "has indices that depend on the pixels of the image, which GPUs do not take");
  for (int64_t i = 0; i < gconv_tensor_elements(indices); i++)
    GCONV_TRY(check_index(indices, i, in->shape[axis], &(int64_t){0}));
  const gconv_gpu_gather job = {.in = in->there,
                                .index = indices->there,
                                .out = work->out[0]->there,
                                .outer = gconv_tensor_count(in, 0, axis),
                                .size = in->shape[axis],
                                .count = gconv_tensor_elements(indices),
                                .inner = gconv_tensor_count(in, axis + 1, in->axes),
                                .long_index = indices->type == GCONV_TENSOR_I64,
                                .bytes = gconv_tensor_type_bytes(in->type)};
  return gconv_gpu_gather_run(&job, work->stream);
}

/* ---- Expand, Tile ---- */

static gconv_status shape_expand(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0];
  gconv_node_integers wanted;
  gconv_tensor target = {.type = in->type}, result;
  GCONV_TRY(gconv_node_read_integers(work, 1, "shape", &wanted));
  if (wanted.count > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of %d axes: %d is the most", wanted.count, GCONV_TENSOR_AXES);
  for (target.axes = 0; target.axes < wanted.count; target.axes++)
    target.shape[target.axes] = wanted.number[target.axes];
  const gconv_tensor *both[] = {in, &target};
  const gconv_node_work pair = {.in = both, .in_count = 2};
  GCONV_TRY(gconv_node_broadcast(&pair, &result));
  gconv_node_set(work, 0, in->type, result.axes, result.shape);
  return GCONV_OK;
}

static gconv_status run_expand(const gconv_node_work *work, const gconv_node_kind *kind) {
  int64_t in_step[GCONV_TENSOR_AXES], out_step[GCONV_TENSOR_AXES];
  gconv_move how = {0};
  gconv_node_steps(work->in[0], work->out[0], in_step);
  steps_of(work->out[0], out_step);
  for (int32_t i = 0; i < work->out[0]->axes; i++)
    gconv_move_add(&how, work->out[0]->shape[i], in_step[i], out_step[i]);
  return move(work, &how, work->in[0], 0, work->out[0], 0);
}

static gconv_status shape_tile(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0];
  gconv_node_integers times;
  int64_t shape[GCONV_TENSOR_AXES];
  GCONV_TRY(gconv_node_read_integers(work, 1, "repeats", &times));
  if (times.count != in->axes)
    return gconv_fail(GCONV_BAD_FILE, "has %d repeats for %d axes", times.count, in->axes);
  for (int32_t i = 0; i < in->axes; i++)
    if (times.number[i] < 0 || __builtin_mul_overflow(in->shape[i], times.number[i], &shape[i]))
      return gconv_fail(GCONV_BAD_FILE, "repeats axis %d %" PRId64 " times", i, times.number[i]);
  gconv_node_set(work, 0, in->type, in->axes, shape);
  return GCONV_OK;
}

static gconv_status run_tile(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0], *out = work->out[0];
  int64_t in_step[GCONV_TENSOR_AXES], out_step[GCONV_TENSOR_AXES];
  gconv_move how = {0};
  steps_of(in, in_step);
  steps_of(out, out_step);
  for (int32_t i = 0; i < out->axes; i++) {
    gconv_move_add(&how, in->shape[i] > 0 ? out->shape[i] / in->shape[i] : 0, 0, out_step[i] * in->shape[i]);
    gconv_move_add(&how, in->shape[i], in_step[i], out_step[i]);
  }
  return move(work, &how, in, 0, out, 0);
}

/* ---- DepthToSpace, SpaceToDepth ---- */

enum { DEPTH_TO_SPACE, SPACE_TO_DEPTH, LARGEST_BLOCK = 1 << 15 };

static gconv_status shape_depth(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  const int64_t block = s->block, area = block > 0 && block <= LARGEST_BLOCK ? block * block : 1;
  const bool opens = kind->code == DEPTH_TO_SPACE;
  if (in->axes != 4 || block < 1 || block > LARGEST_BLOCK)
    return gconv_fail(GCONV_BAD_FILE, "takes blocks of %" PRId64 " of a tensor of %d axes, not of 4", block, in->axes);
  if (opens ? in->shape[1] % area != 0 : in->shape[2] % block != 0 || in->shape[3] % block != 0)
    return gconv_fail(GCONV_BAD_FILE,
                      "takes blocks of %" PRId64 " x %" PRId64 " of %" PRId64 " channels of %" PRId64 " x %" PRId64
                      " (height, width), which is no whole number of blocks",
                      block, block, in->shape[1], in->shape[2], in->shape[3]);
  const int64_t opened[] = {in->shape[0], in->shape[1] / area, in->shape[2] * block, in->shape[3] * block};
  const int64_t closed[] = {in->shape[0], in->shape[1] * area, in->shape[2] / block, in->shape[3] / block};
  gconv_node_set(work, 0, in->type, 4, opens ? opened : closed);
  return GCONV_OK;
}

/* Channels of the deep tensor are counted by row of the block, column of the block, channel; in mode CRD of DepthToSpace, by
 * channel, row, column. */
static gconv_status run_depth(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const bool opens = kind->code == DEPTH_TO_SPACE;
  const gconv_tensor *deep = opens ? work->in[0] : work->out[0], *wide = opens ? work->out[0] : work->in[0];
  const int64_t block = s->block, height = deep->shape[2], width = deep->shape[3], plane = height * width;
  const int64_t channels = wide->shape[1], line = wide->shape[3];
  const int64_t by_row = s->columns_first ? plane * block : plane * block * channels;
  const int64_t by_column = s->columns_first ? plane : plane * channels,
                by_channel = s->columns_first ? plane * block * block : plane;
  const struct {
    int64_t size, deep, wide;
  } axes[] = {{deep->shape[0], plane * deep->shape[1], plane * deep->shape[1]},
              {channels, by_channel, plane * block * block},
              {height, width, line * block},
              {block, by_row, line},
              {block, by_column, 1},
              {width, 1, block}};
  gconv_move how = {0};
  for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
    gconv_move_add(&how, axes[i].size, opens ? axes[i].deep : axes[i].wide, opens ? axes[i].wide : axes[i].deep);
  return move(work, &how, work->in[0], 0, work->out[0], 0);
}

static gconv_node_window window_depth(const gconv_node_work *work, int32_t input, int32_t axis) {
  const settings *s = work->settings;
  const bool opens = work->out[0]->shape[2] > work->in[0]->shape[2];
  return opens ? (gconv_node_window){1, s->block, 0, 0} : (gconv_node_window){s->block, 1, 0, s->block - 1};
}

/* Along the axis that is joined or divided, an output may need all inputs. Along other axes, elements keep their places. */
static gconv_node_window window_axis(const gconv_node_work *work, int32_t input, int32_t axis) {
  const settings *s = work->settings;
  int32_t own;
  const bool stays = gconv_tensor_axis(s->axis, work->in[0]->axes, &own) == GCONV_OK && own != axis;
  return (gconv_node_window){1, stays, 0, 0};
}

static gconv_node_window window_slice(const gconv_node_work *work, int32_t input, int32_t axis) {
  cut c;
  const bool stays = find_cut(work, &c) == GCONV_OK && c.step[axis] == 1 && c.count[axis] == work->in[0]->shape[axis];
  return (gconv_node_window){1, stays, 0, 0};
}

/* ---- The table ---- */

static rules none = {END}, perm = {INTS("perm", 1, NEWEST), END}, axis = {INT("axis", 1, NEWEST), END};
static rules old_split = {INT("axis", 1, NEWEST), INTS("split", 1, 12), END};
static rules split = {INT("axis", 1, NEWEST), INT("num_outputs", 18, NEWEST), END};
static rules old_slice = {INTS("axes", 1, 9), INTS("starts", 1, 9), INTS("ends", 1, 9), END};
static rules depth = {INT("blocksize", 1, NEWEST), STRING("mode"), END};

#define ROW(name, since, until, least, most, outs, known, reach, rules, code, shape, run, cuda, window)                     \
  GCONV_NODE_KIND(name, since, until, least, most, 1, outs, known, 0, GCONV_MEMORY_OWN, reach, rules, code,                 \
                  sizeof(settings), parse, shape, run, cuda, NULL, window, NULL, NULL)
#define ALL GCONV_REACH_ALL
const gconv_node_kind gconv_node_kinds_rearrange[] = {
    ROW("Transpose", 1, NEWEST, 1, 1, 1, 0, ALL, perm, 0, shape_transpose, run_transpose, run_transpose, NULL),
    GCONV_NODE_KIND_IN("Concat", GCONV_BLOCKS_ALIKE, 4, NEWEST, 1, GCONV_ANY_NUMBER, 1, 1, 0, 0, GCONV_MEMORY_JOINED,
                       GCONV_REACH_WINDOW, axis, 0, sizeof(settings), parse, shape_concat, run_concat, run_concat, NULL,
                       window_axis, NULL, NULL),
    ROW("Split", 2, 12, 1, 1, GCONV_ANY_NUMBER, 0, GCONV_REACH_WINDOW, old_split, 0, shape_split, run_split, run_split,
        window_axis),
    ROW("Split", 13, NEWEST, 1, 2, GCONV_ANY_NUMBER, 2, GCONV_REACH_WINDOW, split, 0, shape_split, run_split, run_split,
        window_axis),
    ROW("Slice", 1, 9, 1, 1, 1, 0, GCONV_REACH_WINDOW, old_slice, 0, shape_slice, run_slice, run_slice, window_slice),
    ROW("Slice", 10, NEWEST, 3, 5, 1, 30, GCONV_REACH_WINDOW, none, 0, shape_slice, run_slice, run_slice, window_slice),
    ROW("Gather", 1, NEWEST, 2, 2, 1, 0, ALL, axis, 0, shape_gather, run_gather, cuda_gather, NULL),
    ROW("Expand", 8, NEWEST, 2, 2, 1, 2, ALL, none, 0, shape_expand, run_expand, run_expand, NULL),
    ROW("Tile", 6, NEWEST, 2, 2, 1, 2, ALL, none, 0, shape_tile, run_tile, run_tile, NULL),
    ROW("DepthToSpace", 1, NEWEST, 1, 1, 1, 0, GCONV_REACH_WINDOW, depth, DEPTH_TO_SPACE, shape_depth, run_depth, run_depth,
        window_depth),
    ROW("SpaceToDepth", 1, NEWEST, 1, 1, 1, 0, GCONV_REACH_WINDOW, depth, SPACE_TO_DEPTH, shape_depth, run_depth, run_depth,
        window_depth),
    GCONV_NODE_KIND_END,
};

/* SPDX-License-Identifier: MIT */
/* Nodes that read or write elements at places that other tensors say: GatherElements, GatherND, ScatterElements, ScatterND.
 */
#include "bank/onnx_rules.h"
#include "graph/elementwise.h"

#include <inttypes.h>
#include <string.h>

enum { GATHERS, SCATTERS };
enum { DATA, INDICES, UPDATES };

typedef struct settings {
  int64_t axis, batches;
  int32_t reduction; /* how Scatter combines an old and a new element: a place in `reductions` and `operations` */
} settings;

static const char *const reductions[] = {"none", "add", "mul", "max", "min", NULL};
static const int32_t operations[] = {-1, ADD, MUL, MAX, MIN};

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  s->axis = gconv_onnx_integer_of(node, "axis", 0);
  s->batches = gconv_onnx_integer_of(node, "batch_dims", 0);
  return gconv_node_attribute_choice(node, "reduction", reductions, &s->reduction);
}

static gconv_status check_types(const gconv_node_work *work, bool scatters) {
  const settings *s = work->settings;
  const gconv_tensor_type type = work->in[INDICES]->type;
  if (type != GCONV_TENSOR_I64 && type != GCONV_TENSOR_I32)
    return gconv_fail(GCONV_BAD_FILE, "takes its indices as %s, not as integers", gconv_tensor_type_name(type));
  if (!scatters)
    return GCONV_OK;
  GCONV_TRY(gconv_node_need_type(work, UPDATES, work->in[DATA]->type));
  return s->reduction == 0 || gconv_elementwise_loop(operations[s->reduction], work->in[DATA]->type)
             ? GCONV_OK
             : gconv_fail(GCONV_UNSUPPORTED, "is not computed for %s numbers", gconv_tensor_type_name(work->in[DATA]->type));
}

/* Reads index number `at`, of an axis of `size` elements. A negative index counts from the end. */
static gconv_status read_index(const gconv_tensor *indices, int64_t at, int64_t size, int64_t *index) {
  const int64_t given = gconv_tensor_integer(indices, at);
  *index = given < 0 ? given + size : given;
  return *index >= 0 && *index < size
             ? GCONV_OK
             : gconv_fail(GCONV_BAD_FILE, "has the index %" PRId64 " of an axis of %" PRId64 " elements", given, size);
}

/* Copies `count` elements, or combines them with the elements of the target. */
static void put(const gconv_node_work *work, const gconv_tensor *from, int64_t from_at, const gconv_tensor *to,
                int64_t to_at, int64_t count) {
  static const int64_t steps[GCONV_LOOP_INPUTS] = {1, 1};
  const settings *s = work->settings;
  const size_t each = gconv_tensor_type_bytes(to->type);
  const void *in[GCONV_LOOP_INPUTS] = {(uint8_t *)to->data + (size_t)to_at * each,
                                       (const uint8_t *)from->data + (size_t)from_at * each};
  if (s->reduction == 0)
    memcpy((void *)in[0], in[1], (size_t)count * each);
  else
    gconv_elementwise_loop(operations[s->reduction], to->type)(in, steps, (void *)in[0], count, NULL);
}

/* ---- One index for each element ---- */

static gconv_status shape_elements(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *data = work->in[DATA], *indices = work->in[INDICES];
  int32_t axis;
  GCONV_TRY(check_types(work, kind->code == SCATTERS));
  GCONV_TRY(gconv_tensor_axis(s->axis, data->axes, &axis));
  bool fits = indices->axes == data->axes;
  for (int32_t i = 0; i < data->axes && fits; i++)
    fits = i == axis || indices->shape[i] <= data->shape[i];
  for (int32_t i = 0; i < data->axes && fits && kind->code == SCATTERS; i++)
    fits = work->in[UPDATES]->axes == data->axes && work->in[UPDATES]->shape[i] == indices->shape[i];
  if (!fits)
    return gconv_fail(GCONV_BAD_FILE, "has indices whose shape does not fit its data");
  gconv_node_set(work, 0, data->type, data->axes, kind->code == SCATTERS ? data->shape : indices->shape);
  return GCONV_OK;
}

static gconv_status run_elements(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *data = work->in[DATA], *indices = work->in[INDICES];
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, data->axes, &axis));
  if (kind->code == SCATTERS)
    memcpy(work->out[0]->data, data->data, gconv_tensor_bytes(data));
  for (int64_t i = 0; i < gconv_tensor_elements(indices); i++) {
    int64_t at = 0, rest = i, pitch = 1, index;
    GCONV_TRY(read_index(indices, i, data->shape[axis], &index));
    for (int32_t a = data->axes - 1; a >= 0; pitch *= data->shape[a], rest /= indices->shape[a--])
      at += (a == axis ? index : rest % indices->shape[a]) * pitch;
    if (kind->code == SCATTERS)
      put(work, work->in[UPDATES], i, work->out[0], at, 1);
    else
      put(work, data, at, work->out[0], i, 1);
  }
  return GCONV_OK;
}

/* ---- Lists of indices ---- */

/* The last axis of the indices is a list of `depth` numbers, for axes batches ... of the data. */
static gconv_status shape_nd(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *data = work->in[DATA], *indices = work->in[INDICES];
  gconv_tensor out = {.axes = 0};
  GCONV_TRY(check_types(work, kind->code == SCATTERS));
  const int64_t depth = indices->axes > 0 ? indices->shape[indices->axes - 1] : -1;
  if (depth < 0 || s->batches < 0 || s->batches >= indices->axes || s->batches + depth > data->axes)
    return gconv_fail(GCONV_BAD_FILE, "has lists of indices that do not fit its data");
  for (int64_t i = 0; i < s->batches; i++)
    if (indices->shape[i] != data->shape[i])
      return gconv_fail(GCONV_BAD_FILE, "has batches of other sizes in its indices and its data");
  if (indices->axes - 1 + data->axes - s->batches - depth > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of more than %d axes", GCONV_TENSOR_AXES);
  for (int32_t i = 0; i < indices->axes - 1; i++)
    out.shape[out.axes++] = indices->shape[i];
  for (int32_t i = (int32_t)(s->batches + depth); i < data->axes; i++)
    out.shape[out.axes++] = data->shape[i];
  if (kind->code == GATHERS) {
    gconv_node_set(work, 0, data->type, out.axes, out.shape);
    return GCONV_OK;
  }
  const gconv_tensor *updates = work->in[UPDATES];
  if (updates->axes != out.axes || memcmp(updates->shape, out.shape, (size_t)out.axes * sizeof *out.shape) != 0)
    return gconv_fail(GCONV_BAD_FILE, "has updates whose shape does not fit its indices");
  gconv_node_set_like(work, 0, data);
  return GCONV_OK;
}

static gconv_status run_nd(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *data = work->in[DATA], *indices = work->in[INDICES];
  const int32_t batches = (int32_t)s->batches, depth = (int32_t)indices->shape[indices->axes - 1];
  const int64_t lists = gconv_tensor_count(indices, 0, indices->axes - 1);
  const int64_t each_batch = gconv_tensor_count(indices, batches, indices->axes - 1);
  const int64_t piece = gconv_tensor_count(data, batches + depth, data->axes);
  const int64_t batch = gconv_tensor_count(data, batches, data->axes);
  if (kind->code == SCATTERS)
    memcpy(work->out[0]->data, data->data, gconv_tensor_bytes(data));
  for (int64_t i = 0; i < lists; i++) {
    int64_t at = i / each_batch * batch, index;
    for (int32_t d = 0; d < depth; d++) {
      GCONV_TRY(read_index(indices, i * depth + d, data->shape[batches + d], &index));
      at += index * gconv_tensor_count(data, batches + d + 1, data->axes);
    }
    if (kind->code == SCATTERS)
      put(work, work->in[UPDATES], i * piece, work->out[0], at, piece);
    else
      put(work, data, at, work->out[0], i * piece, piece);
  }
  return GCONV_OK;
}

static rules axis = {INT("axis", 1, NEWEST), STRING("reduction"), END}, batches = {INT("batch_dims", 12, NEWEST), END};
static rules reduction = {STRING("reduction"), END};

#define ROW(name, since, until, inputs, rules, code, shape, run)                                                            \
  GCONV_NODE_KIND(name, since, until, inputs, inputs, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, rules, code,           \
                  sizeof(settings), parse, shape, run, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_index[] = {
    ROW("GatherElements", 11, NEWEST, 2, axis, GATHERS, shape_elements, run_elements),
    ROW("GatherND", 11, NEWEST, 2, batches, GATHERS, shape_nd, run_nd),
    ROW("Scatter", 9, 10, 3, axis, SCATTERS, shape_elements, run_elements),
    ROW("ScatterElements", 11, NEWEST, 3, axis, SCATTERS, shape_elements, run_elements),
    ROW("ScatterND", 11, NEWEST, 3, reduction, SCATTERS, shape_nd, run_nd),
    GCONV_NODE_KIND_END,
};

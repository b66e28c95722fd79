/* SPDX-License-Identifier: MIT */
/* Reductions of many numbers along axes to one: sums, means, extremes, and the places of extremes. Sums of floats are
 * float64, in the order of the elements. */
#include "bank/onnx_rules.h"
#include "graph/moments.h"
#include "kernels/cuda/graph/graph.h"

#include <math.h>
#include <string.h>

typedef struct settings {
  bool keeps, given, nothing, last; /* given: the axes are an attribute; nothing: an empty list of axes is none, not all */
  bool by_moments;                  /* results for whole planes follow from gconv_plane_moments */
  gconv_node_integers axes;
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  const bool is_place = kind->code >= GCONV_REDUCE_PLACE_OF_LARGEST;
  s->keeps = gconv_onnx_integer_of(node, "keepdims", 1) != 0;
  s->nothing = gconv_onnx_integer_of(node, "noop_with_empty_axes", 0) != 0;
  s->last = gconv_onnx_integer_of(node, "select_last_index", 0) != 0;
  GCONV_TRY(gconv_node_attribute_list(node, "axes", INT64_MIN, INT64_MAX, &s->axes, &s->given));
  if (is_place)
    s->axes = (gconv_node_integers){{gconv_onnx_integer_of(node, "axis", 0)}, 1};
  s->given = s->given || is_place;
  s->by_moments = kind->code == GCONV_REDUCE_SUM || kind->code == GCONV_REDUCE_MEAN || kind->code == GCONV_REDUCE_LARGEST ||
                  kind->code == GCONV_REDUCE_SMALLEST;
  return GCONV_OK;
}

/* Sets reduced[i] to whether axis i is reduced. */
static gconv_status find_axes(const gconv_node_work *work, bool reduced[GCONV_TENSOR_AXES]) {
  const settings *s = work->settings;
  const int32_t count = work->in[0]->axes;
  gconv_node_integers list = s->axes;
  if (!s->given && work->in_count > 1 && work->in[1])
    GCONV_TRY(gconv_node_read_integers(work, 1, "axes", &list));
  for (int32_t i = 0; i < count; i++)
    reduced[i] = list.count == 0 && !s->nothing;
  for (int32_t i = 0, axis; i < list.count; i++) {
    GCONV_TRY(gconv_tensor_axis(list.number[i], count, &axis));
    reduced[axis] = true;
  }
  return GCONV_OK;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  bool reduced[GCONV_TENSOR_AXES] = {0};
  int64_t sizes[GCONV_TENSOR_AXES];
  int32_t axes = 0;
  GCONV_TRY(find_axes(work, reduced));
  if (kind->code == GCONV_REDUCE_L2 || kind->code == GCONV_REDUCE_LOG || kind->code == GCONV_REDUCE_LOG_OF_EXP)
    GCONV_TRY(gconv_node_need_real(work, 0, 0));
  for (int32_t i = 0; i < in->axes; i++)
    if (!reduced[i] || s->keeps)
      sizes[axes++] = reduced[i] ? 1 : in->shape[i];
  gconv_node_set(work, 0, kind->code >= GCONV_REDUCE_PLACE_OF_LARGEST ? GCONV_TENSOR_I64 : in->type, axes, sizes);
  return GCONV_OK;
}

typedef gconv_gpu_reduce reduction; /* on the CPU, too, with memory of the host */

/* Returns the place of element number `i`, counted along the axes. */
static int64_t place(int32_t axes, const int64_t *shape, const int64_t *step, int64_t i) {
  int64_t at = 0;
  for (int32_t a = axes - 1; a >= 0; a--) {
    at += i % shape[a] * step[a];
    i /= shape[a];
  }
  return at;
}

/* Returns the logarithm of the sum of exp(x). `largest` is the largest x. */
static double log_of_exp(const reduction *r, int64_t first, double largest) {
  const double from = isfinite(largest) ? largest : 0;
  const gconv_tensor in = {.type = (gconv_tensor_type)r->type, .data = (void *)r->in};
  double sum = 0;
  for (int64_t i = 0; i < r->count; i++)
    sum += exp(gconv_tensor_number(&in, first + place(r->reduced, r->shape, r->step, i)) - from);
  return sum > 0 || sum != sum ? log(sum) + from : -INFINITY; /* -INFINITY: there are no elements */
}

static double finish_real(const reduction *r, int64_t first, double sum) {
  switch (r->how) {
  case GCONV_REDUCE_MEAN:
    return sum / (double)r->count;
  case GCONV_REDUCE_L2:
    return sqrt(sum);
  case GCONV_REDUCE_LOG:
    return log(sum);
  case GCONV_REDUCE_LOG_OF_EXP:
    return log_of_exp(r, first, sum);
  case GCONV_REDUCE_SUM:
  case GCONV_REDUCE_PRODUCT:
  case GCONV_REDUCE_LARGEST:
  case GCONV_REDUCE_SMALLEST:
  case GCONV_REDUCE_L1:
  case GCONV_REDUCE_SQUARES:
  case GCONV_REDUCE_PLACE_OF_LARGEST:
  case GCONV_REDUCE_PLACE_OF_SMALLEST:
    break;
  }
  return sum;
}

/* Reduces the elements from `first` on to output `i`. `wide` is the type of sums: integers wrap around in it. */
#define REDUCE(name, type, wide, lowest, highest, finish)                                                                   \
  static void name(const reduction *r, int64_t first, int64_t i) {                                                          \
    const type *in = (const type *)r->in + first;                                                                           \
    const int32_t inner = r->reduced - 1;                                                                                   \
    const int64_t line = inner >= 0 ? r->shape[inner] : 1, step = inner >= 0 ? r->step[inner] : 0;                          \
    int64_t place_of = 0;                                                                                                   \
    wide sum = r->how == GCONV_REDUCE_PRODUCT ? 1 : 0;                                                                      \
    if (r->how == GCONV_REDUCE_LARGEST || r->how == GCONV_REDUCE_LOG_OF_EXP || r->how == GCONV_REDUCE_PLACE_OF_LARGEST)     \
      sum = (wide)lowest;                                                                                                   \
    if (r->how == GCONV_REDUCE_SMALLEST || r->how == GCONV_REDUCE_PLACE_OF_SMALLEST)                                        \
      sum = (wide)highest;                                                                                                  \
    for (int64_t k = 0; k < r->count; k += line) {                                                                          \
      const type *from = in + place(inner, r->shape, r->step, k / line);                                                    \
      for (int64_t l = 0; l < line; l++) {                                                                                  \
        const type v = from[l * step];                                                                                      \
        switch (r->how) {                                                                                                   \
        case GCONV_REDUCE_SUM:                                                                                              \
        case GCONV_REDUCE_MEAN:                                                                                             \
        case GCONV_REDUCE_LOG:                                                                                              \
          sum += (wide)v;                                                                                                   \
          break;                                                                                                            \
        case GCONV_REDUCE_PRODUCT:                                                                                          \
          sum *= (wide)v;                                                                                                   \
          break;                                                                                                            \
        case GCONV_REDUCE_LARGEST:                                                                                          \
        case GCONV_REDUCE_LOG_OF_EXP:                                                                                       \
          sum = v > (type)sum || v != v ? (wide)v : sum;                                                                    \
          break;                                                                                                            \
        case GCONV_REDUCE_SMALLEST:                                                                                         \
          sum = v < (type)sum || v != v ? (wide)v : sum;                                                                    \
          break;                                                                                                            \
        case GCONV_REDUCE_L1:                                                                                               \
          sum += (double)v < 0 ? -(wide)v : (wide)v;                                                                        \
          break;                                                                                                            \
        case GCONV_REDUCE_L2:                                                                                               \
        case GCONV_REDUCE_SQUARES:                                                                                          \
          sum += (wide)v * (wide)v;                                                                                         \
          break;                                                                                                            \
        case GCONV_REDUCE_PLACE_OF_LARGEST:                                                                                 \
        case GCONV_REDUCE_PLACE_OF_SMALLEST: {                                                                              \
          const bool better = r->how == GCONV_REDUCE_PLACE_OF_LARGEST ? v > (type)sum : v < (type)sum;                      \
          if (k + l == 0 || better || (r->last && v == (type)sum)) {                                                        \
            sum = (wide)v;                                                                                                  \
            place_of = k + l;                                                                                               \
          }                                                                                                                 \
          break;                                                                                                            \
        }                                                                                                                   \
        }                                                                                                                   \
      }                                                                                                                     \
    }                                                                                                                       \
    if (r->how >= GCONV_REDUCE_PLACE_OF_LARGEST)                                                                            \
      ((int64_t *)r->out)[i] = place_of;                                                                                    \
    else                                                                                                                    \
      ((type *)r->out)[i] = (type)finish(r, first, sum);                                                                    \
  }

/* The mean of integers is rounded towards 0. */
static int64_t finish_signed(const reduction *r, int64_t first, uint64_t sum) {
  return r->how == GCONV_REDUCE_MEAN && r->count > 0 ? (int64_t)sum / r->count : (int64_t)sum;
}
static uint64_t finish_unsigned(const reduction *r, int64_t first, uint64_t sum) {
  return r->how == GCONV_REDUCE_MEAN && r->count > 0 ? sum / (uint64_t)r->count : sum;
}

REDUCE(reduce_f32, float, double, -INFINITY, INFINITY, finish_real)
REDUCE(reduce_f64, double, double, -INFINITY, INFINITY, finish_real)
REDUCE(reduce_i8, int8_t, uint64_t, INT8_MIN, INT8_MAX, finish_signed)
REDUCE(reduce_i16, int16_t, uint64_t, INT16_MIN, INT16_MAX, finish_signed)
REDUCE(reduce_i32, int32_t, uint64_t, INT32_MIN, INT32_MAX, finish_signed)
REDUCE(reduce_i64, int64_t, uint64_t, INT64_MIN, INT64_MAX, finish_signed)
REDUCE(reduce_u8, uint8_t, uint64_t, 0, UINT8_MAX, finish_unsigned)
REDUCE(reduce_u16, uint16_t, uint64_t, 0, UINT16_MAX, finish_unsigned)
REDUCE(reduce_u32, uint32_t, uint64_t, 0, UINT32_MAX, finish_unsigned)
REDUCE(reduce_u64, uint64_t, uint64_t, 0, UINT64_MAX, finish_unsigned)
REDUCE(reduce_bool, bool, uint64_t, 0, 1, finish_unsigned)

static void (*const reducers[GCONV_TENSOR_TYPES])(const reduction *r, int64_t first, int64_t i) = {
    [GCONV_TENSOR_F32] = reduce_f32, [GCONV_TENSOR_F64] = reduce_f64,  [GCONV_TENSOR_I8] = reduce_i8,
    [GCONV_TENSOR_I16] = reduce_i16, [GCONV_TENSOR_I32] = reduce_i32,  [GCONV_TENSOR_I64] = reduce_i64,
    [GCONV_TENSOR_U8] = reduce_u8,   [GCONV_TENSOR_U16] = reduce_u16,  [GCONV_TENSOR_U32] = reduce_u32,
    [GCONV_TENSOR_U64] = reduce_u64, [GCONV_TENSOR_BOOL] = reduce_bool};

static void reduce_part(void *context, int64_t begin, int64_t end) {
  const reduction *r = context;
  for (int64_t i = begin; i < end; i++)
    reducers[r->type](r, place(r->kept, r->kept_shape, r->kept_step, i), i);
}

/* Appends an axis, or makes the axis before it longer if both are neighbours in memory. */
static void add_axis(int64_t size, int64_t step, int32_t *axes, int64_t *shape, int64_t *steps) {
  if (*axes > 0 && steps[*axes - 1] == size * step) {
    shape[*axes - 1] *= size;
    steps[*axes - 1] = step;
    return;
  }
  shape[*axes] = size;
  steps[(*axes)++] = step;
}

/* Describes the work of a node. */
static gconv_status make(const gconv_node_work *work, const gconv_node_kind *kind, reduction *result) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0], *out = work->out[0];
  reduction r = {.how = (gconv_gpu_reduction)kind->code,
                 .outputs = gconv_tensor_elements(out),
                 .count = 1,
                 .in = gconv_node_data(work, in),
                 .out = gconv_node_data(work, out),
                 .type = in->type,
                 .last = s->last};
  bool reduced[GCONV_TENSOR_AXES] = {0};
  GCONV_TRY(find_axes(work, reduced));
  for (int32_t i = 0; i < in->axes; i++) {
    const int64_t size = in->shape[i], step = gconv_tensor_count(in, i + 1, in->axes);
    if (reduced[i]) {
      add_axis(size, step, &r.reduced, r.shape, r.step);
      r.count *= size;
    } else
      add_axis(size, step, &r.kept, r.kept_shape, r.kept_step);
  }
  if (r.count == 0 && r.how >= GCONV_REDUCE_PLACE_OF_LARGEST)
    return gconv_fail(GCONV_BAD_FILE, "looks for the largest or smallest of no elements");
  *result = r;
  return GCONV_OK;
}

/* Writes results that follow from the moments of a whole image. */
static void put_moments(const gconv_node_work *work, int32_t code) {
  for (int64_t c = 0; c < work->in[0]->shape[1]; c++) {
    const gconv_plane_moments *m = &work->moments[c];
    const double made = code == GCONV_REDUCE_SUM       ? m->mean * m->count
                        : code == GCONV_REDUCE_MEAN    ? m->mean
                        : code == GCONV_REDUCE_LARGEST ? m->largest
                                                       : m->smallest;
    ((float *)work->out[0]->data)[c] = (float)made;
  }
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  reduction r;
  if (work->moments) {
    put_moments(work, kind->code);
    return GCONV_OK;
  }
  GCONV_TRY(make(work, kind, &r));
  gconv_node_share(work, r.outputs, (1 << 14) / (r.count + 1) + 1, reduce_part, &r);
  return GCONV_OK;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor_type type = work->in[0]->type;
  reduction r;
  GCONV_TRY(make(work, kind, &r));
  if (type != GCONV_TENSOR_F32 && type != GCONV_TENSOR_I32 && type != GCONV_TENSOR_I64)
    return gconv_fail(GCONV_UNSUPPORTED, "reduces numbers of %s, which GPUs do not do", gconv_tensor_type_name(type));
  return gconv_gpu_reduce_run(&r, work->stream);
}

static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t axis) {
  const settings *s = work->settings;
  bool reduced[GCONV_TENSOR_AXES] = {0};
  const bool found = find_axes(work, reduced) == GCONV_OK;
  if (found && s->by_moments && !reduced[0] && !reduced[1] && reduced[2] && reduced[3])
    return gconv_node_by_moments(work, input, axis);
  return (gconv_node_window){1, found && !reduced[axis], 0, 0};
}

static rules old = {INTS("axes", 1, 17), INT("keepdims", 1, NEWEST), INT("noop_with_empty_axes", 13, NEWEST), END};
static rules new = {INT("keepdims", 1, NEWEST), INT("noop_with_empty_axes", 13, NEWEST), END};
static rules place_rules = {INT("axis", 1, NEWEST), INT("keepdims", 1, NEWEST), INT("select_last_index", 12, NEWEST), END};

#define ROW(name, since, until, most, known, rules, code)                                                                   \
  GCONV_NODE_KIND(name, since, until, 1, most, 1, 1, known, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, rules, code,           \
                  sizeof(settings), parse, shape, run, cuda, NULL, window, NULL, NULL)
#define BOTH(name, change, code) ROW(name, 1, change - 1, 1, 0, old, code), ROW(name, change, NEWEST, 2, 2, new, code)
const gconv_node_kind gconv_node_kinds_reduce[] = {
    BOTH("ReduceSum", 13, GCONV_REDUCE_SUM),
    BOTH("ReduceMean", 18, GCONV_REDUCE_MEAN),
    BOTH("ReduceProd", 18, GCONV_REDUCE_PRODUCT),
    BOTH("ReduceMax", 18, GCONV_REDUCE_LARGEST),
    BOTH("ReduceMin", 18, GCONV_REDUCE_SMALLEST),
    BOTH("ReduceL1", 18, GCONV_REDUCE_L1),
    BOTH("ReduceL2", 18, GCONV_REDUCE_L2),
    BOTH("ReduceSumSquare", 18, GCONV_REDUCE_SQUARES),
    BOTH("ReduceLogSum", 18, GCONV_REDUCE_LOG),
    BOTH("ReduceLogSumExp", 18, GCONV_REDUCE_LOG_OF_EXP),
    ROW("ArgMax", 1, NEWEST, 1, 0, place_rules, GCONV_REDUCE_PLACE_OF_LARGEST),
    ROW("ArgMin", 1, NEWEST, 1, 0, place_rules, GCONV_REDUCE_PLACE_OF_SMALLEST),
    GCONV_NODE_KIND_END,
};

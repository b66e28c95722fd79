/* SPDX-License-Identifier: MIT */
/* Nodes that work along an axis or make patterns: CumSum, CumProd, TopK, Trilu, EyeLike, OneHot, NonZero. */
#include "bank/onnx_rules.h"
#include "base/memory.h"
#include "graph/elementwise.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
  int64_t axis, diagonal, type, count;
  bool exclusive, reverse, upper, largest;
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  s->axis = gconv_onnx_integer_of(node, "axis", -1);
  s->diagonal = gconv_onnx_integer_of(node, "k", 0);
  s->type = gconv_onnx_integer_of(node, "dtype", 0);
  s->exclusive = gconv_onnx_integer_of(node, "exclusive", 0) != 0;
  s->reverse = gconv_onnx_integer_of(node, "reverse", 0) != 0;
  s->upper = gconv_onnx_integer_of(node, "upper", 1) != 0;
  s->largest = gconv_onnx_integer_of(node, "largest", 1) != 0;
  return GCONV_OK;
}

/* Reads one integer that is constant. */
static gconv_status read_one(const gconv_node_work *work, int32_t input, const char *what, int64_t *number) {
  const gconv_tensor *t = work->in[input];
  if (!t->data || gconv_tensor_elements(t) != 1)
    return gconv_fail(GCONV_UNSUPPORTED, "needs as its %s one number that does not depend on the image", what);
  *number = gconv_tensor_integer(t, 0);
  return GCONV_OK;
}

/* ---- CumSum, CumProd ---- */

static gconv_status shape_sums(const gconv_node_work *work, const gconv_node_kind *kind) {
  int64_t number = 0;
  int32_t axis;
  GCONV_TRY(read_one(work, 1, "axis", &number));
  GCONV_TRY(gconv_tensor_axis(number, work->in[0]->axes, &axis));
  if (!gconv_elementwise_loop(kind->code, work->in[0]->type))
    return gconv_fail(GCONV_UNSUPPORTED, "is not computed for %s numbers", gconv_tensor_type_name(work->in[0]->type));
  gconv_node_set_like(work, 0, work->in[0]);
  return GCONV_OK;
}

/* Each row of `inner` elements is the row before it plus, or times, a row of the input. */
static gconv_status run_sums(const gconv_node_work *work, const gconv_node_kind *kind) {
  static const int64_t steps[GCONV_LOOP_INPUTS] = {1, 1};
  const settings *s = work->settings;
  const gconv_tensor *x = work->in[0];
  gconv_element_loop *loop = gconv_elementwise_loop(kind->code, x->type);
  const int64_t one = kind->code == MUL, first = gconv_tensor_integer(work->in[1], 0);
  const size_t each = gconv_tensor_type_bytes(x->type);
  const gconv_tensor start = {.type = GCONV_TENSOR_I64, .data = (void *)&one};
  uint64_t bits = 0;
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(first, x->axes, &axis));
  gconv_tensor_convert(&start, &(gconv_tensor){.type = x->type, .data = &bits}, 0, 1);
  const int64_t size = x->shape[axis], inner = gconv_tensor_count(x, axis + 1, x->axes);
  const size_t row = (size_t)inner * each;
  for (int64_t line = 0; line < gconv_tensor_elements(x) / (inner > 0 ? inner : 1); line++) {
    const int64_t i = line % size, at = line - i + (s->reverse ? size - 1 - i : i), before = at + (s->reverse ? 1 : -1);
    uint8_t *to = (uint8_t *)work->out[0]->data + (size_t)at * row;
    const uint8_t *in = (const uint8_t *)x->data;
    const void *both[GCONV_LOOP_INPUTS] = {(uint8_t *)work->out[0]->data + (size_t)(i > 0 ? before : at) * row,
                                           in + (size_t)(s->exclusive && i > 0 ? before : at) * row};
    if (i > 0)
      loop(both, steps, to, inner, NULL);
    else if (!s->exclusive)
      memcpy(to, both[1], row);
    for (int64_t k = 0; i == 0 && s->exclusive && k < inner; k++)
      memcpy(to + (size_t)k * each, &bits, each);
  }
  return GCONV_OK;
}

/* ---- TopK ---- */

static gconv_status shape_top(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_tensor out = *work->in[0];
  int64_t count = s->diagonal; /* an attribute up to opset 9 */
  int32_t axis;
  if (work->in_count > 1)
    GCONV_TRY(read_one(work, 1, "count", &count));
  GCONV_TRY(gconv_tensor_axis(s->axis, out.axes, &axis));
  if (count < 0 || count > out.shape[axis])
    return gconv_fail(GCONV_BAD_FILE, "takes %" PRId64 " of %" PRId64 " elements", count, out.shape[axis]);
  out.shape[axis] = count;
  gconv_node_set_like(work, 0, &out);
  gconv_node_set(work, 1, GCONV_TENSOR_I64, out.axes, out.shape);
  return GCONV_OK;
}

typedef struct order {
  const gconv_tensor *x;
  bool largest;
} order;

/* Equal elements keep their order. */
static int compare(const void *a, const void *b, void *context) {
  const order *o = context;
  const int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
  const double x = gconv_tensor_number(o->x, i), y = gconv_tensor_number(o->x, k);
  if (x != y && (x == x || y == y)) /* NaN is larger than all numbers */
    return (x < y || y != y) == o->largest ? 1 : -1;
  if (!gconv_tensor_type_is_real(o->x->type) && gconv_tensor_integer(o->x, i) != gconv_tensor_integer(o->x, k))
    return (gconv_tensor_integer(o->x, i) < gconv_tensor_integer(o->x, k)) == o->largest ? 1 : -1;
  return (i > k) - (i < k);
}

static gconv_status run_top(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *x = work->in[0], *out = work->out[0];
  const size_t each = gconv_tensor_type_bytes(x->type);
  order o = {x, s->largest};
  void *memory = NULL;
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, x->axes, &axis));
  const int64_t size = x->shape[axis], kept = out->shape[axis], inner = gconv_tensor_count(x, axis + 1, x->axes);
  GCONV_TRY(gconv_allocate((size_t)size * sizeof(int64_t), "an order", &memory));
  int64_t *places = memory;
  for (int64_t line = 0; size > 0 && line < gconv_tensor_elements(x) / size; line++) {
    const int64_t first = line / inner * size * inner + line % inner, to = line / inner * kept * inner + line % inner;
    for (int64_t i = 0; i < size; i++)
      places[i] = first + i * inner;
    qsort_r(places, (size_t)size, sizeof *places, compare, &o);
    for (int64_t i = 0; i < kept; i++) {
      memcpy((uint8_t *)out->data + (size_t)(to + i * inner) * each, (const uint8_t *)x->data + (size_t)places[i] * each,
             each);
      if (work->out_count > 1 && work->out[1])
        ((int64_t *)work->out[1]->data)[to + i * inner] = (places[i] - first) / inner;
    }
  }
  gconv_release(memory);
  return GCONV_OK;
}

/* ---- Trilu, EyeLike, OneHot ---- */

static gconv_status shape_triangle(const gconv_node_work *work, const gconv_node_kind *kind) {
  int64_t diagonal;
  if (work->in_count > 1 && work->in[1])
    GCONV_TRY(read_one(work, 1, "diagonal", &diagonal));
  if (work->in[0]->axes < 2)
    return gconv_fail(GCONV_BAD_FILE, "takes a triangle of a tensor that has no rows and columns");
  gconv_node_set_like(work, 0, work->in[0]);
  return GCONV_OK;
}

static gconv_status run_triangle(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *x = work->in[0];
  const int64_t width = x->shape[x->axes - 1], height = x->shape[x->axes - 2];
  const int64_t diagonal = work->in_count > 1 && work->in[1] ? gconv_tensor_integer(work->in[1], 0) : 0;
  const size_t each = gconv_tensor_type_bytes(x->type);
  for (int64_t line = 0; width > 0 && line < gconv_tensor_elements(x) / width; line++) {
    const int64_t row = line % height, wanted = diagonal < -height ? 0
                                                : diagonal > width ? width
                                                                   : row + diagonal + !s->upper;
    const int64_t edge = wanted < 0 ? 0 : wanted > width ? width : wanted; /* the first element of the upper part */
    uint8_t *to = (uint8_t *)work->out[0]->data + (size_t)(line * width) * each;
    memcpy(to, (const uint8_t *)x->data + (size_t)(line * width) * each, (size_t)width * each);
    memset(to + (s->upper ? 0 : (size_t)edge * each), 0, (size_t)(s->upper ? edge : width - edge) * each);
  }
  return GCONV_OK;
}

static gconv_status shape_eye(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_tensor_type type = work->in[0]->type;
  if (work->in[0]->axes != 2)
    return gconv_fail(GCONV_BAD_FILE, "makes a matrix like a tensor of %d axes", work->in[0]->axes);
  if (s->type != 0 && !gconv_tensor_type_of_onnx(s->type, &type, NULL))
    return gconv_fail(GCONV_UNSUPPORTED, "makes %s numbers, which are not computed here", gconv_onnx_type_name(s->type));
  gconv_node_set(work, 0, gconv_node_type(work, type), 2, work->in[0]->shape);
  return GCONV_OK;
}

static gconv_status run_eye(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *out = work->out[0];
  const size_t each = gconv_tensor_type_bytes(out->type);
  bool one = true;
  uint64_t bits = 0;
  gconv_tensor_convert(&(gconv_tensor){.type = GCONV_TENSOR_BOOL, .data = &one},
                       &(gconv_tensor){.type = out->type, .data = &bits}, 0, 1);
  memset(out->data, 0, gconv_tensor_bytes(out));
  for (int64_t y = 0; y < out->shape[0]; y++)
    if (s->diagonal >= -y && s->diagonal < out->shape[1] - y)
      memcpy((uint8_t *)out->data + (size_t)(y * out->shape[1] + y + s->diagonal) * each, &bits, each);
  return GCONV_OK;
}

/* The new axis has `depth` elements: values[1] where the index is, else values[0]. */
static gconv_status shape_hot(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_tensor out = *work->in[0];
  int64_t depth = 0;
  int32_t axis;
  GCONV_TRY(read_one(work, 1, "depth", &depth));
  GCONV_TRY(gconv_tensor_axis(s->axis, out.axes + 1, &axis));
  if (depth < 1 || gconv_tensor_elements(work->in[2]) != 2 || out.axes == GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_BAD_FILE, "has a depth of %" PRId64 " and %" PRId64 " values", depth,
                      gconv_tensor_elements(work->in[2]));
  memmove(out.shape + axis + 1, out.shape + axis, (size_t)(out.axes - axis) * sizeof *out.shape);
  out.shape[axis] = depth;
  gconv_node_set(work, 0, work->in[2]->type, out.axes + 1, out.shape);
  return GCONV_OK;
}

static gconv_status run_hot(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *indices = work->in[0], *out = work->out[0];
  const size_t each = gconv_tensor_type_bytes(out->type);
  int32_t axis;
  GCONV_TRY(gconv_tensor_axis(s->axis, out->axes, &axis));
  const int64_t depth = out->shape[axis], inner = gconv_tensor_count(out, axis + 1, out->axes);
  for (int64_t i = 0; i < gconv_tensor_elements(out); i++) {
    const int64_t given = gconv_tensor_integer(indices, i / inner / depth * inner + i % inner);
    const bool hot = (given < 0 ? given + depth : given) == i / inner % depth;
    memcpy((uint8_t *)out->data + (size_t)i * each, (const uint8_t *)work->in[2]->data + (hot ? each : 0), each);
  }
  return GCONV_OK;
}

/* ---- NonZero ---- */

/* The number of places depends on the elements, so the elements must be constant. Old models count by NonZero, as others do
 * by Range. */
static gconv_status shape_places(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *x = work->in[0];
  int64_t shape[2] = {x->axes, 0};
  if (x->axes == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "looks for places in a scalar");
  for (int64_t i = 0; i < gconv_tensor_elements(x); i++)
    shape[1] += gconv_tensor_number(x, i) != 0;
  gconv_node_set(work, 0, GCONV_TENSOR_I64, 2, shape);
  return GCONV_OK;
}

static gconv_status run_places(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *x = work->in[0];
  const int64_t count = work->out[0]->shape[1];
  int64_t *places = work->out[0]->data;
  for (int64_t i = 0, found = 0; found < count; i++) {
    int64_t rest = i;
    if (gconv_tensor_number(x, i) == 0)
      continue;
    for (int32_t axis = x->axes - 1; axis >= 0; rest /= x->shape[axis--])
      places[axis * count + found] = rest % x->shape[axis];
    found++;
  }
  return GCONV_OK;
}

static rules sums = {INT("exclusive", 1, NEWEST), INT("reverse", 1, NEWEST), END}, upper = {INT("upper", 1, NEWEST), END};
static rules none = {END};
static rules eye = {INT("dtype", 1, NEWEST), INT("k", 1, NEWEST), END}, hot = {INT("axis", 1, NEWEST), END};
static rules top = {INT("axis", 1, NEWEST), INT("largest", 11, NEWEST), INT("sorted", 11, NEWEST), INT("k", 1, 9), END};

#define ROW(name, since, until, least, most, outs, known, unread, rules, code, shape, run)                                  \
  GCONV_NODE_KIND(name, since, until, least, most, 1, outs, known, unread, GCONV_MEMORY_OWN, GCONV_REACH_ALL, rules, code,  \
                  sizeof(settings), parse, shape, run, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_line[] = {
    ROW("CumSum", 11, NEWEST, 2, 2, 1, 2, 0, sums, ADD, shape_sums, run_sums),
    ROW("CumProd", 26, NEWEST, 2, 2, 1, 2, 0, sums, MUL, shape_sums, run_sums),
    ROW("TopK", 1, 9, 1, 1, 2, 0, 0, top, 0, shape_top, run_top),
    ROW("TopK", 10, NEWEST, 2, 2, 2, 2, 0, top, 0, shape_top, run_top),
    ROW("Trilu", 14, NEWEST, 1, 2, 1, 2, 0, upper, 0, shape_triangle, run_triangle),
    ROW("EyeLike", 9, NEWEST, 1, 1, 1, 0, 1, eye, 0, shape_eye, run_eye),
    ROW("NonZero", 9, NEWEST, 1, 1, 1, 1, 0, none, 0, shape_places, run_places),
    ROW("OneHot", 9, NEWEST, 3, 3, 1, 2, 0, hot, 0, shape_hot, run_hot),
    GCONV_NODE_KIND_END,
};

/* SPDX-License-Identifier: MIT */
/*
 * Convolutions and products of quantised numbers: QLinearConv, ConvInteger, QLinearMatMul, MatMulInteger. Sums are int32,
 * and wrap around. A result is rounded to the nearest integer, ties to even, as ONNX Runtime does.
 */
#include "bank/onnx_rules.h"
#include "graph/conv.h"
#include "graph/plain_conv.h"
#include "graph/product.h"

#include <math.h>

enum { QLINEAR, INTEGER };

/* The inputs of a node: two factors, each with a zero point, and the biases. QLINEAR also has a scale of each factor, and a
 * scale and a zero point of the result. NULL: there is none. */
typedef struct factors {
  const gconv_tensor *a, *a_scale, *a_zero, *b, *b_scale, *b_zero, *scale, *zero, *biases;
} factors;

static factors factors_of(const gconv_node_work *work, int32_t code) {
  const gconv_tensor *in[9] = {NULL};
  for (int32_t i = 0; i < work->in_count && i < 9; i++)
    in[i] = work->in[i];
  if (code == INTEGER)
    return (factors){.a = in[0], .b = in[1], .a_zero = in[2], .b_zero = in[3]};
  return (factors){in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8]};
}

static bool is_byte(const gconv_tensor *t) {
  return t->type == GCONV_TENSOR_U8 || t->type == GCONV_TENSOR_I8;
}

/* Fails unless a tensor of parameters has one number, or `count`. */
static gconv_status check_list(const gconv_tensor *t, int64_t count, const char *what) {
  return !t || gconv_tensor_elements(t) == 1 || gconv_tensor_elements(t) == count
             ? GCONV_OK
             : gconv_fail(GCONV_UNSUPPORTED, "has %lld numbers as %s: there can be one, or one for each of %lld",
                          (long long)gconv_tensor_elements(t), what, (long long)count);
}

/* The first factor may have `rows` scales and zero points, the second `columns`. */
static gconv_status check(const factors *f, int64_t rows, int64_t columns) {
  if (!is_byte(f->a) || !is_byte(f->b) || (f->a_zero && f->a_zero->type != f->a->type) ||
      (f->b_zero && f->b_zero->type != f->b->type) || (f->zero && !is_byte(f->zero)))
    return gconv_fail(GCONV_UNSUPPORTED, "takes int8 and uint8 numbers, with zero points of the same types");
  if (f->scale && (gconv_tensor_elements(f->scale) != 1 || gconv_tensor_elements(f->zero) != 1))
    return gconv_fail(GCONV_UNSUPPORTED, "has more than one scale or zero point of its result");
  if (f->biases && f->biases->type != GCONV_TENSOR_I32)
    return gconv_fail(GCONV_UNSUPPORTED, "has biases that are not int32");
  GCONV_TRY(check_list(f->a_scale, rows, "the scale of its first factor"));
  GCONV_TRY(check_list(f->a_zero, rows, "the zero point of its first factor"));
  GCONV_TRY(check_list(f->b_scale, columns, "the scale of its second factor"));
  return check_list(f->b_zero, columns, "the zero point of its second factor");
}

/* ---- Integers ---- */

/* Sets to[i] = t[i] - its zero point, which is one number, or one for each element of `axis`. */
static void shift(const gconv_tensor *t, const gconv_tensor *zero, int32_t axis, int32_t *to) {
  const int64_t count = gconv_tensor_elements(t), zeros = zero ? gconv_tensor_elements(zero) : 1;
  const int64_t inner = zeros > 1 ? gconv_tensor_count(t, axis + 1, t->axes) : count;
  for (int64_t i = 0, line = 0; i < count; line++) {
    const int32_t less = zero ? (int32_t)gconv_tensor_integer(zero, line % zeros) : 0;
    const int64_t stop = i + inner;
    if (t->type == GCONV_TENSOR_U8)
      for (; i < stop; i++)
        to[i] = ((const uint8_t *)t->data)[i] - less;
    else
      for (; i < stop; i++)
        to[i] = ((const int8_t *)t->data)[i] - less;
  }
}

static float number_of(const gconv_tensor *t, int64_t i) {
  return (float)gconv_tensor_number(t, gconv_tensor_elements(t) == 1 ? 0 : i);
}

typedef struct scaling {
  const factors *f;
  const int32_t *sums;
  const gconv_tensor *out;
  int64_t inner, columns, rows; /* element i has b's scale i / inner % columns, and a's scale i / inner / columns % rows */
} scaling;

/* Scales elements begin .. end - 1 of the sums, rounds them, and adds the zero point. */
static void scale_sums(void *context, int64_t begin, int64_t end) {
  const scaling *s = context;
  const bool natural = s->out->type == GCONV_TENSOR_U8;
  const float zero = (float)gconv_tensor_number(s->f->zero, 0), out_scale = (float)gconv_tensor_number(s->f->scale, 0);
  const float least = (natural ? 0 : INT8_MIN) - zero, most = (natural ? UINT8_MAX : INT8_MAX) - zero;
  for (int64_t i = begin; i < end;) {
    const int64_t line = i / s->inner, stop = (line + 1) * s->inner < end ? (line + 1) * s->inner : end;
    const float factor =
        number_of(s->f->a_scale, line / s->columns % s->rows) * number_of(s->f->b_scale, line % s->columns) / out_scale;
    for (; i < stop; i++) {
      float v = (float)s->sums[i] * factor;
      v = v >= least ? v > most ? most : v : least; /* NaN, of a scale of 0 or infinity, becomes the least */
      const int32_t q = (int32_t)(rintf(v) + zero);
      if (natural)
        ((uint8_t *)s->out->data)[i] = (uint8_t)q;
      else
        ((int8_t *)s->out->data)[i] = (int8_t)q;
    }
  }
}

/* The workspace has both factors and, unless they are the result, the sums, all of int32. */
static size_t workspace(const gconv_node_work *work) {
  const bool scaled = work->out[0]->type != GCONV_TENSOR_I32;
  const factors f = factors_of(work, scaled ? QLINEAR : INTEGER);
  return ((size_t)gconv_tensor_elements(f.a) + (size_t)gconv_tensor_elements(f.b) +
          (scaled ? (size_t)gconv_tensor_elements(work->out[0]) : 0)) *
         sizeof(int32_t);
}

typedef struct room {
  int32_t *a, *b, *sums;
} room;

static room room_of(const gconv_node_work *work, const factors *f) {
  room r = {work->workspace, (int32_t *)work->workspace + gconv_tensor_elements(f->a), work->out[0]->data};
  if (f->scale)
    r.sums = r.b + gconv_tensor_elements(f->b);
  return r;
}

/* ---- Convolutions ---- */

static gconv_status shape_conv(const gconv_node_work *work, const gconv_node_kind *kind) {
  const factors f = factors_of(work, kind->code);
  gconv_layer_problem problem;
  gconv_tensor result;
  GCONV_TRY(gconv_conv_find(work->settings, f.a, f.b, f.biases, &problem, &result));
  GCONV_TRY(check(&f, 1, problem.filters));
  gconv_node_set(work, 0, f.zero ? f.zero->type : GCONV_TENSOR_I32, result.axes, result.shape);
  return GCONV_OK;
}

static gconv_status run_conv(const gconv_node_work *work, const gconv_node_kind *kind) {
  const factors f = factors_of(work, kind->code);
  const room r = room_of(work, &f);
  gconv_layer_problem problem;
  gconv_tensor result;
  GCONV_TRY(gconv_conv_find(work->settings, f.a, f.b, f.biases, &problem, &result));
  shift(f.a, f.a_zero, 0, r.a);
  shift(f.b, f.b_zero, 0, r.b);
  gconv_plain_conv(work, &problem, GCONV_TENSOR_I32, r.a, r.b, f.biases ? f.biases->data : NULL, r.sums);
  scaling s = {&f, r.sums, work->out[0], (int64_t)problem.out_height * problem.out_width, problem.filters, 1};
  if (f.scale)
    gconv_node_share(work, gconv_tensor_elements(work->out[0]), 1 << 14, scale_sums, &s);
  return GCONV_OK;
}

static gconv_node_window window_conv(const gconv_node_work *work, int32_t input, int32_t axis) {
  const factors f = factors_of(work, work->out[0]->type == GCONV_TENSOR_I32 ? INTEGER : QLINEAR);
  return input == 0 ? gconv_conv_window(work->settings, f.a, f.b, axis) : (gconv_node_window){1, 0, 0, 0};
}

/* ---- Products ---- */

static gconv_status shape_product(const gconv_node_work *work, const gconv_node_kind *kind) {
  const factors f = factors_of(work, kind->code);
  gconv_product p;
  gconv_tensor result;
  GCONV_TRY(gconv_product_find(f.a, f.b, false, false, &p));
  GCONV_TRY(gconv_product_shape(&p, f.a, f.b, &result));
  GCONV_TRY(check(&f, p.m, p.n));
  gconv_node_set(work, 0, f.zero ? f.zero->type : GCONV_TENSOR_I32, result.axes, result.shape);
  return GCONV_OK;
}

static gconv_status run_product(const gconv_node_work *work, const gconv_node_kind *kind) {
  const factors f = factors_of(work, kind->code);
  const room r = room_of(work, &f);
  gconv_tensor a = *f.a, b = *f.b, sums = *work->out[0];
  gconv_product p;
  GCONV_TRY(gconv_product_find(f.a, f.b, false, false, &p));
  shift(f.a, f.a_zero, f.a->axes - 2, r.a);
  shift(f.b, f.b_zero, f.b->axes - 1, r.b);
  a.type = b.type = sums.type = GCONV_TENSOR_I32;
  a.data = r.a;
  b.data = r.b;
  sums.data = r.sums;
  gconv_product_run(work, &p, &a, &b, NULL, &sums);
  scaling s = {&f, r.sums, work->out[0], 1, p.n, p.m};
  if (f.scale)
    gconv_node_share(work, gconv_tensor_elements(work->out[0]), 1 << 14, scale_sums, &s);
  return GCONV_OK;
}

static rules none = {END};

#define CONV(name, least, most, code)                                                                                       \
  GCONV_NODE_KIND(name, 10, NEWEST, least, most, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, gconv_onnx_conv_rules,   \
                  code, sizeof(gconv_conv_settings), gconv_conv_parse, shape_conv, run_conv, GCONV_NOT_ON_CUDA, workspace,  \
                  window_conv, NULL, NULL)
#define PRODUCT(name, least, most, code)                                                                                    \
  GCONV_NODE_KIND(name, 10, NEWEST, least, most, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, none, code, 0, NULL,        \
                  shape_product, run_product, GCONV_NOT_ON_CUDA, workspace, NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_qlinear[] = {
    CONV("QLinearConv", 8, 9, QLINEAR),
    CONV("ConvInteger", 2, 4, INTEGER),
    PRODUCT("QLinearMatMul", 8, 8, QLINEAR),
    PRODUCT("MatMulInteger", 2, 4, INTEGER),
    GCONV_NODE_KIND_END,
};

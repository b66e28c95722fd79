/* SPDX-License-Identifier: MIT */
/* Numbers as integers with a scale and a zero point, (q - zero) * scale: QuantizeLinear, DequantizeLinear,
 * DynamicQuantizeLinear. There is one scale for a tensor, for each element of an axis, or for each block of an axis. */
#include "bank/onnx_rules.h"
#include "graph/narrow.h"
#include "graph/node.h"

#include <inttypes.h>
#include <math.h>

enum { QUANTIZE, DEQUANTIZE };
enum { X, SCALE, ZERO };

typedef struct settings {
  int64_t axis, block, type, precision; /* types as ONNX numbers them; 0: none is named */
  bool saturates;                       /* numbers that are too large for a floating-point type become its largest */
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  s->axis = gconv_onnx_integer_of(node, "axis", 1);
  s->block = gconv_onnx_integer_of(node, "block_size", 0);
  s->type = gconv_onnx_integer_of(node, "output_dtype", 0);
  s->precision = gconv_onnx_integer_of(node, "precision", 0);
  s->saturates = gconv_onnx_integer_of(node, "saturate", 1) != 0;
  return s->block >= 0 ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "has blocks of %" PRId64 " elements", s->block);
}

/* Where scales are. Elements are outer x size x inner. The scale of element (o, a, i) is number o * outer_step + a / block *
 * axis_step + i * inner_step. */
typedef struct layout {
  int64_t size, inner, block, outer_step, axis_step, inner_step;
} layout;

static gconv_status find_layout(const gconv_node_work *work, layout *l) {
  const settings *s = work->settings;
  const gconv_tensor *x = work->in[X], *scale = work->in[SCALE];
  const int64_t scales = gconv_tensor_elements(scale);
  int32_t axis = 0;
  *l = (layout){1, gconv_tensor_elements(x), 1, 0, 0, 0};
  if (s->block == 0 && scales == 1 && scale->axes <= 1)
    return GCONV_OK;
  GCONV_TRY(gconv_tensor_axis(s->axis, x->axes, &axis));
  *l = (layout){x->shape[axis], gconv_tensor_count(x, axis + 1, x->axes), 1, 0, 1, 0};
  if (s->block == 0)
    return scale->axes == 1 && scales == l->size
               ? GCONV_OK
               : gconv_fail(GCONV_BAD_FILE, "has %" PRId64 " scales for an axis of %" PRId64 " elements", scales, l->size);
  bool fits = scale->axes == x->axes;
  for (int32_t i = 0; i < x->axes && fits; i++)
    fits = scale->shape[i] == (i == axis ? x->shape[i] / s->block + (x->shape[i] % s->block != 0) : x->shape[i]);
  *l = (layout){l->size, l->inner, s->block, scale->axes > axis ? scale->shape[axis] * l->inner : 0, l->inner, 1};
  return fits ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "has scales whose shape does not fit its blocks");
}

static bool is_quantized(gconv_tensor_type type) {
  return type == GCONV_TENSOR_U8 || type == GCONV_TENSOR_I8 || type == GCONV_TENSOR_U16 || type == GCONV_TENSOR_I16;
}

/* Fails if an attribute names another type than `type`, which follows from the inputs. Types are as ONNX numbers them. */
static gconv_status check_attribute(int64_t number, const char *name, int64_t type) {
  return number == 0 || number == type
             ? GCONV_OK
             : gconv_fail(GCONV_UNSUPPORTED, "has the %s %s: it must be the type of its inputs, %s", name,
                          *gconv_onnx_type_name(number) ? gconv_onnx_type_name(number) : "unknown",
                          gconv_onnx_type_name(type));
}

/* Returns the type of the quantised numbers, as ONNX numbers it. */
static int64_t quantized_type(const gconv_node_work *work, bool quantizes) {
  const settings *s = work->settings;
  const gconv_tensor *zero = work->in_count > ZERO ? work->in[ZERO] : NULL;
  return !quantizes ? gconv_tensor_type_in_model(work->in[X])
         : zero     ? gconv_tensor_type_in_model(zero)
         : s->type  ? s->type
                    : (int64_t)GCONV_TENSOR_U8;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const bool quantizes = kind->code == QUANTIZE;
  const gconv_tensor *x = work->in[X], *scale = work->in[SCALE], *zero = work->in_count > ZERO ? work->in[ZERO] : NULL;
  const int64_t number = quantized_type(work, quantizes), real = gconv_tensor_type_in_model(scale);
  gconv_tensor_type whole = GCONV_TENSOR_F32;
  int32_t narrow = 0;
  layout l;
  const bool known = gconv_tensor_type_of_onnx(number, &whole, &narrow);
  if (!known || !(is_quantized(whole) || gconv_narrow_is_float(number) || (!quantizes && whole == GCONV_TENSOR_I32)))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "has quantised numbers of %s: integers of 2 to 16 bits, float4 and float8 are computed here",
                      *gconv_onnx_type_name(number) ? gconv_onnx_type_name(number) : "an unknown type");
  GCONV_TRY(check_attribute(s->type, "output_dtype", quantizes ? number : real));
  GCONV_TRY(check_attribute(s->precision, "precision", real));
  GCONV_TRY(gconv_node_need_real(work, SCALE, SCALE));
  if (quantizes)
    GCONV_TRY(gconv_node_need_type(work, X, scale->type));
  if (zero && gconv_tensor_type_in_model(zero) != number)
    return gconv_fail(GCONV_UNSUPPORTED, "takes %s here as input %d, not %s", gconv_onnx_type_name(number), ZERO,
                      gconv_onnx_type_name(gconv_tensor_type_in_model(zero)));
  if (zero && gconv_tensor_elements(zero) != gconv_tensor_elements(scale))
    return gconv_fail(GCONV_BAD_FILE, "has different numbers of scales and zero points");
  GCONV_TRY(find_layout(work, &l));
  gconv_node_set(work, 0, quantizes ? gconv_node_type(work, whole) : scale->type, x->axes, x->shape);
  work->out[0]->narrow = quantizes ? narrow : scale->narrow;
  return GCONV_OK;
}

/* ---- Runs ---- */

typedef struct job {
  const gconv_node_work *work;
  layout l;
  double least, most; /* of quantised numbers */
  bool quantizes;
} job;

/* Goes through elements begin .. end - 1; `at` is the place of an element's scale. */
#define EACH_ELEMENT(...)                                                                                                   \
  for (int64_t i = begin; i < end;) {                                                                                       \
    const int64_t line = i / l->inner, a = line % l->size;                                                                  \
    const int64_t stop = (line + 1) * l->inner < end ? (line + 1) * l->inner : end;                                         \
    int64_t at = line / l->size * l->outer_step + a / l->block * l->axis_step + i % l->inner * l->inner_step;               \
    for (; i < stop; i++, at += l->inner_step)                                                                              \
      __VA_ARGS__;                                                                                                          \
  }
#define PARTS(name, REAL, WHOLE, rint)                                                                                      \
  static void quantize_##name(void *context, int64_t begin, int64_t end) {                                                  \
    const job *j = context;                                                                                                 \
    const layout *l = &j->l;                                                                                                \
    const gconv_tensor *zeros = j->work->in_count > ZERO ? j->work->in[ZERO] : NULL;                                        \
    const REAL *x = j->work->in[X]->data, *scale = j->work->in[SCALE]->data;                                                \
    const WHOLE *zero = zeros ? zeros->data : NULL;                                                                         \
    WHOLE *y = j->work->out[0]->data;                                                                                       \
    EACH_ELEMENT({                                                                                                          \
      const REAL shift = zero ? (REAL)zero[at] : 0, q = rint(x[i] / scale[at]);                                             \
      const REAL least = (REAL)j->least - shift, most = (REAL)j->most - shift;                                              \
      y[i] = (WHOLE)((q >= least ? q > most ? most : q : least) + shift);                                                   \
    })                                                                                                                      \
  }                                                                                                                         \
  DEQUANTIZE_PART(name, REAL, WHOLE)
#define DEQUANTIZE_PART(name, REAL, WHOLE)                                                                                  \
  static void dequantize_##name(void *context, int64_t begin, int64_t end) {                                                \
    const job *j = context;                                                                                                 \
    const layout *l = &j->l;                                                                                                \
    const gconv_tensor *zeros = j->work->in_count > ZERO ? j->work->in[ZERO] : NULL;                                        \
    const REAL *scale = j->work->in[SCALE]->data;                                                                           \
    const WHOLE *x = j->work->in[X]->data, *zero = zeros ? zeros->data : NULL;                                              \
    REAL *y = j->work->out[0]->data;                                                                                        \
    EACH_ELEMENT(y[i] = (REAL)((int64_t)x[i] - (zero ? zero[at] : 0)) * scale[at])                                          \
  }
PARTS(u8_f32, float, uint8_t, rintf)
PARTS(i8_f32, float, int8_t, rintf)
PARTS(u16_f32, float, uint16_t, rintf)
PARTS(i16_f32, float, int16_t, rintf)
PARTS(u8_f64, double, uint8_t, rint)
PARTS(i8_f64, double, int8_t, rint)
PARTS(u16_f64, double, uint16_t, rint)
PARTS(i16_f64, double, int16_t, rint)
/* Quantised numbers that are floating-point numbers of 4 or 8 bits. */
static void convert_small(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const layout *l = &j->l;
  const gconv_node_work *w = j->work;
  const settings *s = w->settings;
  const gconv_tensor *zeros = w->in_count > ZERO ? w->in[ZERO] : NULL, *out = w->out[0];
  EACH_ELEMENT({
    const double x = gconv_tensor_number(w->in[X], i), zero = zeros ? gconv_tensor_number(zeros, at) : 0;
    const double scale = gconv_tensor_number(w->in[SCALE], at);
    const double y =
        j->quantizes ? gconv_narrow_round(x / scale + zero, out->narrow, s->saturates, GCONV_NARROW_UP) : (x - zero) * scale;
    if (out->type == GCONV_TENSOR_F32)
      ((float *)out->data)[i] = (float)y;
    else
      ((double *)out->data)[i] = y;
  })
}

DEQUANTIZE_PART(i32_f32, float, int32_t)
DEQUANTIZE_PART(i32_f64, double, int32_t)

/* The loops of a type, for scales of float32 and of float64, and its range. */
typedef void part(void *context, int64_t begin, int64_t end);
static const struct {
  part *quantize[2], *dequantize[2];
  double least, most;
} parts[GCONV_TENSOR_TYPES] = {
    [GCONV_TENSOR_U8] = {{quantize_u8_f32, quantize_u8_f64}, {dequantize_u8_f32, dequantize_u8_f64}, 0, UINT8_MAX},
    [GCONV_TENSOR_I8] = {{quantize_i8_f32, quantize_i8_f64}, {dequantize_i8_f32, dequantize_i8_f64}, INT8_MIN, INT8_MAX},
    [GCONV_TENSOR_U16] = {{quantize_u16_f32, quantize_u16_f64}, {dequantize_u16_f32, dequantize_u16_f64}, 0, UINT16_MAX},
    [GCONV_TENSOR_I16] = {{quantize_i16_f32, quantize_i16_f64},
                          {dequantize_i16_f32, dequantize_i16_f64},
                          INT16_MIN,
                          INT16_MAX},
    [GCONV_TENSOR_I32] = {{NULL, NULL}, {dequantize_i32_f32, dequantize_i32_f64}, 0, 0}};

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const bool wide = work->in[SCALE]->type == GCONV_TENSOR_F64, quantizes = kind->code == QUANTIZE;
  const gconv_tensor *whole = quantizes ? work->out[0] : work->in[X];
  job j = {.work = work, .least = parts[whole->type].least, .most = parts[whole->type].most, .quantizes = quantizes};
  GCONV_TRY(find_layout(work, &j.l));
  gconv_narrow_range(whole->narrow, &j.least, &j.most);
  part *const p = gconv_narrow_is_float(whole->narrow) ? convert_small
                  : quantizes                          ? parts[whole->type].quantize[wide]
                                                       : parts[whole->type].dequantize[wide];
  gconv_node_share(work, gconv_tensor_elements(work->in[X]), 1 << 14, p, &j);
  return GCONV_OK;
}

/* An output needs only the input at the same place, unless scales lie along the height or the width. */
static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t axis) {
  const settings *s = work->settings;
  int32_t own = 0;
  const bool one = gconv_tensor_elements(work->in[SCALE]) == 1;
  if (input != X || (!one && (gconv_tensor_axis(s->axis, work->in[X]->axes, &own) != GCONV_OK || own >= 2 || s->block > 0)))
    return (gconv_node_window){1, 0, 0, 0};
  return (gconv_node_window){1, 1, 0, 0};
}

/* ---- DynamicQuantizeLinear ---- */

static gconv_status shape_dynamic(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(gconv_node_need_real(work, 0, 0));
  gconv_node_set(work, 0, GCONV_TENSOR_U8, work->in[X]->axes, work->in[X]->shape);
  gconv_node_set(work, 1, work->in[X]->type, 0, NULL);
  gconv_node_set(work, 2, GCONV_TENSOR_U8, 0, NULL);
  return GCONV_OK;
}

/* Scale and zero point are such that 0 and all numbers become 0 .. 255. */
static gconv_status run_dynamic(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *x = work->in[X];
  const int64_t count = gconv_tensor_elements(x);
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; i++) {
    const float v = (float)gconv_tensor_number(x, i);
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  const float scale = high > low ? (high - low) / 255 : 1, wanted = rintf(-low / scale);
  const double scale_as_double = (double)scale;
  uint8_t zero = (uint8_t)(wanted >= 0 ? wanted > 255 ? 255 : wanted : 0); /* NaN, of a scale of 0 or infinity, becomes 0 */
  const gconv_tensor scales = {.type = x->type,
                               .data = x->type == GCONV_TENSOR_F32 ? (void *)&scale : (void *)&scale_as_double};
  const gconv_tensor zeros = {.type = GCONV_TENSOR_U8, .data = &zero}, *in[] = {x, &scales, &zeros};
  gconv_node_work inner = *work;
  inner.in = in;
  inner.in_count = 3;
  inner.settings = &(settings){0};
  if (work->out_count > 1 && work->out[1])
    gconv_tensor_convert(&scales, work->out[1], 0, 1);
  if (work->out_count > 2 && work->out[2])
    *(uint8_t *)work->out[2]->data = zero;
  return run(&inner, &(gconv_node_kind){.code = QUANTIZE});
}

static rules quantize = {INT("axis", 13, NEWEST),         INT("saturate", 19, NEWEST),  INT("block_size", 21, NEWEST),
                         INT("output_dtype", 21, NEWEST), INT("precision", 23, NEWEST), END};
static rules none = {END};

#define ROW(name, code)                                                                                                     \
  GCONV_NODE_KIND(name, 10, NEWEST, 2, 3, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, quantize, code,                 \
                  sizeof(settings), parse, shape, run, GCONV_NOT_ON_CUDA, NULL, window, NULL, NULL)
const gconv_node_kind gconv_node_kinds_quantize[] = {
    ROW("QuantizeLinear", QUANTIZE),
    ROW("DequantizeLinear", DEQUANTIZE),
    GCONV_NODE_KIND("DynamicQuantizeLinear", 11, NEWEST, 1, 1, 1, 3, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, none, 0,
                    sizeof(settings), NULL, shape_dynamic, run_dynamic, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL),
    GCONV_NODE_KIND_END,
};

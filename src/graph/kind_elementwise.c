/* SPDX-License-Identifier: MIT */
/* Nodes that compute each element by itself. Inputs are broadcast as NumPy does. An operator has a loop for each type of
 * numbers that it takes (`operations`). */
#include "bank/onnx_rules.h"
#include "base/cpu.h"
#include "graph/broadcast.h"
#include "kernels/activation.h"

#include <math.h>
#include <string.h>

typedef struct settings {
  float alpha, beta, low, high;
  int64_t axis;     /* up to opset 6: the axis of input 0 that the first axis of input 1 lies along; -1: the last axes fit */
  bool by_suffix;   /* up to opset 6: input 1 is repeated along all other axes */
  bool approximate; /* Gelu by tanh */
  bool remainder;   /* Mod is that of C's fmod() and % */
} settings;

/* ---- Loops ---- */

#define LOOP_PARAMETERS (const void *const *in, const int64_t *step, void *out, int64_t count, const void *given)
#define LOOP_ARGUMENTS (in, step, out, count, given)
#ifdef __clang__
#define NO_DEPENDENCES
#else
#define NO_DEPENDENCES _Pragma("GCC ivdep") /* out is apart from an input, or just the same memory */
#endif

/* y = an expression of x and of the settings s. */
#define UNARY_BODY(T, R, expression)                                                                                        \
  const settings *s = given;                                                                                                \
  const T *from = in[0];                                                                                                    \
  R *y = out;                                                                                                               \
  (void)s;                                                                                                                  \
  (void)step;                                                                                                               \
  NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                      \
    const T x = from[i];                                                                                                    \
    y[i] = expression;                                                                                                      \
  }
#define UNARY(name, expression)                                                                                             \
  GCONV_VECTOR_LOOP(name, LOOP_PARAMETERS, LOOP_ARGUMENTS) {                                                                \
    UNARY_BODY(float, float, expression)                                                                                    \
  }
#define UNARY_PLAIN(name, T, R, expression)                                                                                 \
  static void name LOOP_PARAMETERS {                                                                                        \
    UNARY_BODY(T, R, expression)                                                                                            \
  }

/* y = an expression of a and b. */
#define BINARY_BODY(T, R, expression)                                                                                       \
  const settings *s = given;                                                                                                \
  const T *first = in[0], *second = in[1];                                                                                  \
  R *y = out;                                                                                                               \
  (void)s;                                                                                                                  \
  if (step[0] && step[1])                                                                                                   \
    NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                    \
      const T a = first[i], b = second[i];                                                                                  \
      y[i] = expression;                                                                                                    \
    }                                                                                                                       \
  else if (step[0]) {                                                                                                       \
    const T b = *second;                                                                                                    \
    NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                    \
      const T a = first[i];                                                                                                 \
      y[i] = expression;                                                                                                    \
    }                                                                                                                       \
  } else {                                                                                                                  \
    const T a = *first;                                                                                                     \
    const int64_t distance = step[1];                                                                                       \
    NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                    \
      const T b = second[i * distance];                                                                                     \
      y[i] = expression;                                                                                                    \
    }                                                                                                                       \
  }
#define BINARY(name, expression)                                                                                            \
  GCONV_VECTOR_LOOP(name, LOOP_PARAMETERS, LOOP_ARGUMENTS) {                                                                \
    BINARY_BODY(float, float, expression)                                                                                   \
  }
#define BINARY_PLAIN(name, T, R, expression)                                                                                \
  static void name LOOP_PARAMETERS {                                                                                        \
    BINARY_BODY(T, R, expression)                                                                                           \
  }

/* NaN stays NaN in all of them. */
GCONV_INLINE float clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
GCONV_INLINE float smaller(float a, float b) {
  return a < b || a != a ? a : b;
}
GCONV_INLINE float larger(float a, float b) {
  return a > b || a != a ? a : b;
}
static float modulo_of_floats(float a, float b, bool remainder) {
  const float rest = fmodf(a, b);
  return rest != 0 && !remainder && (rest < 0) != (b < 0) ? rest + b : rest;
}
GCONV_INLINE float softplus(float x) {
  return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
}
GCONV_INLINE float gelu(float x, bool approximate) {
  return approximate ? 0.5F * x * (1 + gconv_tanh(0.797884561F * (x + 0.044715F * x * x * x)))
                     : 0.5F * x * (1 + erff(0.707106781F * x));
}

UNARY(relu, x < 0 ? 0 : x)
UNARY(leaky, x < 0 ? x * s->alpha : x)
UNARY(thresholded, x > s->alpha ? x : 0 * x)
UNARY(sigmoid, gconv_sigmoid(x))
UNARY(hyperbolic, gconv_tanh(x))
UNARY(clip, clamp(x, s->low, s->high))
UNARY(hard_sigmoid, clamp(s->alpha *x + s->beta, 0, 1))
UNARY(hard_swish, x *clamp(x *(1.0F / 6) + 0.5F, 0, 1))
UNARY(square_root, sqrtf(x))
UNARY(absolute, fabsf(x))
UNARY(negative, -x)
UNARY(reciprocal, 1 / x)
UNARY(swish, x *gconv_sigmoid(x * s->alpha))
UNARY(softsign, x / (1 + fabsf(x)))
UNARY_PLAIN(elu, float, float, x < 0 ? s->alpha * expm1f(x) : x)
UNARY_PLAIN(selu, float, float, s->beta *(x < 0 ? s->alpha * expm1f(x) : x))
UNARY_PLAIN(celu, float, float, x < 0 ? s->alpha * expm1f(x / s->alpha) : x)
UNARY_PLAIN(soft_plus, float, float, softplus(x))
UNARY_PLAIN(mish, float, float, x *gconv_tanh(softplus(x)))
UNARY_PLAIN(gelu_of, float, float, gelu(x, s->approximate))
UNARY_PLAIN(error_function, float, float, erff(x))
UNARY_PLAIN(exponential, float, float, expf(x))
UNARY_PLAIN(logarithm, float, float, logf(x))
UNARY_PLAIN(sine, float, float, sinf(x))
UNARY_PLAIN(cosine, float, float, cosf(x))
UNARY_PLAIN(floor_of, float, float, floorf(x))
UNARY_PLAIN(ceiling, float, float, ceilf(x))
UNARY_PLAIN(rounded, float, float, rintf(x))
UNARY_PLAIN(sign, float, float, x != x ? x : (float)((x > 0) - (x < 0)))
UNARY_PLAIN(is_nan, float, bool, x != x)
UNARY_PLAIN(negation, bool, bool, !x)

BINARY(add, a + b)
BINARY(subtract, a - b)
BINARY(multiply, a *b)
BINARY(divide, a / b)
BINARY(smallest, smaller(a, b))
BINARY(largest, larger(a, b))
BINARY(prelu, a < 0 ? a * b : a)
BINARY_PLAIN(float_modulo, float, float, modulo_of_floats(a, b, s->remainder))

/* Pow: 2, 1/2 and 1 are what models have. */
BINARY_PLAIN(any_power, float, float, powf(a, b))
UNARY(squared, x *x)
static void power LOOP_PARAMETERS {
  const float exponent = count > 0 && !step[1] ? *(const float *)in[1] : 0;
  if (exponent == 2 && step[0])
    squared LOOP_ARGUMENTS;
  else if (exponent == 0.5F && step[0])
    square_root LOOP_ARGUMENTS;
  else
    any_power LOOP_ARGUMENTS;
}

/* Integers wrap around, as they do in other programs. Division rounds towards 0; its divisors were checked. */
static int64_t modulo(int64_t a, int64_t b, bool remainder) {
  const int64_t rest = b == -1 ? 0 : a % b;
  return rest != 0 && !remainder && (rest < 0) != (b < 0) ? rest + b : rest;
}
static int64_t integer_power(int64_t a, int64_t b) {
  uint64_t result = 1, square = (uint64_t)a;
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  for (; b > 0; b >>= 1, square *= square)
    result *= b & 1 ? square : 1;
  return (int64_t)result;
}
#define INTEGERS(suffix, T, U)                                                                                              \
  BINARY_PLAIN(add_##suffix, T, T, (T)((U)a + (U)b))                                                                        \
  BINARY_PLAIN(subtract_##suffix, T, T, (T)((U)a - (U)b))                                                                   \
  BINARY_PLAIN(multiply_##suffix, T, T, (T)((U)a * (U)b))                                                                   \
  BINARY_PLAIN(divide_##suffix, T, T, b == (T)-1 ? (T)(0 - (U)a) : a / b)                                                   \
  BINARY_PLAIN(smallest_##suffix, T, T, a < b ? a : b)                                                                      \
  BINARY_PLAIN(largest_##suffix, T, T, a > b ? a : b)                                                                       \
  BINARY_PLAIN(modulo_##suffix, T, T, (T)modulo(a, b, s->remainder))                                                        \
  BINARY_PLAIN(power_##suffix, T, T, (T)integer_power(a, b))                                                                \
  UNARY_PLAIN(relu_##suffix, T, T, x < 0 ? 0 : x)                                                                           \
  UNARY_PLAIN(absolute_##suffix, T, T, (T)(x < 0 ? 0 - (U)x : (U)x))                                                        \
  UNARY_PLAIN(negative_##suffix, T, T, (T)(0 - (U)x))                                                                       \
  UNARY_PLAIN(sign_##suffix, T, T, (x > 0) - (x < 0))
INTEGERS(i64, int64_t, uint64_t)
INTEGERS(i32, int32_t, uint32_t)

#define COMPARISON(name, operator)                                                                                          \
  BINARY_PLAIN(name, float, bool, a operator b)                                                                             \
  BINARY_PLAIN(name##_i64, int64_t, bool, a operator b)                                                                     \
  BINARY_PLAIN(name##_i32, int32_t, bool, a operator b)                                                                     \
  BINARY_PLAIN(name##_u8, uint8_t, bool, a operator b)
COMPARISON(equal, ==)
COMPARISON(less, <)
COMPARISON(less_equal, <=)
COMPARISON(greater, >)
COMPARISON(greater_equal, >=)
BINARY_PLAIN(both, bool, bool, a &&b)
BINARY_PLAIN(either, bool, bool, a || b)
BINARY_PLAIN(one_of, bool, bool, a != b)

/* Where: the condition, then what is taken where it holds, and where it does not. */
#define CHOICE(name, T)                                                                                                     \
  static void name LOOP_PARAMETERS {                                                                                        \
    const bool *where = in[0];                                                                                              \
    const T *yes = in[1], *no = in[2];                                                                                      \
    T *y = out;                                                                                                             \
    (void)given;                                                                                                            \
    for (int64_t i = 0; i < count; i++)                                                                                     \
      y[i] = where[i * step[0]] ? yes[i * step[1]] : no[i * step[2]];                                                       \
  }
CHOICE(choice, float)
CHOICE(choice_u8, uint8_t)
CHOICE(choice_i32, int32_t)
CHOICE(choice_i64, int64_t)

/* ---- Operations ---- */

typedef enum operation {
  RELU,
  LEAKY,
  THRESHOLDED,
  SIGMOID,
  TANH,
  CLIP,
  HARD_SIGMOID,
  HARD_SWISH,
  SQRT,
  ABS,
  NEG,
  RECIPROCAL,
  SWISH,
  SOFTSIGN,
  ELU,
  SELU,
  CELU,
  SOFTPLUS,
  MISH,
  GELU,
  ERF,
  EXP,
  LOG,
  SIN,
  COS,
  FLOOR,
  CEIL,
  ROUND,
  SIGN,
  IS_NAN,
  NOT,
  ADD,
  SUB,
  MUL,
  DIV,
  MIN,
  MAX,
  PRELU,
  MOD,
  POW,
  EQUAL,
  LESS,
  LESS_EQUAL,
  GREATER,
  GREATER_EQUAL,
  AND,
  OR,
  XOR,
  WHERE
} operation;

/* The loops of an operation for each type; NULL: it does not take this type. */
static const struct {
  gconv_element_loop *f32, *i64, *i32, *u8, *boolean;
} operations[] = {
    [RELU] = {relu, relu_i64, relu_i32, NULL, NULL},
    [LEAKY] = {leaky, NULL, NULL, NULL, NULL},
    [THRESHOLDED] = {thresholded, NULL, NULL, NULL, NULL},
    [SIGMOID] = {sigmoid, NULL, NULL, NULL, NULL},
    [TANH] = {hyperbolic, NULL, NULL, NULL, NULL},
    [CLIP] = {clip, NULL, NULL, NULL, NULL},
    [HARD_SIGMOID] = {hard_sigmoid, NULL, NULL, NULL, NULL},
    [HARD_SWISH] = {hard_swish, NULL, NULL, NULL, NULL},
    [SQRT] = {square_root, NULL, NULL, NULL, NULL},
    [ABS] = {absolute, absolute_i64, absolute_i32, NULL, NULL},
    [NEG] = {negative, negative_i64, negative_i32, NULL, NULL},
    [RECIPROCAL] = {reciprocal, NULL, NULL, NULL, NULL},
    [SWISH] = {swish, NULL, NULL, NULL, NULL},
    [SOFTSIGN] = {softsign, NULL, NULL, NULL, NULL},
    [ELU] = {elu, NULL, NULL, NULL, NULL},
    [SELU] = {selu, NULL, NULL, NULL, NULL},
    [CELU] = {celu, NULL, NULL, NULL, NULL},
    [SOFTPLUS] = {soft_plus, NULL, NULL, NULL, NULL},
    [MISH] = {mish, NULL, NULL, NULL, NULL},
    [GELU] = {gelu_of, NULL, NULL, NULL, NULL},
    [ERF] = {error_function, NULL, NULL, NULL, NULL},
    [EXP] = {exponential, NULL, NULL, NULL, NULL},
    [LOG] = {logarithm, NULL, NULL, NULL, NULL},
    [SIN] = {sine, NULL, NULL, NULL, NULL},
    [COS] = {cosine, NULL, NULL, NULL, NULL},
    [FLOOR] = {floor_of, NULL, NULL, NULL, NULL},
    [CEIL] = {ceiling, NULL, NULL, NULL, NULL},
    [ROUND] = {rounded, NULL, NULL, NULL, NULL},
    [SIGN] = {sign, sign_i64, sign_i32, NULL, NULL},
    [IS_NAN] = {is_nan, NULL, NULL, NULL, NULL},
    [NOT] = {NULL, NULL, NULL, NULL, negation},
    [ADD] = {add, add_i64, add_i32, NULL, NULL},
    [SUB] = {subtract, subtract_i64, subtract_i32, NULL, NULL},
    [MUL] = {multiply, multiply_i64, multiply_i32, NULL, NULL},
    [DIV] = {divide, divide_i64, divide_i32, NULL, NULL},
    [MIN] = {smallest, smallest_i64, smallest_i32, NULL, NULL},
    [MAX] = {largest, largest_i64, largest_i32, NULL, NULL},
    [PRELU] = {prelu, NULL, NULL, NULL, NULL},
    [MOD] = {float_modulo, modulo_i64, modulo_i32, NULL, NULL},
    [POW] = {power, power_i64, power_i32, NULL, NULL},
    [EQUAL] = {equal, equal_i64, equal_i32, equal_u8, equal_u8},
    [LESS] = {less, less_i64, less_i32, less_u8, NULL},
    [LESS_EQUAL] = {less_equal, less_equal_i64, less_equal_i32, less_equal_u8, NULL},
    [GREATER] = {greater, greater_i64, greater_i32, greater_u8, NULL},
    [GREATER_EQUAL] = {greater_equal, greater_equal_i64, greater_equal_i32, greater_equal_u8, NULL},
    [AND] = {NULL, NULL, NULL, NULL, both},
    [OR] = {NULL, NULL, NULL, NULL, either},
    [XOR] = {NULL, NULL, NULL, NULL, one_of},
    [WHERE] = {choice, choice_i64, choice_i32, choice_u8, choice_u8},
};

static gconv_element_loop *loop_of(int32_t code, gconv_tensor_type type) {
  switch (type) {
  case GCONV_TENSOR_F32:
    return operations[code].f32;
  case GCONV_TENSOR_I64:
    return operations[code].i64;
  case GCONV_TENSOR_I32:
    return operations[code].i32;
  case GCONV_TENSOR_U8:
    return operations[code].u8;
  case GCONV_TENSOR_BOOL:
    return operations[code].boolean;
  case GCONV_TENSOR_I8:
    break;
  }
  return NULL;
}

static bool makes_bools(int32_t code) {
  return code == IS_NAN || (code >= EQUAL && code <= XOR);
}

/* ---- Shapes ---- */

/* Inputs have one type, but for the condition of Where. */
static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const int32_t first = kind->code == WHERE;
  gconv_tensor result = {.type = work->in[first]->type};
  if (first)
    GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_BOOL));
  for (int32_t i = first; i < work->in_count; i++) {
    if (!work->in[i])
      return gconv_fail(GCONV_BAD_FILE, "lacks its input %d", i);
    GCONV_TRY(gconv_node_need_type(work, i, result.type));
  }
  if (!loop_of(kind->code, result.type))
    return gconv_fail(GCONV_UNSUPPORTED, "is not done for %s numbers", gconv_tensor_type_name(result.type));
  GCONV_TRY(gconv_node_broadcast(work, &result));
  result.type = makes_bools(kind->code) ? GCONV_TENSOR_BOOL : result.type;
  gconv_node_set_like(work, 0, &result);
  return GCONV_OK;
}

/* Up to opset 6, input 1 has some neighbouring axes of input 0, and is repeated along the others; without `broadcast`, both
 * have one shape. Makes of input 1 a tensor that NumPy repeats in the same way. */
static gconv_status align_old(const gconv_node_work *work, const gconv_node_kind *kind, gconv_tensor *aligned) {
  const settings *s = work->settings;
  const gconv_tensor *a = work->in[0], *b = work->in[1];
  const bool slope = kind->code == PRELU;
  *aligned = *b;
  int64_t axis = slope ? 1 : s->axis < 0 ? (int64_t)a->axes - b->axes : s->axis;
  if (gconv_tensor_elements(b) == 1 && b->axes <= 1)
    return GCONV_OK;
  if (!slope && !s->by_suffix && a->axes != b->axes)
    return gconv_fail(GCONV_BAD_FILE, "does not broadcast, and its inputs differ in their number of axes");
  if (!slope && !s->by_suffix)
    axis = 0;
  if (axis < 0 || axis > (int64_t)a->axes - b->axes)
    return gconv_fail(GCONV_BAD_FILE, "has a second input that does not fit the axes of the first from %lld on",
                      (long long)axis);
  for (int32_t i = 0; i < b->axes; i++)
    if (b->shape[i] != a->shape[axis + i] && b->shape[i] != 1)
      return gconv_fail(GCONV_BAD_FILE, "has a second input whose shape does not fit the first");
  for (; aligned->axes < a->axes - axis; aligned->axes++)
    aligned->shape[aligned->axes] = 1;
  return GCONV_OK;
}

static gconv_status shape_old(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor aligned;
  GCONV_TRY(gconv_node_need_type(work, 1, work->in[0]->type));
  if (!loop_of(kind->code, work->in[0]->type))
    return gconv_fail(GCONV_UNSUPPORTED, "is not done for %s numbers", gconv_tensor_type_name(work->in[0]->type));
  GCONV_TRY(align_old(work, kind, &aligned));
  gconv_node_set_like(work, 0, work->in[0]);
  return GCONV_OK;
}

/* The slope of PRelu is broadcast to the shape of x, and never x to that of the slope. */
static gconv_status shape_prelu(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(shape(work, kind));
  if (work->out[0]->axes != work->in[0]->axes || gconv_tensor_elements(work->out[0]) != gconv_tensor_elements(work->in[0]))
    return gconv_fail(GCONV_BAD_FILE, "has a slope whose shape does not fit its input");
  return GCONV_OK;
}

/* Min and max of Clip are inputs of one element, from opset 11 on. */
static gconv_status shape_clip(const gconv_node_work *work, const gconv_node_kind *kind) {
  (void)kind;
  const gconv_tensor_type type = work->in[0]->type;
  for (int32_t i = 1; i < work->in_count; i++) {
    GCONV_TRY(gconv_node_need_type(work, i, type));
    if (work->in[i] && gconv_tensor_elements(work->in[i]) != 1)
      return gconv_fail(GCONV_BAD_FILE, "has a bound that is not one number");
  }
  if (type != GCONV_TENSOR_F32 && type != GCONV_TENSOR_I64 && type != GCONV_TENSOR_I32)
    return gconv_fail(GCONV_UNSUPPORTED, "is not done for %s numbers", gconv_tensor_type_name(type));
  gconv_node_set_like(work, 0, work->in[0]);
  return GCONV_OK;
}

/* ---- Runs ---- */

static bool has_zero(const gconv_tensor *t) {
  const int64_t count = gconv_tensor_elements(t);
  for (int64_t i = 0; i < count; i++)
    if (t->type == GCONV_TENSOR_I64 ? ((const int64_t *)t->data)[i] == 0 : ((const int32_t *)t->data)[i] == 0)
      return true;
  return false;
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const bool whole = work->in[0]->type == GCONV_TENSOR_I64 || work->in[0]->type == GCONV_TENSOR_I32;
  if (whole && (kind->code == DIV || kind->code == MOD) && has_zero(work->in[1]))
    return gconv_fail(GCONV_BAD_FILE, "divides integers by 0");
  gconv_node_loop(work, work->in, work->in_count, loop_of(kind->code, work->in[work->in_count - 1]->type), work->out[0]);
  return GCONV_OK;
}

static gconv_status run_old(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor aligned;
  GCONV_TRY(align_old(work, kind, &aligned));
  const gconv_tensor *pair[2] = {work->in[0], &aligned};
  gconv_node_work inner = *work;
  inner.in = pair;
  return run(&inner, kind);
}

/* Operators of any number of inputs: the first two, then the result and the next. */
static gconv_status run_many(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_element_loop *loop = loop_of(kind->code, work->in[0]->type);
  const gconv_tensor *pair[2] = {work->in[0], work->in[0]};
  if (work->in_count == 1)
    memmove(work->out[0]->data, work->in[0]->data,
            (size_t)gconv_tensor_elements(work->in[0]) * gconv_tensor_type_bytes(work->in[0]->type));
  for (int32_t i = 1; i < work->in_count; i++) {
    pair[1] = work->in[i];
    gconv_node_loop(work, pair, 2, loop, work->out[0]);
    pair[0] = work->out[0];
  }
  return GCONV_OK;
}

static gconv_status run_mean(const gconv_node_work *work, const gconv_node_kind *kind) {
  const float number = (float)work->in_count;
  GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_F32));
  const gconv_tensor divisor = {.type = GCONV_TENSOR_F32, .data = (void *)&number};
  const gconv_tensor *pair[2] = {work->out[0], &divisor};
  GCONV_TRY(run_many(work, kind));
  gconv_node_loop(work, pair, 2, divide, work->out[0]);
  return GCONV_OK;
}

static gconv_status clip_integers(const gconv_node_work *work, const gconv_tensor *low, const gconv_tensor *high) {
  const bool wide = work->in[0]->type == GCONV_TENSOR_I64;
  const int64_t count = gconv_tensor_elements(work->in[0]);
  const int64_t least = !low ? INT64_MIN : wide ? *(const int64_t *)low->data : *(const int32_t *)low->data;
  const int64_t most = !high ? INT64_MAX : wide ? *(const int64_t *)high->data : *(const int32_t *)high->data;
  for (int64_t i = 0; i < count; i++) {
    int64_t x = wide ? ((const int64_t *)work->in[0]->data)[i] : ((const int32_t *)work->in[0]->data)[i];
    x = x < least ? least : x;
    x = x > most ? most : x;
    if (wide)
      ((int64_t *)work->out[0]->data)[i] = x;
    else
      ((int32_t *)work->out[0]->data)[i] = (int32_t)x;
  }
  return GCONV_OK;
}

static gconv_status run_clip(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *low = work->in_count > 1 ? work->in[1] : NULL, *high = work->in_count > 2 ? work->in[2] : NULL;
  settings s = *(const settings *)work->settings;
  gconv_node_work inner = *work;
  inner.settings = &s;
  if (work->in[0]->type != GCONV_TENSOR_F32)
    return clip_integers(work, low, high);
  s.low = low ? *(const float *)low->data : s.low;
  s.high = high ? *(const float *)high->data : s.high;
  gconv_node_loop(&inner, work->in, 1, loop_of(kind->code, GCONV_TENSOR_F32), work->out[0]);
  return GCONV_OK;
}

/* ---- Fusing ---- */

/* Sets numbers[] to what a constant is for each channel, axis 1 of `out`. Returns false unless it is the same along all
 * other axes. */
static bool read_channels(const gconv_tensor *constant, const gconv_tensor *out, float *numbers) {
  const int32_t channel_axis = constant ? constant->axes - (out->axes - 1) : 0;
  if (!constant || !constant->data || constant->type != GCONV_TENSOR_F32 || constant->axes > out->axes)
    return false;
  for (int32_t i = 0; i < constant->axes; i++)
    if (i != channel_axis && constant->shape[i] != 1)
      return false;
  const bool each = channel_axis >= 0 && constant->shape[channel_axis] != 1;
  for (int64_t c = 0; c < out->shape[1]; c++)
    numbers[c] = ((const float *)constant->data)[each ? c : 0];
  return true;
}

static bool affine(const gconv_node_work *work, const gconv_node_kind *kind, int32_t input, float *scale, float *shift) {
  float *numbers = kind->code == MUL || kind->code == DIV ? scale : shift, *others = numbers == scale ? shift : scale;
  const bool reversed = input == 1;
  if ((kind->code == DIV && reversed) || !read_channels(work->in[1 - input], work->out[0], numbers))
    return false;
  for (int64_t c = 0; c < work->out[0]->shape[1]; c++) {
    others[c] = others == shift ? 0 : kind->code == SUB && reversed ? -1 : 1;
    numbers[c] = kind->code == DIV ? 1 / numbers[c] : kind->code == SUB && !reversed ? -numbers[c] : numbers[c];
  }
  return true;
}

static bool activation(const gconv_node_work *work, const gconv_node_kind *kind, gconv_activation *result, float *slope) {
  const settings *s = work->settings;
  const gconv_tensor *low = work->in_count > 1 ? work->in[1] : NULL, *high = work->in_count > 2 ? work->in[2] : NULL;
  const float least = low && low->data ? *(const float *)low->data : low ? -1 : s->low;
  *slope = kind->code == LEAKY ? s->alpha : 1;
  *result = kind->code == LEAKY     ? GCONV_ACTIVATION_LEAKY
            : kind->code == SIGMOID ? GCONV_ACTIVATION_SIGMOID
            : kind->code == TANH    ? GCONV_ACTIVATION_TANH
                                    : GCONV_ACTIVATION_RELU;
  return kind->code != CLIP || (least == 0 && !high && s->high == INFINITY);
}

/* ---- Attributes ---- */

/* What alpha and beta are if a node does not say them. */
static void read_alpha(const gconv_onnx_node *node, float alpha, float beta, settings *s) {
  s->alpha = gconv_onnx_number_of(node, "alpha", alpha);
  s->beta = gconv_onnx_number_of(node, "beta", gconv_onnx_number_of(node, "gamma", beta));
}

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *given) {
  static const struct {
    operation operation;
    float alpha, beta;
  } defaults[] = {{LEAKY, 0.01F, 0}, {THRESHOLDED, 1, 0}, {HARD_SIGMOID, 0.2F, 0.5F},      {SWISH, 1, 0},
                  {ELU, 1, 0},       {CELU, 1, 0},        {SELU, 1.67326319F, 1.05070102F}};
  settings *s = given;
  const gconv_onnx_attribute *approximate = gconv_onnx_find_attribute(node, "approximate");
  const char *text = approximate && approximate->text ? approximate->text : "none";
  (void)opset;
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
    if (defaults[i].operation == (operation)kind->code)
      read_alpha(node, defaults[i].alpha, defaults[i].beta, s);
  s->low = gconv_onnx_number_of(node, "min", -INFINITY);
  s->high = gconv_onnx_number_of(node, "max", INFINITY);
  s->axis = gconv_onnx_integer_of(node, "axis", -1);
  s->by_suffix = gconv_onnx_integer_of(node, "broadcast", 0) != 0;
  s->remainder = gconv_onnx_integer_of(node, "fmod", 0) != 0;
  s->approximate = strcmp(text, "tanh") == 0;
  if (!s->approximate && strcmp(text, "none") != 0)
    return gconv_onnx_fail_node(node, GCONV_UNSUPPORTED, "approximates by '%.40s': tanh and none are known", text);
  return GCONV_OK;
}

static rules none = {END}, alpha = {FLOAT("alpha", 1, NEWEST), END},
             alpha_beta = {FLOAT("alpha", 1, NEWEST), FLOAT("beta", 1, NEWEST), END},
             alpha_gamma = {FLOAT("alpha", 1, NEWEST), FLOAT("gamma", 1, NEWEST), END},
             bounds = {FLOAT("min", 1, 10), FLOAT("max", 1, 10), END}, approximate = {STRING("approximate"), END},
             old_rules = {INT("axis", 1, 6), INT("broadcast", 1, 6), END}, fmod_rule = {INT("fmod", 1, NEWEST), END};

/* ---- The table ---- */

#define ROW(name, since, until, least, most, memory, rules, code, shape, run)                                               \
  GCONV_NODE_KIND(name, since, until, least, most, 1, 1, 0, 0, memory, GCONV_REACH_POINT, rules, code, sizeof(settings),    \
                  parse, shape, run, NULL, NULL, NULL, NULL)
#define FUSED(name, since, until, least, most, rules, code, shape, run, affine, activation)                                 \
  GCONV_NODE_KIND_OF(name, since, until, least, most, 1, 1, 0, 0, GCONV_MEMORY_IN_PLACE, GCONV_REACH_POINT, rules, code,    \
                     sizeof(settings), parse, shape, run, NULL, NULL, NULL, NULL, NULL, affine, activation, false)
#define ACTIVATION(name, since, rules, code) FUSED(name, since, NEWEST, 1, 1, rules, code, shape, run, NULL, activation)
#define AFFINE(name, since, code) FUSED(name, since, NEWEST, 2, 2, none, code, shape, run, affine, NULL)
#define ONE(name, since, rules, code) ROW(name, since, NEWEST, 1, 1, GCONV_MEMORY_IN_PLACE, rules, code, shape, run)
#define TWO(name, since, code) ROW(name, since, NEWEST, 2, 2, GCONV_MEMORY_IN_PLACE, none, code, shape, run)
#define OLD(name, code) ROW(name, 6, 6, 2, 2, GCONV_MEMORY_IN_PLACE, old_rules, code, shape_old, run_old)
#define TEST(name, since, least, code) ROW(name, since, NEWEST, least, least, GCONV_MEMORY_OWN, none, code, shape, run)
#define MANY(name, since, code, run) ROW(name, since, NEWEST, 1, GCONV_ANY_NUMBER, GCONV_MEMORY_OWN, none, code, shape, run)
const gconv_node_kind gconv_node_kinds_elementwise[] = {
    ACTIVATION("Relu", 6, none, RELU),
    ACTIVATION("LeakyRelu", 6, alpha, LEAKY),
    ONE("ThresholdedRelu", 1, alpha, THRESHOLDED),
    ACTIVATION("Sigmoid", 6, none, SIGMOID),
    ACTIVATION("Tanh", 6, none, TANH),
    FUSED("Clip", 6, 10, 1, 1, bounds, CLIP, shape_clip, run_clip, NULL, activation),
    FUSED("Clip", 11, NEWEST, 1, 3, none, CLIP, shape_clip, run_clip, NULL, activation),
    ONE("HardSigmoid", 6, alpha_beta, HARD_SIGMOID),
    ONE("HardSwish", 14, none, HARD_SWISH),
    ONE("Swish", 24, alpha, SWISH),
    ONE("Elu", 6, alpha, ELU),
    ONE("Selu", 6, alpha_gamma, SELU),
    ONE("Celu", 12, alpha, CELU),
    ONE("Softplus", 1, none, SOFTPLUS),
    ONE("Softsign", 1, none, SOFTSIGN),
    ONE("Mish", 18, none, MISH),
    ONE("Gelu", 20, approximate, GELU),
    ONE("Erf", 9, none, ERF),
    ONE("Sqrt", 6, none, SQRT),
    ONE("Exp", 6, none, EXP),
    ONE("Log", 6, none, LOG),
    ONE("Sin", 7, none, SIN),
    ONE("Cos", 7, none, COS),
    ONE("Abs", 6, none, ABS),
    ONE("Neg", 6, none, NEG),
    ONE("Reciprocal", 6, none, RECIPROCAL),
    ONE("Floor", 6, none, FLOOR),
    ONE("Ceil", 6, none, CEIL),
    ONE("Round", 11, none, ROUND),
    ONE("Sign", 9, none, SIGN),
    TEST("IsNaN", 9, 1, IS_NAN),
    ONE("Not", 1, none, NOT),
    OLD("Add", ADD),
    OLD("Sub", SUB),
    OLD("Mul", MUL),
    OLD("Div", DIV),
    OLD("Pow", POW),
    OLD("PRelu", PRELU),
    AFFINE("Add", 7, ADD),
    AFFINE("Sub", 7, SUB),
    AFFINE("Mul", 7, MUL),
    AFFINE("Div", 7, DIV),
    ROW("PRelu", 7, NEWEST, 2, 2, GCONV_MEMORY_IN_PLACE, none, PRELU, shape_prelu, run),
    ROW("Mod", 10, NEWEST, 2, 2, GCONV_MEMORY_IN_PLACE, fmod_rule, MOD, shape, run),
    TWO("Pow", 7, POW),
    MANY("Min", 6, MIN, run_many),
    MANY("Max", 6, MAX, run_many),
    MANY("Sum", 6, ADD, run_many),
    MANY("Mean", 6, ADD, run_mean),
    TEST("Equal", 7, 2, EQUAL),
    TEST("Less", 7, 2, LESS),
    TEST("LessOrEqual", 12, 2, LESS_EQUAL),
    TEST("Greater", 7, 2, GREATER),
    TEST("GreaterOrEqual", 12, 2, GREATER_EQUAL),
    TEST("And", 7, 2, AND),
    TEST("Or", 7, 2, OR),
    TEST("Xor", 7, 2, XOR),
    TEST("Where", 9, 3, WHERE),
    GCONV_NODE_KIND_END,
};

/* SPDX-License-Identifier: MIT */
#include "graph/elementwise.h"
#include "base/cpu.h"
#include "kernels/activation.h"

#include <math.h>

#define LOOP_PARAMETERS (const void *const *in, const int64_t *step, void *out, int64_t count, const void *given)
#define LOOP_ARGUMENTS (in, step, out, count, given)
#ifdef __clang__
#define NO_DEPENDENCES
#else
#define NO_DEPENDENCES _Pragma("GCC ivdep") /* out does not overlap an input, or is the same memory */
#endif

/* y = an expression of x and of the settings s. */
#define UNARY_BODY(T, R, expression)                                                                                        \
  const gconv_elementwise_settings *s = given;                                                                              \
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
  const gconv_elementwise_settings *s = given;                                                                              \
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

/* These functions keep NaN. */
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

/* Pow: the exponents of most models are 2 and 1/2. */
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

/* Inputs of Where: the condition, what is taken if it is true, and what is taken if it is false. */
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

gconv_element_loop *gconv_elementwise_loop(int32_t operation, gconv_tensor_type type) {
  switch (type) {
  case GCONV_TENSOR_F32:
    return operations[operation].f32;
  case GCONV_TENSOR_I64:
    return operations[operation].i64;
  case GCONV_TENSOR_I32:
    return operations[operation].i32;
  case GCONV_TENSOR_U8:
    return operations[operation].u8;
  case GCONV_TENSOR_BOOL:
    return operations[operation].boolean;
  case GCONV_TENSOR_I8:
    break;
  }
  return NULL;
}

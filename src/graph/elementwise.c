/* SPDX-License-Identifier: MIT */
#include "graph/elementwise.h"
#include "base/cpu.h"
#include "kernels/activation.h"

#include <tgmath.h>

#define LOOP_PARAMETERS (const void *const *in, const int64_t *step, void *out, int64_t count, const void *given)
#define LOOP_ARGUMENTS (in, step, out, count, given)
#ifdef __clang__
#define NO_DEPENDENCES
#else
#define NO_DEPENDENCES _Pragma("GCC ivdep") /* out does not overlap an input, or is the same memory */
#endif

/* y = an expression of x and of the settings s. In expressions, `number` is the type of x. */
#define UNARY_BODY(T, R, expression)                                                                                        \
  typedef T number;                                                                                                         \
  const gconv_elementwise_settings *s = given;                                                                              \
  const number *from = in[0];                                                                                               \
  R *y = out;                                                                                                               \
  (void)s;                                                                                                                  \
  (void)step;                                                                                                               \
  NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                      \
    const number x = from[i];                                                                                               \
    y[i] = (R)(expression);                                                                                                 \
  }
#define UNARY_OF(name, T, R, expression)                                                                                    \
  static void name LOOP_PARAMETERS {                                                                                        \
    UNARY_BODY(T, R, expression)                                                                                            \
  }
/* Loops of float32, vectorised or plain, and of float64. */
#define UNARY(name, expression)                                                                                             \
  GCONV_VECTOR_LOOP(name##_f32, LOOP_PARAMETERS,                                                                            \
                    LOOP_ARGUMENTS){UNARY_BODY(float, float, expression)} UNARY_OF(name##_f64, double, double, expression)
#define UNARY_PLAIN(name, expression)                                                                                       \
  UNARY_OF(name##_f32, float, float, expression)                                                                            \
  UNARY_OF(name##_f64, double, double, expression)
#define UNARY_TEST(name, expression)                                                                                        \
  UNARY_OF(name##_f32, float, bool, expression)                                                                             \
  UNARY_OF(name##_f64, double, bool, expression)

/* y = an expression of a and b, whose type is `number`. */
#define BINARY_BODY(T, R, expression)                                                                                       \
  typedef T number;                                                                                                         \
  const gconv_elementwise_settings *s = given;                                                                              \
  const number *first = in[0], *second = in[1];                                                                             \
  R *y = out;                                                                                                               \
  (void)s;                                                                                                                  \
  if (step[0] && step[1])                                                                                                   \
    NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                    \
      const number a = first[i], b = second[i];                                                                             \
      y[i] = (R)(expression);                                                                                               \
    }                                                                                                                       \
  else if (step[0]) {                                                                                                       \
    const number b = *second;                                                                                               \
    NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                    \
      const number a = first[i];                                                                                            \
      y[i] = (R)(expression);                                                                                               \
    }                                                                                                                       \
  } else {                                                                                                                  \
    const number a = *first;                                                                                                \
    const int64_t distance = step[1];                                                                                       \
    NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                    \
      const number b = second[i * distance];                                                                                \
      y[i] = (R)(expression);                                                                                               \
    }                                                                                                                       \
  }
#define BINARY_OF(name, T, R, expression)                                                                                   \
  static void name LOOP_PARAMETERS {                                                                                        \
    BINARY_BODY(T, R, expression)                                                                                           \
  }
#define BINARY(name, expression)                                                                                            \
  GCONV_VECTOR_LOOP(name##_f32, LOOP_PARAMETERS, LOOP_ARGUMENTS){BINARY_BODY(float, float, expression)} BINARY_OF(          \
      name##_f64, double, double, expression)
#define BINARY_PLAIN(name, expression)                                                                                      \
  BINARY_OF(name##_f32, float, float, expression)                                                                           \
  BINARY_OF(name##_f64, double, double, expression)

/* ---- Functions of float32 and float64 ---- */

static double logistic_f64(double x) {
  return 1 / (1 + exp(-x));
}
static double tanh_f64(double x) {
  return tanh(x);
}
#define LOGISTIC(x) _Generic((x), float : gconv_sigmoid, double : logistic_f64)(x)
#define TANH_OF(x) _Generic((x), float : gconv_tanh, double : tanh_f64)(x)

/* clamp(), smaller() and larger() keep NaN. */
#define FUNCTIONS(suffix, T)                                                                                                \
  GCONV_INLINE T clamp_##suffix(T x, T low, T high) {                                                                       \
    x = x < low ? low : x;                                                                                                  \
    return x > high ? high : x;                                                                                             \
  }                                                                                                                         \
  GCONV_INLINE T smaller_##suffix(T a, T b) {                                                                               \
    return a < b || a != a ? a : b;                                                                                         \
  }                                                                                                                         \
  GCONV_INLINE T larger_##suffix(T a, T b) {                                                                                \
    return a > b || a != a ? a : b;                                                                                         \
  }                                                                                                                         \
  static T modulo_##suffix(T a, T b, bool remainder) {                                                                      \
    const T rest = fmod(a, b);                                                                                              \
    return rest != 0 && !remainder && (rest < 0) != (b < 0) ? rest + b : rest;                                              \
  }                                                                                                                         \
  static T softplus_##suffix(T x) {                                                                                         \
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));                                                                      \
  }                                                                                                                         \
  static T gelu_##suffix(T x, bool approximate) {                                                                           \
    return approximate ? (T)0.5 * x * (1 + TANH_OF((T)0.797884560802865 * (x + (T)0.044715 * x * x * x)))                   \
                       : (T)0.5 * x * (1 + erf((T)0.707106781186548 * x));                                                  \
  }
FUNCTIONS(f32, float)
FUNCTIONS(f64, double)
#define OF_TYPE(function, x) _Generic((x), float : function##_f32, double : function##_f64)
#define CLAMP(x, low, high) OF_TYPE(clamp, x)(x, low, high)

/* ---- One number ---- */

UNARY(relu, x < 0 ? 0 : x)
UNARY(leaky, x < 0 ? x * (number)s->alpha : x)
UNARY(thresholded, x <= (number)s->alpha ? 0 : x)
UNARY(sigmoid, LOGISTIC(x))
UNARY(hyperbolic, TANH_OF(x))
UNARY(clip, CLAMP(x, (number)s->low, (number)s->high))
UNARY(hard_sigmoid, CLAMP((number)s->alpha *x + (number)s->beta, 0, 1))
UNARY(hard_swish, x *CLAMP(x *((number)1 / 6) + (number)0.5, 0, 1))
UNARY(square_root, sqrt(x))
UNARY(absolute, fabs(x))
UNARY(negative, -x)
UNARY(reciprocal, 1 / x)
UNARY(swish, x *LOGISTIC(x *(number)s->alpha))
UNARY(softsign, x / (1 + fabs(x)))
UNARY_PLAIN(elu, x < 0 ? (number)s->alpha * expm1(x) : x)
UNARY_PLAIN(selu, (number)s->beta *(x < 0 ? (number)s->alpha * expm1(x) : x))
UNARY_PLAIN(celu, x < 0 ? (number)s->alpha * expm1(x / (number)s->alpha) : x)
UNARY_PLAIN(soft_plus, OF_TYPE(softplus, x)(x))
UNARY_PLAIN(mish, x *TANH_OF(OF_TYPE(softplus, x)(x)))
UNARY_PLAIN(gelu_of, OF_TYPE(gelu, x)(x, s->approximate))
UNARY_PLAIN(shrink, x<-(number)s->alpha ? x + (number)s->beta : x>(number) s->alpha ? x - (number)s->beta : 0 * x)
UNARY_PLAIN(error_function, erf(x))
UNARY_PLAIN(exponential, exp(x))
UNARY_PLAIN(logarithm, log(x))
UNARY_PLAIN(sine, sin(x))
UNARY_PLAIN(cosine, cos(x))
UNARY_PLAIN(tangent, tan(x))
UNARY_PLAIN(arc_sine, asin(x))
UNARY_PLAIN(arc_cosine, acos(x))
UNARY_PLAIN(arc_tangent, atan(x))
UNARY_PLAIN(hyperbolic_sine, sinh(x))
UNARY_PLAIN(hyperbolic_cosine, cosh(x))
UNARY_PLAIN(area_sine, asinh(x))
UNARY_PLAIN(area_cosine, acosh(x))
UNARY_PLAIN(area_tangent, atanh(x))
UNARY_PLAIN(floor_of, floor(x))
UNARY_PLAIN(ceiling, ceil(x))
UNARY_PLAIN(rounded, rint(x))
UNARY_PLAIN(sign, x != x ? x : (number)((x > 0) - (x < 0)))
UNARY_TEST(is_nan, x != x)
UNARY_TEST(is_infinite, isinf(x) && (x > 0 ? s->finds_positive : s->finds_negative))
UNARY_OF(negation, bool, bool, !x)

/* ---- Two numbers ---- */

BINARY(add, a + b)
BINARY(subtract, a - b)
BINARY(multiply, a *b)
BINARY(divide, a / b)
BINARY(smallest, OF_TYPE(smaller, a)(a, b))
BINARY(largest, OF_TYPE(larger, a)(a, b))
BINARY(prelu, a < 0 ? a * b : a)
BINARY_PLAIN(rest, OF_TYPE(modulo, a)(a, b, s->remainder))

/* Pow: the exponents of most models are 2 and 1/2. */
BINARY_PLAIN(any_power, pow(a, b))
UNARY(squared, x *x)
#define POWER(suffix, T)                                                                                                    \
  static void power_##suffix LOOP_PARAMETERS {                                                                              \
    const T exponent = count > 0 && !step[1] ? *(const T *)in[1] : 0;                                                       \
    if (exponent == 2 && step[0])                                                                                           \
      squared_##suffix LOOP_ARGUMENTS;                                                                                      \
    else if (exponent == (T)0.5 && step[0])                                                                                 \
      square_root_##suffix LOOP_ARGUMENTS;                                                                                  \
    else                                                                                                                    \
      any_power_##suffix LOOP_ARGUMENTS;                                                                                    \
  }
POWER(f32, float)
POWER(f64, double)

/* ---- Integers ---- */

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
static uint64_t shifted(uint64_t a, uint64_t b, bool left) {
  return b > 63 ? 0 : left ? a << b : a >> b;
}
/* A negative number of bits is a large one. The sign comes in from the left. */
static int64_t shifted_signed(int64_t a, int64_t b, bool left) {
  const int64_t bits = b < 0 || b > 63 ? 64 : b;
  return left ? (int64_t)shifted((uint64_t)a, (uint64_t)bits, true) : a >> (bits > 63 ? 63 : bits);
}

/* T: the type; U: an unsigned type, not narrower than int, in which sums wrap around. */
#define INTEGERS(suffix, T, U)                                                                                              \
  BINARY_OF(add_##suffix, T, T, (U)a + (U)b)                                                                                \
  BINARY_OF(subtract_##suffix, T, T, (U)a - (U)b)                                                                           \
  BINARY_OF(multiply_##suffix, T, T, (U)a *(U)b)                                                                            \
  BINARY_OF(smallest_##suffix, T, T, a < b ? a : b)                                                                         \
  BINARY_OF(largest_##suffix, T, T, a > b ? a : b)                                                                          \
  BINARY_OF(power_##suffix, T, T, integer_power((int64_t)a, (int64_t)b))                                                    \
  BINARY_OF(all_bits_##suffix, T, T, a &b)                                                                                  \
  BINARY_OF(any_bits_##suffix, T, T, a | b)                                                                                 \
  BINARY_OF(other_bits_##suffix, T, T, a ^ b)                                                                               \
  UNARY_OF(no_bits_##suffix, T, T, ~x)
#define SIGNED_INTEGERS(suffix, T, U)                                                                                       \
  INTEGERS(suffix, T, U)                                                                                                    \
  BINARY_OF(divide_##suffix, T, T, b == (T)-1 ? (T)(0 - (U)a) : a / b)                                                      \
  BINARY_OF(rest_##suffix, T, T, modulo(a, b, s->remainder))                                                                \
  UNARY_OF(relu_##suffix, T, T, x < 0 ? 0 : x)                                                                              \
  UNARY_OF(absolute_##suffix, T, T, x < 0 ? 0 - (U)x : (U)x)                                                                \
  BINARY_OF(shift_##suffix, T, T, shifted_signed(a, b, s->left))                                                            \
  UNARY_OF(negative_##suffix, T, T, 0 - (U)x)                                                                               \
  UNARY_OF(sign_##suffix, T, T, (x > 0) - (x < 0))
#define UNSIGNED_INTEGERS(suffix, T, U)                                                                                     \
  INTEGERS(suffix, T, U)                                                                                                    \
  BINARY_OF(divide_##suffix, T, T, a / b)                                                                                   \
  BINARY_OF(rest_##suffix, T, T, a % b)                                                                                     \
  BINARY_OF(shift_##suffix, T, T, shifted(a, b, s->left))                                                                   \
  UNARY_OF(absolute_##suffix, T, T, x)                                                                                      \
  UNARY_OF(sign_##suffix, T, T, x > 0)
SIGNED_INTEGERS(i8, int8_t, uint32_t)
SIGNED_INTEGERS(i16, int16_t, uint32_t)
SIGNED_INTEGERS(i32, int32_t, uint32_t)
SIGNED_INTEGERS(i64, int64_t, uint64_t)
UNSIGNED_INTEGERS(u8, uint8_t, uint32_t)
UNSIGNED_INTEGERS(u16, uint16_t, uint32_t)
UNSIGNED_INTEGERS(u32, uint32_t, uint32_t)
UNSIGNED_INTEGERS(u64, uint64_t, uint64_t)

/* ---- Comparisons and choices ---- */

#define COMPARISON(name, operator)                                                                                          \
  BINARY_OF(name##_f32, float, bool, a operator b)                                                                          \
  BINARY_OF(name##_f64, double, bool, a operator b)                                                                         \
  BINARY_OF(name##_i8, int8_t, bool, a operator b)                                                                          \
  BINARY_OF(name##_i16, int16_t, bool, a operator b)                                                                        \
  BINARY_OF(name##_i32, int32_t, bool, a operator b)                                                                        \
  BINARY_OF(name##_i64, int64_t, bool, a operator b)                                                                        \
  BINARY_OF(name##_u8, uint8_t, bool, a operator b)                                                                         \
  BINARY_OF(name##_u16, uint16_t, bool, a operator b)                                                                       \
  BINARY_OF(name##_u32, uint32_t, bool, a operator b)                                                                       \
  BINARY_OF(name##_u64, uint64_t, bool, a operator b)
COMPARISON(equal, ==)
COMPARISON(less, <)
COMPARISON(less_equal, <=)
COMPARISON(greater, >)
COMPARISON(greater_equal, >=)
BINARY_OF(both, bool, bool, a &&b)
BINARY_OF(either, bool, bool, a || b)
BINARY_OF(one_of, bool, bool, a != b)

/* Inputs of Where: the condition, the elements taken if it is true, and the elements taken if it is false. */
#define CHOICE(name, T)                                                                                                     \
  static void name LOOP_PARAMETERS {                                                                                        \
    const bool *where = in[0];                                                                                              \
    const T *yes = in[1], *no = in[2];                                                                                      \
    T *y = out;                                                                                                             \
    (void)given;                                                                                                            \
    for (int64_t i = 0; i < count; i++)                                                                                     \
      y[i] = where[i * step[0]] ? yes[i * step[1]] : no[i * step[2]];                                                       \
  }
CHOICE(choice_1, uint8_t)
CHOICE(choice_2, uint16_t)
CHOICE(choice_4, uint32_t)
CHOICE(choice_8, uint64_t)

/* ---- Operations ---- */

#define REALS(name) [GCONV_TENSOR_F32] = name##_f32, [GCONV_TENSOR_F64] = name##_f64
#define SIGNED(name)                                                                                                        \
  [GCONV_TENSOR_I8] = name##_i8, [GCONV_TENSOR_I16] = name##_i16, [GCONV_TENSOR_I32] = name##_i32,                          \
  [GCONV_TENSOR_I64] = name##_i64
#define UNSIGNED(name)                                                                                                      \
  [GCONV_TENSOR_U8] = name##_u8, [GCONV_TENSOR_U16] = name##_u16, [GCONV_TENSOR_U32] = name##_u32,                          \
  [GCONV_TENSOR_U64] = name##_u64
#define WHOLE(name) SIGNED(name), UNSIGNED(name)
#define NUMBERS(name) REALS(name), WHOLE(name)
#define TRUTH(name) [GCONV_TENSOR_BOOL] = name

/* The loops of an operation for each type; NULL: it does not take this type. */
static gconv_element_loop *const operations[][GCONV_TENSOR_TYPES] = {
    [RELU] = {REALS(relu), SIGNED(relu)},
    [LEAKY] = {REALS(leaky)},
    [THRESHOLDED] = {REALS(thresholded)},
    [SIGMOID] = {REALS(sigmoid)},
    [TANH] = {REALS(hyperbolic)},
    [CLIP] = {REALS(clip)},
    [HARD_SIGMOID] = {REALS(hard_sigmoid)},
    [HARD_SWISH] = {REALS(hard_swish)},
    [SQRT] = {REALS(square_root)},
    [ABS] = {NUMBERS(absolute)},
    [NEG] = {REALS(negative), SIGNED(negative)},
    [RECIPROCAL] = {REALS(reciprocal)},
    [SWISH] = {REALS(swish)},
    [SOFTSIGN] = {REALS(softsign)},
    [ELU] = {REALS(elu)},
    [SELU] = {REALS(selu)},
    [CELU] = {REALS(celu)},
    [SOFTPLUS] = {REALS(soft_plus)},
    [MISH] = {REALS(mish)},
    [GELU] = {REALS(gelu_of)},
    [SHRINK] = {REALS(shrink)},
    [ERF] = {REALS(error_function)},
    [EXP] = {REALS(exponential)},
    [LOG] = {REALS(logarithm)},
    [SIN] = {REALS(sine)},
    [COS] = {REALS(cosine)},
    [TAN] = {REALS(tangent)},
    [ASIN] = {REALS(arc_sine)},
    [ACOS] = {REALS(arc_cosine)},
    [ATAN] = {REALS(arc_tangent)},
    [SINH] = {REALS(hyperbolic_sine)},
    [COSH] = {REALS(hyperbolic_cosine)},
    [ASINH] = {REALS(area_sine)},
    [ACOSH] = {REALS(area_cosine)},
    [ATANH] = {REALS(area_tangent)},
    [FLOOR] = {REALS(floor_of)},
    [CEIL] = {REALS(ceiling)},
    [ROUND] = {REALS(rounded)},
    [SIGN] = {NUMBERS(sign)},
    [BITWISE_NOT] = {WHOLE(no_bits)},
    [IS_NAN] = {REALS(is_nan)},
    [IS_INF] = {REALS(is_infinite)},
    [NOT] = {TRUTH(negation)},
    [ADD] = {NUMBERS(add)},
    [SUB] = {NUMBERS(subtract)},
    [MUL] = {NUMBERS(multiply)},
    [DIV] = {NUMBERS(divide)},
    [MIN] = {NUMBERS(smallest)},
    [MAX] = {NUMBERS(largest)},
    [PRELU] = {REALS(prelu)},
    [MOD] = {NUMBERS(rest)},
    [POW] = {NUMBERS(power)},
    [BIT_SHIFT] = {WHOLE(shift)},
    [BITWISE_AND] = {WHOLE(all_bits)},
    [BITWISE_OR] = {WHOLE(any_bits)},
    [BITWISE_XOR] = {WHOLE(other_bits)},
    [EQUAL] = {NUMBERS(equal), TRUTH(equal_u8)},
    [LESS] = {NUMBERS(less)},
    [LESS_EQUAL] = {NUMBERS(less_equal)},
    [GREATER] = {NUMBERS(greater)},
    [GREATER_EQUAL] = {NUMBERS(greater_equal)},
    [AND] = {TRUTH(both)},
    [OR] = {TRUTH(either)},
    [XOR] = {TRUTH(one_of)},
};

GCONV_VECTOR_LOOP(swish_by_steps, LOOP_PARAMETERS, LOOP_ARGUMENTS){
    UNARY_BODY(float, float,
               x *CLAMP(x + (number)s->alpha, (number)s->low, (number)s->high) /
                   (number)s->beta)} gconv_element_loop *const gconv_elementwise_swish_by_steps = swish_by_steps;

gconv_element_loop *gconv_elementwise_loop(int32_t operation, gconv_tensor_type type) {
  static gconv_element_loop *const choices[] = {[1] = choice_1, [2] = choice_2, [4] = choice_4, [8] = choice_8};
  return operation == WHERE ? choices[gconv_tensor_type_bytes(type)] : operations[operation][type];
}

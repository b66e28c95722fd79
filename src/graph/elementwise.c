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
#define NO_DEPENDENCES _Pragma("GCC ivdep") /* out is the memory of an input, or does not overlap it */
#endif

/* y = an expression of x and of the settings s. In expressions, `number` is the type of x. */
#define ONE_BODY(T, W, R, expression)                                                                                       \
  typedef T number;                                                                                                         \
  typedef W wide __attribute__((unused));                                                                                   \
  const gconv_elementwise_settings *s = given;                                                                              \
  const number *from = in[0];                                                                                               \
  R *y = out;                                                                                                               \
  (void)s;                                                                                                                  \
  (void)step;                                                                                                               \
  NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {                                                                      \
    const number x = from[i];                                                                                               \
    y[i] = (R)(expression);                                                                                                 \
  }
/* y = an expression of a and b, whose type is `number`. */
#define TWO_BODY(T, W, R, expression)                                                                                       \
  typedef T number;                                                                                                         \
  typedef W wide __attribute__((unused));                                                                                   \
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

/* ---- Functions of float32 and float64 ---- */

static double logistic_f64(double x) {
  return 1 / (1 + exp(-x));
}
static double tanh_f64(double x) {
  return tanh(x);
}
GCONV_ELEMENT_FUNCTIONS(GCONV_INLINE, f32, float, gconv_tanh)
GCONV_ELEMENT_FUNCTIONS(GCONV_INLINE, f64, double, tanh_f64)
#define OF_TYPE(function, x) _Generic((x), float : function##_f32, double : function##_f64)
#define LOGISTIC(x) _Generic((x), float : gconv_sigmoid, double : logistic_f64)(x)
#define HYPERBOLIC(x) _Generic((x), float : gconv_tanh, double : tanh_f64)(x)
#define CLAMP(x, low, high) OF_TYPE(clamp, x)(x, low, high)
#define SMALLER(a, b) OF_TYPE(smaller, a)(a, b)
#define LARGER(a, b) OF_TYPE(larger, a)(a, b)
#define MODULO(a, b, remainder) OF_TYPE(modulo, a)(a, b, remainder)
#define HALF_POWER(x) OF_TYPE(half_power, x)(x)
#define LOG_1_EXP(x) OF_TYPE(softplus, x)(x)
#define ERROR_UNIT(x, approximate) OF_TYPE(gelu, x)(x, approximate)

static uint64_t shifted(uint64_t a, uint64_t b, bool left) {
  return b > 63 ? 0 : left ? a << b : a >> b;
}
/* A negative number of bits counts as a large one. To the right, the shift is arithmetic. */
static int64_t shifted_signed(int64_t a, int64_t b, bool left) {
  const int64_t bits = b < 0 || b > 63 ? 64 : b;
  return left ? (int64_t)shifted((uint64_t)a, (uint64_t)bits, true) : a >> (bits > 63 ? 63 : bits);
}

/* ---- The loops of all operations and types ---- */

/* LOOP(form, name, T, W, R, expression) defines a plain loop over elements of T, with sums in W, that makes R. */
#define LOOP(form, name, T, W, R, expression)                                                                               \
  static void name LOOP_PARAMETERS {                                                                                        \
    form##_BODY(T, W, R, expression)                                                                                        \
  }
#define VECTOR(form, code, expression)                                                                                      \
  GCONV_VECTOR_LOOP(code##_f32, LOOP_PARAMETERS, LOOP_ARGUMENTS){form##_BODY(float, float, float, expression)} LOOP(        \
      form, code##_f64, double, double, double, expression)
#define PLAIN(form, code, expression)                                                                                       \
  LOOP(form, code##_f32, float, float, float, expression)                                                                   \
  LOOP(form, code##_f64, double, double, double, expression)
#define TEST(form, code, expression)                                                                                        \
  LOOP(form, code##_f32, float, float, bool, expression)                                                                    \
  LOOP(form, code##_f64, double, double, bool, expression)
#define OWN(form, code, expression)

/* Loops of integers; RESULT(T) is the type of their results. */
#define SAME(T) T
#define TRUE_OR_FALSE(T) bool
#define SIGNED_OF(form, RESULT, code, expression)                                                                           \
  LOOP(form, code##_i8, int8_t, uint32_t, RESULT(int8_t), expression)                                                       \
  LOOP(form, code##_i16, int16_t, uint32_t, RESULT(int16_t), expression)                                                    \
  LOOP(form, code##_i32, int32_t, uint32_t, RESULT(int32_t), expression)                                                    \
  LOOP(form, code##_i64, int64_t, uint64_t, RESULT(int64_t), expression)
#define UNSIGNED_OF(form, RESULT, code, expression)                                                                         \
  LOOP(form, code##_u8, uint8_t, uint32_t, RESULT(uint8_t), expression)                                                     \
  LOOP(form, code##_u16, uint16_t, uint32_t, RESULT(uint16_t), expression)                                                  \
  LOOP(form, code##_u32, uint32_t, uint32_t, RESULT(uint32_t), expression)                                                  \
  LOOP(form, code##_u64, uint64_t, uint64_t, RESULT(uint64_t), expression)
#define WHOLE_OF(form, RESULT, code, expression)                                                                            \
  SIGNED_OF(form, RESULT, code, expression)                                                                                 \
  UNSIGNED_OF(form, RESULT, code, expression)

#define UNARY(code, loop, place, expression) loop(ONE, code, expression)
#define BINARY(code, loop, place, expression) loop(TWO, code, expression)
#define INTEGER_UNARY(code, types, place, expression) types##_OF(ONE, SAME, code, expression)
#define INTEGER_BINARY(code, types, place, expression) types##_OF(TWO, SAME, code, expression)
#define BITS_UNARY(code, expression) WHOLE_OF(ONE, SAME, code, expression)
#define BITS_BINARY(code, expression) WHOLE_OF(TWO, SAME, code, expression)
#define COMPARISON(code, expression) TEST(TWO, code, expression) WHOLE_OF(TWO, TRUE_OR_FALSE, code, expression)
#define TRUTH_UNARY(code, expression) LOOP(ONE, code##_bool, bool, bool, bool, expression)
#define TRUTH_BINARY(code, expression) LOOP(TWO, code##_bool, bool, bool, bool, expression)
#include "kernels/elementwise.def"

/* Pow: the exponents of most models are 2 and 1/2. */
PLAIN(TWO, any_power, pow(a, b))
VECTOR(ONE, squared, x *x)
VECTOR(ONE, rooted, HALF_POWER(x))
#define POWER(suffix, T)                                                                                                    \
  static void POW_##suffix LOOP_PARAMETERS {                                                                                \
    const T exponent = count > 0 && !step[1] ? *(const T *)in[1] : 0;                                                       \
    if (exponent == 2 && step[0])                                                                                           \
      squared_##suffix LOOP_ARGUMENTS;                                                                                      \
    else if (exponent == (T)0.5 && step[0])                                                                                 \
      rooted_##suffix LOOP_ARGUMENTS;                                                                                       \
    else                                                                                                                    \
      any_power_##suffix LOOP_ARGUMENTS;                                                                                    \
  }
POWER(f32, float)
POWER(f64, double)

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

/* The loops of an operation for each type; NULL: it does not take this type. */
#define TAKES(code, TYPE, suffix) [code][GCONV_TENSOR_##TYPE] = code##_##suffix,
#define REALS(code) TAKES(code, F32, f32) TAKES(code, F64, f64)
#define SIGNED(code) TAKES(code, I8, i8) TAKES(code, I16, i16) TAKES(code, I32, i32) TAKES(code, I64, i64)
#define UNSIGNED(code) TAKES(code, U8, u8) TAKES(code, U16, u16) TAKES(code, U32, u32) TAKES(code, U64, u64)
#define WHOLE(code) SIGNED(code) UNSIGNED(code)
static gconv_element_loop *const operations[][GCONV_TENSOR_TYPES] = {
#define UNARY(code, loop, place, expression) REALS(code)
#define BINARY(code, loop, place, expression) REALS(code)
#define INTEGER_UNARY(code, types, place, expression) types(code)
#define INTEGER_BINARY(code, types, place, expression) types(code)
#define BITS_UNARY(code, expression) WHOLE(code)
#define BITS_BINARY(code, expression) WHOLE(code)
#define COMPARISON(code, expression) REALS(code) WHOLE(code)
#define TRUTH_UNARY(code, expression) TAKES(code, BOOL, bool)
#define TRUTH_BINARY(code, expression) TAKES(code, BOOL, bool)
#include "kernels/elementwise.def"
    TAKES(EQUAL, BOOL, u8)};

GCONV_VECTOR_LOOP(swish_by_steps, LOOP_PARAMETERS, LOOP_ARGUMENTS){
    ONE_BODY(float, float, float,
             x *CLAMP(x + (number)s->alpha, (number)s->low, (number)s->high) /
                 (number)s->beta)} gconv_element_loop *const gconv_elementwise_swish_by_steps = swish_by_steps;

gconv_element_loop *gconv_elementwise_loop(int32_t operation, gconv_tensor_type type) {
  static gconv_element_loop *const choices[] = {[1] = choice_1, [2] = choice_2, [4] = choice_4, [8] = choice_8};
  return operation == WHERE ? choices[gconv_tensor_type_bytes(type)] : operations[operation][type];
}

gconv_status gconv_elementwise_align_old(const gconv_node_work *work, const gconv_node_kind *kind, gconv_tensor *aligned) {
  const gconv_elementwise_settings *s = work->settings;
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

bool gconv_elementwise_has_zero(const gconv_tensor *t) {
  const int64_t count = gconv_tensor_elements(t);
  for (int64_t i = 0; i < count; i++)
    if (gconv_tensor_integer(t, i) == 0)
      return true;
  return false;
}

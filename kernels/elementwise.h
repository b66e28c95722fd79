/* SPDX-License-Identifier: MIT */
/* The element-wise operations of nodes of graphs, on the CPU and on GPUs: their codes, settings and helpers. elementwise.def
 * has the expressions. */
#pragma once

#include "base/both.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gconv_elementwise_settings {
  float alpha, beta, low, high;
  int64_t axis;     /* up to opset 6: the axis of input 0 that matches the first axis of input 1; -1: the last axes match */
  bool by_suffix;   /* up to opset 6: input 1 is repeated along all other axes */
  bool approximate; /* Gelu by tanh */
  bool remainder;   /* Mod has the sign of the dividend, as C's fmod() and % have */
  bool left;        /* BitShift shifts to the left */
  bool finds_positive, finds_negative; /* of IsInf */
} gconv_elementwise_settings;

/* All operations from EQUAL on, except WHERE, make true or false. WHERE takes its second input where the first is true, else
 * its third. */
typedef enum gconv_elementwise {
#define UNARY(code, loop, place, expression) code,
#define BINARY(code, loop, place, expression) code,
#define BITS_UNARY(code, expression) code,
#define BITS_BINARY(code, expression) code,
#define COMPARISON(code, expression) code,
#define TRUTH_UNARY(code, expression) code,
#define TRUTH_BINARY(code, expression) code,
#include "kernels/elementwise.def"
  WHERE
} gconv_elementwise;

/* Functions of floats of a type, for the expressions. clamp(), smaller() and larger() keep NaN. `how` stands for the
 * specifiers, such as static inline; tanh_of(x) is the hyperbolic tangent. */
#define GCONV_ELEMENT_FUNCTIONS(how, suffix, T, tanh_of)                                                                    \
  how T clamp_##suffix(T x, T low, T high) {                                                                                \
    x = x < low ? low : x;                                                                                                  \
    return x > high ? high : x;                                                                                             \
  }                                                                                                                         \
  how T smaller_##suffix(T a, T b) {                                                                                        \
    return a < b || a != a ? a : b;                                                                                         \
  }                                                                                                                         \
  how T larger_##suffix(T a, T b) {                                                                                         \
    return a > b || a != a ? a : b;                                                                                         \
  }                                                                                                                         \
  how T modulo_##suffix(T a, T b, bool remainder) {                                                                         \
    const T rest = fmod(a, b);                                                                                              \
    return rest != 0 && !remainder && (rest < 0) != (b < 0) ? rest + b : rest;                                              \
  }                                                                                                                         \
  how T half_power_##suffix(T x) { /* pow(x, 0.5): differs from sqrt(x) at -infinity and -0 */                              \
    return x == -(T)INFINITY ? (T)INFINITY : sqrt(x + 0);                                                                   \
  }                                                                                                                         \
  how T softplus_##suffix(T x) {                                                                                            \
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));                                                                      \
  }                                                                                                                         \
  how T gelu_##suffix(T x, bool approximate) {                                                                              \
    return approximate ? (T)0.5 * x * (1 + tanh_of((T)0.797884560802865 * (x + (T)0.044715 * x * x * x)))                   \
                       : (T)0.5 * x * (1 + erf((T)0.707106781186548 * x));                                                  \
  }

/* Functions of integers. Nodes refuse a divisor of 0; here, it yields 0. */
GCONV_BOTH int64_t gconv_integer_modulo(int64_t a, int64_t b, bool remainder) {
  const int64_t rest = b == -1 || b == 0 ? 0 : a % b;
  return rest != 0 && !remainder && (rest < 0) != (b < 0) ? rest + b : rest;
}
GCONV_BOTH int64_t gconv_integer_power(int64_t a, int64_t b) {
  uint64_t result = 1, square = (uint64_t)a;
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  for (; b > 0; b >>= 1, square *= square)
    result *= b & 1 ? square : 1;
  return (int64_t)result;
}

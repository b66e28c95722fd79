/* SPDX-License-Identifier: MIT */
/* The operations on each element by itself, of nodes of graphs, on the CPU and on GPUs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct gconv_elementwise_settings {
  float alpha, beta, low, high;
  int64_t axis;     /* up to opset 6: the axis of input 0 that matches the first axis of input 1; -1: the last axes match */
  bool by_suffix;   /* up to opset 6: input 1 is repeated along all other axes */
  bool approximate; /* Gelu by tanh */
  bool remainder;   /* Mod is that of C's fmod() and % */
  bool left;        /* BitShift goes to larger numbers */
  bool finds_positive, finds_negative; /* of IsInf */
} gconv_elementwise_settings;

typedef enum gconv_elementwise {
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
  SHRINK,
  ERF,
  EXP,
  LOG,
  SIN,
  COS,
  TAN,
  ASIN,
  ACOS,
  ATAN,
  SINH,
  COSH,
  ASINH,
  ACOSH,
  ATANH,
  FLOOR,
  CEIL,
  ROUND,
  SIGN,
  BITWISE_NOT,
  IS_NAN,
  IS_INF,
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
  BIT_SHIFT,
  BITWISE_AND,
  BITWISE_OR,
  BITWISE_XOR,
  EQUAL,
  LESS,
  LESS_EQUAL,
  GREATER,
  GREATER_EQUAL,
  AND,
  OR,
  XOR,
  WHERE
} gconv_elementwise;

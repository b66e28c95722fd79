/* SPDX-License-Identifier: MIT */
/* The loops of nodes that compute each element by itself (elementwise.c): one for each operation and type of numbers. Only
 * .c files of this family include it. */
#pragma once

#include "graph/broadcast.h"

typedef struct gconv_elementwise_settings {
  float alpha, beta, low, high;
  int64_t axis;     /* up to opset 6: the axis of input 0 that matches the first axis of input 1; -1: the last axes match */
  bool by_suffix;   /* up to opset 6: input 1 is repeated along all other axes */
  bool approximate; /* Gelu by tanh */
  bool remainder;   /* Mod is that of C's fmod() and % */
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
} gconv_elementwise;

/* Returns the loop of an operation, whose settings are gconv_elementwise_settings; NULL if it does not take this type. */
gconv_element_loop *gconv_elementwise_loop(int32_t operation, gconv_tensor_type type);

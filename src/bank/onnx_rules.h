/* SPDX-License-Identifier: MIT */
/* Short names for the rules of attributes of ONNX. Only .c files include it. */
#pragma once

#include "bank/onnx.h"

enum { NEWEST = GCONV_ONNX_NEWEST_OPSET };

/* Attributes, by the opsets that have them. */
#define FLOAT(name, since, until)                                                                                           \
  { name, GCONV_ONNX_A_FLOAT, since, until, GCONV_ONNX_READ, 0 }
#define INT(name, since, until)                                                                                             \
  { name, GCONV_ONNX_AN_INT, since, until, GCONV_ONNX_READ, 0 }
#define INTS(name, since, until)                                                                                            \
  { name, GCONV_ONNX_INTS, since, until, GCONV_ONNX_READ, 0 }
#define FLOATS(name, since, until)                                                                                          \
  { name, GCONV_ONNX_SOME_FLOATS, since, until, GCONV_ONNX_READ, 0 }
#define STRING(name)                                                                                                        \
  { name, GCONV_ONNX_A_STRING, 1, NEWEST, GCONV_ONNX_READ, 0 }
#define TENSOR(name)                                                                                                        \
  { name, GCONV_ONNX_A_TENSOR, 1, NEWEST, GCONV_ONNX_READ, 0 }
#define FIXED(name, kind, value, since, until)                                                                              \
  { name, kind, since, until, GCONV_ONNX_FIXED, value }
#define NEEDED(name, value, until)                                                                                          \
  { name, GCONV_ONNX_AN_INT, 1, until, GCONV_ONNX_NEEDED, value }
#define END                                                                                                                 \
  { NULL, GCONV_ONNX_AN_INT, 0, 0, GCONV_ONNX_READ, 0 }

typedef const gconv_onnx_rule rules[];

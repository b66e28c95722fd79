/* SPDX-License-Identifier: MIT */
/* Short names for tables of operators of ONNX. Only .c files include it. */
#pragma once

#include "bank/network_onnx.h"
#include "bank/onnx_rules.h"

enum {
  IMAGES = GCONV_ONNX_IMAGES,
  ROWS = GCONV_ONNX_ROWS,
  SQUEEZED = GCONV_ONNX_SQUEEZED,
  UNSAID = GCONV_ONNX_UNSAID,
  ANY = IMAGES | ROWS | SQUEEZED | UNSAID
};

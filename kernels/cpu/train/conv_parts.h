/* SPDX-License-Identifier: MIT */
/* Constants and functions that conv_prepare.c and conv.c share. */
#pragma once

#include "conv.h"

enum {
  TRANSPOSED = 16, /* a multiple of the number of places that are transposed at a time */
  BLOCK = 32       /* columns of a block; a row of taps is left out there if all samples under it are 0 */
};

static inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

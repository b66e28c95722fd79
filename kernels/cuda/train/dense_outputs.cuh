/* SPDX-License-Identifier: MIT */
/* What becomes of the sums of a dense layer's products (dense_product.cuh). store() gets two neighbouring sums of row m; the
 * second one counts only if `two`. */
#pragma once

#include "kernels/learn_math.h"

#include <cuda_runtime.h>

namespace {

/* Stores two numbers at once where their address allows it. pitch: floats of a row. */
__device__ __forceinline__ void store_two(float *to, int64_t pitch, float a, float b, bool two) {
  if (two && pitch % 2 == 0) {
    *(float2 *)to = {a, b};
    return;
  }
  to[0] = a;
  if (two)
    to[1] = b;
}

/* Forward: y = activation(sum + bias), cases x outputs. Without softmax. */
struct dense_forward {
  enum { ROWS = false };
  gconv_activation activation;
  float slope;
  const float *biases;
  float *y;
  int64_t outputs;
  __device__ void store(int32_t m, int32_t n, float a, float b, bool two) const {
    a = gconv_activated(activation, slope, a + biases[n]);
    if (two)
      b = gconv_activated(activation, slope, b + biases[n + 1]);
    store_two(y + m * outputs + n, outputs, a, b, two);
  }
};

/* Backward to the inputs of a layer, which are the outputs `y` of the layer before it: the gradient of that layer's sums. */
struct dense_backward {
  enum { ROWS = false };
  gconv_activation activation; /* of the layer before */
  float slope;
  const float *y;
  float *dz;
  int64_t inputs;
  __device__ void store(int32_t m, int32_t n, float a, float b, bool two) const {
    const int64_t at = m * inputs + n;
    a = gconv_learn_slope(activation, slope, y[at], a);
    if (two)
      b = gconv_learn_slope(activation, slope, y[at + 1], b);
    store_two(dz + at, inputs, a, b, two);
  }
};

/* The gradient of weights and biases: a leaf for each part of the cases. */
struct dense_leaves {
  enum { ROWS = true };
  float *leaves;
  int64_t inputs, outputs, parameters; /* parameters: floats of a leaf */
  __device__ void store(int32_t m, int32_t n, float a, float b, bool two) const {
    store_two(leaves + blockIdx.z * parameters + m * inputs + n, 1, a, b, two);
  }
  __device__ void store_row(int32_t m, float sum) const {
    leaves[blockIdx.z * parameters + outputs * inputs + m] = sum;
  }
};

} // namespace

/* SPDX-License-Identifier: MIT */
/* The epilogues of a dense layer's products (dense_product.cuh, dense_groups.cuh). store() gets two neighbouring sums of row
 * m; the second one counts only if `two`. z: the part of the values of l. need() reads the numbers that store() needs. SUMS:
 * the sums of a's rows are stored, too. */
#pragma once

#include "../core/unroll.cuh"
#include "kernels/learn_math.h"

#include <cuda_runtime.h>

namespace {

/* Load and store two neighbours, in one access if their address allows it. pitch: floats of a row. */
DEVICE float2 load_two(const float *from, int64_t pitch, bool two) {
  if (two && pitch % 2 == 0)
    return *(const float2 *)from;
  return {from[0], two ? from[1] : 0.0f};
}
DEVICE void store_two(float *to, int64_t pitch, float a, float b, bool two) {
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
  enum { SUMS = false };
  using needed = float2;
  gconv_activation activation;
  float slope;
  const float *biases;
  float *y;
  int64_t outputs;
  DEVICE float2 need(int32_t, int32_t n, bool two) const {
    return load_two(biases + n, 1, two);
  }
  DEVICE void store(int32_t, int32_t m, int32_t n, float a, float b, bool two, float2 bias) const {
    store_two(y + m * outputs + n, outputs, gconv_activated(activation, slope, a + bias.x),
              gconv_activated(activation, slope, b + bias.y), two);
  }
};

/* Backward to the inputs of a layer, which are the outputs `y` of the layer before it: stores the gradient of that layer's
 * sums. */
struct dense_backward {
  enum { SUMS = false };
  using needed = float2;
  gconv_activation activation; /* of the layer before */
  float slope;
  const float *y;
  float *dz;
  int64_t inputs;
  DEVICE float2 need(int32_t m, int32_t n, bool two) const {
    return load_two(y + m * inputs + n, inputs, two);
  }
  DEVICE void store(int32_t, int32_t m, int32_t n, float a, float b, bool two, float2 of) const {
    store_two(dz + m * inputs + n, inputs, gconv_learn_slope(activation, slope, of.x, a),
              gconv_learn_slope(activation, slope, of.y, b), two);
  }
};

/* The gradient of weights and biases: a leaf for each part of the cases. */
struct dense_leaves {
  enum { SUMS = true };
  struct needed {};
  float *leaves;
  int64_t inputs, outputs, parameters; /* parameters: floats of a leaf */
  DEVICE needed need(int32_t, int32_t, bool) const {
    return {};
  }
  DEVICE void store(int32_t z, int32_t m, int32_t n, float a, float b, bool two, needed) const {
    store_two(leaves + z * parameters + m * inputs + n, 1, a, b, two);
  }
  DEVICE void store_sum(int32_t z, int32_t m, float sum) const {
    leaves[z * parameters + outputs * inputs + m] = sum;
  }
};

} // namespace

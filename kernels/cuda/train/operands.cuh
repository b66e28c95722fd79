/* SPDX-License-Identifier: MIT */
/* The operands and outputs of the products of layers in training (product.cuh). */
#pragma once

#include "layers.h"
#include "product.cuh"

namespace {

/* ---- Operands of products. z is a group of filters, unless a comment says otherwise ---- */

/* A row and a column of a tensor, and the address from which load() counts. */
struct point {
  const float *from;
  int32_t row, column;
};

/* Returns the input under the first tap of output number `at` of an image. x: the first channel of the image. */
__device__ __forceinline__ point point_under(const gconv_layer_problem &p, const float *x, int32_t at) {
  const int32_t row = at / p.out_width, top = row * p.stride_y - p.pad_top;
  const int32_t left = (at - row * p.out_width) * p.stride_x - p.pad_left;
  return {x + (int64_t)top * p.width + left, top, left};
}

/* Returns the input under a tap, or 0 outside the image. first: the place under the first tap. */
__device__ __forceinline__ float input_under(const gconv_layer_problem &p, const point &first, gconv_learn_tap tap) {
  const bool inside =
      (unsigned)(first.row + tap.row) < (unsigned)p.height && (unsigned)(first.column + tap.column) < (unsigned)p.width;
  return inside ? first.from[tap.offset] : 0.0f;
}

/* Weight of filter m and tap l; weights are K x C/G x R x S. */
struct weights_by_filter {
  gconv_layer_problem p;
  const float *weights;
  int64_t first = 0;
  static constexpr bool BY_L = true;
  using place = int64_t;
  __device__ void begin(int64_t z) {
    weights += (first + z) * (p.filters / p.groups) * gconv_layer_taps(&p);
  }
  __device__ int64_t length(int64_t) const {
    return gconv_layer_taps(&p);
  }
  __device__ place at(int64_t l) const {
    return l;
  }
  __device__ float load(place l, int64_t m) const {
    return weights[m * gconv_layer_taps(&p) + l];
  }
};

/* Input under tap l of the output n = (case, place). */
struct inputs_by_place {
  gconv_layer_problem p;
  const float *x;
  const gconv_learn_tap *taps;
  int64_t first = 0;
  static constexpr bool BY_L = false;
  using place = point;
  __device__ void begin(int64_t z) {
    x += (first + z) * (p.channels / p.groups) * p.height * p.width;
  }
  __device__ place at(int64_t n) const {
    const int64_t places = (int64_t)p.out_height * p.out_width, image = n / places;
    return point_under(p, x + image * p.channels * p.height * p.width, (int32_t)(n - image * places));
  }
  __device__ float load(const place &own, int64_t l) const {
    return input_under(p, own, taps[l]);
  }
};

/* In the gradient of inputs, l is (filter of the group, r descending, s descending). */
struct flipped_tap {
  int64_t k;
  int32_t r, s;
};
__device__ flipped_tap flipped_tap_of(const gconv_layer_problem &p, int64_t l) {
  const int32_t taps = p.rows * p.columns;
  flipped_tap t;
  t.k = l / taps;
  const int32_t at = (int32_t)(l - t.k * taps), row = at / p.columns;
  t.r = p.rows - 1 - row;
  t.s = p.columns - 1 - (at - row * p.columns);
  return t;
}

/* Weight of channel m and flipped tap l. */
struct weights_by_channel {
  gconv_layer_problem p;
  const float *weights;
  int64_t first = 0;
  static constexpr bool BY_L = true;
  using place = const float *;
  __device__ void begin(int64_t z) {
    weights += (first + z) * (p.filters / p.groups) * gconv_layer_taps(&p);
  }
  __device__ int64_t length(int64_t) const {
    return (int64_t)(p.filters / p.groups) * p.rows * p.columns;
  }
  __device__ place at(int64_t l) const {
    const flipped_tap t = flipped_tap_of(p, l);
    return weights + t.k * gconv_layer_taps(&p) + t.r * p.columns + t.s;
  }
  __device__ float load(place own, int64_t m) const {
    return own[m * p.rows * p.columns];
  }
};

/* Gradient of the sum to which the input n = (case, row, column) contributes through the flipped tap l; 0 if it contributes
 * to no sum through this tap. */
struct gradients_by_input {
  gconv_layer_problem p;
  const float *dz;
  int64_t first = 0;
  static constexpr bool BY_L = false;
  using place = point;
  __device__ void begin(int64_t z) {
    dz += (first + z) * (p.filters / p.groups) * p.out_height * p.out_width;
  }
  __device__ place at(int64_t n) const {
    const int64_t places = (int64_t)p.height * p.width, image = n / places;
    const int32_t at = (int32_t)(n - image * places), row = at / p.width;
    return {dz + image * p.filters * p.out_height * p.out_width, row + p.pad_top, at - row * p.width + p.pad_left};
  }
  __device__ float load(const place &own, int64_t l) const {
    const flipped_tap t = flipped_tap_of(p, l);
    const int32_t y = own.row - t.r * p.dilation_y, x = own.column - t.s * p.dilation_x;
    if (y < 0 || x < 0)
      return 0.0f;
    const int32_t row = y / p.stride_y, column = x / p.stride_x;
    if (row * p.stride_y != y || column * p.stride_x != x || row >= p.out_height || column >= p.out_width)
      return 0.0f;
    return own.from[(t.k * p.out_height + row) * p.out_width + column];
  }
};

/* In the gradient of weights before the tail, z is (case, band, group), and l is a place of the band. */
struct band {
  int64_t image, group, begin;
  __device__ band(const gconv_layer_problem &p, int64_t z) {
    const int64_t bands = gconv_learn_bands(&p), at = z / p.groups;
    group = z - at * p.groups;
    image = at / bands;
    begin = (at - image * bands) * gconv_learn_band_rows(&p) * p.out_width;
  }
};

/* Gradient of the sum of filter m at place l. */
struct gradients_by_place {
  gconv_layer_problem p;
  const float *dz;
  int64_t first = 0;
  int64_t count = 0;
  static constexpr bool BY_L = true;
  using place = int64_t;
  __device__ void begin(int64_t z) {
    const band own(p, first + z);
    const int64_t places = (int64_t)p.out_height * p.out_width, all = (int64_t)gconv_learn_band_rows(&p) * p.out_width;
    dz += (own.image * p.filters + own.group * (p.filters / p.groups)) * places + own.begin;
    count = places - own.begin < all ? places - own.begin : all;
  }
  __device__ int64_t length(int64_t) const {
    return count;
  }
  __device__ place at(int64_t l) const {
    return l;
  }
  __device__ float load(place l, int64_t m) const {
    return dz[m * p.out_height * p.out_width + l];
  }
};

/* Input under tap n of place l; after the last tap comes the bias, whose input is 1. */
struct inputs_by_tap {
  gconv_layer_problem p;
  const float *x;
  const gconv_learn_tap *taps;
  int64_t first = 0;
  int64_t from = 0;
  static constexpr bool BY_L = true;
  using place = point;
  __device__ void begin(int64_t z) {
    const band own(p, first + z);
    x += (own.image * p.channels + own.group * (p.channels / p.groups)) * p.height * p.width;
    from = own.begin;
  }
  __device__ place at(int64_t l) const {
    return point_under(p, x, (int32_t)(from + l));
  }
  __device__ float load(const place &own, int64_t n) const {
    return n == gconv_layer_taps(&p) ? 1.0f : input_under(p, own, taps[n]);
  }
};

/* In the tail, z is a slice, and l is a case of it. A case has `width` floats; n == width is the bias, whose input is 1. */
struct values_by_case {
  const float *values;
  int64_t width, cases;
  int64_t first = 0;
  int64_t count = 0;
  static constexpr bool BY_L = true;
  using place = const float *;
  __device__ void begin(int64_t z) {
    const int64_t from = (first + z) * GCONV_LEARN_SLICE, left = cases - from;
    values += from * width;
    count = left < GCONV_LEARN_SLICE ? left : GCONV_LEARN_SLICE;
  }
  __device__ int64_t length(int64_t) const {
    return count;
  }
  __device__ place at(int64_t l) const {
    return values + l * width;
  }
  __device__ float load(place own, int64_t n) const {
    return n == width ? 1.0f : own[n];
  }
};

/* ---- Outputs of products ---- */

/* Output y of filter m at n = (case, place). */
struct activated {
  gconv_layer_problem p;
  const float *biases;
  float *y;
  int64_t first = 0;
  __device__ void begin(int64_t z) {
    const int64_t filter = (first + z) * (p.filters / p.groups);
    biases += filter;
    y += filter * p.out_height * p.out_width;
  }
  __device__ void store(int64_t m, int64_t n, float sum) {
    const int64_t places = (int64_t)p.out_height * p.out_width, image = n / places;
    y[(image * p.filters + m) * places + n - image * places] = gconv_activate(&p, sum + biases[m]);
  }
};

/* Gradient dx of channel m at n = (case, place). */
struct gradient_of_inputs {
  gconv_layer_problem p;
  float *dx;
  int64_t first = 0;
  __device__ void begin(int64_t z) {
    dx += (first + z) * (p.channels / p.groups) * p.height * p.width;
  }
  __device__ void store(int64_t m, int64_t n, float sum) {
    const int64_t places = (int64_t)p.height * p.width, image = n / places;
    dx[(image * p.channels + m) * places + n - image * places] = sum + 0.0f;
  }
};

/* A leaf has weights K x taps, then biases. `groups` products z make a leaf. */
struct leaf_of_weights {
  int64_t filters, taps, groups, parameters; /* filters: of a group */
  float *leaves;
  int64_t first = 0;
  int64_t filter = 0;
  __device__ void begin(int64_t z) {
    const int64_t leaf = (first + z) / groups;
    filter = (first + z - leaf * groups) * filters;
    leaves += leaf * parameters;
  }
  __device__ void store(int64_t m, int64_t n, float sum) {
    leaves[n < taps ? (filter + m) * taps + n : filters * groups * taps + filter + m] = sum;
  }
};

} // namespace

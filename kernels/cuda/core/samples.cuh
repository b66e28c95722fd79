/* SPDX-License-Identifier: MIT */
/* Where samples are, and how they become levels. Each .cu file is compiled by itself, so everything in kernels/cuda/core has
 * internal linkage. */
#pragma once

#include "border.cuh"

#include <cuda_runtime_api.h>

namespace {

/* ---- Where samples are ---- */

/* The data of an execution that each kernel needs. They are passed by value. */
struct arguments {
  gconv_problem problem;
  const uint8_t *in;
  int64_t in_image, in_plane, in_row;
  uint8_t *out;
  int64_t out_filter; /* bytes from the output of a filter to the output of the next */
  int64_t out_image, out_plane, out_row, out_pixel, out_channel, out_alpha;
};

inline arguments common_arguments(const gconv_execution *execution) {
  arguments a = {};
  a.problem = *execution->problem;
  a.in = execution->in;
  a.in_image = execution->in_image;
  a.in_plane = execution->in_plane;
  a.in_row = execution->in_row;
  a.out = execution->out[0].base;
  a.out_filter = a.problem.filters > 1 ? execution->out[1].base - execution->out[0].base : 0;
  a.out_image = execution->out[0].image;
  a.out_plane = execution->out[0].plane;
  a.out_row = execution->out[0].row;
  a.out_pixel = execution->out_pixel;
  a.out_channel = execution->out_channel;
  a.out_alpha = execution->out_alpha;
  return a;
}

/* Where row 0 of a plane is, in the input and in the output of filter 0. */
struct plane_rows {
  const uint8_t *in;
  uint8_t *out;
};

/* Returns plane number z of all images. OFTEN_ONE: most images have one plane, which saves a division. */
template <bool OFTEN_ONE = false, class Index> DEVICE plane_rows plane_of(const arguments &a, Index z) {
  const Index planes = a.problem.planes, image = OFTEN_ONE && planes == 1 ? z : z / planes, plane = z - image * planes;
  return {a.in + image * a.in_image + plane * a.in_plane, a.out + image * a.out_image + plane * a.out_plane};
}

/* The place of an output sample, and row 0 of its plane in the input. */
struct place {
  int64_t p, q;
  int32_t c;
  const uint8_t *in;
};

/* Returns the level at row y, column x, channel c of a plane. The place may be outside the image. */
template <class In>
__device__ float sample_at(const gconv_problem &problem, const uint8_t *plane, int64_t in_row, int64_t y, int64_t x, int c) {
  y = gconv_border_index(problem.border, y, problem.height);
  x = gconv_border_index(problem.border, x, problem.width);
  if (y == GCONV_OUTSIDE || x == GCONV_OUTSIDE)
    return problem.border_level;
  return ((const In *)(plane + y * in_row))[x * problem.channels + c];
}

/* Returns the sum of filter k by the definition, for floats. The sample under the first tap is at row `top` and column
 * `left`. Algorithms that mix samples call this where a sample is not finite. */
__device__ inline float defined_sum(const arguments &a, const float *weights, int64_t k, const uint8_t *plane, int64_t top,
                                    int64_t left, int c) {
  const gconv_problem &problem = a.problem;
  const float *tap = weights + k * problem.rows * problem.columns;
  float sum = 0;
  for (int64_t r = 0; r < problem.rows; r++)
    for (int64_t s = 0; s < problem.columns; s++, tap++)
      if (!gconv_is_mark(*tap))
        sum = fmaf(
            *tap, sample_at<float>(problem, plane, a.in_row, top + r * problem.dilation_y, left + s * problem.dilation_x, c),
            sum);
  return sum;
}

/* ---- Types that are known at run time ---- */

/* Calls f with a sample of the type: f(uint8_t()), f(uint16_t()) or f(float()). It is for the host and some kernels. It
 * would change the machine code of gemm and fft, which use BY_TYPE. */
#pragma nv_exec_check_disable
template <class F> __host__ DEVICE auto with_type(gconv_type type, const F &f) {
  return type == GCONV_U8 ? f(uint8_t()) : type == GCONV_U16 ? f(uint16_t()) : f(float());
}

/* Runs a statement in which Type is the type of samples, for kernels whose machine code with_type() would change. */
#define BY_TYPE(type, Type, ...)                                                                                            \
  if (type == GCONV_U8) {                                                                                                   \
    using Type = uint8_t;                                                                                                   \
    __VA_ARGS__;                                                                                                            \
  } else if (type == GCONV_U16) {                                                                                           \
    using Type = uint16_t;                                                                                                  \
    __VA_ARGS__;                                                                                                            \
  } else {                                                                                                                  \
    using Type = float;                                                                                                     \
    __VA_ARGS__;                                                                                                            \
  }

/* gconv_type_bytes() for the device. */
DEVICE int sample_bytes(gconv_type type) {
  return type == GCONV_U8 ? 1 : type == GCONV_U16 ? 2 : 4;
}

/* ---- Four samples at a time ---- */

/* Converts the float 2^23 + i, whose low bits are the integer i, to the float i. A byte permutation or an OR makes such a
 * float. These instructions and the subtraction have a higher throughput than the conversion instruction. */
DEVICE float level_of_bits(uint32_t bits) {
  return __uint_as_float(bits) - 8388608.0f;
}

/* Returns a sample as a float. */
DEVICE float level_of(float sample) {
  return sample;
}
template <class Integer> DEVICE float level_of(Integer sample) {
  return level_of_bits(0x4b000000u | sample);
}

} // namespace

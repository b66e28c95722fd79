/* SPDX-License-Identifier: MIT */
/* What all CUDA kernels share: the places of samples, border pixels, and storing results. Each .cu file is compiled by
 * itself, so everything here has internal linkage. */
#pragma once

#include "kernels/algorithm.h"
#include "unroll.cuh"

#include <cuda_runtime_api.h>

namespace {

/* ---- Where samples are ---- */

/* What each kernel needs to know of an execution. Passed by value. */
struct arguments {
  gconv_problem problem;
  const uint8_t *in;
  int64_t in_image, in_plane, in_row;
  uint8_t *out;
  int64_t out_filter; /* from the output of a filter to that of the next */
  int64_t out_image, out_plane, out_row, out_pixel, out_channel, out_alpha;
};

/* The level at row y, column x, channel c of a plane. The place may be outside the image. */
template <class In>
__device__ float sample_at(const gconv_problem &problem, const uint8_t *plane, int64_t in_row, int64_t y, int64_t x, int c) {
  y = gconv_border_index(problem.border, y, problem.height);
  x = gconv_border_index(problem.border, x, problem.width);
  if (y == GCONV_OUTSIDE || x == GCONV_OUTSIDE)
    return problem.border_level;
  return ((const In *)(plane + y * in_row))[x * problem.channels + c];
}

/* Alpha that is kept: the sample of the input at the anchor, scaled to output levels. */
template <class In>
__device__ float kept_alpha(const gconv_problem &problem, const uint8_t *plane, int64_t in_row, int64_t p, int64_t q) {
  int64_t y = p * problem.stride_y - problem.pad_top + problem.anchor_y;
  int64_t x = q * problem.stride_x - problem.pad_left + problem.anchor_x;
  float alpha = sample_at<In>(problem, plane, in_row, y, x, problem.channels - 1);
  return gconv_scale(alpha, problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
}

/* gconv_border_index() for positions fewer than `size` pixels outside. Those need no division, and a sliding kernel meets no
 * others. */
DEVICE int near_index(gconv_border border, int i, int size) {
  if ((unsigned)i < (unsigned)size)
    return i;
  int mirrored = i < 0 ? -i : 2 * size - 2 - i; /* reflect101 */
  switch (border) {
  case GCONV_BORDER_REPLICATE:
    return i < 0 ? 0 : size - 1;
  case GCONV_BORDER_SYMMETRIC:
    return i < 0 ? mirrored - 1 : mirrored + 1;
  case GCONV_BORDER_REFLECT101:
    return mirrored;
  case GCONV_BORDER_WRAP:
    return i < 0 ? i + size : i - size;
  default:
    return GCONV_OUTSIDE;
  }
}

/* Returns whether near_index() suffices for an axis: for all positions that the taps meet, and for `vain` more positions
 * that are fetched but not used. */
inline bool is_near(int32_t size, int64_t pad, int32_t out_size, int32_t taps, int vain) {
  return pad < size && out_size - pad + taps + vain < 2 * (int64_t)size;
}

/* ---- Types that are known at run time ---- */

/* Calls f with a sample of the type: f(uint8_t()), f(uint16_t()) or f(float()). It is for the
 * host, and for kernels whose machine code does not change by it: in gemm and fft it does. */
#pragma nv_exec_check_disable
template <class F> __host__ DEVICE auto with_type(gconv_type type, const F &f) {
  return type == GCONV_U8 ? f(uint8_t()) : type == GCONV_U16 ? f(uint16_t()) : f(float());
}

/* Does a statement with a type of samples, for kernels whose machine code would change by with_type(). */
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

/* Stores the finished value y at `to`, as a sample of `type`. */
DEVICE void store_as(gconv_type type, float y, uint8_t *to) {
  BY_TYPE(type, Type, gconv_store(y, (Type *)to));
}

/* ---- Four samples at a time ---- */

DEVICE void load_four(const float *from, float *x) {
  const float4 four = *(const float4 *)from;
  x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

/* Four samples are loaded at a time. `four` says how they become levels. */
template <class In> struct four;
template <> struct four<float> {
  float4 word;
  __device__ void unpack(float *levels) const {
    levels[0] = word.x, levels[1] = word.y, levels[2] = word.z, levels[3] = word.w;
  }
};
/* Converts an integer below 2^23 to float. An integer i in the low bits of the float 2^23 gives the float 2^23 + i;
 * subtracting 2^23 leaves i. This takes a permutation of bytes and a subtraction, and both run at a higher rate than the
 * conversion instruction. */
__device__ inline float level_of_bits(uint32_t bits) {
  return __uint_as_float(bits) - 8388608.0f;
}
template <> struct four<uint8_t> {
  uint32_t word;
  __device__ void unpack(float *levels) const {
    levels[0] = level_of_bits(__byte_perm(word, 0x4b000000, 0x7440));
    levels[1] = level_of_bits(__byte_perm(word, 0x4b000000, 0x7441));
    levels[2] = level_of_bits(__byte_perm(word, 0x4b000000, 0x7442));
    levels[3] = level_of_bits(__byte_perm(word, 0x4b000000, 0x7443));
  }
};
template <> struct four<uint16_t> {
  uint2 word;
  __device__ void unpack(float *levels) const {
    levels[0] = level_of_bits(__byte_perm(word.x, 0x4b000000, 0x7410));
    levels[1] = level_of_bits(__byte_perm(word.x, 0x4b000000, 0x7432));
    levels[2] = level_of_bits(__byte_perm(word.y, 0x4b000000, 0x7410));
    levels[3] = level_of_bits(__byte_perm(word.y, 0x4b000000, 0x7432));
  }
};

/* Packs four finished values into a word of the output. */
DEVICE float4 pack_four(const float (&y)[4], float) {
  return make_float4(y[0], y[1], y[2], y[3]);
}
DEVICE uint2 pack_four(const float (&y)[4], uint16_t) {
  return make_uint2(gconv_to_level(y[0], 65535.0f) | gconv_to_level(y[1], 65535.0f) << 16,
                    gconv_to_level(y[2], 65535.0f) | gconv_to_level(y[3], 65535.0f) << 16);
}
DEVICE uint32_t pack_four(const float (&y)[4], uint8_t) {
  return gconv_to_level(y[0], 255.0f) | gconv_to_level(y[1], 255.0f) << 8 | gconv_to_level(y[2], 255.0f) << 16 |
         gconv_to_level(y[3], 255.0f) << 24;
}

/* Saturates four integers to 0 .. 255 and packs them into the bytes of a word. */
DEVICE uint32_t saturate_four(const int32_t (&level)[4]) {
  uint32_t high, low;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(level[3]), "r"(level[2]), "r"(0));
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(low) : "r"(level[1]), "r"(level[0]), "r"(high));
  return low;
}

/* Stores four finished values from sample `first` on, which is a multiple of four. At the end of a row, only `count` of them
 * are stored. */
template <class Out> DEVICE void store_four(const float (&y)[4], Out *row, int first, int count) {
  using word = decltype(pack_four(y, Out()));
  if (count >= 4) {
    __stcs((word *)(row + first), pack_four(y, Out())); /* streaming store: this kernel does not read them again */
    return;
  }
  UNROLLED_FOR (int i = 0; i < 3; i++)
    if (i < count)
      gconv_store(y[i], row + first + i);
}

/* ---- One output sample at a time ---- */

/* The place of an output sample, and row 0 of its plane in the input. */
struct place {
  int64_t p, q;
  int32_t c;
  const uint8_t *in;
};

template <class In, class Out> __device__ void keep_alpha(const arguments &a, const place &at, uint8_t *pixel) {
  float alpha = kept_alpha<In>(a.problem, at.in, a.in_row, at.p, at.q);
  int32_t copies = a.problem.epilogue.combine == GCONV_COMBINE_NONE ? a.problem.filters : 1;
  for (int32_t k = 0; k < copies; k++)
    gconv_store(alpha, (Out *)(pixel + k * a.out_filter + a.out_alpha));
}

/* Finishes and stores one output sample for all filters. sum_of(k) returns the sum of filter k, before divisor and bias.
 * `pixel` is the output pixel of filter 0, `c` the channel of the sample. */
template <class Out, class Sum>
__device__ void store_responses(const arguments &a, const float *weights, int32_t c, uint8_t *pixel, Sum sum_of) {
  const gconv_problem &problem = a.problem;
  const float *divisors = gconv_divisors(&problem, weights), *biases = gconv_biases(&problem, weights);
  bool combined = gconv_is_combined(&problem);
  float value = 0.0f;
  for (int32_t k = 0; k < problem.filters; k++) {
    float response = gconv_response(sum_of(k), divisors[k], biases[k]);
    if (!combined)
      gconv_store(gconv_finish(response, &problem.epilogue), (Out *)(pixel + k * a.out_filter + c * a.out_channel));
    else if (k == 0)
      value = gconv_combine_first(problem.epilogue.combine, response);
    else
      value = gconv_combine_next(problem.epilogue.combine, value, response);
  }
  if (combined) {
    value = gconv_combine_last(problem.epilogue.combine, value);
    gconv_store(gconv_finish(value, &problem.epilogue), (Out *)(pixel + c * a.out_channel));
  }
}

/* ---- Launching ---- */

/* The number of blocks of `block` items that cover `count` items, but at most `most`. */
inline unsigned blocks_for(int64_t count, int64_t block, int64_t most) {
  int64_t blocks = (count - 1) / block + 1;
  return (unsigned)(blocks < most ? blocks : most);
}

/* The block size that the user asked for, if it has at most `most` threads. Otherwise `width` x `height`. */
inline dim3 block_for(const gconv_problem *problem, int most, int width, int height) {
  int hinted = problem->block_width * problem->block_height;
  if (hinted == 0 || hinted > most)
    return dim3((unsigned)width, (unsigned)height);
  return dim3((unsigned)problem->block_width, (unsigned)problem->block_height);
}

/* Limits a grid to the number of blocks that the user asked for. The kernel then strides over the rest. z shrinks first,
 * then y, so that blocks which run at the same time stay neighbours. */
inline dim3 hinted_grid(const gconv_problem *problem, dim3 grid) {
  if (problem->grid_blocks == 0)
    return grid;
  const unsigned most = (unsigned)problem->grid_blocks;
  grid.x = grid.x < most ? grid.x : most;
  grid.y = grid.y < most / grid.x ? grid.y : most / grid.x;
  grid.z = grid.z < most / grid.x / grid.y ? grid.z : most / grid.x / grid.y;
  return grid;
}

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

} // namespace

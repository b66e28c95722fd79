/* SPDX-License-Identifier: MIT */
/* From sums to samples of the output: the epilogue, combined filters, alpha that is kept, and stores of four samples. */
#pragma once

#include "samples.cuh"

namespace {

/* ---- Values become samples ---- */

/* Stores the finished value y at `to`, as a sample of `type`. */
DEVICE void store_as(gconv_type type, float y, uint8_t *to) {
  BY_TYPE(type, Type, gconv_store(y, (Type *)to));
}

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

/* Stores four finished values from sample `first` on, a multiple of four. At a row's end, stores only `count`. */
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

/* Stores words of four bytes each, which this kernel does not read again. */
template <int N> DEVICE void store_words(const uint32_t (&words)[N], uint8_t *to) {
  if (N == 1)
    __stcs((uint32_t *)to, words[0]);
  else if (N == 2)
    __stcs((uint2 *)to, make_uint2(words[0], words[N / 2]));
  else
    __stcs((uint4 *)to, make_uint4(words[0], words[N / 4], words[N / 2], words[N - 1]));
}

/* ---- Alpha that is kept ---- */

/* Returns the alpha that is kept: the sample of the input at the anchor, scaled to output levels. */
template <class In>
__device__ float kept_alpha(const gconv_problem &problem, const uint8_t *plane, int64_t in_row, int64_t p, int64_t q) {
  int64_t y = p * problem.stride_y - problem.pad_top + problem.anchor_y;
  int64_t x = q * problem.stride_x - problem.pad_left + problem.anchor_x;
  float alpha = sample_at<In>(problem, plane, in_row, y, x, problem.channels - 1);
  return gconv_scale(alpha, problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
}

template <class In, class Out> __device__ void keep_alpha(const arguments &a, const place &at, uint8_t *pixel) {
  float alpha = kept_alpha<In>(a.problem, at.in, a.in_row, at.p, at.q);
  int32_t copies = a.problem.epilogue.combine == GCONV_COMBINE_NONE ? a.problem.filters : 1;
  for (int32_t k = 0; k < copies; k++)
    gconv_store(alpha, (Out *)(pixel + k * a.out_filter + a.out_alpha));
}

/* ---- One output sample of all filters ---- */

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

} // namespace

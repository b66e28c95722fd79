/* SPDX-License-Identifier: MIT */
/* separable to the right: copies input from global to shared memory, and converts it there to float16 in the order of the
 * tensor cores. The kernel downwards uses the functions for the largest magnitude and scale_for() of this file. */
#pragma once

#include "../core/copies.cuh"
#include "separable_shapes.cuh"

namespace {

/* Returns the address of word i of a row of a unit in the raw copy. Neighbouring threads have neighbouring words. */
template <class In> DEVICE uint8_t *raw_word(const tile &t, int raw, int unit, int row, int channels, int i) {
  constexpr int BYTES = splitting<In>::PIXELS * sizeof(In);
  return t.shared + raw + (unsigned)((row * channels + i) * t.quads * UNITS + unit) * BYTES;
}

/* Copies a row of a unit that lies partly outside the image, sample by sample. Reads nothing from column `end` on. */
template <class In>
__device__ __noinline__ void fetch_edge(const separable_arguments &a, tile t, int unit, int row, int column, int end) {
  constexpr int PIXELS = splitting<In>::PIXELS;
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, y = ((const int *)(t.shared + a.sources))[4 * (unit / UNITS) + row];
  const In *source = y == GCONV_OUTSIDE ? NULL : (const In *)(t.in + y * a.in_row);
  for (int i = 0; i < PIXELS * C; i++) {
    int64_t x = column + i / C;
    In level = 0;
    if (x < end) {
      x = source ? gconv_border_index(problem.border, x, problem.width) : GCONV_OUTSIDE;
      level = x == GCONV_OUTSIDE ? (In)problem.border_level : source[x * C + i % C];
    }
    ((In *)raw_word<In>(t, a.raw, unit, row, C, i / PIXELS))[i % PIXELS] = level;
  }
}

/* Starts to copy a row of a unit, a word for each channel. WIDE: words begin at multiples of their size, else of 4 bytes. */
template <int BYTES, bool WIDE> DEVICE void copy_row(uint8_t *to, const uint8_t *from, int words, int stride) {
  ROLLED_FOR (int i = 0; i < words; i++, to += stride, from += BYTES) {
    copy_async<WIDE ? BYTES : 4, true>(to, from);
    if (!WIDE)
      copy_async<4, true>(to + 4, from + 4);
  }
}

/* Copies a row of a unit from input row `source`, or fills it with the level of the border. Filling must be as fast as
 * copying: with a zero border, blocks at the top and bottom fill many rows, and the kernel ends with them. */
template <class In, bool WIDE>
DEVICE void fetch_row(const separable_arguments &a, uint8_t *to, const uint8_t *from, int source, int words, int stride) {
  using word = typename splitting<In>::word;
  constexpr int PIXELS = splitting<In>::PIXELS;
  if (source != GCONV_OUTSIDE) {
    copy_row<PIXELS * sizeof(In), WIDE>(to, from + (uint64_t)(uint32_t)source * (uint32_t)a.in_row, words, stride);
    return;
  }
  In levels[PIXELS];
  for (int i = 0; i < PIXELS; i++)
    levels[i] = (In)a.problem.border_level;
  word filled;
  memcpy(&filled, levels, sizeof filled);
  for (int i = 0; i < words; i++, to += stride)
    *(word *)to = filled;
}

template <class In, bool WIDE> DEVICE void fetch_units(const separable_arguments &a, const tile &t, int column, int end) {
  constexpr int PIXELS = splitting<In>::PIXELS, BYTES = PIXELS * sizeof(In);
  const int C = a.problem.channels, stride = t.quads * UNITS * BYTES; /* bytes from a raw word of a unit to the next */
  ROLLED_FOR (unsigned unit = threadIdx.x; unit < t.quads * UNITS; unit += blockDim.x) {
    const int x = column + (int)(unit % UNITS) * PIXELS;
    const int4 rows = ((const int4 *)(t.shared + a.sources))[unit / UNITS];
    if (x < 0 || x + PIXELS > a.problem.width) {
      for (int row = 0; row < 4; row++)
        fetch_edge<In>(a, t, unit, row, x, end);
      continue;
    }
    const uint8_t *from = t.in + x * C * (int)sizeof(In);
    uint8_t *to = raw_word<In>(t, a.raw, unit, 0, C, 0);
    fetch_row<In, WIDE>(a, to, from, rows.x, C, stride);
    fetch_row<In, WIDE>(a, to + C * stride, from, rows.y, C, stride);
    fetch_row<In, WIDE>(a, to + 2 * C * stride, from, rows.z, C, stride);
    fetch_row<In, WIDE>(a, to + 3 * C * stride, from, rows.w, C, stride);
  }
}

/* Starts to copy the input of a step whose first column is `column`. */
template <class In> DEVICE void fetch(const separable_arguments &a, const tile &t, int column, int end) {
  if (sizeof(In) > 1 || a.left * a.problem.channels % 8 == 0)
    fetch_units<In, true>(a, t, column, end);
  else
    fetch_units<In, false>(a, t, column, end);
}

/* Returns the place of the split words of a unit, channel c. Word j (0 .. 3) is number j ^ swizzle_of(unit) from there. So
 * neighbouring threads use different banks, both in writing and in reading. */
DEVICE uint4 *split_words(const tile &t, uint8_t *split, int c, unsigned unit) {
  return (uint4 *)split + (c * t.quads + unit / UNITS) * PITCH + 4 * (unit % UNITS);
}
DEVICE int swizzle_of(unsigned unit) {
  return unit % UNITS >> 1;
}

/* Returns the larger magnitudes of two pairs of float16. NaN counts as larger than any number. */
DEVICE uint32_t larger_pair(uint32_t most, uint32_t pair) {
#if __CUDA_ARCH__ >= 800
  return bits_of(__hmax2_nan(*(__half2 *)&most, __habs2(*(__half2 *)&pair)));
#else
  return __vmaxu2(most, pair & 0x7fff7fff);
#endif
}

/* Makes word j of channel c. u8: columns 2j and 2j + 1, four rows of each. Other types: column j, high, then low parts. */
template <int C> DEVICE uint4 split_levels(const uint8_t *, const uint2 (&raw)[4][C], int c, int j, float, uint32_t &) {
  uint32_t words[4];
  UNROLLED_FOR (int i = 0; i < 4; i++) {
    const int byte = (2 * j + i / 2) * C + c, row = i % 2 * 2;
    uint32_t first = byte / 4 % 2 ? raw[row][byte / 8].y : raw[row][byte / 8].x;
    uint32_t second = byte / 4 % 2 ? raw[row + 1][byte / 8].y : raw[row + 1][byte / 8].x;
    words[i] = __byte_perm(first, second, byte % 4 * 0x1111 + 0x4400) & 0x00ff00ff;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

/* For u16: the upper 11 bits, then the lower 5 bits, both exact in float16. */
template <int C> DEVICE uint4 split_levels(const uint16_t *, const uint2 (&raw)[4][C], int c, int j, float, uint32_t &) {
  uint32_t high[2], low[2];
  UNROLLED_FOR (int i = 0; i < 2; i++) {
    const int sample = j * C + c, row = 2 * i;
    uint32_t first = sample / 2 % 2 ? raw[row][sample / 4].y : raw[row][sample / 4].x;
    uint32_t second = sample / 2 % 2 ? raw[row + 1][sample / 4].y : raw[row + 1][sample / 4].x;
    uint32_t pair = __byte_perm(first, second, sample % 2 ? 0x7632 : 0x5410), top = pair >> 5 & 0x07ff07ff;
    high[i] = bits_of(__hmul2(*(__half2 *)&top, __float2half2_rn(32.0f)));
    low[i] = pair & 0x001f001f;
  }
  return make_uint4(high[0], high[1], low[0], low[1]);
}

template <int C>
DEVICE uint4 split_levels(const float *, const float4 (&raw)[4][C], int c, int j, float scale, uint32_t &most) {
  float x[4];
  UNROLLED_FOR (int row = 0; row < 4; row++) {
    const int sample = j * C + c;
    const float4 word = raw[row][sample / 4];
    x[row] = scale * (sample % 4 == 0 ? word.x : sample % 4 == 1 ? word.y : sample % 4 == 2 ? word.z : word.w);
  }
  uint4 words;
  split(x[0], x[1], words.x, words.z);
  split(x[2], x[3], words.y, words.w);
  most = larger_pair(larger_pair(most, words.x), words.y);
  return words;
}

/* Converts the raw copy to split words. Each thread converts the units that it has copied itself. Returns whether all scaled
 * values of f32 are at most LARGEST_LEVEL. Units of many words are read pixel by pixel, to save registers. */
template <class In, int C>
DEVICE bool convert_channels(const separable_arguments &a, const tile &t, uint8_t *to, float scale) {
  using word = typename splitting<In>::word;
  constexpr bool WHOLE = sizeof(In) < 4 || C <= 2;
  uint32_t most = 0;
  ROLLED_FOR (unsigned unit = threadIdx.x; unit < t.quads * UNITS; unit += blockDim.x) {
    word raw[4][C];
    UNROLLED_FOR (int j = 0; j < 4; j++) {
      UNROLLED_FOR (int i = 0; i < 4 * C; i++) {
        const int row = i / C, at = i % C;
        if (WHOLE ? j == 0 : at >= j * C / 4 && at <= (j * C + C - 1) / 4)
          raw[row][at] = *(const word *)raw_word<In>(t, a.raw, unit, row, C, at);
      }
      UNROLLED_FOR (int c = 0; c < C; c++)
        if (c < a.channels)
          split_words(t, to, c, unit)[j ^ swizzle_of(unit)] = split_levels<C>((const In *)NULL, raw, c, j, scale, most);
    }
  }
  return max(most & 0xffff, most >> 16) <= LARGEST_BITS;
}

template <class In> DEVICE bool convert(const separable_arguments &a, const tile &t, uint8_t *to, float scale) {
  switch (a.problem.channels) {
  case 1:
    return convert_channels<In, 1>(a, t, to, scale);
  case 2:
    return convert_channels<In, 2>(a, t, to, scale);
  case 3:
    return convert_channels<In, 3>(a, t, to, scale);
  default:
    return convert_channels<In, 4>(a, t, to, scale);
  }
}

/* ---- The scale of f32 ---- */

DEVICE float larger_magnitude(float most, float x) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(x)));
  return most;
#else
  return fabsf(x) <= most ? most : fabsf(x);
#endif
}

/* Returns the largest magnitude among the samples that the thread has copied, or NaN if one of them is NaN. */
__device__ float largest_copied(const separable_arguments &a, const tile &t) {
  float most = 0;
  for (unsigned unit = threadIdx.x; unit < t.quads * UNITS; unit += blockDim.x)
    UNROLLED_4_FOR (int i = 0; i < 4 * a.problem.channels; i++) {
      float4 x = *(const float4 *)raw_word<float>(t, a.raw, unit, 0, 0, i);
      most = larger_magnitude(larger_magnitude(most, x.x), x.y);
      most = larger_magnitude(larger_magnitude(most, x.z), x.w);
    }
  return most;
}

/* Returns the scale, a power of two, for samples of magnitude up to `largest` (the bits of a float): scaled samples are
 * below 32, half of LARGEST_LEVEL. The scale is at most LARGEST_SCALE, with which the smallest float becomes 2^-23, which
 * float16 holds exactly. Returns 0 if `largest` is not finite. */
DEVICE float scale_for(uint32_t largest) {
  const int exponent = (int)(largest >> 23) - 127; /* largest < 2^(exponent + 1) */
  return exponent == 128 ? 0.0f : __uint_as_float((uint32_t)(127 + 4 - max(exponent, -122)) << 23);
}

/* Returns the scale for the largest `most` of all threads of the block, or 0 if a thread's `most` is not finite. */
__device__ float new_scale(float most) {
  __shared__ uint32_t largest;
  if (threadIdx.x == 0)
    largest = 0;
  __syncthreads();
  atomicMax(&largest, __float_as_uint(most) & 0x7fffffffu);
  __syncthreads();
  const float scale = scale_for(largest);
  __syncthreads();
  return scale;
}

} // namespace

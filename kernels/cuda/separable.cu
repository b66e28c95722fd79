/* SPDX-License-Identifier: MIT */
/*
 * separable: columns times rows on the tensor cores, in one kernel.
 *
 * A filter of rank r is the sum of r columns times rows (conv/factor.h): r * (R + S) multiply-adds a sample instead of R *
 * S. Even so, a filter of 31 x 31 would need all multiply-adds that a GPU of 60 TFLOP/s has to keep up with 4 TB/s of
 * memory. Tensor cores have ten times as many, for products of matrices; and a filter along one direction is one: 16 output
 * rows by 8 columns are T (16 x k) * X (k x 8), where T has the column of the filter on its diagonals and k = 16 + R - 1,
 * rounded up.
 *
 * Tensor cores multiply float16 and add in float32. A number becomes two float16, the nearest and what it lacks, 22 bits
 * together; the product of two such pairs is three products, as that of the two low parts lies below what float32 holds.
 * Levels of u8 are one float16. So the result is as good as that of float32 (error_bound()), not of float16.
 *
 *      columns  x ->                     A warp has 16 output rows and walks to the right. Of each group of 8 columns it
 *    +----+----+----+----+- ...          makes T * X; those products lie in the registers as the next multiplication wants
 *    | :: | :: | :: | <- | X             its left factor, so they only have to be split. The last GROUPS groups, its window,
 *    +----+----+----+----+- ...          times the matrix of the row of the filter are the next 8 output columns. Nothing
 *      window  ^^^^^^^^^   T * X         between the two directions ever leaves the registers.
 *
 * A block has several such strips of 16 rows, and a warp for each of the channels. Step by step it copies 64 or 128 bytes of
 * all input rows that it needs to shared memory, asynchronously; splits them into float16 by channels, in the order in which
 * the tensor cores want them; multiplies; and writes the outputs from shared memory in whole words.
 *
 * The arithmetic, a sample: 3 * (16 * chunks + 8 * GROUPS) multiply-adds of tensor cores, 264 for 31 x 31 with 2 digits
 * each. That is below the time of memory up to about 63 x 63 for f32. It wins from about 5 x 5 on.
 *
 * Values of f32 are scaled by a power of two so that they fit into float16: one for the block, which shrinks when a larger
 * value comes by; the error stays relative to the largest. Where a value is not finite, the block computes its outputs by
 * the definition, because 0 * infinity must not appear where the filter does not reach.
 */
#include "base/status.h"
#include "common.cuh"
#include "conv/factor.h"

#include <cuda_fp16.h>
#include <stdlib.h>
#include <string.h>

namespace {

/* ---- Shapes ---- */

enum {
  STRIP = 16,            /* output rows of a warp: of a tensor-core product */
  GROUP = 8,             /* columns: likewise */
  TILES = 4,             /* groups that a warp handles together */
  UNITS = 8,             /* pieces of 4 input rows that a row of the step is cut into, each read by one thread */
  PITCH = 4 * UNITS + 2, /* 16-byte words of 4 split rows; 2 more, so that lanes that read 4 rows meet different banks */
  ALIGNMENT = 4,         /* the first input column of a block is a multiple of this, so that it can be copied in words */
  LANES = 32
};

/* How samples become float16. A unit is 4 rows by PIXELS columns; split, it takes four words of 16 bytes a channel. */
template <class In> struct splitting;
template <> struct splitting<uint8_t> { static constexpr int PIXELS = 8, DIGITS = 1; };
template <> struct splitting<uint16_t> { static constexpr int PIXELS = 4, DIGITS = 2; };
template <> struct splitting<float> { static constexpr int PIXELS = 4, DIGITS = 2; };
template <class In> __host__ __device__ constexpr int step_of() {
  return UNITS * splitting<In>::PIXELS;
}

/* Levels of integers stand in float16 times this: then a level below 2048 is its own bit pattern. */
constexpr float INTEGER_SCALE = 0x1p-24f;
/* Levels of f32 are scaled to at most this, so that columns of up to 2^9 in sum keep products below 2^15. */
constexpr float LARGEST_LEVEL = 64;
constexpr uint32_t LARGEST_BITS = 0x5400; /* 64 as float16 */

struct separable_arguments {
  arguments common;
  const float *weights;   /* of the plan */
  const uint4 *fragments; /* of the first filter of this launch: for each pair, those of the column, then of the row */
  int32_t fragment_words; /* of all its pairs, 16 bytes each */
  int32_t filters, pairs; /* of this launch; pairs of a filter */
  int32_t first_filter;
  int32_t chunks;                        /* of 16 rows, of the matrix of a column */
  int32_t strips;                        /* of a block */
  int32_t channels;                      /* that are convolved */
  int32_t left;                          /* input column of the first group of output column 0 */
  int32_t segment, segments, row_blocks; /* output columns of a block; blocks side by side; one below the other */
  int32_t split, raw, stage, stage_row, taps, rings, sources; /* places and lengths in shared memory, in bytes */
  const float *unscales;                                      /* of the filters: from products to responses */
  float unscale;                                              /* of the first */
  int32_t rows_at_once; /* that the threads of a strip write, whole words each; 0 if they don't come out even */
  bool plain;           /* nothing to the epilogue but scale and offset */
  bool dense;           /* output pixels side by side, in aligned words */
};

/* What all threads of a block share, and where it stands. */
struct tile {
  const uint8_t *in;
  uint8_t *out;
  uint8_t *shared;
  uint32_t quads;      /* fours of input rows */
  int32_t row, rows;   /* output rows of the block */
  int32_t column, end; /* output columns */
};

/* The threads of a strip and what the thread is among them. */
struct crew {
  int32_t strip, channel, lane;
  int32_t member, count;
  int32_t word[4]; /* of split words: the lane's, in groups whose swizzle is 0 .. 3, in bytes */
};

template <class In> __device__ __forceinline__ crew make_crew(const separable_arguments &a) {
  const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  crew who;
  who.strip = warp / a.channels;
  who.channel = warp - who.strip * a.channels;
  who.lane = lane;
  who.member = who.channel * LANES + lane;
  who.count = a.channels * LANES;
  for (int i = 0; i < 4; i++) /* lane 4g + t has column g of a group: half a word of u8 */
    who.word[i] = sizeof(In) == 1 ? (lane / 8 ^ i) * 16 + lane / 4 % 2 * 8 : (lane / 16 * 4 + (lane / 4 % 4 ^ i)) * 16;
  return who;
}

/* ---- Tensor cores ---- */

/* sums += a * b, 16 x 8 += 16 x 8 * 8 x 8; float16 in pairs. */
__device__ __forceinline__ void multiply_half(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(b));
}

/* sums += a * b, 16 x 8 += 16 x 16 * 16 x 8. */
__device__ __forceinline__ void multiply(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                         uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  multiply_half(sums, a0, a1, b0);
  multiply_half(sums, a2, a3, b1);
#endif
}

__device__ __forceinline__ uint32_t bits_of(__half2 pair) {
  return *(uint32_t *)&pair;
}

/* Two numbers as float16 pairs: high is the nearest, low what it lacks. */
__device__ __forceinline__ void split(float first, float second, uint32_t &high, uint32_t &low) {
  __half2 nearest = __floats2half2_rn(first, second);
  float2 back = __half22float2(nearest);
  high = bits_of(nearest);
  low = bits_of(__floats2half2_rn(first - back.x, second - back.y));
}

/* ---- Input: from global memory to raw, from raw to split ---- */

template <int BYTES> __device__ __forceinline__ void copy_async(uint8_t *to, const uint8_t *from) {
#if __CUDA_ARCH__ >= 800
  uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::256B [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(BYTES) : "memory");
#else
  for (int i = 0; i < BYTES; i += 4)
    *(uint32_t *)(to + i) = *(const uint32_t *)(from + i);
#endif
}

__device__ __forceinline__ void finish_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* Word i of a row of a unit in the raw copy: threads side by side have words side by side. A word is what a channel has. */
template <class In>
__device__ __forceinline__ uint8_t *raw_word(const tile &t, int raw, int unit, int row, int channels, int i) {
  constexpr int BYTES = splitting<In>::PIXELS * sizeof(In);
  return t.shared + raw + (unsigned)((row * channels + i) * t.quads * UNITS + unit) * BYTES;
}

/* A row of a unit that is not wholly inside the image, sample by sample. Nothing is read from column `end` on. */
template <class In>
__device__ __noinline__ void fetch_edge(const separable_arguments &a, tile t, int unit, int row, int column, int end) {
  constexpr int PIXELS = splitting<In>::PIXELS;
  const gconv_problem &problem = a.common.problem;
  const int C = problem.channels, y = ((const int *)(t.shared + a.sources))[4 * (unit / UNITS) + row];
  const In *source = y == GCONV_OUTSIDE ? NULL : (const In *)(t.in + y * a.common.in_row);
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

/* Begins to copy a row of a unit: a word for each channel. WIDE: they lie at multiples of 8 bytes, else of 4. */
template <int BYTES, bool WIDE>
__device__ __forceinline__ void copy_row(uint8_t *to, const uint8_t *from, int words, int stride) {
#pragma unroll 1
  for (int i = 0; i < words; i++, to += stride, from += BYTES) {
    copy_async<WIDE ? BYTES : 4>(to, from);
    if (!WIDE)
      copy_async<4>(to + 4, from + 4);
  }
}

template <class In, bool WIDE>
__device__ __forceinline__ void fetch_units(const separable_arguments &a, const tile &t, int column, int end) {
  constexpr int PIXELS = splitting<In>::PIXELS, BYTES = PIXELS * sizeof(In);
  const int C = a.common.problem.channels, stride = t.quads * UNITS * BYTES; /* from a raw word to the next of the unit */
  const uint32_t in_row = (uint32_t)a.common.in_row;
#pragma unroll 1
  for (unsigned unit = threadIdx.x; unit < t.quads * UNITS; unit += blockDim.x) {
    const int x = column + (int)(unit % UNITS) * PIXELS;
    const int4 rows = ((const int4 *)(t.shared + a.sources))[unit / UNITS];
    if (x < 0 || x + PIXELS > a.common.problem.width || min(min(rows.x, rows.y), min(rows.z, rows.w)) < 0) {
      for (int row = 0; row < 4; row++)
        fetch_edge<In>(a, t, unit, row, x, end);
      continue;
    }
    const uint8_t *from = t.in + x * C * (int)sizeof(In);
    uint8_t *to = raw_word<In>(t, a.raw, unit, 0, C, 0);
    if (C == 1) {
      copy_row<BYTES, WIDE>(to, from + (uint64_t)(uint32_t)rows.x * in_row, 1, 0);
      copy_row<BYTES, WIDE>(to + stride, from + (uint64_t)(uint32_t)rows.y * in_row, 1, 0);
      copy_row<BYTES, WIDE>(to + 2 * stride, from + (uint64_t)(uint32_t)rows.z * in_row, 1, 0);
      copy_row<BYTES, WIDE>(to + 3 * stride, from + (uint64_t)(uint32_t)rows.w * in_row, 1, 0);
    } else {
      copy_row<BYTES, WIDE>(to, from + (uint64_t)(uint32_t)rows.x * in_row, C, stride);
      copy_row<BYTES, WIDE>(to + C * stride, from + (uint64_t)(uint32_t)rows.y * in_row, C, stride);
      copy_row<BYTES, WIDE>(to + 2 * C * stride, from + (uint64_t)(uint32_t)rows.z * in_row, C, stride);
      copy_row<BYTES, WIDE>(to + 3 * C * stride, from + (uint64_t)(uint32_t)rows.w * in_row, C, stride);
    }
  }
}

/* Begins to copy the input of a step whose first column is `column`. */
template <class In> __device__ __forceinline__ void fetch(const separable_arguments &a, const tile &t, int column, int end) {
  if (sizeof(In) > 1 || a.left * a.common.problem.channels % 8 == 0)
    fetch_units<In, true>(a, t, column, end);
  else
    fetch_units<In, false>(a, t, column, end);
}

/* Where the words of a unit of channel c stand, split. Word j (0 .. 3) is number j ^ swizzle_of(unit) from there: so threads
 * side by side meet different banks, when they write as well as when they read. */
__device__ __forceinline__ uint4 *split_words(const tile &t, uint8_t *split, int c, unsigned unit) {
  return (uint4 *)split + (c * t.quads + unit / UNITS) * PITCH + 4 * (unit % UNITS);
}
__device__ __forceinline__ int swizzle_of(unsigned unit) {
  return unit % UNITS >> 1;
}

/* Of two pairs of float16 the larger magnitudes; what is not a number is larger than all others. */
__device__ __forceinline__ uint32_t larger_pair(uint32_t most, uint32_t pair) {
#if __CUDA_ARCH__ >= 800
  return bits_of(__hmax2_nan(*(__half2 *)&most, __habs2(*(__half2 *)&pair)));
#else
  return __vmaxu2(most, pair & 0x7fff7fff);
#endif
}

/* Word j of channel c: columns 2j and 2j + 1 of u8, the four rows of each; column j of others, high parts, then low. */
template <int C>
__device__ __forceinline__ uint4 split_levels(const uint8_t *, const uint2 (&raw)[4][C], int c, int j, float, uint32_t &) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int byte = (2 * j + i / 2) * C + c, row = i % 2 * 2;
    uint32_t first = byte / 4 % 2 ? raw[row][byte / 8].y : raw[row][byte / 8].x;
    uint32_t second = byte / 4 % 2 ? raw[row + 1][byte / 8].y : raw[row + 1][byte / 8].x;
    words[i] = __byte_perm(first, second, byte % 4 * 0x1111 + 0x4400) & 0x00ff00ff;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

/* 11 bits and 5 bits, both exact. */
template <int C>
__device__ __forceinline__ uint4 split_levels(const uint16_t *, const uint2 (&raw)[4][C], int c, int j, float, uint32_t &) {
  uint32_t high[2], low[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
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
__device__ __forceinline__ uint4 split_levels(const float *, const float4 (&raw)[4][C], int c, int j, float scale,
                                              uint32_t &most) {
  float x[4];
#pragma unroll
  for (int row = 0; row < 4; row++) {
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

template <class In> struct raw_type { using word = uint2; };
template <> struct raw_type<float> { using word = float4; };

/* From raw to split; each thread what it has copied itself. Returns whether all of f32 are at most
 * LARGEST_LEVEL, scaled. Where a unit has many words, they are read pixel by pixel, as registers are few. */
template <class In, int C>
__device__ __forceinline__ bool convert_channels(const separable_arguments &a, const tile &t, uint8_t *to, float scale) {
  using word = typename raw_type<In>::word;
  constexpr bool WHOLE = sizeof(In) < 4 || C <= 2;
  uint32_t most = 0;
#pragma unroll 1
  for (unsigned unit = threadIdx.x; unit < t.quads * UNITS; unit += blockDim.x) {
    word raw[4][C];
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
      for (int i = 0; i < 4 * C; i++) {
        const int row = i / C, at = i % C;
        if (WHOLE ? j == 0 : at >= j * C / 4 && at <= (j * C + C - 1) / 4)
          raw[row][at] = *(const word *)raw_word<In>(t, a.raw, unit, row, C, at);
      }
#pragma unroll
      for (int c = 0; c < C; c++)
        if (c < a.channels)
          split_words(t, to, c, unit)[j ^ swizzle_of(unit)] = split_levels<C>((const In *)NULL, raw, c, j, scale, most);
    }
  }
  return max(most & 0xffff, most >> 16) <= LARGEST_BITS;
}

template <class In>
__device__ __forceinline__ bool convert(const separable_arguments &a, const tile &t, uint8_t *to, float scale) {
  switch (a.common.problem.channels) {
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

__device__ __forceinline__ float larger_magnitude(float most, float x) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(x)));
  return most;
#else
  return fabsf(x) <= most ? most : fabsf(x);
#endif
}

/* The largest magnitude of what the thread has copied; NaN if there is one. */
__device__ float largest_copied(const separable_arguments &a, const tile &t) {
  float most = 0;
  for (unsigned unit = threadIdx.x; unit < t.quads * UNITS; unit += blockDim.x)
#pragma unroll 4
    for (int i = 0; i < 4 * a.common.problem.channels; i++) {
      float4 x = *(const float4 *)raw_word<float>(t, a.raw, unit, 0, 0, i);
      most = larger_magnitude(larger_magnitude(most, x.x), x.y);
      most = larger_magnitude(larger_magnitude(most, x.z), x.w);
    }
  return most;
}

/* A scale that suits all threads' `most`, a power of two; 0 if one is not finite. */
__device__ float new_scale(float most) {
  __shared__ uint32_t largest;
  if (threadIdx.x == 0)
    largest = 0;
  __syncthreads();
  atomicMax(&largest, __float_as_uint(most) & 0x7fffffffu);
  __syncthreads();
  const int exponent = (int)(largest >> 23) - 127; /* most < 2^(exponent + 1) */
  __syncthreads();
  if (exponent == 128)
    return 0;
  return __uint_as_float((uint32_t)(127 + 4 - max(exponent, -110)) << 23); /* to 32 at most: below LARGEST_LEVEL */
}

/* ---- The two directions ---- */

/* The last products of a column, as the left factor of the next multiplication. */
template <int GROUPS> struct window { uint32_t high[GROUPS - 1 + TILES][2], low[GROUPS - 1 + TILES][2]; };

/* The matrix of a column times TILES groups of X: the new groups of the window. `x` is the lane's word of the first chunk.
 */
template <class In, int WEIGHT_DIGITS, int GROUPS>
__device__ __forceinline__ void lay_columns(const uint4 *taps, int chunks, const uint8_t *x, const crew &who, int first,
                                            window<GROUPS> &w) {
  const int lane = who.lane;
  float sums[TILES][4] = {};
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; chunk++, x += 4 * PITCH * 16, taps += 2 * LANES) {
    const uint4 high = taps[lane], low = WEIGHT_DIGITS > 1 ? taps[LANES + lane] : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < TILES; j++) {
      const int group = first + j; /* 4 words of u8, 8 of others */
      uint4 b = make_uint4(0, 0, 0, 0);
      if (sizeof(In) == 1)
        *(uint2 *)&b = *(const uint2 *)(x + who.word[group / 2] + group * 64);
      else
        b = *(const uint4 *)(x + who.word[group] + group * 128);
      multiply(sums[j], high.x, high.y, high.z, high.w, b.x, b.y);
      if (WEIGHT_DIGITS > 1)
        multiply(sums[j], low.x, low.y, low.z, low.w, b.x, b.y);
      if (splitting<In>::DIGITS > 1)
        multiply(sums[j], high.x, high.y, high.z, high.w, b.z, b.w);
    }
  }
#pragma unroll
  for (int j = 0; j < TILES; j++) {
    split(sums[j][0], sums[j][1], w.high[GROUPS - 1 + j][0], w.low[GROUPS - 1 + j][0]);
    split(sums[j][2], sums[j][3], w.high[GROUPS - 1 + j][1], w.low[GROUPS - 1 + j][1]);
  }
}

/* Fragments of the matrix of a row: pairs of groups from an even one on, then pairs from an odd one on, before the first.
 * The tensor cores want four registers at a multiple of four, so that pairs of the window always begin at an even group. */
template <int GROUPS> struct row_fragments { static constexpr int EVEN = (GROUPS + 1) / 2, ODD = GROUPS / 2 + 1; };

/* Groups m and m + 1 of the window times a fragment: its first half, its second, or both. */
template <int WEIGHT_DIGITS, int GROUPS, bool FIRST, bool SECOND>
__device__ __forceinline__ void lay_groups(const window<GROUPS> &w, int m, const uint4 &taps, float (&sums)[4]) {
  if (FIRST && SECOND) {
    multiply(sums, w.high[m][0], w.high[m][1], w.high[m + 1][0], w.high[m + 1][1], taps.x, taps.y);
    multiply(sums, w.low[m][0], w.low[m][1], w.low[m + 1][0], w.low[m + 1][1], taps.x, taps.y);
    if (WEIGHT_DIGITS > 1)
      multiply(sums, w.high[m][0], w.high[m][1], w.high[m + 1][0], w.high[m + 1][1], taps.z, taps.w);
    return;
  }
  const int one = FIRST ? m : m + 1;
  multiply_half(sums, w.high[one][0], w.high[one][1], FIRST ? taps.x : taps.y);
  multiply_half(sums, w.low[one][0], w.low[one][1], FIRST ? taps.x : taps.y);
  if (WEIGHT_DIGITS > 1)
    multiply_half(sums, w.high[one][0], w.high[one][1], FIRST ? taps.z : taps.w);
}

/* The window times the matrix of a row, added to the sums of TILES groups of outputs. */
template <int WEIGHT_DIGITS, int GROUPS>
__device__ __forceinline__ void lay_rows(const uint4 *taps, const window<GROUPS> &w, float (&sums)[TILES][4]) {
  constexpr int EVEN = row_fragments<GROUPS>::EVEN, ODD = row_fragments<GROUPS>::ODD;
  const int lane = threadIdx.x % LANES;
#pragma unroll
  for (int i = 0; i < EVEN; i++) {
    const uint4 pair = taps[i * LANES + lane];
#pragma unroll
    for (int j = 0; j < TILES; j += 2) {
      if (2 * i + 1 < GROUPS)
        lay_groups<WEIGHT_DIGITS, GROUPS, true, true>(w, j + 2 * i, pair, sums[j]);
      else
        lay_groups<WEIGHT_DIGITS, GROUPS, true, false>(w, j + 2 * i, pair, sums[j]);
    }
  }
#pragma unroll
  for (int i = 0; i < ODD; i++) {
    const uint4 pair = taps[(EVEN + i) * LANES + lane];
#pragma unroll
    for (int j = 1; j < TILES; j += 2) {
      if (i == 0)
        lay_groups<WEIGHT_DIGITS, GROUPS, false, true>(w, j - 1, pair, sums[j]);
      else if (2 * i < GROUPS)
        lay_groups<WEIGHT_DIGITS, GROUPS, true, true>(w, j + 2 * i - 1, pair, sums[j]);
      else
        lay_groups<WEIGHT_DIGITS, GROUPS, true, false>(w, j + 2 * i - 1, pair, sums[j]);
    }
  }
}

/* ---- The windows of several pairs, in shared memory ---- */

/* The lane's place in the first window of its warp. */
template <int GROUPS> __device__ __forceinline__ uint4 *ring_of(const separable_arguments &a, const tile &t) {
  return (uint4 *)(t.shared + a.rings) + threadIdx.x / LANES * a.filters * a.pairs * (GROUPS - 1) * LANES +
         threadIdx.x % LANES;
}

template <int GROUPS> __device__ __forceinline__ void load_window(const uint4 *ring, window<GROUPS> &w) {
#pragma unroll
  for (int m = 0; m < GROUPS - 1; m++) {
    uint4 group = ring[m * LANES];
    w.high[m][0] = group.x, w.high[m][1] = group.y, w.low[m][0] = group.z, w.low[m][1] = group.w;
  }
}

template <int GROUPS> __device__ __forceinline__ void store_window(const window<GROUPS> &w, uint4 *ring) {
#pragma unroll
  for (int m = 0; m < GROUPS - 1; m++)
    ring[m * LANES] = make_uint4(w.high[m][0], w.high[m][1], w.low[m][0], w.low[m][1]);
}

/* Makes room for TILES new groups. */
template <int GROUPS> __device__ __forceinline__ void shift_window(window<GROUPS> &w) {
#pragma unroll
  for (int m = 0; m < GROUPS - 1; m++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      w.high[m][i] = w.high[m + TILES][i];
      w.low[m][i] = w.low[m + TILES][i];
    }
}

__device__ __forceinline__ uint32_t scale_pair(uint32_t pair, __half2 factor) {
  return bits_of(__hmul2(*(__half2 *)&pair, factor));
}

/* Multiplies what the window holds by a power of two below 1. */
template <int GROUPS> __device__ void scale_window(window<GROUPS> &w, float factor) {
  for (int turn = 0; turn < 4 && factor < 1; turn++, factor *= 0x1p14f) {
    __half2 part = __float2half2_rn(fmaxf(factor, 0x1p-14f));
#pragma unroll
    for (int m = 0; m < GROUPS - 1; m++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        w.high[m][i] = scale_pair(w.high[m][i], part);
        w.low[m][i] = scale_pair(w.low[m][i], part);
      }
  }
}

/* ---- Output ---- */

/* Responses of filter k of the launch from its sums, combined with those of the filters before. */
__device__ __forceinline__ void respond(const separable_arguments &a, const float (&sums)[TILES][4], float unscale, int k,
                                        float (&values)[TILES][4]) {
  const gconv_problem &problem = a.common.problem;
  const int filter = a.first_filter + k;
  const float divisor = gconv_divisors(&problem, a.weights)[filter], bias = gconv_biases(&problem, a.weights)[filter];
  const float first = a.unscales[filter];
  const gconv_combine combine = problem.epilogue.combine;
  const bool combined = gconv_is_combined(&problem);
#pragma unroll
  for (int i = 0; i < 4 * TILES; i++) {
    float &value = values[i / 4][i % 4];
    float response = gconv_response(sums[i / 4][i % 4] * first * unscale, divisor, bias);
    value = !combined ? response
            : k == 0  ? gconv_combine_first(combine, response)
                      : gconv_combine_next(combine, value, response);
  }
}

__device__ __forceinline__ void finish(const gconv_problem &problem, float (&values)[TILES][4]) {
#pragma unroll
  for (int i = 0; i < 4 * TILES; i++) {
    float &value = values[i / 4][i % 4];
    if (gconv_is_combined(&problem))
      value = gconv_combine_last(problem.epilogue.combine, value);
    value = gconv_finish(value, &problem.epilogue);
  }
}

/* The same where there is nothing but scale and offset. */
__device__ __forceinline__ void finish_plain(const float (&sums)[TILES][4], float scale, float offset,
                                             float (&values)[TILES][4]) {
#pragma unroll
  for (int i = 0; i < 4 * TILES; i++)
    values[i / 4][i % 4] = fmaf(sums[i / 4][i % 4], scale, offset);
}

/* gconv_saturate(), in fewer instructions: these operations take the number where the other is not one. */
__device__ __forceinline__ uint32_t level_bits(float y, float white) {
  return __float_as_uint(fminf(fmaxf(y, 0.0f), white) + 8388608.0f);
}

/* Stages two neighbouring samples. */
__device__ __forceinline__ void stage_two(float first, float second, uint8_t *to) {
  *(uint16_t *)to = (uint16_t)__byte_perm(level_bits(first, 255.0f), level_bits(second, 255.0f), 0x0040);
}
__device__ __forceinline__ void stage_two(float first, float second, uint16_t *to) {
  *(uint32_t *)to = __byte_perm(level_bits(first, 65535.0f), level_bits(second, 65535.0f), 0x5410);
}
__device__ __forceinline__ void stage_two(float first, float second, float *to) {
  *(float2 *)to = make_float2(first, second);
}

/* Stages one sample. */
__device__ __forceinline__ void stage_one(float y, uint8_t *to) {
  *to = (uint8_t)level_bits(y, 255.0f);
}
__device__ __forceinline__ void stage_one(float y, uint16_t *to) {
  *to = (uint16_t)level_bits(y, 65535.0f);
}
__device__ __forceinline__ void stage_one(float y, float *to) {
  *to = y;
}

__device__ __forceinline__ int sample_bytes(gconv_type type) {
  return type == GCONV_U8 ? 1 : type == GCONV_U16 ? 2 : 4;
}

/* Stages the finished values of TILES groups: of a lane, two pixels of rows g and g + 8. `pixel` is the first of them. */
template <class Out>
__device__ __forceinline__ void stage_tiles(const separable_arguments &a, const float (&y)[TILES][4], uint8_t *pixel) {
  const int C = a.common.problem.channels;
  Out *top = (Out *)pixel, *bottom = (Out *)(pixel + 8 * a.stage_row);
  if (C == 1) {
#pragma unroll
    for (int j = 0; j < TILES; j++) {
      stage_two(y[j][0], y[j][1], top + j * GROUP);
      stage_two(y[j][2], y[j][3], bottom + j * GROUP);
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < TILES; j++) {
    stage_one(y[j][0], top + j * GROUP * C);
    stage_one(y[j][1], top + j * GROUP * C + C);
    stage_one(y[j][2], bottom + j * GROUP * C);
    stage_one(y[j][3], bottom + j * GROUP * C + C);
  }
}

/* `first` is the first pixel of the values within the step. */
__device__ __forceinline__ void stage(const separable_arguments &a, const tile &t, const crew &who,
                                      const float (&y)[TILES][4], int first) {
  const gconv_type type = a.common.problem.out_type;
  uint8_t *row = t.shared + a.stage + (who.strip * STRIP + who.lane / 4) * a.stage_row;
  const int sample = (first + who.lane % 4 * 2) * a.common.problem.channels + who.channel;
  if (type == GCONV_U8)
    stage_tiles<uint8_t>(a, y, row + sample);
  else if (type == GCONV_U16)
    stage_tiles<uint16_t>(a, y, row + 2 * sample);
  else
    stage_tiles<float>(a, y, row + 4 * sample);
}

/* Waits for the warps of a strip. */
__device__ __forceinline__ void join(const crew &who) {
  if (who.count == LANES)
    __syncwarp();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(who.strip + 1), "r"(who.count) : "memory");
}

/* Alpha that is kept, staged by the threads of a strip; `column` is the output column of the step. */
template <class In>
__device__ __noinline__ void stage_alpha(const separable_arguments &a, tile t, crew who, int column, int columns) {
  const gconv_problem &problem = a.common.problem;
  const int C = problem.channels, bytes = sample_bytes(problem.out_type), top = who.strip * STRIP;
  for (int i = who.member; i < STRIP * columns; i += who.count) {
    int row = top + i / columns, x = i % columns;
    if (row >= t.rows || column + x < t.column || column + x >= t.end)
      continue;
    float alpha = kept_alpha<In>(problem, t.in, a.common.in_row, t.row + row, column + x);
    uint8_t *to = t.shared + a.stage + row * a.stage_row + (x * C + C - 1) * bytes;
    if (problem.out_type == GCONV_U8)
      gconv_store(alpha, to);
    else if (problem.out_type == GCONV_U16)
      gconv_store(alpha, (uint16_t *)to);
    else
      gconv_store(alpha, (float *)to);
  }
}

/* Writes one sample at its place, wherever that is. */
__device__ __forceinline__ void write_sample(const arguments &a, const uint8_t *from, uint8_t *pixel, int c, bool first) {
  const bool alpha = a.problem.keep_alpha && c == a.problem.channels - 1;
  uint8_t *to = pixel + (alpha ? a.out_alpha : c * a.out_channel);
  if (alpha && !first && a.problem.epilogue.combine == GCONV_COMBINE_STACK)
    return; /* it is there once, with the first filter */
  if (a.problem.out_type == GCONV_U8)
    *to = *from;
  else if (a.problem.out_type == GCONV_U16)
    *(uint16_t *)to = *(const uint16_t *)from;
  else
    *(uint32_t *)to = *(const uint32_t *)from;
}

/* Writes what a strip has staged, whose first pixel is output column `column`; what lies outside of the block's columns is
 * not there. Words are of 8 columns of u8, of 4 of others, so that none is cut by the first column. */
template <class Word>
__device__ __noinline__ void write_part(const separable_arguments &a, tile t, crew who, int column, int columns) {
  const int bytes = a.common.problem.channels * sample_bytes(a.common.problem.out_type), size = (int)sizeof(Word);
  const int words = columns * bytes / size, begin = (t.column - column) * bytes, end = (t.end - column) * bytes;
  for (int i = who.member; i < STRIP * words; i += who.count) {
    const int row = who.strip * STRIP + i / words, at = i % words * size;
    const uint8_t *from = t.shared + a.stage + row * a.stage_row + at;
    uint8_t *to = t.out + row * a.common.out_row + (int64_t)column * bytes + at;
    if (row >= t.rows || at < begin)
      continue;
    if (at + size <= end)
      __stcs((Word *)to, *(const Word *)from);
    else
      for (int j = 0; j < end - at; j++)
        to[j] = from[j];
  }
}

/* The same where all of it is inside, and each thread always has the same word of a row: the usual case. */
template <class Word>
__device__ __forceinline__ void write_dense(const separable_arguments &a, const tile &t, const crew &who, int column,
                                            int columns) {
  const int bytes = a.common.problem.channels * sample_bytes(a.common.problem.out_type), size = (int)sizeof(Word);
  const int words = columns * bytes / size;
  if (column < t.column || column + columns > t.end || (who.strip + 1) * STRIP > t.rows || a.rows_at_once == 0) {
    write_part<Word>(a, t, who, column, columns);
    return;
  }
  const int first = a.rows_at_once == 1 ? 0 : who.member / words, row = who.strip * STRIP + first;
  const int at = (who.member - first * words) * size;
  const uint8_t *from = t.shared + a.stage + row * a.stage_row + at;
  uint8_t *to = t.out + row * a.common.out_row + (int64_t)column * bytes + at;
#pragma unroll 4
  for (int i = 0; i < STRIP; i += a.rows_at_once) {
    __stcs((Word *)to, *(const Word *)from);
    from += a.rows_at_once * a.stage_row;
    to += a.rows_at_once * a.common.out_row;
  }
}

__device__ __noinline__ void write_samples(const separable_arguments &a, tile t, crew who, int column, int columns) {
  const int C = a.common.problem.channels, bytes = sample_bytes(a.common.problem.out_type), samples = columns * C;
  for (int i = who.member; i < STRIP * samples; i += who.count) {
    int row = who.strip * STRIP + i / samples, sample = i % samples, q = column + sample / C;
    if (row < t.rows && q >= t.column && q < t.end)
      write_sample(a.common, t.shared + a.stage + row * a.stage_row + sample * bytes,
                   t.out + row * a.common.out_row + q * a.common.out_pixel, sample % C, a.first_filter == 0);
  }
}

__device__ __forceinline__ void write(const separable_arguments &a, const tile &t, const crew &who, int column,
                                      int columns) {
  if (column + columns <= t.column)
    return;
  if (!a.dense)
    write_samples(a, t, who, column, columns);
  else if (a.common.problem.out_type == GCONV_U8)
    write_dense<uint2>(a, t, who, column, columns);
  else
    write_dense<uint4>(a, t, who, column, columns);
}

/* ---- By the definition, where a value is not finite ---- */

template <class Out> __device__ __noinline__ void define(const separable_arguments &a, tile t) {
  const gconv_problem &problem = a.common.problem;
  const int C = problem.channels, samples = (t.end - t.column) * C;
  for (int i = threadIdx.x; i < t.rows * samples; i += blockDim.x) {
    int row = i / samples, sample = i - row * samples;
    place at = {t.row + row, t.column + sample / C, sample % C, t.in};
    uint8_t *pixel = t.out + row * a.common.out_row + at.q * a.common.out_pixel - a.first_filter * a.common.out_filter;
    if (problem.keep_alpha && at.c == C - 1) {
      keep_alpha<float, Out>(a.common, at, pixel);
      continue;
    }
    store_responses<Out>(a.common, a.weights, at.c, pixel, [&](int32_t k) {
      const float *tap = a.weights + (int64_t)k * problem.rows * problem.columns;
      float sum = 0.0f;
      for (int64_t r = 0; r < problem.rows; r++)
        for (int64_t s = 0; s < problem.columns; s++)
          sum = fmaf(*tap++,
                     sample_at<float>(problem, t.in, a.common.in_row, at.p - problem.pad_top + r * problem.dilation_y,
                                      at.q - problem.pad_left + s * problem.dilation_x, at.c),
                     sum);
      return sum;
    });
  }
}

__device__ void define_any(const separable_arguments &a, const tile &t) {
  if (a.common.problem.out_type == GCONV_U8)
    define<uint8_t>(a, t);
  else if (a.common.problem.out_type == GCONV_U16)
    define<uint16_t>(a, t);
  else
    define<float>(a, t);
}

/* ---- The kernel ---- */

__device__ tile make_tile(const separable_arguments &a, uint8_t *shared) {
  const gconv_problem &problem = a.common.problem;
  const unsigned beside = blockIdx.x % a.segments, rest = blockIdx.x / a.segments;
  const int below = rest % a.row_blocks, plane = rest / a.row_blocks, image = plane / problem.planes;
  tile t;
  t.shared = shared;
  t.quads = 4 * (a.strips + a.chunks - 1);
  t.row = below * a.strips * STRIP;
  t.rows = min(a.strips * STRIP, problem.out_height - t.row);
  t.column = beside * a.segment;
  t.end = min(t.column + a.segment, problem.out_width);
  t.in = a.common.in + image * a.common.in_image + (plane - image * problem.planes) * a.common.in_plane;
  t.out = a.common.out + image * a.common.out_image + (plane - image * problem.planes) * a.common.out_plane +
          t.row * a.common.out_row;
  return t;
}

/* Which input rows the block needs; those that only zeros meet are copies of the last. */
__device__ void find_sources(const separable_arguments &a, const tile &t) {
  const gconv_problem &problem = a.common.problem;
  const int needed = t.rows + (problem.rows - 1) * problem.dilation_y;
  for (int i = threadIdx.x; i < 4 * t.quads; i += blockDim.x)
    ((int32_t *)(t.shared + a.sources))[i] =
        (int32_t)gconv_border_index(problem.border, (int64_t)t.row - problem.pad_top + min(i, needed - 1), problem.height);
}

/* Copies the fragments and empties the windows in shared memory. */
__device__ void load_fragments(const separable_arguments &a, const tile &t, int ring_words) {
  for (int i = threadIdx.x; i < a.fragment_words; i += blockDim.x)
    ((uint4 *)(t.shared + a.taps))[i] = a.fragments[i];
  for (int i = threadIdx.x; i < ring_words; i += blockDim.x)
    ((uint4 *)(t.shared + a.rings))[i] = make_uint4(0, 0, 0, 0);
}

/* One warp's part of a step: TILES groups of columns from pixel `first` on, through both directions, to the stage. MANY: all
 * pairs of all filters, whose windows are in shared memory; else the one, in registers. */
template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY>
__device__ __forceinline__ void advance(const separable_arguments &a, const tile &t, const crew &who, const uint8_t *split,
                                        window<GROUPS> &w, int first, float unscale, bool plain) {
  constexpr int ROW_WORDS = (row_fragments<GROUPS>::EVEN + row_fragments<GROUPS>::ODD) * LANES;
  const uint8_t *x = split + (who.channel * t.quads + 4 * who.strip + who.lane % 4) * PITCH * 16;
  const uint4 *taps = (const uint4 *)(t.shared + a.taps);
  uint4 *ring = ring_of<GROUPS>(a, t);
  float values[TILES][4] = {};
#pragma unroll 1
  for (int k = 0; k < (MANY ? a.filters : 1); k++) {
    float sums[TILES][4] = {};
#pragma unroll 1
    for (int i = 0; i < (MANY ? a.pairs : 1); i++) {
      if (MANY)
        load_window(ring, w);
      lay_columns<In, WEIGHT_DIGITS>(taps, a.chunks, x, who, first / GROUP, w);
      lay_rows<WEIGHT_DIGITS>(taps + a.chunks * 2 * LANES, w, sums);
      shift_window(w);
      if (MANY) {
        store_window(w, ring);
        ring += (GROUPS - 1) * LANES;
        taps += a.chunks * 2 * LANES + ROW_WORDS;
      }
    }
    if (plain)
      finish_plain(sums, unscale, a.common.problem.epilogue.offset, values);
    else
      respond(a, sums, unscale, k, values);
  }
  if (!plain)
    finish(a.common.problem, values);
  stage(a, t, who, values, first);
}

/* A new scale, where the one so far is too large for the step at `column`, which is copied again. Returns 0 if a value is
 * not finite. */
__device__ __noinline__ float find_scale(const separable_arguments &a, tile t, float before, int column, int end) {
  finish_copies();
  fetch<float>(a, t, column, end);
  finish_copies();
  return fminf(new_scale(largest_copied(a, t)), before);
}

/* Multiplies the windows by a power of two below 1. */
template <int GROUPS, bool MANY>
__device__ __forceinline__ void scale_windows(const separable_arguments &a, const tile &t, window<GROUPS> &w, float factor) {
  if (!MANY)
    scale_window(w, factor);
  uint4 *ring = ring_of<GROUPS>(a, t);
  for (int i = 0; MANY && i < a.filters * a.pairs; i++, ring += (GROUPS - 1) * LANES) {
    load_window(ring, w);
    scale_window(w, factor);
    store_window(w, ring);
  }
}

/* How sums become values, at a scale of the levels. */
struct units {
  float unscale; /* plain: from sums to output samples; else from sums to levels, but for that of the filter */
  bool plain;
};

template <class In> __device__ __forceinline__ units units_of(const separable_arguments &a, float scale) {
  const float back = 1.0f / scale;
  units u;
  u.plain = a.plain && (sizeof(In) < 4 || (scale > 0x1p-60f && scale < 0x1p60f));
  u.unscale = u.plain ? a.unscale * back * a.common.problem.epilogue.scale : back;
  return u;
}

/* All that a strip makes of a step whose first output column is `column`. */
template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY>
__device__ __forceinline__ void compute(const separable_arguments &a, const tile &t, const crew &who, const uint8_t *split,
                                        window<GROUPS> &w, const units &u, int column) {
  constexpr int STEP = step_of<In>();
#pragma unroll
  for (int first = 0; first < STEP; first += TILES * GROUP)
    advance<In, WEIGHT_DIGITS, GROUPS, MANY>(a, t, who, split, w, first, u.unscale, u.plain);
  if (a.common.problem.keep_alpha)
    stage_alpha<In>(a, t, who, column, STEP);
  join(who);
  write(a, t, who, column, STEP);
}

/* Threads to compile for, which limits registers: to 80 of u8, so that three blocks of 256 fit, to 128 of others, for two,
 * and to 255 where a window takes more than half of them. */
template <class In> constexpr int bound_of(int groups) {
  return groups > 9 ? 256 : sizeof(In) == 1 && groups <= 5 ? 768 : 512;
}

/* Block: a warp for each strip and convolved channel. Grid: segments side by side, then blocks of strips one below the
 * other, then planes of all images. While a step is computed, the next is converted, and the one after that is copied. */
template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY>
__global__ void __launch_bounds__(bound_of<In>(GROUPS), 1) convolve(const __grid_constant__ separable_arguments a) {
  constexpr int STEP = step_of<In>(), LAG = GROUP * (GROUPS - 1); /* outputs come so many columns after the inputs */
  extern __shared__ uint4 memory[];
  const tile t = make_tile(a, (uint8_t *)memory);
  const crew who = make_crew<In>(a);
  const int end = t.end + a.left + LAG + GROUP; /* of the input columns that matter */
  window<GROUPS> w = {};
  float scale = sizeof(In) == 4 ? 0x1p114f : INTEGER_SCALE;
  units u = units_of<In>(a, scale);
  find_sources(a, t);
  load_fragments(a, t, MANY ? (int)blockDim.x * a.filters * a.pairs * (GROUPS - 1) : 0);
  __syncthreads();
  fetch<In>(a, t, t.column + a.left, end);
  int turn = 0;
  for (int column = t.column - LAG - STEP; column < t.end; column += STEP, turn ^= 1) { /* of the outputs; first none */
    const int next = column + STEP + LAG + a.left; /* the first input column of the next step */
    if (column >= t.column - LAG)
      compute<In, WEIGHT_DIGITS, GROUPS, MANY>(a, t, who, t.shared + (turn ^ 1) * a.split, w, u, column);
    if (column + STEP >= t.end)
      break;
    finish_copies();
    uint8_t *split = t.shared + turn * a.split;
    const bool fits = convert<In>(a, t, split, scale);
    const bool more = column + 2 * STEP < t.end;
    if (more)
      fetch<In>(a, t, next + STEP, end);
    if (sizeof(In) < 4) {
      __syncthreads();
    } else if (__syncthreads_or(!fits)) {
      const float before = scale;
      scale = find_scale(a, t, before, next, end);
      if (scale == 0)
        break;
      u = units_of<In>(a, scale);
      scale_windows<GROUPS, MANY>(a, t, w, scale / before);
      convert<In>(a, t, split, scale);
      if (more)
        fetch<In>(a, t, next + STEP, end);
      __syncthreads();
    }
  }
  if (sizeof(In) == 4 && scale == 0)
    define_any(a, t);
}

/* ---- The shape of a problem ---- */

/* Rows from the first tap to the last. */
int reach_y(const gconv_problem *problem) {
  return (problem->rows - 1) * problem->dilation_y;
}

/* The input column of the first group: where the filter begins, rounded down so that words can be copied. */
int left_of(const gconv_problem *problem) {
  return -(problem->pad_left + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

constexpr int GROUP_COUNTS[] = {2, 3, 5, 9, 17, 33};
constexpr int SIZES = sizeof GROUP_COUNTS / sizeof *GROUP_COUNTS;

/* Which of GROUP_COUNTS holds what 8 neighbouring outputs need; SIZES if none does. */
int size_of(const gconv_problem *problem) {
  int64_t columns = (int64_t)(problem->columns - 1) * problem->dilation_x + GROUP - problem->pad_left - left_of(problem);
  int size = problem->in_type == GCONV_U8 ? 0 : 1; /* others are bound by memory there */
  while (size < SIZES && columns > GROUP * GROUP_COUNTS[size])
    size++;
  return size;
}

int chunks_of(const gconv_problem *problem) {
  return (reach_y(problem) + STRIP - 1) / STRIP + 1;
}

/* 16-byte words of the fragments of a pair. */
int pair_words(const gconv_problem *problem) {
  int groups = GROUP_COUNTS[size_of(problem)];
  return (chunks_of(problem) * 2 + (groups + 1) / 2 + groups / 2 + 1) * LANES;
}

int step_of_type(gconv_type type) {
  return type == GCONV_U8 ? step_of<uint8_t>() : type == GCONV_U16 ? step_of<uint16_t>() : step_of<float>();
}

int convolved_channels(const gconv_problem *problem) {
  return problem->channels - (problem->keep_alpha ? 1 : 0);
}

/* Filters of one launch: those that are combined, or one. */
int launched_filters(const gconv_problem *problem) {
  return gconv_is_combined(problem) ? problem->filters : 1;
}

/* Pairs of a filter: that of a filter of zeros is 0 too. */
int pairs_of(const gconv_problem *problem) {
  return problem->structure.rank > 0 ? problem->structure.rank : 1;
}

/* Whether windows are in shared memory: those of several pairs, and those that are too large for registers. */
bool is_shared(const gconv_problem *problem) {
  return launched_filters(problem) * pairs_of(problem) > 1 || GROUP_COUNTS[size_of(problem)] > 9;
}

/* Sets the places in shared memory, and what they follow from; returns its bytes. */
size_t lay_out(const gconv_problem *problem, int strips, separable_arguments *a) {
  a->strips = strips;
  a->chunks = chunks_of(problem);
  a->channels = convolved_channels(problem);
  a->filters = launched_filters(problem);
  a->pairs = pairs_of(problem);
  a->fragment_words = a->filters * a->pairs * pair_words(problem);
  size_t quads = 4 * (size_t)(strips + a->chunks - 1), sample = gconv_type_bytes(problem->out_type);
  size_t step = (size_t)step_of_type(problem->in_type), pairs = (size_t)a->filters * (size_t)a->pairs;
  size_t row = step * (size_t)problem->channels, groups = (size_t)GROUP_COUNTS[size_of(problem)] - 1;
  size_t bytes = 2 * (size_t)a->channels * quads * PITCH * 16;
  a->split = (int32_t)(bytes / 2);
  a->raw = (int32_t)bytes;
  bytes += quads * 4 * row * gconv_type_bytes(problem->in_type);
  a->stage = (int32_t)bytes;
  a->stage_row = (int32_t)(row * sample + (sample == 4 ? 32 : 16)); /* so that 8 rows begin in different banks */
  bytes += (size_t)strips * STRIP * (size_t)a->stage_row;
  a->taps = (int32_t)bytes;
  bytes += (size_t)a->fragment_words * 16;
  a->rings = (int32_t)bytes;
  bytes += is_shared(problem) ? (size_t)(strips * a->channels) * pairs * groups * LANES * 16 : 0;
  a->sources = (int32_t)bytes;
  return bytes + 4 * quads * sizeof(int32_t);
}

/* ---- Weights ---- */

/* In front of the fragments: what the sums of each filter are multiplied by, then the digits of the taps, 1 or 2. */
size_t header_floats(const gconv_problem *problem) {
  return ((size_t)problem->filters + 1 + 3) / 4 * 4;
}

/* Powers of two for a pair: as large as float16 allows. */
struct exponents {
  int column, row;
};

/* The exponent n that takes x just below 2^15, the largest power of two that float16 holds. */
int exponent_below(double x) {
  int exponent;
  frexp(x, &exponent);
  return 15 - exponent;
}

double largest_level(gconv_type type) {
  return type == GCONV_F32 ? (double)LARGEST_LEVEL : (double)gconv_white(type) * (double)INTEGER_SCALE;
}

/* Both the taps and their products with levels must fit. False if the pair is 0. */
bool find_exponents(const gconv_problem *problem, const float *column, const float *row, exponents *e) {
  double most_column = 0, sum = 0, most_row = 0;
  for (int r = 0; r < problem->rows; r++) {
    most_column = fmax(most_column, fabs((double)column[r]));
    sum += fabs((double)column[r]);
  }
  for (int s = 0; s < problem->columns; s++)
    most_row = fmax(most_row, fabs((double)row[s]));
  if (most_column == 0 || most_row == 0)
    return false;
  int product = exponent_below(sum * largest_level(problem->in_type));
  e->column = exponent_below(most_column) < product ? exponent_below(most_column) : product;
  e->row = exponent_below(most_row);
  return true;
}

/* Where a float16 is written: its high part, and its low part `distance` float16 further on. */
struct digit_writer {
  bool low_needed;

  void write(__half *to, size_t distance, double tap) {
    __half high = __float2half_rn((float)tap), low = __float2half_rn((float)(tap - (double)__half2float(high)));
    to[0] = high;
    to[distance] = low;
    low_needed = low_needed || __half2float(low) != 0;
  }
};

/* Tap number `offset` / dilation of a factor, where there is one. */
double tap_at(const float *factor, int count, int dilation, int offset, int exponent) {
  if (offset < 0 || offset % dilation != 0 || offset / dilation >= count)
    return 0;
  return ldexp((double)factor[offset / dilation], exponent);
}

/* The matrix of a column: chunk by chunk, 32 lanes of high parts, then of low ones. Lane 4g + t has rows g and g + 8 of the
 * matrix; its columns, in the order in which X stands in shared memory, are 4t .. 4t + 3. */
void write_column(const gconv_problem *problem, const float *column, int exponent, __half *to, digit_writer *writer) {
  for (int chunk = 0; chunk < chunks_of(problem); chunk++)
    for (int lane = 0; lane < LANES; lane++)
      for (int i = 0; i < 8; i++) {
        int row = lane / 4 + i / 2 % 2 * 8, k = chunk * STRIP + lane % 4 * 4 + i / 4 * 2 + i % 2;
        writer->write(to + (chunk * 2 * LANES + lane) * 8 + i, LANES * 8,
                      tap_at(column, problem->rows, problem->dilation_y, k - row, exponent));
      }
}

/* Half of a fragment of the matrix of a row, for group m of the window: lane 4g + t has column g and rows 2t, 2t + 1. */
void write_group(const gconv_problem *problem, const float *row, int exponent, int m, __half *to, digit_writer *writer) {
  int shift = -problem->pad_left - left_of(problem), groups = GROUP_COUNTS[size_of(problem)];
  for (int lane = 0; lane < LANES; lane++)
    for (int i = 0; i < 2; i++) {
      int k = m * GROUP + lane % 4 * 2 + i;
      double tap =
          m < 0 || m >= groups ? 0 : tap_at(row, problem->columns, problem->dilation_x, k - lane / 4 - shift, exponent);
      writer->write(to + lane * 8 + i, 4, tap);
    }
}

/* See row_fragments. */
void write_row(const gconv_problem *problem, const float *row, int exponent, __half *to, digit_writer *writer) {
  int groups = GROUP_COUNTS[size_of(problem)];
  for (int m = 0; m < groups; m += 2, to += LANES * 8)
    for (int half = 0; half < 2; half++)
      write_group(problem, row, exponent, m + half, to + 2 * half, writer);
  for (int m = -1; m < groups; m += 2, to += LANES * 8)
    for (int half = 0; half < 2; half++)
      write_group(problem, row, exponent, m + half, to + 2 * half, writer);
}

/* The fragments of filter's pairs, all with one product of scales; returns what takes it back. */
float write_filter(const gconv_problem *problem, const float *factors, __half *to, digit_writer *writer) {
  const int R = problem->rows, S = problem->columns, rank = problem->structure.rank;
  const float *columns = factors, *rows = factors + rank * R;
  int common = 126; /* of the product, so that its inverse is a float */
  for (int i = 0; i < rank; i++) {
    exponents e;
    if (find_exponents(problem, columns + i * R, rows + i * S, &e) && e.column + e.row < common)
      common = e.column + e.row;
  }
  common = common > -126 ? common : -126;
  for (int i = 0; i < rank; i++, to += pair_words(problem) * 8) {
    exponents e;
    if (!find_exponents(problem, columns + i * R, rows + i * S, &e))
      continue;
    write_column(problem, columns + i * R, e.column, to, writer);
    write_row(problem, rows + i * S, common - e.column, to + chunks_of(problem) * 2 * LANES * 8, writer);
  }
  return (float)ldexp(1.0, -common);
}

size_t prepared_floats(const gconv_problem *problem) {
  return header_floats(problem) + (size_t)problem->filters * (size_t)pairs_of(problem) * (size_t)pair_words(problem) * 4;
}

void write_filters(const gconv_problem *problem, const float *factors, float *prepared) {
  memset(prepared, 0, prepared_floats(problem) * sizeof(float));
  digit_writer writer = {false};
  float *fragments = prepared + header_floats(problem);
  size_t fragment_floats = (size_t)pairs_of(problem) * (size_t)pair_words(problem) * 4;
  size_t factor_floats = gconv_factor_floats(problem) / (size_t)problem->filters;
  for (size_t k = 0; k < (size_t)problem->filters; k++)
    prepared[k] = write_filter(problem, factors + k * factor_floats, (__half *)(fragments + k * fragment_floats), &writer);
  prepared[problem->filters] = writer.low_needed ? 2 : 1;
}

gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  float *factors = (float *)calloc(gconv_factor_floats(problem) + 1, sizeof(float));
  if (!factors)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the factors of the filters");
  gconv_status status = gconv_factor_filters(problem, taps, factors);
  if (status == GCONV_OK)
    write_filters(problem, factors, prepared);
  free(factors);
  return status;
}

/* ---- Launching ---- */

int device_attribute(cudaDeviceAttr attribute, int otherwise) {
  int device, value;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) {
    cudaGetLastError();
    return otherwise;
  }
  return value;
}

size_t shared_limit(void) {
  return (size_t)device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 64 << 10);
}

/* As many strips as a block takes, but no more than there are, nor than shared memory holds, for two blocks if it can be. */
int strips_of(const gconv_problem *problem) {
  static const int most[] = {8, 4, 4, 4}; /* by channels: 8 to 16 warps */
  separable_arguments unused;
  int channels = convolved_channels(problem), wide = GROUP_COUNTS[size_of(problem)] > 9;
  int strips = wide ? 8 / channels : most[channels - 1];
  int64_t all = ((int64_t)problem->out_height - 1) / STRIP + 1;
  strips = strips < all ? strips : (int)all;
  while (strips > 1 && lay_out(problem, strips, &unused) > shared_limit() * (strips > 2 ? 1 : 2) / 2)
    strips--;
  return strips;
}

/* Output columns of a block: of the numbers of segments that fill the device a whole number of times, the one that takes the
 * least time, which is in proportion to the steps of a block times the number of fillings. */
int segment_of(const gconv_problem *problem, int groups, int64_t rows_of_blocks, int64_t blocks_at_a_time) {
  int step = step_of_type(problem->in_type);
  int64_t steps = ((int64_t)problem->out_width - 1) / step + 1, best = steps, best_cost = INT64_MAX;
  for (int64_t fillings = 1; fillings <= 16; fillings++) {
    int64_t segments = fillings * blocks_at_a_time / rows_of_blocks;
    segments = segments < 1 ? 1 : segments > steps ? steps : segments;
    int64_t each = (steps - 1) / segments + 1, count = (steps - 1) / each + 1;
    int64_t needed = (count * rows_of_blocks - 1) / blocks_at_a_time + 1;
    int64_t cost = (each * step + (groups - 1) * GROUP + 2 * step) * needed; /* 2 steps: for starting */
    if (cost < best_cost) {
      best_cost = cost;
      best = each;
    }
  }
  return (int)best * step;
}

/* Whether scale and offset are all there is to the epilogue of a filter. */
bool is_plain(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  float unscale = gconv_prepared(problem, execution->host_weights)[filter];
  return !gconv_is_combined(problem) && epilogue->scale_low == 0 && !epilogue->absolute && !epilogue->center &&
         gconv_divisors(problem, execution->host_weights)[filter] == 1 &&
         gconv_biases(problem, execution->host_weights)[filter] == 0 && unscale > 0x1p-60f && unscale < 0x1p60f &&
         fabsf(epilogue->scale) < 0x1p20f && (epilogue->scale == 0 || fabsf(epilogue->scale) > 0x1p-20f);
}

/* Whether output pixels lie side by side, and their rows at multiples of the widest word. */
bool is_dense(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  int64_t sample = (int64_t)gconv_type_bytes(problem->out_type);
  const gconv_target *out = execution->out;
  bool aligned = ((uintptr_t)out->base | (uintptr_t)out->row | (uintptr_t)out->plane | (uintptr_t)out->image) % 16 == 0;
  return aligned && execution->out_pixel == problem->channels * sample && execution->out_channel == sample &&
         (!problem->keep_alpha || execution->out_alpha == (problem->channels - 1) * sample);
}

separable_arguments make_arguments(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const float *prepared = gconv_prepared(problem, execution->weights);
  separable_arguments a = {};
  a.common = common_arguments(execution);
  a.common.out += filter * a.common.out_filter;
  a.weights = execution->weights;
  a.unscales = prepared;
  a.unscale = gconv_prepared(problem, execution->host_weights)[filter];
  a.first_filter = filter;
  a.left = left_of(problem);
  a.plain = is_plain(execution, filter);
  a.dense = is_dense(execution);
  lay_out(problem, strips_of(problem), &a);
  const int words = step_of_type(problem->in_type) * problem->channels * (int)gconv_type_bytes(problem->out_type) /
                    (problem->out_type == GCONV_U8 ? 8 : 16);
  a.rows_at_once =
      a.channels * LANES % words == 0 && STRIP * words % (a.channels * LANES) == 0 ? a.channels * LANES / words : 0;
  a.fragments = (const uint4 *)(prepared + header_floats(problem)) + (int64_t)filter * a.pairs * pair_words(problem);
  return a;
}

/* Launches for filter `filter`, or for all if they are combined. */
template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY> void launch(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  separable_arguments a = make_arguments(execution, filter);
  const size_t bytes = lay_out(problem, a.strips, &a);
  const int threads = a.strips * a.channels * LANES;
  auto kernel = convolve<In, WEIGHT_DIGITS, GROUPS, MANY>;
  int blocks = 1;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, bytes);
  a.row_blocks = (problem->out_height - 1) / (a.strips * STRIP) + 1;
  int64_t rows_of_blocks = (int64_t)a.row_blocks * problem->images * problem->planes;
  a.segment = segment_of(problem, GROUPS, rows_of_blocks,
                         (int64_t)device_attribute(cudaDevAttrMultiProcessorCount, 1) * (blocks < 1 ? 1 : blocks));
  a.segments = (problem->out_width - 1) / a.segment + 1;
  kernel<<<(unsigned)(rows_of_blocks * a.segments), threads, bytes, (cudaStream_t)execution->stream>>>(a);
}

typedef void launcher(const gconv_execution *, int32_t filter);

/* The instances: by the digits of taps and the type of samples, by the groups of a window (GROUP_COUNTS), by whether windows
 * are in shared memory. */
#define BOTH(In, digits, groups)                                                                                            \
  { launch<In, digits, groups, false>, launch<In, digits, groups, true> }
#define SHARED(In, groups)                                                                                                  \
  { NULL, launch<In, 2, groups, true> }
#define WINDOWS(In, smallest)                                                                                               \
  { smallest, BOTH(In, 2, 3), BOTH(In, 2, 5), BOTH(In, 2, 9), SHARED(In, 17), SHARED(In, 33) }
#ifndef SEPARABLE_INSTANCES
#define NONE                                                                                                                \
  { NULL, NULL }
launcher *const instances[3][SIZES][2] = {WINDOWS(uint8_t, BOTH(uint8_t, 2, 2)), WINDOWS(uint16_t, NONE),
                                          WINDOWS(float, NONE)};
launcher *const one_digit[SIZES][2] = {BOTH(uint8_t, 1, 2), BOTH(uint8_t, 1, 3)};
#else
SEPARABLE_INSTANCES
#endif

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const bool exact = gconv_prepared(problem, execution->host_weights)[problem->filters] == 1;
  const int size = size_of(problem), shared = is_shared(problem);
  launcher *launch_filter = instances[problem->in_type][size][shared];
  if (exact && problem->in_type == GCONV_U8 && one_digit[size][shared])
    launch_filter = one_digit[size][shared];
  for (int32_t filter = 0; filter < problem->filters; filter += launched_filters(problem))
    launch_filter(execution, filter);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* ---- The descriptor ---- */

/*
 * A tap and a level, in two digits each, are off by 2^-22, and so is their product without that of the low digits; what
 * float16 cannot hold because it is small adds less than one more of these. Tensor cores truncate: each addition is off by
 * less than 2^-23 of the largest sum, at most n taps that are not 0 and, for each of 3 products of 16 rows or columns, 4
 * additions to what was summed before.
 */
double direction_bound(double taps, double products) {
  return 4 * 0x1p-22 + (taps + 1 + 12 * products) * 0x1p-23;
}

double error_bound(const gconv_problem *problem) {
  double rank = problem->structure.rank;
  double down = direction_bound(problem->rows, chunks_of(problem));
  double along = direction_bound(rank * problem->columns, rank * (GROUP_COUNTS[size_of(problem)] + 1) / 2.0);
  return problem->structure.residual + problem->structure.growth * ((1 + down) * (1 + along) - 1);
}

bool is_level(const gconv_problem *problem) {
  float level = problem->border_level;
  return problem->border != GCONV_BORDER_CONSTANT || problem->in_type == GCONV_F32 ||
         (level >= 0 && level <= gconv_white(problem->in_type) && level == rintf(level));
}

const char *supports(const gconv_problem *problem) {
  separable_arguments unused;
  if (problem->structure.rank == GCONV_RANK_HIGH)
    return "the rank of the filter is so high that columns and rows would take more taps";
  if (problem->stride_y != 1 || problem->stride_x != 1)
    return "strides other than 1";
  if ((int64_t)(problem->rows - 1) * problem->dilation_y > 256 || size_of(problem) == SIZES)
    return "filters that reach over more than some 256 pixels";
  if (!is_level(problem))
    return "a constant border between the levels of the input";
  if (error_bound(problem) > 1e-3)
    return "its columns and rows would lose too many digits";
  if ((int64_t)launched_filters(problem) * pairs_of(problem) > 64 || lay_out(problem, 1, &unused) > shared_limit())
    return "its factors would take more shared memory than there is";
  /* Blocks are at least 16 rows by some 32 columns, and positions are 32-bit numbers. */
  int64_t planes = (int64_t)problem->images * problem->planes;
  if (planes * (problem->out_height / STRIP + 1) > INT32_MAX / 64 || problem->out_width > INT32_MAX / 64)
    return "more blocks than a launch takes";
  return NULL;
}

/*
 * Measured on an H200, in multiply-adds of float32 that would take as long: what a sample costs on its way in and out, more
 * where channels are taken apart; what it costs between the directions, for each pair; and 8 multiply-adds of the tensor
 * cores for one. 10 us are for filling and emptying the pipeline.
 */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const bool bytes = problem->in_type == GCONV_U8;
  double samples = (double)problem->images * problem->planes * problem->channels * problem->out_height * problem->out_width;
  double carried = (bytes ? 30 : 70) * (problem->channels == 1 ? 1 : bytes ? 1.6 : 2.4);
  double products = (bytes ? 2 : 3) * STRIP * chunks_of(problem) + 3 * GROUP * GROUP_COUNTS[size_of(problem)];
  double pairs = launched_filters(problem) * pairs_of(problem), launches = problem->filters / launched_filters(problem);
  double compute = samples * (carried + pairs * (25 + products / 8)) / machine->fma_per_ms;
  double moved = (double)(gconv_type_bytes(problem->in_type) + gconv_type_bytes(problem->out_type));
  double memory = samples * moved / (0.8 * machine->bytes_per_ms);
  return launches * (machine->launch_ms + 0.01 + (compute > memory ? compute : memory));
}

} // namespace

/* Members in the order of the structure: C++17 has no names here. */
extern "C" const gconv_algorithm gconv_algorithm_cuda_separable = {
    {"separable", "cuda", "columns times rows of filters of low rank, on tensor cores", false},
    NULL, /* available */
    supports,
    NULL, /* workspace_bytes */
    execute,
    cost,
    error_bound,
    prepared_floats,
    prepare,
    NULL, /* row_step */
    NULL, /* acquire */
    NULL, /* dismiss */
    0,    /* start_ms */
    NULL, /* started */
};

/* SPDX-License-Identifier: MIT */
/* separable, on tensor cores: what its parts know in common (separable_tensor.cuh tells the whole). */
#ifndef GCONV_CUDA_SEPARABLE_SHAPES_CUH
#define GCONV_CUDA_SEPARABLE_SHAPES_CUH

#include "common.cuh"

#include <cuda_fp16.h>
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
constexpr float LARGEST_SCALE = 0x1p126f;

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

/* ---- Numbers ---- */

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

} // namespace

#endif

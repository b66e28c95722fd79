/* SPDX-License-Identifier: MIT */
/* The shapes and numbers of the kernel whose warps go to the right. Begin with separable_tensor.cuh, which explains it. The
 * kernel whose blocks go downwards (separable_walk.cuh) uses only split() and LARGEST_LEVEL of this file. */
#pragma once

#include "../core/launch.cuh"
#include "../core/store.cuh"

#include <cuda_fp16.h>
#include <string.h>

#include <type_traits>

namespace {

/* ---- Shapes ---- */

enum {
  STRIP = 16,            /* output rows of a warp, and of a product; also input rows of a chunk */
  GROUP = 8,             /* columns of a product */
  AT_ONCE = 4,           /* groups that a warp processes together */
  UNITS = 8,             /* units of a step: a thread copies a unit, 4 rows by PIXELS columns; UNITS lie side by side */
  PITCH = 4 * UNITS + 2, /* 16-byte words of 4 rows as float16, and 2 more: lanes that read 4 rows use other banks */
  ALIGNMENT = 4,         /* the first input column of a block is a multiple of this, so that whole words can be copied */
};

/* How samples become float16. A `word` holds one row of a unit, of one channel. Split into float16, a unit takes four words
 * of 16 bytes for each channel. */
template <class In> struct splitting {
  static constexpr int PIXELS = sizeof(In) == 1 ? 8 : 4, DIGITS = sizeof(In) == 1 ? 1 : 2;
  using word = std::conditional_t<sizeof(In) == 4, float4, uint2>;
};
template <class In> __host__ __device__ constexpr int step_of() {
  return UNITS * splitting<In>::PIXELS;
}

/* Levels of integers are multiplied by this in float16. Then the bits of the float16, read as an integer, are the level,
 * for levels below 2048. */
constexpr float INTEGER_SCALE = 0x1p-24f;
/* The kernel to the right scales levels of f32 to at most this. In the kernel downwards, only the first scale of a warp
 * ensures this. If the taps of the first direction sum to at most 2^9, its results are at most 2^15, which float16 holds. */
constexpr float LARGEST_LEVEL = 64;
constexpr uint32_t LARGEST_BITS = 0x5400; /* 64 as float16 */
constexpr float LARGEST_SCALE = 0x1p126f;

struct separable_arguments : arguments {
  const float *weights;   /* weights of the plan */
  const uint4 *fragments; /* of this launch's first filter: for each pair, fragments of the column, then of the row */
  int32_t fragment_words; /* words of 16 bytes, for all pairs of a filter */
  int32_t filters, pairs; /* filters of this launch; pairs of a filter */
  int32_t first_filter;
  int32_t chunks;                        /* chunks of 16 rows, in the matrix of a column */
  int32_t strips;                        /* strips of a block */
  int32_t channels;                      /* channels that are convolved */
  int32_t left;                          /* input column of the first group, for output column 0 */
  int32_t segment, segments, row_blocks; /* output columns of a block; blocks side by side; blocks one below the other */
  int32_t split, raw, stage, stage_row, taps, rings, sources; /* places and lengths in shared memory, in bytes */
  const float *unscales;                                      /* for each filter, the factor from products to responses */
  float unscale;                                              /* the factor of the first filter */
  int32_t
      rows_at_once; /* rows that the threads of a strip store at once, in whole words; 0 if the words do not divide evenly */
  bool plain;       /* the epilogue is only scale and offset */
  bool dense;       /* output pixels are neighbours, in aligned words */
};

/* The data that all threads of a block share: its place, and its rows and columns. */
struct tile {
  const uint8_t *in;
  uint8_t *out;
  uint8_t *shared;
  uint32_t quads;      /* groups of four input rows */
  int32_t row, rows;   /* first output row of the block, and how many */
  int32_t column, end; /* output columns: first, and end */
};

/* The threads of one strip, and the place of this thread among them. */
struct team {
  int32_t strip, channel, lane;
  int32_t member, count;
  int32_t word[4]; /* offsets of the lane's split words, in bytes, word[i] for groups whose words are permuted by i:
                      swizzle_of() */
};

template <class In> DEVICE team make_team(const separable_arguments &a) {
  const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  team who;
  who.strip = warp / a.channels;
  who.channel = warp - who.strip * a.channels;
  who.lane = lane;
  who.member = who.channel * LANES + lane;
  who.count = a.channels * LANES;
  for (int i = 0; i < 4; i++) /* lane 4g + t has column g of a group; for u8, half a word */
    who.word[i] = sizeof(In) == 1 ? (lane / 8 ^ i) * 16 + lane / 4 % 2 * 8 : (lane / 16 * 4 + (lane / 4 % 4 ^ i)) * 16;
  return who;
}

/* ---- Numbers ---- */

DEVICE uint32_t bits_of(__half2 pair) {
  return *(uint32_t *)&pair;
}

/* Splits two numbers into pairs of float16. `high` is the nearest float16, `low` the remainder. */
DEVICE void split(float first, float second, uint32_t &high, uint32_t &low) {
  __half2 nearest = __floats2half2_rn(first, second);
  float2 back = __half22float2(nearest);
  high = bits_of(nearest);
  low = bits_of(__floats2half2_rn(first - back.x, second - back.y));
}

} // namespace

/* SPDX-License-Identifier: MIT */
/* separable, downwards: the arguments and the place of a block, and its copies of input rows to shared memory
 * (separable_walk.cuh). */
#pragma once

#include "separable_tensor.cuh"

namespace {
namespace walk {

enum {
  CHUNK = 16,             /* samples of a row that a product takes, and samples that it yields */
  OUTPUTS = 2,            /* chunks of output samples that a warp computes */
  SPAN = OUTPUTS * CHUNK, /* samples of a warp */
  ROWS = 16,              /* rows of a step */
  SLOTS = 3               /* steps in shared memory */
};
constexpr float NO_SCALE = 0x1p127f; /* the scale while all samples are 0: larger than any that scale_for() returns */

/* warps_of(): the warps of a block, side by side. BLOCKS: a multiprocessor has registers for at least this many blocks. */
__host__ __device__ constexpr int warps_of(int groups) {
  return groups > 5 ? 4 : 8;
}
constexpr int BLOCKS = 2;

struct walk_arguments : arguments {
  const float *weights;   /* weights of the plan */
  const uint4 *fragments; /* fragments of this filter, as write_filter() makes them */
  int32_t filter;
  int32_t chunks;         /* products for an output, along the row */
  int32_t pitch;          /* pitch of a row in shared memory, in words of 4 samples */
  int32_t left;           /* from a block's first output to its first input sample: a multiple of 4 */
  int32_t reach;          /* samples of an input row that outputs need, counted from sample 0 */
  int32_t samples;        /* samples of an output row */
  int32_t across, tracks; /* tracks side by side; tracks of all images. A track: the samples of a block in all rows */
  int32_t steps, lead;    /* of a track: steps of ROWS output rows; steps before its first output, one of them for copies */
  int32_t rounds, piece;  /* pieces of a track that have their own block; steps of a piece */
  float unscale, divisor, bias; /* unscale: factor from sums to responses */
  float factor;                 /* plain: factor from sums to output samples, without the offset */
  bool plain;                   /* the epilogue is only scale and offset, and outputs are floats in rows of aligned pairs */
};

/* The place of a block in a piece of a track. Rows are counted from the first row of the piece. */
struct block_place {
  const uint8_t *in; /* the planes, from row 0 on */
  uint8_t *out;
  uint4 *slots;                     /* in shared memory */
  int32_t *offsets;                 /* offset of each single in an input row, in bytes; -1: outside */
  int32_t first;                    /* first output sample of the block */
  int32_t in_row, out_row;          /* numbers of the first input row and output row */
  int32_t inside_begin, inside_end; /* steps that begin between these rows have all of their rows inside the image */
  int32_t rows;                     /* output rows */
  int32_t words;                    /* words of 4 samples of an input row that the block needs */
  int32_t inner, outer;             /* words inner .. outer - 1 lie wholly inside the row */
  int32_t singles;                  /* samples of the other words, which are copied one by one */
  bool live;                        /* some singles come from the row; otherwise all have the level of the border */
};

/* ---- Input ---- */

/* Returns the number of single i among the samples of a row. */
DEVICE int single_place(const block_place &at, int i) {
  return i < 4 * at.inner ? i : i + 4 * (at.outer - at.inner);
}

/* Finds which words lie inside the row, and where singles come from. Writes the singles that have the level of the border to
 * shared memory, where they stay. */
DEVICE void find_singles(const walk_arguments &a, block_place &at) {
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, first = at.first + a.left;
  const int before = min(max(-first, 0), 4 * at.words);
  at.inner = (before + 3) / 4;
  at.outer = min(max((problem.width * C - first) >> 2, at.inner), at.words);
  at.singles = 4 * (at.words - at.outer + at.inner);
  bool live = false;
  ROLLED_FOR (int i = threadIdx.x; i < at.singles; i += blockDim.x) {
    const int sample = first + single_place(at, i);
    const int inside = sample < a.reach ? sample_in_row(problem, sample) : GCONV_OUTSIDE;
    live = live || inside != GCONV_OUTSIDE;
    at.offsets[i] = inside == GCONV_OUTSIDE ? -1 : 4 * inside;
    for (int row = 0; inside == GCONV_OUTSIDE && row < SLOTS * ROWS; row++)
      ((float *)(at.slots + row * a.pitch))[single_place(at, i)] = problem.border_level;
  }
  at.live = __syncthreads_or(live);
}

/* words_for(): the words of an input row that a block needs. pitch_for(): the words from a row to the next in shared memory,
 * 4 more than a multiple of 8. Shared memory serves 8 lanes of two rows at a time, which thus use different banks. */
__host__ __device__ constexpr int words_for(int warps, int chunks) {
  return (warps * SPAN + CHUNK * (chunks - 1)) / 4;
}
__host__ __device__ constexpr int pitch_for(int warps, int chunks) {
  return (words_for(warps, chunks) + 3) / 8 * 8 + 4;
}

/* The words of a step that a thread copies: words `lane` + i of every two rows of its warp, where i is a multiple of LANES.
 * The words of both rows are numbered in one sequence, because a row's words, 72 at 31 x 31, are no multiple of LANES.
 * CHUNKS is 0 if the number is not known at compile time. */
template <int WARPS, int CHUNKS> struct own_words {
  int lane, words, pitch;

  DEVICE own_words(int the_lane, int chunks)
      : lane(the_lane), words(words_for(WARPS, CHUNKS > 0 ? CHUNKS : chunks)),
        pitch(pitch_for(WARPS, CHUNKS > 0 ? CHUNKS : chunks)) {}

  DEVICE bool has(int i) const {
    return i + LANES <= 2 * words || i + lane < 2 * words;
  }
  DEVICE bool is_second(int i) const {
    return i >= words || (i + LANES > words && i + lane >= words);
  }
  /* Returns the number of word i in its row. */
  DEVICE int word(int i) const {
    return lane + i - (is_second(i) ? words : 0);
  }
  /* Returns the offset from the thread's first word of a step in shared memory. */
  DEVICE int offset(int row, int i) const {
    return row * pitch + i + (is_second(i) ? pitch - words : 0);
  }
};

/* Returns how many bytes after sample 0 of an input row word `word` of the block is. */
DEVICE int64_t word_offset(const walk_arguments &a, const block_place &at, int word) {
  return ((int64_t)at.first + a.left + 4 * word) * 4;
}

/* Starts to copy the singles of a row of the warp and, if BOTH, of its next row. `from` is the input row. */
template <bool BOTH>
DEVICE void fetch_singles(const walk_arguments &a, const block_place &at, int lane, uint4 *row, const uint8_t *from) {
  ROLLED_FOR (int i = lane; i < at.singles; i += LANES) {
    const int offset = at.offsets[i];
    if (offset >= 0) {
      float *to = (float *)row + single_place(at, i);
      copy_async<4>(to, from + offset);
      if (BOTH)
        copy_async<4>(to + 4 * a.pitch, from + a.in_row + offset);
    }
  }
}

/* Starts to copy the thread's words of a step from row `first_row` on, where some rows lie outside the image. */
template <int WARPS>
__device__ __noinline__ void fetch_edge(const walk_arguments &a, block_place at, uint4 *slot, int first_row) {
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const float level = a.problem.border_level;
  ROLLED_FOR (int i = 0; i < ROWS / WARPS; i++) {
    const int row = i / 2 * 2 * WARPS + 2 * warp + i % 2;
    const int y = index_of(a.problem.border, at.in_row + first_row + row, a.problem.height);
    const uint8_t *from = at.in + (int64_t)y * a.in_row;
    uint4 *to = slot + row * a.pitch;
    ROLLED_FOR (int word = lane; word < at.words; word += LANES)
      if (y == GCONV_OUTSIDE)
        *(float4 *)(to + word) = make_float4(level, level, level, level);
      else if (word >= at.inner && word < at.outer)
        copy_async<16>(to + word, from + word_offset(a, at, word));
    if (y != GCONV_OUTSIDE)
      fetch_singles<false>(a, at, lane, to, from);
  }
}

/* Starts to copy the input rows of a step from `first_row` on. `from` is the thread's first word. */
template <int WARPS, int CHUNKS>
DEVICE void fetch(const walk_arguments &a, const block_place &at, const own_words<WARPS, CHUNKS> &own, int warp, uint4 *slot,
                  int first_row, const uint8_t *from) {
  uint4 *to = slot + 2 * warp * own.pitch + own.lane;
  if (first_row < at.inside_begin || first_row > at.inside_end) {
    fetch_edge<WARPS>(a, at, slot, first_row);
  } else {
    UNROLLED_FOR (int row = 0; row < ROWS; row += 2 * WARPS, from += 2 * WARPS * a.in_row) {
      const uint8_t *from_second = from + a.in_row - own.words * 16;
      if (at.singles == 0) { /* the usual case: all words lie inside the row */
#pragma unroll(CHUNKS > 0 ? 8 : 1)
        for (int i = 0; i < 2 * own.words; i += LANES)
          if (own.has(i))
            copy_async<16>(to + own.offset(row, i), (own.is_second(i) ? from_second : from) + i * 16);
      } else {
#pragma unroll(CHUNKS > 0 ? 8 : 1)
        for (int i = 0; i < 2 * own.words; i += LANES)
          if (own.has(i) && (unsigned)(own.word(i) - at.inner) < (unsigned)(at.outer - at.inner))
            copy_async<16>(to + own.offset(row, i), (own.is_second(i) ? from_second : from) + i * 16);
        if (at.live)
          fetch_singles<true>(a, at, own.lane, to - own.lane + row * own.pitch, from - word_offset(a, at, own.lane));
      }
    }
  }
}

} // namespace walk
} // namespace

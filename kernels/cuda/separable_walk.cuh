/* SPDX-License-Identifier: MIT */
/*
 * separable, floats and one filter of rank 1 that reaches over at most 65 rows: along the rows, then down the columns, on
 * tensor cores.
 *
 *      input rows            a block: 256 samples of a row (128 from 34 rows on), 32 for each of its warps, and 16 rows
 *    +-----+-----+-----+     at a time
 *    | 0 0 | 1 1 | 2 2 | 16 rows
 *    +-----+-----+-----+            Of 16 samples by 8 rows, the filter's row makes Y^T = T * X^T: T, 16 samples by those
 *       |     |     |               that they need, has the row on its diagonals.
 *       v     v     v               Y^T is where the next product wants its left factor. Times the matrix of the column it
 *    +-----+-----+-----+            adds to the sums of the GROUPS + 1 eights of output rows that 16 input rows reach; two
 *    | 0 0 | 1 1 | 2 2 |            of them are finished then, and the others move up by being written to other registers
 *    +-----+-----+-----+            than they were read from.
 *
 * Numbers are two float16 each, and samples have a scale, as in separable_tensor.cuh; each warp has its own, and a new one
 * is laid on the sums, too. That a scale is too large shows in Y. The block copies input rows to shared memory, with what
 * the filter reaches beside them, two steps ahead, borders included. Channels that are interleaved are taps that lie so many
 * samples apart: only the ends of rows know of them.
 *
 * To 17 rows, where memory bounds, blocks walk down low pieces, and the device starts one when another ends. Above that, as
 * many blocks as the device holds walk down equal shares of the image, so that all end at the same time; those at the edges
 * must be as fast as others for that.
 *
 * Where a sample is not finite, sums that are not finite are computed again by the definition, because 0 * infinity must not
 * appear where the filter does not reach.
 *
 * The arithmetic, a sample: 3 * (16 * TURNS + 8 * (GROUPS + 1)) multiply-adds of tensor cores, 288 for 31 x 31, and some 25
 * other instructions.
 */
#ifndef GCONV_CUDA_SEPARABLE_WALK_CUH
#define GCONV_CUDA_SEPARABLE_WALK_CUH

#include "copies.cuh"
#include "separable_weights.cuh"

namespace {
namespace walk {

enum {
  TILE = 16,           /* samples of a product */
  TILES = 2,           /* of a warp */
  SPAN = TILES * TILE, /* samples of a warp */
  ROWS = 16,           /* of a step */
  SLOTS = 3            /* steps in shared memory */
};
constexpr float NO_SCALE = 0x1p127f; /* as long as all samples are 0: above all that scale_for() gives */

/* Warps of a block, side by side; and blocks of a multiprocessor, for which registers are limited. */
__host__ __device__ constexpr int warps_of(int groups) {
  return groups > 5 ? 4 : 8;
}
constexpr int BLOCKS = 2;

struct walk_arguments {
  arguments common;
  const float *weights;   /* of the plan */
  const uint4 *fragments; /* of this filter: see write_filter() */
  int32_t filter;
  int32_t turns;                /* products of 16 samples that an output needs, along the row */
  int32_t pitch;                /* of a row in shared memory, in words of 4 samples */
  int32_t left;                 /* from a block's first output to its first input sample: a multiple of 4 */
  int32_t reach;                /* samples of an input row that some output needs, from sample 0 on */
  int32_t samples;              /* of an output row */
  int32_t across, lanes;        /* lanes side by side; of all planes of all images */
  int32_t steps, lead;          /* of a lane: ROWS output rows each; what it takes to begin, in steps */
  int32_t rounds, piece;        /* pieces of each lane that are a block's, and steps of each; what is left is shared */
  float unscale, divisor, bias; /* unscale: from sums to responses */
  float factor;                 /* plain: from sums to output samples, but for the offset */
  bool plain;                   /* nothing to the epilogue but scale and offset, to floats in rows of aligned pairs */
};

/* Where a block is: in a piece of a lane. Rows are counted from its first. */
struct block_place {
  const uint8_t *in; /* the planes, from row 0 on */
  uint8_t *out;
  uint4 *slots;                 /* shared memory */
  int32_t *offsets;             /* of patches in an input row, in bytes; -1: outside */
  int32_t first;                /* output sample of the block */
  int32_t in_row, out_row;      /* numbers of the first rows */
  int32_t calm_begin, calm_end; /* a step from a row between these on has rows that all lie inside */
  int32_t rows;                 /* output rows */
  int32_t words;                /* of 4 samples, of an input row that the block needs */
  int32_t inner, outer;         /* words from `inner` to `outer` - 1 lie wholly inside the row */
  int32_t patches;              /* samples of the others */
  bool live;                    /* some of these come from the row, not all from the border's level */
};

/* ---- Input ---- */

/* Number of patch i among the samples of a row. */
__device__ __forceinline__ int patch_place(const block_place &at, int i) {
  return i < 4 * at.inner ? i : i + 4 * (at.outer - at.inner);
}

/* Finds which words lie inside, and where the samples of the others come from. Those that are the border's level stay in
 * shared memory for good. */
__device__ __forceinline__ void find_patches(const walk_arguments &a, block_place &at) {
  const gconv_problem &problem = a.common.problem;
  const int C = problem.channels, first = at.first + a.left;
  const int before = min(max(-first, 0), 4 * at.words);
  at.inner = (before + 3) / 4;
  at.outer = min(max((problem.width * C - first) >> 2, at.inner), at.words);
  at.patches = 4 * (at.words - at.outer + at.inner);
  bool live = false;
#pragma unroll 1
  for (int i = threadIdx.x; i < at.patches; i += blockDim.x) {
    const int sample = first + patch_place(at, i), x = (sample - (sample < 0 ? C - 1 : 0)) / C;
    const int64_t inside = sample < a.reach ? gconv_border_index(problem.border, x, problem.width) : GCONV_OUTSIDE;
    live = live || inside != GCONV_OUTSIDE;
    at.offsets[i] = inside == GCONV_OUTSIDE ? -1 : (int)(inside * C + sample - x * C) * 4;
    for (int row = 0; inside == GCONV_OUTSIDE && row < SLOTS * ROWS; row++)
      ((float *)(at.slots + row * a.pitch))[patch_place(at, i)] = problem.border_level;
  }
  at.live = __syncthreads_or(live);
}

/* Words of an input row that a block needs, and from a row to the next in shared memory: so many that lanes of two rows meet
 * different banks. */
__host__ __device__ constexpr int words_for(int warps, int turns) {
  return (warps * SPAN + TILE * (turns - 1)) / 4;
}
__host__ __device__ constexpr int pitch_for(int warps, int turns) {
  return (words_for(warps, turns) + 3) / 8 * 8 + 4;
}

/* The words of a step that a thread copies: of each two rows of its warp, one behind the other, words `lane` + i.
 * TURNS: 0 if they are not known here. */
template <int WARPS, int TURNS> struct own_words {
  int lane, words, pitch;

  __device__ __forceinline__ own_words(int the_lane, int turns)
      : lane(the_lane), words(words_for(WARPS, TURNS > 0 ? TURNS : turns)),
        pitch(pitch_for(WARPS, TURNS > 0 ? TURNS : turns)) {}

  __device__ __forceinline__ bool has(int i) const {
    return i + LANES <= 2 * words || i + lane < 2 * words;
  }
  __device__ __forceinline__ bool is_second(int i) const {
    return i >= words || (i + LANES > words && i + lane >= words);
  }
  /* Its number in its row. */
  __device__ __forceinline__ int word(int i) const {
    return lane + i - (is_second(i) ? words : 0);
  }
  /* From the thread's first word of a step in shared memory. */
  __device__ __forceinline__ int offset(int row, int i) const {
    return row * pitch + i + (is_second(i) ? pitch - words : 0);
  }
};

/* The input row that stands for row `y`; NULL: the border's level does. */
__device__ __forceinline__ const uint8_t *source_row(const walk_arguments &a, const block_place &at, int y) {
  const gconv_problem &problem = a.common.problem;
  const int64_t source = (unsigned)y < (unsigned)problem.height ? y : gconv_border_index(problem.border, y, problem.height);
  return source == GCONV_OUTSIDE ? NULL : at.in + source * a.common.in_row;
}

/* Begins to copy the patches of a row of the warp, from input row `from`, and those of the next row. */
__device__ __forceinline__ void fetch_patches(const walk_arguments &a, const block_place &at, int lane, uint4 *row,
                                              const uint8_t *from) {
#pragma unroll 1
  for (int i = lane; i < at.patches; i += LANES) {
    const int offset = at.offsets[i];
    if (offset >= 0) {
      float *to = (float *)row + patch_place(at, i);
      copy_async<4>(to, from + offset);
      copy_async<4>(to + 4 * a.pitch, from + a.common.in_row + offset);
    }
  }
}

/* Begins to copy the own words of a step from row `first_row` on, where rows lie outside. It must not take long: all other
 * blocks wait for those at the edges in the end. */
template <int WARPS>
__device__ __noinline__ void fetch_edge(const walk_arguments &a, block_place at, uint4 *slot, int first_row) {
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const float level = a.common.problem.border_level;
#pragma unroll 1
  for (int i = 0; i < 2 * ROWS / (2 * WARPS); i++) {
    const int row = i / 2 * 2 * WARPS + 2 * warp + i % 2;
    const uint8_t *from = source_row(a, at, at.in_row + first_row + row);
    uint4 *to = slot + row * a.pitch;
#pragma unroll 1
    for (int word = lane; word < at.words; word += LANES)
      if (!from)
        *(float4 *)(to + word) = make_float4(level, level, level, level);
      else if (word >= at.inner && word < at.outer)
        copy_async<16>(to + word, from + ((int64_t)at.first + a.left + 4 * word) * 4);
#pragma unroll 1
    for (int i = lane; i < at.patches; i += LANES) {
      float *sample = (float *)to + patch_place(at, i);
      if (!from || at.offsets[i] < 0)
        *sample = level;
      else
        copy_async<4>(sample, from + at.offsets[i]);
    }
  }
}

/* Begins to copy the input rows of a step from `first_row` on; `from` is the thread's first word. */
template <int WARPS, int TURNS>
__device__ __forceinline__ void fetch(const walk_arguments &a, const block_place &at, const own_words<WARPS, TURNS> &own,
                                      int warp, uint4 *slot, int first_row, const uint8_t *from) {
  uint4 *to = slot + 2 * warp * own.pitch + own.lane;
  if (first_row < at.calm_begin || first_row > at.calm_end) {
    fetch_edge<WARPS>(a, at, slot, first_row);
  } else {
#pragma unroll
    for (int row = 0; row < ROWS; row += 2 * WARPS, from += 2 * WARPS * a.common.in_row) {
      const uint8_t *from_second = from + a.common.in_row - own.words * 16;
      if (at.patches == 0) {
#pragma unroll(TURNS > 0 ? 8 : 1)
        for (int i = 0; i < 2 * own.words; i += LANES)
          if (own.has(i))
            copy_async<16>(to + own.offset(row, i), (own.is_second(i) ? from_second : from) + i * 16);
      } else { /* as fast, or all other blocks wait for those at the edges in the end */
#pragma unroll(TURNS > 0 ? 8 : 1)
        for (int i = 0; i < 2 * own.words; i += LANES)
          if (own.has(i) && (unsigned)(own.word(i) - at.inner) < (unsigned)(at.outer - at.inner))
            copy_async<16>(to + own.offset(row, i), (own.is_second(i) ? from_second : from) + i * 16);
        if (at.live)
          fetch_patches(a, at, own.lane, to - own.lane + row * own.pitch,
                        from - ((int64_t)at.first + a.left + 4 * own.lane) * 4);
      }
    }
  }
}

/* ---- The two directions ---- */

/* Y in two parts, as the left factor of the next product: high parts, then low ones. */
struct factors {
  uint32_t h[TILES][4], l[TILES][4];
};

/* Whether one of two magnitudes is infinite, or no number. */
__device__ __forceinline__ bool is_infinite(uint32_t pair) {
  return max(pair & 0xffff, pair >> 16) >= 0x7c00;
}

/* Y^T of 16 rows: their responses to the filter's row. `x` are the lane's first four samples. False
 * if one is too large for float16, to the whole warp. */
template <int TURNS>
__device__ __forceinline__ bool lay_rows(int turns, int pitch, const uint4 *taps, const float4 *x, float scale, factors &f) {
  float y[2][TILES][4] = {}; /* eights of rows by tiles */
#pragma unroll(TURNS > 0 ? TURNS + TILES : 1)
  for (int s = 0; s < turns + TILES - 1; s++) {
    uint4 parts[2]; /* of samples: high, then low */
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float4 four = x[8 * i * pitch + 4 * s];
      split(scale * four.x, scale * four.y, parts[i].x, parts[i].z);
      split(scale * four.z, scale * four.w, parts[i].y, parts[i].w);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
      if (s >= tile && s < turns + tile) {
        const uint4 h = taps[2 * LANES * (s - tile)], l = taps[2 * LANES * (s - tile) + LANES]; /* of T */
#pragma unroll
        for (int i = 0; i < 2; i++)
          multiply(y[i][tile], h.x, h.y, h.z, h.w, parts[i].x, parts[i].y);
#pragma unroll
        for (int i = 0; i < 2; i++)
          multiply(y[i][tile], h.x, h.y, h.z, h.w, parts[i].z, parts[i].w);
#pragma unroll
        for (int i = 0; i < 2; i++)
          multiply(y[i][tile], l.x, l.y, l.z, l.w, parts[i].x, parts[i].y);
      }
  }
  uint32_t most = 0;
#pragma unroll
  for (int tile = 0; tile < TILES; tile++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      split(y[i / 2][tile][i % 2 * 2], y[i / 2][tile][i % 2 * 2 + 1], f.h[tile][i], f.l[tile][i]);
      most = larger_pair(most, f.h[tile][i]);
    }
  return !__any_sync(~0u, is_infinite(most));
}

/* Makes NaN of them. */
__device__ __forceinline__ void lose(factors &f) {
#pragma unroll
  for (int i = 0; i < TILES * 4; i++)
    f.h[i / 4][i % 4] = 0x7fff7fff;
}

/* Adds what 16 rows of Y bring to the sums of the GROUPS + 1 eights of output rows that they reach, of which they finish the
 * last two; before, sums were two further on. */
template <int GROUPS>
__device__ __forceinline__ void lay_columns(const uint4 *taps, const factors &f, float (&sums)[GROUPS + 1][TILES][4]) {
#pragma unroll
  for (int e = GROUPS; e >= 0; e--) {
    const uint4 b = taps[e * LANES];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        sums[e][tile][i] = e >= 2 ? sums[e >= 2 ? e - 2 : 0][tile][i] : 0.0f;
      multiply(sums[e][tile], f.h[tile][0], f.h[tile][1], f.h[tile][2], f.h[tile][3], b.x, b.y);
      multiply(sums[e][tile], f.l[tile][0], f.l[tile][1], f.l[tile][2], f.l[tile][3], b.x, b.y);
      multiply(sums[e][tile], f.h[tile][0], f.h[tile][1], f.h[tile][2], f.h[tile][3], b.z, b.w);
    }
  }
}

/* The largest of all lanes' numbers. */
__device__ __forceinline__ uint32_t largest_of_warp(uint32_t x) {
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    x = max(x, __shfl_xor_sync(~0u, x, distance));
  return x;
}

/* The scale, a power of two, that suits the samples that a warp meets in a step, `width` of each row; NO_SCALE if all are 0,
 * 0 if one is not finite. */
__device__ __noinline__ float suitable_scale(const float *samples, int row_floats, int width) {
  float most = 0;
  for (int i = threadIdx.x % LANES; i < width; i += LANES)
    for (int row = 0; row < ROWS; row++)
      most = larger_magnitude(most, samples[row * row_floats + i]);
  const uint32_t largest = largest_of_warp(__float_as_uint(most) & 0x7fffffffu);
  return largest == 0 ? NO_SCALE : scale_for(largest);
}

/* A new scale, and what takes sums to outputs with it; 0 if one multiplication does not. */
__device__ __forceinline__ void set_scale(const walk_arguments &a, float next, float &scale, float &factor) {
  const float both = a.factor / next;
  scale = next;
  factor = a.plain && fabsf(both) > 0x1p-100f && fabsf(both) < 0x1p100f ? both : 0;
}

/* ---- Output ---- */

/* Stores one value, wherever its place is. */
__device__ __forceinline__ void store_sample(const walk_arguments &a, const block_place &at, int row, int sample, float y) {
  const gconv_problem &problem = a.common.problem;
  const int C = problem.channels, q = sample / C, c = sample - q * C, p = at.out_row + row;
  uint8_t *pixel = at.out + p * a.common.out_row + q * a.common.out_pixel, *to = pixel + c * a.common.out_channel;
  if (problem.keep_alpha && c == C - 1) {
    if (a.filter > 0 && problem.epilogue.combine == GCONV_COMBINE_STACK)
      return; /* it is there once, with the first filter */
    y = kept_alpha<float>(problem, at.in, a.common.in_row, p, q);
    to = pixel + a.common.out_alpha;
  }
  store_as(problem.out_type, y, to);
}

/* Stores an eight of finished rows: of each tile, a lane has samples `sample` and the next, of `row` and the next. `to` is
 * the place of the first. */
__device__ __forceinline__ void store_whole(const walk_arguments &a, const float (&sums)[TILES][4], float factor,
                                            uint8_t *to) {
  const float offset = a.common.problem.epilogue.offset;
#pragma unroll
  for (int i = 0; i < 2; i++, to += a.common.out_row)
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
      *(float2 *)(to + 4 * TILE * tile) = {fmaf(sums[tile][i], factor, offset), fmaf(sums[tile][i + 2], factor, offset)};
}

/* The same at the end of rows: `left` samples from the first on have a place. */
__device__ __forceinline__ void store_end(const walk_arguments &a, const float (&sums)[TILES][4], float factor, uint8_t *to,
                                          int left) {
  const float offset = a.common.problem.epilogue.offset;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
      if (TILE * tile + i / 2 < left)
        ((float *)(to + i % 2 * a.common.out_row))[TILE * tile + i / 2] = fmaf(sums[tile][i], factor, offset);
}

/* The same where some have no place, or need more than a factor and an offset: sample by sample. Not inlined, as what it
 * needs would take registers of everyone. */
__device__ __noinline__ void store_each(const walk_arguments &a, block_place at, int row, int sample, float back,
                                        const float *sums) {
#pragma unroll 1
  for (int i = 0; i < TILES * 4; i++) {
    const int p = row + i % 2, x = sample + i / 4 * TILE + i / 2 % 2;
    if (p >= 0 && p < at.rows && x < a.samples) {
      const float sum = sums[i] * a.unscale * back;
      if (a.plain)
        ((float *)(at.out + (at.out_row + p) * a.common.out_row))[x] =
            fmaf(sum, a.common.problem.epilogue.scale, a.common.problem.epilogue.offset);
      else
        store_sample(a, at, p, x, gconv_finish(gconv_response(sum, a.divisor, a.bias), &a.common.problem.epilogue));
    }
  }
}

/* The warp's outputs from `sample` on in rows `begin` to `end` - 1, by the definition. */
__device__ __noinline__ void redo(const walk_arguments &a, block_place at, int sample, int begin, int end) {
  const gconv_problem &problem = a.common.problem;
  sample += threadIdx.x % LANES;
  const int q = sample / problem.channels, c = sample % problem.channels;
  const float *taps = a.weights + (int64_t)a.filter * problem.rows * problem.columns;
  for (int row = max(begin, 0); row < min(end, at.rows) && sample < a.samples; row++) {
    const int64_t top = (int64_t)at.out_row + row - problem.pad_top, left = (int64_t)q - problem.pad_left;
    float sum = 0;
    for (int r = 0; r < problem.rows; r++)
      for (int s = 0; s < problem.columns; s++)
        sum = fmaf(taps[r * problem.columns + s],
                   sample_at<float>(problem, at.in, a.common.in_row, top + (int64_t)r * problem.dilation_y,
                                    left + (int64_t)s * problem.dilation_x, c),
                   sum);
    store_sample(a, at, row, sample, gconv_finish(gconv_response(sum, a.divisor, a.bias), &problem.epilogue));
  }
}

/* ---- The kernel ---- */

/* In lane `lane`, `steps` steps from number `step` on. */
template <int WARPS>
__device__ __forceinline__ block_place find_place(const walk_arguments &a, uint4 *slots, int lane, int step, int steps) {
  const gconv_problem &problem = a.common.problem;
  const int sheet = lane / a.across, image = sheet / problem.planes, plane = sheet - image * problem.planes;
  block_place at;
  at.in = a.common.in + image * a.common.in_image + plane * a.common.in_plane;
  at.out = a.common.out + image * a.common.out_image + plane * a.common.out_plane;
  at.slots = slots;
  at.offsets = (int32_t *)(slots + SLOTS * ROWS * a.pitch);
  at.first = (lane - sheet * a.across) * (WARPS * SPAN);
  at.out_row = step * ROWS;
  at.rows = min(steps * ROWS, problem.out_height - at.out_row);
  at.in_row = at.out_row - problem.pad_top;
  at.words = words_for(WARPS, a.turns);
  find_patches(a, at);
  at.calm_begin = -at.in_row;
  at.calm_end = problem.height - ROWS - at.in_row;
  return at;
}

/* Whether this thread has a finished sum that is not finite. */
__device__ __forceinline__ bool is_odd(const float (&sums)[TILES][4]) {
  bool odd = false;
#pragma unroll
  for (int i = 0; i < 4 * TILES; i++)
    odd = odd || !(fabsf(sums[i / 4][i % 4]) < INFINITY);
  return odd;
}

/* Walks down a piece of a lane; afterwards shared memory is free. */
template <int GROUPS, int TURNS>
__device__ __forceinline__ void walk_down(const walk_arguments &a, const block_place &at, const uint4 *taps) {
  constexpr int WARPS = warps_of(GROUPS);
  const int turns = TURNS > 0 ? TURNS : a.turns;
  /* These stay in registers: to find them again takes long, and the compiler would. */
  const int warp = __shfl_sync(~0u, threadIdx.x / LANES, 0), lane = __shfl_sync(~0u, threadIdx.x, threadIdx.x) % LANES;
  const own_words<WARPS, TURNS> own(lane, turns);
  const int step_words = ROWS * own.pitch, first = at.first + warp * SPAN;
  float sums[GROUPS + 1][TILES][4] = {};
  float scale = NO_SCALE;                /* of the samples; it only ever shrinks */
  float factor = a.plain ? a.factor : 0; /* from sums to outputs; 0 if that takes more */
  int odd_begin = at.rows, odd_end = 0, odd_until = INT32_MIN, slot = 0;
  int p = -8 * (GROUPS - 2); /* each step finishes the eights of rows from p - 8 and from p on */
  const uint8_t *from = at.in + (int64_t)(at.in_row + 2 * warp) * a.common.in_row +
                        ((int64_t)at.first + a.left + 4 * lane) * 4; /* this thread's first word of a step */
  uint8_t *to =
      at.out + (int64_t)(at.out_row + p - 8 + lane % 4 * 2) * a.common.out_row + (int64_t)(first + lane / 4 * 2) * 4;
  for (int i = 0; i < SLOTS - 1; i++, from += ROWS * a.common.in_row) {
    fetch(a, at, own, warp, at.slots + i * step_words, i * ROWS, from);
    commit_copies();
  }
#pragma unroll 1
  for (; p - 8 < at.rows; p += ROWS, from += ROWS * a.common.in_row, to += ROWS * a.common.out_row) {
    await_copies<SLOTS - 2>();
    __syncthreads();
    if (p + (SLOTS - 1) * ROWS - 8 < at.rows)
      fetch(a, at, own, warp, at.slots + (slot == 0 ? (SLOTS - 1) * step_words : slot - step_words),
            p + 8 * (GROUPS - 2) + (SLOTS - 1) * ROWS, from);
    commit_copies();
    if (first < a.samples) {
      const uint4 *const tile = at.slots + slot + warp * (SPAN / 4);
      const float4 *const x = (const float4 *)tile + lane / 4 * own.pitch + lane % 4;
      if (scale == NO_SCALE) { /* nothing but zeros until now */
        const float next = suitable_scale((const float *)tile, 4 * own.pitch, SPAN + TILE * (turns - 1));
        if (next > 0 && next < NO_SCALE)
          set_scale(a, next, scale, factor);
      }
      factors f;
      bool fits = lay_rows<TURNS>(turns, own.pitch, taps + lane, x, scale, f);
      if (!fits) {
        const float next = suitable_scale((const float *)tile, 4 * own.pitch, SPAN + TILE * (turns - 1)),
                    less = next / scale;
        if (next > 0 && next < scale) {
#pragma unroll
          for (int i = 0; i < (GROUPS + 1) * TILES * 4; i++)
            sums[i / TILES / 4][i / 4 % TILES][i % 4] *= less;
          set_scale(a, next, scale, factor);
          fits = lay_rows<TURNS>(turns, own.pitch, taps + lane, x, scale, f);
        }
        if (!fits) { /* a sample is not finite: all sums that this step adds to are lost */
          lose(f);
          odd_until = p + 8 * GROUPS;
        }
      }
      lay_columns<GROUPS>(taps + 2 * turns * LANES + lane, f, sums);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int eight = p - 8 + 8 * i;
        uint8_t *const there = to + 8 * i * a.common.out_row;
        if (factor != 0 && eight >= 0 && eight + 8 <= at.rows) {
          if (first + SPAN <= a.samples)
            store_whole(a, sums[GROUPS - i], factor, there);
          else
            store_end(a, sums[GROUPS - i], factor, there, a.samples - (first + lane / 4 * 2));
        } else if (eight + 8 > 0 && eight < at.rows) {
          float copies[TILES * 4];
#pragma unroll
          for (int j = 0; j < TILES * 4; j++)
            copies[j] = sums[GROUPS - i][j / 4][j % 4];
          store_each(a, at, eight + lane % 4 * 2, first + lane / 4 * 2, 1.0f / scale, copies);
        }
      }
      if (p - 8 < odd_until && __any_sync(~0u, is_odd(sums[GROUPS]) || is_odd(sums[GROUPS - 1]))) {
        odd_begin = min(odd_begin, p - 8);
        odd_end = p + 8;
      }
    }
    slot = slot == (SLOTS - 1) * step_words ? 0 : slot + step_words;
  }
  await_copies<0>();
  __syncwarp(); /* other lanes have stored where redo() does */
  redo(a, at, first, odd_begin, odd_end);
  __syncthreads();
}

/* Blocks 0 to a.rounds * a.lanes - 1 have a piece of a lane each, all of them as long, so that neighbours read rows side by
 * side at about the same time. What is left of the lanes is shared equally by the others, where each lane counts `lead`
 * steps more than there are. TURNS: 0 if they are not known here. */
template <int GROUPS, int TURNS>
__global__ void __launch_bounds__(warps_of(GROUPS) * LANES, BLOCKS) convolve(const __grid_constant__ walk_arguments a) {
  constexpr int WARPS = warps_of(GROUPS);
  extern __shared__ uint4 memory[];
  const int fragment_words = (2 * (TURNS > 0 ? TURNS : a.turns) + GROUPS + 1) * LANES;
  for (int i = threadIdx.x; i < fragment_words; i += WARPS * LANES)
    memory[i] = a.fragments[i];
  const int round = (int)(blockIdx.x / a.lanes), top = min(min(round, a.rounds) * a.piece, a.steps);
  const bool alone = round < a.rounds;
  const int bottom = alone ? min(top + a.piece, a.steps) : a.steps, length = bottom - top + a.lead;
  const int64_t all = (int64_t)a.lanes * length, pieces = (int64_t)a.rounds * a.lanes, share = blockIdx.x - pieces;
  int64_t place = alone ? (int64_t)(blockIdx.x - round * a.lanes) * length : all * share / (gridDim.x - pieces);
  const int64_t end = alone ? place + length : all * (share + 1) / (gridDim.x - pieces);
#pragma unroll 1
  while (place < end) {
    const int lane = (int)(place / length), skipped = (int)(place - (int64_t)lane * length);
    const int begin = top + max(skipped - a.lead, 0), stop = (int)min((int64_t)bottom, top + end - place + skipped - a.lead);
    if (begin < stop)
      walk_down<GROUPS, TURNS>(a, find_place<WARPS>(a, memory + fragment_words, lane, begin, stop - begin), memory);
    place += length - skipped;
  }
}

} // namespace walk
} // namespace

#endif

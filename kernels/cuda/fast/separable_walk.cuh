/* SPDX-License-Identifier: MIT */
/*
 * separable, floats and one filter of rank 1 that spans at most 65 rows: first along the rows, then down the columns, on
 * tensor cores.
 *
 *     input rows            a block: 256 samples of a row (128 from 34 rows on), 32 for each of its warps, and 16 rows
 *   +-----+-----+-----+     in each step
 *   | 0 0 | 1 1 | 2 2 | 16 rows
 *   +-----+-----+-----+            first product: 16 samples by 8 rows times the filter's row, Y^T = T * X^T. T has the
 *      |     |     |               filter's row on its diagonals. It is 16 by the number of samples needed.
 *      v     v     v               second product: Y times the matrix of the filter's column. Y^T is already where this
 *   +-----+-----+-----+            product wants its left factor. The result is added to the sums of the GROUPS + 1 groups
 *   | 0 0 | 1 1 | 2 2 |            of 8 output rows that 16 input rows reach.
 *   +-----+-----+-----+
 *
 * After each step, two groups of 8 output rows are finished. The others move up: they are written to other registers than
 * they were read from.
 *
 * A number is two float16, and samples have a scale, as in separable_tensor.cuh. Each warp has its own scale; when it
 * changes, the sums are rescaled, too. If a scale is too large, an infinity appears in Y. The block copies input rows to
 * shared memory two steps ahead, with the halo that the filter needs beside them, borders included. The taps of interleaved
 * channels are that many samples apart; apart from that, only the ends of rows have to know of channels.
 *
 * To 17 rows, memory is the bound. There blocks process low pieces, and the device starts a block when another ends. Above
 * that, there are as many blocks as the device holds. They process equal shares of the image, so that all end at the same
 * time. Therefore blocks at the edges must be as fast as others.
 *
 * If a sample is not finite, sums that are not finite are computed again by the definition, because 0 * infinity must not
 * appear where the filter does not reach.
 *
 * Speed: for a sample, tensor cores do 3 * (16 * TURNS + 8 * (GROUPS + 1)) multiply-adds, 288 for 31 x 31. There are some 25
 * other instructions.
 */
#pragma once

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
constexpr float NO_SCALE = 0x1p127f; /* the scale while all samples are 0: larger than all that scale_for() returns */

/* The warps of a block, side by side; and the blocks of a multiprocessor, for which the compiler limits registers. */
__host__ __device__ constexpr int warps_of(int groups) {
  return groups > 5 ? 4 : 8;
}
constexpr int BLOCKS = 2;

struct walk_arguments : arguments {
  const float *weights;   /* of the plan */
  const uint4 *fragments; /* of this filter, as write_filter() makes them */
  int32_t filter;
  int32_t turns;                /* products of 16 samples for an output, along the row */
  int32_t pitch;                /* of a row in shared memory, in words of 4 samples */
  int32_t left;                 /* from a block's first output to its first input sample: a multiple of 4 */
  int32_t reach;                /* samples of an input row that outputs need, counted from sample 0 */
  int32_t samples;              /* of an output row */
  int32_t across, lanes;        /* lanes side by side; lanes of all planes of all images */
  int32_t steps, lead;          /* of a lane: steps of ROWS output rows; steps that it takes to begin */
  int32_t rounds, piece;        /* pieces of each lane that whole blocks process, and steps of a piece; the rest is shared */
  float unscale, divisor, bias; /* unscale: factor from sums to responses */
  float factor;                 /* plain: factor from sums to output samples, without the offset */
  bool plain;                   /* the epilogue is only scale and offset, and outputs are floats in rows of aligned pairs */
};

/* The place of a block in a piece of a lane. Rows are counted from the first row of the piece. */
struct block_place {
  const uint8_t *in; /* the planes, from row 0 on */
  uint8_t *out;
  uint4 *slots;                     /* in shared memory */
  int32_t *offsets;                 /* of patches in an input row, in bytes; -1: outside */
  int32_t first;                    /* first output sample of the block */
  int32_t in_row, out_row;          /* numbers of the first input row and output row */
  int32_t inside_begin, inside_end; /* steps that begin between these rows have all of their rows inside the image */
  int32_t rows;                     /* output rows */
  int32_t words;                    /* words of 4 samples of an input row that the block needs */
  int32_t inner, outer;             /* words inner .. outer - 1 lie wholly inside the row */
  int32_t patches;                  /* samples of the other words */
  bool live;                        /* some patches come from the row; otherwise all have the level of the border */
};

/* ---- Input ---- */

/* Returns the number of patch i among the samples of a row. */
DEVICE int patch_place(const block_place &at, int i) {
  return i < 4 * at.inner ? i : i + 4 * (at.outer - at.inner);
}

/* Finds which words lie inside the row, and where the samples of the other words come from. Samples that have the level of
 * the border are written to shared memory here, and stay there. */
DEVICE void find_patches(const walk_arguments &a, block_place &at) {
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, first = at.first + a.left;
  const int before = min(max(-first, 0), 4 * at.words);
  at.inner = (before + 3) / 4;
  at.outer = min(max((problem.width * C - first) >> 2, at.inner), at.words);
  at.patches = 4 * (at.words - at.outer + at.inner);
  bool live = false;
  ROLLED_FOR (int i = threadIdx.x; i < at.patches; i += blockDim.x) {
    const int sample = first + patch_place(at, i);
    const int inside = sample < a.reach ? sample_in_row(problem, sample) : GCONV_OUTSIDE;
    live = live || inside != GCONV_OUTSIDE;
    at.offsets[i] = inside == GCONV_OUTSIDE ? -1 : 4 * inside;
    for (int row = 0; inside == GCONV_OUTSIDE && row < SLOTS * ROWS; row++)
      ((float *)(at.slots + row * a.pitch))[patch_place(at, i)] = problem.border_level;
  }
  at.live = __syncthreads_or(live);
}

/* The words of an input row that a block needs. It is also the pitch in shared memory: the number is such that lanes of two
 * rows use different banks. */
__host__ __device__ constexpr int words_for(int warps, int turns) {
  return (warps * SPAN + TILE * (turns - 1)) / 4;
}
__host__ __device__ constexpr int pitch_for(int warps, int turns) {
  return (words_for(warps, turns) + 3) / 8 * 8 + 4;
}

/* The words of a step that a thread copies: words `lane` + i of every two rows of its warp, one behind the other. TURNS is 0
 * if the number is not known at compile time. */
template <int WARPS, int TURNS> struct own_words {
  int lane, words, pitch;

  DEVICE own_words(int the_lane, int turns)
      : lane(the_lane), words(words_for(WARPS, TURNS > 0 ? TURNS : turns)),
        pitch(pitch_for(WARPS, TURNS > 0 ? TURNS : turns)) {}

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

/* Returns the input row for row `y`, or NULL if it has the level of the border. */
DEVICE const uint8_t *source_row(const walk_arguments &a, const block_place &at, int y) {
  const gconv_problem &problem = a.problem;
  const int64_t source = (unsigned)y < (unsigned)problem.height ? y : gconv_border_index(problem.border, y, problem.height);
  return source == GCONV_OUTSIDE ? NULL : at.in + source * a.in_row;
}

/* Starts to copy the patches of a row of the warp, and those of its next row. `from` is the input row. */
DEVICE void fetch_patches(const walk_arguments &a, const block_place &at, int lane, uint4 *row, const uint8_t *from) {
  ROLLED_FOR (int i = lane; i < at.patches; i += LANES) {
    const int offset = at.offsets[i];
    if (offset >= 0) {
      float *to = (float *)row + patch_place(at, i);
      copy_async<4>(to, from + offset);
      copy_async<4>(to + 4 * a.pitch, from + a.in_row + offset);
    }
  }
}

/* Starts to copy the thread's words of a step from row `first_row` on, if some rows lie outside. This must be fast, because
 * in the end all other blocks wait for those at the edges. */
template <int WARPS>
__device__ __noinline__ void fetch_edge(const walk_arguments &a, block_place at, uint4 *slot, int first_row) {
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const float level = a.problem.border_level;
  ROLLED_FOR (int i = 0; i < 2 * ROWS / (2 * WARPS); i++) {
    const int row = i / 2 * 2 * WARPS + 2 * warp + i % 2;
    const uint8_t *from = source_row(a, at, at.in_row + first_row + row);
    uint4 *to = slot + row * a.pitch;
    ROLLED_FOR (int word = lane; word < at.words; word += LANES)
      if (!from)
        *(float4 *)(to + word) = make_float4(level, level, level, level);
      else if (word >= at.inner && word < at.outer)
        copy_async<16>(to + word, from + ((int64_t)at.first + a.left + 4 * word) * 4);
    ROLLED_FOR (int i = lane; i < at.patches; i += LANES) {
      float *sample = (float *)to + patch_place(at, i);
      if (!from || at.offsets[i] < 0)
        *sample = level;
      else
        copy_async<4>(sample, from + at.offsets[i]);
    }
  }
}

/* Starts to copy the input rows of a step from `first_row` on. `from` is the thread's first word. */
template <int WARPS, int TURNS>
DEVICE void fetch(const walk_arguments &a, const block_place &at, const own_words<WARPS, TURNS> &own, int warp, uint4 *slot,
                  int first_row, const uint8_t *from) {
  uint4 *to = slot + 2 * warp * own.pitch + own.lane;
  if (first_row < at.inside_begin || first_row > at.inside_end) {
    fetch_edge<WARPS>(a, at, slot, first_row);
  } else {
    UNROLLED_FOR (int row = 0; row < ROWS; row += 2 * WARPS, from += 2 * WARPS * a.in_row) {
      const uint8_t *from_second = from + a.in_row - own.words * 16;
      if (at.patches == 0) {
#pragma unroll(TURNS > 0 ? 8 : 1)
        for (int i = 0; i < 2 * own.words; i += LANES)
          if (own.has(i))
            copy_async<16>(to + own.offset(row, i), (own.is_second(i) ? from_second : from) + i * 16);
      } else { /* this must be fast, because in the end all other blocks wait for those at the edges */
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

/* Y as the left factor of the second product: high parts, then low parts. */
struct factors {
  uint32_t h[TILES][4], l[TILES][4];
};

/* Returns whether one of two magnitudes is infinite or NaN. */
DEVICE bool is_infinite(uint32_t pair) {
  return max(pair & 0xffff, pair >> 16) >= 0x7c00;
}

/* Computes Y^T: the responses of 16 rows to the filter's row. `x` points to the lane's first four samples. Returns false,
 * for the whole warp, if a number is too large for float16. */
template <int TURNS>
DEVICE bool make_rows(int turns, int pitch, const uint4 *taps, const float4 *x, float scale, factors &f) {
  float y[2][TILES][4] = {}; /* groups of 8 rows by tiles */
#pragma unroll(TURNS > 0 ? TURNS + TILES : 1)
  for (int s = 0; s < turns + TILES - 1; s++) {
    uint4 parts[2]; /* of samples: high, then low */
    UNROLLED_FOR (int i = 0; i < 2; i++) {
      const float4 four = x[8 * i * pitch + 4 * s];
      split(scale * four.x, scale * four.y, parts[i].x, parts[i].z);
      split(scale * four.z, scale * four.w, parts[i].y, parts[i].w);
    }
    UNROLLED_FOR (int tile = 0; tile < TILES; tile++)
      if (s >= tile && s < turns + tile) {
        const uint4 h = taps[2 * LANES * (s - tile)], l = taps[2 * LANES * (s - tile) + LANES]; /* of T */
        UNROLLED_FOR (int i = 0; i < 2; i++)
          multiply(y[i][tile], h.x, h.y, h.z, h.w, parts[i].x, parts[i].y);
        UNROLLED_FOR (int i = 0; i < 2; i++)
          multiply(y[i][tile], h.x, h.y, h.z, h.w, parts[i].z, parts[i].w);
        UNROLLED_FOR (int i = 0; i < 2; i++)
          multiply(y[i][tile], l.x, l.y, l.z, l.w, parts[i].x, parts[i].y);
      }
  }
  uint32_t most = 0;
  UNROLLED_FOR (int tile = 0; tile < TILES; tile++)
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      split(y[i / 2][tile][i % 2 * 2], y[i / 2][tile][i % 2 * 2 + 1], f.h[tile][i], f.l[tile][i]);
      most = larger_pair(most, f.h[tile][i]);
    }
  return !__any_sync(~0u, is_infinite(most));
}

/* Replaces the factors by NaN. */
DEVICE void lose(factors &f) {
  UNROLLED_FOR (int i = 0; i < TILES * 4; i++)
    f.h[i / 4][i % 4] = 0x7fff7fff;
}

/* Adds the products of 16 rows of Y to the sums of the GROUPS + 1 groups of 8 output rows that they reach. Before, sums were
 * two groups further on. The last two groups are finished by this. */
template <int GROUPS> DEVICE void add_columns(const uint4 *taps, const factors &f, float (&sums)[GROUPS + 1][TILES][4]) {
  UNROLLED_FOR (int e = GROUPS; e >= 0; e--) {
    const uint4 b = taps[e * LANES];
    UNROLLED_FOR (int tile = 0; tile < TILES; tile++) {
      UNROLLED_FOR (int i = 0; i < 4; i++)
        sums[e][tile][i] = e >= 2 ? sums[e >= 2 ? e - 2 : 0][tile][i] : 0.0f;
      multiply(sums[e][tile], f.h[tile][0], f.h[tile][1], f.h[tile][2], f.h[tile][3], b.x, b.y);
      multiply(sums[e][tile], f.l[tile][0], f.l[tile][1], f.l[tile][2], f.l[tile][3], b.x, b.y);
      multiply(sums[e][tile], f.h[tile][0], f.h[tile][1], f.h[tile][2], f.h[tile][3], b.z, b.w);
    }
  }
}

/* Returns the largest number of all lanes. */
DEVICE uint32_t largest_of_warp(uint32_t x) {
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    x = max(x, __shfl_xor_sync(~0u, x, distance));
  return x;
}

/* Returns the scale, a power of two, for the samples that a warp uses in a step, `width` of each row. NO_SCALE if all are 0,
 * 0 if one is not finite. */
__device__ __noinline__ float suitable_scale(const float *samples, int row_floats, int width) {
  float most = 0;
  for (int i = threadIdx.x % LANES; i < width; i += LANES)
    for (int row = 0; row < ROWS; row++)
      most = larger_magnitude(most, samples[row * row_floats + i]);
  const uint32_t largest = largest_of_warp(__float_as_uint(most) & 0x7fffffffu);
  return largest == 0 ? NO_SCALE : scale_for(largest);
}

/* Sets a new scale, and the factor from sums to outputs with this scale. The factor is 0 if one multiplication is not
 * enough. */
DEVICE void set_scale(const walk_arguments &a, float next, float &scale, float &factor) {
  const float both = a.factor / next;
  scale = next;
  factor = a.plain && fabsf(both) > 0x1p-100f && fabsf(both) < 0x1p100f ? both : 0;
}

/* ---- Output ---- */

/* Stores one value at any place. */
DEVICE void store_sample(const walk_arguments &a, const block_place &at, int row, int sample, float y) {
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, q = sample / C, c = sample - q * C, p = at.out_row + row;
  uint8_t *pixel = at.out + p * a.out_row + q * a.out_pixel, *to = pixel + c * a.out_channel;
  if (problem.keep_alpha && c == C - 1) {
    if (a.filter > 0 && problem.epilogue.combine == GCONV_COMBINE_STACK)
      return; /* alpha is stored once, with the first filter */
    y = kept_alpha<float>(problem, at.in, a.in_row, p, q);
    to = pixel + a.out_alpha;
  }
  store_as(problem.out_type, y, to);
}

/* Stores 8 finished rows. For each tile, a lane has samples `sample` and `sample` + 1 of rows `row` and `row` + 1. `to` is
 * the place of the first. */
DEVICE void store_whole(const walk_arguments &a, const float (&sums)[TILES][4], float factor, uint8_t *to) {
  const float offset = a.problem.epilogue.offset;
  UNROLLED_FOR (int i = 0; i < 2; i++, to += a.out_row)
    UNROLLED_FOR (int tile = 0; tile < TILES; tile++)
      *(float2 *)(to + 4 * TILE * tile) = {fmaf(sums[tile][i], factor, offset), fmaf(sums[tile][i + 2], factor, offset)};
}

/* The same at the end of rows. Only `left` samples, from the first on, are inside the output. */
DEVICE void store_end(const walk_arguments &a, const float (&sums)[TILES][4], float factor, uint8_t *to, int left) {
  const float offset = a.problem.epilogue.offset;
  UNROLLED_FOR (int i = 0; i < 4; i++)
    UNROLLED_FOR (int tile = 0; tile < TILES; tile++)
      if (TILE * tile + i / 2 < left)
        ((float *)(to + i % 2 * a.out_row))[TILE * tile + i / 2] = fmaf(sums[tile][i], factor, offset);
}

/* The same, sample by sample: if some are outside the output, or need more than a factor and an offset. Not inlined, because
 * its registers would be taken from the whole kernel. */
__device__ __noinline__ void store_each(const walk_arguments &a, block_place at, int row, int sample, float back,
                                        const float *sums) {
  ROLLED_FOR (int i = 0; i < TILES * 4; i++) {
    const int p = row + i % 2, x = sample + i / 4 * TILE + i / 2 % 2;
    if (p >= 0 && p < at.rows && x < a.samples) {
      const float sum = sums[i] * a.unscale * back;
      if (a.plain)
        ((float *)(at.out + (at.out_row + p) * a.out_row))[x] =
            fmaf(sum, a.problem.epilogue.scale, a.problem.epilogue.offset);
      else
        store_sample(a, at, p, x, gconv_finish(gconv_response(sum, a.divisor, a.bias), &a.problem.epilogue));
    }
  }
}

/* Computes the warp's outputs from `sample` on, in rows `begin` to `end` - 1, by the definition. */
__device__ __noinline__ void redo(const walk_arguments &a, block_place at, int sample, int begin, int end) {
  const gconv_problem &problem = a.problem;
  sample += threadIdx.x % LANES;
  const int q = sample / problem.channels, c = sample % problem.channels;
  for (int row = max(begin, 0); row < min(end, at.rows) && sample < a.samples; row++) {
    const int64_t top = (int64_t)at.out_row + row - problem.pad_top, left = (int64_t)q - problem.pad_left;
    const float sum = defined_sum(a, a.weights, a.filter, at.in, top, left, c);
    store_sample(a, at, row, sample, gconv_finish(gconv_response(sum, a.divisor, a.bias), &problem.epilogue));
  }
}

/* ---- The kernel ---- */

/* Finds the place of a block in lane `lane`, for `steps` steps from number `step` on. */
template <int WARPS> DEVICE block_place find_place(const walk_arguments &a, uint4 *slots, int lane, int step, int steps) {
  const gconv_problem &problem = a.problem;
  const int sheet = lane / a.across;
  const plane_rows plane = plane_of(a, sheet);
  block_place at;
  at.in = plane.in;
  at.out = plane.out;
  at.slots = slots;
  at.offsets = (int32_t *)(slots + SLOTS * ROWS * a.pitch);
  at.first = (lane - sheet * a.across) * (WARPS * SPAN);
  at.out_row = step * ROWS;
  at.rows = min(steps * ROWS, problem.out_height - at.out_row);
  at.in_row = at.out_row - problem.pad_top;
  at.words = words_for(WARPS, a.turns);
  find_patches(a, at);
  at.inside_begin = -at.in_row;
  at.inside_end = problem.height - ROWS - at.in_row;
  return at;
}

/* Returns whether this thread has a finished sum that is not a finite number. */
DEVICE bool is_odd(const float (&sums)[TILES][4]) {
  bool odd = false;
  UNROLLED_FOR (int i = 0; i < 4 * TILES; i++)
    odd = odd || !(fabsf(sums[i / 4][i % 4]) < INFINITY);
  return odd;
}

/* Makes the factors of a step from its samples, at `tile`. If these need a smaller scale, what was summed up before is
 * brought to it. Returns false if a sample is not finite: all sums that the step adds to are lost. */
template <int TURNS, int N>
DEVICE bool find_factors(const walk_arguments &a, int turns, int pitch, int lane, const uint4 *taps, const uint4 *tile,
                         float &scale, float &factor, float (&sums)[N][TILES][4], factors &f) {
  const float4 *const x = (const float4 *)tile + lane / 4 * pitch + lane % 4;
  const auto next_scale = [&] { return suitable_scale((const float *)tile, 4 * pitch, SPAN + TILE * (turns - 1)); };
  if (scale == NO_SCALE) { /* all samples were 0 until now */
    const float next = next_scale();
    if (next > 0 && next < NO_SCALE)
      set_scale(a, next, scale, factor);
  }
  if (make_rows<TURNS>(turns, pitch, taps + lane, x, scale, f))
    return true;
  const float next = next_scale(), less = next / scale;
  if (next > 0 && next < scale) {
    UNROLLED_FOR (int i = 0; i < N * TILES * 4; i++)
      sums[i / TILES / 4][i / 4 % TILES][i % 4] *= less;
    set_scale(a, next, scale, factor);
    if (make_rows<TURNS>(turns, pitch, taps + lane, x, scale, f))
      return true;
  }
  lose(f);
  return false;
}

/* Stores the 16 rows that a step has finished, from row p - 8 of the piece on, from sample `first` on. `to` is the place of
 * this lane's first sample. */
template <int N>
DEVICE void store_step(const walk_arguments &a, const block_place &at, const float (&sums)[N][TILES][4], float scale,
                       float factor, int p, int first, int lane, uint8_t *to) {
  UNROLLED_FOR (int i = 0; i < 2; i++) {
    const int eight = p - 8 + 8 * i;
    uint8_t *const there = to + 8 * i * a.out_row;
    if (factor != 0 && eight >= 0 && eight + 8 <= at.rows) {
      if (first + SPAN <= a.samples)
        store_whole(a, sums[N - 1 - i], factor, there);
      else
        store_end(a, sums[N - 1 - i], factor, there, a.samples - (first + lane / 4 * 2));
    } else if (eight + 8 > 0 && eight < at.rows) {
      float copies[TILES * 4];
      UNROLLED_FOR (int j = 0; j < TILES * 4; j++)
        copies[j] = sums[N - 1 - i][j / 4][j % 4];
      store_each(a, at, eight + lane % 4 * 2, first + lane / 4 * 2, 1.0f / scale, copies);
    }
  }
}

/* Processes a piece of a lane from top to bottom. Afterwards shared memory may be used again. */
template <int GROUPS, int TURNS> DEVICE void walk_down(const walk_arguments &a, const block_place &at, const uint4 *taps) {
  constexpr int WARPS = warps_of(GROUPS);
  const int turns = TURNS > 0 ? TURNS : a.turns;
  /* These are kept in registers by a shuffle. Otherwise the compiler computes them again and again, which takes long. */
  const int warp = __shfl_sync(~0u, threadIdx.x / LANES, 0), lane = __shfl_sync(~0u, threadIdx.x, threadIdx.x) % LANES;
  const own_words<WARPS, TURNS> own(lane, turns);
  const int step_words = ROWS * own.pitch, first = at.first + warp * SPAN;
  float sums[GROUPS + 1][TILES][4] = {};
  float scale = NO_SCALE;                /* the scale of the samples; it only becomes smaller */
  float factor = a.plain ? a.factor : 0; /* from sums to outputs; 0 if one factor is not enough */
  int odd_begin = at.rows, odd_end = 0, odd_until = INT32_MIN, slot = 0;
  int p = -8 * (GROUPS - 2); /* each step finishes the groups of 8 rows that begin at p - 8 and at p */
  const uint8_t *from = at.in + (int64_t)(at.in_row + 2 * warp) * a.in_row +
                        ((int64_t)at.first + a.left + 4 * lane) * 4; /* this thread's first word of a step */
  uint8_t *to = at.out + (int64_t)(at.out_row + p - 8 + lane % 4 * 2) * a.out_row + (int64_t)(first + lane / 4 * 2) * 4;
  for (int i = 0; i < SLOTS - 1; i++, from += ROWS * a.in_row) {
    fetch(a, at, own, warp, at.slots + i * step_words, i * ROWS, from);
    commit_copies();
  }
  ROLLED_FOR (; p - 8 < at.rows; p += ROWS, from += ROWS * a.in_row, to += ROWS * a.out_row) {
    await_copies<SLOTS - 2>();
    __syncthreads();
    if (p + (SLOTS - 1) * ROWS - 8 < at.rows)
      fetch(a, at, own, warp, at.slots + (slot == 0 ? (SLOTS - 1) * step_words : slot - step_words),
            p + 8 * (GROUPS - 2) + (SLOTS - 1) * ROWS, from);
    commit_copies();
    if (first < a.samples) {
      const uint4 *const tile = at.slots + slot + warp * (SPAN / 4);
      factors f;
      if (!find_factors<TURNS>(a, turns, own.pitch, lane, taps, tile, scale, factor, sums, f))
        odd_until = p + 8 * GROUPS;
      add_columns<GROUPS>(taps + 2 * turns * LANES + lane, f, sums);
      store_step(a, at, sums, scale, factor, p, first, lane, to);
      if (p - 8 < odd_until && __any_sync(~0u, is_odd(sums[GROUPS]) || is_odd(sums[GROUPS - 1]))) {
        odd_begin = min(odd_begin, p - 8);
        odd_end = p + 8;
      }
    }
    slot = slot == (SLOTS - 1) * step_words ? 0 : slot + step_words;
  }
  await_copies<0>();
  __syncwarp(); /* other lanes have stored values that redo() replaces */
  redo(a, at, first, odd_begin, odd_end);
  __syncthreads();
}

/* Blocks 0 .. a.rounds * a.lanes - 1 have one piece of a lane each, all of equal length, so that neighbours read rows side
 * by side at about the same time. The other blocks share the rest equally; in this, each lane counts `lead` more steps than
 * it has. TURNS is 0 if the number is not known at compile time. */
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

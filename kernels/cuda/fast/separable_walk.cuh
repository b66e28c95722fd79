/* SPDX-License-Identifier: MIT */
/*
 * separable, downwards: for f32 and one filter of rank 0 or 1, of at most 65 rows and some 257 samples of a row
 * (walk::takes()). The kernel filters along the rows, then down the columns, on tensor cores.
 *
 *     input rows            A block: 256 samples of a row (128 from 34 rows on), 32 for each of its warps, and 16 rows in
 *   +-----+-----+-----+     each step. A warp has two chunks of 16 samples; in the picture they have its number.
 *   | 0 0 | 1 1 | 2 2 | 16 rows
 *   +-----+-----+-----+     First product: Y^T = T * X^T, 16 samples by 8 rows. T has the filter's row on its diagonals. It
 *      |     |     |        is 16 by CHUNKS chunks of input samples, a chunk for each instruction.
 *      v     v     v        Second product: Y^T times the matrix of the filter's column. Y^T, split, is already where this
 *   +-----+-----+-----+     product wants its left factor. The result is added to the sums of the GROUPS + 1 groups of 8
 *   | 0 0 | 1 1 | 2 2 |     output rows that 16 input rows reach.
 *   +-----+-----+-----+
 *
 * After each step, two groups of 8 output rows are finished. The others move up, since they are written to other registers
 * than they were read from.
 *
 * A number is two float16, as in separable_tensor.cuh. Each warp has its own scale of the samples, which it chooses in the
 * first step whose samples are not all 0. If a scale is too large, an infinity appears in Y. Then the warp searches the
 * samples of the step, takes a smaller scale, multiplies its sums by the quotient, and computes Y again. If a sample is not
 * finite, the warp computes its 32 samples by the definition, from the first group of 16 rows with a sum that is not finite
 * to the last such group. Otherwise 0 * infinity would appear where the filter does not reach.
 *
 * The block copies input rows to shared memory two steps ahead, with the halo that the filter needs on both sides, including
 * border pixels. The taps of C interleaved channels are C samples apart; otherwise, channels matter only at the ends of
 * rows.
 *
 * With filters of up to 17 rows, large images are bound by memory. Then blocks process low pieces, and the device starts a
 * block when another ends. Otherwise there are as many blocks as the device holds. They process equal shares of the image,
 * to end at the same time. So blocks at the edges must be as fast as other blocks.
 *
 * Speed: for a sample, tensor cores do 3 * (16 * CHUNKS + 8 * (GROUPS + 1)) multiply-adds, 288 for 31 x 31. Apart from
 * these, a warp takes some 25 instructions for 32 samples.
 */
#pragma once

#include "separable_walk_input.cuh"

namespace {
namespace walk {

/* ---- The two directions ---- */

/* Y^T as the left factor of the second product: high parts, then low parts. */
struct factors {
  uint32_t h[OUTPUTS][4], l[OUTPUTS][4];
};

/* Computes the first product, for 16 rows. `x` points to the lane's first four samples. Returns false, for the whole warp,
 * if a number is too large for float16. */
template <int CHUNKS>
DEVICE bool make_rows(int chunks, int pitch, const uint4 *taps, const float4 *x, float scale, factors &f) {
  float y[2][OUTPUTS][4] = {}; /* groups of 8 rows by chunks */
#pragma unroll(CHUNKS > 0 ? CHUNKS + OUTPUTS : 1)
  for (int s = 0; s < chunks + OUTPUTS - 1; s++) {
    uint4 parts[2]; /* parts of the samples: high parts, then low parts */
    UNROLLED_FOR (int i = 0; i < 2; i++) {
      const float4 four = x[8 * i * pitch + 4 * s];
      split(scale * four.x, scale * four.y, parts[i].x, parts[i].z);
      split(scale * four.z, scale * four.w, parts[i].y, parts[i].w);
    }
    UNROLLED_FOR (int out = 0; out < OUTPUTS; out++)
      if (s >= out && s < chunks + out) {
        const uint4 h = taps[2 * LANES * (s - out)], l = taps[2 * LANES * (s - out) + LANES]; /* high and low parts of T */
        UNROLLED_FOR (int i = 0; i < 2; i++)
          multiply(y[i][out], h.x, h.y, h.z, h.w, parts[i].x, parts[i].y);
        UNROLLED_FOR (int i = 0; i < 2; i++)
          multiply(y[i][out], h.x, h.y, h.z, h.w, parts[i].z, parts[i].w);
        UNROLLED_FOR (int i = 0; i < 2; i++)
          multiply(y[i][out], l.x, l.y, l.z, l.w, parts[i].x, parts[i].y);
      }
  }
  uint32_t most = 0;
  UNROLLED_FOR (int out = 0; out < OUTPUTS; out++)
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      split(y[i / 2][out][i % 2 * 2], y[i / 2][out][i % 2 * 2 + 1], f.h[out][i], f.l[out][i]);
      most = larger_pair(most, f.h[out][i]);
    }
  return !__any_sync(~0u, max(most & 0xffff, most >> 16) >= 0x7c00); /* no number is infinite or NaN */
}

/* Computes the second product. The sums of group e come from group e - 2, since a step goes down two groups. This finishes
 * the last two groups. */
template <int GROUPS> DEVICE void add_columns(const uint4 *taps, const factors &f, float (&sums)[GROUPS + 1][OUTPUTS][4]) {
  UNROLLED_FOR (int e = GROUPS; e >= 0; e--) {
    const uint4 b = taps[e * LANES];
    UNROLLED_FOR (int out = 0; out < OUTPUTS; out++) {
      UNROLLED_FOR (int i = 0; i < 4; i++)
        sums[e][out][i] = e >= 2 ? sums[e >= 2 ? e - 2 : 0][out][i] : 0.0f;
      multiply(sums[e][out], f.h[out][0], f.h[out][1], f.h[out][2], f.h[out][3], b.x, b.y);
      multiply(sums[e][out], f.l[out][0], f.l[out][1], f.l[out][2], f.l[out][3], b.x, b.y);
      multiply(sums[e][out], f.h[out][0], f.h[out][1], f.h[out][2], f.h[out][3], b.z, b.w);
    }
  }
}

/* Returns the scale, a power of two, for the samples that a warp uses in a step, `width` of each row. Returns NO_SCALE if
 * all samples are 0, and 0 if one is not finite. */
__device__ __noinline__ float suitable_scale(const float *samples, int row_floats, int width) {
  float most = 0;
  for (int i = threadIdx.x % LANES; i < width; i += LANES)
    for (int row = 0; row < ROWS; row++)
      most = larger_magnitude(most, samples[row * row_floats + i]);
  uint32_t largest = __float_as_uint(most) & 0x7fffffffu; /* the largest of this lane; the maximum of all lanes follows */
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    largest = max(largest, __shfl_xor_sync(~0u, largest, distance));
  return largest == 0 ? NO_SCALE : scale_for(largest);
}

/* Sets a new scale, and the factor from sums to outputs with this scale. The factor is 0 if one multiplication is not
 * enough, or if it would be near the limits of a float. */
DEVICE void set_scale(const walk_arguments &a, float next, float &scale, float &factor) {
  const float both = a.factor / next;
  scale = next;
  factor = a.plain && fabsf(both) > 0x1p-100f && fabsf(both) < 0x1p100f ? both : 0;
}

/* ---- Output ---- */

/* Turns a sum (without scales) into a sample, and stores it. */
DEVICE void store_sample(const walk_arguments &a, const block_place &at, int row, int sample, float sum) {
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, q = sample / C, c = sample - q * C, p = at.out_row + row;
  uint8_t *to = place_of_sample(a, at.out + p * a.out_row + q * a.out_pixel, c, a.filter == 0);
  const float y = problem.keep_alpha && c == C - 1 ? kept_alpha<float>(problem, at.in, a.in_row, p, q)
                                                   : gconv_finish(gconv_response(sum, a.divisor, a.bias), &problem.epilogue);
  if (to)
    store_as(problem.out_type, y, to);
}

/* Stores 8 finished rows. Of each chunk, a lane has two neighbouring samples of two rows. `to` is the place of the first. */
DEVICE void store_whole(const walk_arguments &a, const float (&sums)[OUTPUTS][4], float factor, uint8_t *to) {
  const float offset = a.problem.epilogue.offset;
  UNROLLED_FOR (int i = 0; i < 2; i++, to += a.out_row)
    UNROLLED_FOR (int out = 0; out < OUTPUTS; out++)
      *(float2 *)(to + 4 * CHUNK * out) = {fmaf(sums[out][i], factor, offset), fmaf(sums[out][i + 2], factor, offset)};
}

/* Stores 8 finished rows at the end of rows. Only `left` samples, from the first on, are inside the output. */
DEVICE void store_end(const walk_arguments &a, const float (&sums)[OUTPUTS][4], float factor, uint8_t *to, int left) {
  const float offset = a.problem.epilogue.offset;
  UNROLLED_FOR (int i = 0; i < 4; i++)
    UNROLLED_FOR (int out = 0; out < OUTPUTS; out++)
      if (CHUNK * out + i / 2 < left)
        ((float *)(to + i % 2 * a.out_row))[CHUNK * out + i / 2] = fmaf(sums[out][i], factor, offset);
}

/* Stores finished sums sample by sample, if some are outside the output, or need more than a factor and an offset. It is not
 * inlined, because it would take registers from the whole kernel. */
__device__ __noinline__ void store_each(const walk_arguments &a, block_place at, int row, int sample, float back,
                                        const float *sums) {
  ROLLED_FOR (int i = 0; i < OUTPUTS * 4; i++) {
    const int p = row + i % 2, x = sample + i / 4 * CHUNK + i / 2 % 2;
    if (p < at.rows && x < a.samples) {
      const float sum = sums[i] * a.unscale * back;
      if (a.plain)
        ((float *)(at.out + (at.out_row + p) * a.out_row))[x] =
            fmaf(sum, a.problem.epilogue.scale, a.problem.epilogue.offset);
      else
        store_sample(a, at, p, x, sum);
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
    store_sample(a, at, row, sample, defined_sum(a, a.weights, a.filter, at.in, top, left, c));
  }
}

/* ---- The kernel ---- */

/* Finds the place of a block in track `track`, for `steps` steps from number `step` on. */
template <int WARPS> DEVICE block_place find_place(const walk_arguments &a, uint4 *slots, int track, int step, int steps) {
  const gconv_problem &problem = a.problem;
  const int sheet = track / a.across;
  const plane_rows plane = plane_of(a, sheet);
  block_place at;
  at.in = plane.in;
  at.out = plane.out;
  at.slots = slots;
  at.offsets = (int32_t *)(slots + SLOTS * ROWS * a.pitch);
  at.first = (track - sheet * a.across) * (WARPS * SPAN);
  at.out_row = step * ROWS;
  at.rows = min(steps * ROWS, problem.out_height - at.out_row);
  at.in_row = at.out_row - problem.pad_top;
  at.words = words_for(WARPS, a.chunks);
  find_singles(a, at);
  at.inside_begin = -at.in_row;
  at.inside_end = problem.height - ROWS - at.in_row;
  return at;
}

/* Returns whether this thread has a finished sum that is not a finite number. */
DEVICE bool any_lost(const float (&sums)[OUTPUTS][4]) {
  bool lost = false;
  UNROLLED_FOR (int i = 0; i < 4 * OUTPUTS; i++)
    lost = lost || !(fabsf(sums[i / 4][i % 4]) < INFINITY);
  return lost;
}

/* Makes the factors of a step from its samples. If the samples need a smaller scale, earlier sums are multiplied to have
 * this scale. Returns false if a sample is not finite: then all sums to which the step adds are lost. */
template <int CHUNKS, int N>
DEVICE bool find_factors(const walk_arguments &a, int chunks, int pitch, int lane, const uint4 *taps, const uint4 *samples,
                         float &scale, float &factor, float (&sums)[N][OUTPUTS][4], factors &f) {
  const float4 *const x = (const float4 *)samples + lane / 4 * pitch + lane % 4;
  const auto next_scale = [&] { return suitable_scale((const float *)samples, 4 * pitch, SPAN + CHUNK * (chunks - 1)); };
  if (scale == NO_SCALE) { /* all samples were 0 until now */
    const float next = next_scale();
    if (next > 0 && next < NO_SCALE)
      set_scale(a, next, scale, factor);
  }
  if (make_rows<CHUNKS>(chunks, pitch, taps + lane, x, scale, f))
    return true;
  const float next = next_scale(), less = next / scale;
  if (next > 0 && next < scale) {
    UNROLLED_FOR (int i = 0; i < N * OUTPUTS * 4; i++)
      sums[i / OUTPUTS / 4][i / 4 % OUTPUTS][i % 4] *= less;
    set_scale(a, next, scale, factor);
    if (make_rows<CHUNKS>(chunks, pitch, taps + lane, x, scale, f))
      return true;
  }
  UNROLLED_FOR (int i = 0; i < OUTPUTS * 4; i++)
    f.h[i / 4][i % 4] = 0x7fff7fff; /* NaN */
  return false;
}

/* Stores the 16 rows that a step has finished, from row p - 8 of the piece on, from sample `first` on. `to` is the place of
 * this lane's first sample. */
template <int N>
DEVICE void store_step(const walk_arguments &a, const block_place &at, const float (&sums)[N][OUTPUTS][4], float scale,
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
      float copies[OUTPUTS * 4];
      UNROLLED_FOR (int j = 0; j < OUTPUTS * 4; j++)
        copies[j] = sums[N - 1 - i][j / 4][j % 4];
      store_each(a, at, eight + lane % 4 * 2, first + lane / 4 * 2, 1.0f / scale, copies);
    }
  }
}

/* Processes a piece of a track from top to bottom. Afterwards shared memory may be used again. */
template <int GROUPS, int CHUNKS> DEVICE void walk_down(const walk_arguments &a, const block_place &at, const uint4 *taps) {
  constexpr int WARPS = warps_of(GROUPS), ABOVE = 8 * (GROUPS - 2), AHEAD = (SLOTS - 1) * ROWS;
  const int chunks = CHUNKS > 0 ? CHUNKS : a.chunks;
  /* Shuffles keep these values in registers. Otherwise the compiler computes them again and again, which takes long. */
  const int warp = __shfl_sync(~0u, threadIdx.x / LANES, 0), lane = __shfl_sync(~0u, threadIdx.x, threadIdx.x) % LANES;
  const own_words<WARPS, CHUNKS> own(lane, chunks);
  const int step_words = ROWS * own.pitch, first = at.first + warp * SPAN;
  float sums[GROUPS + 1][OUTPUTS][4] = {};
  float scale = NO_SCALE; /* the scale of the samples, which only becomes smaller; before it is set, sums are 0 */
  float factor = a.plain ? a.factor : 0; /* from sums to outputs; 0 if one factor is not enough */
  int redo_begin = at.rows, redo_end = 0, lost_until = INT32_MIN, slot = 0;
  int p = -ABOVE; /* a step takes the input rows from p + ABOVE on, and finishes the output rows from p - 8 to p + 7 */
  const uint8_t *from =
      at.in + (int64_t)(at.in_row + 2 * warp) * a.in_row + word_offset(a, at, lane); /* the thread's first word of a step */
  uint8_t *to = at.out + (int64_t)(at.out_row + p - 8 + lane % 4 * 2) * a.out_row + (int64_t)(first + lane / 4 * 2) * 4;
  for (int i = 0; i < SLOTS - 1; i++, from += ROWS * a.in_row) {
    fetch(a, at, own, warp, at.slots + i * step_words, i * ROWS, from);
    commit_copies();
  }
  ROLLED_FOR (; p - 8 < at.rows; p += ROWS, from += ROWS * a.in_row, to += ROWS * a.out_row) {
    await_copies<SLOTS - 2>();
    __syncthreads();
    if (p + AHEAD - 8 < at.rows) /* the step that is fetched exists */
      fetch(a, at, own, warp, at.slots + (slot == 0 ? (SLOTS - 1) * step_words : slot - step_words), p + ABOVE + AHEAD,
            from);
    commit_copies();
    if (first < a.samples) {
      const uint4 *const samples = at.slots + slot + warp * (SPAN / 4);
      factors f;
      if (!find_factors<CHUNKS>(a, chunks, own.pitch, lane, taps, samples, scale, factor, sums, f))
        lost_until = p + 8 * GROUPS;
      add_columns<GROUPS>(taps + 2 * chunks * LANES + lane, f, sums);
      store_step(a, at, sums, scale, factor, p, first, lane, to);
      if (p - 8 < lost_until && __any_sync(~0u, any_lost(sums[GROUPS]) || any_lost(sums[GROUPS - 1]))) {
        redo_begin = min(redo_begin, p - 8);
        redo_end = p + 8;
      }
    }
    slot = slot == (SLOTS - 1) * step_words ? 0 : slot + step_words;
  }
  await_copies<0>();
  __syncwarp(); /* other lanes have stored values that redo() replaces */
  redo(a, at, first, redo_begin, redo_end);
  __syncthreads();
}

/* Returns how many words of shared memory the taps of a filter take, before the samples. */
__host__ __device__ constexpr int fragment_words(int groups, int chunks) {
  return (2 * chunks + groups + 1) * LANES;
}

/* Blocks 0 .. a.rounds * a.tracks - 1 have one piece of a track each, so that neighbours read rows side by side at about the
 * same time. The other blocks share the remaining steps equally, where each track counts `lead` steps more than it has.
 * CHUNKS is 0 if the number is not known at compile time. */
template <int GROUPS, int CHUNKS>
__global__ void __launch_bounds__(warps_of(GROUPS) * LANES, BLOCKS) convolve(const __grid_constant__ walk_arguments a) {
  constexpr int WARPS = warps_of(GROUPS);
  extern __shared__ uint4 memory[];
  const int words = fragment_words(GROUPS, CHUNKS > 0 ? CHUNKS : a.chunks);
  for (int i = threadIdx.x; i < words; i += WARPS * LANES) /* visible after the barrier in find_singles() */
    memory[i] = a.fragments[i];
  const int round = (int)(blockIdx.x / a.tracks), top = min(min(round, a.rounds) * a.piece, a.steps);
  const bool alone = round < a.rounds;
  const int bottom = alone ? min(top + a.piece, a.steps) : a.steps, length = bottom - top + a.lead;
  const int64_t all = (int64_t)a.tracks * length, pieces = (int64_t)a.rounds * a.tracks, share = blockIdx.x - pieces;
  int64_t place = alone ? (int64_t)(blockIdx.x - round * a.tracks) * length : all * share / (gridDim.x - pieces);
  const int64_t end = alone ? place + length : all * (share + 1) / (gridDim.x - pieces);
#pragma unroll 1
  while (place < end) {
    const int track = (int)(place / length), skipped = (int)(place - (int64_t)track * length);
    const int begin = top + max(skipped - a.lead, 0), stop = (int)min((int64_t)bottom, top + end - place + skipped - a.lead);
    if (begin < stop)
      walk_down<GROUPS, CHUNKS>(a, find_place<WARPS>(a, memory + words, track, begin, stop - begin), memory);
    place += length - skipped;
  }
}

} // namespace walk
} // namespace

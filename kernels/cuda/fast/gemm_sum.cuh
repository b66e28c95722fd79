/* SPDX-License-Identifier: MIT */
/* gemm: the work of a block before it stores sums. It finds its tile, stages taps and samples, and multiplies them. */
#pragma once

#include "../core/copies.cuh"
#include "gemm_cut.cuh"

namespace {

/* ---- Places ---- */

/* The place of a tile: the planes of its input and output, its first row, first output within a phase, and first phase. */
struct origin {
  const uint8_t *in;
  uint8_t *out;
  int64_t row, column;
  int32_t phase, filter_tile;
};

/* Divides *count by `by` and returns the remainder. */
DEVICE int64_t take_off(int64_t *count, int64_t by) {
  const int64_t all = *count;
  *count = quotient(all, by);
  return all - *count * by;
}

template <int V> __device__ origin origin_of(const cut &a, int64_t tile) {
  origin at;
  at.filter_tile = (int32_t)take_off(&tile, a.filter_blocks);
  at.phase = (int32_t)take_off(&tile, a.phase_tiles) * a.phases;
  at.column = take_off(&tile, a.column_tiles) * a.groups * V;
  int64_t row = take_off(&tile, a.row_tiles), step = take_off(&row, a.out_step);
  at.row = row * a.out_step * a.rows * a.passes + step;
  const int64_t plane = take_off(&tile, a.problem.planes);
  at.in = a.in + tile * a.in_image + plane * a.in_plane;
  at.out = a.out + tile * a.out_image + plane * a.out_plane;
  return at;
}

/* A thread's place in a tile. Places are numbered so that their number modulo 32 is the bank of shared memory that has their
 * samples. Threads without a place compute the same as the first thread, and store nothing. */
struct thread_place {
  int32_t row, phase, group, filter_warp;
  bool used;
};

__device__ thread_place thread_place_of(const cut &a) {
  const int32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int32_t place = warp / a.filter_warps * 32 + lane;
  thread_place at;
  at.used = place < a.rows * a.phases * a.groups;
  place = at.used ? place : 0;
  at.filter_warp = warp % a.filter_warps;
  at.group = place % a.groups;
  at.phase = place / a.groups % a.phases;
  at.row = place / a.groups / a.phases;
  return at;
}

/* ---- Staging ---- */

/* A chunk of taps: whole rows, or a part of one row. So its taps lie one after the other. */
struct chunk {
  int32_t row, rows, column, columns;
};

__device__ void stage_taps(const cut &a, const chunk &part, int32_t filter_tile, float *to) {
  const gconv_problem &problem = a.problem;
  const int64_t first = ((int64_t)filter_tile * problem.rows + part.row) * problem.columns + part.column;
  const float4 *from = (const float4 *)(a.taps + first * a.tap_pitch);
  const int32_t count = part.rows * part.columns * (a.tap_pitch / 4);
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x)
    copy_async<sizeof(float4)>((float4 *)to + i, from + i);
  commit_copies();
}

/* Returns sample number u of an input row, where u is outside the image. */
template <class In> __device__ __noinline__ float border_sample(const gconv_problem &problem, const In *row, int64_t u) {
  const int64_t c = problem.channels, x = (u >= 0 ? u : u - c + 1) / c; /* division, rounded down */
  const int64_t inside = gconv_border_index(problem.border, x, problem.width);
  return inside == GCONV_OUTSIDE ? problem.border_level : (float)row[inside * c + (u - x * c)];
}

/* One warp stages `count` samples of an input row from number `first` on, in their order. `row` is NULL for a row outside
 * the image. DENSE: no sample is left out between them. Several loads are under way at a time. */
template <class In, int V, bool SLIDING, bool DENSE>
DEVICE void stage_row(const cut &a, const In *row, int64_t first, uint32_t count, float *to) {
  constexpr int AHEAD = DENSE ? 8 : 2;
  const gconv_problem &problem = a.problem;
  const int64_t width = (int64_t)problem.width * problem.channels;
  const uint32_t lane = threadIdx.x % 32, phases = a.in_phases, more = 32 / phases, more_phases = 32 % phases;
  const float level = problem.border_level;
  uint32_t v = lane / phases, phase = lane % phases;
  for (uint32_t start = lane; start < count; start += AHEAD * 32) {
    float x[AHEAD];
    uint32_t place[AHEAD];
    UNROLLED_FOR (int j = 0; j < AHEAD; j++) {
      const uint32_t i = start + j * 32;
      int64_t u = first + i;
      if (!DENSE)
        u = first + v * a.sample_step + phase + phase / problem.channels * a.phase_skip;
      place[j] = phase * a.phase_pitch + (SLIDING ? v % V * a.window_pitch + v / V : v);
      x[j] = level;
      if (i < count && row)
        x[j] = (uint64_t)u < (uint64_t)width ? (float)__ldg(row + u) : border_sample(problem, row, u);
      phase += more_phases;
      v += more + (phase >= phases);
      phase -= phase >= phases ? phases : 0;
    }
    UNROLLED_FOR (int j = 0; j < AHEAD; j++)
      if (start + j * 32 < count)
        to[place[j]] = x[j];
  }
}

/* Stages the input for the taps of a chunk. A warp stages one row at a time. */
template <class In, int V, bool SLIDING>
__device__ void stage_samples(const cut &a, const origin &at, const chunk &part, float *to) {
  const gconv_problem &problem = a.problem;
  const int64_t top = at.row * problem.stride_y - problem.pad_top + (int64_t)part.row * problem.dilation_y;
  const int64_t left = (int64_t)part.column * problem.dilation_x - problem.pad_left;
  const int64_t first = at.column * a.sample_step + at.phase + left * problem.channels;
  const int32_t rows = (a.rows * a.passes - 1) * a.row_stride + (part.rows - 1) * a.tap_stride + 1;
  const uint32_t count = (V * a.groups + (part.columns - 1) / a.tap_phases) * a.in_phases;
  for (int32_t i = threadIdx.x / 32; i < rows; i += blockDim.x / 32) {
    const int64_t y = gconv_border_index(problem.border, top + (int64_t)i * a.in_step, problem.height);
    const In *row = y == GCONV_OUTSIDE ? NULL : (const In *)(at.in + y * a.in_row);
    if (a.sample_step == a.in_phases && a.phase_skip == 0)
      stage_row<In, V, SLIDING, true>(a, row, first, count, to + i * a.row_pitch);
    else
      stage_row<In, V, SLIDING, false>(a, row, first, count, to + i * a.row_pitch);
  }
}

/* Stages samples and, unless they are `there` already, taps. Returns when all are loaded. */
template <int V, bool SLIDING>
__device__ void stage(const cut &a, const origin &at, const chunk &part, int32_t filter_tile, bool there, float *taps,
                      float *samples) {
  __syncthreads(); /* no thread still reads what was staged before */
  if (!there)
    stage_taps(a, part, filter_tile, taps);
  BY_TYPE(a.problem.in_type, Type, stage_samples<Type, V, SLIDING>(a, at, part, samples));
  await_copies<0>();
  __syncthreads();
}

/* ---- Multiplying ---- */

/* Loads the F taps of a thread at one position. They are the same for a whole warp, so a load of four is one access. */
template <int F> DEVICE void load_taps(const float *from, float (&taps)[F]) {
  if constexpr (F >= 4) {
    UNROLLED_FOR (int k = 0; k < F; k += 4)
      load_four(from + k, taps + k);
  } else {
    UNROLLED_FOR (int k = 0; k < F; k++)
      taps[k] = from[k];
  }
}

/* Adds a row of `columns` taps, with samples in windows: see the head of gemm.cu. If F is 8, the taps of the next position
 * are loaded ahead. Those loaded after the last position are never used. */
template <int F, int V>
DEVICE void slide_row(const float *taps, int32_t tap_pitch, int32_t columns, const float *samples, int32_t window_pitch,
                      float (&sums)[F][V]) {
  constexpr bool AHEAD = F == 8;
  float window[V], tap[F], next[F];
  UNROLLED_FOR (int v = 0; v < V; v++)
    window[v] = samples[v * window_pitch];
  if (AHEAD)
    load_taps(taps, next);
  for (int32_t s = 0; s < columns; s += V) {
    samples++;
    UNROLLED_FOR (int j = 0; j < V; j++) {
      if (s + j >= columns)
        break;
      if (!AHEAD)
        load_taps(taps, next);
      UNROLLED_FOR (int k = 0; k < F; k++)
        tap[k] = next[k];
      taps += tap_pitch;
      if (AHEAD)
        load_taps(taps, next);
      UNROLLED_FOR (int k = 0; k < F; k++)
        UNROLLED_FOR (int v = 0; v < V; v++)
          sums[k][v] = fmaf(tap[k], window[(v + j) % V], sums[k][v]);
      window[j] = samples[j * window_pitch];
    }
  }
}

/* Adds a row of taps for outputs that share no samples. The outputs of a thread are `groups` samples apart. */
template <int F, int V>
DEVICE void stride_row(const cut &a, const float *taps, int32_t columns, const float *samples, float (&sums)[F][V]) {
  const int32_t groups = a.groups, phase_pitch = a.problem.channels * a.phase_pitch;
  const float *x = samples;
  for (int32_t s = 0, phase = 0; s < columns; s++) {
    float tap[F];
    load_taps(taps, tap);
    taps += a.tap_pitch;
    UNROLLED_FOR (int v = 0; v < V; v++) {
      const float sample = x[v * groups];
      UNROLLED_FOR (int k = 0; k < F; k++)
        sums[k][v] = fmaf(tap[k], sample, sums[k][v]);
    }
    x += phase_pitch;
    if (++phase == a.tap_phases) {
      phase = 0;
      x = ++samples;
    }
  }
}

template <int F, int V, bool SLIDING>
DEVICE void multiply(const cut &a, const thread_place &my, const chunk &part, const float *taps, const float *samples,
                     float (&sums)[F][V]) {
  taps += my.filter_warp * F;
  samples += my.row * a.row_stride * a.row_pitch + my.phase * a.phase_pitch + my.group;
  for (int32_t r = 0; r < part.rows; r++) {
    if (SLIDING)
      slide_row<F, V>(taps, a.tap_pitch, part.columns, samples, a.window_pitch, sums);
    else
      stride_row<F, V>(a, taps, part.columns, samples, sums);
    taps += part.columns * a.tap_pitch;
    samples += a.tap_stride * a.row_pitch;
  }
}

} // namespace

/* SPDX-License-Identifier: MIT */
/*
 * gemm: the product of im2col without its matrix (implicit GEMM).
 *
 * The sums are a product of matrices, K x RS taps by RS x PQ samples, where row (r, s) of the right operand is the input
 * shifted by r rows and s columns. A block makes a tile of that product: F * WK filters by a piece of TY output rows. It
 * copies the input rows that its taps reach into shared memory, once, as floats, with the borders resolved, and never lays
 * out the right operand: a tap reads the same samples at another offset. Each thread holds F x V sums in registers.
 *
 * What makes it fast is that neighbouring outputs, one tap on, meet the samples that their neighbours met before. Samples of
 * a row whose numbers are equal modulo D = dilation * channels are a phase; in it, tap s meets for output v sample v + s. A
 * thread has V neighbouring outputs of a phase, so it needs one new sample for each tap, which takes the place of the oldest
 * in a window of registers:
 *
 *      tap 0   a b c d e f g h        window, V = 8
 *      tap 1   b c d e f g h i        i is loaded over a; the registers are renamed by unrolling, not moved
 *      tap 2   c d e f g h i j
 *
 * So for F = V = 8, a tap costs 64 multiply-adds, one load of a sample and two loads of four taps, which are the same for
 * all threads of a warp. 2 K R S flop a sample, and no
 * more bytes than input and output have. On an H200 64 filters of 7 x 7 reach 35 TFLOP/s, of 31 x 31 41.
 *
 * It wins with several filters (banks of Gabor filters, learned ones); a single small one is faster without staging
 * (direct). With a stride in x above 1, outputs do not share samples so; then V outputs far apart are a thread's, and a tap
 * loads V samples.
 *
 * To let filters have C input channels, repeat the two loops over chunks for each channel: the sums go on.
 *
 * Each sum adds the taps in the order of the definition: the exact family.
 */
#include "common.cuh"

#include <cuda_pipeline_primitives.h>

namespace {

enum : int32_t {
  MOST_WARPS = 8,              /* of a block */
  SHARED_BYTES = 46 * 1024,    /* of a block, without asking for more */
  STAGING_INSTRUCTIONS = 20,   /* for 32 samples */
  STORING_INSTRUCTIONS = 60,   /* for 128 samples */
  STARTING_INSTRUCTIONS = 400, /* of a warp for a tile: waiting for what is staged, above all */
  ENOUGH_TILES = 1024          /* to keep a large GPU busy evenly */
};

/* ---- How a problem is cut ---- */

/* All that a block needs to know. Its tile of outputs has rows x phases x groups places, a group of V outputs each, times
 * F * filter_warps filters; each of its threads takes one place and F filters. */
struct cut {
  arguments common;
  const float *weights;
  const float *taps; /* as prepare() laid them out */

  int64_t tiles; /* planes of all images * row_tiles * column_tiles * phase_tiles * filter_blocks */
  int64_t row_tiles, column_tiles, phase_tiles;
  int32_t filter_tiles, filter_blocks; /* blocks that the tiles of filters are spread over; 1 if responses are combined */
  int32_t filter_warps;                /* warps side by side over filters */
  int32_t rows, phases, groups;        /* of a tile */
  int32_t passes;     /* tiles below each other that a block stages together and makes one after the other */
  int32_t out_step;   /* between the rows of a tile: the dilation, so that they share input rows */
  int32_t out_phases; /* of an output row: D; strided: the channels */

  /* Taps that are staged at a time: some rows, or some columns of one. */
  int32_t chunk_rows, chunk_columns;
  bool one_chunk; /* which has all taps of all filters: staged once by a block */
  /* Staged rows are in_step input rows apart. Row i of the tile meets staged row i * row_stride + r * tap_stride at tap row
   * r of the chunk. */
  int32_t in_step, row_stride, tap_stride;
  /* Staged phases: sample v of phase f is input sample v * sample_step + f + f / channels * phase_skip from the first on.
   * Taps s of the chunk meet phase s % tap_phases (and its channel), from sample s / tap_phases on; tap_phases is 1 unless
   * strided. */
  int64_t sample_step, phase_skip;
  int32_t in_phases, tap_phases;

  /* Shared memory, in floats: taps, tap_pitch for each; samples: rows, phases, and in these V windows, where sample v of a
   * phase is at v % V * window_pitch + v / V (strided: at v); combined values. */
  int32_t tap_pitch, row_pitch, phase_pitch, window_pitch;
  int32_t tap_floats, sample_floats, value_floats;

  /* Storing: floats that the places of a tile take where sums are exchanged, which is behind the samples, or over them if
   * they are not needed any more; 2^32 / (V * phases), rounded up; whether outputs can be stored four samples at a time, and
   * are made of sums by scale and offset alone. */
  int32_t exchange_pitch, exchange_at;
  uint32_t group_inverse;
  bool fours, plain;
};

/* Where a tile is: the planes of its input and output, its first row, output of a phase, and phase. */
struct origin {
  const uint8_t *in;
  uint8_t *out;
  int64_t row, column;
  int32_t phase, filter_tile;
};

/* Divides *count by `by` and returns the remainder; in 32 bits where these suffice, which is several times as fast. */
__device__ __forceinline__ int64_t take_off(int64_t *count, int64_t by) {
  const int64_t all = *count;
  *count = ((all | by) >> 32) == 0 ? (int64_t)((uint32_t)all / (uint32_t)by) : all / by;
  return all - *count * by;
}

template <int V> __device__ origin origin_of(const cut &a, int64_t tile) {
  origin at;
  at.filter_tile = (int32_t)take_off(&tile, a.filter_blocks);
  at.phase = (int32_t)take_off(&tile, a.phase_tiles) * a.phases;
  at.column = take_off(&tile, a.column_tiles) * a.groups * V;
  int64_t row = take_off(&tile, a.row_tiles), step = take_off(&row, a.out_step);
  at.row = row * a.out_step * a.rows * a.passes + step;
  const int64_t plane = take_off(&tile, a.common.problem.planes);
  at.in = a.common.in + tile * a.common.in_image + plane * a.common.in_plane;
  at.out = a.common.out + tile * a.common.out_image + plane * a.common.out_plane;
  return at;
}

/* A thread's place in a tile. Places are numbered so that their number modulo 32 is the bank of shared memory in which their
 * samples lie. Threads without a place do as the first one does, and store nothing. */
struct spot {
  int32_t row, phase, group, filter_warp;
  bool used;
};

__device__ spot spot_of(const cut &a) {
  const int32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int32_t place = warp / a.filter_warps * 32 + lane;
  spot at;
  at.used = place < a.rows * a.phases * a.groups;
  place = at.used ? place : 0;
  at.filter_warp = warp % a.filter_warps;
  at.group = place % a.groups;
  at.phase = place / a.groups % a.phases;
  at.row = place / a.groups / a.phases;
  return at;
}

/* ---- Staging ---- */

/* Some taps: those of more than one row only if the rows are whole, so that they lie one behind the other. */
struct chunk {
  int32_t row, rows, column, columns;
};

__device__ void stage_taps(const cut &a, const chunk &part, int32_t filter_tile, float *to) {
  const gconv_problem &problem = a.common.problem;
  const int64_t first = ((int64_t)filter_tile * problem.rows + part.row) * problem.columns + part.column;
  const float4 *from = (const float4 *)(a.taps + first * a.tap_pitch);
  const int32_t count = part.rows * part.columns * (a.tap_pitch / 4);
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x)
    __pipeline_memcpy_async((float4 *)to + i, from + i, sizeof(float4));
  __pipeline_commit();
}

/* Sample number u of an input row, from outside the image. */
template <class In> __device__ __noinline__ float border_sample(const gconv_problem &problem, const In *row, int64_t u) {
  const int64_t c = problem.channels, x = (u >= 0 ? u : u - c + 1) / c; /* rounded down */
  const int64_t inside = gconv_border_index(problem.border, x, problem.width);
  return inside == GCONV_OUTSIDE ? problem.border_level : (float)row[inside * c + (u - x * c)];
}

/* `count` samples of an input row from number `first` on, in the order in which they lie there, by one warp. A row of NULL
 * lies outside. DENSE: none are left out, so that they follow each other. Several loads are under way at a time. */
template <class In, int V, bool SLIDING, bool DENSE>
__device__ __forceinline__ void stage_row(const cut &a, const In *row, int64_t first, uint32_t count, float *to) {
  constexpr int AHEAD = DENSE ? 8 : 2;
  const gconv_problem &problem = a.common.problem;
  const int64_t width = (int64_t)problem.width * problem.channels;
  const uint32_t lane = threadIdx.x % 32, phases = a.in_phases, more = 32 / phases, more_phases = 32 % phases;
  const float level = problem.border_level;
  uint32_t v = lane / phases, phase = lane % phases;
  for (uint32_t start = lane; start < count; start += AHEAD * 32) {
    float x[AHEAD];
    uint32_t place[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
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
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
      if (start + j * 32 < count)
        to[place[j]] = x[j];
  }
}

/* The input that the taps of a chunk meet: a warp a row. */
template <class In, int V, bool SLIDING>
__device__ void stage_samples(const cut &a, const origin &at, const chunk &part, float *to) {
  const gconv_problem &problem = a.common.problem;
  const int64_t top = at.row * problem.stride_y - problem.pad_top + (int64_t)part.row * problem.dilation_y;
  const int64_t left = (int64_t)part.column * problem.dilation_x - problem.pad_left;
  const int64_t first = at.column * a.sample_step + at.phase + left * problem.channels;
  const int32_t rows = (a.rows * a.passes - 1) * a.row_stride + (part.rows - 1) * a.tap_stride + 1;
  const uint32_t count = (V * a.groups + (part.columns - 1) / a.tap_phases) * a.in_phases;
  for (int32_t i = threadIdx.x / 32; i < rows; i += blockDim.x / 32) {
    const int64_t y = gconv_border_index(problem.border, top + (int64_t)i * a.in_step, problem.height);
    const In *row = y == GCONV_OUTSIDE ? NULL : (const In *)(at.in + y * a.common.in_row);
    if (a.sample_step == a.in_phases && a.phase_skip == 0)
      stage_row<In, V, SLIDING, true>(a, row, first, count, to + i * a.row_pitch);
    else
      stage_row<In, V, SLIDING, false>(a, row, first, count, to + i * a.row_pitch);
  }
}

/* Both, the taps unless they are `there`; returns when all are. */
template <int V, bool SLIDING>
__device__ void stage(const cut &a, const origin &at, const chunk &part, int32_t filter_tile, bool there, float *taps,
                      float *samples) {
  __syncthreads(); /* nobody reads what was there before any more */
  if (!there)
    stage_taps(a, part, filter_tile, taps);
  if (a.common.problem.in_type == GCONV_U8)
    stage_samples<uint8_t, V, SLIDING>(a, at, part, samples);
  else if (a.common.problem.in_type == GCONV_U16)
    stage_samples<uint16_t, V, SLIDING>(a, at, part, samples);
  else
    stage_samples<float, V, SLIDING>(a, at, part, samples);
  __pipeline_wait_prior(0);
  __syncthreads();
}

/* ---- Multiplying ---- */

/* The F taps of a thread at one position: the same for a warp, so that a load of four is one access. */
template <int F> __device__ __forceinline__ void load_taps(const float *from, float (&taps)[F]) {
  if constexpr (F >= 4) {
#pragma unroll
    for (int k = 0; k < F; k += 4) {
      const float4 four = *(const float4 *)(from + k);
      taps[k] = four.x, taps[k + 1] = four.y, taps[k + 2] = four.z, taps[k + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int k = 0; k < F; k++)
      taps[k] = from[k];
  }
}

/* A row of `columns` taps over samples in windows: see the head of this file. Where there are registers for it, the taps of
 * the next position are under way (those behind the last are never used). */
template <int F, int V>
__device__ __forceinline__ void slide_row(const float *taps, int32_t tap_pitch, int32_t columns, const float *samples,
                                          int32_t window_pitch, float (&sums)[F][V]) {
  constexpr bool AHEAD = F == 8;
  float window[V], tap[F], next[F];
#pragma unroll
  for (int v = 0; v < V; v++)
    window[v] = samples[v * window_pitch];
  if (AHEAD)
    load_taps(taps, next);
  for (int32_t s = 0; s < columns; s += V) {
    samples++;
#pragma unroll
    for (int j = 0; j < V; j++) {
      if (s + j >= columns)
        break;
      if (!AHEAD)
        load_taps(taps, next);
#pragma unroll
      for (int k = 0; k < F; k++)
        tap[k] = next[k];
      taps += tap_pitch;
      if (AHEAD)
        load_taps(taps, next);
#pragma unroll
      for (int k = 0; k < F; k++)
#pragma unroll
        for (int v = 0; v < V; v++)
          sums[k][v] = fmaf(tap[k], window[(v + j) % V], sums[k][v]);
      window[j] = samples[j * window_pitch];
    }
  }
}

/* The same where outputs share no samples from one tap to the next: output v of a thread is `groups` samples further on. */
template <int F, int V>
__device__ __forceinline__ void stride_row(const cut &a, const float *taps, int32_t columns, const float *samples,
                                           float (&sums)[F][V]) {
  const int32_t groups = a.groups, phase_pitch = a.common.problem.channels * a.phase_pitch;
  const float *x = samples;
  for (int32_t s = 0, phase = 0; s < columns; s++) {
    float tap[F];
    load_taps(taps, tap);
    taps += a.tap_pitch;
#pragma unroll
    for (int v = 0; v < V; v++) {
      const float sample = x[v * groups];
#pragma unroll
      for (int k = 0; k < F; k++)
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
__device__ __forceinline__ void multiply(const cut &a, const spot &my, const chunk &part, const float *taps,
                                         const float *samples, float (&sums)[F][V]) {
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

/* ---- Storing ---- */

/* The address of row `i` of a tile in the output of filter k; NULL past the last row. */
__device__ __forceinline__ uint8_t *out_row(const cut &a, const origin &at, int32_t i, int32_t k) {
  const int64_t p = at.row + (int64_t)i * a.out_step;
  return p < a.common.problem.out_height ? at.out + p * a.common.out_row + k * a.common.out_filter : NULL;
}

/* The output value of a sum; of what is combined, with divisor 1 and bias 0. */
__device__ __forceinline__ float value_of(const cut &a, float sum, float divisor, float bias) {
  const gconv_epilogue &epilogue = a.common.problem.epilogue;
  return a.plain ? fmaf(sum, epilogue.scale, epilogue.offset) : gconv_finish(gconv_response(sum, divisor, bias), &epilogue);
}

/* Stores four values at sample number `sample` of a row, as far as they lie in it. */
__device__ __forceinline__ void put_four(const cut &a, const float (&y)[4], uint8_t *row, int64_t sample) {
  const gconv_problem &problem = a.common.problem;
  const int64_t left = (int64_t)problem.out_width * problem.channels - sample;
  const int count = left < 4 ? (int)left : 4;
  if (problem.out_type == GCONV_U8)
    store_four(y, (uint8_t *)row + sample, 0, count);
  else if (problem.out_type == GCONV_U16)
    store_four(y, (uint16_t *)row + sample, 0, count);
  else
    store_four(y, (float *)row + sample, 0, count);
}

/* Stores one value at sample `i` of a tile's row, if it is one of the output's. */
__device__ __forceinline__ void put_one(const cut &a, const origin &at, float y, uint8_t *row, int32_t i) {
  const gconv_problem &problem = a.common.problem;
  const int32_t v = i / a.phases, phase = at.phase + i % a.phases;
  const int64_t sample = (at.column + v) * a.out_phases + phase, q = sample / problem.channels;
  const int32_t c = (int32_t)(sample - q * problem.channels);
  uint8_t *to = row + q * a.common.out_pixel + c * a.common.out_channel;
  if (phase >= a.out_phases || q >= problem.out_width || (problem.keep_alpha && c == problem.channels - 1))
    return;
  if (problem.out_type == GCONV_U8)
    gconv_store(y, to);
  else if (problem.out_type == GCONV_U16)
    gconv_store(y, (uint16_t *)to);
  else
    gconv_store(y, (float *)to);
}

/* Where outputs of one phase are all there is and the epilogue is plain, a thread's outputs lie one behind the other, and
 * are stored as they are. */
template <class Out, int F, int V>
__device__ __forceinline__ void store_directly(const cut &a, const origin &at, const spot &my, int32_t filter_tile,
                                               const float (&sums)[F][V]) {
  const float scale = a.common.problem.epilogue.scale, offset = a.common.problem.epilogue.offset;
  const int64_t sample = at.column + my.group * V, left = a.common.problem.out_width - sample;
  int32_t k = filter_tile * F * a.filter_warps + my.filter_warp;
  uint8_t *row = out_row(a, at, my.row, k);
  if (!my.used || !row)
    return;
  Out *to = (Out *)row + sample;
#pragma unroll
  for (int f = 0; f < F && k < a.common.problem.filters; f++, k += a.filter_warps) {
    float y[V];
#pragma unroll
    for (int v = 0; v < V; v++)
      y[v] = fmaf(sums[f][v], scale, offset);
    if (left >= V) {
#pragma unroll
      for (int v = 0; v < V; v += 4)
        store_four({y[v], y[v + 1], y[v + 2], y[v + 3]}, to, v, 4);
    } else {
#pragma unroll
      for (int v = 0; v < V; v++)
        if (v < left)
          gconv_store(y[v], to + v);
    }
    to = (Out *)((uint8_t *)to + a.filter_warps * a.common.out_filter);
  }
}

/* Otherwise, sums go through shared memory, where they lie as in the output: rows of groups, of V times all phases. Of each
 * group, SKEW floats are left out, so that groups meet all banks. */
enum { SKEW = 4 };

__device__ __forceinline__ int32_t skewed(const cut &a, int32_t i) {
  return i + (int32_t)__umulhi(i, a.group_inverse) * SKEW;
}

template <int V, bool SLIDING>
__device__ __forceinline__ void exchange(const cut &a, const spot &my, const float (&sums)[V], float *to) {
  const int32_t row = my.row * a.groups * V * a.phases;
  to += my.filter_warp * a.exchange_pitch;
  if (!my.used)
    return;
  if (SLIDING) {
    to += skewed(a, row + my.group * V * a.phases) + my.phase;
#pragma unroll
    for (int v = 0; v < V; v++, to += a.phases)
      *to = sums[v];
  } else {
#pragma unroll
    for (int v = 0; v < V; v++)
      to[skewed(a, row + (my.group + v * a.groups) * a.phases + my.phase)] = sums[v];
  }
}

/* Stores a row of `length` sums, which begin at number `first` of those exchanged, by one warp. */
__device__ __forceinline__ void store_row(const cut &a, const origin &at, int32_t first, int32_t length, const float *sums,
                                          float divisor, float bias, uint8_t *row) {
  const int32_t lane = threadIdx.x % 32;
  if (!row)
    return;
  if (!a.fours) {
    for (int32_t i = lane; i < length; i += 32)
      put_one(a, at, value_of(a, sums[skewed(a, first + i)], divisor, bias), row, i);
    return;
  }
  const int64_t sample = at.column * a.out_phases, samples = (int64_t)a.common.problem.out_width * a.out_phases;
  for (int32_t i = 4 * lane; i < length && sample + i < samples; i += 4 * 32) {
    const float4 four = *(const float4 *)(sums + skewed(a, first + i));
    const float y[4] = {value_of(a, four.x, divisor, bias), value_of(a, four.y, divisor, bias),
                        value_of(a, four.z, divisor, bias), value_of(a, four.w, divisor, bias)};
    put_four(a, y, row, sample + i);
  }
}

/* Stores the responses of one filter of each warp, `first` and those after it: a warp a row. */
template <int V> __device__ void store_filters(const cut &a, const origin &at, int32_t first, const float *sums) {
  const gconv_problem &problem = a.common.problem;
  const int32_t length = V * a.groups * a.phases;
  for (int32_t i = threadIdx.x / 32; i < a.filter_warps * a.rows; i += blockDim.x / 32) {
    const int32_t f = i / a.rows, row = i - f * a.rows, k = first + f;
    if (k >= problem.filters)
      continue;
    const float divisor = a.plain ? 1.0f : gconv_divisors(&problem, a.weights)[k];
    const float bias = a.plain ? 0.0f : gconv_biases(&problem, a.weights)[k];
    store_row(a, at, row * length, length, sums + f * a.exchange_pitch, divisor, bias, out_row(a, at, row, k));
  }
}

/* Combines them into `values` instead, which lie as the sums do; each thread has its own. */
template <int V> __device__ void combine_filters(const cut &a, int32_t first, const float *sums, float *values) {
  const gconv_problem &problem = a.common.problem;
  const gconv_combine combine = problem.epilogue.combine;
  const float *divisors = gconv_divisors(&problem, a.weights), *biases = gconv_biases(&problem, a.weights);
  const int32_t filters = min(a.filter_warps, problem.filters - first);
  for (int32_t i = threadIdx.x; i < a.exchange_pitch; i += blockDim.x) {
    float value = values[i];
    for (int32_t f = 0; f < filters; f++) {
      const float response = gconv_response(sums[f * a.exchange_pitch + i], divisors[first + f], biases[first + f]);
      value = first + f == 0 ? gconv_combine_first(combine, response) : gconv_combine_next(combine, value, response);
    }
    values[i] = first + filters < problem.filters ? value : gconv_combine_last(combine, value);
  }
}

template <int V> __device__ void store_combined(const cut &a, const origin &at, const float *values) {
  const int32_t length = V * a.groups * a.phases;
  for (int32_t row = threadIdx.x / 32; row < a.rows; row += blockDim.x / 32)
    store_row(a, at, row * length, length, values, 1.0f, 0.0f, out_row(a, at, row, 0));
}

/* What becomes of a block's sums of one tile of filters. The filters of a tile lie F times over the warps, so that those of
 * one round follow each other. */
template <int F, int V, bool SLIDING>
__device__ __forceinline__ void finish_tile(const cut &a, const origin &at, const spot &my, int32_t filter_tile,
                                            const float (&sums)[F][V], float *shared, float *values) {
  const bool combined = gconv_is_combined(&a.common.problem);
  if (SLIDING && !combined && a.fours && a.plain && a.phases == 1) {
    if (a.common.problem.out_type == GCONV_U8)
      store_directly<uint8_t>(a, at, my, filter_tile, sums);
    else if (a.common.problem.out_type == GCONV_U16)
      store_directly<uint16_t>(a, at, my, filter_tile, sums);
    else
      store_directly<float>(a, at, my, filter_tile, sums);
    return;
  }
#pragma unroll 1
  for (int f = 0; f < F; f++) {
    const int32_t first = (filter_tile * F + f) * a.filter_warps;
    if (first >= a.common.problem.filters)
      return;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < F; k++) /* registers have no run-time index */
      if (k == f)
        exchange<V, SLIDING>(a, my, sums[k], shared);
    __syncthreads();
    if (combined)
      combine_filters<V>(a, first, shared, values);
    else
      store_filters<V>(a, at, first, shared);
  }
}

/* ---- The kernel ---- */

/* The tiles of a block's place for one tile of filters; `again` if the place is not the block's first. */
template <int F, int V, bool SLIDING>
__device__ __forceinline__ void make_tiles(const cut &a, origin at, const spot &my, int32_t filters, bool again,
                                           float *taps) {
  const gconv_problem &problem = a.common.problem;
  float *samples = taps + a.tap_floats, *exchanged = samples + a.exchange_at, *values = samples + a.sample_floats;
  for (int32_t pass = 0; pass < a.passes; pass++, at.row += (int64_t)a.rows * a.out_step) {
    float sums[F][V] = {};
    for (int32_t r = 0; r < problem.rows; r += a.chunk_rows)
      for (int32_t s = 0; s < problem.columns; s += a.chunk_columns) {
        const chunk part = {r, min(a.chunk_rows, problem.rows - r), s, min(a.chunk_columns, problem.columns - s)};
        if (pass == 0)
          stage<V, SLIDING>(a, at, part, filters, again && a.one_chunk, taps, samples);
        multiply<F, V, SLIDING>(a, my, part, taps, samples + pass * a.rows * a.row_stride * a.row_pitch, sums);
      }
    finish_tile<F, V, SLIDING>(a, at, my, filters, sums, exchanged, values);
    if (gconv_is_combined(&problem) && filters == a.filter_tiles - 1) {
      __syncthreads();
      store_combined<V>(a, at, values);
    }
  }
}

template <int F, int V, bool SLIDING>
__global__ void __launch_bounds__(32 * MOST_WARPS, 2) multiply_tiles(const __grid_constant__ cut a) {
  extern __shared__ float4 shared[];
  const spot my = spot_of(a);
  for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const origin at = origin_of<V>(a, tile);
    for (int32_t filters = at.filter_tile; filters < a.filter_tiles; filters += a.filter_blocks)
      make_tiles<F, V, SLIDING>(a, at, my, filters, tile != blockIdx.x, (float *)shared);
  }
}

/* Alpha that is kept, which the tiles leave out. */
template <class In, class Out> __global__ void pass_alpha(const __grid_constant__ arguments a) {
  const gconv_problem &problem = a.problem;
  const int64_t pixels = (int64_t)problem.images * problem.planes * problem.out_height * problem.out_width;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pixels; i += (int64_t)gridDim.x * blockDim.x) {
    const int64_t row = i / problem.out_width, plane = row / problem.out_height, image = plane / problem.planes;
    place at = {row - plane * problem.out_height, i - row * problem.out_width, problem.channels - 1,
                a.in + image * a.in_image + (plane - image * problem.planes) * a.in_plane};
    keep_alpha<In, Out>(a, at,
                        a.out + image * a.out_image + (plane - image * problem.planes) * a.out_plane + at.p * a.out_row +
                            at.q * a.out_pixel);
  }
}

/* ---- Choosing a cut ---- */

/* How filters are spread: each of `warps` warps takes `each`; so do all tiles. */
struct filter_cut {
  int32_t each, warps, tiles;
};

int32_t outputs_each(int32_t filters_each) {
  return filters_each >= 4 ? 8 : 16;
}

/* Instructions of a thread for a tap. */
double tap_instructions(int32_t filters_each) {
  return filters_each * outputs_each(filters_each) + 4 + filters_each / 4.0;
}

int64_t divided_up(int64_t count, int64_t by) {
  return (count - 1) / by + 1;
}

/* The one that takes the fewest instructions, of which superfluous filters are a part. */
filter_cut cut_filters(int32_t filters) {
  filter_cut best = {};
  double best_cost = HUGE_VAL;
  for (int32_t each = 8; each >= 1; each /= 2) {
    filter_cut one = {each, 1, (int32_t)divided_up(filters, each * MOST_WARPS)};
    one.warps = (int32_t)divided_up(divided_up(filters, one.tiles), each);
    double cost = one.tiles * one.warps * tap_instructions(each) / outputs_each(each);
    if (cost < best_cost) {
      best_cost = cost;
      best = one;
    }
  }
  return best;
}

int32_t tap_pitch_of(const filter_cut &filters) {
  return (filters.each * filters.warps + 3) / 4 * 4;
}

/* The least number from `count` on that is `bank` modulo `banks`. */
int32_t pad_to_bank(int64_t count, int32_t bank, int32_t banks) {
  return (int32_t)(count + ((bank - count) % banks + banks) % banks);
}

/* Lays out shared memory for the chunk that is set. Returns its bytes. */
int64_t lay_out(cut &a, int32_t V, bool sliding) {
  const gconv_problem &problem = a.common.problem;
  a.tap_phases = sliding                                                         ? 1
                 : problem.dilation_x == 1 && problem.stride_x < a.chunk_columns ? problem.stride_x
                                                                                 : a.chunk_columns;
  a.in_phases = sliding ? a.phases : a.tap_phases * problem.channels;
  int64_t phase_floats = V * (int64_t)a.groups + (a.chunk_columns - 1) / a.tap_phases;
  if (sliding) { /* neighbours, V * window_pitch / 32 times round the banks, are met by the 32 lanes that stage them */
    a.window_pitch = pad_to_bank(a.groups + divided_up(a.chunk_columns, V), 32 / V, 64 / V);
    phase_floats = (int64_t)V * a.window_pitch;
  }
  a.phase_pitch = pad_to_bank(phase_floats, a.groups % 32, 32);
  a.row_pitch = pad_to_bank((int64_t)a.in_phases * a.phase_pitch, a.phases * a.groups % 32, 32);
  int64_t rows = (int64_t)(a.rows * a.passes - 1) * a.row_stride + (int64_t)(a.chunk_rows - 1) * a.tap_stride + 1;
  int64_t taps = (int64_t)a.chunk_rows * a.chunk_columns * a.tap_pitch, samples = divided_up(rows * a.row_pitch, 4) * 4;
  a.exchange_pitch = a.rows * a.groups * (V * a.phases + SKEW);
  a.group_inverse = (uint32_t)(((int64_t)1 << 32) / (V * a.phases) + 1);
  int64_t exchanged = (int64_t)a.filter_warps * a.exchange_pitch;
  a.exchange_at = a.passes > 1 ? (int32_t)samples : 0;
  samples = a.passes > 1 ? samples + exchanged : samples < exchanged ? exchanged : samples;
  a.one_chunk = a.filter_tiles == 1 && a.chunk_rows == problem.rows && a.chunk_columns == problem.columns;
  a.tap_floats = (int32_t)taps;
  a.sample_floats = (int32_t)samples;
  a.value_floats = gconv_is_combined(&problem) ? a.exchange_pitch : 0;
  return (taps + samples + a.value_floats) * (int64_t)sizeof(float);
}

/* Sets the largest chunk that shared memory holds; false if there is
 * none. */
bool cut_taps(cut &a, int32_t V, bool sliding) {
  const int32_t columns = a.common.problem.columns, most = SHARED_BYTES / (int32_t)sizeof(float);
  a.chunk_rows = columns <= most ? a.common.problem.rows : 1;
  a.chunk_columns = columns <= most ? columns : most / V * V;
  while (lay_out(a, V, sliding) > SHARED_BYTES)
    if (a.passes > 1)
      return false; /* every pass needs all taps */
    else if (a.chunk_rows > 1)
      a.chunk_rows = (a.chunk_rows + 1) / 2;
    else if (a.chunk_columns > 1)
      a.chunk_columns = a.chunk_columns > 2 * V ? (a.chunk_columns / 2 + V - 1) / V * V : (a.chunk_columns + 1) / 2;
    else
      return false;
  return true;
}

/* Sets the tile's rows, and its groups so that it fills `places`; counts the tiles. */
void cut_outputs(cut &a, int32_t V, int32_t places, int32_t rows, int32_t passes) {
  const gconv_problem &problem = a.common.problem;
  int64_t samples = (int64_t)problem.out_width * problem.channels, outputs = divided_up(samples, a.out_phases);
  int64_t groups = places / a.phases / rows, needed = divided_up(outputs, V);
  bool several = rows * passes > 1, stepped = problem.stride_y == 1 && several;
  a.rows = rows;
  a.passes = passes;
  a.groups = (int32_t)(groups < needed ? groups : needed);
  a.out_step = stepped ? problem.dilation_y : 1;
  a.in_step = stepped || !several ? problem.dilation_y : 1;
  a.row_stride = problem.stride_y == 1 || !several ? 1 : problem.stride_y;
  a.tap_stride = stepped || !several ? 1 : problem.dilation_y;
  a.row_tiles = divided_up(problem.out_height, (int64_t)rows * passes * a.out_step) * a.out_step;
  a.column_tiles = divided_up(outputs, (int64_t)V * a.groups);
  a.phase_tiles = divided_up(a.out_phases < samples ? a.out_phases : samples, a.phases);
  a.tiles = (int64_t)problem.images * problem.planes * a.row_tiles * a.column_tiles * a.phase_tiles * a.filter_blocks;
}

/* Instructions of all tiles: for multiplying, staging and storing, a warp's counting in full even where lanes are idle. */
double cut_cost(const cut &a, const filter_cut &filters) {
  const gconv_problem &problem = a.common.problem;
  const int32_t V = outputs_each(filters.each), warps = MOST_WARPS / filters.warps * filters.warps;
  double chunks = (double)divided_up(problem.rows, a.chunk_rows) * (double)divided_up(problem.columns, a.chunk_columns);
  double multiplying = tap_instructions(filters.each) * problem.rows * problem.columns * warps;
  int64_t staged_rows = (int64_t)(a.rows * a.passes - 1) * a.row_stride + (int64_t)(a.chunk_rows - 1) * a.tap_stride + 1;
  int64_t staged = (V * (int64_t)a.groups + (a.chunk_columns - 1) / a.tap_phases) * a.in_phases;
  double staging = chunks * (double)(staged_rows * divided_up(staged, 32)) * STAGING_INSTRUCTIONS;
  int64_t stored_rows = (int64_t)filters.each * filters.warps * a.rows;
  double storing = (double)(stored_rows * divided_up((int64_t)V * a.groups * a.phases, 128)) * STORING_INSTRUCTIONS;
  return (double)a.tiles * ((multiplying + storing) * a.passes + staging + STARTING_INSTRUCTIONS * warps);
}

/* The cut of a problem; all of it but addresses. */
cut cut_problem(const gconv_problem *problem, const filter_cut &filters) {
  const int32_t V = outputs_each(filters.each), places = MOST_WARPS / filters.warps * 32;
  const bool sliding = problem->stride_x == 1;
  cut a = {}, best = {};
  a.common.problem = *problem;
  a.filter_tiles = filters.tiles;
  a.filter_warps = filters.warps;
  a.filter_blocks = gconv_is_combined(problem) ? 1 : filters.tiles;
  a.tap_pitch = tap_pitch_of(filters);
  int64_t step = (int64_t)(sliding ? problem->dilation_x : problem->stride_x) * problem->channels;
  a.out_phases = sliding ? (int32_t)step : problem->channels;
  a.phases = a.out_phases < places ? a.out_phases : places;
  a.sample_step = step;
  a.phase_skip = sliding ? 0 : (int64_t)(problem->dilation_x - 1) * problem->channels;
  /* Values that are combined of several tiles of filters are held for one pass only; strided, passes were slower. */
  const int32_t most_passes = !sliding || (gconv_is_combined(problem) && filters.tiles > 1) ? 1 : 8;
  double best_cost = HUGE_VAL;
  for (int32_t rows = 1; rows <= places / a.phases; rows++)
    for (int32_t passes = 1; passes <= most_passes; passes *= 2) {
      cut_outputs(a, V, places, rows, passes);
      if ((passes > 1 && a.tiles < ENOUGH_TILES) || !cut_taps(a, V, sliding))
        break;
      double cost = cut_cost(a, filters);
      if (cost < best_cost) {
        best_cost = cost;
        best = a;
      }
    }
  return best;
}

/* ---- Launching ---- */

/* Whether output rows can be stored four samples at a time, from multiples of four on. */
bool stores_fours(const cut &a) {
  const arguments &c = a.common;
  const int64_t size = (int64_t)gconv_type_bytes(c.problem.out_type);
  const bool dense = c.out_pixel == c.problem.channels * size && c.out_channel == size && !c.problem.keep_alpha;
  const int64_t distances = (int64_t)(uintptr_t)c.out | c.out_filter | c.out_image | c.out_plane | c.out_row;
  return dense && a.phases == a.out_phases && distances % (4 * size) == 0;
}

/* Whether scale and offset are all there is to the epilogue, after combining. */
bool is_plain(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  bool plain = epilogue->scale_low == 0 && !epilogue->absolute && !epilogue->center;
  for (int32_t k = 0; k < problem->filters && plain && !gconv_is_combined(problem); k++)
    plain =
        gconv_divisors(problem, execution->host_weights)[k] == 1 && gconv_biases(problem, execution->host_weights)[k] == 0;
  return plain;
}

/* As many blocks as the device runs at a time, so that they find their places and stage their taps once. */
template <int F, int V, bool SLIDING> void launch_tiles(const cut &a, cudaStream_t stream) {
  const int threads = MOST_WARPS / a.filter_warps * a.filter_warps * 32;
  const size_t bytes = (size_t)(a.tap_floats + a.sample_floats + a.value_floats) * sizeof(float);
  int device = 0, multiprocessors = 1, blocks = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, multiply_tiles<F, V, SLIDING>, threads, bytes);
  const unsigned grid = blocks_for(a.tiles, 1, (int64_t)multiprocessors * (blocks < 1 ? 1 : blocks));
  multiply_tiles<F, V, SLIDING><<<grid, (unsigned)threads, bytes, stream>>>(a);
}

template <class In, class Out> void launch_alpha(const arguments &a, cudaStream_t stream) {
  int64_t pixels = (int64_t)a.problem.images * a.problem.planes * a.problem.out_height * a.problem.out_width;
  pass_alpha<In, Out><<<blocks_for(pixels, 256, 1 << 20), 256, 0, stream>>>(a);
}

typedef void tile_launcher(const cut &, cudaStream_t);
typedef void alpha_launcher(const arguments &, cudaStream_t);

/* The instances: by stride_x == 1 and filters of a thread (1, 2, 4, 8). */
#define FILTERS(SLIDING)                                                                                                    \
  { launch_tiles<1, 16, SLIDING>, launch_tiles<2, 16, SLIDING>, launch_tiles<4, 8, SLIDING>, launch_tiles<8, 8, SLIDING> }
tile_launcher *const tile_launchers[2][4] = {FILTERS(false), FILTERS(true)};
#define OUTPUTS(In)                                                                                                         \
  { launch_alpha<In, uint8_t>, launch_alpha<In, uint16_t>, launch_alpha<In, float> }
alpha_launcher *const alpha_launchers[3][3] = {OUTPUTS(uint8_t), OUTPUTS(uint16_t), OUTPUTS(float)};

size_t prepared_floats(const gconv_problem *problem) {
  const filter_cut filters = cut_filters(problem->filters);
  return (size_t)filters.tiles * (size_t)problem->rows * (size_t)problem->columns * (size_t)tap_pitch_of(filters);
}

/* Taps as blocks stage them: by tiles of filters, taps, warps, and the `each` filters of a warp. Those are not neighbours:
 * in each round of finish_tile(), the warps have neighbours. */
gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  const filter_cut filters = cut_filters(problem->filters);
  const int64_t count = (int64_t)problem->rows * problem->columns, pitch = tap_pitch_of(filters);
  for (int64_t i = 0; i < (int64_t)prepared_floats(problem); i++) {
    int64_t lane = i % pitch, t = i / pitch % count, tile = i / pitch / count;
    int64_t warp = lane / filters.each, k = (tile * filters.each + lane % filters.each) * filters.warps + warp;
    prepared[i] = warp < filters.warps && k < problem->filters ? taps[k * count + t] : 0.0f;
  }
  return GCONV_OK;
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const filter_cut filters = cut_filters(problem->filters);
  cut a = cut_problem(problem, filters);
  a.common = common_arguments(execution);
  a.weights = execution->weights;
  a.taps = gconv_prepared(problem, execution->weights);
  a.fours = stores_fours(a);
  a.plain = is_plain(execution);
  int number = filters.each == 8 ? 3 : filters.each / 2;
  tile_launchers[problem->stride_x == 1][number](a, (cudaStream_t)execution->stream);
  if (problem->keep_alpha)
    alpha_launchers[problem->in_type][problem->out_type](a.common, (cudaStream_t)execution->stream);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

const char *supports(const gconv_problem *problem) {
  if ((int64_t)problem->dilation_x * problem->channels > INT32_MAX / 2)
    return "a dilation of more than 2^30 samples";
  return NULL;
}

/* The rate of instructions that was measured on an H200, a part of the peak: less where sums are exchanged before they are
 * stored. Not less than the memory takes. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const bool exchanged = gconv_is_combined(problem) || problem->channels > 1 || problem->dilation_x > 1;
  const filter_cut filters = cut_filters(problem->filters);
  const double efficiency = (filters.each < 4 ? 0.35 : 0.6) * (exchanged ? 0.7 : 1);
  double computing = cut_cost(cut_problem(problem, filters), filters) / (efficiency * machine->fma_per_ms / 32);
  double outputs = gconv_is_combined(problem) ? 1 : problem->filters;
  double planes = (double)problem->images * problem->planes * problem->channels;
  double in = (double)problem->height * problem->width * (double)gconv_type_bytes(problem->in_type);
  double out = (double)problem->out_height * problem->out_width * (double)gconv_type_bytes(problem->out_type);
  double moving = planes * (in + outputs * out) / (0.7 * machine->bytes_per_ms);
  return fmax(computing, moving) + machine->launch_ms * (problem->keep_alpha ? 2 : 1);
}

} // namespace

/* Members in the order of the structure, as C++17 has no names here; the others are 0. */
extern "C" const gconv_algorithm gconv_algorithm_cuda_gemm = {
    {"gemm", "cuda", "a product of matrices whose patches are never laid out", true},
    NULL, /* available */
    supports,
    NULL, /* workspace_bytes */
    execute,
    cost,
    gconv_chain_bound,
    prepared_floats,
    prepare,
};

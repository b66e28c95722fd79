/* SPDX-License-Identifier: MIT */
/*
 * direct, square filters to 17 x 17: sums slide down the rows in registers.
 *
 *      input row y  . . . . x x x x x x . . . .      a thread: V outputs of a row need V + (K - 1) * C samples of it
 *                             |
 *        taps 2 -> sums[0]  finished: row y - 1      K = 3: what row y adds to the output rows it reaches;
 *        taps 1 -> sums[1]            row y          then sums[1] is the next sums[0], sums[2] the next sums[1],
 *        taps 0 -> sums[2]            row y + 1      and sums[2] begins anew
 *
 * A row of an interleaved image is W * C samples, and the neighbour of a sample is C samples further on; so a thread takes V
 * neighbouring samples of a row, whatever their channels, and walks down a strip of rows. It holds the sums of the K output
 * rows that the current input row contributes to, K x V of them. Sums move up one row by being written to another register
 * than they were read from, so that costs nothing. No shared memory, no barrier.
 *
 * The arithmetic: K * K * V fused multiply-adds for V + (K - 1) * C samples loaded, most of them from the L1 cache, where
 * the neighbours' loads have put them. Taps are kernel parameters, which go to uniform registers, so that a multiply-add
 * takes its tap as an operand. To K = 5 floats are bound by memory bandwidth; all else by the rate of instructions, of which
 * for K = 15 nine in ten are multiply-adds.
 *
 * Integers are convolved in units of 2^-149. A float below 2^-126 is an integer in that unit, so that a byte is the float of
 * its level as soon as it stands alone in a register, and a result that is multiplied back to the unit is rounded to the
 * nearest level, ties to even, and stands as an integer in its register. The taps are scaled up by 2^e in exchange: powers
 * of two change no rounding as long as nothing leaves the range of floats, which scale_taps() sees to.
 */
#ifndef GCONV_CUDA_DIRECT_SLIDE_CUH
#define GCONV_CUDA_DIRECT_SLIDE_CUH

#include "common.cuh"

#include <atomic>
#include <math.h>

namespace {

enum { SLIDE_THREADS = 128 }; /* of a block, in any shape of whole warps */

/* F filters of K x K taps whose responses are combined (F = 1: or not). */
template <int K, int F> struct sliding_arguments {
  arguments common;
  int32_t strip;       /* output rows of a thread */
  int32_t across;      /* columns of blocks */
  int32_t begin, end;  /* output samples of a row whose windows lie in the input row, a multiple of V of them */
  int32_t walkers;     /* blocks of a plane that walk down strips of them */
  int32_t edge_blocks; /* blocks of a plane for its other samples, at the ends of rows */
  int32_t samples;     /* of an output row: Q * C */
  float unit;          /* what a sum is to be multiplied with: the scale of taps, undone */
  float scale, offset; /* of a plain epilogue, from scaled sums */
  bool plain;          /* scale and offset are all there is to the epilogue, and the output is of the input's type */
  bool at_once;        /* whether `scale`, a power of two, leads from scaled sums to levels in units of 2^-149 */
  float divisor[F], bias[F];
  float taps[F][K * K];
};

/* The samples that a thread sees of an input row: those from `LEFT` before its first output sample, in fours. */
template <int K, int C, int V> struct window {
  static constexpr int PAD = K / 2 * C;
  static constexpr int LEFT = (PAD + 3) / 4 * 4;
  static constexpr int WORDS = (LEFT + V - 1 + (K - 1) * C - PAD) / 4 + 1;
  static constexpr int FIRST = LEFT - PAD; /* index of the sample that tap 0 meets for output 0 */
};

/* ---- Input rows ---- */

/* Four samples as a word, and from there to floats: of integers in units of 2^-149. */
template <class In> struct samples4;
template <> struct samples4<float> {
  using word = float4;
  static __device__ __forceinline__ word gather(const float (&x)[4]) {
    return make_float4(x[0], x[1], x[2], x[3]);
  }
  static __device__ __forceinline__ void spread(word w, float *x) {
    x[0] = w.x, x[1] = w.y, x[2] = w.z, x[3] = w.w;
  }
  static __device__ __forceinline__ float spread_one(float x) {
    return x;
  }
};
template <> struct samples4<uint8_t> {
  using word = uint32_t;
  static __device__ __forceinline__ word gather(const uint8_t (&x)[4]) {
    return x[0] | (uint32_t)x[1] << 8 | (uint32_t)x[2] << 16 | (uint32_t)x[3] << 24;
  }
  static __device__ __forceinline__ void spread(word w, float *x) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      x[i] = __uint_as_float(__byte_perm(w, 0, 0x4440 + i));
  }
  static __device__ __forceinline__ float spread_one(uint8_t x) {
    return __uint_as_float(x);
  }
};
template <> struct samples4<uint16_t> {
  using word = uint2;
  static __device__ __forceinline__ word gather(const uint16_t (&x)[4]) {
    return make_uint2(x[0] | (uint32_t)x[1] << 16, x[2] | (uint32_t)x[3] << 16);
  }
  static __device__ __forceinline__ void spread(word w, float *x) {
    x[0] = __uint_as_float(w.x & 0xffffu), x[1] = __uint_as_float(w.x >> 16);
    x[2] = __uint_as_float(w.y & 0xffffu), x[3] = __uint_as_float(w.y >> 16);
  }
  static __device__ __forceinline__ float spread_one(uint16_t x) {
    return __uint_as_float(x);
  }
};

/* The input rows of a strip, one after the other, some of them under way. BY_FOUR: its windows begin at multiples of four
 * samples. What it needs of the arguments it holds by value, so that it stays in registers. */
template <class In, int K, int C, int V, bool BY_FOUR> struct row_reader {
  using shape = window<K, C, V>;
  using word = typename samples4<In>::word;
  /* Rows under way, to hide the latency; but wide rows of one channel rather leave registers to more warps. */
  static constexpr int AHEAD = (V < 16 || C > 1) && ((sizeof(In) < 4 && K <= 7) || K <= 3) ? 2 : 1;

  const uint8_t *in; /* the plane, from the first sample of the window on */
  int64_t in_row;
  gconv_border border;
  int y, height;
  In level;
  word words[AHEAD][shape::WORDS];

  __device__ __forceinline__ row_reader(const arguments &a, const uint8_t *window_of_row_0, int row)
      : in(window_of_row_0), in_row(a.in_row), border(a.problem.border), y(row), height(a.problem.height),
        level((In)a.problem.border_level) {
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      fetch(i);
  }

  __device__ __forceinline__ void fetch(int slot) {
    const int source = (unsigned)y < (unsigned)height ? y : near_index(border, y, height);
    const uint8_t *row = in + source * in_row;
    y++;
    if (source != GCONV_OUTSIDE && BY_FOUR) {
#pragma unroll
      for (int w = 0; w < shape::WORDS; w++)
        words[slot][w] = __ldg((const word *)row + w);
    } else if (source != GCONV_OUTSIDE) {
#pragma unroll
      for (int w = 0; w < shape::WORDS; w++) {
        const In *four = (const In *)row + 4 * w;
        const In x[4] = {__ldg(four), __ldg(four + 1), __ldg(four + 2), __ldg(four + 3)};
        words[slot][w] = samples4<In>::gather(x);
      }
    } else {
      const In x[4] = {level, level, level, level};
#pragma unroll
      for (int w = 0; w < shape::WORDS; w++)
        words[slot][w] = samples4<In>::gather(x);
    }
  }

  /* The next row, as floats. */
  __device__ __forceinline__ void next(float (&x)[4 * shape::WORDS]) {
#pragma unroll
    for (int w = 0; w < shape::WORDS; w++)
      samples4<In>::spread(words[0][w], x + 4 * w);
#pragma unroll
    for (int i = 0; i + 1 < AHEAD; i++)
#pragma unroll
      for (int w = 0; w < shape::WORDS; w++)
        words[i][w] = words[i + 1][w];
    fetch(AHEAD - 1);
  }
};

/* Lays an input row on all sums: sums[j] is of the j-th oldest row; before, it was sums[j + 1]. */
template <int K, int C, int V, int N>
__device__ __forceinline__ void lay_row(const float *taps, const float (&x)[N], float (&sums)[K][V]) {
  constexpr int FIRST = window<K, C, V>::FIRST;
#pragma unroll
  for (int j = 0; j < K; j++)
#pragma unroll
    for (int s = 0; s < K; s++)
#pragma unroll
      for (int v = 0; v < V; v++) {
        float before = s > 0 ? sums[j][v] : j + 1 < K ? sums[j + 1 < K ? j + 1 : j][v] : 0.0f;
        sums[j][v] = fmaf(taps[(K - 1 - j) * K + s], x[FIRST + v + s * C], before);
      }
}

/* ---- Output rows ---- */

/* Alpha that is kept of output pixel (p, q), as kept_alpha(). */
template <class In, int C>
__device__ float near_alpha(const gconv_problem &problem, const uint8_t *plane, int64_t in_row, int p, int q) {
  int y = near_index(problem.border, p - problem.pad_top + problem.anchor_y, problem.height);
  int x = near_index(problem.border, q - problem.pad_left + problem.anchor_x, problem.width);
  float alpha = problem.border_level;
  if (y != GCONV_OUTSIDE && x != GCONV_OUTSIDE)
    alpha = ((const In *)(plane + y * in_row))[x * C + C - 1];
  return gconv_scale(alpha, problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
}

/* A value of the output from the sums of one or two filters. */
template <class In, int K, int F>
__device__ float finish_value(const sliding_arguments<K, F> &a, float first, float second) {
  const gconv_epilogue &epilogue = a.common.problem.epilogue;
  if (sizeof(In) < 4)
    first *= a.unit, second *= a.unit;
  float y = gconv_response(first, a.divisor[0], a.bias[0]);
  if (gconv_is_combined(&a.common.problem)) {
    y = gconv_combine_first(epilogue.combine, y);
    if (F > 1)
      y = gconv_combine_next(epilogue.combine, y, gconv_response(second, a.divisor[F - 1], a.bias[F - 1]));
    y = gconv_combine_last(epilogue.combine, y);
  }
  return gconv_finish(y, &epilogue);
}

/* Finishes and stores four samples, whatever the epilogue and the type of the output. */
template <class In, int K, int C, int F>
__device__ __forceinline__ void store_any(const sliding_arguments<K, F> &a, const float *first, const float *second,
                                          const uint8_t *in, uint8_t *out, int p, int sample) {
  const gconv_problem &problem = a.common.problem;
  float y[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    y[i] = finish_value<In, K, F>(a, first[i], second[i]);
  if (C == 4 && problem.keep_alpha)
    y[3] = near_alpha<In, C>(problem, in, a.common.in_row, p, sample / C);
  if (problem.out_type == GCONV_U8)
    store_four(y, (uint8_t *)out, sample, 4);
  else if (problem.out_type == GCONV_U16)
    store_four(y, (uint16_t *)out, sample, 4);
  else
    store_four(y, (float *)out, sample, 4);
}

/* The plain ways out: y = sum * scale + offset, after a magnitude of two, to the type of the input. */
template <int F> __device__ __forceinline__ float plain_sum(float first, float second) {
  return F == 1 ? first : sqrtf(fmaf(second, second, fmaf(first, first, 0.0f)));
}

template <int K, int F, int V>
__device__ __forceinline__ void store_plain(const sliding_arguments<K, F> &a, const float (&first)[V],
                                            const float (&second)[V], float *row, int sample) {
#pragma unroll
  for (int v = 0; v < V; v += 4) {
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      y[i] = fmaf(plain_sum<F>(first[v + i], second[v + i]), a.scale, a.offset);
    if (K <= 5) /* where memory is the bound, what may stay in the L2 cache for a while is written faster */
      *(float4 *)(row + sample + v) = pack_four(y, 0.0f);
    else
      store_four(y, row, sample + v, 4);
  }
}

template <int K, int F, int V>
__device__ __forceinline__ void store_plain(const sliding_arguments<K, F> &a, const float (&first)[V],
                                            const float (&second)[V], uint8_t *row, int sample) {
  uint32_t words[V / 4];
#pragma unroll
  for (int v = 0; v < V; v += 4) {
    int32_t level[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (F == 1 && a.at_once)
        level[i] = __float_as_int(first[v + i] * a.scale);
      else
        level[i] = __float_as_int(
            fmaf(F == 1 ? first[v + i] : plain_sum<F>(first[v + i] * a.unit, second[v + i] * a.unit), a.scale, a.offset) *
            0x1p-149f);
    }
    words[v / 4] = saturate_four(level);
  }
  if (V == 4)
    __stcs((uint32_t *)(row + sample), words[0]);
  else if (V == 8)
    __stcs((uint2 *)(row + sample), make_uint2(words[0], words[V / 8]));
  else
    __stcs((uint4 *)(row + sample), make_uint4(words[0], words[V / 16], words[V / 8], words[V / 4 - 1]));
}

/* Finishes and stores V samples of output row `p`. PLAIN: there is nothing to the epilogue but scale and offset, after the
 * magnitude of two; else, that is asked for each row, which costs little where rows have many taps. */
template <class In, int K, int C, int V, int F, bool PLAIN>
__device__ __forceinline__ void store_sums(const sliding_arguments<K, F> &a, const float (&first)[V],
                                           const float (&second)[V], const uint8_t *in, uint8_t *out, int p, int sample) {
  if constexpr (sizeof(In) != 2)
    if (PLAIN || a.plain) {
      store_plain(a, first, second, (In *)out, sample);
      return;
    }
  if constexpr (!PLAIN)
#pragma unroll
    for (int v = 0; v < V; v += 4)
      store_any<In, K, C, F>(a, first + v, second + v, in, out, p, sample + v);
}

/* ---- The kernel ---- */

/* A thread's walk down its strip. */
template <class In, int K, int C, int V, int F, bool PLAIN, bool BY_FOUR>
__device__ __forceinline__ void walk(const sliding_arguments<K, F> &a, const uint8_t *in, uint8_t *out, int first, int top,
                                     int rows) {
  const gconv_problem &problem = a.common.problem;
  const int left = first - problem.pad_left * C - window<K, C, V>::FIRST; /* the first sample of the window */
  row_reader<In, K, C, V, BY_FOUR> reader(a.common, in + left * (int64_t)sizeof(In), top - problem.pad_top);
  float sums[F][K][V] = {};
#pragma unroll 1
  for (int i = 1 - K; i < rows; i++) {
    float x[4 * window<K, C, V>::WORDS];
    reader.next(x);
#pragma unroll
    for (int f = 0; f < F; f++)
      lay_row<K, C, V>(a.taps[f], x, sums[f]);
    if (i < 0)
      continue;
    store_sums<In, K, C, V, F, PLAIN>(a, sums[0][0], sums[F - 1][0], in, out, top + i, first);
    out += a.common.out_row;
  }
}

/* One output sample by itself: of the few at the ends of rows, whose windows reach outside. */
template <class In, int K, int C, int F>
__device__ void make_sample(const sliding_arguments<K, F> &a, const uint8_t *in, uint8_t *out, int p, int sample) {
  const gconv_problem &problem = a.common.problem;
  const int q = sample / C, c = sample - q * C;
  float sums[F] = {};
#pragma unroll 1
  for (int r = 0; r < K; r++) {
    const int y = near_index(problem.border, p - problem.pad_top + r, problem.height);
    const In *row = (const In *)(in + y * a.common.in_row);
    In levels[K];
#pragma unroll
    for (int s = 0; s < K; s++) {
      const int x = near_index(problem.border, q - problem.pad_left + s, problem.width);
      levels[s] = y == GCONV_OUTSIDE || x == GCONV_OUTSIDE ? (In)problem.border_level : row[x * C + c];
    }
#pragma unroll
    for (int s = 0; s < K; s++)
      for (int f = 0; f < F; f++)
        sums[f] = fmaf(a.taps[f][r * K + s], samples4<In>::spread_one(levels[s]), sums[f]);
  }
  float value = finish_value<In, K, F>(a, sums[0], sums[F - 1]);
  if (C == 4 && problem.keep_alpha && c == 3)
    value = near_alpha<In, C>(problem, in, a.common.in_row, p, q);
  if (problem.out_type == GCONV_U8)
    gconv_store(value, out + sample);
  else if (problem.out_type == GCONV_U16)
    gconv_store(value, (uint16_t *)out + sample);
  else
    gconv_store(value, (float *)out + sample);
}

/* Grid: blocks that walk, of all planes of all images: x of the block over the samples of a row, V each, y over strips; then
 * blocks for the ends of rows, a thread a sample: short work comes last, and fills what the walks leave idle. */
template <class In, int K, int C, int V, int F, bool PLAIN, bool BY_FOUR>
__global__ void __launch_bounds__(SLIDE_THREADS) slide(const __grid_constant__ sliding_arguments<K, F> a) {
  const gconv_problem &problem = a.common.problem;
  const int all_walkers = a.walkers * problem.images * problem.planes;
  const bool walks = (int)blockIdx.x < all_walkers;
  const int number = walks ? blockIdx.x : blockIdx.x - all_walkers, sheet = number / (walks ? a.walkers : a.edge_blocks);
  const int image = sheet / problem.planes, plane = sheet - image * problem.planes;
  const uint8_t *in = a.common.in + image * a.common.in_image + plane * a.common.in_plane;
  uint8_t *out = a.common.out + image * a.common.out_image + plane * a.common.out_plane;
  if (walks) {
    const int block = number - sheet * a.walkers, strip = block / a.across, column = block - strip * a.across;
    const int first = (column * blockDim.x + threadIdx.x) * V, top = (strip * blockDim.y + threadIdx.y) * a.strip;
    if (first >= a.begin && first < a.end && top < problem.out_height)
      walk<In, K, C, V, F, PLAIN, BY_FOUR>(a, in, out + top * a.common.out_row, first, top,
                                           min(a.strip, problem.out_height - top));
  } else {
    const int width = a.samples - (a.end - a.begin), thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int64_t sample = (int64_t)(number - sheet * a.edge_blocks) * SLIDE_THREADS + thread;
    const int p = (int)(sample / width), at = (int)(sample - (int64_t)p * width);
    if (p < problem.out_height)
      make_sample<In, K, C, F>(a, in, out + p * a.common.out_row, p, at < a.begin ? at : at + a.end - a.begin);
  }
}

/* ---- Launching ---- */

/* The square of taps, K x K, in which a filter is laid: its first column is column `shift` of it, its first row the first.
 * The rest are zeros, which change no sum of integers, as that is never -0; but floats may be infinite, and fit their own
 * size only. Integers are loaded by fours, which lie at multiples of four for every thread only where the shift of the
 * output does, so that the frame may have to be wider. */
struct frame {
  int32_t size; /* K; 0: there is none */
  int32_t shift;
};

inline frame find_frame(const gconv_problem *problem) {
  const int32_t largest = problem->rows > problem->columns ? problem->rows : problem->columns;
  if (problem->in_type == GCONV_F32) {
    const bool even = largest % 2 == 0 && problem->channels > 1, square = problem->rows == problem->columns;
    return {square && !even && largest > 1 && largest <= 17 ? largest : 0, 0};
  }
  for (int32_t K = largest <= 3 ? 3 : largest / 2 * 2 + 1; K <= 17; K += 2)
    for (int32_t shift = 0; shift <= K - problem->columns; shift++)
      if (((int64_t)problem->pad_left + shift - K / 2) * problem->channels % 4 == 0)
        return {K, shift};
  return {0, 0};
}

/* The largest e for which taps * 2^e are far from the end of the range; whether all taps are whole multiples of 2^-e, so
 * that with levels in units of 2^-149 every sum that is not rounded for its length stays exact. */
inline bool scale_taps(const float *taps, int count, int *e) {
  float largest = 0;
  for (int i = 0; i < count; i++)
    largest = fabsf(taps[i]) > largest || taps[i] != taps[i] ? fabsf(taps[i]) : largest;
  int exponent = 0;
  frexpf(largest, &exponent);
  *e = largest > 0 && exponent > -22 ? 126 - exponent : 149;
  bool whole = largest < 0x1p36f;
  for (int i = 0; i < count; i++)
    whole = whole && ldexpf(taps[i], *e) == rintf(ldexpf(taps[i], *e));
  return whole;
}

/* How many output rows a thread walks, given the blocks of a row of strips and how many blocks the device runs at a time: of
 * the numbers of strips that fill it a whole number of times, the one that takes the least time, which is in proportion to
 * the rows that a block walks (its own and the K - 1 before them) times the number of fillings. */
inline int32_t strip_rows(const gconv_problem *problem, int K, int64_t blocks_of_a_row, int64_t blocks_at_a_time) {
  int64_t best = problem->out_height, best_cost = INT64_MAX;
  for (int64_t fillings = 1; fillings <= 16; fillings++) {
    int64_t strips = fillings * blocks_at_a_time / blocks_of_a_row;
    strips = strips < 1 ? 1 : strips > problem->out_height ? problem->out_height : strips;
    int64_t rows = (problem->out_height - 1) / strips + 1;
    int64_t needed = (((problem->out_height - 1) / rows + 1) * blocks_of_a_row - 1) / blocks_at_a_time + 1;
    int64_t cost = (rows + K - 1 + 2) * needed; /* 2: for starting */
    if (cost < best_cost) {
      best_cost = cost;
      best = rows;
    }
  }
  return (int32_t)best;
}

/* Whether scale and offset are all there is to the epilogue of filters first .. first + count - 1, after a magnitude if they
 * are combined, and the output is of the type of the input. */
inline bool is_plain(const gconv_execution *execution, int32_t first, int32_t count) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  bool plain = problem->in_type == problem->out_type && problem->in_type != GCONV_U16 && epilogue->scale_low == 0 &&
               !epilogue->absolute && !epilogue->center && !problem->keep_alpha;
  for (int32_t k = first; k < first + count; k++)
    plain = plain && gconv_divisors(problem, execution->host_weights)[k] == 1 &&
            gconv_biases(problem, execution->host_weights)[k] == 0;
  return plain && (count == 1 ? !gconv_is_combined(problem) : epilogue->combine == GCONV_COMBINE_MAGNITUDE);
}

inline bool is_power_of_two(float x) {
  int exponent;
  return x > 0 && frexpf(x, &exponent) == 0.5f;
}

/* The weights of filters first .. first + F - 1, and what leads from their sums to values. */
template <class In, int K, int F>
void set_weights(const gconv_execution *execution, int32_t first, int32_t shift, sliding_arguments<K, F> *a) {
  const gconv_problem *problem = execution->problem;
  const int rows = problem->rows, columns = problem->columns;
  const float *taps = execution->host_weights + (int64_t)first * rows * columns;
  int e = 149;
  if (sizeof(In) < 4)
    scale_taps(taps, F * rows * columns, &e);
  for (int f = 0; f < F; f++)
    for (int r = 0; r < rows; r++)
      for (int s = 0; s < columns; s++, taps++)
        a->taps[f][r * K + shift + s] = sizeof(In) < 4 ? ldexpf(*taps, e) : *taps;
  for (int f = 0; f < F; f++) {
    a->divisor[f] = gconv_divisors(problem, execution->host_weights)[first + f];
    a->bias[f] = gconv_biases(problem, execution->host_weights)[first + f];
  }
  a->unit = ldexpf(1.0f, 149 - e);
  a->scale = problem->epilogue.scale;
  a->offset = problem->epilogue.offset;
  if (sizeof(In) == 1 && F == 1) {
    a->at_once = is_power_of_two(a->scale) && a->offset == 0 && ldexpf(ldexpf(a->scale, -e), e) == a->scale;
    a->scale = ldexpf(a->scale, a->at_once ? -e : 149 - e);
  }
}

/* How many blocks of a kernel the current device runs at a time. Asked for once: it takes longer than a launch. */
template <auto KERNEL> int64_t blocks_at_a_time() {
  static std::atomic<int> of_multiprocessor{0};
  int device = 0, multiprocessors = 1, blocks = of_multiprocessor.load(std::memory_order_relaxed);
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (blocks == 0) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, KERNEL, SLIDE_THREADS, 0);
    of_multiprocessor.store(blocks = blocks < 1 ? 1 : blocks, std::memory_order_relaxed);
  }
  return (int64_t)multiprocessors * blocks;
}

/* Which output samples of a row have windows that lie in the input row. */
template <int K, int C, int V, int F> void find_inner(sliding_arguments<K, F> *a) {
  using shape = window<K, C, V>;
  const gconv_problem *problem = &a->common.problem;
  const int64_t shift = (int64_t)problem->pad_left * C + shape::FIRST;         /* from the window to its first output */
  const int64_t last = (int64_t)problem->width * C + shift - 4 * shape::WORDS; /* whose window ends at the end of the row */
  const int64_t begin = shift <= 0 ? 0 : (shift + V - 1) / V * V;
  int64_t end = last < 0 ? 0 : last / V * V + V;
  end = end > a->samples / V * V ? a->samples / V * V : end;
  a->begin = (int32_t)(begin < end ? begin : 0);
  a->end = (int32_t)(begin < end ? end : 0);
}

/* Launches for the filters first .. first + F - 1, laid into K x K taps, whose output is that of filter `first`. */
template <class In, int K, int C, int V, int F, bool PLAIN, bool BY_FOUR>
void launch_slide(const gconv_execution *execution, int32_t shift, int32_t first) {
  const gconv_problem *problem = execution->problem;
  sliding_arguments<K, F> a = {};
  a.common = common_arguments(execution);
  a.common.out += first * a.common.out_filter;
  a.common.problem.pad_left += shift;
  a.common.problem.anchor_x += shift;
  a.samples = problem->out_width * C;
  a.plain = is_plain(execution, first, F);
  set_weights<In>(execution, first, shift, &a);
  find_inner<K, C, V>(&a);
  /* What memory bounds goes through the image in low blocks, row by row, as memory likes it; the rows that they share are in
   * the L1 cache. What arithmetic bounds takes strips as high as it can. */
  constexpr bool SWEEPS = sizeof(In) == 4 && K <= 3 && F == 1, NARROW = SWEEPS || (V == 16 && C == 1);
  const int64_t threads = a.end / V, planes = (int64_t)problem->images * problem->planes;
  dim3 block(threads > 96 && !NARROW ? 128 : threads > 32 && !NARROW ? 64 : 32);
  block.y = SLIDE_THREADS / block.x;
  a.across = (int32_t)((threads + block.x - 1) / block.x);
  a.strip = SWEEPS ? 4 : problem->out_height;
  if (a.across > 0 && !SWEEPS)
    a.strip = strip_rows(problem, K, a.across * planes, blocks_at_a_time<slide<In, K, C, V, F, PLAIN, BY_FOUR>>() * block.y);
  const int64_t edges = (int64_t)(a.samples - (a.end - a.begin)) * problem->out_height;
  a.edge_blocks = (int32_t)((edges + SLIDE_THREADS - 1) / SLIDE_THREADS);
  const int64_t strips = (problem->out_height - 1) / ((int64_t)a.strip * block.y) + 1;
  a.walkers = (int32_t)(a.across * strips);
  dim3 grid((unsigned)((a.edge_blocks + a.walkers) * planes));
  slide<In, K, C, V, F, PLAIN, BY_FOUR><<<grid, block, 0, (cudaStream_t)execution->stream>>>(a);
}

} // namespace

#endif

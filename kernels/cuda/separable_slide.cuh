/* SPDX-License-Identifier: MIT */
/*
 * separable, floats and filters of rank 1 to 23 x 23: along the rows from shared memory, down the columns in registers.
 *
 *      input row y  . . x x x x x x x . .         a warp: 128 neighbouring samples of a row, 4 a thread
 *                         |
 *        row of taps      r r r r                 the responses of row y to the row of the filter,
 *                         |
 *        column[2] -> sums[0]  finished: row y - 1      R = 3: and what they add to the output rows that they reach;
 *        column[1] -> sums[1]            row y          then sums[1] is the next sums[0], sums[2] the next sums[1],
 *        column[0] -> sums[2]            row y + 1      and sums[2] begins anew
 *
 * A warp walks down a strip of rows, two at a time. It copies input rows, with what the filter reaches beside them, to
 * shared memory of its own, some rows ahead; borders are resolved there. So there are no barriers but of a warp. Sums move
 * up by being written to other registers than they were read from.
 *
 * The arithmetic: R + S fused multiply-adds a sample and about 10 other instructions. Strips follow one another down the
 * columns of blocks, so that all are of one height.
 *
 * Filters are laid in a frame of K x S taps: zeros stand before the taps of a row, as many as it takes for windows to begin
 * at multiples of four samples, and before those of a column. A value that is not finite times such a zero is not a number:
 * what is not finite is computed again by the definition.
 */
#ifndef GCONV_CUDA_SEPARABLE_SLIDE_CUH
#define GCONV_CUDA_SEPARABLE_SLIDE_CUH

#include "common.cuh"
#include "copies.cuh"
#include "separable_launch.cuh"

#include <string.h>

namespace {
namespace slide {

enum {
  LANES = 32,
  V = 4,            /* samples of a thread */
  SPAN = LANES * V, /* of a warp */
  WARPS = 4,        /* of a block, side by side */
  ROWS = 2,         /* of a step */
  AHEAD = 2         /* steps under way */
};

template <int K, int S> struct slide_arguments {
  arguments common;
  const float *weights; /* of the plan */
  int32_t first_filter;
  int32_t lead;                /* rows from the first that is read for a strip to the first that is made: even */
  int32_t begin_y;             /* from output row 0 to the input row that a strip that begins there reads first */
  int32_t left;                /* samples from a warp's first output to its window: a multiple of 4 */
  int32_t reach;               /* samples of an input row that some output needs */
  int32_t samples;             /* of an output row */
  int32_t across;              /* blocks side by side, of all planes of all images */
  int32_t height;              /* of a plane, rounded up to even */
  int32_t strip;               /* output rows of a block, in the order of columns of blocks: even */
  bool plain;                  /* nothing to the epilogue but scale and offset, to floats side by side in aligned rows */
  float factor, divisor, bias; /* factor: 1 / divisor, as a division would take registers from the sums */
  float row[S], column[K];
};

/* ---- Input ---- */

/* The input rows of a strip, in shared memory of the warp: AHEAD + 1 steps of two rows of WORDS words. Words that lie wholly
 * inside the row are copied as such; the samples of others, patches, one by one from where the border says. */
template <int WORDS> struct row_reader {
  static constexpr int SLOTS = AHEAD + 1, TURNS = (WORDS + LANES - 1) / LANES;
  static constexpr int SHARED = SLOTS * ROWS * WORDS + WORDS; /* words, with the offsets of patches */

  const uint8_t *in; /* the lane's first word in row 0 */
  float4 *slots;
  uint32_t in_row;
  int y, height;  /* the next row */
  int begin, end; /* words that lie wholly inside */
  int patches;
  int first; /* sample that the window begins with */
  int slot;
  gconv_border border;
  float level;

  __device__ __forceinline__ row_reader(const arguments &a, const uint8_t *plane, int row, int sample, int reach,
                                        float4 *shared)
      : in(plane + ((int64_t)sample + threadIdx.x % LANES * 4) * 4), slots(shared), in_row((uint32_t)a.in_row), y(row),
        height(a.problem.height), first(sample), slot(0), border(a.problem.border), level(a.problem.border_level) {
    const int left = min(max(-first, 0), 4 * WORDS), samples = a.problem.width * a.problem.channels;
    begin = left / 4;
    end = min(max((samples - first) >> 2, begin), WORDS);
    patches = max(min(reach - first, 4 * WORDS) - 4 * (end - begin), left);
    for (int i = threadIdx.x % LANES; i < patches; i += LANES)
      offsets()[i] = offset_of(a.problem, first + place_of(i));
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < AHEAD; i++)
      fetch(i);
  }

  __device__ __forceinline__ int32_t *offsets() const {
    return (int32_t *)(slots + SLOTS * ROWS * WORDS);
  }
  __device__ __forceinline__ int place_of(int i) const {
    return i < 4 * begin ? i : i + 4 * (end - begin);
  }
  static __device__ int offset_of(const gconv_problem &problem, int sample) {
    const int C = problem.channels, x = (sample - (sample < 0 ? C - 1 : 0)) / C;
    const int64_t inside = gconv_border_index(problem.border, x, problem.width);
    return inside == GCONV_OUTSIDE ? -1 : (int)(inside * C + sample - x * C) * 4;
  }

  __device__ __forceinline__ void fetch(int to) {
    const int lane = threadIdx.x % LANES;
    float4 *mine = slots + to * ROWS * WORDS + lane;
    if (patches == 0 && y >= 0 && y + ROWS <= height) {
      const uint8_t *from = in + (uint64_t)(uint32_t)y * in_row;
#pragma unroll
      for (int i = 0; i < TURNS; i++)
        if (i + 1 < TURNS || lane < WORDS - i * LANES) {
          copy_async<16>(mine + i * LANES, from + i * LANES * 16);
          copy_async<16>(mine + WORDS + i * LANES, from + in_row + i * LANES * 16);
        }
    } else {
#pragma unroll 1
      for (int i = 0; i < ROWS; i++)
        fetch_edge(y + i, mine + i * WORDS);
    }
    y += ROWS;
    commit_copies();
  }

  __device__ __forceinline__ void fetch_edge(int row, float4 *mine) {
    const int lane = threadIdx.x % LANES;
    int source = near_index(border, row, height);
    if ((unsigned)source >= (unsigned)height)
      source = GCONV_OUTSIDE; /* or a row beyond the last that is needed */
    const uint8_t *from = in + (uint64_t)(uint32_t)source * in_row;
#pragma unroll 1
    for (int w = lane; w < WORDS; w += LANES, mine += LANES, from += LANES * 16)
      if (source == GCONV_OUTSIDE)
        *mine = make_float4(level, level, level, level);
      else if (w >= begin && w < end)
        copy_async<16>(mine, from);
    mine -= WORDS / LANES * LANES + (lane < WORDS % LANES ? LANES : 0) + lane;
    from -= (WORDS / LANES * LANES + (lane < WORDS % LANES ? LANES : 0) + lane) * 16 + first * 4;
    if (source != GCONV_OUTSIDE)
#pragma unroll 1
      for (int i = lane; i < patches; i += LANES) {
        const int offset = offsets()[i];
        if (offset < 0)
          ((float *)mine)[place_of(i)] = level;
        else
          copy_async<4>((float *)mine + place_of(i), from + offset);
      }
  }

  /* The next two rows, WORDS apart, from the lane's window on. */
  __device__ __forceinline__ const float4 *next() {
    await_copies<AHEAD - 1>();
    __syncwarp();
    const int now = slot;
    fetch(slot == 0 ? SLOTS - 1 : slot - 1);
    slot = slot == SLOTS - 1 ? 0 : slot + 1;
    return slots + now * ROWS * WORDS + threadIdx.x % LANES;
  }
};

/* ---- The two directions ---- */

template <int S, int C> struct window { static constexpr int WORDS = (V + (S - 1) * C + 3) / 4, ALL = LANES - 1 + WORDS; };

/* The responses of V samples of two rows to a row of taps. */
template <int S, int C>
__device__ __forceinline__ void lay_row(const float *taps, const float4 *words, float (&r)[ROWS][V]) {
#pragma unroll
  for (int w = 0; w < window<S, C>::WORDS; w++)
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
      const float4 word = words[row * window<S, C>::ALL + w];
      const float x[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int v = 0; v < V; v++) {
          const int distance = 4 * w + i - v, s = distance / C;
          if (distance == 0)
            r[row][v] = taps[0] * x[i];
          else if (distance > 0 && distance % C == 0 && s < S)
            r[row][v] = fmaf(taps[s], x[i], r[row][v]);
        }
    }
}

/* Adds responses to the sums of K + 1 output rows, of which they finish the oldest two; before, sums were two further on. */
template <int K>
__device__ __forceinline__ void lay_column(const float *taps, const float (&r)[ROWS][V], float (&sums)[K + 1][V]) {
#pragma unroll
  for (int j = 0; j <= K; j++)
#pragma unroll
    for (int v = 0; v < V; v++) {
      float sum = j + 2 <= K ? sums[j + 2 <= K ? j + 2 : 0][v] : 0.0f;
      if (j < K)
        sum = fmaf(taps[j < K ? K - 1 - j : 0], r[0][v], sum);
      if (j > 0)
        sum = fmaf(taps[j > 0 ? K - j : 0], r[1][v], sum);
      sums[j][v] = sum;
    }
}

/* ---- Output ---- */

/* Where a lane's outputs are. */
struct lane_place {
  const uint8_t *in; /* the planes, from row 0 on */
  uint8_t *out;
  int sample; /* the first of V */
};

/* kept_alpha(), of pixels that are not far outside. */
__device__ __forceinline__ float near_alpha(const arguments &a, const uint8_t *in, int p, int q) {
  const gconv_problem &problem = a.problem;
  const int y = near_index(problem.border, p - problem.pad_top + problem.anchor_y, problem.height);
  const int x = near_index(problem.border, q - problem.pad_left + problem.anchor_x, problem.width);
  float alpha = problem.border_level;
  if (y != GCONV_OUTSIDE && x != GCONV_OUTSIDE)
    alpha = ((const float *)(in + y * a.in_row))[(x + 1) * problem.channels - 1];
  return gconv_scale(alpha, problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
}

/* Stores one value, wherever its place is. */
__device__ __forceinline__ void store_sample(const arguments &a, bool first_filter, const lane_place &at, int p, int sample,
                                             float y) {
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, q = sample / C, c = sample - q * C;
  uint8_t *pixel = at.out + p * a.out_row + q * a.out_pixel, *to = pixel + c * a.out_channel;
  if (problem.keep_alpha && c == C - 1) {
    if (!first_filter && problem.epilogue.combine == GCONV_COMBINE_STACK)
      return; /* it is there once, with the first filter */
    y = near_alpha(a, at.in, p, q);
    to = pixel + a.out_alpha;
  }
  store_as(problem.out_type, y, to);
}

/* Finishes and stores what of V sums of two rows has a place, one by one. */
template <int K, int S>
__device__ __forceinline__ void store_each(const slide_arguments<K, S> &a, const float (&sums)[K + 1][V],
                                           const lane_place &at, int p, int end) {
  float copies[ROWS * V];
#pragma unroll
  for (int i = 0; i < ROWS * V; i++)
    copies[i] = sums[i / V][i % V];
#pragma unroll 1
  for (int i = 0; i < ROWS * V; i++)
    if (p + i / V < end && at.sample + i % V < a.samples)
      store_sample(a.common, a.first_filter == 0, at, p + i / V, at.sample + i % V,
                   gconv_finish(fmaf(copies[i], a.factor, a.bias), &a.common.problem.epilogue));
}

/* The same where there is nothing but scale and offset to floats side by side, all of them with a place. */
template <int K>
__device__ __forceinline__ void store_plain(const gconv_epilogue &epilogue, const float (&sums)[K + 1][V], uint8_t *to,
                                            int64_t out_row) {
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    float y[V];
#pragma unroll
    for (int v = 0; v < V; v++)
      y[v] = fmaf(sums[i][v], epilogue.scale, epilogue.offset);
    __stcs((float4 *)(to + i * out_row), make_float4(y[0], y[1], y[2], y[3]));
  }
}

/* ---- By the definition, where a sum is not finite ---- */

__device__ __forceinline__ bool are_finite(const float (&first)[V], const float (&second)[V]) {
  float zero = 0.0f, other = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    zero = fmaf(first[v], 0.0f, zero);
    other = fmaf(second[v], 0.0f, other);
  }
  return zero + other == 0.0f;
}

/* The sum of a filter at a sample. */
__device__ float define(const arguments &a, const float *tap, const uint8_t *in, int p, int q, int c) {
  const gconv_problem &problem = a.problem;
  float sum = 0.0f;
  for (int r = 0; r < problem.rows; r++)
    for (int s = 0; s < problem.columns; s++)
      sum = fmaf(
          *tap++,
          sample_at<float>(problem, in, a.in_row, (int64_t)p - problem.pad_top + r, (int64_t)q - problem.pad_left + s, c),
          sum);
  return sum;
}

/* The lane's outputs in rows `begin` to `end` - 1. */
template <int K, int S>
__device__ __noinline__ void redo(const slide_arguments<K, S> &a, const lane_place &at, int begin, int end) {
  const gconv_problem &problem = a.common.problem;
  const float *taps = a.weights + (int64_t)a.first_filter * problem.rows * problem.columns;
  for (int p = begin; p < end; p++)
    for (int sample = at.sample; sample < min(at.sample + V, a.samples); sample++) {
      const int q = sample / problem.channels, c = sample % problem.channels;
      const float sum = define(a.common, taps, at.in, p, q, c);
      store_sample(a.common, a.first_filter == 0, at, p, sample,
                   gconv_finish(gconv_response(sum, a.divisor, a.bias), &problem.epilogue));
    }
}

/* ---- The kernel ---- */

/* Blocks a multiprocessor, for which registers are limited. */
constexpr int blocks_of(int K) {
  return K <= 9 ? 5 : K <= 15 ? 4 : 3;
}

/* A warp's walk down output rows `top` to `end` - 1. */
template <int K, int S, int C>
__device__ __forceinline__ void walk(const slide_arguments<K, S> &a, const lane_place &at, int top, int end,
                                     float4 *shared) {
  const int warp_sample = at.sample - threadIdx.x % LANES * V;
  row_reader<window<S, C>::ALL> reader(a.common, at.in, top + a.begin_y, warp_sample + a.left, a.reach, shared);
  float sums[K + 1][V] = {};
  int odd_begin = end, odd_end = top;
  const bool plain = a.plain && at.sample + V <= a.samples;
  uint8_t *to = at.out + (top - a.lead) * a.common.out_row + at.sample * 4;
#pragma unroll 1
  for (int p = top - a.lead; p < end; p += ROWS, to += ROWS * a.common.out_row) {
    float r[ROWS][V];
    lay_row<S, C>(a.row, reader.next(), r);
    lay_column<K>(a.column, r, sums);
    if (p < top)
      continue;
    if (!are_finite(sums[0], sums[1])) {
      odd_begin = min(odd_begin, p);
      odd_end = min(p + ROWS, end);
    }
    if (plain && p + ROWS <= end)
      store_plain<K>(a.common.problem.epilogue, sums, to, a.common.out_row);
    else
      store_each(a, sums, at, p, end);
  }
  await_copies<0>(); /* of rows that are not needed any more: the next walk has others in their places */
  if (odd_begin < odd_end)
    redo(a, at, odd_begin, odd_end);
}

/* A block walks `strip` rows, down one column of blocks, of which each plane has some, and from the top of the next. */
template <int K, int S, int C>
__global__ void __launch_bounds__(WARPS *LANES, blocks_of(K)) slide(const __grid_constant__ slide_arguments<K, S> a) {
  __shared__ float4 shared[WARPS][row_reader<window<S, C>::ALL>::SHARED];
  const gconv_problem &problem = a.common.problem;
  const int columns = a.across * problem.images * problem.planes;
  const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  int column = (int)((int64_t)blockIdx.x * a.strip / a.height), top = (int)((int64_t)blockIdx.x * a.strip % a.height);
#pragma unroll 1
  for (int left = a.strip; left > 0 && column < columns; column++, top = 0) {
    const int sheet = column / a.across, image = sheet / problem.planes, plane = sheet - image * problem.planes;
    const int begin = ((column - sheet * a.across) * WARPS + warp) * SPAN, end = min(top + left, a.height);
    const lane_place at = {a.common.in + image * a.common.in_image + plane * a.common.in_plane,
                           a.common.out + image * a.common.out_image + plane * a.common.out_plane, begin + lane * V};
    __syncwarp();
    if (begin < a.samples)
      walk<K, S, C>(a, at, top, min(end, problem.out_height), shared[warp]);
    left -= end - top;
  }
}

/* ---- Launching ---- */

/* Zeros before the taps of a row, so that windows begin at multiples of four samples. */
inline int32_t shift_of(const gconv_problem *problem) {
  int32_t shift = 0;
  while (((int64_t)problem->pad_left + shift) * problem->channels % 4 != 0)
    shift++;
  return shift;
}

/* The frames of the instances: rows of a column, odd, and taps of a row. */
constexpr int32_t FRAMES[][2] = {{9, 12}, {15, 16}, {23, 24}};
constexpr int SIZES = sizeof FRAMES / sizeof *FRAMES;

/* Which of FRAMES holds the filter; SIZES if none does. */
inline int frame_of(const gconv_problem *problem) {
  int size = 0;
  while (size < SIZES && (problem->rows > FRAMES[size][0] || problem->columns + shift_of(problem) > FRAMES[size][1]))
    size++;
  return size;
}

/* Whether slide() is to take the problem. */
inline bool takes(const gconv_problem *problem) {
  return problem->in_type == GCONV_F32 && problem->structure.rank == 1 && !gconv_is_combined(problem) &&
         problem->dilation_y == 1 && problem->dilation_x == 1 && frame_of(problem) < SIZES &&
         is_near(problem->height, problem->pad_top, problem->out_height, problem->rows, 0) &&
         is_near(problem->width, problem->pad_left, problem->out_width, problem->columns, 0);
}

/* Whether scale and offset are all there is to the epilogue of a filter, and outputs are floats side by side. */
inline bool is_plain(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const gconv_target *out = &execution->out[filter];
  const uintptr_t places = (uintptr_t)out->base | (uintptr_t)out->row | (uintptr_t)out->plane | (uintptr_t)out->image;
  return problem->out_type == GCONV_F32 && places % 16 == 0 && !problem->keep_alpha &&
         execution->out_pixel == problem->channels * (int64_t)sizeof(float) && execution->out_channel == sizeof(float) &&
         gconv_is_plain(&problem->epilogue) && are_bare(execution, filter, 1);
}

/* `factors` are the column of the filter, then its row. */
template <int K, int S>
void set_arguments(const gconv_execution *execution, int32_t filter, const float *factors, slide_arguments<K, S> *a) {
  const gconv_problem *problem = execution->problem;
  const int32_t C = problem->channels, shift = shift_of(problem);
  a->common = common_arguments(execution);
  a->common.out += filter * a->common.out_filter;
  a->weights = execution->weights;
  a->first_filter = filter;
  a->lead = problem->rows / 2 * 2;
  a->begin_y = problem->rows - 1 - a->lead - problem->pad_top;
  a->left = -(problem->pad_left + shift) * C;
  a->samples = problem->out_width * C;
  a->reach = a->samples + a->left + (S - 1) * C;
  a->across = (a->samples - 1) / (WARPS * SPAN) + 1;
  a->height = (problem->out_height + 1) / 2 * 2;
  a->plain = is_plain(execution, filter);
  a->divisor = gconv_divisors(problem, execution->host_weights)[filter];
  a->factor = 1.0f / a->divisor;
  a->bias = gconv_biases(problem, execution->host_weights)[filter];
  memcpy(a->column + K - problem->rows, factors, (size_t)problem->rows * sizeof(float));
  memcpy(a->row + shift, factors + problem->rows, (size_t)problem->columns * sizeof(float));
}

template <int K, int S, int C> void launch(const gconv_execution *execution, int32_t filter, const float *factors) {
  const gconv_problem *problem = execution->problem;
  slide_arguments<K, S> a = {};
  set_arguments(execution, filter, factors, &a);
  /* Strips are low, as memory likes rows side by side and the last blocks are to be short, but many times what comes before.
   */
  constexpr int64_t MOST = K <= 15 ? 64 : 96;
  const int64_t rows = (int64_t)a.across * problem->images * problem->planes * a.height;
  const int64_t fair = (rows - 1) / blocks_at_a_time<slide<K, S, C>>(WARPS * LANES, 0) + 1, least = a.lead / 2 + 2;
  a.strip = (int32_t)((fair < least ? least : fair > MOST ? MOST : fair) + 1) / 2 * 2;
  slide<K, S, C><<<(unsigned)((rows - 1) / a.strip + 1), WARPS * LANES, 0, (cudaStream_t)execution->stream>>>(a);
}

typedef void launcher(const gconv_execution *, int32_t filter, const float *factors);

/* The instances: by FRAMES and channels. */
#define CHANNELS(K, S)                                                                                                      \
  { launch<K, S, 1>, launch<K, S, 2>, launch<K, S, 3>, launch<K, S, 4> }
launcher *const instances[SIZES][4] = {CHANNELS(9, 12), CHANNELS(15, 16), CHANNELS(23, 24)};
#undef CHANNELS

/* All filters of a problem that it takes; `factors` are those of factor.h. */
inline void execute(const gconv_execution *execution, const float *factors) {
  const gconv_problem *problem = execution->problem;
  launcher *launch_filter = instances[frame_of(problem)][problem->channels - 1];
  for (int32_t k = 0; k < problem->filters; k++)
    launch_filter(execution, k, factors + (int64_t)k * (problem->rows + problem->columns));
}

/* The bound of a chain of n fused multiply-adds is n * u / (1 - n * u), u = 2^-24; here are two of them. */
inline double error_bound(const gconv_problem *problem) {
  const double down = problem->rows * 0x1.01p-24, along = problem->columns * 0x1.01p-24;
  return problem->structure.residual + problem->structure.growth * ((1 + down) * (1 + along) - 1);
}

} // namespace slide
} // namespace

#endif

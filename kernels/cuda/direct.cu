/* SPDX-License-Identifier: MIT */
/*
 * direct: sums slide down the rows in registers.
 *
 * A row of an interleaved image is W * C samples, and the neighbour of a sample is C samples further on; so a thread takes V
 * neighbouring samples of a row, whatever their channels, and walks down a strip of rows. It holds the sums of the K output
 * rows that the current input row contributes to, K x V of them: the row is loaded once, as V + (K - 1) * C samples, lays
 * row K - 1 - j of the filter on the j-th oldest row of sums, and the oldest is finished and stored. Sums move up one row
 * by being written to another register than they were read from, so that costs nothing. No shared memory, no barrier.
 *
 * The arithmetic: K * K * V fused multiply-adds for V + (K - 1) * C samples loaded, most of them from the L1 cache, where
 * the neighbours' loads have put them. Taps are kernel parameters, which lie in constant memory, so that a multiply-add
 * takes its tap as an operand. Up to K = 5 it is bound by memory bandwidth, from 9 on by the rate of multiply-adds.
 *
 * The order of taps for each sum is that of the definition (r, then s): the exact family.
 *
 * Square filters of odd size to 17, anchored in the middle, stride and dilation 1, 1, 3 or 4 channels. Everything else takes
 * the general kernel at the end: a thread a sample, taps from memory, any problem.
 */
#include "common.cuh"

/* ---- Sliding sums ---- */

/* F filters of K x K taps whose responses are combined (F = 1: or not). */
template <int K, int F> struct sliding_arguments {
  arguments common;
  int32_t strip;   /* output rows of a thread */
  int32_t samples; /* of an output row: Q * C */
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

/* Where in its row sample number `sample` is found, which may be outside; or GCONV_OUTSIDE. */
template <int C> __device__ int near_sample(const gconv_problem &problem, int sample) {
  int x = (sample + C * 1024) / C - 1024; /* rounded down: no window begins further outside */
  int c = sample - x * C;
  x = near_index(problem.border, x, problem.width);
  return x == GCONV_OUTSIDE ? GCONV_OUTSIDE : x * C + c;
}

/* Lays an input row on all sums: sums[j] is of the j-th oldest row; before, it was sums[j + 1]. */
template <int K, int C, int V, int N> __device__ void lay_row(const float *taps, const float (&x)[N], float (&sums)[K][V]) {
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

/* A value of the output from the sums of one or two filters. PLAIN: there is nothing to the epilogue but scale and offset,
 * after the magnitude of two. */
template <int K, int F, bool PLAIN>
__device__ float finish_value(const sliding_arguments<K, F> &a, float first, float second) {
  const gconv_epilogue &epilogue = a.common.problem.epilogue;
  if (PLAIN)
    return fmaf(F == 1 ? first : sqrtf(fmaf(second, second, fmaf(first, first, 0.0f))), epilogue.scale, epilogue.offset);
  float y = gconv_response(first, a.divisor[0], a.bias[0]);
  if (gconv_is_combined(&a.common.problem)) {
    y = gconv_combine_first(epilogue.combine, y);
    if (F > 1)
      y = gconv_combine_next(epilogue.combine, y, gconv_response(second, a.divisor[F - 1], a.bias[F - 1]));
    y = gconv_combine_last(epilogue.combine, y);
  }
  return gconv_finish(y, &epilogue);
}

/* The input rows of a strip, one after the other, as levels. INNER: every sample that the thread sees of a row lies in it,
 * and is loaded in fours, while the row before is laid on. Else each is loaded from its place (near_sample). What it needs
 * of the arguments it holds by value, so that they stay in registers. */
template <class In, int K, int C, int V, bool INNER> struct row_reader {
  using shape = window<K, C, V>;
  using word = decltype(four<In>::word);
  static constexpr int AHEAD = INNER && sizeof(In) < 4 && K <= 7 ? 2 : 1; /* rows under way: enough to hide the latency */

  const uint8_t *in; /* the plane, from sample `left` on if INNER */
  int64_t in_row;
  gconv_border border;
  float level;
  int y, height;
  int source[AHEAD]; /* rows under way, or GCONV_OUTSIDE */
  four<In> words[AHEAD][INNER ? shape::WORDS : 1];
  In samples[INNER ? 1 : 4 * shape::WORDS];
  const int *places; /* of the samples in a row, if not INNER */

  __device__ __forceinline__ row_reader(const arguments &a, const uint8_t *plane, int left, int row,
                                        const int *sample_places)
      : in(INNER ? plane + left * (int64_t)sizeof(In) : plane), in_row(a.in_row), border(a.problem.border),
        level(a.problem.border_level), y(row), height(a.problem.height), places(sample_places) {
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      fetch(i);
  }

  __device__ __forceinline__ void fetch(int slot) {
    source[slot] = (unsigned)y < (unsigned)height ? y : near_index(border, y, height);
    y++;
    if (INNER && source[slot] != GCONV_OUTSIDE)
#pragma unroll
      for (int w = 0; w < shape::WORDS; w++)
        words[slot][w].word = __ldg((const word *)(in + source[slot] * in_row) + w);
    if (!INNER && source[slot] != GCONV_OUTSIDE)
#pragma unroll
      for (int i = 0; i < 4 * shape::WORDS; i++)
        samples[i] = ((const In *)(in + source[slot] * in_row))[places[i] == GCONV_OUTSIDE ? 0 : places[i]];
  }

  __device__ __forceinline__ void next(float (&x)[4 * shape::WORDS]) {
    if (source[0] == GCONV_OUTSIDE) {
#pragma unroll
      for (int w = 0; w < 4 * shape::WORDS; w++)
        x[w] = level;
    } else if (INNER) {
#pragma unroll
      for (int w = 0; w < shape::WORDS; w++)
        words[0][w].unpack(x + 4 * w);
    } else {
#pragma unroll
      for (int w = 0; w < 4 * shape::WORDS; w++)
        x[w] = places[w] == GCONV_OUTSIDE ? level : (float)samples[w];
    }
#pragma unroll
    for (int i = 0; i + 1 < AHEAD; i++) {
      source[i] = source[i + 1];
#pragma unroll
      for (int w = 0; w < (INNER ? shape::WORDS : 1); w++)
        words[i][w] = words[i + 1][w];
    }
    fetch(AHEAD - 1);
  }
};

/* A thread's walk down its strip. INNER: every sample that it sees of a row, and every one that it stores, lies in the row.
 */
template <class In, int K, int C, int V, int F, bool PLAIN, bool INNER>
__device__ __forceinline__ void walk(const sliding_arguments<K, F> &a, const uint8_t *in, uint8_t *out, int first, int left,
                                     int top, int rows) {
  int places[4 * window<K, C, V>::WORDS];
  if (!INNER)
#pragma unroll 1
    for (int i = 0; i < 4 * window<K, C, V>::WORDS; i++)
      places[i] = near_sample<C>(a.common.problem, left + i);
  row_reader<In, K, C, V, INNER> reader(a.common, in, left, top - a.common.problem.pad_top, places);
  const int samples = a.samples;
  const int64_t out_row = a.common.out_row;
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
#pragma unroll
    for (int v = 0; v < V; v += 4) {
      float y[4];
#pragma unroll
      for (int j = 0; j < 4; j++)
        y[j] = finish_value<K, F, PLAIN>(a, sums[0][0][v + j], sums[F - 1][0][v + j]);
      if (C == 4 && a.common.problem.keep_alpha)
        y[3] = near_alpha<In, C>(a.common.problem, in, a.common.in_row, top + i, (first + v) / C);
      gconv_type type = PLAIN ? (sizeof(In) == 1 ? GCONV_U8 : GCONV_F32) : a.common.problem.out_type;
      int count = INNER ? 4 : samples - first - v;
      if (type == GCONV_U8)
        store_four(y, (uint8_t *)out, first + v, count);
      else if (type == GCONV_U16)
        store_four(y, (uint16_t *)out, first + v, count);
      else
        store_four(y, (float *)out, first + v, count);
    }
    out += out_row;
  }
}

/* Block: x over the samples of a row, V each; y over strips. Grid: the same, z over planes of all images. */
template <class In, int K, int C, int V, int F, bool PLAIN>
__global__ void __launch_bounds__(128) slide(const __grid_constant__ sliding_arguments<K, F> a) {
  using shape = window<K, C, V>;
  const gconv_problem &problem = a.common.problem;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * V, top = (blockIdx.y * blockDim.y + threadIdx.y) * a.strip;
  const int left = first + (problem.anchor_x - problem.pad_left) * C - shape::LEFT; /* the first sample of the window */
  const bool inner = left >= 0 && left + 4 * shape::WORDS <= problem.width * C && first + V <= a.samples;
  if (top >= problem.out_height)
    return;
  const int image = blockIdx.z / problem.planes, plane = blockIdx.z - image * problem.planes;
  const uint8_t *in = a.common.in + image * a.common.in_image + plane * a.common.in_plane;
  uint8_t *out = a.common.out + image * a.common.out_image + plane * a.common.out_plane + top * a.common.out_row;
  const int rows = min(a.strip, problem.out_height - top);
  if (__all_sync(0xffffffff, inner)) /* a warp goes one way: both would take the time of both */
    walk<In, K, C, V, F, PLAIN, true>(a, in, out, first, left, top, rows);
  else if (first < a.samples)
    walk<In, K, C, V, F, PLAIN, false>(a, in, out, first, left, top, rows);
}

/* ---- The general kernel ---- */

enum { GENERAL_THREADS = 512 }; /* of a block, at most: more would leave too few registers for each */

struct general_arguments {
  arguments common;
  const float *weights;
};

/* The sum of the filter at `tap`, which lies inside the image. */
template <class In> __device__ float sum_inside(const arguments &a, const place &at, const float *tap) {
  const gconv_problem &problem = a.problem;
  int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  const uint8_t *row = at.in + top * a.in_row + (left * problem.channels + at.c) * (int64_t)sizeof(In);
  int64_t step = (int64_t)problem.dilation_x * problem.channels;
  float sum = 0.0f;
  for (int32_t r = 0; r < problem.rows; r++, row += problem.dilation_y * a.in_row) {
    const In *sample = (const In *)row;
    for (int32_t s = 0; s < problem.columns; s++, sample += step)
      sum = fmaf(__ldg(tap++), (float)*sample, sum);
  }
  return sum;
}

template <class In> __device__ float sum_at_border(const arguments &a, const place &at, const float *tap) {
  const gconv_problem &problem = a.problem;
  int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  float sum = 0.0f;
  for (int64_t r = 0; r < problem.rows; r++)
    for (int64_t s = 0; s < problem.columns; s++)
      sum = fmaf(__ldg(tap++),
                 sample_at<In>(problem, at.in, a.in_row, top + r * problem.dilation_y, left + s * problem.dilation_x, at.c),
                 sum);
  return sum;
}

template <class In, class Out> __device__ void convolve(const general_arguments &g, const place &at, uint8_t *pixel) {
  const arguments &a = g.common;
  const gconv_problem &problem = a.problem;
  int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  bool inside = top >= 0 && left >= 0 && top + (int64_t)(problem.rows - 1) * problem.dilation_y < problem.height &&
                left + (int64_t)(problem.columns - 1) * problem.dilation_x < problem.width;
  store_responses<Out>(a, g.weights, at.c, pixel, [&](int32_t k) {
    const float *taps = g.weights + (int64_t)k * problem.rows * problem.columns;
    return inside ? sum_inside<In>(a, at, taps) : sum_at_border<In>(a, at, taps);
  });
}

/* Grid: x over the samples of a row, y over rows, z over planes of all images; rows and planes beyond the grid are strided.
 */
template <class In, class Out>
__global__ void __launch_bounds__(GENERAL_THREADS) general(const __grid_constant__ general_arguments g) {
  const arguments &a = g.common;
  const gconv_problem &problem = a.problem;
  int64_t sample = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (sample >= (int64_t)problem.out_width * problem.channels)
    return;
  place at;
  at.q = sample / problem.channels;
  at.c = (int32_t)(sample - at.q * problem.channels);
  for (int64_t z = blockIdx.z; z < (int64_t)problem.images * problem.planes; z += gridDim.z) {
    int64_t image = z / problem.planes, plane = z % problem.planes;
    at.in = a.in + image * a.in_image + plane * a.in_plane;
    uint8_t *out = a.out + image * a.out_image + plane * a.out_plane + at.q * a.out_pixel;
    for (at.p = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; at.p < problem.out_height;
         at.p += (int64_t)gridDim.y * blockDim.y) {
      uint8_t *pixel = out + at.p * a.out_row;
      if (problem.keep_alpha && at.c == problem.channels - 1)
        keep_alpha<In, Out>(a, at, pixel);
      else
        convolve<In, Out>(g, at, pixel);
    }
  }
}

/* ---- Launching ---- */

template <class In, class Out> static void launch_general(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  general_arguments a = {common_arguments(execution), execution->weights};
  dim3 block = block_for(problem, GENERAL_THREADS, 64, 4);
  dim3 grid(blocks_for((int64_t)problem->out_width * problem->channels, block.x, INT32_MAX),
            blocks_for(problem->out_height, block.y, 65535),
            blocks_for((int64_t)problem->images * problem->planes, 1, 65535));
  general<In, Out><<<grid, block, 0, (cudaStream_t)execution->stream>>>(a);
}

/* Rows of a strip, given the blocks of a row of strips and how many blocks the device runs at a time: of the numbers of
 * strips that fill it a whole number of times, the one that takes the least time, which is in proportion to the rows that a
 * block walks (its own and the K - 1 before them) times the number of fillings. */
static int32_t strip_rows(const gconv_problem *problem, int64_t blocks_of_a_row, int64_t blocks_at_a_time) {
  int64_t best = problem->out_height, best_cost = INT64_MAX;
  for (int64_t fillings = 1; fillings <= 16; fillings++) {
    int64_t strips = fillings * blocks_at_a_time / blocks_of_a_row;
    strips = strips < 1 ? 1 : strips > problem->out_height ? problem->out_height : strips;
    int64_t rows = (problem->out_height - 1) / strips + 1;
    int64_t needed = (((problem->out_height - 1) / rows + 1) * blocks_of_a_row - 1) / blocks_at_a_time + 1;
    int64_t cost = (rows + problem->rows - 1 + 2) * needed; /* 2: for starting */
    if (cost < best_cost) {
      best_cost = cost;
      best = rows;
    }
  }
  int64_t least = (problem->out_height - 1) / 65535 + 1;
  return (int32_t)(best > least ? best : least);
}

/* Whether scale and offset are all there is to the epilogue of filters first .. first + count - 1, after a magnitude if they
 * are combined. */
static bool is_plain(const gconv_execution *execution, int32_t first, int32_t count) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  bool plain = epilogue->scale_low == 0 && !epilogue->absolute && !epilogue->center;
  for (int32_t k = first; k < first + count; k++)
    plain = plain && gconv_divisors(problem, execution->host_weights)[k] == 1 &&
            gconv_biases(problem, execution->host_weights)[k] == 0;
  return plain && (count == 1 ? !gconv_is_combined(problem) : epilogue->combine == GCONV_COMBINE_MAGNITUDE);
}

/* Launches for the filters first .. first + F - 1, whose output is that of filter `first`. */
template <class In, int K, int C, int V, int F, bool PLAIN>
static void launch_slide(const gconv_execution *execution, int32_t first) {
  const gconv_problem *problem = execution->problem;
  sliding_arguments<K, F> a = {};
  a.common = common_arguments(execution);
  a.common.out += first * a.common.out_filter;
  a.samples = problem->out_width * C;
  for (int f = 0; f < F; f++) {
    const float *taps = execution->host_weights + (int64_t)(first + f) * K * K;
    for (int t = 0; t < K * K; t++)
      a.taps[f][t] = taps[t];
    a.divisor[f] = gconv_divisors(problem, execution->host_weights)[first + f];
    a.bias[f] = gconv_biases(problem, execution->host_weights)[first + f];
  }
  int64_t threads = (a.samples - 1) / V + 1;
  dim3 block(threads > 96 ? 128 : threads > 32 ? 64 : 32);
  block.y = 128 / block.x;
  int64_t across = (threads - 1) / block.x + 1, planes = (int64_t)problem->images * problem->planes;
  int device = 0, multiprocessors = 1, blocks = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, slide<In, K, C, V, F, PLAIN>, 128, 0);
  a.strip = strip_rows(problem, across * planes, (int64_t)multiprocessors * (blocks < 1 ? 1 : blocks) * block.y);
  dim3 grid((unsigned)across, blocks_for(problem->out_height, (int64_t)a.strip * block.y, 65535), (unsigned)planes);
  slide<In, K, C, V, F, PLAIN><<<grid, block, 0, (cudaStream_t)execution->stream>>>(a);
}

/* Plain epilogues from u8 to u8 and from f32 to f32 have instances of their own. */
template <class In, int K, int C, int F> static void launch_filters(const gconv_execution *execution, int32_t first) {
  constexpr int V = sizeof(In) == 1 && K <= 5 && F == 1 ? 8 : 4;
  const gconv_problem *problem = execution->problem;
  if (sizeof(In) != 2 && problem->in_type == problem->out_type && is_plain(execution, first, F))
    launch_slide<In, K, C, V, F, sizeof(In) != 2>(execution, first);
  else
    launch_slide<In, K, C, V, F, false>(execution, first);
}

template <class In, int K, int C> static void launch_all(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  if (K <= 7 && problem->filters == 2 && gconv_is_combined(problem))
    launch_filters<In, K, C, K <= 7 ? 2 : 1>(execution, 0);
  else
    for (int32_t k = 0; k < problem->filters; k++)
      launch_filters<In, K, C, 1>(execution, k);
}

/* Whether the sliding kernel can take the problem: see the head of this file. */
static bool slides(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  int64_t size = problem->out_type == GCONV_U8 ? 1 : problem->out_type == GCONV_U16 ? 2 : 4, K = problem->rows;
  bool shape = K == problem->columns && K % 2 == 1 && K >= 3 && K <= 17 && problem->channels != 2;
  bool plain = problem->stride_y == 1 && problem->stride_x == 1 && problem->dilation_y == 1 && problem->dilation_x == 1;
  /* Fours of input samples lie at multiples of four for every thread only if the shift of the output is one. */
  bool aligned = problem->anchor_x == K / 2 && (problem->pad_left - problem->anchor_x) * problem->channels % 4 == 0;
  bool dense = execution->out_pixel == problem->channels * size && execution->out_channel == size;
  bool stored = dense && (!problem->keep_alpha || problem->channels == 4);
  /* A window reaches less than a size outside on either side, with what full or explicit padding may add. */
  bool large = problem->width >= 64 && problem->height >= 64 && problem->pad_left <= 24 && problem->pad_top <= 24 &&
               problem->out_width <= problem->width + 24 && problem->out_height <= problem->height + 24;
  bool narrow = ((int64_t)problem->width + problem->out_width + 1024) * problem->channels < INT32_MAX;
  bool gridded = (int64_t)problem->images * problem->planes <= 65535 && problem->out_height <= 8 * 65535 &&
                 (int64_t)problem->height + problem->out_height < INT32_MAX - 1024;
  int32_t combined = gconv_is_combined(problem) ? problem->filters : 1;
  return shape && plain && aligned && stored && large && narrow && gridded && (combined == 1 || (combined == 2 && K <= 7));
}

typedef void launcher(const gconv_execution *);

/* The instances, by type, channels (1, 3, 4) and size (3, 5 .. 17). */
#define SIZES(In, C)                                                                                                        \
  {                                                                                                                         \
    launch_all<In, 3, C>, launch_all<In, 5, C>, launch_all<In, 7, C>, launch_all<In, 9, C>, launch_all<In, 11, C>,          \
        launch_all<In, 13, C>, launch_all<In, 15, C>, launch_all<In, 17, C>                                                 \
  }
#define CHANNELS(In)                                                                                                        \
  { SIZES(In, 1), SIZES(In, 3), SIZES(In, 4) }
static launcher *const sliding[3][3][8] = {CHANNELS(uint8_t), CHANNELS(uint16_t), CHANNELS(float)};
#define OUTPUTS(In)                                                                                                         \
  { launch_general<In, uint8_t>, launch_general<In, uint16_t>, launch_general<In, float> }
static launcher *const anything[3][3] = {OUTPUTS(uint8_t), OUTPUTS(uint16_t), OUTPUTS(float)};

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  if (slides(execution))
    sliding[problem->in_type][problem->channels == 1 ? 0 : problem->channels - 2][(problem->rows - 3) / 2](execution);
  else
    anything[problem->in_type][problem->out_type](execution);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

static const char *supports(const gconv_problem *problem) {
  (void)problem;
  return NULL;
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  (void)machine;
  return 0.01 + gconv_problem_flop(problem) * 5e-10; /* a launch; 2 TFLOP/s */
}

/* Members in the order of the structure: C++17 has no names here. */
extern "C" const gconv_algorithm gconv_algorithm_cuda_direct = {
    {"direct", "cuda", "sums slide down the rows in registers; taps as operands", true},
    NULL, /* available */
    supports,
    NULL, /* workspace_bytes */
    execute,
    cost,
    gconv_chain_bound,
    NULL, /* prepared_floats */
    NULL, /* prepare */
    NULL, /* row_step */
    NULL, /* acquire */
    NULL, /* dismiss */
    0,    /* start_ms */
    NULL, /* started */
};

/* SPDX-License-Identifier: MIT */
/*
 * tiled: a block fetches a tile of the input into shared memory, with its halo and with zeros outside the image, some
 * channels at a time. From it, the block computes a tile of outputs of F filters.
 *
 *       32 columns                  shared memory, for some channels
 *     +------------+                +--------------------------------+
 *     | warp 0     | step 0         | (32 - 1) stride + reach columns|      reach = (S - 1) dilation + 1
 *     | warp 1 ... |                | (4 N - 1) stride + reach rows  |
 *     +------------+                |                                |
 *     | warp 0 ... | step 1 ... N   +--------------------------------+
 *     +------------+
 *
 * A thread has a pixel of each of N steps, 4 rows apart, and F filters. So a warp reads 32 neighbouring samples of a row.
 * For each tap, a thread does N loads from shared memory, F / 4 loads of four weights, and F * N multiply-adds, and has
 * nothing to check. 64 multiply-adds of a warp take 16 cycles of a multiprocessor; its 8 loads take 8.
 *
 * It is the fastest for large filters on small images, which do thousands of multiply-adds for each sample. If images are so
 * small that tiles of 32 x 16 stay half empty, direct or gemm are faster.
 */
#include "weights.cuh"

#include <cuda_pipeline_primitives.h>

namespace {

constexpr int THREADS = 128, COLUMNS = 32, WARPS = THREADS / 32;
constexpr int TAPS = 64;                /* taps whose weights are in shared memory at a time */
constexpr int SHARED_FLOATS = 10 << 10; /* of a tile: with 16 x 64 weights, 44 KiB */

struct arguments : block_arguments {
  int64_t tiles_x, tiles_y; /* of pixels */
  int channels;             /* in shared memory at a time */
  int rows, pitch;          /* of the tile of one channel */
};

/* Rows of the tile that N steps need, and floats of a row. */
int tile_rows(const gconv_layer_problem *problem, int N) {
  return (N * WARPS - 1) * problem->stride_y + (problem->rows - 1) * problem->dilation_y + 1;
}

int tile_pitch(const gconv_layer_problem *problem) {
  return (COLUMNS - 1) * problem->stride_x + (problem->columns - 1) * problem->dilation_x + 1;
}

/* Starts to fetch `count` channels of the tile whose corner is (top, left). All copies are under way at the same time. */
DEVICE void fetch(const arguments &a, float *tile, const float *in, int count, int top, int left) {
  const gconv_layer_problem &problem = a.problem;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int c = 0; c < count; c++, tile += a.rows * a.pitch, in += (int64_t)problem.height * problem.width)
    for (int row = warp; row < a.rows; row += WARPS) {
      const bool inside = (unsigned)(top + row) < (unsigned)problem.height;
      const float *from = in + (int64_t)(top + row) * problem.width + left;
      for (int i = lane; i < a.pitch; i += 32)
        if (inside && (unsigned)(left + i) < (unsigned)problem.width)
          __pipeline_memcpy_async(tile + row * a.pitch + i, from + i, sizeof(float));
        else
          tile[row * a.pitch + i] = 0;
    }
  __pipeline_commit();
}

/* Adds all taps of `count` channels. `next` points to their weights in global memory, `x` to the thread's first sample. */
template <int F, int N>
DEVICE void add_channels(const arguments &a, float (&sums)[F][N], float *weights, const float *next, const float *x,
                         int count) {
  const gconv_layer_problem &problem = a.problem;
  const int taps = count * problem.rows * problem.columns, step = WARPS * problem.stride_y * a.pitch;
  const int row_step = problem.dilation_y * a.pitch, channel_step = a.rows * a.pitch;
  int r = 0, s = 0, channel = 0, row = 0, at = 0;
  for (int first = 0; first < taps; first += TAPS) {
    const int some = min(taps - first, (int)TAPS);
    __pipeline_wait_prior(0);
    __syncthreads(); /* the tile has arrived, and all threads have used the weights before */
    copy_weights(weights, next + (int64_t)first * F, some * F);
    __syncthreads();
#pragma unroll(N == 4 ? 2 : 8) /* with few threads, more loads are under way at a time */
    for (int i = 0; i < some; i++) {
      float samples[N];
      UNROLLED_FOR (int n = 0; n < N; n++)
        samples[n] = x[at + n * step];
      add_tap<F, N>(sums, weights + i * F, samples);
      at += problem.dilation_x;
      if (++s == problem.columns) {
        s = 0;
        at = row += row_step;
        if (++r == problem.rows) {
          r = 0;
          at = row = channel += channel_step;
        }
      }
    }
  }
}

template <int F, int N> __global__ void __launch_bounds__(THREADS) convolve(const __grid_constant__ arguments a) {
  extern __shared__ __align__(16) float shared[];
  float *weights = shared, *tile = shared + TAPS * F;
  const gconv_layer_problem &problem = a.problem;
  int64_t number = block_number();
  const int64_t block = number % a.blocks, tile_x = (number /= a.blocks) % a.tiles_x,
                tile_y = (number /= a.tiles_x) % a.tiles_y;
  const int64_t group = (number /= a.tiles_y) % problem.groups, image = number / problem.groups;
  if (image >= problem.images)
    return;
  const int p = (int)tile_y * N * WARPS + threadIdx.x / 32, q = (int)tile_x * COLUMNS + threadIdx.x % 32;
  const int top = (int)tile_y * N * WARPS * problem.stride_y - problem.pad_top;
  const int left = (int)tile_x * COLUMNS * problem.stride_x - problem.pad_left;
  const int channels = problem.channels / problem.groups, taps = problem.rows * problem.columns;
  const float *in = a.in + (image * problem.channels + group * channels) * problem.height * problem.width;
  const float *from = a.weights + (group * a.blocks + block) * F * channels * taps;
  const float *x = tile + threadIdx.x / 32 * problem.stride_y * a.pitch + threadIdx.x % 32 * problem.stride_x;
  float sums[F][N] = {};
  for (int c = 0; c < channels; c += a.channels) {
    const int count = min(channels - c, a.channels);
    __syncthreads();
    fetch(a, tile, in + (int64_t)c * problem.height * problem.width, count, top, left);
    add_channels<F, N>(a, sums, weights, from + (int64_t)c * taps * F, x, count);
  }
  const int64_t filters = problem.filters / problem.groups, first = group * filters + block * F;
  const int64_t plane = (int64_t)problem.out_height * problem.out_width;
  float *out = a.out + (image * problem.filters + first) * plane + (int64_t)p * problem.out_width + q;
  UNROLLED_FOR (int k = 0; k < F; k++)
    if (block * F + k < filters && q < problem.out_width) {
      const float bias = __ldg(a.biases + first + k);
      UNROLLED_FOR (int n = 0; n < N; n++)
        if (p + n * WARPS < problem.out_height)
          out[k * plane + (int64_t)n * WARPS * problem.out_width] = activate(problem, sums[k][n] + bias);
    }
}

/* ---- Launching ---- */

/* Tiles of N steps. A block takes one tile for a block of filters. */
int64_t tiles_down(const gconv_layer_problem *problem, int N) {
  return divide_up(problem->out_height, N * WARPS);
}

int64_t blocks_of(const gconv_layer_problem *problem, int N) {
  return divide_up(problem->out_width, COLUMNS) * tiles_down(problem, N) * blocks_of_group(problem) * problem->groups *
         problem->images;
}

/* Returns as many steps as registers allow, but fewer if that would leave multiprocessors idle. */
int steps_of(const gconv_layer_problem *problem) {
  int N = 4;
  while (N > 1 && blocks_of(problem, N) < MANY_BLOCKS)
    N /= 2;
  return N;
}

int64_t tile_floats(const gconv_layer_problem *problem, int N) {
  return (int64_t)tile_rows(problem, N) * tile_pitch(problem);
}

/* Returns the channels at a time: as many as fit, but not more than have taps for one load of weights. */
int channels_at_once(const gconv_layer_problem *problem, int N) {
  int64_t channels = problem->channels / problem->groups, taps = (int64_t)problem->rows * problem->columns;
  int64_t fitting = SHARED_FLOATS / tile_floats(problem, N), wanted = divide_up(TAPS, taps);
  int64_t most = fitting < wanted ? fitting : wanted;
  return (int)(most < channels ? most : channels);
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  arguments a = {block_arguments_of(e)};
  a.tiles_x = divide_up(problem->out_width, COLUMNS);
  a.pitch = tile_pitch(problem);
  return launch_for(problem, steps_of(problem), [&]<int F, int N>() {
    a.tiles_y = tiles_down(problem, N);
    a.channels = channels_at_once(problem, N);
    a.rows = tile_rows(problem, N);
    const size_t bytes = (TAPS * F + (size_t)a.channels * a.rows * a.pitch) * sizeof(float);
    convolve<F, N><<<grid_of(blocks_of(problem, N)), THREADS, bytes, (cudaStream_t)e->stream>>>(a);
  });
}

const char *supports(const gconv_layer_problem *problem) {
  const char *obstacle = block_obstacle(problem);
  if (obstacle)
    return obstacle;
  return tile_floats(problem, steps_of(problem)) > SHARED_FLOATS ? "filters or strides whose tile exceeds 40 KB" : NULL;
}

/* As that of direct, but for whole tiles, without checks. Each row of a tile that a warp fetches takes as long as 65
 * instructions. One or two blocks on a multiprocessor do not keep it busy. */
double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const int steps = steps_of(problem);
  const double F = block_filters(problem), N = steps, plane_taps = (double)problem->rows * problem->columns;
  const double blocks = (double)blocks_of(problem, steps);
  const double fetching = (double)tile_rows(problem, steps) / WARPS * 65 / plane_taps;
  const double instructions = (F * N + F / 4 + N + 5 + fetching) * (double)gconv_layer_taps(problem) + 1500;
  const double late = lateness(blocks, F < 12 ? 7 : F < 16 ? 5 : 4, machine) * (blocks <= 2 * machine->units ? 1.5 : 1);
  const double outputs = (double)problem->images * problem->out_height * problem->out_width * problem->filters;
  return machine->launch_ms + blocks * THREADS * instructions * late / (0.75 * machine->fma_per_ms) +
         outputs * 4 / machine->bytes_per_ms;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_tiled = {
    .info = {"tiled", "cuda", "tiles of the input with their halo in shared memory", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};

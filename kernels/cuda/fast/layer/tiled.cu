/* SPDX-License-Identifier: MIT */
/*
 * tiled: for some channels at a time, a block copies to shared memory a tile of the input with its halo, with zeros outside
 * the image, and the weights of these channels. From them, it computes a tile of outputs of F filters.
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
 * For each tap, a thread does N loads from shared memory, F / 4 loads of four weights, and F * N multiply-adds, without any
 * check for the border. With F = 16 and N = 4, these are 64 multiply-adds, which take a multiprocessor 16 cycles for a warp,
 * and 8 loads, which take 8 cycles. For filters of 3 columns (not dilated), the loop over columns is unrolled.
 *
 * The part that is in shared memory at a time is a stage: some channels or, if filters are large, some rows of the filters
 * of one channel. If two stages fit, the next stage is copied while the current one is used.
 *
 * tiled is the fastest exact algorithm for filters of few channels, and for large filters on small images, which do
 * thousands of multiply-adds for each sample. If images are so small that tiles of 32 x 16 stay half empty, direct or gemm
 * are faster.
 */
#include "../../core/planes.cuh"
#include "../../core/weights.cuh"

#include <algorithm>

namespace {

constexpr int THREADS = 128, COLUMNS = 32, WARPS = THREADS / 32;
/* Possible sizes of a stage, in floats. find_stage() takes the first in which a stage with one row of the filters fits. With
 * the first size, a multiprocessor holds as many blocks as registers allow; with the last, a block has one stage only. */
constexpr int STAGE_FLOATS[] = {3584, 6144, 12288};
constexpr int TAPS = 32; /* a stage has at least this many taps, if they fit */

struct tiled_arguments : block_arguments {
  int64_t tiles_x, tiles_y;     /* tiles of pixels, in both directions */
  int32_t channels;             /* channels of a stage */
  int32_t filter_rows;          /* filter rows of a stage: all, unless it has one channel */
  int32_t rows;                 /* rows of the tile of a channel */
  int32_t pitch, plane, floats; /* floats of a row of the tile, of a channel, and of a stage */
  int32_t ahead; /* 1: the next stage is fetched while this one is used; 0: there is room for one stage only, or only one is
                    needed */
  int32_t shift; /* columns that a tile begins earlier, to copy 16 bytes at a time; -1: 4 bytes are copied at a time */
};

/* tile_rows() returns how many input rows a tile needs for N steps and `filter_rows` rows of a filter. tile_pitch() returns
 * the floats of such an input row. */
int64_t tile_rows(const gconv_layer_problem *problem, int N, int filter_rows) {
  return (int64_t)(N * WARPS - 1) * problem->stride_y + (int64_t)(filter_rows - 1) * problem->dilation_y + 1;
}

int64_t tile_pitch(const gconv_layer_problem *problem) {
  const int64_t needed =
      (int64_t)(COLUMNS - 1) * problem->stride_x + (int64_t)(problem->columns - 1) * problem->dilation_x + 1;
  return (needed + 3 + 3) / 4 * 4; /* 3 for the shift, 3 to round up */
}

/* A stage: its first channel `c` and its channels, its first filter row `r` and its rows. */
struct stage {
  int c, channels, r, rows;
};
DEVICE stage stage_of(const tiled_arguments &a, int number) {
  const gconv_layer_problem &problem = a.problem;
  const int parts = (problem.rows + a.filter_rows - 1) / a.filter_rows;
  const int c = number / parts * a.channels, r = number % parts * a.filter_rows;
  return {c, min(problem.channels / problem.groups - c, a.channels), r, min(problem.rows - r, a.filter_rows)};
}

/* Starts to copy a stage: tiles of its channels, whose corner is (top, left), and then weights. */
template <int F>
DEVICE void fetch(const tiled_arguments &a, const stage &of, const float *in, const float *weights, int top, int left,
                  float *to) {
  const gconv_layer_problem &problem = a.problem;
  const planes_part part = {in + (int64_t)of.c * problem.height * problem.width,
                            problem.height,
                            problem.width,
                            of.channels,
                            top + of.r * problem.dilation_y,
                            left - max(a.shift, 0),
                            a.rows - (a.filter_rows - of.rows) * problem.dilation_y,
                            a.pitch};
  const planes_copy copy = {to, a.pitch, a.plane, (int)threadIdx.x / 32, WARPS};
  if (a.shift >= 0)
    copy_planes<4>(part, copy);
  else
    copy_planes<1>(part, copy);
  const float *from = weights + ((int64_t)of.c * problem.rows + of.r) * problem.columns * F;
  const int floats = of.channels * of.rows * problem.columns * F;
  for (int i = 4 * (int)threadIdx.x; i < floats; i += 4 * THREADS)
    copy_async<16>(to + a.channels * a.plane + i, from + i);
}

/* Adds the taps of a row of the filters. x: the sample of the first tap; step: floats from a pixel of the thread to the
 * next. S: columns of a filter whose taps are neighbours; 0: any. */
template <int F, int N, int S>
DEVICE void add_filter_row(const gconv_layer_problem &problem, float (&sums)[F][N], const float *weights, const float *x,
                           int step) {
  float samples[N];
  if (S > 0) {
    UNROLLED_FOR (int s = 0; s < S; s++) {
      UNROLLED_FOR (int n = 0; n < N; n++)
        samples[n] = x[n * step + s];
      add_tap<F, N>(sums, weights + s * F, samples);
    }
  } else {
#pragma unroll(N == 4 ? 2 : 8) /* with few pixels, more loads are under way at a time */
    for (int s = 0; s < problem.columns; s++, x += problem.dilation_x) {
      UNROLLED_FOR (int n = 0; n < N; n++)
        samples[n] = x[n * step];
      add_tap<F, N>(sums, weights + s * F, samples);
    }
  }
}

template <int F, int N, int S>
__global__ void __launch_bounds__(THREADS, 4) convolve(const __grid_constant__ tiled_arguments a) {
  extern __shared__ __align__(16) float shared[];
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
  const int channels = problem.channels / problem.groups;
  const int stages = (channels + a.channels - 1) / a.channels * ((problem.rows + a.filter_rows - 1) / a.filter_rows);
  const float *in = a.in + (image * problem.channels + group * channels) * problem.height * problem.width;
  const float *weights = a.weights + (group * a.blocks + block) * F * channels * problem.rows * problem.columns;
  const int own =
      (int)threadIdx.x / 32 * problem.stride_y * a.pitch + (int)threadIdx.x % 32 * problem.stride_x + max(a.shift, 0);
  const int step = WARPS * problem.stride_y * a.pitch, down = problem.dilation_y * a.pitch;
  float sums[F][N] = {};
  ROLLED_FOR (int i = -a.ahead; i < stages; i++) {
    if (i + a.ahead < stages)
      fetch<F>(a, stage_of(a, i + a.ahead), in, weights, top, left, shared + ((i + 1) & a.ahead) * a.floats);
    commit_copies();
    if (i < 0)
      continue;
    if (a.ahead)
      await_copies<1>();
    else
      await_copies<0>();
    __syncthreads();
    const stage of = stage_of(a, i);
    const float *tile = shared + (i & a.ahead) * a.floats, *w = tile + a.channels * a.plane;
    for (int c = 0; c < of.channels; c++, tile += a.plane) {
      const float *x = tile + own;
      for (int r = 0; r < of.rows; r++, x += down, w += problem.columns * F)
        add_filter_row<F, N, S>(problem, sums, w, x, step);
    }
    __syncthreads();
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

/* A block takes one tile of N steps for a block of filters. */
int64_t blocks_of(const gconv_layer_problem *problem, int N) {
  return divide_up(problem->out_width, COLUMNS) * divide_up(problem->out_height, N * WARPS) * blocks_of_group(problem) *
         problem->groups * problem->images;
}

/* Returns as many steps as registers allow, but fewer if that would leave multiprocessors idle. */
int steps_of(const gconv_layer_problem *problem) {
  int N = 4;
  while (N > 1 && blocks_of(problem, N) < MANY_BLOCKS)
    N /= 2;
  return N;
}

/* Returns the floats of `filter_rows` rows of a channel's filters, and of the samples that they need. */
int64_t part_floats(const gconv_layer_problem *problem, int N, int filter_rows) {
  return tile_rows(problem, N, filter_rows) * tile_pitch(problem) +
         (int64_t)filter_rows * problem->columns * block_filters(problem);
}

/* Sets the channels and rows of a stage. Returns false if not even one row of the filters fits. */
bool find_stage(const gconv_layer_problem *problem, int N, tiled_arguments *a) {
  int64_t most = 0;
  for (int64_t floats : STAGE_FLOATS)
    if (most == 0 && part_floats(problem, N, 1) <= floats)
      most = floats;
  if (most == 0)
    return false;
  a->filter_rows = problem->rows;
  while (part_floats(problem, N, a->filter_rows) > most)
    a->filter_rows = (a->filter_rows + 1) / 2;
  const int64_t all = problem->channels / problem->groups, taps = (int64_t)problem->rows * problem->columns;
  const int64_t fitting = a->filter_rows == problem->rows ? most / part_floats(problem, N, problem->rows) : 1;
  const int64_t wanted = divide_up(all, 4) * taps > TAPS ? divide_up(all, 4) : divide_up(TAPS, taps);
  a->channels = (int32_t)std::min({wanted, fitting, all});
  a->pitch = (int32_t)tile_pitch(problem);
  a->rows = (int32_t)tile_rows(problem, N, a->filter_rows);
  a->plane = (a->rows * a->pitch + 3) / 4 * 4; /* weights follow */
  a->floats = a->channels * (a->plane + a->filter_rows * problem->columns * block_filters(problem));
  a->ahead = 2 * a->floats <= STAGE_FLOATS[2] && (a->channels < all || a->filter_rows < problem->rows);
  return true;
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  tiled_arguments a = {block_arguments_of(e)};
  const int steps = steps_of(problem);
  a.tiles_x = divide_up(problem->out_width, COLUMNS);
  a.tiles_y = divide_up(problem->out_height, steps * WARPS);
  find_stage(problem, steps, &a);
  a.shift = problem->width % 4 || (uintptr_t)e->in % 16 ? -1 : (4 - problem->pad_left % 4) % 4;
  const unsigned bytes = (unsigned)((a.ahead + 1) * a.floats * sizeof(float));
  const dim3 grid = grid_of(blocks_of(problem, steps));
  return launch_for(problem, steps, [&]<int F, int N>() {
    if (problem->columns == 3 && problem->dilation_x == 1)
      convolve<F, N, 3><<<grid, THREADS, bytes, (cudaStream_t)e->stream>>>(a);
    else
      convolve<F, N, 0><<<grid, THREADS, bytes, (cudaStream_t)e->stream>>>(a);
  });
}

const char *supports(const gconv_layer_problem *problem) {
  const char *obstacle = block_obstacle(problem);
  if (obstacle)
    return obstacle;
  tiled_arguments a;
  return find_stage(problem, steps_of(problem), &a) ? NULL : "filters or strides whose tile exceeds 48 KB";
}

/* Counts instructions, like cost() of direct.cu. But half-empty tiles cost as much as full ones, and taps need no check for
 * the border. A warp loads a row of a tile in the time of 15 instructions. A multiprocessor needs more than two blocks. */
double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const int steps = steps_of(problem);
  tiled_arguments a;
  find_stage(problem, steps, &a);
  const double F = block_filters(problem), N = steps, stage_taps = (double)a.filter_rows * problem->columns;
  const double blocks = (double)blocks_of(problem, steps);
  const double fetching = (double)a.rows / WARPS * 15 / stage_taps;
  const double counting = problem->columns == 3 && problem->dilation_x == 1 ? 2 : 5;
  const double instructions = (F * N + F / 4 + N + counting + fetching) * (double)gconv_layer_taps(problem) + 1500;
  const double late = lateness(blocks, F < 12 ? 7 : F < 16 ? 5 : 4, machine) * (blocks <= 4 * machine->units ? 2 : 1);
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

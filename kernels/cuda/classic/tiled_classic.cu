/* SPDX-License-Identifier: MIT */
/*
 * tiled-classic: the tile of the textbooks. A block copies the samples that its outputs need into shared memory, once; then
 * each of its threads makes one output from there.
 *
 *      input                                  tile in shared memory              output
 *      . . . . . . . . . . . .                +------------------+
 *      . . +--------------+ . .     1. all    |  halo            |    2. each    +----------+
 *      . . | 32 + S - 1   | . .     threads   |   +----------+   |    thread     |          |
 *      . . | x 16 + R - 1 | . .     ------>   |   | 32 x 16  |   |    ------>    | 32 x 16  |
 *      . . +--------------+ . .     copy      |   +----------+   |    sums up    +----------+
 *      . . . . . . . . . . . .                +------------------+
 *
 * Arithmetic: 2 R S flop per output. Bytes: (32 + S - 1)(16 + R - 1) samples are read for 512 outputs, 1.2 each at 3 x
 * 3, 2.8 at 31 x 31. Borders and types of samples are resolved on the way into the tile, once per sample and no longer once
 * per tap.
 *
 * The bound: each multiply-add reads a sample from shared memory, 4 bytes. A multiprocessor gets 128 bytes per cycle from
 * there, 32 samples, and could do 128 multiply-adds. So this kernel reaches a quarter of the peak at most. A thread that
 * makes several outputs can use a sample several times, once it is in a register: that is what fast/tiled.cu does.
 *
 * The 32 threads of a warp have neighbouring columns, so they read 32 neighbouring samples, which lie in different banks of
 * shared memory. With stride 2, two threads share a bank, and wait for each other.
 */
#include "classic.cuh"

namespace {

enum { BLOCK_WIDTH = 32, BLOCK_HEIGHT = 16 };

struct parameters : arguments {
  const float *weights;
  int32_t rows, columns; /* rows and columns of the tile */
};

/* Fills the tile, whose first sample is at row `top` and column `left`; both may be outside the image. */
template <class In> DEVICE void fill(const parameters &a, const place &at, int64_t top, int64_t left, float *tile) {
  for (int y = threadIdx.y; y < a.rows; y += blockDim.y)
    for (int x = threadIdx.x; x < a.columns; x += blockDim.x)
      tile[y * a.columns + x] = sample_at<In>(a.problem, at.in, a.in_row, top + y, left + x, at.c);
}

/* Returns the sum of filter k; `corner` is the sample under its first tap. */
DEVICE float sum_of_filter(const parameters &a, const float *corner, int32_t k) {
  const gconv_problem &problem = a.problem;
  const float *tap = a.weights + (int64_t)k * problem.rows * problem.columns;
  float sum = 0.0f;
  for (int r = 0; r < problem.rows; r++)
    for (int s = 0; s < problem.columns; s++)
      sum = fmaf(__ldg(tap++), corner[r * problem.dilation_y * a.columns + s * problem.dilation_x], sum);
  return sum;
}

template <class In, class Out> __global__ void __launch_bounds__(1024) convolve(const __grid_constant__ parameters a) {
  extern __shared__ float tile[];
  const gconv_problem &problem = a.problem;
  const int64_t channels = (int64_t)problem.images * problem.planes * problem.channels;
  const int64_t rows = (int64_t)gridDim.y * blockDim.y, columns = (int64_t)gridDim.x * blockDim.x;
  const float *corner = tile + threadIdx.y * problem.stride_y * a.columns + threadIdx.x * problem.stride_x;
  for (int64_t z = blockIdx.z; z < channels; z += gridDim.z)
    for (int64_t p = (int64_t)blockIdx.y * blockDim.y; p < problem.out_height; p += rows)
      for (int64_t q = (int64_t)blockIdx.x * blockDim.x; q < problem.out_width; q += columns) {
        uint8_t *out;
        place at = begin_channel(a, z, &out);
        fill<In>(a, at, p * problem.stride_y - problem.pad_top, q * problem.stride_x - problem.pad_left, tile);
        __syncthreads(); /* the tile is full */
        at.p = p + threadIdx.y;
        at.q = q + threadIdx.x;
        if (at.p < problem.out_height && at.q < problem.out_width)
          store_sample<In, Out>(a, a.weights, at, out + at.p * a.out_row + at.q * a.out_pixel,
                                [&](int32_t k) { return sum_of_filter(a, corner, k); });
        __syncthreads(); /* no thread needs it any longer */
      }
}

/* ---- The host ---- */

/* Samples from the first to the last one under the taps of `outputs` neighbouring outputs. */
int64_t reach_of(int64_t outputs, int64_t stride, int64_t taps, int64_t dilation) {
  return (outputs - 1) * stride + (taps - 1) * dilation + 1;
}

int64_t tile_bytes(const gconv_problem *problem, dim3 block) {
  const int64_t rows = reach_of(block.y, problem->stride_y, problem->rows, problem->dilation_y);
  const int64_t columns = reach_of(block.x, problem->stride_x, problem->columns, problem->dilation_x);
  const int64_t most = 1 << 20; /* so that the product cannot overflow */
  return rows > most || columns > most ? INT64_MAX : rows * columns * (int64_t)sizeof(float);
}

/* Returns the block that the user asked for, or 32 x 16; it has fewer rows if its tile would not fit into shared memory. */
dim3 choose_block(const gconv_problem *problem) {
  const int64_t most = (int64_t)shared_limit();
  dim3 block = block_for(problem, 1024, BLOCK_WIDTH, BLOCK_HEIGHT);
  if (tile_bytes(problem, block) > most)
    block = dim3(BLOCK_WIDTH, BLOCK_HEIGHT);
  while (block.y > 1 && tile_bytes(problem, block) > most)
    block.y /= 2;
  return block;
}

template <class In, class Out> void launch(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const dim3 block = choose_block(problem);
  const size_t bytes = (size_t)tile_bytes(problem, block);
  const parameters a = {common_arguments(execution), execution->weights,
                        (int32_t)reach_of(block.y, problem->stride_y, problem->rows, problem->dilation_y),
                        (int32_t)reach_of(block.x, problem->stride_x, problem->columns, problem->dilation_x)};
  auto *kernel = convolve<In, Out>;
  if (bytes > 48 << 10) /* more needs permission; if this call fails, the launch fails, too */
    allow_shared(kernel, (int64_t)bytes);
  kernel<<<grid_of(problem, block), block, bytes, (cudaStream_t)execution->stream>>>(a);
}

gconv_status execute(const gconv_execution *execution) {
  return launch_by_types(execution->problem, [&](auto in, auto out) { launch<decltype(in), decltype(out)>(execution); });
}

const char *supports(const gconv_problem *problem) {
  const bool fits = tile_bytes(problem, choose_block(problem)) <= (int64_t)shared_limit();
  return fits ? NULL : "its tile would not fit in the shared memory of the GPU";
}

/* Counts 30 instructions for a sample of the tile and 5 for a tap. These are early guesses, a third of what was counted.
 * `auto` never takes a classic by its own name; tiled and direct use this cost for problems that they leave to it. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const dim3 block = choose_block(problem);
  const double filled = (double)tile_bytes(problem, block) / sizeof(float) / (block.x * block.y);
  return classic_ms(problem, machine, 30 * filled / problem->filters + 5.0 * problem->rows * problem->columns + 60);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_tiled_classic = {
    .info = {"tiled-classic", "cuda", "a tile with its halo in shared memory, a thread an output: to learn from", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .classic = true,
};

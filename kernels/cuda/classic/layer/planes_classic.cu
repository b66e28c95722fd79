/* SPDX-License-Identifier: MIT */
/*
 * planes-classic: a plain 2-D convolution, by a grid of two dimensions. Threads go over the rows and columns of the output
 * in cycles, and compute all planes at their pixel. With one filter per channel (as many groups as channels) it filters an
 * image.
 *
 *     grid 2 x 2, block 2 x 2:      columns  0 1 2 3 0 1 2 3 ...     the threads' y        16 threads
 *                            rows 0          a b c d a b c d         each has every fourth row and column
 *                                 1          e f g h e f g h
 *        the threads' x           2          i j k l i j k l
 *
 * x counts rows, as in the first program of the thesis (docs/theses.md). So the threads of a warp, which differ in x, read
 * from 32 rows: 32 accesses instead of one. A first improvement is to let x count columns; a second one is a tile in shared
 * memory, as in tiled-classic.
 */
#include "loops.cuh"

namespace {

__global__ void __launch_bounds__(1024)
    take_pixels(const __grid_constant__ gconv_layer_problem problem, const float *in, const float *weights, float *out) {
  const int64_t own_row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, all_rows = (int64_t)gridDim.x * blockDim.x;
  const int64_t own_column = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, all_columns = (int64_t)gridDim.y * blockDim.y;
  for (int64_t p = own_row; p < problem.out_height; p += all_rows)
    for (int64_t q = own_column; q < problem.out_width; q += all_columns)
      for (int64_t n = 0; n < problem.images; n++)
        for (int64_t k = 0; k < problem.filters; k++)
          convolve_part(problem, in, weights, out, n, k, {p, p + 1, 0, 1}, {q, q + 1, 0, 1});
}

/* The grid covers the output or, if the user gave a number of blocks, is a square of at most that many. */
void shape_of(const gconv_layer_problem *problem, dim3 *grid, dim3 *block) {
  const gconv_classic_launch launch = gconv_classic_layer_launch;
  const bool asked = launch.block_width > 0 && (int64_t)launch.block_width * launch.block_height <= 1024;
  *block = asked ? dim3((unsigned)launch.block_width, (unsigned)launch.block_height) : dim3(16, 16);
  const unsigned side = launch.blocks > 0 ? (unsigned)sqrt((double)launch.blocks) : 65535;
  *grid = dim3(blocks_for(problem->out_height, block->x, side), blocks_for(problem->out_width, block->y, side));
}

gconv_status execute(const gconv_layer_execution *e) {
  dim3 grid, block;
  shape_of(e->problem, &grid, &block);
  take_pixels<<<grid, block, 0, (cudaStream_t)e->stream>>>(*e->problem, e->in, e->weights, e->out);
  return CUDA_STATUS(cudaGetLastError());
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  dim3 grid, block;
  shape_of(problem, &grid, &block);
  return loops_ms(problem, (double)grid.x * grid.y * block.x * block.y, machine);
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_planes_classic = {
    .info = {"planes-classic", "cuda", "a grid of two dimensions over pixels: to learn from", true},
    .supports = gconv_layer_takes_fp32,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};

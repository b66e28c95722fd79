/* SPDX-License-Identifier: MIT */
/*
 * loops-classic: all loops over outputs are divided among all threads: images, then filters, then rows, then columns.
 *
 *     threads of the grid    0 ........................................ T - 1
 *     images                 |      0       |      1       |      2        |      T / N threads an image
 *     filters                |  0 |  1 |  2 |  0 |  1 |  2 |                      T / N / K threads a plane
 *     rows                   | | || | || | ||                                     and so on, while there are threads left
 *
 * The body is that of batch-classic: a sum in memory, for each tap a load of a weight, of a sample, of the sum, and a store.
 *
 * Bound: with a thread for each output, neighbours have neighbouring outputs, and a warp's loads are one access each. Then
 * instructions are the bound: some 25 for a product, for places, borders and the sum. If a thread has a row or more, a warp
 * reads from 32 places. A sample is loaded K R S times, at best from caches. The next step, split-classic, makes the patches
 * once, for all filters.
 */
#include "loops.cuh"

namespace {

__global__ void __launch_bounds__(1024)
    take_outputs(const __grid_constant__ gconv_layer_problem problem, const float *in, const float *weights, float *out) {
  const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, count = (int64_t)gridDim.x * blockDim.x;
  const share images = divide(problem.images, index, count), filters = divide(problem.filters, images.index, images.count),
              rows = divide(problem.out_height, filters.index, filters.count),
              columns = divide(problem.out_width, rows.index, rows.count);
  if (columns.index > 0)
    return;
  for (int64_t n = images.begin; n < images.end; n++)
    for (int64_t k = filters.begin; k < filters.end; k++)
      convolve_part(problem, in, weights, out, n, k, rows, columns);
}

launch_shape shape_of(const gconv_layer_problem *problem) {
  const int64_t outputs = (int64_t)problem->images * problem->filters * problem->out_height * problem->out_width;
  return launch_for((outputs - 1) / 256 + 1, 256);
}

gconv_status execute(const gconv_layer_execution *e) {
  const launch_shape shape = shape_of(e->problem);
  take_outputs<<<shape.blocks, shape.threads, 0, (cudaStream_t)e->stream>>>(*e->problem, e->in, e->weights, e->out);
  return CUDA_STATUS(cudaGetLastError());
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const launch_shape shape = shape_of(problem);
  return loops_ms(problem, (double)shape.blocks * shape.threads, machine);
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_loops_classic = {
    .info = {"loops-classic", "cuda", "all loops over outputs are divided among threads: to learn from", true},
    .supports = gconv_layer_takes_fp32,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};

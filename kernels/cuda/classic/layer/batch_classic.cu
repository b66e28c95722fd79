/* SPDX-License-Identifier: MIT */
/*
 * batch-classic: an image per block, a filter per thread. The two outer loops of the definition are divided, and no others.
 *
 *              block 0    block 1    ...   block N - 1       for each channel c, each output (p, q), each tap (r, s):
 *               image 0    image 1          image N - 1
 *   thread 0   filter 0   filter 0         filter 0             y[n][k][p][q] += w[k][c][r][s] * x[n][c][p + r][q + s]
 *   thread 1   filter 1   filter 1         filter 1
 *     ...
 *   thread K - 1
 *
 * Bound: only N K threads work, each on a whole plane. With 10 images and 10 filters that is 100 threads of the 270,000 that
 * an H200 holds, and each waits for its own load before the next. Neighbouring threads have neighbouring filters: they write
 * to places that are a plane apart, and read the same sample. The next step, loops-classic, divides all loops.
 */
#include "loops.cuh"

gconv_classic_launch gconv_classic_layer_launch;

namespace {

__global__ void __launch_bounds__(1024)
    take_images(const __grid_constant__ gconv_layer_problem problem, const float *in, const float *weights, float *out) {
  const share images = divide(problem.images, blockIdx.x, gridDim.x),
              filters = divide(problem.filters, threadIdx.x, blockDim.x);
  if (images.index > 0 || filters.index > 0)
    return; /* there are more blocks than images, or more threads than filters */
  for (int64_t n = images.begin; n < images.end; n++)
    for (int64_t k = filters.begin; k < filters.end; k++)
      convolve_part(problem, in, weights, out, n, k, {0, problem.out_height, 0, 1}, {0, problem.out_width, 0, 1});
}

gconv_status execute(const gconv_layer_execution *e) {
  const launch_shape shape = launch_for(e->problem->images, e->problem->filters);
  take_images<<<shape.blocks, shape.threads, 0, (cudaStream_t)e->stream>>>(*e->problem, e->in, e->weights, e->out);
  return CUDA_STATUS(cudaGetLastError());
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const launch_shape shape = launch_for(problem->images, problem->filters);
  return loops_ms(problem, fmin(shape.blocks, problem->images) * fmin(shape.threads, problem->filters), machine);
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_batch_classic = {
    .info = {"batch-classic", "cuda", "an image a block, a filter a thread: to learn from", true},
    .supports = gconv_layer_takes_fp32,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};

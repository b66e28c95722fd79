/* SPDX-License-Identifier: MIT */
/* Bias and activation for sums that a library has written to the output, in place. */
#pragma once

#include "../core/launch.cuh"
#include "device/cuda_error.h"
#include "kernels/activation.h"
#include "kernels/algorithm.h"
#include "kernels/layer_algorithm.h"

#include <cuda_runtime_api.h>

namespace {

/* Grid: x counts samples of a plane, y planes of outputs; threads stride. */
__global__ void finish_sums(const __grid_constant__ gconv_layer_problem problem, const float *biases, float *out) {
  const int64_t plane = (int64_t)problem.out_height * problem.out_width, planes = (int64_t)problem.images * problem.filters;
  for (int64_t i = blockIdx.y; i < planes; i += gridDim.y) {
    const float bias = __ldg(biases + i % problem.filters);
    for (int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; j < plane; j += (int64_t)gridDim.x * blockDim.x)
      out[i * plane + j] = gconv_activate(&problem, out[i * plane + j] + bias);
  }
}

gconv_status launch_finish(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  const int64_t plane = (int64_t)problem->out_height * problem->out_width,
                planes = (int64_t)problem->images * problem->filters;
  const dim3 grid(blocks_for(plane, 256, 1024), blocks_for(planes, 1, 65535));
  finish_sums<<<grid, 256, 0, (cudaStream_t)e->stream>>>(*problem, gconv_layer_biases(problem, e->weights), e->out);
  return CUDA_STATUS(cudaGetLastError());
}

/* Returns the bound of a sum of rounded products in any order. For TF32, both factors of a product are cut to 10 bits. */
double library_bound(const gconv_layer_problem *problem) {
  const double bound = gconv_rounding_bound((double)gconv_layer_taps(problem) + 2);
  return problem->math == GCONV_MATH_TF32 ? bound + 0x1p-9 * 1.01 : bound;
}

} // namespace

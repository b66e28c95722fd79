/* SPDX-License-Identifier: MIT */
/*
 * gemm-classic and gemm-shared-classic: the patches and their product in one kernel, with a barrier between. The only
 * barrier inside a kernel is that of a block, so a block has an image to itself:
 *
 *     block n:   make the matrix of image n          threads divide channels, rows of the filter, rows of the output
 *                __syncthreads()
 *                multiply: filters x matrix          threads divide filters, then pixels
 *
 * Bound: only N blocks work; a batch of 10 uses 10 multiprocessors of 132. The matrix is R S times the image, and is written
 * to memory and read again. Each product loads a weight, a number of the matrix and the sum, and stores the sum.
 * gemm-shared-classic keeps the filters in shared memory, where they must fit: that saves one load of the three, but the
 * cache had served it. split-classic lets all blocks work on all images.
 */
#pragma once

#include "loops.cuh"

namespace {

extern __shared__ float shared_filters[];

template <bool SHARED>
__global__ void __launch_bounds__(1024) multiply_images(const __grid_constant__ gconv_layer_problem problem, const float *in,
                                                        const float *weights, float *matrices, float *out) {
  const int64_t taps = gconv_layer_taps(&problem), matrix = matrix_rows(problem) * plane_of(problem);
  const share images = divide(problem.images, blockIdx.x, gridDim.x);
  const share filters = divide(problem.filters, threadIdx.x, blockDim.x),
              pixels = divide(plane_of(problem), filters.index, filters.count);
  if (images.index > 0)
    return;
  if (SHARED)
    share_numbers(shared_filters, weights, problem.filters * taps);
  for (int64_t n = images.begin; n < images.end; n++) {
    make_patches(problem, in + n * problem.channels * problem.height * problem.width, matrices + n * matrix, threadIdx.x,
                 blockDim.x);
    __syncthreads();
    for (int64_t k = filters.begin; k < filters.end && pixels.index == 0; k++)
      multiply_row(problem, (SHARED ? shared_filters : weights) + k * taps, gconv_layer_biases(&problem, weights)[k],
                   matrices + n * matrix, out + n * problem.filters * plane_of(problem), k, pixels);
  }
}

size_t shared_bytes(const gconv_layer_problem *problem) {
  return (size_t)problem->filters * (size_t)gconv_layer_taps(problem) * sizeof(float);
}

template <bool SHARED> gconv_status execute(const gconv_layer_execution *e) {
  const launch_shape shape = launch_for(e->problem->images, 1024);
  const size_t bytes = SHARED ? shared_bytes(e->problem) : 0;
  GCONV_TRY(allow_shared(multiply_images<SHARED>, (int64_t)bytes));
  multiply_images<SHARED><<<shape.blocks, shape.threads, bytes, (cudaStream_t)e->stream>>>(*e->problem, e->in, e->weights,
                                                                                           (float *)e->workspace, e->out);
  return CUDA_STATUS(cudaGetLastError());
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const launch_shape shape = launch_for(problem->images, 1024);
  return loops_ms(problem, fmin(shape.blocks, problem->images) * (double)shape.threads, machine);
}

} // namespace

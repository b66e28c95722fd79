/* SPDX-License-Identifier: MIT */
/*
 * split-classic, split-shared-classic and split-cublas-classic: one kernel makes the patches of all images, the next
 * multiplies them. The end of a kernel is a barrier for all blocks, so all threads work on all images in both:
 *
 *     kernel 1:   threads divide images, channels, rows of the filter, rows of the output
 *     kernel 2:   threads divide images, filters, pixels                                     split-classic
 *                 blocks divide filters, then images; threads divide pixels                  split-shared-classic
 *                 cuBLAS, a call per image                                                   split-cublas-classic
 *
 * A block of split-shared-classic has one filter at a time in shared memory, so that any number of filters fits. For this,
 * filters are the outer loop. So the matrices of all images are read from memory again for each filter of a block.
 *
 * Bound: three loads and a store for a product, where a product with tiles in registers (core/product.cuh) has 1/4 of a
 * load. That, and not the patches, is what cuBLAS removes: split-cublas-classic.
 */
#pragma once

#include "loops.cuh"

namespace {

enum { SPLIT_THREADS = 1024 };

__global__ void __launch_bounds__(1024)
    make_matrices(const __grid_constant__ gconv_layer_problem problem, const float *in, float *matrices) {
  const int64_t matrix = matrix_rows(problem) * plane_of(problem),
                image = (int64_t)problem.channels * problem.height * problem.width;
  const share images =
      divide(problem.images, (int64_t)blockIdx.x * blockDim.x + threadIdx.x, (int64_t)gridDim.x * blockDim.x);
  for (int64_t n = images.begin; n < images.end; n++)
    make_patches(problem, in + n * image, matrices + n * matrix, images.index, images.count);
}

/* A block for each multiprocessor, unless the user gave a number of blocks. */
launch_shape split_shape() {
  return launch_for(multiprocessors(), SPLIT_THREADS);
}

gconv_status launch_matrices(const gconv_layer_execution *e) {
  const launch_shape shape = split_shape();
  make_matrices<<<shape.blocks, shape.threads, 0, (cudaStream_t)e->stream>>>(*e->problem, e->in, (float *)e->workspace);
  return CUDA_STATUS(cudaGetLastError());
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  return loops_ms(problem, 132.0 * SPLIT_THREADS, machine);
}

} // namespace

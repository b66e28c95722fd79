/* SPDX-License-Identifier: MIT */
/* Copies alpha that is kept, for fft and gemm, whose tiles leave it out. */
#pragma once

#include "launch.cuh"
#include "store.cuh"

namespace {

/* Grid: x counts pixels of a row, y rows, z planes of all images; threads stride over all of them. */
template <class In, class Out> __global__ void copy_alpha(const __grid_constant__ arguments a) {
  const gconv_problem &problem = a.problem;
  place at;
  for (int64_t z = blockIdx.z; z < (int64_t)problem.images * problem.planes; z += gridDim.z) {
    const plane_rows plane = plane_of(a, z);
    at.in = plane.in;
    for (at.p = blockIdx.y; at.p < problem.out_height; at.p += gridDim.y)
      for (at.q = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at.q < problem.out_width;
           at.q += (int64_t)gridDim.x * blockDim.x)
        keep_alpha<In, Out>(a, at, plane.out + at.p * a.out_row + at.q * a.out_pixel);
  }
}

inline void launch_alpha(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const dim3 grid(blocks_for(problem->out_width, 128, 1024), blocks_for(problem->out_height, 1, 65535),
                  blocks_for((int64_t)problem->images * problem->planes, 1, 65535));
  with_type(problem->in_type, [&](auto in) {
    with_type(problem->out_type, [&](auto out) {
      copy_alpha<decltype(in), decltype(out)>
          <<<grid, 128, 0, (cudaStream_t)execution->stream>>>(common_arguments(execution));
    });
  });
}

} // namespace

/* SPDX-License-Identifier: MIT */
/* separable: checks before a launch, for all kernels. */
#ifndef GCONV_CUDA_SEPARABLE_LAUNCH_CUH
#define GCONV_CUDA_SEPARABLE_LAUNCH_CUH

#include "launch.cuh"

#include <math.h>

namespace {

/* Returns whether the epilogue of a filter is only scale and offset. */
inline bool is_plain(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  float unscale = gconv_prepared(problem, execution->host_weights)[filter];
  return !gconv_is_combined(problem) && gconv_is_plain(epilogue) && are_bare(execution, filter, 1) && unscale > 0x1p-60f &&
         unscale < 0x1p60f && fabsf(epilogue->scale) < 0x1p20f &&
         (epilogue->scale == 0 || fabsf(epilogue->scale) > 0x1p-20f);
}

} // namespace

#endif

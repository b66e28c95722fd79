/* SPDX-License-Identifier: MIT */
/* What follows a convolution of a graph, and is computed in its epilogue: slopes of filters. */
#pragma once

#include "../graph/graph.h"
#include "kernels/elementwise.h"
#include "kernels/layer_algorithm.h"

namespace hopper {

/* Returns the slopes of a job that is PRelu with a slope for each filter (GCONV_TAILS_SLOPES), otherwise NULL. `job`: NULL:
 * there is none. */
inline const float *slopes_of(const gconv_gpu_elements *job, gconv_activation before) {
  if (!job || before != GCONV_ACTIVATION_NONE || job->length != 1 || job->chain[0].code != PRELU || job->axes < 2)
    return NULL;
  const gconv_gpu_operand &slope = job->chain[0].operand[1];
  bool alone = slope.data && slope.step[1] == 1;
  for (int32_t axis = 0; axis < job->axes; axis++)
    alone = alone && (axis == 1 || slope.step[axis] == 0);
  return alone ? (const float *)slope.data : NULL;
}

} // namespace hopper

/* SPDX-License-Identifier: MIT */
/* Tails: nodes after a convolution that its epilogue computes. */
#pragma once

#include "graph.h"
#include "kernels/activation.h"
#include "kernels/cuda/core/unroll.cuh"
#include "kernels/elementwise.h"

namespace {

DEVICE float clamped(float x, float low, float high) { /* NaN stays NaN */
  x = x < low ? low : x;
  return x > high ? high : x;
}

/* Applies the steps to `v`, output number `place` of all outputs. */
DEVICE float follow_sum(const gconv_gpu_tail &tail, float v, int32_t filter, int64_t place) {
  UNROLLED_FOR (int i = 0; i < GCONV_GPU_TAIL; i++) {
    const gconv_gpu_tail_step &s = tail.step[i];
    if (i >= tail.length)
      break;
    const float z = !s.operand ? s.alpha : s.operand[s.of_filters ? filter : place];
    switch (s.code) {
    case GCONV_GPU_TAIL_SWISH:
      v = clamped(v + s.alpha, s.low, s.high) * v / s.beta;
      break;
    case RELU:
      v = v < 0 ? 0 : v;
      break;
    case LEAKY:
    case PRELU:
      v = v < 0 ? v * z : v;
      break;
    case CLIP:
      v = clamped(v, s.low, s.high);
      break;
    case SIGMOID:
      v = gconv_sigmoid(v);
      break;
    case SWISH:
      v *= gconv_sigmoid(v * s.alpha);
      break;
    case HARD_SIGMOID:
      v = clamped(s.alpha * v + s.beta, 0, 1);
      break;
    case HARD_SWISH:
      v *= clamped(v * (1.0f / 6) + 0.5f, 0, 1);
      break;
    case ADD:
      v += z;
      break;
    case MUL:
      v *= z;
      break;
    }
  }
  return v;
}

inline gconv_gpu_tail tail_of(const gconv_gpu_tail *tail) {
  return tail ? *tail : gconv_gpu_tail{};
}

/* Returns the slopes of a tail that is PRelu with a slope for each filter (GCONV_TAILS_SLOPES), otherwise NULL. */
inline const float *slopes_of(const gconv_gpu_tail *tail) {
  return tail && tail->length == 1 && tail->step[0].code == PRELU && tail->step[0].of_filters ? tail->step[0].operand : NULL;
}

} // namespace

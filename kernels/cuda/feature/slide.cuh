/* SPDX-License-Identifier: MIT */
/*
 * Sums of symmetric filters over V neighbouring outputs of a thread, in the order of kernels/cpu/smooth.h.
 *
 * Step k adds two samples to each output: k after it, and k before it. The samples of neighbouring outputs are neighbours,
 * too. So two windows of V samples slide outwards, and a step loads one sample for each window: 2 loads for up to 5 V
 * additions and multiply-adds. A window is a ring: sample number p is in register p mod V. V steps are unrolled. So the
 * numbers of registers are constants, and the loads of V steps are under way at the same time.
 */
#pragma once

#include "../core/unroll.cuh"
#include "feature.h"

namespace {

constexpr int V = 8; /* outputs of a thread */

template <bool ZERO, bool ONE, bool TWO> struct sums {
  float zero[V], one[V], two[V]; /* derivatives of order 0, 1 and 2 */
};

/* Step number k = c V + u + 1. */
template <bool ZERO, bool ONE, bool TWO, class Ahead, class Behind>
DEVICE void step(const gconv_feature_taps &taps, int c, int u, const Ahead &ahead, const Behind &behind, const float *twice,
                 float *front, float *back, sums<ZERO, ONE, TWO> *s) {
  const int k = c * V + u + 1;
  front[u] = ahead(c, u);
  back[V - 1 - u] = behind(c, u);
  UNROLLED_FOR (int v = 0; v < V; v++) {
    const float up = front[(v + 1 + u) % V], down = back[(v + 2 * V - 1 - u) % V];
    if (ZERO || TWO) {
      const float both = up + down - twice[v];
      if (ZERO)
        s->zero[v] = fmaf(taps.taps[0][k], both, s->zero[v]);
      if (TWO)
        s->two[v] = fmaf(taps.taps[2][k], both, s->two[v]);
    }
    if (ONE)
      s->one[v] = fmaf(taps.taps[1][k], up - down, s->one[v]);
  }
}

/* middle(v) returns the sample of output v, ahead(c, u) sample number 8 c + u + 8, and behind(c, u) sample number
 * -(8 c + u + 1). Number 0 is the sample of output 0. */
template <bool ZERO, bool ONE, bool TWO, class Middle, class Ahead, class Behind>
DEVICE void slide(const gconv_feature_taps &taps, Middle middle, Ahead ahead, Behind behind, sums<ZERO, ONE, TWO> *s) {
  float front[V], back[V], twice[V]; /* twice: the middle samples, times 2 */
  UNROLLED_FOR (int v = 0; v < V; v++) {
    front[v] = back[v] = middle(v);
    twice[v] = front[v] + front[v];
    s->zero[v] = s->one[v] = s->two[v] = 0.0f;
  }
  const int whole = taps.radius / V, rest = taps.radius % V;
  ROLLED_FOR (int c = 0; c < whole; c++) {
    UNROLLED_FOR (int u = 0; u < V; u++)
      step(taps, c, u, ahead, behind, twice, front, back, s);
  }
  UNROLLED_FOR (int u = 0; u < V - 1; u++) {
    if (u >= rest)
      break;
    step(taps, whole, u, ahead, behind, twice, front, back, s);
  }
  UNROLLED_FOR (int v = 0; v < V; v++)
    s->zero[v] = s->zero[v] + 0.5f * twice[v];
}

} // namespace

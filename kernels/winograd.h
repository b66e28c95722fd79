/* SPDX-License-Identifier: MIT */
/*
 * F(2 x 2, 3 x 3), for both devices: 2 x 2 outputs under a 3 x 3 filter with 16 multiplications in place of 36 (Lavin and
 * Gray, Fast Algorithms for Convolutional Neural Networks, 2015).
 *
 *      input tile d, 4 x 4         V = B' d B        16 products of matrices,      Y = A' M A: 2 x 2 outputs
 *      (2 x 2 outputs)                               M[i] = U[i] V[i]
 *      filter g, 3 x 3             U = G g G'        (K x C) (C x tiles)
 *
 *           | 1  0 -1  0 |       | 1    0    0  |
 *      B' = | 0  1  1  0 |   G = | 1/2  1/2 1/2 |   A' = | 1 1  1  0 |
 *           | 0 -1  1  0 |       | 1/2 -1/2 1/2 |        | 0 1 -1 -1 |
 *           | 0  1  0 -1 |       | 0    0    1  |
 */
#pragma once

#include "kernels/layer_problem.h"

enum { GCONV_WINOGRAD_POINTS = 16 }; /* points of a transformed tile */

/* Sets to[i * stride] = (G g G')[i / 4][i % 4] for a filter g. It is computed in double and rounded once. */
static inline void gconv_winograd_filter(const float *g, float *to, int64_t stride) {
  double half[4][3];
  for (int s = 0; s < 3; s++) {
    double a = g[s], b = g[3 + s], c = g[6 + s];
    half[0][s] = a;
    half[1][s] = (a + b + c) / 2;
    half[2][s] = (a - b + c) / 2;
    half[3][s] = c;
  }
  for (int r = 0; r < 4; r++) {
    double a = half[r][0], b = half[r][1], c = half[r][2];
    const double row[4] = {a, (a + b + c) / 2, (a - b + c) / 2, c};
    for (int s = 0; s < 4; s++)
      to[(4 * r + s) * stride] = (float)row[s];
  }
}

/* Returns NULL if winograd can solve the problem, otherwise why not. */
static inline const char *gconv_winograd_obstacle(const gconv_layer_problem *problem) {
  if (problem->math != GCONV_MATH_FP32)
    return "math other than fp32";
  if (problem->rows != 3 || problem->columns != 3)
    return "filters other than 3 x 3";
  if (problem->stride_y != 1 || problem->stride_x != 1 || problem->dilation_y != 1 || problem->dilation_x != 1)
    return "stride or dilation";
  return NULL;
}

/* Returns the error bound. Let u = 2^-24, X the largest |x| and W the sum of |w| over all C channels. An entry of V is at
 * most 4X, and off by at most 8uX, because of 3 rounded additions. For the products and their sum over C: |M - M'| <= (C +
 * 3) u sum |U| 4X. An output adds 9 of the M. The sum of |U| over these 9 and all channels is at most 4W, because each
 * column of G has a sum of at most 2 over three rows. That gives (C + 3) u 16WX. 4 more additions have results of at most
 * 16WX each. Together, the bound is 16 (C + 7) u WX. One more u WX is for the bias, and 1 % more for terms of second
 * order. */
static inline double gconv_winograd_bound(const gconv_layer_problem *problem) {
  double n = (16 * ((double)(problem->channels / problem->groups) + 7) + 1) * 1.01 * 0x1p-24;
  return n < 0.5 ? n : 1;
}

/* SPDX-License-Identifier: MIT */
/*
 * winograd4: F(4 x 4, 3 x 3) in float32: 4 x 4 outputs under a 3 x 3 filter with 36 multiplications in place of 144, band by
 * band (winograd_walk.h). kernels/winograd.h explains the method. winograd4 takes the six points 0, +-sqrt(1/2), +-sqrt(2)
 * and infinity. Its errors are some three times smaller than with the usual points 0, +-1, +-2 and infinity. With w =
 * sqrt(2):
 *
 *        | 1   0  -5/2   0   1  0 |        |  1    0    0  |        | 1  1    1    1    1   0 |
 *        | 0  -w   -2   w/2  1  0 |        | -2/3 -w/3 -1/3|        | 0  w/2 -w/2  w   -w   0 |
 *   B' = | 0   w   -2  -w/2  1  0 |    G = | -2/3  w/3 -1/3|   A' = | 0  1/2  1/2  2    2   0 |
 *        | 0 -w/2 -1/2   w   1  0 |        |  1/6  w/6  1/3|        | 0  w/4 -w/4  2w  -2w  1 |
 *        | 0  w/2 -1/2  -w   1  0 |        |  1/6 -w/6  1/3|
 *        | 0   1    0  -5/2  0  1 |        |  0    0    1  |
 *
 * Points can be 157 times as large as the outputs. So that they do not leave the range of float32, filters are divided by
 * 256, and outputs are multiplied by 256, which is exact.
 *
 * It needs an image that is large enough to use each filter many times, as the transformed filters are 4 times as large.
 */
#include "kernels/winograd.h"
#include "stage.h"

enum { SIDE = 4, POINTS = 36 };

static const float ROOT = 1.41421356F, HALF_ROOT = 0.707106781F, TWO = 2, HALF = 0.5F, MINUS_TWO = -2, MINUS_HALF = -0.5F,
                   SCALE = 256, MINUS_MORE = -2.5F;

typedef struct transforms {
  void (*input)(const float *from, const int64_t *offsets, int64_t count, float *to, int64_t point);
  void (*output)(const float *from, int64_t point, float *const *to);
} transforms;

#define TEMPLATE "layer/winograd4_template.h"
#include "../each_isa.h"

/* Multiplies three numbers, which are `step` apart, by G. */
static void multiply_by_G(const double *g, int step, double to[6]) {
  const double root = 1.4142135623730951, a = g[0], b = root * g[step], c = g[2 * step];
  to[0] = a;
  to[1] = (-2 * a - b - c) / 3;
  to[2] = (-2 * a + b - c) / 3;
  to[3] = (a + b + 2 * c) / 6;
  to[4] = (a - b + 2 * c) / 6;
  to[5] = c;
}

/* Sets to[i * stride] = (G g G')[i / 6][i % 6] / SCALE for a filter g. It is computed in double and rounded once. */
static void transform_filter(const float *g, float *to, int64_t stride) {
  double filter[9], half[3][6];
  for (int i = 0; i < 9; i++)
    filter[i] = g[i];
  for (int s = 0; s < 3; s++)
    multiply_by_G(filter + s, 3, half[s]);
  for (int r = 0; r < 6; r++) {
    const double row[3] = {half[0][r], half[1][r], half[2][r]};
    double points[6];
    multiply_by_G(row, 1, points);
    for (int s = 0; s < 6; s++)
      to[(6 * r + s) * stride] = (float)(points[s] / (double)SCALE);
  }
}

/* Returns the error bound, as gconv_winograd_bound() derives it. Let b[i] be the sum of row i of |B'|. The largest sum over
 * i of |A'|[o][i] |G|[i][k] b[i], of all outputs o and taps k, is 12.54; of two dimensions, its square, 157.2. It takes the
 * place of 16. A path through both products with B', U, both products with A' and the rounded roots has at most 24
 * roundings, besides the C roundings of the sum. */
static double bound(const gconv_layer_problem *problem) {
  const double n = (157.2 * ((double)(problem->channels / problem->groups) + 24) + 1) * 1.01 * 0x1p-24;
  return n < 0.5 ? n : 1;
}

#include "winograd_walk.h"

WINOGRAD(winograd4, "3 x 3 filters on 4 x 4 outputs with 36 multiplications for 144", 0.3, bound)

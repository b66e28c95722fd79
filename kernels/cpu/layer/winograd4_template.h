/* SPDX-License-Identifier: MIT */
/* The transforms of winograd4.c for one kind of vector (each_isa.h). */

/* Multiplies six rows, or six columns, by B': once for each side of B' d B. */
GCONV_INLINE TARGET void NAME(times_B)(VECTOR *d, const int step) {
  const VECTOR root = SPREAD(&ROOT), two = SPREAD(&MINUS_TWO), half = SPREAD(&MINUS_HALF), more = SPREAD(&MINUS_MORE);
  const VECTOR a = d[0], b = d[step], c = d[2 * step], e = d[3 * step], f = d[4 * step], g = d[5 * step];
  const VECTOR outer = ADD_PRODUCT(two, c, f), inner = ADD_PRODUCT(half, c, f);
  const VECTOR first = ADD_PRODUCT(half, e, b) * root, second = ADD_PRODUCT(half, b, e) * root;
  d[0] = ADD_PRODUCT(more, c, a) + f;
  d[step] = outer - first;
  d[2 * step] = outer + first;
  d[3 * step] = inner + second;
  d[4 * step] = inner - second;
  d[5 * step] = ADD_PRODUCT(more, e, b) + g;
}

/* Writes point i of tile j to to[i * point + j], for j < count. Up to LANES - 1 more tiles are read and written. offsets[6 *
 * y + x] is where sample (y, x) of tile 0 lies; the same samples of the next tiles follow. */
static TARGET void NAME(transform_input)(const float *from, const int64_t *offsets, int64_t count, float *to,
                                         int64_t point) {
  for (int64_t j = 0; j < count; j += LANES) {
    VECTOR d[36];
    UNROLL for (int x = 0; x < 6; x++) {
      UNROLL for (int y = 0; y < 6; y++) d[6 * y + x] = LOAD(from + offsets[6 * y + x] + j);
      NAME(times_B)(d + x, 6);
    }
    UNROLL for (int y = 0; y < 6; y++) {
      NAME(times_B)(d + 6 * y, 1);
      UNROLL for (int x = 0; x < 6; x++) STORE(to + (6 * y + x) * point + j, d[6 * y + x]);
    }
  }
}

/* Multiplies six rows by A' into four: y[0], y[step] ... */
GCONV_INLINE TARGET void NAME(times_A)(const VECTOR *m, VECTOR *y, const int step) {
  const VECTOR root = SPREAD(&ROOT), half_root = SPREAD(&HALF_ROOT), two = SPREAD(&TWO), half = SPREAD(&HALF);
  const VECTOR near = m[1] + m[2], across = half_root * (m[1] - m[2]), far = m[3] + m[4], beyond = root * (m[3] - m[4]);
  y[0] = m[0] + near + far;
  y[step] = across + beyond;
  y[2 * step] = ADD_PRODUCT(half, near, two * far);
  y[3 * step] = ADD_PRODUCT(half, across, ADD_PRODUCT(two, beyond, m[5]));
}

/* Computes SCALE * A' M A for a vector of filters. Point i is at from[i * point]. Output (a, b) goes to to[4 * a + b]. */
static TARGET void NAME(transform_output)(const float *from, int64_t point, float *const *to) {
  const VECTOR scale = SPREAD(&SCALE);
  VECTOR half[24];
  UNROLL for (int x = 0; x < 6; x++) {
    VECTOR m[6];
    UNROLL for (int y = 0; y < 6; y++) m[y] = LOAD(from + (6 * y + x) * point);
    NAME(times_A)(m, half + x, 6);
  }
  UNROLL for (int a = 0; a < 4; a++) {
    VECTOR y[4];
    NAME(times_A)(half + 6 * a, y, 1);
    UNROLL for (int b = 0; b < 4; b++) STORE(to[4 * a + b], y[b] * scale);
  }
}

static const transforms NAME(transforms) = {NAME(transform_input), NAME(transform_output)};

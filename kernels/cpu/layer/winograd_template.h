/* SPDX-License-Identifier: MIT */
/* The transforms of winograd.c for one kind of vector (each_isa.h). */

/* Multiplies four rows, or four columns, by B': once for each side of B' d B. */
GCONV_INLINE TARGET void NAME(times_B)(VECTOR *a, VECTOR *b, VECTOR *c, VECTOR *d) {
  VECTOR first = *a - *c, second = *b + *c, third = *c - *b, fourth = *b - *d;
  *a = first;
  *b = second;
  *c = third;
  *d = fourth;
}

/* Writes point i of tile j to to[i * point + j], for j < count. Up to LANES - 1 more tiles are read and written. offsets[4 *
 * y + x] is where sample (y, x) of tile 0 lies; the same samples of the next tiles follow. */
static TARGET void NAME(transform_input)(const float *from, const int64_t *offsets, int64_t count, float *to,
                                         int64_t point) {
  for (int64_t j = 0; j < count; j += LANES) {
    VECTOR d[16];
    UNROLL for (int i = 0; i < 16; i++) d[i] = LOAD(from + offsets[i] + j);
    UNROLL for (int x = 0; x < 4; x++) NAME(times_B)(&d[x], &d[4 + x], &d[8 + x], &d[12 + x]);
    UNROLL for (int y = 0; y < 16; y += 4) NAME(times_B)(&d[y], &d[y + 1], &d[y + 2], &d[y + 3]);
    UNROLL for (int i = 0; i < 16; i++) STORE(to + i * point + j, d[i]);
  }
}

/* Computes A' M A for a vector of filters. Point i is at from[i * point]. Output (a, b) goes to to[2 * a + b]. */
static TARGET void NAME(transform_output)(const float *from, int64_t point, float *const *to) {
  VECTOR half[2][4];
  UNROLL for (int x = 0; x < 4; x++) {
    VECTOR first = LOAD(from + x * point), second = LOAD(from + (4 + x) * point);
    VECTOR third = LOAD(from + (8 + x) * point), fourth = LOAD(from + (12 + x) * point);
    half[0][x] = first + second + third;
    half[1][x] = second - third - fourth;
  }
  UNROLL for (int a = 0; a < 2; a++) {
    STORE(to[2 * a], half[a][0] + half[a][1] + half[a][2]);
    STORE(to[2 * a + 1], half[a][1] - half[a][2] - half[a][3]);
  }
}

static const transforms NAME(transforms) = {NAME(transform_input), NAME(transform_output)};

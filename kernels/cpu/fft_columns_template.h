/* SPDX-License-Identifier: MIT */
/* The transforms of fft_columns.c for one kind of vector (each_isa.h). The point in row y and column x has its real part at
 * points[y * row + x], and its imaginary part `im` numbers after it. */

typedef struct NAME(point) {
  VECTOR re, im;
} NAME(point);
#define POINT NAME(point)

GCONV_INLINE TARGET POINT NAME(plus)(POINT a, POINT b) {
  return (POINT){a.re + b.re, a.im + b.im};
}
GCONV_INLINE TARGET POINT NAME(minus)(POINT a, POINT b) {
  return (POINT){a.re - b.re, a.im - b.im};
}

/* Returns a * (w[0] + i w[1]). */
GCONV_INLINE TARGET POINT NAME(times)(POINT a, const REAL *w) {
  VECTOR c = SPREAD(w), s = SPREAD(w + 1);
  return (POINT){ADD_PRODUCT(-a.im, s, a.re * c), ADD_PRODUCT(a.re, s, a.im * c)};
}

/* Transforms of 2, 3, 4, 5 and 8 points, in place and in order. */
GCONV_INLINE TARGET void NAME(dft_2)(POINT *x) {
  POINT difference = NAME(minus)(x[0], x[1]);
  x[0] = NAME(plus)(x[0], x[1]);
  x[1] = difference;
}
GCONV_INLINE TARGET void NAME(dft_3)(POINT *x) {
  static const REAL half = (REAL)-0.5, sine = (REAL)0.86602540378443865;
  VECTOR h = SPREAD(&half), s = SPREAD(&sine);
  POINT sum = NAME(plus)(x[1], x[2]), rotated = NAME(minus)(x[1], x[2]);
  POINT middle = {ADD_PRODUCT(sum.re, h, x[0].re), ADD_PRODUCT(sum.im, h, x[0].im)};
  x[0] = NAME(plus)(x[0], sum);
  rotated = (POINT){rotated.im * s, -rotated.re * s};
  x[1] = NAME(plus)(middle, rotated);
  x[2] = NAME(minus)(middle, rotated);
}
GCONV_INLINE TARGET void NAME(dft_5)(POINT *x) {
  static const REAL cosines[2] = {(REAL)0.30901699437494742, (REAL)-0.80901699437494742};
  static const REAL sines[2] = {(REAL)0.95105651629515357, (REAL)0.58778525229247313};
  VECTOR c1 = SPREAD(cosines), c2 = SPREAD(cosines + 1), s1 = SPREAD(sines), s2 = SPREAD(sines + 1);
  POINT a = NAME(plus)(x[1], x[4]), b = NAME(plus)(x[2], x[3]), c = NAME(minus)(x[1], x[4]), d = NAME(minus)(x[2], x[3]);
  POINT p = {ADD_PRODUCT(b.re, c2, ADD_PRODUCT(a.re, c1, x[0].re)), ADD_PRODUCT(b.im, c2, ADD_PRODUCT(a.im, c1, x[0].im))};
  POINT q = {ADD_PRODUCT(b.re, c1, ADD_PRODUCT(a.re, c2, x[0].re)), ADD_PRODUCT(b.im, c1, ADD_PRODUCT(a.im, c2, x[0].im))};
  POINT u = {ADD_PRODUCT(d.im, s2, c.im * s1), -ADD_PRODUCT(d.re, s2, c.re * s1)};
  POINT v = {ADD_PRODUCT(-d.im, s1, c.im * s2), -ADD_PRODUCT(-d.re, s1, c.re * s2)};
  x[0] = NAME(plus)(x[0], NAME(plus)(a, b));
  x[1] = NAME(plus)(p, u);
  x[4] = NAME(minus)(p, u);
  x[2] = NAME(plus)(q, v);
  x[3] = NAME(minus)(q, v);
}
GCONV_INLINE TARGET void NAME(dft_4)(POINT *x) {
  POINT s02 = NAME(plus)(x[0], x[2]), d02 = NAME(minus)(x[0], x[2]);
  POINT s13 = NAME(plus)(x[1], x[3]), d13 = NAME(minus)(x[1], x[3]);
  x[0] = NAME(plus)(s02, s13);
  x[1] = (POINT){d02.re + d13.im, d02.im - d13.re};
  x[2] = NAME(minus)(s02, s13);
  x[3] = (POINT){d02.re - d13.im, d02.im + d13.re};
}
GCONV_INLINE TARGET void NAME(dft_8)(POINT *x) {
  static const REAL half_root = (REAL)0.70710678118654752;
  VECTOR h = SPREAD(&half_root);
  POINT even[4], odd[4];
  UNROLL for (int i = 0; i < 4; i++) {
    even[i] = NAME(plus)(x[i], x[i + 4]);
    odd[i] = NAME(minus)(x[i], x[i + 4]);
  }
  odd[1] = (POINT){(odd[1].re + odd[1].im) * h, (odd[1].im - odd[1].re) * h};
  odd[2] = (POINT){odd[2].im, -odd[2].re};
  odd[3] = (POINT){(odd[3].im - odd[3].re) * h, -(odd[3].re + odd[3].im) * h};
  NAME(dft_4)(even);
  NAME(dft_4)(odd);
  UNROLL for (int i = 0; i < 4; i++) {
    x[2 * i] = even[i];
    x[2 * i + 1] = odd[i];
  }
}

/* Runs one stage on one vector of columns: transforms of `radix` points that are `part` rows apart. Points are multiplied by
 * twiddle factors after a forward transform, and before a backward one. `w` has `size` factors; a stage uses every step-th.
 * `im` is the distance from a real part to its imaginary part. For a backward transform, callers swap both parts: `at` is
 * the first imaginary part, and `im` is negative. The forward butterflies then transform backward. `fetch` prefetches the
 * next vector of columns, whose rows are too far apart for the processor to foresee them. */
GCONV_INLINE TARGET void NAME(stage)(REAL *at, int64_t im, size_t row, int radix, size_t part, size_t size, const REAL *w,
                                     bool forward, bool fetch) {
  size_t step = size / ((size_t)radix * part);
  for (size_t first = 0; first < size; first += (size_t)radix * part)
    for (size_t j = 0; j < part; j++) {
      REAL *from = at + (first + j) * row;
      POINT x[8];
      UNROLL for (int i = 0; i < radix; i++) {
        const REAL *p = from + (size_t)i * part * row;
        x[i] = (POINT){LOAD(p), LOAD(p + im)};
        if (fetch) {
          __builtin_prefetch(p + LANES, 1, 2);
          __builtin_prefetch(p + im + LANES, 1, 2);
        }
        if (!forward && i > 0 && part > 1)
          x[i] = NAME(times)(x[i], w + 2 * (size_t)i * j * step);
      }
      if (radix == 8)
        NAME(dft_8)(x);
      else if (radix == 5)
        NAME(dft_5)(x);
      else if (radix == 4)
        NAME(dft_4)(x);
      else if (radix == 3)
        NAME(dft_3)(x);
      else
        NAME(dft_2)(x);
      UNROLL for (int i = 0; i < radix; i++) {
        REAL *p = from + (size_t)i * part * row;
        if (forward && i > 0 && part > 1)
          x[i] = NAME(times)(x[i], w + 2 * (size_t)i * j * step);
        STORE(p, x[i].re);
        STORE(p + im, x[i].im);
      }
    }
}

#ifndef OF_DOUBLES
/* Runs all stages. `size` is a constant where this is inlined. */
GCONV_INLINE TARGET void NAME(transform)(REAL *points, size_t row, size_t im, size_t samples, size_t size, const REAL *w,
                                         bool forward) {
  const int first_radix = size % 7 == 1 ? 8 : size % 7 == 2 ? 2 : 4; /* powers of 8 are 1 modulo 7 */
  for (size_t x = 0; x < samples; x += LANES) {
    if (forward) {
      REAL *at = points + x;
      NAME(stage)(at, (int64_t)im, row, first_radix, size / (size_t)first_radix, size, w, true, false);
      for (size_t part = size / (size_t)first_radix / 8; part > 0; part /= 8)
        NAME(stage)(at, (int64_t)im, row, 8, part, size, w, true, false);
    } else {
      REAL *at = points + im + x;
      for (size_t part = 1; part * (size_t)first_radix < size; part *= 8)
        NAME(stage)(at, -(int64_t)im, row, 8, part, size, w, false, false);
      NAME(stage)(at, -(int64_t)im, row, first_radix, size / (size_t)first_radix, size, w, false, false);
    }
  }
}

static TARGET void NAME(transform_columns)(REAL *points, size_t row, size_t im, size_t samples, int log, const REAL *w,
                                           bool forward) {
#define SIZE(log_) /* a constant, so that the stages are unrolled for it */                                                 \
  case log_:                                                                                                                \
    if (forward)                                                                                                            \
      NAME(transform)(points, row, im, samples, (size_t)1 << log_, w, true);                                                \
    else                                                                                                                    \
      NAME(transform)(points, row, im, samples, (size_t)1 << log_, w, false);                                               \
    break;
  switch (log) { SIZE(4) SIZE(5) SIZE(6) SIZE(7) SIZE(8) SIZE(9) SIZE(10) SIZE(11) SIZE(12) }
#undef SIZE
}
#endif

/* Runs all stages of a size that is known at run time only. A 0 ends the radices. */
static TARGET void NAME(transform_mixed)(REAL *points, size_t row, size_t im, size_t samples, const int *radices,
                                         const REAL *w, bool forward) {
  size_t size = 1, count = 0;
  for (; radices[count] > 0; count++)
    size *= (size_t)radices[count];
  for (size_t x = 0; x < samples; x += LANES) {
    size_t part = forward ? size : 1;
    for (size_t k = 0; k < count; k++) {
      const int radix = radices[forward ? k : count - 1 - k];
      const bool fetch = k == 0 && x + LANES < samples;
      part /= forward ? (size_t)radix : 1;
#define RADIX(r)                                                                                                            \
  case r:                                                                                                                   \
    if (forward)                                                                                                            \
      NAME(stage)(points + x, (int64_t)im, row, r, part, size, w, true, fetch);                                             \
    else                                                                                                                    \
      NAME(stage)(points + im + x, -(int64_t)im, row, r, part, size, w, false, fetch);                                      \
    break;
      switch (radix) { RADIX(2) RADIX(3) RADIX(4) RADIX(5) RADIX(8) }
#undef RADIX
      part *= forward ? 1 : (size_t)radix;
    }
  }
}
#undef POINT

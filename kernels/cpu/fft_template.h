/* SPDX-License-Identifier: MIT */
/* The loops of fft.c and fft_exact.c for one kind of vector (each_isa.h). A row of a tile has `pitch` real parts and then
 * `pitch` imaginary parts (fft_columns.h). */

enum { NAME(SIDE) = 4 }; /* vectors of points that filter_rows() computes at a time */

/* Sets re and im to the sum of the products of S taps and the points under them. */
GCONV_INLINE TARGET void NAME(add_chain)(VECTOR *re, VECTOR *im, const REAL *from, size_t pitch, const REAL *taps, size_t S,
                                         size_t distance) {
  UNROLL for (int v = 0; v < NAME(SIDE); v++) re[v] = im[v] = ZERO;
  for (size_t s = 0; s < S; s++, from += distance) {
    VECTOR c = SPREAD(taps + 2 * s), d = SPREAD(taps + 2 * s + 1);
    UNROLL for (int v = 0; v < NAME(SIDE); v++) {
      VECTOR a = LOAD(from + v * LANES), b = LOAD(from + pitch + v * LANES);
      KEEP(a);
      KEEP(b);
      re[v] = ADD_PRODUCT(c, a, re[v]);
      im[v] = ADD_PRODUCT(c, b, im[v]);
      re[v] = ADD_PRODUCT(-d, b, re[v]);
      im[v] = ADD_PRODUCT(d, a, im[v]);
    }
  }
}

/* For every row, sets sum x to the sum over s of taps[row][s] * point[x + s * distance], or, if rows->add, adds this to it.
 * A chain has at most CHAIN taps. Sums may overwrite points, because each point has been read before. */
static TARGET void NAME(filter_rows)(const fft_rows *rows, size_t samples, size_t tile, const REAL *taps, size_t S,
                                     size_t distance) {
  const REAL *points = rows->points;
  REAL *sums = rows->sums;
  for (size_t y = 0; y < tile; y++, points += 2 * rows->pitch, sums += 2 * rows->sums_pitch, taps += 2 * S)
    for (size_t x = 0; x < samples; x += NAME(SIDE) * LANES) {
      VECTOR re[NAME(SIDE)], im[NAME(SIDE)], more_re[NAME(SIDE)], more_im[NAME(SIDE)];
      NAME(add_chain)(re, im, points + x, rows->pitch, taps, S < CHAIN ? S : CHAIN, distance);
      for (size_t s = CHAIN; s < S; s += CHAIN) {
        NAME(add_chain)
        (more_re, more_im, points + x + s * distance, rows->pitch, taps + 2 * s, S - s < CHAIN ? S - s : CHAIN, distance);
        UNROLL for (int v = 0; v < NAME(SIDE); v++) {
          re[v] += more_re[v];
          im[v] += more_im[v];
        }
      }
      UNROLL for (int v = 0; v < NAME(SIDE); v++) {
        REAL *to = sums + x + v * LANES;
        if (rows->add) {
          re[v] += LOAD(to);
          im[v] += LOAD(to + rows->sums_pitch);
        }
        STORE(to, re[v]);
        STORE(to + rows->sums_pitch, im[v]);
      }
    }
}

/* SPDX-License-Identifier: MIT */
#include "image/png_filter.h"
#include "base/cpu.h"

#include <stdbool.h>
#include <string.h>

/* ---- Filtering: every output depends on inputs only, so that the plain loops become vector code ---- */

GCONV_INLINE void sub_body(const uint8_t *restrict row, size_t bytes, size_t pixel, uint8_t *restrict out) {
  for (size_t i = pixel; i < bytes; i++)
    out[i] = (uint8_t)(row[i] - row[i - pixel]);
}

GCONV_INLINE void up_body(const uint8_t *restrict row, const uint8_t *restrict above, size_t bytes, uint8_t *restrict out) {
  for (size_t i = 0; i < bytes; i++)
    out[i] = (uint8_t)(row[i] - above[i]);
}

GCONV_INLINE void average_body(const uint8_t *restrict row, const uint8_t *restrict above, size_t bytes, size_t pixel,
                               uint8_t *restrict out) {
  for (size_t i = pixel; i < bytes; i++)
    out[i] = (uint8_t)(row[i] - ((row[i - pixel] + above[i]) >> 1));
}

GCONV_INLINE int16_t distance(int16_t a, int16_t b) {
  return (int16_t)(a > b ? a - b : b - a);
}

/* Of left, up and corner, the one nearest to left + up - corner; the first of them where they are equally near. The
 * distances are |up - corner|, |left - corner| and |left + up - 2 corner|, all within 16 bits. */
GCONV_INLINE int16_t predict_paeth(int16_t left, int16_t up, int16_t corner) {
  int16_t to_left = distance(up, corner), to_up = distance(left, corner);
  int16_t to_corner = distance((int16_t)(left + up), (int16_t)(2 * corner));
  int16_t nearer = to_up <= to_corner ? up : corner;
  int16_t least = to_up <= to_corner ? to_up : to_corner;
  return to_left <= least ? left : nearer;
}

GCONV_INLINE void paeth_body(const uint8_t *restrict row, const uint8_t *restrict above, size_t bytes, size_t pixel,
                             uint8_t *restrict out) {
  for (size_t i = pixel; i < bytes; i++)
    out[i] = (uint8_t)(row[i] - predict_paeth(row[i - pixel], above[i], above[i - pixel]));
}

GCONV_VECTORIZED(sub, (const uint8_t *row, size_t bytes, size_t pixel, uint8_t *out), (row, bytes, pixel, out))
GCONV_VECTORIZED(up, (const uint8_t *row, const uint8_t *above, size_t bytes, uint8_t *out), (row, above, bytes, out))
GCONV_VECTORIZED(average, (const uint8_t *row, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out),
                 (row, above, bytes, pixel, out))
GCONV_VECTORIZED(paeth, (const uint8_t *row, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out),
                 (row, above, bytes, pixel, out))

/* The first pixel has nothing to its left: zeros stand there, and Paeth's choice is the one above. */
static void filter_first(int filter, const uint8_t *row, const uint8_t *above, size_t pixel, uint8_t *out) {
  for (size_t i = 0; i < pixel; i++) {
    int predicted = filter == GCONV_PNG_SUB ? 0 : filter == GCONV_PNG_AVERAGE ? above[i] >> 1 : above[i];
    out[i] = (uint8_t)(row[i] - predicted);
  }
}

void gconv_png_filter_row(int filter, const uint8_t *row, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out) {
  if (filter == GCONV_PNG_NONE) {
    memcpy(out, row, bytes);
    return;
  }
  filter_first(filter, row, above, pixel, out);
  if (filter == GCONV_PNG_SUB)
    sub(row, bytes, pixel, out);
  else if (filter == GCONV_PNG_UP)
    up(row, above, bytes, out);
  else if (filter == GCONV_PNG_AVERAGE)
    average(row, above, bytes, pixel, out);
  else
    paeth(row, above, bytes, pixel, out);
}

/* ---- The inverse: each pixel waits for the one before it, but its bytes go side by side ---- */

GCONV_INLINE void unfilter_pixels(int filter, const uint8_t *restrict in, const uint8_t *restrict above, size_t bytes,
                                  size_t pixel, uint8_t *restrict out) {
  int left[8] = {0};
  for (size_t x = 0; x < bytes; x += pixel)
    for (size_t i = 0; i < pixel; i++) {
      int predicted = filter == GCONV_PNG_SUB ? left[i] : (left[i] + above[x + i]) >> 1;
      left[i] = (in[x + i] + predicted) & 0xff;
      out[x + i] = (uint8_t)left[i];
    }
}

/* The bytes of a pixel, and as many behind it as make eight, in 16 bits each: comparisons of vectors are cheap, where
 * branches on noise would be foreseen half of the time. */
typedef int16_t wide __attribute__((vector_size(16)));
typedef uint8_t narrow __attribute__((vector_size(8)));

GCONV_INLINE wide widen(const uint8_t *bytes) {
  narrow loaded;
  memcpy(&loaded, bytes, sizeof loaded);
  return __builtin_convertvector(loaded, wide);
}

GCONV_INLINE wide magnitude(wide v) {
  wide sign = v >> 15;
  return (v ^ sign) - sign;
}

/* predict_paeth() of eight. */
GCONV_INLINE wide predict_wide(wide left, wide up, wide corner) {
  wide to_left = magnitude(up - corner), to_up = magnitude(left - corner), to_corner = magnitude(left + (up - 2 * corner));
  wide is_up = to_up <= to_corner;
  wide nearer = (up & is_up) | (corner & ~is_up), least = (to_up & is_up) | (to_corner & ~is_up);
  wide is_left = to_left <= least;
  return (left & is_left) | (nearer & ~is_left);
}

/* Rows are read and written by eight bytes at each pixel: the last pixels, where that would go too far, by way of copies. */
GCONV_INLINE void unfilter_paeth(const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out) {
  enum { EIGHT = 8 };
  wide left = {0}, corner = {0};
  for (size_t x = 0; x < bytes; x += pixel) {
    uint8_t last_in[EIGHT] = {0}, last_above[EIGHT] = {0};
    bool inside = bytes - x >= EIGHT;
    if (!inside) {
      memcpy(last_in, in + x, pixel);
      memcpy(last_above, above + x, pixel);
    }
    wide up = widen(inside ? above + x : last_above);
    left = (widen(inside ? in + x : last_in) + predict_wide(left, up, corner)) & 0xff;
    corner = up;
    narrow result = __builtin_convertvector(left, narrow);
    memcpy(out + x, &result, inside ? EIGHT : pixel);
  }
}

GCONV_INLINE void unfilter(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out) {
  if (filter == GCONV_PNG_PAETH)
    unfilter_paeth(in, above, bytes, pixel, out);
  else
    unfilter_pixels(filter, in, above, bytes, pixel, out);
}

/* With a constant for the pixel's size, so that its bytes stay in registers. */
GCONV_INLINE void unfilter_serial(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel,
                                  uint8_t *out) {
  switch (pixel) {
  case 1:
    unfilter(filter, in, above, bytes, 1, out);
    break;
  case 2:
    unfilter(filter, in, above, bytes, 2, out);
    break;
  case 3:
    unfilter(filter, in, above, bytes, 3, out);
    break;
  case 4:
    unfilter(filter, in, above, bytes, 4, out);
    break;
  case 6:
    unfilter(filter, in, above, bytes, 6, out);
    break;
  default:
    unfilter(filter, in, above, bytes, 8, out);
  }
}

GCONV_INLINE void add_above_body(const uint8_t *restrict in, const uint8_t *restrict above, size_t bytes,
                                 uint8_t *restrict out) {
  for (size_t i = 0; i < bytes; i++)
    out[i] = (uint8_t)(in[i] + above[i]);
}

GCONV_VECTORIZED(add_above, (const uint8_t *in, const uint8_t *above, size_t bytes, uint8_t *out), (in, above, bytes, out))

GCONV_INLINE void unfilter_row_body(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel,
                                    uint8_t *out) {
  if (filter == GCONV_PNG_SUB)
    unfilter_serial(GCONV_PNG_SUB, in, above, bytes, pixel, out);
  else if (filter == GCONV_PNG_AVERAGE)
    unfilter_serial(GCONV_PNG_AVERAGE, in, above, bytes, pixel, out);
  else
    unfilter_serial(GCONV_PNG_PAETH, in, above, bytes, pixel, out);
}

GCONV_VECTORIZED(unfilter_row,
                 (int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out),
                 (filter, in, above, bytes, pixel, out))

void gconv_png_unfilter_row(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out) {
  if (filter == GCONV_PNG_NONE)
    memcpy(out, in, bytes);
  else if (filter == GCONV_PNG_UP)
    add_above(in, above, bytes, out);
  else
    unfilter_row(filter, in, above, bytes, pixel, out);
}

/* SPDX-License-Identifier: MIT */
#include "image/png_filter.h"
#include "base/cpu.h"

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

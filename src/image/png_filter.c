/* SPDX-License-Identifier: MIT */
#include "image/png_filter.h"
#include "base/cpu.h"

#include <stdbool.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- Filtering: every output depends on inputs only, so that the plain loops become vector code ---- */

/* Filters from the second pixel on. */
GCONV_INLINE void filter_with(int filter, const uint8_t *restrict row, const uint8_t *restrict above, size_t bytes,
                              size_t pixel, uint8_t *restrict out) {
  for (size_t i = pixel; i < bytes; i++)
    out[i] = (uint8_t)(row[i] - gconv_png_predict(filter, row[i - pixel], above[i], above[i - pixel]));
}

/* Calls filter_with() with a constant for the filter, so that the loop has no branch. */
GCONV_VECTOR_LOOP(filter_row,
                  (int filter, const uint8_t *row, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out),
                  (filter, row, above, bytes, pixel, out)) {
  if (filter == GCONV_PNG_SUB)
    filter_with(GCONV_PNG_SUB, row, above, bytes, pixel, out);
  else if (filter == GCONV_PNG_UP)
    filter_with(GCONV_PNG_UP, row, above, bytes, pixel, out);
  else if (filter == GCONV_PNG_AVERAGE)
    filter_with(GCONV_PNG_AVERAGE, row, above, bytes, pixel, out);
  else
    filter_with(GCONV_PNG_PAETH, row, above, bytes, pixel, out);
}

void gconv_png_filter_row(int filter, const uint8_t *row, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out) {
  if (filter == GCONV_PNG_NONE) {
    memcpy(out, row, bytes);
    return;
  }
  for (size_t i = 0; i < pixel; i++) /* nothing is to the left of the first pixel */
    out[i] = (uint8_t)(row[i] - gconv_png_predict(filter, 0, above[i], 0));
  filter_row(filter, row, above, bytes, pixel, out);
}

/* ---- Unfiltering: each pixel waits for the one before it, but its bytes are computed side by side ---- */

#ifdef __SSE2__

/* Loads the bytes of a pixel, and the bytes after it up to four or eight. */
GCONV_INLINE __m128i load_pixel(const uint8_t *bytes, size_t pixel) {
  uint64_t value = 0;
  memcpy(&value, bytes, pixel <= 4 ? 4 : 8);
  return _mm_cvtsi64_si128((int64_t)value);
}

GCONV_INLINE void store_pixel(uint8_t *bytes, __m128i value, size_t pixel) {
  int64_t low = _mm_cvtsi128_si64(value);
  memcpy(bytes, &low, pixel <= 4 ? 4 : 8);
}

/* Returns (left + up) / 2, rounded down: the processor's own average is rounded up. */
GCONV_INLINE __m128i predict_average(__m128i left, __m128i up) {
  __m128i odd = _mm_and_si128(_mm_xor_si128(left, up), _mm_set1_epi8(1));
  return _mm_sub_epi8(_mm_avg_epu8(left, up), odd);
}

/* Does gconv_png_predict_paeth() in 16 bits, by the same rule, with fewer comparisons that wait for `left`. */
GCONV_INLINE __m128i choose_paeth(__m128i left, __m128i up, __m128i corner) {
  __m128i three = _mm_add_epi16(corner, _mm_add_epi16(corner, corner)), sum = _mm_sub_epi16(_mm_sub_epi16(three, up), left);
  __m128i smaller = _mm_min_epi16(left, up), larger = _mm_max_epi16(left, up);
  __m128i below = _mm_cmpgt_epi16(larger, sum), over = _mm_cmpgt_epi16(sum, smaller);
  __m128i either = _mm_or_si128(_mm_andnot_si128(below, smaller), _mm_andnot_si128(over, larger));
  return _mm_or_si128(either, _mm_and_si128(corner, _mm_and_si128(below, over)));
}

/* Reads and writes four or eight bytes at each pixel. Copies of the last pixels are used where that reaches beyond the
 * row. */
GCONV_INLINE void unfilter_pixels(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel,
                                  uint8_t *out) {
  const size_t width = pixel <= 4 ? 4 : 8;
  const __m128i zero = _mm_setzero_si128();
  __m128i left = zero, corner = zero;
  for (size_t x = 0; x < bytes; x += pixel) {
    uint8_t last_in[8] = {0}, last_above[8] = {0}, last_out[8];
    bool inside = bytes - x >= width;
    if (!inside) {
      memcpy(last_in, in + x, pixel);
      memcpy(last_above, above + x, pixel);
    }
    __m128i difference = load_pixel(inside ? in + x : last_in, pixel),
            up = load_pixel(inside ? above + x : last_above, pixel);
    if (filter == GCONV_PNG_PAETH) {
      up = _mm_unpacklo_epi8(up, zero);
      left = _mm_add_epi8(_mm_unpacklo_epi8(difference, zero), choose_paeth(left, up, corner));
      corner = up;
    } else {
      left = _mm_add_epi8(difference, filter == GCONV_PNG_SUB ? left : predict_average(left, up));
    }
    __m128i result = filter == GCONV_PNG_PAETH ? _mm_packus_epi16(left, left) : left;
    store_pixel(inside ? out + x : last_out, result, pixel);
    if (!inside)
      memcpy(out + x, last_out, pixel);
  }
}

#else

GCONV_INLINE void unfilter_pixels(int filter, const uint8_t *restrict in, const uint8_t *restrict above, size_t bytes,
                                  size_t pixel, uint8_t *restrict out) {
  int16_t left[8] = {0}, corner[8] = {0};
  for (size_t x = 0; x < bytes; x += pixel)
    for (size_t i = 0; i < pixel; i++) {
      int16_t up = above[x + i];
      int predicted = filter == GCONV_PNG_SUB       ? left[i]
                      : filter == GCONV_PNG_AVERAGE ? (left[i] + up) >> 1
                                                    : gconv_png_predict_paeth(left[i], up, corner[i]);
      left[i] = (int16_t)((in[x + i] + predicted) & 0xff);
      corner[i] = up;
      out[x + i] = (uint8_t)left[i];
    }
}

#endif

/* Calls unfilter_pixels() with a constant for the pixel's size, so that its bytes stay in registers. */
GCONV_INLINE void unfilter_serial(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel,
                                  uint8_t *out) {
  switch (pixel) {
  case 1:
    unfilter_pixels(filter, in, above, bytes, 1, out);
    break;
  case 2:
    unfilter_pixels(filter, in, above, bytes, 2, out);
    break;
  case 3:
    unfilter_pixels(filter, in, above, bytes, 3, out);
    break;
  case 4:
    unfilter_pixels(filter, in, above, bytes, 4, out);
    break;
  case 6:
    unfilter_pixels(filter, in, above, bytes, 6, out);
    break;
  default:
    unfilter_pixels(filter, in, above, bytes, 8, out);
  }
}

GCONV_VECTOR_LOOP(add_above, (const uint8_t *in, const uint8_t *above, size_t bytes, uint8_t *out),
                  (in, above, bytes, out)) {
  for (size_t i = 0; i < bytes; i++)
    out[i] = (uint8_t)(in[i] + above[i]);
}

/* Compiled for each kind of processor, although four bytes need no wide vectors: SSE2 instructions are slow in the state in
 * which ISA-L leaves the registers. */
GCONV_VECTOR_LOOP(unfilter_row,
                  (int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out),
                  (filter, in, above, bytes, pixel, out)) {
  if (filter == GCONV_PNG_SUB)
    unfilter_serial(GCONV_PNG_SUB, in, above, bytes, pixel, out);
  else if (filter == GCONV_PNG_AVERAGE)
    unfilter_serial(GCONV_PNG_AVERAGE, in, above, bytes, pixel, out);
  else
    unfilter_serial(GCONV_PNG_PAETH, in, above, bytes, pixel, out);
}

void gconv_png_unfilter_row(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out) {
  if (filter == GCONV_PNG_NONE)
    memcpy(out, in, bytes);
  else if (filter == GCONV_PNG_UP)
    add_above(in, above, bytes, out);
  else
    unfilter_row(filter, in, above, bytes, pixel, out);
}

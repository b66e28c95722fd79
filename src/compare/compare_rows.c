/* SPDX-License-Identifier: MIT */
#include "compare/compare_rows.h"
#include "base/cpu.h"
#include "image/colour.h"

#include <math.h>

enum {
  WINDOW = GCONV_SSIM_WINDOW,
  HALO = WINDOW - 1,
  LANES = 8,      /* partial sums of a row */
  COLUMNS = 1024, /* columns that are summed at a time: five arrays of this length fit into a cache of 64 KB */
  MOMENTS = 5     /* a, b, a * a, b * b, a * b */
};

/* ---- Rows of float values -------------------------------------------------------------------------------------------- */

/* scale: 257 turns levels of u8 into levels of u16. */
GCONV_VECTOR_LOOP(widen_u8, (const uint8_t *in, float *out, size_t count, float scale), (in, out, count, scale)) {
  for (size_t i = 0; i < count; i++)
    out[i] = (float)in[i] * scale;
}

GCONV_VECTOR_LOOP(widen_u16, (const uint16_t *in, float *out, size_t count), (in, out, count)) {
  for (size_t i = 0; i < count; i++)
    out[i] = (float)in[i];
}

void gconv_compare_load(gconv_type type, const void *row, double white, float *values, size_t samples) {
  if (white == 1)
    gconv_colour_to_float_row(type, row, values, samples);
  else if (type == GCONV_U8)
    widen_u8(row, values, samples, white == 255 ? 1 : 257);
  else
    widen_u16(row, values, samples);
}

/* Finds sum, sum of squares, maximum, and number of all |a - b| that are not 0, in LANES parts. */
GCONV_VECTOR_LOOP(differ, (const float *a, const float *b, size_t count, double (*lanes)[LANES]), (a, b, count, lanes)) {
  double absolute[LANES] = {0}, squares[LANES] = {0}, largest[LANES] = {0}, differing[LANES] = {0};
  for (size_t i = 0; i + LANES <= count; i += LANES)
    for (size_t k = 0; k < LANES; k++) {
      double d = fabs((double)a[i + k] - (double)b[i + k]);
      absolute[k] += d;
      squares[k] += d * d;
      largest[k] = d > largest[k] ? d : largest[k];
      differing[k] += d > 0 ? 1.0 : 0.0;
    }
  for (size_t k = 0; k < LANES; k++) {
    lanes[0][k] = absolute[k];
    lanes[1][k] = squares[k];
    lanes[2][k] = largest[k];
    lanes[3][k] = differing[k];
  }
}

/* Returns |a - b|. Equal samples, also infinite samples, differ by 0, and so do two NaN. Other samples of which one is not
 * finite differ by infinity. */
static double difference(float a, float b) {
  if (a == b || (isnan(a) && isnan(b)))
    return 0;
  return isfinite(a) && isfinite(b) ? fabs((double)a - (double)b) : INFINITY;
}

static void add_one_by_one(const float *a, const float *b, size_t first, size_t count, gconv_row_sums *row) {
  for (size_t i = first; i < count; i++) {
    double d = difference(a[i], b[i]);
    row->absolute += d;
    row->squares += d * d;
    row->largest = d > row->largest ? d : row->largest;
    row->differing += d > 0;
  }
}

void gconv_compare_row(const float *a, const float *b, size_t count, double known, gconv_row_sums *row) {
  double lanes[4][LANES];
  *row = (gconv_row_sums){0};
  differ(a, b, count, lanes);
  for (size_t k = 0; k < LANES; k++) {
    row->absolute += lanes[0][k];
    row->squares += lanes[1][k];
    row->largest = lanes[2][k] > row->largest ? lanes[2][k] : row->largest;
    row->differing += (uint64_t)lanes[3][k];
  }
  bool finite = isfinite(row->absolute + row->squares);
  if (!finite)
    *row = (gconv_row_sums){0};
  add_one_by_one(a, b, finite ? count / LANES * LANES : 0, count, row);
  for (size_t i = 0; row->largest > known && i < count; i++)
    if (difference(a[i], b[i]) == row->largest) {
      row->at = (int32_t)i;
      break;
    }
}

/* ---- SSIM ------------------------------------------------------------------------------------------------------------ */

/* moments[m * stride + i] = the sum over WINDOW rows of moment m at column `first` + i. from_a and from_b are subtracted
 * from samples. */
GCONV_VECTOR_LOOP(add_columns,
                  (const float *const *a, const float *const *b, size_t first, size_t count, size_t stride, double from_a,
                   double from_b, double *restrict moments),
                  (a, b, first, count, stride, from_a, from_b, moments)) {
  for (size_t i = 0; i < count; i++) {
    double sum_a = 0, sum_b = 0, sum_aa = 0, sum_bb = 0, sum_ab = 0;
    for (size_t r = 0; r < WINDOW; r++) {
      double x = (double)a[r][first + i] - from_a, y = (double)b[r][first + i] - from_b;
      sum_a += x;
      sum_b += y;
      sum_aa += x * x;
      sum_bb += y * y;
      sum_ab += x * y;
    }
    moments[i] = sum_a;
    moments[stride + i] = sum_b;
    moments[2 * stride + i] = sum_aa;
    moments[3 * stride + i] = sum_bb;
    moments[4 * stride + i] = sum_ab;
  }
}

/* Returns the sum of WINDOW columns that are `step` samples apart. */
GCONV_INLINE double add_window(const double *column, size_t step) {
  return column[0] + column[step] + column[2 * step] + column[3 * step] + column[4 * step] + column[5 * step] +
         column[6 * step];
}

/* similarity[i] = SSIM of the window whose first column is moments[i]. */
GCONV_VECTOR_LOOP(find_similarity,
                  (const double *restrict moments, size_t stride, size_t step, size_t count, double from_a, double from_b,
                   double c1, double c2, double *restrict similarity),
                  (moments, stride, step, count, from_a, from_b, c1, c2, similarity)) {
  const double samples = WINDOW * WINDOW, unbiased = samples / (samples - 1);
  for (size_t i = 0; i < count; i++) {
    double a = add_window(moments + i, step) / samples, b = add_window(moments + stride + i, step) / samples;
    double aa = add_window(moments + 2 * stride + i, step) / samples,
           bb = add_window(moments + 3 * stride + i, step) / samples;
    double ab = add_window(moments + 4 * stride + i, step) / samples;
    double variances = unbiased * ((aa - a * a) + (bb - b * b)), covariance = unbiased * (ab - a * b);
    a += from_a;
    b += from_b;
    similarity[i] = ((2 * a * b + c1) * (2 * covariance + c2)) / ((a * a + b * b + c1) * (variances + c2));
  }
}

/* Returns a number to subtract from samples: without it, variances of large floats lose digits. Sums of levels are exact,
 * and need none. */
static double origin_of(const float *const *rows, size_t first, double white) {
  return white == 1 && isfinite(rows[0][first]) ? (double)rows[0][first] : 0;
}

size_t gconv_similarity_room(size_t step) {
  return (MOMENTS + 1) * (COLUMNS + HALO * step);
}

double gconv_compare_similarity(const float *const *a, const float *const *b, size_t samples, size_t step, double white,
                                double *room) {
  size_t windows = samples - HALO * step, stride = COLUMNS + HALO * step;
  double c1 = 0.01 * white * 0.01 * white, c2 = 0.03 * white * 0.03 * white, sum = 0;
  double *similarity = room + MOMENTS * stride;
  for (size_t first = 0; first < windows; first += COLUMNS) {
    size_t count = windows - first < COLUMNS ? windows - first : COLUMNS;
    double lanes[LANES] = {0};
    const double from_a = origin_of(a, first, white), from_b = origin_of(b, first, white);
    add_columns(a, b, first, count + HALO * step, stride, from_a, from_b, room);
    find_similarity(room, stride, step, count, from_a, from_b, c1, c2, similarity);
    for (size_t i = 0; i < count; i++)
      lanes[i % LANES] += similarity[i];
    for (size_t k = 0; k < LANES; k++)
      sum += lanes[k];
  }
  return sum;
}

/* ---- The picture ----------------------------------------------------------------------------------------------------- */

/* Returns the shade of gconv_compare_draw_row() for a difference, which is a fraction of white. */
static uint8_t shade(double fraction, double doublings) {
  if (fraction == 0)
    return 0;
  double height = 0.125 + 0.875 * (1 + log2(fraction) / doublings);
  return (uint8_t)rint(255 * (height < 0.125 ? 0.125 : height > 1 ? 1 : height));
}

void gconv_compare_draw_row(const float *a, const float *b, size_t pixels, size_t channels, double white, uint8_t *out) {
  double doublings = log2(white == 255 ? 255 : 65535);
  for (size_t x = 0; x < pixels; x++) {
    double largest = 0;
    for (size_t k = x * channels; k < (x + 1) * channels; k++) {
      double d = a[k] == b[k] ? 0 : difference(a[k], b[k]);
      largest = d > largest ? d : largest;
    }
    out[x] = largest == 0 ? 0 : shade(largest / white, doublings);
  }
}

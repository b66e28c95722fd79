/* SPDX-License-Identifier: MIT */
/* toeplitz: makes the bands of filters, on the host. */
#pragma once

#include "toeplitz_rows.cuh"

#include <math.h>

namespace {

/* ---- Bands, made on the host ---- */

/* How the filters of a problem become bands. */
struct shape {
  bool walks;    /* the kernel of toeplitz_walk.cuh or toeplitz_colour.cuh takes them */
  int32_t words; /* W: the window in units of 16 samples; an even number for the staging kernel */
  int32_t rows;  /* rows of bands: R, and some of zeros */
  int32_t bands; /* bands of a digit, 32 bytes each */
  int32_t left;  /* as in banded_arguments */
  int32_t shift; /* the sample of the window under the first tap of output 0 */
};

/* The header before the scalings and bands of all filters. It has 64 bytes. */
struct header {
  int32_t digits;
};
enum { HEADER_FLOATS = 16, MOST_WALKED_ROWS = 9, MOST_WALKED_WORDS = 2, MOST_WORDS = 1024 };

shape shape_of(const gconv_problem *problem) {
  shape s;
  s.shift = (int32_t)(-(int64_t)problem->pad_left * problem->channels & 3);
  s.left = -problem->pad_left * problem->channels - s.shift;
  int64_t window = s.shift + BLOCK + (int64_t)(problem->columns - 1) * problem->channels * problem->dilation_x;
  s.words = (int32_t)(window <= 16 * MOST_WORDS ? (window - 1) / 16 + 1 : MOST_WORDS + 1);
  s.walks = problem->in_type == GCONV_U8 && problem->rows <= MOST_WALKED_ROWS && s.words <= MOST_WALKED_WORDS;
  if (s.walks) {
    s.rows = problem->rows <= 3 ? 3 : problem->rows + 1 - problem->rows % 2;
    s.bands = s.words == 1 ? s.rows + 1 : s.rows;
  } else {
    s.rows = problem->rows;
    s.words += s.words % 2;
    s.bands = s.words / 2 * s.rows;
  }
  return s;
}

/* Returns the problem of one colour of an RGB image. */
gconv_problem colour_of(const gconv_problem *problem) {
  gconv_problem colour = *problem;
  colour.channels = 1;
  return colour;
}

/* Returns whether the colours of the image are separated, which makes windows shorter. It needs a plain epilogue. Then there
 * are bands for one colour, too. */
bool has_colours(const gconv_problem *problem) {
  const gconv_problem colour = colour_of(problem);
  const shape s = shape_of(&colour);
  return problem->channels == 3 && problem->filters == 1 && problem->in_type == GCONV_U8 && problem->out_type == GCONV_U8 &&
         !problem->keep_alpha && shape_of(problem).words > 1 && s.walks && s.words == 1;
}

/* Floats before the bands: header and scalings, rounded up. */
size_t front_floats(const gconv_problem *problem) {
  return HEADER_FLOATS + ((size_t)problem->filters * (sizeof(scaling) / sizeof(float)) + 15) / 16 * 16;
}

/* Floats of the bands of all filters. Those for one colour follow them. */
size_t band_floats(const gconv_problem *problem) {
  return (size_t)problem->filters * shape_of(problem).bands * MOST_DIGITS * 2 * LANES;
}

size_t prepared_floats(const gconv_problem *problem) {
  const gconv_problem colour = colour_of(problem);
  return front_floats(problem) + band_floats(problem) + (has_colours(problem) ? band_floats(&colour) : 0);
}

/* The largest integers of one and of three digits whose negatives have as many digits: 127 * (1 + 256 + 65536). */
enum { LARGEST_SHORT = 127, LARGEST_LONG = 127 * 65793 };

double largest_tap(const gconv_problem *problem, const float *taps) {
  double largest = 0;
  for (int64_t i = 0; i < (int64_t)problem->rows * problem->columns; i++)
    largest = fmax(largest, fabs((double)taps[i]));
  return largest;
}

/* Returns whether every tap is an integer times the quantum, apart from one rounding of the tap and one of the quantum. */
bool is_multiple(const gconv_problem *problem, const float *taps, double quantum) {
  for (int64_t i = 0; i < (int64_t)problem->rows * problem->columns; i++) {
    double tap = (double)taps[i], error = tap - rint(tap / quantum) * quantum;
    if (fabs(error) > fabs(tap) * 0x1p-23)
      return false;
  }
  return true;
}

/* How the taps of a filter become integers: the number of digits, 1 or 3, and the quantum. */
struct grid_of_taps {
  int32_t digits;
  double quantum;
};

grid_of_taps find_grid(const gconv_problem *problem, const float *taps) {
  double largest = largest_tap(problem, taps);
  if (largest == 0)
    return {1, 1};
  for (int32_t multiple = 1; multiple <= LARGEST_SHORT; multiple++)
    if (is_multiple(problem, taps, largest / multiple))
      return {1, largest / multiple};
  return {3, largest / LARGEST_LONG};
}

/* Returns digit number `digit` of an integer, -128 .. 127. */
int8_t digit_of(int32_t integer, int32_t digit) {
  for (; digit > 0; digit--)
    integer = (integer - (int8_t)(integer & 255)) / 256;
  return (int8_t)(integer & 255);
}

/* Adds a byte to row `row` of column g of a band, for digit d of row r of the filter. Bands are stored as [row / 32][r][d]
 * [lane][word]: lane 4 g + t has rows 4 t .. 4 t + 3 of column g in its first word, and the rows 16 further on in its
 * second. Windows of 16 bytes use bands of two rows of the filter, for e = 0 and 1: [e][(r + e) / 2][d][lane][(r + e) % 2].
 */
void add_byte(const shape *s, int64_t digits, int64_t r, int64_t d, int64_t row, int64_t g, uint32_t byte, uint32_t *bands) {
  const int64_t lane = 4 * g + row % 16 / 4;
  if (s->words > 1)
    bands[(((row / 32 * s->rows + r) * digits + d) * LANES + lane) * 2 + row / 16 % 2] |= byte << 8 * (row % 4);
  else
    for (int64_t e = 0; e < 2; e++)
      bands[(((e * s->bands / 2 + (r + e) / 2) * digits + d) * LANES + lane) * 2 + (r + e) % 2] |= byte << 8 * (row % 4);
}

/* Writes the bands of one filter. Column g begins with the first tap, in row shift + g. */
void write_bands(const gconv_problem *problem, const shape *s, const float *taps, double quantum, int32_t digits,
                 uint32_t *bands) {
  int64_t step = (int64_t)problem->channels * problem->dilation_x;
  for (int32_t i = 0; i < problem->rows * problem->columns; i++) {
    int32_t integer = (int32_t)rint((double)taps[i] / quantum);
    for (int32_t d = 0; d < digits; d++)
      for (int32_t g = 0; g < BLOCK; g++)
        add_byte(s, digits, i / problem->columns, d, s->shift + g + i % problem->columns * step, g,
                 (uint8_t)digit_of(integer, d), bands);
  }
}

/* Makes the scaling of a filter. The divisor becomes part of it if that is exact. */
scaling make_scaling(double quantum, float divisor, float bias) {
  int exponent;
  bool power = fabsf(frexpf(divisor, &exponent)) == 0.5f;
  scaling s = {(float)(power ? quantum / (double)divisor : quantum), power ? 1.0f : divisor, bias};
  return s;
}

gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  shape s = shape_of(problem);
  int64_t plane = (int64_t)problem->rows * problem->columns;
  header *head = (header *)prepared;
  scaling *scalings = (scaling *)(prepared + HEADER_FLOATS);
  uint32_t *bands = (uint32_t *)(prepared + front_floats(problem));
  for (size_t i = 0; i < prepared_floats(problem); i++)
    ((uint32_t *)prepared)[i] = 0;
  head->digits = 1;
  for (int32_t k = 0; k < problem->filters; k++) {
    grid_of_taps grid = find_grid(problem, taps + k * plane);
    head->digits = grid.digits > head->digits ? grid.digits : head->digits;
  }
  for (int32_t k = 0; k < problem->filters; k++) {
    double quantum = find_grid(problem, taps + k * plane).quantum;
    scalings[k] = make_scaling(quantum, gconv_divisors(problem, taps)[k], gconv_biases(problem, taps)[k]);
    write_bands(problem, &s, taps + k * plane, quantum, head->digits,
                bands + (int64_t)k * s.bands * head->digits * 2 * LANES);
  }
  if (has_colours(problem)) {
    gconv_problem colour = colour_of(problem);
    shape c = shape_of(&colour);
    write_bands(&colour, &c, taps, find_grid(problem, taps).quantum, head->digits, bands + band_floats(problem));
  }
  return GCONV_OK;
}

} // namespace

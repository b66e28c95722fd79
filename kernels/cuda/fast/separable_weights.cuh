/* SPDX-License-Identifier: MIT */
/* For the kernel whose warps go to the right, on the host: the shape of a problem, and its columns and rows as matrices. The
 * kernel whose blocks go downwards also uses find_exponents(), digit_writer and tap_at(). */
#pragma once

#include "kernels/factor.h"
#include "separable_tensor.cuh"

namespace {

/* Returns by how many rows the last tap lies below the first. */
int reach_y(const gconv_problem *problem) {
  return (problem->rows - 1) * problem->dilation_y;
}

/* Returns the input column of the first group: where the filter begins, rounded down so that whole words can be copied. */
int left_of(const gconv_problem *problem) {
  return -(problem->pad_left + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

constexpr int GROUP_COUNTS[] = {2, 3, 5, 9, 17, 33};
constexpr int SIZES = sizeof GROUP_COUNTS / sizeof *GROUP_COUNTS;

/* Returns the index in GROUP_COUNTS of the window that holds the inputs of 8 neighbouring outputs, or SIZES if none does. */
int size_of(const gconv_problem *problem) {
  int64_t columns = (int64_t)(problem->columns - 1) * problem->dilation_x + GROUP - problem->pad_left - left_of(problem);
  int size = problem->in_type == GCONV_U8 ? 0 : 1; /* other types are bound by memory at this size */
  while (size < SIZES && columns > GROUP * GROUP_COUNTS[size])
    size++;
  return size;
}

int chunks_of(const gconv_problem *problem) {
  return (reach_y(problem) + STRIP - 1) / STRIP + 1;
}

/* Returns the 16-byte words of the fragments of a pair. */
int pair_words(const gconv_problem *problem) {
  int groups = GROUP_COUNTS[size_of(problem)];
  return (chunks_of(problem) * 2 + (groups + 1) / 2 + groups / 2 + 1) * LANES;
}

int step_of_type(gconv_type type) {
  return type == GCONV_U8 ? step_of<uint8_t>() : type == GCONV_U16 ? step_of<uint16_t>() : step_of<float>();
}

int convolved_channels(const gconv_problem *problem) {
  return problem->channels - (problem->keep_alpha ? 1 : 0);
}

/* Returns how many filters one launch computes: all if they are combined, otherwise one. */
int launched_filters(const gconv_problem *problem) {
  return gconv_is_combined(problem) ? problem->filters : 1;
}

/* Returns how many pairs a filter has. A filter of zeros has one pair of zeros. */
int pairs_of(const gconv_problem *problem) {
  return problem->structure.rank > 0 ? problem->structure.rank : 1;
}

/* Returns whether windows are in shared memory: if there are several pairs, or if windows are too large for registers. */
bool is_shared(const gconv_problem *problem) {
  return launched_filters(problem) * pairs_of(problem) > 1 || GROUP_COUNTS[size_of(problem)] > 9;
}

/* Sets the places in shared memory, and the fields that follow from them. Returns the bytes of shared memory. */
size_t lay_out(const gconv_problem *problem, int strips, separable_arguments *a) {
  a->strips = strips;
  a->chunks = chunks_of(problem);
  a->channels = convolved_channels(problem);
  a->filters = launched_filters(problem);
  a->pairs = pairs_of(problem);
  a->fragment_words = a->filters * a->pairs * pair_words(problem);
  size_t quads = 4 * (size_t)(strips + a->chunks - 1), sample = gconv_type_bytes(problem->out_type);
  size_t step = (size_t)step_of_type(problem->in_type), pairs = (size_t)a->filters * (size_t)a->pairs;
  size_t row = step * (size_t)problem->channels, groups = (size_t)GROUP_COUNTS[size_of(problem)] - 1;
  size_t bytes = 2 * (size_t)a->channels * quads * PITCH * 16;
  a->split = (int32_t)(bytes / 2);
  a->raw = (int32_t)bytes;
  bytes += quads * 4 * row * gconv_type_bytes(problem->in_type);
  a->stage = (int32_t)bytes;
  a->stage_row = (int32_t)(row * sample + (sample == 4 ? 32 : 16)); /* so that 8 rows begin in different banks */
  bytes += (size_t)strips * STRIP * (size_t)a->stage_row;
  a->taps = (int32_t)bytes;
  bytes += (size_t)a->fragment_words * 16;
  a->rings = (int32_t)bytes;
  bytes += is_shared(problem) ? (size_t)(strips * a->channels) * pairs * groups * LANES * 16 : 0;
  a->sources = (int32_t)bytes;
  return bytes + 4 * quads * sizeof(int32_t);
}

/* ---- Weights ---- */

/* Returns the floats before the fragments: the factor of each filter's sums, then the digits of the taps, 1 or 2. */
size_t header_floats(const gconv_problem *problem) {
  return ((size_t)problem->filters + 1 + 3) / 4 * 4;
}

/* The powers of two, as large as float16 allows, that scale the taps of the two directions, in the order of processing. */
struct exponents {
  int first, second;
};

/* Returns the exponent n that brings x just below 2^15, the largest power of two in float16. */
int exponent_below(double x) {
  int exponent;
  frexp(x, &exponent);
  return 15 - exponent;
}

double largest_level(gconv_type type) {
  return type == GCONV_F32 ? (double)LARGEST_LEVEL : (double)gconv_white(type) * (double)INTEGER_SCALE;
}

double largest_tap(const float *factor, int count) {
  double most = 0;
  for (int i = 0; i < count; i++)
    most = fmax(most, fabs((double)factor[i]));
  return most;
}

/* Finds exponents such that float16 holds the taps, and the results of the first direction on levels up to `level`. Returns
 * false if the pair is 0. */
bool find_exponents(const float *first, int first_count, const float *second, int second_count, double level, exponents *e) {
  const double most_first = largest_tap(first, first_count), most_second = largest_tap(second, second_count);
  double sum = 0;
  for (int i = 0; i < first_count; i++)
    sum += fabs((double)first[i]);
  if (most_first == 0 || most_second == 0)
    return false;
  const int product = exponent_below(sum * level);
  e->first = exponent_below(most_first) < product ? exponent_below(most_first) : product;
  e->second = exponent_below(most_second);
  return true;
}

/* Writes a tap as two float16: the high part to to[0], the low part to to[distance]. */
struct digit_writer {
  bool low_needed;

  void write(__half *to, size_t distance, double tap) {
    __half high = __float2half_rn((float)tap), low = __float2half_rn((float)(tap - (double)__half2float(high)));
    to[0] = high;
    to[distance] = low;
    low_needed = low_needed || __half2float(low) != 0;
  }
};

/* Returns tap number `offset` / dilation of a factor, or 0 if there is no tap at this offset. */
double tap_at(const float *factor, int count, int64_t dilation, int offset, int exponent) {
  if (offset < 0 || offset % dilation != 0 || offset / dilation >= count)
    return 0;
  return ldexp((double)factor[offset / dilation], exponent);
}

/* Writes the matrix of a column, chunk by chunk: 32 lanes of high parts, then of low parts. Lane 4g + t has columns
 * 4t .. 4t + 3 of rows g and g + 8, in the order in which the input samples lie in shared memory: split_words(). */
void write_column(const gconv_problem *problem, const float *column, int exponent, __half *to, digit_writer *writer) {
  for (int chunk = 0; chunk < chunks_of(problem); chunk++)
    for (int lane = 0; lane < LANES; lane++)
      for (int i = 0; i < 8; i++) {
        int row = lane / 4 + i / 2 % 2 * 8, k = chunk * STRIP + lane % 4 * 4 + i / 4 * 2 + i % 2;
        writer->write(to + (chunk * 2 * LANES + lane) * 8 + i, LANES * 8,
                      tap_at(column, problem->rows, problem->dilation_y, k - row, exponent));
      }
}

/* Writes the factors of group m of the window: 8 rows of the matrix of a filter's row, which are half a fragment. Lane 4g +
 * t has column g and rows 2t, 2t + 1. */
void write_group(const gconv_problem *problem, const float *row, int exponent, int m, __half *to, digit_writer *writer) {
  int shift = -problem->pad_left - left_of(problem), groups = GROUP_COUNTS[size_of(problem)];
  for (int lane = 0; lane < LANES; lane++)
    for (int i = 0; i < 2; i++) {
      int k = m * GROUP + lane % 4 * 2 + i;
      double tap =
          m < 0 || m >= groups ? 0 : tap_at(row, problem->columns, problem->dilation_x, k - lane / 4 - shift, exponent);
      writer->write(to + lane * 8 + i, 4, tap);
    }
}

/* Writes the fragments of a row's matrix, first for pairs of groups that begin at an even group, then for pairs that begin
 * at an odd one: row_fragments in separable_tensor.cuh says why. */
void write_row(const gconv_problem *problem, const float *row, int exponent, __half *to, digit_writer *writer) {
  int groups = GROUP_COUNTS[size_of(problem)];
  for (int first = 0; first >= -1; first--)
    for (int m = first; m < groups; m += 2, to += LANES * 8)
      for (int half = 0; half < 2; half++)
        write_group(problem, row, exponent, m + half, to + 2 * half, writer);
}

/* Writes the fragments of the filter's pairs. The product of the two scales is the same for all pairs. Returns its
 * inverse. */
float write_filter(const gconv_problem *problem, const float *factors, __half *to, digit_writer *writer) {
  const int R = problem->rows, S = problem->columns, rank = problem->structure.rank;
  const float *columns = factors, *rows = factors + rank * R;
  int common = 126; /* exponent of the product, limited so that its inverse is a float */
  for (int i = 0; i < rank; i++) {
    exponents e;
    if (find_exponents(columns + i * R, R, rows + i * S, S, largest_level(problem->in_type), &e) &&
        e.first + e.second < common)
      common = e.first + e.second;
  }
  common = common > -126 ? common : -126;
  for (int i = 0; i < rank; i++, to += pair_words(problem) * 8) {
    exponents e;
    if (!find_exponents(columns + i * R, R, rows + i * S, S, largest_level(problem->in_type), &e))
      continue;
    write_column(problem, columns + i * R, e.first, to, writer);
    write_row(problem, rows + i * S, common - e.first, to + chunks_of(problem) * 2 * LANES * 8, writer);
  }
  return (float)ldexp(1.0, -common);
}

/* ---- Precision ---- */

/* A tap and a level, in two digits each, are off by 2^-22. The product of the low digits, which is left out, adds another
 * 2^-22. Numbers too small for float16 add less than 2^-22. Tensor cores truncate: each addition is off by less than 2^-23
 * of the largest sum. n taps that are not 0 take at most n additions. Each of the 3 products of 16 rows or columns takes 4
 * more additions, to the earlier sums. */
double direction_bound(double taps, double products) {
  return 4 * 0x1p-22 + (taps + 1 + 12 * products) * 0x1p-23;
}

} // namespace

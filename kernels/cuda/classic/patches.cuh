/* SPDX-License-Identifier: MIT */
/*
 * What im2col and im2col-classic share: the patch matrix, and which sample is where in it.
 *
 * All output samples are numbered: images, planes, rows, samples of a row (pixels times channels). The patch matrix has a
 * row for each tap and a column for each output sample. Entry ((r, s), i) is the input sample under tap (r, s) for output i,
 * as a float, with borders resolved. The K x RS matrix of taps times the patch matrix is the K x n matrix of sums:
 *
 *           taps              patches                     sums
 *         RS                n samples                  n samples
 *     +---------+     +------------------+      +------------------+
 *   K | k, t    |  x  | t, i             |  =   | k, i             | K
 *     +---------+  RS |                  |      +------------------+
 *                     +------------------+
 */
#pragma once

#include "classic.cuh"

namespace {

int64_t taps_of(const gconv_problem *problem) {
  return (int64_t)problem->rows * problem->columns;
}

/* Returns the place of output sample number `sample`. *pixel is its output pixel for filter 0. */
DEVICE place place_of(const arguments &a, int64_t sample, uint8_t **pixel) {
  const gconv_problem &problem = a.problem;
  int64_t row_samples = (int64_t)problem.out_width * problem.channels;
  int64_t row = quotient(sample, row_samples), in_row = sample - row * row_samples;
  int64_t plane = quotient(row, problem.out_height), image = quotient(plane, problem.planes);
  place at;
  at.p = row - plane * problem.out_height;
  at.q = quotient(in_row, problem.channels);
  at.c = (int32_t)(in_row - at.q * problem.channels);
  plane -= image * problem.planes;
  at.in = a.in + image * a.in_image + plane * a.in_plane;
  *pixel = a.out + image * a.out_image + plane * a.out_plane + at.p * a.out_row + at.q * a.out_pixel;
  return at;
}

/* Returns entry ((r, s), i): the input sample under tap (r, s) for the output at a place. */
template <class In> DEVICE float patch_entry(const arguments &a, const place &at, int64_t r, int64_t s) {
  const gconv_problem &problem = a.problem;
  return sample_at<In>(problem, at.in, a.in_row, at.p * problem.stride_y - problem.pad_top + r * problem.dilation_y,
                       at.q * problem.stride_x - problem.pad_left + s * problem.dilation_x, at.c);
}

} // namespace

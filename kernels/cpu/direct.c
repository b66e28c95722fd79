/* SPDX-License-Identifier: MIT */
/*
 * direct: sums of shifted rows.
 *
 * A row of an interleaved image is W * C samples, and the neighbour of a sample is C samples further on: so every channel is
 * convolved at once, and no planes are split. Each input row is converted to float32, with its borders, once for a whole
 * strip of output rows, into a ring of the rows that the filter spans; what is left is, for each tap, sums[i] += tap * row[i
 * + shift] over contiguous floats, without a condition.
 *
 * The arithmetic: 2 * R * S flop a sample. Taps are taken in groups of a filter row, whose sum stays in a register while its
 * taps are laid on: the sums are loaded and stored once a group. The order of additions of each sample is that of the
 * definition (r, then s), hence the same bits.
 */
#include "base/cpu.h"
#include "conv/algorithm.h"
#include "conv/rows.h"

/* Lays `taps` taps on: sums[i] += tap[s] * row[i + s * shift]. With `taps` constant, the inner loop unrolls. */
GCONV_INLINE void lay_group(float *restrict sums, size_t count, const float *restrict row, const float *restrict tap,
                            int taps, size_t shift) {
  for (size_t i = 0; i < count; i++) {
    float sum = sums[i];
    for (int s = 0; s < taps; s++)
      sum = fmaf(tap[s], row[i + (size_t)s * shift], sum);
    sums[i] = sum;
  }
}

/* The same over a row that is used pixel by pixel at a distance of `step` samples: strides above 1. */
GCONV_INLINE void lay_group_strided(float *restrict sums, size_t pixels, size_t channels, const float *restrict row,
                                    const float *restrict tap, int taps, size_t shift, size_t step) {
  for (size_t q = 0; q < pixels; q++)
    for (size_t c = 0; c < channels; c++) {
      float sum = sums[q * channels + c];
      for (int s = 0; s < taps; s++)
        sum = fmaf(tap[s], row[q * step + c + (size_t)s * shift], sum);
      sums[q * channels + c] = sum;
    }
}

enum { GROUP = 8 };

/* One row of a filter, `taps` wide, onto one row of sums. */
GCONV_INLINE void lay_row_body(const gconv_problem *problem, float *restrict sums, const float *restrict row,
                               const float *restrict tap) {
  size_t channels = (size_t)problem->channels, pixels = (size_t)problem->out_width, count = pixels * channels;
  size_t shift = (size_t)problem->dilation_x * channels, step = (size_t)problem->stride_x * channels;
  for (int32_t s = 0; s < problem->columns; s += GROUP, tap += GROUP, row += GROUP * shift) {
    int32_t taps = problem->columns - s < GROUP ? problem->columns - s : GROUP;
    if (problem->stride_x > 1) {
      lay_group_strided(sums, pixels, channels, row, tap, taps, shift, step);
      continue;
    }
    switch (taps) {
#define CASE(n)                                                                                                             \
  case n:                                                                                                                   \
    lay_group(sums, count, row, tap, n, shift);                                                                             \
    break;
      CASE(1)
      CASE(2)
      CASE(3)
      CASE(4)
      CASE(5)
      CASE(6)
      CASE(7)
    default:
      lay_group(sums, count, row, tap, GROUP, shift);
#undef CASE
    }
  }
}
GCONV_VECTORIZED(lay_row,
                 (const gconv_problem *problem, float *restrict sums, const float *restrict row, const float *restrict tap),
                 (problem, sums, row, tap))

static size_t sums_floats(const gconv_problem *problem) {
  return ((size_t)problem->out_width * (size_t)problem->channels + 15) / 16 * 16;
}

/* The rows that are in memory at a time: those that one output row needs. With dilation, those in between are skipped for
 * it, but are needed by the next; the ring holds the whole span. */
static int64_t ring_rows(const gconv_problem *problem) {
  return (int64_t)(problem->rows - 1) * problem->dilation_y + 1;
}

static size_t workspace_bytes(const gconv_problem *problem) {
  size_t ring = gconv_row_floats(problem) * (size_t)ring_rows(problem);
  return (ring + sums_floats(problem) * (size_t)problem->filters) * sizeof(float);
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  int64_t span = ring_rows(problem);
  size_t row_floats = gconv_row_floats(problem), stride = sums_floats(problem);
  float *ring = execution->workspace, *sums = ring + row_floats * (size_t)span;
  int64_t loaded =
      (int64_t)execution->first_row * problem->stride_y; /* rows before this one, counted from -pad_top, are done */
  for (int32_t p = execution->first_row; p < execution->end_row; p++) {
    int64_t top = (int64_t)p * problem->stride_y;
    for (loaded = loaded > top ? loaded : top; loaded < top + span; loaded++)
      if ((loaded - top) % problem->dilation_y == 0 || problem->stride_y % problem->dilation_y != 0)
        gconv_load_row(execution, loaded - problem->pad_top, ring + row_floats * (size_t)(loaded % span));
    for (int32_t k = 0; k < problem->filters; k++) {
      float *row_sums = sums + stride * (size_t)k;
      for (size_t i = 0; i < stride; i++)
        row_sums[i] = 0.0f;
      for (int32_t r = 0; r < problem->rows; r++)
        lay_row(problem, row_sums, ring + row_floats * (size_t)((top + (int64_t)r * problem->dilation_y) % span),
                execution->weights + ((int64_t)k * problem->rows + r) * problem->columns);
    }
    gconv_store_row(execution, p, sums, stride);
  }
  return GCONV_OK;
}

static const char *supports(const gconv_problem *problem) {
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
}

static double cost(const gconv_problem *problem) {
  return gconv_problem_flop(problem) * 5e-8; /* 20 GFLOP/s */
}

const gconv_algorithm gconv_algorithm_cpu_direct = {
    .info = {.name = "direct", .device = "cpu", .help = "shifted rows of all channels at once, vectorised", .exact = true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
};

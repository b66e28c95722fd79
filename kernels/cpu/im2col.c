/* SPDX-License-Identifier: MIT */
/*
 * im2col: the convolution as a product of matrices.
 *
 * For a block of output samples, the patch matrix has a row for each tap (r, s) and a column for each sample. Entry ((r, s),
 * i) is the input under tap (r, s) for sample i. The K x RS matrix of taps times the patch matrix gives the sums of all
 * filters. A whole patch matrix would be R * S times as large as the input, so it is made in blocks that stay in cache.
 *
 * im2col is the fastest if many filters share a patch matrix (K large). For one filter, copying costs more than it saves.
 * The product adds the taps in the order of the definition, so the bits are those of the exact family.
 */
#include "base/cpu.h"
#include "kernels/algorithm.h"
#include "kernels/cpu/rows.h"
#include "tile.h"

#include <string.h>

enum { COLUMNS = 64 }; /* columns of a block: their sums, 4 vectors of 16 floats, stay in registers */

static int64_t taps_of(const gconv_problem *problem) {
  return (int64_t)problem->rows * problem->columns;
}

/* Returns the floats of an input row with border pixels, from the first to the last column under a filter. */
static size_t floats_of_row(const gconv_problem *problem) {
  return gconv_round_up((size_t)gconv_reach(problem) * (size_t)problem->channels, 16);
}

static size_t sums_floats(const gconv_problem *problem) {
  return ((size_t)problem->out_width * (size_t)problem->channels + COLUMNS - 1) / COLUMNS * COLUMNS;
}

/* Fills the columns of the patch matrix for samples first .. first + COLUMNS - 1 of an output row. Columns past its end
 * become 0. Sizes are copied to local variables, because loads from the problem would wait for the stores to the matrix. */
static void gather(const gconv_problem *problem, const float *rows, size_t row_floats, int64_t first, float *matrix) {
  const int64_t channels = problem->channels, samples = (int64_t)problem->out_width * channels;
  const int64_t count = samples - first < COLUMNS ? samples - first : COLUMNS, step = problem->dilation_x * channels;
  const int32_t stride = problem->stride_x, taps_of_row = problem->columns;
  const float *const end = rows + (size_t)problem->rows * row_floats;
  for (; rows < end; rows += row_floats)
    for (int32_t s = 0; s < taps_of_row; s++, matrix += COLUMNS) {
      const float *row = rows + s * step;
      if (stride == 1) {
        memcpy(matrix, row + first, (size_t)count * sizeof *matrix);
      } else {
        for (int64_t i = 0; i < count; i++)
          matrix[i] = row[(first + i) / channels * stride * channels + (first + i) % channels];
      }
      for (int64_t i = count; i < COLUMNS; i++)
        matrix[i] = 0.0f;
    }
}

/* Sets sums[0 .. COLUMNS - 1] to the row of taps times the matrix. */
GCONV_VECTOR_LOOP(multiply, (const float *restrict taps, int64_t count, const float *restrict matrix, float *restrict sums),
                  (taps, count, matrix, sums)) {
  float sum[COLUMNS] = {0};
  for (int64_t t = 0; t < count; t++)
    for (int i = 0; i < COLUMNS; i++)
      sum[i] = fmaf(taps[t], matrix[t * COLUMNS + i], sum[i]);
  for (int i = 0; i < COLUMNS; i++)
    sums[i] = sum[i];
}

static size_t workspace_bytes(const gconv_problem *problem) {
  size_t rows = floats_of_row(problem) * (size_t)problem->rows, matrix = (size_t)taps_of(problem) * COLUMNS;
  return (rows + matrix + sums_floats(problem) * (size_t)problem->filters) * sizeof(float);
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  size_t row_floats = floats_of_row(problem), stride = sums_floats(problem);
  int64_t taps = taps_of(problem), samples = (int64_t)problem->out_width * problem->channels;
  float *rows = execution->workspace, *matrix = rows + row_floats * (size_t)problem->rows, *sums = matrix + taps * COLUMNS;
  for (int32_t p = execution->first_row; p < execution->end_row; p++) {
    for (int64_t r = 0; r < problem->rows; r++)
      gconv_load_pixels(execution, (int64_t)p * problem->stride_y - problem->pad_top + r * problem->dilation_y,
                        -(int64_t)problem->pad_left, 1, gconv_reach(problem), rows + (size_t)r * row_floats);
    for (int64_t first = 0; first < samples; first += COLUMNS) {
      gather(problem, rows, row_floats, first, matrix);
      for (int32_t k = 0; k < problem->filters; k++)
        multiply(execution->weights + k * taps, taps, matrix, sums + stride * (size_t)k + first);
    }
    gconv_store_row(execution, p, sums, stride);
  }
  return GCONV_OK;
}

static const char *supports(const gconv_problem *problem) {
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its workspace would exceed 2 GiB a thread" : NULL;
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double copying = 0.09 / problem->filters; /* nanoseconds a tap, shared by all filters */
  double pace = 0.031;                      /* nanoseconds a tap, as in gconv_tile_ms() */
  return gconv_tile_ms(problem, machine, 0, (double)taps_of(problem) * (1 + copying / pace));
}

const gconv_algorithm gconv_algorithm_cpu_im2col = {
    .info = {"im2col", "cpu", "patch matrix in blocks, then a product of matrices", true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
};

/* SPDX-License-Identifier: MIT */
/*
 * What im2col and im2col-cublas share: the patch matrix, the chunks in which it is made, and storing the product.
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
 *
 * A last kernel finishes and stores the sums. The patch matrix is R * S times as large as the output. So it is made in
 * chunks of n samples; a chunk may be many rows or a part of one. Large chunks, up to the workspace, are the fastest. Chunks
 * so small that matrix and sums stay in the L2 cache were slower, because they do not fill the device.
 */
#pragma once

#include "classic.cuh"

namespace {

/* ---- Chunks ---- */

enum : int64_t {
  COLUMN_STEP = 32,      /* rows of both matrices begin at multiples of 128 bytes */
  MOST_COLUMNS = 1 << 28 /* so that 32 bits can number them */
};

int64_t taps_of(const gconv_problem *problem) {
  return (int64_t)problem->rows * problem->columns;
}

/* Floats for one column: its patch and its sums. */
int64_t column_floats(const gconv_problem *problem) {
  return taps_of(problem) + problem->filters;
}

/* Columns of a chunk, a multiple of COLUMN_STEP, such that patches and sums fit into `bytes`. 0 if none fit. */
int64_t chunk_columns(const gconv_problem *problem, int64_t bytes) {
  int64_t columns = bytes / (column_floats(problem) * (int64_t)sizeof(float)) / COLUMN_STEP * COLUMN_STEP;
  if (columns <= 0)
    return 0;
  columns = columns < MOST_COLUMNS ? columns : (int64_t)MOST_COLUMNS;
  int64_t samples = samples_of(problem), chunks = (samples - 1) / columns + 1; /* all chunks are about equally long */
  return ((samples - 1) / chunks / COLUMN_STEP + 1) * COLUMN_STEP;
}

size_t chunk_bytes(const gconv_problem *problem, int64_t columns) {
  return (size_t)columns * (size_t)column_floats(problem) * sizeof(float);
}

/* Estimates all but the product: patches and sums are written and read again, samples are read and written; three launches a
 * chunk. */
double patches_ms(const gconv_problem *problem, int64_t columns, const gconv_machine *machine) {
  double samples = (double)samples_of(problem), chunks = samples / (double)columns + 1;
  double bytes = samples * (8 * (double)column_floats(problem) + 8 * problem->filters);
  return bytes / machine->bytes_per_ms + 3 * chunks * machine->launch_ms;
}

/* ---- From a number of a sample to its place ---- */

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

/* ---- The kernels before and after the product ---- */

/* Entry ((r, s), i): the input sample under tap (r, s) for the output at a place. */
template <class In> DEVICE float patch_entry(const arguments &a, const place &at, int64_t r, int64_t s) {
  const gconv_problem &problem = a.problem;
  return sample_at<In>(problem, at.in, a.in_row, at.p * problem.stride_y - problem.pad_top + r * problem.dilation_y,
                       at.q * problem.stride_x - problem.pad_left + s * problem.dilation_x, at.c);
}

/* A thread writes the entries of one column, for some rows of taps. Neighbouring threads write neighbouring floats.
 * `patches` has RS rows of `pitch` floats, of which `columns` are filled, from sample `first` on. Grid: x counts columns, y
 * rows of taps. */
template <class In>
__global__ void make_patches(const __grid_constant__ arguments a, int64_t first, int32_t columns, int32_t pitch,
                             float *patches) {
  const int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns)
    return;
  uint8_t *unused;
  const place at = place_of(a, first + column, &unused);
  for (int64_t r = blockIdx.y; r < a.problem.rows; r += gridDim.y)
    for (int64_t s = 0; s < a.problem.columns; s++)
      patches[(r * a.problem.columns + s) * pitch + column] = patch_entry<In>(a, at, r, s);
}

/* A thread stores the results of one sample. `sums` has K rows of `pitch` floats. Grid: x counts columns. */
template <class In, class Out>
__global__ void finish_sums(const __grid_constant__ arguments a, const float *weights, int64_t first, int32_t columns,
                            int32_t pitch, const float *sums) {
  const int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns)
    return;
  uint8_t *pixel;
  const place at = place_of(a, first + column, &pixel);
  store_sample<In, Out>(a, weights, at, pixel, [&](int32_t k) { return sums[(int64_t)k * pitch + column]; });
}

/* ---- The host ---- */

/* A chunk that is being computed. */
struct chunk {
  int64_t first;   /* first sample */
  int32_t columns; /* number of samples */
  int32_t pitch;   /* floats from one row of the matrices to the next */
  float *patches;  /* RS x pitch */
  float *sums;     /* K x pitch */
};

/* Runs the whole convolution in chunks of at most `columns` samples. For each chunk: make patches, multiply(part), store
 * results. multiply() enqueues the product that fills part.sums, and returns a status. */
template <class Multiply>
gconv_status convolve_chunks(const gconv_execution *execution, int64_t columns, Multiply multiply) {
  const gconv_problem *problem = execution->problem;
  const arguments a = common_arguments(execution);
  const cudaStream_t stream = (cudaStream_t)execution->stream;
  const int64_t samples = samples_of(problem);
  chunk part = {};
  part.pitch = (int32_t)columns;
  part.patches = (float *)execution->workspace;
  part.sums = part.patches + taps_of(problem) * columns;
  for (part.first = 0; part.first < samples; part.first += columns) {
    part.columns = (int32_t)(samples - part.first < columns ? samples - part.first : columns);
    const unsigned blocks = blocks_for(part.columns, 256, INT32_MAX), rows = blocks_for(problem->rows, 1, 65535);
    with_type(problem->in_type, [&](auto in) {
      make_patches<decltype(in)>
          <<<dim3(blocks, rows), 256, 0, stream>>>(a, part.first, part.columns, part.pitch, part.patches);
    });
    GCONV_TRY(multiply(part));
    GCONV_TRY(launch_by_types(problem, [&](auto in, auto out) {
      finish_sums<decltype(in), decltype(out)>
          <<<blocks, 256, 0, stream>>>(a, execution->weights, part.first, part.columns, part.pitch, part.sums);
    }));
  }
  return GCONV_OK;
}

} // namespace

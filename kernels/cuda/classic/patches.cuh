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

#include "../core/launch.cuh"
#include "../core/store.cuh"

namespace {

/* ---- Chunks ---- */

enum : int64_t {
  COLUMN_STEP = 32,       /* rows of both matrices begin at multiples of 128 bytes */
  MOST_COLUMNS = 1 << 28, /* so that 32 bits can number them */
  MANY_THREADS = 1 << 18, /* threads that keep a large GPU busy */
  FILTERS_AT_ONCE = 8     /* filters whose sums a thread of the last kernel stores */
};

int64_t taps_of(const gconv_problem *problem) {
  return (int64_t)problem->rows * problem->columns;
}

int64_t samples_of_row(const gconv_problem *problem) {
  return (int64_t)problem->out_width * problem->channels;
}

int64_t samples_of(const gconv_problem *problem) {
  return (int64_t)problem->images * problem->planes * problem->out_height * samples_of_row(problem);
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

/* ---- The patch matrix ---- */

/* Copies a row of a patch that lies inside the input row. It starts at sample `left`. `to` advances by `pitch` floats. */
template <class In> __device__ void copy_inside(const gconv_problem &problem, const In *left, float *to, int64_t pitch) {
  const int32_t columns = problem.columns;
  const int64_t step = (int64_t)problem.dilation_x * problem.channels;
  UNROLLED_4_FOR (int32_t s = 0; s < columns; s++, left += step, to += pitch)
    *to = (float)*left;
}

/* The same for a patch that reaches over the border. y may be outside, too. */
template <class In>
__device__ void copy_at_border(const arguments &a, const place &at, int64_t y, int64_t x, float *to, int64_t pitch) {
  for (int32_t s = 0; s < a.problem.columns; s++, x += a.problem.dilation_x, to += pitch)
    *to = sample_at<In>(a.problem, at.in, a.in_row, y, x, at.c);
}

/* A thread writes the column of one sample, or some rows of it. `patches` has RS rows of `pitch` floats, of which `columns`
 * are filled, from sample `first` on. Neighbouring threads write neighbouring floats. Grid: x counts columns, y patch rows;
 * threads stride. */
template <class In>
__global__ void make_patches(const __grid_constant__ arguments a, int64_t first, int32_t columns, int32_t pitch,
                             float *patches) {
  const gconv_problem &problem = a.problem;
  int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns)
    return;
  uint8_t *unused;
  const place at = place_of(a, first + column, &unused);
  const int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  const int64_t right = left + (int64_t)(problem.columns - 1) * problem.dilation_x;
  for (int32_t r = (int32_t)blockIdx.y; r < problem.rows; r += (int32_t)gridDim.y) {
    int64_t y = top + (int64_t)r * problem.dilation_y;
    float *to = patches + (int64_t)r * problem.columns * pitch + column;
    if (left >= 0 && right < problem.width && y >= 0 && y < problem.height)
      copy_inside(problem, (const In *)(at.in + y * a.in_row) + left * problem.channels + at.c, to, pitch);
    else
      copy_at_border<In>(a, at, y, left, to, pitch);
  }
}

/* ---- From sums to the output ---- */

/* Stores the responses of filters k .. end - 1 at one sample. */
template <class Out>
__device__ void store_some(const arguments &a, const float *weights, int32_t k, int32_t end, const place &at, uint8_t *pixel,
                           const float *sums, int64_t pitch) {
  const gconv_problem &problem = a.problem;
  const float *divisors = gconv_divisors(&problem, weights), *biases = gconv_biases(&problem, weights);
  uint8_t *to = pixel + k * a.out_filter + at.c * a.out_channel;
  UNROLLED_4_FOR (; k < end; k++, to += a.out_filter)
    gconv_store(
        gconv_finish(gconv_response(__ldcs(sums + k * pitch), __ldg(divisors + k), __ldg(biases + k)), &problem.epilogue),
        (Out *)to);
}

/* A thread stores the results of one sample, for FILTERS_AT_ONCE filters, or for all if they are combined. `sums` has K rows
 * of `pitch` floats. Grid: x counts columns, y filters; threads stride. */
template <class In, class Out>
__global__ void finish_sums(const __grid_constant__ arguments a, const float *weights, int64_t first, int32_t columns,
                            int32_t pitch, const float *sums) {
  const gconv_problem &problem = a.problem;
  const int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns)
    return;
  uint8_t *pixel;
  const place at = place_of(a, first + column, &pixel);
  sums += column;
  if (problem.keep_alpha && at.c == problem.channels - 1) {
    if (blockIdx.y == 0)
      keep_alpha<In, Out>(a, at, pixel);
  } else if (gconv_is_combined(&problem)) {
    store_responses<Out>(a, weights, at.c, pixel, [&](int32_t k) { return sums[(int64_t)k * pitch]; });
  } else {
    for (int32_t k = (int32_t)blockIdx.y * FILTERS_AT_ONCE; k < problem.filters; k += (int32_t)gridDim.y * FILTERS_AT_ONCE)
      store_some<Out>(a, weights, k, min(k + (int32_t)FILTERS_AT_ONCE, problem.filters), at, pixel, sums, pitch);
  }
}

/* ---- Launching ---- */

/* A chunk that is being computed. */
struct chunk {
  int64_t first;   /* first sample */
  int32_t columns; /* number of samples */
  int32_t pitch;   /* floats from one row of the matrices to the next */
  float *patches;  /* RS x pitch */
  float *sums;     /* K x pitch */
};

template <class In> void launch_patches(const gconv_execution *execution, const arguments &a, const chunk &part) {
  /* There are no more threads than needed, since each first computes its place. */
  int64_t rows = blocks_for(MANY_THREADS, part.columns, a.problem.rows);
  dim3 grid(blocks_for(part.columns, 256, INT32_MAX), blocks_for(rows, 1, 65535));
  make_patches<In><<<grid, 256, 0, (cudaStream_t)execution->stream>>>(a, part.first, part.columns, part.pitch, part.patches);
}

template <class In, class Out> void launch_finish(const gconv_execution *execution, const arguments &a, const chunk &part) {
  int64_t filters = gconv_is_combined(&a.problem) ? 1 : a.problem.filters;
  dim3 grid(blocks_for(part.columns, 256, INT32_MAX), blocks_for(filters, FILTERS_AT_ONCE, 65535));
  finish_sums<In, Out><<<grid, 256, 0, (cudaStream_t)execution->stream>>>(a, execution->weights, part.first, part.columns,
                                                                          part.pitch, part.sums);
}

/* Runs the whole convolution in chunks of at most `columns` samples. For each chunk: make patches, multiply(part), store
 * results. multiply() enqueues the product that fills part.sums, and returns a status. */
template <class Multiply>
gconv_status convolve_chunks(const gconv_execution *execution, int64_t columns, Multiply multiply) {
  const gconv_problem *problem = execution->problem;
  const arguments a = common_arguments(execution);
  const int64_t samples = samples_of(problem);
  chunk part = {};
  part.pitch = (int32_t)columns;
  part.patches = (float *)execution->workspace;
  part.sums = part.patches + taps_of(problem) * columns;
  for (part.first = 0; part.first < samples; part.first += columns) {
    part.columns = (int32_t)(samples - part.first < columns ? samples - part.first : columns);
    with_type(problem->in_type, [&](auto in) { launch_patches<decltype(in)>(execution, a, part); });
    gconv_status status = multiply(part);
    if (status != GCONV_OK)
      return status;
    with_type(problem->in_type, [&](auto in) {
      with_type(problem->out_type, [&](auto out) { launch_finish<decltype(in), decltype(out)>(execution, a, part); });
    });
  }
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

} // namespace

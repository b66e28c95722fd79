/* SPDX-License-Identifier: MIT */
/*
 * What im2col and im2col-cublas share: the patch matrix, the chunks in which it is made, and what becomes of the product.
 *
 * The output samples are numbered through: images, planes, rows, samples of a row (pixels times channels). The patch matrix
 * has a row for each tap and a column for each output sample: entry ((r, s), i) is the input that tap (r, s) meets for
 * sample i, as a float, borders resolved. The K x RS matrix of taps times the patch matrix is the K x n matrix of sums,
 *
 *            taps              patches                     sums
 *          RS                n samples                  n samples
 *      +---------+     +------------------+      +------------------+
 *    K | k, t    |  x  | t, i             |  =   | k, i             | K
 *      +---------+  RS |                  |      +------------------+
 *                      +------------------+
 *
 * which a last kernel turns into responses and stores. The patch matrix is R * S times as large as the output, so it is made
 * for a chunk of n samples at a time, of any length: a chunk may be many rows or a part of one. Small chunks are better than
 * large ones as long as they fill the device, because matrix and sums then stay in the L2 cache between the kernels.
 */
#ifndef GCONV_CUDA_PATCHES_CUH
#define GCONV_CUDA_PATCHES_CUH

#include "common.cuh"

namespace {

/* ---- Chunks ---- */

enum : int64_t {
  CACHED_BYTES = 24 << 20,   /* of patches and sums: about half of the L2 cache of a large GPU */
  FILLING_COLUMNS = 1 << 17, /* that keep a large GPU busy; worth leaving the cache for */
  COLUMN_STEP = 32           /* rows of both matrices begin at multiples of 128 bytes */
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

/* Floats that a column takes: its patch and its sums. */
int64_t column_floats(const gconv_problem *problem) {
  return taps_of(problem) + problem->filters;
}

/* Columns of a chunk, a multiple of COLUMN_STEP, such that patches and sums fit into `bytes`; 0 if none do. */
int64_t chunk_columns(const gconv_problem *problem, int64_t bytes) {
  int64_t column_bytes = column_floats(problem) * (int64_t)sizeof(float), samples = samples_of(problem);
  int64_t columns = CACHED_BYTES / column_bytes;
  columns = columns > FILLING_COLUMNS ? columns : (int64_t)FILLING_COLUMNS;
  columns = columns < bytes / column_bytes ? columns : bytes / column_bytes;
  columns = columns / COLUMN_STEP * COLUMN_STEP;
  if (columns <= 0)
    return 0;
  int64_t chunks = (samples - 1) / columns + 1, even = (samples - 1) / chunks + 1; /* all chunks about as long */
  return (even - 1) / COLUMN_STEP * COLUMN_STEP + COLUMN_STEP;
}

size_t chunk_bytes(const gconv_problem *problem, int64_t columns) {
  return (size_t)columns * (size_t)column_floats(problem) * sizeof(float);
}

/* An estimate of all but the product: patches written and read again, sums too, the samples themselves; three launches a
 * chunk. */
double patches_ms(const gconv_problem *problem, int64_t columns, const gconv_machine *machine) {
  double samples = (double)samples_of(problem), chunks = samples / (double)columns + 1;
  double bytes = samples * (8 * (double)column_floats(problem) + 8 * problem->filters);
  return bytes / machine->bytes_per_ms + 3 * chunks * machine->launch_ms;
}

/* ---- From a number of a sample to its place ---- */

/* a / b for 0 <= a, 0 < b, in 32 bits where these suffice, which is several times as fast. */
__device__ __forceinline__ int64_t quotient(int64_t a, int64_t b) {
  return ((a | b) >> 32) == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/* The place of output sample number `sample`; *pixel is that of its output pixel for filter 0. */
__device__ __forceinline__ place place_of(const arguments &a, int64_t sample, uint8_t **pixel) {
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

/* The row of a patch that starts at sample `left` of the input row and lies in it. `to` advances by `pitch` floats. */
template <class In> __device__ void copy_inside(const gconv_problem &problem, const In *left, float *to, int64_t pitch) {
  const int32_t columns = problem.columns;
  const int64_t step = (int64_t)problem.dilation_x * problem.channels;
#pragma unroll 4
  for (int32_t s = 0; s < columns; s++, left += step, to += pitch)
    *to = (float)*left;
}

/* The same for a patch that reaches over the border; y may be outside, too. */
template <class In>
__device__ void copy_at_border(const arguments &a, const place &at, int64_t y, int64_t x, float *to, int64_t pitch) {
  for (int32_t s = 0; s < a.problem.columns; s++, x += a.problem.dilation_x, to += pitch)
    *to = sample_at<In>(a.problem, at.in, a.in_row, y, x, at.c);
}

/* A thread makes the column of one sample, or some rows of its patch: `patches` is RS x `pitch`, of which `columns` are
 * filled, from sample `first` on. Neighbouring threads write neighbouring floats. Grid: x over columns, y over patch rows,
 * strided. */
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

/* A thread stores what becomes of the sums of one sample: sums is K x `pitch`. */
template <class In, class Out>
__global__ void finish_sums(const __grid_constant__ arguments a, const float *weights, int64_t first, int32_t columns,
                            int32_t pitch, const float *sums) {
  int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns)
    return;
  uint8_t *pixel;
  const place at = place_of(a, first + column, &pixel);
  if (a.problem.keep_alpha && at.c == a.problem.channels - 1)
    keep_alpha<In, Out>(a, at, pixel);
  else
    store_responses<Out>(a, weights, at.c, pixel, [&](int32_t k) { return sums[(int64_t)k * pitch + column]; });
}

/* ---- Launching ---- */

/* A chunk under way. */
struct chunk {
  int64_t first;   /* sample */
  int32_t columns; /* samples */
  int32_t pitch;   /* floats from a row of the matrices to the next */
  float *patches;  /* RS x pitch */
  float *sums;     /* K x pitch */
};

template <class In> void launch_patches(const gconv_execution *execution, const arguments &a, const chunk &part) {
  unsigned across = blocks_for(part.columns, 256, INT32_MAX);
  /* Threads as many as a large GPU runs at a time; no more, since each finds its place first. */
  int64_t rows = blocks_for(FILLING_COLUMNS * 3, part.columns, execution->problem->rows);
  dim3 grid(across, (unsigned)(rows < 65535 ? rows : 65535));
  make_patches<In><<<grid, 256, 0, (cudaStream_t)execution->stream>>>(a, part.first, part.columns, part.pitch, part.patches);
}

template <class In, class Out> void launch_finish(const gconv_execution *execution, const arguments &a, const chunk &part) {
  finish_sums<In, Out><<<blocks_for(part.columns, 256, INT32_MAX), 256, 0, (cudaStream_t)execution->stream>>>(
      a, execution->weights, part.first, part.columns, part.pitch, part.sums);
}

typedef void part_launcher(const gconv_execution *, const arguments &, const chunk &);

/* The instances, by types: gconv_type counts u8, u16, f32. */
part_launcher *const patch_launchers[3] = {launch_patches<uint8_t>, launch_patches<uint16_t>, launch_patches<float>};
#define OUTPUTS(In)                                                                                                         \
  { launch_finish<In, uint8_t>, launch_finish<In, uint16_t>, launch_finish<In, float> }
part_launcher *const finish_launchers[3][3] = {OUTPUTS(uint8_t), OUTPUTS(uint16_t), OUTPUTS(float)};
#undef OUTPUTS

/* The whole convolution in chunks of up to `columns`: for each, patches, multiply(part), results. multiply() enqueues what
 * fills part.sums and returns a status. */
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
    patch_launchers[problem->in_type](execution, a, part);
    gconv_status status = multiply(part);
    if (status != GCONV_OK)
      return status;
    finish_launchers[problem->in_type][problem->out_type](execution, a, part);
  }
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

} // namespace

#endif

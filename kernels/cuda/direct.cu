/* SPDX-License-Identifier: MIT */
/*
 * direct: one thread, one output sample.
 *
 * Neighbouring threads take neighbouring samples of a row (q * channels + c), so that their loads of one tap are neighbours
 * too, and channels need no care: the neighbour of a sample is `channels` samples further on. Rows are reused through the
 * caches only. Every thread lays on the taps of a filter in the order of the definition, hence the bits of the exact family.
 *
 * The arithmetic: 2 * R * S flop for R * S loads, nearly all from the L1 cache, so it is bound by load instructions, not by
 * memory: a plain kernel, to be right and to be read. Samples whose filter lies inside the image take a path without
 * look-ups at the border.
 */
#include "conv/algorithm.h"

#include <cuda_runtime_api.h>

/* What a kernel needs to know of an execution: passed by value. */
struct arguments {
  gconv_problem problem;
  const float *weights;
  const uint8_t *in;
  int64_t in_image, in_plane, in_row;
  uint8_t *out;
  int64_t out_filter; /* from the output of a filter to that of the next */
  int64_t out_image, out_plane, out_row, out_pixel, out_channel, out_alpha;
};

/* An output sample's place, and the input row 0 of its plane. */
struct place {
  int64_t p, q;
  int32_t c;
  const uint8_t *in;
};

/* The level at (y, x), inside or outside. */
template <class In> __device__ float sample_at(const arguments &a, const place &at, int64_t y, int64_t x) {
  y = gconv_border_index(a.problem.border, y, a.problem.height);
  x = gconv_border_index(a.problem.border, x, a.problem.width);
  if (y == GCONV_OUTSIDE || x == GCONV_OUTSIDE)
    return a.problem.border_level;
  return ((const In *)(at.in + y * a.in_row))[x * a.problem.channels + at.c];
}

/* The sum of filter k, the filter lying inside the image. */
template <class In> __device__ float sum_inside(const arguments &a, const place &at, const float *tap) {
  const gconv_problem &problem = a.problem;
  int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  const uint8_t *row = at.in + top * a.in_row + (left * problem.channels + at.c) * (int64_t)sizeof(In);
  int32_t step = problem.dilation_x * problem.channels;
  float sum = 0.0f;
  for (int32_t r = 0; r < problem.rows; r++, row += problem.dilation_y * a.in_row) {
    const In *sample = (const In *)row;
    for (int32_t s = 0; s < problem.columns; s++, sample += step)
      sum = fmaf(__ldg(tap++), (float)*sample, sum);
  }
  return sum;
}

template <class In> __device__ float sum_at_border(const arguments &a, const place &at, const float *tap) {
  const gconv_problem &problem = a.problem;
  int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  float sum = 0.0f;
  for (int64_t r = 0; r < problem.rows; r++)
    for (int64_t s = 0; s < problem.columns; s++)
      sum = fmaf(__ldg(tap++), sample_at<In>(a, at, top + r * problem.dilation_y, left + s * problem.dilation_x), sum);
  return sum;
}

/* Alpha that is kept: the sample below the anchor. */
template <class In, class Out> __device__ void keep_alpha(const arguments &a, const place &at, uint8_t *pixel) {
  const gconv_problem &problem = a.problem;
  int64_t y = at.p * problem.stride_y - problem.pad_top + problem.anchor_y;
  int64_t x = at.q * problem.stride_x - problem.pad_left + problem.anchor_x;
  float alpha =
      gconv_scale(sample_at<In>(a, at, y, x), problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
  int32_t copies = problem.epilogue.combine == GCONV_COMBINE_NONE ? problem.filters : 1;
  for (int32_t k = 0; k < copies; k++)
    gconv_store(alpha, (Out *)(pixel + k * a.out_filter + a.out_alpha));
}

template <class In, class Out> __device__ void convolve(const arguments &a, const place &at, uint8_t *pixel) {
  const gconv_problem &problem = a.problem;
  int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  bool inside = top >= 0 && left >= 0 && top + (int64_t)(problem.rows - 1) * problem.dilation_y < problem.height &&
                left + (int64_t)(problem.columns - 1) * problem.dilation_x < problem.width;
  bool combined = gconv_is_combined(&problem);
  float value = 0.0f;
  for (int32_t k = 0; k < problem.filters; k++) {
    const float *taps = a.weights + (int64_t)k * problem.rows * problem.columns;
    float sum = inside ? sum_inside<In>(a, at, taps) : sum_at_border<In>(a, at, taps);
    float response = gconv_response(sum, gconv_divisors(&problem, a.weights)[k], gconv_biases(&problem, a.weights)[k]);
    if (!combined)
      gconv_store(gconv_finish(response, &problem.epilogue), (Out *)(pixel + k * a.out_filter + at.c * a.out_channel));
    else if (k == 0)
      value = gconv_combine_first(problem.epilogue.combine, response);
    else
      value = gconv_combine_next(problem.epilogue.combine, value, response);
  }
  if (combined) {
    value = gconv_combine_last(problem.epilogue.combine, value);
    gconv_store(gconv_finish(value, &problem.epilogue), (Out *)(pixel + at.c * a.out_channel));
  }
}

/* Grid: x over the samples of a row, y over rows, z over planes of all images; rows and planes beyond the grid are strided.
 */
template <class In, class Out> __global__ void direct(const __grid_constant__ arguments a) {
  const gconv_problem &problem = a.problem;
  int64_t sample = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (sample >= (int64_t)problem.out_width * problem.channels)
    return;
  place at;
  at.q = sample / problem.channels;
  at.c = (int32_t)(sample - at.q * problem.channels);
  for (int64_t z = blockIdx.z; z < (int64_t)problem.images * problem.planes; z += gridDim.z) {
    int64_t image = z / problem.planes, plane = z % problem.planes;
    at.in = a.in + image * a.in_image + plane * a.in_plane;
    uint8_t *out = a.out + image * a.out_image + plane * a.out_plane + at.q * a.out_pixel;
    for (at.p = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; at.p < problem.out_height;
         at.p += (int64_t)gridDim.y * blockDim.y) {
      uint8_t *pixel = out + at.p * a.out_row;
      if (problem.keep_alpha && at.c == problem.channels - 1)
        keep_alpha<In, Out>(a, at, pixel);
      else
        convolve<In, Out>(a, at, pixel);
    }
  }
}

/* ---- Launching ---- */

typedef void kernel_function(arguments);

#define GCONV_DIRECT_ROW(In)                                                                                                \
  { direct<In, uint8_t>, direct<In, uint16_t>, direct<In, float> }
static kernel_function *const kernels[3][3] = {GCONV_DIRECT_ROW(uint8_t), GCONV_DIRECT_ROW(uint16_t),
                                               GCONV_DIRECT_ROW(float)};

static unsigned blocks_for(int64_t count, int64_t block, int64_t most) {
  int64_t blocks = (count - 1) / block + 1;
  return (unsigned)(blocks < most ? blocks : most);
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  arguments a = {};
  a.problem = *problem;
  a.weights = execution->weights;
  a.in = execution->in;
  a.in_image = execution->in_image;
  a.in_plane = execution->in_plane;
  a.in_row = execution->in_row;
  a.out = execution->out[0].base;
  a.out_filter = problem->filters > 1 ? execution->out[1].base - execution->out[0].base : 0;
  a.out_image = execution->out[0].image;
  a.out_plane = execution->out[0].plane;
  a.out_row = execution->out[0].row;
  a.out_pixel = execution->out_pixel;
  a.out_channel = execution->out_channel;
  a.out_alpha = execution->out_alpha;
  dim3 block(64, 4);
  dim3 grid(blocks_for((int64_t)problem->out_width * problem->channels, block.x, INT32_MAX),
            blocks_for(problem->out_height, block.y, 65535),
            blocks_for((int64_t)problem->images * problem->planes, 1, 65535));
  kernels[problem->in_type][problem->out_type]<<<grid, block, 0, (cudaStream_t)execution->stream>>>(a);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

static const char *supports(const gconv_problem *problem) {
  (void)problem;
  return NULL;
}

static double cost(const gconv_problem *problem) {
  return 0.01 + gconv_problem_flop(problem) * 5e-10; /* a launch; 2 TFLOP/s */
}

extern "C" const gconv_algorithm gconv_algorithm_cuda_direct = {
    {"direct", "cuda", "one thread an output sample, taps in order, rows reused through the caches", true},
    supports,
    NULL,
    execute,
    cost,
    gconv_chain_bound,
};

/* SPDX-License-Identifier: MIT */
/*
 * What im2col and im2col-cublas share: the matrix of patches of one group, chunk by chunk.
 *
 * The output pixels are numbered through all images. The matrix has a row for each tap (c, r, s) and a column for each pixel
 * of a chunk. An entry is the sample under the tap, so a pixel takes C/G * R * S floats. Chunks are as long as the workspace
 * allows.
 */
#pragma once

#include "../../core/product.cuh"

namespace {

int64_t pixels_of(const gconv_layer_problem *problem) {
  return (int64_t)problem->images * problem->out_height * problem->out_width;
}

/* Returns the columns of a chunk, a multiple of TILE_COLUMNS, whose matrix takes at most `bytes`; 0 if none fit. */
int64_t chunk_columns(const gconv_layer_problem *problem, size_t bytes) {
  int64_t fitting = (int64_t)(bytes / sizeof(float)) / gconv_layer_taps(problem) / TILE_COLUMNS * TILE_COLUMNS;
  int64_t all = operand_pitch(pixels_of(problem)), most = 1 << 28;
  fitting = fitting < most ? fitting : most;
  return fitting > 0 ? operand_pitch(divide_up(all, divide_up(all, fitting))) : 0;
}

/* A thread makes the column of one pixel, for the rows of some (c, r). Grid: x counts pixels, y rows of taps; blocks stride
 * over y. */
__global__ void make_patches(const __grid_constant__ gconv_layer_problem problem, const float *in, int64_t first,
                             int64_t pixels, int64_t pitch, float *patches) {
  const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= pixels)
    return;
  const int64_t plane = (int64_t)problem.out_height * problem.out_width;
  const int64_t image = quotient(first + column, plane), pixel = first + column - image * plane;
  const int64_t p = quotient(pixel, problem.out_width), top = p * problem.stride_y - problem.pad_top;
  const int64_t left = (pixel - p * problem.out_width) * problem.stride_x - problem.pad_left;
  const int64_t rows = (int64_t)(problem.channels / problem.groups) * problem.rows;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const int64_t c = row / problem.rows, y = top + (row - c * problem.rows) * problem.dilation_y;
    const float *from = in + ((image * problem.channels + c) * problem.height + y) * problem.width;
    const bool inside = y >= 0 && y < problem.height;
    float *to = patches + row * problem.columns * pitch + column;
    int64_t x = left;
    for (int32_t s = 0; s < problem.columns; s++, x += problem.dilation_x, to += pitch)
      *to = inside && x >= 0 && x < problem.width ? __ldg(from + x) : 0.0f;
  }
}

/* Makes the patches of a group for `pixels` pixels from number `first` on. */
gconv_status launch_patches(const gconv_layer_execution *e, int64_t group, int64_t first, int64_t pixels, int64_t pitch) {
  const gconv_layer_problem *problem = e->problem;
  const int64_t channels = problem->channels / problem->groups, rows = channels * problem->rows;
  const float *in = e->in + group * channels * problem->height * problem->width;
  dim3 grid((unsigned)divide_up(pixels, 256), (unsigned)(rows < 65535 ? rows : 65535));
  make_patches<<<grid, 256, 0, (cudaStream_t)e->stream>>>(*problem, in, first, pixels, pitch, (float *)e->workspace);
  return CUDA_STATUS(cudaGetLastError());
}

/* Estimates writing and reading the matrix, and the output. */
double patches_ms(const gconv_layer_problem *problem, int64_t columns, const gconv_machine *machine) {
  const double pixels = (double)pixels_of(problem), chunks = ceil(pixels / (double)columns);
  const double floats = problem->groups * pixels * (double)gconv_layer_taps(problem) * 2 + pixels * problem->filters;
  return floats * 4 / machine->bytes_per_ms + 2 * chunks * problem->groups * machine->launch_ms;
}

} // namespace

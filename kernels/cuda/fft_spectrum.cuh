/* SPDX-License-Identifier: MIT */
/* The twists and the spectra of filters that fft multiplies by, made on the device once for a plan. They are computed in
 * float64, so that their error is one rounding. They follow the definition instead of a fast transform: filters are smaller
 * than tiles, and this takes a few milliseconds for the largest. Everything has internal linkage, as in common.cuh. */
#pragma once

#include "common.cuh"

namespace {

/* The order in which a transform leaves a line of P * Q * S points: at position (k1 * Q + k2) * S + k3 is frequency k1 + P *
 * (k2 + Q * k3). */
struct line_order {
  int P, Q, S;
};

__host__ __device__ inline int size_of(line_order order) {
  return order.P * order.Q * order.S;
}

__device__ inline int frequency_at(line_order order, int position) {
  int k3 = position % order.S, k2 = position / order.S % order.Q, k1 = position / (order.S * order.Q);
  return k1 + order.P * (k2 + order.Q * k3);
}

/* A point of a spectrum, by its positions in its column and in its row. */
struct position {
  int y, x;
};

__device__ inline double2 tap_value(float tap) {
  return make_double2(tap, 0);
}
__device__ inline double2 tap_value(double2 tap) {
  return tap;
}

/* Returns the sum over i < count of taps[i * distance] * exp(2 pi i f * (i * dilation) / size), by Horner's rule. This is
 * the conjugate of the spectrum for convolution, because gconv correlates. */
template <class Tap>
__device__ double2 transform_taps(const Tap *taps, int count, int64_t distance, int dilation, int f, int size) {
  double2 w, sum = {0, 0};
  sincospi(2.0 * (double)((int64_t)f * dilation % size) / size, &w.y, &w.x);
  for (int i = count - 1; i >= 0; i--) {
    double2 tap = tap_value(taps[i * distance]);
    sum = make_double2(fma(sum.x, w.x, fma(-sum.y, w.y, tap.x)), fma(sum.x, w.y, fma(sum.y, w.x, tap.y)));
  }
  return sum;
}

/* rows[r * size + f]: the spectra of the rows of a filter. Grid: x counts f, y counts r. */
__global__ void transform_filter_rows(const float *taps, int columns, int dilation, int size, double2 *rows) {
  int f = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (f < size)
    rows[(int64_t)r * size + f] = transform_taps(taps + (int64_t)r * columns, columns, 1, dilation, f, size);
}

/* Makes the spectrum, divided by the points of a tile, in the order of Order::position_of(). Grid: x counts points. */
template <class Order>
__global__ void transform_filter_columns(const double2 *rows, int count, int dilation, line_order y, line_order x,
                                         float2 *spectrum) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, size = (int64_t)size_of(y) * size_of(x);
  if (i >= size)
    return;
  position at = Order::position_of(i, y, x);
  double2 sum = transform_taps(rows + frequency_at(x, at.x), count, size_of(x), dilation, frequency_at(y, at.y), size_of(y));
  spectrum[i] = make_float2((float)(sum.x / (double)size), (float)(sum.y / (double)size));
}

/* to[j * step_j + i * step_i] = exp(-2 pi i j 2^i / size) for j < blockDim.x and i < gridDim.x. */
__global__ void make_twists(int size, int step_j, int step_i, float2 *to) {
  double2 w;
  sincospi(-2.0 * (double)(((int64_t)threadIdx.x << blockIdx.x) % size) / size, &w.y, &w.x);
  to[threadIdx.x * step_j + blockIdx.x * step_i] = make_float2((float)w.x, (float)w.y);
}

/* Bytes for the spectra of rows, on the device. */
inline size_t row_spectra_bytes(const gconv_problem *problem, line_order x) {
  return (size_t)problem->rows * (size_t)size_of(x) * sizeof(double2);
}

/* Enqueues the kernels that make the spectra of all filters. */
template <class Order>
void make_spectra(const gconv_execution *execution, line_order y, line_order x, double2 *rows, float2 *spectra) {
  const gconv_problem *problem = execution->problem;
  cudaStream_t stream = (cudaStream_t)execution->stream;
  int64_t points = (int64_t)size_of(y) * size_of(x), taps = (int64_t)problem->rows * problem->columns;
  dim3 row_grid(blocks_for(size_of(x), 128, INT32_MAX), (unsigned)problem->rows);
  unsigned grid = blocks_for(points, 128, INT32_MAX);
  for (int64_t k = 0; k < problem->filters; k++) {
    transform_filter_rows<<<row_grid, 128, 0, stream>>>(execution->weights + k * taps, problem->columns, problem->dilation_x,
                                                        size_of(x), rows);
    transform_filter_columns<Order>
        <<<grid, 128, 0, stream>>>(rows, problem->rows, problem->dilation_y, y, x, spectra + k * points);
  }
}

} // namespace

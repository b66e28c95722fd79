/* SPDX-License-Identifier: MIT */
/* Discrete Fourier transforms of a few points, in the registers of a thread, in natural order. The passes of fft consist of
 * such transforms. This file also has the factors of fft: twiddle factors (twists), and the spectra of filters. */
#pragma once

#include "../core/launch.cuh"

#include <utility>

namespace {

/* Complex numbers are float2: x + i y. Fused multiply-adds are written out, because the compiler may not contract. */

DEVICE float2 plus(float2 a, float2 b) {
  return make_float2(a.x + b.x, a.y + b.y);
}
DEVICE float2 minus(float2 a, float2 b) {
  return make_float2(a.x - b.x, a.y - b.y);
}
DEVICE float2 times(float2 a, float2 b) {
  return make_float2(fmaf(a.x, b.x, -(a.y * b.y)), fmaf(a.x, b.y, a.y * b.x));
}
DEVICE float2 times_conjugate(float2 a, float2 b) {
  return make_float2(fmaf(a.x, b.x, a.y * b.y), fmaf(a.y, b.x, -(a.x * b.y)));
}

/* cos(2 pi part / whole) at compile time, by a Taylor series. */
__host__ __device__ constexpr double cosine_of_turn(int part, int whole) {
  double angle = 6.283185307179586476925 * part / whole, term = 1, sum = 1;
  if (angle > 3.14159265358979323846) /* symmetry: the series is better for smaller angles */
    angle = 6.283185307179586476925 * (whole - part) / whole;
  for (int i = 2; i < 40; i += 2) {
    term *= -angle * angle / (i * (i - 1));
    sum += term;
  }
  return sum;
}

/* Returns the root of unity exp(2 pi i e / N), e < N. E are the numbers 0 .. N - 1. The tables must be static arrays: CUDA
 * 13.0's compiler puts a local table over the caller's points, and zeros into a static object (docs/lab/cicc.md). */
template <int N, int... E> DEVICE float2 root_of_unity(int e, std::integer_sequence<int, E...>) {
  static constexpr float re[N] = {(float)cosine_of_turn(E, N)...};
  /* the sine is the cosine of a quarter turn earlier */
  static constexpr float im[N] = {(float)cosine_of_turn((4 * E + 3 * N) % (4 * N), 4 * N)...};
  return make_float2(re[e], im[e]);
}

/* Returns a * exp(SIGN * 2 pi i e / N). e becomes a constant when the loop around is unrolled. */
template <int N, int SIGN> DEVICE float2 times_root(float2 a, int e) {
  e = SIGN > 0 ? e % N : (N - e % N) % N;
  if (e == 0)
    return a;
  if (4 * e == N)
    return make_float2(-a.y, a.x);
  if (2 * e == N)
    return make_float2(-a.x, -a.y);
  if (4 * e == 3 * N)
    return make_float2(a.y, -a.x);
  constexpr float root = 0.70710678118654752f; /* the square root of a half */
  if (8 * e == N)
    return make_float2((a.x - a.y) * root, (a.x + a.y) * root);
  if (8 * e == 3 * N)
    return make_float2(-(a.x + a.y) * root, (a.x - a.y) * root);
  if (8 * e == 5 * N)
    return make_float2((a.y - a.x) * root, -(a.x + a.y) * root);
  if (8 * e == 7 * N)
    return make_float2((a.x + a.y) * root, (a.y - a.x) * root);
  return times(a, root_of_unity<N>(e, std::make_integer_sequence<int, N>()));
}

/* Transforms of N points, in place: x[k] = sum over n of x[n] * exp(SIGN * 2 pi i n k / N). */
template <int SIGN> DEVICE void transform_points(float2 (&x)[2]) {
  float2 sum = plus(x[0], x[1]);
  x[1] = minus(x[0], x[1]);
  x[0] = sum;
}
template <int SIGN> DEVICE void transform_points(float2 (&x)[4]) {
  float2 s = plus(x[0], x[2]), t = minus(x[0], x[2]), u = plus(x[1], x[3]);
  float2 v = times_root<4, SIGN>(minus(x[1], x[3]), 1);
  x[0] = plus(s, u);
  x[1] = plus(t, v);
  x[2] = minus(s, u);
  x[3] = minus(t, v);
}
template <int SIGN> DEVICE void transform_points(float2 (&x)[5]) {
  constexpr float c1 = (float)cosine_of_turn(1, 5), c2 = (float)cosine_of_turn(2, 5);
  constexpr float s1 = SIGN * (float)cosine_of_turn(1, 20), s2 = SIGN * (float)cosine_of_turn(3, 20);
  float2 a = plus(x[1], x[4]), b = minus(x[1], x[4]), c = plus(x[2], x[3]), d = minus(x[2], x[3]), first = x[0];
  float2 p = make_float2(fmaf(c2, c.x, fmaf(c1, a.x, first.x)), fmaf(c2, c.y, fmaf(c1, a.y, first.y)));
  float2 q = make_float2(fmaf(c1, c.x, fmaf(c2, a.x, first.x)), fmaf(c1, c.y, fmaf(c2, a.y, first.y)));
  float2 r = make_float2(fmaf(s2, d.x, s1 * b.x), fmaf(s2, d.y, s1 * b.y));
  float2 t = make_float2(fmaf(-s1, d.x, s2 * b.x), fmaf(-s1, d.y, s2 * b.y));
  x[0] = plus(first, plus(a, c));
  x[1] = make_float2(p.x - r.y, p.y + r.x);
  x[4] = make_float2(p.x + r.y, p.y - r.x);
  x[2] = make_float2(q.x - t.y, q.y + t.x);
  x[3] = make_float2(q.x + t.y, q.y - t.x);
}

/* More points are transformed as Q transforms of 4 points, a twist (a product by roots of unity: twiddle factors), and 4
 * transforms of Q points, with n = Q * i + j and k = k1 + 4 * k2. */
template <int SIGN, int N> DEVICE void transform_points(float2 (&x)[N]) {
  constexpr int Q = N / 4;
  float2 twisted[4][Q];
  UNROLLED_FOR (int j = 0; j < Q; j++) {
    float2 y[4];
    UNROLLED_FOR (int i = 0; i < 4; i++)
      y[i] = x[Q * i + j];
    transform_points<SIGN>(y);
    UNROLLED_FOR (int k = 0; k < 4; k++)
      twisted[k][j] = times_root<N, SIGN>(y[k], j * k);
  }
  UNROLLED_FOR (int k = 0; k < 4; k++) {
    transform_points<SIGN>(twisted[k]);
    UNROLLED_FOR (int l = 0; l < Q; l++)
      x[k + 4 * l] = twisted[k][l];
  }
}

enum { BACKWARD = 1, FORWARD = -1 }; /* the signs */

/* Returns how many powers w, w^2, w^4 .. are stored for a twist of N points. */
__host__ __device__ constexpr int powers_of_twist(int N) {
  return N > 16 ? 5 : N > 8 ? 4 : N > 4 ? 3 : 2;
}

/* Multiplies points[k] by w^k, or by its conjugate if SIGN is BACKWARD. powers[i] is w^(2^i). Other powers are products of
 * at most log2 N of these. */
template <int SIGN, int N> DEVICE void twist_points(const float2 (&powers)[powers_of_twist(N)], float2 (&points)[N]) {
  float2 w[N];
  UNROLLED_FOR (int k = 1; k < N; k++) {
    const int i = k >= 16 ? 4 : k >= 8 ? 3 : k >= 4 ? 2 : k >= 2 ? 1 : 0;
    w[k] = k == 1 << i ? powers[i] : times(powers[i], w[k - (1 << i)]);
    points[k] = SIGN == FORWARD ? times(points[k], w[k]) : times_conjugate(points[k], w[k]);
  }
}

/* ---- Twists and spectra, made on the device once for a plan ---- */

/* Twists and spectra are computed in float64, so that their error is one rounding. Spectra follow the definition instead of
 * a fast transform: filters are smaller than tiles. This takes 0.1 ms for up to 63 x 63 taps, 9 to 18 ms for 1023 x 1023. */

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
typedef position order(int64_t index, line_order y, line_order x); /* where point `index` of a spectrum lies */

/* Returns the sum over n < count of tap_at(n) * exp(2 pi i f * (n * dilation) / size), by Horner's rule. This is the
 * conjugate of the spectrum for convolution, because gconv correlates. */
template <class Tap> DEVICE double2 transform_taps(const Tap &tap_at, int count, int dilation, int f, int size) {
  double2 w, sum = {0, 0};
  sincospi(2.0 * (double)((int64_t)f * dilation % size) / size, &w.y, &w.x);
  for (int n = count - 1; n >= 0; n--) {
    double2 tap = tap_at(n);
    sum = make_double2(fma(sum.x, w.x, fma(-sum.y, w.y, tap.x)), fma(sum.x, w.y, fma(sum.y, w.x, tap.y)));
  }
  return sum;
}

/* Makes the spectra of the rows of filters, rows[r * size + f]. Grid: x counts f, y counts r, z filters. */
__global__ void transform_filter_rows(const float *taps, int columns, int dilation, int size, double2 *rows) {
  int f = blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t r = (int64_t)blockIdx.z * gridDim.y + blockIdx.y;
  const auto tap_at = [&](int n) { return make_double2(taps[r * columns + n], 0); };
  if (f < size)
    rows[r * size + f] = transform_taps(tap_at, columns, dilation, f, size);
}

/* Makes spectra in the order ORDER, divided by `divisor`. Grid: x points, z filters. */
template <order ORDER>
__global__ void transform_filter_columns(const double2 *rows, int count, int dilation, line_order y, line_order x,
                                         double divisor, float2 *spectra) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, size = (int64_t)size_of(y) * size_of(x);
  if (i >= size)
    return;
  position at = ORDER(i, y, x);
  const int distance = size_of(x);
  const double2 *from = rows + (int64_t)blockIdx.z * count * distance + frequency_at(x, at.x);
  const auto tap_at = [&](int n) { return from[(int64_t)n * distance]; };
  double2 sum = transform_taps(tap_at, count, dilation, frequency_at(y, at.y), size_of(y));
  spectra[blockIdx.z * size + i] = make_float2((float)(sum.x / divisor), (float)(sum.y / divisor));
}

/* to[j * step_j + k * step_k] = exp(-2 pi i j 2^k / size) for j < blockDim.x and k < gridDim.x. */
__global__ void make_twists(int size, int step_j, int step_k, float2 *to) {
  double2 w;
  sincospi(-2.0 * (double)(((int64_t)threadIdx.x << blockIdx.x) % size) / size, &w.y, &w.x);
  to[threadIdx.x * step_j + blockIdx.x * step_k] = make_float2((float)w.x, (float)w.y);
}

/* Returns the bytes for the spectra of rows, on the device. */
inline size_t row_spectra_bytes(const gconv_problem *problem, line_order x) {
  return (size_t)problem->rows * (size_t)size_of(x) * sizeof(double2);
}

/* Enqueues the kernels that make the spectra of all filters. Spectra are divided by the number of points of a tile, so that
 * no transform has to scale. */
template <order ORDER>
void make_spectra(const gconv_execution *execution, line_order y, line_order x, double2 *rows, float2 *spectra) {
  const gconv_problem *problem = execution->problem;
  cudaStream_t stream = (cudaStream_t)execution->stream;
  int64_t points = (int64_t)size_of(y) * size_of(x), taps = (int64_t)problem->rows * problem->columns;
  dim3 row_grid(blocks_for(size_of(x), 128, INT32_MAX), (unsigned)problem->rows);
  unsigned grid = blocks_for(points, 128, INT32_MAX);
  for (int64_t k = 0; k < problem->filters; k++) {
    transform_filter_rows<<<row_grid, 128, 0, stream>>>(execution->weights + k * taps, problem->columns, problem->dilation_x,
                                                        size_of(x), rows);
    transform_filter_columns<ORDER>
        <<<grid, 128, 0, stream>>>(rows, problem->rows, problem->dilation_y, y, x, (double)points, spectra + k * points);
  }
}

} // namespace

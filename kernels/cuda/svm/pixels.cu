/* SPDX-License-Identifier: MIT */
/*
 * Support vector machines with the RBF kernel over pixels (kernels/svm_pixels.h). A thread keeps P pixels with all their
 * columns in registers. Support vectors come through shared memory, GCONV_SVM_PART at a time. For each support vector, a
 * pixel takes 2 C operations for the distance, some 15 for the exponential, and one for each row of coefficients: arithmetic
 * is the bound.
 */
#include "../core/unroll.cuh"
#include "pixels.h"

#include <cuda_runtime_api.h>

extern __shared__ float4 gconv_svm_pixels_memory[];

namespace {

constexpr int THREADS = 128;

struct machine_arguments {
  gconv_svm_pixels machine;
  gconv_svm_gpu_range range;
  const float *in;
  size_t plane, count, pitch;
  double *sums;
};

DEVICE float scaled(const gconv_svm_gpu_range &range, int c, float x) {
  if (!range.least)
    return x;
  const double width = range.most[c] - range.least[c];
  return width > 0 ? (float)(range.lower + (range.upper - range.lower) * ((double)x - range.least[c]) / width) : 0.0f;
}

/* Copies support vectors to shared memory, each as C numbers and W coefficients; the padding is 0. */
template <int C, int W> DEVICE void bring(const gconv_svm_pixels &m, size_t begin, size_t end, float *shared) {
  ROLLED_FOR (int i = (int)threadIdx.x; i < (int)(end - begin) * (C + W); i += THREADS) {
    const size_t v = begin + i / (C + W);
    const int at = i % (C + W), w = at - C;
    shared[i] = at < C            ? at < (int)m.columns ? m.points[v * m.columns + at] : 0.0f
                : w < (int)m.wide ? m.coefficients[v * m.wide + w]
                                  : 0.0f;
  }
}

DEVICE float part_of(const float4 &v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Computes sums. A thread has P pixels of up to C columns, and up to W coefficients. C and W are multiples of 4. */
template <int C, int P, int W>
__global__ void __launch_bounds__(THREADS) sum_pixels(const __grid_constant__ machine_arguments a) {
  const gconv_svm_pixels &m = a.machine;
  const size_t first = (size_t)blockIdx.x * THREADS * P + threadIdx.x;
  float x[C][P];
  UNROLLED_FOR (int c = 0; c < C; c++)
    UNROLLED_FOR (int p = 0; p < P; p++)
      x[c][p] = c < (int)m.columns && first + p * THREADS < a.count
                    ? scaled(a.range, c, a.in[c * a.plane + first + p * THREADS])
                    : 0.0f;
  ROLLED_FOR (size_t k = 0; k < m.classes; k++) {
    double sum[W][P];
    UNROLLED_FOR (int w = 0; w < W; w++)
      UNROLLED_FOR (int p = 0; p < P; p++)
        sum[w][p] = 0;
    const size_t all = m.begins[k + 1];
    ROLLED_FOR (size_t begin = m.begins[k]; begin < all; begin += GCONV_SVM_PART) {
      const size_t end = begin + GCONV_SVM_PART < all ? begin + GCONV_SVM_PART : all;
      float part[W][P];
      __syncthreads(); /* all threads have read the last part */
      bring<C, W>(m, begin, end, (float *)gconv_svm_pixels_memory);
      __syncthreads();
      UNROLLED_FOR (int w = 0; w < W; w++)
        UNROLLED_FOR (int p = 0; p < P; p++)
          part[w][p] = 0;
      ROLLED_FOR (int v = 0; v < (int)(end - begin); v++) {
        const float4 *row = gconv_svm_pixels_memory + v * ((C + W) / 4);
        float value[P];
        UNROLLED_FOR (int p = 0; p < P; p++)
          value[p] = 0;
        UNROLLED_FOR (int q = 0; q < C / 4; q++) {
          const float4 y = row[q];
          UNROLLED_FOR (int i = 0; i < 4; i++)
            UNROLLED_FOR (int p = 0; p < P; p++) {
              const float d = x[4 * q + i][p] - part_of(y, i);
              value[p] = fmaf(d, d, value[p]);
            }
        }
        UNROLLED_FOR (int p = 0; p < P; p++)
          value[p] = gconv_svm_pixel_value(m.gamma, value[p]);
        UNROLLED_FOR (int q = 0; q < W / 4; q++) {
          const float4 y = row[C / 4 + q];
          UNROLLED_FOR (int i = 0; i < 4; i++)
            UNROLLED_FOR (int p = 0; p < P; p++)
              part[4 * q + i][p] = fmaf(part_of(y, i), value[p], part[4 * q + i][p]);
        }
      }
      UNROLLED_FOR (int w = 0; w < W; w++)
        UNROLLED_FOR (int p = 0; p < P; p++)
          sum[w][p] += (double)part[w][p];
    }
    UNROLLED_FOR (int w = 0; w < W; w++)
      UNROLLED_FOR (int p = 0; p < P; p++)
        if (w < (int)m.wide && first + p * THREADS < a.count)
          a.sums[(k * m.wide + w) * a.pitch + first + p * THREADS] = sum[w][p];
  }
}

template <int C, int P, int W> void launch(const machine_arguments &a, cudaStream_t stream) {
  const size_t bytes = (size_t)GCONV_SVM_PART * (C + W) * sizeof(float);
  sum_pixels<C, P, W><<<(unsigned)((a.count + THREADS * P - 1) / (THREADS * P)), THREADS, bytes, stream>>>(a);
}

template <int W> void launch_wide(const machine_arguments &a, cudaStream_t stream) {
  if (a.machine.columns <= 8)
    launch<8, 4, W>(a, stream);
  else if (a.machine.columns <= 20)
    launch<20, 4, W>(a, stream);
  else if (a.machine.columns <= 32)
    launch<32, 2, W>(a, stream);
  else
    launch<GCONV_SVM_PIXEL_COLUMNS, 2, W>(a, stream);
}

/* A thread has a pixel. */
__global__ void count_votes(int classes, const double *rho, const double *sums, size_t count, size_t pitch, float *out,
                            size_t plane) {
  const size_t pixel = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (pixel >= count)
    return;
  int votes[GCONV_SVM_PIXEL_WIDE + 1] = {}, best = 0;
  for (int i = 0, pair = 0; i < classes; i++)
    for (int j = i + 1; j < classes; j++, pair++) {
      const double value = -rho[pair] + sums[(size_t)(i * (classes - 1) + j - 1) * pitch + pixel] +
                           sums[(size_t)(j * (classes - 1) + i) * pitch + pixel];
      votes[value > 0 ? i : j]++;
    }
  for (int k = 1; k < classes; k++)
    best = votes[k] > votes[best] ? k : best;
  for (int k = 0; k < classes; k++)
    out[(size_t)k * plane + pixel] = k == best ? 1.0f : 0.0f;
}

/* A thread has a pixel. */
__global__ void clear_planes(const float *in, size_t in_plane, int columns, size_t count, float *out, size_t plane,
                             int classes) {
  const size_t pixel = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (pixel >= count)
    return;
  float lost = 0; /* NaN if a column is not finite */
  for (int c = 0; c < columns; c++)
    lost += in[(size_t)c * in_plane + pixel] * 0.0f;
  for (int k = 0; k < classes && lost != 0; k++)
    out[(size_t)k * plane + pixel] = lost;
}

} // namespace

void gconv_svm_gpu_clear_planes(const float *in, size_t in_plane, size_t columns, size_t count, float *out, size_t plane,
                                size_t classes, void *stream) {
  clear_planes<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream>>>(
      in, in_plane, (int)columns, count, out, plane, (int)classes);
}

void gconv_svm_gpu_pixel_sums(const gconv_svm_pixels *machine, const gconv_svm_gpu_range *range, const float *in,
                              size_t plane, size_t count, size_t pitch, double *sums, void *stream) {
  const machine_arguments a = {*machine, *range, in, plane, count, pitch, sums};
  if (machine->wide <= 4)
    launch_wide<4>(a, (cudaStream_t)stream);
  else
    launch_wide<GCONV_SVM_PIXEL_WIDE>(a, (cudaStream_t)stream);
}

void gconv_svm_gpu_pixel_votes(size_t classes, const double *rho, const double *sums, size_t count, size_t pitch, float *out,
                               size_t plane, void *stream) {
  count_votes<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream>>>((int)classes, rho, sums,
                                                                                                 count, pitch, out, plane);
}

/* SPDX-License-Identifier: MIT */
/*
 * Rows of kernel matrices, K(x, y) for rows x and points y, by the formulas of kernels/cpu/svm/rows.h. That is a product of
 * matrices, rows x columns by columns x points, whose epilogue is the kernel function.
 *
 * A block computes a tile of 64 rows by 64 points (tiles.cuh): on Hopper (sm_90) by the tensor cores of float64, elsewhere
 * by fused multiply-adds of 4 x 8 sums per thread. Blocks of the same points have neighbouring numbers, so that the L2 cache
 * has these points for all rows. Many rows of many columns go to rows_int8.cu.
 *
 * Each sum is a chain of fused multiply-adds in float64 from the first column to the last. A product of two float32 numbers
 * is exact in float64, so a fused multiply-add rounds as the CPU's product and sum do, and all bytes equal the CPU's.
 */
#include "../core/device.cuh"
#include "rows.h"
#include "tiles.cuh"

#include <atomic>

namespace {

using namespace svm_tiles;

/* ---- Values of tiles ---- */

/* The first row and the first point of a block. */
struct place {
  size_t row, point;

  __device__ place(uint32_t high) : row((size_t)(blockIdx.x % high) * ROWS), point((size_t)(blockIdx.x / high) * POINTS) {}
};

template <bool DIRECT>
__global__ void __launch_bounds__(THREADS, blocks<DIRECT>())
    make_rows(gconv_svm_formula formula, uint32_t high, gconv_svm_gpu_cases cases, const uint32_t *wanted, float *const *to,
              size_t row_count, const uint32_t *members, size_t count, size_t padded) {
  const place at(high);
  compute<DIRECT, float>(formula, {cases, wanted, at.row, row_count}, {cases, members, at.point, count},
                         [=](int r, int p, float first, float second) {
                           if (at.point + p < padded)
                             *(float2 *)(to[at.row + r] + at.point + p) = make_float2(first, second);
                         });
}

template <bool DIRECT>
__global__ void __launch_bounds__(THREADS, blocks<DIRECT>())
    make_squares(gconv_svm_formula formula, uint32_t high, gconv_svm_gpu_cases cases, const gconv_svm_gpu_square *squares) {
  const gconv_svm_gpu_square square = squares[blockIdx.y];
  const place at(high);
  if (at.row >= square.count || at.point >= square.pitch)
    return;
  compute<DIRECT, float>(formula, {cases, square.members, at.row, square.count},
                         {cases, square.members, at.point, square.count}, [=](int r, int p, float first, float second) {
                           if (at.point + p < square.pitch)
                             *(float2 *)(square.matrix + (at.row + r) * square.pitch + at.point + p) =
                                 make_float2(first, second);
                         });
}

/* Here a tile's rows are support vectors, and its points are the rows of cases, so that a vector's values are contiguous. */
template <bool DIRECT>
__global__ void __launch_bounds__(THREADS, blocks<DIRECT>())
    make_values(gconv_svm_formula formula, uint32_t high, gconv_svm_gpu_cases vectors, gconv_svm_gpu_cases rows,
                size_t row_count, double *values, size_t pitch) {
  const place at(high);
  compute<DIRECT, double>(formula, {vectors, NULL, at.row, vectors.count}, {rows, NULL, at.point, row_count},
                          [=](int v, int r, double first, double second) {
                            double *to = values + (at.row + v) * pitch + at.point + r;
                            if (at.point + r < row_count)
                              to[0] = first;
                            if (at.point + r + 1 < row_count)
                              to[1] = second;
                          });
}

/* ---- Sums of rows ---- */

__global__ void subtract(const float *const *rows, const double *by, const uint32_t *count, double *g, size_t padded) {
  const size_t p = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t all = *count;
  if (p >= padded || all == 0)
    return;
  double sum = g[p];
#pragma unroll 16
  for (uint32_t k = 0; k < all; k++)
    sum -= (double)__ldg(rows[k] + p) * by[k];
  g[p] = sum;
}

/* Sums in the order of add_products_body() in kernels/cpu/svm/rows.c, which takes GCONV_SVM_BLOCK vectors at a time. */
__global__ void sum_class(const double *values, size_t pitch, size_t rows, const double *by_vector, size_t wide,
                          const uint32_t *begins, double *sums) {
  const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y, c = blockIdx.z;
  const size_t begin = begins[c], end = begins[c + 1];
  double sum = 0;
  if (row >= rows)
    return;
  if (wide > 1) {
#pragma unroll 8
    for (size_t i = begin; i < end; i++)
      sum += values[i * pitch + row] * by_vector[i * wide + k];
  } else {
    for (size_t from = begin; from < end;) {
      const size_t block = (from / GCONV_SVM_BLOCK + 1) * GCONV_SVM_BLOCK, to = end < block ? end : block;
      double lanes[4] = {}, rest = 0;
      size_t i = from;
      for (; i + 4 <= to; i += 4)
        UNROLLED_FOR (int l = 0; l < 4; l++)
          lanes[l] += values[(i + l) * pitch + row] * by_vector[i + l];
      for (; i < to; i++)
        rest += values[i * pitch + row] * by_vector[i];
      sum += ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + rest;
      from = to;
    }
  }
  sums[(c * wide + k) * pitch + row] = sum;
}

/* Returns the dynamic shared memory of a kernel on the current device. It exceeds the default limit, so the limit is raised
 * at the first call for each device. If that fails, the launch returns the error. */
template <auto KERNEL> int ring_bytes() {
  static std::atomic<uint64_t> allowed{0}; /* a bit for each device */
  int device = 0;
  if (capability() < 9) /* compute_by_threads() takes none */
    return 0;
  cudaGetDevice(&device);
  const uint64_t bit = device < 64 ? (uint64_t)1 << device : 0;
  if ((allowed & bit) == 0 &&
      cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, RING_BYTES) == cudaSuccess)
    allowed |= bit;
  return RING_BYTES;
}

/* Starts a kernel for `many` problems of `rows` rows and `points` points: DIRECT if the formula is direct. */
template <auto DIRECT, auto KERNEL, class... Arguments>
void launch(const gconv_svm_formula *formula, size_t rows, size_t points, size_t many, cudaStream_t stream,
            Arguments... arguments) {
  const size_t high = (rows + ROWS - 1) / ROWS, wide = (points + POINTS - 1) / POINTS;
  const dim3 grid((unsigned)(high * wide), (unsigned)many);
  if (formula->direct)
    DIRECT<<<grid, THREADS, 0, stream>>>(*formula, (uint32_t)high, arguments...);
  else
    KERNEL<<<grid, THREADS, ring_bytes<KERNEL>(), stream>>>(*formula, (uint32_t)high, arguments...);
}

} // namespace

void gconv_svm_gpu_rows(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases, const uint32_t *wanted,
                        float *const *rows, size_t row_count, const uint32_t *members, size_t count,
                        const gconv_svm_gpu_digits *digits, cudaStream_t stream) {
  const size_t padded = gconv_svm_padded(count);
  if (digits && digits->serve && row_count <= digits->most_rows &&
      gconv_svm_gpu_digits_pay(row_count, count, cases->pitch)) {
    gconv_svm_gpu_rows_by_digits(formula, cases, wanted, rows, row_count, members, digits, stream);
    return;
  }
  launch<make_rows<true>, make_rows<false>>(formula, row_count, padded, 1, stream, *cases, wanted, rows, row_count, members,
                                            count, padded);
}

void gconv_svm_gpu_squares(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases,
                           const gconv_svm_gpu_square *squares, size_t count, size_t most, cudaStream_t stream) {
  launch<make_squares<true>, make_squares<false>>(formula, most, gconv_svm_padded(most), count, stream, *cases, squares);
}

void gconv_svm_gpu_values(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *vectors,
                          const gconv_svm_gpu_cases *rows, size_t row_count, double *values, size_t pitch,
                          cudaStream_t stream) {
  launch<make_values<true>, make_values<false>>(formula, vectors->count, row_count, 1, stream, *vectors, *rows, row_count,
                                                values, pitch);
}

void gconv_svm_gpu_subtract(const float *const *rows, const double *by, const uint32_t *count, double *g, size_t padded,
                            cudaStream_t stream) {
  enum { FEW = 128 }; /* small blocks, so that all multiprocessors have work */
  subtract<<<(unsigned)((padded + FEW - 1) / FEW), FEW, 0, stream>>>(rows, by, count, g, padded);
}

void gconv_svm_gpu_sums(const double *values, size_t pitch, size_t rows, const double *by_vector, size_t wide,
                        const uint32_t *begins, size_t classes, double *sums, cudaStream_t stream) {
  enum { FEW = 128 };
  const dim3 grid((unsigned)((rows + FEW - 1) / FEW), (unsigned)wide, (unsigned)classes);
  sum_class<<<grid, FEW, 0, stream>>>(values, pitch, rows, by_vector, wide, begins, sums);
}

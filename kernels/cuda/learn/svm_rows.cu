/* SPDX-License-Identifier: MIT */
#include "svm_rows.h"

namespace {

enum { THREADS = 256, SIDE = 64, OWN = 4, DEEP = GCONV_SVM_GPU_COLUMNS, PITCH = SIDE + 2 };

/* ---- What becomes of sums ---- */

/* e^x for x <= 0: the operations of exponentials() in kernels/cpu/learn/svm_rows.c. */
__device__ double exponential(double x) {
  const double magic = 6755399441055744.0;
  const bool inside = x > -87.0;
  const double at = inside ? x : 0.0;
  const double shifted = at * 1.4426950408889634 + magic, n = shifted - magic;
  double f = at - n * 0.693145751953125;
  f = f - n * 1.42860682030941723212e-6;
  double e = f * (1.0 / 39916800) + 1.0 / 3628800;
  e = e * f + 1.0 / 362880;
  e = e * f + 1.0 / 40320;
  e = e * f + 1.0 / 5040;
  e = e * f + 1.0 / 720;
  e = e * f + 1.0 / 120;
  e = e * f + 1.0 / 24;
  e = e * f + 1.0 / 6;
  e = e * f + 0.5;
  e = e * f + 1.0;
  e = e * f + 1.0;
  const uint64_t power = ((uint64_t)__double_as_longlong(shifted) << 52) + 0x3ff0000000000000ull;
  return inside ? e * __longlong_as_double((long long)power) : 0.0;
}

__device__ double raise(const gconv_svm_formula &formula, double x) {
  double base = formula.gamma * x + formula.coef0, power = 1;
  for (int32_t degree = formula.degree; degree > 0; degree /= 2) {
    if (degree % 2 == 1)
      power *= base;
    base *= base;
  }
  return power;
}

__device__ double finish(const gconv_svm_formula &formula, double point_norm, double row_norm, double sum) {
  if (formula.form == GCONV_SVM_FORM_DOT)
    return sum;
  if (formula.form == GCONV_SVM_FORM_POWER)
    return raise(formula, sum);
  double distance = sum;
  if (!formula.direct) {
    distance = point_norm + row_norm - 2.0 * sum;
    distance = distance > 0.0 ? distance : 0.0;
  }
  return exponential(distance * -formula.gamma);
}

/* ---- Tiles ---- */

/* The numbers of a tile's rows and points, DEEP columns at a time. */
struct tile {
  double rows[DEEP][PITCH], points[DEEP][PITCH];
};

/* Which cases are the rows of a tile, or its points. */
struct side {
  gconv_svm_gpu_cases cases;
  const uint32_t *numbers; /* NULL: they are first, first + 1 ... */
  size_t first, count;     /* in numbers: the tile's first; of all */

  __device__ bool has(int i) const {
    return first + i < count;
  }
  __device__ size_t at(int i) const {
    return numbers ? numbers[first + i] : first + i;
  }
};

__device__ void load(const side &from, size_t column, double (*to)[PITCH]) {
  const int row = threadIdx.x / 4, quad = threadIdx.x % 4;
  float4 four = make_float4(0, 0, 0, 0);
  if (from.has(row))
    four = *(const float4 *)(from.cases.numbers + from.at(row) * from.cases.pitch + column + 4 * quad);
  to[4 * quad][row] = (double)four.x;
  to[4 * quad + 1][row] = (double)four.y;
  to[4 * quad + 2][row] = (double)four.z;
  to[4 * quad + 3][row] = (double)four.w;
}

/* Computes the values of SIDE rows at SIDE points, and hands each to store(row of the tile, point of the tile, value). A
 * thread has OWN rows in a row, and OWN points which are SIDE / OWN apart. */
template <bool DIRECT, class Store>
__device__ void compute(const gconv_svm_formula &formula, const side &rows, const side &points, tile &t, Store store) {
  const int across = threadIdx.x % (SIDE / OWN), down = threadIdx.x / (SIDE / OWN);
  double sums[OWN][OWN] = {};
  for (size_t column = 0; column < rows.cases.pitch; column += DEEP) {
    __syncthreads(); /* the last columns were used */
    load(rows, column, t.rows);
    load(points, column, t.points);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEEP; k++) {
      double x[OWN], y[OWN];
#pragma unroll
      for (int i = 0; i < OWN; i++) {
        x[i] = t.rows[k][OWN * down + i];
        y[i] = t.points[k][across + SIDE / OWN * i];
      }
#pragma unroll
      for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int j = 0; j < OWN; j++) {
          const double difference = y[j] - x[i];
          sums[i][j] = DIRECT ? sums[i][j] + difference * difference : fma(x[i], y[j], sums[i][j]);
        }
    }
  }
#pragma unroll
  for (int i = 0; i < OWN; i++)
#pragma unroll
    for (int j = 0; j < OWN; j++) {
      const int row = OWN * down + i, point = across + SIDE / OWN * j;
      if (!rows.has(row))
        continue;
      const bool is_one = points.has(point);
      const double point_norm = is_one ? points.cases.norms[points.at(point)] : 0;
      const double value = finish(formula, point_norm, rows.cases.norms[rows.at(row)], sums[i][j]);
      store(row, point, is_one ? value : 0.0);
    }
}

template <bool DIRECT>
__global__ void __launch_bounds__(THREADS)
    make_rows(gconv_svm_formula formula, gconv_svm_gpu_cases cases, const uint32_t *wanted, float *const *to,
              size_t row_count, const uint32_t *members, size_t count, size_t padded) {
  __shared__ tile t;
  const size_t row = (size_t)blockIdx.y * SIDE, point = (size_t)blockIdx.x * SIDE;
  compute<DIRECT>(formula, {cases, wanted, row, row_count}, {cases, members, point, count}, t,
                  [=](int r, int p, double value) {
                    if (point + p < padded)
                      to[row + r][point + p] = (float)value;
                  });
}

template <bool DIRECT>
__global__ void __launch_bounds__(THREADS)
    make_squares(gconv_svm_formula formula, gconv_svm_gpu_cases cases, const gconv_svm_gpu_square *squares) {
  __shared__ tile t;
  const gconv_svm_gpu_square square = squares[blockIdx.z];
  const size_t row = (size_t)blockIdx.y * SIDE, point = (size_t)blockIdx.x * SIDE;
  if (row >= square.count || point >= square.pitch)
    return;
  compute<DIRECT>(formula, {cases, square.members, row, square.count}, {cases, square.members, point, square.count}, t,
                  [=](int r, int p, double value) {
                    if (point + p < square.pitch)
                      square.matrix[(row + r) * square.pitch + point + p] = (float)value;
                  });
}

/* Here the vectors are the rows of a tile, so that values of rows lie side by side. */
template <bool DIRECT>
__global__ void __launch_bounds__(THREADS)
    make_values(gconv_svm_formula formula, gconv_svm_gpu_cases vectors, gconv_svm_gpu_cases rows, size_t row_count,
                double *values, size_t pitch) {
  __shared__ tile t;
  const size_t vector = (size_t)blockIdx.y * SIDE, row = (size_t)blockIdx.x * SIDE;
  compute<DIRECT>(formula, {vectors, NULL, vector, vectors.count}, {rows, NULL, row, row_count}, t,
                  [=](int v, int r, double value) {
                    if (row + r < row_count)
                      values[(vector + v) * pitch + row + r] = value;
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

/* The order of add_products_body() in kernels/cpu/learn/svm_rows.c, where vectors come in parts of a block. */
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
#pragma unroll
        for (int l = 0; l < 4; l++)
          lanes[l] += values[(i + l) * pitch + row] * by_vector[i + l];
      for (; i < to; i++)
        rest += values[i * pitch + row] * by_vector[i];
      sum += ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + rest;
      from = to;
    }
  }
  sums[(c * wide + k) * pitch + row] = sum;
}

unsigned tiles(size_t count) {
  return (unsigned)((count + SIDE - 1) / SIDE);
}

} // namespace

void gconv_svm_gpu_rows(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases, const uint32_t *wanted,
                        float *const *rows, size_t row_count, const uint32_t *members, size_t count, cudaStream_t stream) {
  const size_t padded = gconv_svm_padded(count);
  const dim3 grid(tiles(padded), tiles(row_count));
  (formula->direct ? make_rows<true> : make_rows<false>)<<<grid, THREADS, 0, stream>>>(*formula, *cases, wanted, rows,
                                                                                       row_count, members, count, padded);
}

void gconv_svm_gpu_squares(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases,
                           const gconv_svm_gpu_square *squares, size_t count, size_t most, cudaStream_t stream) {
  const dim3 grid(tiles(gconv_svm_padded(most)), tiles(most), (unsigned)count);
  (formula->direct ? make_squares<true> : make_squares<false>)<<<grid, THREADS, 0, stream>>>(*formula, *cases, squares);
}

void gconv_svm_gpu_values(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *vectors,
                          const gconv_svm_gpu_cases *rows, size_t row_count, double *values, size_t pitch,
                          cudaStream_t stream) {
  const dim3 grid(tiles(row_count), tiles(vectors->count));
  (formula->direct ? make_values<true> : make_values<false>)<<<grid, THREADS, 0, stream>>>(*formula, *vectors, *rows,
                                                                                           row_count, values, pitch);
}

void gconv_svm_gpu_subtract(const float *const *rows, const double *by, const uint32_t *count, double *g, size_t padded,
                            cudaStream_t stream) {
  enum { FEW = 128 }; /* so that more multiprocessors have some */
  subtract<<<(unsigned)((padded + FEW - 1) / FEW), FEW, 0, stream>>>(rows, by, count, g, padded);
}

void gconv_svm_gpu_sums(const double *values, size_t pitch, size_t rows, const double *by_vector, size_t wide,
                        const uint32_t *begins, size_t classes, double *sums, cudaStream_t stream) {
  enum { FEW = 128 };
  const dim3 grid((unsigned)((rows + FEW - 1) / FEW), (unsigned)wide, (unsigned)classes);
  sum_class<<<grid, FEW, 0, stream>>>(values, pitch, rows, by_vector, wide, begins, sums);
}

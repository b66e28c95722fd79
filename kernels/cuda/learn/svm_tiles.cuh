/* SPDX-License-Identifier: MIT */
/*
 * Values of kernels of support vector machines, by tiles of ROWS x POINTS: svm_rows.cu.
 *
 * Sums over columns are chains of fused multiply-adds in float64, from the first column to the last. The tensor cores of
 * Hopper (sm_90) add so too: mma m16n8k4, k8 and k16 of float64 yielded the bits of this chain for 256,000 sums of random
 * numbers each, of exponents of -60 to 60. They have twice the rate of other instructions. m8n8k4, which older GPUs have as
 * well, is as slow there as fma.
 */
#ifndef GCONV_KERNELS_CUDA_LEARN_SVM_TILES_CUH
#define GCONV_KERNELS_CUDA_LEARN_SVM_TILES_CUH

#include "../core/unroll.cuh"
#include "svm_rows.h"

namespace svm_tiles {

enum { THREADS = 256, ROWS = 64, POINTS = 128, LINES = ROWS + POINTS, DEEP = GCONV_SVM_GPU_COLUMNS, EACH = 3 };
static_assert(THREADS * EACH * 4 == LINES * DEEP, "a thread copies four numbers of EACH lines");

/* ---- What becomes of sums ---- */

/* e^x for x <= 0: the operations of exponentials() in kernels/cpu/learn/svm_rows.c. */
__device__ inline double exponential(double x) {
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

__device__ inline double raise(const gconv_svm_formula &formula, double x) {
  double base = formula.gamma * x + formula.coef0, power = 1;
  for (int32_t degree = formula.degree; degree > 0; degree /= 2) {
    if (degree % 2 == 1)
      power *= base;
    base *= base;
  }
  return power;
}

/* formula.direct is DIRECT, which only the form EXP has: sums are of squared differences. */
template <bool DIRECT>
__device__ double finish(const gconv_svm_formula &formula, double point_norm, double row_norm, double sum) {
  if (DIRECT)
    return exponential(sum * -formula.gamma);
  if (formula.form == GCONV_SVM_FORM_DOT)
    return sum;
  if (formula.form == GCONV_SVM_FORM_POWER)
    return raise(formula, sum);
  const double distance = point_norm + row_norm - 2.0 * sum;
  return exponential((distance > 0.0 ? distance : 0.0) * -formula.gamma);
}

/* ---- Tiles ---- */

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
  __device__ double norm(int i) const {
    return has(i) ? cases.norms[at(i)] : 0;
  }
  /* Four numbers of a case, from the first column on; NULL where there is no case. */
  __device__ const float4 *four(int i, int quad) const {
    return has(i) ? (const float4 *)(cases.numbers + at(i) * cases.pitch) + quad : NULL;
  }
};

/* What a thread brings to a tile: four columns of EACH lines, rows before points. */
struct porter {
  const float4 *from[EACH];
  float4 four[EACH];

  __device__ porter(const side &rows, const side &points) {
    UNROLLED_FOR (int e = 0; e < EACH; e++)
      from[e] = e == 0 ? rows.four(line(0), quad()) : points.four(line(e) - ROWS, quad());
  }
  __device__ static int line(int e) {
    return threadIdx.x / 4 + e * (THREADS / 4);
  }
  __device__ static int quad() {
    return threadIdx.x % 4;
  }
  /* Reads the next DEEP columns. */
  __device__ void fetch() {
    UNROLLED_FOR (int e = 0; e < EACH; e++) {
      four[e] = from[e] ? *from[e] : make_float4(0, 0, 0, 0);
      from[e] += from[e] ? DEEP / 4 : 0;
    }
  }
};

/* The values of a row at two points, to store(row of the tile, point of the tile, value, value of the next point). */
template <bool DIRECT, class Store>
__device__ void finish_two(const gconv_svm_formula &formula, const side &rows, const side &points, int row, int point,
                           double first_sum, double second_sum, Store store) {
  if (!rows.has(row))
    return;
  const double norm = rows.norm(row);
  const double first = finish<DIRECT>(formula, points.norm(point), norm, first_sum);
  const double second = finish<DIRECT>(formula, points.norm(point + 1), norm, second_sum);
  store(row, point, points.has(point) ? first : 0.0, points.has(point + 1) ? second : 0.0);
}

/* ---- By tensor cores ---- */

#if __CUDA_ARCH__ >= 900
/* c[row][column] += a[row][k] * b[k][column], k = 0, 1, 2, 3 in turn, of 16 rows and 8 columns. Lane l has a of the rows l /
 * 4 and l / 4 + 8 and k = l % 4, b of this k and the column l / 4, and c of these rows and the columns l % 4 * 2 and the
 * next. */
__device__ inline void multiply(double (&c)[4], const double (&a)[2], double b) {
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
               : "d"(a[0]), "d"(a[1]), "d"(b));
}

/* A warp has WARP x WARP values. While it multiplies one stage, it fetches the next. */
template <class Store>
__device__ void compute_by_tensor_cores(const gconv_svm_formula &formula, const side &rows, const side &points,
                                        Store store) {
  enum { WARP = 32, HIGH = WARP / 16, WIDE = WARP / 8, PITCH = DEEP + 4 }; /* 20 g + t: no two lanes meet in a bank */
  __shared__ __align__(16) float stages[2][LINES][PITCH];
  const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
  const int row = warp % (ROWS / WARP) * WARP + group, point = warp / (ROWS / WARP) * WARP;
  const size_t steps = rows.cases.pitch / DEEP;
  double sums[HIGH][WIDE][4] = {};
  porter own(rows, points);
  own.fetch();
  for (size_t step = 0; step < steps; step++) {
    float(*stage)[PITCH] = stages[step % 2];
    UNROLLED_FOR (int e = 0; e < EACH; e++)
      *(float4 *)&stage[porter::line(e)][4 * porter::quad()] = own.four[e];
    __syncthreads(); /* the stage is there; the other one was used by all */
    if (step + 1 < steps)
      own.fetch();
    UNROLLED_FOR (int k = 0; k < DEEP; k += 4) {
      double a[HIGH][2], b[WIDE];
      UNROLLED_FOR (int i = 0; i < HIGH; i++) {
        a[i][0] = (double)stage[row + 16 * i][k + lane];
        a[i][1] = (double)stage[row + 16 * i + 8][k + lane];
      }
      UNROLLED_FOR (int j = 0; j < WIDE; j++)
        b[j] = (double)stage[ROWS + point + 8 * j + group][k + lane];
      UNROLLED_FOR (int i = 0; i < HIGH; i++)
        UNROLLED_FOR (int j = 0; j < WIDE; j++)
          multiply(sums[i][j], a[i], b[j]);
    }
  }
  UNROLLED_FOR (int i = 0; i < HIGH; i++)
    UNROLLED_FOR (int j = 0; j < WIDE; j++) {
      finish_two<false>(formula, rows, points, row + 16 * i, point + 8 * j + 2 * lane, sums[i][j][0], sums[i][j][1], store);
      finish_two<false>(formula, rows, points, row + 16 * i + 8, point + 8 * j + 2 * lane, sums[i][j][2], sums[i][j][3],
                        store);
    }
}
#endif

/* ---- By threads ---- */

/* A thread has HIGH rows in a row, and WIDE pairs of points. */
template <bool DIRECT, class Store>
__device__ void compute_by_threads(const gconv_svm_formula &formula, const side &rows, const side &points, Store store) {
  enum { HIGH = 4, WIDE = 4, ACROSS = POINTS / (2 * WIDE), PITCH = LINES + 2 };
  __shared__ __align__(16) double stage[DEEP][PITCH];
  const int row = threadIdx.x / ACROSS * HIGH, point = 2 * (threadIdx.x % ACROSS);
  double sums[HIGH][WIDE][2] = {};
  porter own(rows, points);
  for (size_t column = 0; column < rows.cases.pitch; column += DEEP) {
    own.fetch();
    __syncthreads(); /* the last columns were used */
    UNROLLED_FOR (int e = 0; e < EACH; e++) {
      const int line = porter::line(e), k = 4 * porter::quad();
      stage[k][line] = (double)own.four[e].x;
      stage[k + 1][line] = (double)own.four[e].y;
      stage[k + 2][line] = (double)own.four[e].z;
      stage[k + 3][line] = (double)own.four[e].w;
    }
    __syncthreads();
    UNROLLED_4_FOR (int k = 0; k < DEEP; k++) {
      double x[HIGH], y[WIDE][2];
      UNROLLED_FOR (int i = 0; i < HIGH; i++)
        x[i] = stage[k][row + i];
      UNROLLED_FOR (int j = 0; j < WIDE; j++)
        UNROLLED_FOR (int l = 0; l < 2; l++)
          y[j][l] = stage[k][ROWS + point + 2 * ACROSS * j + l];
      UNROLLED_FOR (int i = 0; i < HIGH; i++)
        UNROLLED_FOR (int j = 0; j < WIDE; j++)
          UNROLLED_FOR (int l = 0; l < 2; l++) {
            const double difference = y[j][l] - x[i];
            double &sum = sums[i][j][l];
            sum = DIRECT ? sum + difference * difference : fma(x[i], y[j][l], sum);
          }
    }
  }
  UNROLLED_FOR (int i = 0; i < HIGH; i++)
    UNROLLED_FOR (int j = 0; j < WIDE; j++)
      finish_two<DIRECT>(formula, rows, points, row + i, point + 2 * ACROSS * j, sums[i][j][0], sums[i][j][1], store);
}

/* Computes the values of ROWS rows at POINTS points, and hands them to store() by two, of points of an even number and the
 * next; 0 where there is no case. */
template <bool DIRECT, class Store>
__device__ void compute(const gconv_svm_formula &formula, const side &rows, const side &points, Store store) {
#if __CUDA_ARCH__ >= 900
  if constexpr (!DIRECT)
    compute_by_tensor_cores(formula, rows, points, store);
  else
#endif
    compute_by_threads<DIRECT>(formula, rows, points, store);
}

} // namespace svm_tiles

#endif

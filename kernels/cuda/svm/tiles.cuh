/* SPDX-License-Identifier: MIT */
/*
 * Kernel values in tiles of ROWS x POINTS (rows.cu).
 *
 * Sums over columns are chains of fused multiply-adds in float64, from the first column to the last. The tensor cores of
 * Hopper (sm_90) add in the same order: mma m16n8k4, k8 and k16 of float64 yielded the bits of this chain for 256,000 sums
 * of random numbers each, with exponents of -60 to 60. They have twice the rate of fma. The mma of older GPUs, m8n8k4, is as
 * slow as fma on Hopper.
 */
#pragma once

#include "../hopper/instructions.cuh"
#include "rows.h"

namespace svm_tiles {

enum { THREADS = 128, ROWS = 64, POINTS = 64, LINES = ROWS + POINTS };
/* With tensor cores, a block has a ring of STAGES stages. A stage has DEEP columns of all lines. Lane 4 g + t loads the word
 * 36 g + t, so no two lanes of a warp have a bank conflict. */
enum { STAGES = 3, DEEP = 32, PITCH = DEEP + 4, STAGE = LINES * PITCH, RING_BYTES = STAGES * STAGE * 4 };
enum { POWERS = 64 };

/* Returns how many blocks of a multiprocessor its registers suffice for. */
template <bool DIRECT> constexpr int blocks() {
#if __CUDA_ARCH__ >= 900
  return DIRECT ? 3 : 4;
#else
  return 3;
#endif
}

/* ---- Kernel values from sums ---- */

/* e^x for x <= 0, by the operations of exponentials() in kernels/cpu/svm/rows.c. */
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

/* Returns powers[i] = 2^(-i / POWERS). */
__device__ inline double power_of(int i) {
  return exponential(i * (-0.6931471805599453 / POWERS));
}

/* Returns (float)exponential(distance * -gamma) for distances from 0 on, with a third of its float64 operations, which
 * compete with tensor cores. With t = x POWERS / ln 2 = -n + f:
 *
 *     e^x = 2^(-n / POWERS) e^(f ln 2 / POWERS)     the first factor from powers[], the second by its series
 *
 * scale: quick_scale(gamma).
 *
 * The relative errors of exponential() and of this function add up to less than 2^-42: 2^-44.5 of the series, 2^-45 of the
 * rounded t, and 2^-46 each of exponential() and of powers[]. So both round to the same float32, unless a value is within
 * 2^-42 of the midpoint of two float32 numbers, one in 65,000. Such a value is unsure. MARGIN, in units of a float64's last
 * bit, is 2^-40 to 2^-41 of a value. Values near x = -87, where they become 0, are unsure, too, and so are all values if
 * gamma < 0. A float64 has 29 bits that float32 lacks: REST masks them, and MIDDLE is their value at a midpoint. */
enum { MARGIN = 1 << 12, MIDDLE = 1 << 28, REST = (1 << 29) - 1 };

__device__ inline double quick_scale(double gamma) {
  return -gamma * (POWERS * 1.4426950408889634);
}

__device__ inline float quick_exponential(double distance, double scale, const double *powers, uint32_t margin,
                                          bool &unsure) {
  const double magic = 6755399441055744.0, u = 0.6931471805599453 / POWERS;
  const double t = distance * scale, shifted = t + magic, f = t - (shifted - magic);
  const uint32_t n = 0u - (uint32_t)__double2loint(shifted), high = (uint32_t)__double2hiint(t);
  double e = fma(f, u * u * u * u / 24, u * u * u / 6);
  e = fma(e, f, u * u / 2);
  e = fma(e, f, u);
  e = fma(e, f, 1.0) * powers[n % POWERS];
  const bool near_middle = ((uint32_t)__double2loint(e) & REST) - (MIDDLE - margin) < 2u * margin;
  const bool ordinary = high - 0x80000000u < 0x40bf4000u; /* -8000 < t <= -0.0 */
  const bool zero = high >= 0xc0bfa400u;                  /* t <= -8100: x < -87 */
  unsure = !zero && (near_middle || !ordinary);
  return zero ? 0.0f : (float)__hiloint2double(__double2hiint(e) - (int)(n / POWERS * (1u << 20)), __double2loint(e));
}

/* values[l] = (float)exponential(distances[l] * -gamma). Two at a time, so that their operations overlap. */
__device__ inline void exponentials_as_floats(const double (&distances)[2], double gamma, const double *powers,
                                              float (&values)[2]) {
  const double scale = quick_scale(gamma);
  bool unsure[2];
  UNROLLED_FOR (int l = 0; l < 2; l++)
    values[l] = quick_exponential(distances[l], scale, powers, MARGIN, unsure[l]);
  if (unsure[0] || unsure[1])
    UNROLLED_FOR (int l = 0; l < 2; l++)
      values[l] = (float)exponential(distances[l] * -gamma);
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

/* Computes the values of a row at two points. DIRECT, which is formula.direct: sums are of squared differences; only for the
 * form EXP. powers: for exponentials_as_floats(), or NULL to use exponential(). */
template <bool DIRECT, class Value>
__device__ void finish(const gconv_svm_formula &formula, const double (&point_norms)[2], double row_norm,
                       const double (&sums)[2], const double *powers, Value (&values)[2]) {
  double distances[2];
  if (!DIRECT && formula.form != GCONV_SVM_FORM_EXP) {
    UNROLLED_FOR (int l = 0; l < 2; l++)
      values[l] = (Value)(formula.form == GCONV_SVM_FORM_DOT ? sums[l] : raise(formula, sums[l]));
    return;
  }
  UNROLLED_FOR (int l = 0; l < 2; l++) {
    const double difference = point_norms[l] + row_norm - 2.0 * sums[l];
    distances[l] = DIRECT ? sums[l] : difference > 0.0 ? difference : 0.0;
  }
  if constexpr (sizeof(Value) == sizeof(float))
    if (powers)
      return exponentials_as_floats(distances, formula.gamma, powers, values);
  UNROLLED_FOR (int l = 0; l < 2; l++)
    values[l] = (Value)exponential(distances[l] * -formula.gamma);
}

/* ---- Tiles ---- */

/* The cases that are the rows of a tile, or its points. */
struct side {
  gconv_svm_gpu_cases cases;
  const uint32_t *numbers; /* indices of cases; NULL: 0, 1, 2 ... */
  size_t first, count;     /* the tile's first index in `numbers`; the length of `numbers` */

  __device__ bool has(int i) const {
    return first + i < count;
  }
  __device__ size_t at(int i) const {
    return numbers ? numbers[first + i] : first + i;
  }
  __device__ double norm(int i) const {
    return has(i) ? cases.norms[at(i)] : 0;
  }
  /* Returns the numbers of a case, or NULL after the last case. */
  __device__ const float *line(int i) const {
    return has(i) ? cases.numbers + at(i) * cases.pitch : NULL;
  }
};

/* Computes the values of a row at two points, and calls store(row of the tile, point of the tile, value, next value). */
template <bool DIRECT, class Value, class Store>
__device__ void finish_two(const gconv_svm_formula &formula, const side &rows, const side &points, int row, int point,
                           double row_norm, const double (&norms)[2], double first_sum, double second_sum,
                           const double *powers, Store store) {
  if (!rows.has(row))
    return;
  Value values[2];
  finish<DIRECT, Value>(formula, norms, row_norm, {first_sum, second_sum}, powers, values);
  store(row, point, points.has(point) ? values[0] : (Value)0, points.has(point + 1) ? values[1] : (Value)0);
}

/* ---- By tensor cores ---- */

#if __CUDA_ARCH__ >= 900
/* c[row][column] += a[row][k] * b[k][column], for k = 0, 1, 2, 3 in this order, 16 rows and 8 columns. Lane l has
 *
 *     a[l / 4 + 0, 8][l % 4]     b[l % 4][l / 4]     c[l / 4 + 0, 8][l % 4 * 2 + 0, 1]
 */
__device__ inline void multiply(double (&c)[4], const double (&a)[2], double b) {
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
               : "d"(a[0]), "d"(a[1]), "d"(b));
}

enum { WARP = 32, HIGH = WARP / 16, WIDE = WARP / 8 }; /* a warp has WARP x WARP values */

/* A lane's part of the products of a warp. It is a software pipeline over groups of four columns: while one group is
 * multiplied, the next is converted to float64, and the one after it is loaded. So no instruction waits for the one before
 * it. */
struct products {
  double sums[HIGH][WIDE][4] = {}, a[2][HIGH][2], b[2][WIDE];
  float loaded_a[HIGH][2], loaded_b[WIDE];

  /* rows, points: the lane's first line of each. */
  __device__ void load(const float *rows, const float *points) {
    UNROLLED_FOR (int i = 0; i < HIGH; i++)
      UNROLLED_FOR (int h = 0; h < 2; h++)
        loaded_a[i][h] = rows[(16 * i + 8 * h) * PITCH];
    UNROLLED_FOR (int j = 0; j < WIDE; j++)
      loaded_b[j] = points[8 * j * PITCH];
  }
  __device__ void convert(int to) {
    UNROLLED_FOR (int i = 0; i < HIGH; i++)
      UNROLLED_FOR (int h = 0; h < 2; h++)
        a[to][i][h] = (double)loaded_a[i][h];
    UNROLLED_FOR (int j = 0; j < WIDE; j++)
      b[to][j] = (double)loaded_b[j];
  }
  __device__ void add(int from) {
    UNROLLED_FOR (int i = 0; i < HIGH; i++)
      UNROLLED_FOR (int j = 0; j < WIDE; j++)
        multiply(sums[i][j], a[from][i], b[from][j]);
  }
};

/* The stages of a block. All of its threads are producers and consumers. A stage is full when all threads have copied their
 * part, and empty when all warps have loaded it. So a warp waits for others only if it is almost a stage ahead. */
struct stages {
  uint64_t full[STAGES], empty[STAGES];
  const float *lines[LINES]; /* NULL: zeros */

  __device__ void prepare(const side &rows, const side &points) {
    static_assert((int)THREADS == (int)LINES, "a thread for each line");
    const int i = threadIdx.x;
    lines[i] = i < ROWS ? rows.line(i) : points.line(i - ROWS);
    if (i < STAGES) {
      hopper::barrier_init(&full[i], THREADS);
      hopper::barrier_init(&empty[i], THREADS / 32);
      hopper::barrier_init_done();
    }
    __syncthreads();
  }
  __device__ void fill(float *ring, uint32_t step, uint32_t pitch) {
    enum { QUADS = DEEP / 4, FAR = THREADS / QUADS, SOME = 4 };
    const uint32_t quad = threadIdx.x % QUADS * 4, own = threadIdx.x / QUADS;
    const uint32_t column = step * DEEP + quad < pitch ? step * DEEP + quad : 0; /* after the last column: not used */
    const uint32_t to = shared_address(ring + step % STAGES * STAGE + own * PITCH + quad);
    UNROLLED_FOR (int first = 0; first < LINES / FAR; first += SOME) {
      const float *from[SOME]; /* four loads at a time: each copy waits for its address */
      UNROLLED_FOR (int e = 0; e < SOME; e++)
        from[e] = lines[own + (first + e) * FAR];
      UNROLLED_FOR (int e = 0; e < SOME; e++)
        copy_async_or_zero<16>(to + (first + e) * FAR * PITCH * 4, from[e] + column, from[e] != NULL);
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&full[step % STAGES]))
                 : "memory");
  }
  __device__ void await_full(uint32_t step) {
    hopper::barrier_wait(&full[step % STAGES], step / STAGES % 2);
  }
  __device__ void release(uint32_t step) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      hopper::barrier_arrive(&empty[step % STAGES]);
  }
  __device__ void await_empty(uint32_t step) {
    hopper::barrier_wait(&empty[step % STAGES], step / STAGES % 2);
  }
};

template <class Value, class Store>
__device__ void compute_by_tensor_cores(const gconv_svm_formula &formula, const side &rows, const side &points,
                                        Store store) {
  enum { PARTS = DEEP / 4, LAST_PARTS = GCONV_SVM_GPU_COLUMNS / 4 };
  static_assert((int)DEEP == 2 * GCONV_SVM_GPU_COLUMNS, "the last stage is full or half full");
  extern __shared__ __align__(16) float ring[];
  __shared__ stages all;
  __shared__ double powers[POWERS];
  const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
  const int row = warp % (ROWS / WARP) * WARP + group, point = warp / (ROWS / WARP) * WARP;
  const uint32_t pitch = (uint32_t)rows.cases.pitch, whole = pitch / DEEP, steps = (pitch + DEEP - 1) / DEEP;
  const float *own_row = ring + row * PITCH + lane, *own_point = ring + (ROWS + point + group) * PITCH + lane;
  products own;
  auto load = [&](uint32_t step, int part) {
    const uint32_t at = step % STAGES * STAGE + 4 * part;
    own.load(own_row + at, own_point + at);
  };
  if (threadIdx.x < POWERS)
    powers[threadIdx.x] = power_of(threadIdx.x);
  all.prepare(rows, points);
  for (uint32_t step = 0; step < STAGES && step < steps; step++)
    all.fill(ring, step, pitch);
  all.await_full(0);
  load(0, 0);
  own.convert(0);
  load(0, 1);
  for (uint32_t step = 0; step < whole; step++)
    UNROLLED_FOR (int part = 0; part < PARTS; part++) {
      own.convert((part + 1) % 2);
      if (part == PARTS - 2) { /* the whole stage is in registers */
        all.release(step);
        if (step + 1 < steps)
          all.await_full(step + 1);
      }
      if (part == PARTS / 2 - 1 && step > 0 && step - 1 + STAGES < steps) {
        all.await_empty(step - 1);
        all.fill(ring, step - 1 + STAGES, pitch);
      }
      load(step + (part + 2) / PARTS, (part + 2) % PARTS); /* after the last stage: not used */
      own.add(part % 2);
    }
  if (whole < steps)
    UNROLLED_FOR (int part = 0; part < LAST_PARTS; part++) {
      own.convert((part + 1) % 2);
      load(whole, (part + 2) % LAST_PARTS);
      own.add(part % 2);
    }
  double norms[WIDE][2]; /* loaded here, so that the loads overlap */
  UNROLLED_FOR (int j = 0; j < WIDE; j++)
    UNROLLED_FOR (int l = 0; l < 2; l++)
      norms[j][l] = points.norm(point + 8 * j + 2 * lane + l);
  UNROLLED_FOR (int i = 0; i < HIGH; i++)
    UNROLLED_FOR (int h = 0; h < 2; h++) {
      const int at = row + 16 * i + 8 * h;
      const double row_norm = rows.norm(at);
      UNROLLED_FOR (int j = 0; j < WIDE; j++)
        finish_two<false, Value>(formula, rows, points, at, point + 8 * j + 2 * lane, row_norm, norms[j],
                                 own.sums[i][j][2 * h], own.sums[i][j][2 * h + 1], powers, store);
    }
}
#endif

/* ---- By threads ---- */

/* A thread computes HIGH neighbouring rows at WIDE pairs of points. */
template <bool DIRECT, class Value, class Store>
__device__ void compute_by_threads(const gconv_svm_formula &formula, const side &rows, const side &points, Store store) {
  enum { HIGH = 4, WIDE = 4, ACROSS = POINTS / (2 * WIDE), COLUMNS = GCONV_SVM_GPU_COLUMNS, EACH = LINES / (THREADS / 4) };
  static_assert(COLUMNS == 16 && (int)THREADS == ROWS / HIGH * ACROSS, "a thread copies four columns of EACH lines");
  __shared__ __align__(16) double stage[COLUMNS][LINES + 2];
  const int row = threadIdx.x / ACROSS * HIGH, point = 2 * (threadIdx.x % ACROSS), quad = threadIdx.x % 4 * 4;
  double sums[HIGH][WIDE][2] = {};
  const float *from[EACH];
  float4 four[EACH];
  auto load = [&](size_t column) {
    UNROLLED_FOR (int e = 0; e < EACH; e++)
      four[e] = from[e] ? *(const float4 *)(from[e] + column + quad) : make_float4(0, 0, 0, 0);
  };
  UNROLLED_FOR (int e = 0; e < EACH; e++) {
    const int line = threadIdx.x / 4 + e * (THREADS / 4);
    from[e] = line < ROWS ? rows.line(line) : points.line(line - ROWS);
  }
  load(0);
  for (size_t column = 0; column < rows.cases.pitch; column += COLUMNS) {
    __syncthreads(); /* all threads have used the last columns */
    UNROLLED_FOR (int e = 0; e < EACH; e++) {
      const int line = threadIdx.x / 4 + e * (THREADS / 4);
      stage[quad][line] = (double)four[e].x;
      stage[quad + 1][line] = (double)four[e].y;
      stage[quad + 2][line] = (double)four[e].z;
      stage[quad + 3][line] = (double)four[e].w;
    }
    __syncthreads();
    if (column + COLUMNS < rows.cases.pitch)
      load(column + COLUMNS); /* overlaps with the multiplications */
    UNROLLED_4_FOR (int k = 0; k < COLUMNS; k++) {
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
  UNROLLED_FOR (int j = 0; j < WIDE; j++) {
    const int at = point + 2 * ACROSS * j;
    const double norms[2] = {points.norm(at), points.norm(at + 1)};
    UNROLLED_FOR (int i = 0; i < HIGH; i++)
      finish_two<DIRECT, Value>(formula, rows, points, row + i, at, rows.norm(row + i), norms, sums[i][j][0], sums[i][j][1],
                                NULL, store);
  }
}

/* Computes the values of ROWS rows at POINTS points, as float or double. Calls store() for two points at a time, the first
 * of an even number; values after the last case are 0. A block has THREADS threads and, with tensor cores, RING_BYTES of
 * dynamic shared memory. */
template <bool DIRECT, class Value, class Store>
__device__ void compute(const gconv_svm_formula &formula, const side &rows, const side &points, Store store) {
#if __CUDA_ARCH__ >= 900
  if constexpr (!DIRECT)
    compute_by_tensor_cores<Value>(formula, rows, points, store);
  else
#endif
    compute_by_threads<DIRECT, Value>(formula, rows, points, store);
}

} // namespace svm_tiles

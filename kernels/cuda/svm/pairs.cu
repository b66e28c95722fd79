/* SPDX-License-Identifier: MIT */
/*
 * Sequential minimal optimisation by one block of 256 threads; the formulas are in kernels/cpu/svm/pairs.h.
 *
 * A thread keeps F and the diagonal of 2, 4 or 8 variables in registers, and whether they may grow or shrink as bits. b and
 * its bounds are in shared memory. A step reads two rows of K, in vectors of 2 or 4 floats.
 *
 * i and j are the best candidates of the block. Each is found by comparing integers that sort as the float64 values do: a
 * warp reduces the upper 32 bits, then the lower 32 bits, then the index, with one instruction each. Then each warp reduces
 * the results of all warps, so a choice takes one barrier, and a step takes two.
 *
 * Operations on each variable have the order of the CPU, and the lowest index of equal candidates is taken. So each step,
 * and the result, has the bits of the CPU.
 */
#include "../core/device.cuh"
#include "../core/unroll.cuh"
#include "pairs.h"

#include <math.h>

namespace {

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };
constexpr uint32_t NONE = UINT32_MAX;
constexpr unsigned ALL = 0xffffffffu;

/* ---- The best of a block ---- */

/* Returns an integer above 0. These integers sort as their numbers do. The caller passes neither -0 nor NaN. */
__device__ uint64_t key_of(double value) {
  const uint64_t bits = (uint64_t)__double_as_longlong(value);
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
__device__ double value_of(uint64_t key) {
  return __longlong_as_double((long long)(key >> 63 ? key & ~(1ull << 63) : ~key));
}

/* A variable that may be chosen. The best has the largest key and, of equal keys, the lowest index. Key 0: there is none. */
struct candidate {
  uint64_t key;
  uint32_t index;
};

/* Returns the maximum over a warp to all its threads. */
__device__ unsigned largest_of_warp(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(ALL, value);
#else
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    value = max(value, __shfl_xor_sync(ALL, value, distance));
  return value;
#endif
}

/* Returns the best candidate of a warp to all its threads. */
__device__ candidate best_of_warp(candidate own) {
  const unsigned high = largest_of_warp((unsigned)(own.key >> 32));
  const unsigned low = largest_of_warp((unsigned)(own.key >> 32) == high ? (unsigned)own.key : 0u);
  const uint64_t key = (uint64_t)high << 32 | low;
  return {key, ~largest_of_warp(~(own.key == key ? own.index : NONE))};
}

/* The best candidate of a warp, for the other warps. A partner j also has its F[i] - F[j] and its curvature. */
struct handed {
  uint64_t key;
  uint32_t index;
  double difference, curvature;
};

struct shared {
  handed best[2][WARPS]; /* candidates for i, and for j */
  double extremes[2][WARPS];
  uint32_t counts[WARPS];
};

/* Returns the best candidate of all warps. *of: the warp that found it. */
__device__ candidate best_of_block(const handed *best, uint32_t *of) {
  const int lane = threadIdx.x % WARP;
  const candidate own = lane < WARPS ? candidate{best[lane].key, best[lane].index} : candidate{0, NONE};
  const candidate found = best_of_warp(own);
  *of = (uint32_t)__ffs((int)__ballot_sync(ALL, own.key == found.key && own.index == found.index)) - 1;
  return found;
}

/* ---- Steps ---- */

/* The arrays of a problem in shared memory. */
struct variables {
  double *b, *low, *high, *diagonal;
};

/* A thread's own variables: groups of V neighbours, THREADS * V apart. */
template <int PER> struct own {
  static constexpr int V = PER < 4 ? PER : 4;
  static __device__ uint32_t at(int e) {
    return (uint32_t)(e / V * (V * THREADS) + (int)threadIdx.x * V + e % V);
  }
};

/* Reads a row at a thread's own variables; 0 from `pitch` on. */
template <int PER> __device__ void read(const float *row, uint32_t pitch, double (&x)[PER]) {
  constexpr int V = own<PER>::V;
  UNROLLED_FOR (int e = 0; e < PER; e += V) {
    const uint32_t at = own<PER>::at(e);
    const bool inside = at < pitch; /* a multiple of 4 */
    if constexpr (V == 4) {
      const float4 four = inside ? __ldg((const float4 *)(row + at)) : make_float4(0, 0, 0, 0);
      x[e] = (double)four.x;
      x[e + 1] = (double)four.y;
      x[e + 2] = (double)four.z;
      x[e + 3] = (double)four.w;
    } else {
      const float2 two = inside ? __ldg((const float2 *)(row + at)) : make_float2(0, 0);
      x[e] = (double)two.x;
      x[e + 1] = (double)two.y;
    }
  }
}

/* Takes steps until the gap is below `tolerance`, or `most` steps are done. Row k of K is rows + k * pitch. Returns the
 * number of steps. All threads of a block call it; v.b has the result after the next barrier. */
template <int PER>
__device__ uint64_t solve(const variables &v, const float *rows, uint32_t pitch, uint32_t count, double (&F)[PER],
                          double tolerance, uint64_t most, shared &s) {
  const uint32_t warp = threadIdx.x / WARP;
  uint32_t grows = 0, shrinks = 0; /* a bit for each own variable */
  double diagonal[PER], x[PER], y[PER];
  UNROLLED_FOR (int e = 0; e < PER; e++) {
    const uint32_t k = own<PER>::at(e);
    diagonal[e] = k < count ? v.diagonal[k] : 0;
    grows |= (k < count && v.b[k] < v.high[k] ? 1u : 0u) << e;
    shrinks |= (k < count && v.b[k] > v.low[k] ? 1u : 0u) << e;
  }
  uint32_t i = 0, j = 0, of;
  double length = 0;
  uint64_t steps = 0;
  read<PER>(rows, pitch, x);
  UNROLLED_FOR (int e = 0; e < PER; e++)
    y[e] = x[e];
  for (;;) {
    candidate mine = {0, NONE};
    double best = -(double)INFINITY;
    UNROLLED_FOR (int e = 0; e < PER; e++) {
      F[e] -= length * (x[e] - y[e]);
      const double value = F[e] + 0.0;
      if ((grows >> e & 1) && value > best) {
        best = value;
        mine = {key_of(value), own<PER>::at(e)};
      }
    }
    candidate found = best_of_warp(mine);
    if (threadIdx.x % WARP == 0) {
      s.best[0][warp].key = found.key;
      s.best[0][warp].index = found.index;
    }
    __syncthreads(); /* all threads have read b of the last step */
    if (steps > 0 && threadIdx.x == 0) {
      const double up = v.high[i] - v.b[i], down = v.b[j] - v.low[j];
      v.b[i] = length == up ? v.high[i] : v.b[i] + length; /* exactly at the bound */
      v.b[j] = length == down ? v.low[j] : v.b[j] - length;
    }
    found = best_of_block(s.best[0], &of);
    if (found.key == 0 || steps >= most)
      return steps;
    const uint32_t now = found.index;
    const double largest = value_of(found.key), curvature = v.diagonal[now];
    read<PER>(rows + (size_t)now * pitch, pitch, x);
    mine = {0, NONE};
    best = -1;
    double difference = 0, divisor = 1;
    bool wide = false;
    UNROLLED_FOR (int e = 0; e < PER; e++) {
      const double b = largest - (F[e] + 0.0);
      if (!(shrinks >> e & 1) || !(b > 0))
        continue;
      double a = diagonal[e] + curvature - 2.0 * x[e];
      a = a > 0 ? a : GCONV_SVM_LEAST_CURVATURE;
      const double gain = b * b / a;
      wide = wide || b >= tolerance;
      if (gain > best) {
        best = gain;
        mine = {key_of(gain), own<PER>::at(e)};
        difference = b;
        divisor = a;
      }
    }
    found = best_of_warp(mine);
    if (found.key == 0 ? threadIdx.x % WARP == 0 : mine.key == found.key && mine.index == found.index)
      s.best[1][warp] = {found.key, found.index, difference, divisor};
    wide = __syncthreads_or(wide) != 0;
    found = best_of_block(s.best[1], &of);
    if (!wide || found.key == 0)
      return steps;
    i = now;
    j = found.index;
    const double up = v.high[i] - v.b[i], down = v.b[j] - v.low[j];
    length = fmin(s.best[1][of].difference / s.best[1][of].curvature, fmin(up, down));
    const double at_i = length == up ? v.high[i] : v.b[i] + length, at_j = length == down ? v.low[j] : v.b[j] - length;
    const bool i_grows = at_i<v.high[i], i_shrinks = at_i> v.low[i], j_grows = at_j<v.high[j], j_shrinks = at_j> v.low[j];
    UNROLLED_FOR (int e = 0; e < PER; e++) {
      const uint32_t k = own<PER>::at(e);
      if (k == i) {
        grows = (grows & ~(1u << e)) | (i_grows ? 1u : 0u) << e;
        shrinks = (shrinks & ~(1u << e)) | (i_shrinks ? 1u : 0u) << e;
      }
      if (k == j) {
        grows = (grows & ~(1u << e)) | (j_grows ? 1u : 0u) << e;
        shrinks = (shrinks & ~(1u << e)) | (j_shrinks ? 1u : 0u) << e;
      }
    }
    read<PER>(rows + (size_t)j * pitch, pitch, y);
    steps++;
  }
}

/* Calls take(k, n) for each k < count for which moves(k) is true, with n = 0, 1, 2 ... in the order of k. Returns their
 * number. */
template <class Moves, class Take> __device__ uint32_t gather(uint32_t count, shared &s, Moves moves, Take take) {
  const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  uint32_t done = 0;
  for (uint32_t from = 0; from < count; from += THREADS) {
    const uint32_t k = from + threadIdx.x;
    const bool is_one = k < count && moves(k);
    const unsigned all = __ballot_sync(ALL, is_one);
    if (lane == 0)
      s.counts[warp] = (uint32_t)__popc(all);
    __syncthreads();
    uint32_t before = 0, sum = 0;
    for (uint32_t w = 0; w < WARPS; w++) {
      before += w < warp ? s.counts[w] : 0;
      sum += s.counts[w];
    }
    if (is_one)
      take(k, done + before + (uint32_t)__popc(all & ((1u << lane) - 1)));
    done += sum;
    __syncthreads();
  }
  return done;
}

/* Returns the arrays of `count` variables in `memory`. */
__device__ variables place(double *memory, uint32_t count) {
  const uint32_t padded = (uint32_t)gconv_svm_padded(count);
  return {memory, memory + padded, memory + 2 * padded, memory + 3 * padded};
}

/* ---- The problem of a working set ---- */

__global__ void gather_block(gconv_svm_gpu_small p, uint32_t pitch) {
  const uint32_t k = blockIdx.x;
  for (uint32_t i = threadIdx.x; i < pitch; i += blockDim.x)
    p.block[(size_t)k * pitch + i] = i < p.count ? p.rows[k][p.columns[i]] : 0;
}

template <int PER> __global__ void __launch_bounds__(THREADS) solve_small(gconv_svm_gpu_small p, uint32_t pitch) {
  extern __shared__ __align__(16) double memory[];
  __shared__ shared s;
  const variables v = place(memory, p.count);
  double F[PER];
  for (uint32_t k = threadIdx.x; k < p.count; k += THREADS) {
    v.b[k] = p.b[k];
    v.low[k] = p.low[k];
    v.high[k] = p.high[k];
    v.diagonal[k] = p.diagonal[k];
  }
  UNROLLED_FOR (int e = 0; e < PER; e++)
    F[e] = own<PER>::at(e) < p.count ? p.F[own<PER>::at(e)] : 0;
  __syncthreads();
  const uint64_t steps = solve<PER>(v, p.block, pitch, p.count, F, p.tolerance, p.most, s);
  __syncthreads();
  const uint32_t moved = gather(
      p.count, s, [=](uint32_t k) { return v.b[k] != p.b[k]; },
      [=](uint32_t k, uint32_t at) {
        p.moved[at] = p.rows[k];
        p.by[at] = v.b[k] - p.b[k];
      });
  __syncthreads();
  for (uint32_t k = threadIdx.x; k < p.count; k += THREADS)
    p.b[k] = v.b[k];
  if (threadIdx.x == 0) {
    *p.moved_count = moved;
    *p.steps = steps;
  }
}

/* ---- Whole machines ---- */

/* Returns the maximum over the block to all its threads. */
__device__ double largest_of_block(double own, double *extremes) {
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    const double other = __shfl_xor_sync(ALL, own, distance);
    own = other > own ? other : own;
  }
  if (threadIdx.x % WARP == 0)
    extremes[threadIdx.x / WARP] = own;
  __syncthreads();
  for (int w = 0; w < WARPS; w++)
    own = extremes[w] > own ? extremes[w] : own;
  return own;
}

/* Subtracts K times the changes of b since `before` from the gradients, and copies b to `before`. */
template <int PER>
DEVICE void take_changes(const gconv_svm_gpu_machine &m, const variables &v, double *before, double (&g)[PER]) {
  for (uint32_t k = 0; k < m.count; k++) {
    const double by = v.b[k] - before[k];
    if (v.b[k] == before[k])
      continue;
    double x[PER];
    read<PER>(m.matrix + (size_t)k * m.pitch, m.pitch, x);
    UNROLLED_FOR (int e = 0; e < PER; e++)
      g[e] -= x[e] * by;
  }
  __syncthreads();
  for (uint32_t k = threadIdx.x; k < m.count; k += THREADS)
    before[k] = v.b[k];
  __syncthreads();
}

template <int PER>
__global__ void __launch_bounds__(THREADS) solve_machines(const gconv_svm_gpu_machine *machines, gconv_svm_gpu_end *ends) {
  extern __shared__ __align__(16) double memory[];
  __shared__ shared s;
  const gconv_svm_gpu_machine m = machines[blockIdx.x];
  const variables v = place(memory, m.count);
  double *before = memory + 4 * gconv_svm_padded(m.count);
  double g[PER], F[PER];
  for (uint32_t k = threadIdx.x; k < m.count; k += THREADS) {
    v.b[k] = before[k] = 0;
    v.low[k] = k < m.first ? 0 : -m.second_cost;
    v.high[k] = k < m.first ? m.first_cost : 0;
    v.diagonal[k] = m.diagonal ? m.diagonal[k] : 1;
  }
  UNROLLED_FOR (int e = 0; e < PER; e++)
    g[e] = 0;
  __syncthreads();
  gconv_svm_gpu_end end = {0, 0, 0, 0};
  bool ended = false; /* no more steps */
  for (;;) {
    double largest = -(double)INFINITY, smallest = -(double)INFINITY; /* the largest F, the largest -F */
    UNROLLED_FOR (int e = 0; e < PER; e++) {
      const uint32_t k = own<PER>::at(e);
      F[e] = k < m.count ? (k < m.first ? 1.0 : -1.0) + g[e] : 0;
      if (k < m.count && v.b[k] < v.high[k] && F[e] > largest)
        largest = F[e];
      if (k < m.count && v.b[k] > v.low[k] && -F[e] > smallest)
        smallest = -F[e];
    }
    end.largest = largest_of_block(largest, s.extremes[0]);
    end.smallest = -largest_of_block(smallest, s.extremes[1]);
    end.failed = end.largest - end.smallest >= m.tolerance && ended;
    if (!(end.largest - end.smallest >= m.tolerance) || ended)
      break;
    const uint64_t steps = solve<PER>(v, m.matrix, m.pitch, m.count, F, m.tolerance, m.most, s);
    __syncthreads();
    take_changes(m, v, before, g);
    end.steps += steps;
    ended = end.steps >= m.most || steps == 0; /* the loop ends after the gap is computed once more */
  }
  for (uint32_t k = threadIdx.x; k < m.count; k += THREADS)
    m.b[k] = v.b[k];
  UNROLLED_FOR (int e = 0; e < PER; e++)
    if (own<PER>::at(e) < m.count)
      m.g[own<PER>::at(e)] = g[e];
  if (threadIdx.x == 0)
    ends[blockIdx.x] = end;
}

/* ---- Launching ---- */

size_t bytes_of(size_t variables, size_t arrays) {
  return arrays * gconv_svm_padded(variables) * sizeof(double);
}

template <int PER> void start_small(const gconv_svm_gpu_small &p, cudaStream_t stream) {
  const uint32_t pitch = (uint32_t)gconv_svm_padded(p.count);
  const size_t bytes = bytes_of(p.count, 4);
  allow_shared(solve_small<PER>, (int64_t)bytes); /* if that fails, the launch returns the error */
  solve_small<PER><<<1, THREADS, bytes, stream>>>(p, pitch);
}

template <int PER>
void start_machines(const gconv_svm_gpu_machine *machines, gconv_svm_gpu_end *ends, size_t count, size_t most,
                    cudaStream_t stream) {
  const size_t bytes = bytes_of(most, 5);
  allow_shared(solve_machines<PER>, (int64_t)bytes);
  solve_machines<PER><<<(unsigned)count, THREADS, bytes, stream>>>(machines, ends);
}

} // namespace

bool gconv_svm_gpu_solves(size_t variables) {
  return variables <= GCONV_SVM_GPU_VARIABLES && bytes_of(variables, 5) + sizeof(shared) + 1024 <= shared_limit();
}

void gconv_svm_gpu_solve_small(const gconv_svm_gpu_small *problem, cudaStream_t stream) {
  gather_block<<<problem->count, THREADS, 0, stream>>>(*problem, (uint32_t)gconv_svm_padded(problem->count));
  if (problem->count <= 2 * THREADS)
    start_small<2>(*problem, stream);
  else if (problem->count <= 4 * THREADS)
    start_small<4>(*problem, stream);
  else
    start_small<8>(*problem, stream);
}

void gconv_svm_gpu_solve_machines(const gconv_svm_gpu_machine *machines, gconv_svm_gpu_end *ends, size_t count, size_t most,
                                  cudaStream_t stream) {
  if (most <= 2 * THREADS)
    start_machines<2>(machines, ends, count, most, stream);
  else if (most <= 4 * THREADS)
    start_machines<4>(machines, ends, count, most, stream);
  else
    start_machines<8>(machines, ends, count, most, stream);
}

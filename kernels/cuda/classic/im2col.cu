/* SPDX-License-Identifier: MIT */
/*
 * im2col: one kernel writes the patch matrix to memory (patches.cuh), another multiplies it by the taps, a third stores the
 * responses. The batched-convolution thesis calls this way "split", and "shared" where the product has its tiles in shared
 * memory; im2col-classic does all of it in one kernel.
 *
 * Few filters (`multiply_few`): a thread has the sums of one column, and goes down the matrix.
 *
 *     taps            patches
 *     t0 t1 ...   x   row 0   . . . x x x x . . .     all threads of a warp read neighbours of a row, and the same tap
 *                     row 1   . . . x x x x . . .
 *
 * Many filters (`multiply_tiles`): a block has 64 x 64 sums, a thread 4 x 4 of them.
 *
 *                         patches, 16 rows at a time        A block copies 16 rows of both into shared memory. Then a
 *                         +----------+                      thread reads 4 taps and 4 samples for 16 multiply-adds: half a
 *                         | 16 x 64  |                      read each, where one sum a thread would take two.
 *       taps  +------+    +----------+
 *             | 64   |    | 64 x 64  |
 *             | x 16 |    | sums     |
 *             +------+    +----------+
 *
 * Arithmetic: 2 K R S flop a sample. Bytes: R S floats are written and read again, 8 R S a sample, and 8 K of sums: 400 at 7
 * x 7 with one filter, where direct has 8. With few filters only this counts: an H200 moves 4200 bytes a nanosecond, hence
 * some 10 samples. With K filters each float of the matrix serves 2 K flop; from some 32 on, the multiply-adds take longer
 * than the memory, and the detour through memory hardly matters. That is why networks are computed like this.
 *
 * The taps of a sum are added in the order of the definition by one thread, so this is the exact family.
 */
#include "patches.cuh"

namespace {

/* The product: sums (K x pitch) = taps (K x depth) * patches (depth x pitch). */
struct product {
  const float *taps, *patches;
  float *sums;
  int64_t filters, depth, pitch; /* K, R * S, and floats from row to row */
};

/* ---- Few filters ---- */

/* A thread makes one column of the sums of filters first .. first + F - 1, of which the last may be missing. */
template <int F> __global__ void multiply_few(const product m, int64_t first) {
  const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  float sums[F] = {};
  if (column >= m.pitch)
    return;
  UNROLLED_4_FOR (int64_t t = 0; t < m.depth; t++) {
    const float x = m.patches[t * m.pitch + column];
    UNROLLED_FOR (int k = 0; k < F; k++)
      sums[k] = fmaf(m.taps[min(first + k, m.filters - 1) * m.depth + t], x, sums[k]);
  }
  UNROLLED_FOR (int k = 0; k < F; k++)
    if (first + k < m.filters)
      m.sums[(first + k) * m.pitch + column] = sums[k];
}

/* ---- Many filters ---- */

enum { SIDE = 4, THREADS = 16, TILE = SIDE * THREADS, DEPTH = 16 };

/* A block has THREADS x THREADS threads. Grid: x counts tiles of columns, y tiles of filters. Tiles are filled up with
 * zeros; what they become is not stored. */
__global__ void __launch_bounds__(THREADS *THREADS) multiply_tiles(const product m) {
  __shared__ float taps[DEPTH][TILE + 1], patches[DEPTH][TILE];
  const int column = threadIdx.x, row = threadIdx.y, own = row * THREADS + column;
  const int64_t first_k = (int64_t)blockIdx.y * TILE, first_i = (int64_t)blockIdx.x * TILE;
  float sums[SIDE][SIDE] = {};
  for (int64_t first_t = 0; first_t < m.depth; first_t += DEPTH) {
    for (int i = own; i < DEPTH * TILE; i += THREADS * THREADS) {
      const int64_t t = i % DEPTH, k = i / DEPTH;
      taps[t][k] = first_t + t < m.depth && first_k + k < m.filters ? m.taps[(first_k + k) * m.depth + first_t + t] : 0.0f;
    }
    for (int i = own; i < DEPTH * TILE; i += THREADS * THREADS) {
      const int64_t t = i / TILE, x = i % TILE;
      patches[t][x] =
          first_t + t < m.depth && first_i + x < m.pitch ? m.patches[(first_t + t) * m.pitch + first_i + x] : 0.0f;
    }
    __syncthreads();
    for (int t = 0; t < DEPTH && first_t + t < m.depth; t++)
      UNROLLED_FOR (int k = 0; k < SIDE; k++)
        UNROLLED_FOR (int i = 0; i < SIDE; i++)
          sums[k][i] = fmaf(taps[t][row + k * THREADS], patches[t][column + i * THREADS], sums[k][i]);
    __syncthreads();
  }
  UNROLLED_FOR (int k = 0; k < SIDE; k++)
    UNROLLED_FOR (int i = 0; i < SIDE; i++) {
      const int64_t to_k = first_k + row + k * THREADS, to_i = first_i + column + i * THREADS;
      if (to_k < m.filters && to_i < m.pitch)
        m.sums[to_k * m.pitch + to_i] = sums[k][i];
    }
}

/* ---- The host ---- */

enum { FEW = 8 }; /* filters to which multiply_few() is taken */

template <int F> void launch_few(const product &m, cudaStream_t stream) {
  for (int64_t first = 0; first < m.filters; first += F)
    multiply_few<F><<<blocks_for(m.pitch, 256, INT32_MAX), 256, 0, stream>>>(m, first);
}

void launch_product(const product &m, cudaStream_t stream) {
  if (m.filters == 1)
    launch_few<1>(m, stream);
  else if (m.filters <= FEW)
    launch_few<4>(m, stream);
  else
    multiply_tiles<<<dim3(blocks_for(m.pitch, TILE, INT32_MAX), blocks_for(m.filters, TILE, 65535)), dim3(THREADS, THREADS),
                     0, stream>>>(m);
}

int64_t columns_of(const gconv_problem *problem) {
  return chunk_columns(problem, (int64_t)problem->workspace_limit);
}

size_t workspace_bytes(const gconv_problem *problem) {
  return chunk_bytes(problem, columns_of(problem));
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  return convolve_chunks(execution, columns_of(problem), [=](const chunk &part) {
    launch_product({execution->weights, part.patches, part.sums, problem->filters, taps_of(problem), part.pitch},
                   (cudaStream_t)execution->stream);
    return GCONV_OK;
  });
}

const char *supports(const gconv_problem *problem) {
  if (problem->filters > 65535 * TILE)
    return "more than 4194240 filters";
  return columns_of(problem) == 0 ? "32 columns of its patch matrix would exceed the workspace" : NULL;
}

double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double filters = problem->filters <= FEW ? problem->filters : (problem->filters - 1) / TILE * TILE + TILE;
  const double multiply_adds = (double)samples_of(problem) * (double)taps_of(problem) * filters;
  return patches_ms(problem, columns_of(problem), machine) + multiply_adds / (0.3 * machine->fma_per_ms);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_im2col = {
    .info = {"im2col", "cuda", "patch matrix in chunks, then a product of matrices: to learn from", true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .classic = true,
};

/* SPDX-License-Identifier: MIT */
/*
 * im2col: one kernel writes the patch matrix (patches.cuh) to memory, another multiplies it by the taps, a third stores the
 * responses. The batched-convolution thesis calls this "split" (layer/split.cuh). im2col-classic does all of it in one
 * kernel.
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
 *                         | 16 x 64  |                      read for each. With one sum a thread it would be two reads.
 *       taps  +------+    +----------+
 *             | 64   |    | 64 x 64  |
 *             | x 16 |    | sums     |
 *             +------+    +----------+
 *
 * Arithmetic: 2 K R S flop per sample. Bytes: R S floats are written and read again, which is 8 R S bytes per sample, and 8
 * K bytes of sums. At 7 x 7 with one filter that is 400 bytes; direct moves 8. With few filters, memory is the bound: an
 * H200 moves 4200 bytes per nanosecond, and so computes some 10 samples per nanosecond. With K filters, each float of the
 * matrix serves 2 K flop. From some 32 filters on, multiply-adds take longer than the memory: so networks are computed like
 * this.
 *
 * The patch matrix is R * S times as large as the output. So it is made in chunks of n samples; a chunk may be many rows or
 * a part of one. Large chunks, up to the workspace, are the fastest. Chunks so small that matrix and sums stay in the L2
 * cache were slower, because they do not fill the device.
 *
 * The taps of a sum are added in the order of the definition by one thread, so this is the exact family.
 */
#include "patches.cuh"

namespace {

/* ---- The kernels before and after the product ---- */

/* A thread writes the entries of one column, for some rows of taps. Neighbouring threads write neighbouring floats.
 * `patches` has RS rows of `pitch` floats, of which `columns` are filled, from sample `first` on. Grid: x columns, y rows of
 * taps. */
template <class In>
__global__ void make_patches(const __grid_constant__ arguments a, int64_t first, int32_t columns, int32_t pitch,
                             float *patches) {
  const int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns)
    return;
  uint8_t *unused;
  const place at = place_of(a, first + column, &unused);
  for (int64_t r = blockIdx.y; r < a.problem.rows; r += gridDim.y)
    for (int64_t s = 0; s < a.problem.columns; s++)
      patches[(r * a.problem.columns + s) * pitch + column] = patch_entry<In>(a, at, r, s);
}

/* A thread stores the results of one sample. `sums` has K rows of `pitch` floats. Grid: x counts columns. */
template <class In, class Out>
__global__ void finish_sums(const __grid_constant__ arguments a, const float *weights, int64_t first, int32_t columns,
                            int32_t pitch, const float *sums) {
  const int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns)
    return;
  uint8_t *pixel;
  const place at = place_of(a, first + column, &pixel);
  store_sample<In, Out>(a, weights, at, pixel, [&](int32_t k) { return sums[(int64_t)k * pitch + column]; });
}

/* The product: sums (K x pitch) = taps (K x depth) * patches (depth x pitch). */
struct product {
  const float *taps, *patches;
  float *sums;
  int64_t filters, depth, pitch; /* K, R * S, and floats from row to row */
};

/* ---- Few filters ---- */

/* A thread computes one column of the sums of filters first .. first + F - 1, some of which may not exist. */
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

/* A block has THREADS x THREADS threads. Grid: x counts tiles of columns, y tiles of filters. Tiles are padded with zeros;
 * the sums of padding are not stored. */
__global__ void __launch_bounds__(THREADS *THREADS) multiply_tiles(const product m) {
  /* A warp stores two filters of taps, each down a column of DEPTH rows. With two more words per row, these rows are two
   * banks apart, and the second filter has the banks between. */
  __shared__ float taps[DEPTH][TILE + 2], patches[DEPTH][TILE];
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

enum { FEW = 8 }; /* the most filters for multiply_few() */

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

/* ---- Chunks ---- */

enum : int64_t {
  COLUMN_STEP = 32,      /* rows of both matrices begin at multiples of 128 bytes */
  MOST_COLUMNS = 1 << 28 /* so that indices fit into 32 bits */
};

/* Returns the floats for one column: for its patch and its sums. */
int64_t column_floats(const gconv_problem *problem) {
  return taps_of(problem) + problem->filters;
}

/* Returns the columns of a chunk, a multiple of COLUMN_STEP, whose patches and sums fit the workspace, or 0. */
int64_t columns_of(const gconv_problem *problem) {
  const int64_t most = (int64_t)problem->workspace_limit / (column_floats(problem) * (int64_t)sizeof(float));
  const int64_t fitting = (most < MOST_COLUMNS ? most : (int64_t)MOST_COLUMNS) / COLUMN_STEP * COLUMN_STEP;
  if (fitting == 0)
    return 0;
  const int64_t samples = samples_of(problem), chunks = (samples - 1) / fitting + 1; /* all chunks are about equally long */
  return ((samples - 1) / chunks / COLUMN_STEP + 1) * COLUMN_STEP;
}

size_t workspace_bytes(const gconv_problem *problem) {
  return (size_t)columns_of(problem) * (size_t)column_floats(problem) * sizeof(float);
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const arguments a = common_arguments(execution);
  const cudaStream_t stream = (cudaStream_t)execution->stream;
  const int64_t samples = samples_of(problem), pitch = columns_of(problem);
  float *patches = (float *)execution->workspace, *sums = patches + taps_of(problem) * pitch;
  for (int64_t first = 0; first < samples; first += pitch) {
    const int32_t columns = (int32_t)(samples - first < pitch ? samples - first : pitch);
    const unsigned blocks = blocks_for(columns, 256, INT32_MAX), rows = blocks_for(problem->rows, 1, 65535);
    with_type(problem->in_type, [&](auto in) {
      make_patches<decltype(in)><<<dim3(blocks, rows), 256, 0, stream>>>(a, first, columns, (int32_t)pitch, patches);
    });
    launch_product({execution->weights, patches, sums, problem->filters, taps_of(problem), pitch}, stream);
    GCONV_TRY(launch_by_types(problem, [&](auto in, auto out) {
      finish_sums<decltype(in), decltype(out)>
          <<<blocks, 256, 0, stream>>>(a, execution->weights, first, columns, (int32_t)pitch, sums);
    }));
  }
  return GCONV_OK;
}

const char *supports(const gconv_problem *problem) {
  if (problem->filters > 65535 * TILE)
    return "more than 4194240 filters";
  return columns_of(problem) == 0 ? "32 columns of its patch matrix would exceed the workspace" : NULL;
}

/* Counts the bytes of patches and sums, written and read again, and of samples, read and written. A chunk takes three
 * launches. Tiles multiply their padding, too. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double filters = problem->filters <= FEW ? problem->filters : (problem->filters - 1) / TILE * TILE + TILE;
  const double samples = (double)samples_of(problem), chunks = samples / (double)columns_of(problem) + 1;
  const double bytes = samples * (8 * (double)column_floats(problem) + 8 * problem->filters);
  return bytes / machine->bytes_per_ms + 3 * chunks * machine->launch_ms +
         samples * (double)taps_of(problem) * filters / (0.3 * machine->fma_per_ms);
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

/* SPDX-License-Identifier: MIT */
/* Products of matrices in true float32. Products of few rows, such as the last layer of a classifier, wait for the memory of
 * b: a warp makes one element, or 32 neighbours. Of all other products, a block of threads makes a tile. */
#include "graph.cuh"

enum {
  TILE = 64,
  DEEP = 16,
  EACH = 4 /* a thread makes EACH x EACH elements of a tile */,
  FEW_ROWS = 8,
  AT_A_TIME = 8 /* loads of a thread */
};

/* Returns the places of matrix `s` of the stack in a and b. */
static __device__ void find_matrices(const gconv_gpu_product &job, int64_t s, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int axis = job.axes - 1; axis >= 0; axis--) {
    *a += s % job.size[axis] * job.a_step[axis];
    *b += s % job.size[axis] * job.b_step[axis];
    s /= job.size[axis];
  }
}

static __device__ __forceinline__ void store(const gconv_gpu_product &job, int64_t s, int64_t row, int64_t column,
                                             float sum) {
  float y = job.alpha == 1 ? sum : sum * job.alpha;
  if (job.c)
    y += job.beta * job.c[row * job.c_row + column * job.c_column];
  job.out[(s * job.m + row) * job.n + column] = y;
}

/* ---- Few rows ---- */

/* ACROSS: threads of a warp share the products of one element; else each makes one of 32 neighbouring columns. */
template <bool ACROSS> __global__ static void __launch_bounds__(THREADS) few_rows(gconv_gpu_product job, int64_t stack) {
  follow_kernel_before();
  const int lane = threadIdx.x % 32;
  const int64_t each = ACROSS ? 1 : 32, groups = (job.n + each - 1) / each;
  for (int64_t warp = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32; warp < stack * job.m * groups;
       warp += (int64_t)gridDim.x * (THREADS / 32)) {
    const int64_t s = warp / groups / job.m, row = warp / groups % job.m;
    const int64_t column = warp % groups * each + (ACROSS ? 0 : lane);
    int64_t a_at, b_at;
    find_matrices(job, s, &a_at, &b_at);
    const float *a = job.a + a_at + row * job.a_row, *b = job.b + b_at + column * job.b_column;
    const int64_t pace = ACROSS ? 32 : 1;
    float sum = 0;
    for (int64_t k = ACROSS ? lane : 0; k < job.k && (ACROSS || column < job.n); k += AT_A_TIME * pace) {
      float x[AT_A_TIME], y[AT_A_TIME];
#pragma unroll
      for (int e = 0; e < AT_A_TIME; e++) {
        const int64_t at = k + e * pace < job.k ? k + e * pace : k;
        x[e] = k + e * pace < job.k ? a[at * job.a_column] : 0;
        y[e] = b[at * job.b_row];
      }
#pragma unroll
      for (int e = 0; e < AT_A_TIME; e++)
        sum = k + e * pace < job.k ? fmaf(x[e], y[e], sum) : sum;
    }
    for (int half = 16; ACROSS && half > 0; half /= 2)
      sum += __shfl_down_sync(0xffffffff, sum, half);
    if (ACROSS ? lane == 0 : column < job.n)
      store(job, s, row, column, sum);
  }
}

/* ---- Tiles ---- */

/* Loads DEEP x TILE elements of a factor; elements outside are 0. A line is a row of a, or a column of b. */
static __device__ __forceinline__ void stage(const float *from, int64_t line_step, int64_t k_step, int64_t first_line,
                                             int64_t lines, int64_t first_k, int64_t depth, float (*to)[TILE + 1]) {
  for (int i = threadIdx.x; i < TILE * DEEP; i += THREADS) {
    const int line = k_step == 1 ? i / DEEP : i % TILE, k = k_step == 1 ? i % DEEP : i / TILE;
    const bool inside = first_line + line < lines && first_k + k < depth;
    to[k][line] = inside ? from[(first_line + line) * line_step + (first_k + k) * k_step] : 0;
  }
}

__global__ static void __launch_bounds__(THREADS) tiles(gconv_gpu_product job, int64_t stack) {
  follow_kernel_before();
  __shared__ float as[DEEP][TILE + 1], bs[DEEP][TILE + 1];
  const int64_t down = (job.m + TILE - 1) / TILE, across = (job.n + TILE - 1) / TILE;
  const int y = threadIdx.x / (TILE / EACH), x = threadIdx.x % (TILE / EACH);
  for (int64_t tile = blockIdx.x; tile < stack * down * across; tile += gridDim.x) {
    const int64_t s = tile / (down * across), row = tile / across % down * TILE, column = tile % across * TILE;
    int64_t a_at, b_at;
    float sums[EACH][EACH] = {};
    find_matrices(job, s, &a_at, &b_at);
    for (int64_t k = 0; k < job.k; k += DEEP) {
      stage(job.a + a_at, job.a_row, job.a_column, row, job.m, k, job.k, as);
      stage(job.b + b_at, job.b_column, job.b_row, column, job.n, k, job.k, bs);
      __syncthreads();
#pragma unroll
      for (int d = 0; d < DEEP; d++) {
        float a[EACH], b[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
          a[i] = as[d][y + i * (TILE / EACH)];
          b[i] = bs[d][x + i * (TILE / EACH)];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
          for (int j = 0; j < EACH; j++)
            sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
      for (int j = 0; j < EACH; j++)
        if (row + y + i * (TILE / EACH) < job.m && column + x + j * (TILE / EACH) < job.n)
          store(job, s, row + y + i * (TILE / EACH), column + x + j * (TILE / EACH), sums[i][j]);
  }
}

gconv_status gconv_gpu_product_launch(const gconv_gpu_product *job, void *stream) {
  int64_t stack = 1;
  for (int32_t i = 0; i < job->axes; i++)
    stack *= job->size[i];
  if (stack * job->m * job->n == 0)
    return GCONV_OK;
  const int64_t warps = THREADS / 32, elements = stack * job->m * job->n;
  const int64_t all_tiles = stack * ((job->m + TILE - 1) / TILE) * ((job->n + TILE - 1) / TILE);
  if (job->m <= FEW_ROWS && (job->b_row == 1 || job->n < 4096))
    return start(few_rows<true>, blocks_of((elements - 1) / warps + 1), stream, *job, stack);
  if (job->m <= FEW_ROWS)
    return start(few_rows<false>, blocks_of((elements / 32 + job->m * stack) / warps + 1), stream, *job, stack);
  return start(tiles, blocks_of(all_tiles), stream, *job, stack);
}

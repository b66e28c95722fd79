/* SPDX-License-Identifier: MIT */
/*
 * im2col: one kernel makes the patch matrix (patches.cuh), another multiplies it by the taps.
 *
 * Cost: for every output sample, R * S floats are written and read again, 8 R S bytes: 392 bytes at 7 x 7. For few filters
 * only this traffic counts; the product is then a number of matrix-vector products that read the matrix once. For many
 * filters, the product is a product of matrices, in register tiles of 8 x 8: 2 K flop for each float of the matrix. From
 * some 16 filters on, the multiply-adds take longer than the memory.
 *
 * This is the way of the textbooks, and hardly ever the fastest: gemm computes the same product and never makes the matrix.
 * But im2col takes any stride, dilation and border at the same speed.
 *
 * Each sum adds the taps in the order of the definition, and the taps of a sum are never split over threads. So this is the
 * exact family.
 */
#include "../core/copies.cuh"
#include "patches.cuh"

namespace {

/* The product: sums (K x pitch) = taps (K x depth) * patches (depth x pitch). The taps are transposed: depth x `filters`.
 * `filters` is K rounded up to whole tiles of the kernel; the taps past K are 0. */
struct product {
  const float *taps, *patches;
  float *sums;
  int32_t wanted, filters; /* K, and K rounded up */
  int32_t pitch;           /* floats */
  int64_t depth;           /* R * S */
};

/* ---- Few filters: matrix-vector products ---- */

/* Adds the products of one tap of F filters and four samples. */
template <int F> DEVICE void add_taps(float (&sums)[F][4], const float *taps, const float4 &x) {
  UNROLLED_FOR (int k = 0; k < F; k++) {
    const float tap = __ldg(taps + k);
    sums[k][0] = fmaf(tap, x.x, sums[k][0]);
    sums[k][1] = fmaf(tap, x.y, sums[k][1]);
    sums[k][2] = fmaf(tap, x.z, sums[k][2]);
    sums[k][3] = fmaf(tap, x.w, sums[k][3]);
  }
}

/* A thread computes the sums of F filters for four columns, down the whole matrix. AHEAD rows are under way. */
template <int F> __global__ void __launch_bounds__(128) multiply_few(const product m) {
  constexpr int AHEAD = 8;
  const int64_t column = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x), pitch = m.pitch;
  if (column >= pitch)
    return;
  const float *taps = m.taps, *row = m.patches + column;
  float sums[F][4] = {};
  for (int64_t left = m.depth; left > 0; left -= AHEAD, row += AHEAD * pitch, taps += AHEAD * F) {
    float4 x[AHEAD];
    UNROLLED_FOR (int t = 0; t < AHEAD; t++)
      if (t < left)
        x[t] = __ldcs((const float4 *)(row + t * pitch)); /* streaming load: each is read once */
    UNROLLED_FOR (int t = 0; t < AHEAD; t++)
      if (t < left)
        add_taps<F>(sums, taps + t * F, x[t]);
  }
  UNROLLED_FOR (int k = 0; k < F; k++)
    if (k < m.wanted)
      *(float4 *)(m.sums + k * pitch + column) = make_float4(sums[k][0], sums[k][1], sums[k][2], sums[k][3]);
}

/* ---- Many filters: tiles ---- */

enum { SIDE = 8, DEPTH = 8, STAGES = 3 };

/* The lanes of a warp form LANES_K x (32 / LANES_K) over filters and columns, the warps of a block WARPS_K x WARPS_N. Each
 * thread has SIDE x SIDE sums in registers. */
template <int LANES_K, int WARPS_K, int WARPS_N> struct tile {
  static constexpr int LANES_N = 32 / LANES_K, THREADS = 32 * WARPS_K * WARPS_N;
  static constexpr int FILTERS = SIDE * LANES_K * WARPS_K, COLUMNS = SIDE * LANES_N * WARPS_N;
  /* DEPTH rows of both matrices, in groups of four floats. */
  struct stage {
    float4 taps[DEPTH][FILTERS / 4], patches[DEPTH][COLUMNS / 4];
  };
};

/* Starts to copy DEPTH rows of `from` to shared memory, from row t on, or fewer at the end. Copies W groups of four, from
 * column `first` on. */
template <int W, int THREADS>
DEVICE void fetch_rows(float4 (*to)[W], const float *from, int64_t t, int64_t depth, int64_t pitch, int64_t first) {
  UNROLLED_FOR (int i = threadIdx.x; i < DEPTH * W; i += THREADS) {
    const int row = i / W, column = i % W;
    if (t + row < depth && first + 4 * column < pitch)
      copy_async<sizeof(float4)>(&to[row][column], from + (t + row) * pitch + first + 4 * column);
  }
}

/* Starts to copy the tap rows and patch rows t .. t + DEPTH - 1. */
template <class Tile>
DEVICE void fetch_stage(typename Tile::stage *to, const product &m, int64_t t, int64_t filter, int64_t column) {
  fetch_rows<Tile::FILTERS / 4, Tile::THREADS>(to->taps, m.taps, t, m.depth, m.filters, filter);
  fetch_rows<Tile::COLUMNS / 4, Tile::THREADS>(to->patches, m.patches, t, m.depth, m.pitch, column);
  commit_copies();
}

/* sums += a column of 8 taps times a row of 8 samples. Both are two groups of four, `far` apart. */
DEVICE void add_outer(float (&sums)[SIDE][SIDE], const float4 *taps, int far_tap, const float4 *samples, int far_sample) {
  const float4 a0 = taps[0], a1 = taps[far_tap], b0 = samples[0], b1 = samples[far_sample];
  const float a[SIDE] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
  const float b[SIDE] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
  UNROLLED_FOR (int k = 0; k < SIDE; k++)
    UNROLLED_FOR (int n = 0; n < SIDE; n++)
      sums[k][n] = fmaf(a[k], b[n], sums[k][n]);
}

/* Grid: x counts tiles of columns, y tiles of filters. Rows of both matrices pass through STAGES buffers. */
template <class Tile, int LANES_K, int WARPS_K>
__global__ void __launch_bounds__(Tile::THREADS) multiply_tiles(const product m) {
  __shared__ typename Tile::stage stages[STAGES];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tap_four = warp % WARPS_K * (SIDE / 4 * LANES_K) +
                       lane / Tile::LANES_N; /* the two groups of four of a thread are LANES groups apart */
  const int sample_four = warp / WARPS_K * (SIDE / 4 * Tile::LANES_N) + lane % Tile::LANES_N;
  const int64_t filter = (int64_t)blockIdx.y * Tile::FILTERS, column = (int64_t)blockIdx.x * Tile::COLUMNS;
  float sums[SIDE][SIDE] = {};
  UNROLLED_FOR (int i = 0; i < STAGES - 1; i++)
    fetch_stage<Tile>(&stages[i], m, i * DEPTH, filter, column);
  int at = 0;
  for (int64_t t = 0; t < m.depth; t += DEPTH) {
    await_copies<STAGES - 2>();
    __syncthreads(); /* this stage is loaded, and no thread still reads the stage that is loaded next */
    fetch_stage<Tile>(&stages[at == 0 ? STAGES - 1 : at - 1], m, t + (STAGES - 1) * DEPTH, filter, column);
    const typename Tile::stage &here = stages[at];
    if (m.depth - t >= DEPTH) {
      UNROLLED_FOR (int d = 0; d < DEPTH; d++)
        add_outer(sums, &here.taps[d][tap_four], LANES_K, &here.patches[d][sample_four], Tile::LANES_N);
    } else {
      for (int d = 0; d < (int)(m.depth - t); d++)
        add_outer(sums, &here.taps[d][tap_four], LANES_K, &here.patches[d][sample_four], Tile::LANES_N);
    }
    at = at == STAGES - 1 ? 0 : at + 1;
  }
  UNROLLED_FOR (int k = 0; k < SIDE; k++)
    UNROLLED_FOR (int half = 0; half < 2; half++) {
      const int64_t to_filter = filter + 4 * (tap_four + k / 4 * LANES_K) + k % 4;
      const int64_t to_column = column + 4 * (sample_four + half * Tile::LANES_N);
      if (to_filter < m.wanted && to_column < m.pitch)
        *(float4 *)(m.sums + to_filter * m.pitch + to_column) =
            make_float4(sums[k][4 * half], sums[k][4 * half + 1], sums[k][4 * half + 2], sums[k][4 * half + 3]);
    }
}

/* ---- Launching ---- */

typedef void multiplier(const product &, cudaStream_t);

template <int F> void launch_few(const product &m, cudaStream_t stream) {
  multiply_few<F><<<blocks_for(m.pitch, 4 * 128, INT32_MAX), 128, 0, stream>>>(m);
}

template <int LANES_K, int WARPS_K, int WARPS_N> void launch_tiles(const product &m, cudaStream_t stream) {
  using shape = tile<LANES_K, WARPS_K, WARPS_N>;
  dim3 grid(blocks_for(m.pitch, shape::COLUMNS, INT32_MAX), blocks_for(m.filters, shape::FILTERS, 65535));
  multiply_tiles<shape, LANES_K, WARPS_K><<<grid, shape::THREADS, 0, stream>>>(m);
}

/* The kernels of the product, by the number of filters of a tile. */
const struct {
  int32_t filters;
  multiplier *launch;
} multipliers[] = {
    {1, launch_few<1>},          {2, launch_few<2>},          {4, launch_few<4>},          {8, launch_few<8>},
    {16, launch_tiles<2, 1, 2>}, {32, launch_tiles<4, 1, 4>}, {64, launch_tiles<4, 2, 4>},
};
enum { MULTIPLIERS = sizeof multipliers / sizeof *multipliers };

/* Returns the number of the smallest tile that holds all filters, or of the largest tile. */
int multiplier_for(const gconv_problem *problem) {
  int i = 0;
  while (i < MULTIPLIERS - 1 && multipliers[i].filters < problem->filters)
    i++;
  return i;
}

/* K, rounded up to whole tiles. */
int64_t padded_filters(const gconv_problem *problem) {
  int64_t tile = multipliers[multiplier_for(problem)].filters;
  return (problem->filters - 1) / tile * tile + tile;
}

size_t prepared_floats(const gconv_problem *problem) {
  return (size_t)taps_of(problem) * (size_t)padded_filters(problem);
}

/* Transposes the taps to RS x padded_filters(), so that the taps that a tile needs at a time lie together. */
gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  int64_t depth = taps_of(problem), filters = padded_filters(problem);
  for (int64_t t = 0; t < depth; t++)
    for (int64_t k = 0; k < filters; k++)
      prepared[t * filters + k] = k < problem->filters ? taps[k * depth + t] : 0.0f;
  return GCONV_OK;
}

int64_t columns_of(const gconv_problem *problem) {
  return chunk_columns(problem, (int64_t)problem->workspace_limit - (int64_t)(prepared_floats(problem) * sizeof(float)));
}

size_t workspace_bytes(const gconv_problem *problem) {
  return chunk_bytes(problem, columns_of(problem));
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  return convolve_chunks(execution, columns_of(problem), [=](const chunk &part) {
    product m = {};
    m.taps = gconv_prepared(problem, execution->weights);
    m.patches = part.patches;
    m.sums = part.sums;
    m.wanted = problem->filters;
    m.filters = (int32_t)padded_filters(problem);
    m.pitch = part.pitch;
    m.depth = taps_of(problem);
    multipliers[multiplier_for(problem)].launch(m, (cudaStream_t)execution->stream);
    return GCONV_OK;
  });
}

const char *supports(const gconv_problem *problem) {
  if (problem->filters > 65535 * 64)
    return "more than 4194240 filters";
  return columns_of(problem) == 0 ? "32 columns of its patch matrix would exceed the workspace" : NULL;
}

double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double multiply_adds = (double)samples_of(problem) * (double)taps_of(problem) * (double)padded_filters(problem);
  return patches_ms(problem, columns_of(problem), machine) + multiply_adds / (0.6 * machine->fma_per_ms);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_im2col = {
    .info = {"im2col", "cuda", "patch matrix in chunks, then a product of matrices", true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};

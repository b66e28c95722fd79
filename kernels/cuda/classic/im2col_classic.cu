/* SPDX-License-Identifier: MIT */
/*
 * im2col-classic: the product of taps and patches (patches.cuh) in one kernel. The patch matrix is never in memory: a block
 * makes the tile of it that it needs next, in shared memory.
 *
 *                             patches of 16 outputs          a block: 16 filters x 16 outputs, a thread for each sum
 *                             +----------+
 *                             | 16 taps  | <- made from      1. each thread makes an entry of the tile of patches, and
 *                             | x 16     |    the image         copies an entry of the tile of taps
 *                             +----------+                   2. each thread adds 16 products: a row of one tile times a
 *       taps of               +----------+                      column of the other
 *       16 filters  +-----+   | 16 x 16  |                   and so on with the next 16 taps
 *                   | x 16|   | sums     |
 *                   +-----+   +----------+
 *
 * Arithmetic: 2 K R S flop per output. Bytes: as in direct, since the patches stay in the multiprocessor; im2col, which
 * writes them to memory, has 8 R S more. An entry is made once for 16 filters, and read 16 times from shared memory.
 *
 * The bound: each multiply-add takes two reads of shared memory, so the kernel reaches an eighth of the peak. With fewer
 * than 16 filters, some rows of the tile have no filter, and their work is wasted: with one filter, 15 of 16. So this way is
 * for many filters. Kernels with more sums in a thread's registers read less (classic/im2col.cu has 4 x 4, fast/gemm.cu 8 x
 * 8).
 *
 * One thread adds the products of a sum in the order of the definition, so this is the exact family.
 */
#include "patches.cuh"

namespace {

enum { TILE = 16 };

/* A warp stores two whole rows of a tile, which are 32 neighbouring words, and so one in each bank. It reads 16 neighbours
 * of a row of patches, and two words of a column of taps, whose banks are 16 apart. So rows need no padding; with it, the
 * last word of the second row would share the bank of the first word stored. */
typedef float tile[TILE][TILE];

/* Combines the sums of an output by TILE filters, from first_k on, into one value. The first row's threads call it. */
DEVICE void combine(const arguments &a, const float *weights, const tile &sums, int column, int64_t first_k, float *value) {
  const gconv_problem &problem = a.problem;
  for (int64_t k = first_k; k < first_k + TILE && k < problem.filters; k++) {
    const float response =
        gconv_response(sums[k - first_k][column], gconv_divisors(&problem, weights)[k], gconv_biases(&problem, weights)[k]);
    *value = k == 0 ? gconv_combine_first(problem.epilogue.combine, response)
                    : gconv_combine_next(problem.epilogue.combine, *value, response);
  }
}

/* Returns the sum of filter k at the place of this thread's column. All threads of a block call this together. */
template <class In>
DEVICE float multiply(const arguments &a, const float *weights, const place &at, int64_t first_k, tile &taps,
                      tile &patches) {
  const int row = threadIdx.y, column = threadIdx.x;
  const int64_t depth = (int64_t)a.problem.rows * a.problem.columns;
  float sum = 0.0f;
  for (int64_t first_t = 0; first_t < depth; first_t += TILE) {
    const int64_t tap = first_t + row, k = first_k + row, r = tap / a.problem.columns;
    patches[row][column] = tap < depth ? patch_entry<In>(a, at, r, tap - r * a.problem.columns) : 0.0f;
    taps[row][column] = k < a.problem.filters && first_t + column < depth ? weights[k * depth + first_t + column] : 0.0f;
    __syncthreads();
    for (int t = 0; t < TILE && first_t + t < depth; t++)
      sum = fmaf(taps[row][t], patches[t][column], sum);
    __syncthreads();
  }
  return sum;
}

template <class In, class Out>
__global__ void __launch_bounds__(TILE *TILE)
    convolve(const __grid_constant__ arguments a, const float *weights, int64_t samples) {
  __shared__ tile taps, patches;
  const gconv_problem &problem = a.problem;
  const int row = threadIdx.y, column = threadIdx.x;
  for (int64_t first = (int64_t)blockIdx.x * TILE; first < samples; first += (int64_t)gridDim.x * TILE) {
    uint8_t *pixel;
    const place at = place_of(a, min(first + column, samples - 1), &pixel);
    const bool exists = first + column < samples, is_alpha = problem.keep_alpha && at.c == problem.channels - 1;
    uint8_t *to = pixel + at.c * a.out_channel;
    float value = 0.0f;
    if (is_alpha && exists && row == 0)
      keep_alpha<In, Out>(a, at, pixel);
    for (int64_t first_k = 0; first_k < problem.filters; first_k += TILE) {
      const int64_t k = first_k + row;
      const float sum = multiply<In>(a, weights, at, first_k, taps, patches);
      if (gconv_is_combined(&problem)) {
        taps[row][column] = sum; /* the threads of the first row read the sums of all filters */
        __syncthreads();
        if (row == 0)
          combine(a, weights, taps, column, first_k, &value);
        __syncthreads();
      } else if (exists && !is_alpha && k < problem.filters) {
        const float response = gconv_response(sum, gconv_divisors(&problem, weights)[k], gconv_biases(&problem, weights)[k]);
        gconv_store(gconv_finish(response, &problem.epilogue), (Out *)(to + k * a.out_filter));
      }
    }
    if (gconv_is_combined(&problem) && exists && !is_alpha && row == 0)
      gconv_store(gconv_finish(gconv_combine_last(problem.epilogue.combine, value), &problem.epilogue), (Out *)to);
  }
}

/* ---- The host ---- */

gconv_status execute(const gconv_execution *execution) {
  const int64_t samples = samples_of(execution->problem);
  const unsigned blocks = blocks_for(samples, TILE, INT32_MAX);
  return launch_by_types(execution->problem, [&](auto in, auto out) {
    convolve<decltype(in), decltype(out)><<<blocks, dim3(TILE, TILE), 0, (cudaStream_t)execution->stream>>>(
        common_arguments(execution), execution->weights, samples);
  });
}

/* Counts whole tiles of 16 filters. An entry of the patches takes some 30 instructions, a product eight multiply-adds. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double tiles = (problem->filters - 1) / TILE + 1, taps = (double)taps_of(problem);
  return classic_ms(problem, machine, 16 * tiles / problem->filters * (8 * taps + 30 * taps / 16 + 60));
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_im2col_classic = {
    .info = {"im2col-classic", "cuda", "patches in shared memory, multiplied there, in one kernel: to learn from", true},
    .supports = gconv_takes_all,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .classic = true,
};

/* SPDX-License-Identifier: MIT */
/*
 * direct, small squares on one channel: patches. A thread loads all input rows of some output rows at once, before its first
 * multiply-add; slide() has only one or two rows under way. Patches are faster in two cases:
 *  - 3 x 3 and 5 x 5 on planes of floats, which are bound by memory. There the order of the accesses counts: tiles that are
 *    copied in the order of the image reach 97% of the bandwidth, high strips 88%.
 *  - Small images, where a thread has few rows: it waits for memory once instead of once a row.
 * Neighbouring threads have neighbouring patches of a row. The samples that patches share come from the caches.
 */
#pragma once

#include "direct_walk.cuh"

namespace {

/* The samples of an input row under the windows of V outputs. */
template <class In, int K, int C, int V> struct patch_row {
  using shape = window<K, C, V>;
  using word = typename samples4<In>::word;
  word words[shape::WORDS];

  /* `from`: the first sample of the window. */
  __device__ __forceinline__ void load(const uint8_t *from) {
    UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
      words[w] = ((const word *)from)[w];
  }
  __device__ __forceinline__ void fill(In level) {
    const In four[4] = {level, level, level, level};
    UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
      words[w] = samples4<In>::gather(four);
  }
  __device__ __forceinline__ void spread(float (&x)[4 * shape::WORDS]) const {
    UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
      samples4<In>::spread(words[w], x + 4 * w);
  }
};

/* Floats: of the first and the last group of four, only what is needed is loaded, because the number of rows is limited by
 * registers. */
template <int K, int C, int V> struct patch_row<float, K, C, V> {
  using shape = window<K, C, V>;
  static constexpr int BEGIN = shape::FIRST, END = shape::FIRST + V + (K - 1) * C;
  float samples[4 * shape::WORDS];

  __device__ __forceinline__ void load(const uint8_t *from) {
    const float *row = (const float *)from;
    UNROLLED_FOR (int i = 0; i < 4 * shape::WORDS; i += 4) {
      if (i + 4 <= BEGIN || i >= END)
        continue;
      if (i + 3 == BEGIN || i + 1 == END) {
        const int at = i + 3 == BEGIN ? i + 3 : i;
        samples[at] = row[at];
      } else if (i + 2 == BEGIN || i + 2 == END) {
        const int at = i + 2 == BEGIN ? i + 2 : i;
        const float2 two = *(const float2 *)(row + at);
        samples[at] = two.x, samples[at + 1] = two.y;
      } else {
        samples4<float>::spread(*(const float4 *)(row + i), samples + i);
      }
    }
  }
  __device__ __forceinline__ void fill(float level) {
    UNROLLED_FOR (int i = BEGIN; i < END; i++)
      samples[i] = level;
  }
  __device__ __forceinline__ void spread(float (&x)[4 * shape::WORDS]) const {
    UNROLLED_FOR (int i = BEGIN; i < END; i++)
      x[i] = samples[i];
  }
};

/* Makes a patch of `rows` rows (ROWS at most), whose first output is sample `first` of row `top`. INSIDE: it has all ROWS
 * rows, and all of its input is inside the image. */
template <class In, int K, int C, int V, int ROWS, bool PLAIN, bool INSIDE>
__device__ __forceinline__ void make_patch(const sliding_arguments<K, 1> &a, const uint8_t *in, uint8_t *out, int first,
                                           int top, int rows) {
  using shape = window<K, C, V>;
  constexpr int SPANNED = ROWS + K - 1;
  const gconv_problem &problem = a.common.problem;
  const beyond down(problem.border, problem.height);
  const int source = top - problem.pad_top;
  patch_row<In, K, C, V> row[SPANNED];
  const uint8_t *from = in + (first - problem.pad_left * C - shape::FIRST) * (int64_t)sizeof(In);
  if (INSIDE)
    from += source * a.common.in_row;
  UNROLLED_FOR (int i = 0; i < SPANNED; i++) {
    const int y = INSIDE ? 0 : i < rows + K - 1 ? down.index(source + i) : GCONV_OUTSIDE;
    if (INSIDE)
      row[i].load(from), from += a.common.in_row;
    else if (y >= 0)
      row[i].load(from + y * a.common.in_row);
    else
      row[i].fill((In)problem.border_level);
  }
  __syncwarp(__activemask()); /* all loads stand before the multiply-adds, so that the compiler does not move them */
  float sums[ROWS][V];
  UNROLLED_FOR (int i = 0; i < SPANNED; i++) {
    float x[4 * shape::WORDS];
    row[i].spread(x);
    UNROLLED_FOR (int p = 0; p < ROWS; p++)
      UNROLLED_FOR (int s = 0; s < K; s++)
        UNROLLED_FOR (int v = 0; v < V; v++)
          if (p > i - K && p <= i)
            sums[p][v] = fmaf(a.taps[0][(i - p) * K + s], x[shape::FIRST + v + s * C], p == i && s == 0 ? 0.0f : sums[p][v]);
    const int p = i - K + 1;
    if (p >= 0 && (INSIDE || p < rows)) {
      store_sums<In, K, C, V, 1, PLAIN>(a, sums[p], sums[p], in, out, top + p, first);
      out += a.common.out_row;
    }
  }
}

/* Grid: as that of slide(), with strips of ROWS rows, or of several patches one below the other. BLOCKS: the blocks on a
 * multiprocessor for which the compiler limits registers. */
template <class In, int K, int C, int V, int ROWS, int BLOCKS, bool PLAIN>
__global__ void __launch_bounds__(SLIDE_THREADS, BLOCKS) patch(const __grid_constant__ sliding_arguments<K, 1> a) {
  const gconv_problem &problem = a.common.problem;
  const block_part part = find_part(a, a.walkers * problem.images * problem.planes);
  if (!part.walks) {
    make_ends<In, K, C, 1, K, PLAIN>(a, part.in, part.out, part.number);
    return;
  }
  const int strip = (unsigned)part.number / (unsigned)a.across, column = part.number - strip * a.across;
  const int first = (column * blockDim.x + threadIdx.x) * V, begin = (strip * blockDim.y + threadIdx.y) * a.strip;
  if (first < a.begin || first >= a.end)
    return;
  const int end = min(begin + a.strip, problem.out_height);
#pragma unroll 1
  for (int top = begin; top < end; top += ROWS) {
    const int source = top - problem.pad_top, rows = min(end - top, ROWS);
    uint8_t *out = part.out + top * a.common.out_row;
    if (rows == ROWS && source >= 0 && source + ROWS + K - 1 <= problem.height)
      make_patch<In, K, C, V, ROWS, PLAIN, true>(a, part.in, out, first, top, rows);
    else
      make_patch<In, K, C, V, ROWS, PLAIN, false>(a, part.in, out, first, top, rows);
  }
}

} // namespace

/* SPDX-License-Identifier: MIT */
/*
 * direct, 3 x 3 and 5 x 5 on planes of floats: patches. What memory bounds is a matter of how memory is walked: tiles that
 * are copied in the order of the image, all rows of a thread at once, make 97 % of the bandwidth, high strips 88 %. So a
 * thread makes 4 outputs of some rows, all of whose input is under way together, and threads follow one another along the
 * rows; what patches share comes from the caches.
 */
#ifndef GCONV_CUDA_DIRECT_PATCH_CUH
#define GCONV_CUDA_DIRECT_PATCH_CUH

#include "direct_walk.cuh"

namespace {

/* Whether a thread makes patches instead of sliding down a strip. */
template <class In, int K, int C, int F, bool BY_FOUR>
constexpr bool takes_patches = sizeof(In) == 4 && (K == 3 || K == 5) && C == 1 && F == 1 && BY_FOUR;

/* Rows of a patch, and the blocks of a multiprocessor that leave registers for as many: as measured on an H200. */
template <int K> constexpr int patch_rows = K == 3 ? 4 : 10;
enum { PATCH_BLOCKS = 4 };

/* The patch whose first output is sample `first` of row `top`, all of whose input is in the image: of each input row, the
 * windows of 4 outputs. */
template <int K, bool PLAIN>
__device__ __forceinline__ void make_patch(const sliding_arguments<K, 1> &a, const uint8_t *in, uint8_t *out, int first,
                                           int top) {
  constexpr int ROWS = patch_rows<K>, SPANNED = ROWS + K - 1, BESIDE = K / 2;
  const gconv_problem &problem = a.common.problem;
  float x[SPANNED][4 + 2 * BESIDE], sums[ROWS][4];
  const uint8_t *row = in + (top - problem.pad_top) * a.common.in_row + (first - problem.pad_left) * (int64_t)sizeof(float);
#pragma unroll
  for (int i = 0; i < SPANNED; i++, row += a.common.in_row) {
    const float *window = (const float *)row;
    if constexpr (K == 3) {
      x[i][0] = window[0], x[i][5] = window[5];
    } else {
      const float2 before = *(const float2 *)window, behind = *(const float2 *)(window + 6);
      x[i][0] = before.x, x[i][1] = before.y, x[i][6] = behind.x, x[i][7] = behind.y;
    }
    samples4<float>::spread(*(const float4 *)(window + BESIDE), &x[i][BESIDE]);
  }
  __syncwarp(__activemask()); /* all are loaded before, and not one by one where they are needed */
#pragma unroll
  for (int i = 0; i < SPANNED; i++) {
#pragma unroll
    for (int p = 0; p < ROWS; p++)
#pragma unroll
      for (int s = 0; s < K; s++)
#pragma unroll
        for (int v = 0; v < 4; v++)
          if (p > i - K && p <= i)
            sums[p][v] = fmaf(a.taps[0][(i - p) * K + s], x[i][v + s], p == i && s == 0 ? 0.0f : sums[p][v]);
    if (i >= K - 1) {
      const int p = i - K + 1;
      store_sums<float, K, 1, 4, 1, PLAIN>(a, sums[p], sums[p], in, out, top + p, first);
      out += a.common.out_row;
    }
  }
}

/* Grid: as of slide(), in strips of patch_rows, or of several patches, one below the other. What reaches outside the image
 * slides. */
template <int K, bool PLAIN>
__global__ void __launch_bounds__(SLIDE_THREADS, PATCH_BLOCKS) patch(const __grid_constant__ sliding_arguments<K, 1> a) {
  const gconv_problem &problem = a.common.problem;
  const block_part part = find_part(a, a.walkers * problem.images * problem.planes);
  if (!part.walks) {
    make_ends<float, K, 1, 1>(a, part.in, part.out, part.number);
    return;
  }
  const int strip = part.number / a.across, column = part.number - strip * a.across;
  const int first = (column * blockDim.x + threadIdx.x) * 4, begin = (strip * blockDim.y + threadIdx.y) * a.strip;
  if (first < a.begin || first >= a.end)
    return;
#pragma unroll 1
  for (int top = begin; top < min(begin + a.strip, problem.out_height); top += patch_rows<K>) {
    const int source = top - problem.pad_top, rows = min(begin + a.strip, problem.out_height) - top;
    uint8_t *out = part.out + top * a.common.out_row;
    if (rows >= patch_rows<K> && source >= 0 && source + patch_rows<K> + K - 1 <= problem.height)
      make_patch<K, PLAIN>(a, part.in, out, first, top);
    else
      walk<float, K, 1, 4, 1, PLAIN, true>(a, part.in, out, first, top, min(rows, patch_rows<K>));
  }
}

} // namespace

#endif

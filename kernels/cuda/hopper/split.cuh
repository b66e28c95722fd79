/* SPDX-License-Identifier: MIT */
/*
 * Layers of small images, such as those of classifiers: weights times patches, whose sums are shared among blocks. A layer
 * of 14 x 14 outputs and 256 filters fills 16 tiles of 64 x 64 alone, and a GPU has 132 multiprocessors. So up to eight
 * blocks, a cluster, each add up a part of the channels for the same tile. Then each block takes a piece of the tile: it
 * reads this piece from the shared memory of all blocks, adds in the order of the blocks, and stores. So sums do not depend
 * on which block ends first.
 *
 * The input is not packed first: samples are gathered from N x C x H x W (cp.async, with zeros outside), 32 taps at a time,
 * with three slices under way. Weights are stored in the order in which threads multiply them. While the previous layer is
 * at work, they are prefetched to the L2 cache.
 *
 * TF32 has 11 bits. For float32, a number is high + low, and three of the four products are computed, as in gemm-3xfp16.
 * TF32 has the range of float32. So scales are needed only by filters at the ends of that range (scale_of() in
 * gemm_split.cu).
 *
 * If images are very small, loads of weights bound the kernel; otherwise, instructions that gather and split samples.
 */
#pragma once

#include "../core/launch.cuh"
#include "../graph/tail.cuh"
#include "device/cuda_error.h"
#include "kernels/activation.h"
#include "tensor_work.cuh"

namespace split_layers {

using namespace tensor;

enum : int32_t {
  PIXELS = 64,        /* outputs of a tile */
  DEPTH = 32,         /* taps of a slice */
  SLICES = 3,         /* under way */
  BLOCK = 256,        /* threads */
  PITCH = PIXELS + 8, /* floats from a tap to the next, so that four taps of eight outputs lie in different banks */
  MOST_SPLITS = 8,    /* blocks of a cluster */
  MOST_OWN = 128,     /* slices of a block: their taps lie in shared memory */
  OUTSIDE = 0x7fff    /* row of a tap that does not exist */
};

struct cut {
  int32_t filters; /* of a tile: 32 or 64 */
  int32_t filter_tiles, pixel_tiles, splits, slices;
  double cycles;
  bool fits;
};

inline int64_t slot_floats(int32_t filters) {
  return (int64_t)DEPTH * (filters + PITCH);
}
inline int64_t block_bytes(const cut &c) { /* slots take more bytes than a tile of sums */
  return SLICES * slot_floats(c.filters) * 4 + divide_up(c.slices, c.splits) * DEPTH * (int64_t)sizeof(int2);
}

/* Returns the cycles in which a block of an H200 processes a slice. `together`: how many blocks a multiprocessor runs. */
inline double slice_cycles(int32_t filters, bool one_product, double together) {
  const double alone = one_product ? 1700 : 2000;
  const double busy = filters == 32 ? (one_product ? 950 : 1200) : one_product ? 1850 : 2400;
  return together <= 1 ? alone : std::max(busy * together, alone);
}

inline cut cut_problem(const gconv_layer_problem *p) {
  const int64_t taps = gconv_layer_taps(p), pixels = (int64_t)p->images * p->out_height * p->out_width;
  const int64_t slices = divide_up(taps, DEPTH), planes = gconv_layer_plane(p) * p->channels;
  const int64_t down = (int64_t)(p->rows - 1) * p->dilation_y, right = (int64_t)(p->columns - 1) * p->dilation_x;
  cut best = {};
  best.cycles = HUGE_VAL;
  if (p->groups != 1 || slices > 1 << 20 || pixels > 1 << 30 || down >= OUTSIDE || p->height + p->pad_top > OUTSIDE ||
      right > UINT16_MAX || planes + down * p->width + right > INT32_MAX) /* tap by tap, such places are in `taps` */
    return best;
  for (int32_t filters = 32; filters <= 64; filters *= 2)
    for (int32_t splits = 1; splits <= MOST_SPLITS && splits <= slices; splits *= 2) {
      cut c = {filters, (p->filters - 1) / filters + 1, (int32_t)divide_up(pixels, PIXELS), splits, (int32_t)slices, 0,
               true};
      const double blocks = (double)c.filter_tiles * c.pixel_tiles * splits, rounds = std::ceil(blocks / PROCESSORS);
      const double together = std::min(rounds, 4.0), own = (double)divide_up(slices, splits) + 2;
      c.cycles = 3000 + (splits > 1 ? 800 : 0) +
                 own * slice_cycles(filters, p->math == GCONV_MATH_TF32, together) * std::ceil(rounds / 4);
      c.fits = c.filter_tiles < 65536 && divide_up(slices, splits) <= MOST_OWN;
      if (c.fits && c.cycles < best.cycles)
        best = c;
    }
  return best;
}

struct split_arguments {
  cut c;
  gconv_layer_problem problem;
  const float *in, *weights, *biases;
  const float *scales; /* factor of the sums of each filter */
  float *out;
  const int2 *taps; /* of each tap: floats from an output's first sample to its own; its column and, 16 bits up, its row */
  int64_t pixels;
  divisor plane, width; /* of outputs */
  bool fours;           /* filters of 1 x 1, and four neighbours of a plane lie at a multiple of 16 bytes */
  gconv_gpu_tail tail;
};

/* ---- Loading ---- */

/* The output whose samples a thread gathers; with `fours`, the first of four. */
struct gathered {
  const float *from; /* the sample under its first tap, which may be outside */
  int32_t y, x;
};

DEVICE gathered gather_of(const split_arguments &a, uint32_t pixel) {
  const gconv_layer_problem &p = a.problem;
  const bool there = pixel < (uint64_t)a.pixels;
  const uint32_t image = a.plane.divide(pixel), rest = pixel - image * a.plane.by, row = a.width.divide(rest);
  gathered g;
  g.y = there ? (int32_t)row * p.stride_y - p.pad_top : -(1 << 30);
  g.x = (int32_t)(rest - row * a.width.by) * p.stride_x - p.pad_left;
  g.from = a.in + (there ? (int64_t)image * p.channels * p.height * p.width + (int64_t)g.y * p.width + g.x : 0);
  return g;
}

template <int M> DEVICE void load_weights(const split_arguments &a, int32_t slice, uint32_t to) {
  const float *from = a.weights + ((int64_t)blockIdx.y * a.c.slices + slice) * (M * DEPTH);
  UNROLLED_FOR (int i = threadIdx.x; i < M * DEPTH / 4; i += BLOCK)
    copy_async<16>(to + i * 16, from + i * 4);
}

/* `taps` has the taps of the slice, in shared memory. */
template <int M> DEVICE void load_samples(const split_arguments &a, const gathered &g, const int2 *taps, uint32_t to) {
  if (a.fours) {
    to += M * DEPTH * 4 + threadIdx.x % (PIXELS / 4) * 16;
    UNROLLED_FOR (int i = threadIdx.x / (PIXELS / 4); i < DEPTH; i += BLOCK / (PIXELS / 4)) {
      const bool inside = g.y >= 0 && taps[i].y == 0;
      copy_async_or_zero<16>(to + i * PITCH * 4, inside ? g.from + taps[i].x : a.in, inside);
    }
    return;
  }
  const int32_t column = threadIdx.x % PIXELS, first = threadIdx.x / PIXELS;
  to += M * DEPTH * 4 + column * 4;
  UNROLLED_8_FOR(int i = first; i < DEPTH; i += BLOCK / PIXELS) {
    const int2 tap = taps[i];
    const int32_t y = g.y + (tap.y >> 16), x = g.x + (tap.y & 0xffff);
    const bool inside = (uint32_t)y < (uint32_t)a.problem.height && (uint32_t)x < (uint32_t)a.problem.width;
    copy_async_or_zero<4>(to + i * PITCH * 4, inside ? g.from + tap.x : a.in, inside);
  }
}

/* ---- Multiplying ---- */

DEVICE uint32_t to_tf32(float v) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}
/* v = high + low. Integer instructions round `high`, in fewer cycles than to_tf32() takes. Tensor cores cut off the last
 * bits of `low`, so NaN stays NaN. */
DEVICE void split_number(float v, uint32_t *high, uint32_t *low) {
  *high = (__float_as_uint(v) + 0x1000) & 0xffffe000;
  *low = __float_as_uint(v - __uint_as_float(*high));
}

template <int PRODUCTS> DEVICE void split(float v, uint32_t *high, uint32_t *low) {
  if constexpr (PRODUCTS == 1)
    *high = to_tf32(v), *low = 0;
  else
    split_number(v, high, low);
}

/* split() for any number. The largest samples must not be rounded to infinity, which would make their low part -infinity.
 * Infinity becomes the largest number of TF32 as high part, and infinity as low part. Weights do not need this: prepare()
 * keeps them away from the limits of float32. */
template <int PRODUCTS> DEVICE void split_sample(float v, uint32_t *high, uint32_t *low) {
  const float largest = __uint_as_float(0x7f7fe000); /* of TF32 */
  split<PRODUCTS>(PRODUCTS == 1 ? v : fminf(fmaxf(v, -largest), largest), high, low);
  if constexpr (PRODUCTS > 1)
    *low = __float_as_uint(v - __uint_as_float(*high));
}

/* c += a b: 16 x 8 numbers, 8 deep. */
DEVICE void multiply_tf32_of_warp(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* A warp has M / 2 filters and 16 outputs of the tile. Tensor cores truncate sums toward 0. So they only add up a slice, and
 * slices are added by float additions, which round. */
template <int M, int PRODUCTS> DEVICE void multiply_slice(const float *slot, float (&sums)[M / 32][2][4]) {
  constexpr int TALL = M / 32;
  const int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float4 *weights = (const float4 *)slot + (warp / 4 * TALL * (DEPTH / 8)) * 32 + lane;
  const float *samples = slot + M * DEPTH + lane % 4 * PITCH + warp % 4 * 16 + lane / 4;
  float own[TALL][2][4] = {};
  UNROLLED_FOR (int d = 0; d < DEPTH / 8; d++) {
    uint32_t high[TALL][4], low[TALL][4];
    UNROLLED_FOR (int i = 0; i < TALL; i++) {
      const float4 w = weights[(i * (DEPTH / 8) + d) * 32];
      split<PRODUCTS>(w.x, &high[i][0], &low[i][0]), split<PRODUCTS>(w.y, &high[i][1], &low[i][1]);
      split<PRODUCTS>(w.z, &high[i][2], &low[i][2]), split<PRODUCTS>(w.w, &high[i][3], &low[i][3]);
    }
    uint32_t more[2][2], less[2][2];
    UNROLLED_FOR (int j = 0; j < 2; j++)
      UNROLLED_FOR (int e = 0; e < 2; e++)
        split_sample<PRODUCTS>(samples[(d * 8 + e * 4) * PITCH + j * 8], &more[j][e], &less[j][e]);
    UNROLLED_FOR (int product = 3 - PRODUCTS; product < 3; product++) /* products with low digits first */
      UNROLLED_FOR (int j = 0; j < 2; j++)
        UNROLLED_FOR (int i = 0; i < TALL; i++)
          multiply_tf32_of_warp(own[i][j], product == 0 ? low[i] : high[i], product == 1 ? less[j] : more[j]);
  }
  UNROLLED_FOR (int i = 0; i < TALL; i++)
    UNROLLED_FOR (int j = 0; j < 2; j++)
      UNROLLED_FOR (int e = 0; e < 4; e++)
        sums[i][j][e] += own[i][j][e];
}

/* ---- Adding up the parts, and storing ---- */

template <int M> DEVICE void store_tile(const split_arguments &a, float *tile, float (&sums)[M / 32][2][4]) {
  const int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, splits = a.c.splits;
  UNROLLED_FOR (int i = 0; i < M / 32; i++)
    UNROLLED_FOR (int j = 0; j < 2; j++)
      UNROLLED_FOR (int e = 0; e < 4; e++)
        tile[((warp / 4 * (M / 32) + i) * 16 + lane / 4 + e / 2 * 8) * PITCH + warp % 4 * 16 + j * 8 + lane % 4 * 2 +
             e % 2] = sums[i][j][e];
  if (splits > 1)
    cluster_wait();
  else
    __syncthreads();
  const gconv_layer_problem &p = a.problem;
  const int32_t column = threadIdx.x % PIXELS, rows = M / splits;
  const uint32_t pixel = blockIdx.x * PIXELS + column;
  const uint32_t image = a.plane.divide(pixel), rest = pixel - image * a.plane.by;
  const bool there = pixel < (uint64_t)a.pixels;
  const uint32_t own = shared_address(tile) + column * 4;
  for (int32_t i = threadIdx.x / PIXELS; i < rows; i += BLOCK / PIXELS) {
    const int32_t row = (int32_t)blockIdx.z * rows + i, k = (int32_t)blockIdx.y * M + row;
    float sum = 0;
    if (splits == 1)
      sum = tile[row * PITCH + column];
    else
      for (int32_t part = 0; part < splits; part++)
        sum += load_there(own + row * PITCH * 4, (uint32_t)part);
    if (!there || k >= p.filters)
      continue;
    sum = gconv_activate(&p, sum * a.scales[k] + a.biases[k]);
    const int64_t place = ((int64_t)image * p.filters + k) * a.plane.by + rest;
    a.out[place] = follow_sum(a.tail, sum, k, place);
  }
  if (splits > 1)
    cluster_wait(); /* the other blocks have read this block's sums */
}

/* Grid: x counts tiles of outputs, y tiles of filters, z parts of the sums; the blocks along z are a cluster. */
template <int M, int PRODUCTS>
__global__ void __launch_bounds__(BLOCK, 2) convolve_split(const __grid_constant__ split_arguments a) {
#ifdef COPY_ENGINE
  extern __shared__ __align__(128) uint8_t shared[];
  const cut &c = a.c;
  const int32_t first = (int32_t)((int64_t)c.slices * blockIdx.z / c.splits);
  const int32_t end = (int32_t)((int64_t)c.slices * (blockIdx.z + 1) / c.splits);
  const uint32_t slots = shared_address(shared), size = (uint32_t)(DEPTH * (M + PITCH) * 4);
  if (threadIdx.x == 0)
    for (int32_t slice = first; slice < end; slice++)
      bulk_prefetch(a.weights + ((int64_t)blockIdx.y * c.slices + slice) * (M * DEPTH), M * DEPTH * 4);
  int2 *taps = (int2 *)(shared + SLICES * size);
  for (int32_t i = threadIdx.x; i < (end - first) * DEPTH; i += BLOCK)
    taps[i] = __ldg(a.taps + first * DEPTH + i);
  admit_kernel_behind();
  await_kernel_before();
  __syncthreads();
  const int32_t mine = a.fours ? threadIdx.x % (PIXELS / 4) * 4 : threadIdx.x % PIXELS;
  const gathered g = gather_of(a, blockIdx.x * PIXELS + mine);
  float sums[M / 32][2][4] = {};
  UNROLLED_FOR (int i = 0; i < SLICES - 1; i++) {
    if (first + i < end) {
      load_weights<M>(a, first + i, slots + i * size);
      load_samples<M>(a, g, taps + i * DEPTH, slots + i * size);
    }
    commit_copies();
  }
  int32_t slot = 0, next = SLICES - 1;
  for (int32_t slice = first; slice < end; slice++) {
    await_copies<SLICES - 2>();
    __syncthreads(); /* all threads have copied this slice, and have multiplied the previous one */
    if (slice + SLICES - 1 < end) {
      load_weights<M>(a, slice + SLICES - 1, slots + next * size);
      load_samples<M>(a, g, taps + (slice - first + SLICES - 1) * DEPTH, slots + next * size);
    }
    commit_copies();
    multiply_slice<M, PRODUCTS>((const float *)(shared + slot * size), sums);
    slot = slot + 1 < SLICES ? slot + 1 : 0;
    next = next + 1 < SLICES ? next + 1 : 0;
  }
  await_all_copies();
  __syncthreads();
  store_tile<M>(a, (float *)shared, sums);
#endif
}

} // namespace split_layers

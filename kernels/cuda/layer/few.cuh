/* SPDX-License-Identifier: MIT */
/*
 * First layers of 3 x 3 taps on three channels, on Hopper's tensor cores, with the digits of gemm-3xfp16 (tensor.cuh).
 *
 * With 64 filters, the 27 multiply-adds of an output take as long as storing it, and neither hides the other completely.
 * Tensor cores compute the three products of digits in a fifth of that time. So storing is the bound.
 *
 *     a lane, one pixel               four warps                          a warp
 *     27 samples -> digits,     ->    64 filters, in registers,     ->    16 filters of 128 pixels, in shared memory,
 *     a row of the patches            x 128 pixels x 32 taps              -> 16 copies of 512 bytes, one for each plane
 *
 * Whole patches are built, 64 bytes for each pixel and digit, because there are few taps. Pixels are numbered through an
 * image, row after row. So no width leaves lanes idle, and the outputs of a tile are in one piece. 32 pixels, those of a
 * warp, have a scale of their own. Two things make storing fast:
 *
 * - The copies (cp.async.bulk) are as long as registers allow. A warp waits for its stores only when it needs the same half
 *   of its stage again.
 * - Reading from memory between stores costs much more than its bytes. So the input is fetched to the L2 cache before the
 *   first tile is stored, in parts if it is large, and stays there against the stores (evict_last). That took 0.057 ms
 *   instead of 0.066, with a prototype of the kernel.
 */
#pragma once

#include "tensor.cuh"

#include <float.h>

namespace few {

using tensor::ceil_div;
using tensor::divisor;

enum : int32_t {
  CHANNELS = 3,
  SIDE = 3, /* taps across and down */
  TAPS = CHANNELS * SIDE * SIDE,
  UNITS = 4, /* of 8 taps, the last filled up with zeros: two steps of 16 taps */
  WARPS = 4,
  THREADS = WARPS * 32,
  FIT = 3,      /* blocks on a multiprocessor */
  TILE = 128,   /* pixels */
  FILTERS = 64, /* of a block */
  PLANE_BYTES = UNITS * TILE * 16,
  PATCH_BYTES = 2 * PLANE_BYTES, /* both digits */
  STAGE_PITCH =
      TILE * 4 + 64, /* of a filter; with this pitch, rows of 16 bytes by 4 lanes of 2 filters use different banks */
  STAGE_BYTES = 16 * STAGE_PITCH,
  SHARED_BYTES = 2 * PATCH_BYTES + WARPS * STAGE_BYTES,
  LINE = 32,                    /* floats of a line of memory */
  PART_LINES = (12 << 20) / 128 /* lines of the input that are fetched to L2 at a time */
};

/* The arguments of the kernel, passed by value. */
struct arguments {
  gconv_layer_problem problem;
  const float *in, *biases, *plain_weights;
  float *out;
  const uint4 *weights;       /* in the order of prepare() */
  const float *filter_scales; /* of the results, filled up to whole blocks of filters */
  divisor image_tiles, out_width;
  int32_t tiles;
  int32_t fixed;     /* rounds of tiles that are assigned to blocks by number; the tiles of later rounds go to the block that
                        asks first */
  uint32_t *tickets; /* for each block of filters: how many tiles were given out so, and how many blocks have ended */
  int64_t lines, part_tiles; /* of the input; tiles that one part of it serves */
  bool bulk;                 /* the pieces of planes are multiples of 16 bytes, and aligned */
  bool curved;               /* the activation is not made of two straight parts */
  float slope, lowest;       /* values below 0 become at least `lowest`, and are then multiplied by `slope` */
};

#ifdef HOPPER
using namespace hopper;

/* The place of a tile: `first` is the number of its first pixel, `count` the number of its pixels. */
struct place {
  int32_t image, first, count;
};
DEVICE place place_of(const arguments &a, int32_t tile) {
  const uint32_t image = a.image_tiles.divide((uint32_t)tile);
  const int32_t first = (tile - (int32_t)(image * a.image_tiles.by)) * TILE;
  return {(int32_t)image, first, min((int32_t)TILE, a.problem.out_height * a.problem.out_width - first)};
}

/* Returns the pixel of a tile for which this thread builds the patch. wgmma leaves in a lane two neighbouring columns of
 * every eight. With this order, those of two groups of eight are four neighbouring pixels. */
DEVICE int32_t own_pixel() {
  const int32_t i = (int32_t)threadIdx.x;
  return (i & ~15) | (i >> 1 & 3) << 2 | (i >> 3 & 1) << 1 | (i & 1);
}

/* ---- Building patches ---- */

/* Loads the samples of the thread's pixel, in the order of taps. They are 0 outside the image, and behind the last tile. */
DEVICE void load_samples(const arguments &a, int32_t tile, float (&v)[TAPS]) {
  const gconv_layer_problem &p = a.problem;
  const place at = place_of(a, min(tile, a.tiles - 1));
  const int32_t pixel = at.first + own_pixel(), row = (int32_t)a.out_width.divide((uint32_t)pixel);
  const int32_t y = row * p.stride_y - p.pad_top, x = (pixel - row * p.out_width) * p.stride_x - p.pad_left;
  const float *image = a.in + (int64_t)at.image * CHANNELS * p.height * p.width;
  const int32_t corner = y * p.width + x, plane = p.height * p.width;
  bool down[SIDE], across[SIDE];
  UNROLLED_FOR (int i = 0; i < SIDE; i++) {
    down[i] = tile < a.tiles && (uint32_t)(y + i) < (uint32_t)p.height;
    across[i] = (uint32_t)(x + i) < (uint32_t)p.width;
  }
  UNROLLED_FOR (int c = 0; c < CHANNELS; c++)
    UNROLLED_FOR (int r = 0; r < SIDE; r++) {
      const float *from = image + (corner + c * plane + r * p.width);
      UNROLLED_FOR (int s = 0; s < SIDE; s++)
        v[(c * SIDE + r) * SIDE + s] = down[r] && across[s] ? __ldg(from + s) : 0.0f;
    }
}

/* Returns the largest finite magnitude of all lanes, as bits. Also tells whether some samples are not finite. */
DEVICE uint32_t find_largest(const float (&v)[TAPS], bool *not_finite) {
  float most = 0;
  UNROLLED_FOR (int i = 0; i < TAPS; i++)
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(v[i])));
  uint32_t bits = __reduce_max_sync(UINT32_MAX, __float_as_uint(most));
  *not_finite = bits >= tensor::NOT_FINITE;
  if (*not_finite) {
    most = 0;
    UNROLLED_FOR (int i = 0; i < TAPS; i++)
      most = tensor::is_finite(v[i]) ? fmaxf(most, fabsf(v[i])) : most;
    bits = __reduce_max_sync(UINT32_MAX, __float_as_uint(most));
  }
  return bits;
}

/* Writes the thread's row of the patches, in both digits, unit after unit. */
DEVICE void build_patch(const float (&v)[TAPS], float scale, uint8_t *patches) {
  UNROLLED_FOR (int u = 0; u < UNITS; u++) {
    float eight[8];
    UNROLLED_FOR (int i = 0; i < 8; i++)
      eight[i] = u * 8 + i < TAPS ? v[u * 8 + i < TAPS ? u * 8 + i : 0] * scale : 0.0f;
    uint32_t high[4], low[4];
    tensor::fp16::pack<true>(eight, high, low);
    uint8_t *to = patches + (u * TILE + threadIdx.x) * 16;
    *(uint4 *)to = make_uint4(high[0], high[1], high[2], high[3]);
    *(uint4 *)(to + PLANE_BYTES) = make_uint4(low[0], low[1], low[2], low[3]);
  }
}

/* Starts to fetch a part of the input to L2. Each block fetches a share. */
DEVICE void fetch_part(const arguments &a, int64_t part) {
  const int64_t end = min(a.lines, (part + 1) * PART_LINES);
  for (int64_t i = part * PART_LINES + blockIdx.x * THREADS + threadIdx.x; i < end; i += (int64_t)gridDim.x * THREADS)
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(a.in + i * LINE));
}

/* ---- Multiplying ---- */

/* The warp's weights. For each step: high digits, then low ones. */
struct held {
  uint4 of[UNITS / 2][2];
};

DEVICE void multiply_tile(const held &weights, const uint8_t *patches, float (&sums)[TILE / 2]) {
  constexpr uint32_t UNIT = TILE, STEP = 2 * UNIT, LOW = UNITS * UNIT; /* in units of 16 bytes */
  const uint64_t at = (uint64_t)(shared_address(patches) >> 4 | UNIT << 16) | (uint64_t)8 << 32;
  multiply_begin();
  UNROLLED_FOR (int s = 0; s < UNITS / 2; s++) {
    multiply_fp16(sums, weights.of[s][0], at + s * STEP, s != 0);
    multiply_fp16(sums, weights.of[s][1], at + s * STEP, 1);
    multiply_fp16(sums, weights.of[s][0], at + s * STEP + LOW, 1);
  }
  multiply_commit();
}

/* ---- Storing ---- */

/* Half of a warp's filters of a tile, in its stage. */
struct half {
  float *stage, *out;      /* of the first filter */
  int32_t filter, filters; /* the first filter, and how many of the 8 exist */
};

/* Handles rare cases in the stage: sums that are not finite where samples were not (tensor_store.cuh), and activations that
 * are not made of two straight parts. */
static __device__ __noinline__ void mend(const arguments *a, place at, half h, bool not_finite) {
  const gconv_layer_problem &p = a->problem;
  for (int32_t i = threadIdx.x % 32; i < h.filters * at.count; i += 32) {
    const int32_t k = i / at.count, pixel = i - k * at.count, row = (at.first + pixel) / p.out_width;
    float *v = h.stage + k * (STAGE_PITCH / 4) + pixel;
    if (not_finite && !tensor::is_finite(*v))
      *v = gconv_activate(&p, tensor::plain_sum(p, a->in, a->plain_weights, at.image, h.filter + k, row,
                                                at.first + pixel - row * p.out_width) +
                                  a->biases[h.filter + k]);
    else if (a->curved)
      *v = gconv_activate(&p, *v);
  }
  __syncwarp();
}

/* Stores a half from the stage to memory. All lanes have written their part of the stage. */
DEVICE void store_half(const arguments &a, const place &at, const half &h) {
  const int64_t plane = (int64_t)a.problem.out_height * a.problem.out_width;
  const int32_t lane = threadIdx.x % 32;
  if (a.bulk) {
    publish();
    __syncwarp();
    /* One lane starts all copies, with addresses that are uniform for the warp. If each lane started one copy, the addresses
     * would first be broadcast one by one. */
    if (lane == 0)
      UNROLLED_FOR (int32_t k = 0; k < 8; k++)
        if (k < h.filters)
          bulk_store(h.out + k * plane, shared_address(h.stage + k * (STAGE_PITCH / 4)), at.count * 4);
    bulk_store_commit();
  } else {
    __syncwarp();
    for (int32_t k = 0; k < h.filters; k++)
      for (int32_t i = lane; i < at.count; i += 32)
        __stcs(h.out + k * plane + i, h.stage[k * (STAGE_PITCH / 4) + i]);
  }
}

/* Writes half of the sums to the stage: those of filters from `lane / 4` on (EIGHT: 8 further on). `scales` are those of
 * each 32 pixels. BENT: uses a.slope and a.lowest, and allows small scales. It is tested once, because eight branches
 * between the stores to the stage cost 0.002 ms of 0.058. */
template <int EIGHT, bool BENT>
DEVICE void fill_half(const arguments &a, const float (&sums)[TILE / 2], const float (&scales)[WARPS], float scale,
                      float bias, float *stage) {
  const int32_t lane = threadIdx.x % 32;
  float *to = stage + lane / 4 * (STAGE_PITCH / 4) + lane % 4 * 4;
  UNROLLED_FOR (int i = 0; i < TILE / 16; i++) {
    /* The product of both scales may be too small for a float32, even if the output is not. So the sum is first multiplied
     * by one part. */
    const float image = scales[i / 2], first = BENT ? fminf(image, 0x1p60f) : 1;
    const float factor = fminf(scale * (BENT ? fmaxf(image * 0x1p-60f, 1) : image), 0x1p127f);
    float y[4];
    UNROLLED_FOR (int e = 0; e < 4; e++)
      y[e] = fmaf(sums[8 * i + e / 2 * 4 + EIGHT * 2 + e % 2] * first, factor, bias);
    if constexpr (BENT)
      UNROLLED_FOR (int e = 0; e < 4; e++)
        y[e] = y[e] < 0 ? fmaxf(y[e], a.lowest) * a.slope : y[e];
    *(float4 *)(to + i * 16) = make_float4(y[0], y[1], y[2], y[3]);
  }
}

/* ---- The kernel ---- */

/* What a warp needs to know of a tile's patches: for each of the four warps that built them, its scale and whether all of
 * its samples were finite. */
struct head {
  float scale[2][WARPS];
  uint32_t not_finite[2][WARPS];
};

DEVICE void build_tile(const float (&v)[TAPS], head *h, uint32_t buffer, uint8_t *patches) {
  const int32_t warp = threadIdx.x / 32;
  bool not_finite;
  const int exponent = tensor::scale_exponent(find_largest(v, &not_finite));
  if (threadIdx.x % 32 == 0) {
    h->scale[buffer][warp] = tensor::power_of_two(-exponent);
    h->not_finite[buffer][warp] = not_finite;
  }
  build_patch(v, tensor::power_of_two(exponent), patches);
}
#endif

/* Grid: x counts blocks that share the tiles, y blocks of filters. Neighbouring blocks process neighbouring tiles at the
 * same time. Multiprocessors differ in their distance to memory: with equal shares, the first was ready after 46 us and the
 * last after 55. So the tiles of the last rounds are given to the blocks that ask first. The answer takes longer than a
 * barrier, so a block asks one tile ahead. */
static __global__ void __launch_bounds__(THREADS, FIT) convolve(const __grid_constant__ arguments a) {
#ifdef HOPPER
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ head h;
  const gconv_layer_problem &p = a.problem;
  __shared__ int32_t given[2]; /* the tile after this one */
  const int32_t lane = threadIdx.x % 32, warp = __shfl_sync(UINT32_MAX, (int32_t)threadIdx.x / 32, 0);
  const int32_t filter = (int32_t)blockIdx.y * FILTERS + warp * 16;
  uint32_t *tickets = a.tickets + 2 * blockIdx.y;
  float v[TAPS];
  load_samples(a, (int32_t)blockIdx.x, v); /* the first tile, before the others come */
  held weights;
  UNROLLED_FOR (int i = 0; i < UNITS; i++)
    weights.of[i / 2][i % 2] = __ldg(a.weights + ((blockIdx.y * WARPS + warp) * UNITS + i) * 32 + lane);
  float scale[2], bias[2];
  UNROLLED_FOR (int e = 0; e < 2; e++) {
    const int32_t k = filter + e * 8 + lane / 4;
    scale[e] = __ldg(a.filter_scales + k), bias[e] = k < p.filters ? __ldg(a.biases + k) : 0.0f;
  }
  if (blockIdx.y == 0)
    fetch_part(a, 0);
  float *stage = (float *)(shared + 2 * PATCH_BYTES + warp * STAGE_BYTES);
  uint32_t buffer = 0;
  int64_t part = 1;
  int32_t ticket = 0, next, round = 0;
  for (int32_t tile = (int32_t)blockIdx.x; tile < a.tiles; tile = next, buffer ^= 1, round++) {
    uint8_t *patches = shared + buffer * PATCH_BYTES;
    if (round + 1 >= a.fixed && threadIdx.x == 0)
      given[buffer] = ticket;
    build_tile(v, &h, buffer, patches);
    publish();
    __syncthreads(); /* all warps have multiplied the patches that the next ones overwrite */
    next = round + 1 >= a.fixed ? given[buffer] : tile + (int32_t)gridDim.x;
    float sums[TILE / 2];
    multiply_tile(weights, patches, sums);
    load_samples(a, next, v);
    if (blockIdx.y == 0 && tile >= part * a.part_tiles - a.part_tiles / 2)
      fetch_part(a, part++);
    const place at = place_of(a, tile);
    float scales[WARPS];
    bool not_finite = false;
    UNROLLED_FOR (int i = 0; i < WARPS; i++)
      scales[i] = h.scale[buffer][i], not_finite = not_finite || h.not_finite[buffer][i];
    float *out = a.out + ((int64_t)at.image * p.filters + filter) * ((int64_t)p.out_height * p.out_width) + at.first;
    const float least = fminf(fminf(scales[0], scales[1]), fminf(scales[2], scales[3])) * fminf(scale[0], scale[1]);
    const bool bent = a.slope != 1 || __any_sync(UINT32_MAX, least < FLT_MIN);
    multiply_wait<0>();
    UNROLLED_FOR (int e = 0; e < 2; e++) {
      const half part_of = {stage + e * 8 * (STAGE_PITCH / 4), out + e * 8 * ((int64_t)p.out_height * p.out_width),
                            filter + e * 8, min(max(p.filters - filter - e * 8, 0), 8)};
      bulk_store_read<1>(); /* all copies are read, except those of the other half */
      __syncwarp();
      if (!bent)
        e == 0 ? fill_half<0, false>(a, sums, scales, scale[0], bias[0], part_of.stage)
               : fill_half<1, false>(a, sums, scales, scale[1], bias[1], part_of.stage);
      else
        e == 0 ? fill_half<0, true>(a, sums, scales, scale[0], bias[0], part_of.stage)
               : fill_half<1, true>(a, sums, scales, scale[1], bias[1], part_of.stage);
      if (not_finite || a.curved) {
        __syncwarp();
        mend(&a, at, part_of, not_finite);
      }
      store_half(a, at, part_of);
    }
    if (round + 2 >= a.fixed && threadIdx.x == 0)
      ticket = (int32_t)atomicAdd(&tickets[0], 1) + a.fixed * (int32_t)gridDim.x;
  }
  if (a.fixed < INT32_MAX && threadIdx.x == 0) { /* the last block resets the counters */
    __threadfence();
    if (atomicAdd(&tickets[1], 1) == gridDim.x - 1)
      tickets[0] = 0, tickets[1] = 0;
  }
  bulk_store_done();
#endif
}

/* ---- Host: the same interface as tensor::product ---- */

/* Returns whether the problem is for this kernel. */
inline bool takes(const gconv_layer_problem *p) {
  const int64_t most = INT32_MAX / 4, tiles = ceil_div((int64_t)p->out_height * p->out_width, TILE);
  return p->math == GCONV_MATH_FP32 && p->groups == 1 && p->channels == CHANNELS && p->rows == SIDE && p->columns == SIDE &&
         p->dilation_y == 1 && p->dilation_x == 1 && (int64_t)p->out_height * p->out_width < most &&
         (int64_t)p->images * tiles < most && (int64_t)p->height * p->width < most / CHANNELS &&
         ((int64_t)p->out_height * p->stride_y + p->pad_top) * p->width < most &&
         (int64_t)p->out_height * p->stride_y < most && (int64_t)p->out_width * p->stride_x < most && p->pad_top < most &&
         p->pad_left < most && p->filters <= 65535 * FILTERS;
}

inline int32_t filter_blocks(const gconv_layer_problem *p) {
  return ceil_div(p->filters, FILTERS);
}
inline size_t weight_floats(const gconv_layer_problem *p) {
  return (size_t)filter_blocks(p) * WARPS * UNITS * 32 * 4;
}
/* Behind the weights: 1 / scale of each filter. */
inline size_t prepared_floats(const gconv_layer_problem *p) {
  return weight_floats(p) + (size_t)filter_blocks(p) * FILTERS;
}

inline gconv_status prepare(const gconv_layer_problem *p, const float *weights, float *prepared) {
  uint16_t *to = (uint16_t *)prepared;
  float *scales = prepared + weight_floats(p);
  memset(prepared, 0, weight_floats(p) * sizeof(float));
  for (int32_t k = 0; k < filter_blocks(p) * FILTERS; k++) {
    const int exponent = k < p->filters ? tensor::filter_exponent(p, weights, k) : 0;
    scales[k] = ldexpf(1, -exponent);
    for (int32_t tap = 0; k < p->filters && tap < TAPS; tap++) {
      /* A step has halves of 8 taps. In a half, each lane of a filter has two taps (hopper.cuh). */
      const int32_t step = tap / 16, lane = k % 8 * 4 + tap % 8 / 2, number = (tap / 8 % 2 * 2 + k / 8 % 2) * 2 + tap % 2;
      uint16_t *high = to + ((k / 16 * UNITS + step * 2) * 32 + lane) * 8 + number;
      float w = ldexpf(weights[(int64_t)k * TAPS + tap], exponent);
      high[0] = tensor::fp16::round(w, &w);
      high[32 * 8] = tensor::fp16::round(w, &w);
    }
  }
  return GCONV_OK;
}

/* What a network keeps for a layer. */
struct state {
  int processors; /* number of multiprocessors; asking for it takes as long as a launch */
  uint32_t *tickets;
};

inline gconv_status acquire(const gconv_layer_execution *e, state *s) {
  int device = 0;
  CUDA_TRY(cudaGetDevice(&device));
  CUDA_TRY(cudaDeviceGetAttribute(&s->processors, cudaDevAttrMultiProcessorCount, device));
  CUDA_TRY(cudaFuncSetAttribute(convolve, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
  CUDA_TRY(cudaFuncSetAttribute(convolve, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  const size_t bytes = (size_t)filter_blocks(e->problem) * 2 * sizeof *s->tickets;
  CUDA_TRY(cudaMalloc((void **)&s->tickets, bytes));
  CUDA_TRY(cudaMemsetAsync(s->tickets, 0, bytes, (cudaStream_t)e->stream));
  return GCONV_OK;
}

/* Frees the state, even if acquire() failed. */
inline void dismiss(state *s) {
  cudaFree(s->tickets);
}

inline gconv_status execute(const gconv_layer_execution *e, const state *s) {
  const gconv_layer_problem *p = e->problem;
  const float *prepared = gconv_layer_prepared(p, e->weights);
  const int64_t plane = (int64_t)p->out_height * p->out_width;
  arguments a = {*p};
  a.in = e->in, a.out = e->out;
  a.biases = gconv_layer_biases(p, e->weights), a.plain_weights = e->weights;
  a.weights = (const uint4 *)prepared;
  a.filter_scales = prepared + weight_floats(p);
  a.image_tiles = divisor::of(ceil_div(plane, TILE)), a.out_width = divisor::of(p->out_width);
  a.tiles = (int32_t)(p->images * (int64_t)a.image_tiles.by);
  a.lines = ((int64_t)p->images * CHANNELS * p->height * p->width + LINE - 1) / LINE;
  a.part_tiles = a.lines > PART_LINES ? std::max<int64_t>((int64_t)a.tiles * PART_LINES / a.lines, 2) : INT32_MAX;
  a.bulk = plane % 4 == 0 && (uintptr_t)e->out % 16 == 0;
  a.curved = p->activation == GCONV_ACTIVATION_SIGMOID || p->activation == GCONV_ACTIVATION_TANH;
  a.slope = p->activation == GCONV_ACTIVATION_RELU ? 0 : p->activation == GCONV_ACTIVATION_LEAKY ? p->slope : 1;
  a.lowest = p->activation == GCONV_ACTIVATION_RELU ? -FLT_MAX : -HUGE_VALF;
  const int32_t blocks = std::min(a.tiles, std::max(FIT * s->processors / filter_blocks(p), 1));
  const int32_t rounds = a.tiles / blocks;
  /* Giving out tiles costs time, too. Of 15 rounds, with 3 assigned by number a layer took 58.5 us, with 8 57.0, with 12
   * 56.2, with 14 55.7, with all 57.7. */
  a.tickets = s->tickets, a.fixed = rounds >= 4 ? rounds - std::max(rounds / 8, 1) : INT32_MAX;
  convolve<<<dim3((unsigned)blocks, (unsigned)filter_blocks(p)), THREADS, SHARED_BYTES, (cudaStream_t)e->stream>>>(a);
  CUDA_TRY(cudaPeekAtLastError());
  return GCONV_OK;
}

/* Measured: a round of tiles takes a multiprocessor at least 2.7 us, or 3.8 without bulk copies. The input is read before
 * anything is stored. Storing reaches 0.95 of the bandwidth, or 0.71 where planes are not whole lines. */
inline double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
  const double plane = (double)p->out_height * p->out_width;
  const double tiles = (double)p->images * ceil(plane / (int32_t)TILE) * filter_blocks(p);
  const double rounds = ceil(tiles / ((int32_t)FIT * machine->units)) + 1;
  const double storing = 4 * plane * p->images * p->filters /
                         ((p->out_height * (int64_t)p->out_width % LINE ? 0.71 : 0.95) * machine->bytes_per_ms);
  const double reading = 4.0 * p->images * p->channels * p->height * p->width / machine->bytes_per_ms;
  const double round = p->out_height * (int64_t)p->out_width % 4 ? 0.0038 : 0.0027;
  return machine->launch_ms + std::max(rounds * round, storing + reading);
}

/* Two steps (tensor.cuh). */
inline double error_bound() {
  return 3.1 * 0x1p-22 + (3.0 * (int)(UNITS / 2) + 4) * 0x1p-22;
}

} // namespace few

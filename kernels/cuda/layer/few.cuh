/* SPDX-License-Identifier: MIT */
/*
 * First layers of 3 x 3 taps on three channels, on Hopper's tensor cores, with the digits of gemm-3xfp16 (tensor.cuh). With
 * 64 filters, 27 multiply-adds an output take as long as storing it, and neither hides the other wholly; tensor cores make
 * the three products in a fifth of the time, so that little but storing is left.
 *
 *      a lane, a pixel                 four warps                          a warp
 *      27 samples -> digits,   ->      64 filters, in registers    ->      16 filters of 128 pixels, in shared memory
 *      a row of the patches            x 128 pixels x 32 taps              -> 16 copies of 512 bytes to as many planes
 *
 * Patches are laid whole, 64 bytes a pixel and digit, as there are few taps. Pixels are numbered through an image, rows one
 * after the other, so that no width leaves lanes idle and what a tile stores is in one piece. 32 pixels, those of a warp,
 * have a scale of their own. What storing depends on:
 *   - The copies (cp.async.bulk) are of the longest pieces that registers allow, and a warp never waits for its stores but
 *     where it fills the same half of its stage again.
 *   - Reading from memory between stores costs much more than its bytes. So the input comes to L2 before the first tile is
 *     stored, by parts where it is large, and stays there against the stores (evict_last): 0.057 ms instead of 0.066 (a
 * harness of a prototype).
 */
#ifndef GCONV_CUDA_LAYER_FEW_CUH
#define GCONV_CUDA_LAYER_FEW_CUH

#include "tensor.cuh"

#include <float.h>

namespace few {

using tensor::ceil_div;
using tensor::divisor;

enum : int32_t {
  CHANNELS = 3,
  SIDE = 3, /* taps across and down */
  TAPS = CHANNELS * SIDE * SIDE,
  UNITS = 4, /* of 8 taps, the last filled up with zeros: two steps of 16 */
  WARPS = 4,
  THREADS = WARPS * 32,
  FIT = 3,      /* blocks on a multiprocessor */
  TILE = 128,   /* pixels */
  FILTERS = 64, /* of a block */
  PLANE_BYTES = UNITS * TILE * 16,
  PATCH_BYTES = 2 * PLANE_BYTES, /* both digits */
  STAGE_PITCH = TILE * 4 + 64,   /* of a filter: rows of 16 bytes by 4 lanes of 2 filters are not of the same banks */
  STAGE_BYTES = 16 * STAGE_PITCH,
  SHARED_BYTES = 2 * PATCH_BYTES + WARPS * STAGE_BYTES,
  LINE = 32,                    /* floats of a line of memory */
  PART_LINES = (12 << 20) / 128 /* of the input, that come to L2 at a time */
};

/* By value to the kernel. */
struct arguments {
  gconv_layer_problem problem;
  const float *in, *biases, *plain_weights;
  float *out;
  const uint4 *weights;       /* as prepare() laid them out */
  const float *filter_scales; /* of what comes out, filled up to whole blocks of filters */
  divisor image_tiles, out_width;
  int32_t tiles;
  int32_t fixed;     /* rounds of tiles that blocks have by their numbers; what is left goes to whoever is ready */
  uint32_t *tickets; /* of each block of filters: how many of those are given away, and how many blocks are through */
  int64_t lines, part_tiles; /* of the input; tiles that a part of it serves */
  bool bulk;                 /* pieces of planes are multiples of 16 bytes, and aligned */
  bool curved;               /* the activation is not of two straight parts */
  float slope, lowest;       /* what is below 0 becomes at least `lowest`, then times `slope` */
};

#ifdef HOPPER
using namespace hopper;

/* Where a tile is: `first` is the number of its first pixel, `count` how many there are. */
struct place {
  int32_t image, first, count;
};
__device__ __forceinline__ place place_of(const arguments &a, int32_t tile) {
  const uint32_t image = a.image_tiles.divide((uint32_t)tile);
  const int32_t first = (tile - (int32_t)(image * a.image_tiles.by)) * TILE;
  return {(int32_t)image, first, min((int32_t)TILE, a.problem.out_height * a.problem.out_width - first)};
}

/* The pixel of a tile that a thread lays. wgmma leaves a lane two neighbouring columns of every eight; so laid, those of
 * two eights are four neighbouring pixels. */
__device__ __forceinline__ int32_t own_pixel() {
  const int32_t i = (int32_t)threadIdx.x;
  return (i & ~15) | (i >> 1 & 3) << 2 | (i >> 3 & 1) << 1 | (i & 1);
}

/* ---- Laying patches ---- */

/* The samples that the thread's pixel meets, in the order of taps; 0 outside the image, and behind the last tile. */
__device__ __forceinline__ void load_samples(const arguments &a, int32_t tile, float (&v)[TAPS]) {
  const gconv_layer_problem &p = a.problem;
  const place at = place_of(a, min(tile, a.tiles - 1));
  const int32_t pixel = at.first + own_pixel(), row = (int32_t)a.out_width.divide((uint32_t)pixel);
  const int32_t y = row * p.stride_y - p.pad_top, x = (pixel - row * p.out_width) * p.stride_x - p.pad_left;
  const float *image = a.in + (int64_t)at.image * CHANNELS * p.height * p.width;
  const int32_t corner = y * p.width + x, plane = p.height * p.width;
  bool down[SIDE], across[SIDE];
#pragma unroll
  for (int i = 0; i < SIDE; i++) {
    down[i] = tile < a.tiles && (uint32_t)(y + i) < (uint32_t)p.height;
    across[i] = (uint32_t)(x + i) < (uint32_t)p.width;
  }
#pragma unroll
  for (int c = 0; c < CHANNELS; c++)
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
      const float *from = image + (corner + c * plane + r * p.width);
#pragma unroll
      for (int s = 0; s < SIDE; s++)
        v[(c * SIDE + r) * SIDE + s] = down[r] && across[s] ? __ldg(from + s) : 0.0f;
    }
}

/* The largest magnitude that any lane has, as bits: of the finite ones, if there are others, of which it tells. */
__device__ __forceinline__ uint32_t find_largest(const float (&v)[TAPS], bool *strange) {
  float most = 0;
#pragma unroll
  for (int i = 0; i < TAPS; i++)
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(v[i])));
  uint32_t bits = __reduce_max_sync(UINT32_MAX, __float_as_uint(most));
  *strange = bits >= tensor::NOT_FINITE;
  if (*strange) {
    most = 0;
#pragma unroll
    for (int i = 0; i < TAPS; i++)
      most = tensor::is_finite(v[i]) ? fmaxf(most, fabsf(v[i])) : most;
    bits = __reduce_max_sync(UINT32_MAX, __float_as_uint(most));
  }
  return bits;
}

/* The thread's row of the patches, of both digits, unit after unit. */
__device__ __forceinline__ void lay_patch(const float (&v)[TAPS], float scale, uint8_t *patches) {
#pragma unroll
  for (int u = 0; u < UNITS; u++) {
    float eight[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
      eight[i] = u * 8 + i < TAPS ? v[u * 8 + i < TAPS ? u * 8 + i : 0] * scale : 0.0f;
    uint32_t high[4], low[4];
    tensor::fp16::pack<true>(eight, high, low);
    uint8_t *to = patches + (u * TILE + threadIdx.x) * 16;
    *(uint4 *)to = make_uint4(high[0], high[1], high[2], high[3]);
    *(uint4 *)(to + PLANE_BYTES) = make_uint4(low[0], low[1], low[2], low[3]);
  }
}

/* Asks for a part of the input, a share of each block. */
__device__ __forceinline__ void fetch_part(const arguments &a, int64_t part) {
  const int64_t end = min(a.lines, (part + 1) * PART_LINES);
  for (int64_t i = part * PART_LINES + blockIdx.x * THREADS + threadIdx.x; i < end; i += (int64_t)gridDim.x * THREADS)
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(a.in + i * LINE));
}

/* ---- Multiplying ---- */

/* The warp's weights: of a step, high digits, then low ones. */
struct held {
  uint4 of[UNITS / 2][2];
};

__device__ __forceinline__ void multiply_tile(const held &weights, const uint8_t *patches, float (&sums)[TILE / 2]) {
  constexpr uint32_t UNIT = TILE, STEP = 2 * UNIT, LOW = UNITS * UNIT; /* in 16 bytes */
  const uint64_t at = (uint64_t)(shared_address(patches) >> 4 | UNIT << 16) | (uint64_t)8 << 32;
  multiply_begin();
#pragma unroll
  for (int s = 0; s < UNITS / 2; s++) {
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
  int32_t filter, filters; /* the first one, and how many of the 8 there are */
};

/* What is rare, in the stage: sums that are not finite where samples were not (tensor_mend.cuh), and activations that are
 * not of two straight parts. */
static __device__ __noinline__ void mend(const arguments *a, place at, half h, bool strange) {
  const gconv_layer_problem &p = a->problem;
  for (int32_t i = threadIdx.x % 32; i < h.filters * at.count; i += 32) {
    const int32_t k = i / at.count, pixel = i - k * at.count, row = (at.first + pixel) / p.out_width;
    float *v = h.stage + k * (STAGE_PITCH / 4) + pixel;
    if (strange && !tensor::is_finite(*v))
      *v = gconv_activate(&p, tensor::plain_sum(p, a->in, a->plain_weights, at.image, h.filter + k, row,
                                                at.first + pixel - row * p.out_width) +
                                  a->biases[h.filter + k]);
    else if (a->curved)
      *v = gconv_activate(&p, *v);
  }
  __syncwarp();
}

/* From the stage, which all lanes have filled, to memory. */
__device__ __forceinline__ void store_half(const arguments &a, const place &at, const half &h) {
  const int64_t plane = (int64_t)a.problem.out_height * a.problem.out_width;
  const int32_t lane = threadIdx.x % 32;
  if (a.bulk) {
    publish();
    __syncwarp();
    /* By one lane, from addresses that are the warp's: with a lane a copy, each address would go to all first, in turn. */
    if (lane == 0)
#pragma unroll
      for (int32_t k = 0; k < 8; k++)
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

/* Half of the sums, of filters `lane / 4` and on (EIGHT: 8 further on), to the stage; `scales` of each 32 pixels.
 * BENT: by a.slope and a.lowest, and scales may be small; asked once, as eight branches between the stores to the stage cost
 * 0.002 ms of 0.058. */
template <int EIGHT, bool BENT>
__device__ __forceinline__ void fill_half(const arguments &a, const float (&sums)[TILE / 2], const float (&scales)[WARPS],
                                          float scale, float bias, float *stage) {
  const int32_t lane = threadIdx.x % 32;
  float *to = stage + lane / 4 * (STAGE_PITCH / 4) + lane % 4 * 4;
#pragma unroll
  for (int i = 0; i < TILE / 16; i++) {
    /* Both scales together may be too small for a float32, though the output is not: then the sum bears a part first. */
    const float image = scales[i / 2], first = BENT ? fminf(image, 0x1p60f) : 1;
    const float factor = fminf(scale * (BENT ? fmaxf(image * 0x1p-60f, 1) : image), 0x1p127f);
    float y[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
      y[e] = fmaf(sums[8 * i + e / 2 * 4 + EIGHT * 2 + e % 2] * first, factor, bias);
    if constexpr (BENT)
#pragma unroll
      for (int e = 0; e < 4; e++)
        y[e] = y[e] < 0 ? fmaxf(y[e], a.lowest) * a.slope : y[e];
    *(float4 *)(to + i * 16) = make_float4(y[0], y[1], y[2], y[3]);
  }
}

/* ---- The kernel ---- */

/* What a warp finds of the tile that was laid: of each of the four that laid it. */
struct head {
  float scale[2][WARPS];
  uint32_t strange[2][WARPS];
};

__device__ __forceinline__ void lay_tile(const float (&v)[TAPS], head *h, uint32_t buffer, uint8_t *patches) {
  const int32_t warp = threadIdx.x / 32;
  bool strange;
  const int exponent = tensor::scale_exponent(find_largest(v, &strange));
  if (threadIdx.x % 32 == 0) {
    h->scale[buffer][warp] = tensor::power_of_two(-exponent);
    h->strange[buffer][warp] = strange;
  }
  lay_patch(v, tensor::power_of_two(exponent), patches);
}
#endif

/* Grid: blocks that share the tiles, blocks of filters. Neighbouring tiles are done at the same time, by neighbouring
 * blocks. Multiprocessors are not equally near to memory: with equal shares, the first was through after 46 us and the last
 * after 55, so that the last rounds' tiles are given to who asks. The answer takes longer than a barrier: it is asked for a
 * tile ahead. */
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
  load_samples(a, (int32_t)blockIdx.x, v); /* the first, before the others come */
  held weights;
#pragma unroll
  for (int i = 0; i < UNITS; i++)
    weights.of[i / 2][i % 2] = __ldg(a.weights + ((blockIdx.y * WARPS + warp) * UNITS + i) * 32 + lane);
  float scale[2], bias[2];
#pragma unroll
  for (int e = 0; e < 2; e++) {
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
    lay_tile(v, &h, buffer, patches);
    publish();
    __syncthreads(); /* so that nobody still multiplies the patches before, where the next ones are laid */
    next = round + 1 >= a.fixed ? given[buffer] : tile + (int32_t)gridDim.x;
    float sums[TILE / 2];
    multiply_tile(weights, patches, sums);
    load_samples(a, next, v);
    if (blockIdx.y == 0 && tile >= part * a.part_tiles - a.part_tiles / 2)
      fetch_part(a, part++);
    const place at = place_of(a, tile);
    float scales[WARPS];
    bool strange = false;
#pragma unroll
    for (int i = 0; i < WARPS; i++)
      scales[i] = h.scale[buffer][i], strange = strange || h.strange[buffer][i];
    float *out = a.out + ((int64_t)at.image * p.filters + filter) * ((int64_t)p.out_height * p.out_width) + at.first;
    const float least = fminf(fminf(scales[0], scales[1]), fminf(scales[2], scales[3])) * fminf(scale[0], scale[1]);
    const bool bent = a.slope != 1 || __any_sync(UINT32_MAX, least < FLT_MIN);
    multiply_wait<0>();
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const half part_of = {stage + e * 8 * (STAGE_PITCH / 4), out + e * 8 * ((int64_t)p.out_height * p.out_width),
                            filter + e * 8, min(max(p.filters - filter - e * 8, 0), 8)};
      bulk_store_read<1>(); /* but for the other half, all is read */
      __syncwarp();
      if (!bent)
        e == 0 ? fill_half<0, false>(a, sums, scales, scale[0], bias[0], part_of.stage)
               : fill_half<1, false>(a, sums, scales, scale[1], bias[1], part_of.stage);
      else
        e == 0 ? fill_half<0, true>(a, sums, scales, scale[0], bias[0], part_of.stage)
               : fill_half<1, true>(a, sums, scales, scale[1], bias[1], part_of.stage);
      if (strange || a.curved) {
        __syncwarp();
        mend(&a, at, part_of, strange);
      }
      store_half(a, at, part_of);
    }
    if (round + 2 >= a.fixed && threadIdx.x == 0)
      ticket = (int32_t)atomicAdd(&tickets[0], 1) + a.fixed * (int32_t)gridDim.x;
  }
  if (a.fixed < INT32_MAX && threadIdx.x == 0) { /* the last one leaves them as they were */
    __threadfence();
    if (atomicAdd(&tickets[1], 1) == gridDim.x - 1)
      tickets[0] = 0, tickets[1] = 0;
  }
  bulk_store_done();
#endif
}

/* ---- Host: what tensor::product has ---- */

/* Whether the problem is one for this. */
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
      /* Of a step, halves of 8 taps; in a half, lanes of a filter have two each (hopper.cuh). */
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
  int processors; /* as asking each time takes as long as a launch */
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

/* Whatever acquire() came to. */
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
  /* Tickets cost time, too: with 3 rounds of 15 fixed a layer took 58.5 us, with 8 57.0, 12 56.2, 14 55.7, all 57.7. */
  a.tickets = s->tickets, a.fixed = rounds >= 4 ? rounds - std::max(rounds / 8, 1) : INT32_MAX;
  convolve<<<dim3((unsigned)blocks, (unsigned)filter_blocks(p)), THREADS, SHARED_BYTES, (cudaStream_t)e->stream>>>(a);
  CUDA_TRY(cudaPeekAtLastError());
  return GCONV_OK;
}

/* As measured: a round of tiles takes a multiprocessor at least 2.7 us, or 3.8 without bulk copies; the input is read before
 * anything is stored; and that takes 0.95 of the bandwidth, or, where planes are not of whole lines, 0.71. */
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

#endif

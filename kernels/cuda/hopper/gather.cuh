/* SPDX-License-Identifier: MIT */
/*
 * First layers on Hopper's tensor cores, with the digits of gemm-3xfp16 (tensor.cuh): images of few channels, and filters
 * that stay in shared memory. No planes are written to memory. Tiles of the input become pairs of digits in shared memory.
 * Threads gather patches from this memory into the registers of an operand; one load brings one digit of two samples.
 *
 *     global memory --cp.async--> raw tile --largest sample, digits--> packed tile --gathered--> registers
 *                                                                                                  |
 *                                                          filters, in shared memory ----------> wgmma --> stored
 *
 * A block has two couples, each with its own tiles. A couple is one warpgroup that multiplies, and one that packs the next
 * tile meanwhile. Each tile has its own scale, so no separate pass over the input is needed.
 */
#pragma once

#include "gather_work.cuh"

namespace tensor::gather {

/* ---- Packing a tile ---- */

/* Starts to copy the input of a tile, with zeros outside the image, FLOATS floats at a time. */
template <int FLOATS> DEVICE void fetch(const arguments &a, const tile &at, int32_t lead, uint32_t raw) {
  const gconv_layer_problem &p = a.problem;
  const int32_t top = at.row * p.stride_y - p.pad_top, left = at.column * p.stride_x - p.pad_left - lead;
  const float *image = a.in + (int64_t)at.image * p.channels * p.height * p.width;
  const int32_t count = p.channels * a.c.in_rows * (a.c.raw_pitch / 4);
  UNROLLED_4_FOR (int32_t i = (int32_t)threadIdx.x % GROUP; i < count; i += GROUP) {
    const int32_t row = (int32_t)a.raw_fours.divide((uint32_t)i), channel = (int32_t)a.in_rows.divide((uint32_t)row);
    const int32_t y = top + row - channel * a.c.in_rows, x = left + 4 * (i - row * (int32_t)a.raw_fours.by);
    const float *from = image + ((int64_t)channel * p.height + y) * p.width + x;
    UNROLLED_FOR (int e = 0; e < 4; e += FLOATS) {
      const bool there = (uint32_t)y < (uint32_t)p.height && (uint32_t)(x + e) < (uint32_t)p.width;
      copy_async_or_zero<FLOATS * 4>(raw + 16 * i + 4 * e, there ? from + e : image, there);
    }
  }
}

/* Finds the largest finite magnitude of the samples that this thread has copied, and whether some samples are not finite. */
DEVICE void see(const arguments &a, const uint8_t *raw, uint32_t *most, uint32_t *not_finite) {
  const int32_t count = a.problem.channels * a.c.in_rows * (a.c.raw_pitch / 4);
  uint32_t largest = 0;
  UNROLLED_4_FOR (int32_t i = (int32_t)threadIdx.x % GROUP; i < count; i += GROUP) {
    const uint4 v = ((const uint4 *)raw)[i];
    largest = max(max(max(largest, v.x & 0x7fffffff), v.y & 0x7fffffff), max(v.z & 0x7fffffff, v.w & 0x7fffffff));
  }
  if (largest >= NOT_FINITE) {
    *not_finite = 1;
    largest = 0;
    for (int32_t i = (int32_t)threadIdx.x % GROUP * 4; i < 4 * count; i += i % 4 == 3 ? 4 * GROUP - 3 : 1) {
      const uint32_t bits = ((const uint32_t *)raw)[i] & 0x7fffffff;
      largest = max(largest, bits < NOT_FINITE ? bits : 0);
    }
  }
  largest = largest_of_warp(largest);
  if (threadIdx.x % 32 == 0)
    atomicMax(most, largest);
}

/* Converts floats to pairs of digits. EVERY: 2 if pairs are two samples apart and aligned to 8 bytes. */
template <int EVERY> DEVICE void pack(const arguments &a, const uint8_t *raw, int32_t lead, float scale, uint8_t *packed) {
  const int32_t count = a.problem.channels * a.c.in_rows * a.c.pairs;
  UNROLLED_4_FOR (int32_t i = (int32_t)threadIdx.x % GROUP; i < count; i += GROUP) {
    const int32_t row = (int32_t)a.pairs.divide((uint32_t)i), pair = i - row * a.c.pairs;
    const float *from = (const float *)raw + row * a.c.raw_pitch + lead + pair * EVERY;
    float2 v;
    if (EVERY == 2)
      v = *(const float2 *)from;
    else
      v = make_float2(from[0], from[1]);
    const float x = v.x * scale, y = v.y * scale;
    __half2 high, low;
    const float2 back = round_pair(x, y, &high);
    round_pair(x - back.x, y - back.y, &low);
    __half2 *to = (__half2 *)packed + row * a.c.pitch + pair;
    to[0] = high;
    *(__half2 *)((uint8_t *)to + a.c.laid_bytes) = low;
  }
}

/* Does the work of the warpgroup that packs the tiles of a couple. */
DEVICE void pack_tiles(const arguments &a, const memory &m, int32_t couple) {
  const cut &c = a.c;
  uint8_t *raw = tiles_of(c, m, couple);
  auto &slots = m.h->tiles[couple];
  ring buffer;
  uint32_t odd = 0;
  for (uint32_t number = blockIdx.x * COUPLES + couple; number < c.tiles; number += gridDim.x * COUPLES, odd ^= 1) {
    const tile at = tile_of(a, number);
    const int32_t lead = a.by_fours ? (at.column * a.problem.stride_x - a.problem.pad_left) & 3 : 0;
    if (a.by_fours)
      fetch<4>(a, at, lead, shared_address(raw));
    else
      fetch<1>(a, at, lead, shared_address(raw));
    await_all_copies();
    see(a, raw, &m.h->most[couple][odd], &m.h->not_finite[couple][odd]);
    barrier_of(1 + couple, GROUP); /* all samples are fetched, and their largest is known */
    const int exponent = gconv_scale_exponent(m.h->most[couple][odd]);
    const uint32_t not_finite = m.h->not_finite[couple][odd];
    slots.wait_empty(buffer);
    uint8_t *packed = raw + c.raw_bytes + buffer.place * 2 * c.laid_bytes;
    if (c.every == 2)
      pack<2>(a, raw, lead, power_of_two(exponent), packed);
    else
      pack<1>(a, raw, lead, power_of_two(exponent), packed);
    if (threadIdx.x % GROUP == 0) {
      m.h->scale[couple][buffer.place] = power_of_two(-exponent);
      m.h->mending[couple][buffer.place] = not_finite;
      m.h->most[couple][odd ^ 1] = m.h->not_finite[couple][odd ^ 1] = 0;
    }
    barrier_arrive(&slots.full[buffer.place]);
    buffer.advance((uint32_t)c.buffers);
    barrier_of(1 + couple, GROUP); /* the raw tile may be overwritten */
  }
}

/* ---- Multiplying ---- */

/* The operands of DEPTH steps: high and low digits, for each of the tiles of 64 outputs. */
template <int HEIGHTS, int DEPTH> struct patch { uint32_t high[DEPTH][HEIGHTS][4], low[DEPTH][HEIGHTS][4]; };

/* The offsets of a thread's two pairs of taps, for each step. */
template <int DEPTH> struct reach { uint32_t of[DEPTH][2]; };
template <int DEPTH> DEVICE reach<DEPTH> load_reach(uint32_t offsets, int32_t step) {
  reach<DEPTH> r;
  UNROLLED_FOR (int d = 0; d < DEPTH; d++)
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(r.of[d][0]), "=r"(r.of[d][1]) : "r"(offsets + (step + d) * 32));
  return r;
}

/* Loads a patch. `first` has the addresses of the samples under the first pair, for high digits; low digits are `low` bytes
 * further on. The loads keep their places in the program, so that they are under way while tensor cores work. */
template <int HEIGHTS, int DEPTH>
DEVICE void gather_patch(const uint32_t (&first)[HEIGHTS][2], uint32_t low, const reach<DEPTH> &r,
                         patch<HEIGHTS, DEPTH> &to) {
  UNROLLED_FOR (int d = 0; d < DEPTH; d++)
    UNROLLED_FOR (int h = 0; h < HEIGHTS; h++)
      UNROLLED_FOR (int i = 0; i < 4; i++) {
        const uint32_t at = first[h][i % 2] + r.of[d][i / 2];
        to.high[d][h][i] = load_word(at), to.low[d][h][i] = load_word(at + low);
      }
}

/* JOINED: one instruction multiplies both digits of the filters. SUMS: a thread's sums of a tile of 64 outputs. If JOINED,
 * the second half has the sums of the filters' low digits. */
template <int N> constexpr bool JOINED = N <= MOST_JOINED;
template <int N> constexpr int SUMS = JOINED<N> ? N : N / 2;

/* Multiplies a patch and gathers the next one. Gathering begins after the first instruction, because the warp waits there
 * until the tensor cores have begun. */
template <int N, int HEIGHTS, int DEPTH>
DEVICE void multiply_patch(const patch<HEIGHTS, DEPTH> &p, uint64_t weights, uint32_t add, float (&sums)[HEIGHTS][SUMS<N>],
                           const uint32_t (&first)[HEIGHTS][2], uint32_t low, const reach<DEPTH> &r,
                           patch<HEIGHTS, DEPTH> &next) {
  multiply_begin();
  UNROLLED_FOR (int d = 0; d < DEPTH; d++, weights += 4 * N, add = 1) {
    UNROLLED_FOR (int h = 0; h < HEIGHTS; h++) {
      multiply_fp16(sums[h], p.high[d][h], weights, add);
      if (d == 0 && h == 0) {
        multiply_commit();
        multiply_wait<1>(); /* `next` may be overwritten */
        gather_patch(first, low, r, next);
        multiply_begin();
      }
    }
    UNROLLED_FOR (int h = 0; h < HEIGHTS; h++)
      multiply_fp16(*(float(*)[N / 2]) sums[h], p.low[d][h], weights, 1);
    if constexpr (!JOINED<N>)
      UNROLLED_FOR (int h = 0; h < HEIGHTS; h++)
        multiply_fp16(sums[h], p.high[d][h], weights + N, 1);
  }
  multiply_commit();
}

/* Computes the sums of a tile. The last instructions are still under way when it returns. `weights` is a descriptor, in
 * units of 16 bytes: the low digits are N units further on, the next step 4 N units. */
template <int N, int HEIGHTS, int DEPTH>
DEVICE void multiply_tile(int32_t steps, const uint32_t (&first)[HEIGHTS][2], uint32_t low, uint32_t offsets,
                          uint64_t weights, float (&sums)[HEIGHTS][SUMS<N>]) {
  constexpr uint32_t STEP = DEPTH * 4 * N;
  patch<HEIGHTS, DEPTH> even, odd;
  const int32_t last = steps - DEPTH;
  gather_patch(first, low, load_reach<DEPTH>(offsets, 0), even);
  reach<DEPTH> next = load_reach<DEPTH>(offsets, min(DEPTH, last));
  int32_t step = 0;
  for (; step < last; step += 2 * DEPTH, weights += 2 * STEP) {
    multiply_patch<N>(even, weights, step != 0, sums, first, low, next, odd);
    next = load_reach<DEPTH>(offsets, min(step + 2 * DEPTH, last));
    multiply_patch<N>(odd, weights + STEP, 1, sums, first, low, next, even);
    next = load_reach<DEPTH>(offsets, min(step + 3 * DEPTH, last));
  }
  if (step == last)
    multiply_patch<N>(even, weights, step != 0, sums, first, low, next, odd);
}

/* ---- Storing ---- */

/* Returns an output after the slope of its filter, if filters have their own. */
DEVICE float bend(const arguments &a, int32_t filter, float y) {
  return a.slopes && y < 0 && filter < a.problem.filters ? y * __ldg(a.slopes + filter) : y;
}

/* Stores a warp's part of 64 outputs, 16 rows of sums, through shared memory: up to 16 filters of 16 outputs at a time. 16
 * lanes store a filter. With FOURS, four lanes store a filter. `there`: this lane's output (or its four outputs) exists. */
template <int N, bool FOURS>
DEVICE void store_rows(const arguments &a, const memory &m, float *out, int64_t plane, int32_t filters, bool there,
                       float scale, float *exchange, const float (&sums)[SUMS<N>]) {
  constexpr int EIGHTS = N < 16 ? 1 : 2;
  const int32_t lane = threadIdx.x % 32, skipped = FOURS ? lane / 4 : lane / 16 * 4;
  float *to = exchange + lane % 4 * 40 + lane / 4;
  const float *from = exchange + skipped * 20 + (FOURS ? lane % 4 * 4 : lane % 16);
  out += skipped * plane;
  filters = there ? filters - skipped : 0;
  /* The product of the image's scale and the filter's scale may be too small for a float32, even if the output is not. So
   * the image's scale has two factors: `first` for the sum, which it cannot make overflow, and `rest` for the filter's. */
  const float first = fminf(scale, 0x1p60f), rest = fmaxf(scale * 0x1p-60f, 1);
  UNROLLED_FOR (int j = 0; j < N / 8; j += EIGHTS, out += EIGHTS * 8 * plane, filters -= EIGHTS * 8) {
    float y[EIGHTS * 4];
    UNROLLED_FOR (int i = 0; i < EIGHTS * 4; i++) {
      const float2 f = m.finish[(j + i / 4) * 8 + lane % 4 * 2 + i % 2];
      const float sum = JOINED<N> ? sums[j * 4 + i] + sums[(N / 2 + j * 4 + i) % SUMS<N>] : sums[j * 4 + i];
      y[i] = fmaf(sum * first, fminf(f.x * rest, 0x1p127f), f.y);
    }
    if (a.straight.slope != 1)
      UNROLLED_FOR (int i = 0; i < EIGHTS * 4; i++)
        y[i] = a.straight(y[i]);
    if (a.curved)
      UNROLLED_FOR (int i = 0; i < EIGHTS * 4; i++)
        y[i] = gconv_activate(&a.problem, y[i]);
    if (a.slopes)
      UNROLLED_FOR (int i = 0; i < EIGHTS * 4; i++)
        y[i] = bend(a, (int32_t)blockIdx.y * N + (j + i / 4) * 8 + lane % 4 * 2 + i % 2, y[i]);
    UNROLLED_FOR (int i = 0; i < EIGHTS * 4; i++)
      to[i / 4 * 160 + i % 2 * 20 + i / 2 % 2 * 8] = y[i];
    __syncwarp();
    if constexpr (FOURS) {
      UNROLLED_FOR (int i = 0; i < EIGHTS; i++) {
        const float4 four = *(const float4 *)(from + i * 160);
        y[4 * i] = four.x, y[4 * i + 1] = four.y, y[4 * i + 2] = four.z, y[4 * i + 3] = four.w;
      }
    } else {
      UNROLLED_FOR (int i = 0; i < EIGHTS * 4; i++)
        y[i] = from[i / 4 * 160 + i % 4 * 20];
    }
    __syncwarp();
    if constexpr (FOURS) {
      UNROLLED_FOR (int i = 0; i < EIGHTS; i++)
        if (i * 8 < filters)
          __stcs((float4 *)(out + i * 8 * plane), make_float4(y[4 * i], y[4 * i + 1], y[4 * i + 2], y[4 * i + 3]));
    } else {
      UNROLLED_FOR (int i = 0; i < EIGHTS * 4; i++)
        if (i / 4 * 8 + i % 4 < filters)
          __stcs(out + (i / 4 * 8 + i % 4) * plane, y[i]);
    }
  }
}

/* Checks the outputs that a warp has stored. Replaces sums that are not finite where samples were not (tensor_store.cuh). */
static __device__ __noinline__ void mend(const arguments *a, tile at, int32_t first_filter, int32_t first, int32_t count) {
  const gconv_layer_problem &p = a->problem;
  __syncwarp();
  for (int32_t i = threadIdx.x % 32; i < count * a->c.of.filters; i += 32) {
    const int32_t k = first_filter + i / count;
    const out_place s = out_place_of(a->c, first + i % count);
    if (k >= p.filters || !is_output(p, at, s))
      continue;
    const int32_t row = at.row + s.row, column = at.column + s.column;
    float *out = a->out + (((int64_t)at.image * p.filters + k) * p.out_height + row) * p.out_width + column;
    if (!is_finite(*out))
      *out = bend(*a, k, gconv_activate(&p, plain_sum(p, a->in, a->plain_weights, at.image, k, row, column) + a->biases[k]));
  }
}

/* Does the work of the warpgroup that multiplies the tiles of a couple. */
template <int N, int HEIGHTS, int DEPTH> DEVICE void multiply_tiles(const arguments &a, const memory &m, int32_t couple) {
  const cut &c = a.c;
  const gconv_layer_problem &p = a.problem;
  const int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, first_filter = (int32_t)blockIdx.y * N;
  const int32_t own = warp * 16 * HEIGHTS; /* outputs: HEIGHTS times 16, side by side */
  uint32_t first[HEIGHTS][2];
  out_place out_places[HEIGHTS];
  UNROLLED_FOR (int h = 0; h < HEIGHTS; h++) {
    out_places[h] = out_place_of(c, own + h * 16 + (a.whole ? lane % 4 * 4 : lane % 16));
    UNROLLED_FOR (int i = 0; i < 2; i++) {
      const out_place s = out_place_of(c, own + h * 16 + i * 8 + lane / 4);
      first[h][i] = s.there ? 4u * (uint32_t)(s.row * p.stride_y * c.pitch + s.column * (p.stride_x / c.every)) : 0;
    }
  }
  const uint64_t weights = (uint64_t)(shared_address(m.weights) >> 4 | (uint32_t)(2 * N) << 16) | (uint64_t)8 << 32;
  const uint32_t offsets = shared_address(m.offsets) + lane % 4 * 8;
  float *exchange = m.exchange + (couple * 4 + warp) * EXCHANGE_FLOATS;
  const uint32_t tiles = shared_address(tiles_of(c, m, couple) + c.raw_bytes);
  const int64_t plane = (int64_t)p.out_height * p.out_width;
  auto &slots = m.h->tiles[couple];
  ring buffer;
  barrier_wait(&m.h->filters, 0);
  for (uint32_t number = blockIdx.x * COUPLES + couple; number < c.tiles; number += gridDim.x * COUPLES) {
    const tile at = tile_of(a, number);
    uint32_t here[HEIGHTS][2];
    UNROLLED_FOR (int h = 0; h < HEIGHTS; h++)
      here[h][0] = first[h][0] + tiles + buffer.place * 2 * c.laid_bytes,
      here[h][1] = first[h][1] + tiles + buffer.place * 2 * c.laid_bytes;
    float sums[HEIGHTS][SUMS<N>];
    slots.wait_full(buffer);
    multiply_tile<N, HEIGHTS, DEPTH>(c.steps, here, c.laid_bytes, offsets, weights, sums);
    const float scale = m.h->scale[couple][buffer.place];
    const bool not_finite = m.h->mending[couple][buffer.place];
    multiply_wait<0>();
    barrier_arrive(&slots.empty[buffer.place]);
    buffer.advance((uint32_t)c.buffers);
    float *out = a.out + ((int64_t)at.image * p.filters + first_filter) * plane + (int64_t)at.row * p.out_width + at.column;
    const auto store = [&]<bool FOURS>() {
      UNROLLED_FOR (int h = 0; h < HEIGHTS; h++)
        store_rows<N, FOURS>(a, m, out + (int64_t)out_places[h].row * p.out_width + out_places[h].column, plane,
                             p.filters - first_filter, is_output(p, at, out_places[h]), scale, exchange, sums[h]);
    };
    if (a.whole)
      store.template operator()<true>();
    else
      store.template operator()<false>();
    if (not_finite)
      mend(&a, at, first_filter, own, 16 * HEIGHTS);
  }
}

/* The warpgroups that multiply load the filters once for all tiles. */
DEVICE void load_filters(const arguments &a, const memory &m, int32_t thread, int32_t threads) {
  const cut &c = a.c;
  const int32_t first = (int32_t)blockIdx.y * c.of.filters, bytes = weight_bytes(c);
  if (thread == 0) {
    barrier_expect(&m.h->filters, (uint32_t)bytes);
    bulk_copy(m.weights, a.weights + (int64_t)blockIdx.y * bytes, (uint32_t)bytes, &m.h->filters);
  }
  for (int32_t i = thread; i < c.of.filters; i += threads)
    m.finish[i] = make_float2(a.filter_scales[first + i], first + i < a.problem.filters ? a.biases[first + i] : 0.0f);
  for (int32_t i = thread; i < c.steps * STEP_PAIRS; i += threads) /* in a step, pairs t and t + 4 are neighbours */
    m.offsets[i] = (uint32_t)pair_offset(c, &a.problem, i / STEP_PAIRS * STEP_PAIRS + i % 2 * 4 + i % STEP_PAIRS / 2);
}

/* Grid: x counts blocks that share the tiles, y tiles of filters. */
template <int N, int HEIGHTS, int DEPTH>
__global__ void __launch_bounds__(THREADS, 1) convolve(const __grid_constant__ arguments a) {
#ifdef HOPPER
  extern __shared__ __align__(128) uint8_t shared[];
  const memory m = memory_of(a.c, shared);
  if (threadIdx.x == 0) {
    for (int i = 0; i < COUPLES; i++) {
      m.h->tiles[i].begin(MOST_BUFFERS, GROUP, GROUP);
      m.h->most[i][0] = m.h->most[i][1] = m.h->not_finite[i][0] = m.h->not_finite[i][1] = 0;
    }
    barrier_init(&m.h->filters, 1);
    barrier_init_done();
  }
  __syncthreads();
  const int32_t group = threadIdx.x / GROUP;
  if (group >= COUPLES) {
    pack_tiles(a, m, group - COUPLES);
  } else {
    load_filters(a, m, threadIdx.x, COUPLES * GROUP);
    barrier_of(1 + COUPLES, COUPLES * GROUP);
    multiply_tiles<N, HEIGHTS, DEPTH>(a, m, group);
  }
#endif
}

/* ---- Host: the members of an algorithm ---- */

struct layer {
  static const char *supports(const gconv_layer_problem *p) {
    return p->math != GCONV_MATH_FP32                 ? "math other than fp32"
           : cut_problem(p).cycles < (double)HUGE_VAL ? NULL
                                                      : "other layers than first ones";
  }

  static size_t workspace_bytes(const gconv_layer_problem *) {
    return 0;
  }

  static size_t prepared_floats(const gconv_layer_problem *p) {
    const cut c = cut_problem(p);
    return ((size_t)weight_bytes(c) / 4 + (size_t)c.of.filters) * (size_t)c.filter_tiles;
  }

  static gconv_status prepare(const gconv_layer_problem *p, const float *weights, float *prepared) {
    const cut c = cut_problem(p);
    uint16_t *to = (uint16_t *)prepared;
    float *scales = prepared + (size_t)weight_bytes(c) / 4 * (size_t)c.filter_tiles;
    const int32_t N = c.of.filters, of_step = 2 * N * STEP_PAIRS;
    scale_filters(p, weights, true, N * c.filter_tiles, scales);
    for (int32_t i = 0; i < c.filter_tiles * c.steps * of_step; i++) { /* i counts 8 taps, filters, halves, steps */
      const int32_t step = i / of_step, tap = i % of_step / 8 / N * 8 + i % 8, k = step / c.steps * N + i / 8 % N;
      const int32_t pair = step % c.steps * STEP_PAIRS + tap / 2, row = pair / c.row_pairs;
      const int32_t channel = row / p->rows, s = pair % c.row_pairs * 2 + tap % 2;
      const bool there = k < p->filters && channel < p->channels && s < p->columns;
      const int32_t source = ((k * p->channels + channel) * p->rows + row % p->rows) * p->columns + s;
      write_digits<fp16, 2>(scaled_weight(weights, gconv_layer_taps(p), there ? source : -1, scales), i, N * 8, to);
    }
    return GCONV_OK;
  }

  typedef void (*kernel)(arguments);
  static kernel kernel_of(const cut &c) {
    static const kernel kernels[] = {convolve<8, 4, 1>,  convolve<16, 2, 1>, convolve<32, 2, 1>,
                                     convolve<64, 1, 2>, convolve<64, 2, 1>, convolve<128, 1, 1>}; /* as SHAPES */
    int i = 0;
    while (SHAPES[i].filters != c.of.filters || SHAPES[i].heights != c.of.heights)
      i++;
    return kernels[i];
  }

  /* This kernel does not support weights that change. */
  static size_t source_count(const gconv_layer_problem *) {
    return 0;
  }
  static constexpr auto fill_sources = nullptr;
  static constexpr auto prepare_again = nullptr;

  static gconv_status acquire(const gconv_layer_execution *e, void **state) {
    const cut c = cut_problem(e->problem);
    GCONV_TRY(allow_shared(kernel_of(c), SHARED_BYTES));
    return keep_cut(c, state);
  }

  static gconv_status execute(const gconv_layer_execution *e) {
    const cut &c = kept_cut<cut>(e);
    const gconv_layer_problem *p = e->problem;
    const float *prepared = gconv_layer_prepared(p, e->weights);
    arguments a = {};
    a.c = c, a.problem = *p;
    a.in = e->in, a.out = e->out;
    a.biases = gconv_layer_biases(p, e->weights), a.plain_weights = e->weights;
    a.weights = (const uint8_t *)prepared;
    a.filter_scales = prepared + (size_t)weight_bytes(c) / 4 * (size_t)c.filter_tiles;
    a.across = divisor::of(c.across), a.down = divisor::of(c.down);
    a.raw_fours = divisor::of(c.raw_pitch / 4), a.pairs = divisor::of(c.pairs), a.in_rows = divisor::of(c.in_rows);
    a.by_fours = p->width % 4 == 0 && (uintptr_t)e->in % 16 == 0 && (c.every == 1 || p->pad_left % 2 == 0);
    a.whole = p->out_width % 4 == 0 && c.tile_columns % 4 == 0 && (uintptr_t)e->out % 16 == 0;
    a.curved = is_curved(p), a.straight = straight_of(p, a.curved);
    a.slopes = slopes_of(e->tail);
    const int64_t blocks =
        std::min<int64_t>((c.tiles + COUPLES - 1) / COUPLES, std::max(multiprocessors() / c.filter_tiles, 1));
    const dim3 grid((unsigned)blocks, (unsigned)c.filter_tiles);
    kernel_of(c)<<<grid, THREADS, (size_t)shared_bytes(c), (cudaStream_t)e->stream>>>(a);
    CUDA_TRY(cudaPeekAtLastError());
    return GCONV_OK;
  }

  static double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
    return machine->launch_ms + cut_problem(p).cycles * (double)PROCESSORS / machine->units / CYCLES_PER_MS;
  }

  static double error_bound(const gconv_layer_problem *p) {
    return 3.1 * 0x1p-22 + (3.0 * cut_problem(p).steps + 4) * 0x1p-22;
  }
};

} // namespace tensor::gather

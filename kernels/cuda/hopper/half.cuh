/* SPDX-License-Identifier: MIT */
/*
 * gemm-half: layers between which tensors stay float16 or bfloat16, N x H x W x C (kept tensors, layer_problem.h).
 * half_cut.cuh explains tiles and steps.
 *
 * A block has two warpgroups, and keeps all weights of up to 64 filters in shared memory. A warpgroup copies the samples
 * that a tile needs, with zeros around the image, to a buffer (cp.async): units of 8 channels, each a plane of the tile.
 * While it multiplies a tile, the samples of its next tile are being copied. Outputs are rows of the product. ldmatrix loads
 * their samples from any place of the buffer, so a tap is an offset. wgmma takes samples from registers, and weights from
 * shared memory. Sums are float32. The same kernel applies scale, bias and activation, and stores the next layer's input.
 *
 * The weights of each filter are scaled by a power of 2, so that they lose no bits. Samples are not scaled.
 *
 * With 64 channels, the tensor cores and the loads of samples from shared memory bound the kernel, about equally; with few
 * channels, memory does. gemm-half gains where layers follow each other: a kept tensor has half of the bytes, no largest
 * sample must be found, and no planes of units are packed.
 */
#pragma once

#include "../graph/tail.cuh"
#include "device/cuda_error.h"
#include "half_cut.cuh"
#include "kernels/activation.h"

namespace half_layers {

struct half_arguments {
  cut c;
  gconv_layer_problem problem;
  const void *in;
  void *out;
  const uint8_t *weights;
  const float *filter_scales, *biases;
  divisor across, down, parts, columns;
  straight line;
  int32_t kept;        /* channels of a kept output */
  const float *slopes; /* of filters, or NULL */
  int32_t *overflow;   /* set if a number is not finite in float16; or NULL */
};

/* ---- Numbers ---- */

template <class E> struct sixteen;
template <> struct sixteen<fp16> {
  DEVICE static uint32_t pair(float a, float b) {
    const __half2 two = __floats2half2_rn(a, b);
    return *(const uint32_t *)&two;
  }
  template <int COUNT> DEVICE static void multiply(float (&c)[COUNT], const uint32_t (&a)[4], uint64_t b, uint32_t add) {
    multiply_fp16(c, a, b, add);
  }
};
template <> struct sixteen<bf16> {
  DEVICE static uint32_t pair(float a, float b) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
    return *(const uint32_t *)&two;
  }
  template <int COUNT> DEVICE static void multiply(float (&c)[COUNT], const uint32_t (&a)[4], uint64_t b, uint32_t add) {
    multiply_bf16(c, a, b, add);
  }
};

/* Updates the largest magnitudes of numbers of float16, two by two. */
template <class E> DEVICE void note(uint32_t *most, uint32_t pair) {
  if constexpr (E::SCALED)
    *most = __vmaxu2(*most, pair & 0x7fff7fff);
}
DEVICE void tell_overflow(int32_t *overflow, uint32_t most) {
  if (overflow && ((most & 0xffff) >= 0x7c00 || most >> 16 >= 0x7c00))
    *overflow = 1;
}

/* ---- From floats to a kept tensor ---- */

/* A thread writes a unit of a pixel at a time. */
template <class E>
__global__ void __launch_bounds__(256) keep_floats(const float *in, int64_t images, int64_t plane, int32_t channels,
                                                   int32_t units, uint4 *to, int32_t *overflow) {
  uint32_t most = 0;
  const int64_t count = images * units * plane;
  admit_kernel_behind();
  await_kernel_before();
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
    const int64_t line = i / plane, pixel = i % plane, image = line / units;
    const int32_t unit = (int32_t)(line % units);
    float v[8];
    UNROLLED_FOR (int e = 0; e < 8; e++)
      v[e] = unit * 8 + e < channels ? in[(image * channels + unit * 8 + e) * plane + pixel] : 0.0f;
    uint32_t words[4];
    UNROLLED_FOR (int e = 0; e < 4; e++) {
      words[e] = sixteen<E>::pair(v[2 * e], v[2 * e + 1]);
      note<E>(&most, words[e]);
    }
    to[(image * plane + pixel) * units + unit] = make_uint4(words[0], words[1], words[2], words[3]);
  }
  tell_overflow(overflow, most);
}

/* ---- Samples of a tile ---- */

struct half_tile {
  int32_t image, row, column; /* of its first output */
};
DEVICE half_tile tile_of(const half_arguments &a, uint32_t number) {
  const uint32_t line = a.across.divide(number), image = a.down.divide(line);
  return {(int32_t)image, (int32_t)(line - image * a.down.by) * TILE_ROWS,
          (int32_t)(number - line * a.across.by) * TILE_COLUMNS};
}

/* Starts copies of the units that a tile needs. */
DEVICE void fetch_units(const half_arguments &a, const half_tile &t, uint32_t to) {
  const gconv_layer_problem &p = a.problem;
  const int32_t units = a.c.parts, count = a.c.in_rows * a.c.in_columns * units;
  const int32_t top = t.row * p.stride_y - p.pad_top, left = t.column * p.stride_x - p.pad_left;
  const uint4 *in = (const uint4 *)a.in + (int64_t)t.image * p.height * p.width * units;
  for (int32_t i = threadIdx.x % GROUP; i < count; i += GROUP) {
    const int32_t place = (int32_t)a.parts.divide((uint32_t)i), unit = i - place * units;
    const int32_t row = (int32_t)a.columns.divide((uint32_t)place), column = place - row * a.c.in_columns;
    const int32_t y = top + row, x = left + column;
    const bool inside = (uint32_t)y < (uint32_t)p.height && (uint32_t)x < (uint32_t)p.width;
    copy_async_or_zero<16>(to + unit * a.c.part + place * UNIT, inside ? in + ((int64_t)y * p.width + x) * units + unit : in,
                           inside);
  }
}

/* Converts neighbouring floats to pairs of samples. */
template <class E> DEVICE void fetch_pairs(const half_arguments &a, const half_tile &t, uint32_t to) {
  const gconv_layer_problem &p = a.problem;
  const int32_t plane = a.c.in_rows * a.c.in_columns, count = plane * a.c.parts;
  const int32_t top = t.row * p.stride_y - p.pad_top, left = t.column * p.stride_x - p.pad_left;
  const int32_t next = p.columns > 1 ? p.dilation_x : 0;
  const float *in = (const float *)a.in + (int64_t)t.image * p.channels * p.height * p.width;
  uint32_t most = 0;
  UNROLLED_4_FOR (int32_t i = threadIdx.x % GROUP; i < count; i += GROUP) {
    const int32_t line = (int32_t)a.columns.divide((uint32_t)i), column = i - line * a.c.in_columns;
    const int32_t channel = line / a.c.in_rows, y = top + line - channel * a.c.in_rows, x = left + column;
    const float *row = in + ((int64_t)channel * p.height + y) * p.width;
    const bool there = (uint32_t)y < (uint32_t)p.height;
    const float first = there && (uint32_t)x < (uint32_t)p.width ? __ldg(row + x) : 0.0f;
    const float second = there && (uint32_t)(x + next) < (uint32_t)p.width ? __ldg(row + x + next) : 0.0f;
    const uint32_t pair = sixteen<E>::pair(first, second);
    note<E>(&most, pair);
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + i * 4), "r"(pair) : "memory");
  }
  tell_overflow(a.overflow, most);
}

/* ---- Multiplying ---- */

DEVICE void load_matrices(uint32_t (&to)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}

/* The offsets of a step's samples in a buffer: one offset, or with PAIRS those of this lane's two pairs. */
template <bool PAIRS> struct step_entry {
  uint32_t first, second;
  DEVICE static step_entry load(uint32_t entries, int32_t step) {
    const uint32_t at = entries + step * (PAIRS ? 32 : 4), first = load_word(at);
    return {first, PAIRS ? load_word(at + 4) : 0};
  }
};

/* Loads the samples of a step: 16 numbers of 16 outputs of a warp, for each of two products. `from` has the addresses of
 * this lane's samples of the first tap. With PAIRS, the second eight outputs are `further` bytes on. */
template <bool PAIRS>
DEVICE void load_samples(uint32_t (&to)[HEIGHTS][4], const uint32_t (&from)[HEIGHTS], uint32_t further,
                         const step_entry<PAIRS> &at) {
  UNROLLED_FOR (int h = 0; h < HEIGHTS; h++)
    if (PAIRS) {
      to[h][0] = load_word(from[h] + at.first), to[h][1] = load_word(from[h] + at.first + further);
      to[h][2] = load_word(from[h] + at.second), to[h][3] = load_word(from[h] + at.second + further);
    } else {
      load_matrices(to[h], from[h] + at.first);
    }
}

template <class E, int N>
DEVICE void multiply_samples(float (&sums)[HEIGHTS][N / 2], const uint32_t (&samples)[HEIGHTS][4], uint64_t weights,
                             uint32_t add) {
  multiply_begin();
  UNROLLED_FOR (int h = 0; h < HEIGHTS; h++)
    sixteen<E>::multiply(sums[h], samples[h], weights, add);
  multiply_commit();
}

/* Computes the sums of a tile, two steps a round: while one is multiplied, the samples of the next are loaded. `weights` is
 * a descriptor, in units of 16 bytes; the next step is 2 N units further on. */
template <class E, int N, bool PAIRS>
DEVICE void multiply_tile(const cut &c, const uint32_t (&from)[HEIGHTS], uint32_t further, uint32_t entries,
                          uint64_t weights, float (&sums)[HEIGHTS][N / 2]) {
  uint32_t even[HEIGHTS][4], odd[HEIGHTS][4];
  typedef step_entry<PAIRS> entry;
  load_samples<PAIRS>(even, from, further, entry::load(entries, 0));
  entry next = entry::load(entries, 1);
  ROLLED_FOR (int32_t step = 0; step < c.steps; step += 2, weights += 4 * N) {
    multiply_samples<E, N>(sums, even, weights, step != 0);
    const entry later = entry::load(entries, min(step + 2, c.steps - 1));
    multiply_wait<1>(); /* `odd` has been read */
    load_samples<PAIRS>(odd, from, further, next);
    multiply_samples<E, N>(sums, odd, weights + 2 * N, 1);
    next = entry::load(entries, min(step + 3, c.steps - 1));
    multiply_wait<1>();
    load_samples<PAIRS>(even, from, further, later);
  }
  multiply_wait<0>();
}

/* ---- Storing ---- */

/* Transposes 4 x 4 words of four neighbouring lanes: word j of lane i becomes word i of lane j. */
DEVICE void transpose_lanes(uint32_t (&x)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  UNROLLED_FOR (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(UINT32_MAX, odd ? x[i] : x[i + 1], 1);
    (odd ? x[i] : x[i + 1]) = got;
  }
  UNROLLED_FOR (int i = 0; i < 2; i++) {
    const uint32_t got = __shfl_xor_sync(UINT32_MAX, high ? x[i] : x[i + 2], 2);
    (high ? x[i] : x[i + 2]) = got;
  }
}

/* Stores the sums of a tile. Lane t of every four lanes has filters 8 j + 2 t and 8 j + 2 t + 1 of an output. For a kept
 * tensor, the four lanes exchange their numbers, so that each stores a whole unit. */
template <class E, int N, bool KEPT>
DEVICE void store_tile(const half_arguments &a, const float4 *finish, int32_t first_filter, const half_tile &t,
                       const float (&sums)[HEIGHTS][N / 2]) {
  constexpr int MANY = N / 8 < 4 ? N / 8 : 4;
  const gconv_layer_problem &p = a.problem;
  const int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, own = lane % 4, filters = p.filters - first_filter;
  const int64_t plane = (int64_t)p.out_height * p.out_width;
  uint32_t most = 0;
  const bool relu = !a.slopes && a.line.slope == 0, bent = !relu && (a.slopes || a.line.slope != 1);
  UNROLLED_FOR (int j = 0; j < N / 8; j += 4) {
    float4 f[MANY][2];
    UNROLLED_FOR (int i = 0; i < MANY * 2; i++)
      f[i / 2][i % 2] = finish[(j + i / 2) * 8 + own * 2 + i % 2];
    UNROLLED_FOR (int part = 0; part < HEIGHTS * 2; part++) { /* of 8 outputs of the warp */
      const int32_t y = t.row + part / 2 * 2 + warp / 2, x = t.column + warp % 2 * 16 + part % 2 * 8 + lane / 4;
      const bool there = y < p.out_height && x < p.out_width;
      const int64_t pixel = (int64_t)y * p.out_width + x;
      float v[MANY][2];
      UNROLLED_FOR (int i = 0; i < MANY * 2; i++)
        v[i / 2][i % 2] = fmaf(sums[part / 2][(j + i / 2) * 4 + part % 2 * 2 + i % 2], f[i / 2][i % 2].x, f[i / 2][i % 2].y);
      if (relu)
        UNROLLED_FOR (int i = 0; i < MANY * 2; i++)
          asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(v[i / 2][i % 2]));
      if (bent)
        UNROLLED_FOR (int i = 0; i < MANY * 2; i++)
          v[i / 2][i % 2] = v[i / 2][i % 2] < 0 ? v[i / 2][i % 2] * f[i / 2][i % 2].z : v[i / 2][i % 2];
      if (KEPT) {
        uint32_t words[4] = {0, 0, 0, 0};
        UNROLLED_FOR (int i = 0; i < MANY; i++)
          words[i] = sixteen<E>::pair(v[i][0], v[i][1]);
        if (filters < N) /* channels that do not exist are 0 */
          UNROLLED_FOR (int i = 0; i < MANY; i++) {
            const int32_t left = filters - (j + i) * 8 - own * 2;
            words[i] = left > 1 ? words[i] : left > 0 ? words[i] & 0xffff : 0;
          }
        UNROLLED_FOR (int i = 0; i < MANY; i++)
          note<E>(&most, there ? words[i] : 0);
        transpose_lanes(words);
        const int32_t unit = j + own;
        uint16_t *out = (uint16_t *)a.out + ((int64_t)t.image * plane + pixel) * a.kept + first_filter + unit * 8;
        if (there && unit < N / 8 && first_filter + unit * 8 < a.kept)
          *(uint4 *)out = make_uint4(words[0], words[1], words[2], words[3]);
      } else if (there) {
        float *out = (float *)a.out + ((int64_t)t.image * p.filters + first_filter + j * 8 + own * 2) * plane + pixel;
        UNROLLED_FOR (int i = 0; i < MANY * 2; i++)
          if ((j + i / 2) * 8 + own * 2 + i % 2 < filters)
            out[(i / 2 * 8 + i % 2) * plane] = v[i / 2][i % 2];
      }
    }
  }
  if (KEPT)
    tell_overflow(a.overflow, most);
}

/* ---- The kernel ---- */

/* Grid: x counts blocks that share the tiles, y tiles of filters. */
template <class E, int N, bool PAIRS, bool KEPT>
__global__ void __launch_bounds__(WORKERS *GROUP, N <= 16            ? 3
                                                  : N == 64 && !KEPT ? 1
                                                                     : 2)
    convolve_half(const __grid_constant__ half_arguments a) {
#ifdef HOPPER
  extern __shared__ __align__(128) uint8_t shared[];
  const cut &c = a.c;
  const gconv_layer_problem &p = a.problem;
  const int32_t worker = threadIdx.x / GROUP, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int32_t first_filter = (int32_t)blockIdx.y * N, bytes = c.steps * STEP_NUMBERS * N * 2;
  uint32_t *entries = (uint32_t *)(shared + bytes);
  float4 *finish = (float4 *)((uint8_t *)entries + (c.steps * (PAIRS ? 32 : 4) + 15) / 16 * 16);
  uint64_t *barrier = (uint64_t *)(finish + N);
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    barrier_init_done();
    barrier_expect(barrier, (uint32_t)bytes);
    bulk_copy(shared, a.weights + (int64_t)blockIdx.y * bytes, (uint32_t)bytes, barrier);
  }
  for (int32_t i = threadIdx.x; i < c.steps * (PAIRS ? 8 : 1); i += WORKERS * GROUP) /* pairs t and t + 4 are neighbours */
    entries[i] = PAIRS ? entry_of(c, p, i / 8, i % 2 * 4 + i % 8 / 2) : entry_of(c, p, i, 0);
  admit_kernel_behind();
  await_kernel_before();
  for (int32_t i = threadIdx.x; i < N; i += WORKERS * GROUP) {
    const int32_t k = first_filter + i;
    /* slopes may be the result of the previous kernel */
    const float slope = k < p.filters && a.slopes ? a.slopes[k] : a.line.slope;
    finish[i] = k < p.filters ? make_float4(a.filter_scales[k], a.biases[k], slope, 0) : make_float4(0, 0, 0, 0);
  }
  __syncthreads();

  const uint32_t buffer_size = (uint32_t)(c.parts * c.part);
  const uint32_t buffers = shared_address(barrier) + 16 + worker * c.buffers * buffer_size;
  const uint32_t entry_address = shared_address(entries) + (PAIRS ? lane % 4 * 8 : 0);
  const uint64_t weights = (uint64_t)(shared_address(shared) >> 4 | (uint32_t)N << 16) | (uint64_t)8 << 32;
  const uint32_t further = (uint32_t)(8 * p.stride_x * 4);
  const auto fetch = [&](uint32_t number, uint32_t to) {
    if (PAIRS)
      fetch_pairs<E>(a, tile_of(a, number), to);
    else
      fetch_units(a, tile_of(a, number), to);
  };
  const uint32_t stride = gridDim.x * WORKERS, tiles = (uint32_t)c.tiles;
  uint32_t number = blockIdx.x * WORKERS + worker, here = buffers, there = buffers + (c.buffers - 1) * buffer_size;
  if (c.buffers == 2 && number < tiles)
    fetch(number, here);
  commit_copies();
  barrier_wait(barrier, 0);
  for (; number < tiles; number += stride) {
    if (c.buffers == 1) {
      fetch(number, here);
      commit_copies();
      await_copies<0>();
    } else {
      if (number + stride < tiles)
        fetch(number + stride, there);
      commit_copies();
      await_copies<1>();
    }
    barrier_of(1 + worker, GROUP);
    uint32_t from[HEIGHTS];
    UNROLLED_FOR (int h = 0; h < HEIGHTS; h++) {
      const int32_t row = h * 2 + warp / 2, column = warp % 2 * 16 + (PAIRS ? lane / 4 : lane % 16);
      from[h] = here + (uint32_t)((row * p.stride_y * c.in_columns + column * p.stride_x) * (PAIRS ? 4 : UNIT)) +
                (PAIRS ? 0 : lane / 16 * c.part);
    }
    float sums[HEIGHTS][N / 2];
    multiply_tile<E, N, PAIRS>(c, from, further, entry_address, weights, sums);
    barrier_of(1 + worker, GROUP); /* the buffer has been read */
    const half_tile t = tile_of(a, number);
    store_tile<E, N, KEPT>(a, finish, first_filter, t, sums);
    const uint32_t other = here;
    here = there, there = other;
  }
#endif
}

} // namespace half_layers

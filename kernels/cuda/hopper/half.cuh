/* SPDX-License-Identifier: MIT */
/*
 * gemm-half: layers between which tensors stay float16 or bfloat16, N x H x W x C (kept tensors, layer_problem.h).
 * half_cut.cuh explains tiles and steps.
 *
 * A block has up to four warpgroups, and keeps all weights of its filters in shared memory if there is room. Otherwise
 * weights pass through a ring of slots (bulk copies), which all warpgroups read. A warpgroup copies the samples that a tile
 * needs of a chunk, with zeros around the image, to a buffer (cp.async): units of 8 channels, each a plane of the tile.
 * While it multiplies a chunk, the samples of its next chunk are being copied. Outputs are rows of the product. ldmatrix
 * loads their samples from any place of the buffer, so a tap is an offset. wgmma takes samples from registers, and weights
 * from shared memory. Sums are float32. The same kernel applies scale, bias and activation, and stores the next layer's
 * input.
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
  divisor across, down, parts, columns, rows;
  uint32_t stages;        /* of a tile */
  divisor in_line;        /* units of a line of the samples that a tile needs */
  int32_t lines_together; /* which a warpgroup copies at a time */
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
  DEVICE static void rectify(uint32_t &pair) {
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0));
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
  DEVICE static void rectify(uint32_t &pair) {
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(0));
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
  return {(int32_t)image * a.c.tile_images, (int32_t)(line - image * a.down.by) * a.c.tile_rows,
          (int32_t)(number - line * a.across.by) * a.c.tile_columns};
}
/* An output of a tile: its image, row and column, all from those of the first. */
DEVICE half_tile output_of(const cut &c, int32_t number) {
  const int32_t line = number >> c.column_bits;
  return {line >> c.row_bits, line & (c.tile_rows - 1), number & (c.tile_columns - 1)};
}

/* Starts copies of the units that a tile needs of a chunk. A thread has a unit of a column, and goes down the lines; short
 * lines are shared out among more threads. Images that do not exist are left as they are. */
DEVICE void fetch_units(const half_arguments &a, const half_tile &t, int32_t chunk, uint32_t to) {
  const gconv_layer_problem &p = a.problem;
  const cut &c = a.c;
  const int32_t all = (c.units + 1) / 2 * 2, across = c.in_columns * c.parts, together = a.lines_together;
  const int32_t thread = threadIdx.x % GROUP, own = (int32_t)a.in_line.divide((uint32_t)thread);
  const int32_t top = t.row * p.stride_y - p.pad_top + own, left = t.column * p.stride_x - p.pad_left;
  const int32_t images = own < together ? min(c.tile_images, p.images - t.image) : 0;
  const int64_t down = (int64_t)together * p.width * all;
  for (int32_t i = thread - own * across; i < across; i += GROUP) {
    const int32_t column = (int32_t)a.parts.divide((uint32_t)i), unit = chunk * c.parts + i - column * c.parts;
    const bool inside = (uint32_t)(left + column) < (uint32_t)p.width && unit < c.units;
    ROLLED_FOR (int32_t image = 0; image < images; image++) {
      const uint4 *from =
          (const uint4 *)a.in + (((int64_t)(t.image + image) * p.height + top) * p.width + left + column) * all + unit;
      uint32_t place = to + (i - column * c.parts) * c.part + ((image * c.in_rows + own) * c.in_columns + column) * UNIT;
      UNROLLED_4_FOR (int32_t row = own, y = top; row < c.in_rows; row += together, y += together) {
        copy_async_or_zero<16>(place, from, inside && (uint32_t)y < (uint32_t)p.height);
        from += down, place += together * c.in_columns * UNIT;
      }
    }
  }
}

/* Converts neighbouring floats to pairs of samples. */
template <class E> DEVICE void fetch_pairs(const half_arguments &a, const half_tile &t, uint32_t to) {
  const gconv_layer_problem &p = a.problem;
  const int32_t lines = a.c.tile_images * a.c.in_rows, count = lines * a.c.in_columns * a.c.parts;
  const int32_t top = t.row * p.stride_y - p.pad_top, left = t.column * p.stride_x - p.pad_left;
  const int32_t next = p.columns > 1 ? p.dilation_x : 0;
  const float *in = (const float *)a.in + (int64_t)t.image * p.channels * p.height * p.width;
  uint32_t most = 0;
  UNROLLED_4_FOR (int32_t i = threadIdx.x % GROUP; i < count; i += GROUP) {
    const int32_t line = (int32_t)a.columns.divide((uint32_t)i), column = i - line * a.c.in_columns;
    const int32_t block = (int32_t)a.rows.divide((uint32_t)line), channel = block / a.c.tile_images;
    const int32_t image = block - channel * a.c.tile_images, y = top + line - block * a.c.in_rows, x = left + column;
    const float *row = in + (((int64_t)image * p.channels + channel) * p.height + y) * p.width;
    const bool there = (uint32_t)y < (uint32_t)p.height && t.image + image < p.images;
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

/* The offsets of a step's samples in a buffer: that of this lane's unit, or with PAIRS those of its two pairs. */
template <bool PAIRS> struct step_entry {
  uint32_t first, second;
  DEVICE static step_entry load(uint32_t entries, int32_t step) {
    const uint32_t at = entries + step * (PAIRS ? 32 : 8), first = load_word(at);
    return {first, PAIRS ? load_word(at + 4) : 0};
  }
};

/* Loads the samples of a step: 16 numbers of 16 outputs of a warp, for each product. `from` has the addresses of this lane's
 * samples of the first tap. With PAIRS, the second eight outputs are `further` bytes on. */
template <bool PAIRS, int H>
DEVICE void load_samples(uint32_t (&to)[H][4], const uint32_t (&from)[H], uint32_t further, const step_entry<PAIRS> &at) {
  UNROLLED_FOR (int h = 0; h < H; h++)
    if (PAIRS) {
      to[h][0] = load_word(from[h] + at.first), to[h][1] = load_word(from[h] + at.first + further);
      to[h][2] = load_word(from[h] + at.second), to[h][3] = load_word(from[h] + at.second + further);
    } else {
      load_matrices(to[h], from[h] + at.first);
    }
}

template <class E, int N, int H>
DEVICE void multiply_samples(float (&sums)[H][N / 2], const uint32_t (&samples)[H][4], uint64_t weights, uint32_t add) {
  multiply_begin();
  UNROLLED_FOR (int h = 0; h < H; h++)
    sixteen<E>::multiply(sums[h], samples[h], weights, add);
  multiply_commit();
}

/* Adds the products of the steps first .. end - 1 of a chunk to the sums of a tile; if `add` is 0, the first step sets the
 * sums. Registers `held` hold the samples of D steps. While a step is multiplied, the samples of the step D / 2 later are
 * loaded. So the caller loads steps first .. first + D / 2 - 1 before the first call, and each call leaves the D / 2 steps
 * from `end` on for the next one. Products of the last D / 2 steps may still be under way when the function returns.
 * `weights` is a descriptor, in units of 16 bytes; the weights of the next step lie 2 N units after those of this one. */
template <class E, int N, bool PAIRS, int H, int D>
DEVICE void multiply_stage(int32_t first, int32_t end, int32_t last, const uint32_t (&from)[H], uint32_t further,
                           uint32_t entries, uint64_t weights, uint32_t add, uint32_t (&held)[D][H][4],
                           float (&sums)[H][N / 2]) {
  ROLLED_FOR (int32_t step = first; step < end; step += D, weights += D * 2 * N, add = 1)
    UNROLLED_FOR (int d = 0; d < D; d++) {
      multiply_samples<E, N>(sums, held[d], weights + d * 2 * N, d > 0 ? 1 : add);
      const step_entry<PAIRS> later = step_entry<PAIRS>::load(entries, min(step + d + D / 2, last));
      multiply_wait<D / 2>(); /* these have been read */
      load_samples<PAIRS>(held[(d + D / 2) % D], from, further, later);
    }
}

/* ---- Storing ---- */

/* Stores COUNT words together. */
template <int COUNT> DEVICE void store_words(uint16_t *to, const uint32_t (&words)[COUNT]) {
  if constexpr (COUNT == 4)
    *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
  else if constexpr (COUNT == 2)
    *(uint2 *)to = make_uint2(words[0], words[1]);
  else
    *(uint32_t *)to = words[0];
}

/* Stores the sums of a tile. A lane has PAIRS pairs of neighbouring filters of an output at a time (filter_of()). `finish`
 * has the scale and bias of each filter, then the slopes. */
template <class E, int N, bool KEPT>
DEVICE void store_tile(const half_arguments &a, const float *finish, int32_t first_filter, const half_tile &t,
                       const float (&sums)[heights_of(N)][N / 2]) {
  constexpr int PAIRS = pairs_of(N);
  const gconv_layer_problem &p = a.problem;
  const int32_t own = threadIdx.x % 4 * (2 * PAIRS), filters = p.filters - first_filter;
  const int64_t plane = (int64_t)p.out_height * p.out_width;
  uint32_t most = 0;
  const bool relu = !a.slopes && a.line.slope == 0, bent = !relu && (a.slopes || a.line.slope != 1);
  UNROLLED_FOR (int part = 0; part < heights_of(N) * 2; part++) { /* of 8 outputs of the warp */
    const int32_t now = thread_now(); /* places would stay in registers, of which there are too few */
    const half_tile o = output_of(a.c, part / 2 * 64 + now / 32 % 4 * 16 + part % 2 * 8 + now % 32 / 4);
    const int32_t y = t.row + o.row, x = t.column + o.column, image = t.image + o.image;
    const bool there = y < p.out_height && x < p.out_width && image < p.images;
    const int64_t pixel = (int64_t)y * p.out_width + x;
    uint16_t *kept = (uint16_t *)a.out + (image * plane + pixel) * a.kept + first_filter + own;
    float *out = (float *)a.out + ((int64_t)image * p.filters + first_filter + own) * plane + pixel;
    UNROLLED_FOR (int j = 0; j < N / 8; j += PAIRS) {
      if (N > 64)
        asm volatile("" ::: "memory"); /* `finish` would be loaded for all filters at once */
      const float4 *of_pairs = (const float4 *)(finish + (j * 8 + own) * 2);
      float v[PAIRS][2];
      UNROLLED_FOR (int i = 0; i < PAIRS; i++) {
        const float4 f = of_pairs[i];
        v[i][0] = fmaf(sums[part / 2][(j + i) * 4 + part % 2 * 2], f.x, f.y);
        v[i][1] = fmaf(sums[part / 2][(j + i) * 4 + part % 2 * 2 + 1], f.z, f.w);
      }
      if (bent)
        UNROLLED_FOR (int i = 0; i < PAIRS * 2; i++)
          v[i / 2][i % 2] *= v[i / 2][i % 2] < 0 ? finish[2 * N + j * 8 + own + i] : 1.0f;
      if (KEPT) {
        uint32_t words[PAIRS], largest = 0;
        UNROLLED_FOR (int i = 0; i < PAIRS; i++)
          words[i] = sixteen<E>::pair(v[i][0], v[i][1]);
        if (relu)
          UNROLLED_FOR (int i = 0; i < PAIRS; i++)
            sixteen<E>::rectify(words[i]);
        if (filters < N) /* channels that do not exist are 0 */
          UNROLLED_FOR (int i = 0; i < PAIRS; i++) {
            const int32_t left = filters - j * 8 - own - i * 2;
            words[i] = left > 1 ? words[i] : left > 0 ? words[i] & 0xffff : 0;
          }
        UNROLLED_FOR (int i = 0; i < PAIRS; i++)
          note<E>(&largest, words[i]);
        note<E>(&most, there ? largest : 0);
        if (there && first_filter + j * 8 + own < a.kept)
          store_words(kept + j * 8, words);
      } else if (there) {
        if (relu)
          UNROLLED_FOR (int i = 0; i < PAIRS * 2; i++)
            asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(v[i / 2][i % 2]));
        UNROLLED_FOR (int i = 0; i < PAIRS * 2; i++)
          if (j * 8 + own + i < filters)
            out[(j * 8 + i) * plane] = v[i / 2][i % 2];
      }
    }
  }
  if (KEPT)
    tell_overflow(a.overflow, most);
}

/* ---- The kernel ---- */

/* The stages that are still to be copied to slots, in shared memory. All tiles of a block read the same ones, one after the
 * other; weights that stay are one stage. */
struct weight_source {
  slot_barriers<MOST_SLOTS> barriers;
  ring at;
  uint32_t stage, left; /* of a tile; of all tiles */
  /* Copies the next stage, as soon as all warps have read what its slot has. One thread calls this. */
  DEVICE void fill(const half_arguments &a, uint8_t *slots) {
    const uint32_t bytes = (uint32_t)(a.c.stage_steps * step_bytes(a.c));
    if (left == 0)
      return;
    barriers.wait_empty(at);
    barrier_expect(&barriers.full[at.place], bytes);
    bulk_copy(slots + at.place * bytes, a.weights + ((int64_t)blockIdx.y * a.stages + stage) * bytes, bytes,
              &barriers.full[at.place]);
    left--, stage = stage + 1 == a.stages ? 0 : stage + 1;
    at.advance((uint32_t)a.c.slots);
  }
};

/* Grid: x counts blocks that share the tiles, y tiles of filters. */
template <class E, int N, bool PAIRS, bool KEPT>
__global__ void __launch_bounds__(most_workers(N) * GROUP, most_blocks(N))
    convolve_half(const __grid_constant__ half_arguments a) {
#ifdef HOPPER
  constexpr int H = heights_of(N), D = depth_of(N);
  extern __shared__ __align__(128) uint8_t shared[];
  const cut &c = a.c;
  const gconv_layer_problem &p = a.problem;
  const int32_t worker = threadIdx.x / GROUP, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int32_t first_filter = (int32_t)blockIdx.y * N;
  uint32_t *entries = (uint32_t *)(shared + c.slots * c.stage_steps * step_bytes(c));
  float *finish = (float *)((uint8_t *)entries + entry_bytes(c));
  weight_source &source = *(weight_source *)(finish + 4 * N);
  static_assert(sizeof source <= SOURCE_BYTES, "");
  const uint32_t stride = gridDim.x * c.workers, tiles = (uint32_t)c.tiles, begin = blockIdx.x * c.workers;
  if (threadIdx.x == 0) {
    source.at = ring(), source.stage = 0;
    source.left = c.slots == 1 ? 1 : begin < tiles ? ((tiles - 1 - begin) / stride + 1) * a.stages : 0;
    source.barriers.begin(c.slots, 1, (uint32_t)c.workers * 4);
    barrier_init_done();
    ROLLED_FOR (int32_t i = 0; i < c.slots; i++)
      source.fill(a, shared);
  }
  /* pairs t and t + 4 are neighbours */
  for (int32_t i = threadIdx.x; i < c.steps * (PAIRS ? 8 : 2); i += blockDim.x)
    entries[i] = PAIRS ? entry_of(c, p, i / 8, i % 2 * 4 + i % 8 / 2) : entry_of(c, p, i / 2, i % 2);
  admit_kernel_behind();
  await_kernel_before();
  for (int32_t i = threadIdx.x; i < N; i += blockDim.x) {
    const int32_t k = first_filter + i;
    /* slopes may be the result of the previous kernel */
    const float slope = k < p.filters && a.slopes ? a.slopes[k] : a.line.slope;
    finish[2 * i] = k < p.filters ? a.filter_scales[k] : 0;
    finish[2 * i + 1] = k < p.filters ? a.biases[k] : 0;
    finish[2 * N + i] = slope;
  }
  __syncthreads();

  const uint32_t buffer_size = (uint32_t)(c.parts * c.part);
  const uint32_t buffers = shared_address(finish + 4 * N) + SOURCE_BYTES + worker * c.buffers * buffer_size;
  const uint32_t entry_address = shared_address(entries) + (PAIRS ? lane % 4 * 8 : lane / 16 * 4);
  const uint64_t weights = (uint64_t)(shared_address(shared) >> 4 | (uint32_t)N << 16) | (uint64_t)8 << 32;
  const uint32_t further = (uint32_t)((c.tile_columns > 8 ? 8 * p.stride_x : p.stride_y * c.in_columns) * 4);
  const auto own_tile = [&](uint32_t first) { return tile_of(a, min(first + worker, tiles - 1)); };
  const auto fetch = [&](uint32_t first, int32_t chunk, uint32_t to) {
    if (PAIRS)
      fetch_pairs<E>(a, own_tile(first), to);
    else
      fetch_units(a, own_tile(first), chunk, to);
  };
  uint32_t here = buffers, there = buffers + (c.buffers - 1) * buffer_size;
  if (c.buffers == 2 && begin < tiles)
    fetch(begin, 0, here);
  commit_copies();
  ring slot;
  uint32_t stage = 0;
  ROLLED_FOR (uint32_t first = begin; first < tiles; first += stride) {
    float sums[H][N / 2];
    ROLLED_FOR (int32_t chunk = 0; chunk < c.chunks; chunk++) {
      const bool last = chunk + 1 == c.chunks;
      const uint32_t next = last ? first + stride : first;
      if (c.buffers == 1) {
        fetch(first, chunk, here);
        commit_copies();
        await_copies<0>();
      } else {
        if (next < tiles)
          fetch(next, last ? 0 : chunk + 1, there);
        commit_copies();
        await_copies<1>();
      }
      barrier_of(1 + worker, GROUP);
      uint32_t from[H], held[D][H][4];
      UNROLLED_FOR (int h = 0; h < H; h++) {
        const half_tile o = output_of(c, h * 64 + warp * 16 + (PAIRS ? lane / 4 : lane % 16));
        const int32_t row = o.image * c.in_rows + o.row * p.stride_y;
        from[h] = here + (uint32_t)((row * c.in_columns + o.column * p.stride_x) * (PAIRS ? 4 : UNIT));
      }
      UNROLLED_FOR (int d = 0; d < D / 2; d++)
        load_samples<PAIRS>(held[d], from, further, step_entry<PAIRS>::load(entry_address, d));
      ROLLED_FOR (int32_t step = 0; step < c.steps; step += c.stage_steps) {
        const uint32_t at = c.slots == 1 ? (uint32_t)(chunk * c.steps) : slot.place * (uint32_t)c.stage_steps;
        source.barriers.wait_full(slot);
        multiply_stage<E, N, PAIRS, H, D>(step, min(step + c.stage_steps, c.steps), c.steps - 1, from, further,
                                          entry_address, weights + at * (2 * N), chunk + step > 0, held, sums);
        if (c.slots == 1)
          continue;
        /* the stage before has been multiplied, and all warps are done with the one before that, whose slot is next */
        if (lane == 0 && stage > 0)
          barrier_arrive(&source.barriers.empty[(slot.place > 0 ? slot.place : (uint32_t)c.slots) - 1]);
        if (threadIdx.x == 0 && stage > 1)
          source.fill(a, shared);
        slot.advance((uint32_t)c.slots);
        stage++;
      }
      multiply_wait<0>();
      barrier_of(1 + worker, GROUP); /* the buffer has been read */
      const uint32_t other = here;
      here = there, there = other;
    }
    if (first + worker < tiles)
      store_tile<E, N, KEPT>(a, finish, first_filter, own_tile(first), sums);
  }
#endif
}

} // namespace half_layers

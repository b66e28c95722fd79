/* SPDX-License-Identifier: MIT */
/*
 * Filters of 1 x 1 on tensor cores (tensor.cuh): at each position, a vector of channels times a matrix of weights. Memory
 * bounds these layers, so samples are read once, and no planes are written to memory. As in tensor_flow.cuh, the input
 * streams past weights in registers; but a tile of 128 outputs, of one image or two, needs no samples of other tiles.
 *
 *     memory --loaded--> samples of 64 channels --largest sample, digits--> slot of the ring --wgmma--> sums --> stored
 *             two packing warpgroups, a slot each by turns                    two warpgroups: 64 filters each; of many
 *                                                                             chunks and up to 64 filters, a tile each
 *
 * Each tile has its own scale, so the largest sample need not be found in a pass over the input first. A chunk is 64
 * channels. If there is only one chunk, its weights stay in registers. If there are more (MANY), a warpgroup that multiplies
 * a chunk loads the weights of the next one meanwhile. The scale of a chunk then follows from the largest sample of the tile
 * so far. If this chunk has a larger sample than the chunks before, the sums so far are multiplied by the ratio of both
 * scales, a power of two. This changes no bit of a sum, unless the sum becomes subnormal; such a sum is too small to matter
 * beside the new products.
 */
#pragma once

#include "tensor_flow.cuh"

namespace tensor {

/* ---- Packing ---- */

/* The samples of a position in a chunk, 8 channels for each unit. */
typedef float chunk_samples[2 * POINT_STEPS][fp16::U];

/* Loads the samples of a chunk; 0 where there is no input. The kernel's speed depends on how few instructions load_chunk()
 * and largest_of_slot() take. With load_unit(), which supports any filter, packing took twice as long. */
DEVICE void load_chunk(const arguments &a, const place &at, int32_t group, int32_t chunk, chunk_samples &v) {
  const gconv_layer_problem &p = a.problem;
  const int32_t row = at.row * p.stride_y - p.pad_top, column = at.column * p.stride_x - p.pad_left;
  const int32_t first = chunk * 2 * POINT_STEPS * fp16::U;
  const bool inside = at.image < p.images && (uint32_t)row < (uint32_t)p.height && (uint32_t)column < (uint32_t)p.width;
  const int32_t left = inside ? a.c.channels - first : 0; /* channels of the group from there on */
  const int64_t plane = (int64_t)p.height * p.width;
  const float *from =
      a.in + ((int64_t)at.image * p.channels + group * a.c.channels + first) * plane + (int64_t)row * p.width + column;
  if (left >= 2 * POINT_STEPS * fp16::U) { /* the usual case */
    UNROLLED_FOR (int i = 0; i < 2 * POINT_STEPS; i++)
      UNROLLED_FOR (int e = 0; e < fp16::U; e++, from += plane)
        v[i][e] = __ldg(from);
  } else {
    UNROLLED_FOR (int i = 0; i < 2 * POINT_STEPS; i++)
      UNROLLED_FOR (int e = 0; e < fp16::U; e++, from += plane)
        v[i][e] = i * fp16::U + e < left ? __ldg(from) : 0.0f;
  }
}

/* Returns the largest finite magnitude, as bits, of the samples that a warpgroup holds. `own`: which packing warpgroup.
 * `odd`: 0 and 1 alternately. */
DEVICE uint32_t largest_of_slot(flow_head &h, int32_t own, int32_t odd, const chunk_samples &v) {
  float largest[2] = {}, sign[2] = {}; /* sign: NaN if a sample is not finite */
  UNROLLED_FOR (int i = 0; i < 2 * POINT_STEPS; i++)
    UNROLLED_FOR (int e = 0; e < fp16::U; e++) {
      largest[e % 2] = fmaxf(largest[e % 2], fabsf(v[i][e]));
      sign[e % 2] = fmaf(v[i][e], 0.0f, sign[e % 2]);
    }
  uint32_t most = __float_as_uint(fmaxf(largest[0], largest[1]));
  if (most >= NOT_FINITE || sign[0] + sign[1] != 0) {
    h.not_finite = 1;
    most = 0;
    UNROLLED_FOR (int i = 0; i < 2 * POINT_STEPS; i++)
      UNROLLED_FOR (int e = 0; e < fp16::U; e++) {
        const uint32_t bits = __float_as_uint(v[i][e]) & 0x7fffffff;
        most = max(most, bits < NOT_FINITE ? bits : 0);
      }
  }
  most = largest_of_warp(most);
  if (threadIdx.x % 32 == 0)
    h.most[own][odd][threadIdx.x / 32 % 4] = most;
  barrier_of(1 + own, GROUP);
  const uint4 warps = *(const uint4 *)h.most[own][odd];
  return max(max(warps.x, warps.y), max(warps.z, warps.w));
}

/* Returns the largest magnitude of a tile up to its chunk `chunk`, whose own largest magnitude is `most`. The packing
 * warpgroups call this alternately, slot by slot. */
DEVICE uint32_t largest_so_far(flow_head &h, int32_t own, bool first, bool last, int32_t chunk, uint32_t most) {
  if (!first)
    barrier_of(3 + own, 2 * GROUP);
  if (chunk > 0)
    most = max(most, *(volatile uint32_t *)&h.so_far[1 - own]);
  if (threadIdx.x % GROUP == 0)
    *(volatile uint32_t *)&h.so_far[own] = most;
  if (!last)
    barrier_pass(3 + 1 - own, 2 * GROUP);
  return most;
}

/* Does the work of the two packing warpgroups: each packs every other slot. While one waits for samples, the other packs. */
template <int D, bool MANY> DEVICE void fill_points(const arguments &a, const flow_memory &m, const flow_work &work) {
  const int32_t thread = threadIdx.x % GROUP, own = threadIdx.x / GROUP - CONSUMERS, chunks = MANY ? a.c.chunks : 1;
  const uint32_t count = (work.end - work.first) * chunks;
  uint32_t tile = work.first;
  int32_t chunk = 0;
  ring r;
  for (uint32_t number = 0; number < count; number++, r.advance(a.c.flow.slots)) {
    if (number % 2 == own) {
      chunk_samples v;
      load_chunk(a, place_of(a, tile * FLOW_TILE + thread), work.group, chunk, v);
      uint32_t most = largest_of_slot(*m.h, own, number / 2 % 2, v);
      if (MANY)
        most = largest_so_far(*m.h, own, number == 0, number + 1 == count, chunk, most);
      const int exponent = gconv_scale_exponent(most);
      m.h->slots.wait_empty(r);
      store_planes<D>(a.c, 0, power_of_two(exponent), m.ring + (r.place * FLOW_TILE + thread) * UNIT, 0, v);
      if (thread == 0)
        m.h->scales[r.place] = power_of_two(-exponent);
      publish();
      barrier_arrive(&m.h->slots.full[r.place]);
    }
    if (++chunk == chunks)
      chunk = 0, tile++;
  }
}

/* ---- Multiplying ---- */

template <int D> struct chunk_weights { uint32_t of[POINT_STEPS][D][4]; };

template <int D> DEVICE chunk_weights<D> load_weights(const uint4 *from) {
  chunk_weights<D> w;
  UNROLLED_FOR (int i = 0; i < POINT_STEPS * D; i++)
    *(uint4 *)w.of[i / D][i % D] = __ldg(from + i * GROUP);
  return w;
}

/* Finishes and stores a warp's sums of a tile, whose positions are the outputs of all images, one after the other. Through
 * shared memory, an instruction stores 512 bytes of a filter. `row`: the warp's first filter. */
DEVICE void store_points(const arguments &a, int32_t group, uint32_t tile, int32_t row, const finish (&f)[2], float scale,
                         float *kept, const float (&sums)[64]) {
  const scales s[2] = {both_scales(f[0].scale, scale), both_scales(f[1].scale, scale)};
  const bool plain = are_plain(s, f);
  const int32_t lane = threadIdx.x % 32, filters = min(a.c.filters - row, 16);
  const int64_t plane = (int64_t)a.problem.out_height * a.problem.out_width;
  float *out = (a.partial ? a.partial : a.out) + (group * a.c.filters + row) * plane;
  UNROLLED_FOR (int k = 0; k < 2; k++) {
    float *to = kept + (lane / 4 + k * 8) * KEPT_PITCH + lane % 4 * 2;
    if (plain)
      keep_sums<true, true>(a, to, s[k], f[k], k, sums);
    else
      keep_sums<false, true>(a, to, s[k], f[k], k, sums);
  }
  __syncwarp();
  const bool together = plane % 4 == 0 && (uintptr_t)out % 16 == 0;
  for (int32_t i = together ? lane * 4 : lane; i < FLOW_TILE; i += together ? FLOW_TILE : 32) {
    const place at = place_of(a, tile * FLOW_TILE + i);
    float *to = out + (int64_t)at.image * a.problem.filters * plane + at.row * a.problem.out_width + at.column;
    if (at.image < a.problem.images)
      UNROLLED_4_FOR (int k = 0; k < filters; k++, to += plane)
        if (together)
          __stcs((float4 *)to, *(const float4 *)(kept + k * KEPT_PITCH + i));
        else
          __stcs(to, kept[k * KEPT_PITCH + i]);
  }
  __syncwarp();
}

/* Reports that this warp has read a slot. */
DEVICE void give_back(const flow_memory &m, const ring &at) {
  __syncwarp();
  if (threadIdx.x % 32 == 0)
    barrier_arrive(&m.h->slots.empty[at.place]);
}

/* Does the work of a warpgroup that multiplies. */
template <int D, bool MANY> DEVICE void points_past(const arguments &a, const flow_memory &m, const flow_work &work) {
  constexpr int CHUNK = POINT_STEPS * D * GROUP; /* words of weights, each of 16 bytes */
  const cut &c = a.c;
  const int32_t consumer = threadIdx.x / GROUP, thread = threadIdx.x % GROUP, chunks = MANY ? c.chunks : 1;
  const bool by_turns = MANY && c.sets == 2;
  const int32_t filter_tile = by_turns ? work.pair : work.pair * CONSUMERS + consumer;
  const int32_t first_row = filter_tile * ROWS + thread / 32 * 16, row = first_row + thread % 32 / 4;
  const finish f[2] = {finish_of(a, work.group, row), finish_of(a, work.group, row + 8)};
  const uint4 *const from =
      (const uint4 *)a.weights + (int64_t)(work.group * c.filter_tiles + filter_tile) * chunks * CHUNK + thread;
  const auto is_own = [&](uint32_t tile) { return !by_turns || (tile - work.first) % CONSUMERS == consumer; };
  chunk_weights<D> weights = load_weights<D>(from), next;
  ring r;
  for (uint32_t tile = work.first; tile < work.end; tile++) {
    if (!is_own(tile)) { /* waits for these slots, too, since a barrier only shows whether its last phase has ended */
      for (int32_t chunk = 0; chunk < chunks; chunk++) {
        m.h->slots.wait_full(r);
        give_back(m, r);
        r.advance(c.flow.slots);
      }
      continue;
    }
    float sums[64], scale = 1;
#pragma unroll 1
    for (int32_t chunk = 0; chunk < chunks; chunk++) {
      if (MANY)
        next = load_weights<D>(from + (chunk + 1 < chunks ? chunk + 1 : 0) * CHUNK);
      m.h->slots.wait_full(r);
      const float before = scale;
      scale = m.h->scales[r.place];
      if (MANY && chunk > 0 && scale != before) {
        const float less = before / scale;
        UNROLLED_FOR (int i = 0; i < 64; i++)
          sums[i] *= less;
      }
      multiply_flow(c, weights.of, shared_address(m.ring) >> 4, r.place * FLOW_TILE, MANY && chunk > 0, sums);
      multiply_wait<0>();
      give_back(m, r);
      r.advance(c.flow.slots);
      if (MANY)
        weights = next;
    }
    store_points(a, work.group, tile, first_row, f, scale, m.kept + threadIdx.x / 32 * (KEPT_BYTES / 4), sums);
  }
  /* This comes after the loop, because a call inside the loop would take registers from it. */
  if (!a.partial && m.h->not_finite)
    for (uint32_t tile = work.first; tile < work.end; tile++)
      if (is_own(tile)) {
        __syncwarp();
        mend(&a, work.group, tile * FLOW_TILE, (tile + 1) * FLOW_TILE, first_row);
      }
}

/* ---- The kernel ---- */

/* The number of blocks is a multiple of the pairs of filter tiles of all groups. MANY: more than one chunk. */
template <int D, bool MANY>
__global__ void __launch_bounds__(POINT_THREADS, 1) points_layer(const __grid_constant__ arguments a) {
#ifdef HOPPER
  extern __shared__ uint8_t shared[];
  const flow_memory m = begin_flow(a, shared);
  const flow_work work = flow_work_of(a.c);
  if (threadIdx.x / GROUP >= CONSUMERS) {
    registers_down<MANY ? 96 : 104>();
    fill_points<D, MANY>(a, m, work);
  } else {
    registers_up<MANY ? 160 : 152>();
    points_past<D, MANY>(a, m, work);
  }
#endif
}

} // namespace tensor

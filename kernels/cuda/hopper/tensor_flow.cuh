/* SPDX-License-Identifier: MIT */
/*
 * Layers of few taps and many filters on tensor cores (tensor.cuh), such as 128 filters of 8 x 8 on 3 channels. In such
 * layers, storing takes as long as multiplying. So neither should wait for the other, nor for planes in memory.
 *
 * Weights stay in registers: a warpgroup has 64 filters with all of their taps. The input streams past them. A third
 * warpgroup packs float32 samples into units of NARROW, in a ring in shared memory, 128 positions at a time. A tile of 128
 * positions needs, at each tap, 128 units of the ring. The first positions of the ring are repeated after its end, so that
 * these units are always adjacent. The tiles of a block follow each other, so each position is packed once.
 *
 * Two warpgroups multiply and store, each at its own pace, so that one of them multiplies while the other stores. Sums go
 * through shared memory, one row for each filter. The outputs of a filter continue from tile to tile, but begin at any
 * address. So a row of shared memory has the columns of 128-byte lines. Only whole lines are stored, by bulk copies; an
 * incomplete line is kept until the next tile.
 */
#pragma once

#include "tensor_flow_lay.cuh"
#include "tensor_store.cuh"

namespace tensor {

/* ---- Multiplying ---- */

/* Multiplies all taps of the tile that begins at position `slot` of the ring. Products with low digits are small, and come
 * first: added to large sums, they would lose more bits, and take more power. add: whether to add to the earlier sums. */
template <int D, int STEPS>
DEVICE void multiply_flow(const cut &c, const uint32_t (&weights)[STEPS][D][4], uint32_t planes, uint32_t slot, uint32_t add,
                          float (&sums)[64]) {
  const uint32_t last = (uint32_t)c.flow.slots * FLOW_TILE, digit = (uint32_t)c.plane_bytes >> 4;
  multiply_begin();
  const auto units_of = [&](int i) {
    uint32_t at = slot + c.flow.down[i];
    at -= at >= last ? last : 0;
    return descriptor(planes + at + c.flow.at[i]);
  };
  if (D == 2)
    UNROLLED_FOR (int i = 0; i < STEPS; i++) {
      const uint64_t units = units_of(i);
      multiply_fp16(sums, weights[i][D - 1], units, i > 0 ? 1 : add);
      multiply_fp16(sums, weights[i][0], units + digit, 1);
    }
  UNROLLED_FOR (int i = 0; i < STEPS; i++)
    multiply_fp16(sums, weights[i][0], units_of(i), D == 2 || i > 0 ? 1 : add);
  multiply_commit();
}

/* ---- Storing ---- */

/* Writes a thread's finished sums of a filter to its row in shared memory: two neighbours of each 8 columns. `row` is 0 or
 * 1. PAIRS: `to` is aligned to two floats. */
template <bool PLAIN, bool PAIRS>
DEVICE void keep_sums(const arguments &a, float *to, const scales &s, const finish &f, int32_t row,
                      const float (&sums)[64]) {
  UNROLLED_FOR (int i = 0; i < 64; i += 4) {
    const float *of_row = sums + i + row * 2;
    if (PAIRS)
      *(float2 *)(to + i * 2) = make_float2(finished<PLAIN>(a, of_row[0], s, f), finished<PLAIN>(a, of_row[1], s, f));
    else
      UNROLLED_FOR (int k = 0; k < 2; k++)
        to[i * 2 + k] = finished<PLAIN>(a, of_row[k], s, f);
  }
}

/* Moves the incomplete line of the previous tile to the front of each row, where the next tile continues it. */
DEVICE void keep_line(float *kept, int32_t lane) {
  float4 y[4];
  kept += lane / 8 * KEPT_PITCH + lane % 8 * 4;
  UNROLLED_FOR (int k = 0; k < 4; k++)
    y[k] = *(const float4 *)(kept + k * 4 * KEPT_PITCH + FLOW_TILE);
  UNROLLED_FOR (int k = 0; k < 4; k++)
    *(float4 *)(kept + k * 4 * KEPT_PITCH) = y[k];
}

/* Where the outputs of a warp's tile are stored. */
struct flow_outputs {
  float *out;                     /* position 0 of the strip, for the first filter */
  int64_t plane;                  /* from one filter to the next */
  int32_t image, filter, filters; /* image; first filter; filters of the group from there on */
  int32_t x, begin, end;          /* the tile's first position; positions that may be stored */
  int32_t left;                   /* columns of outputs from the strip's first one on */
  bool alone, first, last; /* alone: no line continues from or to another tile; first, last: none continues from the previous
                              tile, or to the next */
};

DEVICE flow_outputs flow_outputs_of(const arguments &a, const flow_work &work, uint32_t tile, int32_t warp) {
  const cut &c = a.c;
  const flow_tile at = flow_tile_of(a, tile);
  flow_outputs o;
  o.image = at.image;
  o.filter = (work.pair * CONSUMERS + warp / 4) * ROWS + warp % 4 * 16;
  o.filters = c.filters - o.filter;
  o.filter += work.group * c.filters;
  o.plane = (int64_t)a.problem.out_height * a.problem.out_width;
  o.out =
      (a.partial ? a.partial : a.out) + ((int64_t)at.image * a.problem.filters + o.filter) * o.plane + at.strip * c.strip;
  o.alone = c.strips > 1;
  o.first = o.alone || tile == work.first || at.number == 0;
  o.last = o.alone || is_last(a, at, tile, work.end);
  o.x = at.number * FLOW_TILE;
  o.begin = o.first ? o.x : 0, o.end = min(o.x + FLOW_TILE, a.problem.out_height * c.columns);
  o.left = a.problem.out_width - at.strip * c.strip;
  return o;
}

/* Returns the place of the output of a position, counted from o.out; -1 if there is none. */
DEVICE int32_t place_at(const arguments &a, const flow_outputs &o, int32_t x) {
  const int32_t row = (int32_t)a.pitch.divide((uint32_t)max(x, 0)), column = x - row * (int32_t)a.pitch.by;
  return x >= o.begin && x < o.end && column < o.left ? row * a.problem.out_width + column : -1;
}

/* Stores a tile without lines that continue. */
DEVICE void store_tile(const arguments &a, const flow_outputs &o, int32_t lane, const float *kept) {
  int32_t place[FLOW_TILE / LINE];
  UNROLLED_FOR (int i = 0; i < FLOW_TILE / LINE; i++)
    place[i] = place_at(a, o, o.x + i * LINE + lane);
  kept += lane;
  float *out = o.out;
  UNROLLED_4_FOR (int k = 0; k < min(o.filters, 16); k++, kept += KEPT_PITCH, out += o.plane)
    UNROLLED_FOR (int i = 0; i < FLOW_TILE / LINE; i++) {
      const float y = kept[i * LINE];
      if (place[i] >= 0)
        __stcs(out + place[i], y);
    }
}

/* Returns how many floats of the line are before this tile's first output of the k-th filter: those of the previous tile. */
DEVICE int32_t before_in_line(const flow_outputs &o, int32_t k) {
  return o.alone ? 0
                 : (int32_t)(((uint32_t)((uintptr_t)o.out / sizeof(float)) + (uint32_t)o.x + k * (uint32_t)o.plane) % LINE);
}

/* Stores whole lines of 16 filters whose outputs continue from tile to tile. The first line includes floats that the
 * previous tile has left. One lane starts all copies: with a copy in each lane, the warp would take 100 cycles for each. */
DEVICE void store_lines(const flow_outputs &o, int32_t lane, const float *kept) {
  const uint32_t from = shared_address(kept);
  const float *to = o.out + o.x;
  if (lane == 0) {
    UNROLLED_FOR (int k = 0; k < 16; k++, to += o.plane)
      bulk_store((const void *)((uintptr_t)to / (LINE * sizeof(float)) * (LINE * sizeof(float))), from + k * KEPT_PITCH * 4,
                 FLOW_TILE * sizeof(float));
    bulk_store_commit();
  }
}

/* Stores the lines of a tile if there is no tile before it or after it, or if there are fewer than 16 filters. */
DEVICE void store_edge(const flow_outputs &o, int32_t lane, const float *kept) {
  float *out = o.out + o.x;
  ROLLED_FOR (int k = 0; k < min(o.filters, 16); k++, kept += KEPT_PITCH, out += o.plane) {
    const int32_t before = before_in_line(o, k);
    for (int32_t i = lane - before, j = 0; j <= FLOW_TILE / LINE; j++, i += LINE)
      if (o.x + i >= o.begin && o.x + i < o.end && (j < FLOW_TILE / LINE || (o.last && i < FLOW_TILE)))
        __stcs(out + i, kept[before + i]);
  }
}

/* Finishes and stores a warp's sums of a tile. */
DEVICE void store_flow(const arguments &a, const flow_outputs &o, int32_t lane, const finish (&f)[2], float scale,
                       float *kept, const float (&sums)[64]) {
  const scales s[2] = {both_scales(f[0].scale, scale), both_scales(f[1].scale, scale)};
  const bool plain = are_plain(s, f);
  UNROLLED_FOR (int row = 0; row < 2; row++) {
    const int32_t k = lane / 4 + row * 8;
    float *to = kept + k * KEPT_PITCH + before_in_line(o, k) + lane % 4 * 2;
    if (plain)
      keep_sums<true, false>(a, to, s[row], f[row], row, sums);
    else
      keep_sums<false, false>(a, to, s[row], f[row], row, sums);
  }
  publish();
  __syncwarp();
  if (o.alone)
    store_tile(a, o, lane, kept);
  else if (o.first || o.last || o.filters < 16)
    store_edge(o, lane, kept);
  else
    store_lines(o, lane, kept);
}

/* Computes those outputs of a warp's tile again that are not finite. It is called if some samples are not finite. */
static __device__ __noinline__ void mend_flow(const arguments *a, flow_work work, uint32_t tile) {
  __syncwarp(); /* other lanes have stored the values that are read here */
  const flow_outputs o = flow_outputs_of(*a, work, tile, threadIdx.x / 32);
  const int32_t width = a->problem.out_width;
  for (int32_t x = o.x + threadIdx.x % 32; x < o.end; x += 32) {
    const int32_t place = place_at(*a, o, x), row = place / width, column = width - o.left + place % width;
    float *to = o.out + place;
    for (int32_t k = 0; place >= 0 && k < min(o.filters, 16); k++, to += o.plane)
      if (!is_finite(*to))
        *to = bend(
            *a, o.filter + k,
            gconv_activate(&a->problem, plain_sum(a->problem, a->in, a->plain_weights, o.image, o.filter + k, row, column) +
                                            a->biases[o.filter + k]));
  }
}

/* ---- The kernel ---- */

/* Does the work of a warpgroup that multiplies. */
template <int D> DEVICE void flow_past(const arguments &a, const flow_memory &m, const flow_work &work) {
  const cut &c = a.c;
  const int32_t consumer = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
  const int32_t filter_tile = work.pair * CONSUMERS + consumer;
  const int32_t first_row = filter_tile * ROWS + thread / 32 * 16, row = first_row + thread % 32 / 4;
  const finish f[2] = {finish_of(a, work.group, row), finish_of(a, work.group, row + 8)};
  const uint4 *from =
      (const uint4 *)a.weights + (int64_t)(work.group * c.filter_tiles + filter_tile) * FLOW_STEPS * D * GROUP + thread;
  uint32_t weights[FLOW_STEPS][D][4];
  UNROLLED_FOR (int i = 0; i < FLOW_STEPS * D; i++)
    *(uint4 *)weights[i / D][i % D] = __ldg(from + i * GROUP);
  ring r;
  for (uint32_t tile = work.first; tile < work.end; tile++) {
    const uint32_t newest = r.place + c.flow.halo, over = newest >= c.flow.slots;
    float sums[64];
    barrier_wait(&m.h->slots.full[newest - (over ? c.flow.slots : 0)], r.parity ^ over);
    multiply_flow(c, weights, shared_address(m.ring) >> 4, r.place * FLOW_TILE, 0, sums);
    /* This overlaps with the last multiplications. */
    const int32_t now = thread_now(), lane = now % 32;
    const int32_t warp = __shfl_sync(UINT32_MAX, now / 32, 0); /* shows the compiler that all lanes have the same `warp` */
    float *kept = m.kept + warp * (KEPT_BYTES / 4);
    const flow_outputs o = flow_outputs_of(a, work, tile, warp);
    const float scale = m.h->scales[r.place];
    bulk_store_read();
    __syncwarp();
    if (!o.first)
      keep_line(kept, lane);
    __syncwarp();
    multiply_wait<0>();
    int32_t done = is_last(a, flow_tile_of(a, tile), tile, work.end) ? c.flow.halo : 0;
    ROLLED_FOR (; done >= 0; done--) {
      if (threadIdx.x % 32 == 0)
        barrier_arrive(&m.h->slots.empty[r.place]);
      r.advance(c.flow.slots);
    }
    store_flow(a, o, lane, f, scale, kept, sums);
  }
  bulk_store_done();
  /* This comes after the loop, because a call inside the loop would take registers from it. */
  if (!a.partial && *a.not_finite)
    for (uint32_t tile = work.first; tile < work.end; tile++)
      mend_flow(&a, work, tile);
}

/* The number of blocks is a multiple of the pairs of filter tiles of all groups. */
template <int D> __global__ void __launch_bounds__(THREADS, 1) flow_layer(const __grid_constant__ arguments a) {
#ifdef HOPPER
  extern __shared__ uint8_t shared[];
  const flow_memory m = begin_flow(a, shared);
  const flow_work work = flow_work_of(a.c);
  if (threadIdx.x / GROUP >= CONSUMERS) {
    registers_down<88>();
    fill_ring<D>(a, m, work);
  } else {
    registers_up<208>();
    flow_past<D>(a, m, work);
  }
#endif
}

} // namespace tensor

/* SPDX-License-Identifier: MIT */
/*
 * Layers whose input streams past the weights (tensor_flow.cuh, tensor_points.cuh): the shared memory of a block, the tiles
 * that it processes, and the packing of samples into its ring.
 */
#pragma once

#include "tensor_lay.cuh"
#include "tensor_multiply.cuh"

namespace tensor {

/* ---- Shared memory ---- */

struct flow_head {
  slot_barriers<FLOW_SLOTS> slots;
  float scales[FLOW_SLOTS]; /* scales of results, for tiles that begin with a slot */
  /* For tiles with their own scales (tensor_points.cuh). most: the largest magnitude of each warp of each packing warpgroup
   * in its last two slots; so_far: the largest magnitude of a tile up to the last slot of each packing warpgroup;
   * not_finite: there was an infinity or NaN. */
  uint32_t most[2][2][4], so_far[2], not_finite;
};
static_assert(sizeof(flow_head) <= FLOW_HEAD_BYTES, "");

struct flow_memory {
  flow_head *h;
  float *kept;   /* the incomplete lines of each warp that multiplies */
  uint8_t *ring; /* digits, planes, positions */
};

DEVICE flow_memory flow_memory_of(uint8_t *base) {
  return {(flow_head *)base, (float *)(base + FLOW_HEAD_BYTES), base + FLOW_HEAD_BYTES + CONSUMERS * 4 * KEPT_BYTES};
}

/* Prepares the memory of a block. */
DEVICE flow_memory begin_flow(const arguments &a, uint8_t *shared) {
  const flow_memory m = flow_memory_of(shared + (128 - shared_address(shared) % 128) % 128);
  if (threadIdx.x == 0) {
    m.h->slots.begin(a.c.flow.slots, GROUP, 4 * CONSUMERS);
    m.h->not_finite = 0;
    barrier_init_done();
  }
  __syncthreads();
  admit_kernel_behind();
  await_kernel_before();
  return m;
}

/* ---- Work ---- */

/* The work of a block: tiles `first` to `end` of a pair of filter tiles. */
struct flow_work {
  uint32_t first, end;
  int32_t group, pair;
};

DEVICE flow_work flow_work_of(const cut &c) {
  const uint32_t pairs = (uint32_t)(c.flow.pairs * c.groups), number = blockIdx.x / pairs, count = gridDim.x / pairs;
  const int32_t pair = (int32_t)(blockIdx.x - number * pairs), group = pair / c.flow.pairs;
  return {(uint32_t)(c.tiles * number / count), (uint32_t)(c.tiles * (number + 1) / count), group,
          pair - group * c.flow.pairs};
}

/* A tile: number `number` of a strip of an image. */
struct flow_tile {
  int32_t image, strip, number;
};

DEVICE flow_tile flow_tile_of(const arguments &a, uint32_t tile) {
  const uint32_t segment = a.segment_tiles.divide(tile);
  const int32_t image = (int32_t)a.strips.divide(segment);
  return {image, (int32_t)segment - image * a.c.strips, (int32_t)(tile - segment * a.segment_tiles.by)};
}

/* Returns whether the tile is the last of its strip in this block, so that no line continues after it. */
DEVICE bool is_last(const arguments &a, const flow_tile &at, uint32_t tile, uint32_t end) {
  return tile + 1 == end || at.number + 1 == (int32_t)a.segment_tiles.by;
}

/* ---- Packing ---- */

/* An iterator over the planes of a chunk of positions. */
struct flow_plane {
  int32_t unit, phase, variant;
  DEVICE void advance(const cut &c) {
    if (++variant == c.variants) {
      variant = 0;
      if (++phase == c.phases_y)
        phase = 0, unit++;
    }
  }
};

/* A slot to be packed: number `further` after the first slot of a tile. */
struct flow_walk {
  uint32_t tile;
  flow_tile at;
  int32_t further;
};
DEVICE void advance(const arguments &a, const flow_work &work, flow_walk &walk) {
  if (walk.further < (is_last(a, walk.at, walk.tile, work.end) ? a.c.flow.halo : 0)) {
    walk.further++;
  } else {
    walk.further = 0;
    if (++walk.tile < work.end)
      walk.at = flow_tile_of(a, walk.tile);
  }
}

constexpr int PLANES_AT_ONCE = 3;

/* Loads a thread's units of its position in a slot, for the planes from `first` on. */
DEVICE void load_planes(const arguments &a, const flow_work &work, const flow_walk &walk, int32_t first,
                        float (&v)[PLANES_AT_ONCE][fp16::U]) {
  flow_plane plane = {0, 0, 0};
  for (int32_t i = 0; i < first; i++)
    plane.advance(a.c);
  const uint32_t position = (uint32_t)((walk.at.number + walk.further) * FLOW_TILE + threadIdx.x % GROUP),
                 row = a.pitch.divide(position);
  const place at = {walk.at.image, walk.at.strip, (int32_t)row, (int32_t)(position - row * a.pitch.by)};
  UNROLLED_FOR (int i = 0; i < PLANES_AT_ONCE; i++)
    if (first + i < a.c.planes) {
      load_unit<fp16>(a, at, work.group, plane.unit, plane.phase, plane.variant, v[i]);
      plane.advance(a.c);
    }
}

/* Writes units to the ring. If `again` is not 0, writes them a second time, `again` bytes further on. */
template <int D, int PLANES>
DEVICE void store_planes(const cut &c, int32_t first, float scale, uint8_t *to, int32_t again, float (&v)[PLANES][fp16::U]) {
  to += first * c.flow.length * UNIT;
  UNROLLED_FOR (int i = 0; i < PLANES; i++, to += c.flow.length * UNIT)
    if (first + i < c.planes) {
      store_unit<fp16, D>(v[i], scale, to, c.plane_bytes);
      if (again)
        for (int digit = 0; digit < D; digit++)
          *(uint4 *)(to + again + digit * c.plane_bytes) = *(const uint4 *)(to + digit * c.plane_bytes);
    }
}

/* Does the work of the packing warpgroup. Samples of the next slot are loaded before this slot's samples are stored. */
template <int D> DEVICE void fill_ring(const arguments &a, const flow_memory &m, const flow_work &work) {
  const cut &c = a.c;
  const int32_t thread = threadIdx.x % GROUP, last = c.flow.slots * FLOW_TILE;
  flow_walk walk = {work.first, flow_tile_of(a, work.first), 0};
  if (work.first == work.end)
    return;
  int32_t image = -1, exponent = 0; /* the image of the slot; the exponent of its scale */
  ring r;
  float next[PLANES_AT_ONCE][fp16::U];
  load_planes(a, work, walk, 0, next);
  while (walk.tile < work.end) {
    const flow_walk now = walk;
    float v[PLANES_AT_ONCE][fp16::U];
    UNROLLED_FOR (int i = 0; i < PLANES_AT_ONCE * fp16::U; i++)
      v[i / fp16::U][i % fp16::U] = next[i / fp16::U][i % fp16::U];
    advance(a, work, walk);
    if (walk.tile < work.end)
      load_planes(a, work, walk, 0, next);
    if (now.at.image != image) {
      image = now.at.image;
      exponent = gconv_scale_exponent(__ldg(a.maxima + (int64_t)image * a.c.groups + work.group));
    }
    const int32_t slot = (int32_t)r.place * FLOW_TILE + thread, again = slot < c.flow.repeated ? last * UNIT : 0;
    m.h->slots.wait_empty(r);
    for (int32_t first = 0; first < c.planes; first += PLANES_AT_ONCE) {
      if (first > 0)
        load_planes(a, work, now, first, v);
      store_planes<D>(c, first, power_of_two(exponent), m.ring + slot * UNIT, again, v);
    }
    if (thread == 0)
      m.h->scales[r.place] = power_of_two(-exponent);
    publish();
    barrier_arrive(&m.h->slots.full[r.place]);
    r.advance(c.flow.slots);
  }
}

} // namespace tensor

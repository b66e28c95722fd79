/* SPDX-License-Identifier: MIT */
/*
 * For layers whose input streams past the weights (tensor_flow.cuh): what a block has in shared memory, which tiles it
 * processes, and how its ring is filled.
 *
 * Digits need the largest sample of each image. If images are small, blocks find it themselves. All threads search the first
 * image of a block. The packing warpgroup searches the following images while the ring is full. So no pass over the input
 * comes before.
 */
#pragma once

#include "tensor_lay.cuh"
#include "tensor_multiply.cuh"

namespace tensor {

#ifdef HOPPER
/* ---- Shared memory ---- */

struct flow_head {
  hopper::slots<FLOW_SLOTS> slots;
  float scales[FLOW_SLOTS]; /* scales of results, for tiles that begin with a slot */
  uint32_t most[4][WARPS];  /* see flow_images */
  uint32_t not_finite;      /* not 0 if a sample that was read is not finite */
};
static_assert(sizeof(flow_head) <= FLOW_HEAD_BYTES, "");

struct flow_memory {
  flow_head *h;
  float *kept;   /* rest of lines, for each warp that multiplies */
  uint8_t *ring; /* digits, planes, positions */
};

DEVICE flow_memory flow_memory_of(uint8_t *base) {
  return {(flow_head *)base, (float *)(base + FLOW_HEAD_BYTES), base + FLOW_HEAD_BYTES + CONSUMERS * 4 * KEPT_BYTES};
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

/* Returns whether the tile is the last of its strip in this block, so that no line continues behind it. */
DEVICE bool is_last(const arguments &a, const flow_tile &at, uint32_t tile, uint32_t end) {
  return tile + 1 == end || at.number + 1 == (int32_t)a.segment_tiles.by;
}

/* ---- Scales ---- */

/* Returns whether blocks find the largest samples of their images themselves; otherwise find_maxima() does it before. */
DEVICE bool is_searched(const arguments &a) {
  return !a.maxima;
}
/* Returns whether `tiles` are enough to search an image meanwhile, while the ring is full. */
DEVICE bool is_long(const arguments &a, int32_t tiles) {
  return tiles >= a.c.flow.samples / 1024;
}

/* Searches the largest sample of an image. Each of `threads` threads reads some samples at a time. */
struct flow_search {
  static constexpr uint32_t AT_ONCE = 4;
  uint32_t at = 0, most = 0;

  DEVICE bool is_done(const arguments &a) const {
    return at >= (uint32_t)a.c.flow.samples;
  }
  DEVICE void go_on(const arguments &a, const flow_memory &m, int32_t image, int32_t group, uint32_t thread,
                    uint32_t threads) {
    const uint32_t count = (uint32_t)a.c.flow.samples;
    const float *from = a.in + ((int64_t)image * a.c.groups + group) * count;
    uint32_t bits[4 * AT_ONCE];
    if ((uintptr_t)from % 16 == 0 && count % 4 == 0) {
      UNROLLED_FOR (int i = 0; i < 4 * AT_ONCE; i += 4) {
        const uint32_t first = at + i * threads + 4 * thread;
        const uint4 v = first < count ? __ldg((const uint4 *)(from + first)) : make_uint4(0, 0, 0, 0);
        bits[i] = v.x, bits[i + 1] = v.y, bits[i + 2] = v.z, bits[i + 3] = v.w;
      }
    } else {
      UNROLLED_FOR (int i = 0; i < 4 * AT_ONCE; i++) {
        const uint32_t first = at + i * threads + thread;
        bits[i] = first < count ? __float_as_uint(__ldg(from + first)) : 0;
      }
    }
    UNROLLED_FOR (int i = 0; i < 4 * AT_ONCE; i++) {
      const uint32_t magnitude = bits[i] & 0x7fffffff;
      if (magnitude >= NOT_FINITE)
        m.h->not_finite = 1;
      else
        most = max(most, magnitude);
    }
    at += 4 * AT_ONCE * threads;
  }
};

/* All threads search an image. Each warp writes its result to most[warp]. */
DEVICE void search_together(const arguments &a, const flow_memory &m, const flow_work &work, int32_t image, uint32_t *most) {
  flow_search search;
  while (!search.is_done(a))
    search.go_on(a, m, image, work.group, threadIdx.x, THREADS);
  const uint32_t of_warp = __reduce_max_sync(UINT32_MAX, search.most);
  if (threadIdx.x % 32 == 0)
    most[threadIdx.x / 32] = of_warp;
}

/* The images of a block, one after the other, with their exponents. All threads search the first image, and the next one if
 * there is no time for it later. The packing warpgroup searches the others while the ring is full. */
struct flow_images {
  int32_t image, last; /* the current image; the last of the block */
  bool found;          /* the largest sample of the next image is known */
  uint32_t parity = 0;
  flow_search next;

  static DEVICE void begin(const arguments &a, const flow_memory &m, const flow_work &work) {
    if (!is_searched(a) || work.first == work.end)
      return;
    const flow_images images = of(a, work);
    search_together(a, m, work, images.image, m.h->most[0]);
    if (images.found)
      search_together(a, m, work, images.image + 1, m.h->most[1]);
  }
  static DEVICE flow_images of(const arguments &a, const flow_work &work) {
    const flow_tile first = flow_tile_of(a, work.first);
    const int32_t tiles = (int32_t)(a.strips.by * a.segment_tiles.by), last = flow_tile_of(a, work.end - 1).image;
    return {first.image, last, first.image < last && !is_long(a, (first.image + 1) * tiles - (int32_t)work.first)};
  }
  static DEVICE uint32_t most_of(const uint32_t *most, int32_t warps) {
    uint32_t all = 0;
    for (int i = 0; i < warps; i++)
      all = max(all, most[i]);
    return all;
  }

  /* Searches while there is nothing else to do. */
  DEVICE void look_ahead(const arguments &a, const flow_memory &m, const flow_work &work) {
    if (is_searched(a) && image < last && !found && !next.is_done(a))
      next.go_on(a, m, image + 1, work.group, threadIdx.x % GROUP, GROUP);
  }

  DEVICE int exponent_of_first(const arguments &a, const flow_memory &m, const flow_work &work) const {
    return scale_exponent(is_searched(a) ? most_of(m.h->most[0], WARPS)
                                         : __ldg(a.maxima + (int64_t)image * a.c.groups + work.group));
  }
  DEVICE int exponent_of_next(const arguments &a, const flow_memory &m, const flow_work &work) {
    image++;
    if (!is_searched(a))
      return scale_exponent(__ldg(a.maxima + (int64_t)image * a.c.groups + work.group));
    if (found) {
      found = false;
      return scale_exponent(most_of(m.h->most[1], WARPS));
    }
    while (!next.is_done(a))
      next.go_on(a, m, image, work.group, threadIdx.x % GROUP, GROUP);
    uint32_t *most = m.h->most[2 + parity];
    parity ^= 1; /* so that a fast warp does not overwrite what another still reads */
    const uint32_t of_warp = __reduce_max_sync(UINT32_MAX, next.most);
    if (threadIdx.x % 32 == 0)
      most[threadIdx.x / 32 % 4] = of_warp;
    asm volatile("bar.sync 1, %0;" ::"r"((int32_t)GROUP) : "memory");
    next = {};
    return scale_exponent(most_of(most, 4));
  }
};

/* ---- Packing ---- */

/* Goes through the planes of a chunk of positions in their order. */
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

/* A slot to be packed: number `further` behind the first slot of a tile. */
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
template <class E>
DEVICE void load_planes(const arguments &a, const flow_work &work, const flow_walk &walk, int32_t first,
                        float (&v)[PLANES_AT_ONCE][E::U]) {
  flow_plane plane = {0, 0, 0};
  for (int32_t i = 0; i < first; i++)
    plane.advance(a.c);
  const uint32_t position = (uint32_t)((walk.at.number + walk.further) * FLOW_TILE + threadIdx.x % GROUP),
                 row = a.pitch.divide(position);
  const place at = {walk.at.image, walk.at.strip, (int32_t)row, (int32_t)(position - row * a.pitch.by)};
  UNROLLED_FOR (int i = 0; i < PLANES_AT_ONCE; i++)
    if (first + i < a.c.planes) {
      load_unit<E>(a, at, work.group, plane.unit, plane.phase, plane.variant, v[i]);
      plane.advance(a.c);
    }
}

/* Writes them to the ring; a second time `again` bytes further on, if that is not 0. */
template <class E, int D>
DEVICE void store_planes(const cut &c, int32_t first, float scale, uint8_t *to, int32_t again,
                         float (&v)[PLANES_AT_ONCE][E::U]) {
  to += first * c.flow.length * UNIT;
  UNROLLED_FOR (int i = 0; i < PLANES_AT_ONCE; i++, to += c.flow.length * UNIT)
    if (first + i < c.planes) {
      store_unit<E, D>(v[i], scale, to, c.plane_bytes);
      if (again)
        for (int digit = 0; digit < D; digit++)
          *(uint4 *)(to + again + digit * c.plane_bytes) = *(const uint4 *)(to + digit * c.plane_bytes);
    }
}

/* The work of the packing warpgroup. Samples of the next slot are loaded before those of this one are stored. The largest
 * sample of the next image is searched while the ring is full. */
template <class E, int D> DEVICE void fill_ring(const arguments &a, const flow_memory &m, const flow_work &work) {
  static_assert(E::SCALED, "");
  const cut &c = a.c;
  const int32_t thread = threadIdx.x % GROUP, last = c.flow.slots * FLOW_TILE;
  flow_walk walk = {work.first, flow_tile_of(a, work.first), 0};
  if (work.first == work.end)
    return;
  flow_images images = flow_images::of(a, work);
  int exponent = images.exponent_of_first(a, m, work);
  ring r;
  float next[PLANES_AT_ONCE][E::U];
  load_planes<E>(a, work, walk, 0, next);
  while (walk.tile < work.end) {
    const flow_walk now = walk;
    float v[PLANES_AT_ONCE][E::U];
    UNROLLED_FOR (int i = 0; i < PLANES_AT_ONCE * E::U; i++)
      v[i / E::U][i % E::U] = next[i / E::U][i % E::U];
    advance(a, work, walk);
    if (walk.tile < work.end)
      load_planes<E>(a, work, walk, 0, next);
    if (now.at.image != images.image)
      exponent = images.exponent_of_next(a, m, work);
    const int32_t slot = (int32_t)r.place * FLOW_TILE + thread, again = slot < c.flow.repeated ? last * UNIT : 0;
    if (!barrier_is_over(&m.h->slots.empty[r.place], r.parity ^ 1)) {
      images.look_ahead(a, m, work);
      m.h->slots.wait_empty(r);
    }
    for (int32_t first = 0; first < c.planes; first += PLANES_AT_ONCE) {
      if (first > 0)
        load_planes<E>(a, work, now, first, v);
      store_planes<E, D>(c, first, power_of_two(exponent), m.ring + slot * UNIT, again, v);
    }
    if (thread == 0)
      m.h->scales[r.place] = power_of_two(-exponent);
    publish();
    barrier_arrive(&m.h->slots.full[r.place]);
    r.advance(c.flow.slots);
  }
}
#endif

} // namespace tensor

/* SPDX-License-Identifier: MIT */
/*
 * The matrix product of training on Hopper's tensor cores: sums over l of a(m, l) * b(n, l). A number is the sum of PARTS
 * numbers of bf16, which have eight bits each and the range of float32, so no scales are needed. With three parts, the
 * products of parts i and j, i + j < 3, are as accurate as float32; with two parts, more accurate than tf32.
 *
 *     producers: global memory --cp.async--> raw slots --> registers, cut into parts --> slots
 *     consumers: slots --> tensor cores --> sums in registers --> Out
 *
 * Between them lies a ring (../hopper/ring.cuh). A slot has DEPTH values of l for the M rows and N columns of a tile, in
 * units: eight values of l of a row, 16 bytes. A warp of producers copies groups of 32 units, which only this warp reads.
 * The matrix may be [m][l] or [l][m], with rows of any length. A block takes one tile after the other: while its consumers
 * store a tile, its producers begin the next one.
 *
 * Tensor cores add with fewer bits than float32 has. They add the products of one slot; float32 adds these sums.
 */
#pragma once

#include "../hopper/ring.cuh"
#include "dense_product.cuh"

#include <cuda_bf16.h>

namespace {

using hopper::ring;

enum { UNITS = DEPTH / 8, GROUP_BYTES = 1024 };

/* The shape of a block: a tile of M x N sums, a warpgroup of consumers for each 64 rows of it, raw slots of RAW units. */
template <int COUNT> struct groups_shape {
  enum { PARTS = COUNT, M = 128, N = 128, CONSUMERS = 2 * M, PRODUCERS = CONSUMERS, THREADS = CONSUMERS + PRODUCERS };
  enum { RAWS = 2, RAW = UNITS * (M + N), SLOT = PARTS * RAW, ROOM = (225 << 10) / 16 - RAWS * 2 * RAW };
  enum { SLOTS = ROOM / SLOT < 8 ? ROOM / SLOT : 8 };
};
template <class Shape> struct groups_memory {
  uint4 slots[Shape::SLOTS][Shape::SLOT]; /* [part][unit][row] of a, then of b */
  float4 raw[Shape::RAWS][2 * Shape::RAW];
  float of_rows[Shape::PRODUCERS];
  hopper::slot_barriers<Shape::SLOTS> barriers;
};

/* Tiles along m and n, and parts of the values of l, of `part` slots each. */
struct groups_work {
  int32_t m_count, n_count, length, tiles_m, tiles_n, tiles, part;
};
struct groups_tile {
  int32_t m, n, z, begin, end;
};
template <class Shape> DEVICE groups_tile tile_of(const groups_work &w, int32_t number) {
  const int32_t across = number / w.tiles_n, z = across / w.tiles_m;
  return {(across - z * w.tiles_m) * Shape::M, (number - across * w.tiles_n) * Shape::N, z, z * w.part * DEPTH,
          min(w.length, (z + 1) * w.part * DEPTH)};
}

/* ---- Producers ---- */

/* A matrix in memory, [l][m] if BY_L, else [m][l]. copy() is called by all lanes of a warp, and starts to copy a group:
 * numbers of eight rows for 32 values of l; if BY_L, of 32 rows for eight values. `to` gets them as
 *
 *     [row][32 values of l], the quads of a row in the order quad ^ row        BY_L: [value of l][32 rows]
 *
 * Numbers from `end` on, and of rows that do not exist, are 0. */
template <bool LEADS_L> struct dense_operand : dense_matrix {
  static constexpr bool BY_L = LEADS_L;
  DEVICE void copy(int32_t m, int32_t l, int32_t end, int32_t lane, uint32_t to) const {
    const int32_t line = BY_L ? l : m, lines = BY_L ? end : count, column = BY_L ? m : l, columns = BY_L ? count : end;
    if (fours) {
      const int32_t at = column + lane % 8 * 4;
      UNROLLED_FOR (int j = 0; j < 2; j++) {
        const int32_t i = lane / 8 + 4 * j;
        copy_async_or_zero<16>(to + i * 128 + (lane % 8 ^ (BY_L ? 0 : i)) * 16, from + (line + i) * pitch + at,
                               line + i < lines && at < columns);
      }
    } else {
      UNROLLED_FOR (int i = 0; i < 8; i++)
        copy_async_or_zero<4>(to + i * 128 + (lane / 4 ^ (BY_L ? 0 : i)) * 16 + lane % 4 * 4,
                              from + (line + i) * pitch + column + lane, line + i < lines && column + lane < columns);
    }
  }
};

/* A thread's part of an operand: a unit of each of COUNT groups. Eight lanes with neighbouring rows store 128 bytes. */
template <class Operand, int ROWS, int THREADS> struct producer {
  enum { WARPS = THREADS / 32, GROUPS = ROWS / 8, COUNT = GROUPS / WARPS, ACROSS = ROWS / 32 };
  static_assert(COUNT * WARPS == GROUPS, "warps have as many groups");
  static DEVICE int32_t group(int32_t thread, int i) {
    return thread / 32 + i * WARPS;
  }
  static DEVICE int32_t row(int32_t thread, int i) {
    return Operand::BY_L ? group(thread, i) % ACROSS * 32 + thread % 32 : group(thread, i) * 8 + thread % 8;
  }
  static DEVICE int32_t unit(int32_t thread, int i) {
    return Operand::BY_L ? group(thread, i) / ACROSS : thread / 8 % UNITS;
  }
  float raw[COUNT][8];
  static DEVICE void copy(const Operand &from, int32_t thread, int32_t first, int32_t l, int32_t end, uint32_t to) {
    UNROLLED_FOR (int i = 0; i < COUNT; i++) {
      const int32_t g = group(thread, i);
      if constexpr (Operand::BY_L)
        from.copy(first + g % ACROSS * 32, l + g / ACROSS * 8, end, thread % 32, to + g * GROUP_BYTES);
      else
        from.copy(first + g * 8, l, end, thread % 32, to + g * GROUP_BYTES);
    }
  }
  DEVICE void read(int32_t thread, const float4 *from) {
    UNROLLED_FOR (int i = 0; i < COUNT; i++) {
      const float *own = (const float *)(from + group(thread, i) * (GROUP_BYTES / 16));
      if constexpr (Operand::BY_L)
        UNROLLED_FOR (int j = 0; j < 8; j++)
          raw[i][j] = own[j * 32 + thread % 32];
      else
        UNROLLED_FOR (int j = 0; j < 8; j += 4)
          load_four(own + thread % 8 * 32 + (thread / 8 % UNITS * 2 + j / 4 ^ thread % 8) * 4, raw[i] + j);
    }
  }
  DEVICE float sum() const {
    static_assert(Operand::BY_L, "so the units of a thread are of one row");
    float all = 0;
    UNROLLED_FOR (int i = 0; i < COUNT; i++)
      all += ((raw[i][0] + raw[i][1]) + (raw[i][2] + raw[i][3])) + ((raw[i][4] + raw[i][5]) + (raw[i][6] + raw[i][7]));
    return all;
  }
  template <int PARTS> DEVICE void store(int32_t thread, uint4 *slot) {
    UNROLLED_FOR (int i = 0; i < COUNT; i++)
      UNROLLED_FOR (int part = 0; part < PARTS; part++) {
        uint32_t pairs[4];
        UNROLLED_FOR (int j = 0; j < 4; j++) {
          const __nv_bfloat162 pair = __floats2bfloat162_rn(raw[i][2 * j], raw[i][2 * j + 1]);
          pairs[j] = *(const uint32_t *)&pair;
          raw[i][2 * j] -= __uint_as_float(pairs[j] << 16);
          raw[i][2 * j + 1] -= __uint_as_float(pairs[j] & 0xffff0000u);
        }
        slot[(part * UNITS + unit(thread, i)) * ROWS + row(thread, i)] = {pairs[0], pairs[1], pairs[2], pairs[3]};
      }
  }
};

/* The position of producers in the slots of all tiles of their block. */
template <class Shape> struct producer_walk {
  int32_t number, l;
  groups_tile tile;
  DEVICE producer_walk(const groups_work &w) : number((int32_t)blockIdx.x), l(0), tile(tile_of<Shape>(w, number)) {
    l = tile.begin;
  }
  DEVICE bool ends(const groups_work &w) const {
    return number >= w.tiles;
  }
  DEVICE bool is_last() const {
    return l + DEPTH >= tile.end;
  }
  DEVICE void advance(const groups_work &w) {
    l += DEPTH;
    if (l < tile.end)
      return;
    number += (int32_t)gridDim.x;
    tile = tile_of<Shape>(w, number);
    l = tile.begin;
  }
};

#ifdef HOPPER

/* Stores the sums of a's rows. Two threads share a row. own: the sum of the thread's units, which are of one row. */
template <class Shape, class Out>
DEVICE void store_sums_of_rows(const groups_work &w, const Out &out, const groups_tile &tile, int32_t thread, float own,
                               float (&of_rows)[Shape::PRODUCERS]) {
  static_assert(Shape::PRODUCERS == 2 * Shape::M, "two threads have a row");
  hopper::barrier_of(1, Shape::PRODUCERS);
  of_rows[thread] = own;
  hopper::barrier_of(1, Shape::PRODUCERS);
  if (thread < Shape::M && tile.m + thread < w.m_count)
    out.store_sum(tile.z, tile.m + thread, own + of_rows[thread + Shape::M]);
}

template <class Shape, class A, class B, class Out>
DEVICE void produce(const groups_work &w, const A &a, const B &b, const Out &out, groups_memory<Shape> &memory) {
  constexpr int THREADS = Shape::PRODUCERS, A_RAW = 2 * UNITS * Shape::M;
  using of_a = producer<A, Shape::M, THREADS>;
  using of_b = producer<B, Shape::N, THREADS>;
  const int32_t thread = (int32_t)threadIdx.x - Shape::CONSUMERS;
  ring slot;
  producer_walk<Shape> ahead(w), own(w);
  float of_row = 0;
  const auto copy = [&](float4 *to) {
    if (!ahead.ends(w)) {
      of_a::copy(a, thread, ahead.tile.m, ahead.l, ahead.tile.end, shared_address(to));
      of_b::copy(b, thread, ahead.tile.n, ahead.l, ahead.tile.end, shared_address(to + A_RAW));
      ahead.advance(w);
    }
    commit_copies();
  };
  for (int i = 0; i < Shape::RAWS; i++)
    copy(memory.raw[i]);
  for (int turn = 0; !own.ends(w); turn = turn + 1 < Shape::RAWS ? turn + 1 : 0) {
    of_a rows;
    of_b columns;
    await_copies<Shape::RAWS - 1>();
    __syncwarp();
    rows.read(thread, memory.raw[turn]);
    columns.read(thread, memory.raw[turn] + A_RAW);
    __syncwarp();
    copy(memory.raw[turn]);
    if constexpr (Out::SUMS)
      of_row += rows.sum();
    memory.barriers.wait_empty(slot);
    uint4 *to = memory.slots[slot.place];
    rows.template store<Shape::PARTS>(thread, to);
    columns.template store<Shape::PARTS>(thread, to + Shape::PARTS * UNITS * Shape::M);
    hopper::publish();
    __syncwarp();
    if (thread % 32 == 0)
      hopper::barrier_arrive(&memory.barriers.full[slot.place]);
    slot.advance(Shape::SLOTS);
    if constexpr (Out::SUMS)
      if (own.is_last()) {
        if (own.tile.n == 0)
          store_sums_of_rows<Shape>(w, out, own.tile, thread, of_row, memory.of_rows);
        of_row = 0;
      }
    own.advance(w);
  }
}

/* ---- Consumers ---- */

/* c = a * b, or c += a * b if `add`, with both in shared memory: 64 rows by 128 columns, 16 deep. */
DEVICE void multiply_units(float (&c)[64], uint64_t a, uint64_t b, uint32_t add) {
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
               "{" NUMBERS_TO_63 "}, %64, %65, add, 1, 1, 0, 0;\n}"
               : SUMS_64(0)
               : "l"(a), "l"(b), "r"(add));
}

/* The descriptor of units of `rows` rows: units are rows * 16 bytes apart, eight rows 128 bytes. */
DEVICE uint64_t units_at(const uint4 *first, int32_t rows) {
  return (uint64_t)(shared_address(first) >> 4) | (uint64_t)rows << 16 | (uint64_t)8 << 32;
}

/* Multiplies a slot: small products first. a, b: of the highest parts. */
template <class Shape, int COUNT> DEVICE void multiply_slot(float (&c)[COUNT], uint64_t a, uint64_t b) {
  constexpr int PARTS = Shape::PARTS;
  UNROLLED_FOR (int sum = PARTS - 1; sum >= 0; sum--)
    UNROLLED_FOR (int i = 0; i <= sum; i++)
      UNROLLED_FOR (int step = 0; step < UNITS / 2; step++)
        multiply_units(c, a + (i * UNITS + 2 * step) * Shape::M, b + ((sum - i) * UNITS + 2 * step) * Shape::N,
                       sum < PARTS - 1 || i > 0 || step > 0);
}

/* Stores the sums of a thread. The loop is not unrolled: the code of the activations would not fit into the cache of
 * instructions, and took ten times as long. So each round moves the sums by 16 registers. It reads the inputs of the next
 * round before it stores. */
template <class Out, int COUNT>
DEVICE void store_tile(const groups_work &w, const Out &out, const groups_tile &tile, int32_t row, int32_t column,
                       float (&sums)[COUNT]) {
  constexpr int SOME = 4; /* pairs of columns of a round */
  typename Out::needed needed[SOME][2], next[SOME][2] = {};
  const auto read = [&](int32_t round) {
    UNROLLED_FOR (int i = 0; i < SOME; i++)
      UNROLLED_FOR (int j = 0; j < 2; j++) {
        const int32_t m = tile.m + row + 8 * j, n = tile.n + 8 * (round * SOME + i) + column;
        if (m < w.m_count && n < w.n_count)
          next[i][j] = out.need(m, n, n + 1 < w.n_count);
      }
  };
  read(0);
  ROLLED_FOR (int32_t round = 0; round < COUNT / 4 / SOME; round++) {
    UNROLLED_FOR (int i = 0; i < SOME; i++)
      UNROLLED_FOR (int j = 0; j < 2; j++)
        needed[i][j] = next[i][j];
    if (round + 1 < COUNT / 4 / SOME)
      read(round + 1);
    UNROLLED_FOR (int i = 0; i < SOME; i++)
      UNROLLED_FOR (int j = 0; j < 2; j++) {
        const int32_t m = tile.m + row + 8 * j, n = tile.n + 8 * (round * SOME + i) + column;
        if (m < w.m_count && n < w.n_count)
          out.store(tile.z, m, n, sums[4 * i + 2 * j], sums[4 * i + 2 * j + 1], n + 1 < w.n_count, needed[i][j]);
      }
    UNROLLED_FOR (int i = 0; i < COUNT - 4 * SOME; i++)
      sums[i] = sums[i + 4 * SOME];
  }
}

template <class Shape, class Out> DEVICE void consume(const groups_work &w, const Out &out, groups_memory<Shape> &memory) {
  constexpr int COUNT = Shape::N / 2, PARTS = Shape::PARTS;
  const int32_t lane = (int32_t)threadIdx.x % 32, own_row = (int32_t)threadIdx.x / 32 * 16 + lane / 4;
  float parts[COUNT] = {};
  ring slot;
  for (int32_t number = (int32_t)blockIdx.x; number < w.tiles; number += (int32_t)gridDim.x) {
    const groups_tile tile = tile_of<Shape>(w, number);
    float sums[COUNT] = {};
    for (int32_t l = tile.begin; l < tile.end; l += DEPTH) {
      const uint4 *from = memory.slots[slot.place];
      const uint64_t a = units_at(from, Shape::M) + (threadIdx.x / 128) * 64;
      memory.barriers.wait_full(slot);
      hopper::multiply_begin();
      multiply_slot<Shape>(parts, a, units_at(from + PARTS * UNITS * Shape::M, Shape::N));
      hopper::multiply_commit();
      hopper::multiply_wait<0>();
      if (lane == 0)
        hopper::barrier_arrive(&memory.barriers.empty[slot.place]);
      UNROLLED_FOR (int i = 0; i < COUNT; i++) {
        asm volatile("" : "+f"(parts[i]));
        sums[i] += parts[i];
      }
      slot.advance(Shape::SLOTS);
    }
    store_tile(w, out, tile, own_row, lane % 4 * 2, sums);
  }
}

#endif

template <class Shape, class A, class B, class Out>
__global__ void __launch_bounds__(Shape::THREADS, 1)
    multiply_tiles(const __grid_constant__ groups_work w, const __grid_constant__ A a, const __grid_constant__ B b,
                   const __grid_constant__ Out out) {
#ifdef HOPPER
  extern __shared__ __align__(128) uint8_t shared[];
  groups_memory<Shape> &memory = *(groups_memory<Shape> *)shared;
  if (threadIdx.x == 0) {
    memory.barriers.begin(Shape::SLOTS, Shape::PRODUCERS / 32, Shape::CONSUMERS / 32);
    hopper::barrier_init_done();
  }
  __syncthreads();
  if (threadIdx.x >= Shape::CONSUMERS) {
    hopper::registers_down<104>();
    produce<Shape>(w, a, b, out, memory);
  } else {
    hopper::registers_up<152>();
    consume<Shape>(w, out, memory);
  }
#endif
}

} // namespace

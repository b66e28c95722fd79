/* SPDX-License-Identifier: MIT */
/* What the two kernels of gradient_tensor.cu share: the places, pieces and filters of a thread, the start of a block, the
 * split of a number into two tf32 numbers, and the stores of a warp's sums. */
#pragma once

#include "gradient_tensor_cut.cuh"

namespace {

/* Where a chunk begins: its image, and its first row and column of outputs. */
struct position {
  int32_t image, p0, q0;
};
DEVICE position position_of(const gradient_arguments &a, int64_t number) {
  const int32_t image = (int32_t)(number / a.chunks);
  const chunk of = chunk_of(a, (int32_t)(number - (int64_t)image * a.chunks), 0, a.p.out_height);
  return {image, of.p0, of.q0};
}
DEVICE void advance(const gradient_arguments &a, position &at) {
  at.q0 += a.columns;
  if (at.q0 >= a.p.out_width) {
    at.q0 = 0;
    at.p0 += a.rows;
  }
  if (at.p0 >= a.p.out_height) {
    at.p0 = 0;
    at.image++;
  }
}
DEVICE chunk chunk_at(const gradient_arguments &a, position at) {
  return {at.p0, min(a.rows, a.p.out_height - at.p0), at.q0, min(a.columns, a.p.out_width - at.q0)};
}

/* The offsets of a quad from the first place, in bytes. dz: in the gradients. x: in the samples. */
struct quad {
  int32_t dz, x;
};

DEVICE const float *bytes_after(const float *p, int32_t bytes) {
  return (const float *)((const char *)p + bytes);
}

/* A thread's part of the sums of its warp. */
template <int FILTERS, int TAPS, int GROUPS> struct warp_sums {
  float of[GROUPS * TAPS][FILTERS][4];
  int32_t offsets[GROUPS][2]; /* offsets of the thread's pieces, in bytes */
};

/* Splits a number into its first bits and the rest. If not SPLIT, rounds it to tf32: instructions ignore the lower bits. */
template <bool SPLIT> DEVICE void part(float number, uint32_t &first, uint32_t &rest) {
  if (SPLIT) {
    first = __float_as_uint(number) & 0xffffe000;
    rest = __float_as_uint(number - __uint_as_float(first));
  } else {
    first = __float_as_uint(number) + 0x1000;
    rest = 0;
  }
}

/* The work of a thread. */
struct thread_place {
  int32_t tile, block, group; /* its block's tile, number and group */
  int32_t n, m, k, lane;      /* its warp's number in the directions of pieces, filters and places; its lane */
  int32_t piece, filter;      /* the first piece and filter of the warp, counted within the block */
  int32_t first, filters;     /* the first filter of the block, and the number of filters */
};
template <int FILTERS, int GROUPS> DEVICE thread_place place_of_thread(const gradient_arguments &a) {
  thread_place at;
  const int32_t warp = (int32_t)threadIdx.x / 32, row = warp / a.warps_n, block = (int32_t)blockIdx.x / a.tiles;
  at.tile = (int32_t)blockIdx.x - block * a.tiles;
  at.group = block / a.blocks;
  at.block = block - at.group * a.blocks;
  at.n = warp - row * a.warps_n;
  at.k = row / a.warps_m;
  at.m = row - at.k * a.warps_m;
  at.lane = (int32_t)threadIdx.x % 32;
  at.piece = at.n * GROUPS * LANES;
  at.filter = 8 * FILTERS * at.m;
  const int32_t of_group = a.p.filters / a.p.groups, of_block = 1 << a.filters_log2;
  at.first = at.group * of_group + at.block * of_block;
  at.filters = min(of_block, of_group - at.block * of_block);
  return at;
}

/* Fills the table of quads. Fills the table of pieces with the offsets of their samples from the first channel, in bytes.
 * count: pieces of the block. */
template <int TAPS>
DEVICE void make_tables(const gradient_arguments &a, int32_t first_piece, int32_t count, int32_t first_channel, quad *quads,
                        int32_t *pieces) {
  const gconv_layer_problem &p = a.p;
  const int32_t channels = p.channels / p.groups;
  for (int32_t i = (int32_t)threadIdx.x; i < QUADS * a.steps; i += (int32_t)blockDim.x) {
    const int32_t line = i / (a.columns / 4), column = 4 * (i - line * (a.columns / 4));
    quads[i] = {4 * (line * a.dz_pitch + column), 4 * (line * p.stride_y * a.x_pitch + column * p.stride_x)};
  }
  for (int32_t i = (int32_t)threadIdx.x; i < count; i += (int32_t)blockDim.x) {
    const piece own = piece_of(a, first_piece + i);
    const bool there = own.c < min(channels, first_channel + a.channels);
    const int32_t x = (own.c - first_channel) * a.x_plane + own.r * p.dilation_y * a.x_pitch + own.s * TAPS * p.dilation_x;
    pieces[i] = there ? 4 * x : 0; /* for padding, any offset does: its sums are not used */
  }
}

/* The work of a block, and its arrays in shared memory. */
struct block_work {
  thread_place own;
  const quad *quads; /* the tables */
  const int32_t *pieces;
  float *stages; /* a.stages of them, a.floats each */
  stage_source source;
  position next; /* the chunk that is copied next */
  int32_t count; /* number of chunks */
};

/* Fills the tables, and initialises a barrier for each stage that the copy engine fills. */
template <int FILTERS, int TAPS, int GROUPS>
DEVICE block_work begin_block(const gradient_arguments &a, float *shared, uint64_t *arrived) {
  block_work work;
  work.own = place_of_thread<FILTERS, GROUPS>(a);
  const int32_t pieces_of_block = a.warps_n * GROUPS * LANES, first_piece = work.own.tile * pieces_of_block;
  const int32_t channels = a.p.channels / a.p.groups, first_channel = piece_of(a, first_piece).c / a.inner * a.inner;
  const int64_t all = (int64_t)a.chunks * a.cases, begin = all * blockIdx.y / gridDim.y;
  quad *quads = (quad *)shared;
  int32_t *pieces = (int32_t *)(quads + QUADS * a.steps);
  make_tables<TAPS>(a, first_piece, pieces_of_block, first_channel, quads, pieces);
#ifdef COPY_ENGINE
  if (a.boxes && threadIdx.x == 0) {
    UNROLLED_FOR (int i = 0; i < STAGES; i++)
      hopper::barrier_init(&arrived[i], 1);
    hopper::barrier_init_done();
  }
#endif
  __syncthreads();
  work.quads = quads;
  work.pieces = pieces;
  work.stages = shared + a.tables;
  work.source = {0, work.own.first, work.own.filters, work.own.group * channels + first_channel,
                 min(a.channels, channels - first_channel)};
  work.next = position_of(a, begin);
  work.count = (int32_t)(all * (blockIdx.y + 1) / gridDim.y - begin);
  return work;
}

/* Returns sums of 0, with the offsets of the thread's pieces. */
template <int FILTERS, int TAPS, int GROUPS> DEVICE warp_sums<FILTERS, TAPS, GROUPS> begin_sums(const block_work &work) {
  warp_sums<FILTERS, TAPS, GROUPS> sums = {};
  const int32_t *pieces = work.pieces + work.own.piece + work.own.lane / 4;
  UNROLLED_FOR (int j = 0; j < GROUPS; j++)
    UNROLLED_FOR (int half = 0; half < 2; half++)
      sums.offsets[j][half] = pieces[LANES * j + 8 * half];
  return sums;
}

/* Returns the offset of the thread's first sample in a stage, in floats. */
DEVICE int32_t first_samples(const gradient_arguments &a, const thread_place &own) {
  return a.dz_floats + a.shift + own.lane % 4 * a.p.stride_x;
}

template <int FILTERS, int TAPS, int GROUPS>
DEVICE void store(const gradient_arguments &a, const thread_place &at, const warp_sums<FILTERS, TAPS, GROUPS> &sums) {
  constexpr int COUNT = GROUPS * TAPS * FILTERS * 4;
  const int32_t warp = ((int32_t)blockIdx.x * a.warps_m + at.m) * a.warps_n + at.n;
  float *to = a.leaves + blockIdx.y * a.leaf + (int64_t)warp * COUNT * 32 + at.lane;
  UNROLLED_FOR (int i = 0; i < COUNT; i++)
    to[32 * i] = sums.of[i / (4 * FILTERS)][i / 4 % FILTERS][i % 4];
}

} // namespace

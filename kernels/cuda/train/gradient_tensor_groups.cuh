/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution's weights by Hopper's warpgroups (wgmma), which multiply twice as fast as single warps. As
 * in gradient_tensor.cu, each number becomes two of tf32. Tensor cores sum the products of 16 places. These sums are added
 * as float32, and each block stores a leaf.
 *
 *     an instruction: 64 columns x 64 filters x 8 places        a warp: 3 taps of 16 columns, and 64 filters
 *         columns: from registers of four warps                 a block: 12 warps, with different columns and the same
 *         filters: from shared memory, as they were copied               gradients
 *
 * Samples are loaded into registers from any place, so that a tap needs no copy of its own. An operand in shared memory
 * consists of units of 16 bytes. A unit is a quad: four neighbouring places of a filter. So the copy engine copies the
 * gradients quad by quad, a quad of all 64 filters at a time. Tensor cores ignore the bits that tf32 lacks. So the copy
 * itself is the first number of a gradient. The second number is the rest, which tf32 truncates. All threads together
 * compute the rests of a stage before it is used.
 */
#pragma once

#include "gradient_tensor_parts.cuh"

namespace {

#ifdef HOPPER

/* A thread computes the rests of every sixth quad of a filter. */
enum : int { QUAD_PARTS = WARPGROUPS * WARPGROUP / BLOCK_FILTERS };
struct quad_share {
  int32_t filter, part;
};

/* Starts to fill a stage: one box has all samples, each other box a quad of all filters. One thread of each warp calls it,
 * and starts some of the boxes. */
DEVICE void fill_by_quads(const gradient_arguments &a, const stage_source &source, chunk of, float *stage,
                          uint64_t *arrived) {
  if (threadIdx.x == 0) {
    hopper::barrier_expect(arrived, 4 * (a.dz_floats + a.channels * a.x_plane));
    copy_box(a.x_map, of.q0 * a.p.stride_x - a.p.pad_left - a.shift, of.p0 * a.p.stride_y - a.p.pad_top, source.channel,
             (int32_t)source.image, stage + a.dz_floats, arrived);
  }
  const int32_t wide = a.columns / 4;
  ROLLED_FOR (int32_t i = (int32_t)threadIdx.x / 32; i < QUADS * a.steps; i += GROUP_WARPS) {
    const int32_t row = i / wide;
    copy_box(a.dz_map, of.q0 + 4 * (i - row * wide), of.p0 + row, source.filter, (int32_t)source.image,
             stage + i * 4 * BLOCK_FILTERS, arrived);
  }
}

/* Stores the rests of a stage's gradients. Returns the sum of the thread's gradients, a part of the bias. */
DEVICE float store_rests(const gradient_arguments &a, quad_share own, const float *stage, float *rests) {
  float sum = 0;
  for (int32_t i = own.part; i < QUADS * a.steps; i += QUAD_PARTS) {
    const int32_t place = 4 * (BLOCK_FILTERS * i + own.filter);
    const float4 four = *(const float4 *)(stage + place);
    uint32_t first;
    uint4 rest;
    part<true>(four.x, first, rest.x);
    part<true>(four.y, first, rest.y);
    part<true>(four.z, first, rest.z);
    part<true>(four.w, first, rest.w);
    *(uint4 *)(rests + place) = rest;
    sum += (four.x + four.y) + (four.z + four.w);
  }
  hopper::publish();
  return sum;
}

/* Adds a stage. `gradients` and `rests` are descriptors, in units of 16 bytes: 64 for a quad of all filters. x: the first
 * sample. */
template <int TAPS, int GROUPS>
DEVICE void add_stage_by_warpgroups(int32_t steps, uint64_t gradients, uint64_t rests, const float *x, const quad *quads,
                                    warp_sums<8, TAPS, GROUPS> &sums) {
  ROLLED_FOR (int32_t step = 0; step < steps; step++, gradients += QUADS * BLOCK_FILTERS, rests += QUADS * BLOCK_FILTERS)
    UNROLLED_FOR (int i = 0; i < GROUPS * TAPS; i++) {
      const int4 one = *(const int4 *)(quads + QUADS * step), other = *(const int4 *)(quads + QUADS * step + 2);
      const int32_t some[QUADS] = {one.y, one.w, other.y, other.w};
      uint32_t first[2][4], rest[2][4];
      UNROLLED_FOR (int j = 0; j < 8; j++) /* columns g and g + 8 of each quad */
        part<true>(bytes_after(x, some[j / 2] + sums.offsets[i / TAPS][j % 2])[i % TAPS], first[j / 4][j % 4],
                   rest[j / 4][j % 4]);
      float added[32];
      hopper::multiply_begin();
      UNROLLED_FOR (int pair = 0; pair < 2; pair++) {
        const uint64_t of_pair = 2 * BLOCK_FILTERS * pair;
        hopper::multiply_tf32(added, rest[pair], gradients + of_pair, pair);
        hopper::multiply_tf32(added, first[pair], rests + of_pair, 1);
        hopper::multiply_tf32(added, first[pair], gradients + of_pair, 1);
      }
      hopper::multiply_commit();
      hopper::multiply_wait<0>();
      UNROLLED_FOR (int j = 0; j < 32; j++)
        sums.of[i][j / 4][j % 4] += added[j];
    }
}

/* Returns the descriptor of the first two quads at an address: quads are 64 x 16 bytes apart, groups of 8 filters 8 x 16. */
DEVICE uint64_t descriptor_of_quads(const float *at) {
  return shared_address(at) >> 4 | (uint64_t)BLOCK_FILTERS << 16 | (uint64_t)8 << 32;
}

#endif

/* multiply_gradients() by warpgroups. */
template <int TAPS, int GROUPS>
__global__ void __launch_bounds__(32 * GROUP_WARPS, 1) multiply_by_warpgroups(const __grid_constant__ gradient_arguments a) {
#ifdef HOPPER
  hopper::admit_kernel_behind();
  extern __shared__ __align__(128) float shared[];
  __shared__ uint64_t arrived[STAGES];
  block_work work = begin_block<8, TAPS, GROUPS>(a, shared, arrived);
  const thread_place &own = work.own;
  float *stages = work.stages, *rests = stages + a.stages * a.floats;
  /* Fills a stage with the next chunk. */
  const auto fill = [&](int32_t number, int32_t into) {
    work.source.image = work.next.image;
    if (threadIdx.x % 32 == 0 && number < work.count)
      fill_by_quads(a, work.source, chunk_at(a, work.next), stages + into * a.floats, &arrived[into]);
    advance(a, work.next);
  };
  for (int32_t i = 0; i < a.stages - 1; i++)
    fill(i, i);

  warp_sums<8, TAPS, GROUPS> sums = begin_sums<8, TAPS, GROUPS>(work);
  const int32_t x_place = first_samples(a, own);
  const quad_share share = {(int32_t)threadIdx.x % BLOCK_FILTERS, (int32_t)threadIdx.x / BLOCK_FILTERS};
  float bias = 0;
  int32_t of = 0;
  uint32_t parity = 0;
  ROLLED_FOR (int32_t i = 0; i < work.count; i++) {
    fill(i + a.stages - 1, of == 0 ? a.stages - 1 : of - 1);
    hopper::barrier_wait(&arrived[of], parity);
    const float *stage = stages + of * a.floats;
    bias += store_rests(a, share, stage, rests);
    __syncthreads();
    add_stage_by_warpgroups<TAPS, GROUPS>(a.steps, descriptor_of_quads(stage), descriptor_of_quads(rests), stage + x_place,
                                          work.quads, sums);
    parity ^= of + 1 == a.stages;
    of = of + 1 == a.stages ? 0 : of + 1;
    __syncthreads();
  }
  store(a, own, sums);
  stages[threadIdx.x] = bias;
  __syncthreads();
  if (own.tile == 0 && (int32_t)threadIdx.x < own.filters) {
    for (int32_t i = 1; i < QUAD_PARTS; i++)
      bias += stages[i * BLOCK_FILTERS + threadIdx.x];
    a.leaves[(blockIdx.y + 1) * a.leaf - a.p.filters + own.first + threadIdx.x] = bias;
  }
#endif
}

} // namespace

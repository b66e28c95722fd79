/* SPDX-License-Identifier: MIT */
/*
 * The products of dense_product.cuh by Hopper's warpgroups (wgmma), which multiply twice as fast as single warps: for large
 * matrices. A block has two warpgroups and computes a tile of 128 x 128 sums; a warpgroup has 64 rows of it.
 *
 *     global memory --cp.async--> raw stages of a and b         a: raw stage --> registers, as high and low parts
 *     (three stages of DEPTH values of l)                       b: raw stage --> high and low parts in shared memory
 *
 * Parts are as in dense_math.cuh. The parts of b lie as wgmma wants them: quads of four values of l, each with 128 columns
 * of 16 bytes. While tensor cores multiply a stage, the warps cut the next one. The sums of a stage are added as float32.
 */
#pragma once

#include "../hopper/instructions.cuh"
#include "dense_product.cuh"

namespace {

struct dense_groups {
  enum { M = 128, N = 128, THREADS = 256, STAGES = 3, QUADS = DEPTH / 4, STEPS = DEPTH / 8 };
  enum { CUT_FLOATS = QUADS * N * 4 }; /* the high parts of a stage of b, or the low ones */
};

/* Floats of a row of a raw stage: there are no bank conflicts, neither of reads for registers nor of those for cutting. */
template <bool BY_L> constexpr int GROUPS_PITCH = BY_L ? 128 + 8 : DEPTH + 4;
template <bool BY_L> using groups_stage = dense_stage<128, dense_groups::THREADS, BY_L, GROUPS_PITCH<BY_L>>;

template <bool THREE, bool A_BY_L, bool B_BY_L> constexpr int dense_groups_bytes() {
  return (int)sizeof(float) *
         ((int)dense_groups::STAGES * ((int)groups_stage<A_BY_L>::FLOATS + (int)groups_stage<B_BY_L>::FLOATS) +
          2 * (THREE ? 2 : 1) * dense_groups::CUT_FLOATS);
}

#ifdef HOPPER

#define INLINED __attribute__((always_inline)) /* a function call would wait for tensor cores */

DEFINE_MULTIPLY_HELD(multiply_tf32_wide, 64, "m64n128k8.f32.tf32.tf32", "", NUMBERS_TO_63, SUMS_64, "%64, %65, %66, %67",
                     "%68", "%69")

/* A lane's numbers of a, for a stage. */
template <bool THREE> struct dense_held { uint32_t high[dense_groups::STEPS][4], low[THREE ? dense_groups::STEPS : 1][4]; };

/* Cuts a number into its high and low part; with one part, rounds it. */
template <bool THREE> DEVICE void cut_number(float x, uint32_t &high, uint32_t &low) {
  if (THREE)
    three_tf32::cut(x, high, low);
  else
    high = one_tf32::rounded(x);
}

/* Cuts the columns of a stage of b; then publishes them. */
template <bool THREE, bool BY_L> DEVICE void cut_columns(const float *raw, float *cut) {
  constexpr int PITCH = GROUPS_PITCH<BY_L>;
  const int column = (int)threadIdx.x % 128, first = (int)threadIdx.x / 128;
  UNROLLED_FOR (int quad = first; quad < dense_groups::QUADS + first; quad += 2) {
    float four[4];
    uint32_t high[4], low[4] = {};
    if constexpr (BY_L)
      UNROLLED_FOR (int i = 0; i < 4; i++)
        four[i] = raw[(4 * quad + i) * PITCH + column];
    else
      load_four(raw + column * PITCH + 4 * quad, four);
    UNROLLED_FOR (int i = 0; i < 4; i++)
      cut_number<THREE>(four[i], high[i], low[i]);
    float *to = cut + (quad * 128 + column) * 4;
    *(uint4 *)to = {high[0], high[1], high[2], high[3]};
    if (THREE)
      *(uint4 *)(to + dense_groups::CUT_FLOATS) = {low[0], low[1], low[2], low[3]};
  }
  hopper::publish();
}

/* Reads a lane's numbers of a stage of a, and adds those of each of its two rows to of_rows. row: the first row. */
template <bool THREE, bool BY_L>
DEVICE void hold_rows(const float *raw, int row, int four, dense_held<THREE> &held, float (&of_rows)[2]) {
  constexpr int PITCH = GROUPS_PITCH<BY_L>;
  UNROLLED_FOR (int step = 0; step < dense_groups::STEPS; step++)
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      const int m = row + i % 2 * 8, l = 8 * step + four + i / 2 * 4;
      const float x = raw[BY_L ? l * PITCH + m : m * PITCH + l];
      uint32_t low = 0;
      of_rows[i % 2] += x;
      cut_number<THREE>(x, held.high[step][i], low);
      if (THREE)
        held.low[step][i] = low;
    }
}

/* Starts parts = the products of a stage. cut: the descriptor of the columns. */
template <bool THREE> DEVICE void start_stage_products(const dense_held<THREE> &held, uint64_t cut, float (&parts)[64]) {
  constexpr uint64_t LOW = dense_groups::CUT_FLOATS / 4, STEP = 2 * 128;
  hopper::multiply_begin();
  UNROLLED_FOR (int step = 0; step < dense_groups::STEPS; step++) {
    if (THREE) {
      multiply_tf32_wide(parts, held.low[step], cut + STEP * step, step > 0);
      multiply_tf32_wide(parts, held.high[step], cut + LOW + STEP * step, 1);
    }
    multiply_tf32_wide(parts, held.high[step], cut + STEP * step, THREE || step > 0);
  }
  hopper::multiply_commit();
}

/* Waits for the products, and adds them. */
template <bool THREE> DEVICE void add_stage_products(const dense_held<THREE> &held, float (&parts)[64], float (&sums)[64]) {
  hopper::multiply_wait<0>();
  UNROLLED_FOR (int step = 0; step < dense_groups::STEPS; step++)
    UNROLLED_FOR (int i = 0; i < 4; i++) /* these registers must not be used for anything else before */
      asm volatile("" ::"r"(held.high[step][i]), "r"(held.low[THREE ? step : 0][i]));
  UNROLLED_FOR (int i = 0; i < 64; i++) {
    asm volatile("" : "+f"(parts[i]));
    sums[i] += parts[i];
  }
}

#endif

template <bool THREE, bool A_BY_L, bool B_BY_L, class Out>
__global__ void __launch_bounds__(dense_groups::THREADS, 1)
    multiply_dense_by_groups(dense_matrix a, dense_matrix b, Out out, int32_t length, int32_t part) {
#ifdef HOPPER
  using shape = dense_groups;
  using stage_a = groups_stage<A_BY_L>;
  using stage_b = groups_stage<B_BY_L>;
  constexpr int CUT = (THREE ? 2 : 1) * shape::CUT_FLOATS, STAGES = shape::STAGES;
  extern __shared__ __align__(128) float stages[];
  float *const cuts = stages, *const raw_a = stages + 2 * CUT, *const raw_b = raw_a + STAGES * stage_a::FLOATS;
  const int32_t first_m = (int32_t)blockIdx.y * shape::M, first_n = (int32_t)blockIdx.x * shape::N;
  const int32_t begin = (int32_t)blockIdx.z * part, end = min(length, begin + part),
                count = (end - begin + DEPTH - 1) / DEPTH;
  const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * 16 + lane / 4, four = lane % 4;
  const uint64_t columns = shared_address(cuts) >> 4 | (uint64_t)128 << 16 | (uint64_t)8 << 32;
  float sums[64] = {}, parts[64] = {}, of_rows[2] = {};
  dense_held<THREE> held[2];
  const auto start_stage = [&](int32_t i) {
    if (i < count) {
      stage_a::fill(raw_a + i % STAGES * stage_a::FLOATS, a, first_m, begin + i * DEPTH, end);
      stage_b::fill(raw_b + i % STAGES * stage_b::FLOATS, b, first_n, begin + i * DEPTH, end);
    }
    commit_copies();
  };
  const auto cut_stage = [&](int32_t i, dense_held<THREE> &to) INLINED {
    cut_columns<THREE, B_BY_L>(raw_b + i % STAGES * stage_b::FLOATS, cuts + i % 2 * CUT);
    hold_rows<THREE, A_BY_L>(raw_a + i % STAGES * stage_a::FLOATS, row, four, to, of_rows);
  };
  UNROLLED_FOR (int32_t i = 0; i < STAGES; i++)
    start_stage(i);
  await_copies<STAGES - 1>();
  __syncthreads();
  cut_stage(0, held[0]);
  await_copies<STAGES - 2>();
  __syncthreads();
  /* Stage i is cut, and stage i + 1 is there. */
  const auto take_stage = [&](int32_t i, const dense_held<THREE> &own, dense_held<THREE> &next) INLINED {
    start_stage_products<THREE>(own, columns + i % 2 * (CUT / 4), parts);
    start_stage(i + STAGES);
    if (i + 1 < count)
      cut_stage(i + 1, next);
    add_stage_products<THREE>(own, parts, sums);
    await_copies<STAGES - 2>();
    __syncthreads();
  };
  for (int32_t i = 0; i < count; i += 2) {
    take_stage(i, held[0], held[1]);
    if (i + 1 < count)
      take_stage(i + 1, held[1], held[0]);
  }
  UNROLLED_FOR (int n = 0; n < 16; n++)
    UNROLLED_FOR (int j = 0; j < 2; j++) {
      const int32_t at_m = first_m + row + 8 * j, at_n = first_n + 8 * n + 2 * four;
      if (at_m < a.count && at_n < b.count)
        out.store(at_m, at_n, sums[4 * n + 2 * j], sums[4 * n + 2 * j + 1], at_n + 1 < b.count);
    }
  if constexpr (Out::ROWS)
    store_sums_of_rows(out, first_m + row, a.count, of_rows);
#endif
}

} // namespace

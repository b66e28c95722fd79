/* SPDX-License-Identifier: MIT */
/* The kernel for batches of several slices: many blocks take steps together, all with the same cases. */
#pragma once

#include "resident_tiles.cuh"

namespace {

enum {
  ADDED = 32,             /* threads that share the leaves of a parameter */
  QUADS = WORKING / ADDED /* quads of parameters whose leaves a block adds at a time */
};

/* The data that blocks share, in device memory. `leaves` and `changed` have the layout of weights in shared memory. */
struct together {
  int32_t slices;
  int32_t places;         /* floats of the weights in shared memory, a multiple of four */
  const int32_t *numbers; /* the number of the parameter in each place; -1: none */
  const uint8_t *are_weights;
  float *leaves;     /* leaves of each slice */
  float *changed;    /* two copies of the parameters: after even steps, and after odd steps */
  double *losses;    /* losses of each slice */
  uint32_t *hits;    /* hits of each slice */
  unsigned *arrived; /* the counter of the barrier */
  float *best;
  double factor, best_loss; /* best_loss: the smallest loss * factor of earlier calls */
};

/* The bits of a NaN. They mark a parameter that is not yet written. A parameter that becomes NaN is written as
 * 0x7fffffff. */
constexpr uint32_t PENDING = 0xffffffff;

/* Waits for all blocks, at barrier number `round`, from 1 on. All that blocks wrote before is visible afterwards. */
__device__ void sync_grid(const together &of, unsigned round) {
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned arrived = 0;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(of.arrived) : "memory");
    while (arrived < round * gridDim.x)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(of.arrived) : "memory");
  }
  __syncthreads();
}

/* Loads and stores of numbers that other blocks may store or load at the same time. */
__device__ __forceinline__ float4 load_shared_out(const float4 *at) {
  float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(at)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_shared_out(float *at, float value) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(at), "f"(value) : "memory");
}
__device__ __forceinline__ bool is_pending(float4 v) {
  return __float_as_uint(v.x) == PENDING || __float_as_uint(v.y) == PENDING || __float_as_uint(v.z) == PENDING ||
         __float_as_uint(v.w) == PENDING;
}

/* Initialises the barrier and `changed` before the first step. */
__global__ void prepare_grid(const __grid_constant__ together of) {
  const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i == 0)
    *of.arrived = 0;
  if (i < of.places)
    of.changed[i] = of.changed[of.places + i] = of.numbers[i] >= 0 ? __uint_as_float(PENDING) : 0.0f;
}

/* Copies the parameters after step i to shared memory as soon as they are written. No barrier is needed: PENDING marks the
 * numbers that are not yet written. */
__device__ void await_parameters(const together &of, int32_t i) {
  enum { TOGETHER = 4 };
  const float4 *from = (const float4 *)(of.changed + (i & 1) * (int64_t)of.places);
  const int32_t quads = of.places / 4;
  for (int32_t first = (int32_t)threadIdx.x; first < quads; first += TOGETHER * WORKING) {
    float4 v[TOGETHER];
    bool pending = true;
    while (pending) {
      pending = false;
      UNROLLED_FOR (int e = 0; e < TOGETHER; e++)
        v[e] = load_shared_out(from + min(first + e * WORKING, quads - 1));
      UNROLLED_FOR (int e = 0; e < TOGETHER; e++)
        pending = pending || is_pending(v[e]);
    }
    UNROLLED_FOR (int e = 0; e < TOGETHER; e++)
      if (first + e * WORKING < quads)
        *(float4 *)&shared[4 * (first + e * WORKING)] = v[e];
  }
}

/* Sets numbers[i] to the number of the parameter in place i, or to -1. */
__global__ void number_places(const __grid_constant__ resident_net net, int32_t places, int32_t *numbers) {
  for (int32_t i = (int32_t)threadIdx.x; i < places; i += (int32_t)blockDim.x)
    numbers[i] = -1;
  __syncthreads();
  for_parameters<1>(net, [&](int32_t at, int64_t i) { numbers[at] = (int32_t)i; });
}

/* Computes the leaf, the loss and the hits of a slice. The last warps compute the losses of cases while the others begin
 * with the gradients of weights: in a small network, there are fewer tasks than warps. */
__device__ void find_leaf(const resident_net &net, int32_t x, int32_t cases, float *leaf, double *loss, uint32_t *hits) {
  constexpr int ROOM = SLICE, GROUPS = SLICE_GROUPS;
  __shared__ double losses[GROUPS];
  __shared__ uint32_t are_hits[GROUPS];
  run_slice_forward(net, x, cases);
  run_slice_backward(net);
  const int32_t group = warp_of() - (WORKERS - GROUPS);
  if (group >= 0) {
    const int32_t n = 32 * group + lane_of();
    const float *y = shared + net.y + n;
    const bool there = n < cases;
    const double own = there ? loss_from(net, loss_source<ROOM>(net, x, n, y, PITCH<ROOM>)) : 0;
    const uint32_t hit = __ballot_sync(0xffffffff, there && net.classes && hit_of<ROOM>(net, x, n, y, PITCH<ROOM>));
    const double sum = add_lanes(own, cases - 32 * group);
    if (lane_of() == 0) {
      losses[group] = sum;
      are_hits[group] = (uint32_t)__popc(hit);
    }
  }
  const auto use = [&](const resident_layer &l, int32_t, int32_t k, int32_t c, float gradient) {
    __stcg(&leaf[l.w + k * l.w_pitch + c], gradient);
  };
  find_gradients<ROOM, 1>(net, net.count - 1, x, cases, 0, use);
  __syncthreads();
  if (threadIdx.x == 0) {
    UNROLLED_FOR (int step = 1; step < GROUPS; step *= 2)
      UNROLLED_FOR (int i = 0; i + step < GROUPS; i += 2 * step)
        if (32 * (i + step) < cases)
          losses[i] += losses[i + step];
    *loss = losses[0];
    *hits = 0;
    UNROLLED_FOR (int i = 0; i < GROUPS; i++)
      *hits += are_hits[i];
  }
}

__device__ __forceinline__ float4 add(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

/* Sums up to GCONV_RESIDENT_SLICES / ADDED leaves by a tree, in groups of four; levels[b] is the sum of 2^b groups. */
__device__ float4 add_leaves(const float4 *leaves, int64_t apart, int32_t count) {
  float4 levels[4] = {}, sum = {};
  const int32_t groups = (count + 3) / 4;
  for (int32_t g = 0; g < groups; g++) {
    float4 leaf[4] = {};
    UNROLLED_FOR (int i = 0; i < 4; i++)
      if (g * 4 + i < count)
        leaf[i] = __ldcg(leaves + (g * 4 + i) * apart);
    sum = g * 4 + 1 < count ? add(leaf[0], leaf[1]) : leaf[0];
    if (g * 4 + 2 < count)
      sum = add(sum, g * 4 + 3 < count ? add(leaf[2], leaf[3]) : leaf[2]);
    bool done = false;
    UNROLLED_FOR (int b = 0; b < 4; b++) {
      if (!done && (g >> b & 1))
        sum = add(levels[b], sum);
      else if (!done) {
        levels[b] = sum;
        done = true;
      }
    }
  }
  bool any = false;
  UNROLLED_FOR (int b = 0; b < 4; b++)
    if (groups >> b & 1) {
      sum = any ? add(levels[b], sum) : levels[b];
      any = true;
    }
  return sum;
}

/* By one warp: adds the losses and hits of all slices. Shuffles add the losses of 32 slices at a time, then these sums. */
__device__ gconv_learn_outcome sum_slices(const together &of) {
  double sums = 0;
  uint32_t hits = 0;
  const int32_t groups = (of.slices + 31) / 32;
  UNROLLED_4_FOR (int32_t g = 0; g < groups; g++) {
    const int32_t i = 32 * g + lane_of();
    const double loss = i < of.slices ? __ldcg(of.losses + i) : 0;
    hits += i < of.slices ? __ldcg(of.hits + i) : 0;
    const double sum = add_lanes(loss, min(32, of.slices - 32 * g));
    sums = lane_of() == g ? sum : sums;
  }
  UNROLLED_FOR (int half = 16; half > 0; half /= 2)
    hits += __shfl_xor_sync(0xffffffff, hits, half);
  return {add_lanes(sums, groups), hits};
}

/* A parameter that a thread updates: its place, its number (-1: none), and its values in the arrays of the optimiser. */
struct own_parameter {
  int32_t place, number;
  bool is_weight;
  float first, second;
};

/* Returns the thread's parameter in the QUADS quads from `first` on. */
__device__ own_parameter find_own(const together &of, const run_of &run, int32_t first) {
  const int32_t place = 4 * first + (int32_t)threadIdx.x;
  const int32_t number = threadIdx.x < 4 * QUADS && place < of.places ? of.numbers[place] : -1;
  if (number < 0)
    return {place, number, false, 0.0f, 0.0f};
  return {place, number, of.are_weights[number] != 0, run.first[number], run.second[number]};
}

/* Adds the leaves, and updates the parameters, which blocks share by quads. *kept: the thread's parameter in the first quads
 * of the block. The last warp first sums the losses while the others add; with few slices it has no leaves. Returns whether
 * the loss is finite. */
__device__ bool change_parameters(const together &of, const run_of &run, const gconv_learn_step &step, int32_t i,
                                  own_parameter *kept, double *best_loss) {
  __shared__ __align__(16) float sums[ADDED][4 * QUADS];
  __shared__ double loss;
  int32_t each = 1; /* leaves that a thread adds: a power of two */
  while (each * ADDED < of.slices)
    each *= 2;
  const int32_t quads = of.places / 4, share = (int32_t)threadIdx.x / QUADS, parts = (of.slices + each - 1) / each;
  if (warp_of() == WORKERS - 1) {
    const gconv_learn_outcome outcome = sum_slices(of);
    if (lane_of() == 0) {
      loss = outcome.loss;
      if (blockIdx.x == 0)
        run.outcomes[i] = outcome;
    }
  }
  float *changed = of.changed + (i & 1) * (int64_t)of.places, *next = of.changed + (~i & 1) * (int64_t)of.places;
  for (int32_t first = (int32_t)blockIdx.x * QUADS; first < quads; first += (int32_t)gridDim.x * QUADS) {
    const int32_t quad = first + (int32_t)threadIdx.x % QUADS, from = share * each;
    const bool is_first = first == (int32_t)blockIdx.x * QUADS;
    own_parameter own = is_first ? *kept : find_own(of, run, first);
    if (share < parts && quad < quads)
      *(float4 *)&sums[share][4 * (quad - first)] =
          add_leaves((const float4 *)of.leaves + from * (int64_t)quads + quad, quads, min(of.slices - from, each));
    __syncthreads();
    if (!isfinite(loss))
      return false;
    if (own.number >= 0) {
      float sum[ADDED], parameter = shared[own.place];
      UNROLLED_FOR (int j = 0; j < ADDED; j++)
        sum[j] = j < parts ? sums[j][threadIdx.x] : 0.0f;
      UNROLLED_FOR (int apart = 1; apart < ADDED; apart *= 2)
        UNROLLED_FOR (int j = 0; j < ADDED; j += 2 * apart)
          sum[j] = j + apart < parts ? sum[j] + sum[j + apart] : sum[j];
      if (loss * of.factor < *best_loss)
        of.best[own.number] = parameter;
      gconv_learn_update(&step, own.is_weight, sum[0], &parameter, &own.first, &own.second);
      store_shared_out(&changed[own.place], isnan(parameter) ? __uint_as_float(0x7fffffff) : parameter);
      store_shared_out(&next[own.place],
                       __uint_as_float(PENDING)); /* all blocks have read the old number before the barrier */
      run.parameters[own.number] = parameter;
      run.first[own.number] = own.first;
      run.second[own.number] = own.second;
      if (!isfinite(parameter))
        *run.bad = 1;
      if (is_first)
        *kept = own;
    }
    __syncthreads();
  }
  __syncthreads(); /* `loss` is written now, in blocks without quads, too */
  *best_loss = loss * of.factor < *best_loss ? loss * of.factor : *best_loss;
  return isfinite(loss);
}

__global__ void __launch_bounds__(WORKING, 1)
    take_large_steps(const __grid_constant__ resident_net net, run_of run, const gconv_learn_step *steps, int32_t count,
                     const __grid_constant__ together of) {
  const int64_t of_block = (int64_t)net.rows * net.pitch;
  const int32_t x = net.layers[0].x;
  const bool stays = of.slices <= (int32_t)gridDim.x; /* a block has one slice, whose inputs stay in shared memory */
  own_parameter own = find_own(of, run, (int32_t)blockIdx.x * QUADS);
  __shared__ gconv_learn_step step;
  double best_loss = of.best_loss;
  for (int32_t i = 0; i < count; i++) {
    if (threadIdx.x < sizeof step / sizeof(float))
      copy_async<4>((float *)&step + threadIdx.x, (const float *)&steps[i] + threadIdx.x);
    commit_copies();
    if (i == 0)
      begin_array(net, run.parameters, 0);
    else
      await_parameters(of, i - 1);
    for (int32_t slice = (int32_t)blockIdx.x; slice < of.slices; slice += (int32_t)gridDim.x) {
      const int32_t cases = (int32_t)min((int64_t)GCONV_LEARN_SLICE, run.cases - (int64_t)slice * GCONV_LEARN_SLICE);
      if (i == 0 || !stays)
        begin_block(net, run.blocks + slice * of_block, x);
      await_copies<0>();
      __syncthreads();
      find_leaf(net, x, cases, of.leaves + slice * (int64_t)of.places, &of.losses[slice], &of.hits[slice]);
    }
    sync_grid(of, (unsigned)i + 1);
    if (!change_parameters(of, run, step, i, &own, &best_loss))
      return;
  }
}

} // namespace

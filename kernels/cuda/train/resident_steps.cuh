/* SPDX-License-Identifier: MIT */
/* The kernel for batches of one slice: the blocks of a cluster take many steps. */
#pragma once

#include "resident_cases.cuh"

namespace {

enum {
  STEP_THREADS = WORKING + 32 /* the last warp computes the losses of a step while the others go on */
};

/* Computes the gradients of weights, and updates them. goes_on: there is a next step, in which all blocks need the weights
 * of the last layer and, for the gradients of inputs, of the layers between the first and the last. */
template <bool FIRST, bool SECOND, int ROOM, int BLOCKS>
__device__ void update(const resident_net &net, const gconv_learn_step &step, int32_t x, int32_t cases, bool goes_on) {
  const auto change = [&](float *w, bool is_weight, float gradient) {
    float changed = *w, unused = 0;
    gconv_learn_update(&step, is_weight, gradient, &changed, FIRST ? w + net.first : &unused,
                       SECOND ? w + net.second : &unused);
    return changed;
  };
  const auto change_last = [&](const resident_layer &l, int32_t k, int32_t c, float gradient) {
    float *w = shared + l.w + c * l.w_pitch + k;
    *w = change(w, c < l.inputs, gradient);
    if (BLOCKS > 1 && goes_on)
      send_all<BLOCKS>(arrival_of(net, ARRIVED_OUTPUTS), w, *w);
  };
  const int32_t tasks = find_gradients_by_cases<2, ROOM, BLOCKS>(net, x, cases, change_last);
  const auto change_other = [&](const resident_layer &l, int32_t i, int32_t k, int32_t c, float gradient) {
    float *w = shared + l.w + k * l.w_pitch + c;
    store<BLOCKS>(i == 0, w, change(w, c < l.inputs, gradient));
  };
  find_gradients<ROOM, BLOCKS>(net, net.count - 2, x, cases, tasks, change_other);
}

__device__ __forceinline__ int32_t cases_of(const run_of &run, int32_t i) {
  return (int32_t)min((int64_t)run.batch, run.cases - (int64_t)i * run.batch);
}

/* Returns how many of `count` rows belong to other blocks. */
template <int BLOCKS> __device__ int32_t others_rows(int32_t count) {
  int32_t others = count;
  for (int32_t i = 0; i < own_rows<BLOCKS>(count); i++)
    others -= own_row<BLOCKS>(i) < count;
  return others;
}

/* By one thread, after step i - 1 of its block: sets how many bytes the block expects in step i, and signals to the other
 * blocks that it is ready. */
template <int ROOM, int BLOCKS> __device__ void expect_others(const resident_net &net, int32_t i) {
  constexpr int CASES = ROOM / BLOCKS;
  const resident_layer &l = net.layers[net.count - 1];
  const int32_t outputs = net.count > 1 ? others_rows<BLOCKS>(l.inputs) * CASES : 0;
  const int32_t weights = i > 0 ? others_rows<BLOCKS>(l.inputs + 1) * l.outputs : 0;
  expect(arrival_of(net, ARRIVED_OUTPUTS), outputs + weights + BLOCKS - 1);
  expect(arrival_of(net, ARRIVED_GRADIENTS), (ROOM - CASES) * (l.outputs + 1));
  send_all<BLOCKS>(arrival_of(net, ARRIVED_OUTPUTS), shared + net.arrivals + 2 * ARRIVALS + block_of_cluster<BLOCKS>(), 0);
}

/* By the workers: takes `count` steps. */
template <gconv_optimizer OPTIMIZER, int ROOM, int BLOCKS>
__device__ void work(const resident_net &net, const run_of &run, const gconv_learn_step *steps, int32_t count) {
  constexpr bool FIRST = OPTIMIZER != GCONV_OPTIMIZER_SGD, SECOND = FIRST && OPTIMIZER != GCONV_OPTIMIZER_MOMENTUM;
  constexpr int CASES = ROOM / BLOCKS;
  const int64_t of_block = (int64_t)net.rows * PITCH<ROOM>;
  int32_t x = net.layers[0].x, next = net.next;
  gconv_learn_step coming = steps[0];
  for (int32_t i = 0; i < count; i++) {
    const int32_t cases = cases_of(run, i);
    gconv_learn_step step = coming;
    step.optimizer = OPTIMIZER;
    if (next < 0 && i > 0) { /* there was no room to load the inputs earlier */
      __syncthreads();
      begin_block(net, run.blocks + i * of_block, x);
    }
    await_copies<0>();
    sync_workers();
    if (BLOCKS > 1 && threadIdx.x == WORKING - 1)
      expect_others<ROOM, BLOCKS>(net, i);
    coming = steps[min(i + 1, count - 1)];
    run_forward<ROOM, BLOCKS>(net, x, net.count - 1);
    await_arrival<BLOCKS>(arrival_of(net, ARRIVED_OUTPUTS), i);
    __syncthreads();
    if (next >= 0 && i + 1 < count) /* by the warps with the fewest cases */
      begin_block(net, run.blocks + (i + 1) * of_block, next, WORKING / 2);
    const float factor = cases == run.batch ? net.factor : net.last_factor;
    for (int32_t n = 2 * warp_of(); n < CASES; n += 2 * WORKERS)
      finish_cases<ROOM, BLOCKS>(net, x, block_of_cluster<BLOCKS>() * CASES + n, cases, factor);
    await_arrival<BLOCKS>(arrival_of(net, ARRIVED_GRADIENTS), i);
    __syncthreads();
    if (is_bad<ROOM>(net))
      break;
    if (net.count > 1) {
      go_back_by_cases<2, ROOM, BLOCKS>(net, net.count == 2);
      if (BLOCKS > 1 && net.count > 2)
        sync_cluster<BLOCKS>();
      else
        sync_workers();
      run_backward<ROOM, BLOCKS>(net, net.count - 2);
    }
    update<FIRST, SECOND, ROOM, BLOCKS>(net, step, x, cases, i + 1 < count);
    if (BLOCKS > 1 && net.count > 2)
      sync_cluster<BLOCKS>();
    if (next >= 0)
      swap(x, next);
  }
}

/* By the last warp: computes the losses and hits of the block's cases in the steps of work(), with the same barriers. */
template <int ROOM, int BLOCKS> __device__ void compute_losses(const resident_net &net, const run_of &run, int32_t count) {
  constexpr int CASES = ROOM / BLOCKS;
  int32_t x = net.layers[0].x, next = net.next;
  for (int32_t i = 0; i < count; i++) {
    const int32_t cases = cases_of(run, i);
    if (next < 0 && i > 0)
      __syncthreads();
    for (int32_t j = 0; j + 2 < net.count; j++)
      sync_cluster<BLOCKS>();
    __syncthreads();
    __syncthreads();
    const bool bad = is_bad<ROOM>(net); /* read now: gradients of the next step may arrive while losses are computed */
    for (int32_t j = lane_of(); j < CASES; j += 32) {
      const int32_t n = block_of_cluster<BLOCKS>() * CASES + j;
      const float *y = shared + net.y + n * net.layers[net.count - 1].dz_pitch;
      if (n < cases)
        run.of_cases[i * ROOM + n] = {loss_source<ROOM>(net, x, n, y, 1), net.classes ? hit_of<ROOM>(net, x, n, y, 1) : 0};
    }
    if (bad)
      break;
    for (int32_t j = 0; j < net.count && BLOCKS > 1 && net.count > 2; j++)
      sync_cluster<BLOCKS>();
    if (next >= 0)
      swap(x, next);
  }
}

/* Fills shared memory before the first step. */
template <bool FIRST, bool SECOND, int ROOM> __device__ void prepare(const resident_net &net, const run_of &run) {
  for (int32_t i = (int32_t)threadIdx.x; i < net.floats; i += WORKING)
    shared[i] = i >= net.ones && i < net.ones + ROOM ? 1.0f : 0.0f;
  sync_workers();
  if (threadIdx.x < ARRIVALS)
    make_arrival(arrival_of(net, (int32_t)threadIdx.x));
  begin_block(net, run.blocks, net.layers[0].x);
  begin_array(net, run.parameters, 0);
  if (FIRST)
    begin_array(net, run.first, net.first);
  if (SECOND)
    begin_array(net, run.second, net.second);
  await_copies<0>();
}

template <gconv_optimizer OPTIMIZER, int ROOM, int BLOCKS>
__global__ void __launch_bounds__(STEP_THREADS, 1)
    take_steps(const __grid_constant__ resident_net net, run_of run, const gconv_learn_step *steps, int32_t count) {
  constexpr bool FIRST = OPTIMIZER != GCONV_OPTIMIZER_SGD, SECOND = FIRST && OPTIMIZER != GCONV_OPTIMIZER_MOMENTUM;
  const bool works = warp_of() < WORKERS;
  if (works)
    prepare<FIRST, SECOND, ROOM>(net, run);
  sync_cluster<BLOCKS>();
  if (works)
    work<OPTIMIZER, ROOM, BLOCKS>(net, run, steps, count);
  else
    compute_losses<ROOM, BLOCKS>(net, run, count);
  sync_cluster<BLOCKS>(); /* no block writes to another any more */
  if (!works)
    return;
  store_array<BLOCKS>(net, 0, run.parameters);
  for_parameters<BLOCKS>(net, [&](int32_t at, int64_t) {
    if (!isfinite(shared[at]))
      *run.bad = 1;
  });
  if (FIRST)
    store_array<BLOCKS>(net, net.first, run.first);
  if (SECOND)
    store_array<BLOCKS>(net, net.second, run.second);
}

/* sum_steps() adds the losses and hits of cases: a warp does one step. */
enum { SUMMING = 8 /* warps of a block */ };
__global__ void __launch_bounds__(32 * SUMMING)
    sum_steps(const __grid_constant__ resident_net net, run_of run, int32_t count) {
  __shared__ double losses[SUMMING][GCONV_LEARN_SLICE];
  const int32_t i = (int32_t)blockIdx.x * SUMMING + warp_of();
  if (i >= count)
    return;
  const int32_t cases = cases_of(run, i);
  uint32_t hits = 0;
  for (int32_t n = lane_of(); n < cases; n += 32) {
    const gconv_learn_outcome of_case = run.of_cases[i * net.room + n];
    losses[warp_of()][n] = loss_from(net, of_case.loss);
    hits += (uint32_t)of_case.hits;
  }
  const double loss = sum_losses(losses[warp_of()], cases);
  UNROLLED_FOR (int half = 16; half > 0; half /= 2)
    hits += __shfl_xor_sync(0xffffffff, hits, half);
  if (lane_of() == 0)
    run.outcomes[i] = {loss, hits};
}

} // namespace

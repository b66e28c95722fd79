/* SPDX-License-Identifier: MIT */
/* The kernels: many steps of one slice by the blocks of a cluster, and a step of several slices by many blocks. */
#pragma once

#include "resident_pass.cuh"

namespace {

/* ---- Steps of one slice ---- */

enum { TELLING = WORKING + 32 /* threads: the last warp tells the losses of a step while the others are at the next one */ };

/* Changes the weights. Other blocks need those of all layers but the first, for gradients of inputs. */
template <bool FIRST, bool SECOND, int ROOM, int BLOCKS>
__device__ void update(const resident_net &net, const gconv_learn_step &step, int32_t x, int32_t cases) {
  find_gradients<ROOM, BLOCKS>(net, x, cases, [&](const resident_layer &l, int32_t i, int32_t k, int32_t c, float gradient) {
    float *w = shared + l.w + k * l.w_pitch + c, changed = *w, unused = 0;
    gconv_learn_update(&step, c < l.inputs, gradient, &changed, FIRST ? w + net.first : &unused,
                       SECOND ? w + net.second : &unused);
    store<BLOCKS>(i == 0 || l.whole, w, changed);
  });
}

/* Whether blocks write weights into each other's memory. */
__device__ __forceinline__ bool share_weights(const resident_net &net) {
  return net.count > 1 && !net.layers[1].whole;
}

__device__ __forceinline__ int32_t cases_of(const run_of &run, int32_t i) {
  return (int32_t)min((int64_t)run.batch, run.cases - (int64_t)i * run.batch);
}

/* By the workers: `count` steps. Before and behind each of them, a block has arrived and does not await the others. */
template <gconv_optimizer OPTIMIZER, int ROOM, int BLOCKS>
__device__ void work(const resident_net &net, const run_of &run, const gconv_learn_step *steps, int32_t count) {
  constexpr bool FIRST = OPTIMIZER != GCONV_OPTIMIZER_SGD, SECOND = FIRST && OPTIMIZER != GCONV_OPTIMIZER_MOMENTUM;
  const int64_t of_block = (int64_t)net.rows * PITCH<ROOM>;
  int32_t x = net.layers[0].x, next = net.next;
  gconv_learn_step coming = steps[0];
  for (int32_t i = 0; i < count; i++) {
    const int32_t cases = cases_of(run, i);
    gconv_learn_step step = coming;
    step.optimizer = OPTIMIZER;
    const bool loads = next < 0 && i > 0; /* inputs for which there was no room before */
    if (loads) {
      await<BLOCKS>();
      begin_block(net, run.blocks + i * of_block, x);
    }
    await_copies<0>();
    meet_workers();
    coming = steps[min(i + 1, count - 1)];
    run_forward<ROOM, BLOCKS>(net, x, !loads);
    if (next >= 0 && i + 1 < count)
      begin_block(net, run.blocks + (i + 1) * of_block, next);
    const bool bad = __syncthreads_or(differentiate<ROOM>(net, x, cases, cases == run.batch ? net.factor : net.last_factor));
    if (!bad) {
      run_backward<ROOM, BLOCKS>(net);
      update<FIRST, SECOND, ROOM, BLOCKS>(net, step, x, cases);
    }
    arrive<BLOCKS>(share_weights(net));
    if (bad)
      break;
    if (next >= 0) {
      const int32_t swap = x;
      x = next;
      next = swap;
    }
  }
}

/* By the last warp: what the steps of work() come to. It meets whom the workers meet. What it needs of a step it reads
 * before the step ends; logarithms and sums wait until the workers are at the next one. */
template <int ROOM, int BLOCKS> __device__ void tell(const resident_net &net, const run_of &run, int32_t count) {
  int32_t x = net.layers[0].x, next = net.next;
  for (int32_t i = 0; i < count; i++) {
    const int32_t cases = cases_of(run, i);
    await<BLOCKS>();
    for (int32_t j = 0; j < net.count; j++)
      if (!net.layers[j].whole)
        meet_blocks<BLOCKS>();
    const bool bad = __syncthreads_or(false);
    double losses[ROOM / 32];
    uint32_t hits = 0;
    UNROLLED_FOR (int j = 0; j < ROOM / 32; j++) {
      const int32_t n = lane_of() + 32 * j;
      losses[j] = n < cases ? loss_source<ROOM>(net, x, n) : 0;
      hits += n < cases && net.classes ? hit_of<ROOM>(net, x, n) : 0;
    }
    for (int32_t j = net.count - 1; j > 0 && !bad; j--)
      if (meets_behind(net, j))
        meet_blocks<BLOCKS>();
    arrive<BLOCKS>(share_weights(net));
    UNROLLED_FOR (int j = 0; j < ROOM / 32; j++)
      if (lane_of() + 32 * j < cases)
        ((double *)(shared + net.losses))[lane_of() + 32 * j] = loss_from(net, losses[j]);
    const double loss = sum_losses(net, cases);
    UNROLLED_FOR (int half = 16; half > 0; half /= 2)
      hits += __shfl_xor_sync(0xffffffff, hits, half);
    if (lane_of() == 0 && block_of_cluster<BLOCKS>() == 0)
      run.outcomes[i] = {loss, hits};
    if (bad)
      break;
    if (next >= 0) {
      const int32_t swap = x;
      x = next;
      next = swap;
    }
  }
}

template <gconv_optimizer OPTIMIZER, int ROOM, int BLOCKS>
__global__ void __launch_bounds__(TELLING, 1)
    take_steps(const __grid_constant__ resident_net net, run_of run, const gconv_learn_step *steps, int32_t count) {
  constexpr bool FIRST = OPTIMIZER != GCONV_OPTIMIZER_SGD, SECOND = FIRST && OPTIMIZER != GCONV_OPTIMIZER_MOMENTUM;
  const bool works = warp_of() < WORKERS;
  if (works) {
    begin_block(net, run.blocks, net.layers[0].x);
    begin_array(net, run.parameters, 0);
    if (FIRST)
      begin_array(net, run.first, net.first);
    if (SECOND)
      begin_array(net, run.second, net.second);
    await_copies<0>();
  }
  __syncthreads();
  arrive<BLOCKS>();
  if (works)
    work<OPTIMIZER, ROOM, BLOCKS>(net, run, steps, count);
  else
    tell<ROOM, BLOCKS>(net, run, count);
  await<BLOCKS>(); /* none writes to another any more */
  __syncthreads();
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

/* ---- A step of several slices ---- */

/* What blocks share, in memory of the device. */
struct together {
  int32_t slices;
  int64_t parameters;
  const uint8_t *are_weights;
  float *leaves; /* of each slice, all parameters */
  double *losses;
  uint32_t *hits;
  unsigned *arrived, all; /* blocks, of all steps so far; how many there are when they may go on */
  float *best;
  double factor, *best_loss; /* the smallest loss times factor so far */
  uint32_t *stop;            /* a loss was not finite: no more steps */
};

/* Waits until all blocks are here. */
__device__ void meet(const together &of) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(of.arrived, 1);
    while ((int)(*(volatile unsigned *)of.arrived - of.all) < 0)
      ;
    __threadfence();
  }
  __syncthreads();
}

/* The sum of up to 16 leaves. */
__device__ float add_leaves(const float *leaves, int64_t apart, int32_t count) {
  float leaf[16];
  UNROLLED_FOR (int i = 0; i < 16; i++)
    leaf[i] = i < count ? __ldcg(leaves + i * apart) : 0.0f;
  UNROLLED_FOR (int step = 1; step < 16; step *= 2)
    UNROLLED_FOR (int i = 0; i < 16; i += 2 * step)
      if (i + step < count)
        leaf[i] = leaf[i] + leaf[i + step];
  return leaf[0];
}

/* The sum of up to GCONV_RESIDENT_SLICES / WORKERS leaves, 16 at a time; levels[b] is that of 2^b such groups. */
__device__ float add_many_leaves(const float *leaves, int64_t apart, int32_t count) {
  float levels[4] = {};
  const int32_t groups = (count + 15) / 16;
  for (int32_t g = 0; g < groups; g++) {
    float sum = add_leaves(leaves + g * 16 * apart, apart, min(count - g * 16, 16));
    bool done = false;
    UNROLLED_FOR (int b = 0; b < 4; b++) {
      if (!done && (g >> b & 1))
        sum = levels[b] + sum;
      else if (!done) {
        levels[b] = sum;
        done = true;
      }
    }
  }
  float sum = 0;
  bool any = false;
  UNROLLED_FOR (int b = 0; b < 4; b++)
    if (groups >> b & 1) {
      sum = any ? levels[b] + sum : levels[b];
      any = true;
    }
  return sum;
}

/* The loss and hits of all slices, for all threads. `losses` is room for as many. */
__device__ gconv_learn_outcome sum_slices(const together &of, double *losses) {
  __shared__ unsigned hits;
  if (threadIdx.x == 0)
    hits = 0;
  __syncthreads();
  for (int32_t i = (int32_t)threadIdx.x; i < of.slices; i += WORKING) {
    losses[i] = __ldcg(of.losses + i);
    atomicAdd(&hits, __ldcg(of.hits + i));
  }
  for (int32_t step = 1; step < of.slices; step *= 2) {
    __syncthreads();
    for (int32_t i = 2 * step * (int32_t)threadIdx.x; i + step < of.slices; i += 2 * step * WORKING)
      losses[i] += losses[i + step];
  }
  __syncthreads();
  return {losses[0], hits};
}

__global__ void __launch_bounds__(WORKING, 1) take_large_step(const __grid_constant__ resident_net net, run_of run,
                                                              gconv_learn_step step, const __grid_constant__ together of) {
  constexpr int ROOM = GCONV_LEARN_SLICE;
  __shared__ double losses[GCONV_RESIDENT_SLICES];
  __shared__ float sums[WORKERS][32];
  const int64_t of_block = (int64_t)net.rows * net.pitch;
  const int32_t x = net.layers[0].x;
  const double best_loss = *of.best_loss;
  if (*of.stop) {
    if (threadIdx.x == 0)
      atomicAdd(of.arrived, 1);
    return;
  }
  begin_array(net, run.parameters, 0);
  for (int32_t slice = (int32_t)blockIdx.x; slice < of.slices; slice += (int32_t)gridDim.x) {
    const int32_t cases = (int32_t)min((int64_t)GCONV_LEARN_SLICE, run.cases - (int64_t)slice * GCONV_LEARN_SLICE);
    begin_block(net, run.blocks + slice * of_block, x);
    await_copies<0>();
    __syncthreads();
    run_forward<ROOM, 1>(net, x, false);
    differentiate<ROOM>(net, x, cases, net.factor);
    __syncthreads();
    run_backward<ROOM, 1>(net);
    float *leaf = of.leaves + slice * of.parameters;
    find_gradients<ROOM, 1>(net, x, cases, [&](const resident_layer &l, int32_t, int32_t k, int32_t c, float gradient) {
      leaf[parameter_of(l, k, c)] = gradient;
    });
    const bool hit = (int32_t)threadIdx.x < cases && find_loss<ROOM>(net, x, (int32_t)threadIdx.x);
    const int32_t hits = __syncthreads_count(hit);
    if (warp_of() == WORKERS - 1) {
      const double loss = sum_losses(net, cases);
      if (lane_of() == 0) {
        of.losses[slice] = loss;
        of.hits[slice] = (uint32_t)hits;
      }
    }
  }
  meet(of);
  gconv_learn_outcome outcome = sum_slices(of, losses);
  const bool better = outcome.loss * of.factor < best_loss;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *run.outcomes = outcome;
    if (better)
      *of.best_loss = outcome.loss * of.factor;
    if (!isfinite(outcome.loss))
      *of.stop = 1;
  }
  if (!isfinite(outcome.loss))
    return;
  int32_t each = 16; /* leaves that a warp adds: a power of two */
  while (each * WORKERS < of.slices)
    each *= 2;
  for (int64_t first = (int64_t)blockIdx.x * 32; first < of.parameters; first += (int64_t)gridDim.x * 32) {
    const int64_t i = first + lane_of();
    const int32_t from = warp_of() * each;
    if (i < of.parameters && from < of.slices)
      sums[warp_of()][lane_of()] =
          add_many_leaves(of.leaves + from * of.parameters + i, of.parameters, min(of.slices - from, each));
    __syncthreads();
    if (warp_of() == 0 && i < of.parameters) {
      const int32_t parts = (of.slices + each - 1) / each;
      for (int32_t apart = 1; apart < parts; apart *= 2)
        for (int32_t j = 0; j + apart < parts; j += 2 * apart)
          sums[j][lane_of()] = sums[j][lane_of()] + sums[j + apart][lane_of()];
      if (better)
        of.best[i] = run.parameters[i];
      gconv_learn_update(&step, of.are_weights[i], sums[0][lane_of()], &run.parameters[i], &run.first[i], &run.second[i]);
      if (!isfinite(run.parameters[i]))
        *run.bad = 1;
    }
    __syncthreads();
  }
}

} // namespace

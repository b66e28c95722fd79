/* SPDX-License-Identifier: MIT */
/*
 * thread-a-case: each thread takes one case through the whole net, forward and back. Threads never wait for each other.
 *
 *              thread 0  thread 1  thread 2       thread N - 1
 *               case 0    case 1    case 2         case N - 1
 *     x[0]    |    .         .         .      ...      .      |    a row of memory: one number of all cases
 *     x[1]    |    .         .         .      ...      .      |
 *      ...         |         |         |               |           each thread goes down its own column,
 *     y[0]    |    v         v         v      ...      v      |    and for dz up again
 *     y[1]    |    .         .         .      ...      .      |
 *
 * Such a layout is a structure of arrays. The 32 threads of a warp run in step, so they read 32 neighbouring numbers of a
 * row: one access of 128 bytes. With the numbers of a case side by side (an array of structures) it would be 32 accesses.
 * The weight is the same for all threads of a warp, and is read once for them.
 *
 * The gradient of a weight from neuron c to neuron k is the sum over cases of dz[k] * y[c]: the product of two rows. A
 * second kernel has a warp for each weight and each bias:
 *
 *     dz[k]    | 0 1 2 ... 31 | 32 33 ... 63 | ...     lane i adds the products of cases i, i + 32, i + 64 ...
 *     y[c]     | 0 1 2 ... 31 | 32 33 ... 63 | ...     then 32 sums become one by a tree: 16, 8, 4, 2, 1
 *
 * The arithmetic of an epoch with N cases and W weights: forward N W multiply-adds, backward as many, except in the first
 * layer, gradient N W. Two things bound it. There are only N threads; a GPU needs ten times as many to hide the latency of
 * memory. And each multiply-add reads a number of its own, or two for the gradient.
 *
 * thread-counters is the same with the counters of the inner loops in shared memory, where each thread has its own words.
 * In the thesis, this saved registers (14 instead of 19): so more threads ran on a multiprocessor, and time fell by 10%.
 */
#include "thread_case.cuh"

namespace {

enum { CASES = GCONV_BACKPROP_COUNTERS, WARPS = 8 }; /* cases and warps of a block */

template <bool SHARED>
__global__ void take_cases(gconv_backprop_net net, const float *inputs, const float *targets, const float *parameters,
                           float *y, float *dz) {
  const int64_t own = (int64_t)blockIdx.x * CASES + threadIdx.x;
  if (own < net.cases)
    take_case<SHARED>(net, inputs + own, targets + own, parameters, net.cases, y + own, dz + own);
}

/* A warp for each parameter sums over all cases, and takes the step. */
__global__ void sum_over_cases(gconv_backprop_net net, const float *inputs, const float *y, const float *dz, float rate,
                               float *parameters) {
  const int64_t cases = net.cases, own = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  int l = 1;
  while (l <= net.layers && own >= gconv_backprop_parameters(&net, l + 1))
    l++;
  if (l > net.layers)
    return;
  const int64_t inputs_of = net.widths[l - 1], weights = inputs_of * net.widths[l];
  const int64_t at = own - gconv_backprop_parameters(&net, l);
  const bool is_bias = at >= weights;
  const int64_t k = is_bias ? at - weights : at / inputs_of, c = is_bias ? 0 : at % inputs_of;
  const float *gradients = dz + (gconv_backprop_neurons(&net, l) + k) * cases;
  const float *values = l == 1 ? inputs + c * cases : y + (gconv_backprop_neurons(&net, l - 1) + c) * cases;

  float sum = 0;
  for (int64_t i = lane; i < cases; i += 32)
    sum = fmaf(is_bias ? 1.0f : values[i], gradients[i], sum);
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(~0u, sum, distance);
  if (lane == 0)
    parameters[own] -= rate * sum;
}

int64_t workspace(const gconv_backprop_net &net) {
  return 2 * (int64_t)gconv_backprop_neurons(&net, net.layers + 1) * net.cases;
}

template <bool SHARED> gconv_status epoch(const gconv_backprop_run &run) {
  float *y = run.workspace, *dz = y + workspace(run.net) / 2;
  const int64_t parameters = gconv_backprop_parameters(&run.net, run.net.layers + 1);
  take_cases<SHARED>
      <<<blocks_for(run.net.cases, CASES), CASES, 0, run.stream>>>(run.net, run.inputs, run.targets, run.parameters, y, dz);
  mark(run, "train");
  sum_over_cases<<<blocks_for(parameters, WARPS), WARPS * 32, 0, run.stream>>>(run.net, run.inputs, y, dz, run.rate,
                                                                               run.parameters);
  mark(run, "sums");
  return GCONV_OK;
}

} // namespace

const gconv_backprop_method gconv_backprop_thread = {"thread-a-case", true, workspace, NULL, NULL, epoch<false>};
const gconv_backprop_method gconv_backprop_counters = {"thread-counters", true, workspace, NULL, NULL, epoch<true>};

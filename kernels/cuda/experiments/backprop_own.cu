/* SPDX-License-Identifier: MIT */
/*
 * gradient-a-thread: each thread takes cases through the whole net, and adds to a gradient of its own, as the first version
 * of the thesis from Ljubljana did (docs/theses.md).
 *
 *     clear      all gradients = 0
 *     train      thread t:  cases t, t + T, t + 2 T ...     forward, backward, gradient of thread t += dz[k] * y[c]
 *     reduce-l   for each layer l: the T gradients are added, a block for each parameter, and the step is taken
 *
 * All arrays are structures of arrays: number i of thread t is at [i * T + t]. With T = 60 x 256 = 15,360 threads and 15,360
 * cases a thread has one case. The gradients bound it: T times the parameters, 354 MB for 64-63-26, written and read in each
 * epoch. thread-a-case computes the same sums from the 9 MB of y and dz.
 */
#include "thread_case.cuh"

namespace {

enum { BLOCKS = 60, THREADS = 256, COUNT = BLOCKS * THREADS }; /* of the thesis on the faster card */

__global__ void clear(float *gradients, int64_t count) {
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x)
    gradients[i] = 0;
}

/* values, dz: a row of COUNT numbers for each neuron of layers 1 .. L. */
__global__ void train(gconv_backprop_net net, const float *inputs, const float *targets, const float *parameters,
                      float *values, float *dz, float *gradients) {
  const int64_t own = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  for (int64_t n = own; n < net.cases; n += COUNT) {
    take_case<false>(net, inputs + n, targets + n, parameters, COUNT, values + own, dz + own);
    for (int l = 1; l <= net.layers; l++) {
      const int in = net.widths[l - 1], out = net.widths[l];
      const float *x = l == 1 ? inputs + n : values + (int64_t)gconv_backprop_neurons(&net, l - 1) * COUNT + own;
      const int64_t pitch = l == 1 ? net.cases : COUNT;
      float *gradient = gradients + gconv_backprop_parameters(&net, l) * COUNT + own;
      for (int k = 0; k < out; k++) {
        const float change = dz[(int64_t)(gconv_backprop_neurons(&net, l) + k) * COUNT + own];
        for (int c = 0; c < in; c++)
          gradient[((int64_t)k * in + c) * COUNT] = fmaf(change, x[c * pitch], gradient[((int64_t)k * in + c) * COUNT]);
        gradient[((int64_t)out * in + k) * COUNT] += change;
      }
    }
  }
}

/* A block for each parameter: threads add every THREADS-th gradient, then each other's sums by a tree. */
__global__ void reduce(const float *gradients, float rate, float *parameters) {
  __shared__ float sums[THREADS];
  const float *own = gradients + (int64_t)blockIdx.x * COUNT;
  float sum = 0;
  for (int i = threadIdx.x; i < COUNT; i += THREADS)
    sum += own[i];
  sums[threadIdx.x] = sum;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < half)
      sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0)
    parameters[blockIdx.x] -= rate * sums[0];
}

int64_t workspace(const gconv_backprop_net &net) {
  return COUNT *
         (2 * (int64_t)gconv_backprop_neurons(&net, net.layers + 1) + gconv_backprop_parameters(&net, net.layers + 1));
}

gconv_status epoch(const gconv_backprop_run &run) {
  static const char *const names[] = {"reduce-0", "reduce-1", "reduce-2", "reduce-3"};
  const gconv_backprop_net &net = run.net;
  const int64_t values = COUNT * (int64_t)gconv_backprop_neurons(&net, net.layers + 1);
  float *dz = run.workspace + values, *gradients = dz + values;
  clear<<<BLOCKS * 16, THREADS, 0, run.stream>>>(gradients, COUNT * gconv_backprop_parameters(&net, net.layers + 1));
  mark(run, "clear");
  train<<<BLOCKS, THREADS, 0, run.stream>>>(net, run.inputs, run.targets, run.parameters, run.workspace, dz, gradients);
  mark(run, "train");
  for (int32_t l = 1; l <= net.layers; l++) {
    const int64_t first = gconv_backprop_parameters(&net, l), count = gconv_backprop_parameters(&net, l + 1) - first;
    reduce<<<(unsigned)count, THREADS, 0, run.stream>>>(gradients + first * COUNT, run.rate, run.parameters + first);
    mark(run, names[l < 4 ? l - 1 : 3]);
  }
  return GCONV_OK;
}

} // namespace

const gconv_backprop_method gconv_backprop_own = {"gradient-a-thread", true, workspace, NULL, NULL, epoch};

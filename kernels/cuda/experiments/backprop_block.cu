/* SPDX-License-Identifier: MIT */
/*
 * block-a-case: a block takes a case through the net, with a thread for each neuron of a layer. All numbers of the case are
 * in shared memory. Layers follow each other, with __syncthreads() between.
 *
 *     block b:   case b,  then case b + B,  then case b + 2 B ...             B blocks
 *
 *                x          layer 1        layer 2
 *     thread 0   o -------> o ---------->  o          each thread reads all values of the last layer from shared memory,
 *     thread 1   o -------> o ---------->  o          and a row of weights from global memory
 *     thread 2   o -------> o
 *
 * Forward, thread k reads row k of the weights, one number at a time. Neighbouring threads would read numbers that are a row
 * apart. So the weights are also kept transposed, and neighbouring threads read neighbouring numbers. Backward, thread c
 * reads column c: in the weights as they are, its numbers lie next to the numbers of thread c + 1.
 *
 * The gradient is a sum over all cases, and thus over blocks. Each block has a partial gradient in global memory, to which
 * it adds dz[k] * y[c] of each of its cases; its threads share the weights. At the end the B partial gradients are added
 * (method.cuh). One gradient for all blocks would need atomics, whose order, and so rounding, changes with each run.
 *
 * An epoch has the same arithmetic as in thread-a-case. Three things bound it. A case reads all weights twice, and reads and
 * writes a partial gradient: 4 numbers for 3 multiply-adds. Blocks wait at each __syncthreads(). A layer narrower than the
 * widest leaves threads idle: in the last layer of 64-63-26, 26 of 64 work.
 */
#include "method.cuh"

#include <algorithm>

extern __shared__ __align__(16) float shared[];

namespace {

enum { BLOCKS = 1024, FEWEST_BLOCKS = 256, PARTIAL_BYTES = 32 << 20 }; /* PARTIAL_BYTES: caches hold so much */

/* transposed[c][k] = weights[k][c] */
__global__ void transpose(const float *weights, int rows, int columns, float *transposed) {
  const int64_t own = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (own < (int64_t)rows * columns)
    transposed[own % columns * rows + own / columns] = weights[own];
}

/* Adds dz[k] * in[c] for each weight, and dz[k] for each bias. A thread has the same weights in each call: no barrier is
 * needed. */
__device__ void add_gradient(const float *in, int inputs, const float *dz, int outputs, float *gradient) {
  for (int i = threadIdx.x; i < outputs * inputs; i += blockDim.x)
    gradient[i] = fmaf(dz[i / inputs], in[i % inputs], gradient[i]);
  for (int k = threadIdx.x; k < outputs; k += blockDim.x)
    gradient[(int64_t)outputs * inputs + k] += dz[k];
}

/* Adds the gradients of the block's cases to its partial gradient. transposed: the transposed weights of each layer, at the
 * same offsets as in the parameters. */
__global__ void take_cases(gconv_backprop_net net, const float *inputs, const float *targets, const float *parameters,
                           const float *transposed, float *partials) {
  const int64_t all = gconv_backprop_parameters(&net, net.layers + 1);
  const int input_count = net.widths[0], last = net.widths[net.layers];
  float *x = shared, *y = x + input_count, *dz = y + gconv_backprop_neurons(&net, net.layers + 1);
  float *partial = partials + blockIdx.x * all;
  for (int64_t i = threadIdx.x; i < all; i += blockDim.x)
    partial[i] = 0;

  for (int64_t own = blockIdx.x; own < net.cases; own += gridDim.x) {
    __syncthreads(); /* the last case is done */
    for (int c = threadIdx.x; c < input_count; c += blockDim.x)
      x[c] = inputs[own * input_count + c];
    __syncthreads();

    const float *in = x;
    for (int l = 1; l <= net.layers; l++) {
      const int inputs_of = net.widths[l - 1], outputs_of = net.widths[l];
      const int64_t first = gconv_backprop_parameters(&net, l);
      float *out = y + gconv_backprop_neurons(&net, l);
      for (int k = threadIdx.x; k < outputs_of; k += blockDim.x) {
        float z = parameters[first + (int64_t)outputs_of * inputs_of + k]; /* its bias */
#pragma unroll 8
        for (int c = 0; c < inputs_of; c++)
          z = fmaf(transposed[first + (int64_t)c * outputs_of + k], in[c], z);
        out[k] = gconv_sigmoid(z);
      }
      in = out;
      __syncthreads();
    }

    float *next = dz + gconv_backprop_neurons(&net, net.layers); /* dz of the next layer */
    for (int k = threadIdx.x; k < last; k += blockDim.x)
      next[k] = (in[k] - targets[own * last + k]) * slope_of(in[k]);
    __syncthreads();

    for (int l = net.layers - 1; l >= 1; l--) {
      const int width = net.widths[l], outputs_of = net.widths[l + 1];
      const float *weights = parameters + gconv_backprop_parameters(&net, l + 1);
      const float *values = y + gconv_backprop_neurons(&net, l);
      float *gradients = dz + gconv_backprop_neurons(&net, l);
      for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = 0;
#pragma unroll 8
        for (int k = 0; k < outputs_of; k++)
          sum = fmaf(weights[(int64_t)k * width + c], next[k], sum);
        gradients[c] = sum * slope_of(values[c]);
      }
      next = gradients;
      __syncthreads();
    }

    for (int l = 1; l <= net.layers; l++)
      add_gradient(l == 1 ? x : y + gconv_backprop_neurons(&net, l - 1), net.widths[l - 1],
                   dz + gconv_backprop_neurons(&net, l), net.widths[l], partial + gconv_backprop_parameters(&net, l));
  }
}

int blocks_of(const gconv_backprop_net &net) {
  const int64_t bytes = gconv_backprop_parameters(&net, net.layers + 1) * (int64_t)sizeof(float);
  int blocks = BLOCKS;
  while (blocks > FEWEST_BLOCKS && blocks * bytes > PARTIAL_BYTES)
    blocks /= 2;
  return blocks;
}

int64_t workspace(const gconv_backprop_net &net) {
  return (blocks_of(net) + 1) * gconv_backprop_parameters(&net, net.layers + 1);
}

gconv_status epoch(const gconv_backprop_run &run) {
  const gconv_backprop_net &net = run.net;
  const int32_t widest = *std::max_element(net.widths, net.widths + net.layers + 1);
  const unsigned threads = std::min((unsigned)(widest + 31) / 32 * 32, 1024u), blocks = (unsigned)blocks_of(net);
  float *transposed = run.workspace, *partials = transposed + gconv_backprop_parameters(&net, net.layers + 1);
  for (int32_t l = 1; l <= net.layers; l++) {
    const int64_t first = gconv_backprop_parameters(&net, l), weights = (int64_t)net.widths[l] * net.widths[l - 1];
    transpose<<<blocks_for(weights, 256), 256, 0, run.stream>>>(run.parameters + first, net.widths[l], net.widths[l - 1],
                                                                transposed + first);
  }
  const size_t values = (size_t)net.widths[0] + 2 * (size_t)gconv_backprop_neurons(&net, net.layers + 1);
  take_cases<<<blocks, threads, values * sizeof(float), run.stream>>>(net, run.inputs, run.targets, run.parameters,
                                                                      transposed, partials);
  mark(run, "train");
  start_step(run, partials, (int)blocks);
  mark(run, "sums");
  return GCONV_OK;
}

} // namespace

const gconv_backprop_method gconv_backprop_block = {"block-a-case", false, workspace, NULL, NULL, epoch};

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
 *
 * one-case-host and four-cases-host are the second version of the thesis from Ljubljana (docs/theses.md): 60 blocks, each
 * with one case or four cases at a time, and sums on the host. Four were its fastest. four-cases is the same with sums on
 * the GPU. With four cases, a thread computes the sums of its neuron for all of them, one after the other:
 *
 *     sum0 += w[k][c] * x0[c]      four cases share a weight that is loaded once, and a thread that waits for one sum has
 *     sum1 += w[k][c] * x1[c]      three others to go on with. For this it needs more registers: 16 against 8 in the thesis.
 *     sum2 += w[k][c] * x2[c]
 *     sum3 += w[k][c] * x3[c]      The gradient of four cases is summed before it is written: one access for four.
 *
 * The host gets the partial gradients, adds them, and sends back the weights: 60 x 5759 numbers an epoch for 64-63-26, 1.4
 * MB. The step of method.cuh does the same on the GPU.
 */
#include "method.cuh"

#include <algorithm>

#include <stdlib.h>

namespace {

/* THESIS: blocks of the thesis, two for each multiprocessor of its card. Otherwise, BLOCKS down to FEWEST_BLOCKS, so that
 * partial gradients take at most PARTIAL_BYTES, which fit into the cache. */
enum { THESIS = 60, BLOCKS = 1024, FEWEST_BLOCKS = 256, PARTIAL_BYTES = 32 << 20 };

extern __shared__ float shared_values[];

__global__ void transpose_weights(const float *weights, int rows, int columns, float *transposed) {
  const int64_t own = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (own < (int64_t)rows * columns)
    transposed[own % columns * rows + own / columns] = weights[own];
}

/* transposed: the weights of each layer, [input][neuron], at the offsets of the parameters. */
template <int CASES>
__global__ void take_groups(gconv_backprop_net net, const float *inputs, const float *targets, const float *parameters,
                            const float *transposed, float *partials) {
  const int neurons = gconv_backprop_neurons(&net, net.layers + 1), width = net.widths[0], last = net.widths[net.layers];
  float *x = shared_values, *y = x + CASES * width, *dz = y + CASES * neurons; /* of a case: y and dz of all layers */
  float *partial = partials + blockIdx.x * gconv_backprop_parameters(&net, net.layers + 1);
  for (int64_t i = threadIdx.x; i < gconv_backprop_parameters(&net, net.layers + 1); i += blockDim.x)
    partial[i] = 0;

  for (int64_t group = blockIdx.x; group * CASES < net.cases; group += gridDim.x) {
    const int64_t first = group * CASES;
    __syncthreads();
    for (int i = threadIdx.x; i < CASES * width; i += blockDim.x)
      x[i] = first + i / width < net.cases ? inputs[first * width + i] : 0;
    for (int l = 1; l <= net.layers; l++) {
      const int in = net.widths[l - 1], out = net.widths[l];
      const int64_t at = gconv_backprop_parameters(&net, l);
      const float *values = l == 1 ? x : y + gconv_backprop_neurons(&net, l - 1);
      const int pitch = l == 1 ? width : neurons;
      __syncthreads();
      for (int k = threadIdx.x; k < out; k += blockDim.x) {
        float sums[CASES];
        for (int i = 0; i < CASES; i++)
          sums[i] = parameters[at + (int64_t)out * in + k];
#pragma unroll 8
        for (int c = 0; c < in; c++) {
          const float weight = transposed[at + (int64_t)c * out + k];
          for (int i = 0; i < CASES; i++)
            sums[i] = fmaf(weight, values[i * pitch + c], sums[i]);
        }
        for (int i = 0; i < CASES; i++)
          y[i * neurons + gconv_backprop_neurons(&net, l) + k] = gconv_sigmoid(sums[i]);
      }
    }
    for (int l = net.layers; l >= 1; l--) {
      const int out = net.widths[l], from = gconv_backprop_neurons(&net, l);
      const float *weights = parameters + gconv_backprop_parameters(&net, l + 1);
      __syncthreads();
      for (int k = threadIdx.x; k < out; k += blockDim.x) {
        float sums[CASES] = {};
        for (int i = 0; l == net.layers && i < CASES; i++)
          if (first + i < net.cases) /* dz of missing cases is 0 */
            sums[i] = y[i * neurons + from + k] - targets[(first + i) * last + k];
        for (int j = 0; l < net.layers && j < net.widths[l + 1]; j++)
          for (int i = 0; i < CASES; i++)
            sums[i] = fmaf(weights[(int64_t)j * out + k], dz[i * neurons + from + out + j], sums[i]);
        for (int i = 0; i < CASES; i++)
          dz[i * neurons + from + k] = sums[i] * slope_of(y[i * neurons + from + k]);
      }
    }
    __syncthreads();
    for (int l = 1; l <= net.layers; l++) {
      const int in = net.widths[l - 1], out = net.widths[l], from = gconv_backprop_neurons(&net, l);
      const float *values = l == 1 ? x : y + gconv_backprop_neurons(&net, l - 1);
      const int pitch = l == 1 ? width : neurons;
      float *gradient = partial + gconv_backprop_parameters(&net, l);
      for (int w = threadIdx.x; w < out * (in + 1); w += blockDim.x) {
        const int k = w < out * in ? w / in : w - out * in;
        float sum = 0;
        for (int i = 0; i < CASES; i++)
          sum = fmaf(dz[i * neurons + from + k], w < out * in ? values[i * pitch + w % in] : 1.0f, sum);
        gradient[w] += sum;
      }
    }
  }
}

/* The arrays of the host. */
struct host_state {
  float *partials, *parameters;
};

void release(void *memory) {
  host_state *state = (host_state *)memory;
  free(state->partials);
  free(state->parameters);
  free(state);
}

gconv_status acquire(const gconv_backprop_run &run, void **made) {
  const size_t all = (size_t)gconv_backprop_parameters(&run.net, run.net.layers + 1);
  host_state *state = (host_state *)calloc(1, sizeof *state);
  if (state) {
    state->partials = (float *)malloc(THESIS * all * sizeof(float));
    state->parameters = (float *)malloc(all * sizeof(float));
  }
  if (!state || !state->partials || !state->parameters) {
    if (state)
      release(state);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %d gradients", THESIS);
  }
  *made = state;
  return GCONV_OK;
}

/* Returns the number of blocks: that of the thesis, or as many as PARTIAL_BYTES allow. */
int blocks_of(const gconv_backprop_net &net, bool thesis) {
  const int64_t bytes = gconv_backprop_parameters(&net, net.layers + 1) * (int64_t)sizeof(float);
  int blocks = thesis ? THESIS : BLOCKS;
  while (!thesis && blocks > FEWEST_BLOCKS && blocks * bytes > PARTIAL_BYTES)
    blocks /= 2;
  return blocks;
}

template <bool OF_THESIS> int64_t workspace(const gconv_backprop_net &net) {
  return (blocks_of(net, OF_THESIS) + 1) * gconv_backprop_parameters(&net, net.layers + 1);
}

/* Adds the partial gradients on the host, and takes the step there. */
gconv_status step_on_host(const gconv_backprop_run &run, const float *partials) {
  const size_t all = (size_t)gconv_backprop_parameters(&run.net, run.net.layers + 1);
  host_state *state = (host_state *)run.state;
  CUDA_TRY(cudaMemcpyAsync(state->parameters, run.parameters, all * sizeof(float), cudaMemcpyDeviceToHost, run.stream));
  CUDA_TRY(cudaMemcpyAsync(state->partials, partials, THESIS * all * sizeof(float), cudaMemcpyDeviceToHost, run.stream));
  CUDA_TRY(cudaStreamSynchronize(run.stream));
  mark(run, "copy");
  for (size_t b = 1; b < THESIS; b++)
    for (size_t i = 0; i < all; i++)
      state->partials[i] += state->partials[b * all + i];
  for (size_t i = 0; i < all; i++)
    state->parameters[i] -= run.rate * state->partials[i];
  CUDA_TRY(cudaMemcpyAsync(run.parameters, state->parameters, all * sizeof(float), cudaMemcpyHostToDevice, run.stream));
  mark(run, "host sums");
  return GCONV_OK;
}

template <int CASES, bool OF_THESIS, bool HOST> gconv_status epoch(const gconv_backprop_run &run) {
  const gconv_backprop_net &net = run.net;
  const int32_t widest = *std::max_element(net.widths, net.widths + net.layers + 1);
  const int blocks = blocks_of(net, OF_THESIS);
  const unsigned threads = (unsigned)std::min(OF_THESIS ? widest + 1 : (widest + 31) / 32 * 32, 1024);
  const size_t floats = CASES * ((size_t)net.widths[0] + 2 * (size_t)gconv_backprop_neurons(&net, net.layers + 1));
  float *transposed = run.workspace, *partials = transposed + gconv_backprop_parameters(&net, net.layers + 1);
  GCONV_TRY(allow_shared(take_groups<CASES>, (int64_t)(floats * sizeof(float))));
  for (int32_t l = 1; l <= net.layers; l++) {
    const int64_t first = gconv_backprop_parameters(&net, l), weights = (int64_t)net.widths[l] * net.widths[l - 1];
    transpose_weights<<<blocks_for(weights, 256), 256, 0, run.stream>>>(run.parameters + first, net.widths[l],
                                                                        net.widths[l - 1], transposed + first);
  }
  mark(run, "transpose");
  take_groups<CASES><<<blocks, threads, floats * sizeof(float), run.stream>>>(net, run.inputs, run.targets, run.parameters,
                                                                              transposed, partials);
  mark(run, "train");
  if (HOST)
    return step_on_host(run, partials);
  start_step(run, partials, blocks);
  mark(run, "sums");
  return GCONV_OK;
}

} // namespace

#define METHOD(name, title, cases, thesis, host)                                                                            \
  const gconv_backprop_method gconv_backprop_##name = {                                                                     \
      title, false, workspace<thesis>, host ? acquire : NULL, host ? release : NULL, epoch<cases, thesis, host>}
METHOD(block, "block-a-case", 1, false, false);
METHOD(one_host, "one-case-host", 1, true, true);
METHOD(four_host, "four-cases-host", 4, true, true);
METHOD(four, "four-cases", 4, true, false);

/* SPDX-License-Identifier: MIT */
/*
 * one-case-host and four-cases-host: the second version of the thesis from Ljubljana, with one case a block at a time and
 * with four, its fastest; and four-cases, the same with sums on the GPU (docs/theses.md).
 *
 * A block has a thread for each neuron of the widest layer, and takes every B-th group of CASES cases. All values of the
 * group are in shared memory: [case][neuron]. A thread computes the sums of its neuron for all cases of the group, one after
 * the other:
 *
 *     sum0 += w[k][c] * x0[c]      four cases share a weight that is loaded once, and a thread that waits for one sum has
 *     sum1 += w[k][c] * x1[c]      three others to go on with. For this it needs more registers: 16 against 8 in the thesis.
 *     sum2 += w[k][c] * x2[c]
 *     sum3 += w[k][c] * x3[c]      The gradient of four cases is summed before it is written: one access for four.
 *
 * There are B partial gradients. The host gets them all, adds them, and sends back the weights: 60 x 5759 numbers an epoch
 * for 64-63-26, 1.4 MB. The step of method.cuh does the same on the GPU.
 */
#include "method.cuh"

#include <algorithm>

#include <stdlib.h>

namespace {

enum { BLOCKS = 60 }; /* of the thesis: two for each multiprocessor of its card */

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
          if (first + i < net.cases) /* the others' dz is 0 */
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
    state->partials = (float *)malloc(BLOCKS * all * sizeof(float));
    state->parameters = (float *)malloc(all * sizeof(float));
  }
  if (!state || !state->partials || !state->parameters) {
    if (state)
      release(state);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %d gradients", BLOCKS);
  }
  *made = state;
  return GCONV_OK;
}

int64_t workspace(const gconv_backprop_net &net) {
  return (BLOCKS + 1) * gconv_backprop_parameters(&net, net.layers + 1);
}

/* Adds the partial gradients on the host, and takes the step there. */
gconv_status step_on_host(const gconv_backprop_run &run, const float *partials) {
  const size_t all = (size_t)gconv_backprop_parameters(&run.net, run.net.layers + 1);
  host_state *state = (host_state *)run.state;
  CUDA_TRY(cudaMemcpyAsync(state->parameters, run.parameters, all * sizeof(float), cudaMemcpyDeviceToHost, run.stream));
  CUDA_TRY(cudaMemcpyAsync(state->partials, partials, BLOCKS * all * sizeof(float), cudaMemcpyDeviceToHost, run.stream));
  CUDA_TRY(cudaStreamSynchronize(run.stream));
  mark(run, "copy");
  for (size_t b = 1; b < BLOCKS; b++)
    for (size_t i = 0; i < all; i++)
      state->partials[i] += state->partials[b * all + i];
  for (size_t i = 0; i < all; i++)
    state->parameters[i] -= run.rate * state->partials[i];
  CUDA_TRY(cudaMemcpyAsync(run.parameters, state->parameters, all * sizeof(float), cudaMemcpyHostToDevice, run.stream));
  mark(run, "host sums");
  return GCONV_OK;
}

template <int CASES, bool HOST> gconv_status epoch(const gconv_backprop_run &run) {
  const gconv_backprop_net &net = run.net;
  const int32_t widest = *std::max_element(net.widths, net.widths + net.layers + 1);
  const unsigned threads = (unsigned)std::min(widest + 1, 1024);
  const size_t floats = CASES * ((size_t)net.widths[0] + 2 * (size_t)gconv_backprop_neurons(&net, net.layers + 1));
  float *transposed = run.workspace, *partials = transposed + gconv_backprop_parameters(&net, net.layers + 1);
  GCONV_TRY(allow_shared(take_groups<CASES>, (int64_t)(floats * sizeof(float))));
  for (int32_t l = 1; l <= net.layers; l++) {
    const int64_t first = gconv_backprop_parameters(&net, l), weights = (int64_t)net.widths[l] * net.widths[l - 1];
    transpose_weights<<<blocks_for(weights, 256), 256, 0, run.stream>>>(run.parameters + first, net.widths[l],
                                                                        net.widths[l - 1], transposed + first);
  }
  mark(run, "transpose");
  take_groups<CASES><<<BLOCKS, threads, floats * sizeof(float), run.stream>>>(net, run.inputs, run.targets, run.parameters,
                                                                              transposed, partials);
  mark(run, "train");
  if (HOST)
    return step_on_host(run, partials);
  start_step(run, partials, BLOCKS);
  mark(run, "sums");
  return GCONV_OK;
}

} // namespace

const gconv_backprop_method gconv_backprop_one_host = {"one-case-host", false, workspace, acquire, release, epoch<1, true>};
const gconv_backprop_method gconv_backprop_four_host = {"four-cases-host", false,   workspace,
                                                        acquire,           release, epoch<4, true>};
const gconv_backprop_method gconv_backprop_four = {"four-cases", false, workspace, NULL, NULL, epoch<4, false>};

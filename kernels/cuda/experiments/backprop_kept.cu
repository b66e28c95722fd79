/* SPDX-License-Identifier: MIT */
/*
 * derivatives-kept: a kernel per layer, a block per case, a thread per neuron; the derivatives of every case are kept, and
 * summed at the end by a thread for each weight. This is the way of the thesis from Paraíba (docs/theses.md).
 *
 *     forward      block n, thread k:  y[n][k] = sigmoid(b[k] + sum over c of w[k][c] * x[n][c])     for each layer
 *     deltas       block n, thread k:  dz[n][k], of the last layer, then of the layers before
 *     derivatives  block n, thread w:  d[n][w] = dz[n][k] * x[n][c]                                  for each layer
 *     update       thread w:           w -= rate * (sum over n of d[n][w])
 *
 * Weights are read by rows: thread k begins at row k, so a warp reads from 32 places. Backward, neighbours read neighbouring
 * weights. The derivatives bound it: cases times parameters, 354 MB for 15,360 cases of 64-63-26, written once and read
 * once. A layer of few neurons leaves most of a block's warp idle.
 *
 * A block has at most 1024 threads. Where a layer has more neurons or weights, a thread takes several; in the thesis it
 * takes one.
 */
#include "method.cuh"

#include <algorithm>

namespace {

enum { THREADS = 1024, OF_UPDATE = 256 };

__global__ void forward(const float *weights, int inputs, int outputs, const float *x, float *y) {
  const float *in = x + (int64_t)blockIdx.x * inputs;
  for (int k = threadIdx.x; k < outputs; k += blockDim.x) {
    const float *row = weights + (int64_t)k * inputs;
    float sum = weights[(int64_t)outputs * inputs + k]; /* its bias */
    for (int c = 0; c < inputs; c++)
      sum = fmaf(row[c], in[c], sum);
    y[(int64_t)blockIdx.x * outputs + k] = gconv_sigmoid(sum);
  }
}

__global__ void last_deltas(int outputs, const float *y, const float *targets, float *dz) {
  for (int k = threadIdx.x; k < outputs; k += blockDim.x) {
    const int64_t at = (int64_t)blockIdx.x * outputs + k;
    dz[at] = (y[at] - targets[at]) * slope_of(y[at]);
  }
}

__global__ void deltas(const float *weights, int width, int next, const float *y, const float *next_dz, float *dz) {
  for (int c = threadIdx.x; c < width; c += blockDim.x) {
    const int64_t at = (int64_t)blockIdx.x * width + c;
    float sum = 0;
    for (int k = 0; k < next; k++)
      sum = fmaf(weights[(int64_t)k * width + c], next_dz[(int64_t)blockIdx.x * next + k], sum);
    dz[at] = sum * slope_of(y[at]);
  }
}

__global__ void derivatives(int inputs, int outputs, const float *x, const float *dz, int64_t all, float *kept) {
  const float *in = x + (int64_t)blockIdx.x * inputs, *own = dz + (int64_t)blockIdx.x * outputs;
  float *to = kept + blockIdx.x * all;
  for (int w = threadIdx.x; w < outputs * (inputs + 1); w += blockDim.x)
    to[w] = w < outputs * inputs ? own[w / inputs] * in[w % inputs] : own[w - outputs * inputs];
}

__global__ void update(const float *kept, int64_t cases, int64_t all, float rate, float *parameters) {
  const int64_t own = (int64_t)blockIdx.x * OF_UPDATE + threadIdx.x;
  float sum = 0;
  if (own >= all)
    return;
  for (int64_t n = 0; n < cases; n++)
    sum += kept[n * all + own];
  parameters[own] -= rate * sum;
}

int64_t values_of(const gconv_backprop_net &net) {
  return (int64_t)gconv_backprop_neurons(&net, net.layers + 1) * net.cases;
}

int64_t workspace(const gconv_backprop_net &net) {
  return 2 * values_of(net) + net.cases * gconv_backprop_parameters(&net, net.layers + 1);
}

unsigned threads_for(int64_t items) {
  return (unsigned)std::min<int64_t>(items, THREADS);
}

gconv_status epoch(const gconv_backprop_run &run) {
  const gconv_backprop_net &net = run.net;
  const int64_t cases = net.cases, all = gconv_backprop_parameters(&net, net.layers + 1);
  float *y = run.workspace, *dz = y + values_of(net), *kept = dz + values_of(net);
  const auto offset = [&](int32_t l) { return gconv_backprop_neurons(&net, l) * cases; };
  const unsigned blocks = (unsigned)cases;
  for (int32_t l = 1; l <= net.layers; l++)
    forward<<<blocks, threads_for(net.widths[l]), 0, run.stream>>>(run.parameters + gconv_backprop_parameters(&net, l),
                                                                   net.widths[l - 1], net.widths[l],
                                                                   l == 1 ? run.inputs : y + offset(l - 1), y + offset(l));
  mark(run, "forward");
  last_deltas<<<blocks, threads_for(net.widths[net.layers]), 0, run.stream>>>(net.widths[net.layers], y + offset(net.layers),
                                                                              run.targets, dz + offset(net.layers));
  for (int32_t l = net.layers - 1; l >= 1; l--)
    deltas<<<blocks, threads_for(net.widths[l]), 0, run.stream>>>(run.parameters + gconv_backprop_parameters(&net, l + 1),
                                                                  net.widths[l], net.widths[l + 1], y + offset(l),
                                                                  dz + offset(l + 1), dz + offset(l));
  mark(run, "deltas");
  for (int32_t l = 1; l <= net.layers; l++)
    derivatives<<<blocks, threads_for((int64_t)net.widths[l] * (net.widths[l - 1] + 1)), 0, run.stream>>>(
        net.widths[l - 1], net.widths[l], l == 1 ? run.inputs : y + offset(l - 1), dz + offset(l), all,
        kept + gconv_backprop_parameters(&net, l));
  mark(run, "derivatives");
  update<<<blocks_for(all, OF_UPDATE), OF_UPDATE, 0, run.stream>>>(kept, cases, all, run.rate, run.parameters);
  mark(run, "update");
  return GCONV_OK;
}

} // namespace

const gconv_backprop_method gconv_backprop_kept = {"derivatives-kept", false, workspace, NULL, NULL, epoch};

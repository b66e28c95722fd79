/* SPDX-License-Identifier: MIT */
/*
 * cublas-a-case: the formulas of backprop.h as calls of a library, one case after the other, as in a textbook:
 *
 *     for each case                                             cuBLAS                kernels of our own
 *       for each layer, forward       z = W y                   sgemv, transposed     y = sigmoid(z + b)
 *       at the outputs                                                                dz = (y - t) y (1 - y); db += dz
 *       for each layer, backward      dW = dW + dz y'           sger
 *                                     dy = W' dz                sgemv                 dz = dy y (1 - y); db += dz
 *
 * Our matrices are stored by rows. cuBLAS stores them by columns, so it sees W transposed.
 *
 * A layer of 64 x 63 weights has 4032 multiply-adds, which a GPU does in less time than it takes to start a kernel. So an
 * epoch of N cases takes 9 N launches for a net of two layers, some 2 us each. Launches are the bound until layers have a
 * million weights. A library is fast if it gets all cases in one call.
 */
#include "../library/cublas.cuh"
#include "method.cuh"

namespace {

enum { THREADS = 128 };

__global__ void activate(const float *biases, int count, float *y) {
  const int own = blockIdx.x * THREADS + threadIdx.x;
  if (own < count)
    y[own] = gconv_sigmoid(y[own] + biases[own]);
}

__global__ void start_backward(const float *y, const float *targets, int count, float *dz, float *db) {
  const int own = blockIdx.x * THREADS + threadIdx.x;
  if (own >= count)
    return;
  dz[own] = (y[own] - targets[own]) * slope_of(y[own]);
  db[own] += dz[own];
}

/* Replaces dy by dz. */
__global__ void differentiate(const float *y, int count, float *dz, float *db) {
  const int own = blockIdx.x * THREADS + threadIdx.x;
  if (own >= count)
    return;
  dz[own] *= slope_of(y[own]);
  db[own] += dz[own];
}

/* Returns the floats for y and dz of one case, and for the gradient. */
int64_t workspace(const gconv_backprop_net &net) {
  return 2 * (int64_t)gconv_backprop_neurons(&net, net.layers + 1) + gconv_backprop_parameters(&net, net.layers + 1);
}

gconv_status acquire(const gconv_backprop_run &run, void **state) {
  const char *trouble = available();
  if (trouble)
    return gconv_fail(GCONV_UNSUPPORTED, "%s", trouble);
  return cublas_acquire(run.stream, cublas_workspace_bytes((size_t)256 << 20), CUBLAS_PEDANTIC, state);
}

gconv_status take_case(const gconv_backprop_run &run, int64_t number, float *y, float *dz, float *gradient) {
  const gconv_backprop_net &net = run.net;
  const cublas_handle handle = ((cublas_state *)run.state)->handle;
  const float one = 1, zero = 0, *x = run.inputs + number * net.widths[0];
  for (int32_t l = 1; l <= net.layers; l++) {
    const float *weights = run.parameters + gconv_backprop_parameters(&net, l);
    const int c = net.widths[l - 1], k = net.widths[l];
    const float *in = l == 1 ? x : y + gconv_backprop_neurons(&net, l - 1);
    float *out = y + gconv_backprop_neurons(&net, l);
    CUBLAS_TRY(cublas_sgemv(handle, CUBLAS_TRANSPOSED, c, k, &one, weights, c, in, 1, &zero, out, 1));
    activate<<<blocks_for(k, THREADS), THREADS, 0, run.stream>>>(weights + (int64_t)k * c, k, out);
  }
  for (int32_t l = net.layers; l >= 1; l--) {
    const int64_t first = gconv_backprop_parameters(&net, l);
    const int c = net.widths[l - 1], k = net.widths[l];
    const float *in = l == 1 ? x : y + gconv_backprop_neurons(&net, l - 1), *out = y + gconv_backprop_neurons(&net, l);
    float *own = dz + gconv_backprop_neurons(&net, l), *biases = gradient + first + (int64_t)k * c;
    if (l == net.layers)
      start_backward<<<blocks_for(k, THREADS), THREADS, 0, run.stream>>>(out, run.targets + number * k, k, own, biases);
    else
      differentiate<<<blocks_for(k, THREADS), THREADS, 0, run.stream>>>(out, k, own, biases);
    CUBLAS_TRY(cublas_sger(handle, c, k, &one, in, 1, own, 1, gradient + first, c));
    if (l > 1)
      CUBLAS_TRY(cublas_sgemv(handle, CUBLAS_NOT_TRANSPOSED, c, k, &one, run.parameters + first, c, own, 1, &zero,
                              dz + gconv_backprop_neurons(&net, l - 1), 1));
  }
  return GCONV_OK;
}

gconv_status epoch(const gconv_backprop_run &run) {
  const int64_t neurons = gconv_backprop_neurons(&run.net, run.net.layers + 1);
  const int64_t parameters = gconv_backprop_parameters(&run.net, run.net.layers + 1);
  float *y = run.workspace, *dz = y + neurons, *gradient = dz + neurons;
  CUDA_TRY(cudaMemsetAsync(gradient, 0, (size_t)parameters * sizeof(float), run.stream));
  for (int64_t i = 0; i < run.net.cases; i++)
    GCONV_TRY(take_case(run, i, y, dz, gradient));
  start_step(run, gradient, 1);
  return GCONV_OK;
}

} // namespace

const gconv_backprop_method gconv_backprop_cublas = {"cublas-a-case", false, workspace, acquire, dismiss, epoch};

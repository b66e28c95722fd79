/* SPDX-License-Identifier: MIT */
/*
 * kernel-a-layer: a kernel takes all cases through one layer at once, so that the layer is a product of matrices. With N
 * cases, C inputs and K outputs:
 *
 *     forward     Y  (N x K) = sigmoid(X (N x C) * W' (C x K) + b)
 *     backward    dX (N x C) = (dZ (N x K) * W (K x C)) * X * (1 - X)            X being the outputs of the layer before
 *     gradient    dW (K x C) = dZ' (K x N) * X (N x C)
 *
 * Each is computed by tiles of 16 x 16 sums, a thread for each sum. To add 16 products, a block loads a tile of either
 * matrix into shared memory, an element per thread; then each thread reads a row of one tile and a column of the other:
 *
 *                      +----+                         A number that is loaded from global memory is used 16 times,
 *                      |B   |                         where thread-a-case uses it once.
 *                      |    |  16 x 16
 *                      +----+
 *           +----+     +----+
 *           |A   |     |  . |  <- sum of row . of A times column . of B, over all tiles from left to right in A and
 *           |    |     |    |     from top to bottom in B
 *           +----+     +----+
 *
 * The gradient has few sums, K x C, of many products, N. To have more blocks, the cases are cut into 32 slices. Each slice
 * yields a partial gradient; these are added at the end (method.cuh). A bias is the weight of an input that is always 1: it
 * is column C of dW.
 *
 * An epoch has 3 N W multiply-adds for W weights, as in the other methods. Shared memory bounds it: each multiply-add takes
 * two reads. Fast products (../train/product.cuh) give a thread 4 x 4 sums, so that it reads 8 numbers for 16 multiply-adds.
 */
#include "method.cuh"

namespace {

enum { TILE = 16, SLICES = 32 };
typedef float tile[TILE][TILE]; /* a warp stores two rows of it, 32 neighbouring words, one in each bank */

/* Returns element (row, column) of a matrix, or 0 outside. */
__device__ __forceinline__ float load(const float *matrix, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return row < rows && column < columns ? matrix[row * columns + column] : 0.0f;
}

__global__ void forward(const float *x, const float *weights, const float *biases, int64_t cases, int64_t inputs,
                        int64_t outputs, float *y) {
  __shared__ tile xs;
  /* The tile of W', so a warp stores two columns. With two more words per row, rows are two banks apart, and the second
   * column falls on the banks between. */
  __shared__ float ws[TILE][TILE + 2];
  const int row = threadIdx.y, column = threadIdx.x;
  const int64_t n = (int64_t)blockIdx.x * TILE + row, first_k = (int64_t)blockIdx.y * TILE;
  float z = 0;
  for (int64_t first_c = 0; first_c < inputs; first_c += TILE) {
    xs[row][column] = load(x, n, cases, first_c + column, inputs);
    ws[column][row] = load(weights, first_k + row, outputs, first_c + column, inputs);
    __syncthreads();
#pragma unroll
    for (int c = 0; c < TILE; c++)
      z = fmaf(xs[row][c], ws[c][column], z);
    __syncthreads();
  }
  const int64_t k = first_k + column;
  if (n < cases && k < outputs)
    y[n * outputs + k] = gconv_sigmoid(z + biases[k]);
}

__global__ void start_backward(const float *y, const float *targets, int64_t count, float *dz) {
  const int64_t own = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (own < count)
    dz[own] = (y[own] - targets[own]) * slope_of(y[own]);
}

__global__ void backward(const float *dz, const float *weights, const float *x, int64_t cases, int64_t inputs,
                         int64_t outputs, float *dx) {
  __shared__ tile dzs, ws;
  const int row = threadIdx.y, column = threadIdx.x;
  const int64_t n = (int64_t)blockIdx.x * TILE + row, c = (int64_t)blockIdx.y * TILE + column;
  float sum = 0;
  for (int64_t first_k = 0; first_k < outputs; first_k += TILE) {
    dzs[row][column] = load(dz, n, cases, first_k + column, outputs);
    ws[row][column] = load(weights, first_k + row, outputs, c, inputs);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; k++)
      sum = fmaf(dzs[row][k], ws[k][column], sum);
    __syncthreads();
  }
  if (n < cases && c < inputs)
    dx[n * inputs + c] = sum * slope_of(x[n * inputs + c]);
}

/* Computes the partial gradient of slice blockIdx.z, which has `slice` cases. */
__global__ void find_gradient(const float *x, const float *dz, int64_t cases, int64_t slice, int64_t inputs, int64_t outputs,
                              int64_t all, float *partials) {
  __shared__ tile dzs, xs;
  const int row = threadIdx.y, column = threadIdx.x;
  const int64_t first_k = (int64_t)blockIdx.x * TILE, k = first_k + row, c = (int64_t)blockIdx.y * TILE + column;
  const int64_t first = blockIdx.z * slice, end = first + slice < cases ? first + slice : cases;
  float sum = 0;
  for (int64_t first_n = first; first_n < end; first_n += TILE) {
    const int64_t n = first_n + row;
    dzs[row][column] = load(dz, n, end, first_k + column, outputs);
    xs[row][column] = c == inputs ? 1.0f : load(x, n, end, c, inputs);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; i++)
      sum = fmaf(dzs[i][row], xs[i][column], sum);
    __syncthreads();
  }
  float *partial = partials + blockIdx.z * all;
  if (k < outputs && c <= inputs)
    partial[c < inputs ? k * inputs + c : outputs * inputs + k] = sum;
}

int64_t values_of(const gconv_backprop_net &net) {
  return (int64_t)gconv_backprop_neurons(&net, net.layers + 1) * net.cases;
}

int64_t workspace(const gconv_backprop_net &net) {
  return 2 * values_of(net) + SLICES * gconv_backprop_parameters(&net, net.layers + 1);
}

gconv_status epoch(const gconv_backprop_run &run) {
  const gconv_backprop_net &net = run.net;
  const int64_t cases = net.cases, all = gconv_backprop_parameters(&net, net.layers + 1);
  const int64_t outputs = cases * net.widths[net.layers], slice = (cases + SLICES - 1) / SLICES;
  const dim3 threads(TILE, TILE);
  float *y = run.workspace, *dz = y + values_of(net), *partials = dz + values_of(net);
  const auto offset = [&](int32_t l) { return gconv_backprop_neurons(&net, l) * cases; }; /* where y and dz of l begin */

  for (int32_t l = 1; l <= net.layers; l++) {
    const float *x = l == 1 ? run.inputs : y + offset(l - 1);
    const float *weights = run.parameters + gconv_backprop_parameters(&net, l);
    const int64_t c = net.widths[l - 1], k = net.widths[l];
    forward<<<dim3(blocks_for(cases, TILE), blocks_for(k, TILE)), threads, 0, run.stream>>>(x, weights, weights + k * c,
                                                                                            cases, c, k, y + offset(l));
  }
  mark(run, "forward");
  start_backward<<<blocks_for(outputs, 256), 256, 0, run.stream>>>(y + offset(net.layers), run.targets, outputs,
                                                                   dz + offset(net.layers));
  for (int32_t l = net.layers; l >= 1; l--) {
    const float *x = l == 1 ? run.inputs : y + offset(l - 1);
    const int64_t first = gconv_backprop_parameters(&net, l), c = net.widths[l - 1], k = net.widths[l];
    const dim3 tiles(blocks_for(k, TILE), blocks_for(c + 1, TILE), SLICES);
    find_gradient<<<tiles, threads, 0, run.stream>>>(x, dz + offset(l), cases, slice, c, k, all, partials + first);
    if (l > 1)
      backward<<<dim3(blocks_for(cases, TILE), blocks_for(c, TILE)), threads, 0, run.stream>>>(
          dz + offset(l), run.parameters + first, x, cases, c, k, dz + offset(l - 1));
  }
  mark(run, "backward");
  start_step(run, partials, SLICES);
  mark(run, "sums");
  return GCONV_OK;
}

} // namespace

const gconv_backprop_method gconv_backprop_layer = {"kernel-a-layer", false, workspace, NULL, NULL, epoch};

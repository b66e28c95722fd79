/* SPDX-License-Identifier: MIT */
/*
 * Values and gradients of a layer lie in shared memory as [output][case], weights as [output][input] with the bias behind
 * the inputs. Behind the last input of a layer is a row of ones, so that the gradient of a bias is that of a weight. Rows
 * begin at odd multiples of 16 bytes, so that threads which read the same column of neighbouring rows meet no conflicts of
 * banks. Between the parts of a step, the threads of a block wait for each other:
 *
 *   1. forward, layer by layer; the inputs of the next step are on their way meanwhile
 *   2. softmax, and the gradient of the sums of the last layer
 *   3. the gradients of the other layers' sums, from the last to the first
 *   4. the gradients of all weights, each changed at once by the thread that has it; the last warp sums the losses
 */
#include "resident.h"
#include "device/cuda_error.h"

#include <cuda_pipeline.h>

#include <stdlib.h>

enum { THREADS = 512, LAYERS = 8, SHARED_BYTES = 227 << 10 };

namespace {

struct resident_layer {
  int32_t inputs, outputs;
  int64_t weights; /* where they are in the parameters */
  /* Where these are in shared memory, in floats: */
  int32_t w, w_pitch;
  int32_t x, dz; /* the input, and the gradient of the sums */
  gconv_activation activation;
  float slope;
};

struct resident_net {
  resident_layer layers[LAYERS];
  int32_t count, inputs, outputs;
  int32_t room, pitch; /* cases, rounded up to 4; from one row of values to the next */
  int32_t y;           /* the last output, in shared memory */
  int32_t next;        /* the other input of layer 0; -1: there is none, and the next inputs come when all is done */
  int32_t losses;      /* of `room` doubles */
  int32_t first, second, floats; /* what the optimiser keeps: as far behind the weights; all */
  int32_t w_floats;              /* of all weights */
  gconv_loss loss;
  bool classes;
  float factor, last_factor; /* gconv_learn_factor() of a batch, and of the last one */
};

struct run_of {
  const float *inputs, *targets;
  const size_t *numbers;
  int64_t cases;
  int32_t batch;
  float *parameters, *first, *second;
};

extern __shared__ __align__(16) float shared[];

/* ---- Loading ---- */

__device__ void load_array(const resident_net &net, const float *from, int32_t to) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer &l = net.layers[i];
    const int32_t weights = l.inputs * l.outputs;
    for (int32_t j = threadIdx.x; j < weights + l.outputs; j += THREADS) {
      const int32_t k = j < weights ? j / l.inputs : j - weights, c = j < weights ? j - k * l.inputs : l.inputs;
      shared[to + l.w + k * l.w_pitch + c] = from[l.weights + j];
    }
  }
}

__device__ void store_array(const resident_net &net, int32_t from, float *to) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer &l = net.layers[i];
    const int32_t weights = l.inputs * l.outputs;
    for (int32_t j = threadIdx.x; j < weights + l.outputs; j += THREADS) {
      const int32_t k = j < weights ? j / l.inputs : j - weights, c = j < weights ? j - k * l.inputs : l.inputs;
      to[l.weights + j] = shared[from + l.w + k * l.w_pitch + c];
    }
  }
}

/* Begins to copy the inputs of `count` cases. */
__device__ void begin_inputs(const resident_net &net, const run_of &run, int64_t begin, int32_t count, int32_t to) {
  for (int32_t i = threadIdx.x; i < count * net.inputs; i += THREADS) {
    const int32_t n = i / net.inputs, c = i - n * net.inputs;
    __pipeline_memcpy_async(&shared[to + c * net.pitch + n],
                            &run.inputs[(int64_t)run.numbers[begin + n] * net.inputs + c], sizeof(float));
  }
  __pipeline_commit();
}

/* Rows of ones, and zeros where no case is. */
__device__ void clear(const resident_net &net) {
  for (int32_t i = threadIdx.x; i < net.floats; i += THREADS)
    shared[i] = 0.0f;
  __syncthreads();
  for (int32_t i = 0; i < net.count; i++)
    for (int32_t n = threadIdx.x; n < net.pitch; n += THREADS) {
      shared[net.layers[i].x + net.layers[i].inputs * net.pitch + n] = 1.0f;
      if (i == 0 && net.next >= 0)
        shared[net.next + net.inputs * net.pitch + n] = 1.0f;
    }
}

/* ---- Products ---- */

__device__ __forceinline__ void add_four(float w, const float *x, float (&sum)[4]) {
  const float4 v = *(const float4 *)x;
  sum[0] = fmaf(w, v.x, sum[0]);
  sum[1] = fmaf(w, v.y, sum[1]);
  sum[2] = fmaf(w, v.z, sum[2]);
  sum[3] = fmaf(w, v.w, sum[3]);
}

/* A thread computes ROWS outputs, which are `groups` apart, of four cases. */
template <int ROWS> __device__ void forward(const resident_net &net, const resident_layer &l, int32_t x_at, int32_t y_at) {
  const int32_t quads = net.room / 4, groups = (l.outputs + ROWS - 1) / ROWS;
  for (int32_t item = threadIdx.x; item < groups * quads; item += THREADS) {
    const int32_t group = item / quads, column = (item - group * quads) * 4;
    const float *w[ROWS], *x = shared + x_at + column;
    float sums[ROWS][4] = {};
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      w[i] = shared + l.w + min(group + i * groups, l.outputs - 1) * l.w_pitch;
    int32_t c = 0;
    for (; c + 4 <= l.inputs; c += 4) {
      float4 four[ROWS];
#pragma unroll
      for (int i = 0; i < ROWS; i++)
        four[i] = *(const float4 *)(w[i] + c);
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < ROWS; i++)
          add_four(j == 0 ? four[i].x : j == 1 ? four[i].y : j == 2 ? four[i].z : four[i].w, x + (c + j) * net.pitch, sums[i]);
    }
    for (; c < l.inputs; c++)
#pragma unroll
      for (int i = 0; i < ROWS; i++)
        add_four(w[i][c], x + c * net.pitch, sums[i]);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      if (group + i * groups < l.outputs) {
        float y[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
          y[j] = gconv_learn_activate(l.activation, l.slope, sums[i][j] + w[i][l.inputs]);
        *(float4 *)(shared + y_at + (group + i * groups) * net.pitch + column) = make_float4(y[0], y[1], y[2], y[3]);
      }
  }
}

/* The gradient of the sums of the layer before `l`: a thread computes four inputs of four cases. */
__device__ void backward(const resident_net &net, const resident_layer &l, const resident_layer &before) {
  const int32_t quads = net.room / 4, groups = (l.inputs + 3) / 4;
  for (int32_t item = threadIdx.x; item < groups * quads; item += THREADS) {
    const int32_t group = item / quads, column = (item - group * quads) * 4;
    const float *w = shared + l.w + 4 * group, *dz = shared + l.dz + column;
    float sums[4][4] = {};
#pragma unroll 4
    for (int32_t k = 0; k < l.outputs; k++) {
      const float4 four = *(const float4 *)(w + k * l.w_pitch);
      add_four(four.x, dz + k * net.pitch, sums[0]);
      add_four(four.y, dz + k * net.pitch, sums[1]);
      add_four(four.z, dz + k * net.pitch, sums[2]);
      add_four(four.w, dz + k * net.pitch, sums[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int32_t c = 4 * group + i;
      if (c >= l.inputs)
        break;
      const float4 y = *(const float4 *)(shared + l.x + c * net.pitch + column);
      const float ys[4] = {y.x, y.y, y.z, y.w};
      float to[4];
#pragma unroll
      for (int j = 0; j < 4; j++)
        to[j] = gconv_learn_slope(before.activation, before.slope, ys[j], sums[i][j] + 0.0f);
      *(float4 *)(shared + before.dz + c * net.pitch + column) = make_float4(to[0], to[1], to[2], to[3]);
    }
  }
}

/* The gradients of four outputs and four inputs, or the bias, of a layer, which are `groups` apart: sums over cases. */
struct gradient_tile {
  int32_t k, c, k_groups, c_groups;
  float sums[4][4];
};

__device__ void sum_tile(const resident_net &net, const resident_layer &l, int32_t x_at, int32_t count,
                         gradient_tile &tile) {
  const float *x[4], *dz[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    x[i] = shared + x_at + min(tile.c + i * tile.c_groups, l.inputs) * net.pitch;
    dz[i] = shared + l.dz + min(tile.k + i * tile.k_groups, l.outputs - 1) * net.pitch;
#pragma unroll
    for (int j = 0; j < 4; j++)
      tile.sums[i][j] = 0;
  }
  int32_t n = 0;
  for (; n + 4 <= count; n += 4) {
    float4 xs[4], dzs[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      xs[i] = *(const float4 *)(x[i] + n);
      dzs[i] = *(const float4 *)(dz[i] + n);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        float sum = tile.sums[i][j];
        sum = fmaf(xs[j].x, dzs[i].x, sum);
        sum = fmaf(xs[j].y, dzs[i].y, sum);
        sum = fmaf(xs[j].z, dzs[i].z, sum);
        tile.sums[i][j] = fmaf(xs[j].w, dzs[i].w, sum);
      }
  }
  for (; n < count; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        tile.sums[i][j] = fmaf(x[j][n], dz[i][n], tile.sums[i][j]);
}

/* Calls use(layer, k, c, sum) with the gradient of each weight; c == inputs: of a bias. */
template <class Use> __device__ void for_gradients(const resident_net &net, int32_t x_at, int32_t count, Use use) {
  int32_t item = threadIdx.x;
  for (int32_t i = net.count - 1; i >= 0; i--) {
    const resident_layer &l = net.layers[i];
    gradient_tile tile;
    tile.k_groups = (l.outputs + 3) / 4;
    tile.c_groups = (l.inputs + 4) / 4; /* with the bias */
    const int32_t items = tile.k_groups * tile.c_groups;
    for (; item < items; item += THREADS) {
      tile.k = item / tile.c_groups;
      tile.c = item - tile.k * tile.c_groups;
      sum_tile(net, l, i == 0 ? x_at : l.x, count, tile);
#pragma unroll
      for (int a = 0; a < 4; a++)
#pragma unroll
        for (int b = 0; b < 4; b++)
          if (tile.k + a * tile.k_groups < l.outputs && tile.c + b * tile.c_groups <= l.inputs)
            use(l, tile.k + a * tile.k_groups, tile.c + b * tile.c_groups, tile.sums[a][b]);
    }
    item -= items;
  }
}

/* ---- Losses ---- */

__device__ float target_of(const resident_net &net, const run_of &run, int64_t number, int32_t k) {
  return net.classes ? (run.targets[number] == (float)k ? 1.0f : 0.0f) : run.targets[number * net.outputs + k];
}

/* Softmax: SHARE neighbouring threads have a case together. */
template <int SHARE> __device__ void soften(const resident_net &net, int32_t count) {
  const unsigned lane = threadIdx.x % SHARE;
  for (int32_t first = 0; first < count; first += THREADS / SHARE) {
    const int32_t n = first + (int32_t)threadIdx.x / SHARE;
    const bool own = n < count;
    float *y = shared + net.y + (own ? n : 0);
    float largest = y[0], sum = 0;
    for (int32_t k = (int32_t)lane; k < net.outputs; k += SHARE)
      largest = fmaxf(largest, y[k * net.pitch]);
#pragma unroll
    for (int half = SHARE / 2; half > 0; half /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, half));
    __syncwarp();
    for (int32_t k = (int32_t)lane; own && k < net.outputs; k += SHARE)
      y[k * net.pitch] = gconv_exp_negative(y[k * net.pitch] - largest);
    __syncwarp();
    for (int32_t k = 0; k < net.outputs; k++)
      sum += y[k * net.pitch];
    __syncwarp();
    for (int32_t k = (int32_t)lane; own && k < net.outputs; k += SHARE)
      y[k * net.pitch] /= sum;
    __syncwarp();
  }
}

/* The gradient of the sums of the last layer. Returns whether a loss is not finite, to all threads. */
__device__ bool differentiate(const resident_net &net, const run_of &run, int64_t begin, int32_t count, float factor) {
  const resident_layer &l = net.layers[net.count - 1];
  bool bad = false;
  if (net.loss == GCONV_LOSS_CROSS_ENTROPY) {
    soften<16>(net, count);
    __syncthreads();
  }
  for (int32_t i = threadIdx.x; i < count * net.outputs; i += THREADS) {
    const int32_t k = i / count, n = i - k * count, at = k * net.pitch + n;
    const float y = shared[net.y + at], d = y - target_of(net, run, (int64_t)run.numbers[begin + n], k);
    bad = bad || !isfinite(y) || !isfinite(d);
    float dy = net.loss == GCONV_LOSS_SSE ? d : net.loss != GCONV_LOSS_MAE ? d * factor : d > 0 ? factor : d < 0 ? -factor : 0.0f;
    if (net.loss != GCONV_LOSS_CROSS_ENTROPY)
      dy = gconv_learn_slope(l.activation, l.slope, y, dy);
    shared[l.dz + at] = dy;
  }
  return __syncthreads_or(bad);
}

__device__ double loss_of(const resident_net &net, const run_of &run, int64_t number, int32_t n) {
  const float *y = shared + net.y + n;
  if (net.loss == GCONV_LOSS_CROSS_ENTROPY)
    return gconv_learn_cross_entropy(y[(int32_t)run.targets[number] * net.pitch]);
  double loss = 0;
  for (int32_t k = 0; k < net.outputs; k++) {
    const double d = (double)y[k * net.pitch] - (double)target_of(net, run, number, k);
    loss += net.loss == GCONV_LOSS_MAE ? fabs(d) : d * d;
  }
  return loss;
}

__device__ uint32_t hit_of(const resident_net &net, const run_of &run, int64_t number, int32_t n) {
  const float *y = shared + net.y + n;
  const int32_t target = (int32_t)run.targets[number];
  const float own = y[target * net.pitch];
  bool miss = false;
  for (int32_t k = 0; k < net.outputs; k++)
    miss = miss || (k < target ? !(y[k * net.pitch] < own) : k > target ? !(y[k * net.pitch] <= own) : false);
  return !miss;
}

/* By one warp: the losses of a step, summed by a tree, and the hits. */
__device__ void sum_losses(const resident_net &net, const run_of &run, int64_t begin, int32_t count,
                           gconv_learn_outcome *outcome) {
  double *losses = (double *)(shared + net.losses);
  const int32_t lane = (int32_t)threadIdx.x % 32;
  uint32_t hits = 0;
  for (int32_t n = lane; n < count; n += 32) {
    const int64_t number = (int64_t)run.numbers[begin + n];
    losses[n] = loss_of(net, run, number, n);
    hits += net.classes ? hit_of(net, run, number, n) : 0;
  }
  for (int32_t step = 1; step < count; step *= 2) {
    __syncwarp();
    for (int32_t i = 2 * step * lane; i + step < count; i += 2 * step * 32)
      losses[i] += losses[i + step];
  }
  __syncwarp();
#pragma unroll
  for (int half = 16; half > 0; half /= 2)
    hits += __shfl_xor_sync(0xffffffff, hits, half);
  if (lane == 0)
    *outcome = {losses[0], hits};
}

/* ---- Kernels ---- */

template <int ROWS> __device__ void run_forward(const resident_net &net, int32_t x_at) {
  for (int32_t i = 0; i < net.count; i++) {
    forward<ROWS>(net, net.layers[i], i == 0 ? x_at : net.layers[i].x, i + 1 < net.count ? net.layers[i + 1].x : net.y);
    __syncthreads();
  }
}

__device__ void run_backward(const resident_net &net) {
  for (int32_t i = net.count - 1; i > 0; i--) {
    backward(net, net.layers[i], net.layers[i - 1]);
    __syncthreads();
  }
}

template <gconv_optimizer OPTIMIZER>
__global__ void __launch_bounds__(THREADS, 1)
    take_steps(const __grid_constant__ resident_net net, run_of run, const gconv_learn_step *steps, int32_t count,
               gconv_learn_outcome *outcomes) {
  constexpr bool FIRST = OPTIMIZER != GCONV_OPTIMIZER_SGD, SECOND = FIRST && OPTIMIZER != GCONV_OPTIMIZER_MOMENTUM;
  clear(net);
  load_array(net, run.parameters, 0);
  if (FIRST)
    load_array(net, run.first, net.first);
  if (SECOND)
    load_array(net, run.second, net.second);
  int32_t x = net.layers[0].x, next = net.next;
  const auto cases_of = [&](int32_t i) { return (int32_t)min((int64_t)run.batch, run.cases - (int64_t)i * run.batch); };
  begin_inputs(net, run, 0, cases_of(0), x);
  for (int32_t i = 0; i < count; i++) {
    const int64_t begin = (int64_t)i * run.batch;
    const int32_t cases = cases_of(i);
    gconv_learn_step step = steps[i];
    step.optimizer = OPTIMIZER;
    __pipeline_wait_prior(0);
    __syncthreads();
    if (next >= 0 && i + 1 < count)
      begin_inputs(net, run, begin + run.batch, cases_of(i + 1), next);
    run_forward<2>(net, x);
    const bool bad = differentiate(net, run, begin, cases, cases == run.batch ? net.factor : net.last_factor);
    if (!bad)
      run_backward(net);
    if (threadIdx.x >= THREADS - 32)
      sum_losses(net, run, begin, cases, &outcomes[i]);
    if (bad)
      break;
    for_gradients(net, x, cases, [&](const resident_layer &l, int32_t k, int32_t c, float sum) {
      float *w = shared + l.w + k * l.w_pitch + c, unused = 0;
      gconv_learn_update(&step, c < l.inputs, sum, w, FIRST ? w + net.first : &unused, SECOND ? w + net.second : &unused);
    });
    if (next >= 0) {
      const int32_t swap = x;
      x = next;
      next = swap;
    } else if (i + 1 < count) {
      __syncthreads();
      begin_inputs(net, run, begin + run.batch, cases_of(i + 1), x);
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  store_array(net, 0, run.parameters);
  if (FIRST)
    store_array(net, net.first, run.first);
  if (SECOND)
    store_array(net, net.second, run.second);
}

/* A block a slice. */
__global__ void __launch_bounds__(THREADS, 1)
    find_leaves(const __grid_constant__ resident_net net, run_of run, int64_t parameters, float *leaves, double *losses,
                uint32_t *hits) {
  const int64_t begin = (int64_t)blockIdx.x * run.batch;
  const int32_t cases = (int32_t)min((int64_t)run.batch, run.cases - begin), x = net.layers[0].x;
  clear(net);
  load_array(net, run.parameters, 0);
  begin_inputs(net, run, begin, cases, x);
  __pipeline_wait_prior(0);
  __syncthreads();
  run_forward<4>(net, x);
  differentiate(net, run, begin, cases, net.factor);
  run_backward(net);
  for (int32_t n = threadIdx.x; n < cases; n += THREADS) {
    const int64_t number = (int64_t)run.numbers[begin + n];
    losses[begin + n] = loss_of(net, run, number, n);
    hits[begin + n] = net.classes ? hit_of(net, run, number, n) : 0;
  }
  float *leaf = leaves + blockIdx.x * parameters;
  for_gradients(net, x, cases, [&](const resident_layer &l, int32_t k, int32_t c, float sum) {
    leaf[l.weights + (c < l.inputs ? k * l.inputs + c : l.inputs * l.outputs + k)] = sum;
  });
}

int32_t row_of(int32_t floats) { /* rounded up to an odd multiple of four */
  const int32_t fours = (floats + 3) / 4;
  return 4 * (fours | 1);
}

/* Lays a network out for up to `cases` at a time; arrays: of the optimiser. False if it does not fit. */
bool lay_out(const gconv_learn_net *net, size_t cases, int arrays, bool twice, resident_net *made) {
  *made = {};
  made->count = (int32_t)net->count;
  made->room = (int32_t)(cases + 3) / 4 * 4;
  made->pitch = row_of(made->room);
  made->loss = net->loss;
  made->classes = net->classes;
  made->inputs = (int32_t)gconv_learn_in_floats(&net->layers[0]);
  made->outputs = (int32_t)gconv_learn_outputs(net);
  int64_t at = 0;
  for (size_t i = 0; i < net->count; i++) {
    const gconv_learn_layer *layer = &net->layers[i];
    resident_layer *l = &made->layers[i];
    l->inputs = (int32_t)gconv_learn_in_floats(layer);
    l->outputs = (int32_t)gconv_learn_out_floats(layer);
    l->weights = (int64_t)layer->weights;
    l->activation = layer->problem.activation;
    l->slope = layer->problem.slope;
    l->w = (int32_t)at;
    l->w_pitch = row_of(l->inputs + 1);
    at += (int64_t)l->w_pitch * l->outputs;
  }
  made->first = (int32_t)at;
  made->second = (int32_t)(2 * at);
  at *= 1 + arrays;
  for (int32_t i = 0; i < made->count; i++) {
    resident_layer *l = &made->layers[i];
    l->x = (int32_t)at;
    at += (int64_t)(l->inputs + 1) * made->pitch;
    l->dz = (int32_t)at;
    at += (int64_t)l->outputs * made->pitch;
  }
  made->y = (int32_t)at;
  at += (int64_t)made->outputs * made->pitch;
  made->losses = (int32_t)at;
  at += 2 * made->room;
  made->next = twice ? (int32_t)at : -1;
  at += twice ? (int64_t)(made->inputs + 1) * made->pitch : 0;
  made->floats = (int32_t)at;
  return at * (int64_t)sizeof(float) <= SHARED_BYTES;
}

} // namespace

struct gconv_resident {
  gconv_learn_net net;
  size_t batch;
  resident_net for_arrays[3]; /* with 0, 1 and 2 arrays of the optimiser; its count is 0 where it does not fit */
  resident_net for_slices;
  gconv_learn_step *steps; /* of the device */
};

gconv_status gconv_resident_make(const gconv_learn_net *net, size_t batch, gconv_resident **resident) {
  *resident = NULL;
  const gconv_learn_layer *last = &net->layers[net->count - 1];
  bool fits = net->count <= LAYERS && gconv_learn_tail(net) == 0 && net->parameters < (size_t)SHARED_BYTES;
  for (size_t i = 0; i < net->count; i++) {
    const gconv_learn_layer *layer = &net->layers[i];
    const bool soft = layer->problem.activation == GCONV_ACTIVATION_SOFTMAX;
    fits = fits && layer->kind == GCONV_LAYER_CONV && (!soft || (layer == last && net->loss == GCONV_LOSS_CROSS_ENTROPY)) &&
           gconv_learn_in_floats(layer) <= 16384 && gconv_learn_out_floats(layer) <= 16384;
  }
  if (!fits)
    return GCONV_OK;
  gconv_resident *made = (gconv_resident *)calloc(1, sizeof *made);
  if (!made)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  made->net = *net;
  made->batch = batch;
  bool any = false;
  for (int arrays = 0; arrays < 3 && batch <= GCONV_LEARN_SLICE; arrays++)
    if (lay_out(net, batch, arrays, true, &made->for_arrays[arrays]) ||
        lay_out(net, batch, arrays, false, &made->for_arrays[arrays]))
      any = true;
    else
      made->for_arrays[arrays].count = 0;
  if (batch > GCONV_LEARN_SLICE && lay_out(net, GCONV_LEARN_SLICE, 0, false, &made->for_slices))
    any = true;
  else
    made->for_slices.count = 0;
  const cudaError_t error = any ? cudaMalloc(&made->steps, GCONV_RESIDENT_STEPS * sizeof *made->steps) : cudaSuccess;
  if (!any || error != cudaSuccess)
    free(made);
  else
    *resident = made;
  CUDA_TRY(error);
  return GCONV_OK;
}

void gconv_resident_free(gconv_resident *resident) {
  if (resident)
    cudaFree(resident->steps);
  free(resident);
}

static int arrays_of(gconv_optimizer optimizer) {
  return optimizer == GCONV_OPTIMIZER_SGD ? 0 : optimizer == GCONV_OPTIMIZER_MOMENTUM ? 1 : 2;
}

bool gconv_resident_takes_steps(const gconv_resident *resident, gconv_optimizer optimizer) {
  return resident && resident->for_arrays[arrays_of(optimizer)].count > 0;
}

bool gconv_resident_takes_slices(const gconv_resident *resident) {
  return resident && resident->for_slices.count > 0;
}

template <class Kernel> static gconv_status allow_shared(Kernel kernel, const resident_net &net) {
  CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, net.floats * (int)sizeof(float)));
  return GCONV_OK;
}

gconv_status gconv_resident_start(const gconv_resident *resident, const gconv_resident_run *run,
                                  const gconv_learn_step *steps, size_t count, gconv_learn_outcome *outcomes,
                                  cudaStream_t stream) {
  const gconv_optimizer optimizer = steps[0].optimizer;
  resident_net net = resident->for_arrays[arrays_of(optimizer)];
  const run_of of = {run->inputs,     run->targets,    run->numbers, (int64_t)run->cases, (int32_t)resident->batch,
                     run->parameters, run->first,      run->second};
  const size_t last = run->cases - (count - 1) * resident->batch;
  net.factor = (float)gconv_learn_factor(&resident->net, resident->batch);
  net.last_factor = (float)gconv_learn_factor(&resident->net, last < resident->batch ? last : resident->batch);
  CUDA_TRY(cudaMemcpyAsync(resident->steps, steps, count * sizeof *steps, cudaMemcpyHostToDevice, stream));
  const size_t bytes = (size_t)net.floats * sizeof(float);
  const auto start = [&](auto kernel) {
    GCONV_TRY(allow_shared(kernel, net));
    kernel<<<1, THREADS, bytes, stream>>>(net, of, resident->steps, (int32_t)count, outcomes);
    return GCONV_OK;
  };
  switch (optimizer) {
  case GCONV_OPTIMIZER_ADAM:
    return start(take_steps<GCONV_OPTIMIZER_ADAM>);
  case GCONV_OPTIMIZER_MOMENTUM:
    return start(take_steps<GCONV_OPTIMIZER_MOMENTUM>);
  case GCONV_OPTIMIZER_RPROP:
    return start(take_steps<GCONV_OPTIMIZER_RPROP>);
  default:
    return start(take_steps<GCONV_OPTIMIZER_SGD>);
  }
}

gconv_status gconv_resident_start_slices(const gconv_resident *resident, const gconv_resident_run *run, float *leaves,
                                         double *losses, uint32_t *hits, cudaStream_t stream) {
  resident_net net = resident->for_slices;
  const run_of of = {run->inputs,     run->targets, run->numbers, (int64_t)run->cases, GCONV_LEARN_SLICE,
                     run->parameters, run->first,   run->second};
  net.factor = (float)gconv_learn_factor(&resident->net, run->cases);
  GCONV_TRY(allow_shared(find_leaves, net));
  const unsigned slices = (unsigned)((run->cases + GCONV_LEARN_SLICE - 1) / GCONV_LEARN_SLICE);
  find_leaves<<<slices, THREADS, (size_t)net.floats * sizeof(float), stream>>>(
      net, of, (int64_t)resident->net.parameters, leaves, losses, hits);
  return GCONV_OK;
}

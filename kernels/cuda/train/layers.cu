/* SPDX-License-Identifier: MIT */
/* Layers in training: the kernels around their products (operands.cuh), and the functions that launch them. */
#include "../kinds/kinds.cuh"
#include "layers.h"
#include "operands.cuh"

namespace {

enum { GROUP = 32, MOST_GROUPS = 16 };

/* ---- Kernels around products ---- */

__global__ void take_cases(const float *data, const size_t *numbers, const gconv_learn_control *control, int64_t batch,
                           int64_t cases, int64_t floats, float *x) {
  if (control)
    numbers += control->begun * batch;
  FOR_OWN (i, cases * floats) {
    const int64_t n = quotient(i, floats);
    x[i] = data[(int64_t)numbers[n] * floats + i - n * floats];
  }
}

/* Returns the target of output i. With classes, this is 1 for the output of the class, else 0. */
__device__ float target_of(const gconv_learn_net &net, const float *targets, int64_t n, int64_t i, int64_t outputs) {
  return net.classes ? (targets[n] == (float)i ? 1.0f : 0.0f) : targets[n * outputs + i];
}

/* Returns the weight of the class of case n. A product with 1 keeps its bits. */
__device__ float weight_of(const gconv_learn_net &net, const float *targets, int64_t n) {
  return net.class_weights ? net.class_weights[(size_t)targets[n]] : 1.0f;
}

/* True if the output of the class is the largest one. Of equal outputs, the first counts as the largest. */
__device__ bool hits_class(const float *y, float target, int64_t outputs) {
  const float own = y[(int64_t)target];
  bool miss = false;
  for (int64_t i = 0; i < outputs; i++)
    miss = miss || ((float)i < target ? !(y[i] < own) : (float)i > target ? !(y[i] <= own) : false);
  return !miss;
}

enum { TERMS = 2048 };

/* Computes the losses of `some` cases in each block. All threads compute the terms; then one thread for each case adds its
 * terms in order. pitch: the most terms of a case at a time. It is odd, so that cases lie in different banks. */
__global__ void __launch_bounds__(THREADS)
    find_losses(gconv_learn_net net, const float *y, const float *targets, int64_t cases, int64_t outputs, int some,
                int pitch, double *losses, uint32_t *hits) {
  __shared__ double terms[TERMS];
  const int64_t begin = (int64_t)blockIdx.x * some, n = begin + threadIdx.x;
  const int count = (int)min((int64_t)some, cases - begin);
  const bool own = (int)threadIdx.x < count, cross = net.loss == GCONV_LOSS_CROSS_ENTROPY;
  double loss = own && cross ? gconv_learn_cross_entropy(y[n * outputs + (int64_t)targets[n]]) : 0;
  for (int64_t first = 0; first < outputs && !cross; first += pitch) {
    const int wide = (int)min((int64_t)pitch, outputs - first);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count * wide; i += THREADS) {
      const int at = i / wide, j = i - at * wide;
      const int64_t m = begin + at;
      const double d = (double)y[m * outputs + first + j] - (double)target_of(net, targets, m, first + j, outputs);
      terms[at * pitch + j] = gconv_learn_loss_term(net.loss, d);
    }
    __syncthreads();
    if (own)
#pragma unroll 16
      for (int j = 0; j < wide; j++)
        loss += terms[threadIdx.x * pitch + j];
  }
  if (!own)
    return;
  losses[n] = loss * (double)weight_of(net, targets, n);
  hits[n] = net.classes && hits_class(y + n * outputs, targets[n], outputs);
}

__global__ void find_gradients(gconv_learn_net net, gconv_activation activation, float slope, const float *y,
                               const float *targets, int64_t cases, int64_t outputs, float factor, float *dy) {
  FOR_OWN (i, cases * outputs) {
    const int64_t n = quotient(i, outputs);
    const float d = y[i] - target_of(net, targets, n, i - n * outputs, outputs);
    const float gradient = gconv_learn_loss_gradient(net.loss, d, factor) * weight_of(net, targets, n);
    dy[i] = gconv_learn_slope(activation, slope, y[i], gradient);
  }
}

enum { ADDED = 1024 }; /* losses that a block adds: a branch of the tree of all losses */

/* Each block adds ADDED losses by a tree, and their hits. Stores the sums in place of the first of them. */
__global__ void __launch_bounds__(ADDED) add_branches(double *losses, uint32_t *hits, int64_t cases) {
  __shared__ double branch[ADDED];
  const int64_t first = (int64_t)blockIdx.x * ADDED, i = first + threadIdx.x;
  const int own = (int)threadIdx.x;
  branch[own] = i < cases ? losses[i] : 0;
  const int all = __syncthreads_count(i < cases && hits[i]);
  for (int step = 1; step < ADDED; step *= 2) {
    __syncthreads();
    if (own % (2 * step) == 0 && i + step < cases)
      branch[own] += branch[own + step];
  }
  if (own > 0)
    return;
  losses[first] = branch[0];
  hits[first] = (uint32_t)all;
}

/* Adds the `count` sums of add_branches(), by one block. */
__global__ void __launch_bounds__(1024) add_losses(double *losses, const uint32_t *hits, int64_t count, double factor,
                                                   gconv_learn_outcome *outcomes, gconv_learn_control *control) {
  __shared__ unsigned long long all;
  if (threadIdx.x == 0)
    all = 0;
  for (int64_t step = 1; step < count; step *= 2) {
    __syncthreads();
    for (int64_t i = 2 * step * threadIdx.x; i + step < count; i += 2 * step * 1024)
      losses[i * ADDED] += losses[(i + step) * ADDED];
  }
  __syncthreads();
  unsigned long long own = 0;
  for (int64_t i = threadIdx.x; i < count; i += 1024)
    own += hits[i * ADDED];
  atomicAdd(&all, own);
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  const double loss = losses[0] * factor;
  outcomes[control->begun++] = {losses[0], all};
  control->stop |= !isfinite(losses[0]);
  control->keep = loss < control->best;
  if (control->keep)
    control->best = loss;
}

/* A thread differentiates four numbers at a time. Then some threads differentiate the last count % 4 numbers. */
__global__ void differentiate_each(gconv_layer_problem p, const float *y, float *dy, int64_t count) {
  FOR_OWN (i, count / 4) {
    const float4 ys = ((const float4 *)y)[i], dys = ((const float4 *)dy)[i];
    ((float4 *)dy)[i] = {
        gconv_learn_slope(p.activation, p.slope, ys.x, dys.x), gconv_learn_slope(p.activation, p.slope, ys.y, dys.y),
        gconv_learn_slope(p.activation, p.slope, ys.z, dys.z), gconv_learn_slope(p.activation, p.slope, ys.w, dys.w)};
  }
  FOR_OWN (i, count % 4)
    dy[count - 1 - i] = gconv_learn_slope(p.activation, p.slope, y[count - 1 - i], dy[count - 1 - i]);
}

__global__ void differentiate_softmax(const float *y, float *dy, int64_t cases, int32_t filters, int64_t places) {
  FOR_OWN (i, cases * places) {
    const int64_t n = i / places, at = n * filters * places + i - n * places;
    double parts = 0;
    for (int32_t first = 0; first < filters; first += GCONV_SOFTMAX_PART) {
      float part = 0;
      for (int32_t k = first; k < filters && k < first + GCONV_SOFTMAX_PART; k++)
        part = fmaf(dy[at + k * places], y[at + k * places], part);
      parts += (double)part;
    }
    const float sum = (float)parts;
    for (int32_t k = 0; k < filters; k++)
      dy[at + k * places] = y[at + k * places] * (dy[at + k * places] - sum);
  }
}

/* Returns the sum of up to GROUP leaves, which are in registers. */
__device__ float add_group(float (&leaf)[GROUP], int64_t count) {
  UNROLLED_FOR (int step = 1; step < GROUP; step *= 2)
    UNROLLED_FOR (int i = 0; i < GROUP; i += 2 * step)
      if (i + step < count)
        leaf[i] = leaf[i] + leaf[i + step];
  return leaf[0];
}

/* Sums leaves by a tree. A warp sums 32 columns of a group of GROUP leaves. The number of warps of a block is a power
 * of two. In each round, each warp sums one group, and the first warp adds the groups. It adds the rounds as a binary
 * counter counts: level[b] is the sum of 2^b rounds. */
__global__ void __launch_bounds__(32 * MOST_GROUPS)
    add_leaves(const float *leaves, int64_t outer, int64_t count, int64_t floats, float *sums) {
  __shared__ float groups[MOST_GROUPS][32];
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
  for (int64_t first = (int64_t)blockIdx.x * 32; first < outer * floats; first += (int64_t)gridDim.x * 32) {
    const int64_t i = first + lane, at = i / floats, rounds = (count + warps * GROUP - 1) / (warps * GROUP);
    const bool there = i < outer * floats;
    const float *own = leaves + at * count * floats + i - at * floats;
    float level[40], sum = 0;
    for (int64_t round = 0; round < rounds; round++) {
      const int64_t begin = (round * warps + warp) * GROUP, left = there ? count - begin : 0;
      float leaf[GROUP];
      UNROLLED_FOR (int j = 0; j < GROUP; j++)
        leaf[j] = j < left ? own[(begin + j) * floats] : 0.0f;
      groups[warp][lane] = add_group(leaf, left);
      __syncthreads();
      if (warp == 0) {
        const int64_t rest = (count - begin + GROUP - 1) / GROUP;
        for (int step = 1; step < warps; step *= 2)
          for (int g = 0; g + step < warps && g + step < rest; g += 2 * step)
            groups[g][lane] += groups[g + step][lane];
        sum = groups[0][lane];
        int b = 0;
        for (; round >> b & 1; b++)
          sum = level[b] + sum;
        level[b] = sum;
      }
      __syncthreads();
    }
    if (warp > 0 || !there)
      continue;
    int b = 0;
    while (!(rounds >> b & 1))
      b++;
    sum = level[b];
    for (b++; rounds >> b; b++)
      if (rounds >> b & 1)
        sum = level[b] + sum;
    sums[i] = sum;
  }
}

enum { MOST_LAYERS = 32 };
struct parts_of_layers {
  gconv_learn_parts of[MOST_LAYERS];
};

/* The second axis of the grid has the layers. If a gradient has many parts, several threads share its sum. */
__global__ void __launch_bounds__(THREADS)
    update_each(const gconv_learn_step *steps, const __grid_constant__ parts_of_layers layers, gconv_learn_arrays arrays,
                const gconv_learn_control *control, uint32_t *bad) {
  __shared__ float sums[THREADS];
  if (control->stop)
    return;
  const gconv_learn_step step = steps[control->begun - 1];
  const gconv_learn_parts &own = layers.of[blockIdx.y];
  const bool keep = control->keep;
  const int sharing = own.count < 16 ? 1 : 8, across = THREADS / sharing;
  const int part = (int)threadIdx.x / across, lane = (int)threadIdx.x % across;
  for (int64_t first = (int64_t)blockIdx.x * across; first < own.parameters; first += (int64_t)gridDim.x * across) {
    const int64_t i = first + lane, at = own.first + i;
    float gradient = i < own.parameters ? own.leaves[part * own.parameters + i] : 0.0f;
    UNROLLED_8_FOR(int32_t j = part + sharing; j < own.count && i < own.parameters; j += sharing)
    gradient += own.leaves[j * own.parameters + i];
    if (sharing > 1) {
      sums[threadIdx.x] = gradient;
      __syncthreads();
      for (int j = 1; j < sharing && part == 0; j++)
        gradient += sums[j * across + lane];
      __syncthreads();
    }
    if (part > 0 || i >= own.parameters)
      continue;
    if (keep)
      arrays.best[at] = arrays.parameters[at];
    gconv_learn_update(&step, arrays.are_weights[at], gradient, &arrays.parameters[at], &arrays.first[at],
                       &arrays.second[at]);
    if (!isfinite(arrays.parameters[at]))
      *bad = 1;
  }
}

} // namespace

/* ---- Launching ---- */

void gconv_learn_make_taps(const gconv_layer_problem *p, gconv_learn_tap *taps) {
  for (int32_t c = 0; c < p->channels / p->groups; c++)
    for (int32_t r = 0; r < p->rows; r++)
      for (int32_t s = 0; s < p->columns; s++) {
        const int32_t row = r * p->dilation_y, column = s * p->dilation_x;
        *taps++ = {row, column, ((int64_t)c * p->height + row) * p->width + column};
      }
}

void gconv_learn_cuda_take(const float *data, const size_t *numbers, const gconv_learn_control *control, int64_t batch,
                           int64_t cases, int64_t floats, float *x, cudaStream_t stream) {
  take_cases<<<blocks_for(cases * floats), THREADS, 0, stream>>>(data, numbers, control, batch, cases, floats, x);
}

void gconv_learn_cuda_forward(const gconv_learn_own *own, const float *parameters, const float *x, int64_t cases, float *y,
                              cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  const int64_t places = (int64_t)p.out_height * p.out_width;
  const float *weights = parameters + own->layer.weights;
  start_products(weights_by_filter{p, weights}, inputs_by_place{p, x, own->taps},
                 activated{p, gconv_layer_biases(&p, weights), y}, p.filters / p.groups, cases * places, p.groups, stream);
}

void gconv_learn_cuda_losses(const gconv_learn_net *net, const float *y, const float *targets, int64_t cases, double *losses,
                             uint32_t *hits, cudaStream_t stream) {
  const int64_t outputs = (int64_t)gconv_learn_outputs(net);
  const int pitch = outputs < TERMS ? (int)outputs | 1 : TERMS - 1, most = TERMS / pitch < THREADS ? TERMS / pitch : THREADS;
  const int some = net->loss == GCONV_LOSS_CROSS_ENTROPY ? 64 : most;
  find_losses<<<(unsigned)((cases + some - 1) / some), THREADS, 0, stream>>>(*net, y, targets, cases, outputs, some, pitch,
                                                                             losses, hits);
}

void gconv_learn_cuda_outputs(const gconv_learn_net *net, const gconv_learn_own *last, const float *y, const float *targets,
                              int64_t cases, float factor, float *dy, cudaStream_t stream) {
  const int64_t outputs = (int64_t)gconv_learn_outputs(net);
  const gconv_activation activation = last ? last->layer.problem.activation : GCONV_ACTIVATION_NONE;
  const float slope = last ? last->layer.problem.slope : 0.0f;
  find_gradients<<<blocks_for(cases * outputs), THREADS, 0, stream>>>(*net, activation, slope, y, targets, cases, outputs,
                                                                      factor, dy);
}

void gconv_learn_cuda_sum_losses(double *losses, uint32_t *hits, int64_t cases, double factor, gconv_learn_outcome *outcomes,
                                 gconv_learn_control *control, cudaStream_t stream) {
  const int64_t branches = (cases + ADDED - 1) / ADDED;
  add_branches<<<(unsigned)branches, ADDED, 0, stream>>>(losses, hits, cases);
  add_losses<<<1, 1024, 0, stream>>>(losses, hits, branches, factor, outcomes, control);
}

void gconv_learn_cuda_differentiate(const gconv_learn_own *own, const float *y, float *dy, int64_t cases,
                                    cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  const int64_t places = (int64_t)p.out_height * p.out_width, count = cases * p.filters * places;
  if (p.activation == GCONV_ACTIVATION_SOFTMAX)
    differentiate_softmax<<<blocks_for(cases * places), THREADS, 0, stream>>>(y, dy, cases, p.filters, places);
  else if (p.activation != GCONV_ACTIVATION_NONE)
    differentiate_each<<<blocks_for((count + 3) / 4), THREADS, 0, stream>>>(p, y, dy, count);
}

void gconv_learn_cuda_inputs(const gconv_learn_own *own, const float *parameters, const float *dz, int64_t cases, float *dx,
                             cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  const int64_t places = (int64_t)p.height * p.width;
  start_products(weights_by_channel{p, parameters + own->layer.weights}, gradients_by_input{p, dz},
                 gradient_of_inputs{p, dx}, p.channels / p.groups, cases * places, p.groups, stream);
}

int64_t gconv_learn_leaves(const gconv_learn_own *own, int64_t cases) {
  return own->in_tail ? (cases + GCONV_LEARN_SLICE - 1) / GCONV_LEARN_SLICE : cases * gconv_learn_bands(&own->layer.problem);
}

void gconv_learn_cuda_weights(const gconv_learn_own *own, const float *x, const float *dz, int64_t cases, float *leaves,
                              cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  const int64_t filters = p.filters / p.groups, taps = gconv_layer_taps(&p);
  const int64_t products = gconv_learn_leaves(own, cases) * p.groups;
  const leaf_of_weights leaf = {filters, taps, p.groups, (int64_t)own->layer.parameters, leaves};
  if (own->in_tail)
    start_products(values_by_case{dz, p.filters, cases}, values_by_case{x, p.channels, cases}, leaf, filters, taps + 1,
                   products, stream);
  else if (!gconv_learn_cuda_gradient(own, x, dz, cases, leaves, stream))
    start_products(gradients_by_place{p, dz}, inputs_by_tap{p, x, own->taps}, leaf, filters, taps + 1, products, stream);
}

void gconv_learn_cuda_tree(const float *leaves, int64_t outer, int64_t count, int64_t floats, float *sums,
                           cudaStream_t stream) {
  unsigned warps = 1;
  while (warps < MOST_GROUPS && warps * GROUP < count)
    warps *= 2;
  const int64_t blocks = (outer * floats + 31) / 32;
  add_leaves<<<(unsigned)(blocks < 1 << 20 ? blocks : 1 << 20), 32 * warps, 0, stream>>>(leaves, outer, count, floats, sums);
}

void gconv_learn_cuda_update(const gconv_learn_step *steps, const gconv_learn_parts *parts, size_t layers,
                             const gconv_learn_arrays *arrays, const gconv_learn_control *control, uint32_t *bad,
                             cudaStream_t stream) {
  for (size_t first = 0; first < layers; first += MOST_LAYERS) {
    const unsigned count = (unsigned)(layers - first < (size_t)MOST_LAYERS ? layers - first : (size_t)MOST_LAYERS);
    parts_of_layers some = {};
    int64_t most = 1;
    for (unsigned i = 0; i < count; i++) {
      some.of[i] = parts[first + i];
      const int64_t threads = some.of[i].parameters * (some.of[i].count < 16 ? 1 : 8);
      most = threads > most ? threads : most;
    }
    update_each<<<dim3(blocks_for(most), count), THREADS, 0, stream>>>(steps, some, *arrays, control, bad);
  }
}

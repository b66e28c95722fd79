/* SPDX-License-Identifier: MIT */
/* The interface of the methods of backpropagation, and the end of an epoch, which they share. */
#pragma once

#include "../core/device.cuh"
#include "backprop.h"
#include "device/cuda_error.h"
#include "kernels/activation.h"

#include <cuda_runtime.h>

/* The ends of the parts of an epoch, if parts are timed. */
struct gconv_backprop_marks {
  const char *names[GCONV_BACKPROP_PARTS];
  cudaEvent_t ends[GCONV_BACKPROP_PARTS + 1]; /* the first is the begin of the epoch */
  int count;
};

/* The data that a method works on. Arrays are in device memory. */
struct gconv_backprop_run {
  gconv_backprop_net net;
  const float *inputs, *targets; /* cases x neurons; neurons x cases if the method is by_neuron */
  float *parameters;
  float *workspace; /* memory of workspace() floats; it need not survive an epoch */
  float rate;
  void *state; /* the state that acquire() made */
  cudaStream_t stream;
  gconv_backprop_marks *marks; /* NULL: nothing is marked */
};

struct gconv_backprop_method {
  const char *name;
  bool by_neuron;                                      /* inputs and targets are neurons x cases: a structure of arrays */
  int64_t (*workspace)(const gconv_backprop_net &net); /* floats */
  gconv_status (*acquire)(const gconv_backprop_run &run, void **state); /* NULL: there is no state */
  void (*release)(void *state);
  gconv_status (*epoch)(const gconv_backprop_run &run); /* puts an epoch into the stream */
};

extern const gconv_backprop_method gconv_backprop_thread, gconv_backprop_counters, gconv_backprop_own, gconv_backprop_block,
    gconv_backprop_one_host, gconv_backprop_four_host, gconv_backprop_four, gconv_backprop_kept, gconv_backprop_layer,
    gconv_backprop_cublas;

namespace {

/* Returns the derivative of the sigmoid at z, from y = sigmoid(z). */
__device__ __forceinline__ float slope_of(float y) {
  return y * (1.0f - y);
}

/* Ends the part of the epoch that has this name. */
inline void mark(const gconv_backprop_run &run, const char *name) {
  gconv_backprop_marks *marks = run.marks;
  if (!marks || marks->count == GCONV_BACKPROP_PARTS)
    return;
  marks->names[marks->count++] = name;
  cudaEventRecord(marks->ends[marks->count], run.stream);
}

inline unsigned blocks_for(int64_t count, int64_t threads) {
  return (unsigned)((count + threads - 1) / threads);
}

/*
 * The end of an epoch: adds the partial gradients, each of which is a sum over some of the cases, and takes the step.
 *
 *     partial gradients       a block: 32 parameters, 8 rows of threads
 *     0   g0 g1 g2 ...        row 0 adds partials 0, 8, 16 ...      \   8 sums per parameter,
 *     1   g0 g1 g2 ...        row 1 adds partials 1, 9, 17 ...       }  added by a tree in shared memory:
 *     2   g0 g1 g2 ...        ...                                   /   8 -> 4 -> 2 -> 1
 *
 * Neighbouring threads read neighbouring numbers. Each sum belongs to one thread, so there are no atomics, and its order is
 * fixed.
 */
enum { STEP_COLUMNS = 32, STEP_ROWS = 8 };

__global__ void add_and_step(const float *partials, int count, int64_t parameter_count, float rate, float *parameters) {
  __shared__ float sums[STEP_ROWS][STEP_COLUMNS];
  const int row = threadIdx.y, column = threadIdx.x;
  const int64_t own = (int64_t)blockIdx.x * STEP_COLUMNS + column;
  float sum = 0;
  if (own < parameter_count)
    for (int i = row; i < count; i += STEP_ROWS)
      sum += partials[i * parameter_count + own];
  sums[row][column] = sum;
  for (int half = STEP_ROWS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row < half)
      sums[row][column] += sums[row + half][column];
  }
  if (row == 0 && own < parameter_count)
    parameters[own] -= rate * sums[0][column];
}

inline void start_step(const gconv_backprop_run &run, const float *partials, int count) {
  const int64_t all = gconv_backprop_parameters(&run.net, run.net.layers + 1);
  add_and_step<<<blocks_for(all, STEP_COLUMNS), dim3(STEP_COLUMNS, STEP_ROWS), 0, run.stream>>>(partials, count, all,
                                                                                                run.rate, run.parameters);
}

} // namespace

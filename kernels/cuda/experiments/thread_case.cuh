/* SPDX-License-Identifier: MIT */
/* Shared by thread-a-case, thread-counters and gradient-a-thread: a thread takes a case through the net. */
#pragma once

#include "method.cuh"

enum { GCONV_BACKPROP_COUNTERS = 64 }; /* the most threads of a block whose counters are in shared memory */

namespace {

/* A counter of a loop: in a register, or in a word of shared memory that no other thread has. */
template <bool SHARED> struct counter {
  int value;
  __device__ explicit counter(int) : value(0) {}
  __device__ int operator()() const {
    return value;
  }
  __device__ void next() {
    value++;
  }
};
template <> struct counter<true> {
  volatile int *value;
  __device__ explicit counter(int number) {
    __shared__ int all[2][GCONV_BACKPROP_COUNTERS];
    value = &all[number][threadIdx.x];
    *value = 0;
  }
  __device__ int operator()() const {
    return *value;
  }
  __device__ void next() {
    *value = *value + 1;
  }
};

/* Takes a case forward and back. Number c of inputs and targets is at [c * cases]. y and dz have a row for each neuron of
 * the layers from 1 on; number c of them is at [c * pitch]. All pointers are to the first number of the case. */
template <bool SHARED>
__device__ void take_case(const gconv_backprop_net &net, const float *inputs, const float *targets, const float *parameters,
                          int64_t pitch, float *y, float *dz) {
  const float *in = inputs; /* inputs of the layer: number c is in[c * in_pitch] */
  int64_t in_pitch = net.cases;
  float *out = y;
  for (int l = 1; l <= net.layers; l++) {
    const int inputs_of = net.widths[l - 1], outputs_of = net.widths[l];
    const float *weight = parameters + gconv_backprop_parameters(&net, l), *bias = weight + (int64_t)outputs_of * inputs_of;
    for (counter<SHARED> k(0); k() < outputs_of; k.next()) {
      float z = bias[k()];
#pragma unroll 8
      for (counter<SHARED> c(1); c() < inputs_of; c.next())
        z = fmaf(*weight++, in[c() * in_pitch], z);
      out[k() * pitch] = gconv_sigmoid(z);
    }
    in = out;
    in_pitch = pitch;
    out += outputs_of * pitch;
  }

  float *next = dz + gconv_backprop_neurons(&net, net.layers) * pitch; /* dz of the next layer */
  for (int k = 0; k < net.widths[net.layers]; k++)
    next[k * pitch] = (in[k * in_pitch] - targets[k * (int64_t)net.cases]) * slope_of(in[k * in_pitch]);

  for (int l = net.layers - 1; l >= 1; l--) {
    const int width = net.widths[l], outputs_of = net.widths[l + 1];
    const float *weight = parameters + gconv_backprop_parameters(&net, l + 1);
    const int64_t row = gconv_backprop_neurons(&net, l) * pitch;
    for (counter<SHARED> c(0); c() < width; c.next()) {
      float sum = 0;
#pragma unroll 8
      for (counter<SHARED> k(1); k() < outputs_of; k.next())
        sum = fmaf(weight[(int64_t)k() * width + c()], next[k() * pitch], sum);
      dz[row + c() * pitch] = sum * slope_of(y[row + c() * pitch]);
    }
    next = dz + row;
  }
}

} // namespace

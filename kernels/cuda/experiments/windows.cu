/* SPDX-License-Identifier: MIT */
#include "../core/device.cuh"
#include "windows.h"

#include <stdlib.h>

struct gconv_window_net {
  gconv_window_net_order order;
  int32_t pitch;            /* floats of a row of weights: S, padded to a multiple of 16 */
  float *weights, *biases;  /* all layers: [layer][input][neuron], [layer][neuron] */
  float *samples, *outputs; /* of a launch; window-a-launch goes to and fro between them */
  cudaTextureObject_t texture;
};

namespace {

struct net {
  const float *weights, *biases;
  cudaTextureObject_t texture;
  int window, pitch;
};

/* Returns the weight of neuron k for input c. */
template <bool TEXTURE> __device__ float weight_at(const net &n, int layer, int c, int k) {
  const int at = (layer * n.window + c) * n.pitch + k;
  return TEXTURE ? tex1Dfetch<float>(n.texture, at) : n.weights[at];
}

template <bool TEXTURE> __device__ float output_of(const net &n, int layer, int k, const float *in) {
  float sum = n.biases[layer * n.window + k];
  for (int c = 0; c < n.window; c++)
    sum = fmaf(in[c], weight_at<TEXTURE>(n, layer, c, k), sum);
  return 1 / (1 + __expf(-sum));
}

template <bool TEXTURE> __global__ void take_windows(net n, const float *samples, float *outputs) {
  extern __shared__ float values[];
  float *in = values, *out = values + n.window;
  for (int i = threadIdx.x; i < n.window; i += blockDim.x)
    in[i] = samples[(size_t)blockIdx.x * n.window + i];
  for (int layer = 0; layer < GCONV_WINDOW_NET_LAYERS; layer++) {
    __syncthreads();
    for (int k = threadIdx.x; k < n.window; k += blockDim.x)
      out[k] = output_of<TEXTURE>(n, layer, k, in);
    float *other = in;
    in = out;
    out = other;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n.window; i += blockDim.x)
    outputs[(size_t)blockIdx.x * n.window + i] = in[i];
}

template <bool TEXTURE> __global__ void take_layer(net n, int layer, const float *in, float *out) {
  const int k = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (k < n.window)
    out[k] = output_of<TEXTURE>(n, layer, k, in);
}

/* Runs the kernels of a launch. *last becomes the memory of the outputs. */
template <bool TEXTURE> void launch(const gconv_window_net *w, int32_t count, const float **last) {
  const int window = w->order.window, threads = w->order.threads;
  const net n = {w->weights, w->biases, w->texture, window, w->pitch};
  *last = w->outputs;
  if (w->order.together > 0) {
    take_windows<TEXTURE><<<count, threads, 2 * window * sizeof(float)>>>(n, w->samples, w->outputs);
    return;
  }
  float *in = w->samples, *out = w->outputs;
  for (int layer = 0; layer < GCONV_WINDOW_NET_LAYERS; layer++) { /* three layers end in `outputs` */
    take_layer<TEXTURE><<<(window - 1) / threads + 1, threads>>>(n, layer, in, out);
    float *other = in;
    in = out;
    out = other;
  }
}

gconv_status allocate(size_t floats, float **memory) {
  return CUDA_STATUS(cudaMalloc((void **)memory, floats * sizeof **memory));
}

gconv_status put_weights(gconv_window_net *w) {
  const gconv_window_net_order *o = &w->order;
  const size_t size = (size_t)o->window, layer = size * (size_t)w->pitch;
  float *transposed = (float *)calloc(GCONV_WINDOW_NET_LAYERS * layer, sizeof *transposed);
  if (!transposed)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the weights of the net");
  for (size_t l = 0; l < GCONV_WINDOW_NET_LAYERS; l++)
    for (size_t i = 0; i < size * size; i++)
      transposed[l * layer + i % size * (size_t)w->pitch + i / size] = o->weights[l][i];
  gconv_status status = allocate(GCONV_WINDOW_NET_LAYERS * layer, &w->weights);
  cudaError_t error = cudaSuccess;
  if (status == GCONV_OK)
    error = cudaMemcpy(w->weights, transposed, GCONV_WINDOW_NET_LAYERS * layer * sizeof(float), cudaMemcpyHostToDevice);
  free(transposed);
  GCONV_TRY(status);
  CUDA_TRY(error);
  GCONV_TRY(allocate(GCONV_WINDOW_NET_LAYERS * size, &w->biases));
  for (size_t l = 0; l < GCONV_WINDOW_NET_LAYERS; l++)
    CUDA_TRY(cudaMemcpy(w->biases + l * size, o->biases[l], size * sizeof(float), cudaMemcpyHostToDevice));
  return GCONV_OK;
}

gconv_status make_texture(gconv_window_net *w) {
  cudaResourceDesc resource = {};
  cudaTextureDesc texture = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = w->weights;
  resource.res.linear.desc = cudaCreateChannelDesc<float>();
  resource.res.linear.sizeInBytes = (size_t)GCONV_WINDOW_NET_LAYERS * w->order.window * w->pitch * sizeof(float);
  return CUDA_STATUS(cudaCreateTextureObject(&w->texture, &resource, &texture, NULL));
}

gconv_status fill(gconv_window_net *w) {
  const size_t windows = w->order.together > 0 ? (size_t)w->order.together : 1;
  w->pitch = (w->order.window + 15) / 16 * 16;
  GCONV_TRY(put_weights(w));
  GCONV_TRY(allocate(windows * (size_t)w->order.window, &w->samples));
  GCONV_TRY(allocate(windows * (size_t)w->order.window, &w->outputs));
  return w->order.texture ? make_texture(w) : GCONV_OK;
}

} // namespace

extern "C" int32_t gconv_window_net_multiprocessors(void) {
  return multiprocessors();
}

extern "C" gconv_status gconv_window_net_create(const gconv_window_net_order *order, gconv_window_net **made) {
  gconv_window_net *w = (gconv_window_net *)calloc(1, sizeof *w);
  *made = NULL;
  if (!w)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an experiment");
  w->order = *order;
  const gconv_status status = fill(w);
  if (status == GCONV_OK)
    *made = w;
  else
    gconv_window_net_free(w);
  return status;
}

extern "C" gconv_status gconv_window_net_take(gconv_window_net *w, const float *samples, float *outputs, int32_t count) {
  const size_t bytes = (size_t)count * (size_t)w->order.window * sizeof(float);
  const float *last;
  CUDA_TRY(cudaMemcpy(w->samples, samples, bytes, cudaMemcpyHostToDevice));
  if (w->order.texture)
    launch<true>(w, count, &last);
  else
    launch<false>(w, count, &last);
  CUDA_TRY(cudaGetLastError());
  return CUDA_STATUS(cudaMemcpy(outputs, last, bytes, cudaMemcpyDeviceToHost));
}

extern "C" void gconv_window_net_free(gconv_window_net *w) {
  if (!w)
    return;
  if (w->texture)
    cudaDestroyTextureObject(w->texture);
  cudaFree(w->weights);
  cudaFree(w->biases);
  cudaFree(w->samples);
  cudaFree(w->outputs);
  free(w);
}

/* SPDX-License-Identifier: MIT */
/* The methods of backpropagation: their table, their memory, and the measurement of their time. */
#include "method.cuh"

#include <stdlib.h>

static const gconv_backprop_method *const methods[] = {
    &gconv_backprop_thread,   &gconv_backprop_counters,  &gconv_backprop_own,  &gconv_backprop_block,
    &gconv_backprop_one_host, &gconv_backprop_four_host, &gconv_backprop_four, &gconv_backprop_kept,
    &gconv_backprop_layer,    &gconv_backprop_cublas};
enum { METHODS = sizeof methods / sizeof *methods };

struct gconv_backprop {
  const gconv_backprop_method *method;
  gconv_backprop_run run;
  float *inputs, *targets; /* owned; `run` has them as const */
  cudaEvent_t begin, end;
};

extern "C" const char *gconv_backprop_method_at(size_t index) {
  return index < METHODS ? methods[index]->name : NULL;
}

/* ---- Making one ---- */

static gconv_status check_net(const gconv_backprop_net *net) {
  int64_t neurons = 0;
  bool fits = net->layers >= 1 && net->layers <= GCONV_BACKPROP_LAYERS && net->cases >= 1;
  for (int32_t l = 0; fits && l <= net->layers; l++) {
    fits = net->widths[l] >= 1;
    neurons += net->widths[l];
  }
  if (fits && neurons <= GCONV_BACKPROP_NEURONS)
    return GCONV_OK;
  return gconv_fail(GCONV_UNSUPPORTED, "the methods are for nets of 1 to %d layers with up to %d neurons",
                    GCONV_BACKPROP_LAYERS, GCONV_BACKPROP_NEURONS);
}

static gconv_status allocate(int64_t floats, float **memory) {
  return CUDA_STATUS(cudaMalloc(memory, (size_t)floats * sizeof **memory));
}

/* Copies cases x width numbers to the device; by_neuron: transposed to width x cases. */
static gconv_status put_cases(const float *values, int64_t cases, int64_t width, bool by_neuron, float **memory) {
  const size_t bytes = (size_t)(cases * width) * sizeof(float);
  float *transposed = by_neuron ? (float *)malloc(bytes) : NULL;
  if (by_neuron && !transposed)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %lld cases", (long long)cases);
  for (int64_t i = 0; by_neuron && i < cases * width; i++)
    transposed[i % width * cases + i / width] = values[i];
  gconv_status status = allocate(cases * width, memory);
  if (status == GCONV_OK) {
    cudaError_t error = cudaMemcpy(*memory, by_neuron ? transposed : values, bytes, cudaMemcpyHostToDevice);
    if (error == cudaSuccess) /* the copy may not be complete, and the method's stream does not wait for it */
      error = cudaStreamSynchronize(cudaStreamLegacy);
    if (error != cudaSuccess)
      status = gconv_cuda_failure(error, "cudaMemcpy", __FILE__, __LINE__);
  }
  free(transposed);
  return status;
}

static gconv_status fill(const gconv_backprop_order *order, gconv_backprop *b) {
  const gconv_backprop_net *net = &order->net;
  const int64_t parameters = gconv_backprop_parameters(net, net->layers + 1);
  gconv_backprop_run *run = &b->run;
  run->net = *net;
  run->rate = order->rate;
  CUDA_TRY(cudaStreamCreateWithFlags(&run->stream, cudaStreamNonBlocking));
  CUDA_TRY(cudaEventCreate(&b->begin));
  CUDA_TRY(cudaEventCreate(&b->end));
  GCONV_TRY(put_cases(order->inputs, net->cases, net->widths[0], b->method->by_neuron, &b->inputs));
  GCONV_TRY(put_cases(order->targets, net->cases, net->widths[net->layers], b->method->by_neuron, &b->targets));
  run->inputs = b->inputs;
  run->targets = b->targets;
  GCONV_TRY(put_cases(order->parameters, parameters, 1, false, &run->parameters));
  GCONV_TRY(allocate(b->method->workspace(*net), &run->workspace));
  CUDA_TRY(cudaDeviceSynchronize()); /* all copies are complete */
  return b->method->acquire ? b->method->acquire(*run, &run->state) : GCONV_OK;
}

extern "C" gconv_status gconv_backprop_create(const gconv_backprop_order *order, gconv_backprop **made) {
  GCONV_TRY(check_net(&order->net));
  gconv_backprop *b = (gconv_backprop *)calloc(1, sizeof *b);
  if (!b)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for backpropagation");
  b->method = methods[order->method];
  const gconv_status status = fill(order, b);
  if (status == GCONV_OK)
    *made = b;
  else
    gconv_backprop_free(b);
  return status;
}

extern "C" void gconv_backprop_free(gconv_backprop *b) {
  if (!b)
    return;
  if (b->run.stream)
    cudaStreamSynchronize(b->run.stream);
  if (b->run.state)
    b->method->release(b->run.state);
  cudaFree(b->inputs);
  cudaFree(b->targets);
  cudaFree(b->run.parameters);
  cudaFree(b->run.workspace);
  if (b->begin)
    cudaEventDestroy(b->begin);
  if (b->end)
    cudaEventDestroy(b->end);
  if (b->run.stream)
    cudaStreamDestroy(b->run.stream);
  free(b);
}

/* ---- Using it ---- */

extern "C" gconv_status gconv_backprop_train(gconv_backprop *b, int epochs, double *milliseconds) {
  float elapsed = 0;
  CUDA_TRY(cudaEventRecord(b->begin, b->run.stream));
  for (int i = 0; i < epochs; i++) {
    GCONV_TRY(b->method->epoch(b->run));
    CUDA_TRY(cudaGetLastError());
  }
  CUDA_TRY(cudaEventRecord(b->end, b->run.stream));
  CUDA_TRY(cudaEventSynchronize(b->end));
  CUDA_TRY(cudaEventElapsedTime(&elapsed, b->begin, b->end));
  *milliseconds = elapsed;
  return GCONV_OK;
}

static gconv_status time_parts(gconv_backprop *b, gconv_backprop_marks *marks, double *milliseconds) {
  for (int i = 0; i <= GCONV_BACKPROP_PARTS; i++)
    CUDA_TRY(cudaEventCreate(&marks->ends[i]));
  CUDA_TRY(cudaEventRecord(marks->ends[0], b->run.stream));
  b->run.marks = marks;
  GCONV_TRY(b->method->epoch(b->run));
  CUDA_TRY(cudaStreamSynchronize(b->run.stream));
  for (int i = 0; i < marks->count; i++) {
    float elapsed = 0;
    CUDA_TRY(cudaEventElapsedTime(&elapsed, marks->ends[i], marks->ends[i + 1]));
    milliseconds[i] = elapsed;
  }
  return GCONV_OK;
}

extern "C" gconv_status gconv_backprop_time_parts(gconv_backprop *b, const char **names, double *milliseconds, int *count) {
  gconv_backprop_marks marks = {};
  const gconv_status status = time_parts(b, &marks, milliseconds);
  b->run.marks = NULL;
  for (int i = 0; i <= GCONV_BACKPROP_PARTS; i++)
    if (marks.ends[i])
      cudaEventDestroy(marks.ends[i]);
  *count = marks.count;
  for (int i = 0; i < marks.count; i++)
    names[i] = marks.names[i];
  return status;
}

extern "C" gconv_status gconv_backprop_get(const gconv_backprop *b, float *parameters) {
  const size_t count = (size_t)gconv_backprop_parameters(&b->run.net, b->run.net.layers + 1);
  CUDA_TRY(cudaStreamSynchronize(b->run.stream));
  return CUDA_STATUS(cudaMemcpy(parameters, b->run.parameters, count * sizeof *parameters, cudaMemcpyDeviceToHost));
}

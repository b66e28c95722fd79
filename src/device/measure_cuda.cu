/* SPDX-License-Identifier: MIT */
/* Measures an idle GPU: the times of copies, its rate of fused multiply-adds, and the time of an empty launch. */
#include "device/device.h"
#include "device/guest_cuda.h"
#include "device/timeline_cuda.h"

#include <cuda_runtime.h>
#include <math.h>

/* 8 independent chains for each thread hide the latency of 4 cycles, even with few threads. The result is stored only if it
 * is -1. It never is, but the compiler cannot know this, and keeps the loop. */
enum { CHAINS = 8, TURNS = 4096, THREADS = 256, BLOCKS_AN_SM = 8 };

__global__ static void spin(float factor, float *never) {
  float sums[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; i++)
    sums[i] = (float)(threadIdx.x + i);
  for (int turn = 0; turn < TURNS; turn++)
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
      sums[i] = __fmaf_rn(sums[i], factor, 0.001f);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < CHAINS; i++)
    sum += sums[i];
  if (sum == -1.0f)
    *never = sum;
}

__global__ static void do_nothing() {}

/* Sets *milliseconds to the fastest of `runs` runs of the work that `launch` puts into the stream. As many runs go before to
 * warm up, because clocks rise slowly. */
template <class Launch>
static gconv_status time_launches(const gconv_timeline *line, int runs, Launch launch, double *milliseconds) {
  *milliseconds = HUGE_VAL;
  for (int i = -runs; i < runs; i++) {
    double elapsed;
    auto enqueue = [=]() -> gconv_status {
      launch(line->stream);
      return CUDA_STATUS(cudaGetLastError());
    };
    GCONV_TRY(gconv_timeline_time(line, enqueue, &elapsed));
    if (i >= 0)
      *milliseconds = fmin(*milliseconds, elapsed);
  }
  return GCONV_OK;
}

template <class Launch> static gconv_status time_on(gconv_device *device, int runs, Launch launch, double *milliseconds) {
  gconv_timeline line = {};
  gconv_cuda_guest guest(device->index);
  gconv_status status = gconv_timeline_make(&line);
  GCONV_THEN(status, time_launches(&line, runs, launch, milliseconds));
  gconv_timeline_free(&line);
  return status;
}

extern "C" gconv_status gconv_cuda_measure_fma(gconv_device *device, double *count, double *milliseconds) {
  int multiprocessors = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device->index));
  unsigned blocks = (unsigned)(multiprocessors * BLOCKS_AN_SM);
  *count = (double)blocks * THREADS * TURNS * CHAINS;
  return time_on(
      device, 10, [=](cudaStream_t stream) { spin<<<blocks, THREADS, 0, stream>>>(0.999f, NULL); }, milliseconds);
}

extern "C" gconv_status gconv_cuda_measure_launch(gconv_device *device, double *milliseconds) {
  return time_on(
      device, 30, [](cudaStream_t stream) { do_nothing<<<1, 32, 0, stream>>>(); }, milliseconds);
}

extern "C" gconv_status gconv_cuda_measure_copy(gconv_device *device, size_t bytes, int runs, double *milliseconds) {
  gconv_timeline line = {};
  void *from = NULL, *to = NULL;
  gconv_cuda_guest guest(device->index);
  auto measure = [&]() -> gconv_status {
    GCONV_TRY(gconv_timeline_make(&line));
    CUDA_TRY(cudaMalloc(&from, bytes));
    CUDA_TRY(cudaMalloc(&to, bytes));
    CUDA_TRY(cudaMemsetAsync(from, 1, bytes, line.stream));
    for (int i = -3; i < runs; i++) {
      double unused;
      auto copy = [&]() -> gconv_status {
        return CUDA_STATUS(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, line.stream));
      };
      GCONV_TRY(gconv_timeline_time(&line, copy, i < 0 ? &unused : &milliseconds[i]));
    }
    return GCONV_OK;
  };
  const gconv_status status = measure();
  cudaFree(from);
  cudaFree(to);
  gconv_timeline_free(&line);
  return status;
}

/* SPDX-License-Identifier: MIT */
/* Measures a round trip: a copy to a GPU, a kernel, and a copy back, with pinned or pageable memory. Plans copy in another
 * way, through slabs that are pinned once (transfer_cuda.cu). */
#include "base/clock.h"
#include "device/device.h"
#include "device/guest_cuda.h"
#include "device/timeline_cuda.h"

#include <cuda_runtime.h>

namespace {

struct buffers {
  void *in, *out; /* on the device */
};

/* Pins the memory of both sides; on failure, of none. */
gconv_status pin(const gconv_trip *trip) {
  CUDA_TRY(cudaHostRegister(const_cast<void *>(trip->from), trip->from_bytes, cudaHostRegisterDefault));
  const cudaError_t error = cudaHostRegister(trip->to, trip->to_bytes, cudaHostRegisterDefault);
  if (error != cudaSuccess)
    cudaHostUnregister(const_cast<void *>(trip->from));
  return CUDA_STATUS(error);
}

void unpin(const gconv_trip *trip) {
  cudaHostUnregister(const_cast<void *>(trip->from));
  cudaHostUnregister(trip->to);
}

gconv_status go(const gconv_trip *trip, const gconv_timeline *line, const buffers &on_device) {
  GCONV_TRY(gconv_timeline_mark(line, BEGIN));
  CUDA_TRY(cudaMemcpyAsync(on_device.in, trip->from, trip->from_bytes, cudaMemcpyHostToDevice, line->stream));
  GCONV_TRY(gconv_timeline_mark(line, UPLOADED));
  GCONV_TRY(trip->work(trip->user, on_device.in, on_device.out, line->stream));
  GCONV_TRY(gconv_timeline_mark(line, CONVOLVED));
  CUDA_TRY(cudaMemcpyAsync(trip->to, on_device.out, trip->to_bytes, cudaMemcpyDeviceToHost, line->stream));
  GCONV_TRY(gconv_timeline_mark(line, DOWNLOADED));
  return CUDA_STATUS(cudaStreamSynchronize(line->stream));
}

gconv_status time_trip(const gconv_trip *trip, const gconv_timeline *line, const buffers &on_device,
                       gconv_trip_times *times) {
  const bool pins = trip->memory == GCONV_TRIP_PINNED_ANEW;
  *times = {};
  const double start = gconv_now_ms();
  if (pins)
    GCONV_TRY(pin(trip));
  const gconv_status status = go(trip, line, on_device);
  if (pins)
    unpin(trip);
  times->whole_ms = gconv_now_ms() - start;
  GCONV_TRY(status);
  GCONV_TRY(gconv_timeline_add(line, BEGIN, UPLOADED, &times->up_ms));
  return gconv_timeline_add(line, CONVOLVED, DOWNLOADED, &times->down_ms);
}

gconv_status time_trips(const gconv_trip *trip, const gconv_timeline *line, const buffers &on_device, int runs,
                        gconv_trip_times *times) {
  enum { WARM = 2 };
  for (int i = -WARM; i < runs; i++) {
    gconv_trip_times unused;
    GCONV_TRY(time_trip(trip, line, on_device, i < 0 ? &unused : &times[i]));
  }
  return GCONV_OK;
}

gconv_status prepare_and_time(gconv_device *device, const gconv_trip *trip, gconv_timeline *line, buffers *on_device,
                              int runs, gconv_trip_times *times) {
  const bool pins = trip->memory == GCONV_TRIP_PINNED;
  GCONV_TRY(gconv_timeline_make(line));
  GCONV_TRY(gconv_cuda_allocate(device, trip->from_bytes, "the input", &on_device->in));
  GCONV_TRY(gconv_cuda_allocate(device, trip->to_bytes, "the output", &on_device->out));
  if (pins)
    GCONV_TRY(pin(trip));
  const gconv_status status = time_trips(trip, line, *on_device, runs, times);
  if (pins)
    unpin(trip);
  return status;
}

} // namespace

extern "C" gconv_status gconv_cuda_measure_trips(gconv_device *device, const gconv_trip *trip, int runs,
                                                 gconv_trip_times *times) {
  gconv_timeline line = {};
  buffers on_device = {};
  gconv_cuda_guest guest(device->index);
  const gconv_status status = prepare_and_time(device, trip, &line, &on_device, runs, times);
  cudaFree(on_device.in);
  cudaFree(on_device.out);
  gconv_timeline_free(&line);
  return status;
}

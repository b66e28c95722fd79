/* SPDX-License-Identifier: MIT */
/* Measures layers on a GPU. */
#include "device/guest_cuda.h"
#include "layer/network_cuda.cuh"

/* Keeps the GPU busy for some 0.1 ms, so that the time of the host to enqueue the next steps is not measured. */
__global__ static void be_busy() {
  for (const int64_t begin = clock64(); clock64() - begin < 200000;)
    ;
}

/* Each of the two buffers has several copies, which are used in turn, so that no cache holds data of the last run. */
enum { MOST_COPIES = 64 };
static const size_t ROTATED_BYTES = (size_t)256 << 20; /* several times the largest L2 */

struct rotation {
  int count[2];
  void *copies[2][MOST_COPIES]; /* copies[b][0] is the run's own buffer */
};

static gconv_status make_copies(network_run *run, bool warm, rotation *turns) {
  turns->copies[0][0] = run->buffers[0], turns->copies[1][0] = run->buffers[1];
  for (int b = 0; b < 2; b++) {
    const size_t wanted = warm ? 1 : ROTATED_BYTES / run->bytes[b] + 1;
    for (turns->count[b] = 1; turns->count[b] < MOST_COPIES && (size_t)turns->count[b] < wanted; turns->count[b]++) {
      void **copy = &turns->copies[b][turns->count[b]];
      CUDA_TRY(cudaMalloc(copy, run->bytes[b]));
      if (b == 0)
        CUDA_TRY(cudaMemcpyAsync(*copy, run->buffers[0], run->bytes[0], cudaMemcpyDeviceToDevice, run->timeline.stream));
    }
  }
  return GCONV_OK;
}

/* first: the time of an execution before the runs. If it was very long, it counts as the first run, as there is no need to
   warm up. If it was only long, it may include the start of a library, such as 80 ms of cuBLAS, and only warms up. */
static gconv_status time_steps(network_run *run, const rotation *turns, int runs, double first, double *milliseconds) {
  const double long_ms = 20, very_long_ms = 200;
  milliseconds[0] = first;
  for (int i = first < long_ms ? -3 : first < very_long_ms ? 0 : 1; i < runs; i++) {
    double unused;
    for (int b = 0; b < 2; b++)
      run->buffers[b] = turns->copies[b][(i + 3) % turns->count[b]];
    be_busy<<<1, 1, 0, run->timeline.stream>>>();
    GCONV_TRY(gconv_timeline_time(
        &run->timeline, [=] { return gconv_network_run_steps(run, gconv_network_own_route(run), 0); },
        i < 0 ? &unused : &milliseconds[i]));
  }
  return GCONV_OK;
}

gconv_status gconv_network_measure_run(void *memory, const gconv_image *in, const gconv_image *out, bool warm, int runs,
                                       double *milliseconds) {
  network_run *run = (network_run *)memory;
  gconv_cuda_guest guest(run->network->base.device->index);
  GCONV_TRY(gconv_network_upload(run, in, 0, 0));
  rotation turns = {};
  double first = 0;
  gconv_status status = make_copies(run, warm, &turns);
  if (status == GCONV_OK) { /* before the runs, as longer chains overwrite their input */
    status = gconv_timeline_time(
        &run->timeline, [=] { return gconv_network_run_steps(run, gconv_network_own_route(run), 0); }, &first);
    if (status == GCONV_OK)
      status = gconv_network_download(run, out);
  }
  if (status == GCONV_OK)
    status = time_steps(run, &turns, runs, first, milliseconds);
  for (int b = 0; b < 2; b++) {
    for (int i = 1; i < MOST_COPIES; i++)
      cudaFree(turns.copies[b][i]);
    run->buffers[b] = turns.copies[b][0];
  }
  return status;
}

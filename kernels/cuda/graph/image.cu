/* SPDX-License-Identifier: MIT */
/* Copies images into the input of a graph, padded by reflection, and results out of the memory of a graph. */
#include "graph.cuh"

/* ---- Into the input ---- */

/* Returns which of `size` pixels place `at` of the padded line shows: reflected, or the last one if `size` is too small. */
static __device__ __forceinline__ int64_t reflect(int64_t at, int64_t size) {
  const int64_t mirrored = 2 * (size - 1) - at;
  return at < size ? at : mirrored >= 0 ? mirrored : size - 1;
}

/* blockIdx.y is a row of a channel. */
__global__ static void __launch_bounds__(THREADS) put(gconv_gpu_put job) {
  follow_kernel_before();
  for (int64_t line = blockIdx.y; line < job.channels * job.height; line += gridDim.y) {
    const int64_t c = line / job.height, y = line % job.height;
    const float *row = job.from + (c * job.from_rows + reflect(job.top + y, job.all_height) - job.first) * job.all_width;
    FOR_OWN (x, job.width)
      job.to[line * job.width + x] = row[reflect(job.left + x, job.all_width)];
  }
}

gconv_status gconv_gpu_put_launch(const gconv_gpu_put *job, void *stream) {
  const int64_t lines = job->channels * job->height, inside = job->from_rows - (job->top - job->first);
  const bool whole = job->left == 0 && job->width == job->all_width && job->height <= inside &&
                     (job->height == job->from_rows || job->channels == 1);
  if (lines == 0 || job->width == 0)
    return GCONV_OK;
  if (whole)
    return CUDA_STATUS(cudaMemcpyAsync(job->to, job->from + (job->top - job->first) * job->all_width,
                                       (size_t)lines * (size_t)job->width * sizeof(float), cudaMemcpyDeviceToDevice,
                                       (cudaStream_t)stream));
  return start(put, dim3(blocks_for(job->width), (unsigned)(lines < 65535 ? lines : 65535)), stream, *job);
}

/* ---- Out of the result ---- */

template <class T> __global__ static void __launch_bounds__(THREADS) take(gconv_gpu_take job) {
  follow_kernel_before();
  for (int64_t line = blockIdx.y; line < job.planes * job.height; line += gridDim.y) {
    const int64_t plane = line / job.height, y = line % job.height;
    const T *from = (const T *)job.from + plane * job.from_plane + y * job.from_width;
    float *to = job.to + plane * job.to_plane + y * job.to_width;
    FOR_OWN (x, job.width)
      to[x] = (float)from[x];
  }
}

gconv_status gconv_gpu_take_launch(const gconv_gpu_take *job, void *stream) {
  const int64_t lines = job->planes * job->height;
  const bool dense = job->from_width == job->width && job->to_width == job->width &&
                     job->from_plane == job->width * job->height && job->to_plane == job->from_plane;
  if (lines == 0 || job->width == 0)
    return GCONV_OK;
  if (dense && job->type == 1)
    return CUDA_STATUS(cudaMemcpyAsync(job->to, job->from, (size_t)lines * (size_t)job->width * sizeof(float),
                                       cudaMemcpyDeviceToDevice, (cudaStream_t)stream));
  const dim3 grid(blocks_for(job->width), (unsigned)(lines < 65535 ? lines : 65535));
  switch (job->type) {
#define TYPE(type, number)                                                                                                  \
  case number:                                                                                                              \
    return start(take<type>, grid, stream, *job);
    GCONV_EACH_GPU_TYPE(TYPE)
#undef TYPE
  default:
    return gconv_fail(GCONV_UNSUPPORTED, "the result has numbers of a type that GPUs do not compute here: take -d cpu");
  }
}

/* SPDX-License-Identifier: MIT */
/* The largest value or the average of windows. A thread makes an output, and takes taps in the order of the CPU: so averages
 * have the same bits. */
#include "graph.cuh"
#include "kernels/cuda/core/divisor.cuh"

/* The taps first .. end - 1 of an output that lie inside, and the place of tap 0. */
struct window {
  int64_t at;
  int first, end;
};

static __device__ __forceinline__ window window_of(const gconv_gpu_span &d, int64_t out) {
  const int at = (int)(out * d.stride - d.before), kernel = (int)d.kernel, dilation = (int)d.dilation;
  window w = {at, 0, kernel};
  if (at < 0)
    w.first = (-at + dilation - 1) / dilation;
  if (at + (kernel - 1) * dilation >= (int)d.in)
    w.end = at >= (int)d.in ? 0 : ((int)d.in - 1 - at) / dilation + 1;
  return w;
}

template <bool AVERAGES> __global__ static void pool(gconv_gpu_pool job, int64_t count) {
  follow_kernel_before();
  const gconv_gpu_span &deep = job.d[0], &high = job.d[1], &wide = job.d[2];
  FOR_OWN (i, count) {
    const int64_t x = i % wide.out, line = i / wide.out, y = line % high.out, z = line / high.out % deep.out;
    const float *plane = job.in + line / high.out / deep.out * deep.in * high.in * wide.in;
    const window wz = window_of(deep, z), wy = window_of(high, y), wx = window_of(wide, x);
    float value = AVERAGES ? 0 : -INFINITY;
    for (int a = wz.first; a < wz.end; a++)
      for (int b = wy.first; b < wy.end; b++) {
        const float *row = plane + ((wz.at + a * deep.dilation) * high.in + wy.at + b * high.dilation) * wide.in + wx.at;
        for (int c = wx.first; c < wx.end; c++) {
          const float v = row[c * wide.dilation];
          value = AVERAGES ? value + v : v > value || v != v ? v : value;
        }
      }
    if (AVERAGES)
      value /=
          (float)(gconv_gpu_taps_inside(&deep, z, job.counts_padding) * gconv_gpu_taps_inside(&high, y, job.counts_padding) *
                  gconv_gpu_taps_inside(&wide, x, job.counts_padding));
    job.out[i] = value;
  }
}

/* The largest of SIZE x SIZE neighbours. */
template <int SIZE>
__global__ static void largest_of_few(const __grid_constant__ gconv_gpu_pool job, int64_t count, divisor wide,
                                      divisor high) {
  const int height = (int)job.d[1].in, width = (int)job.d[2].in, down = (int)job.d[1].stride, across = (int)job.d[2].stride;
  follow_kernel_before();
  FOR_OWN (i, count) {
    const uint32_t line = wide.divide((uint32_t)i), plane = high.divide(line);
    const int x = (int)((uint32_t)i - line * wide.by) * across - (int)job.d[2].before;
    const int y = (int)(line - plane * high.by) * down - (int)job.d[1].before;
    const float *in = job.in + (int64_t)plane * height * width;
    float v[SIZE * SIZE], value = -INFINITY;
#pragma unroll
    for (int k = 0; k < SIZE * SIZE; k++) {
      const int row = y + k / SIZE, column = x + k % SIZE;
      v[k] = (unsigned)row < (unsigned)height && (unsigned)column < (unsigned)width ? in[row * width + column] : -INFINITY;
    }
#pragma unroll
    for (int k = 0; k < SIZE * SIZE; k++)
      value = v[k] > value || v[k] != v[k] ? v[k] : value;
    job.out[i] = value;
  }
}

gconv_status gconv_gpu_pool_launch(const gconv_gpu_pool *job, void *stream) {
  const int64_t count = job->planes * job->d[0].out * job->d[1].out * job->d[2].out;
  if (count == 0)
    return GCONV_OK;
  const gconv_gpu_span &high = job->d[1], &wide = job->d[2];
  const bool few = count <= MOST_SHORT, flat = job->d[0].kernel == 1 && job->d[0].in == 1 && job->d[0].out == 1;
  if (few && flat && !job->averages && high.kernel == wide.kernel && (wide.kernel == 2 || wide.kernel == 3) &&
      high.dilation == 1 && wide.dilation == 1 && high.in * wide.in <= MOST_SHORT)
    return start(wide.kernel == 2 ? largest_of_few<2> : largest_of_few<3>, blocks_for(count), stream, *job, count,
                 divisor::of(wide.out), divisor::of(high.out));
  return start(job->averages ? pool<true> : pool<false>, blocks_for(count), stream, *job, count);
}

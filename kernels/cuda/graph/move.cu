/* SPDX-License-Identifier: MIT */
/* Moves elements to other places: by steps along axes, by indices, and with borders around them. */
#include "graph.cuh"
#include "kernels/cuda/core/divisor.cuh"

/* ---- By steps ---- */

/* Sorts the axes by their steps in the target, the smallest last: neighbouring threads then write neighbours. */
static void sort_axes(gconv_gpu_move *job) {
  for (int32_t i = 1; i < job->axes; i++)
    for (int32_t k = i; k > 0 && llabs(job->to_step[k - 1]) < llabs(job->to_step[k]); k--) {
      int64_t *const lists[] = {job->shape, job->from_step, job->to_step};
      for (int64_t *list : lists) {
        const int64_t kept = list[k];
        list[k] = list[k - 1];
        list[k - 1] = kept;
      }
    }
}

struct divisors {
  divisor of[GCONV_GPU_MOVE_AXES];
};

/* FEW: elements are counted by 31 bits. */
template <class T, bool FEW>
__global__ static void move_elements(const __grid_constant__ gconv_gpu_move job, const __grid_constant__ divisors by,
                                     int64_t count) {
  follow_kernel_before();
  FOR_OWN (element, count) {
    int64_t from = 0, to = 0, rest = element;
    for (int axis = job.axes - 1; axis >= 0; axis--) {
      const int64_t others = FEW ? (int64_t)by.of[axis].divide((uint32_t)rest) : rest / job.shape[axis];
      const int64_t at = rest - others * job.shape[axis];
      rest = others;
      from += at * job.from_step[axis];
      to += at * job.to_step[axis];
    }
    ((T *)job.to)[to] = ((const T *)job.from)[from];
  }
}

/* Interleaves two lines: a thread moves four floats that become neighbours. The last axis has two elements, one of each
 * line. `count` is the number of such fours. */
__global__ static void interleave(const __grid_constant__ gconv_gpu_move job, const __grid_constant__ divisors by,
                                  int64_t count) {
  const int last = job.axes - 2;
  follow_kernel_before();
  FOR_OWN (i, count) {
    uint32_t rest = by.of[last].divide((uint32_t)i);
    int64_t from = 2 * (i - (int64_t)rest * by.of[last].by), to = 2 * from;
    for (int axis = last - 1; axis >= 0; axis--) {
      const uint32_t others = by.of[axis].divide(rest);
      from += (int64_t)(rest - others * by.of[axis].by) * job.from_step[axis];
      to += (int64_t)(rest - others * by.of[axis].by) * job.to_step[axis];
      rest = others;
    }
    const float2 a = *(const float2 *)((const float *)job.from + from);
    const float2 b = *(const float2 *)((const float *)job.from + from + job.from_step[last + 1]);
    *(float4 *)((float *)job.to + to) = make_float4(a.x, b.x, a.y, b.y);
  }
}

/* Returns whether interleave() can do the job: lines have an even number of elements, and begin at multiples of 8 bytes, in
 * the target of 16. */
static bool interleaves(const gconv_gpu_move *job, int64_t count) {
  const int32_t last = job->axes - 1;
  bool good = job->axes >= 2 && job->bytes == 4 && count <= MOST_SHORT && job->shape[last] == 2 && job->to_step[last] == 1 &&
              job->shape[last - 1] % 2 == 0 && job->from_step[last - 1] == 1 && job->to_step[last - 1] == 2 &&
              (uintptr_t)job->from % 8 == 0 && (uintptr_t)job->to % 16 == 0 && job->from_step[last] % 2 == 0;
  for (int32_t axis = 0; axis < last - 1; axis++)
    good = good && job->from_step[axis] % 2 == 0 && job->to_step[axis] % 4 == 0;
  return good;
}

static gconv_status launch_interleave(const gconv_gpu_move *job, int64_t count, void *stream) {
  const int32_t last = job->axes - 2;
  divisors by = {};
  for (int32_t axis = 0; axis <= last; axis++)
    by.of[axis] = divisor::of(axis == last ? job->shape[axis] / 2 : job->shape[axis]);
  return start(interleave, blocks_for(count / 4), stream, *job, by, count / 4);
}

template <class T> static gconv_status launch_move(const gconv_gpu_move *job, int64_t count, void *stream) {
  divisors by = {};
  for (int32_t axis = 0; axis < job->axes && count <= MOST_SHORT; axis++)
    by.of[axis] = divisor::of(job->shape[axis]);
  return start(count <= MOST_SHORT ? move_elements<T, true> : move_elements<T, false>, blocks_for(count), stream, *job, by,
               count);
}

gconv_status gconv_gpu_move_launch(const gconv_gpu_move *job, void *stream) {
  gconv_gpu_move joined = *job;
  int64_t count = 1;
  for (int32_t i = 0; i < joined.axes; i++)
    count *= joined.shape[i];
  if (count == 0)
    return GCONV_OK;
  if (joined.axes <= 1 && (joined.axes == 0 || (joined.from_step[0] == 1 && joined.to_step[0] == 1)))
    return CUDA_STATUS(
        cudaMemcpyAsync(job->to, job->from, (size_t)count * job->bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream));
  sort_axes(&joined);
  if (interleaves(&joined, count))
    return launch_interleave(&joined, count, stream);
  return job->bytes == 1   ? launch_move<uint8_t>(&joined, count, stream)
         : job->bytes == 2 ? launch_move<uint16_t>(&joined, count, stream)
         : job->bytes == 4 ? launch_move<uint32_t>(&joined, count, stream)
                           : launch_move<uint64_t>(&joined, count, stream);
}

/* ---- By indices ---- */

template <class T> __global__ static void gather(gconv_gpu_gather job, int64_t count) {
  follow_kernel_before();
  FOR_OWN (element, count) {
    const int64_t k = element % job.inner, i = element / job.inner % job.count, o = element / job.inner / job.count;
    int64_t index = job.long_index ? ((const int64_t *)job.index)[i] : ((const int32_t *)job.index)[i];
    index += index < 0 ? job.size : 0;
    index = index < 0 ? 0 : index >= job.size ? job.size - 1 : index; /* the host checked it */
    ((T *)job.out)[element] = ((const T *)job.in)[(o * job.size + index) * job.inner + k];
  }
}

gconv_status gconv_gpu_gather_launch(const gconv_gpu_gather *job, void *stream) {
  const int64_t count = job->outer * job->count * job->inner;
  if (count == 0)
    return GCONV_OK;
  auto *kernel = job->bytes == 1 ? gather<uint8_t> : job->bytes == 4 ? gather<uint32_t> : gather<uint64_t>;
  return start(kernel, blocks_for(count), stream, *job, count);
}

/* ---- Borders ---- */

/* A warp copies a line of the last axis: the other axes are looked up once. */
template <class T> __global__ static void pad(const __grid_constant__ gconv_gpu_pad job, int64_t lines) {
  follow_kernel_before();
  const int last = job.axes - 1;
  const int64_t length = job.out[last];
  for (int64_t line = (blockIdx.x * (int64_t)THREADS + threadIdx.x) / 32; line < lines;
       line += (int64_t)gridDim.x * THREADS / 32) {
    int64_t first = 0, pitch = job.in[last], rest = line;
    bool outside = false;
    for (int axis = last - 1; axis >= 0; axis--) {
      const int64_t at = gconv_gpu_pad_source(&job, axis, rest % job.out[axis]);
      rest /= job.out[axis];
      outside = outside || at < 0;
      first += at * pitch;
      pitch *= job.in[axis];
    }
    const T *from = (const T *)job.from + first;
    const T value = job.outside_there ? *(const T *)job.outside_there : (T)job.outside;
    const int size = outside ? 0 : (int)job.in[last], before = (int)job.before[last];
    for (int64_t i = threadIdx.x % 32; i < length; i += 4 * 32) {
      T some[4];
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int64_t at = i + e * 32 - before;
        if (i + e * 32 < length && (uint64_t)at >= (uint64_t)size)
          at = outside ? -1 : gconv_gpu_pad_source(&job, last, i + e * 32);
        some[e] = i + e * 32 < length && at >= 0 ? from[at] : value;
      }
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (i + e * 32 < length)
          ((T *)job.to)[line * length + i + e * 32] = some[e];
    }
  }
}

gconv_status gconv_gpu_pad_launch(const gconv_gpu_pad *job, void *stream) {
  int64_t count = 1;
  for (int32_t i = 0; i < job->axes; i++)
    count *= job->out[i];
  if (count == 0)
    return GCONV_OK;
  const int64_t lines = count / job->out[job->axes - 1];
  auto *kernel = job->bytes == 1 ? pad<uint8_t> : job->bytes == 4 ? pad<uint32_t> : pad<uint64_t>;
  return start(kernel, blocks_for(lines * 32), stream, *job, lines);
}

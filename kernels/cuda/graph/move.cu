/* SPDX-License-Identifier: MIT */
/* Elements that go to other places: by steps along axes, by indices, and with borders around them. */
#include "graph.cuh"

/* ---- By steps ---- */

/* Drops axes of one element, and joins neighbouring axes that are as one in both tensors. */
static gconv_gpu_move join_axes(const gconv_gpu_move *job) {
  gconv_gpu_move joined = *job;
  joined.axes = 0;
  for (int32_t i = 0; i < job->axes; i++) {
    const int64_t size = job->shape[i], from = job->from_step[i], to = job->to_step[i];
    int32_t last = joined.axes - 1;
    if (size == 1)
      continue;
    const bool joins = last >= 0 && joined.from_step[last] == from * size && joined.to_step[last] == to * size;
    last = joins ? last : joined.axes++;
    joined.shape[last] = joins ? joined.shape[last] * size : size;
    joined.from_step[last] = from;
    joined.to_step[last] = to;
  }
  return joined;
}

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

template <class T, class Index> __global__ static void move_elements(gconv_gpu_move job, int64_t count) {
  FOR_OWN (element, count) {
    int64_t from = 0, to = 0;
    Index rest = (Index)element;
    for (int axis = job.axes - 1; axis >= 0; axis--) {
      const Index size = (Index)job.shape[axis], at = rest % size;
      rest /= size;
      from += (int64_t)at * job.from_step[axis];
      to += (int64_t)at * job.to_step[axis];
    }
    ((T *)job.to)[to] = ((const T *)job.from)[from];
  }
}

template <class T> static void launch_move(const gconv_gpu_move *job, int64_t count, cudaStream_t stream) {
  if (count <= MOST_SHORT)
    move_elements<T, uint32_t><<<blocks_for(count), THREADS, 0, stream>>>(*job, count);
  else
    move_elements<T, uint64_t><<<blocks_for(count), THREADS, 0, stream>>>(*job, count);
}

gconv_status gconv_gpu_move_launch(const gconv_gpu_move *job, void *stream) {
  gconv_gpu_move joined = join_axes(job);
  int64_t count = 1;
  for (int32_t i = 0; i < joined.axes; i++)
    count *= joined.shape[i];
  if (count == 0)
    return GCONV_OK;
  if (joined.axes <= 1 && (joined.axes == 0 || (joined.from_step[0] == 1 && joined.to_step[0] == 1))) {
    return CUDA_STATUS(
        cudaMemcpyAsync(job->to, job->from, (size_t)count * job->bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream));
  }
  sort_axes(&joined);
  if (job->bytes == 1)
    launch_move<uint8_t>(&joined, count, (cudaStream_t)stream);
  else if (job->bytes == 2)
    launch_move<uint16_t>(&joined, count, (cudaStream_t)stream);
  else if (job->bytes == 4)
    launch_move<uint32_t>(&joined, count, (cudaStream_t)stream);
  else
    launch_move<uint64_t>(&joined, count, (cudaStream_t)stream);
  LAUNCHED();
  return GCONV_OK;
}

/* ---- By indices ---- */

template <class T> __global__ static void gather(gconv_gpu_gather job, int64_t count) {
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
  if (job->bytes == 1)
    gather<uint8_t><<<blocks_for(count), THREADS, 0, (cudaStream_t)stream>>>(*job, count);
  else if (job->bytes == 4)
    gather<uint32_t><<<blocks_for(count), THREADS, 0, (cudaStream_t)stream>>>(*job, count);
  else
    gather<uint64_t><<<blocks_for(count), THREADS, 0, (cudaStream_t)stream>>>(*job, count);
  LAUNCHED();
  return GCONV_OK;
}

/* ---- Borders ---- */

/* Returns the index of the element that output index `at` of an axis gets; -1: the value outside. */
static __device__ __forceinline__ int64_t source(const gconv_gpu_pad &job, int axis, int64_t at) {
  const int64_t size = job.in[axis], last = size - 1, from = at - job.before[axis];
  if (from >= 0 && from < size)
    return from;
  switch (job.edge) {
  case GCONV_EDGE_REFLECT:
    return from < 0 ? -from : 2 * last - from;
  case GCONV_EDGE_REPEAT:
    return from < 0 ? 0 : last;
  case GCONV_EDGE_WRAP:
    return (from % size + size) % size;
  case GCONV_EDGE_CONSTANT:
    break;
  }
  return -1;
}

/* A warp copies a line of the last axis: the other axes are looked up once. */
template <class T> __global__ static void pad(const __grid_constant__ gconv_gpu_pad job, int64_t lines) {
  const int last = job.axes - 1;
  const int64_t length = job.out[last];
  for (int64_t line = (blockIdx.x * (int64_t)THREADS + threadIdx.x) / 32; line < lines;
       line += (int64_t)gridDim.x * THREADS / 32) {
    int64_t first = 0, pitch = job.in[last], rest = line;
    bool outside = false;
    for (int axis = last - 1; axis >= 0; axis--) {
      const int64_t at = source(job, axis, rest % job.out[axis]);
      rest /= job.out[axis];
      outside = outside || at < 0;
      first += at * pitch;
      pitch *= job.in[axis];
    }
    for (int64_t i = threadIdx.x % 32; i < length; i += 32) {
      const int64_t at = source(job, last, i);
      T value;
      if (!outside && at >= 0)
        value = ((const T *)job.from)[first + at];
      else
        value = job.outside_there ? *(const T *)job.outside_there : (T)job.outside;
      ((T *)job.to)[line * length + i] = value;
    }
  }
}

template <class T> static void launch_pad(const gconv_gpu_pad *job, int64_t count, cudaStream_t stream) {
  const int64_t lines = count / job->out[job->axes - 1];
  pad<T><<<blocks_for(lines * 32), THREADS, 0, stream>>>(*job, lines);
}

gconv_status gconv_gpu_pad_launch(const gconv_gpu_pad *job, void *stream) {
  int64_t count = 1;
  for (int32_t i = 0; i < job->axes; i++)
    count *= job->out[i];
  if (count == 0)
    return GCONV_OK;
  if (job->bytes == 1)
    launch_pad<uint8_t>(job, count, (cudaStream_t)stream);
  else if (job->bytes == 4)
    launch_pad<uint32_t>(job, count, (cudaStream_t)stream);
  else
    launch_pad<uint64_t>(job, count, (cudaStream_t)stream);
  LAUNCHED();
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Resize: fills a table of inputs and weights for each axis, and then sums over all axes at once. The sum over the axis that
 * is resized first is the innermost one, so the bits are as if axes were resized one after the other. */
#include "graph.cuh"

/* The table of an axis: `count` inputs for each output, their weights, and whether an output is outside. */
struct table {
  int64_t *index;
  float *weight;
  bool *outside;
  int64_t count;
};

static table table_of(const gconv_resize_axis *a, void *memory) {
  const int64_t count = gconv_resize_taps(a), taps = count * a->out;
  int64_t *const index = (int64_t *)memory;
  float *const weight = (float *)(index + taps);
  return {index, weight, (bool *)(weight + taps), count};
}

__global__ static void fill_table(gconv_resize_axis a, table t) {
  follow_kernel_before();
  FOR_OWN (o, a.out)
    t.outside[o] = gconv_resize_fill(&a, o, t.count, t.index + o * t.count, t.weight + o * t.count, NULL);
}

struct tables {
  table of[GCONV_GPU_RESIZED];
  int64_t step[GCONV_GPU_RESIZED]; /* elements between neighbours of the axis, in the input */
};

/* Sums over the axes 0 .. LAST, in the order in which they are resized. */
template <int LAST> static __device__ __forceinline__ float sum_of(const tables &t, const int64_t *at, const float *from) {
  if constexpr (LAST < 0)
    return *from;
  else {
    const table &own = t.of[LAST];
    const int64_t *index = own.index + at[LAST] * own.count, step = t.step[LAST];
    if (own.count == 1)
      return sum_of<LAST - 1>(t, at, from + index[0] * step);
    const float *weight = own.weight + at[LAST] * own.count;
    float sum = 0;
    for (int64_t k = 0; k < own.count; k++)
      sum += sum_of<LAST - 1>(t, at, from + index[k] * step) * weight[k];
    return sum;
  }
}

/* A warp makes a line of the last axis: the other axes are looked up once. */
template <int CHANGED>
__global__ static void resize(const __grid_constant__ gconv_gpu_resize job, const __grid_constant__ tables t,
                              int64_t lines) {
  follow_kernel_before();
  const int last = job.axes - 1;
  const int64_t length = job.out[last];
  for (int64_t line = (blockIdx.x * (int64_t)THREADS + threadIdx.x) / 32; line < lines;
       line += (int64_t)gridDim.x * THREADS / 32) {
    int64_t at[CHANGED + 1] = {0}, first = 0, pitch = job.in[last], rest = line;
    bool outside = false, changes_last = false;
    for (int axis = last - 1; axis >= 0; axis--) {
      const int64_t o = rest % job.out[axis];
      bool changes = false;
      rest /= job.out[axis];
#pragma unroll
      for (int i = 0; i < CHANGED; i++)
        if (job.axis[i] == axis) {
          at[i] = o;
          changes = true;
          outside = outside || t.of[i].outside[o];
        }
      first += changes ? 0 : o * pitch;
      pitch *= job.in[axis];
    }
    for (int64_t o = threadIdx.x % 32; o < length; o += 32) {
      bool out = outside;
#pragma unroll
      for (int i = 0; i < CHANGED; i++)
        if (job.axis[i] == last) {
          at[i] = o;
          changes_last = true;
          out = out || t.of[i].outside[o];
        }
      job.to[line * length + o] = out ? job.outside : sum_of<CHANGED - 1>(t, at, job.from + first + (changes_last ? 0 : o));
    }
  }
}

gconv_status gconv_gpu_resize_launch(const gconv_gpu_resize *job, void *stream) {
  tables t = {};
  int64_t count = 1;
  char *memory = (char *)job->tables;
  for (int32_t i = 0; i < job->axes; i++)
    count *= job->out[i];
  if (count == 0)
    return GCONV_OK;
  for (int32_t i = 0; i < job->changed; i++) {
    const gconv_resize_axis *a = &job->how[i];
    t.of[i] = table_of(a, memory);
    t.step[i] = 1;
    for (int32_t axis = job->axis[i] + 1; axis < job->axes; axis++)
      t.step[i] *= job->in[axis];
    GCONV_TRY(start(fill_table, blocks_for(a->out), stream, *a, t.of[i]));
    memory += gconv_gpu_table_bytes(a);
  }
  static constexpr decltype(&resize<0>) kernels[GCONV_GPU_RESIZED + 1] = {resize<0>, resize<1>, resize<2>, resize<3>,
                                                                          resize<4>};
  const int64_t lines = count / job->out[job->axes - 1];
  return start(kernels[job->changed], blocks_for(lines * 32), stream, *job, t, lines);
}

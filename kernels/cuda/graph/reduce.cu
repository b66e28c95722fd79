/* SPDX-License-Identifier: MIT */
/* Reductions: many numbers along axes become one. Sums of floats are float64. A block or a thread makes an output: a block
 * adds in a fixed tree, a thread in the order of the elements. */
#include "graph.cuh"

#include <type_traits>

enum { AT_A_TIME = 8 /* loads of a thread */ };

/* The state of a reduction. `has`: there is a value. Places of largest and smallest skip NaN, except in element 0. */
template <class A> struct state {
  A value;
  int64_t at;
  bool has;
};

static __device__ __forceinline__ bool is_place(gconv_gpu_reduction how) {
  return how == GCONV_REDUCE_PLACE_OF_LARGEST || how == GCONV_REDUCE_PLACE_OF_SMALLEST;
}

/* Returns the place of element number `i`, counted along the axes. */
static __device__ int64_t place(int32_t axes, const int64_t *shape, const int64_t *step, int64_t i) {
  int64_t at = 0;
  for (int32_t a = axes - 1; a > 0; a--) {
    at += i % shape[a] * step[a];
    i /= shape[a];
  }
  return axes > 0 ? at + i * step[0] : 0;
}

template <class A> static __device__ state<A> nothing(gconv_gpu_reduction how) {
  return {how == GCONV_REDUCE_PRODUCT ? A(1) : A(0), 0, false};
}

/* Adds b to a. Elements of b follow the elements of a in a line, or lie between them in a block. */
template <class A>
static __device__ __forceinline__ void combine(gconv_gpu_reduction how, bool last, state<A> &a, const state<A> &b) {
  switch (how) {
  case GCONV_REDUCE_PRODUCT:
    a.value *= b.value;
    return;
  case GCONV_REDUCE_LARGEST:
  case GCONV_REDUCE_LOG_OF_EXP:
    if (b.has && (!a.has || b.value > a.value || b.value != b.value))
      a = b;
    return;
  case GCONV_REDUCE_SMALLEST:
    if (b.has && (!a.has || b.value < a.value || b.value != b.value))
      a = b;
    return;
  case GCONV_REDUCE_PLACE_OF_LARGEST:
  case GCONV_REDUCE_PLACE_OF_SMALLEST: {
    const bool better = how == GCONV_REDUCE_PLACE_OF_LARGEST ? b.value > a.value : b.value < a.value;
    const bool first_is_nan = a.has && a.at == 0 && a.value != a.value;
    if (b.has && !first_is_nan && (!a.has || better || (b.value == a.value && (last ? b.at > a.at : b.at < a.at))))
      a = b;
    return;
  }
  default:
    a.value += b.value;
  }
}

template <class A>
static __device__ __forceinline__ void take(gconv_gpu_reduction how, bool last, state<A> &s, A v, int64_t at) {
  if (how == GCONV_REDUCE_L1)
    v = v < 0 ? -v : v;
  if (how == GCONV_REDUCE_L2 || how == GCONV_REDUCE_SQUARES)
    v *= v;
  combine(how, last, s, state<A>{v, at, !is_place(how) || v == v || at == 0});
}

/* Combines the states of all threads of a block. All threads get the result. */
template <class A> static __device__ state<A> of_block(gconv_gpu_reduction how, bool last, state<A> mine) {
  __shared__ state<A> lanes[THREADS];
  lanes[threadIdx.x] = mine;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half)
      combine(how, last, lanes[threadIdx.x], lanes[threadIdx.x + half]);
    __syncthreads();
  }
  mine = lanes[0];
  __syncthreads();
  return mine;
}

template <class T, class A>
static __device__ void finish(const gconv_gpu_reduce &job, const state<A> &s, double powers, int64_t output) {
  A y = s.value;
  if (is_place(job.how)) {
    ((int64_t *)job.out)[output] = s.at;
    return;
  }
  if constexpr (std::is_same<A, double>::value) {
    switch (job.how) {
    case GCONV_REDUCE_MEAN:
      y /= (double)job.count;
      break;
    case GCONV_REDUCE_L2:
      y = sqrt(y);
      break;
    case GCONV_REDUCE_LOG:
      y = log(y);
      break;
    case GCONV_REDUCE_LOG_OF_EXP: {
      const double from = isfinite(y) && s.has ? y : 0;
      y = powers > 0 || powers != powers ? log(powers) + from : -(double)INFINITY;
      break;
    }
    case GCONV_REDUCE_LARGEST:
      y = s.has ? y : -(double)INFINITY;
      break;
    case GCONV_REDUCE_SMALLEST:
      y = s.has ? y : (double)INFINITY;
      break;
    default:
      break;
    }
  } else if (job.how == GCONV_REDUCE_MEAN && job.count > 0)
    y /= job.count;
  ((T *)job.out)[output] = (T)y;
}

/* A block (WHOLE) or a thread makes an output. */
template <class T, class A, bool WHOLE> __global__ static void __launch_bounds__(THREADS) reduce(gconv_gpu_reduce job) {
  follow_kernel_before();
  const int64_t mine = WHOLE ? blockIdx.x : (int64_t)blockIdx.x * THREADS + threadIdx.x;
  const int64_t all = WHOLE ? gridDim.x : (int64_t)gridDim.x * THREADS;
  const int64_t begin = WHOLE ? threadIdx.x : 0, pace = WHOLE ? THREADS : 1;
  for (int64_t output = mine; output < job.outputs; output += all) {
    const T *in = (const T *)job.in + place(job.kept, job.kept_shape, job.kept_step, output);
    state<A> s = nothing<A>(job.how);
    for (int64_t i = begin; i < job.count; i += pace)
      take(job.how, job.last, s, (A)in[place(job.reduced, job.shape, job.step, i)], i);
    if (WHOLE)
      s = of_block(job.how, job.last, s);
    double powers = 0;
    if (job.how == GCONV_REDUCE_LOG_OF_EXP) {
      const double from = s.has && isfinite((double)s.value) ? (double)s.value : 0;
      for (int64_t i = begin; i < job.count; i += pace)
        powers += exp((double)in[place(job.reduced, job.shape, job.step, i)] - from);
      if (WHOLE)
        powers = sum_of_block(powers);
    }
    if (!WHOLE || threadIdx.x == 0)
      finish<T>(job, s, powers, output);
  }
}

/* A warp, or a block (WHOLE), makes the sum or mean of a line of neighbours, WIDE of them at a time. */
template <bool WHOLE, int WIDE>
__global__ static void __launch_bounds__(THREADS) reduce_lines(const __grid_constant__ gconv_gpu_reduce job) {
  const int all = WHOLE ? THREADS : 32, lane = threadIdx.x % all, pace = all * WIDE;
  follow_kernel_before();
  for (int64_t output = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / all; output < job.outputs;
       output += (int64_t)gridDim.x * (THREADS / all)) {
    const float *in = (const float *)job.in + output * job.kept_step[0];
    double sum = 0;
    for (int64_t i = lane * WIDE; i < job.count; i += AT_A_TIME * pace) {
      float some[AT_A_TIME][WIDE] = {};
#pragma unroll
      for (int e = 0; e < AT_A_TIME; e++)
        if (i + e * pace < job.count) {
          if constexpr (WIDE == 4)
            load_four(in + i + e * pace, some[e]);
          else
            some[e][0] = in[i + e * pace];
        }
#pragma unroll
      for (int e = 0; e < AT_A_TIME * WIDE; e++)
        sum += (double)some[e / WIDE][e % WIDE];
    }
    if (WHOLE)
      sum = sum_of_block(sum);
    else
      for (int half = 16; half > 0; half /= 2)
        sum += __shfl_xor_sync(UINT32_MAX, sum, half);
    if (lane == 0)
      ((float *)job.out)[output] = (float)(job.how == GCONV_REDUCE_MEAN ? sum / (double)job.count : sum);
  }
}

static gconv_status launch_lines(const gconv_gpu_reduce *job, void *stream) {
  const bool whole = job->count > 512, fours = job->count % 4 == 0 && (uintptr_t)job->in % 16 == 0;
  auto *kernel = whole   ? fours ? reduce_lines<true, 4> : reduce_lines<true, 1>
                   : fours ? reduce_lines<false, 4>
                         : reduce_lines<false, 1>;
  return start(kernel, blocks_of(whole ? job->outputs : (job->outputs - 1) / (THREADS / 32) + 1), stream, *job);
}

template <class T, class A> static gconv_status launch(const gconv_gpu_reduce *job, void *stream) {
  const bool neighbours = job->reduced > 0 && job->step[job->reduced - 1] == 1;
  return (neighbours ? job->count >= 16 : job->count >= 64 && job->outputs < 8192)
             ? start(reduce<T, A, true>, blocks_of(job->outputs), stream, *job)
             : start(reduce<T, A, false>, blocks_for(job->outputs), stream, *job);
}

gconv_status gconv_gpu_reduce_launch(const gconv_gpu_reduce *job, void *stream) {
  if (job->outputs == 0)
    return GCONV_OK;
  const bool adds = job->how == GCONV_REDUCE_SUM || job->how == GCONV_REDUCE_MEAN;
  if (job->type == 1 && adds && job->kept == 1 && job->reduced == 1 && job->step[0] == 1 && job->kept_step[0] == job->count)
    return launch_lines(job, stream);
  switch (job->type) {
  case 1:
    return launch<float, double>(job, stream);
  case 6:
    return launch<int32_t, int64_t>(job, stream);
  case 7:
    return launch<int64_t, int64_t>(job, stream);
  default:
    return gconv_fail(GCONV_UNSUPPORTED, "has numbers of a type that GPUs do not compute here: take -d cpu");
  }
}

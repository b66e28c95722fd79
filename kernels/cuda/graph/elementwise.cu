/* SPDX-License-Identifier: MIT */
/* Chains of element-wise operations, with operands that are broadcast. The bandwidth of memory limits them, so there is one
 * kernel for all chains. It looks up each operation once for several elements. */
#include "graph.cuh"
#include "kernels/activation.h"
#include "kernels/elementwise.h"

enum { SOME = 4 /* elements of a thread at a time */ };

/* ---- Operations on floats ---- */

GCONV_ELEMENT_FUNCTIONS(static __device__ __forceinline__, f32, float, gconv_tanh)
#define LOGISTIC gconv_sigmoid
#define HYPERBOLIC gconv_tanh
#define CLAMP clamp_f32
#define SMALLER smaller_f32
#define LARGER larger_f32
#define MODULO modulo_f32
#define HALF_POWER half_power_f32
#define LOG_1_EXP softplus_f32
#define ERROR_UNIT gelu_f32

/* y[i] = the operation, of operands one, two, three. Numbers that are true or false are 1 or 0. */
#define EACH(code, expression)                                                                                              \
  case code:                                                                                                                \
    _Pragma("unroll") for (int i = 0; i < SOME; i++) {                                                                      \
      const number x = one[i], a = x, b = two[i];                                                                           \
      (void)a, (void)b;                                                                                                     \
      y[i] = (number)(expression);                                                                                          \
    }                                                                                                                       \
    break;
#define BOTH(code, expression) EACH(code, expression)
#define HOST(code, expression)
static __device__ __forceinline__ void apply(const gconv_gpu_operation *s, const float *one, const float *two,
                                             const float *three, float *y) {
  typedef float number;
  switch (s->code) {
#define UNARY(code, loop, place, expression) place(code, expression)
#define BINARY(code, loop, place, expression) place(code, expression)
#define COMPARISON(code, expression) EACH(code, expression)
#include "kernels/elementwise.def"
    EACH(WHERE, x != 0 ? b : three[i])
  }
}

/* ---- Chains of floats ---- */

/* Reads SOME neighbours of an operand; neighbours after `left` elements repeat the first. `step` is 0, or the distance of
 * neighbours. */
static __device__ __forceinline__ void read_some(const float *from, int64_t step, int left, bool aligned, float *to) {
  if (step == 1 && aligned) {
    const float4 four = *(const float4 *)from;
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < SOME; i++)
    to[i] = from[i < left ? i * step : 0];
}

/* Sums place * step over all axes but the last one. */
template <class Index>
static __device__ __forceinline__ int64_t place_of_line(const gconv_gpu_elements &job, const int64_t *step, Index line) {
  int64_t place = 0;
  for (int axis = job.axes - 2; axis >= 0; axis--) {
    const Index size = (Index)job.size[axis];
    place += (int64_t)(line % size) * step[axis];
    line /= size;
  }
  return place;
}

/* A thread makes SOME neighbours of a line of the last axis. `fours`: lines of all operands begin at multiples of 16 bytes,
 * except operands whose element is repeated along the line. */
template <class Index>
__global__ static void __launch_bounds__(THREADS)
    chain_of_floats(const __grid_constant__ gconv_gpu_elements job, int64_t lines, bool fours) {
  follow_kernel_before();
  const Index length = (Index)job.size[job.axes - 1], pieces = (length + SOME - 1) / SOME, count = (Index)lines * pieces;
  for (Index i = (Index)blockIdx.x * THREADS + threadIdx.x; i < count; i += (Index)gridDim.x * THREADS) {
    const Index line = i / pieces;
    const int64_t at = (int64_t)(i - line * pieces) * SOME;
    const int left = (int64_t)length - at < SOME ? (int)((int64_t)length - at) : SOME;
    float v[SOME] = {};
    for (int k = 0; k < job.length; k++) {
      const gconv_gpu_operation &s = job.chain[k];
      float in[3][SOME] = {};
#pragma unroll
      for (int i = 0; i < 3; i++) {
        if (i >= s.count)
          continue;
        if (i == s.chained) {
#pragma unroll
          for (int e = 0; e < SOME; e++)
            in[i][e] = v[e];
          continue;
        }
        if (!s.operand[i].data) {
#pragma unroll
          for (int e = 0; e < SOME; e++)
            in[i][e] = s.operand[i].number;
          continue;
        }
        const int64_t step = s.operand[i].step[job.axes - 1];
        const float *from = (const float *)s.operand[i].data + place_of_line(job, s.operand[i].step, line);
        read_some(from + at * step, step, left, fours && left == SOME, in[i]);
      }
      apply(&s, in[0], in[1], in[2], v);
    }
    float *out = (float *)job.out + (int64_t)line * length + at;
    if (fours && left == SOME)
      *(float4 *)out = make_float4(v[0], v[1], v[2], v[3]);
    else
#pragma unroll
      for (int i = 0; i < SOME; i++)
        if (i < left)
          out[i] = v[i];
  }
}

static bool is_aligned(const void *data) {
  return (uintptr_t)data % sizeof(float4) == 0;
}

/* Returns whether lines of all operands can be read as float4. */
static bool reads_fours(const gconv_gpu_elements *job) {
  const int32_t last = job->axes - 1;
  bool fours = job->size[last] % SOME == 0 && is_aligned(job->out);
  for (int32_t k = 0; k < job->length; k++)
    for (int32_t i = 0; i < job->chain[k].count; i++) {
      const gconv_gpu_operand *o = &job->chain[k].operand[i];
      if (i == job->chain[k].chained || !o->data || o->step[last] != 1)
        continue;
      fours = fours && is_aligned(o->data);
      for (int32_t axis = 0; axis < last; axis++)
        fours = fours && o->step[axis] % SOME == 0;
    }
  return fours;
}

/* Returns whether one axis with one step can take the place of two neighbouring axes of an operand. */
static bool goes_on(const gconv_gpu_operand *o, int32_t axis, int64_t inner) {
  return !o->data || o->step[axis] == o->step[axis + 1] * inner;
}

/* Joins neighbouring axes where all operands allow it, so that lines are long. */
static gconv_gpu_elements joined(gconv_gpu_elements job) {
  for (int32_t axis = job.axes - 2; axis >= 0; axis--) {
    bool good = true;
    for (int32_t k = 0; k < job.length && job.size[axis] != 1; k++)
      for (int32_t i = 0; i < job.chain[k].count; i++)
        good = good && (i == job.chain[k].chained || goes_on(&job.chain[k].operand[i], axis, job.size[axis + 1]));
    if (!good)
      continue;
    job.size[axis] *= job.size[axis + 1];
    for (int32_t a = axis + 1; a + 1 < job.axes; a++)
      job.size[a] = job.size[a + 1];
    for (int32_t k = 0; k < job.length; k++)
      for (int32_t i = 0; i < job.chain[k].count; i++)
        for (int32_t a = axis; a + 1 < job.axes; a++)
          job.chain[k].operand[i].step[a] = job.chain[k].operand[i].step[a + 1];
    job.axes--;
  }
  return job;
}

static gconv_status run_floats(const gconv_gpu_elements *given, void *stream) {
  const gconv_gpu_elements job = joined(*given);
  int64_t lines = 1;
  for (int32_t i = 0; i + 1 < job.axes; i++)
    lines *= job.size[i];
  const int64_t count = lines * ((job.size[job.axes - 1] - 1) / SOME + 1);
  const bool fours = reads_fours(&job);
  return start(count < MOST_SHORT / 2 ? chain_of_floats<uint32_t> : chain_of_floats<uint64_t>, blocks_for(count), stream,
               job, lines, fours);
}

/* ---- One operation of numbers of any type ---- */

/* Integers wrap around: they are computed as int64, and truncated to their type. */
#undef EACH
#define EACH(code, expression)                                                                                              \
  case code:                                                                                                                \
    return (number)(expression);
static __device__ int64_t apply_integers(const gconv_gpu_operation *s, int64_t a, int64_t b) {
  typedef int64_t number;
  typedef uint64_t wide;
  const number x = a;
  switch (s->code) {
#define INTEGER_UNARY(code, types, place, expression) place(code, expression)
#define INTEGER_BINARY(code, types, place, expression) place(code, expression)
#define COMPARISON(code, expression) EACH(code, expression)
#define TRUTH_UNARY(code, expression) EACH(code, expression)
#define TRUTH_BINARY(code, expression) EACH(code, expression)
#include "kernels/elementwise.def"
  }
  return 0;
}

template <class T, class R, class Index> __global__ static void one_operation(gconv_gpu_elements job, int64_t count) {
  follow_kernel_before();
  const gconv_gpu_operation &s = job.chain[0];
  FOR_OWN (element, count) {
    int64_t place[3] = {0, 0, 0};
    Index rest = (Index)element;
    for (int axis = job.axes - 1; axis >= 0; axis--) {
      const Index size = (Index)job.size[axis];
      for (int i = 0; i < 3; i++)
        place[i] += (int64_t)(rest % size) * s.operand[i].step[axis];
      rest /= size;
    }
    R y;
    if (s.code == WHERE)
      y = (R)(((const bool *)s.operand[0].data)[place[0]] ? ((const T *)s.operand[1].data)[place[1]]
                                                          : ((const T *)s.operand[2].data)[place[2]]);
    else {
      T v[3] = {};
      for (int i = 0; i < s.count; i++)
        v[i] = ((const T *)s.operand[i].data)[place[i]];
      if constexpr (sizeof(T) == sizeof(float) && T(0.5f) != T(0)) {
        float a[SOME] = {v[0]}, b[SOME] = {v[1]}, made[SOME];
        apply(&s, a, b, b, made);
        y = (R)made[0];
      } else
        y = (R)apply_integers(&s, (int64_t)v[0], (int64_t)v[1]);
    }
    ((R *)job.out)[element] = y;
  }
}

template <class T, class R> static gconv_status launch_one(const gconv_gpu_elements *job, int64_t count, void *stream) {
  return start(count <= MOST_SHORT ? one_operation<T, R, uint32_t> : one_operation<T, R, uint64_t>, blocks_for(count),
               stream, *job, count);
}

static gconv_status run_one(const gconv_gpu_elements *job, int64_t count, void *stream) {
  const bool tests = job->out_type != job->type; /* the result is true or false */
  switch (job->type) {
#define TYPE(type, number)                                                                                                  \
  case number:                                                                                                              \
    return tests ? launch_one<type, bool>(job, count, stream) : launch_one<type, type>(job, count, stream);
    GCONV_EACH_GPU_TYPE(TYPE)
#undef TYPE
  default:
    return gconv_fail(GCONV_UNSUPPORTED, "has numbers of a type that GPUs do not compute here: take -d cpu");
  }
}

gconv_status gconv_gpu_elements_launch(const gconv_gpu_elements *job, void *stream) {
  int64_t lines = 1;
  for (int32_t i = 0; i + 1 < job->axes; i++)
    lines *= job->size[i];
  const int64_t count = lines * job->size[job->axes - 1];
  if (count == 0)
    return GCONV_OK;
  const bool floats = job->type == 1 && job->out_type == 1 && job->chain[0].code != WHERE;
  return floats ? run_floats(job, stream) : run_one(job, count, stream);
}

/* ---- Casts ---- */

static __device__ int64_t whole(double x) {
  return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

template <class T> static __device__ __forceinline__ constexpr bool is_float() {
  return T(0.5f) != T(0) && sizeof(T) > 1;
}

/* Rounds to the nearest number of a type of 16 bits, ties to even. */
static __device__ float narrow(const gconv_gpu_cast &job, float x) {
  if ((!job.to_half && !job.to_brain) || x != x)
    return x;
  if (job.to_brain) {
    const uint32_t bits = __float_as_uint(x);
    return __uint_as_float((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
  }
  uint16_t half;
  float y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(half));
  return y;
}

template <class T, class R> __global__ static void cast(gconv_gpu_cast job) {
  follow_kernel_before();
  FOR_OWN (i, job.count) {
    const T x = ((const T *)job.in)[i];
    R y;
    if constexpr (sizeof(R) == sizeof(bool) && R(2) == R(1))
      y = (R)(x != T(0));
    else if constexpr (is_float<R>())
      y = (R)narrow(job, (float)x);
    else if constexpr (is_float<T>())
      y = (R)whole((double)x);
    else
      y = (R)(int64_t)x;
    ((R *)job.out)[i] = y;
  }
}

template <class T> static gconv_status cast_from(const gconv_gpu_cast *job, void *stream) {
  switch (job->out_type) {
#define TYPE(type, number)                                                                                                  \
  case number:                                                                                                              \
    return start(cast<T, type>, blocks_for(job->count), stream, *job);
    GCONV_EACH_GPU_TYPE(TYPE)
#undef TYPE
  default:
    return gconv_fail(GCONV_UNSUPPORTED, "makes numbers of a type that GPUs do not compute here: take -d cpu");
  }
}

gconv_status gconv_gpu_cast_launch(const gconv_gpu_cast *job, void *stream) {
  if (job->count == 0)
    return GCONV_OK;
  switch (job->in_type) {
#define TYPE(type, number)                                                                                                  \
  case number:                                                                                                              \
    return cast_from<type>(job, stream);
    GCONV_EACH_GPU_TYPE(TYPE)
#undef TYPE
  default:
    return gconv_fail(GCONV_UNSUPPORTED, "has numbers of a type that GPUs do not compute here: take -d cpu");
  }
}

/* SPDX-License-Identifier: MIT */
/* Chains of operations on each element by itself, with operands that are broadcast. Memory bounds them: so there is one
 * kernel for all chains, which looks up each operation once for several elements. */
#include "graph.cuh"
#include "kernels/activation.h"
#include "kernels/elementwise.h"

enum { SOME = 4 /* elements of a thread at a time */ };

/* ---- Operations on floats ---- */

static __device__ __forceinline__ float clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
static __device__ __forceinline__ float softplus(float x) {
  return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
}
static __device__ float gelu(float x, bool approximate) {
  return approximate ? 0.5f * x * (1 + gconv_tanh(0.797884561f * (x + 0.044715f * x * x * x)))
                     : 0.5f * x * (1 + erff(0.707106781f * x));
}
static __device__ float modulo_of_floats(float a, float b, bool remainder) {
  const float rest = fmodf(a, b);
  return rest != 0 && !remainder && (rest < 0) != (b < 0) ? rest + b : rest;
}
static __device__ float power(float a, float b) {
  return b == 2 ? a * a : b == 0.5f ? sqrtf(a) : powf(a, b);
}

/* y[i] = the operation, of operands a, b, c. Numbers that are true or false are 1 or 0. */
#define EACH(operation, expression)                                                                                         \
  case operation:                                                                                                           \
    _Pragma("unroll") for (int i = 0; i < SOME; i++) {                                                                      \
      const float x = a[i], z = b[i];                                                                                       \
      (void)z;                                                                                                              \
      y[i] = expression;                                                                                                    \
    }                                                                                                                       \
    break;
static __device__ __forceinline__ void apply(const gconv_gpu_operation &s, const float *a, const float *b, const float *c,
                                             float *y) {
  switch (s.code) {
    EACH(RELU, x < 0 ? 0 : x)
    EACH(LEAKY, x < 0 ? x * s.alpha : x)
    EACH(THRESHOLDED, x <= s.alpha ? 0 : x)
    EACH(SIGMOID, gconv_sigmoid(x))
    EACH(TANH, gconv_tanh(x))
    EACH(CLIP, clamp(x, s.low, s.high))
    EACH(HARD_SIGMOID, clamp(s.alpha * x + s.beta, 0, 1))
    EACH(HARD_SWISH, x * clamp(x * (1.0f / 6) + 0.5f, 0, 1))
    EACH(SQRT, sqrtf(x))
    EACH(ABS, fabsf(x))
    EACH(NEG, -x)
    EACH(RECIPROCAL, 1 / x)
    EACH(SWISH, x * gconv_sigmoid(x * s.alpha))
    EACH(SOFTSIGN, x / (1 + fabsf(x)))
    EACH(ELU, x < 0 ? s.alpha * expm1f(x) : x)
    EACH(SELU, s.beta * (x < 0 ? s.alpha * expm1f(x) : x))
    EACH(CELU, x < 0 ? s.alpha * expm1f(x / s.alpha) : x)
    EACH(SOFTPLUS, softplus(x))
    EACH(MISH, x * gconv_tanh(softplus(x)))
    EACH(GELU, gelu(x, s.approximate))
    EACH(ERF, erff(x))
    EACH(EXP, expf(x))
    EACH(LOG, logf(x))
    EACH(SIN, sinf(x))
    EACH(COS, cosf(x))
    EACH(FLOOR, floorf(x))
    EACH(CEIL, ceilf(x))
    EACH(ROUND, rintf(x))
    EACH(SIGN, x != x ? x : (float)((x > 0) - (x < 0)))
    EACH(IS_NAN, (float)(x != x))
    EACH(NOT, (float)(x == 0))
    EACH(ADD, x + z)
    EACH(SUB, x - z)
    EACH(MUL, x * z)
    EACH(DIV, x / z)
    EACH(MIN, x < z || x != x ? x : z)
    EACH(MAX, x > z || x != x ? x : z)
    EACH(PRELU, x < 0 ? x * z : x)
    EACH(MOD, modulo_of_floats(x, z, s.remainder))
    EACH(POW, power(x, z))
    EACH(EQUAL, (float)(x == z))
    EACH(LESS, (float)(x < z))
    EACH(LESS_EQUAL, (float)(x <= z))
    EACH(GREATER, (float)(x > z))
    EACH(GREATER_EQUAL, (float)(x >= z))
    EACH(WHERE, x != 0 ? z : c[i])
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

/* A thread makes SOME neighbours of a line of the last axis. `fours`: lines of all operands that are no single elements
 * begin at multiples of 16 bytes. */
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
      apply(s, in[0], in[1], in[2], v);
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

/* Whether lines of all operands can be read as float4. */
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

/* Whether an operand's elements along two neighbouring axes are as far apart as those along one axis of both. */
static bool goes_on(const gconv_gpu_operand *o, int32_t axis, int64_t inner) {
  return !o->data || o->step[axis] == o->step[axis + 1] * inner;
}

/* Joins neighbouring axes along which all operands go on, so that lines are long. */
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

static gconv_status run_floats(const gconv_gpu_elements *given, cudaStream_t stream) {
  const gconv_gpu_elements job = joined(*given);
  int64_t lines = 1;
  for (int32_t i = 0; i + 1 < job.axes; i++)
    lines *= job.size[i];
  const int64_t count = lines * ((job.size[job.axes - 1] - 1) / SOME + 1);
  const bool fours = reads_fours(&job);
  if (count < MOST_SHORT / 2)
    launch_behind(chain_of_floats<uint32_t>, blocks_for(count), THREADS, 0, stream, job, lines, fours);
  else
    launch_behind(chain_of_floats<uint64_t>, blocks_for(count), THREADS, 0, stream, job, lines, fours);
  LAUNCHED();
  return GCONV_OK;
}

/* ---- One operation of numbers of any type ---- */

static __device__ int64_t modulo(int64_t a, int64_t b, bool remainder) {
  const int64_t rest = b == -1 || b == 0 ? 0 : a % b;
  return rest != 0 && !remainder && (rest < 0) != (b < 0) ? rest + b : rest;
}
static __device__ int64_t integer_power(int64_t a, int64_t b) {
  uint64_t result = 1, square = (uint64_t)a;
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  for (; b > 0; b >>= 1, square *= square)
    result *= b & 1 ? square : 1;
  return (int64_t)result;
}

/* Integers wrap around: they are computed as uint64 where that matters, and cut to their type. Division by 0 yields 0. */
static __device__ int64_t apply_integers(const gconv_gpu_operation &s, int64_t x, int64_t z) {
  switch (s.code) {
  case RELU:
    return x < 0 ? 0 : x;
  case ABS:
    return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
  case NEG:
    return (int64_t)(0 - (uint64_t)x);
  case SIGN:
    return (x > 0) - (x < 0);
  case NOT:
    return !x;
  case ADD:
    return (int64_t)((uint64_t)x + (uint64_t)z);
  case SUB:
    return (int64_t)((uint64_t)x - (uint64_t)z);
  case MUL:
    return (int64_t)((uint64_t)x * (uint64_t)z);
  case DIV:
    return z == 0 ? 0 : z == -1 ? (int64_t)(0 - (uint64_t)x) : x / z;
  case MIN:
    return x < z ? x : z;
  case MAX:
    return x > z ? x : z;
  case MOD:
    return modulo(x, z, s.remainder);
  case POW:
    return integer_power(x, z);
  case EQUAL:
    return x == z;
  case LESS:
    return x < z;
  case LESS_EQUAL:
    return x <= z;
  case GREATER:
    return x > z;
  case GREATER_EQUAL:
    return x >= z;
  case AND:
    return x && z;
  case OR:
    return x || z;
  case XOR:
    return !x != !z;
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
        apply(s, a, b, b, made);
        y = (R)made[0];
      } else
        y = (R)apply_integers(s, (int64_t)v[0], (int64_t)v[1]);
    }
    ((R *)job.out)[element] = y;
  }
}

template <class T, class R> static void launch_one(const gconv_gpu_elements *job, int64_t count, cudaStream_t stream) {
  if (count <= MOST_SHORT)
    launch_behind(one_operation<T, R, uint32_t>, blocks_for(count), THREADS, 0, stream, *job, count);
  else
    launch_behind(one_operation<T, R, uint64_t>, blocks_for(count), THREADS, 0, stream, *job, count);
}

static gconv_status run_one(const gconv_gpu_elements *job, int64_t count, cudaStream_t stream) {
  const bool tests = job->out_type != job->type; /* the result is true or false */
  switch (job->type) {
#define TYPE(type, number)                                                                                                  \
  case number:                                                                                                              \
    if (tests)                                                                                                              \
      launch_one<type, bool>(job, count, stream);                                                                           \
    else                                                                                                                    \
      launch_one<type, type>(job, count, stream);                                                                           \
    break;
    GCONV_EACH_GPU_TYPE(TYPE)
#undef TYPE
  default:
    return gconv_fail(GCONV_UNSUPPORTED, "has numbers of a type that GPUs do not compute here: take -d cpu");
  }
  LAUNCHED();
  return GCONV_OK;
}

gconv_status gconv_gpu_elements_launch(const gconv_gpu_elements *job, void *stream) {
  int64_t lines = 1;
  for (int32_t i = 0; i + 1 < job->axes; i++)
    lines *= job->size[i];
  const int64_t count = lines * job->size[job->axes - 1];
  if (count == 0)
    return GCONV_OK;
  const bool floats = job->type == 1 && job->out_type == 1 && job->chain[0].code != WHERE;
  return floats ? run_floats(job, (cudaStream_t)stream) : run_one(job, count, (cudaStream_t)stream);
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

template <class T> static gconv_status cast_from(const gconv_gpu_cast *job, cudaStream_t stream) {
  switch (job->out_type) {
#define TYPE(type, number)                                                                                                  \
  case number:                                                                                                              \
    launch_behind(cast<T, type>, blocks_for(job->count), THREADS, 0, stream, *job);                                         \
    break;
    GCONV_EACH_GPU_TYPE(TYPE)
#undef TYPE
  default:
    return gconv_fail(GCONV_UNSUPPORTED, "makes numbers of a type that GPUs do not compute here: take -d cpu");
  }
  LAUNCHED();
  return GCONV_OK;
}

gconv_status gconv_gpu_cast_launch(const gconv_gpu_cast *job, void *stream) {
  if (job->count == 0)
    return GCONV_OK;
  switch (job->in_type) {
#define TYPE(type, number)                                                                                                  \
  case number:                                                                                                              \
    return cast_from<type>(job, (cudaStream_t)stream);
    GCONV_EACH_GPU_TYPE(TYPE)
#undef TYPE
  default:
    return gconv_fail(GCONV_UNSUPPORTED, "has numbers of a type that GPUs do not compute here: take -d cpu");
  }
}

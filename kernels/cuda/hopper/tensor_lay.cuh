/* SPDX-License-Identifier: MIT */
/* Prepares a layer's input for tensor cores (tensor.cuh): finds its largest samples, packs it into planes of units. */
#pragma once

#include "tensor_work.cuh"

namespace tensor {

/* Magnitudes from these bits on may become infinite by rounding to TF32 or to bfloat16, and count as not finite. */
constexpr uint32_t NOT_FINITE = 0x7f7ff000, NOT_FINITE_BF16 = 0x7f7f8000;

/* Finds the largest finite magnitude of each group of each image, which has `count` samples and is shared by `parts` blocks.
 * The result is the magnitude's bits, which are ordered like magnitudes. `not_finite` becomes 1 if one is not finite. */
static __global__ void __launch_bounds__(256)
    find_maxima(const float *in, int64_t count, int32_t parts, uint32_t *maxima, uint32_t *not_finite) {
#ifdef HOPPER
  admit_kernel_behind();
#endif
  const int32_t number = (int32_t)blockIdx.x / parts;
  const float *image = in + number * count;
  const int64_t aligned = ((uintptr_t)image & 15) == 0 ? count / 4 : 0;
  uint32_t most = 0, all = 0;
  const auto see = [&](uint32_t bits) {
    bits &= 0x7fffffff;
    all = max(all, bits);
    most = max(most, bits < NOT_FINITE ? bits : 0);
  };
  const int64_t step = (int64_t)parts * 256, thread = (int64_t)(blockIdx.x - number * parts) * 256 + threadIdx.x;
  UNROLLED_4_FOR (int64_t i = thread; i < aligned; i += step) {
    const uint4 v = __ldg((const uint4 *)image + i);
    see(v.x), see(v.y), see(v.z), see(v.w);
  }
  for (int64_t i = aligned * 4 + thread; i < count; i += step)
    see(__float_as_uint(__ldg(image + i)));
  for (int lane = 16; lane > 0; lane /= 2)
    most = max(most, __shfl_xor_sync(UINT32_MAX, most, lane));
  if (threadIdx.x % 32 == 0)
    atomicMax(maxima + number, most);
  if (all >= NOT_FINITE)
    *not_finite = 1;
}

/* ---- Packing planes ---- */

/* Returns the numbers of a unit of plane (`unit`, `phase`, `variant`) at a position; 0 where there is no input. */
template <class E>
DEVICE void load_unit(const arguments &a, const place &at, int32_t group, int32_t unit, int32_t phase, int32_t variant,
                      float (&v)[E::U]) {
  const gconv_layer_problem &p = a.problem;
  const bool wide = a.c.how == WIDE;
  const int32_t channel = unit * (wide ? E::U : 1), left = a.c.channels - channel;
  const int32_t row = at.row * p.stride_y - p.pad_top + phase * p.dilation_y;
  const int32_t q = at.strip * a.c.strip + at.column * (a.c.how == BAND ? E::U : 1);
  const int32_t column = q * p.stride_x - p.pad_left + variant * p.dilation_x * (a.c.how == NARROW ? E::U : 1);
  const bool inside = at.image < p.images && (uint32_t)row < (uint32_t)p.height;
  const int64_t plane = (int64_t)p.height * p.width, step = wide ? plane : p.dilation_x;
  const float *from =
      a.in + ((int64_t)at.image * p.channels + group * a.c.channels + channel) * plane + (int64_t)row * p.width + column;
  if (!wide && inside && p.dilation_x == 1 && column >= 0 &&
      column + E::U <= p.width) { /* the usual case takes a third of the time */
    UNROLLED_FOR (int e = 0; e < E::U; e++)
      v[e] = __ldg(from + e);
    return;
  }
  if (wide && left >= E::U) { /* the usual case of WIDE */
    const bool there = inside && (uint32_t)column < (uint32_t)p.width;
    UNROLLED_FOR (int e = 0; e < E::U; e++)
      v[e] = there ? __ldg(from + e * plane) : 0.0f;
    return;
  }
  UNROLLED_FOR (int e = 0; e < E::U; e++, from += step) {
    const bool there =
        wide ? e < left && (uint32_t)column < (uint32_t)p.width : (uint32_t)(column + e * p.dilation_x) < (uint32_t)p.width;
    v[e] = inside && there ? __ldg(from) : 0.0f;
  }
}

template <class E, int D> DEVICE void store_unit(float (&v)[E::U], float scale, uint8_t *to, int64_t digit) {
  uint32_t high[4], low[4];
  if (E::SCALED)
    UNROLLED_FOR (int e = 0; e < E::U; e++)
      v[e] *= scale;
  E::template pack<D == 2>(v, high, low);
  *(uint4 *)to = make_uint4(high[0], high[1], high[2], high[3]);
  if (D == 2)
    *(uint4 *)(to + digit) = make_uint4(low[0], low[1], low[2], low[3]);
}

/* Packs all planes; a thread packs one unit. Blocks in y count groups, units, phases and variants. */
template <class E, int D> __global__ void __launch_bounds__(PACK_THREADS) pack_planes(const __grid_constant__ arguments a) {
#ifdef HOPPER
  admit_kernel_behind();
  await_kernel_before();
  const uint32_t position = blockIdx.x * PACK_THREADS + threadIdx.x;
  if (position >= a.c.positions)
    return;
  const int32_t plane = (int32_t)blockIdx.y, variant = plane % a.c.variants, phase = plane / a.c.variants % a.c.phases;
  const int32_t unit = plane / a.c.variants / a.c.phases % a.c.units, group = plane / a.c.variants / a.c.phases / a.c.units;
  const place at = place_of(a, position);
  float v[E::U];
  load_unit<E>(a, at, group, unit, phase, variant, v);
  if (!E::SCALED && a.not_finite)
    UNROLLED_FOR (int e = 0; e < E::U; e++)
      if ((__float_as_uint(v[e]) & 0x7fffffff) >= (sizeof(typename E::number) == 2 ? NOT_FINITE_BF16 : NOT_FINITE))
        *(uint32_t *)a.not_finite = 1;
  const float scale = E::SCALED && at.image < a.problem.images ? image_scale(a, at.image, group, 1) : 1.0f;
  store_unit<E, D>(v, scale, a.planes + (plane * a.c.positions + position) * UNIT, a.digit_bytes);
#endif
}

} // namespace tensor

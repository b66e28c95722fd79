/* SPDX-License-Identifier: MIT */
/*
 * Layers on Hopper's tensor cores: implicit GEMM without patches. tensor_cut.cuh says what units, planes, positions, chunks
 * and steps are.
 *
 * First, the input is laid out as planes of units, of 16-bit numbers or TF32, with zeros where there is no input
 * (lay_planes): what a tile meets, whatever the tap, is then one piece of each plane, and no patch is laid out but in
 * NARROW, by U / stride. A block of the multiplication has two warpgroups that multiply, and four warps that work for them:
 * two copy pieces of planes, a chunk at a time, and weights, steps of them, to rings in shared memory (cp.async.bulk), and
 * two find out where outputs are. An instruction (wgmma) multiplies 64 filters by 256 positions, 2 units deep, both operands
 * in shared memory, sums in registers. While one warpgroup stores what becomes of its sums, the other multiplies.
 *
 * With two digits, a float32 v is high + low, each rounded to the digit's precision u, so that |v - high - low| <= u^2 |v|;
 * of the four products that of the low digits is left out. Digits of float16 (u = 2^-11) have twice the rate of TF32's, but
 * a range of 2^-24 to 2^16: so images and filters are scaled by powers of two until their largest magnitude is in [2^14,
 * 2^15).
 */
#ifndef GCONV_CUDA_LAYER_TENSOR_CUH
#define GCONV_CUDA_LAYER_TENSOR_CUH

#include "conv/cuda_error.h"
#include "hopper.cuh"
#include "layer/activation.h"
#include "tensor_cut.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <stdlib.h>
#include <string.h>

#include <vector>

namespace tensor {

enum : int {
  GROUP = 128,
  THREADS = (CONSUMERS + 1) * GROUP,
  WARPS = THREADS / 32,
  LAYERS = 256 /* threads of a block that lays planes */
};

/* Where a product finds things: by value to the kernel. */
struct arguments {
  cut c;
  gconv_layer_problem problem;
  const float *in;
  uint8_t *planes; /* digits, groups, units, phases, variants, positions */
  float *out;
  const uint8_t *weights;     /* as prepare() laid them out */
  const uint32_t *steps;      /* of a chunk */
  const float *filter_scales; /* NULL without scaling */
  const uint32_t *maxima;     /* of each group of each image, as bits; NULL without scaling */
  const float *biases;
  float *partial; /* sums of each split, to be finished by finish_sums(); NULL:
                     `out` gets what becomes of them, if below 0 times `slope` */
  float slope;
  divisor pitch, rows, strips, segment_tiles, filter_tiles, groups, splits;
  int64_t digit_bytes; /* of all planes */
  bool alike;          /* the positions of a tile have one scale: they are of one image,
                          or there are no scales */
};

/* ---- Kinds of numbers ---- */

/* Splits v into two digits, packed; `low` only if asked for. */
struct fp16 {
  static constexpr int U = 8;
  static constexpr bool SCALED = true;
  typedef uint16_t number;
  template <bool LOW>
  __device__ static __forceinline__ void pack(const float (&v)[U], uint32_t (&high)[4], uint32_t (&low)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const __half2 h = __floats2half2_rn(v[2 * i], v[2 * i + 1]);
      high[i] = *(const uint32_t *)&h;
      if (LOW) {
        const float2 back = __half22float2(h);
        const __half2 l = __floats2half2_rn(v[2 * i] - back.x, v[2 * i + 1] - back.y);
        low[i] = *(const uint32_t *)&l;
      }
    }
  }
  static number round(float v, float *left) {
    const __half h = __float2half_rn(v);
    *left = v - __half2float(h);
    return __half_as_ushort(h);
  }
#ifdef HOPPER
  __device__ static __forceinline__ void multiply(float (&c)[128], uint64_t a, uint64_t b, uint32_t add) {
    hopper::multiply_fp16(c, a, b, add);
  }
#endif
};

struct bf16 {
  static constexpr int U = 8;
  static constexpr bool SCALED = false;
  typedef uint16_t number;
  template <bool LOW>
  __device__ static __forceinline__ void pack(const float (&v)[U], uint32_t (&high)[4], uint32_t (&)[4]) {
    static_assert(!LOW, "two digits of 8 bits are not enough");
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const __nv_bfloat162 h = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
      high[i] = *(const uint32_t *)&h;
    }
  }
  static number round(float v, float *left) {
    const __nv_bfloat16 h = __float2bfloat16_rn(v);
    *left = v - __bfloat162float(h);
    return __bfloat16_as_ushort(h);
  }
#ifdef HOPPER
  __device__ static __forceinline__ void multiply(float (&c)[128], uint64_t a, uint64_t b, uint32_t add) {
    hopper::multiply_bf16(c, a, b, add);
  }
#endif
};

struct tf32 {
  static constexpr int U = 4;
  static constexpr bool SCALED = false;
  typedef uint32_t number;
  __device__ static __forceinline__ uint32_t nearest(float v) {
    uint32_t bits = __float_as_uint(v);
#ifdef HOPPER
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
#endif
    return bits;
  }
  template <bool LOW>
  __device__ static __forceinline__ void pack(const float (&v)[U], uint32_t (&high)[4], uint32_t (&low)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      high[i] = nearest(v[i]);
      if (LOW)
        low[i] = nearest(v[i] - __uint_as_float(high[i]));
    }
  }
  static number round(float v, float *left) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000)
      bits = (bits + 0x1000) & ~0x1fffu;
    float h;
    memcpy(&h, &bits, sizeof h);
    *left = v - h;
    return bits;
  }
#ifdef HOPPER
  __device__ static __forceinline__ void multiply(float (&c)[128], uint64_t a, uint64_t b, uint32_t add) {
    hopper::multiply_tf32(c, a, b, add);
  }
#endif
};

/* The exponent by which what has the magnitude `bits` becomes one in [2^14, 2^15): so that its products are in range, and
 * low digits of what is 2^17 times smaller still have all their bits. */
__host__ __device__ inline int scale_exponent(uint32_t bits) {
  const int exponent = (int)(bits >> 23);
  return exponent == 255 ? 0 : exponent < 21 ? 120 : 14 + 127 - exponent;
}
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float((uint32_t)(exponent + 127) << 23);
}

/* ---- Shared memory ---- */

struct head {
  uint64_t slot_full[MOST_SLOTS], slot_empty[MOST_SLOTS];
  uint64_t full[CONSUMERS][MOST_BUFFERS], empty[CONSUMERS][MOST_BUFFERS];
  uint64_t found[CONSUMERS][2], used[CONSUMERS][2]; /* spots */
  uint64_t turn[CONSUMERS];
};
static_assert(sizeof(head) <= HEAD_BYTES, "");

/* Where the output of a position is; `room` is how many outputs it may store, from there on. */
struct spot {
  int64_t at;
  float scale;
  int32_t room;
};

struct memory {
  head *barriers;
  spot *spots;
  float *exchange;
  uint32_t *steps;
  uint8_t *slots, *planes;
};

__device__ __forceinline__ memory memory_of(const cut &c, uint8_t *base) {
  memory m;
  m.barriers = (head *)base;
  m.spots = (spot *)(base + HEAD_BYTES);
  m.exchange = (float *)(base + HEAD_BYTES + SPOT_BYTES);
  m.steps = (uint32_t *)(base + HEAD_BYTES + SPOT_BYTES + EXCHANGE_BYTES);
  m.slots = base + HEAD_BYTES + SPOT_BYTES + EXCHANGE_BYTES + (c.steps * 4 + 127) / 128 * 128;
  m.planes = m.slots + c.slots * c.slot_bytes;
  return m;
}

inline size_t shared_bytes(const cut &c) {
  return HEAD_BYTES + SPOT_BYTES + EXCHANGE_BYTES + (size_t)(c.steps * 4 + 127) / 128 * 128 +
         (size_t)c.slots * c.slot_bytes + (size_t)c.buffers * c.sets * c.digits * c.plane_bytes + 128 + SLACK_BYTES;
}

/* A place in a ring, and the parity of the round. */
struct ring {
  uint32_t place = 0, parity = 0;
  __device__ __forceinline__ void advance(uint32_t size) {
    if (++place == size)
      place = 0, parity ^= 1;
  }
};

/* ---- Work ---- */

struct item {
  int64_t tile; /* of positions, of the block's first warpgroup */
  int32_t filter_tile, group, split, first_chunk, end_chunk;
};

__device__ __forceinline__ item item_of(const arguments &a, uint32_t number) {
  item it;
  uint32_t rest = a.filter_tiles.divide(number);
  it.filter_tile = (int32_t)(number - rest * a.filter_tiles.by) * (CONSUMERS / a.c.sets);
  number = a.groups.divide(rest);
  it.group = (int32_t)(rest - number * a.groups.by);
  rest = a.splits.divide(number);
  it.split = (int32_t)(number - rest * a.splits.by);
  it.tile = (int64_t)rest * a.c.sets;
  it.first_chunk = it.split * a.c.split_chunks;
  it.end_chunk = min(it.first_chunk + a.c.split_chunks, a.c.chunks);
  return it;
}

/* Where a position is: the strip of the image, row and column in it; behind the last image, `image` is not one. */
struct place {
  int32_t image, strip, row, column;
};

__device__ __forceinline__ place place_of(const arguments &a, uint32_t position) {
  const uint32_t row = a.pitch.divide(position), strip = a.rows.divide(row);
  place at;
  at.column = (int32_t)(position - row * a.pitch.by);
  at.row = (int32_t)(row - strip * a.rows.by);
  at.image = (int32_t)a.strips.divide(strip);
  at.strip = (int32_t)(strip - at.image * a.strips.by);
  return at;
}

/* The first position of a tile. */
__device__ __forceinline__ uint32_t position_of(const arguments &a, int64_t tile) {
  const uint32_t segment = a.segment_tiles.divide((uint32_t)tile);
  return segment * (uint32_t)a.c.segment_positions + ((uint32_t)tile - segment * a.segment_tiles.by) * POSITIONS;
}

/* Behind the last position that a tile may store: its own segment's. What it reaches of the next one is stored by that one's
 * first tile, with the scale of that image. */
__device__ __forceinline__ uint32_t end_of(const arguments &a, int64_t tile) {
  return a.c.segments > 1 ? (a.segment_tiles.divide((uint32_t)tile) + 1) * (uint32_t)a.c.segment_positions : UINT32_MAX;
}

__device__ __forceinline__ float image_scale(const arguments &a, int32_t image, int32_t group, int sign) {
  return power_of_two(sign * scale_exponent(__ldg(a.maxima + (int64_t)image * a.c.groups + group)));
}

/* ---- Laying planes ---- */

/* The numbers of a unit of plane (`unit`, `phase`, `variant`) at a position; 0 where there is no input. */
template <class E>
__device__ __forceinline__ void load_unit(const arguments &a, const place &at, int32_t group, int32_t unit, int32_t phase,
                                          int32_t variant, float (&v)[E::U]) {
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
#pragma unroll
  for (int e = 0; e < E::U; e++, from += step) {
    const bool there =
        wide ? e < left && (uint32_t)column < (uint32_t)p.width : (uint32_t)(column + e * p.dilation_x) < (uint32_t)p.width;
    v[e] = inside && there ? __ldg(from) : 0.0f;
  }
}

template <class E, int D>
__device__ __forceinline__ void store_unit(float (&v)[E::U], float scale, uint8_t *to, int64_t digit) {
  uint32_t high[4], low[4];
  if (E::SCALED)
#pragma unroll
    for (int e = 0; e < E::U; e++)
      v[e] *= scale;
  E::template pack<D == 2>(v, high, low);
  *(uint4 *)to = make_uint4(high[0], high[1], high[2], high[3]);
  if (D == 2)
    *(uint4 *)(to + digit) = make_uint4(low[0], low[1], low[2], low[3]);
}

/* All planes: a thread a unit. Blocks in y go over groups, units, phases and variants. */
template <class E, int D> __global__ void __launch_bounds__(LAYERS) lay_planes(const __grid_constant__ arguments a) {
  const uint32_t position = blockIdx.x * LAYERS + threadIdx.x;
  if (position >= a.c.positions)
    return;
  const int32_t plane = (int32_t)blockIdx.y, variant = plane % a.c.variants, phase = plane / a.c.variants % a.c.phases;
  const int32_t unit = plane / a.c.variants / a.c.phases % a.c.units, group = plane / a.c.variants / a.c.phases / a.c.units;
  const place at = place_of(a, position);
  float v[E::U];
  load_unit<E>(a, at, group, unit, phase, variant, v);
  const float scale = E::SCALED && at.image < a.problem.images ? image_scale(a, at.image, group, 1) : 1.0f;
  store_unit<E, D>(v, scale, a.planes + (plane * a.c.positions + position) * UNIT, a.digit_bytes);
}

#ifdef HOPPER
using namespace hopper;

/* ---- Copying to shared memory ---- */

/* One thread. */
__device__ __forceinline__ void copy_weights(const arguments &a, const memory &m) {
  const cut &c = a.c;
  const int32_t sides = CONSUMERS / c.sets, bytes = c.slot_bytes / sides;
  ring slot;
  for (uint32_t number = blockIdx.x; number < c.items; number += gridDim.x) {
    const item it = item_of(a, number);
    for (int32_t step = it.first_chunk * c.steps; step < it.end_chunk * c.steps; step++) {
      barrier_wait(&m.barriers->slot_empty[slot.place], slot.parity ^ 1);
      barrier_expect(&m.barriers->slot_full[slot.place], (uint32_t)c.slot_bytes);
      for (int32_t side = 0; side < sides; side++) {
        const int64_t tile = (int64_t)it.group * c.filter_tiles + it.filter_tile + side;
        bulk_copy(m.slots + slot.place * c.slot_bytes + side * bytes, a.weights + (tile * c.chunks * c.steps + step) * bytes,
                  (uint32_t)bytes, &m.barriers->slot_full[slot.place]);
      }
      slot.advance(c.slots);
    }
    if (c.resident)
      return;
  }
}

/* The pieces of planes that a tile meets in a chunk. */
__device__ __forceinline__ void copy_chunk(const arguments &a, const item &it, int64_t tile, int32_t chunk, uint8_t *to,
                                           uint64_t *full) {
  const cut &c = a.c;
  const int32_t channels = chunk / c.row_chunks, first_row = (chunk - channels * c.row_chunks) * c.chunk_rows;
  const int64_t first = tile < c.tiles ? position_of(a, tile) : 0;
  const uint32_t bytes = (uint32_t)c.length * UNIT;
  barrier_expect(full, bytes * c.planes * c.digits);
  for (int32_t unit = 0; unit < c.chunk_units; unit++)
    for (int32_t phase = 0; phase < c.phases_y; phase++)
      for (int32_t variant = 0; variant < c.variants; variant++, to += bytes) {
        const int32_t row = min(first_row + phase, a.problem.rows - 1), down = row / c.period_y * c.step_y;
        const int32_t channel = it.group * c.units + min(channels * c.chunk_units + unit, c.units - 1);
        const int64_t plane = ((int64_t)channel * c.phases + row % c.period_y) * c.variants + variant;
        const uint8_t *from = a.planes + (plane * c.positions + first + down * c.pitch) * UNIT;
        for (int32_t digit = 0; digit < c.digits; digit++)
          bulk_copy(to + digit * c.plane_bytes, from + digit * a.digit_bytes, bytes, full);
      }
}

/* One thread. */
__device__ __forceinline__ void copy_planes(const arguments &a, const memory &m) {
  const cut &c = a.c;
  ring buffer;
  for (uint32_t number = blockIdx.x; number < c.items; number += gridDim.x) {
    const item it = item_of(a, number);
    for (int32_t chunk = it.first_chunk; chunk < it.end_chunk; chunk++) {
      for (int32_t set = 0; set < c.sets; set++) {
        barrier_wait(&m.barriers->empty[set][buffer.place], buffer.parity ^ 1);
        copy_chunk(a, it, it.tile + set, chunk, m.planes + (buffer.place * c.sets + set) * c.digits * c.plane_bytes,
                   &m.barriers->full[set][buffer.place]);
      }
      buffer.advance(c.buffers);
    }
  }
}

/* ---- Multiplying ---- */

/* The descriptor of an operand of 2 units by rows 16 bytes apart: address, distance of the units, of 8 rows; in 16 bytes. */
__device__ __forceinline__ uint64_t describe(uint32_t address, uint32_t units_apart) {
  return (uint64_t)(address >> 4) | (uint64_t)units_apart << 16 | (uint64_t)(8 * UNIT >> 4) << 32;
}

struct rings {
  ring buffer, slot;
};

/* Adds up an item. Slots and buffers are given back when the instructions that read them are over, a step later. */
template <class E, int D>
__device__ __forceinline__ void multiply(const arguments &a, const memory &m, const item &it, int32_t consumer, rings &r,
                                         float (&sums)[128]) {
  const cut &c = a.c;
  const int32_t set = c.sets == 2 ? consumer : 0, side = c.sets == 2 ? 0 : consumer;
  const bool leader = threadIdx.x % 32 == 0;
  constexpr uint32_t DIGIT = TILE_UNITS * ROWS * UNIT;
  uint64_t *slot_done = nullptr, *buffer_done = nullptr;
  uint32_t add = 0;
  if (c.resident)
    r.slot = ring();
  for (int32_t chunk = it.first_chunk; chunk < it.end_chunk; chunk++) {
    const uint32_t planes = shared_address(m.planes + (r.buffer.place * c.sets + set) * D * c.plane_bytes);
    barrier_wait(&m.barriers->full[set][r.buffer.place], r.buffer.parity);
    for (int32_t step = 0; step < c.steps; step++) {
      const uint32_t entry = m.steps[step];
      const uint32_t weights = shared_address(m.slots + r.slot.place * c.slot_bytes + side * D * DIGIT);
      const uint64_t filters = describe(weights, ROWS * UNIT >> 4);
      const uint64_t units = describe(planes + (entry & 0xffff) * UNIT, entry >> 16);
      barrier_wait(&m.barriers->slot_full[r.slot.place], r.slot.parity);
      multiply_begin();
      if (D == 2) {
        E::multiply(sums, filters + (DIGIT >> 4), units, add);
        E::multiply(sums, filters, units + (uint32_t)(c.plane_bytes >> 4), 1);
        add = 1;
      }
      E::multiply(sums, filters, units, add);
      add = 1;
      multiply_commit();
      multiply_wait<1>();
      if (leader && slot_done)
        barrier_arrive(slot_done);
      if (leader && buffer_done)
        barrier_arrive(buffer_done);
      slot_done = c.resident ? nullptr : &m.barriers->slot_empty[r.slot.place];
      buffer_done = nullptr;
      r.slot.advance(c.slots);
    }
    buffer_done = &m.barriers->empty[set][r.buffer.place];
    r.buffer.advance(c.buffers);
  }
  multiply_wait<0>();
  if (leader && slot_done)
    barrier_arrive(slot_done);
  if (leader)
    barrier_arrive(buffer_done);
}
#endif

/* ---- Storing ---- */

/* Of the positions of a tile, by a warp. */
__device__ __forceinline__ void find_spots(const arguments &a, const item &it, int64_t tile, spot *spots) {
  const cut &c = a.c;
  const gconv_layer_problem &p = a.problem;
  const uint32_t first = position_of(a, tile), end = tile < c.tiles ? end_of(a, tile) : 0;
  const int32_t wide = c.how == BAND ? c.unit : 1;
#pragma unroll 4
  for (int32_t i = threadIdx.x % 32; i < POSITIONS; i += 32) {
    const place at = place_of(a, first + i);
    const int32_t q = at.strip * c.strip + at.column * wide;
    spot s = {0, 1.0f, 0};
    if (a.maxima && at.image < p.images)
      s.scale = image_scale(a, at.image, it.group, -1);
    if (first + i < end && at.image < p.images && at.row < p.out_height && at.column < c.columns && q < p.out_width) {
      s.at = ((int64_t)at.image * p.filters * p.out_height + at.row) * p.out_width + q;
      s.room = min(wide, p.out_width - q);
    }
    spots[i] = s;
  }
}

/* What becomes of the sums of a row: times `scale` (and that of the image), plus `bias`. */
struct finish {
  float scale, bias;
};

__device__ __forceinline__ finish finish_of(const arguments &a, const item &it, int32_t row) {
  const int32_t in_group = row / (a.c.how == BAND ? a.c.unit : 1);
  const int32_t filter = it.group * a.c.filters + min(in_group, a.c.filters - 1);
  return {a.filter_scales ? __ldg(a.filter_scales + filter) : 1.0f, a.partial ? 0.0f : __ldg(a.biases + filter)};
}

__device__ __forceinline__ float finished(float sum, const finish &f, float scale, float slope) {
  const float y = sum * f.scale * scale + f.bias;
  return y < 0 ? y * slope : y;
}

/* Floats between rows of 32 positions: so that neither way of reading or writing them meets a bank twice (W 1), or reading
 * does not (more). */
template <int W> __host__ __device__ constexpr int pitch_of() {
  return W == 1 ? 40 : 36;
}

/* 16 rows of 32 positions, `values`, by a warp: neighbouring outputs by neighbouring lanes. W: outputs of a position. ALL:
 * the rows are of filters that are there. */
template <int W, bool ALL>
__device__ __forceinline__ void store_rows(float *out, int64_t plane, int32_t filters, const spot *spots,
                                           const float *values) {
  const int32_t lane = threadIdx.x % 32, shift = lane % W;
  values += shift * pitch_of<W>() + lane / W;
#pragma unroll
  for (int i = 0; i < W; i++) {
    const spot s = spots[i * (32 / W) + lane / W];
    float *to = out + s.at + shift;
    float y[16 / W];
#pragma unroll
    for (int k = 0; k < 16 / W; k++)
      y[k] = values[k * W * pitch_of<W>() + i * (32 / W)];
    if (shift < s.room)
#pragma unroll
      for (int k = 0; k < 16 / W; k++, to += plane)
        if (ALL || k < filters)
          __stcs(to, y[k]);
  }
}

/* The sums of a warpgroup, which hopper.cuh lays out, finished, through shared memory, 32 positions at a time. */
template <int W>
__device__ __forceinline__ void store(const arguments &a, const item &it, int32_t filter_tile, const spot *spots,
                                      const finish (&f)[2], float *exchange, const float (&sums)[128]) {
  const int32_t lane = threadIdx.x % 32, row = filter_tile * ROWS + threadIdx.x % GROUP / 32 * 16;
  const int64_t plane = (int64_t)a.problem.out_height * a.problem.out_width;
  float *out = a.partial ? a.partial + it.split * plane * a.problem.filters * a.problem.images : a.out;
  out += (it.group * a.c.filters + row / W) * plane;
  float *to = exchange + lane / 4 * pitch_of<W>() + lane % 4 * 2;
  const float alike = spots[0].scale;
#pragma unroll
  for (int part = 0; part < POSITIONS / 32; part++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int i = part * 16 + j * 4, position = part * 32 + j * 8 + lane % 4 * 2;
      const float left = a.alike ? alike : spots[position].scale, right = a.alike ? alike : spots[position + 1].scale;
      *(float2 *)(to + 8 * j) =
          make_float2(finished(sums[i], f[0], left, a.slope), finished(sums[i + 1], f[0], right, a.slope));
      *(float2 *)(to + 8 * j + 8 * pitch_of<W>()) =
          make_float2(finished(sums[i + 2], f[1], left, a.slope), finished(sums[i + 3], f[1], right, a.slope));
    }
    __syncwarp();
    if (a.c.filters - row / W >= 16 / W)
      store_rows<W, true>(out, plane, 0, spots + part * 32, exchange);
    else
      store_rows<W, false>(out, plane, a.c.filters - row / W, spots + part * 32, exchange);
    __syncwarp();
  }
}

/* ---- Kernels ---- */

#ifdef HOPPER
/* A warp, for one of the warpgroups that multiply. */
__device__ __forceinline__ void find_all_spots(const arguments &a, const memory &m, int32_t consumer) {
  ring r;
  for (uint32_t number = blockIdx.x; number < a.c.items; number += gridDim.x) {
    const item it = item_of(a, number);
    barrier_wait(&m.barriers->used[consumer][r.place], r.parity ^ 1);
    find_spots(a, it, it.tile + (a.c.sets == 2 ? consumer : 0), m.spots + (consumer * 2 + r.place) * POSITIONS);
    barrier_arrive(&m.barriers->found[consumer][r.place]);
    r.advance(2);
  }
}

__device__ __forceinline__ void begin(const arguments &a, const memory &m) {
  const uint32_t readers = 4 * CONSUMERS;
  for (int32_t i = threadIdx.x; i < a.c.steps; i += THREADS)
    m.steps[i] = a.steps[i];
  if (threadIdx.x == 0) {
    for (int i = 0; i < a.c.slots; i++) {
      barrier_init(&m.barriers->slot_full[i], 1);
      barrier_init(&m.barriers->slot_empty[i], readers);
    }
    for (int set = 0; set < a.c.sets; set++)
      for (int i = 0; i < a.c.buffers; i++) {
        barrier_init(&m.barriers->full[set][i], 1);
        barrier_init(&m.barriers->empty[set][i], readers / a.c.sets);
      }
    for (int i = 0; i < CONSUMERS; i++)
      barrier_init(&m.barriers->turn[i], 4);
    for (int i = 0; i < 2 * CONSUMERS; i++) {
      barrier_init(&m.barriers->found[i / 2][i % 2], 32);
      barrier_init(&m.barriers->used[i / 2][i % 2], GROUP);
    }
    barrier_init_done();
  }
  __syncthreads();
}
#endif

template <class E, int D> __global__ void __launch_bounds__(THREADS, 1) multiply_layer(const __grid_constant__ arguments a) {
#ifdef HOPPER
  extern __shared__ uint8_t shared[];
  const memory m = memory_of(a.c, shared + (128 - shared_address(shared) % 128) % 128);
  begin(a, m);
  const int32_t consumer = threadIdx.x / GROUP, warp = threadIdx.x / 32;
  if (consumer == CONSUMERS) {
    registers_down<40>();
    if (warp >= WARPS - CONSUMERS)
      find_all_spots(a, m, WARPS - 1 - warp);
    else if (threadIdx.x % 32 == 0 && warp == CONSUMERS * GROUP / 32)
      copy_weights(a, m);
    else if (threadIdx.x % 32 == 0)
      copy_planes(a, m);
    return;
  }
  registers_up<232>();
  rings r;
  ring turn;
  uint32_t round = 0;
  float *exchange = m.exchange + warp * 16 * pitch_of<1>();
  for (uint32_t number = blockIdx.x; number < a.c.items; number += gridDim.x) {
    const item it = item_of(a, number);
    const int32_t filter_tile = it.filter_tile + (a.c.sets == 2 ? 0 : consumer);
    const int32_t row = filter_tile * ROWS + warp % 4 * 16 + threadIdx.x % 32 / 4;
    const finish f[2] = {finish_of(a, it, row), finish_of(a, it, row + 8)};
    const spot *spots = m.spots + (consumer * 2 + turn.place) * POSITIONS;
    float sums[128];
    if (a.c.alternate) /* the first one begins */
      barrier_wait(&m.barriers->turn[consumer], round ^ (consumer == 0));
    multiply<E, D>(a, m, it, consumer, r, sums);
    if (a.c.alternate && threadIdx.x % 32 == 0)
      barrier_arrive(&m.barriers->turn[1 - consumer]);
    round ^= 1;
    barrier_wait(&m.barriers->found[consumer][turn.place], turn.parity);
    if (a.c.how == BAND)
      store<E::U>(a, it, filter_tile, spots, f, exchange, sums);
    else
      store<1>(a, it, filter_tile, spots, f, exchange, sums);
    barrier_arrive(&m.barriers->used[consumer][turn.place]);
    turn.advance(2);
  }
#endif
}

/* The largest magnitude of each image and group, `count` samples, by `parts` blocks, as bits, which order as the
 * magnitudes do. */
static __global__ void __launch_bounds__(256) find_maxima(const float *in, int64_t count, int32_t parts, uint32_t *maxima) {
  const int32_t number = (int32_t)blockIdx.x / parts;
  const float *image = in + number * count;
  const int64_t aligned = ((uintptr_t)image & 15) == 0 ? count / 4 : 0;
  uint32_t most = 0;
  const int64_t step = (int64_t)parts * 256, thread = (int64_t)(blockIdx.x - number * parts) * 256 + threadIdx.x;
#pragma unroll 4
  for (int64_t i = thread; i < aligned; i += step) {
    const uint4 v = __ldg((const uint4 *)image + i);
    most = max(max(most, max(v.x & 0x7fffffff, v.y & 0x7fffffff)), max(v.z & 0x7fffffff, v.w & 0x7fffffff));
  }
  for (int64_t i = aligned * 4 + thread; i < count; i += step)
    most = max(most, __float_as_uint(__ldg(image + i)) & 0x7fffffff);
  for (int lane = 16; lane > 0; lane /= 2)
    most = max(most, __shfl_xor_sync(0xffffffff, most, lane));
  if (threadIdx.x % 32 == 0)
    atomicMax(maxima + number, most);
}

/* Adds the splits in their order. */
static __global__ void __launch_bounds__(256)
    finish_sums(const __grid_constant__ arguments a, int64_t plane, int64_t count) {
  for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < count; i += (int64_t)gridDim.x * 256) {
    float sum = 0;
    for (int32_t split = 0; split < a.c.splits; split++)
      sum += a.partial[split * count + i];
    a.out[i] = gconv_activate(&a.problem, sum + a.biases[i / plane % a.problem.filters]);
  }
}

/* ---- Host ---- */

inline int64_t weight_bytes(const cut &c) {
  return (int64_t)c.groups * c.filter_tiles * c.chunks * c.steps * c.digits * TILE_UNITS * ROWS * UNIT;
}
/* The tap of filter row `row` (a virtual one in BAND) that meets number e of a unit; 0 where there is none. */
inline float weight_at(const cut &c, const gconv_layer_problem *p, const float *weights, int32_t group, int32_t row,
                       int32_t chunk, const tap &t, int32_t e) {
  const int32_t wide = c.how == BAND ? c.unit : 1, filter = row / wide;
  const int32_t unit = chunk / c.row_chunks * c.chunk_units + t.unit;
  const int32_t channel = c.how == WIDE ? unit * c.unit + e : unit, r = chunk % c.row_chunks * c.chunk_rows + t.row;
  const int32_t s = c.how == WIDE ? t.part : c.how == NARROW ? t.part * c.unit + e : t.part * c.unit + e - row % wide;
  if (filter >= c.filters || channel >= c.channels || r >= p->rows || s < 0 || s >= p->columns)
    return 0;
  const int64_t k = (int64_t)group * c.filters + filter;
  return weights[((k * c.channels + channel) * p->rows + r) * p->columns + s];
}

inline int filter_exponent(const gconv_layer_problem *p, const float *weights, int64_t k) {
  const int64_t taps = gconv_layer_taps(p);
  uint32_t most = 0;
  for (int64_t i = 0; i < taps; i++) {
    uint32_t bits;
    memcpy(&bits, &weights[k * taps + i], sizeof bits);
    most = std::max(most, bits & 0x7fffffff);
  }
  return scale_exponent(most);
}

inline void dismiss(void *state) {
  free(state);
}

/* NULL on a Hopper GPU. */
inline const char *available() {
  int device = 0, major = 0;
  const bool known = cudaGetDevice(&device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  return known && major == 9 ? NULL : "it is made for GPUs of compute capability 9.0 (Hopper)";
}

/* What a row of algorithms.def is made of: numbers of kind E, D digits each. */
template <class E, int D> struct product {
  /* Behind the weights: 1 / scale of each filter, then the steps. */
  static size_t prepared_floats(const gconv_layer_problem *p) {
    const cut c = cut_problem(p, E::U, D);
    return (size_t)weight_bytes(c) / 4 + (size_t)p->filters + (size_t)c.steps;
  }

  static gconv_status prepare(const gconv_layer_problem *p, const float *weights, float *prepared) {
    const cut c = cut_problem(p, E::U, D);
    std::vector<tap> taps(c.steps * TILE_UNITS);
    std::vector<int> exponents(p->filters, 0);
    list_taps(c, taps.data());
    if (c.taps %
        TILE_UNITS) { /* the last one's partner is the one before it, or itself, in a row behind the filter: zeros */
      taps[c.taps] = taps[c.taps - 1];
      taps[c.taps - 1] = taps[std::max(c.taps - 2, 0)];
      taps[c.taps - 1].row = p->rows;
    }
    float *scales = prepared + weight_bytes(c) / 4;
    for (int32_t k = 0; k < p->filters; k++) {
      exponents[k] = E::SCALED ? filter_exponent(p, weights, k) : 0;
      scales[k] = ldexpf(1, -exponents[k]);
    }
    for (int32_t i = 0; i < c.steps; i++) {
      const uint32_t entry = (uint32_t)taps[2 * i].at | (uint32_t)(taps[2 * i + 1].at - taps[2 * i].at) << 16;
      memcpy(scales + p->filters + i, &entry, sizeof entry);
    }
    typename E::number *to = (typename E::number *)prepared;
    const int32_t wide = c.how == BAND ? c.unit : 1;
    for (int32_t tile = 0; tile < c.groups * c.filter_tiles; tile++)
      for (int32_t step = 0; step < c.chunks * c.steps; step++, to += D * TILE_UNITS * ROWS * E::U)
        for (int32_t i = 0; i < TILE_UNITS * ROWS * E::U; i++) {
          const int32_t e = i % E::U, row = tile % c.filter_tiles * ROWS + i / E::U % ROWS, group = tile / c.filter_tiles;
          const tap &t = taps[step % c.steps * TILE_UNITS + i / E::U / ROWS];
          float w = weight_at(c, p, weights, group, row, step / c.steps, t, e);
          if (E::SCALED && row / wide < c.filters)
            w = ldexpf(w, exponents[group * c.filters + row / wide]);
          to[i] = E::round(w, &w);
          if (D == 2)
            to[i + TILE_UNITS * ROWS * E::U] = E::round(w, &w);
        }
    return GCONV_OK;
  }

  static size_t workspace_bytes(const gconv_layer_problem *p) {
    const cut c = cut_problem(p, E::U, D);
    return scale_bytes(p) + laid_bytes(c) + partial_bytes(c, p);
  }

  static gconv_status acquire(const gconv_layer_execution *e, void **state) {
    int device = 0, major = 0;
    CUDA_TRY(cudaGetDevice(&device));
    CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    if (major != 9)
      return gconv_fail(GCONV_UNSUPPORTED, "this algorithm is made for GPUs of compute capability 9.0");
    CUDA_TRY(cudaFuncSetAttribute(multiply_layer<E, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    cut *c = (cut *)malloc(sizeof(cut));
    if (!c)
      return gconv_fail(GCONV_NO_MEMORY, "out of memory");
    *c = cut_problem(e->problem, E::U, D);
    *state = c;
    return GCONV_OK;
  }

  static arguments arguments_of(const gconv_layer_execution *e, const cut &c) {
    arguments a = {};
    const gconv_layer_problem *p = e->problem;
    const float *prepared = gconv_layer_prepared(p, e->weights);
    a.c = c;
    a.problem = *p;
    a.in = e->in, a.out = e->out;
    a.weights = (const uint8_t *)prepared;
    a.steps = (const uint32_t *)(prepared + weight_bytes(c) / 4 + p->filters);
    a.filter_scales = E::SCALED ? prepared + weight_bytes(c) / 4 : NULL;
    a.maxima = E::SCALED ? (const uint32_t *)e->workspace : NULL;
    a.biases = gconv_layer_biases(p, e->weights);
    const bool curved = p->activation == GCONV_ACTIVATION_SIGMOID || p->activation == GCONV_ACTIVATION_TANH;
    a.planes = (uint8_t *)e->workspace + scale_bytes(p);
    a.digit_bytes = laid_bytes(c) / D;
    a.alike = !E::SCALED || c.segments > 1 || p->images == 1;
    a.partial = c.splits > 1 ? (float *)(a.planes + laid_bytes(c)) : curved ? e->out : NULL;
    a.slope = a.partial || p->activation == GCONV_ACTIVATION_NONE ? 1.0f
              : p->activation == GCONV_ACTIVATION_LEAKY           ? p->slope
                                                                  : 0.0f;
    a.pitch = divisor::of(c.pitch), a.rows = divisor::of(c.rows), a.strips = divisor::of(c.strips);
    a.segment_tiles = divisor::of(c.segment_tiles);
    a.filter_tiles = divisor::of(c.filter_tiles / (CONSUMERS / c.sets)), a.groups = divisor::of(c.groups);
    a.splits = divisor::of(c.splits);
    return a;
  }

  static gconv_status execute(const gconv_layer_execution *e) {
    const cut &c = *(const cut *)e->state;
    const gconv_layer_problem *p = e->problem;
    const arguments a = arguments_of(e, c);
    const cudaStream_t stream = (cudaStream_t)e->stream;
    int device = 0, processors = 1;
    CUDA_TRY(cudaGetDevice(&device));
    CUDA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    if (E::SCALED) {
      const int64_t count = (int64_t)c.channels * p->height * p->width, images = (int64_t)p->images * c.groups;
      const int64_t parts = std::clamp<int64_t>(8 * processors / images, 1, (count + 8191) / 8192);
      CUDA_TRY(cudaMemsetAsync(e->workspace, 0, (size_t)images * 4, stream));
      find_maxima<<<(unsigned)(parts * images), 256, 0, stream>>>(e->in, count, (int32_t)parts, (uint32_t *)e->workspace);
    }
    const int64_t planes = (int64_t)c.groups * c.units * c.phases * c.variants;
    const dim3 lay((unsigned)((c.positions + LAYERS - 1) / LAYERS), (unsigned)planes);
    lay_planes<E, D><<<lay, LAYERS, 0, stream>>>(a);
    /* Where weights stay in shared memory, a block must meet the same filters again. */
    const int64_t turn = (int64_t)a.filter_tiles.by * c.groups;
    int64_t grid = std::min<int64_t>(c.items, processors);
    if (c.resident && grid < c.items && grid % turn)
      grid = std::max(grid / turn, (int64_t)1) * turn;
    multiply_layer<E, D><<<(unsigned)grid, THREADS, shared_bytes(c), stream>>>(a);
    if (a.partial) {
      const int64_t plane = (int64_t)p->out_height * p->out_width, count = plane * p->filters * p->images;
      finish_sums<<<(unsigned)std::min<int64_t>((count + 255) / 256, 16 * processors), 256, 0, stream>>>(a, plane, count);
    }
    CUDA_TRY(cudaPeekAtLastError());
    return GCONV_OK;
  }

  static const char *supports(const gconv_layer_problem *p) {
    const cut c = cut_problem(p, E::U, D);
    if ((int64_t)c.groups * c.units * c.phases * c.variants > 65535)
      return "more than 65535 planes of channels";
    return c.cycles < HUGE_VAL ? NULL : "filters or images too large for a tile";
  }

  static double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
    /* On 15 layers, an H200 took 1.35 times what their cuts count, which is exact in comparing cuts only. */
    const double ms = 1.35 * cut_problem(p, E::U, D).cycles * (double)PROCESSORS / machine->units / CYCLES_PER_MS;
    const double in = 4.0 * p->images * p->channels * p->height * p->width;
    return ms + machine->launch_ms + (E::SCALED ? in / machine->bytes_per_ms + 2 * machine->launch_ms : 0);
  }

  /* Each number is rounded to D digits of precision u = 2^-11 (bf16: 2^-8), and of D = 2 the product of the low ones is
   * left out. An instruction adds up exact products and the sum so far, aligned to the largest, and cuts off what is below
   * some 2^-24 of it; measured on an H200, with positive products throughout, 2^-24.5 of the sum are lost an instruction:
   * taken as 2^-22. */
  static double error_bound(const gconv_layer_problem *p) {
    const cut c = cut_problem(p, E::U, D);
    const double u = sizeof(typename E::number) == 2 && !E::SCALED ? 0x1p-8 : 0x1p-11;
    const double digits = D == 2 ? 3.1 * u * u : 2.1 * u, instructions = (double)c.chunks * c.steps * (D == 2 ? 3 : 1);
    return digits + (instructions + c.splits + 4) * 0x1p-22;
  }
};

} // namespace tensor

#endif

/* SPDX-License-Identifier: MIT */
/* What the kernels of a layer on tensor cores (tensor.cuh) share: numbers, arguments, the layout of shared memory, and the
 * division of work into items and positions. */
#pragma once

#include "kernels/scale.h"
#include "ring.cuh"
#include "tensor_cut.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <float.h>
#include <string.h>

namespace tensor {

using namespace hopper;

/* ---- The numbers that tensor cores multiply, and how a float32 becomes digits of them ---- */

/* Multiplies a step, with both operands in shared memory (instructions.cuh). */
typedef void multiplication(float (&sums)[128], uint64_t a, uint64_t b, uint32_t add);

/* Rounds two floats to a pair of 16-bit numbers, and returns these as floats. */
GCONV_BOTH float2 round_pair(float a, float b, __half2 *to) {
  return __half22float2(*to = __floats2half2_rn(a, b));
}
GCONV_BOTH float2 round_pair(float a, float b, __nv_bfloat162 *to) {
  return __bfloat1622float2(*to = __floats2bfloat162_rn(a, b));
}

template <class PAIR> struct sixteen_bits {
  static constexpr int U = 8;
  typedef uint16_t number;
  /* Splits v into two digits, packed. Writes `low` only if LOW. */
  template <bool LOW> DEVICE static void pack(const float (&v)[U], uint32_t (&high)[4], uint32_t (&low)[4]) {
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      const float2 back = round_pair(v[2 * i], v[2 * i + 1], (PAIR *)&high[i]);
      if (LOW)
        round_pair(v[2 * i] - back.x, v[2 * i + 1] - back.y, (PAIR *)&low[i]);
    }
  }
  GCONV_BOTH number round(float v, float *left) {
    PAIR pair;
    *left = v - round_pair(v, 0, &pair).x;
    number bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
  }
};

struct fp16 : sixteen_bits<__half2> {
  static constexpr bool SCALED = true;
  static constexpr multiplication *multiply = multiply_fp16;
};

struct bf16 : sixteen_bits<__nv_bfloat162> { /* two digits are not enough */
  static constexpr bool SCALED = false;
  static constexpr multiplication *multiply = multiply_bf16;
};

struct tf32 { /* one digit, so the remainder is not needed */
  static constexpr int U = 4;
  static constexpr bool SCALED = false;
  typedef uint32_t number;
  template <bool> DEVICE static void pack(const float (&v)[U], uint32_t (&high)[4], uint32_t (&)[4]) {
    UNROLLED_FOR (int i = 0; i < 4; i++)
      asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high[i]) : "f"(v[i]));
  }
  GCONV_BOTH number round(float v, float *) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000)
      bits = (bits + 0x1000) & ~0x1fffu;
    return bits;
  }
  static constexpr multiplication *multiply = multiply_tf32;
};

DEVICE float power_of_two(int exponent) {
  return __uint_as_float((uint32_t)(exponent + 127) << 23);
}

/* Returns the number of this thread. It is read again at each call. Otherwise everything that depends on it would stay in
 * registers, of which weights and sums leave few. */
DEVICE int32_t thread_now() {
  int32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

enum : int {
  GROUP = 128,
  THREADS = (CONSUMERS + 1) * GROUP,
  WARPS = THREADS / 32,
  POINT_THREADS = (CONSUMERS + 2) * GROUP, /* threads of a block for filters of 1 x 1, in tensor_points.cuh */
  PACK_THREADS = 256                       /* threads of a block that packs planes */
};

/* An activation made of two straight lines: values below 0 become at least `lowest`, and are then multiplied by `slope`. For
 * relu, `lowest` is not -infinity, because -infinity * 0 would be NaN. */
struct straight {
  float slope, lowest;
  DEVICE float operator()(float y) const {
    return y < 0 ? fmaxf(y, lowest) * slope : y;
  }
};

/* Returns whether an activation is curved. finish_sums() applies such activations to stored sums, gather.cuh earlier. */
inline bool is_curved(const gconv_layer_problem *p) {
  return p->activation == GCONV_ACTIVATION_SIGMOID || p->activation == GCONV_ACTIVATION_TANH;
}
/* Returns the activation's two lines, or the identity if another kernel applies the activation `later`. */
inline straight straight_of(const gconv_layer_problem *p, bool later) {
  const bool relu = p->activation == GCONV_ACTIVATION_RELU && !later;
  return {relu ? 0 : p->activation == GCONV_ACTIVATION_LEAKY && !later ? p->slope : 1, relu ? -FLT_MAX : -HUGE_VALF};
}

/* The arguments of a product, passed by value to the kernel. */
struct arguments {
  cut c;
  gconv_layer_problem problem;
  const float *in;
  uint8_t *planes; /* digits, groups, units, phases, variants, positions */
  float *out;
  const uint8_t *weights;     /* in the order of prepare() */
  const uint32_t *steps;      /* an entry for each step of a chunk (multiply_step()) */
  const float *filter_scales; /* 1 / scale of each filter; NULL without scaling */
  const uint32_t *maxima;     /* largest magnitude of each group of each image, as bits; NULL without scales of images */
  const float *biases, *plain_weights; /* as the user gave them */
  const uint32_t *not_finite;          /* not 0 if a sample is not finite; NULL where that makes no difference */
  float *partial;      /* for finish_sums(): the sums of each split, or `out` if the activation is curved; or NULL */
  int32_t parts;       /* how many sums finish_sums() adds */
  float4 *halves;      /* joined splits: the sums of the split that was ready first, as threads hold them; or NULL */
  uint32_t *ready;     /* for each tile of joined splits: how many splits are ready, plus 2 once the sums are there */
  const float *slopes; /* of filters, in place of the activation's; or NULL */
  straight straight;   /* the activation, unless it is applied by finish_sums() */
  divisor pitch, rows, strips, segment_tiles, filter_tiles, groups, splits;
  int64_t digit_bytes; /* bytes of all planes for one digit */
  bool alike;          /* the positions of a tile have one scale: they are of one image, or there are no scales */
};

/* ---- Shared memory ---- */

struct head {
  slot_barriers<MOST_SLOTS> weights;
  slot_barriers<MOST_BUFFERS> planes[CONSUMERS];
  slot_barriers<2> out_places[CONSUMERS];
  uint64_t turn[CONSUMERS];
  uint32_t before[CONSUMERS]; /* for joined splits: not 0 if the other split was ready first */
};
static_assert(sizeof(head) <= HEAD_BYTES, "");

/* The place of the output of a position, for the first filter of its image. `scale` is 1 / scale of the image. `room` is how
 * many outputs may be stored from this place on; 0: the position has no output. */
struct out_place {
  int64_t at;
  float scale;
  int32_t room;
};

struct memory {
  head *barriers;
  out_place *out_places;
  float *exchange;
  uint32_t *steps;
  uint8_t *slots, *planes;
};

DEVICE memory memory_of(const cut &c, uint8_t *base) {
  memory m;
  m.barriers = (head *)base;
  m.out_places = (out_place *)(base + HEAD_BYTES);
  m.exchange = (float *)(base + HEAD_BYTES + OUT_PLACE_BYTES);
  m.steps = (uint32_t *)(base + HEAD_BYTES + OUT_PLACE_BYTES + EXCHANGE_BYTES);
  m.slots = (uint8_t *)m.steps + table_bytes(c);
  m.planes = m.slots + c.slots * c.slot_bytes;
  return m;
}

inline size_t shared_bytes(const cut &c) {
  return HEAD_BYTES + OUT_PLACE_BYTES + EXCHANGE_BYTES + table_bytes(c) + (size_t)c.slots * c.slot_bytes +
         (size_t)c.buffers * c.sets * c.digits * c.plane_bytes + 128 + SLACK_BYTES;
}

/* ---- Work ---- */

struct item {
  int64_t tile; /* number of the tile of the block's first warpgroup */
  int32_t filter_tile, group, split, first_chunk, end_chunk;
};

/* Returns an item. Numbers count tiles of filters first, then groups, splits, and tiles of positions. */
DEVICE item item_of(const arguments &a, uint32_t number) {
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

/* The place of a position: strip of the image, row and column. After the last image, `image` is no valid number. */
struct place {
  int32_t image, strip, row, column;
};

DEVICE place place_of(const arguments &a, uint32_t position) {
  const uint32_t row = a.pitch.divide(position), strip = a.rows.divide(row);
  place at;
  at.column = (int32_t)(position - row * a.pitch.by);
  at.row = (int32_t)(row - strip * a.rows.by);
  at.image = (int32_t)a.strips.divide(strip);
  at.strip = (int32_t)(strip - at.image * a.strips.by);
  return at;
}

/* Returns the first position of a tile. */
DEVICE uint32_t position_of(const arguments &a, int64_t tile) {
  const uint32_t segment = a.segment_tiles.divide((uint32_t)tile);
  return segment * (uint32_t)a.c.segment_positions + ((uint32_t)tile - segment * a.segment_tiles.by) * POSITIONS;
}

/* Returns the end of the positions that a tile may store, which is the end of its own segment. Positions of the next segment
 * are stored by the first tile of that segment, with the scale of that image. */
DEVICE uint32_t end_of(const arguments &a, int64_t tile) {
  return a.c.segments > 1 ? (a.segment_tiles.divide((uint32_t)tile) + 1) * (uint32_t)a.c.segment_positions : UINT32_MAX;
}

DEVICE float image_scale(const arguments &a, int32_t image, int32_t group, int sign) {
  return power_of_two(sign * gconv_scale_exponent(__ldg(a.maxima + (int64_t)image * a.c.groups + group)));
}

} // namespace tensor

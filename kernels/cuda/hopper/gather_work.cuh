/* SPDX-License-Identifier: MIT */
/* The arguments, the shared memory and the tiles of the kernel for first layers (gather.cuh). */
#pragma once

#include "gather_cut.cuh"
#include "tensor.cuh"

namespace tensor::gather {

/* The arguments of the kernel, passed by value. */
struct arguments {
  cut c;
  gconv_layer_problem problem;
  const float *in, *biases, *plain_weights;
  float *out;
  const uint8_t *weights;     /* in the order of prepare(): tiles of filters, steps, halves of 8 taps, digits, filters */
  const float *filter_scales; /* 1 / scale of each filter, filled up to whole tiles of filters */
  divisor across, down, raw_fours, pairs, in_rows;
  bool by_fours; /* rows of the input are aligned to 16 bytes; if every other pair is packed, pairs to 8 */
  bool whole;    /* rows of the output, and of tiles, are multiples of four, and aligned to 16 bytes */
  bool curved;   /* the activation is not made of straight lines: gconv_activate() computes it */
  straight straight;
  const float *slopes; /* of filters, in place of the activation's; or NULL */
};

/* ---- Shared memory ---- */

struct head {
  slot_barriers<MOST_BUFFERS> tiles[COUPLES];
  uint64_t filters;
  uint32_t most[COUPLES][2],
      not_finite[COUPLES][2];         /* for the next tile: largest magnitude as bits; whether there is an infinity or NaN */
  float scale[COUPLES][MOST_BUFFERS]; /* 1 / scale of the tile in a buffer */
  uint32_t mending[COUPLES][MOST_BUFFERS];
};
static_assert(sizeof(head) <= HEAD_BYTES, "");

struct memory {
  head *h;
  float2 *finish; /* scale and bias of each filter */
  uint32_t *offsets;
  float *exchange;
  uint8_t *weights, *tiles;
};

DEVICE memory memory_of(const cut &c, uint8_t *base) {
  memory m;
  m.h = (head *)base;
  m.weights = base + HEAD_BYTES;
  m.finish = (float2 *)(m.weights + weight_bytes(c));
  m.offsets = (uint32_t *)(m.finish + c.of.filters);
  m.exchange = (float *)(m.offsets + c.steps * STEP_PAIRS);
  uint8_t *end = (uint8_t *)(m.exchange + COUPLES * 4 * EXCHANGE_FLOATS);
  m.tiles = end + (128 - shared_address(end) % 128) % 128;
  return m;
}
DEVICE uint8_t *tiles_of(const cut &c, const memory &m, int32_t couple) {
  return m.tiles + couple * (c.raw_bytes + c.buffers * 2 * c.laid_bytes);
}

/* ---- Tiles ---- */

struct tile {
  int32_t image, row, column; /* place of the first output */
};

DEVICE tile tile_of(const arguments &a, uint32_t number) {
  const uint32_t rest = a.across.divide(number), image = a.down.divide(rest);
  return {(int32_t)image, (int32_t)(rest - image * a.down.by) * a.c.tile_rows,
          (int32_t)(number - rest * a.across.by) * a.c.tile_columns};
}

/* The place of an output, counted from the first output of its tile. Outputs after the last do not exist. */
struct out_place {
  int32_t row, column;
  bool there;
};
DEVICE out_place out_place_of(const cut &c, int32_t number) {
  const int32_t row = number / c.tile_columns;
  return {row, number - row * c.tile_columns, row < c.tile_rows};
}
DEVICE bool is_output(const gconv_layer_problem &p, const tile &at, const out_place &s) {
  return s.there && at.row + s.row < p.out_height && at.column + s.column < p.out_width;
}

} // namespace tensor::gather

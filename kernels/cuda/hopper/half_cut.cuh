/* SPDX-License-Identifier: MIT */
/*
 * How a layer of gemm-half (half.cuh) is cut into tiles and steps, and the shared memory that these take.
 *
 * A warpgroup computes the sums of a tile of 4 x 32 outputs, for up to 64 filters. A step is 16 products of each sum:
 *
 *     input                         a step multiplies
 *     kept                          16 channels of a tap
 *     floats, few channels (PAIRS)  8 pairs of neighbouring taps of a row; of an odd number of taps, the last pair has the
 * tap before it, too, with a weight of 0
 *
 * Floats of more channels are first converted to a kept tensor in the workspace. An odd number of steps gets one more step,
 * with weights of 0. It repeats the samples of the last step, so that no sample beyond the filter's reach is multiplied.
 */
#pragma once

#include "../core/launch.cuh"
#include "tensor_work.cuh"

namespace half_layers {

using namespace tensor;

enum : int32_t {
  TILE_ROWS = 4,
  TILE_COLUMNS = 32,
  WORKERS = 2,            /* warpgroups of a block: each has tiles of its own */
  HEIGHTS = 2,            /* products of 64 outputs in a tile */
  MOST_FILTERS = 64,      /* of a block */
  MOST_PAIR_CHANNELS = 4, /* of floats that are taken as they are */
  MOST_PAIR_STEPS = 64,
  STEP_NUMBERS = 16,
  BLOCK_BYTES = 227 << 10 /* shared memory of a block */
};

struct cut {
  bool pairs, packs;           /* pairs: input floats are taken as they are; packs: they first become a kept tensor */
  int32_t in_rows, in_columns; /* of the samples that a tile needs */
  int32_t parts, part;         /* units of 8 kept channels, or channels of floats; the bytes of one in a buffer */
  int32_t row_pairs;           /* pairs of a row of taps */
  int32_t used, steps;         /* steps that are needed; steps including the one of zeros */
  int32_t filters, filter_tiles;
  int32_t buffers; /* of each warpgroup */
  int32_t across, down;
  int64_t tiles;
  bool fits;
};

/* Shared memory, in this order: weights, entries, scales and biases of filters, barrier, buffers. */
inline int64_t weight_bytes(const cut &c) {
  return (int64_t)c.steps * STEP_NUMBERS * c.filters * 2;
}
inline int64_t entry_bytes(const cut &c) {
  return (int64_t)c.steps * (c.pairs ? 32 : 4);
}
inline int64_t buffer_bytes(const cut &c) {
  return (int64_t)c.parts * c.part;
}
inline int64_t block_bytes(const cut &c) {
  return weight_bytes(c) + (entry_bytes(c) + 15) / 16 * 16 + c.filters * 16 + 16 + WORKERS * c.buffers * buffer_bytes(c);
}

inline cut cut_problem(const gconv_layer_problem *p) {
  cut c = {};
  const int64_t in_rows = (TILE_ROWS - 1) * (int64_t)p->stride_y + (p->rows - 1) * (int64_t)p->dilation_y + 1;
  const int64_t in_columns = (TILE_COLUMNS - 1) * (int64_t)p->stride_x + (p->columns - 1) * (int64_t)p->dilation_x + 1;
  const int64_t taps = (int64_t)p->rows * p->columns, units = gconv_layer_kept_channels(p->channels) / 8;
  c.row_pairs = (p->columns + 1) / 2;
  const int64_t pair_steps = divide_up((int64_t)p->channels * p->rows * c.row_pairs, STEP_NUMBERS / 2);
  if (in_rows > BLOCK_BYTES || in_columns > BLOCK_BYTES || in_rows * in_columns > BLOCK_BYTES || units * taps > 4096)
    return c;
  c.pairs = !p->in_kept && p->channels <= MOST_PAIR_CHANNELS && pair_steps <= MOST_PAIR_STEPS;
  c.packs = !p->in_kept && !c.pairs;
  c.in_rows = (int32_t)in_rows, c.in_columns = (int32_t)in_columns;
  c.parts = c.pairs ? p->channels : (int32_t)units;
  c.part = (int32_t)(c.pairs ? in_rows * in_columns * 4 : (in_rows * in_columns | 1) * UNIT); /* odd: other banks */
  c.used = (int32_t)(c.pairs ? pair_steps : units / 2 * taps);
  c.steps = (c.used + 1) / 2 * 2;
  const int32_t wanted = p->out_kept ? (int32_t)gconv_layer_kept_channels(p->filters) : p->filters;
  c.filters = wanted <= 8 ? 8 : wanted <= 16 ? 16 : wanted <= 32 ? 32 : MOST_FILTERS;
  c.filter_tiles = (wanted - 1) / c.filters + 1;
  c.across = (p->out_width - 1) / TILE_COLUMNS + 1;
  c.down = (p->out_height - 1) / TILE_ROWS + 1;
  c.tiles = (int64_t)p->images * c.across * c.down;
  c.buffers = 2;
  if (block_bytes(c) > BLOCK_BYTES)
    c.buffers = 1;
  c.fits = block_bytes(c) <= BLOCK_BYTES && c.tiles < INT32_MAX && c.filter_tiles < 65536;
  return c;
}

/* Returns the index of the weight of filter k that number `n` of a step is multiplied by, or -1 if there is none. */
inline int64_t weight_of(const cut &c, const gconv_layer_problem *p, int32_t k, int32_t step, int32_t n) {
  int32_t channel, r, s;
  if (c.pairs) {
    const int32_t pair = step * (STEP_NUMBERS / 2) + n / 2, line = pair / c.row_pairs, first = pair % c.row_pairs * 2;
    const bool repeats = first + 1 == p->columns && p->columns > 1; /* the pair is a tap earlier */
    channel = line / p->rows, r = line % p->rows, s = first + n % 2 - repeats;
    if (repeats && n % 2 == 0)
      return -1;
  } else {
    const int32_t tap = step / (c.parts / 2);
    channel = step % (c.parts / 2) * STEP_NUMBERS + n, r = tap / p->columns, s = tap % p->columns;
  }
  if (k >= p->filters || step >= c.used || channel >= p->channels || r >= p->rows || s >= p->columns)
    return -1;
  return (((int64_t)k * p->channels + channel) * p->rows + r) * p->columns + s;
}

/* Returns the distance in a buffer, in bytes, from the sample of an output's first tap to the samples of a step. With pairs,
 * to the step's pair number `pair`. */
DEVICE uint32_t entry_of(const cut &c, const gconv_layer_problem &p, int32_t step, int32_t pair) {
  if (c.pairs) {
    const int32_t last = p.channels * p.rows * c.row_pairs - 1;
    const int32_t number = min(step * (STEP_NUMBERS / 2) + pair, last), line = number / c.row_pairs;
    const int32_t s = max(min(number % c.row_pairs * 2, p.columns - 2), 0);
    return (uint32_t)(line / p.rows * c.part +
                      (line % p.rows * p.dilation_y * c.in_columns + s * p.dilation_x) * (int32_t)sizeof(uint32_t));
  }
  step = min(step, c.used - 1);
  const int32_t tap = step / (c.parts / 2), first = step % (c.parts / 2) * 2;
  return (uint32_t)(first * c.part +
                    (tap / p.columns * p.dilation_y * c.in_columns + tap % p.columns * p.dilation_x) * UNIT);
}

} // namespace half_layers

/* SPDX-License-Identifier: MIT */
/*
 * Cuts a first layer for gathered patches (gather.cuh).
 *
 *     an instruction                       taps of a filter row, S = 5              a row of pairs in shared memory
 *       64 outputs x 16 taps               +-------+-------+-------+                +--------+--------+----
 *     x 16 taps x FILTERS filters          | 0   1 | 2   3 | 4   - |  pairs         | x0, x1 | x1, x2 | ...   2 planes
 *                                          +-------+-------+-------+                +--------+--------+----
 *
 * A step is 8 pairs of taps. Pairs are numbered by channels, then rows of the filter, then pairs of columns. A pair of
 * samples has 4 bytes in a plane of high digits, and 4 bytes in a plane of low digits. With even strides, every other pair
 * is never used, and is not packed. A tile is `tile_rows` by `tile_columns` outputs, numbered by rows. Outputs after the
 * last are computed and dropped.
 */
#pragma once

#include "tensor_cut.cuh"

namespace tensor::gather {

enum : int32_t {
  GROUP = 128, /* threads of a warpgroup */
  COUPLES = 2, /* couples of a block: each has a warpgroup that multiplies tiles, and one that packs them */
  THREADS = COUPLES * 2 * GROUP,
  STEP_PAIRS = 8,
  MOST_JOINED = 32, /* filters whose high and low digits one instruction multiplies */
  MOST_STEPS = 128,
  MOST_BUFFERS = 2,         /* the most buffers of packed tiles, for each couple */
  HEAD_BYTES = 512,         /* for barriers, scales and flags */
  EXCHANGE_FLOATS = 16 * 20 /* floats that a warp exchanges: 16 filters of 16 outputs */
};

/* filters: of an instruction. heights: tiles of 64 outputs of a warpgroup. depth: steps whose patches it holds at a time. */
struct shape {
  int32_t filters, heights, depth;
};
constexpr shape SHAPES[] = {{8, 4, 1}, {16, 2, 1}, {32, 2, 1}, {64, 1, 2}, {64, 2, 1}, {128, 1, 1}};

struct cut {
  shape of;
  int32_t filter_tiles;
  int32_t tile_rows, tile_columns, across, down; /* outputs of a tile; tiles of a row and of a column of an image */
  int64_t tiles;                                 /* tiles of all images */
  int32_t row_pairs, every, steps;               /* pairs of a filter row; samples from one pair to the next; steps */
  int32_t in_rows;                               /* input rows of a tile, for each channel */
  int32_t pairs, pitch, raw_pitch;               /* for an input row: packed pairs; pairs with padding; floats when raw */
  int32_t buffers, raw_bytes, laid_bytes; /* buffers of packed tiles; bytes of a raw tile; bytes of a plane of digits */
  double cycles;                          /* estimated, of the whole layer; infinite if the problem is not for this kernel */
};

GCONV_BOTH int32_t weight_bytes(const cut &c) { /* bytes of a tile of filters */
  return c.steps * 2 * STEP_PAIRS * 2 * 2 * c.of.filters;
}
inline int32_t shared_bytes(const cut &c) {
  const int32_t finish = c.of.filters * 8, offsets = c.steps * STEP_PAIRS * 4, exchange = COUPLES * 4 * EXCHANGE_FLOATS * 4;
  return HEAD_BYTES + weight_bytes(c) + finish + offsets + exchange + 128 +
         COUPLES * (c.raw_bytes + c.buffers * 2 * c.laid_bytes);
}

/* Returns the distance in a plane, in bytes, from the samples of a filter's first pair to the samples of pair `number`. */
GCONV_BOTH int32_t pair_offset(const cut &c, const gconv_layer_problem *p, int32_t number) {
  const int32_t row = number / c.row_pairs, channel = row / p->rows;
  if (channel >= p->channels)
    return 0;
  const int32_t down = channel * c.in_rows + row % p->rows * p->dilation_y;
  return 4 * (down * c.pitch + number % c.row_pairs * (2 / c.every));
}

/* Cuts tiles of `columns` columns of outputs. Returns false if a tile does not fit. */
inline bool cut_tile(cut &c, const gconv_layer_problem *p, int32_t columns) {
  c.tile_columns = columns;
  c.tile_rows = std::min(64 * c.of.heights / columns, p->out_height);
  c.across = ceil_div(p->out_width, c.tile_columns), c.down = ceil_div(p->out_height, c.tile_rows);
  c.tiles = (int64_t)p->images * c.across * c.down;
  c.in_rows = (c.tile_rows - 1) * p->stride_y + (p->rows - 1) * p->dilation_y + 1;
  const int32_t step = p->stride_x / c.every;
  c.pairs = (columns - 1) * step + (c.row_pairs - 1) * (2 / c.every) + 1;
  /* A warp reads 4 pairs of 8 outputs. If these outputs lie in two rows, the rows should use different banks. */
  const int32_t wanted = ((c.row_pairs - 1) * (2 / c.every) + 7 * step + 1) % 32;
  c.pitch = c.row_pairs % 4 == 0 ? c.pairs : c.pairs + (wanted - c.pairs % 32 + 32) % 32;
  c.raw_pitch = ((c.pairs - 1) * c.every + 2 + 3 + 3) / 4 * 4;
  const int64_t raw = (int64_t)p->channels * c.in_rows * c.raw_pitch * 4,
                packed = (int64_t)p->channels * c.in_rows * c.pitch * 4;
  if (c.tiles >= INT32_MAX / 2 || raw > SHARED_BYTES || packed > SHARED_BYTES)
    return false;
  c.raw_bytes = (int32_t)(raw + 127) / 128 * 128, c.laid_bytes = (int32_t)(packed + 127) / 128 * 128;
  for (c.buffers = MOST_BUFFERS; c.buffers > 0; c.buffers--)
    if (shared_bytes(c) <= SHARED_BYTES)
      return true;
  return false;
}

/* Estimates the cycles of the layer. An H200 took within 15% of this for 7 layers. In each round, each couple computes a
 * tile. Four layers with several tiles of filters took 5 to 6 us more than this. */
inline void estimate(cut &c, const gconv_layer_problem *p) {
  const double processors = std::max(PROCESSORS / c.filter_tiles, 1), heights = c.of.heights, N = c.of.filters;
  const double packed = (double)p->channels * c.in_rows * c.pairs / (int32_t)GROUP,
               raw = c.raw_bytes / 16.0 / (int32_t)GROUP;
  const double multiplying = c.steps * heights * std::max(150.0, 5 * N + 30), storing = heights * N / 8 * 250;
  const double round = multiplying + storing + (c.buffers == 1 ? 90 * packed : 0), packing = 200 * packed + 450 * raw + 2000;
  c.cycles = ceil((double)c.tiles / ((int32_t)COUPLES * processors)) * std::max(round, packing) +
             (c.filter_tiles > 1 ? 13000 : 6000);
}

/* Returns the cut of a problem with the least estimated time. */
inline cut cut_problem(const gconv_layer_problem *p) {
  cut best = {}, c = {};
  best.cycles = HUGE_VAL;
  const int64_t most = INT32_MAX / 4;
  if (p->groups != 1 || p->dilation_x != 1 || p->channels > 4 || p->rows > 4096 || p->columns > 4096 ||
      (int64_t)p->out_height * p->stride_y + (int64_t)p->rows * p->dilation_y > most ||
      (int64_t)p->out_width * p->stride_x + p->columns > most || p->height > most || p->width > most)
    return best;
  c.row_pairs = ceil_div(p->columns, 2);
  c.every = p->stride_x % 2 ? 1 : 2;
  const int32_t steps = ceil_div((int64_t)p->channels * p->rows * c.row_pairs, STEP_PAIRS);
  if (steps > MOST_STEPS)
    return best;
  for (const shape &of : SHAPES) {
    c.of = of;
    c.steps = ceil_div(steps, of.depth) * of.depth;
    c.filter_tiles = ceil_div(p->filters, of.filters);
    if (c.filter_tiles > 8 || (of.filters > 8 && p->filters <= of.filters / 2))
      continue;
    for (int32_t strips = 1; strips <= 64; strips++) {
      const int32_t columns = strips > 8 ? 16 * (strips - 8) : ceil_div(p->out_width, strips);
      if (columns > std::min(64 * of.heights, p->out_width) || !cut_tile(c, p, columns))
        continue;
      estimate(c, p);
      if (c.cycles < best.cycles)
        best = c;
    }
  }
  return best;
}

} // namespace tensor::gather

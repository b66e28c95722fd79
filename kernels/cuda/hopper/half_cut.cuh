/* SPDX-License-Identifier: MIT */
/*
 * How a layer of gemm-half (half.cuh) is cut into tiles, chunks, steps and stages, and the shared memory that these take.
 *
 * A warpgroup computes the sums of a tile of 64 outputs for 64 or 128 filters, or of 128 outputs for fewer. A tile is some
 * rows by some columns of one image or several: 4 x 32, or 8 x 8 of two small images. A step is 16 products of each sum:
 *
 *     input                         a step multiplies
 *     kept                          two units of 8 channels, each at a tap
 *     floats, few channels (PAIRS)  8 pairs of neighbouring taps of a row
 *
 * Of an odd number of taps, the last pair has the tap before it, too, with a weight of 0.
 *
 * Floats of more channels are first converted to a kept tensor in the workspace. A chunk is the units whose samples are in a
 * buffer at a time. A warpgroup holds the samples of depth_of() steps in registers, so the number of steps of a chunk is
 * rounded up to a multiple of that. The steps that are added have weights of 0 and the samples of the last real step: other
 * samples could be NaN, and 0 times NaN is NaN. If shared memory has no room for all weights, they pass through a ring of
 * slots; the steps whose weights share a slot are a stage.
 */
#pragma once

#include "../core/launch.cuh"
#include "tensor_work.cuh"

namespace half_layers {

using namespace tensor;

enum : int32_t {
  MOST_FILTERS = 128,     /* of a block */
  MOST_PAIR_CHANNELS = 4, /* of floats that are taken as they are */
  MOST_PAIR_STEPS = 64,
  STEP_NUMBERS = 16,
  MOST_SLOTS = 8, /* of weights that pass through */
  SOURCE_BYTES = 160,
  BLOCK_BYTES = 227 << 10 /* shared memory of a block */
};

/* What the number of filters of a block leaves registers for: the products of 64 outputs in a tile; the steps whose samples
 * a warpgroup holds; the warpgroups of a block, each with tiles of its own; and the blocks of a multiprocessor. */
GCONV_BOTH constexpr int heights_of(int filters) {
  return filters >= 64 ? 1 : 2;
}
GCONV_BOTH constexpr int depth_of(int filters) {
  return filters == 32 || filters == 64 ? 4 : 2;
}
GCONV_BOTH constexpr int most_workers(int filters) {
  return filters >= 64 ? 4 : 2;
}
GCONV_BOTH constexpr int most_blocks(int filters) {
  return filters <= 16 ? 3 : filters <= 32 ? 2 : 1;
}

struct cut {
  bool pairs, packs;             /* pairs: input floats are taken as they are; packs: they first become a kept tensor */
  int32_t column_bits, row_bits; /* a tile has 2^column_bits columns and 2^row_bits rows */
  int32_t tile_images, tile_rows, tile_columns;
  int32_t in_rows, in_columns; /* of the samples that a tile needs of an image */
  int32_t units, chunks;       /* units of the input's channels */
  int32_t parts, part;         /* of a chunk: units, or channels of floats; the bytes of one in a buffer */
  int32_t row_pairs;           /* pairs of a row of taps */
  int32_t used, steps;         /* of a chunk: half steps (of pairs: steps) that are needed; steps, with those of zeros */
  int32_t slots, stage_steps;
  int32_t filters, filter_tiles;
  int32_t workers, buffers; /* warpgroups of a block; buffers of each */
  int32_t across, down;
  int64_t tiles;
  double cycles; /* estimated */
  bool fits;
};

GCONV_BOTH int32_t step_bytes(const cut &c) { /* of weights */
  return STEP_NUMBERS * c.filters * 2;
}
inline int64_t weight_bytes(const cut &c) { /* of a tile of filters */
  return (int64_t)c.chunks * c.steps * step_bytes(c);
}
/* Shared memory, in this order: slots of weights, entries, scales and biases of filters, barriers, buffers. */
GCONV_BOTH int32_t entry_bytes(const cut &c) {
  return (c.steps * (c.pairs ? 32 : 8) + 15) / 16 * 16;
}
inline int64_t block_bytes(const cut &c) {
  return (int64_t)c.slots * c.stage_steps * step_bytes(c) + entry_bytes(c) + c.filters * 16 + SOURCE_BYTES +
         (int64_t)c.workers * c.buffers * c.parts * c.part;
}

/* Estimates the cycles of a layer, by the instructions of a warp for a tile. The warpgroups of a multiprocessor share what
 * issues instructions, and its tensor cores, which wait for shared memory if there are few filters. Alone, a tile takes
 * `alone`, as most instructions wait for the one before. */
inline double estimate(const cut &c) {
  const double N = c.filters, H = heights_of(c.filters), steps = (double)c.chunks * c.steps;
  const double step = H * std::max(N / 2, 16 + N / 4), across = (double)c.in_columns * c.parts;
  const double stages = c.slots > 1 ? steps / c.stage_steps : 0;
  const double lines = c.tile_images * ceil(c.in_rows / std::max(floor(GROUP / across), 1.0));
  const double fetch =
      c.pairs ? 60 + 40 * ceil(c.tile_images * c.in_rows * across / GROUP) : 70 + ceil(across / GROUP) * (60 + 12 * lines);
  const double store = 80 + 90 * H * std::max(N / 32, 1.0), others = store + c.chunks * (fetch + 120) + 30 * stages;
  const double blocks = (double)std::min<int64_t>({(BLOCK_BYTES + 1024) / (block_bytes(c) + 1024), most_blocks(c.filters),
                                                   most_blocks(c.filters) * most_workers(c.filters) / c.workers});
  const double tiles = c.workers * blocks, fed = c.slots > 1 ? blocks * steps * step_bytes(c) / 24 : 0;
  const double busy = std::max(tiles * std::max(steps * step * 1.2, 2 * (steps * (8 + 5 * H) + others)), fed);
  const double alone = steps * (step + 60) + 6 * others + 1000 + (c.buffers > 1 ? 0 : 1000) * (double)c.chunks;
  return ceil((double)c.tiles * c.filter_tiles / ((int32_t)PROCESSORS * tiles)) * std::max(busy, alone) + 4000;
}

/* Tries all ways to stage weights, all of them at once at first, for each number of warpgroups. */
inline void cut_stages(cut &best, cut c) {
  for (c.workers = most_workers(c.filters); c.workers > 0; c.workers--)
    for (c.buffers = 2; c.buffers > 0; c.buffers--)
      for (int32_t slot_bytes : {0, 32 << 10, 16 << 10})
        for (c.slots = slot_bytes ? 4 : 1; c.slots <= (slot_bytes ? (int32_t)MOST_SLOTS : 1); c.slots += 2) {
          c.stage_steps = slot_bytes ? std::min(slot_bytes / step_bytes(c), c.steps) : c.chunks * c.steps;
          while (slot_bytes && (c.steps % c.stage_steps || c.stage_steps % depth_of(c.filters)))
            c.stage_steps--; /* stages of one size */
          if ((slot_bytes && (c.pairs || c.chunks * c.steps < c.slots * c.stage_steps)) || block_bytes(c) > BLOCK_BYTES)
            continue;
          c.cycles = estimate(c);
          c.fits = c.tiles < INT32_MAX && c.filter_tiles < 65536;
          if (c.fits && (!best.fits || c.cycles < best.cycles))
            best = c;
        }
}

/* Cuts channels into chunks, for a number of filters and tiles of a size. */
inline void cut_chunks(cut &best, cut c, const gconv_layer_problem *p) {
  const int64_t taps = (int64_t)p->rows * p->columns, places = (int64_t)c.tile_images * c.in_rows * c.in_columns;
  const int32_t depth = depth_of(c.filters);
  for (int32_t pieces = 1; pieces <= c.units; pieces *= 2) {
    c.parts = c.pairs ? p->channels : (c.units + pieces - 1) / pieces;
    c.chunks = c.pairs ? 1 : (c.units + c.parts - 1) / c.parts;
    c.part = (int32_t)(c.pairs ? places * 4 : (places | 1) * UNIT); /* odd: other banks */
    c.used = (int32_t)(c.pairs ? divide_up((int64_t)p->channels * p->rows * c.row_pairs, STEP_NUMBERS / 2) : c.parts * taps);
    c.steps = ((c.pairs ? c.used : (c.used + 1) / 2) + depth - 1) / depth * depth;
    cut_stages(best, c);
    if (c.pairs)
      break;
  }
}

/* Tries tiles of all sizes. */
inline void cut_tiles(cut &best, cut c, const gconv_layer_problem *p) {
  const int32_t outputs = 64 * heights_of(c.filters);
  const int64_t taps = (int64_t)p->rows * p->columns;
  for (c.column_bits = 5; c.column_bits >= 3; c.column_bits--) /* wide ones first */
    for (c.row_bits = 1; outputs >> (c.row_bits + c.column_bits) > 0; c.row_bits++) {
      c.tile_columns = 1 << c.column_bits, c.tile_rows = 1 << c.row_bits;
      c.tile_images = outputs >> (c.column_bits + c.row_bits);
      const int64_t in_rows = (c.tile_rows - 1) * (int64_t)p->stride_y + (p->rows - 1) * (int64_t)p->dilation_y + 1;
      const int64_t in_columns = (c.tile_columns - 1) * (int64_t)p->stride_x + (p->columns - 1) * (int64_t)p->dilation_x + 1;
      if (in_rows > BLOCK_BYTES || in_columns > BLOCK_BYTES || c.tile_images * in_rows * in_columns > BLOCK_BYTES / 4 ||
          taps * c.units > 1 << 20)
        continue;
      c.in_rows = (int32_t)in_rows, c.in_columns = (int32_t)in_columns;
      c.across = (p->out_width - 1) / c.tile_columns + 1;
      c.down = (p->out_height - 1) / c.tile_rows + 1;
      c.tiles = divide_up(p->images, c.tile_images) * c.across * c.down;
      cut_chunks(best, c, p);
    }
}

/* Returns the cut with the least estimated time. */
inline cut cut_problem(const gconv_layer_problem *p) {
  const int32_t wanted = p->out_kept ? (int32_t)gconv_layer_kept_channels(p->filters) : p->filters;
  cut best = {}, c = {};
  c.units = (p->channels + 7) / 8;
  c.row_pairs = (p->columns + 1) / 2;
  const int64_t pair_steps = divide_up((int64_t)p->channels * p->rows * c.row_pairs, STEP_NUMBERS / 2);
  c.pairs = !p->in_kept && p->channels <= MOST_PAIR_CHANNELS && pair_steps <= MOST_PAIR_STEPS;
  c.packs = !p->in_kept && !c.pairs;
  for (c.filters = 8; c.filters <= (c.pairs ? 64 : (int32_t)MOST_FILTERS); c.filters *= 2) {
    if ((c.filters < wanted && c.filters < 64) || (c.filters / 2 >= wanted && c.filters > 8))
      continue; /* as many as there are; of many, 64 or 128 */
    c.filter_tiles = (wanted - 1) / c.filters + 1;
    cut_tiles(best, c, p);
  }
  return best;
}

/* Returns how many pairs of neighbouring filters a lane has among the columns that wgmma makes: column 8 j + 2 t + e of an
 * output is in lane t of four. */
GCONV_BOTH constexpr int pairs_of(int filters) {
  return filters < 32 ? filters / 8 : 4;
}
/* Returns the filter of a column: those of a lane are neighbours, so that it stores them together. */
inline int32_t filter_of(int32_t filters, int32_t column) {
  const int32_t pairs = pairs_of(filters), at = column % (8 * pairs);
  return column - at + at % 8 / 2 * 2 * pairs + at / 8 * 2 + at % 2;
}

/* Returns the index of the weight of filter k that number `n` of a step is multiplied by, or -1 if there is none. Steps are
 * counted through all chunks. */
inline int64_t weight_of(const cut &c, const gconv_layer_problem *p, int32_t k, int32_t step, int32_t n) {
  int32_t channel, r, s;
  if (c.pairs) {
    const int32_t pair = step * (STEP_NUMBERS / 2) + n / 2, line = pair / c.row_pairs, first = pair % c.row_pairs * 2;
    const bool repeats = first + 1 == p->columns && p->columns > 1; /* the pair is a tap earlier */
    channel = line / p->rows, r = line % p->rows, s = first + n % 2 - repeats;
    if (repeats && n % 2 == 0)
      return -1;
  } else {
    const int32_t half = step % c.steps * 2 + n / 8, tap = half / c.parts;
    channel = (step / c.steps * c.parts + half % c.parts) * 8 + n % 8, r = tap / p->columns, s = tap % p->columns;
    if (half >= c.used)
      return -1;
  }
  if (k >= p->filters || channel >= p->channels || r >= p->rows || s >= p->columns)
    return -1;
  return (((int64_t)k * p->channels + channel) * p->rows + r) * p->columns + s;
}

/* Returns the distance in a buffer, in bytes, from the sample of an output's first tap to unit number `number` of a step, or
 * with pairs, to pair number `number`. */
DEVICE uint32_t entry_of(const cut &c, const gconv_layer_problem &p, int32_t step, int32_t number) {
  if (c.pairs) {
    const int32_t last = p.channels * p.rows * c.row_pairs - 1;
    const int32_t pair = min(step * (STEP_NUMBERS / 2) + number, last), line = pair / c.row_pairs;
    const int32_t s = max(min(pair % c.row_pairs * 2, p.columns - 2), 0);
    return (uint32_t)(line / p.rows * c.part +
                      (line % p.rows * p.dilation_y * c.in_columns + s * p.dilation_x) * (int32_t)sizeof(uint32_t));
  }
  const int32_t half = min(step * 2 + number, c.used - 1), tap = half / c.parts;
  return (uint32_t)(half % c.parts * c.part +
                    (tap / p.columns * p.dilation_y * c.in_columns + tap % p.columns * p.dilation_x) * UNIT);
}

} // namespace half_layers

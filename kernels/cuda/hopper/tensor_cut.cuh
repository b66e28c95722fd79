/* SPDX-License-Identifier: MIT */
/*
 * Cuts a layer for tensor cores. tensor.cuh explains the kernels.
 *
 * Operands are made of units. A unit is 16 bytes: U neighbours of the reduction, 8 numbers of 16 bits or 4 of 32. Which
 * neighbours they are depends on the cut's mode:
 *
 *   WIDE    U channels at one sample of the input. For many channels.
 *   NARROW  U taps of a row of the filter, of one channel: x[q * stride + dilation * e], e < U, for output column q.
 *           For few channels and many filters.
 *   BAND    U neighbouring samples of a row; the next unit has the next U samples. Units are multiplied by a banded
 *           (Toeplitz) matrix, whose U rows are the taps of a filter for U neighbouring outputs. For few filters.
 *
 * Units that neighbouring outputs need at one tap are adjacent in a plane. The positions of a plane are rows of `pitch`
 * units. In strided layers, rows of the input (in WIDE, columns, too) that are equal modulo the stride form a phase, which
 * is a plane of its own. So each tap is an offset in a plane, for any stride and dilation. For one tap, a tile of 256
 * positions needs the 256 units that are this offset further on. These units already are an operand of the multiplication.
 * Positions after the last column of a row are computed and dropped.
 */
#pragma once

#include "../core/divisor.cuh"
#include "kernels/layer_algorithm.h"

#include <math.h>

#include <algorithm>
#include <numeric>

namespace tensor {

constexpr double CYCLES_PER_MS = 1.7e6; /* clock of an H200 that multiplies */

enum mode : int32_t { WIDE, NARROW, BAND };

enum : int32_t {
  POSITIONS = 256, /* positions of a tile */
  ROWS = 64,       /* filters of a tile; in BAND, U times the number of filters */
  UNIT = 16,       /* bytes */
  TILE_UNITS = 2,  /* units of a step: of one instruction for each product of digits */
  CONSUMERS = 2,   /* warpgroups of a block that multiply */
  SHARED_BYTES = 227 * 1024,
  HEAD_BYTES = 2048,                                /* for barriers */
  OUT_PLACE_BYTES = 2 * CONSUMERS * POSITIONS * 16, /* for the places of outputs of this tile and the next */
  EXCHANGE_BYTES = CONSUMERS * 4 * 16 * 40 * 4,
  SLACK_BYTES = 4096, /* for compute-sanitizer's memcheck, which takes the two units of an operand for adjacent: the last one
                         would end beyond memory */
  MOST_SLOTS = 64,    /* the most slots of weights */
  LEAST_SLOTS = 4,
  MOST_BUFFERS = 8, /* the most buffers of planes; 3 if weights do not stay in shared memory */
  SLOT_STEPS = 4,   /* at most */
  PROCESSORS = 132  /* for which a cut is made */
};

/* Layers of few taps, and of 1 x 1. Their weights are in registers, and the input streams past them (tensor_flow.cuh,
 * tensor_points.cuh). */
enum : int32_t {
  FLOW_TILE = 128, /* positions */
  FLOW_STEPS = 12, /* steps of a tile; taps that do not exist have weights 0 */
  POINT_STEPS = 4, /* steps for a chunk of 64 channels, with filters of 1 x 1 */
  FLOW_SLOTS = 16  /* at most */
};

struct flow {
  int32_t steps;            /* 0: the layer does not use this kernel; POINT_STEPS: filters of 1 x 1; FLOW_STEPS: others */
  int32_t pairs;            /* pairs of filter tiles of a group, a tile for each warpgroup; with two sets, single tiles */
  int32_t slots, halo;      /* slots of FLOW_TILE positions in the ring; slots that a tile needs after its first */
  int32_t repeated, length; /* positions after the last slot that repeat the first ones; positions of a whole plane */
  /* For each step: at: the plane of its first unit, and (16 bits higher) the distance to the second, in units of 16 bytes;
   * down: how many positions further on in its plane the first unit is. */
  uint32_t at[FLOW_STEPS], down[FLOW_STEPS];
};

struct cut {
  mode how;
  int32_t unit, digits;              /* U; digits of a float32 */
  int32_t channels, filters, groups; /* channels and filters of a group; number of groups */

  /* Positions: `strips` strips of `strip` output columns. A row of a strip has `pitch` positions, and outputs at the first
   * `columns` of them; a strip has `rows` rows. A segment is one strip of one image, or all strips of all images. */
  int32_t strips, strip, columns, pitch, rows;
  int64_t segments, segment_tiles, tiles;
  int64_t segment_positions,
      positions; /* positions of a strip of an image; of all strips, and those that tiles reach beyond the last strip */

  /* A chunk is the part that is staged at a time: `chunk_units` units of channels (in NARROW and BAND: channels) by
   * chunk_rows filter rows; that is `planes` planes of `length` positions. There are channel_chunks by row_chunks chunks.
   * Taps of a column (row) that are period_y (period_x) apart use the same phase, step_y rows (step_x columns) apart. */
  int32_t period_y, period_x, step_y, step_x;
  int32_t units, phases; /* units of all channels of a group; phases of rows that taps use */
  int32_t phases_y,
      variants;     /* a unit has phases_y * variants planes; variants: in WIDE phases of x, in NARROW units of a row */
  int32_t row_taps; /* units of a filter row */
  int32_t chunk_units, chunk_rows, planes, length;
  int32_t channel_chunks, row_chunks, chunks;
  int32_t taps, steps; /* taps of a chunk: units that outputs need; steps: two taps each */

  /* Work: `sets` sets of planes in a block. With 2 sets, its two warpgroups have the same filters, and neighbouring tiles of
   * positions; with 1 set, the same positions and neighbouring tiles of filters. Splits share the chunks. */
  int32_t sets, filter_tiles, splits, split_chunks;
  int64_t items;

  /* Shared memory. */
  int32_t plane_bytes;                            /* bytes of all planes of a chunk, for one digit */
  int32_t buffers, slots, slot_bytes, slot_steps; /* slot_steps: steps whose weights are in a slot */
  bool resident;                                  /* all weights of an item's filters stay in shared memory */
  bool alternate;                                 /* the warpgroups multiply in turns, one while the other stores */

  struct flow flow;

  double cycles; /* estimated, of the whole layer */
};

/* Returns whether the kernel itself finds the largest sample of each tile, so that no pass before it searches the images. */
inline bool has_own_scales(const cut &c) {
  return c.flow.steps == POINT_STEPS;
}

inline int32_t ceil_div(int64_t a, int64_t b) {
  return (int32_t)((a + b - 1) / b);
}

/* ---- Taps ---- */

/* A tap of a chunk is a unit that outputs need. unit: of channels; row: both in the chunk. part: unit of the filter row. */
struct tap {
  int32_t unit, row, part;
  int32_t at; /* position in the planes */
};

/* Lists the taps of a chunk in the order of addresses. There are c.taps of them. */
inline void list_taps(const cut &c, tap *taps) {
  int32_t count = 0;
  for (int32_t unit = 0; unit < c.chunk_units; unit++)
    for (int32_t row = 0; row < c.chunk_rows; row++)
      for (int32_t part = 0; part < c.row_taps; part++) {
        const int32_t variant = c.how == WIDE ? part % c.period_x : c.how == NARROW ? part : 0;
        const int32_t column = c.how == WIDE ? part / c.period_x * c.step_x : c.how == BAND ? part : 0;
        const int32_t plane = (unit * c.phases_y + row % c.period_y) * c.variants + variant;
        taps[count++] = {unit, row, part, plane * c.length + row / c.period_y * c.step_y * c.pitch + column};
      }
  std::sort(taps, taps + count, [](const tap &a, const tap &b) { return a.at < b.at; });
}

/* ---- Cutting ---- */

inline int32_t row_taps_of(mode how, int32_t unit, int32_t columns) {
  return how == WIDE ? columns : how == NARROW ? ceil_div(columns, unit) : ceil_div(columns + unit - 1, unit);
}

/* Returns the columns of positions that the taps of a filter row reach beyond the first. */
inline int64_t halo_of(const cut &c) {
  return c.how == WIDE ? (int64_t)(c.row_taps - 1) / c.period_x * c.step_x : c.how == BAND ? c.row_taps - 1 : 0;
}

inline void cut_positions(cut &c, const gconv_layer_problem *p, int32_t target) {
  const int64_t halo_x = halo_of(c), halo_y = (int64_t)(p->rows - 1) / c.period_y * c.step_y;
  const int32_t wide = c.how == BAND ? c.unit : 1;
  c.strips = target ? ceil_div(ceil_div(p->out_width, wide), target) : 1;
  c.strip = ceil_div(ceil_div(p->out_width, c.strips), wide) * wide;
  c.strips = ceil_div(p->out_width, c.strip);
  c.columns = c.strip / wide;
  /* Zeros to the right of a row (below an image) can also serve on the left of the next row (above the next image). */
  const auto unshared = [](bool possible, int64_t pad, int64_t out, int64_t halo, int64_t in) {
    return halo - (possible ? std::clamp<int64_t>(std::min(pad, out + halo - pad - in), 0, halo) : 0);
  };
  const bool whole = c.how == WIDE && c.strips == 1;
  c.pitch = (int32_t)(c.columns + unshared(whole && p->stride_x == 1, p->pad_left, p->out_width, halo_x, p->width));
  c.rows = (int32_t)(p->out_height + unshared(p->stride_y == 1, p->pad_top, p->out_height, halo_y, p->height));
  const int64_t strips = (int64_t)p->images * c.strips, strip = (int64_t)c.rows * c.pitch;
  const int64_t alone = ((int64_t)(p->out_height - 1) * c.pitch + c.columns + POSITIONS - 1) / POSITIONS;
  const int64_t joined = (strips * strip + POSITIONS - 1) / POSITIONS;
  c.segments = joined < alone * strips ? 1 : strips;
  c.segment_tiles = c.segments == 1 ? std::min(joined, alone * strips) : alone;
  c.segment_positions = strip;
  c.tiles = c.segments * c.segment_tiles;
  c.positions = strips * strip + POSITIONS + halo_y * c.pitch + halo_x;
}

/* Returns false if the chunk is too large to be staged. */
inline bool cut_chunk(cut &c, const gconv_layer_problem *p, int32_t units, int32_t rows) {
  c.chunk_units = units;
  c.chunk_rows = rows;
  c.channel_chunks = ceil_div(c.units, units);
  c.row_chunks = ceil_div(p->rows, rows);
  c.chunks = c.channel_chunks * c.row_chunks;
  c.phases_y = std::min(rows, c.period_y);
  c.planes = units * c.phases_y * c.variants;
  const int64_t length = POSITIONS + (int64_t)(rows - 1) / c.period_y * c.step_y * c.pitch + halo_of(c);
  if (length * c.planes * UNIT * c.digits > SHARED_BYTES / 2)
    return false;
  c.length = (int32_t)length;
  c.plane_bytes = (int32_t)(length * c.planes * UNIT);
  c.taps = units * rows * c.row_taps;
  c.steps = ceil_div(c.taps, TILE_UNITS);
  return c.taps <= 4096;
}

/* Returns the bytes of all planes of an execution. */
inline int64_t laid_bytes(const cut &c) {
  return (int64_t)c.digits * c.groups * c.units * c.phases * c.variants * c.positions * UNIT;
}

GCONV_BOTH int32_t table_bytes(const cut &c) { /* bytes of the entries of steps */
  return (c.steps * 4 + 127) / 128 * 128;
}

/* Decides what a block keeps in shared memory. Returns false if not even the smallest choice fits. */
inline bool cut_memory(cut &c) {
  const int32_t set_bytes = c.plane_bytes * c.digits * c.sets;
  const int32_t step_bytes = (CONSUMERS / c.sets) * c.digits * TILE_UNITS * ROWS * UNIT;
  const int32_t room = SHARED_BYTES - HEAD_BYTES - OUT_PLACE_BYTES - EXCHANGE_BYTES - table_bytes(c) - 128 - SLACK_BYTES;
  const int32_t all = c.steps * c.chunks;
  c.resident = c.splits == 1 && all <= MOST_SLOTS && room - all * step_bytes >= 2 * set_bytes;
  c.slots = c.resident ? all : LEAST_SLOTS;
  c.buffers = 0;
  for (int32_t steps = c.resident ? 1 : SLOT_STEPS; steps > 0 && c.buffers < 2; steps--)
    if (c.steps % steps == 0) {
      c.slot_steps = steps, c.slot_bytes = steps * step_bytes;
      c.buffers = std::min<int32_t>((room - c.slots * c.slot_bytes) / set_bytes, c.resident ? MOST_BUFFERS : 3);
    }
  if (c.buffers < 2)
    return false;
  /* A warpgroup that waits for its turn gives no buffer back, and one thread fills both sets, chunk by chunk. So meanwhile
   * the other warpgroup gets at most `buffers` chunks; with 2 sets one more, since the first set is filled first. With more
   * chunks in an item, both would wait forever. */
  c.alternate = c.resident && c.split_chunks <= c.buffers + (c.sets == 2);
  if (!c.resident)
    c.slots = std::min<int32_t>((room - c.buffers * set_bytes) / c.slot_bytes, 12);
  return true;
}

/* Returns whether the multiplying kernel itself adds the splits (meet_half()). Otherwise the next kernel adds them. */
inline bool is_joined(const cut &c) {
  return c.splits == 2;
}

/* Returns the number of tiles of ROWS filters by POSITIONS positions. */
inline int64_t sum_tiles(const cut &c) {
  return (int64_t)ceil_div(c.tiles, c.sets) * c.sets * c.filter_tiles * c.groups;
}

/* Estimates cycles: packing planes, then waves of items. The rates, in bytes a cycle of the whole device or of a block, were
 * measured on an H200. */
inline void estimate(cut &c, const gconv_layer_problem *p) {
  const double processors = PROCESSORS, outputs = (double)p->images * p->filters * p->out_height * p->out_width;
  const double inputs = (double)p->images * p->channels * p->height * p->width;
  const double multiplying = (double)c.split_chunks * c.steps * (c.digits == 2 ? 3 : 1) * 256;
  const double copying = (double)c.split_chunks *
                         (c.sets * c.digits * c.plane_bytes + (c.resident ? 0 : c.steps / c.slot_steps * c.slot_bytes)) / 20;
  /* Two cases of slow stores. If strips end within 32 bytes of memory, two tiles far apart write to these bytes, which took
   * twice as long. If rows begin within 32 bytes, each group of eight of BAND is stored to two pieces of 32 bytes, which
   * took 1.4 times as long. */
  const bool ragged = p->out_width % 8 != 0, torn = c.strips > 1 && (c.strip % 8 != 0 || ragged);
  const double storing = 4 * outputs / (double)c.items * c.splits / (torn ? 8 : c.how == BAND && ragged ? 12 : 17);
  const double item =
      std::max(std::max(multiplying * 1.08, copying), storing) + (c.resident ? 1000 : 4000) + 0.05 * (multiplying + copying);
  c.cycles = ceil((double)c.items / processors) * item + 6000;
  c.cycles += (4 * inputs + (double)laid_bytes(c)) / 1500 + 3000;
  if (c.splits > 1)
    c.cycles += (is_joined(c) ? 0 : (c.splits + 1) * 4 * outputs / 2000) + 4000;
}

/* Returns the bytes at the start of the workspace that are zero when an execution begins: for the largest sample of each
 * image and group, a flag of samples that are not finite and, if splits are joined, a word for each tile of sums. */
inline size_t zero_bytes(const cut &c, const gconv_layer_problem *p) {
  return ((size_t)p->images * p->groups + 1 + (is_joined(c) ? (size_t)sum_tiles(c) : 0)) * 4;
}
inline size_t scale_bytes(const cut &c, const gconv_layer_problem *p) {
  return (zero_bytes(c, p) + 255) / 256 * 256;
}
/* Returns the bytes for sums of splits. If splits are joined, only the first that is ready leaves its sums in memory. */
inline size_t partial_bytes(const cut &c, const gconv_layer_problem *p) {
  return c.splits == 1  ? 0
         : is_joined(c) ? (size_t)sum_tiles(c) * ROWS * POSITIONS * sizeof(float)
                        : (size_t)c.splits * p->images * p->filters * p->out_height * p->out_width * sizeof(float);
}

inline void cut_work(cut &best, cut c, const gconv_layer_problem *p) {
  const int32_t tiles = ceil_div((int64_t)c.filters * (c.how == BAND ? c.unit : 1), ROWS);
  for (c.sets = 1; c.sets <= CONSUMERS; c.sets++) {
    if (c.sets == 1 && tiles == 1)
      continue;
    const int32_t pairs = ceil_div(tiles, CONSUMERS / c.sets);
    c.filter_tiles = pairs * (CONSUMERS / c.sets);
    for (int32_t splits = 1; splits <= std::min(c.chunks, 16); splits++) {
      c.split_chunks = ceil_div(c.chunks, splits);
      if (ceil_div(c.chunks, c.split_chunks) != splits)
        continue;
      c.splits = splits;
      c.items = (int64_t)ceil_div(c.tiles, c.sets) * pairs * c.groups * splits;
      if (splits > 1 && partial_bytes(c, p) + scale_bytes(c, p) + (size_t)laid_bytes(c) > p->workspace_limit)
        break;
      if (!cut_memory(c))
        continue;
      estimate(c, p);
      if (c.cycles < best.cycles)
        best = c;
      if (c.items > 4 * PROCESSORS)
        break;
    }
  }
}

/* Returns a cut with the fields that do not depend on the mode. */
inline cut cut_nothing(const gconv_layer_problem *p, int32_t unit, int32_t digits) {
  cut c = {};
  c.unit = unit, c.digits = digits;
  c.channels = p->channels / p->groups, c.filters = p->filters / p->groups, c.groups = p->groups;
  c.period_y = p->stride_y / std::gcd(p->stride_y, p->dilation_y);
  c.period_x = p->stride_x / std::gcd(p->stride_x, p->dilation_x);
  c.step_y = p->dilation_y / std::gcd(p->stride_y, p->dilation_y);
  c.step_x = p->dilation_x / std::gcd(p->stride_x, p->dilation_x);
  return c;
}

/* Returns the cut with planes in memory that has the least estimated time. Its `cycles` are infinite if there is none. */
inline cut cut_planes(const gconv_layer_problem *p, int32_t unit, int32_t digits) {
  cut best = {}, c = cut_nothing(p, unit, digits);
  best.cycles = HUGE_VAL;
  for (mode how : {WIDE, NARROW, BAND}) {
    if ((how == WIDE && c.channels < 3) || (how == BAND && (p->stride_x > 1 || p->dilation_x > 1)))
      continue;
    c.how = how;
    c.row_taps = row_taps_of(how, unit, p->columns);
    c.variants = how == WIDE ? std::min(p->columns, c.period_x) : how == NARROW ? c.row_taps : 1;
    c.units = how == WIDE ? ceil_div(c.channels, unit) : c.channels;
    c.phases = std::min(p->rows, c.period_y);
    for (int32_t target : {0, 128, 64, 32, 16}) {
      cut_positions(c, p, target);
      if (c.positions >= INT32_MAX || c.tiles >= INT32_MAX / 2)
        continue;
      for (int32_t parts = 1, last = 0; last != 1; parts *= 2) {
        const int32_t rows = ceil_div(p->rows, parts);
        if (rows == last)
          continue;
        last = rows;
        for (int32_t units = 1; units <= 8 && units <= 2 * c.channels; units++)
          if (cut_chunk(c, p, units, rows))
            cut_work(best, c, p);
      }
    }
  }
  return best;
}

/* ---- Layers whose input streams past the weights (tensor_flow.cuh, tensor_points.cuh) ---- */

enum : int32_t {
  FLOW_HEAD_BYTES = 640,             /* for barriers and scales */
  LINE = 32,                         /* floats: 128 bytes */
  KEPT_PITCH = LINE + FLOW_TILE + 8, /* sums of a filter: an incomplete line of the previous tile, and the sums of a tile */
  KEPT_BYTES = 16 * KEPT_PITCH * 4   /* bytes that a warp keeps */
};

inline size_t flow_bytes(const cut &c) {
  return FLOW_HEAD_BYTES + CONSUMERS * 4 * KEPT_BYTES + (size_t)c.digits * c.plane_bytes + 128 + SLACK_BYTES;
}

/* Lists the taps of each step, two by two. They are in two planes at one row, or in one plane at two rows, so that their
 * distance is the same wherever the ring begins again. Returns the number of steps. A missing tap has row p->rows. */
inline int32_t list_flow_taps(const cut &c, const gconv_layer_problem *p, tap *taps) {
  int32_t count = 0;
  const int32_t units = c.chunk_units * c.row_taps;
  const auto add = [&](int32_t row, int32_t i, int32_t row_of) {
    const int32_t plane = (i / c.row_taps * c.phases_y + row % c.period_y) * c.variants + i % c.row_taps;
    if (taps)
      taps[count] = {i / c.row_taps, row_of, i % c.row_taps, plane * c.flow.length};
    count++;
  };
  for (int32_t row = 0; row < p->rows; row++)
    for (int32_t i = 0; i < units / 2 * 2; i++)
      add(row, i, row);
  for (int32_t row = 0; units % 2 && row < p->rows; row += 2) {
    const bool last = row + 1 == p->rows;
    add(row, units - 1, row);
    add(last ? row : row + 1, units - 1, row + 1);
  }
  return count;
}

/* Returns false if the second unit of a step would be before its first. */
inline bool cut_steps(cut &c, const gconv_layer_problem *p) {
  tap taps[2 * FLOW_STEPS];
  const int32_t count = list_flow_taps(c, p, taps);
  const auto down = [&](int32_t row) { return std::min(row, p->rows - 1) / c.period_y * c.step_y * c.pitch; };
  for (int32_t i = 0; i < count; i += 2) {
    const int32_t distance = taps[i + 1].at - taps[i].at + down(taps[i + 1].row) - down(taps[i].row);
    if (distance < 0)
      return false;
    c.flow.at[i / 2] = (uint32_t)taps[i].at | (uint32_t)distance << 16;
    c.flow.down[i / 2] = (uint32_t)down(taps[i].row);
  }
  return true;
}

/* Cuts the ring for the current strips. Returns false if it is too large. Taps of a single row reach no other slot: then
 * nothing is repeated, and there is room for more slots. */
inline bool cut_ring(cut &c, const gconv_layer_problem *p) {
  flow &f = c.flow;
  const int64_t reach = (int64_t)((p->rows - 1) / c.period_y) * c.step_y * c.pitch;
  if (reach > FLOW_SLOTS * FLOW_TILE)
    return false;
  f.halo = (FLOW_TILE - 1 + (int32_t)reach) / FLOW_TILE;
  f.slots = f.halo + (reach ? 2 : 4);
  f.repeated = reach ? FLOW_TILE : 0;
  if (c.chunk_units * c.row_taps % 2 && p->rows > 1 && c.period_y == 1)
    f.repeated += c.step_y * c.pitch;
  f.length = f.slots * FLOW_TILE + f.repeated;
  c.plane_bytes = c.planes * f.length * UNIT;
  return f.slots <= FLOW_SLOTS && f.repeated <= f.slots * FLOW_TILE && flow_bytes(c) <= SHARED_BYTES && cut_steps(c, p);
}

inline void cut_flow(cut &best, mode how, cut c, const gconv_layer_problem *p) {
  c.how = how;
  c.row_taps = c.variants = row_taps_of(how, c.unit, p->columns);
  c.units = how == WIDE ? ceil_div(c.channels, c.unit) : c.channels;
  c.steps = c.flow.steps = how == WIDE ? POINT_STEPS : FLOW_STEPS;
  c.phases = c.phases_y = std::min(p->rows, c.period_y);
  c.chunk_units = how == WIDE ? std::min<int32_t>(c.units, 2 * POINT_STEPS) : c.units;
  c.planes = c.chunk_units * c.phases * c.variants;
  c.chunk_rows = p->rows;
  c.chunks = c.channel_chunks = c.split_chunks = ceil_div(c.units, c.chunk_units);
  c.row_chunks = c.splits = 1;
  c.sets = c.chunks > 1 && c.filters <= ROWS ? 2 : 1;
  const int32_t filters = ROWS * CONSUMERS / c.sets; /* of a block */
  c.flow.pairs = ceil_div(c.filters, filters), c.filter_tiles = c.flow.pairs * (CONSUMERS / c.sets);
  if (c.unit != 8 || p->math == GCONV_MATH_BF16 || c.planes > 64 ||
      (how == WIDE ? p->rows * p->columns > 1 : c.filters <= ROWS))
    return;
  c.taps = list_flow_taps(c, p, NULL);
  if (c.taps > 2 * c.steps)
    return;
  double limit = best.cycles + (how == WIDE ? 10000 : 3500); /* cycles to launch kernels that a flow does not need */
  for (int32_t target : {0, 128, 64, 32}) {
    if (how == WIDE && target > 0)
      break; /* strips are of no use */
    cut_positions(c, p, target);
    c.positions = 0; /* no planes in memory */
    c.segments = how == WIDE ? 1 : (int64_t)p->images * c.strips;
    c.segment_tiles = ceil_div((how == WIDE ? p->images : 1) * (int64_t)p->out_height * c.columns, FLOW_TILE);
    c.tiles = c.items = c.segments * c.segment_tiles;
    if (c.items >= INT32_MAX / FLOW_TILE || !cut_ring(c, p))
      continue;
    /* Cycles of a tile, of packing before the first tile of a segment, and of a start were measured on an H200. */
    const double processors = PROCESSORS, pairs = c.flow.pairs * c.groups;
    const double tiles = ceil((double)c.items / std::max(floor(processors / pairs), 1.0));
    const bool torn = c.strips > 1 && (c.strip % 8 != 0 || p->out_width % 8 != 0);
    const double multiplying = filters * (double)c.chunks * c.steps * (c.digits == 2 ? 3 : 1) * (c.strips > 1 ? 1.3 : 1.12);
    const double storing = filters * (int32_t)FLOW_TILE * 4 / (torn ? 8.0 : 17.0);
    const double loading = c.chunks > 1 ? c.channels * (int32_t)FLOW_TILE * 4 / 17.0 / c.flow.pairs : 0;
    c.cycles = ceil(pairs / processors) * (tiles * std::max(multiplying, storing + loading) +
                                           (1 + tiles / (double)c.segment_tiles) * (c.flow.halo + 1) * 1000 + 12600);
    if (c.cycles < limit)
      best = c, limit = c.cycles;
  }
}

/* Returns the cut of a problem with the least estimated time. Its `cycles` are infinite if there is none. */
inline cut cut_problem(const gconv_layer_problem *p, int32_t unit, int32_t digits) {
  cut best = cut_planes(p, unit, digits);
  for (mode how : {NARROW, WIDE})
    cut_flow(best, how, cut_nothing(p, unit, digits), p);
  return best;
}

} // namespace tensor

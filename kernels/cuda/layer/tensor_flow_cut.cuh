/* SPDX-License-Identifier: MIT */
/* Decides which layers use tensor_flow.cuh, and cuts them. */
#pragma once

#include "tensor_cut.cuh"

namespace tensor {

enum : int32_t {
  FLOW_HEAD_BYTES = 640,             /* for barriers and scales */
  LINE = 32,                         /* floats: 128 bytes */
  KEPT_PITCH = LINE + FLOW_TILE + 8, /* sums of a filter: the rest of a line from the tile before, and those of a tile */
  KEPT_BYTES = 16 * KEPT_PITCH * 4   /* of a warp */
};

inline size_t flow_bytes(const cut &c) {
  return FLOW_HEAD_BYTES + CONSUMERS * 4 * KEPT_BYTES + (size_t)c.digits * c.plane_bytes + 128 + SLACK_BYTES;
}

/* Lists the taps of each step, two by two. They are in two planes at one row, or in one plane at two rows, so that their
 * distance is the same wherever the ring begins again. Returns the number of steps. A tap that does not exist has row
 * p->rows. */
inline int32_t list_flow_taps(const cut &c, const gconv_layer_problem *p, tap *taps) {
  int32_t count = 0;
  const int32_t units = c.units * c.row_taps;
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

/* Cuts the ring for the current strips. Returns false if it is too large. */
inline bool cut_ring(cut &c, const gconv_layer_problem *p) {
  flow &f = c.flow;
  const int64_t reach = (int64_t)((p->rows - 1) / c.period_y) * c.step_y * c.pitch;
  if (reach > FLOW_SLOTS * FLOW_TILE)
    return false;
  f.halo = (FLOW_TILE - 1 + (int32_t)reach) / FLOW_TILE;
  f.slots = f.halo + 2;
  f.repeated = FLOW_TILE + (c.units * c.row_taps % 2 && p->rows > 1 && c.period_y == 1 ? c.step_y * c.pitch : 0);
  f.length = f.slots * FLOW_TILE + f.repeated;
  c.plane_bytes = c.planes * f.length * UNIT;
  return f.slots <= FLOW_SLOTS && f.repeated <= f.slots * FLOW_TILE && flow_bytes(c) <= SHARED_BYTES && cut_steps(c, p);
}

inline void cut_flow(cut &best, cut c, const gconv_layer_problem *p) {
  c.how = NARROW;
  c.row_taps = c.variants = row_taps_of(NARROW, c.unit, p->columns);
  c.units = c.chunk_units = c.channels;
  c.phases = c.phases_y = std::min(p->rows, c.period_y);
  c.planes = c.units * c.phases * c.variants;
  c.chunk_rows = p->rows;
  c.channel_chunks = c.row_chunks = c.chunks = c.splits = c.split_chunks = 1;
  c.steps = c.flow.steps = FLOW_STEPS;
  c.sets = 1;
  c.flow.pairs = ceil_div(c.filters, CONSUMERS * ROWS), c.filter_tiles = c.flow.pairs * CONSUMERS;
  const int64_t samples = (int64_t)c.channels * p->height * p->width;
  c.flow.samples = samples <= FLOW_SAMPLES ? (int32_t)samples : 0;
  if (c.unit != 8 || c.digits != 2 || c.filters <= ROWS || c.planes > 64 || list_flow_taps(c, p, NULL) > 2 * FLOW_STEPS)
    return;
  /* With planes, a kernel of its own packs them, behind one that finds the largest samples. Their launches take so many
   * cycles. */
  double limit = best.cycles + (c.flow.samples ? 7000 : 3500);
  for (int32_t target : {0, 128, 64, 32}) {
    cut_positions(c, p, target);
    c.positions = 0; /* no planes in memory */
    c.segments = (int64_t)p->images * c.strips;
    c.segment_tiles = ceil_div((int64_t)p->out_height * c.columns, FLOW_TILE);
    c.tiles = c.items = c.segments * c.segment_tiles;
    if (c.items >= INT32_MAX / FLOW_TILE || !cut_ring(c, p))
      continue;
    /* Measured on an H200: cycles of a tile, of packing before the first tile of a segment, and of a start. */
    const double processors = PROCESSORS, filters = CONSUMERS * ROWS, pairs = c.flow.pairs * c.groups;
    const double tiles = ceil((double)c.items / std::max(floor(processors / pairs), 1.0));
    const bool torn = c.strips > 1 && (c.strip % 8 != 0 || p->out_width % 8 != 0);
    const double multiplying = filters * c.steps * 3 * (c.strips > 1 ? 1.3 : 1.12),
                 storing = filters * (int32_t)FLOW_TILE * 4 / (torn ? 8 : 17);
    c.cycles = ceil(pairs / processors) * (tiles * std::max(multiplying, storing) +
                                           (1 + tiles / (double)c.segment_tiles) * (c.flow.halo + 1) * 1000 + 12600);
    if (c.cycles < limit)
      best = c, limit = c.cycles;
  }
}

/* Returns the cut of a problem with the least estimated time. Its `cycles` are infinite if there is none. */
inline cut cut_problem(const gconv_layer_problem *p, int32_t unit, int32_t digits) {
  cut best = cut_planes(p, unit, digits);
  cut_flow(best, cut_nothing(p, unit, digits), p);
  return best;
}

} // namespace tensor

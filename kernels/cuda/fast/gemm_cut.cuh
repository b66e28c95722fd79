/* SPDX-License-Identifier: MIT */
/* gemm: cuts a problem into tiles and lays out shared memory, on the host. The kernel gets the result as one structure.
 * cut_cost() estimates the time of a cut, and cut_problem() takes the cheapest cut. */
#pragma once

#include "../core/launch.cuh"
#include "../core/store.cuh"

#include <math.h>

namespace {

enum : int32_t {
  MOST_WARPS = 8,              /* the most warps of a block */
  SHARED_BYTES = 46 * 1024,    /* shared bytes of a block, without asking the driver for more */
  STAGING_INSTRUCTIONS = 20,   /* for staging 32 samples */
  STORING_INSTRUCTIONS = 60,   /* for storing 128 samples */
  STARTING_INSTRUCTIONS = 400, /* to start a tile: a warp mostly waits for staged data in this time */
  ENOUGH_TILES = 1024,         /* tiles that keep a large GPU busy evenly */
  SKEW = 4                     /* unused floats after each group of sums that are exchanged */
};

/* All that a block needs to know. Its tile of outputs has rows x phases x groups places. A place is a group of V outputs,
 * and a thread takes one place, with F filters. There are F * filter_warps filters. */
struct cut : arguments {
  const float *weights;
  const float *taps; /* in the order of prepare() */

  int64_t tiles; /* planes of all images * row_tiles * column_tiles * phase_tiles * filter_blocks */
  int64_t row_tiles, column_tiles, phase_tiles;
  int32_t filter_tiles, filter_blocks; /* tiles of filters; blocks over which they are spread, 1 if responses are combined */
  int32_t filter_warps;                /* warps side by side, each with other filters */
  int32_t rows, phases, groups;        /* rows, phases and groups of a tile */
  int32_t passes;     /* tiles one below the other that a block stages together, and then processes one by one */
  int32_t out_step;   /* distance between the rows of a tile: the dilation, so that they share input rows */
  int32_t out_phases; /* phases of an output row: D; with strides: the channels */

  /* The taps that are staged at a time: some rows, or some columns of one row. */
  int32_t chunk_rows, chunk_columns;
  bool one_chunk; /* the chunk has all taps of all filters; a block stages it once */
  /* Staged rows are in_step input rows apart. For row i of the tile and tap row r of the chunk, the samples are in staged
   * row i * row_stride + r * tap_stride. */
  int32_t in_step, row_stride, tap_stride;
  /* Staged phases: sample v of phase f is input sample v * sample_step + f + f / channels * phase_skip, counted from the
   * first. Tap s of the chunk uses phase s % tap_phases (and its channel), from sample s / tap_phases on. tap_phases is 1
   * without strides. */
  int64_t sample_step, phase_skip;
  int32_t in_phases, tap_phases;

  /* Shared memory, in floats. Taps: tap_pitch for each. Samples: rows, then phases, then V windows; sample v of a phase is
   * at v % V * window_pitch + v / V (with strides: at v). Then the combined values. */
  int32_t tap_pitch, row_pitch, phase_pitch, window_pitch;
  int32_t tap_floats, sample_floats, value_floats;

  /* Storing. Sums that cannot be stored directly are exchanged in shared memory. */
  int32_t exchange_pitch; /* floats of the exchanged sums of a tile, for each warp of filters */
  int32_t exchange_at;    /* where exchanged sums begin: after the samples if these are still needed, otherwise over them */
  uint32_t group_inverse; /* 2^32 / (V * phases), rounded up */
  bool fours, plain;      /* outputs can be stored four at a time; the epilogue is only scale and offset */
};

/* How filters are spread over warps: in each of `tiles` tiles of filters, each of `warps` warps takes `each` filters. */
struct filter_cut {
  int32_t each, warps, tiles;
};

inline int32_t outputs_each(int32_t filters_each) {
  return filters_each >= 4 ? 8 : 16;
}

/* Returns the instructions of a thread for a tap. */
inline double tap_instructions(int32_t filters_each) {
  return filters_each * outputs_each(filters_each) + 4 + filters_each / 4.0;
}

/* Returns the cut of filters with the fewest instructions. Filters that only fill up a tile count, too. */
inline filter_cut cut_filters(int32_t filters) {
  filter_cut best = {};
  double best_cost = HUGE_VAL;
  for (int32_t each = 8; each >= 1; each /= 2) {
    filter_cut one = {each, 1, (int32_t)divide_up(filters, each * MOST_WARPS)};
    one.warps = (int32_t)divide_up(divide_up(filters, one.tiles), each);
    double cost = one.tiles * one.warps * tap_instructions(each) / outputs_each(each);
    if (cost < best_cost) {
      best_cost = cost;
      best = one;
    }
  }
  return best;
}

inline int32_t tap_pitch_of(const filter_cut &filters) {
  return (filters.each * filters.warps + 3) / 4 * 4;
}

/* Returns the least number from `count` on that equals `bank` modulo `banks`. */
inline int32_t pad_to_bank(int64_t count, int32_t bank, int32_t banks) {
  return (int32_t)(count + ((bank - count) % banks + banks) % banks);
}

/* Lays out shared memory for the chunk that is set. Returns its bytes. */
inline int64_t lay_out(cut &a, int32_t V, bool sliding) {
  const gconv_problem &problem = a.problem;
  a.tap_phases = sliding                                                         ? 1
                 : problem.dilation_x == 1 && problem.stride_x < a.chunk_columns ? problem.stride_x
                                                                                 : a.chunk_columns;
  a.in_phases = sliding ? a.phases : a.tap_phases * problem.channels;
  int64_t phase_floats = V * (int64_t)a.groups + (a.chunk_columns - 1) / a.tap_phases;
  if (sliding) { /* the pitch lets 32 lanes that stage neighbouring samples write to different banks */
    a.window_pitch = pad_to_bank(a.groups + divide_up(a.chunk_columns, V), 32 / V, 64 / V);
    phase_floats = (int64_t)V * a.window_pitch;
  }
  a.phase_pitch = pad_to_bank(phase_floats, a.groups % 32, 32);
  a.row_pitch = pad_to_bank((int64_t)a.in_phases * a.phase_pitch, a.phases * a.groups % 32, 32);
  int64_t rows = (int64_t)(a.rows * a.passes - 1) * a.row_stride + (int64_t)(a.chunk_rows - 1) * a.tap_stride + 1;
  int64_t taps = (int64_t)a.chunk_rows * a.chunk_columns * a.tap_pitch, samples = divide_up(rows * a.row_pitch, 4) * 4;
  a.exchange_pitch = a.rows * a.groups * (V * a.phases + SKEW);
  a.group_inverse = (uint32_t)(((int64_t)1 << 32) / (V * a.phases) + 1);
  int64_t exchanged = (int64_t)a.filter_warps * a.exchange_pitch;
  a.exchange_at = a.passes > 1 ? (int32_t)samples : 0;
  samples = a.passes > 1 ? samples + exchanged : samples < exchanged ? exchanged : samples;
  a.one_chunk = a.filter_tiles == 1 && a.chunk_rows == problem.rows && a.chunk_columns == problem.columns;
  a.tap_floats = (int32_t)taps;
  a.sample_floats = (int32_t)samples;
  a.value_floats = gconv_is_combined(&problem) ? a.exchange_pitch : 0;
  return (taps + samples + a.value_floats) * (int64_t)sizeof(float);
}

/* Sets the largest chunk of taps that fits into shared memory. Returns false if there is none. */
inline bool cut_taps(cut &a, int32_t V, bool sliding) {
  const int32_t columns = a.problem.columns, most = SHARED_BYTES / (int32_t)sizeof(float);
  a.chunk_rows = columns <= most ? a.problem.rows : 1;
  a.chunk_columns = columns <= most ? columns : most / V * V;
  while (lay_out(a, V, sliding) > SHARED_BYTES)
    if (a.passes > 1)
      return false; /* every pass needs all taps */
    else if (a.chunk_rows > 1)
      a.chunk_rows = (a.chunk_rows + 1) / 2;
    else if (a.chunk_columns > 1)
      a.chunk_columns = a.chunk_columns > 2 * V ? (a.chunk_columns / 2 + V - 1) / V * V : (a.chunk_columns + 1) / 2;
    else
      return false;
  return true;
}

/* Sets the rows of the tile, and its groups so that the tile fills `places` places. Counts the tiles. */
inline void cut_outputs(cut &a, int32_t V, int32_t places, int32_t rows, int32_t passes) {
  const gconv_problem &problem = a.problem;
  int64_t samples = (int64_t)problem.out_width * problem.channels, outputs = divide_up(samples, a.out_phases);
  int64_t groups = places / a.phases / rows, needed = divide_up(outputs, V);
  bool several = rows * passes > 1, stepped = problem.stride_y == 1 && several;
  a.rows = rows;
  a.passes = passes;
  a.groups = (int32_t)(groups < needed ? groups : needed);
  a.out_step = stepped ? problem.dilation_y : 1;
  a.in_step = stepped || !several ? problem.dilation_y : 1;
  a.row_stride = problem.stride_y == 1 || !several ? 1 : problem.stride_y;
  a.tap_stride = stepped || !several ? 1 : problem.dilation_y;
  a.row_tiles = divide_up(problem.out_height, (int64_t)rows * passes * a.out_step) * a.out_step;
  a.column_tiles = divide_up(outputs, (int64_t)V * a.groups);
  a.phase_tiles = divide_up(a.out_phases < samples ? a.out_phases : samples, a.phases);
  a.tiles = (int64_t)problem.images * problem.planes * a.row_tiles * a.column_tiles * a.phase_tiles * a.filter_blocks;
}

/* Returns the instructions of all tiles, for multiplying, staging and storing. Idle lanes of a warp count, too. */
inline double cut_cost(const cut &a, const filter_cut &filters) {
  const gconv_problem &problem = a.problem;
  const int32_t V = outputs_each(filters.each), warps = MOST_WARPS / filters.warps * filters.warps;
  double chunks = (double)divide_up(problem.rows, a.chunk_rows) * (double)divide_up(problem.columns, a.chunk_columns);
  double multiplying = tap_instructions(filters.each) * problem.rows * problem.columns * warps;
  int64_t staged_rows = (int64_t)(a.rows * a.passes - 1) * a.row_stride + (int64_t)(a.chunk_rows - 1) * a.tap_stride + 1;
  int64_t staged = (V * (int64_t)a.groups + (a.chunk_columns - 1) / a.tap_phases) * a.in_phases;
  double staging = chunks * (double)(staged_rows * divide_up(staged, 32)) * STAGING_INSTRUCTIONS;
  int64_t stored_rows = (int64_t)filters.each * filters.warps * a.rows;
  double storing = (double)(stored_rows * divide_up((int64_t)V * a.groups * a.phases, 128)) * STORING_INSTRUCTIONS;
  return (double)a.tiles * ((multiplying + storing) * a.passes + staging + STARTING_INSTRUCTIONS * warps);
}

/* Cuts a problem. Sets all but addresses. */
inline cut cut_problem(const gconv_problem *problem, const filter_cut &filters) {
  const int32_t V = outputs_each(filters.each), places = MOST_WARPS / filters.warps * 32;
  const bool sliding = problem->stride_x == 1;
  cut a = {}, best = {};
  a.problem = *problem;
  a.filter_tiles = filters.tiles;
  a.filter_warps = filters.warps;
  a.filter_blocks = gconv_is_combined(problem) ? 1 : filters.tiles;
  a.tap_pitch = tap_pitch_of(filters);
  int64_t step = (int64_t)(sliding ? problem->dilation_x : problem->stride_x) * problem->channels;
  a.out_phases = sliding ? (int32_t)step : problem->channels;
  a.phases = a.out_phases < places ? a.out_phases : places;
  a.sample_step = step;
  a.phase_skip = sliding ? 0 : (int64_t)(problem->dilation_x - 1) * problem->channels;
  /* Values combined over several tiles of filters are held for one pass only. With strides, several passes were slower. */
  const int32_t most_passes = !sliding || (gconv_is_combined(problem) && filters.tiles > 1) ? 1 : 8;
  double best_cost = HUGE_VAL;
  for (int32_t rows = 1; rows <= places / a.phases; rows++)
    for (int32_t passes = 1; passes <= most_passes; passes *= 2) {
      cut_outputs(a, V, places, rows, passes);
      if ((passes > 1 && a.tiles < ENOUGH_TILES) || !cut_taps(a, V, sliding))
        break;
      double cost = cut_cost(a, filters);
      if (cost < best_cost) {
        best_cost = cost;
        best = a;
      }
    }
  return best;
}

} // namespace

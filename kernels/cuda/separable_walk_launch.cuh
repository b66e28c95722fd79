/* SPDX-License-Identifier: MIT */
/* separable, floats and one filter of rank 1: which problems separable_walk.cuh takes, their taps as matrices, and launches.
 */
#pragma once

#include "launch.cuh"
#include "separable_walk.cuh"

#include <math.h>

#include <algorithm>

namespace {

/* Returns whether the epilogue of a filter is only scale and offset. */
inline bool is_plain(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  float unscale = gconv_prepared(problem, execution->host_weights)[filter];
  return !gconv_is_combined(problem) && gconv_is_plain(epilogue) && are_bare(execution, filter, 1) && unscale > 0x1p-60f &&
         unscale < 0x1p60f && fabsf(epilogue->scale) < 0x1p20f &&
         (epilogue->scale == 0 || fabsf(epilogue->scale) > 0x1p-20f);
}

namespace walk {

/* ---- The shape of a problem ---- */

constexpr int COUNTS[] = {2, 3, 4, 5, 9}; /* GROUPS of the instances */
/* Turns that are compiled as constants. They are those of square filters with the rows of COUNTS, on planes, and on three
 * and four interleaved channels. */
constexpr int FIXED = 3;
constexpr int FIXED_TURNS[][FIXED] = {{2, 3, 4}, {2, 4, 5}, {3, 6, 8}, {3, 7, 9}, {5, 13, 17}};
constexpr int WALKS = sizeof COUNTS / sizeof *COUNTS;
constexpr int MOST_TURNS = 17;
constexpr int LOW_PIECE = 14; /* steps of a low piece, measured on an H200 */

/* Returns the index in COUNTS of the instance that holds the column, or WALKS if none does. */
inline int walk_of(const gconv_problem *problem) {
  int i = 0;
  while (i < WALKS && reach_y(problem) + 8 > 8 * COUNTS[i])
    i++;
  return i;
}

/* Returns the products of 16 samples for an output along the row, with `shift` zeros before its taps. The number is rounded
 * up to a compiled one, if there is one. */
inline int turns_with(const gconv_problem *problem, int64_t shift) {
  const int64_t reach = (int64_t)(problem->columns - 1) * problem->dilation_x * problem->channels + shift;
  const int64_t turns = (reach + TILE - 1) / TILE + 1;
  for (const int fixed : FIXED_TURNS[walk_of(problem)])
    if (turns <= fixed)
      return fixed;
  return turns > MOST_TURNS ? MOST_TURNS + 1 : (int)turns;
}

/* Returns the zeros before the taps of a row. With them, windows begin at multiples of 8 samples, which is faster for
 * memory; or of 4 samples, if that takes fewer products. */
inline int32_t shift_of(const gconv_problem *problem) {
  const int32_t before = (int32_t)((int64_t)problem->pad_left * problem->channels % 8), eight = (8 - before) % 8;
  return turns_with(problem, eight) > turns_with(problem, eight % 4) ? eight % 4 : eight;
}

inline int turns_of(const gconv_problem *problem) {
  return turns_with(problem, shift_of(problem));
}

/* Words of a filter. They are before the samples in shared memory. */
inline int fragment_words(const gconv_problem *problem) {
  return (2 * turns_of(problem) + COUNTS[walk_of(problem)] + 1) * LANES;
}

/* Words of a row in shared memory. */
inline int pitch_of(const gconv_problem *problem) {
  return pitch_for(warps_of(COUNTS[walk_of(problem)]), turns_of(problem));
}

/* Bytes of shared memory: fragments, steps, and offsets of patches. */
inline size_t shared_bytes(const gconv_problem *problem) {
  return (size_t)(fragment_words(problem) + (SLOTS * ROWS + 1) * pitch_of(problem)) * sizeof(uint4);
}

/* Returns which of FIXED_TURNS the problem has along the row, or FIXED if it is another number. */
inline int fixed_of(const gconv_problem *problem) {
  const int(&turns)[FIXED] = FIXED_TURNS[walk_of(problem)];
  return (int)(std::find(turns, turns + FIXED, turns_of(problem)) - turns);
}

/* Returns whether convolve() takes the problem. */
inline bool takes(const gconv_problem *problem) {
  return problem->in_type == GCONV_F32 && (problem->structure.rank == 0 || problem->structure.rank == 1) &&
         !gconv_is_combined(problem) && walk_of(problem) < WALKS && turns_of(problem) <= MOST_TURNS &&
         (fixed_of(problem) < FIXED || COUNTS[walk_of(problem)] <= 5) &&
         shared_bytes(problem) + 64 <= shared_limit(); /* 64 bytes are those of the kernel itself */
}

/* ---- Weights ---- */

/* Writes the fragments of a filter. First for each turn those of T, high parts, then low parts: lane 4g + t has rows 2g and
 * 2g + 1, and columns 4t to 4t + 3 in the order in which a lane reads samples. Then for each group of eight output rows,
 * from the last that 16 input rows reach, the matrix of the column, high parts and low parts: lane 4g + t has output row g,
 * and input rows 2t, 2t + 1, 2t + 8 and 2t + 9. Returns the factor that undoes the scale of the taps. */
inline float write_filter(const gconv_problem *problem, const float *factors, uint4 *words) {
  const int R = problem->rows, S = problem->columns, turns = turns_of(problem), eights = COUNTS[walk_of(problem)] + 1;
  const float *column = factors, *row = factors + R;
  exponents e;
  if (!find_exponents(row, S, column, R, (double)LARGEST_LEVEL, &e))
    return 1;
  const int common = e.first + e.second > 126 ? 126 : e.first + e.second < -126 ? -126 : e.first + e.second;
  digit_writer writer = {false};
  for (int lane = 0; lane < LANES; lane++) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 8 * turns; i++) {
      const int sample = i / 8 * TILE + 4 * t + i / 4 % 2 * 2 + i % 2 - shift_of(problem) - (2 * g + i / 2 % 2);
      writer.write((__half *)(words + i / 8 * 2 * LANES + lane) + i % 8, LANES * 8,
                   tap_at(row, S, problem->dilation_x * problem->channels, sample, e.first));
    }
    for (int i = 0; i < 4 * eights; i++) {
      const int down = 8 * (i / 4 - 1 + i / 2 % 2) + 2 * t + i % 2 - g;
      writer.write((__half *)(words + (2 * turns + i / 4) * LANES + lane) + i % 4, 4,
                   tap_at(column, R, problem->dilation_y, down, common - e.first));
    }
  }
  return (float)ldexp(1.0, -common);
}

inline size_t prepared_floats(const gconv_problem *problem) {
  return header_floats(problem) + (size_t)problem->filters * (size_t)fragment_words(problem) * 4;
}

/* Writes all filters. `factors` are those of factor.h. */
inline void write_filters(const gconv_problem *problem, const float *factors, float *prepared) {
  memset(prepared, 0, prepared_floats(problem) * sizeof(float));
  uint4 *words = (uint4 *)(prepared + header_floats(problem));
  const size_t floats = gconv_factor_floats(problem) / (size_t)problem->filters; /* all taps are 0 */
  for (size_t k = 0; floats > 0 && k < (size_t)problem->filters; k++)
    prepared[k] = write_filter(problem, factors + k * floats, words + k * (size_t)fragment_words(problem));
}

/* See tensor_bound(). */
inline double error_bound(const gconv_problem *problem) {
  const double along = direction_bound(problem->columns, turns_of(problem));
  const double down = direction_bound(problem->rows, COUNTS[walk_of(problem)] / 2 + 1);
  return problem->structure.residual + problem->structure.growth * ((1 + down) * (1 + along) - 1);
}

/* ---- Launching ---- */

/* Returns the steps of a block's pieces, if `blocks` blocks share the image, such that the longest share is short. It is
 * about an equal share of all steps; each lane counts with its lead. */
inline int32_t fair_piece(const walk_arguments &a, int64_t blocks) {
  const int64_t equal = (int64_t)(a.steps + a.lead) * a.lanes / blocks, sharing = blocks - (int64_t)a.rounds * a.lanes;
  int64_t best = 0, least = INT64_MAX;
  for (int64_t piece = equal; piece <= equal + 1; piece++) {
    const int64_t rest = a.steps - a.rounds * piece, share = ((rest < 0 ? 0 : rest + a.lead) * a.lanes - 1) / sharing + 1;
    const int64_t longest = share < piece + a.lead ? piece + a.lead : share;
    if (longest < least) {
      least = longest;
      best = piece;
    }
  }
  return (int32_t)best;
}

/* Decides which blocks process which pieces. Returns their number, if the device holds `most` at a time. Problems that are
 * bound by memory take low pieces: then neighbouring blocks read the same rows at the same time, and blocks may differ in
 * speed. Problems whose columns take more rows to begin take equal shares. */
inline int64_t share_out(walk_arguments &a, int groups, int64_t most) {
  const int64_t all = (int64_t)a.lanes * a.steps, blocks = all < most ? all : most;
  if (groups <= 3 && all > 20 * most) {
    a.piece = LOW_PIECE;
    a.rounds = (a.steps - 1) / a.piece + 1;
    return (int64_t)a.rounds * a.lanes;
  }
  a.rounds = (int32_t)((blocks - 1) / a.lanes); /* one block for the rest, or more */
  a.piece = fair_piece(a, blocks);
  return blocks;
}

inline walk_arguments make_arguments(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const float *prepared = gconv_prepared(problem, execution->weights);
  const int32_t C = problem->channels, width = warps_of(COUNTS[walk_of(problem)]) * SPAN;
  walk_arguments a = {};
  a.common = common_arguments(execution);
  a.common.out += filter * a.common.out_filter;
  a.weights = execution->weights;
  a.fragments = (const uint4 *)(prepared + header_floats(problem)) + (int64_t)filter * fragment_words(problem);
  a.filter = filter;
  a.turns = turns_of(problem);
  a.pitch = pitch_of(problem);
  a.left = -(problem->pad_left * C + shift_of(problem));
  a.samples = problem->out_width * C;
  a.reach = a.samples + ((problem->columns - 1) * problem->dilation_x - problem->pad_left) * C;
  a.across = (a.samples - 1) / width + 1;
  a.lanes = a.across * problem->images * problem->planes;
  a.unscale = gconv_prepared(problem, execution->host_weights)[filter];
  a.divisor = gconv_divisors(problem, execution->host_weights)[filter];
  a.bias = gconv_biases(problem, execution->host_weights)[filter];
  a.factor = a.unscale * problem->epilogue.scale;
  a.plain = is_plain(execution, filter) && problem->out_type == GCONV_F32 && !problem->keep_alpha &&
            is_dense<false>(execution) && begins_at_multiples(execution, 8);
  return a;
}

template <int GROUPS, int TURNS> void launch(const gconv_execution *execution, int32_t filter) {
  constexpr int THREADS = warps_of(GROUPS) * LANES;
  const gconv_problem *problem = execution->problem;
  walk_arguments a = make_arguments(execution, filter);
  const size_t bytes = shared_bytes(problem);
  a.steps = (problem->out_height - 1) / ROWS + 1;
  a.lead = GROUPS / 2 + 1;
  const int64_t blocks = share_out(a, GROUPS, blocks_at_a_time<convolve<GROUPS, TURNS>>(THREADS, bytes));
  convolve<GROUPS, TURNS><<<(unsigned)blocks, THREADS, bytes, (cudaStream_t)execution->stream>>>(a);
}

typedef void launcher(const gconv_execution *, int32_t filter);

/* The instances, by COUNTS and by FIXED_TURNS. The last of each takes any number of turns. */
launcher *const instances[WALKS][FIXED + 1] = {{launch<2, 2>, launch<2, 3>, launch<2, 4>, launch<2, 0>},
                                               {launch<3, 2>, launch<3, 4>, launch<3, 5>, launch<3, 0>},
                                               {launch<4, 3>, launch<4, 6>, launch<4, 8>, launch<4, 0>},
                                               {launch<5, 3>, launch<5, 7>, launch<5, 9>, launch<5, 0>},
                                               {launch<9, 5>, launch<9, 13>, launch<9, 17>, NULL}};

/* Runs all filters of a problem. */
inline void execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  for (int32_t k = 0; k < problem->filters; k++)
    instances[walk_of(problem)][fixed_of(problem)](execution, k);
}

} // namespace walk
} // namespace

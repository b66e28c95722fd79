/* SPDX-License-Identifier: MIT */
/* separable, floats and one filter of rank 1: which problems separable_walk.cuh takes, their taps as matrices, and launches.
 */
#ifndef GCONV_CUDA_SEPARABLE_WALK_LAUNCH_CUH
#define GCONV_CUDA_SEPARABLE_WALK_LAUNCH_CUH

#include "separable_launch.cuh"
#include "separable_walk.cuh"

namespace {
namespace walk {

/* ---- The shape of a problem ---- */

constexpr int COUNTS[] = {2, 3, 5, 9};      /* GROUPS of the instances */
constexpr int FIXED_TURNS[] = {2, 2, 3, 5}; /* what square filters of so many rows take */
constexpr int WALKS = sizeof COUNTS / sizeof *COUNTS;
constexpr int MOST_TURNS = 17;

/* Which of COUNTS holds the column; WALKS if none does. */
inline int walk_of(const gconv_problem *problem) {
  int i = 0;
  while (i < WALKS && reach_y(problem) + 8 > 8 * COUNTS[i])
    i++;
  return i;
}

/* Zeros before the taps of a row, so that windows begin at multiples of four samples. */
inline int32_t shift_of(const gconv_problem *problem) {
  return (int32_t)((4 - (int64_t)problem->pad_left * problem->channels % 4) % 4);
}

/* Products of 16 samples that an output needs along the row: as many as are compiled for, or more. */
inline int turns_of(const gconv_problem *problem) {
  const int64_t reach = (int64_t)(problem->columns - 1) * problem->dilation_x * problem->channels + shift_of(problem);
  const int64_t turns = (reach + TILE - 1) / TILE + 1;
  const int least = FIXED_TURNS[walk_of(problem)];
  return turns < least ? least : turns > MOST_TURNS ? MOST_TURNS + 1 : (int)turns;
}

/* Words in front of the samples in shared memory; global memory has those of columns twice, down and up. */
inline int fragment_words(const gconv_problem *problem, int ways) {
  return (2 * turns_of(problem) + ways * (COUNTS[walk_of(problem)] + 1)) * LANES;
}

/* Words of a row in shared memory. */
inline int pitch_of(const gconv_problem *problem) {
  return pitch_for(warps_of(COUNTS[walk_of(problem)]), turns_of(problem));
}

/* Fragments, steps, and offsets of patches. */
inline size_t shared_bytes(const gconv_problem *problem) {
  return (size_t)(fragment_words(problem, 1) + (SLOTS * ROWS + 1) * pitch_of(problem)) * sizeof(uint4);
}

/* Whether an instance knows how many products an output of such a problem takes along the row. */
inline bool is_compiled(const gconv_problem *problem) {
  return turns_of(problem) == FIXED_TURNS[walk_of(problem)];
}

/* Whether convolve() is to take the problem. */
inline bool takes(const gconv_problem *problem) {
  return problem->in_type == GCONV_F32 && (problem->structure.rank == 0 || problem->structure.rank == 1) &&
         !gconv_is_combined(problem) && walk_of(problem) < WALKS && turns_of(problem) <= MOST_TURNS &&
         (is_compiled(problem) || COUNTS[walk_of(problem)] <= 5) &&
         shared_bytes(problem) + 64 <= shared_limit(); /* 64: of its own */
}

/* ---- Weights ---- */

/*
 * The fragments of a filter. For each turn those of T, high parts, then low ones: lane 4g + t has rows 2g and 2g + 1, and of
 * the columns, which are in the order in which a lane reads samples, 4t to 4t + 3. Then for each eight of output rows, from
 * the last that 16 input rows reach on, the matrix of the column, high parts and low ones: lane 4g + t has output row g,
 * input rows 2t, 2t + 1, 2t + 8 and 2t + 9. Then the same upside down. Returns what takes sums back.
 */
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
    for (int i = 0; i < 8 * eights; i++) {
      const int down = 8 * (i / 8 - 1 + i / 2 % 2) + 2 * t + i % 2 - g;
      uint4 *to = words + (2 * turns + i / 8 + i / 4 % 2 * eights) * LANES + lane;
      writer.write((__half *)to + i % 4, 4,
                   tap_at(column, R, problem->dilation_y, i / 4 % 2 ? reach_y(problem) - down : down, common - e.first));
    }
  }
  return (float)ldexp(1.0, -common);
}

inline size_t prepared_floats(const gconv_problem *problem) {
  return header_floats(problem) + (size_t)problem->filters * (size_t)fragment_words(problem, 2) * 4;
}

/* `factors` are those of factor.h. */
inline void write_filters(const gconv_problem *problem, const float *factors, float *prepared) {
  memset(prepared, 0, prepared_floats(problem) * sizeof(float));
  uint4 *words = (uint4 *)(prepared + header_floats(problem));
  const size_t floats = gconv_factor_floats(problem) / (size_t)problem->filters; /* 0 if all taps are 0 */
  for (size_t k = 0; floats > 0 && k < (size_t)problem->filters; k++)
    prepared[k] = write_filter(problem, factors + k * floats, words + k * (size_t)fragment_words(problem, 2));
}

/* See tensor_bound(). */
inline double error_bound(const gconv_problem *problem) {
  const double along = direction_bound(problem->columns, turns_of(problem));
  const double down = direction_bound(problem->rows, COUNTS[walk_of(problem)] / 2 + 1);
  return problem->structure.residual + problem->structure.growth * ((1 + down) * (1 + along) - 1);
}

/* ---- Launching ---- */

/* Output rows of a block: of the numbers of strips that fill the device a whole number of times, the one that takes the
 * least time, which is in proportion to the steps of a block times the number of fillings; but low ones, as memory likes
 * rows side by side and the last blocks are to be short. */
inline int32_t strip_of(const gconv_problem *problem, int64_t columns_of_blocks, int64_t blocks_at_a_time) {
  const int64_t all = ((int64_t)problem->out_height - 1) / ROWS + 1, lead = (reach_y(problem) + ROWS - 1) / ROWS + 2;
  const int64_t most = reach_y(problem) < 17 ? 14 : 27; /* steps, as measured on an H200 */
  int64_t best = all < most ? all : most, best_cost = INT64_MAX;
  for (int64_t fillings = 1; fillings <= 16; fillings++) {
    int64_t strips = fillings * blocks_at_a_time / columns_of_blocks;
    strips = strips < 1 ? 1 : strips > all ? all : strips;
    const int64_t steps = (all - 1) / strips + 1;
    const int64_t needed = (((all - 1) / steps + 1) * columns_of_blocks - 1) / blocks_at_a_time + 1;
    if (steps <= most && (steps + lead) * needed < best_cost) {
      best_cost = (steps + lead) * needed;
      best = steps;
    }
  }
  return (int32_t)best * ROWS;
}

/* Whether outputs are floats side by side, in rows of aligned pairs. */
inline bool has_pairs(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const gconv_target *out = execution->out;
  const uintptr_t places = (uintptr_t)out->base | (uintptr_t)out->row | (uintptr_t)out->plane | (uintptr_t)out->image;
  return problem->out_type == GCONV_F32 && places % 8 == 0 && !problem->keep_alpha &&
         execution->out_pixel == problem->channels * (int64_t)sizeof(float) && execution->out_channel == sizeof(float);
}

inline walk_arguments make_arguments(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const float *prepared = gconv_prepared(problem, execution->weights);
  const int32_t C = problem->channels, width = warps_of(COUNTS[walk_of(problem)]) * SPAN;
  walk_arguments a = {};
  a.common = common_arguments(execution);
  a.common.out += filter * a.common.out_filter;
  a.weights = execution->weights;
  a.fragments = (const uint4 *)(prepared + header_floats(problem)) + (int64_t)filter * fragment_words(problem, 2);
  a.filter = filter;
  a.turns = turns_of(problem);
  a.pitch = pitch_of(problem);
  a.left = -(problem->pad_left * C + shift_of(problem));
  a.samples = problem->out_width * C;
  a.reach = a.samples + ((problem->columns - 1) * problem->dilation_x - problem->pad_left) * C;
  a.lead = reach_y(problem);
  a.across = (a.samples - 1) / width + 1;
  a.unscale = gconv_prepared(problem, execution->host_weights)[filter];
  a.divisor = gconv_divisors(problem, execution->host_weights)[filter];
  a.bias = gconv_biases(problem, execution->host_weights)[filter];
  a.factor = a.unscale * problem->epilogue.scale;
  a.plain = is_plain(execution, filter) && has_pairs(execution) && a.common.out_filter % 8 == 0;
  return a;
}

template <int GROUPS, int TURNS> void launch(const gconv_execution *execution, int32_t filter) {
  constexpr int THREADS = warps_of(GROUPS) * LANES;
  const gconv_problem *problem = execution->problem;
  walk_arguments a = make_arguments(execution, filter);
  const size_t bytes = shared_bytes(problem);
  const int64_t sheets = (int64_t)problem->images * problem->planes;
  const int blocks = blocks_of_multiprocessor<convolve<GROUPS, TURNS>>(THREADS, bytes);
  a.strip = strip_of(problem, a.across * sheets, (int64_t)device_attribute(cudaDevAttrMultiProcessorCount, 1) * blocks);
  a.strips = (problem->out_height - 1) / a.strip + 1;
  convolve<GROUPS, TURNS><<<(unsigned)(a.across * a.strips * sheets), THREADS, bytes, (cudaStream_t)execution->stream>>>(a);
}

typedef void launcher(const gconv_execution *, int32_t filter);

/* The instances: by COUNTS, and by whether FIXED_TURNS are enough. */
launcher *const instances[WALKS][2] = {
    {launch<2, 2>, launch<2, 0>}, {launch<3, 2>, launch<3, 0>}, {launch<5, 3>, launch<5, 0>}, {launch<9, 5>, NULL}};

/* All filters of a problem that it takes. */
inline void execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  for (int32_t k = 0; k < problem->filters; k++)
    instances[walk_of(problem)][!is_compiled(problem)](execution, k);
}

} // namespace walk
} // namespace

#endif

/* SPDX-License-Identifier: MIT */
/* separable: filters as columns times rows, on tensor cores. Both directions are computed in one kernel, of which there are
 * two versions. The kernel of separable_walk.cuh goes from top to bottom. It takes float images and filters of rank 0 or 1
 * that are not combined, of at most 65 rows and some 257 samples of a row (walk::takes()). The kernel of
 * separable_tensor.cuh goes from left to right, and takes all other problems. */
#include "base/status.h"
#include "separable_walk.cuh"
#include "separable_weights.cuh"

#include <math.h>
#include <stdlib.h>

#include <algorithm>

namespace {

/* Returns whether one factor (the epilogue's scale times the inverse of the filter's own scale) and an offset finish its
 * sums. The limits keep the product of these factors a normal float. */
inline bool finishes_at_once(const gconv_execution *execution, int32_t filter) {
  const float unscale = gconv_prepared(execution->problem, execution->host_weights)[filter];
  const float scale = fabsf(execution->problem->epilogue.scale);
  return is_plain(execution, filter, 1) && unscale > 0x1p-60f && unscale < 0x1p60f && scale < 0x1p20f &&
         (scale == 0 || scale > 0x1p-20f);
}

/* Launches filter `filter`, or all filters if they are combined. */
typedef void launcher(const gconv_execution *, int32_t filter);

/* ---- Downwards: separable_walk.cuh ---- */

namespace walk {

/* ---- The shape of a problem ---- */

constexpr int COUNTS[] = {2, 3, 4, 5, 9}; /* GROUPS of the instances */
/* Numbers of chunks that are compiled as constants, by COUNTS. They suit the largest square filters on planes, and on three
 * and four interleaved channels. 4 suits wider filters of few rows. */
constexpr int FIXED = 3;
constexpr int FIXED_CHUNKS[][FIXED] = {{2, 3, 4}, {2, 4, 5}, {3, 6, 7}, {3, 7, 9}, {5, 13, 17}};
constexpr int WALKS = sizeof COUNTS / sizeof *COUNTS;
constexpr int MOST_CHUNKS = 17;
constexpr int LOW_PIECE = 14; /* steps of a low piece, measured on an H200 */

/* Returns the index in COUNTS of the instance that holds the column, or WALKS if none does. */
inline int walk_of(const gconv_problem *problem) {
  int i = 0;
  while (i < WALKS && reach_y(problem) + 8 > 8 * COUNTS[i])
    i++;
  return i;
}

/* Returns how many products of a chunk of 16 samples an output takes along the row, with `shift` zeros before the taps. The
 * number is rounded up to the next of FIXED_CHUNKS, if there is one. */
inline int chunks_with(const gconv_problem *problem, int64_t shift) {
  const int64_t reach = (int64_t)(problem->columns - 1) * problem->dilation_x * problem->channels + shift;
  const int64_t chunks = (reach + CHUNK - 1) / CHUNK + 1;
  for (const int fixed : FIXED_CHUNKS[walk_of(problem)])
    if (chunks <= fixed)
      return fixed;
  return chunks > MOST_CHUNKS ? MOST_CHUNKS + 1 : (int)chunks;
}

/* Returns how many zeros are put before the taps of a row. They make windows begin at multiples of 8 samples, which load
 * faster, or at multiples of 4, if that takes fewer products. */
inline int32_t shift_of(const gconv_problem *problem) {
  const int32_t before = (int32_t)((int64_t)problem->pad_left * problem->channels % 8), eight = (8 - before) % 8;
  return chunks_with(problem, eight) > chunks_with(problem, eight % 4) ? eight % 4 : eight;
}

inline int row_chunks(const gconv_problem *problem) {
  return chunks_with(problem, shift_of(problem));
}

inline int fragment_words(const gconv_problem *problem) {
  return fragment_words(COUNTS[walk_of(problem)], row_chunks(problem));
}

inline int pitch_of(const gconv_problem *problem) {
  return pitch_for(warps_of(COUNTS[walk_of(problem)]), row_chunks(problem));
}

/* Returns the bytes of shared memory, for fragments, steps, and offsets of singles. */
inline size_t shared_bytes(const gconv_problem *problem) {
  return (size_t)(fragment_words(problem) + (SLOTS * ROWS + 1) * pitch_of(problem)) * sizeof(uint4);
}

/* Returns which of FIXED_CHUNKS the problem has along the row, or FIXED if its number is not among them. */
inline int fixed_of(const gconv_problem *problem) {
  const int(&chunks)[FIXED] = FIXED_CHUNKS[walk_of(problem)];
  return (int)(std::find(chunks, chunks + FIXED, row_chunks(problem)) - chunks);
}

/* Returns whether convolve() takes the problem. */
inline bool takes(const gconv_problem *problem) {
  return problem->in_type == GCONV_F32 && (problem->structure.rank == 0 || problem->structure.rank == 1) &&
         !gconv_is_combined(problem) && walk_of(problem) < WALKS && row_chunks(problem) <= MOST_CHUNKS &&
         shared_bytes(problem) <= shared_limit();
}

/* ---- Weights ---- */

/* Writes the fragments of a filter. First, for each chunk, come fragments of T, high parts, then low parts: lane 4g + t has
 * rows 2g and 2g + 1, and columns 4t to 4t + 3 in the order in which a lane reads samples. Then the matrix of the column
 * follows for each group of eight output rows that 16 input rows reach, from the last group on, with high parts and low
 * parts: lane 4g + t has output row g, and input rows 2t, 2t + 1, 2t + 8 and 2t + 9. Returns the taps' inverse scale. */
inline float write_filter(const gconv_problem *problem, const float *factors, __half *to, digit_writer *writer) {
  const int R = problem->rows, S = problem->columns, chunks = row_chunks(problem), eights = COUNTS[walk_of(problem)] + 1;
  const float *column = factors, *row = factors + R;
  exponents e;
  if (problem->structure.rank == 0)
    return 0;
  if (!find_exponents(row, S, column, R, (double)LARGEST_LEVEL, &e))
    return 1;
  const int common = e.first + e.second > 126 ? 126 : e.first + e.second < -126 ? -126 : e.first + e.second;
  for (int lane = 0; lane < LANES; lane++) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 8 * chunks; i++) {
      const int sample = i / 8 * CHUNK + 4 * t + i / 4 % 2 * 2 + i % 2 - shift_of(problem) - (2 * g + i / 2 % 2);
      writer->write(to + (i / 8 * 2 * LANES + lane) * 8 + i % 8, LANES * 8,
                    tap_at(row, S, (int64_t)problem->dilation_x * problem->channels, sample, e.first));
    }
    for (int i = 0; i < 4 * eights; i++) {
      const int down = 8 * (i / 4 - 1 + i / 2 % 2) + 2 * t + i % 2 - g;
      writer->write(to + ((2 * chunks + i / 4) * LANES + lane) * 8 + i % 4, 4,
                    tap_at(column, R, problem->dilation_y, down, common - e.first));
    }
  }
  return (float)ldexp(1.0, -common);
}

/* ---- Launching ---- */

/* Returns how many steps a piece has if `blocks` blocks share the image, such that the longest share is short. This is about
 * an equal share of all steps, where each track includes its lead. A share that begins inside a track repeats the steps of
 * the lead. These are not counted, because nearly all shares begin so. */
inline int32_t fair_piece(const walk_arguments &a, int64_t blocks) {
  const int64_t equal = (int64_t)(a.steps + a.lead) * a.tracks / blocks, sharing = blocks - (int64_t)a.rounds * a.tracks;
  int64_t best = 0, least = INT64_MAX;
  for (int64_t piece = equal; piece <= equal + 1; piece++) {
    const int64_t rest = a.steps - a.rounds * piece, share = ((rest < 0 ? 0 : rest + a.lead) * a.tracks - 1) / sharing + 1;
    const int64_t longest = share < piece + a.lead ? piece + a.lead : share;
    if (longest < least) {
      least = longest;
      best = piece;
    }
  }
  return (int32_t)best;
}

/* Decides which blocks process which pieces. Returns the number of blocks. The device holds `most` blocks at a time. Large
 * problems that are bound by memory take low pieces, others equal shares. */
inline int64_t share_out(walk_arguments &a, int groups, int64_t most) {
  const int64_t all = (int64_t)a.tracks * a.steps, blocks = all < most ? all : most;
  if (groups <= 3 && all > 20 * most) {
    a.piece = LOW_PIECE;
    a.rounds = (a.steps - 1) / a.piece + 1;
    return (int64_t)a.rounds * a.tracks;
  }
  a.rounds = (int32_t)((blocks - 1) / a.tracks); /* so that at least one block shares the remaining steps */
  a.piece = fair_piece(a, blocks);
  return blocks;
}

inline walk_arguments make_arguments(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const float *prepared = gconv_prepared(problem, execution->weights);
  const int32_t C = problem->channels, width = warps_of(COUNTS[walk_of(problem)]) * SPAN;
  walk_arguments a = {};
  static_cast<arguments &>(a) = common_arguments(execution);
  a.out += filter * a.out_filter;
  a.weights = execution->weights;
  a.fragments = (const uint4 *)(prepared + header_floats(problem)) + (int64_t)filter * fragment_words(problem);
  a.filter = filter;
  a.chunks = row_chunks(problem);
  a.pitch = pitch_of(problem);
  a.left = -(problem->pad_left * C + shift_of(problem));
  a.samples = problem->out_width * C;
  a.reach = a.samples + ((problem->columns - 1) * problem->dilation_x - problem->pad_left) * C;
  a.across = (a.samples - 1) / width + 1;
  a.tracks = a.across * problem->images * problem->planes;
  a.unscale = gconv_prepared(problem, execution->host_weights)[filter];
  a.divisor = gconv_divisors(problem, execution->host_weights)[filter];
  a.bias = gconv_biases(problem, execution->host_weights)[filter];
  a.factor = a.unscale * problem->epilogue.scale;
  a.plain = finishes_at_once(execution, filter) && problem->out_type == GCONV_F32 && !problem->keep_alpha &&
            is_dense<false>(execution);
  return a;
}

template <int GROUPS, int CHUNKS> void launch(const gconv_execution *execution, int32_t filter) {
  constexpr int THREADS = warps_of(GROUPS) * LANES;
  const gconv_problem *problem = execution->problem;
  walk_arguments a = make_arguments(execution, filter);
  const size_t bytes = shared_bytes(problem);
  a.steps = (problem->out_height - 1) / ROWS + 1;
  a.lead = GROUPS / 2 + 1;
  const int64_t blocks = share_out(a, GROUPS, blocks_at_a_time<convolve<GROUPS, CHUNKS>>(THREADS, bytes));
  convolve<GROUPS, CHUNKS><<<(unsigned)blocks, THREADS, bytes, (cudaStream_t)execution->stream>>>(a);
}

/* The instances, by COUNTS and by FIXED_CHUNKS. The last instance of each row takes any number of chunks. */
launcher *const instances[WALKS][FIXED + 1] = {{launch<2, 2>, launch<2, 3>, launch<2, 4>, launch<2, 0>},
                                               {launch<3, 2>, launch<3, 4>, launch<3, 5>, launch<3, 0>},
                                               {launch<4, 3>, launch<4, 6>, launch<4, 7>, launch<4, 0>},
                                               {launch<5, 3>, launch<5, 7>, launch<5, 9>, launch<5, 0>},
                                               {launch<9, 5>, launch<9, 13>, launch<9, 17>, NULL}};

} // namespace walk

/* ---- To the right: separable_tensor.cuh ---- */

/* Returns how many strips a block has: no more than the image has, and no more than shared memory holds. If possible, two
 * blocks fit into the shared memory of a multiprocessor. */
int strips_of(const gconv_problem *problem) {
  static const int most[] = {8, 4, 4, 4}; /* by channels: 8 to 16 warps */
  separable_arguments unused;
  int channels = convolved_channels(problem), wide = GROUP_COUNTS[size_of(problem)] > 9;
  int strips = wide ? 8 / channels : most[channels - 1];
  int64_t all = ((int64_t)problem->out_height - 1) / STRIP + 1;
  strips = strips < all ? strips : (int)all;
  while (strips > 1 && lay_out(problem, strips, &unused) > shared_limit() * (strips > 2 ? 1 : 2) / 2)
    strips--;
  return strips;
}

/* Returns the output columns of a block. Before its first output, a block spends 2 steps and the groups of a window. */
int segment_of(const gconv_problem *problem, int groups, int64_t rows_of_blocks, int64_t blocks_at_a_time) {
  const int step = step_of_type(problem->in_type), lead = (groups - 1) * GROUP + 2 * step;
  const int64_t steps = ((int64_t)problem->out_width - 1) / step + 1;
  return (int)choose_strip(steps, lead, rows_of_blocks, blocks_at_a_time, 0, step) * step;
}

separable_arguments make_arguments(const gconv_execution *execution, int32_t filter, size_t *bytes) {
  const gconv_problem *problem = execution->problem;
  const float *prepared = gconv_prepared(problem, execution->weights);
  separable_arguments a = {};
  static_cast<arguments &>(a) = common_arguments(execution);
  a.out += filter * a.out_filter;
  a.weights = execution->weights;
  a.unscales = prepared;
  a.unscale = gconv_prepared(problem, execution->host_weights)[filter];
  a.first_filter = filter;
  a.left = left_of(problem);
  a.plain = finishes_at_once(execution, filter);
  a.dense = is_dense<true>(execution);
  *bytes = lay_out(problem, strips_of(problem), &a);
  const int words = step_of_type(problem->in_type) * problem->channels * (int)gconv_type_bytes(problem->out_type) /
                    (problem->out_type == GCONV_U8 ? 8 : 16);
  a.rows_at_once =
      a.channels * LANES % words == 0 && STRIP * words % (a.channels * LANES) == 0 ? a.channels * LANES / words : 0;
  a.fragments = (const uint4 *)(prepared + header_floats(problem)) + (int64_t)filter * a.pairs * pair_words(problem);
  return a;
}

template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY> void launch(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  size_t bytes;
  separable_arguments a = make_arguments(execution, filter, &bytes);
  const int threads = a.strips * a.channels * LANES;
  a.row_blocks = (problem->out_height - 1) / (a.strips * STRIP) + 1;
  int64_t rows_of_blocks = (int64_t)a.row_blocks * problem->images * problem->planes;
  a.segment = segment_of(problem, GROUPS, rows_of_blocks,
                         blocks_at_a_time<convolve<In, WEIGHT_DIGITS, GROUPS, MANY>>(threads, bytes));
  a.segments = (problem->out_width - 1) / a.segment + 1;
  convolve<In, WEIGHT_DIGITS, GROUPS, MANY>
      <<<(unsigned)(rows_of_blocks * a.segments), threads, bytes, (cudaStream_t)execution->stream>>>(a);
}

/* The instances: by the digits of taps and the type of samples, by the groups of a window (GROUP_COUNTS), and by whether
 * windows are in shared memory. */
#define BOTH(In, digits, groups)                                                                                            \
  { launch<In, digits, groups, false>, launch<In, digits, groups, true> }
#define SHARED(In, groups)                                                                                                  \
  { NULL, launch<In, 2, groups, true> }
#define WINDOWS(In, smallest)                                                                                               \
  { smallest, BOTH(In, 2, 3), BOTH(In, 2, 5), BOTH(In, 2, 9), SHARED(In, 17), SHARED(In, 33) }
#define NONE                                                                                                                \
  { NULL, NULL }
launcher *const instances[3][SIZES][2] = {WINDOWS(uint8_t, BOTH(uint8_t, 2, 2)), WINDOWS(uint16_t, NONE),
                                          WINDOWS(float, NONE)};
launcher *const one_digit[SIZES][2] = {BOTH(uint8_t, 1, 2), BOTH(uint8_t, 1, 3)};

launcher *launcher_of(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const bool exact = gconv_prepared(problem, execution->host_weights)[problem->filters] == 1;
  const int size = size_of(problem), shared = is_shared(problem);
  const bool one = exact && problem->in_type == GCONV_U8 && one_digit[size][shared];
  return one ? one_digit[size][shared] : instances[problem->in_type][size][shared];
}

/* ---- Both kernels ---- */

/* 16-byte words of the fragments of a filter. */
size_t filter_words(const gconv_problem *problem) {
  return walk::takes(problem) ? (size_t)walk::fragment_words(problem)
                              : (size_t)pairs_of(problem) * (size_t)pair_words(problem);
}

size_t prepared_floats(const gconv_problem *problem) {
  return header_floats(problem) + (size_t)problem->filters * filter_words(problem) * 4;
}

/* Writes all filters. factors: from gconv_factor_filters(). */
void write_filters(const gconv_problem *problem, const float *factors, float *prepared) {
  const auto write = walk::takes(problem) ? walk::write_filter : write_filter;
  const size_t filters = (size_t)problem->filters, factor_floats = gconv_factor_floats(problem) / filters;
  digit_writer writer = {false};
  memset(prepared, 0, prepared_floats(problem) * sizeof(float));
  __half *fragments = (__half *)(prepared + header_floats(problem));
  for (size_t k = 0; k < filters; k++)
    prepared[k] = write(problem, factors + k * factor_floats, fragments + k * filter_words(problem) * 8, &writer);
  prepared[filters] = writer.low_needed ? 2 : 1;
}

gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  float *factors = (float *)calloc(gconv_factor_floats(problem) + 1, sizeof(float));
  if (!factors)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the factors of the filters");
  gconv_status status = gconv_factor_filters(problem, taps, factors);
  if (status == GCONV_OK)
    write_filters(problem, factors, prepared);
  free(factors);
  return status;
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  launcher *launch_filter =
      walk::takes(problem) ? walk::instances[walk::walk_of(problem)][walk::fixed_of(problem)] : launcher_of(execution);
  for (int32_t filter = 0; filter < problem->filters; filter += launched_filters(problem))
    launch_filter(execution, filter);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* ---- The descriptor ---- */

/* Adds up direction_bound() of both directions. */
double error_bound(const gconv_problem *problem) {
  const bool walks = walk::takes(problem);
  const double rank = walks ? 1 : problem->structure.rank;
  const double chunks = walks ? walk::COUNTS[walk::walk_of(problem)] / 2 + 1 : chunks_of(problem);
  const double row = walks ? walk::row_chunks(problem) : rank * (GROUP_COUNTS[size_of(problem)] + 1) / 2.0;
  const double down = direction_bound(problem->rows, chunks), along = direction_bound(rank * problem->columns, row);
  return problem->structure.residual + problem->structure.growth * ((1 + down) * (1 + along) - 1);
}

const char *supports(const gconv_problem *problem) {
  separable_arguments unused;
  const char *obstacle = gconv_factor_obstacle(problem);
  if (obstacle)
    return obstacle;
  if (problem->stride_y != 1 || problem->stride_x != 1)
    return "strides other than 1";
  if ((int64_t)(problem->rows - 1) * problem->dilation_y > 256 || size_of(problem) == SIZES)
    return "filters that reach over more than some 256 pixels";
  if (!is_level(problem))
    return "a constant border between the levels of the input";
  if (error_bound(problem) > 1e-3)
    return "its columns and rows would lose too many digits";
  if ((int64_t)launched_filters(problem) * pairs_of(problem) > 64 || lay_out(problem, 1, &unused) > shared_limit())
    return "its factors would take more shared memory than there is";
  /* A block has at least 16 rows by some 32 columns. Positions are 32-bit numbers. */
  int64_t planes = (int64_t)problem->images * problem->planes;
  if (planes * (problem->out_height / STRIP + 1) > INT32_MAX / 64 || problem->out_width > INT32_MAX / 64)
    return "more blocks than a launch takes";
  return NULL;
}

/* Returns the cost of a sample in the kernel to the right, measured on an H200 in multiply-adds of float32. It is the sum of
 * three parts: loading and storing the sample, which costs more if channels are separated; exchanging it between the two
 * directions, for each pair; and its products, which tensor cores do 8 times as fast. */
double right_work(const gconv_problem *problem) {
  const bool bytes = problem->in_type == GCONV_U8;
  double carried = (bytes ? 30 : 70) * (problem->channels == 1 ? 1 : bytes ? 1.6 : 2.4);
  double products = (bytes ? 2 : 3) * STRIP * chunks_of(problem) + 3 * GROUP * GROUP_COUNTS[size_of(problem)];
  return carried + launched_filters(problem) * pairs_of(problem) * (25 + products / 8);
}

/* Returns the cost of a sample in the kernel downwards. Tensor cores do products 4 times as fast; other work counts as 4. */
double down_work(const gconv_problem *problem) {
  return 4 + 3.0 * (walk::CHUNK * walk::row_chunks(problem) + 8 * (walk::COUNTS[walk::walk_of(problem)] + 1)) / 4;
}

/* Returns the factor by which filters of more than 67 rows or columns slow the kernel to the right, beyond their work: their
 * factors leave room for few blocks. An H200 took 3 times as long at 101, 4 to 5 times at 127 and 12 times at 201; for
 * floats, 6 times at 101. */
double crowding(const gconv_problem *problem) {
  const double longest = problem->rows > problem->columns ? problem->rows : problem->columns;
  return longest <= 67 ? 1 : longest / 34 * fmax(1.0, longest / 127) * (problem->in_type == GCONV_F32 ? 2 : 1);
}

/* Filling and emptying the pipeline takes 10 us; to the right with floats, it was 38 us on small images. To the right,
 * problems of several filters took 1.6 to 2.4 times the estimate. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const bool walks = walk::takes(problem);
  const double samples = (double)samples_of(problem), launches = problem->filters / launched_filters(problem);
  const double work = walks ? down_work(problem) : right_work(problem) * crowding(problem);
  const double compute = samples * work / machine->fma_per_ms;
  const double moved = (double)(gconv_type_bytes(problem->in_type) + gconv_type_bytes(problem->out_type));
  const double memory = samples * moved / ((walks ? 0.88 : 0.8) * machine->bytes_per_ms);
  const double filling = !walks && problem->in_type == GCONV_F32 ? 0.038 : 0.01;
  return launches * (machine->launch_ms + filling + fmax(compute, memory)) * (!walks && problem->filters > 1 ? 1.8 : 1);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_separable = {
    .info = {"separable", "cuda", "columns times rows of filters of low rank", false},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};

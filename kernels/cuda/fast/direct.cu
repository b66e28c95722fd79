/* SPDX-License-Identifier: MIT */
/*
 * direct: multiply and add, tap by tap, in the order of the definition (r, then s). This is the exact family. There are
 * several kernels; each takes problems that the kernels before it cannot take.
 *
 * patch (direct_slide.cuh): 3 x 3 and 5 x 5 on planes of floats (one channel), which are bound by memory; and filters to 7 x
 * 7 on small images of one channel, which are bound by latency. Windows of floats must begin at multiples of four samples,
 * as with the usual padding of K / 2; otherwise slide takes them. A thread loads all of its rows at once.
 *
 * slide (direct_slide.cuh): square filters to 17 x 17, and on integers any filter to 17 x 17; without stride and dilation.
 * Sums slide down the rows in registers.
 *
 * tiled takes the others, or direct-classic if tiled refuses: larger filters, filters of floats that are not square, two
 * channels, strides, dilations, and responses that are combined (except the magnitude of a pair).
 *
 * direct is the fastest for filters to about 9 x 9 without zeros or structure, and for larger ones if bits must not change.
 * It does 2 * R * S flop a sample: 42 to 49 TFLOP/s on an H200 from 9 x 9 on. Smaller filters are bound by memory, or, for
 * bytes, by the instructions that unpack and pack them.
 */
#include "direct_slide.cuh"

#include <math.h>

namespace {

/* ---- Choosing ---- */

/* Returns how many outputs of a row a thread of slide() makes, as measured on an H200. More outputs share the cost of a row;
 * fewer leave registers for more warps, which hide the latency of memory. */
template <class In, int K, int C> constexpr int slide_width() {
  if (sizeof(In) == 1)
    return K <= 3 ? 16 : K <= 7 || (K == 11 && C == 1) ? 8 : 4;
  return sizeof(In) == 4 && C == 1 && (K <= 3 || K == 5 || K == 11 || K == 13) ? 8 : 4;
}

/* The patches of an instance. width: outputs of a row. blocks: how many must fit the registers of a multiprocessor. */
struct patch_shape {
  int width, rows, blocks; /* 0 rows: there is no such instance */
};

/* Returns the patches for large images, which are bound by memory. Measured on an H200. */
template <class In, int K, int C> constexpr patch_shape large_patch() {
  const bool float_plane = sizeof(In) == 4 && C == 1;
  return float_plane && K == 3 ? patch_shape{4, 4, 4} : float_plane && K == 5 ? patch_shape{4, 10, 4} : patch_shape{0, 0, 0};
}

/* Returns the patches for small images of one channel. They exist for plain epilogues only. */
template <class In, int K, int C, bool PLAIN> constexpr patch_shape small_patch() {
  if (C > 1 || (K != 3 && K != 5 && K != 7) || !PLAIN)
    return {0, 0, 0};
  return sizeof(In) == 1            ? patch_shape{8, 2, 4}
         : sizeof(In) == 4 && K > 3 ? patch_shape{4, 4, K == 5 ? 4 : 3}
                                    : patch_shape{0, 0, 0};
}

/* Returns whether the image is so small that threads would have few rows to slide down: at most 1024 * `kilosamples`
 * output samples for each multiprocessor. */
bool is_small(const gconv_problem *problem, int64_t kilosamples) {
  const int64_t samples = (int64_t)problem->out_width * problem->channels * problem->out_height;
  return samples * problem->images * problem->planes <= kilosamples * 1024 * multiprocessors();
}

/* Launches one filter whose windows begin at multiples of four samples. An image is small if it has at most 16 K
 * samples for each multiprocessor, or 32 K if there are no patches for large images. */
template <class In, int K, int C, bool PLAIN>
void launch_filter(const gconv_execution *execution, int32_t shift, int32_t filter) {
  constexpr patch_shape large = large_patch<In, K, C>(), small = small_patch<In, K, C, PLAIN>();
  if constexpr (small.rows > 0)
    if (is_small(execution->problem, large.rows > 0 ? 16 : 32)) {
      launch_patches<In, K, C, small.width, small.rows, small.blocks, PLAIN>(execution, shift, filter);
      return;
    }
  if constexpr (large.rows > 0)
    launch_patches<In, K, C, large.width, large.rows, large.blocks, PLAIN>(execution, shift, filter);
  else
    launch_slide<In, K, C, slide_width<In, K, C>(), 1, PLAIN, true>(execution, shift, filter);
}

/* Plain epilogues have instances of their own where the epilogue is a large part of the work, and for planes of floats,
 * which are the most frequent images. Pairs of filters slide only with plain epilogues, 4 outputs a thread. */
template <class In, int K, int C> void launch_size(const gconv_execution *execution, int32_t shift) {
  constexpr bool FLOAT_PLANE = sizeof(In) == 4 && C == 1, SMALL = sizeof(In) != 2 && K <= 7, PLAIN = SMALL || FLOAT_PLANE;
  if constexpr (SMALL)
    if (is_plain_pair(execution, K)) {
      launch_slide<In, K, C, 4, 2, true, true>(execution, shift, 0);
      return;
    }
  for (int32_t k = 0; k < execution->problem->filters; k++)
    /* BY_FOUR = !FLOAT_PLANE is false here. For other types, the dead branch then names an instance that exists anyway. */
    if (FLOAT_PLANE && !lies_by_four(execution->problem, K, shift))
      launch_slide<In, K, C, slide_width<In, K, C>(), 1, false, !FLOAT_PLANE>(execution, shift, k);
    else if (PLAIN && has_plain_type(execution->problem) && is_plain(execution, k, 1))
      launch_filter<In, K, C, PLAIN>(execution, shift, k);
    else
      launch_filter<In, K, C, false>(execution, shift, k);
}

typedef void size_launcher(const gconv_execution *, int32_t shift);

/* The instances, by type, channels (1, 3, 4) and size (3, 5 .. 17). For planes of floats there are even sizes, too. */
#define SIZES(In, C)                                                                                                        \
  {                                                                                                                         \
    launch_size<In, 3, C>, launch_size<In, 5, C>, launch_size<In, 7, C>, launch_size<In, 9, C>, launch_size<In, 11, C>,     \
        launch_size<In, 13, C>, launch_size<In, 15, C>, launch_size<In, 17, C>                                              \
  }
#define CHANNELS(In)                                                                                                        \
  { SIZES(In, 1), SIZES(In, 3), SIZES(In, 4) }
size_launcher *const sliding[3][3][8] = {CHANNELS(uint8_t), CHANNELS(uint16_t), CHANNELS(float)};
size_launcher *const sliding_even[8] = {launch_size<float, 2, 1>,  launch_size<float, 4, 1>,  launch_size<float, 6, 1>,
                                        launch_size<float, 8, 1>,  launch_size<float, 10, 1>, launch_size<float, 12, 1>,
                                        launch_size<float, 14, 1>, launch_size<float, 16, 1>};

/* Returns the algorithm that takes the problems that do not slide. */
const gconv_algorithm *other(const gconv_problem *problem) {
  return gconv_algorithm_cuda_tiled.supports(problem) ? &gconv_algorithm_cuda_direct_classic : &gconv_algorithm_cuda_tiled;
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const frame square = find_frame(problem);
  const int32_t row = problem->channels == 1 ? 0 : problem->channels - 2; /* the row of CHANNELS() for 1, 3 or 4 channels */
  if (problem->channels == 2 || !slides(execution, square))
    return other(problem)->execute(execution);
  (square.size % 2 == 0 ? sliding_even[square.size / 2 - 1]
                        : sliding[problem->in_type][row][square.size / 2 - 1])(execution, square.shift);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* ---- The descriptor ---- */

/* Returns the side of the frame with which slide() takes the problem, or 0 if it does not. This is an estimate: it checks
 * only some of the conditions of slides(). */
int32_t sliding_size(const gconv_problem *problem) {
  const int32_t size = find_frame(problem).size, C = problem->channels;
  const bool strided = (problem->stride_y | problem->stride_x | problem->dilation_y | problem->dilation_x) > 1;
  const bool narrow = (int64_t)problem->out_width * C < 64 || (int64_t)problem->width * C < 64 + 2 * size * C;
  const bool combined = problem->filters > 1 && gconv_is_combined(problem);
  const bool pair =
      problem->filters == 2 && size <= 7 && problem->epilogue.combine == GCONV_COMBINE_MAGNITUDE && has_plain_type(problem);
  return strided || narrow || C == 2 || (combined && !pair) ? 0 : size;
}

const gconv_algorithm *leaves_to(const gconv_problem *problem) {
  return sliding_size(problem) == 0 ? other(problem) : NULL;
}

/* Counts instructions, measured on an H200. A device issues as many instructions as multiply-adds. Three of four
 * instructions of slide() are multiply-adds, and 93 of 100 cycles issue one (15 x 15, ncu): hence 1.42 for a tap. A problem
 * that another algorithm takes costs a little more than by that algorithm's own name, so that auto uses that name. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const int32_t size = sliding_size(problem);
  if (size == 0)
    return other(problem)->cost(problem, machine) + 0.001;
  const double filters = problem->filters, taps = (double)problem->rows * problem->columns;
  const double samples = gconv_problem_flop(problem) / (2 * taps * filters),
               passes = gconv_is_combined(problem) ? 1 : filters;
  const double in_bytes = (double)gconv_type_bytes(problem->in_type);
  const double out_bytes = (double)gconv_type_bytes(problem->out_type);
  /* Small images cannot fill a device. At 1024^2 they take 6 times as long as the rate says, at 256^2 64 times (measured).
   * Pairs of filters slow down as much. */
  const double share = 6e6 / (samples + 1), idle = fmin(sqrt(1 + share * share), 64);
  const double arithmetic = samples * filters * (1.42 * size * size + 15) * idle / machine->fma_per_ms;
  return machine->launch_ms * passes +
         fmax(arithmetic, samples * passes * (in_bytes + out_bytes) / (0.9 * machine->bytes_per_ms));
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_direct = {
    .info = {"direct", "cuda", "sums in registers, taps as operands, every tap in order", true},
    .supports = gconv_takes_all,
    .execute = execute,
    .cost = cost,
    .leaves_to = leaves_to,
    .error_bound = gconv_chain_bound,
};

/* SPDX-License-Identifier: MIT */
/*
 * direct-classic: the first kernel of every course. A thread makes one output sample, from global memory.
 *
 *      input                       output
 *      . . . . . . . .             . . . . . . . .        thread (q, p) reads the R x S samples under the filter, tap
 *      . +-------+ . .             . . . . . . . .        by tap, and writes one:
 *      . | R x S | . .    ---->    . . . Y . . . .
 *      . |       | . .             . . . . . . . .            y(p, q) = sum over r, s of
 *      . +-------+ . .             . . . . . . . .                      tap[r][s] * x(p + r - R/2, q + s - S/2)
 *
 * Arithmetic: 2 R S flop per output. Bytes: R S samples are read, but neighbouring threads read nearly the same ones. So the
 * caches serve all reads of a sample but the first. Memory moves 8 bytes per output (f32), the least that is possible.
 *
 * The bound is neither memory nor arithmetic, but the instructions around each multiply-add. A tap takes dozens: is the
 * place above, below, left or right of the image? where is it? load it, load the tap, convert the sample. On an H200, 73
 * were counted for each multiply-add (7 x 7, f32): 61 in the loop over s (by its machine code), the others once per row or
 * once per output. A multiprocessor issues 128 instructions of threads per cycle, whatever they do, so this kernel reaches
 * 1% of the peak.
 *
 * The taps are kernel parameters, which lie in constant memory: all threads of a warp want the same tap at the same time,
 * and get it in one access. (A __constant__ array would do as well. But there is one for the whole program, and a second
 * convolution in another stream would overwrite it.) Taps that do not fit there are read from global memory.
 */
#include "direct.cuh"

namespace {

gconv_status execute(const gconv_execution *execution) {
  const bool fit = gconv_tap_count(execution->problem) <= CONSTANT_TAPS;
  return launch_by_types(execution->problem, [&](auto in, auto out) {
    auto *start =
        fit ? launch<float, decltype(in), decltype(out), CONSTANT_TAPS> : launch<float, decltype(in), decltype(out), 1>;
    start(execution);
  });
}

/* Counts 25 instructions for a tap: an early guess, a third of what was counted. `auto` never takes a classic algorithm;
 * direct uses this cost for problems that it leaves to the classic one. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return classic_ms(problem, machine, 25.0 * problem->rows * problem->columns + 60);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_direct_classic = {
    .info = {"direct-classic", "cuda", "a thread an output, from global memory: to learn from", true},
    .supports = gconv_takes_all,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .classic = true,
};

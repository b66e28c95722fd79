/* SPDX-License-Identifier: MIT */
/*
 * direct64: direct-classic with sums in float64, for filters whose sums would lose digits in float32.
 *
 * A thread makes one output sample, tap by tap. The product of a tap and a sample is exact, and a sum of n of them is off by
 * n * 2^-53; it is rounded to float32 once. Taps are added in the order of the definition, so direct64 of the CPU has the
 * same bits. `auto` takes it where the bounds of faster algorithms are too large.
 */
#include "direct.cuh"

namespace {

gconv_status execute(const gconv_execution *execution) {
  return launch_by_types(execution->problem,
                         [&](auto in, auto out) { launch<double, decltype(in), decltype(out), 1>(execution); });
}

/* Counts 80 instructions for a tap: the 73 of direct-classic, conversions and a product of float64. On an H200, launches and
 * float64 make it 2.1 times as long. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return 2.1 * classic_ms(problem, machine, 80.0 * problem->rows * problem->columns + 60);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_direct64 = {
    .info = {"direct64", "cuda", "all taps, with sums in float64, where float32 would lose digits", false},
    .supports = gconv_takes_all,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_float64_bound,
    .leaves_out_marks = true,
};

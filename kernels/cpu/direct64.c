/* SPDX-License-Identifier: MIT */
/*
 * direct64: all taps, with sums in float64.
 *
 * A chain of float32 loses digits as it grows: a million products of one sign may be off by some percent. In float64, the
 * product of a tap and a sample is exact, because it has 24 + 24 bits, and a sum of n products is off by n * 2^-53. The sum
 * is rounded to float32 once. So results are as good as float32 can be, for filters of any size, and any stride, dilation
 * and border. It takes about twice as long as direct does row by row. `auto` takes it where the bounds of
 * faster algorithms are too large.
 *
 * As products are exact, it does not matter whether a processor has fused multiply-adds: the bits are the same on all of
 * them, and on GPUs. They differ from the bits of the exact family, which sums float32.
 */
#include "base/cpu.h"
#include "kernels/cpu/window.h"
#include "tile.h"

#include <string.h>

/* Vector types of the compiler, which maps them to the registers that the processor has. */
enum { LANES = 8, SIDE = 4 }; /* SIDE vectors of LANES sums are in registers at a time */
typedef float floats __attribute__((vector_size(LANES * sizeof(float))));
typedef double doubles __attribute__((vector_size(LANES * sizeof(double))));

/* Sets sums[x] to the sum over r, s of taps[r][s] * rows[r][offsets[s] + first + x], for all x < samples. */
GCONV_VECTOR_LOOP(add_taps,
                  (const float *const *rows, const int64_t *offsets, const float *taps, int32_t R, int32_t S, size_t first,
                   size_t samples, float *sums),
                  (rows, offsets, taps, R, S, first, samples, sums)) {
  for (size_t x = 0; x < samples; x += LANES * SIDE) {
    doubles sum[SIDE] = {{0}};
    const float *tap = taps;
    for (int32_t r = 0; r < R; r++)
      for (int32_t s = 0; s < S; s++, tap++) {
        const float *from = rows[r] + offsets[s] + first + x;
        for (int i = 0; i < SIDE; i++) {
          floats samples_of_tap;
          memcpy(&samples_of_tap, from + i * LANES, sizeof samples_of_tap);
          sum[i] += (double)*tap * __builtin_convertvector(samples_of_tap, doubles);
        }
      }
    for (int i = 0; i < SIDE; i++) {
      floats rounded = __builtin_convertvector(sum[i], floats);
      memcpy(sums + x + (size_t)i * LANES, &rounded, sizeof rounded);
    }
  }
}

static void make_piece(const gconv_window *window) {
  const gconv_problem *problem = window->execution->problem;
  const size_t plane = (size_t)problem->rows * (size_t)problem->columns;
  for (size_t k = 0; k < (size_t)problem->filters; k++)
    for (int32_t j = 0; j < window->count; j++)
      add_taps(window->rows + (int64_t)j * window->layout.step, window->offsets, window->execution->weights + k * plane,
               problem->rows, problem->columns, window->first, window->samples, gconv_window_sums(window, k, j));
}

static size_t workspace_bytes(const gconv_problem *problem) {
  gconv_layout layout = gconv_tile_layout(problem);
  return gconv_window_bytes(problem, &layout, 0);
}

static gconv_status execute(const gconv_execution *execution) {
  return gconv_tile_walk(execution, false, make_piece);
}

static const char *supports(const gconv_problem *problem) {
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
}

/* Measured: a tap takes twice as long as a tap of gconv_tile_list(). */
static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return gconv_tile_ms(problem, machine, 0, 2.0 * (double)problem->rows * problem->columns);
}

const gconv_algorithm gconv_algorithm_cpu_direct64 = {
    .info = {"direct64", "cpu", "all taps, with sums in float64, where float32 would lose digits", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_float64_bound,
};

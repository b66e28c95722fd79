/* SPDX-License-Identifier: MIT */
/*
 * Register tiles: 6 output rows of a few vectors each.
 *
 * An input vector that is loaded is laid on all the rows it belongs to, so a load feeds up to 6 fused multiply-adds, and a
 * tap that is loaded feeds as many as there are vectors side by side. The arithmetic, in the middle of a tall filter, for
 * each input row and tap column:
 *
 *              vectors  registers            loads  multiply-adds  what it takes
 *   AVX-512    4 of 16  24 + 4 + 1 of 32     4 + 6  24             24 cycles at one multiply-add a cycle; loads 7 to 14 / 2
 *   AVX2       2 of 8   12 + 2 + 1 of 16     2 + 6  12             6 cycles at two a cycle; loads 4 to 5
 *   NEON       4 of 4   24 + 4 + 1 of 32     4 + 6  24             12 cycles at two a cycle
 *
 * With 4 rows in place of 6, loads of vectors that cross a cache line, which are most of them, would already be the limit.
 */
#include "tile.h"

typedef void gconv_tile_function(const float *const *rows, size_t first, const int64_t *offsets, const float *taps,
                                 int32_t R, int32_t S, size_t samples, float *sums, size_t stride);

#define TEMPLATE "tile_template.h"
#include "each_isa.h"

void gconv_tile_rows(const float *const *rows, size_t first, const int64_t *offsets, const float *taps, int32_t R, int32_t S,
                     size_t samples, float *sums, size_t stride) {
  GCONV_CALL_ISA(tile_rows, (rows, first, offsets, taps, R, S, samples, sums, stride));
}

void gconv_tile_list(const float *const *sources, const float *taps, size_t count, size_t samples, float *sums) {
  GCONV_CALL_ISA(tile_list, (sources, taps, count, samples, sums));
}

bool gconv_tile_along(const gconv_tile_lines *lines, size_t samples, float *sums) {
  bool known = false;
  GCONV_CALL_ISA(known = tile_lines, (lines, samples, sums));
  return known;
}

void gconv_tile_one_row(const gconv_window *window, int32_t j, const float **sources) {
  const gconv_problem *problem = window->execution->problem;
  const float *const *rows = window->rows + (int64_t)j * window->layout.step;
  size_t plane = 0;
  for (int32_t r = 0; r < problem->rows; r++)
    for (int32_t s = 0; s < problem->columns; s++)
      sources[plane++] = rows[r] + window->offsets[s] + window->first;
  for (size_t k = 0; k < (size_t)problem->filters; k++)
    gconv_tile_list(sources, window->execution->weights + k * plane, plane, window->samples,
                    gconv_window_sums(window, k, j));
}

/* Nanoseconds of one thread of a 3.7 GHz Zen 4, by bench_cpu_kernels: to load a sample, to store one, and of a tap; and the
 * multiply-adds that this thread does in a millisecond at best, so that other processors can be compared with it. */
typedef struct pace {
  double load, store, tile, list, fma_per_ms;
} pace;

/* Intel's with AVX-512 have two units for it, but loads that cross cache lines, which most of a list do, take two turns:
 * of a Xeon, by gconv bench. What it does at best is not told by its name, so it is taken for another. */
static const pace INTEL_AVX512 = {0.14, 0.16, 0.013, 0.039, 5.8e7};

static bool is_intel(void) {
#ifdef __x86_64__
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

static pace pace_of(gconv_isa isa) {
  static const pace paces[] = {
#ifdef __ARM_NEON
      {0.15, 0.3, 0.05, 0.07, 2.5e7}, /* an estimate */
#else
      {0.12, 0.3, 2.5, 2.5, 4e5}, /* fmaf() is a call */
#endif
      {0.10, 0.12, 0.0197, 0.030, 5.5e7},
      {0.08, 0.10, 0.0188, 0.031, 5.8e7},
  };
  return isa == GCONV_ISA_AVX512 && is_intel() ? INTEL_AVX512 : paces[isa];
}

double gconv_pace_fma_per_ms(void) {
  return pace_of(gconv_cpu_isa()).fma_per_ms;
}

double gconv_moving_ms(const gconv_problem *problem, const gconv_machine *machine) {
  double pixels_in = (double)problem->images * problem->planes * problem->height * problem->width;
  double pixels_out = (double)problem->images * problem->planes * problem->out_height * problem->out_width;
  double outputs = gconv_is_combined(problem) ? 1 : problem->filters;
  double bytes = problem->channels * (pixels_in * (double)gconv_type_bytes(problem->in_type) +
                                      pixels_out * outputs * (double)gconv_type_bytes(problem->out_type));
  return bytes / machine->bytes_per_ms;
}

double gconv_cpu_ms(const gconv_problem *problem, const gconv_machine *machine, double thread_ms, double turns) {
  double scaled = thread_ms * gconv_pace_fma_per_ms() / machine->fma_per_ms;
  double rounds = ceil(turns / machine->units) * machine->units / turns; /* the last round keeps few threads busy */
  return machine->launch_ms + fmax(scaled * fmax(rounds, 1), gconv_moving_ms(problem, machine));
}

double gconv_tile_ms(const gconv_problem *problem, const gconv_machine *machine, double tile_taps, double list_taps) {
  pace p = pace_of(gconv_cpu_isa());
  double rows = (double)problem->images * problem->planes * problem->out_height;
  double filter = p.store + p.tile * tile_taps + p.list * list_taps;
  double thread_ms = rows * problem->out_width * problem->channels * (p.load + problem->filters * filter) * 1e-6;
  return gconv_cpu_ms(problem, machine, thread_ms, rows);
}

/* SPDX-License-Identifier: MIT */
/*
 * Register tiles: 6 output rows of a few vectors each.
 *
 * A loaded input vector is used for all output rows under whose taps it lies: up to 6 fused multiply-adds. A loaded tap is
 * used for all vectors side by side. In the middle of a tall filter, each input row and tap
 * column takes:
 *
 *              vectors  registers            loads  multiply-adds  time
 *   AVX-512    4 of 16  24 + 4 + 1 of 32     4 + 6  24             24 cycles at one multiply-add a cycle; loads 7 to 14 / 2
 *   AVX2       2 of 8   12 + 2 + 1 of 16     2 + 6  12             6 cycles at two a cycle; loads 4 to 5
 *   NEON       4 of 4   24 + 4 + 1 of 32     4 + 6  24             12 cycles at two a cycle
 *
 * With 4 rows instead of 6, the loads of vectors would already be the limit: most of them cross a cache line.
 */
#include "tile.h"
#include "kernels/cpu/levels.h"

typedef void gconv_tile_function(const void *const *rows, size_t first, const int64_t *offsets, const float *taps, int32_t R,
                                 int32_t S, size_t samples, float *sums, size_t stride);

#define TEMPLATE "tile_template.h"
#include "each_isa.h"

void gconv_tile_rows(const float *const *rows, size_t first, const int64_t *offsets, const float *taps, int32_t R, int32_t S,
                     size_t samples, float *sums, size_t stride) {
  GCONV_CALL_ISA(tile_rows, (rows, first, offsets, taps, R, S, samples, sums, stride));
}

void gconv_tile_columns(const gconv_tile_column *columns, size_t first, const float *taps, size_t samples, float *sums,
                        size_t stride) {
  GCONV_CALL_ISA(tile_columns, (columns, first, taps, samples, sums, stride));
}

void gconv_tile_list(const float *const *sources, const float *taps, size_t count, size_t samples, float *sums) {
  GCONV_CALL_ISA(tile_list, (sources, taps, count, samples, sums));
}

bool gconv_tile_along(const gconv_tile_lines *lines, gconv_type type, size_t samples, void *to) {
  bool known = false;
  GCONV_CALL_ISA(known = tile_lines, (lines, type, samples, to));
  return known;
}

gconv_layout gconv_tile_layout(const gconv_problem *problem) {
  return gconv_layout_of(problem, GCONV_TILE_ROWS, 384 << 10);
}

gconv_status gconv_tile_walk(const gconv_execution *execution, bool check_finite, gconv_make_piece *make_piece) {
  gconv_layout layout = gconv_tile_layout(execution->problem);
  gconv_walk(execution, &layout, check_finite, make_piece);
  return GCONV_OK;
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

/* Nanoseconds to load a sample, to store one, and for a tap in a tile and in a list. bench_cpu_kernels measured them on one
 * thread of the reference CPU, a Zen 4 at 3.7 GHz with AVX2. All CPUs choose by these numbers, except those without fused
 * multiply-adds. There fmaf() is a function call, and fft, which does not call it, is up to 38 times as fast as other
 * algorithms. */
typedef struct pace {
  double load, store, tile_tap, list_tap;
} pace;
static const pace FUSED = {0.10, 0.12, 0.0197, 0.030}, CALLED = {0.12, 0.3, 2.5, 2.5};

double gconv_moving_ms(const gconv_problem *problem, const gconv_machine *machine) {
  double pixels_in = (double)problem->images * problem->planes * problem->height * problem->width;
  double pixels_out = (double)problem->images * problem->planes * problem->out_height * problem->out_width;
  double outputs = gconv_is_combined(problem) ? 1 : problem->filters;
  double bytes = problem->channels * (pixels_in * (double)gconv_type_bytes(problem->in_type) +
                                      pixels_out * outputs * (double)gconv_type_bytes(problem->out_type));
  return bytes / machine->bytes_per_ms;
}

double gconv_unevenness(double turns) {
  return sqrt(4 * ceil(turns / 4) / turns);
}

double gconv_cpu_ms(const gconv_problem *problem, const gconv_machine *machine, double thread_ms, double turns) {
  double scaled = thread_ms * GCONV_REFERENCE_FMA_PER_MS / machine->fma_per_ms;
  return machine->launch_ms + fmax(scaled * gconv_unevenness(turns), gconv_moving_ms(problem, machine));
}

double gconv_tile_ms(const gconv_problem *problem, const gconv_machine *machine, double tile_taps, double list_taps) {
  const pace *p = gconv_cpu_fuses() ? &FUSED : &CALLED;
  double rows = (double)problem->images * problem->planes * problem->out_height;
  double filter = p->store + p->tile_tap * tile_taps + p->list_tap * list_taps;
  double thread_ms = rows * problem->out_width * problem->channels * (p->load + problem->filters * filter) * 1e-6;
  return gconv_cpu_ms(problem, machine, thread_ms, rows);
}

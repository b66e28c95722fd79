/* SPDX-License-Identifier: MIT */
/*
 * fft of float64, for filters of integers times a unit on integer samples: sums are rounded to integers, and then exact.
 *
 * The range "wrap" cuts sums to levels, so a sum that is rounded down is a whole level less, or 65535 more. Chains of
 * float32 are exact up to 2^24 units only. Transforms of float64 are off by far less than half a unit, for these reasons.
 *
 * Let u = 2^-53, N = 2^L the points of a column, S the taps of a row, a = sum |tap| in units, m the largest |sample|. Norms
 * are 2-norms of columns. Points have two samples, so they are at most 1.5 m.
 *  1. A level of butterflies is the square root of 2 times a unitary map. Its sums and products are off by at most 8 u of
 * its result: u by a sum, 4 u by a product with a twiddle factor, which is itself rounded, 3 u by turns of 45 degrees. So a
 *     transform is off by at most D = 8 L u of its norm, but for terms of u^2, which the bound's slack of 1.5 in place of
 * the square root of 2 exceeds (Higham, Accuracy and Stability of Numerical Algorithms, 24.1).
 *  2. Samples: |X| <= N 1.5 m in norm, and |X(f)| <= N 1.5 m for each f. Error: D N 1.5 m in norm.
 *  3. Taps of column s, a_s = sum |tap|: |H(f)| <= a_s / N. Error: D sqrt(N) a_s / N in norm. 1 / N is a power of two.
 *  4. The sums over s of H X: off by D 1.5 m a of 2., D sqrt(N) 1.5 m a of 3., and 2 (S + 1) u 1.5 m a by their own chain of
 *     2 S products, twice for both parts of a point: together 1.5 a m (D (1 + sqrt(N)) + 4 (S + 1) u) in norm.
 *  5. Back: an error in norm grows by at most sqrt(N) to the largest of a column's points, and the transform adds D sqrt(N)
 *     of the norm of the sums, which is at most 1.5 a m.
 * So a result is off by at most 1.5 a m u (8 L (N + 2 sqrt(N)) + 4 (S + 1) sqrt(N)) units. For 31 x 31 taps up to 3 on u16,
 * this is 0.0003.
 */
#include "fft_exact.h"
#include "base/control.h"
#include "base/memory.h"
#include "fft_columns.h"
#include "kernels/cpu/rows.h"
#include "tile.h"

#include <string.h>

enum {
  UNIT = 64,              /* the loops process multiples of so many samples */
  TILE_BYTES = 384 << 10, /* bytes of a tile; 768 KiB took 1.2 times as long at 31 x 31 */
};

#define OF_DOUBLES
#define TEMPLATE "fft_columns_template.h"
#include "each_isa.h"
#define OF_DOUBLES
#define TEMPLATE "fft_template.h"
#include "each_isa.h"

/* Transforms the columns of a tile as gconv_fft_columns() does, but in float64 and with an order of frequencies of its own.
 */
static void transform(double *points, size_t row, size_t im, size_t columns, int log, const double *w, bool forward) {
  int radices[8] = {0};
  for (int i = 0; log > 0; i++, log -= 3)
    radices[i] = log >= 3 ? 8 : 1 << log;
  GCONV_CALL_ISA(transform_mixed, (points, row, im, columns, radices, w, forward));
}

typedef struct sizes {
  size_t tile, valid; /* rows of a tile, and rows of its result */
  size_t block, halo; /* samples of a row of the result; further samples that its taps need */
  size_t pitch;       /* doubles from real parts to imaginary parts */
} sizes;

static sizes sizes_of(const gconv_problem *problem, int log) {
  const size_t channels = (size_t)problem->channels, unit = UNIT * channels;
  sizes z = {.tile = (size_t)1 << log};
  z.valid = z.tile - (size_t)(problem->rows - 1) * (size_t)problem->dilation_y;
  z.halo = (size_t)(problem->columns - 1) * (size_t)problem->dilation_x * channels;
  const size_t most = ((size_t)problem->out_width * channels + 1) / 2; /* there are always two blocks side by side */
  const size_t fits = TILE_BYTES / sizeof(double) / 2 / z.tile;
  const size_t wanted = fits > 3 * z.halo ? fits - z.halo : 2 * z.halo;
  const size_t blocks = wanted > 0 ? (most + wanted - 1) / wanted : 1;
  z.block = gconv_round_up((most + blocks - 1) / blocks, unit);
  z.pitch = gconv_round_up(z.block + z.halo + UNIT, 8) | 8; /* an odd number of cache lines */
  return z;
}

bool gconv_fft_exact_fits(const gconv_problem *problem, int log) {
  const gconv_integers *integers = &problem->structure.integers;
  const double most = fmax((double)gconv_white(problem->in_type), fabs((double)problem->border_level));
  const double sum = ((double)integers->positive + integers->negative) * most, N = ldexp(1, log), root = sqrt(N);
  const double error = 1.5 * sum * 0x1p-53 * (8 * log * (N + 2 * root) + 4.0 * (problem->columns + 1) * root);
  return problem->epilogue.wrap && problem->in_type != GCONV_F32 && integers->unit > 0 &&
         problem->border_level == rintf(problem->border_level) && error < 0.5 &&
         (problem->rows - 1) * (double)problem->dilation_y < N;
}

size_t gconv_fft_exact_workspace(const gconv_problem *problem, int log) {
  const sizes z = sizes_of(problem, log);
  return z.tile * 2 * z.pitch * sizeof(double) + z.pitch * sizeof(float);
}

/* ---- Weights, complex doubles: N twiddle factors, and a row of taps for each frequency ---- */

size_t gconv_fft_exact_floats(const gconv_problem *problem, int log) {
  return ((size_t)4 << log) * (1 + (size_t)problem->columns);
}

/* Transforms the columns of taps side by side, as points are transformed: so frequencies have the same order. Correlation
 * needs the conjugates of the spectra for convolution. */
gconv_status gconv_fft_exact_prepare(const gconv_problem *problem, int log, const float *taps, float *prepared) {
  const size_t N = (size_t)1 << log, S = (size_t)problem->columns, pitch = gconv_round_up(S, UNIT);
  const double factor = 1 / (double)problem->structure.integers.unit / (double)N;
  double *twiddles = (double *)(void *)prepared, *pair = twiddles + 2 * N;
  void *memory;
  GCONV_TRY(gconv_allocate(2 * N * pitch * sizeof(double), "columns of taps", &memory));
  double *spectra = memory;
  for (size_t j = 0; j < N; j++) {
    twiddles[2 * j] = cos(2 * M_PI * (double)j / (double)N);
    twiddles[2 * j + 1] = -sin(2 * M_PI * (double)j / (double)N);
  }
  memset(spectra, 0, 2 * N * pitch * sizeof *spectra);
  for (size_t r = 0; r < (size_t)problem->rows; r++)
    for (size_t s = 0; s < S; s++)
      spectra[r * (size_t)problem->dilation_y * 2 * pitch + s] = (double)taps[r * S + s] * factor;
  transform(spectra, 2 * pitch, pitch, S, log, twiddles, true);
  for (size_t y = 0; y < N; y++)
    for (size_t s = 0; s < S; s++, pair += 2) {
      pair[0] = spectra[y * 2 * pitch + s];
      pair[1] = -spectra[y * 2 * pitch + pitch + s];
    }
  gconv_release(memory);
  return GCONV_OK;
}

/* ---- Execution ---- */

GCONV_VECTOR_LOOP(widen, (const float *restrict samples, size_t count, double *restrict points), (samples, count, points)) {
  for (size_t i = 0; i < count; i++)
    points[i] = (double)samples[i];
}

/* Rounds sums to integers, and makes responses. If `cuts`, these are cut to 16 bits at once, as gconv_cut_level() does, so
 * that responses beyond 2^24 keep all bits that matter. */
GCONV_VECTOR_LOOP(finish, (const double *restrict sums, size_t count, double unit, bool cuts, float *restrict responses),
                  (sums, count, unit, cuts, responses)) {
  for (size_t i = 0; i < count; i++) {
    const double response = rint(sums[i]) * unit;
    responses[i] = cuts ? (float)((fabs(response) < 0x1p31 ? (int32_t)response : 0) & 0xffff) : (float)response;
  }
}

/* Returns whether responses are all that is cut. */
static bool is_cut(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *e = &problem->epilogue;
  return gconv_divisors(problem, execution->weights)[0] == 1 && gconv_biases(problem, execution->weights)[0] == 0 &&
         e->combine != GCONV_COMBINE_MAGNITUDE && e->scale == 1 && e->scale_low == 0 && e->offset == 0;
}

/* Loads the rows under output rows first .. end - 1 for `pixels` results from pixel `left` on, and zeros elsewhere. */
static void load(const gconv_execution *execution, const sizes *z, int32_t first, int32_t end, size_t left, size_t pixels,
                 double *points, float *row) {
  const gconv_problem *problem = execution->problem;
  const size_t used = pixels > 0 ? pixels * (size_t)problem->channels + z->halo : 0;
  const size_t rows = (size_t)(end - first) + z->tile - z->valid;
  for (size_t y = 0; y < z->tile; y++, points += 2 * z->pitch) {
    const size_t filled = y < rows ? used : 0;
    if (filled > 0)
      gconv_load_pixels(execution, (int64_t)first - problem->pad_top + (int64_t)y, (int64_t)left - problem->pad_left, 1,
                        (int64_t)filled / problem->channels, row);
    widen(row, filled, points);
    memset(points + filled, 0, (z->block + z->halo - filled) * sizeof *points);
  }
}

gconv_status gconv_fft_exact_execute(const gconv_execution *execution, int log) {
  const gconv_problem *problem = execution->problem;
  const sizes z = sizes_of(problem, log);
  const size_t channels = (size_t)problem->channels, block = z.block / channels, width = (size_t)problem->out_width;
  const double *w = (const double *)(const void *)gconv_prepared(problem, execution->weights);
  double *points = execution->workspace;
  float *row = (float *)(void *)(points + z.tile * 2 * z.pitch);
  const fft_rows rows = {.points = points, .pitch = z.pitch, .sums = points, .sums_pitch = z.pitch};
  const bool cuts = is_cut(execution);
  for (int32_t p = execution->first_row; p < execution->end_row; p += (int32_t)z.valid) {
    const int32_t end = execution->end_row - p < (int32_t)z.valid ? execution->end_row : p + (int32_t)z.valid;
    for (size_t left = 0; left < width; left += 2 * block) {
      GCONV_TRY(gconv_control_check());
      size_t pixels[2];
      for (size_t side = 0; side < 2; side++) {
        const size_t from = left + side * block, rest = from < width ? width - from : 0;
        pixels[side] = rest < block ? rest : block;
        load(execution, &z, p, end, from, pixels[side], points + side * z.pitch, row);
      }
      transform(points, 2 * z.pitch, z.pitch, z.block + z.halo, log, w, true);
      GCONV_CALL_ISA(filter_rows, (&rows, z.block, z.tile, w + 2 * z.tile, (size_t)problem->columns,
                                   (size_t)problem->dilation_x * channels));
      transform(points, 2 * z.pitch, z.pitch, z.block, log, w, false);
      for (size_t side = 0; side < 2; side++)
        for (int32_t q = p; q < end && pixels[side] > 0; q++) {
          const double *sums = points + ((size_t)(q - p) * 2 + side) * z.pitch;
          finish(sums, pixels[side] * channels, (double)problem->structure.integers.unit, cuts, row);
          gconv_store_samples(execution, q, (left + side * block) * channels, pixels[side] * channels, row, 0);
        }
    }
  }
  return GCONV_OK;
}

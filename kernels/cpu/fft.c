/* SPDX-License-Identifier: MIT */
/*
 * fft: transforms down the columns, taps along the rows (overlap-save in one direction).
 *
 * Columns of N pixels are transformed. At each of the N frequencies, the filter of R x S taps has become one row of S
 * complex taps. That row is applied to the row of spectra directly. Then the columns are transformed back. N - R + 1 rows of
 * the result are valid; in the other rows, the circular convolution has wrapped around.
 *
 * A complex point holds two samples: the real part is one tile, the imaginary part its neighbour. For two samples, this
 * takes 4 * S multiply-adds and some 7 * log2 N other operations of arithmetic, times N / (N - R + 1). For 15 x 15 with N =
 * 64 that is some 65 instructions a sample instead of 225. fft is the fastest from 7 x 7 on, but see cost(). The work of
 * transforms in both directions does not grow with S. But they took 1.9 times as long at 31 x 31, and longer at 63 x 63,
 * because they move every sample to another lane and back. Filters of hundreds of pixels take tiles larger than L2. There
 * the taps take most of the time, and they need only one row at a time.
 *
 * A filter that spans more than half of the largest tile is cut into parts of equal size. For each part, the spectra of the
 * samples under it are multiplied by the spectra of its taps. These products are added up, and transformed back once. So
 * there is no limit to the size.
 *
 * No samples are shuffled: a vector holds neighbouring samples all the way, for any number of channels. A tile is as wide as
 * L2 allows, because the halo to its right is transformed, too.
 *
 * fft is not of the exact family; error_bound() states its error. An infinity or a NaN would spread over its columns, and
 * over the columns of the neighbour that shares its points. Such samples are left out of the transforms, and their products
 * with the taps are added afterwards.
 *
 * fft_exact.c makes exact sums of integers for the range "wrap".
 */
#include "base/control.h"
#include "base/memory.h"
#include "fft_columns.h"
#include "fft_exact.h"
#include "kernels/cpu/rows.h"
#include "tile.h"

#include <complex.h>
#include <string.h>

#define SAFE_LIMIT 0x1p96f /* samples up to this size go into transforms */

enum {
  LEAST_LOG = 5,              /* log2 of the smallest N */
  MOST_LOG = 12,              /* log2 of the largest N */
  LOG_IN_L2 = 8,              /* log2 of the most rows of tiles that fit into L2 */
  UNIT = 64,                  /* the loops process multiples of so many samples */
  TILE_BYTES = 640 << 10,     /* bytes of a tile; L2 has 1 MiB */
  WIDE_BLOCK = 1024,          /* samples; wider blocks gain nothing */
  PART = 1 << (MOST_LOG - 1), /* pixels that a part of a filter spans at most */
  AHEAD = 4,                  /* rows that are prefetched */
  ROWS = 256                  /* rows of a tile that are filtered between two checks whether to stop */
};

#define TEMPLATE "fft_template.h"
#include "each_isa.h"

/* ---- Parts of a filter ---- */

typedef struct parts {
  int32_t down, across;  /* how many there are */
  int32_t rows, columns; /* taps of each part; the last parts have the taps that remain */
} parts;

static int32_t parts_along(int32_t taps, int32_t dilation) {
  int32_t most = (PART - 1) / dilation + 1;
  return (taps - 1) / most + 1;
}

static parts parts_of(const gconv_problem *problem) {
  parts p = {.down = parts_along(problem->rows, problem->dilation_y),
             .across = parts_along(problem->columns, problem->dilation_x)};
  p.rows = (problem->rows - 1) / p.down + 1;
  p.columns = (problem->columns - 1) / p.across + 1;
  p.down = (problem->rows - 1) / p.rows + 1;
  p.across = (problem->columns - 1) / p.columns + 1;
  return p;
}

/* Part number `index`: rows x columns taps, from row r, column s on. */
typedef struct filter_part {
  size_t index;
  int32_t r, s, rows, columns;
} filter_part;

static filter_part part_at(const gconv_problem *problem, const parts *p, int32_t index) {
  filter_part part = {.index = (size_t)index, .r = index / p->across * p->rows, .s = index % p->across * p->columns};
  part.rows = problem->rows - part.r < p->rows ? problem->rows - part.r : p->rows;
  part.columns = problem->columns - part.s < p->columns ? problem->columns - part.s : p->columns;
  return part;
}

/* ---- Sizes ---- */

/* Returns how many rows of the image the taps of a part span. */
static int32_t extent_y(const gconv_problem *problem) {
  return (parts_of(problem).rows - 1) * problem->dilation_y + 1;
}

/* Returns the nanoseconds for a sample in columns of 2^log: for transforming and moving it, and for the taps. These times
 * were measured by bench_cpu_kernels on one thread of the reference CPU (tile.c). All CPUs choose tiles by the same times,
 * so results are the same bits. */
static double pace_of(const gconv_problem *problem, int log) {
  static const double move[] = {0.48, 0.57, 0.82, 1.1, 1.7, 2.2, 5.5, 9}, tap = 0.045;
  double size = 1 << log, valid = size - extent_y(problem) + 1, height = problem->out_height;
  if (valid < 1)
    return INFINITY;
  const parts p = parts_of(problem);
  double each = move[log - LEAST_LOG] + tap * p.columns;
  return size * ceil(height / valid) / height * p.down * p.across * each;
}

/* Returns the pace, times the factor by which threads take longer because they share tiles unevenly. A thread takes whole
 * rows of tiles. So one thread is fastest with large tiles, and several threads with many tiles. */
static double price_of(const gconv_problem *problem, int log) {
  double valid = (1 << log) - extent_y(problem) + 1;
  double strips = valid < 1 ? 1 : (double)problem->images * problem->planes * ceil(problem->out_height / valid);
  return pace_of(problem, log) * gconv_unevenness(strips);
}

static int choose_log(const gconv_problem *problem) {
  int best = LEAST_LOG;
  for (int log = LEAST_LOG + 1; log <= MOST_LOG; log++)
    if (price_of(problem, log) < price_of(problem, best))
      best = log;
  return best;
}

typedef struct sizes {
  int log;
  size_t tile, valid; /* rows of a tile, and rows of its result */
  size_t block;       /* samples of a row of the result: whole pixels, a multiple of 64 */
  size_t halo;        /* further samples of a row that the taps of a part need */
  size_t pitch;       /* floats from real parts to imaginary parts: an odd number of cache lines */
  parts parts;
  bool whole;  /* the filter is one part */
  size_t sums; /* the pitch of the sums of the parts; 0 if there is one part */
  size_t row;  /* floats of an input row under the whole filter */
} sizes;

static sizes sizes_of(const gconv_problem *problem) {
  sizes z = {.log = choose_log(problem)};
  size_t channels = (size_t)problem->channels, unit = UNIT * channels;
  z.tile = (size_t)1 << z.log;
  z.valid = z.tile - (size_t)extent_y(problem) + 1;
  z.parts = parts_of(problem);
  z.whole = z.parts.down * z.parts.across == 1;
  z.halo = (size_t)(z.parts.columns - 1) * (size_t)problem->dilation_x * channels;
  size_t most = gconv_round_up(((size_t)problem->out_width * channels + 1) / 2, unit); /* there are always two tiles */
  size_t fits = TILE_BYTES / sizeof(float) / 2 / z.tile, wanted = fits > z.halo ? fits - z.halo : 0;
  wanted = wanted < WIDE_BLOCK ? wanted : WIDE_BLOCK;
  size_t least = z.log <= LOG_IN_L2 ? 2 * z.halo : z.halo; /* so that most work and memory is not for the halo */
  wanted = wanted < least ? least : wanted;
  size_t blocks = (most + wanted - 1) / wanted;
  z.block = gconv_round_up((most + blocks - 1) / blocks, unit);
  z.pitch = gconv_round_up(z.block + z.halo + UNIT, 16) | 16;
  z.sums = z.whole ? 0 : gconv_round_up(z.block + UNIT, 16) | 16;
  z.row = z.block + (size_t)(problem->columns - 1) * (size_t)problem->dilation_x * channels + UNIT;
  return z;
}

/* Returns whether fft_exact.c solves the problem. */
static bool is_exact(const gconv_problem *problem) {
  const parts p = parts_of(problem);
  return p.down * p.across == 1 && gconv_fft_exact_fits(problem, choose_log(problem));
}

/* ---- Weights, complex: N twiddle factors; then, for each part, a row of taps for each frequency ---- */

static size_t part_floats(const parts *p, size_t tile) {
  return 2 * tile * (size_t)p->columns;
}

static size_t prepared_floats(const gconv_problem *problem) {
  const parts p = parts_of(problem);
  size_t tile = (size_t)1 << choose_log(problem);
  if (is_exact(problem))
    return gconv_fft_exact_floats(problem, choose_log(problem));
  return 2 * tile + (size_t)p.down * (size_t)p.across * part_floats(&p, tile);
}

/* Replaces x[k] by the sum over j of x[j] * exp(2 pi i j k / size), in float64. */
static void transform_taps(double complex *x, size_t size) {
  for (size_t j = 0, reversed = 0; j < size; j++) {
    if (j < reversed) {
      double complex other = x[j];
      x[j] = x[reversed];
      x[reversed] = other;
    }
    size_t bit = size / 2;
    for (; reversed & bit; bit /= 2)
      reversed ^= bit;
    reversed |= bit;
  }
  for (size_t half = 1; half < size; half *= 2)
    for (size_t j = 0; j < half; j++) {
      double complex root = cos(M_PI * (double)j / (double)half) + sin(M_PI * (double)j / (double)half) * I;
      for (size_t at = j; at < size; at += 2 * half) {
        double complex low = x[at], high = x[at + half] * root;
        x[at] = low + high;
        x[at + half] = low - high;
      }
    }
}

/* Transforms the taps of a part in float64, so that the error of a tap is one rounding. Correlation needs the conjugates of
 * the spectra for convolution: hence the sign in transform_taps(). `column` has room for a tile. */
static void prepare_part(const gconv_problem *problem, const filter_part *part, const float *taps, size_t tile,
                         double complex *column, float *spectrum) {
  const size_t S = (size_t)part->columns;
  for (size_t s = 0; s < S; s++) {
    memset(column, 0, tile * sizeof *column);
    for (int32_t r = 0; r < part->rows; r++)
      column[(size_t)(r * problem->dilation_y)] =
          (double)taps[(size_t)(part->r + r) * (size_t)problem->columns + (size_t)part->s + s];
    transform_taps(column, tile);
    for (size_t y = 0; y < tile; y++) {
      double complex found = column[gconv_fft_frequency(y, tile)] / (double)tile;
      spectrum[2 * (y * S + s)] = (float)creal(found);
      spectrum[2 * (y * S + s) + 1] = (float)cimag(found);
    }
  }
}

static gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  const parts p = parts_of(problem);
  size_t tile = (size_t)1 << choose_log(problem);
  if (is_exact(problem))
    return gconv_fft_exact_prepare(problem, choose_log(problem), taps, prepared);
  void *column; /* too large for the stack of a thread */
  GCONV_TRY(gconv_allocate(tile * sizeof(double complex), "a column of taps", &column));
  gconv_fft_twiddles(choose_log(problem), prepared);
  for (int32_t i = 0; i < p.down * p.across; i++) {
    const filter_part part = part_at(problem, &p, i);
    prepare_part(problem, &part, taps, tile, column, prepared + 2 * tile + part.index * part_floats(&p, tile));
  }
  gconv_release(column);
  return GCONV_OK;
}

/* ---- Execution ---- */

/* Returns the bytes of a tile, the sums of the parts, and a row. */
static size_t workspace_bytes(const gconv_problem *problem) {
  sizes z = sizes_of(problem);
  if (is_exact(problem))
    return gconv_fft_exact_workspace(problem, z.log);
  return (z.tile * 2 * (z.pitch + z.sums) + z.row) * sizeof(float);
}

/* Returns whether some samples are so large that their transforms may not be finite: samples that are infinite or NaN, or so
 * large that a sum of 2^12 of them may overflow. */
static bool are_unsafe(const float *samples, size_t count) {
  int unsafe = 0;
  for (size_t i = 0; i < count; i++)
    unsafe |= !(fabsf(samples[i]) <= SAFE_LIMIT);
  return unsafe;
}

/* If `unsafe`, sets all safe samples to 0, else all unsafe samples. */
static void keep_only(bool unsafe, float *samples, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(samples[i]) <= SAFE_LIMIT) != unsafe)
      samples[i] = 0;
}

/* Returns the pixels that a tile makes from `left` on. */
static size_t pixels_of(const gconv_problem *problem, const sizes *z, size_t left) {
  size_t width = (size_t)problem->out_width, rest = left < width ? width - left : 0;
  size_t block = z->block / (size_t)problem->channels;
  return rest < block ? rest : block;
}

/* Loads the input rows under a part, for the tile of output rows first .. end - 1, from pixel `left` on. Writes zeros where
 * no tap needs samples, and in place of unsafe samples. Returns whether there are unsafe samples. */
static bool load(const gconv_execution *execution, const sizes *z, const filter_part *part, int32_t first, int32_t end,
                 size_t left, float *points) {
  const gconv_problem *problem = execution->problem;
  size_t channels = (size_t)problem->channels, samples = z->block + z->halo, pixels = pixels_of(problem, z, left);
  size_t rows = pixels ? (size_t)(end - first) + z->tile - z->valid : 0, used = pixels * channels + z->halo;
  int64_t top = (int64_t)first - problem->pad_top + (int64_t)part->r * problem->dilation_y;
  int64_t column = (int64_t)left - problem->pad_left + (int64_t)part->s * problem->dilation_x;
  bool unsafe = false;
  for (size_t y = 0; y < z->tile; y++, points += 2 * z->pitch) {
    if (y >= rows) {
      memset(points, 0, samples * sizeof *points);
      continue;
    }
    int64_t row = top + (int64_t)y;
    gconv_expect_load(execution, row + AHEAD, column, (int64_t)(used / channels));
    gconv_load_pixels(execution, row, column, 1, (int64_t)(used / channels), points);
    memset(points + used, 0, (samples - used) * sizeof *points);
    if (problem->in_type == GCONV_F32 && are_unsafe(points, used)) {
      keep_only(false, points, used);
      unsafe = true;
    }
  }
  return unsafe;
}

/* Adds the products of the taps and the unsafe samples of a row of the tile. `row` has these samples, and 0 elsewhere. */
static void add_unsafe_row(const gconv_execution *execution, const sizes *z, int64_t y, int64_t outputs, const float *row,
                           int64_t used, float *points, size_t pitch) {
  const gconv_problem *problem = execution->problem;
  const float *tap = execution->weights;
  int64_t begin = 0, end = used, step = (int64_t)problem->dilation_x * problem->channels;
  while (row[begin] == 0)
    begin++;
  while (row[end - 1] == 0)
    end--;
  for (int64_t r = 0; r < problem->rows; r++) {
    int64_t p = y - r * problem->dilation_y;
    if (p < 0 || p >= outputs) {
      tap += problem->columns;
      continue;
    }
    float *out = points + (size_t)p * 2 * pitch;
    for (int64_t s = 0; s < problem->columns; s++, tap++) {
      int64_t last = end - s * step < (int64_t)z->block ? end - s * step : (int64_t)z->block;
      for (int64_t x = begin > s * step ? begin - s * step : 0; x < last; x++)
        out[x] += *tap * row[x + s * step];
    }
  }
}

/* Adds the products of the taps and all unsafe samples under the whole filter. Loads the input rows again, one by one, into
 * `row`. */
static void add_unsafe(const gconv_execution *execution, const sizes *z, int32_t first, int32_t end, size_t left, float *row,
                       float *points, size_t pitch) {
  const gconv_problem *problem = execution->problem;
  size_t pixels = pixels_of(problem, z, left) + (size_t)(problem->columns - 1) * (size_t)problem->dilation_x;
  size_t used = pixels * (size_t)problem->channels;
  size_t rows = (size_t)(end - first) + (size_t)(problem->rows - 1) * (size_t)problem->dilation_y;
  for (size_t y = 0; y < rows; y++) {
    gconv_load_pixels(execution, (int64_t)first + (int64_t)y - problem->pad_top, (int64_t)left - problem->pad_left, 1,
                      (int64_t)pixels, row);
    if (!are_unsafe(row, used))
      continue;
    keep_only(true, row, used);
    add_unsafe_row(execution, z, (int64_t)y, end - first, row, (int64_t)used, points, pitch);
  }
}

static void store(const gconv_execution *execution, const sizes *z, int32_t first, int32_t end, size_t left, float *points,
                  size_t pitch) {
  size_t channels = (size_t)execution->problem->channels, samples = pixels_of(execution->problem, z, left) * channels;
  for (int32_t p = first; p < end && samples > 0; p++, points += 2 * pitch) {
    if (p + AHEAD < end)
      gconv_expect_store(execution, p + AHEAD, (int64_t)left, (int64_t)(samples / channels));
    gconv_store_samples(execution, p, left * channels, samples, points, 0);
  }
}

/* Computes the spectra of the sums of output rows first .. end - 1, for the tile at `left` and its neighbour on the right.
 * Returns whether unsafe samples were left out. */
static bool make_spectra(const gconv_execution *execution, const sizes *z, int32_t first, int32_t end, size_t left,
                         float *points, float *sums) {
  const gconv_problem *problem = execution->problem;
  const float *w = gconv_prepared(problem, execution->weights);
  const size_t block = z->block / (size_t)problem->channels;
  const size_t distance = (size_t)problem->dilation_x * (size_t)problem->channels;
  bool unsafe = false;
  for (int32_t i = 0; i < z->parts.down * z->parts.across; i++) {
    const filter_part part = part_at(problem, &z->parts, i);
    const float *taps = w + 2 * z->tile + part.index * part_floats(&z->parts, z->tile);
    unsafe |= load(execution, z, &part, first, end, left, points);
    unsafe |= load(execution, z, &part, first, end, left + block, points + z->pitch);
    gconv_fft_columns(points, 2 * z->pitch, z->pitch, z->block + z->halo, z->log, w, true);
    fft_rows rows = {points, z->pitch, z->whole ? points : sums, z->whole ? z->pitch : z->sums, i > 0};
    for (size_t y = 0; y < z->tile && !gconv_control_stops(gconv_control_here()); y += ROWS) {
      const size_t count = z->tile < ROWS ? z->tile : ROWS;
      GCONV_CALL_ISA(filter_rows, (&rows, z->block, count, taps, (size_t)part.columns, distance));
      rows.points = (const float *)rows.points + 2 * count * rows.pitch;
      rows.sums = (float *)rows.sums + 2 * count * rows.sums_pitch;
      taps += 2 * count * (size_t)part.columns;
    }
  }
  return unsafe;
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const sizes z = sizes_of(problem);
  if (is_exact(problem))
    return gconv_fft_exact_execute(execution, z.log);
  const size_t block = z.block / (size_t)problem->channels, pitch = z.whole ? z.pitch : z.sums;
  const float *w = gconv_prepared(problem, execution->weights);
  float *points = execution->workspace, *sums = z.whole ? points : points + z.tile * 2 * z.pitch;
  float *row = points + z.tile * 2 * (z.pitch + z.sums);
  for (int32_t p = execution->first_row; p < execution->end_row; p += (int32_t)z.valid) {
    int32_t end = execution->end_row - p < (int32_t)z.valid ? execution->end_row : p + (int32_t)z.valid;
    for (size_t left = 0; left < (size_t)problem->out_width; left += 2 * block) {
      bool unsafe = make_spectra(execution, &z, p, end, left, points, sums);
      GCONV_TRY(gconv_control_check());
      gconv_fft_columns(sums, 2 * pitch, pitch, z.block, z.log, w, false);
      if (unsafe) {
        add_unsafe(execution, &z, p, end, left, row, sums, pitch);
        add_unsafe(execution, &z, p, end, left + block, row, sums + pitch, pitch);
      }
      store(execution, &z, p, end, left, sums, pitch);
      store(execution, &z, p, end, left + block, sums + pitch, pitch);
    }
  }
  return GCONV_OK;
}

/* ---- The descriptor ---- */

static const char *supports(const gconv_problem *problem) {
  if (problem->stride_y != 1 || problem->stride_x != 1)
    return "it knows no strides";
  if (problem->in_type == GCONV_F32 && problem->channels % 2 == 0 && !problem->keep_alpha)
    return "its rounding moves alphas of 0, by which colours may be divided later";
  if (problem->filters != 1)
    return "it takes one filter at a time";
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its tiles would exceed 2 GiB a thread" : NULL;
}

static int32_t row_step(const gconv_problem *problem) {
  return (int32_t)sizes_of(problem).valid;
}

/* For bytes and floats, the estimate is a quarter above the pace, so that direct is chosen at 7 x 7. direct is exact. It
 * takes 0.8 of the time of fft with AVX-512 (Zen 5), but 1.0 (floats) to 1.4 (bytes) times as long as fft with AVX2. */
static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  static const double EXACT = 2.3;            /* times as long as float32 takes */
  double narrow = gconv_cpu_fuses() ? 1 : 10; /* paces were measured with vectors */
  narrow *= is_exact(problem) ? EXACT : problem->filters == 1 && problem->in_type != GCONV_U16 ? 1.25 : 1;
  double samples = gconv_problem_flop(problem) / (2.0 * (double)gconv_tap_count(problem));
  double strips = (double)problem->images * problem->planes * ceil((double)problem->out_height / row_step(problem));
  return gconv_cpu_ms(problem, machine, narrow * samples * pace_of(problem, choose_log(problem)) * 1e-6, strips);
}

/* Returns the error bound, with u = 2^-24. Errors of roundings are independent, so their squares add. Each of the 2 log2 N
 * levels of butterflies rounds sums, products and twiddle factors. Each of these errors is 0.3 u to 0.4 u times the root
 * mean square of the level's values: some 0.8 u together. The bound takes u. The root mean square is at most max |x| on the
 * way to the spectrum, and (sum |tap|) * max |x| on the way back. A chain of n taps between them has 2 n roundings of sums
 * that grow: their squares add to (n / 9) u^2. The bound takes n / 8. Each further chain adds one rounding. The bound is 16
 * standard deviations, which are never reached. Rounded sums of integers (fft_exact.c) are exact. A bound for any input
 * would grow with N, not with the square root of log N, and be a hundred times as large. */
static double error_bound(const gconv_problem *problem) {
  if (is_exact(problem))
    return 0;
  const parts p = parts_of(problem);
  const double chains = (double)p.down * p.across * ceil((double)p.columns / CHAIN);
  const double taps = fmin(p.columns, CHAIN) / 8.0 + (chains - 1) / 8;
  return 16 * 0x1p-24 * sqrt(2.0 * choose_log(problem) + taps + 2);
}

const gconv_algorithm gconv_algorithm_cpu_fft = {
    .info = {"fft", "cpu", "spectra down the columns, taps along the rows, for larger filters", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .row_step = row_step,
    .spreads = true,
};

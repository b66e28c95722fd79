/* SPDX-License-Identifier: MIT */
/*
 * fft: transforms down the columns, taps along the rows (overlap-save in one direction).
 *
 * Columns of N pixels are transformed. At each of the N frequencies, the filter of R x S taps has become one row of S
 * complex taps. That row is applied to the row of spectra directly. Then the columns are transformed back. N - R + 1 rows of
 * the result are valid; the others are spoilt by the circular convolution.
 *
 * A complex point holds two samples: the real part is one tile, the imaginary part its neighbour. For two samples, this
 * takes 4 * S multiply-adds and some 16 * log2 N additions and multiplications, times N / (N - R + 1). For 15 x 15 with N =
 * 64 that is some 70 instructions a sample instead of 225. fft is the fastest from 7 x 7 on. Transforms in both directions,
 * whose work does not grow with S, took 1.9 times as long at 31 x 31, and longer at 63 x 63, because they move every sample
 * to another lane and back. Filters of hundreds of pixels take tiles larger than L2. There the taps take most of the time,
 * and they need only one row at a time.
 *
 * No samples are shuffled: a vector holds neighbouring samples all the way, for any number of channels. Forward transforms
 * leave frequencies in digit-reversed order (decimation in frequency, radix 8); backward transforms read that order
 * (decimation in time). A tile is as wide as L2 allows, because the halo to its right is transformed, too.
 *
 * fft is not of the exact family; error_bound() states its error. An infinity or a NaN would spread over its columns, and
 * over those of the tile that shares its points. Such samples are left out of the transforms, and their products with the
 * taps are added afterwards.
 */
#include "base/memory.h"
#include "kernels/cpu/rows.h"
#include "tile.h"

#include <complex.h>
#include <string.h>

#define SAFE_LIMIT 0x1p96f /* samples up to this size go into transforms */

enum {
  LEAST_LOG = 5, /* of N */
  MOST_LOG = 12,
  LOG_IN_L2 = 8,
  UNIT = 64,              /* the loops process multiples of so many samples */
  TILE_BYTES = 640 << 10, /* of 1 MiB of L2 */
  WIDE_BLOCK = 1024,      /* samples; wider blocks gain nothing */
  AHEAD = 4               /* rows that are prefetched */
};

#define TEMPLATE "fft_template.h"
#include "each_isa.h"

/* ---- Sizes ---- */

static int32_t extent_y(const gconv_problem *problem) {
  return (problem->rows - 1) * problem->dilation_y + 1;
}

/* Nanoseconds a sample with columns of 2^log: transforms and moving samples, and the taps. Of one thread of the reference
 * CPU, by bench_cpu_kernels, as in tile.c: tiles are the same on all CPUs, and so are the bits. */
static double pace_of(const gconv_problem *problem, int log) {
  static const double move[] = {0.48, 0.57, 0.82, 1.1, 1.7, 2.2, 5.5, 9}, tap = 0.045;
  double size = 1 << log, valid = size - extent_y(problem) + 1, height = problem->out_height;
  if (valid < 1)
    return INFINITY;
  return size * ceil(height / valid) / height * (move[log - LEAST_LOG] + tap * problem->columns);
}

/* The same, and how far tiles one above the other, each of which is one thread's, are from dividing evenly: one thread does
 * best with large tiles, several do with many. */
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
  size_t halo;        /* further samples under the taps */
  size_t pitch;       /* floats from real parts to imaginary parts: an odd number of cache lines */
} sizes;

static sizes sizes_of(const gconv_problem *problem) {
  sizes z = {.log = choose_log(problem)};
  size_t channels = (size_t)problem->channels, unit = UNIT * channels;
  z.tile = (size_t)1 << z.log;
  z.valid = z.tile - (size_t)extent_y(problem) + 1;
  z.halo = (size_t)(problem->columns - 1) * (size_t)problem->dilation_x * channels;
  size_t most = gconv_round_up(((size_t)problem->out_width * channels + 1) / 2, unit); /* there are always two tiles */
  size_t fits = TILE_BYTES / sizeof(float) / 2 / z.tile, wanted = fits > z.halo ? fits - z.halo : 0;
  wanted = wanted < WIDE_BLOCK ? wanted : WIDE_BLOCK;
  size_t least =
      z.log <= LOG_IN_L2 ? 2 * z.halo : z.halo; /* so that the halo takes less than most of the work and of the memory */
  wanted = wanted < least ? least : wanted;
  size_t blocks = (most + wanted - 1) / wanted;
  z.block = gconv_round_up((most + blocks - 1) / blocks, unit);
  z.pitch = gconv_round_up(z.block + z.halo + UNIT, 16) | 16;
  return z;
}

/* ---- Weights: N twiddle factors, then S taps for each frequency, as pairs of floats ---- */

static size_t prepared_floats(const gconv_problem *problem) {
  size_t tile = (size_t)1 << choose_log(problem);
  return 2 * tile + 2 * tile * (size_t)problem->columns;
}

/* In place: x[k] becomes the sum over j of x[j] * exp(2 pi i j k / size), in float64. */
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

/* Returns the frequency at a position. A stage of radix r leaves the frequencies of residue b modulo r in its b-th part. */
static size_t frequency_at(size_t position, size_t size) {
  size_t radix = size % 7 == 1 ? 8 : size % 7 == 2 ? 2 : 4;
  if (size == 1)
    return 0;
  size_t part = size / radix;
  return position / part + radix * frequency_at(position % part, part);
}

/* Transforms the taps in float64, so that the error of a tap is one rounding. For correlation, these are the conjugates of
 * those for convolution. A column is too large for the stack of a thread. */
static gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  size_t tile = (size_t)1 << choose_log(problem), R = (size_t)problem->rows, S = (size_t)problem->columns;
  float *spectrum = prepared + 2 * tile;
  void *memory;
  GCONV_TRY(gconv_allocate(tile * sizeof(double complex), "a column of taps", &memory));
  double complex *column = memory;
  for (size_t j = 0; j < tile; j++) {
    prepared[2 * j] = (float)cos(2 * M_PI * (double)j / (double)tile);
    prepared[2 * j + 1] = (float)-sin(2 * M_PI * (double)j / (double)tile);
  }
  for (size_t s = 0; s < S; s++) {
    memset(column, 0, tile * sizeof *column);
    for (size_t r = 0; r < R; r++)
      column[r * (size_t)problem->dilation_y] = (double)taps[r * S + s];
    transform_taps(column, tile);
    for (size_t y = 0; y < tile; y++) {
      double complex found = column[frequency_at(y, tile)] / (double)tile;
      spectrum[2 * (y * S + s)] = (float)creal(found);
      spectrum[2 * (y * S + s) + 1] = (float)cimag(found);
    }
  }
  gconv_release(memory);
  return GCONV_OK;
}

/* ---- Execution ---- */

/* Memory for a tile and a row. */
static size_t workspace_bytes(const gconv_problem *problem) {
  sizes z = sizes_of(problem);
  return (z.tile * 2 + 1) * z.pitch * sizeof(float);
}

/* Returns whether some samples are so large that their transforms may not be finite: samples that are infinite or NaN, or so
 * large that a sum of 2^12 of them may overflow. */
static bool are_unsafe(const float *samples, size_t count) {
  int unsafe = 0;
  for (size_t i = 0; i < count; i++)
    unsafe |= !(fabsf(samples[i]) <= SAFE_LIMIT);
  return unsafe;
}

/* Keeps only the unsafe samples, or only the others. Sets the rest to 0. */
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

/* Loads the input rows of the tile of output rows first .. end - 1, from pixel `left` on. They are zeros where no tap needs
 * them, and in place of unsafe samples. Returns whether there are unsafe samples. */
static bool load(const gconv_execution *execution, const sizes *z, int32_t first, int32_t end, size_t left, float *points) {
  const gconv_problem *problem = execution->problem;
  size_t channels = (size_t)problem->channels, samples = z->block + z->halo, pixels = pixels_of(problem, z, left);
  size_t rows = pixels ? (size_t)(end - first) + z->tile - z->valid : 0, used = pixels * channels + z->halo;
  bool unsafe = false;
  for (size_t y = 0; y < z->tile; y++, points += 2 * z->pitch) {
    if (y >= rows) {
      memset(points, 0, samples * sizeof *points);
      continue;
    }
    int64_t row = (int64_t)first + (int64_t)y - problem->pad_top, column = (int64_t)left - problem->pad_left;
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

/* Adds the products of the taps and the unsafe samples of a row of the tile. `row` holds these samples, and 0 for all
 * others.
 */
static void add_unsafe_row(const gconv_execution *execution, const sizes *z, int64_t y, int64_t outputs, const float *row,
                           int64_t used, float *points) {
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
    float *out = points + (size_t)p * 2 * z->pitch;
    for (int64_t s = 0; s < problem->columns; s++, tap++) {
      int64_t last = end - s * step < (int64_t)z->block ? end - s * step : (int64_t)z->block;
      for (int64_t x = begin > s * step ? begin - s * step : 0; x < last; x++)
        out[x] += *tap * row[x + s * step];
    }
  }
}

/* The same for all rows of the tile that load() was given. They are loaded again, into `row`. */
static void add_unsafe(const gconv_execution *execution, const sizes *z, int32_t first, int32_t end, size_t left, float *row,
                       float *points) {
  const gconv_problem *problem = execution->problem;
  size_t pixels = pixels_of(problem, z, left) + z->halo / (size_t)problem->channels;
  size_t used = pixels * (size_t)problem->channels, rows = (size_t)(end - first) + z->tile - z->valid;
  for (size_t y = 0; y < rows; y++) {
    gconv_load_pixels(execution, (int64_t)first + (int64_t)y - problem->pad_top, (int64_t)left - problem->pad_left, 1,
                      (int64_t)pixels, row);
    if (!are_unsafe(row, used))
      continue;
    keep_only(true, row, used);
    add_unsafe_row(execution, z, (int64_t)y, end - first, row, (int64_t)used, points);
  }
}

static void store(const gconv_execution *execution, const sizes *z, int32_t first, int32_t end, size_t left, float *points) {
  size_t channels = (size_t)execution->problem->channels, samples = pixels_of(execution->problem, z, left) * channels;
  for (int32_t p = first; p < end && samples > 0; p++, points += 2 * z->pitch) {
    if (p + AHEAD < end)
      gconv_expect_store(execution, p + AHEAD, (int64_t)left, (int64_t)(samples / channels));
    gconv_store_samples(execution, p, left * channels, samples, points, 0);
  }
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  sizes z = sizes_of(problem);
  size_t S = (size_t)problem->columns, channels = (size_t)problem->channels, block = z.block / channels;
  const float *w = gconv_prepared(problem, execution->weights), *taps = w + 2 * z.tile;
  float *points = execution->workspace;
  for (int32_t p = execution->first_row; p < execution->end_row; p += (int32_t)z.valid) {
    int32_t end = execution->end_row - p < (int32_t)z.valid ? execution->end_row : p + (int32_t)z.valid;
    for (size_t left = 0; left < (size_t)problem->out_width; left += 2 * block) {
      bool unsafe = load(execution, &z, p, end, left, points);
      bool unsafe_too = load(execution, &z, p, end, left + block, points + z.pitch);
      GCONV_CALL_ISA(transform_columns, (points, z.pitch, z.block + z.halo, z.log, w, true));
      GCONV_CALL_ISA(filter_rows, (points, z.pitch, z.block, z.tile, taps, S, (size_t)problem->dilation_x * channels));
      GCONV_CALL_ISA(transform_columns, (points, z.pitch, z.block, z.log, w, false));
      if (unsafe)
        add_unsafe(execution, &z, p, end, left, points + z.tile * 2 * z.pitch, points);
      if (unsafe_too)
        add_unsafe(execution, &z, p, end, left + block, points + z.tile * 2 * z.pitch, points + z.pitch);
      store(execution, &z, p, end, left, points);
      store(execution, &z, p, end, left + block, points + z.pitch);
    }
  }
  return GCONV_OK;
}

/* ---- The descriptor ---- */

static const char *supports(const gconv_problem *problem) {
  if (problem->stride_y != 1 || problem->stride_x != 1)
    return "it knows no strides";
  if (problem->in_type == GCONV_F32 && problem->channels % 2 == 0 && !problem->keep_alpha)
    return "colours may be divided by alpha later, and it does not keep alphas of 0 at 0";
  if (problem->filters != 1)
    return "it takes one filter at a time";
  if ((int64_t)(problem->rows - 1) * problem->dilation_y >= 1 << (MOST_LOG - 1) ||
      (int64_t)(problem->columns - 1) * problem->dilation_x >= 1 << (MOST_LOG - 1))
    return "filters that span more than 2048 pixels";
  return NULL;
}

static int32_t row_step(const gconv_problem *problem) {
  return (int32_t)sizes_of(problem).valid;
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double narrow = gconv_cpu_fuses() ? 1 : 10; /* without vectors, which the paces are of */
  double samples = gconv_problem_flop(problem) / (2.0 * (double)gconv_tap_count(problem));
  double strips = (double)problem->images * problem->planes * ceil((double)problem->out_height / row_step(problem));
  return gconv_cpu_ms(problem, machine, narrow * samples * pace_of(problem, choose_log(problem)) * 1e-6, strips);
}

/* Each of the 2 log2 N levels of butterflies adds independent errors of at most about 4 u to the root mean square of its
 * values (Higham, Accuracy and Stability, 24.1). That root mean square is at most max |x| on the way to the spectrum, and
 * (sum |tap|) * max |x| on the way back. The chain of 2 * S multiply-adds between them adds at most u each. Such errors add
 * as their squares do. The bound is 16 standard deviations, which are never reached. A bound that holds for any input grows
 * with N instead of the square root of log N, and is a hundred times as large. */
static double error_bound(const gconv_problem *problem) {
  return 16 * 4 * 0x1p-24 * sqrt(2.0 * choose_log(problem) + problem->columns / 8.0 + 2);
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

/* SPDX-License-Identifier: MIT */
/*
 * fft: products of spectra, tile by tile (overlap-save).
 *
 * A tile of N x N input pixels is transformed, multiplied by the spectrum of the filter and transformed back; of the result,
 * N - R + 1 rows and N - S + 1 columns are not touched by its wrapping around. The arithmetic: about 2 * 4.25 * 2 * N^2 *
 * log2 N flop a complex tile, whatever the filter, hence some 100 flop a sample where direct takes 2 * R * S: it wins from
 * about 15 x 15 on, and flatly.
 *
 * Nothing is shuffled. Each lane of a vector has a tile of its own, and a complex tile holds two real ones, as its real and
 * its imaginary part: filters are real, so they stay apart. Forward transforms leave frequencies in digit-reversed order
 * (decimation in frequency, radix 4), which backward ones undo (decimation in time), and the spectrum of the filter is
 * stored in that order. Rows are transformed while their tile is filled; columns there, product and back, one at a time in
 * L1; then rows back, but only those that are wanted.
 *
 * Not of the exact family. See error_bound() for what is stated. An infinity or a NaN spreads over its tile and the
 * one that shares its lane.
 */
#include "base/cpu.h"
#include "base/memory.h"
#include "conv/rows.h"
#include "tile.h"

#include <string.h>

enum { LANES = 8, TILES = 2 * LANES, LEAST_LOG = 5, MOST_LOG = 8 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef struct point {
  lanes re, im;
} point;

/* ---- Sizes ---- */

static int32_t extent_y(const gconv_problem *problem) {
  return (problem->rows - 1) * problem->dilation_y + 1;
}
static int32_t extent_x(const gconv_problem *problem) {
  return (problem->columns - 1) * problem->dilation_x + 1;
}

/* Nanoseconds a sample with tiles of 2^log: transforms, and moving samples into lanes and out of them. */
static double pace_of(const gconv_problem *problem, int log) {
  double size = 1 << log, valid_y = size - extent_y(problem) + 1, valid_x = size - extent_x(problem) + 1;
  if (valid_y < 1 || valid_x < 1)
    return INFINITY;
  return size * size / (valid_y * valid_x) * (0.48 * log - 0.85);
}

/* log2 of the size of the tiles: what is fastest. */
static int choose_log(const gconv_problem *problem) {
  int best = LEAST_LOG;
  for (int log = LEAST_LOG + 1; log <= MOST_LOG; log++)
    if (pace_of(problem, log) < pace_of(problem, best))
      best = log;
  return best;
}

typedef struct sizes {
  size_t tile, pitch;      /* N, and points from a row of a tile to the next: odd, so that columns fill all of L1 */
  size_t valid_y, valid_x; /* pixels of a tile's result */
  size_t tiles;            /* side by side in a batch: as many as there are lanes for all their channels */
} sizes;

static sizes sizes_of(const gconv_problem *problem) {
  size_t tile = (size_t)1 << choose_log(problem), channels = (size_t)problem->channels;
  return (sizes){.tile = tile,
                 .pitch = tile + 1,
                 .valid_y = tile - (size_t)extent_y(problem) + 1,
                 .valid_x = tile - (size_t)extent_x(problem) + 1,
                 .tiles = TILES / channels};
}

/* ---- Weights: N twiddle factors, then the spectrum by positions, each as pairs of floats ---- */

static size_t prepared_floats(const gconv_problem *problem) {
  size_t tile = (size_t)1 << choose_log(problem);
  return 2 * tile + 2 * tile * tile;
}

/* The frequency that stands at a position: a stage of radix r leaves those of residue b modulo r in its b-th part. */
static size_t frequency_at(size_t position, size_t size) {
  size_t radix = size % 3 == 1 ? 4 : 2; /* powers of 4 are 1 modulo 3 */
  if (size == 1)
    return 0;
  size_t part = size / radix;
  return position / part + radix * frequency_at(position % part, part);
}

/* to[f] = sum over i of taps[i] * exp(2 pi i f * (i * dilation) / N), for complex taps. */
static void transform_taps(const double (*taps)[2], size_t count, size_t distance, size_t dilation, size_t tile,
                           const double (*circle)[2], double (*to)[2]) {
  for (size_t f = 0; f < tile; f++) {
    double re = 0, im = 0;
    for (size_t i = 0; i < count; i++) {
      const double *w = circle[f * i * dilation % tile], *t = taps[i * distance];
      re += t[0] * w[0] - t[1] * w[1];
      im += t[0] * w[1] + t[1] * w[0];
    }
    to[f][0] = re;
    to[f][1] = im;
  }
}

/* In float64, so that its error is one rounding. `circle`: exp(2 pi i j / N). Correlation: the conjugate of convolution's.
 */
static void make_spectrum(const gconv_problem *problem, const float *taps, size_t tile, double (*memory)[2], float *to) {
  size_t R = (size_t)problem->rows, S = (size_t)problem->columns;
  double(*circle)[2] = memory, (*row)[2] = circle + tile, (*rows)[2] = row + S, (*column)[2] = rows + R * tile;
  for (size_t j = 0; j < tile; j++) {
    circle[j][0] = cos(2 * M_PI * (double)j / (double)tile);
    circle[j][1] = sin(2 * M_PI * (double)j / (double)tile);
  }
  for (size_t r = 0; r < R; r++) {
    for (size_t s = 0; s < S; s++) {
      row[s][0] = (double)taps[r * S + s];
      row[s][1] = 0;
    }
    transform_taps((const double(*)[2])row, S, 1, (size_t)problem->dilation_x, tile, (const double(*)[2])circle,
                   rows + r * tile);
  }
  double scale = 1 / ((double)tile * (double)tile);
  for (size_t x = 0; x < tile; x++) {
    transform_taps((const double(*)[2])(rows + frequency_at(x, tile)), R, tile, (size_t)problem->dilation_y, tile,
                   (const double(*)[2])circle, column);
    for (size_t y = 0; y < tile; y++) /* by columns, as they are used */
      for (size_t i = 0; i < 2; i++)
        to[2 * (x * tile + y) + i] = (float)(column[frequency_at(y, tile)][i] * scale);
  }
}

static gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  size_t tile = sizes_of(problem).tile, R = (size_t)problem->rows, S = (size_t)problem->columns;
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((2 * tile + S + R * tile) * 2 * sizeof(double), "the spectrum of a filter", &memory));
  for (size_t j = 0; j < tile; j++) {
    prepared[2 * j] = (float)cos(2 * M_PI * (double)j / (double)tile);
    prepared[2 * j + 1] = (float)-sin(2 * M_PI * (double)j / (double)tile);
  }
  make_spectrum(problem, taps, tile, memory, prepared + 2 * tile);
  gconv_release(memory);
  return GCONV_OK;
}

/* ---- Transforms, in place: points[i * stride], i < size. w[2 * j], w[2 * j + 1] = exp(-2 pi i j / N), of which every
 * `step`-th is of the size at hand. ---- */

/* to = (re + i im) * (c + i s) */
#define TURN(to, a, b, c, s)                                                                                                \
  do {                                                                                                                      \
    lanes turned_re = (a), turned_im = (b);                                                                                 \
    (to).re = turned_re * (c)-turned_im * (s);                                                                              \
    (to).im = turned_re * (s) + turned_im * (c);                                                                            \
  } while (0)

GCONV_INLINE void forward_4(point *points, size_t stride, size_t size, const float *w, size_t step) {
  size_t part = size / 4;
  for (size_t j = 0; j < part; j++) {
    point *p0 = points + j * stride, *p1 = p0 + part * stride, *p2 = p1 + part * stride, *p3 = p2 + part * stride;
    const float *w1 = w + 2 * j * step, *w2 = w + 4 * j * step, *w3 = w + 6 * j * step;
    lanes s02_re = p0->re + p2->re, s02_im = p0->im + p2->im, d02_re = p0->re - p2->re, d02_im = p0->im - p2->im;
    lanes s13_re = p1->re + p3->re, s13_im = p1->im + p3->im, d13_re = p1->re - p3->re, d13_im = p1->im - p3->im;
    p0->re = s02_re + s13_re;
    p0->im = s02_im + s13_im;
    TURN(*p1, d02_re + d13_im, d02_im - d13_re, w1[0], w1[1]);
    TURN(*p2, s02_re - s13_re, s02_im - s13_im, w2[0], w2[1]);
    TURN(*p3, d02_re - d13_im, d02_im + d13_re, w3[0], w3[1]);
  }
}

GCONV_INLINE void backward_4(point *points, size_t stride, size_t size, const float *w, size_t step) {
  size_t part = size / 4;
  for (size_t j = 0; j < part; j++) {
    point *p0 = points + j * stride, *p1 = p0 + part * stride, *p2 = p1 + part * stride, *p3 = p2 + part * stride;
    const float *w1 = w + 2 * j * step, *w2 = w + 4 * j * step, *w3 = w + 6 * j * step;
    point t0 = *p0, t1, t2, t3;
    TURN(t1, p1->re, p1->im, w1[0], -w1[1]);
    TURN(t2, p2->re, p2->im, w2[0], -w2[1]);
    TURN(t3, p3->re, p3->im, w3[0], -w3[1]);
    lanes s02_re = t0.re + t2.re, s02_im = t0.im + t2.im, d02_re = t0.re - t2.re, d02_im = t0.im - t2.im;
    lanes s13_re = t1.re + t3.re, s13_im = t1.im + t3.im, d13_re = t1.re - t3.re, d13_im = t1.im - t3.im;
    p0->re = s02_re + s13_re;
    p0->im = s02_im + s13_im;
    p1->re = d02_re - d13_im;
    p1->im = d02_im + d13_re;
    p2->re = s02_re - s13_re;
    p2->im = s02_im - s13_im;
    p3->re = d02_re + d13_im;
    p3->im = d02_im - d13_re;
  }
}

GCONV_INLINE void forward_2(point *points, size_t stride, size_t size, const float *w, size_t step) {
  size_t part = size / 2;
  for (size_t j = 0; j < part; j++) {
    point *p0 = points + j * stride, *p1 = p0 + part * stride;
    lanes d_re = p0->re - p1->re, d_im = p0->im - p1->im;
    p0->re += p1->re;
    p0->im += p1->im;
    TURN(*p1, d_re, d_im, w[2 * j * step], w[2 * j * step + 1]);
  }
}

GCONV_INLINE void backward_2(point *points, size_t stride, size_t size, const float *w, size_t step) {
  size_t part = size / 2;
  for (size_t j = 0; j < part; j++) {
    point *p0 = points + j * stride, *p1 = p0 + part * stride, t;
    TURN(t, p1->re, p1->im, w[2 * j * step], -w[2 * j * step + 1]);
    p1->re = p0->re - t.re;
    p1->im = p0->im - t.im;
    p0->re += t.re;
    p0->im += t.im;
  }
}

GCONV_INLINE void forward(point *points, size_t stride, size_t tile, const float *w) {
  size_t size = tile;
  if (tile % 3 == 2) { /* not a power of 4 */
    forward_2(points, stride, size, w, 1);
    size /= 2;
  }
  for (; size > 1; size /= 4)
    for (size_t first = 0; first < tile; first += size)
      forward_4(points + first * stride, stride, size, w, tile / size);
}

GCONV_INLINE void backward(point *points, size_t stride, size_t tile, const float *w) {
  for (size_t size = 4; size <= tile; size *= 4)
    for (size_t first = 0; first < tile; first += size)
      backward_4(points + first * stride, stride, size, w, tile / size);
  if (tile % 3 == 2)
    backward_2(points, stride, tile, w, 1);
}

/* ---- The steps of a batch ---- */

/* Channel `lane` % C of tile `lane` / C of a row of pixels goes to that lane; the odd halves of the lanes are imaginary. */
GCONV_INLINE void enter_row_body(const sizes *z, size_t channels, const float *row, const float *w, point *points) {
  for (size_t t = 0; t < z->tiles; t++)
    for (size_t c = 0; c < channels; c++) {
      size_t lane = t * channels + c;
      const float *from = row + t * z->valid_x * channels + c;
      float *to = (float *)points + lane;
      for (size_t x = 0; x < z->tile; x++)
        to[x * TILES] = from[x * channels];
    }
  for (size_t lane = z->tiles * channels; lane < TILES;
       lane++) /* its rounding would be felt by the tile it shares a lane with */
    for (size_t x = 0; x < z->tile; x++)
      ((float *)points)[x * TILES + lane] = 0;
  forward(points, 1, z->tile, w);
}
GCONV_VECTORIZED(enter_row, (const sizes *z, size_t channels, const float *row, const float *w, point *points),
                 (z, channels, row, w, points))

GCONV_INLINE void filter_columns_body(const sizes *z, const float *w, const float *spectrum, point *points) {
  for (size_t x = 0; x < z->tile; x++, points++) {
    forward(points, z->pitch, z->tile, w);
    for (size_t y = 0; y < z->tile; y++, spectrum += 2)
      TURN(points[y * z->pitch], points[y * z->pitch].re, points[y * z->pitch].im, spectrum[0], spectrum[1]);
    backward(points, z->pitch, z->tile, w);
  }
}
GCONV_VECTORIZED(filter_columns, (const sizes *z, const float *w, const float *spectrum, point *points),
                 (z, w, spectrum, points))

GCONV_INLINE void leave_row_body(const sizes *z, size_t channels, const float *w, point *points, float *row) {
  backward(points, 1, z->tile, w);
  for (size_t t = 0; t < z->tiles; t++)
    for (size_t c = 0; c < channels; c++) {
      const float *from = (const float *)points + t * channels + c;
      float *to = row + t * z->valid_x * channels + c;
      for (size_t x = 0; x < z->valid_x; x++)
        to[x * channels] = from[x * TILES];
    }
}
GCONV_VECTORIZED(leave_row, (const sizes *z, size_t channels, const float *w, point *points, float *row),
                 (z, channels, w, points, row))

/* ---- Execution ---- */

static size_t workspace_bytes(const gconv_problem *problem) {
  sizes z = sizes_of(problem);
  size_t row = ((z.tiles - 1) * z.valid_x + z.tile) * (size_t)problem->channels;
  return z.tile * z.pitch * sizeof(point) + row * sizeof(float);
}

/* Output rows first .. end - 1 of the pixels from `left` on that a batch has. */
static void execute_batch(const gconv_execution *execution, const sizes *z, int32_t first, int32_t end, size_t left) {
  const gconv_problem *problem = execution->problem;
  const float *w = gconv_prepared(problem, execution->weights), *spectrum = w + 2 * z->tile;
  size_t channels = (size_t)problem->channels, rest = (size_t)problem->out_width - left;
  size_t pixels = rest < z->tiles * z->valid_x ? rest : z->tiles * z->valid_x;
  size_t used = pixels + z->tile - z->valid_x, all = z->tiles * z->valid_x + z->tile - z->valid_x;
  point *points = execution->workspace;
  float *row = (float *)(points + z->tile * z->pitch);
  for (size_t y = 0; y < z->tile; y++) {
    gconv_load_pixels(execution, (int64_t)first + (int64_t)y - problem->pad_top, (int64_t)left - problem->pad_left, 1,
                      (int64_t)used, row);
    memset(row + used * channels, 0, (all - used) * channels * sizeof *row);
    enter_row(z, channels, row, w, points + y * z->pitch);
  }
  filter_columns(z, w, spectrum, points);
  for (int32_t p = first; p < end; p++) {
    leave_row(z, channels, w, points + (size_t)(p - first) * z->pitch, row);
    gconv_store_samples(execution, p, left * channels, pixels * channels, row, 0);
  }
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  sizes z = sizes_of(problem);
  for (int32_t p = execution->first_row; p < execution->end_row; p += (int32_t)z.valid_y) {
    int32_t end = execution->end_row - p < (int32_t)z.valid_y ? execution->end_row : p + (int32_t)z.valid_y;
    for (size_t left = 0; left < (size_t)problem->out_width; left += z.tiles * z.valid_x)
      execute_batch(execution, &z, p, end, left);
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
    return "filters that span more than 128 pixels";
  return NULL;
}

static int32_t row_step(const gconv_problem *problem) {
  return (int32_t)sizes_of(problem).valid_y;
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double narrow = gconv_cpu_isa() == GCONV_ISA_PLAIN ? 15 : 1; /* against vectors, which the paces are of */
  double samples = gconv_problem_flop(problem) / (2.0 * (double)gconv_tap_count(problem));
  double strips = (double)problem->images * problem->planes * ceil((double)problem->out_height / row_step(problem));
  return gconv_cpu_ms(problem, machine, narrow * samples * pace_of(problem, choose_log(problem)) * 1e-6, strips);
}

/* Each of the 2 log2 N^2 levels of butterflies adds independent errors of at most about 4 u to the root mean square of its
 * values (Higham, Accuracy and Stability, 24.1), which is max |x| at most on the way there, and (sum |tap|) * max |x| on the
 * way back; such errors add as their squares do. 16 deviations are never seen. The certain bound grows with N in place of
 * the square root of log N, and is a hundred times as large. */
static double error_bound(const gconv_problem *problem) {
  return 16 * 4 * 0x1p-24 * sqrt(4.0 * choose_log(problem) + 2);
}

const gconv_algorithm gconv_algorithm_cpu_fft = {
    .info = {.name = "fft", .device = "cpu", .help = "products of spectra, tile by tile, for large filters", .exact = false},
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

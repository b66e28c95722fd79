/* SPDX-License-Identifier: MIT */
/*
 * fft: spectra of tiles, summed over the channels (overlap-save in both directions).
 *
 * The image is cut into overlapping tiles. The spectra of a tile's C channels are multiplied by the spectra of a filter's C
 * channels, and added up. One transform back makes the filter's outputs. So C + K transforms and C * K products of points
 * replace C * K * R * S products of samples. It pays from some 8 x 8 taps on.
 *
 * A complex point holds two samples: the real part is one tile, the imaginary part its neighbour. Taps are real, so the
 * tiles stay apart. A strip of some columns is loaded, transformed (fft_columns.h) and transposed at a time, so it stays in
 * the L2 cache; then the rows of the tile, which are columns now, are transformed in the same way. Products depend neither
 * on the order of frequencies nor on the transposition of points.
 *
 * A task takes a few pairs of tiles, transforms all their channels, and then makes FILTERS outputs at a time. The spectra of
 * filters come from memory once for each task, in the order of their use. So a task with more pairs needs less bandwidth of
 * memory, and more of the caches.
 *
 * An infinity or a NaN would spread over its pair of tiles. So would a sample so large that sums in between may overflow.
 * Such samples are left out of the transforms, and their products with the taps are added afterwards.
 */
#include "../fft_columns.h"
#include "../train/product.h"
#include "base/memory.h"
#include "product.h"

#include <math.h>
#include <string.h>

enum {
  LEAST_LOG = GCONV_FFT_LEAST_LOG, /* log2 of the sides of tiles */
  MOST_LOG = 11,
  LOGS = MOST_LOG - LEAST_LOG + 1,
  CHUNK = 16,               /* frequencies whose taps are neighbours */
  FILTERS = 4,              /* filters whose outputs are made at a time */
  PAIRS = 4,                /* pairs of tiles of a task, at most */
  LEAST_TASKS = 32,         /* tasks, if there are so many pairs: then threads share them evenly */
  TASK_FLOATS = 1 << 20,    /* floats of the points of a task: 4 MiB */
  STRIP_FLOATS = 128 << 10, /* floats of a strip: 512 KiB */
};

/* The product of the points of some pairs of tiles and the taps of some filters. Points and sums have rows of `frequencies`
 * real parts and as many imaginary parts. */
typedef struct fft_product {
  int64_t rows, frequencies, pitch; /* pitch: floats from a row to the next */
  int64_t channels, filters, pairs; /* filters <= FILTERS, pairs <= PAIRS */
  const float *taps;                /* [row][frequencies / CHUNK][channel][filter][2][CHUNK] */
  const float *points;
  float *sums;
  int64_t channel; /* floats from the points of one channel to those of the next; of one filter's sums, too */
  int64_t pair;    /* floats from the points, or the sums, of one pair to those of the next */
} fft_product;

#define TEMPLATE "layer/fft_template.h"
#include "../each_isa.h"

/* ---- Tiles and tasks ---- */

typedef struct cut {
  int log_y, log_x;
  int64_t rows, columns;      /* of a tile */
  int64_t valid_y, valid_x;   /* outputs of a tile, if the stride were 1 */
  int64_t down, across;       /* tiles of an image; pairs are neighbours in this order */
  int64_t pairs, together;    /* pairs of an image, pairs of a task */
  int64_t parts;              /* tasks of an image */
  int64_t strip;              /* columns that are loaded, transformed and transposed at a time */
  int64_t pitch, strip_pitch; /* floats from a row of points, or of a strip, to the next: real and imaginary parts, a gap */
  int64_t channels, filters;  /* of a group */
} cut;

static int64_t extent(int32_t taps, int32_t dilation) {
  return (int64_t)(taps - 1) * dilation + 1;
}
/* The outputs that the tiles have to cover, counted as if the stride were 1. */
static int64_t visited(int32_t outputs, int32_t stride) {
  return (int64_t)(outputs - 1) * stride + 1;
}

/* Returns the nanoseconds of one thread of the reference CPU for transforming a point in one direction, in columns of 2^log
 * points, and moving it. All CPUs choose tiles by these times, so bits are the same. */
static double pace(int log) {
  static const double ns[LOGS] = {1.2, 1.0, 1.2, 1.4, 1.8, 2.3, 3.5, 6};
  return ns[log - LEAST_LOG];
}

static cut cut_with(const gconv_layer_problem *problem, int log_y, int log_x) {
  cut c = {.log_y = log_y, .log_x = log_x, .rows = (int64_t)1 << log_y, .columns = (int64_t)1 << log_x};
  c.channels = problem->channels / problem->groups;
  c.filters = problem->filters / problem->groups;
  c.valid_y = c.rows - extent(problem->rows, problem->dilation_y) + 1;
  c.valid_x = c.columns - extent(problem->columns, problem->dilation_x) + 1;
  if (c.valid_y < 1 || c.valid_x < 1)
    return c;
  c.down = gconv_divide_up(visited(problem->out_height, problem->stride_y), c.valid_y);
  c.across = gconv_divide_up(visited(problem->out_width, problem->stride_x), c.valid_x);
  c.pairs = gconv_divide_up(c.down * c.across, 2);
  c.strip = gconv_clamp(STRIP_FLOATS / (2 * c.rows), CHUNK, c.columns);
  c.pitch = 2 * c.rows + CHUNK; /* the gap: rows that are a power of two apart would share few sets of the cache */
  c.strip_pitch = 2 * c.strip + CHUNK;
  int64_t fitting = TASK_FLOATS / (c.columns * c.pitch * c.channels);
  int64_t spread = c.pairs * problem->images * problem->groups / LEAST_TASKS;
  c.together = gconv_clamp(fitting < spread ? fitting : spread, 1, PAIRS);
  c.parts = gconv_divide_up(c.pairs, c.together);
  return c;
}

/* Returns the nanoseconds of one thread of the reference CPU for transforms, and sets the multiply-adds of the products. */
static double work_of(const gconv_layer_problem *problem, const cut *c, double *multiply_adds) {
  double points = (double)problem->images * problem->groups * (double)c->pairs * (double)(c->rows * c->columns);
  double filter_points = (double)problem->groups * (double)(c->channels * c->filters * c->rows * c->columns);
  double transforms = points * (double)(c->channels + c->filters) * (pace(c->log_y) + pace(c->log_x));
  double outputs = (double)problem->images * problem->filters * problem->out_height * problem->out_width;
  double turns = filter_points > 1 << 18 ? (double)(problem->images * c->parts) : 1; /* how often taps leave the L2 cache */
  *multiply_adds = 4 * points * (double)(c->channels * c->filters);
  return transforms + filter_points * turns * 0.8 + outputs * 0.3;
}

/* Returns the cut with the least estimated time for one image, so that an image has the same bits in any batch. If the
 * filter is too large, `down` is 0. */
static cut cut_of(const gconv_layer_problem *problem) {
  const double fma_ns = 1 / 40.0; /* of one thread of the reference CPU */
  gconv_layer_problem image = *problem;
  image.images = 1;
  cut best = {.down = 0};
  double least = INFINITY;
  for (int y = LEAST_LOG; y <= MOST_LOG; y++)
    for (int x = LEAST_LOG; x <= MOST_LOG; x++) {
      cut c = cut_with(&image, y, x);
      double multiply_adds = 0, ns = c.down ? work_of(&image, &c, &multiply_adds) + multiply_adds * fma_ns : INFINITY;
      if (ns < least) {
        least = ns;
        best = c;
      }
    }
  return best.down ? cut_with(problem, best.log_y, best.log_x) : best;
}

static size_t tasks(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  return (size_t)(problem->images * problem->groups * c.parts);
}

static int64_t tile_floats(const cut *c) { /* of its points */
  return c->columns * c->pitch;
}
static int64_t strip_floats(const cut *c) {
  return c->rows * c->strip_pitch;
}

/* The workspace has a strip, the points of a task, and the sums of FILTERS filters. */
static size_t workspace_bytes(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  return (size_t)(strip_floats(&c) + tile_floats(&c) * c.together * (c.channels + FILTERS)) * sizeof(float);
}

/* ---- Transforms of tiles. `twiddles` has the factors of columns, then the factors of rows. ---- */

/* Transforms the columns of a strip, which begins in column x of the tile, and writes them to rows of points. */
static void strip_to_points(const cut *c, const float *twiddles, float *strip, int64_t x, float *points) {
  gconv_fft_columns(strip, (size_t)c->strip_pitch, (size_t)c->strip, (size_t)c->strip, c->log_y, twiddles, true);
  float *to = points + x * c->pitch;
  gconv_learn_transpose(strip, c->strip_pitch, c->rows, c->strip, to, c->pitch);
  gconv_learn_transpose(strip + c->strip, c->strip_pitch, c->rows, c->strip, to + c->rows, c->pitch);
}

/* Does the reverse of strip_to_points(). */
static void points_to_strip(const cut *c, const float *twiddles, const float *points, int64_t x, float *strip) {
  const float *from = points + x * c->pitch;
  gconv_learn_transpose(from, c->pitch, c->strip, c->rows, strip, c->strip_pitch);
  gconv_learn_transpose(from + c->rows, c->pitch, c->strip, c->rows, strip + c->strip, c->strip_pitch);
  gconv_fft_columns(strip, (size_t)c->strip_pitch, (size_t)c->strip, (size_t)c->strip, c->log_y, twiddles, false);
}

/* Transforms the rows of the tile, which are columns of its points. */
static void transform_rows(const cut *c, const float *twiddles, float *points, bool forward) {
  gconv_fft_columns(points, (size_t)c->pitch, (size_t)c->rows, (size_t)c->rows, c->log_x, twiddles + 2 * c->rows, forward);
}

/* ---- Weights ---- */

static int64_t group_floats(const cut *c) {
  return 2 * c->rows * c->columns * c->channels * c->filters;
}

/* Prepared weights: the largest safe sample, in CHUNK floats; the twiddle factors of columns, and of rows; the taps of each
 * group. */
static int64_t twiddle_floats(const cut *c) {
  return 2 * (c->rows + c->columns);
}

static size_t prepared_floats(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  return (size_t)(CHUNK + twiddle_floats(&c) + problem->groups * group_floats(&c));
}

/* Returns the largest |x| of safe samples. Let M be max |x|, S the sum |weight| of a filter,
 * and n the points of a tile. Then points of spectra are at most 2 n M, products 2 S M, and sums of backward transforms
 * 2 n S M. */
static float safe_limit(const gconv_layer_problem *problem, const cut *c, const float *weights) {
  double most = 1;
  for (int64_t k = 0; k < problem->filters; k++, weights += gconv_layer_taps(problem)) {
    double sum = 0;
    for (int64_t i = 0; i < gconv_layer_taps(problem); i++)
      sum += fabs((double)weights[i]);
    most = fmax(most, sum);
  }
  return (float)(0x1p126 / (2 * (double)(c->rows * c->columns) * most));
}

/* Writes the points of one channel of a filter to where products read them (fft_product). Correlation needs the
 * conjugates of the spectra for convolution. */
static void place_taps(const cut *c, const float *points, int64_t channel, int64_t filter, int64_t filters, float *block) {
  const float scale = 1 / (float)(c->rows * c->columns); /* a power of two */
  for (int64_t x = 0; x < c->columns; x++)
    for (int64_t y = 0; y < c->rows; y += CHUNK) {
      const float *from = points + x * c->pitch + y;
      int64_t chunk = x * (c->rows / CHUNK) + y / CHUNK;
      float *to = block + ((chunk * c->channels + channel) * filters + filter) * 2 * CHUNK;
      for (int64_t i = 0; i < CHUNK; i++) {
        to[i] = from[i] * scale;
        to[CHUNK + i] = -from[c->rows + i] * scale;
      }
    }
}

static void transform_taps(const gconv_layer_problem *problem, const cut *c, const float *twiddles, const float *taps,
                           float *strip, float *points) {
  memset(points, 0, (size_t)tile_floats(c) * sizeof *points);
  for (int64_t x = 0; x < extent(problem->columns, problem->dilation_x); x += c->strip) {
    memset(strip, 0, (size_t)strip_floats(c) * sizeof *strip);
    int64_t first = gconv_divide_up(x, problem->dilation_x), end = gconv_divide_up(x + c->strip, problem->dilation_x);
    for (int64_t r = 0; r < problem->rows; r++)
      for (int64_t s = first; s < end && s < problem->columns; s++)
        strip[r * problem->dilation_y * c->strip_pitch + s * problem->dilation_x - x] = taps[r * problem->columns + s];
    strip_to_points(c, twiddles, strip, x, points);
  }
  transform_rows(c, twiddles, points, true);
}

/* Returns where the taps of filter k of a group begin, and sets how many filters share a block with it. */
static float *block_of(const cut *c, float *group, int64_t k, int64_t *filters) {
  int64_t first = k / FILTERS * FILTERS;
  *filters = gconv_clamp(c->filters - first, 0, FILTERS);
  return group + first * (group_floats(c) / c->filters);
}

static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  cut c = cut_of(problem);
  float *strip, *twiddles = prepared + CHUNK, *taps = twiddles + twiddle_floats(&c);
  GCONV_ALLOCATE(strip, (size_t)(strip_floats(&c) + tile_floats(&c)) * sizeof(float), "the spectrum of a filter");
  float *points = strip + strip_floats(&c);
  prepared[0] = safe_limit(problem, &c, weights);
  gconv_fft_twiddles(c.log_y, twiddles);
  gconv_fft_twiddles(c.log_x, twiddles + 2 * c.rows);
  for (int64_t g = 0; g < problem->groups; g++, taps += group_floats(&c))
    for (int64_t k = 0; k < c.filters; k++)
      for (int64_t i = 0; i < c.channels; i++, weights += (int64_t)problem->rows * problem->columns) {
        transform_taps(problem, &c, twiddles, weights, strip, points);
        int64_t filters;
        float *block = block_of(&c, taps, k, &filters);
        place_taps(&c, points, i, k % FILTERS, filters, block);
      }
  gconv_release(strip);
  return GCONV_OK;
}

/* ---- Execution ---- */

/* A task: some pairs of tiles of an image and a group. `in` and `out` are its first channel and first output. */
typedef struct walk {
  const gconv_layer_problem *problem;
  const float *twiddles, *weights; /* of the group */
  cut cut;
  float limit; /* the largest safe |x| */
  const float *in;
  float *out;
  int64_t first; /* its first tile */
  int64_t pairs;
  float *strip, *points, *sums;
  int32_t unsafe[2 * PAIRS]; /* of each tile: not 0 if samples were left out */
} walk;

static int64_t tile_row(const walk *w, int64_t tile) { /* Returns a tile's first output row, as if the stride were 1. */
  return (w->first + tile) / w->cut.across * w->cut.valid_y;
}
static int64_t tile_column(const walk *w, int64_t tile) {
  return (w->first + tile) % w->cut.across * w->cut.valid_x;
}
static bool is_tile(const walk *w, int64_t tile) {
  return w->first + tile < w->cut.down * w->cut.across;
}

/* Copies samples, with 0 in place of unsafe ones. Sets *unsafe if there are any. */
GCONV_VECTOR_LOOP(copy_safe,
                  (const float *restrict from, float limit, float *restrict to, int64_t count, int32_t *restrict unsafe),
                  (from, limit, to, count, unsafe)) {
  int32_t found = 0;
  for (int64_t i = 0; i < count; i++) {
    int32_t safe = fabsf(from[i]) <= limit;
    to[i] = safe ? from[i] : 0;
    found |= !safe;
  }
  *unsafe |= found;
}

/* Loads the `count` samples of a row of a channel, from `column` on, which may lie outside the image. */
static void load_row(const walk *w, const float *channel, int64_t row, int64_t column, int64_t count, float *to,
                     int32_t *unsafe) {
  const gconv_layer_problem *problem = w->problem;
  int64_t begin = gconv_clamp(-column, 0, count), end = gconv_clamp(problem->width - column, begin, count);
  if (row < 0 || row >= problem->height)
    begin = end = count;
  memset(to, 0, (size_t)begin * sizeof *to);
  if (end > begin)
    copy_safe(channel + row * problem->width + column + begin, w->limit, to + begin, end - begin, unsafe);
  memset(to + end, 0, (size_t)(count - end) * sizeof *to);
}

/* Loads a strip of a tile of a channel, from column x of the tile on. */
static void load(const walk *w, const float *channel, int64_t tile, int64_t x, float *to, int32_t *unsafe) {
  const cut *c = &w->cut;
  int64_t top = tile_row(w, tile) - w->problem->pad_top, left = tile_column(w, tile) - w->problem->pad_left + x;
  for (int64_t y = 0; y < c->rows; y++, to += c->strip_pitch)
    if (is_tile(w, tile))
      load_row(w, channel, top + y, left, c->strip, to, unsafe);
    else
      memset(to, 0, (size_t)c->strip * sizeof *to);
}

static void make_points(walk *w) {
  const cut *c = &w->cut;
  float *points = w->points;
  for (int64_t i = 0; i < c->channels; i++)
    for (int64_t t = 0; t < w->pairs; t++, points += tile_floats(c)) {
      for (int64_t x = 0; x < c->columns; x += c->strip) {
        for (int64_t half = 0; half < 2; half++)
          load(w, w->in + i * gconv_layer_plane(w->problem), 2 * t + half, x, w->strip + half * c->strip,
               &w->unsafe[2 * t + half]);
        strip_to_points(c, w->twiddles, w->strip, x, points);
      }
      transform_rows(c, w->twiddles, points, true);
    }
}

/* The sums of a strip of a tile's outputs, from column x of the tile on. Rows are strip_pitch floats apart. */
typedef struct outputs {
  int64_t tile, x, width;
  float *sums;
} outputs;

/* Adds the products of one unsafe sample and the taps of a filter's channel. The sample is in row y, column x of the tile.
 */
static void add_sample(const walk *w, const float *taps, float sample, int64_t y, int64_t x, const outputs *o) {
  const gconv_layer_problem *problem = w->problem;
  for (int64_t r = 0; r < problem->rows; r++)
    for (int64_t s = 0; s < problem->columns; s++, taps++) {
      int64_t p = y - r * problem->dilation_y, q = x - s * problem->dilation_x - o->x;
      if (p >= 0 && p < w->cut.valid_y && q >= 0 && q < o->width)
        o->sums[p * w->cut.strip_pitch + q] += *taps * sample;
    }
}

/* Adds the products of all unsafe samples of the tile and the taps of filter k of the group. */
static void add_unsafe(const walk *w, int64_t k, const outputs *o) {
  const gconv_layer_problem *problem = w->problem;
  const int64_t channels = w->cut.channels, taps = (int64_t)problem->rows * problem->columns;
  int64_t top = tile_row(w, o->tile) - problem->pad_top, left = tile_column(w, o->tile) - problem->pad_left;
  int64_t first_y = gconv_clamp(-top, 0, w->cut.rows), end_y = gconv_clamp(problem->height - top, 0, w->cut.rows);
  int64_t first_x = gconv_clamp(-left, 0, w->cut.columns), end_x = gconv_clamp(problem->width - left, 0, w->cut.columns);
  for (int64_t c = 0; c < channels; c++)
    for (int64_t y = first_y; y < end_y; y++)
      for (int64_t x = first_x; x < end_x; x++) {
        float sample = w->in[c * gconv_layer_plane(problem) + (top + y) * problem->width + left + x];
        if (!(fabsf(sample) <= w->limit))
          add_sample(w, w->weights + (k * channels + c) * taps, sample, y, x, o);
      }
}

GCONV_VECTOR_LOOP(add_bias, (const float *restrict from, int64_t step, float bias, float *restrict to, int64_t count),
                  (from, step, bias, to, count)) {
  if (step == 1) /* this loop becomes vectors */
    for (int64_t i = 0; i < count; i++)
      to[i] = from[i] + bias;
  else
    for (int64_t i = 0; i < count; i++)
      to[i] = from[i * step] + bias;
}

static void store(const walk *w, float bias, const outputs *o, float *plane) {
  const gconv_layer_problem *problem = w->problem;
  int64_t row = tile_row(w, o->tile), column = tile_column(w, o->tile) + o->x;
  int64_t dy = problem->stride_y, dx = problem->stride_x;
  int64_t first = gconv_divide_up(column, dx), end = gconv_divide_up(column + o->width, dx);
  end = gconv_clamp(problem->out_width, first, end);
  for (int64_t p = gconv_divide_up(row, dy); p < problem->out_height && p * dy < row + w->cut.valid_y; p++) {
    float *to = plane + p * problem->out_width + first;
    add_bias(o->sums + (p * dy - row) * w->cut.strip_pitch + first * dx - column, dx, bias, to, end - first);
    gconv_layer_activate(problem, to, (size_t)(end - first));
  }
}

/* Makes the outputs of filter k of the group from the sums of its pairs. */
static void make_outputs(const walk *w, int64_t k, float bias, float *sums) {
  const cut *c = &w->cut;
  float *plane = w->out + k * w->problem->out_height * w->problem->out_width;
  for (int64_t t = 0; t < w->pairs; t++, sums += tile_floats(c)) {
    transform_rows(c, w->twiddles, sums, false);
    for (int64_t x = 0; x < c->valid_x; x += c->strip) {
      points_to_strip(c, w->twiddles, sums, x, w->strip);
      for (int64_t half = 0; half < 2 && is_tile(w, 2 * t + half); half++) {
        const outputs o = {2 * t + half, x, gconv_clamp(c->valid_x - x, 0, c->strip), w->strip + half * c->strip};
        if (w->unsafe[o.tile])
          add_unsafe(w, k, &o);
        store(w, bias, &o, plane);
      }
    }
  }
}

static gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  walk w = {.problem = problem, .cut = cut_of(problem), .twiddles = gconv_layer_prepared(problem, e->weights) + CHUNK};
  const cut *c = &w.cut;
  int64_t part = (int64_t)e->task % c->parts, image_group = (int64_t)e->task / c->parts,
          group = image_group % problem->groups;
  w.first = 2 * part * c->together;
  w.pairs = gconv_clamp(c->pairs - part * c->together, 0, c->together);
  w.in = e->in + image_group * c->channels * gconv_layer_plane(problem);
  w.out = e->out + image_group * c->filters * problem->out_height * problem->out_width;
  w.weights = e->weights + group * c->filters * gconv_layer_taps(problem);
  w.limit = w.twiddles[-CHUNK];
  w.strip = e->workspace;
  w.points = w.strip + strip_floats(c);
  w.sums = w.points + tile_floats(c) * c->channels * w.pairs;
  make_points(&w);
  const float *biases = gconv_layer_biases(problem, e->weights) + group * c->filters;
  fft_product product = {.rows = c->columns,
                         .frequencies = c->rows,
                         .pitch = c->pitch,
                         .channels = c->channels,
                         .pairs = w.pairs,
                         .points = w.points,
                         .sums = w.sums,
                         .channel = tile_floats(c) * w.pairs,
                         .pair = tile_floats(c)};
  const float *taps = w.twiddles + twiddle_floats(c) + group * group_floats(c);
  for (int64_t k = 0; k < c->filters; k += FILTERS) {
    product.filters = gconv_clamp(c->filters - k, 0, FILTERS);
    product.taps = taps + k * (group_floats(c) / c->filters);
    GCONV_CALL_ISA(multiply, (&product));
    for (int64_t i = 0; i < product.filters; i++)
      make_outputs(&w, k + i, biases[k + i], w.sums + i * product.channel);
  }
  return GCONV_OK;
}

/* ---- The descriptor ---- */

static const char *supports(const gconv_layer_problem *problem) {
  if (problem->math != GCONV_MATH_FP32)
    return gconv_layer_takes_fp32(problem);
  cut c = cut_of(problem);
  if (!c.down)
    return "filters that span more than 2048 rows or columns";
  return (double)group_floats(&c) * problem->groups > 1 << 30 ? "the spectra of its filters would exceed 4 GiB" : NULL;
}

static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  cut c = cut_of(problem);
  double multiply_adds, moving_ns = work_of(problem, &c, &multiply_adds);
  return gconv_layer_cpu_ms(problem, machine, multiply_adds / 0.7, moving_ns);
}

/* The bound is 16 standard deviations, as in ../fft.c. Each level of the transforms adds an error whose standard deviation
 * is at most u = 2^-24, relative to (sum |weight|) * max |x|. There are 2 * (log_y + log_x) levels for samples, there and
 * back, and log_y + log_x for taps. A chain of C products adds C / 8 to the sum of squares. */
static double error_bound(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  return 16 * 0x1p-24 * sqrt(3.0 * (c.log_y + c.log_x) + (double)c.channels / 8 + 2);
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_fft = {
    .info = {"fft", "cpu", "spectra of tiles, summed over the channels, for larger filters", false},
    .supports = supports,
    .tasks = tasks,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .bound_of_largest = true,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};

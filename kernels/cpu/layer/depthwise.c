/* SPDX-License-Identifier: MIT */
/*
 * depthwise: filters of one channel, one or several for each channel, as in MobileNet. The lanes of a vector are
 * neighbouring pixels.
 *
 * There is little to compute for each sample, so moving samples takes most of the time. A band of rows of one channel is
 * staged (stage.h), which resolves border and stride: each tap is then an offset in the staged rows. Rows are joined: a
 * vector that reaches the end of a row goes on in the next row, so that images of 7 x 7 fill vectors, too. The sums of the
 * few pixels between rows are dropped when rows are copied to the output. The staged rows and the sums stay in the L1 or L2
 * cache.
 *
 * A task has some channels, or a band of one large channel.
 *
 * In tensors in blocks of channels, the lanes of a vector are neighbouring channels. A tap of a vector is a load and a
 * multiply-add. Bands of rows of a block are staged with their border pixels, and stay in the L1 cache.
 */
#include "stage.h"

enum {
  MOST_VECTORS = 4,
  MOST_LANES = 16,
  NOT_IN_PLACE = INT32_MAX, /* sums read whole vectors, beyond the end of the last row */
  MOST_PIXELS = 8,          /* of a block of channels, with their sums in registers */
  BAND_FLOATS = 12 << 10,   /* staged floats of a band: 48 KiB */
  WINDOW_FLOATS = 8 << 10,  /* staged floats of a band of a block of channels: 32 KiB */
  TASK_PRODUCTS = 1 << 18,  /* multiply-adds of a task, roughly */
  RANGE_PIXELS = 96,        /* outputs of a range of rows, at least: LEAST_PIXELS of gemm.c */
};

typedef void sums_function(const float *x, const int64_t *offsets, const float *weights, int32_t taps, float bias,
                           const gconv_layer_bounds *bounds, float *out, int64_t count);

/* Makes `count` neighbouring outputs of a block of channels; neighbours read samples that are `step` floats apart. weights:
 * [tap][GCONV_BLOCK], biases: [GCONV_BLOCK]. */
typedef struct block_row {
  const int64_t *offsets;
  const float *weights, *biases;
  int64_t step;
  int32_t taps;
  gconv_layer_bounds bounds;
} block_row;
typedef void block_function(const block_row *row, const float *x, int64_t count, float *out);

#define TEMPLATE "layer/depthwise_template.h"
#include "../each_isa.h"

/* ---- Tasks: images, channels in lots, bands of rows ---- */

typedef struct cut {
  int32_t ranges, range;    /* in blocks of channels: output rows of a range of bands; the last may have fewer */
  int32_t bands, band_rows; /* the last may have fewer */
  int32_t lots, lot;        /* filters of a lot; the last may have fewer. If there are several bands, it is 1 */
} cut;

static cut cut_of(const gconv_layer_problem *problem) {
  const gconv_layer_stage stage = gconv_layer_stage_of(problem, 0, NOT_IN_PLACE);
  const int64_t phases = (int64_t)stage.phases_y * stage.phases_x;
  const int64_t rows = BAND_FLOATS / (stage.pitch * phases) - stage.reach_y;
  const int64_t products = (int64_t)problem->out_height * problem->out_width * problem->rows * problem->columns;
  cut c = {0};
  c.bands = (int32_t)gconv_divide_up(problem->out_height, gconv_clamp(rows, stage.reach_y + 1, problem->out_height));
  c.band_rows = (int32_t)gconv_divide_up(problem->out_height, c.bands);
  c.bands = (int32_t)gconv_divide_up(problem->out_height, c.band_rows);
  c.lot = c.bands > 1 ? 1 : (int32_t)gconv_clamp(TASK_PRODUCTS / products, 1, problem->filters);
  c.lots = (int32_t)gconv_divide_up(problem->filters, c.lot);
  return c;
}

/* ---- Blocks of channels ---- */

static int64_t blocks_of(const gconv_layer_problem *problem) {
  return gconv_divide_up(problem->filters, GCONV_BLOCK);
}

/* Cuts a layer whose tensors are in blocks of channels: a lot is some of these blocks. Large images are cut into as many
 * ranges of rows as there are threads. gemm does the same, so that each thread reads mostly rows that it made itself. */
static cut cut_blocks(const gconv_layer_problem *problem) {
  const int64_t strides = gconv_clamp(problem->stride_y, 1, WINDOW_FLOATS); /* more could overflow, with the same cut */
  const int64_t row = ((int64_t)problem->out_width * problem->stride_x + problem->columns) * strides * GCONV_BLOCK;
  const int64_t products =
      (int64_t)problem->out_height * problem->out_width * problem->rows * problem->columns * GCONV_BLOCK;
  const int64_t plane = (int64_t)problem->out_height * problem->out_width, threads = gconv_clamp(problem->threads, 1, 64);
  cut c = {0};
  c.range = (int32_t)gconv_divide_up(problem->out_height, gconv_clamp(plane / RANGE_PIXELS, 1, threads));
  c.ranges = (int32_t)gconv_divide_up(problem->out_height, c.range);
  c.band_rows = (int32_t)gconv_clamp(WINDOW_FLOATS / row, 2, c.range);
  c.band_rows = (int32_t)gconv_divide_up(c.range, gconv_divide_up(c.range, c.band_rows));
  const int64_t lot = gconv_clamp(TASK_PRODUCTS / (products / c.ranges), 1, gconv_divide_up(blocks_of(problem), 4));
  const int64_t each = gconv_divide_up(threads, c.ranges), turns = gconv_divide_up(blocks_of(problem), lot * each);
  c.lot = (int32_t)gconv_divide_up(blocks_of(problem), turns * each);
  c.lots = (int32_t)gconv_divide_up(blocks_of(problem), c.lot);
  return c;
}

/* Makes rows top .. bottom - 1 of blocks of channels begin .. end - 1 of image n, band by band. */
static void make_blocks(const gconv_layer_execution *e, const cut *c, int64_t n, int64_t begin, int64_t end, int64_t top,
                        int64_t bottom) {
  const gconv_layer_problem *problem = e->problem;
  const gconv_block_stage stage = gconv_block_stage_of(problem, c->band_rows, problem->out_width);
  const int64_t taps = problem->rows * problem->columns, plane = gconv_layer_out_plane(problem);
  const float *prepared = gconv_layer_prepared(problem, e->weights);
  block_function *make = OF_THIS_PROCESSOR(block);
  int64_t *offsets = e->workspace;
  float *staged = (float *)e->workspace + gconv_layer_offset_floats(problem);
  const float *in = e->in + n * gconv_layer_image_floats(problem->channels, gconv_layer_in_plane(problem), true);
  block_row row = {offsets, NULL, NULL, stage.step, 1, gconv_layer_bounds_of(problem)};
  for (int64_t t = 0; t < taps; t++)
    offsets[t] = (t / problem->columns * problem->dilation_y * stage.width + t % problem->columns * problem->dilation_x) *
                 GCONV_BLOCK;
  row.taps = (int32_t)taps;
  for (int64_t b = begin; b < end; b++)
    for (int64_t first = top; first < bottom; first += c->band_rows) {
      gconv_block_window w = {b * GCONV_BLOCK, GCONV_BLOCK, first, 0, 0, problem->out_width};
      w.rows = gconv_clamp(bottom - first, 0, c->band_rows);
      const float *x = gconv_block_stage_fill(&stage, problem, in, &w, staged);
      float *out = e->out + ((n * blocks_of(problem) + b) * plane + first * problem->out_width) * GCONV_BLOCK;
      row.weights = prepared + b * (taps + 1) * GCONV_BLOCK;
      row.biases = row.weights + taps * GCONV_BLOCK;
      for (int64_t i = 0; i < w.rows; i++)
        make(&row, x + i * stage.pitch, problem->out_width, out + i * problem->out_width * GCONV_BLOCK);
      if (!row.bounds.enough)
        gconv_layer_activate(problem, out, (size_t)(w.rows * problem->out_width * GCONV_BLOCK));
    }
}

static size_t prepared_floats(const gconv_layer_problem *problem) {
  return problem->in_blocks ? (size_t)(blocks_of(problem) * (problem->rows * problem->columns + 1) * GCONV_BLOCK) : 0;
}

/* Writes the weights of each block of channels, [tap][channel], and then its biases. */
static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const int64_t taps = problem->rows * problem->columns;
  const float *biases = gconv_layer_biases(problem, weights);
  for (int64_t k = 0; k < blocks_of(problem) * GCONV_BLOCK && problem->in_blocks; k++) {
    float *to = prepared + k / GCONV_BLOCK * (taps + 1) * GCONV_BLOCK + k % GCONV_BLOCK;
    for (int64_t t = 0; t < taps; t++)
      to[t * GCONV_BLOCK] = k < problem->filters ? weights[k * taps + t] : 0;
    to[taps * GCONV_BLOCK] = k < problem->filters ? biases[k] : 0;
  }
  return GCONV_OK;
}

/* ---- The descriptor ---- */

static size_t tasks(const gconv_layer_problem *problem) {
  const cut c = problem->in_blocks ? cut_blocks(problem) : cut_of(problem);
  if (problem->in_blocks)
    return (size_t)problem->images * (size_t)c.lots * (size_t)c.ranges;
  return (size_t)problem->images * (size_t)c.lots * (size_t)c.bands;
}

static const char *supports(const gconv_layer_problem *problem) {
  if (problem->in_blocks != problem->out_blocks || (problem->in_blocks && problem->filters != problem->channels))
    return "blocks of channels in the input or the output alone, or with several filters a channel";
  return problem->channels == problem->groups ? gconv_layer_takes_fp32(problem) : "filters of several channels";
}

/* Returns the floats of the sums of a band, including the sums between rows and one more vector. */
static size_t sums_floats(const gconv_layer_stage *stage, int32_t rows) {
  return gconv_round_up((size_t)rows * (size_t)stage->pitch + MOST_LANES, MOST_LANES);
}

static size_t workspace_bytes(const gconv_layer_problem *problem) {
  const gconv_block_stage blocks = gconv_block_stage_of(problem, cut_blocks(problem).band_rows, problem->out_width);
  if (problem->in_blocks)
    return (gconv_layer_offset_floats(problem) + gconv_block_stage_floats(&blocks, GCONV_BLOCK)) * sizeof(float);
  const int32_t rows = cut_of(problem).band_rows;
  const gconv_layer_stage stage = gconv_layer_stage_of(problem, rows, NOT_IN_PLACE);
  return (gconv_layer_offset_floats(problem) + sums_floats(&stage, rows) + gconv_layer_stage_floats(&stage, 1)) *
         sizeof(float);
}

/* Makes `rows` output rows, from `first` on, of filter k of image n. */
static void make_band(const gconv_layer_execution *e, const gconv_layer_stage *stage, int32_t band_rows, int64_t n,
                      int32_t k, int32_t first, int32_t rows) {
  const gconv_layer_problem *problem = e->problem;
  const gconv_layer_bounds bounds = gconv_layer_bounds_of(problem);
  sums_function *sum = OF_THIS_PROCESSOR(sums);
  const int64_t width = problem->out_width, taps = problem->rows * problem->columns;
  const int32_t channel = k / (problem->filters / problem->channels);
  float *sums = (float *)e->workspace + gconv_layer_offset_floats(problem), *staged = sums + sums_floats(stage, band_rows);
  float *out = e->out + (n * problem->filters + k) * gconv_layer_out_plane(problem) + first * width;
  const float *in = e->in + (n * problem->channels + channel) * gconv_layer_in_plane(problem);
  const float *x = gconv_layer_stage_fill(stage, problem, in, 1, first, rows, staged);
  sum(x, e->workspace, e->weights + k * taps, (int32_t)taps, gconv_layer_biases(problem, e->weights)[k], &bounds, sums,
      (rows - 1) * stage->pitch + width);
  for (int32_t row = 0; row < rows; row++)
    gconv_layer_copy_row(sums + row * stage->pitch, out + row * width, width);
  if (!bounds.enough)
    gconv_layer_activate(problem, out, (size_t)(rows * width));
}

static gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  const cut c = problem->in_blocks ? cut_blocks(problem) : cut_of(problem);
  if (problem->in_blocks) {
    const int64_t task = (int64_t)e->task, begin = task % c.lots * c.lot, top = task / c.lots % c.ranges * c.range;
    make_blocks(e, &c, task / c.lots / c.ranges, begin, gconv_clamp(begin + c.lot, 0, blocks_of(problem)), top,
                gconv_clamp(top + c.range, 0, problem->out_height));
    return GCONV_OK;
  }
  const gconv_layer_stage stage = gconv_layer_stage_of(problem, c.band_rows, NOT_IN_PLACE);
  const int32_t band = (int32_t)(e->task % (size_t)c.bands), lot = (int32_t)(e->task / (size_t)c.bands % (size_t)c.lots);
  const int64_t n = (int64_t)(e->task / (size_t)c.bands / (size_t)c.lots);
  const int32_t first = band * c.band_rows, rows = (int32_t)gconv_clamp(problem->out_height - first, 0, c.band_rows);
  const int32_t end = (int32_t)gconv_clamp((int64_t)(lot + 1) * c.lot, 0, problem->filters);
  gconv_layer_stage_offsets(&stage, problem, e->workspace);
  for (int32_t k = lot * c.lot; k < end; k++)
    make_band(e, &stage, c.band_rows, n, k, first, rows);
  return GCONV_OK;
}

/* Multiplications take 1.2 or 1.3 times as long as at the peak: each needs a load, and half of these loads cross a cache
 * line. Besides, a staged float takes 0.05 ns, a copied output 0.1 ns, and a row 5 ns. */
static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const double outputs = (double)problem->images * problem->filters * problem->out_height * problem->out_width;
  if (problem->in_blocks)
    return gconv_layer_cpu_ms(problem, machine, outputs * problem->rows * problem->columns * 1.2, outputs * 0.1);
  const cut c = cut_of(problem);
  const gconv_layer_stage stage = gconv_layer_stage_of(problem, c.band_rows, NOT_IN_PLACE);
  const double rows = (double)problem->images * problem->filters * problem->out_height;
  const double multiplications = rows * (double)stage.pitch * problem->rows * problem->columns * 1.3;
  const double staged = (double)stage.pitch * stage.phases_x * stage.phases_y * (1 + (double)stage.reach_y / c.band_rows);
  return gconv_layer_cpu_ms(problem, machine, multiplications, rows * (staged * 0.05 + problem->out_width * 0.1 + 5));
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_depthwise = {
    .info = {"depthwise", "cpu", "filters of one channel, on rows of a channel that stay in the cache", true},
    .supports = supports,
    .blocks = true,
    .tasks = tasks,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .row_step = 1,
};

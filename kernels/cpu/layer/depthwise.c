/* SPDX-License-Identifier: MIT */
/*
 * depthwise: filters of one channel, one or several for each channel, as in MobileNet. The lanes of a vector are
 * neighbouring pixels.
 *
 * There is little to compute for each sample, so all that matters is how often samples move. A band of rows of one channel
 * is staged (stage.h), which resolves border and stride: each tap is then a distance in the staged rows. Rows are joined: a
 * vector goes on in the next row where one ends, so that images of 7 x 7 fill vectors, too. The sums of the few pixels
 * between rows are dropped when rows are copied to the output. Both copies stay in the L1 or L2 cache.
 *
 * A task has some channels, or a band of one large channel.
 */
#include "stage.h"

#include <string.h>

enum {
  MOST_VECTORS = 4,
  MOST_LANES = 16,
  BAND_FLOATS = 12 << 10,  /* staged floats of a band: 48 KiB */
  TASK_PRODUCTS = 1 << 18, /* multiply-adds of a task, roughly */
};

typedef void sums_function(const float *x, const int64_t *offsets, const float *weights, int32_t taps, float bias,
                           const gconv_layer_bounds *bounds, float *out, int64_t count);

#define TEMPLATE "layer/depthwise_template.h"
#include "../each_isa.h"

/* ---- Tasks: images, channels in lots, bands of rows ---- */

typedef struct cut {
  int32_t bands, band_rows; /* the last may have fewer */
  int32_t lots, lot;        /* filters of a lot; the last may have fewer. If there are several bands, it is 1 */
} cut;

static cut cut_of(const gconv_layer_problem *problem) {
  const gconv_layer_stage stage = gconv_layer_stage_of(problem, 0, MOST_LANES);
  const int64_t phases = (int64_t)stage.phases_y * stage.phases_x;
  const int64_t rows = BAND_FLOATS / (stage.pitch * phases) - stage.reach_y;
  const int64_t products = (int64_t)problem->out_height * problem->out_width * problem->rows * problem->columns;
  cut c;
  c.bands = (int32_t)gconv_divide_up(problem->out_height, gconv_clamp(rows, stage.reach_y + 1, problem->out_height));
  c.band_rows = (int32_t)gconv_divide_up(problem->out_height, c.bands);
  c.bands = (int32_t)gconv_divide_up(problem->out_height, c.band_rows);
  c.lot = c.bands > 1 ? 1 : (int32_t)gconv_clamp(TASK_PRODUCTS / products, 1, problem->filters);
  c.lots = (int32_t)gconv_divide_up(problem->filters, c.lot);
  return c;
}

static size_t tasks(const gconv_layer_problem *problem) {
  const cut c = cut_of(problem);
  return (size_t)problem->images * (size_t)c.lots * (size_t)c.bands;
}

/* ---- The descriptor ---- */

static const char *supports(const gconv_layer_problem *problem) {
  return problem->channels == problem->groups ? gconv_layer_takes_fp32(problem) : "filters of several channels";
}

/* Returns the floats of the sums of a band, with those between rows, and of a vector more. */
static size_t sums_floats(const gconv_layer_stage *stage, int32_t rows) {
  return gconv_round_up((size_t)rows * (size_t)stage->pitch + MOST_LANES, MOST_LANES);
}

static size_t workspace_bytes(const gconv_layer_problem *problem) {
  const int32_t rows = cut_of(problem).band_rows;
  const gconv_layer_stage stage = gconv_layer_stage_of(problem, rows, MOST_LANES);
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
  float *out = e->out + ((n * problem->filters + k) * problem->out_height + first) * width;
  const float *in = e->in + (n * problem->channels + channel) * gconv_layer_plane(problem);
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
  const cut c = cut_of(problem);
  const gconv_layer_stage stage = gconv_layer_stage_of(problem, c.band_rows, MOST_LANES);
  const int32_t band = (int32_t)(e->task % (size_t)c.bands), lot = (int32_t)(e->task / (size_t)c.bands % (size_t)c.lots);
  const int64_t n = (int64_t)(e->task / (size_t)c.bands / (size_t)c.lots);
  const int32_t first = band * c.band_rows, rows = (int32_t)gconv_clamp(problem->out_height - first, 0, c.band_rows);
  const int32_t end = (int32_t)gconv_clamp((int64_t)(lot + 1) * c.lot, 0, problem->filters);
  gconv_layer_stage_offsets(&stage, problem, e->workspace);
  for (int32_t k = lot * c.lot; k < end; k++)
    make_band(e, &stage, c.band_rows, n, k, first, rows);
  return GCONV_OK;
}

/* A tap of a vector takes a load, half of which cross a cache line. A sample takes 0.4 ns to be staged, an output 0.15 ns to
 * be copied, and a row of either 4 ns. */
static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const cut c = cut_of(problem);
  const gconv_layer_stage stage = gconv_layer_stage_of(problem, c.band_rows, MOST_LANES);
  const double rows = (double)problem->images * problem->filters * problem->out_height;
  const double multiplications = rows * (double)stage.pitch * problem->rows * problem->columns * 1.3;
  const double staged = (double)stage.pitch * stage.phases_x * stage.phases_y * (1 + (double)stage.reach_y / c.band_rows);
  return gconv_layer_cpu_ms(problem, machine, multiplications, rows * (staged * 0.05 + problem->out_width * 0.1 + 5));
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_depthwise = {
    .info = {"depthwise", "cpu", "filters of one channel, on rows of a channel that stay in the cache", true},
    .supports = supports,
    .tasks = tasks,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};

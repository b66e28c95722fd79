/* SPDX-License-Identifier: MIT */
/*
 * pointwise: filters of 1 x 1, as the product of two matrices, weights (K x C) and samples (C x pixels). The lanes of a
 * vector are neighbouring pixels, of one row or of several, since rows of outputs have no gaps. Results go to their planes
 * directly.
 *
 * A tile is F filters times V vectors of pixels, with its sums in registers:
 *
 *              filters  vectors  registers             loads for multiply-adds
 *   AVX-512    9        3 of 16  27 + 3 + 1 of 32      12        27
 *              6        4 of 16  24 + 4 + 1 of 32      10        24     for images of four vectors, such as 7 x 7
 *   AVX2       4        3 of 8   12 + 3 + 1 of 16      7         12
 *
 * The samples of a task are copied first, so that the samples of a tile follow each other, channel after channel. Without
 * the copy, they would be many pages of memory apart, which caches and prefetching handle badly. The same copy resolves a
 * stride. It pays if there are many filters: a copied vector is used K / F times.
 *
 * A task has some pixels of an image and some filters. If the weights are larger than the samples, tasks share the pixels
 * and divide the filters, so that each weight is read once.
 */
#include "blocks.h"
#include "stage.h"

#include <math.h>
#include <string.h>

enum {
  MOST_FILTERS = 9,
  MOST_VECTORS = 4,
  MOST_LANES = 16,
  PACKED_FLOATS = 160 << 10, /* copied samples of a task: 640 KiB, a third of an L2 cache */
  WEIGHT_FLOATS = 64 << 10,  /* weights that stay in the L2 cache beside the samples, for all tiles of a task */
  LEAST_TASKS = 8,           /* tasks of a layer, if the number of threads is not known */
  TASKS_OF_THREAD = 1,
  TASK_PRODUCTS = 500 << 10, /* the fewest multiply-adds that are worth a task */
  LEAST_TILES = 2,           /* tiles of a task, at least, if pixels are divided further to get more tasks */
  TOGETHER = 4,              /* tiles to which all filters are applied before the next tiles */
  PLANES_AHEAD = 4,          /* samples are prefetched so many planes before they are copied */
  REFERENCE_FILTERS = 4,     /* filters of the reference CPU's tile */
};

/* Computes out[f * pitch + i] = biases[f] + the sum over c of weights[c * F + f] * x[c * V * lanes + i], within the bounds,
 * for F filters f and i = 0 .. V * lanes - 1. */
typedef void tile_function(const float *x, const float *weights, const float *biases, int32_t channels,
                           const gconv_layer_bounds *bounds, float *out, int64_t pitch);

typedef struct tile_set {
  int lanes, filters[MOST_VECTORS + 1]; /* floats of a vector; filters of the largest tile with V vectors, 0: none */
  void (*copy)(const float *from, int64_t plane, int32_t first, int32_t end, int32_t channels, int32_t vectors,
               int32_t tiles, float *to);
  tile_function *tiles[MOST_FILTERS + 1][MOST_VECTORS + 1]; /* [F][V] */
} tile_set;

/* Returns the vectors of tile i of `count` vectors: tiles have about equal size. */
static inline int32_t tile_vectors(int32_t count, int32_t tiles, int32_t i) {
  return count / tiles + (i < count % tiles);
}

#define TEMPLATE "layer/pointwise_template.h"
#include "../each_isa.h"

/* ---- Tasks: images, groups, bands of pixels, parts of a group's filters ---- */

typedef struct cut {
  int32_t vectors, wide;      /* vectors of the pixels of an image; vectors of the widest tile */
  int32_t bands, band;        /* vectors of a band; the last may have fewer */
  int32_t parts, part_blocks; /* blocks of a part; the last may have fewer */
  gconv_blocks blocks;
} cut;

/* Divides the pixels into `bands`, and the filters so that there are about `wanted` tasks. */
static cut divide(cut c, int64_t bands, int64_t wanted) {
  c.band = (int32_t)gconv_divide_up(c.vectors, bands);
  c.bands = (int32_t)gconv_divide_up(c.vectors, c.band);
  c.part_blocks = (int32_t)gconv_divide_up(c.blocks.count, gconv_divide_up(wanted, c.bands));
  c.parts = (int32_t)gconv_divide_up(c.blocks.count, c.part_blocks);
  return c;
}

/* Returns the floats of a channel that all tasks read: samples once for each part of the filters, weights once for each
 * band. */
static int64_t floats_read(const cut *c, int64_t pixels, int64_t filters) {
  return c->parts * pixels + c->bands * filters;
}

static cut cut_for(const gconv_layer_problem *problem, const tile_set *set) {
  const int64_t pixels = (int64_t)problem->out_height * problem->out_width, channels = problem->channels / problem->groups;
  const int64_t filters = problem->filters / problem->groups, others = (int64_t)problem->images * problem->groups;
  cut c = {.vectors = (int32_t)gconv_divide_up(pixels, set->lanes), .wide = 3};
  if (c.vectors == 4 && set->filters[4] > 0)
    c.wide = 4;
  c.blocks = gconv_blocks_of((int32_t)filters, set->filters[c.wide]);
  const int64_t worth = gconv_divide_up(filters * channels * pixels, TASK_PRODUCTS);
  const int64_t least_tasks = problem->threads > 0 ? TASKS_OF_THREAD * problem->threads : LEAST_TASKS;
  const int64_t wanted = gconv_divide_up(gconv_clamp(worth, 1, least_tasks), others);
  const int64_t fitting = gconv_clamp(PACKED_FLOATS / (channels * set->lanes), c.wide, c.vectors);
  const int64_t least = gconv_divide_up(c.vectors, fitting);
  c = divide(c, least, wanted);
  for (int64_t bands = 2 * least; bands <= wanted && c.vectors / bands >= (int64_t)LEAST_TILES * c.wide; bands *= 2) {
    const cut other = divide(c, bands, wanted);
    if (floats_read(&other, pixels, filters) < floats_read(&c, pixels, filters))
      c = other;
  }
  return c;
}

static cut cut_of(const gconv_layer_problem *problem) {
  return cut_for(problem, OF_THIS_PROCESSOR(&tiles));
}

static size_t tasks(const gconv_layer_problem *problem) {
  const cut c = cut_of(problem);
  return (size_t)problem->images * (size_t)problem->groups * (size_t)c.bands * (size_t)c.parts;
}

typedef struct walk {
  const gconv_layer_problem *problem;
  const tile_set *set;
  cut cut;
  int32_t channels;
  int64_t plane, first, pixels; /* pixels from an output channel to the next; the band's first, and how many */
  int32_t vectors, tiles;       /* of the band */
  gconv_layer_bounds bounds;
  float *packed, *line, *sums;
} walk;

/* ---- Samples ---- */

/* Writes the samples of a channel's band to w->line, for any stride, and 0 after them. */
static void gather(const walk *w, const float *in) {
  const gconv_layer_problem *problem = w->problem;
  float *line = w->line;
  for (int64_t i = w->first, end = i + w->pixels; i < end;) {
    const int64_t row = i / problem->out_width, q = i % problem->out_width;
    const int64_t count = gconv_clamp(problem->out_width - q, 0, end - i);
    const float *from = in + row * problem->stride_y * problem->width + q * problem->stride_x;
    if (problem->stride_x == 2)
      for (int64_t k = 0; k < count; k++)
        line[k] = from[k * 2];
    else
      for (int64_t k = 0; k < count; k++)
        line[k] = from[k * problem->stride_x];
    i += count;
    line += count;
  }
  memset(line, 0, (size_t)((int64_t)w->vectors * w->set->lanes - w->pixels) * sizeof *line);
}

/* Copies the band's samples: tile after tile, channel after channel. The last vector may reach beyond the image. There it
 * has the samples of the next channel, or zeros if the tensor may end there. Results of these lanes are dropped. */
static void pack(const walk *w, const float *in) {
  const gconv_layer_problem *problem = w->problem;
  const int64_t plane = gconv_layer_in_plane(problem), over = (int64_t)w->vectors * w->set->lanes - w->pixels;
  const bool dense = problem->stride_y == 1 && problem->stride_x == 1;
  const int32_t unsafe = dense ? (int32_t)gconv_clamp(gconv_divide_up(over, plane), 0, w->channels) : w->channels;
  const int32_t safe = w->channels - unsafe;
  w->set->copy(in + w->first, plane, 0, safe, w->channels, w->vectors, w->tiles, w->packed);
  for (int32_t c = safe; c < w->channels; c++) {
    gather(w, in + c * plane);
    w->set->copy(w->line, 0, c, c + 1, w->channels, w->vectors, w->tiles, w->packed);
  }
}

/* ---- Products ---- */

/* Makes F filters of one tile. `out` is the first filter's output at the tile's first pixel. The band has `pixels` pixels
 * from there on. */
static void make_tile(const walk *w, const float *x, const float *weights, const float *biases, int F, int V, int64_t pixels,
                      float *out) {
  const int64_t n = (int64_t)V * w->set->lanes;
  tile_function *tile = w->set->tiles[F][V];
  if (n <= pixels) {
    tile(x, weights, biases, w->channels, &w->bounds, out, w->plane);
    return;
  }
  tile(x, weights, biases, w->channels, &w->bounds, w->sums, n);
  for (int f = 0; f < F; f++)
    memcpy(out + f * w->plane, w->sums + f * n, (size_t)pixels * sizeof *out);
}

/* Applies blocks of filters first .. end - 1 to tiles first_tile .. end_tile - 1. `weights` and `biases` are those of block
 * `first`. `out` is the output of its first filter at the band's first pixel. */
static void make_blocks(const walk *w, int32_t first, int32_t end, int32_t first_tile, int32_t end_tile,
                        const float *weights, const float *biases, float *out) {
  const int64_t lanes = w->set->lanes;
  int64_t before = 0;
  for (int32_t t = 0; t < first_tile; t++)
    before += tile_vectors(w->vectors, w->tiles, t);
  for (int32_t b = first; b < end; b++) {
    const int F = gconv_block_filters(&w->cut.blocks, b);
    int64_t at = before;
    for (int32_t t = first_tile; t < end_tile; t++) {
      const int V = tile_vectors(w->vectors, w->tiles, t);
      make_tile(w, w->packed + at * lanes * w->channels, weights, biases, F, V, w->pixels - at * lanes, out + at * lanes);
      at += V;
    }
    const int64_t from = before * lanes, until = gconv_clamp(at * lanes, 0, w->pixels);
    for (int f = 0; f < F && !w->bounds.enough; f++)
      gconv_layer_activate(w->problem, out + f * w->plane + from, (size_t)(until - from));
    weights += (int64_t)F * w->channels;
    biases += F;
    out += F * w->plane;
  }
}

/* ---- The descriptor ---- */

static const char *supports(const gconv_layer_problem *problem) {
  if (problem->rows != 1 || problem->columns != 1)
    return "filters other than 1 x 1";
  if (problem->pad_top != 0 || problem->pad_left != 0 ||
      (problem->out_height - 1) * (int64_t)problem->stride_y >= problem->height ||
      (problem->out_width - 1) * (int64_t)problem->stride_x >= problem->width)
    return "padding";
  return gconv_layer_takes_fp32(problem);
}

enum { SUMS_FLOATS = MOST_FILTERS * MOST_VECTORS * MOST_LANES };

/* Returns the floats of a line, which has the band's samples of a channel. */
static size_t line_floats(const cut *c, const tile_set *set) {
  return ((size_t)c->band * (size_t)set->lanes + 15) / 16 * 16;
}

static size_t workspace_bytes(const gconv_layer_problem *problem) {
  const tile_set *set = OF_THIS_PROCESSOR(&tiles);
  const cut c = cut_of(problem);
  return (SUMS_FLOATS + line_floats(&c, set) * ((size_t)(problem->channels / problem->groups) + 1)) * sizeof(float);
}

static gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  walk w = {.problem = problem, .set = OF_THIS_PROCESSOR(&tiles), .cut = cut_of(problem)};
  const cut *c = &w.cut;
  const int32_t part = (int32_t)(e->task % (size_t)c->parts);
  const int32_t band = (int32_t)(e->task / (size_t)c->parts % (size_t)c->bands);
  const int64_t image_group = (int64_t)(e->task / (size_t)c->parts / (size_t)c->bands); /* n * G + g */
  const int32_t filters = problem->filters / problem->groups, first = part * c->part_blocks;
  const int32_t end = (int32_t)gconv_clamp(first + c->part_blocks, 0, c->blocks.count);
  const int64_t k = image_group % problem->groups * filters + gconv_block_start(&c->blocks, first);
  w.channels = problem->channels / problem->groups;
  w.bounds = gconv_layer_bounds_of(problem);
  w.plane = gconv_layer_out_plane(problem);
  w.first = (int64_t)band * c->band * w.set->lanes;
  w.vectors = (int32_t)gconv_clamp(c->vectors - band * c->band, 0, c->band);
  w.pixels = gconv_clamp((int64_t)problem->out_height * problem->out_width - w.first, 0, (int64_t)w.vectors * w.set->lanes);
  w.tiles = (int32_t)gconv_divide_up(w.vectors, c->wide);
  w.sums = e->workspace;
  w.line = w.sums + SUMS_FLOATS;
  w.packed = w.line + line_floats(c, w.set);
  pack(&w, e->in + image_group * w.channels * gconv_layer_in_plane(problem));
  const float *weights = gconv_layer_prepared(problem, e->weights) + k * w.channels;
  const float *biases = gconv_layer_biases(problem, e->weights) + k;
  float *out = e->out + (image_group * filters + gconv_block_start(&c->blocks, first)) * w.plane + w.first;
  if ((int64_t)filters * w.channels > WEIGHT_FLOATS)
    make_blocks(&w, first, end, 0, w.tiles, weights, biases, out);
  else
    for (int32_t t = 0; t < w.tiles; t += TOGETHER)
      make_blocks(&w, first, end, t, (int32_t)gconv_clamp(t + TOGETHER, 0, w.tiles), weights, biases, out);
  return GCONV_OK;
}

static size_t prepared_floats(const gconv_layer_problem *problem) {
  return (size_t)(problem->filters * gconv_layer_taps(problem));
}

static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const cut c = cut_of(problem);
  gconv_blocks_prepare(&c.blocks, problem, weights, prepared);
  return GCONV_OK;
}

/* A tap of a tile takes a cycle for each multiply-add, and at least 4 cycles, the latency of a sum. A copied sample takes
 * 0.1 ns, in each part of the filters, and an output 0.05 ns. */
static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  static const tile_set reference = {.lanes = GCONV_REFERENCE_LANES, .filters = {[3] = REFERENCE_FILTERS}};
  gconv_layer_problem any_threads = *problem; /* choices do not depend on the number of threads */
  any_threads.threads = 0;
  const cut c = cut_for(&any_threads, &reference);
  const double filters = (double)problem->filters / problem->groups, channels = (double)problem->channels;
  const double pixels = (double)problem->images * problem->out_height * problem->out_width;
  const double plane = (double)problem->out_height * problem->out_width;
  const double vectors = ceil(plane / GCONV_REFERENCE_LANES), lanes = vectors * GCONV_REFERENCE_LANES / plane;
  const double F = filters / c.blocks.count, V = fmin(3, vectors), waits = fmax(fmax(F * V, F + V), 4) / (F * V);
  const double multiplications = pixels * channels * filters * lanes * waits / 0.95;
  return gconv_layer_cpu_ms(problem, machine, multiplications,
                            pixels * (channels * c.parts * 0.1 + problem->filters * 0.05));
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_pointwise = {
    .info = {"pointwise", "cpu", "1 x 1 filters as a product of matrices; pixels side by side in vectors", true},
    .supports = supports,
    .tasks = tasks,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .row_step = 1,
};

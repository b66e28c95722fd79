/* SPDX-License-Identifier: MIT */
/*
 * The common part of winograd.c and winograd4.c, for F(SIDE x SIDE, 3 x 3). Both define SIDE, POINTS, transform_filter() and
 * the transforms of vectors before they include this file.
 *
 * A task takes a band of tiles. Its samples are staged as for a stride of SIDE, so that neighbouring tiles are neighbours
 * (stage.h). They become points, [POINTS][C][tiles]. The points are multiplied by the transformed filters, a block of two
 * vectors at a time, in the tiles of product.h. The sums of a tile become SIDE x SIDE outputs. All of this stays in the
 * L2 cache: if an image is wide, a band has only a piece of each row.
 *
 * An input in blocks of channels is not staged: the lanes of a transform are the channels of a block, and points are
 * [POINTS][C/16][tiles][16]. Outputs in blocks are written to their place by the transform, and get their biases there.
 */
#pragma once

#include "product.h"

#include <math.h>
#include <string.h>

enum {
  VECTORS = GCONV_PRODUCT_VECTORS,
  BAND_FLOATS = 256 << 10, /* floats of points and sums of a band: 512 KiB */
  LEAST_TILES = 28,        /* the fewest tiles of a band, if the image has so many: each filter is used as often */
  PIECE = 16,              /* the tiles of a piece are a multiple of this */
  PART_BLOCKS = 2,         /* blocks of a task, at least: points are made again for each part of the filters */
  STAGED_CHANNELS = 8,     /* channels that are staged at a time */
  EXPECTED = GCONV_PRODUCT_LANES * VECTORS / POINTS + 1, /* filters whose outputs are prefetched while a point is made */
};

/* ---- Tasks: images, groups, bands of rows of tiles, parts of a group's filters ---- */

typedef struct cut {
  int64_t channels, filters, blocks; /* how many a group has */
  int64_t tiles_x, tiles_y;
  int64_t bands, band_rows; /* rows of tiles */
  int64_t pieces, piece;    /* tiles of a row that a task makes: all, unless they are too many for the cache */
  int64_t parts, part_blocks;
} cut;

static cut cut_for(const gconv_layer_problem *problem, int lanes) {
  int64_t block = (int64_t)VECTORS * lanes, others = (int64_t)problem->images * problem->groups;
  cut c = {.channels = problem->channels / problem->groups, .filters = problem->filters / problem->groups};
  c.blocks = gconv_divide_up(c.filters, block);
  c.tiles_x = gconv_divide_up(problem->out_width, SIDE);
  c.tiles_y = gconv_divide_up(problem->out_height, SIDE);
  int64_t fitting = BAND_FLOATS / (POINTS * (c.channels + block)), wanted = gconv_clamp(fitting, LEAST_TILES, INT32_MAX);
  c.piece = c.tiles_x;
  if (c.tiles_x > wanted) /* as many rows as columns of lanes, roughly */
    c.piece = gconv_clamp(wanted / 2 / PIECE * PIECE, PIECE, c.tiles_x);
  c.pieces = gconv_divide_up(c.tiles_x, c.piece);
  int64_t rows = gconv_clamp(wanted / c.piece, 1, c.tiles_y);
  c.bands = gconv_divide_up(c.tiles_y, rows);
  c.band_rows = gconv_divide_up(c.tiles_y, c.bands);
  c.bands = gconv_divide_up(c.tiles_y, c.band_rows);
  int64_t part = gconv_divide_up(c.blocks, gconv_divide_up(gconv_layer_least_tasks(problem), others * c.bands * c.pieces));
  c.parts = gconv_divide_up(c.blocks, gconv_clamp(part, PART_BLOCKS, INT32_MAX));
  c.part_blocks = gconv_divide_up(c.blocks, c.parts);
  c.parts = gconv_divide_up(c.blocks, c.part_blocks);
  return c;
}

static cut cut_of(const gconv_layer_problem *problem) {
  return cut_for(problem, gconv_product_here()->lanes);
}

static size_t tasks(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  return (size_t)(problem->images * problem->groups * c.bands * c.pieces * c.parts);
}

/* Returns the problem whose staging makes neighbouring tiles neighbours, for the tiles of a row from `column` on. */
static gconv_layer_problem tile_problem(const gconv_layer_problem *problem, const cut *c, int64_t column) {
  gconv_layer_problem tiles = *problem;
  tiles.rows = tiles.columns = SIDE + 2;
  tiles.stride_y = tiles.stride_x = SIDE;
  tiles.out_height = (int32_t)c->tiles_y;
  tiles.out_width = (int32_t)c->piece;
  tiles.pad_left -= (int32_t)(column * SIDE);
  return tiles;
}

/* A task: some rows of tiles of an image, some blocks of filters. */
typedef struct walk {
  const gconv_layer_problem *problem;
  cut cut;
  const gconv_product *product;
  int64_t first_row, rows, columns, tiles; /* rows and columns of tiles; all of them */
  int64_t first_column;                    /* the first output column */
  int64_t first_filter;                    /* of the group */
  int64_t width;                           /* output columns of these tiles */
  const float *in, *weights;               /* of the group */
  int64_t *offsets;                        /* of an input in blocks: where a tile's points have each channel */
  int64_t point; /* floats from one point of a tile to the next: C x tiles, and a vector of slack */
  float *points, *sums, *outputs, *staged;
} walk;

/* Divides a workspace into points [POINTS][C][tiles], sums [POINTS][tiles][filters], outputs [pixel][filter] and staging.
 * Returns its bytes. If `w` is not NULL, sets its pointers. */
static size_t divide_workspace(const cut *c, const gconv_layer_stage *stage, float *base, walk *w) {
  int64_t block = (int64_t)VECTORS * gconv_product_here()->lanes, tiles = c->band_rows * c->piece;
  int64_t point = ((c->channels + GCONV_BLOCK - 1) / GCONV_BLOCK * GCONV_BLOCK * tiles + GCONV_PRODUCT_LANES + 15) / 16 * 16;
  int64_t sums = POINTS * point, outputs = sums + POINTS * tiles * block;
  const size_t patch = (SIDE + 2) * (SIDE + 2) * GCONV_BLOCK, planes = gconv_layer_stage_floats(stage, STAGED_CHANNELS);
  const size_t floats = gconv_round_up(planes > patch ? planes : patch, GCONV_BLOCK);
  int64_t staged = outputs + (SIDE * c->band_rows * SIDE * c->piece + 1) * block; /* 1: for outputs outside the image */
  if (w) {
    w->point = point;
    w->points = base;
    w->sums = base + sums;
    w->outputs = base + outputs;
    w->staged = base + staged;
    w->offsets = (int64_t *)(void *)(w->staged + floats);
  }
  return ((size_t)staged + floats) * sizeof(float) + (size_t)c->channels * sizeof(int64_t);
}

/* ---- Prefetching: processors do not prefetch a task's samples and outputs by themselves: their rows are far apart ---- */

/* Prefetches `count` floats of each of `rows` rows, to be read or written. */
GCONV_INLINE void prefetch_rows(const float *from, int64_t rows, int64_t pitch, int64_t count, const int write) {
  enum { LINE = 16 }; /* floats */
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = 0; i < count; i += LINE)
      if (write)
        __builtin_prefetch(from + row * pitch + i, 1, 2);
      else
        __builtin_prefetch(from + row * pitch + i, 0, 2);
}

/* The part of the image that a task reads. */
typedef struct window {
  int64_t top, bottom, left, right;
} window;

static window window_of(const walk *w, const gconv_layer_problem *tiles) {
  window it = {.top = gconv_clamp(w->first_row * SIDE - tiles->pad_top, 0, tiles->height)};
  it.bottom = gconv_clamp((w->first_row + w->rows) * SIDE + 2 - tiles->pad_top, it.top, tiles->height);
  it.left = gconv_clamp(-(int64_t)tiles->pad_left, 0, tiles->width);
  it.right = gconv_clamp(w->columns * SIDE + 2 - tiles->pad_left, it.left, tiles->width);
  return it;
}

/* Prefetches the task's samples of `count` channels, the first of which begins at `in`. */
static void expect_samples(const walk *w, const gconv_layer_problem *tiles, const float *in, int64_t count) {
  const window it = window_of(w, tiles);
  for (int64_t c = 0; c < count; c++, in += gconv_layer_in_plane(tiles))
    prefetch_rows(in + it.top * tiles->width + it.left, it.bottom - it.top, tiles->width, it.right - it.left, 0);
}

/* Prefetches the task's outputs of filters first .. end - 1; `out` is the output of filter 0. */
static void expect_outputs(const walk *w, float *out, int64_t first, int64_t end) {
  const int64_t width = w->problem->out_width, plane = gconv_layer_out_plane(w->problem);
  const int64_t rows = gconv_clamp(w->problem->out_height - SIDE * w->first_row, 0, SIDE * w->rows);
  for (int64_t f = first; f < end; f++)
    prefetch_rows(out + f * plane, rows, width, w->width, 1);
}

/* ---- Points ---- */

/* Makes the points of all channels of the band. Rows of tiles are written in order, because a vector may write beyond the
 * end of its row. */
static void make_points(walk *w, const gconv_layer_stage *stage, const gconv_layer_problem *tiles, const float *in) {
  void (*transform)(const float *, const int64_t *, int64_t, float *, int64_t) = OF_THIS_PROCESSOR(&transforms)->input;
  int64_t offsets[POINTS], plane = gconv_layer_in_plane(tiles);
  gconv_layer_stage_offsets(stage, tiles, offsets);
  for (int64_t c = 0; c < w->cut.channels; c += STAGED_CHANNELS) {
    int64_t count = gconv_clamp(w->cut.channels - c, 0, STAGED_CHANNELS);
    const float *from =
        gconv_layer_stage_fill(stage, tiles, in + c * plane, count, (int32_t)w->first_row, (int32_t)w->rows, w->staged);
    expect_samples(w, tiles, in + (c + count) * plane, gconv_clamp(w->cut.channels - c - count, 0, STAGED_CHANNELS));
    for (int64_t i = 0; i < count; i++)
      for (int64_t row = 0; row < w->rows; row++)
        transform(from + i * stage->channel + row * stage->pitch, offsets, w->columns,
                  w->points + (c + i) * w->tiles + row * w->columns, w->point);
  }
}

/* ---- Points of an input in blocks of channels ---- */

enum { EDGE = SIDE + 2 }; /* rows and columns of the samples of a tile */

/* Copies the samples of a tile that begin at (top, left), with zeros where the image ends. */
static void copy_patch(const gconv_layer_problem *problem, const float *in, int64_t top, int64_t left, float *to) {
  for (int64_t y = top; y < top + EDGE; y++)
    for (int64_t x = left; x < left + EDGE; x++, to += GCONV_BLOCK)
      if (y >= 0 && y < problem->height && x >= 0 && x < problem->width)
        memcpy(to, in + (y * problem->width + x) * GCONV_BLOCK, GCONV_BLOCK * sizeof *to);
      else
        memset(to, 0, GCONV_BLOCK * sizeof *to);
}

/* Makes the points of all channels of the band. */
static void make_block_points(walk *w, const float *in) {
  void (*transform)(const float *, const int64_t *, int64_t, float *, int64_t) = OF_THIS_PROCESSOR(&transforms)->input;
  const gconv_layer_problem *problem = w->problem;
  const int64_t pitch = w->tiles * GCONV_BLOCK, plane = gconv_layer_in_plane(problem) * GCONV_BLOCK;
  const int64_t blocks = gconv_divide_up(w->cut.channels, GCONV_BLOCK), first_column = w->first_column - problem->pad_left;
  int64_t there[POINTS], patch[POINTS];
  for (int i = 0; i < POINTS; i++) {
    there[i] = (i / EDGE * problem->width + i % EDGE) * GCONV_BLOCK;
    patch[i] = i * GCONV_BLOCK;
  }
  for (int64_t c = 0; c < w->cut.channels; c++)
    w->offsets[c] = c / GCONV_BLOCK * pitch + c % GCONV_BLOCK;
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t row = 0; row < w->rows; row++) {
      const int64_t top = (w->first_row + row) * SIDE - problem->pad_top;
      float *to = w->points + b * pitch + row * w->columns * GCONV_BLOCK;
      for (int64_t i = 0, left = first_column; i < w->columns; i++, left += SIDE, to += GCONV_BLOCK)
        if (top >= 0 && left >= 0 && top + EDGE <= problem->height && left + EDGE <= problem->width) {
          transform(in + b * plane + (top * problem->width + left) * GCONV_BLOCK, there, GCONV_BLOCK, to, w->point);
        } else {
          copy_patch(problem, in + b * plane, top, left, w->staged);
          transform(w->staged, patch, GCONV_BLOCK, to, w->point);
        }
    }
}

/* ---- From points to outputs ---- */

/* Converts sums [POINTS][tiles][V * lanes] to outputs [pixel][V * lanes]. */
static void make_outputs(const walk *w, int V) {
  void (*transform)(const float *, int64_t, float *const *) = OF_THIS_PROCESSOR(&transforms)->output;
  const int64_t lanes = w->product->lanes, pitch = V * lanes, width = w->width;
  const int64_t rows = w->problem->out_height - SIDE * w->first_row;
  float *nowhere = w->outputs + SIDE * w->cut.band_rows * SIDE * w->cut.piece * pitch;
  const float *from = w->sums;
  for (int64_t i = 0; i < w->rows; i++)
    for (int64_t j = 0; j < w->columns; j++)
      for (int v = 0; v < V; v++, from += lanes) {
        float *to[SIDE * SIDE], *corner = w->outputs + SIDE * (i * width + j) * pitch + v * lanes;
        for (int k = 0; k < SIDE * SIDE; k++)
          to[k] = SIDE * i + k / SIDE < rows && SIDE * j + k % SIDE < width ? corner + (k / SIDE * width + k % SIDE) * pitch
                                                                            : nowhere;
        transform(from, w->tiles * pitch, to);
      }
}

/* Sets *found if a number is not finite. */
GCONV_VECTOR_LOOP(search, (const float *restrict from, int64_t count, int32_t *restrict found), (from, count, found)) {
  int32_t any = 0;
  for (int64_t i = 0; i < count; i++)
    any |= !(fabsf(from[i]) <= 0x1.fffffep127F);
  *found |= any;
}

/* Replaces the outputs of a block that are not finite by the sums of the definition. A sample that is not finite spreads
 * over its tile, even to outputs whose filter does not reach it. Sums on the way to a finite output may overflow, too. The
 * block has V vectors of filters: `there` filters, from filter k on. */
static void define_outputs(const walk *w, int V, int64_t k, int64_t there) {
  const int64_t rows = gconv_clamp(w->problem->out_height - SIDE * w->first_row, 0, SIDE * w->rows);
  int32_t found = 0;
  search(w->outputs, rows * w->width * V * w->product->lanes, &found);
  for (int64_t i = 0; found && i < rows * w->width; i++)
    for (int64_t f = 0; f < there; f++) {
      float *sum = w->outputs + i * V * w->product->lanes + f;
      if (!isfinite(*sum))
        *sum = gconv_layer_sum(w->problem, w->in, w->weights + (k + f) * w->cut.channels * 9,
                               SIDE * w->first_row + i / w->width, w->first_column + i % w->width);
    }
}

/* Makes outputs in blocks of channels of V vectors of filters, the first of which is filter k of all filters and filter
 * `own` of the group. `biases` begins with filter k; `out` is where block 0 has the task's first pixel. */
static void make_block_outputs(const walk *w, int V, int64_t k, int64_t own, const float *biases, float *out) {
  void (*transform)(const float *, int64_t, float *const *) = OF_THIS_PROCESSOR(&transforms)->output;
  const gconv_layer_problem *problem = w->problem;
  const int64_t lanes = w->product->lanes, pitch = (int64_t)problem->out_width * GCONV_BLOCK;
  const int64_t block = gconv_layer_out_plane(problem) * GCONV_BLOCK, count = w->width * GCONV_BLOCK;
  const int64_t rows = gconv_clamp(problem->out_height - SIDE * w->first_row, 0, SIDE * w->rows);
  const float *from = w->sums;
  for (int64_t i = 0; i < w->rows; i++)
    for (int64_t j = 0; j < w->columns; j++)
      for (int v = 0; v < V; v++, from += lanes) {
        const int64_t f = k + v * lanes;
        float *to[SIDE * SIDE],
            *corner = out + f / GCONV_BLOCK * block + f % GCONV_BLOCK + SIDE * (i * pitch + j * GCONV_BLOCK);
        for (int64_t y = 0; y < SIDE; y++)
          for (int64_t x = 0; x < SIDE; x++)
            to[y * SIDE + x] =
                SIDE * i + y < rows && SIDE * j + x < w->width ? corner + y * pitch + x * GCONV_BLOCK : w->outputs;
        transform(from, w->tiles * V * lanes, to);
      }
  for (int64_t f = k / GCONV_BLOCK * GCONV_BLOCK; f < k + V * lanes; f += GCONV_BLOCK)
    for (int64_t row = 0; row < rows; row++) {
      float *values = out + f / GCONV_BLOCK * block + row * pitch;
      int32_t found = 0;
      search(values, count, &found);
      for (int64_t i = 0; found && i < count; i++)
        if (!isfinite(values[i]) && f + i % GCONV_BLOCK < problem->filters)
          values[i] = gconv_layer_sum(problem, w->in, w->weights + (own + f - k + i % GCONV_BLOCK) * w->cut.channels * 9,
                                      SIDE * w->first_row + row, w->first_column + i / GCONV_BLOCK);
    }
  for (int64_t f = k / GCONV_BLOCK * GCONV_BLOCK; f < k + V * lanes && f < problem->filters; f += GCONV_BLOCK)
    for (int64_t row = 0; row < rows; row++)
      gconv_layer_finish_block(problem, biases + f - k, problem->filters - f, w->width,
                               out + f / GCONV_BLOCK * block + row * pitch);
}

/* Makes a block of filters, which begins with filter k of the group. `biases` and `out` begin with the block's first filter,
 * `out` with the task's first pixel. */
static void make_block(const walk *w, const float *weights, int V, int64_t k, const float *biases, int64_t filters,
                       float *out) {
  const int64_t lanes = w->product->lanes, plane = gconv_layer_out_plane(w->problem), offset = 0;
  const int64_t rows = gconv_clamp(w->problem->out_height - SIDE * w->first_row, 0, SIDE * w->rows);
  const int64_t there = gconv_clamp(filters, 0, V * lanes);
  const bool whole = w->width == w->problem->out_width; /* then rows are neighbours */
  gconv_panel panel = {.offsets = &offset, .step = 1, .channel = w->tiles, .channels = (int32_t)w->cut.channels, .taps = 1};
  panel.begins = true;
  if (w->problem->in_blocks) {
    panel.offsets = w->offsets;
    panel.step = GCONV_BLOCK;
    panel.taps = panel.channels;
    panel.channels = 1;
  }
  for (int i = 0; i < POINTS; i++) {
    if (!w->problem->out_blocks)
      expect_outputs(w, out, gconv_clamp(i * EXPECTED, 0, there), gconv_clamp((i + 1) * EXPECTED, 0, there));
    panel.weights = weights + i * w->cut.channels * V * lanes;
    gconv_panel_expect(&panel, panel.weights + w->cut.channels * V * lanes, w->cut.channels * V * lanes);
    gconv_product_row(w->product, &panel, w->points + i * w->point, w->tiles, V, w->sums + i * w->tiles * V * lanes);
  }
  if (w->problem->out_blocks) {
    make_block_outputs(w, V, w->first_filter + k, k, biases, out);
    return;
  }
  make_outputs(w, V);
  define_outputs(w, V, k, there);
  for (int v = 0; v < V; v++)
    for (int64_t row = 0; row < (whole ? 1 : rows); row++)
      gconv_product_finish(w->product, w->problem, w->outputs + (row * w->width * V + v) * lanes, V * lanes,
                           whole ? rows * w->width : w->width, biases + v * lanes, filters - v * lanes,
                           out + v * lanes * plane + row * w->problem->out_width);
}

static int vectors_of_block(const cut *c, int64_t block) {
  int64_t lanes = gconv_product_here()->lanes;
  return (int)gconv_clamp(gconv_divide_up(c->filters, lanes) - block * VECTORS, 0, VECTORS);
}

/* ---- The descriptor ---- */

/* Returns the floats of the prepared filters of a group: [block][point][channel][V * lanes]. */
static int64_t group_floats(const cut *c) {
  int64_t lanes = gconv_product_here()->lanes;
  return gconv_divide_up(c->filters, lanes) * lanes * POINTS * c->channels;
}

static size_t prepared_floats(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  return (size_t)(problem->groups * group_floats(&c));
}

static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  cut c = cut_of(problem);
  int64_t lanes = gconv_product_here()->lanes;
  memset(prepared, 0, prepared_floats(problem) * sizeof *prepared);
  for (int64_t g = 0; g < problem->groups; g++, prepared += group_floats(&c))
    for (int64_t k = 0; k < c.filters; k++) {
      int64_t block = k / (VECTORS * lanes), V = vectors_of_block(&c, block);
      float *to = prepared + block * VECTORS * lanes * POINTS * c.channels + k % (VECTORS * lanes);
      for (int64_t i = 0; i < c.channels; i++, weights += 9)
        transform_filter(weights, to + i * V * lanes, c.channels * V * lanes);
    }
  return GCONV_OK;
}

static gconv_layer_stage stage_of(const gconv_layer_problem *problem, const cut *c) {
  gconv_layer_problem tiles = tile_problem(problem, c, 0);
  return gconv_layer_stage_of(&tiles, (int32_t)c->band_rows, 1);
}

static size_t workspace_bytes(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  gconv_layer_stage stage = stage_of(problem, &c);
  return divide_workspace(&c, &stage, NULL, NULL);
}

static gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  walk w = {.problem = problem, .cut = cut_of(problem), .product = gconv_product_here()};
  const cut *c = &w.cut;
  int64_t task = (int64_t)e->task, part = task % c->parts, column = task / c->parts % c->pieces * c->piece;
  int64_t band = task / c->parts / c->pieces % c->bands;
  int64_t image_group = task / c->parts / c->pieces / c->bands, group = image_group % problem->groups; /* n * G + g */
  gconv_layer_problem tiles = tile_problem(problem, c, column);
  gconv_layer_stage stage = stage_of(problem, c);
  divide_workspace(c, &stage, e->workspace, &w);
  w.first_row = band * c->band_rows;
  w.rows = gconv_clamp(c->tiles_y - w.first_row, 0, c->band_rows);
  w.columns = gconv_clamp(c->tiles_x - column, 0, c->piece);
  w.tiles = w.rows * w.columns;
  w.width = gconv_clamp(problem->out_width - SIDE * column, 0, SIDE * w.columns);
  w.first_column = SIDE * column;
  const int64_t plane = gconv_layer_in_plane(problem), image = image_group / problem->groups,
                out_plane = gconv_layer_out_plane(problem);
  w.in =
      e->in + image * gconv_layer_image_floats(problem->channels, plane, problem->in_blocks) + group * c->channels * plane;
  w.first_filter = group * c->filters;
  w.weights = e->weights + group * c->filters * gconv_layer_taps(problem);
  if (problem->in_blocks)
    make_block_points(&w, w.in);
  else
    make_points(&w, &stage, &tiles, w.in);
  const float *weights = gconv_layer_prepared(problem, e->weights) + group * group_floats(c);
  const float *biases = gconv_layer_biases(problem, e->weights) + group * c->filters;
  int64_t block = (int64_t)VECTORS * w.product->lanes;
  const int64_t pixel = SIDE * w.first_row * problem->out_width + SIDE * column;
  float *out = problem->out_blocks
                   ? e->out + image * gconv_layer_image_floats(problem->filters, out_plane, true) + pixel * GCONV_BLOCK
                   : e->out + image_group * c->filters * out_plane + pixel;
  for (int64_t b = part * c->part_blocks; b < gconv_clamp((part + 1) * c->part_blocks, 0, c->blocks); b++)
    make_block(&w, weights + b * block * POINTS * c->channels, vectors_of_block(c, b), b * block, biases + b * block,
               c->filters - b * block, problem->out_blocks ? out : out + b * block * out_plane);
  return GCONV_OK;
}

/* Multiply-adds take as long as in gemm. A point of a tile and channel, and a sum of a tile and filter, take `point_ns` to
 * make and use. A point of a filter takes 0.2 ns from the L3 cache, once for each band, if the filters do not fit into the
 * L2 cache. */
static double cost_of(const gconv_layer_problem *problem, const gconv_machine *machine, double point_ns) {
  const double lanes = GCONV_REFERENCE_LANES;
  gconv_layer_problem any_threads = *problem; /* choices do not depend on the number of threads */
  any_threads.threads = 0;
  cut c = cut_for(&any_threads, GCONV_REFERENCE_LANES);
  double tiles = (double)c.tiles_x * (double)c.tiles_y * problem->images * problem->groups;
  double filters = ceil((double)c.filters / lanes) * lanes;
  double multiplications = tiles * POINTS * (double)c.channels * filters / 0.9;
  double moving_ns = tiles * POINTS * ((double)c.channels * (double)c.parts + filters) * point_ns;
  double points = (double)problem->groups * filters * POINTS * (double)c.channels,
         turns = points > 512 << 10 ? (double)(c.bands * c.pieces) * problem->images : 1;
  double outputs = (double)problem->images * problem->out_height * problem->out_width * problem->filters;
  moving_ns += outputs * 0.15 + points * turns * 0.2;
  return gconv_layer_cpu_ms(problem, machine, multiplications, moving_ns);
}

static const char *supports(const gconv_layer_problem *problem) {
  const char *obstacle = gconv_layer_takes_blocks(problem, gconv_product_here()->lanes);
  if (!obstacle && problem->groups > 1 && problem->in_blocks && problem->channels / problem->groups % GCONV_BLOCK != 0)
    obstacle = "groups that are parts of a block of channels";
  return obstacle ? obstacle : gconv_winograd_obstacle(problem);
}

#define WINOGRAD(name, text, point_ns, bound)                                                                               \
  static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {                                    \
    return cost_of(problem, machine, point_ns);                                                                             \
  }                                                                                                                         \
  const gconv_layer_algorithm gconv_layer_algorithm_cpu_##name = {                                                          \
      .info = {#name, "cpu", text, false},                                                                                  \
      .supports = supports,                                                                                                 \
      .blocks = true,                                                                                                       \
      .tasks = tasks,                                                                                                       \
      .workspace_bytes = workspace_bytes,                                                                                   \
      .execute = execute,                                                                                                   \
      .cost = cost,                                                                                                         \
      .error_bound = bound,                                                                                                 \
      .bound_of_largest = true,                                                                                             \
      .prepared_floats = prepared_floats,                                                                                   \
      .prepare = prepare,                                                                                                   \
      .row_step = SIDE,                                                                                                     \
  };

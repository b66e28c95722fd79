/* SPDX-License-Identifier: MIT */
/* For gemm_6xbf16.c, which explains steps and sheets: divides a layer into steps of tiles, and cuts its pixels and filters
 * into tasks. */
#pragma once

#include "bfloat16_tiles.h"
#include "stage.h"

enum {
  SIDE = GCONV_TILE_SIDE, /* filters of a tile, pixels of a vector, and the most pairs of a step */
  SPLITS = GCONV_SPLITS,
  TILE_BYTES = GCONV_TILE_BYTES,
  TOGETHER = 2,             /* blocks of filters that are made at a time */
  STAGE_BYTES = 896 << 10,  /* samples of a task: they stay in the L2 cache */
  WEIGHT_BYTES = 512 << 10, /* weights that stay there beside them */
  LONG_ROW = 64,            /* outputs of a row that is not copied before it is split */
  THREADS = 4,              /* the assumed number of threads, if it is not known */
  TASK_CYCLES = 20000,      /* the fewest cycles that are worth a task */
  PRODUCT_CYCLES = 28,
  MOST_FILTERS = TOGETHER * SIDE
};

/* ---- A layer as steps ---- */

typedef struct layout {
  gconv_layer_problem problem;       /* of 1 x 1 filters: with all pixels in one row, if that is the same */
  int32_t channels, filters, blocks; /* of a group; blocks of 16 filters */
  int32_t near_y, near_x;            /* rows and columns of taps that a step takes together */
  int32_t groups_y, groups_x;        /* such groups of taps in a filter */
  int32_t pairs, slices, depth;      /* pairs of channels; steps of a group of taps; pairs of a step */
  int32_t steps;
  int32_t period_y, period_x; /* sheets */
  int32_t reach_y, reach_x;   /* further rows and columns of a sheet, after those of the outputs */
} layout;

static int32_t smaller(int32_t a, int32_t b) {
  return a < b ? a : b;
}

static int32_t up(int64_t a, int64_t b) {
  return (int32_t)gconv_divide_up(a, b);
}

static int32_t threads_of(const layout *l) {
  return l->problem.threads > 0 ? l->problem.threads : THREADS;
}

/* Lets the steps of a layer with few channels take as many taps as possible. */
static void group_taps(layout *l) {
  const int32_t most = SIDE / l->pairs, R = l->problem.rows, S = l->problem.columns;
  int64_t best = INT64_MAX;
  for (int32_t x = 1; x <= smaller(most, S); x++) {
    const int32_t y = smaller(most / x, R);
    const int64_t groups = gconv_divide_up(R, y) * gconv_divide_up(S, x);
    if (groups < best) {
      best = groups;
      l->near_y = y;
      l->near_x = x;
    }
  }
}

/* Returns the problem with all pixels in one row, if each output then still reads the same samples. */
static gconv_layer_problem flatten(const gconv_layer_problem *problem) {
  gconv_layer_problem flat = *problem;
  const int64_t pixels = gconv_layer_plane(problem);
  if (problem->rows == 1 && problem->columns == 1 && problem->stride_y == 1 && problem->stride_x == 1 &&
      problem->pad_top == 0 && problem->pad_left == 0 && problem->out_height == problem->height &&
      problem->out_width == problem->width && pixels <= INT32_MAX) {
    flat.height = flat.out_height = 1;
    flat.width = flat.out_width = (int32_t)pixels;
  }
  return flat;
}

static layout layout_of(const gconv_layer_problem *problem) {
  layout l = {.problem = flatten(problem),
              .channels = problem->channels / problem->groups,
              .filters = problem->filters / problem->groups,
              .near_y = 1,
              .near_x = 1};
  l.blocks = up(l.filters, SIDE);
  l.pairs = up(l.channels, 2);
  if (l.pairs <= SIDE / 2)
    group_taps(&l);
  l.slices = up(l.pairs, SIDE);
  l.depth = l.slices > 1 ? up(l.pairs, l.slices) : l.near_y * l.near_x * l.pairs;
  l.groups_y = up(problem->rows, l.near_y);
  l.groups_x = up(problem->columns, l.near_x);
  l.steps = l.groups_y * l.groups_x * l.slices;
  const int64_t last_y = (int64_t)(problem->rows - l.near_y) * problem->dilation_y,
                last_x = (int64_t)(problem->columns - l.near_x) * problem->dilation_x;
  l.period_y = last_y < problem->stride_y ? (int32_t)last_y + 1 : problem->stride_y;
  l.period_x = last_x < problem->stride_x ? (int32_t)last_x + 1 : problem->stride_x;
  l.reach_y = (int32_t)(last_y / problem->stride_y);
  l.reach_x = (int32_t)(last_x / problem->stride_x);
  return l;
}

/* Returns the first tap of a group along an axis. The last group ends with the last tap, and its taps that belong to the
 * group before it have the weight 0. So a step reads only samples under taps: other samples might be NaN. */
static int32_t first_tap(int32_t group, int32_t near, int32_t taps) {
  return smaller(group * near, taps - near);
}

/* ---- Tasks: images, groups, bands of rows, pieces of rows, parts of a group's filters ---- */

typedef struct cut {
  int32_t bands, rows, pieces, columns, parts, part_blocks;
  int64_t pitch, plane; /* pairs from a row to the next; from a plane to the next */
} cut;

static int64_t planes_of(const layout *l) {
  return (int64_t)l->slices * l->depth * l->period_y * l->period_x * SPLITS;
}

static int64_t vectors_of(const cut *c) {
  return gconv_divide_up((c->rows - 1) * c->pitch + c->columns, SIDE);
}

/* Sets the fields that follow from rows, columns and parts. */
static cut complete(const layout *l, cut c, int64_t parts) {
  c.bands = up(l->problem.out_height, c.rows);
  c.pieces = up(l->problem.out_width, c.columns);
  c.part_blocks = up(up(l->blocks, gconv_clamp(parts, 1, l->blocks)), TOGETHER) * TOGETHER;
  c.parts = up(l->blocks, c.part_blocks);
  c.pitch = c.columns + l->reach_x;
  c.plane = (gconv_divide_up((c.rows + l->reach_y) * c.pitch, SIDE) | 1) * SIDE; /* odd: tiles' rows use all sets of L1 */
  return c;
}

/* Returns the cycles of a task, measured with data in the L2 cache: 28 for each product of tiles, 1.5 for each staged
 * sample, and 1 for each output. Reading weights adds a cycle for 50 bytes; for 20 bytes if the weights do not fit into the
 * cache. */
static double task_cycles(const layout *l, const cut *c) {
  const double blocks = smaller(c->part_blocks, l->blocks), bytes = blocks * l->steps * SPLITS * TILE_BYTES;
  const double staged = (double)c->plane * l->slices * l->depth * l->period_y * l->period_x * 2;
  const double vectors = (double)vectors_of(c);
  return staged * 1.5 + vectors * blocks * (l->steps * 6 * PRODUCT_CYCLES + SIDE * SIDE) +
         bytes / (bytes > WEIGHT_BYTES ? 20 : 50);
}

static int64_t tasks_of(const layout *l, const cut *c) {
  return (int64_t)l->problem.images * l->problem.groups * c->bands * c->pieces * c->parts;
}

/* Returns the cycles until all threads have done their tasks. */
static double all_cycles(const layout *l, const cut *c) {
  return task_cycles(l, c) * (double)gconv_divide_up(tasks_of(l, c), threads_of(l));
}

/* Cuts rows or columns in two until there are `wanted` tasks, or they would be too small. */
static cut cut_pixels(const layout *l, cut c, int64_t wanted) {
  while (tasks_of(l, &c) < wanted) {
    const int32_t rows = up(c.rows, 2), columns = up(up(c.columns, 2), SIDE) * SIDE;
    if (c.rows > 1 && (int64_t)rows * (c.columns + l->reach_x) >= 4 * SIDE)
      c.rows = rows;
    else if (columns < c.columns && columns >= 2 * SIDE && c.rows == 1)
      c.columns = columns;
    else
      break;
    c = complete(l, c, c.parts);
  }
  return c;
}

/* Returns the most rows and columns whose samples fit into STAGE_BYTES. */
static cut largest(const layout *l) {
  const gconv_layer_problem *problem = &l->problem;
  const int64_t most = gconv_clamp(STAGE_BYTES / (int64_t)sizeof(uint32_t) / planes_of(l), 2 * SIDE, INT32_MAX);
  const int64_t least_rows = gconv_clamp(4 * (int64_t)l->reach_y, 1, problem->out_height);
  const int64_t widest = gconv_clamp(most / (least_rows + l->reach_y) - l->reach_x, 2 * SIDE, INT32_MAX);
  cut c = {.columns = up(problem->out_width, gconv_divide_up(problem->out_width, widest))};
  const int64_t rows = gconv_clamp(most / (c.columns + l->reach_x) - l->reach_y, 1, problem->out_height);
  c.rows = up(problem->out_height, gconv_divide_up(problem->out_height, rows));
  return c;
}

/* Divides the pixels, the filters, or both, whichever takes the least time. */
static cut cut_of(const layout *l) {
  const cut whole = complete(l, largest(l), 1);
  const int64_t threads = threads_of(l);
  const double worth = task_cycles(l, &whole) * (double)tasks_of(l, &whole) / TASK_CYCLES;
  if (worth < 2)
    return whole;
  const int64_t wanted = worth < (double)(2 * threads) ? threads : 2 * threads;
  const cut tries[] = {cut_pixels(l, whole, wanted), complete(l, whole, threads), complete(l, whole, 2 * threads),
                       cut_pixels(l, complete(l, whole, up(threads, 2)), wanted)};
  cut best = tries[0];
  for (size_t i = 1; i < sizeof tries / sizeof *tries; i++)
    if (all_cycles(l, &tries[i]) < all_cycles(l, &best))
      best = tries[i];
  return best;
}

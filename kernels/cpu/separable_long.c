/* SPDX-License-Identifier: MIT */
/*
 * separable, long filters: columns first, for a group of output rows, then rows.
 *
 *      input, a chunk of columns         middle, a group of rows               outputs
 *      | . . |  R + 95 rows              . . . . . . . .  96 rows              . . . . . . . .
 *      | . . |  --- R taps down --->     . . m m . . . .  --- S taps along -> . . y y . . . .
 *
 * A chunk is so narrow that its rows stay in L2, whatever R is. The middle has the columns of the image, and one column
 * of the border's constant. The border then continues the middle as it would continue the image. So no other column outside
 * is computed; for filters larger than the image, most columns are outside.
 *
 * A chain of float32 ends after CHAIN taps, and the sums of chains are added in float64. So each direction has CHAIN + 1
 * roundings, whatever its length. For example, the mean of equal numbers is that number.
 */
#include "kernels/cpu/separable_long.h"
#include "base/cpu.h"
#include "kernels/cpu/rows.h"
#include "tile.h"

#include <math.h>
#include <string.h>

enum {
  SHORT = 512,   /* the most rows and columns of filters that separable.c computes by itself, if that is accurate enough */
  CHAIN = 32,    /* taps of a chain */
  CHUNK = 64,    /* floats of a row of a chunk of columns */
  PIECE = 512,   /* samples of a row of the result that are made at a time */
  GROUP = 96,    /* output rows of a group; a multiple of GCONV_TILE_ROWS */
  MOST = 1 << 23 /* floats of the middle and the sums of a group; if the image is very wide, a group has fewer rows */
};

bool gconv_separable_is_long(const gconv_problem *problem) {
  double roundings = (double)problem->rows + (double)problem->structure.rank * problem->columns;
  bool coarse = problem->accuracy > 0 && gconv_separable_bound(problem, roundings) > problem->accuracy;
  return coarse || problem->rows > SHORT || problem->columns > SHORT;
}

double gconv_separable_long_bound(const gconv_problem *problem) {
  return gconv_separable_bound(problem, fmin(problem->rows, CHAIN) + fmin(problem->columns, CHAIN) + 2);
}

/* ---- Sizes ---- */

typedef struct sizes {
  size_t K, C, rank, R, S;
  size_t group;      /* output rows */
  size_t lines;      /* input rows under the taps of a group */
  size_t middle;     /* floats of a row of the middle: the image's columns, one outside, and what tiles write beyond */
  size_t samples;    /* samples of an output row, as if the stride were 1 */
  size_t reach, row; /* floats of a row under the taps of an output row; floats of a row of sums */
} sizes;

static sizes sizes_of(const gconv_problem *problem) {
  sizes z = {.K = (size_t)problem->filters,
             .C = (size_t)problem->channels,
             .rank = (size_t)problem->structure.rank,
             .R = (size_t)problem->rows,
             .S = (size_t)problem->columns};
  z.middle = ((size_t)problem->width + 1) * z.C + CHUNK;
  z.samples = ((size_t)(problem->out_width - 1) * (size_t)problem->stride_x + 1) * z.C;
  z.reach = z.samples + (z.S - 1) * (size_t)problem->dilation_x * z.C + GCONV_TILE_SAMPLES;
  z.row = gconv_round_up(z.samples, GCONV_TILE_SAMPLES);
  size_t fit = MOST / (z.rank * z.middle + z.K * z.row);
  z.group = fit > GROUP ? GROUP : fit < GCONV_TILE_ROWS ? GCONV_TILE_ROWS : fit;
  z.group = z.group < (size_t)problem->out_height ? z.group : (size_t)problem->out_height;
  z.lines = (z.group - 1) * (size_t)problem->stride_y + (z.R - 1) * (size_t)problem->dilation_y + 1;
  return z;
}

/* The sums of some rows of a piece: of the current chain, and of all chains before. */
typedef struct chains {
  float one[GCONV_TILE_ROWS * PIECE];
  double all[GCONV_TILE_ROWS * PIECE];
} chains;

/* The current group, and where its parts are in the workspace. */
typedef struct group {
  const gconv_execution *execution;
  sizes z;
  int32_t first; /* first output row */
  size_t count;  /* output rows */
  chains *chains;
  const float **lines;                  /* the rows of the chunk */
  const float **sources;                /* the samples under each tap of a chain */
  float *chunk, *middle, *under, *sums; /* lines x CHUNK; rank x group x middle; rank x reach; K x group x row */
} group;

size_t gconv_separable_long_workspace(const gconv_problem *problem) {
  sizes z = sizes_of(problem);
  size_t floats = z.lines * CHUNK + z.rank * z.group * z.middle + z.rank * z.reach + z.K * z.group * z.row;
  return sizeof(chains) + (z.lines + z.rank * CHAIN) * sizeof(float *) + floats * sizeof(float) + 64;
}

static group group_of(const gconv_execution *execution) {
  group g = {.execution = execution, .z = sizes_of(execution->problem), .chains = execution->workspace};
  g.lines = (const float **)(void *)(g.chains + 1);
  g.sources = g.lines + g.z.lines;
  g.chunk = (float *)(void *)(g.sources + g.z.rank * CHAIN);
  g.middle = g.chunk + g.z.lines * CHUNK;
  g.under = g.middle + g.z.rank * g.z.group * g.z.middle;
  g.sums = g.under + g.z.rank * g.z.reach;
  for (size_t i = 0; i < g.z.lines; i++)
    g.lines[i] = g.chunk + i * CHUNK;
  memset(g.chunk, 0, g.z.lines * CHUNK * sizeof(float)); /* three channels leave a float of each row unused */
  return g;
}

/* Returns the factors of filter k: columns of R taps, then rows of S taps. */
static const float *factors_of(const group *g, size_t k) {
  return gconv_prepared(g->execution->problem, g->execution->weights) + k * g->z.rank * (g->z.R + g->z.S);
}

/* ---- Chains ---- */

static void begin_chains(chains *c, size_t rows) {
  memset(c->all, 0, rows * PIECE * sizeof *c->all);
}

GCONV_VECTOR_LOOP(add_chain, (chains * c, size_t rows, size_t samples), (c, rows, samples)) {
  for (size_t j = 0; j < rows; j++)
    for (size_t x = j * PIECE; x < j * PIECE + samples; x++)
      c->all[x] += (double)c->one[x];
}

static void round_chains(const chains *c, size_t row, size_t samples, float *to) {
  for (size_t x = 0; x < samples; x++)
    to[x] = (float)c->all[row * PIECE + x];
}

static size_t at_most(size_t value, size_t most) {
  return value < most ? value : most;
}

/* ---- Down the columns ---- */

/* Loads pixels x .. x + count - 1 of the rows under the group. */
static void load_chunk(const group *g, int64_t x, int64_t count) {
  const gconv_problem *problem = g->execution->problem;
  int64_t top = (int64_t)g->first * problem->stride_y - problem->pad_top;
  size_t lines = g->z.lines - (g->z.group - g->count) * (size_t)problem->stride_y;
  for (size_t i = 0; i < lines; i++)
    gconv_load_pixels(g->execution, top + (int64_t)i, x, 1, count, g->chunk + i * CHUNK);
}

/* Applies a column of taps to the chunk, for `rows` rows of the group from row j on. */
static void add_down(const group *g, const float *taps, size_t j, size_t rows) {
  const size_t step = (size_t)g->execution->problem->stride_y, apart = (size_t)g->execution->problem->dilation_y;
  const int64_t no_shift = 0;
  begin_chains(g->chains, rows);
  for (size_t r = 0; r < g->z.R; r += CHAIN) {
    size_t count = at_most(g->z.R - r, CHAIN);
    if (rows == GCONV_TILE_ROWS) {
      gconv_tile_rows(g->lines + j + r, 0, &no_shift, taps + r, (int32_t)count, 1, CHUNK, g->chains->one, PIECE);
    } else {
      for (size_t i = 0; i < count; i++)
        g->sources[i] = g->lines[j * step + (r + i) * apart];
      gconv_tile_list(g->sources, taps + r, count, CHUNK, g->chains->one);
    }
    add_chain(g->chains, rows, CHUNK);
  }
}

/* Makes the middle of filter k. */
static void filter_columns(const group *g, size_t k) {
  const gconv_problem *problem = g->execution->problem;
  const bool tiles = problem->stride_y == 1 && problem->dilation_y == 1;
  const int64_t pixels = CHUNK / problem->channels;
  for (int64_t x = 0; x <= problem->width; x += pixels) {
    int64_t count = problem->width + 1 - x < pixels ? problem->width + 1 - x : pixels;
    load_chunk(g, x, count);
    for (size_t i = 0; i < g->z.rank; i++)
      for (size_t j = 0, rows; j < g->count; j += rows) {
        rows = tiles && g->count - j >= GCONV_TILE_ROWS ? GCONV_TILE_ROWS : 1;
        add_down(g, factors_of(g, k) + i * g->z.R, j, rows);
        for (size_t n = 0; n < rows; n++)
          round_chains(g->chains, n, (size_t)count * g->z.C,
                       g->middle + (i * g->z.group + j + n) * g->z.middle + (size_t)x * g->z.C);
      }
  }
}

/* ---- Along the rows ---- */

/* Continues a row of the middle beyond the image, as far as the taps reach. */
static void continue_row(const gconv_problem *problem, const float *middle, float *row, size_t pixels) {
  const size_t C = (size_t)problem->channels;
  for (int64_t i = 0; i < (int64_t)pixels; i++) {
    int64_t x = gconv_border_index(problem->border, i - problem->pad_left, problem->width);
    const float *from = middle + (size_t)(x == GCONV_OUTSIDE ? problem->width : x) * C;
    for (size_t c = 0; c < C; c++)
      row[(size_t)i * C + c] = from[c];
  }
}

/* Applies taps s .. s + count - 1 of the row of pair i to the samples of the piece, which begins at sample x. */
static void add_along(const group *g, const float *taps, size_t i, size_t s, size_t count, size_t x, size_t samples) {
  const size_t distance = (size_t)g->execution->problem->dilation_x * g->z.C;
  const float *from = g->under + i * g->z.reach + x + s * distance;
  gconv_tile_lines line = {.sources = &from, .taps = taps + s, .count = 1, .length = count, .distance = distance};
  if (gconv_tile_along(&line, GCONV_F32, samples, g->chains->one))
    return;
  for (size_t n = 0; n < count; n++)
    g->sources[n] = from + n * distance;
  gconv_tile_list(g->sources, taps + s, count, samples, g->chains->one);
}

/* Makes the sums of filter k for row j of the group. */
static void filter_row(const group *g, size_t k, size_t j) {
  const gconv_problem *problem = g->execution->problem;
  const sizes *z = &g->z;
  const float *taps = factors_of(g, k) + z->rank * z->R;
  float *sums = g->sums + (k * z->group + j) * z->row;
  for (size_t i = 0; i < z->rank; i++)
    continue_row(problem, g->middle + (i * z->group + j) * z->middle, g->under + i * z->reach,
                 (z->reach - GCONV_TILE_SAMPLES) / z->C);
  for (size_t x = 0; x < z->samples; x += PIECE) {
    size_t samples = at_most(z->samples - x, PIECE);
    begin_chains(g->chains, 1);
    for (size_t i = 0; i < z->rank; i++)
      for (size_t s = 0; s < z->S; s += CHAIN) {
        add_along(g, taps + i * z->S, i, s, at_most(z->S - s, CHAIN), x, samples);
        add_chain(g->chains, 1, samples);
      }
    round_chains(g->chains, 0, samples, sums + x);
  }
  for (size_t q = 1; problem->stride_x > 1 && q < (size_t)problem->out_width; q++)
    memmove(sums + q * z->C, sums + q * (size_t)problem->stride_x * z->C, z->C * sizeof *sums);
}

void gconv_separable_long(const gconv_execution *execution) {
  group g = group_of(execution);
  for (g.first = execution->first_row; g.first < execution->end_row; g.first += (int32_t)g.count) {
    g.count = at_most((size_t)(execution->end_row - g.first), g.z.group);
    for (size_t k = 0; k < g.z.K; k++) {
      filter_columns(&g, k);
      for (size_t j = 0; j < g.count; j++)
        filter_row(&g, k, j);
    }
    for (size_t j = 0; j < g.count; j++)
      gconv_store_row(execution, g.first + (int32_t)j, g.sums + j * g.z.row, g.z.group * g.z.row);
  }
}

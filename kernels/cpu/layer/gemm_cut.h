/* SPDX-License-Identifier: MIT */
/* For gemm.c, which explains tiles and panels: cuts a layer into panels of channels, and its images, rows and filters into
 * tasks. */
#pragma once

#include "blocks.h"
#include "product.h"

enum {
  VECTORS = GCONV_PRODUCT_VECTORS,
  PANEL_FLOATS = 24 << 10, /* floats of the weights that stay in L2 for all pixels: 96 KiB */
  SUMS_FLOATS = 64 << 10,  /* floats of the sums of a task: 256 KiB */
  LEAST_TASKS = 8,
  LEAST_PIXELS = 96,             /* the fewest pixels of a task, if the image has so many */
  LONG_ROW = 1024,               /* rows of more pixels are cut into pieces, if nothing is staged */
  PIECE = 256,                   /* pixels of a piece, roughly: its samples stay in the L2 cache for all filters */
  WHOLE_PANEL_FLOATS = 64 << 10, /* the same for tasks with one panel, whose sums stay in L1: 256 KiB */
  CHUNK_FLOATS = 6 << 10,        /* floats of the samples of a few pixels, for all filters: 24 KiB */
  WINDOW_FLOATS = 48 << 10,      /* floats of a window of a staged input in blocks: 192 KiB */
  REFERENCE_PIXELS = 6,          /* pixels of the widest tile of the reference CPU */
};

/* ---- Blocks of filters have VECTORS vectors; the last block of a part may have fewer ---- */

static int32_t vectors_of_group(const gconv_layer_problem *problem) {
  return (int32_t)gconv_divide_up(problem->filters / problem->groups, gconv_product_here()->lanes);
}

/* Returns the vectors of the block that begins with vector v of a part. The part ends before vector `end`. */
static int vectors_of_block(int32_t v, int32_t end) {
  return end - v < VECTORS ? end - v : VECTORS;
}

/* ---- Dense layers ---- */

/* Returns whether the output of an image is one pixel, and all taps lie inside the image. */
static bool is_dense(const gconv_layer_problem *problem) {
  return problem->out_height == 1 && problem->out_width == 1 && gconv_layer_stage_of_any_step(problem, 1).in_place;
}

/* Returns whether the samples under the taps of all channels are contiguous. Then one loop treats them as one channel. */
static bool is_flat(const gconv_layer_problem *problem) {
  return is_dense(problem) && problem->rows == problem->height && problem->columns == problem->width;
}

static gconv_layer_stage stage_of(const gconv_layer_problem *problem, int32_t rows) {
  gconv_layer_stage stage = gconv_layer_stage_of_any_step(problem, rows);
  if (is_dense(problem))
    stage.step = problem->channels * stage.channel; /* floats from an image to the next */
  return stage;
}

/* ---- Tasks: images, groups, bands of rows, pieces of rows, parts of a group's filters ---- */

typedef struct cut {
  bool dense;               /* the images are the pixels of a row, which is cut into pieces */
  int32_t bands, band_rows; /* output rows of a band; the last band may have fewer */
  int32_t pieces, piece;    /* columns of a piece; the last may have fewer. Only bands of one row have several pieces */
  int32_t parts, part;      /* vectors of a part; the last part may have fewer */
  int32_t channels;         /* channels of a panel */
} cut;

/* Returns the number of pieces of a row of `images` pixels. */
static int32_t pieces_of_images(int32_t images) {
  int64_t least = gconv_divide_up(images, PIECE);
  return (int32_t)(least < LEAST_TASKS ? gconv_clamp(gconv_divide_up(images, LEAST_PIXELS), 1, LEAST_TASKS) : least);
}

/* Returns how many channels a panel has. */
static int32_t panel_channels(const gconv_layer_problem *problem) {
  const int64_t block_filters = (int64_t)VECTORS * gconv_product_here()->lanes,
                channels = problem->channels / problem->groups;
  const int64_t most = problem->in_blocks && problem->out_blocks ? WHOLE_PANEL_FLOATS : PANEL_FLOATS;
  const int64_t slice = gconv_clamp(most / (block_filters * problem->rows * problem->columns), 1, channels);
  const int64_t even = gconv_divide_up(channels, gconv_divide_up(channels, slice));
  if (!problem->in_blocks || even == channels)
    return (int32_t)even;
  return (int32_t)gconv_clamp((int64_t)gconv_round_up((size_t)even, GCONV_BLOCK), 1, channels);
}

/* Returns whether input and output are in blocks of channels, and one panel has all channels. */
static bool has_one_panel(const gconv_layer_problem *problem) {
  return problem->in_blocks && problem->out_blocks && panel_channels(problem) == problem->channels / problem->groups;
}

/* Returns how many pixels a task with one panel makes at a time: their samples stay in the L1 cache. */
static int64_t chunk_pixels(const gconv_layer_problem *problem) {
  const int64_t tile = gconv_product_here()->pixels, most = 2 * tile;
  return gconv_clamp(CHUNK_FLOATS / (problem->channels / problem->groups) / tile * tile, tile, most);
}

/* Returns stride_y * stride_x. Larger strides than WINDOW_FLOATS cut the same windows, and would overflow in products. */
static int64_t window_strides(const gconv_layer_problem *problem) {
  return gconv_clamp((int64_t)problem->stride_y * problem->stride_x, 1, WINDOW_FLOATS);
}

/* Cuts the rows of a layer whose input is in blocks of channels. A window and its sums stay in the L2 cache. Low staged
 * windows would have a large halo: so a row that takes more than a quarter of a window is cut into pieces. Windows of pieces
 * are about four times as wide as high. */
static void cut_windows(const gconv_layer_problem *problem, cut *c) {
  const bool in_place = gconv_block_stage_of(problem, 1, 1).in_place;
  const int64_t strides = window_strides(problem), width = problem->out_width;
  const int64_t sums = SUMS_FLOATS / ((int64_t)VECTORS * gconv_product_here()->lanes);
  const int64_t most = in_place ? sums : gconv_clamp(WINDOW_FLOATS / (c->channels * strides), 2 * LEAST_PIXELS, sums);
  const int64_t tile = gconv_product_here()->pixels, square = (int64_t)sqrt((double)most) / tile * tile;
  if (width > (in_place ? most : most / 4) && width > 2 * tile)
    c->pieces = (int32_t)gconv_divide_up(width, gconv_clamp(square * 2, tile, width));
  c->piece = (int32_t)gconv_divide_up(gconv_divide_up(width, c->pieces), tile) * (int32_t)tile;
  c->piece = (int32_t)gconv_clamp(c->piece, 1, width);
  c->pieces = (int32_t)gconv_divide_up(width, c->piece);
}

static cut cut_of(const gconv_layer_problem *problem) {
  bool dense = is_dense(problem);
  int64_t others = (int64_t)(dense ? 1 : problem->images) * problem->groups;
  int32_t row = dense ? problem->images : problem->out_width;
  int64_t block_filters = (int64_t)VECTORS * gconv_product_here()->lanes, vectors = vectors_of_group(problem);
  bool long_rows = !problem->in_blocks && row > LONG_ROW && gconv_layer_stage_of_any_step(problem, 1).in_place;
  cut c = {.dense = dense, .pieces = long_rows ? (int32_t)gconv_divide_up(row, PIECE) : 1};
  c.channels = panel_channels(problem);
  if (dense)
    c.pieces = pieces_of_images(row);
  c.piece = (int32_t)gconv_divide_up(row, c.pieces);
  c.pieces = (int32_t)gconv_divide_up(row, c.piece);
  if (problem->in_blocks)
    cut_windows(problem, &c);
  others *= c.pieces;
  int64_t width = c.piece;
  int64_t wanted = gconv_divide_up(problem->out_height, gconv_divide_up(gconv_layer_least_tasks(problem), others));
  int64_t most = gconv_clamp(SUMS_FLOATS / (block_filters * width), 1, problem->out_height);
  if (problem->in_blocks && !gconv_block_stage_of(problem, 1, 1).in_place)
    most = gconv_clamp(WINDOW_FLOATS / (c.channels * width * window_strides(problem)), 1, most);
  const int64_t least = gconv_clamp(gconv_divide_up(LEAST_PIXELS, width), 1, most);
  gconv_cake rows = {problem->out_height, long_rows ? 1 : gconv_clamp(wanted, least, most), least, most, others, 1};
  c.band_rows = (int32_t)(long_rows ? 1 : gconv_even_size(&rows, problem->threads));
  c.bands = (int32_t)gconv_divide_up(problem->out_height, c.band_rows);
  c.band_rows = (int32_t)gconv_divide_up(problem->out_height, c.bands);
  others *= c.bands;
  int64_t blocks = gconv_divide_up(vectors, VECTORS);
  int64_t fitting = gconv_clamp(SUMS_FLOATS / (block_filters * width * c.band_rows), 1, blocks);
  int64_t part =
      VECTORS * gconv_clamp(gconv_divide_up(blocks, gconv_divide_up(gconv_layer_least_tasks(problem), others)), 1, fitting);
  gconv_cake filters = {vectors, part, 1, gconv_clamp(VECTORS * fitting, 1, vectors), others, 1.2};
  c.part = (int32_t)gconv_even_size(&filters, problem->threads);
  c.parts = (int32_t)gconv_divide_up(vectors, c.part);
  return c;
}

/* SPDX-License-Identifier: MIT */
/*
 * Images in tiles: one plan, made for a tile, runs on tile after tile. So the memory does not grow with the image. Results
 * equal those of the whole image if convolutions use the same algorithms. A tile has all elements that its results depend
 * on. It begins at a multiple of all strides. At the image's border, nodes pad it as they pad the image.
 */
#pragma once

#include "graph/graph.h"

GCONV_C_BEGIN

typedef struct gconv_graph_tiles gconv_graph_tiles;

/* Plans tiles for one image, 1 x C x H x W, with results of at most about `most` bytes at a time. `whole` is a plan of the
 * whole image. GCONV_UNSUPPORTED if the graph cannot be cut: the error names the node that sees the whole image. The graph
 * must outlive the tiles. */
gconv_status gconv_graph_tiles_create(const gconv_graph_plan *whole, size_t most, gconv_graph_tiles **tiles);
/* Frees the tiles. NULL is allowed. */
void gconv_graph_tiles_free(gconv_graph_tiles *tiles);

/* Gives the tiles their memory, before the first run. */
gconv_status gconv_graph_tiles_allocate(gconv_graph_tiles *tiles);

/* Runs all tiles: from an image, C x H x W, to the first output, K x P x Q. */
gconv_status gconv_graph_tiles_run(gconv_graph_tiles *tiles, const float *in, float *out);

/* Returns the plan of one tile, for reports. */
const gconv_graph_plan *gconv_graph_tiles_plan(const gconv_graph_tiles *tiles);

/* Writes "tiles of 512 x 512 (height, width), 12 of them". */
void gconv_graph_tiles_tell(const gconv_graph_tiles *tiles, char *text, size_t size);

GCONV_C_END

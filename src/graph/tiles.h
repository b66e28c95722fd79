/* SPDX-License-Identifier: MIT */
/*
 * Images in tiles: one plan, made for a tile, runs on tile after tile. So the memory does not grow with the image. Results
 * are the same as for the whole image if convolutions use the same algorithms. A tile has all elements that its results
 * depend on. It begins at a multiple of all strides. At the image's border, nodes pad a tile as they pad the image.
 */
#pragma once

#include "graph/graph.h"

GCONV_C_BEGIN

typedef struct gconv_graph_tiles gconv_graph_tiles;

/* How an image is cut. If the input of the plan is larger than the image, the image is padded below and to the right with
 * its pixels reflected. Their part of the result is cut off. */
typedef struct gconv_graph_cut {
  int64_t in[2], out[2]; /* height and width of the image, and of the part of its result that is kept */
  size_t most;           /* estimated bytes of the results of nodes at a time, at most */
  int32_t rows; /* if not 0: tiles side by side make a band of this many rows of the result; the last band may have fewer */
  int32_t images; /* if not 0: the number of images whose moments can be measured, for nodes that need them */
} gconv_graph_cut;

/* Rows of an image in memory: planes of `rows` rows, from row `first` of the image on. */
typedef struct gconv_graph_rows {
  float *data;
  int64_t first, rows;
  int32_t image; /* the number of the image among several of one size */
} gconv_graph_rows;

/* Plans tiles for one image, 1 x C x H x W. `whole` is a plan of the whole image. GCONV_UNSUPPORTED if the graph cannot be
 * cut: the error names the node that sees the whole image. The graph must outlive the tiles. */
gconv_status gconv_graph_tiles_create(const gconv_graph_plan *whole, const gconv_graph_cut *cut, gconv_graph_tiles **tiles);
/* Frees the tiles. NULL is allowed. */
void gconv_graph_tiles_free(gconv_graph_tiles *tiles);

/* Gives the tiles their memory, before the first run. */
gconv_status gconv_graph_tiles_allocate(gconv_graph_tiles *tiles);

/* Finds the rows of the image that a band needs. The band begins at row `first` of the result. */
void gconv_graph_tiles_rows(const gconv_graph_tiles *tiles, int64_t first, int64_t *begin, int64_t *end);
/* Returns the most rows of the image that a band needs. */
int64_t gconv_graph_tiles_most_rows(const gconv_graph_tiles *tiles);

/* Returns the number of passes over the image before the one that makes its result: they measure the moments of the whole
 * image that nodes need. 0: no node needs them. */
size_t gconv_graph_tiles_measurings(const gconv_graph_tiles *tiles);
/* Returns the work of the first `passes` of these passes, as a fraction of the work of the pass that makes the result. */
double gconv_graph_tiles_work(const gconv_graph_tiles *tiles, size_t passes);
/* Begins a pass, in their order. From gconv_graph_tiles_measurings() on, runs make the result; in passes before, runs make
 * nothing, and each must be run for all rows of the result. */
void gconv_graph_tiles_begin(gconv_graph_tiles *tiles, size_t pass);

/* Runs the tiles that make rows of `out`, a whole image or a band, from the rows of the image that they need. On the CPU,
 * `stream` is NULL. On a GPU, puts the runs into the stream, and all rows are in memory of the device. */
gconv_status gconv_graph_tiles_run(gconv_graph_tiles *tiles, const gconv_graph_rows *in, const gconv_graph_rows *out,
                                   void *stream);

/* Runs the plan of a whole image. cut->out may be a part of its result. */
gconv_status gconv_graph_run_whole(gconv_graph_plan *plan, const gconv_graph_cut *cut, const float *in, float *out,
                                   void *stream);

/* Copies output `number` of the last run as float32, without the rows and columns beyond `kept`. */
gconv_status gconv_graph_copy_output(const gconv_graph_plan *plan, size_t number, const int64_t kept[2], float *out,
                                     void *stream);

/* Returns the plan of one tile, for reports. */
const gconv_graph_plan *gconv_graph_tiles_plan(const gconv_graph_tiles *tiles);

/* Writes "12 tiles of 512 x 512 (height, width)". */
void gconv_graph_tiles_tell(const gconv_graph_tiles *tiles, char *text, size_t size);

GCONV_C_END

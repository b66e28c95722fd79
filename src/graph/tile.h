/* SPDX-License-Identifier: MIT */
/* What tiles.c, tile_reach.c and tile_run.c share: how an image is cut, and which moments of it are measured. */
#pragma once

#include "graph/moments.h"
#include "graph/tiles.h"

GCONV_C_BEGIN

enum { GCONV_TILE_AXES = 2 /* height and width: axes 2 and 3 of tensors */, GCONV_TILE_FIRST = 2 };

/* A range of elements along an axis: begin .. end - 1. */
typedef struct gconv_tile_range {
  int64_t begin, end;
} gconv_tile_range;

/* A tile along one axis: inputs at .. at + size - 1 make outputs core.begin .. core.end - 1. */
typedef struct gconv_tile {
  int64_t at;
  gconv_tile_range core;
} gconv_tile;

/* A step that needs the moments of its input 0, a value of the whole image. Each tile measures a part of the value. */
typedef struct gconv_measured {
  size_t step, pass; /* the pass in which it is measured */
  int32_t value;
  int64_t channels;
  int64_t *ends[GCONV_TILE_AXES]; /* owned: tile i of an axis measures elements ends[i - 1] .. ends[i] - 1 of the value */
  gconv_plane_moments *moments;   /* owned: of each image, of each channel */
} gconv_measured;

struct gconv_graph_tiles {
  const gconv_graph_plan *whole; /* during gconv_graph_tiles_create() */
  gconv_graph_plan *plan;
  gconv_tile_range *needed;                             /* owned: of each value, while needs are followed */
  int64_t *up[GCONV_TILE_AXES], *down[GCONV_TILE_AXES]; /* owned: element i of the input lies at i * up / down of a value; an
                                                           up of 0: the value has no places of pixels */
  gconv_graph_cut cut;
  int64_t in[GCONV_TILE_AXES], channels, filters; /* shape of the image as the graph gets it; its channels; channels of the
                                                     result */
  int64_t size[GCONV_TILE_AXES], stride[GCONV_TILE_AXES];
  int64_t scale_up[GCONV_TILE_AXES], scale_down[GCONV_TILE_AXES]; /* of the result */
  gconv_tile *tiles[GCONV_TILE_AXES];                             /* owned */
  int64_t count[GCONV_TILE_AXES];
  gconv_measured *measured; /* owned, in the order of steps */
  size_t measured_count, measurings, pass;
  bool *runs, *wanted; /* owned: in a pass that measures, which steps run, and which values they need */
};

/* ---- tile_reach.c ---- */

/* Fails: a step sees the whole image. */
gconv_status gconv_tile_refuse(const gconv_graph_plan *plan, const gconv_graph_step *step);

/* Whether a step needs the moments of its input 0. */
bool gconv_tile_is_measured(const gconv_graph_tiles *tiles, const gconv_graph_step *step);

/* Sets up and down of each value, and the stride: tiles may begin at its multiples. */
gconv_status gconv_tile_find_stride(gconv_graph_tiles *tiles, int32_t axis);

/* Sets *need to the elements of the image that the elements `core` of a value depend on. */
gconv_status gconv_tile_follow_back(gconv_graph_tiles *tiles, int32_t axis, int32_t value, gconv_tile_range core,
                                    gconv_tile_range *need);

GCONV_C_END

/* SPDX-License-Identifier: MIT */
/*
 * Convolutions one after the other that go through an image by bands of rows, on the CPU. A map between two of them is never
 * whole in memory: each stage has a buffer of the rows of its input that it needs at a time, which stays in the caches.
 *
 * Band i of a stage is rows i * rows + lead and following of its output. A stage leads the next one by so many rows that the
 * next one finds all rows that it needs; the last stage leads by none. Rows that the next band needs again are kept: no row
 * is computed twice. All bands of a stage are one problem, so that prepared weights fit all of them. Rows outside of a map
 * are padding of the next stage, and are set to 0.
 *
 * A thread makes a strip, some bands one after the other, by itself: no thread waits for another, and what it makes is in
 * its own caches. At the begin of a strip, stages compute some rows that the strip above has, too.
 */
#pragma once

#include "graph/solve.h"

GCONV_C_BEGIN

enum {
  GCONV_ROLLING_MOST = 64,       /* stages */
  GCONV_ROLLING_LEAST = 2 << 20, /* floats of the maps between stages that are worth it: smaller maps stay in L3 caches */
};

typedef struct gconv_rolling_stage {
  gconv_solver *solver;      /* the caller's */
  gconv_layer_problem whole; /* of all rows of one image; solver->choice.problem is that of a band */
  int64_t rows, lead;        /* of bands of the output */
  int64_t before;            /* a strip begins so many bands earlier at this stage, for rows that later stages need */
  int64_t kept, in_rows;     /* rows of the buffer that are kept from the previous band; all rows of the buffer */
  int64_t in_row;            /* floats of a row of the input, of one channel or block */
  int64_t in_planes;         /* channels or blocks of the input */
  size_t in_at;              /* floats before the buffer in the memory of a run */
} gconv_rolling_stage;

typedef struct gconv_rolling {
  size_t count;
  gconv_rolling_stage *stages; /* owned */
  int64_t bands, strips;
  int32_t threads;
  size_t last_at;         /* floats before the last band of the output, if its rows are not all inside; else 0 */
  size_t floats;          /* of the buffers of a thread */
  size_t workspace_bytes; /* of a thread */
} gconv_rolling;

/* Makes the first solvers of `count` go through the image together. The output of each solver is the input of the next; all
 * have an algorithm, but no prepared weights yet. (*rolling)->count tells how many solvers go together: as many as have
 * buffers that fit into the caches. Their problems become those of bands. *rolling stays NULL, and no problem changes, if
 * the first two solvers cannot go together, if the maps between the solvers have fewer than `least` floats, or, unless this
 * is 0, if bands are estimated to take longer. `threads` may be NULL. */
gconv_status gconv_rolling_make(gconv_solver *const *solvers, size_t count, int64_t least, gconv_threads *threads,
                                gconv_rolling **rolling);
void gconv_rolling_free(gconv_rolling *rolling);

/* Returns the bytes of memory of a run. */
size_t gconv_rolling_bytes(const gconv_rolling *rolling);

/* Runs all stages on images one after the other. `memory` is aligned to 64 bytes. */
gconv_status gconv_rolling_run(const gconv_rolling *rolling, int32_t images, const float *in, float *out,
                               gconv_threads *threads, void *memory);

GCONV_C_END

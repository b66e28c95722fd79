/* SPDX-License-Identifier: MIT */
/*
 * A layer's input in the form that the tiles of the CPU's algorithms need. It has its border pixels, and neighbouring
 * outputs read neighbouring floats, for any stride.
 *
 * With stride 2, for example, a tap uses either the even or the odd columns of the padded image; the same holds for rows. So
 * the padded image is divided into phases. Phase (a, b) has the rows and columns that the taps with r = a and s = b use.
 * Taps of the same phase differ by whole steps in it. So the layer becomes one of stride 1. With stride 1 there is one
 * phase: the padded image itself.
 *
 *   sum(p, q) = sum over c, r, s of weight[c][r][s] * staged[c * channel + offset(r, s) + p * pitch + q]
 */
#pragma once

#include "kernels/cpu/rows.h"
#include "kernels/layer_algorithm.h"

#include <math.h>
#include <string.h>

enum { GCONV_STAGE_SLACK = 128 }; /* floats after the staged channels that may be read; their values do not matter */

typedef struct gconv_layer_stage {
  int32_t phases_y, phases_x;
  int32_t reach_y, reach_x; /* rows and columns of a phase from the output's position to the farthest tap */
  int64_t pitch;            /* floats from a row of a phase to the next: Q + reach_x, or W if nothing is copied */
  int64_t phase;            /* floats from one phase to the next */
  int64_t channel;          /* floats from one channel to the next */
  int64_t step;             /* floats from the samples of an output to those of its neighbour: 1; in place, the stride */
  bool in_place;            /* tiles read the input itself, because no tap is outside the image */
} gconv_layer_stage;

/* Returns the layout for bands of `rows` output rows. It is in place only if the stride is 1 and the rows have at least
 * `least_width` pixels: tiles would read beyond narrower rows. */
gconv_layer_stage gconv_layer_stage_of(const gconv_layer_problem *problem, int32_t rows, int32_t least_width);

/* Returns the layout for algorithms that load the samples of each output one by one. If no tap is outside the image, it is
 * in place with any stride and width. */
gconv_layer_stage gconv_layer_stage_of_any_step(const gconv_layer_problem *problem, int32_t rows);

/* Returns the floats of a workspace for `channels` staged channels, with slack; 0 if in place. */
size_t gconv_layer_stage_floats(const gconv_layer_stage *stage, int64_t channels);

/* gconv_layer_stage_offsets() fills offsets[r * S + s], which take gconv_layer_offset_floats() floats of a workspace. */
static inline size_t gconv_layer_offset_floats(const gconv_layer_problem *problem) {
  return ((size_t)problem->rows * (size_t)problem->columns * 2 + 15) / 16 * 16;
}
void gconv_layer_stage_offsets(const gconv_layer_stage *stage, const gconv_layer_problem *problem, int64_t *offsets);

/* Stages the channels that begin at `in`, for output rows first .. first + rows - 1. Returns `to`; in place, a pointer into
 * `in`. */
const float *gconv_layer_stage_fill(const gconv_layer_stage *stage, const gconv_layer_problem *problem, const float *in,
                                    int64_t channels, int32_t first, int32_t rows, float *to);

/* ---- Inputs in blocks of channels (stage_blocks.c) ---- */

typedef struct gconv_block_stage {
  bool in_place;         /* tiles read the input itself, because no tap is outside the image */
  int64_t height, width; /* of the image, or of the copy of a window */
  int64_t step, pitch;   /* floats from the samples of an output to those of its neighbour, and of the output below */
  int64_t block;         /* floats from one block of channels to the next */
} gconv_block_stage;

/* A window: the samples of some channels under some outputs. */
typedef struct gconv_block_window {
  int64_t channel, channels;          /* number of the first channel in the image, and how many */
  int64_t row, rows, column, columns; /* of outputs */
} gconv_block_window;

/* Returns the layout of windows of at most `rows` x `columns` outputs. */
gconv_block_stage gconv_block_stage_of(const gconv_layer_problem *problem, int64_t rows, int64_t columns);

/* Returns the floats of a workspace for `channels` staged channels; 0 if in place. */
size_t gconv_block_stage_floats(const gconv_block_stage *stage, int64_t channels);

/* Fills offsets[c * R * S + r * S + s] for channels first .. first + channels - 1. Offsets count from the block of channels
 * that has channel `first`. */
void gconv_block_stage_offsets(const gconv_block_stage *stage, const gconv_layer_problem *problem, int64_t first,
                               int64_t channels, int64_t *offsets);

/* Stages a window of an image. Returns where the block of its first channel has the first output's samples. */
const float *gconv_block_stage_fill(const gconv_block_stage *stage, const gconv_layer_problem *problem, const float *in,
                                    const gconv_block_window *window, float *to);

/* Returns NULL if algorithms with vectors of `lanes` lanes take the problem's tensors, in blocks or not; else the reason. */
const char *gconv_layer_takes_blocks(const gconv_layer_problem *problem, int lanes);

/* Copies `count` floats that do not overlap. It is faster than memcpy() for the short rows of small images. */
static inline void gconv_layer_copy_row(const float *restrict from, float *restrict to, int64_t count) {
  enum { PIECE = 8, HALF = PIECE / 2 };
  if (count >= 8 * PIECE) {
    memcpy(to, from, (size_t)count * sizeof *to);
  } else if (count >= PIECE) {
    for (int64_t i = 0; i < count - PIECE; i += PIECE)
      memcpy(to + i, from + i, PIECE * sizeof *to);
    memcpy(to + count - PIECE, from + count - PIECE, PIECE * sizeof *to);
  } else if (count >= HALF) {
    memcpy(to, from, HALF * sizeof *to);
    memcpy(to + count - HALF, from + count - HALF, HALF * sizeof *to);
  } else {
    for (int64_t i = 0; i < count; i++)
      to[i] = from[i];
  }
}

/* Prefetches the cache line of an address, which may be outside of the array. This helps for samples that processors do not
 * prefetch by themselves, such as a few samples of each plane. */
#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch((const void *)(uintptr_t)(address))
#define FETCH_FAR(address) __builtin_prefetch((const void *)(uintptr_t)(address), 0, 2) /* into the L2 cache */
#else
#define FETCH(address) ((void)0)
#define FETCH_FAR(address) ((void)0)
#endif

/* Bounds of outputs. */
typedef struct gconv_layer_bounds {
  bool enough;  /* outputs are sum + bias within these bounds: neither an activation nor a tail follows */
  bool streams; /* outputs in blocks go past the caches: gconv_product_end_blocks() follows */
  float low, high;
} gconv_layer_bounds;

/* Returns the sum of a filter at an output, by the definition, without its bias. Faster algorithms call it
 * for outputs that their own sums make infinite or NaN. `in` is the first channel of the filter's group. */
float gconv_layer_sum(const gconv_layer_problem *problem, const float *in, const float *weights, int64_t row,
                      int64_t column);

/* Returns the bounds of a problem's outputs; infinite bounds if the problem has none. */
static inline gconv_layer_bounds gconv_layer_bounds_of(const gconv_layer_problem *problem) {
  const gconv_layer_tail *tail = problem->tail;
  gconv_layer_bounds bounds = {.low = -INFINITY, .high = INFINITY};
  if (problem->activation == GCONV_ACTIVATION_NONE && tail && tail->clamps)
    bounds = (gconv_layer_bounds){.enough = true, .low = tail->low, .high = tail->high};
  else if (problem->activation == GCONV_ACTIVATION_RELU && !tail)
    bounds = (gconv_layer_bounds){.enough = true, .low = 0, .high = INFINITY};
  else
    bounds.enough = problem->activation == GCONV_ACTIVATION_NONE && !tail;
  return bounds;
}

/* If outputs have no activation, and their tail only adds a tensor and clamps, sets `bounds`, and returns the elements that
 * are added to the outputs from `out` on. Else returns NULL. */
static inline const float *gconv_layer_added(const gconv_layer_problem *problem, const float *out,
                                             gconv_layer_bounds *bounds) {
  const gconv_layer_tail *tail = problem->tail;
  if (problem->activation != GCONV_ACTIVATION_NONE || !tail || !tail->adds)
    return NULL;
  *bounds = (gconv_layer_bounds){.enough = true, .low = tail->low, .high = tail->high};
  return tail->added + (out - tail->out);
}

/* Applies the problem's tail, if it has one, to outputs in place, after their activation. */
static inline void gconv_layer_follow(const gconv_layer_problem *problem, float *values, size_t count) {
  if (problem->tail)
    problem->tail->apply(problem->tail, values, count);
}

/* Applies the activation and the tail in place to values that are sums with biases. Softmax is left to the caller. */
void gconv_layer_activate(const gconv_layer_problem *problem, float *values, size_t count);

/* For a layer whose outputs are [row][filter]: adds the biases of `count` neighbouring filters to the sums of `rows` rows,
 * which are `pitch` floats apart, and applies the activation, unless it is softmax. */
void gconv_layer_finish(const gconv_layer_problem *problem, const float *sums, int64_t pitch, const float *biases,
                        int64_t count, int64_t rows, float *out);

/* Returns the fewest tasks of problems that are large enough: a problem for one thread is cut for the caches alone. */
static inline int64_t gconv_layer_least_tasks(const gconv_layer_problem *problem) {
  return problem->threads == 1 ? 1 : 8;
}

/* For cost(): floats of a vector of the reference CPU (tile.h), which has AVX2. */
enum { GCONV_REFERENCE_LANES = 8 };

/* For cost(): returns the milliseconds of a layer. It adds the times of `multiplications` at the peak of the processor, of
 * `moving_ns` nanoseconds of one thread of the reference CPU, of staging the input, and of storing outputs that caches do
 * not keep. */
double gconv_layer_cpu_ms(const gconv_layer_problem *problem, const gconv_machine *machine, double multiplications,
                          double moving_ns);

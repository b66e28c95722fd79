/* SPDX-License-Identifier: MIT */
/*
 * A layer's input as the tiles of the CPU's algorithms want it: borders are there, and neighbouring outputs read
 * neighbouring floats, whatever the stride.
 *
 * For stride 2, say, every tap meets either the even or the odd columns of the padded image, and so it is with rows. So the
 * padded image is dealt out into phases: phase (a, b) has the rows and columns that the taps with r = a and s = b meet. The
 * taps that meet the same phase differ by whole steps in it, and the layer has become one of stride 1. With stride 1 there
 * is one phase, the padded image itself.
 *
 *   sum(p, q) = sum over c, r, s of weight[c][r][s] * staged[c * channel + offset(r, s) + p * pitch + q]
 */
#ifndef GCONV_KERNELS_CPU_LAYER_STAGE_H
#define GCONV_KERNELS_CPU_LAYER_STAGE_H

#include "layer/algorithm.h"

static inline int64_t gconv_divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static inline int64_t gconv_clamp(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

enum { GCONV_STAGE_SLACK = 128 }; /* floats behind the staged channels that may be read, whatever they are */

typedef struct gconv_layer_stage {
  int32_t phases_y, phases_x;
  int32_t reach_y, reach_x; /* how many rows and columns of its phase the farthest tap lies below and right of the output */
  int64_t pitch;            /* floats from a row of a phase to the next: Q + reach_x, or W where nothing is copied */
  int64_t phase;            /* from one phase to the next */
  int64_t channel;          /* from one channel to the next */
  bool in_place;            /* the input is as wanted already: stride 1, and no tap outside of the image */
} gconv_layer_stage;

/* The layout for bands of `rows` output rows; in place only where these have `least_width` pixels, for tiles that would read
 * beyond narrower ones. */
gconv_layer_stage gconv_layer_stage_of(const gconv_layer_problem *problem, int32_t rows, int32_t least_width);

/* What a workspace needs for `channels` of them; slack included, 0 in place. */
size_t gconv_layer_stage_floats(const gconv_layer_stage *stage, int64_t channels);

/* offsets[r * S + s] */
void gconv_layer_stage_offsets(const gconv_layer_stage *stage, const gconv_layer_problem *problem, int64_t *offsets);

/* Stages the channels that begin at `in` for the output rows first .. first + rows - 1, and returns where they are: in `to`,
 * or, in place, in `in`. */
const float *gconv_layer_stage_fill(const gconv_layer_stage *stage, const gconv_layer_problem *problem, const float *in,
                                    int64_t channels, int32_t first, int32_t rows, float *to);

/* The activation of sums that have their biases, in place. */
void gconv_layer_activate(const gconv_layer_problem *problem, float *values, size_t count);

/* For cost(): the milliseconds of so many multiplications, counted as those that fill the processor, of `moving_ns`
 * nanoseconds of one thread, and of staging the input, in so many tasks; and of storing an output that is too large for
 * caches. */
double gconv_layer_cpu_ms(const gconv_layer_problem *problem, const gconv_machine *machine, double multiplications,
                          double moving_ns, size_t tasks);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A layer's problem: one convolution with several channels, complete, as the algorithms of layers see it. For image n,
 * filter k, output row p, column q, with G groups, g = k / (K / G), and channels c of that group:
 *
 *   sum = +0; for c < C / G, for r, for s:
 *     sum = fmaf(weights[k][c][r][s], x[n][g * (C / G) + c][p * stride_y - pad_top + r * dilation_y]
 *                                                         [q * stride_x - pad_left + s * dilation_x], sum)
 *   y[n][k][p][q] = activation(sum + bias[k])
 *
 * x is 0 outside the image, and taps that lie there take part in the sum, too. The exact family computes exactly this, in
 * this order, so its bits are the same everywhere. Tensors are float32, N x C x H x W, without gaps.
 */
#pragma once

#include "gconv.h"
#include "kernels/pixel.h"

/* Operations on outputs after their activation, on the CPU. apply() is called for each piece of outputs after it was
 * written, and changes it in place. This struct is the first member of a larger one, which holds what apply() needs. */
typedef struct gconv_layer_tail {
  void (*apply)(const struct gconv_layer_tail *tail, float *values, size_t count);
  bool adds;   /* all that apply() does is v += added[i] for output i, and then v < low ? low : v > high ? high : v */
  bool clamps; /* the same without the addition */
  float low, high;
  const float *out, *added; /* all outputs, and the numbers that are added: set before each run */
} gconv_layer_tail;

typedef struct gconv_layer_problem {
  int32_t images;             /* N */
  int32_t channels;           /* C, of all groups */
  int32_t height, width;      /* H, W */
  int32_t filters;            /* K, of all groups */
  int32_t rows, columns;      /* R, S */
  int32_t groups;             /* divides C and K */
  int32_t pad_top, pad_left;  /* rows above and columns left of the image, where the first tap of the first output is */
  int32_t stride_y, stride_x; /* at least 1 */
  int32_t dilation_y, dilation_x;
  int32_t out_height, out_width; /* P, Q: rows below and columns right of the image follow from them */
  gconv_activation activation;
  float slope;                  /* leaky multiplies sums below 0 by it, sigmoid all sums */
  gconv_math math;              /* the precision to which the algorithm may round factors; float32 unless asked for */
  bool in_kept, out_kept;       /* the input, the output is a kept tensor: below */
  const gconv_layer_tail *tail; /* NULL: nothing */
  bool in_blocks, out_blocks;   /* on the CPU: the input, the output is in blocks of channels, N x C/16 x H x W x 16 */
  int64_t in_plane, out_plane;  /* on the CPU: samples from a channel of the input, of the output, to the next; 0: there are
                                   no gaps between channels. In blocks, from a block to the next, of each of its channels */
  int32_t threads;        /* on the CPU: how many threads share the tasks, so that they are cut well; 0: it is not known */
  size_t workspace_limit; /* bytes that an algorithm may want as workspace; on the CPU, for all threads together; on a GPU,
                             state and prepared weights count, too */
} gconv_layer_problem;

/* Channels of a block. The last block of a tensor has channels that do not exist, whose numbers do not matter. */
enum { GCONV_BLOCK = 16 };

/* Returns the floats of an image of `channels` channels of `plane` samples, in blocks or not. */
GCONV_BOTH int64_t gconv_layer_image_floats(int64_t channels, int64_t plane, bool blocks) {
  return (blocks ? (channels + GCONV_BLOCK - 1) / GCONV_BLOCK * GCONV_BLOCK : channels) * plane;
}

/* A kept tensor is one that layers on a GPU pass on in 16 bits, float16 or bfloat16 as `math` says: N x H x W x C. Its C is
 * rounded up to a multiple of 16, and the added channels are 0. */
GCONV_BOTH int64_t gconv_layer_kept_channels(int32_t channels) {
  return ((int64_t)channels + 15) / 16 * 16;
}
/* Return the bytes of the input and of the output of one image. */
GCONV_BOTH int64_t gconv_layer_in_bytes(const gconv_layer_problem *p) {
  return (int64_t)p->height * p->width *
         (p->in_kept ? 2 * gconv_layer_kept_channels(p->channels) : 4 * (int64_t)p->channels);
}
GCONV_BOTH int64_t gconv_layer_out_bytes(const gconv_layer_problem *p) {
  return (int64_t)p->out_height * p->out_width *
         (p->out_kept ? 2 * gconv_layer_kept_channels(p->filters) : 4 * (int64_t)p->filters);
}

/* The weights of a problem: K x C/G x R x S, then K biases. The floats of the algorithm's prepare() follow at
 * gconv_layer_prepared(), aligned to 64 bytes. */
GCONV_BOTH int64_t gconv_layer_plane(const gconv_layer_problem *problem) { /* Returns the samples of an input channel. */
  return (int64_t)problem->height * problem->width;
}
GCONV_BOTH int64_t gconv_layer_in_plane(const gconv_layer_problem *problem) { /* The same, with a gap behind them. */
  return problem->in_plane > 0 ? problem->in_plane : gconv_layer_plane(problem);
}
GCONV_BOTH int64_t gconv_layer_out_plane(const gconv_layer_problem *problem) { /* The same of an output channel. */
  return problem->out_plane > 0 ? problem->out_plane : (int64_t)problem->out_height * problem->out_width;
}
GCONV_BOTH int64_t gconv_layer_taps(const gconv_layer_problem *problem) { /* Returns the taps of one filter. */
  return (int64_t)(problem->channels / problem->groups) * problem->rows * problem->columns;
}
GCONV_BOTH const float *gconv_layer_biases(const gconv_layer_problem *problem, const float *weights) {
  return weights + problem->filters * gconv_layer_taps(problem);
}
GCONV_BOTH int64_t gconv_layer_weight_floats(const gconv_layer_problem *problem) {
  return (problem->filters * (gconv_layer_taps(problem) + 1) + 15) / 16 * 16;
}
GCONV_BOTH const float *gconv_layer_prepared(const gconv_layer_problem *problem, const float *weights) {
  return weights + gconv_layer_weight_floats(problem);
}

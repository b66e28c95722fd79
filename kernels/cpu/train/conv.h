/* SPDX-License-Identifier: MIT */
/*
 * Training of a convolution on the CPU, a case at a time: its outputs, the gradient of its inputs, and the gradient of its
 * weights. All are sums over a staged input, which has its border pixels (../layer/stage.h): implicit im2col.
 *
 * Weights and their gradients have the layout [group][tap][filter], where a tap is (c, r, s) and filters are padded to whole
 * vectors. Biases follow as [group][filter], padded in the same way. So all three products read weights in order.
 *
 * The gradient of inputs is a convolution of the gradient of sums, with the filters rotated by 180 degrees. With a stride of
 * n, an input takes part in outputs through some taps only: which ones depends on its row and its column modulo n. Inputs
 * with the same two remainders form a phase. So there are n * n phases, each a convolution of stride 1 with its own taps.
 */
#pragma once

#include "../layer/stage.h"
#include "product.h"

/* The layout of a case's tensor: sample (c, y, x) is at first + c * channel + y * pitch + x. */
typedef struct gconv_learn_layout {
  int64_t channel, pitch, first;
} gconv_learn_layout;

/* A phase of the gradient of inputs. */
typedef struct gconv_learn_phase {
  int32_t first_y, first_x, rows, columns; /* of the input: every stride-th row and column, from the first */
  int32_t taps;
  int32_t *tap;     /* owned: r * S + s, in the order of p and q */
  int64_t *offsets; /* owned: K / G * taps, into the staged gradient */
  int64_t panel;    /* the offset of its weights in those of a group */
} gconv_learn_phase;

typedef struct gconv_learn_conv {
  gconv_layer_problem problem;
  int64_t taps, group_filters; /* of a group: C/G * R * S; K/G, padded */
  size_t weights, parameters;  /* floats: of the weights; with the biases */
  gconv_layer_stage stage;     /* of the input */
  bool is_staged;              /* the caller writes the input into its stage, whose zeros around the input stay */
  gconv_learn_layout input;
  size_t input_floats;
  int64_t *offsets;           /* owned: of each tap */
  int64_t places, sums_pitch; /* from the first output to the last, in the staged input; padded */
  gconv_learn_phase *phases;  /* owned; none in the first layer, which needs no gradient of its inputs */
  int32_t phase_count;
  int32_t above, left;           /* zeros around the gradient, in its stage */
  int64_t pitch, channel;        /* of that stage */
  size_t panels;                 /* floats of a group's transposed weights, for all phases */
  size_t staged, sums, gradient; /* floats of a workspace: the larger stage; sums of places; gradients [place][filter] */
  /* If a group has too few filters to fill a vector, vectors of the weights' gradient hold channels. It is then a gather
   * over places, from a stage [place][channel]. */
  bool by_channels;
  int64_t group_channels;     /* C/G, padded */
  int64_t *places_of_band;    /* owned: offsets of a band's places in that stage */
  int64_t taps_at_once;       /* the taps of a row of a filter, if they are neighbours in that stage; else 1 */
  size_t by_channel, of_taps; /* floats of a workspace: that stage; sums [filter][tap][channel] */
  /* Products with the zeros of relu are left out. Outputs and gradients of inputs are computed in blocks of columns of a
   * row, without the rows of taps over zeros. Gradients of weights are computed from the samples that are not 0. */
  bool skips_forward, skips_inputs, skips_weights;
  int64_t gradient_pitch, gradient_before; /* places of a row of gradients [place][filter]; places of 0 before them */
  size_t marks;                            /* bytes of a workspace: marks of blocks and lists of samples that are not 0 */
} gconv_learn_conv;

/* inputs: the gradient of inputs is wanted. staged: the caller can write the input into a stage, so that no product copies
 * it; conv->is_staged says whether it must. zeros: many inputs are 0. Free with gconv_learn_conv_free(), on failure too. */
gconv_status gconv_learn_conv_prepare(const gconv_layer_problem *problem, bool inputs, bool staged, bool zeros,
                                      gconv_learn_conv *conv);
void gconv_learn_conv_free(gconv_learn_conv *conv);

/* Converts weights from the layout of gconv_learn_net to this engine's, and back. Padding becomes 0. */
void gconv_learn_conv_take(const gconv_learn_conv *conv, const float *plain, float *own);
void gconv_learn_conv_give(const gconv_learn_conv *conv, const float *own, float *plain);

/* Transposes the weights for the gradient of inputs: once a step. */
void gconv_learn_conv_transpose(const gconv_learn_conv *conv, const float *own, float *panels);

/* Floats of a workspace for one case, with slack. */
size_t gconv_learn_conv_workspace(const gconv_learn_conv *conv);

/* The layout of the output without gaps. */
gconv_learn_layout gconv_learn_plain_output(const gconv_layer_problem *problem);

/* y = activation(sums + biases); of softmax, the sums alone. x has the layout conv->input, y the layout `output`. dz and dx
 * are K x P x Q and C x H x W without gaps. GCONV_STAGE_SLACK floats after x and dz may be read. */
void gconv_learn_conv_forward(const gconv_learn_conv *conv, const float *own, const float *x, float *workspace, float *y,
                              const gconv_learn_layout *output);
/* dx is the gradient of x. If `before` is not NULL, x are the outputs of that layer, and dx is the gradient of its sums; its
 * activation is not softmax. */
void gconv_learn_conv_inputs(const gconv_learn_conv *conv, const float *panels, const float *dz, float *workspace,
                             const gconv_layer_problem *before, const float *x, float *dx);
/* The gradient of weights and biases from one band. */
void gconv_learn_conv_weights(const gconv_learn_conv *conv, const float *x, const float *dz, int32_t band, float *workspace,
                              float *gradient);

/* SPDX-License-Identifier: MIT */
/*
 * Training of a convolution on the CPU, a case at a time: its outputs, the gradient of its inputs, the gradient of its
 * weights. All are sums over a staged input, whose borders are there (../layer/stage.h): implicit im2col. Weights and their
 * gradients have the layout of this engine: for each group [tap][filter], with filters padded to whole vectors, a tap being
 * (c, r, s); then biases [group][filter], padded in the same way. In this layout all three products read weights in order.
 *
 * The gradient of inputs is itself a convolution: of the gradient of sums, with turned weights. With a stride of n, not all
 * taps reach an input: which of them do depends on its row modulo n and its column modulo n. All inputs for which these two
 * numbers are the same form a phase. So there are n * n phases, and each is a convolution of stride 1 with its own taps.
 */
#ifndef GCONV_KERNELS_CPU_TRAIN_CONV_H
#define GCONV_KERNELS_CPU_TRAIN_CONV_H

#include "../layer/stage.h"
#include "product.h"

/* Where a tensor of a case lies: sample (c, y, x) at first + c * channel + y * pitch + x. */
typedef struct gconv_learn_layout {
  int64_t channel, pitch, first;
} gconv_learn_layout;

/* A phase of the gradient of inputs. */
typedef struct gconv_learn_phase {
  int32_t first_y, first_x, rows, columns; /* of the input: every stride-th, from the first */
  int32_t taps;
  int32_t *tap;     /* owned: r * S + s, in the order of p and q */
  int64_t *offsets; /* owned: K / G * taps, into the staged gradient */
  int64_t panel;    /* where its weights begin in those of a group */
} gconv_learn_phase;

typedef struct gconv_learn_conv {
  gconv_layer_problem problem;
  int64_t taps, group_filters; /* of a group: C/G * R * S; K/G, padded */
  size_t weights, parameters;  /* floats: of the weights; with the biases */
  gconv_layer_stage stage;     /* of the input */
  bool is_staged;              /* the input lies in its stage, with zeros around it, which nobody overwrites */
  gconv_learn_layout input;
  size_t input_floats;
  int64_t *offsets;           /* owned: taps of them */
  int64_t places, sums_pitch; /* from the first output to the last, in the staged input; padded */
  gconv_learn_phase *phases;  /* owned; none in the first layer, which needs no gradient of its inputs */
  int32_t phase_count;
  int32_t above, left;           /* zeros around the gradient, in its stage */
  int64_t pitch, channel;        /* of that stage */
  size_t panels;                 /* floats of the weights of a group, turned, for all phases */
  size_t staged, sums, gradient; /* floats of a workspace: the larger stage; sums of places; gradients [place][filter] */
  /* Where a group has so few filters that they do not fill a vector, the gradient of weights has channels in its vectors:
   * it is a gather over places, from the stage as [place][channel]. */
  bool by_channels;
  int64_t group_channels;     /* C/G, padded */
  int64_t *places_of_band;    /* owned: where the places of a band are in that stage */
  int64_t taps_at_once;       /* those of a row of a filter, where they are neighbours in that stage; else 1 */
  size_t by_channel, of_taps; /* floats of a workspace: that stage; sums [filter][tap][channel] */
  /* Products with zeros that relu made are left out. Outputs, and gradients of inputs, are computed row by row, in blocks of
   * columns, by the taps that meet anything but 0 there; gradients of weights from the samples that are not 0. */
  bool skips_forward, skips_inputs, skips_weights;
  int64_t gradient_pitch, gradient_before; /* places from row to row of gradients [place][filter]; zeros before them */
  size_t marks;                            /* bytes of a workspace: which blocks or samples are not 0, and lists of them */
} gconv_learn_conv;

/* `inputs`: the gradient of inputs is wanted. `staged`: whoever writes the input can write it into a stage, where one is
 * needed and has room for all of it: then nothing is copied, neither forward nor for the gradient of weights. `zeros`: many
 * inputs are 0. Free with gconv_learn_conv_free(), on failure too. */
gconv_status gconv_learn_conv_prepare(const gconv_layer_problem *problem, bool inputs, bool staged, bool zeros,
                                      gconv_learn_conv *conv);
void gconv_learn_conv_free(gconv_learn_conv *conv);

/* Between the layout of gconv_learn_net and this engine's. Padding becomes 0. */
void gconv_learn_conv_take(const gconv_learn_conv *conv, const float *plain, float *own);
void gconv_learn_conv_give(const gconv_learn_conv *conv, const float *own, float *plain);

/* Turns the weights for the gradient of inputs: once a step. */
void gconv_learn_conv_turn(const gconv_learn_conv *conv, const float *own, float *panels);

/* Floats of a workspace for one case, with slack. */
size_t gconv_learn_conv_workspace(const gconv_learn_conv *conv);

/* Where the output lies without gaps. */
gconv_learn_layout gconv_learn_plain_output(const gconv_layer_problem *problem);

/* y = activation(sums + biases), but of softmax. x is a case as conv->input has it, y as `output` has it, dz and dx are
 * K x P x Q and C x H x W without gaps; behind x and dz are GCONV_STAGE_SLACK floats that may be read. */
void gconv_learn_conv_forward(const gconv_learn_conv *conv, const float *own, const float *x, float *workspace, float *y,
                              const gconv_learn_layout *output);
/* dx is the gradient of x; or, where x are the outputs of layer `before`, whose activation is not softmax, that of its sums.
 * `before` may be NULL. */
void gconv_learn_conv_inputs(const gconv_learn_conv *conv, const float *panels, const float *dz, float *workspace,
                             const gconv_layer_problem *before, const float *x, float *dx);
/* One band of the gradient of weights and biases. */
void gconv_learn_conv_weights(const gconv_learn_conv *conv, const float *x, const float *dz, int32_t band, float *workspace,
                              float *gradient);

#endif

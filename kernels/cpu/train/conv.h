/* SPDX-License-Identifier: MIT */
/*
 * Training of a convolution on the CPU, one case (image) at a time: the outputs, the gradient of the inputs, and the
 * gradient of the weights. All are sums over a staged input with its border pixels (../layer/stage.h): implicit im2col.
 *
 * Weights and their gradients have the layout [group][tap][filter], where a tap is (c, r, s) and filters are padded to whole
 * vectors. Biases follow as [group][filter], padded in the same way. So all three products read weights in the order of
 * memory.
 *
 * The gradient of inputs is a convolution of the gradient of sums, with the filters rotated by 180 degrees. With a stride of
 * n, an input takes part in outputs through some taps only. The row and the column of the input modulo n say
 * which taps. Inputs with the same two remainders form a phase. So there are n * n phases, each a convolution of stride 1
 * with its own taps.
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
  int32_t first_y, first_x, rows, columns; /* the inputs in the phase: every stride-th row and column */
  int32_t taps;
  int32_t *tap;     /* owned: the taps r * S + s, in the order of p and q */
  int64_t *offsets; /* owned: K / G * taps places in the staged gradient */
  int64_t panel;    /* where its weights begin in a group's transposed weights */
} gconv_learn_phase;

typedef struct gconv_learn_conv {
  gconv_layer_problem problem;
  int64_t taps, group_filters; /* taps of a filter, C/G * R * S; filters of a group, K/G, padded */
  size_t weights, parameters;  /* floats of the weights; floats of weights and biases */
  gconv_layer_stage stage;     /* the layout of the staged input */
  bool is_staged;              /* the caller writes the input into its stage, and leaves the zeros around it */
  gconv_learn_layout input;
  size_t input_floats;
  int64_t *offsets;           /* owned: where each tap reads */
  int64_t places, sums_pitch; /* places of the staged input from the first output to the last; the same, padded */
  gconv_learn_phase *phases;  /* owned; none in the first layer, which needs no gradient of its inputs */
  int32_t phase_count;
  int32_t above, left;           /* zeros around the gradient, in its stage */
  int64_t pitch, channel;        /* floats of a row, and of a channel, of the gradient's stage */
  size_t panels;                 /* floats of a group's transposed weights, for all phases */
  size_t staged, sums, gradient; /* floats of a workspace for the larger stage; for sums; for gradients [place][filter] */
  /* If a group has too few filters to fill a vector, vectors of the weights' gradient hold channels. The gradient is then
   * computed by gather over the places of a transposed stage [place][channel]. */
  bool by_channels;
  int64_t group_channels;     /* C/G, padded */
  int64_t *places_of_band;    /* owned: where a band's places are in the transposed stage */
  int64_t taps_at_once;       /* the taps of a row of a filter, if they are neighbours in the transposed stage; else 1 */
  size_t by_channel, of_taps; /* floats of a workspace for the transposed stage; for sums [filter][tap][channel] */
  /* If true, products with the zeros of relu are left out. Outputs and gradients of inputs then are computed in blocks of
   * columns of a row, without the rows of taps over zeros. Gradients of weights are computed from the samples other than 0.
   */
  bool skips_forward, skips_inputs, skips_weights;
  int64_t gradient_pitch, gradient_before; /* places of a row of gradients [place][filter]; places of 0 before them */
  size_t marks; /* bytes of a workspace for marks of blocks, and for lists of samples that are not 0 */
} gconv_learn_conv;

/* Prepares the training of a convolution. `inputs`: the gradient of inputs is wanted. `staged`: the caller is able to write
 * the input into a stage, so that no product copies it; if conv->is_staged is set, it must do so. `zeros`: many inputs are
 * 0. Free *conv with gconv_learn_conv_free(), on failure too. */
gconv_status gconv_learn_conv_prepare(const gconv_layer_problem *problem, bool inputs, bool staged, bool zeros,
                                      gconv_learn_conv *conv);
void gconv_learn_conv_free(gconv_learn_conv *conv);

/* gconv_learn_conv_take() converts weights from the layout of gconv_learn_net to this engine's layout; padding becomes 0.
 * gconv_learn_conv_give() converts them back. */
void gconv_learn_conv_take(const gconv_learn_conv *conv, const float *plain, float *own);
void gconv_learn_conv_give(const gconv_learn_conv *conv, const float *own, float *plain);

/* Transposes the weights for the gradient of inputs. It is called once a step. */
void gconv_learn_conv_transpose(const gconv_learn_conv *conv, const float *own, float *panels);

/* Returns the floats of a workspace for one case, with slack. */
size_t gconv_learn_conv_workspace(const gconv_learn_conv *conv);

/* Returns the layout of an output without gaps. */
gconv_learn_layout gconv_learn_plain_output(const gconv_layer_problem *problem);

/* Computes y = activation(sums + biases); for softmax, sums + biases. x has the layout conv->input, y the layout `output`.
 * In the next two functions, dz and dx are K x P x Q and C x H x W without gaps. GCONV_STAGE_SLACK floats after x and dz may
 * be read. */
void gconv_learn_conv_forward(const gconv_learn_conv *conv, const float *own, const float *x, float *workspace, float *y,
                              const gconv_learn_layout *output);
/* Computes dx, the gradient of x. If `before` is not NULL, x is the output of the layer `before`, and dx is the gradient of
 * its sums. The activation of `before` is not softmax. */
void gconv_learn_conv_inputs(const gconv_learn_conv *conv, const float *panels, const float *dz, float *workspace,
                             const gconv_layer_problem *before, const float *x, float *dx);
/* Computes the gradient of weights and biases from one band. */
void gconv_learn_conv_weights(const gconv_learn_conv *conv, const float *x, const float *dz, int32_t band, float *workspace,
                              float *gradient);

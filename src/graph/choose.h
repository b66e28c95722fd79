/* SPDX-License-Identifier: MIT */
/* How convolutions of layers and of nodes are solved: the choice among the algorithms of kernels/layer_algorithms.def, their
 * weights, and their execution on the CPU. */
#pragma once

#include "device/device.h"
#include "kernels/layer_algorithm.h"

#include <stdio.h>

GCONV_C_BEGIN

/* A problem and the algorithm that solves it. */
typedef struct gconv_layer_choice {
  gconv_layer_problem whole;   /* the problem of the whole tensor */
  gconv_layer_problem problem; /* problem of one execution: problem.images at a time; by rows, the rows that it needs */
  int32_t images;              /* in all */
  int32_t chosen_for;          /* the number of images that auto chooses for */
  gconv_layer_tails tail;      /* on a GPU: the operations that follow; not all algorithms can compute them */
  const gconv_layer_algorithm *algorithm;
  size_t workspace_bytes; /* on the CPU, of each thread */
  double estimate_ms;
} gconv_layer_choice;

/* Chooses the algorithm: `wanted` or, if that is "auto", the cheapest that is not in `without`. Chooses how many images it
 * gets at a time. Of *choice, whole, problem, images and chosen_for are given. If the algorithm cannot use problem.math,
 * that becomes true float32. Writes the reasons, unless `reasons` is NULL. */
gconv_status gconv_layer_choose(const gconv_device *device, const char *without, const char *wanted,
                                gconv_layer_choice *choice, FILE *reasons);

/* Returns the algorithm of the device that takes and makes kept tensors (layer_problem.h) of this math, or NULL. */
const gconv_layer_algorithm *gconv_layer_keeper(const gconv_device *device, const char *without, gconv_math math);
/* Lets the first problem make a kept tensor, and the second one take it, if the keeper can do so. */
bool gconv_layer_keep(const gconv_layer_algorithm *keeper, gconv_layer_problem *first, gconv_layer_problem *second);

/* Warns where the rounding of the algorithm may be over half a level; over four levels, it is an error if `is_auto`. */
gconv_status gconv_layer_check_rounding(const gconv_layer_algorithm *algorithm, const gconv_layer_problem *problem,
                                        bool is_auto);

/* Returns the bytes of the weights and of what the algorithm prepares from them; SIZE_MAX if they overflow. */
size_t gconv_layer_weight_bytes(const gconv_layer_algorithm *algorithm, const gconv_layer_problem *problem);
/* Allocates *count floats, for gconv_release(): the weights of a problem, and room for algorithm->prepare(). The caller sets
 * weights and biases, and then calls prepare(). */
gconv_status gconv_layer_new_weights(const gconv_layer_algorithm *algorithm, const gconv_layer_problem *problem,
                                     float **weights, size_t *count);

/* Returns the number of executions that `images` images take, with problem->images at a time. */
int32_t gconv_layer_turns(const gconv_layer_problem *problem, int32_t images);
/* Returns the first image of execution `turn`. All executions have the same number of images, so that weights prepared for
 * this number fit: the last may begin before the end of the execution before it, and repeat its results. */
int32_t gconv_layer_turn_first(const gconv_layer_problem *problem, int32_t images, int32_t turn);

/* Executes an algorithm of the CPU on all images. `workspace` has workspace_bytes for each thread. If `threads` is NULL,
 * only this thread computes. */
gconv_status gconv_layer_execute_cpu(const gconv_layer_algorithm *algorithm, const gconv_layer_problem *problem,
                                     int32_t images, const float *weights, const float *in, float *out,
                                     gconv_threads *threads, uint8_t *workspace, size_t workspace_bytes);

GCONV_C_END

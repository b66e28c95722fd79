/* SPDX-License-Identifier: MIT */
/* Shared by the files that implement gconv_fit_add() and gconv_fit_solve(). */
#pragma once

#include "fit/moments.h"
#include "gconv_learn.h"

enum {
  GCONV_FIT_PATCHES = 4,        /* the most patches that are kept */
  GCONV_FIT_PATCH_SIDE = 128,   /* pixels of `after` on each side */
  GCONV_FIT_PATCH_MARGIN = 64,  /* further pixels of `before` on each side: the largest shift that can be found */
  GCONV_FIT_FEWEST_SAMPLES = 64 /* with fewer samples, a patch is not analysed */
};

/* One channel of a patch in the middle of a pair. The fit keeps its samples x of `before` and t of `after`, because some
 * results cannot be computed from sums. Sample (i, j) of t has the same place as sample (i + top, j + left) of x. */
typedef struct gconv_fit_patch {
  int32_t height, width, x_height, x_width;
  int32_t top, left;
  double *x, *t, *counts; /* owned. x: x_height x x_width, with slack; t and counts: height x width each */
} gconv_fit_patch;

typedef struct gconv_fit_sums {
  gconv_moments *fitted, *held;
  double white_before, white_after; /* white of the images; 1 if their types differ, 0 before the first image */
  bool mixed;                       /* `before` has several types */
  gconv_fit_patch patches[GCONV_FIT_PATCHES];
  size_t patch_count;
} gconv_fit_sums;

/* ---- pair.c ---- */

/* Does gconv_fit_add() after its checks; fit->sums exists. */
gconv_status gconv_fit_add_pair(gconv_fit *fit, gconv_threads *threads, const gconv_compared *before,
                                const gconv_compared *after, double held);

/* ---- solve.c ---- */

/* Solves the normal equations of these sums for taps, moments->rows x moments->columns numbers, and *bias (0 without
 * `has_bias`). `condition` may be NULL. GCONV_UNSUPPORTED: the equations are singular. */
gconv_status gconv_fit_equations(const gconv_moments *moments, bool has_bias, double ridge, double *taps, double *bias,
                                 double *condition);

/* Returns the quality of these taps on the samples that were summed. */
gconv_fit_quality gconv_fit_judge(const gconv_moments *moments, const double *taps, double bias);

/* ---- patch.c ---- */

/* Sets the fields that follow from taps and patches: correlation, nonlinear, shift, rim. result->taps and ->fitted must be
 * set. */
gconv_status gconv_fit_look(const gconv_fit *fit, gconv_threads *threads, gconv_fit_result *result);

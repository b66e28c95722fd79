/* SPDX-License-Identifier: MIT */
/* What the files of gconv_fit_add() and gconv_fit_solve() share. */
#ifndef GCONV_FIT_FIT_H
#define GCONV_FIT_FIT_H

#include "fit/moments.h"
#include "gconv_learn.h"

enum {
  GCONV_FIT_PATCHES = 4,        /* are kept at most */
  GCONV_FIT_PATCH_SIDE = 128,   /* of `after`, in pixels */
  GCONV_FIT_PATCH_MARGIN = 64,  /* that `before` has more, on each side: how large a shift can be found */
  GCONV_FIT_FEWEST_SAMPLES = 64 /* of a patch, to say anything of it */
};

/* A place in the middle of a pair, of one channel, where more is looked at than sums tell. Row i of t is row i + top of x,
 * and likewise columns. */
typedef struct gconv_fit_patch {
  int32_t height, width, x_height, x_width;
  int32_t top, left;
  double *x, *t, *counts; /* owned: x_height x x_width, with slack; height x width each */
} gconv_fit_patch;

typedef struct gconv_fit_sums {
  gconv_moments *fitted, *held;
  double white_before, white_after; /* of the images; 1 where their types differ, 0 before the first */
  bool mixed;                       /* `before` has several types */
  gconv_fit_patch patches[GCONV_FIT_PATCHES];
  size_t patch_count;
} gconv_fit_sums;

/* ---- pair.c ---- */

/* gconv_fit_add(), with arguments that are right, and fit->sums. */
gconv_status gconv_fit_add_pair(gconv_fit *fit, gconv_threads *threads, const gconv_compared *before,
                                const gconv_compared *after, double held);

/* ---- solve.c ---- */

/* Solves the normal equations of these sums for `taps`, which has room for fit->rows * fit->columns of moments->rows x
 * moments->columns, and *bias (0 without `has_bias`). condition may be NULL. GCONV_UNSUPPORTED: they are singular. */
gconv_status gconv_fit_equations(const gconv_moments *moments, bool has_bias, double ridge, double *taps, double *bias,
                                 double *condition);

/* How well these taps explain the samples of the sums. */
gconv_fit_quality gconv_fit_judge(const gconv_moments *moments, const double *taps, double bias);

/* ---- patch.c ---- */

/* The windows of a patch whose first tap lies `down` and `across` from that of an anchor at rows / 2, columns / 2; height is
 * below 1 if there are none. */
gconv_windows gconv_fit_patch_windows(const gconv_fit_patch *patch, int32_t rows, int32_t columns, int32_t down,
                                      int32_t across);

/* What taps and patches tell besides: correlation, nonlinear, shift, rim. result->taps and ->fitted are known. */
gconv_status gconv_fit_look(const gconv_fit *fit, gconv_threads *threads, gconv_fit_result *result);

#endif

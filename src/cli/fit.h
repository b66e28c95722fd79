/* SPDX-License-Identifier: MIT */
/* gconv fit: cmd_fit.c fits the filter, and fit_report.c prints the results. */
#pragma once

#include "cli/command.h"
#include "cli/pairs.h"
#include "gconv_learn.h"

typedef struct gconv_fit_settings {
  gconv_common common;
  gconv_texts targets;       /* -t: the images that the filter should make of the inputs */
  gconv_fit fit;             /* options set only its size, bias and ridge */
  gconv_given_border border; /* the values outside the image */
  double holdout;            /* the share of pairs, or of rows, that is held out; 0: none */
} gconv_fit_settings;

typedef struct gconv_fitting {
  const gconv_fit_settings *settings;
  gconv_device *device;
  gconv_inputs sides[2];        /* the inputs, and the targets */
  gconv_matched *matched;       /* owned: pairs, and files without a partner */
  size_t count;                 /* the number of `matched` */
  size_t pairs, alone;          /* the number of pairs, and of files without a partner */
  const gconv_input *alone_one; /* a file without a partner; NULL if there is none */
  bool by_rows;                 /* true: rows of each pair are held out; false: whole pairs */
  size_t held;                  /* the number of whole pairs held out */
  gconv_fit fit;
  gconv_fit_result result;
  FILE *out; /* where the report goes: standard output, unless the filter goes there */
} gconv_fitting;

/* Prints the results of the fit, as text or JSON. Returns false if memory is short. */
bool gconv_fit_report(const gconv_fitting *f);

/* SPDX-License-Identifier: MIT */
/* gconv fit: cmd_fit.c does it, fit_report.c reports. */
#pragma once

#include "cli/command.h"
#include "cli/pairs.h"
#include "gconv_learn.h"

typedef struct gconv_fit_settings {
  gconv_common common;
  gconv_texts targets;       /* the images after */
  gconv_fit fit;             /* its size, bias, ridge */
  gconv_given_border border; /* outside the image */
  double holdout;            /* the share that is held out; 0: none */
} gconv_fit_settings;

typedef struct gconv_fitting {
  const gconv_fit_settings *settings;
  gconv_device *device;
  gconv_inputs sides[2];  /* before, after */
  gconv_matched *matched; /* owned: pairs, and files without a partner */
  size_t count;
  size_t pairs, alone;          /* the number of pairs; of files without a partner */
  const gconv_input *alone_one; /* one of these files */
  bool by_rows;                 /* rows of each pair are held out; false: whole pairs are */
  size_t held;                  /* the number of whole pairs held out */
  gconv_fit fit;
  gconv_fit_result result;
  FILE *out; /* where the report goes: standard output, unless the filter goes there */
} gconv_fitting;

/* Prints the results of the fit, as text or JSON. Returns false without memory. */
bool gconv_fit_report(const gconv_fitting *f);

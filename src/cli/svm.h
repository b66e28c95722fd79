/* SPDX-License-Identifier: MIT */
/* What the files of gconv svm share. */
#pragma once

#include "cli/learn.h"
#include "gconv_classify.h"

#include <jansson.h>
#include <stdio.h>

typedef struct gconv_svm_settings {
  gconv_common common;
  gconv_cases cases;
  gconv_svm_options options; /* what options set */
  int folds;                 /* folds of cross-validation; 0: none */
  int shrinking;             /* 0: not given, 1: yes, 2: no */
  int scaling;               /* 0: not given, else gconv_svm_scaling + 1 */
  bool grid;
  gconv_powers grid_cost, grid_gamma;
} gconv_svm_settings;

typedef struct gconv_svm_run {
  gconv_svm_settings *settings; /* once words are checked, cases.data names the data */
  bool regression;
  gconv_svm_options options;
  gconv_class_weight *weights; /* owned, with the names */
  gconv_dataset *data;
  gconv_device *device;
  char why[120];       /* why this device, if there was a choice; else "" */
  bool fell_back;      /* the CPU trained, though `device` is a GPU */
  FILE *out;           /* for reports */
  double begin, shown; /* when the current work began, and the line of progress was last shown, in milliseconds */
} gconv_svm_run;

/* Scores of cross-validation: rows of gammas, columns of C. */
typedef struct gconv_svm_grid {
  gconv_powers costs, gammas;
  size_t rows, columns, best;
  double *scores; /* owned: accuracy in %, or MSE */
} gconv_svm_grid;

/* Whether a kernel has a gamma, which --grid then searches. */
static inline bool gconv_svm_has_gamma(gconv_svm_kernel kernel) {
  return kernel != GCONV_SVM_LINEAR && kernel != GCONV_SVM_PRECOMPUTED;
}

/* ---- svm_run.c ---- */

/* Notes whether the GPU trained. If the device is a GPU, and `on_gpu` is false, it had too little memory. */
void gconv_svm_note_device(gconv_svm_run *run, bool on_gpu);
/* Returns where machines were trained: "cpu" also if the GPU had too little memory. */
const char *gconv_svm_device_name(const gconv_svm_run *run);

/* Returns the grid that the options ask for, without scores. */
gconv_svm_grid gconv_svm_grid_of(const gconv_svm_run *run);
/* Returns the number of folds of the cross-validations of --grid. */
size_t gconv_svm_grid_folds(const gconv_svm_run *run);

/* Lets training show a line of progress on a terminal. */
void gconv_svm_begin_progress(gconv_svm_run *run, gconv_svm_options *options);

/* Returns exponent number `index` of some powers. */
double gconv_svm_exponent(const gconv_powers *powers, size_t index);

/* ---- svm_device.c ---- */

/* Numbers by which the time of a computation is estimated. */
typedef struct gconv_svm_effort {
  double values;   /* number of values of the kernel */
  double columns;  /* number of columns of a row */
  double machines; /* number of machines that can be trained at the same time; 0: predictions */
} gconv_svm_effort;

/* Finds the device for this work: `device`; if that is NULL or "auto", a GPU if there is one and it is faster, else the CPU.
 * If there was a choice, returns true with the reason in `why`; else `why` is "". */
bool gconv_svm_choose(const char *device, const gconv_svm_effort *effort, int threads, const char **name, char *why,
                      size_t size);
/* Opens the device that trains. */
gconv_status gconv_svm_open_device(gconv_svm_run *run);

/* ---- svm_plot.c, svm_grid.c ---- */

/* Writes a picture of the grid, as SVG. */
gconv_status gconv_svm_write_plot(const gconv_svm_run *run, const gconv_svm_grid *grid, const char *path);

/* Cross-validates over C and gamma, prints a table, or puts it into *json, and sets the best in run->options. */
gconv_status gconv_svm_search(gconv_svm_run *run, json_t *json);

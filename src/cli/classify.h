/* SPDX-License-Identifier: MIT */
/* What the files of gconv classify share. */
#pragma once

#include "base/file.h"
#include "cli/evaluation.h"
#include "cli/learn.h"

#include <stdio.h>

/* ---- classify.c ---- */

/* A network or support vector machine that is applied to cases, and its results. */
typedef struct gconv_classifying {
  const gconv_common *common;
  const gconv_cases *cases;
  bool evaluate;
  const char *path, *input;   /* the paths of the model and of the data */
  const char *const *classes; /* the classes of the model */
  size_t class_count;         /* 0: the model yields numbers */
  const char *certainty;      /* what the number is that a model yields with a class, such as "probability"; NULL: none */
  gconv_device *device;
  gconv_chosen_device chosen;
  gconv_sink *sink; /* NULL: predictions are not written */
  bool terminal;    /* predictions go to a terminal */
  bool begun;       /* the first line of predictions is written */
  const char *unit; /* what a case is called: "case", "image", "sample" */
  size_t hop;       /* for windows: samples from one to the next; else 0 */
  gconv_confusion confusion;
  gconv_mistakes mistakes;
  /* If outputs are numbers: how many were compared with targets; the sum of squared errors; the first target; the sum of the
   * targets' differences from the first, and the sum of the squares of these differences. */
  size_t numbers;
  double squares, first, sum, spread;
} gconv_classifying;

/* The shape of cases that a model takes; 0: any height, any width. */
typedef struct gconv_taken_cases {
  const char *taker; /* "network", "model" */
  int32_t channels, height, width;
} gconv_taken_cases;

/* Refuses outputs that cannot be made. Gives up rights to other files. */
gconv_status gconv_classify_check_outputs(const gconv_classifying *c);
/* Opens c->sink, unless predictions are written nowhere. */
gconv_status gconv_classify_open_output(gconv_classifying *c);

/* Opens a table, or a signal, for a model that takes such cases. `options` say what the model knows of the data. Without
 * --evaluate, a column of labels after the inputs of a table is passed over. */
gconv_status gconv_classify_open_data(const gconv_classifying *c, gconv_dataset_options options,
                                      const gconv_taken_cases *taken, gconv_dataset **data);

/* Takes a prediction: writes it with its name as CSV, if there is an output, and counts it for --evaluate and --report. */
gconv_status gconv_classify_take(gconv_classifying *c, const char *name, const gconv_prediction *prediction);
/* Takes all cases of a data set, by a network or, if that is NULL, a support vector machine. */
gconv_status gconv_classify_data(gconv_classifying *c, const gconv_network *network, const gconv_svm *svm,
                                 const gconv_dataset *data);

/* Ends the work. If `status` is GCONV_OK, completes the predictions, writes the report, and prints what --evaluate found;
 * else prints the error. Frees all but the settings. `pictures`: names of mistakes are images. Returns the exit status. */
int gconv_classify_end(gconv_classifying *c, gconv_status status, bool pictures);

/* Prints the JSON of what --evaluate found to `out`. */
void gconv_classify_print_json(FILE *out, const gconv_confusion *found, const gconv_chosen_device *device);

/* ---- classify_network.c, classify_svm.c: each returns the exit status ---- */

int gconv_classify_network(gconv_classifying *c);
int gconv_classify_svm(gconv_classifying *c);

/* SPDX-License-Identifier: MIT */
/* What the files of gconv classify share. */
#ifndef GCONV_CLI_CLASSIFY_H
#define GCONV_CLI_CLASSIFY_H

#include "cli/evaluation.h"
#include "cli/job_settings.h"
#include "cli/learn.h"

#include <stdio.h>

typedef struct gconv_classify_settings {
  gconv_job_settings job; /* of maps; of signals, its windows and raw samples */
  gconv_cases cases;
  bool evaluate;
} gconv_classify_settings;

/* Applies a support vector machine to a table; returns what the program ends with (classify_svm.c). */
int gconv_classify_svm(const gconv_classify_settings *settings, const char *model, const char *input);

/* An option that was given, and is for results that are maps of classes; NULL: none. */
const char *gconv_classify_map_option(const gconv_classify_settings *settings);

/* Prints what --evaluate found: the share that is right and the table of confusion, or JSON. */
void gconv_classify_print(const gconv_classify_settings *settings, const gconv_confusion *found,
                          const gconv_chosen_device *device);
/* The JSON of it, which is printed to `out`. */
void gconv_classify_print_json(FILE *out, const gconv_confusion *found, const gconv_chosen_device *device);
/* The same of outputs that are no classes: the number of targets, and sums of squared errors, targets and squared targets.
 */
void gconv_classify_print_errors(FILE *out, size_t numbers, double squares, double sum, double spread);

#endif

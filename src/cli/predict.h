/* SPDX-License-Identifier: MIT */
/* What a network or a support vector machine makes of cases. */
#pragma once

#include "gconv_classify.h"
#include "gconv_jobs.h"
#include "gconv_learn.h"

/* A network on a device, for cases of one shape. Zero-initialise before first use. */
typedef struct gconv_predictor {
  gconv_operation *operation;
  gconv_plan *plan;
  gconv_image in, out;                /* planar, f32: as many frames as cases are computed at a time */
  size_t input_floats, output_floats; /* of a case */
} gconv_predictor;

/* Network and device must outlive the predictor. */
gconv_status gconv_predictor_open(const gconv_network *network, gconv_device *device, int32_t channels, int32_t height,
                                  int32_t width, gconv_predictor *predictor);

/* The outputs of count x input_floats inputs, count x output_floats. */
gconv_status gconv_predictor_run(gconv_predictor *predictor, const float *inputs, size_t count, float *outputs);

void gconv_predictor_free(gconv_predictor *predictor);

enum { GCONV_CONFUSION_CLASSES = 4096 }; /* whose table takes 128 MB */

/* Which classes were taken for which. */
typedef struct gconv_confusion {
  const char *const *names; /* of the classes */
  size_t classes, cases, right;
  gconv_texts others; /* owned: classes that the model does not know, whose numbers go on behind those of the others ... */
  size_t unknown;     /* ... and their cases, which count as wrong, and are in no row of the table */
  size_t *left_out;   /* owned: numbers of the rows, from 1 on, that are no cases */
  size_t left_out_count;
  uint64_t *counts; /* owned: [true class * classes + predicted class]; NULL of more classes than GCONV_CONFUSION_CLASSES */
} gconv_confusion;

/* How well a class was found: its cases, those that were taken for it, and those of both. IoU and F1 are not numbers where
 * there is neither. */
typedef struct gconv_class_score {
  double wanted, got, both, iou, f1;
} gconv_class_score;
gconv_class_score gconv_confusion_score(const gconv_confusion *confusion, size_t class);

/* The name of a class, which may be one of the others. */
const char *gconv_confusion_name(const gconv_confusion *confusion, size_t class);
/* *class = the number of the other class of this name, `length` bytes. */
gconv_status gconv_confusion_find_other(gconv_confusion *confusion, const char *name, size_t length, size_t *class);
/* Says in a line how many cases are of other classes, if any are. */
void gconv_confusion_tell_others(const gconv_confusion *confusion, const char *input, const char *unit);

/* Counts a case. taken_for SIZE_MAX: for no class, which is wrong, and in no row of the table. */
void gconv_confusion_add(gconv_confusion *confusion, size_t class, size_t taken_for);
/* Of `classes` classes, whose names outlive it. */
gconv_status gconv_confusion_begin(const char *const *names, size_t classes, gconv_confusion *confusion);
/* Of the classes of a data set, with the others that it found. */
gconv_status gconv_confusion_begin_data(const gconv_dataset_info *info, gconv_confusion *confusion);

/* A case: the number of its row, from 0 on, its class (SIZE_MAX: it has none) or its targets (NULL: none), and what the
 * model makes of it. */
typedef struct gconv_prediction {
  size_t number, class;
  const float *targets;
  size_t taken_for;     /* a class, or SIZE_MAX: the model has none */
  double certainty;     /* of that: an output, or a probability; NAN: the model does not tell */
  const float *outputs; /* of a network */
  double value;         /* of a support vector machine without classes */
  size_t count;         /* of outputs; 1 of a value */
} gconv_prediction;

/* What a network yields for a case. */
void gconv_prediction_set(gconv_prediction *prediction, const float *outputs, size_t count);

/* Takes each case of a data set, by a network or, if that is NULL, a support vector machine. *confusion is filled where the
 * data have classes; each() may be NULL. */
typedef gconv_status gconv_predicted(void *user, const gconv_prediction *prediction);
gconv_status gconv_predict_all(const gconv_network *network, const gconv_svm *svm, gconv_device *device,
                               const gconv_dataset *data, gconv_confusion *confusion, gconv_predicted *each, void *user);
void gconv_confusion_free(gconv_confusion *confusion);

/* SPDX-License-Identifier: MIT */
/* Predictions of cases by a network or a support vector machine. */
#pragma once

#include "gconv_classify.h"
#include "gconv_jobs.h"
#include "gconv_learn.h"

/* A network on a device, for cases of one shape. Zero-initialise before first use. */
typedef struct gconv_predictor {
  gconv_operation *operation;
  gconv_plan *plan;
  gconv_image in, out;                /* planar, f32; a frame for each case that is computed at a time */
  size_t input_floats, output_floats; /* input floats and output floats of a case */
} gconv_predictor;

/* Network and device must outlive the predictor. */
gconv_status gconv_predictor_open(const gconv_network *network, gconv_device *device, int32_t channels, int32_t height,
                                  int32_t width, gconv_predictor *predictor);

/* Computes count x output_floats outputs from count x input_floats inputs. */
gconv_status gconv_predictor_run(gconv_predictor *predictor, const float *inputs, size_t count, float *outputs);

void gconv_predictor_free(gconv_predictor *predictor);

enum { GCONV_CONFUSION_CLASSES = 4096 }; /* the matrix of so many classes takes 128 MB */

/* A confusion matrix. */
typedef struct gconv_confusion {
  const char *const *names; /* names of the classes */
  size_t classes, cases, right;
  gconv_texts others; /* owned: classes that the model does not know; their numbers follow those of the known classes */
  size_t unknown;     /* the number of cases of these classes, which count as wrong, and are not in the matrix */
  size_t *left_out;   /* owned: numbers of the rows, from 1 on, that are no cases */
  size_t left_out_count;
  uint64_t *counts; /* owned: [true class * classes + predicted class]; NULL for more than GCONV_CONFUSION_CLASSES */
} gconv_confusion;

/* `wanted` cases are of a class, `got` cases are predicted as it, `both` are both. If there are none, IoU and F1 are NaN. */
typedef struct gconv_class_score {
  double wanted, got, both, iou, f1;
} gconv_class_score;
gconv_class_score gconv_confusion_score(const gconv_confusion *confusion, size_t class);

/* Returns the name of a class, which the model may know or not. */
const char *gconv_confusion_name(const gconv_confusion *confusion, size_t class);
/* Finds the number of the unknown class of this name of `length` bytes, or adds it. */
gconv_status gconv_confusion_find_other(gconv_confusion *confusion, const char *name, size_t length, size_t *class);
/* Prints how many cases are of unknown classes, if any are. */
void gconv_confusion_tell_others(const gconv_confusion *confusion, const char *input, const char *unit);

/* Counts a case. taken_for == SIZE_MAX means no class: the case is wrong, and not in the matrix. */
void gconv_confusion_add(gconv_confusion *confusion, size_t class, size_t taken_for);
/* Begins a confusion of `classes` classes, whose names must outlive it. */
gconv_status gconv_confusion_begin(const char *const *names, size_t classes, gconv_confusion *confusion);

/* A case: the number of its row, from 0 on, its class (SIZE_MAX: none) or its targets (NULL: none), and the prediction. */
typedef struct gconv_prediction {
  size_t number, class;
  const float *targets;
  size_t taken_for;     /* a class; SIZE_MAX: the model has no classes */
  double certainty;     /* certainty of this class: an output, or a probability; NAN: not known */
  const float *outputs; /* outputs of a network */
  double value;         /* value of a support vector machine without classes */
  size_t count;         /* the number of outputs; 1 for a value */
} gconv_prediction;

/* Sets the fields that follow from a network's outputs. */
void gconv_prediction_set(gconv_prediction *prediction, const float *outputs, size_t count);

/* Predicts each case of a data set, by a network or, if that is NULL, a support vector machine. Fills *confusion if the data
 * have classes; each() may be NULL. */
typedef gconv_status gconv_predicted(void *user, const gconv_prediction *prediction);
gconv_status gconv_predict_all(const gconv_network *network, const gconv_svm *svm, gconv_device *device,
                               const gconv_dataset *data, gconv_confusion *confusion, gconv_predicted *each, void *user);
void gconv_confusion_free(gconv_confusion *confusion);

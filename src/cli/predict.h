/* SPDX-License-Identifier: MIT */
/* What a network makes of cases. */
#ifndef GCONV_CLI_PREDICT_H
#define GCONV_CLI_PREDICT_H

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

/* Which classes were taken for which. */
typedef struct gconv_confusion {
  const char *const *names; /* of the classes */
  size_t classes, cases, right;
  uint64_t *counts; /* owned: [true class * classes + predicted class] */
} gconv_confusion;

/* Takes each case of a data set with classes. each() may be NULL: it is called with the number of each case, its class (of a
 * data set without classes: SIZE_MAX), and its outputs, of which `best` is the largest. */
typedef gconv_status gconv_predicted(void *user, size_t index, size_t class, const float *outputs, size_t best);
gconv_status gconv_predict_all(const gconv_network *network, gconv_device *device, const gconv_dataset *data,
                               gconv_confusion *confusion, gconv_predicted *each, void *user);
void gconv_confusion_free(gconv_confusion *confusion);

/* The first of the largest. */
size_t gconv_predict_best(const float *outputs, size_t count);

#endif

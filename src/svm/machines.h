/* SPDX-License-Identifier: MIT */
/* The machines of a model. */
#pragma once

#include "svm/svm.h"

typedef struct gconv_svm_training {
  const gconv_svm_settings *settings;
  const gconv_svm_cases *cases;
  gconv_svm_formula formula;
  const size_t *sorted; /* the numbers of the cases, sorted by class */
  size_t count;
  size_t class_count;
  const size_t *begins; /* where each class begins in `sorted`, and where the last one ends */
  const double *costs;  /* costs of the classes */
  gconv_svm_place place;
  bool on_gpu; /* a GPU trained the machines */
  gconv_svm_solution *solutions;
  size_t *firsts, *seconds; /* the classes of each pair */
  gconv_status *status;     /* of each pair, on the CPU */
  char (*errors)[256];      /* of each pair, on the CPU: the text of its error */
} gconv_svm_training;

/* Trains all machines on the device, or on the CPU if the device cannot. Sets the solutions; the caller frees their b. */
gconv_status gconv_svm_train_machines(gconv_svm_training *training, size_t machines, gconv_device *device);

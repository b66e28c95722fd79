/* SPDX-License-Identifier: MIT */
/* Types for the kernel functions of support vector machines, which all devices share. */
#pragma once

#include "base/both.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GCONV_SVM_BLOCK = 32 }; /* points of a block */

/* Takes the place of a step's curvature, K(x, x) + K(y, y) - 2 K(x, y), where that is not positive: as in LIBSVM. */
#define GCONV_SVM_LEAST_CURVATURE 1e-12

typedef enum gconv_svm_form {
  GCONV_SVM_FORM_DOT,
  GCONV_SVM_FORM_POWER,
  GCONV_SVM_FORM_EXP,
  GCONV_SVM_FORM_TANH,
  GCONV_SVM_FORM_GIVEN /* the numbers of a case are its kernel values with all cases */
} gconv_svm_form;

/* The kernel function: a function of the product x y or of |x - y|^2. */
typedef struct gconv_svm_formula {
  gconv_svm_form form;
  int32_t degree;
  double gamma, coef0;
  bool direct; /* |x - y|^2 is summed up from squared differences; computed from norms, it would lose digits */
} gconv_svm_formula;

/* A sparse row: the columns and values that are not 0. */
typedef struct gconv_svm_row {
  const uint32_t *columns; /* ascending */
  const float *values;
  size_t count;
  double norm; /* |x|^2 */
} gconv_svm_row;

/* Returns `count`, rounded up to whole blocks. */
GCONV_BOTH size_t gconv_svm_padded(size_t count) {
  return (count + GCONV_SVM_BLOCK - 1) / GCONV_SVM_BLOCK * GCONV_SVM_BLOCK;
}

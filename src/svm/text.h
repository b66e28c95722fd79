/* SPDX-License-Identifier: MIT */
/* What reads the text of models: text_read.c, as LIBSVM has it, and text_notes.c, what gconv writes behind that. */
#ifndef GCONV_SVM_TEXT_H
#define GCONV_SVM_TEXT_H

#include "data/lines.h"
#include "svm/svm.h"

/* A growing list. */
typedef struct gconv_svm_numbers {
  double *items; /* owned */
  size_t count;
} gconv_svm_numbers;

/* A text at work. */
typedef struct gconv_svm_reading {
  gconv_lines lines;
  gconv_svm *model;
  bool has_type, has_kernel, has_gamma, has_degree, has_coef0;
  uint64_t classes, vectors; /* as the header has them */
  bool has_classes, has_vectors;
  gconv_svm_numbers rho, labels, prob_a, prob_b, class_vectors, coefficients; /* coefficients: a row a vector */
  gconv_svm_numbers least, most, colours;                                     /* of columns; of classes, red, green, blue */
  bool has_scale, promises_notes;
  size_t most_columns, named, noted; /* columns; classes and columns of which something was read */
  char **names;                      /* owned: of classes, as the lines behind the vectors have them */
  int32_t features;                  /* of a channel of an image */
} gconv_svm_reading;

/* Behind SV, where notes and a line "# end" follow the vectors. */
#define GCONV_SVM_PROMISE "# notes follow"

/* Between words. */
#define GCONV_SVM_BLANKS " \t"

/* ---- text_words.c ---- */

/* Whether the next word is a number of float64, whole and finite; moves *at behind it. */
bool gconv_svm_text_number(char **at, double *number);
/* The same of whole numbers from 0 to `most`. */
bool gconv_svm_text_count(char **at, uint64_t most, uint64_t *count);
/* Whether only blanks are left. */
bool gconv_svm_text_is_end(const char *at);
gconv_status gconv_svm_text_add(gconv_svm_numbers *numbers, double number);
/* The next line that is not empty, without blanks behind; *found: there is one. */
gconv_status gconv_svm_text_line(gconv_svm_reading *r, bool *found);

/* ---- text_notes.c ---- */

/* Reads the lines behind the support vectors. */
gconv_status gconv_svm_text_notes(gconv_svm_reading *r);

#endif

/* SPDX-License-Identifier: MIT */
/* Reading the text of models: text_read.c reads LIBSVM's part, text_notes.c the notes of gconv after it. */
#pragma once

#include "data/lines.h"
#include "svm/svm.h"

/* A growing list. */
typedef struct gconv_svm_numbers {
  double *items; /* owned */
  size_t count;
} gconv_svm_numbers;

typedef struct gconv_svm_reading {
  gconv_lines lines;
  gconv_svm *model;
  bool has_type, has_kernel, has_gamma, has_degree, has_coef0;
  uint64_t classes, vectors; /* the numbers of the header: nr_class and total_sv */
  bool has_classes, has_vectors;
  gconv_svm_numbers rho, labels, prob_a, prob_b, class_vectors,
      coefficients;                       /* coefficients: vectors x rows of coefficients */
  gconv_svm_numbers least, most, colours; /* least, most: of columns; colours: red, green and blue of classes */
  bool has_scale, promises_notes;
  size_t most_columns, named; /* most_columns: the largest number of columns so far; named: how many classes have a name */
  char **names;               /* owned: the names of classes, from the notes */
  int32_t features;           /* features of a channel */
} gconv_svm_reading;

/* Stands after "SV" on its line if notes and a line "# end" follow the vectors. */
#define GCONV_SVM_PROMISE "# notes follow"

/* The characters between words. */
#define GCONV_SVM_BLANKS " \t"

/* ---- text_words.c ---- */

/* Reads the next word as a finite float64 number, and moves *at after it. False if it is not such a number. */
bool gconv_svm_text_number(char **at, double *number);
/* Reads the next word as a whole number from 0 to `most`, and moves *at after it. False if it is not such a number. */
bool gconv_svm_text_count(char **at, uint64_t most, uint64_t *count);
/* True if only blanks are left. */
bool gconv_svm_text_is_end(const char *at);
gconv_status gconv_svm_text_add(gconv_svm_numbers *numbers, double number);
/* Reads the next line that is not empty, without trailing blanks. *found: false at the end of the file. */
gconv_status gconv_svm_text_line(gconv_svm_reading *r, bool *found);

/* ---- text_notes.c ---- */

/* Reads the lines after the support vectors. */
gconv_status gconv_svm_text_notes(gconv_svm_reading *r);

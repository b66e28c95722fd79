/* SPDX-License-Identifier: MIT */
/* Labels: the names of classes, and their numbers. */
#pragma once

#include "gconv_learn.h"

enum { GCONV_MOST_CLASSES = 1 << 16 };

/* Zero-initialise before first use. */
typedef struct gconv_labels {
  char **names; /* owned */
  size_t count;
  bool known; /* the classes are those of a model: other names are errors or, with takes_others, get the next numbers */
  bool takes_others;
  char **others; /* owned */
  size_t other_count;
  bool all_numbers, fractions; /* all_numbers: all names are numbers; fractions: a name is a fraction */
  char *fraction;              /* owned: the first name that is a fraction */
  void *tree;                  /* of tsearch(), to find names */
} gconv_labels;

/* Sets the names of all classes, if they are known before labels are read. */
gconv_status gconv_labels_begin(gconv_labels *labels, const char *const *names, size_t count);

/* Finds the number of the class begin .. end, or adds a class. Equal numbers are one class: 1, +1 and 1.0. *wrong is NULL,
 * or what is wrong, as the end of a sentence. */
gconv_status gconv_labels_find(gconv_labels *labels, const char *begin, const char *end, size_t *number, const char **wrong);

/* Sorts the names if all are numbers. (*order)[i]: the new number of class i; the caller calls free(). NULL: names stay as
 * they are. */
gconv_status gconv_labels_sort(gconv_labels *labels, size_t **order);

/* If all names but one are numbers, and that one is a gap or infinity, returns it: programs write such names for unknown
 * labels. Otherwise returns NULL. */
const char *gconv_labels_not_finite(const gconv_labels *labels);

/* Removes the first name; the others move up. gconv_labels_find() cannot be called afterwards. */
void gconv_labels_forget_first(gconv_labels *labels);

/* Continues a hash (base/checksum.h) with the names. */
uint64_t gconv_labels_digest(const gconv_labels *labels, uint64_t hash);

void gconv_labels_free(gconv_labels *labels);

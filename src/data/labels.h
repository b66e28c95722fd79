/* SPDX-License-Identifier: MIT */
/* Labels: the names of classes, and the number of each. */
#ifndef GCONV_DATA_LABELS_H
#define GCONV_DATA_LABELS_H

#include "gconv_learn.h"

enum { GCONV_MOST_CLASSES = 1 << 16 };

/* Zero-initialise before first use. */
typedef struct gconv_labels {
  char **names; /* owned */
  size_t count;
  bool known; /* no other may come, or, if takes_others, they get numbers behind these */
  bool takes_others;
  char **others; /* owned */
  size_t other_count;
  bool all_numbers, fractions; /* of all names; of any */
  char *fraction;              /* owned: one of them */
  void *tree;
} gconv_labels;

/* Takes the classes that are known already, which are all then. */
gconv_status gconv_labels_begin(gconv_labels *labels, const char *const *names, size_t count);

/* The number of the class that the text begin .. end names; a new one if there is none. Numbers are one class whatever way
 * they are written: 1, +1 and 1.0. *wrong is NULL, or what is wrong, as the end of a sentence. */
gconv_status gconv_labels_find(gconv_labels *labels, const char *begin, const char *end, size_t *number, const char **wrong);

/* Where all names are numbers that came unsorted: returns the new number of each old one, for free(), and sorts the names.
 * NULL in *order: they stay as they are. */
gconv_status gconv_labels_sort(gconv_labels *labels, size_t **order);

/* The name that is a gap, or reads as infinity, where all other names are numbers: other programs write it for labels that
 * are not known. NULL: there is none, or there are words beside it. */
const char *gconv_labels_not_finite(const gconv_labels *labels);

/* Forgets the first name: the others move up. No label can be found any more. */
void gconv_labels_forget_first(gconv_labels *labels);

/* Continues a hash (base/checksum.h) with the names. */
uint64_t gconv_labels_digest(const gconv_labels *labels, uint64_t hash);

void gconv_labels_free(gconv_labels *labels);

#endif

/* SPDX-License-Identifier: MIT */
/* What is behind a gconv_dataset: each kind of data set is a table of functions, as formats and syntaxes are. A kind begins
 * its own struct with a gconv_dataset; dataset.c does what all kinds have in common. */
#ifndef GCONV_LEARN_DATASET_H
#define GCONV_LEARN_DATASET_H

#include "gconv_learn.h"

typedef struct gconv_dataset_type {
  /* As gconv_dataset_read(), whose arguments are checked: there is at least one case, and all are below info.cases. Several
   * threads may call it. */
  gconv_status (*read)(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count, float *inputs,
                       float *targets);
  /* Frees the data set with all that it owns. */
  void (*free)(gconv_dataset *dataset);
} gconv_dataset_type;

struct gconv_dataset {
  const gconv_dataset_type *type;
  gconv_dataset_info info; /* complete once the data set is open; what its pointers point to is freed by type->free() */
};

/* Floats of the input of a case, and of its target: the number of its class, or info.outputs targets; 0 where it has
 * neither. */
size_t gconv_dataset_input_floats(const gconv_dataset_info *info);
size_t gconv_dataset_target_floats(const gconv_dataset_info *info);

#endif

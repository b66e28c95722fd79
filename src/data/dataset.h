/* SPDX-License-Identifier: MIT */
/* What is behind a gconv_dataset: each kind of data set is a table of functions, as formats and syntaxes are. A kind begins
 * its own struct with a gconv_dataset; dataset.c does what all kinds have in common. */
#ifndef GCONV_DATA_DATASET_H
#define GCONV_DATA_DATASET_H

#include "gconv_learn.h"

/* An entry of a sparse row: all others are 0. */
typedef struct gconv_entry {
  uint32_t column; /* from 0 on */
  float value;
} gconv_entry;

typedef struct gconv_dataset_type {
  /* As gconv_dataset_read(), whose arguments are checked: there is at least one case, and all are below info.cases. Gaps
   * stay NaN. Several threads may call it. */
  gconv_status (*read)(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count, float *inputs,
                       float *targets);
  /* The entries of the input of a case, columns ascending, which the data set owns; and its target, unless that is NULL.
   * False: they are not kept so. NULL: of no case. */
  bool (*entries)(const gconv_dataset *dataset, size_t index, const gconv_entry **entries, size_t *count, float *target);
  /* Frees the data set with all that it owns. */
  void (*free)(gconv_dataset *dataset);
  /* The class of a case; NULL where there are no classes. */
  size_t (*class_of)(const gconv_dataset *dataset, size_t index);
  /* The number of the picture that a case is from: its cases stay together when the data set is parted. NULL: each case is
   * by itself. Numbers ascend with cases. */
  size_t (*group_of)(const gconv_dataset *dataset, size_t index);
  /* Continues a hash (base/checksum.h) with what tells this data set from others: its numbers and classes; of images, whose
   * pixels would take too long, the names, shapes and bytes of their files. NULL: nothing does. */
  uint64_t (*digest)(const gconv_dataset *dataset, uint64_t hash);
} gconv_dataset_type;

struct gconv_dataset {
  const gconv_dataset_type *type;
  gconv_dataset_info info; /* complete once the data set is open; what its pointers point to is freed by type->free(), but
                              notes by gconv_dataset_free() */
  bool varies;             /* what is read of a case depends on the epoch */
  bool gaps;               /* type->read() yields NaN for numbers that are missing */
  bool noted;              /* info.notes are those of a model */
  float *fills;            /* owned: what gaps become, a number a column; NULL: there are none */
};

/* Of data sets with columns (columns.c): the notes of `like` become those of the data set, or, if it is NULL, they are found
 * in its cases; and what gaps become. */
gconv_status gconv_dataset_note(gconv_dataset *data, const gconv_column_notes *like);
/* Sets means and deviations over its cases; and what gaps become. */
gconv_status gconv_dataset_measure(gconv_dataset *data);
gconv_status gconv_dataset_fill(gconv_dataset *data);

/* Floats of the input of a case, and of its target: the number of its class, or info.outputs targets; 0 where it has
 * neither. */
static inline size_t gconv_dataset_input_floats(const gconv_dataset_info *info) {
  return (size_t)info->channels * (size_t)info->height * (size_t)info->width;
}
static inline size_t gconv_dataset_target_floats(const gconv_dataset_info *info) {
  return info->class_count > 0 ? 1 : info->outputs;
}

/* Whether its cases are kept as entries. */
bool gconv_dataset_is_sparse(const gconv_dataset *dataset);

/* Bytes that a data set may keep in memory of one table, signal or list of decoded images, at least 1. */
static inline uint64_t gconv_dataset_part(const gconv_dataset_options *options) {
  enum { PARTS = 4, DEFAULT_PART = 1 << 30 };
  uint64_t part = options->memory / PARTS;
  return options->memory == 0 ? DEFAULT_PART : part > 0 ? part : 1;
}

/* Opens a data set of each kind; options and their texts are the caller's, and are not needed afterwards. */
gconv_status gconv_dataset_open_table(const gconv_dataset_options *options, gconv_dataset **dataset);
gconv_status gconv_dataset_open_windows(const gconv_dataset_options *options, gconv_dataset **dataset);
gconv_status gconv_dataset_open_classes(const gconv_dataset_options *options, gconv_dataset **dataset);
gconv_status gconv_dataset_open_pixels(const gconv_dataset_options *options, gconv_dataset **dataset);
gconv_status gconv_dataset_open_pairs(const gconv_dataset_options *options, gconv_dataset **dataset);

#endif

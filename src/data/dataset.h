/* SPDX-License-Identifier: MIT */
/* The kinds of gconv_dataset. Each kind is a table of functions, as formats and syntaxes are. Its own struct begins with a
 * gconv_dataset. dataset.c has what all kinds share. */
#pragma once

#include "gconv_learn.h"

/* An entry of a sparse row; absent entries are 0. */
typedef struct gconv_entry {
  uint32_t column; /* from 0 on */
  float value;
} gconv_entry;

typedef struct gconv_dataset_type {
  /* Reads cases for gconv_dataset_read(): at least one, all below info.cases. Gaps stay NaN. Thread-safe. */
  gconv_status (*read)(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count, float *inputs,
                       float *targets);
  /* Gets the entries of a case's input, in ascending order of columns, and its target (unless `target` is NULL). The data
   * set owns the entries. Returns false if cases are not sparse. NULL in place of the function: cases are never sparse. */
  bool (*entries)(const gconv_dataset *dataset, size_t index, const gconv_entry **entries, size_t *count, float *target);
  /* Frees the data set with all that it owns. */
  void (*free)(gconv_dataset *dataset);
  /* Returns the class of a case. NULL: there are no classes. */
  size_t (*class_of)(const gconv_dataset *dataset, size_t index);
  /* Returns the number of the picture that a case is from, ascending with cases. A split keeps the cases of a picture
   * together. NULL: cases are independent. */
  size_t (*group_of)(const gconv_dataset *dataset, size_t index);
  /* Continues a hash (base/checksum.h) with what identifies this data set: its numbers and classes. For images, whose pixels
   * would take too long, the names, shapes and sizes of their files. NULL: there is no digest. */
  uint64_t (*digest)(const gconv_dataset *dataset, uint64_t hash);
} gconv_dataset_type;

struct gconv_dataset {
  const gconv_dataset_type *type;
  gconv_dataset_info
      info; /* complete once the data set is open. gconv_dataset_free() frees its notes, type->free() its other pointers */
  bool varies;  /* the numbers of a case depend on the epoch */
  bool gaps;    /* type->read() yields NaN for numbers that are missing */
  bool noted;   /* info.notes were copied from a model */
  float *fills; /* owned: the numbers that replace gaps, one for each column; NULL: no gaps */
};

/* Frees *dataset, for GCONV_ENDED_BY(). */
void gconv_dataset_free_at(gconv_dataset **dataset);

/* Receives `count` cases from case `first` on. `targets` is NULL if they were not asked for. */
typedef void gconv_dataset_take(void *context, size_t first, size_t count, const float *inputs, const float *targets);
/* Reads all cases of epoch 0 in their order, some at a time, and calls `take` with them. */
gconv_status gconv_dataset_each(const gconv_dataset *data, bool targets, gconv_dataset_take *take, void *context);

/* For data sets with columns (columns.c): sets the notes and fills, from `like` or, if it is NULL, from the cases. */
gconv_status gconv_dataset_note(gconv_dataset *data, const gconv_column_notes *like);
/* Computes means and deviations from the cases. */
gconv_status gconv_dataset_measure(gconv_dataset *data);
/* Sets the fills to the means; to NULL if there are no gaps. */
gconv_status gconv_dataset_fill(gconv_dataset *data);

/* Returns the floats of a case's input. */
static inline size_t gconv_dataset_input_floats(const gconv_dataset_info *info) {
  return (size_t)info->channels * (size_t)info->height * (size_t)info->width;
}
/* Returns the floats of a case's target: 1 for the number of a class, else info.outputs, which is 0 without targets. */
static inline size_t gconv_dataset_target_floats(const gconv_dataset_info *info) {
  return info->class_count > 0 ? 1 : info->outputs;
}

/* True if cases are sparse rows. */
bool gconv_dataset_is_sparse(const gconv_dataset *dataset);

/* Returns the bytes of memory for one table, signal or list of decoded images of a data set, at least 1. */
static inline uint64_t gconv_dataset_part(const gconv_dataset_options *options) {
  enum { PARTS = 4, DEFAULT_PART = 1 << 30 };
  uint64_t part = options->memory / PARTS;
  return options->memory == 0 ? (uint64_t)DEFAULT_PART : part > 0 ? part : 1;
}

/* Checks options->cases, and sets options->inputs and options->targets to their names in messages (memory.c). */
gconv_status gconv_dataset_take_cases(gconv_dataset_options *options);

/* Open a data set of each kind. Options and their texts are not needed afterwards. The caller frees *dataset, which is not
 * NULL from the first allocation on, even if opening fails then. */
gconv_status gconv_dataset_open_table(const gconv_dataset_options *options, gconv_dataset **dataset);
gconv_status gconv_dataset_open_windows(const gconv_dataset_options *options, gconv_dataset **dataset);
gconv_status gconv_dataset_open_classes(const gconv_dataset_options *options, gconv_dataset **dataset);
gconv_status gconv_dataset_open_pixels(const gconv_dataset_options *options, gconv_dataset **dataset);
gconv_status gconv_dataset_open_pairs(const gconv_dataset_options *options, gconv_dataset **dataset);

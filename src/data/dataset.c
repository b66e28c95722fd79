/* SPDX-License-Identifier: MIT */
#include "data/dataset.h"
#include "bank/column_notes.h"
#include "base/arguments.h"

#include <math.h>
#include <stdlib.h>

const gconv_dataset_info *gconv_dataset_get_info(const gconv_dataset *dataset) {
  return dataset ? &dataset->info : NULL;
}

gconv_status gconv_dataset_read(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                                float *inputs, float *targets) {
  GCONV_NEED(dataset);
  if (count == 0)
    return GCONV_OK;
  GCONV_NEED(cases, inputs);
  for (size_t i = 0; i < count; i++)
    if (cases[i] >= dataset->info.cases)
      return gconv_fail(GCONV_BAD_ARGUMENT, "case %zu of a data set of %zu: cases are counted from 0 on", cases[i],
                        dataset->info.cases);
  if (targets && gconv_dataset_target_floats(&dataset->info) == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "targets of a data set that has none");
  GCONV_TRY(dataset->type->read(dataset, epoch, cases, count, inputs, targets));
  const size_t columns = gconv_dataset_input_floats(&dataset->info);
  for (size_t i = 0; dataset->fills && i < count * columns; i++)
    inputs[i] = isnan(inputs[i]) ? dataset->fills[i % columns] : inputs[i];
  return GCONV_OK;
}

void gconv_dataset_free(gconv_dataset *dataset) {
  if (!dataset)
    return;
  gconv_column_notes_free(&dataset->info.notes);
  free(dataset->fills);
  dataset->type->free(dataset);
}

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

typedef gconv_status open_function(const gconv_dataset_options *options, gconv_dataset **dataset);

static open_function *const openers[] = {
    [GCONV_DATASET_TABLE] = gconv_dataset_open_table,     [GCONV_DATASET_WINDOWS] = gconv_dataset_open_windows,
    [GCONV_DATASET_CLASSES] = gconv_dataset_open_classes, [GCONV_DATASET_PAIRS] = gconv_dataset_open_pairs,
    [GCONV_DATASET_PIXELS] = gconv_dataset_open_pixels,
};

/* True if cases are dense rows of numbers. A sparse table may have millions of columns. */
static bool has_columns(const gconv_dataset *dataset, gconv_dataset_kind kind) {
  return (kind == GCONV_DATASET_TABLE || kind == GCONV_DATASET_PIXELS) && gconv_dataset_input_floats(&dataset->info) > 0 &&
         !gconv_dataset_is_sparse(dataset);
}

bool gconv_dataset_is_sparse(const gconv_dataset *dataset) {
  const gconv_entry *entries;
  size_t count;
  return dataset->type->entries && dataset->info.cases > 0 && dataset->type->entries(dataset, 0, &entries, &count, NULL);
}

gconv_status gconv_dataset_open(const gconv_dataset_options *options, gconv_dataset **dataset) {
  GCONV_NEED(options, dataset);
  GCONV_NEED_AS(options->inputs, "options->inputs");
  GCONV_TRY(gconv_check_value("options->kind", options->kind, GCONV_DATASET_TABLE, GCONV_DATASET_PIXELS));
  GCONV_TRY(gconv_check_value("options->window", options->window, options->kind == GCONV_DATASET_WINDOWS, 1 << 24));
  GCONV_TRY(gconv_check_value("options->hop", options->hop, 0, 1 << 24));
  GCONV_TRY(gconv_check_value("options->patch", options->patch, 0, 1 << 15));
  if (options->class_count > 0)
    GCONV_NEED_AS(options->classes, "options->classes");
  if (options->columns > INT32_MAX)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->columns is %zu: it must be 0 to %d", options->columns, INT32_MAX);
  gconv_dataset *opened = NULL;
  GCONV_TRY(openers[options->kind](options, &opened));
  gconv_status status = has_columns(opened, options->kind) ? gconv_dataset_note(opened, options->like) : GCONV_OK;
  if (status == GCONV_OK)
    *dataset = opened;
  else
    gconv_dataset_free(opened);
  return status;
}

/* SPDX-License-Identifier: MIT */
#include "data/dataset.h"
#include "bank/column_notes.h"
#include "base/arguments.h"
#include "base/memory.h"

const gconv_dataset_info *gconv_dataset_get_info(const gconv_dataset *dataset) {
  return dataset ? &dataset->info : NULL;
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

void gconv_dataset_free_at(gconv_dataset **dataset) {
  gconv_dataset_free(*dataset);
}

gconv_status gconv_dataset_open(const gconv_dataset_options *options, gconv_dataset **dataset) {
  GCONV_NEED(options, dataset);
  GCONV_NEED_KNOWN(options);
  GCONV_NEED_KNOWN(options->cases);
  gconv_dataset_options own = *options;
  GCONV_TRY(gconv_check_value("options->kind", options->kind, GCONV_DATASET_TABLE, GCONV_DATASET_PIXELS));
  GCONV_TRY(gconv_check_value("options->window", options->window, options->kind == GCONV_DATASET_WINDOWS, 1 << 24));
  GCONV_TRY(gconv_check_value("options->hop", options->hop, 0, 1 << 24));
  GCONV_TRY(gconv_check_value("options->patch", options->patch, 0, 1 << 15));
  if (options->class_count > 0)
    GCONV_NEED_AS(options->classes, "options->classes");
  if (options->columns > INT32_MAX)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->columns is %zu: it must be 0 to %d", options->columns, INT32_MAX);
  if (own.cases)
    GCONV_TRY(gconv_dataset_take_cases(&own));
  GCONV_NEED_AS(own.inputs, "options->inputs");
  GCONV_ENDED_BY(gconv_dataset_free_at) gconv_dataset *opened = NULL;
  GCONV_TRY(openers[options->kind](&own, &opened));
  if (has_columns(opened, options->kind))
    GCONV_TRY(gconv_dataset_note(opened, options->like));
  *dataset = gconv_taken(&opened);
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
#include "learn/dataset.h"
#include "base/arguments.h"

size_t gconv_dataset_input_floats(const gconv_dataset_info *info) {
  return (size_t)info->channels * (size_t)info->height * (size_t)info->width;
}

size_t gconv_dataset_target_floats(const gconv_dataset_info *info) {
  return info->class_count > 0 ? 1 : info->outputs;
}

const gconv_dataset_info *gconv_dataset_get_info(const gconv_dataset *dataset) {
  return dataset ? &dataset->info : NULL;
}

gconv_status gconv_dataset_read(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                                float *inputs, float *targets) {
  GCONV_NEED(dataset);
  if (count == 0)
    return GCONV_OK;
  GCONV_NEED(cases);
  GCONV_NEED(inputs);
  for (size_t i = 0; i < count; i++)
    if (cases[i] >= dataset->info.cases)
      return gconv_fail(GCONV_BAD_ARGUMENT, "case %zu of a data set of %zu: cases are counted from 0 on", cases[i],
                        dataset->info.cases);
  if (targets && gconv_dataset_target_floats(&dataset->info) == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "targets of a data set that has none");
  return dataset->type->read(dataset, epoch, cases, count, inputs, targets);
}

void gconv_dataset_free(gconv_dataset *dataset) {
  if (dataset)
    dataset->type->free(dataset);
}

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

typedef gconv_status open_function(const gconv_dataset_options *options, gconv_dataset **dataset);

static open_function *const openers[] = {
    [GCONV_DATASET_TABLE] = gconv_dataset_open_table,     [GCONV_DATASET_WINDOWS] = gconv_dataset_open_windows,
    [GCONV_DATASET_CLASSES] = gconv_dataset_open_classes, [GCONV_DATASET_PAIRS] = gconv_dataset_open_pairs,
    [GCONV_DATASET_PIXELS] = gconv_dataset_open_pixels,
};

gconv_status gconv_dataset_open(const gconv_dataset_options *options, gconv_dataset **dataset) {
  GCONV_NEED(options);
  GCONV_NEED(dataset);
  GCONV_NEED_AS(options->inputs, "options->inputs");
  GCONV_TRY(gconv_check_value("options->kind", options->kind, GCONV_DATASET_TABLE, GCONV_DATASET_PIXELS));
  GCONV_TRY(gconv_check_value("options->window", options->window, options->kind == GCONV_DATASET_WINDOWS, 1 << 24));
  GCONV_TRY(gconv_check_value("options->hop", options->hop, 0, 1 << 24));
  GCONV_TRY(gconv_check_value("options->patch", options->patch, 0, 1 << 15));
  if (options->class_count > 0)
    GCONV_NEED_AS(options->classes, "options->classes");
  if (options->columns > INT32_MAX)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->columns is %zu: it must be 0 to %d", options->columns, INT32_MAX);
  return openers[options->kind](options, dataset);
}

uint64_t gconv_dataset_part(const gconv_dataset_options *options) {
  enum { PARTS = 4, DEFAULT_PART = 1 << 30 };
  uint64_t part = options->memory / PARTS;
  return options->memory == 0 ? DEFAULT_PART : part > 0 ? part : 1;
}

/* SPDX-License-Identifier: MIT */
/* Reads the cases of a data set: some by their numbers, or all of them in their order. */
#include "base/arguments.h"
#include "base/control.h"
#include "base/memory.h"
#include "data/dataset.h"

#include <math.h>

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

gconv_status gconv_dataset_each(const gconv_dataset *data, bool targets, gconv_dataset_take *take, void *context) {
  enum { FLOATS = 1 << 18 };
  const gconv_dataset_info *info = &data->info;
  const size_t width = gconv_dataset_input_floats(info), outputs = targets ? gconv_dataset_target_floats(info) : 0;
  const size_t room = FLOATS / (width + outputs) + 1;
  GCONV_FREED size_t *cases = malloc(room * sizeof *cases);
  GCONV_FREED float *inputs = malloc(room * (width + outputs) * sizeof *inputs);
  GCONV_NEED_MEMORY(cases && inputs, "no memory for %zu cases", room);
  for (size_t first = 0; first < info->cases; first += room) {
    const size_t count = info->cases - first < room ? info->cases - first : room;
    for (size_t i = 0; i < count; i++)
      cases[i] = first + i;
    float *wanted = targets ? inputs + room * width : NULL;
    GCONV_TRY(gconv_control_check());
    GCONV_TRY(gconv_dataset_read(data, 0, cases, count, inputs, wanted));
    take(context, first, count, inputs, wanted);
  }
  return GCONV_OK;
}

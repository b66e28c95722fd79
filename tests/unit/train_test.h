/* SPDX-License-Identifier: MIT */
/* For tests of learning: data sets of arrays. */
#ifndef TRAIN_TEST_H
#define TRAIN_TEST_H

#include "data/dataset.h"

#include <stdlib.h>
#include <string.h>

typedef struct array_dataset {
  gconv_dataset base;
  const float *inputs, *targets; /* of the caller */
} array_dataset;

static inline gconv_status array_read(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                                      float *inputs, float *targets) {
  const array_dataset *set = (const array_dataset *)dataset;
  size_t in = gconv_dataset_input_floats(&dataset->info), out = gconv_dataset_target_floats(&dataset->info);
  (void)epoch;
  for (size_t i = 0; i < count; i++) {
    memcpy(inputs + i * in, set->inputs + cases[i] * in, in * sizeof *inputs);
    if (targets)
      memcpy(targets + i * out, set->targets + cases[i] * out, out * sizeof *targets);
  }
  return GCONV_OK;
}

static inline void array_free(gconv_dataset *dataset) {
  (void)dataset;
}

static const gconv_dataset_type array_type = {.read = array_read, .free = array_free};

/* Cases of channels x height x width; `classes`: 0, or how many there are, and targets are their numbers. */
static inline array_dataset make_dataset(size_t cases, int32_t channels, int32_t height, int32_t width, size_t classes,
                                         size_t outputs, const float *inputs, const float *targets) {
  gconv_dataset_info info = {.cases = cases,
                             .channels = channels,
                             .height = height,
                             .width = width,
                             .outputs = classes ? classes : outputs,
                             .class_count = classes};
  return (array_dataset){{.type = &array_type, .info = info}, inputs, targets};
}

/* A number in [-1, 1) that depends on *state alone. */
static inline double next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) * 0x1p-52 - 1;
}

#endif

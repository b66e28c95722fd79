/* SPDX-License-Identifier: MIT */
/* Which algorithm solves a layer, and for how many images at a time. */
#include "conv/pick.h"
#include "conv/tuning.h"
#include "layer/network.h"

#include <string.h>

/* What an algorithm makes of a layer: a problem of as many images as its workspace allows, its math the one that it is for.
 */
typedef struct layer_candidate {
  gconv_layer_problem problem;
  double estimate_ms;
} layer_candidate;

static size_t workspace_of(const gconv_device *device, const gconv_layer_algorithm *row,
                           const gconv_layer_problem *problem) {
  size_t threads = device->type == &gconv_device_type_cpu ? (size_t)gconv_threads_count(device->threads) : 1;
  size_t bytes = row->workspace_bytes ? row->workspace_bytes(problem) : 0;
  return bytes > SIZE_MAX / threads ? SIZE_MAX : bytes * threads;
}

/* Makes the problem one of the most images for which the workspace suffices, in equal parts of all. False if it does not
 * even for one. */
static bool fit_batch(const gconv_device *device, const gconv_layer_algorithm *row, gconv_layer_problem *problem) {
  const int32_t all = problem->images;
  int64_t fits = 0, fails = (int64_t)all + 1; /* the first question is that of all */
  for (; fails - fits > 1; problem->images = (int32_t)(fits + (fails - fits) / 2))
    if (workspace_of(device, row, problem) <= problem->workspace_limit)
      fits = problem->images;
    else
      fails = problem->images;
  if (fits == 0)
    return false;
  int32_t turns = (int32_t)((all - 1) / fits + 1);
  problem->images = (all - 1) / turns + 1;
  return true;
}

/* Leave to round products is leave not to: where an algorithm has no use for it, it works in true float32. */
static const char *find_obstacle(const gconv_device *device, const gconv_layer_algorithm *row, layer_candidate *how) {
  const char *obstacle = row->supports(&how->problem);
  if (obstacle && how->problem.math != GCONV_MATH_FP32) {
    how->problem.math = GCONV_MATH_FP32;
    obstacle = row->supports(&how->problem);
  }
  if (!obstacle && !fit_batch(device, row, &how->problem))
    obstacle = "its workspace for one image is above the limit";
  return obstacle;
}

static void set_price(const gconv_device *device, const gconv_network_options *options, const gconv_layer_algorithm *row,
                      const gconv_step *step, layer_candidate *how, gconv_candidate *candidate) {
  int32_t turns = (step->images - 1) / how->problem.images + 1;
  double start = row->started && !row->started() ? row->start_ms : 0;
  gconv_layer_problem whole = step->whole; /* so that the choice does not depend on how many rows are made at a time */
  whole.images = how->problem.images;
  whole.math = how->problem.math;
  how->estimate_ms = turns * row->cost(&whole, &device->machine);
  double outputs = (double)step->images * whole.filters * whole.out_height * whole.out_width;
  double ratio = device->tuned && whole.math == GCONV_MATH_FP32
                     ? gconv_tuning_layer_ratio(&device->tuning, row->info.name, whole.filters, outputs,
                                                (double)gconv_layer_taps(&whole))
                     : 1;
  gconv_candidate_price(candidate, how->estimate_ms, ratio, "gconv tune found", start, options->executions);
}

static void take(const gconv_layer_algorithm *row, const layer_candidate *how, gconv_step *step) {
  step->algorithm = row;
  step->problem = how->problem;
  step->workspace_bytes = row->workspace_bytes ? row->workspace_bytes(&step->problem) : 0;
  step->info.estimate_ms = how->estimate_ms;
}

gconv_status gconv_layer_choose(const gconv_device *device, const gconv_network_options *options, const char *wanted,
                                gconv_step *step, FILE *reasons) {
  gconv_candidate candidates[GCONV_MOST_CANDIDATES];
  layer_candidate how[GCONV_MOST_CANDIDATES];
  const gconv_layer_algorithm *row;
  size_t count = 0, picked;
  for (; (row = gconv_layer_algorithm_row(count)) && count < GCONV_MOST_CANDIDATES; count++) {
    candidates[count] = (gconv_candidate){.info = &row->info, .available = row->available};
    if (strcmp(row->info.device, device->type->name) != 0)
      continue;
    how[count].problem = step->problem;
    candidates[count].obstacle = find_obstacle(device, row, &how[count]);
    if (!candidates[count].obstacle)
      set_price(device, options, row, step, &how[count], &candidates[count]);
  }
  GCONV_TRY(gconv_pick(candidates, count, device->type->name, wanted, options->without, reasons, &picked));
  take(gconv_layer_algorithm_row(picked), &how[picked], step);
  return GCONV_OK;
}

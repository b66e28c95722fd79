/* SPDX-License-Identifier: MIT */
/* Chooses the algorithm that solves a problem. */
#include "conv/plan.h"
#include "operation/pick.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Returns how many taps of a filter the algorithm multiplies. Filters without zeros were measured; sparse skips zeros. */
static double working_taps(const gconv_problem *problem, const gconv_algorithm *row) {
  double taps = (double)problem->rows * problem->columns, nonzero = (double)problem->structure.nonzero_taps;
  return strcmp(row->info.name, "sparse") == 0 ? fmax(nonzero / problem->filters, 1) : taps;
}

double gconv_problem_ratio(const gconv_problem *problem, const gconv_tuning *tuning, const gconv_algorithm *row) {
  const gconv_algorithm *other = row->leaves_to ? row->leaves_to(problem) : NULL;
  row = other ? other : row;
  double filters = gconv_is_combined(problem) ? 1 : problem->filters;
  double outputs = (double)problem->images * problem->planes * problem->channels * filters;
  gconv_tuning_row like = {.type = problem->in_type,
                           .channels = problem->channels,
                           .samples = outputs * problem->out_height * problem->out_width,
                           .taps = working_taps(problem, row)};
  snprintf(like.algorithm, sizeof like.algorithm, "%s", row->info.name);
  return gconv_tuning_ratio(tuning, &like);
}

static const char *find_obstacle(const gconv_problem *problem, const gconv_options *options, const gconv_algorithm *row) {
  if (row->spreads && options->alpha == GCONV_ALPHA_PREMULTIPLY)
    return "premultiplied colours, which are divided by alpha: it does not keep zeros of alpha";
  if (problem->epilogue.wrap && strcmp(row->info.device, "cpu") != 0)
    return "the range wrap, which only the CPU computes";
  if (problem->out_type == GCONV_I16 && strcmp(row->info.device, "cpu") != 0)
    return "results of i16, which only the CPU computes: take f32";
  bool is_auto = strcmp(options->algorithm, "auto") == 0;
  if (is_auto && !gconv_leaves_out_marks(row, problem))
    return "filters with places that are no taps, on floats: it would multiply NaN by 0 there";
  return row->supports(problem);
}

/* Returns the bound up to which errors do not matter. The range wrap cuts a sum of integers that is rounded down to the
 * level below, however small the error: there, only exact algorithms are accurate. */
static double accuracy_of(const gconv_problem *problem) {
  return problem->epilogue.wrap && problem->structure.integers.unit > 0 ? DBL_MIN : problem->accuracy;
}

gconv_status gconv_choose(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                          FILE *reasons, const gconv_algorithm **chosen) {
  const gconv_prices prices = gconv_device_prices(device);
  gconv_candidate candidates[GCONV_MOST_CANDIDATES];
  const gconv_algorithm *row;
  size_t count = 0, picked;
  for (; (row = gconv_algorithm_row(count)) && count < GCONV_MOST_CANDIDATES; count++) {
    gconv_candidate *candidate = &candidates[count];
    *candidate = (gconv_candidate){.info = &row->info, .available = row->available, .classic = row->classic};
    if (strcmp(row->info.device, device->type->name) != 0)
      continue;
    candidate->obstacle = find_obstacle(problem, options, row);
    if (candidate->obstacle)
      continue;
    candidate->bound = row->error_bound(problem);
    candidate->accuracy = accuracy_of(problem);
    gconv_candidate_price(candidate, row->cost(problem, &prices.machine), gconv_problem_ratio(problem, prices.ratios, row),
                          prices.source);
  }
  GCONV_TRY(gconv_pick(candidates, count, device->type->name, options->algorithm, options->without, reasons, &picked));
  *chosen = gconv_algorithm_row(picked);
  return GCONV_OK;
}

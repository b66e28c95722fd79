/* SPDX-License-Identifier: MIT */
#include "conv/choose.h"
#include "conv/pick.h"
#include "conv/tuning.h"

#include <string.h>

static double ratio_of(const gconv_problem *problem, const gconv_device *device, const gconv_algorithm *row) {
  return gconv_tuning_ratio(device->tuned ? &device->tuning : &device->calibration, row->info.name, problem);
}

double gconv_expected_ms(const gconv_problem *problem, const gconv_device *device, const gconv_algorithm *row) {
  return row->cost(problem, &device->machine) * ratio_of(problem, device, row);
}

static void set_price(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                      const gconv_algorithm *row, gconv_candidate *candidate) {
  double start = row->started && !row->started() ? row->start_ms : 0;
  gconv_candidate_price(candidate, row->cost(problem, &device->machine), ratio_of(problem, device, row),
                        device->tuned ? "gconv tune found" : "measured on an H200", start, options->executions);
}

static const char *find_obstacle(const gconv_problem *problem, const gconv_options *options, const gconv_algorithm *row) {
  if (row->spreads && options->alpha == GCONV_ALPHA_PREMULTIPLY)
    return "premultiplied colours, which are divided by alpha: it does not keep zeros";
  return row->supports(problem);
}

double gconv_price(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                   const gconv_algorithm *row, FILE *reasons) {
  gconv_candidate candidate = {.info = &row->info};
  set_price(problem, device, options, row, &candidate);
  fprintf(reasons, "  %-13s %s\n", row->info.name, candidate.told);
  return candidate.price;
}

gconv_status gconv_choose(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                          FILE *reasons, const gconv_algorithm **chosen) {
  gconv_candidate candidates[GCONV_MOST_CANDIDATES];
  const gconv_algorithm *row;
  size_t count = 0, picked;
  for (; (row = gconv_algorithm_row(count)) && count < GCONV_MOST_CANDIDATES; count++) {
    candidates[count] = (gconv_candidate){.info = &row->info, .available = row->available};
    if (strcmp(row->info.device, device->type->name) != 0)
      continue;
    candidates[count].obstacle = find_obstacle(problem, options, row);
    if (!candidates[count].obstacle)
      set_price(problem, device, options, row, &candidates[count]);
  }
  GCONV_TRY(gconv_pick(candidates, count, device->type->name, options->algorithm, options->without, reasons, &picked));
  *chosen = gconv_algorithm_row(picked);
  return GCONV_OK;
}

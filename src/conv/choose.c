/* SPDX-License-Identifier: MIT */
#include "conv/choose.h"
#include "conv/tuning.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 32 };

/* Row number `index` of those of the device; NULL past the end. */
static const gconv_algorithm *row_of(const gconv_device *device, size_t index) {
  const gconv_algorithm *row;
  for (size_t i = 0; (row = gconv_algorithm_row(i)); i++)
    if (strcmp(row->info.device, device->type->name) == 0 && index-- == 0)
      return row;
  return NULL;
}

/* Whether `name` is one of the comma-separated `names`. */
static bool is_among(const char *name, const char *names) {
  size_t length = strlen(name);
  while (names && *names) {
    size_t word = strcspn(names, ",");
    if (word == length && strncmp(names, name, length) == 0)
      return true;
    names += word + (names[word] == ',');
  }
  return false;
}

static gconv_status complain_of_name(const gconv_device *device, gconv_status status, const char *name, int length) {
  char names[512] = "";
  const gconv_algorithm *row;
  for (size_t i = 0; (row = row_of(device, i)); i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", row->info.name);
  }
  return gconv_fail(status, "there is no algorithm %.*s on the device %s: it has %s", length, name, device->type->name,
                    names);
}

/* Every name of `without` must be an algorithm of some device: a misspelt one would leave it on. */
static gconv_status check_without(const gconv_device *device, const char *without) {
  while (without && *without) {
    size_t word = strcspn(without, ",");
    bool known = false;
    const gconv_algorithm *row;
    for (size_t i = 0; (row = gconv_algorithm_row(i)) && !known; i++)
      known = strlen(row->info.name) == word && strncmp(row->info.name, without, word) == 0;
    if (!known)
      return complain_of_name(device, GCONV_BAD_ARGUMENT, without, (int)word);
    without += word + (without[word] == ',');
  }
  return GCONV_OK;
}

static const char *why_unavailable(const gconv_algorithm *row) {
  return row->available ? row->available() : NULL;
}

/* ---- What a choice costs ---- */

/* What is not of the exact family must be faster by this much: the same bits everywhere are worth something. */
static const double EXACT_IS_WORTH = 1.05;

double gconv_price(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                   const gconv_algorithm *row, FILE *reasons) {
  double estimate = fmin(row->cost(problem, &device->machine), 1e300);
  const gconv_tuning *tuning = device->tuned ? &device->tuning : &device->calibration;
  double ratio = gconv_tuning_ratio(tuning, row->info.name, problem);
  fprintf(reasons, "  %-13s estimated at %.3g ms", row->info.name, estimate * ratio);
  if (ratio != 1)
    fprintf(reasons, " (%.3g by the model, times %.3g as %s)", estimate, ratio,
            device->tuned ? "gconv tune found" : "measured on an H200");
  double start = row->started && !row->started() ? row->start_ms : 0;
  double executions = options->executions > 0 ? (double)options->executions : 1;
  if (start > 0)
    fprintf(reasons, ", and %.3g ms to start its library", start);
  if (start > 0 && executions > 1)
    fprintf(reasons, " for %.0f executions", executions);
  fputc('\n', reasons);
  return (estimate * ratio + start / executions) * (row->info.exact ? 1 : EXACT_IS_WORTH);
}

/* ---- Choosing ---- */

typedef struct choice_request {
  const gconv_problem *problem;
  const gconv_device *device;
  const gconv_options *options;
  FILE *reasons;
} choice_request;

static double price(const choice_request *request, const gconv_algorithm *row) {
  return gconv_price(request->problem, request->device, request->options, row, request->reasons);
}

static gconv_status choose_named(const choice_request *request, const gconv_algorithm **chosen) {
  const char *name = request->options->algorithm, *device = request->device->type->name;
  const gconv_algorithm *row;
  for (size_t i = 0; (row = row_of(request->device, i)); i++) {
    if (strcmp(row->info.name, name) != 0)
      continue;
    const char *obstacle = row->supports(request->problem);
    if (obstacle)
      return gconv_fail(GCONV_UNSUPPORTED, "the algorithm %s on %s cannot solve this: %s", name, device, obstacle);
    if ((obstacle = why_unavailable(row)))
      return gconv_fail(GCONV_UNSUPPORTED, "the algorithm %s cannot be used here: %s", name, obstacle);
    price(request, row);
    *chosen = row;
    return GCONV_OK;
  }
  return complain_of_name(request->device, GCONV_UNSUPPORTED, name, (int)strlen(name));
}

/* The cheapest of the candidates that can be loaded: what is dearer is not even tried. */
static const gconv_algorithm *cheapest(const gconv_algorithm **candidates, double *costs, size_t count, FILE *reasons) {
  for (;;) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
      if (costs[i] < costs[best])
        best = i;
    if (count == 0 || costs[best] == HUGE_VAL)
      return NULL;
    const char *obstacle = why_unavailable(candidates[best]);
    if (!obstacle)
      return candidates[best];
    fprintf(reasons, "  %-13s is not there: %s\n", candidates[best]->info.name, obstacle);
    costs[best] = HUGE_VAL;
  }
}

static gconv_status choose_cheapest(const choice_request *request, const gconv_algorithm **chosen) {
  const char *without = request->options->without;
  const gconv_algorithm *candidates[MOST_ROWS], *row;
  double costs[MOST_ROWS];
  size_t count = 0;
  for (size_t i = 0; (row = row_of(request->device, i)) && count < MOST_ROWS; i++) {
    const char *obstacle = is_among(row->info.name, without) ? "it is switched off" : row->supports(request->problem);
    if (obstacle) {
      fprintf(request->reasons, "  %-13s cannot: %s\n", row->info.name, obstacle);
      continue;
    }
    candidates[count] = row;
    costs[count++] = price(request, row);
  }
  *chosen = cheapest(candidates, costs, count, request->reasons);
  if (!*chosen)
    return gconv_fail(GCONV_UNSUPPORTED, "no algorithm of the device %s can solve this%s", request->device->type->name,
                      without && *without ? ", as some are switched off" : "");
  return GCONV_OK;
}

gconv_status gconv_choose(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                          FILE *reasons, const gconv_algorithm **chosen) {
  choice_request request = {problem, device, options, reasons};
  GCONV_TRY(check_without(device, options->without));
  return strcmp(options->algorithm, "auto") == 0 ? choose_cheapest(&request, chosen) : choose_named(&request, chosen);
}

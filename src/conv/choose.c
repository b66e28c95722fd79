/* SPDX-License-Identifier: MIT */
#include "conv/choose.h"

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

static gconv_status complain_of_name(const gconv_device *device, const char *name, int length) {
  char names[512] = "";
  const gconv_algorithm *row;
  for (size_t i = 0; (row = row_of(device, i)); i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", row->info.name);
  }
  return gconv_fail(GCONV_UNSUPPORTED, "there is no algorithm %.*s on the device %s: it has %s", length, name,
                    device->type->name, names);
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
      return complain_of_name(device, without, (int)word);
    without += word + (without[word] == ',');
  }
  return GCONV_OK;
}

static const char *why_unavailable(const gconv_algorithm *row) {
  return row->available ? row->available() : NULL;
}

static gconv_status choose_named(const gconv_problem *problem, const gconv_device *device, const char *name, FILE *reasons,
                                 const gconv_algorithm **chosen) {
  const gconv_algorithm *row;
  for (size_t i = 0; (row = row_of(device, i)); i++) {
    if (strcmp(row->info.name, name) != 0)
      continue;
    const char *obstacle = row->supports(problem);
    if (obstacle)
      return gconv_fail(GCONV_UNSUPPORTED, "the algorithm %s on %s cannot solve this: %s", name, device->type->name,
                        obstacle);
    if ((obstacle = why_unavailable(row)))
      return gconv_fail(GCONV_UNSUPPORTED, "the algorithm %s cannot be used here: %s", name, obstacle);
    fprintf(reasons, "  %-13s estimated at %.3g ms\n", name, row->cost(problem, &device->machine));
    *chosen = row;
    return GCONV_OK;
  }
  return complain_of_name(device, name, (int)strlen(name));
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

static gconv_status choose_cheapest(const gconv_problem *problem, const gconv_device *device, const char *without,
                                    FILE *reasons, const gconv_algorithm **chosen) {
  const gconv_algorithm *candidates[MOST_ROWS], *row;
  double costs[MOST_ROWS];
  size_t count = 0;
  for (size_t i = 0; (row = row_of(device, i)) && count < MOST_ROWS; i++) {
    const char *obstacle = is_among(row->info.name, without) ? "it is switched off" : row->supports(problem);
    if (obstacle) {
      fprintf(reasons, "  %-13s cannot: %s\n", row->info.name, obstacle);
      continue;
    }
    candidates[count] = row;
    costs[count] = fmin(row->cost(problem, &device->machine), 1e300);
    fprintf(reasons, "  %-13s estimated at %.3g ms\n", row->info.name, costs[count]);
    count++;
  }
  *chosen = cheapest(candidates, costs, count, reasons);
  if (!*chosen)
    return gconv_fail(GCONV_UNSUPPORTED, "no algorithm of the device %s can solve this%s", device->type->name,
                      without && *without ? ", as some are switched off" : "");
  return GCONV_OK;
}

gconv_status gconv_choose(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                          FILE *reasons, const gconv_algorithm **chosen) {
  GCONV_TRY(check_without(device, options->without));
  if (strcmp(options->algorithm, "auto") == 0)
    return choose_cheapest(problem, device, options->without, reasons, chosen);
  return choose_named(problem, device, options->algorithm, reasons, chosen);
}

/* SPDX-License-Identifier: MIT */
#include "operation/pick.h"
#include "base/suggest.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Algorithms outside the exact family must be faster by this factor. */
static const double EXACT_IS_WORTH = 1.05;

void gconv_candidate_price(gconv_candidate *candidate, double model, double ratio, const char *source) {
  double estimate = fmin(model, 1e300);
  char *told = candidate->told;
  size_t size = sizeof candidate->told;
  int used = snprintf(told, size, "estimated at %.3g ms", estimate * ratio);
  if (ratio != 1)
    snprintf(told + used, size - (size_t)used, " (%.3g by the model, times %.3g as %s)", estimate, ratio, source);
  candidate->price = estimate * ratio * (candidate->info->exact ? 1 : EXACT_IS_WORTH);
}

/* ---- Names ---- */

bool gconv_device_has(const char *device, const char *name, const gconv_algorithm_info *(*at)(size_t index)) {
  const gconv_algorithm_info *algorithm;
  bool has = !name || strcmp(name, "auto") == 0;
  for (size_t i = 0; !has && (algorithm = at(i)); i++)
    has = strcmp(algorithm->name, name) == 0 && strncmp(device, algorithm->device, strlen(algorithm->device)) == 0;
  return has;
}

/* The candidates, the device for which to choose, and the text that gets the reasons. */
typedef struct choice {
  const gconv_candidate *candidates;
  size_t count;
  const char *device;
  FILE *reasons;
} choice;

static bool is_of(const gconv_candidate *candidate, const char *device) {
  return strcmp(candidate->info->device, device) == 0;
}

static gconv_status complain_of_name(const choice *c, gconv_status status, const char *name, int length) {
  char names[512] = "";
  for (size_t i = 0; i < c->count; i++) {
    size_t used = strlen(names);
    if (is_of(&c->candidates[i], c->device))
      snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", c->candidates[i].info->name);
  }
  return gconv_fail(status, "there is no algorithm %.*s on the device %s: it has %s", length, name, c->device, names);
}

/* Every name of `without` must be an algorithm of some device: a misspelt name would switch nothing off. */
static gconv_status check_without(const choice *c, const char *without) {
  while (without && *without) {
    size_t word = strcspn(without, ",");
    bool known = false;
    for (size_t i = 0; i < c->count && !known; i++)
      known = strlen(c->candidates[i].info->name) == word && strncmp(c->candidates[i].info->name, without, word) == 0;
    if (!known)
      return complain_of_name(c, GCONV_BAD_ARGUMENT, without, (int)word);
    without += word + (without[word] == ',');
  }
  return GCONV_OK;
}

/* ---- Choosing ---- */

static const char *why_unavailable(const gconv_candidate *candidate) {
  return candidate->available ? candidate->available() : NULL;
}

static gconv_status pick_named(const choice *c, const char *name, size_t *picked) {
  for (size_t i = 0; i < c->count; i++) {
    const gconv_candidate *candidate = &c->candidates[i];
    if (!is_of(candidate, c->device) || strcmp(candidate->info->name, name) != 0)
      continue;
    if (candidate->obstacle)
      return gconv_fail(GCONV_UNSUPPORTED, "the algorithm %s on %s cannot solve this: %s", name, c->device,
                        candidate->obstacle);
    const char *obstacle = why_unavailable(candidate);
    if (obstacle)
      return gconv_fail(GCONV_UNSUPPORTED, "the algorithm %s cannot be used here: %s", name, obstacle);
    if (c->reasons)
      fprintf(c->reasons, "  %-13s %s\n", name, candidate->told);
    *picked = i;
    return GCONV_OK;
  }
  return complain_of_name(c, GCONV_UNSUPPORTED, name, (int)strlen(name));
}

/* Returns why auto cannot take a candidate, or NULL. Loads no library to find out. */
static const char *find_obstacle(const gconv_candidate *candidate, const char *without) {
  if (gconv_find_word(without, ',', candidate->info->name, strlen(candidate->info->name)))
    return "it is switched off";
  if (candidate->obstacle)
    return candidate->obstacle;
  if (candidate->classic)
    return "it is there to learn from: ask for it by name";
  return candidate->library ? "it is made of a library: ask for it by name" : why_unavailable(candidate);
}

/* Returns bound / accuracy if the bound of a candidate is too large, otherwise 0. */
static double excess_of(const gconv_candidate *candidate) {
  return candidate->accuracy > 0 && candidate->bound > candidate->accuracy ? candidate->bound / candidate->accuracy : 0;
}

static bool is_better(const gconv_candidate *a, const gconv_candidate *b) {
  double excess = excess_of(a), other = excess_of(b);
  return excess < other || (excess == other && a->price < b->price);
}

static void write_reason(FILE *reasons, const gconv_candidate *candidate, const char *obstacle) {
  fprintf(reasons, "  %-13s %s%s", candidate->info->name, obstacle ? "cannot: " : "", obstacle ? obstacle : candidate->told);
  if (!obstacle && excess_of(candidate) > 0 && candidate->accuracy == DBL_MIN)
    fprintf(reasons, ", but its rounding may reach %.3g, where a sum that is rounded down is cut to the level below",
            candidate->bound);
  else if (!obstacle && excess_of(candidate) > 0)
    fprintf(reasons, ", but its rounding may reach %.3g, and half a level is %.3g", candidate->bound, candidate->accuracy);
  fputc('\n', reasons);
}

static gconv_status pick_cheapest(const choice *c, const char *without, size_t *picked) {
  size_t best = c->count;
  for (size_t i = 0; i < c->count; i++) {
    const gconv_candidate *candidate = &c->candidates[i];
    if (!is_of(candidate, c->device))
      continue;
    const char *obstacle = find_obstacle(candidate, without);
    if (c->reasons)
      write_reason(c->reasons, candidate, obstacle);
    if (!obstacle && candidate->price < HUGE_VAL && (best == c->count || is_better(candidate, &c->candidates[best])))
      best = i;
  }
  if (best == c->count)
    return gconv_fail(GCONV_UNSUPPORTED, "no algorithm of the device %s can solve this%s", c->device,
                      without && *without ? ", as some are switched off" : "");
  *picked = best;
  return GCONV_OK;
}

gconv_status gconv_pick(const gconv_candidate *candidates, size_t count, const char *device, const char *wanted,
                        const char *without, FILE *reasons, size_t *picked) {
  choice c = {candidates, count, device, reasons};
  GCONV_TRY(check_without(&c, without));
  return strcmp(wanted, "auto") == 0 ? pick_cheapest(&c, without, picked) : pick_named(&c, wanted, picked);
}

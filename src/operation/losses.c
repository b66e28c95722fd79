/* SPDX-License-Identifier: MIT */
#include "operation/losses.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Plans ---- */

/* Returns the plan that makes the outputs. For a chain, it is the plan of the last stage; for an operation in a part of the
 * image, the plan of that operation. */
static gconv_plan *last_of(gconv_plan *plan) {
  while (plan->last)
    plan = plan->last;
  return plan;
}

gconv_status gconv_plan_watch(gconv_plan *whole) {
  gconv_plan *plan = last_of(whole);
  if (!plan->losses)
    plan->losses = calloc(plan->output_count, sizeof *plan->losses);
  return plan->losses ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory to watch %zu outputs", plan->output_count);
}

void gconv_plan_set_scope(gconv_plan *whole, gconv_scope *scope) {
  gconv_plan *plan = last_of(whole);
  plan->scope = plan->scope ? plan->scope : scope;
}

/* False for flat images, whose responses differ by rounding only: one colour is then the right result, not a loss. */
bool gconv_losses_are_of_one_colour(const gconv_losses *l) {
  const double rounding = 1e-3;
  bool differ = l->high - l->low > rounding * fmax(fabs(l->high), fabs(l->low));
  return !l->in_scope && l->places > 0 && (l->black == l->places || l->white == l->places) && differ;
}

/* Returns how bad an output's losses are: the share of samples that were clamped, plus 1 if the output is of one colour. */
static double weight_of(const gconv_losses *l) {
  return l->places > 0 ? (l->below + l->above) / l->places + gconv_losses_are_of_one_colour(l) : 0;
}

void gconv_losses_keep_worst(gconv_losses *worst, const gconv_losses *other) {
  if (weight_of(other) > weight_of(worst))
    *worst = *other;
}

gconv_losses gconv_plan_take_losses(gconv_plan *whole) {
  gconv_plan *plan = last_of(whole);
  gconv_losses worst = {0};
  for (size_t i = 0; i < plan->output_count && plan->losses; i++)
    gconv_losses_keep_worst(&worst, &plan->losses[i]);
  if (plan->losses)
    memset(plan->losses, 0, plan->output_count * sizeof *plan->losses);
  return worst;
}

/* ---- Places ---- */

int64_t gconv_loss_row(int64_t all, int rows, int number) {
  return all <= rows ? number : (2 * (int64_t)number + 1) * all / (2 * rows);
}

/* Returns a number in [0, 1) that follows from `a` and `b`, and looks random (splitmix64). */
static double chance(uint64_t a, uint64_t b) {
  uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

int64_t gconv_loss_column(int64_t width, int columns, int number, int64_t row) {
  double at = (number + chance((uint64_t)row, (uint64_t)number)) * (double)width / columns;
  return width <= columns ? number : (int64_t)at;
}

/* ---- Rows ---- */

/* Computes responses at up to row->most of `count` places of one colour. Returns the share that was clamped. */
static double share_of_clamped(const gconv_loss_row_source *row, const int *places, int count, bool white,
                               gconv_losses *losses) {
  int computed = count < row->most ? count : row->most, clamped = 0;
  for (int i = 0; i < computed; i++) {
    double response = row->response(row->context, places[(int64_t)i * count / computed]);
    double level = response * row->white;
    clamped += white ? level > row->white + 0.5 : level < -0.5;
    losses->low = fmin(losses->low, response);
    losses->high = fmax(losses->high, response);
  }
  return computed > 0 ? (double)clamped / computed : 0;
}

/* If the stored samples are not known, each place may be black, and may be white. */
void gconv_losses_add_row(const gconv_loss_row_source *row, gconv_losses *losses) {
  int black[GCONV_LOSS_COLUMNS], white[GCONV_LOSS_COLUMNS], blacks = 0, whites = 0, places = 0;
  for (int i = 0; i < row->places; i++) {
    if (row->counts && !row->counts(row->context, i))
      continue;
    places++;
    double stored = row->stored ? row->stored(row->context, i) : 0;
    if (stored <= 0 || !row->stored)
      black[blacks++] = i;
    if (stored >= row->white || !row->stored)
      white[whites++] = i;
  }
  if (losses->places == 0) {
    losses->low = INFINITY;
    losses->high = -INFINITY;
  }
  losses->places += places;
  losses->black += row->stored ? blacks : 0;
  losses->white += row->stored ? whites : 0;
  losses->below += blacks * share_of_clamped(row, black, blacks, false, losses);
  losses->above += whites * share_of_clamped(row, white, whites, true, losses);
}

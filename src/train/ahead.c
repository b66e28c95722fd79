/* SPDX-License-Identifier: MIT */
/*
 * A step of all cases takes a GPU less time than the host needs to start it, to wait for it and to report it. So the engine
 * takes the steps of several epochs at a time. While these are reported one by one, the engine takes the next steps. If a
 * caller asks for the parameters meanwhile, the arrays from before the steps are restored, and the steps that were reported
 * are repeated, with the same bytes.
 */
#include "base/control.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>

enum { EPOCHS = 256, ARRAYS = 4 };
static const gconv_learn_array arrays[ARRAYS] = {GCONV_LEARN_PARAMETERS, GCONV_LEARN_BEST, GCONV_LEARN_FIRST,
                                                 GCONV_LEARN_SECOND};

/* Returns how many of the arrays above are changed by steps. */
static size_t count_changed(const gconv_trainer *t) {
  return t->options.optimizer == GCONV_OPTIMIZER_SGD ? 2 : t->options.optimizer == GCONV_OPTIMIZER_MOMENTUM ? 3 : 4;
}

bool gconv_trainer_stops(const gconv_trainer *t) {
  return (t->options.stop && __atomic_load_n(t->options.stop, __ATOMIC_RELAXED)) ||
         gconv_control_stops(gconv_control_here());
}

bool gconv_ahead_goes(const gconv_trainer *t) {
  const gconv_training_options *o = &t->options;
  const gconv_ahead *a = &t->ahead;
  if (a->reported < a->taken || a->at_work)
    return true;
  const bool ends_early = o->patience > 0 || o->stop_error > 0 || gconv_trainer_stops(t);
  return t->type->start && !ends_early && !a->never && t->state.epochs + 1 < o->epochs;
}

/* ---- Saving, restoring and repeating ---- */

static gconv_status save(const gconv_trainer *t, gconv_ahead_start *from) {
  const size_t count = t->net.parameters;
  if (!from->arrays)
    GCONV_NEW(from->arrays, ARRAYS * count, "no memory for training");
  for (size_t i = 0; i < count_changed(t); i++)
    t->type->get(t->engine, arrays[i], from->arrays + i * count);
  return GCONV_OK;
}

static void restore(const gconv_trainer *t, const gconv_ahead_start *from) {
  for (size_t i = 0; i < count_changed(t); i++)
    t->type->set(t->engine, arrays[i], from->arrays + i * t->net.parameters);
}

static gconv_status start(gconv_trainer *t, const gconv_ahead_start *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    t->steps[i] = gconv_training_step(&t->options, from->epochs + i, from->steps + i + 1);
  const gconv_learn_cases cases = {t->data, from->epochs, t->order, t->options.batch, true};
  return t->type->start(t->engine, &cases, t->steps, count, from->best_loss);
}

/* Restores the arrays and the state of `from`, and takes `count` steps again. */
static gconv_status take_again(gconv_trainer *t, const gconv_ahead_start *from, size_t count, size_t *taken) {
  restore(t, from);
  GCONV_TRY(start(t, from, count));
  return t->type->await(t->engine, t->sums, taken);
}

/* ---- Steps ---- */

/* Copies the engine's arrays to `next`, whose other fields are set, and starts the steps from there. */
static gconv_status start_next(gconv_trainer *t) {
  gconv_ahead *a = &t->ahead;
  const uint64_t left = t->options.epochs - a->next.epochs;
  GCONV_TRY(save(t, &a->next));
  GCONV_TRY(start(t, &a->next, left < EPOCHS ? (size_t)left : EPOCHS));
  a->at_work = true;
  return GCONV_OK;
}

/* Sets `next` to the state after the steps that were taken. */
static void set_next(gconv_trainer *t) {
  gconv_ahead *a = &t->ahead;
  a->next.epochs = a->now.epochs + a->taken;
  a->next.steps = a->now.steps + a->taken;
  a->next.best_loss = a->now.best_loss;
  for (size_t i = 0; i < a->taken; i++) {
    const double loss = t->sums[i].loss * gconv_learn_loss_factor(&t->net, t->options.batch);
    if (loss < a->next.best_loss)
      a->next.best_loss = loss;
  }
}

/* True if all losses and parameters after the steps are finite. */
static bool is_finite(const gconv_trainer *t) {
  for (size_t i = 0; i < t->ahead.taken; i++)
    if (!isfinite(t->sums[i].loss))
      return false;
  return t->type->is_finite(t->engine);
}

/* Waits for the running steps, or takes the first steps. Then starts the next steps. */
static gconv_status take_several(gconv_trainer *t) {
  gconv_ahead *a = &t->ahead;
  if (!a->at_work) {
    a->next.epochs = t->state.epochs;
    a->next.steps = t->state.steps;
    a->next.best_loss = t->state.best_loss;
    GCONV_TRY(start_next(t));
  }
  const gconv_ahead_start before = a->now;
  a->now = a->next;
  a->next = before; /* to reuse its arrays */
  a->at_work = false;
  a->reported = a->taken = 0;
  GCONV_TRY(t->type->await(t->engine, t->sums, &a->taken));
  a->finite = a->taken > 1 && is_finite(t);
  a->never = !a->finite;
  if (a->taken > 1 && !a->finite) /* from here on, steps are taken and judged one by one */
    return take_again(t, &a->now, 1, &a->taken);
  set_next(t);
  return a->never || a->next.epochs == t->options.epochs || gconv_trainer_stops(t) ? GCONV_OK : start_next(t);
}

gconv_status gconv_ahead_step(gconv_trainer *t, gconv_learn_sums *sums) {
  if (t->ahead.reported == t->ahead.taken)
    GCONV_TRY(take_several(t));
  *sums = t->sums[t->ahead.reported++];
  return GCONV_OK;
}

gconv_status gconv_ahead_settle(gconv_trainer *t) {
  gconv_ahead *a = &t->ahead;
  const bool all = a->reported == a->taken, at_work = a->at_work;
  const size_t reported = a->reported;
  size_t taken = 0;
  a->at_work = false;
  a->reported = a->taken = 0;
  if (at_work)
    GCONV_TRY(t->type->await(t->engine, t->sums, &taken));
  if (!all)
    return take_again(t, &a->now, reported, &taken);
  if (at_work)
    restore(t, &a->next);
  return GCONV_OK;
}

void gconv_ahead_free(gconv_ahead *ahead) {
  free(ahead->now.arrays);
  free(ahead->next.arrays);
}

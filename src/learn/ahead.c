/* SPDX-License-Identifier: MIT */
/* A step of all cases takes a GPU less time than the host needs to start it and to wait for it. So the engine is asked for
 * the steps of several epochs at a time. If somebody wants the parameters between them, the arrays before the steps are
 * restored, and as many steps are taken again as were told: the same steps have the same bytes. */
#include "learn/dataset.h"
#include "learn/trainer.h"

#include <math.h>
#include <stdlib.h>

enum { EPOCHS = 256, SAVED = 4 };
static const gconv_learn_array saved[SAVED] = {GCONV_LEARN_PARAMETERS, GCONV_LEARN_FIRST, GCONV_LEARN_SECOND,
                                               GCONV_LEARN_BEST};

bool gconv_ahead_goes(const gconv_trainer *t) {
  const gconv_training_options *o = &t->options;
  const gconv_ahead *a = &t->ahead;
  const bool stops = o->patience > 0 || o->stop_error > 0 || (o->stop && *o->stop);
  const bool full = !t->validation && o->batch == gconv_dataset_get_info(t->data)->cases;
  return a->told < a->taken || (t->type->train && full && !stops && !a->never && t->state.epochs + 1 < o->epochs);
}

static gconv_status train(gconv_trainer *t, size_t count, size_t *taken) {
  const gconv_learn_cases cases = {t->data, t->state.epochs, t->order, t->options.batch, true};
  return t->type->train(t->engine, &cases, t->steps, count, t->ahead.best_loss, t->sums, taken);
}

static gconv_status save(gconv_trainer *t) {
  gconv_ahead *a = &t->ahead;
  if (!a->before)
    a->before = malloc(SAVED * t->net.parameters * sizeof *a->before);
  if (!a->before)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  for (size_t i = 0; i < SAVED; i++)
    t->type->get(t->engine, saved[i], a->before + i * t->net.parameters);
  a->best_loss = t->state.best_loss;
  return GCONV_OK;
}

static void restore(gconv_trainer *t) {
  for (size_t i = 0; i < SAVED; i++)
    t->type->set(t->engine, saved[i], t->ahead.before + i * t->net.parameters);
}

/* Whether all that the steps made is finite. */
static bool is_finite(const gconv_trainer *t) {
  for (size_t i = 0; i < t->ahead.taken; i++)
    if (!isfinite(t->sums[i].loss))
      return false;
  return t->type->is_finite(t->engine);
}

static gconv_status take_several(gconv_trainer *t) {
  gconv_ahead *a = &t->ahead;
  const uint64_t left = t->options.epochs - t->state.epochs;
  const size_t count = left < EPOCHS ? (size_t)left : EPOCHS;
  for (size_t i = 0; i < count; i++)
    t->steps[i] = gconv_training_step(&t->options, t->state.epochs + i, t->state.steps + i + 1);
  a->told = a->taken = 0;
  GCONV_TRY(save(t));
  GCONV_TRY(train(t, count, &a->taken));
  a->never = a->taken == 1;
  if (a->taken == 1 || is_finite(t))
    return GCONV_OK;
  a->never = true; /* the trainer judges each step by itself */
  restore(t);
  return train(t, 1, &a->taken);
}

gconv_status gconv_ahead_step(gconv_trainer *t, gconv_learn_sums *sums) {
  if (t->ahead.told == t->ahead.taken)
    GCONV_TRY(take_several(t));
  *sums = t->sums[t->ahead.told++];
  return GCONV_OK;
}

gconv_status gconv_ahead_settle(gconv_trainer *t) {
  gconv_ahead *a = &t->ahead;
  if (a->told == a->taken)
    return GCONV_OK;
  restore(t);
  const size_t count = a->told;
  a->told = a->taken = 0;
  size_t taken = 0;
  return train(t, count, &taken);
}

/* SPDX-License-Identifier: MIT */
/* Options of training: their names, checks and defaults, and the numbers of a step that follow from them. */
#include "base/arguments.h"
#include "base/lists.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_MEMORY = 256 << 20 }; /* for the values of a step */

/* ---- Names ---- */

const char *gconv_optimizer_name(gconv_optimizer optimizer) {
  static const char *const names[] = {GCONV_EACH_OPTIMIZER(GCONV_NAMED)};
  return names[optimizer];
}

const char *gconv_schedule_name(gconv_schedule schedule) {
  static const char *const names[] = {GCONV_EACH_SCHEDULE(GCONV_NAMED)};
  return names[schedule];
}

const char *gconv_loss_name(gconv_loss loss) {
  static const char *const names[] = {[GCONV_LOSS_DEFAULT] = "default", GCONV_EACH_LOSS(GCONV_NAMED)};
  return names[loss];
}

/* ---- Checks and defaults ---- */

/* Fails unless least <= value <= most. */
static gconv_status check_number(const char *what, double value, double least, double most) {
  if (value >= least && value <= most)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s is %g: it must be from %g to %g", what, value, least, most);
}

gconv_status gconv_training_check(const gconv_training_options *o) {
  GCONV_TRY(GCONV_CHECK_KNOWN(o, "options"));
  GCONV_TRY(gconv_check_value("the loss", o->loss, GCONV_LOSS_DEFAULT, GCONV_LOSSES));
  GCONV_TRY(gconv_check_value("the optimizer", o->optimizer, 0, GCONV_EACH_OPTIMIZER(GCONV_COUNTED) - 1));
  GCONV_TRY(gconv_check_value("the schedule", o->schedule, 0, GCONV_EACH_SCHEDULE(GCONV_COUNTED) - 1));
  GCONV_TRY(check_number("the rate", o->rate, 0, 1e6));
  GCONV_TRY(check_number("the momentum", o->momentum, 0, 1));
  GCONV_TRY(check_number("the weight decay", o->weight_decay, 0, 1e6));
  GCONV_TRY(check_number("lambda of weight elimination", o->elimination, 0, 1e6));
  GCONV_TRY(check_number("the scale of weight elimination", o->elimination_scale, 0, 1e6));
  GCONV_TRY(check_number("the loss to stop at", o->stop_error, 0, 1e300));
  if (o->optimizer == GCONV_OPTIMIZER_RPROP && o->schedule != GCONV_SCHEDULE_CONSTANT)
    return gconv_fail(GCONV_BAD_ARGUMENT, "rprop finds the sizes of its steps itself: it takes no schedule");
  if (o->optimizer == GCONV_OPTIMIZER_RPROP && o->batch != 0 && o->batch != SIZE_MAX)
    return gconv_fail(GCONV_BAD_ARGUMENT, "rprop compares gradients from step to step: it takes full batches only");
  if (o->momentum != 0 && o->optimizer != GCONV_OPTIMIZER_MOMENTUM)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a momentum is for the optimizer momentum, not for %s",
                      gconv_optimizer_name(o->optimizer));
  GCONV_TRY(check_number("the time between checkpoints", o->save_seconds, 0, 1e9));
  if (o->weight_count > 0)
    GCONV_NEED_AS(o->weights, "weights");
  for (size_t i = 0; i < o->weight_count; i++) {
    GCONV_NEED_AS(o->weights[i].class_name, "class_name");
    if (!(o->weights[i].weight > 0) || !isfinite(o->weights[i].weight))
      return gconv_fail(GCONV_BAD_ARGUMENT, "the weight of class %s is %g: it must be a number above 0",
                        o->weights[i].class_name, o->weights[i].weight);
  }
  if (o->algorithm && strcmp(o->algorithm, "auto") != 0 && strcmp(o->algorithm, "exact") != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "training knows the algorithms \"auto\" and \"exact\", not \"%s\"", o->algorithm);
  GCONV_TRY(gconv_check_value("the math", o->math, GCONV_MATH_FP32, GCONV_MATH_BF16));
  if (o->math != GCONV_MATH_FP32 && o->algorithm && strcmp(o->algorithm, "exact") == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the algorithm \"exact\" rounds no product to %s: take \"auto\" with it",
                      gconv_math_name(o->math));
  return GCONV_OK;
}

static double default_rate(gconv_optimizer optimizer) {
  switch (optimizer) {
  case GCONV_OPTIMIZER_ADAM:
    return 0.001;
  case GCONV_OPTIMIZER_SGD:
    return 0.1;
  case GCONV_OPTIMIZER_MOMENTUM:
    return 0.02;
  case GCONV_OPTIMIZER_RPROP:
    return 0.01;
  }
  return 0;
}

gconv_training_options gconv_training_resolve(const gconv_training_options *given, size_t cases) {
  gconv_training_options o = *given;
  o.rate = o.rate != 0 ? o.rate : default_rate(o.optimizer);
  if (o.optimizer == GCONV_OPTIMIZER_MOMENTUM)
    o.momentum = o.momentum != 0 ? o.momentum : 0.9;
  o.elimination_scale = o.elimination_scale != 0 ? o.elimination_scale : 1;
  o.batch = o.batch != 0 ? o.batch : GCONV_DEFAULT_BATCH;
  if (o.batch > cases || o.optimizer == GCONV_OPTIMIZER_RPROP)
    o.batch = cases;
  o.memory = o.memory != 0 ? o.memory : DEFAULT_MEMORY;
  o.epochs = o.epochs != 0 ? o.epochs : GCONV_DEFAULT_EPOCHS;
  o.weights = NULL; /* memory of the caller */
  o.weight_count = 0;
  o.save_to = NULL;
  o.save_seconds = o.save_seconds != 0 ? o.save_seconds : GCONV_DEFAULT_SAVE_SECONDS;
  o.algorithm = o.algorithm && strcmp(o.algorithm, "exact") == 0 ? "exact" : "auto"; /* the text is the caller's */
  return o;
}

/* ---- Steps ---- */

/* Returns base^exponent by squaring, which gives the same result on all machines. */
static double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1)
      result *= base;
  return result;
}

/* Returns (1 + cos(pi share)) / 2 for share from 0 to 1. Libraries round cosines differently, but a seed must give the same
 * result on every machine. So the cosine is computed as -sin(y) with y = pi (share - 1/2), by the Taylor polynomial of
 * degree 21. Its truncation error is below (pi / 2)^23 / 23! = 2e-18, rounding errors are at most 3e-16. */
static double falling_cosine(double share) {
  double y = 3.14159265358979323846 * (share - 0.5), square = y * y, sum = 1;
  for (int k = 20; k >= 2; k -= 2)
    sum = 1 - square * sum / (k * (k + 1));
  return 0.5 * (1 - y * sum);
}

static double rate_of_epoch(const gconv_training_options *o, uint64_t epoch) {
  double share = (double)epoch / (double)o->epochs; /* the part of the epochs that is done */
  switch (o->schedule) {
  case GCONV_SCHEDULE_LINEAR:
    return o->rate * (1 - share);
  case GCONV_SCHEDULE_COSINE:
    return o->rate * falling_cosine(share);
  case GCONV_SCHEDULE_STEP:
    return share * 3 < 1 ? o->rate : share * 3 < 2 ? o->rate / 10 : o->rate / 100;
  case GCONV_SCHEDULE_CONSTANT:
    break;
  }
  return o->rate;
}

gconv_learn_step gconv_training_step(const gconv_training_options *o, uint64_t epoch, uint64_t number) {
  double rate = rate_of_epoch(o, epoch);
  gconv_learn_step step = {.optimizer = o->optimizer,
                           .rate = (float)rate,
                           .momentum = (float)o->momentum,
                           .keep = (float)(1 - rate * o->weight_decay),
                           .elimination = (float)(2 * o->elimination / o->elimination_scale),
                           .scale = (float)(1 / o->elimination_scale)};
  if (o->optimizer == GCONV_OPTIMIZER_ADAM) {
    step.rate = (float)(rate / (1 - power(GCONV_ADAM_BETA1, number)));
    step.root = (float)(1 / sqrt(1 - power(GCONV_ADAM_BETA2, number)));
  }
  return step;
}

gconv_ending gconv_ending_of(const gconv_training_options *o, const gconv_training_state *s) {
  if (s->epochs == 0)
    return GCONV_ENDING_NONE;
  if (o->stop_error > 0 && s->last.loss <= o->stop_error)
    return GCONV_ENDING_ERROR;
  if (s->epochs >= o->epochs)
    return GCONV_ENDING_EPOCHS;
  const bool patient = o->patience == 0 || s->epochs < s->best_epoch || s->epochs - s->best_epoch < o->patience;
  return patient ? GCONV_ENDING_NONE : GCONV_ENDING_PATIENCE;
}

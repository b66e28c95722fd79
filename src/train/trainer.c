/* SPDX-License-Identifier: MIT */
/* The trainer: epochs and steps, the best weights, and the end of training. */
#include "train/trainer.h"
#include "bank/network_file.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "base/control.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EVALUATED = 1024 }; /* cases of the validation at a time */

static const char *const endings[GCONV_ENDINGS] = {
    [GCONV_ENDING_EPOCHS] = "all epochs are done",
    [GCONV_ENDING_PATIENCE] = "the loss has not become smaller for as many epochs as patience allows",
    [GCONV_ENDING_ERROR] = "the loss is no more than the one to stop at",
    [GCONV_ENDING_DIVERGED] = "training diverged, as the loss or a weight is no longer finite; the best weights so far are "
                              "kept: take a smaller rate, or normalise the inputs",
};

/* ---- Making one ---- */

void gconv_trainer_free(gconv_trainer *trainer) {
  if (!trainer)
    return;
  if (trainer->engine)
    trainer->type->free(trainer->engine);
  gconv_network_free(&trainer->network);
  gconv_learn_net_free(&trainer->net);
  gconv_dataset_free(trainer->scaled);
  gconv_dataset_free(trainer->scaled_also);
  free(trainer->scales);
  free(trainer->class_weights);
  free(trainer->save_to);
  free(trainer->mean);
  free(trainer->std);
  free(trainer->order);
  free(trainer->next);
  free(trainer->chosen);
  gconv_ahead_free(&trainer->ahead);
  free(trainer);
}

static gconv_status check_validation(const gconv_dataset_info *data, const gconv_dataset_info *validation) {
  bool same = data->channels == validation->channels && data->height == validation->height &&
              data->width == validation->width && data->outputs == validation->outputs;
  bool targets = data->target_channels == 0 || validation->target_channels == 0 ||
                 (data->target_height == validation->target_height && data->target_width == validation->target_width);
  if (!same)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the cases of the validation are %d x %d x %d with %zu outputs, those of the training %d x %d x %d "
                      "with %zu",
                      validation->channels, validation->height, validation->width, validation->outputs, data->channels,
                      data->height, data->width, data->outputs);
  if (data->class_count != validation->class_count)
    return gconv_fail(GCONV_BAD_ARGUMENT, "of training and validation, only the %s has classes",
                      data->class_count ? "training" : "validation");
  if (!targets)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the targets of the validation are %d x %d x %d, those of the training %d x %d x %d",
                      validation->target_channels, validation->target_height, validation->target_width,
                      data->target_channels, data->target_height, data->target_width);
  for (size_t i = 0; i < data->class_count; i++)
    if (data->classes && validation->classes && strcmp(data->classes[i], validation->classes[i]) != 0)
      return gconv_fail(GCONV_BAD_ARGUMENT, "class %zu is \"%s\" in the training, but \"%s\" in the validation", i + 1,
                        data->classes[i], validation->classes[i]);
  if (validation->cases == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the validation has no cases");
  return GCONV_OK;
}

/* *result = a number for each channel, from one number for all or one for each. */
static gconv_status spread(const char *what, const float *values, int32_t count, int32_t channels, float otherwise,
                           float **result) {
  if (count != 0 && count != 1 && count != channels)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%d numbers of %s for %d channels: give one number, or one for each channel",
                      count, what, channels);
  float *spread_out = malloc((size_t)channels * sizeof *spread_out);
  GCONV_NEED_MEMORY(spread_out, "no memory for %s", what);
  *result = spread_out;
  for (int32_t c = 0; c < channels; c++)
    spread_out[c] = count == 0 ? otherwise : values[count == 1 ? 0 : c];
  for (int32_t c = 0; c < channels; c++)
    if (!isfinite(spread_out[c]) || (otherwise == 1 && !(spread_out[c] > 0)))
      return gconv_fail(GCONV_BAD_ARGUMENT, "number %d of %s is %g", c + 1, what, (double)spread_out[c]);
  return GCONV_OK;
}

/* True if a step has all cases. They then keep the order of the data. */
static bool is_full(const gconv_trainer *t) {
  return t->options.batch == gconv_dataset_get_info(t->data)->cases;
}

static void draw_order(const gconv_trainer *t, uint64_t epoch, size_t *order) {
  const size_t cases = gconv_dataset_get_info(t->data)->cases;
  for (size_t i = 0; i < cases; i++)
    order[i] = i;
  gconv_random_shuffle(t->options.seed, GCONV_RANDOM_ORDER, epoch, order, cases);
}

/* Draws the order of the next epoch while the device works. */
static void draw_next(gconv_trainer *t) {
  const uint64_t next = t->state.epochs + 1;
  if (is_full(t) || t->next_epoch == next || next >= t->options.epochs)
    return;
  if (!t->next)
    t->next = calloc(gconv_dataset_get_info(t->data)->cases, sizeof *t->next);
  if (!t->next)
    return; /* set_order() draws it then */
  draw_order(t, next, t->next);
  t->next_epoch = next;
}

/* Lets the engine read the cases of the next step while the device works, unless there is a validation, whose cases would
 * overwrite them. */
static void prepare_next(gconv_trainer *t) {
  const gconv_learn_cases next = {t->data, t->next_epoch, t->next, gconv_dataset_get_info(t->data)->cases, false};
  if (t->type->prepare && !t->validation)
    t->type->prepare(t->engine, t->next && t->next_epoch == t->state.epochs + 1 ? &next : NULL);
}

/* Fails if all steps have a single sample of a batchnorm channel. Minus its mean, a single sample is always 0. */
static gconv_status check_batch(const gconv_trainer *t) {
  for (size_t i = 0; i < t->net.count; i++)
    if (t->net.layers[i].kind == GCONV_LAYER_BATCHNORM && gconv_layer_plane(&t->net.layers[i].problem) == 1 &&
        t->options.batch == 1)
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "layer %zu, batchnorm, learns from the mean and deviation of a batch, and a batch of one case has "
                        "one number per channel there: take a --batch of 2 cases or more",
                        i + 1);
  return GCONV_OK;
}

static gconv_status start_engine(gconv_trainer *t, gconv_device *device) {
  const size_t count = t->net.parameters;
  t->type = GCONV_OF_DEVICE(device, gconv_engine);
  gconv_engine_order order = {device,
                              &t->net,
                              t->mean,
                              t->std,
                              t->options.batch,
                              t->options.memory,
                              strcmp(t->options.algorithm, "exact") == 0,
                              t->options.math};
  GCONV_TRY(check_batch(t));
  GCONV_TRY(t->type->create(&order, &t->engine));
  GCONV_FREED float *values = malloc(count * sizeof *values);
  GCONV_NEED_MEMORY(values, "no memory for training");
  gconv_learn_net_take(&t->net, &t->network, values);
  gconv_target_scales_take(&t->net, t->scales, &t->network, values);
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "the network has a weight that is not finite");
  t->type->set(t->engine, GCONV_LEARN_PARAMETERS, values);
  t->type->set(t->engine, GCONV_LEARN_BEST, values);
  for (size_t i = 0; i < count; i++)
    values[i] = (float)t->options.rate;
  if (t->options.optimizer == GCONV_OPTIMIZER_RPROP)
    t->type->set(t->engine, GCONV_LEARN_SECOND, values);
  return GCONV_OK;
}

/* Stores and reports a text that says which device and algorithms are used, and why. */
static gconv_status explain(gconv_trainer *t, gconv_device *device) {
  size_t size;
  FILE *text = open_memstream(&t->chosen, &size);
  GCONV_NEED_MEMORY(text, "no memory for training");
  const bool exact = !t->type->is_exact || t->type->is_exact(t->engine);
  fputs(strcmp(t->options.algorithm, "exact") == 0 ? "exact, as asked for"
        : exact                                    ? "exact, as no other is known to be faster here"
                                                   : "bounded, as it is faster",
        text);
  if (t->type->explain) {
    fputs("; ", text);
    t->type->explain(t->engine, text);
  }
  if (fclose(text) != 0)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  const gconv_device_info *info = gconv_device_get_info(device);
  gconv_remark("device %s (%s); algorithm %s", info->name, info->description, t->chosen);
  return GCONV_OK;
}

/* Scales the targets if they are far from what a new network yields (scaled.c). */
static gconv_status take_scales(gconv_trainer *t) {
  GCONV_TRY(gconv_target_scales_find(&t->net, t->data, &t->scales));
  if (!t->scales)
    return GCONV_OK;
  GCONV_TRY(gconv_dataset_scale(t->data, t->scales, &t->scaled));
  t->data = t->scaled;
  if (t->validation) {
    GCONV_TRY(gconv_dataset_scale(t->validation, t->scales, &t->scaled_also));
    t->validation = t->scaled_also;
  }
  return GCONV_OK;
}

/* Sets the weight of each class; classes that are not named have 1. */
static gconv_status take_class_weights(gconv_trainer *t, const gconv_training_options *o) {
  const gconv_dataset_info *info = gconv_dataset_get_info(t->data);
  if (o->weight_count == 0)
    return GCONV_OK;
  if (info->class_count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "weights are for classes, and the data have none");
  GCONV_NEW(t->class_weights, info->class_count, "no memory for the weights of classes");
  for (size_t c = 0; c < info->class_count; c++)
    t->class_weights[c] = 1;
  for (size_t i = 0; i < o->weight_count; i++) {
    size_t c = 0;
    while (c < t->network.class_count && strcmp(t->network.classes[c], o->weights[i].class_name) != 0)
      c++;
    if (c == t->network.class_count)
      return gconv_fail(GCONV_BAD_ARGUMENT, "there is no class %s to weigh", o->weights[i].class_name);
    t->class_weights[c] = (float)o->weights[i].weight;
  }
  t->net.class_weights = t->class_weights;
  return GCONV_OK;
}

static gconv_status fill_trainer(gconv_trainer *t, gconv_device *device, const gconv_network *network,
                                 const gconv_training_options *given) {
  const gconv_dataset_info *info = gconv_dataset_get_info(t->data);
  GCONV_TRY(gconv_network_copy(network, &t->network));
  GCONV_TRY(gconv_learn_net_make(&t->network, info, t->options.loss, &t->net));
  t->options.loss = t->network.loss = t->net.loss;
  GCONV_TRY(gconv_network_take_data(&t->network, info));
  GCONV_TRY(take_class_weights(t, given));
  t->saved_ms = gconv_now_ms();
  if (given->save_to && !(t->save_to = strdup(given->save_to)))
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  GCONV_TRY(take_scales(t));
  network = &t->network;
  if (t->options.normalize)
    GCONV_TRY(gconv_network_normalize(&t->network, t->data));
  if (network->mean_count > 0 || network->std_count > 0) {
    GCONV_TRY(spread("mean", network->mean, network->mean_count, network->channels, 0, &t->mean));
    GCONV_TRY(spread("std", network->std, network->std_count, network->channels, 1, &t->std));
  }
  GCONV_NEW(t->order, info->cases, "no memory for training on %zu cases", info->cases);
  t->state.best_loss = INFINITY;
  t->state.last = (gconv_epoch){.loss = NAN, .accuracy = NAN, .validation_loss = NAN, .validation_accuracy = NAN};
  GCONV_TRY(start_engine(t, device));
  return explain(t, device);
}

gconv_status gconv_trainer_create(gconv_device *device, const gconv_network *network, const gconv_training_options *options,
                                  const gconv_dataset *data, const gconv_dataset *validation, gconv_trainer **trainer) {
  GCONV_NEED(device, network, data, trainer);
  gconv_training_options none = {0};
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  GCONV_TRY(gconv_training_check(options ? options : &none));
  GCONV_TRY(gconv_network_check_given(network));
  if (info->cases == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the data have no cases to be trained on");
  if (validation)
    GCONV_TRY(check_validation(info, gconv_dataset_get_info(validation)));
  gconv_trainer *t = calloc(1, sizeof *t);
  GCONV_NEED_MEMORY(t, "no memory for training");
  t->options = gconv_training_resolve(options ? options : &none, info->cases);
  t->data = data;
  t->validation = validation;
  gconv_status status = fill_trainer(t, device, network, options ? options : &none);
  if (status == GCONV_OK && options && options->resume_from)
    status = gconv_trainer_restore(t, options->resume_from);
  if (status != GCONV_OK) {
    gconv_trainer_free(t);
    return status;
  }
  *trainer = t;
  return GCONV_OK;
}

/* ---- Steps ---- */

static void set_order(gconv_trainer *t) {
  const uint64_t epoch = t->state.epochs;
  const size_t cases = gconv_dataset_get_info(t->data)->cases;
  if (is_full(t)) {
    for (size_t i = t->order[cases - 1] > 0 ? cases : 0; i < cases; i++) /* if not done before */
      t->order[i] = i;
  } else if (epoch > 0 && t->next_epoch == epoch) {
    size_t *drawn = t->next;
    t->next = t->order;
    t->order = drawn;
    t->next_epoch = 0;
  } else {
    draw_order(t, epoch, t->order);
  }
}

static void note_best(gconv_trainer *t, double loss) {
  t->state.best_loss = loss;
  t->state.best_epoch = t->state.epochs + 1;
}

/* True for a full batch without validation. A step then yields the loss of the weights before it. */
static bool judges_before_step(const gconv_trainer *t) {
  return !t->validation && is_full(t);
}

/* Adds the loss and hits of a step. Returns false, and ends training, if the loss is not finite. */
static bool add_sums(gconv_trainer *t, const gconv_learn_sums *sums) {
  t->state.loss += sums->loss;
  t->state.hits += sums->hits;
  if (isfinite(sums->loss))
    return true;
  t->state.ending = GCONV_ENDING_DIVERGED;
  t->state.at = gconv_dataset_get_info(t->data)->cases;
  return false;
}

static void count_step(gconv_trainer *t, size_t left) {
  t->state.steps++;
  t->state.at += left < t->options.batch ? left : t->options.batch;
}

static gconv_status take_step(gconv_trainer *t, size_t left) {
  gconv_learn_cases batch = {t->data, t->state.epochs, t->order + t->state.at, left, false};
  batch.count = left < t->options.batch ? left : t->options.batch;
  gconv_learn_sums sums = {0};
  GCONV_TRY(t->type->backward(t->engine, &batch, &sums));
  if (!add_sums(t, &sums))
    return GCONV_OK;
  double loss = sums.loss * gconv_learn_loss_factor(&t->net, batch.count);
  if (judges_before_step(t) && loss < t->state.best_loss) {
    t->type->keep(t->engine);
    note_best(t, loss);
  }
  gconv_learn_step step = gconv_training_step(&t->options, t->state.epochs, t->state.steps + 1);
  GCONV_TRY(t->type->update(t->engine, &step));
  count_step(t, left);
  return GCONV_OK;
}

/* Adds a step of all cases to the state. If it was the best, the engine has kept the weights before it. */
static void add_full_step(gconv_trainer *t, const gconv_learn_sums *sums) {
  if (add_sums(t, sums))
    count_step(t, t->options.batch);
  double loss = sums->loss * gconv_learn_loss_factor(&t->net, t->options.batch);
  if (loss < t->state.best_loss)
    note_best(t, loss);
}

/* Takes the next steps of the epoch, as many as the engine takes at a time. */
static gconv_status take_steps(gconv_trainer *t) {
  size_t left = gconv_dataset_get_info(t->data)->cases - (size_t)t->state.at, count = 0, taken = 0;
  double best = judges_before_step(t) ? t->state.best_loss : -INFINITY;
  if (!t->type->start)
    return take_step(t, left);
  if (judges_before_step(t) && gconv_ahead_goes(t)) {
    gconv_learn_sums sums;
    GCONV_TRY(gconv_ahead_step(t, &sums));
    add_full_step(t, &sums);
    return GCONV_OK;
  }
  t->ahead.finite = false;
  for (; count < GCONV_TRAINER_STEPS && count * t->options.batch < left; count++)
    t->steps[count] = gconv_training_step(&t->options, t->state.epochs, t->state.steps + count + 1);
  gconv_learn_cases cases = {t->data, t->state.epochs, t->order + t->state.at, left, is_full(t)};
  GCONV_TRY(t->type->start(t->engine, &cases, t->steps, count, best));
  draw_next(t);
  prepare_next(t);
  GCONV_TRY(t->type->await(t->engine, t->sums, &taken));
  if (judges_before_step(t)) {
    add_full_step(t, &t->sums[0]);
    return GCONV_OK;
  }
  for (size_t i = 0; i < taken && add_sums(t, &t->sums[i]); i++, left -= t->options.batch)
    count_step(t, left);
  return GCONV_OK;
}

/* ---- Epochs ---- */

static gconv_status validate(gconv_trainer *t, gconv_epoch *epoch) {
  size_t cases = gconv_dataset_get_info(t->validation)->cases, numbers[EVALUATED];
  gconv_learn_sums all = {0};
  for (size_t at = 0; at < cases;) {
    gconv_learn_cases part = {t->validation, 0, numbers, 0, false};
    while (part.count < EVALUATED && at < cases)
      numbers[part.count++] = at++;
    gconv_learn_sums sums = {0};
    GCONV_TRY(t->type->evaluate(t->engine, &part, &sums));
    all.loss += sums.loss;
    all.hits += sums.hits;
  }
  epoch->validation_loss = all.loss * gconv_learn_loss_factor(&t->net, cases);
  if (t->net.classes)
    epoch->validation_accuracy = (double)all.hits / (double)cases;
  return GCONV_OK;
}

/* Stores the epoch. Keeps the weights if they are the best so far, and decides whether training ends. */
static void judge(gconv_trainer *t, gconv_epoch *epoch) {
  gconv_training_state *s = &t->state;
  double loss = t->validation ? epoch->validation_loss : epoch->loss;
  if (!isfinite(loss) || !(t->ahead.finite || t->type->is_finite(t->engine))) {
    s->ending = GCONV_ENDING_DIVERGED;
  } else if (!judges_before_step(t) && loss < s->best_loss) {
    t->type->keep(t->engine);
    note_best(t, loss);
  }
  epoch->best = s->best_epoch == s->epochs + 1;
  s->epochs++;
  epoch->number = (size_t)s->epochs;
  s->last = *epoch;
  if (s->ending != GCONV_ENDING_DIVERGED)
    s->ending = gconv_ending_of(&t->options, s);
}

static gconv_status end_epoch(gconv_trainer *t) {
  gconv_training_state *s = &t->state;
  size_t cases = gconv_dataset_get_info(t->data)->cases;
  gconv_epoch epoch = {.accuracy = NAN, .validation_loss = NAN, .validation_accuracy = NAN};
  epoch.loss = s->loss * gconv_learn_loss_factor(&t->net, cases);
  if (t->net.classes)
    epoch.accuracy = (double)s->hits / (double)cases;
  if (t->validation && s->ending != GCONV_ENDING_DIVERGED)
    GCONV_TRY(validate(t, &epoch));
  judge(t, &epoch);
  s->at = s->hits = 0;
  s->loss = 0;
  return GCONV_OK;
}

/* Writes a checkpoint if it is time. A failure does not end training. */
static void save_in_time(gconv_trainer *t) {
  if (!t->save_to || gconv_now_ms() - t->saved_ms < 1000 * t->options.save_seconds)
    return;
  if (gconv_trainer_save(t, t->save_to) != GCONV_OK)
    gconv_warn("the checkpoint is not written: %s", gconv_last_error());
  t->saved_ms = gconv_now_ms();
}

/* Reports an interrupted epoch. Its loss is that of the cases so far. */
static void report_part(const gconv_trainer *t, gconv_epoch *epoch) {
  *epoch = t->state.last;
  epoch->chosen = t->chosen;
  size_t done = (size_t)t->state.at;
  epoch->loss = t->state.loss * gconv_learn_loss_factor(&t->net, done);
  epoch->accuracy = t->net.classes ? (double)t->state.hits / (double)done : NAN;
  epoch->best = false;
  epoch->interrupted = true;
  epoch->number = (size_t)t->state.epochs;
}

gconv_status gconv_trainer_epoch(gconv_trainer *trainer, gconv_epoch *epoch) {
  GCONV_NEED(trainer, epoch);
  gconv_training_state *s = &trainer->state;
  size_t cases = gconv_dataset_get_info(trainer->data)->cases;
  if (s->ending == GCONV_ENDING_NONE) {
    set_order(trainer);
    while (s->at < cases) {
      (void)gconv_control_step("training", (double)s->at / (double)cases); /* gconv_trainer_stops() asks for a stop */
      GCONV_TRY(take_steps(trainer));
      const bool all_reported = trainer->ahead.reported == trainer->ahead.taken;
      if (gconv_trainer_stops(trainer) && all_reported && s->ending == GCONV_ENDING_NONE) {
        report_part(trainer, epoch);
        return GCONV_OK;
      }
      if (all_reported && s->ending == GCONV_ENDING_NONE && s->at < cases)
        save_in_time(trainer);
    }
    GCONV_TRY(end_epoch(trainer));
    if (s->ending == GCONV_ENDING_NONE && trainer->ahead.reported == trainer->ahead.taken)
      save_in_time(trainer);
  }
  *epoch = s->last;
  epoch->chosen = trainer->chosen;
  epoch->ended = endings[s->ending];
  epoch->diverged = s->ending == GCONV_ENDING_DIVERGED;
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* The state of training, which checkpoints store, and what follows from the arguments. */
#pragma once

#include "train/engine.h"
#include "train/net.h"

/* Why training has ended. Checkpoints have these numbers. */
typedef enum gconv_ending {
  GCONV_ENDING_NONE,
  GCONV_ENDING_EPOCHS,
  GCONV_ENDING_PATIENCE,
  GCONV_ENDING_ERROR,
  GCONV_ENDING_DIVERGED,
  GCONV_ENDINGS
} gconv_ending;

/* What changes during training, apart from the engine's arrays and the best parameters. */
typedef struct gconv_training_state {
  uint64_t epochs;     /* complete epochs */
  uint64_t at;         /* cases of the current epoch that are done */
  uint64_t steps;      /* in all */
  double loss;         /* the sum over the current epoch */
  uint64_t hits;       /* hits of the current epoch */
  double best_loss;    /* infinite before the first epoch */
  uint64_t best_epoch; /* 0: none yet */
  gconv_ending ending;
  gconv_epoch last; /* as it was reported; `ended` follows from `ending` */
} gconv_training_state;

enum { GCONV_TRAINER_STEPS = 1024 }; /* the most steps that an engine is asked for at a time */

/* The state before some steps. */
typedef struct gconv_ahead_start {
  float *arrays; /* owned: copies of the engine's arrays */
  double best_loss;
  uint64_t epochs, steps; /* done */
} gconv_ahead_start;

/* For full batches without validation: the engine takes the steps of several epochs at a time; reports come one by one
 * (ahead.c). */
typedef struct gconv_ahead {
  size_t taken, reported;      /* taken: steps whose sums are in the trainer; reported: how many of them were reported */
  bool finite;                 /* the losses and parameters of these steps are finite; false after other steps */
  bool at_work;                /* the engine runs steps that await() has to wait for */
  bool never;                  /* the engine takes one step at a time, or training diverges */
  gconv_ahead_start now, next; /* now: before the steps that were taken; next: before the steps that run */
} gconv_ahead;

/* A target is offset + factor * learned target. */
typedef struct gconv_target_scale {
  double offset, factor;
} gconv_target_scale;

struct gconv_trainer {
  gconv_training_options options; /* with all defaults */
  gconv_network network;          /* a copy, with the weights that training began with */
  gconv_learn_net net;
  const gconv_dataset *data, *validation;
  gconv_target_scale *scales;          /* owned: one for each output; NULL: targets are learned as they are */
  gconv_dataset *scaled, *scaled_also; /* owned: `data` and `validation` with scaled targets */
  char *save_to;                       /* owned: a path, or NULL */
  double saved_ms;                     /* when the last checkpoint was written */
  float *class_weights;                /* owned: net.class_weights, or NULL */
  float *mean, *std;                   /* owned: for each channel; NULL: 0, 1 */
  const gconv_engine_type *type;
  void *engine;
  char *chosen;  /* owned: the algorithm and why */
  size_t *order; /* owned: the cases in the order of the current epoch */
  size_t *next;  /* owned: the order of epoch `next_epoch`, unless that is 0; or NULL */
  uint64_t next_epoch;
  gconv_learn_step steps[GCONV_TRAINER_STEPS]; /* the steps to be taken */
  gconv_learn_sums sums[GCONV_TRAINER_STEPS];  /* the results of the steps */
  gconv_training_state state;
  gconv_ahead ahead;
};

/* True if the caller wants training to stop. */
bool gconv_trainer_stops(const gconv_trainer *trainer);

/* True if the next step may be taken together with others, or was already taken. Only for full batches without validation.
 */
bool gconv_ahead_goes(const gconv_trainer *trainer);
/* Gets the sums of the next step. If it is not taken yet, takes several steps. */
gconv_status gconv_ahead_step(gconv_trainer *trainer, gconv_learn_sums *sums);
/* Sets the engine's arrays to their values after the step that was reported last. Call it before reading the arrays. */
gconv_status gconv_ahead_settle(gconv_trainer *trainer);
void gconv_ahead_free(gconv_ahead *ahead);

/* Copies the classes of the data, the name of their column, notes about the other columns, features and colours to the
 * network (trained.c). GCONV_BAD_ARGUMENT if the network already has different ones. */
gconv_status gconv_network_take_data(gconv_network *network, const gconv_dataset_info *info);

/* Computes mean and standard deviation of each channel over the cases, and stores them in the network (normalize.c). */
gconv_status gconv_network_normalize(gconv_network *network, const gconv_dataset *data);

/* Finds the scales of targets (scaled.c). *scales: an array for free(), or NULL if targets are not scaled. Warns of targets
 * that the last layer cannot yield. */
gconv_status gconv_target_scales_find(const gconv_learn_net *net, const gconv_dataset *data, gconv_target_scale **scales);
/* Makes a data set with scaled targets; `whole` and `scales` must outlive it. */
gconv_status gconv_dataset_scale(const gconv_dataset *whole, const gconv_target_scale *scales, gconv_dataset **made);
/* gconv_target_scales_give() converts parameters that yield scaled targets to parameters of a network.
 * gconv_target_scales_take() converts them back, unless the network was just made. */
void gconv_target_scales_give(const gconv_learn_net *net, const gconv_target_scale *scales, float *parameters);
void gconv_target_scales_take(const gconv_learn_net *net, const gconv_target_scale *scales, const gconv_network *network,
                              float *parameters);

/* Returns why training ends after the last complete epoch, or GCONV_ENDING_NONE, unless it has diverged. */
gconv_ending gconv_ending_of(const gconv_training_options *options, const gconv_training_state *state);

/* Restores a trainer that was just created from a checkpoint (checkpoint.c). */
gconv_status gconv_trainer_restore(gconv_trainer *trainer, const char *path);

/* Checks options (training_options.c). GCONV_BAD_ARGUMENT names the option that is wrong. */
gconv_status gconv_training_check(const gconv_training_options *options);
/* Returns the options with their defaults, for a data set of `cases` cases. */
gconv_training_options gconv_training_resolve(const gconv_training_options *given, size_t cases);
/* Returns the numbers of step `number`, counted from 1, after `epoch` whole epochs. */
gconv_learn_step gconv_training_step(const gconv_training_options *options, uint64_t epoch, uint64_t number);

/* Return the names that files have for these values. */
const char *gconv_optimizer_name(gconv_optimizer optimizer);
const char *gconv_schedule_name(gconv_schedule schedule);
const char *gconv_loss_name(gconv_loss loss);

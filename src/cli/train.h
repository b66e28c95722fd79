/* SPDX-License-Identifier: MIT */
/* A run of gconv train, as its reports tell of it. */
#ifndef GCONV_CLI_TRAIN_H
#define GCONV_CLI_TRAIN_H

#include "cli/learn.h"

typedef struct gconv_training_run {
  const gconv_settings *settings;
  gconv_data data;
  gconv_device *device;
  gconv_class_weight *weights; /* owned: of --weight */
  gconv_network network;       /* before training, then the trained one */
  gconv_epoch *epochs;         /* owned: those of this run */
  size_t epoch_count;
  gconv_epoch best;          /* the epoch of the best weights, if there is one in this run: else its number is 0 */
  size_t done;               /* epochs that are complete, those before --resume too */
  double seconds;            /* of training */
  const char *ended;         /* why, a sentence */
  bool diverged;             /* that is why */
  const char *chosen;        /* the algorithm and why; the trainer's */
  gconv_confusion confusion; /* of the validation, or of the data if there is none; of classes */
} gconv_training_run;

/* Writes the curves of loss and accuracy as SVG. `inside`: it is a part of a page of HTML. */
void gconv_train_draw(FILE *out, const gconv_training_run *run, bool inside);

/* Write a file whole or not at all. */
gconv_status gconv_train_write_plot(const gconv_training_run *run, const char *path);
gconv_status gconv_train_write_report(const gconv_training_run *run, const char *path);

#endif

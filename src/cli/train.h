/* SPDX-License-Identifier: MIT */
/* A run of gconv train. */
#pragma once

#include "bench/kernels.h"
#include "cli/learn.h"
#include "cli/telling.h"

typedef struct gconv_train_settings {
  gconv_common common;
  gconv_cases cases;
  const char *table, *classes, *signal; /* one of these names the data, or -i does */
  const char *net;
  const char *validate; /* "20%", or a file */
  gconv_training_options training;
  int epochs, patience; /* 0: not given */
  int normalize;        /* 0: not given, 1: yes, 2: no */
  int algorithm;        /* 0: auto, 1: exact */
  bool resume, profile;
} gconv_train_settings;

/* The data of a training. Zero-initialise before first use. */
typedef struct gconv_data {
  gconv_dataset *all;        /* all data that the options name */
  gconv_dataset *first;      /* the part that is learned, if a share of the data is for validation; else NULL */
  gconv_dataset *validation; /* the other part, or other data; NULL: there is no validation */
  gconv_texts paths;         /* paths of everything that is read */
} gconv_data;

typedef struct gconv_training_run {
  const gconv_train_settings *settings;
  gconv_data data;
  gconv_device *device;
  gconv_class_weight *weights; /* owned: of --weight */
  gconv_network network;       /* the network before training, then the trained one */
  gconv_epoch *epochs;         /* owned: the epochs of this run */
  size_t epoch_count;
  gconv_epoch best;            /* the epoch of the best weights in this run; its number is 0 if there is none */
  size_t done;                 /* complete epochs, also before --resume */
  double seconds;              /* seconds of training */
  const char *ended;           /* why training ended, a sentence */
  bool diverged;               /* training ended because it diverged */
  const char *chosen;          /* the algorithm and why; the trainer owns the text */
  gconv_kernel_times *kernels; /* owned: with --profile, all kernels that ran */
  size_t kernel_count;
  gconv_confusion confusion; /* with classes: of the validation, or of all data without one */
} gconv_training_run;

/* ---- train_data.c ---- */

/* Takes words that name data in place of --table, --classes, --signal, -i and -t. A second word names the targets. The first
 * word is, by the first line that applies:
 *
 *     a folder, without targets                          images by class
 *     with --windows                                     a signal
 *     a folder, a picture, or anything with --features   images, as of -i
 *     another file                                       a table */
gconv_status gconv_data_take_words(gconv_train_settings *settings, const gconv_texts *words);

/* Refuses options unless they name one kind of data. Puts its kind and its paths into settings->cases.data. */
gconv_status gconv_data_choose(gconv_train_settings *settings);

/* Opens the data that the options name. */
gconv_status gconv_data_open(const gconv_train_settings *settings, gconv_data *data);
/* Returns the cases that are learned. */
const gconv_dataset *gconv_data_cases(const gconv_data *data);
void gconv_data_close(gconv_data *data);

/* ---- train_plot.c, train_report.c ---- */

/* Writes the curves of loss and accuracy as SVG. `inside`: it is a part of a page of HTML. */
void gconv_train_draw(FILE *out, const gconv_training_run *run, bool inside);

/* For gconv_page_write(): the curves, and the page, of a gconv_training_run. */
void gconv_train_put_plot(FILE *out, const void *run);
void gconv_train_put_report(FILE *out, const void *run);

/* ---- train_profile.c ---- */

/* For --profile: begin to record kernels; end it, and draw the kernels beside --plot; report the kernels. */
gconv_status gconv_train_profile_begin(const gconv_training_run *run);
gconv_status gconv_train_profile_end(gconv_training_run *run);
void gconv_train_profile_tell(const gconv_telling *t, const gconv_training_run *run);

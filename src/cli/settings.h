/* SPDX-License-Identifier: MIT */
/* What the options of a command come to: the table of options says which option is stored where. */
#ifndef GCONV_CLI_SETTINGS_H
#define GCONV_CLI_SETTINGS_H

#include "bench/bench.h"
#include "cli/timings.h"
#include "gconv_classify.h"
#include "gconv_jobs.h"
#include "gconv_learn.h"

/* For requests that are wrong: the message says why. */
#define gconv_refuse(message, ...) gconv_complain(message, GCONV_BAD_ARGUMENT, __VA_ARGS__)
#define gconv_complain_memory(message) gconv_complain(message, GCONV_NO_MEMORY, "out of memory")

/* A value of --combine beyond gconv_combine: all maps of a bank as tiles of one picture. */
enum { GCONV_COMBINE_MOSAIC = GCONV_COMBINE_ARGMAX + 1 };

/* Values of --depth beyond gconv_type: f32 that files store otherwise. */
enum { GCONV_DEPTH_I16 = GCONV_F32 + 1, GCONV_DEPTH_F16 };

/* How --windows writes its rows of numbers. */
typedef enum gconv_rows_format { GCONV_ROWS_UNKNOWN, GCONV_ROWS_CSV, GCONV_ROWS_NPY, GCONV_ROWS_F32LE } gconv_rows_format;

/* Numbers with commas between; owned. */
typedef struct gconv_numbers {
  float *items;
  int count;
} gconv_numbers;

/* One layer of a job: plain filters, which may be stacked into a bank, or a bank, and how they are applied. */
typedef struct gconv_layer_settings {
  gconv_texts filters;
  const char *syntax; /* --filter-format; NULL: by content */
  gconv_layer layer;  /* its bank is NULL; its algorithm is the one given before the --then that ends it; "all" is a race */
} gconv_layer_settings;

/* Where train and classify get their cases, and how training goes. The main job takes windows and raw samples from it. */
typedef struct gconv_learn_settings {
  gconv_dataset_options data; /* what options set directly; kind and inputs follow from those below */
  const char *table, *classes, *signal;
  const char *targets;
  const char *raw; /* the samples of a signal */
  int missing;     /* 0: not given, 1: mean, 2: drop */

  const char *net;
  const char *validate;      /* "20%", or a file */
  gconv_texts class_weights; /* "CLASS:W" */
  gconv_training_options training;
  int epochs, patience, seed; /* 0: not given */
  uint64_t samples;           /* of pixels: how many are learned, at most; 0: not given */
  int normalize;              /* 0: not given, 1: yes, 2: no */
  int algorithm;              /* 0: auto, 1: exact */
  const char *plot, *report;
  bool evaluate;      /* classify */
  bool probabilities; /* of pixels, in place of classes */
} gconv_learn_settings;

/* Powers of two, with exponents from `first` to `last` in steps of `step`, which may be negative; 0: not given. */
typedef struct gconv_powers {
  double first, last, step;
} gconv_powers;

typedef struct gconv_svm_request {
  gconv_svm_options options; /* what options set directly */
  int folds;                 /* of cross-validation; 0: none */
  int shrinking;             /* 0: not given, 1: yes, 2: no */
  int scaling;               /* 0: not given, else gconv_svm_scaling + 1 */
  bool grid;
  gconv_powers grid_cost, grid_gamma;
} gconv_svm_request;

typedef struct gconv_settings {
  /* ---- The main job ---- */
  gconv_texts inputs;
  const char *files_from; /* a list of inputs; NULL: none */
  bool null_ends;         /* its names end with a 0 byte, not with their line */
  gconv_texts missed;     /* errors of names of the list that are no files */
  gconv_texts exclude;    /* patterns */
  bool recursive;
  gconv_naming naming;    /* without the names of filters */
  gconv_rows_format rows; /* of --format, where that is not for images */
  int depth;              /* a gconv_type, GCONV_DEPTH_I16 or _F16, or -1: as the input */
  int png_level;          /* -1: not given */

  gconv_layer_settings last;    /* the layer, or the filters, behind the last --then */
  gconv_layer_settings *before; /* those that a --then ended; owned */
  size_t before_count;
  const char *racers;   /* the algorithms of a race, with commas between; NULL: all */
  const char *of_banks; /* the first option given that only banks have, such as "batch"; NULL: none */
  int combine;          /* a gconv_combine, or GCONV_COMBINE_MOSAIC; -1: not given */
  int range;            /* a gconv_range, or -1: not given */
  gconv_numbers mean, std;
  int layout;         /* of arrays: 0 is N x C x H x W, 1 N x H x W x C */
  uint64_t workspace; /* bytes; 0: not given */

  gconv_batch job;               /* the fields that options set directly; job.c fills the others */
  gconv_options options;         /* of filters; pictures of banks use some of them */
  gconv_network_options network; /* of banks */

  gconv_area area;  /* --region; its mask is not set here */
  const char *mask; /* the path; NULL: not given */

  bool no_clobber, skip_existing, resume, dry_run;
  gconv_shard shard;
  int timings; /* a gconv_timings_style */
  bool verbose, quiet;
  bool border_given;

  bool no_sandbox;

  gconv_texts meanings; /* values that were given by synonyms, as they are called here */

  /* ---- Others ---- */
  const char *bank_format;    /* bank convert --format */
  const char *net;            /* bank convert --net; NULL: not given */
  gconv_bank_sheet sheet;     /* bank show */
  int sheet_scale;            /* 0: each filter by its own largest weight, 1: all by that of all */
  bool json;                  /* bank info, compare, fit, train, classify */
  double tolerance;           /* compare: the largest difference allowed, where 1 is white */
  gconv_bench_settings bench; /* bench */
  gconv_learn_settings learn; /* train, classify */
  gconv_svm_request svm;      /* svm */
  gconv_texts targets;        /* fit: the images after */
  gconv_fit fit;              /* fit: its size, bias, ridge */
  double holdout;             /* fit: the share that is held out; 0: none */
  bool show, forget, quick;   /* tune */
  int tune_threads;
} gconv_settings;

/* What holds where no option is given. */
gconv_settings gconv_settings_default(void);

/* Puts what was given of the layer so far aside, and begins the next. */
gconv_status gconv_settings_begin_layer(gconv_settings *settings, gconv_message *message);

/* Whether --algorithm all was given, which is no algorithm but a race of them. */
bool gconv_settings_want_race(const gconv_settings *settings);

/* Whether -f names a bank. */
bool gconv_settings_have_bank(const gconv_settings *settings);

/* Whether the job applies banks: because of its options, or because -f names one. */
bool gconv_settings_want_banks(const gconv_settings *settings);

/* GCONV_OK for "auto", "cpu", "cuda", "cuda:0", "cuda:0,2" and "cuda:all". */
gconv_status gconv_settings_check_device(const char *value, gconv_message *message);

/* Takes words that stand without an option for what the options of the main job have not named: FILTER INPUT... OUTPUT. On
 * failure the message says which word may mean different things, and how to say each. */
gconv_status gconv_settings_take_words(gconv_settings *settings, const gconv_texts *words, gconv_message *message);

/* Adds the names in the list of --files-from to the inputs; those that are no files to settings->missed. */
gconv_status gconv_settings_take_list(gconv_settings *settings, gconv_message *message);

/* Checks what the options of the main job come to together, and settles device and threads. */
gconv_status gconv_settings_finish(gconv_settings *settings, gconv_message *message);

/* How many threads the library will use where `wanted` are asked for (0: not given). Says so, unless `quiet`, if that is
 * fewer. */
int gconv_settle_threads(int wanted, bool quiet);

/* Frees what the settings own. */
void gconv_settings_free(gconv_settings *settings);

/* Whether a GPU can be used. */
bool gconv_has_gpu(void);

/* The device that did the work, and why. */
typedef struct gconv_chosen_device {
  char name[32], why[200];
} gconv_chosen_device;

/* Notes it. `why` NULL or "": it was asked for. */
void gconv_device_choose(gconv_chosen_device *chosen, const char *name, const char *why);
/* Tells of it, with -v. */
void gconv_device_tell(const gconv_settings *settings, const gconv_chosen_device *chosen);

/* Why it is the CPU, where any device will do and there is no other. */
#define GCONV_WHY_NO_GPU "there is no GPU that can be used"

#endif

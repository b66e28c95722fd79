/* SPDX-License-Identifier: MIT */
/* What the options of the main job come to. Its rows are in job_options.c; gconv classify, which makes maps by the main job,
 * has some of them, too, and its record begins with this one. */
#pragma once

#include "cli/common.h"
#include "cli/rows.h"
#include "cli/timings.h"

/* A value of --combine beyond gconv_combine: all maps of a bank as tiles of one picture. */
enum { GCONV_COMBINE_MOSAIC = GCONV_COMBINE_ARGMAX + 1 };

/* Values of --depth beyond gconv_type: f32 that files store otherwise. */
enum { GCONV_DEPTH_I16 = GCONV_F32 + 1, GCONV_DEPTH_F16 };

/* One layer of a job: plain filters, which may be stacked into a bank, or a bank, and how they are applied. */
typedef struct gconv_layer_settings {
  gconv_texts filters;
  const char *syntax; /* --filter-format; NULL: by content */
  gconv_layer layer;  /* its bank is NULL; its algorithm is the one given before the --then that ends it; "all" is a race */
} gconv_layer_settings;

typedef struct gconv_job_settings {
  gconv_common common;
  const char *files_from; /* a list of inputs; NULL: none */
  bool null_ends;         /* its names end with a 0 byte, not with their line */
  gconv_texts missed;     /* errors of names of the list that are no files */
  gconv_texts exclude;    /* patterns */
  gconv_naming naming;    /* without the output and the names of filters */
  gconv_rows_format rows; /* of --format, where that is not for images */
  int depth;              /* a gconv_type, GCONV_DEPTH_I16 or _F16, or -1: as the input */
  int png_level;          /* -1: not given */

  gconv_layer_settings last;    /* the layer, or the filters, behind the last --then */
  gconv_layer_settings *before; /* those that a --then ended; owned */
  size_t before_count;
  const char *racers;   /* the algorithms of a race, with commas between; NULL: all */
  const char *of_banks; /* the first option given that only banks have, such as "batch"; NULL: none */
  const char *of_maps; /* the first option given that is for results that are pictures, which classify has too; NULL: none */
  int combine;         /* a gconv_combine, or GCONV_COMBINE_MOSAIC; -1: not given */
  int range;           /* a gconv_range, or -1: not given */
  gconv_numbers mean, std;
  int layout;         /* of arrays: 0 is N x C x H x W, 1 N x H x W x C */
  uint64_t workspace; /* bytes; 0: not given */

  gconv_batch job;               /* the fields that options set directly; job.c fills the others, and those of `common` */
  gconv_given_border border;     /* of filters, as the next */
  gconv_options options;         /* pictures of banks use some of them */
  gconv_network_options network; /* of banks */

  gconv_area area;  /* --region; its mask is not set here */
  const char *mask; /* the path; NULL: not given */

  bool skip_existing, resume, dry_run;
  gconv_shard shard;
  int timings; /* a gconv_timings_style */

  gconv_windows windows; /* of a signal, as the next */
  const char *raw;       /* its samples; NULL: not given */
  bool probabilities;    /* of pixels, in place of classes */

  gconv_texts meanings; /* of $GCONV_DEVICE, as it is called here */
} gconv_job_settings;

extern const gconv_option gconv_job_options[];

/* Of a row: its option is noted in this field, of several the first. */
#define GCONV_NOTED(field_) .noted = offsetof(gconv_job_settings, field_)

/* A row that stands in other places of the two tables. */
#define GCONV_PROBABILITIES_ROW(record_, field_)                                                                            \
  GCONV_OPTION(                                                                                                             \
      record_, 0, "probabilities", NULL, flag, field_, .changes_results = true, .also = "proba", GCONV_NOTED(of_maps),      \
      .help = "of pixels: write the probability of each class, as .npy or as pictures, in place of maps of classes")

/* For gconv_command: sets what holds where no option is given; frees what the rows of options do not. */
void gconv_job_settings_begin(void *settings);
void gconv_job_settings_end(void *settings);

/* Puts what was given of the layer so far aside, and begins the next. */
gconv_status gconv_job_settings_begin_layer(gconv_job_settings *settings);

/* Stage number `index`: one that a --then ended, or the last. */
const gconv_layer_settings *gconv_job_settings_stage(const gconv_job_settings *settings, size_t index);

/* Whether --algorithm all was given, which is no algorithm but a race of them. */
bool gconv_job_settings_want_race(const gconv_job_settings *settings);

/* Whether -f names a bank. */
bool gconv_job_settings_have_bank(const gconv_job_settings *settings);

/* Whether the job applies banks: because of its options, or because -f names one. */
bool gconv_job_settings_want_banks(const gconv_job_settings *settings);

/* Takes the names in the list of --files-from, and words that stand without an option for what the options of the main job
 * have not named: FILTER INPUT... OUTPUT. On failure gconv_last_error() says which word may mean different things, and how
 * to say each. */
gconv_status gconv_job_settings_take_words(gconv_job_settings *settings, const gconv_texts *words);

/* Checks what the options of the main job come to together, and settles device and threads. */
gconv_status gconv_job_settings_finish(gconv_job_settings *settings);

/* SPDX-License-Identifier: MIT */
/* The settings of the main job, which its options set (job_options.c). gconv classify makes maps by the main job: it has
 * some of these options, and its record begins with this one. */
#pragma once

#include "cli/job_holes.h"
#include "cli/rows.h"
#include "cli/timings.h"

/* A value of --combine besides gconv_combine: all maps of a bank as tiles of one picture. */
enum { GCONV_COMBINE_MOSAIC = GCONV_COMBINE_ARGMAX + 1 };

/* Values of --depth besides gconv_type: f32 that files store as int16 or float16. */
enum { GCONV_DEPTH_I16 = GCONV_F32 + 1, GCONV_DEPTH_F16 };

/* One layer of a job: plain filters, which may be stacked into a bank, or a bank, and how they are applied. */
typedef struct gconv_layer_settings {
  gconv_texts filters;
  const char *syntax; /* --filter-format; NULL: by content */
  gconv_layer layer;  /* its bank is NULL; its algorithm is the one given before the next --then; "all" is a race */
} gconv_layer_settings;

typedef struct gconv_job_settings {
  gconv_common common;
  const char *files_from; /* a list of inputs; NULL: none */
  bool null_ends;         /* names in this list end with a 0 byte, not with a line */
  gconv_texts missed;     /* errors: names in the list that are no files */
  gconv_texts exclude;    /* patterns */
  gconv_naming naming;    /* its output and its names of filters are set later */
  gconv_rows_format rows; /* of --format, if it names a format of rows */
  int depth;              /* a gconv_type, GCONV_DEPTH_I16 or _F16, or -1: as the input */
  int png_level;          /* -1: not given */

  gconv_layer_settings last;    /* the layer, or the filters, after the last --then */
  gconv_layer_settings *before; /* owned: the layers before each --then */
  size_t before_count;
  const char *racers;   /* the algorithms of a race, with commas between; NULL: all */
  const char *of_banks; /* the first option given that only banks have, such as "batch"; NULL: none */
  const char *of_maps;  /* the first option given that classify has for results that are pictures; NULL: none */
  int combine;          /* a gconv_combine, or GCONV_COMBINE_MOSAIC; -1: not given */
  int range;            /* a gconv_range, or -1: not given */
  gconv_numbers mean, std;
  double white;            /* of networks; NaN: not given */
  bool luma, normalize;    /* normalize: filters are divided by the sum of their taps */
  int order;               /* gconv_colour_order */
  const char *output_name; /* the output of a network that is wanted; NULL: not given */
  int layout;              /* layout of arrays: 0 is N x C x H x W, 1 N x H x W x C */
  uint64_t workspace;      /* bytes; 0: not given */

  gconv_batch job;               /* options set some fields; job.c sets the others, also from `common` */
  gconv_given_border border;     /* of filters */
  gconv_options options;         /* of filters; pictures of banks use some of them */
  gconv_network_options network; /* options of banks */

  gconv_area area;  /* --region; its mask is not set here */
  const char *mask; /* the path; NULL: not given */
  gconv_hole_options holes;

  bool skip_existing, newer, resume, dry_run;
  gconv_shard shard;
  int timings; /* a gconv_timings_style */

  gconv_windows windows; /* of a signal */
  const char *raw;       /* --raw: samples of a signal, or size and samples of images; NULL: not given */
  bool probabilities;    /* for pixels: probabilities instead of classes */
  const char *truth;     /* masks that maps of classes are compared with, which no result may replace; NULL: none */

  gconv_texts meanings; /* owned: the value that $GCONV_DEVICE means */
} gconv_job_settings;

extern const gconv_option gconv_job_options[];

/* For a row: the name of the first option given that has this field here is stored in the field. */
#define GCONV_NOTED(field_) .noted = offsetof(gconv_job_settings, field_)

/* A row that the tables of filter and classify have in different places. */
#define GCONV_PROBABILITIES_ROW(record_, field_)                                                                            \
  GCONV_OPTION(                                                                                                             \
      record_, 0, "probabilities", NULL, flag, field_, .changes_results = true, .also = "proba", GCONV_NOTED(of_maps),      \
      .help = "of pixels: write the probability of each class, as .npy or as pictures, in place of maps of classes")

/* For gconv_command: set the defaults of options, and free fields that options do not free. */
void gconv_job_settings_begin(void *settings);
void gconv_job_settings_end(void *settings);

/* Ends the current layer, and begins the next. */
gconv_status gconv_job_settings_begin_layer(gconv_job_settings *settings);

/* Returns stage number `index`: one before a --then, or the last. */
const gconv_layer_settings *gconv_job_settings_stage(const gconv_job_settings *settings, size_t index);

/* True if --algorithm all was given: a race of algorithms. */
bool gconv_job_settings_want_race(const gconv_job_settings *settings);

/* True if -f names a bank. */
bool gconv_job_settings_have_bank(const gconv_job_settings *settings);

/* True if the job applies banks: because of its options, or because -f names one. */
bool gconv_job_settings_want_banks(const gconv_job_settings *settings);

/* Takes the names in the list of --files-from. Takes words without an option as FILTER INPUT... OUTPUT, but for those of the
 * three that options have named. The error for a word with several possible meanings says how to write each. */
gconv_status gconv_job_settings_take_words(gconv_job_settings *settings, const gconv_texts *words);

/* Checks whether the options fit together, and chooses device and threads. */
gconv_status gconv_job_settings_finish(gconv_job_settings *settings);

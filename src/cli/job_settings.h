/* SPDX-License-Identifier: MIT */
/* The settings of the main job, made of its options (job_options.c). gconv classify makes maps by the main job, has some of
 * these options, and a record that begins with this one. */
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
  gconv_layer layer;  /* its bank is NULL; its algorithm, if given before the next --then; "all" is a race */
} gconv_layer_settings;

typedef struct gconv_job_settings {
  gconv_common common;
  const char *files_from; /* a list of inputs; NULL: none */
  bool null_ends;         /* names in this list end with a 0 byte, not with a line */
  gconv_texts missed;     /* errors: names in the list that are no files */
  gconv_texts exclude;    /* patterns */
  gconv_naming naming;    /* without the output and the names of filters */
  gconv_rows_format rows; /* the format of rows by --format, if that is not for images */
  int depth;              /* a gconv_type, GCONV_DEPTH_I16 or _F16, or -1: as the input */
  int png_level;          /* -1: not given */

  gconv_layer_settings last;    /* the layer, or the filters, after the last --then */
  gconv_layer_settings *before; /* owned: the layers before each --then */
  size_t before_count;
  const char *racers;   /* the algorithms of a race, with commas between; NULL: all */
  const char *of_banks; /* the first option given that only banks have, such as "batch"; NULL: none */
  const char *of_maps; /* the first option given that is for results that are pictures, which classify has too; NULL: none */
  int combine;         /* a gconv_combine, or GCONV_COMBINE_MOSAIC; -1: not given */
  int range;           /* a gconv_range, or -1: not given */
  gconv_numbers mean, std;
  double white; /* of networks; NaN: not given */
  bool luma;
  int order;               /* gconv_colour_order */
  const char *output_name; /* the output of a network that is wanted; NULL: not given */
  int layout;              /* layout of arrays: 0 is N x C x H x W, 1 N x H x W x C */
  uint64_t workspace;      /* bytes; 0: not given */

  gconv_batch job;               /* options set some fields; job.c sets the others, also from `common` */
  gconv_given_border border;     /* border of filters; so is the next field */
  gconv_options options;         /* pictures of banks use some of them */
  gconv_network_options network; /* options of banks */

  gconv_area area;  /* --region; its mask is not set here */
  const char *mask; /* the path; NULL: not given */
  gconv_hole_options holes;

  bool skip_existing, newer, resume, dry_run;
  gconv_shard shard;
  int timings; /* a gconv_timings_style */

  gconv_windows windows; /* for signals; so is the next field */
  const char *raw;       /* its samples; NULL: not given */
  bool probabilities;    /* for pixels: probabilities instead of classes */

  gconv_texts meanings; /* owned: the value that $GCONV_DEVICE means */
} gconv_job_settings;

extern const gconv_option gconv_job_options[];

/* For a row: notes its option in this field, if it is the first such option. */
#define GCONV_NOTED(field_) .noted = offsetof(gconv_job_settings, field_)

/* A row that the two tables have in different places. */
#define GCONV_PROBABILITIES_ROW(record_, field_)                                                                            \
  GCONV_OPTION(                                                                                                             \
      record_, 0, "probabilities", NULL, flag, field_, .changes_results = true, .also = "proba", GCONV_NOTED(of_maps),      \
      .help = "of pixels: write the probability of each class, as .npy or as pictures, in place of maps of classes")

/* For gconv_command: sets the defaults of options; frees what options do not own. */
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

/* Takes the names in the list of --files-from. Takes words without an option for what no option has named: FILTER INPUT...
 * OUTPUT. If a word may mean different things, gconv_last_error() names it, and says how to write each. */
gconv_status gconv_job_settings_take_words(gconv_job_settings *settings, const gconv_texts *words);

/* Checks whether the options fit together, and chooses device and threads. */
gconv_status gconv_job_settings_finish(gconv_job_settings *settings);

/* SPDX-License-Identifier: MIT */
/* The options of the main job, as they were given, and what they come to. */
#ifndef GCONV_CLI_SETTINGS_H
#define GCONV_CLI_SETTINGS_H

#include "batch/pipeline.h"
#include "batch/texts.h"

typedef enum gconv_timings_style { GCONV_TIMINGS_NONE, GCONV_TIMINGS_TABLE, GCONV_TIMINGS_JSON } gconv_timings_style;

/* What belongs to one layer: moved here when --then begins the next. */
typedef struct gconv_layer_settings {
  gconv_texts filters;
  const char *syntax;
  gconv_layer layer; /* without its bank */
} gconv_layer_settings;

/* Enumerations are int here, for gconv_option_choice. */
typedef struct gconv_settings {
  gconv_texts inputs, filters;
  bool recursive;
  const char *syntax; /* --filter-format; NULL: by content */
  const char *output;
  const gconv_format_info *format; /* --format; NULL: by name */
  int depth;                       /* a gconv_type, or -1: as the input */

  gconv_options convolution; /* without what is below; complete after gconv_settings_finish() */
  int alpha, range;

  gconv_layer_settings *layers; /* those before the last, whose filters and syntax are above; owned */
  size_t layer_count;
  gconv_layer layer;       /* of the last one: what was given of it */
  const char *bank_option; /* the name of an option that was given and only banks have; NULL: none */
  bool mosaic, tone_given; /* --combine mosaic; --range */
  float *mean, *std;       /* owned */
  int mean_count, std_count, math, batch;
  bool nhwc;

  bool race;            /* --algorithm all: the fastest is to be found out */
  bool algorithm_given; /* for the layer at hand; before --then for that one alone */

  const char *device;
  int decode;         /* a gconv_decoder */
  bool cpu_may_begin; /* then, as no device was asked for: gconv_batch */
  int threads, jobs;
  uint64_t memory; /* 0: not given */
  uint64_t max_pixels;
  int png_level;    /* -1: not given */
  int jpeg_quality; /* 0: not given */

  bool no_clobber, skip_existing, resume, fail_fast, dry_run;
  gconv_shard shard;
  int timings;
  bool verify;
  double tolerance;
  bool explain, verbose, quiet;
} gconv_settings;

/* What holds where no option is given. */
gconv_settings gconv_settings_default(void);

/* Sets the device to what -d or $GCONV_DEVICE says, a text that is to live as long as the settings: "auto", "cpu", "cuda",
 * "cuda:0", "cuda:0,2" or "cuda:all". GCONV_BAD_ARGUMENT for anything else. */
gconv_status gconv_settings_take_device(gconv_settings *settings, const char *value, gconv_message *message);

/* Completes settings->convolution and settings->device, and checks what the options come to together. */
gconv_status gconv_settings_finish(gconv_settings *settings, gconv_message *message);

/* Whether the job applies banks: because of its options, or because -f names one. */
bool gconv_settings_want_banks(const gconv_settings *settings);

/* Frees what the settings own. */
void gconv_settings_free(gconv_settings *settings);

#endif

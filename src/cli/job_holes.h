/* SPDX-License-Identifier: MIT */
/* Missing samples and weights: options of the main job, and reading the pictures that options name (job_holes.c). --weights
 * and --nodata are only for the first stage of a chain. */
#pragma once

#include "cli/common.h"

typedef struct gconv_hole_options {
  int nan;             /* a gconv_nan */
  const char *weights; /* the path; NULL: not given */
  const char *nodata;  /* a number, or "nan"; NULL: not given */
  bool preserves;
  double least_weight; /* 0: the default */
} gconv_hole_options;

extern const gconv_synonym gconv_nan_words[]; /* of --nan */

/* The rows of the table of options (job_options.c). `of_each`: help on weights of each image, or "". */
#define GCONV_MASK_ROW                                                                                                      \
  OPTION(0, "mask", "FILE", once, mask, KEEPS, .near = "alpha-mask",                                                        \
         .help = "filter only where this image, which is as large as the inputs, is white: grey blends the result with "    \
                 "the input, black keeps the input; its alpha counts too; 'masks/{stem}.png' is a mask for each image")
#define GCONV_HOLE_ROWS(of_each)                                                                                            \
  OPTION(0, "nan", "MODE", word, holes.nan, CHANGES, .near = "missing nan-treatment invalid", /* gconv_nan */               \
         .words = "keep|skip|fill|zero", .synonyms = gconv_nan_words,                                                       \
         .help = "what becomes of NaN and infinities: keep (default: they spread), skip (sums leave them out, with their "  \
                 "taps, and they stay missing), fill (sums leave them out and fill their places), or zero"),                \
      OPTION(0, "weights", "FILE", once, holes.weights, KEEPS, .near = "confidence weight",                                 \
             .help = "the weight of each pixel, an image as large as the inputs: a mask, or confidence; a result is the "   \
                     "sum of weighted samples over the sum of their weights" of_each),                                      \
      OPTION(0, "nodata", "V", text, holes.nodata, CHANGES, .near = "blank no-data fill-value",                             \
             .help = "samples of this value (0 .. 255, 0 .. 65535, or a float) are missing, as where a GeoTIFF says so"),   \
      OPTION(0, "preserve-nan", NULL, flag, holes.preserves, CHANGES,                                                       \
             .help = "what is missing stays missing in the result, with any --nan"),                                        \
      OPTION(0, "least-weight", "SHARE", number, holes.least_weight, CHANGES,                                               \
             .help = "a result is missing where less than this share of the taps' weight lies on samples; default: 1/1024")

/* Refuses wrong values, and these options if `of_networks`: if no stage is plain filters. */
gconv_status gconv_hole_options_check(const gconv_hole_options *holes, bool of_networks);

/* Returns whether sums leave missing samples out, and with them the outside of the image, unless a border is given. */
bool gconv_hole_options_leave_out(const gconv_hole_options *holes);

/* Sets these options for stage number `stage` of a chain. `weights`: the picture, which has no pixels if none is given. */
void gconv_hole_options_apply(const gconv_hole_options *holes, const gconv_image *weights, bool border_given, size_t stage,
                              gconv_options *options);

/* Reads a picture that an option names, within --memory. */
gconv_status gconv_read_picture(const gconv_common *common, const char *option, const char *path, gconv_image *image);

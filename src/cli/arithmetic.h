/* SPDX-License-Identifier: MIT */
/* Stages of arithmetic: -f names an operation and a second image. */
#pragma once

#include "cli/common.h"
#include "gconv_science.h"

/* The arithmetic of a stage. */
typedef struct gconv_stage_arithmetic {
  bool given;
  const char *statistic; /* the name of a local statistic, whose window is the stage's filter; NULL: none */
  gconv_arithmetic kind;
  double amount;
  char *path;        /* owned: "input", or a file */
  gconv_image other; /* owned: the second image, if it is a file; without pixels if it is the input */
} gconv_stage_arithmetic;

/* True if the word of -f is arithmetic: "subtract:input". Sets its kind. */
bool gconv_word_is_arithmetic(const char *word, gconv_arithmetic *kind);

/* If the words of -f of a stage are arithmetic, or a local statistic such as "std:size=5", fills *a. Appends the filter that
 * stands for the stage: the identity, or the box that is the window. */
gconv_status gconv_stage_read_arithmetic(const gconv_common *common, const gconv_texts *words, gconv_stage_arithmetic *a,
                                         gconv_filters *filters);

/* Makes the operation of a stage of filters, or of a local statistic. */
gconv_status gconv_stage_make_filters(const gconv_stage_arithmetic *a, const gconv_filters *filters,
                                      const gconv_options *options, bool border_given, gconv_operation **operation);

/* Replaces the stages by one, which computes with the result of their chain. */
gconv_status gconv_stages_compute(gconv_operation **stages, size_t *count, const gconv_stage_arithmetic *a);

void gconv_stage_free_arithmetic(gconv_stage_arithmetic *a);

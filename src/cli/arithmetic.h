/* SPDX-License-Identifier: MIT */
/* Arithmetic between --thens: a stage whose -f is the name of an operation, and a second image. */
#pragma once

#include "cli/common.h"
#include "gconv_science.h"

/* The arithmetic of a stage. */
typedef struct gconv_stage_arithmetic {
  bool given;
  const char *statistic; /* the name of a local statistic, whose window is the stage's filter; NULL: the stage is of none */
  gconv_arithmetic kind;
  double amount;
  char *path;        /* owned: "input", or a file */
  gconv_image other; /* owned: the file's; without pixels: the input */
} gconv_stage_arithmetic;

/* True if the word of -f is arithmetic: "subtract:input". Sets its kind. */
bool gconv_word_is_arithmetic(const char *word, gconv_arithmetic *kind);

/* If the words of -f of a stage are arithmetic, or a local statistic, "std:size=5", fills *a, and appends the filter that
 * stands for it: the identity, or the box that is its window. */
gconv_status gconv_stage_read_arithmetic(const gconv_common *common, const gconv_texts *words, gconv_stage_arithmetic *a,
                                         gconv_filters *filters);

/* Makes the operation of a stage of filters: of a local statistic, if the stage is one. */
gconv_status gconv_stage_make_filters(const gconv_stage_arithmetic *a, const gconv_filters *filters,
                                      const gconv_options *options, bool border_given, gconv_operation **operation);

/* Replaces the stages by one, which computes with the result of their chain. */
gconv_status gconv_stages_compute(gconv_operation **stages, size_t *count, const gconv_stage_arithmetic *a);

void gconv_stage_free_arithmetic(gconv_stage_arithmetic *a);

/* SPDX-License-Identifier: MIT */
/* What gconv classify --evaluate finds: cases that were taken for wrong classes, and the page of --report. */
#pragma once

#include "cli/predict.h"

#include <stdio.h>

/* A case that was taken for a wrong class. */
typedef struct gconv_mistake {
  char *name; /* owned: the number of a case, or the path of an image */
  size_t class, taken_for;
  double certainty; /* how sure the model was; NAN: not known */
} gconv_mistake;

enum { GCONV_MISTAKES = 20 };

/* The mistakes that the model was surest of; if equally sure, the first. Zero-initialise before first use. */
typedef struct gconv_mistakes {
  gconv_mistake items[GCONV_MISTAKES];
  size_t count;
} gconv_mistakes;

/* Adds a mistake if it is among the surest. The name is copied. */
gconv_status gconv_mistakes_add(gconv_mistakes *mistakes, const char *name, size_t class, size_t taken_for,
                                double certainty);
void gconv_mistakes_free(gconv_mistakes *mistakes);

/* What the page shows. */
typedef struct gconv_evaluation_page {
  const char *model, *input, *unit; /* two paths; the word for a case: "case", "image", "labelled pixel" */
  const gconv_confusion *found;
  const uint8_t *colours; /* colours of the classes, R G B each; NULL: they have none */
  const gconv_mistakes *mistakes;
  bool pictures;                       /* names of mistakes are paths of images, which are shown */
  void (*more)(FILE *out, void *user); /* writes the rest of the page; NULL: nothing */
  void *user;
} gconv_evaluation_page;

/* Checks the path of --report, which may be NULL. Refuses it without --evaluate, if it is no page of HTML, if it cannot be
 * written, or if it would replace one of the files `read`. */
gconv_status gconv_evaluation_check_report(const char *path, bool evaluates, const gconv_texts *read);

/* Writes the page whole or not at all. */
gconv_status gconv_evaluation_write(const char *path, const gconv_evaluation_page *page);

/* Makes a small picture, RGB in u8, of one frame of an image of any type: a pixel is the mean of step x step. White is 1. */
gconv_status gconv_evaluation_shrink(const gconv_image *image, int32_t step, gconv_image *small);

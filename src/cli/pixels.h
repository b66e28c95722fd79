/* SPDX-License-Identifier: MIT */
/* gconv classify, of networks and support vector machines that name the class of each pixel. */
#pragma once

#include "cli/classify.h"
#include "cli/job_settings.h"

typedef struct gconv_classify_settings {
  gconv_job_settings job; /* of maps */
  gconv_cases cases;
  bool evaluate;
} gconv_classify_settings;

/* Makes maps of classes of the inputs, as the main job does, and compares them with masks if that is asked for. The first
 * word is the model; with --evaluate, a second one names the masks. Returns what the program ends with. */
int gconv_classify_pixels(gconv_classify_settings *settings, const gconv_texts *words);

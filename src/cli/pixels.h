/* SPDX-License-Identifier: MIT */
/* gconv classify, of networks and support vector machines that name the class of each pixel. */
#pragma once

#include "cli/common.h"

/* What is wanted. */
typedef struct gconv_pixels_task {
  struct gconv_job_settings *job; /* that makes the maps, as the main job does, if there is an output */
  const gconv_common *common;     /* of the job */
  const char *model;              /* the path of the network or machine */
  const char *masks;              /* what maps are compared with, a file or a folder; NULL: with nothing */
  bool dry_run;
} gconv_pixels_task;

/* Makes maps of classes, or compares them with masks, or both. Returns what the program ends with. */
int gconv_classify_pixels(const gconv_pixels_task *task);

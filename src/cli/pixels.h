/* SPDX-License-Identifier: MIT */
/* gconv classify, of networks and support vector machines that name the class of each pixel. */
#pragma once

#include "cli/common.h"

/* What the command line asks for. */
typedef struct gconv_pixels_task {
  struct gconv_job_settings *job; /* the main job that makes the maps, if there is an output */
  const gconv_common *common;     /* the common settings of the job */
  const char *model;              /* the path of the network or machine */
  const char *masks;              /* masks to compare maps with, a file or a folder; NULL: none */
  bool dry_run;
} gconv_pixels_task;

/* Makes maps of classes, or compares them with masks, or both. Returns the exit status. */
int gconv_classify_pixels(const gconv_pixels_task *task);

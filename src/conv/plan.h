/* SPDX-License-Identifier: MIT */
/* What a plan holds, and what its files offer each other. */
#ifndef GCONV_CONV_PLAN_H
#define GCONV_CONV_PLAN_H

#include "conv/device.h"

/* plan_check.c says what cannot be, plan.c makes plans, plan_execute.c executes them, plan_rows.c by rows; explain.c and
 * verify.c tell of them. */
struct gconv_plan {
  gconv_device *device;
  gconv_options options; /* as asked for, the names of algorithms owned */
  gconv_image like;      /* header of the inputs */
  gconv_image convolved; /* header of what is convolved, after the stage before */
  bool before, after;    /* whether there are these stages */
  gconv_filters filters; /* copies, as asked for */
  gconv_pass *passes;
  size_t pass_count;
  size_t output_count;
  gconv_image *outputs;     /* headers of the outputs */
  gconv_image *raw_outputs; /* headers of what the convolution yields: the same but for the type */
  void *run;                /* of the device */
  gconv_plan_info info;
  char *reasons; /* why these algorithms: lines of text */
};

/* As gconv_plan_create(), but without what executions need: for what can be told of a plan, and for gconv_plan_free(). */
gconv_status gconv_plan_outline(gconv_device *device, const gconv_image *like, const gconv_filters *filters,
                                const gconv_options *options, gconv_plan **plan);

/* GCONV_BAD_ARGUMENT for images, filters and options that no plan can be made of. */
gconv_status gconv_plan_check(const gconv_image *like, const gconv_filters *filters, const gconv_options *options);

/* Allocates *image (empty) as the header says, or checks that it has that shape. `what` is for the error: "output 2". */
gconv_status gconv_plan_fit_image(const gconv_image *header, const char *what, gconv_image *image);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What a plan does on the host around the convolution itself, where the options ask for it:
 *
 *   before: no alpha, grey, linear light, premultiplied alpha
 *   after:  division by alpha, scale and offset, abs, the sRGB curve, minmax or signed range, the type of the output
 *
 * If nothing of this is asked for, the convolution reads the image and writes the outputs itself, with no copy between. If a
 * stage after is needed, the convolution yields raw responses in f32, and everything behind them happens here.
 */
#ifndef GCONV_CONV_STAGES_H
#define GCONV_CONV_STAGES_H

#include "base/threads.h"
#include "gconv.h"

/* Whether images like `like` need a stage before and one after. */
bool gconv_needs_before(const gconv_image *like, const gconv_options *options);
bool gconv_needs_after(const gconv_image *like, const gconv_options *options);

/* *header = what is convolved: `like` as the stage before leaves it, without pixels. GCONV_BAD_ARGUMENT for images that have
 * no grey. */
gconv_status gconv_before_header(const gconv_image *like, const gconv_options *options, gconv_image *header);

/* Fills `out`, allocated as its header says. */
gconv_status gconv_run_before(gconv_threads *threads, const gconv_options *options, const gconv_image *in, gconv_image *out);

/* The options of the convolution between the stages. */
gconv_options gconv_core_options(const gconv_image *like, const gconv_options *options);

/* Turns raw responses (f32; destroyed) into the finished output of the same shape. */
gconv_status gconv_run_after(gconv_threads *threads, const gconv_options *options, gconv_image *raw, gconv_image *out);

#endif

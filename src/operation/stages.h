/* SPDX-License-Identifier: MIT */
/*
 * The stages of a plan on the host before and after the convolution, if the options ask for them:
 *
 *   before: no alpha, grey, mixed channels, linear light, premultiplied alpha
 *   after:  division by alpha, scale and offset, abs, the sRGB curve, minmax or signed range, the type of the output
 *
 * Without these stages, the convolution itself reads the image and writes the outputs, and nothing is copied. If the stage
 * after is needed, the convolution yields raw responses in f32, and that stage makes the outputs of them. Plans refuse
 * planar images with alpha, so the stages never see one.
 */
#pragma once

#include "base/threads.h"
#include "gconv.h"

/* gconv_needs_before() returns whether images like `like` need the stage before, and gconv_needs_after() whether they need
 * the stage after. */
bool gconv_needs_before(const gconv_image *like, const gconv_options *options);
bool gconv_needs_after(const gconv_image *like, const gconv_options *options);

/* Sets *header to the header of the image that is convolved: `like` after the stage before. Fails with GCONV_BAD_ARGUMENT if
 * an image cannot become grey. */
gconv_status gconv_before_header(const gconv_image *like, const gconv_options *options, gconv_image *header);

/* Runs the stage before on a whole image, or on some of its rows. *out becomes an image like `header` with as many rows as
 * `in`; free it with gconv_image_free(). On failure it has no pixels. */
gconv_status gconv_run_before(gconv_threads *threads, const gconv_options *options, const gconv_image *header,
                              const gconv_image *in, gconv_image *out);

/* Returns the options of the convolution between the stages. */
gconv_options gconv_core_options(const gconv_image *like, const gconv_options *options);

/* Runs the stage after, which makes the finished output of raw responses in f32. The shape is the same. Overwrites `raw`. */
gconv_status gconv_run_after(gconv_threads *threads, const gconv_options *options, gconv_image *raw, gconv_image *out);

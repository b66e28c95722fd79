/* SPDX-License-Identifier: MIT */
/* Looks at samples before they are filtered: for NaN and infinities, which integers cannot hold, and for colours of
 * transparent pixels, which nobody sees. */
#ifndef GCONV_IMAGE_LOOK_H
#define GCONV_IMAGE_LOOK_H

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

/* What to look for in an image, and what was found there. Set `numbers` and `colours`; begin the other fields with zeros. */
typedef struct gconv_look {
  bool numbers;     /* look for NaN and infinities; only f32 has such */
  bool colours;     /* look for transparent pixels beside opaque ones of another colour; only images with alpha have such */
  uint64_t samples; /* samples that were looked at */
  uint64_t nans;    /* samples that are NaN */
  uint64_t infinities; /* samples that are infinite */
  int bleeds;          /* 1: some transparent pixels beside opaque ones have another colour */
} gconv_look;

/* Looks at the rows of `image` from `first` on; those before were looked at before. An opaque image costs a look at its
 * alpha, one without alpha nothing. */
void gconv_look_at(gconv_look *look, const gconv_image *image, int32_t first, gconv_threads *threads);

/* Adds what another look found. */
void gconv_look_add(gconv_look *sum, const gconv_look *other);

/* Warns of NaN and infinities that become black or white, once a run, of the image at `path`. NULL: each time, of an image
 * of the caller. */
void gconv_look_warn_of_numbers(const gconv_look *look, const char *path);

GCONV_C_END
#endif

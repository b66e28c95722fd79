/* SPDX-License-Identifier: MIT */
/* Looks at samples before they are filtered: for NaN and infinities, which integers cannot hold, and for colours of
 * transparent pixels, which nobody sees. */
#pragma once

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

/* What to look for in an image, and what was found there. Set `numbers` and `colours`; begin the other fields with zeros. */
typedef struct gconv_look {
  bool numbers;     /* look for NaN and infinities; only f32 has them */
  bool colours;     /* look for transparent pixels beside opaque ones of another colour; only images with alpha have them */
  uint64_t samples; /* samples that were looked at */
  uint64_t nans;    /* samples that are NaN */
  uint64_t infinities; /* samples that are infinite */
  int bleeds;          /* 1: some transparent pixels beside opaque ones have another colour */
} gconv_look;

/* Looks at the rows of `image` from `first` on; earlier calls have looked at the rows before. When it looks for colours, it
 * only reads alpha of an opaque image, and nothing of an image without alpha. */
void gconv_look_at(gconv_look *look, const gconv_image *image, int32_t first, gconv_threads *threads);

/* Adds what `other` found to *sum. */
void gconv_look_add(gconv_look *sum, const gconv_look *other);

/* Warns, once a run, of NaN and infinities of the image at `path` that become black or white. If `path` is NULL, the image
 * is the caller's, and each call warns. */
void gconv_look_warn_of_numbers(const gconv_look *look, const char *path);

GCONV_C_END

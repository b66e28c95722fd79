/* SPDX-License-Identifier: MIT */
/* A picture with the classes of its pixels drawn over it, for reports. */
#pragma once

#include "gconv.h"

#include <stdio.h>

/* What is drawn. Map and mask have the same size, and a number for each pixel, u8 or u16; a channel of alpha may follow. */
typedef struct gconv_overlay {
  const char *path;         /* path of the picture */
  uint64_t labelled, wrong; /* pixels that the mask labels, and those that the map labels otherwise */
  const gconv_image *map, *mask;
  const int32_t *classes; /* the class of each number */
  const uint8_t *colours; /* colours of the classes, R G B each */
} gconv_overlay;

/* Returns the number of a pixel of a map or a mask. */
unsigned gconv_overlay_number(const gconv_image *image, int32_t y, int32_t x);

/* Puts the picture, the truth, the prediction and the errors into a page of HTML, side by side and small. A picture that
 * cannot be read any more is left out. */
void gconv_overlay_put(FILE *out, const gconv_overlay *overlay);

/* SPDX-License-Identifier: MIT */
/* Cases drawn by lot, from awkward sizes and from all options: the same seed and number give the same case everywhere. */
#ifndef GCONV_TESTS_DRAW_H
#define GCONV_TESTS_DRAW_H

#include "guarded.h"
#include "lot.h"

enum { GCONV_DRAWN_FILTERS = 4, GCONV_DRAWN_TEXT = 512 };

typedef struct gconv_drawn {
  gconv_guarded in; /* gaps between rows and around are 0xFF, which is NaN as f32 */
  gconv_filter items[GCONV_DRAWN_FILTERS];
  gconv_filters filters;       /* points to items */
  char name[8];                /* of all filters */
  char profile[10];            /* the ICC profile of every second image; not one that means anything */
  bool extreme;                /* samples of all magnitudes, from 1e-42 to 1e30 */
  gconv_options options;       /* algorithm is left at "auto" */
  char text[GCONV_DRAWN_TEXT]; /* what it is, on one line */
} gconv_drawn;

/* *drawn must stay where it is until it is freed. False without memory. */
bool gconv_drawn_make(gconv_drawn *drawn, uint64_t seed, uint64_t number);
void gconv_drawn_free(gconv_drawn *drawn);

#endif

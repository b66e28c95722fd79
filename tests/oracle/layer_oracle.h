/* SPDX-License-Identifier: MIT */
/* What networks compute, a second time: in float64 and plain loops, which share no line with the product. */
#ifndef GCONV_TESTS_LAYER_ORACLE_H
#define GCONV_TESTS_LAYER_ORACLE_H

#include "draw_layers.h"

/* N x C x H x W values, each with its error. */
typedef struct gconv_expected {
  int32_t n, c, h, w;
  double *value, *error;
} gconv_expected;

/* What is expected of the network: the last layer's tensor, before anything is combined. */
gconv_expected gconv_layers_expect(const gconv_drawn_network *d, const gconv_plan *network);
void gconv_expected_free(gconv_expected *t);

/* Returns whether `got` may be the result of the `count` values from channel `first` on. */
bool gconv_layers_is_right(const gconv_drawn_network *d, const gconv_expected *t, int32_t n, int32_t first, int32_t count,
                           int32_t p, int32_t q, double got, double *expected, double *allowed);

#endif

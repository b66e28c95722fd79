/* SPDX-License-Identifier: MIT */
/* Networks drawn by lot, and some that are given: the same seed and number give the same one everywhere. */
#ifndef GCONV_TESTS_DRAW_LAYERS_H
#define GCONV_TESTS_DRAW_LAYERS_H

#include "guarded.h"
#include "lot.h"

enum { GCONV_DRAWN_LAYERS = 3 };

/* A layer, and the shapes around it as they should be. */
typedef struct gconv_drawn_layer {
  gconv_bank bank;
  gconv_layer layer;
  bool each;
  int32_t groups, channels, filters; /* of the whole: C and K, or, each channel by itself, C and C * K */
  int32_t top, left, p, q, stride_y, stride_x, dilation_y, dilation_x;
} gconv_drawn_layer;

typedef struct gconv_drawn_network {
  gconv_guarded in;
  int32_t channels; /* that the first layer sees */
  gconv_drawn_layer layers[GCONV_DRAWN_LAYERS];
  gconv_layer list[GCONV_DRAWN_LAYERS];
  size_t count;
  float mean[128], std[128];
  gconv_network_options options;
  char text[1024];
} gconv_drawn_network;

/* Layers that are tested with every seed, as the first numbers (given_layers.c). */
uint64_t gconv_given_layers(void);
bool gconv_given_layer_make(gconv_drawn_network *d, uint64_t number);

/* *d must stay where it is until it is freed. False where no layer can be drawn, or without memory. */
bool gconv_drawn_network_make(gconv_drawn_network *d, uint64_t seed, uint64_t number);
void gconv_drawn_network_free(gconv_drawn_network *d);

#endif

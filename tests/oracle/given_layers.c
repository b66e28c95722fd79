/* SPDX-License-Identifier: MIT */
/*
 * Layers that lots nearly never draw, tested each time: those that gemm-3xfp16's kernels of their own take (of few taps and
 * more than 64 filters, which flow; of up to four channels, gathered; of 3 x 3 taps on three), with borders that fall in odd
 * places, and numbers whose products leave the range of float32 on the way. On an H200, more than four channels, groups and
 * dilated columns are what keeps layers as small as these from being gathered.
 */
#include "draw_layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct given {
  int n, c, h, w, k, r, s, groups, stride_y, stride_x, dilation_y, dilation_x, top, left, bottom, right;
  gconv_activation activation;
  bool bias;
  int samples, weights; /* exponents of 2 of the largest */
  bool below;           /* all sums are below 0 */
  int steps;            /* in 16 channels, samples become 2^steps times as large */
} given;

#define NONE GCONV_ACTIVATION_NONE
#define RELU GCONV_ACTIVATION_RELU
#define LEAKY GCONV_ACTIVATION_LEAKY
#define SIGMOID GCONV_ACTIVATION_SIGMOID
#define TANH GCONV_ACTIVATION_TANH

static const given all[] = {
    /* flow */
    {2, 6, 24, 26, 140, 8, 8, 2, 1, 1, 1, 1, 0, 0, 0, 0, NONE, true, 0, 0, false, 0},
    {3, 3, 23, 31, 70, 8, 8, 1, 1, 1, 1, 2, 3, 5, 4, 2, RELU, true, 0, 0, false, 0},
    {2, 6, 41, 37, 65, 4, 4, 1, 1, 1, 1, 1, 1, 0, 3, 2, LEAKY, false, 8, -4, false, 0},
    {2, 4, 33, 40, 129, 5, 7, 1, 2, 3, 1, 2, 1, 2, 0, 3, SIGMOID, true, 0, 0, false, 0},
    {1, 5, 64, 21, 97, 3, 5, 1, 1, 1, 3, 1, 2, 2, 2, 2, NONE, true, 4, 4, false, 0},
    {3, 2, 18, 34, 72, 5, 11, 1, 2, 1, 1, 2, 0, 9, 1, 8, RELU, false, 0, 0, false, 0},
    {2, 5, 13, 60, 66, 4, 8, 1, 1, 1, 1, 1, 0, 3, 0, 4, NONE, false, -62, -61, false, 0},
    {2, 6, 31, 37, 70, 4, 4, 1, 1, 1, 1, 1, 0, 0, 0, 0, RELU, true, 64, 60, true, 0},
    /* planes */
    {1, 40, 9, 33, 70, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, LEAKY, true, -62, -61, false, 0},
    {1, 40, 9, 22, 65, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0, RELU, true, 64, 60, true, 0},
    /* gathered */
    {2, 3, 24, 26, 70, 8, 8, 1, 1, 1, 1, 1, 0, 0, 0, 0, LEAKY, true, 0, 0, false, 0},
    {2, 3, 45, 37, 9, 11, 11, 1, 4, 4, 1, 1, 2, 5, 3, 1, RELU, true, 0, 0, false, 0},
    {1, 4, 33, 30, 10, 16, 16, 1, 1, 1, 1, 1, 0, 3, 0, 2, NONE, false, -62, -61, false, 0},
    {2, 3, 31, 64, 64, 7, 7, 1, 2, 2, 2, 1, 3, 3, 2, 2, SIGMOID, true, 0, 0, false, 0},
    {1, 3, 30, 41, 17, 5, 9, 1, 1, 3, 1, 1, 0, 0, 0, 0, RELU, true, 64, 60, true, 0},
    /* few */
    {2, 3, 37, 29, 70, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, LEAKY, true, 0, 0, false, 0},
    {3, 3, 40, 36, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, NONE, false, -62, -61, false, 0},
    {2, 3, 41, 30, 20, 3, 3, 1, 2, 2, 1, 1, 0, 2, 3, 1, SIGMOID, true, 0, 0, false, 0},
    {1, 3, 33, 50, 9, 3, 3, 1, 1, 2, 1, 1, 5, 0, 0, 4, RELU, true, 64, 60, true, 0},
    /* long rows and windows, which gemm on the CPU cuts, and reads where they are */
    {1, 1, 1, 14311, 19, 1, 13, 1, 1, 13, 1, 1, 0, 0, 0, 0, SIGMOID, true, 0, 0, false, 0},
    {2, 4, 3, 5511, 20, 2, 7, 2, 1, 5, 1, 2, 0, 0, 0, 0, TANH, true, 0, 0, false, 0},
    {1, 40, 2, 1503, 37, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, RELU, true, 0, 0, false, 0},
    {1, 7, 3, 1201, 33, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0, LEAKY, false, 0, 0, false, 0},
    {2, 6, 30, 31, 20, 3, 3, 1, 2, 3, 1, 2, 0, 0, 0, 0, SIGMOID, true, 0, 0, false, 0},
    {2, 3, 9, 40, 10, 1, 2, 1, 1, 2, 1, 1, 0, 0, 0, 0, NONE, true, 0, 0, false, 0},
    /* one pixel of each image, which gemm on the CPU takes for a row */
    {700, 1, 1, 200, 33, 1, 200, 1, 1, 1, 1, 1, 0, 0, 0, 0, SIGMOID, true, 0, 0, false, 0},
    {301, 40, 1, 1, 37, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, TANH, true, 0, 0, false, 0},
    {270, 6, 3, 5, 20, 2, 3, 2, 2, 3, 1, 1, 0, 0, 0, 0, RELU, true, 0, 0, false, 0},
    {110, 3400, 1, 1, 18, 1, 1, 2, 1, 1, 1, 1, 0, 0, 0, 0, LEAKY, true, 0, 0, false, 0},
    {9, 5, 2, 3, 130, 2, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0, NONE, false, 0, 0, false, 0},
    /* flow of 1 x 1, whose tiles have their own scales */
    {2, 40, 24, 26, 140, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, NONE, true, 0, 0, false, 0},
    {3, 64, 23, 31, 70, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, TANH, true, 0, 0, false, 0},
    {2, 122, 39, 43, 140, 1, 1, 2, 1, 2, 1, 1, 1, 0, 2, 3, RELU, false, 0, 0, false, 0},
    {1, 16, 33, 40, 97, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, LEAKY, true, -62, -61, false, 0},
    {2, 60, 32, 32, 256, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, RELU, true, 64, 60, true, 0},
    {5, 60, 21, 23, 12, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, RELU, true, 0, 0, false, 0},
    {33, 24, 3, 1, 70, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, NONE, true, 0, 0, false, 0},
    /* more than 64 channels: a chunk after the other, whose samples may be much larger than those before, or smaller */
    {3, 200, 23, 31, 70, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, LEAKY, true, 0, 0, false, 4},
    {2, 130, 24, 26, 40, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, TANH, true, 0, 0, false, 1},
    {2, 330, 39, 43, 140, 1, 1, 2, 1, 2, 1, 1, 1, 0, 2, 3, RELU, false, 0, 0, false, -3},
    {9, 320, 24, 26, 64, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, NONE, true, -120, -40, false, 12},
    {4, 70, 33, 40, 97, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, LEAKY, true, -62, -61, false, 0},
    {2, 128, 32, 32, 256, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, RELU, true, 64, 60, true, 0},
    {5, 65, 21, 23, 12, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, RELU, true, 0, 0, false, -20},
    /* several tiles of fft, an odd number of them, with strides, dilations and groups */
    {1, 3, 150, 170, 5, 11, 13, 1, 1, 1, 1, 1, 5, 6, 5, 6, RELU, true, 0, 0, false, 0},
    {2, 4, 97, 201, 6, 9, 5, 2, 2, 3, 2, 3, 9, 0, 7, 12, LEAKY, true, 0, 0, false, 0},
    {1, 2, 70, 300, 9, 40, 3, 1, 1, 1, 1, 4, 20, 4, 19, 4, NONE, false, 8, -4, false, 0},
    {1, 7, 64, 64, 19, 1, 31, 1, 3, 1, 1, 1, 0, 15, 0, 15, TANH, true, 0, 0, false, 0},
    {1, 3, 60, 64, 2, 16, 16, 1, 1, 1, 1, 1, 0, 0, 0, 0, NONE, true, 55, 55, false, 0},
    {1, 3, 60, 64, 2, 16, 16, 1, 1, 1, 1, 1, 0, 0, 0, 0, NONE, false, 110, -127, false, 0},
    {1, 3, 60, 64, 2, 16, 16, 1, 1, 1, 1, 1, 0, 0, 0, 0, NONE, false, -120, 100, false, 0},
    /* blocks of fft on a GPU that keep the channels of four images for several filters */
    {4, 2, 60, 60, 40, 8, 8, 1, 1, 1, 1, 1, 0, 0, 0, 0, LEAKY, true, 0, 0, false, 0},
    /* planes, two splits */
    {4, 16, 40, 40, 70, 5, 5, 1, 1, 1, 1, 1, 2, 2, 2, 2, RELU, true, 0, 0, false, 0},
    {4, 16, 40, 40, 70, 5, 5, 1, 1, 1, 1, 1, 2, 2, 2, 2, SIGMOID, false, 0, 0, false, 0},
    /* samples whose parts are below the normal numbers, and samples so large that what is made of them overflows */
    {1, 40, 9, 33, 70, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, NONE, false, -118, 90, false, 0},
    {2, 40, 9, 33, 22, 1, 1, 2, 1, 1, 1, 1, 0, 0, 0, 0, RELU, true, -127, 120, false, 0},
    {1, 40, 9, 33, 70, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, NONE, false, 128, -20, false, 0},
};

uint64_t gconv_given_layers(void) {
  return sizeof all / sizeof *all;
}

/* In [-1, 1), or, for sums below 0, of one sign. */
static float value(uint64_t *lot, int exponent, bool alone, float sign) {
  float v = (float)((double)(gconv_lot_next(lot) >> 40) * 0x1p-23 - 1);
  return ldexpf(alone ? sign * fabsf(v) : v, exponent);
}

static float *values(uint64_t *lot, size_t count, int exponent, bool alone, float sign) {
  float *v = malloc(count * sizeof *v);
  for (size_t i = 0; v && i < count; i++)
    v[i] = value(lot, exponent, alone, sign);
  return v;
}

static void set_layer(const given *g, gconv_drawn_layer *l) {
  *l = (gconv_drawn_layer){.groups = g->groups, .channels = g->c, .filters = g->k, .top = g->top, .left = g->left};
  l->stride_y = g->stride_y, l->stride_x = g->stride_x, l->dilation_y = g->dilation_y, l->dilation_x = g->dilation_x;
  l->p = (g->h + g->top + g->bottom - (g->r - 1) * g->dilation_y - 1) / g->stride_y + 1;
  l->q = (g->w + g->left + g->right - (g->s - 1) * g->dilation_x - 1) / g->stride_x + 1;
  l->layer = (gconv_layer){.padding = GCONV_LAYER_EXPLICIT, .groups = g->groups, .activation = g->activation};
  l->layer.stride_y = g->stride_y, l->layer.stride_x = g->stride_x;
  l->layer.dilation_y = g->dilation_y, l->layer.dilation_x = g->dilation_x;
  l->layer.pad_top = g->top, l->layer.pad_left = g->left, l->layer.pad_bottom = g->bottom, l->layer.pad_right = g->right;
  l->layer.slope = g->activation == LEAKY ? 0.25F : 0;
  l->bank = (gconv_bank){.filters = g->k, .channels = g->c / g->groups, .rows = g->r, .columns = g->s};
}

bool gconv_given_layer_make(gconv_drawn_network *d, uint64_t number) {
  const given *g = &all[number];
  uint64_t lot = number;
  *d = (gconv_drawn_network){.channels = g->c, .count = 1};
  gconv_image header = {.type = GCONV_F32, .planar = true, .frames = g->n, .height = g->h, .width = g->w, .channels = g->c};
  if (!gconv_guarded_make(&d->in, &header, 0, 0, 0xFF))
    return false;
  gconv_guarded_rows rows = gconv_guarded_rows_of(&d->in.image);
  for (size_t i = 0; i < rows.count; i++) {
    const int channel = (int)(i / (size_t)g->h % (size_t)g->c), exponent = g->samples + channel * g->steps / 16;
    for (size_t x = 0; x < rows.bytes / sizeof(float); x++)
      ((float *)(void *)gconv_guarded_row(&d->in.image, i))[x] = value(&lot, exponent, g->below, 1);
  }
  gconv_drawn_layer *l = &d->layers[0];
  set_layer(g, l);
  l->bank.weights = values(&lot, (size_t)g->k * (size_t)(g->c / g->groups * g->r * g->s), g->weights, g->below, -1);
  l->bank.biases = g->bias ? values(&lot, (size_t)g->k, 0, false, 1) : NULL;
  d->list[0] = l->layer;
  d->list[0].bank = &l->bank;
  snprintf(d->text, sizeof d->text, "given layer %d", (int)number);
  return l->bank.weights && (l->bank.biases || !g->bias);
}

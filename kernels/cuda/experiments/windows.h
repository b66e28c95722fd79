/* SPDX-License-Identifier: MIT */
/*
 * A stream of windows through a net, as an article of about 2011 did it: to learn from, and to compare with.
 * gconv itself runs networks by plans. The net has three layers of S neurons on windows of S samples, with sigmoids, so it
 * has as many outputs as inputs: the most that a window may cost.
 *
 *     window-a-launch    a thread per neuron, a kernel per layer, one window at a time: the article's baseline
 *     block-a-window     a block takes a window through all layers; a launch has some windows:
 *
 *         host memory  -- copy -->  windows  -- block g: x -> layer 1 -> layer 2 -> layer 3 -->  outputs  -- copy -->  host
 *
 * The numbers of a window are in shared memory, since each neuron reads all of them. A weight is used once for a window, so
 * it stays in the memory of the GPU. Weights are transposed, so that neighbouring threads read neighbouring weights,
 * optionally through the texture units and their cache. If a window is longer than a block has threads, a thread takes
 * several neurons, one after the other: so times grow in steps with the length.
 */
#pragma once

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GCONV_WINDOW_NET_LAYERS = 3, GCONV_WINDOW_NET_LONGEST = 4096 };

/* weights: S x S for each layer, a row for each neuron; biases: S for each layer. They are in host memory, and not needed
 * after gconv_window_net_create(). */
typedef struct gconv_window_net_order {
  int32_t window;   /* S: 1 to GCONV_WINDOW_NET_LONGEST */
  int32_t threads;  /* of a block, 1 to 1024 */
  int32_t together; /* the most windows of a launch; 0: window-a-launch */
  bool texture;     /* weights go through the texture units */
  const float *weights[GCONV_WINDOW_NET_LAYERS], *biases[GCONV_WINDOW_NET_LAYERS];
} gconv_window_net_order;

/* A net on the GPU that is current when it is made. One thread at a time may use it. */
typedef struct gconv_window_net gconv_window_net;

gconv_status gconv_window_net_create(const gconv_window_net_order *order, gconv_window_net **made);
/* Takes `count` windows, at most `together` (1 for window-a-launch), from host memory to host memory, and waits. */
gconv_status gconv_window_net_take(gconv_window_net *windows, const float *samples, float *outputs, int32_t count);
/* Frees what gconv_window_net_create() made. NULL is allowed. */
void gconv_window_net_free(gconv_window_net *windows);

/* Returns the multiprocessors of the current GPU. */
int32_t gconv_window_net_multiprocessors(void);

#ifdef __cplusplus
}
#endif

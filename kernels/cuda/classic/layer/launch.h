/* SPDX-License-Identifier: MIT */
/* The launch of classic layers: gconv bench measures them with other blocks and grids. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gconv_classic_launch {
  int32_t block_width, block_height; /* threads of a block; 0, or more than 1024 in all: the algorithm's own */
  int32_t blocks;                    /* blocks of the grid; 0: the algorithm's own number */
} gconv_classic_launch;

/* The launch of all classic layers of the process from now on. Not thread-safe: only gconv bench sets it, between its
 * measurements. */
extern gconv_classic_launch gconv_classic_layer_launch;

#ifdef __cplusplus
}
#endif

/* SPDX-License-Identifier: MIT */
/* How the layers that are there to learn from are launched: for measurements of what blocks and grids cost. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gconv_classic_launch {
  int32_t block_width, block_height; /* threads of a block; 0: the algorithm's own, as for more than 1024 in all */
  int32_t blocks;                    /* blocks of the grid; 0: the algorithm's own number */
} gconv_classic_launch;

/* What all classic layers of the process are launched with from now on. Not thread-safe: only gconv bench sets it, between
 * its measurements. */
extern gconv_classic_launch gconv_classic_layer_launch;

#ifdef __cplusplus
}
#endif

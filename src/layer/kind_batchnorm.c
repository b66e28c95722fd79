/* SPDX-License-Identifier: MIT */
/* Batch normalisation. Training sees all cases of a step at a time (src/train/norm_cpu.c). */
#include "layer/kind.h"

GCONV_LAYER_OF_GRAPHS(batchnorm, NULL, NULL);

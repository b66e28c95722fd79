/* SPDX-License-Identifier: MIT */
/* Transposed convolutions. Training has products of its own for them (src/train/layer_cpu.c). */
#include "layer/kind.h"

GCONV_LAYER_OF_GRAPHS(upconv, NULL, NULL);

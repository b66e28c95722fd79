/* SPDX-License-Identifier: MIT */
/* What gconv tune measures of layers. */
#ifndef GCONV_CLI_TUNE_H
#define GCONV_CLI_TUNE_H

#include "cli/bench.h"

/* Measures each algorithm for layers on layers of several sizes, and hands each of what was found to `learn`. The device has
 * no tuning in force but its machine. */
void gconv_tune_layers(gconv_bench *bench, bool quick, void (*learn)(const gconv_tuning_row *row, void *user),
                       void (*show)(const char *text, void *user), void *user);

#endif

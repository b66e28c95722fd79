/* SPDX-License-Identifier: MIT */
/*
 * What a job by a GPU depends on, and no data sheet tells: measured in each run, and remembered in the cache folder
 * (base/cache.h), a file each. A line a machine and driver, the latest first:
 *
 *     <number> TAB <machine and driver>
 */
#ifndef GCONV_CONV_HABITS_H
#define GCONV_CONV_HABITS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gconv_habit {
  GCONV_CUDA_START,    /* milliseconds that starting CUDA takes: "cuda-start.txt" */
  GCONV_DECODER_START, /* those that its decoder of JPEG takes behind that: "cuda-decoder.txt" */
  GCONV_HOST_PACE,     /* what an image takes the CPU with all threads at work, as a part of the estimate: "host-pace.txt" */
  GCONV_HABITS
} gconv_habit;

/* Whether this machine may have a GPU for CUDA: told from the nodes of its driver, without loading anything. */
bool gconv_cuda_may_start(void);

/* What is to be expected. False, and what is usual, if nothing of this machine is remembered. */
bool gconv_habit_recall(gconv_habit habit, double *number);

/* Remembers what was measured: one half of what is remembered from then on, so that one run under load counts for little
 * after a few others. */
void gconv_habit_remember(gconv_habit habit, double number);

/* ---- The file, as a text ---- */

/* The number in the line of `key`; false if there is none that makes sense. */
bool gconv_habit_find(const char *text, const char *key, double *number);

/* The text with the line of `key` at its head, and without what makes no sense or is over 16 lines: for free(); NULL without
 * memory. text may be NULL. */
char *gconv_habit_replace(const char *text, const char *key, double number);

#ifdef __cplusplus
}
#endif
#endif

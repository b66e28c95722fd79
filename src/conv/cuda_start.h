/* SPDX-License-Identifier: MIT */
/*
 * How long starting CUDA takes on this machine: measured at each start, and remembered in the cache folder (base/cache.h),
 * in "cuda-start.txt". A line a machine and driver, the latest first:
 *
 *     <milliseconds> TAB <machine and driver>
 */
#ifndef GCONV_CONV_CUDA_START_H
#define GCONV_CONV_CUDA_START_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GCONV_CUDA_START_MS 300.0 /* where nothing is remembered */

/* Whether this machine may have a GPU for CUDA: told from the nodes of its driver, without loading anything. */
bool gconv_cuda_may_start(void);

/* Milliseconds that a start takes. False, and GCONV_CUDA_START_MS, if none of this machine is remembered. */
bool gconv_cuda_start_recall(double *milliseconds);

/* Remembers a start: one half of what is remembered from then on, so that one start under load counts for little after a
 * few others. */
void gconv_cuda_start_remember(double milliseconds);

/* ---- The file, as a text ---- */

/* The milliseconds in the line of `key`; false if there is none that makes sense. */
bool gconv_cuda_start_find(const char *text, const char *key, double *milliseconds);

/* The text with the line of `key` at its head, and without what makes no sense or is over 16 lines: for free(); NULL without
 * memory. text may be NULL. */
char *gconv_cuda_start_replace(const char *text, const char *key, double milliseconds);

#ifdef __cplusplus
}
#endif
#endif

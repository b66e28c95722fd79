/* SPDX-License-Identifier: MIT */
/* Names of files in two folders that belong together: before and after, image and mask, a result and what was expected. */
#pragma once

#include "base/status.h"

/* Two names, by their numbers in the lists; one is GCONV_ALONE: the other has no partner. */
#define GCONV_ALONE SIZE_MAX
typedef struct gconv_partners {
  size_t a, b;
} gconv_partners;

/* Names that are equal are partners; of the others, those that differ by the extension alone, where each list has only one
 * of this stem. A name without a partner is an entry by itself. *partners is sorted by names, and free()d by the caller.
 * Work is that of sorting. */
gconv_status gconv_partners_find(const char *const *a, size_t a_count, const char *const *b, size_t b_count,
                                 gconv_partners **partners, size_t *count);

/* The length of a path without the extension of its last part. */
size_t gconv_stem_length(const char *path);

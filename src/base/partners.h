/* SPDX-License-Identifier: MIT */
/* Finds which files of two folders belong together by their names: before and after, image and mask, result and
 * expectation. */
#pragma once

#include "base/status.h"

/* Two names, by their numbers in the lists. If one is GCONV_ALONE, the other has no partner. */
#define GCONV_ALONE SIZE_MAX
typedef struct gconv_partners {
  size_t a, b;
} gconv_partners;

/* Finds partners. Equal names are partners. Of the other names, two are partners if they differ only by the extension, and
 * each list has only one name with this stem. A name without a partner is an entry by itself. *partners is sorted by names;
 * release it with free(). It takes about as long as sorting. */
gconv_status gconv_partners_find(const char *const *a, size_t a_count, const char *const *b, size_t b_count,
                                 gconv_partners **partners, size_t *count);

/* Returns the length of a path without the extension of its last part. */
size_t gconv_stem_length(const char *path);

/* SPDX-License-Identifier: MIT */
/* Files of two folders that belong together: before and after, or two to be compared. */
#pragma once

#include "cli/common.h"

/* Two files. If one is NULL, the other has no partner. */
typedef struct gconv_matched {
  const gconv_input *a, *b;
  const char *name; /* the name in the folders */
} gconv_matched;

/* Matches files by their relative names, as gconv_partners_find() does (base/partners.h). The list is sorted by names, and
 * for free(); the inputs own its names and files. Leaves out pictures of an earlier run: files whose stem ends in `suffix`,
 * unless that is NULL. Without `by_name`, the only pair is the first files of both sides. */
gconv_status gconv_pairs_find(const gconv_inputs *a, const gconv_inputs *b, bool by_name, const char *suffix,
                              gconv_matched **pairs, size_t *count);

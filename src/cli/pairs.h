/* SPDX-License-Identifier: MIT */
/* Files of two folders that belong together: before and after, or what is to be compared. */
#pragma once

#include "cli/common.h"

/* Two files; one is NULL: it has no partner. */
typedef struct gconv_matched {
  const gconv_input *a, *b;
  const char *name; /* of either, in its folder */
} gconv_matched;

/* Matches files by their relative names, as gconv_partners_find() says (base/partners.h). The list is sorted by names, and
 * free()d by the caller; names and files are those of the inputs. Files whose stem ends in `suffix` are pictures of an
 * earlier run, and left out; NULL: none are. Not `by_name`: the first file of each side are the only pair. */
gconv_status gconv_pairs_find(const gconv_inputs *a, const gconv_inputs *b, bool by_name, const char *suffix,
                              gconv_matched **pairs, size_t *count);

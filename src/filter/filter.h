/* SPDX-License-Identifier: MIT */
/* Functions that make filters, and append them to lists. */
#pragma once

#include "base/arguments.h"

#include <limits.h>

enum { GCONV_FILTER_MAX_FILE_BYTES = 1 << 30 /* the most bytes of a file of filters */ };

/* Appends a filter with all taps 0, divisor 1, offset 0, the anchor at rows / 2, columns / 2, and no name. *filter is valid
 * until the next call. The caller has checked the size. */
gconv_status gconv_filters_add(gconv_filters *list, int32_t rows, int32_t columns, gconv_filter **filter);

/* Frees all filters from number `count` on. */
void gconv_filters_truncate(gconv_filters *list, size_t count);

/* Names the filters from number `first` on. A single filter gets the name `name`, several get "name_1", "name_2", ...
 * Filters that have a name keep it. */
gconv_status gconv_filters_name(gconv_filters *list, size_t first, const char *name);

/* Returns whether the folder of filters that ship with gconv has a file called `name`, with or without ".txt". If so, writes
 * its path to `path`. */
bool gconv_filter_find_shipped(const char *name, char path[PATH_MAX]);

/* Warns if sum(taps) / divisor is nearly, but not quite, 1 or 0: the taps may have too few digits. `where`: the file. */
void gconv_filter_warn_rounded(const char *where, const gconv_filter *filter);

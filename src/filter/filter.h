/* SPDX-License-Identifier: MIT */
/* Making filters: limits, and lists that grow. */
#ifndef GCONV_FILTER_FILTER_H
#define GCONV_FILTER_FILTER_H

#include "base/status.h"

#include <limits.h>

enum {
  GCONV_FILTER_MAX_SIDE = 32768,        /* rows, and columns */
  GCONV_FILTER_MAX_TAPS = 1 << 26,      /* rows * columns: 256 MiB as float32 */
  GCONV_FILTER_MAX_FILE_BYTES = 1 << 30 /* of a file of filters */
};

/* Fails with GCONV_TOO_LARGE, naming the limit, if a filter cannot have this size, and with GCONV_BAD_ARGUMENT for sizes
 * below 1. `where` begins the text: a file, or the name of a built-in filter. */
gconv_status gconv_filter_check_size(const char *where, int64_t rows, int64_t columns);

/* Fails with GCONV_BAD_ARGUMENT if a filter made by a caller violates the rules of gconv.h: sizes, anchor, finite numbers.
 */
gconv_status gconv_filter_check(const gconv_filter *filter);

/* Appends a filter with all taps 0, divisor 1, offset 0, the anchor at rows / 2, columns / 2, and no name. *filter is valid
 * until the next call. The caller has checked the size. */
gconv_status gconv_filters_add(gconv_filters *list, int32_t rows, int32_t columns, gconv_filter **filter);

/* Frees all filters from number `count` on. */
void gconv_filters_truncate(gconv_filters *list, size_t count);

/* Names the filters from number `first` on: `name` if there is one, otherwise "name_1", "name_2", ... Filters that have a
 * name keep it. */
gconv_status gconv_filters_name(gconv_filters *list, size_t first, const char *name);

/* Returns whether the folder of filters that ship with gconv has a file called `name`, with or without ".txt". Then its path
 * is in `path`. */
bool gconv_filter_find_shipped(const char *name, char path[PATH_MAX]);

/* Warns if sum(taps) / divisor is nearly, but not quite, 1 or 0: probably the taps have too few digits. `where` is the file.
 */
void gconv_filter_warn_rounded(const char *where, const gconv_filter *filter);

#endif

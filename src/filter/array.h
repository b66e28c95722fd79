/* SPDX-License-Identifier: MIT */
/* Filters written as arrays in brackets. */
#ifndef GCONV_FILTER_ARRAY_H
#define GCONV_FILTER_ARRAY_H

#include "filter/syntax.h"

/* Whether the text begins as an array in brackets does, with no more before them than array.c allows: what tells an array on
 * the command line from a name. */
bool gconv_array_begins(const gconv_content *content);

#endif

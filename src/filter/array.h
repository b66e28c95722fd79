/* SPDX-License-Identifier: MIT */
/* Filters written as arrays in brackets. */
#ifndef GCONV_FILTER_ARRAY_H
#define GCONV_FILTER_ARRAY_H

#include "filter/syntax.h"

/* Returns whether the text begins like an array in brackets. Before the bracket, only what array.c allows may come. This
 * distinguishes an array on the command line from a name. */
bool gconv_array_begins(const gconv_content *content);

#endif

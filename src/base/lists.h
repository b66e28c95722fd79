/* SPDX-License-Identifier: MIT */
/* Macros that use the lists of the public headers, such as GCONV_EACH_LOSS. A row of a list has a name and a value. */
#pragma once

/* The number of rows of a list: GCONV_EACH_LOSS(GCONV_COUNTED). */
#define GCONV_COUNTED(name, value) +1

/* GCONV_NAMED and GCONV_NAMED_AS make an array of the names, indexed by the values. GCONV_NAMED_AS is for lists whose names
 * are words without quotes. */
#define GCONV_NAMED(name, value) [value] = name,
#define GCONV_NAMED_AS(name, value) [value] = #name,

/* Makes one text of the names, with a bar before each: "|sse|mse". */
#define GCONV_BARRED(name, value) "|" name

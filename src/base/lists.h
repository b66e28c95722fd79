/* SPDX-License-Identifier: MIT */
/* What is made of the lists of the public headers, such as GCONV_EACH_LOSS. A row of a list has a name and a value. */
#pragma once

/* How many rows a list has: GCONV_EACH_LOSS(GCONV_COUNTED). */
#define GCONV_COUNTED(name, value) +1

/* An array of the names, by the values; GCONV_NAMED_AS: of lists whose names are words without quotes. */
#define GCONV_NAMED(name, value) [value] = name,
#define GCONV_NAMED_AS(name, value) [value] = #name,

/* "|sse|mse": the names in one text, with a bar before each. */
#define GCONV_BARRED(name, value) "|" name

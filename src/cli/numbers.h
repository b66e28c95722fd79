/* SPDX-License-Identifier: MIT */
/* Numbers as people write them on a command line, strictly: the whole word or nothing. */
#ifndef GCONV_CLI_NUMBERS_H
#define GCONV_CLI_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal number such as -1, 0.5 or 1e-3, in *number. False for anything else: "0.5x", "0,5", "nan", "inf", "0x10", "", or
 * what overflows. */
bool gconv_parse_number(const char *text, double *number);

/* A decimal integer from least to most, in *integer. False for anything else. */
bool gconv_parse_integer(const char *text, int64_t least, int64_t most, int64_t *integer);

/* A positive count with k, M or G (thousands, millions, thousands of millions) behind it or not: "500M". */
bool gconv_parse_count(const char *text, uint64_t *count);

/* `limit` or fewer integers from least to most with commas between them; how many there are, or 0 if it is anything else. */
int gconv_parse_integers(const char *text, int limit, int64_t least, int64_t most, int32_t *integers);

#endif

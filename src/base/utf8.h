/* SPDX-License-Identifier: MIT */
/* UTF-8, as RFC 3629 defines it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns how many bytes the first character of text[0 .. size) has: 1 to 4. `size` must be at least 1. Returns 0 if there
 * is no valid character: it begins with a wrong byte, ends too early, has more bytes than it needs, is a surrogate, or is
 * above U+10FFFF. */
size_t gconv_utf8_bytes(const char *text, size_t size);

/* Returns whether text[0 .. size) consists of valid characters. */
bool gconv_utf8_is_whole(const char *text, size_t size);

/* Returns how many bytes of a text to keep if at most `most` may be kept, so that no character is cut. */
size_t gconv_utf8_cut(const char *text, size_t most);

/* SPDX-License-Identifier: MIT */
/* UTF-8, as RFC 3629 has it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns the bytes of the character at text[0 .. size), 1 to 4; 0 if there is none: bytes that no character begins with or
 * that end too early, characters in more bytes than they need, surrogates, and numbers above U+10FFFF. `size` is at least 1.
 */
size_t gconv_utf8_bytes(const char *text, size_t size);

/* Returns whether all of text[0 .. size) are such characters. */
bool gconv_utf8_is_whole(const char *text, size_t size);

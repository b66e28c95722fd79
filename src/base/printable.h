/* SPDX-License-Identifier: MIT */
/*
 * Makes texts safe to print for people. File names, names in files and messages of other libraries may have any bytes. Some
 * bytes are commands to a terminal: they set its title, move its cursor or hide earlier text. So all code that prints such a
 * name or message, or writes it into a text for people, uses a function of this header.
 */
#pragma once

#include "base/both.h"
#include "gconv.h"

#include <stdio.h>

GCONV_C_BEGIN

/* Replaces by '?' each byte that a terminal may take for a command: bytes below 0x20, with the ends of lines, and
 * 0x7F; the characters U+0080 to U+009F in UTF-8; and bytes from 0x80 to 0x9F that are no part of valid UTF-8. The length
 * stays as it is. Other bytes that are not UTF-8, such as names in Latin-1, stay. NULL is allowed. */
void gconv_make_printable(char *text);

/* Returns a printable copy of the first `length` bytes of `text`, or of fewer if the text ends before, or if a character of
 * UTF-8 would be cut; release it with free(). Returns NULL without memory. */
char *gconv_printable_copy(const char *text, size_t length);

/* Prints as fprintf() does, and makes the arguments printable, as above. Ends of lines in `format` stay; ends of lines in
 * arguments do not. So a name can never begin a line of its own. */
void gconv_print(FILE *out, const char *format, ...) GCONV_PRINTF(2, 3);

GCONV_C_END

/* SPDX-License-Identifier: MIT */
/*
 * Texts are written with options of the command line, such as --max-pixels. In what callers of the library read (the last
 * error, messages, warnings), the fields stand in their place: 'max_pixels'.
 */
#pragma once

/* From now on options stay in texts: for the program, at its beginning. */
void gconv_name_options(void);

/* Replaces options by fields, unless options shall stay; no text becomes longer. A text may begin with a path: an option at
 * its beginning stays in any case. */
void gconv_name_fields(char *text);

/* SPDX-License-Identifier: MIT */
/*
 * Texts name options of the command line, such as --max-pixels. In texts for callers of the library (the last error,
 * messages, warnings), fields take the place of options: 'max_pixels'.
 */
#pragma once

/* Lets texts keep options from now on. The program calls it at its beginning. */
void gconv_name_options(void);

/* Replaces options by fields, unless gconv_name_options() was called. No text becomes longer. An option at the beginning of
 * a text always stays, as it may be a path. */
void gconv_name_fields(char *text);

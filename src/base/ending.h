/* SPDX-License-Identifier: MIT */
/* Refuses names of outputs that promise another format than the one that is written. */
#pragma once

#include "gconv.h"

/* True if the path ends in `ending`, such as ".npy", and has more than that. */
bool gconv_ends_in(const char *path, const char *ending);

/* Fails with GCONV_BAD_ARGUMENT if the extension of `path` is known, but not among `own`, extensions with blanks between.
 * `what` is written, such as "a filter". `advice` says how to write the other format, or is "". Unknown extensions, names
 * without an extension, and "-" promise nothing. */
gconv_status gconv_check_ending(const char *path, const char *own, const char *what, const char *advice);

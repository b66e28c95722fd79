/* SPDX-License-Identifier: MIT */
/* Checks the extensions of outputs: a name must not promise another format than the one that is written. */
#pragma once

#include "gconv.h"

/* Returns whether the path ends in `ending`, such as ".npy". Returns false if it has nothing before the ending. */
bool gconv_ends_in(const char *path, const char *ending);

/* Fails with GCONV_BAD_ARGUMENT if the extension of `path` belongs to a known format, but is not in `own`, a list separated
 * by spaces. For the text, `what` names what is written, such as "a filter", and `advice` says how to write the other
 * format, or is "". Unknown extensions, names without an extension, and "-" are allowed. */
gconv_status gconv_check_ending(const char *path, const char *own, const char *what, const char *advice);

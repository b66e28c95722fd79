/* SPDX-License-Identifier: MIT */
/* Names of files that are written decide the format: a name that promises another one than the writer has is refused. */
#pragma once

#include "gconv.h"

/* GCONV_BAD_ARGUMENT if the extension of `path` is known as that of a format that is not among `own`, extensions with blanks
 * between. `what` is what is written: "a filter"; `advice`, or "", what writes the other format. Extensions that nobody
 * knows, and names without one, promise nothing; nor does "-". */
gconv_status gconv_check_ending(const char *path, const char *own, const char *what, const char *advice);

/* SPDX-License-Identifier: MIT */
/* Small files that store measurements of this machine. They are in $GCONV_CACHE, otherwise in gconv below $XDG_CACHE_HOME,
 * otherwise in .cache/gconv below $HOME. Readers must expect that a file was deleted, is shared by machines, or is damaged.
 * A file that cannot be read counts as missing; a file that cannot be written is no failure. */
#pragma once

#include "base/both.h"

#include <stdbool.h>

GCONV_C_BEGIN

/* Returns the path of the file called `name`, whether it exists or not; release it with free(). Returns NULL without memory,
 * or if none of the variables is an absolute path. Only GCONV_CACHE may be relative. If it is "", nothing is stored, and
 * NULL is returned. */
char *gconv_cache_path(const char *name);

/* Returns the content of the file, followed by a 0 byte; release it with gconv_release(). Returns NULL if there is no such
 * file, or if it is not regular, or is larger than 1 MiB. */
char *gconv_cache_read(const char *name);

/* Replaces the file, completely or not at all. Makes missing folders. Returns whether this succeeded. */
bool gconv_cache_write(const char *name, const char *text);

GCONV_C_END
